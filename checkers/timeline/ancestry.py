"""What the log of one table says by itself: main's ancestry, the rows of each snapshot, and which snapshots were ever current.

Nothing here asks who made a commit or when; :class:`checkers.timeline.timeline.Timeline` adds the operations.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from checkers.evidence.tablelog import Commit, Metadata, RowChange, TableLog
from checkers.timeline.netrows import NetRows, net_changes, order_of, row_of
from workloads.tables import Row, State, TableSpec


@dataclass(frozen=True, slots=True)
class Version:
    """A snapshot that was current for a while: its id (None: the empty table), and the metadata version that made it current."""

    snapshot: int | None
    metadata: int


@dataclass(frozen=True)
class Ancestry:
    """The log of one table.

    Attributes:
        spec: the table's definition, with its promises.
        log: the table log.
    """

    spec: TableSpec
    log: TableLog

    @property
    def name(self) -> str:
        """The table's name in the workload file."""
        return self.spec.name

    @cached_property
    def main(self) -> tuple[Commit, ...]:
        """Main's final ancestry, oldest first; position k is after ``main[k - 1]``."""
        return tuple(self.log.main())

    @cached_property
    def position(self) -> dict[int, int]:
        """Snapshot id on main → its position, from 1."""
        return {c.snapshot_id: k for k, c in enumerate(self.main, 1)}

    @cached_property
    def snapshots(self) -> dict[int, Commit]:
        """Snapshot id → commit, of the whole log."""
        return self.log.by_snapshot()

    @cached_property
    def rooted(self) -> bool:
        """Whether main's ancestry is known down to the empty table."""
        if not self.log.metadata:
            return False
        if not self.main:
            return self.log.metadata[-1].current is None
        return self.main[0].parent_id is None

    @cached_property
    def read_to_pointer(self) -> bool:
        """Whether the last capture could read the metadata file that the catalog's pointer named."""
        last = self.log.captures[-1] if self.log.captures else None
        return last is not None and last.metadata is not None and self._recorded(last.metadata)

    def _recorded(self, location: str) -> bool:
        return _path(location) in self._locations

    @cached_property
    def _locations(self) -> frozenset[str]:
        return frozenset(_path(m.location) for m in self.log.metadata)

    @cached_property
    def seen_until(self) -> int:
        """The log has everything acknowledged before this (ns since the start of the run); -1: nothing is certain."""
        read = (c.time for c in self.log.captures if c.metadata is not None and self._recorded(c.metadata))
        return max(read, default=-1)

    @cached_property
    def _columns(self) -> tuple[int, ...] | None:
        """The position of each column in the log's rows; None: the usual positions."""
        return order_of(self.log.columns)

    def row(self, change: RowChange) -> Row:
        """The row of a change, in the order of ``COLUMNS``."""
        return row_of(change, self._columns)

    def changes(self, c: Commit) -> NetRows | None:
        """The net rows that a commit removed and added; None when unknown."""
        return self._changes[c.snapshot_id]

    @cached_property
    def _changes(self) -> dict[int, NetRows | None]:
        return {c.snapshot_id: self._net(c) for c in self.log.commits}

    def _net(self, c: Commit) -> NetRows | None:
        return net_changes(c, self.row)

    # --- what was ever current

    @cached_property
    def versions(self) -> tuple[Version, ...]:
        """Main's snapshots in order, without repetitions; parent links fill in for missing metadata versions."""
        out: list[Version] = []
        visited: set[int] = set()
        for m in self.log.metadata:
            line: list[int] = []
            current = m.current
            while current is not None and current not in visited and current in self.snapshots:
                visited.add(current)
                line.append(current)
                current = self.snapshots[current].parent_id
            gap = m.n == self.log.metadata[0].n or bool(m.problems)
            if not out and (current is None or m.current is None):
                out.append(Version(None, m.n))
            if gap:
                out += [Version(s, m.n) for s in reversed(line[1:])]
            if not out or out[-1].snapshot != m.current:
                out.append(Version(m.current, m.n))
        return tuple(out)

    @cached_property
    def ever_current(self) -> frozenset[int]:
        """Snapshots that were on main at some time: current in a metadata version, or an ancestor of such a snapshot."""
        found: set[int] = set()
        for v in self.versions:
            snapshot = v.snapshot
            while snapshot is not None and snapshot not in found and snapshot in self.snapshots:
                found.add(snapshot)
                snapshot = self.snapshots[snapshot].parent_id
        return frozenset(found)

    def ancestors(self, snapshot: int | None) -> Iterator[Commit]:
        """A snapshot's commit, its parent's, and so on, as far as the log has them."""
        seen: set[int] = set()
        while snapshot is not None and snapshot in self.snapshots and snapshot not in seen:
            seen.add(snapshot)
            yield self.snapshots[snapshot]
            snapshot = self.snapshots[snapshot].parent_id

    def state(self, snapshot: int) -> State | None:
        """The rows of any snapshot; None when they, or those of an ancestor, are unknown. Costs its whole ancestry."""
        line = list(self.ancestors(snapshot))
        if not line or line[-1].parent_id is not None:
            return None
        state = State()
        for c in reversed(line):
            changes = self.changes(c)
            if changes is None:
                return None
            try:
                state.apply(*changes)
            except KeyError:  # the log contradicts itself
                return None
        return state

    def is_off_main(self, snapshot: int) -> bool:
        """Whether main certainly lacks this snapshot: main's ancestry is known down to the root or to where they fork."""
        if snapshot in self.position:
            return False
        return self.rooted or any(c.snapshot_id in self.position for c in self.ancestors(snapshot))

    def dropped_at(self, snapshot: int) -> tuple[Metadata, Metadata] | None:
        """The last metadata version that had the snapshot on main, and the next one, which had not; None if it was never lost."""
        last: tuple[Metadata, Metadata] | None = None
        before: Metadata | None = None
        on_main, current = False, None
        for m in self.log.metadata:
            if before is None or m.current != current:
                if on_main and m.current is not None and self._child_of(m.current, current):
                    has = True
                else:
                    has = any(c.snapshot_id == snapshot for c in self.ancestors(m.current))
                if on_main and not has and before is not None:
                    last = before, m
                on_main, current = has, m.current
            before = m
        return last if not on_main else None

    def _child_of(self, snapshot: int, parent: int | None) -> bool:
        c = self.snapshots.get(snapshot)
        return c is not None and c.parent_id == parent


def _path(location: str) -> str:
    return location.partition("://")[2] or location
