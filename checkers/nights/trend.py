"""Nights side by side: anomalies, throughput and retries of each cell in this night and in earlier ones of the same store."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from checkers.costs.comparison import Spread, apart
from checkers.nights import record
from checkers.nights.record import Line, NightError
from workloads.file.suite import Cell

MOST_NIGHTS = 7
"""Earlier nights that are shown."""

Against = Literal["better", "worse", "noise", "too few"]


@dataclass(frozen=True)
class Past:
    """An earlier night: its folder's name, when it began (ISO format), and its runs."""

    name: str
    started: str
    lines: tuple[Line, ...]


@dataclass(frozen=True, slots=True)
class Point:
    """One cell in one night; None where nothing was measured.

    Attributes:
        runs: that were judged; ``failed``: those with anomalies.
        anomalies: name → in how many runs.
        throughput: commits a second, of its runs.
        retries: share of commits that needed another attempt, of its runs.
    """

    runs: int
    failed: int
    anomalies: dict[str, int]
    throughput: Spread | None
    retries: Spread | None


def earlier(folder: Path) -> list[Past]:
    """The nights beside a night's folder that began before it, oldest first, at most :data:`MOST_NIGHTS`; what cannot be read is left out.

    Raises:
        NightError: the folder itself has no night.
    """
    mine, _ = record.read(folder)
    found = []
    for path in folder.parent.glob(f"*/{record.RUNS}"):
        if path.parent.resolve() == folder.resolve():
            continue
        try:
            header, lines = record.read(path.parent)
        except NightError:
            continue
        if str(header.get("started")) < str(mine.get("started")):
            found.append(Past(path.parent.name, str(header.get("started")), tuple(lines)))
    return sorted(found, key=lambda p: (p.started, p.name))[-MOST_NIGHTS:]


def point(lines: Iterable[Line], cell: Cell) -> Point | None:
    """A cell in a night; None if it had no run there that was judged."""
    mine = [x for x in lines if x.cell == cell and x.ended in ("valid", "invalid", "unknown")]
    if not mine:
        return None
    names: dict[str, int] = {}
    for line in mine:
        for name in line.anomalies:
            names[name] = names.get(name, 0) + 1
    failed = sum(line.ended == "invalid" for line in mine)
    return Point(len(mine), failed, names, _spread(x.throughput for x in mine), _spread(x.retries for x in mine))


def _spread(values: Iterable[float | None]) -> Spread | None:
    found = tuple(v for v in values if v is not None)
    return Spread(found) if found else None


def against(now: Spread | None, before: Sequence[Spread | None], *, more_is_better: bool) -> Against:
    """How the runs of this night compare with all runs of the earlier ones, by the rule of :mod:`checkers.costs.comparison`."""
    values = tuple(v for s in before if s is not None for v in s.values)
    differs = apart(now, Spread(values)) if now is not None and values else None
    if differs is None or now is None:
        return "too few"
    if not differs:
        return "noise"
    return "better" if (now.low > max(values)) == more_is_better else "worse"
