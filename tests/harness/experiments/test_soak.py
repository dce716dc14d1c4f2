"""A night: what is kept, how it goes on after it was killed, what stops it, and that nothing that goes wrong in a run ends it."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
import time
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

import harness.experiments.soak
from checkers.columns import dataset as columns
from checkers.columns.cluster import check_frames
from checkers.coverage.ledger import FILE as COVERAGE
from checkers.coverage.ledger import Ledger
from checkers.evidence import runfolder
from checkers.evidence.history import HistoryError
from checkers.evidence.replace import replace
from checkers.evidence.runfolder import RunFolder
from checkers.lake.rows import night_of
from checkers.nights import finds, record
from checkers.nights.night import Night
from checkers.nights.record import NightError, NightRun
from checkers.selftest import recorded
from harness.campaign.stacks import STACK_RUNS
from harness.experiments import soakfolder
from harness.experiments.soak import Soak
from harness.experiments.soakexecution import MOST_LEFT
from harness.experiments.soakfolder import (
    COLUMNS,
    KNOWN,
    LOGS_FOLDER,
    NEW,
    RUNS_FOLDER,
    WITHOUT_VERDICT,
    Removable,
    firsts,
    surplus,
)
from harness.experiments.soakorder import seed_of
from harness.lake.folders import folders_in
from harness.run.errors import RunError
from harness.run.judged import JudgedRun, Publish
from harness.run.settings import Watcher
from tests.support.files import disk_of, fill
from tests.support.planted import forms_in, planted
from tests.support.runs import ROOT, environment
from tests.support.soaks import QUICKLY, SUITE, Heard, OnRecorded, Recorded, judged_once, put, soak, suite_file
from workloads.file.suite import Cell
from workloads.file.workload import LIBRARY

ENOUGH = 120.0
"""Seconds after which a test gives up on what never comes."""


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The smallest recorded run; it is valid."""
    folder = tmp_path_factory.mktemp("recorded")
    with zipfile.ZipFile(Path(recorded.__file__).with_name("recorded") / "quick-120.zip") as z:
        z.extractall(folder)
    return folder


SMALL = SUITE.replace("[contention, quick]", "[quick]")
"""Four cells on two stacks."""


def went(into: Path, stacks: Recorded, runs: int, heard: Heard | None = None, text: str = SMALL, **more: Any) -> Night:
    with soak(suite_file(into.parent, text), into, stacks, runs=runs, heard=heard, **more) as whole:
        return whole.go()


def of(told: list[str], what: str) -> list[str]:
    return [t.removeprefix(f"{what} ") for t in told if t.startswith(f"{what} ")]


def folders(into: Path) -> list[RunFolder]:
    return runfolder.runs(into / RUNS_FOLDER)


# --- what a night does ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("began", "night"),
    [
        ("2026-11-28T01:17:00.000+00:00", "2026-11-27"),
        ("2026-11-28T11:59:59.999+00:00", "2026-11-27"),
        ("2026-11-28T12:01:00.000+00:00", "2026-11-28"),
        ("2026-11-28T22:00:00.000+00:00", "2026-11-28"),
    ],
)
def test_a_night_has_the_date_that_the_lake_gives_it(
    good: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, began: str, night: str
) -> None:
    monkeypatch.setattr(harness.experiments.soak, "now", lambda: began)
    stacks = Recorded(good)
    went(tmp_path / "night", stacks, 1)
    assert stacks.nights == [night] == [str(night_of(datetime.fromisoformat(began)))]


