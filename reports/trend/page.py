"""The page of a trend: what is worse than before, small drawings of every series, and the tables of the newest night."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date
from pathlib import Path
from typing import Any

from markupsafe import Markup
from rich.table import Table
from rich.text import Text

from checkers.costs.measures import Figure
from checkers.costs.trend import BY_KEY, Finding, Missing, Night, Point, Series, Trend
from checkers.costs.worse import ABSOLUTE, FAILURES, FEWEST, NOISES, OUTLIER, SHARE
from checkers.evidence.runfolder import replace_file
from reports.compare.words import shown as number
from reports.drawing import svg, words
from reports.drawing.page import SYMBOLS, Banner
from reports.drawing.templates import TEMPLATES, environment

PAGE, JSON = "trend.html", "trend.json"
GLANCE = (
    "commits_per_s",
    "write_p50_ms",
    "write_p99_ms",
    "read_p50_ms",
    "retried",
    "aborted",
    "retries_mean",
    "commit_p50_ms",
)
"""Figures that are drawn, in this order."""
DRAWN, LISTED = 24, 40
"""Series that are drawn at once, and lines of the terminal's lists; the page has the others, folded."""
WIDE, HIGH = 270, 118
STATES = {
    "regression": "worse",
    "better": "better",
    "noise": "no difference beyond noise",
    "too few": "too few nights to say",
    "no number": "no number",
}


class Names:
    """What to call each series: workload, catalog and release; with the hash of its setup where two would have one name."""

    def __init__(self, series: Iterable[Series]) -> None:
        every = sorted({*series})
        plain = [self._plain(s) for s in every]
        self._names = {
            s: f"{name}, {s.setup}" if plain.count(name) > 1 else name for s, name in zip(every, plain, strict=True)
        }

    @staticmethod
    def _plain(s: Series) -> str:
        return f"{s.workload}, {s.catalog or 'no catalog'}, {s.iceberg or 'unknown'}"

    def __getitem__(self, series: Series) -> str:
        return self._names[series]


def banner(t: Trend) -> Banner:
    """The headline and one sentence."""
    if not t.ran:
        last = f"The newest night before it that has runs is that of {t.nights[-1]}" if t.nights else "No night has any"
        return Banner("unknown", f"No run in the night of {t.newest}", f"So nothing was compared. {last}.")
    tonight = [r for r in t.runs if r.night == t.newest]
    runs, tested = sum(r.runs for r in tonight), [f for f in t.findings if f.state not in ("too few", "no number")]
    sentence = (
        f"The night of {t.newest}: {words.plural(runs, 'run')} of {words.plural(len(tonight), 'series', 'series')}, against "
        f"{words.plural(len(t.nights) - 1, 'earlier night')}. {words.plural(len(tested), 'figure')} could be compared."
    )
    if t.worse:
        parts = [words.plural(len(t.regressions), "figure")] if t.regressions else []
        parts += [f"{words.plural(len(t.missing), 'series', 'series')} without figures"] if t.missing else []
        parts += [words.plural(len(t.fresh), "new anomaly", "new anomalies")] if t.fresh else []
        return Banner("invalid", f"Worse than before: {' and '.join(parts)}", sentence)
    if not tested:
        return Banner("unknown", f"Too few nights to say: {FEWEST} earlier ones are needed", sentence)
    return Banner("valid", "Nothing is worse than before", sentence)


def said(t: Trend) -> list[str]:
    """What is worse, then what is better, one sentence each."""
    names = _names(t)
    out = [
        f"{names[a.series]}: {a.name} ×{a.count} in {words.plural(a.runs, 'run')}, in no earlier night" for a in t.fresh
    ]
    out += [f"{names[m.series]}: {_without(m)}" for m in t.missing]
    for state in (*reversed(FAILURES), "better"):
        out += [_sentence(f, names) for f in t.findings if f.state == state]
    return out


def _without(m: Missing) -> str:
    ran = f"ran in {words.plural(m.runs, 'run')} without any figure" if m.runs else "did not run"
    return f"{ran}; {words.plural(m.nights, 'earlier night has', 'earlier nights have')} figures of it"


def _sentence(f: Finding, names: Names) -> str:
    figure = BY_KEY[f.figure]
    what = f"{names[f.series]}: {STATES[f.state]}: {figure.group.lower()}, {figure.name}"
    if f.before is None:
        return what
    return (
        f"{what}: {_value(figure, f.value)} instead of {number(figure, f.before)} (noise {_value(figure, f.noise)}, "
        f"{words.plural(f.nights, 'night')})"
    )


