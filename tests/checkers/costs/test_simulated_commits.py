"""Optimistic commits, simulated: closed forms, properties, limits."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checkers.costs.simulated import ClosedLoop, ConflictOdds, PhaseDemand, ServiceTimes, simulate
from checkers.costs.simulated.commits import Simulated
from checkers.costs.simulated.load import RunLength
from checkers.costs.simulated.mva import network
from checkers.costs.simulated.phasetimes import OPERATION_PHASES, exponential_shape, shape
from checkers.evidence.replace import replace
from workloads.backoff import POLICIES, Backoff, RetryLimits

WAITS = ServiceTimes({p: PhaseDemand(wait_s=0.01) for p in ("prepare", "refresh", "manifests", "swap")})
"""40 ms an operation, 30 ms an attempt, and nobody in the way but by the pointer."""
VARIED = replace(WAITS, shapes=dict.fromkeys(OPERATION_PHASES, exponential_shape()))

loads = st.builds(
    ClosedLoop,
    writers=st.integers(1, 12),
    tables=st.integers(1, 3),
    interval_s=st.sampled_from([0.0, 0.02, 0.3]),
    backoff=st.builds(Backoff, st.sampled_from(sorted(POLICIES)), st.builds(RetryLimits, st.integers(0, 6))),
    conflicts=st.sampled_from([ConflictOdds(), ConflictOdds(0.1, 0.5), ConflictOdds(1, 1)]),
    isolation=st.sampled_from(["snapshot", "serializable"]),
    swap_latency_s=st.sampled_from([0.0, 0.05]),
)
services = st.builds(
    lambda cpu, wait, catalog, varied, first: ServiceTimes(
        {p: PhaseDemand(cpu, wait, catalog if p == "swap" else 0) for p in ("prepare", "refresh", "manifests", "swap")},
        dict.fromkeys(OPERATION_PHASES, exponential_shape()) if varied else {},
        first_check=0.4 if first else 1.0,
    ),
    st.sampled_from([0.0, 0.004]),
    st.sampled_from([0.001, 0.01]),
    st.sampled_from([0.0, 0.005]),
    st.booleans(),
    st.booleans(),
)


def figure(found: Simulated, key: str) -> float:
    return found.figures[key]


# --- closed forms -----------------------------------------------------------------------------------------------------


def test_one_writer_commits_at_the_rate_of_its_service() -> None:
    found = simulate(ClosedLoop(1, interval_s=0.06), WAITS, 1, commits=500)
    assert figure(found, "commits_per_s") == pytest.approx(10, rel=1e-3)
    assert figure(found, "write_p50_ms") == pytest.approx(40)
    assert figure(found, "attempt_ms") == pytest.approx(30)
    assert (figure(found, "retried"), figure(found, "aborted"), figure(found, "fairness")) == (0, 0, 1)


@pytest.mark.parametrize("service", [WAITS, VARIED])
def test_writers_of_different_tables_do_not_meet(service: ServiceTimes) -> None:
    one = simulate(ClosedLoop(1), service, 1, commits=4000)
    ten = simulate(ClosedLoop(10, tables=10), service, 1, commits=8000)
    assert figure(ten, "retried") == figure(ten, "aborted") == 0
    assert figure(ten, "commits_per_s") == pytest.approx(10 * figure(one, "commits_per_s"), rel=0.03)


def test_an_attempt_without_length_is_never_refused() -> None:
    service = ServiceTimes({"prepare": PhaseDemand(wait_s=0.01)}, {"prepare": exponential_shape()})
    found = simulate(ClosedLoop(10), service, 1, commits=4000)
    assert figure(found, "retried") == 0
    assert figure(found, "commits_per_s") == pytest.approx(1000, rel=0.03)


@pytest.mark.parametrize("writers", [1, 3, 10, 30])
def test_without_conflicts_the_catalogs_queue_is_the_machine_repair_model(writers: int) -> None:
    service = ServiceTimes({"swap": PhaseDemand(catalog_s=0.01)}, {"swap": exponential_shape(1000)})
    found = simulate(ClosedLoop(writers, tables=writers, interval_s=0.1), service, 3, commits=8000)
    exact = network(writers, 0.1, [(0.01, 1)]).throughput
    assert figure(found, "commits_per_s") == pytest.approx(exact, rel=0.04)


@pytest.mark.parametrize("writers", [2, 6, 20])
def test_cores_and_catalog_together_are_the_closed_network(writers: int) -> None:
    service = ServiceTimes(
        {"prepare": PhaseDemand(cpu_s=0.03), "swap": PhaseDemand(catalog_s=0.01)},
        {"prepare": exponential_shape(1000), "swap": exponential_shape(1000)},
    )
    found = simulate(ClosedLoop(writers, tables=writers, interval_s=0.1), service, 3, commits=8000)
    exact = network(writers, 0.1, [(0.03, 2), (0.01, 1)])
    assert figure(found, "commits_per_s") == pytest.approx(exact.throughput, rel=0.03)
    assert found.phases_ms["prepare"] == pytest.approx(exact.residence[0] * 1000, rel=0.05)


def test_of_rare_commits_so_many_are_refused_as_fall_into_the_window() -> None:
    """A first attempt of 30 ms is refused if another writer commits in it: 1 - exp(-rate · 30 ms) if commits are independent."""
    service = replace(WAITS, shapes={"prepare": exponential_shape()})
    found = simulate(ClosedLoop(40, pace_s=8), service, 1, commits=8000)
    assert figure(found, "commits_per_s") == pytest.approx(5, rel=0.05)
    # A refused attempt ends at the swap, as an accepted one, so the length of the window is the same.
    assert figure(found, "retried") == pytest.approx(0.14, abs=0.02)


# --- properties -------------------------------------------------------------------------------------------------------


@settings(max_examples=20, deadline=None)
@given(loads, services, st.integers(0, 2**32))
def test_the_same_seed_gives_the_same_result(load: ClosedLoop, service: ServiceTimes, seed: int) -> None:
    assert simulate(load, service, seed, commits=100) == simulate(load, service, seed, commits=100)


@settings(max_examples=25, deadline=None)
@given(loads, services)
def test_winning_attempts_of_one_table_never_overlap(load: ClosedLoop, service: ServiceTimes) -> None:
    """So a table has no more commits than fit one after the other; here with times that do not vary."""
    service = replace(service, shapes={})
    found = simulate(load, service, 1, commits=300)
    window = service.attempt_s + load.swap_latency_s
    assert found.figures["commits_per_s"] <= load.tables / window * 1.02


@settings(max_examples=25, deadline=None)
@given(loads, services)
def test_figures_add_up(load: ClosedLoop, service: ServiceTimes) -> None:
    f = simulate(load, service, 1, commits=300).figures
    assert f["aborted"] == pytest.approx(f["exhausted"] + f["invalid"])
    assert 1 <= f["attempts_mean"] <= 1 + load.backoff.retries.num_retries
    if "retried" in f:
        assert f["retried"] <= f["retries_mean"] + 1e-9 <= load.backoff.retries.num_retries + 1e-9
        assert 1 / load.writers - 1e-9 <= f["fairness"] <= 1 + 1e-9


@settings(max_examples=8, deadline=None)
@given(st.integers(1, 10), services)
def test_a_longer_way_to_the_catalog_never_means_more_commits(writers: int, service: ServiceTimes) -> None:
    rates = [
        simulate(ClosedLoop(writers, interval_s=0.2, round_trips_s=(trip,)), service, 1, commits=800).figures[
            "commits_per_s"
        ]
        for trip in (0.0, 0.1, 0.4)
    ]
    assert rates == sorted(rates, reverse=True)


@settings(max_examples=8, deadline=None)
@given(st.integers(2, 12), services)
def test_more_retries_never_mean_fewer_operations_that_commit(writers: int, service: ServiceTimes) -> None:
    aborted = [
        simulate(ClosedLoop(writers, backoff=Backoff("iceberg", RetryLimits(n)), interval_s=0.5), service, 1, commits=1500)
        .figures["aborted"]
        for n in (0, 2, 8)
    ]  # fmt: skip
    assert aborted[0] + 0.02 >= aborted[1] and aborted[1] + 0.02 >= aborted[2]


@settings(max_examples=8, deadline=None)
@given(st.integers(2, 8), services)
def test_more_tables_never_mean_more_refused_commits(writers: int, service: ServiceTimes) -> None:
    refused = [
        simulate(ClosedLoop(writers, tables=tables, interval_s=0.2), service, 1, commits=1500).figures["attempts_mean"]
        for tables in (1, 2, writers)
    ]
    assert refused[0] + 0.05 >= refused[1] and refused[1] + 0.05 >= refused[2] == 1


# --- what a load and a service can say --------------------------------------------------------------------------------


def test_an_operation_gives_up_after_its_retries() -> None:
    for retries in (0, 3):
        load = ClosedLoop(20, backoff=Backoff("none", RetryLimits(retries)))
        found = simulate(load, VARIED, 1, commits=2000)
        assert figure(found, "exhausted") > 0.3
        assert figure(found, "attempts_mean") <= retries + 1


def test_total_timeout_ends_the_retries_after_the_second_attempt() -> None:
    load = ClosedLoop(20, backoff=Backoff("none", RetryLimits(50, total_timeout_ms=1)))
    found = simulate(load, VARIED, 1, commits=2000)
    assert 1 < figure(found, "attempts_mean") <= 2


def test_a_writer_whose_row_was_changed_aborts_and_never_retries() -> None:
    found = simulate(ClosedLoop(8, conflicts=ConflictOdds(1, 1)), VARIED, 1, commits=2000)
    assert figure(found, "invalid") > 0.5
    assert figure(found, "retried") == 0
    assert figure(found, "exhausted") == 0


def test_snapshot_isolation_aborts_less_if_it_looks_at_less() -> None:
    load = ClosedLoop(8, conflicts=ConflictOdds(snapshot=0.05, serializable=0.5), interval_s=0.3)
    weak, strong = (simulate(replace(load, isolation=i), VARIED, 1) for i in ("snapshot", "serializable"))
    assert figure(weak, "invalid") < figure(strong, "invalid") / 2
    assert figure(weak, "retry_success") > figure(strong, "retry_success")


def test_writers_far_away_lose_to_those_nearby() -> None:
    near = simulate(ClosedLoop(10, interval_s=0.05), VARIED, 1)
    mixed = simulate(ClosedLoop(10, interval_s=0.05, round_trips_s=(0.0, 0.2)), VARIED, 1)
    assert figure(mixed, "fairness") < figure(near, "fairness") - 0.1


def test_swap_latency_makes_attempts_longer_and_refusals_more_frequent() -> None:
    quick, slow = (simulate(ClosedLoop(5, interval_s=1, swap_latency_s=s), VARIED, 1) for s in (0.0, 0.25))
    assert figure(slow, "attempt_ms") == pytest.approx(figure(quick, "attempt_ms") + 250, rel=0.05)
    assert figure(slow, "retried") > 3 * figure(quick, "retried")


def test_a_pool_of_connections_bounds_what_a_slow_wire_lets_through() -> None:
    load = ClosedLoop(30, tables=30, swap_latency_s=0.25)
    pooled = simulate(load, replace(WAITS, connections=2), 1, commits=1000)
    assert figure(pooled, "commits_per_s") == pytest.approx(2 / 0.26, rel=0.05)
    assert figure(simulate(load, WAITS, 1, commits=1000), "commits_per_s") == pytest.approx(30 / 0.29, rel=0.02)


def test_own_cores_leave_the_swap_to_share() -> None:
    service = ServiceTimes({"manifests": PhaseDemand(cpu_s=0.04), "swap": PhaseDemand(cpu_s=0.001)}, cores=2)
    load = ClosedLoop(100, tables=100)
    assert figure(simulate(load, service, 1), "commits_per_s") == pytest.approx(2 / 0.041, rel=0.03)
    alone = simulate(replace(load, own_cores=True), service, 1)
    assert figure(alone, "commits_per_s") == pytest.approx(network(100, 0.04, [(0.001, 2)]).throughput, rel=0.05)


def test_a_check_before_the_work_makes_refused_requests_short() -> None:
    load = ClosedLoop(10, backoff=Backoff("none"))
    late = simulate(load, VARIED, 1)
    early = simulate(load, replace(VARIED, first_check=0.25), 1)
    assert early.phases_ms["swap"] < 0.9 * late.phases_ms["swap"]
    slow = simulate(load, replace(VARIED, first_check=0.25, late_refusal_s=0.105), 1)
    assert slow.phases_ms["swap"] > 2 * early.phases_ms["swap"]


def test_a_pace_is_kept_where_it_can_be_kept() -> None:
    assert figure(simulate(ClosedLoop(10, pace_s=5), WAITS, 1), "commits_per_s") == pytest.approx(2, rel=0.05)


def test_a_run_does_its_operations_from_a_common_start() -> None:
    found = simulate(ClosedLoop(7), VARIED, 1, length=RunLength(operations=100))
    assert found.operations == 100
    timed = simulate(ClosedLoop(1), WAITS, 1, length=RunLength(seconds=1.0))
    # Begun at 0, 40, …, 960 ms and one at 1,000 ms at the latest; the last one is finished.
    assert timed.operations == 25
    assert timed.seconds == pytest.approx(1.0, abs=0.04)


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["none", "iceberg"])
def test_ten_thousand_writers_take_a_bounded_number_of_events(policy: str) -> None:
    service = ServiceTimes({p: PhaseDemand(0.002, 0.002) for p in ("prepare", "refresh", "manifests", "swap")})
    found = simulate(ClosedLoop(10_000, backoff=Backoff(policy)), service, 1)
    assert found.operations >= (1000 if found.cut_short else 10_000)
    assert figure(found, "aborted") > 0.9


def test_bad_numbers_are_refused_by_name() -> None:
    cases: list[tuple[Callable[[], object], str]] = [
        (lambda: ClosedLoop(0), "writers and tables must be 1 or more"),
        (lambda: ClosedLoop(1, interval_s=-1), "must be 0 or more"),
        (lambda: ClosedLoop(1, round_trips_s=()), "round_trips_s must have one number at least"),
        (lambda: ConflictOdds(snapshot=2), "probability of a conflict must be from 0 to 1"),
        (lambda: RunLength(), "exactly one of operations and seconds"),
        (lambda: ServiceTimes({"lunch": PhaseDemand()}), "there is no phase 'lunch'; there are between, prepare"),
        (lambda: ServiceTimes({}, cores=0), "must be 1 or more"),
        (lambda: ServiceTimes({}, first_check=2), "first_check must be from 0 to 1"),
    ]
    for wrong, message in cases:
        with pytest.raises(ValueError, match=message):
            wrong()


def test_a_shape_has_the_mean_1() -> None:
    assert sum(shape([1, 2, 6])) / 3 == pytest.approx(1)
    assert shape([]) == shape([0.0]) == (1.0,)
    assert sum(exponential_shape()) / 200 == pytest.approx(1, rel=0.01)
