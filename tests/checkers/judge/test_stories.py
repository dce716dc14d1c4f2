"""Findings with one cause are one story, the cause first; a known defect is named only where it can be the one."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from checkers.evidence.evidence import Evidence
from checkers.evidence.history import NEMESIS, Event
from checkers.evidence.proxylog import PointerSwap
from checkers.evidence.replace import replace
from checkers.evidence.runfolder import Plan
from checkers.evidence.tablelog import Commit
from checkers.judge import known
from checkers.judge.causes import events
from checkers.judge.check import ANOMALIES, check
from checkers.judge.known import CATALOG_TYPES, CatalogType, RunFacts, asks, known_defects, of_scenario, unlike
from checkers.judge.repairsteps import repair_words
from checkers.judge.runfolder import ran_of
from checkers.judge.stories import NOTHING_TOLD, Story, anomalies_of, counted, headline, shapes, who
from checkers.judge.telling import tell
from checkers.names import Harm, meaning
from checkers.nights.happened import happened
from checkers.pointer import ANSWER, LOST_SWAPS, TAKEN
from checkers.prevention import KEEPS, KEYS
from checkers.selftest import recorded
from checkers.verdict import Anomaly, Verdict
from compose.catalogs.registry import CATALOGS
from compose.endpoints import Endpoints
from reports.run.results import told_from_json
from tests.support.unreadable import broken
from workloads.file import suite as suites
from workloads.file.scenario import LIBRARY, load
from workloads.operations.kinds import KINDS

JDBC = RunFacts("mine", "jdbc", "1.12.0")


def with_fault(e: Evidence, verb: str, *, after: bool = False) -> Evidence:
    """The run, with a fault of this verb in its history: on from its first moment, or from after its last operation."""
    at = e.history.events[-1].time + 1 if after else 0
    value = {"name": verb, "fault": {"verb": verb}}
    begun = Event(len(e.history.events), at, "info", NEMESIS, f"start-{verb}", value=value)
    return replace(e, history=replace(e.history, events=(*e.history.events, begun)))


def test_a_false_failure_its_deleted_files_and_the_unreadable_table_are_one_story() -> None:
    b = broken()
    evidence = with_fault(b.evidence, "drop-reply")
    told = check(evidence, ran=JDBC).told
    (story,) = [s for s in told.stories if s.table == b.table]
    assert [s.name for s in story.steps] == ["false-failure", "missing-file", "unreadable"]
    assert story.steps[0].ops == (b.culprit.op,)
    assert story.steps[1].text == (
        f"{b.culprit.f} {b.culprit.op}: the client that believed this failure deleted 1 file that the table needs"
    )
    (u,) = told.unreadable
    assert (
        story.steps[2].text
        == f"unreadable since {u.since / 1e9:.1f} s (file {b.commit.manifest_list}); none of {u.later} later operations succeeded"
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
        (RunFacts("mine", "rest", "1.12.0"), "drop-reply", False),  # those of rest need another fault
        (RunFacts("mine", "nessie", "1.12.0"), "drop-reply", False),
        (JDBC, "cut", False),
        (RunFacts("jdbc-unreadable", "jdbc", "1.12.0"), "drop-reply", False),
        (None, "drop-reply", False),
    ],
)
def test_a_defect_is_named_for_its_catalog_and_its_fault(ran: RunFacts | None, verb: str, named: bool) -> None:
    told = check(with_fault(broken().evidence, verb), ran=ran).told
    assert any(s.known for s in told.stories) is named


@pytest.mark.parametrize(
    ("verb", "answer", "op", "named"),
    [
        ("answer", "UPDATE 1, told 40001 (nemesis)", None, True),
        ("answer", "UPDATE 1, told 08006 (nemesis)", None, True),
        ("cut", "UPDATE 1 (nemesis: not told)", None, True),
        ("answer", "UPDATE 1, told 57P01 (nemesis)", None, False),  # the client does not send the statement again
        ("answer", "200, told 503 (nemesis)", None, False),  # another protocol, another client
        ("answer", "UPDATE 1", None, False),  # the writer was told what became of it
        ("duplicate", "UPDATE 1 (nemesis: not told)", None, False),  # no connection broke
        ("answer", "UPDATE 1, told 40001 (nemesis)", "w9-9", False),  # another operation's commit
    ],
)
def test_a_lost_acknowledgement_is_one_whatever_broke_it(verb: str, answer: str, op: str | None, named: bool) -> None:
    """The JDBC client sends a commit again upon these answers: what proxies saw it told decides, not what the fault is called."""
    b = broken()
    new = b.evidence.logs[b.table].metadata[-1].location
    swap = PointerSwap(1, 2, 0, op or b.culprit.op, None, new, answer)
    seen = replace(with_fault(b.evidence, verb), swaps={b.table: (swap,)})
    found = [Anomaly(n, c, b.table, "seen", ops=(b.culprit.op,)) for c, n in CAUSES]
    assert bool(known_defects(JDBC, found, seen)) is named
    elsewhere = RunFacts("mine", "hive", "1.12.0")
    assert not known_defects(elsewhere, found, seen), "another catalog's client"


CAUSES = [("commits", "false-failure"), ("replay", "missing-file"), ("metadata", "missing-file")]


def test_a_fault_that_was_not_on_while_its_operation_ran_explains_nothing() -> None:
    """The name alone is not enough."""
    late = with_fault(broken().evidence, "drop-reply", after=True)
    assert not any(s.known for s in check(late, ran=JDBC).told.stories)


@pytest.mark.parametrize(
    ("own", "named"),
    [
        (CatalogType("jdbc", "compare-and-swap"), True),
        (CatalogType("jdbc", "none"), False),
        (CatalogType("rest", "compare-and-swap"), False),
        (None, False),
    ],
)
def test_a_defect_is_named_for_a_catalog_of_its_type_whatever_it_is_called(
    own: CatalogType | None, named: bool
) -> None:
    told = check(with_fault(broken().evidence, "drop-reply"), ran=RunFacts("mine", "ours", "1.12.0", own)).told
    assert any(s.known for s in told.stories) is named


@pytest.mark.parametrize(
    ("catalog", "faults", "verb", "names"),
    [
        ("rest", "lost-acks", "answer", ("commits/false-failure", "replay/missing-file")),
        ("rest", "lost-acks", "answer", ("commits/lost-commit",)),
        ("rest", "flaky-catalog", "duplicate", ("commits/false-failure", "metadata/missing-file")),
        ("rest", "flaky-catalog", "duplicate", ("commits/lost-commit",)),
        ("nessie-native", "flaky-catalog", "duplicate", ("metadata/missing-metadata-file", "replay/missing-file")),
    ],
)
def test_what_the_one_rule_knows_no_suite_of_the_library_repeats(
    catalog: str, faults: str, verb: str, names: tuple[str, ...]
) -> None:
    """A file that is missing without the failure that explains it is known to a suite alone."""
    b = broken()
    found = [Anomaly(n.partition("/")[2], n.partition("/")[0], b.table, "seen", ops=(b.culprit.op,)) for n in names]
    assert known_defects(RunFacts("mine", catalog, "1.12.0"), found, with_fault(b.evidence, verb))
    for path in sorted(suites.LIBRARY.glob("*.yaml")):
        suite, _ = suites.parse(path.read_text())
        cell = suites.Cell("contention", catalog, faults, "1.12.0", "3")
        assert not [k.name for k in suite.known if k.of(cell) and found[0].name in {e.name for e in k.anomaly}]


def test_the_types_of_catalogs_are_those_of_the_catalogs_that_come_with_icequake() -> None:
    where = Endpoints(
        s3="http://s",
        access_key="a",
        secret_key="b",
        region="r",
        bucket="w",
        catalog="rest",
        catalog_uri="http://c:1",
        warehouse="s3://w",
        spark_master="local",
    )
    found = {}
    for name, c in CATALOGS.items():
        says = c.properties(where)
        found[name] = CatalogType(says.get("type") or says["catalog-impl"], c.guard)
    assert found == CATALOG_TYPES


def test_a_defect_is_named_for_operations_of_its_engine_alone() -> None:
    """``undelete`` is a defect of Spark's statements: what DuckDB does by that name is another one."""
    found = [Anomaly("undelete", "replay", "orders", "It is there.", ops=("w0-1",))]
    e = recorded.load("quick-120")
    ran = RunFacts("mine", "rest", "1.12.0")
    assert [k.scenario for k in known_defects(ran, found, e)] == ["undelete"]
    events = tuple(
        replace(x, extra={**x.extra, "engine": "duckdb"}) if x.op == "w0-1" and x.type == "invoke" else x
        for x in e.history.events
    )
    assert known_defects(ran, found, replace(e, history=replace(e.history, events=events))) == ()


