"""Operations that read: a whole table, one key, a snapshot."""

from __future__ import annotations

from typing import ClassVar

from workloads.operations.kind import (
    EVERY_FORMAT,
    EVERYTHING,
    ROWS,
    Arguments,
    Draw,
    Kind,
    Statement,
    Touches,
    WriteSet,
)
from workloads.tables import DELTA, Row, State, TableSpec


class Read(Kind):
    """Reads the whole table."""

    formats = EVERY_FORMAT
    name = "read"
    by_facts = True
    verb = "read"
    writes = False
    commits = False
    changes_rows = False

    def arguments(self, draw: Draw) -> Arguments:
        return {}

    def statements(self, value: Arguments, op: str, table: TableSpec) -> list[Statement]:
        return [Statement(f"SELECT {ROWS} FROM {{table}}", result=True)]

    def touches(self, value: Arguments, table: TableSpec) -> Touches:
        return EVERYTHING

    def writeset(self, state: State, value: Arguments, op: str, table: TableSpec) -> WriteSet:
        return WriteSet([], [])

    def expected(self, state: State, value: Arguments) -> list[Row] | None:
        return state.rows()


class ReadKey(Read):
    """Reads the rows of one key."""

    name = "read-key"
    by_facts = True

    def arguments(self, draw: Draw) -> Arguments:
        return {"id": draw.ids(1)[0]}

    def statements(self, value: Arguments, op: str, table: TableSpec) -> list[Statement]:
        return [Statement(f"SELECT {ROWS} FROM {{table}} WHERE id = {int(value['id'])}", result=True)]

    def touches(self, value: Arguments, table: TableSpec) -> Touches:
        return Touches((value["id"],))

    def expected(self, state: State, value: Arguments) -> list[Row] | None:
        return state.by_id(value["id"])


class ReadSnapshot(Read):
    """Time travel: reads the whole table as of the ``back``-th snapshot before the newest one that its writer can see.

    The result is ``{"snapshot": id, "rows": [...]}``: the requested snapshot and its rows. Option ``exactly``: ``back`` is the number itself,
    so that a phase after so many commits reads what one before them read.
    """

    name = "read-snapshot"
    by_facts = True
    travels = True
    options: ClassVar[tuple[str, ...]] = ("back", "exactly")

    def arguments(self, draw: Draw) -> Arguments:
        most = int(draw.options.get("back", 5))
        return {"back": most if draw.options.get("exactly") else draw.rng.randint(0, most)}

    def statements(self, value: Arguments, op: str, table: TableSpec) -> list[Statement]:
        back = int(value["back"]) + 1
        if table.format == DELTA:  # only a statement of its own shows the versions
            return [
                Statement("{table}", bind="snapshot", action={"name": "earlier-version", "most": back}),
                Statement(f"SELECT {ROWS} FROM {{table}} VERSION AS OF {{snapshot}}", result=True),
            ]
        return [
            Statement(
                "SELECT snapshot_id FROM {table}.history WHERE is_current_ancestor "
                f"ORDER BY made_current_at DESC LIMIT {back}",
                bind="snapshot",
            ),
            Statement(f"SELECT {ROWS} FROM {{table}} VERSION AS OF {{snapshot}}", result=True),
        ]
