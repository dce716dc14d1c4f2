"""Side tables on the writer's side: one load, and an append to what it gave or what it shows (``workloads.operations.side_tables``).

Like ``harness.writers.session`` it imports only the standard library.
"""

from __future__ import annotations

from typing import Any

from nemesis.operation_key import OPERATION_KEY

CREATED_BY = "icequake.created-by"
"""Property of a side table: the operation that created it."""
ABSENT = "org.apache.spark.sql.catalyst.analysis.NoSuchTableException"


def append(spark: Any, table: str) -> str | None:
    """Commit an append without files to the table that the catalog names now; return the operation that created it, as loaded before."""
    loaded = _load(spark, table)
    creator: str | None = loaded.properties().get(CREATED_BY)
    loaded.newAppend().commit()
    return creator


def read(spark: Any, table: str) -> list[tuple[str | None, ...]]:
    """One row: the operation that created the table, then those of main's snapshots, the newest first; last None, if the table does not list
    older ones. Nessie lists one snapshot, without its parent; its sequence number says whether it is the first. No row: no such table."""
    try:
        loaded = _load(spark, table)
    except Exception as e:  # Py4JJavaError; py4j is not imported here
        origin = getattr(e, "java_exception", None) or getattr(e, "_origin", None)
        if origin is None or origin.getClass().getName() != ABSENT:
            raise
        return []
    row = [loaded.properties().get(CREATED_BY)]
    ancestors = spark._jvm.org.apache.iceberg.util.SnapshotUtil.currentAncestors(loaded).iterator()
    oldest = None
    while ancestors.hasNext():
        oldest = ancestors.next()
        row.append(oldest.summary().get(OPERATION_KEY))
    if oldest is not None and (oldest.parentId() is not None or oldest.sequenceNumber() > 1):
        row.append(None)
    return [tuple(row)]


def _load(spark: Any, table: str) -> Any:
    return spark._jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(spark._jsparkSession, table)
