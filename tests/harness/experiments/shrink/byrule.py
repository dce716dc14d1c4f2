"""What a candidate shows, a rule says; a run that shows the anomaly is a copy of the recorded one."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from harness.experiments.shrink.trials import REPRODUCED, CandidateRun
from workloads.file.recording import Recording
from workloads.file.scenario import Scenario


class ByRule:
    """Says of each candidate what a rule says; a run that shows the anomaly is a copy of the recorded one.

    Args:
        shows: whether a recording shows it.
        reproduces: whether a scenario is reproduced.
        stops: after so many runs somebody presses Ctrl-C.
        rarely: whether repeated operations show it.
        known: whether what a recording shows is a known defect.
    """

    def __init__(
        self,
        folder: Path,
        source: Path,
        shows: Callable[[Recording], bool],
        reproduces: Callable[[Scenario], bool] = lambda s: True,
        stops: int | None = None,
        rarely: Callable[[Scenario], bool] = lambda s: False,
        known: Callable[[Recording], bool] = lambda r: False,
    ) -> None:
        self.known = known
        self.folder, self.source = folder, source
        self.shows, self.reproduces = shows, reproduces
        self.stops = stops
        self.rarely = rarely
        self.runs = 0

    def _run(self, found: tuple[str, ...]) -> CandidateRun:
        if self.runs == self.stops:
            raise KeyboardInterrupt
        self.runs += 1
        to = self.folder / "runs" / f"{len([*self.folder.glob('runs/*')])}-{self.runs}"
        shutil.copytree(self.source, to)
        return CandidateRun(to, found)

    def replay(self, r: Recording) -> CandidateRun:
        known = ("undelete",) if self.known(r) else ()
        return replace(self._run(("undelete",) if self.shows(r) else ("duplicate-commit",)), known=known)

    def prove(self, s: Scenario) -> CandidateRun:
        if s.repeat > 1:
            shown = self.rarely(s)
            return replace(self._run(("undelete", REPRODUCED) if shown else ()), counts={"undelete": int(shown)})
        return self._run(("undelete", REPRODUCED) if self.reproduces(s) else ())


def needs_both(r: Recording) -> bool:
    return {"delete", "update-register"} <= {o.f for o in r.operations} and r.workload.tables[0].seed_rows >= 2
