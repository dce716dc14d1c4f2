"""What a night calls the combinations that it runs: a workload on a catalog, with faults; the rest only where it varies."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from checkers.nights.night import Night
from nemesis.faults.packages import PACKAGES
from workloads.file.changes import AND, NONE, OWN
from workloads.file.suite import DIMENSIONS, Cell

ALWAYS = ("workload", "catalog", "faults")
"""What the name of each combination has."""
WORDS = {
    "iceberg": "Iceberg",
    "order": "order of requests",
    "session": "Spark session",
    "cluster": "Spark cluster",
}
"""A dimension → what a person calls it, if that is another word."""
BARE = ("iceberg", "session", "cluster", "order")
"""Dimensions whose value says little without their word."""
MEANS = {
    ("session", "spark"): "Spark's own settings (session spark)",
    ("session", "fast"): "Spark compiles no plans (session fast)",
    ("cluster", "standalone"): "a Spark cluster of several processes (cluster standalone)",
    ("cluster", "local"): "Spark runs tasks in the writer's own process (cluster local)",
}
"""How Spark ran, in words."""
WHAT = (
    "A combination is a workload (what the writers do) on a catalog, with a package of faults (what disturbs them); the suite file "
    "calls it a cell"
)


def varied(night: Night) -> tuple[str, ...]:
    """The dimensions that tell the combinations of a night apart, and those that each name has."""
    return _varied((*night.cells, *(x.cell for x in night.lines)))


@lru_cache(maxsize=8)
def _varied(cells: tuple[Cell, ...]) -> tuple[str, ...]:
    return tuple(d for d in DIMENSIONS if d in ALWAYS or len({getattr(c, d) for c in cells}) > 1)


def of(night: Night, cell: Cell) -> str:
    """``contention on jdbc, lost-acks``."""
    faults = {NONE: "no faults", OWN: "its own faults"}.get(cell.faults, cell.faults)
    more = (_phrase(d, getattr(cell, d)) for d in varied(night) if d not in ALWAYS and getattr(cell, d))
    return ", ".join([f"{cell.workload} on {cell.catalog}", faults, *more])


def lane(night: Night, cell: Cell) -> str:
    """What runs on one warm stack: ``jdbc``, with what tells the stacks apart."""
    dimensions = varied(night)
    parts = (getattr(cell, d) for d in ("iceberg", "session", "cluster") if d in dimensions)
    return " ".join([cell.catalog, *(p for p in parts if p)])


def alike(night: Night) -> list[str]:
    """What all combinations have in common: ``Iceberg 1.12.0``, ``3 writers``."""
    dimensions, first = varied(night), next(iter(night.cells), None)
    every = [] if first is None else [(d, v) for d in DIMENSIONS if d not in dimensions and (v := getattr(first, d))]
    return [MEANS.get(pair, _phrase(*pair)) for pair in every]


def pattern(night: Night) -> str:
    """What the parts of the name of each combination are: ``workload/catalog/faults/Iceberg/session/cluster``."""
    given = (d for d in DIMENSIONS if any(getattr(c, d) for c in night.cells))
    return "/".join("Iceberg" if d == "iceberg" else d for d in given)


def disturbs(cells: Iterable[Cell]) -> list[str]:
    """What each package of faults does that some combinations have, a sentence each."""
    used = dict.fromkeys(name for c in cells for name in c.faults.split(AND))
    return [f"{name}: {PACKAGES[name].summary}" for name in used if name in PACKAGES]


def named(dimension: str) -> str:
    """The head of a column."""
    return WORDS.get(dimension, dimension)


def _phrase(dimension: str, value: str) -> str:
    if dimension in BARE:
        return f"{WORDS[dimension]} {value}"
    if dimension == "writers":
        return f"{value} writer{'' if value == '1' else 's'}" if value.isdecimal() else f"writers {value}"
    return value
