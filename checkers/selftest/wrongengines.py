"""Bugs of an engine beside Spark, in runs of several engines: held against that engine's own promise, and against nobody else.

The recorded runs are Spark's. So a bug is planted first, and then the writer that is to blame becomes another engine's (:func:`as_guest`):
its events say so, its snapshots name no operation, and proxies have seen its requests, as in a real run.
"""

from __future__ import annotations

from collections.abc import Iterable

from checkers.evidence.evidence import Evidence
from checkers.evidence.history import Event, Operation
from checkers.evidence.proxylog import AcceptedChange, Carried
from checkers.evidence.replace import replace
from checkers.evidence.tablelog import TableLog
from checkers.selftest import lostcommits, wrongrows
from checkers.selftest.mutation import mutation
from checkers.selftest.world import GONE, Planted, World
from workloads.engines.engines import ENGINES
from workloads.operations.kinds import KINDS

GUEST = "duckdb"
"""The engine that the writer to blame becomes: what it can do, it promises to be serializable on every table."""
ENDPOINT = "POST /v1/transactions/commit"
TRIES = 20
"""Placements of a bug of Spark's that are tried, until one is of something that the guest can do."""

_DUCKDB = "https://github.com/duckdb/duckdb-iceberg"
_REST = "https://github.com/apache/iceberg/blob/main/open-api/rest-catalog-open-api.yaml: /v1/transactions/commit answers an empty 204"
_FLINK = (
    "https://github.com/apache/iceberg/issues/2033: a restored Flink job commits what an older checkpoint had committed"
)


def able(e: Evidence, o: Operation) -> bool:
    """Whether the guest could have executed an operation."""
    return o.table is not None and o.table in e.tables and ENGINES[GUEST].can(o.f, e.tables[o.table])


def as_guest(e: Evidence, op: str) -> Evidence:
    """The run in which the writer of an operation is the guest, as far as the guest can do what that writer did."""
    operations = {o.op: o for o in e.history.operations()}
    writer = op.rpartition("-")[0]
    theirs = {o.op: o for o in operations.values() if o.op.rpartition("-")[0] == writer and able(e, o)}

    def marked(x: Event) -> Event:
        return replace(x, extra={**x.extra, "engine": GUEST}) if x.type == "invoke" and x.op in theirs else x

    history = replace(e.history, events=tuple(map(marked, e.history.events)))
    sent = {table: [*_seen(log, theirs)] for table, log in e.logs.items()}
    logs = {table: _unnamed(log, theirs) for table, log in e.logs.items()}
    carried = {
        t: tuple(Carried(a.time, a.writer, a.op or "", a.adds, True, a.answer) for a in s) for t, s in sent.items()
    }
    accepted = {t: tuple(s) for t, s in sent.items()}
    return replace(e, history=history, logs=logs, swaps={}, accepted=accepted, carried=carried, proxied=True)


def _seen(log: TableLog, theirs: dict[str, Operation]) -> Iterable[AcceptedChange]:
    for c in log.commits:
        o = theirs.get(c.op or "")
        if o is not None:
            yield AcceptedChange(
                o.start, o.start, None, o.op, c.parent_id, (c.snapshot_id,), c.snapshot_id, ENDPOINT, "204"
            )


def _unnamed(log: TableLog, theirs: dict[str, Operation]) -> TableLog:
    commits = (
        replace(c, op=None, attempt=None, summary={k: v for k, v in c.summary.items() if k != "icequake-op"})
        if c.op in theirs
        else c
        for c in log.commits
    )
    return replace(log, commits=tuple(commits))


def _of_guest(w: World, plant: object) -> tuple[Planted, Operation] | None:
    """A bug of an operation that the guest can do, and that operation; the run is still Spark's."""
    for _ in range(TRIES):
        bug: Planted | None = plant(w)  # type: ignore[operator]
        if bug is None or bug.culprit is None:
            return None
        o = next(o for o in bug.evidence.history.operations() if o.op == bug.culprit)
        if able(bug.evidence, o) and explains(o):
            return bug, o
    return None


