"""HTTP/1.1 as the proxies see it: Iceberg REST catalogs, Nessie's own API, and S3.

Framing is RFC 9112's: the head up to the empty line, then a body by Content-Length, by chunks, or up to the end of the connection. What
requests mean is in the REST catalog specification (``open-api/rest-catalog-open-api.yaml``) and in S3's.
"""

from __future__ import annotations

import abc
import json
import re
import zlib
from collections.abc import AsyncIterator, Callable, Mapping
from http import HTTPStatus
from typing import Any
from urllib.parse import unquote

from nemesis.faults.fields import FaultFields, RequestKind
from nemesis.operation_key import OPERATION_KEY
from nemesis.wires.pipe import LONGEST_HEAD, Pipe
from nemesis.wires.wire import Message, NotSpoken, Reply, Request, TableChange, Wire

END = b"\r\n\r\n"
SAMPLE = 64 * 1024
"""Bytes of an answer that are kept to look for the metadata's location, which stands at its beginning."""
LONGEST_COMMIT = 16 * 1024 * 1024
"""Largest compressed commit, in bytes, that the proxy unpacks to read it."""
_LOCATION = re.compile(rb'"metadata-location"\s*:\s*"((?:[^"\\]|\\.)*)"')
_METADATA_VERSION = re.compile(r"/metadata/(?:v\d+|[^/]+)\.metadata\.json$")
_NUMBERED_VERSION = re.compile(r"/metadata/v\d+(?:\.gz)?\.metadata\.json$")
_DELTA_VERSION = re.compile(r"/([^/]+)/_delta_log/\d{20}\.json$")
_USER_METADATA = re.compile(rb'"userMetadata":"([\w-]{1,64})"')
_NAMED_TABLE = re.compile(r"/namespaces/[^/]+/tables/([^/]+)$")


class Head:
    """A start line and its fields: each name in lower case, with all its values in order."""

    def __init__(self, raw: bytes) -> None:
        lines = raw[: -len(END)].split(b"\r\n")
        self.start = lines[0].decode("latin-1").split(" ", 2)
        self.fields: dict[str, list[str]] = {}
        for line in lines[1:]:
            name, colon, value = line.partition(b":")
            if not colon or not name or name != name.strip():  # a folded line, or no field at all
                raise NotSpoken
            self.fields.setdefault(name.decode("latin-1").lower(), []).append(value.strip().decode("latin-1"))

    def get(self, name: str) -> str:
        """The value of a field; empty when there is none."""
        return ", ".join(self.fields.get(name, ()))

    def length(self) -> int | None:
        """The Content-Length; None when there is none. Raises :class:`NotSpoken` if it is not a number."""
        values = {v for line in self.fields.get("content-length", ()) for v in line.split(",")}
        if not values:
            return None
        if len(values) > 1 or not (value := values.pop().strip()).isdecimal():
            raise NotSpoken
        return int(value)

    def persists(self, version: str) -> bool:
        """Whether the connection goes on after this message."""
        options = {option.strip() for option in self.get("connection").lower().split(",")}
        return "close" not in options and (version != "HTTP/1.0" or "keep-alive" in options)

    @property
    def chunked(self) -> bool:
        """Whether the body comes in chunks (the last transfer coding is ``chunked``)."""
        return self.get("transfer-encoding").lower().split(",")[-1].strip() == "chunked"


_TOKEN = rb"[!#$%&'*+.^_`|~0-9A-Za-z-]"
_REQUEST_LINE = re.compile(_TOKEN + rb"+ [^\s]+ HTTP/1\.[01]\r\n")
_REQUEST_LINE_BEGUN = re.compile(_TOKEN + rb"{1,32}(?: [^\s]*(?: [HTP/1.0]{0,8}\r?)?)?\Z")
_STATUS_LINE = re.compile(rb"HTTP/1\.[01] \d\d\d(?: [^\r\n]*)?\r\n")
_STATUS_LINE_BEGUN = b"HTTP/1."
_SIZE = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*(?:;[^\n]*)?\r\n")


