"""Operations that overwrite: whole partitions dynamically, or one partition.

Option ``validated``: Spark's write option ``isolation-level``, which no statement has by default, and ``validate-from-snapshot-id``, without
which Iceberg compares with the whole history (``SparkWrite.DynamicOverwrite``, ``SparkWrite.OverwriteByFilter``). At the level
``serializable`` Iceberg then refuses the commit after a concurrent one that added, removed or deleted rows of these partitions, at the
level ``snapshot`` after one that removed or deleted some. The level is the table's.
"""

from __future__ import annotations

from typing import ClassVar

from workloads.operations.keys import part_of
from workloads.operations.kind import (
    EVERY_FORMAT,
    ROWS,
    Arguments,
    Draw,
    Kind,
    Statement,
    Touches,
    WriteSet,
    net,
    new_rows,
    row_values,
)
from workloads.tables import COLUMNS, DELTA, ICEBERG, State, TableSpec


def _validated(value: Arguments, table: TableSpec) -> tuple[list[Statement], str]:
    """What an overwrite that validates executes first, and the clause after its table's name. An empty table has no snapshot; if it has
    one at the commit, Iceberg finds no history from -1 and refuses."""
    if not value.get("validated") or table.format != ICEBERG:
        return [], ""
    scanned = "SELECT coalesce(max(snapshot_id), -1L) FROM {table}.refs WHERE name = 'main'"
    options = f"'isolation-level' = '{table.isolation}', 'validate-from-snapshot-id' = '{{snapshot}}'"
    return [Statement(scanned, bind="snapshot")], f" WITH ({options})"


class OverwritePartitions(Kind):
    """``INSERT OVERWRITE`` in dynamic mode: new rows replace all rows of their partitions, or of an unpartitioned table.

    By default Iceberg validates nothing and chooses the files to replace from the base that each attempt commits on, so it takes
    effect there, like a DELETE of a whole partition. Delta replaces the files that it read, and checks them at its commit. On an unpartitioned
    table it also replaces the own keys of all writers.
    """

    formats = EVERY_FORMAT

    name = "overwrite-partitions"
    by_facts = True
    verb = "overwrite"
    overwrites = True
    deletes = True
    inserts = "new"
    options: ClassVar[tuple[str, ...]] = ("rows", "validated")

    def arguments(self, draw: Draw) -> Arguments:
        validated = {"validated": True} if draw.options.get("validated") else {}
        return {"ids": draw.some_ids(), **validated}

    def statements(self, value: Arguments, op: str, table: TableSpec) -> list[Statement]:
        rows = row_values(new_rows(value, op, table))
        mode = {"spark.sql.sources.partitionOverwriteMode": "dynamic"}
        first, options = _validated(value, table)
        return [*first, Statement(f"INSERT OVERWRITE {{table}}{options} ({ROWS}) VALUES {rows}", settings=mode)]

    def writeset(self, state: State, value: Arguments, op: str, table: TableSpec) -> WriteSet:
        taken = self.touches(value, table)
        return net([r for r in state if taken.whole or r.part in taken.parts], new_rows(value, op, table))

    def at_commit(self, table: TableSpec) -> bool:
        return table.format == ICEBERG

    def touches(self, value: Arguments, table: TableSpec) -> Touches:
        parts = frozenset(part_of(i, table) for i in value["ids"])
        return Touches(tuple(value["ids"]), parts=parts, whole=not table.partitioned)


class OverwriteWhere(OverwritePartitions):
    """``INSERT OVERWRITE … PARTITION (part = …)``: new rows replace one partition, or all rows of an unpartitioned table.

    ``ids`` may be empty; then the partition is left without rows.
    """

    formats = frozenset((ICEBERG,))
    instead: ClassVar = {DELTA: "replace-where"}
    name = "overwrite-where"
    by_facts = True

    def arguments(self, draw: Draw) -> Arguments:
        value = super().arguments(draw)
        ids = value["ids"]
        part = part_of(draw.rng.choice(ids), draw.table)
        return {**value, "part": part, "ids": [i for i in ids if part_of(i, draw.table) == part]}

    def statements(self, value: Arguments, op: str, table: TableSpec) -> list[Statement]:
        rows, part = new_rows(value, op, table), int(value["part"])
        if any(r.part != part for r in rows):
            raise ValueError(f"ids must be in partition {part}")
        mode = {"spark.sql.sources.partitionOverwriteMode": "static"}
        partition = f" PARTITION (part = {part})" if table.partitioned else ""
        columns = ", ".join(c for c in COLUMNS if c != "part" or not table.partitioned)
        source = f"VALUES {row_values(rows)} AS v({ROWS})" if rows else "{table}"
        nothing = "" if rows else " WHERE false"
        first, options = _validated(value, table)
        sql = f"INSERT OVERWRITE {{table}}{options}{partition} ({columns}) SELECT {columns} FROM {source}{nothing}"
        return [*first, Statement(sql, settings=mode)]

    def touches(self, value: Arguments, table: TableSpec) -> Touches:
        return Touches(tuple(value["ids"]), parts=frozenset([value["part"]]), whole=not table.partitioned)
