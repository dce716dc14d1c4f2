"""What commits cost in attempts: how many, how long each phase of one took, what was wasted, who made whom retry.

Engines that commit by Iceberg's client in our own process record every attempt: the completion of an operation then has an extra key
``attempts``, a list in the order of the attempts:

=============== =====================================================================================================
wait_ms         backoff before it
refresh_ms      the table's pointer and metadata are loaded again
validate_ms     conflicts with the commits since the scan are looked for
manifests_ms    manifests and the manifest list are written
metadata_ms     the client writes the metadata file; 0 where the server does
swap_ms         the request that asks the catalog for the commit, with all that the server does in it
reads           requests to the object store and their bytes (``read_bytes``); likewise ``writes``, ``written_bytes``
parent          ``cold`` if the refresh found metadata that this client has not read before, as another one had committed;
                else ``hot``
outcome         ``committed``; ``refused`` by the catalog, as another commit came first; ``invalid``: validation found
                a conflict; ``unknown``; ``error``
data_ms         of the first attempt: data files were written before it
=============== =====================================================================================================

Of operations without this key, such as Spark's, only the number of attempts is known, from the name of the manifest list
(``checkers.retries``), and which operations a conflict aborted.

**Who made whom retry.** The operation whose snapshot was current when an attempt was refused: the last one on main whose commit was
answered before the refusal was; if none was answered since the attempt began, the next one, if it was already under way. The commit
requests in the proxies' log give the times; without one for each attempt, an operation's attempts are laid end to end before its
completion, so that times are off by what happened between them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from statistics import median
from typing import Any, Literal, TypeVar, cast

from checkers.evidence.evidence import Evidence
from checkers.evidence.history import HistoryError, Operation
from checkers.evidence.outcome import conflict_of
from checkers.evidence.record import RecordError, must, needs
from checkers.evidence.tablelog import Commit
from checkers.retries import RetriesStats
from checkers.timeline.metrics import quantile

ATTEMPT_PHASES = ("refresh", "validate", "manifests", "metadata", "swap")
"""The phases of an attempt, in order."""
TIMES = ("data", "wait", *ATTEMPT_PHASES)
"""What a writer's time in an operation goes to."""
MANY_RETRIES = 8
"""Retries from which on a commit counts as one of the long tail."""
BY_NOBODY = "(unknown)"
"""Whose a snapshot is that names no operation of the history."""

MS, S = 1e6, 1e9
_K = TypeVar("_K", int, str)
Outcome = Literal["committed", "refused", "invalid", "unknown", "error"]
_OUTCOMES = ("committed", "refused", "invalid", "unknown", "error")
_TIMES_MS = ("wait_ms", *(f"{p}_ms" for p in ATTEMPT_PHASES))
_COUNTS = ("reads", "read_bytes", "writes", "written_bytes")
SORTS = ("first", "retry", "first hot", "first cold", "retry hot", "retry cold")
"""Sorts of attempts that are told apart: the first of an operation or a later one, and whether its parent was new to its client."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt of an operation to commit; times in ms, see the module's table."""

    wait_ms: float
    refresh_ms: float
    validate_ms: float
    manifests_ms: float
    metadata_ms: float
    swap_ms: float
    reads: int
    read_bytes: int
    writes: int
    written_bytes: int
    parent: Literal["hot", "cold"]
    outcome: Outcome
    data_ms: float = 0.0

    def phase(self, name: str) -> float:
        """Ms of a phase, or of ``wait`` or ``data``."""
        return cast(float, getattr(self, f"{name}_ms"))

    @property
    def work_ms(self) -> float:
        """Ms from its refresh to the catalog's answer."""
        return sum(self.phase(p) for p in ATTEMPT_PHASES)

    @property
    def in_vain(self) -> bool:
        """Whether it certainly committed nothing."""
        return self.outcome in ("refused", "invalid", "error")

    @staticmethod
    def from_json(record: object) -> Attempt:
        """One entry of the list.

        Raises:
            RecordError: a key is missing or has another value than the module's table allows.
        """
        must(isinstance(record, dict), "an attempt", "an object", record)
        r = cast(dict[str, Any], record)
        needs(r, "an attempt", *_TIMES_MS, *_COUNTS, "parent", "outcome")
        for key in (*_TIMES_MS, "data_ms"):
            v = r.get(key, 0)
            must(type(v) in (int, float) and 0 <= v < float("inf"), key, "milliseconds from 0", v)
        for key in _COUNTS:
            must(type(r[key]) is int and r[key] >= 0, key, "a whole number from 0", r[key])
        must(r["parent"] in ("hot", "cold"), "parent", "hot or cold", r["parent"])
        must(r["outcome"] in _OUTCOMES, "outcome", f"one of {', '.join(_OUTCOMES)}", r["outcome"])
        known: dict[str, Any] = {k: float(r.get(k, 0)) for k in (*_TIMES_MS, "data_ms")}
        known |= {k: r[k] for k in (*_COUNTS, "parent", "outcome")}
        return Attempt(**known)


