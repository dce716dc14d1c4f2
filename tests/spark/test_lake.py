"""What Spark says of a lake is what pandas says of the same rows, and Spark changes nothing in it."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from itertools import islice
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from bench.lake import generated
from checkers.costs.measures import FIGURES
from checkers.evidence.runfolder import RunFolder
from checkers.lake.rows import Rows
from checkers.selftest import recorded
from checkers.timeline.metrics import quantile
from compose.install.installation import Installation
from harness.cli.publish import publish
from harness.lake.folders import read
from harness.lake.lake import opened
from harness.lake.place import embedded
from harness.run.judged import judge_run
from tests.support.lakes import copied
from tests.support.runs import environment

pytestmark = pytest.mark.spark

NIGHTS, LAST = 4, 2
SERIES = ["workload", "catalog", "iceberg", "setup"]
ASKED = """
import json, sys
from pathlib import Path
from checkers.costs.trend import trend
from compose.install.ensure import ensure
from harness.lake.errors import QueryError
from harness.lake.lake import opened
from harness.lake.place import embedded
from harness.lake.views import ask, session
store, last, statements = Path(sys.argv[1]), int(sys.argv[2]), json.loads(sys.argv[3])
def said(spark, sql):
    try:
        return [list(row) for row in ask(spark, sql).collect()]
    except QueryError as e:
        return str(e)
with opened(embedded(store)) as lake, session(ensure(), lake, "local[1]") as spark:
    tables = {n: spark.table(n) for n in ("runs", "operations", "metrics", "anomalies")}
    found = trend(tables, last=last).to_json()
    print(json.dumps({"trend": found, "answers": [said(spark, sql) for sql in statements]}, default=str))
