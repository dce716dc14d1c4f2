"""The order of the folders: ``make lint`` refuses an import that runs up, or in a circle, and every folder says its question."""

from __future__ import annotations

import ast
import shutil
import subprocess
import sys
import tomllib
from collections import Counter
from pathlib import Path

import pytest

from nemesis.operation_key import OPERATION_KEY
from tests.support.runs import ROOT, environment
from tests.support.sources import PACKAGES, sources

NO_CIRCLES = "no circles"


def lint(checkout: Path) -> subprocess.CompletedProcess[str]:
    """What ``make lint`` says of the imports of a checkout."""
    program = Path(sys.executable).with_name("lint-imports")
    command = [sys.executable, "-P", str(program), "--no-cache"]
    return subprocess.run(
        command, cwd=checkout, env=environment(PYTHONPATH=str(checkout)), capture_output=True, text=True, timeout=300
    )


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The packages of this checkout, to be spoilt."""
    place = tmp_path_factory.mktemp("checkout")
    for folder in PACKAGES:
        shutil.copytree(ROOT / folder, place / folder, ignore=shutil.ignore_patterns("__pycache__", "*.zip", "*.jar"))
    shutil.copy(ROOT / "pyproject.toml", place)
    return place


def test_the_imports_of_this_checkout_run_down(checkout: Path) -> None:
    done = lint(checkout)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    ("file", "line", "contract"),
    [
        ("nemesis/faults/lengths.py", "from workloads.tables import Row", "floors"),
        ("workloads/tables.py", "from compose.endpoints import Endpoints", "floors"),
        ("compose/endpoints.py", "from checkers.evidence.history import Event", "floors"),
        ("checkers/verdict.py", "from reports.drawing.words import number", "floors"),
        ("checkers/timeline/explain.py", "from checkers.commits import Commits", "checkers"),
        ("checkers/commits/checker.py", "from checkers.replay.walk import Replay", "checkers"),
        ("checkers/replay/walk.py", "from checkers.formats.iceberg.metadata.checker import Metadata", "checkers"),
        ("harness/run/settings.py", "from harness.experiments.matrix import Matrix", "harness"),
        ("compose/processes/ports.py", "from compose.stack.stack import Stack", "compose"),
        ("reports/drawing/svg.py", "from reports.run.page import render", "reports"),
        ("workloads/ddl.py", "from workloads.operations.kinds import KINDS", "workloads"),
        ("nemesis/wires/pipe.py", "from nemesis.processes import Processes", "nemesis"),
        ("harness/writers/session.py", "from workloads.tables import Row", "the writer's session is light"),
        (
            "checkers/commits/checker.py",
            "from checkers.formats.iceberg.records import IcebergCommit",
            "only Iceberg's own parts know its records",
        ),
        (
            "checkers/commits/checker.py",
            "from checkers.formats.delta.records import DeltaCommit",
            "only Delta's own parts know its records",
        ),
        (
            "harness/tablefiles/iceberg/rows.py",
            "from harness.tablefiles.delta.vectors import z85",
            "table files",
        ),
    ],
)
def test_an_import_that_runs_up_is_refused(checkout: Path, file: str, line: str, contract: str) -> None:
    path = checkout / file
    whole = path.read_text()
    path.write_text(f"{whole}\n\ndef _spoilt() -> None:\n    {line}\n")
    try:
        done = lint(checkout)
    finally:
        path.write_text(whole)
    assert done.returncode == 1
    assert f"{contract} BROKEN" in done.stdout
    assert file.removesuffix(".py").replace("/", ".") in done.stdout


@pytest.mark.parametrize("within", ["def _spoilt() -> None:", "from typing import TYPE_CHECKING\n\nif TYPE_CHECKING:"])
def test_an_import_that_closes_a_circle_is_refused(checkout: Path, within: str) -> None:
    path = checkout / "checkers/reads/bounds.py"
    whole = path.read_text()
    path.write_text(f"{whole}\n\n{within}\n    from checkers.reads.judge import TableReads\n")
    try:
        done = lint(checkout)
    finally:
        path.write_text(whole)
    assert done.returncode == 1
    assert f"{NO_CIRCLES} BROKEN" in done.stdout
    assert ".bounds -> .judge" in done.stdout or ".judge -> .bounds" in done.stdout


def test_every_contract_is_tried_here() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    marks = test_an_import_that_runs_up_is_refused.pytestmark  # type: ignore[attr-defined]
    assert {c["name"] for c in contracts} == {NO_CIRCLES, *(case[2] for case in marks[0].args[1])}


def test_every_folder_stands_in_a_contract() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    for folder in PACKAGES:
        (layers,) = [c["layers"] for c in contracts if c.get("containers") == [folder]]
        named = {name.strip().split(".")[0] for layer in layers for name in layer.split("|")}
        there = {p.name for p in (ROOT / folder).iterdir() if p.is_dir() and (p / "__init__.py").exists()}
        assert there <= named, f"{folder}: these stand in no layer"


@pytest.mark.parametrize("init", sorted(p for f in PACKAGES for p in (ROOT / f).rglob("__init__.py")), ids=str)
def test_every_folder_says_its_question(init: Path) -> None:
    doc = ast.get_docstring(ast.parse(init.read_text()))
    assert doc and doc.split("\n")[0].strip(), f"{init.parent}: its __init__ says in a line which question it answers"


def test_the_key_of_an_operation_in_a_summary_stands_once() -> None:
    """Writers put it there, proxies and the table log's reader look for it: with another spelling in one place, commits lose their names."""
    texts = ((source.path.relative_to(ROOT).as_posix(), text) for source in sources() for text in source.texts)
    assert [file for file, text in texts if text == OPERATION_KEY] == ["nemesis/operation_key.py"]


def test_a_file_name_stands_in_three_folders_at_most() -> None:
    """More files of one name have a name that does not say what is in them, unless they have the same role in each folder."""
    roles = {"__init__.py", "page.py", "checker.py"}
    paths = [p for folder in PACKAGES for p in (ROOT / folder).rglob("*.py") if p.name not in roles]
    assert {name: n for name, n in Counter(p.name for p in paths).items() if n > 3} == {}


def test_the_folders_of_tests_are_the_folders_of_the_product() -> None:
    """A folder of tests is named as what it tests, so both are found by one name (``CONTRIBUTING.md``)."""
    tests = [f.parent.relative_to(ROOT / "tests") for x in PACKAGES for f in (ROOT / "tests" / x).rglob("test_*.py")]
    assert [str(x) for x in sorted({*tests}) if not (ROOT / x).is_dir()] == []
