"""``icequake coverage``: of a run, of folders of runs, of what cannot be read."""

from __future__ import annotations

import json
import os
import shutil
import zipfile
from pathlib import Path
from typing import Any

import pytest

from checkers.coverage import ledger
from checkers.coverage.coverage import Coverage, of_folder
from checkers.coverage.ledger import Ledger
from checkers.evidence import runfolder
from reports.run import interleavings, page, stored
from tests.support.runs import ROOT, inside

FIVE = ROOT / "tests" / "checkers" / "coverage" / "five-cells.zip"
WHOLE = "5 of 5 possible pairs (100.0 %) were exercised in 2 runs. "


@pytest.fixture
def night(tmp_path: Path) -> Path:
    """A folder with two runs, at different depths, and a link to one."""
    folder = tmp_path / "night"
    for place in ("a/20260101T000000.000Z", "b/c/20260102T000000.000Z"):
        with zipfile.ZipFile(FIVE) as z:
            z.extractall(folder / place)
    (folder / "latest").symlink_to("a/20260101T000000.000Z")
    return folder


def test_runs_are_found_at_any_depth_each_once(night: Path) -> None:
    assert [r.path.name for r in runfolder.below(night)] == ["20260101T000000.000Z", "20260102T000000.000Z"]
    run = night / "a" / "20260101T000000.000Z"
    assert [r.path for r in runfolder.below(run)] == [run]


def test_what_a_soak_removes_meanwhile_is_passed_over(night: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scandir = os.scandir

    def removed_meanwhile(path: str) -> Any:
        if Path(path).name == "c":
            Path(path).rename(night.parent / "gone")
        return scandir(path)

    monkeypatch.setattr(os, "scandir", removed_meanwhile)
    done = inside("coverage", night, cwd=night.parent)
    assert done.returncode == 0 and done.stderr == "", done.stderr


def test_a_run_has_its_figures_and_its_page(night: Path) -> None:
    done = inside("coverage", "night/latest", "--json", "c.json", cwd=night.parent)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("5 of 5 possible pairs (100.0 %) were exercised in 1 run. ")
    assert done.stdout.splitlines()[-1] == "  page  night/latest/coverage.html"
    assert "100.0 %" in (night / "latest" / "coverage.html").read_text()
    assert Coverage.from_json(json.loads((night.parent / "c.json").read_text())) == of_folder(night / "latest")


def test_a_night_has_the_pairs_of_all_its_runs(night: Path) -> None:
    done = inside("coverage", "night", "night/latest", "--page", "p.html", cwd=night.parent)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(WHOLE)
    assert "2 runs" in (night.parent / "p.html").read_text()


def test_without_a_folder_it_is_the_store(night: Path) -> None:
    done = inside("coverage", "--store", "night", cwd=night.parent)
    assert done.returncode == 0 and (night / "coverage.html").is_file()


def test_a_run_that_cannot_be_read_is_named_and_the_others_count(night: Path) -> None:
    broken = night / "b" / "c" / "20260102T000000.000Z" / "history.jsonl"
    broken.write_text("{}\n")
    done = inside("coverage", "night", cwd=night.parent)
    assert done.returncode == 0 and "in 1 run" in done.stdout
    assert "icequake: not read: " in done.stderr and "history.jsonl:1: " in done.stderr
    assert "history.jsonl:1: " in (night / "coverage.html").read_text()


def test_a_night_that_removed_its_runs_has_their_pairs_and_counts_those_that_it_kept_once(night: Path) -> None:
    kept, gone = night / "a" / "20260101T000000.000Z", night / "b" / "c" / "20260102T000000.000Z"
    with Ledger(night / ledger.FILE) as book:
        for run in (kept, gone):
            book.append(ledger.name_of(run), of_folder(run))
    shutil.rmtree(gone)
    done = inside("coverage", "night", cwd=night.parent)
    assert done.returncode == 0 and done.stdout.startswith(WHOLE)
    (night / ledger.FILE).write_text("{}\n")
    done = inside("coverage", "night", cwd=night.parent)
    assert done.returncode == 0 and "in 1 run" in done.stdout and "coverage.jsonl:1: not the journal" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["coverage"], "there is no store"),
        (["coverage", "nowhere"], "nowhere: no such folder"),
        (["coverage", "empty"], "empty: no run in there"),
        (["coverage", "file"], "file: not a folder"),
        (
            ["coverage", "w.yaml"],
            "w.yaml: this is a workload file, not the folder of a run, or one with runs in it; `icequake run w.yaml` runs it",
        ),
        (["coverage", "broken"], "none of the runs in there can be read"),
    ],
)
def test_what_is_no_run_is_refused(tmp_path: Path, arguments: list[str], says: str) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("")
    (tmp_path / "w.yaml").write_text("workload: w\n")
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "plan.yaml").write_text("workload: x\n")
    done = inside(*arguments, cwd=tmp_path)
    assert done.returncode == 254 and says in done.stderr.splitlines()[-1]


def test_the_page_of_a_run_has_the_figure_in_one_line(night: Path) -> None:
    run = night / "a" / "20260101T000000.000Z"
    assert interleavings.line(stored.load(run)) is None, "it is scripted"
    plan = run / "plan.yaml"
    plan.write_text(plan.read_text().replace("workload: matrix", "workload: mine"))
    line = interleavings.line(stored.load(run))
    assert line is not None and line.startswith("0 of ")
    assert f"Interleavings: {line} of two operations" in page.render(run)
    (run / "coverage.html").write_text("")
    assert '<a href="coverage.html">Which</a>' in page.render(run)
    shutil.move(run / "proxy.jsonl", night.parent / "proxy.jsonl")
    assert "Interleavings" not in page.render(run)
