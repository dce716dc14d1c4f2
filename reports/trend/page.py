"""The page of a trend: what is worse than before, small drawings of every series, and the tables of the newest night."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import date

from markupsafe import Markup

from checkers.costs.measures import BY_KEY, Figure
from checkers.costs.trend import MissingSeries, NightFigure, Series, SeriesNight, Trend, TrendFinding
from checkers.costs.worse import ABSOLUTE, FAILURES, FEWEST_NIGHTS, NOISES, OUTLIER, SHARE
from reports.drawing import svg, words
from reports.drawing.figures import shown as number
from reports.drawing.page import (
    Banner,
    Block,
    Fold,
    Page,
    Plot,
    Plots,
    Section,
    Table,
    TableCell,
    TableColumn,
    TableRow,
    Text,
    tag,
)

FILE = "trend"
DRAWN_FIGURES = (
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
TONIGHT = ("commits_per_s", "write_p50_ms", "write_p99_ms", "retried", "aborted")
"""Figures of the first table and of the terminal's."""
DRAWN, PAIRS = 24, 40
"""Series that are drawn at once, the others are folded; pairs of operations in the table."""
WIDE, HIGH = 270, 118
STATES = {
    "regression": "worse",
    "better": "better",
    "noise": "no difference beyond noise",
    "too few": "too few nights to say",
    "no number": "no number",
}


class Names:
    """What to call each series: workload, catalog and release; where two would have one name, also what tells their setups apart: faults,
    engines, or the hash of all of it."""

    def __init__(self, runs: Iterable[SeriesNight]) -> None:
        setups = {r.series: r for r in runs}
        alike: dict[str, list[SeriesNight]] = {}
        for s in sorted(setups):
            alike.setdefault(self._plain(s), []).append(setups[s])
        self._names = {r.series: self._apart(name, r, these) for name, these in alike.items() for r in these}

    @staticmethod
    def _apart(name: str, r: SeriesNight, others: Sequence[SeriesNight]) -> str:
        """The name of one of some series of one plain name."""
        for dimension in (_faults, _engines):
            if len({dimension(o) for o in others}) > 1:
                name, others = f"{name}, {dimension(r)}", [o for o in others if dimension(o) == dimension(r)]
        return name if len(others) == 1 else f"{name}, setup {r.series.setup}"

    @staticmethod
    def _plain(s: Series) -> str:
        return f"{s.workload}, {s.catalog or 'no catalog'}, {s.iceberg or 'unknown'}"

    def __getitem__(self, series: Series) -> str:
        return self._names[series]


def _faults(r: SeriesNight) -> str:
    return r.faults or "no faults"


def _engines(r: SeriesNight) -> str:
    return r.engines or "engines not recorded"


def banner(t: Trend) -> Banner:
    """The headline, one sentence, and which runs it is about."""
    found = _compared(t)
    parts = (found.sentence, _harmless(t), _which(t))
    return replace(found, sentence=" ".join(filter(None, parts)))


def _harmless(t: Trend) -> str:
    """How many anomalies of the newest night fail no night; nothing if there are none."""
    n = sum(a.count - a.new for a in t.anomalies if a.night == t.newest)
    one = n == 1
    return (
        f"{words.plural(n, 'anomaly', 'anomalies')} of it {'is' if one else 'are'} known (to the suite or the library), documented or allowed, "
        f"and {'fails' if one else 'fail'} no night."
        if n
        else ""
    )


def _new(t: Trend) -> str:
    """How many anomalies of the newest night nobody knows."""
    n = sum(a.new for a in t.anomalies if a.night == t.newest)
    if not n:
        return "No anomaly of it is new."
    are = "is" if n == 1 else "are"
    return f"{words.plural(n, 'anomaly', 'anomalies')} of it {are} new: neither the suite nor the library has {'it' if n == 1 else 'them'}."


def _which(t: Trend) -> str:
    """Which runs are compared; nothing if none was left out."""
    if not t.suite:
        return ""
    left_out = words.plural(t.beside, "other run")
    more = f"; {left_out} of that night {'is' if t.beside == 1 else 'are'} left out (--suite '*' compares all)"
    return f"Only runs of the suite {t.suite}{more if t.beside else ''}."


def worse(t: Trend) -> str:
    """What makes a night fail, counted: ``2 figures and 1 new anomaly``; on a first night each anomaly is new."""
    parts = [words.plural(len(t.regressions), "figure")] if t.regressions else []
    parts += [f"{words.plural(len(t.missing), 'series', 'series')} without figures"] if t.missing else []
    parts += [words.plural(len(t.fresh), "new anomaly", "new anomalies")] if t.fresh else []
    return " and ".join(parts)


