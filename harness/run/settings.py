"""The settings of a run, and the watcher that follows its progress."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

from checkers.coverage.pair import Pair
from compose.endpoints import Endpoints
from compose.external.external import External
from compose.processes.service import Service
from harness.run.ordering import Ordering
from harness.run.writer_proxies import WriterProxies
from harness.writers.committers import Pools
from harness.writers.slot import DriverProcess, WriterSlot
from workloads import generator
from workloads.file.workload import Phase, Workload
from workloads.generator import PlannedOperation

WRITER_START_S = 240.0
"""Seconds within which a writer's Spark session must be ready."""
REPLACE_TRIES = 3
"""How often a writer that died is replaced before the run fails."""


OnHost = Literal["drivers", "spark"]
"""What of Spark runs as processes beside services in containers: the drivers, or master, workers and drivers."""


class Watcher(Protocol):
    """Receives the messages and the progress of a run."""

    def say(self, text: str) -> None:
        """Report an event in one line."""

    def progress(self, done: int, total: int | None) -> None:
        """``done`` operations completed, of ``total`` if that is known."""

    def lasts(self, seconds: float | None) -> None:
        """What begins now takes so many seconds; None: it is not limited by time."""


@dataclass(frozen=True)
class OnlineSettings:
    """How the check during a run tells what it knows (``harness.run.online``).

    Attributes:
        line: gets how far the run is, in one line, every ``every`` seconds.
        news: gets each anomaly, which tables are closed and why, and why the check ended early if it failed.
        stop: whether the first anomaly ends the load.
    """

    line: Callable[[str], None]
    news: Callable[[str], None]
    every: float = 10.0
    stop: bool = False


@dataclass(frozen=True)
class Settings:
    """How to run a workload.

    Attributes:
        seed: seed of the generator.
        command: the command that repeats the run.
        ports: service name → port that the user chose.
        spark_workers: Spark worker processes of an embedded stack.
        capture_interval: seconds between captures of the table log while running; None: only at the end. A capture sees what a later
            commit hides, so a run with a fixed order must not depend on the time of a capture.
        share_final_reads: whether one writer reads each table at the end, instead of all writers.
        stop: set by other threads, it ends the run soon and keeps what was recorded.
        writer_proxies: proxies between the writers and the services; if None, a run with a nemesis makes its own.
        warm: sockets of drivers for the writers to use, each in a session with this run's catalog. They must have the jars that the catalog
            needs, and no other run may use them meanwhile.
        drivers: for each socket of ``warm`` a function that returns its driver process, which faults may strike; empty: they strike none.
        pools: the process of its committers, which later runs use, too; None: a run with committers starts its own.
        proxied: whether a run without a nemesis makes proxies too, so that its proxy log has every request.
        store_too: whether such a run has proxies before the object store, and not only before the catalog.
        external: services that the user supplies; never started here.
        docker: whether the object store, the catalog's servers and Spark run in containers.
        on_host: what of Spark runs as processes all the same.
        clean: whether to drop the tables at the end.
        online: how the check during the run tells what it knows; None: there is none.
        about: further keys of the plan, such as the scenario.
        launched: gets the writers when all have connected.
        order: who decides the order of the writers' requests; None: the workload says.
        seen: interleaving → how often earlier runs exercised it; guides an order by coverage.
        operations: (workload, phase, writer, seed) → the writer's operations in the phase; default: the seeded generator's.
    """

    seed: int
    command: str
    ports: Mapping[str, int] = field(default_factory=dict)
    spark_workers: int = 2
    capture_interval: float | None = 10.0
    writer_proxies: WriterProxies | None = None
    warm: tuple[Path, ...] = ()
    drivers: tuple[Callable[[], DriverProcess | None], ...] = ()
    pools: Pools | None = None
    proxied: bool = False
    store_too: bool = True
    share_final_reads: bool = False
    stop: threading.Event = field(default_factory=threading.Event)
    external: External = field(default_factory=External)
    docker: bool = False
    on_host: OnHost | None = None
    clean: bool = False
    online: OnlineSettings | None = None
    about: Mapping[str, Any] = field(default_factory=dict)
    launched: Callable[[Sequence[WriterSlot]], None] = lambda _: None
    order: Ordering | None = None
    seen: Mapping[Pair, int] = field(default_factory=dict)
    operations: Callable[[Workload, Phase, int, int], Iterable[PlannedOperation]] = generator.operations

    @property
    def contained_spark(self) -> bool:
        """Whether Spark's master and workers run in containers, if icequake starts them."""
        return self.docker and self.on_host != "spark"

    @property
    def contained_drivers(self) -> bool:
        """Whether the drivers of Spark's writers run in containers."""
        return self.docker and self.on_host is None


@dataclass(frozen=True)
class StandingStack:
    """A stack that is already running: the addresses of its services and the sockets of its warm writers.

    Attributes:
        services: those that this process started; faults of processes can strike them.
        keeper: whose it is, if another process keeps it; empty: this one does.
    """

    endpoints: Endpoints
    sockets: tuple[Path, ...] = ()
    services: Mapping[str, Service] = field(default_factory=dict)
    keeper: str = ""

    @property
    def way_round(self) -> str:
        """Whose stack it is, and how a run does without it."""
        return f"the stack that is up, {self.keeper}; --fresh starts one for this run alone"
