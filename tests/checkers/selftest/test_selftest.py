"""The self-test: every known bug is found by its checker wherever it is planted, in recorded runs and in simulated ones."""

from __future__ import annotations

import re
from random import Random
from typing import Any

import pytest

from checkers.evidence.evidence import Evidence
from checkers.evidence.replace import replace
from checkers.judge.check import ALL as CHECKERS
from checkers.selftest import ALL, recorded, trial
from checkers.selftest.plant import Plant, table, whole
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


OF_COLUMNS = {"maintenance-changed-rows", "no-state-read"}
"""What is told of tables that exist only as columns, where the exact checkers have a name that says more."""


def test_the_recorded_runs_raise_no_alarm(runs: dict[str, Evidence]) -> None:
    assert len(runs) >= 2
    assert [(a.run, a.verdict) for a in trial.alarms(CHECKERS, runs)] == []


@pytest.mark.slow
@pytest.mark.parametrize("plant", MINE, ids=lambda m: m.name)
def test_the_bug_is_found_in_recorded_runs(plant: Plant[Any], worlds: list[World]) -> None:
    score = trial.try_plant(plant, BY_NAME[plant.checker], worlds, placements=PLACEMENTS, seed=1)
    assert score.passed, score.misses
    assert score.planted == PLACEMENTS


@pytest.mark.slow
@pytest.mark.parametrize("checker", list(dict.fromkeys(m.checker for m in MINE)))
def test_the_culprit_is_named_first(checker: str, worlds: list[World]) -> None:
    mine = [m for m in MINE if m.checker == checker]
    scores = [trial.try_plant(m, BY_NAME[checker], worlds, placements=6, seed=4) for m in mine]
    rest = {s.plant.name: s.innocents for s in scores if s.accused < s.guilty}
    assert sum(s.accused for s in scores) >= 0.95 * sum(s.guilty for s in scores) > 0, rest
    assert all(s.guilty + sum(s.nobody.values()) == s.planted for s in scores), (
        "a placement without a culprit or a reason"
    )


@pytest.mark.parametrize(
    "plant",
    [
        m
        for m in MINE
        if m.name in ("parent-passed-over", "operations-exchanged", "next-row-id-jumps", "snapshot-an-hour-ahead")
    ],
    ids=lambda m: m.name,
)
def test_who_made_what_is_wrong_is_named_before_who_met_it(plant: Plant[Any], worlds: list[World]) -> None:
    score = trial.try_plant(plant, BY_NAME[plant.checker], worlds, placements=PLACEMENTS, seed=2)
    assert (score.accused, score.guilty) == (PLACEMENTS, PLACEMENTS), score.innocents


def test_a_culprit_that_is_named_second_does_not_count(worlds: list[World]) -> None:
    m = next(m for m in MINE if m.name == "false-failure")
    bug = m.plant(worlds[0].with_rng(Random(0)))
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


@pytest.mark.parametrize("plant", MINE, ids=lambda m: m.name)
def test_the_bug_is_found_in_simulated_runs(plant: Plant[Any], simulated: list[World]) -> None:
    score = trial.try_plant(plant, BY_NAME[plant.checker], simulated, placements=PLACEMENTS, seed=1)
    assert score.detected == score.planted, score.misses


@pytest.mark.parametrize("plant", MINE, ids=lambda m: m.name)
def test_the_bug_says_what_it_is(plant: Plant[Any]) -> None:
    assert re.fullmatch(r"[a-z]+(-[a-z0-9]+)*", plant.name)
    assert plant.description.endswith((".", ":")) and plant.seen
    assert plant.finds <= BY_NAME[plant.checker].names, "a name that the checker does not promise"


def test_there_are_many_and_no_name_twice() -> None:
    assert len({m.name for m in MINE}) == len(MINE) >= 240


NATIVE = {
    "commit": ("operation", "summary", "manifest_list", "schema_id", "violations"),
    "metadata": ("raw", "format_version"),
    "file": ("content", "format", "offset", "length", "spec_id"),
}
"""What only Iceberg has. A snapshot that a bug adds or moves gets the numbers of its place, whatever the format: they are not among it, nor are
the totals of its summary."""


def native(e: Evidence) -> dict[object, list[object]]:
    """What only Iceberg has, by snapshot, version and entry of a file."""
    out: dict[object, list[object]] = {}
    for table_name, log in e.logs.items():
        records: list[tuple[object, str, object]] = [(m.location, "metadata", m) for m in log.metadata]
        for c in log.commits:
            records.append((c.snapshot_id, "commit", c))
            files = (*c.added_files, *c.removed_files)
            records += [((c.snapshot_id, f.path, f.referenced), "file", f) for f in files]
        for key, kind, record in records:
            out[table_name, key] = [getattr(record, name) for name in NATIVE[kind]]
            if kind == "commit":
                out[table_name, key][1] = {k: n for k, n in record.summary.items() if not k.startswith("total-")}
    return out


