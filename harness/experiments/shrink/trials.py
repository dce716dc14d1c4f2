"""The runs of a shrink: each candidate is run on a warm bench and judged, and its outcome is logged.

An answer that the journal has already is not asked for again (:mod:`harness.experiments.shrink.log`).
"""

from __future__ import annotations

import contextlib
import hashlib
import shutil
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from checkers.evidence.journal import Journal
from checkers.evidence.replace import replace
from checkers.evidence.runfolder import RunFolder, mapping_in
from checkers.judge.runfolder import Results
from checkers.verdict import own_findings
from compose.external.external import External
from compose.install.installation import Installation
from harness.campaign.campaign import CouldNotRun, Done, JobAttempt, Questions
from harness.campaign.stacks import Key, StackError, WarmStacks
from harness.experiments.prove import prove_once
from harness.experiments.replay import replay_once
from harness.experiments.shrink.candidates import NEMESIS, key, measure
from harness.experiments.shrink.log import Trial
from harness.experiments.shrink.reduction import BudgetSpent, Tries
from harness.experiments.shrink.translate import to_yaml
from harness.experiments.soakstacks import sparks
from harness.run.bench import Bench
from harness.run.errors import RunError
from harness.run.judged import Publish
from harness.run.settings import Watcher
from reports.drawing.words import plural
from workloads.engines.engines import SPARK
from workloads.file.mode import QUICK, Mode
from workloads.file.recording import Recording
from workloads.file.scenario import Scenario

MOST_TRIES = 3
"""So often a candidate is run whose run cannot be made; then it counts, in this session, as one that does not show it."""
MOST_FAILURES = 4
"""So many such candidates in succession end the shrink, or one if no run was ever made: the fault is the harness's, not theirs."""
RUNS = "runs"
"""The folder of the runs, in that of the shrink."""
REPRODUCED = "reproduced"
"""What the run of a scenario shows if all is as its file says."""
KNOWN = "what it shows is a known defect, and what is looked for is not"
"""Why a run does not count that shows the anomaly."""
MOST_SAID = 3
"""Sentences on what a replay could not force."""


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
        """Count one more run. Raises BudgetSpent if there may be none."""
        now = self.clock()
        self._began = now if self._began is None else self._began
        if self.seconds is not None and now - self._began >= self.seconds:
            raise BudgetSpent
        if self.runs is not None and self._done >= self.runs:
            raise BudgetSpent
        self._done += 1


@dataclass(frozen=True, slots=True)
class CandidateRun:
    """A run of a candidate.

    Attributes:
        folder: of the run; None if there is none.
        found: names of the anomalies that it showed; of a scenario that was reproduced also :data:`REPRODUCED`.
        problem: what was not as it should have been; empty if nothing.
        counts: name → how many anomalies of that name; empty if nobody counted.
        known: the names of which it showed nothing but known defects.
    """

    folder: Path | None
    found: tuple[str, ...]
    problem: str = ""
    counts: Mapping[str, int] = field(default_factory=dict)
    known: Collection[str] = ()


class Runner(Protocol):
    """Runs candidates."""

    def replay(self, r: Recording) -> CandidateRun:
        """Run a recording. Whatever it raises, the run could not be made."""

    def prove(self, s: Scenario) -> CandidateRun:
        """Run a scenario. The same."""


