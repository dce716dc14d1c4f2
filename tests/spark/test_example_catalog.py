"""The catalog of ``docs/extending.md`` on real Spark: a run with it is like a run with any other."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from checkers.evidence import runfolder
from checkers.judge.check import check
from checkers.judge.runfolder import load_evidence, load_promises
from compose.catalogs.registry import CATALOGS
from compose.install.installation import Installation
from harness.run.bench import Bench
from harness.run.resolve import read_workload
from tests.support.entries import example_catalog
from tests.support.runs import Silent
from workloads import generator

pytestmark = pytest.mark.spark

WORKLOAD = """\
workload: small
catalog: rest-sqlite
tables: [{name: a, mode: merge-on-read}]
writers: 2
keys: {space: 4}
length: {ops: 12}
operations: {insert: 2, update-append: 3, delete: 1}
"""


def test_a_catalog_of_one_file_serves_a_whole_run(
    installation: Installation, bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(CATALOGS, "rest-sqlite", example_catalog(tmp_path))  # type: ignore[arg-type]  # as a line in registry.py does
    (tmp_path / "small.yaml").write_text(WORKLOAD)
    folder = runfolder.create(tmp_path / "store", "small")
    small = read_workload(tmp_path / "small.yaml").workload
    with Bench(installation, 2, tmp_path / "logs", Silent(), catalog="rest-sqlite", on=bench) as own:
        own.run(small, folder, generator.operations, command="", seed=1)
    plan = yaml.safe_load(folder.plan.read_text())
    assert (
        plan["catalog"]["name"] == "rest-sqlite" and "rest" in plan["versions"] and "postgres" not in plan["versions"]
    )
    evidence = load_evidence(folder.path)
    assert len(evidence.logs["a"].main()) >= 4, "operations really committed"
    verdicts = check(evidence, promises=load_promises(folder.path)).verdicts
    assert verdicts and {v.checker: v.valid for v in verdicts if v.valid is not True} == {}
