"""What a soak is to do: its cells, for how long, and what a person types to repeat what it finds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from checkers.nights import record
from checkers.nights.record import NightError
from harness.experiments.soakfinds import Commands
from harness.run.resolve import SuiteFile
from workloads.file.suite import Cell, Suite


@dataclass(frozen=True)
class SoakPlan:
    """What a soak is to do.

    Attributes:
        suite: the suite, as the options changed it.
        lasts: seconds, those of earlier sessions included; None: without end.
        runs: number of runs, as well; None: any.
        command: (cell, seed) → the command that repeats that run.
        weight: as for :class:`harness.experiments.soakturns.NightTurns`.
        commands: what a person types after a shrink.
    """

    file: SuiteFile
    suite: Suite
    seed: int
    command: Callable[[Cell, int], str]
    lasts: float | None = None
    runs: int | None = None
    weight: Callable[[Cell], float] = lambda _: 1.0
    commands: Commands = field(default_factory=Commands)


@dataclass(frozen=True)
class PlannedRun:
    """A run that is to be made.

    Attributes:
        number: of the runs of its cell, from 0.
    """

    cell: Cell
    number: int
    seed: int


def seed_of(into: Path) -> int | None:
    """The seed of the night in a folder; None if there is none. Raises NightError."""
    path = into / record.RUNS
    if not path.exists():
        return None
    found = record.read(into)[0].get("seed")
    if not isinstance(found, int):
        raise NightError(f"{path}: its first line has no seed; give another --into")
    return found


def new_folder(store: Path, suite: str) -> Path:
    """The folder of a new night."""
    return store / "soak" / f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{suite}"
