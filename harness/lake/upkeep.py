"""The lake keeps itself small: files of a day are rewritten into one, old snapshots expire, and files that nothing needs are removed."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from datetime import date, timedelta
from time import time

from pyiceberg.exceptions import CommitFailedException, ValidationException
from pyiceberg.manifest import ManifestFile
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from checkers.lake.tables import TABLES, TableSchema
from harness.lake.lake import Lake, within

MOST_FILES = 16
"""Small files of one day and table, beyond which they are rewritten."""
SMALL = 16 << 20
"""Bytes below which a file is small."""
MOST_BYTES = 512 << 20
"""Bytes of a day and table beyond which it is not rewritten: it is read into memory."""
KEEP, KEEP_S = 10, 3600.0
"""Snapshots that stay: so many of the newest, and those younger than so many seconds, which a reader may still use."""
EPOCH = date(1970, 1, 1)
SLACK = 10
"""Snapshots beyond :data:`KEEP` before any expire."""


def tend(lake: Lake, days: Iterable[date], *, most_files: int = MOST_FILES, now: float | None = None) -> int:
    """Compact the days of all tables that need it, and expire snapshots; return how many days of tables were rewritten.

    Args:
        days: those that were written since.
        now: seconds since the epoch.

    Raises:
        LakeError: the lake cannot be written.
    """
    done = 0
    for schema in TABLES:
        table = lake.table(schema.name)
        for day in sorted({*days}):
            done += compact(lake, schema, day, table, most_files)
        expire(lake, schema, time() if now is None else now)
    return done


def every_day(lake: Lake) -> set[date]:
    """The days that any table has."""
    days: set[date] = set()
    for schema in TABLES:
        # PyIceberg gives a partition's date as its day since 1970.
        since = {int(task.file.partition[0]) for task in lake.table(schema.name).scan().plan_files()}
        days |= {EPOCH + timedelta(days=n) for n in since}
    return days


def compact(lake: Lake, schema: TableSchema, day: date, table: Table, most_files: int) -> bool:
    """Rewrite the files of a day of a table into one, if too many are small; return whether it was done.

    The rows are read from one snapshot and replaced in one commit, which PyIceberg refuses if another commit has added or removed rows of
    that day since. Then the files stay; the next writer tries it again.
    """
    that = within("day", {day})
    files = [task.file for task in table.scan(row_filter=that).plan_files()]
    size = sum(f.file_size_in_bytes for f in files)
    if sum(f.file_size_in_bytes < SMALL for f in files) <= most_files or size > MOST_BYTES:
        return False

    return lake.change(schema.name, lambda t: rewritten(t, schema, day))


def rewritten(table: Table, schema: TableSchema, day: date) -> bool:
    """Rewrite the files that a day has in this state of the table; False if another writer has changed the day since."""
    that = within("day", {day})
    rows = table.scan(row_filter=that).to_arrow().cast(schema.schema).sort_by("run")
    try:
        table.overwrite(rows, overwrite_filter=that)
    except (CommitFailedException, ValidationException):
        return False
    return True


def expire(lake: Lake, schema: TableSchema, now: float) -> bool:
    """Expire the snapshots of a table that are neither young nor among the newest, if there are many; return whether any did."""
    table = lake.table(schema.name)
    snapshots = sorted(table.metadata.snapshots, key=lambda s: s.sequence_number or 0)
    old = [s for s in snapshots[:-KEEP] if s.timestamp_ms < (now - KEEP_S) * 1000]
    if len(old) < SLACK:
        return False

    def forget(t: Table) -> None:
        there = {s.snapshot_id for s in t.metadata.snapshots}
        ids = [s.snapshot_id for s in old if s.snapshot_id in there]
        if ids:
            t.maintenance.expire_snapshots().by_ids(ids).commit()

    lake.change(schema.name, forget)
    _remove(lake.table(schema.name), old)
    return True


def _remove(table: Table, expired: Iterable[Snapshot]) -> None:
    """Remove the files that only expired snapshots need. They are gone from the table, so nobody else removes others."""
    kept = _manifests(table, table.metadata.snapshots)
    gone = {path: m for path, m in _manifests(table, expired).items() if path not in kept}
    lists = {s.manifest_list for s in expired} - {s.manifest_list for s in table.metadata.snapshots}
    data = _files(table, gone.values(), live=False)
    needed = _files(table, kept.values(), live=True) if data else set()
    for path in [*(data - needed), *gone, *lists]:
        with contextlib.suppress(OSError):  # another process removes the same ones
            table.io.delete(path)


def _manifests(table: Table, snapshots: Iterable[Snapshot]) -> dict[str, ManifestFile]:
    found: dict[str, ManifestFile] = {}
    for s in snapshots:
        with contextlib.suppress(OSError):
            found.update((m.manifest_path, m) for m in s.manifests(table.io))
    return found


def _files(table: Table, manifests: Iterable[ManifestFile], *, live: bool) -> set[str]:
    """The data files that manifests name; ``live``: without those that they name as removed."""
    found: set[str] = set()
    for m in manifests:
        with contextlib.suppress(OSError):
            found |= {e.data_file.file_path for e in m.fetch_manifest_entry(table.io, discard_deleted=live)}
    return found
