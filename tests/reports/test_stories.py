"""What a page and the terminal say of stories, of anomalies that are allowed or missed, and of a scenario."""

from __future__ import annotations

import json
import re
import zipfile
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
import yaml

from checkers.evidence import tablelog_file
from checkers.evidence.evidence import Evidence
from checkers.evidence.history import History
from checkers.evidence.recorder import Recorder
from checkers.evidence.replace import replace
from checkers.evidence.runfolder import RunFolder
from checkers.judge.accepted import AcceptedAnomalies
from checkers.judge.known import KnownDefect
from checkers.judge.repairsteps import Repair, RepairStep
from checkers.judge.runfolder import Results, ScenarioOutcome, write_results
from checkers.judge.stories import Stories, Story, StoryStep, harm_of
from checkers.judge.telling import tell
from checkers.names import Harm
from checkers.selftest import recorded
from checkers.timeline.unreadable import UnreadableTable
from checkers.verdict import Anomaly, Validity, Verdict
from harness.cli.publish import publish
from harness.run.judged import judge_run
from reports.drawing import words
from reports.run import banner, junit, operations, page, stored, summary, timeline
from reports.run.results import verdict_words
from tests.support.unreadable import broken
from workloads.file import scenario
from workloads.file.anomalies import entries_of

UNDELETE = Anomaly("undelete", "replay", "t", "Id 1 is still there.", ops=("w0-1",), documented="https://a.org/x")
LATER = replace(UNDELETE, name="nonlinearizable", checker="linearizable", same_as="undelete")
STALE = Anomaly("stale-read", "reads", "t", "It is old.", ops=("w1-1",))
EXPECTED, ALLOWED = AcceptedAnomalies(entries_of("undelete")), AcceptedAnomalies(allow=entries_of("undelete"))
UNMET = Anomaly("expected-not-found", "expect", None, "Not there.", evidence={"expected": "undelete"})


def run(folder: Path, results: Results, plan: dict[str, Any] | None = None) -> Path:
    """The folder of a complete run of three operations with these results."""
    folder.mkdir(parents=True, exist_ok=True)
    with Recorder(folder / "history.jsonl", {}) as recorder:
        for process, op in ((0, "w0-1"), (1, "w1-1"), (13, "w1-2"), (3, "w3-0")):
            recorder.record("invoke", process, "insert", table="t", value={}, op=op)
            recorder.record("ok", process, "insert", table="t", op=op)
    (folder / "plan.yaml").write_text(yaml.safe_dump({"workload": "mine", "writers": 3, **(plan or {})}))
    (folder / "run.json").write_text(json.dumps({"state": "complete"}))
    write_results(results, folder / "results.json")
    return folder


def said(*found: Anomaly, valid: Validity = True, **more: Any) -> Results:
    by = {a.checker: Verdict(a.checker, False, tuple(b for b in found if b.checker == a.checker)) for a in found}
    return Results(tuple(({"commits": Verdict("commits", True)} | by).values()), valid, **more)


def terminal(folder: Path) -> str:
    return "\n".join(summary.lines(folder, width=160, colour=False))


def test_allowed_anomalies_are_listed_as_allowed_and_fail_nothing(tmp_path: Path) -> None:
    folder = run(tmp_path, said(UNDELETE, LATER, accepted=ALLOWED))
    text = terminal(folder)
    assert "✓ mine: Valid" in text and "found only what is allowed: undelete" in text
    assert "1 undelete  on t, found by replay, also found by linearizable, documented, allowed" in text
    html = page.render(folder)
    assert (
        "<small>allowed</small>" in html
        and '<span class="tag">allowed</span>' in html
        and "violated, as allowed" in html
    )
    suite = ET.fromstring(junit.render(folder))
    assert suite.get("failures") == "0"
    assert any("undelete on t (allowed)" in (x.text or "") for x in suite.iter("system-out"))
    assert verdict_words(json.loads((folder / "results.json").read_text())) == "valid, undelete allowed"