def _value(f: Figure, value: float | None) -> str:
    return "–" if value is None else number(f, value)


def _names(t: Trend) -> Names:
    return Names(r.series for r in t.runs)


RULE = (
    "A figure is worse if its median over the newest night's runs is worse than the median of the earlier nights by more than "
    f"{NOISES:g} times their noise, and by more than {SHARE:.0%} of it (a share: by more than {ABSOLUTE:g}). The noise is the standard "
    f"deviation of the earlier nights without their outliers (further from the median than that, and than {OUTLIER:g} times 1.4826 times "
    "the median absolute deviation), times the square root of 1 + 1/n for n nights. "
    f"It takes {FEWEST} earlier nights of the same series: workload, catalog, release and setup. A new anomaly is one "
    "that Iceberg does not document as possible and that no earlier night of its series had."
)


# --- drawings ---------------------------------------------------------------------------------------------------------


def small(f: Figure, line: Sequence[Point], nights: Sequence[date], found: Finding | None) -> Markup:
    """One figure of one series: a point for each night, the range of its runs, and where the newest one was expected."""
    frame = svg.Frame(WIDE, HIGH, 58, 10, 8, 22)
    at = svg.Scale(0, max(1, len(nights) - 1), frame.left + 6, frame.x1 - 6)
    top = max(
        [p.high for p in line]
        + ([found.before + NOISES * (found.noise or 0)] if found and found.before is not None else [])
    )
    up = svg.Scale(0, top * 1.05 or 1, frame.y1, frame.top)
    place = {n: at(i) for i, n in enumerate(nights)}
    parts: list[str] = [svg.axis_y(frame, up, [(v, number(f, v)) for v in svg.ticks(0, up.high, 3)], "")]
    ends = [(nights[0], "start"), (nights[-1], "end")] if len(nights) > 1 else [(nights[0], "middle")]
    parts += [svg.text(place[n], frame.y1 + 15, n.isoformat()[5:], "tick", anchor) for n, anchor in ends]
    if found is not None and found.before is not None and found.noise is not None:
        high, low = up(found.before + NOISES * found.noise), up(max(0, found.before - NOISES * found.noise))
        parts.append(svg.rect(frame.left, high, frame.x1 - frame.left, max(1.0, low - high), "expected"))
    parts.append(svg.polyline([(place[p.night], up(p.median)) for p in line], "run c0"))
    for p in line:
        state = found.state if found is not None and p.night == nights[-1] else "noise"
        say = svg.title(
            f"{p.night}: {number(f, p.median)} ({number(f, p.low)} to {number(f, p.high)}, {words.plural(p.runs, 'run')})"
        )
        x, y = place[p.night], up(p.median)
        newest = p.night == nights[-1]
        parts.append(
            svg.element(
                "g",
                say,
                svg.line(x, up(p.low), x, up(p.high), "range-of c0"),
                svg.marks("circle", [(x, y)], 4.0 if newest else 2.4, f"mark {state.replace(' ', '-')}"),
            )
        )
    return svg.drawing(WIDE, HIGH, f"{f.name}, night by night", parts)


def bars(line: Sequence[Night], nights: Sequence[date]) -> Markup:
    """The anomalies of one series, night by night, as bars."""
    frame = svg.Frame(WIDE, HIGH, 58, 10, 8, 22)
    at = svg.Scale(0, max(1, len(nights) - 1), frame.left + 6, frame.x1 - 6)
    up = svg.Scale(0, max(1, *(r.anomalies for r in line)) * 1.05, frame.y1, frame.top)
    whole = [v for v in svg.ticks(0, up.high, 3) if v == int(v)]
    parts: list[str] = [svg.axis_y(frame, up, [(v, f"{v:.0f}") for v in whole], "")]
    half = max(1.0, min(8.0, (frame.x1 - frame.left) / max(1, len(nights)) / 3))
    for r in line:
        x, y = at(nights.index(r.night)), up(r.anomalies)
        say = f"{r.night}: {words.plural(r.anomalies, 'anomaly', 'anomalies')} in {words.plural(r.runs, 'run')}, {r.invalid} of them invalid"
        parts.append(svg.rect(x - half, y, 2 * half, frame.y1 - y, "anomalies", svg.title(say)))
    return svg.drawing(WIDE, HIGH, "anomalies, night by night", parts)


# --- the page ---------------------------------------------------------------------------------------------------------


