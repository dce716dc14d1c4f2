"""The lake: what it costs to put a run into it, against judging and showing that run; and a trend over a thousand runs.

The runs of the generated lake are copies of a recorded run's rows (260 operations) with other names, nights, catalogs and releases, and
numbers that vary by some per cent. The trend is timed as a user sees it: the whole command, with Spark's start.
"""

from __future__ import annotations

import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice, product
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from checkers.evidence.runfolder import RunFolder
from checkers.lake.rows import Rows
from checkers.selftest import recorded
from harness.cli.publish import publish
from harness.lake.folders import RUNS_PER_COMMIT, keep, read
from harness.lake.lake import opened, summary
from harness.lake.place import embedded
from harness.lake.upkeep import tend
from harness.run.judged import judge_run

RUN, ROUNDS, RUNS = "quick-240", 5, 1000
CATALOGS, RELEASES, SEEDS = ("rest", "jdbc", "hive-cas", "polaris"), ("1.11.0", "1.12.0"), 5
FIRST = datetime(2026, 1, 1, 22, tzinfo=UTC)


def unpacked(into: Path) -> RunFolder:
    """The recorded run, in a store."""
    folder = into / "quick" / "20260101T220000.000Z"
    folder.mkdir(parents=True)
    with zipfile.ZipFile(Path(recorded.__file__).with_name("recorded") / f"{RUN}.zip") as z:
        z.extractall(folder)
    return RunFolder(folder)


def generated(base: Rows, runs: int = RUNS, seed: int = 0) -> Iterator[Rows]:
    """Rows of so many runs: for each night, catalog and release :data:`SEEDS` of them."""
    rng = np.random.default_rng(seed)
    every = product(range(10_000), CATALOGS, RELEASES, range(SEEDS))
    for n, (night, catalog, release, _) in enumerate(islice(every, runs)):
        started = FIRST + timedelta(days=night, seconds=n % 3600)
        name = f"quick/{started:%Y%m%dT%H%M%S}.{n % 1000:03d}Z"
        keys = {"run": name, "day": started.date()}
        own = {
            "night": started.date(),
            "started": started,
            "catalog": catalog,
            "iceberg": release,
            "namespace": f"iq_{n:012x}",
        }
        factor = float(rng.normal(1.0, 0.05))
        rows = {}
        for table, found in base.items():
            said = keys | (own if table == "runs" else {})
            for column, value in said.items():
                i = found.schema.get_field_index(column)
                field = found.schema.field(i)
                found = found.set_column(i, field, pa.repeat(pa.scalar(value, field.type), found.num_rows))
            scaled = {"operations": "latency_ms", "metrics": "value"}.get(table)
            if scaled is not None:
                i = found.schema.get_field_index(scaled)
                found = found.set_column(i, found.schema.field(i), pc.multiply(found[scaled], factor))
            rows[table] = found
        yield rows


def cost(place: Path) -> None:
    """Judging and showing a run, against putting it into the lake: a new run each time."""
    folder = unpacked(place / "cost")
    judged, kept = [], []
    for n in range(ROUNDS + 1):
        copy = RunFolder(folder.path.with_name(f"20260101T22000{n}.000Z"))
        if copy.path != folder.path:
            shutil.copytree(folder.path, copy.path, dirs_exist_ok=True)
        begin = time.perf_counter()
        evidence = judge_run(copy, publish).evidence
        middle = time.perf_counter()
        keep(embedded(place / "cost"), copy, evidence)
        end = time.perf_counter()
        if n:  # the first one makes the lake
            judged.append(middle - begin)
            kept.append(end - middle)
    a, b = statistics.median(judged), statistics.median(kept)
    print(
        f"a run of 240 operations: judged and shown in {a:.2f} s, put into the lake in {b:.2f} s (medians of {ROUNDS})"
    )


def thousand(place: Path, runs: int = RUNS) -> Path:
    """A store whose lake has generated runs."""
    store = place / "thousand"
    recorded_one = unpacked(place / "base")
    judge_run(recorded_one, publish)  # its numbers of retries are a checker's
    base = read(recorded_one)
    begin = time.perf_counter()
    with opened(embedded(store), make=True) as lake:
        every = generated(base, runs)
        while batch := list(islice(every, RUNS_PER_COMMIT)):
            lake.add(batch)
            tend(lake, {day for rows in batch for day in rows["runs"]["day"].to_pylist()})
        took = time.perf_counter() - begin
        found = summary(lake)
    rows, files = sum(r for r, *_ in found.values()), sum(f for _, f, *_ in found.values())
    print(f"{runs} runs, {rows:,} rows: added in {took:.1f} s, in {files} files")
    return store


def _of_children() -> float:
    """CPU seconds of the processes that were started here and have ended, and of theirs."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    """Print the numbers."""
    place = Path(tempfile.mkdtemp(prefix="icequake-bench-lake-"))
    try:
        cost(place)
        store = thousand(place)
        begin = time.perf_counter()
        command = [sys.executable, "-m", "harness.cli.app", "trend", "--store", str(store)]
        before = _of_children()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=dict(os.environ), timeout=600)
        wall, cpu = time.perf_counter() - begin, _of_children() - before
        print(f"the trend of {RUNS} runs, Spark's start included: {wall:.1f} s, {cpu:.1f} s of CPU")
    finally:
        shutil.rmtree(place, ignore_errors=True)


if __name__ == "__main__":
    main()
