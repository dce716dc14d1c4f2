"""The ``liveness`` checker, and the fault windows it goes by, on histories drawn by hand.

A drawing is a list of lines ``(second, process, type, f, ...)``. The bounds are small: an operation has 10 s and 5 s of slack, and 60 s may
pass without an acknowledgement.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from checkers.evidence.evidence import Evidence
from checkers.evidence.history import Event, History
from checkers.evidence.outcome import STOPPED
from checkers.evidence.replace import replace
from checkers.judge.runfolder import load_evidence
from checkers.liveness import TIMEOUT, Liveness
from checkers.timeline.fault_windows import FaultWindow, merged, outside, windows
from checkers.verdict import Verdict
from tests.support.simulator import simulate
from workloads.tables import TableSpec

S = 1_000_000_000
CHECKER = Liveness(op_timeout=10, slack=5, progress=60)
GAVE_UP = [[TIMEOUT, "w0: no answer within 10 s"]]
DIED = [["icequake.WriterDied", "w0"]]


def events(*lines: tuple[Any, ...]) -> list[Event]:
    """``(second, process, type, f, op)`` or, of the nemesis, ``(second, "nemesis", type, f, value)``; sorted by time."""
    out = []
    for n, (at, process, type, f, what, *error) in enumerate(sorted(lines, key=lambda x: x[0])):
        nemesis = process == "nemesis"
        value, op = (what, None) if nemesis else (None, what)
        out.append(
            Event(n, int(at * S), type, process, f, None if nemesis else "t", value, op, error[0] if error else None)
        )
    return out


def op(
    start: float, end: float | None, id: str, *, type: str = "ok", process: int = 0, error: Any = None
) -> list[tuple[Any, ...]]:
    """An operation."""
    lines: list[tuple[Any, ...]] = [(start, process, "invoke", "insert", id)]
    return lines + ([(end, process, type, "insert", id, error)] if end is not None else [])


def others(start: float, n: int = 4, process: int = 9, each: float = 1.0) -> list[tuple[Any, ...]]:
    """Operations of somebody else, one after the other."""
    return [
        x for k in range(n) for x in op(start + k * each, start + (k + 0.9) * each, f"x{start}-{k}", process=process)
    ]


def fault(start: float, end: float | None, name: str = "partition") -> list[tuple[Any, ...]]:
    lines: list[tuple[Any, ...]] = [(start, "nemesis", "info", f"start-{name}", None)]
    return lines + ([(end, "nemesis", "info", "heal", None)] if end is not None else [])


def check(*lines: list[tuple[Any, ...]], complete: bool = True, header: dict[str, Any] | None = None) -> Verdict:
    history = History(header or {}, tuple(events(*(x for line in lines for x in line))))
    return CHECKER.check(Evidence(history, {}, {}, complete))


def names(v: Verdict) -> list[str]:
    return [a.name for a in v.anomalies]


# --- operations -------------------------------------------------------------------------------------------------------


def test_answers_in_time_are_live() -> None:
    v = check(op(0, 9, "a"), op(10, 24, "b", type="fail"), others(1))
    assert v.valid is True and not v.notes


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        (op(0, 16, "a"), ["overdue-operation"]),
        (op(0, 16, "a", type="fail"), ["overdue-operation"]),
        (op(0, 11, "a", type="info", error=GAVE_UP), ["stuck-operation"]),
        (op(0, 4, "a", type="info", error=GAVE_UP), []),
        (op(0, 16, "a", type="info", error=DIED), []),
        (op(0, 16, "a", type="info", error=[[STOPPED, "the run was stopped"]]), []),
        (op(0, None, "a") + op(50, 51, "end", process=8), ["stuck-operation"]),
        (op(0, 14, "a") + fault(2, 3), []),
        (op(0, 17, "a") + fault(2, 3), []),
        (op(0, 19, "a") + fault(2, 3), ["overdue-operation"]),
        (op(4, 19, "a") + fault(2, 3), []),
        (op(4, 20, "a") + fault(2, 3), ["overdue-operation"]),
        (op(0, 25, "a") + fault(2, 3) + fault(14, 16, "pause"), []),
        (op(0, 11, "a", type="info", error=GAVE_UP) + fault(2, 3), []),
        (op(0, 30, "a", type="info", error=GAVE_UP) + fault(2, 3), ["stuck-operation"]),
        (op(0, 30, "a", type="info", error=GAVE_UP) + fault(20, 21), ["stuck-operation"]),
    ],
)
def test_an_operation_has_its_time_again_after_every_heal(lines: list[tuple[Any, ...]], found: list[str]) -> None:
    v = check(lines, others(5))
    assert names(v) == found
    assert v.valid is (not found)
    for a in v.anomalies:
        assert a.ops[0] == "a" and len(a.events) >= 4 and "x5-0" in a.explanation


def test_without_witnesses_the_machine_may_be_slow() -> None:
    v = check(op(0, 40, "a"), op(1, 39, "b", process=1), others(2, n=2))
    assert v.valid == "unknown" and not v.anomalies
    assert "may have been slow" in v.notes[0]


def test_a_run_that_was_cut_short_is_unknown() -> None:
    late = [*op(0, None, "a"), *others(5), *op(50, 51, "end", process=8)]
    assert names(check(late)) == ["stuck-operation"]
    v = check(late, complete=False)
    assert v.valid == "unknown" and "cut short" in v.notes[0]


@pytest.mark.parametrize("complete", [True, False])
def test_an_operation_whose_time_was_not_up_at_the_end_breaks_nothing(complete: bool) -> None:
    v = check(op(0, None, "a"), others(5), complete=complete)
    assert v.valid is (True if complete else "unknown")
    assert "before its time was up" in v.notes[0]


def test_a_fault_that_was_never_healed_is_unknown() -> None:
    v = check(op(0, 40, "a"), fault(2, None), others(5))
    assert v.valid == "unknown" and "never healed" in v.notes[0]


def test_the_header_says_what_an_operation_may_take() -> None:
    lines = [*op(0, 16, "a"), *others(5)]
    assert names(check(lines, header={"op_timeout": 30})) == []
    assert check(lines, header={"op_timeout": 30}).stats["op_timeout"] == 30
    assert names(check(lines, header={"op_timeout": "soon"})) == ["overdue-operation"]


def test_an_unanswered_operation_that_committed_is_not_stuck() -> None:
    sim = simulate(3, [TableSpec(name="t")], unknown=0.0, spurious=0.0)
    made = {c.op for c in sim.logs["t"].main()}
    ends = {e.process: e for e in sim.history.events if e.type == "ok" and e.op in made}
    last = {e.process: e for e in sim.history.events}
    given_up = {e.index: e for p, e in ends.items() if last[p] is e}
    assert given_up
    bent = [replace(e, type="info", error=GAVE_UP) if e.index in given_up else e for e in sim.history.events]
    strict = Liveness(op_timeout=1e-9, slack=0, witnesses=0)
    v = strict.check(Evidence(History(sim.history.header, tuple(bent)), sim.logs, sim.tables))
    assert v.stats["unanswered"] == len(given_up)
    assert not [a for a in v.anomalies if a.name == "stuck-operation"]
    forgotten = replace(sim.logs["t"], commits=(), metadata=sim.logs["t"].metadata[:1])
    v = strict.check(Evidence(History(sim.history.header, tuple(bent)), {"t": forgotten}, sim.tables))
    assert {a.ops[0] for a in v.anomalies if a.name == "stuck-operation"} == {e.op for e in given_up.values()}


# --- progress ---------------------------------------------------------------------------------------------------------


def aborts(start: float, n: int, each: float = 5.0) -> list[tuple[Any, ...]]:
    return [x for k in range(n) for x in op(start + k * each, start + (k + 0.99) * each, f"a{k}", type="fail")]


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        (op(0, 1, "a") + aborts(1, 20) + op(102, 103, "b"), ["no-progress"]),
        (op(0, 1, "a") + aborts(1, 11) + op(60, 61, "b"), []),
        (op(0, 1, "a") + op(500, 501, "b"), []),
        (op(0, 1, "a") + aborts(1, 20) + fault(40, 50) + op(102, 103, "b"), []),
        (op(0, 1, "a") + aborts(1, 30) + fault(40, 50) + op(152, 153, "b"), ["no-progress"]),
        (aborts(1, 20), ["no-progress"]),
        ([], []),
    ],
)
def test_progress_is_an_acknowledgement_while_somebody_works(lines: list[tuple[Any, ...]], found: list[str]) -> None:
    v = check(lines)
    assert names(v) == found
    if found:
        assert "aborting each other" in v.anomalies[0].explanation


def test_no_progress_at_the_end_of_a_run_that_was_cut_short_is_unknown() -> None:
    v = check(op(0, 1, "a"), aborts(1, 20), complete=False)
    assert v.valid == "unknown" and "cut short" in v.notes[0]


# --- fault windows ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        ([(1, "info", "start-kill", None), (2, "info", "stop-kill", None)], [("kill", 1, 2, True)]),
        ([(1, "info", "kill", "start"), (2, "info", "kill", "stop")], [("kill", 1, 2, True)]),
        ([(1, "info", "kill", {"start": "w0"}), (2, "info", "kill", {"heal": None})], [("kill", 1, 2, True)]),
        ([(1, "invoke", "kill", "w0"), (2, "ok", "kill", "w0")], [("kill", 1, 2, True)]),
        ([(1, "info", "kill", "w0"), (2, "info", "kill", "w0"), (5, "info", "heal", None)], [("kill", 1, 5, True)]),
        ([(1, "invoke", "start-kill", None), (2, "ok", "start-kill", None), (4, "info", "heal-kill", None)], [("kill", 1, 4, True)]),
        ([(1, "info", "start-a", None), (2, "info", "start-b", None), (3, "info", "heal", None)], [("a", 1, 3, True), ("b", 2, 3, True)]),
        ([(1, "info", "start-a", None), (9, "info", "phase", "main")], [("a", 1, 9, False)]),
        ([(1, "info", "phase", "main"), (2, "info", "heal", None)], []),
    ],
)  # fmt: skip
def test_a_fault_lasts_from_its_start_to_its_heal(lines: list[tuple[Any, ...]], found: list[tuple[Any, ...]]) -> None:
    drawn = events(*((at, "nemesis", type, f, value) for at, type, f, value in lines))
    assert windows(drawn) == tuple(FaultWindow(n, a * S, b * S, healed) for n, a, b, healed in found)


def test_windows_merge_and_leave_the_rest() -> None:
    found = [FaultWindow("a", 2, 5, True), FaultWindow("b", 4, 7, True), FaultWindow("c", 9, 10, True)]
    assert merged(found) == [(2, 7), (9, 10)]
    assert outside(0, 12, merged(found)) == [(0, 2), (7, 9), (10, 12)]
    assert outside(3, 6, merged(found)) == []
    assert outside(6, 8, merged(found)) == [(7, 8)]


# --- whole runs -------------------------------------------------------------------------------------------------------


def test_simulated_runs_are_silent() -> None:
    for seed in range(20):
        v = Liveness().check(
            simulate(seed, [TableSpec(name="a"), TableSpec(name="b", isolation="snapshot")]).evidence()
        )
        assert not v.anomalies
        json.dumps(v.to_json())


def test_recorded_runs_are_silent(recorded_run: Path) -> None:
    assert Liveness().check(load_evidence(recorded_run)).anomalies == ()