"""


def rows_of_a_run(place: Path) -> Rows:
    """The rows of a recorded run."""
    folder = place / "quick-120"
    with zipfile.ZipFile(Path(recorded.__file__).with_name("recorded") / "quick-120.zip") as z:
        z.extractall(folder)
    run = copied(folder, place / "base")
    judge_run(RunFolder(run.path), publish)
    return read(run)


def lake_of(store: Path, place: Path) -> list[Rows]:
    """A lake of :data:`NIGHTS` nights, with rows of one more run that is not in ``runs``; what it has."""
    base = rows_of_a_run(place)
    lost = {
        "name": ["lost-commit"],
        "checker": ["commits"],
        "explanation": ["gone"],
        "expected": [False],
        "allowed": [False],
    }
    lists: dict[str, Any] = {k: [[]] for k in ("ops", "snapshots", "keys", "files")}
    keys = {k: base["runs"][k].to_pylist() for k in ("run", "day")}
    nothing: dict[str, Any] = {k: [None] for k in ("table", "documented", "same_as", "known")}
    schema = base["anomalies"].schema
    anomaly = pa.table({**keys, **lost, **lists, **nothing}).select(schema.names).cast(schema)
    every = list(islice(generated({**base, "anomalies": anomaly}), NIGHTS * 40 + 1))
    *runs, half = every
    with opened(embedded(store), make=True) as lake:
        lake.add(runs)
        for name in ("operations", "metrics", "anomalies"):
            lake.change(name, lambda t, name=name: t.append(half[name]))  # type: ignore[misc]
    return runs


def frame(runs: list[Rows], name: str) -> pd.DataFrame:
    return pa.concat_tables([r[name] for r in runs]).to_pandas()


def keyed(rows: list[dict[str, Any]], *by: str) -> dict[tuple[str, ...], dict[str, Any]]:
    flat = [{**r.pop("series", {}), **r} for r in rows]
    return {tuple(str(r[k]) for k in by): r for r in flat}


def test_the_trend_is_that_of_a_plain_computation_and_statements_only_read(
    installation: Installation, tmp_path: Path
) -> None:
    runs = lake_of(tmp_path, tmp_path)
    statements = [
        "SELECT count(*) FROM runs",
        "SELECT count(*) FROM operations",
        "SELECT count(*) FROM _all_operations",
        "WITH a AS (SELECT 1 x) SELECT x + 1 FROM a;",
        "WITH a AS (SELECT 1 x) INSERT INTO runs SELECT * FROM a",
        "DROP VIEW runs",
        "SELECT 1; DROP VIEW runs",
        "SELECT nothing FROM runs",
        "DESCRIBE anomalies",
    ]
    command = [sys.executable, "-c", ASKED, str(tmp_path), str(LAST), json.dumps(statements)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment())
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout.splitlines()[-1])

    answers = said["answers"]
    operations = frame(runs, "operations")
    assert answers[:4] == [
        [[len(runs)]],
        [[len(operations)]],
        [[len(operations) + len(operations) // len(runs)]],
        [[2]],
    ]
    assert answers[4] == "query: the statement has InsertIntoStatement; it may only read: the lake is read only"
    assert "DROP … is not allowed" in answers[5]
    for answer, condition in zip(answers[6:8], ("PARSE_SYNTAX_ERROR", "UNRESOLVED_COLUMN"), strict=True):
        assert answer.startswith("query: ") and condition in answer, answer
    assert ["explanation", "string", None] in answers[8]
    assert {*done.stderr.splitlines()} <= {""}, "Spark's notes are no output"

    t = said["trend"]
    head = frame(runs, "runs")
    nights = sorted(head["night"].unique())[-(LAST + 1) :]
    assert t["nights"] == [str(n) for n in nights] and t["newest"] == str(nights[-1])
    head = head[head["night"].isin(nights)]
    chosen = head[["run", "night", *SERIES]]
    assert_nights(t["runs"], head)
    assert_points(t["points"], frame(runs, "metrics").merge(chosen, on="run"))
    assert_kinds(t["kinds"], operations[operations["workload"]].drop(columns="workload").merge(chosen, on="run"))
    found = frame(runs, "anomalies").drop(columns="table").merge(chosen, on="run").groupby([*SERIES, "night"]).size()
    assert keyed(t["anomalies"], *SERIES, "night").keys() == {tuple(map(str, k)) for k in found.index}
    assert {(a["name"], a["documented"], a["count"], a["runs"]) for a in t["anomalies"]} == {
        ("lost-commit", False, 5, 5)
    }
    metrics = frame(runs, "metrics").merge(chosen, on="run")
    pairs = metrics[metrics["name"] == "conflicts"].groupby(["catalog", "iceberg", "kind", "by"])["value"].sum()
    assert len(pairs) > 0
    assert {k: r["count"] for k, r in keyed(t["pairs"], "catalog", "iceberg", "kind", "by").items()} == pytest.approx(
        {tuple(map(str, k)): v for k, v in pairs.items()}
    )


def test_a_night_without_a_run_is_not_green(installation: Installation, tmp_path: Path) -> None:
    """Nor in a lake that was made before it said what is known."""
    with opened(embedded(tmp_path), make=True) as lake:
        lake.add([rows_of_a_run(tmp_path)])
        with lake.table("anomalies").update_schema(allow_incompatible_changes=True) as update:
            update.delete_column("known")
    options = ["--night", "2030-01-01", "--store", str(tmp_path), "--spark", "local[1]", "--fail-on-regression"]
    command = [sys.executable, "-m", "harness.cli.app", "trend", *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment())
    assert done.returncode == 2, done.stderr
    assert "No run in the night of 2030-01-01. So nothing was compared. The newest night before it" in done.stdout
    assert json.loads((tmp_path / "trend" / "trend.json").read_text())["ran"] is False


def assert_nights(said: list[dict[str, Any]], head: pd.DataFrame) -> None:
    found = keyed(said, *SERIES, "night")
    groups = {tuple(map(str, k)): g for k, g in head.groupby([*SERIES, "night"])}
    assert found.keys() == groups.keys()
    for key, g in groups.items():
        row = found[key]
        assert (row["runs"], row["invalid"]) == (len(g), (g["verdict"] == "invalid").sum())
        assert {(row["faults"], row["engines"])} == {*zip(g["faults"], g["engines"], strict=True)}
        assert [row[c] for c in ("operations", "commits", "anomalies")] == [
            g[c].sum() for c in ("operations", "commits", "anomalies")
        ]


def assert_points(said: list[dict[str, Any]], metrics: pd.DataFrame) -> None:
    mine = metrics[metrics["name"].isin([f.key for f in FIGURES])]
    groups = {tuple(map(str, k)): g["value"] for k, g in mine.groupby([*SERIES, "name", "night"])}
    found = keyed(said, *SERIES, "figure", "night")
    assert found.keys() == groups.keys()
    for key, values in groups.items():
        row = found[key]
        assert [row[k] for k in ("runs", "median", "low", "high")] == pytest.approx(
            [len(values), values.median(), values.min(), values.max()]
        )


def assert_kinds(said: list[dict[str, Any]], ops: pd.DataFrame) -> None:
    groups = {tuple(map(str, k)): g for k, g in ops.groupby(["catalog", "iceberg", "f", "night"])}
    found = keyed(said, "catalog", "iceberg", "f", "night")
    assert found.keys() == groups.keys()
    for key, g in groups.items():
        row, won = found[key], g[g["committed"] & g["attempts"].notna()]
        assert [
            row[k] for k in ("operations", "ok", "failed", "unknown", "known", "retried", "extra", "conflicts")
        ] == [
            len(g),
            *((g["outcome"] == outcome).sum() for outcome in ("ok", "fail", "info")),
            len(won),
            (won["attempts"] > 1).sum(),
            (won["attempts"] - 1).sum(),
            g["conflict"].notna().sum(),
        ]
        took = g[g["outcome"] == "ok"]["latency_ms"].tolist()
        expected = [quantile(took, q) for q in (0.5, 0.95, 0.99)]
        assert [row["p50"], row["p95"], row["p99"]] == (pytest.approx(expected) if took else expected)
