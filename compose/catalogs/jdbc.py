"""Iceberg's JDBC catalog on PostgreSQL."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from compose.catalogs.catalog import CONNECT_TIMEOUT_MS, DATABASE, SOCKET_TIMEOUT_MS, Catalog
from compose.endpoints import Endpoints
from compose.processes.process import LocalProcess, NotReady
from compose.processes.service import ServiceError
from compose.servers.postgres import USER, Postgres, query

JDBC_TABLES = (
    "CREATE TABLE iceberg_tables (catalog_name VARCHAR(255) NOT NULL, table_namespace VARCHAR(255) NOT NULL, "
    "table_name VARCHAR(255) NOT NULL, metadata_location VARCHAR(1000), previous_metadata_location VARCHAR(1000), "
    "iceberg_type VARCHAR(5), PRIMARY KEY (catalog_name, table_namespace, table_name))",
    "CREATE TABLE iceberg_namespace_properties (catalog_name VARCHAR(255) NOT NULL, namespace VARCHAR(255) NOT NULL, "
    "property_key VARCHAR(255), property_value VARCHAR(1000), PRIMARY KEY (catalog_name, namespace, property_key))",
)
"""Schema version V1 (``core/jdbc/JdbcUtil``). The stack makes them, because drivers that start together would race to."""


def _properties(endpoints: Endpoints) -> Mapping[str, str]:
    return {
        "type": "jdbc",
        "uri": endpoints.catalog_uri,
        "jdbc.user": USER,
        "jdbc.schema-version": "V1",
        "jdbc.socketTimeout": str(SOCKET_TIMEOUT_MS // 1000),  # pgjdbc's, in seconds; it has none by default
        "jdbc.connectTimeout": str(CONNECT_TIMEOUT_MS // 1000),
        "init-catalog-tables": "false",  # the stack has made them
        "warehouse": endpoints.warehouse,
    }


def _pointer(endpoints: Endpoints, namespace: str, table: str, timeout: float) -> str | None:
    parts = urlsplit(endpoints.catalog_uri.removeprefix("jdbc:"))
    sql = "SELECT metadata_location FROM iceberg_tables WHERE table_namespace = %s AND table_name = %s"
    try:
        rows = query(
            parts.hostname or "127.0.0.1",
            parts.port or 5432,
            parts.path.lstrip("/"),
            sql,
            (namespace, table),
            timeout=timeout,
        )
    except (OSError, NotReady) as error:
        problem = f"{type(error).__name__}: {error}"
        raise ServiceError(endpoints.catalog, f"no metadata location of {namespace}.{table}: {problem}") from error
    return rows[0][0] if rows else None


def _database(services: Mapping[str, LocalProcess]) -> Postgres:
    server = services[DATABASE.name]
    assert isinstance(server, Postgres)
    return server


def _prepare(services: Mapping[str, LocalProcess], _: Path) -> None:
    """Make the catalog's tables if they are not there. Raises ServiceError."""
    database = _database(services)
    try:
        if not database.execute("SELECT 1 FROM pg_tables WHERE tablename = 'iceberg_tables'"):
            for statement in JDBC_TABLES:
                database.execute(statement)
    except (NotReady, OSError) as error:
        raise database.error(f"cannot make the JDBC catalog's tables: {error}") from error


def _uri(services: Mapping[str, LocalProcess], _: Path) -> str:
    return _database(services).jdbc_url()


JDBC = Catalog(
    name="jdbc",
    summary="Iceberg's JDBC catalog on PostgreSQL",
    promise="each writer compares and swaps by an UPDATE … WHERE metadata_location = the old one",
    servers=(DATABASE,),
    prepare=_prepare,
    wire="postgres",
    uri=_uri,
    properties=_properties,
    pointer=_pointer,
    pyiceberg=lambda e: {
        "type": "sql",
        "uri": e.catalog_uri.removeprefix("jdbc:").replace("postgresql://", f"postgresql+psycopg2://{USER}@", 1),
    },
)