def attempts_of(o: Operation) -> tuple[Attempt, ...]:
    """The attempts that its completion records; empty if it records none.

    Raises:
        HistoryError: they are not as the module's table says.
    """
    found = None if o.completed is None else o.completed.extra.get("attempts")
    if found is None:
        return ()
    assert o.completed is not None
    at = f"event {o.completed.index} ({o.completed.type} of {o.op}): attempts"
    if not isinstance(found, list):
        raise HistoryError(f"{at} must be a list")
    out = []
    for n, record in enumerate(found):
        try:
            out.append(Attempt.from_json(record))
        except RecordError as e:
            raise HistoryError(f"{at}[{n}]: {e}") from None
    return tuple(out)


# --- what is measured -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Quantiles:
    """A distribution: the number of values, mean, 95th percentile, and least, nine deciles, greatest (nearest rank)."""

    count: int
    mean: float
    p95: float
    deciles: tuple[float, ...]

    @property
    def median(self) -> float:
        """The median."""
        return self.deciles[5]

    @staticmethod
    def of(values: Iterable[float]) -> Quantiles | None:
        """Of values in any order; None for none."""
        ordered = sorted(values)
        if not ordered:
            return None
        at = [quantile(ordered, n / 10) or 0.0 for n in range(11)]
        mean, p95 = sum(ordered) / len(ordered), quantile(ordered, 0.95) or 0.0
        return Quantiles(len(ordered), round(mean, 3), round(p95, 3), tuple(round(v, 3) for v in at))

    @staticmethod
    def from_json(r: Mapping[str, Any]) -> Quantiles:
        """The inverse of ``asdict``. Raises KeyError, TypeError or ValueError for anything else."""
        return Quantiles(int(r["count"]), float(r["mean"]), float(r["p95"]), tuple(map(float, r["deciles"])))


@dataclass(frozen=True, slots=True)
class Beaten:
    """How often operations of kind ``kind`` met a commit of kind ``by``: attempts of theirs were refused, and operations aborted."""

    kind: str
    by: str
    attempts: int
    aborted: int


@dataclass(frozen=True, slots=True)
class Wasted:
    """The price of conflicts: of attempts that committed nothing, and of operations that a conflict aborted.

    Attributes:
        attempts: their number.
        attempts_s: writers' seconds in them, without backoff.
        waited_s: seconds of backoff.
        aborted: operations.
        aborted_s: seconds from invocation to completion of these operations; overlaps the numbers above.
        written_bytes: manifests and metadata files that these attempts wrote; None if no attempts were recorded.
        read_bytes: likewise.
    """

    attempts: int = 0
    attempts_s: float = 0.0
    waited_s: float = 0.0
    aborted: int = 0
    aborted_s: float = 0.0
    written_bytes: int | None = None
    read_bytes: int | None = None


