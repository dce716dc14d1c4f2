"""Campaigns on a fake bench: it starts one marked process, and each run leaves the evidence of a recorded one."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import subprocess
import threading
import time
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import yaml

from checkers.conflicts import predicted
from checkers.conflicts.measured import MeasuredResult, NotMeasured, OperationEnd
from checkers.costs.comparison import Contender
from checkers.evidence.runfolder import RunFolder
from checkers.selftest import recorded
from compose.install.installation import Installation
from compose.processes.watchdog import Watchdog, marked_environment
from harness.campaign.campaign import Done, JobAttempt
from harness.campaign.stacks import Key, WarmStacks
from harness.experiments import compare, matrix, prove, sweep, timetofind
from harness.experiments.shrink.log import journal_of
from harness.experiments.shrink.shrink import Shrink, failed
from harness.experiments.shrink.trials import Budget, CandidateRun, Runner, Trials
from harness.experiments.soakfinds import Job
from harness.run.resolve import read_defect, read_scenario
from harness.run.settings import Settings, Watcher
from tests.harness.experiments.shrink.byrule import ByRule, needs_both
from tests.support import soaks
from tests.support.runs import Silent
from tests.support.soaks import judged_once, page_alone, put, spoil
from workloads.file import defect as defects
from workloads.file import scenario as scenarios
from workloads.file.anomalies import entries_of
from workloads.file.mode import QUICK, Mode
from workloads.file.recording import Recording
from workloads.file.scenario import Scenario
from workloads.file.suite import Cell, Shrinking
from workloads.file.workload import Workload

RUN_S = 0.02
"""Seconds of a run: enough that a kill can come in the middle of it."""
PREFIX = f"fake-bench-{os.getpid()}-"
"""With which the mark of a fake bench of this process, and of those that it forks, begins: others test beside it."""

FINDS = """\
suite: finds
length: 1s
for: 1h
cells: {workloads: quick, catalogs: rest, faults: none, writers: 2}
free: 1MB
"""
REST, JDBC = Contender("rest", "1.12.0"), Contender("jdbc", "1.12.0")
SPEC = Workload.model_validate(
    {"workload": "small", "tables": [{"name": "t"}], "length": {"ops": 3}, "operations": {"insert": 1}}
)


@contextlib.contextmanager
def marked_process() -> Iterator[None]:
    """A process with the mark of a run, which the watchdog ends with this one, as a bench has them."""
    run_id = PREFIX + secrets.token_hex(6)
    watchdog = Watchdog(run_id)
    watchdog.start()
    child = subprocess.Popen(["sleep", "600"], env=marked_environment(dict(os.environ), run_id))
    try:
        yield
    finally:
        child.kill()
        child.wait()
        watchdog.close()


def recorded_in(place: Path, name: str = "quick-120") -> Path:
    """The folder of a recorded run."""
    with zipfile.ZipFile(Path(recorded.__file__).with_name("recorded") / f"{name}.zip") as z:
        z.extractall(place)
    return place


def run_of(source: Path, folder: RunFolder, catalog: str, seed: int) -> None:
    """What a run leaves."""
    time.sleep(RUN_S)
    put(source, folder, Cell("quick", catalog, "none", "1.12.0", ""), 0, seed, "icequake run quick", "complete")


def order(contenders: tuple[Contender, ...] = (REST, JDBC), seeds: int = 4) -> compare.ComparisonPlan:
    return compare.ComparisonPlan(SPEC, contenders, tuple(range(seeds)), lambda c, s: f"icequake run {c.catalog} {s}")


@dataclass
class FakeCompare(compare.Compare):
    """A comparison whose runs leave a recorded one, each on a stack of its own.

    Attributes:
        act: called before a run's evidence is there: it may raise.
    """

    source: Path = Path()
    act: Callable[[Contender, int], None] = lambda contender, seed: None

    def _execute(
        self, c: Contender, w: Workload, folder: RunFolder, i: Installation, settings: Settings, said: Watcher
    ) -> None:
        with marked_process():
            self.act(c, settings.seed)
            run_of(self.source, folder, c.catalog, settings.seed)

    def _installation(self, contender: Contender) -> Installation:
        return Installation.__new__(Installation)


@dataclass
class FakeSweep(sweep.Sweep):
    """A sweep whose warm stacks are one marked process each.

    Attributes:
        act: called before a run's evidence is there: it may raise.
        down: how often the next starts of a stack fail after its process is there.
        up: stacks that are up; ``most``: at the same time.
    """

    source: Path = Path()
    act: Callable[[str, int], None] = lambda catalog, seed: None
    down: int = 0
    up: int = 0
    most: int = 0

    @contextlib.contextmanager
    def _warm(self, key: Key, logs: Path, _: Any) -> Iterator[Any]:
        with marked_process(), self._counted():
            if self.down:
                self.down -= 1
                raise ZeroDivisionError("the load to warm up")
            yield key[0]

    @contextlib.contextmanager
    def _counted(self) -> Iterator[None]:
        self.up += 1
        self.most = max(self.most, self.up)
        try:
            yield
        finally:
            self.up -= 1

    def _on_warm(
        self, warm: Any, w: Workload, folder: RunFolder, i: Installation, settings: Settings, said: Watcher
    ) -> None:
        self.act(warm, settings.seed)
        run_of(self.source, folder, warm, settings.seed)

    def _installation(self, contender: Contender) -> Installation:
        return Installation.__new__(Installation)


@dataclass
class OnFake:
    """Runs the candidates of a shrink, on a warm stack that is one marked process."""

    inner: Runner
    stacks: WarmStacks[None]

    def replay(self, r: Recording) -> CandidateRun:
        """A run of a recording."""
        with self.stacks.lease(("rest",)):
            return self.inner.replay(r)

    def prove(self, s: Scenario) -> CandidateRun:
        """A run of a scenario."""
        with self.stacks.lease(("rest",)):
            return self.inner.prove(s)


@dataclass
class Slow:
    """A runner of the candidates of a shrink whose runs take a moment."""

    inner: ByRule

    def replay(self, r: Recording) -> CandidateRun:
        """A run of a recording."""
        time.sleep(RUN_S)
        return self.inner.replay(r)

    def prove(self, s: Scenario) -> CandidateRun:
        """A run of a scenario."""
        time.sleep(RUN_S)
        return self.inner.prove(s)


@dataclass
class Marked(soaks.Recorded):
    """The stacks of a soak, each with one marked process."""

    inside: dict[int, contextlib.ExitStack] = field(default_factory=dict)

    def start(self, stack: tuple[str, str], writers: int, logs: Path, watcher: Watcher) -> soaks.OnRecorded:
        found = super().start(stack, writers, logs, watcher)
        inside, close = contextlib.ExitStack(), found.close
        inside.callback(close)
        inside.enter_context(marked_process())
        found.close = inside.close  # type: ignore[method-assign]
        return found


@dataclass
class OnMarked:
    """A warm stack of a time to find, with one marked process; runs with a seed that can be divided by three find the defect."""

    source: Path
    inside: contextlib.ExitStack

    def run(self, workload: Workload, folder: RunFolder, *, seed: int, command: str, seen: Any) -> None:
        """Copy the recorded run."""
        run_of(self.source, folder, workload.catalog, seed)
        if seed % 3 == 0:
            spoil(folder)

    def close(self) -> None:
        """End it."""
        self.inside.close()


@dataclass
class FakeBench:
    """A bench of one marked process, with two seats; its runs leave a recorded run of a scenario. ``act`` may raise."""

    source: Path
    act: Callable[[str], None] = lambda name: None
    catalog: str = "rest"
    secrets: tuple[str, ...] = ()
    mode: Mode = QUICK
    guard: str = ""
    groups: Sequence[Any] = (SimpleNamespace(board=None),) * 2
    inside: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)

    def __enter__(self) -> FakeBench:
        self.inside.enter_context(marked_process())
        return self

    def __exit__(self, *_: object) -> None:
        self.inside.close()

    def run(self, workload: Workload, folder: RunFolder, *_: object, about: Any, **__: object) -> None:
        """Copy the recorded run."""
        time.sleep(RUN_S)
        self.act(workload.workload)
        shutil.copytree(self.source, folder.path, dirs_exist_ok=True)
        plan = yaml.safe_load(folder.plan.read_text())
        folder.plan.write_text(yaml.safe_dump({**plan, **about}))


class Unscripted:
    """In place of a scenario's script: a recorded run needs none."""

    def __init__(self, scenario: Scenario, board: object, stop: threading.Event) -> None:
        self.operations = self.launched = None

    def __enter__(self) -> Unscripted:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def problems(self) -> list[str]:
        """None."""
        return []


