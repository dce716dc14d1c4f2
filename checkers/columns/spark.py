"""The same verdicts from a cluster: all runs' tables as one Parquet dataset, one task for each table, and one pass over all of them.

A *dataset* is a folder: ``records/part=K/`` has the records of table K (``frames.SCHEMA``), ``parts.json`` has each table's run and promises
and the numbers of the kinds of operations. :func:`check_dataset` groups the records by part and has each judged by
``engine.judge_frame``, the function that judges them in-process (``applyInPandas``). Conditions across tables are checked on the dataset
as a whole: no operation occurs twice and no process had two at a time, as the order in time requires. :func:`problems` checks the same
in-process.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.parquet as pq

from checkers.columns.engine import CHECKERS, Judged, judge_frame, merge
from checkers.columns.frames import NEVER, OPERATION, RECORD, WIDTH, Frame, from_records, to_records
from checkers.verdict import Anomaly, Verdict
from workloads.tables import TableSpec

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame, SparkSession

PARTS, RECORDS = "parts.json", "records"
DOUBLE_OPERATION = "an operation's id is there more than once"
DOUBLE_EVENT = "an event's index is there more than once"
OVERLAP = "a process invoked an operation before its last one had ended"


@dataclass(frozen=True)
class Shard:
    """One table of one run."""

    run: str
    spec: TableSpec
    kinds: tuple[str, ...]


def write(frames: Iterable[tuple[str, Frame]], folder: Path) -> None:
    """Write tables, each with the name of its run, as a dataset."""
    parts = []
    for n, (run, f) in enumerate(frames):
        into = folder / RECORDS / f"part={n}"
        into.mkdir(parents=True)
        pq.write_table(to_records(f), into / "records.parquet", compression="zstd")
        parts.append({"run": run, "spec": f.spec.model_dump(), "kinds": f.kinds, "width": WIDTH})
    (folder / PARTS).write_text(json.dumps(parts) + "\n")


def parts_of(folder: Path) -> list[Shard]:
    """The tables of a dataset, by number.

    Raises:
        ValueError: it was written before datasets named their kinds, or with other columns.
    """
    parts = json.loads((folder / PARTS).read_text())
    if not all("kinds" in p for p in parts):
        raise ValueError(
            f"{folder / PARTS}: kinds: a table's kinds of operations are not named; write the dataset again"
        )
    if not all(p.get("width") == WIDTH for p in parts):
        raise ValueError(
            f"{folder / PARTS}: width: its records have other columns than this version's {WIDTH}; write the dataset again"
        )
    return [Shard(p["run"], TableSpec.model_validate(p["spec"]), tuple(p["kinds"])) for p in parts]


def each(folder: Path) -> Iterator[tuple[str, Frame]]:
    """The tables of a dataset, with the names of their runs, one at a time."""
    for n, part in enumerate(parts_of(folder)):
        t = pq.read_table(folder / RECORDS / f"part={n}" / "records.parquet", partitioning=None)
        numbers = [t[f"c{i}"].to_numpy() for i in range(WIDTH)]
        yield part.run, from_records(t["record"].to_numpy(), t["n"].to_numpy(), numbers, part.spec, part.kinds)


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

_RESULT = "part int, checker string, verdict string, way string, why string"


def check_dataset(spark: SparkSession, folder: Path) -> dict[str, list[Verdict]]:
    """Run → verdicts of ``CHECKERS``: those of :func:`check_frames`.

    Args:
        spark: a session whose Python workers can import icequake.
        folder: a dataset that driver and executors can read.
    """
    parts = parts_of(folder)
    records = spark.read.parquet(str(folder / RECORDS))
    specs = {n: (p.spec.model_dump_json(), p.kinds) for n, p in enumerate(parts)}
    found = records.groupBy("part").applyInPandas(_judging(specs), _RESULT).collect()
    wrong = _distributed_problems(records, parts)
    by_run: dict[str, dict[str, dict[str, Any]]] = {}
    for row in found:
        part = parts[row["part"]]
        by_run.setdefault(part.run, {}).setdefault(part.spec.name, {})[row["checker"]] = row
    out = {}
    for run, tables in by_run.items():
        judged = []
        for name, rows in tables.items():
            first = rows[CHECKERS[0]]
            verdicts = {c: _verdict(json.loads(r["verdict"])) for c, r in rows.items()}
            judged.append(Judged(name, verdicts, first["way"], first["why"]))
        out[run] = merge(judged, wrong.get(run, []))
    return out


def _judging(specs: Mapping[int, tuple[str, tuple[str, ...]]]) -> Any:
    """The function that a task runs: a table's records → one row per checker."""

    def judge(group: pd.DataFrame) -> pd.DataFrame:
        import pandas

        part = int(group["part"].iloc[0])
        numbers = [group[f"c{i}"].to_numpy() for i in range(WIDTH)]
        told, kinds = specs[part]
        spec = TableSpec.model_validate_json(told)
        judged = judge_frame(from_records(group["record"].to_numpy(), group["n"].to_numpy(), numbers, spec, kinds))
        rows = [(part, c, json.dumps(v.to_json()), judged.by, judged.why) for c, v in judged.verdicts.items()]
        return pandas.DataFrame(rows, columns=["part", "checker", "verdict", "way", "why"])

    return judge


