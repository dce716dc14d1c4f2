"""What a sweep refuses before it starts anything, and what its file may say."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from checkers.costs.comparison import Contender
from harness.cli.app import app
from harness.cli.options import BadArgument
from harness.cli.sweep import checked, varied_of
from harness.run.resolve import read_experiment
from workloads.file import experiment
from workloads.file.workload import LIBRARY, WorkloadError
from workloads.file.yamlfile import read_text

FILE = """\
workload: w
writers: {committer: 2}
length: {time: 5s}
tables: [{name: t}]
operations: {insert: 1}
vary:
  writers: [1, 2]
seeds: 2
catalogs: [rest]
"""


def refused(tmp_path: Path, *arguments: str, text: str = FILE) -> str:
    path = tmp_path / "w.yaml"
    path.write_text(text)
    done = CliRunner().invoke(app, ["sweep", str(path), "--store", str(tmp_path / "store"), *arguments])
    assert isinstance(done.exception, BadArgument | WorkloadError), done.output
    assert not (tmp_path / "store").exists(), "nothing was started"
    return str(done.exception).replace(str(path), "w.yaml")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--vary", "writers"), "--vary writers: write a parameter and its values, such as writers=1,2,4"),
        (
            ("--vary", "writers=1", "--vary", "writers=2"),
            "--vary writers=2: writers is given twice; put all its values into one",
        ),
        (("--vary", "writes=1"), "--vary: unknown parameter 'writes' (did you mean writers?)"),
        (("--vary", "writers=1,99"), "--vary: writers=99: must be a whole number from 1 to 64"),
        (("--vary", "backoff=constant"), "--vary: backoff=constant: unknown value 'constant'; allowed: none, linear"),
        (
            ("--vary", "commit.retry.num-retry=4,8"),
            "--vary: Iceberg has no table property 'commit.retry.num-retry' (did you mean commit.retry.num-retries?)",
        ),
        (("--vary", "write.made.up=1,2"), "--vary: Iceberg has no table property 'write.made.up'"),
        (
            ("--writers", "spark=1", "--vary", "backoff=linear"),
            "--vary: writers=1 backoff=linear: backoff: spark cannot follow",
        ),
        (("--catalog", "glue"), "writers: Iceberg's Java client cannot reach the catalog glue"),
    ],
)
def test_what_is_wrong_with_an_option_is_said_at_once(tmp_path: Path, arguments: tuple[str, ...], says: str) -> None:
    assert refused(tmp_path, *arguments).startswith(says)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (("writers: [1, 2]", "writers: [1, 99]"), "w.yaml:7: vary: writers=99: must be a whole number from 1 to 64"),
        (("writers: [1, 2]", "writes: [1, 2]"), "w.yaml:7: vary: unknown parameter 'writes' (did you mean writers?)"),
        (
            ("writers: [1, 2]", "commit.retry.num-retry: [4, 8]"),
            "w.yaml:7: vary: Iceberg has no table property 'commit.retry.num-retry' (did you mean commit.retry.num-retries?)",
        ),
        (("writers: [1, 2]", "writers: [1, 1]"), "w.yaml:7: vary: writers: a value is given twice; keep one"),
        (("writers: [1, 2]", "writers: {a: 1}"), "w.yaml:7: writers: must be a list of values, such as [1, 2, 4]"),
        (("seeds: 2", "seeds: 0"), "w.yaml:8: seeds: must be at least 1"),
        (("catalogs: [rest]", "catalogs: [rset]"), "w.yaml:9: "),
        (("vary:", "vari:"), "w.yaml:6: unknown key 'vari' (did you mean vary?)"),
        (
            ("operations: {insert: 1}", "operations: {insert: 1}\nbackoff: constant"),
            "w.yaml:6: backoff: unknown policy 'constant'",
        ),
        (
            ("operations: {insert: 1}", "operations: {insert: 1}\nbackoff: linear"),
            "w.yaml:4: properties: with backoff linear the committers wait, so Iceberg must not: add "
            'commit.retry.min-wait-ms: "0"',
        ),
        (
            ("operations: {insert: 1}", "operations: {insert: 1}\nbackoff: {base: 3s}"),
            "w.yaml:6: backoff: base is of the other policies",
        ),
    ],
)
def test_what_is_wrong_with_a_file_names_its_line(tmp_path: Path, change: tuple[str, str], says: str) -> None:
    assert refused(tmp_path, text=FILE.replace(*change)).startswith(says)


def test_a_file_that_varies_nothing_needs_an_option(tmp_path: Path) -> None:
    text = FILE[: FILE.index("vary:")]
    assert "says nothing to vary; give --vary" in refused(tmp_path, text=text)


def test_a_suite_with_a_key_of_an_experiment_is_called_a_suite(tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    path.write_text("suite: s\nlength: 10s\ncatalogs: [rest]\ncells: []\n")
    done = CliRunner().invoke(app, ["run", str(path)])
    assert "this is a suite file, not a workload file; `icequake soak" in str(done.exception)


def test_run_refuses_an_experiment(tmp_path: Path) -> None:
    path = tmp_path / "w.yaml"
    path.write_text(FILE)
    done = CliRunner().invoke(app, ["run", str(path)])
    assert "an experiment, not a workload; `icequake sweep" in str(done.exception)


def test_options_replace_the_values_of_a_file_and_each_goes_with_each() -> None:
    values = varied_of(["writers=1,2", "isolation=snapshot,serializable"])
    assert experiment.combinations(values) == [
        (("writers", n), ("isolation", level)) for n in ("1", "2") for level in ("snapshot", "serializable")
    ]


def test_a_comparison_refuses_what_its_engines_cannot_follow(tmp_path: Path) -> None:
    path = tmp_path / "w.yaml"
    path.write_text(FILE[: FILE.index("vary:")])
    arguments = ["compare", str(path), "--engine", "spark", "--vary", "backoff=linear,exponential"]
    done = CliRunner().invoke(app, arguments)
    assert isinstance(done.exception, BadArgument) and "spark cannot follow linear" in str(done.exception)


@pytest.mark.parametrize("path", sorted(experiment.LIBRARY.glob("*.yaml")), ids=lambda p: p.stem)
def test_experiments_of_the_library_can_run(path: Path) -> None:
    read, found = read_experiment(path)
    assert found.workload == path.stem and found.description and found.vary and found.seeds >= 3
    checked(read.workload, [Contender("rest", "1.12.0", (), one) for one in experiment.combinations(found.vary)])
    assert experiment.find(path.stem) == path
    assert experiment.is_experiment(read_text(path))


def test_workloads_of_the_library_are_no_experiments() -> None:
    assert not any(experiment.is_experiment(read_text(path)) for path in LIBRARY.glob("*.yaml"))
