"""One run of the conflict matrix: its tables, its operations, and their order."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from checkers.conflicts import predicted, validations
from checkers.conflicts.predicted import KEYS_OF_FILE, MatrixCell
from checkers.conflicts.validations import Compares
from compose.catalogs.registry import CATALOGS
from harness.run.errors import RunError
from nemesis.proxy.board import Board, Hold
from workloads.engines.engines import SPARK
from workloads.file.workload import Length, Phase, Workload
from workloads.generator import PlannedOperation
from workloads.operations.kinds import KINDS as OPERATIONS
from workloads.tables import TableSpec

OP_TIMEOUT = 60.0
"""Of an operation of Spark: the commit of the first is held until the second has ended, so this is the time of both."""
ENGINE_TIMEOUT = 120.0
"""Of an operation if there are other engines: Flink starts a job for each table, while the commit of another engine is held."""
PATIENT_CLIENT = {"rest.client.socket-timeout-ms": "115000", "duckdb.set.http_timeout": "115"}
"""Catalog properties by which a client waits as long for the answer to a held commit; PyIceberg waits for ever."""
ENGINES_WORD = "engines"
"""What the header of an engine matrix says it is of."""


def compared(catalog: str) -> Compares:
    """What a catalog compares at a commit."""
    return "requirements" if CATALOGS[catalog].rest else "location"


def table_name(n: int) -> str:
    """The table of the n-th cell."""
    return f"c{n}"


def seats(cells: Sequence[MatrixCell]) -> tuple[str, ...]:
    """The engine of each writer: for each engine one writer of first operations and one of second ones, Spark's first."""
    others = {name for c in cells for name in (c.first_engine, c.second_engine)} - {SPARK}
    return tuple(name for name in (SPARK, *sorted(others)) for _ in range(2))


def _timeout(cells: Sequence[MatrixCell]) -> float:
    return OP_TIMEOUT if {*seats(cells)} == {SPARK} else ENGINE_TIMEOUT


def _properties(cell: MatrixCell) -> dict[str, str]:
    """Table properties of a cell, besides its mode and its isolation level. Each command has a mode of its own."""
    out = {"commit.retry.min-wait-ms": "10"}
    if cell.second_mode is not None:
        out[f"write.{OPERATIONS[cell.second].verb}.mode"] = cell.second_mode
    if cell.granularity != "file":
        out["write.delete.granularity"] = cell.granularity
    return out


def workload(cells: Sequence[MatrixCell]) -> Workload:
    """The tables of a run, one empty table for each cell, and its two phases. If there are other engines, another table in which each
    writer of theirs does its first operation, which takes longest."""
    mixed = {*seats(cells)} != {SPARK}
    tables = [
        TableSpec(
            name=table_name(n),
            format_version=c.format_version,
            mode=c.mode,
            isolation=c.isolation,
            partitions=predicted.PARTITIONS,
            seed_rows=0,
            properties=_properties(c),
        )
        for n, c in enumerate(cells)
    ]
    if mixed:
        tables.append(TableSpec(name="warmup", mode="merge-on-read", partitions=predicted.PARTITIONS, seed_rows=0))
    fill, main = Length(ops=sum(len(c.files) - 1 for c in cells)), Length(ops=2 * len(cells))
    return Workload.model_validate(
        {
            "workload": "matrix",
            "description": "Cells of the conflict matrix.",
            "catalog_properties": PATIENT_CLIENT if mixed else {},
            "tables": tuple(tables),
            "writers": seats(cells),
            "op_timeout": _timeout(cells),
            "operations": {"insert": {}},
            "phases": (Phase(name="fill", length=fill), Phase(name="main", length=main)),
        }
    )


def planned(
    kind: str, keys: int | tuple[int, ...], table: TableSpec, with_part: bool = False, *, second: bool = False
) -> PlannedOperation:
    """An operation of a kind on a key, or on several; a schema change on the column of that key.

    Args:
        with_part: its condition names the partition, too.
        second: of two changes of one column they differ.
    """
    ids = [keys] if isinstance(keys, int) else list(keys)
    key, f = ids[0], kind.removesuffix(validations.VALIDATED)
    value: dict[str, Any] = {"ids": ids} | ({"with_part": True} if with_part else {})
    if kind == "delete-partition":
        value = {"part": table.part(key)}
    elif kind == "delete-where":
        value = {"part": table.part(key), "parity": 0}
    elif f in validations.OVERWRITES:
        value |= {"part": table.part(key)} if f == "overwrite-where" else {}
        value |= {"validated": True} if f != kind else {}
    elif kind in validations.COMPACTIONS:
        f, _, strategy = kind.partition("rewrite-data-files-")
        f, value = validations.COMPACTIONS[0], {"strategy": strategy or "binpack", "all": True}
    elif kind in ("rewrite-manifests", validations.POSITION_DELETES):
        value = {}
    elif kind in predicted.SCHEMA_KINDS:
        value = {"column": column(kind, key)}
        value |= {"type": "string" if second else "int"} if kind == "add-column" else {}
        value |= {"to": f"extra_{key + (200 if second else 100)}"} if kind == "rename-column" else {}
    return PlannedOperation(f, table, value)


def column(kind: str, key: int) -> str:
    """The column that a schema change is about: one that is there before, or a new one."""
    return f"extra_{key + predicted.FRESH if kind == 'add-column' else key}"


Fills = tuple[list[PlannedOperation], ...]
"""For each writer that fills tables: the operations by which it does so, in their order."""


