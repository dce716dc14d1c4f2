"""What a run opened is closed when it ends, so that a night of runs does not run out of file descriptors."""

from __future__ import annotations

import gc
import os
import threading
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO

from checkers.evidence import runfolder
from compose.endpoints import Endpoints
from compose.external.external import External
from compose.install.installation import Installation
from harness.run.run import Run
from harness.run.settings import Settings, StandingStack
from tests.harness.cli.test_cli import SMALL
from tests.support.runs import Silent
from workloads.file import workload_text


class Objects(BaseHTTPRequestHandler):
    """A store in which each object is three bytes long."""

    protocol_version = "HTTP/1.1"

    def do_HEAD(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "3")
        self.end_headers()

    def do_GET(self) -> None:
        self.do_HEAD()
        self.wfile.write(b"abc")

    def log_message(self, format: str, *args: object) -> None:
        pass


class Reading(Silent):
    """Reads an object by PyIceberg, as a run reads the metadata of its tables, and ends the run by an error."""

    def __init__(self, port: int) -> None:
        self._properties = {"s3.endpoint": f"http://127.0.0.1:{port}", "s3.region": "r"}

    def say(self, text: str) -> None:
        io = PyArrowFileIO({**self._properties, "s3.access-key-id": "a", "s3.secret-access-key": "b"})
        with io.new_input("s3://bucket/key").open() as file:
            assert file.read() == b"abc"
        raise RuntimeError("the end")


def opened() -> int:
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="needs Linux: counts the entries of /proc/self/fd")
def test_a_run_leaves_no_connection_to_the_store_open(tmp_path: Path) -> None:
    file = tmp_path / "small.yaml"
    file.write_text(SMALL)
    spec = workload_text.load(file)
    nowhere = tmp_path / "nowhere"
    installation = Installation(nowhere, nowhere, {}, nowhere, nowhere, nowhere, nowhere, nowhere)
    endpoints = Endpoints("http://h:1", "a", "b", "r", "bucket", "rest", "http://h:2", "s3://bucket/w", "local[1]")
    settings = Settings(seed=1, command="icequake run small", external=External())
    server = ThreadingHTTPServer(("127.0.0.1", 0), Objects)
    watcher = Reading(server.server_port)
    run = partial(Run, installation=installation, settings=settings, standing=StandingStack(endpoints), watcher=watcher)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        counts = []
        gc.disable()  # it must be the run that looks, not Python by chance
        for n in range(5):
            folder = runfolder.create(tmp_path / str(n), spec.workload)
            with pytest.raises(RuntimeError, match="the end"):
                run(spec, folder).execute()
            counts.append(opened())
        # Each run opens four and its server's end; the server sees an end of a connection a moment later.
        assert counts[-1] < counts[1] + 10, counts
    finally:
        gc.enable()
        server.shutdown()
        server.server_close()
