"""The set-up of catalog servers: Lakekeeper's, against a server that answers as its specification says; and the program around it."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from compose.catalogs import bootstrap
from compose.docker import composefile

S3_PROFILE = {
    *(
        "type",
        "bucket",
        "region",
        "sts-enabled",
        "allow-alternative-protocols",
        "assume-role-arn",
        "aws-kms-key-arn",
        "endpoint",
    ),
    *(
        "flavor",
        "key-prefix",
        "legacy-md5-behavior",
        "path-style-access",
        "push-s3-delete-disabled",
        "remote-signing-enabled",
    ),
    *("remote-signing-url-style", "sts-endpoint", "sts-role-arn", "sts-session-tags", "sts-token-validity-seconds"),
}
"""``S3Profile`` of docs/docs/api/management-open-api.yaml, 0.13.1."""


class Lakekeeper:
    """What the specification of the management API demands of the calls that we make."""

    def __init__(self) -> None:
        self.bootstrapped = False
        self.warehouses: list[dict[str, Any]] = []
        self.calls: list[str] = []
        self.broken: dict[str, int] = {}

    def answer(self, method: str, path: str, body: bytes) -> tuple[int, Any]:
        self.calls.append(f"{method} {path}")
        if (status := self.broken.get(path)) is not None:
            return status, {"error": {"message": "broken", "type": "InternalServerError", "code": status, "stack": []}}
        match method, path:
            case "GET", "/management/v1/info":
                return 200, {"version": "0.13.1", "bootstrapped": self.bootstrapped, "authz-backend": "allow-all"}
            case "POST", "/management/v1/bootstrap":
                if self.bootstrapped or json.loads(body)["accept-terms-of-use"] is not True:
                    return 400, {"error": {"message": "no", "type": "CatalogAlreadyBootstrapped", "code": 400}}
                self.bootstrapped = True
                return 204, None
            case "GET", "/management/v1/warehouse":
                return 200, {"warehouses": self.warehouses}
            case "POST", "/management/v1/warehouse":
                return self.create(json.loads(body))
        return 404, {}

    def create(self, wanted: dict[str, Any]) -> tuple[int, Any]:
        assert self.bootstrapped and {"warehouse-name", "storage-profile"} <= set(wanted)
        profile, credential = wanted["storage-profile"], wanted["storage-credential"]
        assert {"type", "bucket", "region", "sts-enabled"} <= set(profile) <= S3_PROFILE
        assert profile["type"] == "s3" and profile["flavor"] in ("aws", "s3-compat")
        assert credential["type"] == "s3" and credential["credential-type"] == "access-key"
        assert set(credential) == {"type", "credential-type", "access-key-id", "secret-access-key"}
        assert wanted["delete-profile"] == {"type": "hard"}
        if any(one["name"] == wanted["warehouse-name"] for one in self.warehouses):
            return 409, {"error": {"message": "there", "type": "WarehouseAlreadyExists", "code": 409}}
        self.warehouses.append({"name": wanted["warehouse-name"], "storage-profile": profile, "status": "active"})
        return 201, self.warehouses[-1]


@pytest.fixture
def server() -> Iterator[tuple[Lakekeeper, str]]:
    """Such a server, and its address."""
    specified = Lakekeeper()

    class Handler(BaseHTTPRequestHandler):
        def reply(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            try:
                status, content = specified.answer(self.command, self.path, body)
            except (AssertionError, KeyError, ValueError) as e:
                status, content = 400, {"error": {"message": repr(e), "type": "BadRequest", "code": 400}}
            raw = b"" if content is None else json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(raw)))
            self.end_headers()
            self.wfile.write(raw)

        do_GET = do_POST = reply

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        thread = threading.Thread(target=running.serve_forever, daemon=True)
        thread.start()
        try:
            yield specified, f"http://127.0.0.1:{running.server_address[1]}"
        finally:
            running.shutdown()
            thread.join()


def set_up(uri: str, warehouse: str = "s3://warehouse/lakekeeper") -> None:
    bootstrap.lakekeeper(uri, warehouse, "http://minio:9000", "us-east-1", "admin", "password")


def test_it_bootstraps_the_server_and_makes_the_warehouse(server: tuple[Lakekeeper, str]) -> None:
    specified, uri = server
    set_up(uri)
    assert specified.bootstrapped and [one["name"] for one in specified.warehouses] == ["icequake"]
    profile = specified.warehouses[0]["storage-profile"]
    assert (profile["bucket"], profile["key-prefix"]) == ("warehouse", "lakekeeper")
    assert profile["endpoint"] == "http://minio:9000" and profile["path-style-access"] is True


def test_a_second_call_changes_nothing(server: tuple[Lakekeeper, str]) -> None:
    specified, uri = server
    set_up(uri)
    specified.calls.clear()
    set_up(uri)
    assert specified.calls == ["GET /management/v1/info", "GET /management/v1/warehouse"]


def test_a_set_up_that_was_cut_off_after_the_first_call_is_completed(server: tuple[Lakekeeper, str]) -> None:
    specified, uri = server
    specified.bootstrapped = True
    set_up(uri)
    assert len(specified.warehouses) == 1


def test_a_warehouse_at_another_place_is_not_taken(server: tuple[Lakekeeper, str]) -> None:
    _, uri = server
    set_up(uri)
    with pytest.raises(bootstrap.Refused, match="a warehouse icequake at another place than s3://other/place"):
        set_up(uri, "s3://other/place")


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("info", "asked for its state it answers 500"),
        ("bootstrap", "asked to bootstrap it answers 500"),
        ("warehouse", "asked for its warehouses it answers 500"),
    ],
)
def test_another_answer_is_said(server: tuple[Lakekeeper, str], path: str, says: str) -> None:
    specified, uri = server
    specified.broken[f"/management/v1/{path}"] = 500
    with pytest.raises(bootstrap.Refused, match=says):
        set_up(uri)


# --- the program, as the containers run it ----------------------------------------------------------------------------


def program(*words: str, **given: str) -> subprocess.CompletedProcess[str]:
    file = str(Path(bootstrap.__file__))
    command = [sys.executable, "-I", "-S", file, *words]  # -S: without any package
    return subprocess.run(command, env=given, capture_output=True, text=True, timeout=60)


def test_the_program_of_the_compose_file_makes_the_catalog(server: tuple[Lakekeeper, str]) -> None:
    specified, uri = server
    spec = composefile.read({})["lakekeeper-setup"]
    assert spec.entrypoint == ("python3", "/icequake/bootstrap.py") and spec.command == ("lakekeeper", "--keep")
    assert Path(spec.volumes[0][0]).resolve() == Path(bootstrap.__file__).resolve()
    done = program("lakekeeper", **{**spec.environment, "URI": uri})
    assert done.returncode == 0 and done.stdout == "lakekeeper: the catalog icequake is there\n", done.stderr
    assert len(specified.warehouses) == 1


@pytest.mark.parametrize("name", bootstrap.SERVERS)
def test_the_compose_file_gives_the_program_all_that_it_needs(name: str) -> None:
    given = {**composefile.read({})[f"{name}-setup"].environment, "URI": "http://127.0.0.1:1", "START_SECONDS": "0"}
    done = program(name, **given)
    assert done.returncode == 255 and "Connection refused" in done.stderr and done.stderr.count("\n") == 1
    del given["REGION"]
    done = program(name, **given)
    assert (done.returncode, done.stderr) == (254, f"{name}: the variable REGION is missing\n")


def test_a_server_without_a_set_up_is_said_with_the_usage() -> None:
    done = program("gravitino")
    assert done.returncode == 254 and "python bootstrap.py lakekeeper" in done.stderr
