"""What became of the new anomalies of a night: each was replayed and shrunk by the night itself (``finds.jsonl``, one line each)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from checkers.nights.record import Line, NightError
from workloads.file.suite import Cell

FILE = "finds.jsonl"

Became = Literal["shrunk", "not shown", "spent", "failed"]
"""``shrunk``: something smaller shows it. ``not shown``: nothing showed it again. ``spent``: the time ended first.
``failed``: it could not be tried."""
BECAME: tuple[Became, ...] = get_args(Became)

TRIES = 2
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
        command: shows the anomaly again.
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

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        return asdict(self)

    @staticmethod
    def from_json(r: Mapping[str, Any]) -> Find:
        """The inverse. Raises KeyError, TypeError, ValueError or AttributeError for anything else."""
        if r["became"] not in BECAME:
            raise ValueError(f"became: {r['became']!r}")
        return Find(**{**r, "cell": Cell.from_json(r["cell"]), "also": tuple(str(x) for x in r["also"])})


def read(folder: Path) -> list[Find]:
    """The finds of a night; torn lines are left out, and there are none if there is no file. Raises NightError if it cannot be read."""
    path = folder / FILE
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return []
    except OSError as e:
        raise NightError(f"{path}: cannot be read: {e.strerror}") from None
    found = []
    for line in text.split("\n"):
        try:
            found.append(Find.from_json(json.loads(line)))
        except (ValueError, KeyError, TypeError, AttributeError):
            continue
    return found


def due(line: Line, new: Iterable[str], finds: Iterable[Find]) -> list[str]:
    """The new anomalies of a run that are to be shrunk: those that no run of the catalog was shrunk for, and not :data:`TRIES` in vain."""
    mine = [f for f in finds if f.cell.catalog == line.cell.catalog]
    done = {name for f in mine if f.became == "shrunk" for name in (f.anomaly, *f.also)}
    tried = {f.anomaly for f in mine if f.run == line.folder}
    vain = [f.anomaly for f in mine if f.became != "shrunk"]
    return [name for name in new if name not in done | tried and vain.count(name) < TRIES]
