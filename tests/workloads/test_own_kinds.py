"""Kinds of operations from elsewhere: those that a workload file names by module and class, and what is said when there is none."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from checkers.evidence.runfolder import RunFolder, StoreError, load_kinds, save_kinds
from tests.support.examples import PAGE, example, kinds_of_its_own, write_example
from workloads import generator
from workloads.file.workload import Workload, WorkloadError
from workloads.file.workload_text import load, parse
from workloads.operations.kinds import BUILT_IN, KINDS

WORKLOAD = """\
workload: own
tables: [{name: t}]
writers: 2
length: {ops: 60}
operations:
  my_kind:Multiply: {weight: 2, factor: 3, rows: 2}
  insert: 1
"""


@pytest.fixture(autouse=True)
def forget() -> Iterator[None]:
    with kinds_of_its_own():
        yield


def written(folder: Path, text: str = WORKLOAD) -> Path:
    path = folder / "own.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def drawn(workload: Workload) -> list[generator.PlannedOperation]:
    (phase,) = workload.resolved_phases()
    return [o for n in range(2) for o in generator.operations(workload, phase, n, seed=1)]


def test_the_page_shows_a_whole_kind_in_fifty_lines() -> None:
    assert len(example("my_kind.py").splitlines()) <= 50
    assert "my_kind:Multiply" in PAGE.read_text(encoding="utf-8")


def test_a_kind_beside_the_workload_file_is_generated_by_its_name(tmp_path: Path) -> None:
    write_example("my_kind.py", tmp_path)
    workload = load(written(tmp_path))
    assert list(workload.operations) == ["multiply", "insert"]
    assert workload.operations["multiply"].options() == {"factor": 3, "rows": 2}
    mine = [o.value for o in drawn(workload) if o.f == "multiply"]
    assert mine and all(v["factor"] == 3 and len(v["ids"]) <= 2 for v in mine)


def test_a_kind_is_found_on_pythonpath(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "lib").mkdir()
    write_example("my_kind.py", tmp_path / "lib")
    monkeypatch.delenv("ICEQUAKE_PYTHONPATH", raising=False)
    with pytest.raises(WorkloadError, match=r"no my_kind\.py in .* nor on PYTHONPATH"):
        load(written(tmp_path))
    monkeypatch.setenv("ICEQUAKE_PYTHONPATH", f"/nowhere:{tmp_path / 'lib'}")
    assert "multiply" in load(written(tmp_path)).operations


def test_a_phase_and_a_later_mix_may_use_it(tmp_path: Path) -> None:
    write_example("my_kind.py", tmp_path)
    text = WORKLOAD.replace(
        "length: {ops: 60}",
        "phases:\n- {name: a, length: {ops: 2}, operations: {my_kind:Multiply: 1}}\n"
        "- {name: b, length: {ops: 2}, operations: {multiply: 1}}",
    )
    workload = load(written(tmp_path, text))
    assert [list(p.operations or ()) for p in workload.phases] == [["multiply"], ["multiply"]]


BASE = "from workloads.operations.kind import Kind\nfrom workloads.operations.updates import UpdateCounter\n"


@pytest.mark.parametrize(
    ("key", "module", "message"),
    [
        ("none:Such", "", "there is no none.py in "),
        ("my kind:Such", "", "must be a module and a class in it, such as my_module:MyKind"),
        ("own:", "", "must be a module and a class in it"),
        ("own:Such", "class Other: ...", "own.py has no class Such; it has Other"),
        ("own:Such", "import nothing_of_that_name", "own.py cannot be imported: ModuleNotFoundError"),
        ("own:Such", "class Such(:", "own.py cannot be imported: SyntaxError"),
        ("own:Such", "class Such: ...", "is not a class derived from workloads.operations.kind.Kind"),
        ("own:Such", "Such = 3", "is not a class derived from"),
        ("own:Such", "class Such(Kind):\n name = 'such'", "lacks the methods arguments, statements, touches, writeset"),
        ("own:Such", "class Such(UpdateCounter):\n name = None", "lacks name"),
        (
            "own:Such",
            "class Such(UpdateCounter):\n name = 'such'\n verb = 'do'",
            "has the verb 'do'; allowed: insert, update",
        ),
        (
            "own:Such",
            "class Such(UpdateCounter):\n told = True",
            "states told, which nothing reads; it is called by_facts",
        ),
        (
            "own:Such",
            "class Such(UpdateCounter):\n write = False",
            "states write, which nothing reads; it is called writes",
        ),
        (
            "own:Such",
            "class Such(UpdateCounter):\n name = 'delete'",
            "has the name delete, which is taken; give it another name",
        ),
    ],
)
def test_what_is_no_kind_is_refused_with_file_line_and_reason(
    tmp_path: Path, key: str, module: str, message: str
) -> None:
    if module:
        (tmp_path / "own.py").write_text(BASE + module)
    path = written(tmp_path, WORKLOAD.replace("my_kind:Multiply: {weight: 2, factor: 3, rows: 2}", f"'{key}': 1"))
    before = set(KINDS)
    with pytest.raises(WorkloadError) as error:
        load(path)
    assert str(error.value).startswith(f"{path}:6: {key}: ") and message in str(error.value)
    assert set(KINDS) == before


def test_what_a_kind_has_for_itself_alone_is_no_mistake(tmp_path: Path) -> None:
    own = "class Such(UpdateCounter):\n name = 'such'\n _told = 1\n factor = 3\n def helper(self) -> None: ..."
    (tmp_path / "own.py").write_text(BASE + own)
    load(written(tmp_path, WORKLOAD.replace("my_kind:Multiply: {weight: 2, factor: 3, rows: 2}", "'own:Such': 1")))


def test_two_kinds_of_one_file_have_two_names(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(
        BASE + "class A(UpdateCounter):\n name = 'twin'\n\n\nclass B(UpdateCounter):\n name = 'twin'\n"
    )
    mix = "operations:\n  own:A: 1\n  own:B: 1\n"
    path = written(tmp_path, WORKLOAD.partition("operations:")[0] + mix)
    with pytest.raises(WorkloadError, match=r"own.yaml:7: own:B: has the name twin, which own:A has; give it another"):
        load(path)


def test_an_option_that_it_does_not_take_is_told_by_its_line(tmp_path: Path) -> None:
    write_example("my_kind.py", tmp_path)
    path = written(tmp_path, WORKLOAD.replace("factor: 3", "faktor: 3"))
    with pytest.raises(
        WorkloadError, match=r"own.yaml:6: faktor: multiply has no such option \(did you mean factor\?\)"
    ):
        load(path)


def test_an_option_of_nobody_is_still_refused() -> None:
    text = WORKLOAD.replace("my_kind:Multiply: {weight: 2, factor: 3, rows: 2}", "insert-select: {wieght: 2}")
    with pytest.raises(
        WorkloadError, match=r"w.yaml:6: wieght: insert-select has no such option \(did you mean weight"
    ):
        parse(text, "w.yaml")


def test_a_run_keeps_the_module_and_another_process_finds_it_there(tmp_path: Path) -> None:
    write_example("my_kind.py", tmp_path)
    workload = load(written(tmp_path))
    run = RunFolder(tmp_path / "run")
    run.path.mkdir()
    kinds = save_kinds(run, workload.operations)
    assert kinds == {"multiply": "my_kind:Multiply"}
    (tmp_path / "my_kind.py").unlink()
    code = (
        "import sys; from pathlib import Path; from checkers.evidence.runfolder import RunFolder, load_kinds;"
        "from workloads.operations.kinds import KINDS; assert 'multiply' not in KINDS;"
        "load_kinds(RunFolder(Path(sys.argv[1])), {'kinds': {'multiply': 'my_kind:Multiply'}}); print(KINDS['multiply'].verb)"
    )
    told = subprocess.run([sys.executable, "-c", code, run.path], capture_output=True, text=True, check=False)
    assert (told.returncode, told.stdout) == (0, "update\n"), told.stderr


def test_a_run_whose_module_is_gone_says_so(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    load_kinds(run, {})
    with pytest.raises(StoreError, match=r"plan.yaml: kinds: lost: there is no lost_kind.py in .*/kinds"):
        load_kinds(run, {"kinds": {"lost": "lost_kind:Lost"}})
    with pytest.raises(StoreError, match=r"plan.yaml: kinds: must be names, each with module:Class"):
        load_kinds(run, {"kinds": ["lost"]})


def test_one_new_file_in_the_folder_is_enough(tmp_path: Path) -> None:
    """A copy of the package with one more file has one more kind."""
    root = Path(__file__).parents[2]
    subprocess.run(["cp", "-r", root / "workloads", root / "nemesis", root / "compose", tmp_path], check=True)
    write_example("my_kind.py", tmp_path / "workloads" / "operations")
    code = "from workloads.operations.kinds import BUILT_IN, KINDS; print(*sorted(BUILT_IN)); print(KINDS['multiply'].name)"
    told = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert set(told.stdout.split()) == {*BUILT_IN, "multiply"}
