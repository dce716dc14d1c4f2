"""Two tables in one operation, on the writer's side: one transaction if the catalog supports it, else one commit after the other.

Spark SQL commits to one table. Some catalogs can commit to several tables:

* **REST**, ``POST /v1/transactions/commit`` (``RESTCatalog.commitTransaction``). Each statement is run with ``spark.wap.id`` set: its
  snapshot is *staged*, listed in the table's metadata but on no branch. Then one request moves main of every table to its staged
  snapshot, and requires that main is still at that snapshot's parent.
* **Nessie**, by its own API or as a REST catalog: the statements run on a branch of the catalog, which is then merged
  (``harness.writers.nessie_branch``). Nessie has no staged snapshots: a snapshot on no branch becomes the table's current one.

Nothing before the last request is visible to readers, so the operation takes effect with that request or not at all. With any other
catalog the statements run one after the other, as users of such a catalog do.

Like ``harness.writers.session`` it imports only pyspark and the standard library.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from harness.writers.nessie_branch import Branch, Conflict

WAP_ID = "spark.wap.id"
STAGED_BY = "wap.id"
"""Key of a staged snapshot's summary (``SnapshotSummary.STAGED_WAP_ID_PROP``)."""
IS_NESSIE = "nessie.is-nessie-catalog"
"""Property that Nessie sends to its REST clients."""

TRANSACTION = "one transaction"
MERGE = "one merge"
IN_TURN = "one after the other"

Parts = Sequence[tuple[str, str]]
"""Qualified table, and the statement to run on it, in which ``{at}`` stands for the table's name."""


class PartlyCommitted(Exception):
    """The commit to the first table succeeded; the commit to the second failed or is unknown. The class does not depend on the cause: the
    outcome of such an operation is unknown (``checkers.evidence.outcome``), whatever the second table's error means alone."""


def current_snapshot(spark: Any, table: str) -> int:
    """The id of a table's current snapshot, read from the catalog now.

    Raises:
        ValueError: the table has no snapshot.
    """
    snapshot = _load(spark, table).currentSnapshot()
    if snapshot is None:
        raise ValueError(f"{table} has no snapshot yet; give it seed_rows")
    return int(snapshot.snapshotId())


def transfer(spark: Any, catalog: str, op: str, parts: Parts, needs: str) -> str:
    """Run one statement per table, as one transaction if the catalog supports it; return :data:`TRANSACTION`, :data:`MERGE` or :data:`IN_TURN`.

    Args:
        catalog: its name in the session.
        op: the operation's id; marks its staged snapshots.
        needs: the table property that staging requires.

    Raises:
        PartlyCommitted: only the first table was committed for certain.
        Exception: errors of Spark and Iceberg; nothing was committed, or the outcome is unknown.
    """
    java = spark._jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergCatalog(spark._jsparkSession, catalog)
    kind = java.getClass().getName()
    if kind == "org.apache.iceberg.CachingCatalog":
        raise ValueError("a transfer needs the catalog itself, without a cache: leave cache-enabled at false")
    rest = kind == "org.apache.iceberg.rest.RESTCatalog"
    if kind == "org.apache.iceberg.nessie.NessieCatalog" or (rest and java.properties().get(IS_NESSIE) == "true"):
        _merged(spark, spark.conf.get(f"spark.sql.catalog.{catalog}.uri"), op, parts)
        return MERGE
    if rest:
        _at_once(spark, java, op, parts, needs)
        return TRANSACTION
    _in_turn(spark, parts)
    return IN_TURN


# --- REST -------------------------------------------------------------------------------------------------------------


def _at_once(spark: Any, catalog: Any, op: str, parts: Parts, needs: str) -> None:
    for table, _ in parts:
        if _load(spark, table).properties().get(needs) != "true":
            raise ValueError(f"{table} needs the property {needs}: true, so that a commit to it can be staged")
    spark.conf.set(WAP_ID, op)
    try:
        for table, statement in parts:
            spark.sql(statement.format(at=table)).collect()
    finally:
        spark.conf.unset(WAP_ID)
    commits = spark._jvm.java.util.ArrayList()
    for table, _ in parts:
        commits.add(_published(spark, table, op))
    catalog.commitTransaction(commits)


def _published(spark: Any, table: str, op: str) -> Any:
    """The change that moves a table's main to the snapshot that ``op`` staged there (an ``org.apache.iceberg.catalog.TableCommit``).

    Raises:
        Py4JJavaError: with a ValidationException: main has moved since, so the staged snapshot is not based on it.
    """
    jvm = spark._jvm
    loaded = _load(spark, table)
    staged = next(s for s in loaded.snapshots() if s.summary().get(STAGED_BY) == op)
    base = loaded.operations().current()
    main = base.currentSnapshot()
    if (None if main is None else main.snapshotId()) != staged.parentId():
        _refuse(spark, f"Cannot publish: main of {table} has moved on since the snapshot was staged")
    builder = jvm.org.apache.iceberg.TableMetadata.buildFrom(base)
    updated = builder.setBranchSnapshot(staged.snapshotId(), "main").build()
    identifier = jvm.org.apache.iceberg.catalog.TableIdentifier.parse(table.split(".", 1)[1])
    return jvm.org.apache.iceberg.catalog.TableCommit.create(identifier, base, updated)


# --- Nessie -----------------------------------------------------------------------------------------------------------


def _merged(spark: Any, uri: str, op: str, parts: Parts) -> None:
    """Run both statements on a branch, then merge it.

    Raises:
        Py4JJavaError: with a ValidationException: Nessie refused the merge.
    """
    namespace = parts[0][0].split(".")[1]
    with Branch(uri, f"{namespace}-{op}") as branch:
        for table, statement in parts:
            place, name = table.rsplit(".", 1)
            spark.sql(statement.format(at=f"{place}.`{name}@{branch.name}`")).collect()
        try:
            branch.merge()
        except Conflict as e:
            _refuse(spark, f"Cannot merge: {e}")


# --- neither ----------------------------------------------------------------------------------------------------------


def _in_turn(spark: Any, parts: Parts) -> None:
    done: list[str] = []
    for table, statement in parts:
        try:
            spark.sql(statement.format(at=table)).collect()
        except Exception as e:
            if not done:
                raise
            why = str(e).strip().partition("\n")[0]
            raise PartlyCommitted(f"{', '.join(done)} committed, then {table} did not: {why}") from None
        done.append(table)


def _refuse(spark: Any, why: str) -> NoReturn:
    """Raise the exception that Iceberg raises for a conflict, so that its readers need to handle one class only."""
    arguments = spark.sparkContext._gateway.new_array(spark._jvm.Object, 1)
    arguments[0] = why
    spark._jvm.org.apache.iceberg.exceptions.ValidationException.check(False, "%s", arguments)
    raise AssertionError(why)


def _load(spark: Any, table: str) -> Any:
    return spark._jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(spark._jsparkSession, table)
