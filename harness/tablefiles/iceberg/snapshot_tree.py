"""What every snapshot changed, row by row: a table's snapshots as a tree, and one full state that moves through it.

**The question.** A commit lists the *files* that it added and removed. Checkers need to know which *rows* appeared and disappeared,
exactly, for every snapshot. Scanning each snapshot would show it (≈200 ms a snapshot) but would trust the engine under test. Here the
rows are derived only from the files that a commit touched.

**Change.** The live files (``harness.tablefiles.iceberg.live_files``) determine a snapshot's rows. Only the rows of *affected* data files can
change: those that were added or removed, and those to which an added or removed delete file may apply. For these, the visible rows
before and after are compared; equal rows removed from one file and added in another (a copy-on-write carry-over, a compaction)
cancel. The rest is what the snapshot removed and added.

**The tree.** "Before" is the *parent*, and a parent may be any older snapshot: branches, a rollback, or a commit request that was held
for minutes and then wins. Storing every snapshot's set of files costs files × snapshots. Instead each snapshot keeps its difference
from its parent, for ever (the log has it anyway), and one full state exists, at one snapshot, the *cursor*. To reach another snapshot
the cursor walks the tree to it, undoing and doing differences (Baker's version trees)::

    root ── s1 ── s2 ── s3 ── s4        the cursor stands at s4 when s5 comes, whose parent is s2:
                   └── s5               undo s4, undo s3, then compare s5 with the state

A child of the newest snapshot costs its own files, a late child of an old parent the commits between; no child comes too late, as
nothing is forgotten. Decoded data files are cached by path (files never change) up to a bound in bytes. Beyond it the least recently
used are dropped, and read again when a late child needs them; if they were deleted meanwhile, that commit's rows are unknown, which
it reports.

**What cannot be read** makes the commits that need it unknown, and only those. An unreadable manifest that parent and child share
cancels like any other shared manifest, as long as nothing that it may contain affects the change.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from checkers.evidence.problem import Problem
from checkers.evidence.tablelog import Row, RowChange
from checkers.formats.iceberg.metadata.partitions import NOT_COMPUTED, transformed
from harness.tablefiles.iceberg.decoded import TableFiles, Unknown
from harness.tablefiles.iceberg.live_files import Live, LiveFileChange, LiveFiles, ordered
from harness.tablefiles.iceberg.manifests import ADDED, DELETED, EXISTING, ManifestEntry, ManifestFile
from harness.tablefiles.iceberg.rows import SchemaColumn


@dataclass(frozen=True, slots=True)
class _Node:
    """A snapshot in the tree: ``base`` is its tree parent (None: the root, the empty table)."""

    base: int | None
    depth: int
    delta: LiveFileChange
    columns: tuple[SchemaColumn, ...]
    manifests: tuple[str, ...]


@dataclass(slots=True)
class SnapshotChange:
    """What a snapshot did. ``added`` and ``removed`` are net rows, None when unknown; ``problems`` says why.

    ``kept_files``: files of the parent of which a new manifest says something else than the one before.
    """

    added: tuple[RowChange, ...] | None = None
    removed: tuple[RowChange, ...] | None = None
    added_files: tuple[ManifestEntry, ...] = ()
    removed_files: tuple[ManifestEntry, ...] = ()
    kept_files: tuple[ManifestEntry, ...] = ()
    problems: list[Problem] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)


_Visible = dict[str, list[tuple[ManifestEntry, dict[int, ManifestEntry]]]]
"""Path → its entries, each with its hidden positions and what hides them."""


class SnapshotTree:
    """Every snapshot of a table that could be read, each as its difference from its parent.

    Args:
        files: the table's files.
        column_of: field id → column, for equality deletes.
        spec_of: partition spec id → its fields, as metadata.json has them; empty for an unknown one.
    """

    def __init__(
        self,
        files: TableFiles,
        column_of: Callable[[int], SchemaColumn],
        spec_of: Callable[[int], Sequence[Mapping[str, Any]]] = lambda _: (),
    ) -> None:
        self._files = files
        self._column_of = column_of
        self._spec_of = spec_of
        self._state = LiveFiles(files)
        self._nodes: dict[int, _Node] = {}
        self._cursor: int | None = None
        self._judged: set[ManifestFile] = set()
        self._retold: dict[
            ManifestEntry, tuple[object, ...]
        ] = {}  # what the last manifest that says something else says

    def __contains__(self, snapshot_id: object) -> bool:
        return snapshot_id in self._nodes

    def live(self, snapshot_id: int, manifests: Sequence[ManifestFile]) -> Live:
        """A snapshot's live files, from its manifests."""
        live = Live(manifests=tuple(m.path for m in manifests))
        for m in manifests:
            try:
                manifest = self._files.manifest(m)
            except Unknown as why:
                live.opaque[m] = why.problem
                continue
            for e in manifest.entries:
                if e.snapshot_id == snapshot_id and e.status != EXISTING:
                    live.changed.append(e)
                if e.status == DELETED:
                    continue
                if e.status == EXISTING and m not in self._judged:
                    live.kept.append(e)
                if e.content == "data":
                    same = live.data.get(e.path)
                    live.data[e.path] = (e,) if same is None else ordered((*same, e))
                else:
                    if e in live.deletes and m not in self._judged:
                        live.violations.append(f"duplicate-path: {self._files.name(e.path)} is live twice")
                    live.deletes[e] = None
            if m not in self._judged:
                live.judged.append(m)
                live.violations += (f"{v} (manifest {self._files.name(m.path)})" for v in manifest.violations)
        return live

    def orphan(self, snapshot_id: int, live: Live, columns: tuple[SchemaColumn, ...]) -> SnapshotChange:
        """Add a snapshot whose parent is unknown: its row changes are unknown too, but not its children's."""
        self._move(None)
        delta = self._state.delta_to(live)
        self._state.prepare(delta)
        self._enter(snapshot_id, None, delta, columns, live)
        return SnapshotChange(
            added_files=tuple(e for e in live.changed if e.status == ADDED),
            removed_files=tuple(e for e in live.changed if e.status != ADDED),
            violations=live.violations,
        )

    def child(
        self,
        snapshot_id: int,
        parent: int | None,
        live: Live,
        columns: tuple[SchemaColumn, ...],
        *,
        between: bool = False,
    ) -> SnapshotChange:
        """Add a snapshot below its parent (which is in the tree; None: the empty table) and compare the two.

        If the projection differs too (a schema change gave one of the columns another field), every row is compared.

        Args:
            between: whether its commit added further snapshots between the two, which nothing lists; their files are its own.
        """
        self._move(parent)
        before_columns = self._nodes[parent].columns if parent is not None else columns
        delta = self._state.delta_to(live)
        out = SnapshotChange(
            added_files=delta.added, removed_files=delta.removed, kept_files=tuple(self._told_otherwise(live.kept))
        )
        live.violations += self._renumbered(live.kept)
        live.violations += self._removed_wrongly(live)
        own = {e.path for e in delta.added if e.content == "data" and (between or e.snapshot_id == snapshot_id)}
        try:
            affected = self._state.affected(delta)
        except Unknown as e:
            affected = {e.path for e in chain(delta.added, delta.removed) if e.content == "data"}
            out.problems.append(e.problem)
        if before_columns != columns:
            affected |= self._state.data.keys()
        self._state.prepare(delta)
        before = self._visible(affected, out.problems)
        self._enter(snapshot_id, parent, delta, columns, live)
        try:
            self._differ(before, self._visible(affected, out.problems), before_columns, columns, out, own)
        except BaseException:  # the store stopped answering: undo, as if the snapshot had never been added
            self._move(parent)
            del self._nodes[snapshot_id]
            self._judged.difference_update(live.judged)
            raise
        for m in delta.added_opaque:
            out.problems.append(live.opaque[m])
        for m in delta.removed_opaque:
            name = self._files.name(m.path)
            out.problems.append(Problem("unreadable-manifest", f"the parent's manifest {name} is unreadable", name))
        if out.problems:
            out.removed = out.added = None
        found = self._violations(snapshot_id, delta, affected, between)
        out.violations = [*live.violations, *found, *self._miscounted(delta.added), *out.violations]
        return out

    def snapshots_with(self, snapshots: Iterable[int], missing: set[str]) -> dict[str, list[int]]:
        """The files in ``missing`` (data, delete files and manifests) → which of these snapshots need them."""
        out: dict[str, list[int]] = {}
        for id in snapshots:
            if id not in self._nodes:
                continue
            self._move(id)
            files = chain(self._state.data, (e.path for e in self._state.deletes), self._nodes[id].manifests)
            for path in dict.fromkeys(p for p in files if p in missing):
                out.setdefault(path, []).append(id)
        return out

    def paths(self, snapshots: Iterable[int]) -> set[str]:
        """Every data, delete and manifest file between the root and these snapshots."""
        out: set[str] = set()
        seen: set[int] = set()
        for id in snapshots:
            current: int | None = id
            while current is not None and current not in seen and current in self._nodes:
                seen.add(current)
                node = self._nodes[current]
                out.update(e.path for e in node.delta.added)
                current = node.base
            if id in self._nodes:
                out.update(self._nodes[id].manifests)
        return out

    # --- walking

    def _enter(
        self, id: int, base: int | None, delta: LiveFileChange, columns: tuple[SchemaColumn, ...], live: Live
    ) -> None:
        depth = self._nodes[base].depth + 1 if base is not None else 1
        self._state.do(delta)
        self._nodes[id] = _Node(base, depth, delta, columns, live.manifests)
        self._judged.update(live.judged)
        self._cursor = id

    def _move(self, to: int | None) -> None:
        """Move the cursor through the lowest common ancestor: up by undoing, down by doing."""
        current, goal = self._cursor, to
        down: list[LiveFileChange] = []
        while current != goal:  # each step takes the deeper end one level up: bounded by the depths of both
            if goal is None or (current is not None and self._nodes[current].depth >= self._nodes[goal].depth):
                assert current is not None
                node = self._nodes[current]
                self._state.undo(node.delta)
                current = node.base
            else:
                node = self._nodes[goal]
                down.append(node.delta)
                goal = node.base
            self._cursor = current
        for delta in reversed(down):
            self._state.do(delta)
        self._cursor = to

    # --- comparing

    def _visible(self, paths: set[str], problems: list[Problem]) -> _Visible:
        out: _Visible = {}
        for path in paths:
            out[path] = []
            for f in self._state.data.get(path, ()):
                try:
                    out[path].append((f, self._state.hidden(f, self._column_of)))
                except Unknown as e:
                    problems.append(e.problem)
        return out

    def _differ(
        self,
        before: _Visible,
        after: _Visible,
        before_columns: tuple[SchemaColumn, ...],
        columns: tuple[SchemaColumn, ...],
        out: SnapshotChange,
        own: set[str],
    ) -> None:
        """The net removed and added rows, into ``out``; what cannot be read goes to ``out.problems``.

        ``own``: the data files that the snapshot added itself: their rows are compared with their partitions.
        """
        removed: list[RowChange] = []
        added: list[RowChange] = []
        for path in sorted(before):
            old, new = before[path], after[path]
            try:
                if [f for f, _ in old] == [f for f, _ in new] and before_columns == columns:
                    for (f, was), (_, now) in zip(old, new, strict=True):
                        removed += self._some(f, columns, {p: d for p, d in now.items() if p not in was}, out, own)
                        added += self._some(f, columns, {p: d for p, d in was.items() if p not in now}, out, own)
                else:
                    for f, was in old:
                        removed += self._visible_rows(f, before_columns, was, out, own)
                    for f, now in new:
                        added += self._visible_rows(f, columns, now, out, own)
            except Unknown as e:
                out.problems.append(e.problem)
        out.removed, out.added = net(removed, added)

    def _some(
        self,
        f: ManifestEntry,
        columns: tuple[SchemaColumn, ...],
        positions: Mapping[int, ManifestEntry],
        out: SnapshotChange,
        own: set[str],
    ) -> Iterator[RowChange]:
        """The rows of a data file at positions, with the delete file of each. The file is not read if there are none."""
        if positions:
            rows, name = self._rows(f, columns, positions, out, own), self._files.name
            yield from (
                RowChange(rows[p], name(f.path), p, name(positions[p].path))
                for p in sorted(positions)
                if 0 <= p < len(rows)
            )

    def _visible_rows(
        self,
        f: ManifestEntry,
        columns: tuple[SchemaColumn, ...],
        hidden: Mapping[int, ManifestEntry],
        out: SnapshotChange,
        own: set[str],
    ) -> Iterator[RowChange]:
        """All rows of a data file but the hidden ones."""
        rows, name = self._rows(f, columns, hidden, out, own), self._files.name
        yield from (RowChange(row, name(f.path), p) for p, row in enumerate(rows) if p not in hidden)

    def _rows(
        self,
        f: ManifestEntry,
        columns: tuple[SchemaColumn, ...],
        hidden: Mapping[int, ManifestEntry],
        out: SnapshotChange,
        own: set[str],
    ) -> list[Row]:
        """The rows of a data file; where it is not as its entries say goes to ``out.violations``."""
        name = self._files.name
        rows = self._files.rows(f, columns)
        if f.path in own:
            out.violations += self._of_another_partition(f, columns, rows)
            out.violations += self._of_late_splits(f)
        if f.records != len(rows):
            out.violations.append(
                f"record-count: {name(f.path)} has {len(rows)} rows, its manifest entry says {f.records}"
            )
        for p, d in hidden.items():
            if not 0 <= p < len(rows):
                out.violations.append(
                    f"delete-position: {name(d.path)} deletes position {p} of {name(f.path)}, of {len(rows)} rows"
                )
                break
        return rows

    def _renumbered(self, kept: Iterable[ManifestEntry]) -> Iterator[str]:
        """Files at the cursor whose rows get other ids in a child. Version 2 files have none, and may get some."""
        for e in kept:
            was = next((old.first_row_id for old in self._state.data.get(e.path, ()) if old == e), None)
            if was is not None and e.first_row_id != was:
                now = "none" if e.first_row_id is None else f"those from {e.first_row_id} on"
                yield f"kept-row-id: the rows of {self._files.name(e.path)} had the ids from {was} on, and have {now} here"

    def _told_otherwise(self, kept: Iterable[ManifestEntry]) -> Iterator[ManifestEntry]:
        """Files at the cursor of which a child's new manifest says something else; each thing that is said once."""
        for e in kept:
            listed = self._state.data.get(e.path, ())
            was = next((old for old in listed if old == e), None) if e.content == "data" else self._state.deletes.get(e)
            if was is not None and e.details != self._retold.get(e, was.details):
                self._retold[e] = e.details
                yield e

    def _of_another_partition(
        self, f: ManifestEntry, columns: tuple[SchemaColumn, ...], rows: Iterable[Row]
    ) -> Iterator[str]:
        """The first row of a data file, if any, that does not belong to the file's partition (spec, "Partitioning")."""
        partition = dict(f.partition)
        for x in self._spec_of(f.spec_id):
            place = next((n for n, c in enumerate(columns) if c.id is not None and c.id == x.get("source-id")), None)
            if place is None or x.get("name") not in partition:
                continue
            seen: set[Any] = set()
            for n, row in enumerate(rows):
                if row[place] in seen:
                    continue
                seen.add(row[place])
                due = transformed(str(x.get("transform")), columns[place].type, row[place])
                if due is not NOT_COMPUTED and due != partition[x["name"]]:
                    yield (
                        f"file-partition: {self._files.name(f.path)} is at the partition {x['name']}={partition[x['name']]}, but its row at "
                        f"position {n} is of {x['name']}={due}"
                    )
                    break

    def _of_late_splits(self, f: ManifestEntry) -> Iterator[str]:
        """A data file that is said to be split from behind its first row group on: scans do not read what is before it."""
        begin = self._files.begin(f) if f.split_offsets else None
        if f.split_offsets and begin is not None and f.split_offsets[0] > begin:
            yield (
                f"split-offsets: the first row group of {self._files.name(f.path)} begins at byte {begin}, but its entry says that it is to be "
                f"split from byte {f.split_offsets[0]} on"
            )

    def _removed_wrongly(self, live: Live) -> Iterator[str]:
        """Files that a child of the snapshot at the cursor marks as DELETED, and that are not live there, or not as it says."""
        if self._state.opaque:
            return
        for e in live.changed:
            if e.status != DELETED:
                continue
            present = self._state.data.get(e.path, ()) if e.content == "data" else self._state.deletes
            if e in present:
                continue
            was = next((d for d in present if (d.path, d.offset) == (e.path, e.offset)), None)
            if was is None:
                yield f"removed-not-live: {self._files.name(e.path)} is DELETED, but was not live in the parent"
            else:
                yield (
                    f"entry-changed: {self._files.name(e.path)} is DELETED with data sequence number {e.data_sequence_number} and partition "
                    f"{dict(e.partition)}, but was live with {was.data_sequence_number} and {dict(was.partition)}"
                )

    def _miscounted(self, added: Iterable[ManifestEntry]) -> Iterator[str]:
        """Added deletion vectors of live data files whose entry says another cardinality; Java readers refuse them ("Invalid cardinality")."""
        for d in added:
            if d.content != "deletion-vector" or d.referenced not in self._state.data:
                continue
            try:
                deleted = sum(map(len, self._files.positions(d).values()))
            except Unknown:
                continue
            if deleted != d.records:
                yield (
                    f"record-count: the deletion vector of {self._files.name(d.referenced)} in {self._files.name(d.path)} deletes {deleted} "
                    f"rows, its manifest entry says {d.records}"
                )

    def _violations(self, snapshot_id: int, delta: LiveFileChange, affected: set[str], between: bool) -> Iterator[str]:
        """Violations of the spec in the state at the cursor, where ``delta`` touched it; ``between``: as for :meth:`child`."""
        name = self._files.name
        for path in sorted(affected | {p for e in delta.added for p in _referenced(e)}):
            entries, vectors = self._state.data.get(path, ()), self._state.vectors.get(path, ())
            if len(entries) > 1:
                yield f"duplicate-path: {name(path)} is live {len(entries)} times"
            if len(vectors) > 1:
                yield f"several-dvs: {name(path)} has {len(vectors)} deletion vectors"
            if vectors and not entries:
                yield f"dangling-dv: {name(vectors[0].path)} has a deletion vector of {name(path)}, which is not live"
        for e in delta.added:
            if e.content == "position-deletes" and e.referenced is None:  # with a reference, the entry says it
                for path in self._state.targets(e) or ():
                    other = next((f for f in self._state.data.get(path, ()) if f.scope != e.scope), None)
                    if other is not None:
                        yield (
                            f"delete-partition: {name(e.path)} is at the partition {dict(e.partition)} of spec {e.spec_id}, but deletes from "
                            f"{name(path)}, which is at {dict(other.partition)} of spec {other.spec_id}"
                        )
                        break
            if e.snapshot_id != snapshot_id and not (between and e.snapshot_id not in self._nodes):
                yield (
                    f"foreign-file: {name(e.path)} is live but was not in the parent, and its entry says that snapshot "
                    f"{e.snapshot_id} added it"
                )


def _referenced(e: ManifestEntry) -> tuple[str, ...]:
    return (e.referenced,) if e.content == "deletion-vector" and e.referenced is not None else ()


def net(
    removed: Sequence[RowChange], added: Sequence[RowChange]
) -> tuple[tuple[RowChange, ...], tuple[RowChange, ...]]:
    """Cancel equal rows, one removed against one added: the rest, as ``(removed, added)``, has no row in common."""
    common = Counter(c.row for c in removed) & Counter(c.row for c in added)
    if not common:
        return tuple(removed), tuple(added)

    def without_both(changes: Sequence[RowChange]) -> tuple[RowChange, ...]:
        cancel = common.copy()
        out = []
        for c in changes:
            if cancel[c.row] > 0:
                cancel[c.row] -= 1
            else:
                out.append(c)
        return tuple(out)

    return without_both(removed), without_both(added)