async def _head(pipe: Pipe, line: re.Pattern[bytes], begun: Callable[[bytearray], object]) -> bytes:
    """Read the head. Raises NotSpoken as soon as the bytes cannot be one, so nobody waits for more; then nothing is taken."""
    buffer = pipe.buffer
    while (end := buffer.find(END)) < 0:
        if not (line.match(buffer) if b"\n" in buffer else begun(buffer)):
            raise NotSpoken
        if len(buffer) > LONGEST_HEAD or buffer.count(b"\n") != buffer.count(b"\r\n") or not await pipe.more():
            raise NotSpoken
    if not line.match(buffer):
        raise NotSpoken
    return pipe.take(end + len(END))


def _request_begun(buffer: bytearray) -> object:
    return _REQUEST_LINE_BEGUN.match(buffer)


def _reply_begun(buffer: bytearray) -> object:
    begun = bytes(buffer[: len(_STATUS_LINE_BEGUN)])
    return _STATUS_LINE_BEGUN.startswith(begun)


async def _by_length(pipe: Pipe, remaining: int) -> AsyncIterator[bytes]:
    while remaining > 0:
        part = await pipe.some(remaining)
        if not part:
            raise NotSpoken
        remaining -= len(part)
        yield part


async def _by_chunks(pipe: Pipe) -> AsyncIterator[bytes]:
    """Each chunk with its size line, extensions included, then the trailer fields up to the empty line."""
    while True:
        line = await pipe.until(b"\r\n")
        if line is None:
            raise NotSpoken
        yield line
        if (size := _SIZE.fullmatch(line)) is None:
            raise NotSpoken
        if (length := int(size[1], 16)) == 0:
            break
        async for part in _by_length(pipe, length + 2):
            yield part
    while True:
        line = await pipe.until(b"\r\n")
        if line is None:
            raise NotSpoken
        yield line
        if line == b"\r\n":
            return


async def _to_the_end(pipe: Pipe) -> AsyncIterator[bytes]:
    while part := await pipe.some():
        yield part
    if pipe.broken:
        raise NotSpoken


async def _sampled(parts: AsyncIterator[bytes], sample: bytearray) -> AsyncIterator[bytes]:
    async for part in parts:
        if len(sample) < SAMPLE:
            sample += part[: SAMPLE - len(sample)]
        yield part


