"""The ``retries`` checker: the cost of concurrency. It only measures; the workload file sets the limits (``assert:``).

Optimistic concurrency pays for a conflict twice: the losing writer retries (``CommitFailedException``: the base moved, the changes
still apply) or gives up (``ValidationException``: they no longer apply), and its work is lost. Who aborted whom, how
often, and at what cost is what users tune: ``commit.retry.*``, isolation level, partitioning, when to compact.

**Attempts** of a commit that won are in the name of its manifest list, ``snap-<id>-<attempt>-<uuid>.avro``, for every catalog
(``SnapshotProducer.manifestListPath``); the attempts of an aborted operation are not recorded anywhere. Engines with another library do
not count there (DuckDB has no number, PyIceberg always 0): theirs are the commit requests that proxies saw; without proxies their
commits are left out.

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

**Backoff** is not recorded; for Spark's operations it is computed from ``commit.retry.*`` in the table's metadata: ``min-wait · 2^(n-1)``
up to ``max-wait`` before try n+1, plus a jitter of up to 10 % (``util/Tasks.java``); half the jitter is counted. An operation that used up its
retries waited no longer than it took.

**The work of a retry** is the time from the answer that refused a commit to the operation's next commit request, less that wait: the writer
refreshes, validates, and writes the metadata again. Proxies before a REST catalog see both requests.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Any, TypedDict

import numpy as np

from checkers.evidence.evidence import Evidence
from checkers.evidence.history import NS_PER_S, Operation
from checkers.evidence.outcome import conflict_of
from checkers.evidence.proxylog import Carried
from checkers.evidence.tableformat import format_of
from checkers.evidence.tablelog import Commit
from checkers.timeline import fault_windows
from checkers.timeline.metrics import Metrics, MetricsPart, measure, metrics_of_columns, quantile
from checkers.timeline.operation_columns import AROUND, Bools, OperationColumns
from checkers.timeline.timeline import NetRows, Timeline, kind_of, meaning
from checkers.timeline.timelines import timelines
from checkers.timeline.touched import touches
from checkers.unit import RunChecker, RunColumns, Unit
from checkers.verdict import Verdict
from workloads import backoff
from workloads.engines.engines import SPARK
from workloads.operations.kind import NOTHING, Touches
from workloads.tables import Row, State

QUANTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "max": 1.0}
EXHAUSTED = "CommitFailedException"
_PATH = re.compile(r"[^\s,\[\]()'\"]+\.(?:parquet|puffin|orc|avro)\b")


class AttemptCounts(TypedDict):
    """Number of attempts, as a string → commits on main that needed so many: all, and by the name of what they belong to."""

    total: dict[str, int]
    by_table: dict[str, dict[str, int]]
    by_kind: dict[str, dict[str, int]]
    by_writer: dict[str, dict[str, int]]


class ConflictPair(TypedDict):
    """``count`` times an operation of kind ``aborted`` was aborted, most likely by one of kind ``by``; see the module's text."""

    table: str
    aborted: str
    by: str
    exception: str
    because: str
    """``named``, ``rows``, ``part`` or ``time``."""
    count: int


class ConflictCounts(TypedDict):
    """Operations that a concurrent commit aborted."""

    aborted: dict[str, int]
    """Exception class → operations."""
    pairs: list[ConflictPair]
    """The most frequent first."""
    unexplained: int
    """Operations that no commit of the log can have aborted."""


class RetrySuccess(TypedDict):
    """What became of the operations that met a conflict."""

    committed: int
    aborted: int
    rate: float | None
    """The share that committed in the end, 0 … 1."""


class BackoffTimes(TypedDict):
    """What retries waited, ms: of commits, and of operations that used up their retries."""

    committed: float
    exhausted: float


class RetryWork(TypedDict):
    """What retries of Spark's operations took beside their waits; see the module's text."""

    retries: int
    """Those that proxies before a REST catalog saw."""
    ms: dict[str, float]
    """Name of a quantile (:data:`QUANTILES`) → ms."""


class WastedWork(TypedDict):
    """The price of conflicts."""

    seconds: float
    """Of operations that a conflict aborted."""
    share: float | None
    """Of all seconds that writers worked, 0 … 1."""
    attempts: int
    """Thrown away before commits that won."""
    bytes: None
    """Not known: the log does not have files that were never committed."""


