"""The files of an Iceberg table, decoded: metadata.json, manifest lists, manifests, data, delete files, deletion
vectors.

How an Iceberg table hangs together (Iceberg spec, format/spec.md)::

    metadata.json ──► snapshot ──► manifest list (Avro) ──► manifest (Avro) ──► data file (Parquet)
      (the catalog     (one per        one line a             one entry a   └──► delete file: position (Parquet),
       points at it)    commit)        manifest               file                equality (Parquet), or a deletion
                                                                                  vector: a blob in a Puffin file

Nothing here knows what a commit changed; that is ``harness.tablefiles.reader``. Every function takes bytes and returns plain
values, so that each rule can be read and tested on its own. What is subtle:

* **Inheritance.** A file's sequence number is not known when its manifest is written (it is assigned when the commit
  wins), so entries say null and inherit from the manifest list (spec, "Sequence Number Inheritance"): snapshot id
  whenever null; data and file sequence number when null and the entry is ADDED. An EXISTING or DELETED entry must say
  its own. Row ids (v3) are inherited the same way: the manifest's ``first_row_id`` plus the records of the files
  before it that also said null.
* **Columns are field ids.** A Parquet column belongs to the table column with the same *field id*, whatever it is
  called; a column that a file does not have reads as the field's ``initial-default``, else null (spec, "Column
  Projection").
* **Deletion vectors** are 64-bit Roaring bitmaps of row positions, framed with a length, a magic number and a CRC
  (Puffin spec, ``deletion-vector-v1``)::

      ┌────────────┬─────────────┬──────────────────────────────┬────────────┐
      │ length  BE │ D1 D3 39 64 │ Roaring64, portable format   │ CRC-32  BE │
      │ 4 bytes    │ magic       │                              │ 4 bytes    │
      └────────────┴─────────────┴──────────────────────────────┴────────────┘
                   └── "length" counts these, and the CRC covers them ──┘
"""

from __future__ import annotations

import datetime
import decimal
import gzip
import io
import re
import struct
import uuid
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import fastavro
import orjson
import pyarrow as pa
import pyarrow.parquet as pq
from pyroaring import BitMap64

from checkers.evidence.tablelog import FileContent

DELETE_FILE_PATH_ID = 2147483546
"""Field id of ``file_path`` in a position delete file (spec, "Reserved Field IDs")."""
DELETE_FILE_POS_ID = 2147483545
"""Field id of ``pos`` in a position delete file."""

DV_MAGIC = b"\xd1\xd3\x39\x64"

ADDED, EXISTING, DELETED = 1, 0, 2
_STATUS = {EXISTING: "EXISTING", ADDED: "ADDED", DELETED: "DELETED"}
_SNAP = re.compile(r"snap-(-?\d+)-(\d+)-[^/]*\.avro$")

Partition = tuple[tuple[str, Any], ...]
"""Partition field name → value, in the order of the spec; hashable."""


class CorruptFile(ValueError):
    """A file of the table that is there but cannot be decoded; the message says what is wrong, without the path."""


def plain(value: Any) -> Any:
    """A value that JSON can carry: dates, times, decimals and UUIDs as text, bytes as hexadecimal, structures as
    tuples.
    """
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, (bytes, bytearray)):
        return bytes(value).hex()
    if isinstance(value, dict):
        return tuple((k, plain(v)) for k, v in value.items())
    if isinstance(value, (list, tuple)):
        return tuple(plain(v) for v in value)
    if isinstance(value, (decimal.Decimal, uuid.UUID, datetime.timedelta)):
        return str(value)
    return str(value)


# --- metadata.json ----------------------------------------------------------------------------------------------------

_SNAPSHOT_TYPES: dict[str, type | tuple[type, ...]] = {
    "snapshot-id": int,
    "parent-snapshot-id": (int, type(None)),
    "sequence-number": (int, type(None)),
    "timestamp-ms": (int, type(None)),
    "manifest-list": (str, type(None)),
    "summary": (dict, type(None)),
}
_FIELD_TYPES: dict[str, type | tuple[type, ...]] = {"id": int, "name": str, "type": object}


