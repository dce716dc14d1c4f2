"""Every catalog on real Spark: its scenarios are shown, what it promises it keeps while its server is killed, and its log and its
proxies tell what happened. Each starts its own servers; the object store, Spark and the writers are those of the test session."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from checkers.evidence import history, runfolder
from checkers.judge import check
from checkers.judge.runfolder import load_evidence, load_promises
from checkers.verdict import exit_code
from compose.catalogs.registry import CATALOGS
from compose.install.installation import Installation
from harness.cli.publish import publish
from harness.experiments.prove import prove
from harness.run.bench import Bench
from tests.support.runs import Silent
from workloads import generator
from workloads.file import scenario, workload_text

pytestmark = pytest.mark.spark

# A Nessie that is killed while it reads a table's metadata leaves that task as running: for a minute, nobody else can load the table
# (EntitySnapshotTaskBehavior.runningTaskState). A client has to wait longer than that to see that the server is back with its data.
# The load lasts for a time and not for a number of operations, and the server is up for 5 s and more between two kills: on a busy machine Hive
# needs 9 s to start, and operations that fail at once would use up any number meanwhile, so that no write reached one of the tables.
WORKLOAD = """\
workload: small
catalog: {catalog}
catalog_properties: {{rest.client.socket-timeout-ms: "80000"}}
tables:
  - {{name: a, mode: merge-on-read, partitioned: false}}
  - {{name: b, mode: copy-on-write}}
writers: 2
keys: {{space: 8}}
phases: [{{name: main, length: {{time: 60s}}, rate: 2}}]
op_timeout: 90s
operations: {{insert: 6, update-append: 3, delete: 2, merge-upsert: 2, read: 1, set-property: 1}}
nemesis:
  interval: 10s
  duration: 500ms
  faults:
    - {{verb: kill, target: catalog}}
"""

COVERED = ("rest", "jdbc")
"""By the tests of faults and of scenarios."""
EACH_PUSH = ("jdbc-sqlite", "hive", "hadoop-conditional", "glue-cas")
"""One of each other wire; the rest of them at night."""
OTHERS = [
    pytest.param(name, marks=[pytest.mark.nightly] * (name not in EACH_PUSH))
    for name in CATALOGS
    if name not in COVERED and name != "polaris"
]


def test_a_catalog_of_each_wire_is_tried_on_each_push() -> None:
    assert {CATALOGS[name].wire for name in (*COVERED, *EACH_PUSH)} == {entry.wire for entry in CATALOGS.values()}


@pytest.mark.parametrize("catalog", OTHERS)
def test_a_catalog_shows_its_scenarios_and_keeps_what_it_promises_while_its_server_is_killed(
    tmp_path: Path, catalog: str, installation: Installation, bench: Bench
) -> None:
    entry = CATALOGS[catalog]
    mine = [s for s in scenario.find([]) if s.catalog == catalog]
    workload = workload_text.parse(WORKLOAD.format(catalog=catalog))
    with Bench(installation, 2, tmp_path / "logs", Silent(), catalog=catalog, on=bench) as own:
        proofs, _ = prove(mine, installation, tmp_path / "scenarios", Silent(), publish, on=own)
        folder = runfolder.create(tmp_path / "store", "small")
        own.run(workload, folder, generator.operations, command="icequake run", seed=3)
    assert [(p.scenario, p.state, p.why) for p in proofs] == [(s.scenario, "reproduced", ()) for s in mine]
    results = check.check(load_evidence(folder.path), check.ALL, load_promises(folder.path))
    # Of one that promises nothing a short run may find it or not; both are definite.
    assert exit_code(results.valid) in ((0,) if entry.guard != "none" else (0, 1)), results
    whole = history.read(folder.history)
    told = whole.operations()
    assert len(told) > 24 and all(o.completed is not None for o in told)
    last = [o for o in told if o.invoked.extra.get("phase") == "final-reads"]
    assert last and all(o.type == "ok" for o in last), "its server is back, with its data"
    evidence = load_evidence(folder.path)
    assert all(log.complete and not log.missing_files for log in evidence.logs.values())
    # While the server is down operations fail at once, so how many get through is a matter of speed; the seeds are from before.
    assert all(log.main() for log in evidence.logs.values())
    requests = [json.loads(line) for line in folder.proxy.read_text().splitlines()]
    commits = [r for r in requests if r["kind"] == "commit" and r["service"] == "catalog"]
    if entry.wire is None:
        assert not commits
    elif entry.lists_one:
        assert commits and not evidence.swaps, "the server names a place of its own, not the metadata file"
    else:
        assert set(evidence.swaps) == {"a", "b"}, "the proxies tell the swaps"
    struck = [dict(e.value).get("struck") for e in whole.events if e.f == "stop-kill-catalog"]
    assert struck and {s for s in struck if s} == ({entry.services[-1]} if entry.services else set())
