"""The table log against the engine: at every snapshot, the rows that follow from the log are those that Spark reads by time travel."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from checkers.evidence.tablelog import TableLog

Rows = Counter[tuple[Any, ...]]
"""Rows in the order of a log's ``columns``, each with how often it occurs."""


def rows_of_snapshots(log: TableLog) -> Iterator[tuple[int, Rows]]:
    """Snapshot id and rows of every commit of a log, in its order: what its commits added and removed, summed up along the parents.

    Raises:
        AssertionError: a commit's rows or its parent are unknown, or it removes a row that its parent has not.
    """
    states: dict[int | None, Rows] = {None: Counter()}
    for c in log.commits:
        about = f"{log.table}: snapshot {c.snapshot_id} ({c.sequence_number}, {c.operation}) by {c.op}"
        assert c.parent_id in states, f"{about}: its parent {c.parent_id} is not in the log"
        assert c.added is not None and c.removed is not None, f"{about}: its rows are unknown: {c.problems}"
        state, removed, added = states[c.parent_id], Counter(r.row for r in c.removed), Counter(r.row for r in c.added)
        assert removed <= state and not removed & added, f"{about}: removes {removed - state}, which its parent has not"
        states[c.snapshot_id] = state - removed + added
        yield c.snapshot_id, states[c.snapshot_id]


def rows_by_time_travel(spark: Any, table: str, snapshot: int, columns: tuple[str, ...]) -> Rows:
    """The rows that Spark reads of a table's snapshot; a column that the snapshot's schema lacks is null."""
    frame = spark.sql(f"SELECT * FROM {table} VERSION AS OF {snapshot}")
    at = [frame.columns.index(c) if c in frame.columns else None for c in columns]
    return Counter(tuple(None if i is None else r[i] for i in at) for r in frame.collect())


def assert_spark_reads_the_log(spark: Any, log: TableLog, table: str | None = None) -> int:
    """Compare every snapshot that the table still lists; returns their number.

    Args:
        spark: a session with the table's catalog.
        log: the whole log, read to the table's current version.
        table: the table's name in the session; default: ``log.identifier``.

    Raises:
        AssertionError: with the snapshot, its operation, and the rows that only one of the two has.
    """
    name = table or log.identifier
    listed = {r.snapshot_id for r in spark.sql(f"SELECT snapshot_id FROM {name}.snapshots").collect()}
    known = log.by_snapshot()
    assert listed <= set(known), f"{name}: snapshots {sorted(listed - set(known))} are not in the log"
    for snapshot, ours in rows_of_snapshots(log):
        if snapshot in listed:
            theirs = rows_by_time_travel(spark, name, snapshot, log.columns)
            c = known[snapshot]
            assert ours == theirs, (
                f"{name}: snapshot {snapshot} ({c.sequence_number}, {c.operation}) by {c.op}: only in the log "
                f"{sorted((ours - theirs).elements(), key=str)}; only in Spark {sorted((theirs - ours).elements(), key=str)}"
            )
    return len(listed)
