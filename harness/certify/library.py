"""A catalog without a REST server, asked by the same requests: PyIceberg's client of it makes each of them.

A request's method and path choose the operation. An exception is answered with the status that the specification of REST has for it, so a
requirement is asked and judged as it is of a server; 500 is an exception that says nothing of the outcome.
"""

from __future__ import annotations

import json
import queue
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import unquote, urlencode

from pydantic import ValidationError
from pyiceberg import exceptions as said

from checkers.certificate import Absent, Exchange
from harness.certify.exchanges import NotApplicable
from harness.certify.kit import ServerDescription

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import CommitTableResponse, Table

R = TypeVar("R")

SPOKEN = frozenset({"sql", "hive", "glue", "dynamodb"})
"""The types of PyIceberg's catalogs that have no REST server."""
STATUSES: Mapping[type[Exception], int] = {
    said.CommitFailedException: 409,
    said.TableAlreadyExistsError: 409,
    said.NamespaceAlreadyExistsError: 409,
    said.NamespaceNotEmptyError: 409,
    said.NoSuchTableError: 404,
    said.NoSuchNamespaceError: 404,
    said.ValidationError: 400,
    ValidationError: 400,
}
ENDPOINTS = (
    "POST /v1/{prefix}/namespaces/{namespace}/properties",
    "POST /v1/{prefix}/namespaces/{namespace}/register",
    "POST /v1/{prefix}/tables/rename",
)
"""What some requirement needs and PyIceberg's catalogs have: no transaction over tables and no view is among it."""


@dataclass
class LibraryServer(ServerDescription):
    """A catalog that PyIceberg reaches.

    Attributes:
        properties: of ``pyiceberg.catalog.load_catalog``.
    """

    properties: Mapping[str, str] = field(default_factory=dict)
    absent = Absent.NO_OPERATION
    has_server = False

    def __post_init__(self) -> None:
        self.config = {"endpoints": list(ENDPOINTS)}
        self._idle: queue.LifoQueue[Catalog] = queue.LifoQueue()

    def client(self, heard: Callable[[Exchange], None]) -> LibraryClient:
        """What makes requests of it."""
        return LibraryClient(self, heard)

    def use(self, act: Callable[[Catalog], R]) -> R:
        """Do one operation. Two at a time have two clients: they are as separate as two processes.

        No context manager: contextlib sets the traceback of an exception, which those of Hive's metastore do not permit.
        """
        from pyiceberg.catalog import load_catalog

        try:
            found = self._idle.get_nowait()
        except queue.Empty:
            found = load_catalog("certify", **self.properties)
        try:
            return act(found)
        finally:
            self._idle.put(found)


@dataclass
class LibraryClient:
    """Does what :class:`harness.certify.rest.RestClient` does, by PyIceberg."""

    server: LibraryServer
    heard: Callable[[Exchange], None]

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
    ) -> Exchange:
        """Do it; headers and ``raw`` are of HTTP and mean nothing here. Raises NotApplicable: PyIceberg cannot do it."""
        status, answer = 200, None
        try:
            steps = [unquote(p) for p in path.split("/")]
            answer = self.server.use(lambda catalog: _done(catalog, method, steps, body, dict(query or {})))
        except NotImplementedError:  # as in PyIceberg's catalog of DynamoDB, which commits nothing
            raise NotApplicable(Absent.NO_OPERATION) from None
        except Exception as e:
            status = next((s for kind, s in STATUSES.items() if isinstance(e, kind)), 500)
            answer = {"error": {"type": type(e).__name__, "message": str(e), "code": status}}
        whole = path + (f"?{urlencode(query)}" if query else "")
        found = Exchange(label, method, whole, body, status, {}, answer)
        self.heard(found)
        return found


def _drop(catalog: Any, table: tuple[str, str], *, purge: bool) -> None:
    """Drop a table; its files, too, where the catalog can: PyIceberg's of Hive cannot."""
    try:
        (catalog.purge_table if purge else catalog.drop_table)(table)
    except NotImplementedError:
        catalog.drop_table(table)


def _done(catalog: Catalog, method: str, path: list[str], body: Any, query: Mapping[str, object]) -> Any:
    from pyiceberg.schema import Schema

    match method, path:
        case "POST", ["namespaces"]:
            catalog.create_namespace(tuple(body["namespace"]), body["properties"])
        case "GET", ["namespaces", space]:
            return {"namespace": [space], "properties": dict(catalog.load_namespace_properties(space))}
        case "DELETE", ["namespaces", space]:
            catalog.drop_namespace(space)
        case "POST", ["namespaces", space, "properties"]:
            catalog.update_namespace_properties(space, set(body.get("removals", ())), body.get("updates", {}))
        case "GET", ["namespaces", space, "tables"]:
            return {"identifiers": [{"namespace": [space], "name": t[-1]} for t in catalog.list_tables(space)]}
        case "POST", ["namespaces", space, "tables"]:
            schema = Schema.model_validate(body["schema"])
            return _shown(catalog.create_table((space, body["name"]), schema, properties=body["properties"]))
        case "POST", ["namespaces", space, "register"]:
            return _shown(
                catalog.register_table((space, body["name"]), body["metadata-location"], body.get("overwrite", False))
            )
        case "GET", ["namespaces", space, "tables", name]:
            return _shown(catalog.load_table((space, name)))
        case "POST", ["namespaces", space, "tables", name]:
            return _committed(catalog, space, name, body)
        case "DELETE", ["namespaces", space, "tables", name]:
            _drop(catalog, (space, name), purge=query.get("purgeRequested") == "true")
        case "POST", ["tables", "rename"]:
            old, new = ((*body[end]["namespace"], body[end]["name"]) for end in ("source", "destination"))
            catalog.rename_table(old, new)
        case _:
            raise said.NoSuchTableError(f"PyIceberg's catalogs have no {method} {'/'.join(path)}")
    return None


def _committed(catalog: Catalog, space: str, name: str, body: Any) -> Any:
    from pyiceberg.table import CommitTableRequest

    wanted = CommitTableRequest.model_validate({"identifier": {"namespace": [space], "name": name}, **body})
    return _shown(catalog.commit_table(catalog.load_table((space, name)), wanted.requirements, wanted.updates))


def _shown(found: Table | CommitTableResponse) -> dict[str, Any]:
    return {
        "metadata-location": found.metadata_location,
        "metadata": json.loads(found.metadata.model_dump_json()),
    }
