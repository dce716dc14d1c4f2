"""Figures as a person reads them: the number with its unit, and its range over several runs."""

from __future__ import annotations

from checkers.costs.comparison import Spread
from checkers.costs.measures import Figure
from reports.drawing import words


def shown(f: Figure, value: float | None) -> str:
    """A number with its unit; ``–`` for None."""
    if value is None:
        return "–"
    if f.unit == "ms":
        return words.duration(value)
    if f.unit == "s":
        return words.duration(1000 * value)
    if f.unit == "share":
        return words.share(value, 1)
    digits = 2 if value < 10 else 1
    return f"{value:.{digits}f}" + ("/s" if f.unit == "rate" else "")


def spread(f: Figure, s: Spread) -> str:
    """The median, and the range if there are several values."""
    return (
        shown(f, s.median) if len(s.values) == 1 else f"{shown(f, s.median)} ({shown(f, s.low)} to {shown(f, s.high)})"
    )


def between(f: Figure, s: Spread | None) -> tuple[str, ...]:
    """The range below a median in a table: from the least to the greatest; nothing of one value."""
    return () if s is None or len(s.values) == 1 else (f"{shown(f, s.low)} – {shown(f, s.high)}",)