def _check_shape(m: Mapping[str, Any]) -> None:
    """Raises CorruptFile when something that is read of a metadata.json is not of the type that the spec gives it."""

    def each(what: str, items: Any, types: Mapping[str, type | tuple[type, ...]]) -> None:
        if not isinstance(items, list):
            raise CorruptFile(f"not a table's metadata.json: {what} is no list")
        for item in items:
            for key, type in types.items():
                if (
                    not isinstance(item, dict)
                    or not isinstance(item.get(key), type)
                    or (type is object and key not in item)
                ):
                    raise CorruptFile(f"not a table's metadata.json: {what} has an entry with a wrong {key}")

    schemas = [*(m.get("schemas") or ()), *([m["schema"]] if "schema" in m else ())]
    refs = m.get("refs") or {}
    if not isinstance(refs, dict):
        raise CorruptFile("not a table's metadata.json: refs is no object")
    each("snapshots", m.get("snapshots") or [], _SNAPSHOT_TYPES)
    each("metadata-log", m.get("metadata-log") or [], {"metadata-file": str})
    each("refs", list(refs.values()), {"snapshot-id": int})
    each("schemas", schemas, {"fields": list})
    for schema in schemas:
        each("a schema", schema["fields"], _FIELD_TYPES)


def read_metadata(content: bytes) -> dict[str, Any]:
    """A metadata.json, plain or gzipped.

    Raises:
        CorruptFile: not a table's metadata.
    """
    try:
        parsed = orjson.loads(gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content)
    except (ValueError, OSError, EOFError, zlib.error) as e:
        raise CorruptFile(f"not a metadata.json: {e}") from None
    if not isinstance(parsed, dict) or not isinstance(parsed.get("location"), str) or "format-version" not in parsed:
        raise CorruptFile("not a table's metadata.json: format-version or location is missing")
    _check_shape(parsed)
    return parsed


def attempt_of(manifest_list: str) -> int | None:
    """The producer's attempt number in a manifest list's name ``snap-<snapshot id>-<attempt>-<uuid>.avro``; None
    elsewhere.

    Source: Iceberg ``SnapshotProducer.manifestListPath``. PyIceberg writes 0.
    """
    m = _SNAP.search(manifest_list)
    return int(m[2]) if m else None


# --- manifest lists and manifests -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ManifestFile:
    """One line of a manifest list: a manifest, and what its entries inherit. ``counts`` by column of the list."""

    path: str
    deletes: bool
    spec_id: int
    sequence_number: int
    min_sequence_number: int
    snapshot_id: int | None
    first_row_id: int | None
    counts: tuple[tuple[str, int | None], ...] = field(default=(), compare=False)


@dataclass(frozen=True, slots=True)
class Entry:
    """A data or delete file of a snapshot, with everything inherited.

    Two entries are the same file at the same age when path, blob offset, sequence number and partition agree; what is
    assigned or dropped when a manifest is rewritten (row ids, references, sizes) does not make another file of it.
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

    @property
    def scope(self) -> tuple[int, Partition]:
        """Spec and partition: what a delete file must share with a data file to apply to it."""
        return self.spec_id, self.partition


@dataclass(frozen=True, slots=True)
class Manifest:
    """A manifest's entries in their order, and what in it breaks the spec, in words that start with a code."""

    entries: tuple[Entry, ...]
    violations: tuple[str, ...]


def _avro(content: bytes, what: str) -> tuple[Any, list[dict[str, Any]]]:
    try:
        reader = fastavro.reader(io.BytesIO(content))
        return reader, list(reader)
    except Exception as e:  # fastavro raises whatever the torn bytes lead to
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
            )
            for r in records
        ]
    except (KeyError, TypeError) as e:
        raise CorruptFile(f"not a manifest list: {type(e).__name__}: {e}") from None


def read_parent(content: bytes) -> int | None:
    """The parent of the snapshot that a manifest list belongs to, as its writer put it into the file's header (``ManifestListWriter``).

    Raises:
        CorruptFile: not a manifest list.
    """
    header, _ = _avro(content, "manifest list")
    said = (header.metadata or {}).get("parent-snapshot-id")
    return int(said) if said is not None and str(said).lstrip("-").isdecimal() else None


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
        spec = orjson.loads(header["partition-spec"])
    except (KeyError, ValueError):
        return None
    fields = spec.get("fields") if isinstance(spec, dict) else spec
    return fields if isinstance(fields, list) else None


