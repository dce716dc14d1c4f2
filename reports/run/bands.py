"""Figures of a run: counts, latencies, rates, attempts; pure functions from operations and table logs to numbers.

Latency is the time from invocation to completion as the orchestrator saw it; quantiles are nearest-rank, in ms.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from checkers.costs.figures import ms
from checkers.evidence.change_requests import ChangeRequest
from checkers.evidence.history import NEMESIS, Event, Operation
from checkers.evidence.tablelog import Commit, TableLog
from checkers.timeline.metrics import quantile
from workloads.operations.kinds import KINDS

_WORDS = {"streaming": "insert"}
"""First word of the name of an unknown kind → its class, where that is another word."""
BAND_CLASSES = ("read", "insert", "update", "delete", "merge", "overwrite", "maintenance")


def operation_class(f: str) -> str:
    """The class of a kind: its verb, or of an unknown one the first word of its name, where that is one of :data:`BAND_CLASSES`; else
    ``maintenance``."""
    word = KINDS[f].verb if f in KINDS else _WORDS.get(f.split("-")[0], f.split("-")[0])
    return word if word in BAND_CLASSES else "maintenance"


def is_write(f: str) -> bool:
    """Whether a kind can leave a snapshot (reads, expiry and ALTER TABLE cannot)."""
    return KINDS[f].writes if f in KINDS else operation_class(f) != "read"


# --- over time --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Band:
    """An interval in which a fault was active: seconds since the start of the run."""

    name: str
    start: float
    end: float


@dataclass(frozen=True, slots=True)
class TimeMark:
    """A moment to mark with a line: a phase's beginning, a heal. Seconds since the start of the run."""

    name: str
    at: float


_STOP = re.compile(r"^(?:stop|end|heal|resume|restart|recover)[-_ :]?(.*)$")
_START = re.compile(r"^(?:start|begin)[-_ :](.+)$")


def phases(operations: Iterable[Operation]) -> list[TimeMark]:
    """Where each phase began: the first invocation that names it (``phase`` in the event)."""
    first: dict[str, float] = {}
    for o in operations:
        name = o.invoked.extra.get("phase")
        if isinstance(name, str) and name not in first:
            first[name] = o.start / 1e9
    return [TimeMark(name, at) for name, at in first.items()]


def nemesis(events: Iterable[Event], end_s: float) -> tuple[list[Band], list[TimeMark]]:
    """The nemesis' actions, as bands and marks.

    ``start-x`` (or just ``x``) opens a band named x; it ends at ``stop-x``/``heal-x``/…, at a bare ``heal`` (which ends all bands and is a
    mark itself), at ``x``'s own completion if its invocation opened it, or at the end of the run. ``phase`` events are marks, named by
    their value.
    """
    open_at: dict[str, tuple[float, str]] = {}
    bands: list[Band] = []
    marks: list[TimeMark] = []
    for e in events:
        if e.process != NEMESIS:
            continue
        at = e.time / 1e9
        if e.f == "phase" or e.f.startswith("phase-"):
            if e.type in ("invoke", "info"):
                marks.append(TimeMark(_phase_name(e), at))
            continue
        stop = _STOP.match(e.f)
        if stop is not None:
            name = stop[1]
            ended = [name] if name else list(open_at)
            for n in ended:
                if n in open_at:
                    bands.append(Band(n, open_at.pop(n)[0], at))
            if not name and (not marks or marks[-1].name != e.f or at - marks[-1].at > 1):
                marks.append(TimeMark(e.f, at))
            continue
        start = _START.match(e.f)
        name = start[1] if start else e.f
        if name not in open_at:
            open_at[name] = (at, e.type)
        elif not start and open_at[name][1] == "invoke" and e.type in ("ok", "fail"):
            bands.append(Band(name, open_at.pop(name)[0], at))
    bands += [Band(n, at, end_s) for n, (at, _) in open_at.items()]
    return sorted(bands, key=lambda b: (b.start, b.name)), marks


@dataclass(slots=True)
class FaultTally:
    """How often a fault was active and what it struck, from its ``stop-`` events (``harness.run.conductor``).

    Attributes:
        times: how often it began.
        hits: request kind → how often it struck one; ``process`` and ``operation`` for faults that do not strike connections.
        missed: how often it found nothing to strike, or the service had refused the request anyway.
    """

    name: str
    times: int = 0
    hits: Counter[str] = field(default_factory=Counter)
    missed: int = 0

    @property
    def commits(self) -> int:
        """Commits that it struck."""
        return self.hits["commit"]

    @property
    def others(self) -> int:
        """Everything else that it struck."""
        return self.hits.total() - self.commits


