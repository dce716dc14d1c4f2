"""What a run is asked to do, and who watches it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from compose.endpoints import Endpoints
from compose.external.external import External
from compose.processes.service import Service
from harness.run.writer_proxies import WriterProxies
from workloads import generator
from workloads.file.workload import Phase, Workload
from workloads.generator import PlannedOperation

WRITER_START_S = 240.0
"""Seconds within which a writer's Spark session must be there."""
REPLACE_TRIES = 3
"""How often a writer is started again in place of one that died, before the run fails."""


class Watcher(Protocol):
    """Who is told how the run goes on."""

    def say(self, text: str) -> None:
        """Something happened: one line."""

    def progress(self, done: int, total: int | None) -> None:
        """``done`` operations completed, of ``total`` when that is known."""


class RunError(RuntimeError):
    """The harness could not do its work; one line with what to do."""


@dataclass(frozen=True)
class Settings:
    """How to run, beside the workload.

    Attributes:
        seed: of the generator.
        command: what repeats the run.
        ports: service name → port that the user wants.
        spark_workers: Spark worker processes of an embedded stack.
        capture_interval: seconds between captures of the table log while running; None: only at the end. A capture sees what a later
            commit hides, so a run whose order is laid down must not depend on when one falls.
        share_final_reads: whether each table is read by one writer at the end, not by all.
        stop: set by others, it ends the run soon, with what there is.
        writer_proxies: proxies between the writers and the services; a run with a nemesis makes its own when there are none.
        warm: sockets of drivers that the writers are to use, each in a session with this run's catalog; they have the jars that it needs,
            and whoever gives them keeps them from others meanwhile.
        proxied: whether a run makes its own also without a nemesis, so that every request is in its proxy log.
        external: services that the user supplies; never started here.
        clean: whether the tables are dropped at the end.
        operations: (workload, phase, writer, seed) → what the writer does in the phase; the seeded generator's.
    """

    seed: int
    command: str
    ports: Mapping[str, int] = field(default_factory=dict)
    spark_workers: int = 2
    capture_interval: float | None = 10.0
    writer_proxies: WriterProxies | None = None
    warm: tuple[Path, ...] = ()
    proxied: bool = False
    share_final_reads: bool = False
    stop: threading.Event = field(default_factory=threading.Event)
    external: External = field(default_factory=External)
    clean: bool = False
    operations: Callable[[Workload, Phase, int, int], Iterable[PlannedOperation]] = generator.operations


@dataclass(frozen=True)
class StandingStack:
    """A stack that is there already: where its services and warm writers (their sockets) are.

    Attributes:
        services: that faults of processes can strike: those that this process has started.
    """

    endpoints: Endpoints
    sockets: tuple[Path, ...] = ()
    services: Mapping[str, Service] = field(default_factory=dict)
