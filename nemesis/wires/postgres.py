"""PostgreSQL's protocol 3.0 as the proxies see it: the JDBC catalog, and the database of a catalog server.

A *request* is all that a client sends before it waits: messages up to a ``Sync`` (extended protocol), a ``Flush``, a ``Query`` (simple
protocol), or a message of the start-up. Its *reply* goes up to ``ReadyForQuery``. The server commits a statement outside a transaction
block before it answers, so after ``UPDATE 1`` and ``ReadyForQuery`` the commit is durable (PostgreSQL documentation, "Message Flow";
Iceberg's statements: ``core/jdbc/JdbcUtil``).
"""

from __future__ import annotations

import re
import struct
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from nemesis.faults.fields import FaultFields, RequestKind
from nemesis.wires.pipe import Pipe
from nemesis.wires.wire import Message, NotSpoken, Reply, Request, Wire

SSL, GSS, CANCEL = 80877103, 80877104, 80877102
LONGEST = 1 << 30
"""Bytes. PostgreSQL refuses a longer message too (``MaxAllocSize``), so it is none."""
_KINDS: tuple[tuple[re.Pattern[str], RequestKind], ...] = (
    (re.compile(r"UPDATE\s+(iceberg_tables\s+SET\s+metadata_location|refs2\s+SET\s+pointer)", re.IGNORECASE), "commit"),
    (re.compile(r"INSERT\s+INTO\s+iceberg_tables", re.IGNORECASE), "create"),
    (re.compile(r"DELETE\s+FROM\s+iceberg_tables", re.IGNORECASE), "drop"),
    (re.compile(r"SELECT\b.*\bFROM\s+iceberg_tables\b.*\btable_name\s*=", re.IGNORECASE | re.DOTALL), "load"),
)
_BEGIN = re.compile(r"\s*(BEGIN|START\s+TRANSACTION)\b", re.IGNORECASE)
_COMMIT = re.compile(r"\s*(COMMIT|END)\b", re.IGNORECASE)
_SENT = b"PBDECSHQFpXdcf"
"""The messages that a client sends after the start-up."""
_RANK: dict[RequestKind, int] = {"commit": 4, "create": 3, "drop": 2, "load": 1}
_ENDS_ONE = {ord("P"): b"1", ord("B"): b"2", ord("D"): b"Tn", ord("E"): b"CsI", ord("C"): b"3"}
"""A message of the extended protocol → the replies that end its handling."""


def classify(sql: str) -> RequestKind:
    """What a statement does in Iceberg's JDBC catalog, or in Nessie's tables (``JDBC2``)."""
    return next((kind for pattern, kind in _KINDS if pattern.match(sql.strip())), "other")


@dataclass
class _Statement:
    """The statement that a request executes: of several the one that does most (:data:`_RANK`).

    Attributes:
        values: its parameters.
        begins: whether it is in a transaction block, or begins one.
    """

    sql: str = ""
    values: list[str | None] = field(default_factory=list)
    begins: bool = False


