"""Bugs of transactions over two tables: one table has its half and the other lacks it, for good or as some client sees it.

They are planted in a recorded run with transfers (``workloads/atomicity.yaml`` on Nessie, whose merges are atomic). A commit removed from
a table is removed from everything after it, so that each table alone looks correct.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from checkers.evidence.history import Event, Operation
from checkers.evidence.replace import replace
from checkers.formats.iceberg.records import IcebergLog as TableLog
from checkers.selftest import edits
from checkers.selftest.goodtable import GoodTable
from checkers.selftest.plant import Plant, Plants, table
from checkers.selftest.world import Planted, World
from checkers.timeline.two_tables import tables_of

SIMPLE = "apache/iceberg#7569"
CACHED = "apache/iceberg#2319"


@dataclass(frozen=True)
class TransferSite:
    """An acknowledged transfer that both of its tables have: one of them, and the other."""

    w: World
    o: Operation
    early: GoodTable
    late: GoodTable

    @property
    def k(self) -> int:
        """Its position in the other table."""
        return self.late.position[self.o.op]


def transfers(w: World) -> Iterator[TransferSite]:
    """Transfers, and their tables, in random order."""
    by_name = {t.name: t for t in w.every}
    found = []
    for o in w.operations.values():
        if o.f != "transfer" or o.type != "ok" or not all(n in by_name for n in tables_of(o)):
            continue
        pair = [by_name[n] for n in tables_of(o)]
        if len(pair) == 2 and all(o.op in t.position for t in pair):
            w.rng.shuffle(pair)
            found.append(TransferSite(w, o, *pair))
    yield from w.shuffled(found)


def later_transfers(w: World) -> Iterator[TransferSite]:
    """Those of which the other table has a commit before."""
    return (s for s in transfers(w) if s.k > 1)


# --- half of a transfer, for good ---------------------------------------------------------------------------------------


def snapshot(t: GoodTable, k: int) -> int | None:
    """Main's snapshot at a position."""
    return t.main[k - 1].snapshot_id if k else None


def without(w: World, t: GoodTable, op: str) -> tuple[TableLog, Sequence[Event]]:
    """A table whose main never had a transfer that was staged there, nor what followed from it; and what readers then saw."""
    k = t.position[op]
    dropped, before = t.main[k - 1], snapshot(t, k - 1)
    log, events = w.with_rows(t, k, [], [])
    commits = []
    for c in log.commits:
        if c.snapshot_id == dropped.snapshot_id:
            c = dropped
        elif c.parent_id == dropped.snapshot_id:
            c = replace(c, parent_id=before)
        commits.append(c)
    metadata = tuple(
        replace(m, current=before, refs={**m.refs, **refs(before)}) if m.current == dropped.snapshot_id else m
        for m in log.metadata
    )
    log = replace(log, commits=tuple(commits), metadata=metadata)
    now = GoodTable(t.spec, log, t.operations)
    positions = {c.snapshot_id: n for n, c in enumerate(now.main, 1)}
    positions[dropped.snapshot_id] = k - 1
    both = (o for o in w.operations.values() if o.f == "read-both" and o.type == "ok" and t.name in tables_of(o))
    return log, edits.returned(events, {o.op: _seen(o, now, positions, {dropped.snapshot_id: before}) for o in both})


def refs(main: int | None) -> dict[str, int]:
    """The references of a table without other branches."""
    return {} if main is None else {"main": main}


def _seen(o: Operation, t: GoodTable, positions: dict[int, int], instead: dict[int, int | None]) -> dict[str, Any]:
    """The result of a read of two tables, with the changed rows of one of them."""
    side = int(t.name != o.table)
    result = dict(o.result)
    for key in ("second",) if side else ("first", "again"):
        result[key] = instead.get(result[key], result[key])
    return {**result, "rows": with_side(result["rows"], side, t, positions[result["second" if side else "first"]])}


def with_side(found: Sequence[Any], side: int, t: GoodTable, k: int) -> list[list[Any]]:
    """The rows of a read of two tables, with those of one of them as at a position."""
    return [r for r in found if r[0] != side] + [[side, *r] for r in t.states[k].rows()]


def half(s: TransferSite) -> Planted:
    """A catalog commits the tables of a transaction one after the other, skips the second, and acknowledges."""
    log, events = without(s.w, s.late, s.o.op)
    return s.w.planted(s.o.op, log=log, events=events)


