"""The log of a shrink: it answers what was asked before, survives a kill, and belongs to one shrink."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from checkers.evidence.journal import Journal
from harness.campaign.campaign import Questions
from harness.experiments.shrink.log import FILE, ShrinkError, Trial, journal_of, trials

ABOUT = {"run": "/store/a", "anomaly": "undelete", "catalog": "rest"}
ONE = Trial("k1", "2 operations", True, ("undelete",), "runs/a/1", 3.5)
OTHER = Trial("k1", "2 operations", False, (), None, 2.0, "w0-1 commit 2 did not come")
NOT_MADE = Trial("k1", "2 operations", False, seconds=1.0, could_not="no stack")


def answers(journal: Journal[Trial], key: str) -> tuple[Trial | None, ...]:
    """What a journal says of the first three times that a candidate is asked for."""
    asked = Questions(journal, lambda trial: trial.answers)
    return tuple(asked.answer(key, n) for n in range(3))


def test_an_answer_is_there_for_who_asks_next(tmp_path: Path) -> None:
    with journal_of(tmp_path, ABOUT) as log:
        asked = Questions(log, lambda trial: trial.answers)
        for trial in (NOT_MADE, ONE):
            assert asked.answer("k1", 0) is None
            asked.add(trial)
        assert asked.answer("k1", 0) == ONE and answers(log, "k1") == (ONE, None, None)


def test_what_was_added_is_there_when_the_log_is_opened_again(tmp_path: Path) -> None:
    with journal_of(tmp_path, ABOUT) as log:
        for trial in (ONE, OTHER):
            log.append(trial)
    with journal_of(tmp_path, ABOUT) as again:
        assert answers(again, "k1") == (ONE, OTHER, None)
        assert answers(again, "k2") == (None, None, None)
        assert again.lines == [ONE, OTHER] == log.lines == trials(tmp_path)


def test_a_run_that_could_not_be_made_is_there_and_answers_nothing(tmp_path: Path) -> None:
    with journal_of(tmp_path, ABOUT) as log:
        log.append(NOT_MADE)
        log.append(ONE)
    with journal_of(tmp_path, ABOUT) as again:
        assert again.lines == [NOT_MADE, ONE] and answers(again, "k1") == (ONE, None, None)


def test_so_does_one_that_an_earlier_release_took_for_an_answer(tmp_path: Path) -> None:
    old = {"format": 1, **ABOUT}, {"key": "k1", "what": "2 operations", "failed": False, "found": [], "folder": None}
    line = {**old[1], "seconds": 1.0, "problem": "could not run: no stack", "shown": 0}
    (tmp_path / FILE).write_text(json.dumps(old[0]) + "\n" + json.dumps(line) + "\n")
    with journal_of(tmp_path, ABOUT) as log:
        assert log.lines == [NOT_MADE] and answers(log, "k1") == (None, None, None)


def test_the_folder_of_another_shrink_is_refused(tmp_path: Path) -> None:
    with journal_of(tmp_path, ABOUT):
        pass
    with (
        pytest.raises(ShrinkError, match=r'another anomaly \("undelete" there, "lost-commit" here\); give another one'),
        journal_of(tmp_path, {**ABOUT, "anomaly": "lost-commit"}),
    ):
        raise AssertionError("it was opened")