def changed_by_duckdb() -> tuple[Evidence, Anomaly]:
    """A recorded run whose operation w0-1 is DuckDB's, and sets a property; the property is in no version."""
    e = recorded.load("quick-120")
    table = next(x.table for x in e.history.events if x.op == "w0-1")
    also = {"w0-1": "set-property", "w0-2": "insert"}
    events = tuple(
        replace(x, table=table, f=also[x.op], extra={**x.extra, "engine": "duckdb"} if x.type == "invoke" else x.extra)
        if x.op in also
        else x
        for x in e.history.events
    )
    found = Anomaly("lost-metadata-change", "metadata", table, "It is in no version.", ops=("w0-1",))
    return replace(e, history=replace(e.history, events=events)), found


def test_who_lost_a_change_of_a_property_follows_from_the_answer_to_its_request() -> None:
    e, found = changed_by_duckdb()
    verdicts, ran = [Verdict("metadata", False, (found,))], RunFacts("mine", "rest", "1.12.0")
    answered = {"w0-1": "204 to POST /v1/transactions/commit"}
    (story,) = tell(replace(e, answered=answered), verdicts, ran).stories
    assert (story.who, story.engine) == ("the catalog server", "")
    assert story.how == "answered 204 to what DuckDB sent by POST /v1/transactions/commit, and did not make it"
    assert headline([story]) == ("1 acknowledged change of the schema or of properties lost",)
    (story,) = tell(replace(e, answered={"w0-9": "200 to POST /v1/x"}), verdicts, ran).stories
    assert (story.who, story.engine) == ("DuckDB", "duckdb"), "it did not ask the catalog for it"
    assert [k.scenario for k in known_defects(ran, [found], replace(e, answered=answered))] == ["rest-lost-property"]
    assert known_defects(ran, [found], e) == (), "nobody saw that the server accepted it"
    for unknown in ({}, {"w0-1": ""}):
        (story,) = tell(replace(e, answered=unknown), verdicts, ran).stories
        assert (story.who, story.engine) == ("DuckDB or the catalog server", ""), (
            "nobody saw its requests, or it sent others"
        )
    was_there = replace(found, files=("v2.metadata.json", "v3.metadata.json"))
    (story,) = tell(replace(e, answered=answered), [Verdict("metadata", False, (was_there,))], ran).stories
    assert story.how == "" and "server" not in story.who, "a version had it: somebody took it away later"
    assert known_defects(ran, [was_there], replace(e, answered=answered)) == ()


def test_of_a_defect_of_another_engine_it_does_not_matter_who_upgraded_the_table() -> None:
    e = recorded.load("quick-120")
    table = next(x.table for x in e.history.events if x.op == "w0-1")
    named = (("stale-scan", "replay"), ("file-row-id", "metadata"), ("nonlinearizable", "linearizable"))
    found = [Anomaly(name, checker, table, "seen", ops=("w0-1",)) for name, checker in named]
    also = {"w0-1": "merge-upsert", "w0-2": "upgrade"}

    def known(upgrades: str) -> list[str]:
        events = tuple(
            replace(x, table=table, f=also[x.op], extra={**x.extra, "engine": "duckdb" if x.op == "w0-1" else upgrades})
            if x.op in also
            else x
            for x in e.history.events
        )
        whole = replace(e, history=replace(e.history, events=events))
        versions = {"duckdb": "1.5.5"}
        return [k.scenario for k in known_defects(RunFacts("mine", "rest", "1.12.0", others=versions), found, whole)]

    assert known("duckdb") == known("spark") == ["duckdb-merge-upgraded"]


@pytest.mark.parametrize(
    ("names", "engine", "known"),
    [
        (("file-row-id",), "duckdb", ["duckdb-merge-row-ids"]),
        (("file-row-id", "next-row-id"), "duckdb", ["duckdb-merge-row-ids"]),
        (("next-row-id",), "duckdb", []),
        (("row-id-overlap",), "duckdb", []),
        (("file-row-id",), "pyiceberg", []),
        (("file-row-id", "summary-count"), "duckdb", []),
    ],
)
def test_what_only_comes_of_a_known_event_later_need_not_be_there(
    names: tuple[str, ...], engine: str, known: list[str]
) -> None:
    """A run may end, or go on in another way, before an INSERT gets the row id that a MERGE of DuckDB did not count."""
    e = recorded.load("quick-120")
    table = next(x.table for x in e.history.events if x.op == "w0-1")
    events = tuple(
        replace(x, table=table, f="merge-upsert", extra={**x.extra, "engine": engine}) if x.op == "w0-1" else x
        for x in e.history.events
    )
    found = [Anomaly(name, "metadata", table, "seen", ops=("w0-1",)) for name in names]
    ran = RunFacts("mine", "rest", "1.12.0", others={"duckdb": "1.5.5"})
    whole = replace(e, history=replace(e.history, events=events))
    assert [k.scenario for k in known_defects(ran, found, whole)] == known


