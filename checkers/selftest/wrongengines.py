"""Bugs of an engine beside Spark, in runs of several engines: held against that engine's own promise, and against nobody else.

The recorded runs are Spark's. So a bug is planted first, and then the writer that is to blame becomes another engine's (:func:`as_guest`):
its events say so, its snapshots name no operation, and proxies have seen its requests, as in a real run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from checkers.evidence.evidence import Evidence
from checkers.evidence.history import Event, Operation
from checkers.evidence.proxylog import AcceptedChange, Carried
from checkers.evidence.replace import replace
from checkers.formats.iceberg.records import IcebergLog as TableLog
from checkers.formats.iceberg.records import iceberg_log
from checkers.selftest import lostcommits
from checkers.selftest.plant import Plant, Plants, table, whole
from checkers.selftest.sites import CommitSite, commits, statements
from checkers.selftest.stalescans import at_scan
from checkers.selftest.world import GONE, Planted, World
from nemesis.operation_key import OPERATION_KEY
from workloads.engines.engines import ENGINES
from workloads.operations.kinds import KINDS

GUEST = "duckdb"
"""The engine that the writer to blame becomes: what it can do, it promises to be serializable on every table."""
ENDPOINT = "POST /v1/transactions/commit"
MOST_PLACEMENTS = 20
"""Placements of a bug of Spark's that are tried, until one is of something that the guest can do."""
DUCKDB = "https://github.com/duckdb/duckdb-iceberg"


def able(e: Evidence, o: Operation) -> bool:
    """Whether the guest could have executed an operation."""
    return o.table is not None and o.table in e.tables and ENGINES[GUEST].can(o.f, e.tables[o.table])


def explains(o: Operation) -> bool:
    """Whether an operation is a writer's of the workload, so that its id names the writer."""
    return o.op.startswith("w") and KINDS[o.f].writes


def as_guest(e: Evidence, op: str) -> Evidence:
    """The run in which the writer of an operation is the guest, as far as the guest can do what that writer did."""
    writer = op.rpartition("-")[0]
    own = {o.op: o for o in e.history.operations() if o.op.rpartition("-")[0] == writer and able(e, o)}

    def marked(x: Event) -> Event:
        return replace(x, extra={**x.extra, "engine": GUEST}) if x.type == "invoke" and x.op in own else x

    history = replace(e.history, events=tuple(map(marked, e.history.events)))
    accepted = {table: tuple(_seen(iceberg_log(log), own)) for table, log in e.logs.items()}
    carried = {
        t: tuple(Carried(a.time, a.writer, a.op or "", a.adds, True, a.answer) for a in s) for t, s in accepted.items()
    }
    logs = {table: _unnamed(iceberg_log(log), own) for table, log in e.logs.items()}
    return replace(e, history=history, logs=logs, swaps={}, accepted=accepted, carried=carried, proxied=True)


def _seen(log: TableLog, own: dict[str, Operation]) -> Iterable[AcceptedChange]:
    for c in log.commits:
        o = own.get(c.op or "")
        if o is not None:
            new = c.snapshot_id
            yield AcceptedChange(o.start, o.start, None, o.op, c.parent_id, (new,), new, ENDPOINT, "204")


def _unnamed(log: TableLog, own: dict[str, Operation]) -> TableLog:
    commits = (
        replace(c, op=None, attempt=None, summary={k: v for k, v in c.summary.items() if k != OPERATION_KEY})
        if c.op in own
        else c
        for c in log.commits
    )
    return replace(log, commits=tuple(commits))


Then = Callable[[Evidence, Operation], Evidence]


def by_guest(
    plant: Callable[[World], Planted | None],
    then: Then = lambda e, o: e,
    wanted: Callable[[Operation], bool] = lambda o: True,
) -> Callable[[World], Planted | None]:
    """A bug of Spark's whose culprit is a wanted operation that the guest can do, as the guest's; ``then`` changes what proxies saw."""

    def change(w: World) -> Planted | None:
        for _ in range(MOST_PLACEMENTS):
            bug = plant(w)
            if bug is None or bug.culprit is None:
                return None
            o = next(o for o in bug.evidence.history.operations() if o.op == bug.culprit)
            if able(bug.evidence, o) and explains(o) and wanted(o):
                return replace(bug, evidence=then(as_guest(bug.evidence, o.op), o))
        return None

    return change


