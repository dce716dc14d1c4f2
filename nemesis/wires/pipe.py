"""One end of a TCP connection, read in pieces of any size.

The streams of asyncio do not tell that the peer closed the connection, or sent something, while nobody reads. A proxy must know: otherwise
its client would send a request on a connection whose other end is dead.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable

LIMIT = 256 * 1024
"""Unread bytes above which reading stops, so that the peer must wait."""
LONGEST_HEAD = 1 << 20
"""Bytes. HTTP servers refuse heads of more than some ten KiB: what is longer is no head."""


class Gone(ConnectionError):
    """The peer closed the connection before all bytes came that were to be read."""


class Pipe(asyncio.Protocol):
    """Reading with ``more``, ``exactly`` and ``until``; writing with ``send``. One reader and one writer at a time.

    ``on_idle`` is called when bytes, or the end, come while nobody waits for them. ``ended``: nothing more will come; ``broken``: it ended
    with an error, such as a reset.
    """

    def __init__(self, on_connect: Callable[[Pipe], None] | None = None) -> None:
        self.buffer = bytearray()
        self.ended = False
        self.broken = False
        self.on_idle: Callable[[], None] | None = None
        self._on_connect = on_connect
        self._transport: asyncio.Transport | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._writable: asyncio.Future[None] | None = None
        self._paused = False
        self._lost = False

    # -- called by the loop --------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        raw = transport.get_extra_info("socket")
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self._on_connect is not None:
            self._on_connect(self)

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        if len(self.buffer) > LIMIT and not self._paused and self._transport is not None:
            self._paused = True
            self._transport.pause_reading()
        self._wake()

    def eof_received(self) -> bool:
        self.ended = True
        self._wake()
        return True  # the peer has only finished sending, so writing goes on

    def connection_lost(self, error: Exception | None) -> None:
        self.ended = self._lost = True
        self.broken = error is not None
        self._wake()
        if self._writable is not None and not self._writable.done():
            self._writable.set_result(None)

    def pause_writing(self) -> None:
        self._writable = asyncio.get_running_loop().create_future()

    def resume_writing(self) -> None:
        if self._writable is not None and not self._writable.done():
            self._writable.set_result(None)
        self._writable = None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
        elif self.on_idle is not None:
            self.on_idle()

    # -- reading -------------------------------------------------------------------------------------------------------

    async def more(self) -> bool:
        """Wait until bytes come that are not in the buffer yet; False at the end."""
        if self.ended:
            return False
        if self._paused and self._transport is not None:
            self._paused = False
            self._transport.resume_reading()
        self._waiter = asyncio.get_running_loop().create_future()
        before = len(self.buffer)
        try:
            await self._waiter
        finally:
            self._waiter = None
        return len(self.buffer) > before

    async def some(self, limit: int = LIMIT) -> bytes:
        """The bytes that have come, from one up to ``limit``; none at the end."""
        while not self.buffer:
            if not await self.more():
                return b""
        return self.take(min(limit, len(self.buffer)))

    async def exactly(self, count: int) -> bytes:
        """``count`` bytes. Raises :class:`Gone`."""
        while len(self.buffer) < count:
            if not await self.more():
                raise Gone
        return self.take(count)

    async def until(self, end: bytes, longest: int = LONGEST_HEAD) -> bytes | None:
        """The bytes up to ``end``, which is included. None if it does not come within ``longest`` bytes; then nothing is taken."""
        start = 0
        while (place := self.buffer.find(end, start)) < 0:
            if len(self.buffer) > longest:
                return None
            start = max(0, len(self.buffer) - len(end) + 1)
            if not await self.more():
                return None
        return self.take(place + len(end))

    def take(self, count: int) -> bytes:
        """Take ``count`` bytes out of the buffer."""
        if count == len(self.buffer):
            taken = bytes(self.buffer)
            self.buffer.clear()
            return taken
        with memoryview(self.buffer) as view:
            taken = bytes(view[:count])
        del self.buffer[:count]
        return taken

    # -- writing -------------------------------------------------------------------------------------------------------

    async def send(self, data: bytes) -> None:
        """Write, and wait while the peer is slow. Raises :class:`Gone`."""
        self.write(data)
        if self._writable is not None:
            await self._writable
            if self._lost:
                raise Gone

    def write(self, data: bytes) -> None:
        """Write a few bytes without waiting. Raises :class:`Gone`."""
        if self._lost or self._transport is None:
            raise Gone
        if data:
            self._transport.write(data)

    def finish(self) -> None:
        """Say that nothing more will be written; reading goes on."""
        if self._transport is not None and not self._lost and not self._transport.is_closing():
            try:
                self._transport.write_eof()
            except OSError:
                self.close()

    def close(self) -> None:
        """Close without a reset: the bytes that were written still arrive."""
        if self._transport is not None:
            self._transport.close()

    def reset(self) -> None:
        """Close with a reset (RST): the peer gets an error and loses the bytes that it has not read."""
        if self._transport is None:
            return
        raw = self._transport.get_extra_info("socket")
        if raw is not None and raw.fileno() >= 0:
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._transport.abort()

    @property
    def lost(self) -> bool:
        """Whether the connection is closed in both directions."""
        return self._lost

    @property
    def gone(self) -> bool:
        """Whether the connection is closed or about to close."""
        return self._lost or self._transport is None or self._transport.is_closing()


async def connect(host: str, port: int, timeout: float = 10.0) -> Pipe:
    """Connect to a service. Raises OSError, such as TimeoutError."""
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(timeout):
        _, pipe = await loop.create_connection(Pipe, host, port)
    return pipe
