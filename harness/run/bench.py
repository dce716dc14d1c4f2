"""A bench: a stack and warm writers for many short runs, each writer with proxies of its own before catalog and store."""

from __future__ import annotations

import contextlib
import secrets
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from checkers.evidence.runfolder import RunFolder
from compose.catalogs.registry import DEFAULT
from compose.endpoints import Endpoints
from compose.install.installation import Installation
from compose.processes.watchdog import Watchdog
from compose.stack.stack import Stack
from harness.run.run import Run
from harness.run.settings import WRITER_START_S, Settings, StandingStack, Watcher
from harness.run.versions import versions
from harness.run.writer_proxies import WriterProxies
from harness.writers.driver import launcher
from harness.writers.slot import WriterSlot, renew
from nemesis.proxy.board import Board
from nemesis.proxy.connection import Proxies
from workloads.file.workload import Phase, Workload
from workloads.generator import PlannedOperation

Operations = Callable[[Workload, Phase, int, int], Iterable[PlannedOperation]]


@dataclass(frozen=True)
class Group:
    """Writers that work together; several groups do not see each other.

    Attributes:
        board: of the proxies of this group alone.
        slots: the warm writers; their drivers go on from run to run.
    """

    board: Board
    fronts: WriterProxies
    endpoints: Endpoints
    slots: tuple[WriterSlot, ...]

    @property
    def kept(self) -> StandingStack:
        """What a run of this group uses."""
        return StandingStack(self.endpoints, tuple(slot.socket_path for slot in self.slots))


class Bench:
    """Use in ``with``.

    Args:
        writers: of one group.
        groups: that work at the same time, each run in a thread of its own.

    Raises (on entry):
        ServiceError, WriterError: something does not come up.
    """

    def __init__(
        self,
        installation: Installation,
        writers: int,
        logs: Path,
        watcher: Watcher,
        *,
        catalog: str = DEFAULT,
        catalog_properties: Mapping[str, str] | None = None,
        groups: int = 1,
    ) -> None:
        self._installation = installation
        self._catalog = catalog
        self._properties = dict(catalog_properties or {})
        self._writers = writers
        self._count = groups
        self._logs = logs
        self._watcher = watcher
        self._inside = contextlib.ExitStack()
        self.groups: list[Group] = []
        self.versions = versions(installation)

    def __enter__(self) -> Bench:
        with contextlib.ExitStack() as stack:
            data = Path(tempfile.mkdtemp(prefix="icequake-"))
            data.chmod(0o755)  # PostgreSQL of a root user runs under another uid
            stack.callback(shutil.rmtree, data, ignore_errors=True)
            run_id = secrets.token_hex(6)
            watchdog = Watchdog(run_id, remove=[data])
            watchdog.start()
            stack.callback(watchdog.close)
            self._logs.mkdir(parents=True, exist_ok=True)
            fronts = [
                WriterProxies(stack.enter_context(Proxies(Board())), first=g * self._writers)
                for g in range(self._count)
            ]
            services = Stack(
                self._installation,
                run_id=run_id,
                data=data / "services",
                logs=self._logs,
                workers=1,
                worker_cores=max(2, self._writers * self._count),
                on_event=self._watcher.say,
                catalog=self._catalog,
                before_database=fronts[0].database,
                before_store=fronts[0].store,
            )
            services.start()
            stack.callback(services.stop)

            def front(writer: str, endpoints: Endpoints) -> Endpoints:
                seen = fronts[int(writer.removeprefix("w")) // self._writers](writer, endpoints)
                return replace(seen, catalog_properties=self._properties)

            launch = launcher(
                self._installation, services.endpoints, run_id=run_id, data=data, logs=self._logs, front=front
            )
            slots = []
            for n in range(self._writers * self._count):
                slots.append(slot := WriterSlot(f"w{n}", launch, WRITER_START_S))
                stack.callback(slot.kill)
            for slot in slots:
                slot.connect()
                slot.close()
            for g, f in enumerate(fronts):
                mine = slots[g * self._writers : (g + 1) * self._writers]
                self.groups.append(Group(f.board, f, services.endpoints, tuple(mine)))
            self._inside = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._inside.close()

    def run(
        self,
        workload: Workload,
        folder: RunFolder,
        operations: Operations,
        *,
        command: str,
        group: int = 0,
        share_final_reads: bool = False,
        progress: bool = True,
        stop: threading.Event | None = None,
    ) -> None:
        """One run of a group, after the drivers that the one before has lost were replaced.

        Raises what :meth:`harness.run.run.Run.execute` does.

        Args:
            progress: whether the watcher is told of it.
            stop: ends it soon, set by another thread.
        """
        g = self.groups[group]
        renew(g.slots)
        settings = Settings(
            seed=0,
            command=command,
            fronts=g.fronts,
            operations=operations,
            share_final_reads=share_final_reads,
            stop=stop or threading.Event(),
        )
        Run(
            workload,
            folder,
            self._installation,
            settings,
            kept=g.kept,
            watcher=Quietly(self._watcher if progress else None),
        ).execute()


@dataclass(frozen=True)
class Quietly:
    """Passes on progress alone: a scenario is one line."""

    watcher: Watcher | None

    def say(self, text: str) -> None:
        """Nothing."""

    def progress(self, done: int, total: int | None) -> None:
        """As the watcher's, if there is one."""
        if self.watcher is not None:
            self.watcher.progress(done, total)
