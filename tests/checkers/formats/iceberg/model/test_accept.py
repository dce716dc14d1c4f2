"""Real runs are runs that the model allows; what its validations would have refused is not."""

from dataclasses import replace as replaced
from random import Random

import pytest

from checkers.conflicts.validations import CONFLICTING_FILES, MISSING_TO_DELETE, Rule
from checkers.evidence.evidence import Evidence
from checkers.evidence.history import Event
from checkers.evidence.replace import replace
from checkers.formats.iceberg.model.accept import UNEXPLAINED, UNVALIDATED, AcceptedCommits
from checkers.formats.iceberg.model.logtree import Bound, LogEntry, logs
from checkers.formats.iceberg.model.operations import ModelOperation
from checkers.judge.check import verdict_of
from checkers.selftest import recorded, stalescans
from checkers.selftest.world import World
from checkers.verdict import Verdict
from tests.checkers.formats.iceberg.model.test_judged import MORE, RULES
from tests.checkers.formats.iceberg.model.test_model import EVERY, MOR
from tests.support.modelled import evidence
from tests.support.simulator import Defects, simulate
from workloads.tables import TableSpec


def judged(e: Evidence) -> Verdict:
    return verdict_of(AcceptedCommits(), e)


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("serializable", [True, False])
def test_every_log_of_the_model_is_accepted(serializable: bool, version: int) -> None:
    bound = replaced(EVERY, kinds=MORE, writes=2, serializable=serializable, format_version=version)
    refused = [log for log, _ in logs(bound) if judged(evidence(bound, log)).valid is not True]
    assert not refused


@pytest.mark.parametrize("without", [r for r in RULES if r not in ("replaced delete files", "deletion vectors")])
def test_a_log_that_breaks_a_promise_for_want_of_a_validation_is_refused(without: Rule) -> None:
    bound = replaced(EVERY, writes=2, without=frozenset({without}))
    broken = [log for log, name in logs(bound) if name is not None]
    accepted = [log for log in broken if judged(evidence(bound, log)).valid is True]
    assert broken and not accepted


@pytest.mark.parametrize("name", recorded.names())
def test_the_recorded_runs_of_spark_are_accepted(name: str) -> None:
    verdict = judged(recorded.load(name))
    assert (verdict.valid, verdict.anomalies) == (True, ())
    assert sum(t["commits"] for t in verdict.stats["tables"].values()) >= 5


def test_spark_that_validates_at_serializable_is_refused_by_a_model_at_snapshot() -> None:
    """Each abort by ``added data`` is one that an engine at snapshot isolation cannot give."""
    refused = 0
    for name in recorded.names():
        e = recorded.load(name)
        met = sum(t["rules"].get("added data", 0) for t in judged(e).stats["tables"].values())
        told = replace(e, tables={n: _at_snapshot(t) for n, t in e.tables.items()})
        found = [a for a in judged(told).anomalies if "added data" in a.evidence["rules"]]
        assert {a.name for a in found} <= {UNEXPLAINED} and len(found) == met
        refused += len(found)
    assert refused >= 20


def _at_snapshot(t: TableSpec) -> TableSpec:
    kept = {k: v for k, v in t.properties.items() if "isolation-level" not in k}
    return t.model_copy(update={"isolation": "snapshot", "properties": kept})


@pytest.mark.parametrize(
    ("bug", "share"),
    [
        ("lost-update-register", 1.0),
        ("lost-update-counter", 1.0),
        ("lost-update-list", 1.0),
        ("update-beside-update", 1.0),
        ("undelete", 0.8),
        ("delete-lost-to-compaction", 0.9),
        ("write-skew", 0.5),  # the others are blind appends, and files of which no row is known
    ],
)
def test_damage_of_recorded_runs_is_refused(bug: str, share: float) -> None:
    plant = next(p for p in stalescans.PLANTS if p.name == bug)
    worlds = [World(recorded.load(name), Random(0)) for name in recorded.names()]
    planted = [p for n in range(20) for w in worlds[n % len(worlds) :] if (p := plant.plant(w.with_rng(Random(n))))]
    refused = [p for p in planted if any(p.ops & {*a.ops} for a in judged(p.evidence).anomalies)]
    assert len(planted) >= 20
    assert len(refused) >= share * len(planted), (len(refused), len(planted))


@pytest.mark.parametrize("defects", [Defects(skew=0.5), Defects(overwrite=1)])
def test_a_simulated_engine_without_a_validation_is_refused(defects: Defects) -> None:
    bad, refused = set(), set()
    for seed in range(60):
        spec = TableSpec(name="a", mode="merge-on-read" if seed % 2 else "copy-on-write", seed_rows=6)
        run = simulate(seed, [spec], defects=defects, unknown=0, spurious=0)
        verdict = judged(run.evidence())
        bad |= {(seed, op) for _, op in run.injected}
        refused |= {(seed, a.ops[0]) for a in verdict.anomalies if a.name == UNVALIDATED}
    assert bad and refused == bad


def _with_abort(f: str, message: str, *, alone: bool, serializable: bool = False) -> Evidence:
    """A DELETE or UPDATE that was aborted with a message; an UPDATE of its row committed meanwhile, or before it began."""
    bound = Bound((), writes=1, serializable=serializable)
    e = evidence(bound, (LogEntry(ModelOperation("update-register", 0, MOR), 0),))
    events = [*e.history.events]
    where = next(n for n, x in enumerate(events) if x.type == "ok" and (x.op == "w1-0") == alone) + 1
    error = [["org.apache.iceberg.exceptions.ValidationException", message]]
    events.insert(where, Event(0, 0, "invoke", 7, f, "t", {"ids": [0]}, "w7-0"))
    events.append(Event(0, 0, "fail", 7, f, "t", None, "w7-0", error))
    numbered = tuple(replace(x, index=n, time=(n + 1) * 1_000_000) for n, x in enumerate(events))
    return replace(e, history=replace(e.history, events=numbered))


@pytest.mark.parametrize(
    ("f", "message", "alone", "why"),
    [
        ("update-register", MISSING_TO_DELETE, True, "which no commit since it began can have broken"),
        ("delete", CONFLICTING_FILES, False, "to which its engine does not hold such an operation"),
    ],
)
def test_an_abort_without_a_reason_is_refused(f: str, message: str, alone: bool, why: str) -> None:
    (anomaly,) = judged(_with_abort(f, message, alone=alone)).anomalies
    assert anomaly.name == UNEXPLAINED and why in anomaly.explanation


def test_an_abort_with_a_reason_is_accepted() -> None:
    verdict = judged(_with_abort("delete", CONFLICTING_FILES, alone=False, serializable=True))
    assert verdict.valid is True
    assert verdict.stats["tables"]["t"]["rules"] == {"added data": 1}
