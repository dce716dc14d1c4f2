"""Hand-written SVG: elements, scales, axes and marks. Independent of runs.

All drawings are inline in the page and take their colours from its style sheet (classes, never colour values), so that light, dark
and print share one drawing. Coordinates are pixels of the viewBox, y down.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

Point = tuple[float, float]


def number(value: float) -> str:
    """A coordinate with at most one decimal, to keep pages with thousands of points small."""
    text = f"{value:.1f}"
    return text[:-2] if text.endswith(".0") else text


def element(name: str, /, *children: str, **attributes: object) -> Markup:
    """An element. Attribute ``class_`` is ``class``; other ``_`` become ``-``; None leaves an attribute out.

    Children that are not Markup are escaped, attribute values always are.
    """
    parts = [f"<{name}"]
    for key, value in attributes.items():
        if value is not None:
            text = number(value) if isinstance(value, float) else str(value)
            parts.append(f' {key.rstrip("_").replace("_", "-")}="{escape(text)}"')
    if not children:
        return Markup("".join(parts) + "/>")
    return Markup("".join(parts) + ">" + "".join(escape(c) for c in children) + f"</{name}>")


def text(x: float, y: float, label: str, class_: str | None = None, anchor: str | None = None) -> Markup:
    """A text element; ``anchor`` is start (default), middle or end."""
    return element("text", label, x=float(x), y=float(y), class_=class_, text_anchor=anchor)


def line(x1: float, y1: float, x2: float, y2: float, class_: str) -> Markup:
    """A straight line."""
    return element("line", x1=float(x1), y1=float(y1), x2=float(x2), y2=float(y2), class_=class_)


def rect(
    x: float, y: float, width: float, height: float, class_: str, *children: str, rx: float | None = None
) -> Markup:
    """A rectangle; a child may be its ``title``."""
    return element(
        "rect",
        *children,
        x=float(x),
        y=float(y),
        width=float(max(0, width)),
        height=float(max(0, height)),
        class_=class_,
        rx=rx,
    )


def title(label: str) -> Markup:
    """The tooltip of the parent element."""
    return element("title", label)


def polyline(points: Iterable[Point], class_: str) -> Markup:
    """An open line through the points."""
    return element("polyline", points=" ".join(f"{number(x)},{number(y)}" for x, y in points), class_=class_)


# --- marks ------------------------------------------------------------------------------------------------------------


def _r(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".").replace("-0.", "-.").removeprefix("0") or "0"


def mark(shape: str, x: float, y: float, r: float) -> str:
    """Path data of one mark of about radius ``r``: circle, square, diamond, triangle, down, plus or cross."""
    if shape == "circle":
        return f"M{number(x - r)} {number(y)}a{_r(r)} {_r(r)} 0 1 0 {_r(2 * r)} 0a{_r(r)} {_r(r)} 0 1 0 {_r(-2 * r)} 0z"
    if shape == "square":
        s = r * 0.9
        return f"M{number(x - s)} {number(y - s)}h{_r(2 * s)}v{_r(2 * s)}h{_r(-2 * s)}z"
    if shape == "diamond":
        s = r * 1.25
        return f"M{number(x)} {number(y - s)}l{_r(s)} {_r(s)} {_r(-s)} {_r(s)} {_r(-s)} {_r(-s)}z"
    if shape == "triangle":
        s = r * 1.15
        return f"M{number(x)} {number(y - s)}l{_r(s)} {_r(2 * s)}h{_r(-2 * s)}z"
    if shape == "down":
        s = r * 1.15
        return f"M{number(x)} {number(y + s)}l{_r(s)} {_r(-2 * s)}h{_r(-2 * s)}z"
    if shape == "plus":
        t, s = r * 0.4, r * 1.2
        a, b = _r(s - t), _r(2 * t)
        m, n = _r(t - s), _r(-2 * t)
        return f"M{number(x - t)} {number(y - s)}h{b}v{a}h{a}v{b}h{m}v{a}h{n}v{m}h{m}v{n}h{a}z"
    if shape == "cross":
        s, t = r * 1.1, r * 0.25
        u = s - t  # from the tip of an arm to the notch between two
        arms = [(t, -t), (u, u), (u, -u), (t, t), (-u, u), (u, u), (-t, t), (-u, -u), (-u, u), (-t, -t), (u, -u)]
        steps = " ".join(f"{_r(dx)} {_r(dy)}" for dx, dy in arms)
        return f"M{number(x - s)} {number(y - s + t)}l{steps}z"
    raise ValueError(f"no such shape: {shape!r}")


def marks(shape: str, points: Iterable[Point], r: float, class_: str) -> Markup:
    """Many marks as one path: about 40 bytes each."""
    return element("path", d="".join(mark(shape, x, y, r) for x, y in points), class_=class_)


# --- scales -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Scale:
    """A linear or logarithmic map from [low, high] to the pixels [start, end]."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def __call__(self, value: float) -> float:
        """The pixel of a value; values outside the range are drawn at the edge."""
        low, high = self.low, self.high
        value = min(max(value, low), high)
        if self.log:
            low, high, value = math.log10(low), math.log10(high), math.log10(value)
        if high == low:
            return self.start
        return self.start + (value - low) / (high - low) * (self.end - self.start)


