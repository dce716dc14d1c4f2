"""The workflow file of docs/ci.md is YAML that runs: each command, option and file in it exists."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from checkers.verdict import exit_code
from harness.cli.app import app
from tests.test_docs import FENCE, ROOT
from workloads.file import workload

PAGE = (ROOT / "docs" / "ci.md").read_text(encoding="utf-8")
BLOCKS = [(m[0].split("\n")[0].strip("`"), "\n".join(m[0].split("\n")[1:-1])) for m in FENCE.finditer(PAGE)]
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))


def workflow() -> dict[Any, Any]:
    """The one YAML block."""
    (text,) = [text for kind, text in BLOCKS if kind == "yaml"]
    found = yaml.safe_load(text)
    assert isinstance(found, dict)
    return found


def steps() -> list[dict[str, Any]]:
    (job,) = workflow()["jobs"].values()
    return list(job["steps"])


def commands() -> Iterator[list[str]]:
    """The words of every command of ours on the page, without what the shell adds."""
    scripts = [s["run"] for s in steps() if "run" in s]
    scripts += [text for kind, text in BLOCKS if kind == "console"]
    for line in "\n".join(scripts).splitlines():
        line = line.strip().removeprefix("$ ")
        if line.startswith(("./icequake", "make ")):
            yield shlex.split(re.split(r" \|\| | && |;|>", line)[0])
    for code in re.findall(r"`(\./icequake [^`]+)`", FENCE.sub("", PAGE)):
        yield shlex.split(code)


def test_the_workflow_has_what_a_workflow_needs() -> None:
    w = workflow()
    assert w["name"] and ("on" in w or True in w), "YAML reads the key `on` as true"
    (job,) = w["jobs"].values()
    assert job["runs-on"] and job["timeout-minutes"] >= 30
    assert all(("uses" in s) != ("run" in s) for s in steps())
    assert all(re.fullmatch(r"actions/[a-z-]+@v\d+", s["uses"]) for s in steps() if "uses" in s)


@pytest.mark.parametrize("words", list(commands()), ids=" ".join)
def test_every_command_and_option_exists(words: list[str]) -> None:
    if words[0] == "make":
        assert set(words[1:]) <= TARGETS
        return
    root = typer.main.get_command(app)
    context = typer.Context(root)
    if words[1:] == ["--version"]:
        assert any("--version" in p.opts for p in root.params)
        return
    command = root.get_command(context, words[1])  # type: ignore[attr-defined]
    assert command is not None, f"no command {words[1]}"
    known = {o for p in command.params for o in (*p.opts, *p.secondary_opts)}
    assert {w.partition("=")[0] for w in words[2:] if w.startswith("-")} <= known
    if words[1] == "run":
        assert workload.find(words[2]).is_file()


def test_the_key_of_the_cache_covers_files_that_exist_and_change_what_is_installed() -> None:
    (cache,) = [s["with"] for s in steps() if str(s.get("uses", "")).startswith("actions/cache")]
    (files,) = re.findall(r"hashFiles\(([^)]*)\)", cache["key"])
    patterns = re.findall(r"'([^']+)'", files)
    covered = {p for pattern in patterns for p in ROOT.glob(pattern if "**" not in pattern else pattern + "/*")}
    locks = {ROOT / "requirements.lock", *(ROOT / "compose" / "install").glob("*.lock")}
    assert locks <= covered and len(locks) >= 5
    assert set((ROOT / "compose" / "install" / "java").glob("*.java")) <= covered


def test_the_exit_codes_of_the_page_are_those_of_a_verdict() -> None:
    (judge,) = [s["run"] for s in steps() if s.get("name") == "judge"]
    assert exit_code(True) == 0 and "0) ;;" in judge
    assert exit_code("unknown") == 2 and "2) echo" in judge
    assert exit_code(False) == 1 and '*) exit "$code"' in judge
    rows = re.findall(r"^\| (\d+) \| ", PAGE, re.MULTILINE)
    of_commands = re.findall(
        r"^\| (\d+) \| ", (ROOT / "docs" / "commands.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert set(rows) <= set(of_commands)


def test_the_page_names_no_host_of_a_registry() -> None:
    assert not re.search(r"https?://", PAGE)


def checks(
    place: Path, fails: str = "", minutes: str | None = None, seconds: int = 150
) -> subprocess.CompletedProcess[str]:
    """``.ci/run`` with a make that does nothing and fails at one target, and a clock that says ``seconds`` more each time it is asked."""
    scripts = {
        "make": f'echo "$1" >> "{place}/made"; [ "$1" != "{fails}" ]',
        "date": f'echo x >> "{place}/asked"; echo $(({seconds} * $(wc -l < "{place}/asked")))',
    }
    for name, text in scripts.items():
        (place / name).write_text(f"#!/bin/sh\n{text}\n")
        (place / name).chmod(0o755)
    env = {name: value for name, value in os.environ.items() if name != "CI_MINUTES"}
    env |= {"PATH": f"{place}:{env['PATH']}"} | ({} if minutes is None else {"CI_MINUTES": minutes})
    return subprocess.run([ROOT / ".ci" / "run"], capture_output=True, text=True, env=env, timeout=60)


def test_the_checks_say_how_long_each_part_takes_and_end_at_the_first_that_fails(tmp_path: Path) -> None:
    done = checks(tmp_path)
    parts = ["setup", "lint", "test"]
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "made").read_text().split() == parts and {*parts} <= TARGETS
    assert done.stderr == f"ci: {', '.join(f'{p} 2 min 30 s' for p in parts)}\n"
    (tmp_path / "made").unlink()
    failed = checks(tmp_path, fails="lint")
    assert failed.returncode == 1 and (tmp_path / "made").read_text().split() == parts[:2]
    assert "ci: make lint failed" in failed.stderr and "setup 2 min 30 s, lint 2 min 30 s" in failed.stderr


def test_checks_that_take_too_long_fail_and_what_is_installed_first_does_not_count(tmp_path: Path) -> None:
    assert checks(tmp_path, minutes="5").returncode == 0
    late = checks(tmp_path, minutes="4")
    assert late.returncode == 1 and "5 min are more than 4" in late.stderr


def test_checks_that_miss_the_aim_say_so_and_pass(tmp_path: Path) -> None:
    met = checks(tmp_path, seconds=60 * 12)
    assert met.returncode == 0 and "note" not in met.stderr
    missed = checks(tmp_path, seconds=60 * 40)
    assert missed.returncode == 0 and "note: 80 min are more than the aim of 25" in missed.stderr
    assert checks(tmp_path, seconds=60 * 41).returncode == 1


def made(place: Path, target: str, fails: str = "nothing", first: str = ":") -> tuple[int, str, list[str]]:
    """``make`` with a Python that does nothing: exit code, output, and which tests it was to run.

    Args:
        fails: Python fails if it is called with that.
        first: what Python does before it ends, in the language of the shell.
    """
    python = place / "python"
    script = f'echo "$@" >> "{place}/called"; {first}; case "$*" in *"{fails}"*) echo it failed; exit 1;; esac'
    python.write_text(f"#!/bin/sh\n{script}\n")
    python.chmod(0o755)
    words = ("--no-print-directory", target, f"PYTHON={python}", "JOBS=1", f"PLAIN_LOG={place}/log")
    done = subprocess.run(["make", *words], capture_output=True, text=True, cwd=ROOT, timeout=60)
    called = (place / "called").read_text()
    return done.returncode, done.stdout, re.findall(r" -m ((?:not |and |spark |docker |nightly )+)", called)


ONE_BY_ONE = ["docker", "spark"]
"""Which tests run one after the other, and the others beside them."""
BESIDE = "not spark and not docker"


def test_make_test_runs_all_but_the_nightly_ones(tmp_path: Path) -> None:
    code, said, ran = made(tmp_path, "test")
    assert code == 0 and "make test-all runs all" in said
    ran.remove(f"{BESIDE} and not nightly ")
    assert ran == [f"{one} and not nightly " for one in ONE_BY_ONE]


@pytest.mark.parametrize("other", ONE_BY_ONE)
def test_make_test_runs_the_plain_ones_beside_the_others(tmp_path: Path, other: str) -> None:
    """Each waits for the other one to be there, too."""
    os.mkfifo(tmp_path / "met")
    code, _, ran = made(
        tmp_path,
        "test",
        first=f'case "$*" in *"-m {BESIDE}"*) read _ < "{tmp_path}/met";; *"-m {other}"*) echo > "{tmp_path}/met";; esac',
    )
    assert code == 0 and len(ran) == 3


def test_make_test_all_leaves_out_none(tmp_path: Path) -> None:
    code, said, ran = made(tmp_path, "test-all")
    assert code == 0 and "nightly" not in said
    ran.remove(f"{BESIDE} ")
    assert [one.strip() for one in ran] == ONE_BY_ONE


@pytest.mark.parametrize("fails", ["-m not spark", "-m docker", "-m spark"])
def test_make_test_fails_if_any_of_its_parts_does_and_runs_the_others(tmp_path: Path, fails: str) -> None:
    code, said, ran = made(tmp_path, "test", fails)
    assert code != 0 and "it failed" in said and len(ran) == 3


COLLECT = """
import sys
import pytest

class Rows:
    def pytest_collection_modifyitems(self, items):
        for item in items:
            test = item.nodeid.partition("[")[0]
            print(test, "nightly" if item.get_closest_marker("nightly") else "always", sep="\\t")

sys.exit(pytest.main(["--collect-only", "-q", "-n", "0", "-m", "", *sys.argv[1:]], plugins=[Rows()]))
"""
"""Prints a line for each row of the tests of some files: its test, and whether it runs at night alone."""


def test_a_nightly_test_is_one_more_row_of_a_test_that_make_test_runs() -> None:
    """So nothing is shown at night alone."""
    files = [
        str(path) for path in (ROOT / "tests").rglob("test_*.py") if "mark.nightly" in path.read_text(encoding="utf-8")
    ]

    told = subprocess.run(
        [sys.executable, "-c", COLLECT, *files], cwd=ROOT, capture_output=True, text=True, timeout=300
    )
    assert told.returncode == 0, told.stdout + told.stderr
    rows = [line.split("\t") for line in told.stdout.splitlines() if "\t" in line]
    at_night = {test for test, which in rows if which == "nightly"}
    assert at_night and at_night <= {test for test, which in rows if which == "always"}
