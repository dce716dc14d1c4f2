"""``icequake sweep``: one workload with every combination of some parameters' values, each with several seeds, on warm stacks.

It is a comparison (``harness.experiments.compare``) whose contenders are the combinations. All of them run for each seed. The stack of a
catalog and release is started once: its Spark writers, if a combination has some, and the process of the committers stay up from run to run,
because fifty short runs would otherwise spend their time in starting servers. Each run has a namespace and tables of its own, and proxies
before the catalog; those of the store are left out, unless faults need them, so that the writers' files do not pass through this process.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from checkers.costs.comparison import Contender
from checkers.evidence import runfolder
from checkers.evidence.replace import replace
from checkers.evidence.runfolder import RunFolder
from compose.install.installation import Installation
from compose.redaction import secrets_of
from harness.campaign.stacks import Key, WarmStacks
from harness.experiments.compare import Compare, engaged
from harness.run.bench import Bench, Quietly
from harness.run.run import Run
from harness.run.settings import Settings, StandingStack, Watcher
from harness.writers.committers import Pools
from harness.writers.driver import pools
from workloads.engines.engine import Pooled
from workloads.engines.engines import ENGINES, SPARK
from workloads.file.workload import Length, Workload
from workloads.operations.kinds import KINDS

WARM_UP_S = 4.0
"""Seconds of load before the first run of a new process: a JVM that has just started is slow."""


@dataclass(frozen=True)
class WarmParts:
    """What stays up between the runs of one catalog and release."""

    bench: Bench
    pools: Pools


@dataclass
class Sweep(Compare):
    """Runs the combinations of an order into a folder."""

    command: ClassVar[str] = "sweep"

    _stacks: WarmStacks[WarmParts] = field(init=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        hidden = secrets_of(self.order.workload.catalog_properties)
        # Another release for the next run of each seed must not cost the start of a stack each time: all stay up.
        self._stacks = WarmStacks(
            self._warm, self.into / "logs", self.watcher.say, most=None, runs=None, secrets=hidden
        )

    def _execute(
        self,
        contender: Contender,
        workload: Workload,
        folder: RunFolder,
        installation: Installation,
        settings: Settings,
        watcher: Watcher,
    ) -> None:
        if settings.external.catalog is not None:
            return super()._execute(contender, workload, folder, installation, settings, watcher)
        with self._stacks.lease(self._key(contender)) as lease:
            self._on_warm(lease.stack, workload, folder, installation, settings, watcher)

    def _key(self, contender: Contender) -> Key:
        mode = engaged(self.order.workload, contender).mode
        return (contender.catalog, contender.iceberg, *mode.given.values())

    def _on_warm(
        self,
        warm: WarmParts,
        workload: Workload,
        folder: RunFolder,
        installation: Installation,
        settings: Settings,
        watcher: Watcher,
    ) -> None:
        settings = _settings(workload, settings, warm)
        Run(workload, folder, installation, settings, standing=_standing(warm), watcher=watcher).execute()

    @contextlib.contextmanager
    def _warm(self, key: Key, logs: Path, _: WarmParts | None) -> Iterator[WarmParts]:
        """A stack that has had some load."""
        own = [c for c in self.order.contenders if self._key(c) == key]
        workload = engaged(self.order.workload, own[0]).model_copy(update={"catalog": key[0]})
        installation = self._installation(own[0])
        sparks = max(1, *(engaged(self.order.workload, c).engines.count(SPARK) for c in self.order.contenders))
        made = Bench(installation, sparks, logs, self.watcher, catalog=key[0], mode=workload.mode)
        with made as bench, _scratch() as data:
            shared = pools(installation, bench.endpoints, run_id=bench.run_id, data=Path(data), logs=logs)
            with contextlib.closing(shared):
                warm = WarmParts(bench, shared)
                self._warm_up(workload, installation, warm)
                yield warm

    def _warm_up(self, workload: Workload, installation: Installation, warm: WarmParts) -> None:
        """Some load that is not measured."""
        if not any(isinstance(ENGINES[e], Pooled) for e in workload.engines):
            return
        short = workload.model_copy(update={"length": Length(time=WARM_UP_S), "phases": (), "nemesis": None})
        with _scratch() as place:
            folder = runfolder.create(Path(place), workload.workload)
            settings = Settings(seed=0, command="", proxied=True)
            self._on_warm(warm, short, folder, installation, settings, Quietly(None))


def _settings(workload: Workload, settings: Settings, warm: WarmParts) -> Settings:
    kinds = {k for p in workload.resolved_phases() for k in p.operations or ()}
    captured = any(KINDS[k].needs_captured_log for k in kinds)
    return replace(
        settings,
        warm=warm.bench.sockets(),
        pools=warm.pools,
        store_too=workload.nemesis is not None,
        share_final_reads=True,
        capture_interval=settings.capture_interval if captured else None,
    )


def _standing(warm: WarmParts) -> StandingStack:
    return StandingStack(warm.bench.endpoints, services=dict(warm.bench.groups[0].services))


@contextlib.contextmanager
def _scratch() -> Iterator[str]:
    place = tempfile.mkdtemp(prefix="icequake-")
    try:
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)
