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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from checkers.evidence import journal, runfolder
from checkers.evidence.change_requests import change_requests
from checkers.evidence.journal import Journal, JournalFormat
from checkers.judge.proof import PLANNED, PROBLEMS, PROOF_WORDS, Proof, strange_ends
from checkers.verdict import own_findings
from compose.catalogs import user_file
from compose.external.external import external
from compose.external.preflight import preflight
from compose.install.installation import Installation
from compose.processes.service import ServiceError
from compose.redaction import Redaction, secrets_of
from harness.campaign.campaign import Campaign, CouldNotRun, Done, JobAttempt, fingerprint
from harness.campaign.stacks import Key, WarmStacks, secrets_of_files, session_logs
from harness.run.bench import Bench
from harness.run.errors import RunError
from harness.run.judged import Publish, judge_run
from harness.run.ordering import patience
from harness.run.settings import Watcher
from harness.run.versions import versions
from harness.writers.slot import WriterError, WriterSlot
from nemesis.proxy.board import Board, Hold
from workloads.file.repeated import repeated, stride_of
from workloads.file.scenario import Scenario, ScenarioStep
from workloads.file.workload import Phase, Workload
from workloads.generator import PlannedOperation

PROOFS = "proofs.jsonl"
LONGEST_HOLD = 60.0
"""Seconds; a busy machine needs long for the operations in between."""
CLIENTS_WAIT_S = 75
"""Seconds that a client waits for the answer to a request: longer than it is held."""
SCENARIOS_AT_ONCE = 2
"""Scenarios that run at the same time."""
MANY_SCENARIOS = 8
"""Least number of scenarios for that; with fewer, starting more writers takes longer than it saves."""


class ProveError(ValueError):
    """Proofs cannot be continued; the message is one line with a remedy."""


Job = tuple[Scenario, int]
"""A scenario to be run, and for which time; counts from 0."""


@dataclass(frozen=True, slots=True)
class Proven:
    """A line of ``proofs.jsonl``.

    Attributes:
        n: for which time; counts from 0.
        of: hash of the scenario: another one is proven anew.
    """

    n: int
    of: str
    proof: Proof


FORM = JournalFormat(
    "proofs", "a proof", journal.as_type(Proven), asdict, ProveError, options={"versions.iceberg": "--iceberg"}
)
"""``proofs.jsonl``."""


def _key(job: Job) -> tuple[str, int, str]:
    """What names a scenario's run in the journal."""
    scenario, n = job
    return scenario.scenario, n, fingerprint(scenario.model_dump(mode="json", exclude_defaults=True))


def _line(job: Job, proof: Proof) -> Proven:
    _, n, total = _key(job)
    return Proven(n, total, proof)


