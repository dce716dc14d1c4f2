"""Bugs that the ``replay`` and ``metadata`` checkers must find: files that a table needs and that are not in the store."""

from __future__ import annotations

from collections.abc import Callable

from checkers.evidence.paths import commit_uuid
from checkers.evidence.problem import Problem
from checkers.evidence.replace import replace
from checkers.evidence.tablelog import MissingFile
from checkers.formats.iceberg.records import IcebergLog as TableLog
from checkers.selftest.goodtable import GoodTable
from checkers.selftest.plant import Plant, Plants, table, whole
from checkers.selftest.sites import CommitSite, commits, live
from checkers.selftest.world import UNWRITTEN, Planted, World

DELETED_LIVE = (
    "JDBC catalog, connection cut after UPDATE 1: the client considers its commit failed and deletes its files"
)


def file_missing(*roles: str) -> Callable[[World], Planted | None]:
    """A live file is not in the store: a data file, or (``deletes``) a delete file or vector."""

    def change(w: World) -> Planted | None:
        data = (w.rng.choice(roles) if len(roles) > 1 else roles[0]) == "data"
        found = [(t, f) for t in w.tables for f in live(t.main).values() if (f.content == "data") == data]
        if not found:
            return None
        t, f = w.rng.choice(sorted(found, key=lambda x: (x[0].name, x[1].path)))
        holders = (k for k in t.positions if any(path == f.path for path, _ in live(t.main[:k])))
        makers = {c.op for c in t.main if f in c.added_files and c.op is not None}
        return w.planted(*makers, log=_missing(t, f.path, *holders))

    return change


def _missing(t: GoodTable, path: str, *needed_at: int) -> TableLog:
    """The log in which a file is missing that listed snapshots of these positions need."""
    listed = set(t.log.metadata[-1].snapshots)
    needed = tuple(s for k in needed_at if (s := t.main[k - 1].snapshot_id) in listed)
    return replace(t.log, missing_files=(MissingFile(path, needed),))


def manifest_list_missing(p: CommitSite) -> Planted:
    """The manifest list of a listed snapshot is not in the store."""
    return p.planted(log=_missing(p.t, p.c.manifest_list, p.k))


def manifest_missing(w: World) -> Planted | None:
    """A manifest that several snapshots share is not in the store."""
    t = w.choose(w.tables)
    if t is None:
        return None
    first = w.rng.choice([k for k in t.positions if t.main[k - 1].snapshot_id in t.log.metadata[-1].snapshots])
    writer = w.rng.randint(1, first)  # a manifest may be older than the snapshots that still need it
    wrote = commit_uuid(t.main[writer - 1].manifest_list)
    if wrote is None:
        return None
    path = f"metadata/{wrote}-m{w.rng.randrange(3)}.avro"
    return w.planted(t.op(writer).op, log=_missing(t, path, *range(first, len(t.main) + 1)))


def metadata_missing(w: World) -> Planted | None:
    """The catalog's pointer names a metadata file that is not in the store."""
    t = w.choose(t for t in w.tables if t.log.captures)
    if t is None:
        return None
    location = f"{t.log.location}/metadata/99999-gone.metadata.json"
    problem = Problem("missing-metadata", f"metadata file {location} is missing", location)
    log = replace(t.with_capture(-1, location), problems=(*t.log.problems, problem))
    return w.planted(log=log, nobody=UNWRITTEN)


ROW_PLANTS: Plants = {
    "data-file-missing: A data file of the current snapshot is not in the store.": Plant(
        file_missing("data"), neutral=True
    ),
    "delete-file-missing: A delete file or deletion vector of the current snapshot is not in the store.": Plant(
        file_missing("deletes"), neutral=True
    ),
    "manifest-list-missing": Plant(
        manifest_list_missing,
        where=commits(lambda t: (k for k in t.positions if t.main[k - 1].snapshot_id in t.log.metadata[-1].snapshots)),
        seen="apache/iceberg#14583: a retry that finds nothing to do deletes the live snapshot's manifest list",
    ),
    "manifest-missing": Plant(
        manifest_missing, seen="apache/iceberg#9230: manifests that a retry had merged are deleted"
    ),
    "metadata-file-missing": Plant(
        metadata_missing,
        seen="apache/iceberg#11814: Hive Metastore's client retries, and the metadata is deleted as after a failure",
    ),
}

PLANTS = table(ROW_PLANTS, "replay", names="missing-file", where=whole, seen=DELETED_LIVE)
