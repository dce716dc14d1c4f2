"""``icequake prove``: every known defect as one command, shown again on real Spark, and judged by the checkers.

One stack with warm writers serves all scenarios; each is a run of its own, in a namespace of its own, with a folder in the store that
``icequake check`` judges again. Every writer reaches catalog and store through proxies of its own
(``nemesis.proxy.connection``). What is decided is
told in full: how each operation ended, which anomalies the checkers found, and the rows that are left, each beside what the scenario says.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from checkers.evidence import runfolder
from checkers.evidence.history import HistoryError
from checkers.evidence.tablelog import TableLogError
from checkers.judge.proof import WORDS, Proof, decide
from compose.install.installation import Installation
from compose.objectstore import TableReadError
from compose.processes.service import ServiceError
from harness.run.bench import Bench
from harness.run.judged import judge_run
from harness.run.settings import RunError, Watcher
from harness.run.versions import versions
from harness.writers.slot import WriterError
from nemesis.proxy.board import Board, Hold
from reports.run.stored import own_findings
from workloads.file.scenario import Scenario, Step
from workloads.file.workload import Phase, Workload
from workloads.generator import PlannedOperation

LONGEST_HOLD = 25.0
"""Seconds; below the writers' socket timeout of 30 s, after which they give up a request."""

FAILURES = (RunError, WriterError, ServiceError, TableReadError, HistoryError, TableLogError)
"""What a scenario could not run or be judged for, as opposed to what it did not show."""


# --- decide -----------------------------------------------------------------------------------------------------------


# --- run --------------------------------------------------------------------------------------------------------------


class ScenarioScript:
    """The operations of one scenario in their order: who waits for whom, what is held at which gate. Use in ``with``.

    Every wait ends after the scenario's ``op_timeout`` with a :class:`RunError`.
    """

    def __init__(self, scenario: Scenario, board: Board) -> None:
        self._scenario = scenario
        self._board = board
        self._completed = {s.name: threading.Event() for s in scenario.operations}
        self._holds: dict[str, Hold] = {}
        self._stop = threading.Event()
        self._releaser = threading.Thread(target=self._release, name="script", daemon=True)

    def __enter__(self) -> ScenarioScript:
        for step in self._scenario.operations:
            if step.gated:
                op = self._scenario.op(step.name)
                self._holds[step.name] = self._board.hold(
                    op, step.fault, service=step.service, kind=step.at, longest=LONGEST_HOLD, nth=step.nth
                )
        self._releaser.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._releaser.join()
        self._board.heal()

    def problems(self) -> list[str]:
        """What did not go as the scenario says at the gates, a sentence each: then nothing that was seen proves anything."""
        found = []
        for name, hold in self._holds.items():
            if not hold.reached.is_set():
                found.append(f"no commit of {name} came to the gate")
            elif hold.problem is not None:
                found.append(f"the commit of {name}: {hold.problem}")
        return found

    def operations(self, workload: Workload, phase: Phase, writer: int, seed: int) -> Iterator[PlannedOperation]:
        """What a writer does, as :attr:`harness.run.settings.Settings.operations`: the next one when what it comes after is there."""
        mine = [s for s in self._scenario.operations if s.writer == writer]
        for step in mine:
            self._until(lambda step=step: self._came(step.after), f"{step.name} waits for {step.after}")
            yield PlannedOperation(step.do, self._scenario.table(step), step.value)
            self._completed[step.name].set()
        for step in mine:
            if step.fault is not None and (hold := self._holds[step.name]).reached.is_set():
                self._until(hold.passed.is_set, f"the commit of {step.name} never passed")

    def _came(self, when: dict[str, Any] | None) -> bool:
        return all(
            self._completed[name].is_set() or (moment == "held" and self._holds[name].reached.is_set())
            for name, moment in (when or {}).items()
        )

    def _until(self, condition: Any, what: str) -> None:
        ends = time.monotonic() + self._scenario.op_timeout
        while not condition():
            if self._stop.wait(0.01) or time.monotonic() > ends:
                raise RunError(f"{self._scenario.scenario}: {what}, for {self._scenario.op_timeout:.0f} s")

    def _release(self) -> None:
        left: list[Step] = [s for s in self._scenario.operations if s.gated]
        while left and not self._stop.wait(0.01):
            for step in [s for s in left if self._came(s.hold)]:
                self._holds[step.name].release()
                left.remove(step)


