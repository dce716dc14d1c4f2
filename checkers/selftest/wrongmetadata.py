"""Bugs that the ``metadata`` checker must find: metadata files, snapshots and manifests that break the specification.

Rows do not change. What only the log's reader can see (in manifests, which the log does not keep) is planted as the reader reports it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from checkers.evidence.history import Event, Operation
from checkers.evidence.problem import Problem, problem_of
from checkers.evidence.replace import replace
from checkers.evidence.tablelog import Commit, FileEntry, Metadata, TableLog
from checkers.selftest.mutation import Mutation, Plant, mutation
from checkers.selftest.world import CATALOG, NO_SNAPSHOT, Planted, Table, World, fresh, inserted
from checkers.selftest.wrongrows import DELETED_LIVE, live, manifest_missing, plant_missing

Change = Callable[[Metadata], Metadata]


def with_commit(t: Table, k: int, **changes: Any) -> TableLog:
    """The log with changed fields of the commit at position k."""
    c = replace(t.main[k - 1], **changes)
    return replace(t.log, commits=tuple(c if x.snapshot_id == c.snapshot_id else x for x in t.log.commits))


def with_versions(t: Table, first: int, last: int, change: Change) -> TableLog:
    """The log with versions ``first`` … ``last`` changed."""
    return replace(t.log, metadata=tuple(change(m) if first <= m.n <= last else m for m in t.log.metadata))


def raw(change: Callable[[dict[str, Any]], Mapping[str, Any]]) -> Change:
    """A change of the part of a version that the log keeps unparsed."""
    return lambda m: replace(m, raw={**m.raw, **change(m.raw)})


def positions(w: World, wanted: Callable[[Table, Commit], object] = lambda t, c: True) -> Iterator[tuple[Table, int]]:
    """Positions after the first with a wanted commit, in random order."""
    for t, k in w.each(lambda t: t.positions[1:]):
        if wanted(t, t.main[k - 1]):
            yield t, k


def undisturbed(w: World) -> Iterator[Table]:
    """Tables without expiry, in random order."""
    busy = {o.table for o in w.operations.values() if o.f == "expire-snapshots"}
    yield from w.rng.sample([t for t in w.tables if t.name not in busy], k=sum(t.name not in busy for t in w.tables))


def can_have_made(t: Table, o: Operation, n: int) -> bool:
    """Whether an operation on the table was under way when the version can have been made: between the commits before and after it."""
    before = max((t.op(k).start for k in t.positions if t.at(k) < n), default=0)
    after = [t.op(k).end for k in t.positions if t.at(k) > n]
    late = o.type == "ok" and o.end is not None and o.end < before
    return o.table == t.name and not late and all(end is None or o.start <= end for end in after)


UNWRITTEN = "the file is in no version, so nothing says who wrote it"
"""Why a lost metadata file has no culprit."""


# --- the chain ------------------------------------------------------------------------------------------------------------


@mutation(
    "metadata-fork",
    "metadata",
    "metadata-fork",
    seen="https://github.com/apache/iceberg/issues/16232; HMS without locks: alter_table replaces what it has not seen",
)
def fork(w: World) -> Planted | None:
    """A version replaces the current one, but was made from the one before it."""
    for t, k in positions(w):
        n, lost = t.at(k), t.main[k - 2].snapshot_id
        if k < 3 or not t.log.metadata[n].raw.get("metadata-log") or t.at(k - 1) != n - 1:
            continue

        def based_on_older(m: Metadata, lost: int = lost) -> Metadata:
            listed = tuple(s for s in m.snapshots if s != lost)
            entries = [x for x in m.raw["metadata-log"] if x["metadata-file"] != t.log.metadata[n - 1].location]  # noqa: B023
            return replace(m, snapshots=listed, raw={**m.raw, "metadata-log": entries})

        log = with_versions(t, n, len(t.log.metadata), based_on_older)
        c = replace(t.main[k - 1], parent_id=t.main[k - 3].snapshot_id)
        commits = tuple(c if x.snapshot_id == c.snapshot_id else x for x in log.commits)
        return w.planted(t.op(k).op, log=replace(log, commits=commits))
    return None


@mutation(
    "pointer-set-back",
    "metadata",
    "metadata-fork",
    seen="two processes that both rename to the same version: HadoopCatalog on S3; a restored catalog database",
)
def pointer_back(w: World) -> Planted | None:
    """The catalog's pointer goes back to a metadata file that had been current before."""
    t = w.choose(t for t in w.tables if len(t.log.metadata) > 3 and t.log.metadata[-1].raw.get("metadata-log"))
    if t is None:
        return None
    old = t.log.metadata[w.rng.randrange(1, len(t.log.metadata) - 1)]
    versions = (*t.log.metadata, replace(old, n=len(t.log.metadata)))
    captures = (*t.log.captures[:-1], replace(t.log.captures[-1], metadata=old.location))
    return w.planted(log=replace(t.log, metadata=versions, captures=captures), nobody=CATALOG)


