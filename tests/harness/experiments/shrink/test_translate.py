"""A recording as a scenario: its waits allow the recorded order of what conflicts, and no other one."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given

from harness.experiments.shrink.translate import (
    CONDITIONS,
    Untranslatable,
    asked_of,
    conditions,
    opposite,
    to_yaml,
    translate,
    without_conditions,
)
from harness.experiments.shrink.waits import waits
from nemesis.faults.fault import Fault
from nemesis.order.moment import Moment
from tests.harness.experiments.shrink.made import Machine, about, conflicting, recording, recordings
from workloads.file import scenario
from workloads.file.anomalies import entries_of
from workloads.file.recording import RecordedFault, Recording
from workloads.file.workload import BackoffSpec


@given(r=recordings())
def test_the_waits_allow_the_recorded_order_of_what_conflicts_and_no_other(r: Recording) -> None:
    """In every order in which the scenario can run. What it leaves to chance, it says."""
    found = translate(r, about())
    machine = Machine(r, found.scenario, found.names)
    end = tuple(len(machine.mine[name]) + 1 for name in machine.ops)
    states = machine.states()
    assert end in states
    assert all(state == end or any(True for _ in machine.following(state)) for state in states), "it can get stuck"
    wrong = machine.reversed_pairs([*conflicting(r)])
    assert bool(wrong) <= bool(found.inexact)
    if not found.inexact:
        assert wrong == set()


@given(r=recordings(faults=False))
def test_exactly_the_pairs_that_are_called_lost_can_come_in_the_other_order(r: Recording) -> None:
    found = translate(r, about())
    machine = Machine(r, found.scenario, found.names)
    lost = {*waits({o.op: o.writer for o in r.operations}, asked_of(r)).lost}
    assert machine.reversed_pairs([*conflicting(r)]) == lost


@given(r=recordings(faults=False))
def test_the_commits_of_two_writers_are_always_in_their_order(r: Recording) -> None:
    """Unless an operation commits several times between the commits of others, one gate is enough for them."""
    commits = [m.op for m in r.order if m.kind == "commit"]
    found = translate(r, about())
    machine = Machine(r, found.scenario, found.names)
    if len(commits) == len({*commits}):
        both = [(i, k) for i, k in conflicting(r) if r.order[i].kind == r.order[k].kind == "commit"]
        assert machine.reversed_pairs(both) == set()


@given(r=recordings())
def test_no_wait_can_be_left_out_without_another_order(r: Recording) -> None:
    """The waits are as few as the order needs."""
    found = translate(r, about())
    if found.inexact:
        return
    pairs = [*conflicting(r)]
    for one in conditions(found.scenario):
        fewer = without_conditions(found.scenario, [one])
        if fewer is not None and {s.name for s in fewer.operations if s.gated} == {
            s.name for s in found.scenario.operations if s.gated
        }:
            assert Machine(r, fewer, found.names).reversed_pairs(pairs), one


@given(r=recordings())
def test_the_file_reads_back_as_the_scenario(r: Recording) -> None:
    made = translate(r, about(anomalies=entries_of("undelete"))).scenario
    assert scenario.parse(to_yaml(made, ["a comment"])) == made


def test_the_undelete_becomes_the_scenario_of_the_library() -> None:
    """The requests are those of a run of workloads/scenarios/undelete.yaml."""
    r = recording(
        {"w0-1": 0, "w1-0": 1},
        [
            *("w0-1 load 1", "w0-1 load 2", "w1-0 load 1", "w1-0 load 2", "w1-0 commit 1"),
            *("w1-0 load 3", "w0-1 commit 1", "w0-1 load 3", "w0-1 commit 2", "w0-1 load 4"),
        ],
        kinds={"w0-1": "delete"},
    )
    delete, update = translate(r, about()).scenario.operations
    assert (delete.after, delete.hold, delete.at, delete.nth) == (None, {"update-register": "completed"}, "commit", 1)
    assert (update.after, update.hold) == ({"delete": "held"}, None)


def test_an_operation_that_validates_after_the_others_commit_is_held_at_its_refresh() -> None:
    """It commits at its first attempt, because it read the other one's commit before."""
    order = ["a load 1", "b load 1", "b commit 1", "a load 2", "a commit 1"]
    first, second = translate(recording({"a": 0, "b": 1}, order), about()).scenario.operations
    assert (first.at, first.nth, first.hold) == ("load", 2, {second.name: "completed"})
    assert second.after == {first.name: "held"}


def test_a_lost_acknowledgement_becomes_the_fault_of_its_step() -> None:
    order = ["a load 1", "a commit 1", "b load 1", "b commit 1", "a commit 2", "a load 2"]
    dropped = RecordedFault(
        Fault(verb="drop-reply", probability=0.5, weight=4, duration=5, writers=(0,)),
        struck=(Moment.parse("a commit 1"),),
    )
    first, second = translate(recording({"a": 0, "b": 1}, order, faults=[dropped]), about()).scenario.operations
    assert first.fault == Fault(verb="drop-reply")
    assert (first.hold, second.after) == ({second.name: "completed"}, {first.name: "held"})