class PostgresWire(Wire):
    """One connection. It remembers named statements, because pgjdbc sends their text only once."""

    session = True

    def __init__(self) -> None:
        self._started = False
        self._statements: dict[bytes, str] = {}
        self._code = 0
        self._expected: list[bytes] = []
        self._waits = b""
        self._extended = False
        self._skipping = False
        """Whether the service skips messages up to the next Sync, because one of them failed."""
        self._state = b"I"
        """The state in the last ReadyForQuery: idle, in a transaction block, or in a failed one."""
        self._pending: Request | None = None
        """The commit in the open transaction block: it takes effect when the block is committed."""

    async def request(self, client: Pipe) -> Request | None:
        while not client.buffer:
            if not await client.more():
                return None
        if not self._started:
            return await self._startup(client)
        data, kinds, expected = bytearray(), bytearray(), list[bytes]()
        statement = _Statement(begins=self._state != b"I")
        while True:
            kind, message = await self._sent(client, data)
            data += message
            if kind not in b"d":
                kinds.append(kind)
            self._read(statement, kind, message[5:])
            if kind in b"QE":
                self._extended = kind == ord("E")
            if kind in _ENDS_ONE:
                expected.append(_ENDS_ONE[kind])
            if kind in b"cf" and self._extended:
                continue  # it ends a COPY of the extended protocol, and its Sync follows
            if kind in b"QSFcfpXH":
                waits = b"" if kind == ord("X") else b"Q" if kind in b"QF" else b"H" if kind == ord("H") else b"Z"
                break
        self._expected = expected
        self._waits = waits
        kind_of = classify(statement.sql)
        request = Request(kind_of, " ".join(statement.sql.split())[:200] or chr(data[0]), Message(bytes(data)))
        request.last = not waits
        request.key = f"{bytes(kinds)!r} {self._state!r} {request.what} {statement.values}"
        if kind_of != "other":
            _understand(request, statement.sql, statement.values)
        if kind_of == "commit" and statement.begins:
            request.kind, self._pending = "other", request
        elif self._pending is not None and _COMMIT.match(statement.sql):
            pending, self._pending = self._pending, None
            request.kind, request.table, request.base, request.new = "commit", pending.table, pending.base, pending.new
        return request

    async def _sent(self, client: Pipe, before: bytearray) -> tuple[int, bytes]:
        """The client's next message, and its kind. Raises NotSpoken if it is none; then the client's buffer has all of the request again."""
        try:
            kind, message = await self._message(client)
            if kind not in _SENT:
                client.buffer[:0] = message
                raise NotSpoken
        except NotSpoken:
            client.buffer[:0] = before
            raise
        return kind, message

    def _read(self, statement: _Statement, kind: int, body: bytes) -> None:
        """What a message says of the statement that its request executes."""
        if kind == ord("P"):
            name, _, rest = body.partition(b"\0")
            text = self._statements[name] = rest.partition(b"\0")[0].decode("utf-8", "replace")
            statement.sql = self._heavier(statement.sql, text)
        elif kind == ord("B"):
            _, _, rest = body.partition(b"\0")
            name, _, rest = rest.partition(b"\0")
            text = self._statements.get(name, "")
            statement.sql = self._heavier(statement.sql, text)
            if statement.sql == text:
                statement.values = _parameters(rest)
        elif kind == ord("Q"):
            text = statement.sql = body.rstrip(b"\0").decode("utf-8", "replace")
        else:
            return
        statement.begins |= _BEGIN.match(text) is not None

    async def reply(self, server: Pipe, request: Request) -> Reply:
        reply = Reply(Message())
        if not self._started:
            reply.message = Message(b"", self._greeting(server, reply))
        elif not self._waits:
            reply.last = True
        else:
            reply.message = Message(b"", self._answers(server, reply, list(self._expected), request))
        return reply

    def error(self, request: Request, fault: FaultFields) -> bytes | None:
        if not self._started or not self._waits:
            return None
        fields = {"S": "ERROR", "V": "ERROR", "C": self.code(fault), "M": "answered by the nemesis"}
        body = b"".join(k.encode() + v.encode() + b"\0" for k, v in fields.items()) + b"\0"
        error = b"E" + struct.pack("!I", len(body) + 4) + body
        if self._waits == b"H":
            return error  # the service sends ReadyForQuery when it gets the Sync
        return error + b"Z" + struct.pack("!I", 5) + (b"I" if self._state == b"I" else b"E")

    def code(self, fault: FaultFields) -> str:
        return fault.sqlstate or "08006"

    # -- requests ------------------------------------------------------------------------------------------------------

    async def _startup(self, client: Pipe) -> Request:
        while len(client.buffer) < 8:
            if not await client.more():
                raise NotSpoken
        length, code = struct.unpack("!II", bytes(client.buffer[:8]))
        if not 8 <= length <= 10_000 or (code >> 16 != 3 and code not in (SSL, GSS, CANCEL)):
            raise NotSpoken
        while len(client.buffer) < length:
            if not await client.more():
                raise NotSpoken
        self._code = code
        request = Request("other", "startup", Message(await client.exactly(length)))
        request.last = code == CANCEL
        return request

    def _heavier(self, first: str, other: str) -> str:
        return other if _RANK.get(classify(other), 0) >= _RANK.get(classify(first), 0) else first

    async def _message(self, pipe: Pipe) -> tuple[int, bytes]:
        """Read one message. If it raises NotSpoken, nothing is taken."""
        while len(pipe.buffer) < 5:
            if not await pipe.more():
                raise NotSpoken
        (length,) = struct.unpack_from("!I", pipe.buffer, 1)
        if not 4 <= length <= LONGEST:
            raise NotSpoken
        while len(pipe.buffer) <= length:
            if not await pipe.more():
                raise NotSpoken
        message = pipe.take(length + 1)
        return message[0], message

    # -- replies -------------------------------------------------------------------------------------------------------

    async def _greeting(self, server: Pipe, reply: Reply) -> AsyncIterator[bytes]:
        """The replies up to the client's turn: one letter for SSL and GSS; otherwise up to the question for a password, or ReadyForQuery."""
        reply.ok = True
        if self._code in (SSL, GSS):
            letter = await server.exactly(1)
            yield letter
            if letter != b"N":
                raise NotSpoken  # encrypted bytes follow
            return
        if self._code == CANCEL:
            reply.last = True
            while part := await server.some():  # the service closes the connection when it is done
                yield part
            return
        self._started = True
        self._expected, self._waits = [], b"Z"
        async for part in self._answers(server, reply, [], None):
            yield part

    async def _answers(
        self, server: Pipe, reply: Reply, expected: list[bytes], request: Request | None
    ) -> AsyncIterator[bytes]:
        failed = False
        until_flushed = self._waits == b"H"
        if self._waits == b"Q" and self._skipping:
            return  # the service skips this message too
        while not (until_flushed and (self._skipping or not expected)):
            kind, message = await self._message(server)
            letter = bytes((kind,))
            if letter == b"E":
                failed, reply.ok, self._skipping = True, False, True
                reply.status = _field(message[5:], b"C")
            elif letter == b"C":
                tag = message[5:].rstrip(b"\0").decode("utf-8", "replace")
                if not failed:
                    reply.status = tag
                    reply.ok = tag != "ROLLBACK" and (not tag.endswith(" 0") or tag.startswith("SELECT"))
            elif letter == b"Z":
                self._state, self._skipping = message[5:6], False
                if request is self._pending and not reply.ok:
                    self._pending = None
            yield message
            if letter == b"Z" or (letter == b"E" and _field(message[5:], b"V") in ("FATAL", "PANIC")):
                reply.last = letter == b"E"
                return
            if letter == b"R" and struct.unpack("!I", message[5:9])[0] not in (0, 12):
                return  # the client has to answer
            if letter == b"G":
                return  # COPY: the client sends next
            if letter == b"W":
                raise NotSpoken  # replication: both send
            if failed and (until_flushed or (self._waits == b"Q" and expected)):
                return  # an earlier message failed, so nothing more comes up to the Sync
            if expected and letter in expected[0]:
                expected.pop(0)


