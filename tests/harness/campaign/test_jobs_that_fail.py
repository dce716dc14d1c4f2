"""In every campaign one job may fail, for whatever reason: it has a line with the reason, the others go on, and so do later sessions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from checkers.conflicts import predicted
from checkers.conflicts.measured import MatrixError
from checkers.conflicts.predicted import MatrixCell
from checkers.evidence.replace import replace
from checkers.evidence.runfolder import RunFolder
from compose import setup
from compose.install.installation import Installation
from compose.objectstore import TableReadError
from compose.processes.service import ServiceError
from harness.campaign.errors import DETAILS
from harness.experiments import compare, matrix, prove, sweep, timetofind
from harness.run.resolve import read_scenario
from tests.harness.experiments.shrink.failedrun import failed_run
from tests.support.campaigns import (
    JDBC,
    REST,
    FakeBench,
    FakeCompare,
    FakeMatrix,
    FakeSweep,
    Unscripted,
    order,
    recorded_in,
    run_of,
)
from tests.support.runs import Silent, inside
from tests.support.soaks import Heard, judged_once, page_alone
from workloads.file import scenario as files
from workloads.file.scenario import Scenario
from workloads.file.workload import Workload

BUG = ZeroDivisionError("a bug")
ERRORS: list[BaseException] = [
    BUG,
    SystemExit("exit"),
    ServiceError("s3", "is gone"),
    TableReadError("t", "503"),
    PermissionError(13, "Permission denied", "x"),
]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a recorded run."""
    return recorded_in(tmp_path_factory.mktemp("recorded"))


def raising(error: BaseException, seed: int) -> Callable[[Any, int], None]:
    def act(who: Any, at: int) -> None:
        if at == seed and who in (JDBC, "jdbc"):
            raise error

    return act


# --- compare and sweep ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [FakeCompare, FakeSweep])
@pytest.mark.parametrize("error", ERRORS, ids=lambda e: type(e).__name__)
def test_a_run_of_a_comparison_that_fails_is_a_line_and_is_made_again(
    kind: type[FakeCompare] | type[FakeSweep], error: BaseException, run: Path, tmp_path: Path
) -> None:
    whole = kind(order(), tmp_path, tmp_path / "store", Silent(), page_alone, judged_once, source=run)
    whole.act = raising(error, 2)
    found = whole.measure()
    (failed,) = [r for r in found.runs if r.measures is None]
    assert (failed.contender, failed.seed) == (JDBC, 2) and str(error) in str(failed.reason)
    assert len(found.runs) == 8 and found.verdict == "unknown"
    if error is BUG:
        assert str(failed.reason) == "ZeroDivisionError: a bug"
        details = tmp_path / str(failed.folder) / "logs" / DETAILS
        assert "in act" in details.read_text()
    again = kind(order(), tmp_path, tmp_path / "store", Silent(), page_alone, judged_once, source=run).measure()
    assert all(r.measures is not None for r in again.runs) and len(compare.read(tmp_path / "runs.jsonl")[1]) == 8


def test_of_a_sweep_a_stack_that_fails_is_closed_before_the_next_one_starts(run: Path, tmp_path: Path) -> None:
    one = replace(order((REST,), 5))
    whole = FakeSweep(one, tmp_path, tmp_path / "store", Silent(), page_alone, judged_once, source=run, down=2)
    failing = {2: ServiceError("s3", "is gone"), 3: BUG}

    def act(catalog: str, seed: int) -> None:
        if seed in failing:
            raise failing[seed]

    whole.act = act
    found = whole.measure()
    assert whole.most == 1
    assert [r.measures is not None for r in found.runs] == [False, False, False, False, True] and whole.up == 0


# --- matrix -----------------------------------------------------------------------------------------------------------

CELLS = list(predicted.on("requirements", predicted.cells()))[:24]


