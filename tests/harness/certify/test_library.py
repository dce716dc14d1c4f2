"""Catalogs without a REST server: PyIceberg's client makes the requests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import CommitTableResponse, Table

from checkers.certificate import Absent, Conclusion
from harness.certify.certify import asked_once
from harness.certify.kit import ServerDescription, SetUpError
from harness.certify.requirement import NotApplicable, Requirement
from harness.certify.requirements import requirements
from harness.certify.servers import of_properties

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


def test_a_catalog_that_is_not_reached_is_named(tmp_path: Path) -> None:
    with pytest.raises(SetUpError, match="mine: PyIceberg does not reach it: OperationalError"):
        sql(tmp_path, type="sql", uri=f"sqlite:///{tmp_path / 'away' / 'c.sqlite'}")


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
