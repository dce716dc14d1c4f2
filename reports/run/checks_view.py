"""A checker on a run's page: its verdict, its statistics, its notes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from checkers.verdict import Verdict
from reports.drawing import words
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


def checker_view(v: Verdict, run: Stored) -> dict[str, Any]:
    """One checker, for the template; ``excused``: it found only what the workload expects or allows."""
    marks = [run.mark(a) for a in v.anomalies]
    return {
        "v": v,
        "status": {True: "valid", False: "invalid"}.get(v.valid, "unknown") if isinstance(v.valid, bool) else "unknown",
        "excused": " and ".join(sorted(set(marks))) if v.valid is False and marks and all(marks) else "",
        "names": list(stored.anomaly_names(v.anomalies).items()),
        "stats": statistics(v.stats),
        "notes": [words.shorten(n, 1000) for n in v.notes[:MOST_NOTES]],
        "notes_more": max(0, len(v.notes) - MOST_NOTES),
    }
