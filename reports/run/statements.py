"""The statements of an anomaly: the SQL of its operations, and how its table was made."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from checkers.evidence.history import Operation
from checkers.timeline import explain
from reports.drawing import words
from reports.drawing.page import Block, FileText, Fold
from reports.run.stored import Stored
from workloads.ddl import definition
from workloads.engines.engines import SPARK
from workloads.operations.kinds import KINDS
from workloads.tables import SQL_COLUMNS, TableSpec

MOST_CHARACTERS = 700
"""Characters of a statement."""


class _Names(dict[str, str]):
    """What stands for the names in a statement; one that only the run knew stays as it is."""

    def __missing__(self, key: str) -> str:
        return f"{{{key}}}"


def blocks(run: Stored, operations: Iterable[Operation], *, tables: bool = True) -> list[Block]:
    """The statements in the order of the operations, below those that make their tables if ``tables``; nothing if none is known."""
    specs = {t.name: t for t in run.plan.tables or ()}
    lines: list[str] = []
    used: dict[str, TableSpec] = {}
    for o in operations:
        spec = specs.get(o.table or "")
        if spec is None:
            continue
        used[spec.name] = spec
        found = _of(o, spec)
        by = "" if o.engine == SPARK else f" ({explain.engine(o)} does the same in its own way)"
        lines += [f"-- {words.shorten(o.op, 60)}{by}", *found, ""] if found else []
    if not lines:
        return []
    made = [text for spec in used.values() if tables for text in (_made(spec), "")]
    return [Fold("Statements", [FileText("\n".join([*made, *lines]).rstrip())], open=True)]


def _made(spec: TableSpec) -> str:
    """The statement that makes a table, a property on each line."""
    text = f"CREATE TABLE {spec.name} ({SQL_COLUMNS}) {definition(spec).format_map(_Names())};"
    head, found, properties = text.partition(" TBLPROPERTIES (")
    lines = properties.replace("', '", "',\n  '") if found else ""
    return words.shorten(f"{head}\nTBLPROPERTIES (\n  {lines}" if found else text, 3 * MOST_CHARACTERS)


def _here(sql: str) -> str:
    """A statement for a session whose current catalog and namespace have the tables, as those that make them are."""
    return sql.replace("{catalog}.{namespace}.", "").replace("{catalog}.", "")


def _of(o: Operation, spec: TableSpec) -> list[str]:
    """The statements of an operation; none of a kind that is not known, or whose arguments have another form."""
    kind = KINDS.get(o.f)
    if kind is None or not isinstance(o.value, Mapping):
        return []
    bound = {
        **o.invoked.extra,
        **(o.result if isinstance(o.result, Mapping) else {}),
    }  # what the run put in: a time, a snapshot
    names = _Names({**bound, "table": spec.name, "identifier": spec.name})
    try:
        found = kind.statements(dict(o.value), o.op, spec)
        return [words.shorten(_here(s.sql).format_map(names), MOST_CHARACTERS) + ";" for s in found if s.sql]
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError):
        return []
