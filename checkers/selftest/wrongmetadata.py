"""Bugs that the ``metadata`` checker must find: metadata files, snapshots and manifests that break the specification.

Rows do not change. What only the log's reader can see (in manifests, which the log does not keep) is planted as the reader reports it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from checkers.evidence.problem import Problem, problem_of
from checkers.evidence.replace import replace
from checkers.formats.iceberg.records import IcebergFile as FileEntry
from checkers.formats.iceberg.records import IcebergMetadata as Metadata
from checkers.selftest import edits
from checkers.selftest.missingfiles import DELETED_LIVE, file_missing, manifest_missing
from checkers.selftest.plant import Plant, Plants, table, whole
from checkers.selftest.sites import (
    CommitSite,
    VersionSite,
    a_version,
    has,
    later,
    live,
    pick,
    quiet_version,
    raw,
    undisturbed,
    with_ref,
)
from checkers.selftest.world import CATALOG_DID_IT, NO_SNAPSHOT, UNWRITTEN, Planted, World

# --- the chain ------------------------------------------------------------------------------------------------------------


def fork(p: CommitSite) -> Planted | None:
    """A version replaces the current one, but was made from the one before it."""
    n, lost = p.n, p.parent.snapshot_id
    if p.k < 3 or p.t.at(p.k - 1) != n - 1:
        return None

    def based_on_older(m: Metadata) -> Metadata:
        entries = [x for x in m.raw["metadata-log"] if x["metadata-file"] != p.t.log.metadata[n - 1].location]
        return replace(m, snapshots=tuple(s for s in m.snapshots if s != lost), raw={**m.raw, "metadata-log": entries})

    c = replace(p.c, parent_id=p.t.main[p.k - 3].snapshot_id)
    log = p.t.with_versions(n, len(p.t.log.metadata), based_on_older)
    commits = tuple(c if x.snapshot_id == c.snapshot_id else x for x in log.commits)
    return p.planted(log=replace(log, commits=commits))


def pointer_back(w: World) -> Planted | None:
    """The catalog's pointer goes back to a metadata file that had been current before."""
    t = w.choose(t for t in w.tables if len(t.log.metadata) > 3 and t.log.metadata[-1].raw.get("metadata-log"))
    if t is None:
        return None
    old = t.log.metadata[w.rng.randrange(1, len(t.log.metadata) - 1)]
    versions = (*t.log.metadata, replace(old, n=len(t.log.metadata)))
    return w.planted(log=replace(t.with_capture(-1, old.location), metadata=versions), nobody=CATALOG_DID_IT)


def reader_says(text: str, *, nobody: str = "") -> Callable[[VersionSite], Planted]:
    """The reader of the log reports a problem of the version."""

    def change(v: VersionSite) -> Planted:
        said = problem_of(text.format(file=f"{v.before}.gone", snapshot=v.t.main[0].snapshot_id))
        log = v.t.with_versions(v.n, v.n, lambda m: replace(m, problems=(*m.problems, said)))
        return v.w.planted(log=log, nobody=nobody) if nobody else v.w.by_maker(v.t, v.n, log)

    return change


CHAIN: Plants = {
    "metadata-fork": Plant(
        fork,
        "metadata-fork",
        where=later(has("metadata-log")),
        seen="apache/iceberg#16232; HMS without locks: alter_table replaces what it has not seen",
    ),
    "pointer-set-back": Plant(
        pointer_back,
        "metadata-fork",
        where=whole,
        seen="two processes that both rename to the same version: HadoopCatalog on S3; a restored catalog database",
    ),
    "older-metadata-missing: A version descends from a metadata file that is not in the store.": Plant(
        reader_says("metadata file {file} is missing", nobody=UNWRITTEN),
        "missing-metadata-file",
        seen="projectnessie/nessie#8413",
    ),
    "older-metadata-corrupt: A version descends from a metadata file that cannot be read.": Plant(
        reader_says("metadata file {file} is corrupt: Expecting value: line 1 column 1 (char 0)", nobody=UNWRITTEN),
        "corrupt-metadata-file",
        seen="a writer killed in the middle of a file, on a store without atomic puts",
    ),
    "metadata-log-lies: A version's metadata-log names a predecessor other than the one that was current.": Plant(
        reader_says("its metadata-log says that it follows {file}, the chain says otherwise"),
        "metadata-log-mismatch",
        seen="apache/iceberg#16942: replace forgets the previous metadata",
    ),
    "snapshot-rewritten: A version describes a snapshot differently than the version before it.": Plant(
        reader_says("tells snapshot {snapshot} differently than the version that first showed it"),
        "snapshot-changed",
        seen="a snapshot id that is used again",
    ),
}


