"""One table's conflicts: which commits were tried again, which operations a concurrent commit aborted, and which commit that was.

**Conflict pairs.** An aborted operation can only conflict with commits that became current between its scan and its end. Of
these the best guess is, in this order:

====== ======================================================================================================================
named  the error message names a file that the commit added or removed ("Found conflicting files …: [path]"): no guess at all
rows   the commit changed rows with keys that the operation reads or writes, by its meaning at a state it can have scanned
part   the commit touched partitions that these keys are in (partitioned tables only)
time   the commit was concurrent
====== ======================================================================================================================

**Spurious aborts.** An abort was needed if the concurrent commits changed the operation's meaning, the rows that it removes and adds. It
was spurious if the meaning is the same at every state between its scan and its abort: the operation would have had the same effect on
each of them. (Iceberg validates files and partitions, not rows: that is the price of not reading data at commit.) Procedures change
no rows, so they are not counted.

A concurrent commit makes each engine give up in its own words (``Engine.conflict``).
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Any

from checkers.evidence.history import Operation
from checkers.evidence.outcome import conflict_of
from checkers.evidence.proxylog import Carried
from checkers.evidence.tableformat import format_of
from checkers.evidence.tablelog import Commit
from checkers.timeline.netrows import NetRows
from checkers.timeline.timeline import Timeline, kind_of
from checkers.timeline.touched import touches
from workloads import backoff
from workloads.engines.engines import SPARK
from workloads.operations.kind import NOTHING, Touches
from workloads.tables import Row, State

EXHAUSTED = "CommitFailedException"
_PATH = re.compile(r"[^\s,\[\]()'\"]+\.(?:parquet|puffin|orc|avro)\b")


def took_ns(o: Operation) -> int:
    """How long an operation took, ns."""
    return 0 if o.completed is None else o.completed.time - o.start


def _writer(o: Operation, writers: object) -> str:
    """The writer of an operation, from its id (``w3-17``), else from its process: a writer continues as
    ``process + writers`` after an operation of unknown outcome."""
    if named := re.fullmatch(r"(w\d+)-\d+", o.op):
        return named[1]
    if isinstance(o.process, int) and isinstance(writers, int) and not isinstance(writers, bool) and writers > 0:
        return f"w{o.process % writers}"
    return str(o.process)


@dataclass(frozen=True)
class WorkloadFigures:
    """The operations of the workload's phases, on all tables."""

    operations: Sequence[Operation]

    @cached_property
    def ids(self) -> frozenset[str]:
        """All of them."""
        return frozenset(o.op for o in self.operations)

    @cached_property
    def of_spark(self) -> frozenset[str]:
        """Those that Spark executed."""
        return frozenset([o.op for o in self.operations if o.invoked.extra.get("engine", SPARK) == SPARK])

    @cached_property
    def of_table(self) -> dict[str | None, set[str]]:
        """Table → its operations; one on two tables counts for its first table."""
        out: dict[str | None, set[str]] = {}
        for o in self.operations:
            out.setdefault(o.table, set()).add(o.op)
        return out


