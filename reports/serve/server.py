"""The server: connections, requests, and their end. Only GET and HEAD; what is answered is in ``reports.serve.answer``."""

from __future__ import annotations

import contextlib
import ipaddress
import socket
import socketserver
import sys
import threading
from collections.abc import Callable, Container, Iterable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any

from reports.serve.answer import Response, answer, error
from reports.serve.files import OpenFile
from reports.serve.index import Index

IDLE_SECONDS = 20.0
"""Seconds that a connection may be silent."""
_REMEDY = (
    "If it is one of this machine's, start icequake serve with --name and that name; or use the machine's address."
)
LOOPBACK = ("localhost", "127.0.0.1", "[::1]")


class StoreServer:
    """Serves a store from when it is made until it is closed; use in ``with``.

    Args:
        store: an existing folder.
        host: a name or address of this machine.
        port: 0: any free one.
        names: other names of this machine, by which a browser may ask for pages. Addresses, ``localhost`` and the machine's own name are known.
        say: told of an error of the server itself, in one line.

    Raises:
        OSError: the port is taken, or the host is none of this machine's.
    """

    def __init__(
        self,
        store: Path,
        host: str = "127.0.0.1",
        port: int = 0,
        say: Callable[[str], object] | None = None,
        names: Iterable[str] = (),
    ) -> None:
        self.index = Index(store)
        family, _, _, _, where = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        self.loopback = _is_loopback(str(where[0]))
        """Whether only this machine reaches it."""
        known = _names(self.loopback, (host, *names))
        self._http = _Http(family, (str(where[0]), int(where[1])), self.index, known, say or _stderr)

    @property
    def port(self) -> int:
        """The port that it listens to."""
        return int(self._http.server_address[1])

    @property
    def url(self) -> str:
        """The address of the list of runs."""
        host = str(self._http.server_address[0])
        return f"http://{f'[{host}]' if ':' in host else host}:{self.port}/"

    def serve(self) -> None:
        """Answer requests until :meth:`stop`, or an exception in this thread such as KeyboardInterrupt."""
        self._http.serve_forever(poll_interval=0.2)

    def stop(self) -> None:
        """Let :meth:`serve`, which runs in another thread, return."""
        self._http.shutdown()

    def close(self) -> None:
        """Close every connection and wait for its thread."""
        self._http.server_close()

    def __enter__(self) -> StoreServer:
        return self

    def __exit__(self, kind: type[BaseException] | None, e: BaseException | None, where: TracebackType | None) -> None:
        self.close()


def _stderr(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


class _Http(ThreadingHTTPServer):
    daemon_threads = False
    block_on_close = True

    def __init__(
        self,
        family: socket.AddressFamily,
        where: tuple[str, int],
        index: Index,
        names: Container[str],
        say: Callable[[str], object],
    ) -> None:
        self.address_family = family
        self.index = index
        self.say = say
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self.names = names
        super().__init__(where, _Handler)

    def server_bind(self) -> None:
        """As the base's, without asking a name server who this machine is."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = self.server_address[:2]  # type: ignore[assignment]

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer in a thread of its own."""
        with self._lock:
            self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """A connection ended."""
        with self._lock:
            self._open.discard(request)
        super().shutdown_request(request)

    def server_close(self) -> None:
        """End every connection, so that no thread waits for a client, and wait for the threads."""
        with self._lock:
            for request in self._open:
                with contextlib.suppress(OSError):
                    request.shutdown(socket.SHUT_RDWR)
        super().server_close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is no error."""
        e = sys.exception()
        if not isinstance(e, ConnectionError | TimeoutError):
            self.say(f"icequake: serve: {type(e).__name__}: {e}")


def _is_loopback(host: str) -> bool:
    return host == "::1" or host.startswith("127.")


class _Names(frozenset[str]):
    """Names, and all addresses: a page of another site has a name that its owner made point at this machine (DNS rebinding)."""

    def __contains__(self, name: object) -> bool:
        with contextlib.suppress(ValueError):
            ipaddress.ip_address(str(name).removeprefix("[").removesuffix("]"))
            return True
        return super().__contains__(name)


def _names(loopback: bool, given: Iterable[str]) -> Container[str]:
    """By which names browsers may ask, in lower case. No name server is asked."""
    own = {*map(str.lower, given), "localhost"}
    if loopback:
        return frozenset({*LOOPBACK, *own})
    machine = socket.gethostname().lower()
    return _Names({*own, machine, machine.partition(".")[0]})


class _Handler(BaseHTTPRequestHandler):
    server: _Http
    timeout = IDLE_SECONDS
    server_version = "icequake"
    sys_version = ""

    def do_GET(self) -> None:
        """Answer GET."""
        self._answer()

    do_HEAD = do_GET

    def _not_allowed(self) -> None:
        page = error(HTTPStatus.METHOD_NOT_ALLOWED, "This server only shows; it answers GET and HEAD.")
        self._send(Response(page.code, page.body, {**page.headers, "Allow": "GET, HEAD"}))

    do_POST = do_PUT = do_DELETE = do_PATCH = do_OPTIONS = do_TRACE = do_CONNECT = _not_allowed

    def _answer(self) -> None:
        host = (self.headers.get("Host") or "").lower()
        name = host.rpartition(":")[0] if not host.endswith("]") and ":" in host else host
        if host and name.removesuffix(".") not in self.server.names:
            return self._send(
                error(HTTPStatus.MISDIRECTED_REQUEST, f"This server does not have the name {name[:100]!r}. {_REMEDY}")
            )
        if not self.path.startswith("/"):
            return self._send(error(HTTPStatus.BAD_REQUEST, "The address must begin with a slash."))
        try:
            found = answer(self.server.index, self.path)
        except Exception as e:
            self.server.say(f"icequake: serve: {self.path[:200]!r}: {type(e).__name__}: {e}")
            found = error(HTTPStatus.INTERNAL_SERVER_ERROR, f"The page cannot be made ({type(e).__name__}).")
        self._send(found)

    def _send(self, found: Response) -> None:
        try:
            self.send_response(found.code)
            for name, value in found.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(found.size))
            self.end_headers()
            if self.command != "HEAD":
                self._body(found)
        finally:
            if isinstance(found.body, OpenFile):
                found.body.file.close()

    def _body(self, found: Response) -> None:
        if not isinstance(found.body, OpenFile):
            self.wfile.write(found.body)
            return
        remaining = found.size  # a file of a running run grows; its length was said
        while remaining and (part := found.body.file.read(min(remaining, 1 << 20))):
            self.wfile.write(part)
            remaining -= len(part)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """What the base refuses: a request that is none, or too long."""
        self.command = getattr(self, "command", None) or "GET"
        self._send(error(HTTPStatus(code), message or HTTPStatus(code).description or HTTPStatus(code).phrase))

    def log_message(self, format: str, *args: Any) -> None:
        """Requests are not logged."""