class SpuriousOfKind(TypedDict):
    """Aborted operations of one kind that could be judged, and those of them whose abort was spurious."""

    judged: int
    spurious: int


class SpuriousAborts(TypedDict):
    """Aborted operations, those that could be judged, and those of them whose abort was spurious."""

    aborted: int
    judged: int
    spurious: int
    by_kind: dict[str, SpuriousOfKind]


class Throughput(TypedDict):
    """Acknowledged operations in a part of the run."""

    seconds: float
    """How long that part is."""
    acknowledged: int
    per_second: float | None
    latency_ms: dict[str, dict[str, float]]
    """``read`` or ``write`` → name of a quantile (:data:`QUANTILES`) → ms."""


class FaultsStats(TypedDict):
    """Throughput while faults were on and while none was. An operation is inside when one was on at any time while it was under way."""

    windows: int
    """Times in which a fault was on."""
    inside: Throughput
    outside: Throughput


class RetriesStats(TypedDict):
    """What the checker measured; rates and shares are null where there is nothing to measure."""

    metrics: Metrics
    """What ``assert:`` may compare (``checkers.judge.assertions``)."""
    attempts: AttemptCounts
    conflicts: ConflictCounts
    success: RetrySuccess
    backoff_ms: BackoffTimes
    retry_work: RetryWork
    wasted: WastedWork
    spurious: SpuriousAborts
    faults: FaultsStats


