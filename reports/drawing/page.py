"""A page as a value: its answer, its sections of tables, drawings and text, and its data. ``reports.drawing.render`` shows it.

Every text is plain and is escaped where it is shown, but for a ``Markup``, which the functions at the end of this file and
``reports.drawing.svg`` make. So a page holds nothing that a run from elsewhere could make a browser do.

A person on a terminal reads a part of the same value: the sections that have words for it (:attr:`Section.terminal`), and of a table the
columns that have a name for it (:attr:`TableColumn.terminal`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, ClassVar, Literal

from markupsafe import Markup, escape

from reports.drawing.svg import element
from reports.drawing.words import grouped

BANNER_SYMBOLS = {
    "valid": "✓",
    "invalid": "✕",
    "unknown": "?",
    "incomplete": "…",
    "reproduced": "!",
    "harmed": "!",
    "known": "!",
    "measured": "i",
}
"""Status of a banner → the symbol before its headline."""


@dataclass(frozen=True, slots=True)
class Banner:
    """The answer: ``status`` is a key of :data:`BANNER_SYMBOLS` and a class of the style sheet.

    ``errors``: why operations of a run failed or are of unknown outcome, a line for each of the two, and what a valid run did not test;
    ``mark``: beside the headline, in a word or two.
    """

    status: str
    headline: str
    sentence: str
    errors: tuple[tuple[str, str], ...] = ()
    mark: str = ""


# --- blocks -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TableCell:
    """A cell of a table.

    Attributes:
        below: smaller lines under the text.
        title: what is shown when one points at it.
        mark: classes of the style sheet.
        sort: by which a sortable column orders its rows; None: by the text, or last in a column of numbers.
        plain: what a terminal shows instead of the text.
    """

    text: str
    below: tuple[str, ...] = ()
    title: str = ""
    mark: str = ""
    sort: float | str | None = None
    plain: str | None = None


@dataclass(frozen=True, slots=True)
class TableRow:
    """A row of a table.

    Attributes:
        cells: one for each column; a bare text is a cell with nothing else.
        anchor: by which the page links to it.
        head: if not empty, the row has no cells: it is the head of the rows that follow.
        below: a line below the row, as wide as the table.
        of: what it is about: who points at something of the same, sees it marked.
        terminal: whether a terminal shows it.
    """

    cells: Sequence[str | TableCell] = ()
    anchor: str = ""
    mark: str = ""
    head: str = ""
    below: str = ""
    of: str = ""
    terminal: bool = True


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A column of a table.

    Attributes:
        right: it has numbers.
        sort: a click on its name sorts the rows.
        terminal: its name on the terminal; None: it is not shown there.
        most: characters of a text of it that are shown.
        mark: classes of the style sheet for all its cells.
        title: what is shown when one points at its name.
    """

    name: str
    right: bool = False
    sort: bool = False
    terminal: str | None = None
    most: int = 160
    mark: str = ""
    title: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """Rows below named columns.

    Attributes:
        empty: what is said when there is no row.
        form: ``wide``: the first column stays where it is while the others scroll; ``squares``: small drawn cells below upright names;
            ``fit``: no wider than its texts.
    """

    columns: Sequence[TableColumn]
    rows: Sequence[TableRow]
    empty: str = "None."
    form: Literal["", "wide", "squares", "fit"] = ""
    kind: ClassVar[str] = "table"

    def __post_init__(self) -> None:
        """A row with another number of cells would stand below the wrong names."""
        for row in self.rows:
            if not row.head and len(row.cells) != len(self.columns):
                raise ValueError(f"a row of {len(row.cells)} cells below {len(self.columns)} columns: {row.cells}")


@dataclass(frozen=True, slots=True)
class Text:
    """Paragraphs; those of a ``list`` get a mark each, of ``steps`` a number, of ``chips`` a frame, of ``figures`` only room between them, and
    ``problems`` are a list in a frame; a ``note`` is small and explains what stands above it, and lines end where those of ``why`` do, and
    a ``consequence`` is what matters, as an ``answer`` on the first screen."""

    paragraphs: Sequence[str]
    form: Literal[
        "plain", "list", "steps", "chips", "figures", "problems", "note", "muted", "why", "consequence", "answer"
    ] = "plain"
    most: int = 3000
    kind: ClassVar[str] = "text"


