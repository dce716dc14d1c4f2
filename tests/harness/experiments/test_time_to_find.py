"""The time to find: what a search counts, that a measurement goes on where it was stopped, and what people read of it."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from checkers.costs import defectsearch
from checkers.costs.defectsearch import DefectSearch
from checkers.coverage.pair import Pair
from checkers.evidence.replace import replace
from checkers.evidence.runfolder import RunFolder
from checkers.judge.runfolder import load_evidence
from checkers.selftest import recorded
from checkers.verdict import Anomaly
from compose.processes.service import ServiceError
from harness.experiments import timetofind as finding
from harness.experiments.timetofind import FindError, SearchPlan, TimeToFind
from harness.run.errors import RunError
from harness.run.resolve import read_defect, read_scenario
from harness.run.settings import Watcher
from reports import timetofind as page
from tests.support.runs import inside
from tests.support.soaks import Heard, judged_once, page_alone, put, spoil
from workloads.file import defect as files
from workloads.file import scenario
from workloads.file.anomalies import entries_of
from workloads.file.defect import Defect
from workloads.file.mode import Mode
from workloads.file.suite import Cell
from workloads.file.workload import Workload, WorkloadError

TEXT = """\
defect: one
scenarios: [undelete]
found: [stale-read, fractured-read]
use: quick
length: {time: 5s}
"""


@pytest.fixture(scope="module")
def run() -> Iterator[Path]:
    """The folder of a recorded run."""
    import tempfile
    import zipfile

    with tempfile.TemporaryDirectory() as place:
        with zipfile.ZipFile(Path(recorded.__file__).with_name("recorded") / "quick-120.zip") as z:
            z.extractall(place)
        yield Path(place)


def defect(folder: Path, text: str = TEXT, name: str = "one") -> Defect:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.yaml"
    path.write_text(text)
    return read_defect(path)


@dataclass
class Stacks:
    """Stacks whose runs are the recorded one; those numbered in ``wrong`` (over all runs, from 0) lack a row of a read.

    ``stops``: a run in which the user presses Ctrl-C; ``down``: no stack comes up; ``fails``: a run that the harness cannot make.
    """

    recorded: Path
    wrong: frozenset[int] = frozenset()
    stops: int | None = None
    fails: int | None = None
    error: Exception = field(default_factory=lambda: RunError("no run here"))
    down: bool = False
    told: list[str] = field(default_factory=list)
    seen: list[int] = field(default_factory=list)
    runs: int = 0

    def start(self, stack: tuple[str, str], writers: int, logs: Path, watcher: Watcher) -> Stacks:
        if self.down:
            raise ServiceError(stack[0], "does not answer")
        self.told.append(f"start {stack[0]} {writers}")
        return self

    def run(self, workload: Workload, folder: RunFolder, *, seed: int, command: str, seen: Mapping[Pair, int]) -> None:
        number, self.runs = self.runs, self.runs + 1
        self.told.append(f"{workload.workload} {workload.order} {seed}")
        self.seen.append(len(seen))
        put(self.recorded, folder, Cell("quick", workload.catalog, "none", "1.12.0", ""), 0, seed, command, "complete")
        if number == self.stops:
            raise KeyboardInterrupt
        if number == self.fails:
            raise self.error
        if number in self.wrong:
            spoil(folder)

    def close(self) -> None:
        self.told.append("close")


def measurement(
    into: Path, stacks: Stacks, *defects: Defect, orders: tuple[str, ...] = ("free",), seeds: int = 1
) -> TimeToFind:
    order = SearchPlan(defects, orders, tuple(range(1, seeds + 1)), BUDGET, lambda d, s, o: f"find {d.defect} {s} {o}")
    return TimeToFind(order, into, Heard(), page_alone, stacks.start, judged_once)


BUDGET = 1e6


def made(whole: TimeToFind) -> list[DefectSearch]:
    return whole.measure()


def test_a_search_ends_with_the_run_that_finds_the_defect(tmp_path: Path, run: Path) -> None:
    stacks = Stacks(run, wrong=frozenset({1}))
    (s,) = made(measurement(tmp_path / "m", stacks, defect(tmp_path)))
    evidence = load_evidence(run)
    assert (s.found, s.runs, s.reason) == (True, 2, None)
    whole = defectsearch.spent(evidence)
    assert (
        whole.operations < s.operations <= 2 * whole.operations
    )  # the second run counts up to the read that lacks a row
    assert whole.seconds < s.seconds <= 2 * whole.seconds
    kept = [p.parent.name for p in (tmp_path / "m/runs/one").glob("2*/history.jsonl")]
    assert s.folder is not None and kept == [Path(s.folder).name]
    assert (tmp_path / "m" / s.folder / "history.jsonl").is_file()
    assert s.anomalies and stacks.told[-1] == "close"
    assert s.pairs == 0 or stacks.seen[1] > 0  # what the first run exercised guides the second


def test_a_search_ends_when_its_budget_is_used_up(tmp_path: Path, run: Path) -> None:
    stacks = Stacks(run)
    whole = measurement(tmp_path / "m", stacks, defect(tmp_path))
    seconds = defectsearch.spent(load_evidence(run)).seconds
    whole.order = replace(whole.order, budget=1.5 * seconds)
    (s,) = made(whole)
    assert (s.found, s.runs, s.folder) == (False, 2, None)
    assert not list((tmp_path / "m/runs").glob("*/2*/history.jsonl"))


def test_every_order_gets_the_same_runs(tmp_path: Path, run: Path) -> None:
    stacks = Stacks(run, wrong=frozenset({1, 3}))
    made(measurement(tmp_path / "m", stacks, defect(tmp_path), orders=("free", "coverage")))
    free, guided = ([t.split()[2] for t in stacks.told if f" {o} " in t] for o in ("free", "coverage"))
    assert len(free) == 2 and free == guided and len({*free}) == 2


def test_a_measurement_goes_on_where_the_user_stopped_it(tmp_path: Path, run: Path) -> None:
    first = Stacks(run, wrong=frozenset(range(9)), stops=1)
    with pytest.raises(KeyboardInterrupt):
        made(measurement(tmp_path / "m", first, defect(tmp_path), seeds=3))
    with (tmp_path / "m/searches.jsonl").open("a") as file:
        file.write('{"of": "torn')
    second = Stacks(run, wrong=frozenset(range(9)))
    found = made(measurement(tmp_path / "m", second, defect(tmp_path), seeds=3))
    assert [(s.seed, s.found) for s in found] == [(1, True), (2, True), (3, True)]
    assert second.runs == 2
    assert made(measurement(tmp_path / "m", Stacks(run, down=True), defect(tmp_path), seeds=3)) == found


def test_a_defect_whose_definition_changed_is_measured_anew(tmp_path: Path, run: Path) -> None:
    made(measurement(tmp_path / "m", Stacks(run, wrong=frozenset({0})), defect(tmp_path)))
    again = Stacks(run, wrong=frozenset({0}))
    made(measurement(tmp_path / "m", again, defect(tmp_path, TEXT + "keys: {space: 5}\n")))
    assert again.runs == 1


def test_another_budget_is_another_measurement(tmp_path: Path, run: Path) -> None:
    made(measurement(tmp_path / "m", Stacks(run, wrong=frozenset({0})), defect(tmp_path)))
    other = measurement(tmp_path / "m", Stacks(run), defect(tmp_path))
    other = replace(other, order=replace(other.order, budget=7.0))
    with pytest.raises(
        FindError, match=r"another budget \(1000000\.0 there, 7\.0 here\); give another one with --into"
    ):
        made(other)


@pytest.mark.parametrize("error", [RunError("no run here"), ZeroDivisionError("no run here")])
def test_what_cannot_be_run_is_said_and_tried_again(tmp_path: Path, run: Path, error: Exception) -> None:
    stacks = Stacks(run, wrong=frozenset({1}), fails=0, error=error)
    found = made(measurement(tmp_path / "m", stacks, defect(tmp_path), seeds=2))
    assert [(s.found, bool(s.reason)) for s in found] == [(False, True), (True, False)]
    assert "no run here" in str(found[0].reason)
    assert stacks.told.count("start rest 4") == 2  # a stack on which a run failed is not used again
    again = made(measurement(tmp_path / "m", Stacks(run, wrong=frozenset({0})), defect(tmp_path), seeds=2))
    assert [s.found for s in again] == [True, True]


@pytest.mark.parametrize(
    ("name", "own"), [("glue-lost-update", True), ("jdbc-lost-ack", True), ("hadoop-lost-update", False)]
)
def test_only_a_catalog_apart_from_the_store_gets_proxies_of_the_run_before_warm_writers(name: str, own: bool) -> None:
    assert finding._only_catalog(read_defect(files.find(name))) is own


def test_two_do_not_measure_into_one_folder(tmp_path: Path, run: Path) -> None:
    one = measurement(tmp_path / "m", Stacks(run), defect(tmp_path))
    other = measurement(tmp_path / "m", Stacks(run), defect(tmp_path))
    with one._journal, pytest.raises(FindError, match="writes a measurement here; stop it"):
        made(other)


def test_a_stack_that_does_not_come_up_is_tried_once(tmp_path: Path, run: Path) -> None:
    found = made(measurement(tmp_path / "m", Stacks(run, down=True), defect(tmp_path), seeds=3))
    assert [s.reason for s in found] == ["catalog rest: does not answer"] * 3 or all(
        "does not answer" in str(s.reason) for s in found
    )


def anomaly(name: str, table: str | None, *ops: str) -> Anomaly:
    return Anomaly(name, "replay", table, "…", ops=ops)


def test_what_was_spent_counts_up_to_the_end_of_the_operations_of_the_first_anomaly(run: Path) -> None:
    evidence = load_evidence(run)
    ops = [o for o in evidence.history.operations() if o.invoked.extra.get("phase") not in ("setup", "final-reads")]
    first, last = ops[2], ops[-1]
    one = defectsearch.found_in(
        evidence, [anomaly("a", "t", last.op), anomaly("a", "t", first.op)], entries_of("a"), []
    )
    assert one is not None and one.operations < len(ops)
    assert first.completed is not None
    assert math.isclose(one.seconds, (first.completed.time - min(o.start for o in ops)) / 1e9)
    assert defectsearch.found_in(evidence, [anomaly("a", "t", first.op)], entries_of("b"), []) is None
    assert defectsearch.found_in(evidence, [anomaly("a", "t", first.op)], entries_of("a"), ["u"]) is None
    assert defectsearch.found_in(evidence, [anomaly("a", "t")], entries_of("a"), ["t"]) == defectsearch.spent(evidence)


def search(
    seed: int, operations: int, found: bool = True, order: str = "free", reason: str | None = None
) -> DefectSearch:
    return DefectSearch("one", order, seed, found, 1, operations, operations / 10, 20.0, 3, {}, reason=reason)


def test_a_search_that_found_nothing_counts_as_endless() -> None:
    (most,) = defectsearch.together([search(1, 10), search(2, 30), search(3, 99, found=False)])
    assert (most.found, most.searches, most.operations) == (2, 3, 30)
    (half,) = defectsearch.together([search(1, 10), search(2, 99, found=False)])
    assert (half.found, half.operations, half.seconds) == (1, None, None)
    (none,) = defectsearch.together([search(1, 0, found=False, reason="no jar")])
    assert (none.searches, none.found, none.reason) == (0, 0, "no jar")


def test_the_page_gets_its_tables_between_its_marks(tmp_path: Path) -> None:
    found = [search(1, 10), search(1, 40, order="coverage"), search(2, 12), search(2, 99, False, "coverage")]
    text = f"# T\n{page.BEGIN.format('results')}\nold\n{page.END.format('results')}\nend\n"
    new = page.written(text, {"results": page.results(found, 60)}, "t.md")
    assert "| one | 2 of 2, 11 op, 1.1 s | 1 of 2 |" in new and "old" not in new and new.endswith("end\n")
    assert page.written(new, {"results": page.results(found, 60)}, "t.md") == new
    with pytest.raises(page.PageError, match=r"t\.md: has no place for other; add the lines <!-- other: begin -->"):
        page.written(text, {"other": ""}, "t.md")
    read = json.loads(page.dumped(found, 60))
    assert [finding.FORM.decode(s) for s in read["searches"]] == found


def test_several_measurements_are_reported_together(tmp_path: Path, run: Path) -> None:
    one, two = defect(tmp_path), defect(tmp_path, TEXT.replace("defect: one", "defect: two"), "two")
    for d in (one, two):
        made(measurement(tmp_path / d.defect, Stacks(run, wrong=frozenset({0})), d))
    folders = [tmp_path / "two", tmp_path / "one"]
    found, budget = finding.together(folders, [one, two])
    assert [s.defect for s in found] == ["one", "two"] and budget == BUDGET
    shutil.rmtree(tmp_path / "two")
    with pytest.raises(FindError, match="cannot be read"):
        finding.together(folders, [one, two])


# -- definitions ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "line", "message"),
    [
        (
            "found: [stale-read, fractured-read]",
            "found: [stale-raed]",
            3,
            "found: 'stale-raed' is no anomaly|stale-read",
        ),
        ("scenarios: [undelete]", "scenarios: [undeleted]", 2, "there is no scenario 'undeleted'"),
        ("use: quick", "use: quik", 4, "use: quik: no such workload file"),
        ("length: {time: 5s}", "length: {ops: 5}", 5, "length: must be a time, such as {time: 15s}"),
        ("length: {time: 5s}", "length: {time: 5s}\norder: free", 6, "order: the search decides it"),
        ("length: {time: 5s}", "length: {time: 5s}\nfound_on: [nowhere]", 6, "nowhere"),
        ("length: {time: 5s}", "length: {time: 5s}\niceberg: 0.1.0", 6, "no Iceberg release '0.1.0'"),
        ("defect: one", "defect: two", 1, "defect: must be one, as the file is called"),
        ("defect: one", "defect: one\nworkload: x", 2, "workload: a defect file has a name already"),
        ("use: quick", "use: quick\nfnd: x", 5, "fnd"),
    ],
)
def test_an_error_in_a_definition_names_its_line(tmp_path: Path, old: str, new: str, line: int, message: str) -> None:
    assert old in TEXT
    with pytest.raises(WorkloadError) as e:
        defect(tmp_path, TEXT.replace(old, new))
    (said,) = [x for x in str(e.value).splitlines() if x.startswith(f"{tmp_path / 'one.yaml'}:{line}:")]
    assert any(m in said for m in message.split("|"))


@pytest.mark.parametrize(
    ("more", "mode"),
    [
        ("", Mode("fast", "local")),
        ("nemesis: {faults: [{verb: kill, target: executor}]}\n", Mode("fast", "standalone")),
        ("session: spark\n", Mode("spark", "local")),
    ],
)
def test_a_defect_is_looked_for_as_quickly_as_its_faults_and_its_file_allow(
    tmp_path: Path, more: str, mode: Mode
) -> None:
    d = defect(tmp_path, TEXT + more)
    assert d.mode == d.plain().mode == mode
    assert finding.stack_of(d)[2:] == tuple(mode.given.values())


@pytest.mark.parametrize("path", files.paths(), ids=lambda p: p.stem)
def test_a_definition_of_the_library_can_be_read(path: Path) -> None:
    warned: list[str] = []
    found = read_defect(path, warned.append)
    shown = [read_scenario(scenario.LIBRARY / f"{s}.yaml") for s in found.scenarios]
    assert not warned and all({e.name for e in found.found} & {e.name for e in s.anomalies} for s in shown)
    assert {s.catalog for s in shown} == {found.catalog}


def test_every_scenario_with_an_anomaly_has_a_definition_or_a_reason() -> None:
    there = {s for p in files.paths() for s in read_defect(p).scenarios}
    why = files.unreached()
    wrong = {x.scenario for x in map(read_scenario, scenario.paths([])) if x.anomalies}
    assert wrong - there == why.keys() and all(why.values())


def test_a_report_of_what_is_no_measurement_is_one_clear_line(tmp_path: Path) -> None:
    done = inside("time-to-find", "undelete", "--report", "--into", tmp_path, cwd=tmp_path)
    assert done.returncode == 254
    assert f"{tmp_path / 'searches.jsonl'}: cannot be read" in done.stderr.splitlines()[-1]
