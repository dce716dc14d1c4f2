"""How much of a table's log somebody has."""

from __future__ import annotations

from typing import NamedTuple


class RecordMark(NamedTuple):
    """Numbers of records."""

    metadata: int
    commits: int
    captures: int


FROM_THE_START = RecordMark(0, 0, 0)
