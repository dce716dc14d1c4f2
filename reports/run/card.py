"""One story, or one anomaly, as a card: what happened, why it is a contradiction, and what the operations involved did."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from markupsafe import Markup

from checkers.evidence.change_requests import ChangeRequest
from checkers.evidence.history import Operation
from checkers.evidence.tablelog import Commit, RowChange, TableLog
from checkers.judge.stories import Story
from checkers.names import Harm, Meaning, meaning
from checkers.timeline import explain
from checkers.verdict import Anomaly
from reports.drawing import page, words
from reports.drawing.page import (
    Block,
    BlockGroup,
    FileText,
    Fold,
    Pairs,
    Table,
    TableColumn,
    TableRow,
    Text,
    in_numbers,
    joined,
    link,
    muted,
    outside,
    tag,
)
from reports.drawing.svg import element
from reports.run import faulted, operations, picture, statements, stories_view, values
from reports.run.bands import Band
from reports.run.operations import Shown, shortened, snapshot
from reports.run.repairs import repair_steps, with_code
from reports.run.stories_view import StoryView

FULL_CARDS = 10
"""Number of cards with full-length texts and lists of operations; later cards get half of that."""
OPEN_CARDS = 5
MOST_OPS = 12
MOST_SNAPSHOTS = 8
MOST_ROWS = 6
MOST_FACTS = 12
MOST_TEXT = 2000
MOST_EVIDENCE = 800
MOST_REQUESTS = 16
MOST_OTHERS = 8
"""Other anomalies of a story that are shown."""


@dataclass(frozen=True, slots=True)
class CardSubject:
    """What a card is about.

    Attributes:
        n: number of the card, from 1.
        anomaly: that is explained first; None for a table that is unreadable without an anomaly.
        others: the other anomalies of its story.
        view: its story; None for an anomaly that no story tells.
    """

    n: int
    anomaly: Anomaly | None
    others: tuple[Anomaly, ...] = ()
    view: StoryView | None = None

    @property
    def anchor(self) -> str:
        """The id of the card in the page."""
        return f"anomaly-{self.n}"

    @property
    def name(self) -> str:
        """The name of what was found."""
        return self.view.story.name if self.view is not None else self.anomaly.name if self.anomaly is not None else ""

    @property
    def shown(self) -> tuple[Anomaly, ...]:
        """The anomalies that the card shows."""
        return (*((self.anomaly,) if self.anomaly is not None else ()), *self.others[:MOST_OTHERS])

    @property
    def ops(self) -> tuple[str, ...]:
        """The operations involved, those at fault first."""
        told = self.view.story.ops if self.view is not None else ()
        raced = [op for pair in self.view.story.instead for op in pair] if self.view is not None else []
        return tuple(dict.fromkeys((*(self.anomaly.ops if self.anomaly is not None else ()), *raced, *told)))


def card(
    shown: Shown,
    found: CardSubject,
    involved: Sequence[Operation],
    related: Sequence[CardSubject],
    bands: Sequence[Band],
) -> page.Card:
    """The card of a story, or of an anomaly that no story tells.

    Args:
        involved: its operations that the history has, in its order of them.
        related: other cards with operations of it.
        bands: when faults were on.
    """
    a, view = found.anomaly, found.view
    room = 1 if found.n <= FULL_CARDS else 2
    most, most_ops = MOST_TEXT // room, MOST_OPS // room
    means = meaning(found.name)
    few = sorted(involved[:most_ops], key=lambda o: o.start)
    parts = _parts(view)
    seen: list[Block] = [] if view is None else stories_view.what_happened(view)
    seen += [] if a is None else [_why(a, most)]
    lost = [op for op, part in parts.items() if part == LOST]
    seen += picture.blocks(picture.interleaving(shown, few, bands, lost), f"Operations of anomaly {found.n}")
    if few:
        seen += [operations.table(shown, few, parts=parts, keys=() if a is None else a.keys)]
        seen += _more(len(involved) - most_ops, "operation", ", in results.json.")
    if a is not None:
        seen += [*_snapshots(shown, found, few), *_requests(shown, found), *_minimal(shown, a, view)]
        seen += _trail_of(a) if found.n <= FULL_CARDS else []
        seen += _evidence(a, most)
    seen += [block for other in found.others[:MOST_OTHERS] for block in _other(other, most)]
    seen += _more(len(found.others) - MOST_OTHERS, "anomaly of this", ", in results.json.")
    beside: list[Block] = [Pairs(_about(shown, found, few, means, related), "about"), *_name(found.name, means)]
    beside += [] if view is None else stories_view.known_defects(view)
    # The statement to run again stands first: the box shows some fifty lines, and scrolls.
    again = [o for o in stated(shown, found) if o not in few]
    stands = sorted([*few, *again[:MOST_OPS]], key=lambda o: parts.get(o.op) != LOST)
    beside += statements.blocks(shown.run, stands)
    beside += _more(
        len(again) - MOST_OPS, "statement", joined((", in ", link("all statements", f"#{STATEMENTS}"), "."))
    )
    sentence = view.story.consequence if view is not None else means.sentence if means is not None else ""
    consequence: list[Block] = [Text([shortened(sentence)], "consequence")] if sentence else []
    consequence += [Pairs(_answer(shown, found, few, means), "about")]
    mark = "documented" if a is not None and a.documented else ""
    blocks = [*consequence, BlockGroup([seen, beside], "aside")]
    return page.Card(_head(shown, found, few), blocks, found.anchor, mark, found.n <= OPEN_CARDS)


def stated(shown: Shown, found: CardSubject) -> list[Operation]:
    """The operations of what to do now, whose statements a person needs."""
    again = (op for s in found.view.story.repairs for op in s.ops) if found.view is not None else ()
    return [shown.operations[op] for op in dict.fromkeys(again) if op in shown.operations]


STATEMENTS = "statements"
"""The anchor of the statements of all cards, if one has not room for its own."""
LOST, INSTEAD = "lost", "took its place"
"""What became of the commits of a race."""


def _parts(view: StoryView | None) -> dict[str, str]:
    """Operation → what became of its commit, of a story in which one took the place of another."""
    pairs = view.story.instead if view is not None else ()
    return {**{winner: INSTEAD for _, winner in pairs}, **{loser: LOST for loser, _ in pairs}}


def _answer(
    shown: Shown, found: CardSubject, involved: Sequence[Operation], means: Meaning | None
) -> list[tuple[str, str]]:
    """Who did it, what to do now, and what to do that it does not happen again."""
    story = found.view.story if found.view is not None else None
    who = (
        ", ".join(_engines(involved))
        if found.view is None
        else words.shorten(stories_view.who_and_how(found.view), 600)
    )
    asked = statements.asked(shown.run, stated(shown, found))
    pairs = [
        ("who did it", who),
        ("do now", in_numbers(repair_steps(story.repairs, asked=asked) if story is not None else [])),
        ("avoid it", with_code(_remedy(story, means))),
        ("until then", story.meanwhile if story is not None else ""),
    ]
    return [(name, said) for name, said in pairs if said]


_WHY = re.compile(" (?=Why: )")


def _why(a: Anomaly, most: int) -> Text:
    cut = " … (cut; the whole text is in results.json)" if len(a.explanation) > most else ""
    said = f"{a.explanation[:1].upper()}{a.explanation[1:most]}" or "The checker gave no explanation."
    return Text([shortened(part) for part in _WHY.split(said + cut)], "why")


def _trail_of(a: Anomaly) -> list[Block]:
    trail = "\n".join(words.shorten(x, 600) for x in _trail(a))
    return [Fold("From operation to row", [FileText(shortened(trail))])] if trail else []


def _evidence(a: Anomaly, most: int) -> list[Block]:
    return [Fold("Evidence", values.blocks(a.evidence, most * MOST_EVIDENCE // MOST_TEXT))] if a.evidence else []


def _other(a: Anomaly, most: int) -> list[Block]:
    """Another anomaly of the same story, in its own words."""
    confirms = f", confirms {words.shorten(a.same_as, 60)}" if a.same_as else ""
    name = f"{words.shorten(a.name, 80)}, found by {words.shorten(a.checker, 40)}{confirms}"
    return [Fold(name, [_why(a, most // 2), *_evidence(a, most // 2)])]


def _head(shown: Shown, found: CardSubject, involved: Sequence[Operation]) -> Markup:
    a, view = found.anomaly, found.view
    name = words.shorten(found.name, 80)
    parts: list[str] = [muted(str(found.n))]
    if view is None:
        parts += [tag("b", name), *(tag("span", who, "tag engine") for who in _engines(involved))]
    else:
        parts += [
            tag("b", words.shorten(view.story.headline, 300)),
            tag("span", words.shorten(view.who, 120), "tag engine"),
            tag("span", stories_view.standing(shown.run, view.story), "tag"),
        ]
    if a is not None and a.documented:
        text, href = words.link_label(a.documented), words.safe(a.documented)
        said = f"documented: {text if href else words.shorten(text, 120)}"
        parts.append(outside(said, href, "tag") if href else tag("span", said, "tag"))
    if mark := view.mark if view is not None else shown.run.mark(a) if a is not None else "":
        parts.append(tag("span", mark, "tag"))
    table = view.story.table if view is not None else a.table if a is not None else None
    where = [Markup("table ") + tag("b", words.shorten(table, 60)) + " · "] if table else []
    where += [] if view is None else [stories_view.term(name) + ", "]
    if a is not None:
        where.append(Markup("found by ") + words.shorten(a.checker, 40))
        if a.same_as and view is None:
            where.append(Markup(", says in other words ") + tag("b", words.shorten(a.same_as, 60)))
    parts.append(element("span", *where, class_="where"))
    return joined(parts, " ")


def _engines(involved: Iterable[Operation]) -> list[str]:
    """Who executed the operations."""
    return list(dict.fromkeys(explain.engine(o) for o in involved))[:4]


def _name(name: str, means: Meaning | None) -> list[Block]:
    """What the name of an anomaly means, for who opens it."""
    if means is None:
        return []
    facts = [("for example", f"{means.example}.")] if means.example else []
    facts += [("harm", str(means.harm)), ("usually at fault", str(means.culprit))]
    facts += [("more", tag("code", f"icequake explain {words.shorten(name, 60)}"))]
    return [Fold(f"What “{words.shorten(name, 60)}” means", [Text([means.sentence]), Pairs(facts, "about")])]


def _more(count: int, what: str, end: str = ".") -> list[Block]:
    return [Text([joined((f"and {words.plural(count, f'more {what}')}", end))], "note")] if count > 0 else []


def _about(
    shown: Shown,
    found: CardSubject,
    involved: Sequence[Operation],
    means: Meaning | None,
    related: Sequence[CardSubject],
) -> list[tuple[str, str]]:
    """Who, what and where."""
    absent = [op for op in found.ops if op not in shown.operations][:MOST_OPS]
    others = (link(f"{m.n} {words.shorten(m.name, 40)}", f"#{m.anchor}") for m in related)
    story, a = found.view.story if found.view is not None else None, found.anomaly
    keys = dict.fromkeys((*(story.keys if story is not None else ()), *(a.keys if a is not None else ())))
    snapshots = dict.fromkeys(
        (*(story.snapshots if story is not None else ()), *(a.snapshots if a is not None else ()))
    )
    files = dict.fromkeys(f for one in found.shown for f in one.files)
    table = story.table if story is not None else a.table if a is not None else ""
    pairs = [
        ("harm", _harm(story, means)),
        ("table", words.shorten(table or "", 60)),
        ("operations", joined((shown.link(o.op) for o in involved), ", ")),
        ("keys", _listed(map(_key, keys), len(keys), ", ")),
        ("snapshots", _listed(map(snapshot, snapshots), len(snapshots), ", ")),
        ("files", _listed((words.shorten(f, 160) for f in files), len(files), Markup("<br>"))),
        ("not in the history", joined((words.shorten(op, 60) for op in absent), ", ")),
        ("same operations in", joined(others, ", ")),
    ]
    mono = ("operations", "keys", "snapshots", "files", "not in the history")
    return [(name, tag("span", said, "mono") if name in mono else said) for name, said in pairs if said]


def _remedy(story: Story | None, means: Meaning | None) -> str:
    """What to do: the story knows what the run had; of one that an older icequake told, or none, what the name says."""
    said = story.remedy if story is not None else ""
    return said or (means.remedy if means is not None else "")


def _harm(story: Story | None, means: Meaning | None) -> str:
    """How bad it is; of a table that nobody can read that comes first."""
    harm = story.harm if story is not None else means.harm if means is not None else None
    harms = [Harm.UNREADABLE] if story is not None and story.unreadable else []
    return "; ".join(dict.fromkeys(map(str, [*harms, *([harm] if harm is not None else [])])))


def _key(key: object) -> Markup:
    """A key, by which one may filter the timeline."""
    return tag("a", words.shorten(str(key), 40), href="#timeline", data_pick=f"k{words.shorten(str(key), 40)}")


def _listed(items: Iterable[str], of: int, by: str) -> Markup:
    """The first items of a list, and how many more there are."""
    more = [f"and {words.grouped(of - MOST_FACTS)} more"] if of > MOST_FACTS else []
    return joined((*islice(items, MOST_FACTS), *more), by)


# --- snapshots --------------------------------------------------------------------------------------------------------

_SNAPSHOTS = (
    TableColumn("snapshot", mark="mono"),
    TableColumn("sequence", right=True),
    TableColumn("operation", most=30),
    TableColumn("made by", mark="mono"),
    TableColumn("attempt", right=True),
    TableColumn("stamped, s", right=True, title="By the clock of its writer, before it asked for the commit"),
    TableColumn("files", mark="nowrap"),
)


_SNAPSHOT_ID = re.compile(r"(?<=snapshot )\d{15,}")


def _snapshots(shown: Shown, found: CardSubject, involved: Sequence[Operation]) -> list[Block]:
    """Its snapshots and those of its operations, even if the checker did not name them; rows are those of its keys, or all if it names none."""
    a = found.anomaly
    if a is None:
        return []
    said = f"{a.explanation} {found.view.story.repair if found.view is not None else ''}"
    ids = dict.fromkeys((*a.snapshots, *map(int, _SNAPSHOT_ID.findall(said))))
    for o in involved:
        ids.update(dict.fromkeys(c.snapshot_id for _, c in shown.commits.get(o.op, ())))
    named = sorted((shown.snapshots[s] for s in ids if s in shown.snapshots), key=lambda lc: lc[1].sequence_number)
    if not named:
        return []
    change = TableColumn("net change" + (" of the rows involved" if a.keys else ""))
    rows = [_snapshot(shown, log, c, a.keys) for log, c in named[:MOST_SNAPSHOTS]]
    return [Table([*_SNAPSHOTS, change], rows), *_more(len(named) - MOST_SNAPSHOTS, "snapshot")]


def _snapshot(shown: Shown, log: TableLog, c: Commit, keys: Sequence[int]) -> TableRow:
    at = None if shown.origin_ms is None else c.timestamp_ms - shown.origin_ms
    off = [] if c.snapshot_id in shown.mains[log.table] else [tag("span", "not on main", "tag")]
    return TableRow(
        [
            joined((snapshot(c.snapshot_id), *off), " "),
            words.grouped(c.sequence_number),
            c.operation,
            "–" if c.op is None else shown.link(c.op),
            words.grouped(c.attempt),
            words.moment_number(at),
            _files(c) or "–",
            _changes(c, keys, log.columns),
        ],
        of=c.op or "",
    )


def _changes(c: Commit, keys: Sequence[int], columns: Sequence[str]) -> Markup:
    """The rows that a commit removed and added."""
    if c.removed is None and c.added is None:
        return muted("its rows are not recorded")
    removed, cut_removed = _touched(c.removed, keys, columns)
    added, cut_added = _touched(c.added, keys, columns)
    lines = [*(tag("li", f"− {r}", "minus") for r in removed), *(tag("li", f"+ {r}", "plus") for r in added)]
    others = len(c.removed or ()) + len(c.added or ())
    none = (
        f"none of these keys; {words.plural(others, 'other row')}" if others else "none: no row is different after it"
    )
    lines += [] if lines else [tag("li", none, "muted")]
    if cut := cut_removed + cut_added:
        lines.append(tag("li", f"and {words.plural(cut, 'more row')}", "muted"))
    return element("ul", *lines, class_="rows")


def _row(change: RowChange, columns: Sequence[str]) -> str:
    parts = [f"{k}={words.shorten(str(v), 48)}" for k, v in zip(columns, change.row, strict=False)]
    return words.shorten(" ".join(parts), 200)


def _touched(
    changes: Sequence[RowChange] | None, keys: Sequence[int], columns: Sequence[str]
) -> tuple[tuple[str, ...], int]:
    wanted = set(keys)
    at = columns.index("id") if "id" in columns else 0
    found = [c for c in changes or () if not wanted or (len(c.row) > at and c.row[at] in wanted)]
    return tuple(_row(c, columns) for c in found[:MOST_ROWS]), max(0, len(found) - MOST_ROWS)


def _files(c: Commit) -> str:
    parts = []
    for sign, files in (("+", c.added_files), ("−", c.removed_files)):
        data = sum(f.role == "data" for f in files)
        if data:
            parts.append(f"{sign}{data} data")
        if len(files) - data:
            parts.append(f"{sign}{len(files) - data} delete")
    return ", ".join(parts)


# --- requests, the minimal history, the trail -------------------------------------------------------------------------

_REQUESTS = (
    TableColumn("at, s", right=True),
    TableColumn("operation", mark="mono"),
    TableColumn("request"),
    TableColumn("from", mark="mono", most=60),
    TableColumn("to", mark="mono", most=60),
    TableColumn(
        "reply",
        most=120,
        title="What the service answered. UPDATE 1: the database set the table's pointer; UPDATE 0: it did not",
    ),
    TableColumn("took, ms", right=True),
    TableColumn("fault", most=80),
)


def _requests(shown: Shown, found: CardSubject) -> list[Block]:
    """Those of its operations, and of those that took the place of others."""
    a = found.anomaly
    if a is None:
        return []
    winners = [w for _, w in found.view.story.instead if w not in a.ops] if found.view is not None else []
    others = (r for w in dict.fromkeys(winners) for r in shown.run.change_requests.get(w, ()))
    passed = sorted([*shown.run.requests(a), *others], key=lambda r: r.time)
    if not passed:
        return []
    few = passed[:MOST_REQUESTS]
    more = _more(len(passed) - MOST_REQUESTS, "request", ", in proxy.jsonl.")
    table = Table(_REQUESTS, [_request(shown, r) for r in few])
    return [
        Fold("What the proxies saw", [table, *more], any(r.faults or r.held for r in few) or a.name == "lost-commit")
    ]


def _request(shown: Shown, r: ChangeRequest) -> TableRow:
    service = "" if r.service == "catalog" else f" ({words.shorten(r.service, 20)})"
    struck = joined(map(faulted.named, r.faults), ", ") if r.faults else "–"
    at, took = words.moment_number(r.time / 1e6), words.milliseconds(r.ms)
    kind = r.kind + service + (", held" if r.held else "")
    old, new = shortened(words.shorten(r.base, 60) or "–"), shortened(words.shorten(r.new, 60) or "–")
    return TableRow([at, shown.link(r.op), kind, old, new, faulted.reply(r), took, struck], of=r.op)


def _minimal(shown: Shown, a: Anomaly, view: StoryView | None) -> list[Block]:
    """The operations that show it, and those that took the place of one of them; nothing of a single one, which stands above."""
    note = _minimal_note(a)
    if a.minimal is None or not note:
        return []
    pairs = view.story.instead if view is not None else ()
    raced = dict.fromkeys(winner for loser, winner in pairs if loser in a.minimal.ops and winner not in a.minimal.ops)
    names = (*a.minimal.ops[:MOST_OPS], *raced)
    if len(names) < 2:
        return []
    ops = sorted((shown.operations[op] for op in names if op in shown.operations), key=lambda o: o.start)
    them, its = ("it", "its place") if len(a.minimal.ops) == 1 else ("them", "the place of a lost commit")
    others = [f"Beside {them} stands what took {its}: {', '.join(raced)}."] if raced else []
    table = [operations.table(shown, ops, parts=_parts(view))] if ops else []
    return [Fold("Minimal history", [Text([" ".join([note, *others])], "note"), *table], open=True)]


def _minimal_note(a: Anomaly) -> str:
    if a.minimal is None or not a.minimal.ops:
        return ""
    ops, ids, complete = a.minimal.ops, a.minimal.ids, a.minimal.complete
    which = f"{'id' if len(ids) == 1 else 'ids'} {', '.join(map(str, ids[:MOST_ROWS]))}"
    rows = f", considering only the rows of {which}" if ids else ""
    if len(ops) == 1:
        return f"{words.shorten(ops[0], 60)} alone shows it{rows}."
    more = f" (the first {MOST_OPS})" if len(ops) > MOST_OPS else ""
    why = "without any one of them it is gone" if complete else "the search was cut short, so fewer may suffice"
    return f"{words.plural(len(ops), 'operation')} show it{rows}{more}; {why}."


def _trail(a: Anomaly) -> Iterator[str]:
    """One line per snapshot and one per row that it changed."""
    for step in a.trail:
        who = f"{step['op']} ({step['kind']}, process {step['process']}, {step['outcome']})"
        if not step["snapshots"]:
            yield f"{who} → no snapshot"
        for s in step["snapshots"]:
            main = "" if s["on_main"] else ", not on main"
            yield (
                f"{who} → attempt {s['attempt']} → snapshot {s['snapshot']} (sequence number {s['sequence_number']}, parent "
                f"{s['parent']}{main}) → {s['manifest_list']}"
            )
            for r in s["rows"]:
                by = f", by {r['by']}" if r["by"] else ""
                yield f"    {r['sign']} {words.plainly([r['row']], 120)} → {r['file']} position {r['position']}{by}"
