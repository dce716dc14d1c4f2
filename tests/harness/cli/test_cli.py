"""What a person types: wrong input is one line with a remedy and exit code 254, what the harness cannot do is 255."""

from __future__ import annotations

import errno
import os
import re
import shlex
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn, get_type_hints

import pytest
import typer
from typer.testing import CliRunner

from checkers.evidence.runfolder import RunFolder
from checkers.formats.iceberg.model import search
from checkers.isolation.levels import LEVELS
from checkers.judge.proof import Proof
from checkers.selftest import recorded
from compose.catalogs.registry import CATALOGS
from compose.external.external import External
from harness import __version__
from harness.cli import lists, names, options, services
from harness.cli.app import app
from harness.cli.experiments import ProveOptions
from harness.cli.lists import ListOptions
from harness.cli.run import RunOptions
from harness.experiments.compare import Compare
from harness.run import settings
from harness.run.resolve import read_workload
from nemesis.faults.packages import PACKAGES
from nemesis.faults.registry import VERBS
from tests.support.runs import ROOT, environment, icequake, inside
from workloads.engines.engines import ENGINES
from workloads.file import modelled, scenario, workload
from workloads.file.changes import Changes
from workloads.operations.kinds import BUILT_IN, KINDS

SMALL = "workload: small\ntables: [{name: t}]\nlength: {ops: 3}\noperations: {insert: 1}\n"


