"""Bugs that the ``metadata`` checker must find in the entries of files, in snapshots' operations, and in who made what.

Rows do not change, and summaries fit: only the entry itself is wrong. So the entry, the rows of its file, and what other snapshots say
of the file are all that can show it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from checkers.evidence.replace import replace
from checkers.evidence.tablelog import RowChange
from checkers.formats.iceberg.records import IcebergCommit as Commit
from checkers.formats.iceberg.records import IcebergFile as FileEntry
from checkers.formats.iceberg.records import IcebergLog as TableLog
from checkers.selftest.goodtable import GoodTable
from checkers.selftest.plant import Plant, Plants, table
from checkers.selftest.sites import CommitSite, commits, later, live, maintenance, pick
from checkers.selftest.world import Planted
from checkers.selftest.wrongmetadata import lineage

PRUNED = "scans prune by partition values: https://iceberg.apache.org/spec/#scan-planning"
REWRITTEN = "apache/iceberg#10312: sequence numbers of rewritten files"
VALIDATION = "validation of concurrent commits skips snapshots by their operation (MergingSnapshotProducer, VALIDATE_…_OPERATIONS)"


def own(p: CommitSite, *contents: str) -> list[FileEntry]:
    """The files of these contents that the commit makes."""
    return [f for f in p.c.added_files if f.snapshot_id == p.c.snapshot_id and f.content in contents]


def elsewhere(t: GoodTable, f: FileEntry) -> dict[str, Any]:
    """Another partition."""
    return {k: (v + 1) % max(2, t.spec.partitions) for k, v in f.partition.items()}


def hides(t: GoodTable) -> dict[str, set[str]]:
    """Delete file → data files of which the log has a row that it hides."""
    out: dict[str, set[str]] = {}
    for c in t.main:
        for r in c.removed or ():
            if r.by is not None:
                out.setdefault(r.by, set()).add(r.file)
    return out


def visible(p: CommitSite) -> list[FileEntry]:
    """The data files in a partition that the commit adds and of which the log has a row."""
    shown = {r.file for c in p.t.main for r in (*(c.added or ()), *(c.removed or ()))}
    return [f for f in own(p, "data") if f.partition and f.path in shown]


def hiding(p: CommitSite) -> list[FileEntry]:
    """The delete files in a partition that the commit adds and whose data files are known."""
    hidden = hides(p.t)
    deletes = own(p, "position-deletes", "equality-deletes", "deletion-vector")
    return [f for f in deletes if f.partition and (f.referenced or f.path in hidden)]


def moved(p: CommitSite, f: FileEntry) -> Planted:
    """The entry of the file says another partition."""
    return p.added_files(f, partition=elsewhere(p.t, f))


# --- partitions and deletion vectors ----------------------------------------------------------------------------------


def vector_astray(p: CommitSite) -> Planted | None:
    """A deletion vector references another live data file than the one whose rows it deletes."""
    hidden = hides(p.t)
    f = p.w.choose(f for f in own(p, "deletion-vector") if f.referenced in hidden.get(f.path, ()))
    others = [x.path for x in live(p.t.main[: p.k]).values() if x.content == "data"]
    other = p.w.choose(path for path in others if f is not None and path != f.referenced)
    return None if f is None or other is None else p.added_files(f, referenced=other)


def vector_in_version_2(p: CommitSite) -> Planted | None:
    """A version 2 table gets a deletion vector instead of a position delete file."""
    hidden = hides(p.t)
    f = p.w.choose(f for f in own(p, "position-deletes") if len(hidden.get(f.path, ())) == 1)
    if f is None:
        return None
    old, path, (target,) = f.path, f.path.replace(".parquet", ".puffin"), hidden[f.path]

    def vector(x: FileEntry) -> FileEntry:
        fields = {"content": "deletion-vector", "format": "puffin", "referenced": target, "offset": 4, "length": 40}
        return replace(x, path=path, **fields) if x.path == old else x

    def by_it(changes: Iterable[RowChange] | None) -> tuple[RowChange, ...]:
        return tuple(replace(r, by=path) if r.by == old else r for r in changes or ())

    def renamed(c: Commit) -> Commit:
        removed = tuple(map(vector, c.removed_files))
        return replace(c, added=by_it(c.added), removed=by_it(c.removed), removed_files=removed)

    log = p.t.with_commit(p.k, added_files=tuple(vector(x) if x is f else x for x in p.c.added_files))
    return p.planted(log=replace(log, commits=tuple(map(renamed, log.commits))))


def of_another_table(p: CommitSite) -> Planted | None:
    """A snapshot adds a data file of another table."""
    f = p.w.choose(own(p, "data"))
    other = p.w.choose(t for t in p.w.tables if t is not p.t)
    file = None if other is None else p.w.choose(x for c in other.main for x in c.added_files if x.content == "data")
    if f is None or other is None or file is None or "://" in file.path:
        return None
    if "false" in (t.log.metadata[-1].properties.get("gc.enabled") for t in (p.t, other)):
        return None  # such tables may share files: Nessie says so of all of its own
    old, path = f.path, f"{other.log.location}/{file.path}"

    def taken(x: FileEntry) -> FileEntry:
        return replace(
            x, path=path if x.path == old else x.path, referenced=path if x.referenced == old else x.referenced
        )

    def moved_there(changes: Iterable[RowChange] | None) -> tuple[RowChange, ...]:
        return tuple(replace(r, file=path) if r.file == old else r for r in changes or ())

    def renamed(c: Commit) -> Commit:
        files = {"added_files": tuple(map(taken, c.added_files)), "removed_files": tuple(map(taken, c.removed_files))}
        return replace(c, added=moved_there(c.added), removed=moved_there(c.removed), **files)

    return p.planted(log=replace(p.t.log, commits=tuple(map(renamed, p.t.log.commits))))


# --- numbers, and removed files ---------------------------------------------------------------------------------------


def row_ids_twice(p: CommitSite) -> Planted | None:
    """Two data files of a snapshot begin at the same row id."""
    files = [f for f in own(p, "data") if f.first_row_id is not None and f.records]
    if len(files) < 2:
        return None
    a, b = p.w.rng.sample(files, 2)
    return p.added_files(b, first_row_id=a.first_row_id)


def counting(log: TableLog, k: int, f: FileEntry, chain: tuple[Commit, ...]) -> TableLog:
    """The log whose summaries count one more removed data file at position k, and one less in all totals from there on."""
    after = {c.snapshot_id for c in chain[k - 1 :]}
    amounts = {"data-files": 1, "records": f.records, "files-size": f.size}

    def summed(c: Commit) -> Commit:
        if c.snapshot_id not in after:
            return c
        summary = dict(c.summary)
        for metric, n in amounts.items():
            if f"total-{metric}" in summary:
                summary[f"total-{metric}"] = str(int(summary[f"total-{metric}"]) - n)
            if c.snapshot_id == chain[k - 1].snapshot_id:
                key = f"{'removed' if metric == 'files-size' else 'deleted'}-{metric}"
                summary[key] = str(int(summary.get(key, "0")) + n)
        return replace(c, summary=summary)

    return replace(log, commits=tuple(map(summed, log.commits)))


def removed_differently(p: CommitSite) -> Planted | None:
    """The entry of a removed file differs from the one that added it."""
    f = p.w.rng.choice(p.c.removed_files)
    numbers = ("data_sequence_number", "file_sequence_number", "first_row_id")
    changes: list[dict[str, Any]] = [{n: getattr(f, n) + 1} for n in numbers if getattr(f, n) is not None]
    changes += [{"snapshot_id": p.c.snapshot_id}] if f.snapshot_id is not None else []
    changes += [{"partition": elsewhere(p.t, f)}] if f.partition else []
    change = p.w.choose(changes)
    if change is None:
        return None
    return p.changed(removed_files=tuple(replace(f, **change) if x is f else x for x in p.c.removed_files))


def removed_before(p: CommitSite) -> list[FileEntry]:
    """The data files that are gone, and that the commit does not remove."""
    here = {path for path, _ in live(p.t.main[: p.k])} | {f.path for f in p.c.removed_files}
    return [f for c in p.t.main[: p.k - 1] for f in c.removed_files if f.content == "data" and f.path not in here]


def removed_again(p: CommitSite, f: FileEntry) -> Planted:
    """The commit removes the file, too, and its summary counts it."""
    return p.planted(log=counting(p.t.with_commit(p.k, removed_files=(*p.c.removed_files, f)), p.k, f, p.t.main))


ENTRIES: Plants = {
    "data-file-in-another-partition": Plant(
        pick(visible, moved),
        "file-partition",
        seen=PRUNED,
        does="A data file says another partition than that of its rows, and scans of their partition do not read it.",
    ),
    "data-file-without-a-partition": Plant(
        pick(lambda p: (f for f in own(p, "data") if f.partition), lambda p, f: p.added_files(f, partition={})),
        "file-partition",
        seen=PRUNED,
        does="A data file of a partitioned table says no partition, as if the table had none: delete files of its rows do not apply to it.",
    ),
    "delete-file-in-another-partition: A delete file is in another partition than its data file, so that it deletes nothing.": Plant(
        pick(hiding, moved), "delete-partition", seen=PRUNED
    ),
    "vector-of-another-file": Plant(
        vector_astray, "referenced-file", seen="apache/iceberg#15966: vectors and the files they are for"
    ),
    "vector-in-version-2": Plant(
        vector_in_version_2,
        "dv-in-v2",
        where=later(lambda p: p.m.format_version == 2),
        seen="apache/iceberg#16146: a commit that was prepared for another format version",
    ),
    "old-sequence-number-for-new-rows": Plant(
        pick(
            lambda p: own(p, "data"),
            lambda p, f: p.added_files(f, data_sequence_number=p.w.rng.randrange(1, p.c.sequence_number)),
        ),
        "data-sequence-number",
        where=later(lambda p: p.c.sequence_number > 1 and p.t.kind(p.k).changes_rows),
        does="A statement's new data file has an older data sequence number, so that earlier deletes apply to it.",
    ),
    "row-ids-of-two-files": Plant(
        row_ids_twice, "row-id-overlap", where=later(lineage), seen="apache/iceberg#16263: row ids given twice"
    ),
    "data-file-of-another-table": Plant(
        of_another_table,
        "shared-file",
        seen="https://iceberg.apache.org/docs/latest/spark-procedures/#add_files: an expiry can then delete files of the other table",
    ),
    "data-file-without-row-id: A data file that is added to a version 3 table gets no first row id.": Plant(
        pick(
            lambda p: (f for f in own(p, "data") if f.first_row_id is not None),
            lambda p, f: p.added_files(f, first_row_id=None),
        ),
        "file-row-id",
        where=later(lineage),
        seen="a writer of version 2 on a table of version 3",
    ),
    "removed-what-was-not-there: A snapshot removes a data file that was removed before, and its summary counts it.": Plant(
        pick(removed_before, removed_again),
        "removed-not-live",
        where=later(lambda p: p.c.operation != "append"),
        seen="apache/iceberg#16978: manifests filtered by two threads",
    ),
    "removed-under-another-description": Plant(
        removed_differently, "entry-changed", where=later(lambda p: p.c.removed_files)
    ),
}


def by_equality(p: CommitSite, f: FileEntry, *ids: int) -> Planted:
    """The entry of a delete file says that it deletes equal rows, by these columns."""
    return p.added_files(f, content="equality-deletes", referenced=None, equality_ids=ids or None)


def position_deletes(p: CommitSite) -> list[FileEntry]:
    """The position delete files that the commit makes, in a log that says how entries compare rows."""
    return own(p, "position-deletes") if p.c.manifests is not None else []


def splittable(p: CommitSite) -> list[FileEntry]:
    """The data files whose entries say where they can be split."""
    return [f for f in own(p, "data") if f.split_offsets]


READ_BY: Plants = {
    "equality-delete-without-columns: An equality delete file does not say by which columns rows are equal.": Plant(
        pick(position_deletes, by_equality), "equality-ids"
    ),
    "equality-delete-by-columns-of-nothing: An equality delete file compares a column that the table never had.": Plant(
        pick(position_deletes, lambda p, f: by_equality(p, f, 99)), "equality-ids"
    ),
    "split-offsets-reversed: The places at which a data file can be split are in the opposite order.": Plant(
        pick(splittable, lambda p, f: p.added_files(f, split_offsets=(f.size // 2, 4))), "split-offsets"
    ),
    "split-offsets-beyond-the-file: A data file is said to be split beyond its end.": Plant(
        pick(splittable, lambda p, f: p.added_files(f, split_offsets=(4, f.size + 10))), "split-offsets"
    ),
    "vector-of-no-file: A deletion vector does not say of which data file it is.": Plant(
        pick(lambda p: own(p, "deletion-vector"), lambda p, f: p.added_files(f, referenced=None)), "referenced-file"
    ),
    "file-of-no-spec: A data file is of a partition spec that the table does not have.": Plant(
        pick(lambda p: (f for f in own(p, "data") if f.spec_id is not None), lambda p, f: p.added_files(f, spec_id=3)),
        "file-partition",
    ),
    "vector-without-a-place: A deletion vector's entry does not say where in its file it is.": Plant(
        pick(lambda p: own(p, "deletion-vector"), lambda p, f: p.added_files(f, offset=None, length=None)),
        "vector-place",
    ),
    "file-before-all-snapshots: A data file has a negative data sequence number.": Plant(
        pick(lambda p: own(p, "data"), lambda p, f: p.added_files(f, data_sequence_number=-1)), "data-sequence-number"
    ),
    "file-without-rows: A data file with rows is said to have none.": Plant(
        pick(visible, lambda p, f: p.added_files(f, records=0)), "record-count summary-count"
    ),
    "file-that-calls-itself-orc: A Parquet file is said to be of another format.": Plant(
        pick(lambda p: own(p, "data"), lambda p, f: p.added_files(f, format="orc")), "file-format"
    ),
}


# --- operations, and who made what ------------------------------------------------------------------------------------


def named(operation: str) -> Callable[[CommitSite], Planted]:
    """The snapshot of a statement names another operation."""
    return lambda p: p.changed(operation=operation)


def changes_rows(p: CommitSite) -> bool:
    """Whether the commit is a statement's and changes rows."""
    return bool(p.c.added or p.c.removed) and p.t.kind(p.k).changes_rows


