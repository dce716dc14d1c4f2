"""The requests of a run's proxy log, as rows of the lake."""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from checkers.evidence.record import RecordError, decoded
from checkers.lake.tables import (
    REQUESTS,
    array_of,
)
from workloads.file.opened import opened

PART = 1 << 26
"""Bytes of a proxy log that are read together."""
REQUEST_BATCH = 1 << 16
"""Requests that are Python objects at a time."""
_ASKED = pa.schema(
    [
        ("time", pa.int64()),
        *((c.name, c.type) for c in REQUESTS.columns[3:]),
    ]
)


def requests_of(path: Path, part: int = PART) -> pa.Table | None:
    """The requests of a proxy log: the columns of ``requests`` without its keys; None if there is no log.

    Arrow reads the log part by part, because it takes no part of 2 GiB. If a line of a part is broken, or has a value of another type, the
    lines of that part are read one by one, and those that are no request are left out.

    Args:
        part: bytes of the lines that are read together; the last of them may go beyond.

    Raises:
        OSError: the log is there and cannot be read.
    """
    try:
        with opened(path) as file:
            parts = [_together(lines) for lines in iter(partial(file.readlines, part), [])]
    except FileNotFoundError:
        return None
    found = pa.concat_tables([_ASKED.empty_table(), *parts])
    found = found.filter(pc.is_valid(found["time"]))
    return found.rename_columns({"time": "time_ns"})


def _together(lines: list[bytes]) -> pa.Table:
    """The requests on some lines; one without its end is torn, and left out."""
    if not lines[-1].endswith(b"\n"):
        del lines[-1]
    text = b"".join(lines)
    if not text:
        return _ASKED.empty_table()
    options = pj.ParseOptions(explicit_schema=_ASKED, unexpected_field_behavior="ignore")
    try:
        found = pj.read_json(io.BytesIO(text), pj.ReadOptions(block_size=len(text)), options)
        return found.select(_ASKED.names).cast(_ASKED)
    except (pa.ArrowException, KeyError, OverflowError):
        return _one_by_one(lines)


def _one_by_one(lines: Iterable[bytes]) -> pa.Table:
    good: list[dict[str, Any]] = []
    for line in lines:
        try:
            r = decoded(line)
        except RecordError:
            continue
        if type(r.get("time")) is int:
            good.append(
                {name: _fitting(r.get(name), type_) for name, type_ in zip(_ASKED.names, _ASKED.types, strict=True)}
            )
    columns = [array_of([r[c.name] for r in good], c.type) for c in _ASKED]
    return pa.Table.from_arrays(columns, schema=_ASKED)


def _fitting(value: object, wanted: pa.DataType) -> object:
    """A value as its column has it; None if it cannot be that."""
    if value is None or isinstance(value, bool):
        return None
    if pa.types.is_string(wanted):
        return str(value)
    if pa.types.is_list(wanted):
        return [str(v) for v in value] if isinstance(value, list) else None
    if pa.types.is_floating(wanted):
        return float(value) if isinstance(value, int | float) else None
    return value if isinstance(value, int) and -(1 << 63) <= value < 1 << 63 else None


def measured(requests: pa.Table) -> Iterable[Mapping[str, Any]]:
    """The requests as ``checkers.costs.measures`` takes them."""
    renamed = requests.rename_columns({"time_ns": "time"})
    for part in renamed.select(["time", "ms", "writer", "service", "kind", "op", "faults"]).to_batches(REQUEST_BATCH):
        yield from part.to_pylist()
