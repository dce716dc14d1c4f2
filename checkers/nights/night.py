"""One night as a whole: what each cell showed, what of it is known, and what the night's verdict is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Literal

from checkers.judge.accepted import known_link, too_little
from checkers.nights import record
from checkers.nights.finds import Find
from checkers.nights.happened import Happened
from checkers.nights.record import AnomalyCount, NightRun, Sample
from checkers.verdict import Validity, exit_code
from workloads.file.suite import Cell, KnownAnomalies, Suite

Showed = Literal["new", "known", "unknown", "error", "valid", "not run"]
"""What a cell showed, the worst first. A run with a new and a known anomaly is new."""
STATUS_ORDER: tuple[Showed, ...] = ("new", "known", "error", "unknown", "valid", "not run")
HARNESS_FAILED = 255
FEW_OPERATIONS = 30
"""Operations below which a combination without an anomaly says next to nothing: by the rule of three (3 / n), a defect that shows in one of
ten operations may be missed then."""

GREW, GREW_BY, SETTLED = 1.5, 500_000_000, 3
"""The soak's own memory has grown if it is so many times, and by so many bytes more than, what it was after so many runs."""


@dataclass(frozen=True)
class AbsentAnomaly:
    """A known anomaly that no longer shows: ``runs`` of its cells, in all of this night, were without it."""

    known: KnownAnomalies
    runs: int