class Http(Wire):
    """One connection of HTTP/1.1. Subclasses say what requests mean."""

    async def request(self, client: Pipe) -> Request | None:
        while not client.buffer:
            if not await client.more():
                return None
        raw = await _head(client, _REQUEST_LINE, _request_begun)
        try:
            head = Head(raw)
            method, target, version = head.start
            # An offer to upgrade (Apache's HTTP client 5.4 offers TLS with each GET) counts only when the service accepts it.
            if method == "CONNECT":
                raise NotSpoken
            rest, body = None, b""
            length = head.length()
            if "transfer-encoding" in head.fields:
                if not head.chunked or length is not None:
                    raise NotSpoken
                rest = _by_chunks(client)
            elif length:
                rest = _by_length(client, length)
                if length <= len(client.buffer) and not head.get("expect"):
                    rest, body = None, client.take(length)
        except NotSpoken:
            client.buffer[:0] = raw
            raise
        path = target.partition("?")[0]
        kind = self.kind(method, target, head)
        request = Request(kind, f"{method} {path}", Message(raw + body, rest), key=f"{method} {target}")
        request.continues = head.get("expect").lower() == "100-continue" and rest is not None
        request.last = not head.persists(version)
        request.known = head.get("if-none-match")
        if kind == "commit" and not request.continues:
            try:
                self.understand(request, path, await request.message.whole(), len(raw))
            except NotSpoken:
                client.buffer[:0] = request.message.read
                raise
        elif (match := _NAMED_TABLE.search(path.removesuffix("/metrics"))) is not None:
            request.table = unquote(match[1])
        return request

    async def reply(self, server: Pipe, request: Request) -> Reply:
        raw = await _head(server, _STATUS_LINE, _reply_begun)
        try:
            head = Head(raw)
            status = int(head.start[1])
            length = head.length()
            if status == 101:  # another protocol follows
                raise NotSpoken
        except NotSpoken:
            server.buffer[:0] = raw
            raise
        reply = Reply(Message(), ok=200 <= status < 300, status=head.start[1])
        reply.last = status >= 200 and not head.persists(head.start[0])
        rest: AsyncIterator[bytes] | None = None
        if request.what.startswith("HEAD ") or status < 200 or status in (204, 304):
            pass
        elif head.chunked:
            rest = _by_chunks(server)
        elif length is not None and "transfer-encoding" not in head.fields:
            rest = _by_length(server, length) if length else None
        else:
            rest, reply.last = _to_the_end(server), True
        if rest is not None and request.kind in ("load", "commit", "create") and reply.ok:
            rest = self._noting(rest, reply, head)
        reply.message = Message(raw, rest)
        return reply

    async def _noting(self, parts: AsyncIterator[bytes], reply: Reply, head: Head) -> AsyncIterator[bytes]:
        """Pass a body on, and find the metadata file that it names."""
        async for part in _sampled(parts, reply.sample):
            yield part
        text = bytes(reply.sample)
        if head.chunked:
            text = _joined(text)
        if head.get("content-encoding").lower() == "gzip":
            try:
                text = zlib.decompressobj(wbits=31).decompress(text, SAMPLE)
            except zlib.error:
                return
        if match := _LOCATION.search(text):
            reply.location = str(json.loads(b'"' + match[1] + b'"'))

    def error(self, request: Request, fault: FaultFields) -> bytes | None:
        status = int(self.code(fault))
        try:
            reason = HTTPStatus(status).phrase
        except ValueError:
            reason = "Error"
        kind, body = self.error_body(status, reason)
        after = "" if fault.retry_after is None else f"Retry-After: {fault.retry_after}\r\n"
        head = f"HTTP/1.1 {status} {reason}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n{after}\r\n"
        return head.encode("latin-1") + (b"" if request.what.startswith("HEAD ") else body)

    def code(self, fault: FaultFields) -> str:
        return str(fault.status or 503)

    def unchanged(self, request: Request, of: bytes | None = None) -> bytes | None:
        if not request.known or (of is not None and Head(of.partition(END)[0] + END).get("etag") != request.known):
            return None
        return f"HTTP/1.1 304 Not Modified\r\nETag: {request.known}\r\n\r\n".encode("latin-1")

    @abc.abstractmethod
    def error_body(self, status: int, reason: str) -> tuple[str, bytes]:
        """Media type and body of an error, as a service of this kind writes it."""

    @abc.abstractmethod
    def kind(self, method: str, target: str, head: Head) -> RequestKind:
        """What a request asks for."""

    def understand(self, request: Request, path: str, raw: bytes, head_length: int) -> None:
        """Read table, operations, base and new metadata from a commit into the request."""


def _joined(text: bytes) -> bytes:
    """The beginning of a chunked body, without the framing."""
    out, start = bytearray(), 0
    while (end := text.find(b"\r\n", start)) >= 0:
        try:
            size = int(text[start:end].split(b";")[0], 16)
        except ValueError:
            break
        if size == 0:
            break
        out += text[end + 2 : end + 2 + size]
        start = end + 4 + size
    return bytes(out)


def _change(change: Mapping[str, Any], table: str | None, ops: set[object]) -> TableChange:
    """A table's part of a commit; the operations that its snapshots name are added to ``ops``.

    Args:
        table: the table of the request's path; None if the change names it.

    Raises:
        AttributeError, TypeError: it has another form.
    """
    bases = {
        str(r.get("ref")): str(r["snapshot-id"])
        for r in change.get("requirements") or ()
        if r.get("type") == "assert-ref-snapshot-id" and r.get("snapshot-id") is not None
    }
    adds: list[str] = []
    refs: dict[str, str] = {}
    for update in change.get("updates") or ():
        if update.get("action") == "add-snapshot":
            snapshot = update.get("snapshot") or {}
            if snapshot.get("snapshot-id") is not None:
                adds.append(str(snapshot["snapshot-id"]))
            ops.add((snapshot.get("summary") or {}).get(OPERATION_KEY))
        elif update.get("action") == "set-snapshot-ref" and update.get("snapshot-id") is not None:
            refs[str(update.get("ref-name"))] = str(update["snapshot-id"])
    base = bases.get("main") or next(iter(bases.values()), None)
    named = table or (change.get("identifier") or {}).get("name")
    return TableChange(named if isinstance(named, str) else None, base, tuple(adds), refs)


