"""A failed run is shrunk on real Spark, to a scenario that is reproduced."""

from __future__ import annotations

from pathlib import Path

import pytest

from checkers.evidence.runfolder import RunFolder
from compose.install.installation import Installation
from harness.cli.publish import publish
from harness.experiments.shrink.log import journal_of, trials
from harness.experiments.shrink.shrink import Shrink, failed
from harness.experiments.shrink.trials import RUNS, Budget, TrialBench, Trials
from harness.run.bench import Bench
from tests.harness.experiments.shrink.failedrun import failed_run
from tests.support.runs import Silent
from workloads.file.anomalies import entries_of

pytestmark = pytest.mark.spark


def test_an_undelete_is_shrunk_to_a_scenario_that_is_reproduced(
    bench: Bench, installation: Installation, tmp_path: Path
) -> None:
    run, into = failed(RunFolder(failed_run(tmp_path)), None), tmp_path / "into"
    trial = TrialBench(
        into / RUNS,
        into / "logs",
        installation,
        Silent(),
        publish,
        catalog="rest",
        bench=bench,
        replays=lambda recording: f"icequake run two --order 'replay {recording}'",
        proves="icequake prove scenario.yaml",
    )
    with journal_of(into, {"run": "undelete"}) as log, trial as runner:
        asked = Trials(runner, log, into, run.name, Budget(runs=4), Silent())
        left, _, found = Shrink(run, into, asked, Silent(), tries=1, times=1).shrink()
    assert left is not None, trials(into)
    assert sorted(o.f for o in left.operations) == ["delete", "update-register"]
    assert found.translation is not None, found
    assert str(found.tries) == "1 of 1"
    assert found.translation.scenario.anomalies == entries_of("undelete")
