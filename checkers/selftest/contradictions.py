"""Bugs that the ``metadata`` checker must find in a log that contradicts itself: what it says twice is not the same.

The reader of real files would mostly show such a bug otherwise. Here it is as if it had not, and summaries fit: only what the log says in two
places can show it. The list of these places is :mod:`checkers.selftest.redundancies`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from checkers.evidence.replace import replace
from checkers.evidence.tablelog import ObjectSize, RowChange
from checkers.formats.iceberg.records import IcebergCommit as Commit
from checkers.formats.iceberg.records import IcebergFile as FileEntry
from checkers.formats.iceberg.records import IcebergLog as TableLog
from checkers.formats.iceberg.records import IcebergMetadata as Metadata
from checkers.selftest.plant import Plant, Plants, table
from checkers.selftest.sites import CommitSite, VersionSite, commits, later, maintenance, pick, quiet_version
from checkers.selftest.world import UNWRITTEN, Planted
from checkers.selftest.wrongfiles import elsewhere, own
from checkers.selftest.wronglogs import YEAR
from checkers.selftest.wrongmetadata import lineage

READER = "a reader of the table's files that has a bug; apache/iceberg#16978: manifests written by two threads"
RENUMBERED = "apache/iceberg#10312: sequence numbers of rewritten files"
PUFFIN = "https://iceberg.apache.org/spec/#data-file-fields: a blob is found by its offset and length alone"


# --- edits ------------------------------------------------------------------------------------------------------------------


def entry_everywhere(p: CommitSite, f: FileEntry, **fields: Any) -> TableLog:
    """The log in which all entries of a file, or of one deletion vector of it, have other fields, when it comes and when it goes."""

    def changed(x: FileEntry) -> FileEntry:
        return replace(x, **fields) if (x.path, x.offset) == (f.path, f.offset) else x

    def renamed(c: Commit) -> Commit:
        files = {
            "added_files": tuple(map(changed, c.added_files)),
            "removed_files": tuple(map(changed, c.removed_files)),
        }
        return replace(c, **files)

    return replace(p.t.log, commits=tuple(map(renamed, p.t.log.commits)))


def everywhere(p: CommitSite, f: FileEntry, **fields: Any) -> Planted:
    """The run with such a log."""
    return p.planted(log=entry_everywhere(p, f, **fields))


def counted_as(log: TableLog, f: FileEntry, changes: Mapping[str, int]) -> TableLog:
    """The log whose summaries count that much more of a file where it is added, where it is removed, and in between."""
    live = False

    def summed(c: Commit) -> Commit:
        nonlocal live
        added = any((x.path, x.offset) == (f.path, f.offset) for x in c.added_files)
        went = any((x.path, x.offset) == (f.path, f.offset) for x in c.removed_files)
        live = (live or added) and not went
        summary = dict(c.summary)
        for metric, n in changes.items():
            removed_key = f"deleted-{metric}" if metric == "records" else f"removed-{metric}"
            for key, counts in ((f"added-{metric}", added), (removed_key, went), (f"total-{metric}", live)):
                if counts and key in summary:
                    summary[key] = str(int(summary[key]) + n)
        return replace(c, summary=summary)

    return replace(log, commits=tuple(map(summed, log.commits)))


def with_row(p: CommitSite, name: str, n: int, **fields: Any) -> Planted:
    """The run in which a row that the commit added or removed is elsewhere."""
    changes: tuple[RowChange, ...] = getattr(p.c, name)
    return p.changed(**{name: (*changes[:n], replace(changes[n], **fields), *changes[n + 1 :])})


# --- files ------------------------------------------------------------------------------------------------------------------


def another_format(p: CommitSite, f: FileEntry) -> Planted:
    """The format of a file is another one, wherever the log says it."""
    return everywhere(p, f, format=p.w.rng.choice([x for x in ("avro", "orc", "parquet", "puffin") if x != f.format]))


def vectors(p: CommitSite) -> list[FileEntry]:
    """The deletion vectors that the commit makes."""
    return own(p, "deletion-vector")


def vector_elsewhere(p: CommitSite, f: FileEntry) -> Planted:
    """A deletion vector begins some bytes before or after where it is, wherever the log says it."""
    return everywhere(p, f, offset=(f.offset or 0) + p.w.rng.choice([-3, -1, 1, 8]))


def vector_too_long(p: CommitSite, f: FileEntry) -> Planted:
    """A deletion vector is longer than its file, and summaries count its bytes."""
    n = f.size
    return p.planted(
        log=counted_as(entry_everywhere(p, f, length=(f.length or 0) + n), f, {"files-size": n}),
    )


def file_of_two_sizes(p: CommitSite) -> Planted | None:
    """One of the deletion vectors in a Puffin file says another size of that file."""
    shared = [f for f in vectors(p) if sum(x.path == f.path for x in p.c.added_files) > 1]
    f = p.w.choose(shared)
    return None if f is None else everywhere(p, f, size=f.size + p.w.rng.randrange(1, 99))


def untold(p: CommitSite) -> list[FileEntry]:
    """The data files in a partition that the commit makes and of which the log has no row."""
    recorded = {r.file for c in p.t.main for r in (*(c.added or ()), *(c.removed or ()))}
    named = {f.referenced for c in p.t.main for f in c.added_files}
    return [f for f in own(p, "data") if f.partition and f.path not in recorded | named]


def old_compaction(p: CommitSite) -> Planted | None:
    """A compaction's file says that it is older than the files that it replaces."""
    ages = [f.data_sequence_number for f in p.c.removed_files if f.content == "data" and f.data_sequence_number]
    f = p.w.choose(own(p, "data"))
    if f is None or not ages or max(ages) < 2:
        return None
    return everywhere(p, f, data_sequence_number=p.w.rng.randrange(1, max(ages)))