def test_what_is_neither_expected_nor_allowed_fails_beside_what_is(tmp_path: Path) -> None:
    folder = run(tmp_path, said(UNDELETE, STALE, valid=False, accepted=ALLOWED))
    assert "2 anomalies found" in terminal(folder)
    assert "stale-read, the first one:" in terminal(folder)
    assert [x.get("message") for x in ET.fromstring(junit.render(folder)).iter("failure")] == ["stale-read ×1"]


def test_page_terminal_and_junit_say_what_each_entry_covered_and_what_to_write(tmp_path: Path) -> None:
    swap = Anomaly("lost-update", "pointer", "t", "Two swaps of one version.", ops=("w1-1",))
    accepted = AcceptedAnomalies(entries_of("undelete"), entries_of("lost-update"))
    note = accepted.too_little([swap])[0]
    assert note.endswith("write pointer/lost-update")
    folder = run(tmp_path, said(UNDELETE, UNDELETE, LATER, swap, valid=False, accepted=accepted, notes=(note,)))
    covered = ("undelete covers 2 undelete of replay on t", "undelete covers 1 nonlinearizable of linearizable on t")
    text, html, xml = terminal(folder), page.render(folder), junit.render(folder)
    (outs,) = [x.find("system-out") for x in ET.fromstring(xml).iter("testcase") if x.get("name") == "run"]
    assert outs is not None and outs.text is not None
    for line in covered:
        assert f"expect      {line}" in text and f"expect: {line}" in html and f"expect: {line}" in outs.text
    for where in (" ".join(text.split()), html, outs.text):
        assert note in where
    assert (
        "1 lost-update  on t, found by pointer" in text and "lost-update  on t, found by pointer, allowed" not in text
    )
    assert [x.get("message") for x in ET.fromstring(xml).iter("failure")] == ["lost-update ×1"]


def test_the_names_stand_by_their_harm_and_what_only_says_them_again_is_linked_below(tmp_path: Path) -> None:
    wrong = Anomaly("summary-count", "metadata", "t", "It is wrong.", ops=("w1-1",))
    html = page.render(run(tmp_path, said(UNDELETE, LATER, STALE, wrong, valid=False)))
    top = html.partition("</header>")[0]
    chips = [" ".join(re.sub("<[^>]+>", " ", x).split()) for x in re.findall('<ul class="names">(.*?)</ul>', top)]
    assert chips == [
        "rows lost or wrong: undelete 1 documented",
        "promise broken, rows right: stale-read 1",
        "metadata wrong: summary-count 1",
    ]
    again = re.search("The same events, in the words of other checkers: (.*?)</p>", html.partition("</header>")[2])
    assert again is not None and re.sub("<[^>]+>", "", again[1]) == "nonlinearizable 1"


def test_a_headline_says_all_kinds_of_harm_but_for_many(tmp_path: Path) -> None:
    names = ("undelete", "lost-update", "write-skew", "stale-scan", "duplicate-row", "missing-file")
    found = [Anomaly(n, "replay", "t", "Wrong.", ops=(f"w{k}-1",), keys=(k,)) for k, n in enumerate(names)]

    def told(n: int) -> str:
        folder = tmp_path / str(n)
        results = said(*found[:n], valid=False)
        stories = tell(recorded.load("quick-120"), results.verdicts, None)
        return banner.banner(stored.load(run(folder, replace(results, told=stories)))).headline

    four = told(4)
    assert four.count(";") == 3 and "kinds" not in four
    assert told(6).endswith("; and 3 lesser kinds of harm")


def test_results_of_an_older_icequake_are_read_by_their_names(tmp_path: Path) -> None:
    folder = run(tmp_path, said(UNDELETE, LATER, accepted=ALLOWED))
    results = json.loads((folder / "results.json").read_text())
    assert results.pop("swallowed") and results["allowed"] == ["undelete"] and results["expected"] == []
    (folder / "results.json").write_text(json.dumps(results))
    assert "found only what is allowed: undelete" in terminal(folder)


