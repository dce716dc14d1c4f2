"""The page of a comparison: one summary table, every number with its spread below it, and links to each run's page."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from markupsafe import Markup
from rich.table import Table

from checkers.costs.comparison import Comparison, Contender, Ran, Score, Spread, requests, summed
from checkers.costs.measures import BY_KEY, FIGURES, Figure
from checkers.evidence.runfolder import replace_file
from checkers.timeline.metrics import quantile
from checkers.verdict import Validity
from reports.compare import words as comparewords
from reports.drawing import svg, words
from reports.drawing.figures import shown
from reports.drawing.page import SYMBOLS, Banner
from reports.drawing.templates import TEMPLATES, environment

PAGE, JSON = "compare.html", "compare.json"

GLANCE = (
    "commits_per_s",
    "write_p50_ms",
    "write_p99_ms",
    "retried",
    "aborted",
    "unknown",
    "recovery_median_s",
    "catalog_requests",
)
"""Figures of the first table and of the terminal's."""

MARKS = {"better": "▲", "worse": "▼", "noise": "≈", "first": "", "too few": "", "missing": ""}
MEANINGS = {
    "better": "better than the first by more than noise",
    "worse": "worse than the first by more than noise",
    "noise": "no difference from the first beyond noise",
    "first": "the reference for the others",
    "too few": "too few runs to tell a difference from noise",
    "missing": "not measured, or not for the first",
}

_STATUS = {True: "valid", False: "invalid", "unknown": "unknown", None: "incomplete"}


@dataclass(frozen=True, slots=True)
class Shown:
    """A displayed number.

    Attributes:
        value: the median; ``–`` for none.
        range: from … to; empty with one run.
        against: as :data:`MEANINGS`.
        title: every value, and the meaning of the mark.
        sort: the sort key of the row.
    """

    value: str
    range: str
    against: str
    mark: str
    title: str
    sort: float | None


def _shown(f: Figure, cell: Score) -> Shown:
    if cell.spread is None:
        return Shown("–", "", "missing", "", f.missing, None)
    s = cell.spread
    several = len(s.values) > 1
    between = f"{shown(f, s.low)} – {shown(f, s.high)}" if several else ""
    values = ", ".join(shown(f, v) for v in s.values)
    title = f"{values}: {MEANINGS[cell.against]}"
    return Shown(shown(f, s.median), between, cell.against, MARKS[cell.against], title, s.median)


def verdict_class(valid: Validity | None) -> str:
    """The style sheet's class of a verdict; ``incomplete`` if there is none."""
    return _STATUS[valid]


def href_of(ran: Ran) -> str | None:
    """The link to a run's page; None if it has no folder."""
    return None if ran.folder is None else quote(f"{ran.folder}/report.html")


def banner(c: Comparison) -> Banner:
    """The headline and one sentence."""
    verdicts = {x: c.valid(x) for x in c.contenders}
    broken = [c.label(x) for x, v in verdicts.items() if v is False]
    ran = [x for x, v in verdicts.items() if v is not None]
    missing = len(c.contenders) * len(c.seeds) - sum(len(c.measured(x)) for x in c.contenders)
    seeds = words.plural(len(c.seeds), "seed")
    sentence = f"The same operations{_and_faults(c)} on {words.plural(len(ran), 'contender')}, {seeds}."
    if missing:
        sentence += f" {words.plural(missing, 'run')} could not be measured."
    if broken:
        count = f"{len(broken)} of {len(ran)}" if len(ran) > 1 else "the only one"
        return Banner("invalid", f"Anomalies on {count}: {', '.join(broken[:6])}", sentence)
    if not ran:
        return Banner("incomplete", "Nothing was measured", sentence)
    if c.verdict == "unknown":
        return Banner("unknown", "No anomaly was found, but not everything was decided", sentence)
    return Banner("valid", "Valid on every contender", sentence)


def _and_faults(c: Comparison) -> str:
    spec = c.header.get("workload")
    return " under the same faults" if isinstance(spec, Mapping) and spec.get("nemesis") else ""


