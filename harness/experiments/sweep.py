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
from dataclasses import dataclass, field, replace
from pathlib import Path

from checkers.evidence import runfolder
from checkers.evidence.runfolder import RunFolder
from compose.install.installation import Installation
from compose.processes.service import ServiceError
from harness.experiments.compare import Compare, engaged
from harness.run.bench import Bench, Quietly
from harness.run.run import Run
from harness.run.settings import Settings, StandingStack, Watcher
from harness.writers.committers import Pools
from harness.writers.driver import pools
from harness.writers.slot import WriterError
from workloads.engines.engine import Pooled
from workloads.engines.engines import ENGINES, SPARK
from workloads.file.workload import Length, Workload
from workloads.operations.kinds import KINDS

WARM_UP_S = 4.0
"""Seconds of load before the first run of a new process: a JVM that has just started is slow."""


@dataclass(frozen=True)
class Warm:
    """What stays up between the runs of one catalog and release."""

    bench: Bench
    pools: Pools


@dataclass
class Sweep(Compare):
    """Runs the combinations of an order into a folder; use in ``with``, which ends the stacks."""

    _stacks: dict[tuple[str, Path], Warm] = field(default_factory=dict)
    _open: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)

    def __enter__(self) -> Sweep:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def _execute(
        self, workload: Workload, folder: RunFolder, installation: Installation, settings: Settings, said: Watcher
    ) -> None:
        if settings.external.catalog is not None:
            return super()._execute(workload, folder, installation, settings, said)
        key = (workload.catalog, installation.jars["spark"][-1])
        warm = self._stacks.get(key)
        if warm is None:
            warm = self._start(workload, installation)
            self._warm_up(workload, installation, warm)
            self._stacks[key] = warm
        settings = _settings(workload, settings, warm)
        try:
            Run(workload, folder, installation, settings, standing=_standing(warm), watcher=said).execute()
        except (ServiceError, WriterError):
            self._stacks.pop(key, None)  # the next run gets a new one
            raise

    def _start(self, workload: Workload, installation: Installation) -> Warm:
        sparks = max(1, *(engaged(self.order.workload, c).engines.count(SPARK) for c in self.order.contenders))
        logs = self.into / "logs" / workload.catalog
        self.watcher.say(f"starting the stack of {workload.catalog}, which all its runs use")
        with contextlib.ExitStack() as stack:
            bench = Bench(installation, sparks, logs, self.watcher, catalog=workload.catalog)
            bench = stack.enter_context(bench)
            data = Path(stack.enter_context(_scratch()))
            shared = pools(installation, bench.endpoints, run_id=bench.run_id, data=data, logs=logs)
            stack.callback(shared.close)
            self._open.push(stack.pop_all())
        return Warm(bench, shared)

    def _warm_up(self, workload: Workload, installation: Installation, warm: Warm) -> None:
        """Some load that is not measured."""
        if not any(isinstance(ENGINES[e], Pooled) for e in workload.engines):
            return
        short = workload.model_copy(update={"length": Length(time=WARM_UP_S), "phases": (), "nemesis": None})
        with _scratch() as place:
            folder = runfolder.create(Path(place), workload.workload)
            settings = _settings(short, Settings(seed=0, command="", proxied=True), warm)
            Run(short, folder, installation, settings, standing=_standing(warm), watcher=Quietly(None)).execute()


def _settings(workload: Workload, settings: Settings, warm: Warm) -> Settings:
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


def _standing(warm: Warm) -> StandingStack:
    return StandingStack(warm.bench.endpoints, services=dict(warm.bench.groups[0].services))


@contextlib.contextmanager
def _scratch() -> Iterator[str]:
    place = tempfile.mkdtemp(prefix="icequake-")
    try:
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)
