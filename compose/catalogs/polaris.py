"""Apache Polaris: a REST catalog with users, roles and grants, in a container, on the stack's PostgreSQL.

No package registry has its server, so this catalog is the only one that needs Docker. At its first start it makes its tables in the database
and its root principal. Then the catalog is made by its management API (``spec/polaris-management-service.yml`` of its sources): a token for the
root principal, the catalog with where its tables are, and the right to work with their content.

Written after its documentation and its specification; the calls are tested against a server of that specification.
"""

from __future__ import annotations

import http.client
import json
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

from compose.catalogs import bootstrap
from compose.catalogs.bootstrap import CATALOG_NAME, CLIENT_ID, CLIENT_SECRET, REALM, SCOPE
from compose.catalogs.catalog import CONNECT_TIMEOUT_MS, DATABASE, SOCKET_TIMEOUT_MS, Catalog, CatalogServer, Site
from compose.catalogs.probe import DELEGATION
from compose.endpoints import Endpoints
from compose.processes.container import Container, engine, have
from compose.processes.ports import LOOPBACK
from compose.processes.process import LocalProcess, NotReady, http_get
from compose.processes.service import ServiceError
from compose.servers.postgres import USER

POLARIS_VERSION = "1.7.0"
IMAGE = f"apache/polaris:{POLARIS_VERSION}"
POLARIS_REMEDY = (
    "start a Docker engine that has or gets the image, or run Polaris elsewhere and give its file, --catalog my.yaml "
    "(docs/own-catalog.md has one)"
)


class Polaris(Container):
    """The server. It keeps all its data in the database."""

    role = "catalog"
    remedy = POLARIS_REMEDY
    inner_store = ""
    """The object store's URL inside a network of containers; empty: that of the site."""

    def __init__(self, site: Site) -> None:
        super().__init__(
            "polaris",
            run_id=site.run_id,
            ports=site.ports,
            port_names=["polaris", "polaris-management"],
            folder=site.data / "polaris",
            log=site.logs / "polaris.log",
        )
        self._site = site

    @property
    def uri(self) -> str:
        return f"http://{LOOPBACK}:{self.port()}/api/catalog"

    def image(self) -> str:
        return IMAGE

    def settings(self) -> Mapping[str, str]:
        # Its tables in the database are made once; a server that was killed finds them.
        first = {
            "POLARIS_PERSISTENCE_AUTO_BOOTSTRAP_TYPES": "relational-jdbc",
            "POLARIS_BOOTSTRAP_CREDENTIALS": f"{REALM},{CLIENT_ID},{CLIENT_SECRET}",
        }
        return {
            "POLARIS_PERSISTENCE_TYPE": "relational-jdbc",
            "POLARIS_PERSISTENCE_RELATIONAL_JDBC_DATABASE_TYPE": "postgresql",
            "QUARKUS_DATASOURCE_JDBC_URL": self._site.database(),
            "QUARKUS_DATASOURCE_USERNAME": USER,
            "QUARKUS_DATASOURCE_PASSWORD": USER,
            **({} if self._was_ready else first),
            "POLARIS_REALM_CONTEXT_REALMS": REALM,
            "QUARKUS_HTTP_HOST": LOOPBACK,
            "QUARKUS_HTTP_PORT": str(self.port()),
            "QUARKUS_MANAGEMENT_HOST": LOOPBACK,
            "QUARKUS_MANAGEMENT_PORT": str(self.port("polaris-management")),
            "AWS_REGION": self._site.region,
            "AWS_ACCESS_KEY_ID": self._site.access_key,
            "AWS_SECRET_ACCESS_KEY": self._site.secret_key,
        }

    def probe(self, timeout: float) -> None:
        status, body = http_get(f"http://{LOOPBACK}:{self.port('polaris-management')}/q/health", timeout)
        if status != 200:
            raise NotReady(f"/q/health answers {status}: {body[:200].decode('utf-8', 'replace')}")

    def after_first_ready(self) -> None:
        try:
            inner = self.inner_store or self._site.store()
            set_up(self.uri, self._site.warehouse, self._site.client_store(), inner, self._site.region)
        except (NotReady, OSError) as e:
            raise self.error(f"the catalog cannot be set up: {e}") from e


def set_up(uri: str, warehouse: str, client_store: str, server_store: str, region: str) -> None:
    """``bootstrap.polaris``. Raises NotReady when an answer is not the success that the specification describes, or OSError."""
    try:
        bootstrap.polaris(uri, warehouse, client_store, server_store, region)
    except bootstrap.UnexpectedAnswer as e:
        raise NotReady(str(e)) from e


def pointer(endpoints: Endpoints, namespace: str, table: str, timeout: float) -> str | None:
    """REST ``loadTable`` in Polaris' catalog, as its root principal."""
    levels = quote("\x1f".join(namespace.split(".")), safe="")
    url = f"{endpoints.catalog_uri}/v1/{CATALOG_NAME}/namespaces/{levels}/tables/{quote(table, safe='')}"
    what = f"{namespace}.{table}"
    try:
        bearer = bootstrap.polaris_token(endpoints.catalog_uri, timeout)
        headers = {"Accept": "application/json", "Authorization": f"Bearer {bearer}", "Polaris-Realm": REALM}
        status, body = http_get(url, timeout, headers=headers)
        answer = json.loads(body)
        if status == 404 and answer["error"]["type"] in ("NoSuchTableException", "NoSuchNamespaceException"):
            return None
        if status == 200:
            return str(answer["metadata-location"])
    except (OSError, bootstrap.UnexpectedAnswer, http.client.HTTPException, ValueError, KeyError, TypeError) as e:
        raise ServiceError(endpoints.catalog, f"no metadata location of {what}: {type(e).__name__}: {e}") from e
    text = body[:200].decode("utf-8", "replace")
    raise ServiceError(endpoints.catalog, f"asked for {what} it answers {status}: {text}")


def _uri(services: Mapping[str, LocalProcess], _: Path) -> str:
    server = services["polaris"]
    assert isinstance(server, Polaris)
    return server.uri


def _client(endpoints: Endpoints) -> dict[str, str]:
    return {
        "type": "rest",
        "uri": endpoints.catalog_uri,
        "warehouse": CATALOG_NAME,
        "credential": f"{CLIENT_ID}:{CLIENT_SECRET}",
        "scope": SCOPE,
        "header.Polaris-Realm": REALM,
    }


def check() -> None:
    """Raises ServiceError when there is no Docker, or the image cannot be had; it is pulled if it is not there."""
    client = engine("polaris", POLARIS_REMEDY)
    try:
        have(client, "polaris", IMAGE, POLARIS_REMEDY)
    finally:
        client.close()


POLARIS = Catalog(
    name="polaris",
    summary=f"Apache Polaris {POLARIS_VERSION} on PostgreSQL, in a container: needs Docker",
    promise="the server checks the commit's requirements, then compares and swaps its entity in PostgreSQL",
    servers=(
        DATABASE,
        CatalogServer("polaris", Polaris, lambda _: POLARIS_VERSION, ports=("polaris", "polaris-management")),
    ),
    wire="http",
    uri=_uri,
    properties=lambda e: {
        **_client(e),
        "rest.client.socket-timeout-ms": str(SOCKET_TIMEOUT_MS),
        "rest.client.connection-timeout-ms": str(CONNECT_TIMEOUT_MS),
    },
    pointer=pointer,
    pyiceberg=lambda e: {**_client(e), DELEGATION: ""},  # there is no STS: writers bring their own credentials
    hands_out_store=True,
    rest=True,
    check=check,
)
