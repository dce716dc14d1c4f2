"""Bugs of transactions over two tables: one table has its half and the other lacks it, for good or as some client sees it.

They are planted in a recorded run with transfers (``workloads/atomicity.yaml`` on Nessie, whose merges are atomic). A commit removed from
a table is removed from everything after it, so that each table alone looks correct.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from checkers.evidence.history import Event, Operation
from checkers.evidence.replace import replace
from checkers.evidence.tablelog import TableLog
from checkers.selftest.mutation import mutation
from checkers.selftest.world import Planted, Table, World, completed, fresh, inserted, returned
from checkers.timeline.two_tables import tables_of

SIMPLE = "https://github.com/apache/iceberg/pull/7569"
CACHED = "https://github.com/apache/iceberg/issues/2319"

Pair = tuple[Operation, Table, Table]
"""A transfer and its two tables, in random order."""


def _whole(w: World) -> list[Pair]:
    """The acknowledged transfers that both of their tables have, in random order."""
    by_name = {t.name: t for t in w.every}
    found: list[Pair] = []
    for o in w.operations.values():
        if o.f != "transfer" or o.type != "ok" or not all(n in by_name for n in tables_of(o)):
            continue
        pair = [by_name[n] for n in tables_of(o)]
        if len(pair) == 2 and all(o.op in t.position for t in pair):
            w.rng.shuffle(pair)
            found.append((o, pair[0], pair[1]))
    w.rng.shuffle(found)
    return found


def _reads(w: World, pair: Iterable[Table]) -> Iterator[Operation]:
    """Answered reads of both tables."""
    names = {t.name for t in pair}
    for o in w.operations.values():
        if o.f == "read-both" and o.type == "ok" and set(tables_of(o)) == names:
            yield o


def _snapshot(t: Table, k: int) -> int | None:
    """Main's snapshot at a position."""
    return t.main[k - 1].snapshot_id if k else None


def _refs(main: int | None) -> dict[str, int]:
    return {} if main is None else {"main": main}


def _without(w: World, t: Table, op: str) -> tuple[TableLog, Sequence[Event]]:
    """A table whose main never had a transfer that was staged there, nor what followed from it; and what readers then saw."""
    k = t.position[op]
    gone, before = t.main[k - 1], _snapshot(t, k - 1)
    log, events = w.with_rows(t, k, [], [])
    commits = []
    for c in log.commits:
        if c.snapshot_id == gone.snapshot_id:
            c = gone
        elif c.parent_id == gone.snapshot_id:
            c = replace(c, parent_id=before)
        commits.append(c)
    metadata = tuple(
        replace(m, current=before, refs={**m.refs, **_refs(before)}) if m.current == gone.snapshot_id else m
        for m in log.metadata
    )
    log = replace(log, commits=tuple(commits), metadata=metadata)
    now = Table(t.spec, log, t.operations)
    at = {c.snapshot_id: n for n, c in enumerate(now.main, 1)}
    at[gone.snapshot_id] = k - 1
    results = {}
    for o in w.operations.values():
        if o.f == "read-both" and o.type == "ok" and t.name in tables_of(o):
            results[o.op] = _seen(o, now, at, {gone.snapshot_id: before})
    return log, returned(events, results)


def _seen(o: Operation, t: Table, at: dict[int, int], instead: dict[int, int | None]) -> dict[str, Any]:
    """The result of a read of two tables, with the changed rows of one of them."""
    side = int(t.name != o.table)
    result = dict(o.result)
    for key in ("second",) if side else ("first", "again"):
        result[key] = instead.get(result[key], result[key])
    rows = t.states[at[result["second" if side else "first"]]].rows()
    result["rows"] = [r for r in result["rows"] if r[0] != side] + [[side, *r] for r in rows]
    return result


@mutation("half-of-a-transfer", "atomicity", "half-transaction", seen=SIMPLE)
def half_of_a_transfer(w: World) -> Planted | None:
    """A catalog commits the tables of a transaction one after the other, skips the second, and acknowledges."""
    for o, _, lacks in _whole(w):
        if lacks.position[o.op] > 1:
            log, events = _without(w, lacks, o.op)
            return w.planted(o.op, log=log, events=events)
    return None


