"""A checker on a run's page: its verdict, its statistics, its notes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from checkers.verdict import Verdict
from reports.drawing import words
from reports.drawing.page import (
    SYMBOLS,
    Block,
    Group,
    Table,
    TableColumn,
    TableRow,
    Text,
    badge,
    counted,
    joined,
    muted,
    tag,
)
from reports.run import stored
from reports.run.plan_view import MOST_TABLES, cell
from reports.run.stored import Stored

MOST_NOTES = 20
MOST_STATS = 40


@dataclass(frozen=True, slots=True)
class Statistics:
    """A checker's statistics: figures by name, and tables (name, columns, rows) where there are figures for many things."""

    figures: tuple[tuple[str, str], ...]
    tables: tuple[tuple[str, tuple[str, ...], tuple[tuple[str, ...], ...]], ...]
    more: int


def _name(key: object) -> str:
    return words.shorten(str(key).replace("_", " "), 80)


def statistics(stats: Mapping[str, Any]) -> Statistics:
    """A checker's statistics in a suitable form.

    A mapping to mappings is a table, a mapping to words becomes counts of each word, any other is unfolded one level.
    """
    figures: list[tuple[str, str]] = []
    tables = []
    for key, value in stats.items():
        if value is None or value in ({}, [], ""):
            continue
        inner = list(value.values()) if isinstance(value, Mapping) else []
        if inner and all(isinstance(v, Mapping) for v in inner):
            columns = list(dict.fromkeys(str(c) for v in inner for c in v))[:16]
            rows = [(_name(k), *(cell(v.get(c)) for c in columns)) for k, v in list(value.items())[:MOST_TABLES]]
            tables.append((_name(key), tuple(_name(c) for c in columns), tuple(rows)))
        elif inner and all(isinstance(v, str) for v in inner):
            counts = Counter(inner).most_common(8)
            figures.append((_name(key), ", ".join(f"{words.shorten(k, 60)} {words.grouped(n)}" for k, n in counts)))
        elif 0 < len(inner) <= 12:
            figures += [(f"{_name(key)}: {_name(k)}", cell(v)) for k, v in value.items()]
        else:
            figures.append((_name(key), cell(value)))
    return Statistics(tuple(figures[:MOST_STATS]), tuple(tables[:8]), max(0, len(figures) - MOST_STATS))


SAID = {"valid": "valid", "invalid": "violated", "unknown": "unknown"}


def blocks(run: Stored) -> list[Block]:
    """Each checker with its verdict, and what it found and counted."""
    if not run.verdicts:
        return [Text(["No checker has judged this run."], "muted")]
    return [Group([[_name_of(v, run)], _body(v)], "named") for v in run.verdicts]


def _name_of(v: Verdict, run: Stored) -> Text:
    """Its name and verdict; ``as …``: it found only what the workload expects or allows."""
    status = {True: "valid", False: "invalid"}.get(v.valid, "unknown") if isinstance(v.valid, bool) else "unknown"
    marks = [run.mark(a) for a in v.anomalies]
    excused = " and ".join(sorted(set(marks))) if v.valid is False and marks and all(marks) else ""
    said = f"{SYMBOLS[status]} {SAID[status]}" + (f", as {excused}" if excused else "")
    return Text([joined((tag("b", words.shorten(v.checker, 60), "wrap"), Markup("<br>"), badge(status, said)))])


def _body(v: Verdict) -> list[Block]:
    names, stats = list(stored.anomaly_names(v.anomalies).items()), statistics(v.stats)
    out: list[Block] = []
    if names:
        found = [tag("span", joined((tag("b", words.shorten(n, 60)), " ", words.grouped(k)))) for n, k in names[:20]]
        more = [muted(f"and {words.plural(len(names) - 20, 'other name')}")] if len(names) > 20 else []
        out.append(Text([*found, *more], "figures"))
    if stats.figures:
        figures = [joined((muted(k), " ", v)) for k, v in stats.figures]
        more = [muted(f"and {words.plural(stats.more, 'other figure')}")] if stats.more else []
        out.append(Text([*figures, *more], "figures"))
    for name, columns, rows in stats.tables:
        heads = [TableColumn(name), *(TableColumn(c, right=True) for c in columns)]
        out.append(Table(heads, [TableRow([first, *map(counted, rest)]) for first, *rest in rows], form="fit"))
    out += [Text([words.shorten(n, 1000) for n in v.notes[:MOST_NOTES]])] if v.notes else []
    if len(v.notes) > MOST_NOTES:
        out.append(Text([f"and {words.plural(len(v.notes) - MOST_NOTES, 'more note')}"], "note"))
    return out or [Text(["No figures and no notes."], "muted")]
