"""``assert:`` of a workload file: thresholds on what the run measured, such as ``{retry_rate: "<5%"}``.

The metrics are those of ``workloads.file.workload.METRICS``. Operations are those of the phases: the setup inserts and the final reads
do not count. A metric that the run has no data for (a rate of nothing) makes the assertion ``unknown``, never true; so does a
threshold that a run which ended early has not kept, since it measured only a part.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from typing import ClassVar

from checkers.evidence.outcome import conflict
from checkers.verdict import Anomaly, Evidence, Validity, Verdict, worst
from workloads.file.workload import assertion
from workloads.operations.kind import KINDS

COMPARE: Mapping[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
}


def _rate(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def quantile(values: Iterable[float], q: float) -> float | None:
    """The ``q``-quantile by nearest rank: the least value that at least the share ``q`` of all values does not exceed.

    Args:
        values: in any order.
        q: from 0.0, the least value, to 1.0, the greatest. It is taken as the decimal number that it is written as: 0.28 of 100
            values are 28, though the product of the two floats is a little more.

    Returns:
        None for no values.

    Raises:
        ValueError: ``q`` is not from 0 to 1.
    """
    if not 0 <= q <= 1:
        raise ValueError(f"a quantile is asked for at {q}: say a share from 0.0 to 1.0")
    ordered = sorted(values)
    return ordered[max(1, ceil(Fraction(str(q)) * len(ordered))) - 1] if ordered else None


def measure(evidence: Evidence) -> dict[str, float | None]:
    """The metrics of a run: numbers (rates 0 … 1, latencies in ms), None where there is nothing to measure."""
    ops = [
        o
        for o in evidence.history.operations()
        if o.invoked.extra.get("phase") not in ("setup", "final-reads") and o.completed is not None
    ]
    writes = [o for o in ops if o.f in KINDS and KINDS[o.f].writes]
    ids = {o.op for o in ops}
    attempts = [c.attempt for log in evidence.logs.values() for c in log.main() if c.attempt and c.op in ids]
    retried = sum(a > 1 for a in attempts)
    latencies = [(o.end - o.start) / 1e6 for o in ops if o.type == "ok" and o.end is not None]
    return {
        "operations": len(ops),
        "kinds": len({o.f for o in ops}),
        "ok_rate": _rate(sum(o.type == "ok" for o in ops), len(ops)),
        "abort_rate": _rate(sum(o.type == "fail" for o in writes), len(writes)),
        "unknown_rate": _rate(sum(o.type == "info" for o in ops), len(ops)),
        "retried": retried,
        "aborted": sum(o.type == "fail" and conflict(o.error) is not None for o in writes),
        "retry_rate": _rate(retried, len(attempts)),
        "latency_p50_ms": quantile(latencies, 0.5),
        "latency_p99_ms": quantile(latencies, 0.99),
    }


@dataclass(frozen=True)
class Assertions:
    """Whether the run kept the thresholds that its workload file asserts.

    ``thresholds``: metric → comparison, such as ``{"retry_rate": "<5%"}``.
    """

    thresholds: Mapping[str, str]
    name: str = "assert"
    names: ClassVar[frozenset[str]] = frozenset({"assertion-failed"})

    def check(self, evidence: Evidence) -> Verdict:
        """One anomaly ``assertion-failed`` a threshold that was not kept."""
        measured = measure(evidence)
        failed, notes = [], []
        verdicts: list[Validity] = []
        for metric, threshold in sorted(self.thresholds.items()):
            symbol, limit, percent = assertion(threshold)
            value = measured[metric]
            if value is None:
                verdicts.append("unknown")
                notes.append(f"{metric} {threshold}: the run has nothing to measure it by")
                continue
            kept = COMPARE[symbol](value, limit)
            shown = f"{value:.2%}" if percent else f"{value:g}"
            if not kept and not evidence.complete:
                verdicts.append("unknown")
                notes.append(f"{metric} {threshold}: {shown} until the run ended early")
                continue
            verdicts.append(kept)
            if not kept:
                failed.append(
                    Anomaly(
                        name="assertion-failed",
                        checker=self.name,
                        table=None,
                        explanation=f"the workload asserts {metric} {threshold}, and the run measured {shown}.",
                        evidence={"metric": metric, "threshold": threshold, "measured": value},
                    )
                )
        return Verdict(self.name, worst(verdicts), tuple(failed), dict(measured), tuple(notes))
