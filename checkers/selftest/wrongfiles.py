"""Bugs that the ``metadata`` checker must find in the entries of files, in snapshots' operations, and in who made what.

Rows do not change, and summaries fit: only the entry itself is wrong. So the entry, the rows of its file, and what other snapshots say
of the file are all that can show it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from checkers.evidence.replace import replace
from checkers.evidence.tablelog import Commit, FileEntry, RowChange, TableLog
from checkers.selftest.mutation import Mutation, Plant, mutation
from checkers.selftest.world import Planted, Table, World
from checkers.selftest.wrongmetadata import positions, with_commit
from checkers.selftest.wrongrows import live

PRUNED = "scans prune by partition values: https://iceberg.apache.org/spec/#scan-planning"
REWRITTEN = "https://github.com/apache/iceberg/issues/10312: sequence numbers of rewritten files"
VALIDATION = "validation of concurrent commits skips snapshots by their operation (MergingSnapshotProducer, VALIDATE_…_OPERATIONS)"

Change = Callable[[FileEntry], FileEntry]


def _own(c: Commit, wanted: Callable[[FileEntry], object]) -> list[FileEntry]:
    return [f for f in c.added_files if f.snapshot_id == c.snapshot_id and wanted(f)]


def _bend(t: Table, k: int, f: FileEntry, change: Change, **more: Any) -> TableLog:
    """The log with one entry that the commit at position k adds changed."""
    files = tuple(change(x) if x is f else x for x in t.main[k - 1].added_files)
    return with_commit(t, k, added_files=files, **more)


def _with(**fields: Any) -> Change:
    """A change of these fields."""
    return lambda f: replace(f, **fields)


def _elsewhere(t: Table, f: FileEntry) -> dict[str, Any]:
    """Another partition."""
    return {k: (v + 1) % max(2, t.spec.partitions) for k, v in f.partition.items()}


def _shown(t: Table) -> set[str]:
    """Data files of which the log has a row."""
    return {r.file for c in t.main for r in (*(c.added or ()), *(c.removed or ()))}


def _hides(t: Table) -> dict[str, set[str]]:
    """Delete file → data files of which the log has a row that it hides."""
    out: dict[str, set[str]] = {}
    for c in t.main:
        for r in c.removed or ():
            if r.by is not None:
                out.setdefault(r.by, set()).add(r.file)
    return out


# --- partitions -------------------------------------------------------------------------------------------------------


@mutation("data-file-in-another-partition", "metadata", "file-partition", seen=PRUNED)
def data_elsewhere(w: World) -> Planted | None:
    """A data file says another partition than that of its rows, and scans of their partition do not read it."""
    for t, k in positions(w):
        shown = _shown(t)
        data = _own(t.main[k - 1], lambda f: f.content == "data" and f.partition)
        f = w.choose(f for f in data if f.path in shown)
        if f is not None:
            return w.planted(t.op(k).op, log=_bend(t, k, f, _with(partition=_elsewhere(t, f))))
    return None


@mutation("data-file-without-a-partition", "metadata", "file-partition", seen=PRUNED)
def data_of_no_partition(w: World) -> Planted | None:
    """A data file of a partitioned table says no partition, as if the table had none: delete files of its rows do not apply to it."""
    for t, k in positions(w):
        data = _own(t.main[k - 1], lambda f: f.content == "data" and f.partition)
        f = w.choose(data)
        if f is not None:
            return w.planted(t.op(k).op, log=_bend(t, k, f, _with(partition={})))
    return None


@mutation("delete-file-in-another-partition", "metadata", "delete-partition", seen=PRUNED)
def deletes_elsewhere(w: World) -> Planted | None:
    """A delete file is in another partition than its data file, so that it deletes nothing."""
    for t, k in positions(w):
        hides = _hides(t)
        deletes = _own(t.main[k - 1], lambda f: f.content != "data" and f.partition)
        f = w.choose(f for f in deletes if f.referenced or f.path in hides)
        if f is not None:
            return w.planted(t.op(k).op, log=_bend(t, k, f, _with(partition=_elsewhere(t, f))))
    return None


# --- deletion vectors -------------------------------------------------------------------------------------------------


@mutation(
    "vector-of-another-file",
    "metadata",
    "referenced-file",
    seen="https://github.com/apache/iceberg/issues/15966: vectors and the files they are for",
)
def vector_astray(w: World) -> Planted | None:
    """A deletion vector references another live data file than the one whose rows it deletes."""
    for t, k in positions(w):
        hides = _hides(t)
        vectors = _own(t.main[k - 1], lambda f: f.content == "deletion-vector")
        vectors = [f for f in vectors if f.referenced in hides.get(f.path, ())]
        others = [f.path for f in live(t.main[:k]).values() if f.content == "data"]
        f = w.choose(vectors)
        other = w.choose(p for p in others if f is not None and p != f.referenced)
        if f is not None and other is not None:
            return w.planted(t.op(k).op, log=_bend(t, k, f, _with(referenced=other)))
    return None


@mutation(
    "vector-in-version-2",
    "metadata",
    "dv-in-v2",
    seen="https://github.com/apache/iceberg/pull/16146: a commit that was prepared for another format version",
)
def vector_in_version_2(w: World) -> Planted | None:
    """A version 2 table gets a deletion vector instead of a position delete file."""
    for t, k in positions(w, lambda t, c: t.log.metadata[c.metadata].format_version == 2):
        hides = _hides(t)
        deletes = _own(t.main[k - 1], lambda f: f.content == "position-deletes")
        f = w.choose(f for f in deletes if len(hides.get(f.path, ())) == 1)
        if f is None:
            continue
        (target,) = hides[f.path]
        path = f.path.replace(".parquet", ".puffin")

        def vector(x: FileEntry, path: str = path, target: str = target) -> FileEntry:
            return replace(
                x, path=path, content="deletion-vector", format="puffin", referenced=target, offset=4, length=40
            )

        log = _bend(t, k, f, vector)
        old = f.path

        def hidden(rows: Iterable[RowChange] | None, old: str = old, path: str = path) -> tuple[RowChange, ...]:
            return tuple(replace(r, by=path) if r.by == old else r for r in rows or ())

        def renamed(c: Commit, old: str = old) -> Commit:
            gone = tuple(vector(x) if x.path == old else x for x in c.removed_files)
            return replace(c, added=hidden(c.added), removed=hidden(c.removed), removed_files=gone)

        return w.planted(t.op(k).op, log=replace(log, commits=tuple(map(renamed, log.commits))))
    return None


# --- numbers ----------------------------------------------------------------------------------------------------------


@mutation("old-sequence-number-for-new-rows", "metadata", "data-sequence-number", seen=REWRITTEN)
def old_sequence_number(w: World) -> Planted | None:
    """A statement's new data file has an older data sequence number, so that earlier deletes apply to it."""
    for t, k in positions(w, lambda t, c: c.sequence_number > 1):
        c = t.main[k - 1]
        if not t.kind(k).changes_rows:
            continue
        f = w.choose(_own(c, lambda f: f.content == "data"))
        if f is not None:
            older = w.rng.randrange(1, c.sequence_number)
            return w.planted(t.op(k).op, log=_bend(t, k, f, _with(data_sequence_number=older)))
    return None


