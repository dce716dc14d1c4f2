"""PyIceberg beside Spark: both write to the same tables through the same catalog, and every checker follows both."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import pytest

from checkers.evidence import runfolder
from compose.install.installation import Installation
from harness.cli.publish import publish
from harness.experiments.prove import prove
from harness.run.bench import Bench
from tests.support.runs import Silent, icequake
from workloads import generator
from workloads.file import scenario, workload_text

pytestmark = pytest.mark.spark

SHOWN = (
    *("pyiceberg-duplicate-insert", "pyiceberg-duplicate-delete", "pyiceberg-upsert-race"),
    *("pyiceberg-equality-delete", "pyiceberg-equality-delete-refused"),
)
MIXED = """\
workload: spark-and-pyiceberg
catalog: {catalog}
tables:
  - {{name: t, partitions: 2, seed_rows: 8}}
  - {{name: m, mode: merge-on-read, isolation: snapshot, partitioned: false, seed_rows: 8}}
  - {{name: d, mode: merge-on-read, format_version: 3, seed_rows: 8}}
writers: {{spark: 1, pyiceberg: 1}}
length: {{ops: 50}}
operations: {{insert: 2, update-counter: 3, update-append: 2, delete: 1, delete-where: 1, overwrite-where: 1, read: 2, read-snapshot: 2}}
allow: [{allow}]
"""


@pytest.mark.parametrize(("catalog", "allow"), [("rest", ""), ("jdbc", "snapshot-log")])
def test_both_write_the_same_tables(
    catalog: str, allow: str, tmp_path: Path, installation: Installation, bench: Bench
) -> None:
    mixed = workload_text.parse(MIXED.format(catalog=catalog, allow=allow))
    run = runfolder.create(tmp_path / "store", mixed.workload)
    with contextlib.ExitStack() as stack:
        own = bench
        if catalog != bench.catalog:
            own = stack.enter_context(Bench(installation, 2, tmp_path / "logs", Silent(), catalog=catalog, on=bench))
        own.run(mixed, run, generator.operations, command="icequake run", seed=1)
    judged = icequake("check", run.path)
    assert judged.returncode == 0, judged.stdout + judged.stderr
    folder = run.path
    events = [json.loads(line) for line in (folder / "history.jsonl").read_text().splitlines()[1:]]
    theirs = {e["op"] for e in events if e.get("engine") == "pyiceberg"}
    made: dict[str, int] = {}
    for log in (folder / "tablelog").glob("*.jsonl"):
        for record in map(json.loads, log.read_text().splitlines()):
            if record["type"] == "commit" and record["op"] in theirs:
                made[record["op"]] = made.get(record["op"], 0) + 1
    assert made and max(made.values()) > 1, "an overwrite of PyIceberg adds more than one snapshot"
    assert {e["type"] for e in events if e["op"] in theirs and e["type"] != "invoke"} <= {"ok", "fail"}


def test_its_promises_and_its_defects_are_shown(tmp_path: Path, installation: Installation, bench: Bench) -> None:
    proofs, _ = prove(scenario.find([*SHOWN]), installation, tmp_path / "store", Silent(), publish, on=bench)
    assert {p.scenario: (p.state, p.why) for p in proofs} == dict.fromkeys(SHOWN, ("reproduced", ()))