# --- drawings ---------------------------------------------------------------------------------------------------------

ROW, LEFT, WIDTH, TOP = 34, 170, 900, 26


def latency_plot(c: Comparison, what: str) -> Markup | None:
    """Latency of ``write`` or ``read``: a bar for each contender from the median to p99, a tick at p95, logarithmic axis; None if no data.

    Medians over the seeds; a thin line goes from the lowest median to the highest p99 of all its runs.
    """
    rows: list[tuple[str, Spread, Spread, Spread]] = []
    for x in c.contenders:
        found = [c.spreads.get((f"{what}_p{q}_ms", x)) for q in (50, 95, 99)]
        p50, p95, p99 = found
        if p50 is not None and p95 is not None and p99 is not None:
            rows.append((c.label(x), p50, p95, p99))
    if not rows:
        return None
    low, high = min(r[1].low for r in rows) * 0.9, max(r[3].high for r in rows) * 1.1
    height = TOP + ROW * len(rows) + 40
    frame = svg.Frame(WIDTH, height, LEFT, 90, TOP, 40)
    x_of = svg.Scale(max(low, 0.1), max(high, 1), LEFT, frame.x1, log=True)
    labels = [(v, words.duration(v)) for v in svg.log_ticks(x_of.low, x_of.high)]
    parts: list[str] = [svg.axis_x(frame, x_of, labels, "from invocation to acknowledgement")]
    for n, (label, p50, p95, p99) in enumerate(rows):
        y = TOP + ROW * n + ROW / 2
        say = f"{label}: median {words.duration(p50.median)}, p95 {words.duration(p95.median)}, p99 {words.duration(p99.median)}"
        a, b, e = x_of(p50.median), x_of(p95.median), x_of(p99.median)
        parts += [
            svg.text(LEFT - 10, y + 4, words.shorten(label, 26), "lane", "end"),
            svg.line(x_of(p50.low), y, x_of(p99.high), y, "whisker"),
            svg.rect(a, y - 8, max(e - a, 2), 16, "range", svg.title(say), rx=2.0),
            svg.line(a, y - 11, a, y + 11, "median"),
            svg.line(b, y - 8, b, y + 8, "tick95"),
            svg.text(x_of(p99.high) + 6, y + 4, words.duration(p99.median), "tick"),
        ]
    kind = {"write": "writes", "read": "reads"}[what]
    return svg.drawing(
        WIDTH, height, f"Latency of acknowledged {kind}, from the median to p99, of each contender", parts
    )


# --- tables -----------------------------------------------------------------------------------------------------------


def _glance(c: Comparison) -> list[dict[str, Any]]:
    return [
        {
            "label": c.label(x),
            "summary": entry.summary if (entry := c.catalog(x)) is not None else "",
            "status": verdict_class(c.valid(x)),
            "anomalies": comparewords.anomalies(c, x),
            "reason": c.reason(x),
            "runs": [
                {"seed": r.seed, "status": verdict_class(r.measures.valid if r.measures else None), "href": href_of(r)}
                for r in c.of(x)
            ],
            "cells": [_shown(BY_KEY[key], c.cell(BY_KEY[key], x)) for key in GLANCE],
        }
        for x in c.contenders
    ]


def _numbers(c: Comparison, shown: Sequence[Contender]) -> list[dict[str, Any]]:
    groups: dict[str, list[dict[str, Any]]] = {}
    for f in FIGURES:
        if any((f.key, x) in c.spreads for x in shown):
            best = c.best(f)[0]
            cells = [(_shown(f, c.cell(f, x)), x == best and len(shown) > 1) for x in shown]
            groups.setdefault(f.group, []).append({"name": f.name, "better": f.better, "cells": cells})
    return [{"name": name, "rows": rows} for name, rows in groups.items()]


def _kinds(c: Comparison, shown: Sequence[Contender]) -> list[tuple[str, list[tuple[int, int, int] | None]]]:
    by = {x: summed(c.measured(x)) for x in shown}
    return [(k, [by[x].get(k) for x in shown]) for k in sorted({k for counts in by.values() for k in counts})]


