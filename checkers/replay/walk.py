"""The ``replay`` checker (*ConsistentRead* in Vanlightly's model): did every commit change exactly the rows that its operation means?

Walk main from the empty table. For commit k of operation o there are two accounts of what happened to the rows: the **log's** (what
the files show) and the **meaning's** (``Kind.writeset`` of o at the state that o scanned). Where they agree, commit k is what o was
asked to do. The question is which state o scanned::

    position      0 ──► … ──► j0 ──► j0+1 ──► … ──► k-1 ──► k
                              │                      │      └ o's commit
                              │                      └ its parent
                              └ the last commit acknowledged before o was invoked (settled)

* **serializable**: Iceberg validates that nothing o's scan could have matched was changed since (``validateNoConflictingDataFiles``,
  ``…DeleteFiles``), so in commit order o ran at k-1, and only there may its meaning be taken.
* **snapshot**: o may have scanned any of j0 … k-1. First committer wins: a row that o removes must still have been there, which is so
  when the rows removed are really those of the scan. Meanings that hold only at an older scan are legal write skew, and are counted.
  A row deleted by both of two concurrent deletes is legal too ("it is OK to delete a record that is also deleted concurrently",
  ``RowDelta.validateNoConflictingDeleteFiles``): such a delete removes what is left of its scan.
* **DELETE of a whole partition** and **INSERT OVERWRITE** take what is there on the base that they commit on, at any level: at k-1.
* **blind appends** (INSERT … SELECT, MERGE with only an insert clause) are validated at no level (apache/iceberg#12653).
* **maintenance** changes no row, whatever it did to files.

A commit's ``operation`` string is not looked at: rows decide. Where no legal scan explains a commit, it is named by the pattern that
it shows (Adya's phenomena where they have a name), and the walk goes on from the *real* state, so that one defect is reported once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

from checkers.evidence.evidence import Evidence
from checkers.evidence.history import Operation
from checkers.evidence.tablelog import Commit
from checkers.timeline import explain
from checkers.timeline.promise import BLIND_APPEND, REPLACED, ROW_DELTA, command_of, isolation
from checkers.timeline.timeline import Changes, Timeline, kind_of, meaning, timelines
from checkers.verdict import Anomaly, Checker, Validity, Verdict
from workloads.operations.kind import Kind
from workloads.tables import Row, State

_FAR = 256
"""How many commits before the oldest legal scan are tried, only to name an anomaly better."""


class Replay(Checker):
    """Commits whose rows differ from what their operation means at any state that it may have scanned."""

    name = "replay"
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

    def check(self, evidence: Evidence) -> Verdict:
        """Anomalies ``undelete``, ``lost-update``, ``resurrected-row``, ``duplicate-row``, ``write-skew``, ``stale-scan``,
        ``vanished-read``, ``compaction-changed-rows``, ``wrong-rows``, ``missing-file``.

        ``stats``: per table the commits replayed, and the operations that only an older scan explains (``write_skew``, legal under
        snapshot isolation) or that deleted a row together with another delete (``overlapping_deletes``).
        """
        found, notes = timelines(evidence)
        anomalies: list[Anomaly] = []
        undecided = bool(notes)
        stats: dict[str, Any] = {"tables": {}}
        for t in found:
            walk = _Walk(t, self.name)
            walk.run()
            anomalies += walk.anomalies
            notes += [f"{t.name}: {n}" for n in walk.notes]
            undecided |= walk.undecided
            stats["tables"][t.name] = walk.stats()
        valid: Validity = False if anomalies else "unknown" if undecided else True
        return Verdict(self.name, valid, tuple(anomalies), stats, tuple(notes))


@dataclass(frozen=True, slots=True)
class _Scan:
    """A state that an operation may have scanned, compared with what its commit did.

    Attributes:
        j: its position.
        gone: rows that the meaning removes there and the commit did not.
        over: rows that the commit removed and the meaning does not.
        unmade: rows that the meaning adds and the commit did not.
        made: rows that the commit added and the meaning does not.
        adds: whether the meaning adds any row.
    """

    j: int
    gone: tuple[Row, ...]
    over: tuple[Row, ...]
    unmade: tuple[Row, ...]
    made: tuple[Row, ...]
    adds: bool

    @property
    def exact(self) -> bool:
        """Whether the commit did what the operation means there."""
        return not (self.gone or self.over or self.unmade or self.made)


def _compare(j: int, removed: Iterable[Row], added: Iterable[Row], real: Changes) -> _Scan:
    want_removed, want_added = Counter(removed), Counter(added)
    want_removed, want_added = want_removed - want_added, want_added - want_removed
    real_removed, real_added = Counter(real.removed), Counter(real.added)

    def rows(c: Counter[Row]) -> tuple[Row, ...]:
        return tuple(c.elements())

    return _Scan(
        j,
        gone=rows(want_removed - real_removed),
        over=rows(real_removed - want_removed),
        unmade=rows(want_added - real_added),
        made=rows(real_added - want_added),
        adds=bool(want_added),
    )


@dataclass
class _Walk:
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
        self.changes = [self.t.changes(c) for c in self.t.main]
        self.state: State | None = State() if self.t.rooted else None

    def stats(self) -> dict[str, Any]:
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
        self.anomalies += _missing_files(self.t, self.checker)
        for k, c in enumerate(self.t.main, 1):
            real = self.changes[k - 1]
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
            self._judge(k, c, real)
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

    def _judge(self, k: int, c: Commit, real: Changes) -> None:
        o = self.t.everything.get(c.op) if c.op is not None else None
        kind = kind_of(o) if o is not None else None
        if o is None or o.table != self.t.name:
            return self._skip("a snapshot that no operation of this table is known to have made cannot be replayed")
        if kind is None:
            return self._skip(f"operations of kind {o.f} are not known")
        if not kind.changes_rows:
            self.replayed += 1
            if real.removed or real.added:
                found = self._replaced(k, c, o, real) if kind.replaces else None
                self.anomalies.append(found or self._maintenance(k, c, o, real))
            return
        state = self.state
        if state is None:
            if o.f != "insert":  # an insert means the same at every state
                return self._skip()
            state = State()
            scan = self._scan(o, state, real, k - 1)
            self.replayed += 1
            if scan is not None and not scan.exact:
                self.anomalies.append(_Naming(self, k, c, o, kind, real, k - 1, [scan]).wrong_rows(scan))
            return
        here = self._scan(o, state, real, k - 1)
        if here is None:
            return self._skip(f"the {explain.operation(o)} has no meaning at the state before its commit")
        self.replayed += 1
        if here.exact:
            return
        self._explain(k, c, o, kind, real, state)

    def _scan(self, o: Operation, state: State, real: Changes, j: int) -> _Scan | None:
        """None when the operation has no meaning at that state."""
        want = meaning(o, state, self.t.spec)
        return None if want is None else _compare(j, want.removed, want.added, real)

    def _explain(self, k: int, c: Commit, o: Operation, kind: Kind, real: Changes, state: State) -> None:
        """The commit is not what its operation means at k-1: legal at an older scan, or an anomaly and which."""
        first = min(self.t.settled(o.invoked.index), k - 1)
        serializable = isolation(self.t.spec, o) != "snapshot"
        scans: list[_Scan] = []
        with closing(self._states_back(state, k - 1, max(0, first - _FAR))) as states:
            for j, at in states:
                scan = self._scan(o, at, real, j)
                if scan is None:
                    break
                scans.append(scan)
                if scan.exact:
                    break
        naming = _Naming(self, k, c, o, kind, real, first, scans)
        exact = next((s for s in scans if s.exact and s.j >= first), None)
        overlap = next((s for s in scans if s.j >= first and naming.overlap_of_deletes(s)), None)
        if not serializable and exact is not None:
            self.skewed.append(o.op)
        elif not serializable and overlap is not None:
            self.overlapped.append(o.op)
        else:
            self.anomalies.append(naming.anomaly(exact or overlap))

    def _states_back(self, state: State, k: int, first: int) -> Generator[tuple[int, State], None, None]:
        """``state``, which is at position k, as it was at k, k-1, … first; it is put back when the iterator is closed."""
        j = k
        try:
            yield j, state
            while j > first:
                change = self.changes[j - 1]
                assert change is not None  # the state at k is known, so are all before it
                state.apply(change.added, change.removed)
                j -= 1
                yield j, state
        finally:
            while j < k:
                change = self.changes[j]
                assert change is not None
                state.apply(change.removed, change.added)
                j += 1

    def lost_scan(self, o: Operation, real: Changes) -> Commit | None:
        """A snapshot that was main's once, is no longer, and explains the commit."""
        for version in self.t.versions:
            if version.snapshot is None or version.snapshot in self.t.position:
                continue
            state = self.t.state(version.snapshot)
            scan = self._scan(o, state, real, 0) if state is not None else None
            if scan is not None and scan.exact:
                return self.t.snapshots[version.snapshot]
        return None

    def removed_before(self, k: int, rows: Sequence[Row]) -> dict[Row, int]:
        """For each of the rows that a commit before position k removed, the position of the last that did."""
        wanted = set(rows)
        out: dict[Row, int] = {}
        for j in range(k - 1, 0, -1):
            change = self.changes[j - 1]
            for r in change.removed if change is not None else ():
                if r in wanted and r not in out:
                    out[r] = j
            if len(out) == len(wanted):
                break
        return out

    def _replaced(self, k: int, c: Commit, o: Operation, real: Changes) -> Anomaly | None:
        """A table replaced by what it was at an older position: what was committed since is overwritten."""
        if self.state is None:
            return None
        after = self.state.copy()
        after.apply(*real)
        with closing(self._states_back(self.state, k - 1, max(0, k - 1 - _FAR))) as states:
            scan = next((j for j, at in states if at == after), None)
        if scan is None:
            return None
        lost = self.t.main[scan : k - 1]
        makers = [m for x in lost if (m := self.t.everything.get(x.op or "")) is not None]
        text = (
            f"the {explain.operation(o)} committed {explain.snapshot(c)} with the rows of position {scan} of main, which it had read. "
            f"{explain.listing(explain.snapshot(x) + ' of ' + explain.maker(x, self.t.everything) for x in lost)} came in between: what "
            f"they did is overwritten, {explain.rows(real.removed)} gone and {explain.rows(real.added)} back. A table is replaced whatever is "
            "there when that commits."
        )
        return Anomaly(
            "lost-update",
            self.checker,
            self.t.name,
            text,
            ops=tuple(dict.fromkeys((o.op, *(m.op for m in makers)))),
            events=tuple(dict.fromkeys((*o.indices, *(i for m in makers for i in m.indices)))),
            snapshots=(*(x.snapshot_id for x in lost), c.snapshot_id),
            files=_files(c, (*real.added, *real.removed), self.t),
            keys=explain.keys([*real.removed, *real.added]),
            documented=REPLACED,
            evidence=_evidence(real, position=k, scan=scan),
        )

    def _maintenance(self, k: int, c: Commit, o: Operation, real: Changes) -> Anomaly:
        before = self.removed_before(k, real.added)
        rows = sorted({*real.added, *real.removed}, key=str)
        ops, events, snapshots = [o.op], list(o.indices), [c.snapshot_id]
        if not real.removed and len(before) == len(set(real.added)):
            name = "resurrected-row"
            at = before[real.added[0]]
            remover = self.t.main[at - 1]
            text = (
                f"the {explain.operation(o)} must not change any row, yet its {explain.snapshot(c)} brings back "
                f"{explain.rows(real.added)}, removed before by {explain.maker(remover, self.t.everything)} in {explain.snapshot(remover)}; "
                f"the row lives in {explain.place(_change_of(self.t, c, real.added[0]))}."
            )
            snapshots.insert(0, remover.snapshot_id)
            other = self.t.everything.get(remover.op or "")
            if other is not None:
                ops.append(other.op)
                events += other.indices
        else:
            name = "compaction-changed-rows"
            text = (
                f"the {explain.operation(o)} must not change any row, yet its {explain.snapshot(c)} removes {explain.rows(real.removed)} "
                f"and adds {explain.rows(real.added)}."
            )
        return Anomaly(
            name,
            self.checker,
            self.t.name,
            text,
            ops=tuple(ops),
            events=tuple(events),
            snapshots=tuple(snapshots),
            files=_files(c, (*real.added, *real.removed), self.t),
            keys=explain.keys(rows),
            evidence=_evidence(real),
        )