def delete_that_adds(p: CommitSite) -> Planted:
    """A snapshot that adds data files calls itself a delete, and its summary does not count them."""
    summary = {x: n for x, n in p.c.summary.items() if x not in ("added-data-files", "added-records")}
    return p.changed(operation="delete", summary=summary)


def without_a_trace(p: CommitSite) -> Planted | None:
    """No version has the snapshot of an acknowledged compaction, and later snapshots build on its files."""
    new = {f.path for f in p.c.added_files}
    used = any(f.path in new for x in p.t.main[p.k :] for f in x.removed_files)
    if not p.o.f.startswith("rewrite-") or not p.o.result or not p.c.removed_files or not used:
        return None

    def forgotten(raw: dict[str, Any]) -> dict[str, Any]:
        files = [x for x in raw.get("metadata-log") or () if x["metadata-file"] != p.m.location]
        snapshots = [x for x in raw.get("snapshot-log") or () if x["snapshot-id"] != p.c.snapshot_id]
        return {**raw, "metadata-log": files, "snapshot-log": snapshots}

    later = p.t.versions[p.n + 1 :]
    rest = [replace(v, metadata=replace(v.metadata, raw=forgotten(v.metadata.raw))) for v in later]
    return p.planted(log=p.t.rebuilt([*p.t.versions[: p.n], *rest]))


