"""The ``reads`` checker: did every read return a state that was committed, and one that its reader was owed?

A completed read of the whole table, or of one key, must equal the state after some commit of main. *Which* positions it equals is
looked up by a multiset hash of the rows (a sum, so it follows commits in time proportional to what they change); then real time and
session order say which of those it may have been::

    position     0 … lo … c1 … c2 … hi … n
                     │               └ the last commit whose operation was invoked before the read completed
                     └ the last commit acknowledged before the read was invoked (also its process's own), or what the process
                       read before: the read may be no older

The smallest position that fits is taken as what the process has now seen, which is the most charitable choice for its later reads.
Adya's G1a is ``dirty-read``, Jepsen's stale and non-monotonic reads and Terry's session guarantees (PDIS 1994) give the other names.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from checkers import explain
from checkers.timeline import Timeline, timelines
from checkers.verdict import Anomaly, Evidence, Validity, Verdict
from harness.history import Operation, Process
from harness.tablelog import Commit
from workloads.tables import Row, State

FULL, KEY, SNAPSHOT = "read", "read-key", "read-snapshot"
MODULUS = 1 << 128


class Reads:
    """Reads that equal no committed state, or one older than their reader was owed."""

    name = "reads"

    def check(self, evidence: Evidence) -> Verdict:
        """Anomalies ``dirty-read``, ``fractured-read``, ``phantom-value``, ``stale-read``, ``read-your-writes``,
        ``non-monotonic-read``, ``future-read``, ``vanished-read``, ``wrong-time-travel``.

        ``stats``: per table how many reads were judged, and how many could not be (``undecided``).
        """
        found, notes = timelines(evidence)
        anomalies: list[Anomaly] = []
        undecided = bool(notes)
        stats: dict[str, Any] = {"tables": {}}
        for t in found:
            judge = _Judge(t, self.name)
            judge.run()
            anomalies += judge.anomalies
            notes += [f"{t.name}: {n}" for n in judge.notes]
            undecided |= judge.undecided > 0
            stats["tables"][t.name] = {"reads": judge.judged, "undecided": judge.undecided}
        valid: Validity = False if anomalies else "unknown" if undecided else True
        return Verdict(self.name, valid, tuple(anomalies), stats, tuple(notes))


def _hash(row: Row) -> int:
    return int.from_bytes(hashlib.blake2b(repr(tuple(row)).encode(), digest_size=16).digest(), "big")


def _total(rows: Iterable[Row]) -> int:
    return sum(map(_hash, rows)) % MODULUS


@dataclass
class _States:
    """Where each state of main is: hashes of the whole table and of each key, by position, as far as commits are readable."""

    full: list[int] = field(default_factory=lambda: [0])
    by_full: dict[int, list[int]] = field(default_factory=lambda: {0: [0]})
    by_key: dict[int, list[tuple[int, int]]] = field(default_factory=dict)

    @property
    def last(self) -> int:
        """The last position whose state is known."""
        return len(self.full) - 1

    def extend(self, removed: Sequence[Row], added: Sequence[Row]) -> None:
        """The next position."""
        position = len(self.full)
        total = (self.full[-1] - _total(removed) + _total(added)) % MODULUS
        self.full.append(total)
        self.by_full.setdefault(total, []).append(position)
        for key in {r.id for r in (*removed, *added)}:
            changes = self.by_key.setdefault(key, [(0, 0)])
            delta = _total(r for r in added if r.id == key) - _total(r for r in removed if r.id == key)
            changes.append((position, (changes[-1][1] + delta) % MODULUS))

    def of_table(self, total: int) -> list[range]:
        """Positions at which the whole table has this hash."""
        return [range(p, p + 1) for p in self.by_full.get(total, ())]

    def of_key(self, key: int, total: int) -> list[range]:
        """Positions at which the key has this hash."""
        changes = self.by_key.get(key, [(0, 0)])
        ends = [p for p, _ in changes[1:]] + [self.last + 1]
        return [range(p, end) for (p, h), end in zip(changes, ends, strict=True) if h == total]


def _smallest(ranges: Sequence[range], lo: int, hi: int) -> int | None:
    """The smallest position in ``ranges`` within ``lo … hi``; None: there is none."""
    for r in ranges:
        at = max(r.start, lo)
        if at < r.stop and at <= hi:
            return at
    return None


class _Judge:
    """The reads of one table, in the order of their invocation."""

    def __init__(self, t: Timeline, checker: str) -> None:
        self.t = t
        self.checker = checker
        self.anomalies: list[Anomaly] = []
        self.notes: list[str] = []
        self.judged = 0
        self.undecided = 0
        self.states = _States()
        self._seen: dict[Process, tuple[int, Operation]] = {}
        self._rows_ever: Counter[Row] = Counter()

    def run(self) -> None:
        """Judge all completed reads."""
        reads = [o for o in self.t.ops if o.f in (FULL, KEY, SNAPSHOT) and o.type == "ok"]
        if not self.t.rooted:
            self.undecided = len(reads)
            self.notes.append("main is not known down to its root, so no state is: reads were not judged")
            return
        self._walk()
        for o in reads:
            if o.f == SNAPSHOT:
                self._time_travel(o)
            else:
                self._read(o)

    def _walk(self) -> None:
        for c in self.t.main:
            changes = self.t.changes(c)
            if changes is None:
                self.notes.append(
                    f"the rows of {explain.snapshot(c)} are not known: reads after it were judged as far as possible"
                )
                break
            self.states.extend(changes.removed, changes.added)
            self._rows_ever.update(changes.added)
        invoked = [self.t.everything[c.op].invoked.index if c.op in self.t.everything else -1 for c in self.t.main]  # type: ignore[index]
        latest = -1
        self._invoked: list[int] = []
        for i in invoked:
            latest = max(latest, i)
            self._invoked.append(latest)

    # --- reads of the present

    def _read(self, o: Operation) -> None:
        assert o.completed is not None
        rows = _rows(o.result)
        if rows is None:
            self._malformed(o)
            return
        key = o.value.get("id") if o.f == KEY and isinstance(o.value, dict) else None
        ranges = self.states.of_table(_total(rows)) if key is None else self.states.of_key(key, _total(rows))
        if key is not None and any(r.id != key for r in rows):
            ranges = []
        settled = self.t.settled(o.invoked.index)
        floor, before = self._seen.get(o.process, (0, None))
        hi = bisect_left(self._invoked, o.completed.index)  # positions up to hi were invoked before the read completed
        at = _smallest(ranges, max(settled, floor), hi)
        if at is not None:
            self.judged += 1
            self._seen[o.process] = (at, o)
            return
        if o.completed.time >= self.t.seen_until or (self.states.last < len(self.t.main) and hi > self.states.last):
            self.undecided += 1  # it may have seen a commit that the log does not have, or whose rows are not known
            return
        self.judged += 1
        best = max((min(r.stop - 1, hi) for r in ranges if r.start <= hi), default=None)
        if not ranges:
            self._no_state(o, rows, key, settled)
        elif best is None:
            self._future(o, ranges[0].start)
        elif best < settled:
            self._stale(o, best, settled)
        else:
            assert before is not None
            self._backwards(o, best, before, floor)

    def _add(
        self, name: str, o: Operation, text: str, commits: Iterable[Commit] = (), keys: Iterable[int] = (), **more: Any
    ) -> None:
        made = list(commits)
        others = [self.t.everything[c.op] for c in made if c.op is not None and c.op in self.t.everything]
        ops = [o, *more.pop("ops", ()), *others]
        unique = {x.op: x for x in ops}
        self.anomalies.append(
            Anomaly(
                name,
                self.checker,
                self.t.name,
                text,
                ops=tuple(unique),
                events=tuple(sorted({i for x in unique.values() for i in x.indices})),
                snapshots=tuple(dict.fromkeys(c.snapshot_id for c in made)),
                keys=tuple(sorted(set(keys))),
                evidence=more,
            )
        )

    def _at(self, position: int) -> str:
        if position == 0:
            return "the empty table"
        return f"the state after {explain.snapshot(self.t.main[position - 1])}"

    def _stale(self, o: Operation, best: int, settled: int) -> None:
        missed = self._acknowledged(o, best)
        owner = self.t.everything[missed.op] if missed.op is not None else None
        assert owner is not None
        name = "read-your-writes" if owner.process == o.process else "stale-read"
        whose = "its own process's" if owner.process == o.process else "the"
        self._add(
            name,
            o,
            f"the {explain.operation(o)}, invoked at {explain.ms(o.start)}, returned {self._at(best)} at the newest, although {whose} "
            f"{explain.operation(owner)} had been {explain.outcome(owner)}, before the read began, and its "
            f"{explain.snapshot(missed)} comes later on main ({settled - best} commits that were certain by then are missing).",
            [missed],
            _keys(o),
        )

    def _acknowledged(self, o: Operation, best: int) -> Commit:
        """A commit after position ``best`` that was acknowledged before ``o`` began; its process's own where there is one."""
        found = [
            c
            for c in self.t.main[best:]
            if c.op in self.t.everything
            and (w := self.t.everything[c.op]).type == "ok"  # type: ignore[index]
            and w.completed is not None
            and w.completed.index < o.invoked.index
        ]
        own = [c for c in found if self.t.everything[c.op].process == o.process]  # type: ignore[index]
        return (own or found)[-1]

    def _backwards(self, o: Operation, best: int, before: Operation, floor: int) -> None:
        self._add(
            "non-monotonic-read",
            o,
            f"the {explain.operation(o)}, invoked at {explain.ms(o.start)}, returned {self._at(best)} at the newest, although the same "
            f"process's {explain.operation(before)}, {explain.outcome(before)}, had seen {self._at(floor)} at the oldest.",
            [self.t.main[floor - 1]] if floor else [],
            _keys(o),
            ops=[before],
        )

    def _future(self, o: Operation, position: int) -> None:
        c = self.t.main[position - 1]
        owner = self.t.everything.get(c.op or "")
        when = f", which was invoked only at {explain.ms(owner.start)}" if owner is not None else ""
        self._add(
            "future-read",
            o,
            f"the {explain.operation(o)}, {explain.outcome(o)}, returned {self._at(position)}, made by "
            f"{explain.maker(c, self.t.everything)}{when}: after the read had completed.",
            [c],
            _keys(o),
        )

    def _no_state(self, o: Operation, rows: list[Row], key: int | None, settled: int) -> None:
        nearest = self._state(min(settled, self.states.last))
        there = Counter(nearest.rows() if key is None else nearest.by_id(key))
        got = Counter(rows)
        extra, missing = list((got - there).elements()), list((there - got).elements())
        difference = (
            f"Compared with {self._at(min(settled, self.states.last))}, which it could not be older than, it has {explain.rows(extra)} "
            f"too many and {explain.rows(missing)} too few."
        )
        told = f"the {explain.operation(o)}, {explain.outcome(o)}, returned {len(rows)} rows that are no committed state of the table"
        keys = {r.id for r in (*extra, *missing)}
        if any(self._matches(v, rows, key) for v in self._dropped()):
            self._add(
                "vanished-read",
                o,
                f"{told}'s main as it is now, but of snapshots that main was later moved back below. {difference}",
                (),
                keys,
            )
            return
        foreign = [r for r in extra if r not in self._rows_ever]
        if not foreign:
            self._add(
                "fractured-read",
                o,
                f"{told}: each of its rows was committed, but never together. {difference}",
                (),
                keys,
            )
            return
        writers = [w for r in foreign for w in self._never_applied(r)]
        if writers:
            w = writers[0]
            self._add(
                "dirty-read",
                o,
                f"{told}: {explain.row(foreign[0])} was written by the {explain.operation(w)}, {explain.outcome(w)}, which has no "
                f"snapshot on main. {difference}",
                (),
                keys,
                ops=[w],
            )
        else:
            self._add(
                "phantom-value", o, f"{told}: no commit ever made {explain.row(foreign[0])}. {difference}", (), keys
            )

    def _never_applied(self, row: Row) -> list[Operation]:
        """Operations that the row names (in ``val`` or ``log``) and that have no commit on main."""
        names = dict.fromkeys([str(row.val), *str(row.log).split(",")])
        ops = [self.t.everything[n] for n in names if n in self.t.everything]
        return [o for o in ops if o.table == self.t.name and not self.t.on_main(o.op)]

    def _dropped(self) -> list[int]:
        return [v.snapshot for v in self.t.versions if v.snapshot is not None and v.snapshot not in self.t.position]

    def _matches(self, snapshot: int, rows: list[Row], key: int | None) -> bool:
        state = self._of_snapshot(snapshot)
        return state is not None and (state.rows() if key is None else state.by_id(key)) == sorted(rows)

    def _state(self, position: int) -> State:
        state = State()
        for c in self.t.main[:position]:
            changes = self.t.changes(c)
            assert changes is not None
            state.apply(changes.removed, changes.added)
        return state

    # --- reads of the past

    def _of_snapshot(self, snapshot: int) -> State | None:
        """The state of any snapshot; None when it, or one below it, is not known."""
        chain = list(self.t.ancestors(snapshot))
        if not chain or chain[-1].parent_id is not None:
            return None
        state = State()
        for c in reversed(chain):
            changes = self.t.changes(c)
            if changes is None:
                return None
            try:
                state.apply(changes.removed, changes.added)
            except KeyError:
                return None
        return state

    def _time_travel(self, o: Operation) -> None:
        result = o.result if isinstance(o.result, dict) else {}
        snapshot, rows = result.get("snapshot"), _rows(result.get("rows"))
        if not isinstance(snapshot, int) or rows is None:
            self._malformed(o)
            return
        position = self.t.position.get(snapshot)
        if position is not None and position <= self.states.last and self.states.full[position] == _total(rows):
            self.judged += 1
            return
        state = self._of_snapshot(snapshot)
        if state is None:
            self.undecided += 1
            return
        self.judged += 1
        if state.rows() == sorted(rows):
            return
        there, got = Counter(state.rows()), Counter(rows)
        extra, missing = list((got - there).elements()), list((there - got).elements())
        c = self.t.snapshots[snapshot]
        self._add(
            "wrong-time-travel",
            o,
            f"the {explain.operation(o)}, {explain.outcome(o)}, asked for {explain.snapshot(c)} and got rows that this snapshot does not "
            f"have: {explain.rows(extra)} too many, {explain.rows(missing)} too few.",
            [c],
            {r.id for r in (*extra, *missing)},
        )

    def _malformed(self, o: Operation) -> None:
        self.undecided += 1
        self.notes.append(f"the result of {o.op} is not a list of rows of the table's columns")


def _keys(o: Operation) -> list[int]:
    return [o.value["id"]] if isinstance(o.value, dict) and isinstance(o.value.get("id"), int) else []


def _rows(result: Any) -> list[Row] | None:
    """The rows of a result; None when it is not a list of rows."""
    if not isinstance(result, list) or any(not isinstance(r, list) or len(r) != len(Row._fields) for r in result):
        return None
    if any(isinstance(v, list | dict) for r in result for v in r):
        return None
    return [Row(*r) for r in result]
