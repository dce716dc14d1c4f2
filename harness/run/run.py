"""One run, in order: plan, stack, writers, phases, final reads, table log. Verdict and page are made elsewhere, afterwards.

Threads: the main thread starts services and writers and waits; each writer has one thread that draws its next operation, records the
invocation, sends it to the driver process, and records the answer; one thread follows the table logs; one checks what is
there so far, if that is wanted; one samples memory.
An error in any thread stops all of them and is raised here.
"""

from __future__ import annotations

import contextlib
import gc
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from checkers.evidence.recorder import Recorder
from checkers.evidence.runfolder import EVIDENCE, RunFolder, identity, save_kinds
from compose.catalogs import user
from compose.catalogs.registry import CATALOGS
from compose.endpoints import Endpoints
from compose.install.engines import installed
from compose.install.installation import Installation
from compose.objectstore import TableReadError
from compose.processes.service import ServiceError
from compose.processes.watchdog import Watchdog
from compose.redaction import SecretsLeft
from compose.stack.pointers import pointers
from harness.run import disk
from harness.run.conductor import Conductor, conductor_of
from harness.run.context import context_of
from harness.run.errors import RunError
from harness.run.memory import PeakMemory
from harness.run.online import OnlineCheck, kinds_of
from harness.run.ordering import ordering_of
from harness.run.phases import PhaseProgress, Phases
from harness.run.plan import plan_of
from harness.run.services import proxies_of, services_of
from harness.run.settings import WRITER_START_S, Settings, StandingStack, Watcher
from harness.run.tables import RunTables, drop_commands
from harness.run.writer_proxies import WriterProxies
from harness.tablefiles.follower import Follower
from harness.writers.driver import direct, launcher, pools
from harness.writers.slot import WriterError, WriterSlot
from nemesis.faults.fault import Fault
from nemesis.proxy.board import Board
from workloads.engines.engine import Foreign
from workloads.engines.engines import ENGINES, SPARK, in_words
from workloads.file.workload import Workload

MOST_PROBLEMS = 3
"""Problems of a table's reader that are told one by one: each capture may meet the same one again."""