@dataclass(frozen=True)
class TableConflicts:
    """One table's conflicts."""

    timeline: Timeline
    workload: WorkloadFigures

    @cached_property
    def commits(self) -> tuple[tuple[Operation, Commit], ...]:
        """Commits on main with their operations."""
        t = self.timeline
        return tuple(
            (t.everything[c.op], c)
            for c in t.main
            if c.op is not None and c.op in self.workload.ids and c.op in t.everything
        )

    @cached_property
    def aborted(self) -> tuple[Operation, ...]:
        """Operations that a concurrent commit aborted; one on two tables counts for its first table."""
        own = self.workload.of_table.get(self.timeline.name, set())
        return tuple(o for o in self.timeline.ops if o.op in own and conflict_of(o) is not None)

    @cached_property
    def notes(self) -> list[str]:
        """What could not be measured."""
        if self.aborted and self.states is None:
            return [
                "the rows of main are not all known, so conflicts were guessed by time, and no abort was judged spurious"
            ]
        return []

    # --- backoff

    def _waits(self, metadata: int, retries: int) -> float:
        """Ms that so many retries wait, by the table's properties at a metadata version."""
        return sum(self.wait(n, metadata) for n in range(min(retries, 1000)))

    def wait(self, refusals: int, metadata: int | None = None) -> float:
        """Ms that an operation waits that was refused once more after so many times, by the properties at a metadata version (the last)."""
        versions = self.timeline.log.metadata
        version = max(0, min(len(versions) if metadata is None else metadata, len(versions)) - 1)
        if version not in self._limits:
            properties = versions[version].properties if versions else {}
            self._limits[version] = format_of(self.timeline.log).backoff(properties)
        own = self._limits[version]
        return 1.05 * min(own.min_wait_ms * (1 << min(refusals, 40)), own.max_wait_ms)

    @cached_property
    def _limits(self) -> dict[int, backoff.RetryLimits]:
        """Place of a metadata version → when a client tries again by its properties; of those that were asked for."""
        return {}

    @cached_property
    def backoff_of_commits(self) -> float:
        return sum(
            self._waits(c.metadata, c.attempt - 1)
            for o, c in self.commits
            if c.attempt is not None and c.attempt > 1 and o.engine == SPARK
        )

    @cached_property
    def backoff_of_exhausted(self) -> float:
        versions = self.timeline.log.metadata
        retries = format_of(self.timeline.log).backoff(versions[-1].properties if versions else {}).num_retries
        return sum(
            # commit.retry.total-timeout-ms can have ended them before
            min(self._waits(len(versions), retries), took_ns(o) / 1e6)
            for o in self.aborted
            if o.engine == SPARK and conflict_of(o) == EXHAUSTED
        )

    # --- who aborted whom

    def window(self, o: Operation) -> tuple[int, int]:
        """The position on main certainly reached before its invocation, and the highest one possibly reached before its end."""
        assert o.completed is not None
        first = self.timeline.settled(o.invoked.index)
        return first, max(first, self._reached(o.completed.index))

    @cached_property
    def _invoked(self) -> list[int]:
        """Position - 1 → index of the event that invoked its commit; -1 if unknown."""
        made = (self.timeline.everything.get(c.op or "") for c in self.timeline.main)
        return [-1 if o is None else o.invoked.index for o in made]

    @cached_property
    def _invoked_by(self) -> list[int]:
        """Position - 1 → the last of the events up to there that invoked a commit."""
        return [*accumulate(self._invoked, max)]

    def _reached(self, event: int) -> int:
        return bisect_right(self._invoked_by, event)

    def concurrent(self, o: Operation) -> list[Commit]:
        """Commits that may have become current between the operation's scan and its end."""
        first, last = self.window(o)
        return [c for c in self.timeline.main[first:last] if c.op != o.op]

    def culprits(self, o: Operation) -> tuple[str, list[Commit]]:
        """The commits that most likely aborted it, and the reason for the guess; see the module's docstring."""
        candidates = self.concurrent(o)
        named = self._named(o, candidates)
        if named:
            return "named", named
        footprint = self.footprints.get(o.op)
        if footprint is not None:
            rows = [c for c in candidates if self._keys(c) & footprint.keys]
            if rows:
                return "rows", rows
            if self.timeline.spec.partitioned:
                parts = [c for c in candidates if self._parts(c) & footprint.parts]
                if parts:
                    return "part", parts
        return "time", candidates

    def _named(self, o: Operation, candidates: Sequence[Commit]) -> list[Commit]:
        paths = {_tail(p) for _, *m in o.error or () for text in m for p in _PATH.findall(text)}
        if not paths:
            return []
        return [c for c in candidates if any(_tail(f.path) in paths for f in (*c.added_files, *c.removed_files))]

    def _keys(self, c: Commit) -> frozenset[int]:
        changes = self.timeline.changes(c)
        return frozenset() if changes is None else frozenset(r.id for part in changes for r in part)

    def _parts(self, c: Commit) -> frozenset[Any]:
        return frozenset(f.partition.get("part") for f in (*c.added_files, *c.removed_files))

    # --- what they meant

    @cached_property
    def states(self) -> Sequence[Commit] | None:
        """Main's commits from the empty table on if all their rows are known, else None."""
        t = self.timeline
        if not t.rooted or any(t.changes(c) is None for c in t.main):
            return None
        return t.main

    @cached_property
    def _meanings(self) -> tuple[dict[str, _Footprint], dict[str, bool]]:
        """Operation → what it touches at the states that it may have scanned; and whether its meaning is the same at all of them."""
        t = self.timeline
        starts: dict[int, list[Operation]] = {}
        windows = {o.op: self.window(o) for o in self.aborted}
        for o in self.aborted:
            starts.setdefault(windows[o.op][0], []).append(o)
        footprints: dict[str, _Footprint] = {}
        same: dict[str, bool] = {}
        seen: dict[str, tuple[list[Row], list[Row]]] = {}
        if self.states is None:
            return footprints, same
        active: list[Operation] = []
        asks = {o.op: touches(o, t.spec) for o in self.aborted}
        for k, state, changes in self._walk():
            active = [o for o in active if windows[o.op][1] >= k] + starts.get(k, [])
            for o in active:
                kind, asked = kind_of(o), asks[o.op]
                if kind is None or not kind.writes:
                    continue
                if o.op in footprints and asked is not None and not _concerned(asked, changes):
                    continue  # it means what it meant one state before
                want = t.meaning(o, state)
                if want is None:
                    continue
                footprint = footprints.setdefault(o.op, _Footprint(set(), set()))
                rows = [*want.removed, *want.added]
                footprint.keys.update(r.id for r in rows)
                footprint.parts.update(r.part for r in rows)
                about = asked or NOTHING
                footprint.keys.update(about.named)
                footprint.parts.update(about.among or about.parts)
                if not kind.changes_rows:
                    continue
                now = (sorted(want.removed), sorted(want.added))
                same[o.op] = same.get(o.op, True) and seen.setdefault(o.op, now) == now
        return footprints, same

    def _walk(self) -> Iterator[tuple[int, State, NetRows]]:
        """Position, state, and what changed before, from the empty table on; the state is one object that changes."""
        state = State()
        yield 0, state, NetRows((), ())
        for k, c in enumerate(self.timeline.main, 1):
            changes = self.timeline.changes(c)
            assert changes is not None
            try:
                state.apply(*changes)
            except KeyError:  # the log contradicts itself; ``replay`` reports where
                return
            yield k, state, changes

    @property
    def footprints(self) -> dict[str, _Footprint]:
        """Operation → keys and partitions that it touches."""
        return self._meanings[0]

    def needless(self) -> list[tuple[Operation, bool]]:
        """Aborted operations that can be judged, and whether their meaning never changed."""
        return [(o, self._meanings[1][o.op]) for o in self.aborted if o.op in self._meanings[1]]


