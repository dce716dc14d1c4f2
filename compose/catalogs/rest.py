"""The default catalog: Iceberg's own REST server over its JdbcCatalog on PostgreSQL."""

from __future__ import annotations

import http.client
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import quote

from compose.catalogs.catalog import CONNECT_TIMEOUT_MS, DATABASE, SOCKET_TIMEOUT_MS, Catalog, CatalogServer, Site
from compose.endpoints import Endpoints
from compose.install.installation import Installation, version_in_names
from compose.processes.ports import LOOPBACK
from compose.processes.process import LocalProcess, NotReady, base_environment, http_get
from compose.processes.service import ServiceError
from compose.servers.minio import AWS_ENVIRONMENT
from compose.servers.postgres import USER

REST_HEAP_MB = 192
CLIENTS = 8  # connections to the database


class RestCatalog(LocalProcess):
    """The catalog server. It keeps all its data in the database."""

    role = "catalog"

    def __init__(self, site: Site) -> None:
        super().__init__(
            "rest",
            run_id=site.run_id,
            ports=site.ports,
            port_names=["rest"],
            folder=site.data / "rest",
            log=site.logs / "rest.log",
        )
        self._java = site.installation.java
        self.class_path: tuple[Path, ...] = (site.installation.rest_classes, *site.installation.jars["rest"])
        self._database = site.database
        self._s3_endpoint = site.store
        self._warehouse = site.warehouse
        self._site = site

    @property
    def uri(self) -> str:
        return f"http://{LOOPBACK}:{self.port()}"

    def argv(self) -> Sequence[str]:
        return [
            *(
                str(self._java),
                f"-Xmx{REST_HEAP_MB}m",
                "-XX:+UseSerialGC",
                "-XX:TieredStopAtLevel=1",
                "-XX:-UsePerfData",
            ),
            *("-cp", os.pathsep.join(map(str, self.class_path)), "RestCatalogServer"),
        ]

    def environment(self) -> Mapping[str, str]:
        return {
            **base_environment(),
            "CATALOG_CATALOG_NAME": "rest",
            "CATALOG_CATALOG__IMPL": "org.apache.iceberg.jdbc.JdbcCatalog",
            "CATALOG_URI": self._database(),
            "CATALOG_JDBC_USER": USER,
            "CATALOG_JDBC_PASSWORD": USER,
            "CATALOG_JDBC_SCHEMA__VERSION": "V1",
            "CATALOG_JDBC_STRICT__MODE": "true",  # refuses a table in a namespace that does not exist
            "CATALOG_CLIENTS": str(CLIENTS),
            "CATALOG_WAREHOUSE": self._warehouse,
            "CATALOG_IO__IMPL": "org.apache.iceberg.aws.s3.S3FileIO",
            "CATALOG_S3_ENDPOINT": self._s3_endpoint(),
            "CATALOG_S3_PATH__STYLE__ACCESS": "true",
            "CATALOG_S3_ACCESS__KEY__ID": self._site.access_key,
            "CATALOG_S3_SECRET__ACCESS__KEY": self._site.secret_key,
            "CATALOG_CLIENT_REGION": self._site.region,
            "CATALOG_REST_PORT": str(self.port()),
            **AWS_ENVIRONMENT,
            "AWS_REGION": self._site.region,
        }

    def probe(self, timeout: float) -> None:
        status, body = http_get(f"{self.uri}/v1/config", timeout)
        if status != 200:
            raise NotReady(f"/v1/config answers {status}: {body[:200].decode('utf-8', 'replace')}")


def properties(endpoints: Endpoints) -> Mapping[str, str]:
    """Of a client of Iceberg's REST catalog."""
    return {
        "type": "rest",
        "uri": endpoints.catalog_uri,
        "warehouse": endpoints.warehouse,
        # Neither has a default: a request that is never answered would wait forever.
        "rest.client.socket-timeout-ms": str(SOCKET_TIMEOUT_MS),
        "rest.client.connection-timeout-ms": str(CONNECT_TIMEOUT_MS),
    }


def pointer(endpoints: Endpoints, namespace: str, table: str, timeout: float) -> str | None:
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


def uri(services: Mapping[str, LocalProcess], _: Path) -> str:
    """Where the server listens."""
    server = services["rest"]
    assert isinstance(server, RestCatalog)
    return server.uri


def version(installation: Installation) -> str:
    """The release of Iceberg that the server is."""
    return version_in_names(r"iceberg-core-([\d.]+)\.jar", installation.jars.get("rest", ()))


REST = Catalog(
    name="rest",
    summary="Iceberg's REST catalog server on PostgreSQL",
    promise="the server checks the commit's requirements, then compares and swaps in PostgreSQL",
    servers=(DATABASE, CatalogServer("rest", RestCatalog, version, ports=("rest",))),
    wire="http",
    uri=uri,
    properties=properties,
    pointer=pointer,
    pyiceberg=lambda e: {"type": "rest", "uri": e.catalog_uri},
    rest=True,
    multi_table="rest",
)
