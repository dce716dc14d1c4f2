"""Operations on two tables: transfers, and reads of both."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, ClassVar

from workloads.operations.kind import (
    EVERYTHING,
    ROWS,
    STAGES,
    Arguments,
    Draw,
    Kind,
    Statement,
    Touches,
    WriteSet,
    id_list,
    named_ids,
    net,
)
from workloads.tables import State, TableSpec


class _TwoTables(Kind):
    """An operation on its own table and on the table in its argument :attr:`names`."""

    two_tables = True
    names: ClassVar[str]

    def second(self, value: Arguments) -> str | None:
        return str(value[self.names])

    def other(self, draw: Draw) -> str:
        """Draw the second table."""
        return draw.rng.choice(draw.others) if draw.others else draw.table.name

    def qualified(self, value: Arguments) -> str:
        """The second table's name in a statement."""
        return f"{{catalog}}.{{namespace}}.{_table(value[self.names])}"


class Transfer(_TwoTables):
    """Subtracts ``amount`` from the counter of a key in its own table and adds it to the same key in the table ``into``; both or neither.

    Both rows get the operation's id appended to their lists, so that every reader sees which transfers a row has. If the catalog can
    commit to several tables at once, it is one transaction; otherwise two statements, one after the other
    (``harness.writers.two_tables``).
    The result says which. The tables need the property ``write.wap.enabled``, because a joint commit is staged first.
    """

    name = "transfer"
    verb = "update"
    signs = True
    names = "into"

    def arguments(self, draw: Draw) -> Arguments:
        return {"ids": draw.ids(1), "into": self.other(draw), "amount": draw.rng.randint(1, 9)}

    def statements(self, value: Arguments, op: str, table: TableSpec) -> list[Statement]:
        amount, where = int(value["amount"]), f"id IN ({id_list(value['ids'])})"
        signs = (("{table}", "-"), (self.qualified(value), "+"))
        parts = [
            [into, f"UPDATE {{{{at}}}} SET cnt = cnt {sign} {amount}, log = concat(log, ',{op}') WHERE {where}"]
            for into, sign in signs
        ]
        action = {"name": "transfer", "op": op, "parts": parts, "needs": STAGES}
        return [Statement("{table}", result=True, action=action)]

    def touches(self, value: Arguments, table: TableSpec) -> Touches:
        return named_ids(value)

    def writeset(self, state: State, value: Arguments, op: str, table: TableSpec) -> WriteSet:
        more = value["amount"] if table.name == value["into"] else -value["amount"]
        old = [r for i in value["ids"] for r in state.by_id(i)]
        return net(old, [r._replace(cnt=r.cnt + more, log=f"{r.log},{op}") for r in old])


class ReadBoth(_TwoTables):
    """Reads its own table and the table ``and``, each at its current snapshot.

    Two tables cannot be read at one moment. So the reader gets the snapshot of its own table, then of the other, then of its own again: if the
    first and the last are equal, both snapshots were current at one moment. The result is
    ``{"first": id, "second": id, "again": id, "rows": [[side, ...], ...]}``, where side 0 is its own table, 1 the other.
    For each table alone it is a ``read``.
    """

    name = "read-both"
    verb = "read"
    names = "and"
    writes = False
    commits = False
    changes_rows = False

    def arguments(self, draw: Draw) -> Arguments:
        return {"and": self.other(draw)}

    def statements(self, value: Arguments, op: str, table: TableSpec) -> list[Statement]:
        both = self.qualified(value)
        ask = {"name": "current-snapshot"}
        return [
            Statement("{table}", bind="first", action=ask),
            Statement(both, bind="second", action=ask),
            Statement("{table}", bind="again", action=ask),
            Statement(
                f"SELECT 0 AS side, {ROWS} FROM {{table}} VERSION AS OF {{first}} UNION ALL "
                f"SELECT 1 AS side, {ROWS} FROM {both} VERSION AS OF {{second}}",
                result=True,
            ),
        ]

    def touches(self, value: Arguments, table: TableSpec) -> Touches:
        return EVERYTHING

    def writeset(self, state: State, value: Arguments, op: str, table: TableSpec) -> WriteSet:
        return WriteSet([], [])

    def seen_from(self, value: Arguments, result: Any, second: bool) -> tuple[str, Arguments, Any]:
        rows = result.get("rows") if isinstance(result, Mapping) else None
        if isinstance(rows, list) and all(isinstance(r, list | tuple) and r and r[0] in (0, 1) for r in rows):
            rows = [list(r[1:]) for r in rows if r[0] == int(second)]
        return "read", {}, rows

    def snapshots_read(self, value: Arguments, result: Any, second: bool) -> tuple[int, ...]:
        if not isinstance(result, Mapping):
            return ()
        ids = (result.get("second"),) if second else (result.get("first"), result.get("again"))
        return tuple(i for i in ids if isinstance(i, int)) if all(isinstance(i, int) for i in ids) else ()


def _table(text: object) -> str:
    if not isinstance(text, str) or not re.fullmatch(r"[a-z][a-z0-9_]*", text):
        raise ValueError(f"expected the name of a table, found {text!r}")
    return text
