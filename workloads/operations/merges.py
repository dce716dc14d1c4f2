"""Operations that merge: upsert, insert-only, update-only, delete-matched."""

from __future__ import annotations

from collections.abc import Sequence

from workloads.operations.keys import part_of
from workloads.operations.kind import (
    EVERY_FORMAT,
    Arguments,
    Column,
    Draw,
    Kind,
    Statement,
    Touches,
    WriteSet,
    and_part,
    named_ids,
    net,
    new_row,
)
from workloads.tables import Row, State, TableSpec

_ALL: frozenset[Column] = frozenset({"val", "cnt", "log"})


def _values(ids: Sequence[int], table: TableSpec) -> str:
    return ", ".join(f"({int(i)}L, {part_of(i, table)})" for i in ids)


class _Merge(Kind):
    """``MERGE`` from a list of keys; subclasses define what happens to matched and to unmatched keys."""

    formats = EVERY_FORMAT
    verb = "merge"
    options = ("rows",)

    def arguments(self, draw: Draw) -> Arguments:
        return {"ids": draw.some_ids()}

    def statements(self, value: Arguments, op: str, table: TableSpec) -> list[Statement]:
        sql = (
            f"MERGE INTO {{table}} t USING (SELECT * FROM VALUES {_values(value['ids'], table)} AS v(id, part)) s "
            f"ON t.id = s.id{and_part(value, table, 't.part')}"
        )
        if self.sets:
            sql += f" WHEN MATCHED THEN UPDATE SET val = '{op}', cnt = t.cnt + 1, log = concat(t.log, ',{op}')"
        if self.deletes:
            sql += " WHEN MATCHED THEN DELETE"
        if self.inserts == "absent":
            sql += f" WHEN NOT MATCHED THEN INSERT (id, val, cnt, log, part) VALUES (s.id, '{op}', 0L, '{op}', s.part)"
        return [Statement(sql)]

    def touches(self, value: Arguments, table: TableSpec) -> Touches:
        return named_ids(value)

    def writeset(self, state: State, value: Arguments, op: str, table: TableSpec) -> WriteSet:
        removed: list[Row] = []
        added: list[Row] = []
        for i in value["ids"]:
            rows = state.by_id(i)
            if rows and (self.sets or self.deletes):
                removed += rows
                if self.sets:
                    added += [Row(r.id, op, r.cnt + 1, f"{r.log},{op}", r.part) for r in rows]
            if not rows and self.inserts == "absent":
                added.append(new_row(i, op, table))
        return net(removed, added)


class MergeUpsert(_Merge):
    """Updates existing keys, inserts the others."""

    name = "merge-upsert"
    by_facts = True
    sets = _ALL
    inserts = "absent"
    signs = True


class MergeInsert(_Merge):
    """Inserts absent keys. Commits as an unvalidated append (apache/iceberg#12653)."""

    name = "merge-insert"
    by_facts = True
    inserts = "absent"
    signs = True
    blind_append = True

    def touches(self, value: Arguments, table: TableSpec) -> Touches:
        return Touches(tuple(value["ids"]), only_absence=True)


class MergeUpdate(_Merge):
    """Updates existing keys."""

    name = "merge-update"
    by_facts = True
    sets = _ALL
    signs = True


class MergeDelete(_Merge):
    """Deletes existing keys."""

    name = "merge-delete"
    by_facts = True
    deletes = True
