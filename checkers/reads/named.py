"""Reads that name a snapshot: time travel, and reads of two tables.

What such a read saw is known exactly, so it is judged by its snapshot and not only by its rows: the snapshot must exist, it must have
been the answer at a version that real time allows, and a snapshot never changes, so its rows are those of its files.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import cached_property

from checkers.evidence.history import Operation
from checkers.evidence.tablelog import Commit
from checkers.reads.bounds import ReadBounds
from checkers.timeline import explain
from checkers.timeline.states import TableStates, _Span, rows_hash
from checkers.verdict import Anomaly
from workloads.tables import Row

_FAR = 1000
"""Metadata versions before and after the possible ones that are searched for the one that explains a wrong answer."""


NEVER_HAD = "which the table never had"
"""What is said of the snapshot that a read named, unless it is one of another table."""


class Named:
    """Judges the reads of one table that name snapshots; ``judge`` keeps the bounds and the findings, ``read`` judges a read by its rows."""

    def __init__(self, judge: ReadBounds, read: Callable[[Operation, list[Row], int | None], None]) -> None:
        self._judge = judge
        self._read = read
        self._t = judge.t
        self._past = judge.past

    # --- time travel

    def travel(self, o: Operation, snapshot: int, rows: list[Row]) -> None:
        """A time travel that asked for ``snapshot`` and returned ``rows``."""
        judge, c = self._judge, self._t.of_every_snapshot.snapshots.get(snapshot)
        assert o.completed is not None
        if c is None:
            self._nowhere(o, snapshot, rows)
            return
        if self._hashes.get(snapshot) is None:
            judge.undecided["the rows of the snapshot that it asked for are not known"] += 1
            return
        maker = self._t.everything.get(c.op or "")
        if maker is not None and maker.invoked.index > o.completed.index:
            judge.judged += 1
            text = (
                f"the {explain.operation(o)}, {explain.outcome(o)}, asked for {explain.snapshot(c)}, but the "
                f"{explain.operation(maker)}, which made it, was invoked only after the read ended, {explain.outcome(maker)}: "
                "the snapshot did not exist yet."
            )
            judge.anomalies.append(judge.make("wrong-time-travel", text, o, [], None, [c], [maker]))
        elif self._changed(o, c, rows, "asked for"):
            judge.judged += 1
        else:
            self._place(o, c)

    def _place(self, o: Operation, c: Commit) -> None:
        """Whether the history can have answered the travel with this snapshot."""
        judge, t, past = self._judge, self._t, self._past
        assert o.completed is not None
        back = o.value.get("back") if isinstance(o.value, dict) else None
        if not isinstance(back, int) or back < 0:
            judge.undecided["it does not say how far back it went"] += 1
            return
        floor, ceiling = judge.bounds(o)
        index = o.invoked.index
        low = max(t.versions[floor].metadata, judge.expiries.before(index)[0], judge.travels.before(index)[0])
        high = past.last_at(ceiling) if ceiling >= 0 else -1
        hit = unsure = None
        for n in range(low, high + 1):
            answers = past.answers(n, back)
            if answers is None:
                unsure = n if unsure is None else unsure
            elif c.snapshot_id in answers:
                hit = n
                break
        if hit is not None:
            judge.judged += 1
            if any(t.gap_before(n) for n in range(low, hit + 1)):
                judge.saw(o, floor)  # an earlier version, which the log lacks, may have answered
                return
            proven = hit if unsure is None else unsure
            judge.saw(o, max(floor, past.position(proven)))
            judge.travels.add(o.completed.index, proven, o)
        elif unsure is not None or any(t.gap_before(n) for n in range(low, min(high + 2, len(t.log.metadata)))):
            judge.undecided["the history that it asked is not known"] += 1
        elif not judge.doubtful(o):
            judge.judged += 1
            self._misplaced(o, c, back, low, high, floor)

    def _misplaced(self, o: Operation, c: Commit, back: int, low: int, high: int, floor: int) -> None:
        judge, t, past = self._judge, self._t, self._past

        def has(n: int) -> bool:
            return c.snapshot_id in (past.answers(n, back) or ())

        deed = f"asked for {explain.snapshot(c)}, which the table's history has {_entries(back)} "
        older = next((n for n in range(low - 1, max(-1, low - _FAR), -1) if has(n)), None)
        newer = next((n for n in range(high + 1, min(len(t.log.metadata), high + _FAR)) if has(n)), None)
        known, proof = judge.expiries.before(o.invoked.index)
        if older is not None and past.position(older) < max(floor, past.position(low)):
            p = past.position(older)
            found = judge.old(o, [], None, p, max(floor, past.position(low)), f"{deed}in metadata version {older}")
        elif older is not None:
            if known < low:
                known, proof = judge.travels.before(o.invoked.index)
            why = (
                ""
                if proof is None
                else f"; the {explain.operation(proof)}, {explain.outcome(proof)}, had version {known} before"
            )
            text = f"the {explain.operation(o)}, invoked at {explain.s(o.start)}, {deed}in metadata version {older} and not later{why}."
            found = judge.make("stale-read", text, o, [], None, [c], [proof])
        elif newer is not None:
            found = judge.early(o, [], None, past.position(newer), f"{deed}only from metadata version {newer} on")
        else:
            last = explain.listing(sorted(past.answers(high, back) or ())) or "none"
            text = (
                f"the {explain.operation(o)}, invoked at {explain.s(o.start)} and {explain.outcome(o)}, asked for {explain.snapshot(c)} of "
                f"{explain.maker(c, t.everything)}, as the one that the table's history has {_entries(back)}. It is that in none of the "
                f"metadata versions {low} to {high}, which can have been current meanwhile; version {high} has {last} there."
            )
            found = judge.make("wrong-time-travel", text, o, [], None, [c], [t.everything.get(c.op or "")])
        judge.anomalies.append(found)

    # --- reads of two tables

    def current(self, o: Operation, rows: list[Row], named: tuple[int, ...]) -> None:
        """A read of ``rows`` that found the first of ``named`` current, and then, in this order, the others."""
        judge, t = self._judge, self._t
        strange = next((s for s in named if s not in t.snapshots), None)
        if strange is not None:
            self._nowhere(o, strange, rows)
            return
        first = t.snapshots[named[0]]
        if judge.states.of_snapshot.get(first.snapshot_id) is None:
            judge.undecided["the rows of the snapshot that it asked for are not known"] += 1
            return
        if rows_hash(rows) != judge.states.of_snapshot[first.snapshot_id]:
            before = len(judge.anomalies)
            self._read(o, rows, None)
            if len(judge.anomalies) == before:
                self._changed(o, first, rows, "found current and read")
            return
        floor, ceiling = judge.bounds(o)
        seen: list[int] = []
        for snapshot in named:
            low = seen[-1] if seen else floor
            p = next((p for p in self._positions.get(snapshot, ()) if low <= p <= ceiling), None)
            if p is None:
                if not judge.doubtful(o):
                    judge.judged += 1
                    judge.anomalies.append(self._not_current(o, rows, t.snapshots[snapshot], seen, floor, ceiling))
                return
            seen.append(p)
        judge.judged += 1
        judge.saw(o, seen[-1])
        judge.vanished_of(o, None, [_Span(seen[0], seen[0])])

    @cached_property
    def _positions(self) -> dict[int, list[int]]:
        """Snapshot → the positions at which it was current, ascending."""
        out: dict[int, list[int]] = {}
        for p, v in enumerate(self._t.versions):
            if v.snapshot is not None:
                out.setdefault(v.snapshot, []).append(p)
        return out

    def _not_current(
        self, o: Operation, rows: list[Row], c: Commit, seen: list[int], floor: int, ceiling: int
    ) -> Anomaly:
        """It found a snapshot current that was not, as far as real time tells."""
        judge, t = self._judge, self._t
        positions = self._positions.get(c.snapshot_id, [])
        deed = f"found {explain.snapshot(c)} current"
        back = [p for p in positions if seen and p < seen[-1]]
        older, newer = [p for p in positions if p < floor], [p for p in positions if p > ceiling]
        if back and back[-1] >= floor:
            before = judge.commit(seen[-1])
            text = (
                f"the {explain.operation(o)}, invoked at {explain.s(o.start)} and {explain.outcome(o)}, found "
                f"{'the empty table' if before is None else explain.snapshot(before)} current, and after that the older "
                f"{explain.snapshot(c)} of {explain.maker(c, t.everything)}."
            )
            return judge.make("non-monotonic-read", text, o, [], None, [before, c], [t.everything.get(c.op or "")])
        if older:
            return judge.old(o, [], None, older[-1], floor, deed)
        if newer:
            return judge.early(o, [], None, newer[0], deed)
        text = f"the {explain.operation(o)}, {explain.outcome(o)}, {deed}, which {explain.maker(c, t.everything)} made: it never was on main."
        return judge.make("dirty-read", text, o, rows, None, [c], [t.everything.get(c.op or "")])

    # --- both

    def _nowhere(self, o: Operation, snapshot: int, rows: list[Row]) -> None:
        """It named a snapshot that the log does not have: certainly wrong if the log has all."""
        judge, t = self._judge, self._t
        whole = t.rooted and t.log.complete and t.unbroken
        if not whole or judge.doubtful(o):
            if not whole:
                judge.undecided["the log does not have the snapshot that it asked for"] += 1
            return
        judge.judged += 1
        text = (
            f"the {explain.operation(o)}, {explain.outcome(o)}, read snapshot {snapshot}, {NEVER_HAD}: it is in none of the "
            f"{len(t.log.metadata)} metadata versions, and the log has all of them."
        )
        judge.nowhere[len(judge.anomalies)] = snapshot
        judge.anomalies.append(judge.make("wrong-time-travel", text, o, rows, None, [], []))

    @cached_property
    def _hashes(self) -> dict[int, int]:
        """Snapshot → hash of its rows, of every snapshot."""
        whole = self._t.of_every_snapshot
        return self._judge.states.of_snapshot if whole is self._t else TableStates(whole).of_snapshot

    def _changed(self, o: Operation, c: Commit, rows: list[Row], how: str) -> bool:
        """Report rows that are not those of the snapshot."""
        judge, t = self._judge, self._t.of_every_snapshot
        known = self._hashes
        if rows_hash(rows) == known[c.snapshot_id]:
            return False
        state: Counter[Row] = Counter()
        for a in reversed(list(t.ancestors(c.snapshot_id))):
            changes = t.changes(a)
            assert changes is not None
            state.update(changes.added)
            state.subtract(changes.removed)
        read = Counter(rows)
        more, less = sorted((read - state).elements(), key=str), sorted((+state - read).elements(), key=str)
        same = [s for s, h in known.items() if h == rows_hash(rows)]
        also = f" It returned the rows of {explain.snapshot(t.snapshots[same[0]])} instead." if same else ""
        text = (
            f"the {explain.operation(o)}, {explain.outcome(o)}, {how} {explain.snapshot(c)} of {explain.maker(c, t.everything)}; "
            f"a snapshot never changes, yet compared with its files the read has {explain.rows(more)} too much and lacks "
            f"{explain.rows(less)}.{also}"
        )
        others = [c, *(t.snapshots[s] for s in same[:1])]
        judge.anomalies.append(
            judge.make("wrong-time-travel", text, o, [*more, *less], None, others, [t.everything.get(c.op or "")])
        )
        return True


def _entries(back: int) -> str:
    """Where in the history: ``as its newest entry``, ``3 entries before its newest``."""
    return "as its newest entry" if back == 0 else f"{back} {'entry' if back == 1 else 'entries'} before its newest"
