"""Bugs that the ``metadata`` checker must find: files and manifests that break the specification.

Rows do not change. What only the log's reader can see (in manifests, which the log does not keep) is planted as the reader reports it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from checkers.evidence.problem import Problem
from checkers.formats.iceberg.records import IcebergFile as FileEntry
from checkers.selftest.missingfiles import DELETED_LIVE, file_missing, manifest_missing
from checkers.selftest.plant import Plant, Plants, table, whole
from checkers.selftest.sites import (
    CommitSite,
    later,
    live,
    pick,
)
from checkers.selftest.world import Planted


def manifest_corrupt(p: CommitSite) -> Planted:
    """A manifest cannot be read."""
    file, cause = f"metadata/{p.c.snapshot_id}-m0.avro", "invalid magic"
    problem = Problem("corrupt-file", f"manifest {file} is corrupt: {cause}", file, kind="manifest", cause=cause)
    return p.changed(added=None, removed=None, problems=(problem,))


def counted(prefix: str) -> Callable[[CommitSite], Planted | None]:
    """A number of the summary is one too high."""

    def change(p: CommitSite) -> Planted | None:
        keys = {f"{prefix}-data-files", f"{prefix}-records", f"{prefix}-files-size"}
        key = p.w.choose(sorted(keys & p.c.summary.keys()))
        return None if key is None else p.changed(summary={**p.c.summary, key: str(int(p.c.summary[key]) + 1)})

    return change


def stays(p: CommitSite) -> list[FileEntry]:
    """The data files that were live before the commit and that it does not remove."""
    removed = {f.path for f in p.c.removed_files}
    return [f for f in live(p.t.main[: p.k - 1]).values() if f.content == "data" and f.path not in removed]


def vectors(files: Iterable[FileEntry]) -> list[FileEntry]:
    """The deletion vectors among files."""
    return [f for f in files if f.content == "deletion-vector"]


def replaced_vectors(p: CommitSite) -> list[FileEntry]:
    """The deletion vectors that the commit replaces."""
    new = {f.referenced for f in vectors(p.c.added_files) if f.referenced is not None}
    return [f for f in vectors(p.c.removed_files) if f.referenced in new]


def vectors_of_removed(p: CommitSite) -> list[FileEntry]:
    """The deletion vectors that the commit removes with their data files."""
    dead = {f.path for f in p.c.removed_files if f.content == "data"}
    return [f for f in vectors(p.c.removed_files) if f.referenced in dead]


def kept(p: CommitSite, f: FileEntry) -> Planted:
    """The commit does not remove the file."""
    return p.changed(removed_files=tuple(x for x in p.c.removed_files if x != f))


FILE_PLANTS: Plants = {
    "live-path-twice: A commit adds a data file that is already live.": Plant(
        pick(stays, lambda p, f: p.changed(added_files=(*p.c.added_files, f))),
        "duplicate-path",
        seen="redpanda-data/redpanda#4591: duplicate file paths in two snapshots",
    ),
    "second-deletion-vector: A data file gets a second deletion vector beside the first.": Plant(
        pick(replaced_vectors, kept),
        "several-dvs",
        seen="apache/iceberg#15966: two vectors on one file, and every scan fails",
    ),
    "position-deletes-after-upgrade: A version 3 table gets a position delete file instead of a deletion vector.": Plant(
        pick(
            lambda p: vectors(p.c.added_files),
            lambda p, f: p.added_files(f, content="position-deletes", format="parquet", offset=None, length=None),
        ),
        "position-deletes-in-v3",
        seen="apache/iceberg#16146: a commit that was prepared before the upgrade",
    ),
    "orphan-deletion-vector: A deletion vector stays although its data file is gone.": Plant(
        pick(vectors_of_removed, kept),
        "dangling-dv",
        seen="rewrite_position_delete_files while rewrite_data_files removes the data file",
    ),
    "listed-file-missing: A file that a listed snapshot needs is not in the store.": Plant(
        file_missing("data", "deletes"), "missing-file", where=whole, seen=DELETED_LIVE, neutral=True
    ),
    "listed-manifest-missing": Plant(
        manifest_missing,
        "missing-file",
        where=whole,
        seen="apache/iceberg#9230: manifests that a retry had merged are deleted",
    ),
    "manifest-corrupt": Plant(
        manifest_corrupt, "corrupt-file", seen="apache/iceberg#16978: manifests written by two threads"
    ),
    "wrong-operation-name: A snapshot that removed files calls itself an append.": Plant(
        lambda p: p.changed(operation="append"),
        "wrong-operation",
        where=later(lambda p: any(f.content == "data" for f in p.c.removed_files)),
        seen="validation trusts the operation of concurrent snapshots (MergingSnapshotProducer)",
    ),
    "summary-added-wrong: A summary states more files, records or bytes than the snapshot added.": Plant(
        counted("added"), "summary-count", seen="apache/iceberg#16978: wrong totals from a data race"
    ),
    "summary-total-wrong: A summary's total differs from that of the live files.": Plant(
        counted("total"), "summary-count", seen="apache/iceberg#16978: wrong totals from a data race"
    ),
}


def in_manifests(code: str, words: str) -> Callable[[CommitSite], Planted]:
    """Defects that only the reader of manifests can see, in its words."""
    return lambda p: p.changed(violations=(f"{code}: {words.format(snapshot=p.c.snapshot_id)}",))


MANIFESTS: Plants = {
    "manifest-counts-wrong: A manifest list has other entry counts than the manifest.": Plant(
        in_manifests("manifest-count", "manifest metadata/{snapshot}-m0.avro has 2 added files, its entry says 1"),
        "manifest-count",
        seen="apache/iceberg#16978",
    ),
    "manifest-min-sequence-number-wrong": Plant(
        in_manifests("min-sequence-number", "manifest metadata/{snapshot}-m0.avro says 7, its least is 3"),
        "min-sequence-number",
        seen="apache/iceberg#10312",
        does="A manifest list states too high a minimum sequence number, so that planning skips delete files.",
    ),
    "entry-sequence-number-above-the-snapshots: A manifest's entry has a sequence number that was not assigned yet.": Plant(
        in_manifests("sequence-number", "data/x-{snapshot}.parquet has 9, the snapshot 8"),
        "sequence-number",
        seen="apache/iceberg#10312",
    ),
    "entry-sequence-number-null: An EXISTING entry inherits the sequence number of a snapshot that did not add it.": Plant(
        in_manifests("null-sequence-number", "data/x-{snapshot}.parquet is EXISTING and has none"),
        "null-sequence-number",
        seen="apache/iceberg#16263",
    ),
    "rows-renumbered: A manifest merge gives new row ids to the files that it keeps.": Plant(
        in_manifests(
            "kept-row-id",
            "the rows of data/x-{snapshot}.parquet had the ids from 8 on, and have those from 21 on here",
        ),
        "kept-row-id",
        seen="apache/iceberg#16263",
    ),
    "record-count-wrong: A manifest's entry states another number of rows than the file has.": Plant(
        in_manifests("record-count", "data/x-{snapshot}.parquet has 3 rows, its entry says 4"),
        "record-count",
        seen="apache/iceberg#16978",
    ),
    "split-offsets-behind-the-first-row-group: A data file is said to be split from a place on that is behind its first rows.": Plant(
        in_manifests(
            "split-offsets",
            "the first row group of data/x-{snapshot}.parquet begins at byte 4, but its entry says that it is to be split from byte 900 on",
        ),
        "split-offsets",
        seen="a file that was written over after its entry was made",
    ),
    "delete-beyond-the-end: A delete file deletes a row that its data file lacks: it was meant for another file.": Plant(
        in_manifests("delete-position", "data/x-{snapshot}.parquet has 3 rows, position 17 is deleted"),
        "delete-position",
        seen="apache/iceberg#16146",
    ),
    "file-of-nobody: A file is EXISTING although the parent did not have it.": Plant(
        in_manifests("foreign-file", "data/x-{snapshot}.parquet"), "foreign-file", seen="apache/iceberg#9230"
    ),
}


PLANTS = (*table(FILE_PLANTS, "metadata", where=later()), *table(MANIFESTS, "metadata", where=later()))
