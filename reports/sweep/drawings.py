"""The drawings of a sweep: curves, groups of bars, one commit taken apart, who made whom retry."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from checkers.costs.attempts import ATTEMPT_PHASES, SORTS, CommitsMeasured
from checkers.costs.comparison import Contender, Spread
from checkers.costs.curves import Axis, Curve, Knee
from checkers.costs.measures import Figure
from reports.drawing import svg, words
from reports.drawing.figures import shown, spread

COLOURS = 6
"""Colours of the style sheet, ``b0`` …; lines beyond repeat them with another mark and a dashed line."""
SHAPES = ("circle", "square", "diamond", "triangle", "down", "plus", "cross")
WIDE, HIGH, LEFT, TOP, BOTTOM = 620, 280, 66, 16, 46
LONGEST_LABEL = 20
"""Characters of a line's name beside its right end."""
BAR_PARTS = ("data", "wait", *ATTEMPT_PHASES)
"""The parts of a bar of one commit, in order, each with a colour."""


@dataclass(frozen=True, slots=True)
class Foretold:
    """A predicted line: number of the measured line whose colour it has, its label, and its points (x, y)."""

    line: int
    label: str
    points: tuple[tuple[float, float], ...]


def colour(n: int) -> str:
    """The class that colours the n-th line."""
    return f"c{n % COLOURS}"


def shape(n: int) -> str:
    """The mark of the n-th line."""
    return SHAPES[n % len(SHAPES)]


def key(n: int) -> Markup:
    """The mark of the n-th line, for the legend."""
    return svg.drawing(
        26,
        12,
        "",
        [
            svg.line(1, 6, 25, 6, f"run {colour(n)}{' again' if n >= COLOURS else ''}"),
            svg.marks(shape(n), [(13, 6)], 4, f"mark {colour(n)}"),
        ],
        "key wide",
    )


def part_key(name: str) -> Markup:
    """The colour of a part of a commit, for the legend."""
    return svg.drawing(26, 12, "", [svg.rect(1, 1, 24, 10, f"part p-{name}")], "key")


def foretold_key() -> Markup:
    """The mark of predicted points, for the legend."""
    drawn = [svg.line(1, 6, 25, 6, "foretold own"), svg.marks("circle", [(13, 6)], 3.2, "hollow own")]
    return svg.drawing(26, 12, "", drawn, "key")


# --- curves -----------------------------------------------------------------------------------------------------------


def curve(
    f: Figure,
    x: Axis,
    lines: Sequence[tuple[int, Curve]],
    knees: Mapping[int, Knee],
    foretold: Sequence[Foretold],
    rows: Mapping[Contender, str],
) -> Markup:
    """A figure along x: a line for each combination of the other parameters, with its range over the seeds as a band.

    Args:
        lines: with their numbers, which give colour and mark.
        knees: number of a line → its knee, which gets a ring.
        rows: contender → the anchor that its mark links to.
    """
    name_of = short({n: line.label for n, line in lines if line.label})
    right = 16 + (7 * min(LONGEST_LABEL, max(map(len, name_of.values()))) if name_of else 8)
    frame = svg.PlotArea(WIDE, HIGH, LEFT, right, TOP, BOTTOM)
    x_of = _x_scale(x, foretold, frame)
    up = _y_scale(f, [p.spread for _, line in lines for p in line.points], foretold, frame)
    parts: list[str] = [
        svg.axis_y(frame, up, _y_labels(f, up), ""),
        svg.axis_x(frame, x_of, _x_labels(_xs(x, foretold), x_of), x.parameter + (", ms" if x.unit else "")),
    ]
    for n, line in lines:
        if len(line.points) > 1 and any(len(p.spread.values) > 1 for p in line.points):
            corners = [(x_of(p.x), up(p.spread.high)) for p in line.points]
            back = [(x_of(p.x), up(p.spread.low)) for p in reversed(line.points)]
            parts.append(svg.element("path", d=_closed([*corners, *back]), class_=f"spread {colour(n)}"))
    for prediction in foretold:
        points = [(x_of(a), up(b)) for a, b in prediction.points]
        tone = colour(prediction.line)
        parts += [
            svg.polyline(points, f"foretold {tone}"),
            svg.marks("circle", points, 3.2, f"hollow {tone}"),
        ]
    for n, line in lines:
        repeated = " again" if n >= COLOURS else ""
        parts.append(
            svg.polyline([(x_of(p.x), up(p.spread.median)) for p in line.points], f"run {colour(n)}{repeated}")
        )
        for p in line.points:
            place = (x_of(p.x), up(p.spread.median))
            inner: list[str] = [svg.title(f"{line.label} {x.parameter}={p.text}: {spread(f, p.spread)}".strip())]
            if n in knees and knees[n].point is p and knees[n].shape == "knee":
                inner.append(svg.element("circle", cx=place[0], cy=place[1], r=9.0, class_=f"knee {colour(n)}"))
            inner.append(svg.line(place[0], up(p.spread.low), place[0], up(p.spread.high), f"range-of {colour(n)}"))
            inner.append(svg.marks(shape(n), [place], 4.2, f"mark {colour(n)}"))
            parts.append(
                svg.element("a", *inner, href=f"#{rows[p.contender]}")
                if p.contender in rows
                else Markup("").join(inner)
            )
    parts += _names(lines, name_of, frame.x1 + 8, up)
    return svg.drawing(WIDE, HIGH, f"{f.title} along {x.parameter}", parts)