def _verdict(v: Mapping[str, Any]) -> Verdict:
    anomalies = []
    for a in v["anomalies"]:
        lists = {k: tuple(a[k]) for k in ("ops", "events", "snapshots", "files", "keys", "trail")}
        anomalies.append(Anomaly(**{**a, **lists}))
    return Verdict(v["checker"], v["valid"], tuple(anomalies), v["stats"], tuple(v["notes"]))


def _distributed_problems(records: DataFrame, parts: Sequence[Shard]) -> dict[str, list[str]]:
    """The same as :func:`problems`, for every run of the dataset."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    column = {name: F.col(f"c{i}") for i, name in enumerate(RECORD[OPERATION])}
    runs = sorted({p.run for p in parts})
    number = F.element_at(F.array(*(F.lit(runs.index(p.run)) for p in parts)), F.col("part") + 1)
    ops = records.where(F.col("record") == OPERATION).select(
        number.alias("run"),
        *(column[c].alias(c) for c in ("name", "process", "invoked", "completed")),
        F.when(column["outcome"] == 2, F.lit(int(NEVER))).otherwise(column["completed"]).alias("free"),
    )
    events = ops.select("run", F.col("invoked").alias("event")).unionAll(
        ops.where(F.col("completed") != int(NEVER)).select("run", F.col("completed").alias("event"))
    )
    following = F.lead("invoked").over(Window.partitionBy("run", "process").orderBy("invoked"))
    asked = (
        (DOUBLE_OPERATION, ops.groupBy("run", "name").count().where("count > 1")),
        (DOUBLE_EVENT, events.groupBy("run", "event").count().where("count > 1")),
        (OVERLAP, ops.withColumn("following", following).where(F.col("free") >= F.col("following"))),
    )
    out: dict[str, list[str]] = {}
    for what, rows in asked:
        for row in rows.select("run").distinct().collect():
            out.setdefault(runs[row["run"]], []).append(what)
    return out


CONF: Mapping[str, str] = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "4g",
    "spark.sql.shuffle.partitions": "8",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "500000",
}


def session(master: str = "local[*]", **more: str) -> SparkSession:
    """A local session whose Python workers match this process. Needs ``JAVA_HOME``, or Java on the path."""
    from pyspark.sql import SparkSession

    root = str(Path(__file__).parent.parent.parent)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))
    builder = SparkSession.builder.master(master).appName("icequake checkers")
    for key, value in {**CONF, **more}.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def main(arguments: Sequence[str]) -> int:
    """``python -m checkers.columns.spark DATASET VERDICTS [MASTER]``: judge a dataset, write run → verdicts as JSON."""
    if len(arguments) not in (2, 3) or not (Path(arguments[0]) / PARTS).exists():
        print(f"{main.__doc__} DATASET has {PARTS} and {RECORDS}/.", file=sys.stderr)
        return 254
    spark = session(*arguments[2:])
    try:
        found = check_dataset(spark, Path(arguments[0]).resolve())
    finally:
        spark.stop()
    told = {run: [v.to_json() for v in verdicts] for run, verdicts in found.items()}
    Path(arguments[1]).write_text(json.dumps(told, indent=1, sort_keys=True) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
