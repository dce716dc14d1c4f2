"""The run's page: what it says, that nothing from outside breaks out of it, and that it stays small."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal
from urllib.parse import unquote

import pytest
import yaml
from markupsafe import escape
from msgspec import structs

from checkers.costs import figures as figures_module
from checkers.evidence import error_chain, tablelog_file
from checkers.evidence.change_requests import ChangeRequest
from checkers.evidence.history import NEMESIS, Event, Operation
from checkers.evidence.plan import Plan
from checkers.evidence.recorder import Recorder
from checkers.evidence.replace import replace as altered
from checkers.evidence.tablelog import Capture, RowChange, TableLog
from checkers.formats.iceberg.records import IcebergCommit as Commit
from checkers.formats.iceberg.records import IcebergFile as FileEntry
from checkers.formats.iceberg.records import IcebergMetadata as Metadata
from checkers.judge.known import KnownDefect
from checkers.judge.repairsteps import ALONE, Repair, RepairStep
from checkers.judge.stories import Stories, Story, StoryStep
from checkers.names import Harm, meaning
from checkers.timeline import explain
from checkers.verdict import Anomaly, MinimalHistory, Validity, Verdict
from reports.drawing import words
from reports.reproduction.runissue import run_issue
from reports.run import (
    anomalies,
    card,
    operations,
    page,
    picture,
    plots,
    statements,
    stored,
    stories_view,
    summary,
    timeline,
    values,
)
from reports.run import bands as measure
from reports.run import banner as banner_module
from reports.run.repairs import repair_steps
from reports.run.stored import Stored
from workloads.operations.kind import Kind
from workloads.operations.kinds import KINDS

EPOCH_MS = 1_700_000_000_000
HOSTILE = "</script><img src=x onerror=alert(1)>\"'&<b>évil 冰\u202e\n\x00{{ 7 * 7 }}"
DOCUMENTED = "https://iceberg.apache.org/docs/latest/reliability/"
KNOWN = "https://github.com/apache/iceberg/issues/10720"
"""Where the scenario that the anomaly of :func:`write_run` looks like is discussed."""


# --- small runs -------------------------------------------------------------------------------------------------------


class Clock:
    """Time 0 at first, then what the test says, in ms."""

    def __init__(self) -> None:
        self.ms = 0.0

    def __call__(self) -> int:
        return int(self.ms * 1e6)


Line = tuple[float, str, int | str, str, str | None, Any, str | None, list[list[str]] | None]
"""(at in ms, type, process, f, table, value, op, error)"""


def write_history(folder: Path, lines: Iterable[Line], phase: str = "main") -> None:
    """The history of a run, through the real recorder."""
    clock = Clock()
    with Recorder(folder / "history.jsonl", {"workload": "w", "seed": 1}, clock=clock) as recorder:
        for at, type_, process, f, table, value, op, error in lines:
            clock.ms = at
            extra = {"phase": phase} if type_ == "invoke" else {}
            recorder.record(type_, process, f, table=table, value=value, op=op, error=error, **extra)  # type: ignore[arg-type]


def commit(
    sequence: int,
    op: str,
    at_ms: float,
    *,
    attempt: int = 1,
    operation: str = "overwrite",
    added: tuple[tuple[Any, ...], ...] = (),
    removed: tuple[tuple[Any, ...], ...] = (),
) -> Commit:
    """A snapshot whose id is its sequence number times 100, child of the one before."""

    def changes(rows: tuple[tuple[Any, ...], ...]) -> tuple[RowChange, ...]:
        return tuple(RowChange(row, f"data/{sequence}.parquet", 0) for row in rows)

    return Commit(
        snapshot_id=sequence * 100,
        parent_id=(sequence - 1) * 100 or None,
        sequence_number=sequence,
        timestamp_ms=EPOCH_MS + int(at_ms),
        operation=operation,
        summary={},
        op=op,
        attempt=attempt,
        manifest_list=f"metadata/snap-{sequence * 100}-{attempt}-u.avro",
        schema_id=0,
        metadata=sequence,
        added=changes(added),
        removed=changes(removed),
        added_files=(
            FileEntry(f"data/{sequence}.parquet", "data", 1, 100, {}, format="parquet", data_sequence_number=sequence),
        ),
        removed_files=(),
    )


def log_of(table: str, commits: tuple[Commit, ...], *, complete: bool = True) -> TableLog:
    """The log of a table whose main ends at the last of ``commits``."""
    ids = tuple(c.snapshot_id for c in commits)
    metadata = tuple(
        Metadata(
            n,
            f"m{n}.json",
            EPOCH_MS,
            ids[n - 1] if n else None,
            ids[:n],
            {},
            format_version=2,
            last_sequence_number=n,
            next_row_id=None,
            raw={},
        )
        for n in range(len(commits) + 1)
    )
    columns = ("id", "val", "cnt", "log", "part")
    return TableLog(table, f"db.{table}", f"s3://b/{table}", columns, metadata, commits, (Capture(9, "m"),), complete)


def write_results(folder: Path, valid: Validity, verdicts: Iterable[Verdict]) -> None:
    """``results.json`` as the checkers write it."""
    text = json.dumps({"valid": valid, "checkers": [v.to_json() for v in verdicts]})
    (folder / "results.json").write_text(text)


def undelete(**changes: Any) -> Anomaly:
    """The anomaly of :func:`write_run`."""
    values: dict[str, Any] = {
        "name": "undelete",
        "checker": "replay",
        "table": "orders",
        "explanation": "The delete w1-0 was acknowledged, yet id 7 is still there.",
        "ops": ("w1-0", "w0-0", "w1-1"),
        "snapshots": (200,),
        "files": ("data/2.parquet",),
        "keys": (7,),
        "documented": DOCUMENTED,
    }
    return Anomaly(**(values | changes))


CONFIRMS = undelete(name="lost-update", checker="isolation", same_as="undelete")
"""What another checker says of the anomaly of :func:`write_run`."""


def write_run(folder: Path) -> Path:
    """A complete run of five operations on one table, with one documented anomaly."""
    folder.mkdir(parents=True, exist_ok=True)
    conflict = [
        ["org.apache.spark.SparkException", "Writing job aborted"],
        ["org.apache.iceberg.exceptions.ValidationException", "Found conflicting files: [a.parquet, b.parquet]"],
    ]
    write_history(
        folder,
        [
            (100, "invoke", 0, "update-register", "orders", {"ids": [7]}, "w0-0", None),
            (150, "invoke", 1, "delete", "orders", {"ids": [7]}, "w1-0", None),
            (400, "ok", 0, "update-register", "orders", None, "w0-0", None),
            (500, "info", "nemesis", "start-partition", None, None, None, None),
            (900, "ok", 1, "delete", "orders", None, "w1-0", None),
            (1000, "invoke", 0, "merge-upsert", "orders", {"ids": [1, 2]}, "w0-1", None),
            (1900, "fail", 0, "merge-upsert", "orders", None, "w0-1", conflict),
            (2000, "invoke", 1, "insert", "orders", {"ids": [3]}, "w1-1", None),
            (2500, "info", "nemesis", "stop-partition", None, None, None, None),
            (9000, "info", 1, "insert", "orders", None, "w1-1", [["java.io.IOException", "timeout after 7000 ms"]]),
            (9100, "invoke", 3, "read", "orders", {}, "w1-2", None),
            (9300, "ok", 3, "read", "orders", [[7, "w0-0", 0, "x", 3]], "w1-2", None),
        ],
    )
    (folder / "tablelog").mkdir()
    seed, new = (7, "seed", 0, "seed", 3), (7, "w0-0", 0, "seed", 3)
    commits = (
        commit(1, "w0-0", 390, attempt=3, added=(new,), removed=(seed,)),
        commit(2, "w1-0", 880, operation="delete"),
    )
    tablelog_file.write(log_of("orders", commits), folder / "tablelog" / "orders.jsonl")
    write_results(
        folder,
        False,
        [
            Verdict("replay", False, (undelete(),), {"tables": {"orders": {"commits": 2, "share": 0.25}}}),
            Verdict("commits", True, (), {"resolutions": {"w1-1": "not-applied"}}),
            Verdict("liveness", "unknown", notes=("no fault-free window",)),
            Verdict("metadata", True),
        ],
    )
    plan = {
        "workload": "mixed",
        "seed": 42,
        "catalog": "rest",
        "writers": 2,
        "command": "icequake run mixed --seed 42",
        "versions": {"spark": "4.1.4", "iceberg": "1.12.0"},
        "tables": [{"name": "orders", "format_version": 2, "mode": "merge-on-read", "partitioned": True}],
        "phases": [{"name": "main", "length": {"ops": 5}, "operations": {"insert": {"weight": 3.0, "keys": "own"}}}],
    }
    (folder / "plan.yaml").write_text(yaml.safe_dump(plan))
    state = {
        "state": "complete",
        "started": "2026-01-02T03:04:05+00:00",
        "timings": {"stack": 5.5, "total": 20.0},
        "peak_memory_bytes": 3_400_000_000,
    }
    (folder / "run.json").write_text(json.dumps(state))
    (folder / "logs").mkdir()
    (folder / "logs" / "a b&c.log").write_text("x")
    return folder


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return write_run(tmp_path / "store" / "mixed" / "20260102T030405.000Z")


# --- reading a page ---------------------------------------------------------------------------------------------------

VOID = {"meta", "br", "link", "img", "input", "hr"}


class Page(HTMLParser):
    """A strict reading: every element closed in order; ids, links, text and attributes collected."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.ids: list[str] = []
        self.hrefs: list[str] = []
        self.tags: list[str] = []
        self.attributes: set[str] = set()
        self.sources: list[str] = []
        self.words: list[str] = []
        self.feed(html)
        self.close()
        assert not self.open, f"never closed: {self.open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in VOID:
            self.open.append(tag)
        self._see(tag, attrs)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._see(tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        assert self.open and self.open[-1] == tag, f"</{tag}> within {self.open[-3:]}, line {self.getpos()}"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        if not self.open or self.open[-1] not in ("script", "style"):
            self.words.append(data)

    def _see(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        for name, value in attrs:
            self.attributes.add(name)
            if name == "id":
                self.ids.append(value or "")
            elif name == "href":
                self.hrefs.append(value or "")
            elif name in ("src", "srcset", "xlink:href", "action", "data", "poster", "background"):
                self.sources.append(value or "")

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


def read(html: str) -> Page:
    """Parse a page and hold it to what every page must keep."""
    seen = Page(html)
    assert len(seen.ids) == len(set(seen.ids)), "an id twice"
    assert seen.tags.count("script") == 1, "a script that is not ours"
    assert not [a for a in seen.attributes if a.startswith("on")], "an event handler in an attribute"
    assert not seen.sources, f"loads {seen.sources}"
    assert "img" not in seen.tags and "iframe" not in seen.tags and "link" not in seen.tags
    assert "@import" not in html
    assert html.count("url(") == html.count("url(#"), "a style that loads something"
    for href in seen.hrefs:
        if href.startswith("#"):
            assert href[1:] in seen.ids or unquote(href[1:]) in seen.ids, f"{href} leads nowhere"
        elif href.startswith("http"):
            assert href in (DOCUMENTED, KNOWN)
        else:
            assert "//" not in href and not href.startswith("/") and ":" not in href.split("/")[0]
    return seen


# --- what it says -----------------------------------------------------------------------------------------------------


def test_a_page_answers_the_question_first_and_shows_the_evidence(run: Path) -> None:
    path = page.write(run)
    assert path == run / "report.html"
    seen = read(path.read_text())
    text = seen.text
    assert text.index("1 delete that left its row") < text.index("DELETE w1-0 did not delete id 7")
    assert text.index("DELETE w1-0 did not delete id 7") < text.index("Operation mix")
    for expected in (
        "4 checkers judged 5 operations on 1 table; 1 of them found one anomaly, undelete. It is documented as possible.",
        "icequake run mixed --seed 42",
        "2026-01-02 03:04:05 UTC",
        "3 ok · 1 failed · 1 unknown",
        "The delete w1-0 was acknowledged, yet id 7 is still there.",
        "ids=[7]",
        "seq 1, attempt 3",
        "? unknown , not applied",
        "orders 2 0.25",
        "100 ms",
        "− id=7 val=seed cnt=0 log=seed part=3",
        "+ id=7 val=w0-0 cnt=0 log=seed part=3",
        "Found conflicting files: …",
        "1 of 2 commits (50.0 %) needed more than one attempt; 2 attempts were wasted.",
        "1 of 4 writes (25.0 %) was aborted by a conflict: ValidationException 1.",
        "no fault-free window",
        "merge-on-read",
        "1.12.0",
        "5.5 s",
        "3.4 GB",
        "All 5 operations are shown.",
        "returned 1 row: (7, w0-0, 0, x, 3)",
    ):
        assert expected in text, expected
    assert {"history.jsonl", "plan.yaml", "results.json", "tablelog/orders.jsonl", "logs/a%20b%26c.log"} <= set(
        seen.hrefs
    )
    assert {"op-w0-0", "op-w1-1", "anomaly-1"} <= set(seen.ids)
    assert "#op-w1-0" in seen.hrefs and DOCUMENTED in seen.hrefs
    assert html_time_of_partition(path) == "partition: 0.5 to 2.5 s"


def html_time_of_partition(path: Path) -> str:
    """The title of the nemesis band."""
    text = path.read_text()
    at = text.index("<title>partition") + len("<title>")
    return text[at : text.index("<", at)]


@pytest.mark.parametrize(
    ("valid", "state", "checkers", "status", "headline"),
    [
        (True, "complete", [Verdict("reads", True)], "valid", "Valid"),
        (True, "complete", [Verdict("reads", True, (undelete(),))], "valid", "Valid"),
        (False, "complete", [Verdict("reads", False, (undelete(),) * 3)], "invalid", "3 deletes that left their rows"),
        (False, "complete", [Verdict("retries", False)], "invalid", "Not valid"),
        ("unknown", "complete", [Verdict("reads", "unknown")], "unknown", "Unknown"),
        (True, "failed", [Verdict("reads", True)], "incomplete", "Incomplete"),
        (False, "failed", [Verdict("reads", False, (undelete(),))], "invalid", "1 delete that left its row"),
        (None, "complete", [], "incomplete", "Not checked"),
        (None, "interrupted", [], "incomplete", "Incomplete"),
        ("maybe", "complete", [], "unknown", "Unknown"),
    ],
)
def test_the_banner(run: Path, valid: Any, state: str, checkers: list[Verdict], status: str, headline: str) -> None:
    (run / "run.json").write_text(json.dumps({"state": state}))
    (run / "results.json").unlink()
    if valid is not None:
        write_results(run, valid, checkers)
    banner = banner_module.banner(stored.load(run))
    assert (banner.status, banner.headline) == (status, headline)
    read(page.render(run))


@pytest.mark.parametrize(
    ("valid", "checkers", "said"),
    [
        (
            False,
            [Verdict("replay", False, (undelete(),)), Verdict("isolation", False, (CONFIRMS,)), Verdict("reads", True)],
            "3 checkers judged 5 operations on 1 table; 2 of them found one anomaly, undelete. It is documented",
        ),
        (
            False,
            [Verdict("replay", False, (undelete(), undelete(name="lost-update"))), Verdict("reads", True)],
            "2 checkers judged 5 operations on 1 table; 1 of them found 2 anomalies: ",
        ),
        (
            False,
            [Verdict("replay", False, (undelete(),))],
            "1 checker judged 5 operations on 1 table and found one anomaly, ",
        ),
        (
            True,
            [Verdict("replay", True, (undelete(),)), Verdict("reads", True)],
            "2 checkers judged 5 operations on 1 table; 1 of them found exactly what was expected: undelete.",
        ),
    ],
)
def test_the_banner_says_who_judged_and_who_found(run: Path, valid: bool, checkers: list[Verdict], said: str) -> None:
    write_results(run, valid, checkers)
    assert banner_module.banner(stored.load(run)).sentence.startswith(said)


def test_a_run_whose_process_is_gone_is_incomplete(run: Path) -> None:
    (run / "run.json").write_text(json.dumps({"state": "running", "pid": 1, "pid_started": 0.5}))
    assert banner_module.banner(stored.load(run)).status == "invalid"  # an anomaly is one, also in a run that died
    assert "The run ended before it was done." in banner_module.banner(stored.load(run)).sentence
    (run / "results.json").unlink()
    assert banner_module.banner(stored.load(run)).headline == "Incomplete"


# --- what may be missing or broken ------------------------------------------------------------------------------------


@pytest.mark.parametrize("missing", ["plan.yaml", "run.json", "results.json", "history.jsonl", "tablelog/orders.jsonl"])
@pytest.mark.parametrize("content", [None, b"", b"\xff\xfe{", b"[1, 2", b"{}\n", b"null", b"- a\n"])
def test_any_file_may_be_absent_or_broken(run: Path, missing: str, content: bytes | None) -> None:
    (run / missing).unlink()
    if content is not None:
        (run / missing).write_bytes(content)
    read(page.render(run))


def test_an_empty_folder_has_a_page_and_no_folder_has_none(tmp_path: Path) -> None:
    seen = read(page.render(tmp_path))
    assert "Not checked" in seen.text and "no such history" in seen.text
    with pytest.raises(FileNotFoundError, match="no such folder"):
        page.render(tmp_path / "nowhere")


def test_a_history_without_operations(tmp_path: Path) -> None:
    write_history(tmp_path, [])
    write_results(tmp_path, True, [Verdict("reads", True)])
    tail = read(page.render(tmp_path)).text
    assert "The history has no operations." in tail


def test_operations_that_never_ended(tmp_path: Path) -> None:
    write_history(tmp_path, [(5, "invoke", 0, "insert", "t", {"ids": [1]}, "w0-0", None)])
    text = read(page.render(tmp_path)).text
    assert "(never completed)" in text and "0 ok · 0 failed · 1 unknown" in text


def test_a_torn_history_is_said(run: Path) -> None:
    with (run / "history.jsonl").open("ab") as f:
        f.write(b'{"index":12,"ti')
    assert "the last line is torn" in read(page.render(run)).text


@pytest.mark.parametrize(
    "results",
    [
        {"valid": False},
        {"valid": False, "checkers": None},
        {"valid": 1, "checkers": [None, 3, {}]},
        {"valid": False, "checkers": [{"checker": None, "anomalies": [{}, None, {"ops": "abc", "keys": [True, "x"]}]}]},
        {"valid": False, "checkers": [{"checker": "c", "valid": False, "stats": [1], "notes": "n", "anomalies": {}}]},
    ],
)
def test_results_of_another_form(run: Path, results: Any) -> None:
    (run / "results.json").write_text(json.dumps(results))
    read(page.render(run))


@pytest.mark.parametrize(
    "plan",
    [
        {
            "tables": "none",
            "operations": [1],
            "versions": 3,
            "writers": True,
            "phases": 7,
            "command": ["icequake", "a b"],
        },
        {"tables": {"orders": {"mode": "x"}, "b": None}, "operations": {"insert": 3, "read": None}, "writers": 0},
        {
            "workload": {"name": "inner"},
            "catalog": {"type": "rest", "uri": "http://x"},
            "phases": [None, {"operations": {}}],
        },
    ],
)
def test_plans_of_another_form(run: Path, plan: Any) -> None:
    (run / "plan.yaml").write_text(yaml.safe_dump(plan))
    read(page.render(run))


# --- what must not break out ------------------------------------------------------------------------------------------


def hostile_run(folder: Path) -> Path:
    """A run in which every text from outside is hostile."""
    write_run(folder)
    for name in ("history.jsonl", "plan.yaml", "results.json", "run.json"):
        (folder / name).unlink()
    lines: list[Line] = []
    for n, outcome in enumerate(("ok", "fail", "info")):
        op = f"{HOSTILE}{n}"
        lines.append((n * 10 + 1, "invoke", n, HOSTILE, HOSTILE, {HOSTILE: HOSTILE, "x": [HOSTILE]}, op, None))
        lines.append((n * 10 + 5, outcome, n, HOSTILE, HOSTILE, [HOSTILE], op, [[HOSTILE, HOSTILE], [HOSTILE]]))
    lines.append((50, "info", "nemesis", f"start-{HOSTILE}", None, None, None, None))
    lines.append((60, "info", "nemesis", "phase", None, HOSTILE, None, None))
    write_history(folder, lines, phase=HOSTILE)
    row = (7, HOSTILE, 0, HOSTILE, 3)
    commits = (commit(1, f"{HOSTILE}0", 3, operation=HOSTILE, added=(row,)),)
    tablelog_file.write(log_of(HOSTILE, commits), folder / "tablelog" / "orders.jsonl")
    found = Anomaly(
        name=HOSTILE,
        checker=HOSTILE,
        table=HOSTILE,
        explanation=HOSTILE,
        ops=(f"{HOSTILE}0", HOSTILE),
        files=(HOSTILE,),
        keys=(7,),
        documented="javascript:alert(1)",
        evidence={HOSTILE: HOSTILE},
    )
    verdict = Verdict(HOSTILE, False, (found,), {HOSTILE: HOSTILE, "n": {HOSTILE: [HOSTILE]}}, (HOSTILE,))
    write_results(folder, False, [verdict])
    nested = {HOSTILE: HOSTILE, "properties": {HOSTILE: HOSTILE}}
    plan = {
        "workload": HOSTILE,
        "description": HOSTILE,
        "command": HOSTILE,
        "catalog": HOSTILE,
        "seed": HOSTILE,
        "versions": {HOSTILE: HOSTILE},
        "tables": [nested],
        "operations": {HOSTILE: {"weight": HOSTILE, HOSTILE: HOSTILE}},
        "phases": [nested],
        HOSTILE: HOSTILE,
    }
    (folder / "plan.yaml").write_text(json.dumps(plan))  # JSON is YAML
    (folder / "run.json").write_text(
        json.dumps({"state": HOSTILE, "error": HOSTILE, "timings": {HOSTILE: 3}, HOSTILE: HOSTILE})
    )
    name = "<img src=x onerror=alert(1)>\"'&#?.log"
    (folder / "logs" / name).write_text("x")
    return folder


def test_hostile_text_stays_text(tmp_path: Path) -> None:
    html = page.render(hostile_run(tmp_path / "r"))
    seen = read(html)
    assert "<img" not in html and "javascript:alert(1)" in seen.text
    assert "évil 冰" in seen.text and "{{ 7 * 7 }}" in seen.text
    assert "\x00" not in html and "\u202e" not in html
    assert [h for h in seen.hrefs if h.startswith("logs/%3Cimg")]
    html.encode("utf-8")


def test_lone_surrogates_do_not_stop_the_page_from_being_saved(run: Path) -> None:
    found = json.dumps(undelete(explanation="Half a pair: \ud800").to_json())
    (run / "results.json").write_text(f'{{"valid": false, "checkers": [{{"checker": "c", "anomalies": [{found}]}}]}}')
    assert "Half a pair: \ufffd" in page.write(run).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("target", "safe"),
    [
        (DOCUMENTED, True),
        ("http://example.org/", True),
        ("javascript:alert(1)", False),
        ("data:text/html,x", False),
        ("//example.org", False),
        ("https://", False),
        ("http://[", False),
        (None, False),
    ],
)
def test_only_web_links_are_links(target: str | None, safe: bool) -> None:
    assert (words.safe(target) is not None) == safe


# --- size -------------------------------------------------------------------------------------------------------------

BOUND = 3_000_000


CONFLICT = "org.apache.iceberg.exceptions.ValidationException"


def operation(n: int, argument: Any) -> Operation:
    """The ``n``-th operation of :func:`many`: every tenth fails, every 97th ends unknown."""
    kind: Literal["ok", "fail", "info"] = "fail" if n % 10 == 0 else "info" if n % 97 == 0 else "ok"
    error = None if kind == "ok" else [[CONFLICT, f"conflict {'x' * (n % 7)} <{n}>"]]
    op, process, f, table = f"w{n % 4}-{n}", n % 4, "update-register", f"t{n % 64}"
    start = n * 50_000_000
    first = Event(2 * n, start, "invoke", process, f, table, argument, op)
    last = Event(2 * n + 1, start + 40_000_000 + n % 1000 * 100_000, kind, process, f, table, None, op, error)
    return Operation(op, process, f, table, kind, argument, None, error, first, last)


def many(count: int, argument: Any = None) -> Stored:
    """A run of ``count`` operations by four writers, with ten thousand anomalies and texts without end."""
    operations = tuple(operation(n, argument) for n in range(count))
    involved = tuple(o.op for o in operations[:: max(1, count // 30)])
    found = tuple(
        undelete(
            name=f"name-{n % 60}",
            ops=involved[n % 3 :],
            explanation="&" * 5000,
            evidence={"e": "<" * 5000},
            files=("f" * 500,) * 100,
        )
        for n in range(10_000)
    )
    logs = {}
    for t in range(64):
        made = operations[t::64][: count // 128]
        commits = (commit(k + 1, o.op, o.start / 1e6 + 30, attempt=1 + k % 12) for k, o in enumerate(made))
        logs[f"t{t}"] = log_of(f"t{t}", tuple(commits))
    return Stored(
        folder=Path("r"),
        plan=Plan.model_validate({"writers": 4, "x": ["y" * 1000] * 1000}),
        run={"state": "complete"},
        results={"valid": False},
        verdicts=(Verdict("replay", False, found, {f"s{n}": "v" * 500 for n in range(500)}, ("n" * 3000,) * 300),),
        header={},
        events=tuple(e for o in operations for e in (o.invoked, o.completed) if e is not None),
        operations=operations,
        logs=logs,
        files=(),
        problems=("p" * 5000,) * 100,
    )


@pytest.mark.slow
def test_a_hundred_thousand_operations_fit_into_a_small_page_that_says_what_was_cut() -> None:
    run = many(100_000, {"ids": list(range(1000)), "&": '"' * 1000})
    html = page.render(run)
    assert len(html.encode()) < BOUND
    text = read(html).text
    drawn = plots.sample(run.operations, plots.MOST_POINTS)
    assert f"{len(drawn):,} of 100,000 completed operations are drawn".replace(",", " ") in text
    assert "2 000 of 100 000 operations are shown" in text
    assert "50 of 10 000 anomalies are shown" in text
    assert "more operations, in results.json" in text
    assert "(cut; the whole text is in results.json)" in text


def test_a_sample_keeps_the_slowest_and_every_outcome() -> None:
    operations = many(20_000).operations
    drawn = plots.sample(operations, 1000)
    assert len(drawn) < 1400
    slowest = max(operations, key=lambda o: figures_module.latency_ms(o) or 0)
    assert slowest in drawn
    assert {o.type for o in drawn} == {"ok", "fail", "info"}
    assert [o.op for o in drawn] == sorted((o.op for o in drawn), key=lambda op: int(op.split("-")[1]))


def test_few_operations_are_all_drawn() -> None:
    operations = many(100).operations
    assert plots.sample(operations, 1000) == list(operations)


# --- figures ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("expected id 123 != 456", "expected id 9 != 7"),
        ("missing s3://b/x-1.parquet", "missing s3://b/y.parquet"),
        ("files [a.parquet, b.parquet]", "files [c.parquet, d.parquet, e.parquet]"),
        ("table 0a1b2c3d-0a1b-2c3d-4e5f-0a1b2c3d4e5f gone", "table ffffffff-0a1b-2c3d-4e5f-0a1b2c3d4e5f gone"),
        ("true: [s3://b/a.parquet]", "true: [s3://b/a.parquet, s3://b/b.parquet]"),
        ("first line\nsecond", "first line\nanother"),
        ('Table "v2_cow" has no column "extra_6"', 'Table "v3_mor" has no column "extra_5"'),
        ("Binder Error: Binder Error: no column", "Binder Error: no column"),
    ],
)
def test_messages_of_one_family_are_grouped(a: str, b: str) -> None:
    assert error_chain.message_pattern(a) == error_chain.message_pattern(b)


def test_the_telling_exception_is_icebergs_own() -> None:
    chain = [
        ["org.apache.spark.SparkException", "aborted"],
        ["org.apache.iceberg.exceptions.CommitFailedException", "no"],
    ]
    assert error_chain.deciding_error(chain) == ("org.apache.iceberg.exceptions.CommitFailedException", "no")
    assert error_chain.deciding_error([["java.net.ConnectException", "refused"]]) == (
        "java.net.ConnectException",
        "refused",
    )
    assert error_chain.deciding_error(None)[0] == "(no error recorded)"


def nemesis_events(*moves: tuple[float, str, str]) -> list[Event]:
    """(at in s, type, f) → events of the nemesis."""
    return [Event(n, int(at * 1e9), t, "nemesis", f) for n, (at, t, f) in enumerate(moves)]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("moves", "bands", "marks"),
    [
        ([(1, "info", "start-kill"), (3, "info", "stop-kill")], [("kill", 1, 3)], []),
        ([(1, "info", "start-kill")], [("kill", 1, 10)], []),
        ([(1, "invoke", "pause"), (2, "ok", "pause")], [("pause", 1, 2)], []),
        (
            [(1, "info", "start-a"), (2, "info", "start-b"), (5, "info", "heal")],
            [("a", 1, 5), ("b", 2, 5)],
            [("heal", 5)],
        ),
        ([(1, "info", "phase-main")], [], [("main", 1)]),
        ([(1, "info", "stop-never-started")], [], []),
    ],
)
def test_faults_become_bands(
    moves: list[tuple[float, str, str]], bands: list[tuple[str, float, float]], marks: list[tuple[str, float]]
) -> None:
    found, noted = measure.nemesis(nemesis_events(*moves), 10.0)
    assert [(b.name, b.start, b.end) for b in found] == bands
    assert [(m.name, m.at) for m in noted] == marks


def test_commits_are_placed_within_their_operations(run: Path) -> None:
    """No clock is shared: the acknowledged operations around the snapshots' stamps say where time 0 was."""
    loaded = stored.load(run)
    origin = measure.clock_origin_ms(loaded.operations, loaded.commits_by_op(), {})
    assert origin is not None and abs(origin - EPOCH_MS) <= 20


def test_table_figures(run: Path) -> None:
    figures = measure.table_figures(stored.load(run).logs["orders"])
    assert (figures.commits, figures.off_main, figures.live_rows) == (2, 0, 0)
    assert figures.by_operation == {"overwrite": 1, "delete": 1}
    assert (figures.rows_added, figures.rows_removed, figures.data_added) == (1, 1, 2)


def test_a_snapshot_below_main_is_counted_and_rows_that_are_not_known_are_not_guessed() -> None:
    kept, lost = commit(1, "a", 1, added=((1,),)), commit(2, "b", 2)
    log = log_of("t", (kept, lost))
    moved_back = Metadata(
        3, "m", EPOCH_MS, 100, (100,), {}, format_version=2, last_sequence_number=2, next_row_id=None, raw={}
    )
    log = TableLog(log.table, "", "", log.columns, (*log.metadata, moved_back), log.commits, (), False)
    figures = measure.table_figures(log)
    assert (figures.off_main, figures.live_rows) == (1, 1)
    rootless = log_of("t", (lost,))
    assert measure.table_figures(rootless).live_rows is None


@pytest.mark.parametrize(
    ("value_ms", "text"),
    [
        (0.04, "0 ms"), (3.24, "3.2 ms"), (12, "12 ms"), (999.4, "999 ms"), (999.7, "1 s"), (1234, "1.23 s"),
        (12_340, "12.3 s"), (125_000, "2 min 5 s"), (300_000, "5 min"), (7_260_000, "2 h 1 min"), (7_200_000, "2 h"),
    ],
)  # fmt: skip
def test_durations_have_units(value_ms: float, text: str) -> None:
    assert words.duration(value_ms) == text


def test_numbers_are_grouped_and_shares_do_not_lie() -> None:
    assert words.grouped(1234567) == "1\u202f234\u202f567"
    assert words.grouped(0.25) == "0.25" and words.grouped(None) == "–"
    assert words.share(1, 100_000) == "<0.1 %" and words.share(99_999, 100_000) == ">99.9 %"
    assert words.share(0, 0) == "–" and words.share(1, 4) == "25.0 %"


# --- drawings ---------------------------------------------------------------------------------------------------------


def test_a_broken_scale_is_monotonic_and_cuts_what_is_idle() -> None:
    scale = picture.BrokenScale([(0, 100), (50, 120), (60_000, 60_100)], 0, 1000)
    assert len(scale.segments) == 2
    places = [scale(t) for t in range(-10, 60_200, 10)]
    assert places == sorted(places) and places[0] >= 0 and places[-1] <= 1000
    assert scale(120) - scale(0) > 400 and scale(60_100) - scale(60_000) > 300
    assert scale.ticks() == sorted(scale.ticks())


def test_the_timeline_shows_anomalies_with_their_neighbours_and_says_what_it_leaves_out() -> None:
    operations = many(5000).operations
    shown = timeline.choose(operations, {"w0-4000", "w1-4501"}, most=100)
    assert len(shown) == 100 and {4000, 4501, 3999, 4001, 0} <= set(shown)
    lanes = timeline.timeline(operations, 4, {"w0-4000"}, {})
    assert lanes is not None and lanes.shown == timeline.MOST_DRAWN and lanes.total == 5000
    assert len(lanes.lanes) == 4 and [b.op for b in lanes.boxes if b.marked] == ["w0-4000"]
    skipped = sum(int(c.text.replace("\u202f", "").split()[0]) for c in lanes.cuts)
    assert skipped == 5000 - timeline.MOST_DRAWN


def test_a_process_after_an_unknown_outcome_stays_in_its_writers_lane(run: Path) -> None:
    loaded = stored.load(run)
    lanes = timeline.timeline(loaded.operations, loaded.writers, (), {})
    assert lanes is not None
    assert {b.op: b.lane for b in lanes.boxes} == {"w0-0": 0, "w0-1": 0, "w1-0": 1, "w1-1": 1, "w1-2": 1}


def test_boxes_of_a_lane_do_not_overlap(run: Path) -> None:
    loaded = stored.load(run)
    lanes = timeline.timeline(loaded.operations, loaded.writers, (), {})
    assert lanes is not None
    for lane in (0, 1):
        boxes = sorted((b.top, b.top + b.height) for b in lanes.boxes if b.lane == lane)
        assert all(end <= start for (_, end), (start, _) in pairwise(boxes))


def test_each_name_of_an_anomaly_is_shown_before_any_second_one() -> None:
    found = [undelete(name="a")] * 100 + [undelete(name="b"), undelete(name="c", documented=None)]
    chosen = anomalies.choose(found)
    assert len(chosen) == anomalies.MOST_CARDS
    assert [a.name for a in chosen[:2]] == ["c", "a"] and "b" in {a.name for a in chosen}


@pytest.mark.parametrize("kind", KINDS.values(), ids=lambda k: k.name)
def test_a_kind_is_filed_by_what_it_says_of_itself(kind: Kind) -> None:
    assert measure.is_write(kind.name) == kind.writes
    assert (measure.operation_class(kind.name) in ("read", "maintenance")) == (not kind.changes_rows or kind.goes_back)


def test_a_transfer_is_an_update_and_a_kind_of_another_system_is_maintenance() -> None:
    assert [measure.operation_class(f) for f in ("transfer", "read-both", "defragment")] == [
        "update",
        "read",
        "maintenance",
    ]
    assert measure.is_write("defragment") and not measure.is_write("read-foreign")


@pytest.mark.parametrize(("ids", "says"), [((7,), "the rows of id 7;"), ((7, 9), "the rows of ids 7, 9;")])
def test_the_note_of_a_minimal_history_says_that_its_numbers_are_ids(ids: tuple[int, ...], says: str) -> None:
    assert says in card._minimal_note(undelete(minimal=MinimalHistory(("w1-0", "w0-0"), ids, complete=True)))


# --- a card -----------------------------------------------------------------------------------------------------------


def with_proxies(run: Path) -> Path:
    """The run with what proxies saw: two operations read the first snapshot, and the commit of one was held and struck."""
    scan = {"service": "store", "kind": "read", "what": "GET /b/t/metadata/snap-100-3-u.avro"}
    lines: list[dict[str, Any]] = [
        {"time": 500_000_000, "writer": 1, **scan, "op": "w1-0", "nth": 1, "status": "206", "ms": 2.0},
        {"time": 9_150_000_000, "writer": 1, **scan, "op": "w1-2", "nth": 1, "status": "206", "ms": 2.0},
        {
            "time": 600_000_000,
            "writer": 1,
            "service": "catalog",
            "kind": "commit",
            "what": "POST /v1/t",
            "table": "orders",
            "op": "w1-0",
            "nth": 1,
            "base": "100",
            "new": "200",
            "status": "409",
            "ms": 250.0,
            "held": True,
            "faults": ["drop-reply"],
        },
    ]
    (run / "proxy.jsonl").write_text("".join(json.dumps(r, separators=(",", ":")) + "\n" for r in lines))
    return run


def test_the_picture_shows_what_each_operation_read_what_was_held_and_which_fault_was_on(run: Path) -> None:
    loaded = stored.load(with_proxies(run))
    assert {op: [s.snapshot for s in found] for op, found in loaded.scans.items()} == {"w1-0": [100], "w1-2": [100]}
    html = page.render(loaded)
    read(html)
    assert "w1-0 read snapshot 100 at 0.500 s" in html
    assert "its commit was held from 0.600 s to 0.850 s" in html and "was struck by drop-reply" in html
    at = html.index('class="row" data-op="w1-0"')
    assert 'class="held"' in html[at : html.index("</g>", at)] and 'class="struck"' in html[at : html.index("</g>", at)]
    assert 'class="reads" data-op="w1-0"' in html and "partition: 0.5 to 2.5 s" in html


def shown_of(run: Stored) -> operations.Shown:
    return operations.Shown.of(run, run.commits_by_op(), ())


def test_the_picture_shows_a_commit_when_its_request_was_answered(run: Path) -> None:
    """A snapshot is stamped before it is sent: by its stamp, a winner may seem to have been first."""
    shown = shown_of(stored.load(run))
    o = shown.operations["w0-0"]
    ((table, c),) = shown.commits["w0-0"]
    stamped = o.start / 1e6 + 1
    early = structs.replace(c, timestamp_ms=round(stamped + (shown.origin_ms or 0)))
    shown = replace(shown, commits={"w0-0": [(table, early)]})
    sent = ChangeRequest(o.start, 0.0, 0, "catalog", "commit", "orders", "w0-0", "1", "2", "200", ())

    def at(*requests: ChangeRequest) -> float:
        shown_too = replace(shown, run=replace(shown.run, change_requests={"w0-0": list(requests)}))
        return picture.interleaving(shown_too, [o], ()).commits[0].at

    ended = (o.end or 0) / 1e6
    late = replace(sent, ms=ended - o.start / 1e6)
    assert at(late) == pytest.approx(ended) and ended > stamped
    assert at(replace(late, status="409")) == at(sent) == at() == pytest.approx(stamped)


def test_the_picture_shows_that_an_acknowledged_commit_is_lost(run: Path) -> None:
    loaded = stored.load(run)
    shown = shown_of(loaded)
    o = shown.operations["w1-0"]
    request = ChangeRequest(o.start, 1.0, 1, "catalog", "commit", "orders", "w1-0", "1", "2", "204", ())
    shown = replace(shown, run=replace(loaded, change_requests={"w1-0": [request]}))
    found = picture.interleaving(shown, [o], (), ["w1-0"])
    drawing = "".join(str(getattr(b, "drawing", getattr(b, "keys", ""))) for b in picture.blocks(found, "x"))
    assert 'class="bar lost"' in drawing and 'class="promise"' in drawing and "w1-0 delete, lost" in drawing
    assert "answered as committed" in drawing
    assert "lost" not in str(picture.blocks(picture.interleaving(shown, [o], ()), "x"))


def test_of_many_rows_that_a_read_returned_a_card_shows_those_that_matter(run: Path) -> None:
    shown = shown_of(stored.load(run))
    o = shown.operations["w1-0"]
    rows = [[n, f"w0-{n}", 0] for n in range(9)]
    read_rows = structs.replace(o, f="read", type="ok", result=rows, error=None)

    def below(*keys: int) -> str:
        return operations.table(shown, [read_rows], keys=keys).rows[0].below

    assert "returned 9 rows, of id 7 (7, w0-7, 0)" in below(
        7
    ) and "returned 9 rows, of ids 7, 70 (7, w0-7, 0)" in below(7, 70)
    assert "returned 9 rows, of id 70 none" in below(70) and below().endswith("9 rows</span>")


def test_a_card_has_the_statements_the_meaning_of_its_name_and_who_executed_it(run: Path) -> None:
    html = page.render(run)
    card_of = html[html.index('id="anomaly-1"') :]
    for expected in (
        "CREATE TABLE orders (id BIGINT, val STRING, cnt BIGINT, log STRING, part INT) USING iceberg PARTITIONED BY (part)",
        "&#39;write.delete.mode&#39; = &#39;merge-on-read&#39;",
        "-- w1-0\nDELETE FROM orders WHERE id = 7",
        "UPDATE orders SET val = &#39;w0-0&#39; WHERE id = 7",
        "What “undelete” means",
        "icequake explain undelete",
        '<span class="tag engine">Spark 4.1.4, Iceberg 1.12.0</span>',
    ):
        assert expected in card_of, expected


@pytest.mark.parametrize(
    ("f", "value", "bound", "result", "shown"),
    [
        (
            "expire-snapshots",
            {"retain_last": 2},
            {"older_than": "2026-01-02 03:04:05.678"},
            None,
            "CALL system.expire_snapshots(table => 'orders', older_than => TIMESTAMP '2026-01-02 03:04:05.678', retain_last => 2);",
        ),
        (
            "rollback",
            {"back": 1},
            {},
            {"snapshot": 7953581547370397458, "rows": [[1, 2]]},
            "CALL system.rollback_to_snapshot(table => 'orders', snapshot_id => 7953581547370397458);",
        ),
    ],
)
def test_a_statement_has_what_the_run_put_into_it(
    run: Path, f: str, value: dict[str, int], bound: dict[str, str], result: Any, shown: str
) -> None:
    """So it can be run where the current catalog and namespace have the tables, as the statements above it are."""
    begun = Event(0, 1, "invoke", 1, f, "orders", value, "w1-9", extra=bound)
    made = Operation("w1-9", 1, f, "orders", "ok", value, result, None, begun, None)
    (fold,) = statements.blocks(stored.load(run), [made], tables=False)
    (file,) = fold.blocks  # type: ignore[union-attr]
    assert shown in file.text.splitlines() and "{" not in file.text  # type: ignore[union-attr]


def test_the_id_of_a_snapshot_is_short_and_all_of_it_is_there_to_copy() -> None:
    shown = operations.shortened("snapshot 7953581547370397458 of data/12345678901234567.parquet, id 7, <b>")
    assert str(shown).startswith('snapshot <a href="#timeline" class="id" title="7953581547370397458"')
    assert ">795358<i>1547370397458</i></a> of data/12345678901234567.parquet, id 7, &lt;b&gt;" in shown


def test_the_timeline_knows_the_keys_and_the_snapshots_of_each_operation(run: Path) -> None:
    html = page.render(with_proxies(run))
    assert 'data-f="k7 s200 s100"' in html, "it deleted key 7, made snapshot 200, and read 100"
    assert 'data-pick="k7"' in html


def test_no_json_is_on_the_page(run: Path) -> None:
    stats = {
        "metrics": {"latency_p50_ms": 300.0, "latency_p99_ms": 2000.0},
        "attempts": {"by_writer": {"w0": {"1": 4, "3": 1}}},
        "conflicts": {"pairs": [{"aborted": "delete", "by": "insert", "because": "time", "count": 2, "table": "t"}]},
        "spurious": {
            "aborted": 64,
            "judged": 64,
            "spurious": 36,
            "by_kind": {"delete": {"judged": 64, "spurious": 36}},
        },
        "success": {"committed": 1, "aborted": 3},
        "wasted": {"seconds": 9.3, "share": 0.06, "attempts": 70},
        "backoff_ms": {"committed": 10_500.0, "exhausted": 0},
        "faults": {"windows": 1, "inside": {"per_second": 6.4, "seconds": 20}, "outside": {"per_second": 5.7}},
    }
    nested = {
        "cycle": [{"after": "w1", "why": ["a", 1]}],
        "left": {"a": {"b": [1, {"c": None}]}},
        "n": [[1, "x"], True],
    }
    found = undelete(evidence=nested)
    write_results(run, False, [Verdict("retries", True, (), stats), Verdict("x", False, (found,), {"a": nested})])
    html = page.render(run)
    text = read(html).text
    for said in (
        "36 of 64 aborts were spurious",
        "1 of 4 operations that met a conflict committed in the end (25.0 %)",
        "Conflicts cost 9.3 s of work (6.0 % of all that writers worked) and 70 attempts of commits.",
        "delete insert t None it committed meanwhile 2",
        "while a fault was on 20 s 0 6.40",
    ):
        assert said in text, said
    assert '{"' not in text and '["' not in text and "{'" not in text


def test_statistics_of_few_things_with_many_figures_have_a_row_for_each_figure(run: Path) -> None:
    many = {f"figure_{n}": n for n in range(12)}
    write_results(run, True, [Verdict("metadata", True, (), {"tables": {"orders": many, "people": many}})])
    html = page.render(run)
    read(html)
    assert re.search("<th>tables</th><th class=.r.>orders</th><th class=.r.>people</th>", html)
    assert re.search("<td>figure 11</td><td class=.r.>11</td><td class=.r.>11</td>", html)
    few = {"commits": 2, "share": 0.25}
    write_results(run, True, [Verdict("metadata", True, (), {"tables": {"orders": few, "people": few}})])
    assert "<td>people</td>" in page.render(run), "few figures stand beside each other"


def test_who_points_at_a_word_of_ours_reads_what_it_means(run: Path) -> None:
    found = undelete(evidence={"seen": False})
    write_results(
        run,
        False,
        [Verdict("replay", False, (found,)), Verdict("commits", True, (), {"resolutions": {"w1-1": "not-applied"}})],
    )
    html = page.render(run)
    read(html)
    for word, means in (("seen", values.EXPLAINED["seen"]), ("undelete", meaning("undelete").sentence)):  # type: ignore[union-attr]
        assert re.search(rf'class="term" title="{re.escape(str(escape(means)))}">{word}<', html), word
    assert ' title="the table never had it">, not applied' in html
    assert f'title="{escape(words.OUTCOMES_MEAN["info"])}">? unknown' in html


@pytest.mark.parametrize(
    "stats", [{"conflicts": 3, "faults": {"windows": "x"}}, {"attempts": {"by_writer": {"w": 3}}}, {}]
)
def test_statistics_of_another_form_are_shown_as_far_as_they_go(run: Path, stats: dict[str, Any]) -> None:
    write_results(run, True, [Verdict("retries", True, (), stats)])
    read(page.render(run))


# --- stories on the page ----------------------------------------------------------------------------------------------


def lost(n: int, table: str = "orders") -> Story:
    """The ``n``-th of some stories of one shape, about the ``n``-th anomaly of the checker ``commits``."""
    return Story(
        table=table,
        name="lost-commit",
        headline=f"INSERT w9-{n} was acknowledged, and the table does not have it",
        consequence="What it wrote is gone.",
        harm=Harm.ROWS,
        who="DuckDB",
        engine="duckdb",
        ops=(f"w9-{n}",),
        snapshots=(),
        keys=(n,),
        count=1,
        steps=(StoryStep("lost-commit", ("commits",), 1, (f"w9-{n}",), f"insert w9-{n}: gone"),),
        anomalies=(("commits", n), ("linearizable", n)),
    )


def test_an_event_is_one_card_and_after_the_third_of_a_shape_there_is_a_line_for_each(run: Path) -> None:
    found = tuple(undelete(name="lost-commit", checker="commits", ops=(f"w9-{n}",), keys=(n,)) for n in range(5))
    again = tuple(replace(a, name="nonlinearizable", checker="linearizable", same_as="lost-commit") for a in found)
    verdicts = (Verdict("commits", False, found), Verdict("linearizable", False, again))
    told = Stories((), tuple(map(lost, range(5))))
    html = page.render(replace(stored.load(run), verdicts=verdicts, told=told))
    seen = read(html)
    assert [i for i in seen.ids if i.startswith("anomaly-")] == ["anomaly-1", "anomaly-2", "anomaly-3"]
    assert "2 more like this" in seen.text
    at = html.index("2 more like this")
    assert html.index("INSERT w9-2 was acknowledged") < at < html.index("INSERT w9-3 was acknowledged")
    assert seen.text.count("INSERT w9-4 was acknowledged") == 1
    first = html[html.index('id="anomaly-1"') : html.index('id="anomaly-2"')]
    assert "nonlinearizable, found by linearizable, confirms lost-commit" in first, "a second name is inside the event"
    assert "6 of 10 anomalies are shown" in seen.text
    assert "who did it DuckDB. " in seen.text and '<span class="tag engine">DuckDB</span>' in html


def raced(run: Path, minimal: tuple[str, ...] = (), **changes: Any) -> str:
    """The first card of a run in which w1-0 lost its commit, and w0-0 took its place."""
    a = undelete(
        name="lost-commit",
        checker="commits",
        ops=("w1-0",),
        keys=(7,),
        minimal=MinimalHistory(minimal, (7,), True) if minimal else None,
    )
    story = replace(
        lost(0),
        ops=("w1-0",),
        instead=(("w1-0", "w0-0"),),
        anomalies=(("commits", 0),),
        repairs=(RepairStep("Run `x` again."),),
        remedy="Beware.",
        **changes,
    )
    html = page.render(
        replace(stored.load(run), verdicts=(Verdict("commits", False, (a,)),), told=Stories((), (story,)))
    )
    read(html)
    return html[html.index('id="anomaly-1"') : html.index('id="plan"')]


def test_the_statement_of_what_was_lost_stands_above_the_others(run: Path) -> None:
    text = raced(run).partition("Statements")[2].partition("</pre>")[0]
    named = re.findall(r"^-- (\S+)", text, re.MULTILINE)
    assert named[0] == "w1-0" and len(named) > 1


def test_a_card_shows_the_operation_that_lost_the_race_and_the_one_that_won_it(run: Path) -> None:
    table = raced(run).partition("its commit</th>")[2].partition("</table>")[0]
    loser, winner = (table.partition(f'<tr data-op="{op}"')[2].partition("</tr>")[0] for op in ("w1-0", "w0-0"))
    assert "<b>lost</b>" in loser and "<b>took its place</b>" in winner
    assert "-- w0-0\nUPDATE orders" in raced(run) and "-- w1-0\nDELETE FROM orders" in raced(run)


def test_a_card_says_first_who_did_it_what_to_do_now_and_how_to_avoid_it(run: Path) -> None:
    head = raced(run).partition("<pre")[0]
    at = [
        head.index(x)
        for x in (
            "What it wrote is gone.",
            "<dt>who did it</dt>",
            "<dt>do now</dt><dd>Run <code>x</code> again.",
            "<dt>avoid it</dt>",
        )
    ]
    assert at == sorted(at) and at[-1] < head.index("committed as")


def test_the_first_screen_names_a_table_whose_wrong_rows_nobody_knows(run: Path) -> None:
    told = (lost(0, "orders"), replace(lost(1, "orders"), keys=()), replace(lost(2, "people"), keys=()))
    told = tuple(replace(s, name="undelete") for s in told)
    html = first_screen(run, *told)
    rows = "orders: id 0, and rows whose ids are not known; people: rows whose ids are not known"
    assert f"<dt>rows</dt><dd>{rows}</dd>" in html.partition("</header>")[0]


def first_screen(run: Path, *told: Story, **changes: Any) -> str:
    """The text above the sections of a page that tells these stories."""
    found = tuple(undelete(name="lost-commit", checker="commits", ops=s.ops[:1], keys=s.keys) for s in told)
    loaded = replace(stored.load(run), verdicts=(Verdict("commits", False, found),), told=Stories((), told), **changes)
    return page.render(loaded).partition("</header>")[0]


def named(n: int, writer: int) -> str:
    """How the first screen says what the name of its first operation is."""
    return f'<span class="muted">w{writer}-{n}: operation {n} of writer {writer}</span>'


def again(n: int, table: str, **changes: Any) -> Story:
    """A lost commit whose statement is to run again."""
    text = "Run {ops} again: {statements} on {card}."
    return replace(
        lost(n, table),
        repairs=(RepairStep(text, Repair.RUN_AGAIN, (f"w9-{n}",), notes=(f"w9-{n}: look.",)),),
        **changes,
    )


def test_the_first_screen_answers_for_all_stories_of_a_kind_together(run: Path) -> None:
    top = first_screen(run, again(1, "orders", how="lost it"), again(0, "people", how="lost it", remedy="Set `x`."))
    assert f"<dt>lost</dt><dd><ul><li>w9-0 {named(0, 9)}</li><li>w9-1</li></ul></dd>" in top
    assert "<dt>who did it</dt><dd>DuckDB lost it.</dd>" in top
    where = '<a href="#anomaly-1">cards 1–2</a>'
    notes = "<ul><li>w9-1: look.</li><li>w9-0: look.</li></ul>"  # neither is in the history
    otherwise = "Let another engine than DuckDB do that."
    assert f"<dt>do now</dt><dd>Run w9-1, w9-0 again: their statements are on {where}. {otherwise}{notes}</dd>" in top
    assert "<dt>avoid it</dt><dd>Set <code>x</code>.</dd>" in top
    assert '<dt>shown on</dt><dd><a href="#anomaly-1">cards 1–2</a>, found by commits</dd>' in top


def test_the_first_screen_answers_for_each_kind_the_gravest_first(run: Path) -> None:
    metadata = replace(
        lost(2, "people"), name="summary-count", harm=Harm.METADATA, headline="wrong", remedy="Report it."
    )
    top = re.sub(
        "<[^>]+>", " ", first_screen(run, again(0, "orders"), replace(lost(1), name="undelete", headline="h"), metadata)
    )
    at = [
        top.index(x)
        for x in (
            "1. INSERT w9-0 was acknowledged",
            "2. H",
            "3. Wrong",
            "Run w9-0 again",
            "Known: as possible: ",
            "Report it.",
        )
    ]
    assert at == sorted(at)
    many = [
        replace(lost(n), name=name, headline=f"h{n}")
        for n, name in enumerate(("undelete", "lost-update", "write-skew", "dup"))
    ]
    assert "besides: h3, by DuckDB" in re.sub("<[^>]+>", "", first_screen(run, *many))


def test_what_to_do_is_an_ordered_list_for_all_tables(run: Path) -> None:
    def mended(n: int, table: str) -> Story:
        steps = (
            RepairStep(f"Set {table} back.", Repair.SET_BACK),
            RepairStep("Stop {tables}.", Repair.STOP, tables=(table,)),
        )
        return replace(lost(n, table), repairs=steps)

    top = first_screen(run, mended(0, "orders"), mended(1, "people"))
    assert "<ol><li>Stop orders, people.</li><li>Set orders back.</li><li>Set people back.</li></ol>" in top


@pytest.mark.parametrize(
    ("link", "state", "says"),
    [
        ("https://github.com/apache/iceberg/issues/10720", "open", "iceberg#10720</a> (open). Affected: all"),
        ("https://github.com/apache/iceberg/issues/10720", "", "iceberg#10720</a> (state not recorded). Affected: "),
        ("https://iceberg.apache.org/spec/", "", "iceberg.apache.org: spec</a>. Affected: "),
        (
            "https://github.com/apache/iceberg/blob/main/A.java",
            "",
            "A.java</a> (known to icequake; not reported upstream). Affected: ",
        ),
        ("https://github.com/apache/iceberg/blob/main/A.java", "not fixed", "A.java</a> (not fixed). Affected: "),
    ],
)
def test_a_known_defect_says_what_has_become_of_it_and_that_this_release_has_it(
    run: Path, link: str, state: str, says: str
) -> None:
    """A state that nobody recorded is not invented; the page of a specification has none."""
    known = KnownDefect("undelete", link, ("undelete",), affected="all", state=state)
    said = first_screen(run, replace(lost(0), who="the log store", engine="", known=(known,)))
    assert says in said.partition("<dt>known</dt>")[2].partition("</dd>")[0]
    named = replace(lost(0), who="DuckDB 1.5.5", engine="", known=(known,))
    assert "Affected: all. Here ran DuckDB 1.5.5." in first_screen(run, named)


def test_what_ran_here_is_the_release_of_what_a_known_defect_affects(run: Path) -> None:
    plan = yaml.safe_load((run / "plan.yaml").read_text())
    plan["versions"] |= {"duckdb": "1.5.5"}
    (run / "plan.yaml").write_text(yaml.safe_dump(plan))
    known = KnownDefect("duckdb-merge-row-ids", KNOWN, ("undelete",), affected="DuckDB 1.5.4, format version 3")
    of_spark = replace(lost(0), who="Spark", engine="spark", known=(known,))
    assert "format version 3. Here ran DuckDB 1.5.5." in first_screen(run, of_spark)
    both = replace(known, affected="every Iceberg release; DuckDB 1.5.4 and Spark 4")
    assert "Spark 4. Here ran Spark 4.1.4, Iceberg 1.12.0." in first_screen(run, replace(of_spark, known=(both,)))


def test_each_remedy_of_an_answer_is_shown_once(run: Path) -> None:
    also = (replace(lost(n), remedy=said) for n, said in enumerate(("Set a. Set b.", "Set b. Set c."), 1))
    assert first_screen(run, replace(lost(0), remedy="Set a."), *also).count("Set a. Set b. Set c.") == 1


def deletes(run: Path, count: int) -> list[Operation]:
    """The run's delete, so many times by other names."""
    o = next(o for o in stored.load(run).operations if o.op == "w1-0")
    return [altered(o, op=f"w8-{n}") for n in range(count)]


def test_the_first_screen_has_the_statements_of_three_lost_operations_and_names_the_others(run: Path) -> None:
    ops = deletes(run, 5)
    told = [replace(lost(n, "orders"), ops=(o.op,)) for n, o in enumerate(ops)]
    said = first_screen(run, *told, operations=tuple(ops)).partition("<dt>lost</dt>")[2].partition("</dd>")[0]
    assert said.count("DELETE FROM orders WHERE id = 7</code>") == 3 and said.count("<li>") == 4
    assert all(o.op in said for o in ops) and "<li>and 2 more: " in said


def test_what_to_run_again_stands_whole_where_it_is_said_the_first_three_open(run: Path) -> None:
    """Each can be pasted, and has its note; so a person need not look for them on cards."""
    ops = deletes(run, 5)
    text = "Run {ops} again{order}: none of {its} effects is there, and {statements} on {card}."
    told = [
        replace(lost(n, "orders"), repairs=(RepairStep(text, Repair.RUN_AGAIN, (o.op,), notes=(f"{o.op}: look.",)),))
        for n, o in enumerate(ops)
    ]
    now = first_screen(run, *told, operations=tuple(ops)).partition("<dt>do now</dt><dd>")[2].partition("</dd>")[0]
    whole = [f"<li>{o.op}: <code>DELETE FROM orders WHERE id = 7;</code> Look.</li>" for o in ops]
    assert now == (
        "Run these again, in this order: none of their effects is there. Let another engine than DuckDB do that."
        f'<ol type="a">{"".join(whole[:3])}</ol>'
        f'<details class="more"><summary>2 more statements</summary><ol type="a" start="4">{"".join(whole[3:])}</ol></details>'
    )
    (one,) = repair_steps(told[0].repairs, asked={ops[0].op: "DELETE"})
    assert one == f"Run {ops[0].op} again: none of its effects is there. <code>DELETE;</code> Look."
    (long,) = repair_steps(told[0].repairs, asked={ops[0].op: "x" * 600})
    assert f"<pre>{'x' * 600};</pre>" in long


def test_each_story_and_the_page_say_whether_it_is_known(run: Path) -> None:
    def marks(*told: Story) -> list[str]:
        return re.findall('<span class="tag">(.*?)</span>', first_screen(run, *told))

    def of(link: str, n: int = 0) -> Story:
        return replace(lost(n), known=(KnownDefect("undelete", link, ("undelete",)),))

    thread, page_of = of(KNOWN), of("https://iceberg.apache.org/spec/")
    assert marks(thread) == ["known: iceberg#10720"]
    assert marks(page_of) == ["known to icequake, no report upstream recorded"]
    other = replace(lost(1), name="summary-count", harm=Harm.METADATA, anomalies=())
    assert marks(replace(other, anomalies=())) == ["new to icequake"]
    assert marks(thread, other) == ["1 known, 1 new to icequake", "known: iceberg#10720", "new to icequake"]
    assert marks(lost(0)) == ["documented as possible"]
    assert "<dt>known</dt><dd>as possible: <a href=" in first_screen(run, lost(0))


def test_the_first_screen_says_how_operations_are_named(run: Path) -> None:
    o = deletes(run, 1)[0]
    told = replace(lost(0, "orders"), ops=(o.op,))
    assert f"</code> {named(0, 8)}</dd>" in first_screen(run, told, operations=(o,))
    assert "of writer" not in first_screen(run, replace(told, ops=("t17",))), "a foreign history has other names"
    other = replace(told, name="summary-count", harm=Harm.METADATA, anomalies=())
    assert first_screen(run, told, other, operations=(o,)).count("of writer") == 1


def test_the_first_screen_says_what_helps_until_the_remedy_is_done_only_if_it_helps_all(run: Path) -> None:
    first, second = (replace(lost(n), meanwhile="One at a time.") for n in range(2))
    assert "<dt>until then</dt><dd>One at a time.</dd>" in first_screen(run, first, second)
    assert "until then" not in first_screen(run, first, replace(second, meanwhile=""))
    other = replace(lost(0), name="summary-count", harm=Harm.METADATA, anomalies=())
    both = first_screen(run, first, other)
    assert "Until then: One at a time." in both and "Known: not to icequake" in both


def test_all_statements_of_what_to_do_now_are_on_the_page_if_a_card_has_no_room_for_them(run: Path) -> None:
    ops = deletes(run, card.MOST_OPS + 3)
    redo = RepairStep("Run {ops} again.", Repair.REDO, tuple(o.op for o in ops))
    story = replace(lost(0), ops=(), anomalies=(("commits", 0),), repairs=(redo,))
    found = undelete(name="lost-commit", checker="commits", ops=(), keys=())
    loaded = replace(stored.load(run), verdicts=(Verdict("commits", False, (found,)),), told=Stories((), (story,)))
    html = page.render(replace(loaded, operations=tuple(ops)))
    read(html)
    assert 'and 3 more statements, in <a href="#statements">all statements</a>.' in html
    folded = html.partition('id="statements"')[2].partition("</pre>")[0]
    assert all(f"-- {o.op}\n" in folded for o in ops)


def test_who_has_no_backup_reads_the_steps_of_going_back_below_that(run: Path) -> None:
    back = [RepairStep("Go back.", Repair.SET_BACK, back=True), RepairStep("Move.", Repair.MOVE, back=True)]
    top = first_screen(run, replace(lost(0, "orders"), repairs=(RepairStep("Restore.", Repair.RESTORE), *back)))
    branch = '<li>If you have none:<ol type="a"><li>Go back.</li><li>Move.</li></ol></li>'
    assert f"<ol><li>Restore.</li>{branch}</ol>" in top


def test_what_only_runs_again_while_nothing_else_writes_needs_no_other_engine(run: Path) -> None:
    step = RepairStep(f"Run {{ops}} again {ALONE}.", Repair.RUN_AGAIN, ("w1-0",))
    bad = replace(lost(1), name="undelete", who="DuckDB", engine="duckdb", headline="h", repairs=(step,))
    top = first_screen(run, bad)
    assert ALONE in top and "Let another engine" not in top


def test_second_opinions_are_no_steps_but_other_names(run: Path) -> None:
    """A list of steps reads as if one came after the other."""
    steps = (
        StoryStep("lost-update", ("isolation",), 1, ("w1-0",), "one is gone", 0),
        StoryStep("undelete", ("replay",), 1, ("w1-0",), "it is still there"),
    )
    loaded = stored.load(run)
    story = replace(lost(0, "orders"), name="undelete", ops=("w1-0",), steps=steps, anomalies=(("replay", 0),))
    told = replace(loaded, told=Stories((), (story,)))
    html = page.render(told)
    read(html)
    assert "also named lost-update (isolation)" in html and "one is gone" not in html
    assert "* Other checkers name it lost-update (isolation)." in run_issue(told, "", "icequake run x", "")
    lines = summary.lines(told, width=100, colour=False)
    assert "    also named: lost-update (isolation)" in lines and not [x for x in lines if "one is gone" in x]


def test_an_issue_of_what_a_run_showed_does_not_say_that_nothing_is_expected(run: Path) -> None:
    loaded = stored.load(run)
    about = loaded.plan.model_copy(update={"description": "Writers of nine tables. No anomaly is expected."})
    said = run_issue(altered(loaded, plan=about, told=Stories((), (lost(0, "orders"),))), "", "icequake run x", "")
    assert "\n\nWriters of nine tables.\n\n" in said and "No anomaly is expected" not in said


def test_an_operation_that_reads_and_was_not_seen_says_so(run: Path) -> None:
    text = read(page.write(run).read_text()).text
    assert "not recorded" in text


def test_an_engine_that_wrote_wrong_rows_does_not_run_statements_again(run: Path) -> None:
    bad = replace(lost(1), name="resurrected-row", who="DuckDB", engine="duckdb", headline="h")
    server = replace(again(0, "orders"), who="the catalog server", engine="")
    assert "Let another engine than DuckDB do that." in first_screen(run, server, bad)
    client = replace(bad, who="DuckDB's REST catalog client")
    assert "Let another engine" not in first_screen(run, server, client), (
        "that one must only look what became of its commit"
    )


def test_the_first_screen_names_what_an_operation_was_to_change_if_its_rows_are_not_known(run: Path) -> None:
    o = next(o for o in stored.load(run).operations if o.op == "w1-0")
    told = replace(lost(0, "orders"), ops=("w1-0",), keys=())
    asked = explain.arguments(o.value)
    asks, place = "DELETE FROM orders WHERE id = 7", '<a href="#anomaly-1">card 1</a>'
    stands = f'DELETE w1-0 (orders, id 7, {place}): <code title="{asks}">{asks}</code> {named(0, 1)}'
    assert f"<dt>lost</dt><dd>{stands}</dd>" in first_screen(run, told)
    assert f"orders: what w1-0 was to change, {asked}" in first_screen(run, replace(told, name="undelete"))


def test_the_first_screen_says_whether_a_fault_provoked_it(run: Path) -> None:
    """That icequake did it on purpose belongs beside the blame, with what does the same in production."""
    loaded = stored.load(run)
    request = ChangeRequest(
        1_000_000,
        2.0,
        1,
        "catalog",
        "commit",
        "orders",
        "w1-0",
        "1",
        "2",
        "200 (nemesis: not told)",
        ("cut of commit",),
    )
    story = replace(lost(0, "orders"), ops=("w1-0",), steps=(StoryStep("lost-commit", (), 1, ("w1-0",), "it is gone"),))
    struck = first_screen(run, story, change_requests={"w1-0": [request]})
    assert (
        "which the writer was not told. icequake did that on purpose; in production a connection that breaks" in struck
    )
    held = replace(request, status="200", faults=(), held=True)
    assert "icequake held 1 request" in first_screen(run, story, change_requests={"w1-0": [held]})
    plain = replace(held, held=False)
    calm = tuple(e for e in loaded.events if e.process != NEMESIS)
    assert "No fault: " in first_screen(run, story, change_requests={"w1-0": [plain]}, events=calm)
    assert "provoked by" not in first_screen(run, story, change_requests={}), "nobody knows"


def test_a_scenario_that_drops_a_reply_is_not_said_to_be_without_faults(run: Path) -> None:
    """Its operations have the fault, and no nemesis is there whose events would say so."""
    loaded = stored.load(run)
    told = {"operations": [{"name": "a", "fault": {"verb": "drop-reply"}}, {"name": "b"}]}
    plan = loaded.plan.model_copy(update={"scenario": told})
    calm = tuple(e for e in loaded.events if e.process != NEMESIS)
    request = ChangeRequest(1_000_000, 2.0, 1, "catalog", "commit", "orders", "w1-0", "1", "2", "200", (), held=True)
    story = replace(lost(0, "orders"), ops=("w1-0",))
    top = first_screen(run, story, change_requests={"w1-0": [request]}, events=calm, plan=plan)
    assert "The scenario&#39;s fault, drop-reply: the service carries out the request; the connection is reset" in top
    shown = page.render(replace(loaded, events=calm, plan=plan))
    assert ">drop-reply</span>" in shown.partition("Faults injected")[2][:400], "and not none"


def test_what_is_told_in_a_line_has_its_statements_below(run: Path) -> None:
    said = RepairStep("Run {ops} again.", Repair.RUN_AGAIN, ("w1-0",))
    told = (*(again(n, "orders") for n in range(3)), replace(lost(3, "orders"), repairs=(said,)))
    found = tuple(undelete(name="lost-commit", checker="commits", ops=s.ops[:1], keys=s.keys) for s in told)
    html = page.render(replace(stored.load(run), verdicts=(Verdict("commits", False, found),), told=Stories((), told)))
    assert "-- w1-0\nDELETE FROM orders" in html.partition("1 more like this")[2].partition('id="plan"')[0]


def test_a_minimal_history_of_one_operation_is_not_shown_unless_another_took_its_place(run: Path) -> None:
    def shown(html: str) -> list[str]:
        return re.findall('data-op="(.*?)"', html.partition("Minimal history</summary>")[2].partition("</table>")[0])

    assert shown(raced(run, ("w1-0",))) == ["w0-0", "w1-0"]
    assert (
        "w1-0 alone shows it, considering only the rows of id 7. Beside it stands what took its place: w0-0."
        in raced(run, ("w1-0",))
    )
    assert shown(raced(run, ("w0-0", "w1-0"))) == ["w0-0", "w1-0"]
    alone = page.render(
        replace(
            stored.load(run),
            verdicts=(Verdict("replay", False, (undelete(minimal=MinimalHistory(("w1-0",), (), True)),)),),
        )
    )
    assert "Minimal history" not in alone


def test_a_step_counts_what_the_headline_counts(run: Path) -> None:
    def times(count: int, most: int) -> str:
        step = StoryStep("missing-file", ("replay",), count, ("w1-0",), "it is gone", most)
        return re.sub("<[^>]+>", "", raced(run, steps=(step, step)).partition("<ol>")[2].partition("</li>")[0])

    assert times(2, 1) == "missing-file it is gone", "two checkers found one event"
    assert times(3, 0) == "missing-file ×3 it is gone", "another step is counted, and says the same"
    assert times(1, 2) == "missing-file it is gone", "one anomaly of two rows"


def test_a_name_whose_rows_the_headline_counts_says_how_many_they_are(run: Path) -> None:
    def chip(rows: int) -> str:
        found = undelete(name="resurrected-row", documented=None)
        step = StoryStep("resurrected-row", ("replay",), 1, ("w1-0",), "they came back", rows)
        told = Stories((), (replace(lost(0), name="resurrected-row", steps=(step,), anomalies=(("replay", 0),)),))
        html = page.render(replace(stored.load(run), verdicts=(Verdict("replay", False, (found,)),), told=told))
        return re.sub("<[^>]+>", "", html.partition('<ul class="names">')[2].partition("</ul>")[0])

    assert chip(2).endswith("resurrected-row1 in 2 rows") and chip(1).endswith("resurrected-row1")


def test_the_versions_of_a_run_are_those_of_its_tables_formats(run: Path) -> None:
    plan = yaml.safe_load((run / "plan.yaml").read_text())
    assert stories_view.versions(stored.load(run)) == plan["versions"]
    plan["tables"][0]["format"] = "delta"
    (run / "plan.yaml").write_text(yaml.safe_dump(plan))
    assert stories_view.versions(stored.load(run)) == {"spark": "4.1.4"}


def test_the_harm_of_a_table_that_nobody_can_read_is_said_first(run: Path) -> None:
    gone = StoryStep("unreadable", (), 1, ("w1-0",), "unreadable since 9.0 s")
    html = raced(run, steps=(*lost(0).steps, gone))
    assert "<dt>harm</dt><dd>table unreadable; rows lost or wrong</dd>" in html


def test_the_ids_of_snapshots_are_short_wherever_a_card_names_one(run: Path) -> None:
    whole = "7953581547370397458"
    step = StoryStep("lost-commit", ("commits",), 2, ("w1-0",), f"snapshot {whole} is gone")
    html = raced(run, consequence=f"Nobody can read snapshot {whole}.", steps=(step, step))
    seen = re.sub("<i>[^<]*</i>|<[^>]+>", "", html)
    assert whole not in seen and seen.count("snapshot 795358 ") == 2 and "snapshot 795358." in seen


def test_what_each_engine_did_is_on_the_first_screen_of_a_run_of_several(run: Path) -> None:
    loaded = stored.load(run)
    assert "By engine" not in read(page.render(replace(loaded, told=Stories()))).text, (
        "one engine, and nobody else is blamed"
    )
    text = read(page.render(replace(loaded, told=Stories((), (lost(0),))))).text
    assert text.index("By engine") < text.index("Run it again")
    assert "Spark Spark 4.1.4, Iceberg 1.12.0 5 2 1 2 0" in text
