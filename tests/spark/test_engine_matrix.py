"""Cells of the engine matrix on real Spark and DuckDB: the gate holds either engine's commit, and a stopped matrix goes on."""

from __future__ import annotations

from pathlib import Path

import pytest

from checkers.conflicts import measured, predicted
from compose.install.installation import Installation
from harness.cli.publish import publish
from harness.experiments.matrix import Matrix
from harness.run.bench import Bench
from reports.drawing import render
from reports.matrix import page
from tests.support.runs import Silent

pytestmark = pytest.mark.spark


def test_operations_of_two_engines_end_as_their_code_says(
    tmp_path: Path, installation: Installation, bench: Bench
) -> None:
    every = predicted.engine_cells(("spark", "duckdb"), ("insert", "delete"))
    usual = (c for c in every if c.placement == "same row" and c.isolation == "serializable")
    mixed = [c for c in usual if c.first_engine != c.second_engine]
    pairs = {("insert", "insert"), ("insert", "delete"), ("delete", "insert")}
    cells = [c for c in mixed if (c.first, c.second) in pairs]
    first = Matrix(cells[:2], tmp_path, installation, Silent(), on=bench, publish=publish).measure()
    whole = Matrix(cells, tmp_path, installation, Silent(), on=bench, publish=publish).measure()
    found = whole.measured
    assert found[:2] == first.measured and measured.read(tmp_path / "cells.jsonl")[1] == whole
    assert not whole.could_not
    assert {m.cell for m in found} == {*cells} and len(cells) == 6
    assert all(m.held and m.as_predicted for m in found), [m.to_json() for m in found]
    assert all(m.first.outcome == "aborted" for m in found if m.cell.first_engine == "duckdb")
    assert all((tmp_path / str(m.run) / "report.html").exists() for m in found)
    assert all(not m.anomalies for m in found), [m.to_json() for m in found]
    assert render.write(page.of(*measured.read(tmp_path / "cells.jsonl")), tmp_path).exists()
