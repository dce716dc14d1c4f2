"""The anomalies of a run as cards: what was found, why it is a contradiction, and what the operations involved did."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import quote, urlsplit

from markupsafe import Markup

from checkers.costs import figures
from checkers.evidence import error_chain
from checkers.evidence.change_requests import ChangeRequest
from checkers.evidence.history import Operation
from checkers.evidence.tablelog import Commit, RowChange, TableLog
from checkers.timeline import explain
from checkers.verdict import Anomaly
from reports.drawing import words
from reports.run import plots
from reports.run.stored import Stored

MOST_CARDS = 50
FULL_CARDS = 10
"""Number of cards with full-length texts; later cards get half the length."""
MOST_OPS = 12
MOST_SNAPSHOTS = 8
MOST_ROWS = 6
MOST_NAMES = 12
MOST_TEXT = 2000
MOST_EVIDENCE = 800


@dataclass(frozen=True, slots=True)
class OpRow:
    """An operation as a table row. Times in ms since the start of the run."""

    op: str
    process: str
    kind: str
    table: str
    arguments: str
    invoked: float
    ended: float | None
    latency: float | None
    outcome: str
    resolution: str
    result: str
    snapshot: str
    error: str
    indices: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SnapshotRow:
    """A snapshot as a table row; its data rows are those of the anomaly's keys, or all if it names none."""

    snapshot: int
    sequence: int
    operation: str
    op: str | None
    attempt: int | None
    at: float | None
    removed: tuple[str, ...]
    added: tuple[str, ...]
    rows_cut: int
    files: str
    on_main: bool


@dataclass(frozen=True, slots=True)
class Listed:
    """The first items of a list, and how many more there are."""

    items: tuple[str, ...]
    more: int


MOST_REQUESTS = 16


@dataclass(frozen=True, slots=True)
class Card:
    """One anomaly, ready for display."""

    n: int
    anomaly: Anomaly
    mark: str
    link: str | None
    explanation: str
    cut: bool
    ops: tuple[OpRow, ...]
    ops_more: int
    ops_absent: tuple[str, ...]
    snapshots: tuple[SnapshotRow, ...]
    snapshots_more: int
    files: Listed
    keys: Listed
    evidence: str
    minimal: tuple[OpRow, ...]
    minimal_note: str
    trail: tuple[str, ...]
    same_as: str
    requests: tuple[ChangeRequest, ...]
    requests_more: int
    timeline: Markup | None
    related: tuple[tuple[int, str], ...]


def link(target: str | None) -> str | None:
    """A documented link that is safe to follow: http or https only."""
    if target is None:
        return None
    try:
        parts = urlsplit(target)
    except ValueError:
        return None
    return target if parts.scheme in ("http", "https") and parts.netloc else None


def anchor_id(op: str) -> str:
    """The id of an operation's box in the page (ids have no white space)."""
    return "op-" + "_".join(words.printable(op).split())


def anchor(op: str) -> str:
    """The same id as a link's target."""
    return "#" + quote(anchor_id(op))


def choose(anomalies: Sequence[Anomaly], most: int = MOST_CARDS) -> list[Anomaly]:
    """At most ``most``: the first of each name before the second of any; undocumented ones first, grouped by name."""
    names: dict[str, list[Anomaly]] = {}
    for a in sorted(anomalies, key=lambda a: a.documented is not None):
        names.setdefault(a.name, []).append(a)
    taken = dict.fromkeys(names, 0)
    left = min(most, len(anomalies))
    while left:
        for name, group in names.items():
            if left and taken[name] < len(group):
                taken[name] += 1
                left -= 1
    return [a for name, group in names.items() for a in group[: taken[name]]]


def op_row(o: Operation, commits: Sequence[tuple[str, Commit]], resolution: str = "") -> OpRow:
    """The row of one operation; ``resolution`` is its fate if its outcome was unknown."""
    made = [f"seq {c.sequence_number}" + (f", attempt {c.attempt}" if (c.attempt or 1) > 1 else "") for _, c in commits]
    error = ""
    if o.error:
        name, message = error_chain.most_specific(o.error)
        first = next((x.strip() for x in message.splitlines() if x.strip()), "")
        error = words.shorten(f"{error_chain.short_class(name)}: {first}", 240)
    return OpRow(
        op=o.op,
        process=explain.process(o).removeprefix("process "),
        kind=o.f,
        table=o.table or "",
        arguments=words.arguments(o.value),
        invoked=figures.ms(o.start),
        ended=None if o.completed is None else figures.ms(o.completed.time),
        latency=figures.latency_ms(o),
        outcome=o.type,
        resolution=resolution if o.type == "info" else "",
        result=words.result(o.result) if o.type == "ok" else "",
        snapshot="; ".join(made[:4]) + (f"; {len(made) - 4} more" if len(made) > 4 else ""),
        error=error,
        indices=o.indices,
    )


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


