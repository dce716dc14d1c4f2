"""A sweep on the real catalog: committers, two policies, one stack; a second call measures nothing again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from checkers.evidence import history, runfolder
from tests.support.runs import icequake

pytestmark = pytest.mark.spark

SMALL = """\
workload: small
writers: {committer: 6}
length: {ops: 30}
tables:
  - {name: t, partitions: 1, seed_rows: 2, mode: merge-on-read, properties: {commit.retry.num-retries: "60", commit.retry.min-wait-ms: "5"}}
operations: {insert: {weight: 4, rows: 1}, update-counter: 1}
vary: {backoff: [iceberg, exponential+jitter]}
"""


def test_committers_of_two_policies(tmp_path: Path) -> None:
    (tmp_path / "small.yaml").write_text(SMALL)
    where = ("--store", tmp_path / "store", "--into", tmp_path / "s", "--json", tmp_path / "all.json")
    arguments = ("sweep", tmp_path / "small.yaml", "--seed", 5, "--simulate", "--cluster", "local", *where)
    done = icequake(*arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2/2 rest backoff=exponential+jitter" in done.stderr + done.stdout
    runs = runfolder.runs(tmp_path / "store")
    assert len(runs) == 2 and all(r.report.exists() for r in runs)
    assert not (tmp_path / "s" / "logs" / "jdbc").exists()
    for run in runs:
        operations = [o for o in history.read(run.history).operations() if o.invoked.extra.get("phase") == "main"]
        assert len(operations) == 30 and {o.engine for o in operations} == {"committer"}
        committed = [o for o in operations if o.type == "ok"]
        attempts = [a for o in committed if o.completed for a in o.completed.extra.get("attempts", ())]
        assert len(attempts) > len(committed), "six writers of one table never met"
        refused = [a for a in attempts if a["outcome"] == "refused"]
        assert refused and all(a["swap_ms"] > 0 and a["metadata_ms"] == 0 for a in refused), (
            "the server writes metadata files"
        )
    found = json.loads((tmp_path / "all.json").read_text())
    text = json.dumps(found)
    assert "retries_mean" in text and "backoff" in text

    again = icequake(*arguments)
    assert again.returncode == 0 and len(runfolder.runs(tmp_path / "store")) == 2
    assert "2 of 2 runs are there already" in again.stderr + again.stdout
