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
from compose.servers.postgres import Postgres
from compose.servers.postgres import version as postgres_version

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
        data, logs: folders; a server keeps its data in a subfolder and its log in a file, both of the server's own name.
        postgres: the stack's PostgreSQL, which starts only if it is a server of the catalog.
        database: JDBC URL of that PostgreSQL for a catalog server, which may lead through a proxy; call it when the server starts.
        store: URL of the object store for a server's own requests; call it when the server starts.
        client_store: URL of the object store that a server hands out to its clients.
        warehouse: the folder of all tables, ``s3://…``.
        catalog: the entry that the servers belong to.
        access_key, secret_key, region: of the object store.
    """

    installation: Installation
    run_id: str
    ports: Ports
    data: Path
    logs: Path
    postgres: Postgres
    database: Callable[[], str]
    store: Callable[[], str]
    client_store: Callable[[], str]
    warehouse: str
    catalog: Catalog
    access_key: str = ACCESS_KEY
    secret_key: str = SECRET_KEY
    region: str = REGION


@dataclass(frozen=True)
class CatalogServer:
    """One server of a catalog.

    Attributes:
        name: the name of the process that ``make`` returns; its key in ``Stack.services`` and in a plan's ``versions``.
        make: builds the process without starting it.
        version: the version of its software, for a run's plan.
        ports: the names of its ports, which ``--port NAME=NUMBER`` can fix.
        lock: the pins of the Python environment in which it runs, if it has one of its own.
    """

    name: str
    make: Callable[[Site], LocalProcess]
    version: Callable[[Installation], str]
    ports: tuple[str, ...]
    lock: Path | None = None


DATABASE = CatalogServer("postgres", lambda site: site.postgres, postgres_version, ("postgres",))
"""The stack's PostgreSQL, for catalogs that keep their tables there."""


@dataclass(frozen=True)
class Catalog:
    """One catalog: everything that the rest of icequake knows about it.

    Attributes:
        summary: what it is, one line.
        promise: what decides a commit, one line.
        wire: the protocol of a commit; None: a commit passes no connection in which a proxy could stand.
        uri: (running servers by name, the stack's data folder) → address of the place where commits are decided.
        properties: (endpoints) → what follows ``spark.sql.catalog.<name>.``, without the object store's part.
        pointer: (endpoints, namespace, table, timeout in s) → location of the current metadata.json according to the catalog
            itself; None when there is no such table. Raises ServiceError when the catalog does not answer.
        servers: what it needs beside the object store and Spark, in the order in which it is started.
        prepare: (running servers by name, the stack's data folder) → None; makes what writers expect, such as the tables of a
            JDBC catalog, after the servers have answered and before any writer starts. A stack that starts again calls it again.
        guard: what it does against concurrent commits.
        pyiceberg: (endpoints) → the properties of ``pyiceberg.catalog.load_catalog``; None: PyIceberg has no such catalog.
        for_pyiceberg: the entry as which PyIceberg reaches it, if the two differ in a property of Iceberg's Java client alone.
        history: like ``pointer``, but every location that the pointer ever had, oldest first, from the catalog's own log; None:
            the metadata files list them.
        session: (endpoints) → more Spark properties, such as ``spark.hadoop.…``.
        jars: configurations of ``jars.lock`` that drivers and executors need in addition.
        own_classes: drivers and executors also need icequake's own classes (``compose/install/java``).
        server_jars: configurations of ``jars.lock`` that its servers need.
        scheme: of the warehouse's URL.
        own_io: it reads and writes files in its own way, not with S3FileIO.
        hands_out_store: the server tells its clients where the object store is, so all clients share one proxy to it.
        overwrites: two commits can write the same metadata file; the later one replaces the earlier one.
        lists_one: the metadata that it serves lists the current snapshot alone.
        releases: of Iceberg that its jars work with; empty: all.
        rest: its clients are Iceberg's ``RESTCatalog``.
        multi_table: how it commits to several tables at once (``harness.writers.two_tables``); empty: it cannot.
        check: raises ServiceError when it cannot run on this machine; called before anything is started.
    """

    name: str
    summary: str
    promise: str
    wire: Wire | None
    uri: Callable[[Mapping[str, LocalProcess], Path], str]
    properties: Callable[[Endpoints], Mapping[str, str]]
    pointer: Callable[[Endpoints, str, str, float], str | None]
    servers: tuple[CatalogServer, ...] = ()
    prepare: Callable[[Mapping[str, LocalProcess], Path], None] = field(default=lambda services, data: None)
    guard: Guard = "compare-and-swap"
    pyiceberg: Callable[[Endpoints], Mapping[str, str]] | None = None
    for_pyiceberg: str = ""
    history: Callable[[Endpoints, str, str, float], Sequence[str]] | None = None
    session: Callable[[Endpoints], Mapping[str, str]] = field(default=lambda _: {})
    jars: tuple[str, ...] = ()
    own_classes: bool = False
    server_jars: tuple[str, ...] = ()
    scheme: Literal["s3", "s3a"] = "s3"
    own_io: bool = False
    hands_out_store: bool = False
    overwrites: bool = False
    lists_one: bool = False
    releases: tuple[str, ...] = ()
    rest: bool = False
    multi_table: Literal["", "rest", "nessie"] = ""
    check: Callable[[], None] = field(default=lambda: None)

    @property
    def services(self) -> tuple[str, ...]:
        """The names of its servers, in the order in which they are started."""
        return tuple(server.name for server in self.servers)

    @property
    def page(self) -> str:
        """Its page of the documentation."""
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
