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
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from statistics import median
from typing import Any, Literal, TypeVar, cast

from checkers.evidence.history import HistoryError, Operation
from checkers.evidence.record import RecordError, must, needs
from checkers.timeline.metrics import quantile

ATTEMPT_PHASES = ("refresh", "validate", "manifests", "metadata", "swap")
"""The phases of an attempt, in order."""
TIMES = ("data", "wait", *ATTEMPT_PHASES)
"""What a writer's time in an operation goes to."""
MANY_RETRIES = 8
"""Retries from which on a commit counts as one of the long tail."""
BY_NOBODY = "(unknown)"
"""Whose a snapshot is that names no operation of the history."""

_K = TypeVar("_K", int, str)
Outcome = Literal["committed", "refused", "invalid", "unknown", "error"]
_OUTCOMES = ("committed", "refused", "invalid", "unknown", "error")
_TIMES_MS = ("wait_ms", *(f"{p}_ms" for p in ATTEMPT_PHASES))
ATTEMPT_COUNTS = ("reads", "read_bytes", "writes", "written_bytes")
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
        needs(r, "an attempt", *_TIMES_MS, *ATTEMPT_COUNTS, "parent", "outcome")
        for key in (*_TIMES_MS, "data_ms"):
            v = r.get(key, 0)
            must(type(v) in (int, float) and 0 <= v < float("inf"), key, "milliseconds from 0", v)
        for key in ATTEMPT_COUNTS:
            must(type(r[key]) is int and r[key] >= 0, key, "a whole number from 0", r[key])
        must(r["parent"] in ("hot", "cold"), "parent", "hot or cold", r["parent"])
        must(r["outcome"] in _OUTCOMES, "outcome", f"one of {', '.join(_OUTCOMES)}", r["outcome"])
        known: dict[str, Any] = {k: float(r.get(k, 0)) for k in (*_TIMES_MS, "data_ms")}
        known |= {k: r[k] for k in (*ATTEMPT_COUNTS, "parent", "outcome")}
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
    place = f"event {o.completed.index} ({o.completed.type} of {o.op}): attempts"
    if not isinstance(found, list):
        raise HistoryError(f"{place} must be a list")
    out = []
    for n, record in enumerate(found):
        try:
            out.append(Attempt.from_json(record))
        except RecordError as e:
            raise HistoryError(f"{place}[{n}]: {e}") from None
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
        points = [quantile(ordered, n / 10) or 0.0 for n in range(11)]
        mean, p95 = sum(ordered) / len(ordered), quantile(ordered, 0.95) or 0.0
        return Quantiles(len(ordered), round(mean, 3), round(p95, 3), tuple(round(v, 3) for v in points))

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
                str(sort): {str(name): Quantiles.from_json(q) for name, q in distributions.items()}
                for sort, distributions in r["taken"].items()
            },
            wasted=_wasted_from_json(r["wasted"]),
            beaten=tuple(
                Beaten(str(b["kind"]), str(b["by"]), int(b["attempts"]), int(b["aborted"])) for b in r["beaten"]
            ),
            beaten_writers={
                str(k): {str(winner): int(n) for winner, n in found.items()} for k, found in r["beaten_writers"].items()
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
        for writer, counts in m.beaten_writers.items():
            between.setdefault(writer, Counter()).update(counts)
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
        beaten=tuple(Beaten(kind, counts, a, ab) for (kind, counts), (a, ab) in ordered),
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
    known = [v for v in values if v is not None]
    return median(known) if known else None


def _sum(values: Iterable[int | None]) -> int | None:
    known = [v for v in values if v is not None]
    return sum(known) if known else None


def _merged_phases(found: Sequence[Mapping[str, Quantiles]]) -> dict[str, Quantiles]:
    return {
        k: _merged_quantiles([phases[k] for phases in found if k in phases])
        for k in dict.fromkeys(k for phases in found for k in phases)
    }


def _merged_quantiles(found: Sequence[Quantiles]) -> Quantiles:
    count = sum(q.count for q in found)
    return Quantiles(
        count,
        sum(q.mean * q.count for q in found) / count,
        median(q.p95 for q in found),
        tuple(median(q.deciles[n] for q in found) for n in range(11)),
    )
