"""What can be taken away from a recording, and what is left of it then."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.experiments.shrink.candidates import PASSES, key, measure, plain
from harness.experiments.shrink.reduction import Tries, reduced
from nemesis.faults.fault import Fault
from nemesis.order.moment import Moment
from tests.harness.experiments.shrink.made import recording, recordings
from workloads.file.recording import RecordedFault, Recording
from workloads.file.workload import Nemesis, Phase
from workloads.file.workload_text import parse

BY_NAME = {p.name: p for p in PASSES}
ORDER = ["a load 1", "a commit 1", "b load 1", "b commit 1", "c load 1", "c commit 1"]


def three() -> Recording:
    """Three operations of three writers, one after the other; the second and third are on another table."""
    return recording({"a": 0, "b": 2, "c": 3}, ORDER, {"b": "b", "c": "b"})


def without(name: str, r: Recording, gone: Callable[[list[object]], list[object]]) -> Recording | None:
    """The recording without the parts that ``gone`` chooses."""
    one = BY_NAME[name]
    return one.without(r, gone(list(one.parts(r))))


@given(r=recordings(), data=st.data())
def test_every_candidate_is_a_recording_that_can_be_read_back(r: Recording, data: st.DataObject) -> None:
    """Whatever is taken away of it: from one pass after the other."""
    for one in PASSES:
        parts = list(one.parts(r))
        gone = [p for p in parts if data.draw(st.booleans())][: len(parts) - one.least]
        left = one.without(r, gone)
        if left is not None:
            r = left
            assert Recording.from_json(r.to_json()) == r


@given(r=recordings(), data=st.data())
def test_to_take_away_one_after_the_other_is_to_take_away_both(r: Recording, data: st.DataObject) -> None:
    """For the passes whose parts keep their names."""
    made = plain(r)
    assert made is not None
    for name in ("operation", "table", "fault", "row of an operation"):
        one = BY_NAME[name]
        parts = list(one.parts(made))
        if len(parts) < 3:
            continue
        first, second = data.draw(st.permutations(parts))[:2]
        once = one.without(made, [first])
        if once is not None and second in one.parts(once) and (both := one.without(made, [first, second])) is not None:
            twice = one.without(once, [second])
            assert twice is not None
            assert key(twice) == key(both)


def test_a_writer_and_a_table_without_operations_go_and_the_others_are_numbered_again() -> None:
    left = without("operation", three(), lambda parts: parts[:1])
    assert left is not None
    assert [(o.op, o.writer) for o in left.operations] == [("b", 0), ("c", 1)]
    assert [t.name for t in left.workload.tables] == ["b"]
    assert left.workload.writers == 2
    assert str(measure(left)).startswith("2 operations, 2 writers, 1 table, ")


def test_operations_that_do_not_overlap_are_invoked_by_one_writer() -> None:
    left = reduced(plain(three()) or three(), [BY_NAME["writer"]], lambda _: Tries(1, 1)).candidate
    assert left.workload.writers == 1
    assert {o.writer for o in left.operations} == {0}


def test_operations_that_overlap_keep_their_writers() -> None:
    r = recording({"a": 0, "b": 1}, ["a load 1", "b load 1", "b commit 1", "a commit 1"])
    assert reduced(r, [BY_NAME["writer"]], lambda _: Tries(1, 1)).candidate == r


def test_ids_and_seed_rows_go_as_far_as_the_failure_needs() -> None:
    r = three()
    r = replace(r, operations=tuple(replace(o, value={"ids": [1, 2, 3]}) for o in r.operations))

    def fails(c: Recording) -> Tries:
        (a, *_), tables = c.operations, {t.name: t for t in c.workload.tables}
        return Tries(int(2 in a.value["ids"] and "a" in tables and tables["a"].seed_rows >= 3), 1)

    left = reduced(r, PASSES, fails)
    assert left.minimal
    (only,) = left.candidate.operations
    assert (only.op, only.value) == ("a", {"ids": [2]})
    assert [(t.name, t.seed_rows) for t in left.candidate.workload.tables] == [("a", 3)]


def test_many_seed_rows_go_in_few_steps() -> None:
    r = plain(three()) or three()
    big = tuple(t.model_copy(update={"seed_rows": 50_000}) for t in r.workload.tables)
    r = replace(r, workload=r.workload.model_copy(update={"tables": big}))
    asked = 0

    def fails(c: Recording) -> Tries:
        nonlocal asked
        asked += 1
        return Tries(int(c.workload.tables[0].seed_rows >= 3), 1)

    left = reduced(r, [BY_NAME["seed row"]], fails).candidate
    assert [t.seed_rows for t in left.workload.tables] == [3, 0]
    assert asked < 60


def test_faults_go_one_strike_at_a_time_and_maintenance_goes_with_its_operation() -> None:
    r = recording({"a": 0, "b": 1, "m": 4}, ORDER[:4])
    r = replace(
        r,
        workload=r.workload.model_copy(update={"nemesis": Nemesis(packages=("lost-acks",))}),
        operations=tuple(replace(o, phase="nemesis") if o.op == "m" else o for o in r.operations),
        faults=(
            RecordedFault(
                Fault(verb="drop-reply", writers=(0, 3), probability=0.5),
                struck=(Moment.parse("a commit 1"), Moment.parse("b commit 1")),
            ),
            RecordedFault(Fault(verb="maintain", do="delete"), after=Moment.parse("a load 1"), target="m"),
        ),
    )
    strikes = list(BY_NAME["fault"].parts(r))
    assert len(strikes) == 3
    assert str(measure(r)).startswith("3 operations, 3 writers, 1 table, ")

    def fails(c: Recording) -> Tries:
        return Tries(int(any(str(m) == "b commit 1" for f in c.faults for m in f.struck)), 1)

    left = reduced(plain(r) or r, [BY_NAME["fault"]], fails).candidate
    assert [[str(m) for m in f.struck] for f in left.faults] == [["b commit 1"]]
    assert [o.op for o in left.operations] == ["a", "b"]
    assert left.workload.nemesis == Nemesis(faults=(Fault(verb="drop-reply", probability=0.5),))


def test_the_target_of_a_killed_driver_follows_its_writer() -> None:
    kill = RecordedFault(Fault(verb="kill", target="driver"), after=Moment.parse("b load 1"), target="w2")
    r = replace(three(), faults=(kill,))
    left = without("operation", r, lambda parts: parts[:1])
    assert left is not None
    assert left.faults[0].target == "w0"


def orders(r: Recording | None) -> list[str]:
    assert r is not None
    return [str(m) for m in r.order]


REFUSED = [
    "b load 1",
    "b load 2",
    "a commit 1",
    "b commit 1",
    "c load 1",
    "b load 3",
    "b commit 2",
    "b load 4",
    "c commit 1",
]
"""The first attempt of b is refused because of a."""


def test_an_attempt_that_nobody_refuses_any_more_goes_and_the_next_one_keeps_its_place() -> None:
    """Else b would commit before c loads the table."""
    r = recording({"a": 0, "b": 1, "c": 2}, REFUSED)
    assert orders(plain(r)) == REFUSED
    assert orders(without("operation", r, lambda parts: parts[:1])) == [
        *("b load 1", "c load 1", "b load 2", "b commit 1", "b load 3", "c commit 1")
    ]


def test_an_attempt_that_a_fault_struck_stays() -> None:
    dropped = RecordedFault(Fault(verb="drop-reply"), struck=(Moment.parse("b commit 1"),))
    r = recording({"a": 0, "b": 1, "c": 2}, REFUSED, faults=[dropped])
    assert orders(without("operation", r, lambda parts: parts[:1])) == [m for m in REFUSED if m[0] != "a"]


def test_an_attempt_stays_if_a_commit_that_lost_its_answer_refuses_it() -> None:
    order = ["b load 1", "b load 2", "a commit 1", "b commit 1", "b load 3", "b commit 2", "a load 1", "a commit 2"]
    dropped = RecordedFault(Fault(verb="drop-reply"), struck=(Moment.parse("a commit 1"),))
    r = recording({"a": 0, "b": 1}, order)
    assert orders(plain(replace(r, faults=(dropped,)))) == order
    assert "b commit 2" not in orders(plain(r))


def test_what_began_after_a_request_that_goes_begins_after_the_one_before_it() -> None:
    kill = RecordedFault(Fault(verb="kill", target="driver"), after=Moment.parse("b commit 1"), target="w2")
    left = without("operation", recording({"a": 0, "b": 1, "c": 2}, REFUSED, faults=[kill]), lambda parts: parts[:1])
    assert left is not None
    assert str(left.faults[0].after) == "b load 1"


def test_what_only_a_random_run_needs_is_gone() -> None:
    text = (
        "workload: made\ntables: [{name: a, seed_rows: 4}, {name: b}]\nwriters: 4\nrate: 5\nallow: [undelete]\nstop_when: unreadable\n"
        "phases: [{name: first, length: {ops: 5}}, {name: then, length: {time: 5s}, operations: {read: 1}}]\noperations: {insert: 1}\n"
    )
    r = replace(three(), workload=parse(text))
    left = plain(replace(r, operations=tuple(replace(o, phase="then") for o in r.operations)))
    assert left is not None
    assert {o.phase for o in left.operations} == {"main"}
    assert left.workload.phases == ()
    assert [p.name for p in left.workload.resolved_phases()] == ["main"]
    assert (left.workload.rate, left.workload.allow, left.workload.stop_when) == (None, (), None)
    assert isinstance(left.workload.resolved_phases()[0], Phase)


def test_nothing_is_no_candidate() -> None:
    assert without("operation", three(), lambda parts: parts) is None


@pytest.mark.parametrize("gone", [("a", "a"), ("a", "b")])
def test_equal_candidates_have_one_key(gone: tuple[str, str]) -> None:
    one, other = (three().only([op for op in "abc" if op != g]) for g in gone)
    assert (key(one) == key(other)) is (gone[0] == gone[1])
