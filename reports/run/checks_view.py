"""A checker on a run's page: its verdict, its statistics, its notes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from markupsafe import Markup

from checkers.evidence.lenient import number
from checkers.load import Load
from checkers.retries import Retries
from checkers.verdict import Verdict
from reports.drawing import words
from reports.drawing.page import (
    BANNER_SYMBOLS,
    Block,
    BlockGroup,
    Heading,
    Text,
    badge,
    joined,
    muted,
    tag,
)
from reports.run import load_view, retries_view, stored, values
from reports.run.operations import shortened
from reports.run.plan_view import cell
from reports.run.results import is_unmet, unmet_expectations
from reports.run.stored import Stored

MOST_NOTES = 20
MOST_STATS = 40
MOST_NOTED_TABLES = 8
SECONDS = frozenset(("longest_without_progress", "op_timeout", "progress", "slack", "slowest", "seconds"))
"""Names of statistics that are lengths of time in s."""


def statistics(stats: Mapping[str, Any]) -> list[Block]:
    """A checker's statistics: figures by name, and tables where there are figures for many things.

    A mapping to words becomes counts of each word, any other that is no table is unfolded one level.
    """
    figures: list[tuple[str, str]] = []
    tables: list[Block] = []
    for key, value in stats.items():
        if value is None or value in ({}, [], ""):
            continue
        inner = list(value.values()) if isinstance(value, Mapping) else []
        if (found := values.table(value, values.name(key), "fit")) is not None:
            tables += [found] if inner else [Heading(values.name(key)), found]
        elif inner and all(isinstance(v, str) for v in inner):
            counts = Counter(inner).most_common(8)
            said = ", ".join(f"{words.shorten(k, 60)} {words.grouped(n)}" for k, n in counts)
            figures.append((values.name(key), said))
        elif 0 < len(inner) <= 12:
            figures += [(f"{values.name(key)}: {values.name(k)}", cell(v)) for k, v in value.items()]
        else:
            figures.append((values.name(key), _figure(key, value)))
    shown = [joined((muted(k), " ", v)) for k, v in figures[:MOST_STATS]]
    more = len(figures) - MOST_STATS
    shown += [muted(f"and {words.plural(more, 'other figure')}")] if more > 0 else []
    return [*([Text(shown, "figures")] if shown else []), *tables[:MOST_NOTED_TABLES]]


def _figure(key: str, value: Any) -> str:
    seconds = number(value) if key in SECONDS else None
    return cell(value) if seconds is None else words.duration(1000 * seconds)


SAID = {"valid": "valid", "invalid": "violated", "unknown": "unknown"}


def blocks(run: Stored) -> list[Block]:
    """Each checker with its verdict, and what it found and counted."""
    if not run.verdicts:
        return [Text(["No checker has judged this run."], "muted")]
    return [BlockGroup([[_name_of(v, run)], _body(v)], "named") for v in run.verdicts]


def _name_of(v: Verdict, run: Stored) -> Text:
    """Its name and verdict; ``as …``: it found only what the workload expects or allows."""
    if any(map(is_unmet, v.anomalies)):
        status, said = ("valid", "✓ not seen, and not to be") if run.excused else ("invalid", "✕ not seen")
        return Text([joined((tag("b", v.checker), Markup("<br>"), badge(status, said)))])
    status = {True: "valid", False: "invalid"}.get(v.valid, "unknown") if isinstance(v.valid, bool) else "unknown"
    marks = [run.mark(a) for a in v.anomalies]
    excused = " and ".join(sorted(set(marks))) if v.valid is False and marks and all(marks) else ""
    said = f"{BANNER_SYMBOLS[status]} {SAID[status]}" + (f", as {excused}" if excused else "")
    return Text([joined((tag("b", words.shorten(v.checker, 60), "wrap"), Markup("<br>"), badge(status, said)))])


def _body(v: Verdict) -> list[Block]:
    if any(map(is_unmet, v.anomalies)):
        return [Text([f"Expected, and not found by any checker: {', '.join(unmet_expectations(v.anomalies))}."])]
    names = list(stored.anomaly_names(v.anomalies).items())
    out: list[Block] = []
    if names:
        found = [tag("span", joined((tag("b", words.shorten(n, 60)), " ", words.grouped(k)))) for n, k in names[:20]]
        more = [muted(f"and {words.plural(len(names) - 20, 'other name')}")] if len(names) > 20 else []
        out.append(Text([*found, *more], "figures"))
    view = {Retries.name: retries_view.blocks, Load.name: load_view.blocks}.get(v.checker, statistics)
    out += view(v.stats)
    out += [Text([shortened(words.shorten(n, 1000)) for n in v.notes[:MOST_NOTES]])] if v.notes else []
    if len(v.notes) > MOST_NOTES:
        out.append(Text([f"and {words.plural(len(v.notes) - MOST_NOTES, 'more note')}"], "note"))
    return out or [Text(["No figures and no notes."], "muted")]
