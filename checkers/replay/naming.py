"""Names a commit that no legal scan explains: the anomaly, a sentence on why it is a contradiction, and the evidence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from checkers.evidence.history import Operation
from checkers.evidence.replace import replace
from checkers.evidence.tableformat import format_of
from checkers.evidence.tablelog import Commit
from checkers.replay.past import EarlierCommits, ScannedState, evidence_of, files_of
from checkers.timeline import explain
from checkers.timeline.ancestry import Version
from checkers.timeline.makers import all_signed
from checkers.timeline.netrows import NetRows
from checkers.timeline.promise import (
    ROW_DELTA,
    at_commit,
    command_of,
    engine_of,
    isolation,
    promise,
    source_of_blind_append,
)
from checkers.timeline.timeline import Timeline, kind_of, meaning
from checkers.verdict import Anomaly
from workloads.engines.engines import SPARK
from workloads.operations.kind import Kind
from workloads.tables import Row, State


@dataclass
class Naming:
    """Names a commit that no legal scan explains, and explains the contradiction.

    Attributes:
        k: position of the commit ``c``, which the operation ``o`` made; ``real`` is what it did to the rows.
        first: the oldest position that the operation can have scanned.
        scans: comparisons at k-1, k-2, …, newest first, as far as they were made.
        state: the one at position k-1.
    """

    past: EarlierCommits
    checker: str
    k: int
    c: Commit
    o: Operation
    kind: Kind
    real: NetRows
    first: int
    scans: list[ScannedState]
    state: State

    @property
    def t(self) -> Timeline:
        """The table's."""
        return self.past.t

    # --- rows and who changed them

    def fate(self, row: Row, j: int) -> tuple[int | None, Row | None]:
        """The fate of a row of state j up to commit k-1: the position that first changed it, and its successor if it still exists.

        An update is a commit that removes a row of a key and adds one of the same key; a delete adds none. ``(None, row)``: untouched.
        """
        removed_at: int | None = None
        now: Row | None = row
        for position in range(j + 1, self.k):
            change = self.past.changes[position - 1]
            if change is None or now not in change.removed:
                continue
            removed_at = removed_at or position
            now = self._successor(now, position, change.added)
            if now is None:
                break
        return removed_at, now

    def _successor(self, row: Row, position: int, added: Sequence[Row]) -> Row | None:
        """The new version of a row that the commit at ``position`` removed, by its operation's meaning (a key may occur more than once)."""
        same = [r for r in added if r.id == row.id]
        o = self.t.everything.get(self.t.main[position - 1].op or "")
        kind = kind_of(o) if o is not None else None
        if kind is not None and kind.overwrites:
            return None
        if o is not None and len(same) > 1:
            meant = meaning(o, State([row]), self.t.spec)
            same = [r for r in same if meant is not None and r in meant.added] or same
        return same[0] if same else None

    def overlap_of_deletes(self, s: ScannedState) -> bool:
        """Whether the commit is a delete at scan ``s``, apart from rows that concurrent commits also deleted."""
        if s.adds or s.made or s.over or not s.gone:
            return False
        return all(
            position is not None and successor is None for position, successor in (self.fate(r, s.j) for r in s.gone)
        )

    def _moved(self, row: Row, j: int) -> int | None:
        """The first commit after ``j`` that rewrote the file that may hold the row but left the row unchanged."""
        for position in range(j + 1, self.k):
            for f in self.t.main[position - 1].removed_files:
                if f.role == "data" and f.partition.get("part", row.part) == row.part:
                    return position
        return None

    def _home(self, row: Row) -> tuple[int, Any] | None:
        """The last commit before k that added the row, and where."""
        for position in range(self.k - 1, 0, -1):
            c = self.t.main[position - 1]
            for x in c.added or ():
                if self.t.row(x) == row:
                    return position, x
        return None

    # --- the name

    def anomaly(self, legal_elsewhere: ScannedState | None, lost: Sequence[Version]) -> Anomaly:
        """The anomaly; ``legal_elsewhere`` is a scan that explains it under snapshot isolation, where the table promises more, and ``lost``
        are the former snapshots of main that explain it."""
        if legal_elsewhere is not None:
            return self.write_skew(legal_elsewhere)
        if (exchanged := self.exchanged()) is not None:
            return exchanged
        for s in self.scans:
            if s.j < self.first:
                break
            found = self.undelete(s) or self.lost_update(s) or self.revived(s)
            if found is not None:
                return found
        if lost:
            return self.vanished_read(next((v for v in lost if self.t.newest_until_set_back(v, self.o)), lost[0]))
        old = next((s for s in self.scans if s.exact), None)
        if old is not None and (self.real.removed or self.real.added):  # many states explain an empty effect
            return self.stale_scan(old)
        return self.other(self.scans[0]) if self.scans else self.wrong_rows(None)

    def undelete(self, s: ScannedState) -> Anomaly | None:
        """A delete that missed a row because a concurrent commit changed or moved it after the delete's scan."""
        if s.adds or s.made or s.over or not s.gone:
            return None
        for row in s.gone:
            removed_at, successor = self.fate(row, s.j)
            moved = None if removed_at is not None else self._moved(row, s.j)
            position = removed_at if removed_at is not None else moved
            if position is None or successor is None:
                continue
            commit = self.t.main[position - 1]
            what = "moved it to another data file" if removed_at is None else f"made {explain.row(successor)} of it"
            home = self._home(successor)
            where = f" in {explain.place(home[1])}" if home is not None else ""
            if home is not None and self._rewritten_since(home[1].file, home[0]):
                where += " (rewritten since)"
            text = (
                f"the {explain.operation(self.o)} was invoked at {explain.s(self.o.start)} and {explain.outcome(self.o)}, yet "
                f"{explain.snapshot(self.c)}, which it made, still contains {explain.row(successor)}{where}. It scanned "
                f"{explain.row(row)} {explain.after(s.j)}; {explain.maker(commit, self.t.everything)} {what} in "
                f"{explain.snapshot(commit)}, committed before the delete; the delete removed the old row's place and not the row that "
                "is there now. In both orders of the two the row must be gone: after the delete there is none to change, and before it "
                "the delete sees what the change made."
            )
            return self._make(
                "undelete", text, [commit], [row, successor], self._documented_undelete(removed_at), home=home, scan=s
            )
        return None

    def _documented_undelete(self, changed_at: int | None) -> str | None:
        t, o = self.t, self.o
        n = min(self.c.metadata, len(t.log.metadata) - 1)
        misses = format_of(t.log).misses_moved_rows(t.log.metadata[n])
        mor = t.spec.properties.get("write.delete.mode", t.spec.mode).lower() == "merge-on-read"
        by_iceberg = command_of(o) == "delete" and promise(t.spec, o).level is None
        known = by_iceberg and isolation(t.spec, o) == "snapshot" and misses and mor and changed_at is not None
        return ROW_DELTA if known else None

    def lost_update(self, s: ScannedState) -> Anomaly | None:
        """A commit that removed rows which a concurrent commit made after its scan, and added what its old scan means."""
        if not s.over or s.made or s.unmade or not s.adds:
            return None
        makers = self._makers(s.over, s.j)
        if len(makers) != len(set(s.over)):
            return None
        position = min(makers.values())
        other = self.t.main[position - 1]
        row = next(r for r in s.over if makers[r] == position)
        text = (
            f"the {explain.operation(self.o)} committed {explain.snapshot(self.c)} with {explain.rows(self.real.added)}, which is what it "
            f"means {explain.after(s.j)}, and removed {explain.row(row)} with it. That row was made by "
            f"{explain.maker(other, self.t.everything)} in {explain.snapshot(other)}, committed after that scan: its effect is "
            "overwritten by a value computed without it, so in no order of the two did both take effect."
        )
        return self._make("lost-update", text, [other], [row, *self.real.added], None, scan=s)

    def _makers(self, rows: Sequence[Row], j: int) -> dict[Row, int]:
        """The rows that commits j+1 … k-1 added, with the position of the first such commit."""
        wanted = set(rows)
        out: dict[Row, int] = {}
        for position in range(j + 1, self.k):
            change = self.past.changes[position - 1]
            for r in change.added if change is not None else ():
                if r in wanted:
                    out.setdefault(r, position)
        return out

    def revived(self, s: ScannedState) -> Anomaly | None:
        """An update at an old scan whose row was deleted (``resurrected-row``), changed or moved (``duplicate-row``) since."""
        if not s.adds or s.over or s.made or s.unmade or not s.gone:
            return None
        fates = []
        for r in s.gone:
            removed_at, successor = self.fate(r, s.j)
            position = removed_at if removed_at is not None else self._moved(r, s.j)
            if position is None:
                return None
            fates.append((r, removed_at, position, successor))
        row, removed_at, position, successor = next((f for f in fates if f[3] is not None), fates[0])
        other = self.t.main[position - 1]
        who = explain.maker(other, self.t.everything)
        new = [r for r in self.real.added if r.id == row.id] or list(self.real.added)
        start = (
            f"the {explain.operation(self.o)} scanned {explain.row(row)} {explain.after(s.j)} and committed "
            f"{explain.snapshot(self.c)} with {explain.rows(new)} in its place. But {who} had "
        )
        if successor is None:
            text = start + (
                f"deleted that row in {explain.snapshot(other)}, committed before: the update brings a deleted row back. In no order of "
                "the two is it there."
            )
            return self._make("resurrected-row", text, [other], [row, *new], None, scan=s)
        what = (
            "moved that row to another data file"
            if removed_at is None
            else f"made {explain.row(successor)} of that row"
        )
        text = start + (
            f"{what} in {explain.snapshot(other)}, committed before, and that one is still there: what "
            "was one row is two. In any order of the two, the second changes what the first left."
        )
        return self._make("duplicate-row", text, [other], list(dict.fromkeys([row, successor, *new])), None, scan=s)

    def write_skew(self, s: ScannedState) -> Anomaly:
        """A serializable table's commit that only an older scan explains."""
        here = self.scans[0]
        between = [self.t.main[p - 1] for p in range(s.j + 1, self.k)]
        relevant = [c for c in between if self._matters(c, here, s)] or between
        changed = relevant[0]
        documented = source_of_blind_append(self.t.spec, self.o)
        made, engine = promise(self.t.spec, self.o), engine_of(self.o).title
        if made.blind_append:
            who = "Iceberg" if engine_of(self.o).name == SPARK else engine
            why = f" {who} commits this statement as an append, which is validated against nothing."
        elif at_commit(self.t.spec, self.o):
            why = " Such a statement takes the rows that are there when it commits, whatever the isolation level."
        elif made.level is not None:
            why = f" {engine} promises this statement to be {made.level} on any table, so it should have given up."
        else:
            why = " The table is serializable, so Iceberg should have refused the commit."
        text = (
            f"the {explain.operation(self.o)} committed {explain.snapshot(self.c)}, which removes {explain.rows(self.real.removed)} and "
            f"adds {explain.rows(self.real.added)}: what it means {explain.after(s.j)}, but not {explain.after(self.k - 1)}, its "
            f"parent. {_capital(explain.maker(changed, self.t.everything))} had changed what it reads in {explain.snapshot(changed)}, "
            f"committed between its scan and its commit; at the parent it would {self._difference(here)}.{why}"
        )
        return self._make("write-skew", text, [changed], self._rows(here), documented, scan=s)

    def _matters(self, c: Commit, here: ScannedState, s: ScannedState) -> bool:
        change = self.past.changes[self.t.position[c.snapshot_id] - 1]
        keys = {r.id for r in (*here.gone, *here.over, *here.unmade, *here.made)}
        value = self.o.value if isinstance(self.o.value, dict) else {}
        keys |= {value[x] for x in ("from",) if x in value}
        return change is not None and any(r.id in keys for r in (*change.removed, *change.added))

    def exchanged(self) -> Anomaly | None:
        """A commit with the rows of another operation, whose commit has the rows of this one: they bear each other's id."""
        signers = {op for r in self.real.added for op in (r.val, str(r.log).rpartition(",")[2])} - {self.o.op}
        for x in (self.t.everything.get(str(op)) for op in sorted(map(str, signers))):
            commits = [] if x is None or x.table != self.t.name else self.t.on_main(x.op)
            if x is None or len(commits) != 1 or not all_signed(self.t, self.c, x.op):
                continue
            changes = self.t.changes(commits[0])
            if changes is None or not changes.added or not all_signed(self.t, commits[0], self.o.op):
                continue
            text = (
                f"the {explain.operation(x)} has made {explain.snapshot(self.c)}: all rows that it adds, {explain.rows(self.real.added)}, bear "
                f"its id. Yet that snapshot says that the {explain.operation(self.o)} made it, whose id the rows of "
                f"{explain.snapshot(commits[0])} bear, which says that the former made it: each has the name of the other."
            )
            found = self._make("wrong-rows", text, commits, [*self.real.removed, *self.real.added], None)
            return replace(found, ops=(x.op, self.o.op))
        return None

    def stale_scan(self, s: ScannedState) -> Anomaly:
        """A commit explained only by a scan older than a write that was acknowledged before the operation began."""
        missed = self.t.main[s.j]
        proof = self._settled_by()
        text = (
            f"the {explain.operation(self.o)}, invoked at {explain.s(self.o.start)}, committed {explain.snapshot(self.c)}, which removes "
            f"{explain.rows(self.real.removed)} and adds {explain.rows(self.real.added)}: what it means {explain.after(s.j)}, and after "
            f"none of the commits {self.first} to {self.k - 1}. So it scanned a state without {explain.snapshot(missed)} of "
            f"{explain.maker(missed, self.t.everything)}, though {proof} before it was invoked."
        )
        return self._make("stale-scan", text, [missed], self._rows(self.scans[0]), None, scan=s)

    def _settled_by(self) -> str:
        c = self.t.main[self.first - 1]
        o = self.t.everything.get(c.op or "")
        return (
            f"{explain.snapshot(c)} was there" if o is None else f"the {explain.operation(o)} was {explain.outcome(o)}"
        )

    def vanished_read(self, version: Version) -> Anomaly:
        """A commit explained only by a state that main no longer has."""
        assert version.snapshot is not None
        lost, back = self.t.snapshots[version.snapshot], self.t.rolled_back(version.snapshot)
        text = (
            f"the {explain.operation(self.o)} committed {explain.snapshot(self.c)}, which removes {explain.rows(self.real.removed)} and "
            f"adds {explain.rows(self.real.added)}: what it means in {explain.snapshot(lost)} of "
            f"{explain.maker(lost, self.t.everything)}, and at no state that main still has. "
        )
        if back is None:
            text += "Main had that snapshot once and was set back below it, so what is there now was made of rows that were never written."
        elif self.t.newest_until_set_back(version, self.o):
            text += (
                f"The {explain.operation(back.operation)} took that snapshot out of main while this one was under way. The table is "
                "serializable: in no order of the two is the effect of this one there and the rows gone that it has read."
            )
        else:
            text += (
                f"The {explain.operation(back.operation)} had taken that snapshot out of main, or another commit had followed it, before this "
                "one was invoked: it scanned a state that was no longer there."
            )
        documented = source_of_blind_append(self.t.spec, self.o) if back is not None else None
        return self._make("vanished-read", text, [lost], [*self.real.removed, *self.real.added], documented)

    def other(self, s: ScannedState) -> Anomaly:
        """No scan explains it: named by the difference at its parent."""
        if s.made and not (s.over or s.unmade):
            before = self.past.removed_before(self.k, s.made)
            if len(before) == len(set(s.made)):
                remover = self.t.main[before[s.made[0]] - 1]
                text = (
                    f"the {explain.operation(self.o)} committed {explain.snapshot(self.c)} with {explain.rows(s.made)}, which it does not "
                    f"write; {explain.maker(remover, self.t.everything)} had removed that in {explain.snapshot(remover)}, and it is back."
                )
                return self._make("resurrected-row", text, [remover], s.made, None, scan=s)
            rows = {x for r in s.made for x in self.state.by_id(r.id)}
            if all(r in rows or self.real.added.count(r) > 1 for r in s.made):
                text = (
                    f"the {explain.operation(self.o)} committed {explain.snapshot(self.c)} with {explain.rows(s.made)} more often than it "
                    "means: the row is there twice, and one of them is nobody's."
                )
                return self._make("duplicate-row", text, [], s.made, None, scan=s)
        if s.over and not (s.made or s.unmade):
            makers = self._makers(s.over, self.first)
            if len(makers) == len(set(s.over)):
                other = self.t.main[min(makers.values()) - 1]
                text = (
                    f"the {explain.operation(self.o)} committed {explain.snapshot(self.c)}, which removes {explain.rows(s.over)} though it "
                    f"does not mean to at any state; {explain.maker(other, self.t.everything)} had made that in "
                    f"{explain.snapshot(other)}, committed while it was under way, and its effect is gone."
                )
                return self._make("lost-update", text, [other], s.over, None, scan=s)
        return self.wrong_rows(s)

    def wrong_rows(self, s: ScannedState | None) -> Anomaly:
        """Anything else."""
        text = (
            f"the {explain.operation(self.o)} ({explain.outcome(self.o)}) committed {explain.snapshot(self.c)}, which removes "
            f"{explain.rows(self.real.removed)} and adds {explain.rows(self.real.added)}; "
        )
        if s is None:
            text += "that is not what it means at any state that it can have seen."
        else:
            text += (
                f"at its parent ({explain.after(self.k - 1)}) it would {self._difference(s)}, and no state since the one "
                f"{explain.after(self.first)}, which was reached before it was invoked, explains it either."
            )
        rows = self._rows(s) if s is not None else [*self.real.removed, *self.real.added]
        return self._make("wrong-rows", text, [], rows, None, scan=s)

    # --- words and pieces

    @staticmethod
    def _difference(s: ScannedState) -> str:
        parts = [
            (s.gone, "also remove"),
            (s.over, "not remove"),
            (s.unmade, "also add"),
            (s.made, "not add"),
        ]
        return " and ".join(f"{verb} {explain.rows(rows)}" for rows, verb in parts if rows)

    @staticmethod
    def _rows(s: ScannedState) -> list[Row]:
        return [*s.gone, *s.over, *s.unmade, *s.made]

    def _rewritten_since(self, file: str, position: int) -> bool:
        later = self.t.main[position : self.k]
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
        scan: ScannedState | None = None,
    ) -> Anomaly:
        ops, events = [self.o.op], list(self.o.indices)
        for c in others:
            o = self.t.everything.get(c.op or "")
            if o is not None and o.op not in ops:
                ops.append(o.op)
                events += o.indices
        files = dict.fromkeys(() if home is None else (home[1].file,))
        for c in (*others, self.c):
            files |= dict.fromkeys(files_of(c, rows, self.t))
        more: dict[str, Any] = {"commit": self.k, "oldest_scan": self.first}
        if scan is not None:
            more["scan"] = scan.j
        if home is not None:
            more |= {"file": home[1].file, "position": home[1].pos}
        return Anomaly(
            name,
            self.checker,
            self.t.name,
            text,
            ops=tuple(ops),
            events=tuple(events),
            snapshots=tuple(c.snapshot_id for c in (*others, self.c)),
            files=tuple(files)[:20],
            keys=explain.keys(rows),
            documented=documented,
            evidence=evidence_of(self.real, **more),
        )


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
