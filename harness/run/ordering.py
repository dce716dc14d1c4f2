"""Who decides in which order the requests of a run's writers reach the catalog: a seeded scheduler, or a recorded run."""

from __future__ import annotations

import re
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any

from checkers.coverage.pair import Pair
from checkers.evidence.history import NEMESIS
from checkers.evidence.recorder import Recorder
from checkers.evidence.runfolder import RunFolder
from harness.run.errors import RunError
from harness.run.rarities import Rarities
from harness.run.recorded import recording_of
from nemesis.faults.fault import Fault
from nemesis.faults.schedule import PlannedFault
from nemesis.faults.verb import ConnectionVerb, RequestVerb
from nemesis.order.coverage import Rarest
from nemesis.order.moment import Moment
from nemesis.order.policy import Policy
from nemesis.order.priority import Expected, Priority
from nemesis.order.replay import REPLAY_WAIT, Fence, Forced, ReplayOrder, first_difference
from workloads.file import order as orders
from workloads.file.recording import RecordedFault, RecordedOperation, Recording
from workloads.file.workload import Length, Phase, Workload
from workloads.generator import PlannedOperation

REQUESTS = 4
"""Loads and commits of an operation, on average: a read makes two, a write that nobody disturbs five (measured on ``rest`` and ``jdbc``)."""
RATE = 1.0
"""Operations of a writer in a second that are assumed where one phase of a workload is limited by operations and another one by time."""
POLL_S = 0.005
"""Seconds until what waits is looked at again: little beside a commit, which is several requests to a catalog and a store."""
WAIT_S = REPLAY_WAIT
"""Seconds for which an operation waits for those that had ended before it in the recording."""
CLIENTS_WAIT_S = int(REPLAY_WAIT) + 30
OP_TIMEOUT_S = 300.0
"""Least ``op_timeout`` of a replay: an operation waits at the gate for what it did not wait for in the recorded run."""


def patience(seconds: int) -> dict[str, str]:
    """Catalog properties by which a client waits so long for the answer to a request; PyIceberg waits for ever."""
    return {
        "rest.client.socket-timeout-ms": f"{seconds * 1000}",
        "http-client.apache.socket-timeout-ms": f"{seconds * 1000}",  # of S3FileIO
        "duckdb.set.http_timeout": f"{seconds}",
    }


class Ordering(ABC):
    """Decides the order of one run.

    Attributes:
        policy: decides.
        own_faults: whether it decides about the run's faults, too.
    """

    policy: Policy
    own_faults = False

    @abstractmethod
    def outcome(self, folder: RunFolder) -> dict[str, Any]:
        """The key ``order`` of ``run.json``, when the run is over and its files are closed."""

    @abstractmethod
    def words(self, outcome: dict[str, Any]) -> list[str]:
        """The outcome in sentences for the terminal."""

    def begins(self, recorder: Recorder) -> None:
        """The load begins."""
        return None

    def ends(self) -> None:
        """The load is over."""
        return None

    def invokes(self, op: str, planned: PlannedOperation, engine: str) -> None:
        """A writer of this engine is about to invoke an operation."""
        return None

    def schedule(self) -> Iterator[PlannedFault]:
        """The run's faults, if it decides about them; waits until each one is due."""
        yield from ()

    def began(self) -> None:
        """The last fault of ``schedule`` has begun."""
        return None

    def maintenance(self, fault: Fault) -> PlannedOperation | None:
        """The operation that the nemesis invokes for a fault; None: it is drawn."""
        return None


def expected(workload: Workload) -> Expected:
    """How long the run of a workload will be."""
    lengths = [p.length for p in workload.resolved_phases()]
    if all(x.ops for x in lengths):
        return Expected(steps=REQUESTS * sum(x.ops or 0 for x in lengths))
    per_second = RATE * workload.writers
    return Expected(seconds=sum(x.time or (x.ops or 0) / per_second for x in lengths))


class Prioritised(Ordering):
    """PCT of some depth (``nemesis.order.priority``)."""

    def __init__(self, workload: Workload, depth: int, writers: int, seed: int) -> None:
        self._depth = depth
        self.policy: Priority = Priority(writers, depth, expected(workload), seed)

    def outcome(self, folder: RunFolder) -> dict[str, Any]:
        p = self.policy
        return {
            "by": f"priority({self._depth})",
            "requests": p.steps,
            "changes": p.changes,
            "gave_way": p.gave_way,
            "blind": p.blind,
        }

    def words(self, outcome: dict[str, Any]) -> list[str]:
        o = outcome
        changes = f"{o['changes']} of {self._depth - 1} changes of priority"
        words = [f"{o['requests']} requests by priority, {changes}"]
        if o["gave_way"]:
            words.append(f"{o['gave_way']} requests had waited too long, and went whatever their priority")
        if o["blind"]:
            words.append(f"{o['blind']} decisions left out a writer whose statement still computed")
        return words