class Retries(RunChecker):
    """Attempts, conflicts, spurious aborts, wasted work, throughput and latency. Always valid."""

    name = "retries"
    stats_type = RetriesStats
    names: frozenset[str] = frozenset()

    def check(self, evidence: Evidence) -> Verdict:
        """No anomalies. ``stats``: :class:`RetriesStats`."""
        found, notes = timelines(evidence)
        operations = [
            o
            for o in evidence.history.operations()
            if o.completed is not None and o.invoked.extra.get("phase") not in AROUND
        ]
        workload = WorkloadFigures(operations)
        writers = evidence.history.header.get("writers")
        parts = [part_of(t, workload, evidence.carried.get(t.name, ()), writers) for t in found]
        faults = self._inside_and_outside(evidence, operations)
        return self._of(parts, measure(evidence), sum(map(_ns, operations)), faults, notes)

    def part(self, unit: Unit) -> tuple[RetriesPart, MetricsPart]:
        """What a table adds to the statistics, and to the metrics."""
        assert unit.timeline is not None and unit.log is not None
        measured = unit.measured
        mine = part_of(unit.timeline, WorkloadFigures(measured), unit.requests.carried, unit.header.get("writers"))
        return mine, MetricsPart.of(measured, unit.log)

    def whole(self, run: RunColumns, parts: Sequence[tuple[RetriesPart, MetricsPart]]) -> Verdict:
        """As :meth:`check`."""
        columns = run.columns
        metrics = metrics_of_columns([m for _, m in parts], columns)
        worked = int((columns.ended - columns.start)[columns.measured].sum())
        return self._of([p for p, _ in parts], metrics, worked, _faults(columns, run.windows))

    def _of(
        self,
        parts: Sequence[RetriesPart],
        metrics: Metrics,
        worked: int,
        faults: FaultsStats,
        notes: Sequence[str] = (),
    ) -> Verdict:
        """The verdict from what each table adds to it.

        Args:
            parts: of the tables, by name.
            metrics: of the whole run, not rounded.
            worked: ns that writers worked.
            faults: throughput with and without faults.
            notes: on tables that cannot be judged.
        """
        retried, aborted = sum(p.retried for p in parts), sum(p.aborted for p in parts)
        seconds = sum(p.aborted_ns for p in parts) / NS_PER_S
        stats: RetriesStats = {
            "metrics": _rounded(metrics),
            "attempts": self._attempts(parts),
            "conflicts": self._conflicts(parts),
            "success": {"committed": retried, "aborted": aborted, "rate": _share(retried, retried + aborted)},
            "backoff_ms": {
                "committed": round(sum(p.backoff_of_commits for p in parts), 1),
                "exhausted": round(sum(p.backoff_of_exhausted for p in parts), 1),
            },
            "retry_work": {
                "retries": sum(len(p.retry_ms) for p in parts),
                "ms": _quantiles(ms for p in parts for ms in p.retry_ms),
            },
            "wasted": {
                "seconds": round(seconds, 3),
                "share": _share(seconds, worked / NS_PER_S),
                "attempts": sum(p.wasted for p in parts),
                "bytes": None,
            },
            "spurious": self._spurious(parts),
            "faults": faults,
        }
        told = (*notes, *(f"{p.table}: {n}" for p in parts for n in p.notes))
        return Verdict(self.name, True, (), stats, told)

    @staticmethod
    def _attempts(parts: Sequence[RetriesPart]) -> AttemptCounts:
        total: Counter[int] = Counter()
        by_table: dict[str, Counter[int]] = {}
        by_kind: dict[str, Counter[int]] = {}
        by_writer: dict[str, Counter[int]] = {}
        for p in parts:
            for (attempt, f, writer), n in p.attempts.items():
                total[attempt] += n
                for groups, name in ((by_table, p.table), (by_kind, f), (by_writer, writer)):
                    if name not in groups:
                        groups[name] = Counter()
                    groups[name][attempt] += n
        return {
            "total": _histogram(total),
            "by_table": _histograms(by_table),
            "by_kind": _histograms(by_kind),
            "by_writer": _histograms(by_writer),
        }

    @staticmethod
    def _conflicts(parts: Sequence[RetriesPart]) -> ConflictCounts:
        classes = sum((p.exceptions for p in parts), Counter[str]())
        pairs = [((p.table, *pair), n) for p in parts for pair, n in p.pairs.items()]
        return {
            "aborted": dict(sorted(classes.items())),
            "pairs": [
                {"table": table, "aborted": f, "by": by, "exception": exception, "because": because, "count": n}
                for (table, f, by, exception, because), n in sorted(pairs, key=lambda x: (-x[1], x[0]))
            ],
            "unexplained": sum(p.unexplained for p in parts),
        }

    @staticmethod
    def _spurious(parts: Sequence[RetriesPart]) -> SpuriousAborts:
        judged, spurious = Counter[str](), Counter[str]()
        for p in parts:
            judged.update(p.judged)
            spurious.update(p.spurious)
        return {
            "aborted": sum(p.aborted for p in parts),
            "judged": judged.total(),
            "spurious": spurious.total(),
            "by_kind": {f: {"judged": judged[f], "spurious": spurious[f]} for f in sorted(judged)},
        }

    @staticmethod
    def _inside_and_outside(evidence: Evidence, operations: Sequence[Operation]) -> FaultsStats:
        windows = fault_windows.windows(evidence.history.events)
        start = min((o.start for o in operations), default=0)
        end = max((o.completed.time for o in operations if o.completed is not None), default=0)
        faulty = [(max(a, start), min(b, end)) for a, b in fault_windows.merged(windows) if a < end and b > start]
        within = sum(b - a for a, b in faulty)
        ok = [o for o in operations if o.type == "ok" and o.end is not None]

        def inside(o: Operation) -> bool:
            return any(a <= (o.end or o.start) and o.start <= b for a, b in faulty)

        return {
            "windows": len(windows),
            "inside": _throughput(within / NS_PER_S, [o for o in ok if inside(o)]),
            "outside": _throughput((end - start - within) / NS_PER_S, [o for o in ok if not inside(o)]),
        }


def _faults(columns: OperationColumns, windows: Sequence[fault_windows.FaultWindow]) -> FaultsStats:
    """As ``Retries._inside_and_outside``, from columns."""
    measured = columns.measured
    start = int(columns.start[measured].min()) if measured.any() else 0
    end = int(columns.ended[measured].max(initial=0))
    faulty = [(max(a, start), min(b, end)) for a, b in fault_windows.merged(windows) if a < end and b > start]
    within = sum(b - a for a, b in faulty)
    ok = measured & columns.ok
    inside = np.zeros(len(ok), np.bool_)
    last = np.where(columns.ended == 0, columns.start, columns.ended)
    for a, b in faulty:
        inside |= (last >= a) & (columns.start <= b)

    def seen(ns: int, among: Bools) -> Throughput:
        ms = {"read": columns.ms(among & columns.reads), "write": columns.ms(among & ~columns.reads)}
        return throughput(ns / NS_PER_S, {k: v for k, v in ms.items() if v})

    return {
        "windows": len(windows),
        "inside": seen(within, ok & inside),
        "outside": seen(end - start - within, ok & ~inside),
    }


