"""The page of exercised interleavings: a heat map of operation beside operation, the figures of each dimension, what is rare."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from checkers.coverage.coverage import Coverage, Kinds
from checkers.coverage.pair import MEANT, PHASES, PLACEMENTS, Pair, Phase
from reports.drawing import words
from reports.drawing.page import (
    Banner,
    Block,
    Fold,
    Legend,
    Page,
    Section,
    Table,
    TableColumn,
    TableRow,
    Text,
    bar,
    joined,
    tag,
)
from reports.run.interleavings import words_of

FILE = "coverage"
MOST_RARE = 60
MOST_BEYOND = 60
MOST_UNREAD = 20
STEPS: tuple[tuple[float, str], ...] = (
    (0.0, "none"),
    (0.25, "up to a quarter"),
    (0.5, "up to half"),
    (0.75, "up to three quarters"),
    (0.9999999, "more"),
    (1.0, "all"),
)
"""Share of the possible pairs, at most → what the legend says of the colour."""


@dataclass(frozen=True, slots=True)
class Strip:
    """One phase in a square. ``heat``: index in :data:`STEPS`; None: no pair is possible."""

    phase: Phase
    heat: int | None
    covered: int
    possible: int


@dataclass(frozen=True, slots=True)
class Square:
    """An ordered pair of operations on the page; ``times``: how often their pairs were seen."""

    first: str
    second: str
    strips: tuple[Strip, ...]
    covered: int
    possible: int
    times: int

    @property
    def title(self) -> str:
        """What is shown when one points at it."""
        parts = [f"{s.phase} {s.covered} of {s.possible}" for s in self.strips if s.possible]
        return (
            f"{self.second} while {self.first} writes: {self.covered} of {self.possible} pairs, seen "
            f"{words.plural(self.times, 'time')}; {', '.join(parts)}"
        )


@dataclass(frozen=True, slots=True)
class PairCount:
    """Covered and possible pairs of one value of a dimension."""

    name: str
    covered: int
    possible: int
    meaning: str = ""


def heat(covered: int, possible: int) -> int | None:
    """The index in :data:`STEPS` of a share; None if there is nothing to cover."""
    if not possible:
        return None
    return next(n for n, (most, _) in enumerate(STEPS) if covered / possible <= most)


def kinds_of(c: Coverage) -> list[str]:
    """The operations on both axes: those with the most pairs seen first."""
    seen: Counter[str] = Counter()
    for p, n in c.seen.items():
        seen[p.first] += n
        seen[p.second] += n
    every = {name for p in c.possible for name in (p.first, p.second)}
    return sorted(every, key=lambda name: (-seen[name], name))


def squares(c: Coverage) -> dict[Kinds, Square]:
    """Every ordered pair of operations that is possible."""
    possible: dict[Kinds, Counter[Phase]] = {}
    covered: dict[Kinds, Counter[Phase]] = {}
    times: Counter[Kinds] = Counter()
    for p in c.possible:
        possible.setdefault((p.first, p.second), Counter())[p.phase] += 1
        if p in c.seen:
            covered.setdefault((p.first, p.second), Counter())[p.phase] += 1
            times[p.first, p.second] += c.seen[p]
    out = {}
    for kinds, every in possible.items():
        have = covered.get(kinds, Counter())
        strips = tuple(Strip(x, heat(have[x], every[x]), have[x], every[x]) for x in PHASES)
        out[kinds] = Square(*kinds, strips, have.total(), every.total(), times[kinds])
    return out


def figures(c: Coverage) -> dict[str, list[PairCount]]:
    """Dimension → its values, in order."""
    by_dimension = {name: c.counts_by(name) for name in ("phase", "placement", "setup")}
    return {
        "phase of the first": [
            PairCount(x, *by_dimension["phase"][x], MEANT[x]) for x in PHASES if x in by_dimension["phase"]
        ],
        "place of the second": [
            PairCount(x, *by_dimension["placement"][x]) for x in PLACEMENTS if x in by_dimension["placement"]
        ],
        "set-up of the table": [PairCount(str(x), *by_dimension["setup"][x]) for x in sorted(by_dimension["setup"])],
    }


def pairs_of_kinds(c: Coverage) -> tuple[int, int]:
    """How many ordered pairs of operations were seen in any phase and place, and how many are possible."""
    every = c.of_kinds()
    return sum(1 for covered, _ in every.values() if covered), len(every)


def never(c: Coverage) -> list[Kinds]:
    """Ordered pairs of operations that were never seen, in any phase or place."""
    return sorted(kinds for kinds, (covered, _) in c.of_kinds().items() if not covered)


def of(c: Coverage, title: str, unread: Sequence[str] = ()) -> Page:
    """The page.

    Args:
        title: what it is the coverage of.
        unread: runs that cannot be read, a sentence each.
    """
    met, every = pairs_of_kinds(c)
    return Page(
        FILE,
        f"interleavings of {title}",
        Banner(
            "measured",
            f"{words_of(c)} were exercised in {words.plural(c.runs, 'run')}",
            f"Of {words.plural(every, 'ordered pair')} of operations, {words.grouped(met)} met in any phase and place.",
        ),
        [
            *([Section("Not read", "unread", [Text(_unread(unread), "list", 400)])] if unread else []),
            Section("Operation beside operation", "squares", _beside(c)),
            Section("Figures", "figures", [_figures(c)], terminal=""),
            Section("Rare", "rare", _rare(c)),
            Section("Not counted", "beyond", _not_counted(c), terminal="Not counted:"),
        ],
        as_json(c, unread),
        lead="A pair: the commit of the second operation (column) landed while the first one (row) was in a phase of its write, on the same "
        "table, in a certain place beside it, on a table that is set up in a certain way.",
    )


def _unread(unread: Sequence[str]) -> list[str]:
    more = len(unread) - MOST_UNREAD
    return [*unread[:MOST_UNREAD], *([f"and {words.plural(more, 'other run')}"] if more > 0 else [])]


def _beside(c: Coverage) -> list[Block]:
    """The heat map."""
    found, kinds = squares(c), kinds_of(c)
    names = ", ".join(x for x in PHASES if x in c.counts_by("phase"))
    empty = "No pair is possible: no workload of these runs has two writers that write."
    rows = [TableRow([first, *(_square(found.get((first, second))) for second in kinds)]) for first in kinds]
    legend = [(tag("i", "", f"sq h{n}"), text) for n, (_, text) in enumerate(STEPS)]
    return [
        Text(
            [
                f"The six strips of a square are the phases of the first operation, in order: {names}. Point at a square for its numbers."
            ],
            "muted",
        ),
        Legend([*legend, (tag("i", "", "sq hx"), "not possible")]),
        Table([TableColumn("first ↓ · second →"), *map(TableColumn, kinds)], rows, empty, "squares"),
    ]


def _square(s: Square | None) -> Markup:
    if s is None:
        return tag("span", "", "pair hx")
    strips = joined(tag("i", "", "hx" if x.heat is None else f"h{x.heat}") for x in s.strips)
    return tag("span", strips, "pair", title=s.title)


def _figures(c: Coverage) -> Table:
    columns = [
        TableColumn("", terminal=""),
        *(TableColumn(name, right=True, terminal=name) for name in ("exercised", "possible", "share")),
        *(TableColumn(""), TableColumn("", mark="muted")),
    ]
    rows = []
    for dimension, values in figures(c).items():
        rows += [TableRow(head=dimension)] if values else []
        rows += [
            TableRow(
                [
                    *(f.name, words.grouped(f.covered), words.grouped(f.possible), words.share(f.covered, f.possible)),
                    *(tag("span", bar(100 * f.covered / f.possible), "level"), f.meaning),
                ]
            )
            for f in values
        ]
    return Table(columns, rows)


def _pairs(rows: Iterable[tuple[Pair, int]]) -> Table:
    names = ("first", "in", "second commits", "place", "table")
    return Table(
        [*map(TableColumn, names), TableColumn("times", right=True)],
        [TableRow([p.first, p.phase, p.second, p.placement, str(p.setup), words.grouped(n)]) for p, n in rows],
        "Nothing was exercised.",
    )


def _rare(c: Coverage) -> list[Block]:
    rare, unmet = c.rare(MOST_RARE), never(c)
    out: list[Block] = [Text(["The exercised pairs that were seen least often."] if rare else []), _pairs(rare)]
    if unmet:
        met = "; ".join(f"{words.shorten(b, 60)} while {words.shorten(a, 60)} writes" for a, b in unmet)
        name = f"{words.plural(len(unmet), 'ordered pair')} of operations that never met"
        out.append(Fold(name, [Text([met], most=1 << 20)]))
    return out


def _not_counted(c: Coverage) -> list[Block]:
    out: list[Block] = []
    if c.beyond:
        seen = (
            f"{words.plural(len(c.beyond), 'other pair')} that the workloads do not name: the maintenance of faults, or operations in a "
            "place where a workload's own keys are not expected."
        )
        out += [Text([seen]), _pairs(_most(c, c.beyond))]
    if c.untold:
        lost = f"{words.plural(c.untold.total(), 'time')} the phase is not known in which a commit landed: no proxy saw it."
        untold = c.untold.most_common(MOST_BEYOND)
        columns = [TableColumn("first"), TableColumn("second commits"), TableColumn("times", right=True)]
        out += [Text([lost]), Table(columns, [TableRow([*kinds, words.grouped(n)]) for kinds, n in untold])]
    return out or [Text(["Nothing."], "muted")]


def _most(c: Coverage, pairs: Iterable[Pair]) -> list[tuple[Pair, int]]:
    return [(p, n) for n, p in sorted((-c.seen[p], p) for p in pairs)[:MOST_BEYOND] for n in (-n,)]


def as_json(c: Coverage, unread: Sequence[str] = ()) -> Mapping[str, object]:
    """For ``--json``: the coverage with its figures."""
    document = {
        dimension: [{"value": f.name, "covered": f.covered, "possible": f.possible} for f in values]
        for dimension, values in figures(c).items()
    }
    return {**c.to_json(), "figures": document, "never": [list(kinds) for kinds in never(c)], "unread": list(unread)}
