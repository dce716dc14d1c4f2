"""The page of a night: cells and their verdicts, runs in time, memory and disk, failures with the command that repeats each, the trend."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any
from urllib.parse import quote

from checkers.costs.comparison import Spread
from checkers.costs.measures import BY_KEY
from checkers.nights import trend
from checkers.nights.finds import Find
from checkers.nights.night import ORDER, Night
from checkers.nights.record import Line
from checkers.nights.trend import Past, Point
from reports.drawing import words
from reports.drawing.figures import shown
from reports.drawing.page import (
    Block,
    JUnitCase,
    JUnitSuite,
    Legend,
    Page,
    Plot,
    Section,
    Table,
    TableCell,
    TableColumn,
    TableRow,
    Text,
    badge,
    joined,
    link,
    tag,
)
from reports.shrunk import PAGE as SHRUNK
from reports.soak import drawings
from reports.soak import words as soakwords
from reports.soak.words import CLASSES, SYMBOLS
from workloads.file.sizes import written
from workloads.file.suite import DIMENSIONS, Cell, Known

FILE = "soak"
MOST_FAILURES = 500
"""Failures that the page shows; soak.json has all."""
MOST_TOLD = 20
"""Runs that one case for a CI server names."""
MARKS = {"better": "▲", "regression": "▼", "noise": "≈", "too few": "", "no number": "✕"}


def _figure(key: str, s: Spread | None) -> str:
    return shown(BY_KEY[key], None if s is None else s.median)


def href_of(night: Night, line: Line) -> str | None:
    """The link to a run's page; None if its folder, or its page, is gone."""
    if line.folder is None or not (night.folder / line.folder / "report.html").exists():
        return None
    return quote(f"{line.folder}/report.html")


def _verdict(shown: str) -> str:
    """What a run or a cell showed, with its symbol and colour."""
    return badge(CLASSES[shown], f"{SYMBOLS[shown]} {shown}")


def _cells(night: Night) -> list[Block]:
    """A row for each cell; a terminal has those that ran, each by its whole name."""
    told = [d for d in DIMENSIONS if any(getattr(c, d) for c in night.cells)]
    columns = [TableColumn(name, sort=True, terminal="cell" if n == 0 else None) for n, name in enumerate(told)]
    columns += [
        TableColumn("verdict", sort=True, terminal="verdict"),
        TableColumn("runs", right=True, sort=True),
        TableColumn("of these", terminal="runs", mark="counts"),
        TableColumn("operations", right=True, sort=True),
        TableColumn("commits a second", right=True, terminal=BY_KEY["commits_per_s"].short),
        TableColumn("retried", right=True, terminal=BY_KEY["retried"].short),
        TableColumn("anomalies", terminal="anomalies", most=300, mark="wrap"),
    ]
    legend = " · ".join(f"{symbol} {text}" for text, symbol in SYMBOLS.items())
    note = f"{legend}. Commits and retries: the median over the cell's runs. Click a column to sort."
    return [Table(columns, [_cell(night, cell, told) for cell in night.cells]), Text([note], "note")]


def _cell(night: Night, cell: Cell, told: Sequence[str]) -> TableRow:
    """A row of the table; ``told``: the dimensions that any cell has."""
    counts, worst, lines = night.counts(cell), night.worst(cell), night.by_cell[cell]
    p = trend.point(night.lines, cell)
    first, *others = (getattr(cell, d) for d in told)
    seen = [(s, counts[s]) for s in ORDER if counts[s]]
    each = joined((tag("span", f"{SYMBOLS[s]} {words.grouped(n)}", title=s) for s, n in seen), " ")
    runs, done = sum(x.counts for x in lines), sum(x.operations for x in lines)
    return TableRow(
        [
            TableCell(first, plain=cell.name),
            *(v or "–" for v in others),
            TableCell(_verdict(worst), sort=worst),
            TableCell(words.grouped(runs), sort=runs),
            TableCell(each, plain=" ".join(f"{SYMBOLS[s]}{n}" for s, n in seen) or "–"),
            TableCell(words.grouped(done), sort=done),
            _figure("commits_per_s", None if p is None else p.throughput),
            _figure("retried", None if p is None else p.retries),
            words.tally(_summed(x.anomalies for x in lines)),
        ],
        terminal=worst != "not run",
    )


