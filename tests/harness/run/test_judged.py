"""A run that ended is judged and shown from one reading of its evidence."""

from __future__ import annotations

from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from bench import files
from checkers.evidence import history, tablelog_file
from checkers.evidence.runfolder import RunFolder
from checkers.judge.by_table import judged as judged_by_table
from harness.cli.publish import publish
from harness.run import judged as judging
from harness.run.judged import judge_run, results_of
from reports.run import junit, page, stored, summary
from tests.checkers.judge.test_check import SPECS
from tests.checkers.judge.test_check import stored as stored_run
from tests.support.simulator import Defects, simulate


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    run = simulate(3, SPECS, ops=25, defects=Defects(stale_read=0.5))
    return RunFolder(stored_run(run, tmp_path / "store" / "run"))


def test_history_and_table_logs_are_read_once(folder: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    read: Counter[str] = Counter()
    for module in (history, tablelog_file):
        real = module.read

        def counted(path: Path, real: Any = real) -> Any:
            read[path.name] += 1
            return real(path)

        monkeypatch.setattr(module, "read", counted)
    judge_run(folder, publish)
    assert read == {"history.jsonl": 1, "a.jsonl": 1, "b.jsonl": 1}


def test_what_is_written_is_what_a_later_reading_of_the_folder_gives(folder: RunFolder) -> None:
    shown = judge_run(folder, publish).published
    again = stored.load(folder.path)
    assert shown == again and shown.anomalies
    assert folder.report.read_text() == page.render(folder.path)
    assert (folder.path / "junit.xml").read_text() == junit.render(folder.path)
    assert summary.lines(shown) == summary.lines(folder.path)


def test_a_history_whose_end_was_lost_is_a_problem_on_the_page_too(folder: RunFolder) -> None:
    folder.write_state({"state": "complete", "operations": 10_000})
    text = "operations completed, but the run counted 10000"
    assert text in " ".join(judge_run(folder, publish).published.problems) and text in " ".join(
        stored.load(folder.path).problems
    )


def test_without_a_page_a_run_in_which_nothing_is_found_need_not_be_read_as_a_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as small:
        small.setattr(files, "A_TABLE", 24)
        clean = RunFolder(files.make_run(tmp_path / "run", 48))
    whole, told = judge_run(clean, lambda *_: None, "columns").results, clean.results.read_bytes()
    clean.results.unlink()
    monkeypatch.setattr(judging, "judged_by_table", partial(judged_by_table, processes=1))
    with monkeypatch.context() as without:
        without.delattr(judging, "load_evidence")
        assert results_of(clean, "columns") == whole
    assert clean.results.read_bytes() == told


def test_without_a_page_an_anomaly_is_found_as_with_one(folder: RunFolder) -> None:
    assert results_of(folder, "columns") == judge_run(folder, publish, "columns").results