def _requests(c: Comparison, shown: Sequence[Contender]) -> list[tuple[str, list[str]]]:
    by = {x: requests(c.measured(x)) for x in shown}
    names = sorted({k for counts in by.values() for k in counts})
    return [(k, [f"{by[x][k]:.2f}" if k in by[x] else "–" for x in shown]) for k in names]


def _faults(c: Comparison, shown: Sequence[Contender]) -> list[tuple[str, list[dict[str, Any] | None]]]:
    names = sorted({n for x in shown for m in c.measured(x) for n in m.faults})
    out: list[tuple[str, list[dict[str, Any] | None]]] = []
    for name in names:
        row: list[dict[str, Any] | None] = []
        for x in shown:
            found = [m.faults[name] for m in c.measured(x) if name in m.faults]
            back = [r for f in found for r in f.recoveries]
            middle, longest = quantile(back, 0.5), quantile(back, 1.0)
            row.append(
                {
                    "times": sum(f.times for f in found),
                    "hits": sum(f.hits for f in found),
                    "never": sum(f.never for f in found),
                    "recovery": ""
                    if middle is None or longest is None
                    else f"{words.duration(1000 * middle)}, at most {words.duration(1000 * longest)}",
                }
                if found
                else None
            )
        out.append((name, row))
    return out


def runs_view(c: Comparison) -> list[dict[str, Any]]:
    """A row for each run, in the order in which they ran."""
    return [
        {
            "started": r.started,
            "label": c.label(r.contender),
            "seed": r.seed,
            "status": verdict_class(r.measures.valid if r.measures else None),
            "href": href_of(r),
            "reason": r.reason,
            "command": r.command,
        }
        for r in c.runs
    ]


def versions_view(c: Comparison) -> list[tuple[str, str]]:
    """What ran → its versions."""
    found: dict[str, list[str]] = {}
    for r in c.runs:
        for k, v in r.versions.items():
            if v not in found.setdefault(k, []):
                found[k].append(v)
    return [(k, ", ".join(v)) for k, v in found.items()]