def last(lines: Iterable[Proven]) -> dict[tuple[str, int, str], Proven]:
    """The last line of each run of a scenario."""
    return {(x.proof.scenario, x.n, x.of): x for x in lines}


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
                fault = step.fault and step.fault.model_copy(update={"request": step.at})
                self._holds[step.name] = self._board.hold(
                    op, fault, service=step.service, kind=step.at, longest=LONGEST_HOLD, nth=step.nth
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
        own = [s for s in self._scenario.operations if s.writer == writer]
        if self._scenario.repeat > 1:
            yield from self._repeated(own)
            return
        for step in own:
            self._until(lambda step=step: self._happened(step.after), f"{step.name} waits for {step.after}")
            yield PlannedOperation(step.do, self._scenario.table(step), step.value)
            self._completed[step.name].set()
        for step in own:
            if (step.fault is not None or step.kill) and (hold := self._holds[step.name]).reached.is_set():
                self._until(hold.passed.is_set, f"the commit of {step.name} never passed")

    def _repeated(self, own: Sequence[ScenarioStep]) -> Iterator[PlannedOperation]:
        """The operations of a writer again and again; nothing of it waits."""
        every = self._scenario.operations
        strides = {
            t.name: stride_of([o.value for o in every if self._scenario.table(o) is t], t)
            for t in self._scenario.tables
        }
        for n in range(self._scenario.repeat):
            for step in own:
                if self._stopped.is_set():
                    return
                table = self._scenario.table(step)
                yield PlannedOperation(step.do, table, repeated(step.value, n, table, strides[table.name]))

    def _happened(self, when: dict[str, Any] | None) -> bool:
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
        waiting: list[ScenarioStep] = [s for s in self._scenario.operations if s.gated]
        while waiting and not self._stop.wait(0.01):
            for step in [s for s in waiting if self._happened(s.hold)]:
                if step.kill:
                    if not self._holds[step.name].reached.is_set():
                        continue
                    self._kill(step)
                self._holds[step.name].release()
                waiting.remove(step)

    def _kill(self, step: ScenarioStep) -> None:
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
    attempt: JobAttempt,
    *,
    group: int = 0,
) -> Proof:
    """Run a scenario once, judge it, write its verdicts into the store ``runs`` and publish them.

    Args:
        attempt: gets the run's folder; its ``stop`` ends the run soon.
        group: number of the bench's group to run in.

    Raises:
        Exception: it could not run or be judged, which differs from a defect that did not show.
    """
    began = time.monotonic()
    folder = attempt.folder = runfolder.create(runs, scenario.scenario)
    found: dict[str, str] = {}
    hide = attempt.hide = Redaction((*bench.secrets, *secrets_of(scenario.catalog_properties)))
    with ScenarioScript(scenario, bench.groups[group].board, attempt.stop) as script:
        workload = scenario.workload()
        bench.run(
            workload.model_copy(update={"catalog_properties": patience(CLIENTS_WAIT_S) | workload.catalog_properties}),
            folder,
            script.operations,
            launched=script.launched,
            command=command,
            group=group,
            progress=len(bench.groups) == 1,
            stop=attempt.stop,
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
    seconds = round(time.monotonic() - began, 1)
    return Proof(
        scenario.scenario,
        outcome.state,
        outcome.why,
        str(folder.path),
        seconds,
        found,
        tuple(struck),
        (*script.problems(), *strange_ends(scenario, judged.evidence.history)),
    )


def alone(scenario: Scenario) -> bool:
    """Whether it must run alone: a catalog server's database cannot tell the operations of scenarios apart."""
    return any(s.service == "database" for s in scenario.operations)


def guard_of(scenario: Scenario) -> str:
    """What guards its Delta tables; empty if it has none."""
    return scenario.workload().delta_guard or ""


def key_of(scenario: Scenario) -> Key:
    """The key of its stack: its catalog, session and cluster if they are not as users have them, and what guards its Delta tables."""
    return (scenario.catalog, *scenario.mode.given.values(), *filter(None, [guard_of(scenario)]))


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
    into: Path | None = None,
) -> tuple[list[Proof], dict[str, str]]:
    """Run every scenario ``times`` times, those of one catalog together; all catalogs share the object store, Spark and the writers.

    A scenario that could not run or be judged is ``not run``, which differs from a defect that did not show, and the others go on.

    Args:
        publish: writes each run's page.
        command: how a person types it, without names.
        named: scenario → how the person named it, if not by its name.
        on: a running bench to use.
        finished: gets every proof of a scenario, as soon as it is there; called from several threads.
        into: the folder of the proofs; unfinished ones are continued. Default: that of this session's logs.

    Returns:
        The proofs, those of one catalog together, and the versions that ran.

    Raises:
        ProveError: the folder has the proofs of another release, cannot be made, or somebody else writes there.
        OSError: the disk is full; ``finished`` has the proofs so far.
        SecretsLeft: a log may have a secret; the same.
    """
    ran = versions(installation)
    whole = _Proving(scenarios, installation, runs, watcher, publish, times, command, named or {}, on, finished)
    hidden = [*secrets_of_files(whole.own), *(x for s in scenarios for x in secrets_of(s.catalog_properties))]
    with (
        session_logs(runs / "prove-logs", hidden) as logs,
        Journal((into or logs) / PROOFS, FORM, {"versions": ran}, alone=into is not None) as proofs,
        WarmStacks(
            whole.start,
            logs,
            watcher.say,
            seats=lambda bench: len(bench.groups),
            most=None,
            runs=None,
            layered=lambda key: on is None and key[0] not in whole.own,
            secrets=hidden,
        ) as stacks,
    ):
        return whole.go(proofs, stacks), ran


def _on_own(
    catalog: str, scenarios: Sequence[Scenario], installation: Installation, logs: Path, watcher: Watcher
) -> Bench:
    """A bench with a user's own catalog. Raises FileError, ExternalError."""
    supplied = external(user_file.load(Path(catalog)), None, None)
    preflight(supplied)
    writers = max(s.writers for s in scenarios)
    mode, guard = scenarios[0].mode, guard_of(scenarios[0])
    return Bench(installation, writers, logs, watcher, catalog=catalog, external=supplied, mode=mode, guard=guard)


def _cut_short(folder: runfolder.RunFolder | None) -> bool:
    """Whether the run of a scenario was stopped before its end; it then says so."""
    if folder is None:
        return True
    state = folder.state()
    if state.get("state") == "complete":
        return False
    with contextlib.suppress(OSError):
        folder.write_state({k: v for k, v in state.items() if k != "error"} | {"state": "interrupted"})
    return True


