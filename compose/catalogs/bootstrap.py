"""What the server of a REST catalog must be told before the first table: the calls of its management API.

Each function can be called again: it takes what is there already. This file imports the standard library only, because it is also a program
in a container of ``compose/docker/compose.yaml``::

    python bootstrap.py polaris          URI WAREHOUSE CLIENT_STORE STORE REGION from the environment
    python bootstrap.py lakekeeper       URI WAREHOUSE STORE REGION ACCESS_KEY SECRET_KEY from the environment

With ``--keep`` it then makes the file ``/tmp/made`` and waits to be stopped. Other servers need no such call: Nessie and Gravitino make their
tables in the database when they start, and so does the image of Hive.

Written after the specifications: ``spec/polaris-management-service.yml`` of apache/polaris 1.7.0, ``docs/docs/api/management-open-api.yaml``
of lakekeeper/lakekeeper 0.13.1.
"""

from __future__ import annotations

import http.client
import json
import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

REALM = "POLARIS"
CLIENT_ID, CLIENT_SECRET = "root", "s3cr3t"  # no secret: the server listens on loopback for the time of a run
CATALOG_NAME = "icequake"
"""The name of the catalog in Polaris, and of the warehouse in Lakekeeper."""
SCOPE = "PRINCIPAL_ROLE:ALL"
CALL_SECONDS, START_SECONDS = 10.0, 120.0
MADE = Path("/tmp/made")


class UnexpectedAnswer(Exception):
    """The server's answer is not the success that its specification describes; the text says what it answered to what."""


