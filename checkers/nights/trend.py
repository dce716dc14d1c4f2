"""Nights side by side: anomalies, throughput and retries of each cell in this night and in earlier ones of the same store."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from math import isfinite, nan
from pathlib import Path

from checkers.costs import worse
from checkers.costs.comparison import Spread
from checkers.costs.measures import Figure
from checkers.nights import record
from checkers.nights.record import NightError, NightRun
from workloads.file.suite import Cell

MOST_NIGHTS = 7
"""Earlier nights that are shown."""


@dataclass(frozen=True)
class EarlierNight:
    """An earlier night: its folder's name, when it began (ISO format), and its runs."""

    name: str
    started: str
    lines: tuple[NightRun, ...]


@dataclass(frozen=True, slots=True)
class CellNight:
    """One cell in one night; None where nothing was measured.

    Attributes:
        runs: that were judged; ``failed``: those with anomalies.
        harmed: what a person counts of its failures: name → how often.
        throughput: commits a second, of its runs.
        retries: share of commits that needed another attempt, of its runs.
    """

    runs: int
    failed: int
    harmed: dict[str, int]
    throughput: Spread | None
    retries: Spread | None


def earlier(folder: Path) -> tuple[list[EarlierNight], list[str]]:
    """The nights beside a night's folder that began before it, oldest first, at most :data:`MOST_NIGHTS`; and why others cannot be read.

    Copies of a night, which have its suite, seed and beginning, are one night.

    Raises:
        NightError: the folder itself has no night.
    """
    head, _ = record.read(folder)
    found, unread = dict[tuple[object, ...], EarlierNight](), []
    for path in folder.parent.glob(f"*/{record.RUNS}"):
        if path.parent.resolve() == folder.resolve():
            continue
        try:
            header, lines = record.read(path.parent)
        except NightError as e:
            unread.append(str(e))
            continue
        if str(header.get("started")) < str(head.get("started")):
            night = EarlierNight(path.parent.name, str(header.get("started")), tuple(lines))
            which = tuple(header.get(key) for key in ("suite", "seed", "started"))
            found[which] = max(night, found.get(which, night), key=lambda p: (len(p.lines), p.name))
    return sorted(found.values(), key=lambda p: (p.started, p.name))[-MOST_NIGHTS:], sorted(unread)


def point(lines: Iterable[NightRun], cell: Cell) -> CellNight | None:
    """A cell in a night; None if it had no run there that was judged."""
    judged = [x for x in lines if x.cell == cell and x.ended in ("valid", "invalid", "unknown")]
    if not judged:
        return None
    harmed: Counter[str] = Counter()
    for h in (h for line in judged for h in line.by_kind):
        harmed.update(h.harmed)
    failed = sum(line.ended == "invalid" for line in judged)
    return CellNight(
        len(judged), failed, dict(harmed), _spread(x.throughput for x in judged), _spread(x.retries for x in judged)
    )


def _spread(values: Iterable[float | None]) -> Spread | None:
    found = tuple(v for v in values if v is not None)
    return Spread(found) if found else None


def against(now: Spread | None, before: Iterable[Spread | None], figure: Figure) -> worse.State:
    """How the median of this night's runs compares with those of the earlier nights, by the rule of :mod:`checkers.costs.worse`."""
    return worse.against(_median(now), [m for s in before if (m := _median(s)) is not None], figure).state


def _median(s: Spread | None) -> float | None:
    """NaN if a run has no number there."""
    return None if s is None else s.median if all(map(isfinite, s.values)) else nan
