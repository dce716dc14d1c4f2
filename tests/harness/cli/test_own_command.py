"""The command of docs/extending.md, added to a copy: one new file, one list, one row of a page."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from checkers.selftest import recorded
from tests.support.examples import write_example
from tests.support.runs import ROOT, environment


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the harness that has the command, beside a recorded run."""
    here = tmp_path_factory.mktemp("checkout")
    shutil.copytree(ROOT / "harness", here / "harness", ignore=shutil.ignore_patterns("__pycache__"))
    cli = here / "harness" / "cli"
    write_example("longest.py", cli)
    app = (cli / "app.py").read_text(encoding="utf-8")
    added = app.replace("    lists,\n", "    lists,\n    longest,\n").replace(
        "    serve.ServeOptions,\n", "    serve.ServeOptions,\n    longest.LongestOptions,\n"
    )
    assert len(added.splitlines()) == len(app.splitlines()) + 2
    (cli / "app.py").write_text(added, encoding="utf-8")
    with zipfile.ZipFile(Path(recorded.__file__).with_name("recorded") / "quick-120.zip") as stored:
        stored.extractall(here / "store" / "quick" / "latest")
    return here


def typed(checkout: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "harness.cli.app", *words]
    path = f"{checkout}:{ROOT}"
    return subprocess.run(
        command, capture_output=True, text=True, cwd=checkout, env={**environment(), "PYTHONPATH": path}, timeout=120
    )


def test_a_command_of_one_file_is_listed_helps_and_runs(checkout: Path) -> None:
    assert re.search(r"^  longest +Show long operations\.$", typed(checkout, "--help").stdout, re.MULTILINE)
    assert "Only those that took longer: 500ms, 2s." in typed(checkout, "longest", "--help").stdout
    done = typed(checkout, "longest", "store/quick/latest", "--top", "2")
    assert done.returncode == 0, done.stderr
    *rows, again = done.stdout.splitlines()
    assert len(rows) == 2 and all(re.fullmatch(r" *\d+\.\d{3} s  \S+  \S+", row) for row in rows)
    assert again == f"again  icequake longest {checkout}/store/quick/latest --top 2"
    words = shlex.split(again)[2:]
    assert typed(checkout, *words).stdout == done.stdout, "the line that repeats it does so"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--over", "soon"], "--over soon: must be a length of time"),
        (["--top", "0"], "must be at least 1"),
        (["--store", "nowhere"], "there is no store"),
    ],
)
def test_what_its_fields_say_is_refused_with_the_help(checkout: Path, words: list[str], says: str) -> None:
    done = typed(checkout, "longest", *words)
    assert done.returncode == 254
    assert says in done.stderr and done.stderr.rstrip().endswith("see `icequake longest --help`")


def test_it_has_a_dry_run_without_a_line_of_its_own(checkout: Path) -> None:
    done = typed(checkout, "longest", "--store", "nowhere", "--dry-run")
    assert (done.returncode, done.stdout) == (0, "can be typed; nothing was started\n")