def polaris(uri: str, warehouse: str, client_store: str, server_store: str, region: str) -> None:
    """Make Polaris' catalog, and let its administrators work with what is in it.

    Args:
        uri: of the catalog's API, ``http://host:port/api/catalog``.
        warehouse: the folder of all tables, ``s3://…``.
        client_store, server_store: the object store's URL for clients, and for Polaris itself.

    Raises:
        UnexpectedAnswer: as said there.
        OSError: it does not answer.
    """
    bearer = polaris_token(uri, CALL_SECONDS)
    management = uri.removesuffix("/catalog") + "/management/v1"
    catalog = {
        "name": CATALOG_NAME,
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
    headers = {"Polaris-Realm": REALM, "Authorization": f"Bearer {bearer}"}
    status, body = _call("POST", f"{management}/catalogs", {"catalog": catalog}, headers)
    if status not in (201, 409):  # 409: it is there already
        raise UnexpectedAnswer(f"asked to make the catalog it answers {status}: {body}")
    grants = f"{management}/catalogs/{CATALOG_NAME}/catalog-roles/catalog_admin/grants"
    grant = {"grant": {"type": "catalog", "privilege": "CATALOG_MANAGE_CONTENT"}}
    status, body = _call("PUT", grants, grant, headers)
    # On PostgreSQL Polaris 1.4.1 answers 500 to a grant that is there (duplicate key).
    if status != 201 and grant["grant"] not in _read(grants, "for its grants", headers).get("grants", ()):
        raise UnexpectedAnswer(f"asked to grant CATALOG_MANAGE_CONTENT it answers {status}: {body}")


def polaris_token(uri: str, timeout: float) -> str:
    """A token of Polaris' root principal. Raises UnexpectedAnswer or OSError."""
    form = {"grant_type": "client_credentials", "client_id": CLIENT_ID, "client_secret": CLIENT_SECRET, "scope": SCOPE}
    kind = "application/x-www-form-urlencoded"
    headers = {"Polaris-Realm": REALM, "Content-Type": kind}
    status, body = _request("POST", f"{uri}/v1/oauth/tokens", urlencode(form), headers, timeout)
    try:
        if status == 200:
            return str(json.loads(body)["access_token"])
    except (ValueError, KeyError, TypeError):
        pass
    raise UnexpectedAnswer(f"asked for a token it answers {status}: {body}")


def lakekeeper(uri: str, warehouse: str, store: str, region: str, access_key: str, secret_key: str) -> None:
    """Accept Lakekeeper's terms of use and make its warehouse ``icequake`` in the default project.

    Args:
        uri: of the server, ``http://host:port``; its catalog API is at ``/catalog``.
        warehouse: the folder of all tables, ``s3://bucket/prefix``.
        store: the object store's URL, for the server and for its clients alike.

    Raises:
        UnexpectedAnswer: as said there, also when there is a warehouse of this name at another place.
        OSError: it does not answer.
    """
    management = f"{uri}/management/v1"
    if not _read(f"{management}/info", "for its state").get("bootstrapped"):
        status, body = _call("POST", f"{management}/bootstrap", {"accept-terms-of-use": True})
        if status != 204:
            raise UnexpectedAnswer(f"asked to bootstrap it answers {status}: {body}")
    place = urlsplit(warehouse)
    bucket, prefix = place.netloc, place.path.strip("/")
    for listed in _read(f"{management}/warehouse", "for its warehouses").get("warehouses", ()):
        if listed.get("name") == CATALOG_NAME:
            profile = listed.get("storage-profile", {})
            if (profile.get("bucket"), profile.get("key-prefix")) != (bucket, prefix):
                raise UnexpectedAnswer(f"it has a warehouse {CATALOG_NAME} at another place than {warehouse}")
            return
    profile = {
        "type": "s3",
        "bucket": bucket,
        "key-prefix": prefix,
        "endpoint": store,
        "region": region,
        "path-style-access": True,
        "flavor": "s3-compat",
        "sts-enabled": False,  # clients bring their own credentials
        "remote-signing-enabled": False,
    }
    credential = {
        "type": "s3",
        "credential-type": "access-key",
        "access-key-id": access_key,
        "secret-access-key": secret_key,
    }
    wanted = {
        "warehouse-name": CATALOG_NAME,
        "storage-profile": profile,
        "storage-credential": credential,
        "delete-profile": {"type": "hard"},
    }
    status, body = _call("POST", f"{management}/warehouse", wanted)
    if status != 201:
        raise UnexpectedAnswer(f"asked to make the warehouse it answers {status}: {body}")


def _read(url: str, what: str, headers: Mapping[str, str] | None = None) -> dict[str, Any]:
    status, body = _request("GET", url, "", headers or {}, CALL_SECONDS)
    try:
        answer = json.loads(body) if status == 200 else None
    except ValueError:
        answer = None
    if not isinstance(answer, dict):
        raise UnexpectedAnswer(f"asked {what} it answers {status}: {body[:500]}")
    return answer


def _call(
    method: str, url: str, content: Mapping[str, Any], headers: Mapping[str, str] | None = None
) -> tuple[int, str]:
    sent = {"Content-Type": "application/json", **(headers or {})}
    return _request(method, url, json.dumps(dict(content)), sent, CALL_SECONDS)


def _request(method: str, url: str, body: str, headers: Mapping[str, str], timeout: float) -> tuple[int, str]:
    """Status and body, whose end is cut off if it is longer than a megabyte."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "127.0.0.1", parts.port, timeout=timeout)
    try:
        connection.request(method, quote(parts.path), body.encode() or None, {"Accept": "application/json", **headers})
        answer = connection.getresponse()
        return answer.status, answer.read()[:1_000_000].decode("utf-8", "replace")
    except http.client.HTTPException as e:
        raise UnexpectedAnswer(f"{method} {parts.path}: {type(e).__name__}: {e}") from e
    finally:
        connection.close()


def _polaris_of(given: Mapping[str, str]) -> None:
    polaris(given["URI"], given["WAREHOUSE"], given["CLIENT_STORE"], given["STORE"], given["REGION"])


def _lakekeeper_of(given: Mapping[str, str]) -> None:
    keys = ("URI", "WAREHOUSE", "STORE", "REGION", "ACCESS_KEY", "SECRET_KEY")
    lakekeeper(*(given[key] for key in keys))


BOOTSTRAPPED = {"polaris": _polaris_of, "lakekeeper": _lakekeeper_of}


def main(arguments: Sequence[str], given: Mapping[str, str]) -> int:
    """Entry point. Tries for two minutes; exit code 255 and one line if it cannot be done."""
    names = [word for word in arguments if word != "--keep"]
    if len(names) != 1 or names[0] not in BOOTSTRAPPED:
        print((__doc__ or "").strip(), file=sys.stderr)
        return 254
    deadline = time.monotonic() + float(given.get("START_SECONDS", START_SECONDS))
    while True:
        try:
            BOOTSTRAPPED[names[0]](given)
            break
        except KeyError as e:
            print(f"{names[0]}: the variable {e.args[0]} is missing", file=sys.stderr)
            return 254
        except (UnexpectedAnswer, OSError) as e:
            if time.monotonic() > deadline:
                print(f"{names[0]}: {' '.join(str(e).split())}", file=sys.stderr)
                return 255
            time.sleep(1)  # the server tells nobody that it is ready
    print(f"{names[0]}: the catalog {CATALOG_NAME} is there")
    if "--keep" in arguments:
        MADE.touch()
        signal.sigwait({signal.SIGTERM, signal.SIGINT})
    return 0


if __name__ == "__main__":
    if "--keep" in sys.argv:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
    sys.exit(main(sys.argv[1:], os.environ))
