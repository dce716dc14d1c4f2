"""Operations on a run's page: rows of a table, and links to their boxes in the timeline."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import quote

from markupsafe import Markup, escape

from checkers.costs import figures
from checkers.evidence import error_chain
from checkers.evidence.history import Operation
from checkers.evidence.tablelog import Commit, TableLog
from checkers.timeline import explain
from reports.drawing import words
from reports.drawing.page import Table, TableCell, TableColumn, TableRow, joined, link, muted, tag
from reports.drawing.svg import element
from reports.run.bands import clock_origin_ms
from reports.run.stored import Stored
from workloads.operations.kinds import KINDS

OUTCOME_MARKS = {"ok": "●", "fail": "✕", "info": "?"}
"""Outcome of an operation → its mark."""


RESOLVED = {
    "applied": "the table has it",
    "half applied": "one of its two tables has it",
    "dropped": "the table had it, and has it no more",
    "not applied": "the table never had it",
}
"""What became of an operation of unknown outcome, as the table's own files say."""


@dataclass(frozen=True, slots=True)
class Shown:
    """What the parts of a run's page share.

    Attributes:
        operations: by their ids.
        commits: operation id → (table, commit) of every snapshot that it made.
        snapshots: snapshot id → the log that has it, and the commit.
        mains: table → ids of the snapshots on its main.
        origin_ms: the writers' wall clock at time 0 of the run; None: unknown.
        boxes: ids of the operations that the timeline shows.
        resolutions: what became of operations of unknown outcome.
    """

    run: Stored
    operations: Mapping[str, Operation]
    commits: Mapping[str, Sequence[tuple[str, Commit]]]
    snapshots: Mapping[int, tuple[TableLog, Commit]]
    mains: Mapping[str, Collection[int]]
    origin_ms: float | None
    boxes: Collection[str]
    resolutions: Mapping[str, str]

    @staticmethod
    def of(run: Stored, commits: Mapping[str, list[tuple[str, Commit]]], boxes: Collection[str]) -> Shown:
        """Looked up once for a page."""
        return Shown(
            run,
            {o.op: o for o in run.operations},
            commits,
            {c.snapshot_id: (log, c) for log in run.logs.values() for c in log.commits},
            {table: {c.snapshot_id for c in log.main()} for table, log in run.logs.items()},
            clock_origin_ms(run.operations, commits, run.change_requests),
            boxes,
            run.resolutions,
        )

    def link(self, op: str) -> str:
        """An operation's id, which leads to its box if there is one."""
        return link(words.shorten(op, 60), anchor(op) if op in self.boxes else None)

    def scanned(self, o: Operation) -> int | None:
        """The snapshot that an operation read first of those that it did not make itself; None: nobody saw it."""
        found = (s.snapshot for s in self.run.scans.get(o.op, ()))
        return next((s for s in found if s in self.snapshots and self.snapshots[s][1].op != o.op), None)


def anchor_id(op: str) -> str:
    """The id of an operation's box in the page (ids have no white space)."""
    return "op-" + "_".join(words.printable(op).split())


def anchor(op: str) -> str:
    """The same id as a link's target."""
    return "#" + quote(anchor_id(op))


def process(o: Operation) -> str:
    """The process of an operation, without the word."""
    return explain.process(o).removeprefix("process ")


SHOWN_DIGITS = 6
"""Digits of a snapshot's id that are shown; who points at them or copies them gets all."""
_SNAPSHOT = re.compile(r"(?<![\w./-])\d{15,19}(?![\w-])")


def snapshot(id: int | str) -> Markup:
    """The id of a snapshot, short, by which one may filter the timeline."""
    whole = str(id)
    rest = tag("i", whole[SHOWN_DIGITS:])
    return element("a", whole[:SHOWN_DIGITS], rest, href="#timeline", class_="id", title=whole, data_pick=f"s{whole}")


def shortened(text: str) -> Markup:
    """A text in which the ids of snapshots are short."""
    parts, at = [], 0
    for found in _SNAPSHOT.finditer(text):
        parts += [escape(text[at : found.start()]), snapshot(found[0])]
        at = found.end()
    return Markup("").join((*parts, escape(text[at:])))


