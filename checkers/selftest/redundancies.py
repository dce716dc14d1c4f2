"""What a table log says twice, and what comes of it if the two differ: a part of docs/evidence.md.

The reader copies much from one place to another, and Iceberg itself writes many things twice. Each of these pairs is **held**: a rule of a
checker compares the two, and a planted bug shows it; or **refused**: the log's file is not read, because its writer cannot have written it.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Redundancy:
    """One thing that the log says in two places.

    Attributes:
        first, second: the places.
        rules: names of the anomalies of ``metadata`` that tell a difference, with spaces between them; empty: the reader refuses it.
        bugs: planted bugs that differ there, with spaces between them; none for what is refused.
    """

    first: str
    second: str
    rules: str = ""
    bugs: str = ""


REDUNDANCIES = (
    # --- one version
    Redundancy("`current` of a version", "its ref `main`", "main-ref", "main-is-not-current"),
    Redundancy("the snapshots that refs name", "those that the version lists", "dangling-ref", "dangling-ref"),
    Redundancy(
        "type and retention of refs",
        "those in the version before",
        "ref-changed",
        "retention-lost branch-that-is-a-tag",
    ),
    Redundancy("a snapshot in the list", "the list, a second time", "duplicate-snapshot", "snapshot-listed-twice"),
    Redundancy(
        "`last_sequence_number`",
        "the highest of its snapshots",
        "last-sequence-number counter-decreased",
        "last-sequence-number-too-low",
    ),
    Redundancy(
        "`next_row_id`",
        "the ranges of its snapshots",
        "next-row-id counter-decreased first-row-id",
        "next-row-id-too-low",
    ),
    Redundancy(
        "`last_updated_ms`",
        "the time of the snapshot that the version adds",
        "timestamp-order",
        "last-version-of-another-year version-before-its-time",
    ),
    Redundancy(
        "the last entry of `snapshot-log`",
        "`current`, and the time of that snapshot",
        "snapshot-log timestamp-order",
        "snapshot-log-without-its-last-entry snapshot-of-another-year",
    ),
    # --- versions
    Redundancy(
        "`metadata-log`",
        "the versions before: their files, their order",
        "metadata-log-mismatch",
        "metadata-log-with-a-hole metadata-log-doubled metadata-log-empty",
    ),
    Redundancy(
        "the last entry of `metadata-log`",
        "`last_updated_ms` of the version before",
        "timestamp-order",
        "version-of-next-year metadata-log-entry-of-another-time-than-its-version",
    ),
    Redundancy(
        "`snapshot-log`",
        "where main was in the versions before",
        "snapshot-log",
        "snapshot-log-with-a-hole snapshot-log-of-strangers",
    ),
    Redundancy(
        "a snapshot as a version describes it",
        "as the first version described it",
        "snapshot-changed",
        "snapshot-rewritten",
    ),
    Redundancy("`n` of a version", "its place in the file"),
    Redundancy("`skip` and `keep` of a list that grew", "the list in the version before"),
    Redundancy("`metadata` of a commit", "a version before it in the file"),
    # --- snapshots
    Redundancy(
        "`parent_id`", "the snapshots of the versions before", "unknown-parent", "parent-unknown parents-in-a-circle"
    ),
    Redundancy(
        "`sequence_number`",
        "that of the parent, which is lower, and those that are listed with it",
        "duplicate-sequence-number sequence-number-order",
        "sequence-number-reused sequence-number-decreased",
    ),
    Redundancy("`schema_id`", "the schemas of its version", "dangling-id", "snapshot-schema-of-nothing"),
    Redundancy(
        "`manifest_list`", "those of other snapshots", "shared-manifest-list", "manifest-list-of-another-snapshot"
    ),
    Redundancy("`attempt`", "the name of the manifest list"),
    Redundancy("`op`", "`icequake-op` of the summary"),
    Redundancy(
        "`operation`",
        "the files that were added and removed, and whether rows changed",
        "wrong-operation",
        "wrong-operation-name delete-that-adds-files statement-that-calls-itself-a-rewrite",
    ),
    Redundancy(
        "`added-…`, `removed-…` and `deleted-…` of the summary",
        "the sums over the files",
        "summary-count",
        "summary-added-wrong metric-that-is-a-word",
    ),
    Redundancy("`total-…` of the summary", "the sums over all live files", "summary-count", "summary-total-wrong"),
    Redundancy(
        "`first_row_id` and `added_rows`",
        "`next_row_id` before and after it, and the ranges of other snapshots",
        "first-row-id row-id-overlap",
        "row-ids-overlap row-ids-missing",
    ),
    # --- files
    Redundancy(
        "an entry when its file is removed",
        "the entry when it was added",
        "entry-changed",
        "removed-under-another-description",
    ),
    Redundancy(
        "a file that is removed",
        "the files that were live",
        "removed-not-live",
        "removed-what-was-not-there",
    ),
    Redundancy("a file that is added", "the files that are live", "duplicate-path", "live-path-twice"),
    Redundancy(
        "`snapshot_id` of a file that is added",
        "the snapshot that adds it",
        "foreign-file",
        "file-that-another-snapshot-added",
    ),
    Redundancy(
        "`file_sequence_number`", "that of its snapshot", "file-sequence-number", "file-sequence-number-of-another"
    ),
    Redundancy(
        "`data_sequence_number`",
        "that of its snapshot; of a rewrite, those of what it replaces",
        "data-sequence-number",
        "old-sequence-number-for-new-rows compaction-older-than-what-it-replaces rewritten-deletes-of-no-age",
    ),
    Redundancy(
        "`first_row_id` of a file",
        "the range of its snapshot, and the other files in it",
        "file-row-id row-id-overlap",
        "file-row-id-of-another row-ids-of-two-files data-file-without-row-id row-ids-that-begin-late",
    ),
    Redundancy(
        "`partition`",
        "the rows of the file, its folder, and the spec's fields",
        "file-partition",
        "data-file-in-another-partition untold-file-in-another-partition data-file-without-a-partition",
    ),
    Redundancy(
        "`partition` of a delete file",
        "that of the data files whose rows it hides",
        "delete-partition",
        "delete-file-in-another-partition",
    ),
    Redundancy(
        "`size` of a file",
        "the object in the store, when it was read and at the end of the run",
        "file-size corrupt-file",
        "file-of-another-size file-written-over",
    ),
    Redundancy("`length` of a manifest", "the object in the store", "file-size", "manifest-of-another-length"),
    Redundancy(
        "`split_offsets`",
        "the size of the file; its first row group, which the reader compares",
        "split-offsets",
        "split-offsets-reversed split-offsets-beyond-the-file split-offsets-behind-the-first-row-group",
    ),
    Redundancy(
        "`equality_ids`",
        "the columns that the table had",
        "equality-ids",
        "equality-delete-without-columns equality-delete-by-columns-of-nothing",
    ),
    Redundancy("`format`", "the end of the path, and the content", "file-format", "format-of-another-file"),
    Redundancy(
        "`offset`, `length` and `size` of a deletion vector",
        "those of the other vectors in its file",
        "vector-place",
        "vector-elsewhere-in-its-file vector-longer-than-its-file puffin-file-of-two-sizes",
    ),
    Redundancy(
        "`referenced`",
        "the rows that the delete file hides, and the live data files",
        "referenced-file dangling-dv several-dvs",
        "vector-of-another-file vector-of-no-file orphan-deletion-vector second-deletion-vector",
    ),
    # --- rows
    Redundancy(
        "the file of a row",
        "the files that the snapshot adds and removes",
        "misplaced-row record-count file-partition",
        "row-of-another-file row-hidden-by-nothing",
    ),
    Redundancy(
        "the position of a row",
        "`records` of its file, and the positions of its other rows",
        "record-count misplaced-row",
        "row-behind-the-end removed-row-behind-the-end two-rows-at-one-place",
    ),
    Redundancy("`records` of a file", "the rows that come with it", "record-count", "file-with-more-records-than-rows"),
    Redundancy(
        "what hides a row",
        "the age of the delete file and of the data file",
        "delete-sequence-number",
        "row-hidden-by-older-deletes",
    ),
    Redundancy("the number of values in a row", "the columns of the header"),
)


def section() -> str:
    """The part of docs/evidence.md."""
    lines = [
        "\n## What a table log says twice\n\n",
        "Each pair must agree. **Held**: these rules of [`metadata`](checkers.md) find a difference, and `icequake selftest` plants these\n"
        "bugs. **Refused**: the log's file is not read; the error names the line.\n\n",
        "| in one place | in another | a difference is |\n|---|---|---|\n",
    ]
    for x in REDUNDANCIES:
        held = f"**held** by {_words(x.rules)} (bugs {_words(x.bugs)})" if x.rules else "**refused**"
        lines.append(f"| {x.first} | {x.second} | {held} |\n")
    return "".join(lines)


def _words(names: str) -> str:
    return ", ".join(f"`{n}`" for n in names.split())
