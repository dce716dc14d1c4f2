"""One run, from left to right: plan, stack, writers, phases, final reads, table log. Verdict and page come after, elsewhere.

Who does what: the main thread starts things and waits; each writer has one thread that draws its next operation, records the
invocation, hands it to the driver process, and records what came back; one thread follows the table logs; one samples memory.
An error in any of them stops all of them, and is raised here.
"""

from __future__ import annotations

import contextlib
import random
import secrets
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil

from checkers.evidence.history import Recorder
from checkers.evidence.plan import Plan
from checkers.evidence.runfolder import RunFolder, identity
from compose.catalogs import user_file
from compose.catalogs.registry import CATALOGS, catalog_of
from compose.endpoints import Endpoints
from compose.external.external import external
from compose.install.installation import Installation
from compose.processes.service import Service
from compose.processes.watchdog import Watchdog
from compose.redaction import Redaction, secrets_of
from compose.stack.pointers import pointers, table_history
from compose.stack.stack import Stack
from harness.run.conductor import Conductor
from harness.run.plan import plan_of
from harness.run.settings import (
    POINTER_S,
    REPLACE_TRIES,
    WRITER_START_S,
    Pointer,
    RunContext,
    RunError,
    Settings,
    StandingStack,
    T,
    Watcher,
)
from harness.run.tables import CREATE_NAMESPACE, create_table, drop_commands
from harness.run.versions import versions
from harness.run.writer_proxies import WriterProxies
from harness.tablefiles.follower import Follower
from harness.tablefiles.reader import ObjectStore, TableReader
from harness.writers.driver import CATALOG, direct, launcher
from harness.writers.slot import WriterDied, WriterError, WriterSlot, WriterTimeout, outcome, request
from nemesis.faults.fault import Fault
from nemesis.faults.schedule import schedule
from nemesis.processes import Processes
from nemesis.proxy.board import Board
from nemesis.proxy.connection import Proxies
from workloads import generator
from workloads.file.workload import Phase, Workload
from workloads.generator import PlannedOperation
from workloads.operations.kind import Draw, Statement
from workloads.operations.kinds import KINDS
from workloads.tables import COLUMNS, TableSpec

MOST_PROBLEMS = 3


