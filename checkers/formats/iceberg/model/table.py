"""The state of the model: a table as its data files, the deletes that apply to them, and the rows that a reader sees.

Left out: manifests, statistics, row ids, values of columns. A row is its key, the commit that wrote it and the one that inserted it, so two
rows are the same only if they are the same version of one row.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property

from checkers.conflicts.validations import KeyBounds

Row = tuple[int, int, int]
"""Key, the number of the commit that wrote it, and that of the one that inserted it, since an update leaves it the other columns; 0: it was
there before."""


@dataclass(frozen=True, slots=True)
class DataFile:
    """Rows in their order, and the data sequence number."""

    part: int
    rows: tuple[Row, ...]
    sequence: int

    @property
    def bounds(self) -> KeyBounds:
        """As its manifest entry says."""
        keys = [key for key, _, _ in self.rows]
        return KeyBounds(self.part, min(keys), max(keys))


@dataclass(frozen=True, slots=True)
class PositionDeletes:
    """A position delete file or a deletion vector: it deletes positions of one data file, as Spark writes them."""

    data_file: str
    positions: frozenset[int]


@dataclass(frozen=True, slots=True)
class EqualityDeleteFile:
    """Deletes a key in files of the partition with a lower sequence number."""

    part: int
    key: int
    sequence: int


@dataclass(frozen=True)
class TableVersion:
    """A version of the table.

    Attributes:
        files: name → data file.
        deletes: name → position deletes; they may be of a file that is no longer there.
        sequence: the sequence number of its last commit.
    """

    files: dict[str, DataFile]
    deletes: dict[str, PositionDeletes]
    equality: tuple[EqualityDeleteFile, ...] = ()
    sequence: int = 1

    @cached_property
    def live(self) -> dict[str, dict[int, Row]]:
        """Data file → position → row, of the rows that a reader sees."""
        deleted: dict[str, set[int]] = {}
        for d in self.deletes.values():
            deleted.setdefault(d.data_file, set()).update(d.positions)
        return {
            name: {
                n: row
                for n, row in enumerate(f.rows)
                if n not in deleted.get(name, ())
                and not any(e.part == f.part and e.key == row[0] and e.sequence > f.sequence for e in self.equality)
            }
            for name, f in self.files.items()
        }

    @cached_property
    def rows(self) -> Counter[Row]:
        """What a reader sees; a row that is there twice counts twice."""
        return Counter(row for rows in self.live.values() for row in rows.values())

    def deletes_of(self, data_file: str) -> list[str]:
        """The names of a data file's position deletes."""
        return [name for name, d in self.deletes.items() if d.data_file == data_file]


def seeded(keys: int, partitions: int) -> TableVersion:
    """A table whose keys are there, those of a partition in one file. Each file has a row more, which no operation touches: Spark deletes a
    file that has only deleted rows by its metadata alone, which is another kind of commit."""
    return TableVersion(
        {
            f"seed-{p}": DataFile(p, tuple((k, 0, 0) for k in range(keys + partitions) if k % partitions == p), 1)
            for p in range(partitions)
        },
        {},
    )
