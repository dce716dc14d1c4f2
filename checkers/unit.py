"""What a checker is given of one table, and what it says of it.

A checker of tables (:class:`TableChecker`) judges a run's tables one by one, and then puts together what it said of them. Who calls it decides
where: in this process, in several (:mod:`checkers.judge.by_table`), or on columns first (:mod:`checkers.columns`). A part depends on nothing
but its unit and can be sent to another process; whatever only the whole run can decide is left to :meth:`TableChecker.fold`.

A checker of the whole run (:class:`RunChecker`) judges a run in which nothing is wrong by columns of numbers and by what each table adds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from checkers.evidence.evidence import Evidence
from checkers.evidence.history import Operation
from checkers.evidence.proxylog import AcceptedChange, Carried, PointerSwap
from checkers.evidence.replace import replace
from checkers.evidence.tablelog import TableLog
from checkers.timeline import fault_windows, two_tables
from checkers.timeline.operation_columns import AROUND, OperationColumns
from checkers.timeline.timeline import Timeline
from checkers.timeline.timelines import timelines_by_name
from checkers.verdict import Anomaly, Checker, Validity, Verdict, worst
from workloads.tables import TableSpec

EXPLAINED = "explained"
"""Key of what is known of evidence: the tables of which ``checkers.columns`` found an order of all operations that explains every answer."""
UNITS = "units"
"""Key of the units in what is known of evidence."""


@dataclass(frozen=True)
class TableRequests:
    """What proxies saw of one table: see :class:`Evidence` for ``swaps``, ``accepted``, ``carried`` and ``proxied``."""

    swaps: tuple[PointerSwap, ...] = ()
    accepted: tuple[AcceptedChange, ...] = ()
    carried: tuple[Carried, ...] = ()
    proxied: bool = False


@dataclass(frozen=True)
class Unit:
    """One table of a run.

    Attributes:
        timeline: what happened to it; None if that cannot be told, and then ``why`` is the note on it.
        spec: its promises; None if the plan does not describe it.
        log: its log; None if there is none.
        ops: its operations in the order of their invocation; those on two tables as it saw them (``checkers.timeline.two_tables``).
        everything: all operations of the run by id, as the history has them.
        complete: whether the run reached its end; ``torn``: whether its history has problems.
        contradicted: whether the history contradicts its own clock; ``header``: its first line.
        explained: whether ``checkers.columns`` found an order of its operations that explains every answer.
    """

    name: str
    timeline: Timeline | None
    why: str
    spec: TableSpec | None
    log: TableLog | None
    ops: tuple[Operation, ...]
    everything: Mapping[str, Operation]
    requests: TableRequests
    complete: bool
    torn: bool
    contradicted: bool
    header: Mapping[str, Any]
    explained: bool = False

    @property
    def measured(self) -> list[Operation]:
        """Its operations that are the workload's, and have a completion."""
        return [o for o in self.ops if o.completed is not None and o.invoked.extra.get("phase") not in AROUND]


@dataclass(frozen=True)
class Part:
    """What a checker says of one table.

    Attributes:
        notes: what it could not check there, each with the table's name before it.
        undecided: whether that makes the verdict unknown.
        stats: what it counted there; None if it does not count the table.
        judged: whether the table could be judged at all. Notes on those that could not come first.
        more: what the checker's own :meth:`TableChecker.fold` needs besides.
    """

    table: str
    anomalies: tuple[Anomaly, ...] = ()
    notes: tuple[str, ...] = ()
    undecided: bool = False
    stats: Mapping[str, Any] | None = None
    judged: bool = True
    more: Any = None

    @property
    def valid(self) -> Validity:
        """The verdict on this table."""
        return False if self.anomalies else "unknown" if self.undecided else True


class TableChecker(Checker):
    """A checker that judges one table after the other."""

    def part(self, unit: Unit) -> Part | None:
        """What it says of one table; None if it has nothing to say. As pure as :meth:`check`."""
        raise NotImplementedError(f"{type(self).__name__} needs part(unit)")

    def fold(self, parts: Sequence[Part]) -> Verdict:
        """The verdict on the run from the parts of its tables, by name."""
        notes = [n for judged in (False, True) for p in parts if p.judged is judged for n in p.notes]
        anomalies = tuple(a for p in parts for a in p.anomalies)
        stats = {"tables": {p.table: p.stats for p in parts if p.stats is not None}}
        return Verdict(self.name, worst(p.valid for p in parts), anomalies, stats, tuple(notes))

    def check(self, evidence: Evidence) -> Verdict:
        """Judge all tables, one after the other."""
        return self.fold(parts_of(self, units(evidence)))


@dataclass(frozen=True)
class RunColumns:
    """A run whose tables were judged one by one.

    Attributes:
        header: the history's.
        columns: all operations, table after table.
        windows: of faults.
        end: when the last event was, ns.
    """

    header: Mapping[str, Any]
    columns: OperationColumns
    windows: Sequence[fault_windows.FaultWindow]
    end: int


class RunChecker(Checker):
    """A checker of the whole run."""

    def check(self, evidence: Evidence) -> Verdict:
        """Judge any run, also one in which something is wrong."""
        raise NotImplementedError(f"{type(self).__name__} needs check(evidence)")

    def part(self, unit: Unit) -> Any:
        """What :meth:`whole` needs of a table that has a timeline; None if it needs nothing."""
        return None

    def whole(self, run: RunColumns, parts: Sequence[Any]) -> Verdict | None:
        """What :meth:`check` says of a run that came to its end and whose operations are all on one table; None if that needs the evidence.

        Args:
            parts: of the tables, by name.
        """
        raise NotImplementedError(f"{type(self).__name__} needs whole(run, parts)")


def parts_of(checker: TableChecker, tables: Sequence[Unit]) -> list[Part]:
    """What the checker says of these tables."""
    return [p for p in map(checker.part, tables) if p is not None]


def unjudged(unit: Unit, more: Any = None) -> Part:
    """Of a table that cannot be judged: why."""
    return Part(unit.name, notes=(unit.why,), undecided=True, judged=False, more=more)


def units(evidence: Evidence) -> tuple[Unit, ...]:
    """The tables of a run, by name: those of its plan, of its logs and of its history."""
    if UNITS not in evidence.known:
        evidence.known[UNITS] = _units(evidence)
    explained = evidence.known.get(EXPLAINED, frozenset())
    found: tuple[Unit, ...] = evidence.known[UNITS]
    return tuple(replace(u, explained=True) if u.name in explained else u for u in found)


def _units(evidence: Evidence) -> tuple[Unit, ...]:
    history = evidence.history
    everything = {o.op: o for o in history.operations()}
    by_table = two_tables.tables_in(evidence)
    torn, contradicted = bool(history.problems), bool(history.contradictions)
    return tuple(
        Unit(
            name=name,
            timeline=None if isinstance(t, str) else t,
            why=t if isinstance(t, str) else "",
            spec=evidence.tables.get(name),
            log=evidence.logs.get(name),
            ops=tuple(by_table.get(name, ())),
            everything=everything,
            requests=TableRequests(
                evidence.swaps.get(name, ()),
                evidence.accepted.get(name, ()),
                evidence.carried.get(name, ()),
                evidence.proxied,
            ),
            complete=evidence.complete,
            torn=torn,
            contradicted=contradicted,
            header=history.header,
        )
        for name, t in timelines_by_name(evidence).items()
    )
