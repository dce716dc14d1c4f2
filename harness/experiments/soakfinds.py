"""What a soak does with a new anomaly: it replays the run, then shrinks it to a scenario, on the stack that is up and within a budget.

All of it is in ``shrinks/NAME`` of the night's folder, with the log of ``icequake shrink``: a night that was killed asks for no answer
twice. What came of it is a line of ``finds.jsonl`` (``checkers.nights.finds``), which is written when it is over.
"""

from __future__ import annotations

import contextlib
import re
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from checkers.evidence import runfolder
from checkers.evidence.journal import Journal
from checkers.evidence.replace import replace
from checkers.evidence.runfolder import RunFolder
from checkers.nights.finds import Find
from checkers.nights.record import NightRun
from compose import setup
from compose.install import releases
from harness.campaign.errors import TOLD
from harness.campaign.stacks import Lease
from harness.experiments import soakfolder
from harness.experiments.shrink import trials
from harness.experiments.shrink.candidates import plain
from harness.experiments.shrink.log import ShrinkError, Trial, journal_of
from harness.experiments.shrink.log import trials as logged
from harness.experiments.shrink.reduction import BudgetSpent, Tries
from harness.experiments.shrink.shown import SCENARIO, shrunk
from harness.experiments.shrink.shrink import TOO_SHORT, Failed, NothingToShrink, Shrink, failed, on_catalog
from harness.experiments.shrink.trials import Budget, CandidateRun, Runner, Trials
from harness.experiments.soakstacks import SoakBench, WarmStack, external_of
from harness.run.judged import Publish
from harness.run.settings import Watcher
from reports import shrunk as shown
from reports.drawing import render
from workloads.file.recording import FILE as RECORDING
from workloads.file.recording import Recording
from workloads.file.scenario import Scenario

SHRINKS = "shrinks"
"""The folder of the shrinks, in that of a night."""
TRIES, TIMES = 2, 3
"""Runs of a candidate until it counts as one that does not show it; runs in which the result must show it."""
SEARCH = 0.7
"""The share of the time for the search; the rest is for the scenario."""
REPLAYS = 0.3
"""The share of the time in which a replay of the whole run may begin, after the first one."""
LEAST_SECONDS = 5.0
"""Seconds with which nothing is begun."""
RUNS = trials.RUNS
"""The folder of the runs of a shrink, in its folder."""


@dataclass(frozen=True)
class Commands:
    """What a person types after a shrink.

    Attributes:
        prove: (job, the scenario's file) → what runs the scenario.
        replay: (job, the recording's file) → what replays the recording.
        shrink: job → what shrinks on.
    """

    prove: Callable[[Job, Path], str] = lambda job, scenario: f"icequake prove {scenario}"
    replay: Callable[[Job, Path], str] = lambda job, recording: (
        f"icequake run {job.line.cell.workload} --order 'replay {recording}'"
    )
    shrink: Callable[[Job], str] = lambda job: f"icequake shrink {job.run.path}"


@dataclass(frozen=True)
class Job:
    """A new anomaly that is to be replayed and shrunk.

    Attributes:
        night: the night's folder.
        line: the run that found it.
        catalog: its catalog, of a user's own one the path of its file.
        seconds: that it may take, those of earlier sessions included.
        replays: of the whole run.
        spent: seconds that its runs took in earlier sessions.
        by_night: whether its time is what is left of the night's.
    """

    night: Path
    line: NightRun
    anomaly: str
    catalog: str
    seconds: float
    replays: int
    commands: Commands
    spent: float = 0.0
    by_night: bool = False

    @property
    def run(self) -> RunFolder:
        """The run's folder."""
        return RunFolder(self.night / str(self.line.folder))

    @property
    def into(self) -> Path:
        """The folder of the shrink."""
        name = f"{self.anomaly}-{self.line.cell.workload}-{self.run.path.name}".lower()
        return self.night / SHRINKS / re.sub(r"[^\w.-]+", "-", name)

    def find(self) -> Find:
        """What is known of it before anything is done."""
        return Find(self.line.cell, self.line.seed, str(self.line.folder), self.anomaly, "failed")

    def resumed(self) -> Job:
        """The job with what its log says that was spent."""
        spent = 0.0
        with contextlib.suppress(ShrinkError):
            spent = sum(t.seconds for t in logged(self.into))
        return replace(self, spent=spent)

    def about(self) -> dict[str, object]:
        """What the log says is shrunk; the night's folder may be moved."""
        release = releases.find(self.line.cell.iceberg).label
        return dict(trials.about(in_night(self.run.path, self.into), self.anomaly, self.catalog, release))


def in_night(run: Path, into: Path) -> Path:
    """How the log of a shrink names its run: if both are in a night's folder, relative to that, which may be moved."""
    night = into.parent.parent
    return run.relative_to(night) if into.parent.name == SHRINKS and run.is_relative_to(night) else run


OpenRunner = Callable[
    [Job, Lease[WarmStack], Watcher, Publish[object], threading.Event], AbstractContextManager[Runner]
]
"""Makes what runs the candidates of a job, on a stack that is up."""


def on_warm(
    job: Job, lease: Lease[WarmStack], watcher: Watcher, publish: Publish[object], stop: threading.Event
) -> AbstractContextManager[Runner]:
    """As :data:`OpenRunner`: on the bench of the stack, and on another one if a candidate needs more writers or a run cannot be made."""
    return trials.TrialBench(
        job.into / trials.RUNS,
        job.into / "logs",
        setup.ensure_release(releases.find(job.line.cell.iceberg)),
        watcher,
        publish,
        catalog=job.catalog,
        external=external_of(job.catalog),
        bench=lease.stack.bench if isinstance(lease.stack, SoakBench) else None,
        broke=lease.end,
        secrets=lease.secrets,
        stop=stop,
        replays=partial(job.commands.replay, job),
        proves=job.commands.prove(job, job.into / SCENARIO),
    )


