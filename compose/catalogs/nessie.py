"""Nessie, reached in two ways: as an Iceberg REST catalog, and by its own API with Iceberg's NessieCatalog.

The server keeps everything in PostgreSQL (with its default, IN_MEMORY, a restart would lose it). Over REST it serves only a table's
current snapshot; the earlier ones are in Nessie's commit log.
"""

from __future__ import annotations

import http.client
import json
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from compose.catalogs.catalog import (
    CONNECT_TIMEOUT_MS,
    DATABASE,
    SOCKET_TIMEOUT_MS,
    Catalog,
    CatalogServer,
    Site,
    split,
)
from compose.endpoints import Endpoints
from compose.install import jdk
from compose.install.ensure import class_path
from compose.install.installation import Installation
from compose.install.jars import of, read_lock
from compose.processes.ports import LOOPBACK
from compose.processes.process import LocalProcess, NotReady, base_environment, http_get
from compose.processes.service import ServiceError
from compose.servers.minio import AWS_ENVIRONMENT
from compose.servers.postgres import USER

NESSIE_HEAP_MB = 512
JAVA = (21, 25, 24, 23, 22)
"""Versions of Java that it runs on, the preferred one first."""
BRANCH = "main"
_PAGE = 1000


class Nessie(LocalProcess):
    """The server. It keeps all its data in the database."""

    role = "catalog"

    def __init__(self, site: Site) -> None:
        super().__init__(
            "nessie",
            run_id=site.run_id,
            ports=site.ports,
            port_names=["nessie", "nessie-management"],
            folder=site.data / "nessie",
            log=site.logs / "nessie.log",
        )
        self._java = jdk.pick(JAVA, purpose="Nessie").java
        self._jar = class_path("nessie", read_lock(), site.installation.home)[0]
        self._site = site

    @property
    def uri(self) -> str:
        return f"http://{LOOPBACK}:{self.port()}"

    def argv(self) -> Sequence[str]:
        store = "nessie.catalog.service.s3.default-options"
        settings = {
            "quarkus.http.host": LOOPBACK,
            "quarkus.http.port": self.port(),
            "quarkus.management.host": LOOPBACK,
            "quarkus.management.port": self.port("nessie-management"),
            "quarkus.log.level": "WARN",
            "nessie.version.store.type": "JDBC2",
            "nessie.version.store.persist.jdbc.datasource": "postgresql",
            "quarkus.datasource.postgresql.jdbc.url": self._site.database(),
            "quarkus.datasource.postgresql.username": USER,
            "quarkus.datasource.postgresql.password": USER,
            "nessie.catalog.default-warehouse": "warehouse",
            "nessie.catalog.warehouses.warehouse.location": self._site.warehouse,
            f"{store}.region": self._site.region,
            f"{store}.path-style-access": "true",
            f"{store}.endpoint": f"{self._site.store()}/",
            f"{store}.external-endpoint": f"{self._site.client_store()}/",
            f"{store}.request-signing-enabled": "false",  # writers have their own keys; the signer answers them 404
            f"{store}.access-key": "urn:nessie-secret:quarkus:nessie.catalog.secrets.access-key",
        }
        options = [f"-D{name}={value}" for name, value in settings.items()]
        return [str(self._java), f"-Xmx{NESSIE_HEAP_MB}m", "-XX:+UseSerialGC", *options, "-jar", str(self._jar)]

    def environment(self) -> Mapping[str, str]:
        return {
            **base_environment(),
            "nessie.catalog.secrets.access-key.name": self._site.access_key,  # as -D it fails the server's validation
            "nessie.catalog.secrets.access-key.secret": self._site.secret_key,
            **AWS_ENVIRONMENT,
        }

    def probe(self, timeout: float) -> None:
        status, body = http_get(f"{self.uri}/api/v2/config", timeout)
        if status != 200:
            raise NotReady(f"/api/v2/config answers {status}: {body[:200].decode('utf-8', 'replace')}")


def _server(services: Mapping[str, LocalProcess]) -> Nessie:
    server = services["nessie"]
    assert isinstance(server, Nessie)
    return server


def _rest_properties(endpoints: Endpoints) -> Mapping[str, str]:
    return {
        "type": "rest",
        "uri": endpoints.catalog_uri,
        "rest.client.socket-timeout-ms": str(SOCKET_TIMEOUT_MS),
        "rest.client.connection-timeout-ms": str(CONNECT_TIMEOUT_MS),
    }


