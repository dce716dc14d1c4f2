"""``icequake soak``: the cells of a suite, one run after the other with fresh seeds, for a night; on warm stacks.

Whose turn it is says ``harness.experiments.soakturns``. A run executes and is judged apart from the night, so that one that never ends can
be left: it is asked to stop when its time is over, then its stack is killed, then the night goes on without it. A failing run is kept with
its folder, a valid one as its line in ``runs.jsonl`` and its columns. The line is on disk before anything of the run is removed.

A night is three campaigns, one error policy (:mod:`harness.campaign.campaign`): the runs that a session which was killed left, the turns,
and after each turn what it found, which is replayed and shrunk.

**A night that was killed** is continued by the same command. Runs whose line is missing are judged from their folders: one that came to its
end is as good as any other, one that did not is an anomaly if it certainly shows one, else ``incomplete``: it is removed, and the cell makes
the run with that number and seed again.
"""

from __future__ import annotations

import contextlib
import gc
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from checkers.coverage.coverage import CoverageError
from checkers.coverage.ledger import FILE as COVERAGE
from checkers.coverage.ledger import Ledger
from checkers.evidence import runfolder
from checkers.evidence.evidence import Evidence
from checkers.evidence.journal import Journal
from checkers.evidence.replace import replace
from checkers.evidence.runfolder import RunFolder, StoreError
from checkers.lake.rows import night_of
from checkers.nights import finds, night, record
from checkers.nights.finds import Find
from checkers.nights.night import Night
from checkers.nights.record import NightError, NightRun, Sample
from harness.campaign.campaign import Campaign, CouldNotRun, Done, JobAttempt
from harness.campaign.errors import is_full
from harness.campaign.stacks import Key, Lease
from harness.campaign.task import Task
from harness.experiments import soakfinds, soakfolder, soakrecovery
from harness.experiments.shrink.trials import Runner
from harness.experiments.soakexecution import MOST_LEFT, Execution, TimeLimits
from harness.experiments.soakfinds import Job, OpenRunner
from harness.experiments.soakfolder import COLUMNS_FOLDER, LOGS_FOLDER, RUNS_FOLDER, Room
from harness.experiments.soakjudged import judged_line, keep_columns, keep_coverage
from harness.experiments.soakorder import PlannedRun, SoakPlan
from harness.experiments.soakrare import RareTurns, rarity_of
from harness.experiments.soakrecovery import ABOUT, UnrecordedRun, now
from harness.experiments.soaksamples import Sampler, rss
from harness.experiments.soakstacks import (
    Start,
    WarmStack,
    start_bench,
    strikes_processes,
)
from harness.experiments.soakturns import NightTurns
from harness.run.errors import RunError
from harness.run.judged import Judge, JudgedRun, Publish, judge_run
from harness.run.recorded import recordable
from harness.run.settings import Watcher
from workloads.file.suite import Cell, as_header
from workloads.file.workload import Workload

R = TypeVar("R")

COLLECTED = 10
"""Runs between two collections of what is no longer used."""


