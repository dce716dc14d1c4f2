"""Measured points beside what the simulation says of them, and points that nobody measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from checkers.costs.curves import Predicted
from checkers.costs.simulated.calibration import STEADY, Calibrated, calibrate
from checkers.costs.simulated.commits import simulate, simulated_run
from checkers.costs.simulated.load import ClosedLoop, RunLength
from checkers.costs.simulated.measured import MeasuredPoint, measured
from checkers.costs.simulated.phasetimes import OPERATION_PHASES, ServiceTimes

COMPARED = ("commits_per_s", "retries_mean", "aborted")
"""The figures in which a prediction must be near what was measured."""
NEAR = 0.15
"""How near, as a share of the measured figure."""
FLOOR: Mapping[str, float] = {"retries_mean": 0.1, "aborted": 0.02}
"""Differences below these count as near whatever the measured figure is: of few events, a share says nothing."""
MATTERS = 0.03
"""A phase can explain a difference if it is off by this share of all phases together."""
FEW_WRITERS = 8
"""Points with so many writers at most are calibrated on, unless the caller says otherwise."""
PREDICTION_SEEDS = (1, 2, 3, 4, 5)
"""A prediction is the median of a simulation with each."""
MANY_SEEDS = range(1, 21)
"""How far runs of a point differ by chance is told by a simulation with each."""


@dataclass(frozen=True, slots=True)
class Predictions:
    """What :func:`predictions` found.

    Attributes:
        points: the measured ones first, then the others, each in the order given.
        reasons: index in ``points`` → why the prediction is not near (:data:`NEAR`) what was measured there.
        calibrated: the service.
        calibrated_on: indices in ``points``.
    """

    points: tuple[Predicted, ...]
    reasons: Mapping[int, str]
    calibrated: Calibrated
    calibrated_on: tuple[int, ...]


def predictions(
    measured: Sequence[MeasuredPoint],
    further: Sequence[tuple[ClosedLoop, tuple[tuple[str, str], ...]]],
    like: ServiceTimes,
    *,
    calibrate_on: Sequence[int] | None = None,
    commits: int = 4000,
) -> Predictions:
    """Calibrates on some of the measured points, simulates all of them, and the further ones.

    Args:
        further: (load, the parameters of the point as typed) for each.
        like: what is known of the service (:func:`~checkers.costs.simulated.calibration.calibrate`).
        calibrate_on: indices in ``measured``; by default the points with at most :data:`FEW_WRITERS` writers, or all if there are none.
        commits: operations to count in each simulation.

    Raises:
        ValueError: there is nothing to calibrate on.
    """
    few = [n for n, m in enumerate(measured) if m.load.writers <= FEW_WRITERS]
    chosen = tuple(calibrate_on if calibrate_on is not None else few or range(len(measured)))
    calibrated = calibrate([measured[n] for n in chosen], like)
    points: list[Predicted] = []
    reasons: dict[int, str] = {}
    for n, m in enumerate(measured):
        runs = [
            simulate(m.load, calibrated.service, seed, commits=commits, length=m.length) for seed in PREDICTION_SEEDS
        ]
        figures = _medians([r.figures for r in runs])
        error = {k: (figures[k] - v) / v for k, v in m.figures.items() if v and k in figures}
        points.append(Predicted(m.varied, figures, True, error))
        if why := _reason(m, figures, calibrated.service):
            reasons[n] = why
    for load, varied in further:
        figures = _medians(
            [simulate(load, calibrated.service, seed, commits=commits).figures for seed in PREDICTION_SEEDS]
        )
        points.append(Predicted(varied, figures, False, {}))
    return Predictions(tuple(points), reasons, calibrated, chosen)


def far(key: str, predicted: float, measured: float) -> bool:
    """Whether a prediction is not near what was measured."""
    return abs(predicted - measured) > max(NEAR * abs(measured), FLOOR.get(key, 0.0))


def _medians(found: Sequence[Mapping[str, float]]) -> dict[str, float]:
    return {k: median(f[k] for f in found if k in f) for k in dict.fromkeys(k for f in found for k in f)}


def _reason(m: MeasuredPoint, figures: Mapping[str, float], service: ServiceTimes) -> str | None:
    """Where the prediction of a point goes wrong, in one sentence; None if it is near."""
    wrong = [k for k in COMPARED if k in figures and k in m.figures and far(k, figures[k], m.figures[k])]
    if not wrong:
        return None
    words = ", ".join(f"{k} {figures[k]:.3g} instead of {m.figures[k]:.3g}" for k in wrong)
    length = m.length or RunLength(operations=STEADY * m.load.writers)
    runs = [simulated_run(m.load, service, seed, length) for seed in MANY_SEEDS]
    spread = {k: [r.figures[k] for r, _ in runs if k in r.figures] for k in wrong}
    if m.length is not None and all(v and min(v) <= m.figures[k] <= max(v) for k, v in spread.items()):
        ranges = ", ".join(f"{k} from {min(v):.3g} to {max(v):.3g}" for k, v in spread.items())
        return f"{words}: by chance alone, simulated runs of this length have {ranges}; longer runs would tell"
    simulated = measured(m.load, [e.operation for _, ended in runs for e in ended], {})
    both = {p: (model, real) for p in OPERATION_PHASES if (model := simulated.mean_ms(p)) and (real := m.mean_ms(p))}
    all_ms = sum(real for _, real in both.values())
    off = {
        p: (model, real) for p, (model, real) in both.items() if abs(model - real) > max(NEAR * real, MATTERS * all_ms)
    }
    if not off:
        meet = "the times at which writers meet differ"
        pause = "the pauses that the seeds of the runs draw differ from the simulation's"
        return f"{words}: every phase is as long as predicted, so {pause if m.load.pace_s else meet}"
    worst = max(off, key=lambda p: abs(off[p][0] - off[p][1]))
    model, real = off[worst]
    return (
        f"{words}: the model says {model:.3g} ms for {worst}, {real:.3g} ms were measured; "
        f"something makes it {'slower' if real > model else 'faster'} here that the calibration points do not show"
    )
