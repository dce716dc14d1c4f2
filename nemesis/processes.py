"""Faults of processes: servers, executors and drivers are killed, stopped for a while, or restarted."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Mapping, Sequence
from random import Random

import psutil

from nemesis.faults.fault import Fault
from nemesis.faults.fields import Target
from nemesis.faults.suspects import Contained, NoTarget, StackServer, Suspect, Undo
from nemesis.faults.verb import PacketVerb, ProcessVerb

EXECUTOR = "CoarseGrainedExecutorBackend"


class Executor:
    """A Spark executor, a child of its worker."""

    def __init__(self, process: psutil.Process) -> None:
        self._process = process

    @property
    def name(self) -> str:
        """``executor`` and its process id."""
        return f"executor {self._process.pid}"

    def kill(self) -> None:
        """SIGKILL; its worker starts another."""
        with contextlib.suppress(psutil.NoSuchProcess):
            self._process.send_signal(signal.SIGKILL)

    def pause(self) -> None:
        """SIGSTOP. Raises psutil.Error."""
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT, if it still runs."""
        with contextlib.suppress(psutil.Error):
            self._process.send_signal(signal.SIGCONT)


class Processes:
    """The processes of a stack.

    Args:
        services: by name.
        drivers: for each writer, a function that returns its driver process; None while it has none.
        seed: decides which one is struck where there are several.
    """

    def __init__(
        self, services: Mapping[str, StackServer], drivers: Sequence[Callable[[], Suspect | None]], seed: int
    ) -> None:
        self._services = services
        self._drivers = drivers
        self._rng = Random(f"{seed}/processes")

    def strike(self, fault: Fault) -> tuple[str, Undo]:
        """Begin a fault of a process.

        Returns:
            The name of the process, and how to end the fault; ending it twice does nothing more.

        Raises:
            NoTarget: there is no such process.
            ServiceError: it cannot be stopped.
        """
        verb, target = fault.action, fault.target
        assert isinstance(verb, ProcessVerb) and target is not None
        if target == "executor" or target == "driver":
            suspect = self._executor() if target == "executor" else self._driver(fault)
            return suspect.name, verb.strike(suspect)
        server = self._server(target)
        if isinstance(verb, PacketVerb):
            return server.name, verb.strike_packets(server, fault)
        return server.name, verb.strike_server(server)

    def by_proxies(self, fault: Fault) -> Fault | None:
        """The fault of connections that stands for a fault of packets; None if the packets themselves can be struck.

        Raises:
            NoTarget: neither is possible.
            ServiceError: a container cannot be asked.
        """
        verb, target = fault.action, fault.target
        assert isinstance(verb, PacketVerb) and target is not None
        contained = None
        with contextlib.suppress(NoTarget):  # a service of the user's
            server = self._server(target)
            contained = server if isinstance(server, Contained) else None
        if contained is not None and (not verb.packets(fault).seconds or contained.delays_packets()):
            return None
        writers_ask_it = bool(self._of_role("database")) and not self._of_role("catalog")
        service = "catalog" if target == "database" and writers_ask_it else target
        if contained is not None and service == "database":
            raise NoTarget(
                f"this kernel has no netem to delay the packets of {contained.name}, and no proxy stands before a database in a container"
            )
        return Fault.model_validate({**verb.by_proxies(fault), "service": service, "request": "any"})

    def _of_role(self, role: Target) -> list[StackServer]:
        return [s for s in self._services.values() if s.role == role]

    def _workers(self) -> list[StackServer]:
        return sorted(self._of_role("spark-worker"), key=lambda s: s.name)

    def _server(self, target: Target) -> StackServer:
        if target == "spark-worker":
            found = self._workers()
            found = [self._rng.choice(found)] if found else []
        else:
            found = self._of_role(target)
        if target == "catalog" and not found:
            found = self._of_role("database")  # a catalog without a server of its own is its database
        if not found:
            raise NoTarget(f"this stack has no {target} of its own")
        return found[0]

    def _driver(self, fault: Fault) -> Suspect:
        n = self._rng.choice(fault.writers or range(len(self._drivers)))
        driver = self._drivers[n]() if n < len(self._drivers) else None
        if driver is None:
            raise NoTarget(f"writer w{n} has no driver process that is ours")
        return driver

    def _executor(self) -> Executor:
        workers = self._workers()
        found = []
        for worker in workers:
            host_pid = getattr(worker, "host_pid", None)
            if host_pid is not None and (pid := host_pid()) is not None:
                with contextlib.suppress(psutil.Error):
                    children = psutil.Process(pid).children(recursive=True)
                    found += [c for c in children if any(EXECUTOR in part for part in c.cmdline())]
        if not found:
            raise NoTarget("no executor runs" if workers else "this stack has no executors of its own")
        return Executor(self._rng.choice(sorted(found, key=lambda p: p.pid)))
