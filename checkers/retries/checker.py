"""The ``retries`` checker: the cost of concurrency. It only measures; the workload file sets the limits (``assert:``).

Optimistic concurrency pays for a conflict twice: the losing writer retries (``CommitFailedException``: the base moved, the changes
still apply) or gives up (``ValidationException``: they no longer apply), and its work is lost. Who aborted whom, how
often, and at what cost is what users tune: ``commit.retry.*``, isolation level, partitioning, when to compact.

**Attempts** of a commit that won are in the name of its manifest list, ``snap-<id>-<attempt>-<uuid>.avro``, for every catalog
(``SnapshotProducer.manifestListPath``); the attempts of an aborted operation are not recorded anywhere. Engines with another library do
not count there (DuckDB has no number, PyIceberg always 0): theirs are the commit requests that proxies saw; without proxies their
commits are left out.

**Who aborted whom**, and which aborts were spurious: :mod:`checkers.retries.conflicts`.

**Backoff** is not recorded; for Spark's operations it is computed from ``commit.retry.*`` in the table's metadata: ``min-wait · 2^(n-1)``
up to ``max-wait`` before try n+1, plus a jitter of up to 10 % (``util/Tasks.java``); half the jitter is counted. An operation that used up its
retries waited no longer than it took.

**The work of a retry** is the time from the answer that refused a commit to the operation's next commit request, less that wait: the writer
refreshes, validates, and writes the metadata again. Proxies before a REST catalog see both requests.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TypedDict

import numpy as np

from checkers.evidence.evidence import Evidence
from checkers.evidence.history import NS_PER_S, Operation
from checkers.retries.conflicts import RetriesPart, WorkloadFigures, part_of, took_ns
from checkers.timeline import fault_windows
from checkers.timeline.metrics import Metrics, MetricsPart, measure, metrics_of_columns, quantile
from checkers.timeline.operation_columns import AROUND, Bools, OperationColumns
from checkers.timeline.timeline import kind_of
from checkers.timeline.timelines import timelines
from checkers.unit import RunChecker, RunColumns, Unit
from checkers.verdict import Verdict

QUANTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "max": 1.0}


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
        return self._verdict(parts, measure(evidence), sum(map(took_ns, operations)), faults, notes)

    def part(self, unit: Unit) -> tuple[RetriesPart, MetricsPart]:
        """What a table adds to the statistics, and to the metrics."""
        assert unit.timeline is not None and unit.log is not None
        measured = unit.measured
        figures = part_of(unit.timeline, WorkloadFigures(measured), unit.requests.carried, unit.header.get("writers"))
        return figures, MetricsPart.of(measured, unit.log)

    def whole(self, run: RunColumns, parts: Sequence[tuple[RetriesPart, MetricsPart]]) -> Verdict:
        """As :meth:`check`."""
        columns = run.columns
        metrics = metrics_of_columns([m for _, m in parts], columns)
        worked = int((columns.ended - columns.start)[columns.measured].sum())
        return self._verdict([p for p, _ in parts], metrics, worked, _faults(columns, run.windows))

    def _verdict(
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
        sentences = (*notes, *(f"{p.table}: {n}" for p in parts for n in p.notes))
        return Verdict(self.name, True, (), stats, sentences)

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
                {"table": table, "aborted": f, "by": winner, "exception": exception, "because": because, "count": n}
                for (table, f, winner, exception, because), n in sorted(pairs, key=lambda x: (-x[1], x[0]))
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
        latencies.setdefault("write" if kind is None or kind.commits else "read", []).append(took_ns(o) / 1e6)
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
