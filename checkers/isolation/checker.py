"""The ``isolation`` checker: is every table's dependency graph free of the cycles that its level forbids?

A table promises its Iceberg level for every operation and in real time, as a single catalog without a cache provides it:

* ``serializable``: strict serializability. Commits are a total order, validated against what they scanned; reads see the newest commit.
* ``snapshot``: strong session snapshot isolation. Write skew (``G2-item``, ``G2``) is legal: it counts as *allowed*.

Each operation has its own level: its engine's, or that of its command (``write.<command>.isolation-level``). Where a table has operations
of both levels, one at ``snapshot`` may have read an older state than it commits on, and no other may: a cycle contradicts the promises just
if no two anti-dependencies in succession meet in an operation at ``snapshot`` (``cycles``), and real time counts only before operations
that are ``serializable``. What an engine promises that this version does not know is left open: its operations accuse nobody.
INSERT … SELECT and MERGE with only an insert clause are validated at no level (apache/iceberg#12653): what they cause is ``documented``,
an anomaly where serializable.

Each table is judged alone: a statement touches one table, and strict serializability is local. Reads of older snapshots by name
(time travel) are not ordered. The checkers ``replay`` and ``reads`` check that every commit means what its operation says and that
every read returns a state; an operation that they cannot explain reads nothing here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TypedDict

import numpy as np

from checkers.evidence.history import Operation
from checkers.evidence.replace import replace
from checkers.isolation.cycles import Cycle, explain_cycle, find_cycles
from checkers.isolation.graph import KIND_NAMES, REALTIME, RW, RWP, Bools
from checkers.isolation.levels import CYCLES, LEVELS, VARIANTS, forbids, strongest, violated, weakest
from checkers.isolation.transactions import MOST_FINDINGS, IsolationFinding
from checkers.isolation.whitebox import TableGraph
from checkers.timeline import explain
from checkers.timeline.promise import isolation, known, not_known, source_of_blind_append, unknown_engines
from checkers.timeline.timeline import Timeline, kind_of
from checkers.unit import Part, TableChecker, Unit, unjudged
from checkers.verdict import Anomaly

PROMISES = {"serializable": "strict-serializable", "snapshot": "strong-session-snapshot-isolation"}
"""A table's isolation level → what its operations must satisfy."""
_WEAKER = PROMISES["snapshot"]


class IsolationTable(TypedDict):
    """What the dependency graph of one table says."""

    level: str
    """The weakest level that an operation of the table was promised: a value of :data:`PROMISES`."""
    promised: dict[str, int]
    """Level → transactions of the graph that were promised it."""
    weakest_violated: list[str]
    """Of the levels that the cycles violate, those that imply no other of them."""
    strongest_standing: list[str]
    """Of the levels that no cycle violates, those that no other of them implies."""
    transactions: int
    """Commits and reads in the graph."""
    dependencies: int
    """Edges between these."""
    violations: dict[str, int]
    """Name of an anomaly that the level forbids → how many."""
    allowed: dict[str, int]
    """Name of an anomaly that is legal at the level → how many."""
    older_scans: int
    """Operations that only an older scan than their commit's parent explains."""
    older_scans_ops: list[str]
    unexplained: int
    """Commits that no scan explains, and reads that equal no state."""
    unexplained_ops: list[str]
    reads_left_out: int
    """Reads whose state could not be told."""


class IsolationStats(TypedDict):
    """What the checker found out."""

    tables: dict[str, IsolationTable]


