"""Two ends of a conversation through a proxy, each playing its part on a plain socket."""

from __future__ import annotations

import contextlib
import itertools
import json
import socket
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from nemesis.faults.fields import Service
from nemesis.proxy.board import Board
from nemesis.proxy.listener import Listener, Proxies
from nemesis.proxy.route import WireName

PATIENCE = 300.0
"""Seconds after which a part that gets stuck fails: none does, and on a busy machine an answer may be long in coming."""


class Want:
    """The bytes that must come next."""

    def __init__(self, data: bytes) -> None:
        self.data = data


class Mark:
    """A step without bytes."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name


FIN = Mark("shut the sending half")
END = Mark("the other side has shut its sending half, or closed")
RESET = Mark("the connection was reset")
CUT = Mark("close with a reset")

Step = bytes | Want | Mark | threading.Event


def play(end: socket.socket, steps: Iterable[Step]) -> None:
    """Do one step after the other: send bytes, want bytes, wait for an event. Raises AssertionError when the other end does not as wanted."""
    end.settimeout(PATIENCE)
    for n, step in enumerate(steps):
        match step:
            case bytes():
                end.sendall(step)
            case Want(data=data):
                got = receive(end, len(data))
                assert got == data, f"step {n}: {got[:300]!r} came, not {data[:300]!r}"
            case threading.Event():
                assert step.wait(PATIENCE)
        if step is FIN:
            end.shutdown(socket.SHUT_WR)
        elif step is END:
            assert end.recv(1) == b"", f"step {n}: it goes on"
        elif step is RESET:
            with contextlib.suppress(ConnectionResetError):
                more = end.recv(1)
                raise AssertionError(f"step {n}: {more!r} came, not a reset")
        elif step is CUT:
            reset(end)


def receive(end: socket.socket, count: int) -> bytes:
    """``count`` bytes, or fewer at the end."""
    parts = bytearray()
    while len(parts) < count and (part := end.recv(min(count - len(parts), 1 << 20))):
        parts += part
    return bytes(parts)


def everything(end: socket.socket) -> bytes:
    """All bytes up to the end."""
    end.settimeout(PATIENCE)
    return receive(end, 1 << 40)


def reset(end: socket.socket) -> None:
    """Close with a reset."""
    end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    end.close()


def pieces(data: bytes, cuts: Sequence[int]) -> list[bytes]:
    """``data`` cut at some places."""
    at = sorted({0, len(data), *(c % (len(data) + 1) for c in cuts)})
    return [data[a:b] for a, b in itertools.pairwise(at)]


class Rig:
    """A proxy between this test's client and its service, which is a listening socket; use in ``with``."""

    def __init__(self, protocol: WireName, log: Path | None = None, *, service: Service = "catalog", writer: int = 0):
        self.board = Board()
        self.board.begin(time.monotonic_ns, log)
        self._log = log
        self._ended = False
        self._upstream = socket.create_server(("127.0.0.1", 0), backlog=64)
        self._upstream.settimeout(PATIENCE)
        self._proxies = Proxies(self.board)
        self._open = contextlib.ExitStack()
        self._proxies.__enter__()
        self.listener = self.listen(protocol, service, writer)

    def __enter__(self) -> Rig:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()
        self._end()
        self._upstream.close()

    def _end(self) -> None:
        if not self._ended:
            self._ended = True
            self._proxies.__exit__()
            self.board.close()

    def listen(self, protocol: WireName, service: Service = "catalog", writer: int = 0) -> Listener:
        """Another listener before the same service."""
        return self._proxies.listen(service, writer, protocol, "127.0.0.1", self._upstream.getsockname()[1])

    def client(self, listener: Listener | None = None) -> socket.socket:
        """A connection of a client."""
        end = socket.create_connection(("127.0.0.1", (listener or self.listener).port), timeout=PATIENCE)
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return self._open.enter_context(end)

    def accept(self) -> socket.socket:
        """The service's end of the next connection."""
        end = self._open.enter_context(self._upstream.accept()[0])
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        end.settimeout(PATIENCE)
        return end

    def connection(self, listener: Listener | None = None) -> tuple[socket.socket, socket.socket]:
        """Both ends of a connection."""
        client = self.client(listener)
        return client, self.accept()

    def talk(self, client: Iterable[Step], service: Iterable[Step]) -> None:
        """Play both parts on a new connection."""
        with contextlib.ExitStack() as ends:
            one, other = self.connection()
            ends.enter_context(one)
            ends.enter_context(other)
            with playing(other, service):
                play(one, client)

    def nobody_came(self) -> bool:
        """Whether no further connection reached the service."""
        self._upstream.setblocking(False)
        try:
            self._upstream.accept()[0].close()
        except BlockingIOError:
            return True
        finally:
            self._upstream.settimeout(PATIENCE)
        return False

    def stop_listening(self) -> None:
        """Close the service's port: nobody can connect to it any more."""
        self._upstream.close()

    def log(self) -> list[dict[str, Any]]:
        """Its lines. Ends the proxies."""
        self._end()
        assert self._log is not None
        return [json.loads(line) for line in self._log.read_text().splitlines()]


@contextlib.contextmanager
def playing(end: socket.socket, steps: Iterable[Step]) -> Iterator[None]:
    """The same in a thread of its own; what fails there fails here."""
    failed: list[BaseException] = []

    def run() -> None:
        try:
            play(end, steps)
        except BaseException as error:
            failed.append(error)
            end.close()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    except (AssertionError, OSError) as error:
        thread.join(1)
        if failed:
            raise failed[0] from error
        raise
    thread.join(PATIENCE)
    assert not thread.is_alive(), "the other side still waits"
    if failed:
        raise failed[0]


def eventually(condition: Any) -> bool:
    """Whether it comes true."""
    ends = time.monotonic() + PATIENCE
    while not condition() and time.monotonic() < ends:
        time.sleep(0.002)
    return bool(condition())
