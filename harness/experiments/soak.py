"""``icequake soak``: the cells of a suite, one run after the other with fresh seeds, for a night; on warm stacks.

Whose turn it is says ``harness.experiments.soakturns``. A run executes and is judged in a thread of its own, so that one that never ends can
be left: it is asked to stop when its time is over, then its stack is killed, then the night goes on without it. A failing run is kept with
its folder, a valid one as its line in ``runs.jsonl`` and its columns. The line is on disk before anything of the run is removed.

**A night that was killed** is continued by the same command. Runs whose line is missing are judged from their folders: one that came to its
end is as good as any other, one that did not is an anomaly if it certainly shows one, else ``incomplete``: it is removed, and the cell makes
the run with that number and seed again.
"""

from __future__ import annotations

import contextlib
import gc
import os
import shutil
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil

from checkers.columns.dataset import write as write_columns
from checkers.columns.frames import Unordinary, frame_of
from checkers.costs import measures
from checkers.coverage.coverage import CoverageError, of_folder
from checkers.coverage.ledger import FILE as COVERAGE
from checkers.coverage.ledger import Ledger, name_of
from checkers.evidence import runfolder
from checkers.evidence.evidence import Evidence
from checkers.evidence.journal import Journal
from checkers.evidence.replace import replace
from checkers.evidence.runfolder import FULL, RunFolder
from checkers.judge import stories
from checkers.nights import finds, night, record
from checkers.nights.finds import Find
from checkers.nights.night import Night
from checkers.nights.record import Ended, Line, NightError, Sample
from checkers.timeline.timeline import timelines
from compose.redaction import secrets_of
from harness.campaign.errors import dispensable, is_full, keep_details, why
from harness.campaign.stacks import STACK_RUNS, Key, Lease, WarmStacks, secrets_of_files
from harness.experiments import soakfinds, soakfolder
from harness.experiments.soakfinds import Job, OpenRunner
from harness.experiments.soakfolder import WITHOUT_VERDICT, Kept
from harness.experiments.soakrare import RareTurns, rarity_of
from harness.experiments.soakstacks import (
    Start,
    WarmStack,
    kill_marked,
    sparks,
    start_bench,
    strikes_processes,
)
from harness.experiments.soakturns import MOST_TRIES, Turns
from harness.run.judged import Judge, Judged, Publish, judge_run
from harness.run.recorded import recordable
from harness.run.resolve import SuiteFile
from harness.run.settings import Watcher
from workloads.file.sizes import written
from workloads.file.suite import Cell, Suite, as_header
from workloads.file.workload import Workload

RUNS, COLUMNS, LOGS = "runs", "columns", "logs"
"""Folders in that of a night."""
ABOUT = "soak"
"""The key of a run's plan with its cell and its number."""

COLLECTED = 10
"""Runs between two collections of what is no longer used."""
MOST_LEFT = 3
"""So many runs that end in no way end the soak, because each of them still takes memory and time."""


class FullDisk(Exception):
    """The disk is full, or nearly; the message is one line with a remedy."""


@dataclass(frozen=True)
class Bounds:
    """Seconds that parts of a run may take.

    Attributes:
        around: in addition to its load and the timeout of an operation: tables, final reads, table logs.
        ending: to end once it was asked to; ``killed``: once its processes are gone.
        judging: to judge it.
        interrupted: to end when the user stops the soak: what it still saves is worth a little of the time that a CI system gives, not all.
        retry: before a stack is tried again, if every stack failed.
        sample: between two samples of memory and disk.
    """

    around: float = 180.0
    ending: float = 90.0
    killed: float = 30.0
    judging: float = 900.0
    interrupted: float = 10.0
    retry: float = 10.0
    sample: float = 10.0


@dataclass(frozen=True)
class Order:
    """What a soak is to do.

    Attributes:
        suite: the suite, as the options changed it.
        lasts: seconds, those of earlier sessions included; None: without end.
        runs: number of runs, as well; None: any.
        command: (cell, seed) → the command that repeats that run.
        weight: as for :class:`harness.experiments.soakturns.Turns`.
        icequake: how a person calls icequake from anywhere.
    """

    file: SuiteFile
    suite: Suite
    seed: int
    command: Callable[[Cell, int], str]
    lasts: float | None = None
    runs: int | None = None
    weight: Callable[[Cell], float] = lambda _: 1.0
    icequake: str = "icequake"