def prove_once(bench: Bench, scenario: Scenario, runs: Path, command: str) -> Proof:
    """Run a scenario once, judge it, write its verdicts and its page into the store ``runs``."""
    began = time.monotonic()
    folder = runfolder.create(runs, scenario.scenario)
    found: dict[str, str] = {}
    struck: list[str] = []
    try:
        with ScenarioScript(scenario, bench.groups[0].board) as script:
            bench.run(scenario.workload(), folder, script.operations, command=command)
            problems = script.problems()
        judged = judge_run(folder)
        told = judged.stored
        for a in own_findings(told.anomalies):
            found.setdefault(a.name, a.explanation)
        passed = sorted((p for requests in told.passed.values() for p in requests if p.faults), key=lambda p: p.time)
        struck = [f"the {p.kind} of {p.op or p.table}: {', '.join(p.faults)}: {p.status}" for p in passed]
        state, why = decide(scenario, judged.evidence.history, judged.results, bench.versions["iceberg"])
        if problems:
            state, why = "not reproduced", (*problems, *why)
    except FAILURES as e:
        state, why = "not run", (str(e),)
    seconds = round(time.monotonic() - began, 1)
    return Proof(scenario.scenario, state, why, str(folder.path), seconds, found, tuple(struck))


# --- tell -------------------------------------------------------------------------------------------------------------


def prove(
    scenarios: Sequence[Scenario],
    installation: Installation,
    runs: Path,
    watcher: Watcher,
    *,
    times: int = 1,
    command: str = "icequake prove",
) -> tuple[list[Proof], dict[str, str]]:
    """Run every scenario ``times`` times, those of one catalog on one stack.

    Returns:
        The proofs in the order of the runs, and the versions that ran.
    """
    proofs: list[Proof] = []

    def bench(s: Scenario) -> tuple[str, tuple[tuple[str, str], ...]]:
        return s.catalog, tuple(sorted(s.catalog_properties.items()))

    for which in dict.fromkeys(map(bench, scenarios)):
        proofs += _on_one([s for s in scenarios if bench(s) == which], installation, runs, watcher, times, command)
    return proofs, versions(installation)


def _on_one(
    scenarios: Sequence[Scenario],
    installation: Installation,
    runs: Path,
    watcher: Watcher,
    times: int,
    command: str,
) -> list[Proof]:
    """The scenarios of one catalog with the same properties, on one stack."""
    proofs: list[Proof] = []
    try:
        writers = max(s.writers for s in scenarios)
        first = scenarios[0]
        with Bench(
            installation,
            writers,
            runs / "prove-logs",
            watcher,
            catalog=first.catalog,
            catalog_properties=first.catalog_properties,
        ) as bench:
            for scenario in scenarios:
                for n in range(times):
                    proof = prove_once(bench, scenario, runs, f"{command} {scenario.scenario}")
                    proofs.append(proof)
                    count = f" ({n + 1} of {times})" if times > 1 else ""
                    watcher.say(f"{scenario.scenario}{count}: {WORDS[proof.state]}, {proof.seconds:.0f} s")
                    for reason in proof.why:
                        watcher.say(f"  {reason}")
    except FAILURES as e:  # of the stack: nothing can run that has not
        done = {p.scenario for p in proofs}
        proofs += [Proof(s.scenario, "not run", (str(e),)) for s in scenarios if s.scenario not in done]
        watcher.say(f"the stack failed: {e}")
    return proofs
