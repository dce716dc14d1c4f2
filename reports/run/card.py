"""One anomaly as a card: what was found, why it is a contradiction, and what the operations involved did."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from markupsafe import Markup

from checkers.evidence.change_requests import ChangeRequest
from checkers.evidence.history import Operation
from checkers.evidence.tablelog import Commit, RowChange, TableLog
from checkers.names import Meaning, meaning
from checkers.timeline import explain
from checkers.verdict import Anomaly
from reports.drawing import page, words
from reports.drawing.page import (
    Block,
    FileText,
    Fold,
    Group,
    Pairs,
    Table,
    TableColumn,
    TableRow,
    Text,
    joined,
    link,
    muted,
    outside,
    tag,
)
from reports.drawing.svg import element
from reports.run import operations, picture, statements, values
from reports.run.anomalies import Named, safe
from reports.run.bands import Band
from reports.run.operations import Shown, shortened, snapshot

FULL_CARDS = 10
"""Number of cards with full-length texts; later cards get half the length."""
OPEN_CARDS = 5
MOST_OPS = 12
MOST_SNAPSHOTS = 8
MOST_ROWS = 6
MOST_NAMES = 12
MOST_TEXT = 2000
MOST_EVIDENCE = 800
MOST_REQUESTS = 16


def card(
    shown: Shown, named: Named, involved: Sequence[Operation], related: Sequence[Named], bands: Sequence[Band]
) -> page.Card:
    """The card of one anomaly.

    Args:
        involved: its operations that the history has, in its order of them.
        related: other cards with operations of it.
        bands: when faults were on.
    """
    a, n = named.anomaly, named.n
    room = 1 if n <= FULL_CARDS else 2
    cut = " … (cut; the whole text is in results.json)" if len(a.explanation) > MOST_TEXT // room else ""
    why = shortened((a.explanation[: MOST_TEXT // room] or "The checker gave no explanation.") + cut)
    means = meaning(a.name)
    few = sorted(involved[:MOST_OPS], key=lambda o: o.start)
    seen: list[Block] = [Text([why], "why")]
    seen += picture.blocks(picture.interleaving(shown, few, bands), f"Operations of anomaly {n}")
    if few:
        seen += [operations.table(shown, few), *_more(len(involved) - MOST_OPS, "operation", ", in results.json.")]
    seen += [*_snapshots(shown, a, few), *_requests(shown, a), *_minimal(shown, a)]
    if room == 1 and a.trail:
        trail = "\n".join(words.shorten(x, 600) for x in _trail(a))
        seen.append(Fold("From operation to row", [FileText(shortened(trail))]))
    if a.evidence:
        seen.append(Fold("Evidence", values.blocks(a.evidence, MOST_EVIDENCE // room)))
    beside: list[Block] = [Pairs(_about(shown, a, few, means, related), "about"), *_name(a.name, means)]
    beside += statements.blocks(shown.run, few)
    consequence: list[Block] = [Text([means.sentence], "consequence")] if means is not None else []
    blocks = [*consequence, Group([seen, beside], "aside")]
    return page.Card(
        _head(shown, named, few), blocks, named.anchor, "documented" if a.documented else "", n <= OPEN_CARDS
    )


def _head(shown: Shown, named: Named, involved: Sequence[Operation]) -> Markup:
    a = named.anomaly
    parts: list[str] = [muted(str(named.n)), tag("b", words.shorten(a.name, 80))]
    parts += [tag("span", who, "tag engine") for who in _engines(involved)]
    if a.documented:
        text, href = words.link_label(a.documented), safe(a.documented)
        said = f"documented: {text if href else words.shorten(text, 120)}"
        parts.append(outside(said, href, "tag") if href else tag("span", said, "tag"))
    if mark := shown.run.mark(a):
        parts.append(tag("span", mark, "tag"))
    where = [Markup("table ") + tag("b", words.shorten(a.table, 60)) + " · "] if a.table else []
    where.append(Markup("found by ") + words.shorten(a.checker, 40))
    if a.same_as:
        where.append(Markup(", confirms ") + tag("b", words.shorten(a.same_as, 60)))
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
    return [Text([f"and {words.plural(count, f'more {what}')}{end}"], "note")] if count > 0 else []


def _about(
    shown: Shown, a: Anomaly, involved: Sequence[Operation], means: Meaning | None, related: Sequence[Named]
) -> list[tuple[str, str]]:
    """Who, what and where."""
    absent = [op for op in dict.fromkeys(a.ops) if op not in shown.operations][:MOST_OPS]
    others = (link(f"{m.n} {words.shorten(m.anomaly.name, 40)}", f"#{m.anchor}") for m in related)
    pairs = [
        ("who", ", ".join(_engines(involved))),
        ("table", words.shorten(a.table or "", 60)),
        ("operations", joined((shown.link(o.op) for o in involved), ", ")),
        ("keys", _listed([_key(k) for k in a.keys[: MOST_NAMES + 1]], len(a.keys), ", ")),
        ("snapshots", _listed([snapshot(s) for s in a.snapshots[: MOST_NAMES + 1]], len(a.snapshots), ", ")),
        ("files", _listed([words.shorten(f, 160) for f in a.files[: MOST_NAMES + 1]], len(a.files), Markup("<br>"))),
        ("not in the history", joined((words.shorten(op, 60) for op in absent), ", ")),
        ("same operations in", joined(others, ", ")),
        ("remedy", _with_code(means.remedy) if means is not None else ""),
    ]
    mono = ("operations", "keys", "snapshots", "files", "not in the history")
    return [(name, tag("span", said, "mono") if name in mono else said) for name, said in pairs if said]


def _with_code(text: str) -> Markup:
    """A text with its words between backticks as code."""
    return joined(tag("code", part) if n % 2 else part for n, part in enumerate(text.split("`")))


def _key(key: object) -> Markup:
    """A key, by which one may filter the timeline."""
    return tag("a", words.shorten(str(key), 40), href="#timeline", data_pick=f"k{words.shorten(str(key), 40)}")


def _listed(items: Sequence[str], of: int, by: str) -> Markup:
    """The first items of a list, and how many more there are."""
    more = [f"and {words.grouped(of - MOST_NAMES)} more"] if of > MOST_NAMES else []
    return joined((*items[:MOST_NAMES], *more), by)


# --- snapshots --------------------------------------------------------------------------------------------------------

_SNAPSHOTS = (
    TableColumn("snapshot", mark="mono"),
    TableColumn("sequence", right=True),
    TableColumn("operation", most=30),
    TableColumn("made by", mark="mono"),
    TableColumn("attempt", right=True),
    TableColumn("at, ms", right=True),
    TableColumn("files", mark="nowrap"),
)


def _snapshots(shown: Shown, a: Anomaly, involved: Sequence[Operation]) -> list[Block]:
    """Its snapshots and those of its operations, even if the checker did not name them; rows are those of its keys, or all if it names none."""
    ids = dict.fromkeys(a.snapshots)
    for o in involved:
        ids.update(dict.fromkeys(c.snapshot_id for _, c in shown.commits.get(o.op, ())))
    found = sorted((shown.snapshots[s] for s in ids if s in shown.snapshots), key=lambda lc: lc[1].sequence_number)
    if not found:
        return []
    change = TableColumn("net change" + (" of the rows involved" if a.keys else ""))
    rows = [_snapshot(shown, log, c, a.keys) for log, c in found[:MOST_SNAPSHOTS]]
    return [Table([*_SNAPSHOTS, change], rows), *_more(len(found) - MOST_SNAPSHOTS, "snapshot")]


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
            words.milliseconds(at),
            _files(c) or "–",
            _changes(c, keys, log.columns),
        ],
        of=c.op or "",
    )


def _changes(c: Commit, keys: Sequence[int], columns: Sequence[str]) -> Markup:
    """The rows that a commit removed and added."""
    removed, cut_removed = _touched(c.removed, keys, columns)
    added, cut_added = _touched(c.added, keys, columns)
    lines = [*(tag("li", f"− {r}", "minus") for r in removed), *(tag("li", f"+ {r}", "plus") for r in added)]
    lines += [] if lines else [tag("li", "none", "muted")]
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
    TableColumn("at, ms", right=True),
    TableColumn("operation", mark="mono"),
    TableColumn("request"),
    TableColumn("from", mark="mono", most=60),
    TableColumn("to", mark="mono", most=60),
    TableColumn("reply", most=60),
    TableColumn("took, ms", right=True),
    TableColumn("fault", most=80),
)


def _requests(shown: Shown, a: Anomaly) -> list[Block]:
    passed = shown.run.requests(a)
    if not passed:
        return []
    few = passed[:MOST_REQUESTS]
    more = _more(len(passed) - MOST_REQUESTS, "request", ", in proxy.jsonl.")
    table = Table(_REQUESTS, [_request(shown, r) for r in few])
    return [Fold("What the proxies saw", [table, *more], any(r.faults for r in few))]


def _request(shown: Shown, r: ChangeRequest) -> TableRow:
    service = "" if r.service == "catalog" else f" ({words.shorten(r.service, 20)})"
    struck = tag("b", words.shorten(", ".join(r.faults), 80)) if r.faults else "–"
    at, took = words.milliseconds(r.time / 1e6), words.milliseconds(r.ms)
    kind = r.kind + service + (", held" if r.held else "")
    old, new = shortened(words.shorten(r.base, 60) or "–"), shortened(words.shorten(r.new, 60) or "–")
    return TableRow([at, shown.link(r.op), kind, old, new, r.status, took, struck], of=r.op)


def _minimal(shown: Shown, a: Anomaly) -> list[Block]:
    note = _minimal_note(a)
    if a.minimal is None or not note:
        return []
    ops = [shown.operations[op] for op in a.minimal.ops[:MOST_OPS] if op in shown.operations]
    table = [operations.table(shown, ops)] if ops else []
    return [Fold("Minimal history", [Text([note], "note"), *table], open=True)]


def _minimal_note(a: Anomaly) -> str:
    if a.minimal is None or not a.minimal.ops:
        return ""
    ops, ids, complete = a.minimal.ops, a.minimal.ids, a.minimal.complete
    which = f"{'id' if len(ids) == 1 else 'ids'} {', '.join(map(str, ids[:MOST_ROWS]))}"
    rows = f", considering only the rows of {which}" if ids else ""
    more = f" (the first {MOST_OPS})" if len(ops) > MOST_OPS else ""
    why = "without any one of them it is gone" if complete else "the search was cut short, so fewer may suffice"
    return f"{words.plural(len(ops), 'operation')} show{'s' if len(ops) == 1 else ''} it{rows}{more}; {why}."


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
