"""Catalogs without a REST server: PyIceberg's client makes the requests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hive_metastore.ttypes import InvalidObjectException
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import CommitTableResponse, Table

from checkers.certificate import Absent, Conclusion
from compose.external.preflight import PreflightError
from harness.certify.certify import asked_once
from harness.certify.kit import Kit, ServerDescription, SetUpError
from harness.certify.library import LibraryServer
from harness.certify.requirement import NotApplicable, Requirement
from harness.certify.requirements import requirements
from harness.certify.servers import client_properties, of_properties, preflight, serving
from tests.support.runs import Silent

BY_ID = {r.id: r for r in requirements()}
ROUNDS = 2
HOLDS = (
    "acknowledged-is-kept",
    "conflict-is-409",
    "duplicate-commit",
    "first-commit-race",
    "namespace-props-merge",
    "register-spares-source",
    "schema-and-data",
    "uuid-after-recreate",
)


class NeverCompares(SqlCatalog):
    """It applies what a commit says, and asks none of its requirements."""

    def commit_table(self, table: Table, requirements: Any, updates: Any) -> CommitTableResponse:
        return super().commit_table(table, (), updates)


class Acknowledges(SqlCatalog):
    """It answers a commit of properties, and makes nothing of it."""

    def commit_table(self, table: Table, requirements: Any, updates: Any) -> CommitTableResponse:
        if updates[0].action == "set-properties":
            return CommitTableResponse(metadata=table.metadata, **{"metadata-location": table.metadata_location})
        return super().commit_table(table, requirements, updates)


class CommitsNothing(SqlCatalog):
    """As PyIceberg's catalog of DynamoDB."""

    def commit_table(self, table: Table, requirements: Any, updates: Any) -> CommitTableResponse:
        raise NotImplementedError


class PurgesNothing(SqlCatalog):
    """As PyIceberg's catalog of Hive."""

    def purge_table(self, identifier: Any) -> None:
        raise NotImplementedError


class Unworded(SqlCatalog):
    """It refuses a namespace by an exception of the metastore's client, which nothing can be set of."""

    def create_namespace(self, *_: Any, **__: Any) -> None:
        raise InvalidObjectException("no such database")


def sql(tmp_path: Path, **more: str) -> ServerDescription:
    given = {"uri": f"sqlite:///{tmp_path / 'c.sqlite'}", "warehouse": f"file://{tmp_path / 'files'}"}
    return of_properties({**given, **(more or {"type": "sql"})}, "mine")


def test_a_catalog_of_pyiceberg_is_asked_as_a_server_is(tmp_path: Path) -> None:
    server = sql(tmp_path)
    found = {id: asked_once(BY_ID[id], server, ROUNDS) for id in HOLDS}
    assert {id for id, j in found.items() if j.conclusion is not Conclusion.PASS} == set(), found


@pytest.mark.parametrize(
    ("catalog", "id"),
    [(NeverCompares, "conflict-is-409"), (NeverCompares, "null-ref"), (Acknowledges, "no-requirement-no-loss")],
)
def test_what_such_a_catalog_breaks_is_found(catalog: type[SqlCatalog], id: str, tmp_path: Path) -> None:
    server = sql(tmp_path, **{"py-catalog-impl": f"{__name__}.{catalog.__name__}"})
    assert asked_once(BY_ID[id], server, ROUNDS).conclusion is Conclusion.FAIL


def test_an_exception_of_hives_metastore_is_told_as_what_it_is(tmp_path: Path) -> None:
    """Its classes are frozen, and who sets its traceback, as contextlib does, gets a TypeError in its place."""
    server = sql(tmp_path, **{"py-catalog-impl": f"{__name__}.Unworded"})
    with Kit(server, "x") as kit, pytest.raises(SetUpError, match="500 InvalidObjectException"):
        kit.namespace()


def test_a_catalog_that_is_not_reached_is_named(tmp_path: Path) -> None:
    with pytest.raises(SetUpError, match="mine: PyIceberg does not reach it: OperationalError"):
        sql(tmp_path, type="sql", uri=f"sqlite:///{tmp_path / 'away' / 'c.sqlite'}")


