"""Operations that write equality deletes, as Flink's upsert does: Spark's own statements never do.

An equality delete removes every row with its values from the data files that are older than its commit (smaller data sequence number; spec,
"Scan Planning"). It reads nothing, so it takes effect at its commit, at every isolation level: a row that another writer committed just before
is gone too, and a row that is committed afterwards stays.
"""

from __future__ import annotations

from workloads.operations.keys import part_of
from workloads.operations.kind import Arguments, Draw, Kind, Statement, Touches, WriteSet, named_ids, net, new_rows
from workloads.tables import Row, State, TableSpec


class _ByEquality(Kind):
    """Equality delete files for 1 to ``rows`` (option, default 3) keys, one file in each of their partitions.

    The files delete by the column ``id``, and by ``part`` in a partitioned table. They are committed by ``RowDelta`` without validations, as
    Flink does. Option ``validated``: with Iceberg's validations for new data files and new delete files of these keys.
    """

    deletes = True
    equality_deletes = True
    options = ("rows", "validated")

    def arguments(self, draw: Draw) -> Arguments:
        validated = {"validated": True} if draw.options.get("validated") else {}
        return {"ids": draw.some_ids(), **validated}

    def made(self, value: Arguments, op: str, table: TableSpec) -> list[Row]:
        """The rows that it puts in place of those that it deletes."""
        return []

    def statements(self, value: Arguments, op: str, table: TableSpec) -> list[Statement]:
        action = {
            "name": "equality-delete",
            "keys": [{"id": int(i), "part": part_of(int(i), table)} for i in value["ids"]],
            "rows": [r._asdict() for r in self.made(value, op, table)],
            "validated": bool(value.get("validated")),
        }
        return [Statement("{table}", action=action)]

    def touches(self, value: Arguments, table: TableSpec) -> Touches:
        return named_ids(value)

    def writeset(self, state: State, value: Arguments, op: str, table: TableSpec) -> WriteSet:
        return net([r for i in value["ids"] for r in state.by_id(i)], self.made(value, op, table))

    def at_commit(self, table: TableSpec) -> bool:
        return True


class EqualityDelete(_ByEquality):
    """Deletes all rows of its keys."""

    name = "equality-delete"
    by_facts = True
    verb = "delete"


class EqualityUpsert(_ByEquality):
    """Replaces all rows of its keys by one new row each: equality delete files and data files in one commit.

    The deletes do not apply to the data files of the same commit, which have the same data sequence number.
    """

    name = "equality-upsert"
    by_facts = True
    verb = "merge"
    overwrites = True
    inserts = "new"

    def made(self, value: Arguments, op: str, table: TableSpec) -> list[Row]:
        return new_rows(value, op, table)
