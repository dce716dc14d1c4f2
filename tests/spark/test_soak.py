"""Two runs of a soak on real Spark: one cell, on the warm stack of the test session."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from checkers.columns import dataset as columns
from checkers.evidence import runfolder
from harness.cli.check import publish
from harness.cli.soak import repeating
from harness.experiments.soak import RUNS, Order, Soak
from harness.experiments.soakstacks import OnBench
from harness.run.bench import Bench
from tests.support.runs import Silent
from tests.support.soaks import suite_file

pytestmark = pytest.mark.spark

ONE = """\
suite: one
length: 2s
cells: {workloads: contention, catalogs: rest, faults: flaky-catalog, writers: 2}
free: 1MB
"""


def test_runs_of_a_cell_share_a_stack_and_leave_their_lines(bench: Bench, tmp_path: Path) -> None:
    file = suite_file(tmp_path, ONE)
    order = Order(file, file.suite, 3, repeating(file), runs=2)
    into = tmp_path / "night"
    with Soak(order, into, Silent(), publish, start=lambda *_: OnBench(bench, contextlib.ExitStack())) as whole:
        night = whole.go()
    assert (
        [x.number for x in night.lines] == [0, 1] and night.stopped is None and len({x.seed for x in night.lines}) == 2
    )
    assert all(x.ended in ("valid", "unknown") and x.operations and x.peak_memory > 10**8 for x in night.lines), (
        night.lines
    )
    kept = {f.path.relative_to(into).as_posix() for f in runfolder.runs(into / RUNS)}
    assert kept == {x.folder for x in night.lines if x.ended != "valid"}
    for dataset in (into / "columns").glob("*"):
        assert [*columns.each(dataset)]