def view(c: Comparison, again: str | None = None) -> dict[str, Any]:
    """All values for the template, by name."""
    spec = c.header.get("workload")
    spec = spec if isinstance(spec, Mapping) else {}
    shown = [x for x in c.contenders if c.measured(x)]
    seconds = sorted(m.seconds for x in shown for m in c.measured(x))
    return {
        "c": c,
        "banner": banner(c),
        "symbols": SYMBOLS,
        "workload": str(spec.get("workload") or "workload"),
        "description": str(spec.get("description") or ""),
        "writers": len(w) if isinstance(w := spec.get("writers", 4), list) else w,
        "lasted": words.duration(1000 * seconds[len(seconds) // 2]) if seconds else None,
        "parallel": c.header.get("parallel", 1),
        "glance": _glance(c),
        "glance_names": [BY_KEY[key].short for key in GLANCE],
        "labels": [c.label(x) for x in shown],
        "expect": [*(comparewords.expectation(c, x) for x in c.contenders), *comparewords.of_engines(c)],
        "differences": comparewords.differences(c),
        "write_plot": latency_plot(c, "write"),
        "read_plot": latency_plot(c, "read"),
        "numbers": _numbers(c, shown),
        "kinds": _kinds(c, shown),
        "requests": _requests(c, shown),
        "faults": _faults(c, shown),
        "untested": comparewords.untested(c),
        "runs": runs_view(c),
        "versions": versions_view(c),
        "again": again,
    }


def render(c: Comparison, again: str | None = None) -> str:
    """The page. ``again``: the command that continues this comparison."""
    style = (TEMPLATES / "page.css").read_text(encoding="utf-8")
    script = (TEMPLATES / "sort.js").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    page = environment().get_template("compare.html")
    return words.printable(
        page.render(style=Markup(style), script=Markup(script), script_hash=f"sha256-{digest}", **view(c, again))
    )


def to_json(c: Comparison) -> dict[str, Any]:
    """The whole comparison as JSON values: verdicts, numbers with their spread, texts, runs."""
    return {
        "format": 1,
        "workload": c.header.get("workload"),
        "parallel": c.header.get("parallel", 1),
        "valid": c.verdict,
        "seeds": list(c.seeds),
        "contenders": [contender_json(c, x) for x in c.contenders],
        "differences": comparewords.differences(c),
        "untested": comparewords.untested(c),
        "runs": [r.to_json() for r in c.runs],
    }


def contender_json(c: Comparison, x: Contender) -> dict[str, Any]:
    """A contender as JSON values."""
    figures: dict[str, Any] = {}
    for f in FIGURES:
        cell = c.cell(f, x)
        s = cell.spread
        if s is not None:
            figures[f.key] = {
                "median": s.median,
                "low": s.low,
                "high": s.high,
                "values": list(s.values),
                "unit": f.unit,
                "against_first": cell.against,
            }
    return {
        "name": c.label(x),
        "catalog": x.catalog,
        "iceberg": x.iceberg,
        "engines": list(x.engines),
        **({"varied": dict(x.varied)} if x.varied else {}),
        "valid": c.valid(x),
        "anomalies": {n: {"count": k, "runs": r} for n, (k, r) in c.anomalies(x).items()},
        "kinds": {k: dict(zip(("ok", "fail", "info"), v, strict=True)) for k, v in summed(c.measured(x)).items()},
        "figures": figures,
        "requests_per_commit": requests(c.measured(x)),
        "reason": c.reason(x),
        "expect": comparewords.expectation(c, x),
    }


def write(c: Comparison, into: Path, again: str | None = None) -> Path:
    """Write page and JSON into the comparison's folder; return the page's path."""
    replace_file(into / JSON, dumped(c))
    path = into / PAGE
    replace_file(path, render(c, again))
    return path


def dumped(c: Comparison) -> str:
    """:func:`to_json` as text."""
    return json.dumps(to_json(c), indent=1, ensure_ascii=False) + "\n"


# --- the terminal -----------------------------------------------------------------------------------------------------


def table(c: Comparison) -> Table:
    """The table for the terminal: medians, with marks where a difference is more than noise."""
    out = Table(box=None, pad_edge=False)
    out.add_column("", min_width=10, overflow="fold")
    out.add_column("verdict", no_wrap=True)
    for key in GLANCE:
        out.add_column(BY_KEY[key].short, justify="right", no_wrap=True)
    for x in c.contenders:
        found = sum(count for count, _ in c.anomalies(x).values())
        broken = words.plural(found, "anomaly", "anomalies") if found else "not valid"
        verdict = {True: "✓ valid", False: f"✕ {broken}", "unknown": "? unknown", None: "– not run"}
        cells = [_shown(BY_KEY[key], c.cell(BY_KEY[key], x)) for key in GLANCE]
        marked = [s.value + (f" {s.mark}" if s.against in ("better", "worse") else "") for s in cells]
        out.add_row(c.label(x), verdict[c.valid(x)], *marked)
    return out


NARROWEST = 104
"""Columns that the table always shows, also without values."""

_UNIT = re.compile(r"(?<=\d) (?=(?:ms|s|min|h)\b|%)")


def lines(c: Comparison) -> list[str]:
    """The lines after the table: what to expect of each contender, what differs, what was not tested."""
    out = []
    expected = (comparewords.expectation(c, x) for x in c.contenders)
    for text in [*expected, *comparewords.of_engines(c), *comparewords.differences(c)]:
        out += ["", *wrapped(text, "  ")]
    out += ["", "  Not tested:"]
    for text in comparewords.untested(c):
        out += wrapped(f"* {text}", "    ")
    return [words.printable(line) for line in out]


def wrapped(text: str, indent: str) -> list[str]:
    """Wrapped lines that keep each number next to its unit."""
    kept = _UNIT.sub("\u00a0", text)
    return textwrap.wrap(kept, NARROWEST, initial_indent="  ", subsequent_indent=indent, break_on_hyphens=False)
