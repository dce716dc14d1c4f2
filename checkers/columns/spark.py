"""The same verdicts from a cluster, for the tables of a dataset (:mod:`dataset`).

A run whose tables fit into a task is judged by one, with the function that judges in process (:func:`check_frames`). A table with more than
:data:`LONG` records is divided (:func:`_divided`):

1. Operations are joined with their commits. That alone shows lost, duplicate, unknown and falsely failed commits.
2. Ids are hashed into buckets. A task has all changes of a bucket's ids, the operations that name them and the reads of them, and
   compares rows with what operations mean (:mod:`bykey`). Commits that take rows by a predicate go to every bucket.
3. One task per table reads its commits and reads in the order of events, with what the buckets found, and shows that positions agree with real
   time (:mod:`inorder`). It holds only what is under way.

Conditions across tables are then checked on all tables of the run: no operation occurs twice and no process had two at a time, as the order in
time requires. :func:`problems` checks the same in process.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from checkers.columns import bykey, inorder
from checkers.columns.dataset import RECORDS, Shard, frame, is_dataset, parts_of, rows_of
from checkers.columns.engine import MOST, Judged, Suspects, certain, judge_frame, merge, proven
from checkers.columns.facts import KindFacts
from checkers.columns.frames import (
    ARGUMENT,
    CHANGE,
    COMMIT,
    COPY,
    IDS,
    NEVER,
    OPERATION,
    PART,
    PARTS,
    RECORD,
    WHERE,
    WHOLE,
    Frame,
)
from checkers.columns.screen import Screen
from checkers.evidence.runfolder import StoreError
from checkers.verdict import Anomaly, Verdict
from workloads.operations.keys import OWN_KEYS
from workloads.tables import TableSpec

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DOUBLE_OPERATION = "an operation's id is there more than once"
DOUBLE_EVENT = "an event's index is there more than once"
OVERLAP = "a process invoked an operation before its last one had ended"

LONG = 8_000_000
"""Records of a table above which it is divided: about 2,000,000 operations."""
BUCKET = 2_000_000
"""Records of a bucket, on average."""

_OK, _FAIL = 0, 1


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
"""Groups of short runs a core: a long one at the end keeps one core waiting."""


def check_dataset(spark: SparkSession, folder: Path, *, long: int = LONG, bucket: int = BUCKET) -> Found:
    """The verdicts of :func:`check_frames` on all runs of a dataset.

    Args:
        spark: a session whose Python workers can import icequake.
        folder: a dataset that driver and executors see under this path.
        long: records of a table above which it is divided.
        bucket: records of a bucket, on average.

    Raises:
        StoreError: the dataset as a whole cannot be read.
    """
    parts = dict(enumerate(parts_of(folder)))
    size: dict[int, int] = {}
    out: Found = {}
    for n, shard in parts.items():
        try:
            size[n] = rows_of(folder, n)
        except StoreError as e:
            out[shard.run] = str(e)
    parts = {n: shard for n, shard in parts.items() if shard.run not in out}
    divided = {shard.run for n, shard in parts.items() if size[n] > long}
    short: dict[str, list[int]] = {}
    for n, shard in parts.items():
        if shard.run not in divided:
            short.setdefault(shard.run, []).append(n)
    if short:
        out |= _whole_runs(spark, folder, parts, short, size)
    if divided:
        out |= _divided_runs(spark, folder, {n: s for n, s in parts.items() if s.run in divided}, size, long, bucket)
    return {run: out[run] for run in sorted(out)}


def _whole_runs(
    spark: SparkSession,
    folder: Path,
    parts: Mapping[int, Shard],
    runs: Mapping[str, Sequence[int]],
    size: Mapping[int, int],
) -> Found:
    """Runs, each of which a task judges as a whole; the longest are spread first."""
    order = sorted(runs, key=lambda run: -sum(size[n] for n in runs[run]))
    slices = min(len(order), SLICES_A_CORE * spark.sparkContext.defaultParallelism)
    groups = [[(run, [(n, parts[n]) for n in runs[run]]) for run in order[k::slices]] for k in range(slices)]
    tasks = spark.sparkContext.parallelize(groups, slices).flatMap(partial(_judge_runs, folder=str(folder)))
    return {run: _verdicts(told) if isinstance(told, list) else told for run, told in tasks.toLocalIterator()}


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


def _divided_runs(
    spark: SparkSession, folder: Path, parts: Mapping[int, Shard], size: Mapping[int, int], long: int, bucket: int
) -> Found:
    """Runs with a table that is too long for a task."""
    root = folder / RECORDS
    records = spark.read.option("basePath", str(root)).parquet(*(str(root / f"part={n}") for n in parts))
    by_run: dict[str, list[Judged]] = {}
    longs = {n: shard for n, shard in parts.items() if size[n] > long}
    for n, judged in _divided(spark, records, longs, size, bucket).items():
        by_run.setdefault(parts[n].run, []).append(judged)
    rest = [(n, shard) for n, shard in parts.items() if n not in longs]
    if rest:
        tasks = spark.sparkContext.parallelize(rest, len(rest)).map(partial(_judge_table, folder=str(folder)))
        for run, judged in tasks.collect():
            by_run.setdefault(run, []).append(judged)
    wrong = _distributed_problems(records, parts)
    return {run: merge(judged, wrong.get(run, [])) for run, judged in by_run.items()}


def _judge_table(told: tuple[int, Shard], folder: str) -> tuple[str, Judged]:
    n, shard = told
    return shard.run, replace(judge_frame(frame(Path(folder), n, shard)), screen=None)


def _verdict(v: Mapping[str, Any]) -> Verdict:
    anomalies = []
    for a in v["anomalies"]:
        lists = {k: tuple(a[k]) for k in ("ops", "events", "snapshots", "files", "keys", "trail")}
        anomalies.append(Anomaly(**{**a, **lists}))
    return Verdict(v["checker"], v["valid"], tuple(anomalies), v["stats"], tuple(v["notes"]))


def _distributed_problems(records: DataFrame, parts: Mapping[int, Shard]) -> dict[str, list[str]]:
    """The same as :func:`problems`, for every run of these tables."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    column = {name: F.col(f"c{i}") for i, name in enumerate(RECORD[OPERATION])}
    runs = sorted({p.run for p in parts.values()})
    numbers = (F.lit(x) for n, p in parts.items() for x in (n, runs.index(p.run)))
    number = F.element_at(F.create_map(*numbers), F.col("part"))
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