def test_the_state_of_a_known_defect_is_that_of_its_scenario_or_the_release_that_fixed_it() -> None:
    states = {name: k.state for name in ("undelete", "jdbc-no-rival", "expire-reader") if (k := of_scenario(name))}
    assert states == {"undelete": "closed as stale, not fixed", "jdbc-no-rival": "fixed in 1.10.2", "expire-reader": ""}
    assert of_scenario("nobody-wrote-it") is None


def test_a_scenario_and_the_stories_that_it_expects_have_one_remedy() -> None:
    told = check(with_fault(broken().evidence, "drop-reply"), ran=RunFacts("jdbc-unreadable", "jdbc", "1.12.0")).told
    remedy = load(LIBRARY / "jdbc-unreadable.yaml").remedy
    assert remedy and {s.remedy for s in told.stories if s.name in ("false-failure", "missing-file")} == {remedy}
    other = check(with_fault(broken().evidence, "drop-reply"), ran=RunFacts("undelete", "jdbc", "1.12.0")).told
    assert remedy not in {s.remedy for s in other.stories}


def test_a_story_that_no_defect_explains_whole_is_not_known() -> None:
    found = [Anomaly("undelete", "replay", "orders", "It is there.", ops=("w0-1",))]
    more = Anomaly("summary-count", "metadata", "orders", "It is wrong.", ops=("w0-1",))
    seen = Anomaly("stale-read", "reads", "orders", "It is old.", ops=("w0-1",))
    e, ran = recorded.load("quick-120"), RunFacts("mine", "rest", "1.12.0")
    assert known_defects(ran, [*found, seen], e), "what clients saw of it follows from it"
    assert known_defects(ran, [*found, more], e) == ()


@pytest.mark.parametrize(
    ("version", "named"), [("1.10.1", True), ("1.10.2", False), ("1.10.1-SNAPSHOT", True), ("unknown", True)]
)
def test_a_defect_is_named_for_the_releases_that_have_it(version: str, named: bool) -> None:
    evidence = with_fault(broken().evidence, "drop-reply")
    alone = [Anomaly("missing-file", "replay", broken().table, "gone")]
    found = known_defects(RunFacts("mine", "jdbc", version), alone, evidence)
    assert ("jdbc-no-rival" in [k.scenario for k in found]) is named


@pytest.mark.parametrize(
    ("ran", "names", "engine", "why"),
    [
        (
            RunFacts("mine", "hadoop", "1.12.0"),
            ("commits/lost-commit",),
            "spark",
            "the scenario hadoop-lost-update is most like it (Hadoop catalogs that guard no commit, Spark, without a fault), "
            "but that has also: change lost (lost-update), which is not in this event",
        ),
        (RunFacts("mine", "rest", "1.12.0"), ("replay/undelete",), "duckdb", "but its operations are by Spark"),
        (
            RunFacts("mine", "rest", "1.12.0"),
            ("replay/undelete", "metadata/summary-count"),
            "spark",
            "but that has not: summary-count",
        ),
        (
            RunFacts("mine", "jdbc", "1.12.0"),
            ("commits/lost-commit", "pointer/lost-update"),
            "spark",
            "but it is about Glue catalogs that guard no commit, and this catalog is jdbc",
        ),
        (
            RunFacts("mine", "jdbc", "1.12.0"),
            ("commits/false-failure",),
            "spark",
            "it needs a fault that was not on meanwhile",
        ),
        (
            RunFacts("mine", "rest", "1.12.0"),
            ("metadata/checksum-unlike",),
            "spark",
            "no scenario of the library has this: checksum-unlike",
        ),
    ],
)
def test_why_a_story_is_new_says_which_part_of_the_one_rule_it_does_not_meet(
    ran: RunFacts, names: tuple[str, ...], engine: str, why: str
) -> None:
    e = recorded.load("quick-120")
    events = tuple(
        replace(x, extra={**x.extra, "engine": engine}) if x.type == "invoke" else x for x in e.history.events
    )
    e = replace(e, history=replace(e.history, events=events))
    found = [Anomaly(n.partition("/")[2], n.partition("/")[0], "orders", "seen", ops=("w0-1",)) for n in names]
    assert known_defects(ran, found, e) == ()
    assert why in unlike(ran, found, e)


def test_what_a_known_defect_is_about_is_said_in_words() -> None:
    assert asks("jdbc-unreadable") == (
        "JDBC catalogs, Spark, while the catalog carries out the request, and the connection is reset instead of the reply: a lost "
        "acknowledgement"
    )
    assert asks("hadoop-lost-update") == "Hadoop catalogs that guard no commit, Spark, without a fault"
    assert asks("nobody-wrote-it") == ""


def test_a_defect_of_a_special_operation_needs_that_operation() -> None:
    """``orphan-files-in-flight`` shows a missing file on the REST catalog without any fault."""
    b = broken()
    alone = [Anomaly("missing-file", "replay", b.table, "gone")]
    assert "orphan-files-in-flight" not in [
        k.scenario for k in known_defects(RunFacts("m", "rest", "1.12.0"), alone, b.evidence)
    ]
    events = tuple(
        replace(e, f="remove-orphan-files")
        if e.op == next(o.op for o in b.evidence.history.operations() if o.table == b.table)
        else e
        for e in b.evidence.history.events
    )
    removed = replace(b.evidence, history=replace(b.evidence.history, events=events))
    assert [k.scenario for k in known_defects(RunFacts("m", "rest", "1.12.0"), alone, removed)] == [
        "orphan-files-in-flight"
    ]


@pytest.mark.parametrize(("checker", "named"), [("pointer", ["hadoop-lost-update"]), ("isolation", []), ("replay", [])])
def test_a_defect_is_named_for_the_checker_that_finds_it(checker: str, named: list[str]) -> None:
    both = [Anomaly("lost-commit", "commits", "orders", "gone"), Anomaly("lost-update", checker, "orders", "gone")]
    found = known_defects(RunFacts("m", "hadoop", "1.12.0"), both, recorded.load("quick-120"))
    assert [k.scenario for k in found] == named


def test_a_defect_that_is_several_events_on_a_table_explains_each_of_them() -> None:
    lost, swapped = (
        anomaly("lost-commit", "w0-1", table="t"),
        anomaly("lost-update", "w9-9", checker="pointer", table="t"),
    )
    e, ran = recorded.load("quick-120"), RunFacts("m", "hadoop", "1.12.0")
    assert known_defects(ran, [lost], e) == () and "lost-update" in unlike(ran, [lost], e)
    assert [k.scenario for k in known_defects(ran, [lost], e, [swapped])] == ["hadoop-lost-update"]
    told = [
        tell(e, [Verdict("commits", False, (lost,)), Verdict("pointer", False, (b,))], ran)
        for b in (swapped, replace(swapped, table="u"))
    ]
    assert [len(t.known) for t in told] == [1, 0], "on the same table only"


