"""A campaign: many jobs, each of which may fail, and a journal of what came of each.

An experiment says which jobs there are, how one is made, and what line one has that could not be made. All the rest is here, once:

* **A job that fails is a line.** Any exception in a job ends this job alone; the next one goes on. Two end the campaign: a full disk, since
  no other job could be done either, and Ctrl-C.
* **It goes on where it was stopped or killed**, because lines are on disk before the next job begins. A job whose line is missing is made
  anew, and so is one that could not be made.
* **Ctrl-C starts no further job and ends those that go on.** One that was cut short has no line; one that came to its end keeps its own.
* **Some jobs are no list**: an iterator says which is next when the one before is over, or a search asks for them (:class:`Questions`).
* Jobs run one after the other in the caller's thread, which Ctrl-C interrupts, or several at a time in threads, which are waited for.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import shutil
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
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


def fingerprint(parts: Any) -> str:
    """A short hash of what a job's file says, as JSON values: what another one says is made anew."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:12]


@dataclass(frozen=True, slots=True)
class Done(Generic[T]):
    """A job that came to its end, with its lines.

    Attributes:
        then: called when they are on disk: removes what only a job without a line needs.
    """

    lines: Sequence[T]
    then: Callable[[], object] = lambda: None


@dataclass(frozen=True, slots=True)
class CouldNotRun:
    """A job that could not be made.

    Attributes:
        why: in one line, without secrets.
        error: what was raised; None: nothing was.
    """

    why: str
    error: BaseException | None = None


@dataclass(eq=False)
class JobAttempt:
    """A job that is being made, as its campaign and whoever makes it see it.

    Attributes:
        watcher: hears what is said of this job.
        hide: takes secrets out of what is said of an error; who makes the job may know more of them.
        folder: of its run, once there is one: the details of an error go into its logs.
        scratch: a folder that goes if the job is cut short.
        started: wall clock, ISO format; ``began``: monotonic seconds.
        stop: set to end the job soon.
        cut_short: whether the campaign ended the job; without having come to its end, it has no line.
    """

    watcher: Watcher
    hide: Redaction = NOTHING_HIDDEN
    folder: RunFolder | None = None
    scratch: Path | None = None
    started: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))
    began: float = field(default_factory=time.monotonic)
    stop: threading.Event = field(default_factory=threading.Event)
    cut_short: bool = False

    @property
    def seconds(self) -> float:
        """How long it has taken so far, to a tenth."""
        return round(time.monotonic() - self.began, 1)

    def forget(self) -> None:
        """Remove what a job leaves that was cut short."""
        if self.scratch is not None:
            shutil.rmtree(self.scratch, ignore_errors=True)

    def outcome(
        self, make: Callable[[], Done[T] | CouldNotRun], ends: tuple[type[Exception], ...] = ()
    ) -> Done[T] | CouldNotRun:
        """Make the job; any error in it is why it could not be made.

        Args:
            ends: errors that end more than this job.

        Raises:
            Exception: one of ``ends``.
            OSError: the disk is full.
            KeyboardInterrupt: the user stopped it.
        """
        try:
            return make()
        except BaseException as e:  # whatever it is, the other jobs go on
            if isinstance(e, (KeyboardInterrupt, *ends)) or is_full(e):
                raise
            if self.folder is not None:
                keep_details(e, self.folder.logs, self.hide)
            return CouldNotRun(why(e, self.hide), e)


@dataclass
class Campaign(Generic[J, T]):
    """Makes jobs.

    Args:
        jobs: in their order. An iterator is asked for the next one when the one before is over, so that the lines so far can decide.
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
        ends: errors in a job that end the campaign, besides a full disk.
    """

    jobs: Iterable[J]
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
    ends: tuple[type[Exception], ...] = ()
    _going: set[JobAttempt] = field(default_factory=set)
    _stopped: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def go(self) -> None:
        """Make the jobs that are not made.

        Raises:
            OSError: the disk is full.
            Exception: one of ``ends``, or what the iterator of the jobs raised.
            SecretsLeft: a log of a stack may have a secret and could be neither cleaned nor removed.
            KeyboardInterrupt: the user stopped it; the lines of finished jobs are there.
        """
        turn = self._remaining()
        with self.stacks or contextlib.nullcontext():
            if self.at_once == 1:
                self._work(turn)
                return
            with ThreadPoolExecutor(self.at_once) as pool:
                try:
                    working = [pool.submit(self._work, turn) for _ in range(self.at_once)]
                    ended, _ = wait(working, return_when=FIRST_EXCEPTION)
                finally:
                    self._end()
                for done in ended:
                    done.result()

    def _remaining(self) -> Iterator[tuple[str, J]]:
        """The jobs that are not made, each with what it is called."""
        if not isinstance(self.jobs, Sequence):
            return ((self.name(job), job) for job in self.jobs if not self.made(job))
        total = len(self.jobs)
        remaining = [(f"{n}/{total} {self.name(job)}", job) for n, job in enumerate(self.jobs, 1) if not self.made(job)]
        if len(remaining) < total:
            self.watcher.say(f"{total - len(remaining)} of {total} {self.unit} are there already")
        return iter(remaining)

    def _work(self, turn: Iterator[tuple[str, J]]) -> None:
        while (taken := self._taken(turn)) is not None:
            self._make(*taken)

    def _make(self, job: J, attempt: JobAttempt) -> None:
        try:
            done = self._done(job, attempt)
        finally:
            with self._lock:
                self._going.discard(attempt)
        if done.lines:
            self.journal.append(*done.lines)
            self.finished(done.lines)
        done.then()

    def _taken(self, turn: Iterator[tuple[str, J]]) -> tuple[J, JobAttempt] | None:
        """The next job; None if there is none, or none may begin."""
        with self._lock:
            found = None if self._stopped else next(turn, None)
            if found is None:
                return None
            lead, job = found
            hide = self.hide or (NOTHING_HIDDEN if self.stacks is None else self.stacks.hide)
            attempt = JobAttempt(_Said(self.watcher, lead, self.at_once == 1), hide)
            self._going.add(attempt)
            return job, attempt

    def _done(self, job: J, attempt: JobAttempt) -> Done[T]:
        try:
            result = attempt.outcome(lambda: self.attempt(job, attempt), self.ends)
        except KeyboardInterrupt:
            attempt.forget()
            raise
        if isinstance(result, Done):
            return result
        if attempt.cut_short:
            attempt.forget()
            return Done(())
        attempt.watcher.say(f"cannot be run: {result.why}")
        return Done(self.could_not(job, attempt, result.why))

    def _end(self) -> None:
        """Start no further job; those that go on end soon."""
        with self._lock:
            self._stopped = True
            for attempt in self._going:
                attempt.cut_short = True
                attempt.stop.set()


class Questions(Generic[T]):
    """Jobs of which there is no list: a search asks for one after the other.

    What was asked before, also in earlier sessions, the journal answers.

    Args:
        journal: gets a line for each answer; it is open.
        key: a line → what names its job; None for one that is no answer, since the job could not be made.
    """

    def __init__(self, journal: Journal[T], key: Callable[[T], str | None]) -> None:
        self.journal = journal
        self._key = key
        self._answers: dict[str | None, list[T]] = defaultdict(list)
        for line in journal.lines:
            self._answers[key(line)].append(line)

    def answer(self, key: str, n: int) -> T | None:
        """What came of the job when it was made for the n-th time, counted from 0; None if it was not made so often."""
        return next(iter(self._answers[key][n : n + 1]), None)

    def add(self, line: T) -> None:
        """Write the line of a job."""
        self.journal.append(line)
        self._answers[self._key(line)].append(line)


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