class Until:
    """A runner that runs nothing more once the time is over, and whose answers count only if their run was not cut short."""

    def __init__(self, runner: Runner, over: Callable[[], bool]) -> None:
        self._runner = runner
        self._over = over
        self.ended = False

    def replay(self, r: Recording) -> CandidateRun:
        return self._asked(lambda: self._runner.replay(r))

    def prove(self, s: Scenario) -> CandidateRun:
        return self._asked(lambda: self._runner.prove(s))

    def _asked(self, run: Callable[[], CandidateRun]) -> CandidateRun:
        if self._over():
            self.ended = True
            raise BudgetSpent
        ran = run()
        if self._over():
            self.ended = True
            raise BudgetSpent
        return ran


def shrink(
    job: Job,
    open_runner: Callable[[], AbstractContextManager[Runner]],
    watcher: Watcher,
    stop: threading.Event,
    clock: Callable[[], float] = time.monotonic,
) -> Find:
    """Replay and shrink one anomaly; what fails is said in the find.

    Args:
        stop: ends it soon, when another thread sets it.

    Raises:
        OSError: a file cannot be written.
    """
    began, blank = clock(), job.find()
    seconds = job.seconds - job.spent

    def find(found: Find) -> Find:
        return replace(found, seconds=round(job.seconds - seconds + clock() - began, 1))

    if not job.run.path.is_dir():
        return find(replace(blank, reason="the run's folder is gone"))
    with contextlib.ExitStack() as inside:
        try:
            run = on_catalog(failed(job.run, job.anomaly), job.catalog)
            log = inside.enter_context(journal_of(job.into, job.about()))
        except (NothingToShrink, ShrinkError, *TOLD) as e:
            why = " ".join(str(e).split())
            return find(replace(blank, reason=f"it cannot be replayed: {why}" if not job.run.proxy.exists() else why))
        _drop_cut_short(job, log)
        blank = replace(blank, before=len(run.recording.operations), folder=job.into.relative_to(job.night).as_posix())
        blank = replace(blank, goes_on=job.commands.shrink(job))
        inner = inside.enter_context(open_runner())
        until = Until(inner, lambda: stop.is_set() or clock() - began > seconds)
        asked = Trials(until, log, job.into, job.anomaly, Budget(REPLAYS * seconds, clock=clock), watcher, new=run.new)
        try:
            replays = _replays(run, asked, job.replays)
            if replays.runs:
                blank = replace(blank, replays=str(replays))
                watcher.say(f"{job.anomaly} shows again in {replays} replays of the whole run")
            asked.budget = Budget(max(0.0, SEARCH * seconds - (clock() - began)), clock=clock)
            search = Shrink(run, job.into, asked, watcher, tries=TRIES, times=TIMES, rare=replays.failed < replays.runs)
            found = _shrunk(job, search, until, blank)
        except BudgetSpent:
            found = replace(blank, became="spent", reason=TOO_SHORT)
        except TOLD as e:
            return find(replace(blank, reason=" ".join(str(e).split())))
        if (until.ended and stop.is_set()) or (job.by_night and (until.ended or found.became == "spent")):
            return find(replace(found, became="stopped", tries=len(log.lines)))
        return find(replace(found, goes_on=None))


def _drop_cut_short(job: Job, log: Journal[Trial]) -> None:
    """Remove the runs that an earlier session did not bring to their end."""
    kept = {job.into / t.folder for t in log.lines if t.folder is not None}
    for folder in runfolder.runs(job.into / trials.RUNS):
        if folder.path not in kept:
            soakfolder.remove(folder.path)


def _replays(run: Failed, asked: Trials, times: int) -> Tries:
    """How often replays of the whole run show it: as many as are asked for, or as the time allows."""
    whole, shows, made = plain(run.recording), 0, 0
    if whole is None:
        return Tries()
    for n in range(times):
        try:
            shows += asked.once(whole, n).failed
        except BudgetSpent:
            if not made:
                raise
            break
        made += 1
    return Tries(shows, made)


def _shrunk(job: Job, search: Shrink, until: Until, blank: Find) -> Find:
    """Shrink it; write page, scenario and recording into its folder."""
    rest, minimal, scenario = search.shrink()
    proves = job.commands.prove(job, job.into / SCENARIO)
    replays = job.commands.replay(job, job.into / RECORDING)
    goes_on = job.commands.shrink(job)
    result = shrunk(search, rest, minimal, scenario, proves=proves, replays=replays, goes_on=goes_on)
    render.write(shown.of(result), job.into)
    reason = "; ".join(result.not_said)
    if (until.ended or search.spent) and rest is None:
        return replace(blank, became="spent", reason=TOO_SHORT, command=goes_on)
    if result.after is None or not result.shown:
        return replace(blank, became="not shown", reason=reason, command=goes_on)
    folder = job.into.relative_to(job.night).as_posix()
    best = [t for t in search.trials if t.failed]
    also = {x for x in (best[-1].found if best else ()) if x != job.anomaly}
    return replace(
        blank,
        became="shrunk",
        also=tuple(sorted(also)),
        operations=result.after.operations,
        writers=result.after.writers,
        reproduced=result.reproduced or result.replayed,
        rate=result.rate,
        scenario=None if result.scenario is None else f"{folder}/{result.scenario}",
        recording=None if result.recording is None else f"{folder}/{result.recording}",
        command=result.command,
        reason=reason or ("" if minimal else "the budget ended before it was seen whether more can be taken away"),
    )
