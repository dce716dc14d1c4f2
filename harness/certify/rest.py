"""A client of Iceberg's REST catalog that hides nothing: every request is sent once, and every answer is recorded as it came."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import quote, urlencode

import requests

from checkers.certificate import Exchange
from compose.catalogs.probe import described
from workloads.file.yamlfile import HIDDEN

TIMEOUT_S = 60.0
"""An answer that takes longer is none: to a client it is a server that hangs."""
ENDS = "expires-at"
"""Is in the name of the key of ``config`` that says when credentials end."""
MOST_OF_AN_ANSWER = 4000
"""Characters of an answer that is no JSON are kept: enough of an HTML page of an error."""


class LateBody:
    """The body of a request whose last byte waits, so that the request arrives long after it was begun.

    Attributes:
        begun: set when all but the last byte is sent.
    """

    def __init__(self) -> None:
        self.begun = threading.Event()
        self._arrives = threading.Event()
        self._data = b""

    def of(self, text: str) -> LateBody:
        """This body with a text."""
        self._data = text.encode()
        return self

    def arrive(self) -> None:
        """Send the last byte."""
        self._arrives.set()

    def __len__(self) -> int:
        return len(self._data)

    def __iter__(self) -> Iterator[bytes]:
        yield self._data[:-1]
        self.begun.set()
        self._arrives.wait(TIMEOUT_S)
        yield self._data[-1:]


class RestClient:
    """Sends requests to one server; any number of threads may.

    Args:
        uri: of the server, before ``/v1``.
        headers: sent with each request.
        heard: gets each exchange.
    """

    def __init__(self, uri: str, headers: Mapping[str, str], heard: Callable[[Exchange], None]) -> None:
        self.uri = uri.rstrip("/")
        self.headers = dict(headers)
        self.prefix = ""
        self._heard = heard
        self._own = threading.local()

    def __call__(
        self,
        label: str,
        method: str,
        path: str,
        body: Any = None,
        *,
        query: Mapping[str, object] | None = None,
        headers: Mapping[str, str] | None = None,
        raw: str | None = None,
        late: LateBody | None = None,
    ) -> Exchange:
        """Send one request; an answer that does not come is an exchange with status 0.

        Args:
            path: behind ``/v1/{prefix}/``; with a leading slash: behind the server's address.
            raw: sent instead of ``body`` as JSON.
            late: says when the last byte is sent.
        """
        whole = path if path.startswith("/") else f"/v1/{self.prefix}{path}"
        whole += f"?{urlencode(query)}" if query else ""
        data = raw if raw is not None else None if body is None else json.dumps(body)
        given = {**self.headers, **({} if data is None else {"Content-Type": "application/json"}), **(headers or {})}
        try:
            answer = self._session.request(
                method,
                self.uri + whole,
                data=data if late is None or data is None else late.of(data),
                headers=given,
                timeout=TIMEOUT_S,
                allow_redirects=False,
            )
        except requests.RequestException as e:
            found = Exchange(label, method, whole, body if raw is None else raw, 0, text=described(e)[1])
        else:
            found = _exchange(label, method, whole, body if raw is None else raw, answer)
        found = replace(found, asked=self._shown(given))
        self._heard(found)
        return found

    def _shown(self, given: Mapping[str, str]) -> dict[str, str]:
        """Headers as others may read them: those of the user's file and whatever is sent as a login are hidden."""
        hidden = {k.lower() for k in self.headers} | {"authorization"}
        return {k: HIDDEN if k.lower() in hidden else v for k, v in given.items()}

    @property
    def _session(self) -> requests.Session:
        """One connection for each thread: a session is not made for several."""
        if not hasattr(self._own, "session"):
            self._own.session = requests.Session()
        session: requests.Session = self._own.session
        return session


