"""Thrift's binary protocol over a plain socket, as the Hive Metastore speaks it.

A message has no length: its end is found by walking its fields (Apache Thrift, "Thrift Binary protocol encoding"). The name of the
procedure is in clear: ``alter_table_with_environment_context`` is Iceberg's commit (``hive-metastore/…/HiveTableOperations``).
"""

from __future__ import annotations

import struct

from nemesis.faults.fields import FaultFields, RequestKind
from nemesis.wires.pipe import Gone, Pipe
from nemesis.wires.wire import Message, NotSpoken, Reply, Request, Wire

VERSION_1 = 0x80010000
CALL, REPLY, EXCEPTION, ONEWAY = 1, 2, 3, 4
STOP, STRUCT, MAP, SET, LIST, STRING = 0, 12, 13, 14, 15, 11
_FIXED = {2: 1, 3: 1, 4: 8, 6: 2, 8: 4, 10: 8, 16: 16}
"""Type → its length in bytes: bool, byte, double, i16, i32, i64, uuid."""
DEEPEST = 64
"""Thrift's own bound (``TConfiguration.DEFAULT_RECURSION_DEPTH``)."""
LONGEST = 1 << 28
"""Bytes; more than Thrift lets a message have (``TConfiguration.DEFAULT_MAX_MESSAGE_SIZE``: 100 MB)."""
INTERNAL_ERROR = 6
LOCATION = b"metadata_location"
"""The parameter of a table that holds Iceberg's pointer. ``previous_metadata_location`` holds the one that it replaces."""

_KINDS: tuple[tuple[str, RequestKind], ...] = (
    ("alter_table", "commit"),
    ("create_table", "create"),
    ("drop_table", "drop"),
    ("get_table", "load"),
    ("lock", "lock"),
    ("check_lock", "lock"),
    ("heartbeat", "lock"),
    ("unlock", "unlock"),
)


def classify(procedure: str) -> RequestKind:
    """What a procedure of the metastore does."""
    return next((kind for start, kind in _KINDS if procedure.startswith(start)), "other")


class _ThriftReader:
    """Reads one message. It keeps the bytes as they came, and the strings among the outermost fields."""

    def __init__(self, pipe: Pipe) -> None:
        self._pipe = pipe
        self.raw = bytearray()
        self.fields: dict[int, bytes] = {}
        """Number of an outermost field → its string; empty if the field has another type."""
        self.texts: dict[bytes, bytes] = {}
        """The entries of all maps from string to string, such as the parameters of a table."""

    async def take(self, count: int) -> bytes:
        part = await self._pipe.exactly(count)
        self.raw += part
        return part

    async def number(self) -> int:
        return int(struct.unpack("!i", await self.take(4))[0])

    async def string(self) -> bytes:
        length = await self.number()
        if not 0 <= length <= LONGEST:
            raise NotSpoken
        return await self.take(length)

    async def struct(self, depth: int = 0) -> None:
        while (kind := (await self.take(1))[0]) != STOP:
            (field,) = struct.unpack("!h", await self.take(2))
            value = await self.value(kind, depth + 1)
            if depth == 0:
                self.fields[field] = value

    async def value(self, kind: int, depth: int) -> bytes:
        if depth > DEEPEST:
            raise NotSpoken
        if kind in _FIXED:
            await self.take(_FIXED[kind])
        elif kind == STRING:
            return await self.string()
        elif kind == STRUCT:
            await self.struct(depth)
        elif kind in (LIST, SET):
            (inner,) = await self.take(1)
            count = _count(await self.number())
            if inner in _FIXED:
                await self.take(count * _FIXED[inner])
            else:
                for _ in range(count):
                    await self.value(inner, depth + 1)
        elif kind == MAP:
            key, value = await self.take(2)
            for _ in range(_count(await self.number())):
                name = await self.value(key, depth + 1)
                text = await self.value(value, depth + 1)
                if key == value == STRING and name.endswith(LOCATION):
                    self.texts[name] = text
        else:
            raise NotSpoken
        return b""


def _text(raw: bytes | None) -> str | None:
    return None if raw is None else raw.decode("utf-8", "replace")


def _count(n: int) -> int:
    if not 0 <= n <= LONGEST:
        raise NotSpoken
    return n


class Thrift(Wire):
    """One connection to a Thrift server."""

    session = True

    def __init__(self) -> None:
        self._procedure, self._sequence, self._oneway = b"", 0, False

    async def _message(self, pipe: Pipe) -> tuple[_ThriftReader, int]:
        walk = _ThriftReader(pipe)
        try:
            version = await walk.number()
            if version & 0xFFFF0000 != VERSION_1:
                raise NotSpoken
            self._procedure = await walk.string()
            self._sequence = await walk.number()
            await walk.struct()
        except (NotSpoken, Gone):
            if not walk.raw and not pipe.buffer:
                raise
            pipe.buffer[:0] = walk.raw  # also when the message breaks off: the bytes that came are passed on
            raise NotSpoken from None
        return walk, version & 0xFF

    async def request(self, client: Pipe) -> Request | None:
        while not client.buffer:
            if not await client.more():
                return None
        if client.buffer[0] != VERSION_1 >> 24:
            raise NotSpoken
        walk, kind = await self._message(client)
        self._oneway = kind == ONEWAY
        name = self._procedure.decode("utf-8", "replace")
        request = Request(classify(name), name, Message(bytes(walk.raw)), key=f"{name} {sorted(walk.fields.items())}")
        if request.kind in ("commit", "load"):
            request.table = walk.fields.get(2, b"").decode("utf-8", "replace") or None
        if request.kind == "commit":
            request.new = _text(walk.texts.get(LOCATION))
            request.base = _text(walk.texts.get(b"previous_" + LOCATION))
        return request

    async def reply(self, server: Pipe, request: Request) -> Reply:
        if self._oneway:
            return Reply(Message(), ok=True)
        walk, kind = await self._message(server)
        ok = kind == REPLY and not any(field > 0 for field in walk.fields)
        location = _text(walk.texts.get(LOCATION)) if request.kind == "load" else None
        return Reply(Message(bytes(walk.raw)), ok=ok, status="ok" if ok else "exception", location=location)

    def error(self, request: Request, fault: FaultFields) -> bytes | None:
        message = b"answered by the nemesis"
        body = (
            b"\x0b\x00\x01"
            + struct.pack("!i", len(message))
            + message
            + b"\x08\x00\x02"
            + struct.pack("!i", INTERNAL_ERROR)
        )
        head = struct.pack("!I", VERSION_1 | EXCEPTION) + struct.pack("!i", len(self._procedure)) + self._procedure
        return head + struct.pack("!i", self._sequence) + body + b"\0"

    def code(self, fault: FaultFields) -> str:
        return "exception"
