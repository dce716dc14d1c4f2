"""What a requirement asks with: a client, tables of its own, and several clients that begin at one moment."""

from __future__ import annotations

import contextlib
import itertools
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, TypeVar
from urllib.parse import urlsplit

from checkers.certificate import Absent, Exchange
from compose.catalogs.probe import PLAIN_HTTP
from harness.certify import rest
from harness.certify.control import ServerControl
from harness.certify.exchanges import Exchanges, NotApplicable
from nemesis.wires.errorpage import s3_error

R = TypeVar("R")

TABLE_SCHEMA: dict[str, Any] = {
    "type": "struct",
    "schema-id": 0,
    "fields": [
        {"id": 1, "name": "id", "required": False, "type": "long"},
        {"id": 2, "name": "v", "required": False, "type": "string"},
    ],
}
NEW_TABLE: dict[str, Any] = {
    "schema": TABLE_SCHEMA,
    "partition-spec": {"spec-id": 0, "fields": []},
    "write-order": {"order-id": 0, "fields": []},
    "stage-create": False,
    "properties": {},
}
"""What Iceberg's clients send, with all that may be left out: Nessie refuses a table without a spec by 500, which is not what is asked here."""
CLIENTS = 8
"""As many clients begin at once: more than the connections that servers keep by default would wait for each other, and not race."""
ROUNDS = 25
"""Of a race: one that a server loses in 11 of 100 rounds is seen with a chance of 95 % (1 − 0.89²⁵)."""
LONGEST_RACE_S = 60.0
"""What wants more rounds to see what is rare has so long for them: where a commit takes seconds they would take hours."""
NO_SNAPSHOT = -1
"""Iceberg writes it where a table has no current snapshot; the specification has null."""
NO_ROUTE = frozenset({404, 405, 501})
NO_ANSWER = frozenset({0, 429, 503})
"""They say nothing of a table. One such load beside many commits is no table that is gone."""
LOADS, LOAD_AGAIN_S = 3, 1.0
"""So often a table is loaded for an answer: three that do not come in time take three minutes."""

NEVER_ASSUMED = frozenset(
    (
        "POST /v1/{prefix}/namespaces/{namespace}/tables/{table}/plan",
        "GET /v1/{prefix}/namespaces/{namespace}/tables/{table}/credentials",
    )
)
"""Of a server that declares no endpoints: newer than the list of them in the specification."""


class SetUpError(RuntimeError):
    """What a requirement needs could not be made, so nothing can be concluded; one line."""


@dataclass
class ServerDescription:
    """A server, as it describes itself.

    Attributes:
        config: its answer to ``GET /v1/config``.
        declared: its endpoints; None: it declares none, and a client may assume the original ones.
        places: the folders of the tables that were made on it.
        control: of a server that icequake runs.
        absent: why what it does not declare does not apply; ``has_server``: whether its answers are those of a server.
    """

    uri: str
    headers: Mapping[str, str] = field(default_factory=dict)
    warehouse: str = ""
    config: Mapping[str, Any] = field(default_factory=dict)
    places: set[str] = field(default_factory=set)
    control: ServerControl | None = None
    absent: ClassVar[Absent] = Absent.UNDECLARED
    has_server: ClassVar[bool] = True

    def client(self, heard: Callable[[Exchange], None]) -> Callable[..., Exchange]:
        """What sends requests to it; ``heard`` gets each exchange."""
        client = rest.RestClient(self.uri, self.headers, heard)
        client.prefix = self.prefix
        return client

    @classmethod
    def reached(cls, uri: str, headers: Mapping[str, str], warehouse: str = "") -> ServerDescription:
        """Ask it for its configuration. Raises SetUpError."""
        client = rest.RestClient(uri, headers, lambda _: None)
        query = {"warehouse": warehouse} if warehouse else None
        found = client("config", "GET", "/v1/config", query=query)
        if not found.ok or not isinstance(found.body, dict):
            why = elsewhere(found.status, found.text) or f"{found.words()}; {_remedy(found)}"
            raise SetUpError(f"{uri}/v1/config: {why}")
        moved = found.body.get("overrides", {}).get("uri")  # Nessie's default branch is asked below another address
        return cls(moved or uri, headers, warehouse, found.body)

    @property
    def declared(self) -> frozenset[str] | None:
        """``METHOD /v1/{prefix}/…`` of each endpoint."""
        found = self.config.get("endpoints")
        return None if found is None else frozenset(map(str, found))

    def check_declares(self, endpoint: str) -> None:
        """Raises NotApplicable: it does not declare an endpoint."""
        declared = self.declared
        if endpoint in NEVER_ASSUMED if declared is None else endpoint not in declared:
            raise NotApplicable(self.absent)

    @property
    def prefix(self) -> str:
        """Behind ``/v1/``, with its slash."""
        values = {**self.config.get("defaults", {}), **self.config.get("overrides", {})}
        return f"{values['prefix']}/" if values.get("prefix") else ""

    @property
    def keys(self) -> bool:
        """Whether it honours ``Idempotency-Key``."""
        return self.config.get("idempotency-key-lifetime") is not None


