"""A bench: a stack and warm writers for many short runs; each writer reaches catalog and store through its own proxies."""

from __future__ import annotations

import contextlib
import secrets
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from checkers.coverage.pair import Pair
from checkers.evidence.replace import replace
from checkers.evidence.runfolder import RunFolder
from compose.catalogs import user
from compose.catalogs.registry import CATALOGS, DEFAULT
from compose.endpoints import Endpoints
from compose.external.external import External, Store
from compose.install import delta
from compose.install.installation import Installation
from compose.processes.service import Service
from compose.processes.watchdog import Watchdog
from compose.stack.stack import Stack
from harness.run.ordering import Ordering
from harness.run.run import Run
from harness.run.settings import WRITER_START_S, Settings, StandingStack, Watcher
from harness.run.versions import versions
from harness.run.writer_proxies import WriterProxies
from harness.writers.driver import direct, launcher
from harness.writers.slot import WriterSlot, renew
from nemesis.proxy.board import Board
from nemesis.proxy.listener import Proxies
from workloads.file.mode import AS_USERS, Mode
from workloads.file.workload import Phase, Workload
from workloads.generator import PlannedOperation

Operations = Callable[[Workload, Phase, int, int], Iterable[PlannedOperation]]


@dataclass(frozen=True)
class WriterGroup:
    """Writers that work together; groups are independent of each other.

    Attributes:
        board: shared by the proxies of this group only.
        proxies: between the writers of this group and the services.
        slots: the warm writers; their drivers stay up from run to run.
        services: those that the bench started.
    """

    board: Board
    proxies: WriterProxies
    endpoints: Endpoints
    slots: tuple[WriterSlot, ...]
    services: Mapping[str, Service]


