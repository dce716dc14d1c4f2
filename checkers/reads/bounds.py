"""Between which states of its table a read must lie, and the words for one that does not.

:mod:`checkers.reads.judge` says how the bounds are found.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypedDict

from checkers.evidence.history import Operation
from checkers.evidence.tablelog import Commit
from checkers.timeline import explain
from checkers.timeline.past import TableHistory
from checkers.timeline.states import TableStates, _Span
from checkers.timeline.timeline import Timeline, kind_of
from checkers.verdict import Anomaly
from workloads.tables import Row


class ReadsTable(TypedDict):
    """Numbers of one table's completed reads, and of its states."""

    reads: int
    """``judged`` and ``undecided``."""
    judged: int
    undecided: int
    of_lost_commits: int
    """Reads that saw a commit that main has lost since."""
    of_rolled_back_commits: int
    """Reads that saw a commit that a rollback took out of main since."""
    states: int
    """States that the table had, one after the other."""


class _Floor:
    """What is certain at each event: the greatest position reached, and its proof."""

    def __init__(self) -> None:
        self._events: list[int] = []
        self._best: list[tuple[int, Operation]] = []

    def add(self, event: int, position: int, proof: Operation) -> None:
        """``position`` had been reached before ``event``; events must come in ascending order."""
        best = (position, proof)
        if self._best and self._best[-1][0] >= position:
            best = self._best[-1]
        self._events.append(event)
        self._best.append(best)

    def before(self, event: int) -> tuple[int, Operation | None]:
        """The greatest position that is certain before an event (0 for none), and the operation that proves it."""
        place = bisect_left(self._events, event)
        return self._best[place - 1] if place else (0, None)


