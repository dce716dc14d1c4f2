"""How a catalog's server is reached: the address and credentials that PyIceberg would use, on a stack of our own or the user's service."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path

import requests

from compose.catalogs import user_file
from compose.catalogs.registry import CATALOGS
from compose.external.external import External
from compose.install import ensure
from harness.certify.kit import ServerDescription, SetUpError
from harness.certify.library import SPOKEN, LibraryServer
from harness.certify.rest import TIMEOUT_S
from harness.run.bench import Bench
from harness.run.settings import Watcher

NO_SPARK = "local[1]"
"""The master of a stack whose writers are never started: nothing of Spark runs."""
HEADER = "header."


@contextlib.contextmanager
def serving(name: str, logs: Path, watcher: Watcher) -> Iterator[ServerDescription]:
    """The server of a catalog: of the library, which is started, or of a user's file, which is there; of no REST server: PyIceberg's client.

    Raises:
        SetUpError: it does not answer, or PyIceberg does not reach it.
        ServiceError: a service of ours does not come up.
        FileError: the file is wrong.
    """
    if user_file.is_file(name):
        yield of_properties(user_file.load(Path(name)).pyiceberg or {}, name)
        return
    with Bench(
        ensure.ensure(progress=None), 0, logs, watcher, catalog=name, external=External(master=NO_SPARK)
    ) as bench:
        found, e = CATALOGS[name].pyiceberg, bench.endpoints
        store = {"s3.endpoint": e.s3, "s3.region": e.region}
        keys = {"s3.access-key-id": e.access_key, "s3.secret-access-key": e.secret_key}
        yield of_properties({} if found is None else {"warehouse": e.warehouse, **store, **keys, **found(e)}, name)


def of_properties(given: Mapping[str, object], name: str) -> ServerDescription:
    """The server that PyIceberg's properties name; OAuth2 credentials are changed for a token. Raises SetUpError."""
    values = {k: str(v) for k, v in given.items()}
    if values.get("type") in SPOKEN or "py-catalog-impl" in values:
        server = LibraryServer(values.get("uri", ""), properties=values)
        try:
            with server.catalog() as catalog:
                catalog.list_namespaces()
        except Exception as e:  # of any library that a catalog of PyIceberg uses
            message = f"{type(e).__name__}: {' '.join(str(e).split())}"
            raise SetUpError(f"catalog {name}: PyIceberg does not reach it: {message}") from None
        return server
    if values.get("type") != "rest" or not values.get("uri"):
        raise SetUpError(
            f"catalog {name}: certify asks what PyIceberg reaches; give one whose file has type: rest and a uri, "
            f"or pyiceberg: with a type of {', '.join(sorted(SPOKEN))}"
        )
    headers = {k.removeprefix(HEADER): v for k, v in values.items() if k.startswith(HEADER) and v}
    if token := values.get("token") or _token(values, name):
        headers["Authorization"] = f"Bearer {token}"
    return ServerDescription.reached(values["uri"], headers, values.get("warehouse", ""))


def _token(values: Mapping[str, str], name: str) -> str | None:
    """What the server of tokens gives for ``credential``; None if there is none."""
    if "credential" not in values:
        return None
    who, _, secret = values["credential"].rpartition(":")
    uri = values.get("oauth2-server-uri", f"{values['uri'].rstrip('/')}/v1/oauth/tokens")
    form = {
        "grant_type": "client_credentials",
        "client_id": who,
        "client_secret": secret,
        "scope": values.get("scope", "catalog"),
    }
    try:
        answer = requests.post(uri, data=form, timeout=TIMEOUT_S)
        return str(answer.json()["access_token"])
    except (requests.RequestException, ValueError, KeyError, TypeError) as e:
        raise SetUpError(
            f"catalog {name}: {uri} gives no token for its credential ({type(e).__name__}); is it right?"
        ) from None