class Isolation(TableChecker):
    """Cycles of dependencies that a table's level forbids."""

    name = "isolation"
    stats_type = IsolationStats
    reducible = True
    second_opinion = True
    names = frozenset({"lost-update", *(cycle + variant for cycle in CYCLES for variant in VARIANTS)})
    by_level = frozenset(name for name in names if not forbids(_WEAKER, name))

    def part(self, unit: Unit) -> Part:
        """Anomalies named as in ``levels``: ``lost-update``, ``G-single``, ``G-nonadjacent``, ``G2-item``, ``G2``, ``G0-realtime``, …

        ``stats``: :class:`IsolationStats`.
        """
        t = unit.timeline
        if t is None:
            return unjudged(unit)
        table = TableGraph(t)
        held = _Held(table)
        judged = [(_finding(table, cycle), cycle) for _, cycle in find_cycles(table.graph)]
        anomalies: list[Anomaly] = []
        bad = list(held.broken(judged))
        named: Counter[str] = Counter()
        for f, cycle in bad:
            named[f.name] += 1
            if named[f.name] <= MOST_FINDINGS:
                anomalies.append(self._anomaly(table, f, cycle, held))
        if held.unknown.any():
            table.undecided.append(not_known(unknown_engines(n.operation for n in table.nodes if n.operation)))
        notes = [f"{t.name}: {n}" for n in table.undecided]
        if table.unexplained:
            notes.append(
                f"{t.name}: {len(table.unexplained)} operations are explained by no state that they can have read, so their "
                "dependencies are unknown (see the checkers replay and reads)"
            )
        stats = held.stats(judged, named)
        return Part(t.name, tuple(anomalies), tuple(notes), bool(table.undecided or table.unexplained), stats)

    def _anomaly(self, table: TableGraph, f: IsolationFinding, cycle: Cycle, held: _Held) -> Anomaly:
        nodes = [table.nodes[n] for n in dict.fromkeys((*held.guilty(f, cycle), *cycle.nodes))]
        level = held.level if not held.mixed or forbids(held.level, f.name) else PROMISES["serializable"]
        ops = [n.operation for n in nodes if n.operation is not None]
        commits = sorted((n.position, n.commit.snapshot_id) for n in nodes if n.commit is not None)
        blind = (source_of_blind_append(table.t.spec, o) for o in ops if o.op in table.older)
        return Anomaly(
            f.name,
            self.name,
            table.t.name,
            f"{f.explanation}\n{held.words(f, ops)}",
            ops=tuple(dict.fromkeys(o.op for o in ops)),
            events=tuple(dict.fromkeys(i for o in ops for i in o.indices)),
            snapshots=tuple(s for _, s in commits),
            keys=table.ids(cycle.nodes),
            documented=next((source for source in blind if source is not None), None),
            evidence={
                "level": level,
                "weakest_violated": list(weakest(violated([f.name]))),
                "cycle": [
                    {"before": s.before, "after": s.after, "kind": s.kind, "because": s.because} for s in f.steps
                ],
            },
        )


