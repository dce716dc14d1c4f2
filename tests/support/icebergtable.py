"""Iceberg tables written by hand, file by file, so that a test can say exactly what is in them, and break it.

    t = HandMadeTable(tmp_path)
    a = t.data([(1, "a", 0), (2, "b", 0)])
    s1 = t.commit(add=[a])
    s2 = t.commit(add=[t.positions({a: [0]})])
    late = t.commit(add=[t.data([(3, "c", 0)])], parent=s1)

Rows are ``(id, val, part)``, field ids 1, 2, 3; partitioned by ``part`` unless told otherwise.
"""

from __future__ import annotations

import io
import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq

from checkers.evidence.replace import replace
from harness.tablefiles.iceberg.manifests import ADDED, DELETED, EXISTING
from harness.tablefiles.iceberg.vectors import encode_deletion_vector

COLUMNS = ("id", "val", "part")
SCHEMA: dict[str, Any] = {
    "type": "struct",
    "schema-id": 0,
    "fields": [
        {"id": 1, "name": "id", "required": False, "type": "long"},
        {"id": 2, "name": "val", "required": False, "type": "string"},
        {"id": 3, "name": "part", "required": False, "type": "int"},
    ],
}
BY_PART = [{"name": "part", "transform": "identity", "source-id": 3, "field-id": 1000}]
_IDS = {
    "manifest_path": 500,
    "manifest_length": 501,
    "partition_spec_id": 502,
    "added_snapshot_id": 503,
    "added_files_count": 504,
    "existing_files_count": 505,
    "deleted_files_count": 506,
    "added_rows_count": 512,
    "existing_rows_count": 513,
    "deleted_rows_count": 514,
    "sequence_number": 515,
    "min_sequence_number": 516,
    "content": 517,
    "first_row_id": 520,
}
_DATA_FILE_IDS = {
    "content": 134,
    "file_path": 100,
    "file_format": 101,
    "partition": 102,
    "record_count": 103,
    "file_size_in_bytes": 104,
    "split_offsets": 132,
    "equality_ids": 135,
    "first_row_id": 142,
    "referenced_data_file": 143,
    "content_offset": 144,
    "content_size_in_bytes": 145,
}
_ARROW = {"long": pa.int64(), "string": pa.string(), "int": pa.int32()}


@dataclass(frozen=True)
class File:
    """A data or delete file as a manifest entry describes it; ``seq`` None until a commit adds it."""

    path: str
    content: int
    records: int
    size: int
    part: int | None
    spec_id: int = 0
    format: str = "PARQUET"
    seq: int | None = None
    snapshot_id: int | None = None
    referenced: str | None = None
    offset: int | None = None
    length: int | None = None
    equality_ids: tuple[int, ...] = ()
    split_offsets: tuple[int, ...] | None = None


@dataclass
class Manifest:
    """A manifest and its line in the manifest lists that have it."""

    line: dict[str, Any]
    entries: list[tuple[int, File]]

    @property
    def live(self) -> list[File]:
        return [f for status, f in self.entries if status != DELETED]


@dataclass
class Version:
    """A metadata.json: its path and content; ``manifests`` by snapshot id, for the children."""

    location: str
    content: dict[str, Any]
    manifests: dict[int, list[Manifest]] = field(default_factory=dict)


def optional(type: Any) -> list[Any]:
    return ["null", type]


