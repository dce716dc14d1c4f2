"""``assert:`` of a workload file: thresholds on what the run measured, such as ``{retry_rate: "<5%"}``.

The metrics are those of ``workloads.file.assertions.METRICS``. Operations are those of the phases: the setup inserts and the final reads
do not count. A metric without data (a rate of nothing) makes the assertion ``unknown``, never true; so does a
threshold that was not met by a run that ended early, since it measured only a part.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from checkers.evidence.evidence import Evidence
from checkers.timeline.metrics import Metrics, MetricsPart, measure, metrics_of_columns
from checkers.unit import RunChecker, RunColumns, Unit
from checkers.verdict import Anomaly, Validity, Verdict, worst
from workloads.file.assertions import assertion, is_time

COMPARE: Mapping[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
}


@dataclass(frozen=True)
class Assertions(RunChecker):
    """Whether the run met the thresholds that its workload file asserts.

    ``thresholds``: metric → comparison, such as ``{"retry_rate": "<5%"}``.
    """

    thresholds: Mapping[str, str]
    name = "assert"
    stats_type = Metrics
    names = frozenset({"assertion-failed"})

    def check(self, evidence: Evidence) -> Verdict:
        """One anomaly ``assertion-failed`` a threshold that was not kept. ``stats``: :class:`checkers.timeline.metrics.Metrics`."""
        return self._of(measure(evidence), complete=evidence.complete)

    def part(self, unit: Unit) -> MetricsPart:
        """What the metrics need."""
        assert unit.log is not None
        return MetricsPart.of(unit.measured, unit.log)

    def whole(self, run: RunColumns, parts: Sequence[MetricsPart]) -> Verdict:
        """As :meth:`check`."""
        return self._of(metrics_of_columns(parts, run.columns), complete=True)

    def _of(self, metrics: Metrics, *, complete: bool) -> Verdict:
        """The verdict on what a run measured that came to its end, or did not."""
        measured: Mapping[str, Any] = metrics
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
            shown = f"{value:.2%}" if percent else f"{value:g}{' ms' if is_time(metric) else ''}"
            if not kept and not complete:
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
        return Verdict(self.name, worst(verdicts), tuple(failed), measured, tuple(notes))
