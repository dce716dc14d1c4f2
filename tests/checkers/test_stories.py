"""Findings with one cause are one story, the cause first; a known defect is named only where it can be the one."""

from __future__ import annotations

import json
from typing import Any

import pytest

from checkers.evidence.evidence import Evidence
from checkers.evidence.history import NEMESIS, Event
from checkers.evidence.replace import replace
from checkers.judge.check import check
from checkers.judge.known import Ran, known_defects
from checkers.judge.stories import NOTHING_TOLD, tell
from checkers.selftest import recorded
from checkers.verdict import Anomaly, Verdict
from tests.support.unreadable import broken

JDBC = Ran("mine", "jdbc", "1.12.0")


def with_fault(e: Evidence, verb: str) -> Evidence:
    """The run, with a fault of this verb in its history."""
    last = e.history.events[-1]
    value = {"name": verb, "fault": {"verb": verb}}
    begun = Event(last.index + 1, last.time + 1, "info", NEMESIS, f"start-{verb}", value=value)
    return replace(e, history=replace(e.history, events=(*e.history.events, begun)))


def test_a_false_failure_its_deleted_files_and_the_unreadable_table_are_one_story() -> None:
    b = broken()
    evidence = with_fault(b.evidence, "drop-reply")
    told = check(evidence, ran=JDBC).told
    (story,) = [s for s in told.stories if s.table == b.table]
    assert [s.name for s in story.steps] == ["false-failure", "missing-file", "unreadable"]
    assert story.steps[0].ops == (b.culprit.op,)
    assert story.steps[1].text == (
        f"{b.culprit.f} {b.culprit.op}: the client that believed this failure deleted 1 file that main needs"
    )
    (u,) = told.unreadable
    assert (
        story.steps[2].text
        == f"unreadable since {u.since / 1e9:.1f} s (file {b.commit.manifest_list}); {u.later} later operations say nothing"
    )
    assert [k.scenario for k in story.known] == ["jdbc-unreadable"], (
        "it ends with the same exception as the run's operation"
    )
    assert story.known[0].link == "https://github.com/apache/iceberg/pull/10140"
    assert check(evidence, ran=JDBC).told == told
    assert json.loads(json.dumps(told.to_json()))["stories"][0]["steps"][0]["name"] == "false-failure"


@pytest.mark.parametrize("name", recorded.names())
def test_a_good_run_has_no_story(name: str) -> None:
    e = recorded.load(name)
    assert tell(e, [], JDBC) == NOTHING_TOLD


@pytest.mark.parametrize(
    ("ran", "verb", "named"),
    [
        (JDBC, "drop-reply", True),
        (Ran("mine", "rest", "1.12.0"), "drop-reply", False),  # those of rest need another fault
        (Ran("mine", "nessie", "1.12.0"), "drop-reply", False),
        (JDBC, "cut", False),
        (Ran("jdbc-unreadable", "jdbc", "1.12.0"), "drop-reply", False),
        (None, "drop-reply", False),
    ],
)
def test_a_defect_is_named_for_its_catalog_and_its_fault(ran: Ran | None, verb: str, named: bool) -> None:
    told = check(with_fault(broken().evidence, verb), ran=ran).told
    assert any(s.known for s in told.stories) is named


@pytest.mark.parametrize(
    ("version", "named"), [("1.10.1", True), ("1.10.2", False), ("1.10.1-SNAPSHOT", True), ("unknown", True)]
)
def test_a_defect_is_named_for_the_releases_that_have_it(version: str, named: bool) -> None:
    evidence = with_fault(broken().evidence, "drop-reply")
    alone = [Anomaly("missing-file", "replay", broken().table, "gone")]
    found = known_defects(Ran("mine", "jdbc", version), alone, evidence)
    assert ("jdbc-no-rival" in [k.scenario for k in found]) is named


def test_a_defect_of_a_special_operation_needs_that_operation() -> None:
    """``orphan-files-in-flight`` shows a missing file on the REST catalog without any fault."""
    b = broken()
    alone = [Anomaly("missing-file", "replay", b.table, "gone")]
    assert "orphan-files-in-flight" not in [
        k.scenario for k in known_defects(Ran("m", "rest", "1.12.0"), alone, b.evidence)
    ]
    events = tuple(
        replace(e, f="remove-orphan-files")
        if e.op == next(o.op for o in b.evidence.history.operations() if o.table == b.table)
        else e
        for e in b.evidence.history.events
    )
    removed = replace(b.evidence, history=replace(b.evidence.history, events=events))
    assert [k.scenario for k in known_defects(Ran("m", "rest", "1.12.0"), alone, removed)] == ["orphan-files-in-flight"]


@pytest.mark.parametrize(("checker", "named"), [("pointer", ["hadoop-lost-update"]), ("isolation", []), ("replay", [])])
def test_a_defect_is_named_for_the_checker_that_finds_it(checker: str, named: list[str]) -> None:
    both = [Anomaly("lost-commit", "commits", "orders", "gone"), Anomaly("lost-update", checker, "orders", "gone")]
    found = known_defects(Ran("m", "hadoop", "1.12.0"), both, recorded.load("quick-120"))
    assert [k.scenario for k in found] == named


