"""The metrics that ``assert:`` compares, and the only definition of a quantile."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from typing import TypedDict

from checkers.evidence.evidence import Evidence
from checkers.evidence.history import Operation
from checkers.evidence.outcome import conflict_of
from checkers.evidence.tablelog import TableLog
from checkers.timeline.operation_columns import OperationColumns
from workloads.operations.kinds import KINDS


class Metrics(TypedDict):
    """What a run measured: the metrics of ``workloads.file.assertions.METRICS``.

    Rates are 0 … 1, latencies ms, from invocation to acknowledgement; both are None where there is nothing to measure.
    """

    operations: int
    kinds: int
    ok_rate: float | None
    abort_rate: float | None
    unknown_rate: float | None
    retried: int
    aborted: int
    retry_rate: float | None
    latency_p50_ms: float | None
    latency_p99_ms: float | None


def _rate(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def quantile(values: Iterable[float], q: float) -> float | None:
    """The ``q``-quantile by nearest rank: the smallest value that at least a share ``q`` of all values does not exceed.

    Args:
        values: in any order.
        q: from 0.0, the smallest value, to 1.0, the largest. It counts as the decimal number that was written: 0.28 of 100 values
            are 28, although the product of the two floats is slightly more.

    Returns:
        None for no values.

    Raises:
        ValueError: ``q`` is not from 0 to 1.
    """
    if not 0 <= q <= 1:
        raise ValueError(f"quantile {q} is out of range: give a share from 0.0 to 1.0")
    ordered = sorted(values)
    return ordered[max(1, ceil(Fraction(str(q)) * len(ordered))) - 1] if ordered else None


def metrics_of(
    ended: Mapping[str, int],
    writes: Mapping[str, int],
    kinds: int,
    attempts: tuple[int, int],
    aborted: int,
    ms: Sequence[float],
) -> Metrics:
    """The metrics from counts.

    Args:
        ended: how operations ended (``ok``, ``fail``, ``info``) → how many; ``writes``: the same of those that can leave a snapshot.
        kinds: of operations.
        attempts: commits on main whose attempts are known, and those of them with more than one.
        aborted: by a concurrent commit.
        ms: of each that was acknowledged.
    """
    operations, many = sum(ended.values()), sum(writes.values())
    return {
        "operations": operations,
        "kinds": kinds,
        "ok_rate": _rate(ended.get("ok", 0), operations),
        "abort_rate": _rate(writes.get("fail", 0), many),
        "unknown_rate": _rate(ended.get("info", 0), operations),
        "retried": attempts[1],
        "aborted": aborted,
        "retry_rate": _rate(attempts[1], attempts[0]),
        "latency_p50_ms": quantile(ms, 0.5),
        "latency_p99_ms": quantile(ms, 0.99),
    }


@dataclass(frozen=True)
class MetricsPart:
    """What the metrics need of one table besides the columns of its operations.

    Attributes:
        kinds: of measured operations.
        attempts: as :func:`metrics_of`.
    """

    kinds: frozenset[str]
    attempts: tuple[int, int]

    @staticmethod
    def of(measured: Iterable[Operation], log: TableLog) -> MetricsPart:
        """That of a table, from its measured operations."""
        kinds = {o.op: o.f for o in measured}
        attempts = [c.attempt for c in log.main() if c.attempt and c.op in kinds]
        return MetricsPart(frozenset(kinds.values()), (len(attempts), sum(a > 1 for a in attempts)))


def metrics_of_columns(parts: Sequence[MetricsPart], columns: OperationColumns) -> Metrics:
    """The metrics of a run from those of its tables and the columns of its operations."""
    measured = columns.measured
    writes = measured & columns.writes
    return metrics_of(
        columns.ends(measured),
        columns.ends(writes),
        len(frozenset[str]().union(*(p.kinds for p in parts))),
        (sum(p.attempts[0] for p in parts), sum(p.attempts[1] for p in parts)),
        int((columns.aborted & writes).sum()),
        columns.ms(measured & columns.ok),
    )


def measure(evidence: Evidence) -> Metrics:
    """The metrics of a run."""
    ops = [
        o
        for o in evidence.history.operations()
        if o.invoked.extra.get("phase") not in ("setup", "final-reads") and o.completed is not None
    ]
    writes = [o for o in ops if o.f in KINDS and KINDS[o.f].writes]
    ids = {o.op for o in ops}
    attempts = [c.attempt for log in evidence.logs.values() for c in log.main() if c.attempt and c.op in ids]
    latencies = [(o.end - o.start) / 1e6 for o in ops if o.type == "ok" and o.end is not None]
    return metrics_of(
        Counter(o.type for o in ops),
        Counter(o.type for o in writes),
        len({o.f for o in ops}),
        (len(attempts), sum(a > 1 for a in attempts)),
        sum(conflict_of(o) is not None for o in writes),
        latencies,
    )
