"""A campaign: what ends one job, what ends all, what goes on, and which lines there are after it."""

from __future__ import annotations

import asyncio
import errno
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from checkers.evidence import runfolder
from checkers.evidence.journal import Journal, JournalFormat
from checkers.evidence.runfolder import StoreError
from compose.processes.service import ServiceError
from compose.redaction import Redaction
from harness.campaign.campaign import Campaign, CouldNotRun, Done, JobAttempt
from harness.campaign.errors import DETAILS
from harness.campaign.task import Task
from tests.support.soaks import Heard

SECRET = "geheim-12345"
Line = tuple[int, str | None]
"""A number, and why it could not be made."""
FORM: JournalFormat[Line] = JournalFormat(
    "a count", "a number", lambda v: (v["n"], v["why"]), lambda x: {"n": x[0], "why": x[1]}, ValueError
)
WAIT_S = 60.0
"""Seconds until a test whose threads do not meet fails."""


def counted(
    place: Path, attempt: Callable[[int, JobAttempt], Done[Line] | CouldNotRun], at_once: int = 1, jobs: int = 6
) -> tuple[list[Line], list[str]]:
    """The lines after a campaign, and what was said; what it raises is said, too."""
    heard = Heard()
    with Journal(place / "count.jsonl", FORM) as journal:
        done = {n for n, why in journal.lines if why is None}
        whole = Campaign(
            range(jobs),
            journal,
            None,
            attempt,
            lambda job, attempt, why: [(job, why)],
            heard,
            made=done.__contains__,
            at_once=at_once,
            hide=Redaction([SECRET]),
        )
        try:
            whole.go()
        except BaseException as e:
            heard.say(f"raised {type(e).__name__}")
        return list(journal.lines), heard.said


def one(n: int, attempt: JobAttempt) -> Done[Line]:
    return Done([(n, None)])


@pytest.mark.parametrize("at_once", [1, 2])
@pytest.mark.parametrize(
    "error",
    [
        ZeroDivisionError("a bug"),
        ServiceError("s3", "is gone"),
        RecursionError("too deep"),
        MemoryError("none"),
        SystemExit("exit"),
        asyncio.CancelledError("cancelled"),
        BaseExceptionGroup("several", [GeneratorExit("closed")]),
    ],
    ids=lambda e: type(e).__name__,
)
def test_any_exception_in_a_job_is_a_line_and_the_next_job_goes_on(
    error: BaseException, at_once: int, tmp_path: Path
) -> None:
    def attempt(n: int, attempt: JobAttempt) -> Done[Line]:
        if n == 2:
            raise error
        return one(n, attempt)

    lines, said = counted(tmp_path, attempt, at_once)
    found = dict(lines)
    assert [n for n in sorted(found) if found[n] is None] == [0, 1, 3, 4, 5]
    assert str(error).split()[0] in str(found[2]) and any("3/6 2: cannot be run: " in text for text in said)
    again, said = counted(tmp_path, one, at_once)
    assert sorted(n for n, why in again if why is None) == [0, 1, 2, 3, 4, 5]
    assert "5 of 6 jobs are there already" in said


def test_the_details_of_an_error_are_in_the_logs_of_its_run_without_secrets(tmp_path: Path) -> None:
    def attempt(n: int, attempt: JobAttempt) -> Done[Line]:
        if n == 1:
            attempt.folder = runfolder.create(tmp_path / "runs", "w")
            raise ZeroDivisionError(f"with {SECRET}")
        return one(n, attempt)

    lines, said = counted(tmp_path, attempt, jobs=2)
    (log,) = (tmp_path / "runs").glob(f"w/2*/logs/{DETAILS}")
    assert "in attempt" in log.read_text()
    assert SECRET not in log.read_text() + str(lines) + str(said) and "ZeroDivisionError" in str(lines[1][1])


@pytest.mark.parametrize("at_once", [1, 2])
@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "full", "/x"), KeyboardInterrupt()], ids=["full", "Ctrl-C"])
def test_a_full_disk_and_ctrl_c_end_all_and_finished_jobs_keep_their_lines(
    error: BaseException, at_once: int, tmp_path: Path
) -> None:
    def attempt(n: int, attempt: JobAttempt) -> Done[Line]:
        if n == 2:
            raise error
        if n > 2:
            assert attempt.stop.wait(WAIT_S)
        return one(n, attempt)

    lines, said = counted(tmp_path, attempt, at_once)
    assert {(0, None), (1, None)} <= {*lines} <= {(0, None), (1, None), (3, None)}
    assert said[-1] == f"raised {type(error).__name__}"