class TrialBench:
    """Runs candidates on real Spark. Use in ``with``: the bench is started for the first run and stays up until a run cannot be made.

    Args:
        runs: the folder of the runs.
        logs: the folder of the services' logs.
        catalog: a name of ``compose.catalogs.registry``, or the path of the user's own file.
        external: the user's own services.
        bench: a running bench to use as long as it has enough writers; ``broke`` ends it, when a run on it could not be made.
        secrets: of the runs; those of ``external`` are known.
        mode: how Spark runs on a bench that is started here, if no bench is given.
        writers: of a bench that is started here, at least.
        replays: the file of a recording → how a person repeats its run; ``proves``: the same of a scenario's.
        stop: when another thread sets it, the run that goes on ends soon.
    """

    def __init__(
        self,
        runs: Path,
        logs: Path,
        installation: Installation,
        watcher: Watcher,
        publish: Publish[object],
        *,
        catalog: str,
        external: External | None = None,
        bench: Bench | None = None,
        broke: Callable[[], object] = lambda: None,
        secrets: Iterable[str] = (),
        mode: Mode = QUICK,
        writers: int = 1,
        replays: Callable[[Path], str],
        proves: str,
        stop: threading.Event | None = None,
    ) -> None:
        self._runs = runs
        self._installation = installation
        self._watcher = watcher
        self._publish = publish
        self._catalog = catalog
        self._external = external
        self._replays = replays
        self._proves = proves
        self._stop = stop
        self._bench = bench
        self._broke = broke
        self._mode = mode if bench is None else bench.mode
        self._least = writers
        hidden = (*secrets, *(() if external is None else external.secrets))
        self._stacks = WarmStacks(self._start, logs, watcher.say, runs=None, secrets=hidden)

    def __enter__(self) -> TrialBench:
        self._stacks.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._stacks.close()

    def replay(self, r: Recording) -> CandidateRun:
        """Run and judge a recording."""
        with self._on(writers_of(r), sparks(r.workload)) as bench:
            done = replay_once(bench, r, self._runs, self._publish, self._replays, stop=self._stop)
        problems = [done.difference] if done.difference else []
        problem = "; ".join([*problems, *done.unforced[:MOST_SAID]])
        known = known_of(RunFolder(done.folder))
        return CandidateRun(done.folder, names_of(done.results), problem, known=known)

    def prove(self, s: Scenario) -> CandidateRun:
        """Run and judge a scenario."""
        writers = s.writers + (SPARK not in s.by_writer)
        with self._on(writers, max(1, s.by_writer.count(SPARK))) as bench:
            attempt = JobAttempt(self._watcher, stop=self._stop or threading.Event())
            made = attempt.outcome(
                lambda: Done([prove_once(bench, s, self._runs, self._proves, self._publish, attempt)])
            )
            if isinstance(made, CouldNotRun):
                raise RunError(made.why)
            (proof,) = made.lines
        found = (*sorted(proof.found), *([REPRODUCED] if proof.as_said else []))
        if proof.folder is None:
            return CandidateRun(None, found, "; ".join(proof.why))
        folder = RunFolder(Path(proof.folder))
        return CandidateRun(folder.path, found, "; ".join(proof.why), counts_of(folder), known_of(folder))

    @contextlib.contextmanager
    def _on(self, writers: int, sparks: int) -> Iterator[Bench]:
        """A bench with at least so many drivers of Spark; one that is started here has one for each writer."""
        if self._bench is not None and self._bench.writers >= sparks:
            try:
                yield self._bench
            except Exception:
                self._bench = None
                self._broke()
                raise
            return
        enough = (key for key, bench in self._stacks.up if bench.writers >= sparks)
        with self._stacks.lease(next(enough, (self._catalog, str(max(writers, self._least))))) as lease:
            yield lease.stack

    def _start(self, key: Key, logs: Path, _: Bench | None) -> Bench:
        writers = int(key[1])
        self._watcher.say(f"it has {plural(writers, 'writer')}")
        return Bench(
            self._installation,
            writers,
            logs,
            self._watcher,
            catalog=self._catalog,
            external=self._external,
            mode=self._mode,
        )


