"""The catalogs: how Spark reaches each, where a proxy in front of its commit stands, and how to ask it for a table's pointer.

A catalog is one entry of ``CATALOGS`` (``compose.catalogs.catalog.Catalog``); nothing else knows what a catalog is.
"""

from __future__ import annotations

import http.client
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from urllib.parse import quote, urlsplit

from compose.catalogs import user_file
from compose.catalogs.catalog import CONNECT_TIMEOUT_MS, SOCKET_TIMEOUT_MS, Catalog, Site
from compose.catalogs.hadoop import HADOOP
from compose.catalogs.hive import HIVE, HIVE_CAS, HIVE_NOLOCK, Metastore
from compose.catalogs.moto import DYNAMODB, GLUE, GLUE_CAS, Moto
from compose.catalogs.nessie import NESSIE, NESSIE_NATIVE, Nessie
from compose.catalogs.polaris import POLARIS, Polaris
from compose.catalogs.rest import RestCatalog
from compose.catalogs.sqlite import JDBC_SQLITE
from compose.endpoints import Endpoints
from compose.processes.process import LocalProcess, NotReady, http_get
from compose.processes.service import ServiceError
from compose.servers.postgres import USER, Postgres, query

__all__ = ["CATALOGS", "JDBC_TABLES", "SERVERS", "Catalog", "catalog_of"]

JDBC_TABLES = (
    "CREATE TABLE iceberg_tables (catalog_name VARCHAR(255) NOT NULL, table_namespace VARCHAR(255) NOT NULL, "
    "table_name VARCHAR(255) NOT NULL, metadata_location VARCHAR(1000), previous_metadata_location VARCHAR(1000), "
    "iceberg_type VARCHAR(5), PRIMARY KEY (catalog_name, table_namespace, table_name))",
    "CREATE TABLE iceberg_namespace_properties (catalog_name VARCHAR(255) NOT NULL, namespace VARCHAR(255) NOT NULL, "
    "property_key VARCHAR(255), property_value VARCHAR(1000), PRIMARY KEY (catalog_name, namespace, property_key))",
)
"""Schema version V1 (``core/jdbc/JdbcUtil``). Drivers that start together would race to make them."""

SERVERS: Mapping[str, Callable[[Site], LocalProcess]] = {
    "rest": lambda site: RestCatalog(site),
    "hive": lambda site: Metastore(site),
    "nessie": lambda site: Nessie(site),
    "moto": lambda site: Moto(site),
    "polaris": lambda site: Polaris(site),
}
"""The servers of catalogs, by the name of their service; ``postgres`` is the stack's own."""

SERVER_PORTS = ("rest", "hive", "nessie", "nessie-management", "moto", "polaris", "polaris-management")


# --- REST -------------------------------------------------------------------------------------------------------------


def _rest_properties(endpoints: Endpoints) -> Mapping[str, str]:
    return {
        "type": "rest",
        "uri": endpoints.catalog_uri,
        "warehouse": endpoints.warehouse,
        # Neither has a default: a request whose answer never comes would wait for ever.
        "rest.client.socket-timeout-ms": str(SOCKET_TIMEOUT_MS),
        "rest.client.connection-timeout-ms": str(CONNECT_TIMEOUT_MS),
    }


def _rest_pointer(endpoints: Endpoints, namespace: str, table: str, timeout: float) -> str | None:
    """REST ``loadTable``; ``namespace`` separates its levels by dots."""
    levels = quote("\x1f".join(namespace.split(".")), safe="")
    url = f"{endpoints.catalog_uri.rstrip('/')}/v1/namespaces/{levels}/tables/{quote(table, safe='')}"
    try:
        status, body = http_get(url, timeout, headers={"Accept": "application/json"})
        answer = json.loads(body)
        if status == 404 and answer["error"]["type"] in ("NoSuchTableException", "NoSuchNamespaceException"):
            return None
        if status == 200:
            return str(answer["metadata-location"])
    except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError) as error:
        problem = f"{type(error).__name__}: {error}"
        raise ServiceError(endpoints.catalog, f"no metadata location of {namespace}.{table}: {problem}") from error
    text = body[:200].decode("utf-8", "replace")
    raise ServiceError(endpoints.catalog, f"asked for {namespace}.{table} it answers {status}: {text}")


# --- JDBC -------------------------------------------------------------------------------------------------------------


def _jdbc_properties(endpoints: Endpoints) -> Mapping[str, str]:
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


def _jdbc_pointer(endpoints: Endpoints, namespace: str, table: str, timeout: float) -> str | None:
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


def _rest_uri(services: Mapping[str, LocalProcess], _: Path) -> str:
    server = services["rest"]
    assert isinstance(server, RestCatalog)
    return server.uri


def _jdbc_uri(services: Mapping[str, LocalProcess], _: Path) -> str:
    server = services["postgres"]
    assert isinstance(server, Postgres)
    return server.jdbc_url()


REST = Catalog(
    name="rest",
    summary="Iceberg's REST catalog server on PostgreSQL",
    promise="the server checks the commit's requirements, then compares and swaps in PostgreSQL",
    services=("postgres", "rest"),
    wire="http",
    uri=_rest_uri,
    properties=_rest_properties,
    pointer=_rest_pointer,
    pyiceberg=lambda e: {"type": "rest", "uri": e.catalog_uri},
    multi_table="rest",
)
JDBC = Catalog(
    name="jdbc",
    summary="Iceberg's JDBC catalog on PostgreSQL",
    promise="each writer compares and swaps by an UPDATE … WHERE metadata_location = the old one",
    services=("postgres",),
    wire="postgres",
    uri=_jdbc_uri,
    properties=_jdbc_properties,
    pointer=_jdbc_pointer,
    pyiceberg=lambda e: {
        "type": "sql",
        "uri": e.catalog_uri.removeprefix("jdbc:").replace("postgresql://", f"postgresql+psycopg2://{USER}@", 1),
    },
)

CATALOGS: Mapping[str, Catalog] = {
    c.name: c
    for c in (
        REST,
        JDBC,
        JDBC_SQLITE,
        HIVE,
        HIVE_CAS,
        HIVE_NOLOCK,
        NESSIE,
        NESSIE_NATIVE,
        HADOOP,
        GLUE,
        GLUE_CAS,
        DYNAMODB,
        POLARIS,
    )
}
"""By name: the allowed values of ``catalog:`` in a workload file."""


def catalog_of(endpoints: Endpoints) -> Catalog:
    """The entry of the catalog that the endpoints lead to: one of ``CATALOGS``, or the user's own."""
    return CATALOGS[endpoints.catalog] if endpoints.own is None else user_file.entry(user_file.Own.of(endpoints.own))
