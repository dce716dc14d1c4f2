"""The page of a night: cells and their verdicts, runs in time, memory and disk, failures with the command that repeats each, the trend."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any
from urllib.parse import quote

from markupsafe import Markup
from rich.table import Table

from checkers.costs.comparison import Spread
from checkers.costs.measures import BY_KEY
from checkers.evidence.runfolder import replace_file
from checkers.nights import trend
from checkers.nights.finds import Find
from checkers.nights.night import ORDER, Night
from checkers.nights.record import Line
from checkers.nights.trend import Past, Point
from reports.drawing import words
from reports.drawing.figures import shown
from reports.drawing.page import SYMBOLS as BANNERS
from reports.drawing.templates import TEMPLATES, environment
from reports.shrunk import PAGE as SHRUNK
from reports.soak import drawings
from reports.soak import words as soakwords
from reports.soak.words import CLASSES, SYMBOLS
from workloads.file.sizes import written
from workloads.file.suite import Cell

PAGE, JSON = "soak.html", "soak.json"
MOST_FAILURES = 500
"""Failures that the page shows; soak.json has all."""
MARKS = {"better": "▲", "regression": "▼", "noise": "≈", "too few": "", "no number": "✕"}


def _figure(key: str, s: Spread | None) -> str:
    return "–" if s is None else shown(BY_KEY[key], s.median)


def href_of(night: Night, line: Line) -> str | None:
    """The link to a run's page; None if its folder, or its page, is gone."""
    if line.folder is None or not (night.folder / line.folder / "report.html").exists():
        return None
    return quote(f"{line.folder}/report.html")


def _cells(night: Night) -> list[dict[str, Any]]:
    out = []
    for cell in night.cells:
        counts = night.counts(cell)
        names: dict[str, int] = {}
        for line in night.by_cell[cell]:
            for name, n in line.anomalies.items():
                names[name] = names.get(name, 0) + n
        p = trend.point(night.lines, cell)
        out.append(
            {
                "cell": cell,
                "showed": night.worst(cell),
                "status": CLASSES[night.worst(cell)],
                "counts": [(s, counts[s]) for s in ORDER if counts[s]],
                "runs": sum(x.counts for x in night.by_cell[cell]),
                "anomalies": soakwords.tally(names),
                "operations": sum(x.operations for x in night.by_cell[cell]),
                "throughput": _figure("commits_per_s", None if p is None else p.throughput),
                "retries": _figure("retried", None if p is None else p.retries),
            }
        )
    return out


def _failures(night: Night) -> list[dict[str, Any]]:
    shown = [*night.failures, *(x for x in night.lines if x.ended in ("error", "unknown"))]
    return [
        {
            "line": x,
            "showed": night.showed(x),
            "status": CLASSES[night.showed(x)],
            "what": soakwords.findings(night, x) or x.reason or "no reason given",
            "href": href_of(night, x),
            "finds": [_find(night, f) for f in soakwords.finds_of(night, x)],
            "kept": x.folder if x.folder is not None and (night.folder / x.folder).is_dir() else None,
        }
        for x in shown[:MOST_FAILURES]
    ]


def _find(night: Night, f: Find) -> dict[str, Any]:
    page = f"{f.folder}/{SHRUNK}"
    there = f.folder is not None and (night.folder / page).exists()
    return {"text": soakwords.find_of(f), "href": quote(page) if there else None}


def _knowns(night: Night) -> list[dict[str, Any]]:
    out = []
    for known in night.suite.known:
        mine = [x for x in night.runs if known.of(x.cell)]
        seen = len(night.runs_with(known))
        gone = any(m.known is known for m in night.missing)
        where = [(d, " or ".join(v)) for d in ("workload", "catalog", "faults", "iceberg") if (v := getattr(known, d))]
        out.append({"known": known, "runs": len(mine), "seen": seen, "gone": gone, "where": where})
    return out


def _trend(night: Night, past: Sequence[Past]) -> list[dict[str, Any]]:
    """A row for each cell that had a turn in this night, and a run that was judged in it or in an earlier one: its points."""
    rows = []
    for cell in night.cells:
        now = trend.point(night.lines, cell)
        before = [trend.point(p.lines, cell) for p in past]
        there = [b for b in before if b is not None]
        if now is None and not (there and night.by_cell[cell]):
            continue
        speed, again = (None, None) if now is None else (now.throughput, now.retries)
        faster = trend.against(speed, (b.throughput for b in there), BY_KEY["commits_per_s"])
        fewer = trend.against(again, (b.retries for b in there), BY_KEY["retried"])
        rows.append(
            {
                "cell": cell,
                "points": [_shown(p) for p in (*before, now)],
                "throughput": MARKS[faster],
                "retries": MARKS[fewer],
            }
        )
    return rows


