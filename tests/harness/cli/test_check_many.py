"""``icequake check`` of many runs: a line for each, the worst verdict as exit code, and no run stops another."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

from bench import columns as made
from checkers.columns import dataset
from harness.run import judging_on_spark, many
from harness.run.judging_on_spark import Cluster, MasterError, SparkError, grouped, reason
from tests.checkers.judge.test_check import SPECS, stored
from tests.support.runs import inside
from tests.support.simulator import Defects, simulate


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Two clean runs, one with an anomaly, one that ended early, one without a plan, and one of which only the name is left."""
    folder = tmp_path / "store"
    for n, defects in enumerate((Defects(), Defects(), Defects(stale_read=0.6))):
        stored(simulate(n, SPECS, ops=10, defects=defects), folder / "w" / f"20260101T00000{n}.000Z")
    stored(simulate(5, SPECS, ops=4), folder / "w" / "20260101T000003.000Z", state="interrupted")
    stored(simulate(6, SPECS, ops=4), folder / "w" / "20260101T000004.000Z")
    (folder / "w" / "20260101T000004.000Z" / "plan.yaml").unlink()
    (folder / "w" / "20260101T000005.000Z").mkdir()
    (folder / "w" / "latest").symlink_to("20260101T000002.000Z")
    return folder


def test_a_line_for_each_run_and_the_worst_verdict(store: Path, tmp_path: Path) -> None:
    done = inside("check", "--engine", "process", "--json", "all.json", store, cwd=tmp_path)
    lines = done.stdout.splitlines()
    assert done.returncode == 1 and [line[0] for line in lines[:6]] == list("✓✓✕?!!"), done.stdout
    assert "anomalies found: " in lines[2] and "stale-read" in lines[2]
    assert lines[3].endswith("unknown: the run did not come to its end")
    assert "not judged: plan.yaml: cannot be read" in lines[4]
    assert lines[7].startswith("6 runs in ") and lines[7].endswith("1 with anomalies, 1 unknown, 2 not judged, 2 valid")
    told = json.loads((tmp_path / "all.json").read_text())
    assert told["valid"] is False
    assert [r["valid"] for r in told["runs"]] == [True, True, False, "unknown", "unjudged", "unjudged"]
    assert told["runs"][2]["anomalies"]["stale-read"] >= 1


def test_the_results_are_those_of_each_run_alone(store: Path, tmp_path: Path) -> None:
    inside("check", "--engine", "process", store, cwd=tmp_path)
    runs = sorted((store / "w").glob("2026*/results.json"))
    before = {r: r.read_bytes() for r in runs}
    assert len(runs) == 4 and not list(store.rglob("report.html"))
    for r in runs:
        inside("check", r.parent, cwd=tmp_path)
    assert {r: r.read_bytes() for r in runs} == before


def test_who_names_a_store_is_told_how_all_of_its_runs_are_judged(store: Path, tmp_path: Path) -> None:
    done = inside("check", store, cwd=tmp_path)
    assert done.returncode == 254 and "judge all runs in it with --engine process" in done.stderr, done.stderr


def test_several_runs_need_no_engine_and_pages_are_written_on_demand(store: Path, tmp_path: Path) -> None:
    clean = store / "w" / "20260101T000000.000Z"
    done = inside("check", clean, store / "w" / "20260101T000003.000Z", clean, "--pages", cwd=tmp_path)
    assert done.returncode == 2 and "\n2 runs in " in done.stdout
    assert (clean / "report.html").exists() and (clean / "junit.xml").exists()
    assert inside("check", clean, store / "w" / "20260101T000001.000Z", cwd=tmp_path).returncode == 0


def test_a_store_still_means_its_latest_run_where_one_run_is_judged(store: Path, tmp_path: Path) -> None:
    (store / "latest").symlink_to("w/20260101T000002.000Z")
    done = inside("check", store, cwd=tmp_path)
    assert done.returncode == 1 and "runs in" not in done.stdout