@dataclass(frozen=True)
class RetriesPart:
    """What one table adds to the statistics.

    Attributes:
        attempts: (attempt, kind, writer) → commits on main.
        retried: commits that needed more than one attempt; ``wasted``: the attempts thrown away before them.
        aborted: operations that a conflict aborted; ``aborted_ns``: how long they took.
        exceptions: class → such operations; ``pairs``: (aborted, by, exception, because) → how often; ``unexplained``: as in the statistics.
        backoff_of_commits, backoff_of_exhausted: ms.
        retry_ms: ms of each retry that proxies saw.
        judged, spurious: kind → aborted operations.
        notes: without the table's name.
    """

    table: str
    attempts: Counter[tuple[int, str, str]]
    retried: int
    wasted: int
    aborted: int
    aborted_ns: int
    exceptions: Counter[str]
    pairs: Counter[tuple[str, str, str, str]]
    unexplained: int
    backoff_of_commits: float
    backoff_of_exhausted: float
    retry_ms: list[float]
    judged: Counter[str]
    spurious: Counter[str]
    notes: tuple[str, ...]


def part_of(timeline: Timeline, workload: WorkloadFigures, carried: Sequence[Carried], writers: object) -> RetriesPart:
    """What a table adds; ``writers``: their number by the history's header."""
    t = TableConflicts(timeline, workload)
    attempts: Counter[tuple[int, str, str]] = Counter()
    for o, c in t.commits:
        if c.attempt:
            attempts[c.attempt, o.f, _writer(o, writers)] += 1
    more = [c.attempt for _, c in t.commits if c.attempt is not None and c.attempt > 1]
    exceptions: Counter[str] = Counter()
    pairs: Counter[tuple[str, str, str, str]] = Counter()
    unexplained = 0
    for o in t.aborted:
        exception = conflict_of(o) or ""
        exceptions[exception] += 1
        because, commits = t.culprits(o)
        unexplained += not commits
        for c in commits:
            maker = timeline.everything.get(c.op or "")
            pairs[o.f, "(unknown)" if maker is None else maker.f, exception, because] += 1
    judged, spurious = Counter[str](), Counter[str]()
    for o, needless in t.needless():
        judged[o.f] += 1
        spurious[o.f] += needless
    return RetriesPart(
        timeline.name,
        attempts,
        len(more),
        sum(more) - len(more),
        len(t.aborted),
        sum(map(took_ns, t.aborted)),
        exceptions,
        pairs,
        unexplained,
        t.backoff_of_commits,
        t.backoff_of_exhausted,
        _retry_ms(t, carried),
        judged,
        spurious,
        tuple(t.notes),
    )


def _retry_ms(t: TableConflicts, carried: Sequence[Carried]) -> list[float]:
    spark = t.workload.of_spark
    asked: dict[tuple[str, tuple[int, ...]], list[Carried]] = {}
    for request in carried:
        if request.op in spark:  # a retry keeps the snapshot's id (SnapshotProducer.snapshotId)
            asked.setdefault((request.op, request.adds), []).append(request)
    took: list[float] = []
    for requests in asked.values():
        for n, (refused, retry) in enumerate(pairwise(requests)):
            if not refused.accepted and refused.ms is not None:
                took.append((retry.time - refused.time) / 1e6 - refused.ms - t.wait(n))
    return took


@dataclass(frozen=True, slots=True)
class _Footprint:
    keys: set[int]
    parts: set[int]


def _concerned(asked: Touches, changes: NetRows) -> bool:
    """Whether rows changed that an operation reads or changes."""
    named, among = asked.named, asked.among
    if among is None:
        return True
    return any(r.id in named or r.part in among for rows in changes for r in rows)


def _tail(path: str) -> str:
    return path.rpartition("/")[2]
