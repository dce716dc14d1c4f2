"""A store that answers 503 for some of its objects: a server before MinIO, in this process."""

from __future__ import annotations

import contextlib
import http.client
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

NOT_PASSED = ("connection", "expect", "transfer-encoding")
"""Headers of a connection, not of what passes it."""


class Refusing(ThreadingHTTPServer):
    """Passes requests on, but for those that name an object of :attr:`refused`.

    Attributes:
        refused: ends of objects' keys.
        asked: how many requests for them there were.
    """

    daemon_threads = True

    def __init__(self, port: int) -> None:
        super().__init__(("127.0.0.1", 0), _Request)
        self.to = port
        self.refused: tuple[str, ...] = ()
        self.asked = 0

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Request(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # an answer is written in two parts
    server: Refusing

    def answer(self) -> None:
        body = self._body()
        if self.path.partition("?")[0].endswith(self.server.refused or ("\0",)):
            self.server.asked += 1
            self.send_response(503)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        connection = http.client.HTTPConnection("127.0.0.1", self.server.to, timeout=120)
        with contextlib.closing(connection):
            headers = {k: v for k, v in self.headers.items() if k.lower() not in NOT_PASSED}
            connection.request(self.command, self.path, body or None, headers)  # signed with the name of this server
            passed = connection.getresponse()
            data = passed.read()
        self.send_response_only(passed.status)
        size = {"content-length": passed.getheader("Content-Length")} if self.command == "HEAD" else {}
        kept = {k.lower(): v for k, v in passed.getheaders()} | {"content-length": str(len(data))} | size
        for name, value in kept.items():
            if name not in NOT_PASSED and value is not None:
                self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        parts = []
        while size := int(self.rfile.readline().partition(b";")[0], 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(parts)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = answer

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextlib.contextmanager
def refusing(port: int) -> Iterator[Refusing]:
    """Such a store before the one on a port of loopback, while the block runs."""
    with Refusing(port) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
