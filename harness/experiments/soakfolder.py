"""The folder of a night, and what has to go so that it stays under its bound.

::

    runs.jsonl       the header, then one line for each run (``checkers.nights.record``)
    samples.jsonl    memory and disk
    runs/            the folders of the run that goes on and of those that are kept
    columns/         the columns of valid runs (``checkers.columns.cluster`` judges them again)
    rows/            what a lake keeps of the runs, if there was none
    logs/            the logs of the warm stacks of kept runs
    lock             locked while a soak writes here
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from checkers.evidence.runfolder import relink
from checkers.nights.night import Night
from checkers.nights.record import ROWS, NightRun
from harness.experiments.shrink.trials import RUNS as SHRINK_RUNS
from workloads.file.sizes import written
from workloads.file.suite import Cell, Suite

RUNS_FOLDER, COLUMNS_FOLDER, LOGS_FOLDER = "runs", "columns", "logs"
"""Folders in that of a night."""
BLOCK = 512
"""Bytes of a block, in which ``st_blocks`` counts."""


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
    """Remove a folder with all in it, and the links to it as the latest run; what cannot be removed stays."""
    shutil.rmtree(path, ignore_errors=True)
    with contextlib.suppress(OSError):
        relink(path)


@dataclass(frozen=True, slots=True)
class Removable:
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
"""The ranks of :class:`Removable`."""


def firsts(kept: Iterable[Removable]) -> set[Path]:
    """What must stay: for each anomaly of each cell the first run that shows it."""
    first: dict[tuple[Cell | None, str], Removable] = {}
    for k in sorted(kept, key=lambda k: (k.started, str(k.path))):
        for name in k.names:
            first.setdefault((k.cell, name), k)
    return {k.path for k in first.values()}


def surplus(kept: Sequence[Removable], total: int, bound: int) -> list[Removable]:
    """What to remove so that ``total`` bytes become at most ``bound``: the lowest rank and the oldest first, never one of :func:`firsts`.

    Returns all that may go if even that is not enough.
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


@dataclass
class Room:
    """Keeps a night's folder under its bound.

    Args:
        into: the night's folder.
        night: the night so far.
        up: the folders of the logs of stacks that are up.
        say: what a person reads.

    Attributes:
        size: bytes of the folder when it was last looked at.
        largest: bytes of the largest run so far.
    """

    into: Path
    suite: Suite
    night: Callable[[], Night]
    up: Callable[[], Collection[Path]]
    say: Callable[[str], None]
    size: int = 0
    largest: int = 0

    def folder_of(self, line: NightRun) -> Path | None:
        """The folder of a run; None if it is gone, or not one of this night: what others wrote into a line is not removed."""
        path = None if line.folder is None else self.into / line.folder
        if path is None or not path.is_relative_to(self.into / RUNS_FOLDER):
            return None
        return path if ".." not in path.parts[len(self.into.parts) :] and path.is_dir() else None

    def removable(self) -> list[Removable]:
        """What may go to make room."""
        night = self.night()
        rebuilt = [*sorted((self.into / COLUMNS_FOLDER).glob("*")), *sorted((self.into / ROWS).glob("*/*"))]
        return [
            *self._runs(night),
            *self._runs_of_finds(night),
            *(Removable(p, size_of(p), p.name, rank=COLUMNS) for p in rebuilt),
        ]

    def _runs(self, night: Night) -> Iterator[Removable]:
        for line in night.lines:
            if (path := self.folder_of(line)) is not None and line.ended != "valid":
                names, rank = frozenset[str](), WITHOUT_VERDICT
                if line.ended == "invalid":
                    names, rank = frozenset(line.anomalies), NEW if night.new_of(line) else KNOWN
                yield Removable(path, size_of(path), line.started, line.cell, names, rank)

    def _runs_of_finds(self, night: Night) -> Iterator[Removable]:
        began = {x.folder: x.started for x in night.lines}
        for f in night.finds:
            path = self.into / str(f.folder) / SHRINK_RUNS
            if f.folder is not None and path.is_dir():
                # A find whose run has no line, because somebody removed that line, is as old as can be.
                yield Removable(path, size_of(path), began.get(f.run, ""), f.cell, rank=WITHOUT_VERDICT)

    def make(self) -> str | None:
        """Make room for another run; why there is none, with the remedy, or None."""
        self.size, bound = size_of(self.into), self.suite.keep
        if self.size + self.largest > bound:
            for kept in surplus(self.removable(), self.size + self.largest, bound):
                remove(kept.path)
                self.say(f"removed the {_words(kept)}: the night's folder may have {written(bound)}")
            self.drop_logs()
            self.size = size_of(self.into)
        if self.size + self.largest <= bound:
            return self.little()
        has = f"the night's folder has {self.size / 1e9:.2f} GB, all of it needed"
        return f"{has}, and may have {written(bound)}; give a greater --keep"

    def drop_logs(self, among: Iterable[Path] | None = None) -> None:
        """Remove the logs of stacks of which no run is left; ``among``: of these only."""
        place = self.into / LOGS_FOLDER
        found = [*(place.iterdir() if among is None and place.is_dir() else among or ())]
        if not found:
            return
        needed = {x.stack for x in self.night().lines if self.folder_of(x) is not None}
        for path in found:
            if path.relative_to(self.into).as_posix() not in needed and path not in self.up():
                remove(path)

    def little(self) -> str | None:
        """That too little is free on the disk; None if there is enough."""
        least = self.suite.free
        for place in (self.into, Path(tempfile.gettempdir())):
            free = shutil.disk_usage(place).free
            if free < least:
                return f"only {free / 1e9:.2f} GB are free at {place}, and {written(least)} must stay free; free some space"
        return None


def _words(kept: Removable) -> str:
    if kept.cell is None:
        return f"columns {kept.path.name}"
    what = "runs of a shrink" if kept.path.name == SHRINK_RUNS else "run"
    return f"{what} of {kept.cell.name} {kept.path.name}"
