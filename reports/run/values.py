"""JSON values of any form as tables and names: a page shows no JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from reports.drawing import words
from reports.drawing.page import Block, Heading, Pairs, Table, TableCell, TableColumn, TableRow, counted

MOST_ROWS = 64
MOST_COLUMNS = 16
MOST = 40


def name(key: object) -> str:
    """A key as a person reads it."""
    return words.shorten(str(key).replace("_", " "), 80)


def blocks(said: Mapping[str, Any], most: int = 400) -> list[Block]:
    """Single values by their names; below them a table of each that has many things. ``most``: characters of a value."""
    pairs: list[tuple[str, str]] = []
    tables: list[Block] = []
    for key, value in list(said.items())[:MOST]:
        if (found := table(value)) is not None:
            tables += [Heading(name(key)), found]
        else:
            pairs.append((name(key), words.plainly(value, most)))
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
    right = [all(_numeric(v.get(k)) for _, v in rows) for k in keys]
    long = [any(len(words.plainly(v.get(k), 300)) > 40 for _, v in rows[:MOST_ROWS]) for k in keys]
    columns = [
        TableColumn(name(k), right=r, mark="wrap" if w else "", most=300)
        for k, r, w in zip(keys, right, long, strict=True)
    ]
    first = [] if rows[0][0] is None else [TableColumn(head)]
    shown = [
        TableRow([*([] if lead is None else [lead]), *(_cell(v.get(k)) for k in keys)]) for lead, v in rows[:MOST_ROWS]
    ]
    return Table([*first, *columns], shown, form=form)


def _numeric(value: Any) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


def _cell(value: Any) -> str | TableCell:
    return counted(value) if type(value) is int else words.plainly(value, 300)
