"""A night replays and shrinks what it finds: within its budget, once for each anomaly of a catalog, and never at the night's expense."""

from __future__ import annotations

import _thread
import contextlib
import json
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from checkers.judge import known
from checkers.nights import finds
from checkers.nights.finds import Find, due
from checkers.nights.night import Night
from checkers.nights.record import NightRun
from harness.cli.experiments import ProveOptions
from harness.cli.run import RunOptions
from harness.cli.shrink import ShrinkOptions
from harness.cli.soak import after_shrink, repeating
from harness.experiments.shrink.trials import CandidateRun
from harness.experiments.soak import Soak
from harness.experiments.soakfinds import Job, in_night
from harness.run.recorded import recordable
from harness.run.resolve import read_scenario, read_suite
from reports.drawing.render import html, junit
from reports.shrunk import PAGE as SHRUNK
from reports.soak import page
from reports.soak.words import find_of
from tests.harness.experiments.shrink.byrule import ByRule, needs_both
from tests.harness.experiments.shrink.failedrun import failed_run
from tests.support.soaks import QUICKLY, Heard, Recorded, soak, suite_file
from workloads.file import scenario
from workloads.file.recording import Recording
from workloads.file.repeated import repeated, stride_of
from workloads.file.suite import Cell, Shrinking
from workloads.file.workload import WorkloadError
from workloads.file.yamlfile import HIDDEN, FileError
from workloads.tables import TableSpec

SUITE = """\
suite: finds
length: 1s
for: 1h
cells: {workloads: quick, catalogs: rest, faults: none, writers: 2}
free: 1MB
"""
LIMITS = Shrinking(budget=600, replays=2)
ENOUGH = 60.0


class Runner(ByRule):
    """A rule, and what happens before each run."""

    before: Callable[[int], object] = lambda n: None

    def replay(self, r: Recording) -> CandidateRun:
        type(self).before(self.runs)
        return super().replay(r)


@pytest.fixture(autouse=True)
def no_track_record(monkeypatch: pytest.MonkeyPatch) -> None:
    """A night finds nothing in an undelete that the library of scenarios knows; here nobody knows it."""
    monkeypatch.setattr(known, "_library", lambda _: {})


@pytest.fixture
def failing(tmp_path: Path) -> Path:
    """A recorded run with an undelete."""
    return failed_run(tmp_path / "recorded")


def night_of(
    failing: Path,
    into: Path,
    *,
    shows: Callable[[Recording], bool] = needs_both,
    before: Callable[[int, threading.Event], object] = lambda n, stop: None,
    act: Callable[[Cell, int, threading.Event], None] = lambda cell, number, stop: None,
    text: str = SUITE,
    runners: list[ByRule] | None = None,
    **more: Any,
) -> Soak:
    """A night each of whose runs is the recorded one."""

    def opened(job: Job, _stack: object, _watcher: object, _publish: object, stop: threading.Event) -> Any:
        kind = type("Ours", (Runner,), {"before": staticmethod(lambda n: before(n, stop))})
        runner = kind(job.into, failing, shows)
        if runners is not None:
            runners.append(runner)
        return contextlib.nullcontext(runner)

    file = suite_file(into.parent, text)
    whole = soak(file, into, Recorded(failing, act=act), **{"runs": 2, "shrink": LIMITS, **more})
    whole.open_runner = opened
    return whole


def went(failing: Path, into: Path, **more: Any) -> Night:
    with night_of(failing, into, **more) as whole:
        return whole.go()


def test_a_new_anomaly_is_replayed_and_shrunk_once_and_every_result_says_so(failing: Path, tmp_path: Path) -> None:
    into, told = tmp_path / "night", list[Find]()
    whole = night_of(failing, into)
    whole.find_finished = told.append
    with whole:
        night = whole.go()
    (found,) = night.finds
    assert told == [found] == finds.read(into)
    assert (found.anomaly, found.became, found.replays, found.reproduced) == ("undelete", "shrunk", "2 of 2", "3 of 3")
    assert (found.operations, found.writers, found.run) == (2, 2, night.lines[0].folder)
    made = scenario.load(into / str(found.scenario))
    assert sorted(o.do for o in made.operations) == ["delete", "update-register"]
    said = find_of(found)
    assert (
        "shows again in 2 of 2 replays; shrunk to 2 operations of 2 writers, reproduced 3 of 3: icequake prove /"
        in said
    )
    assert (suite := page.of(night, "again").suite) is not None and said in junit(suite)
    assert f"{found.folder}/{SHRUNK}" in html(page.of(night, "again"))
    assert json.loads(json.dumps(page.to_json(night)))["finds"][0]["scenario"] == found.scenario
    assert night.used >= found.used > 0


