"""The page of a sweep: curves with their spread, one commit taken apart, retries, fairness, and links from each point to its runs."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from markupsafe import Markup
from rich.table import Table

from checkers.costs import curves
from checkers.costs.attempts import PHASES, SORTS, CommitsMeasured, merged
from checkers.costs.comparison import Comparison, Contender, Spread, varied_label
from checkers.costs.curves import Axis, Knee, Line, Predicted, Varied
from checkers.costs.measures import BY_KEY, FIGURES, Figure
from checkers.evidence.replace import replace
from checkers.evidence.runfolder import replace_file
from reports.compare import page as comparing
from reports.compare import words as comparewords
from reports.drawing import words
from reports.drawing.figures import shown, spread
from reports.drawing.page import SYMBOLS, Banner
from reports.drawing.templates import TEMPLATES, environment
from reports.sweep import drawings
from reports.sweep import words as sweepwords

PAGE, JSON = "sweep.html", "sweep.json"

PLOTTED = (
    "commits_per_s",
    "retried",
    "retries_mean",
    "retries_8",
    "write_p50_ms",
    "write_p95_ms",
    "retry_ms",
    "aborted",
    "fairness",
)
"""Figures whose curves the page shows at once; those of the others are folded."""

GLANCE = (
    "commits_per_s",
    "write_p50_ms",
    "write_p95_ms",
    "retried",
    "retries_mean",
    "retries_8",
    "aborted",
    "retry_ms",
    "fairness",
)
"""Figures of the terminal's table."""

BUCKETS = (
    ("0", 0, 0),
    ("1", 1, 1),
    ("2", 2, 2),
    ("3", 3, 3),
    ("4", 4, 4),
    ("5–7", 5, 7),
    ("8–15", 8, 15),
    ("16 …", 16, 1 << 30),
)
"""Columns of the distribution of retries: name, least, greatest."""

BEYOND = 4
"""Predicted points are drawn up to so many times the greatest measured value along x; the table has all."""

APART = 6
"""Points that are taken apart on the page; the JSON has all."""


def anchor(n: int) -> str:
    """Where the page has the n-th point."""
    return f"point-{n}"


# --- curves -----------------------------------------------------------------------------------------------------------


def _plots(c: Comparison, predicted: Sequence[Predicted]) -> list[tuple[Figure, Markup]]:
    rows = {x: anchor(n) for n, x in enumerate(c.contenders)}
    x = curves.axis(c.contenders)
    out = []
    for f in _ordered():
        drawn = _bars(c, f, rows) if x is None else _curve(c, f, x, predicted, rows)
        if drawn is not None:
            out.append((f, drawn))
    return out


def _ordered() -> list[Figure]:
    return [BY_KEY[k] for k in PLOTTED] + [f for f in FIGURES if f.key not in PLOTTED]


def _numbered(c: Comparison, x: Axis) -> dict[str, int]:
    """Label of a line → its number, the same in all drawings."""
    return {name: n for n, (name, _) in enumerate(curves.groups(c, x))}


def _curve(
    c: Comparison, f: Figure, x: Axis, predicted: Sequence[Predicted], rows: Mapping[Contender, str]
) -> Markup | None:
    lines = curves.lines(c, f.key, x)
    if not any(p.spread.high for line in lines for p in line.points):
        return None
    number = _numbered(c, x)
    placed = [(number[line.label], line) for line in lines]
    knees: dict[int, Knee] = {}
    if f.better == "more" and f.unit == "rate":
        knees = {n: k for n, line in placed if (k := curves.knee(line)) is not None}
    return drawings.curve(f, x, placed, knees, foretold(c, f.key, x, predicted), rows)


def foretold(c: Comparison, key: str, x: Axis, predicted: Sequence[Predicted]) -> list[drawings.Foretold]:
    """The predicted line of a figure for each measured one; points too far to the right are left out (:data:`BEYOND`)."""
    number: dict[Varied, int] = {}
    for n, (_, found) in enumerate(curves.groups(c, x)):
        number.setdefault(_rest(curves.place(found[0], c.contenders), x), n)
    most = BEYOND * max(x.values.values())
    by: dict[Varied, list[tuple[float, float]]] = {}
    for p in predicted:
        there = curves.numbers([text]) if (text := curves.value(p, x.parameter)) is not None else None
        rest = _rest(p.varied, x)
        if there is None or key not in p.figures or rest not in number:
            continue
        at = next(iter(there[0].values()))
        if at <= most:
            by.setdefault(rest, []).append((at, p.figures[key]))
    return [
        drawings.Foretold(number[rest], " ".join(f"{k}={v}" for k, v in rest), tuple(sorted(points)))
        for rest, points in by.items()
    ]


