"""When client and service have closed their ends, the proxy has closed its own, whatever fault struck in between."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import psutil
import pytest

from nemesis.faults.fault import Fault
from nemesis.faults.registry import VERBS
from nemesis.faults.verb import ConnectionVerb
from tests.support.peers import PATIENCE, Rig, Want, eventually, play

COMMIT = b"POST /v1/namespaces/db/tables/t HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
NEEDS: dict[str, dict[str, Any]] = {
    "delay": {"seconds": 0.001},
    "throttle": {"rate": 1 << 20},
    "late": {"seconds": 0.001},
    "stale": {"request": "load"},
}


@pytest.fixture
def rig() -> Iterator[Rig]:
    with Rig("http") as rig:
        yield rig


def held(rig: Rig) -> list[str]:
    """The sockets that the proxy has: its ends of connections to the service, and of connections of clients."""
    mine = psutil.Process().net_connections("tcp")
    to_service = [c for c in mine if c.raddr and c.raddr.port == rig.listener.route.upstream[1]]
    of_clients = [c for c in mine if c.raddr and c.laddr.port == rig.listener.port]
    return [f"{c.laddr.port} to {c.raddr.port}: {c.status}" for c in to_service + of_clients]


class Service:
    """Answers each request with OK on as many connections as come; closes its end when the proxy has finished."""

    def __init__(self, rig: Rig) -> None:
        self._rig = rig
        self.served = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):  # the rig is over
            while True:
                threading.Thread(target=self._answer, args=(self._rig.accept(),), daemon=True).start()

    def _answer(self, end: socket.socket) -> None:
        with end, suppress(OSError):
            while end.recv(1 << 16):
                self.served += 1
                end.sendall(OK)


def ask(rig: Rig, request: bytes) -> None:
    """One request on a connection of its own, which is closed after the reply, or after what came in its place."""
    with rig.client() as client, suppress(ConnectionError):
        client.sendall(request)
        client.recv(1 << 16)


@pytest.mark.parametrize("verb", [name for name, verb in VERBS.items() if isinstance(verb, ConnectionVerb)])
def test_every_verb_leaves_no_connection_open(rig: Rig, verb: Any) -> None:
    service = Service(rig)
    armed = rig.board.arm(Fault(verb=verb, **NEEDS.get(verb, {})))
    request = COMMIT
    if verb == "stale":
        request = b"GET /v1/namespaces/db/tables/t HTTP/1.1\r\nHost: x\r\n\r\n"
        key = "catalog GET /v1/namespaces/db/tables/t"
        rig.board.keep(key, "1", OK)
        rig.board.keep(key, "2", OK)
    if verb == "partition":
        with rig.client() as client:
            client.sendall(request)
            assert eventually(lambda: armed.hits.total() == 1)
            rig.board.end(armed)
            with suppress(ConnectionError):
                client.recv(1)
    else:
        ask(rig, request)
    assert armed.hits.total() == 1, "the fault did not strike"
    assert verb != "late" or eventually(lambda: service.served == 1)
    assert eventually(lambda: held(rig) == []), held(rig)


@pytest.mark.parametrize("service_ends_first", [False, True])
def test_the_connection_that_a_late_request_is_sent_on_is_closed(rig: Rig, service_ends_first: bool) -> None:
    hold = rig.board.hold("w0-1", Fault(verb="late", status=504))
    rig.board.invoked(0, "w0-1")
    client, service = rig.connection()
    client.settimeout(PATIENCE)
    client.sendall(COMMIT)
    assert client.recv(1 << 16).startswith(b"HTTP/1.1 504 ")
    if service_ends_first:
        service.close()
        for end in rig.connection():  # once it passes another connection on, the proxy has noticed the end of this one
            end.close()
    hold.release()
    play(rig.accept() if service_ends_first else service, [Want(COMMIT), OK])
    assert hold.passed.wait(PATIENCE) and hold.problem is None
    client.close()
    assert eventually(lambda: held(rig) == []), held(rig)
