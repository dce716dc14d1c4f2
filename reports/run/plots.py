"""The plots of a run's page: drawings of operations, commits and faults.

Colour shows the outcome, shape the class of operation, and fill repeats the outcome for readers and printers without colour (ok is
filled, fail is an outline, info is filled with an outline). The plots over time share one x axis and are placed one above the other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from checkers.costs import figures
from checkers.costs.figures import OUTCOMES
from checkers.evidence.history import Operation
from checkers.evidence.tablelog import Commit, TableLog
from reports.drawing import svg
from reports.drawing.svg import PlotArea, Scale
from reports.drawing.words import duration, shorten
from reports.run import bands as measure
from reports.run.bands import Band, TimeMark

WIDTH = 1120.0
LEFT, RIGHT = 64.0, 72.0

SHAPES = {
    "read": "circle",
    "insert": "triangle",
    "update": "square",
    "delete": "down",
    "merge": "diamond",
    "overwrite": "plus",
    "maintenance": "cross",
}

COMMIT_SHAPES = {"append": "triangle", "overwrite": "square", "delete": "down", "replace": "circle"}

MOST_POINTS = 5000
MOST_MARKED_COMMITS = 1200
MOST_BARS = 12
MOST_BANDS = 300


def legend_mark(shape: str, class_: str) -> Markup:
    """One mark, for a legend in the text."""
    return svg.drawing(12, 12, "", [svg.marks(shape, [(6, 6)], 3.4, class_)], "key")


def legend_area(class_: str) -> Markup:
    """A filled square, for a legend of areas."""
    return svg.drawing(12, 12, "", [svg.rect(0, 0, 12, 12, f"area {class_}")], "key")


# --- time -------------------------------------------------------------------------------------------------------------


def _time_scale(frame: PlotArea, end_s: float) -> tuple[Scale, list[tuple[float, str]], str]:
    unit, name = (1.0, "s") if end_s < 300 else (60.0, "min") if end_s < 3 * 3600 else (3600.0, "h")
    end_s = max(end_s, 1e-3)
    values = svg.ticks(0, end_s / unit, 12)
    labels = [(v * unit, f"{v:g}") for v in (round(v, 9) for v in values)]
    return Scale(0, end_s, frame.left, frame.x1), labels, f"time since start, {name}"


def _nemesis(frame: PlotArea, x: Scale, bands: Sequence[Band], marks: Sequence[TimeMark]) -> list[Markup]:
    """Faults as translucent bars stacked from the top edge, each a twelfth of the height; phases as dashed lines."""
    rows = _rows(bands)
    height = (frame.y1 - frame.top) / 12
    out: list[Markup] = []
    for b in bands[:MOST_BANDS]:
        y = frame.top + (rows[b.name] % 12) * height
        x0, x1 = x(b.start), x(b.end)
        what = svg.title(f"{b.name}: {b.start:.1f} to {b.end:.1f} s")
        out.append(svg.rect(x0, y, max(1.5, x1 - x0), height, f"band b{rows[b.name] % 6}", what))
        out += [svg.line(at, frame.top, at, frame.y1, "band-edge") for at in (x0, x1)]
    out += [svg.line(x(m.at), frame.top, x(m.at), frame.y1, "phase") for m in marks[:MOST_BANDS]]
    return out


def _nemesis_names(frame: PlotArea, x: Scale, bands: Sequence[Band], marks: Sequence[TimeMark]) -> list[Markup]:
    """The names for :func:`_nemesis`, to be drawn last: each fault's once, phases' where there is room."""
    height = (frame.y1 - frame.top) / 12
    out: list[Markup] = []
    for name, row in _rows(bands).items():
        at = x(next(b.start for b in bands if b.name == name))
        right = at > frame.x1 - 160
        y = frame.top + (row % 12 + 0.5) * height + 3.5
        out.append(svg.text(at - 4 if right else at + 4, y, shorten(name, 40), "band-name", "end" if right else None))
    # From the right: of marks close together, the last one names the interval that follows.
    free = frame.x1
    for m in reversed(marks[:MOST_BANDS]):
        at, name = x(m.at), shorten(m.name, 24)
        length = 8 + 5.6 * len(name)
        if at + length <= free:
            out.append(svg.text(at + 3, frame.top - 4, name, "phase-name"))
            free = at
        elif free == frame.x1 and at - length > frame.left:
            out.append(svg.text(at - 3, frame.top - 4, name, "phase-name", "end"))
            free = at - length
    return out


def _rows(bands: Sequence[Band]) -> dict[str, int]:
    return {name: n for n, name in enumerate(dict.fromkeys(b.name for b in bands[:MOST_BANDS]))}


def sample(operations: Sequence[Operation], most: int) -> list[Operation]:
    """At most about ``most`` completed operations: the slowest, then evenly spaced ones of each outcome, in proportion to
    its frequency.

    A rare outcome gets at least a tenth of ``most``: readers look for these.
    """
    done = [o for o in operations if o.completed is not None]
    if len(done) <= most:
        return done
    slowest = sorted(done, key=lambda o: -(figures.latency_ms(o) or 0))[: most // 50]
    kept = {o.op for o in slowest}
    for outcome in OUTCOMES:
        group = [o for o in done if o.type == outcome and o.op not in kept]
        room = max(most // 10, most * len(group) // len(done))
        kept.update(o.op for o in group[:: -(-len(group) // room) or 1])
    return [o for o in done if o.op in kept]


@dataclass(frozen=True, slots=True)
class Sampled:
    """A drawing, and how much of the data it shows."""

    drawing: Markup
    shown: int
    of: int


def latency_over_time(
    operations: Sequence[Operation], bands: Sequence[Band], marks: Sequence[TimeMark], end_s: float
) -> Sampled | None:
    """One mark for each operation: x is its invocation, y the log of its latency. None when none completed."""
    shown = sample(operations, MOST_POINTS)
    total = sum(o.completed is not None for o in operations)
    if not shown:
        return None
    frame = PlotArea(WIDTH, 380, LEFT, RIGHT, 34, 36)
    values = [max(0.1, figures.latency_ms(o) or 0) for o in shown]
    x, labels, name = _time_scale(frame, end_s)
    y = Scale(min(values) * 0.8, max(values) * 1.25, frame.y1, frame.top, log=True)
    parts = [
        *_nemesis(frame, x, bands, marks),
        svg.axis_x(frame, x, labels, name),
        svg.axis_y(frame, y, [(v, duration(v)) for v in svg.log_ticks(y.low, y.high)], "latency"),
    ]
    groups: dict[tuple[str, str], list[svg.Point]] = {}
    for o, v in zip(shown, values, strict=True):
        groups.setdefault((o.type, measure.operation_class(o.f)), []).append((x(o.start / 1e9), y(v)))
    radius = 3.2 if len(shown) < 1500 else 2.3
    for outcome in OUTCOMES:
        for kind in measure.BAND_CLASSES:
            if (outcome, kind) in groups:
                parts.append(svg.marks(SHAPES[kind], groups[outcome, kind], radius, f"pt {outcome}"))
    parts += _nemesis_names(frame, x, bands, marks)
    return Sampled(svg.drawing(frame.width, frame.height, "Latency of operations over time", parts), len(shown), total)


def throughput(
    operations: Sequence[Operation], bands: Sequence[Band], marks: Sequence[TimeMark], end_s: float
) -> tuple[Markup, float] | None:
    """Completions per second, stacked by outcome, and the width of a bucket in s. None without operations."""
    if not operations:
        return None
    width = figures.bucket_width(end_s, 120)
    buckets = figures.rates(operations, end_s, width)
    frame = PlotArea(WIDTH, 190, LEFT, RIGHT, 24, 36)
    x, labels, name = _time_scale(frame, end_s)
    highest = max(sum(b.values()) for b in buckets) or 1.0
    y = Scale(0, highest * 1.05, frame.y1, frame.top)
    parts = [
        *_nemesis(frame, x, bands, marks),
        svg.axis_x(frame, x, labels, name),
        svg.axis_y(frame, y, [(v, f"{v:g}") for v in svg.ticks(0, highest * 1.05, 4)], "ops/s"),
    ]
    areas: dict[str, list[str]] = {outcome: [] for outcome in OUTCOMES}
    for n, bucket in enumerate(buckets):
        below = 0.0
        x0, x1 = x(n * width), x((n + 1) * width)
        for outcome in OUTCOMES:
            if bucket[outcome]:
                areas[outcome].append(_bar(x0, max(x0 + 1, x1 - 0.8), y(below + bucket[outcome]), y(below)))
                below += bucket[outcome]
    parts += [svg.element("path", d="".join(d), class_=f"area {o}") for o, d in areas.items() if d]
    return svg.drawing(frame.width, frame.height, "Throughput over time", parts), width


QUANTILES = ((0.5, "p50"), (0.95, "p95"), (0.99, "p99"), (1.0, "max"))


def quantiles_over_time(
    operations: Sequence[Operation], bands: Sequence[Band], marks: Sequence[TimeMark], end_s: float
) -> tuple[Markup, float] | None:
    """Latency quantiles of acknowledged operations in windows, and a window's width in s. None if there are none."""
    acknowledged = sum(o.type == "ok" for o in operations)
    width = figures.bucket_width(end_s, max(4, min(40, acknowledged // 25)))  # a p95 of fewer is just the maximum
    found = figures.windows(operations, end_s, width, [q for q, _ in QUANTILES])
    if not found:
        return None
    frame = PlotArea(WIDTH, 230, LEFT, RIGHT, 24, 36)
    x, labels, name = _time_scale(frame, end_s)
    values = [max(0.1, v) for _, vs in found for v in vs]
    y = Scale(min(values) * 0.8, max(values) * 1.25, frame.y1, frame.top, log=True)
    parts = [
        *_nemesis(frame, x, bands, marks),
        svg.axis_x(frame, x, labels, name),
        svg.axis_y(frame, y, [(v, duration(v)) for v in svg.log_ticks(y.low, y.high)], "latency"),
    ]
    ends: list[tuple[float, str, str]] = []
    for n, (_, label) in enumerate(QUANTILES):
        points = [(x(at), y(max(0.1, vs[n]))) for at, vs in found]
        if len(points) == 1:
            parts.append(svg.marks("circle", points, 3, f"quantile-dot {label}"))
        parts.append(svg.polyline(points, f"quantile {label}"))
        ends.append((points[-1][1], label, label))
    at = frame.top - 100.0
    for place, label, class_ in sorted(ends):
        at = max(at + 12, place + 3.5)
        parts.append(svg.text(frame.x1 + 8, at, label, f"quantile-name {class_}"))
    return svg.drawing(frame.width, frame.height, "Latency quantiles over time", parts), width


# --- commits ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CommitPlot:
    """A drawing of commits; ``bucket_s`` is the width of a bar if there are too many commits for single marks, else None."""

    drawing: Markup
    bucket_s: float | None


COMMIT_STATES = ("first", "retried", "off")
"""A commit's colour: won at the first attempt, at a later one, not on main at the end."""


def commits_over_time(
    logs: Mapping[str, TableLog],
    origin_ms: float | None,
    bands: Sequence[Band],
    marks: Sequence[TimeMark],
    end_s: float,
) -> CommitPlot | None:
    """One lane for each table: a mark for each snapshot (its shape is the operation), or bars that count many snapshots.

    None when there is no commit, or none that fits on the run's clock.
    """
    total = sum(len(log.commits) for log in logs.values())
    if not total or origin_ms is None:
        return None
    bucket = None if total <= MOST_MARKED_COMMITS else figures.bucket_width(end_s, 120)
    lane = 30.0 if bucket is None else 46.0
    left = max(LEFT, 22 + 6.6 * max(min(20, len(table)) for table in logs))
    frame = PlotArea(WIDTH, 30 + lane * len(logs) + 36, left, RIGHT, 24, 36)
    x, labels, name = _time_scale(frame, end_s)
    parts = [*_nemesis(frame, x, bands, marks), svg.axis_x(frame, x, labels, name)]
    lanes = {table: _by_state(log, origin_ms) for table, log in logs.items()}
    counts = {table: _count(found, bucket) for table, found in lanes.items()} if bucket else {}
    highest = max((sum(n.values()) for c in counts.values() for n in c.values()), default=1)
    for n, (table, found) in enumerate(lanes.items()):
        y = frame.top + lane * (n + (0.6 if bucket is None else 0.98))
        parts.append(svg.line(left, y, frame.x1, y, "grid"))
        parts.append(svg.text(left - 12, y + (4 if bucket is None else -6), shorten(table, 20), "lane", "end"))
        if bucket is None:
            groups: dict[tuple[str, str], list[svg.Point]] = {}
            for state, at, operation in found:
                groups.setdefault((state, COMMIT_SHAPES.get(operation, "plus")), []).append((x(at), y))
            for key in sorted(groups, key=lambda k: COMMIT_STATES.index(k[0])):
                parts.append(svg.marks(key[1], groups[key], 3.6, f"commit {key[0]}"))
        else:
            parts += _bars(counts[table], bucket, x, y, (lane - 6) / highest)
    return CommitPlot(svg.drawing(frame.width, frame.height, "Commits per table over time", parts), bucket)


def _by_state(log: TableLog, origin_ms: float) -> list[tuple[str, float, str]]:
    on_main = {c.snapshot_id for c in log.main()}

    def state(c: Commit) -> str:
        return "off" if c.snapshot_id not in on_main else "retried" if (c.attempt or 1) > 1 else "first"

    return [(state(c), max(0.0, c.timestamp_ms - origin_ms) / 1000, c.operation) for c in log.commits]


def _count(found: Iterable[tuple[str, float, str]], bucket_s: float) -> dict[int, Counter[str]]:
    out: dict[int, Counter[str]] = {}
    for state, at, _ in found:
        out.setdefault(int(at / bucket_s), Counter())[state] += 1
    return out


def _bars(
    counts: Mapping[int, Counter[str]], bucket_s: float, x: Scale, base: float, per_commit: float
) -> list[Markup]:
    areas: dict[str, list[str]] = {state: [] for state in COMMIT_STATES}
    for n, states in sorted(counts.items()):
        below = base
        x0, x1 = x(n * bucket_s), x((n + 1) * bucket_s)
        for state in COMMIT_STATES:
            if states[state]:
                top = below - states[state] * per_commit
                areas[state].append(_bar(x0, max(x0 + 1, x1 - 0.8), top, below))
                below = top
    return [svg.element("path", d="".join(d), class_=f"area {state}") for state, d in areas.items() if d]


def _bar(x0: float, x1: float, top: float, bottom: float) -> str:
    return f"M{svg.number(x0)} {svg.number(top)}H{svg.number(x1)}V{svg.number(bottom)}H{svg.number(x0)}z"


def sparkline(values: Sequence[int]) -> Markup:
    """A line of 110 x 22 px from 0 to the largest value."""
    if len(values) < 2:
        return Markup("")
    stride = -(-len(values) // 110)
    kept = [*values[::stride], values[-1]]
    x, y = Scale(0, len(kept) - 1, 1, 109), Scale(0, max(1, *kept), 21, 2)
    points = [(x(n), y(v)) for n, v in enumerate(kept)]
    return svg.drawing(110, 22, "Live rows, commit by commit", [svg.polyline(points, "spark")], "spark")