def _lineage(t: Table, c: Commit) -> bool:
    return t.log.metadata[c.metadata].format_version >= 3 and c.first_row_id is not None


@mutation(
    "row-ids-of-two-files",
    "metadata",
    "row-id-overlap",
    seen="https://github.com/apache/iceberg/issues/16263: row ids given twice",
)
def row_ids_twice(w: World) -> Planted | None:
    """Two data files of a snapshot begin at the same row id."""
    for t, k in positions(w, _lineage):
        files = _own(t.main[k - 1], lambda f: f.content == "data" and f.first_row_id is not None and f.records)
        if len(files) > 1:
            a, b = w.rng.sample(files, 2)
            return w.planted(t.op(k).op, log=_bend(t, k, b, _with(first_row_id=a.first_row_id)))
    return None


@mutation("data-file-without-row-id", "metadata", "file-row-id", seen="a writer of version 2 on a table of version 3")
def without_row_id(w: World) -> Planted | None:
    """A data file that is added to a version 3 table gets no first row id."""
    for t, k in positions(w, _lineage):
        f = w.choose(_own(t.main[k - 1], lambda f: f.content == "data" and f.first_row_id is not None))
        if f is not None:
            return w.planted(t.op(k).op, log=_bend(t, k, f, _with(first_row_id=None)))
    return None


