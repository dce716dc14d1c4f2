"""What a night of ``icequake soak`` records: a line for each run (``runs.jsonl``), and samples of memory and disk (``samples.jsonl``).

The first line of ``runs.jsonl`` is the header: what all runs share. A process that is killed can leave a torn line; it is left out,
and the next session writes the files again without it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args

from checkers.costs.measures import FIGURES, Measures
from checkers.verdict import Verdict
from workloads.file.suite import Cell

FORMAT = 1
RUNS, SAMPLES = "runs.jsonl", "samples.jsonl"

Ended = Literal["valid", "invalid", "unknown", "error", "incomplete"]
"""``error``: the run could not be made or judged. ``incomplete``: its session was stopped or killed; the run is made again."""
ENDED: tuple[Ended, ...] = get_args(Ended)
NOT_VALID = "not-valid"
"""The anomaly of a run that is not valid and names none."""


class NightError(ValueError):
    """A night cannot be read or continued; the message is one line with a remedy."""


@dataclass(frozen=True, slots=True)
class Line:
    """One run of a night.

    Attributes:
        number: of this cell's runs, from 0; with the night's seed it determines ``seed``. None for an error before a run began.
        started: wall clock, ISO format.
        ended: how it ended.
        anomalies: name → how many, those that fail the run only.
        reason: why there is no verdict, or why the run was cut short.
        operations, commits: of the workload's phases.
        figures: key of :data:`checkers.costs.measures.FIGURES` → number.
        seconds: of load; ``took``: of the whole run with its judgement.
        peak_memory: bytes of all processes of the soak together, at most.
        rss: bytes of the soak's own process, when the run had been judged.
        disk: bytes of the run's folder.
        folder: of the run, relative to the night's; None if nothing was left.
        stack: folder of the logs of its warm stack, relative to the night's.
        command: repeats the run.
        used: seconds that the night had taken when the run was over.
    """

    cell: Cell
    number: int | None
    seed: int | None
    started: str
    ended: Ended
    anomalies: Mapping[str, int] = field(default_factory=dict)
    reason: str | None = None
    operations: int = 0
    commits: int = 0
    figures: Mapping[str, float | None] = field(default_factory=dict)
    seconds: float = 0.0
    took: float = 0.0
    peak_memory: int = 0
    rss: int = 0
    disk: int = 0
    folder: str | None = None
    stack: str | None = None
    command: str | None = None
    used: float = 0.0

    @property
    def counts(self) -> bool:
        """Whether it was a turn of its cell."""
        return self.number is not None and self.ended != "incomplete"

    @property
    def retries(self) -> float | None:
        """The share of commits that needed another attempt."""
        return self.figures.get("retried")

    @property
    def throughput(self) -> float | None:
        """Commits a second."""
        return self.figures.get("commits_per_s")

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        return asdict(self)

    @staticmethod
    def from_json(r: Mapping[str, Any]) -> Line:
        """The inverse. Raises KeyError, TypeError, ValueError or AttributeError for anything else."""
        if r["ended"] not in ENDED:
            raise ValueError(f"ended: {r['ended']!r}")
        known = {f.key for f in FIGURES}
        return Line(
            cell=Cell.from_json(r["cell"]),
            number=None if r["number"] is None else int(r["number"]),
            seed=None if r["seed"] is None else int(r["seed"]),
            started=str(r["started"]),
            ended=r["ended"],
            anomalies={str(k): int(v) for k, v in r["anomalies"].items()},
            reason=_text(r["reason"]),
            operations=int(r["operations"]),
            commits=int(r["commits"]),
            figures={k: None if v is None else float(v) for k, v in r["figures"].items() if k in known},
            seconds=float(r["seconds"]),
            took=float(r["took"]),
            peak_memory=int(r["peak_memory"]),
            rss=int(r["rss"]),
            disk=int(r["disk"]),
            folder=_text(r["folder"]),
            stack=_text(r["stack"]),
            command=_text(r["command"]),
            used=float(r["used"]),
        )


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


@dataclass(frozen=True, slots=True)
class Sample:
    """Memory and disk at a moment.

    Attributes:
        used: seconds that the night had taken.
        rss: bytes of the soak's own process; ``memory``: with all its descendants.
        disk: bytes of the night's folder; ``free``: bytes free on its disk.
    """

    used: float
    rss: int
    memory: int
    disk: int
    free: int

    def to_json(self) -> dict[str, float]:
        """As JSON values."""
        return asdict(self)

    @staticmethod
    def from_json(r: Mapping[str, Any]) -> Sample:
        """The inverse. Raises KeyError, TypeError or ValueError for anything else."""
        return Sample(float(r["used"]), int(r["rss"]), int(r["memory"]), int(r["disk"]), int(r["free"]))


def failing(verdicts: Iterable[Verdict], valid: object, may_be: Iterable[str]) -> dict[str, int]:
    """The anomalies that fail a run, name → how many: without those that only confirm another, and those that the workload expects or allows.

    Args:
        valid: the run's validity.
        may_be: what the workload expects or allows.
    """
    if valid is not False:
        return {}
    allowed = frozenset(may_be)
    every = [a for v in verdicts for a in v.anomalies if not {a.name, a.same_as} & allowed]
    names = {a.name for a in every if a.same_as is None}
    found: dict[str, int] = {}
    for a in every:
        if a.same_as not in names:
            found[a.name] = found.get(a.name, 0) + 1
    return found or {NOT_VALID: 1}


def figures_of(m: Measures) -> dict[str, float | None]:
    """The figures of a run that a night keeps: those that were measured."""
    return {k: v for k, v in m.figures.items() if v is not None}


T = TypeVar("T")
_WRONG = (ValueError, KeyError, TypeError, AttributeError)


def _each(lines: Iterable[str], of: Callable[[Any], T]) -> list[T]:
    """What the lines hold, without those that are torn."""
    found = []
    for line in lines:
        try:
            found.append(of(json.loads(line)))
        except _WRONG:
            continue
    return found


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError as e:
        raise NightError(f"{path}: cannot be read: {e.strerror}") from None


def read(folder: Path) -> tuple[dict[str, Any], list[Line]]:
    """Header and runs of a night; torn lines are left out.

    Raises:
        NightError: the folder has no night.
    """
    path = folder / RUNS
    first, *lines = _read(path).split("\n")
    try:
        header = json.loads(first)
        if header.get("format") != FORMAT:
            raise ValueError(f"format {header.get('format')!r} is not known")
    except _WRONG as e:
        raise NightError(f"{path}: not the runs of a soak: {e}; give another --into") from None
    return header, _each(lines, Line.from_json)


def samples(folder: Path) -> list[Sample]:
    """The samples of a night, in order; none if there is no file."""
    path = folder / SAMPLES
    return _each(_read(path).split("\n"), Sample.from_json) if path.exists() else []


def used(lines: Iterable[Line], sampled: Iterable[Sample]) -> float:
    """Seconds that a night has taken, as far as anybody wrote them down."""
    return max((*(x.used for x in lines), *(s.used for s in sampled)), default=0.0)
