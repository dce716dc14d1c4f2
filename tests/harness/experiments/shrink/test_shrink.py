"""The whole of a shrink, of a failed run that was recorded on Spark; what a candidate shows, a rule says here."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import pytest

from checkers.evidence.replace import replace
from checkers.evidence.runfolder import RunFolder
from checkers.judge.runfolder import load_evidence
from harness.cli.shrink import ShrinkOptions
from harness.experiments.shrink.candidates import measure
from harness.experiments.shrink.guess import guesses
from harness.experiments.shrink.log import journal_of
from harness.experiments.shrink.log import trials as logged
from harness.experiments.shrink.reduction import BudgetSpent
from harness.experiments.shrink.shown import SCENARIO, shrunk
from harness.experiments.shrink.shrink import (
    NOT_AGAIN,
    TOO_SHORT,
    Failed,
    NothingToShrink,
    RecordedScenario,
    Shrink,
    as_replayed,
    failed,
    final_rows,
    scenario_name,
)
from harness.experiments.shrink.trials import MOST_FAILURES, MOST_TRIES, Budget, Trials, known_of, writers_of
from harness.run.errors import RunError
from reports import shrunk as shown
from reports.drawing import render
from tests.harness.experiments.shrink.byrule import ByRule, needs_both
from tests.harness.experiments.shrink.failedrun import failed_run, twice_failed_run
from tests.support.runs import Silent, inside
from workloads.file import scenario
from workloads.file.anomalies import entries_of
from workloads.file.recording import FILE as RECORDING
from workloads.file.recording import RecordedOperation, Recording, read
from workloads.file.scenario import Scenario


def busy(folder: Path) -> Failed:
    """The failed run, with operations that have nothing to do with it."""
    run = failed(RunFolder(failed_run(folder)), None)
    r = run.recording
    more = tuple(
        RecordedOperation(f"w{n % 2}-{10 + n}", n % 2, "insert", "t", {"ids": [50 + n, 60 + n]}, "main")
        for n in range(9)
    )
    return Failed(
        run.folder,
        run.evidence,
        run.results,
        run.name,
        run.found,
        Recording(r.workload, r.seed, r.catalog, (*r.operations, *more), r.order, r.faults),
        run.versions,
    )


def shrink(
    run: Failed, into: Path, runner: ByRule, *, budget: Budget | None = None, tries: int = 1
) -> tuple[Shrink, Recording | None, bool | None, RecordedScenario]:
    """Everything but the page."""
    with journal_of(into, {"run": "r"}) as log:
        trials = Trials(runner, log, into, run.name, budget or Budget(), Silent(), new=run.new)
        one = Shrink(run, into, trials, Silent(), tries=tries, times=3)
        return (one, *one.shrink())


def test_two_operations_are_left_and_their_scenario(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run, into = busy(tmp_path), tmp_path / "out"
    one, left, minimal, found = shrink(run, into, ByRule(into, run.folder.path, needs_both))
    assert left is not None
    assert [o.f for o in left.operations] == ["delete", "update-register"]
    assert minimal
    assert left.workload.tables[0].seed_rows == 2
    assert read(into / RECORDING) == left
    assert str(found.tries) == "3 of 3"
    result = shrunk(one, left, minimal, found, proves="prove it", replays="run it", goes_on="on")
    made = scenario.load(into / SCENARIO)
    assert made.anomalies == entries_of("undelete")
    assert [(s.name, s.expect.type) for s in made.operations] == [("delete", "ok"), ("update-register", "ok")]
    assert made.link == "https://github.com/apache/iceberg/issues/10720"
    assert made.remedy == "Set write.delete.isolation-level=serializable, or use format version 3."
    assert made.final == {"t": (0, 1, 2, 3)}
    assert "seen with Iceberg 1.12.0" in made.affected
    assert found.waits == (2, 0), "the rule needs none"
    page = render.write(shown.of(result), into).read_text()
    assert "from 11 operations to 2" in page
    assert "reproduced 3 of 3 times" in page
    said = json.loads((into / "shrink.json").read_text())
    assert (said["before"]["operations"], said["after"]["operations"], said["command"]) == (11, 2, "prove it")
    told = [part for part in render.terminal(shown.of(result)) if isinstance(part, str)]
    assert told[0].startswith("undelete: from 11 operations to 2. ")
    assert f"  left    {result.after}" in told
    assert shown.of(result).command == ("See it again", "prove it")
    assert len(said["steps"]) >= 2
    ShrinkOptions(run=run.folder.path, into=into)._show(result)
    assert f"export {into / SCENARIO} --as script -o " in capsys.readouterr().out


@pytest.mark.parametrize(
    ("op", "table", "new"),
    [(None, "u", True), ("w2-1", "u", True), ("w3-0", "u", True), ("w0-1", "t", False), ("w1-0", "t", False)],
)
def test_of_two_events_of_one_name_that_of_the_operation_is_looked_for_or_the_new_one(
    tmp_path: Path, op: str | None, table: str, new: bool
) -> None:
    run = failed(RunFolder(twice_failed_run(tmp_path)), "undelete", op)
    assert ([a.table for a in run.found], run.new) == ([table], new)


def test_an_operation_that_no_anomaly_is_about_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        NothingToShrink, match="no anomaly that it found is about operation w9-9; the cards of its page"
    ):
        failed(RunFolder(twice_failed_run(tmp_path)), None, "w9-9")


@pytest.mark.parametrize(
    ("op", "left", "said"),
    [
        ("w2-1", 0, "undelete did not show again"),
        ("w0-1", 2, "What is left is known: the library has it as undelete."),
    ],
)
def test_a_known_defect_of_the_same_name_does_not_count_where_a_new_one_is_looked_for(
    tmp_path: Path, op: str, left: int, said: str
) -> None:
    source, known = failed_run(tmp_path), failed(RunFolder(twice_failed_run(tmp_path / "twice")), "undelete", op)
    into = tmp_path / "out"
    one, smallest, minimal, found = shrink(known, into, ByRule(into, source, needs_both, known=needs_both))
    assert (0 if smallest is None else len(smallest.operations)) == left
    page = shown.of(shrunk(one, smallest, minimal, found, proves="prove it", replays="run it", goes_on="on"))
    assert said in render.html(page)
    assert any(t.problem.startswith("what it shows is a known defect") for t in one.trials) == (op == "w2-1")


def test_what_is_left_of_a_new_anomaly_is_called_new(tmp_path: Path) -> None:
    run, into = failed(RunFolder(twice_failed_run(tmp_path)), None), tmp_path / "out"
    one, left, minimal, found = shrink(run, into, ByRule(into, run.folder.path, needs_both))
    page = shown.of(shrunk(one, left, minimal, found, proves="prove it", replays="run it", goes_on="on"))
    assert "What is left is new: no scenario of the library describes it." in render.html(page)


def test_a_name_is_known_in_a_run_if_all_that_it_found_of_that_name_is(tmp_path: Path) -> None:
    for made, known in ((failed_run, True), (twice_failed_run, False)):
        run = made(tmp_path / made.__name__)
        assert inside("check", run, cwd=tmp_path).returncode == 1
        assert ("undelete" in known_of(RunFolder(run))) == known


def test_waits_that_the_anomaly_needs_stay(tmp_path: Path) -> None:
    run, into = busy(tmp_path), tmp_path / "out"

    def held(s: Scenario) -> bool:
        return any(o.hold for o in s.operations) and any(o.after for o in s.operations)

    one, left, minimal, found = shrink(run, into, ByRule(into, run.folder.path, needs_both, held))
    assert found.translation is not None
    assert found.waits == (2, 2)
    assert "its commit is held until update-register has completed" in found.translation.scenario.description

    def told(found: RecordedScenario) -> str:
        return render.html(
            shown.of(shrunk(one, left, minimal, found, proves="prove it", replays="run it", goes_on="on"))
        )

    assert "2 of 2 are needed" in told(found)
    # With so many runs the time ends when its scenario was reproduced, and before one of its waits was taken away.
    short = tmp_path / "short"
    for runs in range(1, 60):
        one, left, minimal, found = shrink(
            run, short, ByRule(short, run.folder.path, needs_both, held), budget=Budget(runs=runs)
        )
        if found.waits is not None:
            break
    assert found.waits == (2, 2) and not found.waits_needed
    assert "2 of 2 are left; the time ended before it was tried without each of them" in told(found)


def test_a_scenario_that_is_not_reproduced_leaves_the_recording(tmp_path: Path) -> None:
    run, into = busy(tmp_path), tmp_path / "out"
    one, left, minimal, found = shrink(run, into, ByRule(into, run.folder.path, needs_both, lambda s: False))
    result = shrunk(one, left, minimal, found, proves="prove it", replays="run it", goes_on="on")
    assert (result.scenario, result.replayed, result.command) == (None, "3 of 3", "run it")
    assert not (into / SCENARIO).exists()
    assert result.not_said[0].startswith("the scenario file was not reproduced")
    assert "The recording showed it 3 of 3 times; there is no scenario file." in render.html(shown.of(result))
    assert result.shown


def test_a_run_that_does_not_fail_again_is_not_shrunk(tmp_path: Path) -> None:
    run, into = busy(tmp_path), tmp_path / "out"
    one, left, minimal, found = shrink(run, into, ByRule(into, run.folder.path, lambda r: False), tries=2)
    result = shrunk(one, left, minimal, found, proves="prove it", replays="run it", goes_on="on")
    assert (left, minimal, result.shown, result.runs % 2) == (None, None, False, 0)
    assert "undelete did not show again" in render.html(shown.of(result))
    assert shown.of(result).command == ("Try on", "on")
    assert not (into / RECORDING).exists()
    assert [*into.glob("runs/*")] == [], "runs that do not show it are not kept"


@pytest.mark.parametrize("stops", [1, 3, 6, 9])
def test_a_shrink_that_was_stopped_goes_on_where_it_was(tmp_path: Path, stops: int) -> None:
    """It comes to the same result with as many runs as one that was not stopped."""
    run, straight, halting = busy(tmp_path), tmp_path / "straight", tmp_path / "halting"
    whole = ByRule(straight, run.folder.path, needs_both)
    _, expected, _, _ = shrink(run, straight, whole)
    first = ByRule(halting, run.folder.path, needs_both, stops=stops)
    with pytest.raises(KeyboardInterrupt):
        shrink(run, halting, first)
    if stops > 3:
        assert needs_both(read(halting / RECORDING)), "the smallest so far"
    second = ByRule(halting, run.folder.path, needs_both)
    _, left, minimal, _ = shrink(run, halting, second)
    assert left == expected
    assert minimal
    assert first.runs + second.runs == whole.runs
    lines = (halting / "shrink.jsonl").read_text().splitlines()
    assert len(lines) == 1 + whole.runs


def test_a_spent_budget_leaves_the_smallest_so_far_and_its_scenario(tmp_path: Path) -> None:
    run, into = busy(tmp_path), tmp_path / "out"
    _, left, minimal, found = shrink(run, into, ByRule(into, run.folder.path, needs_both), budget=Budget(runs=2))
    assert left is not None
    assert minimal is False
    assert needs_both(left)
    assert str(found.tries) == "3 of 3"


def test_the_budget_of_time_begins_with_the_first_run_and_counts_no_answer_of_the_log(tmp_path: Path) -> None:
    now = [100.0]
    budget = Budget(seconds=10, clock=lambda: now[0])
    now[0] = 500.0
    budget.take()
    now[0] = 509.0
    budget.take()
    now[0] = 510.0
    with pytest.raises(BudgetSpent):
        budget.take()
    run, into = busy(tmp_path), tmp_path / "out"
    _, left, _, _ = shrink(run, into, ByRule(into, run.folder.path, needs_both))
    _, again, minimal, _ = shrink(run, into, ByRule(into, run.folder.path, needs_both), budget=Budget(runs=0))
    assert (again, minimal) == (left, True)


def test_a_harness_that_fails_again_and_again_ends_the_shrink(tmp_path: Path) -> None:
    run, into = busy(tmp_path), tmp_path / "out"

    def broken(r: Recording) -> bool:
        raise RunError("no stack")

    with pytest.raises(RunError, match="no stack"):
        shrink(run, into, ByRule(into, run.folder.path, broken), tries=5)
    assert [(t.failed, t.could_not) for t in logged(into)] == [(False, "no stack")] * 3


def test_a_harness_that_breaks_later_ends_the_shrink_too(tmp_path: Path) -> None:
    run, into, up = busy(tmp_path), tmp_path / "out", [True]

    def breaks(r: Recording) -> bool:
        if not up:
            raise RunError("no stack")
        return bool(up.pop())

    candidates = [replace(run.recording, operations=run.recording.operations[n:]) for n in range(MOST_FAILURES + 1)]
    with journal_of(into, {"run": "r"}) as log:
        trials = Trials(ByRule(into, run.folder.path, breaks), log, into, run.name, Budget(), Silent())
        assert trials.once(candidates[0]).failed
        for candidate in candidates[1:-1]:
            assert not trials.once(candidate).failed and not trials.once(candidate, 1).failed
        with pytest.raises(RunError, match="no stack"):
            trials.once(candidates[-1])
    assert [t.could_not for t in logged(into)] == ["", *["no stack"] * (MOST_FAILURES * MOST_TRIES)]


def test_a_candidate_that_cannot_be_run_does_not_end_the_shrink_nor_the_next_session(tmp_path: Path) -> None:
    run, into = busy(tmp_path), tmp_path / "out"

    def stuck(r: Recording) -> bool:
        if all(o.f != "delete" for o in r.operations):
            raise RunError("a waits for b, for 60 s")
        return needs_both(r)

    _, left, minimal, _ = shrink(run, into, ByRule(into, run.folder.path, stuck), tries=2)
    assert left is not None and minimal and [o.f for o in left.operations] == ["delete", "update-register"]
    impossible = [t for t in logged(into) if t.could_not]
    assert len(impossible) == 3 * len({t.key for t in impossible}) > 0
    _, again, _, _ = shrink(run, into, ByRule(into, run.folder.path, stuck), tries=2)
    assert again == left
    once_more = [t for t in logged(into) if t.could_not]
    assert len(once_more) - len(impossible) == len({t.key for t in impossible})


@pytest.mark.parametrize("error", [RunError("no stack"), ZeroDivisionError("a bug")])
def test_a_run_that_could_not_be_made_is_made_again_and_is_no_answer(tmp_path: Path, error: Exception) -> None:
    run, into = busy(tmp_path), tmp_path / "out"
    left: list[Exception] = [error] * 2

    def broken_at_first(r: Recording) -> bool:
        if left:
            raise left.pop()
        return needs_both(r)

    _, found, minimal, _ = shrink(run, into, ByRule(into, run.folder.path, broken_at_first), tries=1)
    assert found is not None and minimal and [o.f for o in found.operations] == ["delete", "update-register"]
    first, second, third = logged(into)[:3]
    assert first.could_not == second.could_not != "" and str(error) in first.could_not
    assert first.key == second.key == third.key and not third.could_not


def test_what_shows_rarely_is_repeated_until_it_shows_and_the_scenario_says_how_often(tmp_path: Path) -> None:
    run, into = busy(tmp_path), tmp_path / "out"
    done: list[Scenario] = []

    def each_900th(s: Scenario) -> bool:
        done.append(s)
        return sum(x.repeat for x in done) // 900 > sum(x.repeat for x in done[:-1]) // 900

    runner = ByRule(into, run.folder.path, lambda r: False, rarely=each_900th)
    one, left, minimal, found = shrink(run, into, runner)
    assert left is not None and one.rare is not None and found.translation is not None
    s = found.translation.scenario
    assert [(o.do, o.writer) for o in s.operations] == [("delete", 0)] or len(s.operations) == 1
    assert (
        s.repeat >= 900 and s.engines == {0: "committer"} and "repetitions" in s.showed and str(found.tries) == "3 of 3"
    )
    result = shrunk(one, left, minimal, found, proves="prove it", replays="run it", goes_on="on")
    again = scenario.load(into / SCENARIO)
    assert (again.repeat, again.showed, again.anomalies) == (s.repeat, result.rate, entries_of("undelete"))
    assert f"It shows rarely: in {result.rate} of these operations." in render.html(shown.of(result))
    asked = len(done)
    _, same, _, _ = shrink(run, into, runner)
    assert same == left and len(done) == asked, "a second command asks for nothing again"


def test_of_a_rare_anomaly_of_the_set_up_an_insert_is_repeated(tmp_path: Path) -> None:
    run, into = busy(tmp_path), tmp_path / "out"
    seeds = [o.op for o in run.evidence.history.operations() if o.invoked.extra.get("phase") == "setup"]
    assert seeds and not {*seeds} & {o.op for o in run.recording.operations}
    lost = replace(run, found=tuple(replace(a, ops=tuple(seeds), minimal=None) for a in run.found))
    runner = ByRule(into, run.folder.path, lambda r: False, rarely=lambda s: s.operations[0].do == "insert")
    one, left, _, found = shrink(lost, into, runner)
    assert left is not None and one.rare is not None and found.translation is not None
    assert [o.do for o in found.translation.scenario.operations] == ["insert"]


def test_what_chance_reduced_is_repeated_if_replays_of_the_whole_run_showed_it_rarely(tmp_path: Path) -> None:
    run, into = busy(tmp_path), tmp_path / "out"
    asked: list[Recording] = []

    def once(r: Recording) -> bool:
        asked.append(r)
        return len(asked) == 1

    def shrunk_by(rare: bool, repeats: bool) -> tuple[Shrink, RecordedScenario]:
        asked.clear()
        folder = into / f"{rare} {repeats}"
        runner = ByRule(folder, run.folder.path, once, lambda s: s.repeat > 1, rarely=lambda s: repeats)
        with journal_of(folder, {"run": "r"}) as log:
            trials = Trials(runner, log, folder, run.name, Budget(), Silent())
            one = Shrink(run, folder, trials, Silent(), tries=2, times=3, rare=rare)
            return one, one.shrink()[2]

    one, found = shrunk_by(rare=True, repeats=True)
    assert one.rare is not None and found.translation is not None and found.translation.scenario.repeat > 1
    for rare, repeats in [(True, False), (False, True)]:
        one, found = shrunk_by(rare, repeats)
        assert one.rare is None and one.smallest is not None and not found.tries.fails, (rare, repeats)


def test_the_first_guess_is_what_the_anomaly_names(tmp_path: Path) -> None:
    run = failed(RunFolder(failed_run(tmp_path)), "undelete")
    found = list(guesses(run.evidence, run.found))
    assert {"w0-1", "w1-0"} <= found[0].ops
    assert found[-1].why == "all operations"
    assert all(len(a.ops) < len(b.ops) for a, b in pairwise(found))


def test_a_replay_lends_its_order_to_the_recording(tmp_path: Path) -> None:
    run = failed(RunFolder(failed_run(tmp_path)), None)
    labelled = run.recording
    renamed = {"w0-1": "w7-3", "w1-0": "w9-9"}
    old = Recording(
        labelled.workload,
        0,
        "rest",
        tuple(RecordedOperation(renamed[o.op], o.writer, o.f, o.table, o.value, o.phase) for o in labelled.operations),
        (),
    )
    again = as_replayed(old, labelled)
    assert again is not None
    assert {m.op for m in again.order} == {"w7-3", "w9-9"}
    assert len(again.order) == len(labelled.order)
    assert as_replayed(old, labelled.only(["w0-1"])) is None


def test_a_table_that_readers_saw_differently_has_no_final_rows(tmp_path: Path) -> None:
    run = failed_run(tmp_path)
    assert final_rows(load_evidence(run)) == {"t": (0, 1, 2, 3)}
    lines = (run / "history.jsonl").read_text().splitlines()
    last = json.loads(lines[-1])
    last["value"] = last["value"][:-1]
    (run / "history.jsonl").write_text("\n".join([*lines[:-1], json.dumps(last)]) + "\n")
    assert final_rows(load_evidence(run)) == {"t": "unchecked"}


def test_an_allowed_anomaly_is_shrunk_if_it_is_named(tmp_path: Path) -> None:
    run = RunFolder(failed_run(tmp_path, allow=["undelete"]))
    with pytest.raises(NothingToShrink, match="it found undelete, which its workload allows: name it with --anomaly"):
        failed(run, None)
    assert failed(run, "undelete").name == "undelete"


def test_a_run_without_the_anomaly_says_what_it_found(tmp_path: Path) -> None:
    with pytest.raises(NothingToShrink, match="it did not find lost-commit; it found undelete"):
        failed(RunFolder(failed_run(tmp_path)), "lost-commit")


def test_a_replay_needs_a_driver_for_each_writer(tmp_path: Path) -> None:
    r = failed(RunFolder(failed_run(tmp_path)), None).recording
    assert writers_of(r) == 2
    guests = r.workload.model_copy(update={"engines": ("duckdb", "duckdb")})
    assert writers_of(Recording(guests, 0, "rest", r.operations, r.order)) == 3


@pytest.mark.parametrize(
    ("anomaly", "name"),
    [
        ("undelete", "undelete-mixed"),
        ("G-single-predicate-realtime", "g-single-predicate-realtime-mixed"),
        ("1x", "s-1x-mixed"),
    ],
)
def test_the_name_of_a_scenario_is_one(anomaly: str, name: str) -> None:
    assert scenario_name(anomaly, "mixed") == name


def test_the_size_counts_rows_that_are_seeded_and_named(tmp_path: Path) -> None:
    assert (
        str(measure(failed(RunFolder(failed_run(tmp_path)), None).recording))
        == "2 operations, 2 writers, 1 table, 6 rows"
    )


def test_a_budget_that_ends_before_anything_shows_it_is_not_called_a_run_that_shows_nothing(tmp_path: Path) -> None:
    run, into = busy(tmp_path), tmp_path / "out"
    nothing = ByRule(into, run.folder.path, lambda r: False)
    one, left, _, found = shrink(run, into, nothing, budget=Budget(runs=1))
    assert left is None and one.spent and found.not_said == (TOO_SHORT,)
    one, left, _, found = shrink(run, tmp_path / "whole", nothing)
    assert left is None and not one.spent and found.not_said == (NOT_AGAIN,)