def test_what_a_defect_does_to_rows_is_not_shown_by_wrong_metadata_beside_them() -> None:
    """An engine may write wrong totals with each commit; that one of them also brought a row back does not explain the others."""
    scenario = {"anomalies": ["resurrected-row", "summary-count"]}
    row, totals = anomaly("resurrected-row", "w0-1"), anomaly("summary-count", "w0-2")
    assert known._shown(scenario, [totals], [row]) == ({"summary-count"}, {"resurrected-row"})
    assert known._shown(scenario, [row], [totals]) == ({"resurrected-row"}, set())
    assert known._shown(scenario, [row], []) == ({"resurrected-row"}, {"summary-count"})


def test_a_change_of_metadata_that_is_lost_with_its_commit_is_no_second_defect() -> None:
    pair = [anomaly("lost-commit", "w0-1", table="t"), anomaly("lost-update", "w0-1", checker="pointer", table="t")]
    change = anomaly("lost-metadata-change", "w0-1", checker="metadata", table="t")
    e, ran = recorded.load("quick-120"), RunFacts("m", "hadoop", "1.12.0")
    assert [k.scenario for k in known_defects(ran, [*pair, change], e)] == ["hadoop-lost-update"]
    assert known_defects(ran, [change], e) == (), "alone it is one"


def test_the_statement_of_a_lost_swap_is_run_again_as_that_of_a_lost_commit() -> None:
    swapped = anomaly("lost-update", "w0-1", "w1-1", checker="pointer", table="orders", evidence={LOST_SWAPS: ["w0-1"]})
    (story,) = told_of(swapped)
    assert [step.ops for step in story.repairs] == [(), ("w0-1",)] and "Run w0-1 again" in story.repair


def test_a_single_anomaly_is_a_story_with_its_known_defect() -> None:
    found = [Anomaly("undelete", "replay", "orders", "It is there.", ops=(op,)) for op in ("w0-1", "w0-2")]
    told = tell(
        recorded.load("quick-120"), [Verdict("replay", False, tuple(found))], RunFacts("mine", "rest", "1.12.0")
    )
    assert len(told.stories) == 2 and [k.scenario for k in told.known] == ["undelete"]
    elsewhere = tell(
        recorded.load("quick-120"), [Verdict("replay", False, tuple(found))], RunFacts("mine", "my.yaml", "1")
    )
    assert elsewhere.known == told.known, "it is Iceberg's, on any catalog"


def test_the_scenarios_are_read_once_for_all_stories(monkeypatch: pytest.MonkeyPatch) -> None:
    found, ran = (anomaly("undelete", "w0-1", checker="replay", table="orders"),), RunFacts("mine", "rest", "1.12.0")
    before = told_of(*found, ran=ran)
    monkeypatch.setattr(yaml, "load", None)
    assert before[0].known and told_of(*found, ran=ran) == before


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


def test_a_lost_commit_and_the_lost_swap_of_it_count_once() -> None:
    lost = anomaly("lost-commit", "w0-1", table="orders")
    swap = anomaly("lost-swap", "w0-1", checker="pointer", table="orders", evidence={"lost": ["w0-1"], "answer": "200"})
    alone = anomaly(
        "lost-swap", "w0-2", checker="pointer", table="events", evidence={"lost": ["w0-2"], "answer": "200"}
    )
    verdicts = [Verdict("commits", False, (lost,)), Verdict("pointer", False, (swap, alone))]
    told = tell(recorded.load("quick-120"), verdicts, RunFacts("mine", "rest", "1.12.0"))
    assert {s.table: s.count for s in told.stories} == {"orders": 1, "events": 1}
    assert who(told.stories) == {"the catalog server": 2}


def told_of(*found: Anomaly, ran: RunFacts | None = None) -> tuple[Story, ...]:
    """The stories of anomalies of a recorded run."""
    return tell(recorded.load("quick-120"), [Verdict("x", False, found)], ran).stories


def operation_of(kind: str) -> str:
    """An operation of a kind on the table ``orders`` of the recorded run."""
    return next(o.op for o in recorded.load("quick-120").history.operations() if o.f == kind and o.table == "orders")


def test_a_lost_delete_is_no_lost_write() -> None:
    (gone,) = told_of(anomaly("lost-commit", operation_of("delete"), table="orders", keys=(7,)))
    assert (
        gone.consequence
        == "What it deleted, id 7, is still in the table, and whoever deleted it believes that it is gone."
    )
    (wrote,) = told_of(anomaly("lost-commit", operation_of("insert"), table="orders", keys=(7,)))
    assert wrote.consequence.startswith("What it wrote to id 7 is not in the table")


def test_no_card_says_that_the_rows_of_a_table_with_a_lost_commit_are_right() -> None:
    lost = anomaly("lost-commit", "w0-1", table="orders")
    named = (("summary-count", "w0-2"), ("stale-read", "w0-3"))
    wrong = [anomaly(name, op, table=t) for name, op in named for t in ("orders", "events")]
    says = {(s.name, s.table): s.consequence for s in told_of(lost, *wrong)}
    for name, _ in named:
        assert "orders has wrong rows by the events above" in says[name, "orders"]
        assert "right" in says[name, "events"]


def test_who_never_ran_at_once_is_not_told_to_keep_apart() -> None:
    by_time = sorted(recorded.load("quick-120").history.operations(), key=lambda o: o.start)
    early, late = by_time[0], by_time[-1]
    (story,) = told_of(anomaly("resurrected-row", early.op, late.op, table="orders", keys=(7,)))
    assert story.remedy.startswith("The operations ran one after the other")
    twin = next(o for o in by_time[1:] if early.end is not None and o.start < early.end)
    (story,) = told_of(anomaly("resurrected-row", early.op, twin.op, table="orders", keys=(7,)))
    assert story.remedy.startswith("Do not run these two kinds at once")


def test_what_to_do_is_what_the_known_defect_says() -> None:
    found = anomaly("undelete", "w0-1", checker="replay", table="orders", keys=(7,))
    (story,) = told_of(found, ran=RunFacts("mine", "rest", "1.12.0"))
    assert story.known[0].remedy and story.remedy == story.known[0].remedy


def test_who_reads_that_an_engine_did_it_is_not_sent_to_the_catalog() -> None:
    (story,) = told_of(anomaly("metadata-fork", "w0-1", checker="metadata", table="orders"))
    assert story.engine == "spark" and story.remedy.startswith("Spark did it, not the catalog")
    (story,) = told_of(anomaly("lost-update", "w0-1", checker="pointer", table="orders"))
    assert story.engine == "" and "catalog that swaps the pointer" in story.remedy


