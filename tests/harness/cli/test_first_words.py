"""What a new user mistypes or asks: the answer names the mistake and what to type."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.runs import inside

WRONG = [
    (["run", "quick", "--spark", "http://x", "--dry-run"], "--spark http://x: no Spark master; give spark://host:7077"),
    (["run", "store", "--dry-run"], "store is a folder; give a workload file, or one of the library (atomicity, "),
    (["soak", "undelete", "--dry-run"], "undelete is a scenario, not a suite; `icequake prove undelete` runs it"),
    (["soak", "quick", "--dry-run"], "quick is a workload, not a suite; `icequake run quick` runs it"),
    (["setup", "duckdb", "--dry-run"], "setup duckdb: that is an engine; give --engine duckdb"),
    (["shrink", "store", "--dry-run"], "it has runs in it: name one, such as "),
    (["report", "store", "--dry-run"], "store/w/one"),
    (["lake", "add", "store", "--store", "nosuch"], "there is no store {here}/nosuch; `lake init --store DIR` makes one"),
    (["lake", "add", "empty"], "lake add: no run in "),
    (["run", "", "--dry-run"], "the name of the workload is empty; in the library: atomicity, "),
    (["run", "quick", "--store", "file", "--dry-run"], "--store {here}/file: that is a file; give a folder"),
    (["run", "quick", "--catalog", "my.yaml", "--dry-run"], "my.yaml: no such file; its path is relative to {here}, or "),
    (["prove", "undelete", "undelete", "--dry-run"], "undelete: named twice; once is enough, and --times repeats all"),
    (["run", "variable.yaml", "--dry-run"], "variable.yaml:2: catalog_properties: token: variables (${{…}}) are filled in only in a "),
    (["run", "guard.yaml", "--dry-run"], "guard.yaml:2: guard: no table is a Delta table, whose commits local could guard; "),
]  # fmt: skip


@pytest.mark.parametrize(("typed", "said"), WRONG, ids=lambda x: " ".join(x) if isinstance(x, list) else "")
def test_a_mistake_is_answered_with_what_to_type(typed: list[str], said: str, tmp_path: Path) -> None:
    (tmp_path / "store/w/one").mkdir(parents=True)
    (tmp_path / "store/w/one/plan.yaml").touch()
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").touch()
    (tmp_path / "guard.yaml").write_text(
        "workload: mine\nguard: local\ntables: [{name: t}]\nwriters: 1\nlength: {ops: 10}\noperations: {insert: 1}\n"
    )
    (tmp_path / "variable.yaml").write_text(
        "workload: mine\ncatalog_properties: {token: '${NOWHERE_SET}'}\ntables: [{name: t}]\nwriters: 1\nlength: {ops: 10}\n"
        "operations: {insert: 1}\n"
    )
    done = inside(*typed, cwd=tmp_path)
    assert done.returncode == 254 and len(done.stderr.splitlines()) == 1, done.stderr
    assert said.format(here=tmp_path) in done.stderr
    assert not (tmp_path / "nosuch").exists() and not (tmp_path / "store/lake").exists()


def test_a_start_that_failed_does_not_hide_the_run_before_it(tmp_path: Path) -> None:
    store = tmp_path / "store"
    for name in ("w/20260101T000000.000Z", "w/20260102T000000.000Z"):
        (store / name).mkdir(parents=True)
        (store / name / "plan.yaml").touch()
    (store / "w/20260101T000000.000Z/history.jsonl").touch()
    (store / "latest").symlink_to("w/20260102T000000.000Z")
    done = inside("check", cwd=tmp_path)
    assert done.returncode == 254
    assert (
        f"{store}/w/20260102T000000.000Z, never began; name another one: the last that did is {store}/w/20260101"
        in done.stderr
    )


@pytest.mark.parametrize(
    "name", ["ValidationException", "CommitFailedException", "TransactionException", "unknown", "failed"]
)
def test_the_words_of_a_runs_last_lines_are_explained(name: str, tmp_path: Path) -> None:
    done = inside("explain", name, cwd=tmp_path)
    assert done.returncode == 0 and done.stdout.startswith(f"{name}: an "), done.stderr


def test_every_scenario_of_an_anomaly_is_named(tmp_path: Path) -> None:
    assert "rest-lost-transaction" in inside("explain", "lost-commit", cwd=tmp_path).stdout


@pytest.mark.parametrize("name", ["15511", "#15511", "https://github.com/apache/iceberg/pull/15511"])
def test_an_issue_is_explained_as_what_shows_it(name: str, tmp_path: Path) -> None:
    done = inside("explain", name, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"{name}: https://github.com/apache/iceberg/pull/15511\n")
    said = " ".join(done.stdout.split())
    assert all(word in said for word in ("scenario rest-503-no-rival: ", "its anomalies", "run it icequake prove "))
    assert "affected jdbc-no-rival: 1.7.0 to 1.10.1. affected rest-503-no-rival: 1.7.0 to 1.10.1, where" in said


def test_what_an_issue_leads_to_keeps_the_options_that_were_typed(tmp_path: Path) -> None:
    typed = ("undelete", "#15511", "--iceberg", "1.10.1", "--times", "5", "--store", "here")
    done = inside("prove", *typed, cwd=tmp_path)
    said = " ".join(done.stderr.split())
    assert (
        done.returncode == 254
        and "#15511: no scenario but an issue; for what shows it: icequake prove undelete jdbc-no" in said
    )
    assert "rest-503-no-rival --times 5 --iceberg 1.10.1 " in said and f"--store {tmp_path / 'here'}" in said


def test_a_suite_with_several_mistakes_is_told_all_of_them(tmp_path: Path) -> None:
    text = """suite: night
length: 30q
cells:
  workloads: [quick]
  catalogs: [rest]
  iceberg: ["1.12"]
known:
  - {anomaly: undelit, link: "https://x.y"}
"""
    (tmp_path / "s.yaml").write_text(text)
    told = inside("soak", "s.yaml", "--dry-run", cwd=tmp_path).stderr.splitlines()
    assert [line.partition("s.yaml:")[2][:1] for line in told] == ["2", "6", "8"], told
    assert "no Iceberg release '1.12'" in told[1] and "unknown anomaly 'undelit'" in told[2]


def test_a_weight_of_an_operation_is_called_as_it_is_written(tmp_path: Path) -> None:
    text = "workload: w\ntables: [{name: t}]\nwriters: 2\nlength: {time: 30s}\noperations:\n  insert: 1\n  delete: -1\n"
    (tmp_path / "w.yaml").write_text(text)
    assert "w.yaml:7: delete: must be at least 0, not -1" in inside("run", "w.yaml", "--dry-run", cwd=tmp_path).stderr