class HandMadeTable:
    """A table below ``root``; ``pointer`` is what a catalog would say. ``names_parents``: whether manifest lists name them, as Iceberg's do."""

    def __init__(self, root: Path, *, version: int = 2, partitioned: bool = True) -> None:
        self.root = root
        self.names_parents = True
        (root / "metadata").mkdir(parents=True)
        (root / "data").mkdir()
        self.version = version
        self.specs: list[dict[str, Any]] = [{"spec-id": 0, "fields": BY_PART if partitioned else []}]
        self._next = 1
        self.files: dict[str, File] = {}
        self.schemas = [SCHEMA]
        self.manifests: dict[int, list[Manifest]] = {}
        self.versions: list[Version] = []
        self.write_metadata(
            {
                "format-version": version,
                "table-uuid": str(uuid.UUID(int=1)),
                "location": str(root),
                "last-sequence-number": 0,
                "last-updated-ms": 0,
                "current-schema-id": 0,
                "schemas": self.schemas,
                "partition-specs": self.specs,
                "default-spec-id": 0,
                "last-column-id": max(f["id"] for f in SCHEMA["fields"]),
                "last-partition-id": 1000,
                "sort-orders": [{"order-id": 0, "fields": []}],
                "default-sort-order-id": 0,
                "properties": {},
                "snapshots": [],
                "snapshot-log": [],
                "metadata-log": [],
                "refs": {},
            }
        )

    @property
    def pointer(self) -> str:
        return self.versions[-1].location

    @property
    def metadata(self) -> dict[str, Any]:
        """The newest metadata.json's content (a copy)."""
        copy: dict[str, Any] = json.loads(json.dumps(self.versions[-1].content))
        return copy

    def number(self) -> int:
        self._next += 1
        return self._next

    # --- files

    def _put(self, name: str, content: bytes) -> tuple[str, int]:
        path = self.root / "data" / name
        path.write_bytes(content)
        return str(path), len(content)

    def _parquet(
        self, columns: Mapping[str, tuple[int, pa.DataType]], rows: Sequence[Sequence[Any]], group: int | None = None
    ) -> bytes:
        fields = [pa.field(n, t, metadata={b"PARQUET:field_id": str(i).encode()}) for n, (i, t) in columns.items()]
        values = [pa.array([r[i] for r in rows], t) for i, (_, t) in enumerate(columns.values())]
        sink = io.BytesIO()
        pq.write_table(pa.Table.from_arrays(values, schema=pa.schema(fields)), sink, row_group_size=group)
        return sink.getvalue()

    def data(
        self, rows: Sequence[Sequence[Any]], *, part: int | None = None, spec_id: int = 0, group: int | None = None
    ) -> File:
        """A data file; its partition is that of the first row, unless told. ``group``: rows of a row group."""
        schema = self.schemas[-1]
        columns = {f["name"]: (f["id"], _ARROW[f["type"]]) for f in schema["fields"]}
        path, size = self._put(f"data-{self.number()}.parquet", self._parquet(columns, rows, group))
        if part is None and rows and self.specs[spec_id]["fields"]:
            part = rows[0][2]
        return File(path, 0, len(rows), size, part, spec_id)

    def positions(
        self, deleted: Mapping[File, Sequence[int]], *, part: int | None = None, spec_id: int | None = None
    ) -> File:
        """A position delete file; its partition is that of the first data file, unless told."""
        first = next(iter(deleted))
        columns = {"file_path": (2147483546, pa.string()), "pos": (2147483545, pa.int64())}
        rows = [(f.path, p) for f, at in deleted.items() for p in at]
        path, size = self._put(f"deletes-{self.number()}.parquet", self._parquet(columns, rows))
        spec_id = first.spec_id if spec_id is None else spec_id
        return File(path, 1, len(rows), size, first.part if part is None else part, spec_id)

    def equality(
        self, ids: Sequence[int], rows: Sequence[Sequence[Any]], *, part: int | None, spec_id: int = 0
    ) -> File:
        """An equality delete file for the columns ``ids``."""
        fields = {f["id"]: f for s in self.schemas for f in s["fields"]}
        columns = {fields[i]["name"]: (i, _ARROW[fields[i]["type"]]) for i in ids}
        path, size = self._put(f"equality-{self.number()}.parquet", self._parquet(columns, rows))
        return File(path, 2, len(rows), size, part, spec_id, equality_ids=tuple(ids))

    def vectors(self, deleted: Mapping[File, Sequence[int]]) -> list[File]:
        """One Puffin file with a deletion vector a data file (the footer, which no reader of vectors needs, is left out)."""
        content, out = b"PFA1", []
        for f, positions in deleted.items():
            blob = encode_deletion_vector(positions)
            out.append((f, len(content), len(blob), len(positions)))
            content += blob
        path, size = self._put(f"vectors-{self.number()}.puffin", content)
        return [
            File(path, 1, n, size, f.part, f.spec_id, "PUFFIN", referenced=f.path, offset=at, length=length)
            for f, at, length, n in out
        ]

    # --- metadata

    def manifest(
        self,
        entries: Sequence[tuple[int, File]],
        *,
        snapshot_id: int,
        seq: int,
        deletes: bool,
        first_row_id: int | None = None,
        line: Mapping[str, Any] | None = None,
        explicit: bool = False,
    ) -> Manifest:
        """Write a manifest. ADDED entries say null for what they inherit, unless ``explicit``; ``line`` overrides."""
        spec = self.specs[entries[0][1].spec_id]
        partition = {
            "type": "record",
            "name": "r102",
            "fields": [{"name": f["name"], "type": optional("int"), "field-id": f["field-id"]} for f in spec["fields"]],
        }
        fields = {
            "content": "int",
            "file_path": "string",
            "file_format": "string",
            "partition": partition,
            "record_count": "long",
            "file_size_in_bytes": "long",
            "split_offsets": optional({"type": "array", "items": "long", "element-id": 133}),
            "equality_ids": optional({"type": "array", "items": "int", "element-id": 136}),
            "first_row_id": optional("long"),
            "referenced_data_file": optional("string"),
            "content_offset": optional("long"),
            "content_size_in_bytes": optional("long"),
        }
        data_file = {
            "type": "record",
            "name": "r2",
            "fields": [{"name": k, "type": v, "field-id": _DATA_FILE_IDS[k]} for k, v in fields.items()],
        }
        schema = {
            "type": "record",
            "name": "manifest_entry",
            "fields": [
                {"name": "status", "type": "int", "field-id": 0},
                {"name": "snapshot_id", "type": optional("long"), "field-id": 1},
                {"name": "sequence_number", "type": optional("long"), "field-id": 3},
                {"name": "file_sequence_number", "type": optional("long"), "field-id": 4},
                {"name": "data_file", "type": data_file, "field-id": 2},
            ],
        }
        records = [
            {
                "status": status,
                "snapshot_id": None if status == ADDED and not explicit else f.snapshot_id,
                "sequence_number": None if status == ADDED and not explicit else f.seq,
                "file_sequence_number": None if status == ADDED else f.seq,
                "data_file": {
                    "content": f.content,
                    "file_path": f.path,
                    "file_format": f.format,
                    "partition": {x["name"]: f.part for x in spec["fields"]},
                    "record_count": f.records,
                    "file_size_in_bytes": f.size,
                    "split_offsets": None if f.split_offsets is None else list(f.split_offsets),
                    "equality_ids": list(f.equality_ids) or None,
                    "referenced_data_file": f.referenced,
                    "content_offset": f.offset,
                    "content_size_in_bytes": f.length,
                },
            }
            for status, f in entries
        ]
        path = self.root / "metadata" / f"manifest-{self.number()}.avro"
        header = {"partition-spec": json.dumps(spec["fields"]), "partition-spec-id": str(spec["spec-id"])}
        with path.open("wb") as out:
            fastavro.writer(out, schema, records, metadata=header)
        counts = {s: [f for status, f in entries if status == s] for s in (ADDED, EXISTING, DELETED)}
        seqs = [seq if s == ADDED and not explicit else f.seq for s, f in entries if s != DELETED]
        described = {
            "manifest_path": str(path),
            "manifest_length": path.stat().st_size,
            "partition_spec_id": spec["spec-id"],
            "content": int(deletes),
            "sequence_number": seq,
            "min_sequence_number": min((s for s in seqs if s is not None), default=seq),
            "added_snapshot_id": snapshot_id,
            "added_files_count": len(counts[ADDED]),
            "existing_files_count": len(counts[EXISTING]),
            "deleted_files_count": len(counts[DELETED]),
            "added_rows_count": sum(f.records for f in counts[ADDED]),
            "existing_rows_count": sum(f.records for f in counts[EXISTING]),
            "deleted_rows_count": sum(f.records for f in counts[DELETED]),
            "first_row_id": first_row_id,
        } | dict(line or {})
        return Manifest(described, list(entries))

    def manifest_list(
        self, snapshot_id: int, manifests: Sequence[Manifest], attempt: int = 1, parent: int | None = None
    ) -> str:
        """Write a snapshot's manifest list, with the header that Iceberg's writer gives it."""
        longs = ["manifest_length", "sequence_number", "min_sequence_number", "added_snapshot_id"]
        longs += [f"{s}_rows_count" for s in ("added", "existing", "deleted")]
        ints = ["partition_spec_id", "content", *(f"{s}_files_count" for s in ("added", "existing", "deleted"))]
        schema = {
            "type": "record",
            "name": "manifest_file",
            "fields": [
                {"name": "manifest_path", "type": "string", "field-id": _IDS["manifest_path"]},
                *({"name": k, "type": "long", "field-id": _IDS[k]} for k in longs),
                *({"name": k, "type": "int", "field-id": _IDS[k]} for k in ints),
                {"name": "first_row_id", "type": optional("long"), "field-id": _IDS["first_row_id"]},
            ],
        }
        path = self.root / "metadata" / f"snap-{snapshot_id}-{attempt}-{uuid.UUID(int=self.number())}.avro"
        with path.open("wb") as out:
            header = {"snapshot-id": str(snapshot_id)}
            if self.names_parents:
                header["parent-snapshot-id"] = "null" if parent is None else str(parent)
            fastavro.writer(out, schema, [m.line for m in manifests], metadata=header)
        return str(path)

    def commit(
        self,
        *,
        add: Sequence[File] = (),
        remove: Sequence[File] = (),
        parent: int | str | None = "current",
        op: str | None = None,
        merge: bool = False,
        manifests: Sequence[Manifest] | None = None,
        current: bool = True,
        attempt: int = 1,
        drop: Sequence[int] = (),
    ) -> int:
        """Write a snapshot and the next metadata.json; returns the snapshot's id.

        Args:
            add, remove: files, as the methods above made them.
            parent: a snapshot id; None: no parent; ``"current"``: main.
            merge: rewrite every manifest into one a kind (then all entries but the new say EXISTING).
            manifests: use these instead of making them.
            current: whether main moves to it.
            drop: snapshots that the new version lists no more (they are expired).
        """
        m = self.metadata
        seq, id = m["last-sequence-number"] + 1, self.number()
        if parent == "current":
            parent = m.get("current-snapshot-id")
        assert not isinstance(parent, str)
        self.files |= {key(f): replace(f, seq=seq, snapshot_id=id) for f in add}
        if manifests is None:
            manifests = self._manifests(self.manifests.get(parent or 0, []), add, remove, id, seq, merge)
        summary = {"operation": "append"} | ({"icequake-op": op} if op else {})
        snapshot = {
            "snapshot-id": id,
            "sequence-number": seq,
            "timestamp-ms": 1000 * seq,
            "manifest-list": self.manifest_list(id, manifests, attempt, parent),
            "summary": summary,
            "schema-id": m["current-schema-id"],
        } | ({} if parent is None else {"parent-snapshot-id": parent})
        self.manifests[id] = list(manifests)
        m["snapshots"] = [s for s in m["snapshots"] if s["snapshot-id"] not in drop] + [snapshot]
        m["last-sequence-number"] = seq
        m["last-updated-ms"] = 1000 * seq
        if current:
            m["current-snapshot-id"] = id
            m["refs"] = {"main": {"snapshot-id": id, "type": "branch"}}
            m["snapshot-log"] = [*m["snapshot-log"], {"snapshot-id": id, "timestamp-ms": 1000 * seq}]
        self.write_metadata(m)
        return id

    def _manifests(
        self, base: Sequence[Manifest], add: Sequence[File], remove: Sequence[File], id: int, seq: int, merge: bool
    ) -> list[Manifest]:
        gone = {key(f) for f in remove}
        out: list[Manifest] = []
        merged: dict[tuple[bool, int], list[tuple[int, File]]] = {}
        for m in base:
            deletes = m.line["content"] == 1
            if not merge and not any(key(f) in gone for f in m.live):
                out.append(m)
                continue
            if not m.live:
                continue
            entries = []
            for f in m.live:
                known = self.files[key(f)]
                if key(f) in gone:
                    entries.append((DELETED, replace(known, snapshot_id=id)))
                else:
                    entries.append((EXISTING, known))
            if merge:
                merged.setdefault((deletes, entries[0][1].spec_id), []).extend(entries)
            else:
                out.append(self.manifest(entries, snapshot_id=id, seq=seq, deletes=deletes))
        for f in add:
            where = merged.setdefault((f.content != 0, f.spec_id), [])
            where.append((ADDED, self.files[key(f)]))
        new = [self.manifest(e, snapshot_id=id, seq=seq, deletes=d) for (d, _), e in merged.items()]
        return new + out

    def write_metadata(
        self, content: dict[str, Any], *, name: str | None = None, follows: Version | None = None
    ) -> Version:
        """Write ``content`` as the next metadata.json (after ``follows``, or after the newest) and move the pointer to it."""
        before = follows or (self.versions[-1] if self.versions else None)
        if before is not None and "metadata-log" in content:
            log = before.content["metadata-log"]
            updated = before.content.get("last-updated-ms", 0)
            content["metadata-log"] = [*log, {"metadata-file": before.location, "timestamp-ms": updated}]
        n = len(self.versions)
        path = self.root / "metadata" / (name or f"{n:05}-{uuid.UUID(int=self.number())}.metadata.json")
        path.write_text(json.dumps(content))
        self.versions.append(Version(str(path), content))
        return self.versions[-1]


def key(f: File) -> str:
    """What tells a file apart: its path, and the offset of a vector."""
    return f"{f.path}@{f.offset}"