# --- what a table keeps -----------------------------------------------------------------------------------------------------


def property_lost(v: VersionSite) -> Planted:
    """A table property is missing, and nobody removed it."""
    key = v.w.rng.choice(["write.delete.mode", "write.update.isolation-level", "owner"])
    return v.changed(raw(lambda r: {"properties": {k: x for k, x in r["properties"].items() if k != key}}))


def forgotten(f: str, value: Mapping[str, str]) -> Callable[[World], Planted]:
    """A metadata change that was acknowledged but is in no version."""

    def change(w: World) -> Planted:
        t = w.rng.choice(w.tables)
        at = w.rng.randrange(1, len(w.events) * 2 // 3)
        more = edits.answered(edits.fresh(w.events), f, t.name, value, "altered", [])
        return w.planted("altered", events=edits.inserted(w.events, at, more))

    return change


def snapshot_lost(w: World) -> Planted | None:
    """A snapshot is no longer listed, and nothing expired it."""
    for t in undisturbed(w):
        if len(t.main) > 3:
            k = w.rng.randrange(2, len(t.main) - 1)
            gone = t.main[k - 2].snapshot_id
            return VersionSite(w, t, t.at(k) + 1).changed(unlisted({gone}))
    return None


def unlisted(gone: set[int]) -> Callable[[Metadata], Metadata]:
    """A change in which snapshots are no longer listed."""
    return lambda m: replace(m, snapshots=tuple(s for s in m.snapshots if s not in gone))


def expired_too_much(w: World) -> Planted | None:
    """Expiry leaves fewer snapshots than it was told to retain."""
    for t in w.rng.sample(w.tables, len(w.tables)):
        kept = [o.value.get("retain_last", 1) for o in t.expiries]
        for m in (v.metadata for v in t.versions if v.dropped and v.commit is None):
            if kept and min(kept) > 1 and len(m.snapshots) > 1:
                log = t.with_versions(m.n, len(t.log.metadata), unlisted({*m.snapshots} - {m.current or 0}))
                culprits = t.expiries_at(m.n)
                return w.planted(*culprits, log=log, nobody="" if len(culprits) == 1 else NO_SNAPSHOT)
    return None


def tag_lost(w: World) -> Planted | None:
    """A tag is missing, and nobody dropped it."""
    for t in undisturbed(w):
        if len(t.log.metadata) > 4:
            n = w.rng.randrange(1, len(t.log.metadata) - 1)
            return w.by_maker(t, n + 1, t.with_versions(0, n, with_ref("keep", t.main[0].snapshot_id)))
    return None


def not_current(p: CommitSite) -> Planted | None:
    """The current snapshot differs from that of the branch main."""
    older = p.parent.snapshot_id
    return p.version(with_ref("main", older)) if older in p.m.snapshots else None


def one_uuid(w: World) -> Planted | None:
    """Two tables of a run have the same UUID from their beginning on."""
    if len(w.tables) < 2:
        return None
    a, b = w.rng.sample(w.tables, 2)
    same = a.log.metadata[0].raw.get("table-uuid")
    log = b.with_versions(0, len(b.log.metadata), raw(lambda r: {"table-uuid": same}))
    return w.planted(log=log, nobody=CATALOG_DID_IT) if same else None


KEPT: Plants = {
    "table-replaced: From some version on the table has another UUID.": Plant(
        lambda v: v.changed(raw(lambda r: {"table-uuid": "00000000-0000-4000-8000-000000000000"})),
        "table-uuid-changed",
        where=quiet_version("table-uuid"),
        seen="apache/iceberg#15050: create or replace after a 503",
    ),
    "format-downgraded: A later version has an older format version.": Plant(
        lambda v: v.changed(lambda m: replace(m, format_version=m.format_version - 1)),
        "format-version-decreased",
        where=quiet_version(),
        seen="apache/iceberg#16146: commits around an upgrade",
    ),
    "table-in-another-store: From some version on the table's location is of another scheme, so that new files go elsewhere.": Plant(
        lambda v: v.changed(raw(lambda r: {"location": r["location"].replace("s3://", "gs://")})),
        "location-changed",
        where=quiet_version("location"),
        seen="a catalog that rewrites locations: warehouse moved from one store to another",
    ),
    "two-tables-of-one-uuid": Plant(
        one_uuid, "shared-uuid", seen="a table that was copied with its metadata file; CREATE TABLE LIKE in a catalog"
    ),
    "last-column-id-decreased: The highest column id goes down, so that an id can be assigned twice.": Plant(
        lambda v: v.changed(raw(lambda r: {"last-column-id": r["last-column-id"] - 1})),
        "counter-decreased",
        where=quiet_version("last-column-id"),
        seen="apache/iceberg#14093: a stale schema overwrites a newer one",
    ),
    "schema-lost: A column is missing from the current schema, and nobody dropped it.": Plant(
        lambda v: v.changed(raw(lambda r: {"schemas": [{**s, "fields": s["fields"][:-1]} for s in r["schemas"]]})),
        "vanished-schema",
        where=quiet_version("schemas"),
        seen="apache/iceberg#14093: a commit writes the schema that it had read",
    ),
    "partition-spec-lost: A partition spec is missing although files were written with it.": Plant(
        lambda v: v.changed(raw(lambda r: {"partition-specs": []})),
        "vanished-partition-spec",
        where=quiet_version("partition-specs"),
        seen="apache/iceberg#15090: replace commits a stale table",
    ),
    "property-lost": Plant(
        property_lost,
        "vanished-property",
        where=quiet_version("properties"),
        seen="apache/iceberg#16232: properties vanish with a stale replace",
    ),
    "schema-change-forgotten: ALTER TABLE … ADD COLUMN is acknowledged, and no version of the table has the column.": Plant(
        forgotten("add-column", {"column": "extra_1"}),
        "lost-metadata-change",
        seen="apache/iceberg#14093: a schema change that another writer's stale schema reverted",
    ),
    "property-change-forgotten: ALTER TABLE … SET TBLPROPERTIES is acknowledged, and no version of the table has the value.": Plant(
        forgotten("set-property", {"property": "icequake.p1"}),
        "lost-metadata-change",
        seen="apache/iceberg#16942: properties set while a table was replaced",
    ),
    "snapshot-lost": Plant(
        snapshot_lost, "vanished-snapshot", seen="apache/iceberg#16232; expiry that races with a commit"
    ),
    "expired-too-much": Plant(
        expired_too_much, "retention vanished-snapshot", seen="apache/iceberg-go#716: expiry and the table it saw"
    ),
    "tag-lost": Plant(tag_lost, "vanished-ref", seen="apache/iceberg-go#716: a tag made while snapshots expire"),
    "main-is-not-current": Plant(
        not_current,
        "main-ref",
        where=later(),
        seen="WAP and branches: current-snapshot-id and refs written by two code paths",
    ),
    "dangling-ref: A branch points to a snapshot that is not listed.": Plant(
        lambda v: v.changed(with_ref("audit", v.w.rng.randrange(1, 2**62)), last=v.n),
        "dangling-ref",
        where=quiet_version(),
        seen="apache/iceberg-go#716; nessie#8281: main at an unknown snapshot",
    ),
    "snapshot-listed-twice: A version lists a snapshot twice.": Plant(
        lambda v: v.changed(lambda m: replace(m, snapshots=(*m.snapshots, m.snapshots[-1])), last=v.n),
        "duplicate-snapshot",
        where=quiet_version(),
        seen="apache/iceberg#14583: a retry adds its own snapshot again",
    ),
}


# --- numbers --------------------------------------------------------------------------------------------------------------


def lineage(p: CommitSite) -> bool:
    """Whether the commit gives row ids."""
    return p.m.format_version >= 3 and p.c.first_row_id is not None


def adds_lineage(p: CommitSite) -> bool:
    """Whether the commit gives row ids to new rows."""
    return lineage(p) and bool(p.c.added_rows)


def sequence_decreased(p: CommitSite) -> Planted | None:
    """A snapshot's sequence number is lower than its parent's."""
    below = p.parent.sequence_number
    return p.changed(sequence_number=p.w.rng.randrange(1, below)) if below > 1 else None


def numbered(p: CommitSite) -> list[FileEntry]:
    """The data files with row ids that the commit adds."""
    return [f for f in p.c.added_files if f.content == "data" and f.first_row_id is not None and f.records]


NUMBERS: Plants = {
    "sequence-number-reused: Two snapshots have the same sequence number.": Plant(
        lambda p: p.changed(sequence_number=p.parent.sequence_number),
        "duplicate-sequence-number sequence-number-order",
        seen="apache/iceberg#8390; polaris#1285 sets it back",
    ),
    "sequence-number-decreased": Plant(
        sequence_decreased,
        "sequence-number-order",
        where=later(lambda p: p.c.sequence_number > 2),
        seen="polaris#1285: last-sequence-number set back by reflection",
    ),
    "last-sequence-number-too-low: last-sequence-number is lower than that of a snapshot which the version adds.": Plant(
        lambda p: p.version(lambda m: replace(m, last_sequence_number=m.last_sequence_number - 1)),
        "last-sequence-number counter-decreased",
        seen="apache/iceberg#8390",
    ),
    "parent-unknown: A snapshot's parent is in no version.": Plant(
        lambda p: p.changed(parent_id=p.w.rng.randrange(1, 2**62)),
        "unknown-parent",
        seen="a commit on metadata that never became current",
    ),
    "row-ids-overlap: A snapshot assigns row ids that its parent had already assigned.": Plant(
        lambda p: p.changed(first_row_id=p.parent.first_row_id),
        "row-id-overlap first-row-id",
        where=later(lambda p: adds_lineage(p) and p.parent.added_rows and p.parent.first_row_id is not None),
        seen="apache/iceberg#16263: wrong row ids after a manifest merge",
    ),
    "row-ids-missing: A snapshot of a version 3 table has no first-row-id.": Plant(
        lambda p: p.changed(first_row_id=None),
        "first-row-id",
        where=later(lineage),
        seen="a writer of version 2 on a table of version 3",
    ),
    "next-row-id-too-low: next-row-id does not count the rows of the snapshot that the version adds.": Plant(
        lambda p: p.version(lambda m: replace(m, next_row_id=(m.next_row_id or 0) - 1)),
        "next-row-id counter-decreased first-row-id",
        where=later(adds_lineage),
        seen="apache/iceberg#16263",
    ),
    "next-row-id-jumps: One version says a next-row-id far above what is assigned, and the next is right again.": Plant(
        lambda p: None if p.last else p.version(lambda m: replace(m, next_row_id=(m.next_row_id or 0) + 1000)),
        "counter-decreased first-row-id",
        where=later(lineage),
        seen="apache/iceberg#16263",
    ),
    "file-row-id-of-another: A file gets row ids outside its snapshot's range.": Plant(
        pick(lambda p: numbered(p)[:1], lambda p, f: p.added_files(f, first_row_id=10**6)),
        "file-row-id",
        where=later(lineage),
        seen="apache/iceberg#16263: row ids of EXISTING entries given again",
    ),
    "file-sequence-number-of-another: A file's entry says that an older snapshot added it.": Plant(
        pick(
            lambda p: [f for f in p.c.added_files if f.file_sequence_number][:1],
            lambda p, f: p.added_files(f, file_sequence_number=f.file_sequence_number - 1),
        ),
        "file-sequence-number",
        seen="apache/iceberg#10312: sequence numbers of rewritten files",
    ),
}


# --- files ----------------------------------------------------------------------------------------------------------------


def manifest_corrupt(p: CommitSite) -> Planted:
    """A manifest cannot be read."""
    file, cause = f"metadata/{p.c.snapshot_id}-m0.avro", "invalid magic"
    said = Problem("corrupt-file", f"manifest {file} is corrupt: {cause}", file, kind="manifest", cause=cause)
    return p.changed(added=None, removed=None, problems=(said,))


def counted(prefix: str) -> Callable[[CommitSite], Planted | None]:
    """A number of the summary is one too high."""

    def change(p: CommitSite) -> Planted | None:
        keys = {f"{prefix}-data-files", f"{prefix}-records", f"{prefix}-files-size"}
        key = p.w.choose(sorted(keys & p.c.summary.keys()))
        return None if key is None else p.changed(summary={**p.c.summary, key: str(int(p.c.summary[key]) + 1)})

    return change


def stays(p: CommitSite) -> list[FileEntry]:
    """The data files that were live before the commit and that it does not remove."""
    gone = {f.path for f in p.c.removed_files}
    return [f for f in live(p.t.main[: p.k - 1]).values() if f.content == "data" and f.path not in gone]


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


PLANTS = (
    *table(CHAIN, "metadata", where=a_version),
    *table(KEPT, "metadata", where=whole),
    *table(NUMBERS, "metadata", where=later()),
    *table(FILE_PLANTS, "metadata", where=later()),
    *table(MANIFESTS, "metadata", where=later()),
)