@dataclass(frozen=True, slots=True)
class Plot:
    """A drawing below its name; ``detail``: smaller, behind the name."""

    drawing: Markup
    name: str = ""
    detail: str = ""
    kind: ClassVar[str] = "plot"


@dataclass(frozen=True, slots=True)
class Plots:
    """Drawings beside each other, as many as there is room for; ``small``: each a quarter of the page."""

    plots: Sequence[Plot]
    name: str = ""
    detail: str = ""
    small: bool = False
    kind: ClassVar[str] = "plots"


@dataclass(frozen=True, slots=True)
class Legend:
    """What marks and colours mean."""

    keys: Sequence[tuple[Markup, str]]
    kind: ClassVar[str] = "legend"


@dataclass(frozen=True, slots=True)
class Pairs:
    """Names and what each is; ``form``: in two columns of a table, or close to each other as in a description of what stands above."""

    rows: Sequence[tuple[str, str]]
    form: Literal["", "about"] = ""
    kind: ClassVar[str] = "pairs"


@dataclass(frozen=True, slots=True)
class FileText:
    """The text of a file."""

    text: str
    kind: ClassVar[str] = "file"


@dataclass(frozen=True, slots=True)
class Fold:
    """Blocks that are shown when one opens them; ``open``: one did already. A link to ``anchor`` opens them, too."""

    name: str
    blocks: Sequence[Block]
    open: bool = False
    anchor: str = ""
    kind: ClassVar[str] = "fold"


@dataclass(frozen=True, slots=True)
class BlockGroup:
    """Blocks that belong together: each part a column beside the others.

    Attributes:
        form: empty: equal columns, as many as there is room for; ``single``: below each other; ``named``: the first part is the name of the
            second; ``aside``: the second part stands beside the first on a wide screen, and is half as wide; ``story``: in a frame.
    """

    parts: Sequence[Sequence[Block]]
    form: Literal["", "single", "named", "aside", "story"] = ""
    kind: ClassVar[str] = "group"


@dataclass(frozen=True, slots=True)
class Card:
    """One finding: its head, and blocks that are shown when one opens it; ``mark``: classes of the style sheet."""

    head: str
    blocks: Sequence[Block]
    anchor: str
    mark: str = ""
    open: bool = False


@dataclass(frozen=True, slots=True)
class Cards:
    """Findings, the gravest first."""

    cards: Sequence[Card]
    kind: ClassVar[str] = "cards"


@dataclass(frozen=True, slots=True)
class Heading:
    """A name before the blocks that follow; ``anchor``: by which the page links to it."""

    name: str
    anchor: str = ""
    kind: ClassVar[str] = "heading"


@dataclass(frozen=True, slots=True)
class Choice:
    """A field of a form: a text, or one of ``options``, which are values with their names."""

    label: str
    name: str
    value: str
    options: Sequence[tuple[str, str]] = ()


@dataclass(frozen=True, slots=True)
class Form:
    """Fields that a server is asked by, and blocks that may have more of them."""

    action: str
    choices: Sequence[Choice]
    button: str
    blocks: Sequence[Block] = ()
    kind: ClassVar[str] = "form"


Block = Form | Table | Text | Plot | Plots | Legend | Pairs | FileText | Fold | Heading | BlockGroup | Cards


def inside(block: Block) -> Iterator[Block]:
    """The blocks that a block holds."""
    if isinstance(block, Fold | Form):
        yield from block.blocks
    elif isinstance(block, BlockGroup):
        yield from (b for part in block.parts for b in part)
    elif isinstance(block, Cards):
        yield from (b for card in block.cards for b in card.blocks)


