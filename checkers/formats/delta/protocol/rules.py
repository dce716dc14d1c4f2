"""What Delta's protocol promises of a table's log, one rule for each anomaly: name, section, promise.

The sections are those of PROTOCOL.md in delta-io/delta at v4.4.0; a section that is a class promises it in Delta's code.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

DELTA_PROTOCOL = "https://github.com/delta-io/delta/blob/v4.4.0/PROTOCOL.md"


@dataclass(frozen=True, slots=True)
class ProtocolRule:
    """A promise: the section that makes it, and its text."""

    section: str
    promise: str


@dataclass(frozen=True, slots=True)
class BrokenProtocol:
    """A broken rule: the observation that contradicts it, the versions, the last one the offender, and the files."""

    name: str
    text: str
    versions: tuple[int, ...]
    files: tuple[str, ...] = ()


_ENTRIES = "Delta Log Entries"
_FILES = "Add File and Remove File"
_INFO = "Commit Provenance Information"

PROTOCOL_RULES: Mapping[str, ProtocolRule] = {
    # --- versions
    "version-gap": ProtocolRule(_ENTRIES, "versions start at 0 and are contiguous"),
    "version-replaced": ProtocolRule(
        _ENTRIES, "a version's file is written once, by the writer that makes the version"
    ),
    "version-unreadable": ProtocolRule(_ENTRIES, "a version's file is JSON, one action a line"),
    # --- files
    "added-and-removed": ProtocolRule(
        "Action Reconciliation", "a version does not add and remove the same logical file"
    ),
    "added-twice": ProtocolRule(_FILES, "a version that changes data adds only files that are not in the table"),
    "removed-twice": ProtocolRule(_FILES, "a version removes only files that are in the table"),
    "several-vectors": ProtocolRule(_FILES, "a data file is in the table with at most one deletion vector"),
    "vector-too-long": ProtocolRule(
        "Deletion Vector Descriptor Schema", "a deletion vector marks no more rows than its file has"
    ),
    "vector-grows-back": ProtocolRule(
        "OptimisticTransaction", "a statement that changes rows never makes a deleted row of a file visible again"
    ),
    # --- protocol and metadata
    "protocol-absent": ProtocolRule("Protocol Evolution", "the first version has the actions protocol and metaData"),
    "protocol-twice": ProtocolRule(_ENTRIES, "a version has at most one protocol, one metaData and one commitInfo"),
    "feature-absent": ProtocolRule("Table Features", "what a table uses is named by the features of its protocol"),
    "table-id-changed": ProtocolRule("Change Metadata", "the id of a table never changes"),
    "column-mapping": ProtocolRule(
        "Column Mapping",
        "a column has an id and a physical name that no other one has or had, and delta.columnMapping.maxColumnId is the largest id",
    ),
    # --- times
    "commit-time-absent": ProtocolRule(
        "In-Commit Timestamps", "with in-commit timestamps each version says its time in its first action, commitInfo"
    ),
    "commit-time-order": ProtocolRule(
        "In-Commit Timestamps", "the in-commit timestamp of a version is greater than that of the version before it"
    ),
    # --- row tracking
    "row-ids-absent": ProtocolRule(
        "Row Tracking", "with row tracking each added file has baseRowId and defaultRowCommitVersion"
    ),
    "row-ids-shared": ProtocolRule("Row Tracking", "two files of a table never have the same fresh row id"),
    "row-id-watermark": ProtocolRule(
        "Row Tracking", "no row id is above the high water mark, and that never decreases"
    ),
    # --- commitInfo and transactions
    "operation-unlike": ProtocolRule(_INFO, "the operation in commitInfo is what the writer executed"),
    "metrics-unlike": ProtocolRule(_INFO, "the metrics in commitInfo count the rows that the version changed"),
    "read-version": ProtocolRule("OptimisticTransaction", "a transaction commits a version after the one that it read"),
    "blind-append": ProtocolRule("OptimisticTransaction", "a blind append removes no file"),
    "transaction-twice": ProtocolRule("OptimisticTransaction", "a transaction, named by its txnId, makes one version"),
    "application-version": ProtocolRule(
        "Transaction Identifiers", "the version of an application in txn actions only increases"
    ),
    # --- what repeats the log
    "checkpoint-unlike": ProtocolRule("Checkpoints", "a checkpoint has what the versions up to its own leave"),
    "compacted-unlike": ProtocolRule("Log Compaction Files", "a compacted log has what its versions leave"),
    "checksum-unlike": ProtocolRule("Version Checksum File", "a checksum counts the files of its version"),
}
