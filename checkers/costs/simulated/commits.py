"""Optimistic commits, simulated event by event.

A writer goes round like this; *v* is the version of its table::

    pause ── prepare ──┬── refresh ── validate ── manifests ── metadata ── swap ──┬── committed: v + 1 ── …
             reads v   │   reads v    what came                          compares │
                       │              since the scan?                          v  │
                       │              └─ aborted ── …                             │ refused
                       └──────────────────── backoff ─────────────────────────────┴─ retries used up: failed ── …

* The scan sees the version at the start of ``prepare``, an attempt the version when its refresh begins at the catalog; the swap compares
  when the catalog has done its work, or before as well (``ServiceTimes.first_check``). In between lies the window in which another commit wins.
* ``ServiceTimes`` says which parts of a phase share the cores, which only pass, and which stand in the catalog's queue.
* Without a length, it is the steady state: writers start at random within one round, so that they do not march in step, and what happens
  until each of them has finished an operation on average and a fifth of all operations are done is cut off. With a length, it is a run: all
  start together, and everything counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import inf
from random import Random
from typing import Any

from checkers.costs.simulated.load import ClosedLoop, RunLength
from checkers.costs.simulated.machine import CPU, DELAY, SEIZE, Machine, Need, Process, Station
from checkers.costs.simulated.measured import MeasuredOperation
from checkers.costs.simulated.phasetimes import (
    BETWEEN,
    COLD,
    CONSTANT,
    HOT,
    ONCE,
    OPERATION_PHASES,
    RETRY,
    ServiceTimes,
)
from checkers.timeline.metrics import quantile

MANY_RETRIES = 8
"""Retries of a commit that count as many."""
WARM_UP = 0.2
"""The share of the operations that is cut off."""
MOST_EVENTS = 800_000
"""Where a simulation ends at the latest: a few seconds of computing."""


@dataclass(frozen=True, slots=True)
class Simulated:
    """What came out, without the warm-up.

    Attributes:
        figures: those of :data:`checkers.costs.measures.FIGURES` that need no real run, and besides ``retries_of_retried`` (retries for
            each commit that needed any), ``attempts_mean`` (for each operation), ``exhausted`` and ``invalid`` (shares of operations that
            used up their retries, or were refused by validation). A figure is absent if there was nothing to count.
        phases_ms: phase → its mean length, queueing included; without phases that did not happen.
        operations: how many were counted.
        seconds: of simulated time in which they ended.
        cut_short: whether it ended at :data:`MOST_EVENTS`, with fewer operations than asked for.
    """

    figures: Mapping[str, float]
    phases_ms: Mapping[str, float]
    operations: int
    seconds: float
    cut_short: bool


def simulate(
    load: ClosedLoop, service: ServiceTimes, seed: int, *, commits: int = 4000, length: RunLength | None = None
) -> Simulated:
    """One simulation; the same arguments give the same result.

    Args:
        commits: how many operations to count, after the warm-up; at least one for each writer.
        length: of a run to imitate; ``commits`` does not count then.
    """
    simulation = _Simulation(load, service, seed, length)
    return simulation.steady(max(commits, load.writers)) if length is None else simulation.whole()


def simulated_run(
    load: ClosedLoop, service: ServiceTimes, seed: int, length: RunLength
) -> tuple[Simulated, list[EndedOperation]]:
    """The simulation of a run, and its operations in the order in which they ended."""
    simulation = _Simulation(load, service, seed, length)
    found = simulation.whole()
    return found, simulation.done


@dataclass(frozen=True, slots=True)
class EndedOperation:
    """An operation that ended.

    Attributes:
        start: seconds, as ``end``.
        outcome: ``ok``, ``exhausted``: its retries are used up, or ``invalid``: validation refused it.
        retries: refused swaps.
        recorded: its attempts as a history would record them (:mod:`checkers.costs.attempts`), without requests and bytes.
    """

    writer: int
    start: float
    end: float
    outcome: str
    attempts: int
    retries: int
    recorded: list[dict[str, Any]]

    @property
    def operation(self) -> MeasuredOperation:
        """As a run would have recorded it."""
        return MeasuredOperation((self.end - self.start) * 1000, self.outcome == "ok", self.recorded)


@dataclass(slots=True)
class _Table:
    version: int = 0


@dataclass(slots=True)
class _Simulation:
    load: ClosedLoop
    service: ServiceTimes
    seed: int
    length: RunLength | None
    machine: Machine = field(init=False)
    rng: Random = field(init=False)
    done: list[EndedOperation] = field(default_factory=list)
    first: list[tuple[float, float]] = field(default_factory=list)
    retries: list[tuple[float, float]] = field(default_factory=list)
    spent: dict[str, list[tuple[float, float]]] = field(init=False)

    def __post_init__(self) -> None:
        self.machine = Machine(self.service.cores)
        self.rng = Random(self.seed)
        self.spent = {p: [] for p in OPERATION_PHASES}

    def steady(self, count: int) -> Simulated:
        """Until so many operations ended after the warm-up."""
        self._start(self.load.interval_s + self.load.pace_s + self.service.operation_s)
        wanted = count + max(self.load.writers, int(count * WARM_UP / (1 - WARM_UP)))
        done, machine = self.done, self.machine
        while len(done) < wanted and machine.events < MOST_EVENTS:
            machine.step()
        cut_short = len(done) < wanted
        return self._result(min(wanted - count, len(done) // 2) if cut_short else wanted - count, cut_short)

    def whole(self) -> Simulated:
        """A run from start to end."""
        self._start(0.0)
        machine = self.machine
        while machine.events < MOST_EVENTS and machine.step():
            pass
        return self._result(0, machine.events >= MOST_EVENTS)

    def _start(self, within: float) -> None:
        load = self.load
        tables = [_Table() for _ in range(load.tables)]
        catalog, connections = Station(self.service.catalog_servers), Station(self.service.connections)
        for writer in range(load.writers):
            trip = load.round_trips_s[writer % len(load.round_trips_s)]
            process = self._writer(writer, tables[writer % load.tables], trip, catalog, connections)
            self.machine.start(process, self.rng.uniform(0, within) if within else 0.0)

    # --- a writer

    def _writer(self, writer: int, table: _Table, trip: float, catalog: Station, connections: Station) -> Process:
        load, machine, present = self.load, self.machine, self.service.phases
        written = tuple(p for p in ("manifests", "metadata") if p in present)
        planned, known = machine.now, table.version
        leaves, until = inf, inf
        if self.length is not None:
            leaves, until = self.length.share(load.writers, writer), self.length.seconds or inf
        while leaves > 0:
            leaves -= 1
            if load.pace_s:
                planned += self.rng.uniform(0, 2 * load.pace_s)
                yield DELAY, planned - machine.now
            if machine.now >= until:
                return
            start, scanned = machine.now, table.version
            if ONCE in present:
                yield from self._timed(ONCE, self._work(ONCE))
            first, wait, attempt, retries = machine.now, 0.0, 0, 0
            recorded: list[dict[str, Any]] = []
            while True:
                attempt += 1
                begin = machine.now
                record: dict[str, Any] = {"wait_ms": wait * 1000}
                recorded.append(record)
                read: list[int] = []
                refresh = self._refresh(table, trip, catalog, connections, read, known if attempt == 1 else None)
                yield from self._timed("refresh", refresh, record)
                sort = RETRY if attempt > 1 else HOT if read[0] == known else COLD
                record["parent"] = "hot" if sort == HOT else "cold"
                known = read[0]
                if "validate" in present:
                    yield from self._timed("validate", self._work("validate", sort), record)
                between, scanned = read[0] - scanned, read[0]
                if between and self.rng.random() < load.conflicts.refuses(load.isolation, between):
                    outcome = record["outcome"] = "invalid"
                    break
                for phase in written:
                    yield from self._timed(phase, self._work(phase, sort), record)
                won: list[int] = []
                yield from self._timed("swap", self._swap(table, trip, read[0], catalog, connections, won), record)
                (self.first if attempt == 1 else self.retries).append((machine.now, (machine.now - begin) * 1000))
                record["outcome"] = "committed" if won else "refused"
                if won:
                    known = won[0]
                    outcome = "ok"
                    break
                retries += 1
                if not load.backoff.retries.allows_another(attempt, machine.now - first):
                    outcome = "exhausted"
                    break
                wait = load.backoff.wait(attempt, wait, self.rng)
                yield DELAY, wait
            self.done.append(EndedOperation(writer, start, machine.now, outcome, attempt, retries, recorded))
            if BETWEEN in present:
                yield from self._timed(BETWEEN, self._work(BETWEEN))
            # A process that needs no time at all would never let the others go on.
            yield DELAY, max(load.interval_s, 1e-9)

    def _timed(self, phase: str, steps: Iterator[Need], into: dict[str, Any] | None = None) -> Iterator[Need]:
        start = self.machine.now
        yield from steps
        took = self.machine.now - start
        self.spent[phase].append((self.machine.now, took))
        if into is not None:
            into[f"{phase}_ms"] = took * 1000

    def _factor(self, phase: str) -> float:
        shape = self.service.shapes.get(phase, CONSTANT)
        return shape[0] if len(shape) == 1 else self.rng.choice(shape)

    def _work(self, phase: str, sort: str = HOT, factor: float | None = None) -> Iterator[Need]:
        """The part of a phase outside the catalog's queue."""
        demand = self.service.demand(phase)
        times = (self._factor(phase) if factor is None else factor) * self.service.factor(phase, sort)
        shared = not self.load.own_cores or phase == "swap"
        yield DELAY, demand.wait_s * times
        yield CPU if shared else DELAY, demand.cpu_s * times

    def _refresh(
        self,
        table: _Table,
        trip: float,
        catalog: Station,
        connections: Station,
        read: list[int],
        known: int | None,
    ) -> Iterator[Need]:
        factor = self._factor("refresh")
        held = self.service.demand("refresh").catalog_s * factor
        yield SEIZE, connections
        yield DELAY, trip / 2
        if held:
            yield SEIZE, catalog
        read.append(table.version)
        if held:
            yield DELAY, held
            self.machine.free(catalog)
        yield DELAY, trip / 2
        self.machine.free(connections)
        sort = RETRY if known is None else HOT if read[0] == known else COLD
        yield from self._work("refresh", sort, factor)

    def _swap(
        self, table: _Table, trip: float, base: int, catalog: Station, connections: Station, won: list[int]
    ) -> Iterator[Need]:
        factor = self._factor("swap")
        held = self.service.demand("swap").catalog_s * factor
        yield SEIZE, connections
        yield DELAY, trip / 2 + self.load.swap_latency_s
        before = self.service.first_check
        yield from self._work("swap", HOT, factor * before)
        if before == 1 or table.version == base:
            yield from self._work("swap", HOT, factor * (1 - before))
            if held:
                yield SEIZE, catalog
                yield DELAY, held
            if table.version == base:
                table.version += 1
                won.append(table.version)
            if held:
                self.machine.free(catalog)
            if not won:
                yield DELAY, self.service.late_refusal_s
        yield DELAY, trip / 2
        self.machine.free(connections)

    # --- the figures

    def _result(self, warm_up: int, cut_short: bool) -> Simulated:
        done = self.done
        counted = done[warm_up:]
        begin = done[warm_up - 1].end if warm_up else 0.0
        seconds = (done[-1].end if done else 0.0) - begin
        outcomes = Counter(d.outcome for d in counted)
        committed = [d for d in counted if d.outcome == "ok"]
        n, failed = len(committed), len(counted) - len(committed)
        retries, each = [d.retries for d in committed], Counter(d.writer for d in committed)
        retried = sum(r > 0 for r in retries)
        latencies = sorted((d.end - d.start) * 1000 for d in committed)
        figures: dict[str, float | None] = {
            "commits_per_s": _share(n, seconds),
            "operations_per_s": _share(n, seconds),
            **{f"write_p{q}_ms": quantile(latencies, q / 100) for q in (50, 95, 99)},
            "aborted": _share(failed, len(counted)),
            "retried": _share(retried, n),
            "retry_success": _share(retried, retried + failed),
            "retries_mean": _share(sum(retries), n),
            "retries_8": _share(sum(r >= MANY_RETRIES for r in retries), n),
            "retries_of_retried": _share(sum(retries), retried),
            "fairness": _share(n**2, self.load.writers * sum(c * c for c in each.values())),
            "attempt_ms": quantile([took for time, took in self.first if time > begin], 0.5),
            "retry_ms": quantile([took for time, took in self.retries if time > begin], 0.5),
            "attempts_mean": _share(sum(d.attempts for d in counted), len(counted)),
            "exhausted": _share(outcomes["exhausted"], len(counted)),
            "invalid": _share(outcomes["invalid"], len(counted)),
        }
        means = {p: _mean([took for time, took in spent if time > begin]) for p, spent in self.spent.items()}
        return Simulated(
            {k: v for k, v in figures.items() if v is not None},
            {p: m * 1000 for p, m in means.items() if m is not None},
            len(counted),
            seconds,
            cut_short,
        )


def _share(part: float, whole: float) -> float | None:
    return part / whole if whole and whole < inf else None


def _mean(values: list[float]) -> float | None:
    return sum(values) / len(values) if values else None
