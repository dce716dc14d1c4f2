"""What the core asks of Delta: its client looks for the newest version and tries the next one at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from checkers.evidence.tableformat import TableFormat
from checkers.formats.delta.records import DELTA_RECORDS, DeltaCommit, DeltaMetadata
from workloads.backoff import RetryLimits

MOST_ATTEMPTS = 10_000_000
"""``spark.databricks.delta.commitAttempts`` (delta-io/delta v4.4.0, ``DeltaSQLConf.DELTA_MAX_RETRY_COMMIT_ATTEMPTS``)."""


class Delta(TableFormat[DeltaCommit, DeltaMetadata]):
    """Delta Lake."""

    name = "delta"
    title = "Delta"
    records = DELTA_RECORDS
    decides = "the object store"
    two_made = "looked whether the next version was free, and then wrote it: two commits found it free, and one took the place of the other"
    keeper = "the log store"  # it looks, and writes: the object store answers each request rightly
    guard = (
        "Use a log store that writes a version's file only if there is none, for all clients of the table: `spark.delta.logStore.s3a.impl` = "
        "`io.delta.storage.S3DynamoDBLogStore`, with the jar `io.delta:delta-storage-s3-dynamodb` and a table in DynamoDB, or one that sends "
        "`If-None-Match` (docs/formats.md)."
    )

    def backoff(self, properties: Mapping[str, Any]) -> RetryLimits:
        return RetryLimits(num_retries=MOST_ATTEMPTS, min_wait_ms=0, max_wait_ms=0)

    def set_back(self, c: DeltaCommit, m: DeltaMetadata, table: str) -> str:
        return f"`RESTORE TABLE {table} TO VERSION AS OF {m.n}`"

    def restored(self, m: DeltaMetadata) -> int | None:
        version = str((m.info.get("operationParameters") or {}).get("version"))
        return int(version) if m.info.get("operation") == "RESTORE" and version.isdecimal() else None

    def same_but_time(self, first: DeltaMetadata, other: DeltaMetadata) -> bool:
        return first.configuration == other.configuration
