"""The reduction of a failing candidate, against every subset of small ones: what it keeps fails, and every part of it is needed."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence
from itertools import combinations
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkers.judge.ddmin import ddmin
from harness.experiments.shrink.reduction import (
    BudgetSpent,
    Oracle,
    Pass,
    Reduced,
    Tries,
    first_failing,
    patient,
    reduced,
)

Parts = frozenset[int]
SIZE = 7
UNITS: Pass[Parts] = Pass("number", sorted, lambda c, gone: c - {*gone})
"""Takes away single numbers."""


def halves(c: Parts) -> Sequence[Hashable]:
    """Which of the two halves of the numbers there are."""
    return sorted({n >= SIZE // 2 for n in c})


def without_halves(c: Parts, gone: Collection[Hashable]) -> Parts | None:
    """Without the numbers of some halves; nothing at all is no candidate."""
    return frozenset(n for n in c if (n >= SIZE // 2) not in gone) or None


HALVES: Pass[Parts] = Pass("half", halves, without_halves)


def subsets(of: Parts) -> list[Parts]:
    """All of them, the smallest first."""
    return [frozenset(some) for n in range(len(of) + 1) for some in combinations(sorted(of), n)]


WHOLE = frozenset(range(SIZE))
parts = st.frozensets(st.integers(0, SIZE - 1))
families = st.frozensets(parts, max_size=40).map(lambda family: family | {WHOLE})
"""Sets of candidates that fail, the whole among them; nothing else is common to them."""


def asked(family: Collection[Parts]) -> Oracle[Parts]:
    """Whether a candidate is in the family."""
    return lambda c: Tries(int(c in family), 1)


@given(family=families)
def test_what_is_left_fails_and_fails_no_longer_without_any_one_part(family: frozenset[Parts]) -> None:
    """Of any family, monotone or not, compared with all of its members that are 1-minimal."""
    left = reduced(WHOLE, [UNITS], asked(family))
    one_minimal = [c for c in subsets(WHOLE) if c in family and not any(c - {n} in family for n in c)]
    assert left.minimal
    assert left.candidate in one_minimal


@given(family=families)
def test_no_pass_can_take_away_more_whatever_other_passes_there_are(family: frozenset[Parts]) -> None:
    left = reduced(WHOLE, [HALVES, UNITS], asked(family)).candidate
    assert left in family
    assert not any(left - {n} in family for n in left)
    assert not any(without_halves(left, [h]) in family for h in halves(left))


@given(needed=parts)
def test_what_alone_makes_it_fail_is_all_that_is_left(needed: Parts) -> None:
    """A monotone oracle with one smallest candidate: the reduction finds the minimum of a search through all subsets."""

    def fails(c: Parts) -> Tries:
        return Tries(int(needed <= c), 1)

    smallest = next(c for c in subsets(WHOLE) if fails(c).fails)
    assert reduced(WHOLE, [HALVES, UNITS], fails) == Reduced(smallest, minimal=True)


@given(cores=st.lists(parts, min_size=1, max_size=4))
def test_of_several_causes_exactly_one_is_left(cores: list[Parts]) -> None:
    """A monotone oracle: the 1-minimal candidates are the causes that contain no other one."""
    left = reduced(WHOLE, [UNITS], lambda c: Tries(int(any(core <= c for core in cores)), 1)).candidate
    assert left in [core for core in cores if not any(other < core for other in cores)]


@given(needed=parts, seed=st.integers(0, 2**20), tries=st.integers(1, 4))
def test_a_flaky_failure_leaves_all_that_it_needs(needed: Parts, seed: int, tries: int) -> None:
    """A coin decides each run of a candidate that can fail. What is left has failed, so it has the cause; luck can only leave more."""
    coin, failed = Random(seed), {WHOLE}

    def once(c: Parts) -> bool:
        shows = needed <= c and coin.random() < 0.6
        failed.update([c] if shows else [])
        return shows

    left = reduced(WHOLE, [HALVES, UNITS], patient(once, tries))
    assert needed <= left.candidate
    assert left.candidate in failed


def test_more_tries_leave_less_of_a_flaky_failure() -> None:
    def size(seed: int, tries: int) -> int:
        coin = Random(seed)

        def once(c: Parts) -> bool:
            return {2, 5} <= c and coin.random() < 0.5

        return len(reduced(WHOLE, [UNITS], patient(once, tries)).candidate)

    sizes = {tries: sum(size(seed, tries) for seed in range(200)) / 200 for tries in (1, 3, 8)}
    assert sizes[1] > sizes[3] > sizes[8] == pytest.approx(2, abs=0.1)


@pytest.mark.parametrize("tries", [1, 2, 5])
def test_a_candidate_is_run_until_it_fails_and_no_oftener_than_it_may(tries: int) -> None:
    runs: list[int] = []

    def once(fails_in: int) -> bool:
        runs.append(fails_in)
        return len(runs) == fails_in

    tried = patient(once, tries)
    assert tried(99) == Tries(0, tries)
    assert len(runs) == tries
    runs.clear()
    assert tried(1) == Tries(1, 1)
    assert len(runs) == 1


@given(family=families, budget=st.integers(0, 30))
def test_a_spent_budget_leaves_the_smallest_so_far(family: frozenset[Parts], budget: int) -> None:
    seen, kept = [WHOLE], [WHOLE]

    def tried(c: Parts) -> Tries:
        if len(seen) > budget:
            raise BudgetSpent
        seen.append(c)
        return Tries(int(c in family), 1)

    left = reduced(WHOLE, [UNITS], tried, kept.append)
    assert left.candidate == kept[-1]
    assert left.candidate in family
    assert [c for c in seen if c in family and len(c) < len(left.candidate)] == []
    if not left.minimal:
        assert len(seen) == budget + 1


def test_the_same_answers_lead_to_the_same_questions() -> None:
    """So a log of the answers is enough to go on with a search that was stopped."""
    family = frozenset({WHOLE, WHOLE - {0}, WHOLE - {0, 3}, frozenset({1, 5})})

    def questions() -> list[Parts]:
        asked_for: list[Parts] = []

        def tried(c: Parts) -> Tries:
            asked_for.append(c)
            return Tries(int(c in family), 1)

        reduced(WHOLE, [HALVES, UNITS], tried)
        return asked_for

    assert questions() == questions() != []


def test_the_first_guess_that_fails_is_taken() -> None:
    tried: list[Parts] = []

    def fails(c: Parts) -> Tries:
        tried.append(c)
        return Tries(int(len(c) > 2), 1)

    guesses = [frozenset({1}), frozenset({1, 2, 3}), WHOLE]
    assert first_failing(guesses, fails) == frozenset({1, 2, 3})
    assert tried == guesses[:2]
    assert first_failing(guesses[:1], fails) is None


@given(family=families, least=st.integers(0, 3))
def test_no_fewer_parts_are_left_than_must_be(family: frozenset[Parts], least: int) -> None:
    left = ddmin(sorted(WHOLE), lambda some: frozenset(some) in family, least=least)
    assert len(left) >= least
    assert frozenset(left) in family
    assert len(left) == least or not any(frozenset(left) - {n} in family for n in left)
