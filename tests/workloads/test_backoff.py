"""What a writer waits before it tries a refused commit again."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workloads.backoff import POLICIES, Backoff, RetryLimits

policies = st.sampled_from(sorted(POLICIES))
waits = st.floats(min_value=1, max_value=1000)


def series(policy: str, retries: RetryLimits, attempts: int, rng: Random) -> list[float]:
    """The waits (ms) after attempts 1, 2, …, each knowing the one before."""
    backoff, previous, found = Backoff(policy, retries), 0.0, []
    for attempt in range(1, attempts + 1):
        previous = backoff.wait(attempt, previous, rng)
        found.append(previous * 1000)
    return found


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ("none", [0, 0, 0, 0, 0]),
        ("linear", [100, 200, 300, 350, 350]),
        ("exponential", [100, 200, 350, 350, 350]),
    ],
)
def test_policies_without_randomness_wait_by_their_formula_up_to_the_cap(policy: str, expected: list[float]) -> None:
    assert series(policy, RetryLimits(max_wait_ms=350), 5, Random(0)) == pytest.approx(expected)


@given(waits, st.integers(1, 80), st.randoms(use_true_random=False))
def test_jitter_scatters_by_half_around_the_exponential_wait(base: float, attempt: int, rng: Random) -> None:
    retries = RetryLimits(min_wait_ms=base)
    plain = Backoff("exponential", retries).wait(attempt, 0, rng)
    assert 0.5 * plain <= Backoff("exponential+jitter", retries).wait(attempt, 0, rng) <= 1.5 * plain


def test_jitter_waits_as_long_as_without_on_average() -> None:
    rng, jitter = Random(1), Backoff("exponential+jitter")
    assert sum(jitter.wait(3, 0, rng) for _ in range(20_000)) / 20_000 == pytest.approx(0.4, rel=0.01)


@given(st.integers(0, 1000), st.integers(1, 80), st.randoms(use_true_random=False))
def test_iceberg_adds_less_than_a_tenth_in_whole_milliseconds(base: int, attempt: int, rng: Random) -> None:
    retries = RetryLimits(min_wait_ms=base)
    plain = Backoff("exponential", retries).wait(attempt, 0, rng) * 1000
    wait = Backoff("iceberg", retries).wait(attempt, 0, rng) * 1000
    assert plain <= wait + 1e-6 and wait <= 1.1 * plain + 1e-6
    assert wait == pytest.approx(round(wait), abs=1e-6)


@given(waits, st.integers(1, 30), st.randoms(use_true_random=False))
def test_decorrelated_waits_between_the_base_and_three_times_the_wait_before(base: float, n: int, rng: Random) -> None:
    found = series("decorrelated", RetryLimits(min_wait_ms=base), n, rng)
    for before, wait in zip([base, *found], found, strict=False):
        assert min(base, 60_000) - 1e-6 <= wait <= min(60_000, 3 * before) + 1e-6


@given(policies, st.integers(1, 2000), st.randoms(use_true_random=False))
def test_no_wait_exceeds_the_cap_by_more_than_its_jitter(policy: str, attempt: int, rng: Random) -> None:
    assert 0 <= Backoff(policy).wait(attempt, 1e6, rng) <= 60 * 1.5


@given(policies, st.integers(0, 2**32))
def test_the_same_seed_waits_the_same(policy: str, seed: int) -> None:
    assert series(policy, RetryLimits(), 6, Random(seed)) == series(policy, RetryLimits(), 6, Random(seed))


def test_a_commit_ends_after_its_retries_or_its_time() -> None:
    retries = RetryLimits(num_retries=4, total_timeout_ms=1000)
    assert [n for n in range(1, 9) if retries.allows_another(n, 0.5)] == [1, 2, 3, 4]
    assert [n for n in range(1, 9) if retries.allows_another(n, 1.5)] == [1]
    assert not RetryLimits(num_retries=0).allows_another(1, 0)


def test_the_defaults_are_icebergs() -> None:
    assert RetryLimits().properties() == {
        "commit.retry.num-retries": 4,
        "commit.retry.min-wait-ms": 100,
        "commit.retry.max-wait-ms": 60_000,
        "commit.retry.total-timeout-ms": 1_800_000,
    }


def test_an_unknown_policy_or_a_negative_number_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match=r"no backoff policy 'fibonacci'; there are none, linear"):
        Backoff("fibonacci")
    with pytest.raises(ValueError, match=r"commit\.retry\.min-wait-ms is -1: it must be 0 or more"):
        RetryLimits(min_wait_ms=-1)