def test_a_night_that_is_continued_after_noon_keeps_its_date(
    good: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stacks = Recorded(good)
    for runs, moment in ((1, "2026-11-28T01:17:00.000+00:00"), (2, "2026-11-28T14:00:00.000+00:00")):
        monkeypatch.setattr(harness.experiments.soak, "now", lambda moment=moment: moment)
        went(tmp_path / "night", stacks, runs)
    assert stacks.nights == ["2026-11-27"] * 2


def test_every_cell_has_its_turn_each_stack_is_started_once_and_nothing_stays_up(good: Path, tmp_path: Path) -> None:
    stacks, heard, said = Recorded(good), Heard(), list[NightRun]()
    night = went(tmp_path / "night", stacks, 8, heard, SUITE, said=said.append)
    assert {*of(stacks.told, "run")} == {f"{c.name} 0" for c in night.cells} and len(night.cells) == 8
    assert len(of(stacks.told, "start")) == 2 == len(of(stacks.told, "close")) and stacks.up == 0
    assert (night.verdict, night.code) == (True, 0) and [x.ended for x in said] == ["valid"] * 8
    assert len({x.seed for x in night.lines}) == 8
    assert any(t.startswith("8/8 ") for t in heard.said)


def test_a_valid_run_leaves_its_line_and_its_columns_and_a_failing_one_its_folder(good: Path, tmp_path: Path) -> None:
    def wrong(cell: Cell, number: int) -> bool:
        return (cell.workload, cell.catalog, cell.faults) == ("quick", "rest", "lost-acks")

    into = tmp_path / "night"
    night = went(into, Recorded(good, wrong), 4, whole_page=True)
    (failed,) = [x for x in night.lines if x.ended == "invalid"]
    assert failed.anomalies == {"fractured-read": 1} and night.code == 1 and night.showed(failed) == "new"
    assert [f.path for f in folders(into)] == [into / str(failed.folder)]
    assert (
        "fractured-read" in (into / str(failed.folder) / "report.html").read_text()
        and (into / str(failed.stack) / "server.log").exists()
    )
    (kind,) = failed.happened
    assert (kind.name, kind.counts) == ("fractured-read", {"fractured-read": 1}) and "fractured-read" in kind.names
    assert (
        kind.who.startswith("Spark ")
        and kind.remedy
        and kind.link is None
        and kind.steps.endswith(".")
        and kind.by == "Spark"
    )
    assert "is most like it" in kind.unlike or "no scenario of the library has this" in kind.unlike
    assert f'id="anomaly-{kind.card}"' in (into / str(failed.folder) / "report.html").read_text()
    assert all(x.versions["spark"] and x.versions["iceberg"] for x in night.lines)
    valid = [x for x in night.lines if x.ended == "valid"]
    kept = sorted(p.name for p in (into / "columns").iterdir())
    assert kept == sorted(Path(str(x.folder)).name for x in valid)
    dataset = into / "columns" / kept[0]
    judged = check_frames([*columns.each(dataset)])
    assert judged and all(v.valid is True for found in judged.values() for v in found)
    line = valid[0]
    assert line.operations > 50 and line.commits > 20 and line.seconds > 1 and line.rss > 10**7 and line.disk > 10**4
    assert line.throughput and line.retries is not None and line.took > 0 and line.peak_memory > 0
    assert line.untested == ("delete-where (1), update-append-where (1) never succeeded, so nothing is known of them",)
    assert line.command and f"--seed {line.seed} " in line.command and f"--catalog {line.cell.catalog} " in line.command
    assert record.read(into)[1] == list(night.lines)
    with Ledger(into / COVERAGE) as book:
        runs = book.runs
    assert runs == {"/".join(str(x.folder).split("/")[-2:]) for x in night.lines}


def test_no_link_leads_to_a_run_that_was_removed(tmp_path: Path) -> None:
    store = tmp_path / "runs"
    first, second, other = (runfolder.create(store, name) for name in ("quick", "quick", "mixed"))
    for run in (first, second, other):
        (run.path / "history.jsonl").touch()
    latest, of_quick, of_mixed = store / "latest", store / "quick" / "latest", store / "mixed" / "latest"
    soakfolder.remove(other.path)
    assert latest.resolve() == second.path and of_quick.resolve() == second.path and not of_mixed.is_symlink()
    soakfolder.remove(second.path)
    assert latest.resolve() == of_quick.resolve() == first.path
    store.rename(tmp_path / "moved")
    assert (tmp_path / "moved" / "latest" / "history.jsonl").exists(), "they are relative"
    soakfolder.remove(tmp_path / "moved" / "quick" / first.path.name)
    assert not [p for p in (tmp_path / "moved").rglob("latest") if p.is_symlink()]


def test_the_command_of_a_run_names_everything_that_its_cell_is(tmp_path: Path, good: Path) -> None:
    text = SUITE.replace("[2]", "[2, {spark: 2, duckdb: 1}]").replace(
        "[none, lost-acks]", "[none, own, lost-acks+crashes]"
    )
    file = suite_file(tmp_path, text)
    whole = soak(file, tmp_path / "night", Recorded(good))
    commands = {whole.order.command(c, 7).partition("run ")[2] for c in file.cells if c.stack[0] == "rest"}
    assert "contention --seed 7 --writers 2 --time 1s --catalog rest --iceberg 1.12.0 --no-nemesis" in commands
    assert "quick --seed 7 --writers spark=2,duckdb=1 --time 1s --catalog rest --iceberg 1.12.0" in commands
    assert "quick --seed 7 --writers 2 --time 1s --catalog rest --iceberg 1.12.0 --faults lost-acks,crashes" in commands


def test_a_known_anomaly_does_not_fail_the_night_and_a_new_one_beside_it_does(good: Path, tmp_path: Path) -> None:
    text = SMALL.replace("anomaly: lost-commit, catalog: jdbc", "anomaly: reads/fractured-read, catalog: jdbc")
    file = suite_file(tmp_path, text)
    with soak(file, tmp_path / "a", Recorded(good, lambda c, n: c.catalog == "jdbc"), runs=4) as whole:
        known = whole.go()
    assert Counter(map(known.showed, known.lines)) == {"known": 2, "valid": 2}
    assert (known.verdict, known.code, known.missing) == (True, 0, ()) and len(folders(tmp_path / "a")) == 2
    with soak(file, tmp_path / "b", Recorded(good, lambda c, n: True), runs=4) as whole:
        new = whole.go()
    assert Counter(map(new.showed, new.lines)) == {"known": 2, "new": 2} and new.code == 1


def test_a_known_anomaly_that_no_longer_shows_is_missed_after_enough_runs_of_its_cells(
    good: Path, tmp_path: Path
) -> None:
    night = went(tmp_path / "night", Recorded(good), 8)
    (missing,) = night.missing
    assert missing.known.name == "lost-commit" and missing.runs == 4
    assert went(tmp_path / "short", Recorded(good), 4).missing == ()


def test_a_stack_that_does_not_come_up_costs_its_cells_only(good: Path, tmp_path: Path) -> None:
    stacks = Recorded(good, down={("jdbc", "1.12.0"): 99})
    night = went(tmp_path / "night", stacks, 8)
    assert len(of(stacks.told, "start")) >= 4 and of(stacks.told, "start").count("jdbc/1.12.0 2") == 3
    errors = [x for x in night.lines if x.ended == "error"]
    assert len(errors) == 3 and all("does not answer" in str(x.reason) and x.number is None for x in errors)
    assert "given up after 3 times" in str(errors[-1].reason) and {*night.given_up} == {("jdbc", "1.12.0")}
    assert len(night.runs) == 8 and {x.cell.catalog for x in night.runs} == {"rest"} and night.code == 255


def test_a_stack_that_comes_up_at_the_second_try_loses_no_run(good: Path, tmp_path: Path) -> None:
    stacks = Recorded(good, down={("jdbc", "1.12.0"): 1})
    night = went(tmp_path / "night", stacks, 8)
    assert Counter(x.cell for x in night.runs) == Counter(dict.fromkeys(night.cells, 2))
    assert night.given_up == {} and night.code == 2, "an error leaves the night undecided"


def test_without_any_stack_the_night_ends_and_says_so(good: Path, tmp_path: Path) -> None:
    stacks = Recorded(good, down={("jdbc", "1.12.0"): 99, ("rest", "1.12.0"): 99})
    night = went(tmp_path / "night", stacks, 16)
    assert night.stopped == "no catalog's stack comes up" and night.code == 255 and len(night.lines) == 6


def test_whatever_a_run_raises_the_night_goes_on(good: Path, tmp_path: Path) -> None:
    errors: dict[int, BaseException] = {
        0: RunError("table t could not be filled"),
        1: HistoryError("torn"),
        2: ZeroDivisionError("a bug"),
        3: SystemExit("exit"),
        4: asyncio.CancelledError("cancelled"),
        5: BaseExceptionGroup("several", [GeneratorExit("closed")]),
    }

    def act(cell: Cell, number: int, stop: threading.Event) -> None:
        if cell.faults == "none" and number in errors:
            raise errors[number]

    stacks = Recorded(good, act=act)
    night = went(tmp_path / "night", stacks, 24)
    wrong = [x for x in night.lines if x.ended == "error"]
    assert len(wrong) == 12 and len(night.runs) == 24 and night.code == 2
    assert {x.reason for x in wrong} == {
        "table t could not be filled",
        "torn",
        "ZeroDivisionError: a bug",
        "SystemExit: exit",
        "CancelledError: cancelled",
        "BaseExceptionGroup: several (1 sub-exception)",
    }
    assert {x.ended for x in night.lines if x not in wrong} == {"valid"}
    bug = next(x for x in wrong if "bug" in str(x.reason))
    details = tmp_path / "night" / str(bug.folder) / "logs" / "harness-error.log"
    assert "raise errors[number]" in details.read_text()
    assert stacks.up == 0 and len(of(stacks.told, "start")) > 4, "after an error of the harness a new stack is started"


def test_a_run_that_does_not_end_is_stopped_and_the_night_goes_on(good: Path, tmp_path: Path) -> None:
    def act(cell: Cell, number: int, stop: threading.Event) -> None:
        if (cell.name, number) == ("quick/rest/none/1.12.0/2", 0):
            assert stop.wait(ENOUGH)

    heard = Heard()
    text = SUITE.replace("workloads: [contention, quick]", f"workloads: [{tmp_path / 'quick.yaml'}]")
    (tmp_path / "quick.yaml").write_text((ROOT / "workloads" / "quick.yaml").read_text() + "op_timeout: 1s\n")
    file = suite_file(tmp_path, text)
    with soak(
        file, tmp_path / "night", Recorded(good, act=act), runs=4, heard=heard, bounds=replace(QUICKLY, around=1)
    ) as s:
        night = s.go()
    (late,) = [x for x in night.lines if x.ended == "error"]
    assert late.reason == "it did not end within 3 s and was stopped" and len(night.runs) == 4
    assert f"{late.cell.name}: {late.reason}" in heard.said


def test_a_run_that_ends_in_no_way_loses_its_stack_and_is_left_alone_and_a_few_of_them_end_the_night(
    good: Path, tmp_path: Path
) -> None:
    over = threading.Event()

    def act(cell: Cell, number: int, stop: threading.Event) -> None:
        if cell.workload == "quick":
            assert over.wait(ENOUGH)

    (tmp_path / "quick.yaml").write_text((ROOT / "workloads" / "quick.yaml").read_text() + "op_timeout: 1s\n")
    text = SUITE.replace("workloads: [contention, quick]", f"workloads: [contention, {tmp_path / 'quick.yaml'}]")
    bounds = replace(QUICKLY, around=1, ending=0.2, killed=0.2)
    stacks = Recorded(good, act=act)
    try:
        with soak(suite_file(tmp_path, text), tmp_path / "night", stacks, runs=80, bounds=bounds) as whole:
            night = whole.go()
        left = [x for x in night.lines if x.ended == "error"]
        assert len(left) == MOST_LEFT and all(
            "its stack was killed; what is left of it was left alone" in str(x.reason) for x in left
        )
        assert night.stopped == f"{MOST_LEFT} runs did not end in any way" and night.code == 255 and stacks.up == 0
    finally:
        over.set()


def test_the_first_new_anomaly_ends_the_night_if_the_suite_says_so(good: Path, tmp_path: Path) -> None:
    stacks = Recorded(good, lambda c, n: n == 1)
    night = went(tmp_path / "night", stacks, 80, stop_on_anomaly=True)
    assert len(night.runs) == 5 and night.lines[-1].ended == "invalid" and night.code == 1


def test_a_stack_is_started_anew_after_many_runs(good: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert STACK_RUNS >= 20
    monkeypatch.setattr("harness.experiments.soakexecution.STACK_RUNS", 3)
    text = SUITE.replace("[rest, jdbc]", "[rest]").replace(", catalog: jdbc", "")
    stacks = Recorded(good)
    with soak(suite_file(tmp_path, text), tmp_path / "night", stacks, runs=7) as whole:
        whole.go()
    assert [t.split()[0] for t in stacks.told].count("start") == 3 and stacks.up == 0


def test_a_stack_whose_processes_were_struck_is_not_used_again(good: Path, tmp_path: Path) -> None:
    text = SMALL.replace("[rest, jdbc]", "[rest]").replace(", catalog: jdbc", "")
    text = text.replace("[none, lost-acks]", "[none, crashes, lost-acks+crashes]")
    stacks = Recorded(good)
    went(tmp_path / "night", stacks, 6, text=text)
    after = [
        stacks.told[n + 1].split()[0] for n, t in enumerate(stacks.told) if t.startswith("run ") and "crashes" in t
    ]
    assert after == ["close"] * 4 and stacks.up == 0
    assert len(of(stacks.told, "start")) in (4, 5), "the two others share one where they follow each other"


KEY = "wJalrXUtn/K7MD+bPxRfi@CY:EX%AMPLE=="


@dataclass
class Talkative(Recorded):
    """Stacks whose servers write a secret into their logs in forty ways."""

    def start(self, stack: tuple[str, ...], writers: int, logs: Path, watcher: Watcher) -> OnRecorded:
        for n, (_, text) in enumerate(planted(KEY)):
            (logs / f"{n}.log").write_text(text)
        return super().start(stack, writers, logs, watcher)


def test_the_logs_of_a_night_s_stacks_have_a_workload_s_secret_in_none_of_forty_places(
    good: Path, tmp_path: Path
) -> None:
    spec = yaml.safe_load((LIBRARY / "quick.yaml").read_text())
    (tmp_path / "quick.yaml").write_text(yaml.safe_dump({**spec, "catalog_properties": {"s3.secret-access-key": KEY}}))
    text = SUITE.replace("workloads: [contention, quick]", f"workloads: [{tmp_path / 'quick.yaml'}]")
    night = went(tmp_path / "night", Talkative(good, lambda cell, number: True), 2, text=text)
    assert {x.ended for x in night.lines} == {"invalid"}
    logs = [*(tmp_path / "night" / LOGS_FOLDER).rglob("*.log")]
    assert len(logs) >= 40 and not forms_in(KEY, b"".join(p.read_bytes() for p in logs))
    assert not forms_in(KEY, (tmp_path / "night" / record.RUNS).read_bytes())


# --- time -------------------------------------------------------------------------------------------------------------


class Clock:
    """A clock that goes on by so many seconds with each run."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def act(self, cell: Cell, number: int, stop: threading.Event) -> None:
        self.now += 10


def test_no_run_begins_that_cannot_end_in_time_and_the_time_of_earlier_sessions_counts(
    good: Path, tmp_path: Path
) -> None:
    clock = Clock()
    stacks = Recorded(good, act=clock.act)
    file = suite_file(tmp_path)
    with soak(file, tmp_path / "night", stacks, lasts=45, clock=clock) as whole:
        night = whole.go()
    assert len(night.runs) == 5 and night.used == 50  # the fifth began at 40 s
    later = Clock()
    later.now = 1000.0
    stacks.act = later.act
    with soak(file, tmp_path / "night", stacks, lasts=75, clock=later) as whole:
        night = whole.go()
    assert len(night.runs) == 8 and night.used == 80


# --- killed -----------------------------------------------------------------------------------------------------------


def half(into: Path, good: Path, cell: Cell, number: int, state: str, *, dead: bool = True) -> RunFolder:
    """The folder of a run whose session was killed before its line was written."""
    folder = runfolder.create(into / RUNS_FOLDER, cell.workload)
    put(good, folder, cell, number, 5, "icequake run quick --seed 5", state)
    if dead:
        folder.write_state({**folder.state(), "pid": 2**22 + 1, "pid_started": 1.0})
    return folder


def test_a_torn_line_is_left_out_and_its_run_is_judged_again_from_its_folder(good: Path, tmp_path: Path) -> None:
    into = tmp_path / "night"
    first = went(into, Recorded(good, lambda c, n: c.faults == "none"), 3)
    path = into / record.RUNS
    failed = next(x for x in reversed(first.lines) if x.ended == "invalid")
    lines = path.read_text().splitlines()
    n = next(i for i, line in enumerate(lines) if f'"folder":"{failed.folder}"' in line)
    rest = [line for i, line in enumerate(lines) if i != n]
    path.write_text("\n".join(rest) + "\n" + lines[n][: len(lines[n]) // 2])
    stacks, heard = Recorded(good), Heard()
    night = went(into, stacks, 4, heard)
    again = [x for x in night.lines if x.folder == failed.folder]
    assert len(again) == 1 and again[0].ended == "invalid" and again[0].anomalies == failed.anomalies
    assert (again[0].seed, again[0].number, again[0].cell) == (failed.seed, failed.number, failed.cell)
    assert len(night.runs) == 4 and len(of(stacks.told, "run")) == 1
    assert Counter(x.cell for x in night.runs) == Counter(dict.fromkeys(night.cells, 1))
    assert path.read_text().startswith("\n".join(rest) + "\n"), "no line of the session before was rewritten"
    assert all(json.loads(line) for line in path.read_text().splitlines())
    assert any("the night goes on: 2 runs are there" in t for t in heard.said)


@pytest.mark.parametrize("broken", ['{"cell": 1}', "garbage"])
@pytest.mark.parametrize("file", [record.RUNS, record.SAMPLES, finds.FILE])
def test_a_line_that_cannot_be_read_ends_the_command_with_its_number_and_no_line_is_lost(
    good: Path, tmp_path: Path, file: str, broken: str
) -> None:
    into = tmp_path / "night"
    went(into, Recorded(good), 1)
    path = into / file
    lines = path.read_text().splitlines() if path.exists() else []
    path.write_text("\n".join([*lines, broken, *lines[1:]]) + "\n")
    before = path.read_bytes()
    with pytest.raises(NightError, match=rf"{file}:{len(lines) + 1}: not a "):
        went(into, Recorded(good), 2)
    assert path.read_bytes() == before


def test_a_line_of_a_newer_release_stays_as_it_is(good: Path, tmp_path: Path) -> None:
    into = tmp_path / "night"
    went(into, Recorded(good), 1)
    path = into / record.RUNS
    header, line = path.read_text().splitlines()
    newer = json.dumps({**json.loads(line), "colour": "red"})
    path.write_text(f"{header}\n{newer}\n")
    went(into, Recorded(good), 2)
    assert path.read_text().startswith(f"{header}\n{newer}\n") and len(path.read_text().splitlines()) == 3


def test_a_run_that_was_killed_is_removed_and_made_again_with_its_number_and_seed(good: Path, tmp_path: Path) -> None:
    into = tmp_path / "night"
    went(into, Recorded(good), 3)
    file = suite_file(tmp_path, SMALL)
    cell = next(c for c in file.cells if c not in {x.cell for x in record.read(into)[1]})
    folder = half(into, good, cell, 0, "running")
    early = runfolder.create(into / RUNS_FOLDER, "quick")  # killed before it wrote its plan
    night = went(into, Recorded(good), 4)
    (gone,) = [x for x in night.lines if x.ended == "incomplete"]
    assert gone.reason == "its session was stopped or killed" and not folder.path.exists() and not early.path.exists()
    (made,) = [x for x in night.runs if x.cell == cell]
    assert made.number == gone.number == 0 and made.ended == "valid" and len(night.runs) == 4
    assert night.showed(gone) == "error" and night.code == 0, "it was made again, so nothing is missing"


def test_a_run_that_was_killed_and_certainly_shows_an_anomaly_is_a_failure(good: Path, tmp_path: Path) -> None:
    from tests.support.soaks import spoil

    into = tmp_path / "night"
    went(into, Recorded(good), 3)
    file = suite_file(tmp_path, SMALL)
    cell = next(c for c in file.cells if c not in {x.cell for x in record.read(into)[1]})
    folder = half(into, good, cell, 0, "running")
    spoil(folder)
    night = went(into, Recorded(good), 4)
    (failed,) = [x for x in night.lines if x.ended == "invalid"]
    assert failed.cell == cell and folder.path.exists() and night.code == 1


def test_a_run_that_ended_before_its_session_was_killed_counts(good: Path, tmp_path: Path) -> None:
    into = tmp_path / "night"
    went(into, Recorded(good), 3)
    file = suite_file(tmp_path, SMALL)
    cell = next(c for c in file.cells if c not in {x.cell for x in record.read(into)[1]})
    folder = half(into, good, cell, 0, "complete")
    stacks = Recorded(good)
    night = went(into, stacks, 4)
    assert len(of(stacks.told, "run")) == 0 and len(night.runs) == 4 and not folder.path.exists()
    assert Counter(x.ended for x in night.lines) == {"valid": 4}


def test_a_run_of_the_session_before_that_cannot_be_judged_holds_nothing_up(good: Path, tmp_path: Path) -> None:
    """One that had ended stays for a look; one that had not is made again."""
    into = tmp_path / "night"
    went(into, Recorded(good), 2)
    file = suite_file(tmp_path, SMALL)
    first, second = [c for c in file.cells if c not in {x.cell for x in record.read(into)[1]}]
    ended, killed = half(into, good, first, 0, "complete"), half(into, good, second, 0, "running")
    over = threading.Event()

    def judge(folder: RunFolder, publish: Publish[object]) -> JudgedRun[object]:
        if folder.path in (ended.path, killed.path):
            over.wait(ENOUGH)
        return judged_once(folder, publish)

    whole = soak(file, into, Recorded(good), runs=4, bounds=replace(QUICKLY, judging=0.2))
    try:
        with replace(whole, judge=judge) as held:
            held._recover()
            found = {x.folder: x for x in held.night.lines}
    finally:
        over.set()
    one, other = (found[f"runs/quick/{f.path.name}"] for f in (ended, killed))
    assert (one.ended, other.ended) == ("error", "incomplete") and ended.path.exists() and not killed.path.exists()
    assert one.reason == other.reason == "it cannot be judged: not within 0 s"


def test_a_run_whose_plan_cannot_be_read_is_left_alone_if_it_recorded_anything(good: Path, tmp_path: Path) -> None:
    into, heard = tmp_path / "night", Heard()
    went(into, Recorded(good), 1)
    folder = half(into, good, suite_file(tmp_path, SMALL).cells[0], 0, "complete")
    folder.plan.write_text("tables: [")
    went(into, Recorded(good), 1, heard)
    assert folder.history.exists()
    assert [t for t in heard.said if t.startswith("left alone: ")] == [
        f"left alone: {folder.plan}:1: not YAML from here on"
    ]


def test_a_folder_that_should_have_been_removed_is_removed(good: Path, tmp_path: Path) -> None:
    into = tmp_path / "night"
    night = went(into, Recorded(good), 2)
    told = RunFolder(into / str(night.lines[0].folder))
    told.path.mkdir(parents=True)
    put(good, told, night.lines[0].cell, 0, 5, "icequake run quick", "complete")
    assert len(went(into, Recorded(good), 2).lines) == 2 and not told.path.exists()


def test_a_night_is_not_continued_as_another_one(good: Path, tmp_path: Path) -> None:
    into = tmp_path / "night"
    went(into, Recorded(good), 1)
    assert seed_of(into) == 1 and seed_of(tmp_path / "none") is None
    for change, said in (
        ({"seed": 2}, "another --seed"),
        ({"text": SMALL.replace("[rest, jdbc]", "[jdbc]")}, "another cells"),
        ({"text": SMALL.replace("length: 1s", "length: 2s")}, "another length"),
    ):
        file = suite_file(tmp_path, str(change.pop("text", SMALL)))
        whole = soak(file, into, Recorded(good), **change)
        with pytest.raises(NightError, match=said), whole:
            pass


def test_a_night_without_a_seed_is_said(tmp_path: Path) -> None:
    (tmp_path / record.RUNS).write_text(json.dumps({"format": 1}) + "\n")
    with pytest.raises(NightError, match=r"runs\.jsonl: its first line has no seed; give another --into"):
        seed_of(tmp_path)


@pytest.mark.parametrize("folder", ["runs/../../precious", "{}/precious", "precious", "../precious"])
def test_a_line_that_names_a_folder_outside_removes_nothing_there(good: Path, tmp_path: Path, folder: str) -> None:
    into, precious = tmp_path / "night", tmp_path / "precious"
    for place in (precious, into / "precious"):
        place.mkdir(parents=True)
        (place / "thesis").write_text("x" * 5000)
    file = suite_file(tmp_path, SMALL)
    with soak(file, into, Recorded(good), runs=2, keep=1) as whole:
        line = NightRun(file.cells[0], 0, 1, "2026-01-01", "error", folder=folder.format(tmp_path))
        whole._journal.append(line)
        whole.go()
    assert (precious / "thesis").exists() and (into / "precious" / "thesis").exists()


def test_two_soaks_do_not_write_into_one_folder(good: Path, tmp_path: Path) -> None:
    file = suite_file(tmp_path)
    with soak(file, tmp_path / "night", Recorded(good)):
        other = soak(file, tmp_path / "night", Recorded(good))
        with pytest.raises(NightError, match=r"process .* writes a soak here"), other:
            pass


# --- the command, stopped and killed ----------------------------------------------------------------------------------

COMMAND = """
import functools, sys, threading
from pathlib import Path
from harness.cli import app
from harness.experiments import soak as soaking
from tests.support.soaks import QUICKLY, Recorded, judged_once

waits = int(sys.argv.pop(1))

def act(cell, number, stop):
    global waits
    waits -= 1
    if waits == 0:
        print("waiting", flush=True)
        assert stop.wait(120)

stacks = Recorded(Path(sys.argv.pop(1)), lambda cell, number: cell.workload == "quick" and number == 0, act)
soaking.Soak = functools.partial(soaking.Soak, start=stacks.start, judge=judged_once, bounds=QUICKLY)
sys.argv[0] = "icequake"
app.main()
"""


Begun = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def begun(good: Path) -> Iterator[Begun]:
    """(number of runs after which one waits, words after ``icequake soak``) → the command, which goes on; it ends with the test."""
    processes: list[subprocess.Popen[str]] = []

    def begin(waits: int, *words: str | Path, home: Path | None = None) -> subprocess.Popen[str]:
        arguments = [sys.executable, "-c", COMMAND, str(waits), str(good), "soak", *map(str, words)]
        more = {"ICEQUAKE_COMMAND": "icequake", **({"ICEQUAKE_HOME": str(home)} if home else {})}
        process = subprocess.Popen(
            arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(**more), cwd=ROOT
        )
        processes.append(process)
        return process

    yield begin
    for process in processes:
        process.kill()
        process.communicate(timeout=ENOUGH)


@pytest.fixture
def command(tmp_path: Path) -> Iterator[tuple[Path, Path]]:
    """The suite's file and the night's folder."""
    suite_file(tmp_path)
    yield tmp_path / "tiny.yaml", tmp_path / "night"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=lambda n: n.name)
def test_a_soak_that_is_stopped_or_killed_loses_nothing_and_goes_on_by_the_command_that_it_printed(
    number: signal.Signals, begun: Begun, command: tuple[Path, Path]
) -> None:
    suite, into = command
    process = begun(6, suite, "--runs", "8", "--seed", "3", "--into", into, "--store", into.parent / "store")
    assert process.stdout is not None
    while "waiting" not in process.stdout.readline():
        assert process.poll() is None
    process.send_signal(number)
    _, said = process.communicate(timeout=ENOUGH)
    again = f"icequake soak {suite} --runs 8 --seed 3 --store {into.parent / 'store'} --into {into}"
    assert f"go on at any time with: {again}" in said
    if number == signal.SIGTERM:
        assert process.returncode == 143
        done = f"5 runs are done; page: {into / 'soak.html'}"
        assert said.splitlines()[-1] == f"icequake: stopped by SIGTERM; {done}; continue with: {again}"
        assert (into / "soak.html").exists() and (into / "junit.xml").exists()
    lines = record.read(into)[1]
    assert len(lines) == 5 and len(folders(into)) == 1 + sum(x.ended == "invalid" for x in lines)
    process = begun(99, *again.split()[2:])
    out, said = process.communicate(timeout=ENOUGH)
    assert process.returncode == 1, said
    lines = record.read(into)[1]
    assert Counter(x.ended for x in lines if x.counts) == {"valid": 4, "invalid": 4}
    made_again = len([x for x in lines if x.ended == "incomplete"])
    assert made_again == 1 or (number == signal.SIGTERM and made_again == 0)  # it may end in time when it is asked to
    assert {(x.cell, x.number) for x in lines if x.counts} == {(x.cell, 0) for x in lines}
    assert out.count("fractured-read; 1 read of half a change; who: Spark 1; icequake run quick --seed") == len(
        [x for x in out.splitlines() if x.startswith("✕")]
    )
    assert [f.path.name for f in folders(into)] == sorted(
        Path(str(x.folder)).name for x in lines if x.ended == "invalid"
    )
    made = {f"{f.path.parent.name}/{f.path.name}" for f in folders_in([into])}
    assert {"/".join(str(x.folder).split("/")[-2:]) for x in lines if x.counts} <= made, "a lake can have them all"
    assert "Failed: new harm in 4 of 8 runs: 4 reads of half a change." in out
    ends = {x.split()[0]: x.split(None, 1)[1] for x in out.splitlines()[-5:]}
    assert ends["more"] == again.replace("--runs 8", "--runs 16")
    assert ends["again"] == again.partition(" --into ")[0], "a night of its own with the same seed"


def test_the_command_says_a_failure_in_one_line_and_writes_page_and_junit(
    begun: Begun, command: tuple[Path, Path]
) -> None:
    suite, into = command
    process = begun(99, suite, "--for", "60s", "--stop-on-anomaly", "--into", into)
    out, said = process.communicate(timeout=ENOUGH)
    assert process.returncode == 1, said
    (line,) = [x for x in out.splitlines() if x.startswith("✕")]
    assert (
        " seed " in line
        and ": fractured-read; 1 read of half a change; who: Spark 1; icequake run quick --seed " in line
    )
    assert "<testcase" in (into / "junit.xml").read_text() and "fractured-read" in (into / "soak.html").read_text()
    assert json.loads((into / "soak.json").read_text())["exit"] == 1


def test_the_stack_of_the_first_new_anomaly_stays_up_for_a_look_until_it_is_not_wanted(
    begun: Begun, command: tuple[Path, Path], tmp_path: Path
) -> None:
    suite, into = command
    process = begun(99, suite, "--stop-on-anomaly", "--keep-up", "--into", into, home=tmp_path / "home")
    assert process.stdout is not None
    said: list[str] = []
    while not (said and "tables" in said[-1]):
        assert process.poll() is None
        said.append(process.stdout.readline())
    assert (
        "stays up until Ctrl-C or `icequake down`" in said[-4] and "catalog     http://catalog:2, warehouse" in said[-3]
    )
    assert (into / "soak.html").exists() and (tmp_path / "home" / "stack" / "stack.json").exists()
    process.send_signal(signal.SIGTERM)  # as `icequake down` does
    out, err = process.communicate(timeout=ENOUGH)
    assert (
        process.returncode == 1
        and "ending the stack" in out
        and "Failed: new harm in 1 of " in out
        and ": 1 read of half a change." in out
    ), err
    assert not (tmp_path / "home" / "stack" / "stack.json").exists()


def test_whoever_stops_a_soak_has_the_page_before_anything_is_waited_for(good: Path, tmp_path: Path) -> None:
    """A CI system may give 10 seconds, a run may need more to end."""
    pages: list[int] = []
    whole: list[Soak] = []

    def act(cell: Cell, number: int, stop: threading.Event) -> None:
        if len(whole[0].night.lines) == 1:
            signal.raise_signal(signal.SIGINT)
            assert stop.wait(ENOUGH)
            asked.set()
            assert paged.wait(ENOUGH), "the page waits for the run"

    def stopping(night: Night) -> None:
        assert asked.wait(ENOUGH), "the run is not asked to end before the page is written"
        pages.append(len(night.lines))
        paged.set()

    asked, paged = threading.Event(), threading.Event()
    stacks = Recorded(good, act=act)
    whole.append(replace(soak(suite_file(tmp_path, SMALL), tmp_path / "night", stacks, runs=4), stopping=stopping))
    with pytest.raises(KeyboardInterrupt), whole[0] as held:
        held.go()
    assert pages == [1] and whole[0].stopped and stacks.up == 0


def test_whoever_stops_a_soak_while_a_run_begins_stops_that_run(
    good: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`Thread.start` waits for the new thread, and a signal can come within this wait."""
    ended: list[bool] = []
    start = threading.Thread.start

    def interrupted(thread: threading.Thread) -> None:
        start(thread)
        if thread.name.startswith("run of"):
            raise KeyboardInterrupt

    def act(cell: Cell, number: int, stop: threading.Event) -> None:
        ended.append(stop.wait(ENOUGH))

    monkeypatch.setattr(threading.Thread, "start", interrupted)
    night = soak(suite_file(tmp_path, SMALL), tmp_path / "night", Recorded(good, act=act), runs=4)
    with pytest.raises(KeyboardInterrupt), night as held:
        held.go()
    assert ended == [True]


# --- the disk ---------------------------------------------------------------------------------------------------------

NAMES = st.frozensets(st.sampled_from(["lost-commit", "undelete", "stale-read"]), max_size=2)
CELLS = st.sampled_from([Cell(w, "rest", "none", "1.12.0", "") for w in ("a", "b")])
KEPT = st.lists(
    st.tuples(st.integers(0, 50), st.integers(0, 20), CELLS, NAMES, st.sampled_from([KNOWN, NEW])), max_size=25
)


def kept_of(drawn: list[tuple[int, int, Cell, frozenset[str], int]]) -> list[Removable]:
    return [
        Removable(Path(f"r{n}"), size, f"{at:02}", cell, names, rank if names else WITHOUT_VERDICT)
        for n, (size, at, cell, names, rank) in enumerate(drawn)
    ]


@given(KEPT, st.integers(0, 400))
def test_the_bound_holds_as_soon_as_the_first_of_each_anomaly_fits_under_it(
    drawn: list[tuple[int, int, Cell, frozenset[str], int]], bound: int
) -> None:
    kept = kept_of(drawn)
    total, stay = sum(k.size for k in kept), firsts(kept)
    gone = surplus(kept, total, bound)
    left = total - sum(k.size for k in gone)
    assert left <= bound or {k.path for k in gone} == {k.path for k in kept} - stay
    assert not stay & {k.path for k in gone}
    if gone:
        assert left + gone[-1].size > bound, "nothing goes without need"


@given(KEPT, st.integers(0, 400))
def test_of_each_anomaly_of_each_cell_the_first_run_stays_and_of_the_others_the_oldest_goes_first(
    drawn: list[tuple[int, int, Cell, frozenset[str], int]], bound: int
) -> None:
    kept = kept_of(drawn)
    gone = surplus(kept, sum(k.size for k in kept), bound)
    left = [k for k in kept if k not in gone]
    for cell, name in {(k.cell, n) for k in kept for n in k.names}:
        mine = sorted((k for k in kept if k.cell == cell and name in k.names), key=lambda k: (k.started, str(k.path)))
        assert mine[0] in left
    ranked = [(k.rank, k.started, str(k.path)) for k in gone]
    assert ranked == sorted(ranked)
    for k in left:
        if k.path not in firsts(kept):
            assert all((k.rank, k.started, str(k.path)) > r for r in ranked)


def test_columns_and_runs_without_a_verdict_go_before_anomalies() -> None:
    cell = Cell("a", "rest", "none", "1.12.0", "")
    old = [Removable(Path(f"new{n}"), 10, f"{n}", cell, frozenset({"undelete"}), NEW) for n in range(3)]
    unknown = Removable(Path("unknown"), 10, "8", cell, rank=WITHOUT_VERDICT)
    columns_ = Removable(Path("columns"), 10, "9", rank=COLUMNS)
    assert surplus([*old, unknown, columns_], 50, 21) == [columns_, unknown, old[1]]


def test_the_folder_of_a_night_stays_under_its_bound(good: Path, tmp_path: Path) -> None:
    heard, sizes = Heard(), list[int]()
    into = tmp_path / "night"
    stacks = Recorded(good, lambda c, n: True)
    bound = 4_150_000  # 1.64 MB of it are the pairs that the runs can exercise
    stacks.act = lambda cell, number, stop: sizes.append(soakfolder.size_of(into))
    night = went(into, stacks, 12, heard, keep=bound)
    assert len(night.runs) == 12 and night.stopped is None
    assert max(sizes) <= bound and soakfolder.size_of(into) <= bound
    left = {x.folder for x in night.lines if (into / str(x.folder)).is_dir()}
    firsts_ = {c: next(x.folder for x in night.lines if x.cell == c) for c in night.cells}
    assert {*firsts_.values()} <= left and len(left) < 12
    assert any(t.startswith("removed the run of ") and "may have 4150kB" in t for t in heard.said)


def test_a_bound_that_the_first_failures_fill_ends_the_night_with_the_remedy(good: Path, tmp_path: Path) -> None:
    night = went(tmp_path / "night", Recorded(good, lambda c, n: True), 12, keep=2_950_000)
    assert night.stopped is not None and "all of it needed, and may have 2950kB; give a greater --keep" in night.stopped
    assert soakfolder.size_of(tmp_path / "night") <= 2_950_000 and 0 < len(night.runs) < 12 and night.code == 1


def test_less_free_disk_than_the_margin_ends_the_night_before_a_run(good: Path, tmp_path: Path) -> None:
    stacks = Recorded(good)
    night = went(tmp_path / "night", stacks, 8, free=10**15)
    assert night.stopped is not None and "1000TB must stay free; free some space" in night.stopped
    assert stacks.told == [] and night.code == 255


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    with disk_of("4m", tmp_path / "disk") as place:
        yield place


def test_a_full_disk_ends_the_night_and_it_goes_on_when_there_is_room(
    good: Path, tmp_path: Path, small_disk: Path
) -> None:
    into = small_disk / "night"
    file = suite_file(tmp_path, SMALL)
    filling = small_disk / "filling"

    def act(cell: Cell, number: int, stop: threading.Event) -> None:
        if len(record.read(into)[1]) == 2 and not filling.exists():
            fill(small_disk)

    stacks = Recorded(good, lambda c, n: c.catalog == "jdbc", act)
    with soak(file, into, stacks, runs=4, free=1) as whole:
        night = whole.go()
    assert night.stopped is not None and ("the disk is full" in night.stopped or "must stay free" in night.stopped)
    assert len(night.runs) == 2 and stacks.up == 0 and night.code in (1, 255)
    filling.unlink()
    with soak(file, into, stacks, runs=4, free=1) as whole:
        night = whole.go()
    assert len(night.runs) == 4 and night.stopped is None
    assert Counter(x.cell for x in night.runs) == Counter(dict.fromkeys(night.cells, 1))


def test_memory_and_disk_are_sampled_and_growth_is_said(good: Path, tmp_path: Path) -> None:
    night = went(tmp_path / "night", Recorded(good, act=lambda c, n, s: time.sleep(0.1)), 4)
    assert night.samples and all(s.memory >= s.rss > 10**7 and s.free > 0 for s in night.samples)
    stored = record.samples(tmp_path / "night")
    assert stored[: len(night.samples)] == list(night.samples) and night.grown is None
    grown = replace(
        night, lines=tuple(replace(x, rss=10**9 if n < 3 else 2 * 10**9) for n, x in enumerate(night.lines))
    )
    assert grown.grown == (10**9, 2 * 10**9)


def test_nothing_of_a_night_stays_in_this_process(good: Path, tmp_path: Path) -> None:
    before = {t.name for t in threading.enumerate()}
    went(tmp_path / "night", Recorded(good), 2)
    assert {t.name for t in threading.enumerate()} <= before and os.getpid() > 0
