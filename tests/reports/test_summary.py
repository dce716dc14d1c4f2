"""The last lines on the terminal, and the JUnit file: the same verdict in words that a person, and a CI, reads."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
import yaml

from checkers.evidence.outcome import STOPPED
from checkers.evidence.recorder import Recorder
from checkers.evidence.replace import replace
from checkers.verdict import Anomaly, MinimalHistory, Verdict
from reports.run import junit, load_view, page, stored, summary
from reports.run.banner import banner
from tests.support.drawing import Drawing, row
from workloads.tables import COLUMNS

LOST = Anomaly(
    "lost-update",
    "linearizable",
    "orders",
    "Let:\n  T1 = w0-1\nThen:\n  - T1 < T2, because T2 read what T1 wrote. " + "And so on. " * 30,
    ops=("w0-1", "w1-1"),
)
LEGAL = Anomaly("undelete", "replay", "orders", "As the docs say.", documented="https://iceberg.apache.org/")


def write_run(folder: Path, valid: Any, verdicts: list[Verdict], state: str = "complete") -> Path:
    """A run of three operations, with these verdicts."""
    folder.mkdir(parents=True, exist_ok=True)
    with Recorder(folder / "history.jsonl", {}) as recorder:
        for n, outcome in enumerate(("ok", "fail", "info")):
            recorder.record("invoke", n, "insert", table="orders", value={}, op=f"w{n}-1")
            recorder.record(outcome, n, "insert", table="orders", op=f"w{n}-1")  # type: ignore[arg-type]
    plan = {"workload": "mixed", "seed": 3, "command": "icequake run mixed --seed 3"}
    (folder / "plan.yaml").write_text(yaml.safe_dump(plan))
    (folder / "run.json").write_text(json.dumps({"state": state, "started": "2026-01-02T03:04:05+02:00"}))
    results = {"valid": valid, "checkers": [v.to_json() for v in verdicts]}
    (folder / "results.json").write_text(json.dumps(results))
    return folder


def invalid(folder: Path) -> Path:
    """A run with two anomalies, one of them documented, and a checker that could not decide."""
    verdicts = [
        Verdict("replay", False, (LEGAL,)),
        Verdict("linearizable", False, (LOST,)),
        Verdict("liveness", "unknown", notes=("no fault-free window",)),
        Verdict("metadata", True),
    ]
    return write_run(folder, False, verdicts)


# --- the terminal -----------------------------------------------------------------------------------------------------


def test_the_last_lines_say_everything_that_matters(tmp_path: Path) -> None:
    run = invalid(tmp_path / "r")
    (run / "report.html").write_text("")
    lines = summary.lines(run, width=80, colour=False)
    text = "\n".join(lines)
    assert lines[1] == "✕ mixed: 1 change lost; 1 delete that left its row"
    assert "lost-update" in text and "undelete" in text and "  1. " in text and "  2. " in text
    assert "The page has the rest" in text
    assert "liveness: unknown: no fault-free window" in text
    assert "3: 1 ok, 1 failed, 1 unknown" in text
    assert lines[-3].split() == ["page", str(run / "report.html")]
    assert lines[-2].split(maxsplit=1) == ["again", "icequake run mixed --seed 3"]
    assert lines[-1].split(maxsplit=1) == ["who", "Spark 1, unknown 1"]
    assert all(len(x) <= 80 for x in lines if str(run) not in x and "known: " not in x), (
        "paths and links are not wrapped"
    )
    assert not any("\n" in x or "\x1b" in x for x in lines)


def test_what_is_alone_is_explained_where_a_run_has_several_kinds_the_page_does_it(tmp_path: Path) -> None:
    lines = summary.lines(write_run(tmp_path, False, [Verdict("linearizable", False, (LOST,))]), width=80, colour=False)
    assert "  1 lost-update  on orders, found by linearizable" in lines and "  lost-update, the first one:" in lines
    assert "      T1 = w0-1" in lines, "the lines of an explanation keep their indentation"
    assert not any("The page has the rest" in x for x in lines)


@pytest.mark.parametrize(
    ("valid", "verdicts", "state", "first"),
    [
        (True, [Verdict("reads", True)], "complete", "✓ mixed: Valid"),
        ("unknown", [Verdict("reads", "unknown")], "complete", "? mixed: Unknown"),
        (True, [Verdict("reads", True)], "failed", "… mixed: Incomplete"),
        (False, [Verdict("reads", False, (LOST,))], "failed", "✕ mixed: 1 change lost"),
    ],
)
def test_the_first_line_is_the_verdict(
    tmp_path: Path, valid: Any, verdicts: list[Verdict], state: str, first: str
) -> None:
    assert summary.lines(write_run(tmp_path, valid, verdicts, state), colour=False)[1] == first


def test_what_a_level_allows_is_counted_and_no_anomaly(tmp_path: Path) -> None:
    stats = {"tables": {"t": {"allowed": {"G2-item": 2}}, "u": {"allowed": {"G2-item": 1, "G2": 1}}, "v": "odd"}}
    lines = summary.lines(write_run(tmp_path, True, [Verdict("isolation", True, stats=stats)]), colour=False)
    (line,) = [x for x in lines if "allowed" in x]
    assert line.endswith("G2 ×1, G2-item ×3: legal at the level of their table")


CODEC = [
    ["org.apache.spark.SparkException", "Job aborted due to stage failure: Task 0 in stage 2.0 failed 4 times"],
    ["java.lang.IllegalArgumentException", "Unsupported compression codec: zstdd"],
]
CONFLICT = [["org.apache.iceberg.exceptions.ValidationException", "Found conflicting files"]]
NOT_FOUND = [["org.apache.iceberg.exceptions.NotFoundException", "File does not exist: s3://b/data/1.parquet"]]


def with_errors(folder: Path, *ended: tuple[str, Any]) -> Path:
    """A valid run of operations that ended with these types and errors, and of one that succeeded."""
    write_run(folder, True, [Verdict("reads", True)])
    (folder / "history.jsonl").unlink()
    with Recorder(folder / "history.jsonl", {}) as recorder:
        for n, (type, error) in enumerate([*ended, ("ok", None)]):
            recorder.record("invoke", n, "insert", table="orders", value={}, op=f"w{n}-1")
            recorder.record(type, n, "insert", table="orders", op=f"w{n}-1", error=error)  # type: ignore[arg-type]
    return folder


def rows_of(folder: Path, label: str) -> list[str]:
    """The texts of the rows with a label among the last lines."""
    found = [line.split(maxsplit=1) for line in summary.lines(folder, colour=False) if line.startswith(f"  {label} ")]
    return [text.strip() for _, text in found]


def test_the_commonest_errors_of_failed_and_of_unknown_operations_stand_in_the_last_lines(tmp_path: Path) -> None:
    interrupted = [["java.lang.InterruptedException", "sleep interrupted"]]
    ended = [("fail", CODEC)] * 3 + [("fail", NOT_FOUND)] * 2 + [("fail", interrupted), ("fail", CONFLICT)]
    run = with_errors(tmp_path, *ended, ("info", CODEC))
    codec = "IllegalArgumentException: Unsupported compression codec: zstdd"
    (failed,) = rows_of(run, "failed")
    assert failed == (
        f"3 × {codec}; 2 × NotFoundException: File does not exist: s3://b/data/1.parquet; 1 with other errors; "
        "1 refused because of a conflict (ValidationException)"
    )
    assert rows_of(run, "unknown") == [f"1 × {codec}"]
    page_text = page.render(run)
    assert failed in page_text and f"1 × {codec}" in page_text, "they stand in the banner of the page, too"
    assert page_text.index(failed) < page_text.index("<dl")


def test_what_all_errors_of_a_kind_say_alike_is_not_cut_out_of_them(tmp_path: Path) -> None:
    def of(n: int) -> list[list[str]]:
        return [["builtins.ValueError", f"Cannot write manifest for table version: {n}"]]

    told = "Cannot write manifest for table version: 3"
    assert rows_of(with_errors(tmp_path / "same", ("fail", of(3)), ("fail", of(3))), "failed") == [
        f"2 × ValueError: {told}"
    ]
    assert rows_of(with_errors(tmp_path / "unlike", ("fail", of(3)), ("fail", of(4)), ("fail", of(3))), "failed") == [
        f"3 × ValueError, such as: {told}"
    ]
    after = "because " + "it is so, " * 10 + "and the key is 7"
    (long,) = rows_of(with_errors(tmp_path / "long", ("fail", [["builtins.ValueError", after]])), "failed")
    assert long.endswith("and the key is 7")


def test_a_run_whose_failures_are_all_conflicts_has_a_short_row(tmp_path: Path) -> None:
    exhausted = [["org.apache.iceberg.exceptions.CommitFailedException", "no"]]
    ended = [("fail", CONFLICT)] * 2 + [("fail", exhausted)]
    assert rows_of(with_errors(tmp_path, *ended), "failed") == [
        "3 refused because of a conflict (ValidationException 2, CommitFailedException 1)"
    ]


def test_what_was_under_way_when_a_run_was_stopped_is_no_error_of_a_writer(tmp_path: Path) -> None:
    stopped = [[STOPPED, "the run was stopped while the operation waited for its answer"]]
    died = [["icequake.WriterDied", "w1"]]
    ended = [("info", stopped), ("info", died), ("info", stopped)]
    (said,) = rows_of(with_errors(tmp_path, *ended), "unknown")
    assert said == "1 × WriterDied: w1; 2 under way when the run was stopped"


def test_a_run_without_errors_has_no_row_of_errors(tmp_path: Path) -> None:
    run = with_errors(tmp_path)
    assert rows_of(run, "failed") == rows_of(run, "unknown") == []


def test_that_there_is_no_commit_is_said(tmp_path: Path) -> None:
    run = with_errors(tmp_path, ("fail", CODEC))
    assert rows_of(run, "commits") == ["not known: there is no table log"]
    (run / "tablelog").mkdir()
    header = {"type": "header", "format": 2, "table": "orders", "identifier": "c.n.orders", "location": "s3://b/o"}
    (run / "tablelog" / "orders.jsonl").write_text(json.dumps({**header, "columns": list(COLUMNS)}) + "\n")
    assert rows_of(run, "commits") == ["0"]


def test_commits_whose_attempts_nobody_knows_are_counted_with_the_others(tmp_path: Path) -> None:
    drawing = Drawing()
    for n in range(5):
        drawing.did(f"w0-{n}", "insert", ids=[n], add=[row(n, "a")])
    log = drawing.evidence().logs["t"]
    log = replace(log, commits=tuple(replace(c, attempt=a) for c, a in zip(log.commits, (1, 2, 0, 0, 0), strict=True)))
    (said,) = [
        t
        for name, t in load_view.lines(replace(stored.load(with_errors(tmp_path)), logs={"t": log}))
        if name == "commits"
    ]
    assert said == "5, 1 of the 2 whose attempts are known retried (50.0 %)"


def test_what_a_run_did_not_test_is_said(tmp_path: Path) -> None:
    never = {"delete": {"operations": 3, "error": "E: no", "count": 2}}
    tables = {"t": {"operations": 2, "writes": 1, "committed": 0}, "u": {"operations": 1, "writes": 1, "committed": 1}}
    stats: dict[str, Any] = {"commits": 4, "retried": 0, "aborted": 0, "tables": tables}
    stats |= {"never_succeeded": never, "out_of_reach": {"no-progress": 600.0}}
    run = write_run(tmp_path / "r", True, [Verdict("load", True, stats=stats)])
    assert rows_of(run, "untested") == [
        "no write changed t, so nothing is known of it",
        "no two commits met (none was retried, none aborted), so nothing is known of conflicts: run longer, or with more writers",
        "delete (3) never succeeded, so nothing is known of it",
        "this run was too short to see no-progress (600 s)",
    ]
    assert load_view.idle(stored.of(run).verdicts) == rows_of(run, "untested")[:-1], "what a night of short runs says"
    head = banner(stored.of(run)).errors
    assert [text for label, text in head if label == "not tested"] == rows_of(run, "untested")
    wrong = write_run(
        tmp_path / "wrong", False, [Verdict("load", True, stats=stats), Verdict("commits", False, (LOST,))]
    )
    assert all(label != "not tested" for label, _ in banner(stored.of(wrong)).errors)
    enough = {**stats, "retried": 1, "tables": {}, "never_succeeded": {}, "out_of_reach": {}}
    assert rows_of(write_run(tmp_path / "enough", True, [Verdict("load", True, stats=enough)]), "untested") == []


@pytest.mark.parametrize(("valid", "ending"), [(True, "; all else was judged"), ("unknown", ""), (False, "")])
def test_only_of_a_valid_run_that_tested_the_rest_it_is_said_that_all_else_was_judged(
    tmp_path: Path, valid: bool | str, ending: str
) -> None:
    stats = {"commits": 4, "retried": 1, "out_of_reach": {"no-progress": 600.0}}
    run = write_run(tmp_path, valid, [Verdict("load", True, stats=stats)])
    assert rows_of(run, "untested") == [f"this run was too short to see no-progress (600 s){ending}"]


def test_a_second_opinion_is_no_further_anomaly(tmp_path: Path) -> None:
    others = (("G-single", "isolation"), ("nl", "linearizable"))
    opinions = [replace(LOST, name=n, checker=c, same_as=LOST.name) for n, c in others]
    shown = replace(LOST, minimal=MinimalHistory(("a", "b"), (1,), complete=True))
    verdicts = [Verdict("commits", False, (shown,)), *(Verdict(a.checker, False, (a,)) for a in opinions)]
    text = "\n".join(summary.lines(write_run(tmp_path, False, verdicts), colour=False, width=200))
    assert "✕ mixed: 1 change lost\n" in text and "also found by isolation (G-single), linearizable" in text
    assert "2 operations show it, and no fewer: a, b" in text
    alone = "\n".join(summary.lines(write_run(tmp_path / "alone", False, verdicts[1:]), colour=False, width=200))
    assert "1 read skew" in alone and "2 anomalies" in alone, "of what nobody else found they are the word"


def test_results_that_an_older_icequake_wrote_tell_the_same(tmp_path: Path) -> None:
    """They have what one anomaly says of others among its evidence."""
    first = replace(LOST, minimal=MinimalHistory(("a", "b"), (1,), complete=True))
    second = replace(LOST, name="nl", checker="linearizable", same_as=LOST.name)
    folder = write_run(tmp_path, False, [Verdict(a.checker, False, (a,)) for a in (first, second)])
    now = summary.lines(folder, width=200, colour=False)
    results = json.loads((folder / "results.json").read_text())
    for v in results["checkers"]:
        for a in v["anomalies"]:
            fields = {"same_as": a.pop("same_as"), "minimal": a.pop("minimal"), "chain": a.pop("trail")}
            a["evidence"] |= {k: v for k, v in fields.items() if v}
    (folder / "results.json").write_text(json.dumps(results))
    assert summary.lines(folder, width=200, colour=False) == now
    assert "also found by linearizable" in "\n".join(now) and "2 operations show it" in "\n".join(now)


def test_a_folder_that_holds_nothing_has_a_summary(tmp_path: Path) -> None:
    text = "\n".join(summary.lines(tmp_path, width=200, colour=False))
    assert "Not checked" in text and "no such history" in text


def test_colour_changes_nothing_but_colour(tmp_path: Path) -> None:
    run = invalid(tmp_path)
    plain, painted = summary.lines(run, width=90, colour=False), summary.lines(run, width=90, colour=True)
    assert plain != painted
    for code in ("1;31", "2", "1", "0"):
        painted = [x.replace(f"\x1b[{code}m", "") for x in painted]
    assert painted == plain


def test_a_terminals_control_codes_do_not_pass(tmp_path: Path) -> None:
    found = Anomaly("x\x1b]0;title\x07", "c", None, "clear \x1b[2J the screen")
    run = write_run(tmp_path, False, [Verdict("c", False, (found,))])
    for colour in (False, True):
        text = "\n".join(summary.lines(run, colour=colour))
        assert "\x1b]" not in text and "\x07" not in text and "\x1b[2J" not in text


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("stream", "environment", "wanted"),
    [
        (Terminal(), {}, True),
        (Terminal(), {"NO_COLOR": "1"}, False),
        (Terminal(), {"CI": "true"}, False),
        (Terminal(), {"TERM": "dumb"}, False),
        (io.StringIO(), {}, False),
    ],
)
def test_colour_is_for_terminals_of_people(stream: io.StringIO, environment: dict[str, str], wanted: bool) -> None:
    assert summary.wants_colour(stream, environment) is wanted


# --- JUnit ------------------------------------------------------------------------------------------------------------

# The parts of junit-10.xsd (Jenkins) that are used: element → (children in any order, attributes, required attributes).
SCHEMA: dict[str, tuple[set[str], set[str], set[str]]] = {
    "testsuites": ({"testsuite"}, {"name", "time", "tests", "failures", "disabled", "errors"}, set()),
    "testsuite": (
        {"properties", "testcase", "system-out", "system-err"},
        {"name", "tests", "failures", "errors", "group", "time", "skipped", "timestamp", "hostname", "id", "package"},
        {"name", "tests", "failures", "errors"},
    ),
    "properties": ({"property"}, set(), set()),
    "property": (set(), {"name", "value"}, {"name", "value"}),
    "testcase": (
        {"skipped", "error", "failure", "system-out", "system-err"},
        {"name", "time", "classname", "group"},
        {"name"},
    ),
    "failure": (set(), {"type", "message"}, set()),
    "error": (set(), {"type", "message"}, set()),
    "skipped": (set(), {"type", "message"}, set()),
    "system-out": (set(), set(), set()),
}


def validate(element: ET.Element) -> None:
    """Hold an element and all below it to SCHEMA, and a suite's counts to its cases."""
    children, attributes, required = SCHEMA[element.tag]
    assert set(element.attrib) <= attributes and required <= set(element.attrib), element.tag
    assert {c.tag for c in element} <= children, element.tag
    if element.tag == "testsuite":
        cases = element.findall("testcase")
        assert int(element.get("tests", "")) == len(cases)
        for count, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
            assert int(element.get(count, "")) == sum(c.find(tag) is not None for c in cases), count
        assert not element.findall("properties")[1:]
    for child in element:
        validate(child)