class Bench:
    """Use in ``with``.

    Args:
        writers: number of writers in a group.
        groups: number of groups that work at the same time, each run in its own thread.
        external: services that the user supplies. Its catalog, if it has one, replaces ``catalog``; each run drops
            its tables there.
        docker: whether the object store and the catalog's servers run in containers.
        mode: how Spark runs the writers' statements; default: as on the bench ``on``, or as users run it.
        on: another bench, whose object store, Spark cluster and writers this one uses; the two must not run anything at the same time.
            Only the catalog's servers are started, with an object store beside them if they are in containers, and new drivers if the catalog
            needs jars that the existing ones lack, or the mode is another one, or the writers know Delta tables.
        guard: what guards the commits of Delta tables of its runs (:mod:`compose.catalogs.delta`); empty: its writers know none, and a run
            with such tables starts its own.

    Raises (on entry):
        ServiceError, WriterError: a service or a writer does not come up.
    """

    def __init__(
        self,
        installation: Installation,
        writers: int,
        logs: Path,
        watcher: Watcher,
        *,
        catalog: str = DEFAULT,
        groups: int = 1,
        on: Bench | None = None,
        external: External | None = None,
        docker: bool = False,
        mode: Mode | None = None,
        guard: str = "",
    ) -> None:
        self._docker = docker
        self.mode: Mode = mode or (AS_USERS if on is None else on.mode)
        self._installation = installation
        self._external = external or External()
        self.catalog = catalog
        self.guard = guard
        self.writers = writers
        self._count = groups
        self._logs = logs
        self._watcher = watcher
        self._on = on
        self._inside = contextlib.ExitStack()
        supplied = self._external.catalog
        entry = CATALOGS[catalog] if supplied is None else user.entry(supplied)
        self._jars: set[str] = {*entry.jars, *(on._jars if on else ())}
        self.groups: list[WriterGroup] = []
        self.versions = versions(installation)
        if on is not None and writers * groups > len(on.slots):
            raise ValueError(f"{groups} groups of {writers} writers are more than the other bench has")

    def __enter__(self) -> Bench:
        with contextlib.ExitStack() as stack:
            data = Path(tempfile.mkdtemp(prefix="icequake-"))
            data.chmod(0o755)  # if started by root, PostgreSQL runs under another uid
            stack.callback(shutil.rmtree, data, ignore_errors=True)
            self.run_id = run_id = secrets.token_hex(6)
            watchdog = Watchdog(run_id, remove=[data])
            stack.callback(watchdog.close)  # before it starts: an interrupt may come at any moment
            watchdog.start()
            self._logs.mkdir(parents=True, exist_ok=True)
            proxies = [WriterProxies(stack.enter_context(Proxies(Board()))) for _ in range(self._count)]
            services = Stack(
                self._installation,
                run_id=run_id,
                data=data / "services",
                logs=self._logs,
                workers=1,
                worker_cores=max(8, 3 * self.writers * self._count),
                on_event=self._watcher.say,
                catalog=self.catalog,
                before_database=None if self._docker else proxies[0].database,
                before_store=proxies[0].store,
                external=self._external if self._on is None else self._beside(self._on),
                docker=self._docker,
                mode=self.mode,
            )
            services.start()
            stack.callback(services.stop)
            self.stack = services
            # The cluster is on this machine.
            self.endpoints = replace(services.endpoints, ship_jars=False, guard=self.guard)
            own = (self._jars, self.mode, self.guard)
            if self._on is not None and not self.guard and own == (self._on._jars, self._on.mode, self._on.guard):
                slots = list(self._on.slots[: self.writers * self._count])
            else:
                slots = self._launch(stack, run_id, data, proxies)
            for g, p in enumerate(proxies):
                its = slots[g * self.writers : (g + 1) * self.writers]
                self.groups.append(WriterGroup(p.board, p, self.endpoints, tuple(its), services.services))
            self._inside = stack.pop_all()
        return self

    def _launch(
        self, stack: contextlib.ExitStack, run_id: str, data: Path, proxies: Sequence[WriterProxies]
    ) -> list[WriterSlot]:
        """Launch drivers; each run gives them a session that uses the proxies. Delta tables are not in a catalog, whose properties a session
        can change: those drivers use the proxies from the start."""

        def front(name: str, endpoints: Endpoints) -> Endpoints:
            group, n = divmod(int(name.removeprefix("w")), self.writers)
            return proxies[group](f"w{n}", endpoints)

        if self.guard:
            delta.ensure(self._installation)
        launch = launcher(
            self._installation,
            self.endpoints,
            run_id=run_id,
            data=data,
            logs=self._logs,
            front=front if self.guard else direct,
        )
        slots = []
        for n in range(self.writers * self._count):
            slots.append(slot := WriterSlot(f"w{n}", launch, WRITER_START_S))
            stack.callback(slot.kill)
        for slot in slots:
            slot.connect()
            slot.close()
        return slots

    @property
    def slots(self) -> tuple[WriterSlot, ...]:
        """The writers of all groups."""
        return tuple(slot for group in self.groups for slot in group.slots)

    @property
    def secrets(self) -> tuple[str, ...]:
        """Those of the services that the user supplies."""
        return tuple(self._external.secrets)

    def sockets(self) -> tuple[Path, ...]:
        """The sockets of all writers, for a run outside the bench (``harness.run.settings.Settings.warm``). Raises WriterError."""
        renew(self.slots)
        return tuple(slot.socket_path for slot in self.slots)

    def _beside(self, other: Bench) -> External:
        """The services of another bench, with the user's own catalog if there is one."""
        if self._docker:  # what runs in containers does not reach this machine's loopback
            return External(master=self._master(other))
        return replace(other.shared, catalog=self._external.catalog, master=self._master(other))

    def _master(self, other: Bench) -> str | None:
        """The cluster of another bench, unless this one needs another kind."""
        return other.endpoints.spark_master if self.mode.cluster == other.mode.cluster else None

    @property
    def shared(self) -> External:
        """The services that another bench shares with this one."""
        e = self.endpoints
        store = Store(e.s3, e.bucket, f"bench-{secrets.token_hex(4)}", e.access_key, e.secret_key, e.region)
        return External(store=store, master=e.spark_master)

    def __exit__(self, *_: object) -> None:
        self._inside.close()

    def run(
        self,
        workload: Workload,
        folder: RunFolder,
        operations: Operations,
        *,
        command: str,
        seed: int = 0,
        group: int = 0,
        share_final_reads: bool = False,
        progress: bool = True,
        stop: threading.Event | None = None,
        capture_interval: float | None = 10.0,
        about: Mapping[str, Any] | None = None,
        launched: Callable[[Sequence[WriterSlot]], None] = lambda _: None,
        order: Ordering | None = None,
        seen: Mapping[Pair, int] | None = None,
    ) -> None:
        """One run of a group. Drivers that the previous run lost are replaced first.

        Raises what :meth:`harness.run.run.Run.execute` does.

        Args:
            progress: whether the watcher gets the run's progress.
            stop: when another thread sets it, the run ends soon.
            capture_interval, about, launched, order, seen: as in :class:`harness.run.settings.Settings`.
        """
        g = self.groups[group]
        renew(g.slots)
        settings = Settings(
            seed=seed,
            command=command,
            writer_proxies=g.proxies,
            warm=tuple(slot.socket_path for slot in g.slots),
            drivers=tuple(slot.driver for slot in g.slots),
            operations=operations,
            share_final_reads=share_final_reads,
            stop=stop or threading.Event(),
            capture_interval=capture_interval,
            about=about or {},
            launched=launched,
            order=order,
            seen=seen or {},
            external=self._external,
            clean=self._external.catalog is not None,
        )
        Run(
            workload,
            folder,
            self._installation,
            settings,
            standing=StandingStack(g.endpoints, services=g.services),
            watcher=Quietly(self._watcher if progress else None),
        ).execute()


@dataclass(frozen=True)
class Quietly:
    """Passes on progress only, so that a scenario prints one line."""

    watcher: Watcher | None

    def say(self, text: str) -> None:
        """Nothing."""

    def progress(self, done: int, total: int | None) -> None:
        """Pass the progress on to the watcher, if there is one."""
        if self.watcher is not None:
            self.watcher.progress(done, total)

    def lasts(self, seconds: float | None) -> None:
        """Pass it on to the watcher, if there is one."""
        if self.watcher is not None:
            self.watcher.lasts(seconds)
