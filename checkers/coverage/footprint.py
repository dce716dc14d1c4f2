"""What an operation worked on, and where another one worked, seen from it: the dimension *placement*.

A committed operation's rows and files are those of its snapshots. Of one that did not commit only the arguments are known: the ids that it
names, the partitions that it selects. The data files that it was about are then those that may have held these ids when the other
one's commit landed: a file that a copy-on-write rewrite made may hold every id that the files it replaced in that partition held.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from checkers.coverage.pair import Placement
from checkers.evidence.history import Operation
from checkers.evidence.tablelog import Commit
from checkers.timeline.timeline import Timeline, kind_of
from checkers.timeline.touched import touches
from workloads.operations.keys import part_of
from workloads.operations.kind import Kind

REWRITE_PREFIXES = ("rewrite-data-files", "rewrite-position-delete-files")
"""Beginnings of the names of kinds that change no rows and are about data files."""


def rewrites_files(kind: Kind) -> bool:
    """Whether it changes no rows and is about data files."""
    return not kind.changes_rows and kind.name.startswith(REWRITE_PREFIXES)


def only_adds(kind: Kind) -> bool:
    """Whether it adds rows and touches no data file that is there."""
    return kind.changes_rows and kind.inserts != "nothing" and not kind.sets and not kind.deletes


@dataclass(frozen=True, slots=True)
class Footprint:
    """What an operation worked on, on one table.

    Attributes:
        wide: it is about the whole table and no rows or data files of it.
        keys: ids of its rows.
        files: paths of data files; None: any.
        parts: values of the partition; None: any.
    """

    wide: bool = False
    keys: frozenset[int] = frozenset()
    files: frozenset[str] | None = frozenset()
    parts: frozenset[Any] | None = frozenset()


def placement(first: Footprint, second: Footprint, *, partitioned: bool) -> Placement:
    """Where the second worked, seen from the first: the nearest that is true."""
    if first.wide or second.wide:
        return "whole table"
    if first.keys & second.keys:
        return "same row"
    if _meet(first.files, second.files):
        return "same file"
    if not partitioned or _meet(first.parts, second.parts):
        return "same partition"
    return "other partition"


def _meet(first: frozenset[Any] | None, other: frozenset[Any] | None) -> bool:
    if first is None or other is None:
        return bool(first is None and other is None) or bool(first or other)
    return bool(first & other)


@dataclass(frozen=True)
class TableFootprints:
    """The footprints of one table's operations."""

    timeline: Timeline

    def of(self, o: Operation, landed: int | None) -> Footprint:
        """What an operation worked on.

        Args:
            landed: of one that did not commit: the metadata version with which the other operation's commit landed, if it is known.
        """
        kind = kind_of(o)
        if kind is None or not (kind.changes_rows or rewrites_files(kind)):
            return Footprint(wide=True)
        commits = self.timeline.commits.get(o.op, ())
        keys, parts = self._named(o)
        if commits:
            return self._committed(commits, keys, parts)
        if not kind.changes_rows:
            return Footprint(files=None, parts=None)
        return Footprint(False, keys, frozenset() if only_adds(kind) else self._held(keys, landed), parts)

    def _named(self, o: Operation) -> tuple[frozenset[int], frozenset[Any] | None]:
        """The ids that it names, and the partitions of these and those that it selects; None: any."""
        touched = touches(o, self.timeline.spec)
        if touched is None:
            return frozenset(), frozenset()
        parts = frozenset(part_of(i, self.timeline.spec) for i in touched.ids)
        among = touched.among
        return frozenset(touched.ids), None if among is None else parts | among

    def _committed(self, commits: Iterable[Commit], keys: frozenset[int], parts: frozenset[Any] | None) -> Footprint:
        rows = [r for c in commits for r in (*(c.added or ()), *(c.removed or ()))]
        changed = [f for c in commits for f in (*c.added_files, *c.removed_files)]
        files = {f.path for f in changed if f.role == "data"} | {f.referenced for f in changed if f.referenced}
        files |= {r.file for r in rows}
        where = frozenset(f.partition.get("part") for f in changed)
        ids = self.timeline.log.columns.index("id") if "id" in self.timeline.log.columns else 0
        committed = keys | {r.row[ids] for r in rows}
        return Footprint(False, committed, frozenset(files), where | (parts or frozenset()) if changed else parts)

    def _held(self, keys: frozenset[int], landed: int | None) -> frozenset[str]:
        """Data files that may have held one of these ids just before or just after a metadata version."""
        return frozenset(
            f.path
            for f in self._holdings
            if (landed is None or f.born <= landed <= f.died) and not f.ids.isdisjoint(keys)
        )

    @cached_property
    def _holdings(self) -> Sequence[_Held]:
        """Every data file of main, with the ids that it may hold, from the version that added it to the one that removed it."""
        live: dict[str, _Held] = {}
        ended: list[_Held] = []
        ids = self.timeline.log.columns.index("id") if "id" in self.timeline.log.columns else 0
        for c in self.timeline.main:
            taken = [live.pop(f.path) for f in c.removed_files if f.role == "data" and f.path in live]
            ended += [_Held(f.path, f.part, f.ids, f.born, c.metadata) for f in taken]
            new: dict[str, set[int]] = {}
            for r in c.added or ():
                new.setdefault(r.file, set()).add(r.row[ids])
            for f in c.added_files:
                if f.role == "data":
                    part = f.partition.get("part")
                    carried = {i for old in taken if old.part == part for i in old.ids}
                    live[f.path] = _Held(f.path, part, frozenset(new.get(f.path, set()) | carried), c.metadata)
        return (*ended, *live.values())


@dataclass(frozen=True, slots=True)
class _Held:
    path: str
    part: Any
    ids: frozenset[int]
    born: int
    died: int = 1 << 62
