"""What the Iceberg specification promises about a table's metadata, one rule for each anomaly: name, section, promise.

The ``metadata`` checker names its findings after this table, so that a reader of its verdict can look the rule up
(https://iceberg.apache.org/spec/, format/spec.md in apache/iceberg). If the section is a class of Iceberg, the Java library makes the
promise and the specification is silent.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

SPEC = "https://iceberg.apache.org/spec/"


@dataclass(frozen=True, slots=True)
class SpecRule:
    """A promise: the section that makes it, the section's anchor (empty for a class), and its text."""

    section: str
    anchor: str
    promise: str

    @property
    def link(self) -> str | None:
        """The link to its text; None for a rule of the Java library."""
        return f"{SPEC}#{self.anchor}" if self.anchor else None


SPEC_RULES: Mapping[str, SpecRule] = {
    # --- the chain of metadata files
    "metadata-fork": SpecRule(
        "Table Metadata",
        "table-metadata",
        "a new version of table metadata replaces the version on which it was based, which produces a linear history of table "
        "versions and ensures that concurrent writes are not lost",
    ),
    "missing-metadata-file": SpecRule(
        "Table Metadata Fields",
        "table-metadata-fields",
        "metadata-log tracks the previous metadata files of the table, and the catalog's pointer the current one",
    ),
    "corrupt-metadata-file": SpecRule(
        "Table Metadata", "table-metadata", "table metadata is stored as JSON and is immutable"
    ),
    "metadata-log-mismatch": SpecRule(
        "Table Metadata Fields",
        "table-metadata-fields",
        "each time a new metadata file is created, a new entry of the previous metadata file location is added to metadata-log",
    ),
    "table-uuid-changed": SpecRule(
        "Table Metadata Fields",
        "table-metadata-fields",
        "table-uuid identifies the table and is generated when it is created",
    ),
    "shared-uuid": SpecRule(
        "Table Metadata Fields",
        "table-metadata-fields",
        "table-uuid identifies the table and is generated when it is created; who refreshes the table must refuse another's",
    ),
    "format-version-decreased": SpecRule("TableMetadata.upgradeFormatVersion", "", "a table is never downgraded"),
    "counter-decreased": SpecRule(
        "Table Metadata Fields",
        "table-metadata-fields",
        "last-sequence-number, last-column-id, last-partition-id and next-row-id are the highest that were ever assigned",
    ),
    # --- what versions list
    "last-sequence-number": SpecRule(
        "Table Metadata Fields",
        "table-metadata-fields",
        "last-sequence-number is the table's highest assigned sequence number",
    ),
    "duplicate-snapshot": SpecRule("Snapshots", "snapshots", "snapshot-id is a unique long id"),
    "duplicate-sequence-number": SpecRule(
        "Sequence Numbers",
        "sequence-numbers",
        "a sequence number is assigned to every successful commit, and reassigned when a commit is retried",
    ),
    "sequence-number-order": SpecRule(
        "Sequence Numbers",
        "sequence-numbers",
        "sequence-number is a monotonically increasing long that tracks the order of changes to a table",
    ),
    "dangling-ref": SpecRule(
        "Table Metadata Fields",
        "table-metadata-fields",
        "refs are snapshot references, and snapshots has every valid snapshot",
    ),
    "main-ref": SpecRule(
        "Table Metadata Fields",
        "table-metadata-fields",
        "current-snapshot-id must be the same as the current id of the main branch in refs",
    ),
    "snapshot-changed": SpecRule(
        "Snapshots", "snapshots", "a snapshot is the state of a table at some time; files and snapshots are immutable"
    ),
    "unknown-parent": SpecRule(
        "Snapshots",
        "snapshots",
        "parent-snapshot-id is the snapshot id of the snapshot's parent, which was there before it",
    ),
    "main-not-moved": SpecRule(
        "SnapshotProducer.commit",
        "",
        "a commit that is not staged adds its snapshot and moves its branch to it in one version",
    ),
    # --- what changed
    "schema-changed": SpecRule(
        "Table Metadata Fields",
        "table-metadata-fields",
        "schemas are found by schema-id, current-schema-id is the table's current one: only a schema change adds one and moves it",
    ),
    "schema-evolution": SpecRule(
        "Schema Evolution",
        "schema-evolution",
        "a column's type is only promoted: int to long, float to double, a decimal to a wider one, and in version 3 a date to a timestamp; an "
        "optional column is not made required",
    ),
    "partition-spec-changed": SpecRule(
        "Partition Evolution",
        "partition-evolution",
        "when evolving a spec, changes produce a new spec identified by a unique spec-id that is added to the table's list of specs "
        "and may be set as the table's default spec",
    ),
    "sort-order-changed": SpecRule(
        "Sorting", "sorting", "a table's sort orders are found by order-id, and only a change of the order adds one"
    ),
    "property-changed": SpecRule(
        "Table Metadata Fields",
        "table-metadata-fields",
        "properties is a string map of table properties; who did not set one must not change it",
    ),
    "ref-changed": SpecRule(
        "Snapshot References",
        "snapshot-references",
        "a tag stays at its snapshot, and a branch moves only with a commit to it; their type and retention stay until somebody changes them",
    ),
    "location-changed": SpecRule(
        "Table Metadata Fields",
        "table-metadata-fields",
        "location is the table's base location: writers put data and metadata files there",
    ),
    "format-version-changed": SpecRule(
        "TableMetadata.upgradeFormatVersion", "", "a table's format version is raised only on request"
    ),
    "statistics-changed": SpecRule(
        "Table Statistics",
        "table-statistics",
        "statistics belong to a snapshot, and readers trust what is listed for it",
    ),
    "missing-field": SpecRule(
        "Table Metadata Fields",
        "table-metadata-fields",
        "the table of fields says for each format version which ones are required",
    ),
    "dangling-id": SpecRule(
        "Table Metadata Fields",
        "table-metadata-fields",
        "current-schema-id, default-spec-id, default-sort-order-id and a snapshot's schema-id are ids in the table's lists; a source-id and "
        "an identifier-field-id are ids of columns",
    ),
    "field-id": SpecRule(
        "Schemas and Data Types",
        "schemas-and-data-types",
        "field ids and names are unique in a table's schema, and those of partition fields in the table; last-column-id and "
        "last-partition-id are the highest that were assigned",
    ),
    "listed-twice": SpecRule(
        "Table Metadata Fields",
        "table-metadata-fields",
        "schemas, partition-specs and sort-orders are found by their schema-id, spec-id and order-id",
    ),
    "unknown-type": SpecRule(
        "Primitive Types",
        "primitive-types",
        "a column's type is one that the specification has in the table's format version",
    ),
    "unknown-format-version": SpecRule(
        "Format Versioning",
        "format-versioning",
        "versions 1, 2 and 3 of the format are complete and adopted; a reader refuses any other",
    ),
    "not-as-created": SpecRule(
        "TableMetadata.newTableMetadata",
        "",
        "a new table has the columns, partitioning, properties and format version that its creation asks for; its columns have the ids 1, 2, … "
        "in their order, its counters are what was assigned, and its metadata lies below its location",
    ),
    "snapshot-log": SpecRule(
        "Table Metadata Fields",
        "table-metadata-fields",
        "each time current-snapshot-id is changed, a new entry is added to snapshot-log; when snapshots are expired, all entries before "
        "an expired one are removed",
    ),
    "timestamp-order": SpecRule(
        "TableMetadata",
        "",
        "the entries of both logs are copied with their times and sorted by them, and last-updated-ms is not before the last of them; only "
        "a minute is allowed for clocks that differ; the entry of the version before has that one's last-updated-ms, that of a new snapshot "
        "the snapshot's timestamp-ms; no time is later than a clock can have said it",
    ),
    "returned-snapshot": SpecRule(
        "TableMetadata.Builder.addSnapshot",
        "",
        "a snapshot is added once, with a sequence number above the table's last one; what was expired does not come back",
    ),
    # --- what vanished
    "vanished-snapshot": SpecRule(
        "Snapshot Retention Policy",
        "snapshot-retention-policy",
        "snapshots are removed from metadata by the expiration procedure, by the table's retention policy",
    ),
    "retention": SpecRule(
        "Snapshot Retention Policy",
        "snapshot-retention-policy",
        "the first min-snapshots-to-keep ancestors of a branch are retained, whatever their age",
    ),
    "vanished-ref": SpecRule(
        "Snapshot References",
        "snapshot-references",
        "a branch or tag stays until it is dropped or expires; main never expires",
    ),
    "vanished-schema": SpecRule(
        "Table Metadata Fields",
        "table-metadata-fields",
        "schemas is a list of schemas, current-schema-id the table's current one",
    ),
    "vanished-partition-spec": SpecRule(
        "Table Metadata Fields", "table-metadata-fields", "partition-specs is a list of full partition spec objects"
    ),
    "vanished-property": SpecRule(
        "Table Metadata Fields",
        "table-metadata-fields",
        "properties is a string map of table properties; who did not set or remove one must not change it",
    ),
    "lost-metadata-change": SpecRule(
        "Optimistic Concurrency",
        "optimistic-concurrency",
        "a change of the schema, of a property or of the format version that was committed is in every later version, until "
        "another one takes it back",
    ),
    # --- files
    "missing-file": SpecRule(
        "Overview",
        "overview",
        "the data in a snapshot is the union of all files in its manifests; a listed snapshot can be read",
    ),
    "corrupt-file": SpecRule(
        "File System Operations", "file-system-operations", "once written, data and metadata files are immutable"
    ),
    "duplicate-path": SpecRule(
        "Scan Planning",
        "scan-planning",
        "file paths marked ADDED or EXISTING may appear at most once across all manifest files in the snapshot",
    ),
    "shared-file": SpecRule(
        "Table Metadata Fields",
        "table-metadata-fields",
        "location is the table's own, where its writers store its files; a table whose files another one needs, too, has gc.enabled false, "
        "because expiry deletes what its own table needs no more (RemoveSnapshots)",
    ),
    "several-dvs": SpecRule(
        "Deletion Vectors",
        "deletion-vectors",
        "there must be at most one deletion vector for a data file in a snapshot",
    ),
    "dangling-dv": SpecRule(
        "Deletion Vectors",
        "deletion-vectors",
        "a writer that removes a data file must remove its deletion vector as well",
    ),
    "position-deletes-in-v3": SpecRule(
        "Position Delete Files",
        "position-delete-files",
        "position delete files must not be added to v3 tables: deletes of positions are deletion vectors there",
    ),
    "foreign-file": SpecRule(
        "Manifest Entry Fields",
        "manifest-entry-fields",
        "a file that a snapshot adds is marked ADDED with that snapshot's id; only files of the parent may be EXISTING",
    ),
    "manifest-count": SpecRule(
        "Manifest Lists", "manifest-lists", "the manifest list counts each manifest's entries and rows by status"
    ),
    "min-sequence-number": SpecRule(
        "Manifest Lists",
        "manifest-lists",
        "min_sequence_number is the minimum data sequence number of all live files in the manifest",
    ),
    "sequence-number": SpecRule(
        "Sequence Number Inheritance",
        "sequence-number-inheritance",
        "a file's data sequence number is at most its file sequence number",
    ),
    "null-sequence-number": SpecRule(
        "Sequence Number Inheritance",
        "sequence-number-inheritance",
        "sequence numbers are inherited only when null and the entry's status is ADDED; EXISTING and DELETED entries must say them",
    ),
    "file-sequence-number": SpecRule(
        "Sequence Number Inheritance",
        "sequence-number-inheritance",
        "the file sequence number is the sequence number of the snapshot in which the file was added, and never changes",
    ),
    "record-count": SpecRule(
        "Data File Fields", "data-file-fields", "record_count is the number of records in the file"
    ),
    "delete-position": SpecRule(
        "Position Delete Files",
        "position-delete-files",
        "a deleted position is that of a row in the data file, starting at 0",
    ),
    "data-sequence-number": SpecRule(
        "Sequence Number Inheritance",
        "sequence-number-inheritance",
        "a new file inherits the sequence number of its snapshot as its data sequence number; only a rewrite may give an older one "
        "(RewriteFiles.dataSequenceNumber)",
    ),
    "file-partition": SpecRule(
        "Partitioning",
        "partitioning",
        "the partition values of a data file are those of all its records: scans decide by them whether they read the file",
    ),
    "pruned-rows": SpecRule(
        "Scan Planning",
        "scan-planning",
        "scans use partition summaries, and the bounds and counts of columns, to skip manifests and files that cannot match: all non-null and "
        "non-NaN values of a file are at or above its lower bound and at or below its upper bound",
    ),
    "column-count": SpecRule(
        "Data File Fields",
        "data-file-fields",
        "value_counts, null_value_counts and nan_value_counts are the numbers of values (with nulls and NaN), nulls and NaN in the column",
    ),
    "delete-partition": SpecRule(
        "Scan Planning",
        "scan-planning",
        "a delete file applies to a data file only if the partitions of both are equal, by spec and values",
    ),
    "referenced-file": SpecRule(
        "Data File Fields",
        "data-file-fields",
        "referenced_data_file is the location of the data file that all deletes of a delete file reference",
    ),
    "equality-ids": SpecRule(
        "Data File Fields",
        "data-file-fields",
        "equality_ids are the field ids by which an equality delete file determines that rows are equal, and are required of it",
    ),
    "split-offsets": SpecRule(
        "Data File Fields",
        "data-file-fields",
        "split_offsets are offsets at which a data file can be split, such as those of all row groups of a Parquet file, sorted ascending; "
        "scans read from one to the next",
    ),
    "dv-in-v2": SpecRule(
        "Deletion Vectors",
        "deletion-vectors",
        "deletion vectors are supported from version 3 on and are not in tables of version 2",
    ),
    "delete-sequence-number": SpecRule(
        "Scan Planning",
        "scan-planning",
        "position deletes and deletion vectors apply to data files whose data sequence number is not higher than theirs, equality deletes to "
        "those whose number is lower",
    ),
    "misplaced-row": SpecRule(
        "Overview",
        "overview",
        "the data in a snapshot is the union of all its data files: a row is at one position of one of them, comes and goes with it, or a "
        "delete file hides it",
    ),
    "file-format": SpecRule(
        "Data File Fields",
        "data-file-fields",
        "file_format is the name of the file's format, avro, orc, parquet or puffin, by which readers choose how to read it",
    ),
    "vector-place": SpecRule(
        "Data File Fields",
        "data-file-fields",
        "content_offset and content_size_in_bytes are where the deletion vector's blob is in its Puffin file, of file_size_in_bytes",
    ),
    "file-size": SpecRule(
        "Data File Fields",
        "data-file-fields",
        "file_size_in_bytes, manifest_length and file-size-in-bytes of statistics are the size of the file: readers look for its end there",
    ),
    "shared-manifest-list": SpecRule(
        "Snapshots",
        "snapshots",
        "manifest-list is the manifest list of this snapshot, which each attempt to commit writes anew (SnapshotProducer.apply)",
    ),
    "removed-not-live": SpecRule(
        "Manifest Entry Fields",
        "manifest-entry-fields",
        "an entry is DELETED in the snapshot that removes a file from the table, so the file was live in its parent",
    ),
    "entry-changed": SpecRule(
        "Manifest Entry Fields",
        "manifest-entry-fields",
        "a file's entry is copied when the file is kept or removed: what it says of the file, and the sequence numbers of when it was "
        "added, never change",
    ),
    "wrong-operation": SpecRule(
        "Snapshots",
        "snapshots",
        "append says that only data files were added and no files were removed, delete that no data files were added, replace that files "
        "were exchanged without changing the table's data, and there is no other but overwrite; validation of concurrent commits trusts it "
        "(MergingSnapshotProducer)",
    ),
    "summary-count": SpecRule(
        "Optional Snapshot Summary Fields",
        "optional-snapshot-summary-fields",
        "the summary's metrics are the numbers of files and records that the snapshot added, removed, and has",
    ),
    # --- row lineage
    "first-row-id": SpecRule(
        "Snapshot Row IDs",
        "snapshot-row-ids",
        "first-row-id is required, assigned to the table's current next-row-id on each commit attempt, and reassigned on a retry",
    ),
    "row-id-overlap": SpecRule(
        "Row Lineage",
        "row-lineage",
        "_row_id is unique in the table: the ranges that snapshots assign are disjoint and ordered, and so are those of their files",
    ),
    "next-row-id": SpecRule("Row Lineage", "row-lineage", "next-row-id is higher than all assigned row ids"),
    "file-row-id": SpecRule(
        "First Row ID Assignment",
        "first-row-id-assignment",
        "every data file that a snapshot adds gets its first_row_id from the range that the snapshot assigns",
    ),
    "kept-row-id": SpecRule(
        "First Row ID Inheritance",
        "first-row-id-inheritance",
        "a file that a new manifest has from an old one keeps its first_row_id: a row has one _row_id as long as it lives",
    ),
}
"""Anomaly name → the rule that it breaks."""


@dataclass(frozen=True, slots=True)
class BrokenRule:
    """A broken rule, as the parts of the ``metadata`` checker find it.

    ``text`` states the observation that contradicts the rule; the checker adds the rule itself. The other fields are an anomaly's.
    """

    name: str
    text: str
    ops: tuple[str, ...] = ()
    snapshots: tuple[int, ...] = ()
    files: tuple[str, ...] = ()