class FakeMatrix(matrix.Matrix):
    """A matrix on such a bench, of which all operations commit; ``act`` may raise."""

    act: Callable[[Sequence[predicted.MatrixCell]], None] = staticmethod(lambda cells: None)

    def _start(self, key: Key, logs: Path, below: Any) -> Any:
        return FakeBench(Path())

    def _run(self, cells: Sequence[predicted.MatrixCell], attempt: JobAttempt) -> Done[MeasuredResult | NotMeasured]:
        with self._stacks.lease(self._key):
            time.sleep(RUN_S)
            self.act(cells)
        return Done(
            [MeasuredResult(c, OperationEnd("committed", 1), OperationEnd("committed", 1), True) for c in cells]
        )


# --- one session of each kind, and what it came to --------------------------------------------------------------------


def soaked(source: Path, into: Path) -> object:
    """A night of sixteen runs; (cell, number) → how it ended."""
    file = soaks.suite_file(into.parent)
    stacks = Marked(
        source,
        lambda cell, number: cell.faults == "none" and number == 1,
        lambda cell, number, stop: time.sleep(RUN_S),
    )
    with soaks.soak(file, into, stacks, runs=16) as whole:
        lines = whole.go().lines
    return sorted((x.cell.name, x.number, x.seed, x.ended, dict(x.anomalies)) for x in lines if x.counts)


