"""The switchboard between those who decide what goes wrong (schedule, scenario, a person) and the proxies that carry it out.

Faults are armed and end here, operations are held here, and every request is logged here. Used from any thread; the proxies' own
thread asks ``plan`` for each request.
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
from nemesis.wires.wire import Request

LONGEST_HOLD = 120.0
"""Seconds after which a hold gives way by itself, so that a script that forgot it ends."""
KEPT_REPLIES = 1 << 20
"""Bytes up to which a reply is kept for ``stale``."""


class Hold:
    """One request of a kind of one operation (the ``nth``, from 1), and what becomes of it.

    Attributes:
        fault: what the writer gets in place of the reply; None: it is only held.
        reached: set when the request has arrived; of a fault that lets it be applied, when it was; of ``late``, when it was answered.
        passed: set when the service has answered it.
        problem: why it was not as it was to be.
    """

    def __init__(self, op: str, fault: Fault | None, service: Service, kind: str, longest: float, nth: int = 1) -> None:
        self.op = op
        self.left = nth
        """How many such requests there are still to come, this one the last."""
        self.fault = fault
        self.service = service
        self.kind = kind
        self.reached = threading.Event()
        self.passed = threading.Event()
        self.problem: str | None = None
        self._longest = longest
        self._released = threading.Event()

    def release(self) -> None:
        """Let it go on; idempotent, also before it has come."""
        self._released.set()

    async def until_released(self) -> None:
        """Wait for ``release``; gives way, and notes it as a problem, after the longest hold."""
        ends = time.monotonic() + self._longest
        while not self._released.is_set() and time.monotonic() < ends:
            await asyncio.sleep(0.005)  # set by another thread
        if not self._released.is_set():
            self.problem = f"it was not released within {self._longest:g} s, and gave way"


class Armed:
    """A fault that is on.

    Attributes:
        hits: request kind → how often it struck.
        missed: how often it would have, but the service refused the request, or what it needs was not there.
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
        """Whether it takes a request; to be asked once for each, in their order."""
        f = self.fault
        if f.service != service or (f.writers is not None and writer not in f.writers):
            return False
        if f.request not in (kind, "any"):
            return False
        self._seen += 1
        if f.nth is not None and self._seen != f.nth:
            return False
        if f.times is not None and self._taken >= f.times:
            return False
        if f.probability < 1 and self._rng.random() >= f.probability:
            return False
        self._taken += 1
        return True

    def wait(self, verb: Delaying) -> float:
        """Seconds that the next request which it strikes waits; to be asked once for each, in their order."""
        return verb.wait(self.fault, self._jitter)

    def note_strike(self, kind: str) -> None:
        """Count a request, of this kind, that it struck."""
        self.hits[kind] += 1

    def missed_strike(self) -> None:
        """Count a request that it was to strike and could not."""
        self._taken -= 1
        self.missed += 1

    def end(self) -> None:
        """No more; what it holds up goes on."""
        self._ended.set()

    async def until_ended(self) -> None:
        """Wait for ``end``."""
        while not self._ended.is_set():
            await asyncio.sleep(0.01)  # set by another thread


@dataclass(slots=True)
class Plan:
    """What is to happen to one request.

    Attributes:
        delays: each with its seconds.
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


QUIET = Plan()


class Board:
    """All that is armed.

    Args:
        seed: of the draws of faults with a probability or a jitter.
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
        self._file_lock = threading.Lock()
        self._replies: dict[str, list[tuple[bytes | str, bytes]]] = {}
        self.remembers = False
        """Whether loads are kept for ``stale``; on from the first such fault, or by hand before."""

    # -- by those who decide -------------------------------------------------------------------------------------------

    def begin(self, now: Callable[[], int], log: Path | None, seed: int | None = None) -> None:
        """A run begins.

        Args:
            now: the log's clock: ns since the start of the run.
            log: the file for one line of JSON a request; None: no log.
            seed: the run's, where the board serves several runs; None: the board's goes on.
        """
        self.finish()
        if seed is not None:
            with self._lock:
                self._seed, self._count = seed, 0
        with self._file_lock:
            self._now = now
            self._current.clear()
            self._file = None if log is None else log.open("a", buffering=1 << 16)

    def finish(self) -> None:
        """A run is over: its log is closed."""
        with self._file_lock:
            if self._file is not None:
                self._file.close()
                self._file = None

    def arm(self, fault: Fault) -> Armed:
        """Begin a fault of connections. Raises ValueError for another one."""
        if not fault.on_connections:
            raise ValueError(f"{fault.verb} is not a fault of connections")
        with self._lock:
            self._count += 1
            armed = Armed(fault, f"{self._seed}/{self._count}", self._count)
            self._armed.append(armed)
            self.remembers |= fault.action.remembers_loads
        return armed

    def end(self, armed: Armed) -> None:
        """End it; idempotent."""
        armed.end()
        with self._lock:
            if armed in self._armed:
                self._armed.remove(armed)

    def heal(self) -> None:
        """End every fault, and let everything go that is held."""
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
    ) -> Hold:
        """Hold the ``nth`` request of ``kind`` that operation ``op`` makes; ``fault``: what the writer gets.

        A catalog server's request to its ``database`` is an operation's when one of the writers is doing that.

        Raises:
            ValueError: ``fault`` does not decide what becomes of one request.
        """
        if fault is not None and not isinstance(fault.action, RequestVerb):
            raise ValueError(
                f"{fault.verb} does not decide what becomes of one request, so no held request can be given it"
            )
        hold = Hold(op, fault, service, kind, longest, nth)
        with self._lock:
            self._holds.append(hold)
        return hold

    def invoked(self, writer: int, op: str) -> None:
        """From now on the requests of ``writer`` are operation ``op``'s: a writer does one at a time."""
        self._current[writer] = op

    # -- by the proxies ------------------------------------------------------------------------------------------------

    def plan(self, service: Service, writer: int | None, request: Request) -> Plan:
        """What is to happen to a request; to be asked once for each."""
        if not self._armed and not self._holds:
            return QUIET
        plan = Plan()
        with self._lock:
            doing: set[str | None] = set(request.ops)
            if not doing:
                doing = {*self._current.values()} if writer is None else {self._current.get(writer)}
            for hold in self._holds:
                if (hold.service, hold.kind) == (service, request.kind) and hold.op in doing:
                    hold.left -= 1
                    if hold.left:
                        continue
                    self._holds.remove(hold)  # one request only: retries pass
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

    def op(self, writer: int | None) -> str | None:
        """What a writer is doing."""
        return self._current.get(writer)

    def older(self, key: str) -> bytes | None:
        """The reply before the newest different one; None when there is none."""
        known = self._replies.get(key, ())
        return known[0][1] if len(known) > 1 else None

    def keep(self, key: str, version: bytes | str, reply: bytes) -> None:
        """Remember a table load's reply; ``version`` is another one when the table is."""
        known = self._replies.setdefault(key, [])
        if len(reply) <= KEPT_REPLIES and (not known or known[-1][0] != version):
            known.append((version, reply))
            del known[:-2]

    def log(self, record: Mapping[str, Any]) -> None:
        """One request, when it is over."""
        if self._file is None:
            return
        line = json.dumps(record, separators=(",", ":")) + "\n"
        with self._file_lock:
            if self._file is not None:
                self._file.write(line)

    def now(self) -> int:
        """The log's clock."""
        return self._now()

    def close(self) -> None:
        """End everything, and the log."""
        self.heal()
        self.finish()