def _closed(points: Sequence[svg.Point]) -> str:
    return "M" + "L".join(f"{svg.number(a)} {svg.number(b)}" for a, b in points) + "z"


def _xs(x: Axis, foretold: Sequence[Foretold]) -> list[float]:
    return sorted({*x.values.values(), *(a for prediction in foretold for a, _ in prediction.points)})


def _x_scale(x: Axis, foretold: Sequence[Foretold], frame: svg.PlotArea) -> svg.Scale:
    values = _xs(x, foretold)
    low, high = values[0], values[-1]
    return svg.Scale(low, high, frame.left + 8, frame.x1 - 8, log=low > 0 and high / low > 8)


def _x_labels(values: Sequence[float], x_of: svg.Scale) -> list[tuple[float, str]]:
    """Values as labels, without those that would touch the one before."""
    out: list[tuple[float, str]] = []
    end = float("-inf")
    for v in values:
        label = f"{v:g}"
        half = 3.5 * len(label)
        if x_of(v) - half >= end + 4:
            out.append((v, label))
            end = x_of(v) + half
    return out


def _y_scale(f: Figure, spreads: Sequence[Spread], foretold: Sequence[Foretold], frame: svg.PlotArea) -> svg.Scale:
    values = [v for s in spreads for v in (s.low, s.high)] + [
        b for prediction in foretold for _, b in prediction.points
    ]
    low, high = min(values), max(values)
    if f.unit in ("ms", "s") and low > 0 and high / low > 30:
        return svg.Scale(low * 0.9, high * 1.1, frame.y1, frame.top, log=True)
    top = high * 1.05 or 1.0
    if f.unit == "share":
        top = min(1.0, top)
    return svg.Scale(0.0, top, frame.y1, frame.top)


def _y_labels(f: Figure, up: svg.Scale) -> list[tuple[float, str]]:
    values = svg.log_ticks(up.low, up.high) if up.log else svg.ticks(up.low, up.high, 5)
    return [(v, _plain(f, v)) for v in values]


def _plain(f: Figure, v: float) -> str:
    if f.unit == "share":
        return f"{100 * v:g} %"
    if f.unit in ("ms", "s"):
        return shown(f, v) if v else "0"
    return f"{v:g}"


def short(names: Mapping[int, str]) -> dict[int, str]:
    """Names without the parameter if it is the only one in which they differ: ``none`` for ``backoff=none``."""
    heads = {name.partition("=")[0] for name in names.values()}
    bare = len(heads) == 1 and all(name.count("=") == 1 and " " not in name for name in names.values())
    return {n: name.partition("=")[2] if bare else name for n, name in names.items()}


