"""Changes of the table's metadata: columns, properties, format version."""

from __future__ import annotations

import re
from typing import ClassVar

from workloads.operations.kind import NOTHING, Arguments, Draw, Kind, Statement, Touches, WriteSet, ancestor
from workloads.tables import DELTA, State, TableSpec


class _Alter(Kind):
    """``ALTER TABLE``: a new version of the table's metadata, no snapshot; it changes no row."""

    verb = "alter"
    writes = False
    changes_rows = False

    def touches(self, value: Arguments, table: TableSpec) -> Touches:
        return NOTHING

    def writeset(self, state: State, value: Arguments, op: str, table: TableSpec) -> WriteSet:
        return WriteSet([], [])


def _extra(text: object) -> str:
    """A column that no row has a value in: another one's end would change what rows mean."""
    if not isinstance(text, str) or not re.fullmatch(r"extra_[0-9]+", text):
        raise ValueError(f"expected a column such as extra_1, found {text!r}")
    return text


def _word(text: object) -> str:
    if not isinstance(text, str) or not re.fullmatch(r"[a-z][a-z0-9_.-]*", text):
        raise ValueError(f"expected a name such as extra_1, found {text!r}")
    return text


COLUMN_TYPES = ("int", "bigint", "string", "double")
"""Types that a column can be added with."""


class _OfColumn(_Alter):
    """A change of one of a few columns beside those of the rows: ``extra_0`` … ``extra_<columns - 1>``, so that the schemas of a long
    run stay small. No row has a value in them."""

    may_change = frozenset({"schema"})
    options: ClassVar[tuple[str, ...]] = ("columns",)

    def arguments(self, draw: Draw) -> Arguments:
        return {"column": f"extra_{draw.rng.randrange(int(draw.options.get('columns', 8)))}"}


class AddColumn(_OfColumn):
    """``ALTER TABLE … ADD COLUMN``: adds a column, which stays NULL. Its comment names the operation.

    It fails if the column exists. Its type is INT, or one of ``types`` if that option is given.
    """

    name = "add-column"
    instead: ClassVar = {DELTA: "delta-add-column"}
    options = ("columns", "types")

    def arguments(self, draw: Draw) -> Arguments:
        value = super().arguments(draw)
        types = draw.options.get("types")
        return value if not types else {**value, "type": draw.rng.choice(list(types))}

    def statements(self, value: Arguments, op: str, table: TableSpec) -> list[Statement]:
        type = value.get("type", "int")
        if type not in COLUMN_TYPES:
            raise ValueError(f"expected a type of {', '.join(COLUMN_TYPES)}, found {type!r}")
        return [Statement(f"ALTER TABLE {{table}} ADD COLUMN {_word(value['column'])} {type.upper()} COMMENT '{op}'")]


class WidenColumn(_OfColumn):
    """``ALTER TABLE … ALTER COLUMN … TYPE BIGINT`` of a column that ``add-column`` added; fails if there is none."""

    name = "widen-column"

    def statements(self, value: Arguments, op: str, table: TableSpec) -> list[Statement]:
        return [Statement(f"ALTER TABLE {{table}} ALTER COLUMN {_word(value['column'])} TYPE BIGINT")]


class RenameColumn(_OfColumn):
    """``ALTER TABLE … RENAME COLUMN`` of a column that ``add-column`` added; fails if there is none, or if the new name is taken."""

    name = "rename-column"

    def arguments(self, draw: Draw) -> Arguments:
        columns = max(2, int(draw.options.get("columns", 8)))
        column, to = draw.rng.sample(range(columns), 2)
        return {"column": f"extra_{column}", "to": f"extra_{to}"}

    def statements(self, value: Arguments, op: str, table: TableSpec) -> list[Statement]:
        return [Statement(f"ALTER TABLE {{table}} RENAME COLUMN {_extra(value['column'])} TO {_extra(value['to'])}")]


class DropColumn(_OfColumn):
    """``ALTER TABLE … DROP COLUMN`` of a column that ``add-column`` added; fails if there is none. Its schemas stay in the metadata."""

    name = "drop-column"
    takes_away = frozenset({"column"})

    def statements(self, value: Arguments, op: str, table: TableSpec) -> list[Statement]:
        return [Statement(f"ALTER TABLE {{table}} DROP COLUMN {_extra(value['column'])}")]


class SetProperty(_Alter):
    """``ALTER TABLE … SET TBLPROPERTIES``: sets one of a few unused properties to the operation's id."""

    name = "set-property"
    instead: ClassVar = {DELTA: "delta-set-property"}
    may_change = frozenset({"property"})
    options = ("properties",)

    def arguments(self, draw: Draw) -> Arguments:
        return {"property": f"icequake.p{draw.rng.randrange(int(draw.options.get('properties', 4)))}"}

    def statements(self, value: Arguments, op: str, table: TableSpec) -> list[Statement]:
        return [Statement(f"ALTER TABLE {{table}} SET TBLPROPERTIES ('{_word(value['property'])}' = '{op}')")]


class CreateTag(_Alter):
    """``ALTER TABLE … CREATE TAG`` on main's ``back``-th ancestor, or the oldest one: one of a few names; fails if there is a tag of that name.

    The tag has no age, so no expiry may remove it or its snapshot.
    """

    name = "create-tag"
    may_change = frozenset({"ref"})
    options = ("tags", "back")

    def arguments(self, draw: Draw) -> Arguments:
        tag = f"icequake-{draw.rng.randrange(int(draw.options.get('tags', 8)))}"
        return {"tag": tag, "back": draw.rng.randint(0, int(draw.options.get("back", 3)))}

    def statements(self, value: Arguments, op: str, table: TableSpec) -> list[Statement]:
        tag = Statement(f"ALTER TABLE {{table}} CREATE TAG `{_word(value['tag'])}` AS OF VERSION {{snapshot}}")
        return [ancestor(int(value["back"])), tag]


class DropTag(_Alter):
    """``ALTER TABLE … DROP TAG`` of one of these names; no effect if there is none."""

    name = "drop-tag"
    takes_away = frozenset({"ref"})
    may_change = frozenset()
    options = ("tags",)

    def arguments(self, draw: Draw) -> Arguments:
        return {"tag": f"icequake-{draw.rng.randrange(int(draw.options.get('tags', 8)))}"}

    def statements(self, value: Arguments, op: str, table: TableSpec) -> list[Statement]:
        return [Statement(f"ALTER TABLE {{table}} DROP TAG IF EXISTS `{_word(value['tag'])}`")]


class Upgrade(_Alter):
    """``ALTER TABLE … SET TBLPROPERTIES ('format-version' = '3')``; no effect the second time."""

    name = "upgrade"
    may_change = frozenset({"format-version"})

    def arguments(self, draw: Draw) -> Arguments:
        return {}

    def statements(self, value: Arguments, op: str, table: TableSpec) -> list[Statement]:
        return [Statement("ALTER TABLE {table} SET TBLPROPERTIES ('format-version' = '3')")]