def read_manifest(content: bytes, of: ManifestFile) -> Manifest:
    """A manifest's entries with everything that they inherit from ``of`` (spec, "Manifests" and "… Inheritance").

    Raises:
        CorruptFile: not a manifest.
    """
    reader, records = _avro(content, "manifest")
    spec = _partition_spec(reader.metadata)
    all_void = spec is not None and all(f.get("transform") == "void" for f in spec)
    entries: list[Entry] = []
    violations: list[str] = []
    row_id = of.first_row_id
    files, rows = {ADDED: 0, EXISTING: 0, DELETED: 0}, {ADDED: 0, EXISTING: 0, DELETED: 0}
    oldest: int | None = None
    try:
        for r in records:
            f = r["data_file"]
            status, path, records_in = r["status"], f["file_path"], f["record_count"]
            files[status] += 1
            rows[status] += records_in
            inherits = status == ADDED or of.sequence_number == 0
            data_seq, file_seq = r.get("sequence_number"), r.get("file_sequence_number")
            if data_seq is None:
                data_seq = of.sequence_number
                if not inherits:
                    violations.append(
                        f"null-sequence-number: {_STATUS[status]} entry of {path} says no sequence number"
                    )
            if file_seq is None and inherits:
                file_seq = of.sequence_number
            if file_seq is not None and data_seq > file_seq:
                violations.append(
                    f"sequence-number: {path} has data sequence number {data_seq} but file sequence number {file_seq}"
                )
            first_row_id = f.get("first_row_id")
            if first_row_id is None and row_id is not None and not of.deletes and status != DELETED:
                first_row_id = row_id
                row_id += records_in
            if status != DELETED:
                oldest = data_seq if oldest is None else min(oldest, data_seq)
            partition = f.get("partition") or {}
            entries.append(
                Entry(
                    path=path,
                    content=_content(f, of.deletes),
                    offset=f.get("content_offset"),
                    data_sequence_number=data_seq,
                    spec_id=of.spec_id,
                    partition=tuple((k, plain(v)) for k, v in partition.items()),
                    unpartitioned=all_void or not partition,
                    status=status,
                    snapshot_id=r["snapshot_id"] if r.get("snapshot_id") is not None else of.snapshot_id,
                    file_sequence_number=file_seq,
                    format=str(f["file_format"]).lower(),
                    records=records_in,
                    size=f["file_size_in_bytes"],
                    referenced=f.get("referenced_data_file"),
                    length=f.get("content_size_in_bytes"),
                    first_row_id=first_row_id,
                    equality_ids=tuple(f.get("equality_ids") or ()),
                )
            )
    except (KeyError, TypeError, AttributeError) as e:
        raise CorruptFile(f"not a manifest: {type(e).__name__}: {e}") from None
    for (name, said), (_, _, status) in zip(of.counts, _COUNTS, strict=False):
        found = (files if "files" in name else rows)[status]
        if said is not None and said != found:
            violations.append(f"manifest-count: the manifest list says {name}={said}, the manifest has {found}")
    if oldest is not None and of.min_sequence_number > oldest:
        violations.append(
            f"min-sequence-number: the manifest list says {of.min_sequence_number}, a live file has {oldest}"
        )
    return Manifest(tuple(entries), tuple(violations))


# --- rows -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Column:
    """A column as a schema has it: what to read for ``name``. ``id`` None: the schema has no such column."""

    name: str
    id: int | None
    type: str = ""
    default: Any = None


def projection(schema: Mapping[str, Any], columns: Sequence[str]) -> tuple[Column, ...]:
    """``columns`` by name in an Iceberg schema (its JSON), as field ids with their initial defaults."""
    fields = {f["name"]: f for f in schema.get("fields", ())}
    out = []
    for name in columns:
        f = fields.get(name)
        if f is None:
            out.append(Column(name, None))
        else:
            out.append(Column(name, f["id"], f["type"] if isinstance(f["type"], str) else "", f.get("initial-default")))
    return tuple(out)


@dataclass(frozen=True, slots=True)
class DataRows:
    """A Parquet file's rows, as Arrow columns by field id, or by name when the file carries no field ids at all."""

    count: int
    by_id: dict[int, pa.ChunkedArray]
    names: dict[str, pa.ChunkedArray]

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return sum(c.nbytes for c in (*self.by_id.values(), *self.names.values()))

    def column(self, c: Column) -> list[Any]:
        """The values of one table column, as plain values, ``count`` of them."""
        found = self.by_id.get(c.id) if c.id is not None else None
        if found is None and not self.by_id and c.id is not None:
            found = self.names.get(c.name)
        if found is None:
            return [c.default] * self.count
        if c.type.startswith("timestamp") and pa.types.is_date(found.type):  # v3 promotes date to timestamp
            found = found.cast(pa.timestamp("ns" if "_ns" in c.type else "us"))
        values: list[Any] = found.to_pylist()
        if pa.types.is_integer(found.type) or pa.types.is_string(found.type) or pa.types.is_large_string(found.type):
            return values
        return [plain(v) for v in values]

    def rows(self, columns: Sequence[Column]) -> list[tuple[Any, ...]]:
        """All rows in file order: the index is the row's position."""
        if not columns:
            return [()] * self.count
        return list(zip(*(self.column(c) for c in columns), strict=True))


def _field_id(f: pa.Field) -> int | None:
    raw = (f.metadata or {}).get(b"PARQUET:field_id")
    return int(raw) if raw is not None else None