def test_a_late_commit_waits_for_those_that_came_before_it() -> None:
    order = ["a load 1", "a commit 1", "b load 1", "b commit 1", "a commit 1"]
    late = RecordedFault(Fault(verb="late", status=504, seconds=2), struck=(Moment.parse("a commit 1"),))
    first, second = translate(recording({"a": 0, "b": 1}, order, faults=[late]), about()).scenario.operations
    assert first.fault == Fault(verb="late", status=504)
    assert first.hold == {second.name: "completed"}
    assert second.after is None or second.after == {first.name: "held"}


def test_a_killed_writer_is_killed_at_the_request_that_did_not_pass() -> None:
    order = ["a load 1", "b load 1", "b commit 1"]
    kill = RecordedFault(Fault(verb="kill", target="driver"), after=Moment.parse("b load 1"), target="w0")
    first, _ = translate(recording({"a": 0, "b": 1}, order, faults=[kill]), about()).scenario.operations
    assert (first.kill, first.at, first.nth) == (True, "commit", 1)


def test_writers_of_other_engines_are_named() -> None:
    r = recording({"a": 0, "b": 1}, ["a load 1", "b load 1"])
    engines = ("spark", "duckdb", "pyiceberg", "spark")
    r = replace(r, workload=r.workload.model_copy(update={"engines": engines}))
    assert translate(r, about()).scenario.engines == {1: "duckdb"}


def test_operations_that_do_not_conflict_need_no_waits() -> None:
    order = ["a load 1", "b load 1", "a commit 1", "b commit 1"]
    made = translate(recording({"a": 0, "b": 1}, order, {"b": "b"}), about()).scenario
    assert conditions(made) == []


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (RecordedFault(Fault(verb="partition", request="any")), "a scenario has no partition"),
        (RecordedFault(Fault(verb="pause", target="catalog"), target="rest"), "a scenario has no pause catalog"),
    ],
)
def test_what_no_scenario_can_say_is_refused(fault: RecordedFault, said: str) -> None:
    with pytest.raises(Untranslatable, match=said):
        translate(recording({"a": 0}, ["a load 1"], faults=[fault]), about())


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"clocks": {0: "+1h"}}, "clocks"),
        ({"swap_latency": 0.1}, "swap_latency"),
        ({"backoff": BackoffSpec(policy="none")}, "backoff"),
        ({"seed_own_keys": True}, "own keys"),
    ],
)
def test_a_workload_that_no_scenario_has_is_refused(change: dict[str, object], said: str) -> None:
    r = recording({"a": 0}, ["a load 1"])
    r = replace(r, workload=r.workload.model_copy(update=change))
    with pytest.raises(Untranslatable, match=said):
        translate(r, about())


def test_more_writers_than_a_scenario_has_are_refused() -> None:
    r = recording({f"o{n}": n for n in range(9)}, [f"o{n} commit 1" for n in range(9)])
    with pytest.raises(Untranslatable, match="at most 8 writers, and 9 are left"):
        translate(r, about())


def test_delays_are_left_out_and_that_is_said() -> None:
    slow = RecordedFault(Fault(verb="delay", seconds=2), struck=(Moment.parse("a commit 1"),))
    found = translate(recording({"a": 0}, ["a load 1", "a commit 1"], faults=[slow]), about())
    assert found.scenario.operations[0].fault is None
    assert "does not make requests slow" in found.inexact[0]


@given(r=recordings(faults=False))
def test_the_opposite_of_a_wait_always_has_the_other_order(r: Recording) -> None:
    found = translate(r, about())
    for one in conditions(found.scenario):
        turned = opposite(found.scenario, one)
        assert isinstance(one, tuple)
        if turned is None or found.inexact:
            continue
        machine = Machine(r, turned, found.names)
        name, _, other = one
        for state in machine.states():
            began = state[machine.ops.index(other)] > 0
            assert not began or machine.came(state, name, "completed")


def test_without_its_waits_a_step_has_no_gate_and_nobody_waits_at_it() -> None:
    order = ["a load 1", "b load 1", "b commit 1", "a load 2", "a commit 1"]
    made = translate(recording({"a": 0, "b": 1}, order), about()).scenario
    a, b = (s.name for s in made.operations)
    assert CONDITIONS.parts(made) == [(a, "hold", b), (b, "after", a)]
    assert without_conditions(made, [(a, "hold", b)]) is None
    free = without_conditions(made, conditions(made))
    assert free is not None
    assert [(s.after, s.hold, s.at, s.nth) for s in free.operations] == [(None, None, "commit", 1)] * 2
