"""The same verdicts from a cluster, for the tables of a dataset (:mod:`dataset`).

A run whose tables fit into a task is judged by one, with the function that judges in process (:func:`check_frames`). Of a longer run each table
is judged on its own; one with more than :data:`LONG` records is divided (:mod:`divided`). Conditions across tables are then checked on all
tables of the run: no operation occurs twice and no process had two at a time, as the order in time requires. :func:`problems` checks the same
in process.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from checkers.columns.dataset import Shard, Slice, frame, is_dataset, parts_of, read, rows_of, slices_of
from checkers.columns.divided import Sent, divided, itself, sent
from checkers.columns.engine import Judged, judge_frame, merge
from checkers.columns.frames import I64, NEVER, OPERATION, RECORD, Frame, mix
from checkers.evidence.replace import replace
from checkers.evidence.runfolder import StoreError
from checkers.verdict import Anomaly, Verdict

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DOUBLE_OPERATION = "an operation's id is there more than once"
DOUBLE_EVENT = "an event's index is there more than once"
OVERLAP = "a process invoked an operation before its last one had ended"

LONG = 8_000_000
"""Records of a table above which it is divided: about 2,000,000 operations."""
BUCKET = 2_000_000
"""Records of a bucket, on average."""


# --- in-process -------------------------------------------------------------------------------------------------------


def check_frames(frames: Sequence[tuple[str, Frame]]) -> dict[str, list[Verdict]]:
    """Run → verdicts of ``CHECKERS``, from columns only."""
    by_run: dict[str, list[Frame]] = {}
    for run, f in frames:
        by_run.setdefault(run, []).append(f)
    return {run: merge([judge_frame(f) for f in tables], problems(tables)) for run, tables in by_run.items()}


def problems(frames: Sequence[Frame]) -> list[str]:
    """The rules of a history (``checkers.evidence.history.pair``) that all tables of one run together break."""
    name, process, invoked, completed = (
        np.concatenate([getattr(f, c) for f in frames]) for c in ("name", "process", "invoked", "completed")
    )
    out = []
    if len(np.unique(name)) < len(name):
        out.append(DOUBLE_OPERATION)
    events = np.concatenate([invoked, completed[completed != NEVER]])
    if len(np.unique(events)) < len(events):
        out.append(DOUBLE_EVENT)
    unknown = np.concatenate([f.outcome for f in frames]) == 2
    free = np.where(unknown, NEVER, completed)  # after info a process does not continue
    order = np.lexsort((invoked, process))
    same = process[order][1:] == process[order][:-1]
    if (same & (free[order][:-1] >= invoked[order][1:])).any():
        out.append(OVERLAP)
    return out


# --- on Spark ---------------------------------------------------------------------------------------------------------

Found = dict[str, list[Verdict] | str]
"""Run → verdicts of ``CHECKERS``, or why there are none."""
SLICES_A_CORE = 4
"""Groups of short runs a core, at least: a long one at the end keeps one core waiting."""
MOST_A_TASK = 50
"""Runs of a group, at most: the results of a group are told, and written, when all of it is judged."""


def check_dataset(spark: SparkSession, folder: Path, *, long: int = LONG, bucket: int = BUCKET) -> Found:
    """The verdicts of :func:`check_frames` on all runs of a dataset, by name; arguments and errors as :func:`judge_dataset`."""
    return dict(sorted(judge_dataset(spark, folder, long=long, bucket=bucket)))


def judge_dataset(
    spark: SparkSession, folder: Path, runs: Collection[str] | None = None, *, long: int = LONG, bucket: int = BUCKET
) -> Iterator[tuple[str, list[Verdict] | str]]:
    """The same, each run as soon as it is judged; the short ones first.

    Args:
        spark: a session whose Python workers can import icequake.
        folder: a dataset that driver and executors see under this path.
        runs: the runs to judge; None: all.
        long: records of a run above which its tables are judged one by one, and of a table above which it is divided.
        bucket: records of a bucket, on average.

    Raises:
        StoreError: the dataset as a whole cannot be read.
    """
    parts = {n: shard for n, shard in enumerate(parts_of(folder)) if runs is None or shard.run in runs}
    size: dict[int, int] = {}
    lost: set[str] = set()
    for n, shard in parts.items():
        try:
            size[n] = rows_of(folder, n)
        except StoreError as e:
            if shard.run not in lost:
                yield shard.run, str(e)
            lost.add(shard.run)
    by_run: dict[str, list[int]] = {}
    for n, shard in parts.items():
        if shard.run not in lost:
            by_run.setdefault(shard.run, []).append(n)
    short = {run: tables for run, tables in by_run.items() if sum(size[n] for n in tables) <= long}
    if short:
        yield from _whole_runs(spark, folder, parts, short, size)
    for run, tables in by_run.items():
        if run not in short:
            yield run, _divided_run(spark, folder, {n: parts[n] for n in tables}, size, long, bucket)


def _whole_runs(
    spark: SparkSession,
    folder: Path,
    parts: Mapping[int, Shard],
    runs: Mapping[str, Sequence[int]],
    size: Mapping[int, int],
) -> Iterator[tuple[str, list[Verdict] | str]]:
    """Runs, each of which a task judges as a whole; the longest are spread first."""
    order = sorted(runs, key=lambda run: -sum(size[n] for n in runs[run]))
    slices = max(SLICES_A_CORE * spark.sparkContext.defaultParallelism, -(-len(order) // MOST_A_TASK))
    slices = min(len(order), slices)
    groups = [[(run, [(n, parts[n]) for n in runs[run]]) for run in order[k::slices]] for k in range(slices)]
    tasks = spark.sparkContext.parallelize(groups, slices).flatMap(partial(_judge_runs, folder=str(folder)))
    for run, told in tasks.toLocalIterator(prefetchPartitions=True):
        yield run, _verdicts(told) if isinstance(told, list) else told


Task = Sequence[tuple[str, Sequence[tuple[int, Shard]]]]
"""Runs, each with its tables."""


def _judge_runs(runs: Task, folder: str) -> Iterator[tuple[str, list[dict[str, Any]] | str]]:
    """What a task does: run → verdicts as JSON, or why there are none."""
    for run, tables in runs:
        try:
            frames = [(run, frame(Path(folder), n, shard)) for n, shard in tables]
        except StoreError as e:
            yield run, str(e)
            continue
        yield run, [v.to_json() for v in check_frames(frames)[run]]


def _verdicts(told: Sequence[Mapping[str, Any]]) -> list[Verdict]:
    return [_verdict(v) for v in told]


def _divided_run(
    spark: SparkSession, folder: Path, parts: Mapping[int, Shard], size: Mapping[int, int], long: int, bucket: int
) -> list[Verdict]:
    """A run whose tables together are too long for a task."""
    slices = [s for n in parts for s in slices_of(folder, n)]
    longs = {n: shard for n, shard in parts.items() if size[n] > long}
    rest = [(n, shard) for n, shard in parts.items() if n not in longs]
    judged = list(divided(spark, longs, slices, size, bucket).values()) if longs else []
    if rest:
        judged += (
            spark.sparkContext.parallelize(rest, len(rest)).map(partial(_judge_table, folder=str(folder))).collect()
        )
    return merge(judged, _distributed_problems(spark, slices, 1 + sum(size[n] for n in parts) // bucket))


def _judge_table(told: tuple[int, Shard], folder: str) -> Judged:
    n, shard = told
    return replace(judge_frame(frame(Path(folder), n, shard)), screen=None)


def _verdict(v: Mapping[str, Any]) -> Verdict:
    anomalies = []
    for a in v["anomalies"]:
        lists = {k: tuple(a[k]) for k in ("ops", "events", "snapshots", "files", "keys", "trail")}
        anomalies.append(Anomaly(**{**a, **lists}))
    return Verdict(v["checker"], v["valid"], tuple(anomalies), v["stats"], tuple(v["notes"]))


NAME, EVENT, TURN = range(3)
"""A block for :func:`_problems_of`: hashes of operations' ids; indices of events; process, invocation, and when the process was free again."""