@dataclass(frozen=True)
class CommitsMeasured:
    """What the commits of a run cost in attempts. Commits are as for :class:`checkers.costs.measures.Measures`.

    Attributes:
        detailed: whether operations recorded their attempts; else what concerns single attempts is missing.
        retries: number of retries → commits that needed so many, of those for which it is known.
        met: operations that met a conflict and committed in the end.
        aborted: operations that a conflict aborted.
        writers: writer → its commits; of all that tried to write.
        busy: the share of the time from a writer's first invocation to its last completion that it spent in operations, 0 … 1; of all writers.
        time: what the time in writes that recorded attempts went to, in seconds: :data:`TIMES` and ``other``.
        occupied: the share of the run's time that attempts that won took from the end of their refresh to the answer, of the table where
            it is greatest. They do not overlap on one table but for the time of answers on their way, so 1 is
            about the most.
        window_ms: the median length of these parts of attempts.
        swaps: requests to the catalog for a commit under way at a time, on average.
        taken: sort of attempt (:data:`SORTS`) → phase (:data:`TIMES`), ``whole`` (refresh to answer), ``reads``, ``read_bytes``, ``writes`` or
            ``written_bytes`` → its distribution, in ms or bytes, over attempts that reached the catalog.
        wasted: the price of conflicts.
        beaten: who made whom retry or abort, by kinds, the most frequent first.
        beaten_writers: writer → writer that made it retry or abort → how often.
        unexplained: refused attempts, or aborted operations, for which no commit of the table log can be the cause.
    """

    detailed: bool
    retries: Mapping[int, int]
    met: int
    aborted: int
    writers: Mapping[str, int]
    busy: float
    time: Mapping[str, float] = field(default_factory=dict)
    occupied: float | None = None
    window_ms: float | None = None
    swaps: float | None = None
    taken: Mapping[str, Mapping[str, Quantiles]] = field(default_factory=dict)
    wasted: Wasted = Wasted()
    beaten: tuple[Beaten, ...] = ()
    beaten_writers: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    unexplained: int = 0

    @property
    def commits(self) -> int:
        """Commits whose number of retries is known."""
        return sum(self.retries.values())

    @property
    def retried(self) -> float | None:
        """The share of commits that needed a retry, 0 … 1; None without commits."""
        return _share(sum(n for k, n in self.retries.items() if k), self.commits)

    @property
    def retries_mean(self) -> float | None:
        """Retries for each commit."""
        return _share(sum(k * n for k, n in self.retries.items()), self.commits)

    @property
    def retries_of_retried(self) -> float | None:
        """Retries for each commit that needed any."""
        return _share(sum(k * n for k, n in self.retries.items()), sum(n for k, n in self.retries.items() if k))

    @property
    def many(self) -> float | None:
        """The share of commits with :data:`MANY_RETRIES` retries or more."""
        return _share(sum(n for k, n in self.retries.items() if k >= MANY_RETRIES), self.commits)

    @property
    def success(self) -> float | None:
        """The share of operations that committed, of these and those that a conflict aborted."""
        return _share(self.commits, self.commits + self.aborted)

    @cached_property
    def fairness(self) -> float | None:
        """Jain's index of the commits of each writer, ``(Σx)² / (n · Σx²)``: 1 if all have as many, 1/n if one has all."""
        found = list(self.writers.values())
        return _share(sum(found) ** 2, len(found) * sum(x * x for x in found))

    @property
    def fewest(self) -> float | None:
        """The commits of the writer with the fewest, divided by those of the writer with the most."""
        found = self.writers.values()
        return _share(min(found), max(found)) if found else None

    def phase(self, sort: str, name: str) -> Quantiles | None:
        """The distribution of a phase of a sort of attempts; None if there were none."""
        return self.taken.get(sort, {}).get(name)

    def to_json(self) -> dict[str, Any]:
        """As JSON values, with the shares that derive from them."""
        return {
            **asdict(self),
            "retries": {str(k): n for k, n in sorted(self.retries.items())},
            "retried": self.retried,
            "retries_mean": self.retries_mean,
            "retries_of_retried": self.retries_of_retried,
            "many": self.many,
            "success": self.success,
            "fairness": self.fairness,
            "fewest": self.fewest,
        }

    @staticmethod
    def from_json(r: Mapping[str, Any]) -> CommitsMeasured:
        """The inverse. Raises KeyError, TypeError, ValueError or AttributeError for anything else."""
        return CommitsMeasured(
            detailed=bool(r["detailed"]),
            retries={int(k): int(n) for k, n in r["retries"].items()},
            met=int(r["met"]),
            aborted=int(r["aborted"]),
            writers={str(k): int(n) for k, n in r["writers"].items()},
            busy=float(r["busy"]),
            time={str(k): float(v) for k, v in r["time"].items()},
            occupied=_float(r["occupied"]),
            window_ms=_float(r["window_ms"]),
            swaps=_float(r["swaps"]),
            taken={
                str(sort): {str(name): Quantiles.from_json(q) for name, q in by.items()}
                for sort, by in r["taken"].items()
            },
            wasted=_wasted_from_json(r["wasted"]),
            beaten=tuple(
                Beaten(str(b["kind"]), str(b["by"]), int(b["attempts"]), int(b["aborted"])) for b in r["beaten"]
            ),
            beaten_writers={
                str(k): {str(by): int(n) for by, n in found.items()} for k, found in r["beaten_writers"].items()
            },
            unexplained=int(r["unexplained"]),
        )


