"""The run's page: one HTML file that answers the question on its first screen and holds up the evidence below.

It needs nothing but itself: style, script and drawings are inline, and a Content-Security-Policy forbids the rest.
Whatever came from outside (error messages, operation ids, file names) is escaped by Jinja's autoescape; drawings are
Markup made of escaped parts. Its size is bounded: plots are sampled, tables and texts are cut, and each cut is stated
where it was made.
"""

from __future__ import annotations

import base64
import hashlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any
from urllib.parse import quote

from markupsafe import Markup

from checkers.costs import figures as figures_module
from checkers.costs.figures import Tally
from checkers.evidence import error_chain, outcome
from checkers.evidence.history import Operation
from checkers.evidence.runfolder import replace_file
from checkers.verdict import Verdict
from reports.drawing import words
from reports.drawing.templates import TEMPLATES, environment
from reports.run import anomalies, plots, stored, timeline
from reports.run import bands as measure
from reports.run.banner import SYMBOLS, banner
from reports.run.plan_view import (
    MOST_KINDS,
    MOST_TABLES,
    cell,
    mix_of,
    phases_of,
    plan_rest,
    run_rest,
    table_of,
    table_specs,
    timings_of,
)
from reports.run.stored import Stored

MOST_ERRORS = 40
MOST_NOTES = 20
MOST_STATS = 40
MOST_FILES = 60
MOST_ATTEMPTS = 8


# --- the plan ---------------------------------------------------------------------------------------------------------


# --- what happened ----------------------------------------------------------------------------------------------------


def _total(operations: list[Operation] | tuple[Operation, ...]) -> Tally:
    return figures_module.tally("all", operations)


def _attempts(found: list[figures_module.Attempts]) -> dict[str, Any] | None:
    if not any(a.commits or a.unknown for a in found):
        return None
    most = max((n for a in found for n in a.counts), default=1)
    least = min((n for a in found for n in a.counts), default=1)
    columns = list(range(min(1, least), min(most, MOST_ATTEMPTS) + 1))
    tail = most > MOST_ATTEMPTS
    rows = []
    for a in found:
        cells = [a.counts.get(n, 0) for n in columns]
        if tail:
            cells.append(sum(k for n, k in a.counts.items() if n > MOST_ATTEMPTS))
        largest = max(cells, default=0) or 1
        rows.append({"a": a, "cells": [{"n": n, "percent": round(100 * n / largest)} for n in cells]})
    return {
        "columns": [str(n) for n in columns] + ([f"> {MOST_ATTEMPTS}"] if tail else []),
        "rows": rows,
        "unknown": any(a.unknown for a in found),
    }


def _conflicts(run: Stored, by_table: list[figures_module.Attempts]) -> dict[str, Any]:
    writes = [o for o in run.operations if measure.is_write(o.f)]
    aborted: Counter[str] = Counter()
    otherwise: Counter[str] = Counter()
    for o in writes:
        if o.type == "fail":
            conflict = outcome.conflict([e for e in o.error or [] if len(e) == 2])
            if conflict is not None:
                aborted[conflict] += 1
            else:
                otherwise[error_chain.short_class(error_chain.most_specific(o.error)[0])] += 1
    return {
        "writes": len(writes),
        "aborted": aborted.total(),
        "classes": aborted.most_common(8),
        "otherwise": otherwise.total(),
        "other_classes": otherwise.most_common(8),
        "commits": sum(a.commits for a in by_table),
        "retried": sum(a.retried for a in by_table),
        "extra": sum(a.extra for a in by_table),
    }


def _slowest(run: Stored, most: int = 8) -> list[anomalies.OpRow]:
    done = sorted((o for o in run.operations if o.type == "ok"), key=lambda o: -(figures_module.latency_ms(o) or 0))
    commits = run.commits_by_op()
    return [anomalies.op_row(o, commits.get(o.op, ())) for o in done[:most]]


@dataclass(frozen=True, slots=True)
class Statistics:
    """A checker's statistics: figures by name, and tables (name, columns, rows) where there are figures for many things."""

    figures: tuple[tuple[str, str], ...]
    tables: tuple[tuple[str, tuple[str, ...], tuple[tuple[str, ...], ...]], ...]
    more: int


def _name(key: object) -> str:
    return words.shorten(str(key).replace("_", " "), 80)


