"""Whether a figure of a night is worse than it was in the nights before: the rule of the soak's page and of ``icequake trend``.

Let b be the median of the earlier nights' values (each the median over the runs of a night), and s their noise, 1.4826 times the median
of their distances from b (the median absolute deviation; the factor makes it the standard deviation of normal noise). The newest value is
a *regression* if all of this holds: it is worse than each earlier one; it is worse than b by more than 3 s; it is worse than b by more
than a tenth of b (a share: by more than 0.02). If the same holds in the other direction, it is *better*. With fewer than :data:`FEWEST`
earlier nights there are *too few* to say. ``docs/lake.md`` says how often noise alone makes a regression.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal

from checkers.costs.measures import Figure

FEWEST = 5
"""Earlier nights that the rule needs."""
NOISES, SHARE, ABSOLUTE = 3.0, 0.1, 0.02
"""By how much a regression is worse: so many times the noise, and this part of the median (of a share: this much)."""
TO_DEVIATION = 1.4826
State = Literal["regression", "better", "noise", "too few"]


@dataclass(frozen=True, slots=True)
class Against:
    """A value against those of earlier nights.

    Attributes:
        before: their median; None without any.
        noise: s of the module's text.
        nights: how many there are.
    """

    state: State
    before: float | None
    noise: float | None
    nights: int


def against(value: float, before: Sequence[float], figure: Figure) -> Against:
    """What the rule says of a figure's value after those of earlier nights, in the figure's unit."""
    if not before:
        return Against("too few", None, None, 0)
    b = median(before)
    s = TO_DEVIATION * median(abs(x - b) for x in before)
    if len(before) < FEWEST:
        return Against("too few", b, s, len(before))
    least = max(NOISES * s, ABSOLUTE if figure.unit == "share" else SHARE * abs(b))
    up, down = value > max(before) and value - b > least, value < min(before) and b - value > least
    state: State = "noise"
    if up or down:
        state = "better" if up == (figure.better == "more") else "regression"
    return Against(state, b, s, len(before))
