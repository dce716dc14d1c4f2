"""A run that ended is judged and shown from one reading of its evidence."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from checkers.evidence import history, tablelog
from checkers.evidence.runfolder import RunFolder
from harness.cli.check import publish
from harness.run.judged import judge_run
from reports.run import junit, page, stored, summary
from tests.checkers.test_check import SPECS
from tests.checkers.test_check import stored as stored_run
from tests.support.simulator import Defects, simulate


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    run = simulate(3, SPECS, ops=25, defects=Defects(stale_read=0.5))
    return RunFolder(stored_run(run, tmp_path / "store" / "run"))


def test_history_and_table_logs_are_read_once(folder: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    read: Counter[str] = Counter()
    for module in (history, tablelog):
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
