"""Polaris: the calls that set it up, against a server that answers as its specification says; and what is said without Docker."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote

import pytest

from compose.catalogs import polaris
from compose.catalogs.registry import CATALOGS
from compose.endpoints import Endpoints
from compose.processes.container import engine
from compose.processes.process import NotReady
from compose.processes.service import ServiceError
from tests.support.runs import environment, icequake

TOKEN = "a.token.of.theirs"
GRANTS = re.compile(r"/api/management/v1/catalogs/([^/]+)/catalog-roles/([^/]+)/grants")
TABLE = re.compile(r"/api/catalog/v1/([^/]+)/namespaces/([^/]+)/tables/([^/]+)")
STORAGE_KEYS = {
    *("storageType", "allowedLocations", "storageName", "roleArn", "externalId", "userArn", "currentKmsKey", "region"),
    *(
        "allowedKmsKeys",
        "endpoint",
        "stsEndpoint",
        "stsUnavailable",
        "endpointInternal",
        "pathStyleAccess",
        "kmsUnavailable",
    ),
}
"""``AwsStorageConfigInfo`` of spec/polaris-management-service.yml, 1.7.0."""


class Specified:
    """What the specifications of the management service and of the catalog service demand of the calls that we make."""

    def __init__(self) -> None:
        self.catalogs: dict[str, Any] = {}
        self.grants: list[tuple[str, str, Any]] = []
        self.tables: dict[tuple[str, str, str], str] = {}
        self.broken: dict[str, int] = {}

    def answer(self, method: str, path: str, headers: Any, body: bytes) -> tuple[int, Any]:
        if (status := self.broken.get(method)) is not None:
            return status, {"error": {"message": "broken", "type": "ServiceFailureException", "code": status}}
        if (method, path) == ("POST", "/api/catalog/v1/oauth/tokens"):
            form = {k: v[0] for k, v in parse_qs(body.decode()).items()}
            known = (form.get("client_id"), form.get("client_secret")) == ("root", "s3cr3t")
            if form.get("grant_type") != "client_credentials" or form.get("scope") != "PRINCIPAL_ROLE:ALL" or not known:
                return 401, {"error": "unauthorized_client"}
            return 200, {"access_token": TOKEN, "token_type": "bearer", "expires_in": 3600}
        if headers.get("Authorization") != f"Bearer {TOKEN}":
            return 401, {"error": {"message": "no", "type": "NotAuthorizedException", "code": 401}}
        if (method, path) == ("POST", "/api/management/v1/catalogs"):
            return self.create(json.loads(body))
        if method == "PUT" and (m := GRANTS.fullmatch(path)):
            grant = json.loads(body)["grant"]
            if unquote(m[1]) not in self.catalogs or m[2] != "catalog_admin":
                return 404, {}
            assert grant["type"] in ("catalog", "namespace", "table", "view", "policy") and grant["privilege"]
            self.grants.append((unquote(m[1]), m[2], grant["privilege"]))
            return 201, None
        if method == "GET" and (m := TABLE.fullmatch(path)):
            location = self.tables.get((unquote(m[1]), unquote(m[2]), unquote(m[3])))
            if location is None:
                return 404, {"error": {"message": "no", "type": "NoSuchTableException", "code": 404}}
            return 200, {"metadata-location": location, "metadata": {}, "config": {}}
        return 404, {}

    def create(self, request: Any) -> tuple[int, Any]:
        catalog = request["catalog"]
        assert {"name", "type", "storageConfigInfo", "properties"} <= set(catalog)
        assert catalog["type"] in ("INTERNAL", "EXTERNAL")
        assert "default-base-location" in catalog["properties"]
        assert all(isinstance(v, str) for v in catalog["properties"].values())
        storage = catalog["storageConfigInfo"]
        assert storage["storageType"] == "S3" and set(storage) <= STORAGE_KEYS
        assert any(catalog["properties"]["default-base-location"].startswith(x) for x in storage["allowedLocations"])
        if catalog["name"] in self.catalogs:
            return 409, {"error": {"message": "there", "type": "AlreadyExistsException", "code": 409}}
        self.catalogs[catalog["name"]] = catalog
        return 201, catalog


@pytest.fixture
def server() -> Iterator[tuple[Specified, str]]:
    """Such a server, and the address of its catalog API."""
    specified = Specified()

    class Handler(BaseHTTPRequestHandler):
        def reply(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            try:
                status, content = specified.answer(self.command, self.path, self.headers, body)
            except (AssertionError, KeyError, ValueError) as e:
                status, content = 400, {"error": {"message": repr(e), "type": "BadRequestException", "code": 400}}
            raw = b"" if content is None else json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(raw)))
            self.end_headers()
            self.wfile.write(raw)

        do_GET = do_POST = do_PUT = reply

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        thread = threading.Thread(target=running.serve_forever, daemon=True)
        thread.start()
        try:
            yield specified, f"http://127.0.0.1:{running.server_address[1]}/api/catalog"
        finally:
            running.shutdown()
            thread.join()


def set_up(uri: str) -> None:
    polaris.set_up(uri, "s3://warehouse/polaris", "http://127.0.0.1:1", "http://127.0.0.1:2", "us-east-1")


def test_it_makes_the_catalog_and_grants_the_work_with_its_content(server: tuple[Specified, str]) -> None:
    specified, uri = server
    set_up(uri)
    storage = specified.catalogs["icequake"]["storageConfigInfo"]
    assert (storage["endpoint"], storage["endpointInternal"]) == ("http://127.0.0.1:1", "http://127.0.0.1:2")
    assert storage["pathStyleAccess"] is True and storage["stsUnavailable"] is True
    assert specified.grants == [("icequake", "catalog_admin", "CATALOG_MANAGE_CONTENT")]


def test_a_catalog_that_is_there_already_is_taken(server: tuple[Specified, str]) -> None:
    specified, uri = server
    set_up(uri)
    set_up(uri)
    assert list(specified.catalogs) == ["icequake"] and len(specified.grants) == 2


@pytest.mark.parametrize(
    ("method", "says"), [("POST", "asked for a token it answers 500"), ("PUT", "asked to grant CATALOG_MANAGE_CONTENT")]
)
def test_another_answer_is_said(server: tuple[Specified, str], method: str, says: str) -> None:
    specified, uri = server
    specified.broken[method] = 500
    with pytest.raises(NotReady, match=says):
        set_up(uri)


def test_the_pointer_is_asked_with_a_token(server: tuple[Specified, str]) -> None:
    specified, uri = server
    e = Endpoints("http://s", "a", "b", "r", "w", "polaris", uri, "s3://w/polaris", "spark://m")
    specified.tables["icequake", "a\x1fb", "t"] = "s3://w/polaris/a/b/t/metadata/1.json"
    pointer = CATALOGS["polaris"].pointer
    assert pointer(e, "a.b", "t", 5) == "s3://w/polaris/a/b/t/metadata/1.json"
    assert pointer(e, "a.b", "u", 5) is None
    specified.broken["GET"] = 503
    with pytest.raises(ServiceError, match=r"asked for a\.b\.t it answers 503"):
        pointer(e, "a.b", "t", 5)


def test_the_writers_name_the_catalog_and_bring_credentials() -> None:
    e = Endpoints("http://s", "a", "b", "r", "w", "polaris", "http://h:1/api/catalog", "s3://w/polaris", "spark://m")
    entry = CATALOGS["polaris"]
    found = entry.properties(entry.through(e, "127.0.0.1", 9))
    assert found["uri"] == "http://127.0.0.1:9/api/catalog" and found["warehouse"] == "icequake"
    assert found["credential"] == "root:s3cr3t" and found["scope"] == "PRINCIPAL_ROLE:ALL"


def test_without_docker_one_line_says_so_and_how_to_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nowhere = f"unix://{tmp_path}/docker.sock"
    done = icequake(
        "run", "quick", "--catalog", "polaris", "--store", tmp_path / "store", env=environment(DOCKER_HOST=nowhere)
    )
    assert done.returncode == 255 and done.stderr.count("\n") == 1
    assert done.stderr.startswith(
        "icequake: polaris: needs Docker, and no engine answers (no socket); start a Docker engine "
    )
    assert "--catalog my.yaml" in done.stderr
    assert not (tmp_path / "store").exists()
    monkeypatch.setenv("DOCKER_HOST", "tcp://127.0.0.1:1")
    with pytest.raises(ServiceError, match=r"x: needs Docker, and no engine answers \(connection refused\)"):
        engine("x")