def last_line(stderr: str) -> str:
    assert "Traceback" not in stderr
    lines = stderr.strip().splitlines()
    assert lines[-1].startswith("icequake: ")
    return lines[-1]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["run"], "workload"),
        (["run", "quik"], "did you mean quick?"),
        (["run", "undelete"], "undelete is a scenario, not a workload; `icequake prove undelete` runs it"),
        (["prove", "quick"], "quick is a workload, not a scenario; `icequake run quick` runs it"),
        (["run", "quick", "--ops", "none"], "'--ops': must be a whole number; see"),
        (["run", "quick", "--ops", "3", "--time", "3s"], "give one of them"),
        (["run", "quick", "--time", "soon"], "must be a length of time"),
        (["run", "quick", "--ops", "9" * 23, "--dry-run"], "Invalid value for '--ops': must be at most 10000000"),
        (
            ["run", "quick", "--seed", "9" * 23, "--dry-run"],
            "Invalid value for '--seed': must be at most 9223372036854775807",
        ),
        (
            ["run", "quick", "--guard", "local"],
            "--guard local: quick has no Delta table whose commits it could guard; leave it out, or give --format delta",
        ),
        (
            ["soak", "smoke", "--for", "1h", "--runs", "3"],
            "--for 1h and --runs 3: a night ends by its time or by its number of runs; give one of them",
        ),
        (
            ["run", "quick", "--order", "pct"],
            "--order: must be free, priority(D) with D from 1 to 100, coverage, or replay RUN",
        ),
        (["run", "quick", "--order", "priority(0)"], "--order: priority(0): the depth must be from 1 to 100"),
        (["run", "quick", "--order", "replay"], "replay needs a run: replay RUN, with the folder of a run or its rec"),
        (["run", "quick", "--order", "replay none"], "--order replay none: none: no such run"),
        (
            ["run", "quick", "--session", "fsat", "--cluster", "lokal"],
            "--session fsat: unknown value 'fsat' (did you mean fast?); allowed: spark, fast; --cluster lokal: ",
        ),
        (
            ["export", "undelete", "--as", "scrpt"],
            "--as scrpt: unknown form 'scrpt' (did you mean script?); allowed: l",
        ),
        (["export", "undelete", "--as", "register"], "undelete is a scenario; give --as script or --as issue, or "),
        (["sweep", "quikc"], "quikc: no such experiment or workload (did you mean quick?); experiments: appends"),
        (["model", workload.LIBRARY / "quick.yaml"], "a workload file, not a model file; `icequake run "),
        (
            ["prove", "undelete", "--cluster", "yarn"],
            "--cluster yarn: unknown value 'yarn'; allowed: standalone, local",
        ),
        (
            ["run", "storm", "--cluster", "local"],
            "with --cluster local: packages: all strikes executor and spark-master and spark-worker, and cluster: local has none",
        ),
        (
            ["run", "storm", "--spark", "local[2]"],
            "with --spark local[2]: packages: all strikes executor and spark-master and spark-worker, and cluster: local has none",
        ),
        (
            ["run", "quick", "--cluster", "local", "--port", "spark-master-ui=4711"],
            "--port spark-master-ui: cluster: local starts no spark-master; leave it out",
        ),
        (["run", "quick", "--port", "rest"], "give SERVICE=PORT"),
        (["run", "quick", "--port", "web=80"], "unknown service 'web'; allowed: minio"),
        (
            ["run", "quick", "--port", "rest=99999"],
            "--port rest=99999: 99999 is no port; give a number from 1 to 65535",
        ),
        (["run", "quick", "--port", "rest="], "--port rest=: nothing is no port; give a number from 1 to 65535"),
        (["run", "duckdb"], "an engine, not a workload; `icequake run quick --writers spark=1,duckdb=1` lets it write"),
        (["run", "spark"], "`icequake run quick --writers spark=2`"),
        (["run", workload.LIBRARY / "suites/smoke.yaml"], "a suite file, not a workload file; `icequake soak "),
        (["soak", workload.LIBRARY / "quick.yaml"], "this is a workload file, not a suite file; `icequake run "),
        (["prove", workload.LIBRARY / "quick.yaml"], "this is a workload file, not a scenario file; `icequake run "),
        (["certify", workload.LIBRARY / "quick.yaml"], "quick.yaml is a workload file; `icequake run "),
        (["check", workload.LIBRARY / "quick.yaml"], "this is a workload file, not a history; `icequake run "),
        (["check", workload.LIBRARY / "suites/smoke.yaml"], "this is a suite file, not a history; `icequake soak "),
        (
            ["shrink", workload.LIBRARY / "quick.yaml"],
            "this is a workload file, not the folder of a run; `icequake run ",
        ),
        (
            ["explain", workload.LIBRARY / "quick.yaml"],
            "is no name but a file or folder, a workload file; `icequake run ",
        ),
        (["check", workload.LIBRARY / "quick.yaml", workload.LIBRARY / "mixed.yaml"], "check each history alone"),
        (["run", "quick", "--iceberg", "1.7.0"], "no Iceberg release '1.7.0' (did you mean 1.8.1?); allowed: 1.12.0"),
        (["run", "quick", "--iceberg", "1.11.9"], "no Iceberg release '1.11.9' (did you mean 1.11.0?)"),
        (
            ["run", "quick", "--catalog", workload.LIBRARY / "quick.yaml"],
            "a workload file, not the file of a catalog; ",
        ),
        (["up", "--docker"], "docker compose -f compose/docker/compose.yaml --profile nessie up --wait"),
        (["run", "quick", "--writers", "0"], "--writers 0: must be 1 to 64 in all"),
        (["run", "quick", "--writers", "65"], "--writers 65: must be 1 to 64 in all"),
        (["run", "quick", "--writers", "duckdbb=1"], "unknown engine 'duckdbb' (did you mean duckdb?)"),
        (["run", "quick", "--writers", "spark=1,spark=2"], "--writers spark=1,spark=2: spark is given twice"),
        (["run", "quick", "--writers", "spark=1,2"], "give a number, or how many of each engine: spark=3,duckdb=1"),
        (
            ["compare", "quick", "--engine", "spark,duckdb", "--writers", "spark=1,duckdb=2"],
            "--writers spark=1,duckdb=2: --engine says whose the writers are; give their number",
        ),
        (["run", "quick", "--writers", "spark="], "give a number, or how many of each engine: spark=3,duckdb=1"),
        (["run", "quick", "--nemesis", "all"], "--nemesis"),
        (["run", "quick", "--stop-on-anomaly", "--no-online"], "leave --no-online out"),
        (
            ["run", "quick", "--iceberg", "1.10"],
            "'1.10' (did you mean 1.10.2?); allowed: 1.12.0, 1.11.0, 1.10.2, 1.10.1",
        ),
        (["run", "quick", "--iceberg", "1.12"], "no Iceberg release '1.12' (did you mean 1.12.0?)"),
        (["prove", "undelete", "--iceberg", "latest"], "no Iceberg release 'latest'"),
        (["prove", "delta-lost-commit", "--delta", "4.3"], "4.3.1, 4.3.0"),
        (["prove", "delta-rs-lost-reply", "--deltalake", "1.6"], "1.6.6, 1.6.3"),
        (["prove", "delta-lost-commit", "--delta", "4.4.0,4.3"], "4.3.1, 4.3.0"),
        (["prove", "delta-lost-commit", "--delta", "4.4.0,4.4.0"], "4.4.0 is given twice"),
        (
            ["prove", "delta-rs-overwritten", "--delta", "4.4.0,4.3.1", "--deltalake", "1.6.6,1.6.3"],
            "give several releases to one of these options, and one release to the other",
        ),
        (
            ["prove", "undelete", "delta-rs-compactions", "delta-rs-compactions-refused", "--deltalake", "1.6.6,1.6.3"],
            "--deltalake 1.6.6,1.6.3: with each of these it would be the same run; leave out: undelete, delta-rs-compactions-refused",
        ),
        (
            ["prove", "undelete", "--delta", "4.4.0,4.3.1"],
            "--delta 4.4.0,4.3.1: with each of these it would be the same run; leave out: undelete",
        ),
        (["run", "quick", "--iceberg", "1.8.1"], "format version 2 at most; the workload uses a newer one in events"),
        (["setup", "--iceberg", "0.1"], "no Iceberg release '0.1'"),
        (["dance"], "dance"),
        (["--verbose", "run", "quick"], "icequake --help`"),
        (["list", "songs"], "allowed: workloads, scenarios, models, operations"),
        (["explain"], "say what to explain: `"),
        (["explain", "lost-comit"], "did you mean lost-commit?"),
        (["explain", "lost-akcs"], "(did you mean lost-acks?)"),
        (["explain", "merge-upser"], "(did you mean merge-upsert?)"),
        (["explain", "serialisable"], "(did you mean serializable?)"),
        (["explain", "documentd"], "(did you mean documented?); docs/glossary.md has the words"),
        (["check", "nowhere"], "no such run"),
        (
            ["check", "nofile.edn"],
            "nofile.edn: no such file; give a history (EDN, JSON lines, log), or a run's folder",
        ),
        (["check", ROOT / "README.md"], 'README.md:1:1: not EDN, JSON or a log: found "# icequake"'),
        (["report", "nowhere"], "no such run"),
        (
            ["matrix", "--against", "nowhere"],
            "/nowhere: no matrix to compare with: ",
        ),
        (["matrix", "--engine", "duckdb", "--only", "rewrite-data-files"], "none of duckdb can do that"),
        (["matrix", "--engine", "spark,duckdb", "--catalog", "jdbc"], "DuckDB cannot reach the catalog jdbc"),
    ],
)
def test_bad_arguments_are_one_line_and_254(arguments: list[str | Path], says: str, tmp_path: Path) -> None:
    done = inside(*arguments, cwd=tmp_path)
    assert done.returncode == 254, done.stdout + done.stderr
    assert says in last_line(done.stderr)