def old_rewritten_deletes(p: CommitSite) -> Planted | None:
    """A rewritten delete file says a sequence number that none of those that it replaces has."""
    f = p.w.choose(own(p, "position-deletes", "deletion-vector"))
    ages = {x.data_sequence_number for x in p.c.removed_files if x.content != "data"}
    free = [n for n in range(1, p.c.sequence_number) if n not in ages]
    if f is None or not ages or not free:
        return None
    return everywhere(p, f, data_sequence_number=p.w.rng.choice(free))


def row_ids_later(p: CommitSite) -> Planted | None:
    """A snapshot takes more row ids than it has rows, and its files do not begin at the first."""
    files = [f for f in own(p, "data") if f.records]
    if not files:
        return None
    n = p.w.rng.randrange(1, 9)
    moved = tuple(replace(f, first_row_id=(f.first_row_id or 0) + n) if f in files else f for f in p.c.added_files)
    log = p.t.with_commit(p.k, added_files=moved, added_rows=(p.c.added_rows or 0) + n)
    later = tuple(
        m if m.n < p.n else replace(m, next_row_id=None if m.next_row_id is None else m.next_row_id + n)
        for m in log.metadata
    )
    return p.planted(log=replace(log, metadata=later))


FILE_PLANTS: Plants = {
    "manifest-list-of-another-snapshot: A snapshot has the manifest list of its parent.": Plant(
        lambda p: p.changed(manifest_list=p.parent.manifest_list),
        "shared-manifest-list",
        seen="apache/iceberg#14583: a retry that takes what it had written before",
    ),
    "format-of-another-file": Plant(
        pick(lambda p: own(p, "data", "position-deletes", "deletion-vector"), another_format), "file-format"
    ),
    "vector-elsewhere-in-its-file": Plant(pick(vectors, vector_elsewhere), "vector-place", seen=PUFFIN),
    "vector-longer-than-its-file": Plant(pick(vectors, vector_too_long), "vector-place", seen=PUFFIN),
    "puffin-file-of-two-sizes": Plant(file_of_two_sizes, "vector-place", seen=PUFFIN),
    "untold-file-in-another-partition": Plant(
        pick(untold, lambda p, f: everywhere(p, f, partition=elsewhere(p.t, f))),
        "file-partition",
        does="A data file none of whose rows the log has says another partition than the folder that it is in.",
        seen="scans prune by partition values: https://iceberg.apache.org/spec/#scan-planning",
    ),
    "file-that-another-snapshot-added: The entry of a new file says that its parent's snapshot added it.": Plant(
        pick(
            lambda p: own(p, "data", "position-deletes", "deletion-vector"),
            lambda p, f: everywhere(p, f, snapshot_id=p.parent.snapshot_id),
        ),
        "foreign-file",
        seen="apache/iceberg#9230; incremental scans select files by the id",
    ),
    "compaction-older-than-what-it-replaces": Plant(
        old_compaction, "data-sequence-number", where=commits(maintenance), seen=RENUMBERED
    ),
    "rewritten-deletes-of-no-age": Plant(
        old_rewritten_deletes,
        "data-sequence-number delete-sequence-number",
        where=commits(maintenance, lambda p: p.o.f == "rewrite-position-delete-files"),
        seen=RENUMBERED,
    ),
    "row-ids-that-begin-late": Plant(
        row_ids_later,
        "file-row-id",
        where=later(lambda p: lineage(p) and p.last),
        seen="apache/iceberg#16263: row ids given twice",
    ),
}