@pytest.mark.parametrize("plant", [m for m in MINE if m.neutral], ids=lambda m: m.name)
def test_a_bug_of_every_format_leaves_what_only_iceberg_has(plant: Plant[Any], worlds: list[World]) -> None:
    for n, w in enumerate(worlds):
        bug = plant.plant(w.with_rng(Random(n)))
        if bug is not None:
            before, after = native(w.evidence), native(bug.evidence)
            assert {k: v for k, v in after.items() if before.get(k, v) != v} == {}


def test_most_bugs_that_clients_see_are_of_every_format() -> None:
    by_checker = {
        c: [m for m in MINE if m.checker == c] for c in ("replay", "reads", "commits", "metadata", "liveness")
    }
    share = {c: sum(bool(m.neutral) for m in mine) / len(mine) for c, mine in by_checker.items()}
    assert share["liveness"] == 1 and min(share["replay"], share["reads"], share["commits"]) > 0.6
    assert share["metadata"] < 0.1, "the metadata files are Iceberg's own"


def test_what_the_rows_of_a_table_have_in_common_is_said_once() -> None:
    def change(w: World) -> None:
        """It does nothing.

        Really.
        """

    rows = {
        "one": Plant(change),
        "two: It does this: that.": Plant(change, "a b", checker="reads", seen="elsewhere", neutral=False),
    }
    one, two = table(rows, "commits", names="", where=whole, seen="here", neutral=True)
    assert (one.name, one.description, one.checker, one.finds) == ("one", "It does nothing.", "commits", frozenset())
    assert (two.name, two.description, two.checker, two.finds) == ("two", "It does this: that.", "reads", {"a", "b"})
    assert (one.seen, one.neutral, two.seen, two.neutral) == ("here", True, "elsewhere", False)


def test_a_bug_is_planted_at_the_first_site_that_can_have_it(worlds: list[World]) -> None:
    [w, *_] = worlds
    tried: list[int] = []

    def change(n: int) -> Planted | None:
        tried.append(n)
        return w.planted(f"w{n}-0") if n == 2 else None

    [plant] = table({"third": Plant(change)}, "commits", where=lambda w: iter(range(9)), seen="here")
    bug = plant.plant(w)
    assert bug is not None and bug.culprit == "w2-0" and tried == [0, 1, 2]
    assert (
        plant.plant(w)
        and table({"never": Plant(lambda n: None)}, "commits", where=lambda w: iter(range(9)))[0].plant(w) is None
    )


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
            found |= set(trial.try_plant(m, checker, worlds, placements=4, seed=2).names)
    assert found - {trial.UNKNOWN} == checker.names - OF_COLUMNS


def test_a_placement_is_the_same_whatever_else_is_tried(worlds: list[World]) -> None:
    m = MINE[0]
    a = trial.try_plant(m, BY_NAME[m.checker], worlds, placements=3, seed=5)
    trial.try_plant(MINE[1], BY_NAME[MINE[1].checker], worlds, placements=3, seed=5)
    assert trial.try_plant(m, BY_NAME[m.checker], worlds, placements=3, seed=5) == a


class Blind(Checker):
    """Finds nothing."""

    name = "blind"

    def check(self, evidence: Evidence) -> Verdict:
        return Verdict(self.name, True)


def test_a_blind_checker_does_not_pass(worlds: list[World]) -> None:
    score = trial.try_plant(MINE[0], Blind(), worlds, placements=3, seed=0)
    assert not score.passed and score.detected == 0 and len(score.misses) == 3


def test_an_alarm_about_another_operation_does_not_count(worlds: list[World]) -> None:
    m = next(m for m in MINE if m.name == "false-failure")
    bug = m.plant(worlds[0].with_rng(Random(0)))
    assert bug is not None
    verdict = BY_NAME[m.checker].check(bug.evidence)
    assert trial.detects(m, bug, verdict) == {"false-failure"}
    assert trial.detects(m, Planted(bug.evidence, frozenset({"someone-else"}), "someone-else"), verdict) == frozenset()


def test_a_bug_without_a_place_does_not_pass() -> None:
    empty = World(Evidence(simulate(0, SPECS, ops=0).history, {}, {}), Random(0))
    score = trial.try_plant(MINE[0], BY_NAME[MINE[0].checker], [empty], placements=3, seed=0)
    assert score.planted == 0 and not score.passed


def test_the_command_says_what_was_found() -> None:
    done = icequake("selftest", "--placements", "2", "--only", "false-failure", "--only", "dirty-read")
    assert done.returncode == 0, done.stderr
    assert "4 bugs, 8 placements in 5 runs: 8 detected, 0 false alarms" in done.stdout, "each on Iceberg and on Delta"


def test_the_command_knows_its_bugs() -> None:
    done = icequake("selftest", "--only", "no-such-bug")
    assert done.returncode == 254 and "no-such-bug: no bug or checker has that name" in done.stderr