def _rest(varied: Varied, x: Axis) -> Varied:
    return tuple((k, v) for k, v in varied if k != x.parameter)


def _bars(c: Comparison, f: Figure, rows: Mapping[Contender, str]) -> Markup | None:
    """Groups by catalog, release and engines if points differ in them, else by the first of several parameters; else one group."""
    there = [(x, c.spreads[f.key, x]) for x in c.contenders if (f.key, x) in c.spreads]
    if not any(s.high for _, s in there):
        return None
    bare = {x: replace(x, varied=()) for x in c.contenders}
    params = [k for k, values in curves.parameters(c.contenders).items() if len(values) > 1]
    several = len(set(bare.values())) > 1
    by: dict[str, list[tuple[str, int, Spread, str | None]]] = {}
    colours: dict[str, int] = {}
    for x, s in there:
        group, within = "", params
        if several:
            group = curves.label(bare[x], list(bare.values()))
        elif len(params) > 1:
            group, within = f"{params[0]}={curves.value(x, params[0])}", params[1:]
        name = " ".join(f"{k}={curves.value(x, k)}" for k in within) or sweepwords.point(c, x)
        n = colours.setdefault(name, len(colours)) if group else 3
        by.setdefault(group, []).append((name, n, s, rows[x]))
    return drawings.bars(f, list(by.items()))


# --- tables -----------------------------------------------------------------------------------------------------------


def _points(c: Comparison) -> list[dict[str, Any]]:
    """A row for each point: what it is, its runs, all figures that any point has."""
    there = _figures(c)
    return [
        {
            "anchor": anchor(n),
            "label": sweepwords.point(c, x),
            "number": n,
            "status": comparing.verdict_class(c.valid(x)),
            "anomalies": comparewords.anomalies(c, x),
            "reason": c.reason(x),
            "runs": [
                {
                    "seed": r.seed,
                    "status": comparing.verdict_class(r.measures.valid if r.measures else None),
                    "href": comparing.href_of(r),
                }
                for r in c.of(x)
            ],
            "cells": [_cell(f, c.spreads.get((f.key, x))) for f in there],
        }
        for n, x in enumerate(c.contenders)
    ]


def _figures(c: Comparison) -> list[Figure]:
    return [f for f in _ordered() if any((f.key, x) in c.spreads for x in c.contenders)]


def _cell(f: Figure, s: Spread | None) -> dict[str, Any]:
    if s is None:
        return {"value": "–", "range": "", "title": f.missing, "sort": None}
    several = len(s.values) > 1
    return {
        "value": shown(f, s.median),
        "range": f"{shown(f, s.low)} – {shown(f, s.high)}" if several else "",
        "title": ", ".join(shown(f, v) for v in s.values),
        "sort": s.median,
    }


def committed(c: Comparison) -> dict[Contender, CommitsMeasured]:
    """Point → what its runs together measured of their commits; points without it are left out."""
    return {x: merged(found) for x in c.contenders if (found := curves.committing(c, x))}


def _retries(c: Comparison, by: Mapping[Contender, CommitsMeasured]) -> dict[str, Any]:
    """The distribution of retries: columns up to the last one that any point fills."""
    filled = max(
        (n for m in by.values() for n, (_, low, _) in enumerate(BUCKETS) if any(k >= low for k in m.retries)), default=0
    )
    columns = BUCKETS[: filled + 1]
    rows = []
    for x, m in by.items():
        counts = [sum(n for k, n in m.retries.items() if low <= k <= high) for _, low, high in columns]
        rows.append(
            {
                "label": sweepwords.point(c, x),
                "cells": [(n, round(100 * n / m.commits, 1) if m.commits else 0.0) for n in counts],
                "commits": m.commits,
                "retried": words.share(m.retried or 0.0, 1) if m.commits else "–",
                "mean": "–" if m.retries_mean is None else f"{m.retries_mean:.2f}",
                "of_retried": "–" if m.retries_of_retried is None else f"{m.retries_of_retried:.2f}",
                "many": "–" if m.many is None else words.share(m.many, 1),
                "most": max(m.retries, default=0),
                "success": "–" if m.success is None else words.share(m.success, 1),
            }
        )
    return {"columns": [name for name, _, _ in columns], "rows": rows}


