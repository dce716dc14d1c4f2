"""The processes that a verb can strike, as it sees them. The services of ``compose`` and the drivers of writers fit these protocols."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, runtime_checkable

from nemesis.faults.packets import Packets

READY_SECONDS = 60.0
"""Seconds within which a process that was started answers."""
ACT_SECONDS = 60.0
"""Seconds within which a process is stopped or launched: as long as the client of a container engine waits for its answer."""

Undo = Callable[[], None]
"""Ends the fault: a stopped process continues; a killed one is started again and has answered. Raises ServiceError."""


class Suspect(Protocol):
    """A process that can be struck: a service of the stack, a driver, an executor."""

    @property
    def name(self) -> str:
        """What people call it."""

    def kill(self) -> None:
        """SIGKILL."""

    def pause(self) -> None:
        """SIGSTOP."""

    def resume(self) -> None:
        """SIGCONT."""


class StackServer(Suspect, Protocol):
    """A service of the stack: it can be started again."""

    @property
    def role(self) -> str | None:
        """The target that it is: ``catalog``, ``database``, ``store``, ``spark-master``, ``spark-worker``; None: no fault targets it."""

    def start(self) -> None:
        """Launch it; do nothing if it runs. Raises ServiceError."""

    def ready(self, timeout: float) -> None:
        """Return when it answers. Raises ServiceError after ``timeout`` seconds."""

    def stop(self) -> None:
        """Stop it politely. Raises ServiceError."""

    def restart(self) -> None:
        """Stop it politely, start it again, and wait until it answers. Raises ServiceError."""


@runtime_checkable
class Fillable(StackServer, Protocol):
    """A service in a container, with a disk of its own."""

    def fill(self) -> None:
        """Fill its disk to the last byte. Raises ServiceError if its disk is not one that may be filled."""

    def empty(self) -> None:
        """Remove what filled its disk. Raises ServiceError."""


@runtime_checkable
class Contained(Fillable, Protocol):
    """A service in a container, with a disk and a network of its own."""

    def disconnect(self) -> None:
        """Take it out of its network: no packet arrives or leaves. Raises ServiceError."""

    def reconnect(self) -> None:
        """Put it back into its network, under its names. Raises ServiceError."""

    def delays_packets(self) -> bool:
        """Whether the kernel can delay packets (``tc netem``). Raises ServiceError."""

    def hamper(self, packets: Packets) -> None:
        """Drop, reset or delay packets between its ports and its clients until ``let_pass``. Raises ServiceError."""

    def let_pass(self) -> None:
        """Let all packets pass again. Raises ServiceError."""


class NoTarget(Exception):
    """There is no process of the targeted kind, or the fault cannot strike it. The message says which and why."""


def contained(server: Suspect, verb: str) -> Contained:
    """The server, if it runs in a container. Raises NoTarget if not."""
    if not isinstance(server, Contained):
        raise NoTarget(f"{verb} {_NEEDS.format(server.name)}")
    return server


def fillable(server: Suspect, verb: str) -> Fillable:
    """The server, if it runs in a container with a disk. Raises NoTarget if not."""
    if not isinstance(server, Fillable):
        raise NoTarget(f"{verb} {_NEEDS.format(server.name)}")
    return server


_NEEDS = "strikes containers only, and {} runs as a process: --docker"


def nothing_to_undo() -> None:
    """The fault is already over."""