class Run:
    """One run of a workload into a run folder. ``execute`` once."""

    def __init__(
        self,
        workload: Workload,
        folder: RunFolder,
        installation: Installation,
        settings: Settings,
        *,
        kept: StandingStack | None = None,
        watcher: Watcher,
    ) -> None:
        self._workload = workload
        self._folder = folder
        self._installation = installation
        self._settings = settings
        self._kept = kept
        self._watcher = watcher
        self._run_id = secrets.token_hex(6)
        self._namespace = f"iq_{self._run_id}"
        self._stop = settings.stop
        self._errors: list[BaseException] = []
        nemesis = workload.nemesis
        self._maintainers = int(nemesis is not None and any(f.verb == "maintain" for f in nemesis.all()))
        """Writers beside the workload's, for the nemesis."""
        self._counters = [0] * (workload.writers + self._maintainers)
        self._processes = list(range(workload.writers + self._maintainers))
        self._fronts = settings.fronts
        self._services: Mapping[str, Service] = {}
        self._external = settings.external
        if self._external.catalog is None and user_file.is_file(workload.catalog):
            self._external = external(user_file.load(Path(workload.catalog)), None, None)
        self._hide = Redaction((*self._external.secrets, *secrets_of(workload.catalog_properties)))
        self.left: tuple[str, ...] = ()
        """What this run made in a catalog that is not ours and did not drop: statements that do, in their order."""
        self._timings: dict[str, float] = {}
        self._done = 0
        self._total = self._count()
        self._peak = 0
        self._state: dict[str, Any] = {}

    # -- the whole -----------------------------------------------------------------------------------------------------

    def execute(self) -> None:
        """Do it all, up to and including the saved table log; whatever happens, nothing of ours stays running.

        Raises:
            RunError, ServiceError, WriterError: the harness could not do its work.
            OSError: the store cannot be written.
            KeyboardInterrupt: the user stopped it.
        """
        began = time.monotonic()
        self._state = {"state": "running", **identity(), "started": datetime.now(UTC).isoformat(timespec="seconds")}
        self._folder.write_plan(self._plan())
        self._folder.write_state(self._state)
        final = "failed"
        try:
            with contextlib.ExitStack() as stack:
                data = Path(tempfile.mkdtemp(prefix="icequake-"))
                data.chmod(0o755)  # PostgreSQL of a root user runs under another uid
                stack.callback(shutil.rmtree, data, ignore_errors=True)
                self._watchdog = Watchdog(self._run_id, remove=[data])
                self._watchdog.start()
                stack.callback(self._watchdog.close)
                stack.enter_context(self._memory())
                self._inside(stack, data)
            final = "complete"
        except KeyboardInterrupt:
            final = "interrupted"
            raise
        except BaseException as e:
            self._state["error"] = self._hide.text(f"{type(e).__name__}: {e}")
            raise
        finally:
            self._timings["total"] = time.monotonic() - began
            self._state |= {
                "state": final,
                "finished": datetime.now(UTC).isoformat(timespec="seconds"),
                "timings": {k: round(v, 2) for k, v in self._timings.items()},
                "peak_memory_bytes": self._peak,
                "operations": self._done,
            }
            with contextlib.suppress(OSError):
                self._hide.folder(self._folder.logs)
            with contextlib.suppress(OSError):
                self._folder.write_state(self._state)

    def _inside(self, stack: contextlib.ExitStack, data: Path) -> None:
        nemesis = self._workload.nemesis
        # Of a catalog that promises nothing the proxies show what it did.
        theirs = self._external.catalog
        guard = CATALOGS[self._workload.catalog].guard if theirs is None else theirs.guard
        proxied = self._settings.proxied or guard == "none"
        if self._fronts is None and (nemesis is not None or proxied):
            board = Board(self._settings.seed)
            stack.callback(board.close)
            board.remembers = nemesis is not None and any(f.verb == "stale" for f in nemesis.all())
            self._fronts = WriterProxies(stack.enter_context(Proxies(board)))
        with self._timed("stack"):
            if self._kept is None:
                services = Stack(
                    self._installation,
                    run_id=self._run_id,
                    data=data / "services",
                    logs=self._folder.logs,
                    workers=self._settings.spark_workers,
                    worker_cores=max(2, self._workload.writers + self._maintainers),
                    ports=self._settings.ports,
                    on_event=self._say,
                    catalog=self._workload.catalog,
                    before_database=None if self._fronts is None else self._fronts.database,
                    before_store=None if self._fronts is None else self._fronts.store,
                    external=self._external,
                )
                services.start()
                stack.callback(services.stop)
                endpoints = services.endpoints
                self._services = services.services
            else:
                endpoints = self._kept.endpoints
                self._say("using the stack that is up")
        endpoints = replace(endpoints, catalog_properties=self._workload.catalog_properties)
        for problem in self._fronts.blind(endpoints) if self._fronts is not None and nemesis is not None else ():
            self._say(problem)
        with self._timed("writers"):
            self._say(f"starting {self._workload.writers} writers")
            slots = self._launch_all(stack, data, endpoints)
        recorder = stack.enter_context(
            Recorder(
                self._folder.history,
                {
                    "workload": self._workload.workload,
                    "seed": self._settings.seed,
                    "writers": self._workload.writers,
                    "op_timeout": self._workload.op_timeout,
                },
            )
        )
        if self._fronts is not None:
            self._fronts.board.begin(recorder.now, self._folder.proxy, self._settings.seed)
            stack.callback(self._fronts.board.finish)
        with self._timed("tables"):
            self._create_tables(slots)
        follower = self._follower(stack.enter_context(pointers(endpoints, self._run_id)), endpoints, recorder)
        stack.callback(follower.stop)
        self._timings["first operation"] = sum(self._timings.values())
        with follower:
            phase = RunContext(recorder, follower, slots)
            with self._timed("seed"):
                self._everybody(phase, self._split(generator.seed_rows(self._workload)), "setup")
            conductor = self._conductor(phase)
            try:
                if conductor is not None:
                    conductor.start()
                for spec in self._workload.resolved_phases():
                    with self._timed(f"phase {spec.name}"):
                        self._phase(phase, spec)
            finally:
                if conductor is not None:
                    with self._timed("heal"):
                        conductor.heal()
            with self._timed("final reads"):
                reads = generator.final_reads(self._workload)
                shared = self._settings.share_final_reads
                each = self._split(reads) if shared else [reads for _ in range(self._workload.writers)]
                self._everybody(phase, each, "final-reads")
        with self._timed("table log"):
            self._say("reading the table logs")
            follower.finish()
        for problem in follower.errors[:MOST_PROBLEMS]:
            self._say(self._hide.text(f"table log: {problem}"))
        if len(follower.errors) > MOST_PROBLEMS:
            self._say(
                f"table log: {len(follower.errors) - MOST_PROBLEMS} more captures failed; the last one read everything"
            )
        if self._settings.clean:
            self._drop(slots[0])
        self._state["capture_errors"] = self._hide.value(list(follower.errors))
        self._state["writer_replacements"] = sum(s.replacements for s in slots)

    def _say(self, text: str) -> None:
        """Tell the watcher, without secrets."""
        self._watcher.say(self._hide.text(text))

    # -- parts ---------------------------------------------------------------------------------------------------------

    def _count(self) -> int | None:
        """Operations that the whole run will invoke; None when a phase goes by time."""
        w = self._workload
        lengths = [p.length.ops for p in w.resolved_phases()]
        around = len(generator.seed_rows(w)) + len(generator.final_reads(w)) * w.writers
        return around + sum(n for n in lengths if n is not None) if None not in lengths else None

    def _plan(self) -> Plan:
        found = versions(self._installation, self._ours())
        return plan_of(self._workload, self._settings, self._external, self._namespace, found, self._hide)

    @contextlib.contextmanager
    def _timed(self, name: str) -> Iterator[None]:
        began = time.monotonic()
        try:
            yield
        finally:
            self._timings[name] = time.monotonic() - began

    @contextlib.contextmanager
    def _memory(self) -> Iterator[None]:
        """Sample the memory of this process and all below it every five seconds; keep the peak (bytes, sum of RSS)."""
        stop = threading.Event()

        def sample() -> None:
            me = psutil.Process()
            while True:
                total = 0
                for p in [me, *me.children(recursive=True)]:
                    with contextlib.suppress(psutil.Error):
                        total += p.memory_info().rss
                self._peak = max(self._peak, total)
                if stop.wait(5.0):
                    return

        thread = threading.Thread(target=sample, name="memory", daemon=True)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()

    def _launch_all(self, stack: contextlib.ExitStack, data: Path, endpoints: Endpoints) -> list[WriterSlot]:
        launch = launcher(
            self._installation,
            endpoints,
            run_id=self._run_id,
            data=data,
            logs=self._folder.logs,
            front=self._fronts or direct,
            warm=self._warm(),
            clocks=self._workload.clocks,
        )
        slots = []
        for n in range(self._workload.writers + self._maintainers):
            slot = WriterSlot(f"w{n}", launch, WRITER_START_S)
            stack.callback(slot.kill)
            slots.append(slot)
        for slot in slots:
            slot.connect()
        return slots

    def _warm(self) -> tuple[Path, ...]:
        """The kept writers that this run may use: they have what they were started with."""
        if self._kept is None or self._fronts is not self._settings.fronts:
            return ()
        user_file = self._workload.clocks or (self._workload.catalog_properties and self._settings.fronts is None)
        return () if user_file else self._kept.sockets

    def _create_tables(self, slots: list[WriterSlot]) -> None:
        """The namespace, by one writer; then all tables, shared out: a driver's first statements are slow, so they warm together."""
        self._define(slots[0], "namespace " + self._namespace, CREATE_NAMESPACE, table="")
        if self._external.catalog is not None:
            self.left = drop_commands(self._external.catalog.name, self._namespace, self._workload)
        with ThreadPoolExecutor(len(slots)) as pool:
            shares = self._split(list(self._workload.tables))
            for done in [pool.submit(self._create, slot, tables) for slot, tables in zip(slots, shares, strict=False)]:
                done.result()

    def _create(self, slot: WriterSlot, tables: list[TableSpec]) -> None:
        for table in tables:
            self._define(slot, f"table {table.name}", create_table(table), table=table.name)

    def _ours(self) -> frozenset[str]:
        """Those of the servers that a plan gives the versions of that are started here."""
        servers = () if self._external.catalog else CATALOGS[self._workload.catalog].services
        return frozenset((*servers, *(() if self._external.store else ("minio",))))

    def _drop(self, slot: WriterSlot) -> None:
        """Drop the tables, files and all, and their namespace. What cannot be dropped is left, and said."""
        for table in self._workload.tables:
            self._dropped(slot, "DROP TABLE {table} PURGE", table.name)
        if self._dropped(slot, "DROP NAMESPACE {catalog}.{namespace}", ""):
            self.left = ()

    def _dropped(self, slot: WriterSlot, sql: str, table: str) -> bool:
        message = request("clean", [Statement(sql)], catalog=CATALOG, namespace=self._namespace, table=table)
        try:
            answer = slot.call(message, self._workload.op_timeout)
        except (WriterDied, WriterTimeout) as e:
            answer = {"ok": False, "error": [["", str(e)]]}
        if not answer["ok"]:
            self._say(self._hide.text(f"{sql.split(' {')[0].lower()} {table}: {answer['error'][0][1]}"))
        return bool(answer["ok"])

    def _define(self, slot: WriterSlot, what: str, statements: list[Statement], *, table: str) -> None:
        message = request("setup", statements, catalog=CATALOG, namespace=self._namespace, table=table)
        try:
            answer = slot.call(message, self._workload.op_timeout)
        except (WriterDied, WriterTimeout) as e:
            raise RunError(f"{what} could not be created: {e}; see {self._folder.logs}") from None
        if not answer["ok"]:
            kind, text = answer["error"][0]
            said = self._hide.text(f"{kind.rsplit('.', 1)[-1]}: {text}")
            raise RunError(f"{what} could not be created: {said}; see {self._folder.logs}")

    def _follower(self, asked: Pointer, endpoints: Endpoints, recorder: Recorder) -> Follower:
        store = ObjectStore(
            endpoint=endpoints.s3,
            access_key=endpoints.access_key,
            secret_key=endpoints.secret_key,
            region=endpoints.region,
        )
        catalog = catalog_of(endpoints)
        readers = {
            t.name: TableReader(
                store,
                table=t.name,
                identifier=f"{CATALOG}.{self._namespace}.{t.name}",
                columns=COLUMNS,
                path=self._folder.tablelog / f"{t.name}.jsonl",
                lists_one=catalog.lists_one,
                overwrites=catalog.overwrites,
            )
            for t in self._workload.tables
        }

        def pointer(name: str) -> tuple[str | None, Sequence[str] | None]:
            where = asked(self._namespace, name, POINTER_S)
            return where, None if where is None else table_history(endpoints, self._namespace, name)

        return Follower(
            readers,
            pointer,
            recorder.now,
            self._settings.capture_interval,
        )

    def _conductor(self, context: RunContext) -> Conductor | None:
        """Who carries out ``nemesis:``; None when there is none."""
        nemesis = self._workload.nemesis
        if nemesis is None or self._fronts is None:
            return None
        seed, writers = self._settings.seed, self._workload.writers
        return Conductor(
            schedule(nemesis, writers, seed),
            self._fronts.board,
            Processes(self._services, [slot.driver for slot in context.slots[:writers]], seed),
            context.recorder,
            self._say,
            self._maintainer(context),
            self._stop,
            self._workload.op_timeout + REPLACE_TRIES * WRITER_START_S if self._maintainers else 0.0,
        )

    def _maintainer(self, context: RunContext) -> Callable[[Fault], str | None] | None:
        if not self._maintainers:
            return None
        n = self._workload.writers
        rng = random.Random(f"{self._settings.seed}/maintenance")

        def maintain(fault: Fault) -> str | None:
            assert fault.do is not None
            table = rng.choice(self._workload.tables)
            draw = Draw(rng, self._workload.keys.keys(), n, table, True, {})
            value = fault.value or KINDS[fault.do].arguments(draw)
            return self._perform(context, n, PlannedOperation(fault.do, table, value), "nemesis")

        return maintain

    def _split(self, items: list[T]) -> list[list[T]]:
        return [items[n :: self._workload.writers] for n in range(self._workload.writers)]

    def _phase(self, context: RunContext, phase: Phase) -> None:
        assert phase.writers is not None
        goal = f"{phase.length.ops} operations" if phase.length.ops else f"{phase.length.time:g} s"
        self._say(f"phase {phase.name}: {goal}, {phase.writers} writers")
        streams: list[Iterable[PlannedOperation]] = [
            self._settings.operations(self._workload, phase, n, self._settings.seed) for n in range(phase.writers)
        ]
        deadline = None if phase.length.time is None else time.monotonic() + phase.length.time
        pause = phase.writers / phase.rate if phase.rate else 0.0
        self._everybody(context, streams, phase.name, deadline=deadline, pause=pause)

    def _everybody(
        self,
        context: RunContext,
        streams: list[Iterable[PlannedOperation]] | list[list[PlannedOperation]],
        name: str,
        *,
        deadline: float | None = None,
        pause: float = 0.0,
    ) -> None:
        """Run one stream of operations a writer, each in its thread, and wait for all."""

        def work(n: int, stream: Iterable[PlannedOperation]) -> None:
            rng = random.Random(f"{self._settings.seed}/{name}/{n}/pace")
            next_at = time.monotonic()
            try:
                for planned in stream:
                    if pause:
                        next_at += rng.uniform(0, 2 * pause)
                        self._stop.wait(max(0.0, next_at - time.monotonic()))
                    if self._stop.is_set() or (deadline is not None and time.monotonic() >= deadline):
                        return
                    self._perform(context, n, planned, name)
            except BaseException as e:
                self._errors.append(e)
                self._stop.set()

        threads = [
            threading.Thread(target=work, args=(n, stream), name=f"writer-{n}", daemon=True)
            for n, stream in enumerate(streams)
        ]
        for t in threads:
            t.start()
        try:
            for t in threads:
                while t.is_alive():
                    t.join(0.2)
                    self._watchdog.start()  # another one, if somebody killed it
                    if self._stop.is_set():
                        for slot in context.slots:
                            slot.interrupt()
        except BaseException:  # Ctrl-C
            self._stop.set()
            for slot in context.slots:
                slot.interrupt()
            for t in threads:
                t.join(10)
            raise
        if self._errors:
            raise self._errors[0]

    def _perform(self, context: RunContext, n: int, planned: PlannedOperation, phase: str) -> str | None:
        """One operation: record the invocation, have it executed, record the completion.

        Returns:
            Its outcome; None when it could not be invoked: what an expiry deletes could not be read before.
        """
        slot, kind = context.slots[n], KINDS[planned.f]
        older_than = None
        if planned.f == "expire-snapshots":
            try:
                older_than = context.follower.secure(planned.table.name)
            except (OSError, RuntimeError) as e:
                if self._workload.nemesis is None:
                    raise
                self._say(f"no expiry of {planned.table.name}, for its log cannot be read: {e}")
                return None
            if older_than is None:
                older_than = "1970-01-01 00:00:00.000"
        op = f"w{n}-{self._counters[n]}"
        self._counters[n] += 1
        message = request(
            op,
            kind.statements(planned.value, op, planned.table),
            catalog=CATALOG,
            namespace=self._namespace,
            table=planned.table.name,
            older_than=older_than,
        )
        process, table = self._processes[n], planned.table.name
        extra: dict[str, Any] = {"phase": phase} if older_than is None else {"phase": phase, "older_than": older_than}
        context.recorder.record("invoke", process, planned.f, table=table, value=planned.value, op=op, **extra)
        died: WriterDied | WriterTimeout | None = None
        if self._fronts is not None:
            self._fronts.board.invoked(n, op)
        try:
            answer = slot.call(message, self._workload.op_timeout)
            result = outcome(planned.f, planned.value, answer)
        except (WriterDied, WriterTimeout) as e:
            died, result = e, "info"
            answer = {"ok": False, "error": [[f"icequake.{type(e).__name__}", str(e)]]}
        if not answer["ok"]:
            answer["error"] = self._hide.value(answer["error"])
        value = None
        if answer["ok"]:
            value = answer["result"]
            if answer["bound"]:
                value = {**answer["bound"], "rows": value}
        elif KINDS[planned.f].sets_back and answer.get("bound"):
            value = {"snapshot": answer["bound"]["snapshot"]}
        context.recorder.record(
            result,  # type: ignore[arg-type]  # outcome() returns ok, fail or info
            process,
            planned.f,
            table=table,
            value=value,
            op=op,
            error=None if answer["ok"] else answer["error"],
        )
        self._done += 1
        self._watcher.progress(self._done, self._total)
        if result == "info":
            self._processes[n] += len(self._processes)
        if died is not None and not self._stop.is_set():
            self._say(f"writer w{n}: {type(died).__name__}; replaced")
            self._replace(slot)
        return result

    def _replace(self, slot: WriterSlot) -> None:
        for attempt in range(REPLACE_TRIES):
            try:
                return slot.replace()
            except WriterError:
                if attempt == REPLACE_TRIES - 1 or self._stop.is_set():
                    raise
