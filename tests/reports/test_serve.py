"""``icequake serve``: the list with its filters, the pages of runs, two side by side; and that nothing outside the store is ever shown."""

from __future__ import annotations

import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reports.serve import files, index, pages
from reports.serve.answer import SECURITY
from reports.serve.files import Outside, within
from reports.serve.index import Index, RunFilter
from reports.serve.server import StoreServer
from tests.reports.test_coverage_page import Tags
from tests.support.runs import ROOT, command, environment, inside

FIVE = ROOT / "tests" / "checkers" / "coverage" / "five-cells.zip"
ENOUGH = 60.0
"""Seconds after which a test gives up on what never comes."""
RUN = "mixed/20260101T000000.000Z"
SECRET = "what nobody may read"


def made(store: Path, path: str, *, valid: Any = True, catalog: str = "rest", anomalies: tuple[str, ...] = ()) -> Path:
    """A run's folder without operations, with a page."""
    folder = store / path
    folder.mkdir(parents=True)
    plan = (
        f"workload: {path.split('/')[-2]}\ncatalog: {{name: {catalog}}}\nseed: 7\nwriters: 2\ntables: [{{name: t}}]\n"
    )
    (folder / "plan.yaml").write_text(plan)
    (folder / "run.json").write_text(json.dumps({"state": "complete", "operations": 12}))
    (folder / "history.jsonl").write_text('{"format":1}\n')
    found = [{"name": name, "checker": "replay"} for name in anomalies]
    checkers = [{"checker": "replay", "valid": valid, "anomalies": found, "stats": {}, "notes": []}]
    (folder / "results.json").write_text(json.dumps({"valid": valid, "checkers": checkers}))
    (folder / "report.html").write_text(f"<p>page of {path}</p>")
    return folder


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Four runs, one of them real and one broken; and around them what nobody may read."""
    (tmp_path / "secret.txt").write_text(SECRET)
    (tmp_path / "store-of-others").mkdir()
    (tmp_path / "store-of-others" / "secret.txt").write_text(SECRET)
    store = tmp_path / "store"
    made(store, RUN)
    made(store, "quick/20260102T000000.000Z", valid=False, catalog="jdbc", anomalies=("lost-commit", "lost-commit"))
    broken = made(store, "quick/20260103T000000.000Z", valid="unknown")
    (broken / "results.json").write_text('{"valid": tr')
    with zipfile.ZipFile(FIVE) as z:
        z.extractall(store / "matrix" / "20260104T000000.000Z")
    (store / "latest").symlink_to(RUN)
    (store / "out").symlink_to(tmp_path)
    (store / "file-out").symlink_to(tmp_path / "secret.txt")
    (store / RUN / "up").symlink_to("../../../secret.txt")
    (store / "circle").symlink_to("circle")
    (store / ".hidden").write_text(SECRET)
    return store


@pytest.fixture
def server(store: Path) -> Iterator[StoreServer]:
    with StoreServer(store) as server:
        thread = threading.Thread(target=server.serve)
        thread.start()
        try:
            yield server
        finally:
            server.stop()
            thread.join(ENOUGH)
            assert not thread.is_alive()


def ask(server: StoreServer, target: str, method: str = "GET", **headers: str) -> tuple[int, dict[str, str], str]:
    """Status, headers (lower case) and body; the target is sent as it is."""
    wire = http.client.HTTPConnection("127.0.0.1", server.port, timeout=ENOUGH)
    try:
        wire.putrequest(method, target, skip_host="Host" in headers)
        for name, value in headers.items():
            wire.putheader(name, value)
        wire.endheaders()
        answer = wire.getresponse()
        return answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read().decode(errors="replace")
    finally:
        wire.close()


def listed(text: str) -> list[str]:
    return re.findall(r'name="run" value="([^"]+)"', text)


def test_the_list_has_every_run_the_newest_first(server: StoreServer) -> None:
    status, headers, text = ask(server, "/")
    assert status == 200 and headers["content-type"] == "text/html; charset=utf-8"
    assert listed(text) == [
        "matrix/20260104T000000.000Z",  # its run.json says when it began: in November
        "quick/20260103T000000.000Z",
        "quick/20260102T000000.000Z",
        RUN,
    ]
    assert "4 runs" in text
    tags = Tags()
    tags.feed(text)
    assert not tags.wrong


@pytest.mark.parametrize(
    ("query", "shown"),
    [
        ({"workload": "mixed"}, [RUN]),
        ({"catalog": "jdbc"}, ["quick/20260102T000000.000Z"]),
        ({"verdict": "anomalies"}, ["quick/20260102T000000.000Z"]),
        ({"verdict": "broken"}, ["quick/20260103T000000.000Z"]),
        ({"verdict": "valid"}, [RUN]),
        ({"verdict": "not checked"}, ["matrix/20260104T000000.000Z"]),
        ({"q": "LOST-commit quick"}, ["quick/20260102T000000.000Z"]),
        ({"q": "20260101"}, [RUN]),
        ({"q": "nothing-like-this"}, []),
        ({"workload": "mixed", "catalog": "jdbc"}, []),
    ],
)
def test_a_filter_shows_the_runs_that_it_names(server: StoreServer, query: dict[str, str], shown: list[str]) -> None:
    status, _, text = ask(server, "/?" + urlencode(query))
    assert status == 200 and listed(text) == shown


def test_a_broken_run_is_shown_as_broken_with_the_reason(server: StoreServer) -> None:
    text = ask(server, "/?verdict=broken")[2]
    assert "results.json:1: not JSON from here on" in text and "! broken" in text
    assert ask(server, "/store/quick/20260103T000000.000Z/")[0] == 200


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        ("plan.yaml", None, "plan.yaml: missing"),
        ("plan.yaml", "a: [", "plan.yaml:1: not YAML from here on"),
        ("plan.yaml", "- a", "plan.yaml: must be a mapping, the plan of a run"),
        ("run.json", "[]", "run.json: must be a mapping"),
        ("run.json", "\xff".encode("latin-1"), "run.json: not UTF-8 text: byte 1 is no part of a character"),
        ("history.jsonl", None, "history.jsonl: missing"),
        ("results.json", "[" * 100_000, "results.json: nested deeper than 100 levels"),
    ],
)
def test_what_is_missing_or_no_record_makes_a_run_broken(
    tmp_path: Path, name: str, content: str | bytes | None, why: str
) -> None:
    folder = made(tmp_path, RUN)
    (folder / name).unlink()
    if content is not None:
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    e = index.entry(folder, RUN)
    assert (e.status, e.broken) == ("broken", (why,))


def test_a_run_shows_its_page_and_its_files(server: StoreServer) -> None:
    status, headers, text = ask(server, f"/store/{RUN}/")
    assert (status, text) == (200, f"<p>page of {RUN}</p>")
    assert headers["content-type"] == "text/html; charset=utf-8"
    assert ask(server, f"/store/{RUN}")[1]["location"] == f"/store/{RUN}/"
    assert ask(server, "/store/latest/")[2] == text
    status, _, text = ask(server, f"/store/{RUN}/?files")
    assert status == 200 and "plan.yaml" in text and ">up<" not in text


def test_a_run_without_a_page_says_how_to_make_one(server: StoreServer) -> None:
    text = ask(server, "/store/matrix/20260104T000000.000Z/")[2]
    assert "It has no page" in text and "tablelog/" in text


@pytest.mark.parametrize(
    ("name", "content_type"),
    [
        ("plan.yaml", "text/plain; charset=utf-8"),
        ("run.json", "application/json"),
        ("history.jsonl", "text/plain; charset=utf-8"),
        ("report.html", "text/html; charset=utf-8"),
        ("junit.xml", "application/xml"),
        ("logs/a.log", "text/plain; charset=utf-8"),
        ("picture.SVG", "image/svg+xml"),
        ("data.parquet", "application/octet-stream"),
        ("plain", "application/octet-stream"),
    ],
)
def test_a_file_has_its_content_type_and_its_bytes(
    server: StoreServer, store: Path, name: str, content_type: str
) -> None:
    path = store / RUN / name
    path.parent.mkdir(exist_ok=True)
    path.write_text("<x/>")
    status, headers, text = ask(server, f"/store/{RUN}/{name}")
    assert (status, headers["content-type"], headers["content-length"], text) == (200, content_type, "4", "<x/>")
    assert headers["x-content-type-options"] == "nosniff"
    policy = [part.split() for part in headers["content-security-policy"].split(";")]
    (sandbox,) = (part[1:] for part in policy if part[0] == "sandbox")
    assert ("allow-scripts" in sandbox) == name.endswith(".html") and "allow-same-origin" not in sandbox


def test_every_answer_has_the_security_headers(server: StoreServer) -> None:
    for target in (
        "/",
        "/nowhere",
        f"/store/{RUN}/",
        f"/store/{RUN}/run.json",
        "/store/..",
        "/compare",
        "/store/quick",
    ):
        for method in ("GET", "HEAD", "POST"):
            _, headers, _ = ask(server, target, method)
            assert {k: headers.get(k.lower()) for k in SECURITY} == SECURITY, (target, method)
            assert headers["content-security-policy"].startswith("default-src 'none'")
            assert headers["server"].strip() == "icequake"


OUT = (
    "../secret.txt",
    "..%2fsecret.txt",
    "%2e%2e/secret.txt",
    "%2e%2e%2fsecret.txt",
    "%252e%252e/secret.txt",
    "mixed/../../secret.txt",
    "mixed/..%2f..%2fsecret.txt",
    "....//secret.txt",
    "..\\secret.txt",
    "..%5csecret.txt",
    "../store-of-others/secret.txt",
    "out/secret.txt",
    "out/",
    "out/store-of-others/",
    "file-out",
    f"{RUN}/up",
    "latest/up",
    "circle",
    ".hidden",
    "%2ehidden",
    f"{RUN}/nothing",
    "plan.yaml%00.html",
    "%00",
    "%ff%fe",
    "%c0%ae%c0%ae/secret.txt",
    "a" * 5_000,
)


@pytest.mark.parametrize("address", OUT)
def test_no_address_leads_out_of_the_store(server: StoreServer, store: Path, address: str) -> None:
    absolute = str(store.parent / "secret.txt")
    for target in (f"/store/{address}", f"/store//{address}", f"/store/./{address}"):
        status, headers, text = ask(server, target)
        assert status in (301, 400, 404) and SECRET not in text, target
        assert "secret.txt" not in headers.get("location", "")
    for target in (f"/store/{absolute}", f"/store{quote(absolute, safe='')}", f"//{absolute}", f"/{address}", absolute):
        assert SECRET not in ask(server, target)[2]


@pytest.mark.parametrize("address", OUT)
def test_a_path_is_only_found_in_the_store(store: Path, address: str) -> None:
    with pytest.raises(Outside):
        within(store.resolve(), address)


def test_a_link_within_the_store_is_followed(store: Path) -> None:
    assert within(store.resolve(), "latest/run.json") == store.resolve() / RUN / "run.json"
    assert within(store.resolve(), "") == store.resolve()


def test_links_out_of_the_store_are_not_listed(server: StoreServer, store: Path) -> None:
    text = ask(server, "/store/")[2]
    assert "mixed/" in text and "latest/" in text
    assert not any(f">{name}" in text for name in ("out", "file-out", ".hidden", "circle"))
    assert not any("out" in e.path for e in Index(store).entries())


def test_only_a_regular_file_is_opened(store: Path) -> None:
    pipe = store / RUN / "pipe.log"
    os.mkfifo(pipe)
    with pytest.raises(Outside):
        files.opened(pipe)
    with pytest.raises(Outside):
        files.opened(store / "file-out")


@pytest.mark.parametrize(
    ("target", "shown"),
    [
        ("page.html", "<p>another page</p>"),
        ("../../../secret.txt", "plan.yaml"),
        ("/dev/zero", "plan.yaml"),
        ("pipe", "plan.yaml"),
    ],
)
def test_a_page_that_is_a_link_is_followed_within_the_store_only(
    server: StoreServer, store: Path, target: str, shown: str
) -> None:
    page = store / RUN / "report.html"
    (store / RUN / "page.html").write_text("<p>another page</p>")
    os.mkfifo(store / RUN / "pipe")
    page.unlink()
    page.symlink_to(target)
    status, headers, text = ask(server, f"/store/{RUN}/")
    assert (status, shown in text, SECRET in text) == (200, True, False), text
    assert ("allow-scripts" in headers["content-security-policy"]) == (shown != "plan.yaml")
    assert ask(server, f"/store/{RUN}/report.html")[0] == (200 if shown != "plan.yaml" else 404)


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT"])
def test_nothing_but_get_and_head_is_answered(server: StoreServer, store: Path, method: str) -> None:
    before = sorted(p.name for p in store.rglob("*"))
    status, headers, _ = ask(server, "/", method)
    assert (status, headers["allow"]) == (405, "GET, HEAD")
    assert ask(server, "/", "BREW")[0] == 501
    assert sorted(p.name for p in store.rglob("*")) == before


def test_head_is_get_without_a_body(server: StoreServer) -> None:
    for target in ("/", f"/store/{RUN}/", f"/store/{RUN}/run.json", "/nowhere"):
        got, head = ask(server, target), ask(server, target, "HEAD")
        assert head[0] == got[0] and head[2] == "" and head[1]["content-length"] == got[1]["content-length"]


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:1", 200),
        ("localhost", 200),
        ("[::1]:80", 200),
        ("evil.example:80", 421),
        ("127.0.0.1.evil.example", 421),
    ],
)
def test_another_name_is_not_answered_on_loopback(server: StoreServer, host: str, status: int) -> None:
    assert ask(server, "/", Host=host)[0] == status


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:1", 200),
        ("192.0.2.7:8765", 200),
        ("[2001:db8::1]:80", 200),
        ("localhost", 200),
        (socket.gethostname().upper(), 200),
        ("lab.example.org:80", 200),
        ("evil.example:80", 421),
        ("127.0.0.1.evil.example", 421),
        ("<script>", 421),
    ],
)
def test_on_all_addresses_only_names_of_this_machine_are_answered(store: Path, host: str, status: int) -> None:
    with StoreServer(store, "0.0.0.0", names=["Lab.example.org"]) as server:
        thread = threading.Thread(target=server.serve)
        thread.start()
        try:
            got, _, text = ask(server, "/", Host=host)
        finally:
            server.stop()
            thread.join(ENOUGH)
    assert got == status and "<script" not in text
    assert ("--name" in text) == (status == 421)


@pytest.mark.parametrize(
    "target", ["/?page=x", "/?page=-1", "/?q=%ff", "/?q=" + "a" * 5_000, "/?" + "a=1&" * 40, "/compare?run=x"]
)
def test_a_query_that_is_none_is_refused(server: StoreServer, target: str) -> None:
    assert ask(server, target)[0] == 400


def test_what_is_no_request_is_refused_with_a_page(server: StoreServer) -> None:
    for line in (b"GET\r\n\r\n", b"nonsense that is no request\r\n\r\n", b"GET relative HTTP/1.1\r\n\r\n"):
        with socket.create_connection(("127.0.0.1", server.port), timeout=ENOUGH) as wire:
            wire.sendall(line)
            text = b""
            while part := wire.recv(65_536):
                text += part
        assert b" 400 " in text.split(b"\r\n")[0] or b"400" in text, line
        assert SECRET.encode() not in text


def test_two_runs_stand_side_by_side(server: StoreServer) -> None:
    other = "quick/20260102T000000.000Z"
    status, _, text = ask(server, "/compare?" + urlencode([("run", RUN), ("run", other)]))
    assert status == 200
    lines = re.findall(r"<tr( class=\"unlike\")?><td[^>]*>([^<]*)</td><td[^>]*>([^<]*)</td><td[^>]*>([^<]*)</td>", text)
    said = {name: (bool(differs), one, two) for differs, name, one, two in lines}
    assert said["catalog"] == (True, "rest", "jdbc") and said["seed"] == (False, "7", "7")
    assert said["lost-commit"] == (True, "–", "2") and said["replay"] == (True, "valid", "anomalies found")
    assert ask(server, "/compare?" + urlencode([("run", RUN), ("run", "no/run")]))[0] == 404
    assert ask(server, f"/compare?run={RUN}")[0] == 400


def test_a_real_run_has_its_tables_and_versions_beside_another(store: Path) -> None:
    runs = {e.path: e for e in Index(store).entries()}
    real = runs["matrix/20260104T000000.000Z"]
    found = pages.compared(real, runs[RUN])
    assert {"Versions", "Tables", "Mix", "Verdict"} <= found.keys()
    assert {line.name for line in found["Tables"]} >= {"c0", "t"}
    keys = next(line for line in found["What was to run"] if line.name == "keys")
    assert (keys.first, keys.second) == ("space=16 skew=0.0", "–")


def test_names_from_the_store_are_escaped(store: Path, server: StoreServer) -> None:
    made(store, "<script>alert(1)<script>/20260105T000000.000Z", catalog='"<img src=x>"')
    for target in ("/", "/store/", "/?q=%3Cscript%3E"):
        text = ask(server, target)[2]
        assert "<script" not in text and "<img" not in text


def test_a_run_is_read_again_only_when_a_file_of_it_changed(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    real = index.entry

    def counted(folder: Path, path: str) -> index.RunEntry:
        read.append(path)
        return real(folder, path)

    monkeypatch.setattr(index, "entry", counted)
    found = Index(store)
    assert len(found.entries()) == 4 and len(read) == 4
    found.entries()
    assert len(read) == 4
    (store / RUN / "results.json").write_text(json.dumps({"valid": False, "checkers": [], "more": 1}))
    assert [e.status for e in found.entries() if e.path == RUN] == ["anomalies"]
    assert read[4:] == [RUN]
    shutil.rmtree(store / RUN)
    assert RUN not in [e.path for e in found.entries()] and len(read) == 5
    assert found.find(RUN) is None


def test_a_running_run_is_always_read_again(store: Path) -> None:
    (store / RUN / "run.json").write_text(json.dumps({"state": "running", "pid": -1, "pid_started": 1.0}))
    assert [e.state for e in Index(store).entries() if e.path == RUN] == ["incomplete"]


def test_thousands_of_runs_are_shown_page_by_page(tmp_path: Path) -> None:
    store = tmp_path / "many"
    for n in range(1, 1_201):
        folder = store / f"w{n % 7}" / f"202601{n // 1000 + 1:02}T{n % 24:02}{n % 60:02}{n // 60:02}.{n % 1000:03}Z"
        folder.mkdir(parents=True)
        (folder / "plan.yaml").write_text(f"workload: w{n % 7}\n")
        (folder / "history.jsonl").touch()
    entries = Index(store).entries()
    assert len(entries) == 1_200
    seen: list[str] = []
    for number in range(1, 13):
        text = pages.runs(entries, RunFilter(), number, "many")
        assert len(listed(text)) == pages.EACH and f"page {number} of 12" in text
        seen += listed(text)
    assert sorted(seen) == sorted(e.path for e in entries)
    assert listed(pages.runs(entries, RunFilter(), 999, "many")) == seen[-pages.EACH :]
    some = pages.runs(entries, RunFilter(workload="w3"), 2, "many")
    assert "workload=w3" in some and "page 2 of 2" in some and {p.split("/")[0] for p in listed(some)} == {"w3"}


def test_a_connection_that_says_nothing_does_not_hold_up_the_end(store: Path) -> None:
    server = StoreServer(store)
    thread = threading.Thread(target=server.serve)
    thread.start()
    with socket.create_connection(("127.0.0.1", server.port), timeout=ENOUGH) as silent:
        assert ask(server, "/")[0] == 200  # accepted after the silent one
        server.stop()
        thread.join(ENOUGH)
        closing = threading.Thread(target=server.close)
        closing.start()
        assert silent.recv(1) == b""
        closing.join(ENOUGH)
        assert not closing.is_alive()


# --- the command ------------------------------------------------------------------------------------------------------


def test_a_port_that_is_taken_is_said(store: Path, tmp_path: Path) -> None:
    with StoreServer(store) as taken:
        done = inside("serve", "--store", str(store), "--port", str(taken.port), cwd=tmp_path)
    assert done.returncode == 254
    assert f"--port {taken.port}: something listens on 127.0.0.1:{taken.port} already" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--store", "nowhere"], "there is no store"),
        (["--store", ".", "--host", "192.0.2.1", "--port", "0"], "no name or address of this machine"),
        (["--store", ".", "--port", "70000"], "must be at most 65535"),
    ],
)
def test_what_cannot_be_served_is_said(tmp_path: Path, arguments: list[str], says: str) -> None:
    done = inside("serve", *arguments, cwd=tmp_path)
    assert done.returncode == 254 and says in done.stderr


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_ends_it(store: Path, number: signal.Signals, code: int) -> None:
    words = command("serve", "--store", store, "--port", "0")
    env = environment(PYTHONUNBUFFERED="1")
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env) as process:
        try:
            assert process.stdout is not None
            url = process.stdout.readline().split()[0]
            wire = http.client.HTTPConnection(url.removeprefix("http://").rstrip("/"), timeout=ENOUGH)
            wire.request("GET", "/")
            assert wire.getresponse().status == 200
            wire.close()
            process.send_signal(number)
            _, err = process.communicate(timeout=ENOUGH)
        finally:
            process.kill()
    assert process.returncode == code, err
    assert err.splitlines()[-1] == f"icequake: stopped by {'SIGTERM' if code == 143 else 'Ctrl-C'}; nothing is lost"


_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 5)
    | st.sampled_from(["", "valid", "2026-13-01", "running", "<b>", "\x00"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["name", "checker", "valid", "anomalies", "stats", "metrics", "seconds"]), inner
        )
    ),
    max_leaves=12,
)
_KEYS = (
    *("workload", "catalog", "valid", "checkers", "scenario", "state", "started", "operations", "tables"),
    *("phases", "versions", "seed", "peak_memory_bytes", "expected", "allowed", "complete"),
)


@settings(max_examples=30)
@given(st.dictionaries(st.sampled_from(_KEYS), _VALUES), st.dictionaries(st.sampled_from(_KEYS), _VALUES))
def test_any_content_of_a_runs_files_is_shown(tmp_path_factory: pytest.TempPathFactory, one: Any, other: Any) -> None:
    store = tmp_path_factory.mktemp("any")
    for n, (plan, rest) in enumerate(((one, other), (other, one))):
        folder = made(store, f"w/{n}")
        (folder / "plan.yaml").write_text(json.dumps(plan))
        (folder / "run.json").write_text(json.dumps(rest))
        (folder / "results.json").write_text(json.dumps(rest))
    a, b = Index(store).entries()
    assert pages.side_by_side(a, b) and pages.folder(a.path, [], a)
    assert len(listed(pages.runs([a, b], RunFilter(), 1, "any"))) == 2
