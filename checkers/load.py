"""The ``load`` checker: did the run put enough load on each table that the other verdicts mean anything?

All other checkers look for a broken promise in what happened. Where nothing happened they find none, and that proves nothing: a table
whose writers all fail, because of a mistyped table property for example, would be valid. So a table is ``unknown`` if the workload has write
operations on it, none of them committed a change, and not all of them were acknowledged; and so is a run in which the workload did not
invoke a single operation.

**A write** is an operation of the workload that changes rows; on a table that has none of these, one that changes the table's metadata.
The set-up, the final reads, the nemesis's operations and maintenance do not count: a table may well be only read, or only maintained.

**It committed** if a snapshot of the table log bears its id, whatever the writer was told: a write that was reported as failed, or whose
outcome is unknown, can be there. The snapshot must add or remove a file: Iceberg also commits an UPDATE that finds no row, as a
snapshot without files, and on an empty table it always does. A change of metadata alone leaves no snapshot, so its acknowledgement counts.
An operation on two tables counts for both if it is in one of them: the other half is ``atomicity``'s question. Whether main
still has the snapshot does not matter: that is the question of ``commits``.

The rest is told and decides nothing: tables whose writes were all acknowledged and found nothing to change, tables that were not written at
all, how often commits met a conflict, kinds of operations of which none succeeded, with their commonest error, and the anomalies of
``liveness`` that a run of this length cannot show.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypedDict

from checkers.evidence.error_chain import commonest
from checkers.evidence.evidence import Evidence
from checkers.evidence.history import NEMESIS, NS_PER_S, ErrorChain, Operation
from checkers.evidence.outcome import conflict_of
from checkers.evidence.replace import replace
from checkers.evidence.tablelog import TableLog
from checkers.liveness import Liveness
from checkers.timeline import explain
from checkers.timeline.operation_columns import AROUND
from checkers.timeline.timeline import kind_of
from checkers.timeline.two_tables import by_table
from checkers.unit import RunChecker, RunColumns, Unit
from checkers.verdict import Validity, Verdict
from workloads.operations.kinds import KINDS


class LoadTable(TypedDict):
    """What the workload did to one table."""

    operations: int
    """Operations of the workload on it, reads and maintenance too."""
    writes: int
    """Those that change its rows; if there are none, those that change its metadata."""
    committed: int
    """Writes that committed a change; see the module's text."""


class NeverSucceeded(TypedDict):
    """A kind of operation of which none was acknowledged and none committed."""

    operations: int
    error: str
    """The commonest error: class and message, without what differs from one operation to the next."""
    count: int
    """Operations that ended with it."""


class LoadStats(TypedDict):
    """What the workload did, without the set-up, the final reads and the nemesis's operations."""

    seconds: float
    """From the first invocation of the run to its last event."""
    commits: int
    """Snapshots that its operations made, in all tables."""
    retried: int
    """Those that needed more than one attempt."""
    aborted: int
    """Operations that a concurrent commit aborted."""
    tables: dict[str, LoadTable]
    never_succeeded: dict[str, NeverSucceeded]
    """By kind of operation."""
    out_of_reach: dict[str, float]
    """Anomaly of ``liveness`` → the seconds that a run must last at least to show it, for those that this one did not last."""


@dataclass(frozen=True)
class LoadCounts:
    """What is counted table by table.

    Attributes:
        tables: by name.
        missed: table → its writes that committed no change.
        operations: of the workload.
        commits: that these made; ``retried``: those that needed more than one attempt.
        aborted: operations that a concurrent commit aborted.
        succeeded: kind of operation → whether one of them was acknowledged or committed.
    """

    tables: dict[str, LoadTable]
    missed: dict[str, list[Operation]]
    operations: int
    commits: int
    retried: int
    aborted: int
    succeeded: dict[str, bool]


@dataclass(frozen=True)
class LoadPart:
    """What one table adds.

    Attributes:
        counts: with no write missed.
        idle: whether none of its writes committed a change.
        failed: kind of which no operation succeeded → event that invoked and error of each.
    """

    counts: LoadCounts
    idle: bool
    failed: dict[str, list[tuple[int, ErrorChain | None]]]