def _exchange(label: str, method: str, path: str, sent: Any, answer: requests.Response) -> Exchange:
    try:
        body = answer.json() if answer.content else None
    except ValueError:
        body = None
    kept = {k.lower(): v for k, v in answer.headers.items()}
    shown = without_credentials(body)
    text = answer.text if shown == body else json.dumps(shown)
    return Exchange(label, method, path, sent, answer.status_code, kept, shown, text[:MOST_OF_AN_ANSWER])


def without_credentials(body: Any) -> Any:
    """An answer as others may read it: a certificate is published, and a server may give its clients keys of the store.

    They stand in ``config`` of a table and of each of its ``storage-credentials``. When they end is kept.
    """
    if isinstance(body, list):
        return [without_credentials(x) for x in body]
    if not isinstance(body, dict):
        return body
    return {
        k: {name: x if ENDS in name else HIDDEN for name, x in v.items()}
        if k == "config" and isinstance(v, dict)
        else without_credentials(v)
        for k, v in body.items()
    }


# --- addresses --------------------------------------------------------------------------------------------------------


def namespace_path(namespace: str) -> str:
    """Of a namespace of one level."""
    return f"namespaces/{quote(namespace, safe='')}"


def table_path(namespace: str, table: str) -> str:
    """Of a table."""
    return f"{namespace_path(namespace)}/tables/{quote(table, safe='')}"


def identifier(namespace: str, table: str) -> dict[str, Any]:
    """A table in a body."""
    return {"namespace": [namespace], "name": table}


# --- what a table shows ------------------------------------------------------------------------------------------------


def main_of(metadata: Mapping[str, Any], sent: Iterable[Mapping[str, Any]]) -> set[Any]:
    """The ids of the snapshots that main is built on, the current one included.

    A server may list the current snapshot alone and without its parent, as Nessie does: who sent it knows the parent.
    """
    parents = {s["snapshot-id"]: s.get("parent-snapshot-id") for s in [*metadata.get("snapshots", []), *sent]}
    found: set[Any] = set()
    current = metadata.get("current-snapshot-id")
    while current in parents and current not in found:
        found.add(current)
        current = parents[current]
    return found


# --- bodies of a commit -----------------------------------------------------------------------------------------------


def commit(*parts: Mapping[str, Any]) -> dict[str, Any]:
    """A commit of these requirements, which have a ``type``, and updates, which have an ``action``."""
    return {
        "requirements": [p for p in parts if "type" in p and "action" not in p],
        "updates": [p for p in parts if "action" in p],
    }


def properties(**values: str) -> dict[str, Any]:
    """The update that sets properties."""
    return {"action": "set-properties", "updates": values}


def add_snapshot(snapshot: Mapping[str, Any]) -> dict[str, Any]:
    """The update that adds a snapshot."""
    return {"action": "add-snapshot", "snapshot": snapshot}


def set_ref(ref: str, snapshot: int, kind: str = "branch") -> dict[str, Any]:
    """The update that moves a branch or a tag."""
    return {"action": "set-snapshot-ref", "ref-name": ref, "type": kind, "snapshot-id": snapshot}


def append(snapshot: Mapping[str, Any], base: int | None, ref: str = "main") -> tuple[dict[str, Any], ...]:
    """The requirement and the updates of an engine's append: the branch is at ``base`` (None: there is none), and moves to the snapshot."""
    return assert_ref(ref, base), add_snapshot(snapshot), set_ref(ref, snapshot["snapshot-id"])


def remove_snapshots(*ids: int) -> dict[str, Any]:
    """The update of an expiry."""
    return {"action": "remove-snapshots", "snapshot-ids": list(ids)}


def assert_ref(ref: str, snapshot: int | None) -> dict[str, Any]:
    """The requirement that a branch or a tag is at a snapshot; None: that there is none of this name."""
    return {"type": "assert-ref-snapshot-id", "ref": ref, "snapshot-id": snapshot}


def asserted(kind: str, **values: Any) -> dict[str, Any]:
    """Another requirement: ``asserted("table-uuid", uuid=…)``."""
    return {"type": f"assert-{kind}", **{k.replace("_", "-"): v for k, v in values.items()}}
