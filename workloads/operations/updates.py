"""Operations that update: by key, by predicate and by an expression, of register, counter and list."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar

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
    net,
)
from workloads.tables import Row, State, TableSpec


class _Update(Kind):
    """``UPDATE … SET``; subclasses define the assignment and the rows."""

    formats = EVERY_FORMAT
    verb = "update"
    assignment: ClassVar[str]

    @staticmethod
    @abstractmethod
    def updated(row: Row, op: str) -> Row:
        """The row after the update."""

    def matching(self, state: State, value: Arguments) -> list[Row]:
        """The rows of ``state`` that the statement's WHERE selects."""
        return [r for i in value["ids"] for r in state.by_id(i)]

    def where(self, value: Arguments) -> str:
        """The statement's WHERE condition."""
        return by_key(value["ids"])

    def arguments(self, draw: Draw) -> Arguments:
        return {"ids": draw.ids(1)}

    def statements(self, value: Arguments, op: str, table: TableSpec) -> list[Statement]:
        where = self.where(value) + and_part(value, table)
        return [Statement(f"UPDATE {{table}} SET {self.assignment.format(op=op)} WHERE {where}")]

    def touches(self, value: Arguments, table: TableSpec) -> Touches:
        return named_ids(value)

    def writeset(self, state: State, value: Arguments, op: str, table: TableSpec) -> WriteSet:
        old = self.matching(state, value)
        return net(old, [self.updated(r, op) for r in old])


class UpdateRegister(_Update):
    """Sets the register of one key to a unique value: the operation's id."""

    name = "update-register"
    by_facts = True
    sets = frozenset({"val"})
    signs = True
    assignment = "val = '{op}'"

    @staticmethod
    def updated(row: Row, op: str) -> Row:
        return row._replace(val=op)


class UpdateCounter(_Update):
    """Increments the counter of one key: after a lost update it is too low."""

    name = "update-counter"
    by_facts = True
    sets = frozenset({"cnt"})
    assignment = "cnt = cnt + 1"

    @staticmethod
    def updated(row: Row, op: str) -> Row:
        return row._replace(cnt=row.cnt + 1)


class UpdateAppend(_Update):
    """Appends the operation's id to the list of one key: the list shows the order of all appends."""

    name = "update-append"
    by_facts = True
    sets = frozenset({"log"})
    signs = True
    assignment = "log = concat(log, ',{op}')"

    @staticmethod
    def updated(row: Row, op: str) -> Row:
        return row._replace(log=f"{row.log},{op}")


def by_expression(ids: Sequence[int]) -> str:
    """A condition that selects keys and that is no filter for Iceberg: it knows no ``concat`` (``SparkV2Filters.convert``)."""
    words = ", ".join(f"'k{int(i)}'" for i in ids)
    return f"concat('k', id) IN ({words})"


class UpdateCounterByExpression(UpdateCounter):
    """Increments the counter of one key, with a condition that Spark cannot push down to Iceberg: its scan reads the whole table."""

    name = "update-counter-by-expression"
    by_facts = True

    def where(self, value: Arguments) -> str:
        return by_expression(value["ids"])


class _ByPredicate(Kind):
    """Rows chosen by a condition on a counter's parity in one partition, so that what matches depends on other writers."""

    def arguments(self, draw: Draw) -> Arguments:
        return {"part": draw.rng.randrange(draw.table.partitions), "parity": draw.rng.randrange(2)}

    def where(self, value: Arguments) -> str:
        return f"part = {int(value['part'])} AND pmod(cnt, 2) = {int(value['parity'])}"

    def touches(self, value: Arguments, table: TableSpec) -> Touches:
        return Touches(predicate=(value["part"], value["parity"]))

    def matching(self, state: State, value: Arguments) -> list[Row]:
        return [r for r in state if r.part == value["part"] and r.cnt % 2 == value["parity"]]


class UpdateRegisterWhere(_ByPredicate, UpdateRegister):
    """Sets the register of all rows that a predicate selects."""

    name = "update-register-where"
    by_facts = True


class UpdateCounterWhere(_ByPredicate, UpdateCounter):
    """Increments the counter of all rows that a predicate on that counter selects."""

    name = "update-counter-where"
    by_facts = True


class UpdateAppendWhere(_ByPredicate, UpdateAppend):
    """Appends to the list of all rows that a predicate selects."""

    name = "update-append-where"
    by_facts = True
