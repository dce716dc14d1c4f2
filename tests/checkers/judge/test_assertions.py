"""What ``assert:`` measures."""

from __future__ import annotations

from random import Random

import pytest

from checkers.costs.figures import latency
from checkers.evidence.history import Event, History
from checkers.retries import Retries
from checkers.timeline.metrics import measure, quantile
from tests.support.drawing import Drawing, row

MS = 1_000_000
HUNDRED = [float(n) for n in range(1, 101)]


@pytest.mark.parametrize(
    ("values", "q", "expected"),
    [
        ([], 0.5, None),
        ([], 0.0, None),
        ([7.0], 0.0, 7),
        ([7.0], 0.5, 7),
        ([7.0], 1.0, 7),
        ([1.0, 2.0], 0.5, 1),
        ([1.0, 2.0], 0.51, 2),
        ([1.0, 2.0, 3.0], 0.5, 2),
        ([3.0, 1.0, 2.0], 0.5, 2),
        ([1.0, 2.0, 2.0, 2.0, 3.0], 0.2, 1),
        ([1.0, 2.0, 2.0, 2.0, 3.0], 0.21, 2),
        ([1.0, 2.0, 2.0, 2.0, 3.0], 0.8, 2),
        ([1.0, 2.0, 2.0, 2.0, 3.0], 0.81, 3),
        (HUNDRED, 0.0, 1),
        (HUNDRED, 0.001, 1),
        (HUNDRED, 0.5, 50),
        (HUNDRED, 0.95, 95),
        (HUNDRED, 0.99, 99),
        (HUNDRED, 0.991, 100),
        (HUNDRED, 1.0, 100),
        (HUNDRED, 1e-05, 1),
    ],
)
def test_quantiles_are_nearest_rank(values: list[float], q: float, expected: float | None) -> None:
    assert quantile(values, q) == expected


def test_a_quantile_is_not_off_by_one_where_a_product_of_floats_is() -> None:
    assert 0.07 * 100 > 7 and 0.29 * 100 < 29
    shuffled = Random(1).sample(HUNDRED, 100)
    assert [quantile(shuffled, n / 100) for n in range(1, 101)] == HUNDRED


@pytest.mark.parametrize("q", [-0.01, 1.01, 99.0, float("nan")])
def test_a_quantile_of_no_share_is_refused(q: float) -> None:
    with pytest.raises(ValueError, match=r"from 0\.0 to 1\.0"):
        quantile(HUNDRED, q)


@pytest.mark.parametrize(("reads", "median", "p99"), [(1, 1, 1), (2, 1, 2), (100, 50, 99)])
def test_latencies_are_nearest_rank_as_on_the_page(reads: int, median: float, p99: float) -> None:
    d = Drawing()
    d.did("a", "insert", ids=[1], add=[row(1, "a")])
    events = []
    for n in range(reads):  # the n-th takes n + 1 ms
        at = n * 1000 * MS
        events.append(Event(2 * n, at, "invoke", n, "read", "t", {}, f"r{n}"))
        events.append(Event(2 * n + 1, at + (n + 1) * MS, "ok", n, "read", "t", [], f"r{n}"))
    e = d.evidence()
    measured = measure(type(e)(History({"format": 1}, tuple(events)), e.logs, e.tables))
    assert (measured["latency_p50_ms"], measured["latency_p99_ms"]) == (median, p99)
    page = latency(float(n) for n in range(1, reads + 1))
    assert page is not None and (page.median, page.p99) == (median, p99)
    retries = Retries().check(type(e)(History({"format": 1}, tuple(events)), e.logs, e.tables)).stats
    found = retries["faults"]["outside"]["latency_ms"]["read"]
    assert (found["p50"], found["p99"], found["max"]) == (median, p99, reads)
