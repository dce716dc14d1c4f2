"""Spark Structured Streaming as an engine: what it writes once, what it writes twice, and by which epochs."""

from __future__ import annotations

from pathlib import Path

import pytest

from checkers.evidence import history, tablelog
from checkers.evidence.runfolder import RunFolder
from compose.install.installation import Installation
from harness.cli.check import publish
from harness.experiments.prove import prove
from harness.run.bench import Bench
from tests.support.runs import Silent
from workloads.file import scenario

pytestmark = pytest.mark.spark


def test_its_defects_and_controls_are_shown_and_a_killed_writer_goes_on_with_its_epochs(
    tmp_path: Path, installation: Installation, bench: Bench
) -> None:
    mine = [s for s in scenario.find([]) if "stream" in s.engines.values()]
    assert {bool(s.anomalies) for s in mine} == {True, False}
    proofs, _ = prove(mine, installation, tmp_path / "store", Silent(), publish, on=bench)
    assert {p.scenario: (p.state, p.why) for p in proofs} == {s.scenario: ("reproduced", ()) for s in mine}

    (killed,) = (p for p in proofs if p.scenario == "stream-killed")
    assert killed.folder is not None
    folder = RunFolder(Path(killed.folder))
    ops = [o.op for o in history.read(folder.history).operations() if o.engine == "stream"]
    commits = [c for c in tablelog.read_all(folder.tablelog)["t"].main() if c.op in ops]
    of_query = {c.summary["spark.sql.streaming.queryId"] for c in commits}
    assert len(of_query) == 1, "the same query in the first driver and in those that replaced it"
    epochs = [(c.op, c.summary["spark.sql.streaming.epochId"]) for c in commits]
    assert epochs == [(op, str(n)) for n, op in enumerate(ops)]
