"""How much of a measured time is computing, queueing at the catalog, and plain waiting?

Writers, catalog and store of a measured run share a few cores, so a phase takes longer the more writers there are. The model of one phase is ::

    measured(n) = wait + cpu · σ(n) + catalog · κ(n)          all three demands ≥ 0

σ(n) says how much longer computing takes with *n* writers (processor sharing), κ(n) the same of the catalog's queue. Both follow from the
demands of all phases together, by exact mean value analysis (:mod:`~checkers.costs.simulated.mva`) of a network in which a round is one
operation: as many visits to each phase, and as much backoff, as were measured at that point. So the calibration needs no model of conflicts.
The demands follow from σ and κ by least squares of relative errors. The two are solved in turn until nothing changes.

One writer alone says nothing about the split, as σ = κ = 1. Two on two cores neither. It takes a point with more writers than cores;
without one, all is taken for computing, and :attr:`Calibrated.notes` says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from math import inf
from typing import Any

from checkers.costs.simulated.load import Length, Load
from checkers.costs.simulated.mva import network
from checkers.costs.simulated.service import BETWEEN, ONCE, PHASES, Demand, Service, shape

QUANTILES = 64
"""Of the times of a phase, as its shape."""
ROUNDS = 400
"""At most so many times in turn."""
STARTS = (0.1, 0.5, 0.9)
"""Shares of computing to begin with; the best result counts."""
QUEUED = ("swap",)
"""Phases that may have a part in the catalog's queue."""
SIMPLER = 1.05
"""A part of a demand must make the squared error smaller by this factor to count."""


@dataclass(frozen=True, slots=True)
class Operation:
    """What a run recorded of one operation.

    Attributes:
        latency_ms: from invocation to completion.
        committed: whether it was acknowledged.
        attempts: in order; of each ``wait_ms``, the backoff before it, and ``<phase>_ms``, absent or 0 for phases that it did not reach.
        before_ms: from the completion of the writer's operation before to this invocation, without the pause that the workload asks for.
    """

    latency_ms: float
    committed: bool
    attempts: Sequence[Mapping[str, Any]]
    before_ms: float = 0.0


@dataclass(frozen=True, slots=True)
class Measured:
    """One point that was measured.

    Attributes:
        figures: keys as in :attr:`~checkers.costs.simulated.commits.Simulated.figures`.
        samples_ms: phase → times of visits that did all the work of the phase; for ``swap`` those that won.
        visits: phase → visits for each operation; a visit that did part of the work counts in part.
        backoff_s: for each operation.
        length: of its runs; None: take the point for a steady state.
        varied: the parameters of the point as typed.
    """

    load: Load
    figures: Mapping[str, float]
    samples_ms: Mapping[str, Sequence[float]]
    visits: Mapping[str, float]
    backoff_s: float = 0.0
    length: Length | None = None
    varied: tuple[tuple[str, str], ...] = ()

    def mean_ms(self, phase: str) -> float | None:
        """None if nothing was measured."""
        found = self.samples_ms.get(phase)
        return sum(found) / len(found) if found else None


def measured(
    load: Load,
    operations: Iterable[Operation],
    figures: Mapping[str, float],
    *,
    length: Length | None = None,
    varied: tuple[tuple[str, str], ...] = (),
) -> Measured:
    """A point from what its runs recorded. Operations without attempts are left out."""
    samples: dict[str, list[float]] = {p: [] for p in PHASES}
    whole: dict[str, float] = dict.fromkeys(PHASES, 0.0)
    backoff, count = 0.0, 0
    for o in operations:
        if not o.attempts:
            continue
        count += 1
        inside = 0.0
        for n, attempt in enumerate(o.attempts):
            won = o.committed and n == len(o.attempts) - 1
            waited = _ms(attempt, "wait_ms")
            backoff += waited
            inside += waited
            for phase in PHASES:
                took = 0.0 if phase in (BETWEEN, ONCE) else _ms(attempt, f"{phase}_ms")
                if not took:
                    continue
                inside += took
                whole[phase] += took
                if phase != "swap" or won:
                    samples[phase].append(took)
        for phase, took in ((ONCE, max(0.0, o.latency_ms - inside)), (BETWEEN, o.before_ms)):
            whole[phase] += took
            samples[phase].append(took)
    visits = {}
    for phase, found in samples.items():
        mean = sum(found) / len(found) if found else 0.0
        if count and mean:
            visits[phase] = whole[phase] / mean / count
    kept = {p: s for p, s in samples.items() if p in visits}
    return Measured(load, figures, kept, visits, backoff / 1000 / count if count else 0.0, length, varied)