def test_a_spark_of_ones_own_decides_the_cluster_and_a_remote_one_excludes_tasks_in_the_drivers() -> None:
    file = read_workload(workload.find("quick"))
    spec = file.with_(Changes(cluster="local"))
    remote = External(master="spark://spark:7077")
    said = "--spark spark://spark:7077: with cluster: local the tasks run in the drivers, and not there; give --cluster standalone"
    with pytest.raises(options.BadArgument, match=said):
        services.on_cluster(file, spec, remote, ())
    assert services.on_cluster(file, file.workload, remote, ()).cluster == "standalone"
    assert services.on_cluster(file, file.workload, External(master="local[2]"), ()).cluster == "local"


def test_bad_arguments_end_the_process_with_254(tmp_path: Path) -> None:
    done = icequake("run", "quik", cwd=tmp_path)
    assert done.returncode == 254 and "did you mean quick?" in last_line(done.stderr)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (("insert: 1", "insrt: 1"), ":4: unknown operation 'insrt' (did you mean insert?)"),
        (("workload: small\n", ""), ":1: missing key 'workload'"),
        (("ops: 3", "ops: three"), ":3: ops: must be a whole number, not 'three'"),
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
            "coverage",
            "serve",
            "explain",
            "export",
            "prove",
            "shrink",
            "matrix",
            "model",
            "certify",
            "claims",
            "lake",
            "query",
            "trend",
            "time-to-find",
            "compare",
            "sweep",
            "soak",
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


def parameters(command: str) -> Iterator[str]:
    """What the help of a command must name: its options, as they are typed."""
    main = typer.main.get_command(app)
    found = main.commands[command] if command else main  # type: ignore[attr-defined]
    for parameter in found.params:
        if parameter.param_type_name == "option" and not parameter.hidden:
            yield from parameter.opts


def path_options(command: str) -> list[str]:
    """The options of a command whose value is a path, as they are typed."""
    called = next(c.callback for c in app.registered_commands if c.name == command)
    hints = get_type_hints(called)
    paths = {name for name, hint in hints.items() if "Path" in repr(hint)}
    found = typer.main.get_command(app).commands[command].params  # type: ignore[attr-defined]
    return [p.opts[0] for p in found if p.param_type_name == "option" and p.name in paths]


