"""The ``replay`` checker (*ConsistentRead* in Vanlightly's model): did every commit change exactly the rows that its operation means?

Walk main from the empty table. For commit k of operation o there are two accounts of what happened to the rows: the **log's** (what
the files show) and the **meaning's** (``Kind.writeset`` of o at the state that o scanned). If they agree, commit k is
correct. The question is which state o scanned::

    position      0 ──► … ──► j0 ──► j0+1 ──► … ──► k-1 ──► k
                              │                      │      └ o's commit
                              │                      └ its parent
                              └ the last commit acknowledged before o was invoked (settled)

Each operation is held to what its own engine promises (:mod:`checkers.timeline.promise`), whatever the others of the table promise:

* **serializable**: Iceberg validates that nothing o's scan could have matched was changed since (``validateNoConflictingDataFiles``,
  ``…DeleteFiles``), so in commit order o ran at k-1, and only there may its meaning be taken.
* **snapshot**: o may have scanned any of j0 … k-1. First committer wins: a row that o removes must still have been there, which holds
  if the removed rows are exactly those of the scan. Meanings that hold only at an older scan are legal write skew, and are counted; so are
  those that hold at a snapshot that main had until a rollback, not answered before o was invoked, took it out.
  A row deleted by both of two concurrent deletes is legal too ("it is OK to delete a record that is also deleted concurrently",
  ``RowDelta.validateNoConflictingDeleteFiles``): such a delete removes the remaining rows of its scan.
* **DELETE of a whole partition** and **INSERT OVERWRITE** apply to the base that they commit on, at any level: at k-1.
* **blind appends** (INSERT … SELECT, MERGE with only an insert clause) are validated at no level (apache/iceberg#12653).
* **maintenance** changes no row, whatever it does to files.

A commit's ``operation`` string is ignored: rows decide. If no legal scan explains a commit, its pattern names it (Adya's
phenomena where they have a name), and the walk continues from the *real* state, so that one defect is reported once.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, field
from typing import TypedDict

from checkers.evidence.history import Operation
from checkers.evidence.tablelog import Commit
from checkers.replay.maintenance import changed_rows, overwritten_by_replacement
from checkers.replay.missing import missing_files
from checkers.replay.naming import Naming
from checkers.replay.past import MOST_STATES_BEFORE, EarlierCommits, ScannedState, compare
from checkers.timeline import explain
from checkers.timeline.netrows import NetRows
from checkers.timeline.promise import isolation, known, not_known
from checkers.timeline.timeline import Timeline, kind_of, meaning
from checkers.unit import Part, TableChecker, Unit, unjudged
from checkers.verdict import Anomaly
from workloads.operations.kind import Kind
from workloads.tables import State


class ReplayTable(TypedDict):
    """Numbers of one table's commits and rows, and ids of operations."""

    commits: int
    """Snapshots on main."""
    replayed: int
    """Those that a meaning explains or contradicts."""
    not_replayed: int
    """Those whose rows or meaning are not known."""
    rows: int | None
    """Rows on main at the end; None where they are not known."""
    write_skew: int
    """Operations that only an older scan explains, or one that a rollback removed meanwhile: legal under snapshot isolation."""
    write_skew_ops: list[str]
    overlapping_deletes: int
    """Operations that deleted a row together with another delete."""
    overlapping_deletes_ops: list[str]


class ReplayStats(TypedDict):
    """What the checker counted."""

    tables: dict[str, ReplayTable]


class Replay(TableChecker):
    """Commits whose rows differ from what their operation means at any state that it may have scanned."""

    name = "replay"
    stats_type = ReplayStats
    reducible = True
    names = frozenset(
        {
            "undelete",
            "lost-update",
            "resurrected-row",
            "duplicate-row",
            "write-skew",
            "stale-scan",
            "vanished-read",
            "compaction-changed-rows",
            "maintenance-changed-rows",
            "wrong-rows",
            "missing-file",
        }
    )
    by_level = frozenset({"undelete", "write-skew"})

    def part(self, unit: Unit) -> Part:
        """Anomalies ``undelete``, ``lost-update``, ``resurrected-row``, ``duplicate-row``, ``write-skew``, ``stale-scan``,
        ``vanished-read``, ``compaction-changed-rows``, ``wrong-rows``, ``missing-file``.

        ``stats``: :class:`ReplayStats`.
        """
        if unit.timeline is None:
            return unjudged(unit)
        walk = TableReplay(unit.timeline, self.name)
        walk.run()
        notes = tuple(f"{unit.name}: {n}" for n in walk.notes)
        return Part(unit.name, tuple(walk.anomalies), notes, walk.undecided, walk.stats())


