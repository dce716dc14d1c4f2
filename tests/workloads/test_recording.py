"""Recordings: what a file of one may say, and what is left of one when operations go."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from nemesis.faults.fault import Fault
from nemesis.order.moment import Moment
from workloads.file.recording import FileError, RecordedFault, RecordedOperation, Recording
from workloads.file.workload_text import parse

WORKLOAD = parse("workload: w\ntables: [{name: orders}]\nwriters: 2\nlength: {time: 5s}\noperations: {insert: 1}\n")


def operation(op: str, *after: str) -> RecordedOperation:
    return RecordedOperation(op, int(op[1]), "insert", "orders", {"ids": [1, 2]}, "main", after)


def moment(text: str) -> Moment:
    return Moment.parse(text)


def recording() -> Recording:
    """Two writers; the commit of w1-2 is told twice, as it was sent late, and a driver is killed after the load of w0-3."""
    order = ("w0-1 load 1", "w1-1 load 1", "w0-1 commit 1", "w1-2 commit 1", "w0-3 load 1", "w1-2 commit 1")
    return Recording(
        WORKLOAD,
        7,
        "rest",
        (operation("w0-1"), operation("w1-1"), operation("w1-2", "w0-1"), operation("w0-3", "w1-1")),
        tuple(moment(m) for m in order),
        (
            RecordedFault(Fault(verb="late", status=504, seconds=2.0, duration=4.0), struck=(moment("w1-2 commit 1"),)),
            RecordedFault(Fault(verb="kill", target="driver", duration=1.5), after=moment("w0-3 load 1"), target="w0"),
        ),
    )


def test_a_recording_reads_back_as_it_was_written() -> None:
    assert Recording.from_json(recording().to_json()) == recording()


@pytest.mark.parametrize("text", ["w3-17 commit 2", "w0-0 load 1", "w1-1 store write 12", "w1-1 database commit 1"])
def test_a_moment_reads_back_as_it_was_written(text: str) -> None:
    assert str(Moment.parse(text)) == text


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("w0-3 load 1", "w0-3 lod 1", "r.json:13: order: 'w0-3 lod 1': no request is of the kind 'lod'"),
        ("w0-3 load 1", "w0-9 load 1", "r.json:13: order: there is no operation w0-9"),
        ('"w0-3 load 1",', '"w0-3 store write 1",', "r.json:13: order: w0-3 store write 1: only loads"),
        ('"seed": 7', '"seed": "x"', "r.json:1: seed: must be a whole number"),
        ('"format": 1', '"format": 2', "r.json:1: format: 2 is not allowed; allowed: 1"),
        ('"verb": "late"', '"verb": "lat"', "r.json:16: verb: 'lat' is not allowed (did you mean late?)"),
        ('"writer": 1', '"writer": 2', "r.json:5: writer: there is no writer 2; the workload has 2, from 0"),
        ('"table": "orders"', '"table": "x"', "r.json:4: table: unknown table 'x'; allowed: orders"),
        ('"op": "w1-2"', '"op": "w1-1"', "r.json:6: op: operation w1-1 is there twice; keep one"),
        ('"operations"', '"operation"', "r.json:3: unknown key 'operation'"),
    ],
)
def test_a_bad_recording_is_refused_with_file_line_and_key(old: str, new: str, message: str) -> None:
    text = recording().to_json()
    assert old in text
    with pytest.raises(FileError) as e:
        Recording.from_json(text.replace(old, new), "r.json")
    assert message in str(e.value)


def test_the_example_in_the_documents_is_a_recording() -> None:
    text = Path(__file__).parents[2].joinpath("docs", "order.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"^```json\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert len(Recording.from_json(example).order) == 4


def test_what_is_left_without_operations_names_none_of_them() -> None:
    left = recording().only({"w0-1", "w0-3"})
    assert [o.op for o in left.operations] == ["w0-1", "w0-3"]
    assert [str(m) for m in left.order] == ["w0-1 load 1", "w0-1 commit 1", "w0-3 load 1"]
    assert left.operations[1].after == ()  # w1-1 went, and w1 did nothing before it
    assert [f.fault.verb for f in left.faults] == ["kill"]  # the late commit was w1-2's


def test_what_came_after_something_that_goes_comes_after_what_was_before_it() -> None:
    left = recording().only({"w0-1", "w1-1", "w1-2"})
    assert left.operations[2].after == ("w0-1",)
    assert left.faults[1].after == moment("w1-2 commit 1")  # w0-3's load went
    assert recording().only({"w1-2"}).operations[0].after == ()


def test_all_operations_together_are_the_whole_recording() -> None:
    assert recording().only({o.op for o in recording().operations}) == recording()
