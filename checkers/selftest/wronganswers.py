"""Bugs of procedures and of the catalog's pointer that the ``commits`` checker must find: answers that the table log contradicts."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from checkers.evidence.history import Operation
from checkers.evidence.replace import replace
from checkers.selftest import edits
from checkers.selftest.goodtable import GoodTable, acked
from checkers.selftest.plant import Plant, Plants, table, whole
from checkers.selftest.sites import CommitSite, commits, maintenance
from checkers.selftest.world import CATALOG_DID_IT, Planted, World

DONE: dict[str, list[list[int]]] = {
    "rewrite-data-files": [[4, 1, 5996, 0, 0]],
    "rewrite-position-delete-files": [[3, 1, 4120, 1390]],
    "rewrite-manifests": [[7, 1]],
}
"""Kind → the answer of one that did something."""
EXACT = {"rewrite-data-files": (0, 1, 2), "rewrite-position-delete-files": (1, 3), "rewrite-manifests": (0, 1)}
"""Kind → the columns of its answer that the log determines."""
NO_ANSWERS: dict[str, list[Any]] = {
    **{f: [None, [], [[]], [[None] * 6], [["none"] * 6], [[0]]] for f in (*DONE, "expire-snapshots")},
    "rollback": [None, [[1, 2]], {"snapshot": None, "rows": [[1, 2]]}],
}
"""Kind → results that are no answer of it."""
UNSAID = "nothing says what the procedure answered"
LOST_WRITE_SOURCE = "https://jepsen.io/analyses: an acknowledged operation of which nothing is left"
COUNTED = "counts that are taken from the plan, and not from what was committed"


def answers(w: World, o: Operation, *row: int) -> Planted:
    """The run in which a procedure answered with these numbers."""
    return w.planted(o.op, events=edits.returned(w.events, {o.op: [list(row)]}))


def no_trace(w: World) -> Planted | None:
    """A procedure that failed is acknowledged with counts of what it replaced."""
    o = w.choose(o for o in w.operations.values() if o.type == "fail" and o.f in DONE)
    if o is None:
        return None
    return w.planted(o.op, events=edits.returned(edits.completed(w.events, o.op, "ok"), {o.op: DONE[o.f]}))


def told_and_lost(p: CommitSite) -> Planted | None:
    """The snapshot of an acknowledged procedure is not in the table."""
    o = p.o
    says = o.f in DONE and isinstance(o.result, list) and len(o.result) == 1 and any(o.result[0][:2])
    alone = sum(p.t.op(j).op == o.op for j in p.t.positions) == 1
    return p.planted(log=p.t.without(p.k)) if says and alone else None


def wrong_count(p: CommitSite) -> Planted | None:
    """A procedure answers with a number that is not what it did."""
    row = list(p.o.result[0])
    n = p.w.rng.choice(EXACT[p.o.f])
    row[n] = p.w.rng.choice([x for x in (row[n] + 1, row[n] + 7, row[n] // 2, 0) if x != row[n]])
    return answers(p.w, p.o, *row) if any(row[:2]) else None


def negative_count(w: World) -> Planted | None:
    """A procedure answers with a negative number."""
    o = w.choose(o for o in w.operations.values() if o.type == "ok" and (o.f in DONE or o.f == "expire-snapshots"))
    if o is None:
        return None
    row = list(o.result[0])
    n = w.rng.randrange(len(row))
    row[n] = -row[n] or -1
    return answers(w, o, *row)


def no_answer(w: World) -> Planted | None:
    """A procedure is acknowledged without its answer."""
    o = w.choose(o for o in w.operations.values() if o.type == "ok" and o.f in NO_ANSWERS)
    if o is None:
        return None
    events = edits.returned(w.events, {o.op: w.rng.choice(NO_ANSWERS[o.f])})
    return replace(w.planted(o.op, events=events), culprit=None, nobody=UNSAID)


def counts(p: CommitSite) -> bool:
    """Whether the log determines a number of the operation's answer."""
    return p.o.f in EXACT and isinstance(p.o.result, list) and bool(p.o.result)


