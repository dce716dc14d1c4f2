"""The log of a shrink: it answers what was asked before, survives a kill, and belongs to one shrink."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.experiments.shrink.log import FILE, Log, ShrinkError, Trial

ABOUT = {"run": "/store/a", "anomaly": "undelete", "catalog": "rest"}
ONE = Trial("k1", "2 operations", True, ("undelete",), "runs/a/1", 3.5)
OTHER = Trial("k1", "2 operations", False, (), None, 2.0, "w0-1 commit 2 did not come")


def test_what_was_added_is_there_when_the_log_is_opened_again(tmp_path: Path) -> None:
    log = Log(tmp_path, ABOUT)
    for trial in (ONE, OTHER):
        log.add(trial)
    again = Log(tmp_path, ABOUT)
    assert again.of("k1") == (ONE, OTHER)
    assert again.of("k2") == ()
    assert again.trials == (ONE, OTHER) == log.trials


def test_a_torn_line_is_cut_off_and_the_next_one_is_whole(tmp_path: Path) -> None:
    Log(tmp_path, ABOUT).add(ONE)
    with (tmp_path / FILE).open("a") as file:
        file.write('{"key": "k2", "wh')
    log = Log(tmp_path, ABOUT)
    assert log.trials == (ONE,)
    log.add(OTHER)
    assert Log(tmp_path, ABOUT).trials == (ONE, OTHER)


@pytest.mark.parametrize("end", ["\u2028", "\x85", "\x0c", "\r"])
def test_a_problem_with_other_line_ends_in_it_is_read_again(tmp_path: Path, end: str) -> None:
    trial = Trial("k1", "2 operations", False, problem=f"Spark said{end}this")
    Log(tmp_path, ABOUT).add(trial)
    assert Log(tmp_path, ABOUT).trials == (trial,)


def test_the_folder_of_another_shrink_is_refused(tmp_path: Path) -> None:
    Log(tmp_path, ABOUT)
    with pytest.raises(ShrinkError, match="another anomaly, undelete, not lost-commit; give another one with --into"):
        Log(tmp_path, {**ABOUT, "anomaly": "lost-commit"})


@pytest.mark.parametrize("text", ["hello\n", '{"format": 1}\n', "[1]\n"])
def test_a_file_that_is_no_log_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / FILE).write_text(text)
    with pytest.raises(ShrinkError, match=rf"{FILE}:1: not the log of a shrink"):
        Log(tmp_path, ABOUT)


def test_a_line_that_is_no_run_is_named(tmp_path: Path) -> None:
    Log(tmp_path, ABOUT).add(ONE)
    with (tmp_path / FILE).open("a") as file:
        file.write('{"key": "k2"}\n')
    with pytest.raises(ShrinkError, match=rf"{FILE}:3: not a run of a shrink"):
        Log(tmp_path, ABOUT)
