"""The runs of a shrink: each candidate is run on a warm bench and judged, and its outcome is logged.

An answer that the log has already is not asked for again (:mod:`harness.experiments.shrink.log`).
"""

from __future__ import annotations

import contextlib
import hashlib
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from checkers.judge.runfolder import Results
from checkers.verdict import own_findings
from compose.external.external import External
from compose.install.installation import Installation
from harness.experiments.prove import FAILURES, prove_once
from harness.experiments.replay import replay_once
from harness.experiments.shrink.candidates import NEMESIS, key, size
from harness.experiments.shrink.log import Log, Trial
from harness.experiments.shrink.reduction import Spent, Tries
from harness.experiments.shrink.translate import to_yaml
from harness.run.bench import Bench
from harness.run.judged import Publish
from harness.run.settings import RunError, Watcher
from workloads.engines.engines import SPARK
from workloads.file.recording import Recording
from workloads.file.scenario import Scenario

MOST_PROBLEMS = 3
"""Runs in succession that fail for reasons of the harness; then the shrink ends."""
RUNS = "runs"
"""The folder of the runs, in that of the shrink."""
REPRODUCED = "reproduced"
"""What the run of a scenario shows if all is as its file says."""
_Ran = tuple[Path | None, Sequence[str], str]
"""Folder, names of what was found, and what was not as it should have been."""


@dataclass
class Budget:
    """What may still be spent. Use of what the log has is free.

    Attributes:
        seconds: for how long candidates may be run, from the first one on; None: as long as it takes.
        runs: how many runs there may be; None: any number.
        clock: seconds; only differences count.
    """

    seconds: float | None = None
    runs: int | None = None
    clock: Callable[[], float] = time.monotonic
    _began: float | None = None
    _done: int = 0

    def take(self) -> None:
        """Count one more run. Raises Spent if there may be none."""
        now = self.clock()
        self._began = now if self._began is None else self._began
        if self.seconds is not None and now - self._began >= self.seconds:
            raise Spent
        if self.runs is not None and self._done >= self.runs:
            raise Spent
        self._done += 1


@dataclass(frozen=True)
class Where:
    """Where the runs go, and what they run on.

    Attributes:
        folder: of the shrink.
        catalog: a name of ``compose.catalogs.registry``, or the path of the user's own file.
        external: the user's own services.
        keep: whether to keep the runs that do not show what is looked for.
        replays: how a person repeats the run of a recording; ``proves``: that of a scenario file.
    """

    folder: Path
    installation: Installation
    catalog: str
    watcher: Watcher
    publish: Publish[object]
    external: External
    keep: bool = False
    replays: str = "icequake run"
    proves: str = "icequake prove"


