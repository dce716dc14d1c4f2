"""Many runs, and runs too long for a task, are judged by a real Spark as in this process, to the byte."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from bench import columns as made
from bench import files
from checkers.columns import TableFrame, Unordinary, dataset, frame_of
from checkers.columns.cluster import check_frames
from checkers.judge import by_table
from checkers.judge.check import ALL, check
from checkers.judge.runfolder import load_evidence, load_promises, load_ran
from checkers.timeline.timelines import timelines
from compose.install.installation import Installation
from harness.run.many import one_by_one, runs_below
from tests.checkers.columns.test_dataset import SPECS
from tests.checkers.judge.test_check import stored
from tests.support.bugs import broken_runs
from tests.support.runs import environment
from tests.support.simulator import Defects, simulate

RUNS = 24
FRAMES = 6
"""Seeds of simulated runs whose tables are columns."""
PLANTED = (Defects(), Defects(stale_read=0.5), Defects(forget=0.3), Defects(drop_rows=0.7), Defects(false_failure=0.4))

OWN = """
from checkers.verdict import Checker, Verdict

class Whole(Checker):
    name = "whole"

    def check(self, evidence):
        return Verdict(self.name, bool(evidence.history.events))
"""
"""A checker that must see the whole run: the driver asks it. One that judges by tables must also be where the workers are."""

SCRIPT = """
import json, sys
from pathlib import Path
from checkers.columns.cluster import check_dataset
import checkers
from checkers.judge import by_table
from checkers.judge.registry import find
from harness.run.judging_on_spark import Cluster
from harness.run.many import runs_below

store, data, out, own, long = map(Path, sys.argv[1:])
with Cluster("local[2]") as cluster:
    by_table.LONG = 10
    (line,) = cluster.judge([str(long)])
    checkers.__path__.append(str(own))
    by_table.ALL = find()
    tables = by_table.judged(long, "auto", 2, by_table.on_spark(cluster.spark))
    by_table.LONG = 50_000
    told = [t.to_json() for t in cluster.judge(runs_below(store, print))]
    found = [check_dataset(cluster.spark, data, **how) for how in ({}, {"long": 0}, {"long": 2_000})]
verdicts = [{run: v if isinstance(v, str) else [x.to_json() for x in v] for run, v in f.items()} for f in found]
out.write_text(json.dumps([line.to_json(), tables.to_json(), told, *verdicts]))
"""


def tables() -> Iterator[tuple[str, TableFrame]]:
    """Ordinary tables, clean and broken, a long one, a run of two tables that is none, and tables that lost an operation of a commit."""
    for seed in range(FRAMES):
        e = simulate(seed, SPECS, ops=20, defects=PLANTED[seed % len(PLANTED)]).evidence()
        for t in timelines(e)[0]:
            with suppress(Unordinary):
                yield f"run-{seed}", frame_of(t)
    long = made.frame(2_000, "t")
    val, nobody, kind = long.val.copy(), long.commit_op.copy(), long.kind.copy()
    val[1000] += np.uint64(1)
    nobody[[7, 70]] = -1
    kind[5] = 99
    yield "long", long
    yield "wrong", replace(long, val=val)
    yield "nobody", replace(long, commit_op=nobody)
    yield "strange", replace(long, kind=kind)
    yield "twice", made.frame(300, "a")
    yield "twice", made.frame(300, "b")


def long_run(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run of three tables in which nothing is wrong."""
    monkeypatch.setattr(files, "A_TABLE", 48)
    monkeypatch.setattr(files, "KEYS", 10)
    return files.make_run(folder, 144)


@pytest.mark.spark
def test_spark_says_of_many_runs_and_of_long_tables_what_this_process_says(
    installation: Installation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    long, own = long_run(tmp_path / "long", monkeypatch), tmp_path / "own"
    own.mkdir()
    (own / "whole.py").write_text(OWN)
    store, data = tmp_path / "store", tmp_path / "data"
    for n in range(RUNS):
        run = simulate(n, SPECS[:1], writers=2, ops=5, defects=PLANTED[n % len(PLANTED)])
        stored(run, store / "simulated" / f"20260101T000{n:03}.000Z")
    folders = [Path(r) for r in runs_below(store, print)]
    planted = [run for run, _ in broken_runs(store)]
    folders += planted
    (folders[3] / "history.jsonl").write_text("no history\n")
    # Its worker ends while it reads the run, and with it the other runs of the group; only in a worker, because no operation has the kind.
    (folders[4] / "kinds").mkdir()
    (folders[4] / "kinds" / "gone.py").write_text("import os\nos._exit(9)\n")
    with (folders[4] / "plan.yaml").open("a") as plan:
        plan.write('kinds: {gone: "gone:Gone"}\n')
    here = {t.run: t.to_json() for t in one_by_one(str(f) for f in folders if f != folders[4])}
    results = {f.name: (f / "results.json").read_bytes() for f in folders if (f / "results.json").exists()}
    for f in folders:
        (f / "results.json").unlink(missing_ok=True)
    written = list(tables())
    dataset.write(written, data)
    runs = dict.fromkeys(run for run, _ in written)
    said = {r: [v.to_json() for v in check_frames([t for t in written if t[0] == r])[r]] for r in runs}

    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, store, data, tmp_path / "told.json", own, long],
        capture_output=True,
        text=True,
        timeout=900,
        env=environment(JAVA_HOME=str(installation.java.parent.parent)),
    )
    assert done.returncode == 0, done.stderr[-3000:]
    line, by_tasks, told, *found = json.loads((tmp_path / "told.json").read_text())

    wholly = check(load_evidence(long), ALL, load_promises(long), ran=load_ran(long), engine="columns")
    assert line["valid"] is True and json.loads((long / "results.json").read_text()) == json.loads(
        json.dumps(wholly.to_json())
    )
    forked = by_table.judged(long, "columns", 2)
    assert forked == wholly and by_tasks["valid"] is True
    assert by_tasks["checkers"][:-1] == json.loads(json.dumps(forked.to_json()))["checkers"]
    assert by_tasks["checkers"][-1]["checker"] == "whole" and by_tasks["checkers"][-1]["valid"] is True
    by_run = {t["run"]: t for t in told}
    assert len(told) == RUNS + len(planted) and "the worker that judged it ended" in by_run.pop(str(folders[4]))["said"]
    assert by_run == here
    assert {f.name: (f / "results.json").read_bytes() for f in folders if (f / "results.json").exists()} == results
    assert len(results) == RUNS + len(planted) - 2 > RUNS and {t["valid"] for t in told} >= {True, False, "unjudged"}
    for verdicts in found:
        assert verdicts == json.loads(json.dumps(said))
    assert {v["valid"] for v in said["long"]} == {True} and False in {v["valid"] for v in said["wrong"]}
