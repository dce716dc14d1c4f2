"""What became of the new anomalies of a night: each was replayed and shrunk by the night itself (``finds.jsonl``, one line each)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from checkers.evidence import journal
from checkers.evidence.journal import JournalFormat
from checkers.nights.record import NightError, NightRun
from workloads.file.suite import Cell

FILE = "finds.jsonl"

Became = Literal["shrunk", "not shown", "spent", "failed", "stopped"]
"""``shrunk``: something smaller shows it. ``not shown``: nothing showed it again. ``spent``: its own time ended first.
``failed``: it could not be tried. ``stopped``: somebody stopped the night, or its time ended; a night that goes on goes on with it."""

MOST_ABOVE = 4
"""Folders above a run's in which the one of its night is looked for."""
MOST_SHRUNK = 2
"""Runs that are shrunk for one anomaly of one catalog, as long as none could be."""


@dataclass(frozen=True, slots=True)
class Find:
    """A new anomaly, and what its replays and its shrink came to. Paths are relative to the night's folder.

    Attributes:
        run: the folder of the run that found it.
        also: other anomalies that the smallest run shows: the same cause, as far as anybody knows.
        replays: in how many replays of the whole run it showed again, ``3 of 3``; None: there was none.
        operations, writers: of what is left; ``before``: operations of the run.
        reproduced: in how many runs the scenario was reproduced, ``3 of 3``; None: there is no scenario.
        rate: how often a repeated operation shows it, ``2 of 900 repetitions``; None: it is not rare.
        scenario, recording, folder: of the shrink.
        command: shows the anomaly again; ``goes_on``: shrinks on, if the shrink was stopped.
        tries: runs of the shrink so far.
        reason: why nothing smaller is there, or what is not as it should be; empty if there is nothing to say.
        seconds: that replays and shrink took; ``used``: what the night had taken when they were over.
    """

    cell: Cell
    seed: int | None
    run: str
    anomaly: str
    became: Became
    also: tuple[str, ...] = ()
    replays: str | None = None
    before: int = 0
    operations: int = 0
    writers: int = 0
    reproduced: str | None = None
    rate: str | None = None
    scenario: str | None = None
    recording: str | None = None
    folder: str | None = None
    command: str | None = None
    reason: str = ""
    seconds: float = 0.0
    used: float = 0.0
    goes_on: str | None = None
    tries: int = 0

    @property
    def is_smaller(self) -> bool:
        """Whether something smaller than the run shows it."""
        return self.became == "shrunk" or (self.became == "stopped" and self.operations > 0)

    @property
    def why_no_scenario(self) -> str:
        """Why no scenario file shows it, a clause; empty if one does."""
        if self.scenario is not None:
            return ""
        if self.is_smaller:
            return (
                f"no scenario file can say what is left: {self.reason}" if self.reason else "there is no scenario file"
            )
        first = "not shrunk: nothing showed it again" if self.became == "not shown" else "not shrunk"
        return f"{first}: {self.reason}" if self.reason else first


FINDS = JournalFormat("a soak", "a find", journal.as_type(Find), asdict, NightError, bare=True)
"""``finds.jsonl``."""


def read(folder: Path) -> list[Find]:
    """The finds of a night; none if there is no file. Raises NightError: a line of it cannot be read."""
    path = folder / FILE
    return latest(journal.read(path, FINDS)[1]) if path.exists() else []


def latest(lines: Iterable[Find]) -> list[Find]:
    """The last line of each anomaly of each run: a shrink that was stopped and went on has several."""
    return list({(f.run, f.anomaly): f for f in lines}.values())


def of_run(run: Path) -> list[Find]:
    """What became of the anomalies of a run that lies in a night's folder; none of another run."""
    whole = run.resolve()
    nights = [folder for folder in whole.parents[:MOST_ABOVE] if (folder / FILE).is_file()]
    return [f for night in nights[:1] for f in read(night) if night / f.run == whole]


def due(line: NightRun, new: Iterable[str], finds: Iterable[Find]) -> list[str]:
    """The new anomalies of a run that are to be shrunk: those that no run of the catalog was shrunk for, and not :data:`MOST_SHRUNK` in
    vain."""
    same_catalog = [f for f in finds if f.cell.catalog == line.cell.catalog and f.became != "stopped"]
    done = {name for f in same_catalog if f.became == "shrunk" for name in (f.anomaly, *f.also)}
    tried = {f.anomaly for f in same_catalog if f.run == line.folder}
    vain = [f.anomaly for f in same_catalog if f.became != "shrunk"]
    return [name for name in new if name not in done | tried and vain.count(name) < MOST_SHRUNK]
