"""What a catalog is to icequake: one entry that says how to reach it, where its commit is decided, and what it promises."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal
from urllib.parse import SplitResult, urlsplit

from compose.endpoints import Endpoints
from compose.install.installation import Installation
from compose.processes.ports import Ports
from compose.processes.process import LocalProcess
from compose.servers.minio import ACCESS_KEY, REGION, SECRET_KEY

Wire = Literal["http", "aws", "postgres", "thrift", "s3"]
"""The protocol between a writer and the place where its commit is decided; ``s3``: the object store itself decides."""

Guard = Literal["compare-and-swap", "lock", "none"]
"""What keeps two writers from replacing the same metadata: an atomic comparison, a lock around a plain write, nothing."""

SOCKET_TIMEOUT_MS = 30_000
CONNECT_TIMEOUT_MS = 5_000


@dataclass(frozen=True)
class Site:
    """Where a catalog's servers are to run.

    Attributes:
        data, logs: folders; a server has a folder and a file of its own name in them.
        database: JDBC URL of the stack's PostgreSQL, as a catalog server is to use it; asked when the server starts.
        store: the object store's URL for a server's own use; asked when the server starts.
        client_store: the object store's URL that a server hands out to clients.
        warehouse: where tables are, ``s3://…``.
        catalog: the entry that the servers are for.
        access_key, secret_key, region: of the object store.
    """

    installation: Installation
    run_id: str
    ports: Ports
    data: Path
    logs: Path
    database: Callable[[], str]
    store: Callable[[], str]
    client_store: Callable[[], str]
    warehouse: str
    catalog: Catalog
    access_key: str = ACCESS_KEY
    secret_key: str = SECRET_KEY
    region: str = REGION


@dataclass(frozen=True)
class Catalog:
    """One catalog.

    Attributes:
        summary: what it is, one line.
        promise: what decides a commit, one line.
        services: of the stack, beside the object store and Spark, in the order in which they are started.
        wire: None: a commit passes no connection that a proxy could stand in.
        uri: (services by name, the stack's data folder) → of the place where commits are decided.
        properties: (endpoints) → what follows ``spark.sql.catalog.<name>.``, without the object store's part.
        pointer: (endpoints, namespace, table, timeout in s) → location of the current metadata.json, asked from the catalog
            itself; None when there is no such table. Raises ServiceError when it gives no answer.
        guard: what it does against concurrent commits.
        pyiceberg: (endpoints) → the properties of ``pyiceberg.catalog.load_catalog``; None: PyIceberg has no such catalog.
        history: as ``pointer``, but every location that the pointer ever had, oldest first, from the catalog's own log; None:
            the metadata files tell it themselves.
        session: (endpoints) → more Spark properties, such as ``spark.hadoop.…``.
        jars: configurations of ``jars.lock`` that the drivers and executors need beside their own.
        server_jars: those that its servers need.
        scheme: of the warehouse.
        own_io: it reads and writes files its own way, not with S3FileIO.
        hands_out_store: the server tells its clients where the object store is, so that all of them share one way to it.
        overwrites: two commits can write the same metadata file, the later one over the earlier one.
        lists_one: the metadata that it serves lists the current snapshot alone.
        releases: of Iceberg that its jars go with; empty: all.
        multi_table: how it commits to several tables at once (``harness.writers.two_tables``); empty: not at all.
        check: raises ServiceError when it cannot be had on this machine, before anything is started.
        page: its page in docs/catalogs.
    """

    name: str
    summary: str
    promise: str
    services: tuple[str, ...]
    wire: Wire | None
    uri: Callable[[Mapping[str, LocalProcess], Path], str]
    properties: Callable[[Endpoints], Mapping[str, str]]
    pointer: Callable[[Endpoints, str, str, float], str | None]
    guard: Guard = "compare-and-swap"
    pyiceberg: Callable[[Endpoints], Mapping[str, str]] | None = None
    history: Callable[[Endpoints, str, str, float], Sequence[str]] | None = None
    session: Callable[[Endpoints], Mapping[str, str]] = field(default=lambda _: {})
    jars: tuple[str, ...] = ()
    server_jars: tuple[str, ...] = ()
    scheme: Literal["s3", "s3a"] = "s3"
    own_io: bool = False
    hands_out_store: bool = False
    overwrites: bool = False
    lists_one: bool = False
    releases: tuple[str, ...] = ()
    multi_table: Literal["", "rest", "nessie"] = ""
    check: Callable[[], None] = field(default=lambda: None)

    @property
    def page(self) -> str:
        return f"docs/catalogs/{self.name}.md"

    def address(self, endpoints: Endpoints) -> tuple[str, int]:
        """Host and port of the place where commits are decided."""
        parts = split(endpoints.catalog_uri)
        return parts.hostname or "127.0.0.1", parts.port or _PORTS.get(parts.scheme, 80)

    def through(self, endpoints: Endpoints, host: str, port: int) -> Endpoints:
        """The endpoints with that place replaced by another, such as a proxy."""
        url = split(endpoints.catalog_uri)._replace(netloc=f"{host}:{port}").geturl()
        return replace(endpoints, catalog_uri=f"jdbc:{url}" if endpoints.catalog_uri.startswith("jdbc:") else url)


_PORTS = {"https": 443, "postgresql": 5432, "thrift": 9083}


def split(uri: str) -> SplitResult:
    """The parts of a URL, also behind ``jdbc:``."""
    return urlsplit(uri.removeprefix("jdbc:"))
