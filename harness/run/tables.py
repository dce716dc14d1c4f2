"""The tables of a run: how they are created, and how they are dropped."""

from __future__ import annotations

from workloads.ddl import definition
from workloads.file.workload import Workload
from workloads.operations.kind import Statement
from workloads.tables import SQL_COLUMNS, TableSpec

CREATE_NAMESPACE = [Statement("CREATE NAMESPACE IF NOT EXISTS {catalog}.{namespace}")]


def create_table(table: TableSpec) -> list[Statement]:
    """The DDL of one table under test; its namespace is there."""
    return [Statement(f"CREATE TABLE {{table}} ({SQL_COLUMNS}) {definition(table)}")]


def drop_commands(catalog: str, namespace: str, workload: Workload) -> tuple[str, ...]:
    """The statements that drop what a run has made."""
    catalog = catalog if catalog.isidentifier() else f"`{catalog}`"
    tables = [f"DROP TABLE {catalog}.{namespace}.{t.name} PURGE" for t in workload.tables]
    return (*tables, f"DROP NAMESPACE {catalog}.{namespace}")
