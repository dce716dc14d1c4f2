"""What a night of ``icequake soak`` records: a line for each run (``runs.jsonl``), and samples of memory and disk (``samples.jsonl``).

Both are journals (:mod:`checkers.evidence.journal`); the header of ``runs.jsonl`` is what all runs share.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from checkers.costs.measures import Measures
from checkers.evidence import journal
from checkers.evidence.journal import JournalFormat
from checkers.evidence.replace import replace
from checkers.judge.runfolder import Results
from checkers.names import meaning
from checkers.nights.happened import Happened
from checkers.verdict import own_findings
from workloads.file.suite import Cell

RUNS, SAMPLES = "runs.jsonl", "samples.jsonl"
ROWS = "rows"
"""The folder of a night that has what a lake keeps of its runs, if there was no lake."""

Ended = Literal["valid", "invalid", "unknown", "error", "incomplete"]
"""``error``: the run could not be made or judged. ``incomplete``: its session was stopped or killed; the run is made again."""
NOT_VALID = "not-valid"
"""The anomaly of a run that is not valid and names none."""


class NightError(ValueError):
    """A night cannot be read or continued; the message is one line with a remedy."""


@dataclass(frozen=True, slots=True)
class AnomalyCount:
    """So many anomalies of a kind.

    Attributes:
        checker: who found them; None: no line says so.
        documented: whether Iceberg documents them as possible.
        same_as: the name of the anomaly that they confirm.
        strict: whether their table promises more than others of the run.
        known: where the known defect is discussed that they are (:mod:`checkers.judge.known`); None if they are not known.
    """

    name: str
    checker: str | None = None
    table: str | None = None
    documented: bool = False
    same_as: str | None = None
    strict: bool = False
    count: int = 1
    known: str | None = None


@dataclass(frozen=True, slots=True)
class NightRun:
    """One run of a night.

    Attributes:
        number: of this cell's runs, from 0; with the night's seed it determines ``seed``. None for an error before a run began.
        started: wall clock, ISO format.
        ended: how it ended.
        anomalies: name → how many, those that fail the run only.
        headline: what happened to data, the gravest first; ``who``: who did it (:mod:`checkers.judge.stories`); ``happened``: the same by
            kind, with the remedies; without what the workload expects or allows. They are empty in a line of an older icequake.
        versions: of what ran, by name, as its plan has them.
        untested: what it was too idle or too broken to show, a clause each; empty in a line of an older icequake.
        seen: the same, by all that a suite's ``known`` can ask for; empty in a line of an older icequake.
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
    seen: tuple[AnomalyCount, ...] = ()
    headline: tuple[str, ...] = ()
    who: str = ""
    happened: tuple[Happened, ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)
    untested: tuple[str, ...] = ()

    @property
    def by_kind(self) -> tuple[Happened, ...]:
        """What happened by kind; in a line of an older icequake a kind is a name of anomalies."""
        return self.happened or tuple(self._of_name(s) for s in self.kinds if s.same_as is None)

    def _of_name(self, s: AnomalyCount) -> Happened:
        means = meaning(s.name)
        tables = () if s.table is None else (s.table,)
        remedy = "" if means is None else means.remedy
        return Happened(s.name, self.who, {s.name: s.count}, (s.name,), tables, remedy, (), s.known)

    @property
    def kinds(self) -> tuple[AnomalyCount, ...]:
        """The anomalies by kind; in a line of an older icequake by name alone, as it judged them."""
        return self.seen or tuple(AnomalyCount(name, count=n) for name, n in self.anomalies.items())

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


def failing(results: Results) -> tuple[AnomalyCount, ...]:
    """The anomalies that fail a run: without those that only confirm another, and those that the workload expects or allows."""
    if results.valid is not False:
        return ()
    accepted, known = results.accepted, _links(results)
    found = Counter(
        AnomalyCount(
            a.name,
            a.checker,
            a.table,
            a.documented is not None,
            a.same_as,
            a.table in accepted.strict,
            known=known.get(id(a)),
        )
        for a in own_findings([a for a in results.anomalies if not accepted.mark(a)])
    )
    return tuple(replace(s, count=n) for s, n in found.items()) or (AnomalyCount(NOT_VALID),)


def _links(results: Results) -> dict[int, str]:
    """Anomaly, by its ``id()`` → where the known defect is discussed that its story is."""
    by_checker = {v.checker: v.anomalies for v in results.verdicts}
    return {id(by_checker[c][n]): s.known[0].link for s in results.told.stories if s.known for c, n in s.anomalies}


def tally(seen: Iterable[AnomalyCount]) -> dict[str, int]:
    """Name → how many."""
    found: dict[str, int] = {}
    for s in seen:
        found[s.name] = found.get(s.name, 0) + s.count
    return found


def figures_of(m: Measures) -> dict[str, float | None]:
    """The figures of a run that a night keeps: those that were measured."""
    return {k: v for k, v in m.figures.items() if v is not None}


def _encoded(line: NightRun) -> dict[str, Any]:
    return {**asdict(line), "cell": line.cell.to_json()}


LINES = JournalFormat("a soak", "a run", journal.as_type(NightRun), _encoded, NightError, options={"seed": "--seed"})
"""``runs.jsonl``."""
SAMPLED = JournalFormat("a soak", "a sample", journal.as_type(Sample), asdict, NightError, bare=True)
"""``samples.jsonl``."""


def read(folder: Path) -> tuple[dict[str, Any], list[NightRun]]:
    """Header and runs of a night.

    Raises:
        NightError: the folder has no night, or a line of it cannot be read.
    """
    return journal.read(folder / RUNS, LINES)


def samples(folder: Path) -> list[Sample]:
    """The samples of a night, in order; none if there is no file. Raises NightError."""
    path = folder / SAMPLES
    return journal.read(path, SAMPLED)[1] if path.exists() else []


def used(lines: Iterable[NightRun], sampled: Iterable[Sample]) -> float:
    """Seconds that a night has taken, as far as anybody wrote them down."""
    return max((*(x.used for x in lines), *(s.used for s in sampled)), default=0.0)