@dataclass
class _Work:
    """A run that goes on in its thread.

    Attributes:
        stop: set to end it soon; ``executed``: it is over; ``done``: it is judged, too.
    """

    stop: threading.Event = field(default_factory=threading.Event)
    executed: threading.Event = field(default_factory=threading.Event)
    done: threading.Event = field(default_factory=threading.Event)
    late: str | None = None
    error: BaseException | None = None
    judged: Judged[object] | None = None
    find: Find | None = None


def seed_of(into: Path) -> int | None:
    """The seed of the night in a folder; None if there is none. Raises NightError."""
    path = into / record.RUNS
    if not path.exists():
        return None
    found = record.read(into)[0].get("seed")
    if not isinstance(found, int):
        raise NightError(f"{path}: its first line has no seed; give another --into")
    return found


def new_folder(store: Path, suite: str) -> Path:
    """The folder of a new night."""
    return store / "soak" / f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{suite}"


@dataclass
class Soak:
    """One session of a night; use in ``with``, which ends the stack that is up.

    Args:
        into: the night's folder.
        publish: writes what people read, such as the page, into the folder of a judged run.
        start: starts a stack; ``judge``: checks a run's folder and publishes what it found.
        clock: seconds.
        said: called with each run that has ended; ``told``: with each anomaly that was replayed and shrunk.
        open_runner: makes what replays and shrinks.
        stopping: called with the night so far when the user stops it, before anything is waited for.

    Attributes:
        stopped: whether ``stopping`` was called.
    """

    order: Order
    into: Path
    watcher: Watcher
    publish: Publish[object]
    start: Start = start_bench
    judge: Judge = judge_run
    bounds: Bounds = field(default_factory=Bounds)
    clock: Callable[[], float] = time.monotonic
    said: Callable[[Line], None] = lambda _: None
    told: Callable[[Find], None] = lambda _: None
    open_runner: OpenRunner = soakfinds.on_warm
    stopping: Callable[[Night], object] = lambda _: None
    stopped: bool = False
    _given_up: dict[Key, str] = field(default_factory=dict)
    _tried: Path | None = None
    """The logs of the stack that was started last."""
    _work: _Work | None = None
    _stopped: str | None = None
    _stopping: bool = False
    _left: int = 0
    _largest: int = 0
    _size: int = 0
    _before: float = 0.0
    _began: float = 0.0
    _date: str = ""
    _open: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)
    _over: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        o, into = self.order, self.into
        self._started = _now()
        shared = {**as_header(o.suite, o.file.cells), "seed": o.seed}
        self._journal = Journal(into / record.RUNS, record.LINES, shared, also={"started": self._started})
        self._sampled = Journal(into / record.SAMPLES, record.SAMPLED, alone=False)
        self._found = Journal(into / finds.FILE, finds.FINDS, alone=False)
        hidden = secrets_of_files({o.file.catalog_of(c) for c in o.file.cells})
        hidden += [s for w in o.file.workloads.values() for s in secrets_of(w.catalog_properties)]
        self._stacks: WarmStacks[WarmStack] = WarmStacks(
            self._start,
            into / LOGS,
            self.watcher.say,
            runs=STACK_RUNS,
            tries=None,
            secrets=hidden,
            ended=self._closed,
        )

    # --- a session ----------------------------------------------------------------------------------------------------

    def __enter__(self) -> Soak:
        """Lock the folder, and read or begin the night.

        Raises:
            NightError: the folder is in use, cannot be made, or has another night, or a line of it cannot be read.
        """
        with contextlib.ExitStack() as stack:
            for journal in (self._journal, self._sampled, self._found):
                stack.enter_context(journal)
            self._turns = self._whose()
            self._began = self.clock()
            self._begin()
            stack.enter_context(self._stacks)
            sampler = threading.Thread(target=self._sample, name="samples", daemon=True)
            sampler.start()
            stack.callback(sampler.join)
            stack.callback(self._over.set)
            self._open = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    @property
    def used(self) -> float:
        """Seconds that the night has taken, with earlier sessions."""
        return self._before + self.clock() - self._began

    @property
    def night(self) -> Night:
        """The night so far."""
        file = self.order.file
        return Night(
            self.into,
            self.order.suite,
            self.order.seed,
            file.cells,
            tuple(self._lines),
            tuple(self._samples),
            file.left_out,
            dict(self._given_up),
            self._stopped,
            tuple(self._finds),
        )

    @property
    def _lines(self) -> list[Line]:
        return self._journal.lines

    @property
    def _samples(self) -> list[Sample]:
        return self._sampled.lines

    @property
    def _finds(self) -> list[Find]:
        return self._found.lines

    @property
    def up(self) -> tuple[Key, WarmStack] | None:
        """The stack that is up, with its catalog and release; None if there is none."""
        return next(iter(self._stacks.up), None)

    def go(self) -> Night:
        """Make runs until the night is over.

        Raises:
            KeyboardInterrupt: the user stopped it; every line is on disk.
            OSError: the folder cannot be written, for another reason than a full disk, which ends the night.
        """
        try:
            self._recover()
            for line in [*self._lines]:
                self._find(line)
            while not self._enough():
                cell = self._turns.next(night.numbers(self._lines), None if self.up is None else self.up[0])
                if cell is None:
                    self._stopped = "no catalog's stack comes up"
                    break
                if (lease := self._lease(cell)) is not None:
                    with lease:
                        self._turn(cell, lease)
                    self._find(self._lines[-1])
        except (FullDisk, runfolder.StoreError) as e:  # the latter: no folder could be made for a run
            self._stopped = str(e)
        except OSError as e:
            if e.errno not in FULL:
                raise
            self._stopped = f"the disk is full ({e.filename or self.into}); free some space"
        except KeyboardInterrupt:
            self.stopped = True
            self.stopping(self.night)
            if self._work is not None:
                _wait(self._work.executed, self.bounds.interrupted)
            raise
        return self.night

    def _whose(self) -> Turns:
        """Whose turn it is, as the suite says."""
        o = self.order
        if o.suite.turns != "rare":
            return Turns(o.file.cells, o.seed, o.suite.turns, o.weight)
        weight = rarity_of(o.file.workloads, lambda: self._book.seen)
        made = lambda: [x.cell for x in self._lines if x.counts]  # noqa: E731
        return RareTurns(o.file.cells, o.seed, weight=weight, made=made)

    def _begin(self) -> None:
        """Take up what earlier sessions wrote."""
        try:
            self._book = self._open.enter_context(Ledger(self.into / COVERAGE))
        except CoverageError as e:
            raise NightError(f"{e}; or remove the file, and the night counts its coverage anew") from None
        self._date = str(self._journal.header.get("started", ""))[:10]
        if not self._lines and not self._samples:
            return
        self._before = max(record.used(self._lines, self._samples), *(f.used for f in self._finds), 0.0)
        self._largest = max((x.disk for x in self._lines), default=0)
        turns = sum(x.counts for x in self._lines)
        self.watcher.say(f"the night goes on: {turns} runs are there, {self._before / 60:.0f} min are used")

    def _enough(self) -> bool:
        """Whether no further run begins."""
        order, suite = self.order, self.order.suite
        turns = sum(x.counts for x in self._lines)
        if order.runs is not None and turns >= order.runs:
            return True
        if order.lasts is not None and self.used + suite.length > order.lasts:
            return True
        if suite.stop_on_anomaly and any(self.night.new_of(x) for x in self._lines):
            return True
        if self._left >= MOST_LEFT:
            self._stopped = f"{self._left} runs did not end in any way"
            return True
        self._make_room()
        if (little := self._little()) is not None:
            self._stopped = little
        return self._stopped is not None

    # --- stacks -------------------------------------------------------------------------------------------------------

    def _lease(self, cell: Cell) -> Lease[WarmStack] | None:
        """A seat on the stack of a cell; None if it does not come up."""
        if self.up is None and self._turns.all_wait:
            self._over.wait(self.bounds.retry)
        started, name = _now(), " ".join(cell.stack)
        try:
            lease = self._stacks.lease(cell.stack)
        except Exception as e:
            if is_full(e):
                raise
            reason = f"the stack of {name} does not come up: {' '.join(str(e).split())}"
            if self._turns.failed(cell.stack, night.numbers(self._lines)):
                self._given_up[cell.stack] = reason
                reason += f"; given up after {MOST_TRIES} times"
            logs = None if self._tried is None else self._relative(self._tried)
            self._add(Line(cell, None, None, started, "error", reason=reason, stack=logs, used=self.used))
            return None
        self._turns.came_up(cell.stack)
        return lease

    def _start(self, key: Key, logs: Path, _: WarmStack | None) -> contextlib.closing[WarmStack]:
        self._tried = logs
        mine = {c: w for c, w in self.order.file.workloads.items() if c.stack == key}
        cell, writers = next(iter(mine)), max(map(sparks, mine.values()))
        stack = (self.order.file.catalog_of(cell), *key[1:])
        return contextlib.closing(self.start(stack, writers, logs, self.watcher))

    def _closed(self, logs: Path) -> None:
        """The logs of a stack that was closed stay if a run that is kept needs them."""
        name = self._relative(logs)
        if not any(x.stack == name and self._kept(x) is not None for x in self._lines) and not self._stopping:
            soakfolder.remove(logs)

    # --- one run ------------------------------------------------------------------------------------------------------

    def _turn(self, cell: Cell, lease: Lease[WarmStack]) -> None:
        """One run of a cell on a leased stack: execute, judge, write its line, keep or remove its folder."""
        number = night.numbers(self._lines)[cell]
        seed = self._turns.seed_of(cell, number)
        command = self.order.command(cell, seed)
        workload = self._workload(cell)
        folder = runfolder.create(self.into / RUNS, cell.workload)
        turns = sum(x.counts for x in self._lines)
        goal = "" if self.order.runs is None else f"/{self.order.runs}"
        self.watcher.say(f"{turns + 1}{goal} {cell.name} seed {seed}")
        blank = Line(cell, number, seed, _now(), "error", folder=self._relative(folder.path), command=command)
        blank = replace(blank, stack=self._relative(lease.logs))
        began = self.clock()
        work = self._work = _Work()
        about = {
            ABOUT: {"cell": cell.to_json(), "number": number},
            "suite": self.order.suite.suite,
            "night": self._date,
        }

        arguments = (work, lease.stack, workload, folder, blank, about)
        run = threading.Thread(target=self._execute, args=arguments, name=f"run of {cell.name}", daemon=True)
        try:
            run.start()  # inside: whoever stops the night while `start` still waits for the thread stops the run, too
            self._until_done(work, workload, cell, lease)
        except BaseException:
            self._stopping = True
            work.stop.set()
            raise
        self._work = None
        if is_full(work.error):
            raise FullDisk(f"the disk is full ({self.into}); free some space")
        if (little := self._little()) is not None and work.stop.is_set() and work.late is None:
            raise FullDisk(little)
        if work.error is not None or work.late is not None or strikes_processes(workload):
            lease.spoil()  # the next run gets a new one
        line = self._line_of(blank, work, folder)
        self._add(replace(line, took=round(self.clock() - began, 3), used=round(self.used, 3)))
        evidence = None if work.judged is None else work.judged.evidence
        self._settle(line, folder, evidence)

    def _workload(self, cell: Cell) -> Workload:
        """What runs of a cell do."""
        workload = self.order.file.workloads[cell]
        return workload if self.order.suite.shrink is None else recordable(workload)

    def _execute(
        self,
        work: _Work,
        stack: WarmStack,
        workload: Workload,
        folder: RunFolder,
        line: Line,
        about: Mapping[str, Any],
    ) -> None:
        """One run and its judgement, in a thread of its own; raises nothing."""
        assert line.seed is not None and line.command is not None
        try:
            seen = dict(self._book.seen)
            stack.run(workload, folder, seed=line.seed, command=line.command, stop=work.stop, about=about, seen=seen)
        except BaseException as e:
            work.error = e
        work.executed.set()
        if not self._stopping and not is_full(work.error) and folder.began:
            self._judge(work, folder)
        work.done.set()

    def _judge(self, work: _Work, folder: RunFolder) -> None:
        try:
            work.judged = self.judge(folder, self.publish)
        except BaseException as e:
            work.error = work.error or e
        work.done.set()

    def _until_done(self, work: _Work, workload: Workload, cell: Cell, lease: Lease[WarmStack]) -> None:
        """Wait for a run; one that takes too long is stopped, then its stack is killed, then it is left alone."""
        limit = self.order.suite.length + workload.op_timeout + self.bounds.around
        if not _wait(work.executed, limit):
            work.late = f"it did not end within {limit:.0f} s and was stopped"
            self.watcher.say(f"{cell.name}: {work.late}")
            work.stop.set()
            if not _wait(work.executed, self.bounds.ending):
                work.late = f"it did not end within {limit:.0f} s, nor when it was stopped; its stack was killed"
                self.watcher.say(f"{cell.name}: {work.late}")
                lease.end()
                kill_marked()
                _wait(work.executed, self.bounds.killed)
        if work.executed.is_set() and not _wait(work.done, self.bounds.judging):
            work.late = f"it could not be judged within {self.bounds.judging:.0f} s"
            self.watcher.say(f"{cell.name}: {work.late}")
        if not work.done.is_set():
            self._left += 1
            work.late = f"{work.late}; what is left of it was left alone"

    def _line_of(self, blank: Line, work: _Work, folder: RunFolder) -> Line:
        """The line of a run that is over."""
        hide = self._stacks.hide
        reason = work.late
        if work.error is not None:
            reason = "; ".join(filter(None, (work.late, why(work.error, hide))))
            keep_details(work.error, folder.logs, hide)
        judged = work.judged
        line = replace(blank, reason=reason, disk=soakfolder.size_of(folder.path))
        if judged is not None:
            line = self._judged(line, folder, judged)
        peak, own = folder.state().get("peak_memory_bytes"), _rss()
        return replace(line, peak_memory=peak if isinstance(peak, int) else 0, rss=own)

    def _judged(self, line: Line, folder: RunFolder, judged: Judged[object]) -> Line:
        """As :func:`judged_line`; a run whose figures cannot be computed is an error."""
        try:
            return judged_line(line, folder, judged)
        except Exception as e:  # whatever it is, the night goes on
            if is_full(e):
                raise
            keep_details(e, folder.logs, self._stacks.hide)
            return replace(line, ended="error", reason=why(e, self._stacks.hide))

    def _add(self, line: Line) -> None:
        """Write a line, then say it."""
        self._journal.append(line)
        self.said(line)

    def _settle(self, line: Line, folder: RunFolder, evidence: Evidence | None) -> None:
        """Keep the folder of a run that is worth a look, remove that of a valid one."""
        self._largest = max(self._largest, line.disk)
        if evidence is not None:
            self._exercised(folder, evidence)
        if line.ended == "valid":
            if evidence is not None:
                self._columns(folder, evidence)
            soakfolder.remove(folder.path)
        if len(self._lines) % COLLECTED == 0:
            gc.collect()  # evidence of several runs may be in cycles

    def _exercised(self, folder: RunFolder, evidence: Evidence) -> None:
        """Add what a run exercised to the night's coverage; without it nothing is missing but a figure."""
        with dispensable(f"the coverage of {folder.path.name} is not kept", self.watcher.say):
            self._book.append(name_of(folder.path), of_folder(folder.path, evidence))

    def _columns(self, folder: RunFolder, evidence: Evidence) -> None:
        """Keep the columns of the tables of a valid run that have some; without them nothing is missing but a second judgement."""
        frames = []
        with dispensable(f"the columns of {folder.path.name} are not kept", self.watcher.say):
            for t in timelines(evidence)[0]:
                with contextlib.suppress(Unordinary):
                    frames.append((folder.path.name, frame_of(t)))
            if frames:
                place = self.into / COLUMNS / folder.path.name
                place.mkdir(parents=True)
                write_columns(frames, place)

    # --- what was found -----------------------------------------------------------------------------------------------

    def _find(self, line: Line) -> None:
        """Replay and shrink the new anomalies of a run, within what is left of the budget and of the night."""
        limits = self.order.suite.shrink
        if limits is None or line.ended != "invalid" or line.folder is None or self._left >= MOST_LEFT:
            return
        for name in finds.due(line, self.night.new_of(line), self._finds):
            if name not in finds.due(line, [name], self._finds):
                continue  # the one before it showed it, too
            catalog = self.order.file.catalog_of(line.cell)
            left = min(limits.longest, limits.budget - sum(f.seconds for f in self._finds))
            job = Job(self.into, line, name, catalog, left, limits.replays, self.order.icequake)
            spent = job.spent()
            rest = float("inf") if self.order.lasts is None else self.order.lasts - self.used
            if left - spent < soakfinds.LEAST:
                self._add_find(replace(job.find(), became="spent", reason="the budget of shrink is spent"))
            elif rest < soakfinds.LEAST:
                self._say_later(job)
            elif (lease := self._lease(line.cell)) is not None:
                with lease:
                    found = self._shrink(replace(job, seconds=min(left, spent + rest)), spent, lease)
                if found.became == "spent" and spent + rest < left:
                    self._say_later(job)  # the night ended it, not its own budget: it is not over
                else:
                    self._add_find(found)

    def _say_later(self, job: Job) -> None:
        what = f"{job.anomaly} of {job.line.cell.name}"
        self.watcher.say(f"no time is left to shrink {what}; the same command with a longer --for goes on with it")

    def _shrink(self, job: Job, spent: float, lease: Lease[WarmStack]) -> Find:
        """Replay and shrink one anomaly on a leased stack; one that takes too long is ended as a run is."""
        bounds = self.bounds
        self.watcher.say(
            f"shrinking {job.anomaly} of {job.line.cell.name}, for {(job.seconds - spent) / 60:.0f} min at most"
        )
        work, began, late = _Work(), self.clock(), None
        self._work = work

        def execute() -> None:
            try:
                work.find = soakfinds.shrink(
                    job,
                    lambda: self.open_runner(job, lease, self.watcher, self.publish, work.stop),
                    self.watcher,
                    work.stop,
                    self.clock,
                )
            except BaseException as e:
                work.error = e
            work.done.set()

        threading.Thread(target=execute, name=f"shrink of {job.anomaly}", daemon=True).start()
        try:
            if not _wait(work.done, job.seconds - spent):
                work.stop.set()
                if not _wait(work.done, bounds.ending):
                    late = "it did not end when its time was over; its stack was killed"
                    lease.end()
                    kill_marked()
                    if not _wait(work.done, bounds.killed):
                        self._left += 1
        except BaseException:
            self._stopping = True
            work.stop.set()
            work.done.wait(bounds.interrupted)
            raise
        finally:
            self._work = None
        if is_full(work.error):
            raise FullDisk(f"the disk is full ({self.into}); free some space")
        if (little := self._little()) is not None:
            raise FullDisk(little)
        found = work.find
        if found is None:
            reason = late or ("" if work.error is None else why(work.error, self._stacks.hide))
            found = replace(job.find(), reason=reason, seconds=round(spent + self.clock() - began, 1))
        if late is not None or found.became == "failed" or strikes_processes(self._workload(job.line.cell)):
            lease.spoil()  # the next run gets a new one
        return found

    def _add_find(self, found: Find) -> None:
        """Write what became of an anomaly, then say it."""
        found = replace(found, used=round(self.used, 3))
        self._found.append(found)
        self.told(found)

    # --- disk and memory ----------------------------------------------------------------------------------------------

    def _kept(self, line: Line) -> Path | None:
        """The folder of a run; None if it is gone, or not one of this night: what others wrote into a line is not removed."""
        path = None if line.folder is None else self.into / line.folder
        mine = (
            path is not None
            and path.is_relative_to(self.into / RUNS)
            and ".." not in path.parts[len(self.into.parts) :]
        )
        return path if mine and path is not None and path.is_dir() else None

    def _removable(self) -> list[Kept]:
        tonight, out = self.night, []
        for line in self._lines:
            if (path := self._kept(line)) is not None and line.ended != "valid":
                shows = line.ended == "invalid"
                rank = WITHOUT_VERDICT
                if shows:
                    rank = soakfolder.NEW if tonight.new_of(line) else soakfolder.KNOWN
                names = frozenset(line.anomalies) if shows else frozenset[str]()
                out.append(Kept(path, soakfolder.size_of(path), line.started, line.cell, names, rank))
        began = {x.folder: x.started for x in self._lines}
        for f in self._finds:
            path = self.into / str(f.folder) / soakfinds.RUNS
            if f.folder is not None and path.is_dir():
                # A find whose run has no line, because somebody removed that line, is as old as can be.
                started = began.get(f.run, "")
                out.append(Kept(path, soakfolder.size_of(path), started, f.cell, rank=WITHOUT_VERDICT))
        place = self.into / COLUMNS
        columns = sorted(place.iterdir()) if place.is_dir() else []
        out += [Kept(p, soakfolder.size_of(p), p.name, rank=soakfolder.COLUMNS) for p in columns]
        return out

    def _make_room(self) -> None:
        """Keep the night's folder under its bound, with room for another run.

        Raises:
            FullDisk: what must stay takes more.
        """
        self._size = soakfolder.size_of(self.into)
        bound = self.order.suite.keep
        if self._size + self._largest > bound:
            for k in soakfolder.surplus(self._removable(), self._size + self._largest, bound):
                soakfolder.remove(k.path)
                what = (
                    "columns"
                    if k.cell is None
                    else f"{'runs of a shrink' if k.path.name == soakfinds.RUNS else 'run'} of {k.cell.name}"
                )
                self.watcher.say(f"removed the {what} {k.path.name}: the night's folder may have {written(bound)}")
            self._drop_logs()
            self._size = soakfolder.size_of(self.into)
        if self._size + self._largest > bound:
            raise FullDisk(
                f"the night's folder has {self._size / 1e9:.2f} GB, all of it needed, and may have {written(bound)}; give a greater --keep"
            )

    def _drop_logs(self) -> None:
        """Remove the logs of stacks of which no run is left."""
        needed = {x.stack for x in self._lines if self._kept(x) is not None}
        place = self.into / LOGS
        for path in place.iterdir() if place.is_dir() else ():
            if self._relative(path) not in needed and path not in self._stacks.logs:
                soakfolder.remove(path)

    def _little(self) -> str | None:
        """That too little is free on the disk; None if there is enough."""
        least = self.order.suite.free
        for place in (self.into, Path(tempfile.gettempdir())):
            free = shutil.disk_usage(place).free
            if free < least:
                return f"only {free / 1e9:.2f} GB are free at {place}, and {written(least)} must stay free; free some space"
        return None

    def _sample(self) -> None:
        """Note memory and disk; end the run that goes on when the disk is nearly full."""
        while not self._over.wait(self.bounds.sample):
            with contextlib.suppress(OSError):
                memory = own = _rss()
                for child in psutil.Process().children(recursive=True):
                    with contextlib.suppress(psutil.Error):
                        memory += child.memory_info().rss
                free = shutil.disk_usage(self.into).free
                self._sampled.append(Sample(round(self.used, 1), own, memory, self._size, free))
            work = self._work
            if work is not None and self._little() is not None:
                work.stop.set()

    # --- a night that was killed --------------------------------------------------------------------------------------

    def _recover(self) -> None:
        """Judge the runs whose line is missing, and remove the folders that nobody needs."""
        told = {x.folder: x for x in self._lines if x.folder is not None}
        for folder in runfolder.runs(self.into / RUNS):
            line = told.get(self._relative(folder.path))
            if line is not None:
                if line.ended in ("valid", "incomplete"):
                    soakfolder.remove(folder.path)
                continue
            self._recover_run(folder)
        self._drop_logs()

    def _recover_run(self, folder: RunFolder) -> None:
        try:
            plan = folder.read_plan()
            about = (plan.model_extra or {})[ABOUT]
            cell, number = Cell.from_json(about["cell"]), int(about["number"])
        except (runfolder.StoreError, KeyError, TypeError, ValueError) as e:
            if not folder.began:  # it was killed before it wrote its plan, or its first event
                soakfolder.remove(folder.path)
            else:
                self.watcher.say(f"left alone: {' '.join(str(e).split()) or folder.plan}")
            return
        where = self._relative(folder.path)
        state = folder.state()
        line = Line(
            cell,
            number,
            plan.seed,
            str(state.get("started") or _now()),
            "incomplete",
            folder=where,
            command=plan.command,
        )
        complete = state.get("state") == "complete"
        work = _Work()
        if folder.began:
            threading.Thread(target=self._judge, args=(work, folder), name="judgement", daemon=True).start()
            if not _wait(work.done, self.bounds.judging):
                self._left += 1
                work.error = TimeoutError(f"not within {self.bounds.judging:.0f} s")
            if work.error is not None:
                if is_full(work.error):
                    raise work.error
                reason = f"it cannot be judged: {self._stacks.hide.text(' '.join(str(work.error).split()))}"
                line = replace(line, ended="error" if complete else "incomplete", reason=reason)
        judged = None if work.error is not None else work.judged
        line = replace(line, disk=soakfolder.size_of(folder.path), used=self.used)
        if judged is not None:
            found = self._judged(line, folder, judged)
            line = found if complete or found.ended == "invalid" else replace(found, ended="incomplete", reason=None)
        if line.ended == "incomplete":
            line = replace(line, reason=line.reason or "its session was stopped or killed")
        self._add(line)
        self.watcher.say(f"found {cell.name} seed {plan.seed} of the session before: {line.ended}")
        if line.ended == "incomplete":
            soakfolder.remove(folder.path)
        else:
            self._settle(line, folder, None if judged is None else judged.evidence)

    def _relative(self, path: Path) -> str:
        return path.relative_to(self.into).as_posix()


