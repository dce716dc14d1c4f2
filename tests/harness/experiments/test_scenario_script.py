"""The script of a scenario: a writer is killed while its request is at the gate, and the request goes on after that."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import cast

from harness.experiments.prove import ScenarioScript
from harness.writers.slot import WriterError, WriterSlot
from nemesis.proxy.board import Board, Hold
from nemesis.wires.wire import Request
from workloads.file import scenario
from workloads.generator import PlannedOperation

ENOUGH = 300.0
"""Seconds after which a test gives up on what never comes."""

FILE = """\
scenario: killed
description: A writer is killed at its commit, and another one goes on.
link: https://example.org/1
affected: none
tables:
  - {name: t, seed_rows: 0}
operations:
  - {name: killed, writer: 0, do: insert, value: {ids: [1]}, hold: {other: completed}, kill: true, expect: info}
  - {name: other, writer: 1, do: insert, value: {ids: [2]}, after: {killed: held}}
final: {t: [1, 2]}
"""


def play(kill: Callable[[Hold], None]) -> tuple[list[int], ScenarioScript]:
    """Both writers as far as the release of the held commit. Returns the writers that were killed, and the script."""
    s = scenario.parse(FILE)
    board, killed = Board(), []
    phase = s.workload().resolved_phases()[0]
    with ScenarioScript(s, board) as script:
        first, second = (iter(script.operations(s.workload(), phase, n, 0)) for n in range(2))
        assert isinstance(next(first), PlannedOperation)
        board.invoked(0, s.op("killed"))
        hold = board.plan("catalog", 0, cast(Request, SimpleNamespace(kind="commit", ops=()))).hold
        assert hold is not None

        def kill_driver(n: int) -> None:
            killed.append(n)
            kill(hold)

        slots = [SimpleNamespace(kill_driver=lambda n=n: kill_driver(n)) for n in range(2)]
        script.launched(cast(list[WriterSlot], slots))
        hold.reached.set()
        next(second)
        assert not killed, "the other one has not completed"
        assert next(second, None) is None
        assert hold._released.wait(ENOUGH)
        hold.passed.set()
        assert next(first, None) is None
    return killed, script


def test_a_writer_is_killed_at_the_end_of_the_hold_and_its_request_goes_on_after_that() -> None:
    held_when_killed: list[bool] = []
    killed, script = play(lambda hold: held_when_killed.append(not hold._released.is_set()))
    assert (killed, held_when_killed, script.problems()) == ([0], [True], [])


def test_a_writer_that_cannot_be_killed_is_a_problem_of_the_run() -> None:
    def fails(_: Hold) -> None:
        raise WriterError("it does not end")

    killed, script = play(fails)
    assert killed == [0]
    assert script.problems() == ["the writer of killed could not be killed: it does not end"]


def test_a_request_that_never_came_kills_nobody() -> None:
    s = scenario.parse(FILE.replace(", hold: {other: completed}", "").replace(", after: {killed: held}", ""))
    with ScenarioScript(s, Board()) as script:
        script.launched(cast(list[WriterSlot], [SimpleNamespace()]))
        for n in (1, 0):
            assert len(list(script.operations(s.workload(), s.workload().resolved_phases()[0], n, 0))) == 1
    assert script.problems() == ["no commit of killed came to the gate"]
