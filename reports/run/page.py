"""The run's page: one HTML file with the verdict on its first screen and the evidence below.

It is self-contained: style, script and drawings are inline, and a Content-Security-Policy forbids the rest.
All external text (error messages, operation ids, file names) is escaped by Jinja's autoescape; drawings are
Markup made of escaped parts. Its size is bounded: plots are sampled, tables and texts are cut, and each cut is marked
in place.
"""

from __future__ import annotations

import base64
import hashlib
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any
from urllib.parse import quote

from markupsafe import Markup

from checkers.costs import figures
from checkers.evidence.runfolder import replace_file
from reports.drawing import words
from reports.drawing.page import SYMBOLS
from reports.drawing.templates import TEMPLATES, environment
from reports.run import anomalies, interleavings, plots, stored, stories_view, timeline
from reports.run.bands import CLASSES, clock_origin_ms, faults, nemesis, operation_class, phases, table_figures
from reports.run.banner import banner
from reports.run.checks_view import checker_view
from reports.run.conflicts_view import MOST_ERRORS, attempts_view, conflicts_view, errors_view
from reports.run.plan_view import (
    MOST_KINDS,
    MOST_TABLES,
    cell,
    engines_of,
    mix_of,
    phases_of,
    plan_rest,
    run_rest,
    table_of,
    table_specs,
    timings_of,
)
from reports.run.stored import Stored

MOST_FILES = 60


def _slowest(run: Stored, most: int = 8) -> list[anomalies.OpRow]:
    done = sorted((o for o in run.operations if o.type == "ok"), key=lambda o: -(figures.latency_ms(o) or 0))
    commits = run.commits_by_op()
    return [anomalies.op_row(o, commits.get(o.op, ())) for o in done[:most]]


def _files(run: Stored) -> dict[str, Any]:
    shown = [{"path": f.path, "href": quote(f.path), "size": words.size(f.size)} for f in run.files[:MOST_FILES]]
    tops = [f for f in shown if "/" not in str(f["path"])]
    return {
        "top": tops,
        "rest": [f for f in shown if "/" in str(f["path"])],
        "more": max(0, len(run.files) - MOST_FILES),
    }


def _mark(run: Stored, name: str) -> str:
    """What the workload says of all anomalies of a name: ``expected``, ``allowed``; empty unless it says the same of each."""
    marks = {run.mark(a) for a in run.anomalies if a.name == name}
    return marks.pop() if len(marks) == 1 else ""


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
    origin = clock_origin_ms(run.operations, commits)
    bands, marks = nemesis(run.events, end_s)
    marks = sorted([*phases(run.operations), *marks], key=lambda m: m.at)
    kinds = {o.op: o.f for o in run.operations}
    by_table = figures.attempts_by_table(run.logs)
    cards = anomalies.cards(run, origin)
    found = run.anomalies
    groups = figures.error_groups(run.operations)
    involved = {op for c in cards for op in (o.op for o in c.ops)}
    lanes = timeline.timeline(run.operations, run.writers, involved, commits)
    specs = table_specs(run)
    names = []
    for name, count in stored.anomaly_names(found).items():
        first = next((c for c in cards if c.anomaly.name == name), None)
        documented = all(a.documented for a in found if a.name == name)
        names.append(
            {
                "name": name,
                "count": count,
                "href": f"#anomaly-{first.n}" if first else None,
                "documented": documented,
                "mark": _mark(run, name),
            }
        )
    seed = run.plan.seed if run.plan.seed is not None else run.header.get("seed")
    return {
        "run": run,
        "banner": banner(run),
        "symbols": SYMBOLS,
        "names": names,
        "accepted": run.accepted.swallowed(found),
        "description": run.plan.description,
        "catalog": run.plan.catalog.name if run.plan.catalog else None,
        "seed": None if seed is None else str(seed),
        "started": words.when(run.started),
        "lasted": words.duration(end_s * 1000) if run.events else None,
        "total": figures.tally("all", run.operations),
        "commits": sum(len(log.commits) for log in run.logs.values()),
        "files": _files(run),
        "cards": cards,
        "shapes": stories_view.shapes(run, cards),
        "who": stories_view.who(run),
        "scenario": stories_view.scenario_facts(run),
        "found": len(found),
        "not_shown": stored.anomaly_names(a for a in found if not any(c.anomaly is a for c in cards)),
        "shown_ops": {b.op for b in lanes.boxes} if lanes else set(),
        "versions": [(k, cell(v)) for k, v in run.plan.versions.items()],
        "tables": table_of(specs),
        "table_count": max(len(specs), len(run.logs)),
        "mix": mix_of(run),
        "phases": phases_of(run),
        "engines": engines_of(run),
        "plan_rest": plan_rest(run),
        "timings": timings_of(run),
        "run_rest": run_rest(run),
        "by_kind": sorted(figures.tallies(run.operations, lambda o: o.f), key=lambda t: t.name)[:MOST_KINDS],
        "by_table": sorted(figures.tallies(run.operations, lambda o: o.table or "(none)"), key=lambda t: t.name)[
            :MOST_TABLES
        ],
        "by_phase": figures.tallies(run.operations, lambda o: str(o.invoked.extra.get("phase") or "(none)"))[
            :MOST_KINDS
        ],
        "errors": errors_view(groups),
        "errors_more": max(0, len(groups) - MOST_ERRORS),
        "bands": bands,
        "faults": faults(run.events),
        "marks": marks,
        "latency": plots.latency_over_time(run.operations, bands, marks, end_s),
        "throughput": plots.throughput(run.operations, bands, marks, end_s),
        "quantiles": plots.quantiles_over_time(run.operations, bands, marks, end_s),
        "classes": [c for c in CLASSES if any(operation_class(f) == c for f in set(kinds.values()))],
        "mark_shapes": plots.SHAPES,
        "slowest": _slowest(run),
        "attempts_table": attempts_view(by_table),
        "attempts_kind": attempts_view(figures.attempts_by_kind(run.logs, kinds)),
        "conflicts": conflicts_view(run, by_table),
        "interleavings": (interleavings.line(run), interleavings.href(run)),
        "commit_plot": plots.commits_over_time(run.logs, origin, bands, marks, end_s),
        "commit_shapes": plots.COMMIT_SHAPES,
        "commit_states": dict(
            zip(plots.COMMIT_STATES, ("first attempt", "retried", "not on main at the end"), strict=True)
        ),
        "table_figures": [table_figures(log) for log in list(run.logs.values())[:MOST_TABLES]],
        "checkers": [checker_view(v, run) for v in run.verdicts],
        "lanes": lanes,
        "lane_row": timeline.ROW,
        "version": _version(),
    }


def render(run_folder: Path | Stored) -> str:
    """The page of the run in ``run_folder`` (or of one that was loaded by :func:`reports.run.stored.load`).

    Raises:
        FileNotFoundError: there is no such folder. The page reports anything missing or broken in it.
    """
    run = stored.of(run_folder)
    style = (TEMPLATES / "page.css").read_text(encoding="utf-8")
    script = (TEMPLATES / "page.js").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    page = (
        environment(
            anchor=anomalies.anchor,
            anchor_id=anomalies.anchor_id,
            legend_mark=plots.legend_mark,
            sparkline=plots.sparkline,
        )
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