def test_a_find_is_shown_again_by_the_line_that_its_command_types(failing: Path, tmp_path: Path) -> None:
    into = tmp_path / "night"
    (found,) = went(failing, into, runs=1).finds
    assert found.command == ProveOptions(names=[str(into / str(found.scenario))], iceberg="1.12.0").again()
    line = NightRun(found.cell, 1, found.seed, "t", "invalid", folder=found.run)
    own = tmp_path / "own"
    job = Job(into, line, found.anomaly, "rest", 60, 2, after_shrink(own))
    shrinks = ShrinkOptions(
        run=into / found.run, anomaly="undelete", catalog="rest", store=own, into=into / str(found.folder)
    ).again()
    assert job.about()["run"] == found.run == str(in_night(into / found.run, into / str(found.folder)))
    assert in_night(into / found.run, own / "shrink/1") == into / found.run, "a shrink elsewhere names the whole path"
    assert job.commands.shrink(job) == shrinks and " --anomaly undelete --catalog rest" in shrinks
    recording = into / "recording.yaml"
    replay = RunOptions(workload="quick", catalog="rest", iceberg="1.12.0", order=f"replay {recording}", store=own)
    assert job.commands.replay(job, recording) == replay.again()
    proves = job.commands.prove(job, into / "scenario.yaml")
    assert all(f"--store {own}" in command for command in (shrinks, replay.again(), proves))


def test_by_number_all_runs_come_first_and_by_time_what_is_new_is_shrunk_at_once(failing: Path, tmp_path: Path) -> None:
    for name, more, runs in (("number", {"runs": 3}, 3), ("time", {"runs": 3, "lasts": 3600.0}, 1)):
        into, made = tmp_path / name, set[int]()

        def before(n: int, stop: threading.Event, into: Path = into, made: set[int] = made) -> None:
            made.add(len((into / "runs.jsonl").read_text().splitlines()) - 1)

        (found,) = went(failing, into, before=before, **more).finds
        assert made == {runs} and found.became == "shrunk"


def test_what_cannot_be_shrunk_is_tried_with_another_run_and_then_no_more(failing: Path, tmp_path: Path) -> None:
    night = went(failing, tmp_path / "night", shows=lambda r: False, runs=4)
    assert [f.became for f in night.finds] == ["not shown"] * finds.MOST_SHRUNK and len(night.lines) == 4
    assert len({f.run for f in night.finds}) == finds.MOST_SHRUNK
    assert night.finds[0].replays == "0 of 2"
    assert "shows again in 0 of 2 replays; not shrunk: nothing showed it again" in find_of(night.finds[0])
    assert night.verdict is False


def test_a_find_with_a_hidden_property_is_not_replayed_without_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing = failed_run(tmp_path / "recorded", catalog_properties={"token": HIDDEN})
    (found,) = went(failing, tmp_path / "night", runs=1).finds
    assert (found.became, found.replays) == ("failed", None)
    assert (
        "token is a secret that was not stored; set the environment variable ICEQUAKE_CATALOG_TOKEN to" in found.reason
    )
    monkeypatch.setenv("ICEQUAKE_CATALOG_TOKEN", "eyJhbGciOi")
    (found,) = went(failing, tmp_path / "other", runs=1).finds
    assert (found.became, found.replays) == ("shrunk", "2 of 2")
    texts = [
        p.read_text() for p in (tmp_path / "other").rglob("*.*") if p.suffix in (".json", ".jsonl", ".yaml", ".html")
    ]
    assert not any("eyJhbGciOi" in text for text in texts)
    with pytest.raises(
        FileError, match="token: ‹hidden› stands for a secret that was not stored; put the secret there"
    ):
        scenario.load(tmp_path / "other" / str(found.scenario))


