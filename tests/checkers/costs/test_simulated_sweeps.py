"""The points of a sweep, from workloads and recorded runs to predictions. The runs are simulated, and written as real ones are."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from checkers.costs.comparison import Comparison, Contender, ContenderRun
from checkers.costs.measures import Measures
from checkers.costs.simulated import ClosedLoop, ConflictOdds, PhaseDemand, ServiceTimes
from checkers.costs.simulated.commits import simulated_run
from checkers.costs.simulated.load import RunLength
from checkers.costs.simulated.phasetimes import OPERATION_PHASES, exponential_shape
from checkers.costs.simulated.sweeps import conflict_probability, conflict_windows, length_of, load_of, predict
from checkers.evidence import history
from checkers.evidence.recorder import Recorder
from workloads.backoff import Backoff, RetryLimits
from workloads.file.workload import Workload

WORKLOAD = {
    "workload": "sweep",
    "catalog": "jdbc",
    "writers": {"committer": 4},
    "length": {"ops": 1000},
    "rate": 80,
    "tables": [{"name": "t", "properties": {"commit.retry.num-retries": "7", "commit.retry.min-wait-ms": "50"}}],
    "operations": {"insert": 1},
}
SERVICE = ServiceTimes(
    {p: PhaseDemand(0.003, 0.003) for p in ("prepare", "refresh", "manifests", "metadata", "swap")},
    shapes=dict.fromkeys(OPERATION_PHASES, exponential_shape(64)),
    first_check=0.5,
)


def workload(writers: int = 4, **changes: object) -> Workload:
    return Workload.model_validate({**WORKLOAD, "rate": 20 * writers, "writers": {"committer": writers}, **changes})


def test_a_workload_is_a_load() -> None:
    found = load_of(workload(swap_latency="50ms"))
    assert (found.writers, found.tables, found.isolation) == (4, 1, "serializable")
    assert found.pace_s == pytest.approx(0.05)
    assert found.swap_latency_s == pytest.approx(0.05)
    assert found.backoff == Backoff("iceberg", RetryLimits(7, 50))
    assert length_of(workload()) == RunLength(operations=1000)
    assert length_of(workload(length={"time": "20s"})) == RunLength(seconds=20)
    own = workload(
        backoff={"policy": "linear", "base": "10ms", "cap": "1s"},
        tables=[{"name": "t", "properties": {"commit.retry.num-retries": "3", "commit.retry.min-wait-ms": "0"}}],
    )
    assert load_of(own).backoff == Backoff("linear", RetryLimits(3, 10, 1000))


def test_several_phases_are_not_simulated() -> None:
    phases = [{"name": n, "length": {"ops": 1}} for n in ("one", "two")]
    with pytest.raises(ValueError, match="it has several phases"):
        load_of(workload(length=None, phases=phases))


@pytest.mark.parametrize("each", [0.0, 0.02, 0.3, 1.0])
def test_the_probability_of_a_conflict_is_found_again(each: float) -> None:
    rng = Random(1)
    between = [rng.randrange(6) for _ in range(5000)]
    windows = [(k, rng.random() < ConflictOdds(each, each).refuses("snapshot", k)) for k in between]
    assert conflict_probability(windows) == pytest.approx(each, abs=0.01)


def _run(path: Path, load: ClosedLoop, service: ServiceTimes) -> tuple[history.History, Measures]:
    """A folder as that of a real run."""
    found, ended = simulated_run(load, service, 5, RunLength(operations=1000))
    times = sorted(
        [(e.start, 0, n, "invoke") for n, e in enumerate(ended)] + [(e.end, 1, n, "") for n, e in enumerate(ended)]
    )
    at = [0]
    with Recorder(path, {"format": 1}, clock=lambda: at[0]) as recorder:
        for seconds, _, n, kind in times:
            at[0], e = int(seconds * 1e9), ended[n]
            op = f"w{e.writer}-{n}"
            if kind:
                recorder.record("invoke", e.writer, "insert", table="t", value={}, op=op, phase="main")
            else:
                ok = e.outcome == "ok"
                error = None if ok else [["org.apache.iceberg.exceptions.CommitFailedException", "refused"]]
                recorder.record(
                    "ok" if ok else "fail", e.writer, "insert", table="t", op=op, error=error, attempts=e.recorded
                )
    measures = Measures(True, {}, (), found.seconds, found.operations, 0, {}, dict(found.figures))
    return history.read(path), measures


def test_a_sweep_is_predicted_from_its_runs(tmp_path: Path) -> None:
    contenders = [
        Contender(catalog, "1.12.0", (), (("writers", str(n)),)) for catalog in ("jdbc", "rest") for n in (1, 8, 24)
    ]
    runs = []
    for c in contenders:
        folder = tmp_path / c.catalog / c.varied[0][1]
        folder.mkdir(parents=True)
        load = load_of(workload(int(c.varied[0][1])))
        _, measures = _run(folder / "history.jsonl", load, SERVICE)
        runs.append(ContenderRun(c, 1, folder=str(folder.relative_to(tmp_path)), measures=measures))
    sweep = Comparison({}, tuple(contenders), (1,), tuple(runs))
    found = predict(sweep, tmp_path, lambda c: workload(int(c.varied[0][1])), cores=2, further=(24, 100), commits=500)
    said = [(dict(p.varied)["catalog"], dict(p.varied)["writers"], p.measured) for p in found.points]
    each = [("1", True), ("8", True), ("24", True), ("100", False)]
    assert said == [(c, n, m) for c in ("jdbc", "rest") for n, m in each]
    for p in found.points[:3]:
        assert abs(p.error["commits_per_s"]) < 0.15, p
    assert not [n for n in found.notes if n.startswith("catalog=jdbc")]


def test_operations_that_others_overtook_are_counted_by_table(tmp_path: Path) -> None:
    load = ClosedLoop(6, conflicts=ConflictOdds(1, 1), interval_s=0.05)
    found, _ = _run(tmp_path / "history.jsonl", load, SERVICE)
    windows = conflict_windows(found.operations())
    assert len(windows) == 1000
    assert any(invalid for _, invalid in windows)
    assert conflict_probability(windows) > 0.8


def test_a_sweep_of_engines_that_record_no_attempts_says_so(tmp_path: Path) -> None:
    c = Contender("jdbc", "1.12.0", (), (("writers", "4"),))
    found = predict(Comparison({}, (c,), (1,), ()), tmp_path, lambda _: workload(), cores=2)
    assert found.points == ()
    assert found.notes == ("writers=4 is not predicted: no run of it recorded attempts, which only committers do",)
