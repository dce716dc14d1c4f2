"""Faults of processes: servers, executors and drivers are killed, stopped for a while, started anew."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Protocol

import psutil

from compose.processes.service import Service
from nemesis.faults.fault import Fault, Target

READY_SECONDS = 60.0
"""Seconds within which a process that was started answers."""
ACT_SECONDS = 60.0
"""Seconds within which a process is stopped or launched: as long as the client of a container engine waits for its answer."""
SERVICES: Mapping[Target, tuple[str, ...]] = {
    "catalog": ("rest", "hive", "nessie", "moto", "polaris", "postgres"),
    "database": ("postgres",),
    "store": ("minio",),
    "spark-master": ("spark-master",),
}
"""Target → the services that it may be, the first that is there: a catalog without a server of its own is its database."""
EXECUTOR = "CoarseGrainedExecutorBackend"


class NoTarget(Exception):
    """There is nothing of the kind that the fault strikes; the message says what."""


class Suspect(Protocol):
    """A process that can be struck: a service of the stack, a driver."""

    @property
    def name(self) -> str:
        """What people call it."""

    def kill(self) -> None:
        """SIGKILL."""

    def pause(self) -> None:
        """SIGSTOP."""

    def resume(self) -> None:
        """SIGCONT."""


Undo = Callable[[], None]
"""Ends the fault: what was stopped goes on, what was killed is started, and answers. Raises ServiceError."""


class Processes:
    """What a stack runs.

    Args:
        services: by name.
        drivers: the driver process of a writer; None while it has none.
        seed: of the choice among several.
    """

    def __init__(
        self, services: Mapping[str, Service], drivers: Sequence[Callable[[], Suspect | None]], seed: int
    ) -> None:
        self._services = services
        self._drivers = drivers
        self._rng = Random(f"{seed}/processes")

    def strike(self, fault: Fault) -> tuple[str, Undo]:
        """Begin a fault of a process.

        Returns:
            Whom it struck, and how to end it; ending it twice does nothing more.

        Raises:
            NoTarget: there is none.
            ServiceError: it cannot be stopped.
        """
        assert fault.target is not None
        if fault.target == "executor":
            return self._executor(fault)
        if fault.target == "driver":
            return self._driver(fault)
        service = self._service(fault.target)
        if fault.verb == "restart":
            service.restart()
            return service.name, _nothing
        if fault.verb == "pause":
            service.pause()
            return service.name, service.resume
        service.kill()

        def revive() -> None:
            service.start()
            service.ready(READY_SECONDS)

        return service.name, revive

    def _service(self, target: Target) -> Service:
        if target == "spark-worker":
            names = sorted(n for n in self._services if n.startswith("spark-worker-"))
            names = [self._rng.choice(names)] if names else []
        else:
            names = [n for n in SERVICES[target] if n in self._services]
        if not names:
            raise NoTarget(f"this stack has no {target} of its own")
        return self._services[names[0]]

    def _driver(self, fault: Fault) -> tuple[str, Undo]:
        n = self._rng.choice(fault.writers or range(len(self._drivers)))
        driver = self._drivers[n]() if n < len(self._drivers) else None
        if driver is None:
            raise NoTarget(f"writer w{n} has no driver process that is ours")
        if fault.verb == "pause":
            driver.pause()
            return driver.name, driver.resume
        driver.kill()  # its writer replaces it
        return driver.name, _nothing

    def _executor(self, fault: Fault) -> tuple[str, Undo]:
        found = []
        for name in sorted(self._services):
            pid = getattr(self._services[name], "pid", None) if name.startswith("spark-worker-") else None
            if pid is not None:
                with contextlib.suppress(psutil.Error):
                    children = psutil.Process(pid).children(recursive=True)
                    found += [c for c in children if any(EXECUTOR in part for part in c.cmdline())]
        if not found:
            ours = any(name.startswith("spark-worker-") for name in self._services)
            raise NoTarget("no executor runs" if ours else "this stack has no executors of its own")
        victim = self._rng.choice(sorted(found, key=lambda p: p.pid))
        name = f"executor {victim.pid}"
        if fault.verb == "pause":
            victim.send_signal(signal.SIGSTOP)

            def resume() -> None:
                with contextlib.suppress(psutil.Error):
                    victim.send_signal(signal.SIGCONT)

            return name, resume
        with contextlib.suppress(psutil.NoSuchProcess):
            victim.send_signal(signal.SIGKILL)  # its worker starts another
        return name, _nothing


def _nothing() -> None:
    """It is over."""
