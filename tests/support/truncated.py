"""Use the verb of the example file ``truncate.py`` on a real proxy before a real HTTP server, and in files; print what happened as JSON.

It runs in a process of its own, in a folder whose ``nemesis`` is a copy of ours that has the example file beside the other verbs.
"""

from __future__ import annotations

import json
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from nemesis.faults.fault import Fault
from nemesis.faults.table import row
from nemesis.proxy.board import Board
from nemesis.proxy.listener import Proxies
from workloads.file import scenario, workload, workload_text
from workloads.file.yamlfile import FileError

COMMIT = b"POST /v1/namespaces/db/tables/t HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}"
REPLY = b"HTTP/1.1 200 OK\r\nContent-Length: 26\r\n\r\nabcdefghijklmnopqrstuvwxyz"
WORKLOAD = """\
workload: x
tables: [{name: t}]
writers: 2
length: {ops: 1}
operations: {insert: 1}
nemesis:
  faults:
    - {FAULT}
"""
SCENARIO = """\
scenario: x
description: x
link: https://example.org/
affected: all
tables: [{name: t}]
operations:
  - {name: a, writer: 0, do: insert, value: {ids: [1]}, fault: {FAULT}}
final: {t: [1]}
"""


class Catalog(BaseHTTPRequestHandler):
    """Carries out every commit."""

    protocol_version = "HTTP/1.1"
    commits = 0

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        Catalog.commits += 1
        self.wfile.write(REPLY)

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing."""


def ask(port: int) -> str:
    """A commit on a connection of its own: what came up to the end of the connection, or up to the end of the reply."""
    with socket.create_connection(("127.0.0.1", port), timeout=20) as client:
        client.sendall(COMMIT)
        got = b""
        while len(got) < len(REPLY) and (part := client.recv(1 << 16)):
            got += part
    return got.decode()


def on_the_proxy() -> dict[str, Any]:
    """Two commits, the first of which the fault strikes."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Catalog)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    board, log = Board(), Path("proxy.jsonl")
    board.begin(lambda: 0, log)
    with Proxies(board) as proxies:
        listener = proxies.listen("catalog", 0, "http", "127.0.0.1", server.server_port)
        armed = board.arm(Fault.model_validate({"verb": "truncate", "keep": 40, "times": 1}))
        got = [ask(listener.port), ask(listener.port)]
    board.close()
    server.shutdown()
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    logged = [[line["status"], line.get("faults", [])] for line in lines]
    return {"got": got, "commits": Catalog.commits, "hits": armed.hits, "missed": armed.missed, "log": logged}


def in_a_workload(fault: str) -> str:
    """The fault of a workload file as the run's plan has it, read back once; or what is wrong with the file."""
    try:
        nemesis = workload_text.parse(WORKLOAD.replace("FAULT", fault), "w.yaml").nemesis
    except FileError as e:
        return str(e)
    assert nemesis is not None
    again = workload.Nemesis.model_validate(nemesis.model_dump(mode="json", exclude_defaults=True))
    assert again == nemesis
    return json.dumps(again.faults[0].plain(), sort_keys=True)


def in_a_scenario(fault: str) -> str:
    """The name of the fault of a scenario file; or what is wrong with the file."""
    try:
        struck = scenario.parse(SCENARIO.replace("FAULT", fault), "s.yaml").operations[0].fault
    except FileError as e:
        return str(e)
    assert struck is not None
    return struck.name


if __name__ == "__main__":
    faults = (
        "verb: truncate, keep: 40",
        "verb: truncate",
        "verb: truncate, keep: none",
        "verb: truncate, keep: 1, kep: 1",
    )
    whole = Fault.model_validate({"verb": "truncate", "keep": 40})
    print(
        json.dumps(
            {
                "proxy": on_the_proxy(),
                "workload": {f: in_a_workload(f) for f in (*faults, "verb: drop-reply, keep: 40")},
                "scenario": {f: in_a_scenario(f) for f in faults},
                "row": row(whole.action),
            }
        )
    )