@pytest.mark.parametrize("place", ["warehouse: 'file://{}/files'", "pyiceberg: {{warehouse: 'file://{}/files'}}"])
def test_a_jdbc_catalog_is_certified_by_its_file(place: str, tmp_path: Path) -> None:
    """Which PyIceberg reaches by what follows from ``spark:``, and which says where its tables are."""
    file = tmp_path / "mine.yaml"
    uri = f"jdbc:sqlite:{tmp_path / 'c.sqlite'}"
    file.write_text(f"spark: {{type: jdbc, uri: '{uri}'}}\n{place.format(tmp_path)}\n")
    with serving(str(file), tmp_path, Silent()) as server:
        assert asked_once(BY_ID["conflict-is-409"], server, ROUNDS).conclusion is Conclusion.PASS


def test_a_jdbc_catalog_without_a_place_is_refused_before_it_is_asked(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(f"spark: {{type: jdbc, uri: 'jdbc:sqlite:{tmp_path / 'c.sqlite'}'}}\n")
    with pytest.raises(PreflightError, match="does not say where; give warehouse: file:///"):
        preflight([str(file)])


def test_the_store_of_the_file_is_where_a_jdbc_catalog_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "me")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret-of-mine")
    file = tmp_path / "mine.yaml"
    file.write_text(
        f"spark: {{type: jdbc, uri: 'jdbc:sqlite:{tmp_path / 'c.sqlite'}'}}\ns3: http://minio:9000/lake/x\n"
    )
    with serving(str(file), tmp_path, Silent()) as server:
        assert isinstance(server, LibraryServer)
        assert server.properties["warehouse"] == "s3://lake/x"
        assert server.properties["s3.endpoint"] == "http://minio:9000"


def reason(requirement: Requirement, server: ServerDescription) -> Absent | None:
    try:
        asked_once(requirement, server, 1)
    except NotApplicable as e:
        return Absent(e.why)
    return None


@pytest.mark.parametrize(
    ("id", "why"),
    [
        ("txn-one-table", Absent.NO_OPERATION),
        ("views-no-loss", Absent.NO_OPERATION),
        ("error-body", Absent.NO_SERVER),
        ("key-replays", Absent.NO_SERVER),
    ],
)
def test_what_it_cannot_be_asked_has_a_reason(id: str, why: Absent, tmp_path: Path) -> None:
    assert reason(BY_ID[id], sql(tmp_path)) is why


def test_a_lock_of_hive_is_looked_at_soon_and_waited_for_as_long_as_by_default() -> None:
    found = client_properties({"type": "hive", "uri": "thrift://h:1"})
    waits = float(found["lock-check-max-wait-time"])
    assert waits <= 0.1 and waits * int(found["lock-check-retries"]) == pytest.approx(2 + 4 + 8)
    assert client_properties({"type": "hive", "lock-check-retries": 4})["lock-check-retries"] == "4"
    assert client_properties({"type": "sql"}) == {"type": "sql"}


@pytest.mark.parametrize("id", ["one-winner-per-base", "first-commit-race", "null-ref", "drop-ends-commits"])
def test_what_pyiceberg_cannot_do_does_not_apply(id: str, tmp_path: Path) -> None:
    server = sql(tmp_path, **{"py-catalog-impl": f"{CommitsNothing.__module__}.CommitsNothing"})
    assert reason(BY_ID[id], server) is Absent.NO_OPERATION


@pytest.mark.parametrize("catalog", [SqlCatalog, PurgesNothing])
def test_what_it_was_asked_with_goes_at_the_end(catalog: type[SqlCatalog], tmp_path: Path) -> None:
    path = f"{catalog.__module__}.{catalog.__name__}"
    server = sql(tmp_path, **{"py-catalog-impl": path})
    assert isinstance(server, LibraryServer)
    with Kit(server, "x") as kit:
        kit.table()
        assert server.use(lambda there: there.list_namespaces())
    assert not server.use(lambda there: there.list_namespaces())
