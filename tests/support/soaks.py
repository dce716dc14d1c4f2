"""A soak without Spark: its stacks put the evidence of a recorded run into the folder of each run, so that the real checkers judge it."""

from __future__ import annotations

import hashlib
import json
import shutil
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from checkers.coverage.pair import Pair
from checkers.evidence.evidence import Evidence
from checkers.evidence.runfolder import RunFolder, identity
from checkers.judge.runfolder import write_results
from checkers.nights.record import NightRun
from compose.endpoints import Endpoints
from compose.processes.service import ServiceError
from harness.cli.publish import publish
from harness.cli.soak import after_shrink, repeating
from harness.experiments.soak import Soak
from harness.experiments.soakexecution import TimeLimits
from harness.experiments.soakorder import SoakPlan
from harness.run.judged import JudgedRun, Publish, judge_run
from harness.run.resolve import SuiteFile, read_suite
from harness.run.settings import Watcher
from workloads.file.suite import Cell
from workloads.file.workload import Workload

SUITE = """\
suite: tiny
length: 1s
for: 1h
cells:
  workloads: [contention, quick]
  catalogs: [rest, jdbc]
  faults: [none, lost-acks]
  writers: [2]
known:
  - {anomaly: lost-commit, catalog: jdbc, link: "https://github.com/apache/iceberg/pull/10140", runs: 3}
keep: 1GB
free: 1MB
shrink: false
"""

QUICKLY = TimeLimits(around=30, ending=5, killed=5, judging=120, interrupted=20, retry=0.01, sample=0.05)


def suite_file(folder: Path, text: str = SUITE) -> SuiteFile:
    """The suite of a text, as it is read from a file."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "tiny.yaml"
    path.write_text(text)
    return read_suite(path)


@dataclass
class Recorded:
    """The stacks of a soak: each of its runs leaves the evidence of one that was recorded.

    Args:
        run: the folder of the recorded run.
        wrong: (cell, number) → whether a read of the run lacks a row, which is a fractured read.
        act: called before the evidence is there, with the run's event to stop: it may raise, or wait.
        down: stacks that do not come up, and how often.
        told: what was started, run and closed; ``up``: stacks that are up; ``nights``: that the plans of the runs name.
    """

    run: Path
    wrong: Callable[[Cell, int], bool] = lambda cell, number: False
    act: Callable[[Cell, int, threading.Event], None] = lambda cell, number, stop: None
    down: dict[tuple[str, str], int] = field(default_factory=dict)
    told: list[str] = field(default_factory=list)
    up: int = 0
    nights: list[str] = field(default_factory=list)

    def start(self, stack: tuple[str, str], writers: int, logs: Path, watcher: Watcher) -> OnRecorded:
        """As :data:`harness.experiments.soakstacks.Start`."""
        self.told.append(f"start {'/'.join(stack)} {writers}")
        if self.down.get(stack, 0):
            self.down[stack] -= 1
            raise ServiceError(stack[0], "does not answer")
        (logs / "server.log").write_text("a server\n")
        self.up += 1
        return OnRecorded(self, stack)


@dataclass
class OnRecorded:
    """A stack that is up."""

    of: Recorded
    stack: tuple[str, str]
    closed: threading.Event = field(default_factory=threading.Event)

    def run(
        self,
        workload: Workload,
        folder: RunFolder,
        *,
        seed: int,
        command: str,
        stop: threading.Event,
        about: Mapping[str, Any],
        seen: Mapping[Pair, int],
    ) -> None:
        """Copy the recorded run, with this run's plan."""
        cell, number = Cell.from_json(about["soak"]["cell"]), about["soak"]["number"]
        assert cell.stack == self.stack == (workload.catalog, "1.12.0") and not self.closed.is_set()
        self.of.told.append(f"run {cell.name} {number}")
        self.of.nights.append(about["night"])
        put(self.of.run, folder, cell, number, seed, command, "running")
        self.of.act(cell, number, stop)
        if self.of.wrong(cell, number):
            spoil(folder)
        folder.write_state({**folder.state(), "state": "interrupted" if stop.is_set() else "complete"})

    def close(self) -> None:
        """End it."""
        if not self.closed.is_set():
            self.of.up -= 1
            self.of.told.append(f"close {'/'.join(self.stack)}")
        self.closed.set()

    @property
    def endpoints(self) -> Endpoints:
        """Where nothing answers."""
        return Endpoints(
            "http://s3:1", "a", "b", "r", "bucket", "rest", "http://catalog:2", "s3://bucket/w", "local[1]"
        )

    @property
    def sockets(self) -> tuple[Path, ...]:
        """None."""
        return ()