def _change_of(t: Timeline, c: Commit, row: Row) -> Any:
    return next(x for x in (c.added or ()) if t.row(x) == row)


def _files(c: Commit, rows: Iterable[Row], t: Timeline) -> tuple[str, ...]:
    wanted = set(rows)
    found: dict[str, None] = {}
    for x in (*(c.added or ()), *(c.removed or ())):
        if t.row(x) in wanted:
            found[x.file] = None
            if x.by is not None:
                found[x.by] = None
    return tuple(found)[:20]


def _evidence(real: Changes, **more: Any) -> dict[str, Any]:
    bound = 50
    return {
        "removed": [list(r) for r in real.removed[:bound]],
        "added": [list(r) for r in real.added[:bound]],
        **more,
    }


# --- naming -----------------------------------------------------------------------------------------------------------


@dataclass
class _Naming:
    """What a commit is called that no legal scan explains, and why it is a contradiction.

    Attributes:
        first: the oldest position that the operation can have scanned.
        scans: comparisons at k-1, k-2, …, newest first, as far as they were taken.
    """

    walk: _Walk
    k: int
    c: Commit
    o: Operation
    kind: Kind
    real: Changes
    first: int
    scans: list[_Scan]

    # --- rows and who changed them

    def fate(self, row: Row, j: int) -> tuple[int | None, Row | None]:
        """What became of a row of state j by commit k-1: the position that first changed it, and its successor that is still there.

        An update is a commit that removes a row of a key and adds one of the same key; a delete adds none. ``(None, row)``: untouched.
        """
        at: int | None = None
        now: Row | None = row
        for position in range(j + 1, self.k):
            change = self.walk.changes[position - 1]
            if change is None or now not in change.removed:
                continue
            at = at or position
            now = self._successor(now, position, change.added)
            if now is None:
                break
        return at, now

    def _successor(self, row: Row, position: int, added: Sequence[Row]) -> Row | None:
        """What the commit at ``position`` made of a row it removed: by its operation's meaning (a key may be there more than once)."""
        same = [r for r in added if r.id == row.id]
        o = self.walk.t.everything.get(self.walk.t.main[position - 1].op or "")
        kind = kind_of(o) if o is not None else None
        if kind is not None and kind.overwrites:
            return None
        if o is not None and len(same) > 1:
            meant = meaning(o, State([row]), self.walk.t.spec)
            same = [r for r in same if meant is not None and r in meant.added] or same
        return same[0] if same else None

    def overlap_of_deletes(self, s: _Scan) -> bool:
        """Whether the commit is a delete's at scan ``s`` but for rows that concurrent commits had deleted, too."""
        if s.adds or s.made or s.over or not s.gone:
            return False
        return all(at is not None and left is None for at, left in (self.fate(r, s.j) for r in s.gone))

    def _moved(self, row: Row, j: int) -> int | None:
        """The first commit after ``j`` that removed a data file which can have held the row, though it left the row alone."""
        for position in range(j + 1, self.k):
            for f in self.walk.t.main[position - 1].removed_files:
                if f.content == "data" and f.partition.get("part", row.part) == row.part:
                    return position
        return None

    def _home(self, row: Row) -> tuple[int, Any] | None:
        """The last commit before k that made the row appear, and where."""
        for position in range(self.k - 1, 0, -1):
            c = self.walk.t.main[position - 1]
            for x in c.added or ():
                if self.walk.t.row(x) == row:
                    return position, x
        return None

    # --- the name

    def anomaly(self, legal_elsewhere: _Scan | None) -> Anomaly:
        """The anomaly; ``legal_elsewhere`` is a scan that explains it under snapshot isolation, where the table promises more."""
        if legal_elsewhere is not None:
            return self.write_skew(legal_elsewhere)
        for s in self.scans:
            if s.j < self.first:
                break
            found = self.undelete(s) or self.lost_update(s) or self.revived(s)
            if found is not None:
                return found
        vanished = self.walk.lost_scan(self.o, self.real)
        if vanished is not None:
            return self.vanished_read(vanished)
        old = next((s for s in self.scans if s.exact), None)
        if old is not None and (self.real.removed or self.real.added):  # no effect is what it means at many a state
            return self.stale_scan(old)
        return self.other(self.scans[0]) if self.scans else self.wrong_rows(None)

    def undelete(self, s: _Scan) -> Anomaly | None:
        """A delete that left a row standing because a concurrent commit changed or moved it after the delete's scan."""
        if s.adds or s.made or s.over or not s.gone:
            return None
        for row in s.gone:
            at, left = self.fate(row, s.j)
            moved = None if at is not None else self._moved(row, s.j)
            position = at if at is not None else moved
            if position is None or left is None:
                continue
            by = self.walk.t.main[position - 1]
            what = "moved it to another data file" if at is None else f"made {explain.row(left)} of it"
            home = self._home(left)
            where = f" in {explain.place(home[1])}" if home is not None else ""
            if home is not None and self._rewritten_since(home[1].file, home[0]):
                where += " (rewritten since)"
            text = (
                f"the {explain.operation(self.o)} was invoked at {explain.ms(self.o.start)} and {explain.outcome(self.o)}, yet "
                f"{explain.snapshot(self.c)}, which it made, still contains {explain.row(left)}{where}. It scanned "
                f"{explain.row(row)} at position {s.j} of main; {explain.maker(by, self.walk.t.everything)} {what} in "
                f"{explain.snapshot(by)}, committed before the delete; the delete removed the old row's place and not the row that "
                "is there now. In no order of the two can the row be left: after the delete there is none to change, and before it the "
                "delete sees what the change made."
            )
            return self._make("undelete", text, [by], [row, left], self._documented_undelete(at), home=home, scan=s)
        return None

    def _documented_undelete(self, changed_at: int | None) -> str | None:
        t, o = self.walk.t, self.o
        n = min(self.c.metadata, len(t.log.metadata) - 1)
        v2 = t.log.metadata[n].format_version == 2
        mor = t.spec.properties.get("write.delete.mode", t.spec.mode).lower() == "merge-on-read"
        known = (
            command_of(o) == "delete" and isolation(t.spec, o) == "snapshot" and v2 and mor and changed_at is not None
        )
        return ROW_DELTA if known else None

    def lost_update(self, s: _Scan) -> Anomaly | None:
        """A commit that removed rows which a concurrent commit had made after its scan, and put there what its old scan means."""
        if not s.over or s.made or s.unmade or not s.adds:
            return None
        by = self._makers(s.over, s.j)
        if len(by) != len(set(s.over)):
            return None
        position = min(by.values())
        other = self.walk.t.main[position - 1]
        row = next(r for r in s.over if by[r] == position)
        text = (
            f"the {explain.operation(self.o)} committed {explain.snapshot(self.c)} with {explain.rows(self.real.added)}, which is what it "
            f"means at position {s.j} of main, and removed {explain.row(row)} with it. That row was made by "
            f"{explain.maker(other, self.walk.t.everything)} in {explain.snapshot(other)}, committed after that scan: its effect is "
            "overwritten by a value computed without it, so in no order of the two did both take effect."
        )
        return self._make("lost-update", text, [other], [row, *self.real.added], None, scan=s)

    def _makers(self, rows: Sequence[Row], j: int) -> dict[Row, int]:
        """Of the rows, those that commits j+1 … k-1 added, and the position of the first that did."""
        wanted = set(rows)
        out: dict[Row, int] = {}
        for position in range(j + 1, self.k):
            change = self.walk.changes[position - 1]
            for r in change.added if change is not None else ():
                if r in wanted:
                    out.setdefault(r, position)
        return out

    def revived(self, s: _Scan) -> Anomaly | None:
        """An update at an old scan whose row was deleted (``resurrected-row``), changed or moved (``duplicate-row``) since."""
        if not s.adds or s.over or s.made or s.unmade or not s.gone:
            return None
        fates = []
        for r in s.gone:
            at, left = self.fate(r, s.j)
            position = at if at is not None else self._moved(r, s.j)
            if position is None:
                return None
            fates.append((r, at, position, left))
        row, at, position, left = next((f for f in fates if f[3] is not None), fates[0])
        other = self.walk.t.main[position - 1]
        who = explain.maker(other, self.walk.t.everything)
        new = [r for r in self.real.added if r.id == row.id] or list(self.real.added)
        start = (
            f"the {explain.operation(self.o)} scanned {explain.row(row)} at position {s.j} of main and committed "
            f"{explain.snapshot(self.c)} with {explain.rows(new)} in its place. But {who} had "
        )
        if left is None:
            text = start + (
                f"deleted that row in {explain.snapshot(other)}, committed before: the update brings a deleted row back. In no order of "
                "the two is it there."
            )
            return self._make("resurrected-row", text, [other], [row, *new], None, scan=s)
        what = "moved that row to another data file" if at is None else f"made {explain.row(left)} of that row"
        text = start + (
            f"{what} in {explain.snapshot(other)}, committed before, and that one is still there: what "
            "was one row is two. In any order of the two, the second changes what the first left."
        )
        return self._make("duplicate-row", text, [other], list(dict.fromkeys([row, left, *new])), None, scan=s)

    def write_skew(self, s: _Scan) -> Anomaly:
        """A serializable table's commit that only an older scan explains."""
        here = self.scans[0]
        between = [self.walk.t.main[p - 1] for p in range(s.j + 1, self.k)]
        relevant = [c for c in between if self._matters(c, here, s)] or between
        by = relevant[0]
        documented = BLIND_APPEND if self.kind.blind_append else None
        if self.kind.blind_append:
            why = " Iceberg commits this statement as an append, which is validated against nothing."
        elif self.kind.at_commit(self.walk.t.spec):
            why = " Such a statement takes the rows that are there when it commits, whatever the isolation level."
        else:
            why = " The table is serializable, so Iceberg should have refused the commit."
        text = (
            f"the {explain.operation(self.o)} committed {explain.snapshot(self.c)}, which removes {explain.rows(self.real.removed)} and "
            f"adds {explain.rows(self.real.added)}: what it means at position {s.j} of main, but not at position {self.k - 1}, its "
            f"parent. {explain.maker(by, self.walk.t.everything).capitalize()} had changed what it reads in {explain.snapshot(by)}, "
            f"committed between its scan and its commit; at the parent it would {self._difference(here)}.{why}"
        )
        return self._make("write-skew", text, [by], self._rows(here), documented, scan=s)

    def _matters(self, c: Commit, here: _Scan, s: _Scan) -> bool:
        change = self.walk.changes[self.walk.t.position[c.snapshot_id] - 1]
        keys = {r.id for r in (*here.gone, *here.over, *here.unmade, *here.made)}
        value = self.o.value if isinstance(self.o.value, dict) else {}
        keys |= {value[x] for x in ("from",) if x in value}
        return change is not None and any(r.id in keys for r in (*change.removed, *change.added))

    def stale_scan(self, s: _Scan) -> Anomaly:
        """A commit that only a scan explains which is older than a write acknowledged before the operation began."""
        missed = self.walk.t.main[s.j]
        proof = self._settled_by()
        text = (
            f"the {explain.operation(self.o)}, invoked at {explain.ms(self.o.start)}, committed {explain.snapshot(self.c)}, which removes "
            f"{explain.rows(self.real.removed)} and adds {explain.rows(self.real.added)}: what it means at position {s.j} of main and at "
            f"none from {self.first} to {self.k - 1}. So it scanned a state without {explain.snapshot(missed)} of "
            f"{explain.maker(missed, self.walk.t.everything)}, though {proof} before it was invoked."
        )
        return self._make("stale-scan", text, [missed], self._rows(self.scans[0]), None, scan=s)

    def _settled_by(self) -> str:
        c = self.walk.t.main[self.first - 1]
        o = self.walk.t.everything.get(c.op or "")
        return (
            f"{explain.snapshot(c)} was there" if o is None else f"the {explain.operation(o)} was {explain.outcome(o)}"
        )

    def vanished_read(self, lost: Commit) -> Anomaly:
        """A commit that only a state explains which main had and has no longer."""
        text = (
            f"the {explain.operation(self.o)} committed {explain.snapshot(self.c)}, which removes {explain.rows(self.real.removed)} and "
            f"adds {explain.rows(self.real.added)}: what it means in {explain.snapshot(lost)} of "
            f"{explain.maker(lost, self.walk.t.everything)}, and at no state that main still has. Main had that snapshot once and was set "
            "back below it, so what is there now was computed from rows that were never written."
        )
        documented = BLIND_APPEND if self.kind.blind_append and self.walk.t.rolled_back(lost.snapshot_id) else None
        return self._make("vanished-read", text, [lost], [*self.real.removed, *self.real.added], documented)

    def other(self, s: _Scan) -> Anomaly:
        """No scan explains it at all: named by the difference at its parent."""
        if s.made and not (s.over or s.unmade):
            before = self.walk.removed_before(self.k, s.made)
            if len(before) == len(set(s.made)):
                remover = self.walk.t.main[before[s.made[0]] - 1]
                text = (
                    f"the {explain.operation(self.o)} committed {explain.snapshot(self.c)} with {explain.rows(s.made)}, which it does not "
                    f"write; {explain.maker(remover, self.walk.t.everything)} had removed that in {explain.snapshot(remover)}, and it is back."
                )
                return self._make("resurrected-row", text, [remover], s.made, None, scan=s)
            assert self.walk.state is not None
            there = {x for r in s.made for x in self.walk.state.by_id(r.id)}
            if all(r in there or self.real.added.count(r) > 1 for r in s.made):
                text = (
                    f"the {explain.operation(self.o)} committed {explain.snapshot(self.c)} with {explain.rows(s.made)} more often than it "
                    "means: the row is there twice, and one of them is nobody's."
                )
                return self._make("duplicate-row", text, [], s.made, None, scan=s)
        if s.over and not (s.made or s.unmade):
            by = self._makers(s.over, self.first)
            if len(by) == len(set(s.over)):
                other = self.walk.t.main[min(by.values()) - 1]
                text = (
                    f"the {explain.operation(self.o)} committed {explain.snapshot(self.c)}, which removes {explain.rows(s.over)} though it "
                    f"does not mean to at any state; {explain.maker(other, self.walk.t.everything)} had made that in "
                    f"{explain.snapshot(other)}, committed while it was under way, and its effect is gone."
                )
                return self._make("lost-update", text, [other], s.over, None, scan=s)
        return self.wrong_rows(s)

    def wrong_rows(self, s: _Scan | None) -> Anomaly:
        """Anything else."""
        text = (
            f"the {explain.operation(self.o)} ({explain.outcome(self.o)}) committed {explain.snapshot(self.c)}, which removes "
            f"{explain.rows(self.real.removed)} and adds {explain.rows(self.real.added)}; "
        )
        if s is None:
            text += "that is not what it means at any state that it can have seen."
        else:
            text += (
                f"at its parent (position {self.k - 1} of main) it would {self._difference(s)}, and no state since position "
                f"{self.first}, which was reached before it was invoked, explains it either."
            )
        rows = self._rows(s) if s is not None else [*self.real.removed, *self.real.added]
        return self._make("wrong-rows", text, [], rows, None, scan=s)

    # --- words and pieces

    @staticmethod
    def _difference(s: _Scan) -> str:
        parts = [
            (s.gone, "also remove"),
            (s.over, "not remove"),
            (s.unmade, "also add"),
            (s.made, "not add"),
        ]
        return " and ".join(f"{verb} {explain.rows(rows)}" for rows, verb in parts if rows)

    @staticmethod
    def _rows(s: _Scan) -> list[Row]:
        return [*s.gone, *s.over, *s.unmade, *s.made]

    def _rewritten_since(self, file: str, position: int) -> bool:
        later = self.walk.t.main[position : self.k]
        return any(f.path == file for c in later for f in c.removed_files)

    def _make(
        self,
        name: str,
        text: str,
        others: Sequence[Commit],
        rows: Sequence[Row],
        documented: str | None,
        *,
        home: tuple[int, Any] | None = None,
        scan: _Scan | None = None,
    ) -> Anomaly:
        t = self.walk.t
        ops, events = [self.o.op], list(self.o.indices)
        for c in others:
            o = t.everything.get(c.op or "")
            if o is not None and o.op not in ops:
                ops.append(o.op)
                events += o.indices
        files = dict.fromkeys(() if home is None else (home[1].file,))
        for c in (*others, self.c):
            files |= dict.fromkeys(_files(c, rows, t))
        more: dict[str, Any] = {"position": self.k, "oldest_scan": self.first}
        if scan is not None:
            more["scan"] = scan.j
        if home is not None:
            more |= {"file": home[1].file, "pos": home[1].pos}
        return Anomaly(
            name,
            self.walk.checker,
            t.name,
            text,
            ops=tuple(ops),
            events=tuple(events),
            snapshots=tuple(c.snapshot_id for c in (*others, self.c)),
            files=tuple(files)[:20],
            keys=explain.keys(rows),
            documented=documented,
            evidence=_evidence(self.real, **more),
        )


