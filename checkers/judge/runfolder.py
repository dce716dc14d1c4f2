"""From a run's folder to the evidence that checkers judge, and from their verdicts to ``results.json``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from checkers.evidence import history, proxylog, tablelog_file
from checkers.evidence.evidence import Evidence
from checkers.evidence.history import UnpairedError
from checkers.evidence.own_retries import attempts_by_op, counted
from checkers.evidence.plan import Plan
from checkers.evidence.replace import replace
from checkers.evidence.runfolder import UNREADABLE, RunFolder, StoreError, load_kinds, replace_file
from checkers.evidence.uncollected import uncollected
from checkers.judge.accepted import NOTHING_ACCEPTED, AcceptedAnomalies
from checkers.judge.known import CatalogType, RunFacts
from checkers.judge.stories import NOTHING_TOLD, Stories
from checkers.timeline.timelines import named
from checkers.verdict import Anomaly, Validity, Verdict
from workloads.file.anomalies import Entries

State = Literal["reproduced", "fixed", "later", "back", "not reproduced", "not run"]
"""What came of a scenario."""


@dataclass(frozen=True, slots=True)
class ScenarioOutcome:
    """What came of the scenario that a run is; ``why``: differences from what it expects, one sentence each."""

    state: State
    why: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Results:
    """The verdicts of one run, in the order of the checkers, and the run's validity.

    Attributes:
        accepted: the anomalies that the workload expects or allows.
        notes: what a person must know of the verdict besides the verdicts, a sentence each.
        told: the anomalies that have one cause, and the known defects that they look like.
        scenario: what came of the scenario; None for the run of a workload.
    """

    verdicts: tuple[Verdict, ...]
    valid: Validity
    complete: bool = True
    accepted: AcceptedAnomalies = NOTHING_ACCEPTED
    notes: tuple[str, ...] = ()
    told: Stories = NOTHING_TOLD
    scenario: ScenarioOutcome | None = None

    @property
    def anomalies(self) -> list[Anomaly]:
        """All anomalies, in the order of the checkers."""
        return [a for v in self.verdicts for a in v.anomalies]

    def to_json(self) -> dict[str, Any]:
        """The content of ``results.json``."""
        swallowed = self.accepted.swallowed(self.anomalies)
        return {
            "valid": self.valid,
            "complete": self.complete,
            "expected": [e.model_dump() for e in self.accepted.expect],
            "allowed": [e.model_dump() for e in self.accepted.allow],
            **({"swallowed": [s.to_json() for s in swallowed]} if swallowed else {}),
            **({"notes": list(self.notes)} if self.notes else {}),
            **({} if self.scenario is None else {"scenario": asdict(self.scenario)}),
            **self.told.to_json(),
            "checkers": [v.to_json() for v in self.verdicts],
        }


@dataclass(frozen=True)
class Promises:
    """What a workload file says of the verdict.

    Attributes:
        expect: anomalies that must be found.
        thresholds: metric → asserted comparison.
        allow: anomalies that may be found.
    """

    expect: Entries = ()
    thresholds: Mapping[str, str] = field(default_factory=dict)
    allow: Entries = ()


NO_PROMISES = Promises()
"""The workload expects, allows and asserts nothing."""


def load_evidence(folder: Path) -> Evidence:
    """Read a run's folder: history, table logs, the tables of the plan, and whether the run was complete.

    Raises:
        StoreError, HistoryError, TableLogError: a file in it cannot be read.
    """
    with uncollected():
        return _load(RunFolder(folder))


def _load(run: RunFolder) -> Evidence:
    folder = run.path
    plan = run.read_plan()
    load_kinds(run, plan.model_extra or {})
    if plan.tables is None:
        raise StoreError(f"{run.plan}: tables: missing; without them the promises of the run are unknown")
    tables = plan.promised
    state = run.state()
    run.require_history()
    if not run.history.exists():
        raise StoreError(
            f"{folder}: the run has no history.jsonl, as one that ended before its first operation: there is nothing to judge"
        )
    full = whole(history.read(run.history), state)
    complete = state.get("state") == "complete" and not full.problems
    attempts = attempts_by_op(full.events)
    logs = {name: counted(log, attempts) for name, log in tablelog_file.read_all(run.tablelog).items()}
    return with_makers(Evidence(full, logs, tables, complete), run.proxy)


def with_makers(e: Evidence, proxylog: Path) -> Evidence:
    """The evidence with what proxies saw, whose snapshots name the operations that made them, as far as that is known."""
    seen = _with_proxies(e, proxylog)
    try:
        return named(seen)
    except UnpairedError:  # said by the verdict of the history
        return seen


def _with_proxies(e: Evidence, path: Path) -> Evidence:
    """The evidence with what proxies saw; without it, and with a problem, if none of the snapshots that they saw is any table's.

    With a problem, too, if a line of their log cannot be read.
    """
    proxied = proxylog.read_all(path, e.logs)
    if proxied.problem is not None:
        e = replace(e, history=replace(e.history, problems=(*e.history.problems, proxied.problem)))
    accepted, carried = proxied.accepted, proxied.carried
    sent = {s for changes in accepted.values() for a in changes for s in a.adds}
    sent |= {s for requests in carried.values() for c in requests for s in c.adds}
    made = {c.snapshot_id for log in e.logs.values() for c in log.commits}
    if sent and made and sent.isdisjoint(made):
        text = f"{path.name}: none of the {len(sent)} snapshots in its requests is in a table log, so it is another run's and is not used"
        return replace(e, history=replace(e.history, problems=(*e.history.problems, text)))
    seen = replace(e, swaps=proxied.swaps, accepted=accepted, carried=carried, proxied=path.exists())
    return replace(seen, answered=proxied.answered)


def whole(recorded: history.History, state: Mapping[str, Any]) -> history.History:
    """The history, with an added problem if its end is lost: the run counted more completed operations than it has.

    Another one if the run's state is there and cannot be read.
    """
    if (why := state.get(UNREADABLE)) is not None:
        recorded = replace(recorded, problems=(*recorded.problems, str(why)))
    counted, completed = state.get("operations"), sum(e.op is not None and e.type != "invoke" for e in recorded.events)
    if not isinstance(counted, int) or completed >= counted:
        return recorded
    text = f"history.jsonl: {completed} operations completed, but the run counted {counted}: its end is missing"
    return replace(recorded, problems=(*recorded.problems, text))


def load_promises(folder: Path) -> Promises:
    """The expected and allowed anomalies and the asserted thresholds in a run's plan.

    Raises:
        StoreError: the plan cannot be read.
    """
    plan = RunFolder(folder).read_plan()
    return Promises(plan.expect, plan.assertions, plan.allow)


def load_ran(folder: Path) -> RunFacts:
    """What a run ran, by its plan.

    Raises:
        StoreError: the plan cannot be read.
    """
    return ran_of(RunFolder(folder).read_plan())


def ran_of(plan: Plan) -> RunFacts:
    """What a run ran, by its plan."""
    c = plan.catalog
    own = CatalogType(c.type, c.guard or "") if c is not None and c.type is not None else None
    name = c.name if c is not None else ""
    return RunFacts(plan.workload, name, plan.versions.get("iceberg", "unknown"), own, plan.versions)


def write_results(results: Results, path: Path) -> None:
    """Write ``results.json``: the same bytes for the same results."""
    text = json.dumps(results.to_json(), indent=1, sort_keys=True, ensure_ascii=False, default=str)
    replace_file(
        path, f"{text}\n".encode("utf-8", "backslashreplace")
    )  # half a character, from a damaged record, as JSON writes it