def _float(v: Any) -> float | None:
    return None if v is None else float(v)


def _wasted_from_json(r: Mapping[str, Any]) -> Wasted:
    written, read = r["written_bytes"], r["read_bytes"]
    return Wasted(
        int(r["attempts"]),
        float(r["attempts_s"]),
        float(r["waited_s"]),
        int(r["aborted"]),
        float(r["aborted_s"]),
        None if written is None else int(written),
        None if read is None else int(read),
    )


def _share(part: float, whole: float) -> float | None:
    return part / whole if whole else None


# --- measuring --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TimedRequest:
    """A request for a commit that a proxy passed on: when it came and when its answer did, ns since the start of the run."""

    time: int
    end: int


def measure(
    evidence: Evidence,
    operations: Sequence[Operation],
    writes: Sequence[Operation],
    asked: Mapping[str, Sequence[TimedRequest]],
    retries: RetriesStats | None,
) -> CommitsMeasured | None:
    """What the commits of a run cost in attempts; None if nobody tried to write.

    Args:
        operations: of the workload's phases.
        writes: those of them that can commit.
        asked: operation → its commit requests in the proxies' log, by time.
        retries: what the checker of that name says of operations that record no attempts; None if it did not judge the run.

    Raises:
        HistoryError: an operation's attempts are not readable.
    """
    if not writes:
        return None
    run = _Run(evidence, tuple(operations), tuple(writes), asked)
    beaten, between, unexplained = run.beaten()
    if not run.attempts and retries is not None:
        beaten = _guessed(retries)
        unexplained = retries["conflicts"]["unexplained"]
    occupied, window = run.occupied()
    return CommitsMeasured(
        detailed=bool(run.attempts),
        retries=run.retries(),
        met=run.met(),
        aborted=len(run.aborted),
        writers=run.by_writer(),
        busy=round(run.busy(), 6),
        time=run.time(),
        occupied=occupied,
        window_ms=window,
        swaps=run.swaps(),
        taken=run.taken(),
        wasted=run.wasted(),
        beaten=beaten,
        beaten_writers=between,
        unexplained=unexplained,
    )


def _guessed(retries: RetriesStats) -> tuple[Beaten, ...]:
    """Aborted operations by the checker's best guess."""
    found: Counter[tuple[str, str]] = Counter()
    for p in retries["conflicts"]["pairs"]:
        found[p["aborted"], p["by"]] += p["count"]
    return tuple(Beaten(kind, by, 0, n) for (kind, by), n in found.most_common())


def writer_of(o: Operation) -> str:
    """The writer of an operation: ``w3`` of ``w3-17``; its process if its id has another form."""
    name, dash, number = o.op.rpartition("-")
    return name if dash and number.isdigit() and name[:1] == "w" and name[1:].isdigit() else str(o.process)


@dataclass(frozen=True, slots=True)
class _Placed:
    """An attempt in time: its begin (refresh; the invocation for the first one), its request to the catalog, and the answer; ns."""

    begin: int
    ask: int
    end: int


