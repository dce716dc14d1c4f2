"""The measures of one run, as numbers to compare with those of another run of the same workload.

A pure function of what a run stores: the evidence (history, table logs), its verdicts, and the requests that passed its proxies. It counts
operations of the workload's phases; setup, final reads and the nemesis' own maintenance count only for faults.

=============  =======================================================================================================
commit         an acknowledged operation that left a snapshot on main. A statement that changed nothing left none
write          an operation of a kind that can commit; the others are reads. Latency covers acknowledged ones, from
               invocation to completion as the orchestrator saw it; quantiles are nearest-rank
recovery       from the end of a fault that struck something (a stopped or killed process answers again) to the next
               acknowledged write of an affected writer; it includes the duration of that operation. A fault that ended
               after the last operation has none
requests       to catalog and store: those made by writes, acknowledged or not, with retries, divided by commits. To a
               catalog server's own database: all during the phases, as it is unknown which operation causes them. If a
               catalog server gives the writers the store's address, they share one connection to it, and it is unknown
               whose requests those are: they are listed (``store of all``), without a figure
=============  =======================================================================================================
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError

from checkers.costs import measured_attempts
from checkers.costs.attempts import CommitsMeasured
from checkers.costs.measured_attempts import TimedRequest
from checkers.evidence.evidence import Evidence
from checkers.evidence.history import NEMESIS, Event, Operation
from checkers.evidence.record import RecordError, decoded
from checkers.evidence.replace import replace
from checkers.judge.runfolder import Results
from checkers.retries import Retries, RetriesStats
from checkers.timeline.metrics import quantile
from checkers.timeline.operation_columns import AROUND
from checkers.verdict import Validity
from nemesis.faults.fault import Fault
from workloads.file.opened import lines
from workloads.operations.kinds import KINDS

S, MS = 1e9, 1e6
NOT_THE_WORKLOADS = (*AROUND, NEMESIS)
"""Phases whose operations do not belong to the workload."""

Unit = Literal["ms", "s", "share", "rate", "count"]
Better = Literal["less", "more"]


@dataclass(frozen=True, slots=True)
class Figure:
    """One number that a run measures, and its words: every page and the terminal take them from here.

    Attributes:
        name: what it is, where its group is said.
        short: its name above a narrow column, after the columns before it.
        unit: ``ms``, ``s``, ``share`` (0 … 1), ``rate`` (a second), ``count``.
        better: which direction is better.
        sentence: what is said of it in prose, with a place for the number; empty: nothing.
        missing: why it may be absent.
    """

    key: str
    group: str
    name: str
    short: str
    unit: Unit
    better: Better
    sentence: str = ""
    missing: str = "there was nothing to measure"

    @property
    def title(self) -> str:
        """What it is, where its group is not said: ``Latency of writes: median``."""
        return f"{self.group}: {self.name}" if self.group.startswith(("Latency", "After", "Cost")) else self.name


_NO_FAULT = "no fault struck anything and ended before the operations did"
_NO_PROXY = "it has no server, what decides a commit passes no proxy, or a fault or a swap latency struck every request"
_NO_ATTEMPTS = "no operation made one, or its engine does not record attempts"

FIGURES: tuple[Figure, ...] = (
    Figure("commits_per_s", "Throughput", "commits a second", "commits/s", "rate", "more", "commits are acknowledged at {}"),
    Figure("operations_per_s", "Throughput", "acknowledged operations a second", "acknowledged/s", "rate", "more"),
    Figure("write_p50_ms", "Latency of writes", "median", "write p50", "ms", "less", "a write takes {} at the median"),
    Figure("write_p95_ms", "Latency of writes", "p95", "p95", "ms", "less"),
    Figure("write_p99_ms", "Latency of writes", "p99", "p99", "ms", "less", "{} at p99"),
    Figure("read_p50_ms", "Latency of reads", "median", "read p50", "ms", "less"),
    Figure("read_p95_ms", "Latency of reads", "p95", "p95", "ms", "less"),
    Figure("read_p99_ms", "Latency of reads", "p99", "p99", "ms", "less"),
    Figure("aborted", "Aborts and retries", "writes that failed for certain", "aborted", "share", "less",
           "{} of the writes failed for certain"),
    Figure("unknown", "Aborts and retries", "operations of unknown outcome", "unknown", "share", "less",
           "{} of the operations ended with an unknown outcome"),
    Figure("retried", "Aborts and retries", "commits that needed another attempt", "retried", "share", "less",
           "{} of the commits needed another attempt"),
    Figure("retry_success", "Aborts and retries", "of those that met a conflict, committed in the end", "success", "share", "more",
           "{} of the operations that met a conflict committed in the end"),
    Figure("spurious", "Aborts and retries", "of the aborts that can be judged, needless", "needless", "share", "less"),
    Figure("wasted", "Aborts and retries", "writers' time in what a conflict aborted", "wasted", "share", "less"),
    Figure("retries_mean", "Aborts and retries", "retries for each commit, mean", "retries", "count", "less"),
    Figure("retries_8", "Aborts and retries", "commits that needed 8 retries or more", "8 or more", "share", "less"),
    Figure("fairness", "Aborts and retries", "how evenly writers commit (Jain's index: 1 is even)", "fairness", "count", "more"),
    Figure("recovery_median_s", "After a fault", "to the next acknowledged write, median", "recovery", "s", "less",
           "after a fault the next write was acknowledged in {} at the median", _NO_FAULT),
    Figure("recovery_max_s", "After a fault", "to the next acknowledged write, longest", "longest", "s", "less", "in {} at most", _NO_FAULT),
    Figure("catalog_requests", "Cost of a commit", "requests to the catalog", "requests", "count", "less",
           "{} requests to the catalog", _NO_PROXY),
    Figure("store_requests", "Cost of a commit", "the writers' requests to the object store", "store", "count", "less",
           "{} requests to the object store", "its server tells the writers where the store is, so whose requests they are is not known"),
    Figure("database_requests", "Cost of a commit", "requests of the catalog server to its database", "database", "count", "less",
           missing="there is no catalog server with a database behind a proxy"),
    Figure("commit_p50_ms", "Cost of a commit", "the commit request, with what the server does in it, median", "commit p50", "ms", "less",
           "the commit request, including the server's work for it, takes {} at the median", _NO_PROXY),
    Figure("commit_p95_ms", "Cost of a commit", "the commit request, with what the server does in it, p95", "p95", "ms", "less",
           missing=_NO_PROXY),
    Figure("attempt_ms", "Cost of a commit", "a first attempt from its refresh to the catalog's answer, median", "an attempt", "ms", "less",
           missing=_NO_ATTEMPTS),
    Figure("retry_ms", "Cost of a commit", "a retry from its refresh to the catalog's answer, median", "a retry", "ms", "less",
           missing=_NO_ATTEMPTS),
)  # fmt: skip
"""The figures to compare, in display order."""
BY_KEY: Mapping[str, Figure] = {f.key: f for f in FIGURES}


@dataclass(frozen=True, slots=True)
class FaultMeasured:
    """What became of the faults of one name.

    Attributes:
        times: how often it was active.
        hits: requests, processes or operations that it struck.
        on: its target: ``catalog``, ``store``, ``database`` (connections); ``process catalog``, …; ``maintenance``.
        struck: processes, by name.
        recoveries: seconds, one for each time there was something to recover from.
        never: how often no further write was acknowledged before the operations ended.
    """

    times: int
    hits: int
    on: str
    struck: tuple[str, ...] = ()
    recoveries: tuple[float, ...] = ()
    never: int = 0


@dataclass(frozen=True, slots=True)
class Measures:
    """The measures of one run.

    Attributes:
        anomalies: name → how many; those that only confirm another are left out.
        documented: names whose anomalies are all documented as possible.
        seconds: from the first invocation of the phases to the last completion.
        operations: their number in the phases.
        commits: the number of counted commits.
        kinds: kind → (ok, fail, info).
        figures: key of :data:`FIGURES` → number; None if there was nothing to measure.
        requests: ``service kind`` → requests for each commit, as counted for the figures.
        faults: by name.
        attempts: what commits cost in attempts; None if nobody tried to write, and in files of earlier versions.
    """

    valid: Validity
    anomalies: Mapping[str, int]
    documented: tuple[str, ...]
    seconds: float
    operations: int
    commits: int
    kinds: Mapping[str, tuple[int, int, int]]
    figures: Mapping[str, float | None]
    requests: Mapping[str, float] = field(default_factory=dict)
    faults: Mapping[str, FaultMeasured] = field(default_factory=dict)
    attempts: CommitsMeasured | None = None

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        fields = asdict(replace(self, attempts=None))
        return {**fields, "attempts": None if self.attempts is None else self.attempts.to_json()}

    @staticmethod
    def from_json(r: Mapping[str, Any]) -> Measures:
        """The inverse. Raises KeyError, TypeError, ValueError or AttributeError for anything else."""
        known = {f.key for f in FIGURES}
        return Measures(
            valid=r["valid"] if isinstance(r["valid"], bool) else "unknown",
            anomalies={str(k): int(v) for k, v in r["anomalies"].items()},
            documented=tuple(r["documented"]),
            seconds=float(r["seconds"]),
            operations=int(r["operations"]),
            commits=int(r["commits"]),
            kinds={str(k): (int(a), int(b), int(c)) for k, (a, b, c) in r["kinds"].items()},
            figures={k: None if v is None else float(v) for k, v in r["figures"].items() if k in known},
            requests={str(k): float(v) for k, v in r["requests"].items()},
            faults={
                str(k): FaultMeasured(
                    int(f["times"]),
                    int(f["hits"]),
                    str(f["on"]),
                    tuple(map(str, f["struck"])),
                    tuple(map(float, f["recoveries"])),
                    int(f["never"]),
                )
                for k, f in r["faults"].items()
            },
            attempts=None if r.get("attempts") is None else CommitsMeasured.from_json(r["attempts"]),
        )


def requests(path: Path) -> Iterator[Mapping[str, Any]]:
    """The requests of a proxy log, one for each line; none if the file is missing. Torn lines are left out."""
    try:
        for line in lines(path):
            try:
                record = decoded(line)
            except RecordError:
                continue
            yield record
    except FileNotFoundError:
        return


def measure(evidence: Evidence, results: Results, passed: Iterable[Mapping[str, Any]]) -> Measures:
    """The measures of a run.

    Args:
        passed: its proxy log (:func:`requests`); empty if there were no proxies.
    """
    ops = [o for o in evidence.history.operations() if o.invoked.extra.get("phase") not in NOT_THE_WORKLOADS]
    start = min((o.start for o in ops), default=0)
    end = max((_time(o) for o in ops), default=start)
    seconds = (end - start) / S
    writes = [o for o in ops if _writes(o)]
    on_main = {c.op for log in evidence.logs.values() for c in log.main()}
    commits = sum(o.type == "ok" and o.op in on_main for o in writes)
    faults = _faults(evidence.history.events, writes, end)
    cost = _cost(passed, {o.op for o in writes}, start, end, commits)
    recoveries = sorted(r for f in faults.values() for r in f.recoveries)
    counted = (v for v in results.verdicts if v.checker == Retries.name and v.stats)
    retries = next((v.stats_as(RetriesStats) for v in counted), None)
    committing = measured_attempts.measure(evidence, ops, writes, cost.asked, retries)
    figures: dict[str, float | None] = {
        "commits_per_s": commits / seconds if seconds else None,
        "operations_per_s": sum(o.type == "ok" for o in ops) / seconds if seconds else None,
        **_latencies("write", writes),
        **_latencies("read", [o for o in ops if not _writes(o)]),
        "aborted": _share(sum(o.type == "fail" for o in writes), len(writes)),
        "unknown": _share(sum(o.type == "info" for o in ops), len(ops)),
        "retried": retries["metrics"]["retry_rate"] if retries else None,
        "retry_success": retries["success"]["rate"] if retries else None,
        "spurious": _share(retries["spurious"]["spurious"], retries["spurious"]["judged"]) if retries else None,
        "wasted": retries["wasted"]["share"] if retries else None,
        "recovery_median_s": quantile(recoveries, 0.5),
        "recovery_max_s": recoveries[-1] if recoveries else None,
        **cost.figures(),
        **_attempts(committing),
    }
    found = _own(results)
    return Measures(
        valid=results.valid,
        anomalies=dict(Counter(name for name, _ in found).most_common()),
        documented=tuple(sorted({n for n, _ in found} - {n for n, documented in found if not documented})),
        seconds=round(seconds, 3),
        operations=len(ops),
        commits=commits,
        kinds=_kinds(ops),
        figures={k: None if v is None else round(v, 6) for k, v in figures.items()},
        requests=cost.by_kind(),
        faults=faults,
        attempts=committing,
    )


def _attempts(c: CommitsMeasured | None) -> dict[str, float | None]:
    """The figures of attempts; those that the checker ``retries`` counts, too, if operations recorded their attempts themselves."""
    if c is None:
        return {}
    first, retry = c.phase("first", "whole"), c.phase("retry", "whole")
    return {
        "retries_mean": c.retries_mean,
        "retries_8": c.many,
        "fairness": c.fairness,
        "attempt_ms": None if first is None else first.median,
        "retry_ms": None if retry is None else retry.median,
        **({"retried": c.retried, "retry_success": _share(c.met, c.met + c.aborted)} if c.detailed else {}),
    }


def _own(results: Results) -> list[tuple[str, bool]]:
    """Name of each anomaly and whether it is documented; without those that confirm another one in the list (``same_as``)."""
    every = [a for v in results.verdicts for a in v.anomalies]
    names = {a.name for a in every if a.same_as is None}
    return [(a.name, a.documented is not None) for a in every if a.same_as not in names]


def _time(o: Operation) -> int:
    return o.start if o.completed is None else o.completed.time


def _writes(o: Operation) -> bool:
    kind = KINDS.get(o.f)
    return kind is None or kind.commits


def _share(part: float, whole: float) -> float | None:
    return part / whole if whole else None


def _latencies(name: str, ops: Iterable[Operation]) -> dict[str, float | None]:
    took = sorted((_time(o) - o.start) / MS for o in ops if o.type == "ok")
    return {f"{name}_p{q}_ms": quantile(took, q / 100) for q in (50, 95, 99)}


def _kinds(ops: Iterable[Operation]) -> dict[str, tuple[int, int, int]]:
    counts = Counter((o.f, o.type) for o in ops)
    return {f: (counts[f, "ok"], counts[f, "fail"], counts[f, "info"]) for f in sorted({f for f, _ in counts})}


# --- faults -----------------------------------------------------------------------------------------------------------

_WRITER = re.compile(r"w(\d+)-")


def _faults(events: Iterable[Event], writes: Sequence[Operation], end: int) -> dict[str, FaultMeasured]:
    """What the conductor recorded of each fault (``harness.run.conductor``), and what followed it."""
    acknowledged = sorted((_time(o), int(m[1])) for o in writes if o.type == "ok" and (m := _WRITER.match(o.op)))
    begun: dict[str, Fault | None] = {}
    found: dict[str, FaultMeasured] = {}
    for e in events:
        if e.process != NEMESIS or not isinstance(e.value, Mapping):
            continue
        if e.f.startswith("start-"):
            begun[e.f.removeprefix("start-")] = _fault(e.value.get("fault"))
        hits = e.value.get("hits")
        if not e.f.startswith("stop-") or not isinstance(hits, Mapping):
            continue
        name = str(e.value.get("name") or e.f.removeprefix("stop-"))
        fault = begun.get(e.f.removeprefix("stop-"))
        before = found.get(name, FaultMeasured(0, 0, _aim(fault)))
        count = sum(n for n in hits.values() if isinstance(n, int))
        recoveries, never = before.recoveries, before.never
        if count and fault is not None and fault.verb != "maintain" and e.time < end:
            who = fault.writers
            after = next((t for t, w in acknowledged if t >= e.time and (who is None or w in who)), None)
            never += after is None
            recoveries += () if after is None else (round((after - e.time) / S, 3),)
        struck = e.value.get("struck")
        found[name] = FaultMeasured(
            before.times + 1,
            before.hits + count,
            before.on,
            tuple(sorted({*before.struck, *([struck] if isinstance(struck, str) else [])})),
            recoveries,
            never,
        )
    return dict(sorted(found.items()))


def _fault(plain: object) -> Fault | None:
    try:
        return Fault.model_validate(plain)
    except ValidationError:
        return None


def _aim(fault: Fault | None) -> str:
    if fault is None:
        return ""
    if fault.verb == "maintain":
        return "maintenance"
    return fault.service if fault.target is None else f"process {fault.target}"


# --- requests ---------------------------------------------------------------------------------------------------------


SHARED_STORE = "store of all"


@dataclass(slots=True)
class _Cost:
    """Requests by service and kind; durations of commit requests (ms) that no fault struck; commit requests of each operation."""

    commits: int
    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    commit_ms: list[float] = field(default_factory=list)
    services: set[str] = field(default_factory=set)
    asked: dict[str, list[TimedRequest]] = field(default_factory=dict)

    def figures(self) -> dict[str, float | None]:
        took = sorted(self.commit_ms)
        return {
            **{f"{s}_requests": self._of(s) for s in ("catalog", "store", "database")},
            "commit_p50_ms": quantile(took, 0.5),
            "commit_p95_ms": quantile(took, 0.95),
        }

    def _of(self, service: str) -> float | None:
        if service not in self.services:
            return None
        return _share(sum(n for (s, _), n in self.counts.items() if s == service), self.commits)

    def by_kind(self) -> dict[str, float]:
        if not self.commits:
            return {}
        return {f"{s} {k}": round(n / self.commits, 4) for (s, k), n in sorted(self.counts.items())}


def _cost(passed: Iterable[Mapping[str, Any]], writes: set[str], start: int, end: int, commits: int) -> _Cost:
    cost = _Cost(commits)
    for r in passed:
        service, kind, time, ms = r.get("service"), r.get("kind"), r.get("time"), r.get("ms")
        if not isinstance(service, str) or not isinstance(kind, str) or not isinstance(time, int):
            continue
        if service == "store" and r.get("writer") is None:
            service = SHARED_STORE
        cost.services.add(service)
        counts = start <= time <= end if service in ("database", SHARED_STORE) else r.get("op") in writes
        if not counts:
            continue
        cost.counts[service, kind] += 1
        if kind == "commit" and service != "database" and isinstance(ms, int | float):
            cost.asked.setdefault(str(r.get("op")), []).append(TimedRequest(time, time + int(ms * MS)))
            if not r.get("faults"):
                cost.commit_ms.append(float(ms))
    for seen in cost.asked.values():
        seen.sort(key=lambda a: a.time)
    return cost