_NO_PARTS: Mapping[str, str] = {}
_COLUMNS = (
    TableColumn("operation", mark="mono nowrap"),
    TableColumn("engine", most=24),
    TableColumn("kind", most=40),
    TableColumn("arguments", mark="mono wrap"),
    TableColumn("invoked, s", right=True),
    TableColumn("ended, s", right=True),
    TableColumn("took, ms", right=True),
    TableColumn("outcome"),
    TableColumn("read", title="The snapshot that it scanned, as the object store saw it"),
    TableColumn(
        "committed as", title="Sequence number of the snapshot that it made: its place in the order of commits"
    ),
)
_TABLE = TableColumn("table", most=40)
_PART = TableColumn("its commit", most=40)


def table(
    shown: Shown,
    operations: Iterable[Operation],
    *,
    tables: bool = False,
    parts: Mapping[str, str] = _NO_PARTS,
    keys: Collection[int] = (),
) -> Table:
    """Operations as rows; who points at one reads its process and its events in the history.

    Args:
        tables: also on which table each was.
        parts: what became of the commits of some.
        keys: ids of the rows that matter in what reads returned.
    """
    more = (*((_PART,) if parts else ()), *((_TABLE,) if tables else ()))
    return Table((_COLUMNS[0], *more, *_COLUMNS[1:]), [_row(shown, o, tables, parts, keys) for o in operations])


def _row(shown: Shown, o: Operation, tables: bool, parts: Mapping[str, str], keys: Collection[int]) -> TableRow:
    commits = shown.commits.get(o.op, ())
    made = [f"seq {c.sequence_number}" + (f", attempt {c.attempt}" if (c.attempt or 1) > 1 else "") for _, c in commits]
    snapshots = "; ".join(made[:4]) + (f"; {len(made) - 4} more" if len(made) > 4 else "")
    said = f"{OUTCOME_MARKS[o.type]} {words.OUTCOME_WORDS[o.type]}"
    ended = [tag("span", said, f"o {o.type}", title=words.OUTCOMES_MEAN[o.type])]
    if o.type == "info" and o.op in shown.resolutions:
        became = shown.resolutions[o.op]
        ended.append(tag("span", f", {words.shorten(became, 40)}", "muted", title=RESOLVED.get(became)))
    cells: list[str | TableCell] = [
        TableCell(
            shown.link(o.op), title=f"{explain.process(o)}; events {', '.join(map(str, o.indices))} of history.jsonl"
        ),
        *([tag("b", parts[o.op]) if o.op in parts else ""] if parts else []),
        *([o.table or ""] if tables else []),
        explain.engine(o),
        o.f,
        words.arguments(o.value),
        words.moment_number(figures.ms(o.start)),
        words.moment_number(None if o.completed is None else figures.ms(o.completed.time)),
        words.milliseconds(figures.latency_ms(o)),
        joined(ended),
        snapshot(scan) if (scan := shown.scanned(o)) is not None else _NOT_SEEN if _reads(o) else "–",
        snapshots or "–",
    ]
    return TableRow(cells, below=_said(o, keys), of=o.op)


_NOT_SEEN = muted("not recorded")
"""What an operation read of which no request was seen."""


def _reads(o: Operation) -> bool:
    return o.f in KINDS and not KINDS[o.f].means_the_same_everywhere


def _said(o: Operation, keys: Collection[int]) -> str | Markup:
    """What an operation was answered: its error, or its result, of many rows also those that matter."""
    if o.error:
        name, message = error_chain.deciding_error(o.error)
        first = next((x.strip() for x in message.splitlines() if x.strip()), "")
        return tag("span", words.shorten(f"{error_chain.short_class(name)}: {first}", 240), "error")
    result = words.result(o.result) if o.type == "ok" else ""
    if result.endswith(" rows") and keys and isinstance(o.result, list):
        rows = [r for r in o.result if isinstance(r, list) and r and r[0] in keys]
        ids = f"{'id' if len(keys) == 1 else 'ids'} {explain.listing(sorted(keys))}"
        result += f", of {ids} " + (explain.listing((f"({words.arguments(r)})" for r in rows), 6) if rows else "none")
    return muted(f"returned {result}") if result else ""