def _compared(t: Trend) -> Banner:
    if not t.ran:
        last = f"The newest night before it that has runs is that of {t.nights[-1]}" if t.nights else "No night has any"
        after = t.newest and t.latest and t.latest > t.newest
        later = f" The last night that has runs is that of {t.latest}: --night {t.latest}." if after else ""
        return Banner("unknown", f"No run in the night of {t.newest}", f"So nothing was compared. {last}.{later}")
    tonight = [r for r in t.runs if r.night == t.newest]
    runs, tested = sum(r.runs for r in tonight), [f for f in t.findings if f.state not in ("too few", "no number")]
    if len(t.nights) == 1:
        ran = (
            f"The night of {t.newest}: {words.plural(runs, 'run')} of {words.plural(len(tonight), 'series', 'series')}."
        )
        return Banner("unknown", "The first night: there is nothing to compare with", f"{ran} {_new(t)}")
    sentence = (
        f"The night of {t.newest}: {words.plural(runs, 'run')} of {words.plural(len(tonight), 'series', 'series')}, against "
        f"{words.plural(len(t.nights) - 1, 'earlier night')}. {words.plural(len(tested), 'figure')} could be compared."
    )
    if t.worse:
        return Banner("invalid", f"Worse than before: {worse(t)}", sentence)
    if not tested:
        return Banner("unknown", f"Too few nights to say: {FEWEST_NIGHTS} earlier ones are needed", sentence)
    return Banner("valid", "Nothing is worse than before", sentence)


def changes(t: Trend) -> list[str]:
    """What is worse, then what is better, one sentence each."""
    names = _names(t)
    since = ", in no earlier night" if len(t.nights) > 1 else ""
    out = [
        f"{names[a.series]}: {words.tally({a.name: a.new})} in {words.plural(a.runs, 'run')}{since}" for a in t.fresh
    ]
    out += [f"{names[m.series]}: {_without(m)}" for m in t.missing]
    for state in (*reversed(FAILURES), "better"):
        out += [_sentence(f, names) for f in t.findings if f.state == state]
    return out


def _without(m: MissingSeries) -> str:
    ran = f"ran in {words.plural(m.runs, 'run')} without any figure" if m.runs else "did not run"
    return f"{ran}; {words.plural(m.nights, 'earlier night has', 'earlier nights have')} figures of it"


def _sentence(f: TrendFinding, names: Names) -> str:
    figure = BY_KEY[f.figure]
    what = f"{names[f.series]}: {STATES[f.state]}: {figure.group.lower()}, {figure.name}"
    if f.before is None:
        return what
    return (
        f"{what}: {number(figure, f.value)} instead of {number(figure, f.before)} (noise {number(figure, f.noise)}, "
        f"{words.plural(f.nights, 'night')})"
    )


def _names(t: Trend) -> Names:
    return Names(t.runs)


RULE = (
    "A figure is worse if its median over the newest night's runs is worse than the median of the earlier nights by more than "
    f"{NOISES:g} times their noise, and by more than {SHARE:.0%} of it (a share: by more than {ABSOLUTE:g}). The noise is the standard "
    f"deviation of the earlier nights without their outliers (further from the median than that, and than {OUTLIER:g} times 1.4826 times "
    "the median absolute deviation), times the square root of 1 + 1/n for n nights. "
    f"It takes {FEWEST_NIGHTS} earlier nights of the same series: workload, catalog, release and setup. A new anomaly is one "
    "that Iceberg does not document as possible, that is not known to the night's suite or to the library, that its workload does not allow, "
    "and that no earlier night of its series had."
)


# --- drawings ---------------------------------------------------------------------------------------------------------


def small(f: Figure, line: Sequence[NightFigure], nights: Sequence[date], found: TrendFinding | None) -> Markup:
    """One figure of one series: a point for each night, the range of its runs, and where the newest one was expected."""
    frame = svg.PlotArea(WIDE, HIGH, 58, 10, 8, 22)
    x_of = svg.Scale(0, max(1, len(nights) - 1), frame.left + 6, frame.x1 - 6)
    top = max(
        [p.high for p in line]
        + ([found.before + NOISES * (found.noise or 0)] if found and found.before is not None else [])
    )
    up = svg.Scale(0, top * 1.05 or 1, frame.y1, frame.top)
    place = {n: x_of(i) for i, n in enumerate(nights)}
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
    return svg.drawing(WIDE, HIGH, f"{f.title}, night by night", parts)


