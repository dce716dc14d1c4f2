"""What a proxy must know of a protocol: where a request ends, what it asks for, where its reply ends, what an error looks like.

A wire never changes a byte: requests and replies are passed on as they came, head, framing and all, so a signature over them
(SigV4) stays valid.
"""

from __future__ import annotations

import abc
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from nemesis.faults.fields import FaultFields, RequestKind
from nemesis.wires.pipe import Pipe


class NotSpoken(Exception):
    """What came is not of this protocol, or ends too early. What was taken of it is in the pipe again, or was passed on already; so all of
    it can be passed on unread."""


class Message:
    """Bytes of a request or reply: what was read already, and what is still to come."""

    def __init__(self, data: bytes = b"", rest: AsyncIterator[bytes] | None = None) -> None:
        self._data = data
        self._rest = rest

    @property
    def complete(self) -> bool:
        """Whether all of it was read."""
        return self._rest is None

    async def whole(self) -> bytes:
        """All of it, in memory. When that fails, ``read`` has what came."""
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
        """What was read of it and is still here."""
        return self._data

    async def parts(self) -> AsyncIterator[bytes]:
        """All of it, piece by piece; what ``whole`` has not read is gone then."""
        data = self._data
        if self._rest is not None:
            self._data = b""
        if data:
            yield data
        if self._rest is not None:
            rest, self._rest = self._rest, None
            async for part in rest:
                yield part


@dataclass(slots=True)
class Request:
    """A request, as far as the wire understands it.

    Attributes:
        what: for the log: method and path, the statement's beginning, the procedure.
        table: its name, without namespace.
        ops: operations that made the snapshots in it.
        base: of a commit: what it builds on (a metadata file, or a snapshot id).
        new: of a commit: what it puts in its place.
        key: requests with the same key ask for the same thing (``stale``).
        continues: the client waits for ``100 Continue`` before it sends the body.
        granted: it was told so by a proxy, so the service's own ``100 Continue`` is one too many.
        last: no further request comes on this connection.
    """

    kind: RequestKind
    what: str
    message: Message
    table: str | None = None
    ops: frozenset[str] = frozenset()
    base: str | None = None
    new: str | None = None
    key: str = ""
    continues: bool = False
    granted: bool = False
    last: bool = False


@dataclass(slots=True)
class Reply:
    """A reply. ``ok`` and ``status`` are final when the message is complete or passed on.

    Attributes:
        ok: the service did what was asked.
        location: the metadata file that a load or commit answers.
        last: the connection ends with it.
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
    """One connection's protocol state. ``session``: a connection has state, so a new one cannot take its place unseen."""

    session: bool = False

    @abc.abstractmethod
    async def request(self, client: Pipe) -> Request | None:
        """The next request; None when the client has finished. Raises :class:`NotSpoken`, ``nemesis.wires.pipe.Gone``."""

    @abc.abstractmethod
    async def reply(self, server: Pipe, request: Request) -> Reply:
        """The reply to a request that was sent. Raises :class:`NotSpoken`, ``nemesis.wires.pipe.Gone``."""

    @abc.abstractmethod
    def error(self, request: Request, fault: FaultFields) -> bytes | None:
        """The reply that tells the client of ``fault``; None when this protocol has no such thing."""
