"""Soaks on real Spark, on the warm stack of the test session: two runs of a cell, and a catalog that forgets commits."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from checkers.columns import dataset as columns
from checkers.evidence import runfolder
from compose.catalogs import user_file
from compose.external.external import External
from compose.install.installation import Installation
from harness.cli.publish import publish
from harness.cli.soak import repeating
from harness.experiments.shrink import rare, shrink
from harness.experiments.soak import Soak
from harness.experiments.soakfolder import RUNS_FOLDER
from harness.experiments.soakorder import SoakPlan
from harness.experiments.soakstacks import SoakBench
from harness.run.bench import Bench
from tests.support.forgetful import AGAIN, forgetful
from tests.support.runs import Silent
from tests.support.soaks import suite_file
from workloads.file import scenario

pytestmark = pytest.mark.spark

ONE = """\
suite: one
length: 2s
cells: {workloads: contention, catalogs: rest, faults: flaky-catalog, writers: 2}
free: 1MB
"""


def test_runs_of_a_cell_share_a_stack_and_leave_their_lines(bench: Bench, tmp_path: Path) -> None:
    file = suite_file(tmp_path, ONE)
    order = SoakPlan(file, file.suite, 3, repeating(file), runs=2)
    into = tmp_path / "night"
    with Soak(order, into, Silent(), publish, start=lambda *_: SoakBench(bench, contextlib.ExitStack())) as whole:
        night = whole.go()
    assert (
        [x.number for x in night.lines] == [0, 1] and night.stopped is None and len({x.seed for x in night.lines}) == 2
    )
    assert all(x.ended in ("valid", "unknown") and x.operations and x.peak_memory > 10**8 for x in night.lines), (
        night.lines
    )
    kept = {f.path.relative_to(into).as_posix() for f in runfolder.runs(into / RUNS_FOLDER)}
    assert kept == {x.folder for x in night.lines if x.ended != "valid"}
    for dataset in (into / "columns").glob("*"):
        assert [*columns.each(dataset)]


FORGETS = """\
workload: forgets
tables: [{name: t, mode: merge-on-read, partitioned: false}]
writers: 1
length: {ops: 5}
operations: {insert: 1}
"""
EVERY, REPEATED = 10, 30
NIGHT = """\
suite: forgets
length: 2s
cells: {workloads: forgets.yaml, catalogs: mine.yaml, faults: none, writers: {committer: 2}}
shrink: {replays: 1}
free: 1MB
stop_on_anomaly: true
"""


def test_a_night_finds_and_shrinks_what_a_catalog_forgets_once_in_many_commits(
    bench: Bench, installation: Installation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It forgets one in the run, none in the replays, and some when operations are repeated: if it did so by chance, the search would now
    and then look for an order that makes it.
    """
    monkeypatch.setattr(rare, "CHEAP", REPEATED)
    with forgetful(bench.endpoints.catalog_uri, EVERY, once=True) as address:

        def repeated(*arguments: Any) -> rare.Rare | None:
            urlopen(address + AGAIN, data=b"").close()
            return rare.search(*arguments)

        monkeypatch.setattr(shrink, "search", repeated)
        mine = tmp_path / "mine.yaml"
        mine.write_text(f"name: mine\nspark: {{type: rest, uri: '{address}'}}\ncommit: {{wire: http}}\n")
        (tmp_path / "forgets.yaml").write_text(FORGETS)
        file = suite_file(tmp_path, NIGHT)
        order = SoakPlan(file, file.suite, 3, repeating(file, records=True), runs=40)
        own = Bench(installation, 1, tmp_path / "logs", Silent(), external=External(user_file.load(mine)), on=bench)
        with (
            own,
            Soak(
                order, tmp_path / "night", Silent(), publish, start=lambda *_: SoakBench(own, contextlib.ExitStack())
            ) as whole,
        ):
            night = whole.go()
    # Now and then the other writer commits before the catalog answers the one whose commit it forgets: then the answer names its version.
    assert {f.anomaly for f in night.finds} <= {"lost-commit", "foreign-swap"}
    (found,) = (f for f in night.finds if f.anomaly == "lost-commit")
    assert (found.anomaly, found.became, found.replays) == ("lost-commit", "shrunk", "0 of 1"), found
    assert found.operations == found.writers == 1
    assert found.scenario is not None and found.rate is not None and found.rate.endswith(" repetitions")
    made = scenario.load(night.folder / found.scenario)
    assert made.catalog == str(mine) and "lost-commit" in {e.name for e in made.anomalies}
