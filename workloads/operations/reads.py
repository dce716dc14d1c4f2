"""Operations that read: a whole table, one key, a snapshot."""

from __future__ import annotations

from workloads.operations.kind import ROWS, Arguments, Draw, Kind, Statement, WriteSet
from workloads.tables import Row, State, TableSpec


class Read(Kind):
    """Reads the whole table."""

    name = "read"
    writes = False
    commits = False
    changes_rows = False

    def arguments(self, draw: Draw) -> Arguments:
        return {}

    def statements(self, value: Arguments, op: str, table: TableSpec) -> list[Statement]:
        return [Statement(f"SELECT {ROWS} FROM {{table}}", result=True)]

    def writeset(self, state: State, value: Arguments, op: str, table: TableSpec) -> WriteSet:
        return WriteSet([], [])

    def expected(self, state: State, value: Arguments) -> list[Row] | None:
        return state.rows()


class ReadKey(Read):
    """Reads the rows of one key."""

    name = "read-key"

    def arguments(self, draw: Draw) -> Arguments:
        return {"id": draw.ids(1)[0]}

    def statements(self, value: Arguments, op: str, table: TableSpec) -> list[Statement]:
        return [Statement(f"SELECT {ROWS} FROM {{table}} WHERE id = {int(value['id'])}", result=True)]

    def expected(self, state: State, value: Arguments) -> list[Row] | None:
        return state.by_id(value["id"])


class ReadSnapshot(Read):
    """Time travel: reads the whole table as of the ``back``-th snapshot before the newest one its writer can see.

    The result is ``{"snapshot": id, "rows": [...]}``: the snapshot that was asked for, and its rows.
    """

    name = "read-snapshot"
    options = ("back",)

    def arguments(self, draw: Draw) -> Arguments:
        return {"back": draw.rng.randint(0, int(draw.options.get("back", 5)))}

    def statements(self, value: Arguments, op: str, table: TableSpec) -> list[Statement]:
        return [
            Statement(
                "SELECT snapshot_id FROM {table}.history WHERE is_current_ancestor "
                f"ORDER BY made_current_at DESC LIMIT {int(value['back']) + 1}",
                bind="snapshot",
            ),
            Statement(f"SELECT {ROWS} FROM {{table}} VERSION AS OF {{snapshot}}", result=True),
        ]
