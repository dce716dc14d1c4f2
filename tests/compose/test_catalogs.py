"""The catalogs' entries, and what can be asked of them without their servers."""

from __future__ import annotations

import base64
import errno
import json
import os
import re
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from compose.catalogs import hadoop, nessie, sqlite
from compose.catalogs.catalog import DATABASE, Catalog
from compose.catalogs.moto_server import GET_TABLE, UPDATE_TABLE, Journalled
from compose.catalogs.registry import CATALOGS
from compose.endpoints import Endpoints
from compose.install import jdk
from compose.install.installation import Installation
from compose.processes.service import ServiceError
from compose.stack.stack import Stack, port_names
from harness.run.versions import versions
from harness.tablefiles.iceberg.pointer_chain import recorded
from tests.support.entries import example_catalog, site
from tests.support.examples import example
from tests.support.files import files_of_at_most

ENDPOINTS = Endpoints(
    s3="http://s:1",
    access_key="k",
    secret_key="s",
    region="r",
    bucket="warehouse",
    catalog="rest",
    catalog_uri="http://c:2/x",
    warehouse="s3://warehouse/w",
    spark_master="spark://m:3",
)


EXAMPLE = "rest-sqlite"
"""The example of docs/extending.md."""


@pytest.fixture(params=[*CATALOGS, EXAMPLE])
def entry(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Catalog:
    """Every entry, and the example of docs/extending.md as if registry.py listed it."""
    if request.param == EXAMPLE:
        monkeypatch.setitem(CATALOGS, EXAMPLE, example_catalog(tmp_path))  # type: ignore[arg-type]  # a dict, for a reader a Mapping
    return CATALOGS[request.param]


def test_an_entry_says_all_that_is_asked_of_it(entry: Catalog) -> None:
    assert entry.summary and entry.promise and entry.guard in ("compare-and-swap", "lock", "none")
    page = Path(__file__).parents[2] / entry.page
    assert page.is_file() or entry.name == EXAMPLE, f"{entry.page} explains the catalog"


def test_an_entry_makes_the_servers_that_it_names(
    tmp_path: Path, entry: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jdk, "pick", lambda *_, **__: jdk.Jdk(tmp_path, 21))
    made = [server.make(site(tmp_path, entry)) for server in entry.servers]
    assert tuple(process.name for process in made) == entry.services
    for process, server in zip(made, entry.servers, strict=True):
        assert process._port_names == server.ports and set(server.ports) <= set(port_names())
        assert process.role == ("database" if server is DATABASE else "catalog")


def test_a_plan_gives_the_version_of_every_server(installation: Installation, entry: Catalog) -> None:
    found = versions(installation, frozenset(entry.services))
    assert set(entry.services) <= set(found) and "minio" not in found
    assert all(re.match(r"\d+\.\d+", found[name]) for name in entry.services), found


def test_a_proxy_takes_the_place_where_commits_are_decided(entry: Catalog) -> None:
    if entry.wire in (None, "s3"):
        return
    uri = {"postgres": "jdbc:postgresql://c:2/x", "thrift": "thrift://c:2"}.get(str(entry.wire), "http://c:2/x")
    endpoints = replace(ENDPOINTS, catalog=entry.name, catalog_uri=uri)
    assert entry.address(endpoints) == ("c", 2)
    seen = entry.properties(entry.through(endpoints, "p", 9))
    assert any("p:9" in value for value in seen.values()) and not any("c:2" in value for value in seen.values())


def test_the_example_is_short() -> None:
    assert len(example("my_catalog.py").splitlines()) <= 50


# --- SQLite


def test_the_pointer_of_a_sqlite_file(tmp_path: Path) -> None:
    sqlite.prepare({}, tmp_path)
    sqlite.prepare({}, tmp_path)  # of a stack that starts again
    endpoints = replace(ENDPOINTS, catalog="jdbc-sqlite", catalog_uri=sqlite.JDBC_SQLITE.uri({}, tmp_path))
    pointer = sqlite.JDBC_SQLITE.pointer
    assert pointer(endpoints, "ns", "t", 1) is None
    with sqlite3.connect(tmp_path / "catalog.sqlite") as connection:
        connection.execute("INSERT INTO iceberg_tables VALUES ('c', 'ns', 't', 's3://m', NULL, 'TABLE')")
    assert pointer(endpoints, "ns", "t", 1) == "s3://m"
    lost = replace(endpoints, catalog_uri=f"jdbc:sqlite:{tmp_path}/none.sqlite")
    with pytest.raises(ServiceError, match=r"no metadata location of ns\.t"):
        pointer(lost, "ns", "t", 1)


# --- Hadoop


def test_the_pointer_of_a_folder_is_its_highest_version(tmp_path: Path) -> None:
    endpoints = replace(ENDPOINTS, catalog="hadoop", warehouse=str(tmp_path))
    assert hadoop.pointer(endpoints, "a.b", "t", 1) is None
    folder = tmp_path / "a" / "b" / "t" / "metadata"
    folder.mkdir(parents=True)
    for name in (
        "v9.metadata.json",
        "v10.metadata.json",
        "snap-11.avro",
        "version-hint.text",
        "x.v12.metadata.json.tmp",
    ):
        (folder / name).write_text("")
    assert hadoop.pointer(endpoints, "a.b", "t", 1) == str(folder / "v10.metadata.json")


def test_the_lock_of_the_hadoop_catalog_is_asked_at_its_server_and_commits_at_the_store() -> None:
    endpoints = replace(ENDPOINTS, catalog="hadoop-locked", catalog_uri="http://lock:9")
    found = hadoop.HADOOP_LOCKED.properties(endpoints)
    assert found["dynamodb.endpoint"] == "http://lock:9" and found["type"] == "hadoop"
    assert hadoop.HADOOP_LOCKED.session(endpoints)["spark.hadoop.fs.s3a.endpoint"] == "http://s:1"


def test_the_address_of_a_catalog_of_files_is_its_server_if_it_has_one(
    tmp_path: Path, installation: Installation
) -> None:
    def seen(name: str) -> tuple[str, str]:
        stack = Stack(installation, catalog=name, run_id="x", data=tmp_path / name, logs=tmp_path / name)
        return stack.endpoints.catalog_uri, stack.endpoints.s3

    alone, locked = seen("hadoop"), seen("hadoop-locked")
    assert alone[0] == alone[1] and locked[0] != locked[1]


# --- Nessie


def log_entry(*operations: dict[str, Any]) -> dict[str, Any]:
    return {"commitMeta": {}, "operations": list(operations)}


def put(location: str, *key: str) -> dict[str, Any]:
    content = {"type": "ICEBERG_TABLE", "metadataLocation": location}
    return {"type": "PUT", "key": {"elements": list(key)}, "content": content}


def test_the_history_of_nessie_is_its_own_log_oldest_first(monkeypatch: pytest.MonkeyPatch) -> None:
    gone = {"type": "DELETE", "key": {"elements": ["ns", "t"]}}
    pages = [
        {
            "hasMore": True,
            "token": "next page",
            "logEntries": [log_entry(put("m4", "ns", "t"), put("other", "ns", "u")), log_entry(put("m3", "ns", "t"))],
        },
        {
            "hasMore": False,
            "logEntries": [log_entry(put("m2", "ns", "t")), log_entry(gone), log_entry(put("m1", "ns", "t"))],
        },
    ]
    asked: list[str] = []

    def answer(_: Endpoints, path: str, __: float) -> tuple[int, Any]:
        asked.append(path)
        return 200, pages[len(asked) - 1]

    monkeypatch.setattr(nessie, "_ask", answer)
    assert nessie.NESSIE.history is not None
    assert nessie.NESSIE.history(ENDPOINTS, "ns", "t", 1) == ["m2", "m3", "m4"], (
        "not what was before the table was dropped"
    )
    assert "page-token=next%20page" in asked[1] and "page-token" not in asked[0]


def test_a_recorded_history_is_followed_from_what_is_known() -> None:
    history = ["s3://m1", "s3://m2", "s3://m3", "s3://m4"]
    whole = recorded("s3://m3", history, {})
    assert whole is not None and (whole.locations, whole.base) == (history[:3], None)
    rest = recorded("s3a://m4", history, {"s3://m2": 7})
    assert rest is not None and (rest.locations, rest.base) == (history[2:], 7)
    assert recorded("s3://m9", history, {}) is None, "then the files are asked"


# --- moto's journal

Answer = tuple[str, bytes]


class Tables:
    """A toy of Glue: tables with a version that every update raises."""

    def __init__(self) -> None:
        self.versions: dict[str, int] = {}

    def __call__(self, environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        question = json.loads(environ["wsgi.input"].read())
        name, target = question.get("Name") or question["TableInput"]["Name"], environ["HTTP_X_AMZ_TARGET"]
        if target == UPDATE_TABLE and name not in self.versions:
            start("400 BAD REQUEST", [])
            return [b"{}"]
        if target != GET_TABLE:
            self.versions[name] = self.versions.get(name, -1) + 1
        start("200 OK", [])
        return [json.dumps({"Table": {"VersionId": str(self.versions.get(name))}}).encode()]


def call(app: Journalled, target: str, question: dict[str, Any]) -> Answer:
    body, said = json.dumps(question).encode(), []
    environ = {
        "HTTP_X_AMZ_TARGET": target,
        "CONTENT_LENGTH": str(len(body)),
        "wsgi.input": BytesIO(body),
        "PATH_INFO": "/",
    }
    answer = b"".join(app(environ, lambda status, headers: said.append(status)))
    return said[0], answer


@pytest.fixture
def journalled() -> Iterator[Callable[..., Journalled]]:
    """Makes applications with a journal, and closes them."""
    made: list[Journalled] = []

    def make(app: Any, path: Path, *, compare: bool = False) -> Journalled:
        made.append(Journalled(app, path, compare=compare))
        return made[-1]

    yield make
    for app in made:
        app.close()


def test_what_was_acknowledged_is_there_after_the_process_died(
    tmp_path: Path, journalled: Callable[..., Journalled]
) -> None:
    tables = Tables()
    app = journalled(tables, tmp_path / "journal")
    update = {"DatabaseName": "d", "TableInput": {"Name": "t"}}
    assert call(app, UPDATE_TABLE, update)[0].startswith("400")
    call(app, "AWSGlue.CreateTable", update)
    for _ in range(3):
        assert call(app, UPDATE_TABLE, update)[0].startswith("200")
    call(app, GET_TABLE, {"DatabaseName": "d", "Name": "t"})
    with (tmp_path / "journal").open("ab") as journal:
        journal.write(b'{"torn')
    again = Tables()
    journalled(again, tmp_path / "journal")
    assert again.versions == tables.versions == {"t": 3}
    third = Tables()
    journalled(third, tmp_path / "journal")
    assert third.versions == {"t": 3}, "the torn line is gone, and nothing is played twice"


def test_a_start_without_room_for_the_cleaned_journal_loses_nothing(
    tmp_path: Path, journalled: Callable[..., Journalled]
) -> None:
    journal = tmp_path / "journal"
    app = journalled(Tables(), journal)
    for _ in range(3):
        call(app, "AWSGlue.CreateTable", {"DatabaseName": "d", "TableInput": {"Name": "t"}})
    content = journal.read_bytes()
    with files_of_at_most(len(content) // 2), pytest.raises(OSError) as refused:
        journalled(Tables(), journal)
    assert refused.value.errno == errno.EFBIG
    assert journal.read_bytes() == content and os.listdir(tmp_path) == ["journal"]


def test_an_update_of_an_older_version_is_refused_where_it_is_compared(
    tmp_path: Path, journalled: Callable[..., Journalled]
) -> None:
    def racing(compare: bool) -> Answer:
        app = journalled(Tables(), tmp_path / f"journal-{compare}", compare=compare)
        table = {"DatabaseName": "d", "TableInput": {"Name": "t"}}
        call(app, "AWSGlue.CreateTable", table)
        assert call(app, UPDATE_TABLE, {**table, "VersionId": "0"})[0].startswith("200")
        return call(app, UPDATE_TABLE, {**table, "VersionId": "0"})

    status, body = racing(True)
    assert status.startswith("400") and json.loads(body)["__type"] == "ConcurrentModificationException"
    assert racing(False)[0].startswith("200")


def test_the_journal_is_lines_of_json(tmp_path: Path, journalled: Callable[..., Journalled]) -> None:
    app = journalled(Tables(), tmp_path / "journal")
    call(app, "AWSGlue.CreateTable", {"DatabaseName": "d", "TableInput": {"Name": "t"}})
    (line,) = (tmp_path / "journal").read_text().splitlines()
    assert json.loads(base64.b64decode(json.loads(line)["body"]))["TableInput"] == {"Name": "t"}


@pytest.mark.parametrize("name", [name for name, c in CATALOGS.items() if c.wire == "aws" and c.pyiceberg is not None])
def test_pyiceberg_never_asks_amazon_for_a_catalog_of_ours(name: str) -> None:
    described = CATALOGS[name].pyiceberg
    assert described is not None
    found = described(replace(ENDPOINTS, catalog=name))
    keys = {k: found[f"client.{k}"] for k in ("region", "access-key-id", "secret-access-key")}
    assert keys == {"region": "r", "access-key-id": "k", "secret-access-key": "s"}, "boto3 would take those of the user"
    if "glue.endpoint" in found:
        assert (found["type"], found["glue.endpoint"]) == ("glue", ENDPOINTS.catalog_uri)
    else:  # PyIceberg's own catalog has no property for an endpoint
        assert found["py-catalog-impl"] == "compose.catalogs.dynamodbclient.DynamoDbAt"
        assert found["dynamodb.endpoint"] == ENDPOINTS.catalog_uri