def test_without_shrink_nothing_is_shrunk_and_nothing_recorded(failing: Path, tmp_path: Path) -> None:
    assert went(failing, tmp_path / "night", shrink=None).finds == ()
    assert not (tmp_path / "night" / finds.FILE).exists()


def test_an_interrupted_shrink_goes_on_by_the_same_command(failing: Path, tmp_path: Path) -> None:
    straight: list[ByRule] = []
    expected = went(failing, tmp_path / "straight", runners=straight, runs=1).finds[0]
    into, runners = tmp_path / "night", list[ByRule]()

    def interrupts(n: int, stop: threading.Event) -> None:
        if n == 3 and len(runners) == 1:
            _thread.interrupt_main()
            assert stop.wait(ENOUGH)

    with pytest.raises(KeyboardInterrupt):
        went(failing, into, before=interrupts, runners=runners, runs=1)
    (stopped,) = finds.read(into)
    assert (stopped.became, stopped.operations, stopped.reproduced, stopped.tries) == ("stopped", 2, None, 3)
    said = find_of(stopped)
    assert (
        "stopped after 3 runs of it and of parts of it; smallest so far 2 operations of 2 writers: icequake prove"
        in said
    )
    assert "; go on with: icequake shrink" in said
    assert sorted(o.do for o in scenario.load(into / str(stopped.scenario)).operations) == ["delete", "update-register"]
    night = went(failing, into, runners=runners, runs=1)
    (found,) = night.finds
    same = replace(found, seconds=0, used=0, run="", folder="", scenario="", recording="", command="")
    assert same == replace(expected, seconds=0, used=0, run="", folder="", scenario="", recording="", command="")
    assert sum(r.runs for r in runners) == straight[0].runs + 1, "only the run that was cut short is made again"
    assert went(failing, into, runners=runners, runs=1).finds == (found,) and len(runners) == 2


def test_a_budget_that_is_spent_is_said_and_keeps_the_smallest_so_far(failing: Path, tmp_path: Path) -> None:
    now = [0.0]

    def takes_long(n: int, stop: threading.Event) -> None:
        now[0] += 10

    limits = Shrinking(budget=25, each=25, replays=5)
    night = went(failing, tmp_path / "night", before=takes_long, clock=lambda: now[0], shrink=limits, lasts=1000.0)
    (found,) = night.finds
    assert (found.replays, found.became, found.operations) == ("1 of 1", "shrunk", 2) and found.seconds >= 20
    assert found.reason == "the budget ended before it was seen whether more can be taken away"
    limits = Shrinking(budget=15, each=15, replays=5)
    more: dict[str, Any] = {"shrink": limits, "lasts": 1000.0, "runs": 3, "shows": lambda r: False}
    later = went(failing, tmp_path / "later", before=takes_long, clock=lambda: now[0], **more)
    assert [f.became for f in later.finds] == ["spent", "spent"], later.finds
    assert later.finds[1].reason == "the budget of shrink is spent"
    assert "not shrunk: the budget of shrink is spent" in find_of(later.finds[1])


def test_a_shrink_ends_with_the_night_and_goes_on_if_the_night_does(failing: Path, tmp_path: Path) -> None:
    heard, into = Heard(), tmp_path / "night"
    now = [0.0]

    def act(cell: Cell, number: int, stop: threading.Event) -> None:
        now[0] = 99.0

    night = went(failing, into, act=act, clock=lambda: now[0], lasts=100.0, runs=1, heard=heard)
    assert night.finds == () and any("no time is left to shrink undelete" in t for t in heard.said)
    now[0] = 0.0

    def ends(n: int, stop: threading.Event) -> None:
        now[0] += 200

    more: dict[str, Any] = {"clock": lambda: now[0], "runs": 1, "heard": heard}
    (stopped,) = went(failing, into, before=ends, lasts=150.0, **more).finds
    assert (stopped.became, stopped.operations) == ("stopped", 0)
    assert went(failing, into, runs=1, lasts=1000.0).finds[0].became == "shrunk", "the night ended it, not its budget"


def test_a_run_without_a_proxy_log_says_that_it_cannot_be_replayed(failing: Path, tmp_path: Path) -> None:
    (failing / "proxy.jsonl").unlink()
    night = went(failing, tmp_path / "night")
    assert night.finds[0].became == "failed"
    assert night.finds[0].reason.startswith("it cannot be replayed: ") and "has no proxy log" in night.finds[0].reason
    assert len(night.lines) == 2


