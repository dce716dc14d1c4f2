"""Which pairs of operations a run exercised, and all runs together.

A pair is counted when a commit of the second operation landed while the first one was in a phase of its write
(``checkers.coverage.pair``), on the same table. A commit landed when the catalog answered it, but not after the answer to a commit that
builds on it. Where no proxy saw the commits, as with a catalog that is a file, it landed between its operation's invocation and completion.
If that leaves several phases, the pair is *untold*: it is counted by its operations alone, and covers nothing.

The operations of the set-up and the final reads do not count; the maintenance of a fault does.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from typing import Any

from checkers.coverage import requests as proxied
from checkers.coverage.footprint import Footprint, TableFootprints, placement
from checkers.coverage.pair import Pair, TableSetup, label
from checkers.coverage.phases import LAST, DecidedRequest, Moment, Segment, phase_at, segments
from checkers.coverage.possible import possible, scripted
from checkers.coverage.requests import CommitRequests
from checkers.evidence.evidence import Evidence
from checkers.evidence.history import Operation
from checkers.evidence.outcome import conflict_of
from checkers.evidence.paths import normalise
from checkers.evidence.runfolder import RunFolder
from checkers.judge.runfolder import load_evidence
from checkers.timeline import two_tables
from checkers.timeline.operation_columns import AROUND
from checkers.timeline.timeline import Timeline, kind_of
from checkers.timeline.timelines import timelines

Kinds = tuple[str, str]
"""First and second operation, as in a :class:`Pair`."""
FORMAT = 1


class CoverageError(ValueError):
    """A stored coverage cannot be read; the message says why."""


@dataclass(frozen=True)
class Coverage:
    """The pairs of some runs.

    Attributes:
        seen: pair → how often.
        untold: operations of pairs whose phase is not known → how often.
        possible: the pairs that the workloads of these runs can exercise.
        runs: how many runs.
    """

    seen: Counter[Pair] = field(default_factory=Counter)
    untold: Counter[Kinds] = field(default_factory=Counter)
    possible: frozenset[Pair] = frozenset()
    runs: int = 0

    def __or__(self, other: Coverage) -> Coverage:
        """Both together."""
        return Coverage(
            self.seen + other.seen,
            self.untold + other.untold,
            self.possible | other.possible,
            self.runs + other.runs,
        )

    @property
    def covered(self) -> frozenset[Pair]:
        """The possible pairs that were seen."""
        return self.possible & self.seen.keys()

    @property
    def beyond(self) -> frozenset[Pair]:
        """Pairs that were seen and do not count as possible, such as those of a fault's maintenance."""
        return frozenset(self.seen.keys() - self.possible)

    @property
    def share(self) -> float | None:
        """The covered pairs of the possible ones, 0 … 1; None if none is possible."""
        return len(self.covered) / len(self.possible) if self.possible else None

    def counts_by(self, dimension: str) -> dict[Any, tuple[int, int]]:
        """Value of a dimension (a field of :class:`Pair`) → covered and possible pairs that have it."""
        every = Counter(getattr(p, dimension) for p in self.possible)
        found = Counter(getattr(p, dimension) for p in self.covered)
        return {value: (found[value], n) for value, n in every.items()}

    def of_kinds(self) -> dict[Kinds, tuple[int, int]]:
        """First and second operation → covered and possible pairs."""
        every = Counter((p.first, p.second) for p in self.possible)
        found = Counter((p.first, p.second) for p in self.covered)
        return {kinds: (found[kinds], n) for kinds, n in every.items()}

    def rare(self, most: int) -> list[tuple[Pair, int]]:
        """The possible pairs that were seen least often, those never seen left out: at most so many."""
        found = sorted((n, p) for p, n in self.seen.items() if p in self.possible)
        return [(p, n) for n, p in found[:most]]

    def to_json(self) -> dict[str, Any]:
        """For a file; :meth:`from_json` reads it again."""
        return {
            "format": FORMAT,
            "runs": self.runs,
            "share": self.share,
            "covered": len(self.covered),
            "seen": [[*p.to_json(), n] for p, n in sorted(self.seen.items())],
            "untold": [[*kinds, n] for kinds, n in sorted(self.untold.items())],
            "possible": [p.to_json() for p in sorted(self.possible)],
        }

    @staticmethod
    def from_json(record: Mapping[str, Any]) -> Coverage:
        """The inverse.

        Raises:
            CoverageError: it is none.
        """
        try:
            if record["format"] != FORMAT:
                raise ValueError(f"format {record['format']!r} is not known")
            return Coverage(
                Counter({Pair.from_json(row[:-1]): int(row[-1]) for row in record["seen"]}),
                Counter({(str(a), str(b)): int(n) for a, b, n in record["untold"]}),
                frozenset(map(Pair.from_json, record["possible"])),
                int(record["runs"]),
            )
        except (KeyError, TypeError, ValueError) as e:
            raise CoverageError(f"not a coverage: {e}") from None