def _distributed_problems(spark: SparkSession, slices: Sequence[Slice], partitions: int) -> list[str]:
    """The same as :func:`problems`, for the tables of one run."""
    mine = [s for s in slices if OPERATION in s.contents]
    rows = spark.sparkContext.parallelize(mine, max(1, len(mine))).flatMap(partial(_turns, partitions=partitions))
    found = set(rows.partitionBy(partitions, itself).mapPartitions(_problems_of).collect())
    return [said for what, said in enumerate((DOUBLE_OPERATION, DOUBLE_EVENT, OVERLAP)) if what in found]


def _turns(of: Slice, partitions: int) -> Iterator[Sent]:
    """Blocks of a table's operations."""
    names = ("outcome", "process", "invoked", "completed", "name")
    for record, columns in read(of, [f"c{RECORD[OPERATION].index(x)}" for x in names]):
        outcome, process, invoked, completed, name = (c[record == OPERATION] for c in columns)
        free = np.where(outcome == 2, NEVER, completed)  # after info a process does not continue
        events = np.concatenate([invoked, completed[completed != NEVER]])
        for what, key in ((NAME, name), (EVENT, events)):
            yield from sent(_hashed(key) % partitions, what, key[np.newaxis])
        # Processes have small numbers, which spread them better than a hash.
        yield from sent(process % partitions, TURN, np.stack([process, invoked, free]))


