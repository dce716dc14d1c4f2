"""A sweep as curves: one parameter along x, a line for each combination of the others, a figure along y.

**The axis** is the parameter whose values are all numbers and of which there are most; of several such, the first. Numbers may have a unit of
time (``5ms``, ``2s``, ``1min``). A sweep of names, such as policies of backoff, has no axis and no lines.

**The knee** is where a line stops growing. It walks along the axis and keeps the best point so far. A point replaces it if its median is at
least 10 % above and, if both have three runs or more, their ranges over the seeds do not overlap
(:func:`~checkers.costs.comparison.apart`). The point that is kept at the end is the knee. Slow growth adds up, as each point is compared
with the best one and not with its neighbour.

**The ceiling** is named by where the writers' time goes at the right end of a line that stopped growing, first match:

========= ===================================================================================================================
idle      writers spend less than half of their time in operations: the workload's own pace is the limit
pointer   the attempts that won cover 70 % of the time or more, from the end of their refresh to the answer. They cannot
          overlap on one table, as an attempt wins only if no other commit comes in between: more writers cannot help
a phase   the phase of an operation in which writers spend most of their time: ``wait`` (backoff), ``data`` (data files),
          ``swap`` (the catalog), …
========= ===================================================================================================================
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal

from checkers.costs.attempts import CommitsMeasured, merged
from checkers.costs.comparison import FEWEST_RUNS, Comparison, Contender, Spread, apart, engines_label
from checkers.evidence.replace import replace

GAIN = 0.10
"""The growth that counts, as a share."""
IDLE_BELOW = 0.5
"""Share of writers' time in operations below which they are idle."""
FULL = 0.7
"""Share of the time that winning attempts cover, from which on the pointer is the ceiling."""
FEW = 20
"""Commits of a run below which its shares say little."""

Varied = tuple[tuple[str, str], ...]
_NUMBER = re.compile(r"(\d+(?:\.\d+)?)(ms|s|min|m|h)?")
_MS = {"ms": 1.0, "s": 1000.0, "min": 60_000.0, "m": 60_000.0, "h": 3_600_000.0}


@dataclass(frozen=True, slots=True)
class Predicted:
    """What a model says of one point of a sweep.

    Attributes:
        varied: as :func:`place` gives it for a contender.
        figures: key of a figure → its value, in the figure's unit.
        measured: whether runs measured the same point.
        error: key of a figure → (predicted - measured) / measured; without those that were not measured, or measured as 0.
        reason: why it is far from what was measured; empty if it is near, or was not measured.
    """

    varied: Varied
    figures: Mapping[str, float]
    measured: bool
    error: Mapping[str, float]
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Axis:
    """The parameter along x.

    Attributes:
        unit: ``ms``, or empty for plain numbers.
        values: as typed → number, in ascending order.
    """

    parameter: str
    unit: str
    values: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """One contender on a line: ``text`` is x as typed."""

    x: float
    text: str
    contender: Contender
    spread: Spread


@dataclass(frozen=True, slots=True)
class Curve:
    """The points of one combination of the other parameters, by x; ``label`` is empty if there is one line only."""

    label: str
    points: tuple[CurvePoint, ...]


def parameters(contenders: Sequence[Contender]) -> dict[str, tuple[str, ...]]:
    """Parameter → its values as typed, both in order."""
    found: dict[str, dict[str, None]] = {}
    for c in contenders:
        for name, value in c.varied:
            found.setdefault(name, {})[value] = None
    return {name: tuple(values) for name, values in found.items()}


def numbers(values: Sequence[str]) -> tuple[dict[str, float], str] | None:
    """Numbers of values as typed and their unit; None unless all are numbers of one kind. Zero needs no unit."""
    matches = [_NUMBER.fullmatch(v.strip()) for v in values]
    if not values or not all(matches):
        return None
    found = [(v, float(m[1]), m[2]) for v, m in zip(values, matches, strict=True) if m is not None]
    timed = any(unit for _, _, unit in found)
    if timed and any(n and not unit for _, n, unit in found):
        return None
    plain = {v: n * _MS.get(unit or "", 1.0) for v, n, unit in found}
    return dict(sorted(plain.items(), key=lambda kv: kv[1])), "ms" if timed else ""


def axis(contenders: Sequence[Contender]) -> Axis | None:
    """The parameter along x; None if no parameter has two numbers or more."""
    best: Axis | None = None
    for name, values in parameters(contenders).items():
        found = numbers(values)
        if found is not None and len(set(found[0].values())) > max(1, len(best.values) if best else 0):
            best = Axis(name, found[1], found[0])
    return best


def without(c: Contender, parameter: str) -> Contender:
    """A contender without one parameter: all contenders of a line agree in it."""
    return replace(c, varied=tuple((k, v) for k, v in c.varied if k != parameter))


def place(c: Contender, every: Sequence[Contender]) -> Varied:
    """What is varied of a contender, as predictions name it: its catalog, too, if there are several."""
    return (("catalog", c.catalog), *c.varied) if len({x.catalog for x in every}) > 1 else c.varied


def value(c: Contender | Predicted, parameter: str) -> str | None:
    """The value of a parameter as typed; None if it is not varied."""
    return dict(c.varied).get(parameter)


