"""The versions of a table's metadata as a chain: the predecessor of each, when it was made, and which operations can have made it.

``harness.tablefiles.iceberg.reader`` records versions in the order in which the catalog's pointer named them. That is the order of the chain,
unless the pointer was set back or a commit replaced a version other than its base::

    recorded     0 ◄── 1 ◄── 2 ◄── 3        4 names 1 as its predecessor: it replaced what was current (3), but was based
                       └────────── 4        on 1. What 2 and 3 changed is lost. A *fork*.

Each version names its predecessor. For formats and catalogs that keep none, the recorded order counts. It also counts for a version that
has all that those in between changed (``Metadata.carries``): nothing is lost, only its log lacks their entries.

**When.** A version's clock is its writer's (``last-updated-ms``), the history's is the orchestrator's; they are not compared. Other
events bound the time at which a version was made, in the orchestrator's time:

* not before the invocation of any operation whose snapshot an earlier version shows, nor before a capture that did not yet see it;
* not after the completion of an acknowledged operation whose snapshot a later version shows, nor after the capture that follows
  the first one that saw it.

An operation *can have made* a version if it was under way at some time in between.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Any, Generic, NamedTuple

import numpy as np
import numpy.typing as npt
from typing_extensions import TypeVar

from checkers.evidence.history import Operation
from checkers.evidence.problem import METADATA
from checkers.evidence.tablelog import Commit, Metadata, TableLog

C = TypeVar("C", bound=Commit, default=Commit)
M = TypeVar("M", bound=Metadata, default=Metadata)
FOREVER = 1 << 63
"""Later than everything (ns)."""
LAST = FOREVER - 1
"""The latest time that an array has."""


def place(location: str) -> str:
    """A location without its scheme: s3, s3a and s3n name the same object."""
    return location.partition("://")[2] or location


class VersionStep(NamedTuple, Generic[M]):
    """One version and its predecessor.

    Attributes:
        before: None for the first version of the log, and if the predecessor is not in the log.
        after: the version.
        passed: versions that were current after ``before`` and from which ``after`` does not descend: not empty for a fork.
        repeated: the pointer returned to a version recorded before; ``after`` repeats it.
        gap: versions between the two may be missing from the log.
        earliest, latest: bounds of when it was made, ns since the start of the run; see the module's docstring.
    """

    before: M | None
    after: M
    passed: tuple[M, ...]
    repeated: bool
    gap: bool
    earliest: int
    latest: int


@dataclass(frozen=True)
class Chain(Generic[C, M]):
    """A table log's versions and commits, with the history's operations.

    ``of_table``: those on the table, in order, as it saw them; ``by_op``: those of the whole history by id, these as the table saw them.
    """

    log: TableLog[C, M]
    of_table: Sequence[Operation]
    by_op: Mapping[str, Operation]

    @cached_property
    def commits_of(self) -> dict[int, list[C]]:
        """Version → the commits that it is the first to show."""
        out: dict[int, list[C]] = {}
        for c in self.log.commits:
            out.setdefault(c.metadata, []).append(c)
        return out

    @cached_property
    def snapshots(self) -> dict[int, C]:
        """Snapshot id → commit."""
        return self.log.by_snapshot()

    @cached_property
    def steps(self) -> tuple[VersionStep[M], ...]:
        """One step for each version, in the order of the log."""
        return tuple(self._steps())

    def _steps(self) -> Iterator[VersionStep[M]]:
        versions = self.log.metadata
        earliest, latest = self._times()
        newest: dict[str, int] = {}
        first: dict[str, int] = {}
        base: dict[str, M | None] = {}
        last: M | None = None
        for k, (m, here) in enumerate(zip(versions, self._places, strict=True)):
            predecessor = m.predecessor
            before, last = last, m
            repeated = here in first
            if before is not None and predecessor == before.location and not repeated and not m.problems:  # as mostly
                yield VersionStep(before, m, (), False, False, earliest[k], latest[k])
                first[here] = newest[here] = k
                base[here] = before
                continue
            codes = [p.code for p in m.problems]
            broken, loose = not METADATA.isdisjoint(codes), "fork" in codes
            passed: tuple[M, ...] = ()
            gap = broken or not k
            if repeated:
                before, passed = base[here], versions[first[here] + 1 : k]
            elif predecessor is not None and (n := newest.get(place(predecessor))) is not None:
                before, passed = versions[n], versions[n + 1 : k]
                if passed and self._goes_on(m, passed[-1], before):  # it was made from that, and its log lacks an entry
                    before, passed = passed[-1], ()
            elif loose:  # a chain of its own
                before, passed, gap = None, versions[:k], True
            elif predecessor is not None and k and not broken:
                gap = True
            yield VersionStep(before, m, passed, repeated, gap, earliest[k], latest[k])
            first.setdefault(here, k)
            base.setdefault(here, before)
            newest[here] = k

    def _goes_on(self, m: M, last: M, named: M) -> bool:
        """Whether nothing is lost of what the last version before it changed of the one that it names as its predecessor."""
        forward = all(
            a is None or a in self.ancestors(b) for a, b in ((named.current, last.current), (last.current, m.current))
        )
        return (forward or last.current == m.current) and m.carries(last, named)

    def _times(self) -> tuple[list[int], list[int]]:
        """Bounds of when each version was made."""
        size = len(self.log.metadata)
        starts, ends = [0] * size, [FOREVER] * size
        for n, commits in self.commits_of.items():
            if not 0 <= n < size:
                continue
            for c in commits:
                o = self.by_op.get(c.op or "")
                if o is None:
                    continue
                if n + 1 < size and o.start > starts[n + 1]:
                    starts[n + 1] = o.start
                if n and o.type == "ok" and o.completed is not None and o.completed.time < ends[n - 1]:
                    ends[n - 1] = o.completed.time
        index = 0
        captures = [c for c in self.log.captures if c.metadata is not None]
        locations = self._places
        seen: list[int] = []
        whole = {*locations}
        captures = captures[
            next((j for j, c in enumerate(captures) if place(c.metadata or "") in whole), len(captures)) :
        ]
        for capture in captures:  # the first of a version that the log has
            where = place(capture.metadata or "")
            index = next((n for n in range(index, size) if locations[n] == where), index)
            seen.append(index)
        for j, capture in enumerate(captures):
            if seen[j] + 1 < size and locations[seen[j]] == place(capture.metadata or ""):
                starts[seen[j] + 1] = max(starts[seen[j] + 1], capture.time)
            if j + 1 < len(captures) and seen[j] < size:
                ends[seen[j]] = min(ends[seen[j]], captures[j + 1].time)
        return [*accumulate(starts, max)], [*accumulate(ends[::-1], min)][::-1]

    @cached_property
    def _places(self) -> list[str]:
        """The place of each version, in the order of the log."""
        return [place(m.location) for m in self.log.metadata]

    def under_way(self, step: VersionStep[Any], among: Iterable[Operation] | None = None) -> list[Operation]:
        """The table's operations (or those of them in ``among``) that can have made the version: under way when it can have been made.

        A failed operation counts until the end of the run, like one of unknown outcome: its request may still be on its way.
        """
        if among is None and step.earliest <= LAST and (spans := self._spans) is not None:
            at_work = np.flatnonzero((spans[0] <= min(step.latest, LAST)) & (spans[1] >= step.earliest))
            return [self.of_table[n] for n in at_work.tolist()]
        return [
            o
            for o in (self.of_table if among is None else among)
            if o.start <= step.latest and (o.type != "ok" or o.end is None or o.end >= step.earliest)
        ]

    @cached_property
    def _spans(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]] | None:
        """When the table's operations began, and when they had certainly ended; None if a time is beyond 64 bits."""
        starts = [o.invoked.time for o in self.of_table]
        ends = [o.completed.time if o.type == "ok" and o.completed is not None else LAST for o in self.of_table]
        try:
            return np.array(starts, np.int64), np.array(ends, np.int64)
        except OverflowError:
            return None

    def makers(self, m: Metadata) -> list[str]:
        """Ids of the operations whose snapshots the version is the first to show."""
        return [c.op for c in self.commits_of.get(m.n, ()) if c.op is not None]

    def ancestors(self, snapshot: int | None, among: Iterable[int] | None = None) -> Iterator[int]:
        """A snapshot, its parent, and so on, as far as the log has (and ``among`` lists) them."""
        listed = None if among is None else set(among)
        seen: set[int] = set()
        while snapshot is not None and snapshot in self.snapshots and snapshot not in seen:
            if listed is not None and snapshot not in listed:
                return
            seen.add(snapshot)
            yield snapshot
            snapshot = self.snapshots[snapshot].parent_id
