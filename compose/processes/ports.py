"""Loopback ports for the services of one run.

Another process can take a free port between the moment it is found and the moment a server binds it. So ports are
drawn at random from below the range that the kernel gives to outgoing connections: two parallel runs rarely draw the
same, and no client's socket ever occupies one, not even while a killed server is down. A service that could not bind
its port draws again.
"""

from __future__ import annotations

import random
import socket
from collections.abc import Mapping
from threading import Lock

import psutil

from compose.processes.service import ServiceError

LOOPBACK = "127.0.0.1"

# Linux hands out 32768-60999 to clients, macOS and IANA 49152-65535.
FIRST, LAST = 15000, 32000
_DRAWS = 200


class PortInUse(ServiceError):
    """The port that the user chose for a service belongs to another program."""

    def __init__(self, service: str, port: int):
        self.port = port
        self.holder = holder(port)
        holder_words = f" by {self.holder}" if self.holder else ""
        super().__init__(
            service,
            f"port {port} is in use{holder_words}",
            remedy="stop that program, choose another port, or choose none to get a free one",
        )


class Ports:
    """The ports of one stack: those the user chose, and free ones for the rest. Thread-safe."""

    def __init__(self, chosen: Mapping[str, int] | None = None, *, rng: random.Random | None = None):
        self._chosen = dict(chosen or {})
        self._rng = rng or random.SystemRandom()
        self._taken: dict[str, int] = dict(self._chosen)
        self._lock = Lock()

    def is_chosen(self, name: str) -> bool:
        """Whether the user chose this port."""
        return name in self._chosen

    def claim(self, name: str) -> int:
        """The port of ``name``: the same one at every call."""
        with self._lock:
            if name not in self._taken:
                self._taken[name] = self._draw()
            return self._taken[name]

    def check_chosen(self) -> None:
        """Raise PortInUse if something listens on a port that the user chose."""
        for name in self._chosen:
            self.check(name)

    def check(self, name: str) -> None:
        """Raise PortInUse if something listens on the port of ``name``."""
        port = self.claim(name)
        if in_use(port):
            raise PortInUse(name, port)

    def draw_again(self, name: str) -> int:
        """Give ``name`` another free port. Raises PortInUse if the user chose the one it has."""
        if self.is_chosen(name):
            raise PortInUse(name, self._chosen[name])
        with self._lock:
            self._taken[name] = self._draw()
            return self._taken[name]

    def _draw(self) -> int:
        for _ in range(_DRAWS):
            port = self._rng.randint(FIRST, LAST)
            if port not in self._taken.values() and not in_use(port):
                return port
        raise ServiceError("ports", f"no free port between {FIRST} and {LAST} in {_DRAWS} draws")


def in_use(port: int) -> bool:
    """Whether a server holds this port of 127.0.0.1. Connections in TIME_WAIT do not count."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return True
    return False


def holder(port: int) -> str | None:
    """The process that listens on the port, as ``java (pid 123)``; None if the operating system does not show it."""
    try:
        for connection in psutil.net_connections(kind="tcp"):
            address = connection.laddr
            if connection.status == psutil.CONN_LISTEN and address and address.port == port and connection.pid:
                return f"{psutil.Process(connection.pid).name()} (pid {connection.pid})"
    except (psutil.Error, OSError):
        pass
    return None