def explains(o: Operation) -> bool:
    """Whether an operation is a writer's of the workload, so that its id names the writer."""
    return o.op.startswith("w") and KINDS[o.f].writes


@mutation(
    "serializable-engine-commits-at-snapshot",
    "replay",
    "write-skew",
    seen=f"{_DUCKDB}, if it did not require that main has not moved",
)
def at_snapshot(w: World) -> Planted | None:
    """An engine that promises serializability on every table commits what it meant at its scan, though what it read has changed since."""
    found = _of_guest(w, lambda w: wrongrows.at_scan(w, concurrent=True, any_level=True))
    return None if found is None else replace(found[0], evidence=as_guest(found[0].evidence, found[1].op))


@mutation("checkpoint-committed-twice", "commits", "duplicate-commit", seen=_FLINK)
def checkpoint_twice(w: World) -> Planted | None:
    """An engine that never names its operations commits the same rows twice, and no proxy saw it."""
    for _ in range(TRIES):
        found = _of_guest(w, lostcommits.double_apply.plant)
        if found is None:
            return None
        bug, o = found
        if KINDS[o.f].signs and KINDS[o.f].means_the_same_everywhere:
            e = as_guest(bug.evidence, o.op)
            return replace(bug, evidence=replace(e, accepted={}, carried={}, proxied=False))
    return None


@mutation("acknowledged-by-the-server-and-not-made", "commits", "lost-commit", seen=_REST)
def transaction_lost(w: World) -> Planted | None:
    """A catalog server answers 204 to a transaction and does not make its commit."""
    found = _of_guest(w, lostcommits.never_applied.plant)
    if found is None or (table := found[1].table) is None:
        return None
    bug, o = found
    e = as_guest(bug.evidence, o.op)
    snapshot = 1 + max((c.snapshot_id for c in e.logs[table].commits), default=0)
    end = o.completed.time if o.completed is not None else o.start
    sent = AcceptedChange(o.start, end, None, o.op, None, (snapshot,), snapshot, ENDPOINT, "204")
    request = Carried(o.start, None, o.op, (snapshot,), True, "204")
    accepted = {**e.accepted, table: (*e.accepted.get(table, ()), sent)}
    carried = {**e.carried, table: (*e.carried.get(table, ()), request)}
    return replace(bug, evidence=replace(e, accepted=accepted, carried=carried))


@mutation(
    "acknowledged-without-a-request",
    "commits",
    "lost-commit",
    seen=f"{_DUCKDB}, if it lost a transaction on its way to the catalog",
)
def never_sent(w: World) -> Planted | None:
    """An engine reports success without having sent a commit."""
    found = _of_guest(w, lostcommits.never_applied.plant)
    return None if found is None else replace(found[0], evidence=as_guest(found[0].evidence, found[1].op))


@mutation("proxies-and-rows-disagree", "commits", seen="a proxy that takes a request for another writer's")
def disagree(w: World) -> Planted | None:
    """Proxies saw a snapshot in the request of an operation, but its rows bear the id of another one."""
    ops = [o for o in w.operations.values() if o.type == "ok" and able(w.evidence, o) and explains(o)]
    signed = {o.op for o in ops if KINDS[o.f].means_the_same_everywhere}
    o = w.first(
        (o for o in ops if o.op in signed), lambda o: any(t.position.get(o.op) for t in w.tables if t.name == o.table)
    )
    if o is None or o.table is None:
        return None
    others = [
        x.op
        for x in ops
        if x.op in signed and x.table == o.table and x.op.rpartition("-")[0] != o.op.rpartition("-")[0]
    ]
    other = w.choose(others)
    if other is None:
        return None
    e = as_guest(w.evidence, o.op)
    carried = tuple(replace(c, op=other) if c.op == o.op else c for c in e.carried[o.table])
    return Planted(replace(e, carried={**e.carried, o.table: carried}, accepted={}), frozenset((o.op,)), nobody=GONE)


MUTATIONS = (at_snapshot, checkpoint_twice, transaction_lost, never_sent, disagree)
"""In the order of the file."""
