"""The gate: requests wait here until the policy lets them go. Waiting blocks no other connection."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable
from typing import Protocol

from nemesis.order.moment import Moment
from nemesis.order.policy import HeldRequest, Policy, Strike

TICK = 0.02
"""Seconds between two questions to the policy while a request waits: a decision may fall due with time."""


class Later(Protocol):
    """A request that the service gets when it is released."""

    @property
    def passed(self) -> threading.Event:
        """Set when the service has answered the request, or never will."""

    def release(self) -> None:
        """Let the service have it."""


class RequestTurn:
    """A request's turn: it comes, waits, goes, and is answered. Made and awaited in the event loop of the proxies."""

    def __init__(self, held: HeldRequest) -> None:
        self.held = held
        self._loop = asyncio.get_running_loop()
        self._goes = asyncio.Event()
        self.through = False
        self.dropped = False

    def go(self) -> None:
        """It may go. Callable from any thread."""
        self.through = True
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits
            self._loop.call_soon_threadsafe(self._goes.set)

    async def wait(self, ask: Callable[[], None]) -> None:
        """Wait until it may go; ``ask`` the policy again and again."""
        while not self._goes.is_set():
            ask()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._goes.wait(), TICK)


class Gate:
    """A policy in use. Any thread may call it, except where a method says otherwise.

    Args:
        now: a monotonic clock, in seconds.
    """

    def __init__(self, policy: Policy, now: Callable[[], float] = time.monotonic) -> None:
        self._policy = policy
        self._now = now
        self._lock = threading.RLock()
        self._count = 0
        self._turns: dict[int, RequestTurn] = {}
        self._later: dict[Moment, Later] = {}
        self._sending: dict[Moment, Later] = {}
        self._open = False

    def invoked(self, writer: int, op: str) -> None:
        """A writer begins an operation."""
        with self._lock:
            self._policy.invoked(writer, op, self._now())
            self._decide()

    def completed(self, writer: int, op: str) -> None:
        """A writer's operation has ended, however."""
        with self._lock:
            self._policy.completed(writer, op, self._now())
            self._decide()

    def finished(self, writer: int) -> None:
        """A writer invokes no further operation for now."""
        with self._lock:
            self._policy.finished(writer, self._now())
            self._decide()

    @property
    def waiting(self) -> tuple[Moment, ...]:
        """The requests that wait, in the order in which they came."""
        with self._lock:
            return tuple(t.held.moment for t in self._turns.values() if not t.through)

    def concerns(self, moment: Moment) -> bool:
        """Whether the policy decides when this request goes."""
        with self._lock:
            return self._policy.concerns(moment)

    async def comes(self, writer: int, moment: Moment) -> RequestTurn | None:
        """Wait until a request may go; None: the gate is open. To be called in the event loop of the proxies."""
        with self._lock:
            if self._open:
                return None
            self._count += 1
            turn = RequestTurn(HeldRequest(self._count, writer, moment, self._now()))
            self._turns[turn.held.number] = turn
            self._policy.arrives(turn.held)
        try:
            await turn.wait(self._ask)
            if turn.dropped:
                raise ConnectionResetError("the service never gets this request")
        except BaseException:
            self.passed(turn)  # its connection ends: nobody waits for it any more
            raise
        return turn

    def passed(self, turn: RequestTurn) -> None:
        """A request that went was answered, or never will be."""
        with self._lock:
            self._turns.pop(turn.held.number, None)
            self._policy.passed(turn.held, self._now())
            self._decide()

    def strike(self, moment: Moment) -> Strike | None:
        """The fault that the policy wants to strike a request; None: none."""
        with self._lock:
            return None if self._open else self._policy.strike(moment)

    def missed(self, moment: Moment, why: str) -> None:
        """The fault could not strike the request."""
        with self._lock:
            self._policy.missed(moment, why)

    def will_send(self, moment: Moment, later: Later) -> None:
        """The service gets this request later: when the policy says so, or when the gate opens."""
        with self._lock:
            self._later[moment] = later
            if self._open:
                later.release()

    def open(self) -> None:
        """Let everything go, now and from now on."""
        with self._lock:
            self._open = True
            for turn in self._turns.values():
                turn.go()
            for later in (*self._later.values(), *self._sending.values()):
                later.release()

    def _ask(self) -> None:
        with self._lock:
            self._decide()

    def _decide(self) -> None:
        if self._open:
            return
        now = self._now()
        for moment, later in [*self._sending.items()]:
            if later.passed.is_set():
                del self._sending[moment]
                self._policy.sent(moment, now)
        for held in self._policy.decide(now):
            if (turn := self._turns.get(held.number)) is not None:
                turn.go()
        for held in self._policy.drops():
            if (turn := self._turns.get(held.number)) is not None:
                turn.dropped = True
                turn.go()
        for moment in self._policy.sends():
            if (known := self._later.pop(moment, None)) is not None:
                self._sending[moment] = known
                known.release()
            else:
                self._policy.sent(moment, now)