# --- a table in buckets -----------------------------------------------------------------------------------------------

_PASS = "part int, " + ", ".join(f"{name} long" for name in inorder.COLUMNS)
_STRANGE, _NOBODY = "a kind of no number", "nobody's commit"
"""Reasons after which nothing else of a table is looked at, as in the screen; they are called ``unknown-kind`` and ``unknown-commit``."""


def _divided(
    spark: SparkSession, records: DataFrame, parts: Mapping[int, Shard], size: Mapping[int, int], bucket: int
) -> dict[int, Judged]:
    """Part → its result, for tables that are too long for a task."""
    from pyspark import StorageLevel
    from pyspark.sql import functions as F

    buckets = {n: max(1, -(-size[n] // bucket)) for n in parts}
    spark.conf.set("spark.sql.shuffle.partitions", str(max(8, sum(buckets.values()))))
    records = records.where(F.col("part").isin(sorted(parts)))
    ops = _content(records, OPERATION).withColumnsRenamed({"n": "op"})
    commits = _content(records, COMMIT)
    commits = commits.select("part", (F.col("n") + 1).alias("position"), F.col("commit_op").alias("op"))
    facts = F.broadcast(_facts(spark, parts, buckets))
    placed = ops.join(facts, ["part", "kind"], "left").join(commits, ["part", "op"], "left")
    placed = placed.persist(StorageLevel.DISK_ONLY)
    try:
        found = {n: _stopped(s) for n, s in _collected(_commit_suspects(placed, commits), ops).items()}
        going = sorted(n for n in parts if not found.get(n, ({}, False))[1])
        suspects = {n: dict(s) for n, (s, _) in found.items()}
        if going:
            only = F.col("part").isin(going)
            shown = _passed(records.where(only), placed.where(only), {n: parts[n] for n in going}, buckets)
            for n, more in _collected(shown, ops).items():
                suspects[n] = {**suspects.get(n, {}), **more}
        counted = _counts(records, placed)
    finally:
        placed.unpersist()
    out = {}
    for n, shard in parts.items():
        operations, screened = counted[n]
        mine = suspects.get(n)
        out[n] = certain(shard.spec, operations, mine) if mine else proven(shard.spec, operations, screened)
    return out


def _content(records: DataFrame, record: int) -> DataFrame:
    """The records of one content, with their columns' names. An operation's partition is ``in_part``."""
    from pyspark.sql import functions as F

    named = {"part": "in_part"}
    columns = (F.col(f"c{i}").alias(named.get(name, name)) for i, name in enumerate(RECORD[record]))
    return records.where(F.col("record") == record).select("part", "n", *columns)


def _facts(spark: SparkSession, parts: Mapping[int, Shard], buckets: Mapping[int, int]) -> DataFrame:
    """What is known of each kind of each table."""
    rows = []
    for n, shard in parts.items():
        f = KindFacts.of(shard.kinds)
        told = zip(f.known, f.told, f.writes, f.dml, f.removes, f.reads, f.travels, strict=True)
        about = (shard.spec.partitions, buckets[n])
        rows += [(n, kind, *(bool(x) for x in each), *about) for kind, each in enumerate(told)]
    names = ("known", "told", "writes", "dml", "removes", "reads", "travels")
    schema = f"part int, kind long, {', '.join(f'{x} boolean' for x in names)}, partitions long, buckets long"
    return spark.createDataFrame(rows, schema)


def _commit_suspects(placed: DataFrame, commits: DataFrame) -> DataFrame:
    """``part``, ``reason``, ``op``: what operations and their commits show alone, as ``screen``."""
    from pyspark.sql import functions as F

    c = F.col
    there = c("position").isNotNull()
    strange = ~F.coalesce(c("known"), F.lit(False))
    reasons = (
        F.when(strange, _STRANGE),
        F.when(~strange & ~c("told"), "unknown-kind"),
        F.when(c("dml") & (c("outcome") == _OK) & ~there, "lost-commit"),
        F.when((c("outcome") == _FAIL) & there, "false-failure"),
        F.when(~strange & ~c("writes") & there, "unknown-commit"),
    )
    of_ops = placed.select("part", F.explode(F.array_compact(F.array(*reasons))).alias("reason"), "op")
    twice = commits.where("op >= 0").groupBy("part", "op").count().where("count > 1").select("part", "op")
    twice = twice.join(placed.where("dml").select("part", "op").distinct(), ["part", "op"])
    nobody = commits.where("op < 0").select("part", F.lit(_NOBODY).alias("reason"), (-c("position")).alias("op"))
    double = twice.select("part", F.lit("duplicate-commit").alias("reason"), "op")
    return of_ops.unionByName(double).unionByName(nobody)


def _collected(suspects: DataFrame, ops: DataFrame) -> dict[int, dict[str, Suspects]]:
    """Part → reason → what was found; of ``part``, ``reason``, ``op``."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    each = Window.partitionBy("part", "reason")
    numbered = suspects.distinct().select(
        "*", F.row_number().over(each.orderBy("op")).alias("place"), F.count("*").over(each).alias("count")
    )
    rows = numbered.where(F.col("place") <= MOST).collect()
    if not rows:
        return {}
    wanted = sorted({(r["part"], r["op"]) for r in rows})
    few = F.broadcast(suspects.sparkSession.createDataFrame(wanted, "part int, op long"))
    told = ops.join(few, ["part", "op"]).select("part", "op", "invoked", "completed").collect()
    events = {(r["part"], r["op"]): tuple(x for x in (r["invoked"], r["completed"]) if x != NEVER) for r in told}
    found: dict[int, dict[str, list[Any]]] = {}
    for r in rows:
        found.setdefault(r["part"], {}).setdefault(r["reason"], []).append(r)
    return {
        part: {
            reason: Suspects(
                rs[0]["count"],
                tuple((op, events.get((part, op), ())) for op in sorted(r["op"] for r in rs)),
            )
            for reason, rs in reasons.items()
        }
        for part, reasons in found.items()
    }


def _stopped(found: Mapping[str, Suspects]) -> tuple[dict[str, Suspects], bool]:
    """The reasons under the screen's names, and whether the table is not looked at further."""
    if _STRANGE in found:
        return {"unknown-kind": found[_STRANGE]}, True
    if _NOBODY in found:
        kept = {reason: s for reason, s in found.items() if reason == "unknown-kind"}
        return {**kept, "unknown-commit": found[_NOBODY]}, True
    return dict(found), False


def _passed(records: DataFrame, placed: DataFrame, parts: Mapping[int, Shard], buckets: Mapping[int, int]) -> DataFrame:
    """``part``, ``reason``, ``op``: what buckets and the pass in order of events show."""
    from pyspark.sql import functions as F

    c = F.col
    reading = (c("outcome") == _OK) & (c("travels") | (c("reads") & (c("form") != IDS)))
    about = placed.groupBy("part").agg(
        F.max(reading).alias("whole"), F.collect_set(F.when(c("position").isNotNull(), c("form"))).alias("forms")
    )
    told = about.collect()
    whole = {r["part"] for r in told if r["whole"]}
    forms = {form for r in told for form in r["forms"]}
    asked = {n: (p.spec.model_dump_json(), p.kinds, n in whole) for n, p in parts.items()}
    keyed = _keyed(records, placed, forms, {n: buckets[n] for n in parts})
    by_key = keyed.groupBy("part", "bucket").applyInArrow(_screening(asked), _PASS)
    ordered = by_key.unionByName(_events(placed)).repartition(len(parts), "part")
    return ordered.sortWithinPartitions("part", "event").mapInArrow(_passing, "part int, reason string, op long")


def _keyed(records: DataFrame, placed: DataFrame, forms: set[int], buckets: Mapping[int, int]) -> DataFrame:
    """``part``, ``bucket`` and ``bykey.COLUMNS``: the rows of all buckets."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    c = F.col
    many = F.element_at(F.create_map(*(F.lit(x) for n, k in buckets.items() for x in (n, k))), c("part"))

    def rows(found: DataFrame, bucket: Any, **told: Any) -> DataFrame:
        """Rows of the columns that are told, the others 0."""
        columns = (told.get(name, F.lit(0)).cast("long").alias(name) for name in bykey.COLUMNS)
        return found.select("part", bucket.cast("int").alias("bucket"), *columns)

    def own(id: Any) -> Any:
        return F.pmod(F.xxhash64(id), many)

    acknowledged = F.when(c("outcome") == _OK, c("completed")).otherwise(F.lit(int(NEVER)))
    about = {x: c(x) for x in ("op", "kind", "form", "in_part", "parity", "name", "invoked")}
    commit = {**about, "position": c("position"), "completed": acknowledged}
    arguments = _content(records, ARGUMENT).withColumnsRenamed({"n": "number", "arg_op": "op", "arg_id": "id"})
    arguments = arguments.join(placed, ["part", "op"])
    there = c("position").isNotNull()
    reads = (c("outcome") == _OK) & c("reads") & ~c("travels") & (c("form") == IDS)
    whats = F.array_compact(
        F.array(F.when(there & (c("form") != COPY), bykey.NAMED), F.when(reads, bykey.READ)),
    )
    is_read = c("what") == bykey.READ
    named = rows(
        arguments.withColumn("what", F.explode(whats)),
        own(c("id")),
        **{
            **commit,
            "what": c("what"),
            "id": c("id"),
            "number": c("number"),
            "position": F.when(is_read, F.lit(0)).otherwise(c("position")),
            "completed": F.when(is_read, c("completed")).otherwise(acknowledged),
            "seen": c("seen"),
        },
    )
    changes = rows(
        _content(records, CHANGE),
        own(c("id")),
        what=F.lit(bykey.CHANGED),
        **{x: c(x) for x in ("position", "sign", "id", "val", "cnt", "log", "row_part")},
    )
    out = named.unionByName(changes)
    if COPY in forms:
        in_order = Window.partitionBy("part", "op", "position").orderBy("number")
        pairs = arguments.where(there & (c("form") == COPY)).select(
            "*", F.lead("id").over(in_order).alias("target"), F.row_number().over(in_order).alias("place")
        )
        pairs = pairs.where("place = 1 and target is not null")
        told = {**commit, "what": F.lit(bykey.NAMED), "id": c("id"), "number": c("target")}
        out = out.unionByName(rows(pairs, own(c("id")), **told))
    everywhere = F.explode(F.sequence(F.lit(0), (many - 1).cast("int")))
    taking = there & c("removes")
    if forms & {WHERE, PART, WHOLE}:
        taken = placed.where(taking & c("form").isin(WHERE, PART, WHOLE)).withColumn("bucket", everywhere)
        out = out.unionByName(rows(taken, c("bucket"), **{**commit, "what": F.lit(bykey.TAKEN)}))
    if PARTS in forms:
        of_id = F.when(c("id") >= 0, c("id") % c("partitions"))
        of_id = of_id.otherwise(-1 - F.floor((-c("id") - 1) / F.lit(OWN_KEYS)))
        several = arguments.where(taking & (c("form") == PARTS)).withColumn("id", of_id)
        several = several.drop("number").distinct().withColumn("bucket", everywhere)
        out = out.unionByName(rows(several, c("bucket"), **{**commit, "what": F.lit(bykey.TAKEN), "id": c("id")}))
    return out


def _events(placed: DataFrame) -> DataFrame:
    """The rows of the pass that need no bucket: commits, reads of the whole table, and time travels."""
    from pyspark.sql import functions as F

    c, ok = F.col, F.col("outcome") == _OK

    def row(what: int, event: Any, **told: Any) -> Any:
        told |= {"event": event, "what": F.lit(what)}
        return F.struct(*(told.get(x, F.lit(0)).cast("long").alias(x) for x in inorder.COLUMNS))

    acknowledged = F.when(ok, c("completed")).otherwise(F.lit(int(NEVER)))
    flags = c("dml").cast("long") * inorder.DML + c("told").cast("long") * inorder.TOLD
    travels, known = ok & c("travels"), c("since") >= 0
    of_read = {"op": c("op"), "a": c("completed")}
    rows = F.array(
        F.when(
            c("position").isNotNull(),
            row(inorder.COMMIT, c("invoked"), position=c("position"), op=c("op"), a=acknowledged, b=flags),
        ),
        F.when(travels & known, row(inorder.RANGE, c("invoked"), b=c("since"), c=c("until") + 1, **of_read)),
        F.when(travels, row(inorder.TRAVEL, F.lit(-1), position=c("at"), b=c("seen"), **of_read)),
        F.when(
            ok & ((c("reads") & ~c("travels") & (c("form") != IDS)) | (c("travels") & ~known)),
            row(inorder.WHOLE, c("invoked"), b=c("seen"), **of_read),
        ),
    )
    found = placed.select("part", F.explode(F.array_compact(rows)).alias("row"))
    return found.select("part", *(c(f"row.{x}").alias(x) for x in inorder.COLUMNS))


def _counts(records: DataFrame, placed: DataFrame) -> dict[int, tuple[int, Screen]]:
    """Part → number of its operations, and of its commits, changed rows and reads."""
    from pyspark.sql import functions as F

    size = {(r["part"], r["record"]): r["count"] for r in records.groupBy("part", "record").count().collect()}
    reading = F.when((F.col("outcome") == _OK) & (F.col("reads") | F.col("travels")), 1)
    # An operation with several commits is there several times; a read that has one was told above.
    reads = {r["part"]: r["n"] for r in placed.groupBy("part").agg(F.count(reading).alias("n")).collect()}
    parts = {part for part, _ in size}
    return {
        n: (
            size.get((n, OPERATION), 0),
            Screen(reads=reads.get(n, 0), commits=size.get((n, COMMIT), 0), rows=size.get((n, CHANGE), 0)),
        )
        for n in parts
    }


def _screening(asked: Mapping[int, tuple[str, tuple[str, ...], bool]]) -> Any:
    """The function that judges a bucket: its rows → those of the pass."""

    def judge(key: tuple[Any, ...], rows: pa.Table) -> pa.Table:
        part = key[0].as_py()
        told, kinds, whole = asked[part]
        found = bykey.screen_bucket(rows, TableSpec.model_validate_json(told), kinds, whole=whole)
        return found.add_column(0, "part", pa.array(np.full(len(found), part, np.int32)))

    return judge


def _passing(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Tables in turn, the rows of each sorted by event → what the pass found."""
    part, passing = -1, inorder.InOrder()

    def found() -> Iterator[pa.RecordBatch]:
        for reason, ops in passing.end():
            columns = [pa.array(np.full(len(ops), part, np.int32)), pa.array([reason] * len(ops)), pa.array(ops)]
            yield pa.RecordBatch.from_arrays(columns, ["part", "reason", "op"])

    for batch in batches:
        of = batch["part"].to_numpy()
        columns = {x: batch[x].to_numpy() for x in inorder.COLUMNS}
        for bounds in np.split(np.arange(len(of)), np.flatnonzero(np.diff(of)) + 1):
            if not len(bounds):
                continue
            if of[bounds[0]] != part:
                yield from found()
                part, passing = int(of[bounds[0]]), inorder.InOrder()
            rows = slice(bounds[0], bounds[-1] + 1)
            passing.feed({x: values[rows] for x, values in columns.items()})
    yield from found()


# --- a session --------------------------------------------------------------------------------------------------------

CONF: Mapping[str, str] = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "3g",
    "spark.sql.shuffle.partitions": "8",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "500000",
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