class Trials:
    """The answers about candidates: from the journal, or by running them.

    Args:
        folder: of the shrink.
        name: of the anomaly that is looked for.
        keep: whether to keep the runs that do not show it.
        new: whether a run counts only if it shows the anomaly as no known defect.
    """

    def __init__(
        self,
        runner: Runner,
        journal: Journal[Trial],
        folder: Path,
        name: str,
        budget: Budget,
        watcher: Watcher,
        *,
        keep: bool = False,
        new: bool = False,
    ) -> None:
        self._new = new
        self._questions = Questions(journal, lambda trial: trial.answers)
        self.budget = budget
        self._runner = runner
        self._folder = folder
        self._name = name
        self._watcher = watcher
        self._keep = keep
        self._impossible: dict[str, Trial] = {}
        """Key → the last try of a candidate whose run could not be made, since the last run that could."""

    @property
    def lines(self) -> Sequence[Trial]:
        """All runs, also those of earlier sessions, in their order."""
        return self._questions.journal.lines

    def once(self, r: Recording, n: int = 0) -> Trial:
        """Run ``n + 1`` of a recording.

        Raises:
            BudgetSpent: it would have to run, and there is no budget left.
        """
        return self._asked(n, Trial(key(r), str(measure(r)), False), self._name, lambda: self._runner.replay(r))

    def tried(self, r: Recording, tries: int) -> Tries:
        """Run a recording until it shows what is looked for, at most ``tries`` times. Raises BudgetSpent."""
        for n in range(tries):
            if self.once(r, n).failed:
                return Tries(1, n + 1)
        return Tries(0, tries)

    def scenario_once(self, s: Scenario, n: int = 0) -> Trial:
        """Run ``n + 1`` of a scenario. It counts as failed if it is reproduced exactly as its file says. Raises BudgetSpent."""
        waits = sum(len(o.after or {}) + len(o.hold or {}) for o in s.operations)
        trial = Trial(scenario_key(s), f"scenario with {plural(waits, 'wait')}", False)
        return self._asked(n, trial, REPRODUCED, lambda: self._runner.prove(s))

    def repeated_once(self, s: Scenario, n: int = 0) -> Trial:
        """Run ``n + 1`` of a scenario whose operations are repeated. It counts as failed if what is looked for shows at all. Raises
        BudgetSpent."""
        what = f"{plural(len(s.operations), 'operation')}, {s.repeat} times"
        trial = Trial(f"repeated {scenario_key(s)}", what, False)
        return self._asked(n, trial, self._name, lambda: self._runner.prove(s))

    def reproduces(self, s: Scenario, times: int) -> Tries:
        """How often a scenario is reproduced in so many runs. Raises BudgetSpent."""
        return Tries(sum(self.scenario_once(s, n).failed for n in range(times)), times)

    def always(self, s: Scenario, times: int) -> Tries:
        """The same, ended by the first run in which it is not reproduced: then it counts as if it never was. Raises BudgetSpent."""
        for n in range(times):
            if not self.scenario_once(s, n).failed:
                return Tries(0, n + 1)
        return Tries(times, times)

    @contextlib.contextmanager
    def without_limit(self) -> Iterator[None]:
        """Inside, the budget does not count: for the few runs that say how often the result shows it."""
        before, self.budget = self.budget, Budget()
        try:
            yield
        finally:
            self.budget = before

    def _asked(self, n: int, trial: Trial, shows: str, run: Callable[[], CandidateRun]) -> Trial:
        """Run ``n + 1`` of a candidate: the journal's, or made now and said.

        Args:
            trial: the candidate.
            shows: what the run must have found to count as failed.

        Raises:
            BudgetSpent: it would have to run, and there is no budget left.
            Exception: why several candidates could not be run.
        """
        known = self._questions.answer(trial.key, n)
        if known is not None:
            return known
        self.budget.take()
        if trial.key in self._impossible:
            return self._impossible[trial.key]
        made = self._made(trial, run)
        if isinstance(made, Trial):
            return made
        ran, seconds = made
        self._impossible.clear()
        discussed = self._new and self._name in ran.known
        failed, folder = shows in ran.found and not discussed, ran.folder
        if folder is not None and not (failed or shows == REPRODUCED or self._keep):
            shutil.rmtree(folder, ignore_errors=True)
            folder = None
        trial = replace(
            trial,
            failed=failed,
            found=tuple(x for x in ran.found if x != REPRODUCED),
            folder=None if folder is None else str(folder.relative_to(self._folder)),
            seconds=seconds,
            problem="; ".join(filter(None, (KNOWN if discussed else "", ran.problem))),
            shown=0 if discussed else ran.counts.get(self._name, 0),
        )
        outcome = REPRODUCED if failed and shows == REPRODUCED else ", ".join(trial.found) or "nothing found"
        more = f" ({trial.problem})" if trial.problem and not failed else ""
        self._add(trial, f"{outcome}{more}, {trial.seconds:.0f} s")
        return trial

    def _made(self, trial: Trial, run: Callable[[], CandidateRun]) -> tuple[CandidateRun, float] | Trial:
        """Run a candidate: the run and its seconds, or the last try if none could be made. Each try that could not has a line of its own."""
        # One that could not be run in earlier sessions is tried once more in this one.
        tries = max(1, MOST_TRIES - sum(t.key == trial.key for t in self.lines if t.could_not))
        for n in range(tries):
            if n:
                self.budget.take()
            attempt = JobAttempt(self._watcher)
            made = attempt.outcome(lambda: Done([run()]), ends=(BudgetSpent, StackError))
            if isinstance(made, Done):
                return made.lines[0], attempt.seconds
            error, failing = made.error, replace(trial, could_not=made.why, seconds=attempt.seconds)
            self._add(failing, f"could not be run: {made.why}")
        self._impossible[trial.key] = failing
        if error is not None and (len(self._impossible) >= MOST_FAILURES or all(t.could_not for t in self.lines)):
            raise error
        return failing

    def _add(self, trial: Trial, outcome: str) -> None:
        self._questions.add(trial)
        self._watcher.say(f"run {len(self.lines)}: {trial.what}: {outcome}")