@dataclass(frozen=True)
class _Run:
    """One run's operations with their attempts."""

    evidence: Evidence
    operations: tuple[Operation, ...]
    writes: tuple[Operation, ...]
    asked: Mapping[str, Sequence[TimedRequest]]

    @cached_property
    def attempts(self) -> dict[str, tuple[Attempt, ...]]:
        """Operation → its attempts, of those that recorded any."""
        return {o.op: found for o in self.writes if (found := attempts_of(o))}

    @cached_property
    def mains(self) -> dict[str, list[Commit]]:
        """Table → commits on main, oldest first."""
        return {name: log.main() for name, log in self.evidence.logs.items()}

    @cached_property
    def committed(self) -> list[tuple[Operation, Commit]]:
        """Acknowledged writes and the snapshot that each left on main, the last one if there are several."""
        by = {c.op: c for main in self.mains.values() for c in main if c.op is not None}
        return [(o, by[o.op]) for o in self.writes if o.type == "ok" and o.op in by]

    @cached_property
    def aborted(self) -> list[Operation]:
        """Writes that a conflict aborted."""
        return [o for o in self.writes if o.type == "fail" and (conflict_of(o) is not None or self._refused(o))]

    def _refused(self, o: Operation) -> bool:
        found = self.attempts.get(o.op)
        return bool(found) and found is not None and found[-1].outcome in ("refused", "invalid")

    @cached_property
    def seconds(self) -> float:
        """From the first invocation to the last completion."""
        return (max(map(_end, self.operations)) - min(o.start for o in self.operations)) / S

    def retries(self) -> dict[int, int]:
        """Retries → commits."""
        found: Counter[int] = Counter()
        for o, c in self.committed:
            mine = self.attempts.get(o.op)
            if mine is not None:
                found[len(mine) - 1] += 1
            elif c.attempt:
                found[c.attempt - 1] += 1
        return dict(sorted(found.items()))

    def met(self) -> int:
        """Commits that met a conflict before."""
        return sum(
            any(a.in_vain for a in self.attempts[o.op]) if o.op in self.attempts else (c.attempt or 1) > 1
            for o, c in self.committed
        )

    def by_writer(self) -> dict[str, int]:
        """Writer → commits."""
        done = Counter(writer_of(o) for o, _ in self.committed)
        return {w: done[w] for w in sorted({writer_of(o) for o in self.writes}, key=_natural)}

    def busy(self) -> float:
        """Share of the writers' time in operations."""
        by: dict[str, list[Operation]] = {}
        for o in self.operations:
            by.setdefault(writer_of(o), []).append(o)
        there = sum(max(map(_end, found)) - min(o.start for o in found) for found in by.values())
        return min(1.0, sum(_end(o) - o.start for o in self.operations) / there) if there else 0.0

    def time(self) -> dict[str, float]:
        """Seconds of writes with attempts, by phase."""
        found = dict.fromkeys(TIMES, 0.0)
        whole = 0.0
        for o in self.writes:
            for a in self.attempts.get(o.op, ()):
                for name in TIMES:
                    found[name] += a.phase(name) / 1000
            if o.op in self.attempts:
                whole += (_end(o) - o.start) / S
        if not self.attempts:
            return {}
        found["other"] = max(0.0, whole - sum(found.values()))
        return {k: round(v, 4) for k, v in found.items()}

    def swaps(self) -> float | None:
        """Mean number of requests for a commit under way."""
        if not self.attempts or not self.seconds:
            return None
        return round(sum(a.swap_ms for found in self.attempts.values() for a in found) / 1000 / self.seconds, 4)

    def occupied(self) -> tuple[float | None, float | None]:
        """Share of the time that winning attempts cover after their refresh, of the busiest table; and the median of that, ms."""
        by: dict[str, list[float]] = {}
        for o, _ in self.committed:
            mine = self.attempts.get(o.op, ())
            won = [a.work_ms - a.refresh_ms for a in mine if a.outcome == "committed"]
            by.setdefault(o.table or "", []).extend(won[-1:])
        every = [v for found in by.values() for v in found]
        if not every or not self.seconds:
            return None, None
        covered = max(sum(found) for found in by.values()) / 1000 / self.seconds
        return round(covered, 6), round(median(every), 3)

    def taken(self) -> dict[str, dict[str, Quantiles]]:
        """Distributions of attempts that reached the catalog, by sort."""
        by: dict[str, list[Attempt]] = {}
        for found in self.attempts.values():
            for n, a in enumerate(found):
                if a.outcome in ("committed", "refused", "unknown"):
                    which = "retry" if n else "first"
                    by.setdefault(which, []).append(a)
                    by.setdefault(f"{which} {a.parent}", []).append(a)
        return {sort: _distributions(sort, by[sort]) for sort in SORTS if sort in by}

    def wasted(self) -> Wasted:
        """The price of conflicts."""
        aborted = {o.op for o in self.aborted}
        aborted_s = sum(_end(o) - o.start for o in self.aborted) / S
        if not self.attempts:
            tries = sum(k * n for k, n in self.retries().items())
            return Wasted(attempts=tries, aborted=len(aborted), aborted_s=round(aborted_s, 4))
        vain = [a for found in self.attempts.values() for a in found if a.in_vain]
        waited = sum(a.wait_ms for found in self.attempts.values() for a in found)
        return Wasted(
            len(vain),
            round(sum(a.work_ms for a in vain) / 1000, 4),
            round(waited / 1000, 4),
            len(aborted),
            round(aborted_s, 4),
            sum(a.written_bytes for a in vain),
            sum(a.read_bytes for a in vain),
        )

    # --- who made whom retry

    def _placed(self, o: Operation) -> list[_Placed]:
        """The operation's attempts in time."""
        mine = self.attempts[o.op]
        out: list[_Placed] = []
        end = _end(o)
        for a in reversed(mine):
            begin = end - int(a.work_ms * MS)
            out.append(_Placed(begin, end - int(a.swap_ms * MS), end))
            end = begin - int(a.wait_ms * MS)
        out.reverse()
        reached = [n for n, a in enumerate(mine) if a.outcome != "invalid"]
        seen = self.asked.get(o.op, ())
        if len(seen) == len(reached):
            for n, s in zip(reached, seen, strict=True):
                before = out[n].ask - out[n].begin
                out[n] = _Placed(s.time - before, s.time, s.end)
        if out:
            out[0] = _Placed(o.start, out[0].ask, out[0].end)
        return out

    def beaten(self) -> tuple[tuple[Beaten, ...], dict[str, dict[str, int]], int]:
        """Who made whom retry or abort by kinds and by writers, and refused attempts without a cause in the log."""
        known = {o.op: o for o in self.evidence.history.operations()}
        placed = {o.op: self._placed(o) for o in self.writes if o.op in self.attempts}
        lines = {name: _Swaps.of(main, known, placed, self.asked) for name, main in self.mains.items()}
        attempts: Counter[tuple[str, str]] = Counter()
        aborted: Counter[tuple[str, str]] = Counter()
        between: dict[str, Counter[str]] = {}
        unexplained = 0
        lost = {o.op for o in self.aborted}
        for o in self.writes:
            mine = self.attempts.get(o.op, ())
            line = lines.get(o.table or "")
            for n, a in enumerate(mine):
                if a.outcome not in ("refused", "invalid"):
                    continue
                by = None if line is None else line.current(placed[o.op][n], o.op)
                if by is None:
                    unexplained += 1
                    continue
                maker = known.get(by.op or "")
                pair = (o.f, BY_NOBODY if maker is None else maker.f)
                attempts[pair] += 1
                aborted[pair] += o.op in lost and n == len(mine) - 1
                between.setdefault(writer_of(o), Counter())[BY_NOBODY if maker is None else writer_of(maker)] += 1
        pairs = tuple(Beaten(kind, by, n, aborted[kind, by]) for (kind, by), n in attempts.most_common())
        return pairs, {k: dict(v.most_common()) for k, v in sorted(between.items())}, unexplained


