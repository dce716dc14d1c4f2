"""What a file's entry says of its columns, what the file has, and the same of the partitions of a manifest's files.

Both are kept, side by side: a checker that has only what entries say could not know whether it is true, and the rows of a table log are net,
so they lack those that a rewrite copies.
"""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from checkers.formats.iceberg.statistics import Bound, ColumnStatistics, Kind, PartitionSummary, bound_of
from harness.tablefiles.iceberg.rows import DELETE_FILE_PATH_ID, DELETE_FILE_POS_ID, DataRows

_MAPS = ("value_counts", "null_value_counts", "nan_value_counts", "lower_bounds", "upper_bounds")
_EPOCH = datetime.datetime(1970, 1, 1)
_US = datetime.timedelta(microseconds=1)

Columns = dict[int, ColumnStatistics]
"""By field id."""


class EntryStatistics(NamedTuple):
    """What an entry says of a column; bounds as they are serialized."""

    id: int
    values: int | None
    nulls: int | None
    nans: int | None
    lower: bytes | None
    upper: bytes | None

    def read(self, kind: Kind) -> ColumnStatistics:
        """With bounds as values."""
        lower, upper = (None if b is None else bound_of(b, kind) for b in (self.lower, self.upper))
        return ColumnStatistics(kind, self.values, self.nulls, self.nans, lower, upper)


def entry_statistics(f: Mapping[str, Any]) -> tuple[EntryStatistics, ...] | None:
    """What the record of a file in a manifest says of its columns, by field id; None: nothing.

    Raises:
        KeyError, TypeError, AttributeError: it is no such record.
    """
    maps = [{p["key"]: p["value"] for p in pairs} if (pairs := f.get(name)) else {} for name in _MAPS]
    ids = {}.keys() | maps[0].keys() | maps[1].keys() | maps[2].keys() | maps[3].keys() | maps[4].keys()
    return tuple(EntryStatistics(id, *(m.get(id) for m in maps)) for id in sorted(ids)) or None


def exact(rows: DataRows) -> Columns | None:
    """What a file's columns have, of those whose values have an order, NaN only of floats; None if its columns have no field ids."""
    if not rows.by_id:
        return None
    found = ((id, _column(column)) for id, column in sorted(rows.by_id.items()))
    return {id: c for id, c in found if c is not None}


def _column(column: pa.ChunkedArray) -> ColumnStatistics | None:
    kind = _kind(column.type)
    if not kind:
        return None
    count, nulls, nans = len(column), column.null_count, None
    if kind == "f":
        is_nan = pc.is_nan(column)
        nans = pc.sum(is_nan).as_py() or 0
        column = column.filter(pc.invert(is_nan)) if nans else column
    try:
        found = pc.min_max(column)
    except pa.ArrowNotImplementedError:
        return None
    least, most = found["min"], found["max"]
    if not least.is_valid:
        return ColumnStatistics(kind, count, nulls, nans, None, None)
    return ColumnStatistics(kind, count, nulls, nans, _plain(least), _plain(most))


def _kind(t: pa.DataType) -> Kind:
    """How a bound of a Parquet column is read; empty: its values have no order here, as those of a list or a UUID."""
    if pa.types.is_integer(t) or pa.types.is_date32(t) or t == pa.time64("us"):
        return "i"
    if pa.types.is_timestamp(t):
        return "i" if t.unit == "us" else ""
    if pa.types.is_float32(t) or pa.types.is_float64(t):
        return "f"
    if pa.types.is_string(t) or pa.types.is_large_string(t):
        return "t"
    if pa.types.is_boolean(t):
        return "o"
    if pa.types.is_decimal128(t):
        return "d"
    return "b" if pa.types.is_binary(t) or pa.types.is_large_binary(t) else ""


def _plain(scalar: pa.Scalar) -> Bound:
    """A value of a column as bounds are compared; that of a date or time is its number."""
    value = scalar.value if hasattr(scalar, "value") else scalar.as_py()
    return _unscaled(value) if isinstance(value, decimal.Decimal) else value


def _unscaled(value: decimal.Decimal) -> int:
    sign, digits, _ = value.as_tuple()
    return int("".join(map(str, digits)) or "0") * (-1 if sign else 1)


def exact_positions(positions: Mapping[str, Sequence[int]]) -> Columns:
    """What a position delete file has in its two columns, which are required."""
    count = sum(map(len, positions.values()))
    if not count:
        return {}
    paths = sorted(positions, key=str.encode)
    least, most = min(map(min, positions.values())), max(map(max, positions.values()))
    return {
        DELETE_FILE_POS_ID: ColumnStatistics("i", count, 0, None, least, most),
        DELETE_FILE_PATH_ID: ColumnStatistics("t", count, 0, None, paths[0], paths[-1]),
    }


def summaries(records: Iterable[Mapping[str, Any]], found: Sequence[PartitionSummary]) -> list[PartitionSummary]:
    """What a line of a manifest list says of the partitions of its manifest's files; ``found``: what they are."""
    out = []
    for n, s in enumerate(records):
        kind = found[n].kind if n < len(found) else ""
        lower, upper = (None if (b := s.get(x)) is None else bound_of(b, kind) for x in ("lower_bound", "upper_bound"))
        out.append(PartitionSummary(kind, s.get("contains_null"), s.get("contains_nan"), lower, upper))
    return out


def partitions(seen: Iterable[tuple[Any, ...]]) -> list[PartitionSummary] | None:
    """The summaries of these partitions, field by field; None if they have different numbers of fields."""
    different = [*seen]
    if len({len(p) for p in different}) > 1:
        return None
    return [_summary(values) for values in zip(*different, strict=True)]


def _summary(values: Sequence[Any]) -> PartitionSummary:
    """Of one field; without bounds if its values have no order here."""
    nulls = any(v is None for v in values)
    nans = any(isinstance(v, float) and v != v for v in values)
    known = [v for v in values if v is not None and v == v]
    ordered = [o for v in known if (o := _ordered(v)) is not None]
    kinds = {kind for kind, _ in ordered}
    if len(kinds) != 1 or len(ordered) != len(known):
        return PartitionSummary("", nulls, nans, None, None)
    (kind,) = kinds
    return PartitionSummary(kind, nulls, nans, min(v for _, v in ordered), max(v for _, v in ordered))


def _ordered(v: Any) -> tuple[Kind, Any] | None:
    """A partition's value as bounds are compared; None: it has no order here."""
    if isinstance(v, bool):
        return "o", int(v)
    if isinstance(v, int):
        return "i", v
    if isinstance(v, float):
        return "f", v
    if isinstance(v, str):
        return "t", v
    if isinstance(v, bytes):
        return "b", v
    if isinstance(v, datetime.datetime):
        return "i", (v.replace(tzinfo=None) - (v.utcoffset() or datetime.timedelta()) - _EPOCH) // _US
    if isinstance(v, datetime.date):
        return "i", v.toordinal() - _EPOCH.toordinal()
    if isinstance(v, datetime.time):
        return "i", (datetime.datetime.combine(_EPOCH, v.replace(tzinfo=None)) - _EPOCH) // _US
    return ("d", _unscaled(v)) if isinstance(v, decimal.Decimal) else None