def _ms(attempt: Mapping[str, Any], key: str) -> float:
    value = attempt.get(key)
    return float(value) if isinstance(value, int | float) else 0.0


@dataclass(frozen=True, slots=True)
class Calibrated:
    """A service, and how well it explains the times it was made of.

    Attributes:
        error: phase → the largest relative difference between a measured mean and the service's, over the points.
        notes: what the points could not tell.
    """

    service: Service
    error: Mapping[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def calibrate(points: Sequence[Measured], like: Service) -> Calibrated:
    """The demands that explain the mean times of all phases at all points.

    Args:
        points: with few writers: those before the curve bends, and some with more writers than cores.
        like: what is known of the service: its cores, connections, comparisons. Its demands and shapes are replaced.

    Raises:
        ValueError: there is no point, or none with a time.
    """
    phases = [p for p in PHASES if any(m.mean_ms(p) for m in points)]
    if not phases:
        raise ValueError("there is nothing to calibrate on: no point has a measured attempt")
    notes = []
    if max(m.load.writers for m in points) <= like.cores:
        demands = {p: Demand(cpu_s=_mean([t for m in points if (t := m.mean_ms(p))]) / 1000) for p in phases}
        service = replace(like, phases=demands)
        notes.append(
            f"no point has more writers than the {like.cores} cores: all of each time is taken for computing, "
            "so what is said of more writers is the worst case"
        )
    else:
        service = min(
            (_fit(points, phases, like, start) for start in STARTS), key=lambda s: _squared(points, phases, s)
        )
    fewest = min(points, key=lambda m: m.load.writers)
    shapes = {p: shape(_quantiles(found)) for p in phases if (found := fewest.samples_ms.get(p))}
    service = replace(service, shapes=shapes)
    return Calibrated(service, _errors(points, phases, service), tuple(notes))


def _fit(points: Sequence[Measured], phases: Sequence[str], like: Service, start: float) -> Service:
    """From a first guess of the share of computing."""
    least = sorted(points, key=lambda m: m.load.writers)
    demands: dict[str, Demand] = {}
    for p in phases:
        alone = next(t for m in least if (t := m.mean_ms(p))) / 1000
        demands[p] = Demand(cpu_s=alone * start, wait_s=alone * (1 - start))
    for n in range(ROUNDS):
        found = [_stretches(m, demands, like) for m in points]
        damping = 0.5 if n < ROUNDS // 2 else 0.1
        change = 0.0
        for p in phases:
            rows = [(s, k, t / 1000) for (s, k), m in zip(found, points, strict=True) if (t := m.mean_ms(p))]
            best, old = _least_squares(rows, p in QUEUED), demands[p]
            demands[p] = Demand(*((1 - damping) * a + damping * b for a, b in zip(_parts(old), best, strict=True)))
            change = max(change, *(abs(a - b) for a, b in zip(_parts(old), _parts(demands[p]), strict=True)))
        if change < 1e-7:
            break
    return replace(like, phases=demands)


def _parts(d: Demand) -> tuple[float, float, float]:
    return d.cpu_s, d.wait_s, d.catalog_s


def _stretches(m: Measured, demands: Mapping[str, Demand], like: Service) -> tuple[float, float]:
    """σ and κ at a point."""
    cpu, wait, catalog = (sum(m.visits.get(p, 0.0) * _parts(d)[i] for p, d in demands.items()) for i in range(3))
    trip = _mean(m.load.round_trips_s)
    trips = m.visits.get("refresh", 0.0) * trip + m.visits.get("swap", 0.0) * (trip + m.load.swap_latency_s)
    think = m.load.interval_s + m.backoff_s + wait + trips
    found = network(m.load.writers, think, [(cpu, like.cores), (catalog, like.catalog_servers)])
    return found.stretch[0], found.stretch[1]


def _least_squares(rows: Sequence[tuple[float, float, float]], queued: bool) -> tuple[float, float, float]:
    """The demands (cpu, wait, catalog), none negative, that fit (σ, κ, time) with the least squared relative error."""
    best, least = (0.0, 0.0, 0.0), inf
    for parts in ((1,), (0,), (0, 1), *(((2,), (1, 2), (0, 2), (0, 1, 2)) if queued else ())):
        columns = [[(s, 1.0, k)[i] / t for i in parts] for s, k, t in rows]
        solution = _solve(
            [[sum(c[i] * c[j] for c in columns) for j in range(len(parts))] for i in range(len(parts))],
            [sum(c[i] for c in columns) for i in range(len(parts))],
        )
        if solution is None or min(solution) < 0:
            continue
        error = sum((1 - sum(a * b for a, b in zip(c, solution, strict=True))) ** 2 for c in columns)
        if error * (SIMPLER if 2 in parts else 1.0) < least - 1e-12:
            least = error
            full = dict(zip(parts, solution, strict=True))
            best = (full.get(0, 0.0), full.get(1, 0.0), full.get(2, 0.0))
    return best


def _solve(matrix: list[list[float]], right: list[float]) -> list[float] | None:
    """A small system of linear equations, by elimination; None if it is (nearly) singular."""
    n = len(right)
    rows = [[*row, r] for row, r in zip(matrix, right, strict=True)]
    for i in range(n):
        pivot = max(range(i, n), key=lambda j: abs(rows[j][i]))
        rows[i], rows[pivot] = rows[pivot], rows[i]
        if abs(rows[i][i]) < 1e-9 * max(abs(x) for row in matrix for x in row):
            return None
        for j in range(n):
            if j != i:
                factor = rows[j][i] / rows[i][i]
                rows[j] = [a - factor * b for a, b in zip(rows[j], rows[i], strict=True)]
    return [rows[i][n] / rows[i][i] for i in range(n)]


def _expected(m: Measured, service: Service) -> dict[str, float]:
    """Phase → its mean length in ms at a point, queueing included."""
    s, k = _stretches(m, service.phases, service)
    return {p: (d.cpu_s * s + d.wait_s + d.catalog_s * k) * 1000 for p, d in service.phases.items()}


def _errors(points: Sequence[Measured], phases: Sequence[str], service: Service) -> dict[str, float]:
    out: dict[str, float] = {}
    for m in points:
        expected = _expected(m, service)
        for p in phases:
            if t := m.mean_ms(p):
                out[p] = max(out.get(p, 0.0), abs(expected[p] - t) / t)
    return out


def _squared(points: Sequence[Measured], phases: Sequence[str], service: Service) -> float:
    return sum(((_expected(m, service)[p] - t) / t) ** 2 for m in points for p in phases if (t := m.mean_ms(p)))


def _quantiles(values: Sequence[float]) -> list[float]:
    """At most :data:`QUANTILES` values that stand for all, each for as many; they keep the mean."""
    ordered = sorted(values)
    if len(ordered) <= QUANTILES:
        return ordered
    cuts = [len(ordered) * n // QUANTILES for n in range(QUANTILES + 1)]
    return [_mean(ordered[a:b]) for a, b in pairwise(cuts)]


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0