@pytest.fixture
def unversioned(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (matrix, prove):
        monkeypatch.setattr(module, "versions", lambda _: {"iceberg": "1.12.0", "spark": "4.1.4"})


@pytest.mark.parametrize("error", ERRORS, ids=lambda e: type(e).__name__)
def test_cells_that_cannot_be_measured_are_lines_and_are_measured_again(
    error: BaseException, tmp_path: Path, unversioned: None
) -> None:
    def act(cells: Sequence[MatrixCell]) -> None:
        if CELLS[0] in cells:
            raise error

    def whole() -> FakeMatrix:
        return FakeMatrix(CELLS, tmp_path, Installation.__new__(Installation), Silent())

    one = whole()
    one.act = act
    found = one.measure()
    assert {m.cell for m in found.measured} == {*CELLS[matrix.CELLS_PER_RUN :]}
    assert {*found.could_not} == {*CELLS[: matrix.CELLS_PER_RUN]} and all(
        str(error) in w for w in found.could_not.values()
    )
    assert [m.cell for m in whole().measure().measured][-1] in CELLS and not whole().measure().could_not


def test_a_matrix_is_not_measured_by_two_at_once(tmp_path: Path, unversioned: None) -> None:
    one = matrix.Journal(tmp_path / "cells.jsonl", matrix.CELLS)
    other = FakeMatrix(CELLS, tmp_path, Installation.__new__(Installation), Silent())
    with one, pytest.raises(MatrixError, match="writes a matrix here; stop it"):
        other.measure()


def test_a_comparison_is_not_measured_by_two_at_once(tmp_path: Path, run: Path) -> None:
    one = compare.Journal(tmp_path / "runs.jsonl", compare.FORM, order().header())
    other = FakeCompare(order(), tmp_path, tmp_path / "store", Silent(), page_alone, judged_once, source=run)
    with one, pytest.raises(compare.CompareError, match="writes a comparison here; stop it"):
        other.measure()


# --- prove ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def undelete(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Scenario, Path]]:
    monkeypatch.setattr(prove, "ScenarioScript", Unscripted)
    yield read_scenario(files.LIBRARY / "undelete.yaml"), failed_run(tmp_path / "recorded")


@pytest.mark.parametrize("error", ERRORS, ids=lambda e: type(e).__name__)
def test_a_scenario_that_cannot_run_is_not_run_and_the_others_are_proven(
    error: BaseException, undelete: tuple[Scenario, Path], tmp_path: Path, unversioned: None
) -> None:
    scenario, source = undelete
    broken = scenario.model_copy(update={"scenario": "broken"})
    absent = scenario.model_copy(update={"scenario": "own", "catalog": str(tmp_path / "gone.yaml")})

    def act(name: str) -> None:
        if name == "broken":
            raise error

    bench: Any = FakeBench(source, act)
    finished: list[prove.Proof] = []
    proofs, _ = prove.prove(
        [absent, broken, scenario],
        Installation.__new__(Installation),
        tmp_path / "store",
        Heard(),
        page_alone,
        on=bench,
        finished=finished.append,
    )
    found = {p.scenario: p for p in proofs}
    assert [p.scenario for p in finished] == ["own", "broken", "undelete"]
    assert found["own"].state == found["broken"].state == "not run"
    assert str(error) in found["broken"].why[0] and "gone.yaml" in found["own"].why[0]
    assert "undelete" in found["undelete"].found and found["undelete"].state != "not run"


# --- the exit code ----------------------------------------------------------------------------------------------------


class OnRecorded:
    """A stack of a time to find, whose second run fails."""

    def __init__(self, source: Path) -> None:
        self.source, self.runs = source, 0

    def run(self, workload: Workload, folder: RunFolder, *, seed: int, command: str, seen: Any) -> None:
        self.runs += 1
        run_of(self.source, folder, workload.catalog, seed)
        if self.runs == 2:
            raise BUG

    def close(self) -> None:
        pass


COMPARED = ("--seed", "1", "--seeds", "2", "--lake", "no", "--into", "c")


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("compare", "quick", "--catalog", "rest,jdbc", *COMPARED), 2),
        (("sweep", "quick", "--vary", "writers=1,2", "--catalog", "jdbc", *COMPARED), 2),
        (("matrix", "--limit", "24", "--into", "m"), 2),
        (("prove", "undelete", "insert-twice", "--lake", "no"), 1),
        (("time-to-find", "undelete", "--order", "free", "--seeds", "3", "--budget", "1s", "--lake", "no"), 255),
    ],
    ids=lambda x: x[0] if isinstance(x, tuple) else "",
)
def test_a_command_of_which_one_job_failed_says_so_by_its_exit_code(
    words: tuple[str, ...], code: int, run: Path, tmp_path: Path, unversioned: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def one_batch(cells: Sequence[MatrixCell]) -> None:
        if CELLS[0] in cells:
            raise BUG

    def one_scenario(name: str) -> None:
        if name == "insert-twice":
            raise BUG

    source, act = failed_run(tmp_path / "recorded"), raising(BUG, 2)
    more: dict[str, Any] = {"judge": judged_once, "source": run, "act": act}
    monkeypatch.setattr(setup, "ensure_release", lambda release: Installation.__new__(Installation))
    monkeypatch.setattr(compare, "Compare", partial(FakeCompare, **more))
    monkeypatch.setattr(sweep, "Sweep", partial(FakeSweep, **more))
    monkeypatch.setattr(FakeMatrix, "act", staticmethod(one_batch))
    monkeypatch.setattr(matrix, "Matrix", FakeMatrix)
    monkeypatch.setattr(prove, "ScenarioScript", Unscripted)
    monkeypatch.setattr(prove, "Bench", lambda *_, **__: FakeBench(source, one_scenario))
    stack = OnRecorded(run)
    searching = partial(timetofind.TimeToFind, start=lambda *_: stack, judge=judged_once)
    monkeypatch.setattr(timetofind, "TimeToFind", searching)
    done = inside(*words, "--session", "fast", cwd=tmp_path)
    assert done.returncode == code, done.stdout + done.stderr
    assert "cannot be run: ZeroDivisionError: a bug" in done.stderr