def _field(body: bytes, name: bytes) -> str:
    """A field of an ErrorResponse."""
    for part in body.split(b"\0"):
        if part[:1] == name:
            return part[1:].decode("utf-8", "replace")
    return ""


def _parameters(rest: bytes) -> list[str | None]:
    """The parameter values of a Bind message, from its format codes on; None for NULL and for binary values."""
    try:
        (n,) = struct.unpack_from("!H", rest)
        formats = struct.unpack_from(f"!{n}H", rest, 2)
        offset = 2 + 2 * n
        (count,) = struct.unpack_from("!H", rest, offset)
        offset += 2
        values: list[str | None] = []
        for i in range(count):
            (length,) = struct.unpack_from("!i", rest, offset)
            offset += 4
            binary = formats[i if n > 1 else 0] if n else 0
            values.append(None if length < 0 or binary else rest[offset : offset + length].decode("utf-8", "replace"))
            offset += max(length, 0)
        return values
    except struct.error:
        return []


_ASSIGNED = re.compile(r"(\w+)\s*=\s*\$(\d+)")


def _understand(request: Request, sql: str, values: list[str | None]) -> None:
    """Table, base and new metadata file, found by the columns that the parameters are compared with or assigned to."""
    where = sql.upper().find("WHERE")
    for match in _ASSIGNED.finditer(sql):
        n = int(match[2])
        if n > len(values):
            continue
        value, column = values[n - 1], match[1].lower()
        if column == "table_name":
            request.table = value
        elif column == "metadata_location":
            if request.kind == "commit" and match.start() < where:
                request.new = value
            else:
                request.base = value
