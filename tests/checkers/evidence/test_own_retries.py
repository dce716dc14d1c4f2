"""Attempts that a committer makes by itself: the log's commits get the number that the operation's completion records."""

from __future__ import annotations

from checkers.evidence.own_retries import attempts_by_op, counted
from checkers.evidence.replace import replace
from tests.support.drawing import Drawing


def test_the_larger_number_counts() -> None:
    d = Drawing()
    for n in range(2):
        d.did(f"w{n}-0", "insert", ids=[n])
    e = d.evidence()
    [log] = e.logs.values()
    events = [
        replace(ev, extra={**ev.extra, "attempts": [{}, {}, {}]}) if ev.op == "w1-0" and ev.type == "ok" else ev
        for ev in e.history.events
    ]
    attempts = attempts_by_op(events)
    assert attempts == {"w1-0": 3}
    changed = counted(log, attempts)
    assert {c.op: c.attempt for c in changed.commits}["w1-0"] == 3
    assert [c for c in changed.commits if c.op != "w1-0"] == [c for c in log.commits if c.op != "w1-0"]
    assert counted(log, {"w1-0": 1}) is log, "Iceberg's own number stands"