def bars(line: Sequence[SeriesNight], nights: Sequence[date]) -> Markup:
    """The anomalies of one series, night by night, as bars."""
    frame = svg.PlotArea(WIDE, HIGH, 58, 10, 8, 22)
    x_of = svg.Scale(0, max(1, len(nights) - 1), frame.left + 6, frame.x1 - 6)
    up = svg.Scale(0, max(1, *(r.anomalies for r in line)) * 1.05, frame.y1, frame.top)
    whole = [v for v in svg.ticks(0, up.high, 3) if v == int(v)]
    parts: list[str] = [svg.axis_y(frame, up, [(v, f"{v:.0f}") for v in whole], "")]
    half = max(1.0, min(8.0, (frame.x1 - frame.left) / max(1, len(nights)) / 3))
    for r in line:
        x, y = x_of(nights.index(r.night)), up(r.anomalies)
        say = f"{r.night}: {words.plural(r.anomalies, 'anomaly', 'anomalies')} in {words.plural(r.runs, 'run')}, {r.invalid} of them invalid"
        parts.append(svg.rect(x - half, y, 2 * half, frame.y1 - y, "anomalies", svg.title(say)))
    return svg.drawing(WIDE, HIGH, "anomalies, night by night", parts)


# --- the page ---------------------------------------------------------------------------------------------------------


def of(t: Trend) -> Page:
    """The page."""
    names = _names(t)
    runs: dict[Series, list[SeriesNight]] = {}
    for r in t.runs:
        runs.setdefault(r.series, []).append(r)
    absent = sorted(names[s] for s, nights in runs.items() if nights[-1].night != t.newest)
    notes = [f"{RULE} Of many figures, a few are that far off by chance."]
    notes += [f"Not run in the newest night: {words.shorten('; '.join(absent), 2000)}."] if absent else []
    nothing = "No figure of the newest night is worse or better than before."
    return Page(
        FILE,
        f"trend, {t.newest}",
        banner(t),
        [
            Section("The newest night", "newest", [_tonight(t, names)], terminal=""),
            Section(
                "What it shows",
                "shows",
                [_changes_text(t, nothing), Text(notes, "note", 4000)],
                terminal="What it shows:",
            ),
            Section("Series, night by night", "series", _series(t, names, runs), "Series"),
            Section("Operations of the newest night", "kinds", _kinds(t), "Operations"),
            Section("Anomalies of the newest night", "anomalies", [_anomalies(t, names)], "Anomalies"),
            Section("Who made whom retry", "whom", _refusals(t)),
            Section("Every figure of the newest night", "numbers", [_numbers(t, names)], "Every figure"),
        ],
        t.to_json(),
        facts=[
            ("Newest night", str(t.newest)),
            ("Since", str(t.nights[0]) if t.nights else "–"),
            ("Nights", words.grouped(len(t.nights))),
            ("Runs", words.grouped(sum(r.runs for r in t.runs))),
        ],
        footer=f"Every number comes from the lake; {FILE}.json has all of them.",
    )


def _changes_text(t: Trend, nothing: str) -> Text:
    found = changes(t)
    return Text(found, "list", 600) if found else Text([nothing], "muted")


def _tonight(t: Trend, names: Names) -> Table:
    """The newest night of each series."""
    found = {(f.series, f.figure): f for f in t.findings}
    heads = ("runs", "invalid", "anomalies", *(BY_KEY[key].short for key in TONIGHT))
    rows = []
    for r in sorted((r for r in t.runs if r.night == t.newest), key=lambda r: names[r.series]):
        cells = [TableCell(words.grouped(n)) for n in (r.runs, r.invalid, r.anomalies)]
        cells += [_marked(BY_KEY[key], found.get((r.series, key))) for key in TONIGHT]
        rows.append(TableRow([names[r.series], *cells]))
    columns = [TableColumn("series", terminal=""), *(TableColumn(name, right=True, terminal=name) for name in heads)]
    return Table(columns, rows)


def _marked(f: Figure, found: TrendFinding | None) -> TableCell:
    """A figure of the newest night, with its mark where it is worse or better."""
    if found is None:
        return TableCell("–")
    mark = " ▼" if found.state in FAILURES else " ▲" if found.state == "better" else ""
    value = number(f, found.value) + mark
    return TableCell(_state(found.state, value) if mark else value)


def _state(state: str, text: str) -> Markup:
    return tag("span", text, f"state {state.replace(' ', '-')}")