@dataclass(frozen=True)
class Night:
    """A night.

    Attributes:
        folder: the night's.
        cells: that can run, in the order of the suite.
        left_out: cells that cannot run, and why.
        lines: its runs, in the order in which they ended.
        given_up: catalog and release → why their stack was no longer tried.
        stopped: why it ended before its time; None if it did not.
        finds: its new anomalies that were replayed and shrunk, in their order.
    """

    folder: Path
    suite: Suite
    seed: int
    cells: tuple[Cell, ...]
    lines: tuple[NightRun, ...]
    samples: tuple[Sample, ...] = ()
    left_out: Mapping[Cell, str] = field(default_factory=dict)
    given_up: Mapping[tuple[str, ...], str] = field(default_factory=dict)
    stopped: str | None = None
    finds: tuple[Find, ...] = ()

    def known_of(self, seen: AnomalyCount, cell: Cell) -> str | None:
        """Where the known anomaly is discussed that one of a cell is: an entry of the suite, or a defect of the library; None if it is new."""
        return known_link(self.suite.known_of(cell), seen, seen.strict, seen.known)

    def known_kind(self, h: Happened, line: NightRun) -> str | None:
        """Where the known defect is discussed that a kind of failure of a run is; None if it is new."""
        if h.link is not None:
            return h.link
        known_ones = [self.known_of(s, line.cell) for s in line.kinds if s.known is None and s.name in h.names]
        if not known_ones:  # other checkers only say again what a known anomaly says
            return next((k for s in line.kinds if (k := self.known_of(s, line.cell)) is not None), None)
        return None if None in known_ones else known_ones[0]

    def new_of(self, line: NightRun) -> dict[str, int]:
        """The anomalies of a run that nobody knows, by name."""
        return record.tally(s for s in line.kinds if self.known_of(s, line.cell) is None)

    def runs_with(self, known: KnownAnomalies) -> list[NightRun]:
        """The runs that showed a known anomaly."""
        return [x for x in self.lines if any(_explains(known, s, x.cell) for s in x.kinds)]

    @cached_property
    def too_little(self) -> tuple[str, ...]:
        """Why an entry of ``known`` does not cover a new anomaly that it means, and what does, a sentence each."""
        new = ((s, x.cell) for x in self.lines for s in x.kinds if self.known_of(s, x.cell) is None)
        every = ((e, s) for s, cell in new for k in self.suite.known if k.of(cell) for e in k.anomaly if e.finds(s))
        return tuple(dict.fromkeys(f"known: {too_little(e, s, s.strict)}" for e, s in every))

    def showed(self, line: NightRun) -> Showed:
        """What a run showed."""
        if line.ended == "invalid":
            return "new" if self.new_of(line) else "known"
        return "error" if line.ended == "error" or line.ended == "incomplete" else line.ended

    @cached_property
    def by_cell(self) -> dict[Cell, list[NightRun]]:
        """The runs of each cell, also of a cell that has none; runs that are made again are left out."""
        found: dict[Cell, list[NightRun]] = {cell: [] for cell in self.cells}
        for line in self.lines:
            if line.ended != "incomplete":
                found.setdefault(line.cell, []).append(line)
        return found

    def counts(self, cell: Cell) -> Counter[Showed]:
        """What the runs of a cell showed, how often."""
        return Counter(self.showed(line) for line in self.by_cell.get(cell, ()))

    def worst(self, cell: Cell) -> Showed:
        """The worst that a cell showed."""
        found = self.counts(cell)
        return next((s for s in STATUS_ORDER if found[s]), "not run")

    def operations(self, cell: Cell) -> int:
        """The operations of all runs of a combination."""
        return sum(x.operations for x in self.by_cell[cell])

    def few(self, cell: Cell) -> bool:
        """Whether the runs of a combination, all valid, made so few operations that this says next to nothing."""
        return self.worst(cell) == "valid" and self.operations(cell) < (self.suite.at_least or FEW_OPERATIONS)

    @cached_property
    def too_few(self) -> Mapping[Cell, int]:
        """The combinations with fewer operations than the suite asks of each, and how many; one that had no run has 0."""
        made = {cell: self.operations(cell) for cell in self.cells}
        return {cell: n for cell, n in made.items() if n < (self.suite.at_least or 0)}

    def untested(self, cell: Cell) -> tuple[str, ...]:
        """What none of the runs of a combination tested, though all of them are valid, a clause each."""
        if self.worst(cell) != "valid":
            return ()
        first, *others = self.by_cell[cell]
        few = [f"few operations ({self.operations(cell)}), so next to nothing is known"] if self.few(cell) else []
        return (*few, *(text for text in first.untested if all(text in x.untested for x in others)))

    @cached_property
    def runs(self) -> tuple[NightRun, ...]:
        """The runs that were turns of their cells."""
        return tuple(line for line in self.lines if line.counts)

    @cached_property
    def failures(self) -> tuple[NightRun, ...]:
        """The runs that an anomaly fails, known or new, in their order; those with a new one first."""
        found = [line for line in self.lines if line.ended == "invalid"]
        return tuple(sorted(found, key=lambda x: self.showed(x) != "new"))

    @cached_property
    def missing(self) -> tuple[AbsentAnomaly, ...]:
        """The known anomalies that no longer show, although there were enough runs of their cells."""
        found = []
        for known in self.suite.known:
            ran = [x for x in self.runs if known.of(x.cell) and x.ended in ("valid", "invalid", "unknown")]
            if len(ran) >= known.runs and not self.runs_with(known):
                found.append(AbsentAnomaly(known, len(ran)))
        return tuple(found)

    @cached_property
    def verdict(self) -> Validity:
        """False if there is a new anomaly; unknown if something could not be decided, run, or was given up, no run was valid, or a combination
        had too few operations."""
        if any(self.showed(line) == "new" for line in self.lines if line.ended != "incomplete"):
            return False
        return "unknown" if self.undecided or self.too_few else True

    @property
    def undecided(self) -> bool:
        """Whether a run has no verdict, a stack was given up, or there was no run."""
        shown = {self.showed(line) for line in self.lines if line.ended != "incomplete"}
        return bool(shown & {"unknown", "error"} or not self.runs or self.given_up)

    @property
    def code(self) -> int:
        """The exit code: 0, 1, 2 as of a run; 255 if nothing could be judged, a stack never came up, or the night had to stop."""
        judged = any(line.ended in ("valid", "invalid", "unknown") for line in self.lines)
        if self.verdict is not False and (not judged or self.given_up or self.stopped is not None):
            return HARNESS_FAILED
        return exit_code(self.verdict)

    @cached_property
    def grown(self) -> tuple[int, int] | None:
        """Bytes of the soak's own memory after the first few runs and after the last one, if it has grown; None if not."""
        own = [line.rss for line in self.lines if line.rss]
        if len(own) <= SETTLED:
            return None
        first, last = max(own[:SETTLED]), own[-1]
        return (first, last) if last > GREW * first and last - first > GREW_BY else None

    @property
    def used(self) -> float:
        """Seconds that it has taken."""
        return max(record.used(self.lines, self.samples), *(f.used for f in self.finds), 0.0)


def _explains(known: KnownAnomalies, seen: AnomalyCount, cell: Cell) -> bool:
    """Whether anomalies of a cell's run are known ones."""
    return known.of(cell) and known_link([known], seen, seen.strict, None) is not None


def numbers(lines: Iterable[NightRun]) -> Counter[Cell]:
    """How many turns each cell had."""
    return Counter(line.cell for line in lines if line.counts)
