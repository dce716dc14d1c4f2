"""The check during a run: what it tells while the writers work, and how it ends the load."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable
from random import Random

import pytest

from checkers.evidence.evidence import Evidence
from checkers.evidence.history import Event
from checkers.evidence.tablelog import Growth
from checkers.online import Counts
from checkers.online.certain import NAMELESS
from harness.run.online import OnlineCheck, kinds_of, live_line
from harness.run.settings import OnlineSettings
from tests.support.drawing import Drawing, row
from tests.support.going_on import told
from tests.support.long_run import SPEC, evidence, long_run
from workloads.file.workload import Workload

PATIENCE = 60.0


class Heard:
    """What was told, and an event that is set with the first of each."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.told: list[str] = []
        self.line_came, self.told_came = threading.Event(), threading.Event()

    def settings(self, *, stop: bool = False) -> OnlineSettings:
        return OnlineSettings(self._line, self._told, every=0.0, stop=stop)

    def _line(self, text: str) -> None:
        self.lines.append(text)
        self.line_came.set()

    def _told(self, text: str) -> None:
        self.told.append(text)
        self.told_came.set()


def lost() -> Evidence:
    """An acknowledged insert whose snapshot main is set back below."""
    d = Drawing()
    a = d.did("a", "insert", ids=[1], add=[row(1, "a")])
    d.did("b", "insert", ids=[2], add=[row(2, "b")])
    d.set_main(a)
    return d.evidence()


def feed(check: OnlineCheck, stream: Iterable[Event | Growth]) -> None:
    for x in stream:
        if isinstance(x, Event):
            check.heard(x)
        else:
            check.grew(x)


def test_an_anomaly_is_told_while_the_run_goes_on_with_operation_snapshot_and_key() -> None:
    heard, e = Heard(), lost()
    with OnlineCheck(e.tables.values(), (), heard.settings()) as check:
        feed(check, told(e, Random(0)))
        assert heard.told_came.wait(PATIENCE), "before the check is stopped"
        assert heard.line_came.wait(PATIENCE)
    commit = e.logs["t"].commits[1].snapshot_id
    assert [t.partition(": it was")[0] for t in heard.told] == [
        f"anomaly: lost-commit: table t, b, snapshot {commit}, id 2",
        "table t is no longer checked while the run goes on: main was set back; the check after the run judges all of it",
    ]
    found = check.finish()
    assert found["closed"] == {"t": "main was set back"}
    assert found["anomalies"] == 1 and found["found"][0] == {
        "name": "lost-commit",
        "table": "t",
        "ops": ["b"],
        "snapshots": [commit],
        "keys": [2],
        "overtaken": False,
    }


@pytest.mark.parametrize("stop", [True, False])
def test_the_first_anomaly_ends_the_load_only_if_that_is_wanted(stop: bool) -> None:
    heard, e, ended = Heard(), lost(), list[str]()
    with OnlineCheck(e.tables.values(), (), heard.settings(stop=stop)) as check:
        check.ends(ended.append)
        feed(check, told(e, Random(0)))
        assert heard.told_came.wait(PATIENCE)
    assert ended == (["stop-on-anomaly: lost-commit on table t"] if stop else [])


def test_tables_that_are_closed_for_one_reason_are_told_in_one_line_and_once() -> None:
    heard = Heard()
    tables = [SPEC, SPEC.model_copy(update={"name": "u"})]
    with OnlineCheck(tables, {"rollback"}, heard.settings()) as check:
        assert heard.told_came.wait(PATIENCE), "before anything happened"
        feed(check, long_run(60))
    why = "rollbacks (rollback)"
    assert check.finish()["closed"] == {"t": why, "u": why}
    assert heard.told == [
        f"tables t, u are no longer checked while the run goes on: {why}; the check after the run judges all of them"
    ]


def test_tables_that_an_engine_without_marks_writes_are_told_once_and_then_counted() -> None:
    heard = Heard()
    check = OnlineCheck([SPEC], (), heard.settings())
    for table in ("t", "u"):
        check._online.counts.closed[table] = NAMELESS
        check._tell()
    (line,) = heard.told
    assert line.startswith(f"table t is no longer checked while the run goes on: {NAMELESS}; ") and line.endswith(
        "; further such tables are only counted"
    )


def test_what_is_left_in_the_queue_is_judged_when_the_run_ends() -> None:
    heard = Heard()
    with OnlineCheck([SPEC], (), heard.settings()) as check:
        feed(check, long_run(300))
    found = check.finish()
    commits = len(evidence(long_run(300)).logs["t"].commits)
    assert (found["anomalies"], found["judged"], found["commits"]) == (0, commits, commits)
    assert found["not_judged"] == {} and heard.told == []


def test_what_comes_after_the_check_was_stopped_is_not_judged() -> None:
    heard, e = Heard(), lost()
    with OnlineCheck(e.tables.values(), (), heard.settings()) as check:
        check.stop()
        feed(check, told(e, Random(0)))
    assert check.finish()["found"] == [] and heard.told == []


def test_a_defect_of_the_check_is_told_once_and_the_run_goes_on() -> None:
    heard = Heard()
    with OnlineCheck([SPEC], (), heard.settings()) as check:
        check.grew(Growth("t", (), (None,), (), ()))  # type: ignore[arg-type]
        feed(check, long_run(100))
        check.grew(Growth("t", ("id", "val", "cnt", "log", "part"), (None,), (), ()))  # type: ignore[arg-type]
        feed(check, long_run(100))
        assert heard.told_came.wait(PATIENCE)
    found = check.finish()
    assert len([t for t in heard.told if "the check during the run failed" in t]) == 1
    assert "AttributeError" in found["error"]


@pytest.mark.parametrize(
    ("rate", "counts", "line"),
    [
        (
            14.21,
            Counts(1000, 310, 37, 310, 99, 2, 0),
            "14.2 op/s  310 commits  12 % retried  2 faults on  0 anomalies (310 commits checked)",
        ),
        (0, Counts(0, 0, 0, 0, 0, 0, 0), "0.0 op/s  0 commits  0 anomalies (0 commits checked)"),
        (
            1.0,
            Counts(2, 1, 0, 1, 0, 0, 0, Counter({"time travel": 1})),
            "1.0 op/s  1 commit  0 % retried  0 anomalies (1 commit checked; checked after the run only: 1 commit or operation)",
        ),
        (
            1.0,
            Counts(9, 1, 0, 0, 0, 1, 1, Counter({"rollbacks": 3, "time travel": 2}), {"t": "rollbacks"}),
            "1.0 op/s  1 commit  0 % retried  1 fault on  1 anomaly "
            "(0 commits checked; checked after the run only: 5 commits and operations, 1 whole table)",
        ),
    ],
)
def test_the_live_line(rate: float, counts: Counts, line: str) -> None:
    assert live_line(rate, counts) == line


def test_the_kinds_of_a_workload_are_those_of_all_phases_and_of_the_nemesis() -> None:
    workload = Workload.model_validate(
        {
            "workload": "w",
            "tables": [{"name": "t"}],
            "operations": {"insert": 1},
            "phases": [
                {"name": "a", "length": {"ops": 5}},
                {"name": "b", "length": {"ops": 5}, "operations": {"rollback": 1}},
            ],
            "nemesis": {"faults": [{"verb": "maintain", "do": "expire-snapshots"}]},
        }
    )
    assert kinds_of(workload) == {"insert", "rollback", "expire-snapshots"}