class Guided(Ordering):
    """By coverage (``nemesis.order.coverage``).

    Args:
        seen: interleaving → how often earlier runs exercised it.
    """

    def __init__(self, writers: int, seed: int, seen: Mapping[Pair, int]) -> None:
        self._rarities = Rarities(seen)
        self.policy: Rarest = Rarest(writers, self._rarities, seed)

    def invokes(self, op: str, planned: PlannedOperation, engine: str) -> None:
        self._rarities.invokes(op, planned, engine)

    def outcome(self, folder: RunFolder) -> dict[str, Any]:
        p = self.policy
        return {
            "by": "coverage",
            "requests": p.steps,
            "interleavings": p.made,
            "new": p.first,
            "gave_way": p.gave_way,
            "blind": p.blind,
        }

    def words(self, outcome: dict[str, Any]) -> list[str]:
        o = outcome
        words = [
            f"{o['requests']} requests by coverage, for {o['interleavings']} interleavings, {o['new']} of them new"
        ]
        return words + _delays(o)


def _delays(o: dict[str, Any]) -> list[str]:
    """What kept a policy from deciding as it should, in sentences."""
    words = []
    if o["gave_way"]:
        words.append(f"{o['gave_way']} requests had waited too long, and went whatever they were worth")
    if o["blind"]:
        words.append(f"{o['blind']} decisions left out a writer whose statement still computed")
    return words