# --- the page ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a page.

    Attributes:
        anchor: by which the page links to it.
        short: its name in the list of sections; empty: the title.
        terminal: its head on the terminal. Empty: its texts stand there as paragraphs without a head; None: it is not shown there.
        last: on the terminal it stands after the others, where the eye is when a command ends.
    """

    title: str
    anchor: str
    blocks: Sequence[Block]
    short: str = ""
    terminal: str | None = None
    last: bool = False


@dataclass(frozen=True, slots=True)
class JUnitCase:
    """One line of JUnit.

    Attributes:
        outcome: ``passed``, or the element that a CI server counts.
        text: the details of a case that did not pass; ``out``: what else is to be known.
        type: of a failure, in a word.
        seconds: how long it took, as text.
    """

    name: str
    outcome: Literal["passed", "failure", "error", "skipped"] = "passed"
    message: str = ""
    text: str = ""
    out: str = ""
    type: str | None = None
    seconds: str = "0"


@dataclass(frozen=True, slots=True)
class JUnitSuite:
    """What a CI server reads of a page: its cases and properties. ``started``: in UTC."""

    name: str
    seconds: float
    properties: Mapping[str, object]
    cases: Sequence[JUnitCase]
    started: datetime | None = None


@dataclass(frozen=True, slots=True)
class Page:
    """All of a page.

    Attributes:
        file: the name of its files, without their endings.
        name: what it is the page of; ``place``: where that lies.
        data: its JSON values; None: they are in a file that was there before the page.
        told: what belongs to the answer, below its sentence; ``below``: the same, below the banner.
        facts: names and values below that.
        lead: what it is about, in a sentence.
        command: what one types to go on or to see it again, below its label; ``rest``: what follows it, before the sections.
        footer: where its numbers come from.
        dense: its JSON is written on one line.
        suite: its cases for a CI server; None: there is none.
    """

    file: str
    name: str
    banner: Banner
    sections: Sequence[Section]
    data: Mapping[str, Any] | None = None
    facts: Sequence[tuple[str, str]] = ()
    lead: str = ""
    command: tuple[str, str] | None = None
    footer: str = ""
    dense: bool = False
    suite: JUnitSuite | None = field(default=None, repr=False)
    place: str = ""
    told: Sequence[Block] = ()
    below: Sequence[Block] = ()
    rest: Sequence[Block] = ()

    @property
    def blocks(self) -> Iterator[Block]:
        """All its blocks, also those inside others."""
        pending = [*self.told, *self.below, *self.rest, *(b for s in self.sections for b in s.blocks)]
        while pending:
            block = pending.pop()
            pending += inside(block)
            yield block


def plain_table(names: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    """A table of texts alone, which a terminal shows whole."""
    return Table([TableColumn(name, terminal=name, most=1 << 16) for name in names], [TableRow(row) for row in rows])


# --- words inside a text ----------------------------------------------------------------------------------------------


def tag(name: str, text: str, mark: str = "", **attributes: object) -> Markup:
    """An element around a text."""
    return element(name, text, class_=mark or None, **attributes)


def link(text: str, href: str | None, mark: str = "") -> str:
    """A link; the text alone if there is no address."""
    return text if href is None else tag("a", text, mark, href=href)


def in_numbers(steps: Sequence[str]) -> str:
    """One step as a text, several as a list with numbers; empty for none."""
    return steps[0] if len(steps) == 1 else tag("ol", joined(tag("li", s) for s in steps)) if steps else ""


def outside(text: str, href: str | None, mark: str = "") -> str:
    """A link out of the store, which is not told where one comes from; the text alone if there is no address."""
    return text if href is None else tag("a", text, mark, href=href, rel="noreferrer")


def badge(status: str, text: str) -> Markup:
    """A verdict, coloured as its ``status``."""
    return tag("span", text, f"v {status}")


def muted(text: str) -> Markup:
    """What matters less."""
    return tag("span", text, "muted")


def counted(count: int | str) -> TableCell:
    """A number of a table, which is pale if it is 0."""
    return TableCell(grouped(count), mark="zero" if count in (0, "0") else "")


def bar(percent: float, mark: str = "") -> Markup:
    """A bar of so much of its cell's width."""
    return element("i", "", class_=mark or None, style=f"width:{percent:.1f}%")


def joined(parts: Iterable[str], separator: str = "") -> Markup:
    """Texts behind each other, each escaped unless it is Markup."""
    return Markup(escape(separator)).join(parts)
