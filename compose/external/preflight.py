"""Check within 30 s that user-supplied services answer and that our credentials suffice. It runs before anything is started.

The catalog lists its namespaces; the store writes, reads and deletes a small object; the Spark master accepts a connection. All are checked at
the same time. The error names every service that failed: what was tried, what it answered, what to do.
"""

from __future__ import annotations

import secrets
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from compose.catalogs import user
from compose.catalogs.addresses import masters
from compose.catalogs.probe import Probe, ProbeError
from compose.catalogs.user_file import UserCatalogFile
from compose.external.external import External, Store
from compose.processes.service import ServiceError
from compose.redaction import Redaction

ANSWER_SECONDS = 14.0
PROBE_SECONDS = 12.0
"""Until the probe's process is up on a busy machine; together with ``ANSWER_SECONDS`` less than 30 s."""
CONNECT_SECONDS = 5.0
MASTERS_SECONDS = 20.0
"""For all masters of a list together."""

_REMEDIES = {
    "refused": "is it up, and is the address right?",
    "unknown host": "is the address right?",
    "silent": "is the address right, and does a firewall drop the packets?",
    "denied": "are the credentials right, and do they permit this?",
    "server": "see the server's own log",
}


class PreflightError(ServiceError):
    """User-supplied services that failed the check, one line each."""

    def __init__(self, problems: list[str]):
        self.problems = tuple(problems)
        RuntimeError.__init__(self, "; and ".join(problems))


def preflight(external: External) -> None:
    """Check every user-supplied service.

    Raises:
        PreflightError: one or more of them failed.
    """
    asks: list[Callable[[], str | None]] = []
    if external.catalog is not None and external.catalog.pyiceberg is not None:
        catalog = external.catalog
        asks.append(lambda: _catalog(catalog))
    if external.store is not None:
        store = external.store
        asks.append(lambda: _store(store))
    if external.master is not None and (hosts := masters(external.master)):
        master = external.master
        asks.append(lambda: _master(master, hosts))
    if not asks:
        return
    with ThreadPoolExecutor(len(asks), "preflight") as pool:
        answers = [future.result() for future in [pool.submit(ask) for ask in asks]]
    hide = Redaction(external.secrets)
    problems = [hide.text(answer) for answer in answers if answer is not None]
    if problems:
        raise PreflightError(problems)


def _catalog(catalog: UserCatalogFile) -> str | None:
    uri = (catalog.pyiceberg or {}).get("uri") or catalog.uri or catalog.kind
    with user.probe(catalog) as asked:
        try:
            found = asked.ask({"namespaces": True}, ANSWER_SECONDS, start=PROBE_SECONDS)
        except ProbeError as e:
            remedy = _REMEDIES.get(e.kind, "are the properties right?")
            return f"catalog {catalog.name} at {uri}: asked for its namespaces: {e}; {remedy} (pyiceberg: of {catalog.file})"
    if found["nessie"] and catalog.of_type.over_rest:
        return (
            f"catalog {catalog.name} at {uri}: is Nessie, which shows only a table's current snapshot over REST, so what is right would be "
            f"taken for lost; use its own API, spark: {{type: nessie, uri: http://…/api/v2}}, as docs/own-catalog.md shows ({catalog.file})"
        )
    return None


def _store(store: Store) -> str | None:
    place = store.warehouse
    question = {
        "endpoint": store.endpoint,
        "key": f"{place}/icequake-preflight-{secrets.token_hex(6)}",
        "access_key": store.access_key,
        "secret_key": store.secret_key,
        "region": store.region,
    }
    with Probe("store") as asked:
        try:
            asked.ask({"store": question}, ANSWER_SECONDS, start=PROBE_SECONDS)
        except ProbeError as e:
            remedy = {"missing": f"make the bucket {store.bucket} first"} | _REMEDIES
            remedy["denied"] += (
                f" If {store.bucket} is a bucket of tables, it takes no other object: give another bucket"
            )
            return (
                f"store {store.shown}: a small object written, read and deleted: {e}; "
                f"{remedy.get(e.kind, 'is this an S3 address?')}"
            )
    return None


def _master(master: str, hosts: list[tuple[str, int]]) -> str | None:
    """Why no master of the list can be reached; None when one of them can."""
    answers, seconds = [], min(CONNECT_SECONDS, MASTERS_SECONDS / len(hosts))
    for host, port in hosts:
        try:
            with socket.create_connection((host, port), seconds):
                return None
        except socket.gaierror:
            answers.append(f"{host}:{port}: no such host")
        except TimeoutError:
            answers.append(f"{host}:{port}: no answer within {seconds:.0f} s")
        except ConnectionRefusedError:
            answers.append(f"{host}:{port}: connection refused")
        except OSError as e:
            answers.append(f"{host}:{port}: {(e.strerror or str(e)).lower()}")
    return f"Spark master {master}: {', '.join(answers)}; is it up, and is the address right?"