def another_size(p: CommitSite, f: FileEntry) -> Planted:
    """A file has another number of bytes than its object, and the summaries count as it says."""
    n = p.w.rng.choice([-5, -1, 1, 40, 10**6])
    counted = {} if f.content == "deletion-vector" else {"files-size": n}
    log = p.t.log
    same = [
        x for c in log.commits for x in c.added_files if x.path == f.path
    ]  # vectors that share the file say the same of it
    for x in {(x.path, x.offset): x for x in same}.values():
        site = CommitSite(p.w, replace(p.t, log=log), p.k)
        log = entry_everywhere(site, x, size=x.size + n)
    return p.planted(log=counted_as(log, f, counted))


def measured(p: CommitSite) -> list[FileEntry]:
    """The files that the commit makes and of which the log knows how long the object is."""
    return [f for f in own(p, "data", "position-deletes", "deletion-vector") if f.stored is not None and f.size > 5]


def another_length(p: CommitSite) -> Planted | None:
    """A manifest list says another length of a manifest than the object has."""
    lines = list(p.c.manifests or ())
    n = p.w.choose(n for n, x in enumerate(lines) if x.stored is not None)
    if n is None:
        return None
    lines[n] = replace(lines[n], length=(lines[n].length or 0) + p.w.rng.choice([-9, -1, 1, 100]))
    return p.changed(manifests=tuple(lines))


def written_over(p: CommitSite) -> Planted | None:
    """A file has another size at the end of the run than when it was read."""
    f = p.w.choose(measured(p))
    if f is None or f.stored is None:
        return None
    over = ObjectSize(f.path, f.stored + p.w.rng.randrange(1, 999))
    return p.w.planted(log=replace(p.t.log, sizes=(*p.t.log.sizes, over)), nobody=UNWRITTEN)


def retention_lost(v: VersionSite) -> Planted | None:
    """Main has a retention from the beginning, and one version and all that follow do not have it."""
    if v.n <= v.t.version_of(1):
        return None
    key = v.w.rng.choice(["min-snapshots-to-keep", "max-snapshot-age-ms"])

    def change(m: Metadata) -> Metadata:
        kept = {"type": "branch"} if m.n >= v.n else {"type": "branch", key: 7}
        return replace(m, raw={**m.raw, "refs": {"main": kept} if "main" in m.refs else {}})

    return v.w.by_maker(v.t, v.n, v.t.with_versions(0, len(v.t.log.metadata), change))


def of_another_type(v: VersionSite) -> Planted | None:
    """Main is a tag."""
    if v.n <= v.t.version_of(1):
        return None

    def change(m: Metadata) -> Metadata:
        kind = "tag" if m.n >= v.n else "branch"
        return replace(m, raw={**m.raw, "refs": {"main": {"type": kind}} if "main" in m.refs else {}})

    return v.w.by_maker(v.t, v.n, v.t.with_versions(0, len(v.t.log.metadata), change))


SIZES: Plants = {
    "file-of-another-size": Plant(
        pick(measured, another_size), "file-size", seen="ParquetFileReader looks for the footer at the end by the size"
    ),
    "manifest-of-another-length": Plant(
        another_length, "file-size", seen="ManifestFiles.read opens the file with the length of the list"
    ),
    "file-written-over": Plant(
        written_over, "corrupt-file", seen="a writer that takes a name twice, on a store without conditional puts"
    ),
    "retention-lost": Plant(
        retention_lost,
        "ref-changed",
        where=quiet_version(),
        seen="apache/iceberg-go#716: refs that a commit writes from what it had read",
    ),
    "branch-that-is-a-tag": Plant(
        of_another_type, "ref-changed", where=quiet_version(), seen="apache/iceberg-go#716: refs without their type"
    ),
}


# --- rows -------------------------------------------------------------------------------------------------------------------


def rows_of(p: CommitSite, name: str) -> Iterable[int]:
    """The rows that the commit added or removed and whose data file is known, by their place in the list."""
    known = {f.path for c in p.t.main for f in c.added_files}
    return (n for n, r in enumerate(getattr(p.c, name) or ()) if r.file in known)


def one_row(
    name: str, fields: Callable[[CommitSite, RowChange], Mapping[str, Any] | None]
) -> Callable[[CommitSite], Planted | None]:
    """A change of one row that the commit added or removed."""

    def change(p: CommitSite, n: int) -> Planted | None:
        new = fields(p, getattr(p.c, name)[n])
        return None if new is None else with_row(p, name, n, **new)

    return pick(lambda p: rows_of(p, name), change)


def beside(p: CommitSite, r: RowChange) -> Mapping[str, Any] | None:
    """The place of another row of the same file and commit."""
    other = p.w.choose(x.pos for x in p.c.added or () if x.file == r.file and x.pos != r.pos)
    return None if other is None else {"pos": other}


