"""How much of a measured time is computing, queueing at the catalog, and plain waiting?

Writers, catalog and store of a measured run share a few cores, so a phase takes longer the more writers there are. The model of one phase is ::

    measured(n) = wait + cpu · σ(n) + catalog · κ(n)          all three demands ≥ 0

σ(n) says how much longer computing takes with *n* writers (processor sharing), κ(n) the same of the catalog's queue. Both follow from the
demands of all phases together, by exact mean value analysis (:mod:`~checkers.costs.simulated.mva`) of a network in which a round is one
operation: as many visits to each phase, and as much backoff, as were measured at that point. So the calibration needs no model of conflicts.
The demands follow from σ and κ by least squares of relative errors. The two are solved in turn until nothing changes.

Two things make a measured mean differ from the closed form. The attempts that win are the quick ones, and only of these it is certain that
the catalog did all the work of a swap. And writers that start together meet more often. Both happen in simulated runs of the same length,
too. So the service simulates each point, takes the same means of what such a run would record, and divides the measured means by the bias
that shows (simulated / closed form), a few times over.

With few writers σ grows little, so the noise of a mean makes much of a share. Of all phases together the noise is least, so a phase has
their share of computing as far as its own times do not say otherwise.

Some phases take longer when the parent is cold, or in a retry, whatever the load. The ratio to a hot attempt is taken at each point, where σ
is the same, and the median of the points counts; the rest looks at times as if all attempts were hot.

One writer alone says nothing about the split, as σ = κ = 1. Two on two cores neither. It takes a point with more writers than cores;
without one, all is taken for computing, and :attr:`Calibrated.notes` says so.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import inf
from statistics import median

from checkers.costs.simulated.commits import simulated_run
from checkers.costs.simulated.load import RunLength
from checkers.costs.simulated.measured import MeasuredPoint, measured
from checkers.costs.simulated.mva import network
from checkers.costs.simulated.phasetimes import (
    BETWEEN,
    COLD,
    HOT,
    OPERATION_PHASES,
    RETRY,
    SORTED,
    PhaseDemand,
    ServiceTimes,
    shape,
)
from checkers.evidence.replace import replace

ENOUGH = 20
"""Samples of each of two sorts of attempts at a point that their ratio needs."""
SHAPE_QUANTILES = 64
"""Of the times of a phase, as its shape."""
MOST_TURNS = 400
"""At most so many times in turn."""
REFINEMENTS = 4
"""How often simulated runs correct the closed form."""
CALIBRATION_SEEDS = (1, 2)
"""Of these runs."""
STEADY = 100
"""Operations of each writer in such a run, where the measured point has no length."""
STARTS = (0.1, 0.5, 0.9)
"""Shares of computing to begin with; the best result counts."""
QUEUED = ("swap",)
"""Phases that may have a part in the catalog's queue."""
NOISE = 0.05
"""Relative error of a mean of very many times; the standard error of a mean of few adds to it."""
TRUST = 0.1
"""How much the share of computing of all phases together counts for each: as much as one point whose times are known to 0.1 of the spread
of shares."""
DISTURBED = 1.15
"""An operation that takes longer by this factor with fewer writers was slowed down by something else."""
SIMPLER = 1.25
"""A part of a demand must make the squared error smaller by this factor to count."""


