"""The phases of a run: each writer has one thread that draws the next operation, has it executed and records it."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from typing import Any

from checkers.evidence import error_chain
from checkers.evidence.history import ErrorChain, Event, EventType
from checkers.evidence.outcome import STOPPED
from checkers.evidence.recorder import Recorder
from checkers.timeline.unreadable import Watch, file_words, reads_rows
from compose.processes.watchdog import Watchdog
from harness.run import disk
from harness.run.context import RunContext
from harness.run.errors import RunError
from harness.run.ordering import Ordering
from harness.run.settings import REPLACE_TRIES, Watcher
from harness.tablefiles.follower import Follower
from harness.writers.driver import CATALOG
from harness.writers.slot import (
    WriterDied,
    WriterError,
    WriterSlot,
    WriterTimeout,
    guest_request,
    outcome,
    request,
)
from nemesis.faults.fault import Fault
from nemesis.proxy.board import Board
from workloads import generator
from workloads.engines.engine import Engine, Foreign, Pooled
from workloads.engines.engines import ENGINES, SPARK
from workloads.engines.engines import in_words as writers_in_words
from workloads.file.workload import Phase, Workload
from workloads.generator import PlannedOperation
from workloads.operations.kind import Draw
from workloads.operations.kinds import KINDS
from workloads.tables import TableSpec

MOST_QUOTED = 500
"""Characters of an exception in an error message."""


class PhaseProgress:
    """Counts completed operations, and tells the watcher how far the phases are; filling the tables and the final reads are not a phase.

    If all phases are limited alike, by operations or by time, the watcher is told of all of them together, else of one after the other.

    Attributes:
        done: all completed operations of the run.
    """

    def __init__(self, watcher: Watcher, workload: Workload) -> None:
        self._watcher = watcher
        lengths = [p.length for p in workload.resolved_phases()]
        ops, times = [x.ops for x in lengths if x.ops], [x.time for x in lengths if x.time]
        self._all_ops = sum(ops) if not times else None
        self._all_seconds = sum(times) if not ops else None
        self._total: int | None = None
        self._in: str | None = None
        self._counted = 0
        self.done = 0

    def begins(self, phase: Phase) -> None:
        """The phase begins."""
        first, self._in = self._in is None, phase.name
        if self._all_seconds is None and self._all_ops is None:
            self._counted, self._total = 0, phase.length.ops
            self._watcher.lasts(phase.length.time)
        elif first:
            self._total = self._all_ops
            self._watcher.lasts(self._all_seconds)

    def ended(self) -> None:
        """All phases ended."""
        self._in = None
        self._watcher.lasts(None)

    def one_more(self, phase: str) -> None:
        """Count one completed operation of a phase, or of what surrounds the phases."""
        self.done += 1
        if phase == self._in:
            self._counted += 1
            self._watcher.progress(self._counted, self._total)


class Phases:
    """Has the writers execute operations, and records them.

    An error in one writer's thread ends all threads; the method that started them raises it.

    Args:
        follower: of the table logs; an expiry waits for it.
        slots: the writers; the workload's first, then the nemesis's.
        board: of the proxies; it records which writer runs which operation. None without proxies.
        watchdog: started again if it was killed.
        order: decides the order of the requests; it may say which operations the nemesis invokes.
        place: the location of a table that has no name in the catalog.
    """

    def __init__(
        self,
        run: RunContext,
        recorder: Recorder,
        follower: Follower,
        slots: Sequence[WriterSlot],
        board: Board | None,
        watchdog: Watchdog,
        progress: PhaseProgress,
        order: Ordering | None = None,
        place: Callable[[TableSpec], str | None] = lambda _: None,
    ) -> None:
        self._run = run
        self._order = order
        self._recorder = recorder
        self._follower = follower
        self._slots = slots
        self._board = board
        self._watchdog = watchdog
        self._progress = progress
        self._place = place
        self._stop = run.settings.stop
        self._watch = Watch(run.workload.writers)
        self._unreadable: list[str] = []
        self._equality_deletes: set[str] = set()
        self._ended: list[str] = []
        self._enough = threading.Event()
        self._completing = threading.Lock()
        self._errors: list[BaseException] = []
        self._counters = [0] * len(slots)
        self._processes = list(range(len(slots)))

    def seed(self) -> None:
        """Fill the tables.

        Raises:
            RunError: a table could not be filled; the message quotes the exception.
        """
        rows = generator.seed_rows(self._run.workload)
        if rows:
            self._run.say("filling the tables")
        self._everybody(self._run.shares(rows, self._run.able("insert")), "setup")

    def phase(self, phase: Phase) -> None:
        """One phase of the workload, to its end; nothing once the load was ended."""
        if self._enough.is_set():
            return
        goal = f"{phase.length.ops} operations" if phase.length.ops else f"{phase.length.time:g} s"
        workload = self._run.workload
        members = workload.members(phase)
        self._run.say(f"phase {phase.name}: {goal}, {writers_in_words([workload.engines[n] for n in members])}")
        self._progress.begins(phase)
        streams: list[Iterable[PlannedOperation]] = [
            self._run.settings.operations(workload, phase, n, self._run.settings.seed) if n in members else ()
            for n in range(self._run.writers)
        ]
        deadline = None if phase.length.time is None else time.monotonic() + phase.length.time
        pause = len(members) / phase.rate if phase.rate else 0.0
        self._everybody(streams, phase.name, deadline=deadline, pause=pause, until=self._enough)

    @property
    def ended_by(self) -> str | None:
        """Why the load ended before its time; None if it did not."""
        return "; ".join([*self._ended, *self._unreadable]) if self._enough.is_set() else None

    def end_load(self, why: str) -> None:
        """Invoke no further operation but the final reads. From any thread; the first reason counts."""
        if not self._enough.is_set():
            self._ended.append(why)
            self._enough.set()

    def final_reads(self) -> None:
        """Read every table, by all writers that can read what it may hold, or by one. One of Spark's is always among them, and can."""
        self._progress.ended()
        self._run.say("reading every table")
        reads, run = generator.final_reads(self._run.workload), self._run
        if run.settings.share_final_reads:
            each = run.shares(reads, run.able("read"))
        else:
            readers = run.able("read", besides=True)
            each = [[r for r in reads if n in readers and self._reads(n, r)] for n in range(run.writers)]
        self._everybody(each, "final-reads")

    def _reads(self, n: int, read: PlannedOperation) -> bool:
        """Whether a writer's engine can read what a table may hold."""
        engine, table = ENGINES[self._run.engines[n]], read.table
        return table.name not in self._equality_deletes or engine.reads_equality_deletes(table)

    def maintainer(self) -> Callable[[Fault], str | None] | None:
        """A function that runs the nemesis's operations on their own writer and returns the outcome; None if the nemesis has no operations."""
        if not self._run.maintains:
            return None
        n = self._run.workload.writers
        rng = random.Random(f"{self._run.settings.seed}/maintenance")

        def maintain(fault: Fault) -> str | None:
            assert fault.do is not None
            if self._order is not None and (forced := self._order.maintenance(fault)) is not None:
                return self._perform(n, forced, "nemesis")
            able = [t for t in self._run.workload.tables if ENGINES[SPARK].can(fault.do, t)]
            if not able:
                return None
            table = rng.choice(able)
            draw = Draw(rng, self._run.workload.keys.keys(), n, table, True, {})
            value = fault.value or KINDS[fault.do].arguments(draw)
            return self._perform(n, PlannedOperation(fault.do, table, value), "nemesis")

        return maintain

    def _everybody(
        self,
        streams: Sequence[Iterable[PlannedOperation]],
        name: str,
        *,
        deadline: float | None = None,
        pause: float = 0.0,
        until: threading.Event | None = None,
    ) -> None:
        """Run one stream of operations per writer, each in its own thread, and wait for all.

        ``until``: when it is set, no further operation is invoked.
        """

        def over() -> bool:
            asked = self._stop.is_set() or (until is not None and until.is_set())
            return asked or (deadline is not None and time.monotonic() >= deadline)

        def work(n: int, stream: Iterable[PlannedOperation]) -> None:
            try:
                for planned in self._paced(stream, pause, f"{name}/{n}"):
                    if over():
                        return
                    self._perform(n, planned, name)
                if self._board is not None:
                    self._board.finished(n)
            except BaseException as e:
                self._errors.append(e)
                self._stop.set()
            finally:
                if isinstance(stream, Generator):  # others may wait for what it still has
                    stream.close()

        threads = [
            threading.Thread(target=work, args=(n, stream), name=f"writer-{n}", daemon=True)
            for n, stream in enumerate(streams)
            if stream != () and stream != []
        ]
        for t in threads:
            t.start()
        self._wait_for(threads)
        if self._errors:
            raise self._errors[0]

    def _paced(self, stream: Iterable[PlannedOperation], pause: float, name: str) -> Iterator[PlannedOperation]:
        """The operations of a stream, ``pause`` seconds apart on average."""
        rng = random.Random(f"{self._run.settings.seed}/{name}/pace")
        next_at = time.monotonic()
        for planned in stream:
            if pause:
                next_at += rng.uniform(0, 2 * pause)
                self._stop.wait(max(0.0, next_at - time.monotonic()))
            yield planned

    def _wait_for(self, threads: Sequence[threading.Thread]) -> None:
        """Wait until all writers' threads have ended; when the run stops, interrupt what its writers do."""
        try:
            for t in threads:
                while t.is_alive():
                    t.join(0.2)
                    self._watchdog.start()  # a new one, if it was killed
                    if self._stop.is_set():
                        for slot in self._slots:
                            slot.interrupt()
        except BaseException:  # Ctrl-C
            self._stop.set()
            for slot in self._slots:
                slot.interrupt()
            for t in threads:
                t.join(10)
            raise

    def _perform(self, n: int, planned: PlannedOperation, phase: str) -> str | None:
        """One operation: record the invocation, have it executed, record the completion.

        Returns:
            Its outcome; None if it was not invoked, because the snapshots that an expiry would delete could not be read first.
        """
        slot, kind, table = self._slots[n], KINDS[planned.f], planned.table.name
        extra: dict[str, Any] = {"phase": phase}
        if kind.needs_captured_log:
            older_than = self._captured_until(table)
            if older_than is None:
                return None
            extra["older_than"] = older_than
        op = f"w{n}-{self._counters[n]}"
        self._counters[n] += 1
        engine = ENGINES[self._run.engines[n]]
        message = self._request(op, planned, engine, extra.get("older_than"))
        if isinstance(engine, Foreign):
            extra["engine"] = engine.name
        process = self._processes[n]
        invoked = self._recorder.record("invoke", process, planned.f, table=table, value=planned.value, op=op, **extra)
        if self._order is not None:
            self._order.invokes(op, planned, self._run.engines[n])
        if self._board is not None:
            self._board.invoked(n, op)
        answer, result, died = self._answer(slot, message, planned, engine)
        if self._board is not None:
            self._board.completed(n, op)
        error = None if answer["ok"] else answer["error"]
        self._record_completion(op, invoked, planned, answer, result, error)
        if result != "fail" and engine.writes_equality_deletes(planned.f):
            self._equality_deletes.add(table)
        if result == "ok" and kind.commits:
            for name in {table, kind.second(planned.value) or table}:
                self._follower.committed(name)
        self._progress.one_more(phase)
        if result != "ok":
            self._have_room(op, error)
        if self._board is not None and self._board.unwritten is not None:
            raise self._board.unwritten
        if phase == "setup" and result != "ok" and not self._stop.is_set():
            raise self._not_filled(table, op, error)
        if result == "info":
            self._processes[n] += len(self._processes)
        if died is not None and not self._stop.is_set():
            self._run.say(f"writer w{n}: {type(died).__name__}; replaced")
            self._replace(slot)
        return result

    def _captured_until(self, table: str) -> str | None:
        """The time up to which an expiry may delete snapshots, because the table log has them; None if the log cannot be read."""
        try:
            return self._follower.secure(table) or "1970-01-01 00:00:00.000"
        except (OSError, RuntimeError) as e:
            if self._run.workload.nemesis is None:
                raise
            self._run.say(f"skipped the expiry of {table}, because its table log cannot be read: {e}")
            return None

    def _request(self, op: str, planned: PlannedOperation, engine: Engine, older_than: str | None) -> dict[str, Any]:
        """What a writer of this engine is sent to execute an operation."""
        if isinstance(engine, Pooled):
            path = (self._run.namespace, planned.table.name)
            backoff = self._run.workload.backoff.of(planned.table.properties)
            rng = random.Random(f"{self._run.settings.seed}/{op}/backoff")
            return engine.request(op, planned.f, planned.value, planned.table, path, backoff, rng)
        if isinstance(engine, Foreign):
            return guest_request(op, planned, self._run.namespace)
        return request(
            op,
            KINDS[planned.f].statements(planned.value, op, planned.table),
            catalog=CATALOG,
            namespace=self._run.namespace,
            table=planned.table.name,
            older_than=older_than,
            place=self._place(planned.table),
        )

    def _answer(
        self, slot: WriterSlot, message: dict[str, Any], planned: PlannedOperation, engine: Engine
    ) -> tuple[dict[str, Any], EventType, WriterDied | WriterTimeout | None]:
        """The writer's answer without secrets, the outcome that it means, and how the writer was lost if it was."""
        died: WriterDied | WriterTimeout | None = None
        try:
            answer = slot.call(message, self._run.workload.op_timeout)
            result = outcome(planned.f, planned.value, answer, engine)
        except (WriterDied, WriterTimeout) as e:
            died, result = e, "info"
            why = [f"icequake.{type(e).__name__}", str(e)]
            if self._stop.is_set():  # its connection was closed, and nothing is wrong with the writer
                why = [STOPPED, "the run was stopped while the operation waited for its answer"]
            answer = {"ok": False, "error": [why]}
        if not answer["ok"]:
            answer["error"] = self._run.hide.value(answer["error"])
        return answer, result, died

    def _record_completion(
        self,
        op: str,
        invoked: Event,
        planned: PlannedOperation,
        answer: Mapping[str, Any],
        result: EventType,
        error: ErrorChain | None,
    ) -> None:
        """Record how an operation ended, and notice if it shows that its table cannot be read."""
        kind, table = KINDS[planned.f], planned.table.name
        attempts = {"attempts": made} if (made := answer.get("attempts")) else {}
        value = _completed_value(answer, kind.goes_back)
        with self._completing:
            done = self._recorder.record(
                result, invoked.process, planned.f, table=table, value=value, op=op, error=error, **attempts
            )
            broken = not kind.two_tables and self._watch.completed(
                table, op, invoked.time, done.time, result, error, reads=reads_rows(planned.f, planned.table)
            )
            if broken:
                self._became_unreadable(table)

    def _have_room(self, op: str, error: ErrorChain | None) -> None:
        """End the run if an operation failed for want of disk: no promise of a table says anything of that. Raises RunError.

        What an error says of a disk may concern the one that a fault fills; then only this machine's own disk ends the run.
        """
        place = disk.temporary()
        nemesis, store = self._run.workload.nemesis, self._run.external.store
        filled = nemesis is not None and any(fault.verb == "fill" for fault in nemesis.all())
        message = None if filled else disk.full_message(error)
        if message is not None and store is not None:
            raise RunError(
                f"{store.shown}: the disk of this store is full; free some space there ({op}: {message[:MOST_QUOTED]})"
            )
        full = None if place is None else disk.full(place)
        if message is not None:
            raise RunError(f"{place}: the disk is full; {disk.remedy(place)} ({op}: {message[:MOST_QUOTED]})")
        if full is not None:
            raise RunError(f"{full} ({op} failed)")

    def _not_filled(self, table: str, op: str, error: ErrorChain | None) -> RunError:
        """What ends a run whose table could not be filled."""
        name, message = error_chain.deciding_error(error)
        why = f"{error_chain.short_class(name)}: {' '.join(message.split())[:MOST_QUOTED]}"
        return RunError(
            f"table {table} could not be filled ({op}): {why}; look at the table's properties in the workload file; "
            f"the writers' logs are in {self._run.folder.logs}"
        )

    def _became_unreadable(self, table: str) -> None:
        """Say it once for each table; end the load if the workload wants that."""
        suspicion = self._watch.suspicion(table)
        if suspicion is None or any(text.startswith(f"{table}: ") for text in self._unreadable):
            return
        since, files, _ = suspicion
        self._unreadable.append(
            f"{table}: unreadable since {since / 1e9:.1f} s ({file_words(next(filter(None, files), ''))})"
        )
        self._run.say(self._unreadable[-1])
        if self._run.workload.stop_when == "unreadable" and not self._enough.is_set():
            self._enough.set()
            self._run.say("stop_when: unreadable: the load ends here")

    def _replace(self, slot: WriterSlot) -> None:
        for attempt in range(REPLACE_TRIES):
            try:
                return slot.replace()
            except WriterError:
                if attempt == REPLACE_TRIES - 1 or self._stop.is_set():
                    raise


def _completed_value(answer: Mapping[str, Any], goes_back: bool) -> Any:
    """The value of an operation's completion: its result, with what was bound before it; of a failed operation that goes back, its snapshot."""
    bound = answer.get("bound")
    if answer["ok"]:
        return {**bound, "rows": answer["result"]} if bound else answer["result"]
    return {"snapshot": bound["snapshot"]} if goes_back and bound else None