def too_many(w: World) -> Planted | None:
    """An expiry says that it dropped more snapshots than disappeared."""
    found = [(t, o) for t in w.tables for o in t.expiries if o.type == "ok"]
    for t, o in w.shuffled(found):
        row: list[Any] = list(o.result[0])
        dropped = {s for m in t.log.metadata for s in m.snapshots} - set(t.log.metadata[-1].snapshots)
        row[4] = len(dropped) + w.rng.randint(1, 9)
        return answers(w, o, *row)
    return None


def nothing_expired(w: World) -> Planted | None:
    """An expiry says that it deleted files, and the table lists the same snapshots as before."""
    t = w.choose(w.tables)
    if t is None:
        return None
    dropping = [b.n for a, b in pairwise(t.log.metadata) if not set(a.snapshots) <= set(b.snapshots)]
    # Something must have been committed after the new expiry and before any that did drop snapshots.
    between = [c for c in t.main if not dropping or c.metadata < dropping[0]]
    last = max(t.operations[c.op].invoked.index for c in between if c.op is not None)
    first = next((i for k in t.positions if (i := acked(t.op(k))) is not None), 0)
    if last <= first + 1:
        return None
    process, row = edits.fresh(w.events), [w.rng.randrange(9), 0, 0, w.rng.randint(1, 12), w.rng.randint(0, 7), 0]
    new = edits.answered(process, "expire-snapshots", t.name, {"retain_last": 10}, "expiry", [row])
    return w.planted("expiry", events=edits.inserted(w.events, w.rng.randint(first + 1, last), new))


PROCEDURES: Plants = {
    "procedure-that-left-no-trace": Plant(no_trace, "lost-commit", where=whole, seen=LOST_WRITE_SOURCE),
    "procedure-whose-snapshot-is-lost": Plant(
        told_and_lost, "lost-commit", where=commits(maintenance), seen=LOST_WRITE_SOURCE
    ),
    "procedure-that-counts-wrong": Plant(wrong_count, where=commits(maintenance, counts)),
    "negative-count": Plant(negative_count, where=whole, seen="a 32-bit sum of sizes or counts that overflows"),
    "answer-of-no-form": Plant(
        no_answer,
        "",
        where=whole,
        seen="a client that reads another release's answer, or none when its connection breaks",
    ),
    "expiry-that-counts-too-much": Plant(too_many, where=whole),
    "expiry-that-removed-nothing": Plant(
        nothing_expired, where=whole, seen="a service that answers from its own state, which the store does not have"
    ),
}


# --- captures -----------------------------------------------------------------------------------------------------------


def stale_pointer(w: World) -> Planted | None:
    """The catalog names a version that lacks a commit acknowledged before it was asked."""
    for t, n in w.shuffled((x, n) for x in w.tables for n in range(len(x.log.captures) - 1)):
        time = t.log.captures[n].time
        before = [
            t.version_of(k) for k in t.positions if (o := t.op(k)).type == "ok" and o.end is not None and o.end < time
        ]
        if t.log.captures[n].metadata is not None and before and max(before):
            return _captured(w, t, n, t.log.metadata[w.rng.randrange(max(before))].location)
    return None


def not_found(w: World) -> Planted | None:
    """The catalog has no table for a while, and then has it again."""
    found = [(t, n) for t in w.tables for n in range(1, len(t.log.captures) - 1) if t.log.captures[0].metadata]
    chosen = w.choose(found)
    return None if chosen is None else _captured(w, *chosen, None)


def _captured(w: World, t: GoodTable, n: int, metadata: str | None) -> Planted:
    return w.planted(log=t.with_capture(n, metadata), nobody=CATALOG_DID_IT)


CAPTURES: Plants = {
    "stale-pointer": Plant(stale_pointer, "stale-pointer", seen="a replica of the catalog's database that lags behind"),
    "table-gone-for-a-while": Plant(not_found, "lost-table", seen="apache/iceberg#2319"),
}


PLANTS = (
    *table(PROCEDURES, "commits", names="wrong-result", seen=COUNTED),
    *table(CAPTURES, "commits", where=whole, neutral=True),
)
