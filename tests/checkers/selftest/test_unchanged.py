"""The trials judge a table that a change leaves as it was only once, and say the same as if they judged it each time."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from checkers.evidence.evidence import Evidence
from checkers.evidence.replace import replace
from checkers.judge.check import ALL as CHECKERS
from checkers.selftest import ALL, recorded, unchanged
from checkers.selftest.world import World
from checkers.unit import Part, TableChecker, Unit

BY_NAME = {c.name: c for c in CHECKERS}


@pytest.fixture(scope="module")
def worlds() -> list[World]:
    found = [World(recorded.load(name), Random(0)) for name in recorded.names()]
    assert any(len(w.evidence.logs) > 1 for w in found)
    return found


@pytest.mark.parametrize("checker", sorted({m.checker for m in ALL} & BY_NAME.keys()))
def test_the_verdict_is_that_on_the_whole_run(checker: str, worlds: list[World]) -> None:
    for n, m in enumerate([m for m in ALL if m.checker == checker][::5]):
        w = worlds[n % len(worlds)]
        bug = m.plant(w.with_rng(Random(n)))
        if bug is not None:
            said = unchanged.check(BY_NAME[checker], bug.evidence, w.evidence)
            assert said == BY_NAME[checker].check(bug.evidence), m.name


class Counting(TableChecker):
    """Counts how often it judges each table."""

    name = "counting"

    def __init__(self) -> None:
        self.judged: Counter[str] = Counter()

    def part(self, unit: Unit) -> Part:
        self.judged[unit.name] += 1
        return Part(unit.name)


def several(worlds: list[World]) -> Evidence:
    """A run with several tables, of which nothing is known yet."""
    return replace(next(w.evidence for w in worlds if len(w.evidence.logs) > 1))


def test_a_table_that_a_change_leaves_as_it_was_is_judged_once(worlds: list[World]) -> None:
    good, checker = several(worlds), Counting()
    first, *others = good.logs
    for _ in range(3):
        changed = replace(good, logs={**good.logs, first: replace(good.logs[first], complete=False)})
        assert len(unchanged.check(checker, changed, good).stats["tables"]) == 0
    assert checker.judged == {first: 3} | dict.fromkeys(others, 1)


def test_nothing_is_taken_for_unchanged_that_a_table_is_judged_by(worlds: list[World]) -> None:
    good = several(worlds)
    first, *others = good.logs
    assert unchanged.unchanged(replace(good), good) == good.logs.keys()
    swaps = {**good.swaps, first: good.swaps.get(first, ())[1:] or (object(),)}
    for changed in (
        replace(good, swaps=swaps),
        replace(good, accepted={**good.accepted, first: (object(),)}),
        replace(good, carried={**good.carried, first: (object(),)}),
        replace(good, labels={**good.labels, first: object()}),
        replace(good, tables={**good.tables, first: good.tables[first].model_copy(update={"seed_rows": 99})}),
        replace(good, tables={name: good.tables[name] for name in others}),
        replace(good, logs={**good.logs, first: replace(good.logs[first])}),
    ):
        assert unchanged.unchanged(changed, good) == frozenset(others)
    for changed in (
        replace(good, complete=not good.complete),
        replace(good, proxied=not good.proxied),
        replace(good, history=replace(good.history)),
    ):
        assert unchanged.unchanged(changed, good) == frozenset()


def test_a_copy_of_a_checker_is_not_told_what_another_one_said(worlds: list[World]) -> None:
    good, one, other = several(worlds), Counting(), Counting()
    for checker in (one, other, one):
        unchanged.check(checker, replace(good), good)
    assert one.judged == other.judged == dict.fromkeys(good.logs, 1)
