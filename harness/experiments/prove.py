"""``icequake prove``: reproduce every known defect on real Spark with one command; the checkers judge each run.

One stack with warm writers serves all scenarios of a catalog, two at a time when they are many; each is a separate run with
its own namespace and a folder in the store that ``icequake check`` can judge again. Every writer reaches catalog and store through
its own proxies (``nemesis.proxy``). The result lists how each operation ended, which anomalies the checkers found,
and which rows remain, each beside what the scenario expects.
"""

from __future__ import annotations

import contextlib
import shlex
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any

from checkers.evidence import runfolder
from checkers.evidence.change_requests import change_requests
from checkers.judge.proof import PLANNED, PROBLEMS, WORDS, Proof
from checkers.verdict import own_findings
from compose.catalogs import user_file
from compose.external.external import external
from compose.external.preflight import preflight
from compose.install.installation import Installation
from compose.processes.service import ServiceError
from compose.redaction import Redaction, secrets_of
from harness.campaign import errors
from harness.campaign.errors import is_full, keep_details
from harness.campaign.stacks import Key, Lease, WarmStacks, secrets_of_files, session_logs
from harness.run.bench import Bench
from harness.run.judged import Publish, judge_run
from harness.run.ordering import patience
from harness.run.settings import RunError, Watcher
from harness.run.versions import versions
from harness.writers.slot import WriterError, WriterSlot
from nemesis.proxy.board import Board, Hold
from workloads.file.repeated import repeated, stride_of
from workloads.file.scenario import Scenario, Step
from workloads.file.workload import Phase, Workload
from workloads.generator import PlannedOperation

LONGEST_HOLD = 60.0
"""Seconds; a busy machine needs long for the operations in between."""
CLIENTS_WAIT_S = 75
"""Seconds that a client waits for the answer to a request: longer than it is held."""
GROUPS = 2
"""Scenarios that run at the same time."""
MANY = 8
"""Least number of scenarios for that; with fewer, starting more writers takes longer than it saves."""


class ScenarioScript:
    """The operations of one scenario in their order: which one waits for which, and which commit is held at a gate. Use in ``with``.

    Every wait ends after the scenario's ``op_timeout``, or when ``stopped`` is set, with a :class:`RunError`.
    """

    def __init__(self, scenario: Scenario, board: Board, stopped: threading.Event | None = None) -> None:
        self._stopped = stopped or threading.Event()
        self._scenario = scenario
        self._board = board
        self._completed = {s.name: threading.Event() for s in scenario.operations}
        self._holds: dict[str, Hold] = {}
        self._slots: Sequence[WriterSlot] = ()
        self._alive: list[str] = []
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

    def launched(self, slots: Sequence[WriterSlot]) -> None:
        """The run's writers (:attr:`harness.run.settings.Settings.launched`)."""
        self._slots = slots

    def problems(self) -> list[str]:
        """What went wrong at the gates, one sentence each; if anything did, the run proves nothing."""
        found = [*self._alive]
        for name, hold in self._holds.items():
            if not hold.reached.is_set():
                found.append(f"no commit of {name} came to the gate")
            elif hold.problem is not None:
                found.append(f"the commit of {name}: {hold.problem}")
        return found

    def operations(self, workload: Workload, phase: Phase, writer: int, seed: int) -> Iterator[PlannedOperation]:
        """A writer's operations (:attr:`harness.run.settings.Settings.operations`); each one waits for the step that it comes after."""
        mine = [s for s in self._scenario.operations if s.writer == writer]
        if self._scenario.repeat > 1:
            yield from self._repeated(mine)
            return
        for step in mine:
            self._until(lambda step=step: self._came(step.after), f"{step.name} waits for {step.after}")
            yield PlannedOperation(step.do, self._scenario.table(step), step.value)
            self._completed[step.name].set()
        for step in mine:
            if (step.fault is not None or step.kill) and (hold := self._holds[step.name]).reached.is_set():
                self._until(hold.passed.is_set, f"the commit of {step.name} never passed")

    def _repeated(self, mine: Sequence[Step]) -> Iterator[PlannedOperation]:
        """The operations of a writer again and again; nothing of it waits."""
        every = self._scenario.operations
        strides = {
            t.name: stride_of([o.value for o in every if self._scenario.table(o) is t], t)
            for t in self._scenario.tables
        }
        for n in range(self._scenario.repeat):
            for step in mine:
                if self._stopped.is_set():
                    return
                table = self._scenario.table(step)
                yield PlannedOperation(step.do, table, repeated(step.value, n, table, strides[table.name]))

    def _came(self, when: dict[str, Any] | None) -> bool:
        return all(
            self._completed[name].is_set() or (moment == "held" and self._holds[name].reached.is_set())
            for name, moment in (when or {}).items()
        )

    def _until(self, condition: Any, what: str) -> None:
        ends = time.monotonic() + self._scenario.op_timeout
        while not condition():
            if self._stopped.is_set():
                raise RunError(f"{self._scenario.scenario} was stopped: {what}")
            if self._stop.wait(0.01) or time.monotonic() > ends:
                raise RunError(f"{self._scenario.scenario}: {what}, for {self._scenario.op_timeout:.0f} s")

    def _release(self) -> None:
        left: list[Step] = [s for s in self._scenario.operations if s.gated]
        while left and not self._stop.wait(0.01):
            for step in [s for s in left if self._came(s.hold)]:
                if step.kill:
                    if not self._holds[step.name].reached.is_set():
                        continue
                    self._kill(step)
                self._holds[step.name].release()
                left.remove(step)

    def _kill(self, step: Step) -> None:
        try:
            self._slots[step.writer].kill_driver()
        except (WriterError, ServiceError) as e:
            self._alive.append(f"the writer of {step.name} could not be killed: {e}")