def _phases(c: Comparison, by: Mapping[Contender, CommitsMeasured]) -> list[dict[str, Any]]:
    """A row for each sort of attempt of the points that are taken apart."""
    out = []
    for x in taken_apart(c, by):
        m = by[x]
        for sort in SORTS[2:]:
            whole = m.phase(sort, "whole")
            if whole is None:
                continue
            cells = []
            for name in ("data", "wait", *PHASES, "whole"):
                q = m.phase(sort, name)
                title = "" if q is None else "deciles: " + ", ".join(words.duration(v) for v in q.deciles)
                cells.append(("–", "", "") if q is None else (words.duration(q.median), words.duration(q.p95), title))
            read, written = m.phase(sort, "read_bytes"), m.phase(sort, "written_bytes")
            out.append(
                {
                    "label": sweepwords.point(c, x),
                    "sort": sort.replace(" ", ", parent "),
                    "count": whole.count,
                    "cells": cells,
                    "read": "–" if read is None else words.size(read.median),
                    "written": "–" if written is None else words.size(written.median),
                }
            )
    return out


def taken_apart(c: Comparison, by: Mapping[Contender, CommitsMeasured]) -> list[Contender]:
    """The points to take apart: both ends of the lines, at most :data:`APART`; in a sweep of names the first ones."""
    x = curves.axis(c.contenders)
    there = [one for one in c.contenders if one in by and by[one].taken]
    if x is None or len(there) <= APART:
        return there[:APART]
    lines = [[one for one in found if one in there] for _, found in curves.groups(c, x)]
    ends = [e for found in lines if found for e in (found[-1], found[0])]
    chosen = list(dict.fromkeys([*(found[-1] for found in lines if found), *ends]))[:APART]
    return [one for one in there if one in chosen]


def _fairness(c: Comparison, by: Mapping[Contender, CommitsMeasured]) -> list[dict[str, Any]]:
    return [
        {
            "label": sweepwords.point(c, x),
            "jain": spread(_fair(), s) if (s := c.spreads.get(("fairness", x))) is not None else "–",
            "fewest": min(m.writers.values()),
            "most": max(m.writers.values()),
            "busy": words.share(m.busy, 1),
            "bars": drawings.shares(m),
        }
        for x, m in by.items()
        if m.writers
    ]


def _fair() -> Figure:
    return BY_KEY["fairness"]


def _beaten(c: Comparison, by: Mapping[Contender, CommitsMeasured]) -> list[dict[str, Any]]:
    return [
        {
            "label": sweepwords.point(c, x),
            "pairs": [asdict(b) for b in m.beaten[:4]],
            "more": max(0, len(m.beaten) - 4),
            "unexplained": m.unexplained,
            "attempts": m.wasted.attempts,
            "attempts_s": words.duration(1000 * m.wasted.attempts_s),
            "waited_s": words.duration(1000 * m.wasted.waited_s),
            "aborted": m.wasted.aborted,
            "aborted_s": words.duration(1000 * m.wasted.aborted_s),
            "bytes": "–" if m.wasted.written_bytes is None else words.size(m.wasted.written_bytes),
        }
        for x, m in by.items()
        if m.beaten or m.unexplained or m.wasted.attempts or m.wasted.aborted
    ]


def _whom(c: Comparison, by: Mapping[Contender, CommitsMeasured]) -> tuple[str, Markup] | None:
    """The matrix of writers of the point with the most refusals."""
    most = max(
        by.items(), key=lambda xm: sum(n for w in xm[1].beaten_writers.values() for n in w.values()), default=None
    )
    drawn = drawings.whom(most[1]) if most is not None else None
    return None if most is None or drawn is None else (sweepwords.point(c, most[0]), drawn)


def _foretold(c: Comparison, predicted: Sequence[Predicted]) -> dict[str, Any]:
    """A row for each predicted point, a column for each figure that any of them has."""
    by: dict[Varied, Contender] = {}
    for x in c.contenders:
        by.setdefault(curves.place(x, c.contenders), x)
    figures = [f for f in _ordered() if any(f.key in p.figures for p in predicted)]
    rows = []
    for p in predicted:
        cells = []
        for f in figures:
            v, e = p.figures.get(f.key), p.error.get(f.key)
            s = c.spreads.get((f.key, by[p.varied])) if p.varied in by else None
            cells.append(
                {
                    "predicted": "–" if v is None else shown(f, v),
                    "measured": "" if s is None else shown(f, s.median),
                    "error": "" if e is None else f"{100 * e:+.1f} %",
                    "title": "" if s is None else spread(f, s),
                }
            )
        rows.append({"label": varied_label(p.varied), "measured": p.measured, "reason": p.reason, "cells": cells})
    return {"names": [f.title for f in figures], "rows": rows}


