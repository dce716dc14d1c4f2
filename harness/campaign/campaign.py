"""A campaign: many jobs, each of which may fail, and a journal of what came of each.

An experiment says which jobs there are, how one is made, and what line one has that could not be made. All the rest is here, once:

* **A job that fails is a line.** Any exception in a job ends this job alone; the next one goes on. Two end the campaign: a full disk, since
  no other job could be done either, and Ctrl-C.
* **It goes on where it was stopped or killed**, because lines are on disk before the next job begins. A job whose line is missing is made
  anew, and so is one that could not be made.
* **Ctrl-C starts no further job and ends those that go on.** One that was cut short has no line; one that came to its end keeps its own.
* Jobs run one after the other in the caller's thread, which Ctrl-C interrupts, or several at a time in threads, which are waited for.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Generic, TypeVar

from checkers.evidence.journal import Journal
from checkers.evidence.runfolder import RunFolder
from compose.redaction import Redaction
from harness.campaign.errors import is_full, keep_details, why
from harness.campaign.stacks import WarmStacks
from harness.run.settings import Watcher

J = TypeVar("J")
T = TypeVar("T")
NOTHING_HIDDEN = Redaction(())


@dataclass(frozen=True, slots=True)
class Done(Generic[T]):
    """A job that came to its end, with its lines."""

    lines: Sequence[T]


@dataclass(frozen=True, slots=True)
class CouldNotRun:
    """A job that could not be made, and why, in one line without secrets."""

    why: str


@dataclass(eq=False)
class JobAttempt:
    """A job that is being made, as its campaign and whoever makes it see it.

    Attributes:
        watcher: hears what is said of this job.
        hide: takes secrets out of what is said of an error; who makes the job may know more of them.
        folder: of its run, once there is one: the details of an error go into its logs.
        started: wall clock, ISO format.
        stop: set to end the job soon.
        cut_short: whether the campaign ended the job; without having come to its end, it has no line.
    """

    watcher: Watcher
    hide: Redaction = NOTHING_HIDDEN
    folder: RunFolder | None = None
    started: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))
    stop: threading.Event = field(default_factory=threading.Event)
    cut_short: bool = False

    def outcome(self, make: Callable[[], Done[T] | CouldNotRun]) -> Done[T] | CouldNotRun:
        """Make the job; any error in it is why it could not be made.

        Raises:
            OSError: the disk is full.
            KeyboardInterrupt: the user stopped it.
        """
        try:
            return make()
        except KeyboardInterrupt:
            raise
        except BaseException as e:  # whatever it is, the other jobs go on
            if is_full(e):
                raise
            if self.folder is not None:
                keep_details(e, self.folder.logs, self.hide)
            return CouldNotRun(why(e, self.hide))


@dataclass
class Campaign(Generic[J, T]):
    """Makes jobs.

    Args:
        jobs: in their order.
        journal: gets the lines of each job at once; it is open.
        stacks: what jobs run on, closed at the end; None: each job brings its own, or the caller closes them.
        attempt: makes a job.
        could_not: (job, its attempt, why) → the lines of a job that could not be made.
        name: a job in words.
        made: whether a job is not to be made, because the journal has it.
        unit: what the jobs are called.
        at_once: how many jobs at the same time.
        hide: takes secrets out of what is said; None: those of ``stacks``.
        finished: called with the lines of each job, maybe from several threads.
    """

    jobs: Sequence[J]
    journal: Journal[T]
    stacks: WarmStacks[Any] | None
    attempt: Callable[[J, JobAttempt], Done[T] | CouldNotRun]
    could_not: Callable[[J, JobAttempt, str], Sequence[T]]
    watcher: Watcher
    name: Callable[[J], str] = str
    made: Callable[[J], bool] = lambda _: False
    unit: str = "jobs"
    at_once: int = 1
    hide: Redaction | None = None
    finished: Callable[[Sequence[T]], object] = lambda _: None
    _going: set[JobAttempt] = field(default_factory=set)
    _stopped: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def go(self) -> None:
        """Make the jobs that are not made.

        Raises:
            OSError: the disk is full.
            SecretsLeft: a log of a stack may have a secret and could be neither cleaned nor removed.
            KeyboardInterrupt: the user stopped it; the lines of finished jobs are there.
        """
        left = [(n, job) for n, job in enumerate(self.jobs, 1) if not self.made(job)]
        if there := len(self.jobs) - len(left):
            self.watcher.say(f"{there} of {len(self.jobs)} {self.unit} are there already")
        turn = iter(left)
        with self.stacks or contextlib.nullcontext():
            if self.at_once == 1:
                self._work(turn)
                return
            with ThreadPoolExecutor(self.at_once) as pool:
                working = [pool.submit(self._work, turn) for _ in range(self.at_once)]
                try:
                    ended, _ = wait(working, return_when=FIRST_EXCEPTION)
                finally:
                    self._end()
                for one in ended:
                    one.result()

    def _work(self, turn: Iterator[tuple[int, J]]) -> None:
        while (taken := self._taken(turn)) is not None:
            job, attempt = taken
            try:
                lines = self._lines(job, attempt)
            finally:
                with self._lock:
                    self._going.discard(attempt)
            if lines:
                self.journal.append(*lines)
                self.finished(lines)

    def _taken(self, turn: Iterator[tuple[int, J]]) -> tuple[J, JobAttempt] | None:
        """The next job; None if there is none, or none may begin."""
        with self._lock:
            found = None if self._stopped else next(turn, None)
            if found is None:
                return None
            number, job = found
            said = _Said(self.watcher, f"{number}/{len(self.jobs)} {self.name(job)}", self.at_once == 1)
            hide = self.hide or (NOTHING_HIDDEN if self.stacks is None else self.stacks.hide)
            attempt = JobAttempt(said, hide)
            self._going.add(attempt)
            return job, attempt

    def _lines(self, job: J, attempt: JobAttempt) -> Sequence[T]:
        result = attempt.outcome(lambda: self.attempt(job, attempt))
        if isinstance(result, Done):
            return result.lines
        if attempt.cut_short:
            return ()
        attempt.watcher.say(f"cannot be run: {result.why}")
        return self.could_not(job, attempt, result.why)

    def _end(self) -> None:
        """Start no further job; those that go on end soon."""
        with self._lock:
            self._stopped = True
            for attempt in self._going:
                attempt.cut_short = True
                attempt.stop.set()


@dataclass
class _Said:
    """Prefixes messages with the job; the progress bar shows one run, so several at a time show none."""

    watcher: Watcher
    lead: str
    alone: bool

    def say(self, text: str) -> None:
        self.watcher.say(f"{self.lead}: {text}")

    def progress(self, done: int, total: int | None) -> None:
        if self.alone:
            self.watcher.progress(done, total)

    def lasts(self, seconds: float | None) -> None:
        if self.alone:
            self.watcher.lasts(seconds)