def counted(
    operations: Iterable[Operation], logs: Mapping[str, TableLog], names: Iterable[str]
) -> tuple[LoadCounts, list[Operation], set[str | None]]:
    """What is counted, the workload's operations, and those of them that committed a change of files.

    Args:
        names: of the tables.
    """
    ops = [o for o in operations if o.invoked.extra.get("phase") not in (*AROUND, NEMESIS)]
    ids = {o.op for o in ops}
    made = [c for log in logs.values() for c in log.commits if c.op in ids]
    committed = {c.op for c in made if c.added_files or c.removed_files or not c.readable}
    tables: dict[str, LoadTable] = {}
    missed: dict[str, list[Operation]] = {}
    on = by_table(ops)
    for table in sorted(names):
        writes = _writes(on.get(table, ()))
        has_log = table in logs
        missed[table] = [o for o in writes if not _committed(o, committed, has_log)]
        tables[table] = {
            "operations": len(on.get(table, ())),
            "writes": len(writes),
            "committed": len(writes) - len(missed[table]),
        }
    well = {o.f for o in ops if o.type == "ok" or o.op in committed}
    succeeded = {f: f in well for f in dict.fromkeys(o.f for o in ops)}
    retried = sum(c.attempt is not None and c.attempt > 1 for c in made)
    aborted = sum(o.error is not None and conflict_of(o) is not None for o in ops)
    return LoadCounts(tables, missed, len(ops), len(made), retried, aborted, succeeded), ops, committed


class Load(RunChecker):
    """Tables on which no write of the workload committed, and what else the run was too idle or too short to show."""

    name = "load"
    names = frozenset[str]()
    stats_type = LoadStats

    def check(self, evidence: Evidence) -> Verdict:
        """No anomalies. ``stats``: :class:`LoadStats`."""
        counts, ops, committed = counted(evidence.history.operations(), evidence.logs, evidence.tables)
        seconds = _seconds(evidence, evidence.history.operations())
        least = Liveness().least_seconds(evidence.history.header)
        return self._verdict(counts, seconds, least, _never_succeeded(ops, committed))

    def part(self, unit: Unit) -> LoadPart:
        """What a table adds."""
        assert unit.log is not None
        counts, invoked, _ = counted(unit.ops, {unit.name: unit.log}, [unit.name])
        failed: dict[str, list[tuple[int, ErrorChain | None]]] = {}
        for o in invoked:
            if not counts.succeeded[o.f]:
                failed.setdefault(o.f, []).append((o.invoked.index, o.error))
        idle = bool(counts.missed[unit.name]) and not counts.tables[unit.name]["committed"]
        return LoadPart(replace(counts, missed={unit.name: []}), idle, failed)

    def whole(self, run: RunColumns, parts: Sequence[LoadPart]) -> Verdict | None:
        """As :meth:`check`; None if nothing changed a table that was written to."""
        if any(p.idle for p in parts):
            return None
        counts = [p.counts for p in parts]
        succeeded = {f for n in counts for f, did in n.succeeded.items() if did}
        failed = sorted({f for n in counts for f in n.succeeded} - succeeded)
        errors = {f: sorted((x for p in parts for x in p.failed.get(f, ())), key=lambda x: x[0]) for f in failed}
        together = LoadCounts(
            tables={name: seen for n in counts for name, seen in n.tables.items()},
            missed={},
            operations=sum(n.operations for n in counts),
            commits=sum(n.commits for n in counts),
            retried=sum(n.retried for n in counts),
            aborted=sum(n.aborted for n in counts),
            succeeded={f: f in succeeded for f in (*succeeded, *failed)},
        )
        seconds = round((run.end - int(run.columns.start.min())) / NS_PER_S, 3)
        never = {f: none_succeeded([e for _, e in found]) for f, found in errors.items()}
        return self._verdict(together, seconds, Liveness().least_seconds(run.header), never)

    def _verdict(
        self,
        counts: LoadCounts,
        seconds: float,
        least: Mapping[str, float],
        never: dict[str, NeverSucceeded],
    ) -> Verdict:
        """The verdict from what was counted.

        Args:
            counts: of all tables.
            seconds: that the run took.
            least: as :meth:`Liveness.least_seconds`.
            never: kinds of which none succeeded.
        """
        tables, missed, operations, aborted = counts.tables, counts.missed, counts.operations, counts.aborted
        made, retried = counts.commits, counts.retried
        beyond = {name: s for name, s in least.items() if seconds < s}
        idle = {t: ops for t, ops in missed.items() if ops and not tables[t]["committed"]}
        broken = {t: ops for t, ops in idle.items() if any(o.type != "ok" for o in ops)}
        undecided: list[str] = []
        if broken:
            undecided.append(_idle(broken))
        if not operations and tables:
            undecided.append("the workload invoked no operation, so nothing was tested")
        notes = [f"{kind}: {_none_succeeded(n['operations'])}; {_commonest(n)}" for kind, n in never.items()]
        notes += [_idle({t: ops}) for t, ops in idle.items() if t not in broken]
        unwritten = [t for t in tables if not tables[t]["writes"]]
        if operations and unwritten:
            notes.append(f"the workload has no write operation on {explain.listing(unwritten)}")
        if made and not retried and not aborted:
            notes.append(
                "no commit met a conflict (none was retried, none aborted), so what concurrent commits do to each other was not tested"
            )
        if beyond:
            needs = ", ".join(f"{name} (at least {s:g} s)" for name, s in beyond.items())
            notes.append(f"the run took {seconds:.1f} s, too short for {Liveness.name} to find {needs}")
        stats: LoadStats = {
            "seconds": seconds,
            "commits": made,
            "retried": retried,
            "aborted": aborted,
            "tables": tables,
            "never_succeeded": never,
            "out_of_reach": beyond,
        }
        valid: Validity = "unknown" if undecided else True
        return Verdict(self.name, valid, stats=stats, notes=(*undecided, *notes))


