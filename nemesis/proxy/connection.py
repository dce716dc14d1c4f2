"""The proxies: one listener on loopback for each writer and service, and what a fault does to a request that passes it.

They run in a thread of their own with an event loop of its own. A connection of a writer is one connection to the service; requests
are passed on one after the other, byte by byte as they came. What is not of the protocol is passed on unread.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Literal

from nemesis.faults.fault import APPLIED, Direction, Fault, Service
from nemesis.proxy.board import Armed, Board, Plan
from nemesis.wires.aws import AwsJson
from nemesis.wires.http import CatalogHttp, StoreHttp
from nemesis.wires.pipe import Gone, Pipe, connect
from nemesis.wires.postgres import Postgres
from nemesis.wires.thrift import Thrift
from nemesis.wires.wire import NotSpoken, Reply, Request, Wire

WireName = Literal["http", "aws", "s3", "postgres", "thrift", "tcp"]
WIRES: dict[WireName, Callable[[], Wire] | None] = {
    "http": CatalogHttp,
    "aws": AwsJson,
    "s3": StoreHttp,
    "postgres": Postgres,
    "thrift": Thrift,
    "tcp": None,
}
LAST_ANSWERS = 5.0
"""Seconds that requests which are under way get when the proxies are left."""
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class _Reset(Exception):
    """The client's connection ends here, with a reset."""