def _told(w: World, text: str, nobody: str = "") -> Planted | None:
    t = w.choose(t for t in w.tables if len(t.log.metadata) > 2)
    if t is None:
        return None
    n = w.rng.randrange(1, len(t.log.metadata))
    said = text.format(file=t.log.metadata[n - 1].location + ".gone", snapshot=t.main[0].snapshot_id)
    log = with_versions(t, n, n, lambda m: replace(m, problems=(*m.problems, problem_of(said))))
    return w.planted(log=log, nobody=nobody) if nobody else w.by_maker(t, n, log)


@mutation(
    "older-metadata-missing",
    "metadata",
    "missing-metadata-file",
    seen="https://github.com/projectnessie/nessie/issues/8413",
)
def predecessor_missing(w: World) -> Planted | None:
    """A version descends from a metadata file that is not in the store."""
    return _told(w, "metadata file {file} is missing", UNWRITTEN)


@mutation(
    "older-metadata-corrupt",
    "metadata",
    "corrupt-metadata-file",
    seen="a writer killed in the middle of a file, on a store without atomic puts",
)
def predecessor_corrupt(w: World) -> Planted | None:
    """A version descends from a metadata file that cannot be read."""
    return _told(w, "metadata file {file} is corrupt: Expecting value: line 1 column 1 (char 0)", UNWRITTEN)


@mutation(
    "metadata-log-lies",
    "metadata",
    "metadata-log-mismatch",
    seen="https://github.com/apache/iceberg/issues/16942: replace forgets the previous metadata",
)
def log_lies(w: World) -> Planted | None:
    """A version's metadata-log names a predecessor other than the one that was current."""
    return _told(w, "its metadata-log says that it follows {file}, the chain says otherwise")


@mutation("snapshot-rewritten", "metadata", "snapshot-changed", seen="a snapshot id that is used again")
def rewritten(w: World) -> Planted | None:
    """A version describes a snapshot differently than the version before it."""
    return _told(w, "tells snapshot {snapshot} differently than the version that first showed it")


def _from(w: World, change: Change, *, needs: str | None = None, until: int = 10**9) -> Planted | None:
    """A change of all versions from a random one on (or only of ``until`` + 1 of them)."""
    t = w.choose(
        t for t in undisturbed(w) if len(t.log.metadata) > 2 and (needs is None or t.log.metadata[-1].raw.get(needs))
    )
    if t is None:
        return None
    n = w.rng.randrange(2, len(t.log.metadata))
    return w.by_maker(t, n, with_versions(t, n, n + until, change))


@mutation(
    "table-replaced",
    "metadata",
    "table-uuid-changed",
    seen="https://github.com/apache/iceberg/issues/15050: create or replace after a 503",
)
def another_table(w: World) -> Planted | None:
    """From some version on the table has another UUID."""
    return _from(w, raw(lambda r: {"table-uuid": "00000000-0000-4000-8000-000000000000"}), needs="table-uuid")


@mutation(
    "format-downgraded",
    "metadata",
    "format-version-decreased",
    seen="https://github.com/apache/iceberg/issues/16146: commits around an upgrade",
)
def downgraded(w: World) -> Planted | None:
    """A later version has an older format version."""
    return _from(w, lambda m: replace(m, format_version=m.format_version - 1))


@mutation(
    "last-column-id-decreased",
    "metadata",
    "counter-decreased",
    seen="https://github.com/apache/iceberg/issues/14093: a stale schema overwrites a newer one",
)
def column_id(w: World) -> Planted | None:
    """The highest column id goes down, so that an id can be assigned twice."""
    return _from(w, raw(lambda r: {"last-column-id": r["last-column-id"] - 1}), needs="last-column-id")