def label(contender: Contender, every: Sequence[Contender]) -> str:
    """In what a contender differs from others: catalog, release, engines, ``parameter=value``; empty if in nothing."""
    words: list[tuple[str, set[str | None]]] = [
        (contender.catalog, {c.catalog for c in every}),
        (contender.iceberg, {c.iceberg for c in every}),
        (engines_label(contender.engines), {engines_label(c.engines) for c in every}),
        *((f"{k}={v}", {value(c, k) for c in every}) for k, v in contender.varied),
    ]
    return " ".join(text for text, all_of_them in words if len(all_of_them) > 1)


def groups(c: Comparison, x: Axis) -> list[tuple[str, list[Contender]]]:
    """Label of each line and its contenders by x, in the order of the contenders."""
    group: dict[Contender, list[Contender]] = {}
    for contender in c.contenders:
        if value(contender, x.parameter) in x.values:
            group.setdefault(without(contender, x.parameter), []).append(contender)
    every = list(group)
    return [
        (label(key, every), sorted(found, key=lambda contender: x.values[value(contender, x.parameter) or ""]))
        for key, found in group.items()
    ]


def lines(c: Comparison, key: str, x: Axis) -> list[Curve]:
    """The lines of a figure; points without a value and lines without points are left out."""
    out = []
    for name, found in groups(c, x):
        points = []
        for contender in found:
            text, spread = value(contender, x.parameter) or "", c.spreads.get((key, contender))
            if spread is not None:
                points.append(CurvePoint(x.values[text], text, contender, spread))
        if points:
            out.append(Curve(name, tuple(points)))
    return out


# --- the knee ---------------------------------------------------------------------------------------------------------

Shape = Literal["grows", "knee", "flat"]


@dataclass(frozen=True, slots=True)
class Knee:
    """Where a line stops growing.

    Attributes:
        point: the last point that counts as growth; the first point if there is none.
        shape: ``grows``: ``point`` is the right end, so the knee was not reached; ``flat``: the line never grows; else ``knee``.
        change: of the median from ``point`` to the right end, as a share: -0.3 for 30 % less.
        falls: whether that is a loss of 10 % or more, and more than noise.
        certain: whether every point has the runs that tell growth from noise.
    """

    point: CurvePoint
    shape: Shape
    change: float
    falls: bool
    certain: bool


def knee(line: Curve) -> Knee | None:
    """The knee of a figure of which more is better; None for fewer than two points."""
    points = line.points
    if len(points) < 2:
        return None
    point = points[0]
    for p in points[1:]:
        if more(p.spread, point.spread):
            point = p
    last = points[-1]
    shape: Shape = "grows" if point is last else "flat" if point is points[0] else "knee"
    start, end = point.spread.median, last.spread.median
    return Knee(
        point,
        shape,
        (end - start) / start if start else 0.0,
        end <= (1 - GAIN) * start and end < start and apart(last.spread, point.spread) is not False,
        all(len(p.spread.values) >= FEWEST_RUNS for p in points),
    )


def more(spread: Spread, other: Spread) -> bool:
    """Whether a number grew by 10 % or more, and, if there are runs enough to tell, by more than noise."""
    grew = spread.median > other.median and spread.median >= (1 + GAIN) * other.median
    return grew and apart(spread, other) is not False


def scaling(line: Curve) -> list[tuple[CurvePoint, float]]:
    """Each point's median, divided by what the first point's would be if it grew with x: 1 is linear. Empty if x begins at 0."""
    if not line.points or not line.points[0].x or not line.points[0].spread.median:
        return []
    each = line.points[0].spread.median / line.points[0].x
    return [(p, p.spread.median / (each * p.x)) for p in line.points]


# --- the ceiling, and what says nothing -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Ceiling:
    """What limits a line.

    Attributes:
        what: ``idle``, ``pointer`` or a phase of :data:`checkers.costs.attempts.TIMES`.
        share: of the writers' time (``pointer``: of the run's time), 0 … 1.
        most: commits a second to one table if winning attempts of this length (median) followed one another without a gap; None if
            no attempt was recorded.
    """

    what: str
    share: float
    most: float | None


def ceiling(measured: Sequence[CommitsMeasured]) -> Ceiling | None:
    """The ceiling that the runs of one point show; None if they recorded no attempts."""
    detailed = [m for m in measured if m.detailed]
    if not detailed:
        return None
    m = merged(detailed)
    most = 1000 / m.window_ms if m.window_ms else None
    if m.busy < IDLE_BELOW:
        return Ceiling("idle", 1 - m.busy, most)
    if m.occupied is not None and m.occupied >= FULL:
        return Ceiling("pointer", min(1.0, m.occupied), most)
    whole = sum(m.time.values())
    if not whole:
        return None
    what = max(m.time, key=lambda k: m.time[k])
    return Ceiling(what, m.time[what] / whole, most)


Silence = Literal["idle", "no retries", "few commits"]
"""Why a point says nothing about conflicts."""


def silent(measured: Sequence[CommitsMeasured]) -> tuple[Silence, ...]:
    """Why the runs of a point say nothing about conflicts between writers; empty if they do."""
    if not measured:
        return ()
    found: list[Silence] = []
    if median(m.commits for m in measured) < FEW:
        found.append("few commits")
    if all(m.commits for m in measured) and not any(m.retries_mean or m.aborted for m in measured):
        found.append("no retries")
    if median(m.busy for m in measured) < IDLE_BELOW:
        found.append("idle")
    return tuple(found)


def committing(c: Comparison, contender: Contender) -> list[CommitsMeasured]:
    """What the runs of a contender measured of their commits, by seed."""
    return [m.attempts for m in c.measured(contender) if m.attempts is not None]
