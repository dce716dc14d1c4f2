"""Main before a commit: the states that an operation may have scanned, and which of them explains the commit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from checkers.evidence.history import Operation
from checkers.evidence.tablelog import Commit, RowChange
from checkers.timeline.ancestry import Version
from checkers.timeline.netrows import NetRows
from checkers.timeline.timeline import Timeline
from workloads.tables import Row, State

MOST_STATES_BEFORE = 256
"""Number of commits before the oldest legal scan that are also tried, only to name an anomaly better."""


@dataclass(frozen=True, slots=True)
class ScannedState:
    """A state that an operation may have scanned, compared with what its commit did.

    Attributes:
        j: its position.
        gone: rows that the meaning removes there and the commit did not.
        over: rows that the commit removed and the meaning does not.
        unmade: rows that the meaning adds and the commit did not.
        made: rows that the commit added and the meaning does not.
        adds: whether the meaning adds any row.
    """

    j: int
    gone: tuple[Row, ...]
    over: tuple[Row, ...]
    unmade: tuple[Row, ...]
    made: tuple[Row, ...]
    adds: bool

    @property
    def exact(self) -> bool:
        """Whether the commit did what the operation means there."""
        return not (self.gone or self.over or self.unmade or self.made)


def compare(j: int, removed: Iterable[Row], added: Iterable[Row], real: NetRows) -> ScannedState:
    """Compare what the meaning at position ``j`` removes and adds with what the commit did."""
    want_removed, want_added = Counter(removed), Counter(added)
    want_removed, want_added = want_removed - want_added, want_added - want_removed
    real_removed, real_added = Counter(real.removed), Counter(real.added)

    def rows(c: Counter[Row]) -> tuple[Row, ...]:
        return tuple(c.elements())

    return ScannedState(
        j,
        gone=rows(want_removed - real_removed),
        over=rows(real_removed - want_removed),
        unmade=rows(want_added - real_added),
        made=rows(real_added - want_added),
        adds=bool(want_added),
    )


@dataclass(frozen=True)
class EarlierCommits:
    """Main's commits before a given one.

    Attributes:
        t: the table's timeline.
        changes: what each commit of main did to the rows, by position from 1; None: unknown.
    """

    t: Timeline
    changes: Sequence[NetRows | None]

    def scan(self, o: Operation, state: State, real: NetRows, j: int) -> ScannedState | None:
        """The state, which is at position ``j``, compared with what the commit did; None: the operation has no meaning there."""
        want = self.t.meaning(o, state)
        return None if want is None else compare(j, want.removed, want.added, real)

    def states_back(self, state: State, k: int, first: int) -> Generator[tuple[int, State], None, None]:
        """``state``, which is at position k, as it was at k, k-1, … first; closing the iterator restores it."""
        j = k
        try:
            yield j, state
            while j > first:
                change = self.changes[j - 1]
                assert change is not None  # the state at k is known, so all earlier ones are
                state.apply(change.added, change.removed)
                j -= 1
                yield j, state
        finally:
            while j < k:
                change = self.changes[j]
                assert change is not None
                state.apply(change.removed, change.added)
                j += 1

    def lost_scans(self, o: Operation, real: NetRows) -> Iterator[Version]:
        """The former snapshots of main that explain the commit, oldest first."""
        for version in self.t.versions:
            if version.snapshot is None or version.snapshot in self.t.position:
                continue
            state = self.t.state(version.snapshot)
            scan = self.scan(o, state, real, 0) if state is not None else None
            if scan is not None and scan.exact:
                yield version

    def removed_before(self, k: int, rows: Sequence[Row]) -> dict[Row, int]:
        """For each of the rows that a commit before position k removed: the position of the last such commit."""
        wanted = set(rows)
        out: dict[Row, int] = {}
        for j in range(k - 1, 0, -1):
            change = self.changes[j - 1]
            for r in change.removed if change is not None else ():
                if r in wanted and r not in out:
                    out[r] = j
            if len(out) == len(wanted):
                break
        return out


def change_of(t: Timeline, c: Commit, row: Row) -> RowChange:
    """Where the commit put the row."""
    return next(x for x in (c.added or ()) if t.row(x) == row)


def files_of(c: Commit, rows: Iterable[Row], t: Timeline) -> tuple[str, ...]:
    """The data and delete files through which the commit added or removed the rows."""
    wanted = set(rows)
    found: dict[str, None] = {}
    for x in (*(c.added or ()), *(c.removed or ())):
        if t.row(x) in wanted:
            found[x.file] = None
            if x.by is not None:
                found[x.by] = None
    return tuple(found)[:20]


def evidence_of(real: NetRows, **more: Any) -> dict[str, Any]:
    """An anomaly's evidence: the rows that the commit really removed and added, and ``more``."""
    bound = 50
    return {
        "removed": [list(r) for r in real.removed[:bound]],
        "added": [list(r) for r in real.added[:bound]],
        **more,
    }
