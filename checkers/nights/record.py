"""What a night of ``icequake soak`` records: a line for each run (``runs.jsonl``), and samples of memory and disk (``samples.jsonl``).

Both are journals (:mod:`checkers.evidence.journal`); the header of ``runs.jsonl`` is what all runs share.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from checkers.costs.measures import Measures
from checkers.evidence import journal
from checkers.evidence.journal import Form
from checkers.verdict import Verdict
from workloads.file.suite import Cell

RUNS, SAMPLES = "runs.jsonl", "samples.jsonl"

Ended = Literal["valid", "invalid", "unknown", "error", "incomplete"]
"""``error``: the run could not be made or judged. ``incomplete``: its session was stopped or killed; the run is made again."""
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


LINES = Form("a soak", "a run", journal.as_type(Line), asdict, NightError)
"""``runs.jsonl``."""
SAMPLED = Form("a soak", "a sample", journal.as_type(Sample), asdict, NightError, bare=True)
"""``samples.jsonl``."""


def read(folder: Path) -> tuple[dict[str, Any], list[Line]]:
    """Header and runs of a night.

    Raises:
        NightError: the folder has no night, or a line of it cannot be read.
    """
    return journal.read(folder / RUNS, LINES)


def samples(folder: Path) -> list[Sample]:
    """The samples of a night, in order; none if there is no file. Raises NightError."""
    path = folder / SAMPLES
    return journal.read(path, SAMPLED)[1] if path.exists() else []


def used(lines: Iterable[Line], sampled: Iterable[Sample]) -> float:
    """Seconds that a night has taken, as far as anybody wrote them down."""
    return max((*(x.used for x in lines), *(s.used for s in sampled)), default=0.0)
