"""Bugs of procedures and of the catalog's pointer that the ``commits`` checker must find: answers that the table log contradicts."""

from __future__ import annotations

from typing import Any

from checkers.evidence.history import Event, Operation
from checkers.evidence.replace import replace
from checkers.selftest.lostcommits import without
from checkers.selftest.mutation import Mutation, mutation
from checkers.selftest.world import CATALOG, Planted, Table, World, acked, completed, fresh, inserted, returned

DONE: dict[str, list[list[int]]] = {
    "rewrite-data-files": [[4, 1, 5996, 0, 0]],
    "rewrite-position-delete-files": [[3, 1, 4120, 1390]],
    "rewrite-manifests": [[7, 1]],
}
"""Kind → the answer of one that did something."""
FORGOTTEN = "a service that answers from its own state, which the store does not have"
LOST = "https://jepsen.io/analyses: an acknowledged operation of which nothing is left"
COUNTED = "counts that are taken from the plan, and not from what was committed"


@mutation("procedure-that-left-no-trace", "commits", "lost-commit", seen=LOST)
def no_trace(w: World) -> Planted | None:
    """A procedure that failed is acknowledged with counts of what it replaced."""
    failed = [o for o in w.operations.values() if o.type == "fail" and o.f in DONE]
    o = w.choose(failed)
    if o is None:
        return None
    return w.planted(o.op, events=returned(completed(w.events, o.op, "ok"), {o.op: DONE[o.f]}))


@mutation("procedure-whose-snapshot-is-lost", "commits", "lost-commit", seen=LOST)
def lost_snapshot(w: World) -> Planted | None:
    """The snapshot of an acknowledged procedure is not in the table."""
    for t, k in w.each(lambda t: t.maintenance):
        o = t.op(k)
        says = o.f in DONE and isinstance(o.result, list) and len(o.result) == 1 and any(o.result[0][:2])
        if says and sum(t.op(j).op == o.op for j in t.positions) == 1:
            return w.planted(o.op, log=without(t, k))
    return None


EXACT = {"rewrite-data-files": (0, 1, 2), "rewrite-position-delete-files": (1, 3), "rewrite-manifests": (0, 1)}
"""Kind → the columns of its answer that the log determines."""


@mutation("procedure-that-counts-wrong", "commits", "wrong-result", seen=COUNTED)
def wrong_count(w: World) -> Planted | None:
    """A procedure answers with a number that is not what it did."""
    for t, k in w.each(lambda t: t.maintenance):
        o = t.op(k)
        if o.f in EXACT and isinstance(o.result, list) and o.result:
            row = list(o.result[0])
            n = w.rng.choice(EXACT[o.f])
            row[n] = w.rng.choice([x for x in (row[n] + 1, row[n] + 7, row[n] // 2, 0) if x != row[n]])
            if any(row[:2]):
                return w.planted(o.op, events=returned(w.events, {o.op: [row]}))
    return None


def _expiries(w: World) -> list[tuple[Table, Operation]]:
    found = [
        (t, o)
        for t in w.tables
        for o in w.operations.values()
        if o.f == "expire-snapshots" and o.table == t.name and o.type == "ok"
    ]
    return w.shuffled(found)


@mutation("expiry-that-counts-too-much", "commits", "wrong-result", seen=COUNTED)
def too_many(w: World) -> Planted | None:
    """An expiry says that it dropped more snapshots than disappeared."""
    for t, o in _expiries(w):
        row: list[Any] = list(o.result[0])
        gone = {s for m in t.log.metadata for s in m.snapshots} - set(t.log.metadata[-1].snapshots)
        row[4] = len(gone) + w.rng.randint(1, 9)
        return w.planted(o.op, events=returned(w.events, {o.op: [row]}))
    return None


@mutation("expiry-that-removed-nothing", "commits", "wrong-result", seen=FORGOTTEN)
def nothing_expired(w: World) -> Planted | None:
    """An expiry says that it deleted files, and the table lists the same snapshots as before."""
    t = w.choose(w.tables)
    if t is None:
        return None
    dropping = [
        b.n
        for a, b in zip(t.log.metadata, t.log.metadata[1:], strict=False)
        if not set(a.snapshots) <= set(b.snapshots)
    ]
    # Something must have been committed after the new expiry and before any that did drop snapshots.
    between = [c for c in t.main if not dropping or c.metadata < dropping[0]]
    last = max(t.operations[c.op].invoked.index for c in between if c.op is not None)
    first = next((i for k in t.positions if (i := acked(t.op(k))) is not None), 0)
    if last <= first + 1:
        return None
    process, row = fresh(w.events), [w.rng.randrange(9), 0, 0, w.rng.randint(1, 12), w.rng.randint(0, 7), 0]
    new = [
        Event(0, 0, "invoke", process, "expire-snapshots", t.name, {"retain_last": 10}, "expiry"),
        Event(0, 0, "ok", process, "expire-snapshots", t.name, [row], "expiry"),
    ]
    return w.planted("expiry", events=inserted(w.events, w.rng.randint(first + 1, last), new))


# --- captures -----------------------------------------------------------------------------------------------------------


def _capture(w: World, t: Table, n: int, metadata: str | None) -> Planted:
    captures = list(t.log.captures)
    captures[n] = replace(captures[n], metadata=metadata)
    return w.planted(log=replace(t.log, captures=tuple(captures)), nobody=CATALOG)


@mutation("stale-pointer", "commits", "stale-pointer", seen="a replica of the catalog's database that lags behind")
def stale_pointer(w: World) -> Planted | None:
    """The catalog names a version that lacks a commit acknowledged before it was asked."""
    for t, n in w.shuffled((x, n) for x in w.tables for n in range(len(x.log.captures) - 1)):
        capture = t.log.captures[n]
        before = [
            t.main[k - 1].metadata
            for k in t.positions
            if (o := t.op(k)).type == "ok" and o.completed is not None and o.completed.time < capture.time
        ]
        if capture.metadata is not None and before and max(before):
            return _capture(w, t, n, t.log.metadata[w.rng.randrange(max(before))].location)
    return None


@mutation("table-gone-for-a-while", "commits", "lost-table", seen="https://github.com/apache/iceberg/issues/2319")
def gone(w: World) -> Planted | None:
    """The catalog has no table for a while, and then has it again."""
    found = [(t, n) for t in w.tables for n in range(1, len(t.log.captures) - 1) if t.log.captures[0].metadata]
    chosen = w.choose(found)
    return None if chosen is None else _capture(w, *chosen, None)


MUTATIONS: tuple[Mutation, ...] = (
    no_trace,
    lost_snapshot,
    wrong_count,
    too_many,
    nothing_expired,
    stale_pointer,
    gone,
)
"""In the order of the file."""