class Connection:
    """One connection of a client, and the one to the service that belongs to it."""

    def __init__(self, listener: Listener, client: Pipe) -> None:
        self._listener = listener
        self._board = listener.board
        self._client = client
        self._server: Pipe | None = None
        make = WIRES[listener.protocol]
        self._wire = None if make is None else make()
        self._upload: asyncio.Task[None] | None = None
        self._open = False
        """Whether the client's leaving is told the service at once: a request is under way that nothing happens to."""
        self.busy = False

    # -- the connection's life -----------------------------------------------------------------------------------------

    async def run(self) -> None:
        """From the first byte to the last."""
        reset = False
        try:
            try:
                if (barred := self._board.barred(self._listener.service, self._listener.writer)) is not None:
                    barred.struck("connect")
                    await barred.until_ended()
                    raise _Reset
                await self._upstream()
                if self._wire is None:
                    raise NotSpoken
                await self._requests(self._wire)
            except NotSpoken:
                await self._stop_upload()
                await self._tunnel()
        except _Reset:
            reset = True
        except (Gone, OSError):
            reset = True  # the other half went: this one must notice
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

    async def _upstream(self) -> Pipe:
        if self._server is None or self._server.gone:
            self._server = await connect(*self._listener.upstream)
        return self._server

    async def _requests(self, wire: Wire) -> None:
        self._client.on_idle = self._left
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
                raise NotSpoken  # that the client has finished is passed on, and what the service may still say
            self.busy = True
            if server is not None:
                server.on_idle = None
            if not await self._handle(wire, request):
                if self._client.buffer and self._server is not None:
                    raise NotSpoken  # what the client sent beyond the last request arrives too
                return

    def _spoke(self) -> None:
        """The service said something, or finished, though nothing was asked."""
        server, client = self._server, self._client
        if server is None or client.gone:
            return
        if server.buffer:
            client.write(server.take(len(server.buffer)))
        if server.broken:
            client.reset()
        elif server.ended:
            client.finish()

    def _left(self) -> None:
        """The client said something, or finished, while it waits for a reply."""
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
        client, listener = self._client, self._listener
        self.busy = False

        async def pump(source: Pipe, target: Pipe, way: Direction) -> None:
            while part := await source.some():
                if (barred := self._board.barred(listener.service, listener.writer, way)) is not None:
                    barred.struck("bytes")
                    await barred.until_ended()
                    raise _Reset
                await target.send(part)
            if source.broken:
                raise _Reset
            target.finish()

        both = [
            asyncio.ensure_future(pump(client, server, "requests")),
            asyncio.ensure_future(pump(server, client, "replies")),
        ]

        def lost() -> None:
            if client.lost or server.lost:  # one end is no more, though its half had finished
                for task in both:
                    task.cancel()

        client.on_idle = server.on_idle = lost
        try:
            await asyncio.wait(both, return_when=asyncio.FIRST_EXCEPTION)
            for task in both:
                if task.done() and not task.cancelled():
                    task.result()
            if client.broken or server.broken:
                raise _Reset
        finally:
            for task in both:
                task.cancel()
                task.add_done_callback(_quietly)

    # -- one request ---------------------------------------------------------------------------------------------------

    async def _handle(self, wire: Wire, request: Request) -> bool:
        """Whether the connection goes on."""
        listener, board = self._listener, self._board
        # By the end of a request its writer may be doing something else.
        outcome = _Outcome(next(iter(request.ops), None) or board.op(listener.writer), board.now())
        plan = board.plan(listener.serves(request), listener.writer, request)
        try:
            if plan.fault is None and plan.hold is None and not plan.delays and plan.throttle is None:
                goes_on = await self._plainly(wire, request, outcome)
            else:
                goes_on = await _Struck(self, wire, request, plan, outcome).go()
        finally:
            listener.note(request, outcome, plan)
        if self._upload is not None:
            await self._after_early_answer(goes_on)
        return goes_on and not request.last

    async def _plainly(self, wire: Wire, request: Request, outcome: _Outcome) -> bool:
        self._open = True
        try:
            reply = await self.forward(wire, request)
            return await self.answer(wire, request, reply, outcome)
        finally:
            self._open = False

    async def forward(self, wire: Wire, request: Request, *, throttle: Fault | None = None) -> Reply:
        """Send a request on, and read as much of the reply as says what it is: it may come before all of the request was sent."""
        server = await self._upstream()
        if request.message.complete:
            await _slowly(server, await request.message.whole(), throttle)
            if self._client.ended:
                self._left()
            return await self._final(wire, server, request)
        upload = self._upload = asyncio.ensure_future(self._send(server, request, throttle))
        reading = asyncio.ensure_future(self._final(wire, server, request))
        try:
            await asyncio.wait({upload, reading}, return_when=asyncio.FIRST_COMPLETED)
            if upload.done():
                self._upload = None
                if isinstance(upload.exception(), NotSpoken):
                    raise NotSpoken
                if self._client.ended:
                    self._left()  # else the service has gone: what it said last is read
            return await reading
        finally:
            reading.cancel()
            reading.add_done_callback(_quietly)

    async def _send(self, server: Pipe, request: Request, throttle: Fault | None) -> None:
        async for part in request.message.parts():
            await _slowly(server, part, throttle)

    async def _after_early_answer(self, goes_on: bool) -> None:
        """The rest of the request still goes to the service. Raises NotSpoken when no further request can come after it."""
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
        """What was taken from the client's pipe was sent: nothing is lost."""
        upload, self._upload = self._upload, None
        if upload is not None:
            upload.cancel()
            await asyncio.wait({upload})
            _quietly(upload)

    async def _final(self, wire: Wire, server: Pipe, request: Request) -> Reply:
        """The reply that is not an interim one (HTTP's 1xx); those are passed on."""
        while True:
            reply = await wire.reply(server, request)
            if not interim(reply):
                return reply
            if reply.status == "100" and request.granted:
                request.granted = False
            else:
                await self._client.send(await reply.message.whole())

    async def answer(
        self, wire: Wire, request: Request, reply: Reply, outcome: _Outcome, *, throttle: Fault | None = None
    ) -> bool:
        """Pass a reply on; whether the connection goes on."""
        if request.kind == "load" and self._board.remembers:
            try:
                data = await reply.message.whole()
            except NotSpoken:
                await self._client.send(reply.message.read)
                raise
            if reply.ok:
                body = data.partition(b"\r\n\r\n")[2]  # an HTTP head has the time in it
                self._board.keep(self._listener.key(request), reply.location or body or data, data)
        async for part in reply.message.parts():
            await _slowly(self._client, part, throttle)
        outcome.told(reply)
        return not reply.last

    async def say(self, data: bytes) -> None:
        """Send the client what the service did not say."""
        await self._client.send(data)

    async def swallow(self, request: Request) -> None:
        """Read the rest of a request that nobody gets."""
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
        """The connection to the service, which somebody else ends; the next request makes a new one."""
        server, self._server = self._server, None
        if server is not None:
            server.on_idle = None
        return server

    def adopt(self, work: Coroutine[Any, Any, None]) -> None:
        """Something that goes on when this connection is over."""
        self._listener.adopt(work)


