"""A frame as records: rows with the same integer columns for every kind of content (:data:`RECORD`), so that all tables of all runs form
one dataset, in a file and between Spark and Python.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from checkers.columns.frames import TableFrame
from checkers.columns.hashing import I64
from workloads.tables import TableSpec

OPERATION, ARGUMENT, COMMIT, CHANGE = range(4)
RECORD_WIDTH = 13
RECORD: Mapping[int, tuple[str, ...]] = {
    OPERATION: (
        "kind",
        "outcome",
        "process",
        "invoked",
        "completed",
        "name",
        "seen",
        "past_position",
        "since",
        "until",
        "form",
        "part",
        "parity",
    ),
    ARGUMENT: ("arg_op", "arg_id"),
    COMMIT: ("commit_op",),
    CHANGE: ("position", "sign", "id", "val", "cnt", "log", "row_part"),
}
"""Content of a record → which of the frame's columns are its ``c0``, ``c1``, …; ``n`` is the row's number in them."""
HASHES = frozenset({"name", "seen", "val", "log"})
RECORD_SCHEMA = pa.schema(
    [("record", pa.int8()), ("n", pa.int64()), *((f"c{i}", pa.int64()) for i in range(RECORD_WIDTH))]
)


def to_records(f: TableFrame) -> pa.Table:
    """A frame as rows of :data:`RECORD_SCHEMA`; hashes are signed there."""
    parts = []
    for record, columns in RECORD.items():
        arrays = [getattr(f, c) for c in columns]
        n = len(arrays[0])
        numbers = [a.view(np.int64) for a in arrays] + [np.zeros(n, np.int64)] * (RECORD_WIDTH - len(arrays))
        which = pa.array(np.full(n, record, np.int8))
        parts.append(pa.table([which, np.arange(n, dtype=np.int64), *numbers], schema=RECORD_SCHEMA))
    return pa.concat_tables(parts)


def from_records(
    record: npt.NDArray[np.int8], n: I64, columns: Sequence[I64], spec: TableSpec, kinds: Sequence[str]
) -> TableFrame:
    """The frame of a table from its records, in any order.

    Args:
        record, n: those columns.
        columns: ``c0``, ``c1``, …
        spec: the table's promises, which records do not have.
        kinds: names of the kinds that records have by number.
    """
    return gathered([(record, n, columns)], spec, kinds)


def gathered(
    chunks: Iterable[tuple[npt.NDArray[np.int8], I64, Sequence[I64]]], spec: TableSpec, kinds: Sequence[str]
) -> TableFrame:
    """The same from some records at a time: ``record``, ``n``, and ``c0``, ``c1``, …"""
    numbers: dict[int, list[I64]] = {kind: [] for kind in RECORD}
    values: dict[str, list[I64]] = {name: [] for names in RECORD.values() for name in names}
    for record, n, columns in chunks:
        for kind, names in RECORD.items():
            of_kind = np.flatnonzero(record == kind)
            if not len(of_kind):
                continue
            numbers[kind].append(n[of_kind])
            for name, column in zip(names, columns, strict=False):
                values[name].append(column[of_kind])
    found: dict[str, Any] = {}
    for kind, names in RECORD.items():
        order = np.concatenate([np.zeros(0, np.int64), *numbers.pop(kind)])
        sorted_already = bool((order[1:] >= order[:-1]).all())
        places = None if sorted_already else np.argsort(order)
        for name in names:
            whole = np.concatenate([np.zeros(0, np.int64), *values.pop(name)])
            whole = whole if places is None else whole[places]
            found[name] = whole.view(np.uint64) if name in HASHES else whole
    return TableFrame(spec=spec, kinds=tuple(kinds), **found)
