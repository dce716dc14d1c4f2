"""Delta Lake beside Iceberg in a Spark session: where its tables lie, and what guards their commits.

A Delta table needs no catalog. A commit is the write of the next version's file, ``_delta_log/N.json``, and a *log store* decides whether two
writers can both succeed with the same one. So the log store is to a Delta table what a catalog is to an Iceberg table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from compose.catalogs.catalog import Guard
from compose.catalogs.hadoop import s3a
from compose.endpoints import Endpoints
from workloads.tables import GuardName

EXTENSION = "io.delta.sql.DeltaSparkSessionExtension"
USER_METADATA_CONF = "spark.databricks.delta.commitInfo.userMetadata"
"""The property of a session that names the operation in each commit (``commitInfo.userMetadata``)."""


@dataclass(frozen=True)
class LogStore:
    """One way to make a version.

    Attributes:
        summary: what it is, one line.
        promise: what decides a commit, one line.
        guard: what it does against concurrent commits.
        local: the tables lie in a folder of this machine, not in the object store.
        session: more Spark properties.
    """

    summary: str
    promise: str
    guard: Guard
    local: bool = False
    session: Mapping[str, str] = field(default_factory=dict)


CONDITIONAL = {"spark.delta.logStore.s3a.impl": "ConditionalLogStore"}
NO_READ_BACK = {"spark.hadoop.icequake.log-store.read-back": "false"}
"""A property of ``ConditionalLogStore.java``."""

GUARDS: Mapping[GuardName, LogStore] = {
    "s3-conditional": LogStore(
        summary="icequake's class ConditionalLogStore on S3A",
        promise="one winner for every version: the object store refuses to write N.json if it exists",
        guard="compare-and-swap",
        session=CONDITIONAL,
    ),
    "s3-put-if-absent": LogStore(
        summary="icequake's class ConditionalLogStore on S3A, which takes every refusal for another writer's version",
        promise="one winner for every version, but a writer that lost its reply takes its own version for another's",
        guard="compare-and-swap",
        session=CONDITIONAL | NO_READ_BACK,
    ),
    "s3-put-if-absent-idempotent": LogStore(
        summary="the same, and Delta looks for its own transaction in the version that it lost to (commit.idempotencyCheck)",
        promise="one winner for every version, which knows its own transaction id",
        guard="compare-and-swap",
        session=CONDITIONAL | NO_READ_BACK | {"spark.databricks.delta.commit.idempotencyCheck.enabled": "true"},
    ),
    "s3-single-driver": LogStore(
        summary="Delta's default on S3A, S3SingleDriverLogStore",
        promise="nothing between two drivers: a check that N.json does not exist, then a plain write",
        guard="none",
    ),
    "local": LogStore(
        summary="Delta's default on local files, LocalLogStore",
        promise="nothing between two drivers: a check that N.json does not exist, then a rename",
        guard="none",
        local=True,
    ),
}
"""By name, as ``guard:`` in a workload file has it."""


def root(endpoints: Endpoints, data: Path) -> str:
    """The folder in which the namespaces of Delta tables lie; ``data``: the run's own folder for what does not outlive it."""
    if GUARDS[_known(endpoints.guard)].local:
        return (data / "delta").as_uri()
    return f"s3a://{endpoints.warehouse.partition('://')[2]}"


def location(endpoints: Endpoints, data: Path, namespace: str) -> Callable[[str], str]:
    """The place of each Delta table of a run, by the table's name; ``data`` as for :func:`root`."""
    folder = root(endpoints, data)
    return lambda table: f"{folder}/{namespace}/{table}"


def session(endpoints: Endpoints, extensions: str) -> dict[str, str]:
    """The Spark properties of a session that knows Delta tables, too; ``extensions``: those that it has already."""
    return {
        **s3a(endpoints),
        # A proxy reads the operation in a commit, so the body must come with the head.
        "spark.hadoop.fs.s3a.connection.expect.continue": "false",
        # Longer than `prove` holds a request (60 s): the other INSERT once took 41 s, and after 30 s S3A had sent the held one again.
        "spark.hadoop.fs.s3a.connection.timeout": "90s",
        "spark.sql.extensions": f"{extensions},{EXTENSION}",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.databricks.delta.snapshotPartitions": "1",
        "spark.sql.sources.parallelPartitionDiscovery.parallelism": "4",  # VACUUM runs 10,000 tasks for one folder without it
        **GUARDS[_known(endpoints.guard)].session,
    }


def _known(name: str) -> GuardName:
    found: GuardName = next(known for known in GUARDS if known == name)
    return found
