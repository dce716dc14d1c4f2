"""A REST catalog in this process that keeps what the specification and Iceberg's clients ask for, and that a test can break in one place.

It keeps versions of metadata and no files: whoever certifies it never asks the store. One lock makes each request atomic, and a mutant can
open it in the middle (:meth:`Catalog.gap`).
"""

from __future__ import annotations

import copy
import hashlib
import json
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from harness.certify.kit import ServerDescription

Json = dict[str, Any]

ENDPOINTS = (
    "GET /v1/{prefix}/namespaces",
    "POST /v1/{prefix}/namespaces",
    "GET /v1/{prefix}/namespaces/{namespace}",
    "DELETE /v1/{prefix}/namespaces/{namespace}",
    "POST /v1/{prefix}/namespaces/{namespace}/properties",
    "GET /v1/{prefix}/namespaces/{namespace}/tables",
    "POST /v1/{prefix}/namespaces/{namespace}/tables",
    "GET /v1/{prefix}/namespaces/{namespace}/tables/{table}",
    "POST /v1/{prefix}/namespaces/{namespace}/tables/{table}",
    "DELETE /v1/{prefix}/namespaces/{namespace}/tables/{table}",
    "GET /v1/{prefix}/namespaces/{namespace}/tables/{table}/credentials",
    "POST /v1/{prefix}/namespaces/{namespace}/tables/{table}/plan",
    "GET /v1/{prefix}/namespaces/{namespace}/tables/{table}/plan/{plan-id}",
    "POST /v1/{prefix}/namespaces/{namespace}/register",
    "POST /v1/{prefix}/tables/rename",
    "POST /v1/{prefix}/transactions/commit",
    "GET /v1/{prefix}/namespaces/{namespace}/views",
    "POST /v1/{prefix}/namespaces/{namespace}/views",
    "GET /v1/{prefix}/namespaces/{namespace}/views/{view}",
    "POST /v1/{prefix}/namespaces/{namespace}/views/{view}",
    "DELETE /v1/{prefix}/namespaces/{namespace}/views/{view}",
)


HALT_S = 20.0
"""After it a halt gives way, so that a test ends that forgot to release it."""
GAP_S = 0.1
"""How long the last of some rivals waits for another one."""


class Refused(Exception):
    """An answer that is an error."""

    def __init__(self, status: int, kind: str, message: str) -> None:
        super().__init__(message)
        self.status, self.kind = status, kind


def conflict(message: str) -> Refused:
    return Refused(409, "CommitFailedException", message)


def bad(message: str) -> Refused:
    return Refused(400, "BadRequestException", message)


class Dead(Exception):
    """The server was killed: there is no answer."""


class Halt:
    """Where a commit stands that a test holds before the database, or after it where a fault strikes the reply."""

    def __init__(self, catalog: Catalog, verb: str | None) -> None:
        self.verb = verb
        self.reached = threading.Event()
        self.released = False
        self._catalog = catalog

    def release(self) -> None:
        with self._catalog.changed_here:
            self.released = True
            self._catalog.changed_here.notify_all()


@dataclass
class Reply:
    status: int
    body: Json | str | None = None
    headers: dict[str, str] = field(default_factory=dict)