def view(t: Trend) -> dict[str, Any]:
    """All values for the template, by name."""
    names, found = _names(t), {(f.series, f.figure): f for f in t.findings}
    lines: dict[tuple[Series, str], list[Point]] = {}
    for p in t.points:
        lines.setdefault((p.series, p.figure), []).append(p)
    runs: dict[Series, list[Night]] = {}
    for r in t.runs:
        runs.setdefault(r.series, []).append(r)
    worst = {f.series for f in t.regressions} | {a.series for a in t.fresh} | {m.series for m in t.missing}
    tonight = [s for s in runs if runs[s][-1].night == t.newest]
    order = sorted(tonight, key=lambda s: (s not in worst, names[s]))
    rows = []
    for s in order:
        plots = []
        for key in GLANCE:
            line, told = lines.get((s, key), []), found.get((s, key))
            if any(p.high for p in line):
                plots.append((BY_KEY[key].name, told.state if told else "", small(BY_KEY[key], line, t.nights, told)))
        if any(r.anomalies for r in runs[s]):
            plots.append(
                ("anomalies", "regression" if any(a.series == s for a in t.fresh) else "", bars(runs[s], t.nights))
            )
        last = runs[s][-1]
        rows.append({"name": names[s], "setup": s.setup, "runs": last.runs, "nights": len(runs[s]), "plots": plots})
    newest = [k for k in t.kinds if k.night == t.newest]
    return {
        "banner": banner(t),
        "symbols": SYMBOLS,
        "newest": t.newest,
        "first": t.nights[0] if t.nights else None,
        "nights": len(t.nights),
        "runs": sum(r.runs for r in t.runs),
        "said": said(t),
        "rule": RULE,
        "series": rows[:DRAWN],
        "more": rows[DRAWN:],
        "absent": sorted(names[s] for s in runs if s not in tonight),
        "findings": [_row(f, names) for f in t.findings],
        "kinds": [
            {
                "k": k,
                "retried": "–" if k.retry_rate is None else words.share(k.retried, k.known),
                "latency": ["–" if v is None else words.duration(v) for v in (k.p50, k.p95, k.p99)],
            }
            for k in newest
        ],
        "anomalies": [(names[a.series], a) for a in t.anomalies if a.night == t.newest],
        "pairs": t.pairs[:LISTED],
        "more_pairs": max(0, len(t.pairs) - LISTED),
    }


def _row(f: Finding, names: Names) -> dict[str, Any]:
    figure = BY_KEY[f.figure]
    return {
        "series": names[f.series],
        "figure": figure.name,
        "state": f.state,
        "words": STATES[f.state],
        "value": _value(figure, f.value),
        "before": _value(figure, f.before),
        "noise": _value(figure, f.noise),
        "nights": f.nights,
    }


def render(t: Trend) -> str:
    """The page."""
    style = (TEMPLATES / "page.css").read_text(encoding="utf-8")
    return words.printable(environment().get_template("trend.html").render(style=Markup(style), **view(t)))


def write(t: Trend, into: Path) -> Path:
    """Write the page into a folder; return its path."""
    path = into / PAGE
    replace_file(path, render(t))
    return path


# --- the terminal -----------------------------------------------------------------------------------------------------


def shown(t: Trend) -> list[str | Table]:
    """What the terminal shows: the newest night of each series, then what is worse or better."""
    names, found = _names(t), {(f.series, f.figure): f for f in t.findings}
    table = Table(box=None, pad_edge=False)
    table.add_column("", overflow="fold")
    short = ("commits/s", "write p50", "p99", "retried", "aborted")
    keys = ("commits_per_s", "write_p50_ms", "write_p99_ms", "retried", "aborted")
    for name in ("runs", "invalid", "anomalies", *short):
        table.add_column(name, justify="right", no_wrap=True)
    for r in sorted((r for r in t.runs if r.night == t.newest), key=lambda r: names[r.series]):
        cells = []
        for key in keys:
            f = found.get((r.series, key))
            mark = "" if f is None else " ▼" if f.state in FAILURES else " ▲" if f.state == "better" else ""
            cells.append("–" if f is None else _value(BY_KEY[key], f.value) + mark)
        counts = (str(r.runs), str(r.invalid), str(r.anomalies))
        table.add_row(*(Text(words.printable(cell)) for cell in (names[r.series], *counts, *cells)))
    head = banner(t)
    out: list[str | Table] = [f"{head.headline}. {head.sentence}", "", table]
    lines = said(t)
    out += [""] if lines else []
    out += [words.printable(f"  {line}") for line in lines[:LISTED]]
    if len(lines) > LISTED:
        out.append(f"  … and {len(lines) - LISTED} more on the page")
    return out