def test_several_operations_of_one_story_are_all_named() -> None:
    one, other = (
        anomaly("missing-file", op, table="orders", keys=(k,), files=("a",)) for op, k in (("w0-1", 1), ("w1-1", 2))
    )
    (story,) = told_of(one, other)
    assert "w0-1" in story.headline and "w1-1" in story.headline


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
    assert story.steps[1].text == f"1 file of {b.culprit.f} {b.culprit.op} that the table needs is not in the store"


def test_stories_that_cannot_be_told_cost_no_verdict() -> None:
    found = (anomaly("false-failure", "w0-1", table="orders"), anomaly("missing-file", "w0-1", table="orders"))
    odd = replace(recorded.load("quick-120"), logs={"orders": None})  # type: ignore[dict-item]
    assert len(tell(odd, [Verdict("x", False, found)], None).stories) == 1, "a table without a log is no problem"
    none = replace(odd, history=None)  # type: ignore[arg-type]
    told = tell(none, [Verdict("x", False, found)], None)
    assert told.stories == () and told.problem.startswith("the stories could not be told: AttributeError")


# --- every run


NAMES = (
    ("lost-commit", "commits"),
    ("false-failure", "commits"),
    ("missing-file", "replay"),
    ("missing-file", "metadata"),
    ("undelete", "replay"),
    ("stale-read", "reads"),
    ("half-transaction", "atomicity"),
    ("summary-count", "metadata"),
    ("row-id-overlap", "metadata"),
    ("lost-swap", "pointer"),
    ("G2", "isolation"),
    ("nonlinearizable", "linearizable"),
    ("no-such-name", "mine"),
)


@st.composite
def findings(draw: st.DrawFn) -> list[Verdict]:
    """What checkers found of few operations, rows, files and tables, so that much of it has one cause."""
    found = []
    for _ in range(draw(st.integers(0, 12))):
        name, checker = draw(st.sampled_from(NAMES))
        found.append(
            anomaly(
                name,
                *draw(st.lists(st.sampled_from(("w0-1", "w0-2", "w1-1", "gone-1")), max_size=3)),
                checker=checker,
                table=draw(st.sampled_from(("orders", "events", None))),  # type: ignore[arg-type]
                keys=tuple(draw(st.lists(st.integers(0, 3), max_size=2))),
                files=tuple(draw(st.lists(st.sampled_from(("metadata/a.avro", "metadata/b.avro")), max_size=2))),
                snapshots=tuple(draw(st.lists(st.integers(1, 2), max_size=1))),
                evidence={"culprit": "server"} if draw(st.booleans()) else {},
                same_as=draw(st.sampled_from((None, "undelete"))) if checker in ("isolation", "linearizable") else None,
            )
        )
    by = dict.fromkeys(a.checker for a in found)
    return [Verdict(c, False, tuple(a for a in found if a.checker == c)) for c in by]


@pytest.fixture(scope="module")
def quick() -> Evidence:
    """A recorded run."""
    return recorded.load("quick-120")


@given(verdicts=findings())
@settings(max_examples=400, deadline=None)
def test_every_anomaly_is_in_exactly_one_story_and_the_counts_add_up(quick: Evidence, verdicts: list[Verdict]) -> None:
    told = tell(quick, verdicts, None)
    assert not told.problem
    everything = [(v.checker, n) for v in verdicts for n in range(len(v.anomalies))]
    assert sorted(place for s in told.stories for place in s.anomalies) == sorted(everything)
    for s in told.stories:
        inside = anomalies_of(s, verdicts)
        assert inside and s.headline and s.consequence and s.who and "{" not in s.headline + s.consequence
        assert sum(step.count for step in s.steps) == len(inside) and {step.name for step in s.steps} == {
            a.name for a in inside
        }
        assert 0 <= s.count <= len(inside) and s.name in {a.name for a in inside}
        assert len({a.table for a in inside}) == 1 and s.table == inside[0].table
    total = sum(who(told.stories).values())
    assert total == sum(s.count for s in told.stories) == len(events([a for v in verdicts for a in v.anomalies]))
    gravity = [(not s.unreadable, s.harm.gravity) for s in told.stories]
    assert gravity == sorted(gravity), "the gravest is the first"
    shaped = [s for shape in shapes(told.stories) for s in (*shape.told, *shape.more)]
    assert sorted(s.anomalies for s in shaped) == sorted(s.anomalies for s in told.stories)
    assert all(len(shape.told) <= 3 and (not shape.more or len(shape.told) == 3) for shape in shapes(told.stories))
    assert bool(headline(told.stories)) is bool(told.stories)
    written = told_from_json(json.loads(json.dumps(told.to_json())))
    assert written == told, "results.json has all of it"


@pytest.mark.parametrize("name", sorted(ANOMALIES))
def test_every_name_is_counted_in_words(name: str) -> None:
    means = meaning(name)
    if means is not None and means.harm is not Harm.METADATA:
        assert counted(name, 1) == f"1 {means.counted[0]}" and counted(name, 2) == f"2 {means.counted[1]}"
        assert "" not in means.counted
    found = anomaly(name, "w0-1", table="orders", keys=(1,))
    (story,) = tell(recorded.load("quick-120"), [Verdict("commits", False, (found,))], None).stories
    assert "×" not in story.headline or means is None


def test_wrong_metadata_is_counted_by_its_names_and_by_who_made_it() -> None:
    wrong = [
        anomaly(name, op, checker="metadata", table="orders")
        for name, op in (("summary-count", "w0-1"), ("summary-count", "w0-2"), ("row-id-overlap", "w0-2"))
    ]
    grave = anomaly("undelete", "w1-1", checker="replay", table="orders", keys=(1,))
    inside = anomaly("summary-count", "w1-1", checker="metadata", table="orders")
    told = tell(recorded.load("quick-120"), [Verdict("x", False, (*wrong, grave, inside))], None)
    assert headline(told.stories) == (
        "1 delete that left its row",
        "metadata that Spark wrote is wrong in 2 ways",
    )
    assert [s.count for s in told.stories] == [2, 1, 2] and who(told.stories) == {"Spark": 5}


def test_metadata_that_is_wrong_inside_a_graver_story_is_counted_as_its_names_are() -> None:
    grave = anomaly("undelete", "w1-1", checker="replay", table="orders", keys=(1,))
    inside = anomaly("summary-count", "w1-1", checker="metadata", table="orders")
    apart = anomaly("row-id-overlap", "w0-2", checker="metadata", table="orders")
    told = tell(recorded.load("quick-120"), [Verdict("x", False, (grave, inside, apart))], None)
    assert headline(told.stories) == ("1 delete that left its row", "metadata that Spark wrote is wrong in 2 ways")


