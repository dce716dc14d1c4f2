"""Catalog servers that answer as their specifications say, where their images cannot be had. Needs nothing but Python, so it also runs in a
container::

    python3 specified.py polaris      at the ports 8181 and 8182, as its image does
    python3 specified.py lakekeeper   at the port 8181
"""

from __future__ import annotations

import contextlib
import json
import re
import sys
import threading
from collections.abc import Callable, Iterator
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote

Headers = Message
Answer = Callable[[str, str, Headers, bytes], tuple[int, Any]]
"""(method, path, headers, body) → status and JSON; None: no body. AssertionError, KeyError and ValueError become the answer 400."""

TOKEN = "a.token.of.theirs"
GRANTS = re.compile(r"/api/management/v1/catalogs/([^/]+)/catalog-roles/([^/]+)/grants")
TABLE = re.compile(r"/api/catalog/v1/([^/]+)/namespaces/([^/]+)/tables/([^/?]+)(?:\?.*)?")
CONFIG = re.compile(r"/api/catalog/v1/config\?warehouse=([^&]+)")
STORAGE_KEYS = {
    *("storageType", "allowedLocations", "storageName", "roleArn", "externalId", "userArn", "currentKmsKey", "region"),
    *(
        "allowedKmsKeys",
        "endpoint",
        "stsEndpoint",
        "stsUnavailable",
        "endpointInternal",
        "pathStyleAccess",
        "kmsUnavailable",
    ),
}
"""``AwsStorageConfigInfo`` of spec/polaris-management-service.yml, 1.7.0."""


EMPTY = {
    "format-version": 2,
    "table-uuid": "9c12d441-03fe-4693-9a96-a0705ddf69c1",
    "location": "s3://w/polaris/t",
    "last-sequence-number": 0,
    "last-updated-ms": 1,
    "last-column-id": 0,
    "schemas": [{"type": "struct", "schema-id": 0, "fields": []}],
    "current-schema-id": 0,
    "partition-specs": [{"spec-id": 0, "fields": []}],
    "default-spec-id": 0,
    "last-partition-id": 999,
    "sort-orders": [{"order-id": 0, "fields": []}],
    "default-sort-order-id": 0,
}
"""The metadata of a table without a snapshot."""


class Polaris:
    """What the specifications of Polaris' management service and of its catalog service demand of the calls that we make.

    What they leave open it does as Polaris 1.4.1 on PostgreSQL without STS, of which this was measured: a grant that is there is refused with
    500, and so is, with 400, the loading of a table by a client that wants credentials.
    """

    def __init__(self) -> None:
        self.catalogs: dict[str, Any] = {}
        self.grants: list[tuple[str, str, Any]] = []
        self.tables: dict[tuple[str, str, str], str] = {}
        self.broken: dict[str, int] = {}

    def answer(self, method: str, path: str, headers: Headers, body: bytes) -> tuple[int, Any]:
        if (status := self.broken.get(method)) is not None:
            return status, {"error": {"message": "broken", "type": "ServiceFailureException", "code": status}}
        if (method, path) == ("POST", "/api/catalog/v1/oauth/tokens"):
            form = {k: v[0] for k, v in parse_qs(body.decode()).items()}
            known = (form.get("client_id"), form.get("client_secret")) == ("root", "s3cr3t")
            if form.get("grant_type") != "client_credentials" or form.get("scope") != "PRINCIPAL_ROLE:ALL" or not known:
                return 401, {"error": "unauthorized_client"}
            return 200, {"access_token": TOKEN, "token_type": "bearer", "expires_in": 3600}
        if headers.get("Authorization") != f"Bearer {TOKEN}":
            return 401, {"error": {"message": "no", "type": "NotAuthorizedException", "code": 401}}
        if (method, path) == ("POST", "/api/management/v1/catalogs"):
            return self.create(json.loads(body))
        if method == "PUT" and (m := GRANTS.fullmatch(path)):
            grant = json.loads(body)["grant"]
            if unquote(m[1]) not in self.catalogs or m[2] != "catalog_admin":
                return 404, {}
            assert grant["type"] in ("catalog", "namespace", "table", "view", "policy") and grant["privilege"]
            one = (unquote(m[1]), m[2], grant["privilege"])
            if one in self.grants:
                said = 'ERROR: duplicate key value violates unique constraint "grant_records_pkey"'
                return 500, {"error": {"message": said, "type": "RuntimeException", "code": 500}}
            self.grants.append(one)
            return 201, None
        if method == "GET" and (m := GRANTS.fullmatch(path)):
            mine = [privilege for catalog, role, privilege in self.grants if (catalog, role) == (unquote(m[1]), m[2])]
            return 200, {"grants": [{"privilege": privilege, "type": "catalog"} for privilege in mine]}
        if method == "GET" and (m := CONFIG.fullmatch(path)):
            return 200, {"defaults": {}, "overrides": {"prefix": unquote(m[1])}}
        if method == "GET" and (m := TABLE.fullmatch(path)):
            location = self.tables.get((unquote(m[1]), unquote(m[2]), unquote(m[3])))
            if location is None:
                return 404, {"error": {"message": "no", "type": "NoSuchTableException", "code": 404}}
            if "vended-credentials" in headers.get("X-Iceberg-Access-Delegation", ""):
                said = f"Credential vending was requested for table {m[3]}, but no credentials are available"
                return 400, {"error": {"message": said, "type": "IllegalArgumentException", "code": 400}}
            return 200, {"metadata-location": location, "metadata": EMPTY, "config": {}}
        return 404, {}

    def made(self) -> list[str]:
        """The catalogs with whose content a principal may work."""
        return [name for name in self.catalogs if any(grant[0] == name for grant in self.grants)]

    def create(self, request: Any) -> tuple[int, Any]:
        catalog = request["catalog"]
        assert {"name", "type", "storageConfigInfo", "properties"} <= set(catalog)
        assert catalog["type"] in ("INTERNAL", "EXTERNAL")
        assert "default-base-location" in catalog["properties"]
        assert all(isinstance(v, str) for v in catalog["properties"].values())
        storage = catalog["storageConfigInfo"]
        assert storage["storageType"] == "S3" and set(storage) <= STORAGE_KEYS
        assert any(catalog["properties"]["default-base-location"].startswith(x) for x in storage["allowedLocations"])
        if catalog["name"] in self.catalogs:
            return 409, {"error": {"message": "there", "type": "AlreadyExistsException", "code": 409}}
        self.catalogs[catalog["name"]] = catalog
        return 201, catalog


