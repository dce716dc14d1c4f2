"""The drawings of a night: its runs in time, and memory and disk over time."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from markupsafe import Markup

from checkers.nights.night import Night
from checkers.nights.record import NightRun, Sample
from reports.drawing import svg, words
from reports.soak import places
from reports.soak.words import CLASSES, findings

WIDE, LEFT, RIGHT, TOP, BOTTOM = 1100, 190, 20, 18, 40
LANE, BAR = 20, 12
SMALL, HIGH, AXIS, ENDS = 540, 130, 46, 110
"""A plot of memory or disk: its size, and what stands left and right of its curves."""
GB = 1e9


def _hours(most: float, frame: svg.PlotArea, ticks: int = 12) -> tuple[svg.Scale, Markup]:
    """The axis of the time of the night, from 0 to ``most`` seconds."""
    unit, name = (3600.0, "hours") if most >= 7200 else (60.0, "minutes")
    scale = svg.Scale(0.0, max(most, unit / 60) / unit, frame.left, frame.x1)
    labels = [(v, f"{v:g}") for v in svg.ticks(0.0, scale.high, ticks)]
    return svg.Scale(0.0, scale.high * unit, frame.left, frame.x1), svg.axis_x(frame, scale, labels, name)


def timeline(night: Night, href: Callable[[NightRun], str | None]) -> Markup | None:
    """A bar for each run, in the lane of its catalog and release; None without a run.

    Args:
        href: the link of a run.
    """
    drawn = [x for x in night.lines if x.took or x.number is None]
    if not drawn:
        return None
    stacks = list(dict.fromkeys(places.lane(night, c) for c in (*night.cells, *(x.cell for x in drawn))))
    frame = svg.PlotArea(WIDE, TOP + LANE * len(stacks) + BOTTOM, LEFT, RIGHT, TOP, BOTTOM)
    hour_scale, axis = _hours(night.used, frame)
    parts: list[str] = [axis]
    for n, name in enumerate(stacks):
        parts.append(svg.text(LEFT - 8, TOP + LANE * n + LANE / 2 + 4, words.shorten(name, 28), "lane", "end"))
    for line in drawn:
        y = TOP + LANE * stacks.index(places.lane(night, line.cell)) + (LANE - BAR) / 2
        shown = night.showed(line)
        x = hour_scale(max(0.0, line.used - line.took))
        what = findings(night, line) or line.reason or "valid"
        label = f"{places.of(night, line.cell)}, seed {line.seed}: {shown}, {words.shorten(what, 200)}"
        bar = svg.rect(x, y, max(1.5, hour_scale(line.used) - x - 0.5), BAR, f"ran {CLASSES[shown]}", svg.title(label))
        link = href(line)
        parts.append(svg.element("a", bar, href=link) if link else bar)
    return svg.drawing(WIDE, frame.height, "the runs of the night in time", parts)


def _plot(most: float, curves: Sequence[tuple[str, str, Sequence[svg.Point]]], label: str) -> Markup:
    """Curves of gigabytes over the seconds of the night: (name, class, points)."""
    frame = svg.PlotArea(SMALL, HIGH, AXIS, ENDS, TOP, BOTTOM)
    hour_scale, axis = _hours(most, frame, 6)
    top = max((y for _, _, points in curves for _, y in points), default=0.0) or 1.0
    up = svg.Scale(0.0, top * 1.08, frame.y1, frame.top)
    parts: list[str] = [axis, svg.axis_y(frame, up, [(v, f"{v:g}") for v in svg.ticks(0.0, up.high, 3)], "GB")]
    ends: list[float] = []
    for name, tone, points in curves:
        if points:
            parts.append(svg.polyline([(hour_scale(x), up(y)) for x, y in points], f"run {tone}"))
            y = up(points[-1][1]) + 4
            while any(abs(y - other) < 13 for other in ends):
                y -= 13
            ends.append(y)
            parts.append(svg.text(frame.x1 + 8, y, name, f"name {tone}"))
    return svg.drawing(SMALL, HIGH, label, parts)


def memory(night: Night) -> Markup | None:
    """Memory of the soak's own process, after each run, and of all its processes, over time; None without a sample."""
    own = [(s.used, s.rss / GB) for s in night.samples]
    every = [(s.used, s.memory / GB) for s in night.samples]
    if not own:
        return None
    return _plot(
        night.used, [("all processes", "c0", thinned(every)), ("the soak itself", "c3", thinned(own))], "memory"
    )


def disk(night: Night) -> Markup | None:
    """The night's folder and what is free on its disk, over time; None without a sample."""
    found: tuple[Sample, ...] = night.samples
    if not found:
        return None
    sizes = [(s.used, s.disk / GB) for s in found]
    free = [(s.used, s.free / GB) for s in found]
    return _plot(night.used, [("free", "c2", thinned(free)), ("the night's folder", "c0", thinned(sizes))], "disk")


MOST_POINTS = 600


def thinned(points: Sequence[svg.Point]) -> list[svg.Point]:
    """At most about :data:`MOST_POINTS` points: of each stretch the lowest and the highest."""
    if len(points) <= MOST_POINTS:
        return list(points)
    width = -(-2 * len(points) // MOST_POINTS)
    out: list[svg.Point] = []
    for n in range(0, len(points), width):
        part = points[n : n + width]
        out += sorted({min(part, key=lambda p: p[1]), max(part, key=lambda p: p[1])})
    return out