def prove_once(
    bench: Bench,
    scenario: Scenario,
    runs: Path,
    command: str,
    publish: Publish[object],
    *,
    group: int = 0,
    stop: threading.Event | None = None,
) -> Proof:
    """Run a scenario once, judge it, write its verdicts into the store ``runs`` and publish them.

    A scenario that could not run or be judged is ``not run``, which differs from a defect that did not show.

    Args:
        group: number of the bench's group to run in.
        stop: when another thread sets it, the run ends soon.

    Raises:
        OSError: the disk is full.
    """
    began = time.monotonic()
    stop = stop or threading.Event()
    folder = runfolder.create(runs, scenario.scenario)
    found: dict[str, str] = {}
    struck: list[str] = []
    hide = Redaction((*bench.secrets, *secrets_of(scenario.catalog_properties)))
    try:
        with ScenarioScript(scenario, bench.groups[group].board, stop) as script:
            workload = scenario.workload()
            bench.run(
                workload.model_copy(
                    update={"catalog_properties": patience(CLIENTS_WAIT_S) | workload.catalog_properties}
                ),
                folder,
                script.operations,
                launched=script.launched,
                command=command,
                group=group,
                progress=len(bench.groups) == 1,
                stop=stop,
                capture_interval=None,
                about={PLANNED: hide.value(scenario.model_dump(mode="json", exclude_defaults=True))},
            )
            if problems := script.problems():
                folder.write_state({**folder.state(), PROBLEMS: list(problems)})
        judged = judge_run(folder, publish)
        for a in own_findings([a for v in judged.results.verdicts for a in v.anomalies]):
            found.setdefault(a.name, a.explanation)
        asked = [r for requests in change_requests(folder.proxy).values() for r in requests if r.faults]
        struck = [
            f"the {r.kind} of {r.op or r.table}: {', '.join(r.faults)}: {r.status}"
            for r in sorted(asked, key=lambda r: r.time)
        ]
        outcome = judged.results.scenario
        assert outcome is not None, "the plan has the scenario"
        state, why = outcome.state, outcome.why
    except Exception as e:  # whatever it is, the other scenarios go on
        if is_full(e):
            raise
        keep_details(e, folder.logs, hide)
        state, why = "not run", (errors.why(e, hide),)
    seconds = round(time.monotonic() - began, 1)
    return Proof(scenario.scenario, state, why, str(folder.path), seconds, found, tuple(struck))


def alone(scenario: Scenario) -> bool:
    """Whether it must run alone: a catalog server's database cannot tell the operations of scenarios apart."""
    return any(s.service == "database" for s in scenario.operations)


def key_of(scenario: Scenario) -> Key:
    """The key of its stack: its catalog, and session and cluster if they are not as users have them."""
    return (scenario.catalog, *scenario.mode.given.values())


def prove(
    scenarios: Sequence[Scenario],
    installation: Installation,
    runs: Path,
    watcher: Watcher,
    publish: Publish[object],
    *,
    times: int = 1,
    command: str = "icequake prove",
    named: Mapping[str, str] | None = None,
    on: Bench | None = None,
    finished: Callable[[Proof], object] = lambda _: None,
) -> tuple[list[Proof], dict[str, str]]:
    """Run every scenario ``times`` times, those of one catalog together; all catalogs share the object store, Spark and the writers.

    Args:
        publish: writes each run's page.
        command: how a person types it, without names.
        named: scenario → how the person named it, if not by its name.
        on: a running bench to use.
        finished: gets every proof of a scenario that ran, as soon as it is there; called from several threads.

    Returns:
        The proofs, those of one catalog together, and the versions that ran.

    Raises:
        OSError: the disk is full; ``finished`` has the proofs so far.
        SecretsLeft: a log may have a secret; the same.
    """
    proofs: list[Proof] = []
    own = [s.catalog for s in scenarios if user_file.is_file(s.catalog)]

    def start(key: Key, logs: Path, below: Bench | None) -> AbstractContextManager[Bench]:
        base, catalog = on or below, key[0]
        mine = [s for s in scenarios if key_of(s) == key]
        if catalog in own:
            return _on_own(catalog, mine, installation, logs, watcher)
        mode = mine[0].mode
        if base is not None and (base.catalog, base.mode) == (catalog, mode):
            return contextlib.nullcontext(base)
        many = sum(times for s in mine if not alone(s)) >= MANY
        groups = GROUPS if many and (base is None or len(base.groups) >= GROUPS) else 1
        writers = max(s.writers for s in (mine if base else scenarios))
        return Bench(installation, writers, logs, watcher, catalog=catalog, groups=groups, on=base, mode=mode)

    hidden = [*secrets_of_files(own), *(x for s in scenarios for x in secrets_of(s.catalog_properties))]
    with (
        session_logs(runs / "prove-logs", hidden) as logs,
        WarmStacks(
            start,
            logs,
            watcher.say,
            seats=lambda bench: len(bench.groups),
            most=None,
            runs=None,
            layered=lambda key: on is None and key[0] not in own,
            secrets=hidden,
        ) as stacks,
    ):
        for key in dict.fromkeys(map(key_of, scenarios)):
            mine = [s for s in scenarios if key_of(s) == key]
            one = partial(_proved, runs=runs, command=command, named=named or {}, publish=publish)
            proofs += _on_one(stacks, key, mine, watcher, times, one, finished)
            if on is not None or key[0] in own:
                stacks.end(key)
    return proofs, versions(installation)


