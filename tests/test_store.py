"""No test sees the runs that a developer has in the store of this checkout."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from checkers.evidence import runfolder
from tests.support.runs import ROOT, icequake
from tests.support.store import STORE, forbid


def test_whatever_opens_the_store_of_this_checkout_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    assert STORE.parent == ROOT
    monkeypatch.chdir(ROOT)
    for act in (
        lambda: (STORE / "mixed" / "latest" / "history.jsonl").read_text(),
        lambda: Path("store", "latest", "history.jsonl").read_bytes(),
        lambda: list(Path("store").iterdir()),
        lambda: runfolder.create(STORE, "quick"),
    ):
        with pytest.raises(AssertionError, match=f"a test opens {STORE}"):
            act()


def test_whatever_looks_for_runs_in_a_forbidden_store_fails(tmp_path: Path) -> None:
    runfolder.create(tmp_path / "store", "quick").history.write_text("")
    (tmp_path / "stored").mkdir()
    assert len(runfolder.runs(tmp_path / "store")) == 1
    forbid(tmp_path / "store")
    for act in (lambda: runfolder.runs(tmp_path / "store"), lambda: list((tmp_path / "store").glob("*/2*/run.json"))):
        with pytest.raises(AssertionError, match="a test opens"):
            act()
    assert runfolder.runs(tmp_path / "stored") == []


def test_another_folder_of_that_name_can_be_removed_from_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    runfolder.create(tmp_path / "elsewhere" / "store", "quick")
    shutil.rmtree(tmp_path / "elsewhere")
    assert not (tmp_path / "elsewhere").exists()


def test_the_command_line_of_the_tests_starts_in_a_folder_without_a_store() -> None:
    done = icequake("list", "runs")
    assert done.returncode == 254 and "there is no store" in done.stderr