def _end(o: Operation) -> int:
    return o.start if o.completed is None else o.completed.time


def _natural(writer: str) -> tuple[int, str]:
    digits = writer.lstrip("w")
    return (int(digits) if digits.isdigit() else -1, writer)


def _distributions(sort: str, found: Sequence[Attempt]) -> dict[str, Quantiles]:
    times = [
        t for t in TIMES if (t != "data" or sort.startswith("first")) and (t != "wait" or sort.startswith("retry"))
    ]
    values: dict[str, list[float]] = {t: [a.phase(t) for a in found] for t in times}
    values["whole"] = [a.work_ms for a in found]
    values |= {k: [float(getattr(a, k)) for a in found] for k in _COUNTS}
    return {k: q for k, v in values.items() if (q := Quantiles.of(v)) is not None}


@dataclass(frozen=True)
class _Swaps:
    """One table's commits on main with the time in which each became current.

    ``begun``: when its request was sent at the earliest; ``done``: by when it was current. Both ascend, as main's order is certain.
    """

    commits: tuple[Commit, ...]
    begun: tuple[int, ...]
    done: tuple[int, ...]

    @staticmethod
    def of(
        main: Sequence[Commit],
        known: Mapping[str, Operation],
        placed: Mapping[str, Sequence[_Placed]],
        asked: Mapping[str, Sequence[TimedRequest]],
    ) -> _Swaps:
        """Commits of operations that are not known have the times of their neighbours."""
        begun: list[int] = []
        done: list[int] = []
        for c in main:
            op = c.op or ""
            if mine := placed.get(op):
                begun.append(mine[-1].ask)
                done.append(mine[-1].end)
            elif seen := asked.get(op):
                begun.append(seen[-1].time)
                done.append(seen[-1].end)
            elif (o := known.get(op)) is not None:
                begun.append(o.start)
                done.append(_end(o))
            else:
                begun.append(begun[-1] if begun else 0)
                done.append(1 << 62)
        for n in range(1, len(begun)):
            begun[n] = max(begun[n], begun[n - 1])
        for n in range(len(done) - 2, -1, -1):
            done[n] = min(done[n], done[n + 1])
        return _Swaps(tuple(main), tuple(begun), tuple(done))

    def current(self, at: _Placed, op: str) -> Commit | None:
        """The snapshot that refused an attempt; see the module's text. None if no commit can have."""
        k = bisect_right(self.done, at.end) - 1
        if k >= 0 and self.done[k] > at.begin and self.commits[k].op != op:
            return self.commits[k]
        k += 1
        if k < len(self.commits) and self.begun[k] <= at.end and self.commits[k].op != op:
            return self.commits[k]
        return None


