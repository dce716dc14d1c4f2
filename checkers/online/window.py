"""The present state of a table and its last versions: what pending operations may have seen.

Positions count main's commits from 1; position 0 is the empty table. Only the last ``KEPT`` commits are kept, so memory does not grow with
the run, and an operation that may have seen an older state is not judged.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from checkers.evidence.tablelog import Commit, Metadata
from checkers.timeline.netrows import NetRows
from workloads.tables import Row, State

KEPT = 512
"""Commits of each table whose changes are kept: at the few commits a second of a table, more than come while one operation is under way."""
TOO_LONG = "operations under way longer than states are kept"
_NEVER = 1 << 62


class NotJudged(Exception):
    """Why something is left to the full check."""


@dataclass(slots=True)
class Made:
    """One commit of main, and its net rows.

    Attributes:
        acknowledged, read: the events that prove that main had it: its operation's acknowledgement, and the first end of a read that saw it.
    """

    commit: Commit
    changes: NetRows
    acknowledged: int = _NEVER
    read: int = _NEVER


class StateWindow:
    """The last states of one table's main.

    Attributes:
        state: the rows at ``top``.
        top, base: the present position, and the oldest whose state is kept.
    """

    def __init__(self, kept: int = KEPT) -> None:
        self.state = State()
        self.top = self.base = 0
        self._kept = kept
        self._made: deque[Made] = deque()

    def __len__(self) -> int:
        """Number of kept things, for bounds of memory: commits and rows."""
        return len(self._made) + len(self.state)

    def commit_at(self, position: int) -> Made:
        """The commit at a position above ``base``."""
        return self._made[position - self.base - 1]

    def commits(self, position: int) -> list[Commit]:
        """The commits after a position that is kept."""
        return [self.commit_at(p).commit for p in range(position + 1, self.top + 1)]

    def reached(self, event: int, *, reads: bool = False) -> int:
        """The highest position that main had certainly reached before an event: by acknowledgements, with ``reads`` also by reads.

        Raises:
            NotJudged: it is not kept.
        """
        for p in range(self.top, self.base, -1):
            made = self.commit_at(p)
            if made.acknowledged < event or (reads and made.read < event):
                return p
        if self.base:
            raise NotJudged(TOO_LONG)
        return 0

    def step(self, c: Commit, changes: NetRows) -> None:
        """Main's next commit.

        Raises:
            KeyError: it removes a row that is not there; then the window is of no use any more.
        """
        self.state.apply(*changes)
        self.top += 1
        self._made.append(Made(c, changes))
        if len(self._made) > self._kept:
            self._made.popleft()
            self.base += 1

    def back(self, first: int) -> Iterator[State]:
        """A copy of the state at ``top``, taken back to top-1, … ``first`` (at least ``base``)."""
        state = self.state.copy()
        yield state
        for p in range(self.top, first, -1):
            change = self.commit_at(p).changes
            state.apply(change.added, change.removed)
            yield state

    def equal(self, rows: Sequence[Row], key: int | None, low: int) -> Iterator[int]:
        """The positions at which the table, or a key, had exactly these rows: from ``top`` down to ``low`` (at least ``base``)."""
        off = Counter(rows)
        off.subtract(self.state if key is None else self.state.by_id(key))
        for p in range(self.top, low - 1, -1):
            if not any(off.values()):
                yield p
            if p > low:
                change = self.commit_at(p).changes
                off.update(r for r in change.added if key in (None, r.id))
                off.subtract(r for r in change.removed if key in (None, r.id))


def goes_on(current: int | None, m: Metadata, commits: Sequence[Commit]) -> bool:
    """Whether main of a version is that of the version before, or goes on from it with the version's commits."""
    parents = {c.snapshot_id: c.parent_id for c in commits}
    snapshot, steps = m.current, 0
    while snapshot != current and snapshot in parents and steps < len(commits):
        snapshot, steps = parents[snapshot], steps + 1
    return snapshot == current


def off_main(line: Sequence[Commit], current: int | None) -> frozenset[int]:
    """The snapshots of these commits that main at a snapshot does not have; none if it is not known to come from the first of them."""
    commits = {c.snapshot_id: c for c in line}
    main: set[int | None] = set()
    snapshot = current
    while snapshot in commits and snapshot not in main:
        main.add(snapshot)
        snapshot = commits[snapshot].parent_id
    return frozenset(commits.keys() - main) if snapshot == line[0].parent_id else frozenset()