# --- the page ---------------------------------------------------------------------------------------------------------


def banner(c: Comparison) -> Banner:
    """The headline and one sentence."""
    verdicts = {x: c.valid(x) for x in c.contenders}
    ran = [x for x, v in verdicts.items() if v is not None]
    broken = [sweepwords.point(c, x) for x, v in verdicts.items() if v is False]
    missing = len(c.contenders) * len(c.seeds) - sum(len(c.measured(x)) for x in c.contenders)
    params = " × ".join(f"{len(values)} of {name}" for name, values in curves.parameters(c.contenders).items())
    sentence = f"{words.plural(len(ran), 'point')} ({params}), {words.plural(len(c.seeds), 'seed')} each."
    if missing:
        sentence += f" {words.plural(missing, 'run')} could not be measured."
    if broken:
        more = f" and {len(broken) - 4} more" if len(broken) > 4 else ""
        return Banner("invalid", f"Anomalies at {len(broken)} of {len(ran)}: {', '.join(broken[:4])}{more}", sentence)
    if not ran:
        return Banner("incomplete", "Nothing was measured", sentence)
    if c.verdict == "unknown":
        return Banner("unknown", "No anomaly was found, but not everything was decided", sentence)
    return Banner("valid", "Valid at every point", sentence)


def view(c: Comparison, goes_on: str | None = None, predicted: Sequence[Predicted] = ()) -> dict[str, Any]:
    """All values for the template, by name."""
    spec = c.header.get("workload")
    spec = spec if isinstance(spec, Mapping) else {}
    x = curves.axis(c.contenders)
    by = committed(c)
    plots = _plots(c, predicted)
    legend = [] if x is None else [(drawings.key(n), name) for name, n in _numbered(c, x).items() if name]
    return {
        "c": c,
        "banner": banner(c),
        "symbols": SYMBOLS,
        "workload": str(spec.get("workload") or "workload"),
        "description": str(spec.get("description") or ""),
        "parallel": c.header.get("parallel", 1),
        "parameters": [(name, ", ".join(values)) for name, values in curves.parameters(c.contenders).items()],
        "findings": sweepwords.findings(c, predicted),
        "along": None if x is None else x.parameter,
        "legend": legend,
        "has_predicted": bool(predicted),
        "plots": [(f.title, f.better, p) for f, p in plots if f.key in PLOTTED],
        "more_plots": [(f.title, f.better, p) for f, p in plots if f.key not in PLOTTED],
        "apart": drawings.apart([(sweepwords.point(c, one), by[one]) for one in taken_apart(c, by)]),
        "parts": drawings.PARTS,
        "phases": _phases(c, by),
        "retries": _retries(c, by),
        "fairness": _fairness(c, by),
        "beaten": _beaten(c, by),
        "whom": _whom(c, by),
        "names": [(f.title, f.better) for f in _figures(c)],
        "points": _points(c),
        "foretold": _foretold(c, predicted),
        "untested": sweepwords.untested(c),
        "runs": comparing.runs_view(c),
        "versions": comparing.versions_view(c),
        "again": goes_on,
    }


def render(c: Comparison, goes_on: str | None = None, predicted: Sequence[Predicted] = ()) -> str:
    """The page. ``goes_on``: the command that continues this sweep."""
    style = (TEMPLATES / "page.css").read_text(encoding="utf-8")
    script = (TEMPLATES / "sort.js").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    page = environment().get_template("sweep.html")
    values = view(c, goes_on, predicted)
    return words.printable(
        page.render(style=Markup(style), script=Markup(script), script_hash=f"sha256-{digest}", **values)
    )


# --- JSON -------------------------------------------------------------------------------------------------------------