def test_a_headline_counts_a_name_as_often_as_its_anomalies_count_whatever_story_tells_them() -> None:
    """A false failure inside the story of a lost commit is one, too; the swap of a lost commit is that commit."""
    lost = anomaly("lost-commit", "w0-1", "w1-1", table="orders")
    inside = anomaly("false-failure", "w1-1", table="orders")
    apart = anomaly("false-failure", "w2-1", table="orders")
    swap = anomaly("lost-swap", "w0-1", checker="pointer", table="orders", evidence={"lost": ["w0-1"]})
    other = anomaly("lost-swap", "w3-1", checker="pointer", table="orders", evidence={"lost": ["w3-1"]})
    told = tell(recorded.load("quick-120"), [Verdict("commits", False, (lost, inside, apart, swap, other))], None)
    assert [s.name for s in told.stories] == ["lost-commit", "false-failure", "lost-swap"]
    assert headline(told.stories) == (
        "1 acknowledged commit lost",
        "2 operations reported as failed that were committed",
        "1 commit that the catalog accepted and did not make",
    )


def test_a_story_names_the_operation_whose_commit_took_the_place_of_the_lost_one() -> None:
    lost = anomaly("lost-commit", "w0-1", table="orders", keys=(1,))
    swap = anomaly("lost-swap", "w0-1", "w1-1", checker="pointer", table="orders", evidence={"lost": ["w0-1"]})
    again = anomaly(
        "nonlinearizable", *(f"w2-{n}" for n in range(8)), "w0-1", checker="linearizable", table="orders", keys=(1,)
    )
    (story,) = tell(recorded.load("quick-120"), [Verdict("x", False, (lost, again, swap))], None).stories
    assert story.instead == (("w0-1", "w1-1"),) and story.ops[:2] == ("w0-1", "w1-1")
    back = anomaly("lost-commit", "w0-1", "w3-1", table="orders")
    (story,) = tell(recorded.load("quick-120"), [Verdict("x", False, (back,))], None).stories
    assert story.instead == (("w0-1", "w3-1"),)
    update = anomaly("lost-update", "w0-1", "w1-1", checker="pointer", table="orders", evidence={"lost": ["w0-1"]})
    (story,) = tell(recorded.load("quick-120"), [Verdict("x", False, (lost, update))], None).stories
    assert story.instead == (("w0-1", "w1-1"),)


def test_a_lost_swap_of_the_pointer_is_told_of_the_operation_that_is_lost() -> None:
    """Not of the one that is in the table; and it says what kind of operation that is."""
    e = recorded.load("quick-120")
    lost, won = [o for o in e.history.operations() if o.f in KINDS and KINDS[o.f].changes_rows][:2]
    swapped = anomaly("lost-update", lost.op, won.op, checker="pointer", evidence={LOST_SWAPS: [lost.op]})
    (story,) = told_of(swapped)
    verbs = {o.op: KINDS[o.f].verb.upper() for o in (lost, won)}
    named = f"{verbs[lost.op]} {lost.op} was acknowledged and is lost: {verbs[won.op]} {won.op} took its place"
    assert story.headline == named
    assert story.lost == (lost.op,)
    assert headline([story], verbs) == (f"1 change lost (1 {verbs[lost.op]})",)
    assert headline([story]) == ("1 change lost",), "nobody says what it is"


def test_until_the_remedy_is_done_what_ran_at_once_is_kept_apart_if_it_did_run_at_once() -> None:
    e = recorded.load("quick-120")
    ops = [o for o in e.history.operations() if o.f in KINDS and KINDS[o.f].changes_rows and o.end is not None]
    first = ops[0]
    beside = next(o for o in ops[1:] if first.start < o.start < (first.end or 0))
    later = next(o for o in ops if o.start > (first.end or 0))

    def said(*found: Anomaly) -> list[str]:
        return [s.meanwhile for s in told_of(*found)]

    assert said(anomaly("lost-commit", first.op, beside.op)) == ["Let one writer at a time change the table."]
    assert said(anomaly("lost-commit", first.op, later.op)) == [""], "they ran one after the other"
    assert said(anomaly("lost-commit", first.op)) == [""], "nobody knows what took its place"
    assert said(anomaly("write-skew", first.op, beside.op, checker="replay")) == [""], "a property helps at once"
    assert said(anomaly("duplicate-row", first.op, beside.op, checker="replay")) == [""], "the remedy says it"
    assert said(anomaly("false-failure", first.op, beside.op)) == [""], "one writer alone does it, too"


def test_who_is_sent_to_a_catalog_with_idempotency_keys_reads_which_ones_have_them() -> None:
    (story,) = told_of(anomaly("false-failure", operation_of("insert")))
    assert story.remedy == f"{meaning('false-failure').remedy} {KEYS}"  # type: ignore[union-attr]


def test_a_file_that_two_checkers_miss_is_missing_once() -> None:
    by_rows = anomaly("missing-file", "w0-1", checker="replay", table="t", files=("metadata/snap-1.avro",))
    by_lists = anomaly(
        "missing-file",
        "w0-1",
        checker="metadata",
        table="t",
        files=("s3://w/t/metadata/m0.avro", "s3://w/t/metadata/snap-1.avro"),
    )
    another = anomaly("missing-file", "w0-2", checker="metadata", table="t", files=("metadata/snap-2.avro",))
    elsewhere = anomaly("missing-file", "w0-1", checker="metadata", table="u", files=("metadata/snap-1.avro",))
    assert events([by_rows, by_lists, another, elsewhere]) == [by_rows, another, elsewhere]
    twice = anomaly("missing-file", "w0-3", checker="replay", table="t", files=("metadata/snap-1.avro",))
    assert events([by_rows, twice]) == [by_rows, twice], "one checker says what it says"


def test_what_nobody_can_read_comes_first_in_the_headline_and_in_its_story() -> None:
    b = broken()
    lost = anomaly("lost-commit", "w0-1", table="elsewhere", keys=(7,))
    told = tell(b.evidence, [Verdict("commits", False, (lost,)), *check(b.evidence).verdicts], None)
    first, *others = headline(told.stories)
    assert first == "1 table that nobody can read" and "1 acknowledged commit lost" in others
    assert told.stories[0].unreadable and told.stories[0].headline.startswith(f"nobody can read {b.table}; ")
    assert told.stories[1].name == "lost-commit"


def test_an_unreadable_table_whose_commits_are_lost_says_both() -> None:
    b = broken()
    lost = anomaly("lost-commit", "w9-1", b.culprit.op, table=b.table, keys=(7,))
    told = tell(b.evidence, [Verdict("x", False, (lost,)), *check(b.evidence).verdicts], None)
    (story,) = [s for s in told.stories if s.unreadable]
    (u,) = told.unreadable
    assert story.consequence.startswith(f"Nobody can read {b.table} from ")
    assert (
        f"; none of {u.later} later operations succeeded. What it wrote to id 7 is not in the table"
        in story.consequence
    )