@dataclass
class _Proving:
    """The scenarios of a campaign, and how they are run and told; the fields are those of :func:`prove`."""

    scenarios: Sequence[Scenario]
    installation: Installation
    runs: Path
    watcher: Watcher
    publish: Publish[object]
    times: int
    command: str
    named: Mapping[str, str]
    on: Bench | None
    finished: Callable[[Proof], object]
    stacks: WarmStacks[Bench] = field(init=False)

    @property
    def own(self) -> list[str]:
        """The user's own catalogs."""
        return [s.catalog for s in self.scenarios if user_file.is_file(s.catalog)]

    def start(self, key: Key, logs: Path, below: Bench | None) -> AbstractContextManager[Bench]:
        """The stack of a catalog."""
        base, catalog = self.on or below, key[0]
        own = [s for s in self.scenarios if key_of(s) == key]
        if catalog in self.own:
            return _on_own(catalog, own, self.installation, logs, self.watcher)
        mode, guard = own[0].mode, guard_of(own[0])
        if base is not None and (base.catalog, base.mode, base.guard) == (catalog, mode, guard):
            return contextlib.nullcontext(base)
        many = sum(self.times for s in own if not alone(s)) >= MANY_SCENARIOS
        groups = SCENARIOS_AT_ONCE if many and (base is None or len(base.groups) >= SCENARIOS_AT_ONCE) else 1
        writers = max(s.writers for s in (own if base else self.scenarios))
        return Bench(
            self.installation,
            writers,
            logs,
            self.watcher,
            catalog=catalog,
            groups=groups,
            on=base,
            mode=mode,
            guard=guard,
        )

    def go(self, journal: Journal[Proven], stacks: WarmStacks[Bench]) -> list[Proof]:
        """Run the scenarios of one catalog after those of another."""
        self.stacks = stacks
        keys = list(dict.fromkeys(map(key_of, self.scenarios)))
        every = sorted(self.scenarios, key=lambda s: keys.index(key_of(s)))
        jobs = [(s, n) for s in every for n in range(self.times)]
        done = {k: x.proof for k, x in last(journal.lines).items() if x.proof.state != "not run"}
        for proof in (done[k] for k in map(_key, jobs) if k in done):
            self.finished(proof)
        for key in dict.fromkeys(key_of(job[0]) for job in jobs if _key(job) not in done):
            seats = 1
            with contextlib.suppress(Exception):  # each scenario says why its stack does not come up
                seats = len(stacks.ready(key).groups)  # in this thread, so that Ctrl-C ends it at once
            Campaign(
                sorted((x for x in jobs if key_of(x[0]) == key), key=lambda x: alone(x[0])),
                journal,
                None,
                self.prove,
                self.could_not,
                self.watcher,
                name=self.name,
                made=lambda job: _key(job) in done,
                unit=f"scenarios of {key[0]}",
                at_once=seats,
                hide=stacks.hide,
                finished=self.report,
            ).go()
            # No other stack uses writers with Delta; the first stack is below the others.
            guarded = any(guard_of(s) for s in every if key_of(s) == key) and stacks.up[:1] != [
                u for u in stacks.up if u[0] == key
            ]
            if self.on is not None or key[0] in self.own or guarded:
                stacks.end(key)
        found = last(journal.lines)
        return [found[_key(job)].proof for job in jobs]

    def name(self, job: Job) -> str:
        """A scenario, where it is said."""
        return job[0].scenario + (f" ({job[1] + 1} of {self.times})" if self.times > 1 else "")

    def prove(self, job: Job, attempt: JobAttempt) -> Done[Proven] | CouldNotRun:
        """Run a scenario on a seat of its stack, or on all if it must be alone."""
        scenario = job[0]
        command = f"{self.command} {shlex.quote(self.named.get(scenario.scenario, scenario.scenario))}"
        with self.stacks.lease(key_of(scenario), exclusive=alone(scenario)) as lease:
            attempt.watcher.say("its operations run")
            try:
                proof = prove_once(lease.stack, scenario, self.runs, command, self.publish, attempt, group=lease.seat)
            finally:
                cut_short = attempt.cut_short and _cut_short(attempt.folder)
        return CouldNotRun("it was cut short") if cut_short else Done([_line(job, proof)])

    def could_not(self, job: Job, attempt: JobAttempt, why: str) -> list[Proven]:
        """The line of a scenario that could not run."""
        folder = None if attempt.folder is None else str(attempt.folder.path)
        return [_line(job, Proof(job[0].scenario, "not run", (why,), folder, attempt.seconds))]

    def report(self, lines: Sequence[Proven]) -> None:
        """Say what a scenario came to."""
        for proof in (x.proof for x in lines):
            self.finished(proof)
            if proof.state != "not run":  # the campaign has said that
                self.watcher.say(f"{proof.scenario}: {PROOF_WORDS[proof.state]}, {proof.seconds:.0f} s")
                for reason in proof.why:
                    self.watcher.say(f"  {reason}")