def _names(
    lines: Sequence[tuple[int, Curve]], name_of: Mapping[int, str], margin: float, up: svg.Scale
) -> list[Markup]:
    """The names of lines at the height of their right ends, moved apart."""
    ends = sorted((up(line.points[-1].spread.median), n) for n, line in lines if n in name_of)
    places = [y for y, _ in ends]
    for k in range(1, len(places)):
        places[k] = max(places[k], places[k - 1] + 13)
    over = max(0.0, (places[-1] if places else 0.0) - (HIGH - BOTTOM))
    for k in range(len(places) - 1, -1, -1):
        limit = places[k + 1] - 13 if k + 1 < len(places) else places[k] - over
        places[k] = min(places[k], limit)
    return [
        svg.text(margin, y + 4, words.shorten(name_of[n], LONGEST_LABEL), f"name {colour(n)}")
        for y, (_, n) in zip(places, ends, strict=True)
    ]


# --- bars -------------------------------------------------------------------------------------------------------------

ROW, NAMES = 22, 190


def bars(f: Figure, groups: Sequence[tuple[str, Sequence[tuple[str, int, Spread, str | None]]]]) -> Markup:
    """A figure of points that have no order: a bar for each to the median, a whisker over the seeds.

    Args:
        groups: name of a group and its bars: label, number of its colour, values, anchor that it links to.
    """
    named = any(name for name, _ in groups)
    height = TOP + BOTTOM + sum(ROW * len(found) + (24 if named else 8) for _, found in groups)
    frame = svg.PlotArea(WIDE, height, NAMES, 84, TOP, BOTTOM)
    most = max(s.high for _, found in groups for _, _, s, _ in found)
    x_of = svg.Scale(0.0, min(1.0, most * 1.05) if f.unit == "share" and most else most * 1.05 or 1.0, NAMES, frame.x1)
    parts: list[str] = [svg.axis_x(frame, x_of, [(v, _plain(f, v)) for v in svg.ticks(0, x_of.high, 5)], "")]
    y = float(TOP)
    for name, found in groups:
        if named:
            parts.append(svg.text(NAMES - 10, y + 15, words.shorten(name, 28), "lane", "end"))
            y += 20
        for label, n, s, anchor in found:
            middle = y + ROW / 2
            inner: list[str] = [
                svg.title(f"{name} {label}: {spread(f, s)}".strip()),
                svg.rect(NAMES, middle - 7, max(x_of(s.median) - NAMES, 1), 14, f"column {colour(n)}", rx=2.0),
                svg.line(x_of(s.low), middle, x_of(s.high), middle, "whisker"),
                svg.line(x_of(s.low), middle - 4, x_of(s.low), middle + 4, "whisker"),
                svg.line(x_of(s.high), middle - 4, x_of(s.high), middle + 4, "whisker"),
            ]
            parts += [
                svg.text(NAMES - 10, middle + 4, words.shorten(label, 28), "tick", "end"),
                svg.element("a", *inner, href=f"#{anchor}") if anchor else Markup("").join(inner),
                svg.text(x_of(s.high) + 7, middle + 4, shown(f, s.median), "tick"),
            ]
            y += ROW
        y += 4 if named else 8
    return svg.drawing(WIDE, height, f"{f.title} of each point", parts)


# --- one commit, taken apart ------------------------------------------------------------------------------------------