def statistics(stats: Mapping[str, Any]) -> Statistics:
    """What a checker counted, in the form that suits it.

    A mapping to mappings is a table, a mapping to words is how often each word occurs, any other is unfolded one level.
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


def _checker(v: Verdict) -> dict[str, Any]:
    return {
        "v": v,
        "status": {True: "valid", False: "invalid"}.get(v.valid, "unknown") if isinstance(v.valid, bool) else "unknown",
        "names": list(stored.anomaly_names(v.anomalies).items()),
        "stats": statistics(v.stats),
        "notes": [words.shorten(n, 1000) for n in v.notes[:MOST_NOTES]],
        "notes_more": max(0, len(v.notes) - MOST_NOTES),
    }


def _errors(groups: list[figures_module.ErrorGroup]) -> list[dict[str, Any]]:
    return [
        {
            "g": g,
            "short": words.shorten(error_chain.short_class(g.name), 80),
            "package": words.shorten(g.name.rpartition(".")[0], 120),
            "kinds": g.kinds.most_common(4),
            "kinds_more": max(0, len(g.kinds) - 4),
            "example": "\ncaused by ".join(words.shorten(": ".join(e), 700) for e in (g.example or [])[:6]),
        }
        for g in groups[:MOST_ERRORS]
    ]


def _files(run: Stored) -> dict[str, Any]:
    shown = [{"path": f.path, "href": quote(f.path), "size": words.size(f.size)} for f in run.files[:MOST_FILES]]
    tops = [f for f in shown if "/" not in str(f["path"])]
    return {
        "top": tops,
        "rest": [f for f in shown if "/" in str(f["path"])],
        "more": max(0, len(run.files) - MOST_FILES),
    }


def _version() -> str:
    try:
        return version("icequake")
    except PackageNotFoundError:
        return ""


# --- rendering --------------------------------------------------------------------------------------------------------


def view(run: Stored) -> dict[str, Any]:
    """Everything the template shows, by name."""
    end_s = run.end_ns / 1e9
    commits = run.commits_by_op()
    origin = measure.clock_origin_ms(run.operations, commits)
    bands, marks = measure.nemesis(run.events, end_s)
    marks = sorted([*measure.phases(run.operations), *marks], key=lambda m: m.at)
    kinds = {o.op: o.f for o in run.operations}
    by_table = figures_module.attempts_by_table(run.logs)
    cards = anomalies.cards(run, origin)
    found = run.anomalies
    groups = figures_module.error_groups(run.operations)
    involved = {op for c in cards for op in (o.op for o in c.ops)}
    lanes = timeline.timeline(run.operations, run.writers, involved, commits)
    specs = table_specs(run)
    names = []
    for name, count in stored.anomaly_names(found).items():
        first = next((c for c in cards if c.anomaly.name == name), None)
        documented = all(a.documented for a in found if a.name == name)
        names.append(
            {"name": name, "count": count, "href": f"#anomaly-{first.n}" if first else None, "documented": documented}
        )
    seed = run.plan.seed if run.plan.seed is not None else run.header.get("seed")
    return {
        "run": run,
        "banner": banner(run),
        "symbols": SYMBOLS,
        "names": names,
        "description": run.plan.description,
        "catalog": run.plan.catalog.name if run.plan.catalog else None,
        "seed": None if seed is None else str(seed),
        "started": words.when(run.started),
        "lasted": words.duration(end_s * 1000) if run.events else None,
        "total": _total(run.operations),
        "commits": sum(len(log.commits) for log in run.logs.values()),
        "files": _files(run),
        "cards": cards,
        "found": len(found),
        "not_shown": stored.anomaly_names(a for a in found if not any(c.anomaly is a for c in cards)),
        "shown_ops": {b.op for b in lanes.boxes} if lanes else set(),
        "versions": [(k, cell(v)) for k, v in run.plan.versions.items()],
        "tables": table_of(specs),
        "table_count": max(len(specs), len(run.logs)),
        "mix": mix_of(run),
        "phases": phases_of(run),
        "plan_rest": plan_rest(run),
        "timings": timings_of(run),
        "run_rest": run_rest(run),
        "by_kind": sorted(figures_module.tallies(run.operations, lambda o: o.f), key=lambda t: t.name)[:MOST_KINDS],
        "by_table": sorted(figures_module.tallies(run.operations, lambda o: o.table or "(none)"), key=lambda t: t.name)[
            :MOST_TABLES
        ],
        "by_phase": figures_module.tallies(run.operations, lambda o: str(o.invoked.extra.get("phase") or "(none)"))[
            :MOST_KINDS
        ],
        "errors": _errors(groups),
        "errors_more": max(0, len(groups) - MOST_ERRORS),
        "bands": bands,
        "faults": measure.faults(run.events),
        "marks": marks,
        "latency": plots.latency_over_time(run.operations, bands, marks, end_s),
        "throughput": plots.throughput(run.operations, bands, marks, end_s),
        "quantiles": plots.quantiles_over_time(run.operations, bands, marks, end_s),
        "classes": [c for c in measure.CLASSES if any(measure.operation_class(f) == c for f in set(kinds.values()))],
        "shapes": plots.SHAPES,
        "slowest": _slowest(run),
        "attempts_table": _attempts(by_table),
        "attempts_kind": _attempts(figures_module.attempts_by_kind(run.logs, kinds)),
        "conflicts": _conflicts(run, by_table),
        "commit_plot": plots.commits_over_time(run.logs, origin, bands, marks, end_s),
        "commit_shapes": plots.COMMIT_SHAPES,
        "commit_states": dict(
            zip(plots.COMMIT_STATES, ("first attempt", "retried", "not on main at the end"), strict=True)
        ),
        "table_figures": [measure.table_figures(log) for log in list(run.logs.values())[:MOST_TABLES]],
        "checkers": [_checker(v) for v in run.verdicts],
        "lanes": lanes,
        "lane_row": timeline.ROW,
        "version": _version(),
    }


def render(run_folder: Path | Stored) -> str:
    """The page of the run in ``run_folder`` (or of one that was loaded by :func:`reports.run.stored.load`).

    Raises:
        FileNotFoundError: there is no such folder. Anything missing or broken in it is stated on the page instead.
    """
    run = stored.of(run_folder)
    style = (TEMPLATES / "page.css").read_text(encoding="utf-8")
    script = (TEMPLATES / "page.js").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    page = (
        environment()
        .get_template("page.html")
        .render(style=Markup(style), script=Markup(script), script_hash=f"sha256-{digest}", **view(run))
    )
    return words.printable(page)


def write(run_folder: Path | Stored) -> Path:
    """Render the page and save it as ``report.html`` in the folder.

    Returns:
        Its path.

    Raises:
        FileNotFoundError: as :func:`render`.
    """
    run = stored.of(run_folder)
    path = run.folder / "report.html"
    replace_file(path, render(run))
    return path