def test_an_unmet_expectation_is_the_headline_and_no_anomaly(tmp_path: Path) -> None:
    results = said(UNMET, valid=False, accepted=EXPECTED)
    folder = run(tmp_path / "a", results)
    assert terminal(folder).splitlines()[1] == "✕ mine: expected undelete, not seen"
    assert "expected-not-found" not in terminal(folder) and "belongs under allow" in terminal(folder)
    assert "<h1>expected undelete, not seen</h1>" in page.render(folder)
    assert [x.get("message") for x in ET.fromstring(junit.render(folder)).iter("failure")] == [
        "expected undelete, not seen"
    ]
    assert verdict_words(results.to_json()) == "expected undelete, not seen"
    html = page.render(folder)
    assert "expected-not-found" not in html and 'id="anomaly-1"' not in html, "it has no card, for nothing was found"
    assert "The expected anomaly did not come: undelete." in html and ">✕ not seen</span>" in html
    more = banner.banner(stored.load(run(tmp_path / "b", said(UNMET, STALE, valid=False, accepted=EXPECTED))))
    assert more.headline == "expected undelete, not seen; 1 anomaly found" and "They found stale-read." in more.sentence


@pytest.mark.parametrize(
    ("results", "text"),
    [
        ({"valid": True}, "valid"),
        ({"valid": False}, "anomalies found"),
        ({"valid": "unknown"}, "unknown"),
        ({"valid": "unknown", "scenario": {"state": "reproduced"}}, "reproduced"),
        ({"valid": True, "scenario": {"state": "back"}}, "reproduced, although it was fixed before"),
        ({"valid": False, "scenario": {"state": "fixed"}}, "not reproduced (fixed in this version)"),
        ({"valid": False, "scenario": {"state": "not reproduced"}}, "not reproduced"),
        ({"valid": "unknown", "complete": False, "scenario": {"state": "not reproduced"}}, "unknown"),
        ({}, "not checked"),
    ],
)
def test_a_list_of_runs_has_the_verdict_in_words(results: dict[str, Any], text: str) -> None:
    assert verdict_words(results) == text


# --- stories ----------------------------------------------------------------------------------------------------------

FALSE = Anomaly("false-failure", "commits", "t", "It was reported as failed.", ops=("w0-1",))
GONE = Anomaly("missing-file", "replay", "t", "It is gone.", ops=("w0-1",), files=("metadata/a.avro",))
STORY = Story(
    table="t",
    name="false-failure",
    headline="INSERT w0-1 was reported as failed, and the table has its effect",
    consequence="Nobody can read t from 9.0 s on.",
    harm=Harm.ROWS,
    who="Spark",
    engine="spark",
    ops=("w0-1",),
    snapshots=(),
    keys=(),
    count=2,
    anomalies=(("commits", 0), ("replay", 0)),
    steps=(
        StoryStep(
            "false-failure", ("commits",), 1, ("w0-1",), "insert w0-1: reported as failed, but the commit is on main"
        ),
        StoryStep(
            "missing-file",
            ("replay",),
            2,
            ("w0-1",),
            "insert w0-1: the client that believed this failure deleted 1 file that main needs",
            2,
        ),
        StoryStep(
            "unreadable",
            (),
            1,
            ("w1-2",),
            "unreadable since 9.0 s (file metadata/a.avro); 565 later operations say nothing",
        ),
    ),
    known=(
        KnownDefect(
            "jdbc-unreadable", "https://github.com/apache/iceberg/pull/10140", ("false-failure", "missing-file")
        ),
    ),
)