def to_json(c: Comparison, predicted: Sequence[Predicted] = ()) -> dict[str, Any]:
    """The whole sweep as JSON values: points, lines with their knees, texts, predictions, runs."""
    x = curves.axis(c.contenders)
    return {
        "format": 1,
        "workload": c.header.get("workload"),
        "parallel": c.header.get("parallel", 1),
        "valid": c.verdict,
        "seeds": list(c.seeds),
        "parameters": {name: list(values) for name, values in curves.parameters(c.contenders).items()},
        "axis": None if x is None else {"parameter": x.parameter, "unit": x.unit, "values": dict(x.values)},
        "points": [_point_json(c, one) for one in c.contenders],
        "lines": []
        if x is None
        else [_line_json(c, f, x, line) for f in _figures(c) for line in curves.lines(c, f.key, x)],
        "predicted": [
            {
                "varied": dict(p.varied),
                "figures": dict(p.figures),
                "measured": p.measured,
                "error": dict(p.error),
                "reason": p.reason,
            }
            for p in predicted
        ],
        "findings": sweepwords.findings(c, predicted),
        "untested": sweepwords.untested(c),
        "runs": [r.to_json() for r in c.runs],
    }


def _point_json(c: Comparison, one: Contender) -> dict[str, Any]:
    found = curves.committing(c, one)
    what = curves.ceiling(found)
    return {
        **comparing.contender_json(c, one),
        "name": sweepwords.point(c, one),
        "commits": merged(found).to_json() if found else None,
        "ceiling": None if what is None else asdict(what),
        "silent": list(curves.silent(found)),
    }


def _line_json(c: Comparison, f: Figure, x: Axis, line: Line) -> dict[str, Any]:
    k = curves.knee(line) if f.better == "more" and f.unit == "rate" else None
    return {
        "figure": f.key,
        "line": line.label,
        "x": [p.x for p in line.points],
        "median": [p.spread.median for p in line.points],
        "low": [p.spread.low for p in line.points],
        "high": [p.spread.high for p in line.points],
        "knee": None
        if k is None
        else {
            x.parameter: k.at.text,
            "shape": k.shape,
            "value": k.at.spread.median,
            "change_to_end": round(k.change, 4),
            "falls": k.falls,
            "certain": k.certain,
        },
    }


def write(done: Comparison, into: Path, goes_on: str | None = None, predicted: Sequence[Predicted] = ()) -> Path:
    """Write page and JSON into the sweep's folder; return the page's path. ``goes_on``: the command that continues the sweep."""
    replace_file(into / JSON, dumped(done, predicted))
    path = into / PAGE
    replace_file(path, render(done, goes_on, predicted))
    return path


def dumped(c: Comparison, predicted: Sequence[Predicted] = ()) -> str:
    """:func:`to_json` as text, on one line: it has every decile of every run."""
    return json.dumps(to_json(c, predicted), ensure_ascii=False) + "\n"


# --- the terminal -----------------------------------------------------------------------------------------------------


def table(c: Comparison) -> Table:
    """The table for the terminal: a row for each point, medians."""
    out = Table(box=None, pad_edge=False)
    params = [name for name, values in curves.parameters(c.contenders).items() if len(values) > 1]
    bare = {x: replace(x, varied=()) for x in c.contenders}
    rest = {x: curves.label(bare[x], list(bare.values())) for x in c.contenders}
    if any(rest.values()):
        out.add_column("", overflow="fold")
    for name in params:
        out.add_column(words.printable(name), justify="right", overflow="fold")
    out.add_column("verdict", no_wrap=True)
    for k in GLANCE:
        out.add_column(BY_KEY[k].short, justify="right", no_wrap=True)
    for x in c.contenders:
        found = sum(count for count, _ in c.anomalies(x).values())
        broken = words.plural(found, "anomaly", "anomalies") if found else "not valid"
        verdict = {True: "✓ valid", False: f"✕ {broken}", "unknown": "? unknown", None: "– not run"}
        cells = [_cell(BY_KEY[k], c.spreads.get((k, x)))["value"] for k in GLANCE]
        values = [words.printable(dict(x.varied).get(name, "")) for name in params]
        out.add_row(*([rest[x]] if any(rest.values()) else []), *values, verdict[c.valid(x)], *cells)
    return out


def lines(c: Comparison, predicted: Sequence[Predicted] = ()) -> list[str]:
    """The lines after the table: what the sweep shows, and what it does not."""
    out = []
    for text in sweepwords.findings(c, predicted):
        out += ["", *comparing.wrapped(text, "  ")]
    out += ["", "  Not tested:"]
    for text in sweepwords.untested(c):
        out += comparing.wrapped(f"* {text}", "    ")
    return [words.printable(line) for line in out]
