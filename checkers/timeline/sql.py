"""The SQL of an operation, as a person would type it in a session whose current catalog and namespace have its tables."""

from __future__ import annotations

from collections.abc import Mapping

from checkers.evidence.history import Operation
from workloads.operations.kind import Statement
from workloads.operations.kinds import KINDS
from workloads.tables import TableSpec


class StatementNames(dict[str, str]):
    """What stands for the names in a statement; one that only the run knew stays as it is."""

    def __missing__(self, key: str) -> str:
        return f"{{{key}}}"


def sql_of(o: Operation, tables: Mapping[str, TableSpec]) -> list[str]:
    """The statements of an operation; none of a kind or table that is not known, or whose arguments have another form."""
    kind, spec = KINDS.get(o.f), tables.get(o.table or "")
    if kind is None or spec is None or not isinstance(o.value, Mapping):
        return []
    bound = {
        **o.invoked.extra,
        **(o.result if isinstance(o.result, Mapping) else {}),
    }  # what the run put in: a time, a snapshot
    names = StatementNames({**bound, "table": spec.name, "identifier": spec.name})
    try:
        found = kind.statements(dict(o.value), o.op, spec)
        return [_here(text).format_map(names) for s in found if (text := _typed(s))]
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError):
        return []


def _typed(s: Statement) -> str:
    """The SQL of a statement; of a Java action, whose ``sql`` is a table's name, the one that it runs; empty if it runs none."""
    return s.sql if s.action is None else str(s.action.get("statement") or "")


def _here(sql: str) -> str:
    return sql.replace("{catalog}.{namespace}.", "").replace("{catalog}.", "")