def found(source: Path, into: Path) -> object:
    """A night of three runs whose anomaly is replayed and shrunk; how the runs ended, and what became of the anomaly."""

    def opened(job: Job, lease: Any, *_: object) -> Any:
        return contextlib.nullcontext(Slow(ByRule(job.into, source, needs_both)))

    file = soaks.suite_file(into.parent, FINDS)
    with soaks.soak(file, into, Marked(source), runs=3, shrink=Shrinking(budget=600, replays=2)) as whole:
        whole.open_runner = opened
        night = whole.go()
    lines = sorted((x.number, x.seed, x.ended) for x in night.lines if x.counts)
    return lines, [(f.anomaly, f.became, f.operations, f.writers, f.replays, f.reproduced) for f in night.finds]


def compared(source: Path, into: Path) -> object:
    """A comparison of two catalogs, two runs at a time; contender and seed → its verdict."""
    whole = FakeCompare(
        replace(order(), parallel=2), into, into / "store", Silent(), page_alone, judged_once, source=source
    )
    return _verdicts(whole.measure())


def swept(source: Path, into: Path) -> object:
    """A sweep of two catalogs; the same."""
    whole = FakeSweep(order(), into, into / "store", Silent(), page_alone, judged_once, source=source)
    return _verdicts(whole.measure())


def _verdicts(c: Any) -> object:
    runs = [(r.contender.catalog, r.seed, None if r.measures is None else r.measures.valid, r.reason) for r in c.runs]
    return sorted(runs)


