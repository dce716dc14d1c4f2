"""The present state of a table and its last versions: what pending operations may have seen.

Positions count main's commits from 1; position 0 is the empty table. Only the last ``KEPT`` commits are kept, so memory does not grow with
the run, and an operation that may have seen an older state is not judged.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Sequence
from dataclasses import dataclass

from checkers.evidence.tablelog import Commit
from checkers.timeline.states import BITS, row_hash, rows_hash
from checkers.timeline.timeline import Changes
from workloads.tables import Row, State

KEPT = 512
"""Commits of each table whose changes are kept; at least ``checkers.replay.past.FAR``, so that most names are those of the full check."""


@dataclass(frozen=True, slots=True)
class Made:
    """One commit of main: its net rows, and the invocation by which it can have been there at the earliest, as the index of an event."""

    commit: Commit
    changes: Changes
    reached: int


class Window:
    """The last states of one table's main."""

    def __init__(self, kept: int = KEPT) -> None:
        self._kept = kept
        self.state = State()
        """The rows at ``top``. Who changes it to look back restores it."""
        self.top = 0
        self.base = 0
        """The oldest position that is kept."""
        self.made: deque[Made] = deque()
        self._whole: deque[int] = deque([0])
        self._keys: dict[int, deque[tuple[int, int]]] = {}
        self._changed: deque[frozenset[int]] = deque()

    def at(self, position: int) -> Made:
        """The commit at a position above ``base``."""
        return self.made[position - self.base - 1]

    def step(self, c: Commit, changes: Changes, reached: int) -> None:
        """Main's next commit.

        Raises:
            KeyError: it removes a row that is not there; then the state is what it was.
        """
        for n, r in enumerate(changes.removed):
            try:
                self.state.remove(r)
            except KeyError:
                for back in changes.removed[:n]:
                    self.state.add(back)
                raise
        for r in changes.added:
            self.state.add(r)
        self.top += 1
        by_key: dict[int, int] = {}
        for rows, sign in ((changes.added, 1), (changes.removed, -1)):
            for r in rows:
                by_key[r.id] = by_key.get(r.id, 0) + sign * row_hash(r)
        for key, more in by_key.items():
            seen = self._keys.setdefault(key, deque([(0, 0)]))
            seen.append((self.top, (seen[-1][1] + more) % BITS))
        self._whole.append((self._whole[-1] + sum(by_key.values())) % BITS)
        self._changed.append(frozenset(by_key))
        self.made.append(Made(c, changes, reached))
        if len(self.made) > self._kept:
            self._forget()

    def _forget(self) -> None:
        self.made.popleft()
        self._whole.popleft()
        self.base += 1
        for key in self._changed.popleft():
            seen = self._keys.get(key)
            while seen is not None and len(seen) > 1 and seen[1][0] <= self.base:
                seen.popleft()
            if seen is not None and len(seen) == 1 and not seen[0][1]:
                del self._keys[key]  # a key without rows, and without changes that are kept

    def __len__(self) -> int:
        """Number of kept things, for bounds of memory: commits, changes of keys, and rows."""
        return len(self.made) + sum(map(len, self._keys.values())) + len(self.state)

    def back(self, first: int) -> Generator[tuple[int, State], None, None]:
        """The state at ``top``, then as it was at top-1, … ``first`` (at least ``base``); closing the iterator restores it."""
        j = self.top
        try:
            yield j, self.state
            while j > first:
                change = self.at(j).changes
                self.state.apply(change.added, change.removed)
                j -= 1
                yield j, self.state
        finally:
            while j < self.top:
                j += 1
                change = self.at(j).changes
                self.state.apply(change.removed, change.added)

    def lowest(self, rows: Sequence[Row], key: int | None, low: int, high: int) -> int | None:
        """The lowest position from ``low`` (at least ``base``) to ``high`` at which the table, or the key, had exactly these rows."""
        wanted = rows_hash(rows)
        if key is None:
            found = (p for p in range(low, high + 1) if self._whole[p - self.base] == wanted)
            return next(found, None)
        seen = self._keys.get(key, deque([(0, 0)]))
        for n in range(len(seen) - 1, -1, -1):  # from the newest: few changes lie above ``low``
            if seen[n][0] <= low:
                break
        else:
            n = 0
        for m in range(n, len(seen)):
            start = max(low, seen[m][0])
            if start > high:
                return None
            if seen[m][1] == wanted:
                return start
        return None

    def newest_below(self, rows: Sequence[Row], key: int | None, below: int) -> int | None:
        """The newest kept position under ``below`` at which the table, or the key, had exactly these rows."""
        for p in range(min(below, self.top + 1) - 1, self.base - 1, -1):
            if self.lowest(rows, key, p, p) is not None:
                return p
        return None

    def changed(self, key: int | None, position: int) -> bool:
        """Whether the commit at a position changed the table, or the rows of a key."""
        keys = self._changed[position - self.base - 1]
        return bool(keys) if key is None else key in keys
