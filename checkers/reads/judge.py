"""The ``reads`` checker: did every completed read return a state that the table had, and one that was still possible at that time?

A table is a register whose values are its states; commits write it, reads read it. States are numbered in the order in which they were
current (:attr:`Timeline.versions`, including those that a rollback removed from main). For a read invoked at event i, answered at e::

    state      0 ──── 1 ──── 2 ──── 3 ──── 4 ──── 5 ──── 6
                      │      └──── may be read ───┘      │
       a read or write that had ended before i           its operation was invoked after e
       proves state 2 by then: lower is *stale*          so higher is a *future read*

Reads are judged in the order of their ends, and each is assigned the **lowest** state that it can have seen: that state had certainly
been reached by then, which bounds every read invoked later. (A register whose order of writes is known can be checked for
linearizability greedily, read by read.) A read of one key is judged the same way, with that key's rows.

A time travel is a read of the history, which grows with every commit: the snapshot that it asked for must be the one that the
history answers at a metadata version within the same bounds (:mod:`checkers.timeline.past`), and the lowest such version was certainly reached.
A read of two tables names the snapshots that it found current: those, and not only its rows, must lie within the bounds, the rows
must be theirs, and it may not find its first table at an older snapshot the second time.

A read that equals no state is named after its content: a value of an operation that never committed (``dirty-read``, Adya's G1a), a
value that nobody wrote (``phantom-value``, "thin air"), or rows of different states (``fractured-read``). One that equals only states
out of bounds is named after the weakest promise that it breaks: ``read-your-writes``, ``non-monotonic-read``, ``stale-read``, ``future-read``.

States are compared by a hash: the sum of a 128-bit hash of each row. So hashing a commit costs only its own rows, a read its own.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypedDict

from checkers.evidence.history import Operation
from checkers.evidence.replace import replace
from checkers.evidence.tablelog import Commit
from checkers.reads.named import NEVER_HAD, Named
from checkers.timeline import explain, two_tables
from checkers.timeline.past import TableHistory
from checkers.timeline.states import TableStates, _Span, rows_hash
from checkers.timeline.timeline import Timeline, kind_of
from checkers.timeline.touched import reads_rows, touches
from checkers.unit import Part, TableChecker, Unit, unjudged
from checkers.verdict import Anomaly, Verdict
from workloads.tables import COLUMNS, Row

_MOST_EXPLAINED = 100
"""Fractured reads per table to compare with every possible state, to name the nearest."""


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


class ReadsStats(TypedDict):
    """What the checker counted."""

    tables: dict[str, ReadsTable]


class Reads(TableChecker):
    """Reads that equal no state the table had, or one that it no longer or not yet had."""

    name = "reads"
    stats_type = ReadsStats
    reducible = True
    names = frozenset(
        {
            "dirty-read",
            "fractured-read",
            "future-read",
            "non-monotonic-read",
            "phantom-value",
            "read-your-writes",
            "stale-read",
            "vanished-read",
            "wrong-time-travel",
            "no-state-read",
        }
    )

    def part(self, unit: Unit) -> Part:
        """Anomalies ``dirty-read``, ``fractured-read``, ``phantom-value``, ``stale-read``, ``non-monotonic-read``,
        ``read-your-writes``, ``future-read``, ``vanished-read``, ``wrong-time-travel``.

        ``stats``: :class:`ReadsStats`.
        """
        t = unit.timeline
        if t is None:
            return unjudged(unit)
        judge = TableReads(t, self.name)
        judge.run()
        notes = tuple(f"{t.name}: {n}" for n in judge.notes())
        more = _Snapshots(judge.nowhere, tuple(t.snapshots))
        return Part(t.name, tuple(judge.anomalies), notes, bool(judge.undecided), judge.stats(), more=more)

    def fold(self, parts: Sequence[Part]) -> Verdict:
        """As for any checker of tables; of a snapshot that a table never had, it says which other table has it."""
        asked = {s for p in parts if p.more is not None for s in p.more.nowhere.values()}
        home = {s: p.table for p in parts if asked and p.more is not None for s in p.more.own if s in asked}
        return super().fold([_with_home(p, home) for p in parts] if home else parts)


@dataclass(frozen=True)
class _Snapshots:
    """What the whole run decides of a table's reads.

    Attributes:
        nowhere: number of an anomaly → the snapshot that was read, and that the table never had.
        own: the snapshots of the table.
    """

    nowhere: Mapping[int, int]
    own: tuple[int, ...]


def _with_home(p: Part, home: Mapping[int, str]) -> Part:
    """The part whose anomalies say of which table a snapshot is (``home``) that their own table never had."""
    found = list(p.anomalies)
    for n, snapshot in p.more.nowhere.items() if p.more is not None else ():
        if snapshot in home:
            text = found[n].explanation.replace(NEVER_HAD, f"which is a snapshot of the table {home[snapshot]}", 1)
            found[n] = replace(found[n], explanation=text)
    return replace(p, anomalies=tuple(found))


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
        at = bisect_left(self._events, event)
        return self._best[at - 1] if at else (0, None)


@dataclass
class TableReads:
    """All reads of one table."""

    t: Timeline
    checker: str
    anomalies: list[Anomaly] = field(default_factory=list)
    nowhere: dict[int, int] = field(default_factory=dict)
    """Number of an anomaly → the snapshot that was read, and that the table never had."""
    judged: int = 0
    vanished: int = 0
    rolled_back: int = 0
    fractured: int = 0
    undecided: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        t = self.t
        self.states = TableStates(t)
        self.past = TableHistory(t)
        self.named = Named(self)
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
                if back.by.type == "ok" and back.by.completed is not None and back.certain and back.moved:
                    acks.append((back.by.completed.index, p, back.by))
            c = t.snapshots.get(version.snapshot) if version.snapshot is not None else None
            o = t.everything.get(c.op) if c is not None and c.op is not None else None
            if c is not None and o is not None and c.snapshot_id not in shown:
                shown.add(c.snapshot_id)
                latest = max(latest, o.invoked.index)
                kind = kind_of(o)
                again = (
                    o.op in proven and kind is not None and kind.changes_rows
                )  # a duplicate may have come at any time later
                if o.type == "ok" and o.completed is not None and not again:
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

    def run(self) -> None:
        """Judge every completed read, in the order in which they ended."""
        done = [o for o in self.t.ops if o.type == "ok" and o.completed is not None]
        for o in sorted(done, key=lambda o: o.completed.index if o.completed is not None else 0):
            kind = kind_of(o)
            if reads_rows(o):
                rows, about = rows_of(o.result), touches(o, self.t.spec)
                named = two_tables.snapshots_read(o)
                if rows is None or about is None:
                    self.undecided["the result is not a list of rows"] += 1
                elif named:
                    self.named.current(o, rows, named)
                else:
                    self.read(o, rows, None if about.whole else about.ids[0])
            elif kind is not None and kind.travels:
                result = o.result if isinstance(o.result, dict) else {}
                rows, snapshot = rows_of(result.get("rows")), result.get("snapshot")
                if rows is None or not isinstance(snapshot, int):
                    self.undecided["the result is not a snapshot with a list of rows"] += 1
                else:
                    self.named.travel(o, snapshot, rows)

    # --- one read

    def bounds(self, o: Operation) -> tuple[int, int]:
        """The lowest and the highest position that a read can have seen, by real time."""
        assert o.completed is not None
        floor = max(self.writes.before(o.invoked.index)[0], self.reads.before(o.invoked.index)[0])
        return floor, bisect_left(self.invoked, o.completed.index) - 1

    def read(self, o: Operation, rows: list[Row], key: int | None) -> None:
        assert o.completed is not None
        floor, ceiling = self.bounds(o)
        spans = self.states.spans(rows, key)
        seen = next((max(s.start, floor) for s in spans if s.stop > floor and s.start <= ceiling), None)
        if seen is not None and seen <= ceiling:
            self.judged += 1
            self.saw(o, seen)
            in_bounds = [_Span(max(x.start, floor), min(x.stop - 1, ceiling)) for x in spans]
            self.vanished_of(o, key, [x for x in in_bounds if x.start <= x.stop])
            return
        if self.t.rooted and self.states.any_unknown(floor, ceiling):
            self.undecided["the rows of a snapshot that it may have seen are not known"] += 1
        elif not self.doubtful(o):
            self.judged += 1
            found = self._misplaced(o, rows, key, spans, floor, ceiling) or self._no_state(o, rows, key, floor, ceiling)
            if found is not None:
                self.anomalies.append(found)

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

    def _state(self, p: int) -> str:
        c = self.commit(p)
        return (
            "the empty table"
            if c is None
            else f"the state of {explain.snapshot(c)} by {explain.maker(c, self.t.everything)}"
        )

    def _misplaced(
        self, o: Operation, rows: list[Row], key: int | None, spans: list[_Span], floor: int, ceiling: int
    ) -> Anomaly | None:
        older = [s for s in spans if s.start < floor]
        if older:
            return self.old(o, rows, key, min(older[-1].stop, floor) - 1, floor)
        newer = [s for s in spans if s.start > ceiling]
        return self.early(o, rows, key, newer[0].start) if newer else None

    def old(
        self, o: Operation, rows: list[Row], key: int | None, p: int, floor: int, said: str | None = None
    ) -> Anomaly:
        """The newest state that it equals is older than one that was certainly reached when it was invoked.

        ``said``: what it did with a snapshot that it named; then every snapshot counts, and not only those that changed the rows.
        """
        at = o.invoked.index
        missed = self.states.changes_of(key, p + 1, floor) if said is None else list(range(p + 1, floor + 1))
        mine = self.own_writes[o.process].before(at) if o.process in self.own_writes else (0, None)
        own = [q for q in missed if (c := self.commit(q)) is not None and self._by(c) == o.process and q <= mine[0]]
        before = self.own_reads[o.process].before(at) if o.process in self.own_reads else (0, None)
        wrote, read = self.writes.before(at), self.reads.before(at)
        if own:
            name, miss, (position, proof) = "read-your-writes", own[-1], mine
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
        text = f"the {explain.operation(o)}, invoked at {explain.ms(o.start)}, "
        if said is None:
            text += f"returned {what} as it was before {until}: it equals {self._state(p)} and nothing later. "
        else:
            text += f"{said}: so it saw the table as it was before {until}. "
        maker = self.t.everything.get(c.op) if c is not None and c.op is not None else None
        lacks = "That"
        if c is not None and c is not first:
            lacks = f"It lacks {explain.snapshot(c)} of {explain.maker(c, self.t.everything)}, too. That"
        if name == "read-your-writes":
            text += f"{lacks} was a write of the same process, {explain.outcome(maker) if maker is not None else 'acknowledged'} before."
        elif proof is not None and (kind := kind_of(proof)) is not None and kind.verb == "read":
            who = "the same process" if proof.process == o.process else explain.process(proof)
            if kind.travels:
                text += f"But the history that {who} had asked by {proof.op}, {explain.outcome(proof)}, had {self._state(position)}."
            else:
                text += f"But {who} had read {self._state(position)} or a later one by {proof.op}, {explain.outcome(proof)}."
        elif proof is not None and not self.t.commits.get(proof.op):
            text += f"But the {explain.operation(proof)}, which changed a later version of the metadata, was {explain.outcome(proof)} before."
        elif proof is not None:
            same = maker is not None and proof.op == maker.op
            text += (
                f"{lacks} write was {explain.outcome(proof)}, before the read was invoked."
                if same
                else f"But {explain.operation(proof)}, whose snapshot is later still, was {explain.outcome(proof)}, before the read "
                "was invoked."
            )
        broken = [
            *(["read-your-writes"] if own else []),
            *(["non-monotonic-read"] if before[0] > p else []),
            *(["stale-read"] if max(wrote[0], read[0]) > p else []),
        ]
        return self.make(name, text, o, rows, key, [self.commit(p), c], [maker, proof], {"broken": broken})

    def _by(self, c: Commit) -> Any:
        o = self.t.everything.get(c.op) if c.op is not None else None
        return None if o is None else o.process

    def early(self, o: Operation, rows: list[Row], key: int | None, p: int, said: str | None = None) -> Anomaly:
        """The oldest state that it equals was made by an operation invoked after the read ended. ``said``: as in :meth:`old`."""
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
        who = "" if late is None else f" only after the {explain.operation(late)}, invoked at {explain.ms(late.start)}"
        if said is None:
            text = f"the {explain.operation(o)} {explain.outcome(o)} with rows that equal {self._state(p)} and nothing earlier"
        else:
            text = f"the {explain.operation(o)}, {explain.outcome(o)}, {said}"
        text += f": the table had {'them' if said is None else 'that'}{who}, after the read had ended."
        return self.make("future-read", text, o, rows, key, [c], [late])

    # --- no state at all

    @cached_property
    def _written(self) -> frozenset[Row]:
        """Every row that some commit in the log made."""
        return frozenset(r for r, (born, _) in self._lives.items() if born is not None)

    def _no_state(self, o: Operation, rows: list[Row], key: int | None, floor: int, ceiling: int) -> Anomaly | None:
        strange = [r for r in rows if r not in self._written]
        thin: list[Row] = []
        uncommitted: dict[str, Row] = {}
        lost: dict[str, Row] = {}
        for r in strange:
            for w in sorted({str(r.val), *str(r.log).split(",")}) + self._uncounted(o, r):
                x = self.t.everything.get(w)
                if x is None or x.table != self.t.name:
                    thin.append(r)
                elif not self.t.commits.get(w):
                    (lost if x.type == "ok" else uncommitted).setdefault(w, r)
        if thin:
            text = (
                f"the {explain.operation(o)}, {explain.outcome(o)}, returned {explain.rows(thin)}, with a value that no operation on this "
                "table writes."
            )
            return self.make("phantom-value", text, o, thin, key, [], [])
        if uncommitted:
            writers_ = [self.t.everything[w] for w in sorted(uncommitted)]
            text = (
                f"the {explain.operation(o)}, {explain.outcome(o)}, returned {explain.rows(uncommitted[w.op] for w in writers_)}, "
                f"written by the {explain.listing(f'{explain.operation(w)}, {explain.outcome(w)}' for w in writers_)}: no snapshot of it "
                "was ever committed, so nobody may see it (Adya's G1a)."
            )
            return self.make("dirty-read", text, o, list(uncommitted.values()), key, [], writers_)
        if lost:  # acknowledged, and no snapshot in the log: the commits checker reports the lost commit
            self.vanished += 1
            return None
        if strange:
            text = f"the {explain.operation(o)}, {explain.outcome(o)}, returned {explain.rows(strange)}, which no commit ever made."
            return self.make("phantom-value", text, o, strange, key, [], [])
        if key is None and (staged := self._staged(rows)) is not None:
            c = self.t.snapshots[staged]
            maker = self.t.everything.get(c.op or "")
            text = (
                f"the {explain.operation(o)}, {explain.outcome(o)}, returned the rows of {explain.snapshot(c)} of "
                f"{explain.maker(c, self.t.everything)}, which never was on main."
            )
            return self.make("dirty-read", text, o, rows, key, [c], [maker])
        return self._fractured(o, rows, key, floor, ceiling)

    def _uncounted(self, read: Operation, row: Row) -> list[str]:
        """Increments that never committed and may have made the row: a counter does not show who wrote it.

        It changed a row that those had written who sign it. One that had failed before the last of them was invoked cannot have seen theirs.
        """
        assert read.completed is not None
        signed = (self.t.everything.get(w) for w in {str(row.val), *str(row.log).split(",")})
        named = max((w.invoked.index for w in signed if w is not None), default=-1)
        return [
            o.op
            for o in self.t.ops
            if (kind := kind_of(o)) is not None
            and kind.changes_rows
            and not (kind.signs or kind.deletes)
            and o.type != "ok"
            and not self.t.commits.get(o.op)
            and o.invoked.index < read.completed.index
            and not (o.type == "fail" and o.indices[-1] < named)
            and (about := touches(o, self.t.spec)) is not None
            and (about.ids == (row.id,) or about.among is None or row.part in about.among)
        ]

    def _staged(self, rows: list[Row]) -> int | None:
        h = rows_hash(rows)
        return next((s for s, x in self.states.of_snapshot.items() if x == h and s not in self.t.ever_current), None)

    def _fractured(self, o: Operation, rows: list[Row], key: int | None, floor: int, ceiling: int) -> Anomaly:
        text = (
            f"the {explain.operation(o)}, invoked at {explain.ms(o.start)} and {explain.outcome(o)}, equals no state that the table ever "
            "had, though each of its rows was committed."
        )
        self.fractured += 1
        if self.fractured > _MOST_EXPLAINED:
            return self.make("fractured-read", text, o, rows, key, [], [])
        p, more, less = self._nearest(Counter(rows), key, floor, ceiling)
        text += (
            f" The nearest possible state is {self._state(p)}; compared with it, the read has {explain.rows(more)} too much and "
            f"lacks {explain.rows(less)}."
        )
        commits: list[Commit | None] = []
        for r in [*more, *less][: explain.MOST_IN_A_SENTENCE]:
            life = self._life(r)
            if life is not None:
                text += f" {explain.row(r)} was there {life}."
                commits += self._lives[r]
        makers = [self.t.everything.get(c.op or "") for c in commits if c is not None]
        return self.make("fractured-read", text, o, [*more, *less], key, commits, makers)

    def _nearest(
        self, rows: Counter[Row], key: int | None, floor: int, ceiling: int
    ) -> tuple[int, list[Row], list[Row]]:
        """The position within the bounds that differs least from ``rows``, and the extra and missing rows compared with it."""
        off = Counter(rows)  # rows read minus rows of the state
        size = sum(off.values())
        best: tuple[int, int, list[Row], list[Row]] | None = None
        cursor: int | None = None
        for p in range(ceiling + 1):
            version = self.t.versions[p]
            if p in self.states.unknown:
                continue
            for c, sign in self.states.steps(cursor, version.snapshot):
                changes = self.t.changes(c)
                assert changes is not None
                for part, way in ((changes.added, -sign), (changes.removed, sign)):
                    for r in part:
                        if key is None or r.id == key:
                            size += abs(off[r] + way) - abs(off[r])
                            off[r] += way
            cursor = version.snapshot
            if p >= floor and (best is None or size <= best[0]):
                more = sorted((+off).elements(), key=str)
                best = size, p, more, sorted((+Counter({r: -n for r, n in off.items()})).elements(), key=str)
        return (best[1], best[2], best[3]) if best is not None else (floor, sorted(rows, key=str), [])

    @cached_property
    def _lives(self) -> dict[Row, list[Commit | None]]:
        """Row → the first commit that made it, and the first that removed it (None: no commit did)."""
        out: dict[Row, list[Commit | None]] = {}
        for c in self.t.log.commits:
            changes = self.t.changes(c)
            for r in changes.added if changes is not None else ():
                out.setdefault(r, [c, None])
            for r in changes.removed if changes is not None else ():
                life = out.setdefault(r, [None, None])
                life[1] = life[1] or c
        return out

    def _life(self, row: Row) -> str | None:
        """When a row was in the table: from which snapshot to which."""
        born, died = self._lives.get(row, (None, None))
        if born is None:
            return None
        text = f"from {explain.snapshot(born)} of {explain.maker(born, self.t.everything)}"
        until = "" if died is None else f"{explain.snapshot(died)} of {explain.maker(died, self.t.everything)}"
        return text + (f" until {until}" if until else " on")

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


def rows_of(result: Any) -> list[Row] | None:
    """A read's rows; None when the result has another form."""
    if not isinstance(result, list) or not all(isinstance(r, list | tuple) and len(r) == len(COLUMNS) for r in result):
        return None
    if any(isinstance(v, list | dict) for r in result for v in r):
        return None
    return [Row._make(r) for r in result]
