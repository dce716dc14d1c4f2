"""What a person types: wrong input is one line with a remedy and exit code 254, what the harness cannot do is 255."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Literal

import pytest
from typer.testing import CliRunner

from checkers.evidence.runfolder import RunFolder
from harness import __version__
from harness.cli.app import app
from tests.support.runs import ROOT, environment, icequake, inside
from workloads.file import scenario

SMALL = "workload: small\ntables: [{name: t}]\nlength: {ops: 3}\noperations: {insert: 1}\n"


def last_line(stderr: str) -> str:
    assert "Traceback" not in stderr
    lines = stderr.strip().splitlines()
    assert lines[-1].startswith("icequake: ")
    return lines[-1]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["run"], "Missing argument"),
        (["run", "quik"], "did you mean quick?"),
        (["run", "quick", "--ops", "none"], "should be a valid integer"),
        (["run", "quick", "--ops", "3", "--time", "3s"], "give one of them"),
        (["run", "quick", "--time", "soon"], "must be a length of time"),
        (["run", "quick", "--port", "rest"], "give SERVICE=PORT"),
        (["run", "quick", "--port", "web=80"], "services: minio"),
        (["run", "quick", "--writers", "0"], "greater than or equal to 1"),
        (["run", "quick", "--nemesis", "all"], "No such option"),
        (["run", "quick", "--iceberg", "1.10"], "allowed: 1.12.0, 1.11.0, 1.10.2, 1.10.1"),
        (["prove", "undelete", "--iceberg", "latest"], "no Iceberg release 'latest'"),
        (["run", "quick", "--iceberg", "1.8.1"], "format version 2 at most; the workload uses a newer one in events"),
        (["setup", "--iceberg", "0.1"], "no Iceberg release '0.1'"),
        (["dance"], "No such command"),
        (["list", "songs"], "allowed: workloads, scenarios, operations"),
        (["check", "nowhere"], "no such run"),
        (["report", "nowhere"], "no such run"),
        (
            ["matrix", "--against", "nowhere"],
            "--against nowhere: no matrix to compare with: nowhere/cells.jsonl: cannot be read",
        ),
    ],
)
def test_bad_arguments_are_one_line_and_254(arguments: list[str], says: str, tmp_path: Path) -> None:
    done = inside(*arguments, cwd=tmp_path)
    assert done.returncode == 254, done.stdout + done.stderr
    assert says in last_line(done.stderr)


def test_bad_arguments_end_the_process_with_254(tmp_path: Path) -> None:
    done = icequake("run", "quik", cwd=tmp_path)
    assert done.returncode == 254 and "did you mean quick?" in last_line(done.stderr)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (("insert: 1", "insrt: 1"), ":4: unknown operation 'insrt' (did you mean insert?)"),
        (("workload: small\n", ""), ":1: missing key 'workload'"),
        (("ops: 3", "ops: three"), ":3: ops: input should be a valid integer"),
        (("tables: [{name: t}]", "tables: 7"), ":2: tables: must be a list"),
        (("workload: small", "workload: 2020-99-99"), ":1: '2020-99-99': month must be in 1..12"),
    ],
)
def test_a_bad_workload_file_names_file_line_and_key(change: tuple[str, str], says: str, tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(SMALL.replace(*change))
    done = inside("run", file, "--store", tmp_path / "store", cwd=tmp_path)
    assert done.returncode == 254
    assert f"{file}{says}" in last_line(done.stderr)
    assert not (tmp_path / "store").exists()


def test_all_that_is_wrong_with_a_workload_file_is_a_line_each(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(SMALL.replace("name: t", "name: T").replace("ops: 3", "ops: 0") + "writers: true\n")
    done = inside("run", file, cwd=tmp_path)
    assert done.returncode == 254
    assert [line.split(": ")[1:3] for line in done.stderr.splitlines()] == [
        [f"{file}:2", "name"],
        [f"{file}:3", "ops"],
        [f"{file}:5", "writers"],
    ]


COMMANDS = [c.name or getattr(c.callback, "__name__", "") for c in app.registered_commands]


def test_every_command_is_there() -> None:
    assert sorted(COMMANDS) == sorted(
        [
            "run",
            "check",
            "export",
            "prove",
            "matrix",
            "compare",
            "selftest",
            "report",
            "list",
            "doctor",
            "setup",
            "up",
            "down",
        ]
    )


def test_the_command_line_loads_nothing_that_only_a_command_needs() -> None:
    script = (
        "import sys; import harness.cli.app\n"
        "heavy = {'pydantic', 'pyarrow', 'pandas', 'pyspark', 'jinja2', 'checkers', 'reports', 'nemesis'}\n"
        "print(sorted(heavy & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, cwd=ROOT)
    assert (done.returncode, done.stdout) == (0, "[]\n"), done.stderr


@pytest.mark.parametrize("markup", ["rich", None])
@pytest.mark.parametrize("width", [40, 80, 200])
@pytest.mark.parametrize("command", [[], *([name] for name in COMMANDS)], ids=lambda c: " ".join(c) or "icequake")
def test_help_is_there_at_every_width(
    command: list[str], width: int, markup: Literal["rich"] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app, "rich_markup_mode", markup)
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("TERMINAL_WIDTH", str(width))
    done = CliRunner().invoke(app, [*command, "--help"], terminal_width=width)
    assert done.exit_code == 0, done.exception
    assert "Usage:" in done.output


@pytest.mark.parametrize("command", [[], *([name] for name in COMMANDS)], ids=lambda c: " ".join(c) or "icequake")
def test_help_in_a_log_has_no_box_and_is_not_cut(command: list[str], tmp_path: Path) -> None:
    done = inside(*command, "--help", cwd=tmp_path, COLUMNS="80")
    assert done.returncode == 0, done.stderr
    assert not set("│╭╮╰╯─") & set(done.stdout)
    if not command:
        assert (
            "Judge a stored run again from its folder, or the history of another system; needs no Spark" in done.stdout
        )
    if command == ["run"]:
        assert "Your own object store: http://host:9000/bucket, or http://host:9000/bucket/prefix." in done.stdout


def test_the_version_is_that_of_the_package() -> None:
    done = icequake("--version")
    assert (done.returncode, done.stdout) == (0, f"icequake {__version__}\n")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert "version" not in project["project"] and project["project"]["dynamic"] == ["version"]
    assert project["tool"]["setuptools"]["dynamic"]["version"] == {"attr": "harness.__version__"}


def test_a_table_in_a_log_is_not_cut() -> None:
    done = icequake("list", "scenarios", env=environment(COLUMNS="80"))
    assert done.returncode == 0
    description = next(s.description for s in scenario.find(["rest-503-lost-commit"]))
    assert len(description) > 80 and description in done.stdout


def test_a_folder_that_is_no_run_is_said(tmp_path: Path) -> None:
    done = inside("check", tmp_path, cwd=tmp_path)
    assert done.returncode == 254 and "not the folder of a run" in last_line(done.stderr)


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "plan.yaml").write_text("tables: []\n")
    (tmp_path / "history.jsonl").write_text('{"format": 1}\n')
    (tmp_path / "results.json").mkdir()
    done = inside("check", tmp_path, cwd=tmp_path)
    message = last_line(done.stderr)
    assert done.returncode == 255 and "internal error" not in message
    assert "results.json: Is a directory" in message and "check that path, its owner and its permissions" in message


@pytest.mark.parametrize("process", [-5, 10**30])
def test_a_run_whose_process_cannot_be_one_is_incomplete(process: int, tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text(f'{{"state": "running", "pid": {process}, "pid_started": 1.5}}')
    assert RunFolder(tmp_path).state()["state"] == "incomplete"


def test_a_cache_that_cannot_be_one_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = inside("up", cwd=tmp_path, ICEQUAKE_HOME=str(tmp_path / "file"))
    message = last_line(done.stderr)
    assert done.returncode == 255 and "internal error" not in message and str(tmp_path / "file") in message


def test_a_store_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = inside("run", "quick", "--store", tmp_path / "file" / "store", cwd=tmp_path)
    assert done.returncode in (254, 255)
    assert "--store" in last_line(done.stderr)


def test_without_java_the_command_that_gets_one_is_said(tmp_path: Path) -> None:
    hide = (
        "import compose.install.jdk as jdk; jdk.installed = lambda: iter(()); from harness.cli.app import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", hide, "run", "quick", "--store", str(tmp_path / "store")],
        capture_output=True,
        text=True,
        timeout=300,
        env=environment(),
        cwd=ROOT,
    )
    assert done.returncode == 255
    message = last_line(done.stderr)
    assert "needs a JDK 17 or 21, found none; get one: " in message
    assert not (tmp_path / "store").exists()


def test_no_command_shows_what_there_is(tmp_path: Path) -> None:
    done = icequake(cwd=tmp_path)
    assert done.returncode == 254 and "Usage:" in done.stdout and done.stderr == ""


@pytest.mark.parametrize("what", ["workloads", "operations", "faults", "verbs", "checks", "catalogs", "runs"])
def test_lists(what: str, tmp_path: Path) -> None:
    done = inside("list", what, "--store", tmp_path, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    if what != "runs":
        assert len(done.stdout.splitlines()) > 1


def test_down_without_up_has_nothing_to_do(tmp_path: Path) -> None:
    done = inside("down", cwd=tmp_path, ICEQUAKE_HOME=str(tmp_path))
    assert done.returncode == 0 and "nothing was up" in done.stdout
