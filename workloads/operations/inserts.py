"""Operations that insert: ``INSERT … VALUES`` and ``INSERT … SELECT``."""

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
    named_ids,
    new_rows,
    row_values,
)
from workloads.tables import Row, State, TableSpec


class Insert(Kind):
    """``INSERT INTO … VALUES``: new rows, also for existing keys (Iceberg has no unique keys)."""

    formats = EVERY_FORMAT
    name = "insert"
    by_facts = True
    verb = "insert"
    inserts = "new"
    signs = True
    means_the_same_everywhere = True
    options: ClassVar[tuple[str, ...]] = ("rows",)

    def arguments(self, draw: Draw) -> Arguments:
        return {"ids": draw.some_ids()}

    def statements(self, value: Arguments, op: str, table: TableSpec) -> list[Statement]:
        return [Statement(f"INSERT INTO {{table}} ({ROWS}) VALUES {row_values(new_rows(value, op, table))}")]

    def touches(self, value: Arguments, table: TableSpec) -> Touches:
        return named_ids(value)

    def writeset(self, state: State, value: Arguments, op: str, table: TableSpec) -> WriteSet:
        return WriteSet([], sorted(new_rows(value, op, table)))


class InsertSelect(Kind):
    """``INSERT … SELECT`` from the table itself: copies one key's rows to another key. Commits as an unvalidated append."""

    formats = EVERY_FORMAT
    name = "insert-select"
    by_facts = True
    verb = "insert"
    inserts = "copies"
    signs = True
    blind_append = True

    def arguments(self, draw: Draw) -> Arguments:
        ids = draw.ids(2)
        draw.rng.shuffle(ids)
        return {"from": ids[0], "to": ids[-1]}

    def statements(self, value: Arguments, op: str, table: TableSpec) -> list[Statement]:
        to = int(value["to"])
        return [
            Statement(
                f"INSERT INTO {{table}} ({ROWS}) SELECT {to}L, '{op}', cnt, concat(log, ',{op}'), {part_of(to, table)} "
                f"FROM {{table}} WHERE id = {int(value['from'])}"
            )
        ]

    def touches(self, value: Arguments, table: TableSpec) -> Touches:
        return Touches((value["to"],), copied_from=value["from"])

    def writeset(self, state: State, value: Arguments, op: str, table: TableSpec) -> WriteSet:
        to = value["to"]
        added = [Row(to, op, r.cnt, f"{r.log},{op}", part_of(to, table)) for r in state.by_id(value["from"])]
        return WriteSet([], sorted(added))
