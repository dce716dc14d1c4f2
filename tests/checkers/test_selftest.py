"""The self-test: every known bug is found by its checker wherever it is planted, in recorded runs and in simulated ones."""

from __future__ import annotations

import re
from random import Random

import pytest

from checkers.evidence.evidence import Evidence
from checkers.evidence.replace import replace
from checkers.judge.check import ALL as CHECKERS
from checkers.metadata.rules import RULES
from checkers.selftest import ALL, recorded, trial
from checkers.selftest.mutation import Mutation
from checkers.selftest.world import Planted, World
from checkers.verdict import Checker, Verdict
from tests.support.runs import icequake
from tests.support.simulator import ROW_BY_ROW, simulate
from workloads.tables import TableSpec

PLACEMENTS = 12
BY_NAME = {c.name: c for c in CHECKERS}
MINE = [m for m in ALL if m.checker in BY_NAME]
SPECS = (
    TableSpec(name="a", mode="copy-on-write", partitioned=False, seed_rows=8),
    TableSpec(name="b", mode="merge-on-read", seed_rows=8),
)


@pytest.fixture(scope="module")
def runs() -> dict[str, Evidence]:
    return {name: recorded.load(name) for name in recorded.names()}


@pytest.fixture(scope="module")
def worlds(runs: dict[str, Evidence]) -> list[World]:
    return [World(e, Random(0)) for e in runs.values()]


@pytest.fixture(scope="module")
def simulated() -> list[World]:
    made = (simulate(s, SPECS, writers=4, ops=30, keys=5, unknown=0.0, mix=ROW_BY_ROW) for s in range(6))
    return [World(s.evidence(), Random(0)) for s in made]


def promised(checker: Checker) -> frozenset[str]:
    """The names of the anomalies that a checker's docstring lists, or its table of rules."""
    if checker.name == "metadata":
        return frozenset(RULES)
    said = (checker.check.__doc__ or "").split("``stats``")[0]
    return frozenset(re.findall(r"``([a-z0-9]+(?:-[a-z0-9]+)*)``", said))


def test_the_recorded_runs_raise_no_alarm(runs: dict[str, Evidence]) -> None:
    assert len(runs) >= 2
    assert [(a.run, a.verdict) for a in trial.alarms(CHECKERS, runs)] == []


@pytest.mark.slow
@pytest.mark.parametrize("mutation", MINE, ids=lambda m: m.name)
def test_the_bug_is_found_in_recorded_runs(mutation: Mutation, worlds: list[World]) -> None:
    score = trial.try_mutation(mutation, BY_NAME[mutation.checker], worlds, placements=PLACEMENTS, seed=1)
    assert score.passed, score.misses
    assert score.planted == PLACEMENTS


@pytest.mark.slow
@pytest.mark.parametrize("checker", list(dict.fromkeys(m.checker for m in MINE)))
def test_the_culprit_is_named_first(checker: str, worlds: list[World]) -> None:
    mine = [m for m in MINE if m.checker == checker]
    scores = [trial.try_mutation(m, BY_NAME[checker], worlds, placements=6, seed=4) for m in mine]
    rest = {s.mutation.name: s.innocents for s in scores if s.accused < s.guilty}
    assert sum(s.accused for s in scores) >= 0.95 * sum(s.guilty for s in scores) > 0, rest
    assert all(s.guilty + sum(s.nobody.values()) == s.planted for s in scores), (
        "a placement without a culprit or a reason"
    )


def test_a_culprit_that_is_named_second_does_not_count(worlds: list[World]) -> None:
    m = next(m for m in MINE if m.name == "false-failure")
    bug = m.plant(worlds[0].again(Random(0)))
    assert bug is not None and bug.culprit is not None
    verdict = BY_NAME[m.checker].check(bug.evidence)
    found = next(a for a in verdict.anomalies if a.name == "false-failure")
    assert trial.accuses(m, bug, verdict)
    behind = replace(found, ops=("w9-9", *found.ops))
    assert not trial.accuses(m, bug, replace(verdict, anomalies=(behind,)))
    innocent = replace(
        found, ops=(*found.ops, "w9-9"), explanation=f"the read (w9-9, process 9) came first; {found.explanation}"
    )
    assert not trial.accuses(m, bug, replace(verdict, anomalies=(innocent,)))
    another = replace(found, ops=("w9-9", bug.culprit), explanation=f"w9-9 and {bug.culprit}")
    assert not trial.accuses(m, bug, replace(verdict, anomalies=(another, found))), "the first report counts"