@dataclass
class Soak:
    """One session of a night; use in ``with``, which ends the stack that is up.

    Args:
        into: the night's folder.
        publish: writes what people read, such as the page, into the folder of a judged run.
        start: starts a stack; ``judge``: checks a run's folder and publishes what it found.
        clock: seconds.
        run_finished: called with each run that has ended; ``find_finished``: with each anomaly that was replayed and shrunk.
        open_runner: makes what replays and shrinks.
        stopping: called with the night so far when the user stops it, before anything is waited for.

    Attributes:
        stopped: whether ``stopping`` was called.
        room: keeps the night's folder under its bound.
    """

    order: SoakPlan
    into: Path
    watcher: Watcher
    publish: Publish[object]
    start: Start = start_bench
    judge: Judge = judge_run
    bounds: TimeLimits = field(default_factory=TimeLimits)
    clock: Callable[[], float] = time.monotonic
    run_finished: Callable[[NightRun], None] = lambda _: None
    find_finished: Callable[[Find], None] = lambda _: None
    open_runner: OpenRunner = soakfinds.on_warm
    stopping: Callable[[Night], object] = lambda _: None
    stopped: bool = False
    _stopped: str | None = None
    _before: float = 0.0
    _began: float = 0.0
    _date: str = ""
    _open: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)

    def __post_init__(self) -> None:
        o, into = self.order, self.into
        self._started = now()
        shared = {**as_header(o.suite, o.file.cells), "seed": o.seed}
        self._journal = Journal(into / record.RUNS, record.LINES, shared, also={"started": self._started})
        self._sampled = Journal(into / record.SAMPLES, record.SAMPLED, alone=False)
        self._found = Journal(into / finds.FILE, finds.FINDS, alone=False)
        self._execution = Execution(
            o.file, into / LOGS_FOLDER, self.watcher, self.publish, self.start, self.judge, self.bounds
        )
        self.room = Room(into, o.suite, lambda: self.night, lambda: self._execution.stacks.logs, self.watcher.say)

    # --- a session ----------------------------------------------------------------------------------------------------

    def __enter__(self) -> Soak:
        """Lock the folder, and read or begin the night.

        Raises:
            NightError: the folder is in use, cannot be made, or has another night, or a line of it cannot be read.
        """
        with contextlib.ExitStack() as stack:
            for journal in (self._journal, self._sampled, self._found):
                stack.enter_context(journal)
            self._book = stack.enter_context(self._ledger())
            self._turns = self._turns_of_night()
            self._began = self.clock()
            self._begin()
            stack.callback(self._drop_logs)
            stack.enter_context(self._execution.stacks)
            execution = self._execution
            sampler = Sampler(self._sampled, self.room, lambda: self.used, lambda: execution.going, self.bounds.sample)
            stack.enter_context(sampler)
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
            dict(self._execution.given_up),
            self._stopped,
            tuple(self._finds),
        )

    @property
    def _lines(self) -> list[NightRun]:
        return self._journal.lines

    @property
    def _samples(self) -> list[Sample]:
        return self._sampled.lines

    @property
    def _finds(self) -> list[Find]:
        return finds.latest(self._found.lines)

    @property
    def up(self) -> tuple[Key, WarmStack] | None:
        """The stack that is up, with its catalog and release; None if there is none."""
        return self._execution.up

    def go(self) -> Night:
        """Make runs until the night is over.

        Raises:
            KeyboardInterrupt: the user stopped it; every line is on disk.
            OSError: the folder cannot be written, for another reason than a full disk, which ends the night.
        """
        try:
            self._recover()
            if not self._runs_first:
                self._find(self._lines)
            Campaign(
                self._in_turn(),
                self._journal,
                None,
                self._run,
                lambda turn, attempt, why: [replace(self._blank(turn, attempt), reason=why, used=self.used)],
                self.watcher,
                name=self._words,
                hide=self._execution.stacks.hide,
                finished=self._say,
                ends=(StoreError,),
            ).go()
            if self._runs_first and self._stopped is None:
                self._find(self._by_stack())
        except StoreError as e:  # no folder could be made for a run
            self._stopped = str(e)
        except OSError as e:
            if not is_full(e):
                raise
            self._stopped = self.room.little() or f"the disk is full ({e.filename or self.into}); free some space"
        except KeyboardInterrupt:
            self.stopped = True
            self.stopping(self.night)
            if (task := self._execution.going) is not None and task.wait(self.bounds.interrupted):
                self._keep_stopped(task)
            raise
        return self.night

    def _keep_stopped(self, task: Task[Any]) -> None:
        """Write down how far a shrink came that somebody stopped."""
        with contextlib.suppress(Exception):  # why it failed does not matter any more
            found = task.result()
            if isinstance(found, Find):
                self._found.append(replace(found, used=round(self.used, 3)))
                self.stopping(self.night)

    @property
    def _runs_first(self) -> bool:
        """Whether what is new is shrunk after all runs: by their number the night has no time that they could take from it."""
        return self.order.lasts is None

    def _by_stack(self) -> list[NightRun]:
        """The runs, those of the stack that is up first, so that no stack is started twice."""
        up = None if self.up is None else self.up[0]
        return sorted(self._lines, key=lambda x: (x.cell.stack != up, x.cell.stack))

    def _turns_of_night(self) -> NightTurns:
        """Whose turn it is, as the suite says."""
        o = self.order
        if o.suite.turns != "rare":
            return NightTurns(o.file.cells, o.seed, o.suite.turns, o.weight)
        weight = rarity_of(o.file.workloads, lambda: self._book.seen)
        return RareTurns(o.file.cells, o.seed, weight=weight, made=lambda: [x.cell for x in self._lines if x.counts])

    def _ledger(self) -> Ledger:
        try:
            return Ledger(self.into / COVERAGE)
        except CoverageError as e:
            raise NightError(f"{e}; or remove the file, and the night counts its coverage anew") from None

    def _begin(self) -> None:
        """Take up what earlier sessions wrote."""
        began = datetime.fromisoformat(str(self._journal.header.get("started") or self._started))
        self._date = night_of(began).isoformat()
        if not self._lines and not self._samples:
            return
        self._before = max(record.used(self._lines, self._samples), *(f.used for f in self._finds), 0.0)
        self.room.largest = max((x.disk for x in self._lines), default=0)
        self.watcher.say(f"the night goes on: {self._made} runs are there, {self._before / 60:.0f} min are used")

    @property
    def _made(self) -> int:
        """The runs so far."""
        return sum(x.counts for x in self._lines)

    def _enough(self) -> bool:
        """Whether no further run begins."""
        order, suite = self.order, self.order.suite
        if order.runs is not None and self._made >= order.runs:
            return True
        if order.lasts is not None and self.used + suite.length > order.lasts:
            return True
        if suite.stop_on_anomaly and any(self.night.new_of(x) for x in self._lines):
            return True
        if self._execution.unfinished >= MOST_LEFT:
            self._stopped = f"{self._execution.unfinished} runs did not end in any way"
        else:
            self._stopped = self.room.make()
        return self._stopped is not None

    def _in_turn(self) -> Iterator[PlannedRun]:
        """The turns of the night, and after each one what it found."""
        while not self._enough():
            numbers = night.numbers(self._lines)
            cell = self._turns.next(numbers, None if self.up is None else self.up[0])
            if cell is None:
                self._stopped = "no catalog's stack comes up"
                return
            yield PlannedRun(cell, numbers[cell], self._turns.seed_of(cell, numbers[cell]))
            self._drop_logs()
            if not self._runs_first:
                self._find(self._lines[-1:])

    def _words(self, turn: PlannedRun) -> str:
        goal = "" if self.order.runs is None else f"/{self.order.runs}"
        return f"{self._made + 1}{goal} {turn.cell.name} seed {turn.seed}"

    def _say(self, lines: Iterable[NightRun]) -> None:
        for line in lines:
            self.room.largest = max(self.room.largest, line.disk)
            self.run_finished(line)

    def _drop_logs(self) -> None:
        """Remove the logs of stacks that were closed, unless a run that is kept needs them; who stopped the night may want to see all."""
        if not self.stopped:
            closed, self._execution.closed[:] = [*self._execution.closed], []
            self.room.drop_logs(closed)

    # --- one run ------------------------------------------------------------------------------------------------------

    def _lease(self, cell: Cell) -> Lease[WarmStack]:
        return self._execution.lease(cell, self._turns, night.numbers(self._lines))

    def _run(self, turn: PlannedRun, attempt: JobAttempt) -> Done[NightRun] | CouldNotRun:
        """Execute and judge the run of a turn."""
        cell, workload = turn.cell, self._workload(turn.cell)
        with self._lease(cell) as lease:
            folder = attempt.folder = runfolder.create(self.into / RUNS_FOLDER, cell.workload)
            attempt.watcher.say("runs")
            blank = replace(self._blank(turn, attempt), stack=self._relative(lease.logs))
            began, limit = self.clock(), self.order.suite.length + workload.op_timeout + self.bounds.around
            task = self._task(turn, blank, lease.stack, folder, attempt.stop)
            late = self._execution.late(task, limit, lease, cell.name)
            if attempt.stop.is_set() and late is None and (little := self.room.little()) is not None:
                attempt.cut_short = True
                return CouldNotRun(little)
            error = _tried(attempt, task.result)[1] if task.is_over else None
            judged, wrong = None, None
            if task.is_over and folder.began:
                judged, wrong = _tried(attempt, lambda: self._execution.judged(folder))
            if late or error or wrong or strikes_processes(workload):
                lease.spoil()  # the next run gets a new one
            reason = "; ".join(filter(None, (late, error or wrong))) or None
            line = self._judged(replace(blank, reason=reason), folder, judged, attempt)
        peak = folder.state().get("peak_memory_bytes")
        line = replace(line, peak_memory=peak if isinstance(peak, int) else 0, rss=rss())
        line = replace(line, took=round(self.clock() - began, 3), used=round(self.used, 3))
        return Done([line], lambda: self._settle(line, folder, None if judged is None else judged.evidence))

    def _blank(self, turn: PlannedRun, attempt: JobAttempt) -> NightRun:
        """The line of a run that says nothing yet; without a number if its stack did not come up, since that was no turn of its cell."""
        if attempt.folder is None:
            tried = self._execution.tried
            logs = None if tried is None else self._relative(tried)
            return NightRun(turn.cell, None, None, attempt.started, "error", stack=logs)
        command, folder = self.order.command(turn.cell, turn.seed), self._relative(attempt.folder.path)
        return NightRun(turn.cell, turn.number, turn.seed, now(), "error", folder=folder, command=command)

    def _workload(self, cell: Cell) -> Workload:
        """What runs of a cell do."""
        workload = self.order.file.workloads[cell]
        return workload if self.order.suite.shrink is None else recordable(workload)

    def _task(
        self, turn: PlannedRun, blank: NightRun, stack: WarmStack, folder: RunFolder, stop: threading.Event
    ) -> Task[None]:
        """The run of a turn."""
        about = {
            ABOUT: {"cell": turn.cell.to_json(), "number": turn.number},
            "suite": self.order.suite.suite,
            "night": self._date,
            "known": [k.model_dump(mode="json", exclude_none=True) for k in self.order.suite.known_of(turn.cell)],
        }
        seen, command, workload = dict(self._book.seen), str(blank.command), self._workload(turn.cell)
        return Task(
            f"run of {turn.cell.name}",
            lambda: stack.run(workload, folder, seed=turn.seed, command=command, stop=stop, about=about, seen=seen),
            stop,
        )

    def _judged(
        self, line: NightRun, folder: RunFolder, judged: JudgedRun[object] | None, attempt: JobAttempt
    ) -> NightRun:
        """The line of a run that is over; one whose figures cannot be computed is an error."""
        line = replace(line, disk=soakfolder.size_of(folder.path))
        if judged is None:
            return line
        found, wrong = _tried(attempt, lambda: judged_line(line, folder, judged))
        return replace(line, ended="error", reason=wrong) if found is None else found

    def _settle(self, line: NightRun, folder: RunFolder, evidence: Evidence | None) -> None:
        """Keep the folder of a run that is worth a look, remove that of another one."""
        if evidence is not None and line.ended != "incomplete":
            keep_coverage(self._book, folder, evidence, self.watcher.say)
            if line.ended == "valid":
                keep_columns(self.into / COLUMNS_FOLDER, folder, evidence, self.watcher.say)
        if line.ended in ("valid", "incomplete"):
            soakfolder.remove(folder.path)
        if len(self._lines) % COLLECTED == 0:
            gc.collect()  # evidence of several runs may be in cycles

    # --- what was found -----------------------------------------------------------------------------------------------

    def _find(self, lines: Iterable[NightRun]) -> None:
        """Replay and shrink the new anomalies of runs, within what is left of the budget and of the night."""
        Campaign(
            self._due([*lines]),
            self._found,
            None,
            self._shrink,
            self._not_shrunk,
            self.watcher,
            name=lambda job: f"shrink of {job.anomaly} of {job.line.cell.name}",
            hide=self._execution.stacks.hide,
            finished=self._tell,
        ).go()

    def _tell(self, found: Iterable[Find]) -> None:
        for find in found:
            self.find_finished(find)

    def _due(self, lines: Iterable[NightRun]) -> Iterator[Job]:
        o, limits = self.order, self.order.suite.shrink
        for line in lines:
            if limits is None or line.ended != "invalid" or line.folder is None:
                continue
            for name in finds.due(line, self.night.new_of(line), self._finds):
                # Meanwhile another one may have shown it, too, or too much may go on.
                if self._execution.unfinished < MOST_LEFT and name in finds.due(line, [name], self._finds):
                    seconds = min(limits.longest, limits.budget - sum(f.seconds for f in self._finds))
                    job = Job(self.into, line, name, o.file.catalog_of(line.cell), seconds, limits.replays, o.commands)
                    yield job.resumed()

    def _shrink(self, job: Job, attempt: JobAttempt) -> Done[Find]:
        """Replay and shrink one anomaly on a leased stack; one that takes too long is ended as a run is."""
        rest = float("inf") if self.order.lasts is None else self.order.lasts - self.used
        if job.seconds - job.spent < soakfinds.LEAST_SECONDS:
            return Done([replace(job.find(), became="spent", reason="the budget of shrink is spent", used=self.used)])
        if rest < soakfinds.LEAST_SECONDS:
            return self._later(job)
        with self._lease(job.line.cell) as lease:
            attempt.folder = job.run
            limited = replace(job, seconds=min(job.seconds, job.spent + rest), by_night=job.spent + rest < job.seconds)
            attempt.watcher.say(f"for {(limited.seconds - limited.spent) / 60:.0f} min at most")
            task = self._task_of(limited, lease, attempt.stop)
            late = self._execution.late(task, limited.seconds - limited.spent, lease, f"shrink of {job.anomaly}")
            found, wrong = _tried(attempt, task.result) if task.is_over else (None, late)
            if found is None:
                raise RunError(late or wrong)
            if found.became == "failed" or strikes_processes(self._workload(job.line.cell)):
                lease.spoil()  # the next run gets a new one
        if self.room.little() is not None:  # which the night says
            return Done(())
        return Done([replace(found, used=round(self.used, 3))])

    def _task_of(self, job: Job, lease: Lease[WarmStack], stop: threading.Event) -> Task[Find]:
        """The replays and the shrink of an anomaly."""

        def opened() -> contextlib.AbstractContextManager[Runner]:
            return self.open_runner(job, lease, self.watcher, self.publish, stop)

        call = partial(soakfinds.shrink, job, opened, self.watcher, stop, self.clock)
        return Task(f"shrink of {job.anomaly}", call, stop)

    def _later(self, job: Job) -> Done[Find]:
        what = f"{job.anomaly} of {job.line.cell.name}"
        self.watcher.say(f"no time is left to shrink {what}; the same command with a longer --for goes on with it")
        return Done(())

    def _not_shrunk(self, job: Job, attempt: JobAttempt, why: str) -> list[Find]:
        """The find of an anomaly that could not be shrunk; if its stack did not come up, it is tried again and the night has an error."""
        if attempt.folder is None:
            line = self._blank(PlannedRun(job.line.cell, 0, 0), attempt)
            self._journal.append(line := replace(line, reason=why, used=self.used))
            self.run_finished(line)
            return []
        seconds = round(job.spent + attempt.seconds, 1)
        return [replace(job.find(), reason=why, seconds=seconds, used=round(self.used, 3))]

    # --- a night that was killed --------------------------------------------------------------------------------------

    def _recover(self) -> None:
        """Judge the runs whose line is missing, and remove the folders that nobody needs."""
        Campaign(
            soakrecovery.unrecorded_runs(self.into, [*self._lines], self.watcher.say),
            self._journal,
            None,
            self._recovered,
            lambda unrecorded, attempt, why: [self._now(unrecorded, unrecorded.judged(None, why))],
            self.watcher,
            name=lambda unrecorded: f"{unrecorded.blank.cell.name} seed {unrecorded.blank.seed} of the session before",
            hide=self._execution.stacks.hide,
            finished=self._say,
        ).go()
        self.room.drop_logs()

    def _recovered(self, unrecorded: UnrecordedRun, attempt: JobAttempt) -> Done[NightRun]:
        attempt.folder = folder = unrecorded.folder
        judged, why = _tried(attempt, lambda: self._execution.judged(folder) if folder.began else None)
        line = self._now(unrecorded, unrecorded.judged(judged, why))
        attempt.watcher.say(line.ended)
        return Done([line], lambda: self._settle(line, folder, None if judged is None else judged.evidence))

    def _now(self, unrecorded: UnrecordedRun, line: NightRun) -> NightRun:
        return replace(line, disk=soakfolder.size_of(unrecorded.folder.path), used=self.used)

    def _relative(self, path: Path) -> str:
        return path.relative_to(self.into).as_posix()


def _tried(attempt: JobAttempt, call: Callable[[], R]) -> tuple[R | None, str | None]:
    """What a call returns, or why it raised an error, which does not end its job."""
    result = attempt.outcome(lambda: Done([call()]))
    return (None, result.why) if isinstance(result, CouldNotRun) else (result.lines[0], None)
