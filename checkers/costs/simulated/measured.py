"""Measured points: what runs recorded of the phases of their attempts, in the form that a calibration needs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from checkers.costs.simulated.load import ClosedLoop, RunLength
from checkers.costs.simulated.phasetimes import BETWEEN, COLD, HOT, ONCE, OPERATION_PHASES, RETRY, SORTED
from checkers.evidence import history

NS_IN_MS = 1e6


@dataclass(frozen=True, slots=True)
class MeasuredOperation:
    """What a run recorded of one operation.

    Attributes:
        latency_ms: from invocation to completion.
        committed: whether it was acknowledged.
        attempts: in order, with the keys ``wait_ms`` (the backoff before it), ``<phase>_ms`` (absent or 0 if it did not come to that),
            and ``parent`` (``hot`` or ``cold``).
        before_ms: from the completion of the writer's operation before to this invocation; 0 if the workload asks for pauses.
    """

    latency_ms: float
    committed: bool
    attempts: Sequence[Mapping[str, Any]]
    before_ms: float = 0.0


@dataclass(frozen=True, slots=True)
class MeasuredPoint:
    """One point that was measured.

    Attributes:
        figures: keys as in :attr:`~checkers.costs.simulated.commits.Simulated.figures`.
        samples_ms: phase → sort of attempt (:data:`~checkers.costs.simulated.phasetimes.SORTS`) → times of visits that did all the
            work of the phase. Phases that are not :data:`~checkers.costs.simulated.phasetimes.SORTED` have ``hot`` only.
        visits: phase → sort → visits for each operation; a visit that did part of the work counts in part.
        backoff_s: for each operation.
        length: of its runs; None: take the point for a steady state.
        varied: the parameters of the point as typed.
    """

    load: ClosedLoop
    figures: Mapping[str, float]
    samples_ms: Mapping[str, Mapping[str, Sequence[float]]]
    visits: Mapping[str, Mapping[str, float]]
    backoff_s: float = 0.0
    length: RunLength | None = None
    varied: tuple[tuple[str, str], ...] = ()

    def mean_ms(self, phase: str, factors: Mapping[str, float] | None = None) -> float | None:
        """The mean of a phase; with ``factors`` (sort → multiple) as if every attempt were hot. None if nothing was measured."""
        found = self.as_if_hot(phase, factors or {})
        return sum(found) / len(found) if found else None

    def as_if_hot(self, phase: str, factors: Mapping[str, float]) -> list[float]:
        """The samples behind :meth:`mean_ms`."""
        return [t / factors.get(sort, 1.0) for sort, found in self.samples_ms.get(phase, {}).items() for t in found]

    def visits_as_if_hot(self, phase: str, factors: Mapping[str, float]) -> float:
        """Visits for each operation; one of another sort counts as many times as it takes longer."""
        return sum(n * factors.get(sort, 1.0) for sort, n in self.visits.get(phase, {}).items())


def recorded(operations: Iterable[history.Operation], *, paced: bool = False) -> list[MeasuredOperation]:
    """The operations of one run's history that recorded attempts.

    Args:
        operations: of the phases that count, in the order of their invocation.
        paced: whether the workload asks for pauses between a writer's operations; they are then not taken for work.
    """
    out, free = [], dict[str, int]()
    for o in operations:
        if o.completed is None:
            continue
        writer = o.op.partition("-")[0]
        before = 0 if paced else o.start - free.get(writer, o.start)
        free[writer] = o.completed.time
        if isinstance(attempts := o.completed.extra.get("attempts"), list):
            latency = (o.completed.time - o.start) / NS_IN_MS
            out.append(MeasuredOperation(latency, o.completed.type == "ok", attempts, max(0, before) / NS_IN_MS))
    return out


def measured(
    load: ClosedLoop,
    operations: Iterable[MeasuredOperation],
    figures: Mapping[str, float],
    *,
    length: RunLength | None = None,
    varied: tuple[tuple[str, str], ...] = (),
) -> MeasuredPoint:
    """A point from what its runs recorded. Operations without attempts are left out.

    Time on the wire (round trips, swap latency) belongs to the load, so it is taken off the phases that it is part of.
    """
    trip = sum(load.round_trips_s) / len(load.round_trips_s)
    wire_ms = {"refresh": trip * 1000, "swap": (trip + load.swap_latency_s) * 1000}
    samples: dict[str, dict[str, list[float]]] = {p: defaultdict(list) for p in OPERATION_PHASES}
    whole: dict[str, dict[str, float]] = {p: defaultdict(float) for p in OPERATION_PHASES}
    backoff, count = 0.0, 0
    for o in operations:
        if not o.attempts:
            continue
        count += 1
        inside = 0.0
        for n, attempt in enumerate(o.attempts):
            won = o.committed and n == len(o.attempts) - 1
            backoff += _ms(attempt, "wait_ms")
            inside += _ms(attempt, "wait_ms")
            kind = RETRY if n else COLD if attempt.get("parent") == "cold" else HOT
            for phase in OPERATION_PHASES:
                took = 0.0 if phase in (BETWEEN, ONCE) else _ms(attempt, f"{phase}_ms")
                if not took:
                    continue
                inside += took
                took = max(0.0, took - wire_ms.get(phase, 0.0))
                sort = kind if phase in SORTED else HOT
                whole[phase][sort] += took
                if phase != "swap" or won:
                    samples[phase][sort].append(took)
        for phase, took in ((ONCE, max(0.0, o.latency_ms - inside)), (BETWEEN, o.before_ms)):
            whole[phase][HOT] += took
            samples[phase][HOT].append(took)
    visits = {
        p: {
            sort: sum_ms / (sum(found) / len(found)) / count
            for sort, sum_ms in of_sort.items()
            if (found := samples[p][sort])
        }
        for p, of_sort in whole.items()
        if any(of_sort.values())
    }
    return MeasuredPoint(
        load,
        figures,
        {p: {sort: tuple(samples[p][sort]) for sort in of_sort} for p, of_sort in visits.items()},
        visits,
        backoff / 1000 / count if count else 0.0,
        length,
        varied,
    )


def _ms(attempt: Mapping[str, Any], key: str) -> float:
    value = attempt.get(key)
    return float(value) if isinstance(value, int | float) else 0.0