class _Outcome:
    """What became of a request, for the log.

    Args:
        op: the operation that it is of: the one that it names, else what its writer was doing when it began.
        began: when it began, by the log's clock.
    """

    __slots__ = ("began", "location", "op", "status", "struck")

    def __init__(self, op: str | None, began: int) -> None:
        self.op = op
        self.began = began
        self.status = ""
        self.location: str | None = None
        self.struck: list[str] = []

    def sent_again(self, now: int) -> None:
        """From now on it is the same request's second time."""
        self.began, self.status, self.location, self.struck = now, "", None, ["duplicate: sent again"]

    def told(self, reply: Reply) -> None:
        self.status, self.location = reply.status, reply.location


class _Struck:
    """A request that something happens to."""

    def __init__(self, on: Connection, wire: Wire, request: Request, plan: Plan, outcome: _Outcome) -> None:
        self._on = on
        self._wire = wire
        self._request = request
        self._plan = plan
        self._outcome = outcome
        self._fault = plan.fault
        self._throttle = None if plan.throttle is None else plan.throttle.fault

    async def go(self) -> bool:
        """Whether the connection goes on."""
        for armed, seconds in self._plan.delays:
            self._hit(armed)
            await asyncio.sleep(seconds)
        if self._plan.throttle is not None:
            self._hit(self._plan.throttle)
        hold, fault = self._plan.hold, self._fault
        if fault is None:
            if hold is not None:
                hold.reached.set()
                await hold.until_released()
            try:
                return await self._pass()
            finally:
                if hold is not None:
                    hold.passed.set()
        if fault.verb == "late":
            return await self._late(fault)
        if fault.verb in APPLIED or fault.verb == "duplicate":
            return await self._applied(fault)
        if hold is not None:
            hold.reached.set()
            await hold.until_released()
            hold.passed.set()
        return await self._before(fault)

    def _hit(self, armed: Armed | None) -> None:
        if armed is not None:
            armed.struck(self._request.kind)
            self._outcome.struck.append(armed.fault.name)

    def _did(self) -> None:
        self._hit(self._plan.strike)
        if self._plan.hold is not None and self._fault is not None:
            self._outcome.struck.append(self._fault.name)

    def _did_not(self, why: str) -> None:
        if self._plan.strike is not None:
            self._plan.strike.spared()
        if self._plan.hold is not None:
            self._plan.hold.problem = why

    async def _pass(self) -> bool:
        reply = await self._on.forward(self._wire, self._request, throttle=self._throttle)
        return await self._on.answer(self._wire, self._request, reply, self._outcome, throttle=self._throttle)

    async def _tell(self, fault: Fault) -> bool:
        """Send the error; without one in this protocol the connection is reset."""
        error = self._wire.error(self._request, fault)
        if error is None:
            raise _Reset
        self._outcome.status = f"{fault.status or fault.sqlstate or 'error'} (nemesis)"
        await self._on.say(error)
        return True

    async def _before(self, fault: Fault) -> bool:
        """Verbs by which the service learns nothing, or nothing else than what was asked."""
        on, request = self._on, self._request
        if fault.verb == "stale":
            old = on._board.older(on._listener.key(request))
            if old is None:
                self._did_not("no older reply is known")
                return await self._pass()
            self._did()
            await on.swallow(request)
            self._outcome.status = "stale (nemesis)"
            await on.say(old)
            return True
        if fault.verb == "partition":
            self._did()
            strike = self._plan.strike
            if fault.direction == "replies":
                reply = await on.forward(self._wire, request)
                await reply.message.whole()
                self._outcome.told(reply)
            self._outcome.status += " (nemesis: lost)"
            if strike is not None:
                await strike.until_ended()
            raise _Reset
        self._did()
        if fault.verb == "refuse":
            self._outcome.status = "refused (nemesis)"
            raise _Reset
        await on.swallow(request)
        if fault.verb == "drop-request":
            self._outcome.status = "dropped (nemesis)"
            raise _Reset
        return await self._tell(fault)  # reject

    async def _applied(self, fault: Fault) -> bool:
        """Verbs by which the service does as it was asked, and the client does not hear of it."""
        on, request, hold = self._on, self._request, self._plan.hold
        if fault.verb == "duplicate":
            await on.keep_whole(request)
        reply: Reply | None = None
        try:
            reply = await on.forward(self._wire, request)
            data = await reply.message.whole()
        except (NotSpoken, Gone, OSError) as e:
            self._did_not(f"the service did not answer it: {e}" if str(e) else "the service did not answer it")
            if hold is not None:
                hold.reached.set()
            if reply is not None:
                await on.say(reply.message.read)
            raise
        finally:
            if hold is not None:
                hold.passed.set()
        if not reply.ok:
            self._did_not(f"the service refused it ({reply.status}), so nothing was applied")
        if hold is not None:
            hold.reached.set()
            await hold.until_released()
        if not reply.ok:
            return await on.answer(self._wire, request, reply, self._outcome)
        self._did()
        self._outcome.told(reply)
        if fault.verb == "answer":
            done = self._outcome.status
            goes_on = await self._tell(fault)
            self._outcome.status = f"{done}, told {self._outcome.status}"
            return goes_on and not reply.last
        self._outcome.status += " (nemesis: not told)"
        if fault.verb == "duplicate":
            return await self._again()
        if fault.verb == "cut":
            await on.say(data[: max(1, len(data) // 2)])
            await asyncio.sleep(0.02)  # let it arrive: a reset overtakes what is under way
        raise _Reset

    async def _again(self) -> bool:
        """Send the request a second time. Each of the two has a line in the log: what the service did, and what the client was told."""
        on, request = self._on, self._request
        on._listener.note(request, self._outcome, self._plan)
        self._outcome.sent_again(on._board.now())
        reply = await on.forward(self._wire, request)
        return await on.answer(self._wire, request, reply, self._outcome)

    async def _late(self, fault: Fault) -> bool:
        on, request, hold = self._on, self._request, self._plan.hold
        await on.keep_whole(request)
        server = on.give_up_server()
        if server is None:
            raise Gone
        listener, wire = on._listener, self._wire

        async def later() -> None:
            pipe = server
            try:
                if hold is None:
                    await asyncio.sleep(fault.seconds or 0.0)
                else:
                    await hold.until_released()
                if not wire.session and server.ended:
                    pipe = await connect(*listener.upstream)
                outcome = _Outcome(self._outcome.op, on._board.now())
                await pipe.send(await request.message.whole())
                while interim(reply := await wire.reply(pipe, request)):
                    pass
                await reply.message.whole()
                if not reply.ok:
                    self._did_not(f"the service refused it ({reply.status}), so nothing was applied")
                outcome.told(reply)
                outcome.struck = ["late: sent"]
                listener.note(request, outcome, self._plan)
            except (ConnectionError, OSError, NotSpoken) as e:
                self._did_not(f"the service did not answer it: {e}" if str(e) else "the service did not answer it")
            finally:
                if hold is not None:
                    hold.passed.set()
                server.close()
                pipe.close()

        self._did()
        if hold is not None:
            hold.reached.set()
        on.adopt(later())
        if wire.session:
            self._outcome.status = "cut (nemesis)"
            raise _Reset
        return await self._tell(fault)


def _quietly(task: asyncio.Future[Any]) -> None:
    if not task.cancelled():
        task.exception()


async def _slowly(target: Pipe, data: bytes, throttle: Fault | None) -> None:
    """Send, at the throttle's rate if there is one."""
    if throttle is None or throttle.rate is None:
        await target.send(data)
        return
    step = max(1, throttle.rate // 20)
    for at in range(0, len(data), step):
        await target.send(data[at : at + step])
        await asyncio.sleep(len(data[at : at + step]) / throttle.rate)


def interim(reply: Reply) -> bool:
    """Whether another reply follows (HTTP's 1xx)."""
    return len(reply.status) == 3 and reply.status[0] == "1"


class Listener:
    """A port on loopback that stands for a service, for one writer (None: for a catalog server, before its database)."""

    def __init__(
        self, board: Board, service: Service, writer: int | None, protocol: WireName, upstream: tuple[str, int]
    ) -> None:
        self.board = board
        self.service: Service = service
        self.writer = writer
        self.protocol: WireName = protocol
        self.upstream = upstream
        self.port = 0
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._connections: set[Connection] = set()
        self._adopted: set[asyncio.Task[None]] = set()

    @property
    def host(self) -> str:
        """Always loopback."""
        return "127.0.0.1"

    @property
    def address(self) -> str:
        """``host:port``."""
        return f"{self.host}:{self.port}"

    def serves(self, request: Request) -> Service:
        """Whose request it is: where the object store decides commits (the Hadoop catalog), those are the catalog's."""
        return "catalog" if self.service == "store" and request.kind == "commit" else self.service

    def key(self, request: Request) -> str:
        """The same for requests that ask the same service for the same thing."""
        return f"{self.service} {request.key}"

    async def start(self) -> None:
        """Listen on a free port."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: Pipe(self._accept), self.host, 0, backlog=256)
        self.port = self._server.sockets[0].getsockname()[1]

    def _accept(self, client: Pipe) -> None:
        connection = Connection(self, client)
        self._connections.add(connection)
        task = asyncio.ensure_future(connection.run())
        self._tasks.add(task)

        def done(task: asyncio.Task[None]) -> None:
            self._tasks.discard(task)
            self._connections.discard(connection)
            _quietly(task)

        task.add_done_callback(done)

    def adopt(self, work: Coroutine[Any, Any, None]) -> None:
        """Carry on with ``work`` though its connection may end."""
        task = asyncio.ensure_future(work)
        self._adopted.add(task)
        task.add_done_callback(self._adopted.discard)

    @property
    def busy(self) -> bool:
        """Whether a request is under way."""
        return bool(self._adopted) or any(c.busy for c in self._connections)

    def note(self, request: Request, outcome: _Outcome, plan: Plan) -> None:
        """Log a request."""
        board = self.board
        ended = board.now()
        record: dict[str, Any] = {
            "time": outcome.began,
            "writer": self.writer,
            "service": self.serves(request),
            "kind": request.kind,
            "what": request.what,
            "table": request.table,
            "op": outcome.op,
            "base": request.base,
            "new": request.new,
            "location": outcome.location,
            "status": outcome.status or "no reply",
            "ms": round((ended - outcome.began) / 1e6, 3),
        }
        if outcome.struck:
            record["faults"] = outcome.struck
        if plan.hold is not None:
            record["held"] = True
        board.log({k: v for k, v in record.items() if v is not None})

    async def stop(self) -> None:
        """Close the port and what is open."""
        if self._server is not None:
            self._server.close()
        for task in [*self._tasks, *self._adopted]:
            task.cancel()
        await asyncio.gather(*self._tasks, *self._adopted, return_exceptions=True)


class Proxies:
    """Any number of listeners in one thread; use in ``with``. Leaving ends all faults first, and waits a little for what is under way."""

    def __init__(self, board: Board) -> None:
        self.board = board
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, name="nemesis-proxies", daemon=True)
        self._listeners: list[Listener] = []
        self._ready = threading.Event()

    def __enter__(self) -> Proxies:
        self._thread.start()
        self._ready.wait()
        return self

    def __exit__(self, *_: object) -> None:
        self.board.heal()
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(LAST_ANSWERS + 10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    def listen(self, service: Service, writer: int | None, protocol: WireName, host: str, port: int) -> Listener:
        """A new listener before ``host:port``. Raises OSError when no port can be had."""
        listener = Listener(self.board, service, writer, protocol, (host, port))
        asyncio.run_coroutine_threadsafe(listener.start(), self._loop).result(10)
        self._listeners.append(listener)
        return listener

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.call_soon(self._ready.set)
        try:
            self._loop.run_forever()
        finally:
            self._loop.close()

    async def _end(self) -> None:
        ends = self._loop.time() + LAST_ANSWERS
        while any(x.busy for x in self._listeners) and self._loop.time() < ends:
            await asyncio.sleep(0.01)
        for listener in self._listeners:
            await listener.stop()