def step(span: float, most: int) -> float:
    """The smallest 1, 2 or 5 times a power of ten that divides ``span`` into at most ``most`` steps."""
    if span <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(span / most))
    return next(power * m for m in (1, 2, 5, 10) if span / (power * m) <= most)


def ticks(low: float, high: float, most: int) -> list[float]:
    """Round values from ``low`` to ``high``, at most ``most + 1``."""
    distance = step(high - low, most)
    first = math.ceil(low / distance - 1e-9)
    return [n * distance for n in range(first, math.floor(high / distance + 1e-9) + 1)]


def log_ticks(low: float, high: float) -> list[float]:
    """Powers of ten within [low, high]; if fewer than three, also 2 and 5 times them."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    factors = (1,) if last - first > 3 else (1, 2, 5)
    values = [f * 10.0**p for p in range(first, last + 1) for f in factors]
    return [v for v in values if low * 0.999 <= v <= high * 1.001]


# --- frames -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PlotArea:
    """The plotting area within a drawing: its size and the margins around it."""

    width: float
    height: float
    left: float
    right: float
    top: float
    bottom: float

    @property
    def x1(self) -> float:
        """The area's right edge."""
        return self.width - self.right

    @property
    def y1(self) -> float:
        """The area's lower edge."""
        return self.height - self.bottom


def axis_x(frame: PlotArea, scale: Scale, labels: Sequence[tuple[float, str]], name: str) -> Markup:
    """The x axis: vertical grid lines, labels below, the name at the right end."""
    parts = [line(frame.left, frame.y1, frame.x1, frame.y1, "axis")]
    for value, label in labels:
        x = scale(value)
        parts.append(line(x, frame.top, x, frame.y1, "grid"))
        parts.append(text(x, frame.y1 + 15, label, "tick", "middle"))
    parts.append(text(frame.x1, frame.y1 + 29, name, "axis-name", "end"))
    return element("g", *parts)


def axis_y(frame: PlotArea, scale: Scale, labels: Sequence[tuple[float, str]], name: str) -> Markup:
    """The y axis: horizontal grid lines, labels on the left, the name above."""
    parts: list[str] = []
    for value, label in labels:
        y = scale(value)
        parts.append(line(frame.left, y, frame.x1, y, "grid"))
        parts.append(text(frame.left - 8, y + 3.5, label, "tick", "end"))
    parts.append(text(frame.left - 8, frame.top - 9, name, "axis-name", "end"))
    return element("g", *parts)


def drawing(width: float, height: float, label: str, parts: Iterable[str], class_: str = "plot") -> Markup:
    """The whole drawing; ``label`` describes it in words."""
    return element(
        "svg",
        *parts,
        viewBox=f"0 0 {number(width)} {number(height)}",
        class_=class_,
        role="img",
        aria_label=label,
        # The natural size: the style sheet may shrink the drawing, but never enlarge it beyond the text size.
        width=number(width),
        height=number(height),
    )
