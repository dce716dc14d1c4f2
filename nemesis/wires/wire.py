"""What a proxy must know about a protocol: where a request and its reply end, what the request asks for, and what an error looks like.

A wire never changes a byte: requests and replies are passed on as they came, head, framing and all, so a signature over them
(SigV4) stays valid.
"""

from __future__ import annotations

import abc
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from nemesis.faults.fields import FaultFields, RequestKind
from nemesis.wires.pipe import Pipe


class NotSpoken(Exception):
    """The bytes are not of this protocol, or end too early. All of them are back in the pipe or were passed on already, so the rest can
    be passed on unread."""


class Message:
    """The bytes of a request or reply: those that were read, and those still to come."""

    def __init__(self, data: bytes = b"", rest: AsyncIterator[bytes] | None = None) -> None:
        self._data = data
        self._rest = rest

    @property
    def complete(self) -> bool:
        """Whether all bytes were read."""
        return self._rest is None

    async def whole(self) -> bytes:
        """All bytes, in memory. If that fails, ``read`` has the bytes that came."""
        if self._rest is not None:
            parts = [self._data]
            try:
                async for part in self._rest:
                    parts.append(part)
            finally:
                self._data = b"".join(parts)
            self._rest = None
        return self._data

    @property
    def read(self) -> bytes:
        """The bytes that were read and are still in memory."""
        return self._data

    async def parts(self) -> AsyncIterator[bytes]:
        """All bytes, piece by piece. Afterwards only the bytes that ``whole`` had read are still in memory."""
        data = self._data
        if self._rest is not None:
            self._data = b""
        if data:
            yield data
        if self._rest is not None:
            rest, self._rest = self._rest, None
            async for part in rest:
                yield part


@dataclass(frozen=True, slots=True)
class TableChange:
    """What a request to a REST catalog asks of one table.

    Attributes:
        table: its name, without namespace; None if the request does not say.
        base: the snapshot id that main, or else another branch, must have.
        adds: ids of the snapshots that it adds.
        refs: branch or tag → the snapshot id that it gets.
    """

    table: str | None
    base: str | None = None
    adds: tuple[str, ...] = ()
    refs: Mapping[str, str] = field(default_factory=dict)

    @property
    def new(self) -> str | None:
        """The snapshot that replaces the base: that of main, else the last one that it adds."""
        return self.refs.get("main") or (self.adds[-1] if self.adds else None)

    def to_json(self) -> dict[str, Any]:
        """As JSON values, for the log; keys without a value are left out."""
        known = {"table": self.table, "base": self.base, "adds": list(self.adds), "refs": dict(self.refs)}
        return {k: v for k, v in known.items() if v}


@dataclass(slots=True)
class Request:
    """A request, as far as its wire understands it.

    Attributes:
        what: for the log: method and path, the beginning of the statement, or the procedure.
        table: the name of the table, without namespace.
        ops: the operations that made the snapshots in it.
        base: of a commit: the metadata file or snapshot id that it builds on; of several tables, that of the first.
        new: of a commit: the metadata file or snapshot id that replaces the base; of several tables, that of the first.
        changes: of a commit to a REST catalog: what it asks of each table.
        key: requests with the same key ask for the same thing.
        continues: the client waits for ``100 Continue`` before it sends the body.
        granted: the proxy has sent ``100 Continue``, so it must not pass on the service's own.
        last: no further request comes on this connection.
        known: the ETag of the answer that the client has, and does not want once more.
    """

    kind: RequestKind
    what: str
    message: Message
    table: str | None = None
    ops: frozenset[str] = frozenset()
    base: str | None = None
    new: str | None = None
    changes: tuple[TableChange, ...] = ()
    key: str = ""
    continues: bool = False
    granted: bool = False
    last: bool = False
    known: str = ""


@dataclass(slots=True)
class Reply:
    """A reply. ``ok`` and ``status`` are final when the whole message was read or passed on.

    Attributes:
        ok: the service did what it was asked.
        location: the metadata file that it names, of a load or commit.
        last: the service closes the connection after it.
    """

    message: Message
    ok: bool = False
    status: str = ""
    location: str | None = None
    last: bool = False
    sample: bytearray = field(default_factory=bytearray)

    @property
    def interim(self) -> bool:
        """Whether another reply follows (HTTP's 1xx)."""
        return len(self.status) == 3 and self.status[0] == "1"

    async def whole(self) -> bytes:
        """All its bytes. Raises :class:`NotSpoken`, ``nemesis.wires.pipe.Gone``."""
        return await self.message.whole()


class Wire(abc.ABC):
    """The protocol state of one connection. ``session``: the connection has state, so a new connection cannot take its place unnoticed."""

    session: bool = False

    @abc.abstractmethod
    async def request(self, client: Pipe) -> Request | None:
        """Read the next request; None when the client has finished. Raises :class:`NotSpoken`, ``nemesis.wires.pipe.Gone``."""

    @abc.abstractmethod
    async def reply(self, server: Pipe, request: Request) -> Reply:
        """Read the reply to a request that was sent. Raises :class:`NotSpoken`, ``nemesis.wires.pipe.Gone``."""

    @abc.abstractmethod
    def error(self, request: Request, fault: FaultFields) -> bytes | None:
        """The reply that tells the client the error of ``fault``; None if this protocol has no error replies."""

    @abc.abstractmethod
    def code(self, fault: FaultFields) -> str:
        """Of that error what a client tells it from others by: HTTP's status, PostgreSQL's SQLSTATE, the kind of Thrift's reply."""

    def unchanged(self, request: Request, of: bytes | None = None) -> bytes | None:
        """The reply that tells the client that the answer which it has is the newest; None if it did not ask that.

        Args:
            of: None too if the client has another answer than this one.
        """
        return None