def cases(text: str) -> dict[str, str]:
    """Case name → what became of it."""
    root = ET.fromstring(text)
    validate(root)
    outcome = {}
    for case in root.iter("testcase"):
        tags = [c.tag for c in case if c.tag in ("failure", "error", "skipped")]
        assert len(tags) <= 1
        outcome[case.get("name", "")] = tags[0] if tags else "passed"
    return outcome


def test_a_case_a_checker(tmp_path: Path) -> None:
    run = invalid(tmp_path)
    path = junit.write(run)
    assert path == run / "junit.xml"
    text = path.read_text()
    assert cases(text) == {
        "run": "passed",
        "replay": "failure",
        "linearizable": "failure",
        "liveness": "skipped",
        "metadata": "passed",
    }
    failure = next(ET.fromstring(text).iter("failure"))
    assert failure.get("message") == "undelete ×1" and "As the docs say." in (failure.text or "")
    suite = ET.fromstring(text)[0]
    assert suite.get("timestamp") == "2026-01-02T01:04:05"
    assert {"name": "command", "value": "icequake run mixed --seed 3"} in [p.attrib for p in suite.iter("property")]


@pytest.mark.parametrize("state", ["failed", "running", "interrupted"])
def test_an_incomplete_run_is_an_error_of_the_case_run(tmp_path: Path, state: str) -> None:
    run = write_run(tmp_path, True, [Verdict("reads", True)], state)
    assert cases(junit.render(run)) == {"run": "error", "reads": "passed"}


