"""Two tables in one operation, on the writer's side: one transaction where the catalog has such, else one commit after the other.

Spark SQL commits to one table. What Iceberg offers beyond that is ``POST /v1/transactions/commit`` of the REST catalog specification
(``RESTCatalog.commitTransaction``), so a transaction is made in two steps:

1. Each statement is run with ``spark.wap.id`` set: its snapshot is *staged*, listed in the table's metadata but on no branch.
2. One request moves main of every table to its staged snapshot, and requires that main is still at that snapshot's parent.

Step 1 is as harmless as a file that nobody names, so the operation takes effect at step 2 or not at all. With another catalog, or a server
that does not have the endpoint, the statements are run as they are: what people do who have no better.

Like ``harness.writer`` it imports nothing but pyspark and the standard library.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

WAP_ID = "spark.wap.id"
STAGED_BY = "wap.id"
"""Key of a staged snapshot's summary (``SnapshotSummary.STAGED_WAP_ID_PROP``)."""

IS_NESSIE = "nessie.is-nessie-catalog"
"""What Nessie tells its REST clients. It knows no staged snapshots: one that is on no branch would become the table's current one."""

TRANSACTION = "one transaction"
IN_TURN = "one after the other"


class PartlyCommitted(Exception):
    """The first table has been committed to, and the second has not, or nobody knows. Its class says nothing of the cause: an operation that
    ended so is of unknown outcome (``harness.outcome``), whatever the second table's error would mean alone."""


def current_snapshot(spark: Any, table: str) -> int:
    """The id of a table's current snapshot, as the catalog has it now.

    Raises:
        ValueError: it has none.
    """
    snapshot = _load(spark, table).currentSnapshot()
    if snapshot is None:
        raise ValueError(f"{table} has no snapshot yet; give it seed_rows")
    return int(snapshot.snapshotId())


def transfer(spark: Any, catalog: str, op: str, parts: Sequence[tuple[str, str]], needs: str) -> str:
    """Run one statement a table, all of them as one transaction if there are any; :data:`TRANSACTION` or :data:`IN_TURN`.

    Args:
        catalog: its name in the session.
        op: the operation's id; marks what it stages.
        parts: qualified table and statement.
        needs: the table property without which nothing can be staged.

    Raises:
        PartlyCommitted: as the name says.
        Exception: what Spark and Iceberg raise; nothing was committed, or it is not known.
    """
    transactions = _transactions(spark, catalog)
    if transactions is None:
        _in_turn(spark, parts)
        return IN_TURN
    for table, _ in parts:
        if _load(spark, table).properties().get(needs) != "true":
            raise ValueError(f"{table} needs the property {needs}: true, so that a commit to it can be staged")
    spark.conf.set(WAP_ID, op)
    try:
        for _, statement in parts:
            spark.sql(statement).collect()
    finally:
        spark.conf.unset(WAP_ID)
    commits = spark._jvm.java.util.ArrayList()
    for table, _ in parts:
        commits.add(_published(spark, table, op))
    transactions.commitTransaction(commits)
    return TRANSACTION


def _transactions(spark: Any, catalog: str) -> Any:
    """The Java catalog, if it has ``commitTransaction``; None if not.

    Raises:
        ValueError: it is behind a cache, which hides it.
    """
    java = spark._jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergCatalog(spark._jsparkSession, catalog)
    name = java.getClass().getName()
    if name == "org.apache.iceberg.CachingCatalog":
        raise ValueError("a transfer needs the catalog itself: leave cache-enabled at false")
    if name != "org.apache.iceberg.rest.RESTCatalog" or java.properties().get(IS_NESSIE) == "true":
        return None
    return java


def _in_turn(spark: Any, parts: Sequence[tuple[str, str]]) -> None:
    done: list[str] = []
    for table, statement in parts:
        try:
            spark.sql(statement).collect()
        except Exception as e:
            if not done:
                raise
            why = str(e).strip().partition("\n")[0]
            raise PartlyCommitted(f"{', '.join(done)} committed, then {table} did not: {why}") from None
        done.append(table)


def _published(spark: Any, table: str, op: str) -> Any:
    """The change that moves a table's main to what ``op`` has staged there (an ``org.apache.iceberg.catalog.TableCommit``).

    Raises:
        Py4JJavaError: of a ValidationException: main has moved on since, and what was staged is not based on it.
    """
    jvm = spark._jvm
    loaded = _load(spark, table)
    staged = next(s for s in loaded.snapshots() if s.summary().get(STAGED_BY) == op)
    base = loaded.operations().current()
    main = base.currentSnapshot()
    if (None if main is None else main.snapshotId()) != staged.parentId():
        moved = "Cannot publish: main of %s has moved on since the snapshot was staged"
        arguments = spark.sparkContext._gateway.new_array(jvm.Object, 1)
        arguments[0] = table
        jvm.org.apache.iceberg.exceptions.ValidationException.check(False, moved, arguments)
    builder = jvm.org.apache.iceberg.TableMetadata.buildFrom(base)
    updated = builder.setBranchSnapshot(staged.snapshotId(), "main").build()
    identifier = jvm.org.apache.iceberg.catalog.TableIdentifier.parse(table.split(".", 1)[1])
    return jvm.org.apache.iceberg.catalog.TableCommit.create(identifier, base, updated)


def _load(spark: Any, table: str) -> Any:
    return spark._jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(spark._jsparkSession, table)
