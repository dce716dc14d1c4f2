"""The reader of Delta tables against Spark and against DuckDB, at every version of tables that many kinds of operations made."""

from __future__ import annotations

import json
import os
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from checkers.formats.delta.records import delta_log
from compose.install import delta, engines, ensure, releases
from compose.install.cache import home
from compose.install.installation import Installation
from compose.objectstore import ObjectStore
from harness.tablefiles.delta.reader import DeltaReader
from tests.support.runs import ROOT
from workloads.tables import COLUMNS

pytestmark = pytest.mark.spark

LEAST_VERSIONS = 10
"""Of each run."""
Versions = dict[int, Counter[tuple[object, ...]]]


def told(path: Path) -> Versions:
    return {int(v): Counter(map(tuple, rows)) for v, rows in json.loads(path.read_text()).items()}


def as_the_log_says(place: Path) -> Versions:
    log = delta_log(
        DeltaReader(ObjectStore(), table="t", location=place.as_uri(), columns=COLUMNS, path=None).finish(None, 0)
    )
    rows: Counter[tuple[object, ...]] = Counter()
    out: Versions = {}
    for c in log.commits:
        assert c.added is not None and c.removed is not None, c.problems
        rows = rows - Counter(r.row for r in c.removed) + Counter(r.row for r in c.added)
        out[c.snapshot_id] = rows
    return out


@pytest.mark.parametrize("runs", [1, pytest.param(10, marks=pytest.mark.nightly)])
def test_each_version_has_the_rows_that_spark_and_duckdb_read_of_it(
    runs: int, tmp_path: Path, installation: Installation
) -> None:
    delta.ensure(installation)
    libraries = [*ensure.paths(installation, "spark"), *delta.paths(installation)]
    jars, duckdb = ":".join(map(str, libraries)), releases.environment(home(), engines.DUCKDB)
    for reader, python in (("spark", installation.python), ("duckdb", duckdb)):
        command = [python, "-m", "tests.support.delta_versions", reader, tmp_path, "0", str(runs)]
        done = subprocess.run(
            [*map(str, command)], cwd=ROOT, env={**os.environ, "DELTA_JARS": jars}, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr[-3000:]
    count = 0
    for seed in range(runs):
        ours, spark = as_the_log_says(tmp_path / str(seed)), told(tmp_path / f"{seed}.json")
        assert {v: rows for v, rows in ours.items() if v} == spark, seed
        assert spark == told(tmp_path / f"{seed}.duckdb.json"), seed
        count += len(spark)
    print(f"{count} versions of {runs} runs: no difference")
    assert count >= LEAST_VERSIONS * runs