def test_a_run_that_was_never_checked_is_an_error(tmp_path: Path) -> None:
    assert cases(junit.render(tmp_path)) == {"run": "error"}


def test_an_expected_anomaly_is_no_failure_but_is_printed(tmp_path: Path) -> None:
    text = junit.render(write_run(tmp_path, True, [Verdict("replay", True, (LEGAL,))]))
    assert cases(text) == {"run": "passed", "replay": "passed"}
    assert "undelete on orders: As the docs say." in text


def test_an_invalid_run_fails_even_when_no_checker_does(tmp_path: Path) -> None:
    run = write_run(tmp_path, False, [Verdict("replay", True)])
    assert cases(junit.render(run)) == {"run": "failure", "replay": "passed"}


def test_hostile_text_is_still_xml(tmp_path: Path) -> None:
    text = "]]></failure><x>&\"'\x00\x1b\ud800\ufffe<"
    found = Anomaly(text, text, text, text * 2000, ops=(text,), documented=text)
    run = write_run(tmp_path, False, [Verdict(text, False, (found,) * 300), Verdict("u", "unknown", notes=(text,))])
    written = junit.write(run).read_text(encoding="utf-8")
    assert list(cases(written).values()) == ["passed", "failure", "skipped"]
    assert len(written) < 200_000