def test_a_planted_bug_without_a_culprit_says_why(worlds: list[World]) -> None:
    with pytest.raises(ValueError, match="says why"):
        Planted(worlds[0].evidence)
    with pytest.raises(ValueError, match="says why"):
        Planted(worlds[0].evidence, frozenset({"w0-1"}), "w0-1", "the catalog")


@pytest.mark.parametrize("mutation", MINE, ids=lambda m: m.name)
def test_the_bug_is_found_in_simulated_runs(mutation: Mutation, simulated: list[World]) -> None:
    score = trial.try_mutation(mutation, BY_NAME[mutation.checker], simulated, placements=PLACEMENTS, seed=1)
    assert score.detected == score.planted, score.misses


@pytest.mark.parametrize("mutation", MINE, ids=lambda m: m.name)
def test_the_bug_says_what_it_is(mutation: Mutation) -> None:
    assert re.fullmatch(r"[a-z]+(-[a-z0-9]+)*", mutation.name)
    assert mutation.description.endswith((".", ":")) and mutation.seen
    assert mutation.finds <= promised(BY_NAME[mutation.checker]), "a name that the checker does not promise"


def test_there_are_many_and_no_name_twice() -> None:
    assert len({m.name for m in MINE}) == len(MINE) >= 60


@pytest.mark.slow
@pytest.mark.parametrize(
    "checker",
    [c for c in CHECKERS if not c.second_opinion and any(m.checker == c.name for m in MINE)],
    ids=lambda c: c.name,
)
def test_every_anomaly_that_a_checker_promises_is_planted_and_found(checker: Checker, worlds: list[World]) -> None:
    found: set[str] = set()
    for m in MINE:
        if m.checker == checker.name:
            found |= set(trial.try_mutation(m, checker, worlds, placements=4, seed=2).names)
    assert found - {trial.UNKNOWN} == promised(checker)


def test_a_placement_is_the_same_whatever_else_is_tried(worlds: list[World]) -> None:
    m = MINE[0]
    a = trial.try_mutation(m, BY_NAME[m.checker], worlds, placements=3, seed=5)
    trial.try_mutation(MINE[1], BY_NAME[MINE[1].checker], worlds, placements=3, seed=5)
    assert trial.try_mutation(m, BY_NAME[m.checker], worlds, placements=3, seed=5) == a


class Blind(Checker):
    """Finds nothing."""

    name = "blind"

    def check(self, evidence: Evidence) -> Verdict:
        return Verdict(self.name, True)


def test_a_blind_checker_does_not_pass(worlds: list[World]) -> None:
    score = trial.try_mutation(MINE[0], Blind(), worlds, placements=3, seed=0)
    assert not score.passed and score.detected == 0 and len(score.misses) == 3


def test_an_alarm_about_another_operation_does_not_count(worlds: list[World]) -> None:
    m = next(m for m in MINE if m.name == "false-failure")
    bug = m.plant(worlds[0].again(Random(0)))
    assert bug is not None
    verdict = BY_NAME[m.checker].check(bug.evidence)
    assert trial.detects(m, bug, verdict) == {"false-failure"}
    assert trial.detects(m, Planted(bug.evidence, frozenset({"someone-else"}), "someone-else"), verdict) == frozenset()


def test_a_mutation_without_a_place_does_not_pass() -> None:
    empty = World(Evidence(simulate(0, SPECS, ops=0).history, {}, {}), Random(0))
    score = trial.try_mutation(MINE[0], BY_NAME[MINE[0].checker], [empty], placements=3, seed=0)
    assert score.planted == 0 and not score.passed


def test_the_command_says_what_was_found() -> None:
    done = icequake("selftest", "--placements", "2", "--only", "false-failure", "--only", "dirty-read")
    assert done.returncode == 0, done.stderr
    assert "2 bugs, 4 placements in 3 runs: 4 detected, 0 false alarms" in done.stdout


def test_the_command_knows_its_bugs() -> None:
    done = icequake("selftest", "--only", "no-such-bug")
    assert done.returncode == 254 and "no-such-bug: no bug or checker has that name" in done.stderr