OPERATION_PLANTS: Plants = {
    "statement-that-calls-itself-a-rewrite: A statement that changed rows says that its snapshot exchanged files only.": Plant(
        named("replace")
    ),
    "statement-without-an-operation: The snapshot of a statement names no operation.": Plant(named("")),
    "statement-of-an-unknown-operation: The snapshot of a statement names an operation that does not exist.": Plant(
        named("update")
    ),
    "delete-that-adds-files": Plant(delete_that_adds, where=later(lambda p: own(p, "data"))),
    "compaction-without-a-trace": Plant(
        without_a_trace,
        "summary-count removed-not-live",
        where=commits(maintenance, lambda p: not p.last),
        seen="polaris#1285: a compaction that is taken out of the metadata again",
    ),
    "parents-in-a-circle: A snapshot's parent is one of its descendants.": Plant(
        lambda p: p.changed(parent_id=p.w.rng.choice(p.t.main[p.k :]).snapshot_id),
        "unknown-parent",
        where=later(lambda p: not p.last),
        seen="a snapshot id that is used again",
    ),
}


PLANTS = (
    *table(ENTRIES, "metadata", where=later(), seen=REWRITTEN),
    *table(READ_BY, "metadata", where=later(), seen='Iceberg specification, "Data File Fields"'),
    *table(OPERATION_PLANTS, "metadata", names="wrong-operation", where=later(changes_rows), seen=VALIDATION),
)