@pytest.mark.parametrize("command", [name for name in COMMANDS if path_options(name)])
def test_every_path_is_absolute_from_its_option_on(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mount of a container must be; and a command that is printed is typed in another folder."""
    monkeypatch.chdir(tmp_path)
    parsed = typer.main.get_command(app).commands[command]  # type: ignore[attr-defined]
    for words in ([], *([option, "../here"] for option in path_options(command))):
        values = parsed.make_context(command, words, resilient_parsing=True).params.values()
        given = [one for value in values for one in (value if isinstance(value, list) else [value])]
        paths = [one for one in given if isinstance(one, Path)]
        assert all(one.is_absolute() for one in paths), (words, paths)
        assert not words or tmp_path.parent / "here" in paths


@pytest.mark.parametrize("width", [40, 60, 80, 120, 200, None])
@pytest.mark.parametrize("command", ["", *COMMANDS], ids=lambda c: c or "icequake")
def test_help_names_every_option_in_full_at_every_width(
    command: str, width: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """None: no terminal, and no variable that says its width."""
    for name in ("COLUMNS", "TERMINAL_WIDTH"):
        monkeypatch.delenv(name, raising=False)
        if width is not None:
            monkeypatch.setenv(name, str(width))
    arguments = [*filter(None, [command]), "--help"]
    done = CliRunner().invoke(app, arguments, **({} if width is None else {"terminal_width": width}))
    assert done.exit_code == 0, done.exception
    assert "Usage:" in done.output
    listed = done.output.partition("Commands:")[2].splitlines()[1:]
    assert not any(line.endswith("...") for line in listed), "a command's line is cut"
    words = re.split(r"[\s,/]+", done.output)
    assert {*parameters(command)} <= {*words}
    assert not any("│" in line or "─" in line for line in done.output.splitlines()), "a box"


@pytest.mark.parametrize("command", [[], *([name] for name in COMMANDS)], ids=lambda c: " ".join(c) or "icequake")
def test_help_in_a_log_has_no_box_and_is_not_cut(command: list[str], tmp_path: Path) -> None:
    done = inside(*command, "--help", cwd=tmp_path, COLUMNS="80")
    assert done.returncode == 0, done.stderr
    assert not set("│╭╮╰╯─") & set(done.stdout)
    if not command:
        assert "Judge a stored run or a history." in done.stdout
    if command == ["run"]:
        assert "Your own object store: http://host:9000/bucket[/prefix]." in done.stdout


def test_the_version_is_that_of_the_package() -> None:
    done = icequake("--version")
    assert (done.returncode, done.stdout) == (0, f"icequake {__version__}\n")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert "version" not in project["project"] and project["project"]["dynamic"] == ["version"]
    assert project["tool"]["setuptools"]["dynamic"]["version"] == {"attr": "harness.__version__"}


def test_a_catalog_property_is_the_runs_and_the_line_that_repeats_it_has_it() -> None:
    typed = ["cache-enabled=false", "s3.endpoint = http://a=b"]
    run = RunOptions(workload="quick", catalog_property=typed)
    run.checked()
    spec, _ = run._ordered
    assert spec.catalog_properties == {"cache-enabled": "false", "s3.endpoint": "http://a=b"}
    assert "--catalog-property cache-enabled=false --catalog-property 's3.endpoint = http://a=b'" in run.again()
    file = read_workload(workload.LIBRARY / "quick.yaml")
    own = file.workload.model_copy(update={"catalog_properties": {"cache-enabled": "true", "a": "b"}})
    changed = Changes(catalog_property=["cache-enabled=false"]).on(own)
    assert changed.catalog_properties == {"cache-enabled": "false", "a": "b"}


@pytest.mark.parametrize(
    ("typed", "says"),
    [
        (["cache-enabled"], "--catalog-property cache-enabled: give KEY=VALUE, such as cache-enabled=false"),
        (["=1"], "--catalog-property =1: give KEY=VALUE"),
        (["a=1", "a=2"], "--catalog-property a: is given twice"),
        (
            ["s3.secret-access-key=x"],
            "a command line is no place for a secret; write it into a catalog file as ${NAME}",
        ),
        (
            ["oauth2-server-uri=https://me:hunter2@host/tokens"],
            "--catalog-property oauth2-server-uri: a command line is no place for a secret",
        ),
        (["duckdb.attach_x=1"], "catalog_properties: unknown property of DuckDB 'duckdb.attach_x'"),
    ],
)
def test_a_catalog_property_that_cannot_be_one_is_refused(typed: list[str], says: str) -> None:
    done = icequake("run", "quick", *(w for t in typed for w in ("--catalog-property", t)), "--dry-run")
    assert done.returncode == 254 and says in " ".join(done.stderr.split()), done.stderr


@pytest.mark.parametrize("what", [w for w in lists.WHAT if w != "runs"])
def test_a_row_of_a_list_is_one_line_of_the_terminal_and_its_name_stays_whole(what: str, tmp_path: Path) -> None:
    columns, rows_of = lists.LISTS[what]
    rows = [columns, *rows_of(tmp_path)]
    for width in (80, 100):
        fitted = lists.fitted(rows, width)
        assert [r[0] for r in fitted] == [r[0] for r in rows]
        widths = [max(map(len, column)) for column in zip(*fitted, strict=True)]
        assert sum(widths) + lists.GAP * (len(widths) - 1) <= width
    assert lists.fitted(rows, 100_000) == rows


def test_a_table_in_a_log_is_not_cut() -> None:
    done = icequake("list", "scenarios", env=environment(COLUMNS="80"))
    assert done.returncode == 0
    [one] = scenario.find(["rest-503-lost-commit"])
    assert len(one.affected + one.shows) > 80 and one.affected in done.stdout and one.shows in done.stdout


def test_the_list_of_scenarios_has_the_thread_of_each() -> None:
    done = icequake("list", "scenarios", env=environment(COLUMNS="80"))
    lines = {line.split()[0]: line.split() for line in done.stdout.splitlines() if line.strip()}
    assert lines["scenario"][1:3] == ["discussed", "at"]
    assert lines["undelete"][1] == "iceberg#10720" and lines["duckdb-summary-count"][1] == "duckdb-iceberg#1121"
    assert lines["zorder-delete"][1] == "none;", "a link that is no thread is left out, and what is affected comes next"


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
    assert (
        f"results.json: {os.strerror(errno.EISDIR)}" in message
        and "check that path, its owner and its permissions" in message
    )


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


@pytest.mark.parametrize(
    "what", ["workloads", "operations", "faults", "packages", "verbs", "checks", "levels", "catalogs", "runs"]
)
def test_lists(what: str, tmp_path: Path) -> None:
    done = inside("list", what, "--store", tmp_path, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    if what != "runs":
        assert len(done.stdout.splitlines()) > 1


def test_every_level_is_listed_with_the_models_that_are_judged_by_it(tmp_path: Path) -> None:
    rows = {line.split()[0]: line for line in inside("list", "levels", cwd=tmp_path).stdout.splitlines()[1:]}
    assert rows.keys() == {*LEVELS, "linearizable"}
    assert "list-append, rw-register" in rows["serializable"] and "cas-register" in rows["linearizable"]
    assert "bank" in rows["snapshot-isolation"] and "bank" not in rows["serializable"]


def test_a_level_names_each_anomaly_that_it_forbids_once(tmp_path: Path) -> None:
    text = inside("explain", "strict-serializable", cwd=tmp_path).stdout
    forbidden = text.partition("forbids")[2].partition("implies")[0].replace("\n", " ").split(", ")
    assert len(forbidden) > 20 and len({x.strip() for x in forbidden}) == len(forbidden)
    snapshot = (
        inside("explain", "snapshot-isolation", cwd=tmp_path).stdout.partition("forbids")[2].partition("implies")[0]
    )
    assert {"G-single", "lost-update"} <= {*re.split(r"[\s,;]+", snapshot)}, "as `explain G-single` says"


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("lost-commit", ["an anomaly", "rows lost or wrong", "prove delta-lost-commit"]),
        ("read-your-writes", ["an anomaly", "an isolation level", "forbids           read-your-writes"]),
        ("answer", ["a fault", "retry_after", "lost-acks"]),
        ("merge-upsert", ["an operation"]),
        ("lost-acks", ["a package of faults", "its faults"]),
        ("snapshot-isolation", ["an isolation level", "Each transaction reads one snapshot", "forbids", "implies"]),
        ("linearizable", ["a level of single operations", "a checker"]),
        ("rest", ["a catalog", "a commit"]),
        (
            "duckdb",
            [
                "duckdb: an engine",
                "it promises       serializable",
                "it reaches        rest, nessie, polaris",
                "duckdb-summary-count: a snapshot's summary counts delete files that are gone",
                "(duckdb-iceberg#1121,",
                " prove duckdb-502-unreadable duckdb-delete-other-vector ",
                " duckdb-merge-row-ids duckdb-merge-upgraded duckdb-removed-again ",
                "run quick --writers spark=1,duckdb=1",
                "docs/engines/duckdb.md",
            ],
        ),
        (
            "spark",
            [
                "version here      Spark ",
                "it promises       what the table's properties",
                "undelete, upgrade-mor-delete",
            ],
        ),
        ("pyiceberg", ["version here      PyIceberg ", "iceberg-python#3270"]),
        ("delta-rs", ["run quick --format delta --writers spark=1,delta-rs=1\n", "docs/engines/delta-rs.md"]),
        (
            "nessie",
            ["nessie-column-insert: ", "any REST catalog", "run quick --catalog nessie", "docs/catalogs/nessie.md"],
        ),
        ("rest", ["rest-lost-transaction: ", "rest-half-transaction: "]),
        ("hive", ["known defect      none in the library of scenarios"]),
        ("undelete", ["an anomaly", "a scenario", "icequake prove undelete\n"]),
        ("delta-lost-commit", ["a scenario", "its anomalies"]),
        ("known", ["a word of icequake", "docs/glossary.md"]),
        ("attempt", ["a word of icequake", "docs/glossary.md"]),
        ("Merge-on-Read", ["a word of icequake"]),
        ("w0-17", ["a word of icequake", "The id of an operation: writer 0, its operation number 17"]),
        (
            "lost update",
            ["lost-update: an anomaly", "beside undelete", "in other words"],
        ),
        ("write skew", ["write-skew: an anomaly"]),
        ("deletion-vector", ["deletion vector: a word"]),
        ("seed", ["A number from which a run draws"]),
        ("priority", ["goes first", "(docs/order.md)"]),
        ("G-single", ["forbidden by      parallel-snapshot-isolation, repeatable-read, and what implies one of them"]),
        ("strict-serializable", ["implies           strong-session-serializable, strong-snapshot-isolation, and what"]),
        (
            "snapshot-isolation",
            ["allows            w1 reads rows 7 and 8", "does not allow    w1 and w2 both read row 7"],
        ),
        ("serializable", ["does not allow    w1 reads rows 7 and 8", "is held to strict-serializable"]),
        ("linearizable", ["does not allow    w1 inserts row 9: ok; then w2 counts"]),
        ("write-skew", ["other names       Adya's names are G2-item"]),
        ("undelete", ["other names       isolation finds the same event as lost-update"]),
        ("shrink", ["a word of icequake", "icequake shrink RUN", "docs/shrink.md"]),
        ("snapshot", ["explain snapshot-isolation"]),
        ("card", ["a word of icequake", "docs/tutorial.md"]),
        ("linearizable", ["at snapshot a statement may", "while a read still has one"]),
        *((word, ["a word of icequake"]) for word in ("guard", "unit", "part", "maker", "wire", "set back", "told")),
        ("minimal history", ["The fewest operations"]),
        ("sequence number", ["The number of a commit"]),
        ("provoked", ["the faults that icequake made"]),
        ("write.delete.isolation-level", ["at which level a DELETE"]),
        ("snapshot-mor", ["snapshot-mor: a workload", "run snapshot-mor"]),
        (
            "software.amazon.awssdk.services.s3.model.NoSuchKeyException",
            ["NoSuchKeyException: an error", "missing-file"],
        ),
    ],
)
def test_a_name_is_explained_as_all_that_it_is(name: str, says: list[str], tmp_path: Path) -> None:
    done = inside("explain", name, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert [s for s in says if s not in done.stdout] == []


def test_an_explanation_is_plain_text() -> None:
    every = {n: "\n".join(line for book in names._BOOKS for line in book(n)) for n in names._known()}
    assert {n for n, text in every.items() if "](" in text or "`" in text} == set()


def test_every_engine_and_catalog_has_a_page_and_a_command_that_runs_it() -> None:
    for name in (*ENGINES, *CATALOGS):
        lines = [line for book in names._BOOKS for line in book(name)]
        page = next(line.split()[-1] for line in lines if line.startswith("  more words") and "glossary" not in line)
        assert (ROOT / page).is_file(), f"{name}: {page}"
        assert any(line.startswith("  run it") and " run quick" in line for line in lines), name


def test_every_explanation_is_whole_sentences_and_names_that_can_be_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    def told() -> dict[str, list[str]]:
        return {name: [line for book in names._BOOKS for line in book(name)] for name in names._known()}

    narrow = told()
    monkeypatch.setattr(names, "_WIDTH", 100_000)
    for name, lines in told().items():
        assert lines, name
        for line in lines:
            if line.startswith("  ") and line[2:19].strip() not in (*names._LISTS, names._COMMAND):
                assert line.endswith((".", "?")) and not line.endswith(".."), f"{name}: {line}"
                assert "…." not in line and "  " not in line[22:], f"{name}: {line}"
        assert " ".join("\n".join(narrow[name]).split()) == " ".join("\n".join(lines).split()), name


def test_a_model_does_not_replace_a_file_of_somebody_else(tmp_path: Path) -> None:
    mine = tmp_path / "found/undelete-undelete.yaml"
    mine.parent.mkdir()
    (tmp_path / "found/theirs.yaml").write_text("mine\n")
    mine.write_text("mine\n")
    done = inside("model", "undelete", "--scenarios", "found", cwd=tmp_path)
    assert done.returncode == 254 and mine.read_text() == "mine\n", done.stdout
    assert str(mine) in done.stderr and "--force" in done.stderr and "theirs" not in done.stderr
    for force in (["--force"], []):  # what the model wrote is replaced
        assert inside("model", "undelete", "--scenarios", "found", *force, cwd=tmp_path).returncode == 0
        assert scenario.load(mine).anomalies


def test_a_model_that_finds_what_its_file_expects_is_0_and_its_counterexample_a_scenario(tmp_path: Path) -> None:
    done = inside("model", "undelete", "--scenarios", "found", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "undelete: 1. update-register (merge-on-read) of key 0; 2. delete (merge-on-read) of key 0" in done.stdout
    assert scenario.load(tmp_path / "found/undelete-undelete.yaml").anomalies[0].name == "undelete"


def test_the_scenario_of_a_model_with_a_long_name_can_be_read(tmp_path: Path) -> None:
    assert inside("model", "equality-delete-copy-on-write", "--scenarios", ".", cwd=tmp_path).returncode == 0
    (written,) = tmp_path.glob("*.yaml")
    assert scenario.load(written).anomalies[0].name == "resurrected-row"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ("expect: []", "NOT EXPECTED: undelete"),
        ("expect: [undelete, lost-update]", "NOT FOUND: lost-update"),
        ("never: []", "NEVER FIRED: referenced files: the answer says nothing of it"),
        ("never: [new deletes]", "FIRED: new deletes, which the file lists under never"),
        ("kinds: {insert: [], delete: [merge-on-read]}", "NEVER COMMITTED: insert"),
    ],
)
def test_a_model_that_does_not_find_what_its_file_expects_is_1(change: str, says: str, tmp_path: Path) -> None:
    key = change.partition(":")[0]
    lines = [x for x in (modelled.LIBRARY / "undelete.yaml").read_text().splitlines() if not x.startswith(f"{key}:")]
    lines = [x.replace("writes: 3", "writes: 1") if key == "kinds" else x for x in lines]
    (tmp_path / "m.yaml").write_text("\n".join([*lines, change]) + "\n")
    done = inside("model", "m.yaml", cwd=tmp_path)
    assert done.returncode == 1 and says in done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize("folder", ["file", "file/below"])
def test_a_folder_for_scenarios_that_cannot_be_made_is_said_before_the_search(
    folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(search, "search", lambda *_: pytest.fail("the search began"))
    done = inside("model", "undelete", "--scenarios", folder, cwd=tmp_path)
    assert done.returncode == 254 and done.stderr.startswith(
        f"icequake: --scenarios {tmp_path / folder}: {tmp_path / 'file'} is no folder; give a folder that can be written"
    )


def test_models_are_listed_with_what_they_ask_and_must_find(tmp_path: Path) -> None:
    done = inside("list", "models", cwd=tmp_path)
    rows = [" ".join(line.split()) for line in done.stdout.splitlines()]
    for m in modelled.find([]):
        assert f"{m.model} {m.question} {', '.join(m.expect) or 'every promise holds'}" in rows


@pytest.mark.parametrize("code", [0, 3, "nothing to do", None])
def test_what_ends_the_program_inside_a_command_is_said_as_an_internal_error(
    code: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ends(_: object) -> NoReturn:
        sys.exit(code)  # type: ignore[arg-type]

    monkeypatch.setattr(ListOptions, "execute", ends)
    done = inside("list", cwd=tmp_path, TMPDIR=str(tmp_path))
    (line,) = done.stderr.splitlines()
    assert done.returncode == 255 and f"something inside ended the program with {code!r}; the details are in " in line
    details = Path(line.partition("the details are in ")[2].partition(";")[0])
    assert "in ends" in details.read_text()
    details.unlink()


@pytest.mark.parametrize(("quiet", "tells"), [(False, True), (True, False)])
def test_a_quiet_proof_prints_its_table_only(quiet: bool, tells: bool, capsys: pytest.CaptureFixture[str]) -> None:
    proven = ProveOptions(names=["undelete"], quiet=quiet)
    proofs, found = [Proof("undelete", "reproduced")], {"spark": "4.1.4"}
    proven._show(proofs, found)
    assert proven._end(proofs, found) == 0
    printed = capsys.readouterr().out
    assert [line.split()[0] for line in printed.splitlines()[:2]] == ["scenario", "undelete"]
    assert ("a deleted row came back" in printed) == tells and ("the runs are in store" in printed) == tells
    assert (len(printed.splitlines()) == 2) == quiet


def test_down_without_up_has_nothing_to_do(tmp_path: Path) -> None:
    done = inside("down", cwd=tmp_path, ICEQUAKE_HOME=str(tmp_path))
    assert done.returncode == 0 and "nothing was up" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "shows"),
    [
        (["run"], "icequake run --help"),
        (["run", "quick", "--time", "soon"], "icequake run --help"),
        (["compare", "quick"], "icequake compare --help"),
        (["matrix", "--only", "merge"], "icequake matrix --help"),
        (["list", "songs"], "icequake list --help"),
        (["check", "--engin", "exact"], "icequake check --help"),
        (["dance"], "icequake --help"),
        (["--danc"], "icequake --help"),
    ],
)
def test_bad_arguments_point_to_the_help_of_their_command(arguments: list[str], shows: str, tmp_path: Path) -> None:
    done = inside(*arguments, cwd=tmp_path)
    assert done.returncode == 254
    assert last_line(done.stderr).endswith(f"see `{shows}`")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["run", "quick", "--time", "7"], "--time 7: 7 has no unit of time; write 7s, 7ms, 7m or 7h"),
        (
            ["compare", "quick", "--catalog", "rest,jdbc", "--time", "1.5"],
            "--time 1.5: 1.5 has no unit of time; write 1.5s, 1.5ms, 1.5m or 1.5h",
        ),
        (
            ["matrix", "--only", "merge"],
            "--only merge: unknown operation 'merge' (did you mean merge-upsert or merge-insert?)",
        ),
        (
            ["matrix", "--only", "held=refesh"],
            "--only held=refesh: unknown value of held 'refesh' (did you mean refresh?); allowed: commit, refresh",
        ),
        (
            ["matrix", "--only", "first=delete-partition", "--only", "held=refresh"],
            "--only first=delete-partition --only held=refresh: no cell has all of this",
        ),
        (["matrix", "--engine", "spark,duckd"], "--engine duckd: unknown engine 'duckd' (did you mean duckdb?)"),
        (["list", "operation"], "list operation: unknown value 'operation' (did you mean operations?)"),
        (["setup", "nesie"], "setup nesie: unknown catalog or suite 'nesie' (did you mean nessie?)"),
    ],
)
def test_an_argument_that_is_nearly_right_is_told_the_right_one(
    arguments: list[str], says: str, tmp_path: Path
) -> None:
    done = inside(*arguments, cwd=tmp_path)
    assert done.returncode == 254 and f"icequake: {says}" in last_line(done.stderr)


@pytest.mark.parametrize("command", [["check"], ["export"], ["report"], ["export", "quick/20260101T000000.000Z"]])
def test_commands_on_a_run_take_its_store(command: list[str], tmp_path: Path) -> None:
    store = tmp_path / "mine"
    with zipfile.ZipFile(Path(recorded.__file__).with_name("recorded") / "quick-120.zip") as stored:
        stored.extractall(store / "quick" / "20260101T000000.000Z")
    (store / "latest").symlink_to("quick/20260101T000000.000Z")
    done = inside(*command, "--store", store, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout


@pytest.mark.parametrize("command", [["check"], ["export"], ["report"], ["list", "runs"]])
def test_no_store_is_said_with_its_place(command: list[str], tmp_path: Path) -> None:
    done = inside(*command, cwd=tmp_path)
    assert done.returncode == 254
    assert f"there is no store {tmp_path}/store; " in last_line(done.stderr) and "--store" in last_line(done.stderr)


def test_a_store_without_a_run_is_said(tmp_path: Path) -> None:
    done = inside("list", "runs", "--store", tmp_path, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, f"no run in {tmp_path}\n")


def test_each_error_of_a_catalog_file_is_a_line_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "my.yaml").write_text("spark: {type: rest, uri: http://lake}\nfoo: 1\nbar: 2\n")
    done = inside("run", "quick", "--catalog", "my.yaml", "--dry-run", cwd=tmp_path)
    lines = done.stderr.splitlines()
    assert done.returncode == 254
    assert [line.split(" unknown key ")[0] for line in lines] == ["icequake: my.yaml:2:", "icequake: my.yaml:3:"]


def test_engines_are_listed_with_the_catalogs_that_they_reach(tmp_path: Path) -> None:
    lines = inside("list", "engines", cwd=tmp_path).stdout.splitlines()
    [spark] = [line for line in lines if line.startswith("spark ")]
    [duckdb] = [line for line in lines if line.startswith("duckdb ")]
    assert "every catalog" in spark and spark.rstrip().endswith("all but upsert")
    assert "rest, nessie, polaris" in duckdb and "insert, " in duckdb


def test_operations_are_listed_in_plain_words_with_their_options(tmp_path: Path) -> None:
    lines = inside("list", "operations", cwd=tmp_path).stdout.splitlines()
    assert not any("`" in line for line in lines)
    by_name = {line.split()[0]: line for line in lines if line.strip()}
    for kind in KINDS.values():
        if kind.name in BUILT_IN:
            assert by_name[kind.name].rstrip().endswith(", ".join(kind.options) or "")
    assert "weight, keys and tables" in lines[-1]


def test_a_fault_is_listed_once_with_its_packages(tmp_path: Path) -> None:
    faults, verbs = (inside("list", what, cwd=tmp_path).stdout for what in ("faults", "verbs"))
    assert faults == verbs
    names = [line.split()[0] for line in faults.splitlines()[1:]]
    assert sorted(names) == sorted(VERBS) and len(names) == len({*names})
    (kill,) = (line for line in faults.splitlines() if line.startswith("kill "))
    assert kill.rstrip().endswith("crashes")
    packages = inside("list", "packages", cwd=tmp_path).stdout.splitlines()[1:]
    assert [line.split()[0] for line in packages] == list(PACKAGES)
    assert "those of all packages" in packages[-1]


def test_the_command_that_is_printed_works_in_any_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.yaml").write_text(SMALL)
    monkeypatch.chdir(tmp_path)
    for called, program in (("./icequake", f"{tmp_path}/icequake"), ("icequake", "icequake")):
        monkeypatch.setenv("ICEQUAKE_COMMAND", called)
        assert options.anywhere() == program
    monkeypatch.setenv("ICEQUAKE_COMMAND", "docker run --rm -v 'my store:/store' icequake:0.1.0")
    assert options.anywhere() == "docker run --rm -v 'my store:/store' icequake:0.1.0", "a command of several words"
    assert ProveOptions(names=["undelete"]).again() == f"{options.anywhere()} prove undelete"
    assert options.path_anywhere("mine.yaml") == f"{tmp_path}/mine.yaml"
    assert options.path_anywhere("quick") == "quick"


def test_the_command_of_an_explained_scenario_is_typed_as_icequake_is_called(tmp_path: Path) -> None:
    """Whole, however long."""
    called = "docker run --rm -v 'a volume with a name of several words:/store' icequake:0.1.0"
    done = inside("explain", "undelete", cwd=tmp_path, ICEQUAKE_COMMAND=called)
    assert f" {called} prove undelete\n" in done.stdout


def test_a_comparison_says_how_it_goes_on_from_any_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is stopped before anything is started."""
    (tmp_path / "mine.yaml").write_text(SMALL)

    def stopped(whole: Compare) -> None:
        whole.path.parent.mkdir(parents=True)
        raise KeyboardInterrupt

    monkeypatch.setattr(Compare, "measure", stopped)
    done = inside(
        *("compare", "mine.yaml", "--catalog", "rest,jdbc", "--seed", "3", "--into", "both"),
        cwd=tmp_path,
        ICEQUAKE_COMMAND="./icequake",
    )
    (line,) = (x for x in done.stderr.splitlines() if "continue with: " in x)
    words = shlex.split(line.partition("continue with: ")[2])
    assert words[:3] == [f"{tmp_path}/icequake", "compare", f"{tmp_path}/mine.yaml"]
    assert words[words.index("--into") + 1] == f"{tmp_path}/both"
    assert words[words.index("--store") + 1] == f"{tmp_path}/store"


def test_a_property_that_iceberg_does_not_know_is_a_warning(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(SMALL.replace("{name: t}", '{name: t, properties: {commit.retry.num-retrys: "3", team: storage}}'))
    done = inside("compare", file, cwd=tmp_path)  # ends because it names one contender only
    assert done.stderr.splitlines()[:2] == [
        f"icequake: warning: {file}:2: commit.retry.num-retrys: Iceberg knows no such table property "
        "(did you mean commit.retry.num-retries?); the table gets it, and Iceberg ignores it",
        f"icequake: warning: {file}:2: team: Iceberg knows no such table property; "
        "the table gets it, and Iceberg ignores it",
    ]
    assert "give at least two catalogs" in done.stderr


@pytest.mark.parametrize(
    ("level", "model", "says"),
    [
        ("snapshot", None, "has no level 'snapshot' (did you mean snapshot-isolation?)"),
        (None, "list-apend", "the model 'list-apend' is not known (did you mean list-append?)"),
    ],
)
def test_a_level_or_model_that_is_nearly_right_is_told_the_right_one(
    level: str | None, model: str | None, says: str, tmp_path: Path
) -> None:
    file = tmp_path / "h.edn"
    file.write_text(
        "{:process 0 :type :invoke :f :txn :value [[:append 1 1]]}\n"
        "{:process 0 :type :ok :f :txn :value [[:append 1 1]]}\n"
    )
    options = [*(["--level", level] if level else []), *(["--model", model] if model else [])]
    done = inside("check", file, *options, cwd=tmp_path)
    assert done.returncode == 254 and says in last_line(done.stderr)


def test_a_run_says_how_it_is_repeated_from_any_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is stopped before anything is started."""
    (tmp_path / "mine.yaml").write_text(SMALL)
    said: list[str] = []

    def stopped(**values: Any) -> None:
        said.append(values["command"])
        raise KeyboardInterrupt

    monkeypatch.setattr(settings, "Settings", stopped)
    inside("run", "mine.yaml", "--seed", "3", "--store", "runs", cwd=tmp_path, ICEQUAKE_COMMAND="./icequake")
    inside("run", "quick", "--seed", "3", cwd=tmp_path, ICEQUAKE_COMMAND="icequake")
    mode = ("--session", "fast", "--cluster", "local")
    inside("run", "quick", "--seed", "3", *mode, cwd=tmp_path, ICEQUAKE_COMMAND="icequake")
    assert said == [
        f"{tmp_path}/icequake run {tmp_path}/mine.yaml --seed 3 --store {tmp_path}/runs",
        "icequake run quick --seed 3",
        "icequake run quick --seed 3 --session fast --cluster local",
    ]


def test_the_program_may_open_more_files_than_a_shell_gives_it() -> None:
    """In a process of its own, so that it changes nothing here."""
    script = (
        "import resource as r; from harness.cli import app\n"
        "hard = r.getrlimit(r.RLIMIT_NOFILE)[1]\n"
        "r.setrlimit(r.RLIMIT_NOFILE, (200, hard)); app.more_files(); print(*r.getrlimit(r.RLIMIT_NOFILE), hard)\n"
        "r.setrlimit(r.RLIMIT_NOFILE, (100, 300)); app.more_files(); print(*r.getrlimit(r.RLIMIT_NOFILE))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=120, env=environment()
    )
    first, second = done.stdout.splitlines()
    soft, hard, before = map(int, first.split())
    assert hard == before and soft == (65536 if hard < 0 else min(hard, 65536)) and second == "300 300"


@pytest.mark.parametrize(
    "arguments",
    [
        ["list", "operations"],
        ["check", "run"],
        ["check", "--engine", "process", "run"],
        ["export", "run"],
        ["lake", "add", "run", "--quiet"],
        ["--version"],
        ["run", "--help"],
    ],
    ids=" ".join,
)
def test_a_command_whose_output_nobody_reads_ends_quietly_with_the_code_of_a_closed_pipe(
    arguments: list[str], tmp_path: Path
) -> None:
    with zipfile.ZipFile(Path(recorded.__file__).with_name("recorded") / "quick-120.zip") as stored:
        stored.extractall(tmp_path / "run")
    if arguments[0] == "lake":
        assert inside("lake", "init", cwd=tmp_path).returncode == 0
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "w") as closed:
        command = [sys.executable, "-m", "harness.cli.app", *arguments]
        done = subprocess.run(
            command, stdout=closed, stderr=subprocess.PIPE, text=True, cwd=tmp_path, env=environment(), timeout=120
        )
    assert (done.returncode, done.stderr) == (141, "")
    assert not [*tmp_path.rglob("icequake-error-*.log")]
