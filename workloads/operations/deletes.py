"""Operations that delete: by key, by predicate, by an expression, a whole partition."""

from __future__ import annotations

from workloads.operations.kind import (
    EVERY_FORMAT,
    Arguments,
    Draw,
    Kind,
    Statement,
    Touches,
    WriteSet,
    and_part,
    by_key,
    named_ids,
)
from workloads.operations.updates import _ByPredicate, by_expression
from workloads.tables import Row, State, TableSpec


class Delete(Kind):
    """``DELETE`` by key."""

    formats = EVERY_FORMAT
    name = "delete"
    by_facts = True
    verb = "delete"
    deletes = True

    def arguments(self, draw: Draw) -> Arguments:
        return {"ids": draw.ids(1)}

    def where(self, value: Arguments) -> str:
        """The statement's WHERE condition."""
        return by_key(value["ids"])

    def matching(self, state: State, value: Arguments) -> list[Row]:
        """The rows of ``state`` that the statement's WHERE selects."""
        return [r for i in value["ids"] for r in state.by_id(i)]

    def statements(self, value: Arguments, op: str, table: TableSpec) -> list[Statement]:
        return [Statement(f"DELETE FROM {{table}} WHERE {self.where(value)}{and_part(value, table)}")]

    def touches(self, value: Arguments, table: TableSpec) -> Touches:
        return named_ids(value)

    def writeset(self, state: State, value: Arguments, op: str, table: TableSpec) -> WriteSet:
        return WriteSet(sorted(self.matching(state, value)), [])


class DeleteWhere(_ByPredicate, Delete):
    """``DELETE`` by a predicate whose matches depend on other writers."""

    name = "delete-where"
    by_facts = True


class DeleteByExpression(Delete):
    """``DELETE`` by key, with a condition that Spark cannot push down to Iceberg (``SparkV2Filters``): its scan reads the whole table."""

    name = "delete-by-expression"
    by_facts = True

    def where(self, value: Arguments) -> str:
        return by_expression(value["ids"])


class DeletePartition(Delete):
    """``DELETE`` of a whole partition: on a partitioned table a metadata delete, evaluated on the base that it commits on."""

    name = "delete-partition"
    by_facts = True

    def arguments(self, draw: Draw) -> Arguments:
        return {"part": draw.rng.randrange(draw.table.partitions)}

    def where(self, value: Arguments) -> str:
        return f"part = {int(value['part'])}"

    def matching(self, state: State, value: Arguments) -> list[Row]:
        return [r for r in state if r.part == value["part"]]

    def touches(self, value: Arguments, table: TableSpec) -> Touches:
        return Touches(parts=frozenset([value["part"]]))

    def at_commit(self, table: TableSpec) -> bool:
        return table.partitioned
