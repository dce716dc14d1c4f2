"""The process that the committers of a run share: one JVM, to which each of them has a connection (``workloads.engines.committer``)."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from compose.install.engines import Files
from compose.processes.ports import Ports
from compose.processes.process import LocalProcess, NotReady
from compose.servers.spark import SMALL_JVM

COMMITTERS_HEAP_MB = 1536
WORKERS = 128
"""Threads with which Iceberg writes and reads manifests, for all committers. By default there are as many as cores: too few for them."""


class CommitterPool(LocalProcess):
    """``CommitterServer``; it is ready when its socket exists.

    Args:
        jars: Iceberg's runtime, and what the catalog needs; they come before what is installed for committers.
        environment: its whole environment except the run's mark.
        folder: its working folder; ``socket`` lies beside it.
    """

    def __init__(
        self,
        name: str,
        *,
        run_id: str,
        java: Path,
        jars: Sequence[Path],
        files: Files,
        environment: Mapping[str, str],
        folder: Path,
        log: Path,
    ) -> None:
        super().__init__(name, run_id=run_id, ports=Ports(), port_names=(), folder=folder, log=log)
        self._java = java
        self._jars = tuple(jars)
        self._files = files
        self._environment = dict(environment)
        self.socket = folder.with_name(f"{folder.name}.sock")

    def argv(self) -> Sequence[str]:
        plain = self._files.plain
        class_path = os.pathsep.join((plain["classes"], *map(str, self._jars), plain["class_path"]))
        options = (
            *SMALL_JVM,
            f"-Xmx{COMMITTERS_HEAP_MB}m",
            "-Duser.timezone=UTC",
            f"-Diceberg.worker.num-threads={WORKERS}",
        )
        return [str(self._java), *options, "-cp", class_path, plain["main"], str(self.socket)]

    def environment(self) -> Mapping[str, str]:
        return self._environment

    def prepare(self) -> None:
        self.socket.unlink(missing_ok=True)

    def probe(self, timeout: float) -> None:
        if not self.socket.exists():
            raise NotReady("it does not listen yet")

    def alive(self) -> bool:
        """Whether the process runs."""
        return self.running


class Pools:
    """The shared processes of a run, or of several runs one after the other: a new one when the last one has died.

    Args:
        start: (name) → a started process.
    """

    def __init__(self, start: Callable[[str], CommitterPool]) -> None:
        self._start = start
        self._lock = threading.Lock()
        self._pool: CommitterPool | None = None
        self._generation = 0

    def current(self) -> CommitterPool:
        """The process that runs. Callable from any thread."""
        with self._lock:
            if self._pool is None or not self._pool.alive():
                tag = "committers" if self._generation == 0 else f"committers.{self._generation}"
                self._pool = self._start(tag)
                self._generation += 1
            return self._pool

    def close(self) -> None:
        """End it."""
        with self._lock:
            if self._pool is not None:
                self._pool.kill()
                self._pool = None