class Replaying(Ordering):
    """Forces a recording (``nemesis.order.replay``). For one run.

    Args:
        stop: when it is set, nobody waits any more.
        of: what people call the recording.
    """

    own_faults = True

    def __init__(self, recording: Recording, stop: threading.Event, run: str = "the recording") -> None:
        self.recording = recording
        self._stop = stop
        self._run = run
        self._faults = recording.faults
        self._recorder: Recorder | None = None
        self._strikes_left: dict[int, int] = {}
        self._struck: dict[int, int] = {}
        self._report = threading.Lock()
        self._current: tuple[int, RecordedFault] | None = None
        self._late: list[str] = []
        self._load_over = threading.Event()
        places = {m: n for n, m in reversed([*enumerate(recording.order)])}
        self._timed = [
            (n, f, 0 if f.after is None else places.get(f.after, -1) + 1)
            for n, f in enumerate(self._faults)
            if not f.of_requests and not _only_slow(f.fault)
        ]
        if self._timed and recording.workload.nemesis is None:
            names = ", ".join(f.fault.name for _, f, _ in self._timed)
            self._late.append(f"the recording's workload has no nemesis, so none of these began: {names}")
            self._timed = []
        self.policy: ReplayOrder = ReplayOrder(
            recording.order,
            [
                Forced(n, f.fault, f.struck)
                for n, f in enumerate(self._faults)
                if isinstance(f.fault.action, RequestVerb)
            ],
            [Fence(str(n), index) for n, _, index in self._timed],
            struck=self._strikes,
        )
        for op in self._undrawn():
            self.policy.not_invoked(op)

    # -- the workload ----------------------------------------------------------------------------------------------------

    def workload(self) -> Workload:
        """The recording's workload: each phase as long as its operations are, and clients that are patient with a held request."""
        w = self.recording.workload
        phases = tuple(
            p.model_copy(
                update={"length": Length(ops=max(1, self._count(p))), "rate": None, "operations": p.operations}
            )
            for p in (w.phases or w.resolved_phases())
        )
        return w.model_copy(
            update={
                "length": None,
                "phases": phases,
                "rate": None,
                "op_timeout": max(w.op_timeout, OP_TIMEOUT_S),
                "catalog_properties": patience(CLIENTS_WAIT_S) | w.catalog_properties,
                "swap_latency": 0.0,
                "order": None,
            }
        )

    def _count(self, phase: Phase) -> int:
        return sum(o.phase == phase.name for o in self.recording.operations)

    def _undrawn(self) -> set[str]:
        """The operations that no writer's stream has, and no fault that is to begin."""
        w = self.recording.workload
        streams = {(p.name, n) for p in w.phases or w.resolved_phases() for n in w.members(p)}
        aimed_at = {f.target for _, f, _ in self._timed if f.fault.verb == "maintain"}
        return {o.op for o in self.recording.operations if (o.phase, o.writer) not in streams} - aimed_at

    def operations(self, workload: Workload, phase: Phase, writer: int, seed: int) -> Iterator[PlannedOperation]:
        """A writer's operations (:attr:`harness.run.settings.Settings.operations`), each after those that it came after."""
        tables = {t.name: t for t in workload.tables}
        own = [o for o in self.recording.operations if o.phase == phase.name and o.writer == writer]
        remaining = {o.op for o in own}
        try:
            for o in own:
                self._wait_for(o)
                self.policy.expects(writer, o.op)
                yield PlannedOperation(o.f, tables[o.table], dict(o.value))
                self.policy.over(o.op)
                remaining.discard(o.op)
        finally:
            for op in remaining:
                self.policy.not_invoked(op)

    def _wait_for(self, o: RecordedOperation) -> None:
        deadline = time.monotonic() + WAIT_S
        while not self._stop.is_set() and not all(self.policy.ended(op) for op in o.after):
            if self._stop.wait(POLL_S):
                return
            if time.monotonic() > deadline:
                ops = [op for op in o.after if not self.policy.ended(op)]
                with self._report:
                    self._late.append(f"{o.op} began before the end of {', '.join(ops)}, after {WAIT_S:g} s")
                return

    # -- faults ----------------------------------------------------------------------------------------------------------

    def begins(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._strikes_left = {n: len(f.struck) for n, f in enumerate(self._faults) if f.of_requests}

    def _strikes(self, number: int, moment: Moment) -> None:
        """Report the beginning and the end of a fault of requests: it is on from the first that it strikes to the last."""
        fault = self._faults[number].fault
        with self._report:
            if number not in self._struck:
                self._stop_all()  # faults follow one another
                self._event("start", fault, fault=fault.plain())
            self._struck[number] = self._struck.get(number, 0) + 1
            if self._struck[number] == self._strikes_left.get(number):
                self._stops(number)

    def _stops(self, number: int) -> None:
        f = self._faults[number]
        self._event("stop", f.fault, hits={f.struck[0].kind: self._struck[number]}, missed=0)

    def _event(self, what: str, subject: Fault, **more: Any) -> None:
        if self._recorder is not None:
            self._recorder.record("info", NEMESIS, f"{what}-{subject.slug}", value={"name": subject.name, **more})

    def _stop_all(self) -> None:
        for number, hits in self._struck.items():
            if hits < self._strikes_left.get(number, 0):
                self._stops(number)
                self._strikes_left[number] = hits

    def ends(self) -> None:
        self._load_over.set()
        with self._report:
            self._stop_all()
            self._recorder = None

    def schedule(self) -> Iterator[PlannedFault]:
        for n, f, index in self._timed:
            while not self.policy.has_passed(index):
                if self._stop.wait(POLL_S) or self._load_over.is_set():  # then nobody asks the policy any more
                    return
            self._current = (n, f)
            fault = _aimed(f, self.recording.workload.writers)
            yield PlannedFault(0.0, fault, f.fault.duration or 0.001)
            self.began()
            if f.fault.verb == "maintain" and f.target is not None:
                self.policy.not_invoked(f.target)  # else it has ended

    def began(self) -> None:
        if self._current is not None:
            self.policy.happened(str(self._current[0]))

    def maintenance(self, fault: Fault) -> PlannedOperation | None:
        if self._current is None:
            return None
        target = self._current[1].target
        recorded = next((o for o in self.recording.operations if o.op == target), None)
        if recorded is None:
            return None
        table = next(t for t in self.recording.workload.tables if t.name == recorded.table)
        self.policy.expects(recorded.writer, recorded.op)
        return PlannedOperation(recorded.f, table, dict(recorded.value))

    # -- afterwards ------------------------------------------------------------------------------------------------------

    def outcome(self, folder: RunFolder) -> dict[str, Any]:
        try:
            replayed = recording_of(folder).order
            difference = first_difference(self.recording.order, replayed, self.policy.labels)
        except RunError as e:
            difference = f"not known: {e}"
        return {
            "by": f"replay {self._run}",
            "forced": self.policy.forced,
            "expected": self.policy.expected,
            "commits": "same" if difference is None else difference,
            "unforced": [*self.policy.unforced(), *self._late],
        }

    def words(self, outcome: dict[str, Any]) -> list[str]:
        o = outcome
        words = [f"{o['forced']:,} of {o['expected']:,} requests as recorded"]
        same = o["commits"] == "same"
        words.append("the commits came in the recorded order" if same else f"the commits differ: {o['commits']}")
        return [*words, *o["unforced"]]


def _only_slow(fault: Fault) -> bool:
    """Whether a fault of connections only delays requests: their order has its effect already."""
    verb = fault.action
    if not isinstance(verb, ConnectionVerb):
        return False
    return not isinstance(verb, RequestVerb) and not (verb.shuts(fault, "requests") or verb.shuts(fault, "replies"))


def _aimed(f: RecordedFault, writers: int) -> Fault:
    """A fault of a driver strikes the writer whose driver it struck."""
    struck = re.fullmatch(r"w(\d+)(\.\d+)?", f.target or "")
    if f.fault.target != "driver" or struck is None or int(struck[1]) >= writers:
        return f.fault
    return f.fault.model_copy(update={"writers": (int(struck[1]),)})


def ordering_of(workload: Workload, writers: int, seed: int, seen: Mapping[Pair, int] | None = None) -> Ordering | None:
    """What ``order:`` of a workload asks for; None: nobody decides.

    Args:
        writers: their number, with those of the nemesis.
        seen: interleaving → how often earlier runs exercised it; guides an order by coverage.

    Raises:
        RunError: a replay, which needs the recording.
    """
    if workload.order is None:
        return None
    order = orders.parse(workload.order)
    if order.kind == "priority":
        return Prioritised(workload, order.depth, writers, seed)
    if order.kind == "coverage":
        return Guided(writers, seed, seen or {})
    if order.kind == "replay":
        raise RunError(f"order: {order}: only `icequake run` replays a run")
    return None