class Catalog:
    """What the server keeps. A mutant overrides one method.

    Attributes:
        tables, views: (namespace, name) → metadata. ``files``: location → metadata.
        keys: idempotency key → what was asked with it, and its answer.
    """

    page = 7
    token: str | None = None

    def __init__(self) -> None:
        self.changed_here = threading.Condition()
        self.passed = self.waiting = 0
        self.namespaces: dict[str, dict[str, str]] = {}
        self.tables: dict[tuple[str, str], Json] = {}
        self.views: dict[tuple[str, str], Json] = {}
        self.where: dict[tuple[str, str], str] = {}
        self.files: dict[str, Json] = {}
        self.keys: dict[str, tuple[Any, Reply]] = {}
        self.halts: list[Halt] = []
        self.dead = False
        self.scans: dict[str, list[str]] = {}
        self.under_way: set[str] = set()

    # --- requests -------------------------------------------------------------------------------------------------------

    def answer(self, method: str, path: str, query: dict[str, str], headers: dict[str, str], data: bytes) -> Reply:
        """One request, which is atomic."""
        with self.changed_here:
            if self.dead:
                raise Dead
            return self.answered(method, path, query, headers, data)

    def begins(self, method: str) -> None:
        """The head of a request has come, and its body may be late."""

    def answered(self, method: str, path: str, query: dict[str, str], headers: dict[str, str], data: bytes) -> Reply:
        try:
            body = json.loads(data) if data else None
        except ValueError:
            return self.error(bad("the body is no JSON"))
        try:
            if self.token is not None and headers.get("authorization") != f"Bearer {self.token}":
                return self.denied(method, path, query, {**headers, "authorization": f"Bearer {self.token}"}, data)
            act = partial(self.route, method, path, query, headers, body)
            return self.with_key(headers.get("idempotency-key"), (method, path, data), act)
        except Refused as e:
            return self.error(e)
        except (KeyError, TypeError) as e:
            return self.error(bad(f"the body lacks {e}"))

    def denied(self, method: str, path: str, query: dict[str, str], headers: dict[str, str], data: bytes) -> Reply:
        """The answer to a request without the token; ``headers`` have it."""
        raise Refused(401, "NotAuthorizedException", "the token is not valid")

    def gap(self) -> bool:
        """Let others in, as a server does that checks and writes in two steps, until one comes as far, or for a moment; whether one did."""
        self.passed += 1
        mine = self.passed
        self.changed_here.notify_all()
        alone = self.waiting == 0
        self.waiting += 1
        came = self.changed_here.wait_for(lambda: self.passed > mine, GAP_S)
        self.waiting -= 1
        return came or not alone

    def error(self, e: Refused) -> Reply:
        return Reply(e.status, {"error": {"message": str(e), "type": e.kind, "code": e.status}})

    def with_key(self, key: str | None, asked: Any, act: Callable[[], Reply]) -> Reply:
        if key is None:
            return act()
        if key in self.under_way:
            self.repeated(key)
        if key in self.keys:
            before, reply = self.keys[key]
            if before != asked:
                raise Refused(422, "UnprocessableEntityException", "the key was used for another request")
            return reply
        self.under_way.add(key)
        try:
            reply = act()
        except Refused as e:
            reply = self.error(e)
        finally:
            self.under_way.discard(key)
            self.changed_here.notify_all()
        if self.keeps(reply):
            self.keys[key] = (asked, reply)
        return reply

    def repeated(self, key: str) -> None:
        """A request comes again while the first one is under way."""
        self.changed_here.wait_for(lambda: key not in self.under_way, HALT_S)

    def keeps(self, reply: Reply) -> bool:
        """Whether a key's answer is kept."""
        return reply.status < 500

    def config(self) -> Json:
        return {"defaults": {}, "overrides": {}, "endpoints": list(ENDPOINTS), "idempotency-key-lifetime": "PT30M"}

    def route(self, method: str, path: str, query: dict[str, str], headers: dict[str, str], body: Any) -> Reply:
        parts = [unquote(p) for p in path.strip("/").split("/")][1:]
        match method, parts:
            case "GET", ["config"]:
                return Reply(200, self.config())
            case "GET", ["namespaces"]:
                return Reply(200, {"namespaces": [[n] for n in self.namespaces]})
            case "POST", ["namespaces"]:
                return self.create_namespace(body["namespace"][0], body.get("properties", {}))
            case "GET", ["namespaces", space]:
                return Reply(200, {"namespace": [space], "properties": self.there(space)})
            case "DELETE", ["namespaces", space]:
                return self.drop_namespace(space)
            case "POST", ["namespaces", space, "properties"]:
                return self.update_properties(space, body)
            case "GET", ["namespaces", space, "tables"]:
                return self.listed(space, self.tables, query)
            case "POST", ["namespaces", space, "tables"]:
                return self.create_table(space, body)
            case "POST", ["namespaces", space, "register"]:
                return self.register(space, body["name"], body["metadata-location"], body.get("overwrite", False))
            case "GET", ["namespaces", space, "tables", name]:
                return self.load((space, name), headers)
            case "POST", ["namespaces", space, "tables", name]:
                return self.commit((space, name), body)
            case "DELETE", ["namespaces", space, "tables", name]:
                return self.drop((space, name), query.get("purgeRequested") == "true")
            case "GET", ["namespaces", space, "tables", name, "credentials"]:
                return self.credentials((space, name))
            case "POST", ["namespaces", space, "tables", name, "plan"]:
                return self.plan((space, name), body["snapshot-id"])
            case "GET", ["namespaces", _, "tables", _, "plan", plan]:
                return self.planned(plan)
            case "POST", ["tables", "rename"]:
                return self.rename(key_of(body["source"]), key_of(body["destination"]))
            case "POST", ["transactions", "commit"]:
                return self.transact(body["table-changes"])
            case "GET", ["namespaces", space, "views"]:
                return self.listed(space, self.views, query)
            case "POST", ["namespaces", space, "views"]:
                return self.create_view(space, body)
            case "GET", ["namespaces", space, "views", name]:
                return Reply(200, {"metadata": self.view((space, name)), "metadata-location": "view"})
            case "POST", ["namespaces", space, "views", name]:
                return self.replace_view((space, name), body)
            case "DELETE", ["namespaces", space, "views", name]:
                self.view((space, name))
                del self.views[space, name]
                return Reply(204)
        raise Refused(404, "", "no such route")

    # --- namespaces -----------------------------------------------------------------------------------------------------

    def there(self, space: str) -> dict[str, str]:
        if space not in self.namespaces:
            raise Refused(404, "NoSuchNamespaceException", f"no namespace {space}")
        return self.namespaces[space]

    def create_namespace(self, space: str, values: dict[str, str]) -> Reply:
        if space in self.namespaces:
            raise Refused(409, "AlreadyExistsException", space)
        self.namespaces[space] = dict(values)
        return Reply(200, {"namespace": [space], "properties": values})

    def drop_namespace(self, space: str) -> Reply:
        self.there(space)
        if any(s == space for s, _ in [*self.tables, *self.views]):
            raise Refused(409, "NamespaceNotEmptyException", space)
        del self.namespaces[space]
        return Reply(204)

    def update_properties(self, space: str, body: Json) -> Reply:
        self.there(space).update(body.get("updates", {}))
        return Reply(200, {"updated": list(body.get("updates", {})), "removed": [], "missing": []})

    def listed(self, space: str, kept: dict[tuple[str, str], Json], query: dict[str, str]) -> Reply:
        self.there(space)
        names = sorted(n for s, n in kept if s == space)
        found: Json = {}
        if "pageToken" in query:
            names, rest_of = self.page_of(names, query["pageToken"], int(query.get("pageSize", self.page)))
            found["next-page-token"] = rest_of
        return Reply(200, {"identifiers": [{"namespace": [space], "name": n} for n in names], **found})

    def page_of(self, names: list[str], token: str, size: int) -> tuple[list[str], str | None]:
        """A token is the last name before it: what is dropped does not move it."""
        left = [n for n in names if n > token]
        return left[:size], left[size - 1] if len(left) > size else None

    # --- tables ---------------------------------------------------------------------------------------------------------

    def table(self, key: tuple[str, str]) -> Json:
        if key not in self.tables:
            raise Refused(404, "NoSuchTableException", ".".join(key))
        return self.tables[key]

    def free(self, key: tuple[str, str]) -> None:
        self.there(key[0])
        if key in self.tables or key in self.views:
            raise Refused(409, "AlreadyExistsException", ".".join(key))

    def put(self, key: tuple[str, str], metadata: Json) -> None:
        """A new version."""
        place = f"{metadata['location']}/metadata/{uuid.uuid4()}.metadata.json"
        if key in self.where:
            metadata["metadata-log"] = [
                *metadata["metadata-log"],
                {"metadata-file": self.where[key], "timestamp-ms": metadata["last-updated-ms"]},
            ]
        metadata["last-updated-ms"] = now()
        self.tables[key], self.where[key] = metadata, place
        self.files[place] = copy.deepcopy(metadata)

    def result(self, key: tuple[str, str]) -> Reply:
        tag = hashlib.sha256(self.where[key].encode()).hexdigest()
        body = {"metadata-location": self.where[key], "metadata": copy.deepcopy(self.tables[key]), "config": {}}
        return Reply(200, body, {"ETag": tag})

    def new_table(self, space: str, body: Json) -> Json:
        place = f"s3://reference/{space}/{body['name']}-{uuid.uuid4().hex[:8]}"
        schema = {**body["schema"], "schema-id": 0}
        return {
            "format-version": 2,
            "table-uuid": str(uuid.uuid4()),
            "location": place,
            "last-sequence-number": 0,
            "last-updated-ms": now(),
            "last-column-id": max((f["id"] for f in schema["fields"]), default=0),
            "current-schema-id": 0,
            "schemas": [schema],
            "default-spec-id": 0,
            "partition-specs": [{"spec-id": 0, "fields": []}],
            "last-partition-id": 999,
            "default-sort-order-id": 0,
            "sort-orders": [{"order-id": 0, "fields": []}],
            "properties": dict(body.get("properties", {})),
            "current-snapshot-id": -1,  # as Iceberg writes it
            "refs": {},
            "snapshots": [],
            "snapshot-log": [],
            "metadata-log": [],
        }

    def create_table(self, space: str, body: Json) -> Reply:
        key = (space, body["name"])
        self.free(key)
        metadata = self.new_table(space, body)
        if body.get("stage-create"):
            return Reply(200, {"metadata": metadata, "config": {}})
        self.put(key, metadata)
        return self.result(key)

    def load(self, key: tuple[str, str], headers: dict[str, str]) -> Reply:
        self.table(key)
        found = self.result(key)
        if headers.get("if-none-match") == found.headers["ETag"]:
            return Reply(304, None, found.headers)
        return found

    def credentials(self, key: tuple[str, str]) -> Reply:
        config = {"s3.session-token": "t", "s3.session-token-expires-at-ms": str(now() + 60_000)}
        return Reply(200, {"storage-credentials": [{"prefix": str(self.table(key)["location"]), "config": config}]})

    def plan(self, key: tuple[str, str], snapshot: int) -> Reply:
        found = [s for s in self.table(key)["snapshots"] if s["snapshot-id"] == snapshot]
        if not found:
            raise Refused(404, "NotFoundException", f"there is no snapshot {snapshot}")
        tasks = [{"data-file": {"file-path": f}} for f in self.scans[found[0]["manifest-list"]]]
        return Reply(200, {"status": "completed", "file-scan-tasks": tasks})

    def planned(self, plan: str) -> Reply:
        raise Refused(404, "NoSuchPlanIdException", plan)

    def drop(self, key: tuple[str, str], purge: bool) -> Reply:
        self.table(key)
        if purge:
            for place in [p for p, m in self.files.items() if m["table-uuid"] == self.tables[key]["table-uuid"]]:
                del self.files[place]
        del self.tables[key], self.where[key]
        return Reply(204)

    def register(self, space: str, name: str, place: str, overwrite: bool) -> Reply:
        self.there(space)
        if not overwrite:
            self.free((space, name))
        if place not in self.files:
            raise bad(f"there is no {place}")
        self.tables[space, name], self.where[space, name] = copy.deepcopy(self.files[place]), place
        return self.result((space, name))

    def rename(self, old: tuple[str, str], new: tuple[str, str]) -> Reply:
        self.table(old)
        self.free(new)
        self.tables[new], self.where[new] = self.tables.pop(old), self.where.pop(old)
        return Reply(204)

    # --- commits --------------------------------------------------------------------------------------------------------

    def commit(self, key: tuple[str, str], body: Json) -> Reply:
        halt = self.halts.pop(0) if self.halts else None
        metadata = self.changed(key, body)
        if halt is not None and halt.verb == "reject":
            self.halted(halt)
            raise Refused(500, "InternalServerError", "the database made nothing of it")
        if halt is not None and halt.verb is None:
            self.halted(halt)
            metadata = self.checked(key, body, metadata)
        self.put(key, metadata)
        if halt is not None and halt.verb is not None:
            self.halted(halt)
            return self.unknown(key)
        return self.result(key)

    def halted(self, halt: Halt) -> None:
        """Wait, and let others in."""
        halt.reached.set()
        self.changed_here.wait_for(lambda: halt.released, HALT_S)
        if self.dead:
            raise Dead

    def checked(self, key: tuple[str, str], body: Json, metadata: Json) -> Json:
        """What replaces a table's metadata, which may be another one since ``metadata`` was made."""
        return self.changed(key, body)

    def unknown(self, key: tuple[str, str]) -> Reply:
        """The answer where the database's reply does not come."""
        raise Refused(500, "CommitStateUnknownException", ".".join(key))

    def start(self) -> None:
        """What a server does that starts with what its database has."""

    def twin(self) -> Catalog:
        """Another server on the same database."""
        return self

    def transact(self, changes: list[Json]) -> Reply:
        made = self.transacted(changes)
        if self.halts:
            self.halted(self.halts.pop(0))
            made = self.transacted(changes)
        for key, metadata in made.items():
            self.put(key, metadata)
        return Reply(204)

    def transacted(self, changes: list[Json]) -> dict[tuple[str, str], Json]:
        """The next version of each table, if all requirements hold."""
        made: dict[tuple[str, str], Json] = {}
        for change in changes:
            key = key_of(change["identifier"])
            if key in made:
                raise bad(f"{key[1]} is named twice")
            made[key] = self.changed(key, change)
        return made

    def changed(self, key: tuple[str, str], body: Json) -> Json:
        """The next version, if all requirements hold."""
        creates = any(r["type"] == "assert-create" for r in body["requirements"])
        if creates and key not in self.tables:
            self.free(key)
            metadata = self.new_table(key[0], {"name": key[1], "schema": {"type": "struct", "fields": []}})
            metadata["schemas"] = []
        else:
            metadata = copy.deepcopy(self.table(key))
        for requirement in body["requirements"]:
            self.require(metadata, requirement, key in self.tables)
        for update in body["updates"]:
            self.update(metadata, update)
        return metadata

    def require(self, m: Json, r: Json, exists: bool) -> None:
        kind = r["type"]
        plain = {
            "assert-last-assigned-field-id": ("last-column-id", "last-assigned-field-id"),
            "assert-current-schema-id": ("current-schema-id", "current-schema-id"),
            "assert-last-assigned-partition-id": ("last-partition-id", "last-assigned-partition-id"),
            "assert-default-spec-id": ("default-spec-id", "default-spec-id"),
            "assert-default-sort-order-id": ("default-sort-order-id", "default-sort-order-id"),
            "assert-table-uuid": ("table-uuid", "uuid"),
        }
        if kind == "assert-create":
            holds = not exists
        elif kind == "assert-ref-snapshot-id":
            holds = m["refs"].get(r["ref"], {}).get("snapshot-id") == r["snapshot-id"]
        elif kind in plain:
            mine, theirs = plain[kind]
            holds = m[mine] == r[theirs]
        else:
            raise bad(f"the requirement {kind} is not known")
        if not holds:
            raise conflict(f"{kind} does not hold")

    def update(self, m: Json, u: Json) -> None:
        match u["action"]:
            case "set-properties":
                m["properties"].update(u["updates"])
            case "assign-uuid":
                m["table-uuid"] = u["uuid"]
            case "set-location":
                m["location"] = u["location"]
            case (
                "upgrade-format-version" | "add-spec" | "set-default-spec" | "add-sort-order" | "set-default-sort-order"
            ):
                pass  # what staged tables of the kit say: the default
            case "add-schema":
                m["schemas"].append({**u["schema"], "schema-id": len(m["schemas"])})
                m["last-column-id"] = max(m["last-column-id"], *(f["id"] for f in u["schema"]["fields"]))
            case "set-current-schema":
                m["current-schema-id"] = len(m["schemas"]) - 1 if u["schema-id"] == -1 else u["schema-id"]
            case "add-snapshot":
                self.add_snapshot(m, u["snapshot"])
            case "set-snapshot-ref":
                self.set_ref(m, u["ref-name"], u["type"], u["snapshot-id"])
            case "remove-snapshots":
                self.remove_snapshots(m, u["snapshot-ids"])
            case action:
                raise bad(f"the update {action} is not known")

    def add_snapshot(self, m: Json, snapshot: Json) -> None:
        if snapshot["sequence-number"] <= m["last-sequence-number"]:
            raise conflict("its sequence number is behind the table's")
        m["snapshots"] = [*m["snapshots"], snapshot]
        m["last-sequence-number"] = snapshot["sequence-number"]

    def set_ref(self, m: Json, ref: str, kind: str, snapshot: int) -> None:
        if all(s["snapshot-id"] != snapshot for s in m["snapshots"]):
            raise bad(f"there is no snapshot {snapshot}")
        m["refs"] = {**m["refs"], ref: {"snapshot-id": snapshot, "type": kind}}
        if ref == "main":
            m["current-snapshot-id"] = snapshot
            m["snapshot-log"] = [*m["snapshot-log"], {"snapshot-id": snapshot, "timestamp-ms": now()}]

    def remove_snapshots(self, m: Json, ids: list[int]) -> None:
        if {r["snapshot-id"] for r in m["refs"].values()} & {*ids}:
            raise conflict("a branch or a tag needs the snapshot")
        m["snapshots"] = [s for s in m["snapshots"] if s["snapshot-id"] not in ids]

    # --- views ----------------------------------------------------------------------------------------------------------

    def view(self, key: tuple[str, str]) -> Json:
        if key not in self.views:
            raise Refused(404, "NoSuchViewException", ".".join(key))
        return self.views[key]

    def create_view(self, space: str, body: Json) -> Reply:
        key = (space, body["name"])
        self.free(key)
        self.views[key] = {"view-uuid": str(uuid.uuid4()), "versions": [body["view-version"]]}
        return Reply(200, {"metadata": self.views[key], "metadata-location": "view"})

    def replace_view(self, key: tuple[str, str], body: Json) -> Reply:
        view = self.view(key)
        if any(r["uuid"] != view["view-uuid"] for r in body["requirements"]):
            raise conflict("another view")
        added = [u["view-version"] for u in body["updates"] if u["action"] == "add-view-version"]
        view["versions"] = [*view["versions"], *added]
        return Reply(200, {"metadata": view, "metadata-location": "view"})