def test_runs_as_columns_are_judged_in_process(tmp_path: Path) -> None:
    dataset.write([("a/b", made.frame(500)), ("..", made.frame(300, seed=1))], tmp_path / "d")
    dataset.write([("lost", made.frame(300))], tmp_path / "broken")
    next((tmp_path / "broken").rglob("*.parquet")).write_bytes(b"PAR1")
    done = inside("check", tmp_path / "d", tmp_path / "broken", cwd=tmp_path)
    assert done.returncode == 2 and "2 valid" in done.stdout and "! lost: not judged: " in done.stdout, done.stdout
    written = {p.name: json.loads(p.read_text())["valid"] for p in (tmp_path / "d" / "results").iterdir()}
    assert written == {"a%2Fb.json": True, "...json": True}


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (
            ["--engine", "sparc"],
            "--engine sparc: unknown engine 'sparc' (did you mean spark?); allowed: auto, exact, columns, process",
        ),
        (["--spark", "local[2]"], "--spark local[2]: give --engine spark with it"),
        (["--engine", "spark", "--spark", "bogus"], "--spark bogus: no Spark master; give spark://host:7077"),
        (["--engine", "spark", "--spark", "spark://here"], "--spark spark://here: no Spark master"),
        (["--engine", "process", "--model", "register"], "--model applies to history files only"),
        (["--pages"], "--pages: the page of a single run is always written"),
    ],
)
def test_wrong_options_are_refused(arguments: list[str], says: str, store: Path, tmp_path: Path) -> None:
    done = inside("check", store / "w" / "20260101T000000.000Z", *arguments, cwd=tmp_path)
    assert done.returncode == 254 and says in done.stderr and len(done.stderr.splitlines()) == 1, done.stderr


def test_a_folder_without_runs_and_one_that_is_not_there_are_told(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    done = inside("check", "--engine", "spark", "empty", cwd=tmp_path)
    assert done.returncode == 254 and "empty: no run in it" in done.stderr
    done = inside("check", "--engine", "process", "nowhere", cwd=tmp_path)
    assert done.returncode == 254 and "nowhere: no such run or store" in done.stderr


def test_a_master_that_does_not_answer_is_told_before_spark_starts(store: Path, tmp_path: Path) -> None:
    done = inside("check", "--engine", "spark", "--spark", "spark://127.0.0.1:1", store, cwd=tmp_path)
    assert done.returncode == 255 and "127.0.0.1:1: connection refused; is it up" in done.stderr
    assert len(done.stderr.splitlines()) == 1 and done.stdout == ""


def test_without_pyspark_the_remedy_is_told(store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.util.find_spec
    monkeypatch.setattr("importlib.util.find_spec", lambda name, *a: None if name == "pyspark" else real(name, *a))
    done = inside("check", "--engine", "spark", store, cwd=tmp_path)
    assert done.returncode == 255 and "pyspark is missing: pip install pyspark" in done.stderr


def test_runs_are_grouped_by_size() -> None:
    groups = grouped([(str(n), n) for n in range(1000)], cores=2)
    assert sorted(r for g in groups for r in g) == sorted(map(str, range(1000)))
    assert len(groups) == 125 and max(map(len, groups)) <= 16
    weight = [sum(int(r) for r in g) for g in groups]
    assert max(weight) <= 1.1 * min(weight)
    assert grouped([], 2) == [] and grouped([("a", 5), ("b", 9)], 8) == [["b"], ["a"]]


@pytest.mark.parametrize(
    "master", ["local", "local[3]", "local[*]", "local[2,4]", "spark://a:1,b:2", "yarn", "k8s://https://a:1"]
)
def test_masters(master: str) -> None:
    assert Cluster(master).master == master


@pytest.mark.parametrize("master", ["", "local[x]", "spark://a", "http://a:1", "mesos://a:1"])
def test_what_is_no_master(master: str) -> None:
    with pytest.raises(MasterError, match=r"no Spark master; give spark://host:7077, .*local\[4\], yarn or k8s://"):
        Cluster(master)


def test_only_a_worker_imports_what_comes_with_a_run(store: Path) -> None:
    run = store / "w" / "20260101T000000.000Z"
    (run / "kinds").mkdir()
    assert Cluster("local[2]")._table_by_table(str(run)) is None, "no table of it is judged from here"


def test_an_error_of_spark_is_one_line() -> None:
    text = """An error occurred while calling o1.collect.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 1.0 failed 1 times
\tat org.apache.spark.Some(Some.scala:1)
Caused by: java.io.IOException: No space left on device
\tat java.base/java.io.FileOutputStream.writeBytes(Native Method)
"""
    assert reason(RuntimeError(text)) == "IOException: No space left on device"
    assert judging_on_spark.full(RuntimeError(text)) and issubclass(SparkError, RuntimeError)
    assert reason(RuntimeError("An error occurred.\n: java.lang.IllegalStateException: stopped\n\tat x")) == (
        "IllegalStateException: stopped"
    )
    assert reason(ValueError("")) == "ValueError"


def test_the_worst_verdict_decides() -> None:
    def code(*valid: object) -> int:
        return many.worst_code([many.RunResult("r", v, "", {}) for v in valid])  # type: ignore[arg-type]

    assert [code(), code(True), code(True, "unknown"), code("unjudged", True), code("unknown", False, True)] == [
        0,
        0,
        2,
        2,
        1,
    ]