@mutation(
    "schema-lost",
    "metadata",
    "vanished-schema",
    seen="https://github.com/apache/iceberg/issues/14093: a commit writes the schema that it had read",
)
def schema_lost(w: World) -> Planted | None:
    """A column is missing from the current schema, and nobody dropped it."""

    def without_column(r: dict[str, Any]) -> Mapping[str, Any]:
        return {"schemas": [{**s, "fields": s["fields"][:-1]} for s in r["schemas"]]}

    return _from(w, raw(without_column), needs="schemas")


@mutation(
    "partition-spec-lost",
    "metadata",
    "vanished-partition-spec",
    seen="https://github.com/apache/iceberg/issues/15090: replace commits a stale table",
)
def spec_lost(w: World) -> Planted | None:
    """A partition spec is missing although files were written with it."""
    return _from(w, raw(lambda r: {"partition-specs": []}), needs="partition-specs")


@mutation(
    "property-lost",
    "metadata",
    "vanished-property",
    seen="https://github.com/apache/iceberg/issues/16232: properties vanish with a stale replace",
)
def property_lost(w: World) -> Planted | None:
    """A table property is missing, and nobody removed it."""
    key = w.rng.choice(["write.delete.mode", "write.update.isolation-level", "owner"])
    return _from(
        w, raw(lambda r: {"properties": {k: v for k, v in r["properties"].items() if k != key}}), needs="properties"
    )


