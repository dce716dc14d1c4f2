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

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from checkers.evidence import error_chain, outcome
from checkers.evidence.history import Operation
from checkers.evidence.runfolder import replace_file
from checkers.verdict import Verdict
from compose.redaction import masked
from reports.drawing import words
from reports.run import anomalies, plots, stored, timeline
from reports.run import bands as measure
from reports.run.bands import Tally
from reports.run.stored import Stored

TEMPLATES = Path(__file__).parent / "templates"

MOST_ERRORS = 40
MOST_KINDS = 80
MOST_TABLES = 64
MOST_NOTES = 20
MOST_STATS = 40
MOST_FILES = 60
MOST_ATTEMPTS = 8

SYMBOLS = {"valid": "✓", "invalid": "✕", "unknown": "?", "incomplete": "…"}


@dataclass(frozen=True, slots=True)
class Banner:
    """The answer: ``status`` is valid, invalid, unknown or incomplete (the style sheet's classes)."""

    status: str
    headline: str
    sentence: str


def _listing(names: Mapping[str, int], most: int = 6) -> str:
    parts = [name + (f" ×{words.grouped(n)}" if n > 1 else "") for name, n in list(names.items())[:most]]
    return ", ".join(parts) + (f" and {words.plural(len(names) - most, 'other kind')}" if len(names) > most else "")


def banner(run: Stored) -> Banner:
    """The headline and one sentence, also for a run that never came to a verdict."""
    found = stored.own_findings(run.anomalies)
    names = stored.anomaly_names(found)
    confirmed = [f"{name} is confirmed by {who}" for name in names if (who := stored.confirmed_by(name, run.anomalies))]
    confirmation = f" {'; '.join(confirmed[:3])}." if confirmed else ""
    checkers = words.plural(len(run.verdicts), "checker")
    scope = words.plural(len(run.operations), "operation")
    tables = max(len(run.logs), len(table_specs(run)))
    if tables:
        scope += f" on {words.plural(tables, 'table')}"
    early = "" if run.complete else f" {_ended(run)} Later anomalies may be missing."
    if run.valid is False:
        if not found:
            failed = ", ".join(v.checker for v in run.verdicts if v.valid is False) or "the run"
            return Banner("invalid", "Not valid", f"No anomaly is listed, yet this failed: {failed}.{early}")
        count = words.plural(len(found), "anomaly", "anomalies")
        documented = sum(a.documented is not None for a in found)
        tail = ""
        if documented:
            which = "All of them are" if documented == len(found) else f"{words.grouped(documented)} of them are"
            tail = f" {which} documented as possible." if len(found) > 1 else " It is documented as possible."
        sentence = f"In {scope}, {checkers} found {_listing(names)}.{confirmation}{tail}{early}"
        return Banner("invalid", f"{count} found", sentence)
    if not run.complete:
        checked = (
            "It was not checked."
            if run.results is None
            else "What was recorded before that was checked; absence proves little."
        )
        return Banner("incomplete", "Incomplete", f"{_ended(run)} It recorded {scope}. {checked}")
    if run.results is None:
        return Banner("incomplete", "Not checked", f"There is no results.json yet; {scope} are recorded.")
    if run.valid == "unknown":
        open_ = [v for v in run.verdicts if v.valid == "unknown"]
        why = f" {open_[0].checker}: {words.shorten(open_[0].notes[0], 240)}" if open_ and open_[0].notes else ""
        which = ", ".join(v.checker for v in open_) or "the checkers"
        return Banner("unknown", "Unknown", f"No anomaly was proven, but {which} could not decide.{why}")
    if found:
        return Banner(
            "valid",
            "Valid",
            f"{checkers} over {scope} found exactly what was expected: {_listing(names)}.{confirmation}",
        )
    return Banner("valid", "Valid", f"{checkers} found no broken promise in {scope}.")


_ENDS = {
    "failed": "The run failed",
    "interrupted": "The run was interrupted",
    "incomplete": "The run ended before it was done",
    "running": "The run is still going on",
}


def _ended(run: Stored) -> str:
    """A sentence on how a run that is not complete ended."""
    end = _ENDS.get(run.state, f"The run's state is {words.shorten(run.state, 80)}")
    reason = str(run.run.get("error") or "").rstrip(". ")
    return end + (f": {words.shorten(reason, 300)}." if reason else ".")


# --- the plan ---------------------------------------------------------------------------------------------------------


