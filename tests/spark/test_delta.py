"""Tables of Delta Lake on real Spark: beside Iceberg in one run, and what the two log stores on S3 promise."""

from __future__ import annotations

from pathlib import Path

import pytest

from checkers.formats.delta.records import delta_log
from checkers.judge.check import check
from checkers.judge.runfolder import load_evidence
from compose.install.installation import Installation
from harness.cli.publish import publish
from harness.experiments.prove import prove
from harness.run.bench import Bench
from tests.support.runs import Silent, execute
from workloads.engines.duckdb import ON_DELTA
from workloads.file import scenario
from workloads.file.workload import Workload

pytestmark = pytest.mark.spark

BOTH = {
    "workload": "both-formats",
    "tables": [
        {"name": "lake", "format": "delta", "mode": "merge-on-read"},
        {"name": "ice", "format_version": 3, "mode": "merge-on-read"},
    ],
    "writers": 2,
    "session": "fast",
    "cluster": "local",
    "keys": {"space": 8},
    "length": {"ops": 30},
    "operations": {
        "insert": 3,
        "update-append": 3,
        "delete": 2,
        "merge-upsert": 3,
        "read": 2,
        "read-snapshot": 1,
        "rewrite-data-files": 1,
    },
}


def test_both_formats_are_written_and_judged_in_one_run(
    tmp_path: Path, installation: Installation, bench: Bench
) -> None:
    folder = execute(Workload.model_validate(BOTH), tmp_path, installation, bench.endpoints, seed=2)
    e = load_evidence(folder.path)
    results = check(e)
    assert results.valid is True, [(v.checker, v.anomalies, v.notes) for v in results.verdicts if v.valid is not True]
    assert {name: log.table_format for name, log in e.logs.items()} == {"lake": "delta", "ice": "iceberg"}
    assert {o.table for o in e.history.operations() if o.f == "rewrite-data-files"} <= {"ice"}, (
        "Delta has no such operation"
    )
    assert all(c.op is not None and c.readable for log in e.logs.values() for c in log.commits)


def test_duckdb_appends_to_a_delta_table_beside_spark(tmp_path: Path, installation: Installation, bench: Bench) -> None:
    given = {**BOTH, "tables": BOTH["tables"][:1], "writers": {"spark": 1, "duckdb": 2}, "length": {"ops": 60}}  # type: ignore[index]
    given["operations"] = {
        "insert": 4,
        "insert-select": 2,
        "update-append": 1,
        "delete": 1,
        "read": 2,
        "read-snapshot": 1,
    }
    folder = execute(Workload.model_validate(given), tmp_path, installation, bench.endpoints, seed=3)
    e = load_evidence(folder.path)
    results = check(e)
    assert results.valid is True, [(v.checker, v.anomalies, v.notes) for v in results.verdicts if v.valid is not True]
    by_duckdb = [o for o in e.history.operations() if o.engine == "duckdb"]
    assert {"insert", "insert-select", "read", "read-snapshot"} <= {o.f for o in by_duckdb if o.type == "ok"}
    assert {o.f for o in by_duckdb} <= {*ON_DELTA}
    says = [m.info.get("operation") for m in delta_log(e.logs["lake"]).metadata]
    assert says.count("UNKNOWN") == sum(o.type == "ok" and o.f.startswith("insert") for o in by_duckdb)


OF_DELTA = {
    **BOTH,
    "workload": "kinds-of-delta",
    "tables": [
        {
            "name": "fed",
            "format": "delta",
            "mode": "merge-on-read",
            "properties": {"delta.enableChangeDataFeed": "true"},
        },
        {
            "name": "restored",
            "format": "delta",
            "mode": "merge-on-read",
            "properties": {"delta.columnMapping.mode": "name"},
        },
    ],
    "length": {"ops": 120},
    "operations": {
        "update-append": 2,
        "delete": 2,
        "read": 2,
        "replace-where": 2,
        "stream-append": 3,
        "reorg-purge": 1,
        "delta-add-column": {"weight": 3, "columns": 3},
        "delta-rename-column": {"weight": 2, "columns": 3, "tables": ["restored"]},
        "delta-drop-column": {"weight": 1, "columns": 3, "tables": ["restored"]},
        "delta-set-property": 1,
        "read-changes": {"weight": 3, "tables": ["fed"]},
        "restore": {"weight": 3, "tables": ["restored"]},
    },
}


def test_the_kinds_that_only_delta_has_do_what_they_mean(
    tmp_path: Path, installation: Installation, bench: Bench
) -> None:
    folder = execute(Workload.model_validate(OF_DELTA), tmp_path, installation, bench.endpoints, seed=1)
    e = load_evidence(folder.path)
    results = check(e)
    assert results.valid is True, [(v.checker, v.anomalies, v.notes) for v in results.verdicts if v.valid is not True]
    operations = e.history.operations()
    assert {*OF_DELTA["operations"]} == {o.f for o in operations if o.type == "ok"} - {"insert"}  # type: ignore[call-overload]
    again = {o.op for o in operations if o.f == "stream-append" and o.type == "ok" and o.value["again"]}
    commits = [c.op for log in e.logs.values() for c in log.commits]
    assert again and all(commits.count(op) == 1 for op in again), "a batch that is sent twice is there once"


@pytest.mark.parametrize(
    "name",
    [
        "delta-lost-commit",
        pytest.param("delta-conditional-conflict", marks=pytest.mark.nightly),
        "delta-conditional-lost-ack",
    ],
)
def test_a_log_store_keeps_or_loses_a_commit_as_its_guard_says(
    name: str, tmp_path: Path, installation: Installation, bench: Bench
) -> None:
    (proof,), _ = prove(scenario.find([name]), installation, tmp_path / "store", Silent(), publish, on=bench)
    assert (proof.state, proof.why) == ("reproduced", ())