def test_a_story_is_told_in_its_order_with_its_known_defect(tmp_path: Path) -> None:
    end = UnreadableTable("t", 9_000_000_000, "s3://b/t/metadata/a.avro", "w1-2", 565)
    folder = run(tmp_path, said(STALE, GONE, FALSE, valid=False, told=Stories((end,), (STORY,))))
    lines = [x.strip() for x in summary.lines(folder, width=160, colour=False)]
    assert lines[1] == ("✕ mine: 1 table that nobody can read; 1 operation reported as failed that was committed")
    at = lines.index("Nobody can read t from 9.0 s on. By Spark, on t.")
    assert lines[at - 1] == "INSERT w0-1 was reported as failed, and the table has its effect"
    assert lines[at + 1].startswith("false-failure: insert w0-1: reported as failed")
    assert lines[at + 2].startswith("missing-file ×2: insert w0-1: the client that believed")
    assert lines[at + 3] == "t: unreadable since 9.0 s (file metadata/a.avro); 565 later operations say nothing"
    assert (
        lines[at + 4]
        == "known: icequake prove jdbc-unreadable, https://github.com/apache/iceberg/pull/10140 (state not recorded)"
    )
    assert "false-failure, the first one:" in lines, "the cause is explained first"
    assert lines[-1] == "who         Spark 2"
    xml = ET.fromstring(junit.render(folder))
    properties = {x.get("name"): x.get("value") for x in xml.iter("property")}
    assert (properties["verdict"], properties["who"]) == (lines[1].removeprefix("✕ mine: "), "Spark 2")
    assert f"{STORY.headline}, on t. {STORY.consequence} By Spark." in next(x.text for x in xml.iter("system-out"))  # type: ignore[operator]
    html = page.render(folder).partition("</header>")[2]
    cause, effect, end_at = (
        html.index(x) for x in ("reported as failed, but", "the client that believed", "565 later operations")
    )
    assert html.index('id="anomaly-1"') < html.index("INSERT w0-1 was reported as failed") < cause < effect < end_at
    assert end_at < html.index('id="anomaly-2"'), "all of it is one card"
    assert '<code>icequake prove jdbc-unreadable</code>, <a href="https://github.com/apache/iceberg/pull/10140"' in html
    assert ">iceberg#10140</a>" in html


def test_the_terminal_says_what_to_do_now_and_how_to_avoid_it(tmp_path: Path) -> None:
    story = replace(STORY, repairs=(RepairStep("Run `y` again."),), remedy="Set `x`.")
    text = terminal(run(tmp_path, said(GONE, FALSE, valid=False, told=Stories((), (story,)))))
    assert text.index("    do now: Run y again.") < text.index("    avoid it: Set x.")


def test_the_terminal_says_once_what_is_the_same_for_several_kinds(tmp_path: Path) -> None:
    story = replace(STORY, repairs=(RepairStep("Run `y` again."),), remedy="Set `x`.")
    other = replace(story, name="lost-commit", headline="Another")
    last = replace(story, name="undelete", headline="A third", remedy="Set `z`.")
    lines = terminal(run(tmp_path, said(GONE, FALSE, valid=False, told=Stories((), (story, other, last))))).splitlines()
    told = [x for x in lines if re.match(r"  \d\. |    (do now|avoid it):", x)]
    assert told == [
        f"  1. {STORY.headline}",
        "    do now: Run y again.",
        "    avoid it: Set x.",
        "  2. Another",
        "    do now: as for 1",
        "    avoid it: as for 1",
        "  3. A third",
        "    do now: as for 1",
        "    avoid it: Set z.",
    ]


def test_who_did_it_is_a_sentence_and_the_page_says_once_how_it_is_avoided(tmp_path: Path) -> None:
    story = replace(STORY, how="answered 204 to the commit and did not make it", remedy="Set `x` to serializable.")
    other = replace(story, name="lost-commit", headline="Another", how="")
    folder = run(tmp_path, said(GONE, FALSE, valid=False, told=Stories((), (story, other))))
    text = terminal(folder)
    assert "    Spark answered 204 to the commit and did not make it; " in text and "    By Spark; " in text
    avoided = page.render(folder).partition("Avoid it; what is known of it")[2].partition("</dl>")[0]
    assert avoided.count("to serializable.") == 1 and "as for 1" in avoided