def union(found: Iterable[Coverage]) -> Coverage:
    """All of them together."""
    seen: Counter[Pair] = Counter()
    untold: Counter[Kinds] = Counter()
    every: set[Pair] = set()
    runs = 0
    for c in found:
        seen.update(c.seen)
        untold.update(c.untold)
        every |= c.possible
        runs += c.runs
    return Coverage(seen, untold, frozenset(every), runs)


def of_folder(folder: Path, evidence: Evidence | None = None) -> Coverage:
    """The coverage of a stored run.

    Args:
        evidence: of the same run, if it has been read already.

    Raises:
        StoreError, HistoryError, TableLogError: a file in it cannot be read.
    """
    run = RunFolder(folder)
    evidence = load_evidence(folder) if evidence is None else evidence  # imports the kinds that the plan names
    tables_of = {o.op: two_tables.tables_of(o) for o in evidence.history.operations()}
    seen, untold = exercised(evidence, proxied.read(run.proxy, tables_of))
    plan = run.read_plan()
    return Coverage(seen, untold, frozenset(seen) if scripted(plan) else possible(plan), 1)


def exercised(evidence: Evidence, asked: Mapping[str, CommitRequests]) -> tuple[Counter[Pair], Counter[Kinds]]:
    """The pairs of one run, and the operations of those whose phase is not known.

    Args:
        asked: table → the requests on it (:func:`checkers.coverage.requests.read`); empty if there were no proxies.

    Raises:
        HistoryError: the history does not pair.
    """
    seen: Counter[Pair] = Counter()
    untold: Counter[Kinds] = Counter()
    end = max((e.time for e in evidence.history.events), default=0)
    for t in timelines(evidence)[0]:
        _of_table(t, asked.get(t.name, CommitRequests()), end, seen, untold)
    return seen, untold


@dataclass(frozen=True, slots=True)
class Landing:
    """A commit became current at some moment from ``first`` to ``last``; ``version``: of the metadata, None if it is not known."""

    op: Operation
    first: Moment
    last: Moment
    version: int | None


@dataclass(frozen=True, slots=True)
class _Write:
    """A write on one table: its phases, and its own first landing."""

    op: Operation
    phases: Sequence[Segment]
    landed: Landing | None
    known: bool


def landings(t: Timeline, asked: CommitRequests, end: int) -> list[Landing]:
    """The commits of operations on a table, in the order in which they became current as far as that is known."""
    ops = {o.op: o for o in t.ops}
    versions = {normalise(m.location): m.n for m in t.log.metadata}
    made = {c.snapshot_id: c.metadata for c in t.log.commits}
    found: list[Landing] = []
    known: set[tuple[str, int | None]] = set()
    for name, requests in asked.asked.items():
        if name not in ops:
            continue
        for r in requests:
            if r.accepted:
                n = versions.get(r.new or "")
                n = next((made[s] for s in r.adds if s in made), None) if n is None else n
                if n is None or (name, n) not in known:
                    found.append(Landing(ops[name], (r.end, _order(n)), (r.end, _order(n)), n))
                known.add((name, n))
    for name, commits in t.commits.items():
        if name not in ops or (name, None) in known:
            continue
        o = ops[name]
        for c in commits:
            if c.snapshot_id in t.ever_current and (name, c.metadata) not in known:
                known.add((name, c.metadata))
                last = asked.asked.get(name, [])[-1:]
                low = last[0].time if last else o.start
                high = last[0].end if last else (o.end or end)
                found.append(Landing(o, (low, -1), (max(low, high), _order(c.metadata)), c.metadata))
    return in_order(found)


def _order(version: int | None) -> int:
    return -1 if version is None else version