def searched(source: Path, into: Path) -> object:
    """Searches for two defects by two orders; what is the same each time."""
    names = ("hadoop-lost-update", "jdbc-lost-ack")
    plain = [read_defect(defects.find(name)) for name in names]
    found = entries_of("stale-read", "fractured-read")
    sought = [d.model_copy(update={"found": found, "tables_of": ()}) for d in plain]

    def start(key: Any, writers: int, logs: Path, watcher: Watcher) -> OnMarked:
        inside = contextlib.ExitStack()
        inside.enter_context(marked_process())
        return OnMarked(source, inside)

    asked = timetofind.SearchPlan(tuple(sought), ("free", "coverage"), (1, 2, 3), 1e6, lambda d, s, o: f"find {s}")
    whole = timetofind.TimeToFind(asked, into, Silent(), page_alone, start, judged_once)
    return [(s.defect, s.order, s.seed, s.found, s.runs, s.operations, s.reason) for s in whole.measure()]


def proven(source: Path, into: Path) -> object:
    """Scenarios of two catalogs, twice each; what is the same each time."""
    one = read_scenario(scenarios.LIBRARY / "undelete.yaml")
    named = [(name, catalog) for catalog in ("rest", "jdbc") for name in ("one", "two", "three")]
    every = [one.model_copy(update={"scenario": name + catalog, "catalog": catalog}) for name, catalog in named]
    with (
        mock.patch.object(prove, "ScenarioScript", Unscripted),
        mock.patch.object(prove, "Bench", lambda *_, **__: FakeBench(source)),
        mock.patch.object(prove, "judge_run", judged_once),
        mock.patch.object(prove, "versions", lambda _: {"iceberg": "1.12.0"}),
    ):
        installation = Installation.__new__(Installation)
        proofs, _ = prove.prove(every, installation, into / "store", Silent(), page_alone, times=2, into=into)
    return [(p.scenario, p.state, p.why, sorted(p.found)) for p in proofs]


def crossed(source: Path, into: Path) -> object:
    """A matrix of a hundred cells; each cell with its outcome."""
    cells = list(predicted.on("requirements", predicted.cells()))[:100]
    with mock.patch.object(matrix, "versions", lambda _: {"iceberg": "1.12.0"}):
        found = FakeMatrix(cells, into, Installation.__new__(Installation), Silent()).measure()
    return sorted(str(m.to_json()) for m in found.measured), len(found.could_not)


def shrunk(source: Path, into: Path) -> object:
    """A shrink; the operations that are left, and how many candidates had to be run."""
    run = failed(RunFolder(source), None)
    logs = into / "logs"
    start: Callable[..., Any] = lambda key, logs, below: marked_process()  # noqa: E731
    with journal_of(into, {"run": "r"}) as log, WarmStacks[None](start, logs, lambda _: None) as stacks:
        runner = OnFake(Slow(ByRule(into, source, needs_both)), stacks)
        trials = Trials(runner, log, into, run.name, Budget(), Silent())
        recording, minimal, found = Shrink(run, into, trials, Silent(), tries=1, times=3).shrink()
    assert recording is not None
    return [o.f for o in recording.operations], minimal, str(found.tries), len(log.lines)


KINDS: dict[str, tuple[Callable[[Path, Path], object], str]] = {
    "soak": (soaked, "runs.jsonl"),
    "finds": (found, "runs.jsonl"),
    "compare": (compared, "runs.jsonl"),
    "sweep": (swept, "runs.jsonl"),
    "time-to-find": (searched, "searches.jsonl"),
    "prove": (proven, "proofs.jsonl"),
    "matrix": (crossed, "cells.jsonl"),
    "shrink": (shrunk, "shrink.jsonl"),
}
"""Kind → one session of it, and its journal."""
OF_SCENARIOS = ("shrink", "prove", "finds")
"""Kinds whose runs are like that of a scenario."""