def _native_properties(endpoints: Endpoints) -> Mapping[str, str]:
    return {
        "type": "nessie",
        "uri": endpoints.catalog_uri,
        "ref": BRANCH,
        "warehouse": endpoints.warehouse,
        "nessie.transport.read-timeout": str(SOCKET_TIMEOUT_MS),
        "nessie.transport.connect-timeout": str(CONNECT_TIMEOUT_MS),
    }


def _ask(endpoints: Endpoints, path: str, timeout: float) -> tuple[int, Any]:
    """GET below Nessie's own API; the status and the answer. Raises ServiceError."""
    parts = split(endpoints.catalog_uri)
    url = f"{parts.scheme}://{parts.netloc}/api/v2/{path}"
    try:
        status, body = http_get(url, timeout, headers={"Accept": "application/json"})
        return status, json.loads(body)
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise ServiceError(endpoints.catalog, f"{url}: {type(error).__name__}: {error}") from error


def _key(namespace: str, table: str) -> str:
    return f"{namespace}.{table}"


def _pointer(endpoints: Endpoints, namespace: str, table: str, timeout: float) -> str | None:
    """The content of the table's key at the tip of the branch."""
    status, answer = _ask(endpoints, f"trees/{BRANCH}/contents/{quote(_key(namespace, table), safe='')}", timeout)
    if status == 404 and answer.get("errorCode") == "CONTENT_NOT_FOUND":
        return None
    if status == 200:
        return str(answer["content"]["metadataLocation"])
    raise ServiceError(endpoints.catalog, f"asked for {namespace}.{table} it answers {status}: {str(answer)[:200]}")


def _history(endpoints: Endpoints, namespace: str, table: str, timeout: float) -> Sequence[str]:
    """Every metadata file that a commit of the branch put under the table's key, oldest first, since its last deletion."""
    key = [*namespace.split("."), table]
    wanted = quote(f"operations.exists(o, o.key == '{_key(namespace, table)}')", safe="")
    found: list[str] = []
    token = ""
    while True:  # bounded by the branch's length
        more = f"&page-token={quote(token, safe='')}" if token else ""
        path = f"trees/{BRANCH}/history?fetch=ALL&max-records={_PAGE}&filter={wanted}{more}"
        status, answer = _ask(endpoints, path, timeout)
        if status != 200:
            raise ServiceError(endpoints.catalog, f"its log: it answers {status}: {str(answer)[:200]}")
        for entry in answer["logEntries"]:
            for operation in entry.get("operations") or ():
                if operation["key"]["elements"] != key:
                    continue
                if operation["type"] == "DELETE":
                    return found[::-1]
                if operation["type"] == "PUT" and operation["content"]["type"] == "ICEBERG_TABLE":
                    found.append(operation["content"]["metadataLocation"])
        if not answer.get("hasMore"):
            return found[::-1]
        token = answer["token"]


def _version(_: Installation) -> str:
    return next(jar.version for jar in of(["nessie"], read_lock()))


SERVERS = (DATABASE, CatalogServer("nessie", Nessie, _version, ports=("nessie", "nessie-management")))

NESSIE = Catalog(
    name="nessie",
    summary="Nessie as an Iceberg REST catalog, on PostgreSQL",
    promise="the server checks the commit's requirements, then compares and swaps the branch's tip in PostgreSQL",
    servers=SERVERS,
    wire="http",
    uri=lambda services, _: f"{_server(services).uri}/iceberg/{BRANCH}",
    properties=_rest_properties,
    pointer=_pointer,
    history=_history,
    pyiceberg=lambda e: {"type": "rest", "uri": e.catalog_uri},
    server_jars=("nessie",),
    hands_out_store=True,
    lists_one=True,
    rest=True,
    multi_table="nessie",
)

NESSIE_NATIVE = Catalog(
    name="nessie-native",
    summary="Nessie by its own API (NessieCatalog), on PostgreSQL",
    promise="each writer sends its new content and the content it replaces; the server compares and swaps the branch's tip",
    servers=SERVERS,
    wire="http",
    uri=lambda services, _: f"{_server(services).uri}/api/v2",
    properties=_native_properties,
    pointer=_pointer,
    history=_history,
    server_jars=("nessie",),
    multi_table="nessie",
)