def test_a_run_with_many_kinds_of_harm_is_told_in_a_screen_and_a_half(tmp_path: Path) -> None:
    """Each kind has a block or a line, and what to do is said once; the page has each event."""
    remedy = (
        "Use a catalog that keeps its promise, whatever happens on the way between it and its clients. Tell its maker."
    )
    kinds = (
        "undelete",
        "lost-update",
        "summary-count",
        "row-id-overlap",
        "duplicate-row",
        "write-skew",
        "stale-read",
        "missing-file",
    )
    found = [Anomaly(n, "replay", f"t{k}", f"It is {n}.", ops=(f"w{k}-1",), keys=(k,)) for n in kinds for k in range(9)]
    told = [
        replace(
            STORY,
            table=a.table,
            name=a.name,
            ops=a.ops,
            keys=a.keys,
            headline=f"{a.name} of {a.ops[0]}",
            harm=harm_of(a.name),
            anomalies=(("replay", n),),
            steps=(StoryStep(a.name, ("replay",), 1, a.ops, a.explanation),),
            repairs=(
                RepairStep("Stop.", Repair.STOP, tables=(a.table or "",)),
                RepairStep(
                    f"Run {{ops}} again, {'and look at the rows before and after it, ' * 6}then go on.", ops=a.ops
                ),
            ),
            remedy=remedy,
        )
        for n, a in enumerate(found)
    ]
    folder = run(tmp_path, said(*found, valid=False, told=Stories((), tuple(told))))
    lines = summary.lines(folder, width=100, colour=False)
    text = " ".join(" ".join(lines).split())
    assert len(lines) <= 45
    assert text.count("Tell its maker.") == text.count("Run w0-1, ") == 1 and "avoid it: as for 1" in text
    for what in ("undelete", "9 changes lost", "metadata that Spark wrote is wrong in 2 ways"):
        assert what.casefold() in text.casefold(), what
    assert "The page has the rest" in text
    assert "Stop the writers and the maintenance of t0, t1" in text, "and the step behind it is said, too"
    html = page.render(folder)
    assert all(f"{a.name} of {a.ops[0]}" in html for a in found)


def test_an_unreadable_table_without_an_anomaly_is_said(tmp_path: Path) -> None:
    end = UnreadableTable("accounts", 9_040_000_000, "s3://b/accounts/metadata/a.avro", "w1-2", 1)
    story = tell(Evidence(History({}, ()), {}, {}), [], None, (end,)).stories
    folder = run(tmp_path, said(valid="unknown", told=Stories((end,), story)))
    line = "accounts: unreadable since 9.0 s (file metadata/a.avro); the next operation did not succeed"
    assert line in page.render(folder) and "nobody can read accounts" in terminal(folder)


def test_a_damaged_real_run_is_judged_and_shown_as_one_story(tmp_path: Path) -> None:
    b = broken()
    with zipfile.ZipFile(Path(recorded.__file__).with_name("recorded") / "quick-240.zip") as z:
        z.extractall(tmp_path)
    lines = [json.dumps({"format": 1, **{k: v for k, v in b.evidence.history.header.items() if k != "format"}})]
    lines += [json.dumps(e.to_json()) for e in b.evidence.history.events]
    (tmp_path / "history.jsonl").write_text("\n".join(lines) + "\n")
    tablelog_file.write(b.evidence.logs[b.table], tmp_path / "tablelog" / f"{b.table}.jsonl")
    judged = judge_run(RunFolder(tmp_path), publish)
    first = (tmp_path / "results.json").read_bytes()
    html = (tmp_path / "report.html").read_text()
    headline = next(s.headline for s in judged.results.told.stories if s.name == "false-failure")
    assert headline.endswith(f" {b.culprit.op} was reported as failed, and the table has its effect")
    assert headline in html and "later operations succeeded" in html
    assert headline in terminal(tmp_path) and f"Nobody can read {b.table} from" in terminal(tmp_path)
    assert stored.load(tmp_path).told == judged.results.told
    judge_run(RunFolder(tmp_path), publish)
    assert (tmp_path / "results.json").read_bytes() == first


# --- scenarios --------------------------------------------------------------------------------------------------------


