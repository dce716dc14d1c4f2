"""Decides whether the run of a scenario shows the defect that its file describes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from pydantic import ValidationError

from checkers.evidence import history
from checkers.evidence.outcome import conflict_of
from checkers.evidence.runfolder import RunFolder
from checkers.judge.accepted import AcceptedAnomalies, Mark
from checkers.judge.releases import newer, surely_has
from checkers.judge.runfolder import Results, ScenarioOutcome, State
from checkers.judge.undecided import left_open_by
from workloads.file.scenario import Scenario

PROOF_WORDS: dict[State, str] = {
    "reproduced": "reproduced",
    "fixed": "not reproduced (fixed in this version)",
    "later": "not reproduced (this version is too old)",
    "back": "reproduced, although it was fixed before",
    "not reproduced": "not reproduced",
    "not run": "could not run here",
}

FOUND = ("reproduced", "back")
"""States of a run that showed all that its scenario says."""

PLANNED = "scenario"
"""Key of the plan that holds the scenario of a run."""
PROBLEMS = "scenario_problems"
"""Key of ``run.json``: what the gate of a scenario did not do, one sentence each."""

MISSING = "expected-not-found"
"""What a run says of a defect that it does not show."""
UNKNOWN_STATE = "CommitStateUnknownException"
NOT_TO_ITS_END = "the run did not come to its end"

_KEYS: Mapping[Mark, str] = {"expected": "anomalies", "allowed": "allow"}
"""What an anomaly is → the key of a scenario's entry that says so."""


@dataclass(frozen=True, slots=True)
class Proof:
    """The result of one run of a scenario.

    Attributes:
        why: differences from what the scenario expects, one sentence each; empty if there are none.
        folder: the run's folder; None if there is none.
        seconds: duration of the run.
        found: anomaly name → explanation of the first one found.
        struck: what the proxies did to which commit, one sentence each.
        problems: why it does not tell whether a fix keeps the defect away, one sentence each: what its gate did not do (:data:`PROBLEMS`),
            and what :func:`strange_ends` says.
    """

    scenario: str
    state: State
    why: tuple[str, ...] = ()
    folder: str | None = None
    seconds: float = 0.0
    found: dict[str, str] = field(default_factory=dict)
    struck: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()

    @property
    def as_said(self) -> bool:
        """Whether the result is as the scenario expects for this version."""
        return self.state in ("reproduced", "fixed", "later")

    def gone(self, scenario: Scenario) -> bool | None:
        """Whether its defect is kept away: no checker found an anomaly but those that are allowed; None if the run does not tell.

        A run tells only if its gate held and struck the requests as the file says, if no operation failed for another reason than a
        concurrent commit, and if every checker decided.
        """
        allowed = {MISSING, *(e.name for e in scenario.allow)}
        if self.found.keys() - allowed:
            return False
        undecided = any(" could not decide: " in w or w == NOT_TO_ITS_END for w in self.why)
        return None if self.state == "not run" or self.problems or undecided else True


def shows(scenario: Scenario, state: str | None, found: Iterable[str]) -> bool:
    """Whether a run showed a defect that its scenario describes, whatever else differs. A promise, kept or broken, describes none.

    Args:
        found: names of the anomalies of the run.
    """
    return bool(scenario.anomalies) and (state in FOUND or not {e.name for e in scenario.anomalies}.isdisjoint(found))


def strange_ends(scenario: Scenario, recorded: history.History) -> Iterator[str]:
    """The operations that ended neither as the scenario says nor as a fix may have it, a sentence each.

    A fix may have an operation acknowledged, refused because of a concurrent commit, or left open.
    """
    by_op = {o.op: o for o in recorded.operations()}
    for step in scenario.operations:
        seen = by_op.get(scenario.op(step.name))
        if seen is None or seen.type in ("ok", step.expect.type):
            continue
        error = seen.error or ()
        if conflict_of(seen) is None and not any(name.endswith(UNKNOWN_STATE) for name, _ in error):
            yield f"{step.name} ended {seen.type}" + (f" ({error[0][0]}: {error[0][1][:120]})" if error else "")