def in_order(found: Iterable[Landing]) -> list[Landing]:
    """Landings that respect the order of the metadata versions: none is after a later one, and none before an earlier one."""
    unknown = [x for x in found if x.version is None]
    known = sorted((x for x in found if x.version is not None), key=lambda x: _order(x.version))
    out: list[Landing] = []
    high = (LAST, LAST)
    for x in reversed(known):
        high = min(high, x.last)
        out.append(Landing(x.op, min(x.first, (high[0], _order(x.version))), (high[0], _order(x.version)), x.version))
    out.reverse()
    low = (-1, -1)
    for n, x in enumerate(out):
        low = max(low, x.first)
        out[n] = Landing(x.op, min(low, x.last), x.last, x.version)
    return sorted((*out, *unknown), key=lambda x: x.last)


def _of_table(t: Timeline, asked: CommitRequests, end: int, seen: Counter[Pair], untold: Counter[Kinds]) -> None:
    landed = landings(t, asked, end)
    ends = [x.last for x in landed]
    soonest = list(accumulate((x.first for x in reversed(landed)), min))[::-1]
    own: dict[str, list[Landing]] = {}
    for x in landed:
        own.setdefault(x.op.op, []).append(x)
    setup, table = TableSetup.of(t.spec), TableFootprints(t)
    footprints: dict[tuple[str, int | None], Footprint] = {}

    def footprint(o: Operation, version: int | None) -> Footprint:
        key = (o.op, None if o.op in t.commits else version)
        if key not in footprints:
            footprints[key] = table.of(o, version)
        return footprints[key]

    for o in t.ops:
        if not counts(o):
            continue
        write = _write(o, asked, own.get(o.op, ()), end)
        stop = (end if o.completed is None else o.completed.time, LAST)
        for n in range(bisect_left(ends, (o.start, -1)), len(landed)):
            if soonest[n] >= stop:
                break
            x = landed[n]
            if x.op.op == o.op or x.first >= stop or not counts(x.op):
                continue
            s = _phase(write, x, stop)
            if s is None:
                continue
            kinds = (label(o.f, o.engine), label(x.op.f, x.op.engine))
            if s.phase is None:
                untold[kinds] += 1
                continue
            where = placement(footprint(o, x.version), footprint(x.op, x.version), partitioned=t.spec.partitioned)
            seen[Pair(kinds[0], s.phase, kinds[1], where, setup)] += 1


def counts(o: Operation) -> bool:
    """Whether it is a write of the workload or of a fault: no set-up, no final read."""
    kind = kind_of(o)
    return kind is not None and kind.commits and o.invoked.extra.get("phase") not in AROUND


def _write(o: Operation, asked: CommitRequests, own: Sequence[Landing], end: int) -> _Write:
    stop = end if o.completed is None else o.completed.time
    landed = own[0] if own else None
    if not asked.seen or (landed is not None and o.op not in asked.asked):
        return _Write(o, (), landed, False)
    decided = {x.last[0]: x.last for x in own}
    attempts, requests = [], asked.asked.get(o.op, [])
    for n, r in enumerate(requests):
        # The answer to the request that landed may have been lost; then it is the last one.
        accepted = r.accepted or (
            landed is not None and n == len(requests) - 1 and not any(x.accepted for x in requests)
        )
        moment = decided.get(r.end, (r.end, LAST))
        if accepted and landed is not None and len([x for x in requests if x.accepted]) < 2:
            moment = landed.last
        attempts.append(DecidedRequest(r.time, moment, accepted))
    found = segments(o.start, stop, asked.loads.get(o.op, ()), attempts, aborted=conflict_of(o) is not None)
    return _Write(o, found, landed, True)


def _phase(write: _Write, x: Landing, stop: Moment) -> Segment | None:
    """The segment in which the commit landed, one without a phase if that is not known; None if it did not land during the write."""
    inside = x.first >= (write.op.start, -1) and x.last < stop
    landed = write.landed
    later = landed is not None and landed.version is not None and x.version is not None and x.version > landed.version
    if write.known and x.first == x.last:
        return phase_at(write.phases, x.last)
    if later and landed is not None and x.last < stop:
        return Segment("after", landed.last, stop)
    if not inside:
        return None
    if write.known:
        first, other = phase_at(write.phases, x.first), phase_at(write.phases, x.last)
        if first is not None and first is other:
            return first
    return Segment(None, x.first, x.last)