# --- removed files ----------------------------------------------------------------------------------------------------


def _counting(log: TableLog, k: int, f: FileEntry, chain: tuple[Commit, ...]) -> TableLog:
    """The log whose summaries count one more removed data file at position k, and one less in all totals from there on."""
    after = {c.snapshot_id for c in chain[k - 1 :]}
    at = chain[k - 1].snapshot_id
    amounts = {"data-files": 1, "records": f.records, "files-size": f.size}

    def summed(c: Commit) -> Commit:
        if c.snapshot_id not in after:
            return c
        summary = dict(c.summary)
        for metric, n in amounts.items():
            if f"total-{metric}" in summary:
                summary[f"total-{metric}"] = str(int(summary[f"total-{metric}"]) - n)
            key = f"{'removed' if metric == 'files-size' else 'deleted'}-{metric}"
            if c.snapshot_id == at:
                summary[key] = str(int(summary.get(key, "0")) + n)
        return replace(c, summary=summary)

    return replace(log, commits=tuple(map(summed, log.commits)))


@mutation(
    "removed-what-was-not-there",
    "metadata",
    "removed-not-live",
    seen="https://github.com/apache/iceberg/issues/16978: manifests filtered by two threads",
)
def removed_twice(w: World) -> Planted | None:
    """A snapshot removes a data file that was removed before, and its summary counts it."""
    for t, k in positions(w, lambda t, c: c.operation != "append"):
        there = {path for path, _ in live(t.main[:k])}
        gone = [f for c in t.main[: k - 1] for f in c.removed_files if f.content == "data" and f.path not in there]
        gone = [f for f in gone if f.path not in {x.path for x in t.main[k - 1].removed_files}]
        f = w.choose(gone)
        if f is not None:
            log = with_commit(t, k, removed_files=(*t.main[k - 1].removed_files, f))
            return w.planted(t.op(k).op, log=_counting(log, k, f, t.main))
    return None


@mutation("removed-under-another-description", "metadata", "entry-changed", seen=REWRITTEN)
def removed_differently(w: World) -> Planted | None:
    """The entry of a removed file differs from the one that added it."""
    for t, k in positions(w, lambda t, c: c.removed_files):
        c = t.main[k - 1]
        f = w.rng.choice(c.removed_files)
        changes: list[FileEntry] = []
        if f.data_sequence_number is not None:
            changes.append(replace(f, data_sequence_number=f.data_sequence_number + 1))
        if f.file_sequence_number is not None:
            changes.append(replace(f, file_sequence_number=f.file_sequence_number + 1))
        if f.snapshot_id is not None:
            changes.append(replace(f, snapshot_id=c.snapshot_id))
        if f.partition:
            changes.append(replace(f, partition=_elsewhere(t, f)))
        if f.first_row_id is not None:
            changes.append(replace(f, first_row_id=f.first_row_id + 1))
        other = w.choose(changes)
        if other is not None:
            files = tuple(other if x is f else x for x in c.removed_files)
            return w.planted(t.op(k).op, log=with_commit(t, k, removed_files=files))
    return None


