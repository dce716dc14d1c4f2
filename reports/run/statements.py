"""The statements of an anomaly: the SQL of its operations, and how its table was made."""

from __future__ import annotations

from collections.abc import Iterable

from markupsafe import Markup

from checkers.evidence.history import Operation
from checkers.timeline import explain
from checkers.timeline.sql import StatementNames, sql_of
from reports.drawing import words
from reports.drawing.page import Block, FileText, Fold, tag
from reports.run.stored import Stored
from workloads.ddl import definition
from workloads.engines.engines import SPARK
from workloads.tables import SQL_COLUMNS, TableSpec

MOST_CHARACTERS = 10_000
"""Characters of a statement: an INSERT of a hundred rows stands whole."""
IN_A_SENTENCE = 90
"""The same, within other words."""


def asked_as(name: str) -> str:
    """What the statements are that a story of a name is about."""
    return {"lost-commit": "lost", "false-failure": "reported failed"}.get(name, "statement")


def asked(run: Stored, operations: Iterable[Operation]) -> dict[str, str]:
    """Operation → its statements, of those that are known."""
    specs = {t.name: t for t in run.plan.tables or ()}
    return {o.op: words.shorten(said, MOST_CHARACTERS) for o in operations if (said := "; ".join(sql_of(o, specs)))}


def statement(whole: str) -> Markup:
    """A statement in a sentence: its beginning; who points at it reads it whole."""
    return tag("code", words.shorten(whole, IN_A_SENTENCE), title=whole)


def blocks(run: Stored, operations: Iterable[Operation], *, tables: bool = True) -> list[Block]:
    """:func:`text` for a page; nothing if no statement is known."""
    found = text(run, operations, tables=tables)
    return [Fold("Statements", [FileText(found)], open=True)] if found else []


def text(run: Stored, operations: Iterable[Operation], *, tables: bool = True) -> str:
    """The statements in the order of the operations, below those that make their tables if ``tables``; empty if none is known."""
    specs = {t.name: t for t in run.plan.tables or ()}
    lines: list[str] = []
    used: dict[str, TableSpec] = {}
    for o in operations:
        spec = specs.get(o.table or "")
        if spec is None:
            continue
        used[spec.name] = spec
        found = [f"{words.shorten(sql, MOST_CHARACTERS)};" for sql in sql_of(o, specs)]
        by = "" if o.engine == SPARK else f" ({explain.engine(o)} does the same in its own way)"
        lines += [f"-- {words.shorten(o.op, 60)}{by}", *found, ""] if found else []
    made = [line for spec in used.values() if tables and lines for line in (_made(spec), "")]
    return "\n".join([*made, *lines]).rstrip()


def _made(spec: TableSpec) -> str:
    """The statement that makes a table, a property on each line."""
    text = f"CREATE TABLE {spec.name} ({SQL_COLUMNS}) {definition(spec).format_map(StatementNames())};"
    head, found, properties = text.partition(" TBLPROPERTIES (")
    lines = properties.replace("', '", "',\n  '") if found else ""
    return words.shorten(f"{head}\nTBLPROPERTIES (\n  {lines}" if found else text, MOST_CHARACTERS)
