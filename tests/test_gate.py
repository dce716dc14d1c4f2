"""The gate passes everything on as it is, and holds exactly the commit it was told to."""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from nemesis.gate import Answer, CatalogGate, committed_ops

COMMIT = "/v1/namespaces/db/tables/t"


def commit(op: str) -> bytes:
    update = {"action": "add-snapshot", "snapshot": {"snapshot-id": 1, "summary": {"icequake-op": op}}}
    return json.dumps({"requirements": [], "updates": [update]}).encode()


class Upstream(ThreadingHTTPServer):
    """Remembers what arrived and answers with what it was sent."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Echo)
        self.arrived: list[tuple[str, str, dict[str, str], bytes]] = []


class Echo(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        assert isinstance(self.server, Upstream)
        self.server.arrived.append((self.command, self.path, dict(self.headers), body))
        self.send_response(404 if "absent" in self.path else 200)
        self.send_header("ETag", '"abc"')
        self.send_header("Content-Length", "0" if self.command == "HEAD" else str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_GET = do_POST = do_HEAD = do_PUT = do_DELETE = _answer

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


@pytest.fixture
def upstream() -> Iterator[Upstream]:
    with Upstream() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def ask(gate: CatalogGate, method: str, path: str, body: bytes = b"") -> tuple[int, bytes, dict[str, str]]:
    connection = http.client.HTTPConnection(gate.address.removeprefix("http://"), timeout=30)
    try:
        connection.request(
            method, path, body, {"Authorization": "x y", "Content-Encoding": "gzip", "X-Odd": "ä".encode()}
        )
        answer = connection.getresponse()
        return answer.status, answer.read(), {k.lower(): v for k, v in answer.headers.items()}
    finally:
        connection.close()


@pytest.mark.parametrize("method", ["GET", "POST", "HEAD", "PUT", "DELETE"])
@pytest.mark.parametrize("path", ["/v1/config?warehouse=a%2Fb", "/v1/namespaces/a%1Fb/tables/x%20y", "/absent"])
@pytest.mark.parametrize("body", [b"", b"\x00\xff\x1f\x8b not gzip", b"x" * 3_000_000], ids=["empty", "odd", "large"])
def test_what_is_not_held_arrives_as_it_was_sent(upstream: Upstream, method: str, path: str, body: bytes) -> None:
    with CatalogGate(f"http://127.0.0.1:{upstream.server_port}") as gate:
        status, answer, headers = ask(gate, method, path, body)
    ((got_method, got_path, got_headers, got_body),) = upstream.arrived
    assert (got_method, got_path, got_body) == (method, path, body)
    assert got_headers["Authorization"] == "x y" and got_headers["Content-Encoding"] == "gzip"
    assert got_headers["Host"] == gate.address.removeprefix("http://")
    assert status == (404 if "absent" in path else 200)
    assert answer == (b"" if method == "HEAD" else body)
    assert headers["etag"] == '"abc"'


def test_the_held_commit_waits_for_its_release_and_others_pass(upstream: Upstream) -> None:
    with CatalogGate(f"http://127.0.0.1:{upstream.server_port}") as gate:
        hold = gate.hold("w0-1")
        held = threading.Thread(target=ask, args=(gate, "POST", COMMIT, commit("w0-1")))
        held.start()
        assert hold.reached.wait(10)
        assert ask(gate, "POST", COMMIT, commit("w1-0"))[0] == 200
        assert ask(gate, "GET", COMMIT)[0] == 200
        assert [body for *_, body in upstream.arrived] == [commit("w1-0"), b""]
        hold.release()
        held.join(10)
        assert upstream.arrived[-1][3] == commit("w0-1")


def test_only_the_first_request_of_a_held_operation_waits(upstream: Upstream) -> None:
    with CatalogGate(f"http://127.0.0.1:{upstream.server_port}") as gate:
        gate.hold("w0-1").release()
        for _ in range(3):
            assert ask(gate, "POST", COMMIT, commit("w0-1"))[0] == 200


def test_a_hold_that_nobody_releases_gives_way(upstream: Upstream) -> None:
    with CatalogGate(f"http://127.0.0.1:{upstream.server_port}", longest_hold=0.2) as gate:
        gate.hold("w0-1")
        assert ask(gate, "POST", COMMIT, commit("w0-1"))[0] == 200


def test_leaving_releases_what_is_held(upstream: Upstream) -> None:
    with CatalogGate(f"http://127.0.0.1:{upstream.server_port}") as gate:
        hold = gate.hold("w0-1")
        answers: list[int] = []
        held = threading.Thread(target=lambda: answers.append(ask(gate, "POST", COMMIT, commit("w0-1"))[0]))
        held.start()
        assert hold.reached.wait(10)
    held.join(10)
    assert answers == [200]


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b"3", b'{"updates": 3}', b'{"updates": [{"action": "add-snapshot"}]}']
)
def test_what_adds_no_marked_snapshot_names_no_operation(body: bytes) -> None:
    assert committed_ops(body) == set()


def test_a_commit_names_its_operation() -> None:
    assert committed_ops(commit("w3-7")) == {"w3-7"}


def test_an_answer_in_place_of_the_catalogs_comes_after_it_was_applied_and_once(upstream: Upstream) -> None:
    with CatalogGate(f"http://127.0.0.1:{upstream.server_port}") as gate:
        hold = gate.hold("w0-1", Answer(503, retry_after=1))
        answers: list[tuple[int, bytes, dict[str, str]]] = []
        asking = threading.Thread(target=lambda: answers.append(ask(gate, "POST", COMMIT, commit("w0-1"))))
        asking.start()
        assert hold.reached.wait(10)
        assert [body for *_, body in upstream.arrived] == [commit("w0-1")] and not answers
        hold.release()
        asking.join(10)
        ((status, _, headers),) = answers
        assert (status, headers["retry-after"]) == (503, "1")
        assert ask(gate, "POST", COMMIT, commit("w0-1"))[0] == 200
        assert hold.problem is None


def test_a_late_commit_is_answered_first_and_applied_when_it_is_released(upstream: Upstream) -> None:
    with CatalogGate(f"http://127.0.0.1:{upstream.server_port}") as gate:
        hold = gate.hold("w0-1", Answer(504, late=True))
        assert ask(gate, "POST", COMMIT, commit("w0-1"))[0] == 504
        assert not upstream.arrived
        hold.release()
        assert hold.passed.wait(10)
        assert [body for *_, body in upstream.arrived] == [commit("w0-1")]
        assert hold.problem is None


@pytest.mark.parametrize("late", [False, True])
def test_a_commit_that_the_catalog_refused_is_no_lost_one(upstream: Upstream, late: bool) -> None:
    with CatalogGate(f"http://127.0.0.1:{upstream.server_port}") as gate:
        hold = gate.hold("w0-1", Answer(503, late=late))
        hold.release()
        status, _, _ = ask(gate, "POST", "/absent" + COMMIT, commit("w0-1"))
        assert hold.passed.wait(10)
        assert status == (503 if late else 404)
    assert hold.problem is not None and "refused" in hold.problem


def test_a_hold_that_gave_way_says_so(upstream: Upstream) -> None:
    with CatalogGate(f"http://127.0.0.1:{upstream.server_port}", longest_hold=0.05) as gate:
        hold = gate.hold("w0-1")
        assert ask(gate, "POST", COMMIT, commit("w0-1"))[0] == 200
    assert hold.problem is not None and "gave way" in hold.problem