def faults(events: Iterable[Event]) -> list[FaultTally]:
    """The faults of a run, by name; empty for a history whose nemesis does not count."""
    found: dict[str, FaultTally] = {}
    for e in events:
        hits = e.value.get("hits") if e.process == NEMESIS and isinstance(e.value, Mapping) else None
        if not isinstance(hits, Mapping):
            continue
        assert isinstance(e.value, Mapping)
        name = str(e.value.get("name") or e.f.removeprefix("stop-"))
        t = found.setdefault(name, FaultTally(name))
        t.times += 1
        t.hits.update({str(k): n for k, n in hits.items() if isinstance(n, int)})
        missed = e.value.get("missed")
        t.missed += missed if isinstance(missed, int) else 0
    return sorted(found.values(), key=lambda t: t.name)


def _phase_name(e: Event) -> str:
    value = e.value
    if isinstance(value, Mapping):
        value = value.get("name") or value.get("phase")
    return str(value) if value else (e.f.removeprefix("phase-") if e.f != "phase" else "phase")


# --- commits ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TableFigures:
    """The figures of one table. Row counts are net; None if the rows of some commit are unknown."""

    name: str
    commits: int
    off_main: int
    by_operation: dict[str, int]
    metadata: int
    data_added: int
    data_removed: int
    deletes_added: int
    deletes_removed: int
    rows_added: int | None
    rows_removed: int | None
    live_rows: int | None
    live_by_commit: tuple[int, ...]
    first_sequence: int | None
    last_sequence: int | None
    complete: bool
    captured_s: float | None
    problems: int


def table_figures(log: TableLog) -> TableFigures:
    """The figures of one table's log."""
    main = log.main()
    added = removed = 0
    known = True
    data = Counter[str]()
    for c in log.commits:
        for f in c.added_files:
            data["data+" if f.role == "data" else "delete+"] += 1
        for f in c.removed_files:
            data["data-" if f.role == "data" else "delete-"] += 1
        if c.added is None or c.removed is None:
            known = False
        else:
            added += len(c.added)
            removed += len(c.removed)
    live: list[int] = []
    # If the oldest known snapshot has a parent, the chain is not the whole table: its earlier rows are unknown.
    rooted = bool(main) and main[0].parent_id is None
    rows = 0
    for c in main if rooted else ():
        if c.added is None or c.removed is None:
            rooted = False
            break
        rows += len(c.added) - len(c.removed)
        live.append(rows)
    until = log.captured_until
    sequences = [c.sequence_number for c in log.commits]
    empty = bool(log.metadata) and log.metadata[-1].current is None
    return TableFigures(
        name=log.table,
        commits=len(log.commits),
        off_main=len(log.commits) - len(main),
        by_operation=dict(Counter(c.operation for c in log.commits).most_common()),
        metadata=len(log.metadata),
        data_added=data["data+"],
        data_removed=data["data-"],
        deletes_added=data["delete+"],
        deletes_removed=data["delete-"],
        rows_added=added if known else None,
        rows_removed=removed if known else None,
        live_rows=rows if rooted else (0 if empty else None),
        live_by_commit=tuple(live) if rooted else (),
        first_sequence=min(sequences, default=None),
        last_sequence=max(sequences, default=None),
        complete=log.complete,
        captured_s=None if until is None else until / 1e9,
        problems=sum(len(c.problems) for c in log.commits) + len(log.problems),
    )


def clock_origin_ms(
    operations: Iterable[Operation],
    commits: Mapping[str, list[tuple[str, Commit]]],
    requests: Mapping[str, Sequence[ChangeRequest]],
) -> float | None:
    """The writers' wall clock (epoch ms) at time 0 of the run, from the snapshots' own timestamps; None if there are none.

    An acknowledged operation stamped its snapshot between its invocation and the request of its commit, or its completion where no proxy saw
    that; so each bounds the origin from both sides, and the result is the lower bound (a median, if clocks disagree).
    """
    low: list[float] = []
    high: list[float] = []
    for o in operations:
        if o.type == "ok" and o.end is not None:
            for _, c in commits.get(o.op, ()):
                sent = max((r.time for r in requests.get(o.op, ())), default=o.end)
                low.append(c.timestamp_ms - ms(min(sent, o.end)))
                high.append(c.timestamp_ms - ms(o.start))
    if not low:
        return None
    lowest, highest = max(low), min(high)
    if lowest > highest:  # clocks that drift or disagree: use the medians
        low.sort()
        return quantile(low, 0.5)
    # The stamp is taken just before the commit request, late in the statement: the true value is nearer to the lower bound.
    return lowest
