"""The same verdicts from a cluster, for the tables of a dataset (:mod:`dataset`).

A run whose tables fit into a task is judged by one, with the function that judges in process (:func:`judge_run`). Of a longer run each
table is a task; one that is long itself is judged while no other is. A table for which the memory is not enough is not read, and
:func:`too_long` says so, in process too. What all tables of a run must fulfil together is then tested on all of them (:func:`problems`): no
operation occurs twice and no process had two at a time, as the order in time requires.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import psutil

from checkers.columns.dataset import Shard, frame, is_dataset, parts_of, rows_of
from checkers.columns.engine import JudgedTable, judge_frame, merge
from checkers.columns.frames import TableFrame
from checkers.columns.hashing import I64, NEVER_CAME, U64
from checkers.evidence.runfolder import StoreError
from checkers.verdict import Verdict

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DOUBLE_OPERATION = "an operation's id is there more than once"
DOUBLE_EVENT = "an event's index is there more than once"
OVERLAP = "a process invoked an operation before its last one had ended"

LONG = 8_000_000
"""Records that a task reads in any case, about 2,000,000 operations: it needs 1.8 GB."""
BASE, A_RECORD = 550_000_000, 160
"""Bytes that a process needs to judge a table, and those for each of its records. Measured as the most that was resident, with tables of 2 to
21 million records (Python 3.11, NumPy 2): at worst, of reads of an id, 527 MB and 153 bytes a record; of the mix of ``bench.columns``
110 bytes, of appends 129."""
CONTAINER = Path("/sys/fs/cgroup")
"""Where a container's own limit of memory stands."""


# --- one run ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class WholeRunColumns:
    """A table's operations, as far as they concern the whole run: columns of its :class:`TableFrame`."""

    name: U64
    process: I64
    outcome: I64
    invoked: I64
    completed: I64

    @staticmethod
    def of(f: TableFrame) -> WholeRunColumns:
        """Those of a table."""
        return WholeRunColumns(f.name, f.process, f.outcome, f.invoked, f.completed)


@dataclass(frozen=True)
class TableResult:
    """What one table adds to the verdicts of its run.

    Attributes:
        note: why it was not judged; empty if it was.
    """

    judged: JudgedTable | None = None
    turns: WholeRunColumns | None = None
    note: str = ""


def check_frames(frames: Sequence[tuple[str, TableFrame]]) -> dict[str, list[Verdict]]:
    """Run → verdicts of ``CHECKERS``, from columns only."""
    by_run: dict[str, list[TableResult]] = {}
    for run, f in frames:
        by_run.setdefault(run, []).append(_judge_frame(f))
    return {run: _together(tables) for run, tables in by_run.items()}


def judge_run(folder: Path, tables: Sequence[tuple[int, Shard]]) -> list[Verdict]:
    """The verdicts of :func:`check_frames` on a run of a dataset. Only one of its tables is in memory at a time.

    Args:
        tables: those of the run, each with its number.

    Raises:
        StoreError: a file cannot be read.
    """
    return _together([_judge_table(table, folder) for table in tables])


def _judge_table(table: tuple[int, Shard], folder: Path) -> TableResult:
    n, shard = table
    why = too_long(rows_of(folder, n))
    return TableResult(note=f"{shard.spec.name}: {why}") if why else _judge_frame(frame(folder, n, shard))


def _judge_frame(f: TableFrame) -> TableResult:
    return TableResult(judge_frame(f), WholeRunColumns.of(f))


def too_long(records: int) -> str:
    """Why a table of that many records is not judged: its memory is not there; empty if it is."""
    if records <= LONG:
        return ""
    needed, free = BASE + records * A_RECORD, free_memory()
    return f"not judged: needs {needed / 1e9:.1f} GB, and {free / 1e9:.1f} GB are free" if needed > free else ""


def free_memory() -> int:
    """Bytes of memory that this process can still have: of the machine, or of the container that it is in."""
    free = psutil.virtual_memory().available
    try:
        limit, used = (int((CONTAINER / name).read_text()) for name in ("memory.max", "memory.current"))
    except (OSError, ValueError):  # there is no container, or no limit
        return free
    return min(free, max(0, limit - used))