def _series(t: Trend, names: Names, runs: dict[Series, list[SeriesNight]]) -> list[Block]:
    """The drawings of each series of the newest night, those first in which something is worse."""
    worst = {f.series for f in t.regressions} | {a.series for a in t.fresh} | {m.series for m in t.missing}
    tonight = [s for s in runs if runs[s][-1].night == t.newest]
    drawn: list[Block] = []
    for s in sorted(tonight, key=lambda s: (s not in worst, names[s])):
        detail = f"{words.plural(runs[s][-1].runs, 'run')}, {words.plural(len(runs[s]), 'night')}"
        drawn.append(Plots(_plots(t, s, runs[s]), names[s], detail, small=True))
    note = (
        "A point is the median over the runs of a night, the line through it goes from the least to the greatest. The band is where the newest "
        "point was expected: the median of the earlier nights, three times their noise up and down. A figure that is 0 in every night is not "
        "drawn."
    )
    more = [Fold(f"{len(drawn) - DRAWN} more series", drawn[DRAWN:])] if drawn[DRAWN:] else []
    return [*drawn[:DRAWN], *more, Text([note], "note")]


def _plots(t: Trend, s: Series, nights: Sequence[SeriesNight]) -> list[Plot]:
    out = []
    for key in DRAWN_FIGURES:
        line = [p for p in t.points if (p.series, p.figure) == (s, key)]
        finding = next((f for f in t.findings if (f.series, f.figure) == (s, key)), None)
        if any(p.high for p in line):
            out.append(
                Plot(
                    small(BY_KEY[key], line, t.nights, finding),
                    BY_KEY[key].title,
                    _worse(finding.state if finding else ""),
                )
            )
    if any(r.anomalies for r in nights):
        new = len(t.nights) > 1 and any(a.series == s for a in t.fresh)
        out.append(Plot(bars(nights, t.nights), "anomalies", _worse("regression" if new else "")))
    return out


def _worse(state: str) -> str:
    return _state(state, "better" if state == "better" else "worse") if state in (*FAILURES, "better") else ""


def _kinds(t: Trend) -> list[Block]:
    counts = ("operations", "ok", "failed", "unknown", "conflicts", "commits retried", "extra attempts")
    heads = [*counts, "median", "p95", "p99"]
    columns = [*map(TableColumn, ("catalog", "release", "operation")), *(TableColumn(h, right=True) for h in heads)]
    rows = []
    for k in (k for k in t.kinds if k.night == t.newest):
        retried = "–" if k.retry_rate is None else words.share(k.retried, k.known)
        numbers = [words.grouped(n) for n in (k.operations, k.ok, k.failed, k.unknown, k.conflicts)]
        latency = ["–" if v is None else words.duration(v) for v in (k.p50, k.p95, k.p99)]
        rows.append(TableRow([k.catalog, k.iceberg, k.f, *numbers, retried, words.grouped(k.extra), *latency]))
    note = "Retried: of the commits whose number of attempts is known. Latency is that of acknowledged operations. trend.json has every night."
    return [Table(columns, rows, "There were none."), Text([note] if rows else [], "note")]


def _anomalies(t: Trend, names: Names) -> Table:
    columns = [
        *(TableColumn("series"), TableColumn("anomaly")),
        *(TableColumn("times", right=True), TableColumn("runs", right=True), TableColumn("documented")),
        TableColumn("new", right=True, title="not documented, known or allowed"),
    ]
    found = [a for a in t.anomalies if a.night == t.newest]
    rows = [
        (
            names[a.series],
            a.name,
            words.grouped(a.count),
            words.grouped(a.runs),
            "yes" if a.documented else "no",
            words.grouped(a.new),
        )
        for a in found
    ]
    return Table(columns, list(map(TableRow, rows)), "There were none.")


def _refusals(t: Trend) -> list[Block]:
    columns = [
        *map(TableColumn, ("catalog", "release", "refused or aborted", "by a commit of")),
        TableColumn("times", right=True),
    ]
    rows = [TableRow([p.catalog, p.iceberg, p.kind, p.by, words.grouped(p.count)]) for p in t.pairs[:PAIRS]]
    more = f" {words.plural(len(t.pairs) - PAIRS, 'more pair')} in {FILE}.json." if len(t.pairs) > PAIRS else ""
    note = [f"In all nights of this page.{more}"] if rows else []
    return [Table(columns, rows, "Nobody made anybody retry."), Text(note, "note")]


def _numbers(t: Trend, names: Names) -> Table:
    numbers = [TableColumn(name, right=True) for name in ("newest", "before", "noise", "nights")]
    rows = [
        TableRow(
            [
                *(names[f.series], (figure := BY_KEY[f.figure]).title),
                *(number(figure, v) for v in (f.value, f.before, f.noise)),
                *(words.grouped(f.nights), _state(f.state, STATES[f.state])),
            ]
        )
        for f in t.findings
    ]
    columns = [TableColumn("series"), TableColumn("figure"), *numbers, TableColumn("what is said")]
    return Table(columns, rows, "There were none.")
