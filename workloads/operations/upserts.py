"""The upsert of streaming engines and of DataFrame libraries: rows replace those of their key, whatever these are."""

from __future__ import annotations

from workloads.operations.kind import Arguments, Draw, Kind, Statement, Touches, WriteSet, named_ids, net, new_rows
from workloads.tables import State, TableSpec


class Upsert(Kind):
    """Replaces all rows of 1 to ``rows`` keys (option, default 3) by one new row each, in one commit.

    No statement of Spark SQL does this atomically where a key has several rows: a MERGE changes each of them.
    """

    name = "upsert"
    by_facts = True
    verb = "merge"
    in_spark = False
    deletes = True
    inserts = "new"
    overwrites = True
    options = ("rows",)

    def arguments(self, draw: Draw) -> Arguments:
        return {"ids": draw.some_ids()}

    def statements(self, value: Arguments, op: str, table: TableSpec) -> list[Statement]:
        return []

    def touches(self, value: Arguments, table: TableSpec) -> Touches:
        return named_ids(value)

    def writeset(self, state: State, value: Arguments, op: str, table: TableSpec) -> WriteSet:
        return net([row for i in value["ids"] for row in state.by_id(i)], new_rows(value, op, table))