@dataclass(frozen=True)
class _Held:
    """What the transactions of a table's graph are held to."""

    table: TableGraph

    @cached_property
    def loose(self) -> Bools:
        """Of each transaction, whether it was promised snapshot isolation only, as far as is known."""
        spec = self.table.t.spec
        return np.array(
            [n.operation is None or isolation(spec, n.operation) == "snapshot" for n in self.table.nodes], np.bool_
        )

    @cached_property
    def unknown(self) -> Bools:
        """Of each transaction, whether nobody knows what it was promised."""
        return np.array([n.operation is not None and not known(n.operation) for n in self.table.nodes], np.bool_)

    @cached_property
    def mixed(self) -> bool:
        """Whether one level for all transactions does not do."""
        named = np.array([n.operation is not None for n in self.table.nodes], np.bool_)
        return bool(self.unknown.any()) or len(set(self.loose[named].tolist())) > 1

    @cached_property
    def level(self) -> str:
        """The weakest level that any operation was promised."""
        if self.mixed:
            return PROMISES["snapshot" if self.loose.any() else "serializable"]
        named = [n for n, node in enumerate(self.table.nodes) if node.operation is not None]
        if not named:
            return promise(self.table.t)
        return PROMISES["snapshot" if self.loose[named[0]] else "serializable"]

    @cached_property
    def promised(self) -> dict[str, int]:
        """Level → transactions that were promised it."""
        spec = self.table.t.spec
        ops = [n.operation for n in self.table.nodes if n.operation is not None and known(n.operation)]
        return dict(sorted(Counter(PROMISES[isolation(spec, o)] for o in ops).items()))

    def broken(self, judged: list[tuple[IsolationFinding, Cycle]]) -> Iterator[tuple[IsolationFinding, Cycle]]:
        """The cycles that contradict the promises; ``judged``: all that the graph has."""
        if not self.mixed:
            yield from ((f, cycle) for f, cycle in judged if forbids(self.level, f.name))
            return
        graph = self.table.graph.promised(self.loose, self.unknown)
        for _, cycle in find_cycles(graph, self.loose):
            yield _finding(self.table, cycle), cycle

    def stats(self, judged: list[tuple[IsolationFinding, Cycle]], violations: Counter[str]) -> IsolationTable:
        """What the graph says; ``violations``: of its cycles, those that contradict the promises."""
        table = self.table
        broken = violated(f.name for f, _ in judged)
        return {
            "level": self.level,
            "promised": self.promised,
            "weakest_violated": list(weakest(broken)),
            "strongest_standing": list(strongest(x for x in LEVELS if x not in broken)),
            "transactions": len(table.nodes),
            "dependencies": table.graph.edges,
            "violations": dict(violations),
            "allowed": dict(Counter(f.name for f, cycle in judged if not self.breaks(f, cycle))),
            "older_scans": len(table.older),
            "older_scans_ops": table.older,
            "unexplained": len(table.unexplained),
            "unexplained_ops": table.unexplained,
            "reads_left_out": table.skipped_reads,
        }

    def breaks(self, f: IsolationFinding, cycle: Cycle) -> bool:
        """Whether a cycle contradicts the promises."""
        if not self.mixed:
            return forbids(self.level, f.name)
        if any(self.unknown[n] for n in cycle.nodes):
            return False
        return not any(self.loose[n] and how != "held" for n, how in self._meetings(f, cycle))

    @staticmethod
    def _meetings(f: IsolationFinding, cycle: Cycle) -> Iterator[tuple[int, str]]:
        """Each transaction of a cycle, and what only a serializable one forbids there: ``apart`` (two anti-dependencies meet),
        ``late`` (real time), else ``held``."""
        kinds = [s.kind for s in f.steps]
        for n, (before, after) in zip(cycle.nodes, zip([kinds[-1], *kinds], kinds, strict=False), strict=True):
            yield n, "late" if before == _LATE else "apart" if {before, after} <= _ANTI else "held"

    def guilty(self, f: IsolationFinding, cycle: Cycle) -> list[int]:
        """Where levels differ, the transactions of a cycle whose promise is broken: those that only a serializable one's promise forbids,
        else those that missed what another had committed."""
        if not self.mixed:
            return []
        strict = [n for n, how in self._meetings(f, cycle) if how != "held" and not self.loose[n]]
        missed = [n for n, s in zip(cycle.nodes, f.steps, strict=True) if s.kind in _ANTI]
        wrote = [n for n in missed if self.table.nodes[n].commit is not None]
        return strict or wrote or missed

    def words(self, f: IsolationFinding, ops: list[Operation]) -> str:
        """Which promise a cycle breaks."""
        if not self.mixed:
            return f"The table promises {self.level}, which forbids {f.name}."
        spec = self.table.t.spec
        by_level: dict[str, list[str]] = {}
        for o in {o.op: o for o in ops}.values():
            who = f"{explain.engine(o)}'s {o.op}" if o.mixed else o.op
            by_level.setdefault(PROMISES[isolation(spec, o)], []).append(who)
        words = "; ".join(f"{level} to {explain.listing(names, 8)}" for level, names in sorted(by_level.items()))
        why = (
            "which forbid it"
            if len(by_level) < 2
            else "and no two anti-dependencies in succession meet in an operation at snapshot isolation, so they forbid it"
        )
        return f"Promised was {words}, {why} ({f.name})."


_ANTI = frozenset((KIND_NAMES[RW], KIND_NAMES[RWP]))
_LATE = KIND_NAMES[REALTIME]


def promise(t: Timeline) -> str:
    """The weakest level that a table's writes are promised."""
    levels = {t.spec.isolation} | {
        isolation(t.spec, o) for o in t.ops if (kind := kind_of(o)) is not None and kind.writes
    }
    return PROMISES["snapshot" if "snapshot" in levels else "serializable"]


def _finding(table: TableGraph, cycle: Cycle) -> IsolationFinding:
    """A cycle's name and explanation. It is a lost update ([Berenson 1995] P4) if one of two commits read a version of an id that the
    other changed before the first wrote that id."""
    f = explain_cycle(cycle, table.id, table.show, table.why)
    one_id = len({key for _, key in cycle.edges}) == 1
    if f.name == "G-single" and one_id and sorted(s.kind for s in f.steps) == ["rw", "ww"]:
        return replace(f, name="lost-update")
    return f
