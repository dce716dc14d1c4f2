"""The rule by which a night is worse: noise alone seldom makes a regression, and a real shift is found."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkers.costs.measures import FIGURES, Figure
from checkers.costs.worse import FEWEST, against

FIGURE = {f.key: f for f in FIGURES}
SPEED, SHARE = FIGURE["commits_per_s"], FIGURE["retried"]
NIGHTS = 2000
"""Simulated nights, each with its own earlier ones: a rate is known to about half a hundredth."""


def rate(noise: float, earlier: int, shift: float, *, heavy: bool = False) -> float:
    """How often a night is a regression.

    Args:
        noise: standard deviation of a night, as a share of the median.
        shift: what the newest night's value is multiplied by.
        heavy: noise with a normal logarithm and ten times as much of it in a tenth of the nights.
    """
    rng = np.random.default_rng([int(100 * noise), earlier, int(100 * shift)])
    values = rng.normal(100, 100 * noise, (NIGHTS, earlier + 1))
    if heavy:
        sizes = np.where(rng.random(values.shape) < 0.1, 5 * noise, noise)
        values = 100 * np.exp(rng.normal(0, 1, values.shape) * sizes)
    values[:, -1] *= shift
    return sum(against(v[-1], v[:-1], SPEED).state == "regression" for v in values.tolist()) / NIGHTS


@pytest.mark.parametrize(
    ("noise", "earlier", "most"),
    [
        (0.05, 5, 0.03),
        (0.05, 7, 0.03),
        (0.05, 14, 0.015),
        (0.1, 7, 0.045),
        (0.2, 5, 0.065),
        (0.2, 7, 0.045),
        (0.2, 14, 0.02),
    ],
)
def test_noise_alone_seldom_is_a_regression(noise: float, earlier: int, most: float) -> None:
    assert rate(noise, earlier, 1.0) <= most


def test_noise_with_bad_nights_is_a_regression_at_most_a_little_more_often() -> None:
    assert rate(0.05, 7, 1.0, heavy=True) <= 0.08


@pytest.mark.parametrize(
    ("noise", "earlier", "shift", "least"),
    [(0.02, 7, 0.8, 0.99), (0.05, 7, 0.7, 0.95), (0.05, 14, 0.7, 0.98), (0.1, 14, 0.5, 0.9)],
)
def test_a_real_shift_is_found(noise: float, earlier: int, shift: float, least: float) -> None:
    assert rate(noise, earlier, shift) >= least
    assert rate(noise, earlier, 1 / shift) == 0, "faster is not worse"


VALUES = st.lists(st.floats(0.01, 1e6), min_size=FEWEST, max_size=20)


@given(VALUES, st.floats(0.01, 1e6), st.sampled_from([SPEED, FIGURE["write_p50_ms"]]))
def test_the_rule_holds_in_both_directions(before: list[float], value: float, figure: Figure) -> None:
    told = against(value, before, figure).state
    beyond = value > max(before) or value < min(before)
    assert told == "noise" or (beyond and (told == "better") == ((value > max(before)) == (figure.better == "more")))


@given(VALUES, st.floats(0.01, 1e6), st.floats(0.001, 1000))
def test_the_unit_does_not_matter(before: list[float], value: float, unit: float) -> None:
    told = {against(value * k, [x * k for x in before], SPEED).state for k in (1.0, unit)}
    near = against(value, before, SPEED)
    assert near.before is not None and near.noise is not None
    edge = max(3 * near.noise, 0.1 * near.before)
    assert len(told) == 1 or abs(abs(value - near.before) - edge) < 1e-9 * max(value, near.before, edge)


@given(st.lists(st.floats(0, 1), min_size=FEWEST, max_size=20), st.floats(0, 1))
def test_a_share_is_worse_by_more_than_two_hundredths(before: list[float], value: float) -> None:
    told = against(value, before, SHARE)
    assert told.before is not None
    assert told.state == "noise" or abs(value - told.before) > 0.02


@given(st.lists(st.floats(0.01, 1e6), max_size=FEWEST - 1), st.floats(0.01, 1e6))
def test_too_few_nights_say_nothing(before: list[float], value: float) -> None:
    assert against(value, before, SPEED).state == "too few"
