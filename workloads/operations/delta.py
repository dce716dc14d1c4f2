"""Operations that only Delta tables have."""

from __future__ import annotations

from workloads.operations.kind import NOTHING, Arguments, Draw, Kind, Statement, Touches, WriteSet
from workloads.tables import DELTA, State, TableSpec


class Optimize(Kind):
    """``OPTIMIZE``: compaction of the small files of each partition, by bin-packing or in Z-order. One that finds nothing makes no version.

    It runs at snapshot isolation: only a concurrent rewrite or delete of its files makes it give up.
    """

    name = "optimize"
    verb = "maintenance"
    formats = frozenset((DELTA,))
    changes_rows = False
    options = ("strategy",)

    def arguments(self, draw: Draw) -> Arguments:
        return {"strategy": draw.options.get("strategy") or draw.rng.choice(["binpack", "zorder"])}

    def statements(self, value: Arguments, op: str, table: TableSpec) -> list[Statement]:
        order = " ZORDER BY (id, cnt)" if value["strategy"] == "zorder" else ""
        return [Statement(f"OPTIMIZE {{table}}{order}")]

    def touches(self, value: Arguments, table: TableSpec) -> Touches:
        return NOTHING

    def writeset(self, state: State, value: Arguments, op: str, table: TableSpec) -> WriteSet:
        return WriteSet([], [])


class Vacuum(Kind):
    """``VACUUM``: deletes files that no version of the last ``hours`` needs, by default a week, as Delta has it. It makes no version.

    With ``hours: 0`` it deletes, by design, files that a running operation has written but not committed; the commit then leaves a table whose
    files are missing. Delta refuses less than a week unless its check is off, as it is here.
    """

    name = "vacuum"
    verb = "maintenance"
    formats = frozenset((DELTA,))
    changes_rows = False
    writes = False
    deletes_files = True
    options = ("hours",)

    def arguments(self, draw: Draw) -> Arguments:
        return {"hours": int(draw.options.get("hours", 168))}

    def statements(self, value: Arguments, op: str, table: TableSpec) -> list[Statement]:
        unchecked = {"spark.databricks.delta.retentionDurationCheck.enabled": "false"}
        return [Statement(f"VACUUM {{table}} RETAIN {int(value['hours'])} HOURS", settings=unchecked)]

    def touches(self, value: Arguments, table: TableSpec) -> Touches:
        return NOTHING

    def writeset(self, state: State, value: Arguments, op: str, table: TableSpec) -> WriteSet:
        return WriteSet([], [])