def writers_of(r: Recording) -> int:
    """The drivers that a replay needs: its writers, and one for the nemesis or for what no writer of Spark's can do."""
    nemesis = any(o.phase == NEMESIS for o in r.operations) or any(f.fault.verb == "maintain" for f in r.faults)
    return r.workload.writers + int(nemesis or SPARK not in r.workload.engines)


def names_of(results: Results) -> tuple[str, ...]:
    """The names of a run's own findings, each once."""
    found = own_findings([a for v in results.verdicts for a in v.anomalies])
    return tuple(sorted({a.name for a in found}))


def counts_of(folder: RunFolder) -> dict[str, int]:
    """How many anomalies of each name the results of a judged run have."""
    found: dict[str, int] = {}
    for checker in mapping_in(folder.results)["checkers"]:
        for anomaly in checker["anomalies"]:
            found[anomaly["name"]] = found.get(anomaly["name"], 0) + 1
    return found


def known_of(folder: RunFolder) -> frozenset[str]:
    """The names of which all anomalies that the results of a judged run have are known defects."""
    results = mapping_in(folder.results)
    names = {c["checker"]: [a["name"] for a in c["anomalies"]] for c in results["checkers"]}
    told: dict[bool, set[str]] = {True: set(), False: set()}
    for story in results["stories"]:
        told[bool(story["known"])] |= {names[checker][n] for checker, n in story["anomalies"]}
    return frozenset(told[True] - told[False])


def scenario_key(s: Scenario) -> str:
    """What names a scenario in the log; its texts do not matter."""
    plain = s.model_copy(
        update={"description": "-", "headline": "", "affected": "-", "link": "https://-", "showed": ""}
    )
    return hashlib.sha256(to_yaml(plain).encode()).hexdigest()[:16]


def about(run: Path, name: str, catalog: str, iceberg: str, op: str | None = None) -> Mapping[str, Any]:
    """What the log says is shrunk."""
    said = {"run": str(run), "anomaly": name, "catalog": catalog, "iceberg": iceberg}
    return said if op is None else {**said, "op": op}