@pytest.mark.parametrize(
    ("found", "catalog", "who_did_it"),
    [
        (anomaly("lost-commit", "w0-1", table="orders", evidence={"culprit": "server"}), "rest", "the catalog server"),
        (anomaly("lost-commit", "w0-1", table="orders", evidence={"culprit": "server"}), "hive-nolock", "the catalog"),
        (anomaly("lost-update", "w0-1", checker="pointer", table="orders"), "glue", "the catalog"),
        (anomaly("lost-update", "w0-1", checker="pointer", table="orders"), "rest", "the catalog server"),
        (anomaly("undelete", "w0-1", checker="replay", table="orders"), "rest", "Spark"),
        (anomaly("vanished-schema", "w0-1", checker="metadata", table="orders"), "jdbc", "Spark"),
        (
            anomaly("vanished-schema", "w0-1", checker="metadata", table="orders"),
            "nessie",
            "Spark or the catalog server",
        ),
        (anomaly("undelete", "gone-1", checker="replay", table="orders"), "rest", "unknown"),
        (anomaly("false-failure", "w0-1", table="orders"), "jdbc", "Spark's JDBC catalog client"),
        (anomaly("duplicate-commit", "w0-1", table="orders"), "mine", "Spark's catalog client"),
    ],
)
def test_who_did_it_is_the_engine_of_the_operation_at_fault_unless_the_catalog_answered_wrongly(
    found: Anomaly, catalog: str, who_did_it: str
) -> None:
    verdict = Verdict(found.checker, False, (found,))
    (story,) = tell(recorded.load("quick-120"), [verdict], RunFacts("mine", catalog, "1.12.0")).stories
    assert story.who == who_did_it
    assert story.engine == ("spark" if who_did_it.startswith("Spark") and " or " not in who_did_it else "")


def test_how_a_row_came_back_is_read_in_the_commit_that_brought_it() -> None:
    e = recorded.load("quick-120")
    log = e.logs["orders"]
    c = next(c for c in log.commits if c.op is not None and c.added)
    assert c.op is not None and c.added
    at = log.columns.index("id")
    back = anomaly("resurrected-row", c.op, checker="replay", table="orders", keys=(c.added[0].row[at],))

    def how(by: str | None) -> str:
        added = tuple(replace(x, by=by) for x in c.added or ())
        commits = tuple(replace(x, added=added) if x is c else x for x in log.commits)
        seen = replace(e, logs={**e.logs, "orders": replace(log, commits=commits)})
        (story,) = tell(seen, [Verdict("replay", False, (back,))], RunFacts("mine", "rest", "1.12.0")).stories
        return story.how

    assert (
        how("data/x-deletes.puffin") == "removed deletes of these rows from the table, so that they are visible again"
    )
    assert how(None) == "wrote these rows again"


@pytest.mark.parametrize(
    ("found", "how"),
    [
        (
            [anomaly("false-failure", "w0-1", table="orders"), anomaly("missing-file", "w0-1", table="orders")],
            "did not learn that its commit was made, reported it as failed, and deleted its files, which snapshots of the table need",
        ),
        (
            [anomaly("false-failure", "w0-1", table="orders")],
            "did not learn that its commit was made and reported it as failed",
        ),
        ([anomaly("duplicate-commit", "w0-1", table="orders")], "sent a commit again that was made already"),
        (
            [anomaly("lost-swap", "w0-1", checker="pointer", table="orders", evidence={ANSWER: "204"})],
            "answered 204 to what Spark committed, and did not make it",
        ),
        (
            [
                anomaly(
                    *("lost-swap", "w0-1", "w1-1"),
                    checker="pointer",
                    table="orders",
                    evidence={ANSWER: "200", TAKEN: True, LOST_SWAPS: ["w0-1"]},
                )
            ],
            "answered 200 to what Spark committed, and did not make it: another commit had taken its place",
        ),
        (
            [
                anomaly(
                    *("lost-swap", "w0-1", "w1-1"),
                    checker="pointer",
                    table="orders",
                    evidence={ANSWER: "200", TAKEN: False, LOST_SWAPS: ["w0-1"]},
                )
            ],
            "answered 200 to what Spark committed and forgot it: the next commit was made on the version before",
        ),
        (
            [
                anomaly("lost-commit", "w0-1", "w1-1", table="orders", evidence={"culprit": "server"}),
                anomaly(
                    "lost-update", "w0-1", "w1-1", checker="pointer", table="orders", evidence={LOST_SWAPS: ["w0-1"]}
                ),
            ],
            "accepted two commits on the same version of the table, and one took the place of the other",
        ),
        (
            [anomaly("lost-commit", "w0-1", table="orders", evidence={"culprit": "server", "seen": False})],
            "acknowledged a commit that no version of the table has",
        ),
        ([anomaly("undelete", "w0-1", checker="replay", table="orders")], ""),
    ],
)
def test_how_it_was_done_is_said_where_the_headline_does_not_say_it(found: list[Anomaly], how: str) -> None:
    by = {c: tuple(a for a in found if a.checker == c) for c in dict.fromkeys(a.checker for a in found)}
    verdicts = [Verdict(c, False, these) for c, these in by.items()]
    (story,) = tell(recorded.load("quick-120"), verdicts, RunFacts("mine", "rest", "1.12.0")).stories
    assert story.how == how
    assert (story.remedy == KEEPS.text) is ("forgot it" in how)
    if "forgot it" in how:
        assert story.instead == (), "nothing took its place"


@pytest.mark.parametrize(
    ("outcome", "cleaned", "client"),
    [("fail", False, True), ("ok", False, False), ("fail", True, False)],
)
def test_files_of_a_commit_that_its_client_took_for_failed_were_deleted_by_that_client(
    outcome: str, cleaned: bool, client: bool
) -> None:
    """Also if the commit is no longer main's, so that nobody says of it that it was reported as failed; not if something removes files."""
    e = recorded.load("quick-120")
    gone = anomaly("missing-file", "w0-1", checker="metadata", table="orders")
    told = [replace(x, type=outcome) if x.op == "w0-1" and x.type != "invoke" else x for x in e.history.events]
    if cleaned:
        other = next(o.op for o in e.history.operations() if o.table == "orders" and o.op != "w0-1")
        told = [replace(x, f="remove-orphan-files") if x.op == other else x for x in told]
    e = replace(e, history=replace(e.history, events=tuple(told)))
    (story,) = tell(e, [Verdict("metadata", False, (gone,))], RunFacts("mine", "rest", "1.12.0")).stories
    assert story.who == ("Spark's REST catalog client" if client else "Spark")
    assert (
        story.how == "did not learn that its commit was made, and deleted its files, which snapshots of the table need"
    ) is client
    assert story.remedy.startswith("Let no proxy answer") is client
    assert ("Idempotency-Key" in story.remedy) is client, "a REST catalog"