def _summed(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Counts by name, added up."""
    out: Counter[str] = Counter()
    for one in counts:
        out.update(one)
    return dict(out)


def _failures(night: Night) -> list[Block]:
    found = [*night.failures, *(x for x in night.lines if x.ended in ("error", "unknown"))]
    columns = [
        *(TableColumn("started", mark="nowrap"), TableColumn("cell"), TableColumn("seed", right=True), TableColumn("")),
        *(TableColumn("what", most=600, mark="wrap"), TableColumn("harm"), TableColumn("table"), TableColumn("who")),
        *(TableColumn("page"), TableColumn("again", most=800, mark="mono wrap")),
    ]
    rows = []
    for x in found[:MOST_FAILURES]:
        showed = night.showed(x)
        kept = x.folder is not None and (night.folder / x.folder).is_dir()
        gone = ("its folder was removed to make room",) if showed in ("new", "known") and not kept else ()
        what = words.shorten(soakwords.findings(night, x) or x.reason or "no reason given", 600)
        rows.append(
            TableRow(
                [
                    x.started[:19].replace("T", " "),
                    x.cell.name,
                    "–" if x.seed is None else str(x.seed),
                    badge(CLASSES[showed], showed),
                    TableCell(what, (*(words.shorten(h, 200) for h in x.headline), *gone)),
                    soakwords.harm(x) or "–",
                    words.shorten(", ".join(dict.fromkeys(s.table for s in x.kinds if s.table)), 120) or "–",
                    words.shorten(x.who, 120) or "–",
                    link("open the run's page", href) if (href := href_of(night, x)) is not None else "not kept",
                    x.command or "",
                ]
            )
        )
    return [Table(columns, rows)]


def _found(night: Night, f: Find) -> str:
    """What became of a new anomaly, with a link to its page."""
    page = f"{f.folder}/{SHRUNK}"
    there = f.folder is not None and (night.folder / page).exists()
    return link(words.shorten(soakwords.find_of(f), 900), quote(page) if there else None)


def _knowns(night: Night) -> list[Block]:
    columns = [
        *(TableColumn("anomaly", mark="wrap"), TableColumn("where", most=400, mark="wrap")),
        *(
            TableColumn("runs of these cells", right=True),
            TableColumn("with it", right=True),
            TableColumn("", mark="wrap"),
        ),
    ]
    rows = []
    for known in night.suite.known:
        mine, seen = [x for x in night.runs if known.of(x.cell)], len(night.runs_with(known))
        where = soakwords.where(known) or "everywhere"
        rows.append(
            TableRow(
                [
                    known.name,
                    where,
                    *map(words.grouped, (len(mine), seen)),
                    _why(known, any(m.known is known for m in night.missing)),
                ]
            )
        )
    of_suite = {known.link for known in night.suite.known}
    shown = [(x, s, link_) for x in night.runs for s in x.kinds if (link_ := night.known_of(s, x.cell)) is not None]
    for link_ in dict.fromkeys(link_ for *_, link_ in shown if link_ not in of_suite):
        these = [(x, s) for x, s, its in shown if its == link_]
        cells = {x.cell for x, _ in these}
        rows.append(
            TableRow(
                [
                    ", ".join(sorted({s.name for _, s in these})),
                    "as a scenario of the library shows it",
                    words.grouped(sum(x.cell in cells for x in night.runs)),
                    words.grouped(len({id(x) for x, _ in these})),
                    tag("a", words.link_label(link_), href=link_, rel="noreferrer"),
                ]
            )
        )
    return [Table(columns, rows, "None was seen, and the suite names none.")]


def _why(known: Known, gone: bool) -> str:
    """Where a known anomaly is described, and whether it no longer shows."""
    parts = [tag("a", words.link_label(known.link), href=known.link, rel="noreferrer")]
    note = f": {words.shorten(known.note, 300)}" if known.note else ""
    lost = [badge("unknown", "no longer seen")] if gone else []
    return joined((joined((*parts, note)), *lost), " ")


def _time(night: Night) -> list[Block]:
    drawn = drawings.timeline(night, lambda line: href_of(night, line))
    if drawn is None:
        return [Text(["No run."], "muted")]
    named = (
        ("", "valid"),
        ("invalid", "new anomaly"),
        ("known", "known anomaly"),
        ("unknown", "unknown"),
        ("incomplete", "error"),
    )
    note = (
        "A bar is a run with its judgement; before the first run of a stack the stack starts. A bar of a run that is kept links to its page. "
        "Time is what the night has used: a pause between two sessions is left out."
    )
    return [Legend([(tag("i", "", f"ran {k}".strip()), text) for k, text in named]), Plot(drawn), Text([note], "note")]


def _resources(night: Night) -> list[Block]:
    drawn = [Plot(d, name) for d, name in ((drawings.memory(night), "Memory"), (drawings.disk(night), "Disk")) if d]
    limit = f"The memory of the soak's own process must not grow from run to run. The night's folder may have {written(night.suite.keep)}."
    return [*drawn, Text([limit if drawn else "No sample was taken."], "note")]


def _trend(night: Night, past: Sequence[Past], unread: Sequence[str]) -> list[Block]:
    """A row for each cell that had a turn in this night, and a run that was judged in it or in an earlier one: its points."""
    left_out = Text([f"A night is left out: {words.shorten(why, 300)}" for why in unread], "note")
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
        rows.append(TableRow([cell.name, *map(_point, (*before, now)), MARKS[faster], MARKS[fewer]]))
    if not rows or not past:
        return [left_out, Text(["There is no earlier night of these cells beside this one."], "muted")]
    nights = [
        *(TableColumn(p.started[:10], right=True, title=p.name) for p in past),
        TableColumn("this night", right=True),
    ]
    columns = [TableColumn("cell"), *nights]
    note = (
        "Commits a second and the share of commits that needed another attempt, medians over the runs of a night; below, the runs with "
        "anomalies. ▲ better, ▼ worse: the median is off that of the nights shown before by more than three times their noise (the standard "
        "deviation of those that are no outliers) and more than a tenth of it (a share: more than 0.02), with five such nights or more; ≈ no "
        "difference beyond noise; ✕ no number, though an earlier night has one."
    )
    return [
        left_out,
        Table([*columns, TableColumn("commits"), TableColumn("retries")], rows, form="wide"),
        Text([note], "note"),
    ]


def _point(p: Point | None) -> str | TableCell:
    if p is None:
        return "–"
    names = words.tally(p.anomalies)
    failed = (f"✕ {p.failed} of {p.runs}: {words.shorten(names, 60)}",) if p.failed else ()
    below = (f"{_figure('retried', p.retries)} retried", *failed)
    return TableCell(_figure("commits_per_s", p.throughput), below, names)


def of(night: Night, again: str, past: Sequence[Past] = (), unread: Sequence[str] = ()) -> Page:
    """The page.

    Args:
        again: the command that continues the night.
        past: earlier nights, oldest first; ``unread``: why others cannot be read.
    """
    notes, finds = soakwords.notes(night), [_found(night, f) for f in night.finds]
    known = [Section("What to know", "notes", [Text(notes, "list", 1000)], terminal="To know:")] if notes else []
    followed = [Section("What became of new anomalies", "finds", [Text(finds, "list")], terminal="New anomalies:")]
    return Page(
        FILE,
        f"{night.suite.suite}, soaked",
        soakwords.banner(night),
        [
            *known,
            Section("Cells", "cells", _cells(night), terminal=""),
            Section("Failures, and runs without a verdict", "failures", _failures(night), "Failures"),
            *(followed if finds else []),
            Section("Known anomalies", "known", _knowns(night)),
            Section("The night in time", "time", _time(night)),
            Section("Memory and disk", "resources", _resources(night)),
            Section("Trend", "trend", _trend(night, past, unread)),
        ],
        to_json(night),
        facts=_facts(night),
        lead=night.suite.description or "",
        command=("Continue it", again),
        footer=f"Every number comes from runs.jsonl; {FILE}.json has all runs.",
        suite=_suite(night, again),
    )


def _facts(night: Night) -> list[tuple[str, str]]:
    peak = max((x.peak_memory for x in night.lines), default=0)
    load = joined((f"{words.grouped(night.suite.length)} s", tag("small", "of load")), " ")
    return [
        ("Runs", words.grouped(len(night.runs))),
        ("Cells", words.grouped(len(night.cells))),
        ("Operations", words.grouped(sum(x.operations for x in night.runs))),
        ("Each run", load),
        ("Took", words.duration(1000 * night.used)),
        ("Seed of the night", str(night.seed)),
        ("Most memory", words.size(peak) if peak else "–"),
    ]


# --- for CI servers ---------------------------------------------------------------------------------------------------


def _suite(night: Night, again: str) -> JUnitSuite:
    """A case for each cell. What is known stands in its output."""
    told = {"verdict": soakwords.banner(night).headline, "seed": night.seed, "command": again, "runs": len(night.runs)}
    cases = [*(_case(night, cell) for cell in night.cells)]
    cases += [JUnitCase(c.name, "skipped", f"cannot run: {why}") for c, why in night.left_out.items()]
    return JUnitSuite(f"icequake.soak.{night.suite.suite}", night.used, told, cases)


def _case(night: Night, cell: Cell) -> JUnitCase:
    """A new anomaly is a failure, a cell whose runs were all errors is an error, one without a verdict is skipped."""
    mine, counts, worst = night.by_cell.get(cell, []), night.counts(cell), night.worst(cell)
    told = [text for x in mine if (text := soakwords.line_of(night, x)) is not None][:MOST_TOLD]
    case = JUnitCase(cell.name, seconds=f"{sum(x.took for x in mine):.3f}")
    reason = next((x.reason for x in mine if x.reason), "no reason given")
    if worst == "new":
        names = words.tally(_summed(night.new_of(x) for x in mine))
        text = "\n".join([*told, *(soakwords.find_of(f) for x in mine for f in soakwords.finds_of(night, x))])
        return replace(case, outcome="failure", message=f"{names} in {counts['new']} of {len(mine)} runs", text=text)
    if counts["error"] and counts["error"] == len(mine):
        return replace(case, outcome="error", message=reason, text="\n".join(told))
    if worst == "not run":
        case = replace(case, outcome="skipped", message="the night ended before its turn")
    elif worst in ("unknown", "error") and not counts["valid"]:
        case = replace(case, outcome="skipped", message=f"unknown: {reason}")
    return replace(case, out="\n".join(told))


# --- JSON -------------------------------------------------------------------------------------------------------------


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