S3_PROFILE = {
    *(
        "type",
        "bucket",
        "region",
        "sts-enabled",
        "allow-alternative-protocols",
        "assume-role-arn",
        "aws-kms-key-arn",
        "endpoint",
    ),
    *(
        "flavor",
        "key-prefix",
        "legacy-md5-behavior",
        "path-style-access",
        "push-s3-delete-disabled",
        "remote-signing-enabled",
    ),
    *("remote-signing-url-style", "sts-endpoint", "sts-role-arn", "sts-session-tags", "sts-token-validity-seconds"),
}
"""``S3Profile`` of docs/docs/api/management-open-api.yaml, 0.13.1."""


class Lakekeeper:
    """What the specification of the management API demands of the calls that we make."""

    def __init__(self) -> None:
        self.bootstrapped = False
        self.warehouses: list[dict[str, Any]] = []
        self.calls: list[str] = []
        self.broken: dict[str, int] = {}

    def answer(self, method: str, path: str, headers: Headers, body: bytes) -> tuple[int, Any]:
        self.calls.append(f"{method} {path}")
        if (status := self.broken.get(path)) is not None:
            return status, {"error": {"message": "broken", "type": "InternalServerError", "code": status, "stack": []}}
        match method, path:
            case "GET", "/management/v1/info":
                return 200, {"version": "0.13.1", "bootstrapped": self.bootstrapped, "authz-backend": "allow-all"}
            case "POST", "/management/v1/bootstrap":
                if self.bootstrapped or json.loads(body)["accept-terms-of-use"] is not True:
                    return 400, {"error": {"message": "no", "type": "CatalogAlreadyBootstrapped", "code": 400}}
                self.bootstrapped = True
                return 204, None
            case "GET", "/management/v1/warehouse":
                return 200, {"warehouses": self.warehouses}
            case "POST", "/management/v1/warehouse":
                return self.create(json.loads(body))
        return 404, {}

    def made(self) -> list[str]:
        """The warehouses."""
        return [one["name"] for one in self.warehouses]

    def create(self, wanted: dict[str, Any]) -> tuple[int, Any]:
        assert self.bootstrapped and {"warehouse-name", "storage-profile"} <= set(wanted)
        profile, credential = wanted["storage-profile"], wanted["storage-credential"]
        assert {"type", "bucket", "region", "sts-enabled"} <= set(profile) <= S3_PROFILE
        assert profile["type"] == "s3" and profile["flavor"] in ("aws", "s3-compat")
        assert credential["type"] == "s3" and credential["credential-type"] == "access-key"
        assert set(credential) == {"type", "credential-type", "access-key-id", "secret-access-key"}
        assert wanted["delete-profile"] == {"type": "hard"}
        if any(one["name"] == wanted["warehouse-name"] for one in self.warehouses):
            return 409, {"error": {"message": "there", "type": "WarehouseAlreadyExists", "code": 409}}
        self.warehouses.append({"name": wanted["warehouse-name"], "storage-profile": profile, "status": "active"})
        return 201, self.warehouses[-1]


def server(answer: Answer, host: str = "127.0.0.1", port: int = 0) -> ThreadingHTTPServer:
    """Such a server, which listens and does not answer yet."""

    class Handler(BaseHTTPRequestHandler):
        def reply(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            try:
                status, content = answer(self.command, self.path, self.headers, body)
            except (AssertionError, KeyError, ValueError) as e:
                status, content = 400, {"error": {"message": repr(e), "type": "BadRequestException", "code": 400}}
            raw = b"" if content is None else json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(raw)))
            self.end_headers()
            self.wfile.write(raw)

        do_GET = do_POST = do_PUT = reply

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    return ThreadingHTTPServer((host, port), Handler)


@contextlib.contextmanager
def serving(answer: Answer) -> Iterator[str]:
    """Such a server on loopback, while the block runs; its address."""
    with server(answer) as running:
        thread = threading.Thread(target=running.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{running.server_address[1]}"
        finally:
            running.shutdown()
            thread.join()


def main() -> None:
    """Serve until the process is ended; ``GET /made`` tells the names of the catalogs that were made."""
    specified = Polaris() if sys.argv[1] == "polaris" else Lakekeeper()

    def answer(method: str, path: str, headers: Headers, body: bytes) -> tuple[int, Any]:
        return (200, specified.made()) if path == "/made" else specified.answer(method, path, headers, body)

    health = server(lambda *_: (200, {"status": "UP"}), "0.0.0.0", 8182)
    threading.Thread(target=health.serve_forever, daemon=True).start()
    server(answer, "0.0.0.0", 8181).serve_forever()


if __name__ == "__main__":
    main()