class Run:
    """One run of a workload into a run folder. ``execute`` once.

    Args:
        standing: a running stack to use; None: the run starts its own.

    Attributes:
        leftovers: statements that drop, in order, what this run left in a user-supplied catalog.
        notes: sentences about the secrets of this run: which are too short to be searched for, and which logs are gone.
    """

    def __init__(
        self,
        workload: Workload,
        folder: RunFolder,
        installation: Installation,
        settings: Settings,
        *,
        standing: StandingStack | None = None,
        watcher: Watcher,
    ) -> None:
        if standing is not None:
            workload = workload.in_mode(standing.endpoints.mode)
        self._run = context_of(workload, folder, installation, settings, watcher)
        self._standing = standing
        self._order = settings.order or ordering_of(workload, self._run.writers, settings.seed, settings.seen)
        self.leftovers: tuple[str, ...] = ()
        self.notes = [] if self._run.too_short is None else [self._run.too_short]
        self._progress = PhaseProgress(watcher, workload)
        self._memory = PeakMemory()
        self._timings: dict[str, float] = {}
        self._state: dict[str, Any] = {}
        self._unwritten: OSError | None = None

    def execute(self) -> None:
        """Execute the run up to the saved table log. No process started here keeps running, even after an error.

        Raises:
            RunError, ServiceError, WriterError: the harness could not do its work.
            OSError: the store cannot be written.
            KeyboardInterrupt: the user stopped it.
        """
        run, began = self._run, time.monotonic()
        self._state = {
            "state": "running",
            **identity(),
            "started": datetime.now(UTC).isoformat(timespec="seconds"),
            **asdict(run.workload.mode),
        }
        final = "failed"
        try:
            run.folder.write_state(self._state)
            kinds = save_kinds(run.folder, (f for p in run.workload.resolved_phases() for f in p.operations or ()))
            run.folder.write_plan(plan_of(run, {"kinds": kinds} if kinds else {}))
            self._in_own_folder()
            if self._unwritten is not None:
                raise self._unwritten
            if self._order is not None:
                outcome = self._order.outcome(run.folder)
                self._state["order"] = {**outcome, "said": self._order.words(outcome)}
            final = "interrupted" if run.settings.stop.is_set() else "complete"
        except KeyboardInterrupt:
            final = "interrupted"
            raise
        except BaseException as e:
            run.hide.error(e)
            self._state["error"] = run.hide.text(f"{type(e).__name__}: {e}")
            raise
        finally:
            self._timings["total"] = time.monotonic() - began
            self._conclude(final)

    def _in_own_folder(self) -> None:
        """The run with a temporary folder of its own and a watchdog. Raises RunError if something failed for want of disk."""
        with contextlib.ExitStack() as stack:
            data = Path(tempfile.mkdtemp(prefix="icequake-"))
            data.chmod(0o755)  # if started by root, PostgreSQL runs under another uid
            stack.callback(shutil.rmtree, data, ignore_errors=True)
            watchdog = Watchdog(self._run.run_id, remove=[data])
            stack.callback(watchdog.close)  # before it starts: an interrupt may come at any moment
            watchdog.start()
            stack.enter_context(self._memory)
            try:
                self._inside(stack, data, watchdog)
            except (ServiceError, WriterError, TableReadError) as e:
                if (why := disk.full(data)) is None:
                    raise
                raise RunError(f"{why} ({e})") from e

    def _conclude(self, final: str) -> None:
        """Take the secrets out of the logs and write the final state. Raises RunError if some may still hold a secret."""
        unclean = self._clean_logs()
        if unclean is not None:
            final = "failed"
            error = self._state.get("error")
            self._state["error"] = f"{unclean}; and before: {error}" if error else str(unclean)
        self._state |= {
            "state": final,
            "finished": datetime.now(UTC).isoformat(timespec="seconds"),
            "timings": {k: round(v, 2) for k, v in self._timings.items()},
            "peak_memory_bytes": self._memory.peak,
            "operations": self._progress.done,
            EVIDENCE: self._run.folder.evidence,
        }
        with contextlib.suppress(OSError):
            self._run.folder.write_state(self._state)
        # PyIceberg's file systems stand in reference cycles, and each keeps its connections to the store open.
        gc.collect()
        if unclean is not None:
            raise RunError(self._state["error"])

    def _clean_logs(self) -> SecretsLeft | None:
        """Take the secrets out of the logs; what is told if some may still hold one."""
        try:
            removed = self._run.hide.folder(self._run.folder.logs)
        except SecretsLeft as e:
            return e
        self.notes += [f"{path} was removed, because secrets could not be taken out of it" for path in removed]
        if self.notes:
            self._state["notes"] = self.notes
        return None

    def _inside(self, stack: contextlib.ExitStack, data: Path, watchdog: Watchdog) -> None:
        run, workload = self._run, self._run.workload
        for name in dict.fromkeys(workload.engines):
            if isinstance(guest := ENGINES[name], Foreign):
                installed(guest.needs_with(workload.catalog_properties))  # before anything is started
        proxies = proxies_of(run, stack)
        board = None if proxies is None else proxies.board
        with self._timed("stack"):
            endpoints, services = services_of(run, stack, data, proxies, self._standing)
        if proxies is not None and (workload.nemesis is not None or workload.order or self._order is not None):
            for problem in proxies.unproxied(endpoints):
                run.say(problem)
        with self._timed("writers"):
            run.say(f"starting {in_words(workload.engines)}")
            slots = self._launch(stack, data, endpoints, proxies)
            run.settings.launched(slots)
        online = None
        if run.settings.online is not None:
            online = OnlineCheck(workload.tables, kinds_of(workload), run.settings.online, run.hide.text)
            stack.enter_context(online)
        recorder = stack.enter_context(self._recorder(online))
        if board is not None:
            board.begin(recorder.now, run.folder.proxy, run.settings.seed)
            stack.callback(self._finish, board)
        tables = RunTables(run, endpoints, data)
        with self._timed("tables"):
            self._create_tables(tables, slots)
        read_pointer = stack.enter_context(pointers(endpoints, run.run_id))
        follower = tables.follower(read_pointer, recorder.now, None if online is None else online.grew)
        stack.callback(follower.stop)
        self._timings["first operation"] = sum(self._timings.values())
        with follower:
            phases = Phases(run, recorder, follower, slots, board, watchdog, self._progress, self._order, tables.place)
            if online is not None:
                online.ends(phases.end_load)
            with self._timed("seed"):
                phases.seed()
            if board is not None and workload.swap_latency > 0:
                late = Fault(verb="delay", service="catalog", request="commit", seconds=workload.swap_latency)
                delaying = board.arm(late)
                stack.callback(board.end, delaying)
            conductor = conductor_of(run, board, services, slots, recorder, phases.maintainer(), self._order)
            self._load(phases, board, conductor, recorder)
            with self._timed("final reads"):
                phases.final_reads()
        self._finish_log(follower, online)
        if run.settings.clean and tables.drop(slots[0]):
            self.leftovers = ()
        self._state["capture_errors"] = run.hide.value(list(follower.errors))
        self._state["writer_replacements"] = sum(s.replacements for s in slots)

    def _recorder(self, online: OnlineCheck | None) -> Recorder:
        """The recorder of the history, which says at its top what the run is."""
        run, workload = self._run, self._run.workload
        about = {
            "workload": workload.workload,
            "seed": run.settings.seed,
            "writers": workload.writers,
            **({"engines": list(workload.engines)} if {*workload.engines} != {SPARK} else {}),
            "op_timeout": workload.op_timeout,
        }
        return Recorder(run.folder.history, about, heard=None if online is None else online.heard)

    def _create_tables(self, tables: RunTables, slots: Sequence[WriterSlot]) -> None:
        run = self._run
        tables.create_namespace(slots[run.able("insert")[0]])
        if run.external.catalog is not None:
            self.leftovers = drop_commands(run.external.catalog.name, run.namespace, run.workload)
        tables.create(slots)

    def _load(self, phases: Phases, board: Board | None, conductor: Conductor | None, recorder: Recorder) -> None:
        """All phases, while the conductor makes the faults and the order decides who goes next; afterwards everything is healed."""
        if board is not None and self._order is not None:
            self._order.begins(recorder)
            board.follow(self._order.policy)
        try:
            if conductor is not None:
                conductor.start()
            for spec in self._run.workload.resolved_phases():
                with self._timed(f"phase {spec.name}"):
                    phases.phase(spec)
        finally:
            if board is not None and self._order is not None:
                board.heal()
                self._order.ends()
            if conductor is not None:
                with self._timed("heal"):
                    conductor.heal()
        if phases.ended_by is not None:
            self._state["load_ended"] = self._run.hide.text(phases.ended_by)

    def _finish_log(self, follower: Follower, online: OnlineCheck | None) -> None:
        """Read the table logs to their ends, and say what could not be read."""
        run = self._run
        if online is not None and run.settings.stop.is_set():
            online.stop()  # the history may lack operations that explain what the last captures show
        with self._timed("table log"):
            run.say("reading the table logs")
            follower.finish()
        if online is not None:
            self._state["online"] = run.hide.value(online.finish())
        for problem in follower.errors[:MOST_PROBLEMS]:
            run.say(f"table log: {problem}")
        if (more := len(follower.errors) - MOST_PROBLEMS) > 0:
            run.say(f"table log: {more} more captures failed; the last one read everything")

    def _finish(self, board: Board) -> None:
        board.finish()
        self._unwritten = board.unwritten

    @contextlib.contextmanager
    def _timed(self, name: str) -> Iterator[None]:
        began = time.monotonic()
        try:
            yield
        finally:
            self._timings[name] = time.monotonic() - began

    def _launch(
        self, stack: contextlib.ExitStack, data: Path, endpoints: Endpoints, proxies: WriterProxies | None
    ) -> list[WriterSlot]:
        """Launch all writers and connect to them."""
        run = self._run
        shared = run.settings.pools
        if shared is None:
            shared = pools(run.installation, endpoints, run_id=run.run_id, data=data, logs=run.folder.logs)
            stack.callback(shared.close)
        launch = launcher(
            run.installation,
            endpoints,
            run_id=run.run_id,
            data=data,
            logs=run.folder.logs,
            front=proxies or direct,
            warm=self._warm(proxies),
            new_sessions=bool(run.settings.warm),
            clocks=run.workload.clocks,
            engines=run.engines,
            shared=shared,
            docker=run.settings.contained_drivers,
        )
        slots = []
        for n in range(run.writers):
            slot = WriterSlot(f"w{n}", launch, WRITER_START_S)
            stack.callback(slot.kill)
            slots.append(slot)
        for slot in slots:
            slot.connect()
        return slots

    def _warm(self, proxies: WriterProxies | None) -> tuple[Path, ...]:
        """The warm writers that this run may use: those whose sessions guard Delta's commits as the run wants it, if it has such tables."""
        run, guard = self._run, self._run.workload.delta_guard or ""
        if guard != ("" if self._standing is None else self._standing.endpoints.guard):
            return ()
        if run.settings.warm:
            # Hadoop's file systems are kept for as long as their JVM lives, with the store's address as the first run saw it.
            supplied = run.external.catalog
            own_io = (CATALOGS[run.workload.catalog] if supplied is None else user.entry(supplied)).own_io
            moved = (own_io or guard) and proxies is not None and proxies is not run.settings.writer_proxies
            return () if run.workload.clocks or moved else run.settings.warm
        if self._standing is None or proxies is not run.settings.writer_proxies:
            return ()
        special = run.workload.clocks or (run.workload.catalog_properties and run.settings.writer_proxies is None)
        return () if special else self._standing.sockets