def test_a_job_that_is_cut_short_has_no_line_and_one_that_comes_to_its_end_has_its_own(tmp_path: Path) -> None:
    both = threading.Barrier(3)

    def attempt(n: int, attempt: JobAttempt) -> Done[Line] | CouldNotRun:
        both.wait(WAIT_S)
        if n == 2:
            raise KeyboardInterrupt
        assert attempt.stop.wait(WAIT_S) and attempt.cut_short
        return Done([(n, None)]) if n == 0 else CouldNotRun("it was cut short")

    lines, said = counted(tmp_path, attempt, at_once=3)
    assert lines == [(0, None)] and said == ["raised KeyboardInterrupt"]


def test_a_job_is_not_begun_after_ctrl_c(tmp_path: Path) -> None:
    begun: list[int] = []

    def attempt(n: int, attempt: JobAttempt) -> Done[Line]:
        begun.append(n)
        if n == 0:
            raise KeyboardInterrupt
        assert attempt.stop.wait(WAIT_S)
        return one(n, attempt)

    lines, _ = counted(tmp_path, attempt, at_once=2)
    assert begun in ([0], [0, 1], [1, 0]) and {*lines} <= {(1, None)}


def test_a_job_that_stops_itself_stops_no_other(tmp_path: Path) -> None:
    def attempt(n: int, attempt: JobAttempt) -> Done[Line]:
        assert not attempt.stop.is_set()
        attempt.stop.set()
        return one(n, attempt)

    assert sorted(counted(tmp_path, attempt, at_once=2)[0]) == [(n, None) for n in range(6)]


def test_an_iterator_of_jobs_is_asked_for_the_next_one_when_the_one_before_has_its_line(tmp_path: Path) -> None:
    asked: list[int] = []
    with Journal(tmp_path / "count.jsonl", FORM) as journal:

        def jobs() -> Iterator[int]:
            while len(journal.lines) < 3:
                asked.append(len(journal.lines))
                yield len(journal.lines)

        whole = Campaign(jobs(), journal, None, one, lambda job, attempt, why: [], Heard(), name=lambda n: f"job {n}")
        whole.go()
        assert asked == [0, 1, 2] and journal.lines == [(n, None) for n in range(3)]


def test_what_a_job_removes_stays_until_its_lines_are_on_disk(tmp_path: Path) -> None:
    seen: list[int] = []
    path = tmp_path / "count.jsonl"

    def attempt(n: int, attempt: JobAttempt) -> Done[Line]:
        return Done([(n, None)], lambda: seen.append(path.read_text().count('"n"')))

    counted(tmp_path, attempt, jobs=3)
    assert seen == [1, 2, 3]


def test_an_error_that_ends_a_campaign_leaves_no_line_and_the_lines_before_it(tmp_path: Path) -> None:
    with Journal(tmp_path / "count.jsonl", FORM) as journal:

        def attempt(n: int, attempt: JobAttempt) -> Done[Line]:
            if n == 2:
                raise StoreError("no folder")
            return one(n, attempt)

        whole = Campaign(range(4), journal, None, attempt, lambda *_: [], Heard(), ends=(StoreError,))
        with pytest.raises(StoreError):
            whole.go()
        assert journal.lines == [(0, None), (1, None)]


# --- what may end in no way -------------------------------------------------------------------------------------------


def test_a_task_that_does_not_end_is_left_and_one_that_ends_has_its_result() -> None:
    over = threading.Event()
    held = Task("held", lambda: over.wait(WAIT_S))
    assert not held.ends(0.0) and not held.is_over
    over.set()
    assert held.wait(WAIT_S) and held.result() is True


def test_what_a_task_raises_is_raised_where_its_result_is_asked_for() -> None:
    def call() -> None:
        raise SystemExit("a bug")

    task = Task("ends", call)
    assert task.ends(WAIT_S)
    with pytest.raises(SystemExit, match="a bug"):
        task.result()


def test_whoever_stops_the_one_that_waits_for_a_task_stops_the_task(monkeypatch: pytest.MonkeyPatch) -> None:
    start = threading.Thread.start

    def interrupted(thread: threading.Thread) -> None:
        start(thread)
        raise KeyboardInterrupt

    stop = threading.Event()
    task = Task("waits", lambda: stop.wait(WAIT_S), stop)
    with monkeypatch.context() as m, pytest.raises(KeyboardInterrupt):
        m.setattr(threading.Thread, "start", interrupted)
        task.ends(WAIT_S)
    assert task.wait(WAIT_S) and task.result() is True


def test_nothing_is_made_again(tmp_path: Path) -> None:
    counted(tmp_path, one)
    lines, said = counted(tmp_path, lambda n, attempt: Done([(n, "again")]))
    assert lines == [(n, None) for n in range(6)] and said == ["6 of 6 jobs are there already"]
