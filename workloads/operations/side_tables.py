"""Tables that come and go: create, drop, rename, append to and read a *side table* of a run.

A side table stands beside a table of the workload, in its namespace: ``t_side0`` and ``t_side1`` beside ``t``. These kinds never touch ``t``
itself, so every checker of its rows can go on; ``checkers.linearizable.sidetables`` says whether the names mean what they must.

A table's identity is the operation that made it, which its property ``icequake.created-by`` names. An append and a read say which one they
had loaded: an append that began on a table which was dropped and made anew meanwhile must not land in the new one.
"""

from __future__ import annotations

from typing import Any

from workloads.operations.kind import NOTHING, Arguments, Draw, Kind, Statement, Touches, WriteSet
from workloads.tables import State, TableSpec

CREATED_BY = "icequake.created-by"
"""Property of a side table: the operation that created it."""
SIDE_TABLES = range(2)
"""The numbers of the side tables beside each table."""


def side_names(table: str) -> list[str]:
    """The names that side tables of a table can have."""
    return [f"{table}_side{n}" for n in SIDE_TABLES]


class _OnSideTable(Kind):
    """An operation that leaves its own table as it is. ``n``: the number of the side table."""

    verb = "maintenance"
    writes = False
    changes_rows = False

    def arguments(self, draw: Draw) -> Arguments:
        return {"n": draw.rng.choice(SIDE_TABLES)}

    def touches(self, value: Arguments, table: TableSpec) -> Touches:
        return NOTHING

    def writeset(self, state: State, value: Arguments, op: str, table: TableSpec) -> WriteSet:
        return WriteSet([], [])


class SideCreate(_OnSideTable):
    """``CREATE TABLE`` of a side table."""

    name = "side-create"

    def statements(self, value: Arguments, op: str, table: TableSpec) -> list[Statement]:
        sql = (
            f"CREATE TABLE {{table}}_side{value['n']} (id BIGINT) USING iceberg TBLPROPERTIES ('{CREATED_BY}' = '{op}')"
        )
        return [Statement(sql)]


class SideDrop(_OnSideTable):
    """``DROP TABLE`` of a side table. Spark acknowledges it also if another one has dropped the table meanwhile."""

    name = "side-drop"

    def statements(self, value: Arguments, op: str, table: TableSpec) -> list[Statement]:
        return [Statement(f"DROP TABLE {{table}}_side{value['n']}")]


class SideRename(_OnSideTable):
    """``ALTER TABLE … RENAME TO`` the name of another side table, ``to``."""

    name = "side-rename"

    def arguments(self, draw: Draw) -> Arguments:
        n, to = draw.rng.sample(SIDE_TABLES, 2)
        return {"n": n, "to": to}

    def statements(self, value: Arguments, op: str, table: TableSpec) -> list[Statement]:
        return [Statement(f"ALTER TABLE {{table}}_side{value['n']} RENAME TO {{identifier}}_side{value['to']}")]


class SideAppend(_OnSideTable):
    """An append without files through Iceberg's Java API. Its result is the operation that made the table which it had loaded."""

    name = "side-append"

    def statements(self, value: Arguments, op: str, table: TableSpec) -> list[Statement]:
        return [Statement(f"{{table}}_side{value['n']}", result=True, action={"name": "side-append"})]


class SideRead(_OnSideTable):
    """The operation that made a side table, then those of its snapshots, the newest first, from one load; last null, if it does not list all.

    No row if there is no such table.
    """

    name = "side-read"
    commits = False

    def statements(self, value: Arguments, op: str, table: TableSpec) -> list[Statement]:
        return [Statement(f"{{table}}_side{value['n']}", result=True, action={"name": "side-read"})]

    def understands(self, result: Any) -> bool:
        return isinstance(result, list) and len(result) <= 1