def shown(folder: Path, name: str, outcome: ScenarioOutcome, valid: Validity, *found: Anomaly) -> Path:
    """The run of a scenario of the library."""
    (s,) = scenario.find([name])
    plan = {
        "workload": name,
        "versions": {"iceberg": "1.12.0"},
        "tables": [t.model_dump() for t in s.tables],
        "scenario": s.model_dump(mode="json", exclude_defaults=True),
    }
    return run(folder, said(*found, valid=valid, accepted=AcceptedAnomalies(s.anomalies), scenario=outcome), plan)


def test_a_reproduced_scenario_is_headed_by_what_it_shows(tmp_path: Path) -> None:
    folder = shown(tmp_path, "undelete", ScenarioOutcome("reproduced"), True, UNDELETE, LATER)
    html = page.render(folder)
    assert "<h1>Reproduced: a deleted row came back</h1>" in html and '<div class="banner reproduced">' in html
    facts = [
        "<dt>table</dt><dd>format version 2, merge-on-read, not partitioned</dd>",
        "<dt>isolation</dt><dd>snapshot</dd>",
        "<dt>affected releases</dt><dd>all versions (format version 2); by design</dd>",
        '<dt>discussion</dt><dd><a href="https://github.com/apache/iceberg/issues/10720" rel="noreferrer">iceberg#10720</a></dd>',
        "<dt>remedy</dt><dd>Set write.delete.isolation-level=serializable, or use format version 3.</dd>",
    ]
    places = [html.index(x) for x in ("Both are acknowledged, and the row is still there.", *facts, 'id="anomalies"')]
    assert places == sorted(places)
    text = terminal(folder)
    assert text.splitlines()[1] == "! undelete: Reproduced: a deleted row came back"
    assert "remedy: Set write.delete.isolation-level=serializable" in text


def test_that_a_release_no_longer_shows_a_defect_is_no_anomaly(tmp_path: Path) -> None:
    folder = shown(tmp_path, "upgrade-mor-delete", ScenarioOutcome("fixed"), False, UNMET)
    html, text, xml = page.render(folder), " ".join(terminal(folder).split()), ET.fromstring(junit.render(folder))
    plain = "The expected anomaly did not come: this release does not show it (undelete)."
    assert plain in text and plain in html and text.startswith("✓ upgrade-mor-delete: Fixed in this version")
    assert "expected-not-found" not in html and "violated" not in html and 'id="anomaly-1"' not in html
    assert xml.get("failures") == "0" and [plain] == [x.get("message") for x in xml.iter("skipped")]


def test_the_facts_of_a_scenario_are_in_the_words_of_its_tables_format(tmp_path: Path) -> None:
    html = page.render(shown(tmp_path, "delta-lost-commit", ScenarioOutcome("reproduced"), True))
    assert "<dt>table</dt><dd>Delta, copy-on-write, partitioned</dd>" in html
    assert (
        "Iceberg 1.12.0" not in html.partition("</header>")[0]
        and "format version" not in html.partition("</header>")[0]
    )
    iceberg = page.render(shown(tmp_path / "iceberg", "undelete", ScenarioOutcome("reproduced"), True))
    assert "<dt>this release</dt><dd>Iceberg 1.12.0</dd>" in iceberg


@pytest.mark.parametrize(
    ("name", "outcome", "valid", "status", "headline"),
    [
        (
            "undelete-v3",
            ScenarioOutcome("reproduced"),
            True,
            "valid",
            "Reproduced: a DELETE whose row was updated meanwhile was refused",
        ),
        (
            "jdbc-unreadable",
            ScenarioOutcome("reproduced"),
            "unknown",
            "reproduced",
            "Reproduced: an UPDATE reported as failed was committed, and its files were deleted",
        ),
        (
            "jdbc-no-rival",
            ScenarioOutcome("fixed", ("did not find missing-file",)),
            False,
            "valid",
            "Fixed in this version, not reproduced: an acknowledged INSERT lost its manifest list",
        ),
        (
            "jdbc-no-rival",
            ScenarioOutcome("back", ("it is fixed since 1.11.0, and this 1.12.0 shows it",)),
            True,
            "invalid",
            "Reproduced, although it was fixed before: an acknowledged INSERT lost its manifest list",
        ),
        (
            "undelete",
            ScenarioOutcome("not reproduced", ("delete ended fail, not ok",)),
            False,
            "invalid",
            "Not reproduced: a deleted row came back",
        ),
    ],
)
def test_the_headline_of_a_scenario(
    tmp_path: Path, name: str, outcome: ScenarioOutcome, valid: Validity, status: str, headline: str
) -> None:
    found = banner.banner(stored.load(shown(tmp_path, name, outcome, valid)))
    assert (found.status, found.headline) == (status, headline)
    assert all(why in found.sentence for why in outcome.why)


