"""A branch and its merge, on a real Nessie: everything of it becomes main's, or nothing; and what of Nessie a catalog of one's own can use."""

from __future__ import annotations

import json
import shutil
import tempfile
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from compose.catalogs import user_file
from compose.catalogs.catalog import Site
from compose.catalogs.nessie import NESSIE, Nessie
from compose.external.external import External
from compose.external.preflight import PreflightError, preflight
from compose.install import ensure
from compose.install.installation import Installation
from compose.processes.ports import LOOPBACK, Ports
from compose.servers.postgres import Postgres
from harness.writers.nessie_branch import Branch, Conflict

pytestmark = pytest.mark.spark


class Server:
    """Nessie, and what a client sees of it."""

    def __init__(self, uri: str) -> None:
        self.uri = uri

    def ask(self, path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            f"{self.uri}/api/v2/{path}", data, {"Content-Type": "application/json", "Accept": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.loads(answer.read())

    def put(self, ref: str, key: str, note: str) -> None:
        """Commit a namespace with a property."""
        tip = self.ask(f"trees/{ref}")["reference"]["hash"]
        there = self.contents(ref).get(key)
        content = {"type": "NAMESPACE", "elements": [key], "properties": {"note": note}}
        if there is not None:
            content["id"] = there["id"]
        operation = {"type": "PUT", "key": {"elements": [key]}, "content": content}
        commit = {"commitMeta": {"message": note}, "operations": [operation]}
        self.ask(f"trees/{ref}@{tip}/history/commit", commit)

    def contents(self, ref: str) -> dict[str, Any]:
        """Key → content."""
        entries = self.ask(f"trees/{ref}/entries?content=true")["entries"]
        return {e["name"]["elements"][0]: e["content"] for e in entries}

    def branches(self) -> set[str]:
        return {r["name"] for r in self.ask("trees")["references"]}


@pytest.fixture(scope="module")
def nessie(installation: Installation) -> Iterator[Server]:
    ensure.provide(installation, NESSIE.server_jars)
    data = Path(tempfile.mkdtemp(prefix="icequake-test-"))
    data.chmod(0o755)
    ports, run = Ports(), data.name
    database = Postgres(installation.postgres_bin, run_id=run, ports=ports, data=data / "pg", log=data / "pg.log")

    def uri() -> str:
        return f"jdbc:postgresql://{LOOPBACK}:{database.port()}/postgres"

    def store() -> str:
        return f"http://{LOOPBACK}:9"  # nothing here reads a table

    site = Site(
        installation=installation,
        run_id=run,
        ports=ports,
        data=data,
        logs=data,
        postgres=database,
        database=uri,
        store=store,
        client_store=store,
        warehouse="s3://warehouse/x",
        catalog=NESSIE,
    )
    server = Nessie(site)
    try:
        database.start()
        database.ready(60)
        server.start()
        server.ready(120)
        client = Server(server.uri)
        client.put("main", "first", "old")  # branches of an empty main have no ancestor in common
        yield client
    finally:
        server.stop()
        database.stop()
        shutil.rmtree(data, ignore_errors=True)


def test_a_merge_brings_all_of_a_branch_and_the_branch_is_gone(nessie: Server) -> None:
    with Branch(f"{nessie.uri}/iceberg/main", "whole") as branch:
        nessie.put("whole", "a", "new")
        nessie.put("whole", "b", "new")
        assert nessie.contents("main").keys() == {"first"}
        nessie.put("main", "elsewhere", "meanwhile")
        branch.merge()
    found = nessie.contents("main")
    notes = {k: c["properties"]["note"] for k, c in found.items()}
    assert notes == {"first": "old", "a": "new", "b": "new", "elsewhere": "meanwhile"}
    assert nessie.branches() == {"main"}


def test_a_merge_that_meets_another_commit_of_one_key_brings_nothing(nessie: Server) -> None:
    nessie.put("main", "c", "old")
    nessie.put("main", "d", "old")
    with pytest.raises(Conflict):
        with Branch(f"{nessie.uri}/api/v2", "refused") as branch:
            nessie.put("refused", "c", "new")
            nessie.put("refused", "d", "new")
            nessie.put("main", "d", "theirs")
            branch.merge()
    assert {k: nessie.contents("main")[k]["properties"]["note"] for k in "cd"} == {"c": "old", "d": "theirs"}
    assert nessie.branches() == {"main"}


def test_a_branch_that_is_not_merged_leaves_nothing(nessie: Server) -> None:
    before = nessie.contents("main")
    with pytest.raises(ValueError, match="not mine"):
        with Branch(f"{nessie.uri}/api/v2", "given-up"):
            nessie.put("given-up", "e", "new")
            raise ValueError("not mine")
    assert nessie.contents("main") == before and nessie.branches() == {"main"}


def test_no_server_is_an_error_of_the_system() -> None:
    with pytest.raises(OSError), Branch(f"http://{LOOPBACK}:9/iceberg/main", "nobody"):
        pass


@pytest.mark.parametrize("kind", ["type: rest", "catalog-impl: org.apache.iceberg.rest.RESTCatalog"])
def test_a_catalog_of_ones_own_over_its_rest_endpoint_is_refused(nessie: Server, kind: str, tmp_path: Path) -> None:
    own = "type: nessie, uri: " + f"{nessie.uri}/api/v2, ref: main"
    for spark, refused in ((kind + f", uri: {nessie.uri}/iceberg", True), (own, False)):
        file = tmp_path / "my.yaml"
        file.write_text(f"name: mine\nspark: {{{spark}}}\npyiceberg: {{type: rest, uri: {nessie.uri}/iceberg}}\n")
        supplied = External(catalog=user_file.load(file))
        if refused:
            with pytest.raises(
                PreflightError, match=r"is Nessie, which shows .* use its own API, spark: {type: nessie"
            ):
                preflight(supplied)
        else:
            preflight(supplied)
