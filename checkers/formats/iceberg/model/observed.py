"""What the commits of a real run did to files, as far as their table log is certain of it, in the terms of the validations.

A validation refuses the more the wider the bounds of a file and the more a commit names. So what is told here is never wider than what
Iceberg saw: the bounds of a file are those of the rows that are certainly in it, and what is not known is left out. Then whatever the
rules refuse, Iceberg refused, too; what they accept need not have been accepted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from checkers.conflicts.validations import FileEffect, KeyBounds
from checkers.evidence.history import Operation
from checkers.formats.iceberg.records import IcebergCommit, IcebergFile
from checkers.timeline.timeline import Timeline
from workloads.tables import Row

NOWHERE = -(1 << 40)
"""The partition of a file that has none, or one that is not known: no filter by partition selects it."""
EMPTY = (1, 0)
"""Lowest and highest key of a file of which no row is known: no filter by key selects it."""


@dataclass
class MainCommits:
    """The commits of a table's main.

    Attributes:
        effects: that of the commit at position k is number k - 1.
        live: every data file that there ever was.
        placed: row → when it came into which data file, oldest first: position on main and file; None: into one that is not known.
    """

    effects: list[FileEffect] = field(default_factory=list)
    live: dict[str, KeyBounds] = field(default_factory=dict)
    placed: dict[Row, list[tuple[int, str | None]]] = field(default_factory=dict)
    _rows: dict[str, Counter[Row]] = field(default_factory=dict)
    """Data file → rows that are certainly in it, without those that were deleted since."""

    @staticmethod
    def of(t: Timeline, commits: tuple[IcebergCommit, ...]) -> MainCommits:
        """Those of all commits of main, whose rows are known."""
        out = MainCommits()
        for k, c in enumerate(commits, 1):
            out._follow(k, c, t)
        return out

    def file_of(self, row: Row, scan: int) -> str | None:
        """The data file into which a row that is there after commit ``scan`` came last; None: not known.

        Raises:
            KeyError: no commit until then has added it.
        """
        found = [file for k, file in self.placed.get(row, ()) if k <= scan]
        if not found:
            raise KeyError(row)
        return found[-1]

    def _follow(self, k: int, c: IcebergCommit, t: Timeline) -> None:
        data = [f for f in c.added_files if f.content == "data"]
        removed = [f.path for f in c.removed_files if f.content == "data"]
        here: dict[str, Counter[Row]] = {f.path: Counter() for f in data}
        for change in c.removed or ():
            row = t.row(change)
            if self._rows.get(change.file, Counter())[row]:
                self._rows[change.file][row] -= 1
        for change in c.added or ():
            here.setdefault(change.file, Counter())[t.row(change)] += 1
        self._carry(k, data, removed, here)
        for path, rows in here.items():
            for row in rows:
                twice = rows[row] > 1 or (c.added and row in self.placed and not self._moved(row, removed))
                self.placed.setdefault(row, []).append((k, None if twice else path))
            self._rows.setdefault(path, Counter()).update(rows)
        for f in data:
            keys = [row.id for row in here[f.path]]
            self.live[f.path] = KeyBounds(_part(f), *((min(keys), max(keys)) if keys else EMPTY))
        self.effects.append(self._effect(c, t))

    def _carry(self, k: int, data: list[IcebergFile], removed: list[str], here: dict[str, Counter[Row]]) -> None:
        """Rows of replaced files are in the new file of their partition, if there is only one."""
        into: dict[int, list[str]] = {}
        for f in data:
            into.setdefault(_part(f), []).append(f.path)
        for path in removed:
            rows = +self._rows.pop(path, Counter())
            new = into.get(self.live[path].part if path in self.live else NOWHERE, [])
            if len(new) == 1:
                here[new[0]].update(rows)
            else:
                for row in rows:
                    self.placed.setdefault(row, []).append((k, None))

    def _moved(self, row: Row, removed: list[str]) -> bool:
        return bool(self.placed[row]) and self.placed[row][-1][1] in removed

    def _effect(self, c: IcebergCommit, t: Timeline) -> FileEffect:
        delete_files = {change.by: change.file for change in c.removed or () if change.by is not None}
        deletes: set[str] = set()
        equality: list[KeyBounds] = []
        for f in c.added_files if c.operation != "replace" else ():
            if f.content == "equality-deletes":
                keys = [t.row(change).id for change in c.removed or () if change.by == f.path]
                equality += [KeyBounds(_part(f), min(keys), max(keys))] if keys else []
            elif f.content != "data":
                deletes |= (
                    {f.referenced}
                    if f.referenced is not None
                    else {delete_files[f.path]}
                    if f.path in delete_files
                    else set()
                )
        hidden = {change.file for change in c.removed or () if change.by is not None} if deletes else set()
        of_deletes = {file for file in hidden if not equality}
        return FileEffect(
            c.operation,
            tuple(self.live[f.path] for f in c.added_files if f.content == "data"),
            frozenset(f.path for f in c.removed_files if f.content == "data"),
            frozenset(deletes | of_deletes),
            frozenset(deletes | of_deletes),
            tuple(equality),
            frozenset(str(f.key) for f in c.removed_files if f.role == "deletes"),
            manifests=_rewrites_manifests(c),
        )


def _part(f: IcebergFile) -> int:
    value = f.partition.get("part")
    return value if isinstance(value, int) else NOWHERE


def _rewrites_manifests(c: IcebergCommit) -> bool:
    return c.operation == "replace" and not c.added_files and not c.removed_files


def op_of(c: IcebergCommit, everything: Mapping[str, Operation]) -> Operation | None:
    """The operation that made a commit, if that is known."""
    return everything.get(c.op) if c.op is not None else None
