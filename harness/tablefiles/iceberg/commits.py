"""What one snapshot changed, read from its manifests and files into a commit of the table log."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from typing import Any

import msgspec

from checkers.evidence.problem import Problem
from checkers.evidence.replace import replace
from checkers.formats.iceberg.records import IcebergCommit as Commit
from checkers.formats.iceberg.records import IcebergFile as FileEntry
from checkers.formats.iceberg.records import attempt_of
from checkers.formats.iceberg.statistics import ManifestLine, columns_text, fields_text
from harness.tablefiles.iceberg.decoded import TableFiles, Unknown
from harness.tablefiles.iceberg.manifests import ManifestEntry, ManifestFile
from harness.tablefiles.iceberg.pointer_chain import Snapshot
from harness.tablefiles.iceberg.rows import SchemaColumn, projection
from harness.tablefiles.iceberg.snapshot_tree import SnapshotChange, SnapshotTree
from harness.tablefiles.iceberg.statistics import summaries
from nemesis.operation_key import OPERATION_KEY


class CommitReader:
    """Reads the snapshots of one table, parents before children.

    Args:
        files: the table's files.
        columns: the columns of a row in the log, by name.
        relative: a path as the log has it.

    Attributes:
        tree: the live files of each snapshot that was read.
        between: snapshots that stand for others of the same commit, too, which no version lists.
    """

    def __init__(self, files: TableFiles, columns: Sequence[str], relative: Callable[[str], str]) -> None:
        self._files = files
        self._columns = columns
        self._relative = relative
        self.between: set[int] = set()
        self._fields: dict[int, SchemaColumn] = {}
        self._specs: dict[int, Sequence[Mapping[str, Any]]] = {}
        self.tree = SnapshotTree(
            files,
            lambda id: self._fields.get(id, SchemaColumn(f"field {id}", id)),
            lambda id: self._specs.get(id, ()),
        )
        self._unrecorded: dict[int, SnapshotChange] = {}
        self._lines: dict[str, ManifestFile] = {}  # what a commit in the log told of a manifest last, by path
        self._new_lines: dict[str, ManifestFile] = {}  # and commits that are not yet in the log

    def begin(self, content: Mapping[str, Any]) -> None:
        """Begin with the snapshots of a version, whose schemas and specs they may name."""
        for schema in _schemas(content):
            names = [f["name"] for f in schema.get("fields", ())]
            self._fields |= {f.id: f for f in projection(schema, names) if f.id is not None}
        self._specs |= {x["spec-id"]: x.get("fields") or () for x in content.get("partition-specs") or ()}
        self._new_lines.clear()

    def recorded(self) -> None:
        """The commits read since ``begin`` are in the log."""
        self._lines |= self._new_lines
        self._unrecorded.clear()

    def commit(
        self, s: Snapshot, content: Mapping[str, Any], n: int, found_in: str | None, seen: Container[int]
    ) -> Commit:
        """The commit of a snapshot.

        Args:
            content: the version that lists it; n: its number.
            found_in: the file outside the chain that lists it, if no version does.
            seen: the snapshots that were listed before.
        """
        id, parent = s["snapshot-id"], s.get("parent-snapshot-id")
        summary = dict(s.get("summary") or {})
        operation = summary.pop("operation", "")
        op = summary.get(OPERATION_KEY)
        change, listed = self._change(s, content, seen)
        before = (self._new_lines.get(m.path) or self._lines.get(m.path) for m in listed)
        new_here = [m for m, b in zip(listed, before, strict=True) if b is None or not m.says(b)]
        self._new_lines |= {m.path: m for m in new_here}
        lines = tuple(map(self._manifest_line, new_here))
        new = {line.path: n for n, line in enumerate(lines)}
        who = f"snapshot {id}" + (f" (op {op})" if op else "")
        problems = [replace(p, why=f"{p.why}; needed by {who}") for p in dict.fromkeys(change.problems)]
        if found_in is not None:
            message = f"{who} is in no version of the metadata chain, only in {found_in}"
            problems.append(Problem("outside-chain", message, found_in, id))
        return Commit(
            snapshot_id=id,
            parent_id=parent,
            sequence_number=s.get("sequence-number") or 0,
            timestamp_ms=s.get("timestamp-ms") or 0,
            operation=operation,
            summary=summary,
            op=op,
            attempt=attempt_of(s.get("manifest-list", "")),
            manifest_list=self._relative(s.get("manifest-list", "")),
            schema_id=s.get("schema-id"),
            metadata=n,
            added=change.added,
            removed=change.removed,
            added_files=tuple(self._whole_entry(e, new) for e in change.added_files),
            removed_files=tuple(map(self._file_entry, change.removed_files)),
            first_row_id=s.get("first-row-id"),
            added_rows=s.get("added-rows"),
            problems=tuple(problems),
            violations=tuple(dict.fromkeys(change.violations)),
            manifests=lines,
            kept_files=tuple(self._whole_entry(e, new) for e in change.kept_files),
        )

    def _change(
        self, s: Snapshot, content: Mapping[str, Any], seen: Container[int]
    ) -> tuple[SnapshotChange, Sequence[ManifestFile]]:
        """What a snapshot changed, and its manifests; adds it to the tree if its manifests can be listed.

        A capture cut short by the store leaves snapshots in the tree that are not recorded: their changes are kept.
        """
        id, parent = s["snapshot-id"], s.get("parent-snapshot-id")
        try:
            manifests = self._manifests(s)
        except Unknown as e:
            return SnapshotChange(problems=[e.problem]), ()
        if id in self._unrecorded:
            return self._unrecorded[id], manifests
        columns = projection(_schema_of(s, content), self._columns)
        live = self.tree.live(id, manifests)
        if parent is None or parent in self.tree:
            change = self.tree.child(id, parent, live, columns, between=id in self.between)
        else:
            change = self.tree.orphan(id, live, columns)
            message = f"its parent {parent} {'could not be read' if parent in seen else 'was never seen'}"
            change.problems.append(Problem("parent", message, snapshot=parent))
        self._unrecorded[id] = change
        return change, manifests

    def _manifests(self, s: Snapshot) -> list[ManifestFile]:
        if "manifest-list" in s:
            return self._files.manifest_list(s["manifest-list"])
        # Version 1 may list the manifests in the metadata itself (spec, "Snapshots").
        return [ManifestFile(path, False, 0, 0, 0, s["snapshot-id"], None) for path in s.get("manifests") or ()]

    def _file_entry(self, e: ManifestEntry) -> FileEntry:
        return FileEntry(
            path=self._relative(e.path),
            content=e.content,
            format=e.format,
            records=e.records,
            size=e.size,
            partition=dict(e.partition),
            data_sequence_number=e.data_sequence_number,
            referenced=None if e.referenced is None else self._relative(e.referenced),
            offset=e.offset,
            length=e.length,
            first_row_id=e.first_row_id,
            file_sequence_number=e.file_sequence_number,
            snapshot_id=e.snapshot_id,
            spec_id=e.spec_id,
        )

    def _whole_entry(self, e: ManifestEntry, manifests: Mapping[str, int]) -> FileEntry:
        """An entry with what it says of its columns, and what its file has; ``manifests``: path → place among the commit's."""
        exact = self._files.exact(e)
        kinds = {} if exact is None else {id: c.kind for id, c in exact.items()}
        statistics = None if e.columns is None else ((t.id, t.read(kinds.get(t.id, ""))) for t in e.columns)
        return msgspec.structs.replace(
            self._file_entry(e),
            equality_ids=e.equality_ids or None,
            columns=None if statistics is None else columns_text(statistics),
            exact=None if exact is None else columns_text(exact.items()),
            split_offsets=e.split_offsets,
            sort_order_id=e.sort_order_id,
            key_metadata=None if e.key_metadata is None else e.key_metadata.hex(),
            stored=self._files.sizes.get(e.path),
            manifest=manifests.get(self._relative(e.manifest)),
        )

    def _manifest_line(self, m: ManifestFile) -> ManifestLine:
        try:
            found = self._files.manifest(m).partitions
        except Unknown:
            found = None
        return ManifestLine(
            path=self._relative(m.path),
            deletes=m.deletes,
            spec_id=m.spec_id,
            sequence_number=m.sequence_number,
            min_sequence_number=m.min_sequence_number,
            snapshot_id=m.snapshot_id,
            first_row_id=m.first_row_id,
            length=m.length,
            stored=self._files.sizes.get(m.path),
            counts=tuple(n for _, n in m.counts),
            partitions=None if m.partitions is None else fields_text(summaries(m.partitions, found or ())),
            found=None if found is None else fields_text(found),
            key_metadata=None if m.key_metadata is None else m.key_metadata.hex(),
        )


def _schemas(content: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """All schemas; the old ``schema`` of version 1 last."""
    return [*(content.get("schemas") or ()), *([content["schema"]] if "schema" in content else ())]


def _schema_of(s: Snapshot, content: Mapping[str, Any]) -> Mapping[str, Any]:
    """The schema for reading a snapshot: its own (``schema-id``), else the table's current one."""
    by_id = {schema.get("schema-id"): schema for schema in _schemas(content)}
    for id in (s.get("schema-id"), content.get("current-schema-id")):
        if id is not None and id in by_id:
            return by_id[id]
    return content.get("schema") or {}