class CatalogHttp(Http):
    """An Iceberg REST catalog, or Nessie's native API."""

    def kind(self, method: str, target: str, head: Head) -> RequestKind:
        path = target.partition("?")[0].rstrip("/")
        if path.endswith("/config"):
            return "config"
        if path.endswith("/metrics"):
            return "metrics"
        if method == "POST" and path.endswith(("/transactions/commit", "/history/commit", "/history/merge")):
            return "commit"
        if _NAMED_TABLE.search(path):
            return {"POST": "commit", "GET": "load", "DELETE": "drop"}.get(method, "other")  # type: ignore[return-value]
        if path.endswith("/tables"):
            return "create" if method == "POST" else "list"
        if path.endswith("/contents") or "/contents/" in path:
            return "load"
        return "other"

    def understand(self, request: Request, path: str, raw: bytes, head_length: int) -> None:
        if match := _NAMED_TABLE.search(path):
            request.table = unquote(match[1])
        body, head = raw[head_length:], raw[:head_length].lower()
        if b"\r\ntransfer-encoding" in head:
            body = _joined(body)
        try:
            if b"\r\ncontent-encoding: gzip" in head:  # Nessie's client
                body = zlib.decompressobj(wbits=31).decompress(body, LONGEST_COMMIT)
            content = json.loads(body)
            ops: set[object] = set()
            changes = content.get("table-changes", [content])
            request.changes = tuple(_change(change, request.table, ops) for change in changes)
            if request.changes:
                first = request.changes[0]
                request.table, request.base, request.new = first.table, first.base, first.new
            request.ops = frozenset(op for op in ops if isinstance(op, str))
            for operation in content.get("operations") or ():  # Nessie's own API
                if operation.get("type") == "PUT" and "metadataLocation" in (operation.get("content") or {}):
                    request.table = operation["key"]["elements"][-1]
                    request.new = operation["content"]["metadataLocation"]
        except (ValueError, AttributeError, TypeError, KeyError, IndexError, zlib.error):
            return  # an unknown body is passed on unread

    def error_body(self, status: int, reason: str) -> tuple[str, bytes]:
        error = {"message": "answered by the nemesis", "type": "NemesisException", "code": status}
        return "application/json", json.dumps({"error": error}).encode()


class StoreHttp(Http):
    """An S3 object store."""

    def kind(self, method: str, target: str, head: Head) -> RequestKind:
        path, _, query = target.partition("?")
        if method in ("GET", "HEAD"):
            return "list" if "list-type=" in query or "prefix=" in query else "read"
        if method in ("PUT", "POST"):
            if method == "POST" and "delete" in query.split("&"):
                return "delete"
            if method == "PUT" and _DELTA_VERSION.search(path):
                return "commit"
            # The Hadoop catalog's rename: S3A's copy, or a write that must not replace anything.
            if method == "PUT" and head.get("x-amz-copy-source") and _METADATA_VERSION.search(path):
                return "commit"
            if method == "PUT" and head.get("if-none-match") and _NUMBERED_VERSION.search(path):
                return "commit"
            return "write"
        return "delete" if method == "DELETE" else "other"

    def understand(self, request: Request, path: str, raw: bytes, head_length: int) -> None:
        """Of a Delta table: its path says which table; ``commitInfo``, the first action, says which operation."""
        if match := _DELTA_VERSION.search(path):
            request.table = unquote(match[1])
            if named := _USER_METADATA.search(raw, head_length):
                request.ops = frozenset((named[1].decode("latin-1"),))

    def error_body(self, status: int, reason: str) -> tuple[str, bytes]:
        codes = {403: "AccessDenied", 503: "SlowDown", 507: "XMinioStorageFull", 500: "InternalError"}
        code = codes.get(status, reason.replace(" ", ""))
        text = f'<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>{code}</Code><Message>by the nemesis</Message></Error>'
        return "application/xml", text.encode()
