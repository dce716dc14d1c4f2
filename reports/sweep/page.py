"""The page of a sweep: curves with their spread, one commit taken apart, retries, fairness, and links from each point to its runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from markupsafe import Markup

from checkers.costs import curves
from checkers.costs.attempts import PHASES, SORTS, CommitsMeasured, merged
from checkers.costs.comparison import Comparison, Contender, Spread, varied_label
from checkers.costs.curves import Axis, Knee, Line, Predicted, Varied
from checkers.costs.measures import BY_KEY, FIGURES, Figure
from checkers.evidence.replace import replace
from reports.compare import page as comparing
from reports.drawing import words
from reports.drawing.figures import shown, spread
from reports.drawing.page import (
    Banner,
    Block,
    Fold,
    Legend,
    Page,
    Plot,
    Plots,
    Section,
    Table,
    TableCell,
    TableColumn,
    TableRow,
    Text,
    bar,
    joined,
    tag,
)
from reports.sweep import drawings
from reports.sweep import words as sweepwords

FILE = "sweep"

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


def _points(c: Comparison) -> list[Block]:
    """A row for each point: what it is, its runs, all figures that any point has."""
    columns = [
        TableColumn("point", sort=True),
        TableColumn("verdict", sort=True),
        TableColumn("runs", mark="runs"),
        *(TableColumn(f.title, right=True, sort=True) for f in _figures(c)),
    ]
    rows = []
    for n, x in enumerate(c.contenders):
        label = TableCell(tag("b", words.shorten(sweepwords.point(c, x), 80)), sort=n)
        cells = [comparing.cell_of(f, c.spreads.get((f.key, x))) for f in _figures(c)]
        rows.append(TableRow([label, comparing.verdict_cell(c, x), comparing.runs_cell(c, x), *cells], anchor(n)))
    note = (
        "The number is the median over the seeds, the range below it goes from the lowest to the highest. Speeds are those of this machine and "
        "this stack. Click a column to sort."
    )
    return [Table(columns, rows, form="wide"), Text([note], "note")]


def _glance(c: Comparison) -> Table:
    """The points by what varies, and the figures of :data:`GLANCE`, without ranges."""
    params = [name for name, values in curves.parameters(c.contenders).items() if len(values) > 1]
    bare = {x: replace(x, varied=()) for x in c.contenders}
    rest = {x: curves.label(bare[x], list(bare.values())) for x in c.contenders}
    named = any(rest.values())
    columns = [TableColumn("contender", terminal="")] if named else []
    columns += [TableColumn(name, right=True, terminal=name) for name in params]
    columns += [TableColumn("verdict", terminal="verdict")]
    columns += [TableColumn(name, right=True, terminal=name) for name in (BY_KEY[k].short for k in GLANCE)]
    rows = []
    for n, x in enumerate(c.contenders):
        values = [str(dict(x.varied).get(name, "")) for name in params]
        verdict = replace(comparing.verdict_cell(c, x), below=())
        cells = [replace(comparing.cell_of(BY_KEY[k], c.spreads.get((k, x))), below=()) for k in GLANCE]
        first = [tag("a", rest[x] or "–", href=f"#{anchor(n)}")] if named else []
        rows.append(TableRow([*first, *values, verdict, *cells]))
    return Table(columns, rows)


def _figures(c: Comparison) -> list[Figure]:
    return [f for f in _ordered() if any((f.key, x) in c.spreads for x in c.contenders)]


def committed(c: Comparison) -> dict[Contender, CommitsMeasured]:
    """Point → what its runs together measured of their commits; points without it are left out."""
    return {x: merged(found) for x in c.contenders if (found := curves.committing(c, x))}


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


def _share(value: float | None) -> str:
    return "–" if value is None else words.share(value, 1)


def _retries(c: Comparison, by: Mapping[Contender, CommitsMeasured]) -> list[Block]:
    """The distribution of retries: columns up to the last one that any point fills."""
    filled = max(
        (n for m in by.values() for n, (_, low, _) in enumerate(BUCKETS) if any(k >= low for k in m.retries)), default=0
    )
    buckets = BUCKETS[: filled + 1]
    told = ("commits", "retried", "retries a commit", "of those that retried", "8 or more", "most", "success")
    columns = [TableColumn("point")]
    columns += [TableColumn(name, right=True, mark="cell") for name, _, _ in buckets]
    columns += [TableColumn(name, right=True) for name in told]
    rows = []
    for x, m in by.items():
        counts = [sum(n for k, n in m.retries.items() if low <= k <= high) for _, low, high in buckets]
        cells = [_bucket(n, m.commits, again=k > 0) for k, n in enumerate(counts)]
        retried = words.share(m.retried or 0.0, 1) if m.commits else "–"
        means = (_number(m.retries_mean), _number(m.retries_of_retried), _share(m.many))
        most = words.grouped(max(m.retries, default=0))
        rows.append(
            TableRow(
                [sweepwords.point(c, x), *cells, words.grouped(m.commits), retried, *means, most, _share(m.success)]
            )
        )
    note = (
        "Commits by the number of retries that they needed, summed over the seeds. Success: of the operations that committed or that a "
        "conflict aborted."
    )
    return [Table(columns, rows, "None was counted."), Text([note] if rows else [], "note")]


def _bucket(n: int, of: int, again: bool) -> TableCell:
    if not n:
        return TableCell("0", mark="zero")
    return TableCell(joined((words.grouped(n), bar(100 * n / of if of else 0.0, "again" if again else ""))))


def _apart(c: Comparison, by: Mapping[Contender, CommitsMeasured]) -> list[Block]:
    """One commit, taken apart: its phases as bars, and a row for each sort of attempt of the points that are taken apart."""
    drawn = drawings.apart([(sweepwords.point(c, one), by[one]) for one in taken_apart(c, by)])
    if drawn is None:
        return [Text(["The writers of this sweep do not record their attempts; only their number is known."], "muted")]
    named = {"data": "data files", "wait": "backoff before it", "swap": "swap (the catalog’s answer)"}
    heads = (
        "attempts",
        "data files",
        "backoff",
        "refresh",
        "validate",
        "manifests",
        "metadata",
        "swap",
        "refresh to answer",
    )
    columns = [TableColumn("point"), TableColumn("attempt", mark="nowrap")]
    columns += [TableColumn(name, right=True) for name in (*heads, "read", "written")]
    rows = []
    for x in taken_apart(c, by):
        for sort in SORTS[2:]:
            whole = by[x].phase(sort, "whole")
            if whole is not None:
                cells = [_phase(by[x], sort, name) for name in ("data", "wait", *PHASES, "whole")]
                asked = [_size(by[x], sort, name) for name in ("read_bytes", "written_bytes")]
                of = [sweepwords.point(c, x), sort.replace(" ", ", parent "), words.grouped(whole.count)]
                rows.append(TableRow([*of, *cells, *asked]))
    note = (
        "Of attempts that reached the catalog: the bars are means, which add up; the table has medians, and p95 below. Parent cold: the "
        "refresh found metadata that this client had not read before, as another one had committed; hot: it found what it knew. Metadata is 0 "
        f"where the catalog's server writes the file. {FILE}.json has all deciles of every point."
    )
    legend = Legend([(drawings.part_key(name), named.get(name, name)) for name in drawings.PARTS])
    return [legend, Plot(drawn), Table(columns, rows, form="wide"), Text([note], "note")]


def _phase(m: CommitsMeasured, sort: str, name: str) -> TableCell:
    q = m.phase(sort, name)
    if q is None:
        return TableCell("–")
    deciles = f"deciles: {', '.join(words.duration(v) for v in q.deciles)}"
    return TableCell(words.duration(q.median), (f"p95 {words.duration(q.p95)}",), deciles)


def _size(m: CommitsMeasured, sort: str, name: str) -> str:
    q = m.phase(sort, name)
    return "–" if q is None else words.size(q.median)


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


def _fairness(c: Comparison, by: Mapping[Contender, CommitsMeasured]) -> list[Block]:
    columns = [TableColumn("point"), TableColumn("commits of each writer")]
    columns += [TableColumn(name, right=True) for name in ("Jain's index", "fewest", "most", "time in operations")]
    rows = []
    for x, m in by.items():
        if m.writers:
            s = c.spreads.get(("fairness", x))
            index = "–" if s is None else spread(BY_KEY["fairness"], s)
            ends = (words.grouped(min(m.writers.values())), words.grouped(max(m.writers.values())))
            bars = drawings.shares(m) or "–"
            rows.append(TableRow([sweepwords.point(c, x), bars, index, *ends, words.share(m.busy, 1)]))
    note = (
        "Jain's index is 1 if all writers have as many commits, and 1/n if one of n has all; median over the seeds. The bars are summed over "
        "the seeds, the dashed line is an even share. Writers whose operations differ need not be even."
    )
    return [Table(columns, rows, "Nobody wrote."), Text([note] if rows else [], "note")]


def _whom(c: Comparison, by: Mapping[Contender, CommitsMeasured]) -> list[Block]:
    """Who was refused by whose commit, and what it cost; then the matrix of writers of the point with the most refusals."""
    heads = ("attempts in vain", "time in them", "backoff", "written in vain", "aborted operations", "time in them")
    columns = [TableColumn("point"), TableColumn("refused, by whose commit", most=400)]
    columns += [TableColumn(name, right=True) for name in heads]
    rows = []
    for x, m in by.items():
        w = m.wasted
        if m.beaten or m.unexplained or w.attempts or w.aborted:
            took = [words.duration(1000 * seconds) for seconds in (w.attempts_s, w.waited_s)]
            lost = "–" if w.written_bytes is None else words.size(w.written_bytes)
            ended = [words.grouped(w.aborted), words.duration(1000 * w.aborted_s)]
            rows.append(TableRow([sweepwords.point(c, x), _beaten(m), words.grouped(w.attempts), *took, lost, *ended]))
    out: list[Block] = [Table(columns, rows, "Nobody made anybody retry.")]
    refused = {x: sum(n for w in m.beaten_writers.values() for n in w.values()) for x, m in by.items()}
    most = max(refused, key=lambda x: refused[x], default=None)
    drawn = drawings.whom(by[most]) if most is not None else None
    if most is not None and drawn is not None:
        note = "A row for each writer that was refused, a column for each writer whose commit was current then; the darker, the more often."
        out += [Plot(drawn, f"Writer by writer, {sweepwords.point(c, most)}"), Text([note], "note")]
    return out


def _beaten(m: CommitsMeasured) -> TableCell:
    parts = []
    for b in m.beaten[:4]:
        aborted = f"{words.grouped(b.aborted)} aborted"
        times = f"×{words.grouped(b.attempts)}" + (f", {aborted}" if b.aborted else "") if b.attempts else f"×{aborted}"
        parts.append(f"{words.shorten(b.kind, 40)} by {words.shorten(b.by, 40)} {times}")
    more = f" and {words.plural(len(m.beaten) - 4, 'other pair')}" if len(m.beaten) > 4 else ""
    why = f"{words.grouped(m.unexplained)} without a commit that can be the cause"
    return TableCell("; ".join(parts) + more, (why,) if m.unexplained else ())


def _foretold(c: Comparison, predicted: Sequence[Predicted]) -> list[Block]:
    """A row for each predicted point, a column for each figure that any of them has."""
    by: dict[Varied, Contender] = {}
    for x in c.contenders:
        by.setdefault(curves.place(x, c.contenders), x)
    figures = [f for f in _ordered() if any(f.key in p.figures for p in predicted)]
    rows = []
    for p in predicted:
        below = [*([] if p.measured else ["not measured"]), *([words.shorten(p.reason, 400)] if p.reason else [])]
        measured = {f: c.spreads.get((f.key, by[p.varied])) if p.varied in by else None for f in figures}
        cells = [_against(f, p, measured[f]) for f in figures]
        rows.append(TableRow([TableCell(words.shorten(varied_label(p.varied), 80), tuple(below)), *cells]))
    note = (
        "Predicted value; below it the median that was measured, and (predicted − measured) / measured. Points far to the right of the "
        "measured ones are not drawn above."
    )
    columns = [TableColumn("point"), *(TableColumn(f.title, right=True) for f in figures)]
    return [Table(columns, rows, form="wide"), Text([note], "note")]


def _against(f: Figure, p: Predicted, s: Spread | None) -> TableCell:
    """A predicted value beside what was measured."""
    e = p.error.get(f.key)
    below = [] if s is None else [f"measured {shown(f, s.median)}"]
    below += [] if e is None else [f"{100 * e:+.1f} %"]
    return TableCell(shown(f, p.figures.get(f.key)), tuple(below), "" if s is None else spread(f, s))


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


def of(
    c: Comparison, goes_on: str | None = None, predicted: Sequence[Predicted] = (), notes: Sequence[str] = ()
) -> Page:
    """The page.

    Args:
        goes_on: the command that continues this sweep.
        notes: why a prediction is not near what was measured, and what could not be predicted.
    """
    spec = comparing.spec_of(c)
    by = committed(c)
    x = curves.axis(c.contenders)
    workload = str(spec.get("workload") or "workload")
    along = f"Along {x.parameter}" if x is not None else "Every point"
    told = [*(_foretold(c, predicted) if predicted else ()), *([Text(notes, "list")] if notes else ())]
    foretold = [Section("Predicted", "predicted", told, terminal="Of the predictions:")] if told else []
    silent = Text(sweepwords.untested(c), "list")
    return Page(
        FILE,
        f"{workload}, swept",
        banner(c),
        [
            Section("At a glance", "glance", [_glance(c)], terminal=""),
            Section("What it shows", "shows", [Text(sweepwords.findings(c, predicted), "list")], terminal=""),
            Section(along, "curves", _drawn(c, predicted, x), "Bars" if x is None else "Curves"),
            Section("One commit, taken apart", "commit", _apart(c, by)),
            Section("Retries", "retries", _retries(c, by)),
            Section("Fairness between writers", "fairness", _fairness(c, by), "Fairness"),
            Section("Who made whom retry", "whom", _whom(c, by)),
            Section("Every number", "numbers", _points(c)),
            *foretold,
            Section("What was not tested", "untested", [silent], "Not tested", terminal="Not tested:"),
            comparing.runs_section(c, "point", lambda one: sweepwords.point(c, one)),
        ],
        to_json(c, predicted),
        facts=[
            ("Workload", workload),
            *((name, ", ".join(values)) for name, values in curves.parameters(c.contenders).items()),
            ("Seeds", ", ".join(map(str, c.seeds))),
            ("At the same time", words.plural(c.header.get("parallel", 1), "run")),
        ],
        lead=str(spec.get("description") or ""),
        command=("Continue it, or add seeds and values", goes_on) if goes_on else None,
        footer=f"Every number comes from the folders of the runs; {FILE}.json has all of them.",
        dense=True,
    )


def _drawn(c: Comparison, predicted: Sequence[Predicted], x: Axis | None) -> list[Block]:
    """The figures along x, or as bars."""
    keys = [] if x is None else [(drawings.key(n), name) for name, n in _numbered(c, x).items() if name]
    keys += [(drawings.foretold_key(), "predicted, not measured")] if predicted else []
    drawn = [(f, Plot(p, f.title, f"{f.better} is better")) for f, p in _plots(c, predicted)]
    first = [p for f, p in drawn if f.key in PLOTTED]
    more = [p for f, p in drawn if f.key not in PLOTTED]
    lines = (
        "Lines join the medians over the seeds; the band goes from the lowest to the highest value. A ring marks the knee: the last point that "
        "is 10 % above the best before it, and by more than noise."
    )
    bars = "A bar goes to the median over the seeds, the whisker from the lowest to the highest value."
    links = "A mark links to the numbers and runs of its point. A figure that is 0 at every point is not drawn."
    return [
        *([Legend(keys)] if keys else []),
        Plots(first) if first else Text(["Nothing was measured."], "muted"),
        *([Fold(words.plural(len(more), "more figure"), [Plots(more)])] if more else []),
        Text([f"{bars if x is None else lines} {links}"], "note"),
    ]


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