def _throughput(seconds: float, acknowledged: Sequence[Operation]) -> Throughput:
    latencies: dict[str, list[float]] = {}
    for o in acknowledged:
        kind = kind_of(o)
        latencies.setdefault("write" if kind is None or kind.commits else "read", []).append(_ns(o) / 1e6)
    return throughput(seconds, latencies)


def throughput(seconds: float, latencies: Mapping[str, Sequence[float]]) -> Throughput:
    """Of a part of the run that long; ``latencies``: ``read`` or ``write`` → ms of each acknowledged operation, none is empty."""
    acknowledged = sum(map(len, latencies.values()))
    return {
        "seconds": round(seconds, 3),
        "acknowledged": acknowledged,
        "per_second": round(acknowledged / seconds, 4) if seconds > 0 else None,
        "latency_ms": {k: _quantiles(v) for k, v in sorted(latencies.items())},
    }


def _ns(o: Operation) -> int:
    return 0 if o.completed is None else o.completed.time - o.start


def _share(part: float, whole: float) -> float | None:
    return round(part / whole, 6) if whole else None


def _histogram(c: Counter[int]) -> dict[str, int]:
    return {str(k): c[k] for k in sorted(c)}


def _histograms(groups: Mapping[str, Counter[int]]) -> dict[str, dict[str, int]]:
    return {name: _histogram(c) for name, c in sorted(groups.items())}


def _quantiles(values: Iterable[float]) -> dict[str, float]:
    """Quantiles by name, ms."""
    ordered = sorted(values)
    return {name: round(v, 3) for name, q in QUANTILES.items() if (v := quantile(ordered, q)) is not None}


def _rounded(m: Metrics) -> Metrics:
    return {
        **m,
        "ok_rate": _six_digits(m["ok_rate"]),
        "abort_rate": _six_digits(m["abort_rate"]),
        "unknown_rate": _six_digits(m["unknown_rate"]),
        "retry_rate": _six_digits(m["retry_rate"]),
        "latency_p50_ms": _six_digits(m["latency_p50_ms"]),
        "latency_p99_ms": _six_digits(m["latency_p99_ms"]),
    }


def _six_digits(v: float | None) -> float | None:
    return None if v is None else round(v, 6)


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
class _Table:
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
        at = max(0, min(len(versions) if metadata is None else metadata, len(versions)) - 1)
        if at not in self._limits:
            said = versions[at].properties if versions else {}
            self._limits[at] = format_of(self.timeline.log).backoff(said)
        own = self._limits[at]
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
            min(self._waits(len(versions), retries), _ns(o) / 1e6)
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
                want = meaning(o, state, t.spec)
                if want is None:
                    continue
                mine = footprints.setdefault(o.op, _Footprint(set(), set()))
                rows = [*want.removed, *want.added]
                mine.keys.update(r.id for r in rows)
                mine.parts.update(r.part for r in rows)
                about = asked or NOTHING
                mine.keys.update(about.named)
                mine.parts.update(about.among or about.parts)
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
    t = _Table(timeline, workload)
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
        sum(map(_ns, t.aborted)),
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


def _retry_ms(t: _Table, carried: Sequence[Carried]) -> list[float]:
    spark = t.workload.of_spark
    asked: dict[tuple[str, tuple[int, ...]], list[Carried]] = {}
    for request in carried:
        if request.op in spark:  # a retry keeps the snapshot's id (SnapshotProducer.snapshotId)
            asked.setdefault((request.op, request.adds), []).append(request)
    took: list[float] = []
    for requests in asked.values():
        for n, (refused, again) in enumerate(pairwise(requests)):
            if not refused.accepted and refused.ms is not None:
                took.append((again.time - refused.time) / 1e6 - refused.ms - t.wait(n))
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
