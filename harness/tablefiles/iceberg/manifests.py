"""The files of an Iceberg table, decoded: metadata.json, manifest lists, manifests, data, delete files, deletion
vectors.

The structure of an Iceberg table (Iceberg spec, format/spec.md)::

    metadata.json ──► snapshot ──► manifest list (Avro) ──► manifest (Avro) ──► data file (Parquet)
      (the catalog     (one per        one line a             one entry a   └──► delete file: position (Parquet),
       points at it)    commit)        manifest               file                equality (Parquet), or a deletion
                                                                                  vector: a blob in a Puffin file

This module does not know what a commit changed; ``harness.tablefiles.iceberg.reader`` does. Every function takes bytes and returns plain
values, so that each rule can be read and tested alone. The subtle points:

* **Inheritance.** A file's sequence number is unknown when its manifest is written (the commit assigns it when it wins), so entries
  have null and inherit from the manifest list (spec, "Sequence Number Inheritance"): snapshot id whenever null; data and file
  sequence number when null and the entry is ADDED. An EXISTING or DELETED entry must have its own. Row ids (v3) are inherited the
  same way: the manifest's ``first_row_id`` plus the records of the files before it that also had null.
* **Columns are field ids.** A Parquet column belongs to the table column with the same *field id*, whatever its name; a column
  that a file lacks reads as the field's ``initial-default``, else null (spec, "Column Projection").
* **Deletion vectors** are 64-bit Roaring bitmaps of row positions, framed with a length, a magic number and a CRC
  (Puffin spec, ``deletion-vector-v1``)::

      ┌────────────┬─────────────┬──────────────────────────────┬────────────┐
      │ length  BE │ D1 D3 39 64 │ Roaring64, portable format   │ CRC-32  BE │
      │ 4 bytes    │ magic       │                              │ 4 bytes    │
      └────────────┴─────────────┴──────────────────────────────┴────────────┘
                   └── "length" counts these, and the CRC covers them ──┘
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import fastavro
import msgspec

from checkers.evidence.record import DECODE_ERRORS
from checkers.evidence.tablelog import FileContent
from checkers.formats.iceberg.statistics import PartitionSummary
from harness.tablefiles.iceberg.metadata_json import CorruptFile
from harness.tablefiles.iceberg.rows import plain
from harness.tablefiles.iceberg.statistics import EntryStatistics, entry_statistics, partitions

ADDED, EXISTING, DELETED = 1, 0, 2
_STATUS = {EXISTING: "EXISTING", ADDED: "ADDED", DELETED: "DELETED"}

Partition = tuple[tuple[str, Any], ...]
"""Partition field name → value, in the order of the spec; hashable."""


@dataclass(frozen=True, slots=True)
class ManifestFile:
    """One line of a manifest list: a manifest, and the values that its entries inherit. ``counts`` by column of the list."""

    path: str
    deletes: bool
    spec_id: int
    sequence_number: int
    min_sequence_number: int
    snapshot_id: int | None
    first_row_id: int | None
    counts: tuple[tuple[str, int | None], ...] = field(default=(), compare=False)
    length: int | None = field(default=None, compare=False)
    partitions: Sequence[Mapping[str, Any]] | None = field(default=None, compare=False)
    key_metadata: bytes | None = field(default=None, compare=False)

    def says(self, other: ManifestFile) -> bool:
        """Whether it says all that the other one says."""
        return (
            self == other
            and self.counts == other.counts
            and self.length == other.length
            and self.partitions == other.partitions
            and self.key_metadata == other.key_metadata
        )


@dataclass(frozen=True, slots=True)
class ManifestEntry:
    """A data or delete file of a snapshot, with all inherited values.

    Two entries are the same file at the same age when path, blob offset, sequence number and partition are equal; values assigned or
    dropped when a manifest is rewritten (row ids, references, sizes) do not matter.
    """

    path: str
    content: FileContent
    offset: int | None
    data_sequence_number: int
    spec_id: int
    partition: Partition
    unpartitioned: bool = field(compare=False)
    status: int = field(compare=False)
    snapshot_id: int | None = field(compare=False)
    file_sequence_number: int | None = field(compare=False)
    format: str = field(compare=False)
    records: int = field(compare=False)
    size: int = field(compare=False)
    referenced: str | None = field(default=None, compare=False)
    length: int | None = field(default=None, compare=False)
    first_row_id: int | None = field(default=None, compare=False)
    equality_ids: tuple[int, ...] = field(default=(), compare=False)
    columns: tuple[EntryStatistics, ...] | None = field(default=None, compare=False)
    split_offsets: tuple[int, ...] | None = field(default=None, compare=False)
    sort_order_id: int | None = field(default=None, compare=False)
    key_metadata: bytes | None = field(default=None, compare=False)
    manifest: str = field(default="", compare=False)

    @property
    def scope(self) -> tuple[int, Partition]:
        """Spec and partition: a delete file applies only to data files with the same ones."""
        return self.spec_id, self.partition

    @property
    def details(self) -> tuple[object, ...]:
        """What a copy of the entry must say, too, besides what makes it the same file. Row ids may come later, with version 3."""
        return (
            *(self.format, self.records, self.size, self.referenced, self.length, self.equality_ids, self.columns),
            *(self.split_offsets, self.sort_order_id, self.key_metadata, self.snapshot_id, self.file_sequence_number),
        )


@dataclass(frozen=True, slots=True)
class Manifest:
    """A manifest's entries in order, and its violations of the spec, each text starting with a code.

    ``partitions``: of its live entries, field by field.
    """

    entries: tuple[ManifestEntry, ...]
    violations: tuple[str, ...]
    partitions: Sequence[PartitionSummary] | None = None

    @property
    def weight(self) -> int:
        """What it takes to keep it, in entries without statistics."""
        return 1 + sum(1 + len(e.columns or ()) for e in self.entries)


def _avro(content: bytes, what: str) -> tuple[Any, list[dict[str, Any]]]:
    try:
        reader = fastavro.reader(io.BytesIO(content))
        return reader, list(reader)
    except Exception as e:  # fastavro raises arbitrary errors on torn bytes
        raise CorruptFile(f"not a readable {what}: {type(e).__name__}: {e}") from None


_COUNTS = (
    ("added_files_count", "added_data_files_count", ADDED),
    ("existing_files_count", "existing_data_files_count", EXISTING),
    ("deleted_files_count", "deleted_data_files_count", DELETED),
    ("added_rows_count", None, ADDED),
    ("existing_rows_count", None, EXISTING),
    ("deleted_rows_count", None, DELETED),
)


def read_manifest_list(content: bytes) -> list[ManifestFile]:
    """The manifests of a snapshot (spec, "Manifest Lists"). Version 1 lists have no sequence numbers: they are 0.

    Raises:
        CorruptFile: not a manifest list.
    """
    _, records = _avro(content, "manifest list")
    try:
        return [
            ManifestFile(
                path=r["manifest_path"],
                deletes=r.get("content", 0) == 1,
                spec_id=r.get("partition_spec_id") or 0,
                sequence_number=r.get("sequence_number") or 0,
                min_sequence_number=r.get("min_sequence_number") or 0,
                snapshot_id=r.get("added_snapshot_id"),
                first_row_id=r.get("first_row_id"),
                counts=tuple((n, r.get(n, r.get(old) if old else None)) for n, old, _ in _COUNTS),
                length=r.get("manifest_length"),
                partitions=r.get("partitions"),
                key_metadata=r.get("key_metadata"),
            )
            for r in records
        ]
    except (KeyError, TypeError, AttributeError) as e:
        raise CorruptFile(f"not a manifest list: {type(e).__name__}: {e}") from None


Unsaid = Literal["unsaid"]
UNSAID: Unsaid = "unsaid"


def read_parent(content: bytes) -> int | Unsaid | None:
    """The parent of a manifest list's snapshot, which Iceberg's writers put into the file's header (``ManifestListWriter``); None: it has none.
    DuckDB leaves it out: ``unsaid``.

    Raises:
        CorruptFile: not a manifest list.
    """
    header, _ = _avro(content, "manifest list")
    parent = (header.metadata or {}).get("parent-snapshot-id", UNSAID)
    if parent == UNSAID:
        return UNSAID
    return int(parent) if parent is not None and str(parent).lstrip("-").isdecimal() else None


def _content(r: Mapping[str, Any], deletes: bool) -> FileContent:
    content = r.get("content") or 0
    if content == 2:
        return "equality-deletes"
    if content == 1:
        return "deletion-vector" if str(r.get("file_format")).upper() == "PUFFIN" else "position-deletes"
    if deletes:
        raise CorruptFile("a data file in a manifest of deletes")
    return "data"


def _partition_spec(header: Mapping[str, str]) -> list[Mapping[str, Any]] | None:
    try:
        spec = msgspec.json.decode(header["partition-spec"])
    except (KeyError, *DECODE_ERRORS):
        return None
    fields = spec.get("fields") if isinstance(spec, dict) else spec
    return fields if isinstance(fields, list) else None


def read_manifest(content: bytes, file: ManifestFile) -> Manifest:
    """A manifest's entries with all values that they inherit from ``file`` (spec, "Manifests" and "… Inheritance").

    Raises:
        CorruptFile: not a manifest.
    """
    reader, records = _avro(content, "manifest")
    spec = _partition_spec(reader.metadata)
    all_void = spec is not None and all(f.get("transform") == "void" for f in spec)
    entries: list[ManifestEntry] = []
    violations: list[str] = []
    row_id = file.first_row_id
    files, rows = {ADDED: 0, EXISTING: 0, DELETED: 0}, {ADDED: 0, EXISTING: 0, DELETED: 0}
    oldest: int | None = None
    live: dict[tuple[Any, ...], None] = {}
    try:
        for record in records:
            fields, status = record["data_file"], record["status"]
            files[status] += 1
            rows[status] += fields["record_count"]
            data_seq, file_seq = _sequence_numbers(record, file, violations)
            first_row_id = fields.get("first_row_id")
            if first_row_id is None and row_id is not None and not file.deletes and status != DELETED:
                first_row_id = row_id
                row_id += fields["record_count"]
            entry = _entry(record, file, data_seq, file_seq, first_row_id, all_void)
            entries.append(entry)
            if status != DELETED:
                oldest = data_seq if oldest is None else min(oldest, data_seq)
                live[tuple((fields.get("partition") or {}).values())] = None
    except (KeyError, TypeError, AttributeError) as e:
        raise CorruptFile(f"not a manifest: {type(e).__name__}: {e}") from None
    for (name, listed), (_, _, status) in zip(file.counts, _COUNTS, strict=False):
        counted = (files if "files" in name else rows)[status]
        if listed is not None and listed != counted:
            violations.append(f"manifest-count: the manifest list says {name}={listed}, the manifest has {counted}")
    if oldest is not None and file.min_sequence_number > oldest:
        violations.append(
            f"min-sequence-number: the manifest list says {file.min_sequence_number}, a live file has {oldest}"
        )
    return Manifest(tuple(entries), tuple(violations), partitions(live))


def _sequence_numbers(record: Mapping[str, Any], file: ManifestFile, violations: list[str]) -> tuple[int, int | None]:
    """The data and the file sequence number of an entry, with what it inherits; what is wrong with them goes to ``violations``."""
    path, status = record["data_file"]["file_path"], record["status"]
    inherits = status == ADDED or file.sequence_number == 0
    data_seq, file_seq = record.get("sequence_number"), record.get("file_sequence_number")
    if data_seq is None:
        data_seq = file.sequence_number
        if not inherits:
            violations.append(f"null-sequence-number: {_STATUS[status]} entry of {path} says no sequence number")
    if file_seq is None and inherits:
        file_seq = file.sequence_number
    if file_seq is not None and data_seq > file_seq:
        violations.append(
            f"sequence-number: {path} has data sequence number {data_seq} but file sequence number {file_seq}"
        )
    return data_seq, file_seq


def _entry(
    record: Mapping[str, Any],
    file: ManifestFile,
    data_seq: int,
    file_seq: int | None,
    first_row_id: int | None,
    all_void: bool,
) -> ManifestEntry:
    """An entry of a manifest. ``all_void``: whether no field of its partition spec divides anything."""
    f = record["data_file"]
    partition = f.get("partition") or {}
    return ManifestEntry(
        path=f["file_path"],
        content=_content(f, file.deletes),
        offset=f.get("content_offset"),
        data_sequence_number=data_seq,
        spec_id=file.spec_id,
        partition=tuple((k, plain(v)) for k, v in partition.items()),
        unpartitioned=all_void or not partition,
        status=record["status"],
        snapshot_id=record["snapshot_id"] if record.get("snapshot_id") is not None else file.snapshot_id,
        file_sequence_number=file_seq,
        format=str(f["file_format"]).lower(),
        records=f["record_count"],
        size=f["file_size_in_bytes"],
        referenced=f.get("referenced_data_file"),
        length=f.get("content_size_in_bytes"),
        first_row_id=first_row_id,
        equality_ids=tuple(f.get("equality_ids") or ()),
        columns=entry_statistics(f),
        split_offsets=tuple(f["split_offsets"]) if f.get("split_offsets") is not None else None,
        sort_order_id=f.get("sort_order_id"),
        key_metadata=f.get("key_metadata"),
        manifest=file.path,
    )