def _hashed(key: I64) -> I64:
    return (mix(key.view(np.uint64)) >> np.uint64(1)).view(np.int64)


def _problems_of(blocks: Iterator[Sent]) -> Iterator[int]:
    """The rules that the processes, ids and events of one partition break."""
    held: dict[int, list[I64]] = {NAME: [], EVENT: [], TURN: []}
    for _, (what, rows) in blocks:
        held[what].append(rows)
    for what in (NAME, EVENT):
        keys = np.sort(np.concatenate([np.zeros(0, np.int64), *(rows[0] for rows in held.pop(what))]))
        if (keys[1:] == keys[:-1]).any():
            yield what
    process, invoked, free = np.concatenate([np.zeros((3, 0), np.int64), *held.pop(TURN)], axis=1)
    order = np.lexsort((invoked, process))
    same = process[order][1:] == process[order][:-1]
    if (same & (free[order][:-1] >= invoked[order][1:])).any():
        yield TURN


# --- a session --------------------------------------------------------------------------------------------------------

CONF: Mapping[str, str] = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "1g",
}


def session(master: str = "local[*]", **more: str) -> SparkSession:
    """A session whose Python workers import icequake from where this process does. Needs ``JAVA_HOME``, or Java on the path.

    On this machine the workers run this process's Python, on a cluster the one that ``PYSPARK_PYTHON`` names.
    """
    from pyspark.sql import SparkSession

    root = str(Path(__file__).parent.parent.parent)
    if master.startswith("local"):
        os.environ["PYSPARK_PYTHON"] = sys.executable
    path = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))
    builder = SparkSession.builder.master(master).appName("icequake checkers")
    for key, value in {**CONF, "spark.executorEnv.PYTHONPATH": path, **more}.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def main(arguments: Sequence[str]) -> int:
    """``python -m checkers.columns.spark DATASET VERDICTS [MASTER]``: judge a dataset, write run → verdicts as JSON."""
    if len(arguments) not in (2, 3) or not is_dataset(Path(arguments[0])):
        print(f"{main.__doc__} DATASET has parts.json and records/.", file=sys.stderr)
        return 254
    spark = session(*arguments[2:])
    try:
        found = check_dataset(spark, Path(arguments[0]).resolve())
    finally:
        spark.stop()
    told = {run: [v.to_json() for v in said] if isinstance(said, list) else said for run, said in found.items()}
    Path(arguments[1]).write_text(json.dumps(told, indent=1, sort_keys=True) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