class CatalogControl:
    """A catalog's server, database and store, for whoever certifies it (``harness.certify.control.ServerControl``)."""

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog

    @contextmanager
    def held(self, verb: str | None = None, **fields: str) -> Iterator[Halt]:
        self.catalog.halts.append(halt := Halt(self.catalog, verb))
        try:
            yield halt
        finally:
            halt.release()
            self.catalog.halts.clear()

    def kill(self) -> None:
        self.catalog.dead = True

    def start(self) -> None:
        self.catalog.start()
        self.catalog.dead = False

    @contextmanager
    def twin(self) -> Iterator[str]:
        with serving(self.catalog.twin()) as uri:
            yield uri.removeprefix("http://")

    def has(self, location: str) -> bool:
        return location in self.catalog.files

    def write_scan(self, schema: Mapping[str, Any], snapshot: Mapping[str, Any], files: Iterable[str]) -> None:
        self.catalog.scans[snapshot["manifest-list"]] = [*files]


def key_of(identifier: Json) -> tuple[str, str]:
    return identifier["namespace"][0], identifier["name"]


def now() -> int:
    return time.time_ns() // 1_000_000


@contextmanager
def described(catalog: Catalog) -> Iterator[ServerDescription]:
    """A server of this catalog that icequake runs."""
    with serving(catalog) as uri:
        catalog.token = "right"
        server = ServerDescription.reached(uri, {"Authorization": f"Bearer {catalog.token}"})
        server.control = CatalogControl(catalog)
        yield server


@contextmanager
def serving(catalog: Catalog) -> Iterator[str]:
    """The address of a server of this catalog."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1  # one packet for an answer: two of them would wait for the client's delayed acknowledgement
        disable_nagle_algorithm = True

        def handle_one(self) -> None:
            url = urlsplit(self.path)
            query = {k: v[0] for k, v in parse_qs(url.query, keep_blank_values=True).items()}
            catalog.begins(self.command)
            data = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            headers = {k.lower(): v for k, v in self.headers.items()}
            try:
                reply = catalog.answer(self.command, url.path, query, headers, data)
            except Dead:
                self.close_connection = True
                return
            body = (
                b""
                if reply.body is None
                else (reply.body if isinstance(reply.body, str) else json.dumps(reply.body)).encode()
            )
            self.send_response(reply.status)
            for name, value in {
                **reply.headers,
                "Content-Type": "application/json",
                "Content-Length": str(len(body)),
            }.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)
            self.wfile.flush()

        do_GET = do_POST = do_DELETE = do_HEAD = handle_one

        def log_message(self, *_: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 128

    with Server(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