@dataclass
class TableReplay:
    """The walk over one table's main."""

    t: Timeline
    checker: str
    anomalies: list[Anomaly] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    undecided: bool = False
    replayed: int = 0
    unchecked: int = 0
    skewed: list[str] = field(default_factory=list)
    overlapped: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.past = EarlierCommits(self.t, [self.t.changes(c) for c in self.t.main])
        self.state: State | None = State() if self.t.rooted else None

    def stats(self) -> ReplayTable:
        """Counts, and the operations behind them."""
        return {
            "commits": len(self.t.main),
            "replayed": self.replayed,
            "not_replayed": self.unchecked,
            "rows": len(self.state) if self.state is not None else None,
            "write_skew": len(self.skewed),
            "write_skew_ops": self.skewed,
            "overlapping_deletes": len(self.overlapped),
            "overlapping_deletes_ops": self.overlapped,
        }

    def run(self) -> None:
        """Judge every commit of main."""
        if self.state is None:
            self.undecided = True
            self.notes.append("main is not known down to its root, so the states are not known")
        self.anomalies += missing_files(self.t, self.checker)
        for k, c in enumerate(self.t.main, 1):
            real = self.past.changes[k - 1]
            if real is None:
                self.undecided = True
                self.unchecked += 1
                if self.state is not None:
                    why = c.problems[0].why if c.problems else "the log does not say why"
                    self.notes.append(
                        f"the rows of {explain.snapshot(c)} are not known ({why}); states are unknown from there on"
                    )
                self.state = None
                continue
            self.judge(k, c, real)
            if self.state is not None:
                try:
                    self.state.apply(*real)
                except KeyError as e:
                    self.undecided = True
                    self.state = None
                    self.notes.append(
                        f"{explain.snapshot(c)} removes {explain.row(e.args[0])}, which is not in its parent by the log itself; states "
                        "are unknown from there on"
                    )
        if self.unchecked:
            self.notes.append(f"{self.unchecked} of {len(self.t.main)} commits could not be replayed")

    def _skip(self, why: str | None = None) -> None:
        self.undecided = True
        self.unchecked += 1
        if why is not None and why not in self.notes:
            self.notes.append(why)

    # --- one commit

    def judge(self, k: int, c: Commit, real: NetRows) -> None:
        """Judge the commit at position k, which changed the rows so; ``state`` is the one before it."""
        if c.op is None and c.snapshot_id in self.t.labels.shared:
            return self._judge_shared(k, c, real)
        o = self.t.everything.get(c.op) if c.op is not None else None
        kind = kind_of(o) if o is not None else None
        if o is None or o.table != self.t.name:
            return self._skip("a snapshot that no operation of this table is known to have made cannot be replayed")
        if kind is None:
            return self._skip(f"operations of kind {o.f} are not known")
        if not kind.changes_rows:
            self.replayed += 1
            if real.removed or real.added:
                found = None
                if kind.replaces and self.state is not None:
                    found = overwritten_by_replacement(self.past, self.checker, k, c, o, real, self.state)
                self.anomalies.append(found or changed_rows(self.past, self.checker, k, c, o, real))
            return
        state = self.state
        if state is None:
            if not kind.means_the_same_everywhere:
                return self._skip()
            state = State()
            scan = self.past.scan(o, state, real, k - 1)
            self.replayed += 1
            if scan is not None and not scan.exact:
                self.anomalies.append(
                    Naming(self.past, self.checker, k, c, o, kind, real, k - 1, [scan], state).wrong_rows(scan)
                )
            return
        here = self.past.scan(o, state, real, k - 1)
        if here is None:
            return self._skip(f"the {explain.operation(o)} has no meaning at the state before its commit")
        self.replayed += 1
        if here.exact:
            return
        self._explain(k, c, o, kind, real, state)

    def _judge_shared(self, k: int, c: Commit, real: NetRows) -> None:
        """Several operations in one commit: these only insert, so the commit must add the rows of all of them, and nothing else."""
        ops = [o for op in self.t.labels.shared[c.snapshot_id] if (o := self.t.everything.get(op)) is not None]
        meant = [meaning(o, State(), self.t.spec) for o in ops]
        self.replayed += 1
        rows = [r for want in meant if want is not None for r in want.added]
        scan = compare(k - 1, (), rows, real)
        if not scan.exact and ops and (kind := kind_of(ops[0])) is not None:
            naming = Naming(self.past, self.checker, k, c, ops[0], kind, real, k - 1, [scan], State())
            self.anomalies.append(naming.wrong_rows(scan))

    def _explain(self, k: int, c: Commit, o: Operation, kind: Kind, real: NetRows, state: State) -> None:
        """Explain a commit that is not its operation's meaning at k-1: legal at an older scan, or an anomaly."""
        first = min(self.t.settled(o.invoked.index), k - 1)
        serializable = isolation(self.t.spec, o) != "snapshot"
        scans: list[ScannedState] = []
        with closing(self.past.states_back(state, k - 1, max(0, first - MOST_STATES_BEFORE))) as states:
            for j, scanned in states:
                scan = self.past.scan(o, scanned, real, j)
                if scan is None:
                    break
                scans.append(scan)
                if scan.exact:
                    break
        naming = Naming(self.past, self.checker, k, c, o, kind, real, first, scans, state)
        exact = next((s for s in scans if s.exact and s.j >= first), None)
        overlap = next((s for s in scans if s.j >= first and naming.overlap_of_deletes(s)), None)
        lost = list(self.past.lost_scans(o, real)) if exact is None and overlap is None else []
        elsewhere = exact is not None or any(self.t.newest_until_set_back(v, o) for v in lost)
        if not serializable and elsewhere and known(o):
            self.skewed.append(o.op)
        elif not serializable and overlap is not None and known(o):
            self.overlapped.append(o.op)
        elif not known(o):
            self._skip(not_known([o.engine]))
        elif self.t.rollback_in_gap:
            self._skip(
                "the log lacks versions, and a rollback may have been in them: a commit that no known state explains may have scanned "
                "one that main no longer has"
            )
        else:
            self.anomalies.append(naming.anomaly(exact or overlap, lost))
