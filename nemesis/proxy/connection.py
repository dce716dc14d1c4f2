"""One connection of a client through a proxy: it passes requests and replies on, one after the other, byte by byte as they came.

What is not of the protocol is passed on unread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from nemesis.faults.fields import Direction
from nemesis.faults.relay import Reset
from nemesis.proxy.board import QUIET, Armed, Board
from nemesis.proxy.faulted import FaultedRequest
from nemesis.proxy.outcome import Note, Outcome
from nemesis.proxy.route import WIRES, Route
from nemesis.wires.pipe import Gone, Pipe, connect
from nemesis.wires.wire import NotSpoken, Reply, Request, Wire

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class Connection:
    """One connection of a client, and the connection to the service that belongs to it.

    Args:
        route: where it leads.
        board: where faults are armed.
        client: the client's end.
        note: logs a request that has ended.
        adopt: carries on with work that may outlast the connection.

    Attributes:
        busy: whether a request is under way.
    """

    def __init__(
        self,
        route: Route,
        board: Board,
        client: Pipe,
        note: Note,
        adopt: Callable[[Coroutine[Any, Any, None]], None],
    ) -> None:
        self.route = route
        self.board = board
        self.note = note
        self.adopt = adopt
        self._client = client
        self._server: Pipe | None = None
        make = WIRES[route.protocol]
        self._wire = None if make is None else make()
        self._upload: asyncio.Task[None] | None = None
        self._open = False
        """True while an unfaulted request is in flight: a client's disconnect is forwarded at once."""
        self.busy = False

    # -- the connection's life -----------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Serve the connection from its first byte to its last."""
        reset = False
        try:
            try:
                if (partition := self._partition("requests")) is not None:
                    partition.note_strike("connect")
                    await partition.until_ended()
                    raise Reset
                await self._upstream()
                if self._wire is None:
                    raise NotSpoken
                await self._requests(self._wire)
            except NotSpoken:
                await self._stop_upload()
                await self._tunnel()
        except Reset:
            reset = True
        except (Gone, OSError):
            reset = True  # the other end is gone, so this end is reset too
        finally:
            self.busy = False
            if self._upload is not None:
                self._upload.cancel()
            for pipe in (self._client, self._server):
                if pipe is not None:
                    pipe.on_idle = None
                    if reset:
                        pipe.reset()
                    else:
                        pipe.close()

    def _partition(self, way: Direction) -> Armed | None:
        return self.board.partition_on(self.route.service, self.route.writer, way)

    async def _upstream(self) -> Pipe:
        if self._server is None or self._server.gone:
            self._server = await connect(*self.route.upstream)
        return self._server

    async def _requests(self, wire: Wire) -> None:
        self._client.on_idle = self._client_left
        while True:
            server = self._server
            if server is not None:
                server.on_idle = self._spoke
                if server.buffer or server.ended:
                    self._spoke()
            self.busy = False
            request = await wire.request(self._client)
            if request is None:
                if self._server is None:
                    return
                raise NotSpoken  # the tunnel passes the client's end on, and whatever the service still sends
            self.busy = True
            if server is not None:
                server.on_idle = None
            if not await self._handle(wire, request):
                if self._client.buffer and self._server is not None:
                    raise NotSpoken  # the tunnel passes on what the client sent after its last request
                return

    def _spoke(self) -> None:
        """Pass on what the service sent, or that it finished, while no request was in flight."""
        server, client = self._server, self._client
        if server is None or client.gone:
            return
        if server.buffer:
            client.write(server.take(len(server.buffer)))
        if server.broken:
            client.reset()
        elif server.ended:
            client.finish()

    def _client_left(self) -> None:
        """Tell the service that the client disconnected while it waited for a reply."""
        server, client = self._server, self._client
        if not self._open or not client.ended or client.buffer or server is None or self._upload is not None:
            return
        if client.broken:
            server.reset()
        else:
            server.finish()

    async def _tunnel(self) -> None:
        """Pass bytes on, both ways, until both ends have finished. Only a partition of everything stops them."""
        server = self._server or await self._upstream()
        client = self._client
        self.busy = False

        async def pump(source: Pipe, target: Pipe, way: Direction) -> None:
            while part := await source.some():
                if (partition := self._partition(way)) is not None:
                    partition.note_strike("bytes")
                    await partition.until_ended()
                    raise Reset
                await target.send(part)
            if source.broken:
                raise Reset
            target.finish()

        both = [
            asyncio.ensure_future(pump(client, server, "requests")),
            asyncio.ensure_future(pump(server, client, "replies")),
        ]

        def lost() -> None:
            if client.lost or server.lost:  # one end is closed both ways, although it had finished only one
                for task in both:
                    task.cancel()

        client.on_idle = server.on_idle = lost
        try:
            await asyncio.wait(both, return_when=asyncio.FIRST_EXCEPTION)
            for task in both:
                if task.done() and not task.cancelled():
                    task.result()
            if client.broken or server.broken:
                raise Reset
        finally:
            for task in both:
                task.cancel()
                task.add_done_callback(quietly)

    # -- one request ---------------------------------------------------------------------------------------------------

    async def _handle(self, wire: Wire, request: Request) -> bool:
        """Pass a request and its reply on, or do what is planned. Returns whether the connection goes on."""
        route, board = self.route, self.board
        service = route.serves(request)
        moment = board.moment(service, route.writer, request)
        # When the request ends, its writer may already perform another operation.
        nth = None if moment is None else moment.nth
        outcome = Outcome(board.op_of(route.writer, request), board.now(), nth)
        turn, plan = await board.turn(route.writer, moment), QUIET
        try:
            if turn is not None:
                outcome.waited = board.now() - outcome.began
                if not wire.session:
                    await self.connect_again()  # a server ends a connection that was silent for long
            plan = board.plan(service, route.writer, request, moment)
            if plan.fault is None and plan.hold is None and not plan.delays and plan.throttle is None:
                goes_on = await self._plainly(wire, request, outcome)
            else:
                goes_on = await FaultedRequest(self, wire, request, plan, outcome).go()
        finally:
            self.note(request, outcome, plan)
            if turn is not None:
                board.over(turn)
        if self._upload is not None:
            await self._after_early_answer(goes_on)
        return goes_on and not request.last

    async def _plainly(self, wire: Wire, request: Request, outcome: Outcome) -> bool:
        self._open = True
        try:
            reply = await self.forward(wire, request)
            return await self.answer(wire, request, reply, outcome)
        finally:
            self._open = False

    async def forward(self, wire: Wire, request: Request, *, rate: int | None = None) -> Reply:
        """Send a request on, and read the beginning of the reply. The reply may come before the whole request was sent."""
        server = await self._upstream()
        if request.message.complete:
            await _slowly(server, await request.message.whole(), rate)
            if self._client.ended:
                self._client_left()
            return await self._final(wire, server, request)
        upload = self._upload = asyncio.ensure_future(self._send(server, request, rate))
        reading = asyncio.ensure_future(self._final(wire, server, request))
        try:
            await asyncio.wait({upload, reading}, return_when=asyncio.FIRST_COMPLETED)
            if upload.done():
                self._upload = None
                if isinstance(upload.exception(), NotSpoken):
                    raise NotSpoken
                if self._client.ended:
                    self._client_left()  # if the upload failed, the service is gone, and its last reply is read below
            return await reading
        finally:
            reading.cancel()
            reading.add_done_callback(quietly)

    async def _send(self, server: Pipe, request: Request, rate: int | None) -> None:
        async for part in request.message.parts():
            await _slowly(server, part, rate)

    async def _after_early_answer(self, goes_on: bool) -> None:
        """Send the rest of the request, whose reply came early. Raises NotSpoken when no other request can follow on this connection."""
        upload, server = self._upload, self._server
        assert upload is not None
        if goes_on and server is not None and not server.ended:
            spoke = asyncio.Event()
            server.on_idle = spoke.set
            speaking = asyncio.ensure_future(spoke.wait())
            await asyncio.wait({upload, speaking}, return_when=asyncio.FIRST_COMPLETED)
            speaking.cancel()
            server.on_idle = None
        if not goes_on or not upload.done() or upload.exception() is not None:
            raise NotSpoken
        self._upload = None

    async def _stop_upload(self) -> None:
        """Stop sending the request. Nothing is lost: every byte that was taken from the client's pipe was sent."""
        upload, self._upload = self._upload, None
        if upload is not None:
            upload.cancel()
            await asyncio.wait({upload})
            quietly(upload)

    async def _final(self, wire: Wire, server: Pipe, request: Request) -> Reply:
        """The final reply. Interim replies (HTTP's 1xx) that come before it are passed on."""
        while True:
            reply = await wire.reply(server, request)
            if not reply.interim:
                return reply
            if reply.status == "100" and request.granted:
                request.granted = False
            else:
                await self._client.send(await reply.message.whole())

    async def answer(
        self, wire: Wire, request: Request, reply: Reply, outcome: Outcome, *, rate: int | None = None
    ) -> bool:
        """Pass a reply on. Returns whether the connection goes on."""
        if request.kind == "load" and self.board.remembers:
            try:
                data = await reply.message.whole()
            except NotSpoken:
                await self._client.send(reply.message.read)
                raise
            if reply.ok:
                body = data.partition(b"\r\n\r\n")[2]  # without the HTTP head, whose date changes
                self.board.keep(self.route.key(request), reply.location or body or data, data)
        async for part in reply.message.parts():
            await _slowly(self._client, part, rate)
        outcome.note_reply(reply)
        return not reply.last

    async def say(self, data: bytes) -> None:
        """Send the client bytes that the service did not send."""
        await self._client.send(data)

    async def swallow(self, request: Request) -> None:
        """Read the rest of a request that the service never gets."""
        if request.continues:
            await self._client.send(CONTINUE)
            request.continues, request.granted = False, True
        async for _ in request.message.parts():
            pass

    async def keep_whole(self, request: Request) -> None:
        """Read the rest of a request into memory."""
        if request.continues:
            await self._client.send(CONTINUE)
            request.continues, request.granted = False, True
        await request.message.whole()

    def give_up_server(self) -> Pipe | None:
        """Hand over the connection to the service: the caller closes it. The next request opens another one."""
        server, self._server = self._server, None
        if server is not None:
            server.on_idle = None
        return server

    async def connect_again(self) -> None:
        """Open another connection to the service if the service ended this one, on which it has no request."""
        if self._server is not None and self._server.ended and (server := self.give_up_server()) is not None:
            server.close()
            await self._upstream()


def quietly(task: asyncio.Future[Any]) -> None:
    """Take notice of a task's error, so that asyncio does not print it."""
    if not task.cancelled():
        task.exception()


async def _slowly(target: Pipe, data: bytes, rate: int | None) -> None:
    """Send, at ``rate`` bytes a second; None: at full speed."""
    if rate is None:
        await target.send(data)
        return
    step = max(1, rate // 20)
    for start in range(0, len(data), step):
        await target.send(data[start : start + step])
        await asyncio.sleep(len(data[start : start + step]) / rate)