@dataclass(frozen=True, slots=True)
class Calibrated:
    """A service, and how well it explains the times it was made of.

    Attributes:
        error: phase → the largest relative difference between a measured mean and the service's, over the points.
        notes: what the points could not tell.
    """

    service: ServiceTimes
    error: Mapping[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def calibrate(points: Sequence[MeasuredPoint], like: ServiceTimes) -> Calibrated:
    """The demands that explain the mean times of all phases at all points.

    Args:
        points: with few writers: those before the curve bends, and some with more writers than cores.
        like: what is known of the service: its cores, connections, comparisons. Its demands, factors and shapes are replaced.

    Raises:
        ValueError: there is no point, or none with a time.
    """
    like = replace(like, factors=_factors(points))
    times = [_times(m, like) for m in points]
    phases = [p for p in OPERATION_PHASES if any(p in t for t in times)]
    if not phases:
        raise ValueError("there is nothing to calibrate on: no point has a measured attempt")
    fewest = min(points, key=lambda m: m.load.writers)
    shapes = {p: shape(_quantiles(found)) for p in phases if (found := fewest.as_if_hot(p, like.factors.get(p, {})))}
    like = replace(like, shapes=shapes)
    if max(m.load.writers for m in points) <= like.cores:
        demands = {p: PhaseDemand(cpu_s=_mean([t[p] for t in times if p in t]) / 1000) for p in phases}
        note = (
            f"no point has more writers than the {like.cores} cores: all of each time is taken for computing, "
            "so what is said of more writers is the worst case"
        )
        service = replace(like, phases=demands)
        return Calibrated(service, _errors(points, times, service), (note,))
    service = _best(points, times, like)
    bias = [dict.fromkeys(t, 1.0) for t in times]
    for _ in range(REFINEMENTS):
        for m, known in zip(points, bias, strict=True):
            expected, seen = _expected(m, service), _seen(m, service)
            known.update((p, math.sqrt(known[p] * seen[p] / expected[p])) for p in known if seen.get(p) and expected[p])
        corrected = [
            {p: t / known[p] for p, t in estimate.items()} for estimate, known in zip(times, bias, strict=True)
        ]
        service = _best(points, corrected, service)
    final = [{p: t / known[p] for p, t in estimate.items()} for estimate, known in zip(times, bias, strict=True)]
    return Calibrated(service, _errors(points, final, service), tuple(_disturbed(points, times)))


def _disturbed(points: Sequence[MeasuredPoint], times: Sequence[Mapping[str, float]]) -> Iterator[str]:
    """A sentence if attempts got much shorter with more writers, which no number of writers explains."""
    attempts = sorted(
        (m.load.writers, sum(t for p, t in phases.items() if p != BETWEEN))
        for m, phases in zip(points, times, strict=True)
    )
    for n, (writers, took) in enumerate(attempts):
        quicker = min(attempts[n + 1 :], key=lambda a: a[1], default=None)
        if quicker is not None and quicker[0] > writers and quicker[1] * DISTURBED < took:
            few = f"{writers} {'writer' if writers == 1 else 'writers'}"
            yield (
                f"an operation with one attempt took {took:.0f} ms with {few} and {quicker[1]:.0f} ms with {quicker[0]}: "
                "something else than the writers slowed the machine down (other programs, a JVM that is not warm yet), "
                "so predictions are as uncertain as that"
            )
            return


def _times(m: MeasuredPoint, like: ServiceTimes) -> dict[str, float]:
    """Phase → its mean in ms, as if every attempt were hot; without those that were not measured."""
    return {p: t for p in OPERATION_PHASES if (t := m.mean_ms(p, like.factors.get(p, {})))}


def _weights(m: MeasuredPoint, like: ServiceTimes) -> dict[str, float]:
    """Phase → the weight of its mean, 1 at most: less if it is the mean of few times that vary."""
    out = {}
    for p in OPERATION_PHASES:
        found = m.as_if_hot(p, like.factors.get(p, {}))
        if mean := _mean(found):
            variance = sum((t - mean) ** 2 for t in found) / max(1, len(found) - 1) / mean**2 if len(found) > 1 else 1.0
            out[p] = NOISE / math.sqrt(NOISE**2 + variance / len(found))
    return out


def _seen(m: MeasuredPoint, service: ServiceTimes) -> dict[str, float]:
    """The same of simulated runs of that point."""
    found: dict[str, list[float]] = {}
    for seed in CALIBRATION_SEEDS:
        length = m.length or RunLength(operations=STEADY * m.load.writers)
        _, ended = simulated_run(m.load, service, seed, length)
        for p, t in _times(measured(m.load, [e.operation for e in ended], {}), service).items():
            found.setdefault(p, []).append(t)
    return {p: _mean(t) for p, t in found.items()}


def _best(points: Sequence[MeasuredPoint], times: Sequence[Mapping[str, float]], like: ServiceTimes) -> ServiceTimes:
    fits = (_fit(points, times, like, start) for start in STARTS)
    return min(fits, key=lambda s: sum(e * e for e in _relative(points, times, s)))


def _fit(
    points: Sequence[MeasuredPoint], times: Sequence[Mapping[str, float]], like: ServiceTimes, start: float
) -> ServiceTimes:
    """From a first guess of the share of computing."""
    least = [t for _, t in sorted(zip(points, times, strict=True), key=lambda mt: mt[0].load.writers)]
    phases = [p for p in OPERATION_PHASES if any(p in t for t in times)]
    weights = [_weights(m, like) for m in points]
    demands: dict[str, PhaseDemand] = {}
    for p in phases:
        alone = next(t[p] for t in least if p in t) / 1000
        demands[p] = PhaseDemand(cpu_s=alone * start, wait_s=alone * (1 - start))
    for n in range(MOST_TURNS):
        found = [_stretches(m, demands, like) for m in points]
        damping = 0.5 if n < MOST_TURNS // 2 else 0.1
        change = 0.0
        together = [
            (s, k, sum(t.values()) / 1000, min(w.values()))
            for (s, k), t, w in zip(found, times, weights, strict=True)
            if len(t) == len(phases)
        ]
        cpu, wait, _ = _least_squares(together, False) if together else (1.0, 1.0, 0.0)
        usual = cpu / (cpu + wait)
        for p in phases:
            rows = [(s, k, t[p] / 1000, w[p]) for (s, k), t, w in zip(found, times, weights, strict=True) if p in t]
            best, old = _least_squares(rows, p in QUEUED, usual), demands[p]
            demands[p] = PhaseDemand(*((1 - damping) * a + damping * b for a, b in zip(_parts(old), best, strict=True)))
            change = max(change, *(abs(a - b) for a, b in zip(_parts(old), _parts(demands[p]), strict=True)))
        if change < 1e-7:
            break
    return replace(like, phases=demands)


def _factors(points: Sequence[MeasuredPoint]) -> dict[str, dict[str, float]]:
    """Phase → sort → how many times longer than a hot attempt."""
    out: dict[str, dict[str, float]] = {}
    for p in SORTED:
        found = out.setdefault(p, {})
        for sort, to in ((COLD, HOT), (RETRY, COLD), (RETRY, HOT)):
            ratios = [
                _mean(samples[sort]) / _mean(samples[to])
                for m in points
                if (samples := m.samples_ms.get(p, {}))
                and min(len(samples.get(sort, ())), len(samples.get(to, ()))) >= ENOUGH
            ]
            if ratios and sort not in found:
                found[sort] = median(ratios) * found.get(to, 1.0)
    return out


def _parts(d: PhaseDemand) -> tuple[float, float, float]:
    return d.cpu_s, d.wait_s, d.catalog_s


def _stretches(m: MeasuredPoint, demands: Mapping[str, PhaseDemand], like: ServiceTimes) -> tuple[float, float]:
    """σ and κ at a point."""
    cpu, wait, catalog = (
        sum(m.visits_as_if_hot(p, like.factors.get(p, {})) * _parts(d)[i] for p, d in demands.items()) for i in range(3)
    )
    trip = _mean(m.load.round_trips_s)
    trips = m.visits_as_if_hot("refresh", {}) * trip + m.visits_as_if_hot("swap", {}) * (trip + m.load.swap_latency_s)
    think = m.load.interval_s + m.backoff_s + wait + trips
    found = network(m.load.writers, think, [(cpu, like.cores), (catalog, like.catalog_servers)])
    return found.stretch[0], found.stretch[1]


def _least_squares(
    rows: Sequence[tuple[float, float, float, float]], queued: bool, usual: float | None = None
) -> tuple[float, float, float]:
    """The demands (cpu, wait, catalog), none negative, that fit (σ, κ, time, weight) with the least squared relative error.

    ``usual``: the share of computing that a phase is expected to have, if the rows do not tell better (:data:`TRUST`).
    """
    full = [(w * s / t, w / t, w * k / t, w) for s, k, t, w in rows]
    if usual is not None:
        scale = TRUST / _mean([t for _, _, t, _ in rows])
        full.append(((1 - usual) * scale, -usual * scale, -usual * scale, 0.0))
    best, least = (0.0, 0.0, 0.0), inf
    for parts in ((1,), (0,), (0, 1), *(((2,), (1, 2), (0, 2), (0, 1, 2)) if queued else ())):
        columns = [([row[i] for i in parts], row[3]) for row in full]
        n = range(len(parts))
        matrix = [[sum(c[i] * c[j] for c, _ in columns) for j in n] for i in n]
        solution = _solve(matrix, [sum(c[i] * target for c, target in columns) for i in n])
        if solution is None or min(solution) < 0:
            continue
        error = sum((target - sum(a * b for a, b in zip(c, solution, strict=True))) ** 2 for c, target in columns)
        if error * (SIMPLER if 2 in parts else 1.0) < least - 1e-12:
            least = error
            solved = dict(zip(parts, solution, strict=True))
            best = (solved.get(0, 0.0), solved.get(1, 0.0), solved.get(2, 0.0))
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


def _expected(m: MeasuredPoint, service: ServiceTimes) -> dict[str, float]:
    """Phase → its mean length in ms at a point, queueing included."""
    s, k = _stretches(m, service.phases, service)
    return {p: (d.cpu_s * s + d.wait_s + d.catalog_s * k) * 1000 for p, d in service.phases.items()}


def _errors(
    points: Sequence[MeasuredPoint], times: Sequence[Mapping[str, float]], service: ServiceTimes
) -> dict[str, float]:
    out: dict[str, float] = {}
    for m, phases in zip(points, times, strict=True):
        expected = _expected(m, service)
        for p, t in phases.items():
            out[p] = max(out.get(p, 0.0), abs(expected[p] - t) / t)
    return out


def _relative(
    points: Sequence[MeasuredPoint], times: Sequence[Mapping[str, float]], service: ServiceTimes
) -> Iterator[float]:
    for m, phases in zip(points, times, strict=True):
        expected = _expected(m, service)
        yield from ((expected[p] - t) / t for p, t in phases.items())


def _quantiles(values: Sequence[float]) -> list[float]:
    """At most :data:`SHAPE_QUANTILES` values that stand for all, each for as many; they keep the mean."""
    ordered = sorted(values)
    if len(ordered) <= SHAPE_QUANTILES:
        return ordered
    cuts = [len(ordered) * n // SHAPE_QUANTILES for n in range(SHAPE_QUANTILES + 1)]
    return [_mean(ordered[a:b]) for a, b in pairwise(cuts)]


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0