def proof_of(folder: RunFolder, recorded: history.History, results: Results) -> ScenarioOutcome | None:
    """What became of the scenario that a run folder's plan holds; None for the run of a workload.

    What its gate did not do is in the run's state (:data:`PROBLEMS`).

    Raises:
        StoreError: the plan cannot be read.
    """
    plan = folder.read_plan()
    try:
        scenario = Scenario.model_validate((plan.model_extra or {}).get(PLANNED))
    except ValidationError:
        return None
    state, why = decide(scenario, recorded, results, plan.versions.get(scenario.software, "unknown"))
    problems = folder.state().get(PROBLEMS)
    if isinstance(problems, list) and problems:
        state, why = "not reproduced", (*map(str, problems), *why)
    return ScenarioOutcome(state, why)


def decide(
    scenario: Scenario, recorded: history.History, results: Results, version: str
) -> tuple[State, tuple[str, ...]]:
    """Compare a run's history and verdicts with the scenario; return the state and the differences.

    ``version`` is the one of the scenario's software that ran. A defect that does not show in a version from ``fixed`` on is ``fixed``; one
    that shows in a version that surely has the fix is ``back``. Any difference in a version before ``since`` is ``later``.
    """
    try:
        why = [*_outcomes(scenario, recorded), *_found(scenario, results), *_final(scenario, recorded)]
    except history.UnpairedError as e:
        return "not reproduced", (str(e),)
    if not why and scenario.fixed is not None and surely_has(version, scenario.fixed):
        return "back", (f"it is fixed since {scenario.fixed}, and this {version} shows it",)
    if not why:
        return "reproduced", ()
    fixed = scenario.fixed is not None and newer(version, scenario.fixed)
    if fixed and not any(e.named(a) for e in scenario.anomalies for a in results.anomalies):
        return "fixed", tuple(why)
    if scenario.since is not None and re.match(r"\d", version) and not newer(version, scenario.since):
        return "later", tuple(why)
    return "not reproduced", tuple(why)


def _outcomes(scenario: Scenario, recorded: history.History) -> Iterator[str]:
    by_op = {o.op: o for o in recorded.operations()}
    for step in scenario.operations:
        seen, want = by_op.get(scenario.op(step.name)), step.expect
        if seen is None:
            yield f"{step.name} was never invoked"
            continue
        if seen.f != step.do:
            yield f"{step.name} is {step.do}, but {seen.op} was {seen.f}"
        if scenario.repeat > 1:
            continue
        chain = seen.error or ()
        if seen.type != want.type:
            last = f" ({chain[0][0].rsplit('.', 1)[-1]}: {chain[0][1][:120]})" if chain else ""
            yield f"{step.name} ended {seen.type}{last}, not {want.type}"
        elif want.error and not any(c.rsplit(".", 1)[-1] == want.error and want.message in m for c, m in chain):
            classes = ", ".join(f"{c.rsplit('.', 1)[-1]}: {m[:120]}" for c, m in chain)
            yield f"{step.name} did not end with {want.error} {want.message!r} but with {classes}"


def _found(scenario: Scenario, results: Results) -> Iterator[str]:
    """Checkers must have decided, except with an unreadable table, and except what an expected anomaly leaves open."""
    accepted = AcceptedAnomalies.of(scenario.anomalies, scenario.allow, scenario.tables)
    every = [a for v in results.verdicts for a in v.anomalies if v.checker != "expect"]
    surprises = sorted({f"{a.name} ({a.checker})" for a in every if not accepted.mark(a)})
    if surprises:
        yield f"found {', '.join(surprises)}, which it does not expect"
    yield from accepted.too_little(every, _KEYS)
    if missing := sorted(map(str, accepted.missing(every))):
        yield f"did not find {', '.join(missing)}"
    if "unreadable" not in scenario.final.values():
        expected = [a for a in every if any(e.finds(a) for e in scenario.anomalies)]
        for v in results.verdicts:
            if v.valid == "unknown" and not left_open_by(v, expected):
                yield f"{v.checker} could not decide: {'; '.join(v.notes)}"
    if not results.complete:
        yield NOT_TO_ITS_END


def _final(scenario: Scenario, recorded: history.History) -> Iterator[str]:
    last = {e.index for e in recorded.events if e.type == "invoke" and e.extra.get("phase") == "final-reads"}
    for table, want in scenario.final.items():
        reads = [o for o in recorded.operations() if o.invoked.index in last and o.table == table]
        if not reads:
            yield f"{table} was not read at the end"
        if want == "unchecked":
            continue
        for r in reads:
            rows = "unreadable" if r.type != "ok" else sorted(row[0] for row in r.result)
            wanted = want if want == "unreadable" else sorted(want)
            if rows != wanted:
                yield f"{table} at the end: {rows} as read by {r.op}, not {wanted}"
