"""The net rows of a commit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

from checkers.evidence.tablelog import Commit, RowChange
from workloads.tables import COLUMNS, Row


class NetRows(NamedTuple):
    """The net rows of a commit, with repetitions."""

    removed: tuple[Row, ...]
    added: tuple[Row, ...]


def order_of(columns: Sequence[str]) -> tuple[int, ...] | None:
    """The position of each of ``COLUMNS`` in rows with these columns; None: the usual positions."""
    places = tuple(columns.index(c) for c in COLUMNS)
    return None if places == tuple(range(len(columns))) else places


def row_of(change: RowChange, order: tuple[int, ...] | None) -> Row:
    """The row of a change of a log whose columns are in this order (:func:`order_of`)."""
    return Row._make(change.row if order is None else (change.row[n] for n in order))


def net_changes(c: Commit, row: Callable[[RowChange], Row]) -> NetRows | None:
    """The net rows that a commit removed and added; None when unknown."""
    if c.added is None or c.removed is None:
        return None
    removed_rows, added_rows = tuple(map(row, c.removed)), tuple(map(row, c.added))
    if not removed_rows or not added_rows or (len({*removed_rows, *added_rows}) == len(removed_rows) + len(added_rows)):
        return NetRows(_together(removed_rows), _together(added_rows))
    removed, added = Counter(removed_rows), Counter(added_rows)
    both = removed & added
    return NetRows(tuple((removed - both).elements()), tuple((added - both).elements()))


def _together(rows: tuple[Row, ...]) -> tuple[Row, ...]:
    """Equal rows one after the other, where the first of them is."""
    return rows if len({*rows}) == len(rows) else tuple(Counter(rows).elements())
