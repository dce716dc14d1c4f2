"""What ``commits``, ``replay``, ``reads`` and ``isolation`` cost when the order of commits is known: columns, and the exact checkers.

First a simulated run of one table and 10^4 operations as it lies in the store, by both engines in one process: what it takes to read the
files, to put them into columns, to judge them, and the ratio. Then clean columns of 10^4 to 10^7 operations (``bench.columns``), each judged
in a process of its own: seconds (the least of three; reading the file not included), the process' peak memory with the columns themselves,
growth exponent from size to size (1 is linear). Last 10^7 operations in eight tables, from Parquet files: one table after the other in
this process, and by Spark on two cores (``checkers.columns.cluster``), with the same verdicts.
"""

from __future__ import annotations

import json
import math
import os
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from bench import columns
from checkers.columns import TableFrame, dataset, frame_of
from checkers.columns import cluster as spark_columns
from checkers.columns.engine import _EXACT, judge_frame
from checkers.evidence import history, tablelog_file
from checkers.evidence.plan import Plan
from checkers.evidence.runfolder import RunFolder
from checkers.judge.runfolder import load_evidence
from checkers.timeline.timelines import timelines
from tests.support.simulator import simulate
from workloads.tables import TableSpec

SIZES = (10_000, 100_000, 1_000_000, 10_000_000)
WRITERS, OPERATIONS = 8, 10_000
SPARK_TABLES, SPARK_OPERATIONS = 8, 10_000_000


def save(f: TableFrame, path: Path) -> None:
    """Write a frame's columns."""
    np.savez(path, **{c.name: getattr(f, c.name) for c in fields(TableFrame) if c.name not in ("spec", "kinds")})


def judged(path: Path) -> dict[str, float]:
    """Seconds and peak MB of this process for the frame in ``path``."""
    with np.load(path) as arrays:
        told = {name: arrays[name] for name in arrays.files}
        f = TableFrame(spec=TableSpec(name="t", partitions=16), kinds=tuple(columns.CODES), **told)
    best = math.inf
    for _ in range(3):
        began = time.perf_counter()
        result = judge_frame(f)
        best = min(best, time.perf_counter() - began)
        assert all(v.valid is True for v in result.parts.values())
    return {"seconds": best, "mb": peak_mb()}


def peak_mb() -> float:
    """The most memory that this process had resident. (``ru_maxrss`` starts with its parent's.)"""
    status = Path("/proc/self/status")
    if status.exists():
        return int(status.read_text().split("VmHWM:")[1].split()[0]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measured(operations: int, folder: Path) -> dict[str, float]:
    """The same, for a frame of that many operations, in a process of its own."""
    path = folder / "frame.npz"
    save(columns.frame(operations), path)
    code = f"import json, pathlib; from bench.checkers import judged; print(json.dumps(judged(pathlib.Path({str(path)!r}))))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=600)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def stored(folder: Path) -> Path:
    """A simulated run's folder."""
    run = RunFolder(folder / "run")
    run.path.mkdir()
    table = TableSpec(name="a", seed_rows=16)
    made = simulate(2, [table], writers=WRITERS, ops=OPERATIONS // WRITERS, keys=300)
    run.write_plan(Plan.model_validate({"workload": "simulated", "tables": [table.model_dump()]}))
    run.write_state({"state": "complete"})
    with run.history.open("w") as file:
        file.write(json.dumps({"format": 1, **made.history.header}) + "\n")
        file.writelines(json.dumps(e.to_json()) + "\n" for e in made.history.events)
    run.tablelog.mkdir(exist_ok=True)
    for name, log in made.logs.items():
        tablelog_file.write(log, run.tablelog / f"{name}.jsonl")
    assert len(history.read(run.history).events) == len(made.history.events)
    return run.path


def beside(folder: Path) -> None:
    """Both engines on one run."""
    run = stored(folder)
    timed: dict[str, Any] = {}
    began = time.perf_counter()
    evidence = load_evidence(run)
    timed["read"] = time.perf_counter() - began
    (t,) = timelines(evidence)[0]
    began = time.perf_counter()
    f = frame_of(t)
    timed["columns made"] = time.perf_counter() - began
    began = time.perf_counter()
    fast = judge_frame(f)
    timed["judged"] = time.perf_counter() - began
    began = time.perf_counter()
    exact = [c.check(evidence) for c in _EXACT]
    timed["exact"] = time.perf_counter() - began
    assert fast.judged_by == "columns" and all(v.valid is True for v in exact)
    read, made, judging, slow = (timed[k] for k in ("read", "columns made", "judged", "exact"))
    print(
        f"a run of {f.operations} operations: {read:.2f} s to read its files, {made:.2f} s to make columns, {judging:.3f} s"
    )
    print(
        f"  to judge them; exact checkers {slow:.2f} s: {slow / judging:.0f} times, {slow / (made + judging):.1f} with making columns"
    )


def on_spark(folder: Path) -> None:
    """Tables of 10^7 operations in all, in this process and on a local Spark."""

    from compose.install import ensure

    os.environ["JAVA_HOME"] = str(ensure.ensure(progress=None).java.parent.parent)
    each = SPARK_OPERATIONS // SPARK_TABLES
    # Each table is a run of its own: their events are numbered independently.
    dataset.write(((f"run-{n}", columns.frame(each, f"t{n}", seed=n)) for n in range(SPARK_TABLES)), folder / "data")
    began = time.perf_counter()
    here: spark_columns.Found = {}
    for run, f in dataset.each(folder / "data"):
        here |= spark_columns.check_frames([(run, f)])
    alone = time.perf_counter() - began
    spark = spark_columns.session("local[2]", **{"spark.local.dir": str(folder)})
    try:
        spark.range(1).count()
        began = time.perf_counter()
        there = spark_columns.check_dataset(spark, folder / "data")
        cluster = time.perf_counter() - began
    finally:
        spark.stop()
    same = _said(here) == _said(there)
    valid = all(not isinstance(v, str) and v.valid is True for vs in here.values() for v in vs)
    print(
        f"{SPARK_OPERATIONS:,} operations in {SPARK_TABLES} tables, from Parquet: {alone:.1f} s in this process, {cluster:.1f} s on local[2]"
    )
    print(f"  Spark / in-process: {cluster / alone:.1f}; the same verdicts: {same}, all valid: {valid}")


def _said(found: spark_columns.Found) -> dict[str, Any]:
    return {run: vs if isinstance(vs, str) else [v.to_json() for v in vs] for run, vs in found.items()}


def main() -> None:
    """Measure, and print."""
    print("commits + replay + reads + isolation, one table, order of commits known")
    with tempfile.TemporaryDirectory(prefix="icequake-bench-") as name:
        folder = Path(name)
        beside(folder)
        print("  operations   columns s    peak MB   growth")
        last: tuple[int, float] | None = None
        for n in SIZES:
            found = measured(n, folder)
            growth = "" if last is None else f"{math.log(found['seconds'] / last[1]) / math.log(n / last[0]):8.2f}"
            print(f"  {n:>10,}   {found['seconds']:9.3f}   {found['mb']:8.0f} {growth}")
            last = n, found["seconds"]
        on_spark(folder)


if __name__ == "__main__":
    main()