def apart(points: Sequence[tuple[str, CommitsMeasured]]) -> Markup | None:
    """Attempts as stacked bars of their phases' means: the first ones and the retries, with a parent read before or not.

    Args:
        points: label and what was measured; those without recorded attempts are left out.
    """
    rows = [
        (label, [(sort, m) for sort in SORTS[2:] if m.phase(sort, "whole") is not None])
        for label, m in points
        if m.taken
    ]
    rows = [(label, found) for label, found in rows if found]
    if not rows:
        return None
    width = 1100
    height = TOP + BOTTOM + sum(26 + ROW * len(found) for _, found in rows)
    frame = svg.PlotArea(width, height, NAMES, 190, TOP, BOTTOM)
    most = max(sum(v for _, v in _stack(m, sort)) for _, found in rows for sort, m in found)
    x_of = svg.Scale(0.0, most * 1.02 or 1.0, NAMES, frame.x1)
    labels = [(v, words.duration(v) if v else "0") for v in svg.ticks(0, x_of.high, 8)]
    parts: list[str] = [svg.axis_x(frame, x_of, labels, "mean of each phase")]
    y = float(TOP)
    for label, found in rows:
        parts.append(svg.text(8, y + 16, words.shorten(label, 60), "lane"))
        y += 24
        for sort, m in found:
            whole = m.phase(sort, "whole")
            assert whole is not None
            start = 0.0
            for name, v in _stack(m, sort):
                if v:
                    tooltip = svg.title(f"{label}, {sort}: {name} {words.duration(v)}")
                    a, b = x_of(start), x_of(start + v)
                    parts.append(svg.rect(a, y + 3, b - a, 15, f"part p-{name}", tooltip))
                start += v
            parts += [
                svg.text(NAMES - 10, y + 14, sort.replace(" ", ", parent "), "tick", "end"),
                svg.text(
                    x_of(start) + 7, y + 14, f"{words.duration(start)} · {words.plural(whole.count, 'attempt')}", "tick"
                ),
            ]
            y += ROW
        y += 2
    return svg.drawing(width, height, "Phases of a first attempt and of a retry", parts)


def _stack(m: CommitsMeasured, sort: str) -> list[tuple[str, float]]:
    found = ((name, m.phase(sort, name)) for name in BAR_PARTS)
    return [(name, q.mean) for name, q in found if q is not None]


# --- writers ----------------------------------------------------------------------------------------------------------


def shares(m: CommitsMeasured) -> Markup | None:
    """Commits of each writer as thin bars, the most first; the line is an even share. None without commits."""
    found = sorted(m.writers.values(), reverse=True)
    if not found or not found[0]:
        return None
    wide = max(2.0, min(12.0, 150 / len(found)))
    even = sum(found) / len(found)
    up = svg.Scale(0, found[0], 26, 2)
    parts: list[str] = [
        svg.rect(n * wide, up(v), max(wide - 1, 1), 26 - up(v), "column c3", svg.title(words.plural(v, "commit")))
        for n, v in enumerate(found)
    ]
    parts.append(svg.line(0, up(even), wide * len(found), up(even), "even"))
    label = f"Commits of {words.plural(len(found), 'writer')}: {found[0]} to {found[-1]}"
    return svg.drawing(wide * len(found), 27, label, parts, "spark")


def refusal_grid(m: CommitsMeasured) -> Markup | None:
    """Who made whom retry, writer by writer: a row for each that was refused, a column for each that was current. None if nobody was."""
    every = sorted(
        {*m.beaten_writers, *(w for beaten in m.beaten_writers.values() for w in beaten), *m.writers}, key=_number
    )
    if not m.beaten_writers or len(every) > 64:
        return None
    cell = 18 if len(every) <= 24 else 11
    most = max(n for beaten in m.beaten_writers.values() for n in beaten.values())
    margin, top = 64, 34
    size = cell * len(every)
    step = 1 if cell >= 18 else 5
    parts: list[str] = []
    for n, w in enumerate(every):
        if n % step == 0:
            parts += [
                svg.text(margin - 6, top + n * cell + cell * 0.75, words.shorten(w, 9), "tick", "end"),
                svg.text(margin + n * cell + cell / 2, top - 6, words.shorten(w, 4), "tick", "middle"),
            ]
        for k, owner in enumerate(every):
            count = m.beaten_writers.get(w, {}).get(owner, 0)
            tooltip = svg.title(f"{w} met a commit of {owner} {words.plural(count, 'time')}")
            box = svg.rect(
                margin + k * cell, top + n * cell, cell - 1, cell - 1, "heat none" if not count else "heat", tooltip
            )
            parts.append(box if not count else _shaded(box, count / most))
    return svg.drawing(margin + size + 8, top + size + 8, "Who made whom retry, writer by writer", parts)


def _shaded(box: Markup, share: float) -> Markup:
    return svg.element("g", box, fill_opacity=f"{0.15 + 0.85 * share:.2f}")


def _number(writer: str) -> tuple[int, str]:
    digits = writer.lstrip("w")
    return (int(digits) if digits.isdigit() else 1 << 30, writer)