def elsewhere(status: int, text: str) -> str | None:
    """What stands at an address in place of a catalog, if its answer shows that."""
    if text == PLAIN_HTTP:
        return text
    error = s3_error(text)
    return error and f"{status}, an answer of S3 ({error}): this is the store's address, not the catalog's"


def _remedy(answer: Exchange) -> str:
    if answer.status in (401, 403):
        return "are the credentials right, and do they permit this?"
    if answer.status >= 500:
        return "is the server up behind this address? see its own log"
    up = "" if answer.status else "is it up, and "
    return f"{up}is this the address of a REST catalog, before /v1?"


class Kit:
    """One try of one requirement on one server. Use in ``with``, which drops what it made.

    Attributes:
        seen: all that was sent and answered.
        rounds: of a race.
        now: a clock, in seconds.
    """

    def __init__(
        self,
        server: ServerDescription,
        name: str,
        *,
        rounds: int = ROUNDS,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.server = server
        self.rounds = rounds
        self.now = now
        self.seen = Exchanges()
        self._lock = threading.Lock()
        self.send = server.client(self._heard)
        self._quiet = server.client(self._placed)
        self._name = f"iq_{name.replace('-', '_')}_{uuid.uuid4().hex[:8]}"
        self._namespaces: list[str] = []
        self._ids = itertools.count(time.time_ns() // 1000 * 1000)

    def _heard(self, exchange: Exchange) -> None:
        with self._lock:
            self.seen.exchanges.append(exchange)
        self._placed(exchange)

    def _placed(self, exchange: Exchange) -> None:
        if exchange.method == "POST" and (place := exchange.metadata.get("location")):
            self.server.places.add(str(place))

    def __enter__(self) -> Kit:
        return self

    def __exit__(self, *_: object) -> None:
        for namespace in self._namespaces:
            with contextlib.suppress(NotApplicable):  # a catalog that cannot remove what it made
                self._clean(namespace)

    def _clean(self, namespace: str) -> None:
        for kind in ("tables", "views"):
            listed = self._quiet("clean", "GET", f"{rest.namespace_path(namespace)}/{kind}")
            for identifier in (listed.body or {}).get("identifiers", []) if listed.ok else ():
                path = f"{rest.namespace_path(namespace)}/{kind}/{identifier['name']}"
                self._quiet("clean", "DELETE", path, query={"purgeRequested": "true"} if kind == "tables" else None)
        self._quiet("clean", "DELETE", rest.namespace_path(namespace))

    # --- what is there --------------------------------------------------------------------------------------------------

    def namespace(self) -> str:
        """A new namespace, which goes at the end with all in it. Raises SetUpError."""
        name = self.names()
        self._made(self._quiet("set-up", "POST", "namespaces", {"namespace": [name], "properties": {}}), name)
        return name

    def names(self) -> str:
        """The name of a namespace that is not there; it goes at the end if somebody makes it."""
        name = f"{self._name}_{len(self._namespaces)}"
        self._namespaces.append(name)
        return name

    def table(self, namespace: str | None = None, name: str = "t", **fields: Any) -> KitTable:
        """A new empty table of format version 2. Raises SetUpError."""
        within = self.namespace() if namespace is None else namespace
        body = {**NEW_TABLE, "name": name, "properties": {"format-version": "2"}, **fields}
        found = self._quiet("set-up", "POST", f"{rest.namespace_path(within)}/tables", body)
        self._made(found, f"{within}.{name}")
        return KitTable(self, within, name, found.metadata)

    def _made(self, found: Exchange, what: str) -> None:
        if not found.ok:
            raise SetUpError(f"{what} cannot be created: {found.words()}")

    def asked(
        self, label: str, path: str, query: Mapping[str, object] | None = None, headers: Mapping[str, str] | None = None
    ) -> Exchange:
        """A GET, whose last answer is seen; one that says nothing is asked for again."""
        for left in reversed(range(LOADS)):
            found: Exchange = self._quiet(label, "GET", path, query=query, headers=headers)
            if found.status not in NO_ANSWER or not left:
                break
            time.sleep(LOAD_AGAIN_S)
        self._heard(found)
        return found

    def note(self, **values: Any) -> None:
        """Add to what was seen."""
        self.seen.notes.update(values)

    def new_id(self) -> int:
        """The id of a snapshot that nobody has."""
        return next(self._ids)

    @property
    def control(self) -> ServerControl:
        """The server's. Raises NotApplicable: icequake does not run it."""
        if self.server.control is None:
            raise NotApplicable(Absent.NOT_OURS)
        return self.server.control

    def file(self, label: str, location: str) -> None:
        """Whether a file is in the store, as an exchange. Raises NotApplicable: icequake does not run the server."""
        self._heard(Exchange(label, "HEAD", location, None, 200 if self.control.has(location) else 404))

    @contextlib.contextmanager
    def held(self, act: Callable[[], object], verb: str | None = None, **fields: str) -> Iterator[None]:
        """Do ``act``; the block runs while its commit stands before the database, or after it where a fault strikes the reply.

        Args:
            verb, fields: as in :meth:`harness.certify.control.ServerControl.held`.

        Raises:
            NotApplicable: icequake does not run the server, or does not know its commits to its database.
        """
        with self.control.held(verb, **fields) as held, ThreadPoolExecutor(1) as pool:
            acting = pool.submit(act)
            try:
                while not held.reached.wait(0.05):
                    if acting.done():
                        raise NotApplicable(Absent.NO_DATABASE)
                yield
            finally:
                held.release()
            acting.result()

    @contextlib.contextmanager
    def twin(self) -> Iterator[Callable[..., Exchange]]:
        """What sends requests to another server on the same database. Raises NotApplicable: icequake does not run the server."""
        with self.control.twin() as address:
            other = urlsplit(self.server.uri)._replace(netloc=address).geturl()
            yield replace(self.server, uri=other).client(self._heard)

    @contextlib.contextmanager
    def late(self, table: KitTable, label: str, *parts: Mapping[str, Any]) -> Iterator[None]:
        """Begin to send a commit; the block runs before its last byte arrives."""
        body = rest.LateBody()
        with ThreadPoolExecutor(1) as pool:
            sending = pool.submit(self.send, label, "POST", table.path, rest.commit(*parts), late=body)
            try:
                while not body.begun.wait(0.05) and not sending.done():
                    pass
                for _ in range(
                    2
                ):  # it was sent, and not yet read: a server that answers these has had time to begin it
                    self._quiet(label, "GET", table.path)
                yield
            finally:
                body.arrive()

    # --- at once --------------------------------------------------------------------------------------------------------

    def turns(self, most: int) -> Iterator[int]:
        """The numbers of so many rounds; behind ``rounds`` of them none begins that is later than ``LONGEST_RACE_S`` after the first."""
        began = self.now()
        for n in range(most):
            if n >= self.rounds and self.now() - began > LONGEST_RACE_S:
                return
            yield n

    def race(self, *acts: Callable[[], R]) -> list[R]:
        """Do these at one moment, each in a thread of its own; return what they return."""
        barrier = threading.Barrier(len(acts))

        def act(call: Callable[[], R]) -> R:
            barrier.wait(rest.TIMEOUT_S)
            return call()

        with ThreadPoolExecutor(len(acts)) as pool:
            return list(pool.map(act, acts))


@dataclass
class KitTable:
    """A table that the kit made.

    Attributes:
        created: its metadata in the answer to its creation.
    """

    kit: Kit
    namespace: str
    name: str
    created: Mapping[str, Any]

    @property
    def path(self) -> str:
        """Its address."""
        return rest.table_path(self.namespace, self.name)

    @property
    def uuid(self) -> str:
        """Its identity."""
        return str(self.created.get("table-uuid", ""))

    def commit(self, label: str, *parts: Mapping[str, Any], headers: Mapping[str, str] | None = None) -> Exchange:
        """Send requirements and updates (:func:`harness.certify.rest.commit`)."""
        return self.kit.send(label, "POST", self.path, rest.commit(*parts), headers=headers)

    def change(self, *parts: Mapping[str, Any]) -> dict[str, Any]:
        """Its part of a transaction."""
        return {"identifier": rest.identifier(self.namespace, self.name), **rest.commit(*parts)}

    def load(self, label: str, **headers: str) -> Exchange:
        """Ask for its metadata with all snapshots; again, if it is told to come later or gets no answer, which says nothing of the table."""
        given = {k.replace("_", "-"): v for k, v in headers.items()}
        return self.kit.asked(label, self.path, {"snapshots": "all"}, given)

    def tip(self, label: str) -> tuple[int | None, int]:
        """Load it; the current snapshot, and the next sequence number."""
        now = self.load(label).metadata
        current = now.get("current-snapshot-id")
        return None if current == NO_SNAPSHOT else current, now.get("last-sequence-number", 0) + 1

    def snapshot(self, parent: int | None = None, sequence: int = 1) -> dict[str, Any]:
        """A snapshot that adds nothing. Its manifest list does not exist: a server does not read it when it commits."""
        made = self.kit.new_id()
        found = {
            "snapshot-id": made,
            "sequence-number": sequence,
            "timestamp-ms": time.time_ns() // 1_000_000,
            "manifest-list": f"{self.created.get('location', '')}/metadata/snap-{made}-1-icequake.avro",
            "summary": {"operation": "append"},
            "schema-id": 0,
        }
        return found if parent is None else {**found, "parent-snapshot-id": parent}

    def append(self, label: str, parent: int | None = None, sequence: int = 1) -> tuple[int, Exchange]:
        """A commit on a base, as an engine's append is; returns the id of its snapshot, too."""
        made = self.snapshot(parent, sequence)
        return made["snapshot-id"], self.commit(label, *rest.append(made, parent))

    def grown(self, count: int) -> list[int]:
        """Append so many times, one after the other; the ids of the snapshots. Raises SetUpError."""
        ids: list[int] = []
        for n in range(count):
            made, found = self.append(f"set-up:{n}", ids[-1] if ids else None, n + 1)
            self.kit._made(found, f"a snapshot of {self.namespace}.{self.name}")
            ids.append(made)
        return ids
