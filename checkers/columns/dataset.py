"""Tables of many runs as one folder of columns, written table by table, so that no process must hold a run as a whole.

``records/part=K/*.parquet`` has the records of table K (as ``SCHEMA``), ``parts.json`` has each table's run and promises and the numbers of
the kinds of operations. ``parts.json`` is written last: a folder without it is no dataset, or not yet.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq

from checkers.columns.frames import TableFrame
from checkers.columns.hashing import I64
from checkers.columns.records import RECORD_WIDTH, gathered, to_records
from checkers.evidence.runfolder import StoreError, replace_file
from workloads.file.opened import document
from workloads.tables import TableSpec

PARTS, RECORDS, RESULTS = "parts.json", "records", "results"
ROW_GROUP = 1 << 20
"""Records of a row group."""


@dataclass(frozen=True)
class Shard:
    """One table of one run."""

    run: str
    spec: TableSpec
    kinds: tuple[str, ...]


def is_dataset(folder: Path) -> bool:
    """Whether a folder is a dataset."""
    return (folder / PARTS).is_file()


class DatasetWriter:
    """Writes a dataset; tables can be added as long as it is not closed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._parts: list[Mapping[str, object]] = []

    def add(self, run: str, frame: TableFrame) -> None:
        """Write a table.

        Raises:
            OSError: the disk is full, or the folder cannot be written.
        """
        into = self._folder / RECORDS / f"part={len(self._parts)}"
        into.mkdir(parents=True)
        pq.write_table(to_records(frame), into / "records-00000.parquet", compression="zstd", row_group_size=ROW_GROUP)
        self._parts.append({"run": run, "spec": frame.spec.model_dump(), "kinds": frame.kinds, "width": RECORD_WIDTH})

    def close(self) -> None:
        """Make the folder a dataset."""
        replace_file(self._folder / PARTS, json.dumps(self._parts) + "\n")


def write(frames: Iterable[tuple[str, TableFrame]], folder: Path) -> None:
    """Write tables, each with the name of its run, as a dataset."""
    writer = DatasetWriter(folder)
    for run, f in frames:
        writer.add(run, f)
    writer.close()


def parts_of(folder: Path) -> list[Shard]:
    """The tables of a dataset, by number.

    Raises:
        StoreError: it is none, or was written before datasets named their kinds, or with other columns.
    """
    path = folder / PARTS
    try:
        parts = json.loads(document(path))
        if not all("kinds" in p for p in parts):
            raise StoreError(f"{path}: kinds: a table's kinds of operations are not named; write the dataset again")
        if not all(p.get("width") == RECORD_WIDTH for p in parts):
            raise StoreError(
                f"{path}: width: its records have other columns than this version's {RECORD_WIDTH}; write the dataset again"
            )
        return [Shard(p["run"], TableSpec.model_validate(p["spec"]), tuple(p["kinds"])) for p in parts]
    except OSError as e:
        raise StoreError(f"{path}: cannot be read: {e.strerror}; is {folder} a dataset of columns?") from None
    except StoreError:
        raise
    except (ValueError, TypeError, KeyError, AttributeError) as e:
        raise StoreError(f"{path}: not the tables of a dataset: {' '.join(str(e).split())[:200]}") from None


def files_of(folder: Path, part: int) -> list[Path]:
    """The files with the records of a table, in their order.

    Raises:
        StoreError: there is none.
    """
    into = folder / RECORDS / f"part={part}"
    found = sorted(into.glob("*.parquet"))
    if not found:
        raise StoreError(f"{into}: no records; the dataset lost a table")
    return found


def rows_of(folder: Path, part: int) -> int:
    """The number of a table's records, from the files' footers.

    Raises:
        StoreError: one is no Parquet file.
    """
    return sum(_footer(path).num_rows for path in files_of(folder, part))


def _footer(path: Path) -> pq.FileMetaData:
    try:
        return pq.read_metadata(path)
    except (OSError, ValueError) as e:  # ArrowInvalid is a ValueError
        raise StoreError(f"{path}: no Parquet file: {' '.join(str(e).split())[:200]}") from None


def frame(folder: Path, part: int, shard: Shard) -> TableFrame:
    """One table.

    Raises:
        StoreError: a file cannot be read.
    """
    return gathered(_chunks(files_of(folder, part)), shard.spec, shard.kinds)


def _chunks(paths: Sequence[Path]) -> Iterator[tuple[npt.NDArray[np.int8], I64, list[I64]]]:
    for path in paths:
        try:
            with pq.ParquetFile(path) as file:
                for group in range(file.num_row_groups):
                    t = file.read_row_group(group)
                    yield (
                        t["record"].to_numpy(),
                        t["n"].to_numpy(),
                        [t[f"c{i}"].to_numpy() for i in range(RECORD_WIDTH)],
                    )
        except (OSError, ValueError, KeyError) as e:
            raise StoreError(f"{path}: no records of this version: {' '.join(str(e).split())[:200]}") from None


def each(folder: Path) -> Iterator[tuple[str, TableFrame]]:
    """The tables of a dataset, with the names of their runs, one at a time."""
    for n, shard in enumerate(parts_of(folder)):
        yield shard.run, frame(folder, n, shard)
