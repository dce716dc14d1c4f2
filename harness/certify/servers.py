"""How a catalog's server is reached: the address and credentials that PyIceberg would use, on a stack of our own or the user's service."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import requests

from compose.catalogs import user_file
from compose.catalogs.probe import described
from compose.catalogs.registry import CATALOGS
from compose.catalogs.user_file import UserCatalogFile
from compose.external.external import External, external
from compose.external.preflight import PreflightError
from compose.install import ensure
from compose.redaction import Redaction
from harness.certify.control import StackControl
from harness.certify.kit import ServerDescription, SetUpError, elsewhere
from harness.certify.library import SPOKEN, LibraryServer
from harness.certify.rest import TIMEOUT_S
from harness.run.bench import Bench
from harness.run.settings import Watcher
from nemesis.wires.errorpage import readable

LOOKS_AT_LOCKS = {"lock-check-max-wait-time": "0.1", "lock-check-retries": "140"}
"""Of PyIceberg's client of Hive: it waits for a lock as long as by default, 14 s, and looks each 100 ms, not after 2, 4 and 8 s.

By default eight clients of one table would take an hour.
"""
NO_SPARK = "local[1]"
"""The master of a stack whose writers are never started: nothing of Spark runs."""
HEADER = "header."
MOST_OF_A_REFUSAL = 300
"""Characters of the answer of a server of tokens: an error of OAuth2 is shorter."""


def preflight(files: Iterable[str]) -> None:
    """Reach what these files name, before anything is asked of any. Raises PreflightError: with a line for each that is not reached."""
    problems = []
    for file in files:
        own = user_file.load(Path(file))
        try:
            of_properties(_of_file(own), own.name)
        except SetUpError as e:
            problems.append(Redaction(own.secrets).text(f"{e} ({own.file})"))
    if problems:
        raise PreflightError(problems)


def _of_file(own: UserCatalogFile) -> dict[str, Any]:
    """PyIceberg's properties of a user's catalog; of one without a server they say where tables are, because PyIceberg writes their files.

    Raises:
        SetUpError: the file does not say where.
        ExternalError: its store cannot be used.
    """
    given = own.pyiceberg or {}
    if given.get("type") not in SPOKEN:
        return given
    found, place = dict(given), own.warehouse or own.spark.get("warehouse")
    if (store := external(own, None, None).store) is not None:
        found = _store(store.endpoint, store.region, store.access_key, store.secret_key) | found
        place = place or f"s3://{store.warehouse}"
    if place:
        return {"warehouse": place} | found
    if found["type"] == "sql" and "warehouse" not in found:  # other catalogs know a place for each namespace
        raise SetUpError(
            f"catalog {own.name}: PyIceberg itself writes the metadata of its tables, and the file does not say where; "
            "give warehouse: file:///…, or s3: http://host:9000/bucket"
        )
    return found


def _store(endpoint: str, region: str, access_key: str, secret_key: str) -> dict[str, str]:
    keys = {"s3.access-key-id": access_key, "s3.secret-access-key": secret_key}
    return {"s3.endpoint": endpoint, "s3.region": region, **keys}


@contextlib.contextmanager
def serving(name: str, logs: Path, watcher: Watcher) -> Iterator[ServerDescription]:
    """The server of a catalog: of the library, which is started, or of a user's file, which is there; of no REST server: PyIceberg's client.

    Raises:
        SetUpError: it does not answer, or PyIceberg does not reach it.
        ServiceError: a service of ours does not come up.
        FileError: the file is wrong.
    """
    if user_file.is_file(name):
        own = user_file.load(Path(name))
        yield of_properties(_of_file(own), own.name)
        return
    with Bench(
        ensure.ensure(progress=None), 0, logs, watcher, catalog=name, external=External(master=NO_SPARK)
    ) as bench:
        found, e = CATALOGS[name].pyiceberg, bench.endpoints
        store = _store(e.s3, e.region, e.access_key, e.secret_key)
        server = of_properties({} if found is None else {"warehouse": e.warehouse, **store, **found(e)}, name)
        if server.has_server:
            server.control = StackControl(bench)
        yield server


def client_properties(given: Mapping[str, object]) -> dict[str, str]:
    """PyIceberg's properties as they are used; what is given counts."""
    locks = LOOKS_AT_LOCKS if given.get("type") == "hive" else {}
    return {**locks, **{k: str(v) for k, v in given.items()}}


def of_properties(given: Mapping[str, object], name: str) -> ServerDescription:
    """The server that PyIceberg's properties name; OAuth2 credentials are changed for a token. Raises SetUpError."""
    values = client_properties(given)
    if values.get("type") in SPOKEN or "py-catalog-impl" in values:
        server = LibraryServer(values.get("uri", ""), properties=values)
        try:
            server.use(lambda catalog: catalog.list_namespaces())
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
    try:
        return ServerDescription.reached(values["uri"], headers, values.get("warehouse", ""))
    except SetUpError as e:
        raise SetUpError(f"catalog {name}: {e}") from None


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
    except requests.RequestException as e:
        status, text = 0, described(e)[1]
        why = text
    else:
        with contextlib.suppress(ValueError, KeyError, TypeError):
            return str(answer.json()["access_token"])
        status, text = answer.status_code, answer.text
        why = f"{status} {' '.join(readable(text).split())[:MOST_OF_A_REFUSAL]}".strip()
    why = elsewhere(status, text) or f"{why}; is the credential right?"
    raise SetUpError(f"catalog {name}: {uri} gives no token for the credential: {why}")
