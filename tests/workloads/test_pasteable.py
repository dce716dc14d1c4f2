"""Values of a sweep's parameters as what one types: with the properties that a table of that value really has."""

from __future__ import annotations

import pytest

from workloads.ddl import table_properties
from workloads.file.parameters import LAYOUTS
from workloads.file.pasteable import commands_of, typed
from workloads.tables import TableSpec


@pytest.mark.parametrize(
    ("varied", "spec"),
    [
        ({"isolation": "snapshot"}, TableSpec(name="t", mode="merge-on-read", isolation="snapshot")),
        ({"mode": "copy-on-write"}, TableSpec(name="t", mode="copy-on-write")),
        ({"format-version": "3"}, TableSpec(name="t", mode="merge-on-read", format_version=3)),
        (
            {"commit.retry.num-retries": "8"},
            TableSpec(name="t", mode="merge-on-read", properties={"commit.retry.num-retries": "8"}),
        ),
    ],
)
def test_properties_are_those_of_the_table_that_was_measured(varied: dict[str, str], spec: TableSpec) -> None:
    (text,) = typed(list(varied.items()))
    other, has = (
        table_properties(TableSpec(name="t", isolation="serializable", mode="merge-on-read")),
        table_properties(spec),
    )
    pairs = ", ".join(f"'{k}'='{v}'" for k, v in has.items() if other.get(k) != v)
    assert pairs and text == f"ALTER TABLE t SET TBLPROPERTIES ({pairs})"


def test_properties_of_each_choice_stand_in_a_statement_and_the_rest_in_words() -> None:
    found = typed(
        [("mode", "merge-on-read"), ("layout", "bucketed"), ("commit.retry.num-retries", "8"), ("writers", "2")]
    )
    alter, create = "ALTER TABLE t SET TBLPROPERTIES", "CREATE TABLE … PARTITIONED BY"
    assert [x.partition(" (")[0] for x in found] == [alter, alter, create]
    assert found[0].endswith("'write.merge.mode'='merge-on-read')") and found[1].endswith(
        " ('commit.retry.num-retries'='8')"
    )


def test_every_layout_has_words() -> None:
    assert all(typed([("layout", name)]) for name in LAYOUTS)


@pytest.mark.parametrize(
    ("operations", "ran"),
    [
        (["insert", "update-counter"], ("update",)),
        (["merge-update", "delete"], ("delete", "merge")),
        (["transfer"], ("update",)),
        (["insert"], ()),
        ([], ("delete", "update", "merge")),
    ],
)
def test_only_properties_of_statements_that_ran_are_said(operations: list[str], ran: tuple[str, ...]) -> None:
    assert commands_of(operations) == ran
    said = typed([("mode", "copy-on-write")], ran)
    assert [f"'write.{c}.mode'" in "".join(said) for c in ("delete", "update", "merge")] == [
        c in ran for c in ("delete", "update", "merge")
    ]