def _acknowledged_change(w: World, f: str, value: Mapping[str, str]) -> Planted:
    """A metadata change that was acknowledged but is in no version."""
    t = w.rng.choice(w.tables)
    at = w.rng.randrange(1, len(w.events) * 2 // 3)
    who = fresh(w.events)
    change = [Event(0, 0, "invoke", who, f, t.name, value, "altered"), Event(0, 0, "ok", who, f, t.name, [], "altered")]
    return w.planted("altered", events=inserted(w.events, at, change))


@mutation(
    "schema-change-forgotten",
    "metadata",
    "lost-metadata-change",
    seen="https://github.com/apache/iceberg/issues/14093: a schema change that another writer's stale schema reverted",
)
def schema_change_forgotten(w: World) -> Planted | None:
    """ALTER TABLE … ADD COLUMN is acknowledged, and no version of the table has the column."""
    return _acknowledged_change(w, "add-column", {"column": "extra_1"})


@mutation(
    "property-change-forgotten",
    "metadata",
    "lost-metadata-change",
    seen="https://github.com/apache/iceberg/issues/16942: properties set while a table was replaced",
)
def property_change_forgotten(w: World) -> Planted | None:
    """ALTER TABLE … SET TBLPROPERTIES is acknowledged, and no version of the table has the value."""
    return _acknowledged_change(w, "set-property", {"property": "icequake.p1"})


@mutation(
    "snapshot-lost",
    "metadata",
    "vanished-snapshot",
    seen="https://github.com/apache/iceberg/issues/16232; expiry that races with a commit",
)
def snapshot_lost(w: World) -> Planted | None:
    """A snapshot is no longer listed, and nothing expired it."""
    for t in undisturbed(w):
        if len(t.main) > 3:
            k = w.rng.randrange(2, len(t.main) - 1)
            gone, n = t.main[k - 2].snapshot_id, t.at(k) + 1
            change = lambda m, gone=gone: replace(m, snapshots=tuple(s for s in m.snapshots if s != gone))  # noqa: E731
            return w.by_maker(t, n, with_versions(t, n, len(t.log.metadata), change))
    return None


@mutation(
    "expired-too-much",
    "metadata",
    "retention",
    "vanished-snapshot",
    seen="https://github.com/apache/iceberg-go/pull/716: expiry and the table it saw",
)
def expired_too_much(w: World) -> Planted | None:
    """Expiry leaves fewer snapshots than it was told to retain."""
    for t in w.rng.sample(w.tables, len(w.tables)):
        kept = [
            o.value.get("retain_last", 1)
            for o in w.operations.values()
            if o.f == "expire-snapshots" and o.table == t.name
        ]
        for n in [v.metadata.n for v in t.versions if v.dropped and v.commit is None]:
            m = t.log.metadata[n]
            if kept and min(kept) > 1 and len(m.snapshots) > 1:
                gone = set(m.snapshots) - {m.current}
                change = lambda x, gone=gone: replace(x, snapshots=tuple(s for s in x.snapshots if s not in gone))  # noqa: E731
                log = with_versions(t, n, len(t.log.metadata), change)
                expiries = [o.op for o in w.operations.values() if o.f == "expire-snapshots" and can_have_made(t, o, n)]
                return w.planted(*expiries, log=log, nobody="" if len(expiries) == 1 else NO_SNAPSHOT)
    return None


@mutation(
    "tag-lost",
    "metadata",
    "vanished-ref",
    seen="https://github.com/apache/iceberg-go/pull/716: a tag made while snapshots expire",
)
def tag_lost(w: World) -> Planted | None:
    """A tag is missing, and nobody dropped it."""
    for t in undisturbed(w):
        if len(t.log.metadata) > 4:
            b = w.rng.randrange(1, len(t.log.metadata) - 1)
            target = t.main[0].snapshot_id
            change = lambda m, target=target: replace(m, refs={**m.refs, "keep": target})  # noqa: E731
            return w.by_maker(t, b + 1, with_versions(t, 0, b, change))
    return None


@mutation(
    "main-is-not-current",
    "metadata",
    "main-ref",
    seen="WAP and branches: current-snapshot-id and refs written by two code paths",
)
def not_current(w: World) -> Planted | None:
    """The current snapshot differs from that of the branch main."""
    for t, k in positions(w):
        n, older = t.at(k), t.main[k - 2].snapshot_id
        if older in t.log.metadata[n].snapshots:
            return w.by_maker(t, n, with_versions(t, n, n, lambda m: replace(m, refs={**m.refs, "main": older})))  # noqa: B023
    return None


@mutation(
    "dangling-ref",
    "metadata",
    "dangling-ref",
    seen="https://github.com/apache/iceberg-go/pull/716; nessie#8281: main at an unknown snapshot",
)
def dangling(w: World) -> Planted | None:
    """A branch points to a snapshot that is not listed."""
    nowhere = w.rng.randrange(1, 2**62)
    return _from(w, lambda m: replace(m, refs={**m.refs, "audit": nowhere}), until=0)


@mutation(
    "snapshot-listed-twice",
    "metadata",
    "duplicate-snapshot",
    seen="https://github.com/apache/iceberg/issues/14583: a retry adds its own snapshot again",
)
def listed_twice(w: World) -> Planted | None:
    """A version lists a snapshot twice."""
    return _from(w, lambda m: replace(m, snapshots=(*m.snapshots, m.snapshots[-1])), until=0)


# --- numbers --------------------------------------------------------------------------------------------------------------


@mutation(
    "sequence-number-reused",
    "metadata",
    "duplicate-sequence-number",
    "sequence-number-order",
    seen="https://github.com/apache/iceberg/issues/8390; polaris#1285 sets it back",
)
def sequence_reused(w: World) -> Planted | None:
    """Two snapshots have the same sequence number."""
    for t, k in positions(w):
        return w.planted(t.op(k).op, log=with_commit(t, k, sequence_number=t.main[k - 2].sequence_number))
    return None


@mutation(
    "sequence-number-decreased",
    "metadata",
    "sequence-number-order",
    seen="polaris#1285: last-sequence-number set back by reflection",
)
def sequence_decreased(w: World) -> Planted | None:
    """A snapshot's sequence number is lower than its parent's."""
    for t, k in positions(w, lambda t, c: c.sequence_number > 2):
        number = w.rng.randrange(1, t.main[k - 2].sequence_number) if t.main[k - 2].sequence_number > 1 else 0
        if number:
            return w.planted(t.op(k).op, log=with_commit(t, k, sequence_number=number))
    return None


@mutation(
    "last-sequence-number-too-low",
    "metadata",
    "last-sequence-number",
    "counter-decreased",
    seen="https://github.com/apache/iceberg/issues/8390",
)
def last_sequence(w: World) -> Planted | None:
    """last-sequence-number is lower than that of a snapshot which the version adds."""
    for t, k in positions(w):
        n = t.at(k)
        change = lambda m: replace(m, last_sequence_number=m.last_sequence_number - 1)  # noqa: E731
        return w.by_maker(t, n, with_versions(t, n, n, change))
    return None


@mutation("parent-unknown", "metadata", "unknown-parent", seen="a commit on metadata that never became current")
def parent_unknown(w: World) -> Planted | None:
    """A snapshot's parent is in no version."""
    for t, k in positions(w):
        return w.planted(t.op(k).op, log=with_commit(t, k, parent_id=w.rng.randrange(1, 2**62)))
    return None


def _lineage(t: Table, c: Commit) -> bool:
    return t.spec.format_version == 3 and c.first_row_id is not None


@mutation(
    "row-ids-overlap",
    "metadata",
    "row-id-overlap",
    "first-row-id",
    seen="https://github.com/apache/iceberg/issues/16263: wrong row ids after a manifest merge",
)
def row_ids_overlap(w: World) -> Planted | None:
    """A snapshot assigns row ids that its parent had already assigned."""
    for t, k in positions(w, lambda t, c: _lineage(t, c) and c.added_rows):
        before = t.main[k - 2]
        if before.added_rows and before.first_row_id is not None:
            return w.planted(t.op(k).op, log=with_commit(t, k, first_row_id=before.first_row_id))
    return None


@mutation("row-ids-missing", "metadata", "first-row-id", seen="a writer of version 2 on a table of version 3")
def row_ids_missing(w: World) -> Planted | None:
    """A snapshot of a version 3 table has no first-row-id."""
    for t, k in positions(w, _lineage):
        return w.planted(t.op(k).op, log=with_commit(t, k, first_row_id=None))
    return None


@mutation(
    "next-row-id-too-low",
    "metadata",
    "next-row-id",
    "counter-decreased",
    "first-row-id",
    seen="https://github.com/apache/iceberg/issues/16263",
)
def next_row_id(w: World) -> Planted | None:
    """next-row-id does not count the rows of the snapshot that the version adds."""
    for t, k in positions(w, lambda t, c: _lineage(t, c) and c.added_rows):
        n = t.at(k)
        change = lambda m: replace(m, next_row_id=(m.next_row_id or 0) - 1)  # noqa: E731
        return w.by_maker(t, n, with_versions(t, n, n, change))
    return None


def _added(
    t: Table, k: int, wanted: Callable[[FileEntry], object], change: Callable[[FileEntry], FileEntry]
) -> TableLog | None:
    """The log with the first wanted file that the commit adds changed."""
    files = list(t.main[k - 1].added_files)
    n = next((n for n, f in enumerate(files) if wanted(f)), None)
    if n is None:
        return None
    files[n] = change(files[n])
    return with_commit(t, k, added_files=tuple(files))


@mutation(
    "file-row-id-of-another",
    "metadata",
    "file-row-id",
    seen="https://github.com/apache/iceberg/issues/16263: row ids of EXISTING entries given again",
)
def file_row_id(w: World) -> Planted | None:
    """A file gets row ids outside its snapshot's range."""
    for t, k in positions(w, _lineage):
        log = _added(
            t,
            k,
            lambda f: f.content == "data" and f.first_row_id is not None and f.records,
            lambda f: replace(f, first_row_id=10**6),
        )
        if log is not None:
            return w.planted(t.op(k).op, log=log)
    return None


@mutation(
    "file-sequence-number-of-another",
    "metadata",
    "file-sequence-number",
    seen="https://github.com/apache/iceberg/issues/10312: sequence numbers of rewritten files",
)
def file_sequence(w: World) -> Planted | None:
    """A file's entry says that an older snapshot added it."""
    for t, k in positions(w):
        log = _added(
            t,
            k,
            lambda f: f.file_sequence_number,
            lambda f: replace(f, file_sequence_number=(f.file_sequence_number or 2) - 1),
        )
        if log is not None:
            return w.planted(t.op(k).op, log=log)
    return None


# --- files ----------------------------------------------------------------------------------------------------------------


@mutation(
    "live-path-twice",
    "metadata",
    "duplicate-path",
    seen="https://github.com/redpanda-data/redpanda/issues/4591: duplicate file paths in two snapshots",
)
def path_twice(w: World) -> Planted | None:
    """A commit adds a data file that is already live."""
    for t, k in positions(w):
        gone = {f.path for f in t.main[k - 1].removed_files}
        there = [f for f in live(t.main[: k - 1]).values() if f.content == "data" and f.path not in gone]
        f = w.choose(there)
        if f is not None:
            return w.planted(t.op(k).op, log=with_commit(t, k, added_files=(*t.main[k - 1].added_files, f)))
    return None


@mutation(
    "second-deletion-vector",
    "metadata",
    "several-dvs",
    seen="https://github.com/apache/iceberg/issues/15966: two vectors on one file, and every scan fails",
)
def second_vector(w: World) -> Planted | None:
    """A data file gets a second deletion vector beside the first."""
    for t, k in positions(w):
        c = t.main[k - 1]
        new = {f.referenced for f in c.added_files if f.content == "deletion-vector" and f.referenced is not None}
        old = [f for f in c.removed_files if f.content == "deletion-vector" and f.referenced in new]
        if old:
            f = w.rng.choice(old)
            return w.planted(
                t.op(k).op, log=with_commit(t, k, removed_files=tuple(x for x in c.removed_files if x != f))
            )
    return None


@mutation(
    "position-deletes-after-upgrade",
    "metadata",
    "position-deletes-in-v3",
    seen="https://github.com/apache/iceberg/pull/16146: a commit that was prepared before the upgrade",
)
def position_deletes_in_v3(w: World) -> Planted | None:
    """A version 3 table gets a position delete file instead of a deletion vector."""
    for t, k in positions(w):
        c = t.main[k - 1]
        new = [f for f in c.added_files if f.content == "deletion-vector"]
        if new:
            f = w.rng.choice(new)
            other = replace(f, content="position-deletes", format="parquet", offset=None, length=None)
            files = tuple(other if x == f else x for x in c.added_files)
            return w.planted(t.op(k).op, log=with_commit(t, k, added_files=files))
    return None


@mutation(
    "orphan-deletion-vector",
    "metadata",
    "dangling-dv",
    seen="rewrite_position_delete_files while rewrite_data_files removes the data file",
)
def orphan_vector(w: World) -> Planted | None:
    """A deletion vector stays although its data file is gone."""
    for t, k in positions(w):
        c = t.main[k - 1]
        dead = {f.path for f in c.removed_files if f.content == "data"}
        with_it = [f for f in c.removed_files if f.content == "deletion-vector" and f.referenced in dead]
        if with_it:
            f = w.rng.choice(with_it)
            return w.planted(
                t.op(k).op, log=with_commit(t, k, removed_files=tuple(x for x in c.removed_files if x != f))
            )
    return None


@mutation("listed-file-missing", "metadata", "missing-file", seen=DELETED_LIVE)
def file_missing(w: World) -> Planted | None:
    """A file that a listed snapshot needs is not in the store."""
    return plant_missing(w, w.rng.choice(["data", "deletes"]))


listed_manifest_missing = replace(manifest_missing, name="listed-manifest-missing", checker="metadata")


@mutation(
    "manifest-corrupt",
    "metadata",
    "corrupt-file",
    seen="https://github.com/apache/iceberg/issues/16978: manifests written by two threads",
)
def manifest_corrupt(w: World) -> Planted | None:
    """A manifest cannot be read."""
    for t, k in positions(w):
        file, cause = f"metadata/{t.main[k - 1].snapshot_id}-m0.avro", "invalid magic"
        said = Problem("corrupt-file", f"manifest {file} is corrupt: {cause}", file, kind="manifest", cause=cause)
        return w.planted(t.op(k).op, log=with_commit(t, k, added=None, removed=None, problems=(said,)))
    return None


@mutation(
    "wrong-operation-name",
    "metadata",
    "wrong-operation",
    seen="validation trusts the operation of concurrent snapshots (MergingSnapshotProducer)",
)
def wrong_operation(w: World) -> Planted | None:
    """A snapshot that removed files calls itself an append."""
    for t, k in positions(w, lambda t, c: any(f.content == "data" for f in c.removed_files)):
        return w.planted(t.op(k).op, log=with_commit(t, k, operation="append"))
    return None


def _summary(w: World, prefix: str) -> Planted | None:
    for t, k in positions(w):
        summary = t.main[k - 1].summary
        key = w.choose(
            sorted(x for x in summary if x in (f"{prefix}-data-files", f"{prefix}-records", f"{prefix}-files-size"))
        )
        if key is not None:
            return w.planted(t.op(k).op, log=with_commit(t, k, summary={**summary, key: str(int(summary[key]) + 1)}))
    return None


@mutation(
    "summary-added-wrong",
    "metadata",
    "summary-count",
    seen="https://github.com/apache/iceberg/issues/16978: wrong totals from a data race",
)
def summary_added(w: World) -> Planted | None:
    """A summary states more files, records or bytes than the snapshot added."""
    return _summary(w, "added")


@mutation(
    "summary-total-wrong",
    "metadata",
    "summary-count",
    seen="https://github.com/apache/iceberg/issues/16978: wrong totals from a data race",
)
def summary_total(w: World) -> Planted | None:
    """A summary's total differs from that of the live files."""
    return _summary(w, "total")


def _reader_saw(code: str, words: str, does: str) -> Plant:
    def plant(w: World) -> Planted | None:
        for t, k in positions(w):
            said = f"{code}: {words.format(snapshot=t.main[k - 1].snapshot_id)}"
            return w.planted(t.op(k).op, log=with_commit(t, k, violations=(said,)))
        return None

    plant.__doc__ = does
    return plant


IN_MANIFESTS: tuple[Mutation, ...] = tuple(
    mutation(name, "metadata", code, seen=seen)(_reader_saw(code, words, does))
    for name, code, words, does, seen in (
        (
            "manifest-counts-wrong",
            "manifest-count",
            "manifest metadata/{snapshot}-m0.avro has 2 added files, its entry says 1",
            "A manifest list has other entry counts than the manifest.",
            "https://github.com/apache/iceberg/issues/16978",
        ),
        (
            "manifest-min-sequence-number-wrong",
            "min-sequence-number",
            "manifest metadata/{snapshot}-m0.avro says 7, its least is 3",
            "A manifest list states too high a minimum sequence number, so that planning skips delete files.",
            "https://github.com/apache/iceberg/issues/10312",
        ),
        (
            "entry-sequence-number-above-the-snapshots",
            "sequence-number",
            "data/x-{snapshot}.parquet has 9, the snapshot 8",
            "A manifest's entry has a sequence number that was not assigned yet.",
            "https://github.com/apache/iceberg/issues/10312",
        ),
        (
            "entry-sequence-number-null",
            "null-sequence-number",
            "data/x-{snapshot}.parquet is EXISTING and has none",
            "An EXISTING entry inherits the sequence number of a snapshot that did not add it.",
            "https://github.com/apache/iceberg/issues/16263",
        ),
        (
            "rows-renumbered",
            "kept-row-id",
            "the rows of data/x-{snapshot}.parquet had the ids from 8 on, and have those from 21 on here",
            "A manifest merge gives new row ids to the files that it keeps.",
            "https://github.com/apache/iceberg/pull/16263",
        ),
        (
            "record-count-wrong",
            "record-count",
            "data/x-{snapshot}.parquet has 3 rows, its entry says 4",
            "A manifest's entry states another number of rows than the file has.",
            "https://github.com/apache/iceberg/issues/16978",
        ),
        (
            "delete-beyond-the-end",
            "delete-position",
            "data/x-{snapshot}.parquet has 3 rows, position 17 is deleted",
            "A delete file deletes a row that its data file lacks: it was meant for another file.",
            "https://github.com/apache/iceberg/issues/16146",
        ),
        (
            "file-of-nobody",
            "foreign-file",
            "data/x-{snapshot}.parquet",
            "A file is EXISTING although the parent did not have it.",
            "https://github.com/apache/iceberg/issues/9230",
        ),
    )
)
"""Defects that only the reader of manifests can see, in its words."""

MUTATIONS: tuple[Mutation, ...] = (
    fork,
    pointer_back,
    predecessor_missing,
    predecessor_corrupt,
    log_lies,
    rewritten,
    another_table,
    downgraded,
    column_id,
    schema_lost,
    spec_lost,
    property_lost,
    schema_change_forgotten,
    property_change_forgotten,
    snapshot_lost,
    expired_too_much,
    tag_lost,
    not_current,
    dangling,
    listed_twice,
    sequence_reused,
    sequence_decreased,
    last_sequence,
    parent_unknown,
    row_ids_overlap,
    row_ids_missing,
    next_row_id,
    file_row_id,
    file_sequence,
    path_twice,
    second_vector,
    position_deletes_in_v3,
    orphan_vector,
    file_missing,
    listed_manifest_missing,
    manifest_corrupt,
    wrong_operation,
    summary_added,
    summary_total,
    *IN_MANIFESTS,
)
"""In the order of the file."""
