"""Changes of the table's metadata: columns, properties, format version."""

from __future__ import annotations

import re

from workloads.operations.kind import NOTHING, Arguments, Draw, Kind, Statement, Touches, WriteSet
from workloads.tables import State, TableSpec


class _Alter(Kind):
    """``ALTER TABLE``: a new version of the table's metadata, no snapshot; it changes no row."""

    verb = "alter"
    writes = False
    changes_rows = False

    def touches(self, value: Arguments, table: TableSpec) -> Touches:
        return NOTHING

    def writeset(self, state: State, value: Arguments, op: str, table: TableSpec) -> WriteSet:
        return WriteSet([], [])


def _word(text: object) -> str:
    if not isinstance(text, str) or not re.fullmatch(r"[a-z][a-z0-9_.-]*", text):
        raise ValueError(f"expected a name such as extra_1, found {text!r}")
    return text


class AddColumn(_Alter):
    """``ALTER TABLE … ADD COLUMN``: adds a column, which stays NULL. Its comment names the operation.

    There are few names (``extra_0`` … ``extra_<columns - 1>``), so that the schemas of a long run stay small; it fails if the column exists.
    """

    name = "add-column"
    may_change = frozenset({"schema"})
    options = ("columns",)

    def arguments(self, draw: Draw) -> Arguments:
        return {"column": f"extra_{draw.rng.randrange(int(draw.options.get('columns', 8)))}"}

    def statements(self, value: Arguments, op: str, table: TableSpec) -> list[Statement]:
        return [Statement(f"ALTER TABLE {{table}} ADD COLUMN {_word(value['column'])} INT COMMENT '{op}'")]


class WidenColumn(AddColumn):
    """``ALTER TABLE … ALTER COLUMN … TYPE BIGINT`` of a column that ``add-column`` added; fails if there is none."""

    name = "widen-column"

    def statements(self, value: Arguments, op: str, table: TableSpec) -> list[Statement]:
        return [Statement(f"ALTER TABLE {{table}} ALTER COLUMN {_word(value['column'])} TYPE BIGINT")]


class SetProperty(_Alter):
    """``ALTER TABLE … SET TBLPROPERTIES``: sets one of a few unused properties to the operation's id."""

    name = "set-property"
    may_change = frozenset({"property"})
    options = ("properties",)

    def arguments(self, draw: Draw) -> Arguments:
        return {"property": f"icequake.p{draw.rng.randrange(int(draw.options.get('properties', 4)))}"}

    def statements(self, value: Arguments, op: str, table: TableSpec) -> list[Statement]:
        return [Statement(f"ALTER TABLE {{table}} SET TBLPROPERTIES ('{_word(value['property'])}' = '{op}')")]


class Upgrade(_Alter):
    """``ALTER TABLE … SET TBLPROPERTIES ('format-version' = '3')``; no effect the second time."""

    name = "upgrade"
    may_change = frozenset({"format-version"})

    def arguments(self, draw: Draw) -> Arguments:
        return {}

    def statements(self, value: Arguments, op: str, table: TableSpec) -> list[Statement]:
        return [Statement("ALTER TABLE {table} SET TBLPROPERTIES ('format-version' = '3')")]
