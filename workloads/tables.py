"""The table under test: its columns, its dimensions, and its contents as checkers represent them.

Every table of a run has these columns: ``id`` (key; not unique in Iceberg), ``val`` (a register: the id of the
operation that last set it), ``cnt`` (a counter), ``log`` (an append list: comma-separated operation ids, so that every
reader sees the order of versions) and ``part`` (the partition; ``id mod partitions``, never updated).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import repeat
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, SerializerFunctionWrapHandler, model_serializer


class Row(NamedTuple):
    """One row of a table under test; equal to the plain tuple of its values."""

    id: int
    val: str
    cnt: int
    log: str
    part: int


COLUMNS = Row._fields
SQL_COLUMNS = "id BIGINT, val STRING, cnt BIGINT, log STRING, part INT"


TableFormatName = Literal["iceberg", "delta"]
ICEBERG: TableFormatName = "iceberg"
DELTA: TableFormatName = "delta"

GuardName = Literal["s3-conditional", "s3-put-if-absent", "s3-put-if-absent-idempotent", "s3-single-driver", "local"]
"""What keeps two writers from making the same version of a Delta table (``compose.catalogs.delta``)."""


class TableSpec(BaseModel):
    """One table's dimensions from the workload file.

    Attributes:
        format: its table format. Of a Delta table ``format_version`` says nothing, and its isolation is always serializable.
        mode: of a Delta table ``merge-on-read`` means deletion vectors.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,39}$")]
    format: TableFormatName = ICEBERG
    format_version: Literal[2, 3] = 2
    mode: Literal["copy-on-write", "merge-on-read"] = "copy-on-write"
    isolation: Literal["serializable", "snapshot"] = "serializable"
    partitioned: bool = True
    partitions: Annotated[int, Field(ge=1, le=1000)] = 4
    properties: dict[str, str] = {}
    seed_rows: Annotated[int, Field(ge=0, le=100_000)] = 16
    """Rows with ids 0 … n-1 inserted before the main phase."""

    def part(self, id: int) -> int:
        """The partition value of a key."""
        return id % self.partitions

    @model_serializer(mode="wrap")
    def _without_the_usual_format(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """A plan names the format only where it is another one than Iceberg, so that those of earlier releases read the same."""
        out: dict[str, Any] = handler(self)
        if self.format == ICEBERG:
            out.pop("format", None)
        return out


class State:
    """A table's contents: a multiset of rows with an index by key. Mutable; ``copy`` it before tentative changes."""

    __slots__ = ("_by_id",)

    def __init__(self, rows: Iterable[Row] = ()) -> None:
        # Plain dictionaries: a Counter is ten times slower to make, and to copy.
        self._by_id: dict[int, dict[Row, int]] = {}
        for r in rows:
            self.add(r)

    def add(self, row: Row, n: int = 1) -> None:
        """Add ``row`` ``n`` times."""
        rows = self._by_id.setdefault(row.id, {})
        rows[row] = rows.get(row, 0) + n

    def remove(self, row: Row, n: int = 1) -> None:
        """Remove ``row`` ``n`` times.

        Raises:
            KeyError: the state has fewer of it.
        """
        rows = self._by_id.get(row.id, {})
        left = rows.get(row, 0) - n
        if left < 0:
            raise KeyError(row)
        rows[row] = left
        if not left:
            del rows[row]
            if not rows:
                del self._by_id[row.id]

    def apply(self, removed: Iterable[Row], added: Iterable[Row]) -> None:
        """Remove ``removed``, then add ``added``.

        Raises:
            KeyError: the state does not have a removed row.
        """
        for r in removed:
            self.remove(r)
        for r in added:
            self.add(r)

    def by_id(self, id: int) -> list[Row]:
        """The rows of one key, equal ones repeated, sorted."""
        return sorted(row for row, n in self._by_id.get(id, {}).items() for _ in range(n))

    def __contains__(self, id: object) -> bool:
        return id in self._by_id

    def __iter__(self) -> Iterator[Row]:
        for rows in self._by_id.values():
            for row, n in rows.items():
                if n == 1:
                    yield row
                else:
                    yield from repeat(row, n)

    def __len__(self) -> int:
        return sum(sum(rows.values()) for rows in self._by_id.values())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, State) and self._by_id == other._by_id

    __hash__ = None  # type: ignore[assignment]

    def rows(self) -> list[Row]:
        """All rows, equal ones repeated, sorted."""
        return sorted(self)

    def copy(self) -> State:
        """An independent copy."""
        twin = State()
        twin._by_id = {id: rows.copy() for id, rows in self._by_id.items()}
        return twin