class Trials:
    """Runs candidates. Use in ``with``: the bench stays up from run to run, and is started when the first run needs it.

    Args:
        name: of the anomaly that is looked for.
    """

    def __init__(self, where: Where, log: Log, name: str, budget: Budget) -> None:
        self._where = where
        self._log = log
        self._name = name
        self.budget = budget
        self._benches = contextlib.ExitStack()
        self._bench: Bench | None = None
        self._problems = 0
        self.runs = 0
        """Runs of this command."""

    def __enter__(self) -> Trials:
        return self

    def __exit__(self, *_: object) -> None:
        self._benches.close()

    # -- recordings ------------------------------------------------------------------------------------------------------

    def once(self, r: Recording, n: int = 0) -> Trial:
        """Run ``n + 1`` of a recording: from the log, or now.

        Raises:
            Spent: it would have to run, and there is no budget left.
        """
        known = self._log.of(key(r))
        if n < len(known):
            return known[n]
        self.budget.take()
        return self._logged(Trial(key(r), size(r), False), self._name, lambda: self._replayed(r))

    def tried(self, r: Recording, tries: int) -> Tries:
        """Run a recording until it shows what is looked for, at most ``tries`` times. Raises Spent."""
        for n in range(tries):
            if self.once(r, n).failed:
                return Tries(1, n + 1)
        return Tries(0, tries)

    def _replayed(self, r: Recording) -> _Ran:
        where = self._where
        done = replay_once(self._with(writers_of(r)), r, where.folder / RUNS, where.publish, command=where.replays)
        said = [done.difference] if done.difference else []
        return done.folder, names_of(done.results), "; ".join([*said, *done.unforced[:3]])

    # -- scenarios -------------------------------------------------------------------------------------------------------

    def scenario_once(self, s: Scenario, n: int = 0, *, free: bool = False) -> Trial:
        """Run ``n + 1`` of a scenario: from the log, or now. It failed if it is reproduced exactly as its file says.

        Args:
            free: whether it runs although the budget is spent.

        Raises:
            Spent: as for :meth:`once`.
        """
        known = self._log.of(scenario_key(s))
        if n < len(known):
            return known[n]
        if not free:
            self.budget.take()
        what = f"scenario with {sum(len(o.after or {}) + len(o.hold or {}) for o in s.operations)} waits"
        return self._logged(Trial(scenario_key(s), what, False), REPRODUCED, lambda: self._proved(s))

    def reproduces(self, s: Scenario, times: int, *, free: bool = False) -> Tries:
        """How often a scenario is reproduced in so many runs."""
        return Tries(sum(self.scenario_once(s, n, free=free).failed for n in range(times)), times)

    def always(self, s: Scenario, times: int) -> Tries:
        """The same, ended by the first run in which it is not reproduced: then it counts as if it never was. Raises Spent."""
        for n in range(times):
            if not self.scenario_once(s, n).failed:
                return Tries(0, n + 1)
        return Tries(times, times)

    def _proved(self, s: Scenario) -> _Ran:
        where = self._where
        writers = s.writers + (SPARK not in s.by_writer)
        proof = prove_once(self._with(writers), s, where.folder / RUNS, where.proves, where.publish)
        if proof.state == "not run":
            raise RunError("; ".join(proof.why))
        found = (*sorted(proof.found), *([REPRODUCED] if proof.as_said else []))
        return None if proof.folder is None else Path(proof.folder), found, "; ".join(proof.why)

    # -- both ------------------------------------------------------------------------------------------------------------

    def _logged(self, trial: Trial, shows: str, run: Callable[[], _Ran]) -> Trial:
        """Run a candidate, log its outcome and say it. ``shows``: what it must have found to count as failed."""
        began = time.monotonic()
        self.runs += 1
        folder: Path | None = None
        found: Sequence[str] = ()
        try:
            folder, found, problem = run()
            self._problems = 0
        except FAILURES as e:
            self._problems += 1
            if self._problems >= MOST_PROBLEMS:
                raise
            problem = f"could not run: {e}"
        failed = shows in found
        if folder is not None and not (failed or shows == REPRODUCED or self._where.keep):
            shutil.rmtree(folder, ignore_errors=True)
            folder = None
        trial = replace(
            trial,
            failed=failed,
            found=tuple(x for x in found if x != REPRODUCED),
            folder=None if folder is None else str(folder.relative_to(self._where.folder)),
            seconds=round(time.monotonic() - began, 1),
            problem=problem,
        )
        self._log.add(trial)
        outcome = "reproduced" if failed and shows == REPRODUCED else ", ".join(trial.found) or "nothing found"
        more = f" ({problem})" if problem and not failed else ""
        self._where.watcher.say(f"run {self.runs}: {trial.what}: {outcome}{more}, {trial.seconds:.0f} s")
        return trial

    def _with(self, writers: int) -> Bench:
        """A bench with at least so many writers."""
        if self._bench is None or self._bench.writers < writers:
            self._benches.close()
            where = self._where
            where.watcher.say(f"starting a stack with {writers} writers")
            bench = Bench(
                where.installation,
                writers,
                where.folder / "logs",
                where.watcher,
                catalog=where.catalog,
                external=where.external,
            )
            self._bench = self._benches.enter_context(bench)
        return self._bench


def writers_of(r: Recording) -> int:
    """The drivers that a replay needs: its writers, and one for the nemesis or for what no writer of Spark's can do."""
    nemesis = any(o.phase == NEMESIS for o in r.operations) or any(f.fault.verb == "maintain" for f in r.faults)
    return r.workload.writers + int(nemesis or SPARK not in r.workload.engines)


def names_of(results: Results) -> tuple[str, ...]:
    """The names of a run's own findings, each once."""
    found = own_findings([a for v in results.verdicts for a in v.anomalies])
    return tuple(sorted({a.name for a in found}))


def scenario_key(s: Scenario) -> str:
    """What names a scenario in the log; its texts do not matter."""
    said = s.model_copy(update={"description": "-", "headline": "", "affected": "-", "link": "https://-"})
    return hashlib.sha256(to_yaml(said).encode()).hexdigest()[:16]


def about(run: Path, name: str, catalog: str, iceberg: str) -> Mapping[str, Any]:
    """What the log says is shrunk."""
    return {"run": str(run), "anomaly": name, "catalog": catalog, "iceberg": iceberg}
