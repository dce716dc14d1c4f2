"""Hashes of a table's states: they tell which committed states equal a set of rows."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from typing import Any

from checkers.evidence.tablelog import Commit
from checkers.timeline.timeline import Timeline
from workloads.tables import Row

BITS = 1 << 128


def row_hash(row: Sequence[Any]) -> int:
    """128 bits for a row; the hash of a multiset is the sum of its rows' hashes modulo 2^128 (Python's hash makes -1 and -2 equal)."""
    return int.from_bytes(blake2b(repr(tuple(row)).encode(), digest_size=16).digest(), "big")


def rows_hash(rows: Iterable[Sequence[Any]]) -> int:
    """The hash of a multiset of rows."""
    return sum(map(row_hash, rows)) % BITS


@dataclass(frozen=True, slots=True)
class _Span:
    """Positions ``start`` … ``stop - 1``."""

    start: int
    stop: int


class TableStates:
    """The states that a table had, by hash: of the whole table and of each key. Positions index :attr:`Timeline.versions` from 0."""

    def __init__(self, t: Timeline) -> None:
        self._t = t
        self.count = len(t.versions)
        self.unknown: list[int] = []
        """Positions whose rows are unknown, ascending."""
        self._whole: dict[int, list[_Span]] = {}
        self._keys: dict[int, dict[int, list[_Span]]] = {}
        self._changed: dict[int, list[int]] = {}
        self._build()

    @cached_property
    def of_snapshot(self) -> dict[int, int]:
        """Snapshot id → hash of its rows, for every snapshot with known rows, on main or not."""
        out: dict[int, int] = {}
        for c in self._t.log.commits:
            line: list[Commit] = []
            for a in self._t.ancestors(c.snapshot_id):
                if a.snapshot_id in out:
                    break
                line.append(a)
            for a in reversed(line):
                changes = self._t.changes(a)
                base = 0 if a.parent_id is None else out.get(a.parent_id)
                if changes is not None and base is not None:
                    out[a.snapshot_id] = (base + rows_hash(changes.added) - rows_hash(changes.removed)) % BITS
        return out

    def steps(self, old: int | None, new: int | None) -> Iterator[tuple[Commit, int]]:
        """The commits between two snapshots: 1 for one to apply, -1 for one to undo."""
        t = self._t
        if new is not None and t.snapshots[new].parent_id == old:
            yield t.snapshots[new], 1
            return
        up = list(t.ancestors(old))
        passed = {c.snapshot_id for c in up}
        down: list[Commit] = []
        meet = None
        for c in t.ancestors(new):
            if c.snapshot_id in passed:
                meet = c.snapshot_id
                break
            down.append(c)
        for c in up:
            if c.snapshot_id == meet:
                break
            yield c, -1
        for c in reversed(down):
            yield c, 1

    def _build(self) -> None:
        whole, keys = 0, dict[int, int]()
        whole_since = 0
        key_since: dict[int, int] = {}
        cursor: int | None = None
        known = self.of_snapshot
        for p, version in enumerate(self._t.versions):
            if version.snapshot is not None and version.snapshot not in known:
                self.unknown.append(p)
                continue
            before, touched = whole, dict[int, int]()
            for c, sign in self.steps(cursor, version.snapshot):
                changes = self._t.changes(c)
                assert changes is not None
                for rows, way in ((changes.added, sign), (changes.removed, -sign)):
                    for r in rows:
                        h = way * row_hash(r)
                        whole = (whole + h) % BITS
                        touched.setdefault(r.id, keys.get(r.id, 0))
                        keys[r.id] = (keys.get(r.id, 0) + h) % BITS
            cursor = version.snapshot
            if whole != before:
                self._whole.setdefault(before, []).append(_Span(whole_since, p))
                whole_since = p
            for id, was in touched.items():
                if keys[id] != was:
                    self._keys.setdefault(id, {}).setdefault(was, []).append(_Span(key_since.get(id, 0), p))
                    key_since[id] = p
                    self._changed.setdefault(id, []).append(p)
        self._whole.setdefault(whole, []).append(_Span(whole_since, self.count))
        for id, h in keys.items():
            self._keys.setdefault(id, {}).setdefault(h, []).append(_Span(key_since.get(id, 0), self.count))

    def spans(self, rows: Sequence[Row], key: int | None) -> list[_Span]:
        """Where the table (or its rows of ``key``) had exactly these rows; ascending. Unknown positions may lie inside."""
        h = rows_hash(rows)
        if key is None:
            return self._whole.get(h, [])
        if key not in self._keys:
            return [_Span(0, self.count)] if not rows else []
        return self._keys[key].get(h, [])

    def any_unknown(self, first: int, last: int) -> bool:
        """Whether the rows of any position ``first`` … ``last`` are unknown."""
        place = bisect_left(self.unknown, first)
        return place < len(self.unknown) and self.unknown[place] <= last

    def changes_of(self, key: int | None, first: int, last: int) -> list[int]:
        """Positions in ``first`` … ``last`` where the table, or the key, changed."""
        if key is None:
            return [p for p in range(max(first, 1), last + 1) if p not in self._same]
        positions = self._changed.get(key, [])
        return positions[bisect_left(positions, first) : bisect_right(positions, last)]

    @cached_property
    def _same(self) -> frozenset[int]:
        starts = {s.start for spans in self._whole.values() for s in spans}
        return frozenset(p for p in range(self.count) if p not in starts)