def test_a_shrink_that_does_not_end_loses_its_stack_and_not_the_night(failing: Path, tmp_path: Path) -> None:
    over = threading.Event()
    bounds = replace(QUICKLY, ending=0.1, killed=0.1)
    limits = Shrinking(budget=6, each=6, replays=1)
    try:
        night = went(
            failing, tmp_path / "night", before=lambda n, stop: over.wait(ENOUGH), bounds=bounds, shrink=limits
        )
    finally:
        over.set()
    assert night.finds[0].became == "failed" and "its stack was killed" in night.finds[0].reason
    assert len(night.lines) == 2


def test_a_bug_in_a_shrink_is_a_line_and_not_the_end_of_the_night(failing: Path, tmp_path: Path) -> None:
    def bug(r: Recording) -> bool:
        raise ZeroDivisionError("a bug")

    night = went(failing, tmp_path / "night", shows=bug)
    assert [f.reason for f in night.finds] == ["ZeroDivisionError: a bug"] * 2 and len(night.lines) == 2


def test_of_a_shrink_the_runs_go_before_the_runs_that_found_something(failing: Path, tmp_path: Path) -> None:
    into = tmp_path / "night"
    night = went(failing, into, runs=1)
    runs = into / str(night.finds[0].folder) / "runs"
    assert runs.is_dir()
    whole = night_of(failing, into, runs=1, keep=1)
    with whole:
        assert whole.go().stopped is None or not runs.is_dir()
        removable = [k.path for k in sorted(whole.room.removable(), key=lambda k: k.rank)]
    assert not runs.is_dir() or removable[0] == runs


def test_a_torn_line_of_the_finds_is_cut_off_and_a_key_that_is_not_known_stays(failing: Path, tmp_path: Path) -> None:
    into = tmp_path / "night"
    night = went(failing, into, runs=1)
    path = into / finds.FILE
    newer = json.dumps({**json.loads(path.read_text()), "colour": "red"}) + "\n"
    path.write_text(newer + '{"torn')
    assert went(failing, into, runs=1).finds == night.finds
    assert path.read_text() == newer


def test_the_runs_of_a_find_whose_run_has_no_line_can_make_room(failing: Path, tmp_path: Path) -> None:
    into = tmp_path / "night"
    night = went(failing, into, runs=1)
    (into / "runs.jsonl").write_text((into / "runs.jsonl").read_text().split("\n")[0] + "\n")
    with night_of(failing, into, runs=1, keep=1) as whole:
        assert into / str(night.finds[0].folder) / "runs" in [k.path for k in whole.room.removable()]


LINE = NightRun(Cell("w", "rest", "none", "1.12.0", ""), 0, 1, "t", "invalid", folder="runs/w/1")


@pytest.mark.parametrize(
    ("earlier", "expected"),
    [
        ([], ["a", "b"]),
        ([("a", "shrunk", "rest", ())], ["b"]),
        ([("a", "shrunk", "rest", ("b",))], []),
        ([("a", "shrunk", "jdbc", ())], ["a", "b"]),
        ([("a", "not shown", "rest", ())], ["a", "b"]),
        ([("a", "not shown", "rest", ()), ("a", "failed", "rest", ())], ["b"]),
    ],
)
def test_which_anomalies_are_shrunk(earlier: list[tuple[Any, ...]], expected: list[str]) -> None:
    there = [
        Find(replace(LINE.cell, catalog=catalog), 1, f"runs/w/{9 + n}", name, became, also)
        for n, (name, became, catalog, also) in enumerate(earlier)
    ]
    assert due(LINE, ["a", "b"], there) == expected


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("maybe", "must be true, false, or"),
        ("3", "must be true, false, or"),
        ("{budget: 5}", "has no unit of time; write 5s"),
        ("{budget: 5m, each: 6m}", "each: 360s is more than the budget of the night, 300s"),
        ("{replays: -1}", "must be at least 0"),
        ("{tries: 3}", "tries"),
    ],
)
def test_a_wrong_value_of_shrink_is_said_with_its_line(tmp_path: Path, value: str, says: str) -> None:
    with pytest.raises(WorkloadError) as e:
        suite_file(tmp_path, f"{SUITE}shrink: {value}\n")
    assert "tiny.yaml:6" in str(e.value) and says in str(e.value), str(e.value)


