"""The folder of a night, and what has to go so that it stays under its bound.

::

    runs.jsonl       the header, then one line for each run (``checkers.nights.record``)
    samples.jsonl    memory and disk
    runs/            the folders of the run that goes on and of those that are kept
    columns/         the columns of valid runs (``checkers.columns.spark`` judges them again)
    logs/            the logs of the warm stacks of kept runs
    lock             locked while a soak writes here
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from workloads.file.suite import Cell

BLOCK = 512


def size_of(path: Path) -> int:
    """The bytes that a file, or a folder with all in it, takes on disk; what disappears meanwhile counts 0."""
    try:
        found = path.lstat()
    except OSError:
        return 0
    count = found.st_blocks * BLOCK
    if path.is_symlink() or not path.is_dir():
        return count
    with contextlib.suppress(OSError):
        count += sum(size_of(inner) for inner in path.iterdir())
    return count


def remove(path: Path) -> None:
    """Remove a folder with all in it; what cannot be removed stays."""
    shutil.rmtree(path, ignore_errors=True)


@dataclass(frozen=True, slots=True)
class Kept:
    """Something that can be removed to make room.

    Attributes:
        size: bytes.
        started: of its run, ISO format.
        cell: None for columns.
        names: the anomalies that it shows; of each in each cell the first one stays.
        rank: those of a lower rank go first: columns, runs without a verdict, known anomalies, new ones.
    """

    path: Path
    size: int
    started: str
    cell: Cell | None = None
    names: frozenset[str] = frozenset()
    rank: int = 0


COLUMNS, WITHOUT_VERDICT, KNOWN, NEW = range(4)
"""The ranks of :class:`Kept`."""


def firsts(kept: Iterable[Kept]) -> set[Path]:
    """What must stay: for each anomaly of each cell the first run that shows it."""
    first: dict[tuple[Cell | None, str], Kept] = {}
    for k in sorted(kept, key=lambda k: (k.started, str(k.path))):
        for name in k.names:
            first.setdefault((k.cell, name), k)
    return {k.path for k in first.values()}


def surplus(kept: Sequence[Kept], total: int, bound: int) -> list[Kept]:
    """What to remove so that ``total`` bytes become at most ``bound``: the lowest rank and the oldest first, never one of :func:`firsts`.

    It is all that may go, if even that is not enough.
    """
    stay = firsts(kept)
    out = []
    for k in sorted(kept, key=lambda k: (k.rank, k.started, str(k.path))):
        if total <= bound:
            break
        if k.path not in stay:
            out.append(k)
            total -= k.size
    return out