def _on_own(
    catalog: str, scenarios: Sequence[Scenario], installation: Installation, logs: Path, watcher: Watcher
) -> Bench:
    """A bench with a user's own catalog. Raises FileError, ExternalError."""
    supplied = external(user_file.load(Path(catalog)), None, None)
    preflight(supplied)
    writers = max(s.writers for s in scenarios)
    mode = scenarios[0].mode
    return Bench(installation, writers, logs, watcher, catalog=catalog, external=supplied, mode=mode)


def _cut_short(proof: Proof) -> bool:
    """Whether the run of a scenario was stopped before its end; it then says so."""
    if proof.folder is None:
        return True
    folder = runfolder.RunFolder(Path(proof.folder))
    state = folder.state()
    if state.get("state") == "complete":
        return False
    with contextlib.suppress(OSError):
        folder.write_state({k: v for k, v in state.items() if k != "error"} | {"state": "interrupted"})
    return True


def _proved(
    lease: Lease[Bench],
    scenario: Scenario,
    stop: threading.Event,
    *,
    runs: Path,
    command: str,
    named: Mapping[str, str],
    publish: Publish[object],
) -> Proof:
    """Run a scenario on a leased stack, which nobody uses again if it could not run."""
    again = f"{command} {shlex.quote(named.get(scenario.scenario, scenario.scenario))}"
    proof = prove_once(lease.stack, scenario, runs, again, publish, group=lease.seat, stop=stop)
    if proof.state == "not run":
        lease.spoil()
    return proof


def _on_one(
    stacks: WarmStacks[Bench],
    key: Key,
    scenarios: Sequence[Scenario],
    watcher: Watcher,
    times: int,
    one: Callable[[Lease[Bench], Scenario, threading.Event], Proof],
    finished: Callable[[Proof], object],
) -> list[Proof]:
    """The scenarios of one catalog: as many at a time as its stack has seats, then those that must run alone."""
    found: dict[tuple[str, int], Proof] = {}
    stopped = threading.Event()
    stops: set[threading.Event] = set()

    def proved(scenario: Scenario, stop: threading.Event) -> Proof:
        try:
            with stacks.lease(key, exclusive=alone(scenario)) as lease:
                return one(lease, scenario, stop)
        except Exception as e:  # whatever it is, the other scenarios go on
            if is_full(e):
                raise
            return Proof(scenario.scenario, "not run", (errors.why(e, stacks.hide),))

    def work(turn: deque[tuple[Scenario, int]]) -> None:
        while True:
            try:
                scenario, n = turn.popleft()
            except IndexError:
                return
            stop = threading.Event()
            stops.add(stop)
            if stopped.is_set():
                return
            count = f" ({n + 1} of {times})" if times > 1 else ""
            watcher.say(f"{scenario.scenario}{count}: runs")
            proof = proved(scenario, stop)
            stops.discard(stop)
            if stopped.is_set() and _cut_short(proof):
                return
            found[scenario.scenario, n] = proof
            finished(proof)
            watcher.say(f"{scenario.scenario}{count}: {WORDS[proof.state]}, {proof.seconds:.0f} s")
            for reason in proof.why:
                watcher.say(f"  {reason}")

    everything = [(s, n) for s in scenarios for n in range(times)]
    beside = deque(x for x in everything if not alone(x[0]))
    seats = 1
    with contextlib.suppress(Exception):  # each scenario says why its stack does not come up
        seats = len(stacks.ready(key).groups)  # in this thread, so that Ctrl-C ends it at once
    with ThreadPoolExecutor(seats) as pool:
        try:
            for done in [pool.submit(work, beside) for _ in range(seats)]:
                done.result()
            pool.submit(work, deque(x for x in everything if alone(x[0]))).result()
        except BaseException:
            stopped.set()
            for stop in list(stops):
                stop.set()
            raise
    return [found[s.scenario, n] for s, n in everything]
