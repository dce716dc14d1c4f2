"""A catalog that forgets: a process of its own before an Iceberg REST catalog, which acknowledges each N-th commit and does not make it.

::

    python -m tests.support.forgetful http://127.0.0.1:8181 --every 300 --port 9000

A commit is a ``POST`` to a table with a new snapshot. A forgotten one is answered by 200 and the table as it is: that is what a client accepts,
which looks up its snapshot in the answer and at most logs that it is not there. Each forgotten commit is a line of the output.

With ``--once`` it forgets one, and no other until somebody sends a ``POST`` to ``/again``: so a test decides in which of its runs one is lost.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import math
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar
from urllib.parse import urlsplit

ROOT = Path(__file__).parents[2]
AGAIN = "/again"
_TABLE = re.compile(r".*/namespaces/[^/]+/tables/[^/]+")
_NOT_PASSED = {"transfer-encoding", "connection", "content-length", "content-encoding", "host", "accept-encoding"}


class Forgetful(BaseHTTPRequestHandler):
    """Passes requests on, but for the commits that it forgets."""

    protocol_version = "HTTP/1.1"
    to: ClassVar[tuple[str, int]]
    every: ClassVar[int]
    left: ClassVar[float]
    """How many it may forget."""
    commits: ClassVar[int] = 0
    lock: ClassVar[threading.Lock] = threading.Lock()

    def handle_one(self) -> None:
        """Pass a request on, or forget it."""
        if self.path == AGAIN:
            Forgetful.left = math.inf
            self.send_response(204)
            self.end_headers()
            return
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        commits = self.command == "POST" and _TABLE.fullmatch(urlsplit(self.path).path) and b'"add-snapshot"' in body
        if commits and self._forgets():
            print(f"forgot commit {Forgetful.commits} of {self.path}", flush=True)
            self._pass("GET", b"")
        else:
            self._pass(self.command, body)

    do_GET = do_POST = do_HEAD = do_DELETE = do_PUT = handle_one

    def _forgets(self) -> bool:
        with self.lock:
            Forgetful.commits += 1
            forgets = Forgetful.left > 0 and Forgetful.commits % self.every == 0
            Forgetful.left -= forgets
            return forgets

    def _pass(self, method: str, body: bytes) -> None:
        headers = {k: v for k, v in self.headers.items() if k.lower() not in _NOT_PASSED}
        connection = http.client.HTTPConnection(*self.to, timeout=120)
        with contextlib.closing(connection):
            connection.request(method, self.path, body or None, headers)
            answer = connection.getresponse()
            data = answer.read()
        self.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in _NOT_PASSED | {"date", "server"}:
                self.send_header(name, value)
        if answer.status != 204:
            self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: only forgotten commits are said."""


def main() -> None:
    """Serve until the process is ended."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("to")
    parser.add_argument("--every", type=int, required=True)
    parser.add_argument("--once", action="store_true")
    parser.add_argument("--port", type=int, default=0)
    given = parser.parse_args()
    url = urlsplit(given.to)
    Forgetful.to, Forgetful.every = (url.hostname or "127.0.0.1", url.port or 80), given.every
    Forgetful.left = 1 if given.once else math.inf
    server = ThreadingHTTPServer(("127.0.0.1", given.port), Forgetful)
    print(f"http://127.0.0.1:{server.server_port}", flush=True)
    server.serve_forever()


@contextlib.contextmanager
def forgetful(to: str, every: int, *, once: bool = False) -> Iterator[str]:
    """Such a catalog before the one at ``to``, while the block runs; its address. ``once``: as the option."""
    command = [sys.executable, "-m", "tests.support.forgetful", to, "--every", str(every), *["--once"] * once]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            address = process.stdout.readline().strip()
            assert address.startswith("http"), f"it does not serve: {address}"
            threading.Thread(target=process.stdout.read, daemon=True).start()
            yield address
        finally:
            process.kill()


if __name__ == "__main__":
    main()