def _together(tables: Sequence[TableResult]) -> list[Verdict]:
    """The verdicts on a run."""
    found = problems([t.turns for t in tables if t.turns is not None])
    return merge(
        [t.judged for t in tables if t.judged is not None], [*found, *sorted(t.note for t in tables if t.note)]
    )


def problems(tables: Sequence[WholeRunColumns]) -> list[str]:
    """The rules of a history (``checkers.evidence.history.pair``) that all tables of one run together break."""
    if not tables:
        return []
    name, process, invoked, completed, outcome = (
        np.concatenate([getattr(t, c) for t in tables]) for c in ("name", "process", "invoked", "completed", "outcome")
    )
    out = []
    if len(np.unique(name)) < len(name):
        out.append(DOUBLE_OPERATION)
    events = np.concatenate([invoked, completed[completed != NEVER_CAME]])
    if len(np.unique(events)) < len(events):
        out.append(DOUBLE_EVENT)
    free = np.where(outcome == 2, NEVER_CAME, completed)  # after info a process does not continue
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


def check_dataset(spark: SparkSession, folder: Path, *, long: int = LONG) -> Found:
    """The verdicts of :func:`check_frames` on all runs of a dataset, by name; arguments and errors as :func:`judge_dataset`."""
    return dict(sorted(judge_dataset(spark, folder, long=long)))


def judge_dataset(
    spark: SparkSession, folder: Path, runs: Collection[str] | None = None, *, long: int = LONG
) -> Iterator[tuple[str, list[Verdict] | str]]:
    """The same, each run as soon as it is judged; the short ones first.

    Args:
        spark: a session whose Python workers can import icequake.
        folder: a dataset that driver and executors see under this path.
        runs: the runs to judge; None: all.
        long: records of a run above which each of its tables is a task, and of a table above which it is judged while no other is.

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
            yield run, _long_run(spark, folder, {n: parts[n] for n in tables}, size, long)


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
    tasks = spark.sparkContext.parallelize(groups, slices).flatMap(partial(_judge_runs, folder=folder))
    yield from tasks.toLocalIterator(prefetchPartitions=True)


Task = Sequence[tuple[str, Sequence[tuple[int, Shard]]]]
"""Runs, each with its tables."""


def _judge_runs(runs: Task, folder: Path) -> Iterator[tuple[str, list[Verdict] | str]]:
    """What a task does: run → its verdicts, or why there are none."""
    for run, tables in runs:
        try:
            yield run, judge_run(folder, tables)
        except StoreError as e:
            yield run, str(e)


def _long_run(
    spark: SparkSession, folder: Path, parts: Mapping[int, Shard], size: Mapping[int, int], long: int
) -> list[Verdict] | str:
    """The verdicts on a run whose tables together are too long for a task, or why there are none."""
    together = [(n, shard) for n, shard in parts.items() if size[n] <= long]
    alone = [[(n, shard)] for n, shard in parts.items() if size[n] > long]
    judged: list[TableResult] = []
    for tables in ([together] if together else []) + alone:
        tasks = spark.sparkContext.parallelize(tables, len(tables))
        for result in tasks.map(partial(_table_or_error, folder=folder)).collect():
            if isinstance(result, str):
                return result
            judged.append(result)
    return _together(judged)


def _table_or_error(table: tuple[int, Shard], folder: Path) -> TableResult | str:
    try:
        return _judge_table(table, folder)
    except StoreError as e:
        return str(e)


# --- a session --------------------------------------------------------------------------------------------------------

SPARK_CONF: Mapping[str, str] = {
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
    for key, value in {**SPARK_CONF, "spark.executorEnv.PYTHONPATH": path, **more}.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def main(arguments: Sequence[str]) -> int:
    """``python -m checkers.columns.cluster DATASET VERDICTS [MASTER]``: judge a dataset, write run → verdicts as JSON."""
    if len(arguments) not in (2, 3) or not is_dataset(Path(arguments[0])):
        print(f"{main.__doc__} DATASET has parts.json and records/.", file=sys.stderr)
        return 254
    spark = session(*arguments[2:])
    try:
        found = check_dataset(spark, Path(arguments[0]).resolve())
    finally:
        spark.stop()
    results = {
        run: [v.to_json() for v in verdicts] if isinstance(verdicts, list) else verdicts
        for run, verdicts in found.items()
    }
    Path(arguments[1]).write_text(json.dumps(results, indent=1, sort_keys=True) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
