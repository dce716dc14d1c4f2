"""The catalogs: how Spark reaches each, where a proxy in front of its commit stands, and how to ask it for a table's pointer.

A catalog is one entry of ``CATALOGS``; nothing else knows what a catalog is.
"""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Literal
from urllib.parse import SplitResult, quote, urlsplit

from compose.endpoints import Endpoints
from compose.postgres import USER, query
from compose.process import NotReady, http_get
from compose.service import ServiceError

Wire = Literal["http", "postgres"]

SOCKET_TIMEOUT_MS = 30_000
CONNECT_TIMEOUT_MS = 5_000

JDBC_TABLES = (
    "CREATE TABLE iceberg_tables (catalog_name VARCHAR(255) NOT NULL, table_namespace VARCHAR(255) NOT NULL, "
    "table_name VARCHAR(255) NOT NULL, metadata_location VARCHAR(1000), previous_metadata_location VARCHAR(1000), "
    "iceberg_type VARCHAR(5), PRIMARY KEY (catalog_name, table_namespace, table_name))",
    "CREATE TABLE iceberg_namespace_properties (catalog_name VARCHAR(255) NOT NULL, namespace VARCHAR(255) NOT NULL, "
    "property_key VARCHAR(255), property_value VARCHAR(1000), PRIMARY KEY (catalog_name, namespace, property_key))",
)
"""Schema version V1 (``core/jdbc/JdbcUtil``). Drivers that start together would race to make them."""


@dataclass(frozen=True)
class Catalog:
    """One catalog.

    Attributes:
        summary: what it is, one line.
        promise: what decides a commit, one line.
        services: of the stack, beside the object store and Spark.
        wire: the protocol between a writer and the place where its commit is decided.
        properties: (endpoints) → what follows ``spark.sql.catalog.<name>.``, without the object store's part.
        pointer: (endpoints, namespace, table, timeout in s) → location of the current metadata.json, asked from the catalog
            itself; None when there is no such table. Raises ServiceError when it gives no answer.
    """

    name: str
    summary: str
    promise: str
    services: tuple[str, ...]
    wire: Wire
    properties: Callable[[Endpoints], Mapping[str, str]]
    pointer: Callable[[Endpoints, str, str, float], str | None]

    def address(self, endpoints: Endpoints) -> tuple[str, int]:
        """Host and port of the place where commits are decided."""
        parts = _split(endpoints.catalog_uri)
        return parts.hostname or "127.0.0.1", parts.port or {"https": 443, "postgresql": 5432}.get(parts.scheme, 80)

    def through(self, endpoints: Endpoints, host: str, port: int) -> Endpoints:
        """The endpoints with that place replaced by another, such as a proxy."""
        url = _split(endpoints.catalog_uri)._replace(netloc=f"{host}:{port}").geturl()
        return replace(endpoints, catalog_uri=f"jdbc:{url}" if endpoints.catalog_uri.startswith("jdbc:") else url)


def _split(uri: str) -> SplitResult:
    return urlsplit(uri.removeprefix("jdbc:"))


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
    where = f"table_namespace = {_literal(namespace)} AND table_name = {_literal(table)}"
    sql = f"SELECT metadata_location FROM iceberg_tables WHERE {where}"
    try:
        with socket.create_connection(
            (parts.hostname or "127.0.0.1", parts.port or 5432), timeout=timeout
        ) as connection:
            rows = query(connection, parts.path.lstrip("/"), sql)
    except (OSError, NotReady) as error:
        problem = f"{type(error).__name__}: {error}"
        raise ServiceError(endpoints.catalog, f"no metadata location of {namespace}.{table}: {problem}") from error
    return rows[0][0] if rows else None


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


CATALOGS: Mapping[str, Catalog] = {
    c.name: c
    for c in (
        Catalog(
            "rest",
            "Iceberg's REST catalog server on PostgreSQL",
            "the server checks the commit's requirements, then compares and swaps in PostgreSQL",
            ("postgres", "rest"),
            "http",
            _rest_properties,
            _rest_pointer,
        ),
        Catalog(
            "jdbc",
            "Iceberg's JDBC catalog on PostgreSQL",
            "each writer compares and swaps by an UPDATE … WHERE metadata_location = the old one",
            ("postgres",),
            "postgres",
            _jdbc_properties,
            _jdbc_pointer,
        ),
    )
}
"""By name: the allowed values of ``catalog:`` in a workload file."""