def test_a_single_anomaly_is_a_story_with_its_known_defect() -> None:
    found = [Anomaly("undelete", "replay", "orders", "It is there.", ops=(op,)) for op in ("w0-1", "w0-2")]
    told = tell(recorded.load("quick-120"), [Verdict("replay", False, tuple(found))], Ran("mine", "rest", "1.12.0"))
    assert len(told.stories) == 2 and [k.scenario for k in told.known] == ["undelete"]
    elsewhere = tell(recorded.load("quick-120"), [Verdict("replay", False, tuple(found))], Ran("mine", "my.yaml", "1"))
    assert elsewhere.known == told.known, "it is Iceberg's, on any catalog"


def anomaly(name: str, *ops: str, checker: str = "commits", table: str = "t", **more: Any) -> Anomaly:
    return Anomaly(name, checker, table, f"{name} of {', '.join(ops)}", ops=ops, **more)


def groups(*found: Anomaly) -> list[list[str]]:
    """The stories of anomalies without a run: the names of their steps."""
    bare = replace(recorded.load("quick-120"), logs={})
    told = tell(bare, [Verdict("any", False, found)], None)
    return [[s.name for s in story.steps] for story in told.stories]


def test_what_has_different_causes_is_not_one_story() -> None:
    failed = anomaly("false-failure", "w0-1")
    assert groups(failed, anomaly("missing-file", "w1-1", files=("a",))) == [["false-failure"], ["missing-file"]]
    assert groups(failed, anomaly("missing-file", "w0-1", table="u")) == [["false-failure"], ["missing-file"]]
    assert groups(anomaly("undelete", "w0-1", keys=(1,)), anomaly("write-skew", "w1-1", keys=(1,))) == [
        ["undelete"],
        ["write-skew"],
    ]


def test_what_a_lost_commit_makes_of_its_rows_belongs_to_it() -> None:
    lost = anomaly("lost-commit", "w0-1", "w1-1", keys=(7,))
    seen = anomaly("stale-read", "w2-1", "w0-1", checker="reads", keys=(7,))
    assert groups(seen, lost) == [["lost-commit", "stale-read"]]
    assert len(groups(replace(seen, keys=(8,)), lost)) == 2, "other rows"
    assert len(groups(replace(seen, ops=("w2-1",)), lost)) == 2, "another operation"


def test_a_second_opinion_is_inside_the_story_that_it_confirms_and_connects_none() -> None:
    one, other = (anomaly("undelete", op, checker="replay", keys=(k,)) for op, k in (("w0-1", 1), ("w0-2", 2)))
    again = anomaly("nonlinearizable", "w3-1", checker="linearizable", keys=(1, 2), same_as="undelete")
    assert groups(one, other, again) == [["nonlinearizable", "undelete"], ["undelete"]]
    assert groups(again) == [["nonlinearizable"]], "alone, it is a story of its own"


def test_the_same_missing_file_found_twice_is_one_story() -> None:
    by_one = anomaly("missing-file", checker="replay", files=("metadata/a.avro",))
    other = anomaly("missing-file", checker="metadata", files=("metadata/a.avro", "metadata/b.avro"))
    assert groups(by_one, other) == [["missing-file"]]


def test_a_manifest_belongs_to_the_commit_that_wrote_it_whichever_snapshot_needs_it() -> None:
    """A later append uses the manifests of the commit before it, and both checkers then name the append."""
    b = broken()
    list_name = b.commit.manifest_list.rpartition("/")[2]
    uuid = "-".join(list_name.removesuffix(".avro").split("-")[3:])
    failed = anomaly("false-failure", b.culprit.op, table=b.table)
    gone = anomaly("missing-file", "w9-9", table=b.table, checker="replay", files=(f"metadata/{uuid}-m0.avro",))
    told = tell(b.evidence, [Verdict("any", False, (failed, gone))], None)
    (story,) = [s for s in told.stories if s.steps[0].name == "false-failure"]
    assert [s.name for s in story.steps][:2] == ["false-failure", "missing-file"]
    assert story.steps[1].ops == (b.culprit.op,)


def test_where_orphan_files_are_removed_nobody_is_accused_of_deleting() -> None:
    b = broken()
    other = next(o.op for o in b.evidence.history.operations() if o.table == b.table and o.op != b.culprit.op)
    events = tuple(replace(e, f="remove-orphan-files") if e.op == other else e for e in b.evidence.history.events)
    evidence = replace(b.evidence, history=replace(b.evidence.history, events=events))
    found = (
        anomaly("false-failure", b.culprit.op, table=b.table),
        anomaly("missing-file", b.culprit.op, table=b.table, files=("x",)),
    )
    (story,) = [
        s for s in tell(evidence, [Verdict("any", False, found)], None).stories if s.steps[0].name == "false-failure"
    ]
    assert story.steps[1].text == f"1 file of {b.culprit.f} {b.culprit.op} that main needs is not in the store"


def test_stories_that_cannot_be_told_cost_no_verdict() -> None:
    found = (anomaly("false-failure", "w0-1", table="orders"), anomaly("missing-file", "w0-1", table="orders"))
    odd = replace(recorded.load("quick-120"), logs={"orders": None})  # type: ignore[dict-item]
    assert len(tell(odd, [Verdict("x", False, found)], None).stories) == 1, "a table without a log is no problem"
    none = replace(odd, history=None)  # type: ignore[arg-type]
    told = tell(none, [Verdict("x", False, found)], None)
    assert told.stories == () and told.problem.startswith("the stories could not be told: AttributeError")
