"""What ``assert:`` measures."""

from __future__ import annotations

import pytest

from checkers.assertions import measure
from harness.history import Event, History
from tests.drawing import Drawing, row

MS = 1_000_000


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
