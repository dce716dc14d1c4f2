"""What a run shows of its progress: how far its phases are, by operations or by time, on a terminal and in a log."""

from __future__ import annotations

import io
import sys
from typing import Any

import pytest
from rich.console import Console

from compose.install.progress import Bars, clock
from harness.cli import terminal
from harness.cli.terminal import Voice, amount
from harness.run.phases import PhaseProgress
from workloads.file.workload import Workload

OPS, TIME = {"ops": 3}, {"time": "90s"}


class Noting:
    """Notes what it is told."""

    def __init__(self) -> None:
        self.told: list[tuple[Any, ...]] = []

    def say(self, text: str) -> None:
        """Say nothing."""

    def progress(self, done: int, total: int | None) -> None:
        self.told.append((done, total))

    def lasts(self, seconds: float | None) -> None:
        self.told.append((seconds,))


def told(*lengths: dict[str, Any]) -> list[tuple[Any, ...]]:
    """What the watcher hears of phases with these lengths; in each, two operations complete."""
    workload = Workload.model_validate(
        {
            "workload": "w",
            "tables": [{"name": "t"}],
            "operations": {"insert": {}},
            "phases": [{"name": f"p{n}", "length": length} for n, length in enumerate(lengths)],
        }
    )
    watcher = Noting()
    progress = PhaseProgress(watcher, workload)
    progress.one_more("setup")
    for phase in workload.resolved_phases():
        progress.begins(phase)
        progress.one_more(phase.name)
        progress.one_more(phase.name)
    progress.ended()
    progress.one_more("final-reads")
    assert progress.done == 2 + 2 * len(lengths)
    return watcher.told


@pytest.mark.parametrize(
    ("lengths", "heard"),
    [
        ([OPS], [(None,), (1, 3), (2, 3), (None,)]),
        ([OPS, OPS], [(None,), (1, 6), (2, 6), (3, 6), (4, 6), (None,)]),
        ([TIME], [(90.0,), (1, None), (2, None), (None,)]),
        ([TIME, TIME], [(180.0,), (1, None), (2, None), (3, None), (4, None), (None,)]),
        ([TIME, OPS], [(90.0,), (1, None), (2, None), (None,), (1, 3), (2, 3), (None,)]),
    ],
)
def test_only_the_phases_count_and_time_counts_where_it_is_the_limit(
    lengths: list[dict[str, Any]], heard: list[tuple[Any, ...]]
) -> None:
    assert told(*lengths) == heard


@pytest.mark.parametrize(("seconds", "shown"), [(0, "0:00"), (23.9, "0:23"), (90, "1:30"), (7500, "2:05:00")])
def test_a_length_of_time_is_shown_as_by_a_clock(seconds: float, shown: str) -> None:
    assert clock(seconds) == shown


def test_how_far_it_is() -> None:
    assert amount(51, None, 23.4, 90) == "0:23 of 1:30"
    assert amount(51, None, 95.0, 90) == "1:30 of 1:30", "the last operations end after the time"
    assert amount(51, 200, 23.4, None) == "51 of 200"
    assert amount(51, None, 23.4, None) == "", "nothing is known of its end"


def test_a_log_says_how_far_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    with Voice() as voice:
        voice.progress(39, 200)
        voice.progress(40, 200)
        voice.lasts(90)
        assert voice.plain(80, None, 23.4) == "0:23 of 1:30, 80 operations"
    assert capsys.readouterr().err.endswith("s] 40 of 200 operations\n")


def test_in_a_log_the_live_line_is_a_line_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    with Voice() as voice:
        voice.live("3.0 op/s  0 anomalies (9 commits judged)")
        assert voice.live_every == 10.0
    assert capsys.readouterr().err.endswith("s] 3.0 op/s  0 anomalies (9 commits judged)\n")


class Terminal(io.StringIO):
    """A terminal's screen."""

    def isatty(self) -> bool:
        return True


def test_on_a_terminal_the_run_s_name_stays_and_no_total_is_a_question_mark(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Terminal()
    for name in ("CI", "NO_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setattr(
        terminal, "Console", lambda **_: Console(file=screen, force_terminal=True, width=60, highlight=False)
    )
    path = "store/quick/" + "x" * 60
    with Voice() as voice:
        voice.keep(f"quick, seed 7: {path}")
        voice.say("filling the tables")
        voice.lasts(90)
        voice.progress(51, None)
        assert voice._bar is not None
        voice._bar.refresh()
        voice.lasts(None)
        voice.progress(51, 200)
        voice._bar.refresh()
        voice.live("14.2 op/s  0 anomalies")
        voice._bar.refresh()
        assert "14.2 op/s  0 anomalies" in screen.getvalue()
        before = len(screen.getvalue())
        voice.lasts(None)
        voice._bar.refresh()
        assert " of " not in screen.getvalue()[before:], "what ended does not begin again from 0"
    shown = screen.getvalue()
    assert f"quick, seed 7: {path}\n" in shown, "it is not cut at the terminal's width"
    assert "0:00 of 1:30" in shown and "51 of 200" in shown
    assert "0:00 in all" in shown, "a time says what of"
    assert "/?" not in shown


def test_a_step_of_the_set_up_without_a_known_total_shows_no_question_mark() -> None:
    screen = Terminal()
    with Bars(screen).step("MinIO's source", None) as step:
        step.move_to(0, "downloading")
    with Bars(screen).step("building MinIO", 7) as step:
        step.move_to(3)
    assert "/?" not in screen.getvalue() and "7/7" in screen.getvalue()
