"""The process of a writer of another engine than Spark: one client that executes one operation at a time for the orchestrator.

Started as ``python -m harness.writers.engine_session ENGINE CONF.json SOCKET``; CONF.json is the engine's ``Access``. It listens on the
Unix socket as ``harness.writers.session`` does, and its requests and answers are lines of JSON too:

* ``{"op", "f", "value", "table", "namespace"}`` → ``{"ok": true, "result": … | null, "bound": {}}`` or
  ``{"ok": false, "error": [[class, message], ...], "bound": {}}``. ``table``: the table's dimensions (``TableSpec``).
* ``{"hello": true}`` → ``{"ok": true, "pid": n}``.

If the orchestrator hangs up before the answer, the process kills itself and its children: its operation must not commit later.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import sys
from pathlib import Path
from typing import Any

from harness.writers.session import error_chain, serve
from workloads.engines.engine import Access, Client, Guest, GuestError
from workloads.engines.engines import ENGINES
from workloads.tables import TableSpec

MOST_CAUSES = 30
"""A chain of causes may be a circle."""
MOST_CHARACTERS = 2000
"""Of a message, which the history keeps for every operation that failed."""


def chain(error: BaseException) -> list[list[str]]:
    """``[[class, message], ...]`` of an exception and what caused it, outermost first: the Java chain of an error of PySpark. An engine may
    know a better one (:class:`GuestError`)."""
    if isinstance(error, GuestError):
        return [[str(name), str(text)[:MOST_CHARACTERS]] for name, text in error.chain]
    found: list[list[str]] = []
    cause: BaseException | None = error
    while cause is not None and len(found) < MOST_CAUSES:
        found += error_chain(cause)
        cause = cause.__cause__ or cause.__context__
    return found[:MOST_CAUSES]


class EngineSession:
    """A client of one engine that answers requests."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def execute(self, request: dict[str, Any]) -> dict[str, Any]:
        """Execute one operation; the module's docstring defines request and answer."""
        table = TableSpec.model_validate(request["table"])
        try:
            result = self._client.execute(
                request["op"], request["f"], request["value"], table, (request["namespace"], table.name)
            )
        except Exception as e:
            return {"ok": False, "error": chain(e), "bound": {}}
        return {"ok": True, "result": result, "bound": {}}

    def alive(self) -> bool:
        """Whether the client can execute further operations."""
        return self._client.alive()

    def renew(self, properties: dict[str, str]) -> dict[str, Any]:
        """Never answered: these writers serve one run."""
        raise ValueError("a writer of another engine than Spark has no session to renew")

    def loop(self, requests: list[dict[str, Any]]) -> dict[str, Any]:
        """Never answered: only Spark's writers are compared with a loop without the harness."""
        raise ValueError("only Spark's writers run a loop of requests")


def main(engine: str, conf_file: str, socket_path: str) -> None:
    """Open the client, then serve. The socket gets its name only when the client is ready."""
    guest = ENGINES[engine]
    assert isinstance(guest, Guest)
    client = guest.open(Access(**json.loads(Path(conf_file).read_text())))
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    with contextlib.closing(client), listener:
        listener.bind(socket_path + ".new")
        listener.listen(1)
        os.rename(socket_path + ".new", socket_path)
        serve(EngineSession(client), listener)


if __name__ == "__main__":
    main(*sys.argv[1:4])
