"""The switchboard between whoever decides what goes wrong (a schedule, a scenario, a person) and the proxies that carry it out.

The board arms and ends faults, holds operations, and logs every request. Any thread may use it. The thread of the proxies asks ``plan`` what
is to happen to each request.
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, TextIO

from nemesis.faults.fault import Fault
from nemesis.faults.fields import Direction, RequestKind, Service
from nemesis.faults.verb import ConnectionVerb, Delaying, RequestVerb, Throttling
from nemesis.order.gate import Gate, RequestTurn
from nemesis.order.moment import POLLS, Moment
from nemesis.order.policy import Policy
from nemesis.wires.wire import Request

LONGEST_HOLD = 120.0
"""Seconds after which a hold releases itself, so that a script ends that forgot to release it."""
KEPT_REPLIES = 1 << 20
"""Longest reply, in bytes, that is kept for verbs that answer from the past."""


class Hold:
    """Stops one request of an operation at the gate: the ``nth`` of its kind, from 1.

    Attributes:
        since: the request of the operation that must come first; None: none, or it came.
        fault: the fault that strikes the request, and with ``times`` those of its kind after it, so many in all; None: it is only held.
        reached: set when the request arrives; with a verb that acts after the service, when the service has carried the request out; with
            a verb that answers first, when the writer is answered.
        passed: set when the service has answered the request, or never will.
        problem: why the hold did not work; None if it did.
        missed: called with the reason when the fault could not strike the request.
    """

    def __init__(
        self,
        op: str,
        fault: Fault | None,
        service: Service,
        kind: str,
        longest: float,
        nth: int = 1,
        since: tuple[Service, RequestKind] | None = None,
    ) -> None:
        self.op = op
        self.since = since
        self.pending = nth
        """How many such requests are still to come, the held one included."""
        self.fault = fault
        self.service = service
        self.kind = kind
        self.left = 1 if fault is None or fault.times is None else fault.times
        """How many requests are still to be struck."""
        self.reached = threading.Event()
        self.passed = threading.Event()
        self.problem: str | None = None
        self.missed: Callable[[str], object] = lambda why: None
        self._longest = longest
        self._released = threading.Event()

    def release(self) -> None:
        """Let the request go on, also when it has not arrived yet. Releasing twice does nothing more."""
        self._released.set()

    async def until_released(self) -> None:
        """Wait for ``release``. After the longest hold it goes on all the same, and notes that as its problem."""
        ends = time.monotonic() + self._longest
        while not self._released.is_set() and time.monotonic() < ends:
            await asyncio.sleep(0.005)  # set by another thread
        if not self._released.is_set():
            self.problem = f"it was not released within {self._longest:g} s, and gave way"


class Armed:
    """A fault that is on.

    Attributes:
        hits: request kind → how often it struck.
        missed: how often it could not strike: the service refused the request, or what the verb needs was not there.
    """

    def __init__(self, fault: Fault, seed: str, number: int) -> None:
        self.fault = fault
        self.number = number
        self.hits: Counter[str] = Counter()
        self.missed = 0
        self._rng = Random(seed)
        self._jitter = Random(f"{seed}/jitter")
        self._seen = 0
        self._taken = 0
        self._ended = threading.Event()

    @property
    def on(self) -> bool:
        """Whether it has not ended."""
        return not self._ended.is_set()

    def strikes(self, service: Service, writer: int | None, kind: str) -> bool:
        """Whether it strikes a request. The board asks once for each request, in their order."""
        f = self.fault
        if f.service != service or (f.writers is not None and writer not in f.writers):
            return False
        if f.request not in (kind, "any"):
            return False
        self._seen += 1
        if f.nth is not None and self._seen != f.nth:
            return False
        if f.after is not None and self._seen <= f.after:
            return False
        if f.times is not None and self._taken >= f.times:
            return False
        if f.probability < 1 and self._rng.random() >= f.probability:
            return False
        self._taken += 1
        return True

    def wait(self, verb: Delaying) -> float:
        """Seconds that the next request waits. The board asks once for each request that it strikes, in their order."""
        return verb.wait(self.fault, self._jitter)

    def note_strike(self, kind: str) -> None:
        """Count a request, of this kind, that it struck."""
        self.hits[kind] += 1

    def missed_strike(self) -> None:
        """Count a request that it was to strike and could not."""
        self._taken -= 1
        self.missed += 1

    def end(self) -> None:
        """End the fault; the connections that it blocks are reset."""
        self._ended.set()

    async def until_ended(self) -> None:
        """Wait for ``end``."""
        while not self._ended.is_set():
            await asyncio.sleep(0.01)  # set by another thread


@dataclass(slots=True)
class RequestPlan:
    """What is to happen to one request.

    Attributes:
        strike: the fault that strikes the request.
        delays: the faults that delay it, each with its seconds.
        throttle: the fault that slows its bytes down.
        hold: what stops it at the gate.
    """

    strike: Armed | None = None
    delays: list[tuple[Armed, float]] = field(default_factory=list)
    throttle: Armed | None = None
    hold: Hold | None = None

    @property
    def rate(self) -> int | None:
        """Bytes a second at which the request and its reply flow; None: full speed."""
        verb = None if self.throttle is None else self.throttle.fault.action
        if self.throttle is None or not isinstance(verb, Throttling):
            return None
        return verb.bytes_per_second(self.throttle.fault)

    @property
    def fault(self) -> Fault | None:
        """The fault that strikes it; None when it is only delayed, throttled or held."""
        if self.hold is not None and self.hold.fault is not None:
            return self.hold.fault
        return None if self.strike is None else self.strike.fault


QUIET = RequestPlan()


class Board:
    """Everything that is armed or held.

    Args:
        seed: for the draws of faults with a probability or a jitter.
    """

    def __init__(self, seed: int = 0) -> None:
        self._seed = seed
        self._lock = threading.Lock()
        self._armed: list[Armed] = []
        self._holds: list[Hold] = []
        self._reached: list[Hold] = []
        self._current: dict[int | None, str] = {}
        self._count = 0
        self._now: Callable[[], int] = time.monotonic_ns
        self._file: TextIO | None = None
        self.unwritten: OSError | None = None
        """Why the log lacks requests; None if it has all of them."""
        self._file_lock = threading.Lock()
        self._gate: Gate | None = None
        self._numbers: dict[str, Counter[tuple[Service, RequestKind]]] = {}
        self._replies: dict[str, list[tuple[bytes | str, bytes]]] = {}
        self.remembers = False
        """Whether the replies to table loads are kept. The first armed fault that needs them sets it; a run may set it before."""

    # -- for those who decide -------------------------------------------------------------------------------------------

    def begin(self, now: Callable[[], int], log: Path | None, seed: int | None = None) -> None:
        """Begin a run.

        Args:
            now: the clock of the log, in ns since the start of the run.
            log: the file that gets one line of JSON for each request; None: no log.
            seed: the seed of the run, if the board serves several runs; None: the draws of the board go on.
        """
        self.finish()
        if seed is not None:
            with self._lock:
                self._seed, self._count = seed, 0
        with self._file_lock:
            self._now = now
            self._current.clear()
            self._numbers.clear()
            self._gate = None
            self.unwritten = None
            self._file = None if log is None else log.open("a", buffering=1 << 16)

    def finish(self) -> None:
        """End the run: close its log. What cannot be written then is told by ``unwritten``."""
        with self._file_lock:
            if self._file is not None:
                try:
                    self._file.close()
                except OSError as e:
                    self.unwritten = self.unwritten or OSError(e.errno, e.strerror, self._file.name)
                self._file = None

    def arm(self, fault: Fault) -> Armed:
        """Begin a fault of connections. Raises ValueError for a fault of another kind."""
        if not fault.on_connections:
            raise ValueError(f"{fault.verb} is not a fault of connections")
        with self._lock:
            self._count += 1
            armed = Armed(fault, f"{self._seed}/{self._count}", self._count)
            self._armed.append(armed)
            self.remembers |= fault.action.remembers_loads
        return armed

    def end(self, armed: Armed) -> None:
        """End a fault; ending it twice does nothing more."""
        armed.end()
        with self._lock:
            if armed in self._armed:
                self._armed.remove(armed)

    def heal(self) -> None:
        """End every fault, release every hold, and open the gate: from now on nobody decides the order."""
        if self._gate is not None:
            self._gate.open()
        with self._lock:
            armed, self._armed = self._armed, []
            holds, self._holds, self._reached = [*self._holds, *self._reached], [], []
        for a in armed:
            a.end()
        for h in holds:
            h.release()

    def hold(
        self,
        op: str,
        fault: Fault | None = None,
        *,
        service: Service = "catalog",
        kind: RequestKind = "commit",
        longest: float = LONGEST_HOLD,
        nth: int = 1,
        since: tuple[Service, RequestKind] | None = None,
    ) -> Hold:
        """Hold the ``nth`` request of ``kind`` that operation ``op`` makes; ``fault``: the fault that strikes it; None: it is only held.

        ``since``: count only after the operation's first request of that kind to that service. The first ``load`` since a ``write`` to the
        ``store`` is the refresh of a commit: the operation has scanned the table and written its files.

        A request of the catalog server to its ``database`` counts as the operation's while one of the writers performs that operation.

        Raises:
            ValueError: ``fault`` does not decide what becomes of one request.
        """
        if fault is not None and not isinstance(fault.action, RequestVerb):
            raise ValueError(
                f"{fault.verb} does not decide what becomes of one request, so no held request can be given it"
            )
        hold = Hold(op, fault, service, kind, longest, nth, since)
        with self._lock:
            self._holds.append(hold)
            self.remembers |= fault is not None and fault.action.remembers_loads
        return hold

    def follow(self, policy: Policy) -> None:
        """From now on, until ``heal``, a policy decides in which order loads, commits and locks of the catalog go."""
        self._gate = Gate(policy)

    def invoked(self, writer: int, op: str) -> None:
        """From now on the requests of ``writer`` belong to operation ``op``: a writer performs one operation at a time."""
        before = self._current.get(writer)
        self._current[writer] = op
        if before is not None:
            self._numbers.pop(before, None)
        if self._gate is not None:
            self._gate.invoked(writer, op)

    def completed(self, writer: int, op: str) -> None:
        """The operation has ended, however. Its writer's requests still belong to it, until the next one is invoked."""
        if self._gate is not None:
            self._gate.completed(writer, op)

    def finished(self, writer: int) -> None:
        """The writer invokes no further operation for now."""
        if self._gate is not None:
            self._gate.finished(writer)

    @property
    def waiting(self) -> tuple[Moment, ...]:
        """The requests that wait for their turn."""
        return () if self._gate is None else self._gate.waiting

    # -- for the proxies ------------------------------------------------------------------------------------------------

    def moment(self, service: Service, writer: int | None, request: Request) -> Moment | None:
        """Number a request among those of its operation; None if it belongs to none. The proxies ask once for each request."""
        op = self.op_of(writer, request)
        if op is None or request.what in POLLS:
            return None
        numbers = self._numbers.setdefault(op, Counter())
        numbers[service, request.kind] += 1
        return Moment(op, service, request.kind, numbers[service, request.kind])

    async def turn(self, writer: int | None, moment: Moment | None) -> RequestTurn | None:
        """Wait until the order lets a request go; None if the order does not concern it. Who got a turn must call ``over``."""
        gate = self._gate
        if gate is None or moment is None or writer is None or not gate.concerns(moment):
            return None
        return await gate.comes(writer, moment)

    def over(self, turn: RequestTurn) -> None:
        """A request that had its turn was answered, or never will be."""
        if self._gate is not None:
            self._gate.passed(turn)

    def plan(self, service: Service, writer: int | None, request: Request, moment: Moment | None = None) -> RequestPlan:
        """What is to happen to a request. The proxies ask once for each request, when it goes."""
        if self._gate is not None and moment is not None and (forced := self._forced(self._gate, moment)) is not None:
            return RequestPlan(hold=forced)
        if not self._armed and not self._holds:
            return QUIET
        plan = RequestPlan()
        with self._lock:
            doing: set[str | None] = set(request.ops)
            if not doing:
                doing = {*self._current.values()} if writer is None else {self._current.get(writer)}
            for hold in self._holds:
                if hold.op not in doing:
                    continue
                if hold.since is not None:
                    if hold.since == (service, request.kind):
                        hold.since = None
                    continue
                if (hold.service, hold.kind) == (service, request.kind):
                    hold.pending -= 1
                    if hold.pending > 0:
                        continue
                    hold.left -= 1
                    if not hold.left:  # the writer's later requests pass
                        self._holds.remove(hold)
                        self._reached.append(hold)
                    plan.hold = hold
                    return plan
            for armed in self._armed:
                verb = armed.fault.action
                if plan.strike is not None and isinstance(verb, RequestVerb):
                    continue
                if armed.strikes(service, writer, request.kind):
                    if isinstance(verb, Delaying):
                        plan.delays.append((armed, armed.wait(verb)))
                    elif isinstance(verb, Throttling):
                        plan.throttle = armed
                    else:
                        plan.strike = armed
        return plan

    def _forced(self, gate: Gate, moment: Moment) -> Hold | None:
        """A hold with the fault that the order wants to strike this request; it is released, unless the service gets the request later."""
        strike = gate.strike(moment)
        if strike is None:
            return None
        hold = Hold(moment.op, strike.fault, moment.service, moment.kind, LONGEST_HOLD)
        hold.missed = lambda why: gate.missed(moment, why)
        if strike.later:
            gate.will_send(moment, hold)
        else:
            hold.release()
        return hold

    def partition_on(self, service: Service, writer: int | None, way: Direction = "requests") -> Armed | None:
        """The fault that lets no byte pass in this direction; None when there is none. One in the direction of requests also keeps new
        connections out."""
        for armed in list(self._armed):
            f = armed.fault
            if not isinstance(f.action, ConnectionVerb) or not f.action.shuts(f, way):
                continue
            if f.service == service and (f.writers is None or writer in f.writers):
                return armed
        return None

    def op_of(self, writer: int | None, request: Request) -> str | None:
        """The operation that a request names, else the one that its writer performs."""
        return next(iter(request.ops), None) or self.op(writer)

    def op(self, writer: int | None) -> str | None:
        """The operation that a writer performs; None before its first."""
        return self._current.get(writer)

    def older(self, key: str) -> bytes | None:
        """The reply from before the last change; None if it is not known."""
        known = self._replies.get(key, ())
        return known[0][1] if len(known) > 1 else None

    def keep(self, key: str, version: bytes | str, reply: bytes) -> None:
        """Remember the reply to a table load. ``version`` differs when the table has changed."""
        known = self._replies.setdefault(key, [])
        if len(reply) <= KEPT_REPLIES and (not known or known[-1][0] != version):
            known.append((version, reply))
            del known[:-2]

    def log(self, record: Mapping[str, Any]) -> None:
        """Write the line of a request that has ended."""
        if (file := self._file) is None:
            return
        line = json.dumps(record, separators=(",", ":")) + "\n"
        with self._file_lock:
            if self._file is file and self.unwritten is None:
                try:
                    file.write(line)
                except OSError as e:  # the request was answered: its connection must not feel this
                    self.unwritten = OSError(e.errno, e.strerror, file.name)

    def now(self) -> int:
        """The time by the log's clock, in ns."""
        return self._now()

    def close(self) -> None:
        """End every fault and hold, and close the log."""
        self.heal()
        self.finish()
