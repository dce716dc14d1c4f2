"""Whether a figure of a night is worse than it was in the nights before: the rule of the soak's page and of ``icequake trend``.

Each night has one value, the median over its runs. Let b be the median of the earlier nights' values. The *least difference* is a tenth of
b (of a share: 0.02). An earlier value is an *outlier* if it differs from b by more than the least difference and by more than
:data:`OUTLIER` robust deviations (1.4826 times the median distance from b, which is the standard deviation of normal noise, and which a
few bad nights do not change). The noise s is the standard deviation of the n earlier values that are no outliers, times the square root of
1 + 1/n: it is that of one more such value about their middle.

The newest value is a *regression* if it is worse than b by more than 3 s and by more than the least difference; if the same holds in the
other direction, it is *better*. So a bad night hides no later one, neither by its value nor by the noise that it would add. With fewer
than :data:`FEWEST_NIGHTS` earlier nights there are *too few* to say. A value that is no number, or that is missing although an earlier night
has one, is *no number*, however few nights there are. ``docs/lake.md`` says how often noise alone makes a regression.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite, sqrt
from statistics import median, stdev
from typing import Literal

from checkers.costs.measures import Figure

FEWEST_NIGHTS = 5
"""Earlier nights that the rule needs."""
NOISES, SHARE, ABSOLUTE = 3.0, 0.1, 0.02
"""By how much a regression is worse: so many times the noise, and this part of the median (of a share: this much)."""
OUTLIER = 4.0
"""Robust deviations beyond which an earlier night does not count for the noise. Simulated: with 3, five earlier nights lose so many ordinary
values that noise alone makes more regressions than docs/lake.md says; with 5, one bad night hides a fifth of the later ones."""
TO_DEVIATION = 1.4826
"""A median of distances from the median, times this, is the standard deviation if they are normal: 1 / Φ⁻¹(3/4)."""
State = Literal["regression", "better", "noise", "too few", "no number"]
FAILURES: tuple[State, ...] = ("regression", "no number")


@dataclass(frozen=True, slots=True)
class Against:
    """A value against those of earlier nights.

    Attributes:
        before: their median; None without any.
        noise: s of the module's text.
        nights: how many have a number.
    """

    state: State
    before: float | None
    noise: float | None
    nights: int


def against(value: float | None, before: Sequence[float], figure: Figure) -> Against:
    """What the rule says of a figure's value after those of earlier nights, in the figure's unit.

    Args:
        value: None: nothing was measured.
    """
    earlier = [x for x in before if isfinite(x)]
    lost = value is None or not isfinite(value)
    if not earlier:
        return Against("no number" if lost and value is not None else "too few", None, None, 0)
    b = median(earlier)
    least = ABSOLUTE if figure.unit == "share" else SHARE * abs(b)
    s = _noise(earlier, b, least)
    state: State = "noise"
    if value is None or lost:
        state = "no number"
    elif len(earlier) < FEWEST_NIGHTS:
        state = "too few"
    elif abs(value - b) > max(NOISES * s, least):
        state = "better" if (value > b) == (figure.better == "more") else "regression"
    return Against(state, b, s, len(earlier))


def _noise(earlier: Sequence[float], b: float, least: float) -> float:
    """s of the module's text."""
    furthest = max(least, OUTLIER * TO_DEVIATION * median(abs(x - b) for x in earlier))
    usual = [x for x in earlier if abs(x - b) <= furthest]
    return stdev(usual) * sqrt(1 + 1 / len(usual)) if len(usual) > 1 else 0.0
