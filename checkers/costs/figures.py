"""The figures of a run: outcomes, latencies, attempts and errors, by table, kind and time window."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil

from checkers.evidence.error_chain import deciding_error, first_line, in_words, message_pattern, short_class
from checkers.evidence.history import ErrorChain, Operation
from checkers.evidence.tablelog import Commit, TableLog
from checkers.timeline.metrics import quantile

OUTCOMES = ("ok", "fail", "info")


def ms(ns: int | float) -> float:
    """Nanoseconds in milliseconds."""
    return ns / 1e6


def latency_ms(o: Operation) -> float | None:
    """From invocation to completion, whatever the outcome; None when no completion was recorded."""
    return None if o.completed is None else ms(o.completed.time - o.invoked.time)


@dataclass(frozen=True, slots=True)
class Latency:
    """Quantiles in ms."""

    median: float
    p95: float
    p99: float
    max: float


def latency(values: Iterable[float]) -> Latency | None:
    """The quantiles of latencies in ms; None if there are none."""
    ordered = sorted(values)
    median, p95, p99, most = (quantile(ordered, q) for q in (0.5, 0.95, 0.99, 1.0))
    if median is None or p95 is None or p99 is None or most is None:
        return None
    return Latency(median, p95, p99, most)


@dataclass(frozen=True, slots=True)
class Tally:
    """Outcomes of one group of operations; ``latency`` covers the acknowledged ones."""

    name: str
    ok: int
    fail: int
    info: int
    latency: Latency | None

    @property
    def count(self) -> int:
        """Their total number."""
        return self.ok + self.fail + self.info


def tally(name: str, operations: Sequence[Operation]) -> Tally:
    """The tally of one group."""
    n = Counter(o.type for o in operations)
    times = (latency_ms(o) for o in operations if o.type == "ok")
    return Tally(name, n["ok"], n["fail"], n["info"], latency(t for t in times if t is not None))


def tallies(operations: Iterable[Operation], key: Callable[[Operation], str]) -> list[Tally]:
    """One tally for each value of ``key``, in the order in which they first occur."""
    groups: dict[str, list[Operation]] = {}
    for o in operations:
        groups.setdefault(key(o), []).append(o)
    return [tally(name, groups[name]) for name in groups]


@dataclass
class ErrorGroup:
    """Operations that ended in the same way: same class and message pattern (``family``); ``line``: what the first of them says, and ``alike``:
    whether all say it."""

    name: str
    family: str
    line: str
    alike: bool = True
    fail: int = 0
    info: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    example_op: str = ""
    example: ErrorChain | None = None

    @property
    def text(self) -> str:
        """``ValueError: no such mode``, with what they say if that is the same; else ``ValueError, such as: no file 7``."""
        return in_words(self.name, self.line) if self.alike else f"{short_class(self.name)}, such as: {self.line}"

    @property
    def count(self) -> int:
        """Their total number."""
        return self.fail + self.info


def error_groups(operations: Iterable[Operation]) -> list[ErrorGroup]:
    """Operations that did not end ``ok``, grouped by exception class and message pattern, the largest group first."""
    groups: dict[tuple[str, str], ErrorGroup] = {}
    for o in operations:
        if o.type == "ok":
            continue
        if o.completed is None:
            name, message = "(never completed)", "the run ended first"
        else:
            name, message = deciding_error(o.error)
        key = (name, message_pattern(message))
        g = groups.get(key)
        if g is None:
            g = groups[key] = ErrorGroup(*key, first_line(message), example_op=o.op, example=o.error)
        else:
            g.alike = g.alike and g.line == first_line(message)
        if o.type == "fail":
            g.fail += 1
        else:
            g.info += 1
        g.kinds[o.f] += 1
    return sorted(groups.values(), key=lambda g: (-g.count, g.name, g.family))


_WIDTHS = (0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200, 86400)


def bucket_width(span_s: float, most: int) -> float:
    """A round length of time (s): the smallest that divides ``span_s`` into at most ``most`` buckets."""
    return next((w for w in _WIDTHS if span_s / w <= most), ceil(span_s / most / 86400) * 86400.0)


def rates(operations: Iterable[Operation], span_s: float, width_s: float) -> list[dict[str, float]]:
    """Completions per second by outcome, bucket by bucket; an operation that never completed counts at its invocation."""
    buckets = [dict.fromkeys(OUTCOMES, 0.0) for _ in range(max(1, int(span_s / width_s) + 1))]
    for o in operations:
        time = (o.completed or o.invoked).time / 1e9
        buckets[min(len(buckets) - 1, int(time / width_s))][o.type] += 1 / width_s
    return buckets


def windows(
    operations: Iterable[Operation], span_s: float, width_s: float, quantiles: Sequence[float]
) -> list[tuple[float, list[float]]]:
    """Latency quantiles of acknowledged operations by invocation, window by window.

    Returns:
        (middle of the window in s, the quantiles in ms); empty windows are left out.
    """
    values: dict[int, list[float]] = {}
    for o in operations:
        t = latency_ms(o)
        if o.type == "ok" and t is not None:
            values.setdefault(int(o.start / 1e9 / width_s), []).append(t)
    out = []
    for n, found in sorted(values.items()):
        found.sort()
        out.append((min(span_s, (n + 0.5) * width_s), [t for q in quantiles if (t := quantile(found, q)) is not None]))
    return out


@dataclass(frozen=True, slots=True)
class AttemptFigures:
    """How many commits needed how many attempts: ``counts[n]``; ``unknown`` have no attempt number."""

    name: str
    counts: dict[int, int]
    unknown: int

    @property
    def commits(self) -> int:
        """Commits with a known number of attempts."""
        return sum(self.counts.values())

    @property
    def every(self) -> int:
        """All commits."""
        return self.commits + self.unknown

    @property
    def retried(self) -> int:
        """Commits that needed more than one attempt."""
        return sum(n for a, n in self.counts.items() if a > 1)

    @property
    def extra(self) -> int:
        """Attempts that failed."""
        return sum((a - 1) * n for a, n in self.counts.items() if a > 1)


def _attempts(name: str, commits: Iterable[Commit]) -> AttemptFigures:
    counts: Counter[int] = Counter()
    unknown = 0
    for c in commits:
        if not c.attempt:
            unknown += 1
        else:
            counts[c.attempt] += 1
    return AttemptFigures(name, dict(sorted(counts.items())), unknown)


def attempts_by_table(logs: Mapping[str, TableLog]) -> list[AttemptFigures]:
    """One entry for each table."""
    return [_attempts(table, log.commits) for table, log in logs.items()]


def attempts_by_kind(logs: Mapping[str, TableLog], kinds: Mapping[str, str]) -> list[AttemptFigures]:
    """One entry for each kind of operation; ``kinds`` maps op id → kind. Commits without a known operation are left out."""
    groups: dict[str, list[Commit]] = {}
    for log in logs.values():
        for c in log.commits:
            kind = kinds.get(c.op) if c.op is not None else None
            if kind is not None:
                groups.setdefault(kind, []).append(c)
    return [_attempts(kind, groups[kind]) for kind in sorted(groups)]