def _filled(table: TableSpec, *files: tuple[int, ...]) -> PlannedOperation:
    return PlannedOperation("insert", table, {"ids": [key for keys in files for key in keys]})


def every_file(cells: Sequence[MatrixCell], tables: Sequence[TableSpec]) -> Fills:
    """One writer makes files A and C, the other B and, if there is one, D; each starts at a different table, so that they rarely conflict.

    A table that must have more than its files before the operations begin is filled by the first writer alone.
    """
    first: list[PlannedOperation] = []
    second: list[list[PlannedOperation]] = []
    for cell, table in zip(cells, tables, strict=True):
        files, more = cell.files, _more(cell, table)
        others = [_filled(table, files[name]) for name in ("B", "D") if name in files]
        first += [_filled(table, files["A"], files["C"]), *([*others, *more] if more else [])]
        second.append([] if more else others)
    half = len(cells) // 2
    return first, [o for all_ in second[half:] + second[:half] for o in all_]


def _more(cell: MatrixCell, table: TableSpec) -> list[PlannedOperation]:
    """What a table of a cell has besides its files: the columns that schema changes are about, a delete file for each data file."""
    changed = (
        column(k, i) for k, i in zip((cell.first, cell.second), predicted.keys(cell), strict=True) if _changes(k)
    )
    columns = [PlannedOperation("add-column", table, {"column": name}) for name in dict.fromkeys(changed)]
    deleted = [ids[-1] for ids in cell.files.values()] if cell.has_deletes else []
    return [*columns, *(PlannedOperation("delete", table, {"ids": [key]}) for key in deleted)]


def _changes(kind: str) -> bool:
    """Whether it needs a column that is there before."""
    return kind in predicted.SCHEMA_KINDS and kind != "add-column"


def without_b(cells: Sequence[MatrixCell], tables: Sequence[TableSpec]) -> Fills:
    """Files A and C only, in one commit of one of Spark's writers: no cell of the engine matrix has a key in B. The others warm up."""
    others = ([PlannedOperation("insert", tables[-1], {"ids": [w]})] for w in range(2, len(seats(cells))))
    by_two = (
        [_filled(table, KEYS_OF_FILE["A"], KEYS_OF_FILE["C"]) for table in tables[first : len(cells) : 2]]
        for first in (0, 1)
    )
    return *by_two, *others


class CellScript:
    """The order of operations and commits in a run of several cells.

    Args:
        fills: how the tables are filled.
    """

    def __init__(
        self,
        cells: Sequence[MatrixCell],
        board: Board,
        stop: threading.Event,
        fills: Callable[[Sequence[MatrixCell], Sequence[TableSpec]], Fills] = every_file,
    ) -> None:
        self._cells = cells
        self._stop = stop
        self._fills = fills(cells, workload(cells).tables)
        self._longest = _timeout(cells)
        engines = seats(cells)
        self._seats = [(engines.index(c.first_engine), engines.index(c.second_engine) + 1) for c in cells]
        self._ready = [threading.Event() for _ in cells]
        self._first_over = [threading.Event() for _ in cells]
        self._holds = [self._hold(board, n) for n in range(len(cells))]

    def _hold(self, board: Board, n: int) -> Hold:
        first, longest = self.ops(n)[0], self._longest
        if self._cells[n].held == "commit":
            return board.hold(first, longest=longest)
        # SnapshotProducer.apply loads the table when the operation has written its files.
        return board.hold(first, kind="load", since=("store", "write"), longest=longest)

    def ops(self, n: int) -> tuple[str, str]:
        """The ids of the first and of the second operation of the n-th cell. The writers filled tables before."""
        first, second = self._seats[n]
        before = [len(self._fills[w]) + sum(w in seats for seats in self._seats[:n]) for w in (first, second)]
        return f"w{first}-{before[0]}", f"w{second}-{before[1]}"

    def held(self, n: int) -> bool:
        """Whether the first operation in a cell was held, at its commit or its refresh, until the second's commit."""
        return self._holds[n].reached.is_set() and self._holds[n].problem is None

    def operations(self, workload: Workload, phase: Phase, writer: int, seed: int) -> Iterator[PlannedOperation]:
        """As :attr:`harness.run.settings.Settings.operations`."""
        if phase.name == "fill":
            yield from self._fills[writer]
            return
        for n, cell in enumerate(self._cells):
            table = workload.tables[n]
            key, others = predicted.keys(cell)[0], predicted.other_keys(cell)
            first, second = self._seats[n]
            if writer == first:
                self._until(self._ready[n], len(self._cells) * self._longest)
                yield planned(cell.first, key, table, cell.predicate == "id and part")
                self._first_over[n].set()
            elif writer == second:
                self._ready[n].set()
                self._wait(n)
                yield planned(cell.second, others, table, second=True)
                self._holds[n].release()

    def _until(self, ready: threading.Event, longest: float) -> None:
        """Wait until the writer of the second operation has none before it. All writers take the cells in the same order, so it comes."""
        for _ in range(int(longest * 100)):
            if ready.wait(0.01) or self._stop.is_set():
                return

    def _wait(self, n: int) -> None:
        """Wait until the first operation's commit is held, or the operation ended without one."""
        for _ in range(int(len(self._cells) * self._longest * 100)):
            if self._holds[n].reached.wait(0.01) or self._first_over[n].is_set() or self._stop.is_set():
                return
        raise RunError(f"matrix: {self._cells[n].name}: its first operation neither commits nor ends")
