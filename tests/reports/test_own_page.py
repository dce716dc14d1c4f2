"""The page of ``docs/extending.md``: one file in ``reports/``, and a browser, a terminal and a program read it."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any

import pytest

import reports
from checkers.judge.runfolder import load_evidence
from harness.cli.terminal import show
from reports.drawing import render
from reports.drawing.page import (
    Banner,
    Block,
    Fold,
    Form,
    Page,
    Pairs,
    Section,
    Table,
    TableColumn,
    TableRow,
    Text,
    tag,
)
from tests.support.examples import example, write_example


@pytest.fixture
def slowest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The example as if it lay in ``reports/``."""
    folder = tmp_path / "reports"
    folder.mkdir()
    write_example("slowest.py", folder)
    monkeypatch.setattr(reports, "__path__", [*reports.__path__, str(folder)])
    yield importlib.import_module("reports.slowest")
    sys.modules.pop("reports.slowest", None)


def test_the_example_is_one_short_file() -> None:
    assert len(example("slowest.py").splitlines()) <= 50


def test_the_example_is_read_by_a_browser_a_terminal_and_a_program(
    slowest: Any, recorded_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    evidence = load_evidence(recorded_run)
    page = slowest.of(evidence, "<run>")
    written = render.write(page, tmp_path)
    show(page, {"page": written})
    said, text = capsys.readouterr().out, written.read_text()
    numbers = json.loads((tmp_path / "slowest.json").read_text())
    assert len(numbers) == slowest.MOST and list(numbers.values()) == sorted(numbers.values(), reverse=True)
    for op in numbers:
        assert op in said and f'<td class="mono">{op}</td>' in text
    assert "outcome" in text and "outcome" not in said and f"  page  {written}" in said
    assert "<run>" not in text and "script-src 'sha256-" in text, "it sorts, and runs no other script"


def test_a_page_that_does_not_sort_has_no_script_and_asks_nothing_of_the_network() -> None:
    """Neither does a text from outside make it do so; what the page's own functions made is shown as it is."""
    bad = "<script>alert(1)</script>"
    rows = [TableRow([bad, tag("b", bad)])]
    blocks: list[Block] = [Table([TableColumn(bad), TableColumn("")], rows), Text([bad], "list")]
    text = render.html(Page("p", bad, Banner("valid", bad, bad), [Section(bad, "a", blocks)], {"x": bad}))
    assert "<script" not in text and "script-src" not in text and "default-src 'none'" in text and "http:" not in text
    assert "<b>&lt;script&gt;" in text


def test_a_row_below_the_wrong_number_of_names_is_refused() -> None:
    with pytest.raises(ValueError, match="a row of 1 cells below 2 columns"):
        Table([TableColumn("a"), TableColumn("b")], [TableRow(["x"])])


def test_a_table_sorts_and_a_form_asks_inside_other_blocks_too() -> None:
    table = Table([TableColumn("name", sort=True)], [TableRow(["a"])])
    inside = Fold("more", [Form("/", [], "Show", [table])])
    text = unescape(render.html(Page("p", "p", Banner("valid", "", ""), [Section("s", "a", [inside])])))
    assert "script-src 'sha256-" in text and "form-action 'self'" in text


def test_no_pair_is_no_line_of_a_terminal() -> None:
    page = Page("p", "p", Banner("valid", "All is well", ""), [Section("s", "a", [Pairs([])], terminal="")])
    assert render.terminal(page) == ["All is well."]
