"""The warm stacks of a soak: one at a time, started for a catalog and a release, used by many runs."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import psutil

from checkers.coverage.pair import Pair
from checkers.evidence.runfolder import RunFolder
from compose import setup
from compose.catalogs import user_file
from compose.catalogs.registry import CATALOGS
from compose.endpoints import Endpoints
from compose.external.external import External, external
from compose.external.preflight import preflight
from compose.install import releases
from compose.processes.watchdog import RUN_VARIABLE
from harness.run.bench import Bench
from harness.run.settings import Watcher
from nemesis.faults.verb import ProcessVerb
from workloads import generator
from workloads.engines.engines import SPARK
from workloads.file.mode import Mode
from workloads.file.workload import Workload


class WarmStack(Protocol):
    """A stack that is up."""

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
        """One run of the workload into the folder, up to its saved table log; ends soon once ``stop`` is set.

        ``seen`` guides an order by coverage.

        Raises what :meth:`harness.run.run.Run.execute` does.
        """

    def close(self) -> None:
        """End the stack and everything that runs on it. Callable while a run goes on in another thread."""

    @property
    def endpoints(self) -> Endpoints:
        """Where its services answer."""

    @property
    def sockets(self) -> tuple[Path, ...]:
        """The sockets of its warm writers."""


def strikes_processes(workload: Workload) -> bool:
    """Whether faults of the workload kill, stop or restart servers or writers, which later runs of a stack could feel."""
    nemesis = workload.nemesis
    return nemesis is not None and any(isinstance(f.action, ProcessVerb) for f in nemesis.all())


Start = Callable[[tuple[str, ...], int, Path, Watcher], WarmStack]
"""(catalog or the path of a user's own, release and mode; number of Spark writers, folder of its logs, watcher) → a stack that is up."""


def sparks(workload: Workload) -> int:
    """The Spark writers that a run of the workload uses, with the one for the nemesis' maintenance and for what no other engine can do."""
    nemesis, count = workload.nemesis, workload.engines.count(SPARK)
    maintains = nemesis is not None and any(f.verb == "maintain" for f in nemesis.all())
    return count + int(maintains or not count)


class SoakBench:
    """A warm stack of real servers and Spark writers.

    Args:
        inside: ends what belongs to the stack.
    """

    def __init__(self, bench: Bench, inside: contextlib.ExitStack) -> None:
        self._bench = bench
        self._inside = inside

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
        """As :meth:`WarmStack.run`."""
        self._bench.run(
            workload, folder, generator.operations, command=command, seed=seed, stop=stop, about=about, seen=seen
        )

    @property
    def bench(self) -> Bench:
        """The bench that runs use."""
        return self._bench

    def close(self) -> None:
        """As :meth:`WarmStack.close`."""
        self._inside.close()

    @property
    def endpoints(self) -> Endpoints:
        """As :attr:`WarmStack.endpoints`."""
        return self._bench.endpoints

    @property
    def sockets(self) -> tuple[Path, ...]:
        """As :attr:`WarmStack.sockets`."""
        return self._bench.sockets()


def start_bench(stack: tuple[str, ...], writers: int, logs: Path, watcher: Watcher) -> SoakBench:
    """As :data:`Start`.

    Raises:
        SetupError, ServiceError, WriterError: something cannot be installed, or does not come up.
        FileError, ExternalError: the user's own catalog cannot be used.
    """
    catalog, release, *mode = stack
    supplied = external_of(catalog)
    if supplied is None:
        CATALOGS[catalog].check()
    else:
        preflight(supplied)
    installation = setup.ensure_release(releases.find(release))
    inside = contextlib.ExitStack()
    bench = Bench(installation, writers, logs, watcher, catalog=catalog, external=supplied, mode=Mode.of(mode))
    return SoakBench(inside.enter_context(bench), inside)


def external_of(catalog: str) -> External | None:
    """The user's own services that a catalog's file names; None for a catalog of icequake. Raises FileError, ExternalError."""
    return external(user_file.load(Path(catalog)), None, None) if user_file.is_file(catalog) else None


def kill_marked(me: psutil.Process | None = None) -> Sequence[int]:
    """Kill the descendants of this process that belong to a run or a stack, without their watchdogs; return their pids.

    For a run that does not end when its stack does: drivers that it started itself have a mark of its own.
    """
    found = []
    for child in (me or psutil.Process()).children(recursive=True):
        with contextlib.suppress(psutil.Error):
            if RUN_VARIABLE in child.environ():
                child.kill()
                found.append(child.pid)
    return found