# --- files that are gone ------------------------------------------------------------------------------------------------


def _missing_files(t: Timeline, checker: str) -> Iterator[Anomaly]:
    """Files that main needs and that are gone: one anomaly for the pointer's metadata, one for each commit that added some."""
    last = t.log.captures[-1] if t.log.captures else None
    if last is not None and last.metadata is not None and not t.read_to_pointer:
        said = next((p.why for p in t.log.problems if p.file == last.metadata), "it cannot be read")
        yield Anomaly(
            "missing-file",
            checker,
            t.name,
            f"the catalog points at {last.metadata}, and nobody can read the table: {said}.",
            files=(last.metadata,),
        )
    main = {c.snapshot_id for c in t.main}
    listed = set(t.log.metadata[-1].snapshots) if t.log.metadata else set()
    gone = {f.path: [s for s in f.snapshots if s in main] for f in t.log.missing_files}
    gone = {path: needed for path, needed in gone.items() if needed}
    groups: dict[int, dict[str, None]] = {}
    for c in t.main:
        mine = [f.path for f in c.added_files if f.path in gone]
        mine += [c.manifest_list] if c.manifest_list in gone else []
        for path in mine:
            groups.setdefault(c.snapshot_id, {})[path] = None
        if not c.readable and c.snapshot_id in listed and any(p.code == "missing-file" for p in c.problems):
            groups.setdefault(c.snapshot_id, {})
    named = {path for paths in groups.values() for path in paths}
    for path, needed in sorted(gone.items()):
        if path not in named:  # such as a manifest, which the log gives to no commit
            groups.setdefault(min(needed, key=lambda s: t.position[s]), {})[path] = None
    for snapshot in sorted(groups, key=lambda s: t.position[s]):
        c, paths = t.snapshots[snapshot], sorted(groups[snapshot])
        o = t.everything.get(c.op or "")
        needed = sorted({s for p in paths for s in gone.get(p, ())}, key=lambda s: t.position[s]) or [snapshot]
        what = explain.listing(paths) if paths else "; ".join(p.why for p in c.problems)
        said = f", {explain.outcome(o)}," if o is not None else ""
        yield Anomaly(
            "missing-file",
            checker,
            t.name,
            f"{explain.snapshot(c)} of {explain.maker(c, t.everything)}{said} is on main and still listed, but {what} "
            f"{'is' if len(paths) == 1 else 'are' if paths else ':'} not in the store{'' if paths else ' (as the log says)'}: "
            f"{len(needed)} snapshots of main need it, and every read that does fails.",
            ops=(o.op,) if o is not None else (),
            events=o.indices if o is not None else (),
            snapshots=tuple(needed[:20]),
            files=tuple(paths[:20]),
            keys=(),
        )