def judged_line(line: Line, folder: RunFolder, judged: Judged[object]) -> Line:
    """The line with what the checkers say. A run that was cut short is an error, unless it certainly shows an anomaly."""
    results, evidence = judged.results, judged.evidence
    measured = measures.measure(evidence, results, measures.requests(folder.proxy))
    seen = record.failing(results)
    told = stories.unaccepted(results.told.stories, results.verdicts, results.accepted.mark)
    ended: Ended = "unknown" if results.valid == "unknown" else "valid" if results.valid else "invalid"
    if ended != "invalid" and (line.reason is not None or not results.complete):
        ended = "error"
    reason = line.reason
    if ended == "unknown":
        reason = next(
            (f"{v.checker}: {v.notes[0]}" for v in results.verdicts if v.valid == "unknown" and v.notes), None
        )
    if ended == "error" and reason is None:
        reason = f"the run is {folder.state().get('state')}"
    return replace(
        line,
        ended=ended,
        reason=reason,
        anomalies=record.tally(seen),
        seen=seen,
        headline=stories.headline(told),
        who=stories.who_words(told),
        operations=measured.operations,
        commits=measured.commits,
        figures=record.figures_of(measured),
        seconds=measured.seconds,
    )


def _wait(event: threading.Event, seconds: float) -> bool:
    """Wait in short steps, so that a signal is noticed; whether the event is set."""
    deadline = time.monotonic() + seconds
    while not event.is_set() and time.monotonic() < deadline:
        event.wait(min(0.2, max(0.0, deadline - time.monotonic())))
    return event.is_set()


def _rss() -> int:
    return int(psutil.Process(os.getpid()).memory_info().rss)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def tally(lines: Mapping[str, int] | Counter[str]) -> str:
    """``lost-commit ×2, undelete``."""
    return ", ".join(name + (f" ×{n}" if n > 1 else "") for name, n in lines.items())