def half_unknown(s: TransferSite) -> Planted:
    """A catalog stops between the commits to the two tables of a transaction, and its client gets an unknown outcome."""
    log, events = without(s.w, s.late, s.o.op)
    error = ("org.apache.iceberg.exceptions.CommitStateUnknownException", "Service failed: 500")
    return s.w.planted(s.o.op, log=log, events=edits.completed(events, s.o.op, "info", [error]))


def restored(s: TransferSite) -> Planted:
    """One table is restored to an older snapshot, and the transfers since then are only in the other."""
    t, last, before = s.late, s.late.log.metadata[-1], snapshot(s.late, s.k - 1)
    back = replace(last, n=last.n + 1, location=f"{last.location}.restored", current=before, refs=refs(before))
    return s.w.planted(s.o.op, log=replace(t.with_capture(-1, back.location), metadata=(*t.log.metadata, back)))


# --- as a client sees it ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ShownSite:
    """A stable read of both tables with a transfer that it shows in both, and the tables: first its own, then the other."""

    w: World
    r: Operation
    o: Operation
    own: GoodTable
    other: GoodTable


def shown(w: World) -> Iterator[ShownSite]:
    """Stable reads of both tables, in random order."""
    for s in transfers(w):
        names = {s.early.name, s.late.name}
        reads = (
            r for r in w.operations.values() if r.f == "read-both" and r.type == "ok" and set(tables_of(r)) == names
        )
        for r in w.shuffled(reads):
            own, other = (s.early, s.late) if s.early.name == r.table else (s.late, s.early)
            positions = [{c.snapshot_id: k for k, c in enumerate(t.main, 1)} for t in (own, other)]
            first, second = positions[0].get(r.result["first"], 0), positions[1].get(r.result["second"], 0)
            stable = r.result["first"] == r.result["again"]
            if stable and first >= own.position[s.o.op] > 1 and second >= other.position[s.o.op] > 1:
                yield ShownSite(w, r, s.o, own, other)


def second_cached(s: ShownSite) -> Planted:
    """A reader of two tables gets the second as it was before a transfer that the first shows: a cache, or a server that lags."""
    k = s.other.position[s.o.op] - 1
    rows = with_side(s.r.result["rows"], 1, s.other, k)
    return s.w.read_as(s.r, {**s.r.result, "second": snapshot(s.other, k), "rows": rows})


def first_cached(s: ShownSite) -> Planted:
    """A reader of two tables gets the first, both times it asks, as it was before a transfer that the second shows."""
    k = s.own.position[s.o.op] - 1
    rows, old = with_side(s.r.result["rows"], 0, s.own, k), snapshot(s.own, k)
    return s.w.read_as(s.r, {**s.r.result, "first": old, "again": old, "rows": rows})


def between(s: TransferSite) -> Planted | None:
    """A transfer's two commits come one after the other, and a client reads both tables in between."""
    if s.o.completed is None:
        return None
    k = s.early.position[s.o.op]
    here, late = snapshot(s.early, k), snapshot(s.late, s.k - 1)
    rows = with_side(with_side([], 0, s.early, k), 1, s.late, s.k - 1)
    result = {"first": here, "second": late, "again": here, "rows": rows}
    process = edits.fresh(s.w.events)
    op = f"w{process}-0"
    more = edits.answered(process, "read-both", s.early.name, {"and": s.late.name}, op, result)
    return s.w.planted(op, events=edits.inserted(s.w.events, s.o.completed.index, more))


HALVES: Plants = {
    "half-of-a-transfer": Plant(half),
    "half-of-a-transfer-unknown": Plant(half_unknown),
    "one-table-restored": Plant(restored, seen="https://iceberg.apache.org/docs/latest/spark-procedures/"),
}

READ_PLANTS: Plants = {
    "second-table-from-a-cache": Plant(second_cached),
    "first-table-from-a-cache": Plant(first_cached),
    "reader-between-two-commits": Plant(between, where=later_transfers, seen=SIMPLE),
}


PLANTS = (
    *table(HALVES, "atomicity", names="half-transaction", where=later_transfers, seen=SIMPLE, neutral=True),
    *table(READ_PLANTS, "atomicity", names="fractured-read", where=shown, seen=CACHED, neutral=True),
)
