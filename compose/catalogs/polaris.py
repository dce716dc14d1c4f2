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
from typing import Any
from urllib.parse import quote, urlencode

from compose.catalogs.catalog import CONNECT_TIMEOUT_MS, DATABASE, SOCKET_TIMEOUT_MS, Catalog, Server, Site, split
from compose.endpoints import Endpoints
from compose.processes.container import Container, engine, have
from compose.processes.ports import LOOPBACK
from compose.processes.process import LocalProcess, NotReady, http_get
from compose.processes.service import ServiceError
from compose.servers.postgres import USER

VERSION = "1.7.0"
IMAGE = f"apache/polaris:{VERSION}"
REALM = "POLARIS"
CLIENT_ID, CLIENT_SECRET = "root", "s3cr3t"  # no secret: the server listens on loopback for the time of a run
CATALOG = "icequake"
SCOPE = "PRINCIPAL_ROLE:ALL"
CALL_SECONDS = 10.0
REMEDY = (
    "start a Docker engine that has or gets the image, or run Polaris elsewhere and give its file, --catalog my.yaml "
    "(docs/own-catalog.md has one)"
)


class Polaris(Container):
    """The server. It keeps all its data in the database."""

    role = "catalog"
    remedy = REMEDY

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
            set_up(self.uri, self._site.warehouse, self._site.client_store(), self._site.store(), self._site.region)
        except (NotReady, OSError) as e:
            raise self.error(f"the catalog cannot be set up: {e}") from e


def set_up(uri: str, warehouse: str, client_store: str, server_store: str, region: str) -> None:
    """Make the catalog, and let its administrators work with what is in it.

    Args:
        uri: of the catalog's API, ``http://host:port/api/catalog``.
        client_store, server_store: the object store's URL for clients, and for Polaris itself.

    Raises:
        NotReady: its answer is not the success that its specification describes.
        OSError: it does not answer.
    """
    bearer = token(uri, CALL_SECONDS)
    management = uri.removesuffix("/catalog") + "/management/v1"
    catalog = {
        "name": CATALOG,
        "type": "INTERNAL",
        "properties": {"default-base-location": warehouse, "polaris.config.drop-with-purge.enabled": "true"},
        "storageConfigInfo": {
            "storageType": "S3",
            "allowedLocations": [warehouse],
            "region": region,
            "endpoint": client_store,
            "endpointInternal": server_store,
            "pathStyleAccess": True,
            "stsUnavailable": True,  # clients bring their own credentials
            "kmsUnavailable": True,
        },
    }
    status, body = _call("POST", f"{management}/catalogs", {"catalog": catalog}, bearer)
    if status not in (201, 409):  # 409: it is there already
        raise NotReady(f"asked to make the catalog it answers {status}: {body}")
    grants = f"{management}/catalogs/{CATALOG}/catalog-roles/catalog_admin/grants"
    grant = {"grant": {"type": "catalog", "privilege": "CATALOG_MANAGE_CONTENT"}}
    status, body = _call("PUT", grants, grant, bearer)
    if status != 201:
        raise NotReady(f"asked to grant CATALOG_MANAGE_CONTENT it answers {status}: {body}")


def token(uri: str, timeout: float) -> str:
    """A token of the root principal. Raises NotReady or OSError."""
    form = {
        "grant_type": "client_credentials",
        "client_id": CLIENT_ID,
        "client_secret": CLIENT_SECRET,
        "scope": SCOPE,
    }
    status, body = _request(
        "POST", f"{uri}/v1/oauth/tokens", urlencode(form), "application/x-www-form-urlencoded", timeout
    )
    try:
        if status == 200:
            return str(json.loads(body)["access_token"])
    except (ValueError, KeyError, TypeError):
        pass
    raise NotReady(f"asked for a token it answers {status}: {body}")


def _call(method: str, url: str, content: Mapping[str, Any], bearer: str) -> tuple[int, str]:
    return _request(method, url, json.dumps(dict(content)), "application/json", CALL_SECONDS, bearer)


def _request(method: str, url: str, body: str, kind: str, timeout: float, bearer: str = "") -> tuple[int, str]:
    parts = split(url)
    connection = http.client.HTTPConnection(parts.hostname or LOOPBACK, parts.port, timeout=timeout)
    headers = {"Content-Type": kind, "Accept": "application/json", "Polaris-Realm": REALM}
    if bearer:
        headers["Authorization"] = f"Bearer {bearer}"
    try:
        connection.request(method, parts.path, body.encode(), headers)
        answer = connection.getresponse()
        return answer.status, answer.read()[:10_000].decode("utf-8", "replace")
    except http.client.HTTPException as e:
        raise NotReady(f"{method} {parts.path}: {type(e).__name__}: {e}") from e
    finally:
        connection.close()


def pointer(endpoints: Endpoints, namespace: str, table: str, timeout: float) -> str | None:
    """REST ``loadTable`` in Polaris' catalog, as its root principal."""
    levels = quote("\x1f".join(namespace.split(".")), safe="")
    url = f"{endpoints.catalog_uri}/v1/{CATALOG}/namespaces/{levels}/tables/{quote(table, safe='')}"
    what = f"{namespace}.{table}"
    try:
        bearer = token(endpoints.catalog_uri, timeout)
        headers = {"Accept": "application/json", "Authorization": f"Bearer {bearer}", "Polaris-Realm": REALM}
        status, body = http_get(url, timeout, headers=headers)
        answer = json.loads(body)
        if status == 404 and answer["error"]["type"] in ("NoSuchTableException", "NoSuchNamespaceException"):
            return None
        if status == 200:
            return str(answer["metadata-location"])
    except (OSError, NotReady, http.client.HTTPException, ValueError, KeyError, TypeError) as e:
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
        "warehouse": CATALOG,
        "credential": f"{CLIENT_ID}:{CLIENT_SECRET}",
        "scope": SCOPE,
        "header.Polaris-Realm": REALM,
    }


def check() -> None:
    """Raises ServiceError when there is no Docker, or the image cannot be had; it is pulled if it is not there."""
    client = engine("polaris", REMEDY)
    try:
        have(client, "polaris", IMAGE, REMEDY)
    finally:
        client.close()


POLARIS = Catalog(
    name="polaris",
    summary=f"Apache Polaris {VERSION} on PostgreSQL, in a container: needs Docker",
    promise="the server checks the commit's requirements, then compares and swaps its entity in PostgreSQL",
    servers=(DATABASE, Server("polaris", Polaris, lambda _: VERSION, ports=("polaris", "polaris-management"))),
    wire="http",
    uri=_uri,
    properties=lambda e: {
        **_client(e),
        "rest.client.socket-timeout-ms": str(SOCKET_TIMEOUT_MS),
        "rest.client.connection-timeout-ms": str(CONNECT_TIMEOUT_MS),
    },
    pointer=pointer,
    pyiceberg=_client,
    hands_out_store=True,
    rest=True,
    check=check,
)
