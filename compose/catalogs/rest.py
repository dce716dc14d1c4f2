"""The default catalog: Iceberg's own REST server over its JdbcCatalog on PostgreSQL."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from compose.catalogs.catalog import Site
from compose.processes.ports import LOOPBACK
from compose.processes.process import LocalProcess, NotReady, base_environment, http_get
from compose.servers.minio import AWS_ENVIRONMENT
from compose.servers.postgres import USER

HEAP_MB = 192
CLIENTS = 8  # connections to the database


class RestCatalog(LocalProcess):
    """The catalog server. It keeps nothing itself: all it knows is in the database."""

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
        self._class_path = (site.installation.rest_classes, *site.installation.jars["rest"])
        self._database = site.database
        self._s3_endpoint = site.store
        self._warehouse = site.warehouse
        self._site = site

    @property
    def uri(self) -> str:
        return f"http://{LOOPBACK}:{self.port()}"

    def argv(self) -> Sequence[str]:
        return [
            *(str(self._java), f"-Xmx{HEAP_MB}m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData"),
            *("-cp", os.pathsep.join(map(str, self._class_path)), "RestCatalogServer"),
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
            "CATALOG_JDBC_STRICT__MODE": "true",  # a table in a namespace that is not there is refused
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
