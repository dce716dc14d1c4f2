"""A request that a fault, a delay or a hold strikes, and what its verb can do with it."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Protocol

from nemesis.faults.fault import Fault
from nemesis.faults.relay import Reset
from nemesis.faults.verb import AfterService, BeforeService
from nemesis.proxy.board import Armed, Board, RequestPlan
from nemesis.proxy.outcome import Note, Outcome
from nemesis.proxy.route import Route
from nemesis.wires.pipe import Gone, Pipe, connect
from nemesis.wires.wire import NotSpoken, Reply, Request, Wire


class Link(Protocol):
    """The connection that a request came on, and its connection to the service."""

    @property
    def route(self) -> Route:
        """Where it leads."""

    @property
    def board(self) -> Board:
        """Where faults are armed."""

    @property
    def note(self) -> Note:
        """Logs a request."""

    async def forward(self, wire: Wire, request: Request, *, rate: int | None = None) -> Reply:
        """Send a request on, and read the beginning of the reply."""

    async def answer(
        self, wire: Wire, request: Request, reply: Reply, outcome: Outcome, *, rate: int | None = None
    ) -> bool:
        """Pass a reply on. Returns whether the connection goes on."""

    async def say(self, data: bytes) -> None:
        """Send the client bytes that the service did not send."""

    async def swallow(self, request: Request) -> None:
        """Read the rest of a request that the service never gets."""

    async def keep_whole(self, request: Request) -> None:
        """Read the rest of a request into memory."""

    def give_up_server(self) -> Pipe | None:
        """Hand over the connection to the service."""

    async def connect_again(self) -> None:
        """Replace the connection to the service if the service ended it."""

    def adopt(self, work: Coroutine[Any, Any, None]) -> None:
        """Carry on with ``work`` when this connection is over."""


class FaultedRequest:
    """A request that something happens to: the ``Relay`` of its verb."""

    def __init__(self, link: Link, wire: Wire, request: Request, plan: RequestPlan, outcome: Outcome) -> None:
        self._link = link
        self._wire = wire
        self._request = request
        self._plan = plan
        self._outcome = outcome
        self._reply: Reply | None = None

    async def go(self) -> bool:
        """Do what is planned. Returns whether the connection goes on."""
        for armed, seconds in self._plan.delays:
            self._count(armed)
            await asyncio.sleep(seconds)
            await self._waited()
        if self._plan.throttle is not None:
            self._count(self._plan.throttle)
        fault = self._plan.fault
        if fault is None:
            return await self._held()
        if isinstance(fault.action, AfterService):
            return await self.after_service(fault.action)
        assert isinstance(fault.action, BeforeService)
        return await self.before_service(fault.action)

    async def _held(self) -> bool:
        """No fault strikes it: it waits at the gate if it is held, and passes."""
        hold = self._plan.hold
        if hold is not None:
            hold.reached.set()
            await hold.until_released()
        try:
            if hold is not None:
                await self._waited()
            return await self.pass_on()
        finally:
            if hold is not None:
                hold.passed.set()

    async def _waited(self) -> None:
        """To be called when the request has waited: a server ends a connection that was silent for long (Jetty: 30 s)."""
        if not self._wire.session:
            await self._link.connect_again()

    async def before_service(self, verb: BeforeService) -> bool:
        """Carry out a verb that acts before the service has the request."""
        hold = self._plan.hold
        if hold is not None and not verb.answers_first:
            hold.reached.set()
            await hold.until_released()
            hold.passed.set()
        return await verb.strike(self)

    async def after_service(self, verb: AfterService) -> bool:
        """Carry out a verb that acts when the service has done what it was asked. A refused request is passed on."""
        link, request, hold = self._link, self._request, self._plan.hold
        if verb.sends_again:
            await link.keep_whole(request)
        reply: Reply | None = None
        try:
            reply = self._reply = await link.forward(self._wire, request)
            await reply.whole()
        except (NotSpoken, Gone, OSError) as e:
            self.note_miss(_unanswered(e))
            if hold is not None:
                hold.reached.set()
            if reply is not None:
                await link.say(reply.message.read)
            raise
        finally:
            if hold is not None:
                hold.passed.set()
        if not reply.ok:
            self.note_miss(_refused(reply))
        if hold is not None:
            hold.reached.set()
            await hold.until_released()
        if not reply.ok:
            return await self.pass_reply()
        if hold is not None and verb.sends_again:
            await self._waited()
        self.note_strike()
        self.note_reply()
        return await verb.strike(self, reply)

    # -- the relay of its verb -----------------------------------------------------------------------------------------

    @property
    def fault(self) -> Fault:
        """The fault that strikes the request."""
        assert self._plan.fault is not None
        return self._plan.fault

    @property
    def session(self) -> bool:
        """Whether the connection has a session."""
        return self._wire.session

    @property
    def status(self) -> str:
        """What the log will say about the request's outcome."""
        return self._outcome.status

    @status.setter
    def status(self, status: str) -> None:
        self._outcome.status = status

    async def swallow(self) -> None:
        """Read the rest of the request; the service never gets it."""
        await self._link.swallow(self._request)

    async def forward(self) -> Reply:
        """Send the request to the service, and read the beginning of its reply."""
        self._reply = await self._link.forward(self._wire, self._request)
        return self._reply

    async def pass_reply(self) -> bool:
        """Send the client the service's last reply. Returns whether the connection goes on."""
        assert self._reply is not None, "a reply can be passed on only after the request was forwarded"
        return await self._link.answer(self._wire, self._request, self._reply, self._outcome)

    async def pass_on(self) -> bool:
        """Forward the request and pass the reply on, throttled if a fault says so. Returns whether the connection goes on."""
        rate = self._plan.rate
        reply = await self._link.forward(self._wire, self._request, rate=rate)
        return await self._link.answer(self._wire, self._request, reply, self._outcome, rate=rate)

    async def say(self, data: bytes) -> None:
        """Send the client these bytes."""
        await self._link.say(data)

    async def answer_error(self) -> bool:
        """Send the client the error that the fault describes; reset the connection if the protocol has no errors."""
        fault = self.fault
        error = self._wire.error(self._request, fault)
        if error is None:
            raise Reset
        self._outcome.status = f"{self._wire.code(fault)} (nemesis)"
        await self._link.say(error)
        return True

    async def send_later(self, seconds: float, label: str) -> None:
        """Send the request to the service later, on a connection that the client no longer uses. Notes the strike."""
        link, hold = self._link, self._plan.hold
        try:
            await link.keep_whole(self._request)
            if (server := link.give_up_server()) is None:
                raise Gone
        except BaseException:  # the client left in the middle of it, for example: the service never gets it
            if hold is not None:
                hold.passed.set()
            raise
        self.note_strike()
        if hold is not None:
            hold.reached.set()
        link.adopt(self._send_alone(server, seconds, label))

    async def _send_alone(self, server: Pipe, seconds: float, label: str) -> None:
        pipe, hold, wire = server, self._plan.hold, self._wire
        outcome: Outcome | None = None
        try:
            if hold is None:
                await asyncio.sleep(seconds)
            else:
                await hold.until_released()
            if not wire.session and server.ended:
                pipe = await connect(*self._link.route.upstream)
            if pipe.lost:
                raise Gone
            outcome = Outcome(self._outcome.op, self._link.board.now(), self._outcome.nth)
            outcome.begin_again(label, outcome.began)
            await pipe.send(await self._request.message.whole())
            while (reply := await wire.reply(pipe, self._request)).interim:
                pass
            await reply.whole()
            if not reply.ok:
                self.note_miss(_refused(reply))
            outcome.note_reply(reply)
        except (ConnectionError, OSError, NotSpoken) as e:
            self.note_miss(_unanswered(e))
        finally:
            if outcome is not None:  # it was sent, so the service may have carried it out, whether it answered or not
                self._link.note(self._request, outcome, self._plan)
            if hold is not None:
                hold.passed.set()
            server.close()
            pipe.close()

    def begin_line(self, label: str) -> None:
        """Log the request as it stands, and begin another line for what happens next."""
        self._link.note(self._request, self._outcome, self._plan)
        self._outcome.begin_again(label, self._link.board.now())

    def older_reply(self) -> bytes | None:
        """The reply to the same request from before the table's last change; None if it is not known."""
        return self._link.board.older(self._link.route.key(self._request))

    def unchanged(self, of: bytes | None = None) -> bytes | None:
        """The reply that tells the client that the answer which it has is the newest; None if it did not ask, or has another than ``of``."""
        return self._wire.unchanged(self._request, of)

    async def until_ended(self) -> None:
        """Wait until the fault ends; at a gate, where it strikes one request, it has ended already."""
        if self._plan.strike is not None:
            await self._plan.strike.until_ended()

    def _count(self, armed: Armed) -> None:
        armed.note_strike(self._request.kind)
        self._outcome.struck.append(armed.fault.name)

    def note_strike(self) -> None:
        """Count the request as struck."""
        if self._plan.strike is not None:
            self._count(self._plan.strike)
        if self._plan.hold is not None and self._plan.fault is not None:
            self._outcome.struck.append(self._plan.fault.name)

    def note_miss(self, why: str) -> None:
        """Count the request as missed: the fault could not strike it."""
        if self._plan.strike is not None:
            self._plan.strike.missed_strike()
        if self._plan.hold is not None:
            self._plan.hold.problem = why
            self._plan.hold.missed(why)

    def note_reply(self) -> None:
        """Write the status of the service's last reply into the log."""
        assert self._reply is not None, "there is a reply only after the request was forwarded"
        self._outcome.note_reply(self._reply)


def _refused(reply: Reply) -> str:
    return f"the service refused it ({reply.status}), so nothing was applied"


def _unanswered(error: BaseException) -> str:
    return f"the service did not answer it: {error}" if str(error) else "the service did not answer it"