@mutation("half-of-a-transfer-unknown", "atomicity", "half-transaction", seen=SIMPLE)
def half_of_a_transfer_unknown(w: World) -> Planted | None:
    """A catalog stops between the commits to the two tables of a transaction, and its client gets an unknown outcome."""
    for o, _, lacks in _whole(w):
        if lacks.position[o.op] > 1:
            log, events = _without(w, lacks, o.op)
            error = ("org.apache.iceberg.exceptions.CommitStateUnknownException", "Service failed: 500")
            return w.planted(o.op, log=log, events=completed(events, o.op, "info", [error]))
    return None


@mutation(
    "one-table-restored",
    "atomicity",
    "half-transaction",
    seen="https://iceberg.apache.org/docs/latest/spark-procedures/",
)
def one_table_restored(w: World) -> Planted | None:
    """One table is restored to an older snapshot, and the transfers since then are only in the other."""
    for o, _, lacks in _whole(w):
        k = lacks.position[o.op]
        if k < 2:
            continue
        last, before = lacks.log.metadata[-1], _snapshot(lacks, k - 1)
        back = replace(last, n=last.n + 1, location=f"{last.location}.restored", current=before, refs=_refs(before))
        read = [replace(c, metadata=back.location) if c is lacks.log.captures[-1] else c for c in lacks.log.captures]
        log = replace(lacks.log, metadata=(*lacks.log.metadata, back), captures=tuple(read))
        return w.planted(o.op, log=log)
    return None


def _shown_by(w: World) -> Iterator[tuple[Operation, Operation, Table, Table]]:
    """Stable reads of both tables, each with a transfer that it shows in both, and the tables: first its own, then the other."""
    for o, a, b in _whole(w):
        for r in w.shuffled(_reads(w, (a, b))):
            own, other = (a, b) if a.name == r.table else (b, a)
            at = [{c.snapshot_id: k for k, c in enumerate(t.main, 1)} for t in (own, other)]
            first, second = at[0].get(r.result["first"], 0), at[1].get(r.result["second"], 0)
            if r.result["first"] != r.result["again"]:
                continue
            if first >= own.position[o.op] > 1 and second >= other.position[o.op] > 1:
                yield r, o, own, other


@mutation("second-table-from-a-cache", "atomicity", "fractured-read", seen=CACHED)
def second_table_from_a_cache(w: World) -> Planted | None:
    """A reader of two tables gets the second as it was before a transfer that the first shows: a cache, or a server that lags."""
    for r, o, _, other in _shown_by(w):
        k = other.position[o.op] - 1
        rows = [x for x in r.result["rows"] if x[0] == 0] + [[1, *x] for x in other.states[k].rows()]
        return w.read_as(r, {**r.result, "second": _snapshot(other, k), "rows": rows})
    return None


@mutation("first-table-from-a-cache", "atomicity", "fractured-read", seen=CACHED)
def first_table_from_a_cache(w: World) -> Planted | None:
    """A reader of two tables gets the first, both times it asks, as it was before a transfer that the second shows."""
    for r, o, own, _ in _shown_by(w):
        k = own.position[o.op] - 1
        rows = [x for x in r.result["rows"] if x[0] == 1] + [[0, *x] for x in own.states[k].rows()]
        old = _snapshot(own, k)
        return w.read_as(r, {**r.result, "first": old, "again": old, "rows": rows})
    return None


@mutation("reader-between-two-commits", "atomicity", "fractured-read", seen=SIMPLE)
def reader_between_two_commits(w: World) -> Planted | None:
    """A transfer's two commits come one after the other, and a client reads both tables in between."""
    for o, early, late in _whole(w):
        k = late.position[o.op] - 1
        if k < 1 or o.completed is None:
            continue
        here, there = _snapshot(early, k_early := early.position[o.op]), _snapshot(late, k)
        rows = [[0, *r] for r in early.states[k_early].rows()] + [[1, *r] for r in late.states[k].rows()]
        result = {"first": here, "second": there, "again": here, "rows": rows}
        process, op = fresh(w.events), f"w{fresh(w.events)}-0"
        more = [
            Event(0, 0, "invoke", process, "read-both", early.name, {"and": late.name}, op),
            Event(0, 0, "ok", process, "read-both", early.name, result, op),
        ]
        return w.planted(op, events=inserted(w.events, o.completed.index, more))
    return None


MUTATIONS = (
    half_of_a_transfer,
    half_of_a_transfer_unknown,
    one_table_restored,
    second_table_from_a_cache,
    first_table_from_a_cache,
    reader_between_two_commits,
)
