"""Operations by transaction through the writer's session: on the REST catalog, on a server without the endpoint, on a catalog without REST."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from checkers.evidence.outcome import classify
from compose.stack.stack import Stack
from harness.run.tables import CREATE_NAMESPACE, create_table
from harness.writers.session import Session
from harness.writers.slot import request
from workloads.operations.kinds import KINDS
from workloads.tables import TableSpec

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

TABLE = TableSpec(name="t", partitioned=False)
ENDPOINT = "/transactions/commit"


@contextmanager
def relay(server: str, *, listed: bool) -> Iterator[tuple[str, list[str]]]:
    """A catalog server that is ``server`` without the endpoint for transactions: its address, and what it was asked for.

    Args:
        listed: whether its configuration lists the endpoint all the same.
    """
    asked: list[str] = []

    class Relay(BaseHTTPRequestHandler):
        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0)) or None
            asked.append(f"{self.command} {self.path}")
            passed = {"Content-Type": "application/json"}
            try:
                if self.path.endswith(ENDPOINT):
                    status, data = 404, b'{"error": {"message": "no such route", "type": "NotFound", "code": 404}}'
                else:
                    sent = urllib.request.Request(server + self.path, body, passed, method=self.command)
                    with urllib.request.urlopen(sent, timeout=60) as reply:
                        status, data = reply.status, reply.read()
            except urllib.error.HTTPError as e:
                status, data = e.code, e.read()
            if self.path.partition("?")[0].endswith("/config") and not listed:
                config = json.loads(data)
                config["endpoints"] = [e for e in config["endpoints"] if not e.endswith(ENDPOINT)]
                data = json.dumps(config).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(b"" if self.command == "HEAD" else data)

        do_GET = do_POST = do_HEAD = do_DELETE = answer

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Relay) as listener:
        thread = threading.Thread(target=listener.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.server_port}", asked
        finally:
            listener.shutdown()
            thread.join()


def run(session: Session, catalog: str, namespace: str, op: str, f: str, ids: list[int]) -> dict[str, Any]:
    statements = KINDS[f].statements({"ids": ids}, op, TABLE)
    return session.execute(request(op, statements, catalog=catalog, namespace=namespace, table="t"))


def test_a_commit_by_transaction_is_made_or_says_that_the_catalog_has_no_such_endpoint(
    spark: Any, stack: Stack, tmp_path: Path
) -> None:
    session = Session(spark)
    prefix = "spark.sql.catalog"
    for n, catalog in enumerate(("c", "folder")):
        if catalog == "folder":  # has no endpoints at all
            spark.conf.set(f"{prefix}.folder", "org.apache.iceberg.spark.SparkCatalog")
            spark.conf.set(f"{prefix}.folder.type", "hadoop")
            spark.conf.set(f"{prefix}.folder.warehouse", tmp_path.as_uri())
        for statements in (CREATE_NAMESPACE, create_table(TABLE)):
            made = session.execute(request(f"s{n}", statements, catalog=catalog, namespace="bytx", table="t"))
            assert made["ok"], made
    with (
        relay(stack.endpoints.catalog_uri, listed=True) as (refusing, asked),
        relay(stack.endpoints.catalog_uri, listed=False) as (silent, not_asked),
    ):
        for name, uri in (("proxied", refusing), ("unlisted", silent)):
            every = spark._jvm.scala.collection.JavaConverters.mapAsJavaMapConverter(
                spark._jsparkSession.sessionState().conf().getAllConfs()
            ).asJava()
            for key, value in dict(every).items():
                if key == f"{prefix}.c" or key.startswith(f"{prefix}.c."):
                    spark.conf.set(key.replace(f"{prefix}.c", f"{prefix}.{name}", 1), value)
            spark.conf.set(f"{prefix}.{name}.uri", uri)
        assert run(session, "c", "bytx", "w0-0", "insert-by-transaction", [1, 2])["ok"]
        assert run(session, "c", "bytx", "w0-1", "update-counter-by-transaction", [1])["ok"]
        assert run(session, "c", "bytx", "w0-2", "update-append-by-transaction", [1])["ok"]
        assert run(session, "c", "bytx", "w0-3", "delete-by-transaction", [2])["ok"]
        for catalog, says in (
            ("proxied", "has no POST /v1/{prefix}/transactions/commit: it answered 404 (NotFound): no such route"),
            ("unlisted", "has no POST /v1/{prefix}/transactions/commit: its configuration does not list it"),
            (
                "folder",
                "the catalog folder is hadoop, and POST /v1/transactions/commit is an endpoint of REST catalogs",
            ),
        ):
            failed = run(session, catalog, "bytx", "w0-4", "insert-by-transaction", [9])
            assert not failed["ok"] and says in "".join(m for _, m in failed["error"]), failed
            assert classify(failed["error"], writes=True) == "fail"
        assert [a for a in asked if a.endswith(ENDPOINT)] and not [a for a in not_asked if a.endswith(ENDPOINT)]
    rows = spark.sql("SELECT id, cnt, log FROM c.bytx.t").collect()
    assert [tuple(r) for r in rows] == [(1, 1, "w0-0,w0-2")]
    marks = spark.sql("SELECT summary['icequake-op'] FROM c.bytx.t.snapshots ORDER BY committed_at").collect()
    assert [m[0] for m in marks] == ["w0-0", "w0-1", "w0-2", "w0-3"]


@pytest.mark.parametrize(("endpoint", "code"), [([], 1), (["table"], 0)], ids=["by transaction", "by table"])
def test_the_reproduction_needs_nothing_but_the_server(stack: Stack, endpoint: list[str], code: int) -> None:
    script = Path(__file__).parents[2] / "docs" / "reproductions" / "lost-transaction.py"
    command = [sys.executable, "-I", str(script), stack.endpoints.catalog_uri, *endpoint]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == code, done.stdout + done.stderr
    last = done.stdout.splitlines()[-1]
    assert last.startswith("acknowledged ") and last.endswith("LOST 0") == (code == 0), done.stdout