def test_a_scenario_that_ended_early_is_incomplete(tmp_path: Path) -> None:
    folder = shown(tmp_path, "undelete", ScenarioOutcome("not reproduced"), "unknown")
    (folder / "run.json").write_text(json.dumps({"state": "failed"}))
    assert banner.banner(stored.load(folder)).headline == "Incomplete"


# --- words ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "label"),
    [
        ("https://github.com/apache/iceberg/pull/10140", "iceberg#10140"),
        ("https://github.com/projectnessie/nessie/issues/10062", "nessie#10062"),
        ("https://github.com/apache/iceberg/blob/main/api/src/RowDelta.java", "iceberg: RowDelta.java"),
        ("https://issues.apache.org/jira/browse/HIVE-26882", "HIVE-26882"),
        (
            "https://iceberg.apache.org/docs/latest/spark-procedures/#rollback_to_snapshot",
            "iceberg.apache.org: rollback to snapshot",
        ),
        ("https://iceberg.apache.org/docs/latest/reliability/", "iceberg.apache.org: reliability"),
        ("https://iceberg.apache.org", "iceberg.apache.org"),
        ("http://[", "a link"),
        ("see the docs", "see the docs"),
    ],
)
def test_a_link_has_a_label_that_a_person_would_say(url: str, label: str) -> None:
    assert words.link_label(url) == label


def test_a_badge_is_a_label_and_no_url(tmp_path: Path) -> None:
    html = page.render(run(tmp_path, said(UNDELETE, valid=False)))
    assert '<a class="tag" href="https://a.org/x" rel="noreferrer">documented: a.org: x</a>' in html


def test_a_process_that_is_not_its_writers_first_names_the_writer(tmp_path: Path) -> None:
    loaded = stored.load(run(tmp_path, said()))
    assert loaded.writers == 3, "the operation w3-0 is one of the nemesis's own writer"
    rows = [operations.process(o) for o in loaded.operations]
    assert rows == ["0", "1", "13: writer 1, restarted", "3"]
    lanes = timeline.timeline(loaded.operations, loaded.writers, (), {})
    assert lanes is not None
    assert {b.op: lanes.lanes[b.lane] for b in lanes.boxes} == {"w0-1": "0", "w1-1": "1", "w1-2": "1", "w3-0": "3"}
    assert "a writer goes on as a new process" in page.render(loaded)


@pytest.mark.parametrize(
    "odd",
    [
        {"stories": 3, "known": "x", "unreadable": {}, "allowed": 7, "expected": None, "scenario": []},
        {"stories": [None, {"table": None, "steps": [{}, 3], "known": [{}, {"link": "javascript:alert(1)"}]}]},
        {"unreadable": [{"since": "x", "later": True, "file": None}], "scenario": {"state": "reproduced", "why": 3}},
        {"known": [{"scenario": "<script>", "link": "http://[", "anomalies": 1}], "stories": [{"steps": []}]},
    ],
)
def test_stories_of_another_form_are_shown_as_far_as_they_go(tmp_path: Path, odd: dict[str, Any]) -> None:
    folder = run(tmp_path, said(STALE, valid=False))
    results = json.loads((folder / "results.json").read_text())
    (folder / "results.json").write_text(json.dumps({**results, **odd}))
    html = page.render(folder)
    assert "1 anomaly found" in html and 'javascript:alert(1)"' not in html and "<script>," not in html
    assert "1 anomaly found" in terminal(folder)
    verdict_words({**results, **odd})
