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
