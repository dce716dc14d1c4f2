"""Operations that are invoked again and again, for an anomaly that shows rarely: the same kinds, each time on other rows. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from workloads.tables import TableSpec

IDS = ("ids",)
"""The arguments that hold ids. An operation with any other argument is repeated as it is."""


def repeatable(values: Iterable[Mapping[str, Any]]) -> bool:
    """Whether operations with these arguments mean the same on other rows: they name ids, or nothing."""
    return all({*value} <= {*IDS} for value in values)


def stride_of(values: Iterable[Mapping[str, Any]], table: TableSpec) -> int:
    """By how much the ids of new rows grow from one repetition to the next: no two repetitions name the same."""
    ids = [int(i) for value in values for key in IDS for i in value.get(key, ()) if int(i) >= table.seed_rows]
    return max(ids, default=0) - min(ids, default=0) + 1


def repeated(value: Mapping[str, Any], n: int, table: TableSpec, stride: int) -> dict[str, Any]:
    """The arguments in repetition ``n``, from 0: ids of seed rows go round among these, other ids grow by ``stride``."""
    found = dict(value)
    for key in IDS:
        if key in found:
            found[key] = [_moved(int(i), n, table.seed_rows, stride) for i in found[key]]
    return found


def _moved(i: int, n: int, seeds: int, stride: int) -> int:
    return (i + n) % seeds if i < seeds else i + n * stride
