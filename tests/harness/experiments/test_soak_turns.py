"""Whose turn it is: every cell as often as any other, a stack's cells together, and the same order for the same seed."""

from __future__ import annotations

import itertools
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from harness.experiments.soakturns import MOST_TRIES, NightTurns
from workloads.file.suite import Cell

WORKLOADS, CATALOGS = ("a", "b", "c", "d"), ("rest", "jdbc", "hive")


def cells(workloads: int, catalogs: int) -> list[Cell]:
    return [Cell(w, c, "none", "1.12.0", "") for c in CATALOGS[:catalogs] for w in WORKLOADS[:workloads]]


def drawn(turns: NightTurns, count: int, before: Counter[Cell] | None = None) -> list[Cell]:
    """The cells of so many runs, on the stack of the run before."""
    counts, out = Counter(before or {}), list[Cell]()
    for _ in range(count):
        cell = turns.next(counts, out[-1].stack if out else None)
        assert cell is not None
        counts[cell] += 1
        out.append(cell)
    return out


SIZES = (st.integers(1, 4), st.integers(1, 3))


@given(*SIZES, st.integers(0, 2**31), st.integers(1, 60), st.sampled_from(["drawn", "listed"]))
def test_no_cell_is_more_than_one_run_ahead_of_another(w: int, c: int, seed: int, count: int, order: str) -> None:
    all_of_them = cells(w, c)
    found = drawn(NightTurns(all_of_them, seed, order), count)  # type: ignore[arg-type]
    for n in range(1, count + 1):
        so_far = Counter(found[:n])
        assert max(so_far.values()) - min(so_far[cell] for cell in all_of_them) <= 1


@given(*SIZES, st.integers(0, 2**31), st.integers(2, 60))
def test_a_stack_is_started_once_in_a_round_and_the_last_one_of_a_round_goes_on(
    w: int, c: int, seed: int, count: int
) -> None:
    found = drawn(NightTurns(cells(w, c), seed), count)
    starts = sum(a.stack != b.stack for a, b in itertools.pairwise(found))
    rounds = -(-count // (w * c))
    assert starts <= rounds * (c - 1)


@given(*SIZES, st.integers(0, 2**31), st.integers(1, 4))
def test_a_stack_that_is_ended_within_its_round_goes_on_when_the_others_have_had_as_much(
    w: int, c: int, seed: int, each: int
) -> None:
    turns, counts = NightTurns(cells(w, c), seed), Counter[Cell]()
    for _ in range(c):
        on = None
        for _ in range(min(each, w)):
            cell = turns.next(counts, on)
            assert cell is not None and on in (None, cell.stack)
            counts[cell] += 1
            on = cell.stack
    assert len({cell.catalog for cell in counts}) == c


@given(*SIZES, st.integers(0, 2**31), st.integers(0, 40), st.integers(1, 40))
def test_a_night_that_is_continued_draws_as_one_that_was_not_stopped(
    w: int, c: int, seed: int, before: int, after: int
) -> None:
    whole = drawn(NightTurns(cells(w, c), seed), before + after)
    first = whole[:before]
    turns, counts = NightTurns(cells(w, c), seed), Counter(first)
    again = [turns.next(counts, first[-1].stack if first else None)]
    assert again == whole[before : before + 1]
    assert [turns.seed_of(cell, n) for n, cell in enumerate(whole)] == [
        NightTurns(cells(w, c), seed).seed_of(cell, n) for n, cell in enumerate(whole)
    ]


def test_another_seed_draws_another_order_and_other_seeds() -> None:
    one, other = (NightTurns(cells(4, 3), seed) for seed in (1, 2))
    assert drawn(one, 24) != drawn(other, 24)
    cell = cells(1, 1)[0]
    seeds = {t.seed_of(cell, n) for t in (one, other) for n in range(100)}
    assert len(seeds) == 200 and all(0 <= s < 2**31 for s in seeds)


def test_a_listed_order_is_that_of_the_cells() -> None:
    assert drawn(NightTurns(cells(2, 2), 5, "listed"), 4) == cells(2, 2)


def test_a_round_differs_from_the_one_before() -> None:
    found = drawn(NightTurns(cells(4, 3), 3), 60)
    assert len({tuple(found[n : n + 12]) for n in range(0, 60, 12)}) > 1


def test_a_heavy_cell_comes_early_and_runs_no_more_often() -> None:
    heavy = cells(4, 1)[2]
    first = Counter[Cell]()
    for seed in range(200):
        found = drawn(NightTurns(cells(4, 1), seed, weight=lambda c: 8.0 if c == heavy else 1.0), 8)
        first[found[0]] += 1
        assert Counter(found)[heavy] == 2
    assert first[heavy] > 100 and len(first) == 4


@given(st.integers(0, 2**31), st.sampled_from(CATALOGS))
def test_a_stack_that_does_not_come_up_is_tried_again_in_later_rounds_and_then_given_up(seed: int, down: str) -> None:
    turns, counts, tries = NightTurns(cells(2, 3), seed), Counter[Cell](), list[int]()
    up: tuple[str, str] | None = None
    for _ in range(40):
        cell = turns.next(counts, up)
        assert cell is not None
        if cell.catalog == down:
            tries.append(counts.total())
            assert turns.failed(cell.stack, counts) == (len(tries) == MOST_TRIES)
            up = None
        else:
            counts[cell] += 1
            up = cell.stack
            turns.came_up(up)
    assert len(tries) == MOST_TRIES
    assert tries[2] - tries[1] == 4 and 1 <= tries[1] - tries[0] <= 6, "the others go on in between"
    others = [counts[c] for c in cells(2, 3) if c.catalog != down]
    assert max(others) - min(others) <= 1 and not any(counts[c] for c in cells(2, 3) if c.catalog == down)


def test_a_stack_that_comes_up_later_catches_up() -> None:
    turns, counts, failed = NightTurns(cells(2, 2), 7), Counter[Cell](), 0
    for _ in range(30):
        cell = turns.next(counts)
        assert cell is not None
        if cell.catalog == "jdbc" and failed < 2:
            failed += 1
            assert not turns.failed(cell.stack, counts)
            continue
        turns.came_up(cell.stack)
        counts[cell] += 1
    assert failed == 2 and max(counts.values()) - min(counts[c] for c in cells(2, 2)) <= 1


def test_when_no_stack_comes_up_nothing_is_left() -> None:
    turns, failed = NightTurns(cells(2, 2), 1), 0
    while (cell := turns.next({})) is not None:
        turns.failed(cell.stack, {})
        failed += 1
        assert failed <= 2 * MOST_TRIES
    assert failed == 2 * MOST_TRIES and turns.all_wait
