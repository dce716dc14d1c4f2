"""A service from measured points, and predictions beside them. What was measured is a simulated run: so the truth is known."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from checkers.costs.simulated import (
    ClosedLoop,
    MeasuredOperation,
    MeasuredPoint,
    PhaseDemand,
    RunLength,
    ServiceTimes,
    calibrate,
    measured,
    recorded,
    simulate,
)
from checkers.costs.simulated.commits import simulated_run
from checkers.costs.simulated.phasetimes import OPERATION_PHASES, exponential_shape
from checkers.costs.simulated.prediction import COMPARED, PREDICTION_SEEDS, Predictions, far, predictions
from checkers.evidence.history import Event, History
from checkers.evidence.replace import replace
from workloads.backoff import Backoff

LENGTH = RunLength(operations=1000)
TRUTH = ServiceTimes(
    {
        "between": PhaseDemand(0.001),
        "prepare": PhaseDemand(0.003, 0.002),
        "refresh": PhaseDemand(0.004, 0.002),
        "manifests": PhaseDemand(0.008, 0.004),
        "swap": PhaseDemand(0.006, 0.004),
    },
    shapes=dict.fromkeys(OPERATION_PHASES, exponential_shape(64)),
    factors={"refresh": {"cold": 2.0, "retry": 2.0}, "manifests": {"retry": 0.5}},
)


def point(writers: int, service: ServiceTimes = TRUTH, tables: int = 1) -> MeasuredPoint:
    load = ClosedLoop(writers, tables, interval_s=0.05)
    found, ended = simulated_run(load, service, 7, LENGTH)
    return measured(
        load, [e.operation for e in ended], found.figures, length=LENGTH, varied=(("writers", str(writers)),)
    )


@pytest.fixture(scope="module")
def few() -> Sequence[MeasuredPoint]:
    return [point(n) for n in (1, 2, 8)]


SLOW = replace(TRUTH, phases={**TRUTH.phases, "manifests": PhaseDemand(0.008, 0.3)})
FURTHER = (ClosedLoop(200, backoff=Backoff("exponential+jitter"), interval_s=0.05), (("writers", "200"),))


@pytest.fixture(scope="module")
def many(few: Sequence[MeasuredPoint]) -> Sequence[MeasuredPoint]:
    """Points to calibrate on, points to predict, and one where manifests take longer."""
    return [*few, point(30), point(50), point(30, SLOW)]


@pytest.fixture(scope="module")
def found(many: Sequence[MeasuredPoint]) -> Predictions:
    return predictions(many, [FURTHER], ServiceTimes({}), commits=1000)


# --- what a run recorded ----------------------------------------------------------------------------------------------


def test_a_phase_counts_as_often_as_it_happened_and_by_the_sort_of_its_attempt() -> None:
    operations = [
        MeasuredOperation(10, True, [{"wait_ms": 0, "refresh_ms": 1, "swap_ms": 4, "parent": "hot"}], before_ms=2),
        MeasuredOperation(
            31,
            True,
            [
                {"wait_ms": 0, "refresh_ms": 2, "manifests_ms": 3, "swap_ms": 2, "parent": "cold"},
                {"wait_ms": 10, "refresh_ms": 3, "manifests_ms": 1, "swap_ms": 6, "parent": "cold"},
            ],
        ),
        MeasuredOperation(99, False, []),
    ]
    m = measured(ClosedLoop(2), operations, {})
    assert m.samples_ms["refresh"] == {"hot": (1,), "cold": (2,), "retry": (3,)}
    assert m.visits["refresh"] == {"hot": 0.5, "cold": 0.5, "retry": 0.5}
    # The refused swap took 2 ms of the 5 ms that a winning one takes on average.
    assert m.samples_ms["swap"] == {"hot": (4, 6)}
    assert m.visits["swap"] == {"hot": pytest.approx((4 + 2 + 6) / 5 / 2)}
    assert m.samples_ms["prepare"] == {"hot": (5, 4)}
    assert m.samples_ms["between"] == {"hot": (2, 0)}
    assert m.backoff_s == pytest.approx(0.005)
    assert "metadata" not in m.samples_ms
    assert m.mean_ms("refresh", {"cold": 2.0, "retry": 3.0}) == pytest.approx(1)
    assert m.visits_as_if_hot("refresh", {"cold": 2.0, "retry": 3.0}) == pytest.approx(3)


def test_a_history_says_latency_outcome_and_the_time_between_operations() -> None:
    attempts = [{"wait_ms": 0, "swap_ms": 2, "parent": "hot"}]
    ms = 1_000_000
    events = [
        Event(0, 0, "invoke", 0, "insert", "t", {}, "w0-0"),
        Event(1, 5 * ms, "ok", 0, "insert", "t", {}, "w0-0", extra={"attempts": attempts}),
        Event(2, 6 * ms, "invoke", 1, "insert", "t", {}, "w1-0"),
        Event(3, 7 * ms, "invoke", 0, "insert", "t", {}, "w0-1"),
        Event(4, 9 * ms, "fail", 0, "insert", "t", {}, "w0-1", error=[["E", "m"]], extra={"attempts": attempts}),
        Event(5, 10 * ms, "ok", 1, "insert", "t", {}, "w1-0"),
    ]
    operations = History({}, tuple(events)).operations()
    assert recorded(operations) == [MeasuredOperation(5, True, attempts, 0), MeasuredOperation(2, False, attempts, 2)]
    assert [o.before_ms for o in recorded(operations, paced=True)] == [0, 0]


# --- calibration ------------------------------------------------------------------------------------------------------


def test_few_writers_tell_how_long_many_take(many: Sequence[MeasuredPoint], found: Predictions) -> None:
    assert found.calibrated_on == (0, 1, 2)
    for m, p in zip(many[:5], found.points[:5], strict=True):
        assert p.measured and p.varied == m.varied
        for key in COMPARED:
            if key in m.figures:
                assert not far(key, p.figures[key], m.figures[key]), (p.varied, key)


def test_cold_parents_and_retries_have_the_factors_that_they_had(found: Predictions) -> None:
    factors = found.calibrated.service.factors
    assert factors["refresh"]["cold"] == pytest.approx(2, rel=0.15)
    assert factors["refresh"]["retry"] == pytest.approx(2, rel=0.15)
    assert factors["manifests"]["retry"] == pytest.approx(0.5, rel=0.15)


def test_what_passes_by_itself_is_not_taken_for_computing() -> None:
    """With a table each: writers that back off leave the cores idle, and then nothing can tell."""
    waits = replace(TRUTH, phases={p: PhaseDemand(wait_s=d.total_s) for p, d in TRUTH.phases.items()})
    computes = replace(TRUTH, phases={p: PhaseDemand(cpu_s=d.total_s) for p, d in TRUTH.phases.items()})
    shares = []
    for service in (waits, computes):
        found = calibrate([point(n, service, n) for n in (1, 8)], ServiceTimes({})).service.phases
        shares.append(sum(d.cpu_s for d in found.values()) / sum(d.total_s for d in found.values()))
    assert shares[0] < 0.25
    assert shares[1] > 0.75


def test_points_without_more_writers_than_cores_are_taken_for_the_worst_case() -> None:
    found = calibrate([point(1), point(2)], ServiceTimes({}))
    assert all(d.wait_s == 0 for d in found.service.phases.values())
    assert "no point has more writers than the 2 cores" in found.notes[0]


def test_a_machine_that_was_busy_with_something_else_is_noticed(
    few: Sequence[MeasuredPoint], found: Predictions
) -> None:
    slow = {p: PhaseDemand(2 * d.cpu_s, 2 * d.wait_s) for p, d in TRUTH.phases.items()}
    disturbed = [point(1, replace(TRUTH, phases=slow)), *few[1:]]
    assert "something else than the writers slowed the machine down" in calibrate(disturbed, ServiceTimes({})).notes[0]
    assert found.calibrated.notes == ()


def test_nothing_measured_is_an_error() -> None:
    with pytest.raises(ValueError, match="nothing to calibrate on"):
        calibrate([measured(ClosedLoop(1), [], {})], ServiceTimes({}))


def test_time_on_the_wire_is_not_taken_for_the_service() -> None:
    far_away = [
        measured(load, [e.operation for e in simulated_run(load, TRUTH, 7, LENGTH)[1]], {}, length=LENGTH)
        for load in (ClosedLoop(1, round_trips_s=(0.08,), swap_latency_s=0.1), ClosedLoop(8, swap_latency_s=0.25))
    ]
    found, near = calibrate(far_away, ServiceTimes({})), calibrate([point(1), point(8)], ServiceTimes({}))
    for phase in ("refresh", "swap"):
        assert found.service.demand(phase).total_s == pytest.approx(near.service.demand(phase).total_s, rel=0.2)


# --- prediction -------------------------------------------------------------------------------------------------------


def test_a_point_where_something_else_slows_a_phase_down_has_a_reason(found: Predictions) -> None:
    assert set(found.reasons) == {5}
    assert "for manifests" in found.reasons[5] and "makes it slower here" in found.reasons[5]


def test_further_points_are_predicted_and_have_no_error(found: Predictions) -> None:
    last = found.points[-1]
    assert (last.varied, last.measured, last.error) == ((("writers", "200"),), False, {})
    assert last.figures["aborted"] > found.points[4].figures["aborted"]


def test_a_run_too_short_to_tell_is_said_to_vary_by_chance(few: Sequence[MeasuredPoint], found: Predictions) -> None:
    load, service, short = ClosedLoop(8, interval_s=0.05), found.calibrated.service, RunLength(seconds=0.5)
    runs = [simulate(load, service, seed, length=short).figures["commits_per_s"] for seed in PREDICTION_SEEDS]
    best, middle = max(runs), sorted(runs)[len(runs) // 2]
    assert far("commits_per_s", middle, best)
    lucky, wrong = (replace(few[2], figures={"commits_per_s": rate}, length=short) for rate in (best, 1000.0))
    reasons = predictions([*few, lucky, wrong], [], ServiceTimes({}), calibrate_on=(0, 1, 2)).reasons
    assert "by chance alone" in reasons[3]
    assert "by chance" not in reasons[4]