def _writes(ops: Iterable[Operation]) -> list[Operation]:
    """The operations on a table that change rows; if there are none, those that change its metadata."""
    every = [*ops]
    kinds = {f: kind for f in {o.f for o in every} if (kind := KINDS.get(f)) is not None and kind.commits}
    of_rows, alter = {f for f, k in kinds.items() if k.changes_rows}, {f for f, k in kinds.items() if k.verb == "alter"}
    return [o for o in every if o.f in of_rows] or [o for o in every if o.f in alter]


def _committed(o: Operation, committed: Container[str | None], has_log: bool) -> bool:
    """Whether a write committed. Without a table log its acknowledgement is all that is known."""
    kind = kind_of(o)
    leaves_a_snapshot = has_log and kind is not None and kind.writes
    return o.op in committed or (o.type == "ok" and not leaves_a_snapshot)


def _never_succeeded(ops: Sequence[Operation], committed: Container[str | None]) -> dict[str, NeverSucceeded]:
    by_kind: dict[str, list[Operation]] = {}
    for o in ops:
        by_kind.setdefault(o.f, []).append(o)
    out: dict[str, NeverSucceeded] = {}
    for f, found in sorted(by_kind.items()):
        if any(o.type == "ok" or o.op in committed for o in found):
            continue
        out[f] = none_succeeded([o.error for o in found])
    return out


def none_succeeded(errors: Sequence[ErrorChain | None]) -> NeverSucceeded:
    """What is told of a kind whose operations ended with these errors."""
    error, count = commonest(errors)
    return {"operations": len(errors), "error": error, "count": count}


def _idle(missed: Mapping[str, Sequence[Operation]]) -> str:
    """The tables on which no write committed a change, how their writes ended, and why most of those that did not succeed did not."""
    ops = list({o.op: o for found in missed.values() for o in found}.values())
    ends: Counter[str] = Counter(o.type for o in ops)
    words = {"fail": "failed", "info": "of unknown outcome", "ok": "acknowledged without a change"}
    how = ", ".join(f"{ends[end]} {doing}" for end, doing in words.items() if ends[end])
    which = "the only write changed nothing" if len(ops) == 1 else f"none of {len(ops)} writes changed anything"
    text = f"{explain.listing(missed)}: {which} ({how}), so nothing was tested there"
    if ends["ok"] == len(ops):
        return text
    error, count = commonest(o.error for o in ops if o.type != "ok")
    return f"{text}; the commonest error, {_times(count)}: {error}"


def _none_succeeded(operations: int) -> str:
    return "the only operation did not succeed" if operations == 1 else f"none of {operations} operations succeeded"


def _commonest(n: NeverSucceeded) -> str:
    return f"the commonest error, {_times(n['count'])}: {n['error']}"


def _times(n: int) -> str:
    return "once" if n == 1 else f"{n} times"


def _seconds(evidence: Evidence, ops: Sequence[Operation]) -> float:
    start = min((o.start for o in ops), default=0)
    end = max((e.time for e in evidence.history.events), default=start)
    return round((end - start) / NS_PER_S, 3)