def put(run: Path, folder: RunFolder, cell: Cell, number: int, seed: int, command: str, state: str) -> None:
    """Put a recorded run into a folder, as the run of a cell in a state."""
    plan = yaml.safe_load((run / "plan.yaml").read_text())
    plan |= {"seed": seed, "command": command, "soak": {"cell": cell.to_json(), "number": number}}
    plan["catalog"] = {"name": cell.catalog}
    # Its state is there before its plan: whoever is killed in between leaves no run that seems complete.
    folder.write_state({**json.loads((run / "run.json").read_text()), **identity(), "state": state})
    left_out = shutil.ignore_patterns("run.json", "plan.yaml", folder.results.name)
    shutil.copytree(run, folder.path, dirs_exist_ok=True, ignore=left_out)
    folder.plan.write_text(yaml.safe_dump(plan))


def spoil(folder: RunFolder) -> None:
    """Take a row from what a read saw."""
    lines = folder.history.read_text().splitlines()
    for n, line in enumerate(lines):
        event = json.loads(line)
        if event.get("type") == "ok" and event.get("f") == "read" and event.get("value"):
            event["value"] = event["value"][1:]
            lines[n] = json.dumps(event)
            break
    else:
        raise AssertionError("the recorded run has no read")
    folder.history.write_text("\n".join(lines) + "\n")


class Heard:
    """Keeps what was said."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def say(self, text: str) -> None:
        """Keep it."""
        self.said.append(text)

    def progress(self, done: int, total: int | None) -> None:
        """Nothing."""

    def lasts(self, seconds: float | None) -> None:
        """Nothing."""


def page_alone(folder: RunFolder, evidence: Evidence) -> object:
    """A page that says nothing: those of runs have tests of their own."""
    folder.report.write_text("a page")
    return None


_JUDGED: dict[tuple[str, str], JudgedRun[object]] = {}
"""History and state of a run → what the checkers said of it: they say the same of the same bytes."""


def judged_once(folder: RunFolder, publish: Publish[object]) -> JudgedRun[object]:
    """As ``judge_run``, which judges the recorded run once in each of its states instead of once in each run of a night."""
    key = (hashlib.sha256(folder.history.read_bytes()).hexdigest(), str(folder.state().get("state")))
    if key not in _JUDGED:
        _JUDGED[key] = judge_run(folder, publish)
    found = _JUDGED[key]
    write_results(found.results, folder.results)
    publish(folder, found.evidence)
    return found


def soak(
    file: SuiteFile,
    into: Path,
    stacks: Recorded,
    *,
    runs: int | None = None,
    seed: int = 1,
    lasts: float | None = None,
    heard: Watcher | None = None,
    whole_page: bool = False,
    clock: Callable[[], float] = time.monotonic,
    said: Callable[[NightRun], None] = lambda line: None,
    bounds: TimeLimits = QUICKLY,
    **changed: Any,
) -> Soak:
    """A soak on such stacks."""
    suite = file.suite.model_copy(update={"shrink": None, **changed})
    order = SoakPlan(file, suite, seed, repeating(file), lasts, runs, commands=after_shrink())
    made = publish if whole_page else page_alone
    judge = judge_run if whole_page else judged_once
    return Soak(order, into, heard or Heard(), made, stacks.start, judge, bounds, clock, said)