def _shown(p: Point | None) -> dict[str, Any] | None:
    if p is None:
        return None
    return {
        "runs": p.runs,
        "failed": p.failed,
        "anomalies": soakwords.tally(p.anomalies),
        "throughput": _figure("commits_per_s", p.throughput),
        "retries": _figure("retried", p.retries),
    }


def view(night: Night, again: str, past: Sequence[Past], unread: Sequence[str]) -> dict[str, Any]:
    """All values for the template, by name. ``past``: earlier nights, oldest first; ``unread``: why others cannot be read."""
    cells = _cells(night)
    return {
        "night": night,
        "banner": soakwords.banner(night),
        "banners": BANNERS,
        "symbols": SYMBOLS,
        "again": again,
        "notes": soakwords.notes(night),
        "cells": cells,
        "timeline": drawings.timeline(night, lambda line: href_of(night, line)),
        "memory": drawings.memory(night),
        "disk": drawings.disk(night),
        "failures": _failures(night),
        "knowns": _knowns(night),
        "nights": [*((p.name, p.started[:10]) for p in past), ("this night", "this night")],
        "trend": _trend(night, past),
        "unread": unread,
        "keep": written(night.suite.keep),
        "peak": words.size(peak) if (peak := max((x.peak_memory for x in night.lines), default=0)) else "–",
        "took": words.duration(1000 * night.used),
        "operations": sum(x.operations for x in night.runs),
    }


def render(night: Night, again: str, past: Sequence[Past] = (), unread: Sequence[str] = ()) -> str:
    """The page. ``again``: the command that continues the night."""
    style = (TEMPLATES / "page.css").read_text(encoding="utf-8")
    script = (TEMPLATES / "sort.js").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    page = environment().get_template("soak.html")
    values = view(night, again, past, unread)
    return words.printable(
        page.render(style=Markup(style), script=Markup(script), script_hash=f"sha256-{digest}", **values)
    )


def to_json(night: Night) -> dict[str, Any]:
    """The night as JSON values."""
    return {
        "format": 1,
        "suite": night.suite.suite,
        "seed": night.seed,
        "valid": night.verdict,
        "exit": night.code,
        "seconds": round(night.used, 1),
        "stopped": night.stopped,
        "cells": [{**_cell_json(night, c), "name": c.name} for c in night.cells],
        "left_out": {c.name: why for c, why in night.left_out.items()},
        "missing": [
            {"anomaly": [e.model_dump() for e in m.known.anomaly], "link": m.known.link, "runs": m.runs}
            for m in night.missing
        ],
        "runs": [{**asdict(x), "showed": night.showed(x)} for x in night.lines],
        "finds": [asdict(f) for f in night.finds],
    }


def _cell_json(night: Night, cell: Cell) -> dict[str, Any]:
    return {**cell.to_json(), "showed": night.worst(cell), "runs": dict(night.counts(cell))}


def write(night: Night, again: str) -> Path:
    """Write page and JSON into the night's folder; return the page's path."""
    replace_file(night.folder / JSON, json.dumps(to_json(night), indent=1, ensure_ascii=False) + "\n")
    path = night.folder / PAGE
    replace_file(path, render(night, again, *trend.earlier(night.folder)))
    return path


def table(night: Night) -> Table:
    """The cells for the terminal, without those that had no run."""
    out = Table(box=None, pad_edge=False)
    for name in ("cell", "verdict", "runs", "commits/s", "retried", "anomalies"):
        right = name in ("runs", "commits/s", "retried")
        out.add_column(name, justify="right" if right else "left", no_wrap=name != "anomalies")
    for c in _cells(night):
        if c["showed"] == "not run":
            continue
        counts = " ".join(f"{SYMBOLS[s]}{n}" for s, n in c["counts"])
        verdict = f"{SYMBOLS[c['showed']]} {c['showed']}"
        out.add_row(c["cell"].name, verdict, counts or "–", c["throughput"], c["retries"], c["anomalies"] or "")
    return out
