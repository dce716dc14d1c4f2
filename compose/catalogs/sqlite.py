"""The JDBC catalog on a SQLite file: no server, all writers on one machine."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from pathlib import Path

from compose.catalogs.catalog import Catalog
from compose.catalogs.jdbc import JDBC_TABLES
from compose.endpoints import Endpoints
from compose.processes.process import LocalProcess
from compose.processes.service import ServiceError

OPTIONS = "busy_timeout=30000&journal_mode=WAL&synchronous=NORMAL"


def _file(endpoints: Endpoints) -> str:
    return endpoints.catalog_uri.removeprefix("jdbc:sqlite:").partition("?")[0]


def _uri(_: Mapping[str, LocalProcess], data: Path) -> str:
    return f"jdbc:sqlite:{data / 'catalog.sqlite'}?{OPTIONS}"


def prepare(_: Mapping[str, LocalProcess], data: Path) -> None:
    """Make the file with the catalog's tables; nothing changes if they are there."""
    connection = sqlite3.connect(data / "catalog.sqlite")
    try:
        connection.execute("PRAGMA journal_mode=WAL")
        for statement in JDBC_TABLES:
            connection.execute(statement.replace("CREATE TABLE", "CREATE TABLE IF NOT EXISTS", 1))
        connection.commit()
    finally:
        connection.close()


def _properties(endpoints: Endpoints) -> Mapping[str, str]:
    return {
        "type": "jdbc",
        "uri": endpoints.catalog_uri,
        "jdbc.schema-version": "V1",
        "init-catalog-tables": "false",  # the stack has made them
        "warehouse": endpoints.warehouse,
    }


def _pointer(endpoints: Endpoints, namespace: str, table: str, timeout: float) -> str | None:
    sql = "SELECT metadata_location FROM iceberg_tables WHERE table_namespace = ? AND table_name = ?"
    try:
        connection = sqlite3.connect(f"file:{_file(endpoints)}?mode=ro", timeout=timeout, uri=True)
        try:
            row = connection.execute(sql, (namespace, table)).fetchone()
        finally:
            connection.close()
    except sqlite3.Error as error:
        problem = f"{type(error).__name__}: {error}"
        raise ServiceError(endpoints.catalog, f"no metadata location of {namespace}.{table}: {problem}") from error
    return None if row is None else str(row[0])


JDBC_SQLITE = Catalog(
    name="jdbc-sqlite",
    summary="Iceberg's JDBC catalog on a SQLite file, for writers on one machine",
    promise="each writer compares and swaps by an UPDATE … WHERE metadata_location = the old one",
    prepare=prepare,
    wire=None,
    uri=_uri,
    properties=_properties,
    pointer=_pointer,
    pyiceberg=lambda e: {"type": "sql", "uri": f"sqlite:///{_file(e)}"},
    jars=("sqlite",),
)