def answered(e: Evidence, o: Operation) -> Evidence:
    """The server has answered 204 to a transaction of the operation, whose snapshot is nowhere."""
    name = o.table or ""
    snapshot = 1 + max((c.snapshot_id for c in e.logs[name].commits), default=0)
    end = o.completed.time if o.completed is not None else o.start
    sent = AcceptedChange(o.start, end, None, o.op, None, (snapshot,), snapshot, ENDPOINT, "204")
    request = Carried(o.start, None, o.op, (snapshot,), True, "204")
    accepted = {**e.accepted, name: (*e.accepted.get(name, ()), sent)}
    return replace(e, accepted=accepted, carried={**e.carried, name: (*e.carried.get(name, ()), request)})


def same_everywhere(o: Operation) -> bool:
    """Whether rows tell who wrote them, and an operation writes the same at every state."""
    return KINDS[o.f].signs and KINDS[o.f].means_the_same_everywhere


def disagree(w: World) -> Planted | None:
    """Proxies saw a snapshot in the request of an operation, but its rows bear the id of another one."""
    ops = [o for o in w.operations.values() if o.type == "ok" and able(w.evidence, o) and explains(o)]
    signed = [o for o in ops if KINDS[o.f].means_the_same_everywhere]
    committed = {(t.name, op) for t in w.tables for op in t.position}
    o = next((o for o in w.shuffled(signed) if (o.table, o.op) in committed), None)
    if o is None or o.table is None:
        return None
    writer = o.op.rpartition("-")[0]
    other = w.choose(x.op for x in signed if x.table == o.table and x.op.rpartition("-")[0] != writer)
    if other is None:
        return None
    e = as_guest(w.evidence, o.op)
    carried = tuple(replace(c, op=other) if c.op == o.op else c for c in e.carried[o.table])
    return Planted(replace(e, carried={**e.carried, o.table: carried}, accepted={}), frozenset((o.op,)), nobody=GONE)


SCANNED: Plant[CommitSite] = Plant(at_scan(concurrent=True, any_level=True), where=commits(statements))
BY_NAME = {p.name: p.plant for p in lostcommits.PLANTS}

ENGINE_PLANTS: Plants = {
    "serializable-engine-commits-at-snapshot": Plant(
        by_guest(SCANNED.plant),
        "write-skew",
        checker="replay",
        seen=f"{DUCKDB}, if it did not require that main has not moved",
        does="An engine that promises serializability on every table commits what it meant at its scan, though what it read has changed since.",
    ),
    "checkpoint-committed-twice: An engine that never names its operations commits the same rows twice, and no proxy saw it.": Plant(
        by_guest(
            BY_NAME["double-apply"],
            lambda e, o: replace(e, accepted={}, carried={}, proxied=False),
            same_everywhere,
        ),
        "duplicate-commit",
        seen="apache/iceberg#2033: a restored Flink job commits what an older checkpoint had committed",
    ),
    "acknowledged-by-the-server-and-not-made: A catalog server answers 204 to a transaction and does not make its commit.": Plant(
        by_guest(BY_NAME["acknowledged-but-never-applied"], answered),
        seen="https://github.com/apache/iceberg/blob/main/open-api/rest-catalog-open-api.yaml: /v1/transactions/commit answers an empty 204",
    ),
    "acknowledged-without-a-request: An engine reports success without having sent a commit.": Plant(
        by_guest(BY_NAME["acknowledged-but-never-applied"]),
        seen=f"{DUCKDB}, if it lost a transaction on its way to the catalog",
    ),
    "proxies-and-rows-disagree": Plant(disagree, "", seen="a proxy that takes a request for another writer's"),
}

PLANTS = table(ENGINE_PLANTS, "commits", names="lost-commit", where=whole)
