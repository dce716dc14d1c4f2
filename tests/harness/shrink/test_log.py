"""The log of a shrink: it answers what was asked before, survives a kill, and belongs to one shrink."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.experiments.shrink.log import FILE, Log, ShrinkError, Trial, trials

ABOUT = {"run": "/store/a", "anomaly": "undelete", "catalog": "rest"}
ONE = Trial("k1", "2 operations", True, ("undelete",), "runs/a/1", 3.5)
OTHER = Trial("k1", "2 operations", False, (), None, 2.0, "w0-1 commit 2 did not come")
NOT_MADE = Trial("k1", "2 operations", False, seconds=1.0, could_not="no stack")


def test_what_was_added_is_there_when_the_log_is_opened_again(tmp_path: Path) -> None:
    with Log(tmp_path, ABOUT) as log:
        for trial in (ONE, OTHER):
            log.add(trial)
    with Log(tmp_path, ABOUT) as again:
        assert again.of("k1") == (ONE, OTHER)
        assert again.of("k2") == ()
        assert again.trials == (ONE, OTHER) == log.trials == tuple(trials(tmp_path))


def test_a_run_that_could_not_be_made_is_there_and_answers_nothing(tmp_path: Path) -> None:
    with Log(tmp_path, ABOUT) as log:
        log.add(NOT_MADE)
        log.add(ONE)
    with Log(tmp_path, ABOUT) as again:
        assert again.trials == (NOT_MADE, ONE) and again.of("k1") == (ONE,)


def test_so_does_one_that_an_earlier_release_took_for_an_answer(tmp_path: Path) -> None:
    old = {"format": 1, **ABOUT}, {"key": "k1", "what": "2 operations", "failed": False, "found": [], "folder": None}
    line = {**old[1], "seconds": 1.0, "problem": "could not run: no stack", "shown": 0}
    (tmp_path / FILE).write_text(json.dumps(old[0]) + "\n" + json.dumps(line) + "\n")
    with Log(tmp_path, ABOUT) as log:
        assert log.trials == (NOT_MADE,) and log.of("k1") == ()


def test_the_folder_of_another_shrink_is_refused(tmp_path: Path) -> None:
    with Log(tmp_path, ABOUT):
        pass
    with (
        pytest.raises(ShrinkError, match=r'another anomaly \("undelete" there, "lost-commit" here\); give another one'),
        Log(tmp_path, {**ABOUT, "anomaly": "lost-commit"}),
    ):
        raise AssertionError("it was opened")
