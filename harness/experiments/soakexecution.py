"""How a night executes what may never end: on the warm stack of its cell, within bounds, and apart, so that it can be left alone."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from checkers.evidence.runfolder import RunFolder
from compose.redaction import secrets_of
from harness.campaign.errors import is_full
from harness.campaign.stacks import STACK_RUNS, Key, Lease, StackError, WarmStacks, secrets_of_files
from harness.campaign.task import Task
from harness.experiments.soakstacks import Start, WarmStack, kill_marked, sparks
from harness.experiments.soakturns import MOST_TRIES, NightTurns
from harness.run.errors import RunError
from harness.run.judged import Judge, JudgedRun, Publish
from harness.run.resolve import SuiteFile
from harness.run.settings import Watcher
from workloads.file.suite import Cell

MOST_LEFT = 3
"""So many runs that end in no way end the soak, because each of them still takes memory and time."""


@dataclass(frozen=True)
class TimeLimits:
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


@dataclass
class Execution:
    """The stacks of a night, of which one is up, and what goes on there.

    Args:
        logs: the folder of all logs.
        start: starts a stack; ``judge``: checks a run's folder and publishes what it found.

    Attributes:
        given_up: catalog and release → why their stack is no longer tried.
        unfinished: how many runs ended in no way.
        tried: the logs of the stack that was started last.
        closed: the logs of stacks that were closed.
        going: what runs on the stack.
    """

    file: SuiteFile
    logs: Path
    watcher: Watcher
    publish: Publish[object]
    start: Start
    judge: Judge
    bounds: TimeLimits
    given_up: dict[Key, str] = field(default_factory=dict)
    unfinished: int = 0
    tried: Path | None = None
    closed: list[Path] = field(default_factory=list)
    going: Task[Any] | None = None

    def __post_init__(self) -> None:
        hidden = secrets_of_files({self.file.catalog_of(c) for c in self.file.cells})
        hidden += [s for w in self.file.workloads.values() for s in secrets_of(w.catalog_properties)]
        self.stacks: WarmStacks[WarmStack] = WarmStacks(
            self._start,
            self.logs,
            self.watcher.say,
            runs=STACK_RUNS,
            tries=None,
            secrets=hidden,
            ended=self.closed.append,
        )

    @property
    def up(self) -> tuple[Key, WarmStack] | None:
        """The stack that is up, with its catalog and release; None if there is none."""
        return next(iter(self.stacks.up), None)

    def lease(self, cell: Cell, turns: NightTurns, counts: Mapping[Cell, int]) -> Lease[WarmStack]:
        """A seat on the stack of a cell; ``counts``: runs of each cell.

        Raises:
            StackError: it does not come up.
            OSError: the disk is full.
        """
        if self.up is None and turns.all_wait:
            threading.Event().wait(self.bounds.retry)  # a signal ends it
        try:
            lease = self.stacks.lease(cell.stack)
        except Exception as e:
            if is_full(e):
                raise
            reason = f"the stack of {' '.join(cell.stack)} does not come up: {' '.join(str(e).split())}"
            if turns.failed(cell.stack, counts):
                self.given_up[cell.stack] = reason
                reason += f"; given up after {MOST_TRIES} times"
            raise StackError(reason) from e
        turns.came_up(cell.stack)
        return lease

    def _start(self, key: Key, logs: Path, _: WarmStack | None) -> contextlib.closing[WarmStack]:
        self.tried = logs
        own = {c: w for c, w in self.file.workloads.items() if c.stack == key}
        cell, writers = next(iter(own)), max(map(sparks, own.values()))
        stack = (self.file.catalog_of(cell), *key[1:])
        return contextlib.closing(self.start(stack, writers, logs, self.watcher))

    def late(self, task: Task[Any], limit: float, lease: Lease[WarmStack], name: str) -> str | None:
        """Have a task done on a leased stack; one that takes too long is stopped, then its stack is killed, then it is left alone.

        Returns:
            What had to be done; None: it ended in time.
        """
        self.going = task
        late = None
        if not task.ends(limit):
            late = f"it did not end within {limit:.0f} s and was stopped"
            self.watcher.say(f"{name}: {late}")
            task.stop.set()
            if not task.wait(self.bounds.ending):
                late = f"it did not end within {limit:.0f} s, nor when it was stopped; its stack was killed"
                self.watcher.say(f"{name}: {late}")
                lease.end()
                kill_marked()
                if not task.wait(self.bounds.killed):
                    self.unfinished += 1
                    late += "; what is left of it was left alone"
        self.going = None
        return late

    def judged(self, folder: RunFolder) -> JudgedRun[object]:
        """What the checkers say of a run. Raises RunError: they do not end in time; and what they raise."""
        task = Task(f"judgement of {folder.path.name}", lambda: self.judge(folder, self.publish))
        if not task.ends(self.bounds.judging):
            self.unfinished += 1
            raise RunError(f"not within {self.bounds.judging:.0f} s")
        return task.result()
