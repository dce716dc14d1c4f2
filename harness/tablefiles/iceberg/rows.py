"""The rows of data files and delete files."""

from __future__ import annotations

import datetime
import decimal
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from harness.tablefiles.iceberg.metadata_json import CorruptFile

DELETE_FILE_PATH_ID = 2147483546
"""Field id of ``file_path`` in a position delete file (spec, "Reserved Field IDs")."""


DELETE_FILE_POS_ID = 2147483545
"""Field id of ``pos`` in a position delete file."""


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


@dataclass(frozen=True, slots=True)
class SchemaColumn:
    """A column of a schema: what to read for ``name``. ``id`` None: the schema has no such column."""

    name: str
    id: int | None
    type: str = ""
    default: Any = None


def projection(schema: Mapping[str, Any], columns: Sequence[str]) -> tuple[SchemaColumn, ...]:
    """``columns`` by name in an Iceberg schema (its JSON), as field ids with their initial defaults."""
    fields = {f["name"]: f for f in schema.get("fields", ())}
    out = []
    for name in columns:
        f = fields.get(name)
        if f is None:
            out.append(SchemaColumn(name, None))
        else:
            out.append(
                SchemaColumn(name, f["id"], f["type"] if isinstance(f["type"], str) else "", f.get("initial-default"))
            )
    return tuple(out)


@dataclass(frozen=True, slots=True)
class DataRows:
    """A Parquet file's rows, as Arrow columns by field id, or by name if the file has no field ids.

    ``begin``: the byte at which its first row group begins; None: it has none. ``named``: the names that the file gives to columns with a
    field id.
    """

    count: int
    by_id: dict[int, pa.ChunkedArray]
    names: dict[str, pa.ChunkedArray]
    begin: int | None = None
    named: Mapping[str, int] = field(default_factory=dict)

    def by_name(self, name: str) -> pa.ChunkedArray | None:
        """The column that the file itself calls so, with a field id or without; None if there is none."""
        found = self.names.get(name)
        return self.by_id[self.named[name]] if found is None and name in self.named else found

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return sum(c.nbytes for c in (*self.by_id.values(), *self.names.values()))

    def column(self, c: SchemaColumn) -> list[Any]:
        """The values of one table column, as ``count`` plain values."""
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

    def rows(self, columns: Sequence[SchemaColumn]) -> list[tuple[Any, ...]]:
        """All rows in file order: the index is the row's position."""
        if not columns:
            return [()] * self.count
        return list(zip(*(self.column(c) for c in columns), strict=True))


def _field_id(f: pa.Field) -> int | None:
    raw = (f.metadata or {}).get(b"PARQUET:field_id")
    return int(raw) if raw is not None else None


def _parquet(content: bytes) -> tuple[pa.Table, int | None]:
    try:
        # One thread: files are small and cores are shared with the writers under test.
        with pq.ParquetFile(pa.BufferReader(content)) as f:
            table = f.read(use_threads=False)
            table.validate(full=True)
            return table, _begin(f.metadata)
    except (pa.ArrowException, OSError, ValueError) as e:
        raise CorruptFile(f"not a readable Parquet file: {' '.join(str(e).split())[:200]}") from None


def _begin(footer: pq.FileMetaData) -> int | None:
    """Where the first row group begins: with the dictionary of its first column, if that has one."""
    if not footer.num_row_groups or not footer.num_columns:
        return None
    first = footer.row_group(0).column(0)
    begin: int = min(first.data_page_offset, first.dictionary_page_offset or first.data_page_offset)
    return begin


def read_rows(content: bytes, format: str) -> DataRows:
    """A data file's (or an equality delete file's) rows.

    Raises:
        CorruptFile: torn, or not Parquet.
    """
    if format != "parquet":
        raise CorruptFile(f"format {format} is not supported by this reader")
    table, begin = _parquet(content)
    by_id: dict[int, pa.ChunkedArray] = {}
    names: dict[str, pa.ChunkedArray] = {}
    named: dict[str, int] = {}
    for f, column in zip(table.schema, table.columns, strict=True):
        id = _field_id(f)
        if id is None:
            names[f.name] = column
        else:
            by_id[id] = column
            named[f.name] = id
    return DataRows(table.num_rows, by_id, names, begin, named)


def read_position_deletes(content: bytes, format: str) -> dict[str, tuple[int, ...]]:
    """Data file path → deleted positions (spec, "Position Delete Files"); one file may name several data files.

    Raises:
        CorruptFile: torn, not Parquet, or without the two columns.
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


def equality_key(values: Sequence[Any]) -> tuple[Any, ...]:
    """Values as an equality delete compares them: nulls are equal to nulls (spec), NaN to NaN (``StructLikeSet``)."""
    return tuple("NaN" if isinstance(v, float) and v != v else v for v in values)


def equality_keys(rows: DataRows, columns: Sequence[SchemaColumn]) -> Iterator[tuple[Any, ...]]:
    """Each row's values in the columns of an equality delete, in file order."""
    return (equality_key(r) for r in rows.rows(columns))