def test_why_nothing_could_be_decided_is_said_once(tmp_path: Path) -> None:
    why = "orders: none of 12 writes changed anything, so nothing was tested there"
    one = [Verdict("load", "unknown", notes=(why,))]
    text = " ".join("\n".join(summary.lines(write_run(tmp_path / "1", "unknown", one), colour=False, width=90)).split())
    assert f"No anomaly was proven, but the checker load could not decide: {why}" in text
    assert text.count(why) == 1
    two = [*one, Verdict("liveness", "unknown", notes=("no fault-free window",))]
    text = " ".join("\n".join(summary.lines(write_run(tmp_path / "2", "unknown", two), colour=False, width=90)).split())
    assert f"the checkers load, liveness could not decide. load: {why}" in text
    assert text.count(why) == 1 and "liveness: unknown: no fault-free window" in text


def test_that_the_record_is_not_whole_comes_before_what_was_found_in_it(tmp_path: Path) -> None:
    torn = Verdict("history", "unknown", notes=("history.jsonl: the last line is torn", "its end is missing"))
    run = write_run(tmp_path / "r", False, [Verdict("linearizable", False, (LOST,)), torn])
    lines = summary.lines(run, width=200, colour=False)
    said = [n for n, x in enumerate(lines) if "the last line is torn" in x]
    found = next(n for n, x in enumerate(lines) if "lost-update" in x)
    assert len(said) == 1 and said[0] < found, lines
    assert "Not all of the record can be used: history.jsonl" in lines[said[0]]
    assert "Not all of the record can be used: its end is missing." in lines[said[0] + 1]
