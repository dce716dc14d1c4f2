"""The ``isolation`` checker: is every table's dependency graph free of the cycles that its level forbids?

A table promises its Iceberg level for every operation and in real time, as a single catalog without a cache provides it:

* ``serializable``: strict serializability. Commits are a total order, validated against what they scanned; reads see the newest commit.
* ``snapshot``: strong session snapshot isolation. Write skew (``G2-item``, ``G2``) is legal: it counts as *allowed*.

If one command is at ``snapshot`` (``write.<command>.isolation-level``), the whole table is held to that. INSERT … SELECT and MERGE with
only an insert clause are validated at no level (apache/iceberg#12653): what they cause is ``documented``, an anomaly where serializable.

Each table is judged alone: a statement touches one table, and strict serializability is local. Reads of older snapshots by name
(time travel) are not ordered. The checkers ``replay`` and ``reads`` check that every commit means what its operation says and that
every read returns a state; an operation that they cannot explain reads nothing here.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TypedDict

from checkers.evidence.evidence import Evidence
from checkers.isolation.cycles import Cycle, explain_cycle, find_cycles
from checkers.isolation.graph import THROUGH
from checkers.isolation.levels import CYCLES, LEVELS, VARIANTS, forbids, strongest, violated, weakest
from checkers.isolation.transactions import MOST, Finding
from checkers.isolation.whitebox import TableGraph
from checkers.timeline.promise import BLIND_APPEND, isolation
from checkers.timeline.timeline import Timeline, kind_of, timelines
from checkers.verdict import Anomaly, Checker, Validity, Verdict

PROMISES = {"serializable": "strict-serializable", "snapshot": "strong-session-snapshot-isolation"}
"""A table's isolation level → what its operations must satisfy."""


class IsolationTable(TypedDict):
    """What the dependency graph of one table says."""

    level: str
    """The level that the table is held to: a value of :data:`PROMISES`."""
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


class Isolation(Checker):
    """Cycles of dependencies that a table's level forbids."""

    name = "isolation"
    stats_type = IsolationStats
    reducible = True
    second_opinion = True
    names = frozenset({"lost-update", *(cycle + variant for cycle in CYCLES for variant in VARIANTS)})

    def check(self, evidence: Evidence) -> Verdict:
        """Anomalies named as in ``levels``: ``lost-update``, ``G-single``, ``G-nonadjacent``, ``G2-item``, ``G2``, ``G0-realtime``, …

        ``stats``: :class:`IsolationStats`.
        """
        found, notes = timelines(evidence)
        anomalies: list[Anomaly] = []
        undecided = bool(notes)
        stats: IsolationStats = {"tables": {}}
        for t in found:
            table = TableGraph(t)
            level = promise(t)
            judged = [(_finding(table, cycle), cycle) for _, cycle in find_cycles(table.graph)]
            named = [f for f, _ in judged]
            bad: list[Finding] = []
            for f, cycle in judged:
                if forbids(level, f.name):
                    bad.append(f)
                    if sum(b.name == f.name for b in bad) <= MOST:
                        anomalies.append(self._anomaly(table, f, cycle, level))
            notes += [f"{t.name}: {n}" for n in table.undecided]
            if table.unexplained:
                notes.append(
                    f"{t.name}: {len(table.unexplained)} operations are explained by no state that they can have read, so their "
                    "dependencies are unknown (see the checkers replay and reads)"
                )
            undecided |= bool(table.undecided or table.unexplained)
            broken = violated(f.name for f in named)
            allowed = Counter(f.name for f in named if not forbids(level, f.name))
            stats["tables"][t.name] = {
                "level": level,
                "weakest_violated": list(weakest(broken)),
                "strongest_standing": list(strongest(x for x in LEVELS if x not in broken)),
                "transactions": len(table.nodes),
                "dependencies": int(((table.graph.kind & THROUGH) == 0).sum()),
                "violations": dict(Counter(f.name for f in bad)),
                "allowed": dict(allowed),
                "older_scans": len(table.older),
                "older_scans_ops": table.older,
                "unexplained": len(table.unexplained),
                "unexplained_ops": table.unexplained,
                "reads_left_out": table.skipped_reads,
            }
        valid: Validity = False if anomalies else "unknown" if undecided else True
        return Verdict(self.name, valid, tuple(anomalies), stats, tuple(notes))

    def _anomaly(self, table: TableGraph, f: Finding, cycle: Cycle, level: str) -> Anomaly:
        nodes = [table.nodes[n] for n in dict.fromkeys(cycle.nodes)]
        ops = [n.operation for n in nodes if n.operation is not None]
        commits = sorted((n.position, n.commit.snapshot_id) for n in nodes if n.commit is not None)
        blind = any((kind := kind_of(o)) is not None and kind.blind_append and o.op in table.older for o in ops)
        return Anomaly(
            f.name,
            self.name,
            table.t.name,
            f"{f.explanation}\nThe table promises {level}, which forbids {f.name}.",
            ops=tuple(dict.fromkeys(o.op for o in ops)),
            events=tuple(dict.fromkeys(i for o in ops for i in o.indices)),
            snapshots=tuple(s for _, s in commits),
            keys=table.ids(cycle.nodes),
            documented=BLIND_APPEND if blind else None,
            evidence={
                "level": level,
                "weakest_violated": list(weakest(violated([f.name]))),
                "cycle": [
                    {"before": s.before, "after": s.after, "kind": s.kind, "because": s.because} for s in f.steps
                ],
            },
        )


def promise(t: Timeline) -> str:
    """The level that a table is held to."""
    levels = {t.spec.isolation} | {
        isolation(t.spec, o) for o in t.ops if (kind := kind_of(o)) is not None and kind.writes
    }
    return PROMISES["snapshot" if "snapshot" in levels else "serializable"]


def _finding(table: TableGraph, cycle: Cycle) -> Finding:
    """A cycle's name and explanation. It is a lost update ([Berenson 1995] P4) if one of two commits read a version of an id that the
    other changed before the first wrote that id."""
    f = explain_cycle(cycle, table.id, table.show, table.why)
    one_id = len({at for _, at in cycle.edges}) == 1
    if f.name == "G-single" and one_id and sorted(s.kind for s in f.steps) == ["rw", "ww"]:
        return replace(f, name="lost-update")
    return f