# --- operations -------------------------------------------------------------------------------------------------------


def _calls_itself(operation: str, does: str) -> Plant:
    def plant(w: World) -> Planted | None:
        for t, k in positions(w, lambda t, c: c.added or c.removed):
            if t.kind(k).changes_rows:
                return w.planted(t.op(k).op, log=with_commit(t, k, operation=operation))
        return None

    plant.__doc__ = does
    return plant


NAMED: tuple[Mutation, ...] = tuple(
    mutation(name, "metadata", "wrong-operation", seen=VALIDATION)(_calls_itself(operation, does))
    for name, operation, does in (
        (
            "statement-that-calls-itself-a-rewrite",
            "replace",
            "A statement that changed rows says that its snapshot exchanged files only.",
        ),
        ("statement-without-an-operation", "", "The snapshot of a statement names no operation."),
        (
            "statement-of-an-unknown-operation",
            "update",
            "The snapshot of a statement names an operation that does not exist.",
        ),
    )
)
"""Snapshots under another operation."""


@mutation("delete-that-adds-files", "metadata", "wrong-operation", seen=VALIDATION)
def delete_that_adds(w: World) -> Planted | None:
    """A snapshot that adds data files calls itself a delete, and its summary does not count them."""
    for t, k in positions(w, lambda t, c: _own(c, lambda f: f.content == "data")):
        summary = {x: n for x, n in t.main[k - 1].summary.items() if x not in ("added-data-files", "added-records")}
        return w.planted(t.op(k).op, log=with_commit(t, k, operation="delete", summary=summary))
    return None


# --- who made what ----------------------------------------------------------------------------------------------------


@mutation(
    "compaction-without-a-trace",
    "metadata",
    "summary-count",
    "removed-not-live",
    seen="polaris#1285: a compaction that is taken out of the metadata again",
)
def without_a_trace(w: World) -> Planted | None:
    """No version has the snapshot of an acknowledged compaction, and later snapshots build on its files."""
    for t, k in w.each(lambda t: t.maintenance):
        c, o = t.main[k - 1], t.op(k)
        new = {f.path for f in c.added_files}
        used = any(f.path in new for x in t.main[k:] for f in x.removed_files)
        if k == len(t.main) or not o.f.startswith("rewrite-") or not o.result or not c.removed_files or not used:
            continue
        n, gone = t.at(k), t.log.metadata[t.at(k)].location

        def forgotten(raw: Mapping[str, Any], gone: str = gone, id: int = c.snapshot_id) -> dict[str, Any]:
            return {
                **raw,
                "metadata-log": [x for x in raw.get("metadata-log") or () if x["metadata-file"] != gone],
                "snapshot-log": [x for x in raw.get("snapshot-log") or () if x["snapshot-id"] != id],
            }

        rest = [replace(v, metadata=replace(v.metadata, raw=forgotten(v.metadata.raw))) for v in t.versions[n + 1 :]]
        return w.planted(o.op, log=t.rebuilt([*t.versions[:n], *rest]))
    return None


@mutation("parents-in-a-circle", "metadata", "unknown-parent", seen="a snapshot id that is used again")
def circle(w: World) -> Planted | None:
    """A snapshot's parent is one of its descendants."""
    for t, k in positions(w):
        if k < len(t.main):
            later = w.rng.choice(t.main[k:])
            return w.planted(t.op(k).op, log=with_commit(t, k, parent_id=later.snapshot_id))
    return None


MUTATIONS: tuple[Mutation, ...] = (
    data_elsewhere,
    data_of_no_partition,
    deletes_elsewhere,
    vector_astray,
    vector_in_version_2,
    old_sequence_number,
    row_ids_twice,
    without_row_id,
    removed_twice,
    removed_differently,
    *NAMED,
    delete_that_adds,
    without_a_trace,
    circle,
)
"""In the order of the file."""