# --- several runs -----------------------------------------------------------------------------------------------------


def merged(found: Sequence[CommitsMeasured]) -> CommitsMeasured:
    """Several runs of the same as one: counts are sums; shares and quantiles medians over the runs; means are weighted by their numbers.

    Raises:
        ValueError: there are none.
    """
    if not found:
        raise ValueError("no runs to merge")
    if len(found) == 1:
        return found[0]
    pairs: dict[tuple[str, str], tuple[int, int]] = {}
    for b in (b for m in found for b in m.beaten):
        a, ab = pairs.get((b.kind, b.by), (0, 0))
        pairs[b.kind, b.by] = (a + b.attempts, ab + b.aborted)
    between: dict[str, Counter[str]] = {}
    for m in found:
        for writer, by in m.beaten_writers.items():
            between.setdefault(writer, Counter()).update(by)
    sorts = [s for s in SORTS if any(s in m.taken for m in found)]
    ordered = sorted(pairs.items(), key=lambda kv: (-kv[1][0] - kv[1][1], kv[0]))
    return CommitsMeasured(
        detailed=any(m.detailed for m in found),
        retries=_summed(m.retries for m in found),
        met=sum(m.met for m in found),
        aborted=sum(m.aborted for m in found),
        writers=_summed(m.writers for m in found),
        busy=median(m.busy for m in found),
        time=_summed_seconds(m.time for m in found),
        occupied=_median(m.occupied for m in found),
        window_ms=_median(m.window_ms for m in found),
        swaps=_median(m.swaps for m in found),
        taken={s: _merged_phases([m.taken[s] for m in found if s in m.taken]) for s in sorts},
        wasted=Wasted(
            sum(m.wasted.attempts for m in found),
            sum(m.wasted.attempts_s for m in found),
            sum(m.wasted.waited_s for m in found),
            sum(m.wasted.aborted for m in found),
            sum(m.wasted.aborted_s for m in found),
            _sum(m.wasted.written_bytes for m in found),
            _sum(m.wasted.read_bytes for m in found),
        ),
        beaten=tuple(Beaten(kind, by, a, ab) for (kind, by), (a, ab) in ordered),
        beaten_writers={k: dict(v.most_common()) for k, v in sorted(between.items())},
        unexplained=sum(m.unexplained for m in found),
    )


def _summed(every: Iterable[Mapping[_K, int]]) -> dict[_K, int]:
    out: dict[_K, int] = {}
    for counts in every:
        for k, n in counts.items():
            out[k] = out.get(k, 0) + n
    return out


def _summed_seconds(every: Iterable[Mapping[str, float]]) -> dict[str, float]:
    out: dict[str, float] = {}
    for seconds in every:
        for k, v in seconds.items():
            out[k] = out.get(k, 0.0) + v
    return out


def _median(values: Iterable[float | None]) -> float | None:
    there = [v for v in values if v is not None]
    return median(there) if there else None


def _sum(values: Iterable[int | None]) -> int | None:
    there = [v for v in values if v is not None]
    return sum(there) if there else None


def _merged_phases(found: Sequence[Mapping[str, Quantiles]]) -> dict[str, Quantiles]:
    return {
        k: _merged_quantiles([by[k] for by in found if k in by]) for k in dict.fromkeys(k for by in found for k in by)
    }


def _merged_quantiles(found: Sequence[Quantiles]) -> Quantiles:
    count = sum(q.count for q in found)
    return Quantiles(
        count,
        sum(q.mean * q.count for q in found) / count,
        median(q.p95 for q in found),
        tuple(median(q.deciles[n] for q in found) for n in range(11)),
    )
