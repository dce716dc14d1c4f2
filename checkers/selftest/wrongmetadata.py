"""Bugs that the ``metadata`` checker must find: metadata files and snapshots that break the specification.

Rows do not change. What only the log's reader can see (in manifests, which the log does not keep) is planted as the reader reports it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from checkers.evidence.problem import problem_of
from checkers.evidence.replace import replace
from checkers.formats.iceberg.records import IcebergFile as FileEntry
from checkers.formats.iceberg.records import IcebergMetadata as Metadata
from checkers.selftest import edits
from checkers.selftest.plant import Plant, Plants, table, whole
from checkers.selftest.sites import (
    CommitSite,
    VersionSite,
    a_version,
    has,
    later,
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
    if p.k < 3 or p.t.version_of(p.k - 1) != n - 1:
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
        problem = problem_of(text.format(file=f"{v.before}.gone", snapshot=v.t.main[0].snapshot_id))
        log = v.t.with_versions(v.n, v.n, lambda m: replace(m, problems=(*m.problems, problem)))
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
        index = w.rng.randrange(1, len(w.events) * 2 // 3)
        more = edits.answered(edits.fresh(w.events), f, t.name, value, "altered", [])
        return w.planted("altered", events=edits.inserted(w.events, index, more))

    return change


def snapshot_lost(w: World) -> Planted | None:
    """A snapshot is no longer listed, and nothing expired it."""
    for t in undisturbed(w):
        if len(t.main) > 3:
            k = w.rng.randrange(2, len(t.main) - 1)
            lost = t.main[k - 2].snapshot_id
            return VersionSite(w, t, t.version_of(k) + 1).changed(unlisted({lost}))
    return None


def unlisted(lost: set[int]) -> Callable[[Metadata], Metadata]:
    """A change in which snapshots are no longer listed."""
    return lambda m: replace(m, snapshots=tuple(s for s in m.snapshots if s not in lost))


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


PLANTS = (
    *table(CHAIN, "metadata", where=a_version),
    *table(KEPT, "metadata", where=whole),
    *table(NUMBERS, "metadata", where=later()),
)
