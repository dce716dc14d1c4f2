"""The page of a sweep: curves with their spread, one commit taken apart, retries, fairness, and links from each point to its runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from markupsafe import Markup

from checkers.costs import curves
from checkers.costs.attempts import merged
from checkers.costs.comparison import Comparison, Contender, Spread
from checkers.costs.curves import Axis, Curve, Knee, Predicted, Varied
from checkers.costs.measures import Figure
from checkers.evidence.replace import replace
from reports.compare import page as comparing
from reports.drawing import words
from reports.drawing.page import Banner, Block, Fold, Legend, Page, Plot, Plots, Section, Text
from reports.sweep import blocks, choice, drawings, sentences

FILE = "sweep"

BEYOND = 4
"""Predicted points are drawn up to so many times the greatest measured value along x; the table has all."""


# --- curves -----------------------------------------------------------------------------------------------------------


def _plots(c: Comparison, predicted: Sequence[Predicted]) -> list[tuple[Figure, Markup]]:
    rows = {x: blocks.anchor(n) for n, x in enumerate(c.contenders)}
    x = curves.axis(c.contenders)
    out = []
    for f in blocks.ordered():
        drawn = _bars(c, f, rows) if x is None else _curve(c, f, x, predicted, rows)
        if drawn is not None:
            out.append((f, drawn))
    return out


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
    by_varied: dict[Varied, list[tuple[float, float]]] = {}
    for p in predicted:
        parsed = curves.numbers([text]) if (text := curves.value(p, x.parameter)) is not None else None
        rest = _rest(p.varied, x)
        if parsed is None or key not in p.figures or rest not in number:
            continue
        position = next(iter(parsed[0].values()))
        if position <= most:
            by_varied.setdefault(rest, []).append((position, p.figures[key]))
    return [
        drawings.Foretold(number[rest], " ".join(f"{k}={v}" for k, v in rest), tuple(sorted(points)))
        for rest, points in by_varied.items()
    ]


def _rest(varied: Varied, x: Axis) -> Varied:
    return tuple((k, v) for k, v in varied if k != x.parameter)


def _bars(c: Comparison, f: Figure, rows: Mapping[Contender, str]) -> Markup | None:
    """Groups by catalog, release and engines if points differ in them, else by the first of several parameters; else one group."""
    measured = [(x, c.spreads[f.key, x]) for x in c.contenders if (f.key, x) in c.spreads]
    if not any(s.high for _, s in measured):
        return None
    bare = {x: replace(x, varied=()) for x in c.contenders}
    params = [k for k, values in curves.parameters(c.contenders).items() if len(values) > 1]
    several = len(set(bare.values())) > 1
    by_label: dict[str, list[tuple[str, int, Spread, str | None]]] = {}
    colours: dict[str, int] = {}
    for x, s in measured:
        group, within = "", params
        if several:
            group = curves.label(bare[x], list(bare.values()))
        elif len(params) > 1:
            group, within = f"{params[0]}={curves.value(x, params[0])}", params[1:]
        name = " ".join(f"{k}={curves.value(x, k)}" for k in within) or sentences.point(c, x)
        n = colours.setdefault(name, len(colours)) if group else 3
        by_label.setdefault(group, []).append((name, n, s, rows[x]))
    return drawings.bars(f, list(by_label.items()))


# --- the page ---------------------------------------------------------------------------------------------------------


def banner(c: Comparison) -> Banner:
    """The headline and one sentence."""
    verdicts = {x: c.valid(x) for x in c.contenders}
    ran = [x for x, v in verdicts.items() if v is not None]
    broken = [sentences.point(c, x) for x, v in verdicts.items() if v is False]
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
    c: Comparison,
    goes_on: str | None = None,
    predicted: Sequence[Predicted] = (),
    notes: Sequence[str] = (),
    longer: choice.Longer | None = None,
) -> Page:
    """The page.

    Args:
        goes_on: the command that continues this sweep.
        longer: the command that makes longer runs.
        notes: why a prediction is not near what was measured, and what could not be predicted.
    """
    spec = comparing.spec_of(c)
    measured = blocks.committed(c)
    x = curves.axis(c.contenders)
    workload = str(spec.get("workload") or "workload")
    along = f"Along {x.parameter}" if x is not None else "Every point"
    extra = [*(blocks.foretold(c, predicted) if predicted else ()), *([Text(notes, "list")] if notes else ())]
    foretold = [Section("Predicted", "predicted", extra, terminal="Of the predictions:")] if extra else []
    silent = Text(sentences.untested(c), "list")
    return Page(
        FILE,
        f"{workload}, swept",
        banner(c),
        [
            Section("Which to choose", "choice", [Text(choice.choice(c, longer), "list")], terminal="", last=True),
            Section("At a glance", "glance", [blocks.glance(c), Text(choice.in_short(c), "list")], terminal=""),
            Section("What it shows", "shows", [Text(sentences.findings(c, predicted), "list")], terminal=""),
            Section(along, "curves", _drawn(c, predicted, x), "Bars" if x is None else "Curves"),
            Section("One commit, taken apart", "commit", blocks.apart(c, measured)),
            Section("Retries", "retries", blocks.retries(c, measured)),
            Section("Fairness between writers", "fairness", blocks.fairness(c, measured), "Fairness"),
            Section("Who made whom retry", "whom", blocks.refusals(c, measured)),
            Section("Every number", "numbers", blocks.points(c)),
            *foretold,
            Section("What was not tested", "untested", [silent], "Not tested", terminal="Not tested:"),
            comparing.runs_section(c, "point", lambda point: sentences.point(c, point)),
        ],
        to_json(c, predicted, longer),
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
    first = [p for f, p in drawn if f.key in blocks.PLOTTED]
    more = [p for f, p in drawn if f.key not in blocks.PLOTTED]
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


def to_json(c: Comparison, predicted: Sequence[Predicted] = (), longer: choice.Longer | None = None) -> dict[str, Any]:
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
        "points": [_point_json(c, point) for point in c.contenders],
        "lines": []
        if x is None
        else [_line_json(c, f, x, line) for f in blocks.figures(c) for line in curves.lines(c, f.key, x)],
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
        "findings": sentences.findings(c, predicted),
        "choice": choice.choice(c, longer),
        "untested": sentences.untested(c),
        "runs": [r.to_json() for r in c.runs],
    }


def _point_json(c: Comparison, point: Contender) -> dict[str, Any]:
    found = curves.committing(c, point)
    what = curves.ceiling(found)
    return {
        **comparing.contender_json(c, point),
        "name": sentences.point(c, point),
        "commits": merged(found).to_json() if found else None,
        "ceiling": None if what is None else asdict(what),
        "silent": list(curves.silent(found)),
    }


def _line_json(c: Comparison, f: Figure, x: Axis, line: Curve) -> dict[str, Any]:
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
            x.parameter: k.point.text,
            "shape": k.shape,
            "value": k.point.spread.median,
            "change_to_end": round(k.change, 4),
            "falls": k.falls,
            "certain": k.certain,
        },
    }
