"""What a night that was killed left: folders of runs whose line is missing, each with what its plan says of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from checkers.evidence import runfolder
from checkers.evidence.replace import replace
from checkers.evidence.runfolder import RunFolder
from checkers.nights.record import NightRun
from harness.experiments.soakfolder import RUNS_FOLDER, remove
from harness.experiments.soakjudged import judged_line
from harness.run.judged import JudgedRun
from workloads.file.suite import Cell

ABOUT = "soak"
"""The key of a run's plan with its cell and its number."""


@dataclass(frozen=True)
class UnrecordedRun:
    """A run whose line is missing.

    Attributes:
        blank: its line before it is judged.
        complete: whether it came to its end.
    """

    folder: RunFolder
    blank: NightRun
    complete: bool

    def judged(self, judged: JudgedRun[object] | None, reason: str | None) -> NightRun:
        """Its line: one that came to its end is as good as any other, one that did not is an anomaly if it certainly shows one.

        Args:
            reason: why it cannot be judged.
        """
        line = self.blank
        if judged is not None:
            line = judged_line(line, self.folder, judged)
        elif self.complete and reason is not None:
            line = replace(line, ended="error")
        why = "its session was stopped or killed" if reason is None else f"it cannot be judged: {reason}"
        if line.ended == "error" and reason is not None:
            return replace(line, reason=why)
        if line.ended == "invalid" or (self.complete and line.ended != "incomplete"):
            return line
        return replace(line, ended="incomplete", reason=why)


def unrecorded_runs(into: Path, lines: Iterable[NightRun], say: Callable[[str], None]) -> Iterator[UnrecordedRun]:
    """The runs of a night's folder whose line is missing; removes the folders that nobody needs."""
    recorded = {x.folder: x for x in lines if x.folder is not None}
    for folder in runfolder.runs(into / RUNS_FOLDER):
        name = folder.path.relative_to(into).as_posix()
        line = recorded.get(name)
        if line is None:
            if (found := _unrecorded(folder, name, say)) is not None:
                yield found
        elif line.ended in ("valid", "incomplete"):
            remove(folder.path)


def _unrecorded(folder: RunFolder, name: str, say: Callable[[str], None]) -> UnrecordedRun | None:
    try:
        plan = folder.read_plan()
        about = (plan.model_extra or {})[ABOUT]
        cell, number = Cell.from_json(about["cell"]), int(about["number"])
    except (runfolder.StoreError, KeyError, TypeError, ValueError) as e:
        if not folder.began:  # it was killed before it wrote its plan, or its first event
            remove(folder.path)
        else:
            say(f"left alone: {' '.join(str(e).split()) or folder.plan}")
        return None
    state = folder.state()
    started = str(state.get("started") or now())
    line = NightRun(cell, number, plan.seed, started, "incomplete", folder=name, command=plan.command)
    return UnrecordedRun(folder, line, state.get("state") == "complete")


def now() -> str:
    """The wall clock, as a line has it."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")
