"""Turns by rarity: no cell starves, the rest of the runs go where more is left to see, and the same night draws the same."""

from __future__ import annotations

import itertools
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from checkers.coverage.pair import Pair
from checkers.coverage.possible import of_workload
from harness.experiments.soakrare import EVEN, RareTurns, rarity_of
from workloads.file import workload as files
from workloads.file import workload_text
from workloads.file.suite import Cell
from workloads.file.workload import Length, Workload

SIZES = (st.integers(1, 4), st.integers(1, 3), st.integers(0, 2**31))


def cells(workloads: int, catalogs: int) -> list[Cell]:
    return [Cell(w, c, "none", "1.12.0", "") for c in ("rest", "jdbc", "hive")[:catalogs] for w in "abcd"[:workloads]]


def drawn(turns: RareTurns, made: list[Cell], count: int) -> list[Cell]:
    """``made`` with so many further runs, each on the stack of the run before."""
    turns.made = lambda: made
    for _ in range(count):
        cell = turns.next(Counter(made), made[-1].stack if made else None)
        assert cell is not None
        made.append(cell)
    return made


def by_name(weights: list[float]) -> dict[str, float]:
    return dict(zip("abcd", weights, strict=False))


WEIGHTS = st.lists(st.floats(0, 1), min_size=4, max_size=4)


@given(*SIZES, WEIGHTS, st.integers(1, 4))
def test_every_cell_has_a_run_in_every_round_of_its_stack(
    w: int, c: int, seed: int, weights: list[float], rounds: int
) -> None:
    of = by_name(weights)
    found = drawn(RareTurns(cells(w, c), seed, weight=lambda x: of[x.workload]), [], rounds * c * w * EVEN)
    for stack in {x.stack for x in found}:
        mine = [x for x in found if x.stack == stack]
        for n in range(rounds):
            assert len({*mine[n * w * EVEN : n * w * EVEN + w]}) == w


@given(*SIZES, WEIGHTS)
def test_a_stack_is_started_once_in_a_round(w: int, c: int, seed: int, weights: list[float]) -> None:
    of = by_name(weights)
    found = drawn(RareTurns(cells(w, c), seed, weight=lambda x: of[x.workload]), [], 3 * c * w * EVEN)
    assert sum(a.stack != b.stack for a, b in itertools.pairwise(found)) <= 3 * (c - 1)


@given(*SIZES, WEIGHTS, st.integers(0, 30), st.integers(1, 20))
def test_a_night_that_is_continued_draws_as_one_that_was_not_stopped(
    w: int, c: int, seed: int, weights: list[float], before: int, after: int
) -> None:
    of = by_name(weights)
    make = lambda: RareTurns(cells(w, c), seed, weight=lambda x: of[x.workload])  # noqa: E731
    whole = drawn(make(), [], before + after)
    assert drawn(make(), whole[:before], after) == whole


def test_a_cell_with_more_left_to_see_has_more_runs() -> None:
    of = {"a": 0.8, "b": 0.1, "c": 0.1}
    found = Counter(x.workload for x in drawn(RareTurns(cells(3, 1), 7, weight=lambda x: of[x.workload]), [], 600))
    assert found["a"] > 1.5 * max(found["b"], found["c"])  # 340 of 600 are expected
    assert min(found["b"], found["c"]) >= 100  # one in each of the 100 rounds


def test_a_stack_that_is_given_up_leaves_the_turns_to_the_others() -> None:
    turns = RareTurns(cells(2, 2), 3)
    lost = cells(2, 2)[0].stack
    while not turns.failed(lost, Counter()):
        pass
    assert {x.stack for x in drawn(turns, [], 20)} == {cells(2, 2)[-1].stack}


def test_a_stack_that_failed_comes_back_when_the_others_ended_their_round() -> None:
    turns = RareTurns(cells(2, 2), 3)
    lost = cells(2, 2)[0].stack
    assert not turns.failed(lost, Counter())
    found = drawn(turns, [], 5)
    assert [x.stack == lost for x in found] == [False] * 4 + [True]


def workload(name: str) -> Workload:
    return workload_text.load(files.find(name)).model_copy(update={"length": Length(time=5), "phases": ()})


def test_what_was_seen_makes_a_cell_light() -> None:
    a, b = cells(2, 1)
    seen: Counter[Pair] = Counter()
    weight = rarity_of({a: workload("contention"), b: workload("snapshot-mor")}, lambda: seen)
    assert weight(a) == weight(b) == 1
    seen.update(of_workload(workload("contention")))
    assert weight(a) == 0.5 and weight(b) > weight(a)