def test_who_sends_a_commit_again_that_was_made_is_the_client_of_the_commit_to_which_the_table_went_back() -> None:
    e = recorded.load("quick-120")
    operations = {o.op: o for o in e.history.operations()}
    made = (c for c in e.logs["orders"].main() if c.op in operations)
    before, after = [c for c in made if KINDS[operations[str(c.op)].f].changes_rows][:2]

    def story(lost: Commit, now: Commit) -> Story:
        found = anomaly("lost-commit", str(lost.op), str(now.op), table="orders", evidence={"seen": True})
        found = replace(found, snapshots=(lost.snapshot_id, now.snapshot_id))
        (told,) = tell(e, [Verdict("commits", False, (found,))], RunFacts("mine", "jdbc", "1.12.0")).stories
        return told

    back = story(lost=after, now=before)
    assert back.who == "Spark's JDBC catalog client" and back.remedy.startswith("Let no proxy answer")
    assert "Idempotency-Key" not in back.remedy, "no client of JDBC sends it"
    assert back.how == "sent a commit again that was made already, which set the table back to it"
    assert story(lost=before, now=after).who == "Spark", "it was passed over"


def test_what_to_do_now_about_a_kind_of_failure_of_a_night_is_about_all_its_stories() -> None:
    e = recorded.load("quick-120")
    inserts = [o.op for o in e.history.operations() if o.table == "orders" and o.f == "insert"][:2]
    lost = tuple(anomaly("lost-commit", op, table="orders", evidence={"seen": False}) for op in inserts)
    told = tell(e, [Verdict("commits", False, lost)], RunFacts("mine", "rest", "1.12.0")).stories
    (kind,) = happened(told, told, {}, "rest", lambda _: "new", None, lambda op: f"SELECT '{op}'")
    assert len(told) == 2 and kind.counts == {"lost-commit": 2}
    assert kind.statements == tuple((op, f"SELECT '{op}'") for op in inserts) and kind.concerned == 2
    assert kind.card == 0 and happened(told[:1], told, {}, "rest", lambda _: "new")[0].card == 1
    now = repair_words(kind.now)
    assert all(op in now for op in inserts) and now.count("brings its rows back") == 2


def test_a_change_of_metadata_that_is_lost_with_its_commit_is_one_story_of_the_one_who_lost_it() -> None:
    change = anomaly("lost-metadata-change", "w0-1", checker="metadata", table="orders")
    update = anomaly("lost-update", "w0-1", "w1-1", checker="pointer", table="orders", evidence={LOST_SWAPS: ["w0-1"]})
    verdicts = [Verdict("metadata", False, (change,)), Verdict("pointer", False, (update,))]
    (story,) = tell(recorded.load("quick-120"), verdicts, RunFacts("mine", "hadoop", "1.12.0")).stories
    assert (story.name, story.who, story.engine) == ("lost-update", "the catalog", "")
    assert "Use a catalog that swaps the pointer" in story.remedy


@pytest.mark.parametrize(
    ("run", "table", "who_did_it", "remedy"),
    [
        ("quick-120", "orders", "the catalog server", "Use a catalog that swaps the pointer only on the version"),
        (
            "delta/quick-135",
            None,
            "the log store",
            "Use a log store that writes a version's file only if there is none",
        ),
    ],
)
def test_who_accepts_a_commit_and_what_guards_it_are_words_of_the_tables_format(
    run: str, table: str | None, who_did_it: str, remedy: str
) -> None:
    e = recorded.load(run)
    lost = anomaly("lost-commit", "w0-1", table=table or next(iter(e.logs)), evidence={"culprit": "server"})
    (story,) = tell(e, [Verdict("commits", False, (lost,))], RunFacts("mine", "rest", "1.12.0")).stories
    assert story.who == who_did_it and story.remedy.startswith(remedy)


def test_a_step_says_what_its_name_means() -> None:
    wrong = anomaly("summary-count", "gone-1", checker="metadata")
    own = anomaly("nobodys-name", "gone-2", checker="metadata")
    told = tell(recorded.load("quick-120"), [Verdict("metadata", False, (wrong, own))], None)
    assert {s.text for story in told.stories for s in story.steps} == {
        "gone-1: the numbers in a snapshot's summary are not those of its files",
        "gone-2: found 1 time",
    }


def test_a_read_that_two_checkers_call_by_two_names_is_one_story() -> None:
    old = anomaly("stale-read", "w0-2", "w1-0", checker="reads", keys=(0,))
    again = anomaly("G-single-realtime", "w0-2", "w1-0", checker="isolation", keys=(10,))
    assert groups(old, again) == [["G-single-realtime", "stale-read"]]


@pytest.mark.parametrize(
    ("deltalake", "delta", "why"),
    [
        ("1.6.6", "4.4.0", ""),
        ("1.6.5", "4.4.0", "it is about other releases of deltalake than 1.6.5"),
        (None, "4.4.0", ""),  # the plan does not say which one it was
        ("1.6.5", None, "it is about other releases of deltalake than 1.6.5"),
    ],
)
def test_a_defect_of_other_software_is_compared_with_the_release_of_that_software_in_the_plan(
    deltalake: str | None, delta: str | None, why: str
) -> None:
    """``delta-rs-compactions`` is in deltalake since 1.6.6, which says nothing of Iceberg or of Delta Lake."""
    e = recorded.load("delta/quick-135")
    op = next(o for o in e.history.operations() if o.f == "optimize")
    events = tuple(replace(x, extra={**x.extra, "engine": "delta-rs"}) for x in e.history.events)
    e = replace(e, history=replace(e.history, events=events))
    names = (("replay", "compaction-changed-rows"), ("protocol", "removed-twice"), ("linearizable", "nonlinearizable"))
    found = [Anomaly(name, checker, op.table, "seen", ops=(op.op,)) for checker, name in names]
    versions = {"iceberg": "1.5.0", "deltalake": deltalake, "delta": delta}
    ran = ran_of(Plan(workload="mine", versions={k: v for k, v in versions.items() if v is not None}))
    assert [k.scenario for k in known_defects(ran, found, e)] == ([] if why else ["delta-rs-compactions"])
    assert why in unlike(ran, found, e)


@pytest.mark.parametrize(
    ("software", "fixed"),
    [("iceberg", "fixed in 1.6.7"), ("delta", "fixed in Delta Lake 1.6.7"), ("deltalake", "fixed in deltalake 1.6.7")],
)
def test_the_release_that_fixed_a_defect_says_whose_it_is_if_it_is_not_icebergs(software: str, fixed: str) -> None:
    s = {"software": software, "fixed": "1.6.7"}
    assert known._defect("d", {"link": "https://example.org", "anomalies": [], **s}).state == fixed