@dataclass
class ReadBounds:
    """What bounds the reads of one table, and what was found of them."""

    t: Timeline
    checker: str
    anomalies: list[Anomaly] = field(default_factory=list)
    nowhere: dict[int, int] = field(default_factory=dict)
    """Number of an anomaly → the snapshot that was read, and that the table never had."""
    judged: int = 0
    vanished: int = 0
    rolled_back: int = 0
    undecided: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        t = self.t
        self.states = TableStates(t)
        self.past = TableHistory(t)
        self.writes, self.reads = _Floor(), _Floor()
        self.travels = _Floor()
        """What is certain of metadata versions rather than of positions: by time travels, and by expiries."""
        self.own_writes: dict[Any, _Floor] = {}
        self.own_reads: dict[Any, _Floor] = {}
        self.invoked: list[int] = []
        """Position → the earliest event by which it can have been reached: all operations up to it were invoked."""
        acks: list[tuple[int, int, Operation]] = []
        shown: set[int] = set()
        proven: set[str] = set()
        latest = -1
        for p, version in enumerate(t.versions):
            back = t.set_backs.get(version.metadata)
            if back is not None:  # a rollback took effect here
                latest = max(latest, back.invoked)
                if back.operation.type == "ok" and back.operation.completed is not None and back.certain and back.moved:
                    acks.append((back.operation.completed.index, p, back.operation))
            c = t.snapshots.get(version.snapshot) if version.snapshot is not None else None
            o = t.everything.get(c.op) if c is not None and c.op is not None else None
            if c is not None and o is not None and c.snapshot_id not in shown:
                shown.add(c.snapshot_id)
                latest = max(latest, o.invoked.index)
                kind = kind_of(o)
                duplicate = (
                    o.op in proven and kind is not None and kind.changes_rows
                )  # it may have come at any time later
                if o.type == "ok" and o.completed is not None and not duplicate:
                    acks.append((o.completed.index, p, o))
                    proven.add(o.op)
            self.invoked.append(latest)
        self.expiries = _Floor()
        if any(o.type == "ok" and (k := kind_of(o)) is not None and k.travels for o in t.ops):
            for n, event, o in sorted(self.past.expiries, key=lambda e: e[1]):
                self.expiries.add(event, n, o)
                acks.append((event, self.past.position(n), o))
        for event, p, o in sorted(acks, key=lambda a: a[:2]):
            self.writes.add(event, p, o)
            self.own_writes.setdefault(o.process, _Floor()).add(event, p, o)

    def stats(self) -> ReadsTable:
        """Counts."""
        return {
            "reads": self.judged + sum(self.undecided.values()),
            "judged": self.judged,
            "undecided": sum(self.undecided.values()),
            "of_lost_commits": self.vanished,
            "of_rolled_back_commits": self.rolled_back,
            "states": self.states.count,
        }

    def notes(self) -> list[str]:
        """What could not be decided, and why."""
        out = [f"{n} reads could not be judged: {why}" for why, n in sorted(self.undecided.items())]
        if self.vanished:
            out.append(f"{self.vanished} reads saw the effects of commits that main has lost since")
        return out

    # --- one read

    def bounds(self, o: Operation) -> tuple[int, int]:
        """The lowest and the highest position that a read can have seen, by real time."""
        assert o.completed is not None
        floor = max(self.writes.before(o.invoked.index)[0], self.reads.before(o.invoked.index)[0])
        return floor, bisect_left(self.invoked, o.completed.index) - 1

    def saw(self, o: Operation, position: int) -> None:
        """A read proves that a position had been reached when it ended."""
        assert o.completed is not None
        self.reads.add(o.completed.index, position, o)
        self.own_reads.setdefault(o.process, _Floor()).add(o.completed.index, position, o)

    def doubtful(self, o: Operation) -> bool:
        """Whether the log need not have what a read saw; then it is undecided."""
        assert o.completed is not None
        why = (
            "main is not known down to its root"
            if not self.t.rooted
            else "it ended after the table log was read last"
            if o.completed.time >= self.t.seen_until
            else "a rollback may have been in versions that the log lacks"
            if self.t.rollback_in_gap
            else None
        )
        if why is not None:
            self.undecided[why] += 1
        return why is not None

    @cached_property
    def _kept(self) -> list[int]:
        """Positions in main's final ancestry, ascending."""
        kept = self.t.position
        return [p for p, v in enumerate(self.t.versions) if v.snapshot is None or v.snapshot in kept]

    def vanished_of(self, o: Operation, key: int | None, seen: list[_Span]) -> None:
        """A read that only states lost from main explain; reported unless a lost acknowledged commit already accounts for it.

        ``seen``: positions that it may have seen, including each span's ends.
        """
        if any(bisect_right(self._kept, x.stop) > bisect_left(self._kept, x.start) for x in seen):
            return
        lost = self._off_main(seen[0].start)
        if self.t.set_backs and any(self.t.rolled_back(c.snapshot_id) is not None for c in lost):
            self.rolled_back += 1
            return
        self.vanished += 1
        makers = [self.t.everything[c.op] for c in lost if c.op is not None and c.op in self.t.everything]
        if any(m.type == "ok" for m in makers):
            return  # the commits checker reports the lost commit
        c = lost[0]
        self.anomalies.append(
            Anomaly(
                "vanished-read",
                self.checker,
                self.t.name,
                f"the {explain.operation(o)} returned the rows of {explain.snapshot(c)} of {explain.maker(c, self.t.everything)}, which "
                f"main had then but has lost since: a client saw a commit that was undone later.",
                ops=(o.op, *(m.op for m in makers)),
                events=(*o.indices, *(i for m in makers for i in m.indices)),
                snapshots=tuple(x.snapshot_id for x in reversed(lost)),
                keys=() if key is None else (key,),
            )
        )

    def _off_main(self, p: int) -> list[Commit]:
        """The commits of a position that are not in main's final ancestry, newest first."""
        out: list[Commit] = []
        for c in self.t.ancestors(self.t.versions[p].snapshot):
            if c.snapshot_id in self.t.position:
                break
            out.append(c)
        return out

    # --- states out of bounds

    def commit(self, p: int) -> Commit | None:
        snapshot = self.t.versions[p].snapshot
        return self.t.snapshots.get(snapshot) if snapshot is not None else None

    def state_words(self, p: int) -> str:
        c = self.commit(p)
        return (
            "the empty table"
            if c is None
            else f"the state of {explain.snapshot(c)} by {explain.maker(c, self.t.everything)}"
        )

    def old(
        self, o: Operation, rows: list[Row], key: int | None, p: int, floor: int, deed: str | None = None
    ) -> Anomaly:
        """The newest state that it equals is older than one that was certainly reached when it was invoked.

        ``deed``: what it did with a snapshot that it named; then every snapshot counts, and not only those that changed the rows.
        """
        invoked = o.invoked.index
        missed = self.states.changes_of(key, p + 1, floor) if deed is None else list(range(p + 1, floor + 1))
        written = self.own_writes[o.process].before(invoked) if o.process in self.own_writes else (0, None)
        own = [
            q
            for q in missed
            if (c := self.commit(q)) is not None and self._process_of(c) == o.process and q <= written[0]
        ]
        before = self.own_reads[o.process].before(invoked) if o.process in self.own_reads else (0, None)
        wrote, read = self.writes.before(invoked), self.reads.before(invoked)
        if own:
            name, miss, (position, proof) = "read-your-writes", own[-1], written
        elif before[0] > p:
            name, miss, (position, proof) = "non-monotonic-read", missed[0] if missed else floor, before
        elif wrote[0] > p:
            name, (position, proof) = "stale-read", wrote
            miss = next((q for q in missed if q <= position), floor)
        else:
            name, miss, (position, proof) = "stale-read", missed[0] if missed else floor, read
        c = self.commit(miss)
        what = "the whole table" if key is None else f"id {key}"
        first = self.commit(missed[0] if missed else miss)
        until = (
            "the table was emptied"
            if first is None
            else f"{explain.snapshot(first)} of {explain.maker(first, self.t.everything)}"
        )
        text = f"the {explain.operation(o)}, invoked at {explain.s(o.start)}, "
        if deed is None:
            text += f"returned {what} as it was before {until}: it equals {self.state_words(p)} and nothing later. "
        else:
            text += f"{deed}: so it saw the table as it was before {until}. "
        maker = self.t.everything.get(c.op) if c is not None and c.op is not None else None
        text += self._proof_words(o, name, position, proof, c if c is not first else None, maker)
        broken = [
            *(["read-your-writes"] if own else []),
            *(["non-monotonic-read"] if before[0] > p else []),
            *(["stale-read"] if max(wrote[0], read[0]) > p else []),
        ]
        return self.make(name, text, o, rows, key, [self.commit(p), c], [maker, proof], {"broken": broken})

    def _proof_words(
        self,
        o: Operation,
        name: str,
        position: int,
        proof: Operation | None,
        lacking: Commit | None,
        maker: Operation | None,
    ) -> str:
        """What proves that a newer state had been reached.

        ``lacking``: a commit that the read lacks besides the one that was named; ``maker``: the operation of the newest that it lacks.
        """
        lacks = "That"
        if lacking is not None:
            lacks = f"It lacks {explain.snapshot(lacking)} of {explain.maker(lacking, self.t.everything)}, too. That"
        if name == "read-your-writes":
            return f"{lacks} was a write of the same process, {explain.outcome(maker) if maker is not None else 'acknowledged'} before."
        if proof is None:
            return ""
        if (kind := kind_of(proof)) is not None and kind.verb == "read":
            who = "the same process" if proof.process == o.process else explain.process(proof)
            state = self.state_words(position)
            if kind.travels:
                return f"But the history that {who} had asked by {proof.op}, {explain.outcome(proof)}, had {state}."
            return f"But {who} had read {state} or a later one by {proof.op}, {explain.outcome(proof)}."
        if not self.t.commits.get(proof.op):
            return f"But the {explain.operation(proof)}, which changed a later version of the metadata, was {explain.outcome(proof)} before."
        if maker is not None and proof.op == maker.op:
            return f"{lacks} write was {explain.outcome(proof)}, before the read was invoked."
        return f"But {explain.operation(proof)}, whose snapshot is later still, was {explain.outcome(proof)}, before the read was invoked."

    def _process_of(self, c: Commit) -> Any:
        o = self.t.everything.get(c.op) if c.op is not None else None
        return None if o is None else o.process

    def early(self, o: Operation, rows: list[Row], key: int | None, p: int, deed: str | None = None) -> Anomaly:
        """The oldest state that it equals was made by an operation invoked after the read ended. ``deed``: as in :meth:`old`."""
        c = self.commit(p)
        late = next(
            (
                x
                for q in range(p + 1)
                if (m := self.commit(q)) is not None
                and (x := self.t.everything.get(m.op or "")) is not None
                and o.completed is not None
                and x.invoked.index > o.completed.index
            ),
            None,
        )
        who = "" if late is None else f" only after the {explain.operation(late)}, invoked at {explain.s(late.start)}"
        if deed is None:
            text = f"the {explain.operation(o)} {explain.outcome(o)} with rows that equal {self.state_words(p)} and nothing earlier"
        else:
            text = f"the {explain.operation(o)}, {explain.outcome(o)}, {deed}"
        text += f": the table had {'them' if deed is None else 'that'}{who}, after the read had ended."
        return self.make("future-read", text, o, rows, key, [c], [late])

    # --- pieces

    def make(
        self,
        name: str,
        text: str,
        o: Operation,
        rows: Sequence[Row],
        key: int | None,
        commits: Sequence[Commit | None],
        others: Sequence[Operation | None],
        evidence: dict[str, Any] | None = None,
    ) -> Anomaly:
        ops: dict[str, Operation] = {x.op: x for x in (o, *others) if x is not None}
        snapshots = {c.snapshot_id: c for c in commits if c is not None}
        ordered = sorted(snapshots.values(), key=lambda c: (c.metadata, c.sequence_number, c.snapshot_id))
        return Anomaly(
            name,
            self.checker,
            self.t.name,
            text,
            ops=tuple(ops),
            events=tuple(i for x in ops.values() for i in x.indices),
            snapshots=tuple(c.snapshot_id for c in ordered),
            keys=explain.keys(rows) if key is None else (key,),
            evidence={"returned": [list(r) for r in rows[:50]], **(evidence or {})},
        )