def _parquet(content: bytes) -> pa.Table:
    try:
        # One thread: files are small and cores are shared with the writers under test.
        with pq.ParquetFile(pa.BufferReader(content)) as f:
            table = f.read(use_threads=False)
            table.validate(full=True)
            return table
    except (pa.ArrowException, OSError, ValueError) as e:
        raise CorruptFile(f"not a readable Parquet file: {' '.join(str(e).split())[:200]}") from None


def read_rows(content: bytes, format: str) -> DataRows:
    """A data file's (or an equality delete file's) rows.

    Raises:
        CorruptFile: torn, or of a format that is not Parquet.
    """
    if format != "parquet":
        raise CorruptFile(f"format {format} is not supported by this reader")
    table = _parquet(content)
    by_id: dict[int, pa.ChunkedArray] = {}
    names: dict[str, pa.ChunkedArray] = {}
    for f, column in zip(table.schema, table.columns, strict=True):
        id = _field_id(f)
        if id is None:
            names[f.name] = column
        else:
            by_id[id] = column
    return DataRows(table.num_rows, by_id, names)


def read_position_deletes(content: bytes, format: str) -> dict[str, tuple[int, ...]]:
    """Data file path → deleted positions (spec, "Position Delete Files"); one file may name several data files.

    Raises:
        CorruptFile: torn, of a format that is not Parquet, or without the two columns.
    """
    rows = read_rows(content, format)
    paths = rows.by_id.get(DELETE_FILE_PATH_ID, rows.names.get("file_path"))
    positions = rows.by_id.get(DELETE_FILE_POS_ID, rows.names.get("pos"))
    if paths is None or positions is None:
        raise CorruptFile("a position delete file without file_path and pos")
    out: dict[str, list[int]] = {}
    for path, pos in zip(paths.to_pylist(), positions.to_pylist(), strict=True):
        out.setdefault(path, []).append(pos)
    return {path: tuple(found) for path, found in out.items()}


def decode_deletion_vector(blob: bytes) -> tuple[int, ...]:
    """The deleted positions, ascending, of one ``deletion-vector-v1`` blob (Puffin spec).

    Raises:
        CorruptFile: torn, wrong magic, wrong CRC, or no bitmap.
    """
    if len(blob) < 12:
        raise CorruptFile(f"a deletion vector of {len(blob)} bytes is too short")
    (length,) = struct.unpack(">I", blob[:4])
    if length != len(blob) - 8:
        raise CorruptFile(f"a deletion vector that says {length} bytes but has {len(blob) - 8}")
    if blob[4:8] != DV_MAGIC:
        raise CorruptFile(f"a deletion vector with magic {blob[4:8].hex()} instead of {DV_MAGIC.hex()}")
    (crc,) = struct.unpack(">I", blob[-4:])
    if crc != zlib.crc32(blob[4:-4]):
        raise CorruptFile("a deletion vector whose CRC is wrong")
    try:
        return tuple(BitMap64.deserialize(blob[8:-4]))
    except (ValueError, RuntimeError, MemoryError) as e:
        raise CorruptFile(f"a deletion vector without a bitmap: {e}") from None


def encode_deletion_vector(positions: Sequence[int]) -> bytes:
    """The inverse of :func:`decode_deletion_vector`."""
    body = DV_MAGIC + BitMap64(positions).serialize()
    return struct.pack(">I", len(body)) + body + struct.pack(">I", zlib.crc32(body))


def read_deletion_vector(content: bytes, offset: int | None, length: int | None) -> tuple[int, ...]:
    """The positions of the vector at ``offset`` (bytes) of a Puffin file.

    Raises:
        CorruptFile: outside the file, or as :func:`decode_deletion_vector`.
    """
    if offset is None or length is None:
        raise CorruptFile("a deletion vector whose entry says no content_offset and content_size_in_bytes")
    if offset < 0 or length < 0 or offset + length > len(content):
        raise CorruptFile(f"a deletion vector at {offset}+{length}, outside its file of {len(content)} bytes")
    return decode_deletion_vector(content[offset : offset + length])


def equality_key(values: Sequence[Any]) -> tuple[Any, ...]:
    """Values as an equality delete compares them: nulls are equal to nulls (spec), NaN to NaN (``StructLikeSet``)."""
    return tuple("NaN" if isinstance(v, float) and v != v else v for v in values)


def equality_keys(rows: DataRows, columns: Sequence[Column]) -> Iterator[tuple[Any, ...]]:
    """Each row's values in the columns of an equality delete, in file order."""
    return (equality_key(r) for r in rows.rows(columns))