def beyond(p: CommitSite, r: RowChange) -> Mapping[str, Any]:
    """A place behind the end of the file."""
    return {"pos": r.pos + max(f.records for c in p.t.main for f in c.added_files if f.path == r.file)}


def in_another_file(p: CommitSite, r: RowChange) -> Mapping[str, Any] | None:
    """A data file that was there before, and that the commit leaves alone."""
    own = {f.path for f in (*p.c.added_files, *p.c.removed_files)}
    old = (f.path for c in p.t.main[: p.k - 1] for f in c.added_files if f.content == "data" and f.path not in own)
    other = p.w.choose(old)
    return None if other is None else {"file": other}


def fewer_rows(p: CommitSite, f: FileEntry) -> Planted:
    """The entry of a file counts a row more than came with it, and so do the summaries."""
    log = counted_as(entry_everywhere(p, f, records=f.records + 1), f, {"records": 1})
    return p.planted(log=log)


def hidden_by_another(p: CommitSite, r: RowChange) -> Mapping[str, Any] | None:
    """A delete file that nobody added."""
    return None if r.by is None else {"by": r.by.replace("deletes", "delete")}


def hidden_by_an_older_file(p: CommitSite, r: RowChange) -> Mapping[str, Any] | None:
    """Deletes of its partition that are older than its data file, of none in particular."""
    ages = {f.path: f for c in p.t.main for f in c.added_files}
    f = ages[r.file]
    if r.by is None or r.by not in ages or f.data_sequence_number is None:
        return None
    other = p.w.choose(
        d.path
        for d in ages.values()
        if d.content == "position-deletes"
        and d.referenced is None
        and d.partition == f.partition
        and d.data_sequence_number is not None
        and d.data_sequence_number < f.data_sequence_number
    )
    return None if other is None else {"by": other}


def only_adds(p: CommitSite) -> bool:
    """Whether the commit adds rows and data files and does nothing else."""
    return bool(p.c.added) and not p.c.removed and not p.c.removed_files and len(own(p, "data")) == len(p.c.added_files)


ROW_PLANTS: Plants = {
    "two-rows-at-one-place: Two rows that a commit adds are at one position of a file.": Plant(
        one_row("added", beside), "misplaced-row"
    ),
    "row-behind-the-end: A row that a commit adds is at a position that its file, by its entry, does not have.": Plant(
        one_row("added", beyond), "record-count"
    ),
    "removed-row-behind-the-end: A row that a commit removes is at a position that its file, by its entry, does not have.": Plant(
        one_row("removed", beyond), "record-count"
    ),
    "row-of-another-file: A row that a commit adds is in a file that was there before.": Plant(
        one_row("added", in_another_file), "misplaced-row file-partition record-count"
    ),
    "row-hidden-by-nothing: A row that a commit removes is hidden by a delete file that nobody added.": Plant(
        one_row("removed", hidden_by_another), "misplaced-row"
    ),
    "row-hidden-by-older-deletes: A row that a commit removes is hidden by a delete file that is older than its data file.": Plant(
        one_row("removed", hidden_by_an_older_file), "delete-sequence-number"
    ),
    "file-with-more-records-than-rows: A file counts a row more than came with it, and so do the summaries.": Plant(
        pick(lambda p: own(p, "data") if only_adds(p) and p.c.first_row_id is None else [], fewer_rows), "record-count"
    ),
}


# --- numbers and times ------------------------------------------------------------------------------------------------------


def word(p: CommitSite) -> Planted | None:
    """A metric of a summary is a word."""
    key = p.w.choose(k for k in p.c.summary if k.startswith(("total-", "added-")))
    return None if key is None else p.changed(summary={**p.c.summary, key: p.w.rng.choice(["many", "1.5", "", "NaN"])})


def another_year(p: CommitSite) -> Planted:
    """The last version is stamped a year before or after the snapshot that it adds."""
    ms = p.w.rng.choice([-YEAR, YEAR])
    return p.version(lambda m: replace(m, last_updated_ms=m.last_updated_ms + ms))


SAID: Plants = {
    "metric-that-is-a-word": Plant(
        word, "summary-count", seen="SparkScan.estimateStatistics reads total-records as a number and fails"
    ),
    "last-version-of-another-year": Plant(
        another_year,
        "timestamp-order",
        where=later(lambda p: p.n == len(p.t.log.metadata) - 1 and len(p.t.main) > 12),
        seen="TableMetadata: Invalid update timestamp",
    ),
}


PLANTS = (
    *table(SIZES, "metadata", where=later()),
    *table(FILE_PLANTS, "metadata", where=later(), seen=READER),
    *table(ROW_PLANTS, "metadata", where=later(), seen=READER),
    *table(SAID, "metadata", where=later()),
)