def snapshot_row(c: Commit, log: TableLog, keys: Sequence[int], origin_ms: float | None, on_main: bool) -> SnapshotRow:
    """The row of one snapshot."""
    removed, cut_removed = _touched(c.removed, keys, log.columns)
    added, cut_added = _touched(c.added, keys, log.columns)
    return SnapshotRow(
        snapshot=c.snapshot_id,
        sequence=c.sequence_number,
        operation=c.operation,
        op=c.op,
        attempt=c.attempt,
        at=None if origin_ms is None else c.timestamp_ms - origin_ms,
        removed=removed,
        added=added,
        rows_cut=cut_removed + cut_added,
        files=_files(c),
        on_main=on_main,
    )


def _listed(items: Sequence[object]) -> Listed:
    return Listed(tuple(words.shorten(str(i), 160) for i in items[:MOST_NAMES]), max(0, len(items) - MOST_NAMES))


def cards(stored: Stored, origin_ms: float | None) -> list[Card]:
    """The cards of the selected anomalies, numbered from 1."""
    operations = {o.op: o for o in stored.operations}
    commits = stored.commits_by_op()
    snapshots = {c.snapshot_id: (log, c) for log in stored.logs.values() for c in log.commits}
    mains = {table: {c.snapshot_id for c in log.main()} for table, log in stored.logs.items()}
    chosen = choose(stored.anomalies)
    resolved = stored.resolutions
    sharing: dict[str, list[int]] = {}
    for n, a in enumerate(chosen, 1):
        for op in a.ops:
            sharing.setdefault(op, []).append(n)
    out = []
    for n, a in enumerate(chosen, 1):
        room = 1 if n <= FULL_CARDS else 2
        known = [operations[op] for op in dict.fromkeys(a.ops) if op in operations]
        ids = dict.fromkeys(a.snapshots)
        for o in known[:MOST_OPS]:  # the operations' commits are relevant even if the checker did not name them
            ids.update(dict.fromkeys(c.snapshot_id for _, c in commits.get(o.op, ())))
        involved = sorted((snapshots[s] for s in ids if s in snapshots), key=lambda lc: lc[1].sequence_number)
        lines = [
            snapshot_row(c, log, a.keys, origin_ms, c.snapshot_id in mains[log.table])
            for log, c in involved[:MOST_SNAPSHOTS]
        ]
        passed = stored.requests(a)
        related = sorted({m for op in a.ops for m in sharing[op]} - {n})
        out.append(
            Card(
                n=n,
                anomaly=a,
                mark=stored.mark(a),
                link=link(a.documented),
                explanation=a.explanation[: MOST_TEXT // room],
                cut=len(a.explanation) > MOST_TEXT // room,
                ops=tuple(
                    op_row(o, commits.get(o.op, ()), resolved.get(o.op, ""))
                    for o in sorted(known[:MOST_OPS], key=lambda o: o.start)
                ),
                ops_more=max(0, len(known) - MOST_OPS),
                ops_absent=tuple(words.shorten(op, 60) for op in dict.fromkeys(a.ops) if op not in operations)[
                    :MOST_OPS
                ],
                snapshots=tuple(lines),
                snapshots_more=max(0, len(involved) - MOST_SNAPSHOTS),
                files=_listed(a.files),
                keys=_listed(a.keys),
                evidence=words.compact(a.evidence, MOST_EVIDENCE // room) if a.evidence else "",
                minimal=tuple(
                    op_row(operations[op], commits.get(op, ()), resolved.get(op, ""))
                    for op in (a.minimal.ops if a.minimal is not None else ())[:MOST_OPS]
                    if op in operations
                ),
                minimal_note=_minimal_note(a),
                trail=tuple(_trail(a)) if room == 1 else (),
                same_as=a.same_as or "",
                requests=tuple(passed[:MOST_REQUESTS]),
                requests_more=max(0, len(passed) - MOST_REQUESTS),
                timeline=plots.operations_timeline(
                    known[:MOST_OPS], _marks(known[:MOST_OPS], commits, origin_ms), f"Operations of anomaly {n}"
                ),
                related=tuple((m, chosen[m - 1].name) for m in related[:8]),
            )
        )
    return out


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
                yield f"    {r['sign']} {words.compact(r['row'], 120)} → {r['file']} position {r['position']}{by}"


def _marks(
    operations: Sequence[Operation], commits: Mapping[str, Sequence[tuple[str, Commit]]], origin_ms: float | None
) -> list[plots.CommitMark]:
    if origin_ms is None:
        return []
    out = []
    for o in operations:
        for _, c in commits.get(o.op, ()):
            at = c.timestamp_ms - origin_ms
            if o.end is not None:  # the timestamp has whole ms of the writer's clock: keep it on its bar
                at = min(max(at, figures.ms(o.start)), figures.ms(o.end))
            out.append(plots.CommitMark(o.op, at, f"seq {c.sequence_number}"))
    return out
