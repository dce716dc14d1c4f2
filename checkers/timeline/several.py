"""Operations that commit several snapshots at once, as one commit each.

Some engines add several snapshots in one metadata version: PyIceberg drops files in one, rewrites others in the next, and appends in the
last. Nobody ever saw the table at any but the last, so to the checkers they are one commit whose rows are the net of all::

    metadata version     4                    5                     4          5
    snapshots            s3 ──► s4 (delete) ──► s5 (append)   ⇒     s3 ──────► s5
    operation            a      b               b                   a          b

Snapshots of one operation in different versions stay apart: main was at each of them, so the operation committed more than once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from checkers.evidence.history import Operation
from checkers.evidence.replace import replace
from checkers.evidence.tableformat import TableFormat, format_of
from checkers.evidence.tablelog import Commit, FileEntry, RowChange, TableLog
from workloads.engines.engines import ENGINES, engine_of


def one_each(log: TableLog, operations: Mapping[str, Operation]) -> TableLog:
    """The log with one commit for each metadata version and operation whose engine can add several, or is not known.

    The same log if there is none.
    """
    made = {c.op: operations[c.op] for c in log.commits if c.op is not None and c.op in operations}
    able = {op for op, o in made.items() if o.engine not in ENGINES or engine_of(o.engine).several}
    groups = [g for g in _groups(log, able) if len(g) > 1] if able else []
    if not groups:
        return log
    joined = {c.snapshot_id for g in groups for c in g[:-1]}
    last = {g[-1].snapshot_id: _joined(g, format_of(log)) for g in groups}
    kept = (last.get(c.snapshot_id, c) for c in log.commits if c.snapshot_id not in joined)
    return replace(log, commits=tuple(kept))


def _groups(log: TableLog, able: set[str]) -> Iterator[list[Commit]]:
    """Chains of commits, oldest first, of which only the last can have been current or have other children."""
    current = {m.current for m in log.metadata} | {s for m in log.metadata for s in m.refs.values()}
    children: dict[int | None, list[Commit]] = {}
    for c in log.commits:
        children.setdefault(c.parent_id, []).append(c)

    def follows(c: Commit) -> Commit | None:
        """The only child of a commit that was never current, if it is of the same version and operation."""
        after = children.get(c.snapshot_id, [])
        if c.op not in able or c.snapshot_id in current or len(after) != 1:
            return None
        return after[0] if (after[0].op, after[0].metadata) == (c.op, c.metadata) else None

    inside = {after.snapshot_id for c in log.commits if (after := follows(c)) is not None}
    for c in log.commits:
        if c.snapshot_id in inside:
            continue
        line, after = [c], follows(c)
        while after is not None:
            line.append(after)
            after = follows(after)
        yield line


def _joined(line: Sequence[Commit], table_format: TableFormat[Any, Any]) -> Commit:
    """The last commit on the parent of the first, with the net of all."""
    first = line[0]
    readable = all(c.readable for c in line)
    rows = _net_rows(line) if readable else (None, None)
    files = _net_files(line)
    last: Commit = table_format.joined(line)
    return replace(
        last,
        parent_id=first.parent_id,
        removed=rows[0],
        added=rows[1],
        removed_files=files[0],
        added_files=files[1],
        problems=tuple(p for c in line for p in c.problems),
    )


def _net_rows(line: Sequence[Commit]) -> tuple[tuple[RowChange, ...], tuple[RowChange, ...]]:
    removed: list[RowChange] = []
    added: dict[tuple[object, ...], list[RowChange]] = {}
    for c in line:
        for r in c.removed or ():
            made = added.get(r.row)
            if made:
                made.pop()
            else:
                removed.append(r)
        for r in c.added or ():
            added.setdefault(r.row, []).append(r)
    return tuple(removed), tuple(r for rows in added.values() for r in rows)


def _net_files(line: Sequence[Commit]) -> tuple[tuple[FileEntry, ...], tuple[FileEntry, ...]]:
    removed: dict[tuple[str, int | None], FileEntry] = {}
    added: dict[tuple[str, int | None], FileEntry] = {}
    for c in line:
        for f in c.removed_files:
            if added.pop(f.key, None) is None:
                removed[f.key] = f
        for f in c.added_files:
            added[f.key] = f
    return tuple(removed.values()), tuple(added.values())