def test_shrink_is_on_unless_the_file_says_otherwise(tmp_path: Path) -> None:
    assert suite_file(tmp_path, SUITE).suite.shrink == Shrinking()
    assert suite_file(tmp_path, f"{SUITE}shrink: true\n").suite.shrink == Shrinking()
    assert suite_file(tmp_path, f"{SUITE}shrink: false\n").suite.shrink is None
    some = suite_file(tmp_path, SUITE + "shrink: {budget: 2m, replays: 0}\n").suite.shrink
    assert some is not None and (some.longest, some.replays) == (120, 0)


def test_runs_record_their_order_if_they_may_have_to_be_replayed(tmp_path: Path) -> None:
    file = suite_file(tmp_path, SUITE.replace("faults: none", "faults: [none, lost-acks], order: [free, priority(3)]"))
    for cell in file.cells:
        assert recordable(file.workloads[cell]).order == cell.order
    file = suite_file(tmp_path, SUITE)
    (cell,) = file.cells
    assert recordable(file.workloads[cell]).order == "free"
    assert repeating(file, records=True)(cell, 7).endswith(" --order free") and "--order" not in repeating(file)(
        cell, 7
    )


# --- own catalogs, repetitions ---------------------------------------------------------------------------------------


def test_a_suite_and_a_scenario_name_a_catalog_of_the_users_own(failing: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("name: mine\nspark: {type: rest, uri: 'http://127.0.0.1:1'}\n")
    text = SUITE.replace("catalogs: rest", "catalogs: [rest, mine.yaml]")
    file = suite_file(tmp_path, text)
    own = next(c for c in file.cells if c.catalog == "mine.yaml")
    assert file.workloads[own].catalog == file.catalog_of(own) == str(tmp_path / "mine.yaml")
    assert f"--catalog {tmp_path / 'mine.yaml'} " in repeating(file)(own, 1)
    (tmp_path / "s.yaml").write_text(
        "scenario: s\ndescription: d\nlink: https://example.org\naffected: all\ncatalog: mine.yaml\n"
        "tables: [{name: t}]\noperations: [{name: i, writer: 0, do: insert, value: {ids: [1]}}]\nfinal: {t: [1]}\n"
    )
    assert read_scenario(tmp_path / "s.yaml").catalog == str(tmp_path / "mine.yaml")
    (tmp_path / "mine.yaml").unlink()
    with pytest.raises(WorkloadError, match=r"s\.yaml:5: catalog: .*mine\.yaml does not exist"):
        read_scenario(tmp_path / "s.yaml")
    with pytest.raises(WorkloadError, match=r"tiny\.yaml:4: catalogs: .*mine\.yaml does not exist"):
        read_suite(tmp_path / "tiny.yaml")


def test_repetitions_name_other_rows_each_time() -> None:
    table = TableSpec(name="t", seed_rows=4)
    values = [{"ids": [3, 10]}, {"ids": [12]}]
    stride = stride_of(values, table)
    seen = [i for n in range(5) for v in values for i in repeated(v, n, table, stride)["ids"] if i >= 4]
    assert len(seen) == len({*seen}) == 10
    assert [repeated({"ids": [3]}, n, table, stride)["ids"] for n in range(3)] == [[3], [0], [1]]


@pytest.mark.parametrize(("key", "value"), [("after", "{b: completed}"), ("hold", "{b: completed}"), ("kill", "true")])
def test_what_is_repeated_waits_for_nothing(key: str, value: str) -> None:
    text = (
        "scenario: s\ndescription: d\nlink: https://example.org\naffected: all\ntables: [{name: t}]\nrepeat: 3\n"
        f"operations: [{{name: a, writer: 0, do: insert, value: {{ids: [1]}}, {key}: {value}}},\n"
        "  {name: b, writer: 1, do: insert, value: {ids: [2]}}]\nfinal: {t: unchecked}\n"
    )
    with pytest.raises(WorkloadError, match=f"<scenario>:7: {key}: does not go with repeat"):
        scenario.parse(text)
