"""JSON values of any form as tables and names: a page shows no JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from reports.drawing import words
from reports.drawing.page import Block, Heading, Pairs, Table, TableCell, TableColumn, TableRow, counted, tag

MOST_ROWS_SHOWN = 64
MOST_COLUMNS = 16
WIDEST = 7
"""Columns that stand beside each other; of a table with more, its rows become columns if there are fewer of these."""
LONGEST_SHOWN = 40


EXPLAINED: Mapping[str, str] = {
    "answer": "What the catalog answered to the commit",
    "cluster": "Where Spark's tasks ran: standalone, in executors of a cluster; local, in the writers' own processes",
    "culprit": "Who did it, as requests and answers show",
    "endpoint": "Where the request was sent",
    "keys": "space: the number of rows that writers change; skew: how much they prefer a few of them",
    "lost": "The operations whose commits are lost",
    "namespace": "The folder of the tables in the catalog; each run has its own",
    "nemesis": "What chose the faults, and when",
    "op_timeout": "Seconds after which a writer gives an operation up",
    "overtaken": "Whether the table's history changed after this was told during the run, so that only the full check decides",
    "seen": "Whether any version of the table ever had a snapshot of it",
    "session": "Settings of Spark: spark, as users have them; fast, with which it starts and ends sooner",
}
"""Keys that need a word more: it is shown to who points at one."""


def name(key: object) -> str:
    """A key as a person reads it."""
    return words.shorten(str(key).replace("_", " "), 80)


def term(key: object) -> str:
    """The same; who points at it reads what it means, if it needs that."""
    means = EXPLAINED.get(str(key))
    return name(key) if means is None else tag("span", name(key), "term", title=means)


def blocks(said: Mapping[str, Any], most: int = 400) -> list[Block]:
    """Single values by their names; below them a table of each that has many things. ``most``: characters of a value."""
    pairs: list[tuple[str, str]] = []
    tables: list[Block] = []
    for key, value in list(said.items())[:LONGEST_SHOWN]:
        if (found := table(value)) is not None:
            tables += [Heading(name(key)), found]
        else:
            pairs.append((term(key), words.plainly(value, most)))
    return [*([Pairs(pairs)] if pairs else []), *tables]


def table(value: Any, head: str = "", form: Literal["", "fit"] = "") -> Table | None:
    """A list of mappings, or a mapping to mappings, as rows below their keys; None of anything else. ``head``: above a mapping's keys."""
    rows: list[tuple[str | None, Mapping[str, Any]]]
    if isinstance(value, Mapping) and value and all(isinstance(v, Mapping) for v in value.values()):
        rows = [(name(k), v) for k, v in value.items()]
    elif isinstance(value, list) and value and all(isinstance(v, Mapping) for v in value):
        rows = [(None, v) for v in value]
    else:
        return None
    keys = list(dict.fromkeys(k for _, v in rows for k in v))[:MOST_COLUMNS]
    if rows[0][0] is not None and len(keys) > WIDEST and len(rows) < len(keys):
        return _turned(keys, rows, head, form)
    right = [all(_numeric(v.get(k)) for _, v in rows) for k in keys]
    long = [any(len(words.plainly(v.get(k), 300)) > 40 for _, v in rows[:MOST_ROWS_SHOWN]) for k in keys]
    columns = [
        TableColumn(name(k), right=r, mark="wrap" if w else "", most=300, title=EXPLAINED.get(k, ""))
        for k, r, w in zip(keys, right, long, strict=True)
    ]
    first = [] if rows[0][0] is None else [TableColumn(head)]
    shown = [
        TableRow([*([] if lead is None else [lead]), *(_cell(v.get(k)) for k in keys)])
        for lead, v in rows[:MOST_ROWS_SHOWN]
    ]
    return Table([*first, *columns], shown, form=form)


def _turned(
    keys: list[str], rows: list[tuple[str | None, Mapping[str, Any]]], head: str, form: Literal["", "fit"]
) -> Table:
    """The same table with a row for each key."""
    right = [all(_numeric(v.get(k)) for k in keys) for _, v in rows]
    columns = [
        TableColumn(head),
        *(TableColumn(lead or "", right=r, most=300) for (lead, _), r in zip(rows, right, strict=True)),
    ]
    shown = [TableRow([term(k), *(_cell(v.get(k)) for _, v in rows)]) for k in keys]
    return Table(columns, shown, form=form)


def _numeric(value: Any) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


def _cell(value: Any) -> str | TableCell:
    return counted(value) if type(value) is int else words.plainly(value, 300)
