"""The rule by which a night is worse: noise alone seldom makes a regression, and a real shift is found."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkers.costs.measures import FIGURES, Figure
from checkers.costs.worse import FAILURES, FEWEST_NIGHTS, against

FIGURE = {f.key: f for f in FIGURES}
SPEED, SHARE = FIGURE["commits_per_s"], FIGURE["retried"]
NIGHTS = 2000
"""Simulated nights, each with its own earlier ones: a rate is known to about half a hundredth."""


def rate(noise: float, earlier: int, shift: float, *, heavy: bool = False, bad: Sequence[float] = ()) -> float:
    """How often a night is a regression.

    Args:
        noise: standard deviation of a night, as a share of the median.
        shift: what the newest night's value is multiplied by.
        heavy: noise with a normal logarithm and ten times as much of it in a tenth of the nights.
        bad: what the values of the first earlier nights are multiplied by.
    """
    rng = np.random.default_rng([int(100 * noise), earlier, int(100 * shift)])
    values = rng.normal(100, 100 * noise, (NIGHTS, earlier + 1))
    if heavy:
        sizes = np.where(rng.random(values.shape) < 0.1, 5 * noise, noise)
        values = 100 * np.exp(rng.normal(0, 1, values.shape) * sizes)
    values[:, : len(bad)] *= np.array(bad)
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


@pytest.mark.parametrize(
    ("noise", "earlier", "shift", "bad", "least"),
    [
        (0.02, 7, 0.8, [0.7], 0.98),
        (0.05, 7, 0.7, [0.6], 0.85),
        (0.05, 14, 0.7, [0.6], 0.97),
        (0.05, 14, 0.7, [0.6] * 3, 0.75),
    ],
)
def test_a_real_shift_is_found_after_worse_nights(
    noise: float, earlier: int, shift: float, bad: list[float], least: float
) -> None:
    assert rate(noise, earlier, shift, bad=bad) >= least


VALUES = st.lists(st.floats(0.01, 1e6), min_size=FEWEST_NIGHTS, max_size=20)
USUAL = [100.0, 101.0, 99.0, 100.0, 102.0, 98.0]


@pytest.mark.parametrize(
    ("bad", "value", "state"),
    [
        ([60.0], 61.0, "regression"),
        ([60.0], 60.0, "regression"),
        ([0.0], 0.0, "regression"),
        ([60.0], 95.0, "noise"),
        ([60.0, 61.0], 62.0, "regression"),
        ([60.0, 0.0], 61.0, "regression"),
        ([160.0], 159.0, "better"),  # nor does one good night hide another one
        ([160.0], 61.0, "regression"),
    ],
)
def test_a_bad_night_hides_no_later_one(bad: list[float], value: float, state: str) -> None:
    assert against(value, USUAL + bad, SPEED).state == state


def test_what_lasts_becomes_usual_when_most_nights_have_it() -> None:
    assert against(61.0, USUAL + [61.0] * 5, SPEED).state == "regression"
    assert against(61.0, USUAL[1:] + [61.0] * 6, SPEED).state == "noise"


@given(
    st.lists(st.floats(98, 102), min_size=FEWEST_NIGHTS, max_size=20),
    st.floats(0, 70),
    st.floats(0, 70),
    st.floats(0, 200),
)
def test_how_bad_a_bad_night_was_does_not_matter(before: list[float], one: float, other: float, value: float) -> None:
    assert against(value, [*before, one], SPEED) == against(value, [*before, other], SPEED)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("before", [[], USUAL[:2], USUAL, [math.nan] * 6])
def test_what_is_no_number_is_a_failure_however_few_nights_there_are(value: float, before: list[float]) -> None:
    told = against(value, before, SPEED)
    assert told.state == "no number" and told.state in FAILURES


def test_what_is_missing_is_a_failure_if_an_earlier_night_had_it() -> None:
    assert against(None, USUAL[:1], SPEED).state == "no number"
    assert against(None, [], SPEED).state == "too few"


def test_an_earlier_night_without_a_number_does_not_count() -> None:
    assert against(61.0, [math.nan, *USUAL, math.inf], SPEED) == against(61.0, USUAL, SPEED)
    assert against(61.0, [*USUAL[:4], math.nan], SPEED).state == "too few"


@given(VALUES, st.floats(0.01, 1e6), st.sampled_from([SPEED, FIGURE["write_p50_ms"]]))
def test_the_rule_holds_in_both_directions(before: list[float], value: float, figure: Figure) -> None:
    told = against(value, before, figure)
    assert told.before is not None
    assert told.state == "noise" or (told.state == "better") == ((value > told.before) == (figure.better == "more"))


@given(VALUES, st.floats(0.01, 1e6), st.integers(-10, 10))
def test_the_unit_does_not_matter(before: list[float], value: float, power: int) -> None:
    unit = 2.0**power  # multiplies without rounding
    assert against(value * unit, [x * unit for x in before], SPEED).state == against(value, before, SPEED).state


@given(st.lists(st.floats(0, 1), min_size=FEWEST_NIGHTS, max_size=20), st.floats(0, 1))
def test_a_share_is_worse_by_more_than_two_hundredths(before: list[float], value: float) -> None:
    told = against(value, before, SHARE)
    assert told.before is not None
    assert told.state == "noise" or abs(value - told.before) > 0.02


@given(st.lists(st.floats(0.01, 1e6), max_size=FEWEST_NIGHTS - 1), st.floats(0.01, 1e6))
def test_too_few_nights_say_nothing(before: list[float], value: float) -> None:
    assert against(value, before, SPEED).state == "too few"
