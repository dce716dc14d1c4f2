"""Simulated time, shared cores, queues, and the closed form that they must agree with."""

from __future__ import annotations

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkers.costs.simulated.machine import CPU, DELAY, SEIZE, Machine, Process, Station
from checkers.costs.simulated.mva import network


def ends(cores: float, *processes: tuple[float, list[tuple[int, float]]]) -> list[float]:
    """When each process (start, what it needs) ends."""
    machine, found = Machine(cores), [inf] * len(processes)

    def process(n: int, needs: list[tuple[int, float]]) -> Process:
        yield from needs
        found[n] = machine.now

    for n, (at, needs) in enumerate(processes):
        machine.start(process(n, needs), at)
    while machine.step():
        pass
    return found


def test_delays_do_not_hinder_each_other() -> None:
    assert ends(1, (0, [(DELAY, 2)]), (0.5, [(DELAY, 1), (DELAY, 1)])) == pytest.approx([2, 2.5])


def test_who_computes_shares_the_cores_evenly() -> None:
    assert ends(2, (0, [(CPU, 1)]), (0, [(CPU, 1)])) == pytest.approx([1, 1])
    assert ends(1, (0, [(CPU, 1)]), (0, [(CPU, 1)])) == pytest.approx([2, 2])
    # Alone for 1 s, then together until the second has its 1 s at 3 s; the first had 1 + 1 of its 3 then.
    assert ends(1, (0, [(CPU, 3)]), (1, [(CPU, 1)])) == pytest.approx([4, 3])


@given(st.lists(st.floats(0.01, 10), min_size=1, max_size=8), st.integers(1, 4))
def test_processor_sharing_ends_when_the_work_is_done(demands: list[float], cores: int) -> None:
    found = ends(cores, *((0.0, [(CPU, d)]) for d in demands))
    at, before = 0.0, 0.0
    for n, demand in enumerate(sorted(demands)):
        at += (demand - before) * max(1.0, (len(demands) - n) / cores)
        before = demand
        assert found[demands.index(demand)] == pytest.approx(at)


def test_a_station_serves_first_come_first_served() -> None:
    machine, station, order = Machine(1), Station(1), []

    def visitor(name: str) -> Process:
        yield SEIZE, station
        yield DELAY, 1
        order.append((name, machine.now))
        machine.free(station)

    for n, name in enumerate("abc"):
        machine.start(visitor(name), n / 10)
    while machine.step():
        pass
    assert order == [("a", 1), ("b", 2), ("c", 3)]
    assert station.busy == 0


# --- closed form ------------------------------------------------------------------------------------------------------


def repairmen(machines: int, think: float, demand: float, servers: int) -> float:
    """Throughput of the machine-repair model by its birth-death chain, independent of mean value analysis."""
    weight, weights = 1.0, [1.0]
    for broken in range(1, machines + 1):
        weight *= (machines - broken + 1) / think / (min(broken, servers) / demand)
        weights.append(weight)
    idle = sum(w * (machines - n) for n, w in enumerate(weights)) / sum(weights)
    return idle / think


@given(st.integers(1, 40), st.floats(0.1, 10), st.floats(0.01, 2), st.integers(1, 4))
def test_mean_value_analysis_is_the_machine_repair_model(n: int, think: float, demand: float, servers: int) -> None:
    assert network(n, think, [(demand, servers)]).throughput == pytest.approx(
        repairmen(n, think, demand, servers), rel=1e-6
    )


@given(
    st.integers(1, 60),
    st.floats(0, 5),
    st.lists(st.tuples(st.floats(0.01, 2), st.integers(1, 3)), min_size=1, max_size=4),
)
def test_throughput_keeps_to_its_bounds(n: int, think: float, stations: list[tuple[float, int]]) -> None:
    found = network(n, think, stations)
    alone = think + sum(d for d, _ in stations)
    assert found.throughput <= min(n / alone, *(c / d for d, c in stations)) * (1 + 1e-9)
    assert found.throughput >= network(max(1, n - 1), think, stations).throughput * (1 - 1e-9)
    assert all(s >= 1 - 1e-9 for s in found.stretch)


def test_a_station_without_demand_changes_nothing() -> None:
    assert network(9, 1, [(0.2, 2), (0, 1)]).throughput == pytest.approx(network(9, 1, [(0.2, 2)]).throughput)
