"""The proxy that every script has: what becomes of the one request that it holds or strikes, before a small server."""

from __future__ import annotations

import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import pytest

from reports.reproduction.script import script
from workloads.file.scenario import LIBRARY, load

LONGEST = 60


class Table(BaseHTTPRequestHandler):
    """A catalog that accepts the first commit and refuses each further one."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.server.commits += 1  # type: ignore[attr-defined]
        self.send_response(200 if self.server.commits == 1 else 409)  # type: ignore[attr-defined]
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@pytest.fixture
def table() -> Iterator[ThreadingHTTPServer]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Table)
    server.commits = 0  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture(scope="module")
def code() -> dict[str, Any]:
    """The names of a script, without what starts it, and without what only Spark has."""
    text = script(load(LIBRARY / "undelete.yaml")).rpartition("\nmain()\n")[0]
    names: dict[str, Any] = {}
    exec(compile(text, "script", "exec"), names)
    return names


def test_a_module_of_which_two_jars_are_wanted_is_asked_for_once(
    code: dict[str, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("JARS", str(tmp_path))
    monkeypatch.setitem(code, "subprocess", SimpleNamespace(run=lambda *_, **__: None))
    wanted = code["SERVER"]
    names = [Path(jar).name for jar in code["jars"](wanted)]
    assert len({*names}) == len(wanted) > len({tuple(w.split(":")[:2]) for w in wanted})
    asked = [*ElementTree.parse(tmp_path / "ivy.xml").getroot().iter("dependency")]
    assert len(asked) == len({(d.get("org"), d.get("name")) for d in asked})
    assert sum(len(d) for d in asked) == len(wanted)


def posted(address: str, outcome: list[object], path: str = "/v1/namespaces/repro/tables/t") -> None:
    """Send a commit; ``outcome`` gets the status, or the error of the connection."""
    try:
        with urllib.request.urlopen(
            urllib.request.Request(address + path, b"{}", method="POST"), timeout=LONGEST
        ) as done:
            outcome.append(done.status)
    except urllib.error.HTTPError as e:
        outcome.append((e.code, e.headers["Retry-After"]))
    except OSError as e:
        outcome.append(type(e.__context__ or e).__name__)


@pytest.mark.parametrize(
    ("fault", "told", "commits", "meanwhile"),
    [
        (None, 200, 1, 0),
        ({"verb": "answer", "status": 503, "headers": {"Retry-After": "1s"}}, (503, "1s"), 1, 1),
        ({"verb": "reject", "status": 400}, (400, None), 0, 0),
        ({"verb": "duplicate"}, (409, None), 2, 1),
        ({"verb": "drop-reply"}, "broken", 1, 1),
        ({"verb": "drop-request"}, "broken", 0, 0),
        ({"verb": "late", "status": 504}, (504, None), 1, 0),
    ],
)
def test_one_commit_is_held_and_struck_and_the_next_passes(
    fault: dict[str, Any] | None,
    told: object,
    commits: int,
    meanwhile: int,
    code: dict[str, Any],
    table: ThreadingHTTPServer,
) -> None:
    """``meanwhile``: how many commits the catalog has while the request is held."""
    at = code["proxy"](f"http://127.0.0.1:{table.server_port}")
    code["STEPS"].clear()
    code["step"]("other", writer=1)(None)
    code["step"]("struck", hold={"other": "completed"}, fault=fault)(None)
    other, struck = code["STEPS"]
    at.step = struck
    outcome: list[object] = []
    client = threading.Thread(target=posted, args=(at.address, outcome))
    client.start()
    assert struck.held.wait(LONGEST)
    assert table.commits == meanwhile  # type: ignore[attr-defined]
    other.completed.set()
    client.join(LONGEST)
    assert struck.passed.wait(LONGEST)
    assert outcome == [told] or (told == "broken" and isinstance(outcome[0], str))
    assert table.commits == commits  # type: ignore[attr-defined]
    after: list[object] = []
    posted(at.address, after)
    assert after == [200 if commits == 0 else (409, None)] and struck.problem is None
    at.shutdown()
    at.server_close()