def table_specs(run: Stored) -> list[dict[str, Any]]:
    """The plan's tables as mappings; a list of mappings or a mapping by name."""
    tables = run.plan.get("tables")
    if isinstance(tables, Mapping):
        tables = [{"name": k, **(v if isinstance(v, Mapping) else {})} for k, v in tables.items()]
    return (
        [{str(k): v for k, v in t.items()} for t in tables if isinstance(t, Mapping)]
        if isinstance(tables, list)
        else []
    )


def _cell(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value is None or value in ({}, [], ()):
        return "–"
    if isinstance(value, Mapping):
        return words.arguments(value, 240)
    if isinstance(value, list | tuple) and all(isinstance(v, str | int | float) for v in value):
        return words.shorten(", ".join(map(str, value)), 240)
    return words.grouped(value) if isinstance(value, int | float) else words.compact(value, 240).strip('"')


def _table_of(items: list[dict[str, Any]]) -> dict[str, Any] | None:
    columns = list(dict.fromkeys(k for item in items for k in item))[:16]
    if not columns:
        return None
    rows = [[_cell(item.get(c)) for c in columns] for item in items[:MOST_TABLES]]
    return {"columns": [c.replace("_", " ") for c in columns], "rows": rows, "more": max(0, len(items) - MOST_TABLES)}


def _weights(mix: Mapping[Any, Any]) -> dict[str, Any]:
    return {str(kind): spec.get("weight", 1) if isinstance(spec, Mapping) else spec for kind, spec in mix.items()}


def _mix(run: Stored) -> list[dict[str, str]]:
    phases = run.plan.get("phases")
    mixes = [p.get("operations") for p in phases if isinstance(p, Mapping)] if isinstance(phases, list) else []
    mix = run.plan.get("operations") or next((m for m in mixes if m), None)
    if not isinstance(mix, Mapping):
        return []
    weights = {k: float(w) if isinstance(w, int | float) else 0.0 for k, w in _weights(mix).items()}
    total = sum(weights.values())
    out = []
    for kind, spec in list(mix.items())[:MOST_KINDS]:
        rest = {k: v for k, v in spec.items() if k != "weight" and v is not None} if isinstance(spec, Mapping) else {}
        if rest.get("keys") == "shared":
            del rest["keys"]
        out.append(
            {
                "kind": str(kind),
                "weight": f"{weights[str(kind)]:g}",
                "share": words.share(weights[str(kind)], total),
                "options": words.arguments(rest, 160),
            }
        )
    return out


def _phases(run: Stored) -> dict[str, Any] | None:
    phases = run.plan.get("phases")
    if not isinstance(phases, list):
        return None
    items: list[dict[str, Any]] = []
    first = None
    for p in phases:
        if isinstance(p, Mapping):
            item = {str(k): v for k, v in p.items() if v is not None}
            mix = item.get("operations")
            if isinstance(mix, Mapping):
                first = first or mix
                item["operations"] = "the mix below" if mix == first else words.arguments(_weights(mix), 240)
            items.append(item)
    return _table_of(items)


_SHOWN_ELSEWHERE = frozenset(
    (
        "workload",
        "name",
        "description",
        "tables",
        "operations",
        "phases",
        "versions",
        "command",
        "catalog",
        "seed",
        "writers",
    )
)


def _without_secrets(key: str, value: Any) -> Any:
    """What the plan says under ``key``; an older plan may have its catalog's secrets in it."""
    if key != "catalog_properties" or not isinstance(value, Mapping):
        return value
    return masked({str(k): str(v) for k, v in value.items()})


def _plan_rest(run: Stored) -> list[tuple[str, str]]:
    return [
        (k.replace("_", " "), _cell(_without_secrets(k, v)))
        for k, v in list(run.plan.items())[:40]
        if k not in _SHOWN_ELSEWHERE and v not in (None, {}, [])
    ]


def _timings(run: Stored) -> list[dict[str, Any]]:
    timings = run.run.get("timings")
    if not isinstance(timings, Mapping):
        return []
    found = {
        str(k): float(v)
        for k, v in timings.items()
        if isinstance(v, int | float) and not isinstance(v, bool) and 0 <= v < 1e9
    }
    whole = found.get("total") or sum(found.values()) or 1
    return [
        {
            "stage": k,
            "took": words.duration(v * 1000),
            # Sums over stages would be counted twice among the bars.
            "percent": None if k in ("total", "first operation") else round(min(100, 100 * v / whole), 1),
        }
        for k, v in list(found.items())[:40]
    ]


def _run_rest(run: Stored) -> list[tuple[str, str]]:
    out = []
    for key, value in list(run.run.items())[:40]:
        if key in ("started", "timings", "command", "operations", "pid", "pid_started"):
            continue
        if key.endswith("_bytes") and isinstance(value, int | float):
            out.append((key.removesuffix("_bytes").replace("_", " "), words.size(float(value))))
        elif key.endswith(("_seconds", "_s")) and isinstance(value, int | float):
            out.append((key.rsplit("_", 1)[0].replace("_", " "), words.duration(float(value) * 1000)))
        else:
            out.append((key.replace("_", " "), words.shorten(_cell(value), 600)))
    return out


# --- what happened ----------------------------------------------------------------------------------------------------


def _total(operations: list[Operation] | tuple[Operation, ...]) -> Tally:
    return measure.tally("all", operations)


def _attempts(found: list[measure.Attempts]) -> dict[str, Any] | None:
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


def _conflicts(run: Stored, by_table: list[measure.Attempts]) -> dict[str, Any]:
    writes = [o for o in run.operations if measure.is_write(o.f)]
    aborted: Counter[str] = Counter()
    otherwise: Counter[str] = Counter()
    for o in writes:
        if o.type == "fail":
            conflict = outcome.conflict([e for e in o.error or [] if len(e) == 2])
            if conflict is not None:
                aborted[conflict] += 1
            else:
                otherwise[error_chain.short_class(error_chain.telling(o.error)[0])] += 1
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
    done = sorted((o for o in run.operations if o.type == "ok"), key=lambda o: -(measure.latency_ms(o) or 0))
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
            rows = [(_name(k), *(_cell(v.get(c)) for c in columns)) for k, v in list(value.items())[:MOST_TABLES]]
            tables.append((_name(key), tuple(_name(c) for c in columns), tuple(rows)))
        elif inner and all(isinstance(v, str) for v in inner):
            counts = Counter(inner).most_common(8)
            figures.append((_name(key), ", ".join(f"{words.shorten(k, 60)} {words.grouped(n)}" for k, n in counts)))
        elif 0 < len(inner) <= 12:
            figures += [(f"{_name(key)}: {_name(k)}", _cell(v)) for k, v in value.items()]
        else:
            figures.append((_name(key), _cell(value)))
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


def _errors(groups: list[measure.ErrorGroup]) -> list[dict[str, Any]]:
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
    by_table = measure.attempts_by_table(run.logs)
    cards = anomalies.cards(run, origin)
    found = run.anomalies
    groups = measure.error_groups(run.operations)
    involved = {op for c in cards for op in (o.op for o in c.ops)}
    lanes = timeline.timeline(run.operations, run.writers, involved, commits)
    specs = table_specs(run)
    versions = run.plan.get("versions")
    names = []
    for name, count in stored.anomaly_names(found).items():
        first = next((c for c in cards if c.anomaly.name == name), None)
        documented = all(a.documented for a in found if a.name == name)
        names.append(
            {"name": name, "count": count, "href": f"#anomaly-{first.n}" if first else None, "documented": documented}
        )
    catalog = run.plan.get("catalog")
    seed = run.plan.get("seed", run.header.get("seed"))
    return {
        "run": run,
        "banner": banner(run),
        "symbols": SYMBOLS,
        "names": names,
        "description": str(run.plan.get("description") or ""),
        "catalog": _cell(catalog) if catalog else None,
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
        "versions": [(str(k), _cell(v)) for k, v in versions.items()] if isinstance(versions, Mapping) else [],
        "tables": _table_of(specs),
        "table_count": max(len(specs), len(run.logs)),
        "mix": _mix(run),
        "phases": _phases(run),
        "plan_rest": _plan_rest(run),
        "timings": _timings(run),
        "run_rest": _run_rest(run),
        "by_kind": sorted(measure.tallies(run.operations, lambda o: o.f), key=lambda t: t.name)[:MOST_KINDS],
        "by_table": sorted(measure.tallies(run.operations, lambda o: o.table or "(none)"), key=lambda t: t.name)[
            :MOST_TABLES
        ],
        "by_phase": measure.tallies(run.operations, lambda o: str(o.invoked.extra.get("phase") or "(none)"))[
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
        "attempts_kind": _attempts(measure.attempts_by_kind(run.logs, kinds)),
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


def environment() -> Environment:
    """Where templates are, and what they may call."""
    env = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    env.filters.update(
        n=words.grouped,
        ms=words.milliseconds,
        took=words.duration,
        moment=words.moment,
        cut=words.shorten,
        plural=words.plural,
    )
    env.globals.update(
        share=words.share,
        anchor=anomalies.anchor,
        anchor_id=anomalies.anchor_id,
        legend_mark=plots.legend_mark,
        sparkline=plots.sparkline,
    )
    return env


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
