"""The conductor: begins and ends the faults of a run's schedule, writes them into the history, and heals before the final reads.

A fault is two events of the process ``nemesis``, both ``info``: ``start-<name>`` describes the fault; ``stop-<name>`` names the processes
that it struck, or counts the requests that it struck, by kind, and how often it found no target. The last event is ``heal``.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import psutil

from checkers.evidence.history import NEMESIS
from checkers.evidence.recorder import Recorder
from compose.processes.service import Service, ServiceError
from harness.run.context import RunContext
from harness.run.ordering import Ordering
from harness.run.settings import REPLACE_TRIES, WRITER_START_S
from harness.writers.slot import DriverProcess, WriterSlot
from nemesis.faults.fault import Fault
from nemesis.faults.schedule import PlannedFault, schedule
from nemesis.faults.suspects import ACT_SECONDS, READY_SECONDS, NoTarget
from nemesis.faults.verb import PacketVerb
from nemesis.processes import Processes
from nemesis.proxy.board import Board
from workloads.engines.engines import SPARK

HEAL_TRIES = 3
"""A service that comes up may fail once by what the fault left behind; if it goes on failing, the run has to end."""
PROCESS_END_S = ACT_SECONDS + HEAL_TRIES * (ACT_SECONDS + READY_SECONDS)
"""Seconds within which undoing a fault of a process succeeds or fails: stop the process, then per try start it and wait for its answer."""


class Conductor:
    """One thread; Call ``start`` when the first phase begins and ``heal`` after the last one. ``heal`` raises the errors of the thread.

    Args:
        plan: the schedule.
        maintain: has a writer of the nemesis perform an operation and returns its outcome; None if it could not, or there is no such writer.
        stop: set by other threads to end the run.
        longest_maintenance: seconds within which ``maintain`` returns.
        began: called when a fault has begun; before the operation of one of maintenance.

    Attributes:
        longest_end: seconds within which an active fault ends by itself; a fault of connections ends at once.
    """

    def __init__(
        self,
        plan: Iterable[PlannedFault],
        board: Board,
        processes: Processes,
        recorder: Recorder,
        say: Callable[[str], None],
        maintain: Callable[[Fault], str | None] | None,
        stop: threading.Event,
        longest_maintenance: float = 0.0,
        began: Callable[[], object] = lambda: None,
    ) -> None:
        self._plan = plan
        self._board = board
        self._processes = processes
        self._recorder = recorder
        self._say = say
        self._maintain = maintain
        self._stopped = stop
        self._began = began
        self.longest_end = max(PROCESS_END_S, longest_maintenance)
        self._enough = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="nemesis", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def heal(self) -> None:
        """End the active fault and wait until all services answer.

        Raises:
            ServiceError: a service does not come back.
        """
        self._enough.set()
        if self._thread.is_alive():
            self._thread.join(self.longest_end)
        self._board.heal()
        if self._error is not None:
            raise self._error
        if self._thread.is_alive():
            raise ServiceError("nemesis", f"its last fault did not end within {self.longest_end:.0f} s")
        with contextlib.suppress(OSError):
            self._recorder.record("info", NEMESIS, "heal")

    def _run(self) -> None:
        try:
            for planned in self._plan:
                if self._over(planned.pause):
                    return
                self._strike(planned)
        except BaseException as e:
            self._error = e
            self._stopped.set()

    def _over(self, seconds: float) -> bool:
        """Wait; True if the conductor is to stop."""
        ends = time.monotonic() + seconds
        while (remaining := ends - time.monotonic()) > 0:
            if self._enough.wait(min(remaining, 0.2)) or self._stopped.is_set():
                return True
        return self._enough.is_set() or self._stopped.is_set()

    def _strike(self, planned: PlannedFault) -> None:
        fault = planned.fault
        if fault.verb == "maintain":
            self._maintenance(fault)
        elif fault.on_connections:
            self._begins(fault)
            self._connections(planned, fault)
        elif isinstance(fault.action, PacketVerb):
            self._begins(fault)
            try:
                stands_in = self._processes.by_proxies(fault)
            except (NoTarget, ServiceError) as e:
                self._say(f"nemesis: {fault.name}: {e}")
                return self._ends(fault, hits={"process": 0}, missed=1)
            if stands_in is None:
                self._process(planned)
            else:
                self._connections(planned, stands_in)
        else:
            self._begins(fault)
            self._process(planned)

    def _connections(self, planned: PlannedFault, carried_out: Fault) -> None:
        armed = self._board.arm(carried_out)
        self._began()
        self._over(planned.duration)
        self._board.end(armed)
        self._ends(planned.fault, hits=dict(armed.hits), missed=armed.missed)

    def _process(self, planned: PlannedFault) -> None:
        fault = planned.fault
        struck, missed = None, 1
        try:
            struck, undo = self._processes.strike(fault)
            missed = 0
        except (NoTarget, ServiceError, psutil.Error) as e:
            self._say(f"nemesis: {fault.name}: {e}")
        else:
            self._began()
            self._over(planned.duration if fault.action.lasts else 0)
            self._undo(undo)
        self._ends(fault, hits={"process": 1 - missed}, missed=missed, **({"struck": struck} if struck else {}))

    def _undo(self, undo: Callable[[], None]) -> None:
        for attempt in range(HEAL_TRIES):
            try:
                return undo()
            except ServiceError:
                if attempt == HEAL_TRIES - 1:
                    raise

    def _maintenance(self, fault: Fault) -> None:
        self._begins(fault)
        self._began()
        how = None if self._maintain is None else self._maintain(fault)
        self._ends(fault, hits={"operation": int(how is not None)}, missed=int(how is None), outcome=how)

    def _begins(self, fault: Fault) -> None:
        self._say(f"nemesis: {fault.name}")
        self._recorder.record(
            "info", NEMESIS, f"start-{fault.slug}", value={"name": fault.name, "fault": fault.plain()}
        )

    def _ends(self, fault: Fault, **what: Any) -> None:
        self._recorder.record("info", NEMESIS, f"stop-{fault.slug}", value={"name": fault.name, **what})


def drivers_of(
    slots: Sequence[WriterSlot], engines: Sequence[str], warm: Sequence[Callable[[], DriverProcess | None]]
) -> list[Callable[[], DriverProcess | None]]:
    """For each writer a function that returns its driver process: its own, or the warm one that it began with; None if it has none of ours.

    Args:
        warm: the warm drivers; the n-th belongs to the n-th writer of Spark's.
    """

    def driver(slot: WriterSlot, first: Callable[[], DriverProcess | None] | None) -> DriverProcess | None:
        own = slot.driver()
        return first() if own is None and first is not None and slot.replacements == 0 else own

    found: list[Callable[[], DriverProcess | None]] = []
    for n, slot in enumerate(slots):
        rank = engines[:n].count(SPARK)
        first = warm[rank] if engines[n] == SPARK and rank < len(warm) else None
        found.append(partial(driver, slot, first))
    return found


def conductor_of(
    run: RunContext,
    board: Board | None,
    services: Mapping[str, Service],
    slots: Sequence[WriterSlot],
    recorder: Recorder,
    maintain: Callable[[Fault], str | None] | None,
    order: Ordering | None = None,
) -> Conductor | None:
    """The conductor for ``nemesis:`` of the workload; None if the workload has none. ``order`` may decide about the faults, too."""
    nemesis = run.workload.nemesis
    if nemesis is None or board is None:
        return None
    seed, writers = run.settings.seed, run.workload.writers
    plan = schedule(nemesis.all(), nemesis.interval, nemesis.duration, run.workload.engines, seed)
    return Conductor(
        order.schedule() if order is not None and order.own_faults else plan,
        board,
        Processes(services, drivers_of(slots[:writers], run.workload.engines, run.settings.drivers), seed),
        recorder,
        run.say,
        maintain,
        run.settings.stop,
        run.workload.op_timeout + REPLACE_TRIES * WRITER_START_S if run.maintains else 0.0,
        (lambda: None) if order is None else order.began,
    )
