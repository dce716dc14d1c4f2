"""Faults on real Spark: what they must not break is not broken, what they do break is found, and nothing stays behind."""

from __future__ import annotations

import json
from collections import Counter
from itertools import islice
from pathlib import Path

import pytest

from checkers.conflicts import measured, plan, predicted
from checkers.evidence import history, runfolder
from checkers.timeline import fault_windows
from compose.install.installation import Installation
from harness.cli.publish import publish
from harness.experiments import matrix
from harness.run.bench import Bench
from nemesis.faults.schedule import PlannedFault, schedule
from tests.support.runs import Silent, icequake
from workloads import generator
from workloads.file import workload as schema
from workloads.file import workload_text

pytestmark = pytest.mark.spark

HARMLESS = """\
workload: harmless
description: Faults that no promise may break on.
catalog: {catalog}
tables:
  - {{name: a, mode: merge-on-read, partitioned: false}}
  - {{name: b, format_version: 3, mode: merge-on-read}}
writers: 2
keys: {{space: 8}}
length: {{time: 45s}}
op_timeout: 40s
operations: {{insert: 4, update-append: 3, delete: 2, merge-upsert: 2, read: 2}}
nemesis:
  interval: 500ms
  duration: 1500ms
  faults:
    - {{verb: partition, request: any, whose: one}}
    - {{verb: delay, request: any, seconds: 200ms, jitter: 200ms}}
    - {{verb: drop-request, request: commit, probability: 0.5}}
    - {{verb: reject, request: commit, status: 503, retry_after: 1s, sqlstate: "40001", probability: 0.5}}
    - {{verb: throttle, service: store, request: any, rate: 100000}}
    - {{verb: reject, service: store, request: write, status: 503, probability: 0.3}}
    - {{verb: kill, target: executor}}
    - {{verb: pause, target: database}}
    - {{verb: kill, target: catalog}}
    - {{verb: kill, target: driver, whose: one}}
    - {{verb: maintain, do: rewrite-data-files}}
"""


SEED = 9588
"""The first eleven faults of its schedule are the eleven above, in 21 s."""


def planned(catalog: str, count: int) -> list[PlannedFault]:
    """The first faults of the schedule."""
    workload = workload_text.parse(HARMLESS.format(catalog=catalog))
    nemesis = workload.nemesis
    assert nemesis is not None
    return list(islice(schedule(nemesis.all(), nemesis.interval, nemesis.duration, workload.engines, SEED), count))


def test_the_schedule_of_harmless_faults_has_every_one_of_them_in_the_time_of_the_run() -> None:
    workload = workload_text.parse(HARMLESS.format(catalog="rest"))
    assert workload.nemesis is not None and workload.length is not None and workload.length.time is not None
    first = planned("rest", 11)
    assert len({p.fault.name for p in first}) == len(workload.nemesis.faults) == 11
    assert sum(p.pause + p.duration for p in first) < workload.length.time


@pytest.mark.parametrize("catalog", ["rest", "jdbc"])
def test_under_harmless_faults_every_promise_is_kept(tmp_path: Path, catalog: str) -> None:
    (tmp_path / "harmless.yaml").write_text(HARMLESS.format(catalog=catalog))
    done = icequake("run", tmp_path / "harmless.yaml", "--seed", SEED, "--store", tmp_path / "store")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "  faults  " in done.stdout
    folder = runfolder.find(tmp_path / "store" / "latest")
    told = history.read(folder.history)
    assert all(o.completed is not None for o in told.operations())
    windows = fault_windows.windows(told.events)
    assert all(w.healed for w in windows)
    assert len(windows) >= 8 and [w.name for w in windows] == [p.fault.slug for p in planned(catalog, len(windows))]
    (heal,) = [e for e in told.events if e.f == "heal"]
    last = [e for e in told.events if e.extra.get("phase") == "final-reads"]
    assert last and all(e.index > heal.index for e in last)
    requests = [json.loads(line) for line in folder.proxy.read_text().splitlines()]
    kinds = Counter(r["kind"] for r in requests)
    assert kinds["commit"] and kinds["load"] and kinds["write"] and kinds["read"]
    assert any(r.get("faults") for r in requests)
    commits = [r for r in requests if r["kind"] == "commit" and r["status"] in ("200", "UPDATE 1")]
    commits = [r for r in commits if r["service"] == "catalog"]
    assert {r["table"] for r in commits} == {"a", "b"} and all(r["op"] and r["new"] for r in commits if "base" in r)


def test_lost_acknowledgements_on_jdbc_are_found_without_a_script(
    tmp_path: Path, installation: Installation, bench: Bench
) -> None:
    whole = workload_text.load(schema.find("lost-acks-jdbc"))
    workload = whole.model_copy(update={"length": schema.Length(time=45)})
    folder = runfolder.create(tmp_path / "store", workload.workload)
    with Bench(installation, workload.writers, tmp_path / "logs", Silent(), catalog="jdbc", on=bench) as jdbc:
        jdbc.run(workload, folder, generator.operations, command="icequake run", seed=1)
    judged = icequake("check", folder.path)
    assert judged.returncode == 1, judged.stdout + judged.stderr
    assert "false-failure" in judged.stdout or "lost-commit" in judged.stdout
    assert "missing-file" in judged.stdout or "lost-commit" in judged.stdout


def test_a_few_knownof_the_matrix_are_measured_and_an_interrupted_one_goes_on(
    tmp_path: Path, installation: Installation, bench: Bench
) -> None:
    chosen = ("matrix", "--only", "delete", "--only", "update-register", "--into", tmp_path / "matrix")
    cells = list(predicted.cells(tuple(k for k in predicted.MATRIX_KINDS if k in chosen)))[:4]
    at = {"held": "refresh", "mode": "merge-on-read", "version": "2", "isolation": "snapshot", "placement": "same row"}
    pair = {"first": "delete", "second": "update-register"}
    undelete = plan.chosen([f"{dimension}={value}" for dimension, value in (pair | at).items()]).cells()
    cells += undelete
    whole = matrix.Matrix(cells, tmp_path / "matrix", installation, Silent(), on=bench, show=publish)
    known = whole.measure()
    found = known.measured
    assert measured.read(tmp_path / "matrix" / "cells.jsonl")[1] == known and not known.could_not
    assert len(found) == 5 and all(m.held and m.as_predicted for m in found)
    (back,) = (m for m in found if m.cell in undelete)
    assert back.anomalies == ("undelete",) and (back.first.attempts, back.requests) == (1, 1)
    assert (tmp_path / "matrix" / str(back.run) / "report.html").is_file()
    before = (tmp_path / "matrix" / "cells.jsonl").read_text()
    more = list(predicted.cells(tuple(k for k in predicted.MATRIX_KINDS if k in chosen)))[:6]
    found = matrix.Matrix(more, tmp_path / "matrix", installation, Silent(), on=bench).measure().measured
    assert {m.cell for m in found} == {*more}
    assert len(measured.read(tmp_path / "matrix" / "cells.jsonl")[1].measured) == 7
    again = icequake(*chosen, "--limit", 6, "--against", tmp_path / "matrix")
    assert again.returncode == 0, again.stdout + again.stderr
    after = (tmp_path / "matrix" / "cells.jsonl").read_text()
    assert after.startswith(before) and len(after.splitlines()) == 1 + 7
    assert not list((tmp_path / "matrix").glob("run-*"))
