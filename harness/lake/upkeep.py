"""The lake keeps itself small: files of a day are rewritten into one, old snapshots expire, and files that nothing needs are removed."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from time import time

from pyiceberg.exceptions import CommitFailedException, ValidationException
from pyiceberg.manifest import ManifestFile
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from checkers.lake.tables import LAKE_TABLES, TableSchema
from harness.lake.errors import LakeError
from harness.lake.lake import Lake, within

MOST_SMALL_FILES = 16
"""Small files of one day and table, beyond which they are rewritten."""
SMALL = 16 << 20
"""Bytes below which a file is small."""
MOST_BYTES, MOST_ROWS = 512 << 20, 4_000_000
"""Bytes, and rows, of a day and table beyond which it is not rewritten: it is read into memory, where a row has about 200 bytes."""
KEEP, KEEP_S = 10, 3600.0
"""Snapshots that stay: so many of the newest, and those younger than so many seconds, which a reader may still use."""
EPOCH = date(1970, 1, 1)
SLACK = 10
"""Snapshots beyond :data:`KEEP` before any expire."""
ENDED = (
    "the upkeep of this table ended there; its rows stay, files that nothing needs may stay, too, and the next upkeep, or "
    "`icequake lake compact`, goes on"
)


@dataclass
class Tended:
    """What upkeep did.

    Attributes:
        days: how many days of tables were rewritten.
        ended: of each table whose upkeep ended early, why, in one line.
    """

    days: int = 0
    ended: list[str] = field(default_factory=list)


def tend(lake: Lake, days: Iterable[date], *, most_files: int = MOST_SMALL_FILES, now: float | None = None) -> Tended:
    """Compact the days of all tables that need it, and expire snapshots.

    Whatever cannot be read or written ends the upkeep of its table, and what is there stays: any file may be needed by what was not read.

    Args:
        days: those that were written since.
        now: seconds since the epoch.
    """
    done = Tended()
    for schema in LAKE_TABLES:
        try:
            with lake.reading(schema.name):
                table = lake.table(schema.name)
                for day in sorted({*days}):
                    done.days += compact(lake, schema, day, table, most_files)
                expire(lake, schema, time() if now is None else now)
        except LakeError as e:
            done.ended.append(f"{e}; {ENDED}")
    return done


def every_day(lake: Lake) -> set[date]:
    """The days that any table has.

    Raises:
        LakeError: the lake cannot be read.
    """
    days: set[date] = set()
    for schema in LAKE_TABLES:
        with lake.reading(schema.name):
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
    size, rows = sum(f.file_size_in_bytes for f in files), sum(f.record_count for f in files)
    if sum(f.file_size_in_bytes < SMALL for f in files) <= most_files or size > MOST_BYTES or rows > MOST_ROWS:
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
    """Expire the snapshots of a table that are neither young nor among the newest, if there are many; return whether any did.

    Which files nothing needs then is read before, so that a file that cannot be read leaves the table, and this work, as they were. The
    snapshots that other writers add meanwhile need no other files than the newest one and their own.
    """
    table = lake.table(schema.name)
    snapshots = sorted(table.metadata.snapshots, key=lambda s: s.sequence_number or 0)
    named = {ref.snapshot_id for ref in table.metadata.refs.values()}
    old = [s for s in snapshots[:-KEEP] if s.timestamp_ms < (now - KEEP_S) * 1000 and s.snapshot_id not in named]
    if len(old) < SLACK:
        return False
    unneeded = _needed_only_by(old, table)

    def forget(t: Table) -> None:
        present = {s.snapshot_id for s in t.metadata.snapshots}
        ids = [s.snapshot_id for s in old if s.snapshot_id in present]
        if ids:
            t.maintenance.expire_snapshots().by_ids(ids).commit()

    lake.change(schema.name, forget)
    lake.change(schema.name, lambda t: _remove(t, unneeded))
    return True


def _remove(table: Table, paths: Iterable[str]) -> None:
    for path in paths:
        with contextlib.suppress(FileNotFoundError):  # another process removes the same ones
            table.io.delete(path)


def _needed_only_by(old: Sequence[Snapshot], table: Table) -> list[str]:
    """The files that these snapshots of a table need, and no other one.

    Raises:
        Exception: a file of another snapshot is missing, or any file cannot be read: as PyIceberg raises it.
    """
    ids = {s.snapshot_id for s in old}
    stay = [s for s in table.metadata.snapshots if s.snapshot_id not in ids]
    kept = _manifests(table, stay)
    unneeded = {path: m for path, m in _manifests(table, old, EXPIRED).items() if path not in kept}
    lists = {s.manifest_list for s in old} - {s.manifest_list for s in stay}
    data = _files(table, unneeded.values(), EXPIRED, live=False)
    needed = _files(table, kept.values(), live=True) if data else set()
    return [*(data - needed), *unneeded, *lists]


EXPIRED = (FileNotFoundError,)
"""What the files of an old snapshot may raise: another process has expired it meanwhile."""


def _manifests(
    table: Table, snapshots: Iterable[Snapshot], passed: tuple[type[OSError], ...] = ()
) -> dict[str, ManifestFile]:
    found: dict[str, ManifestFile] = {}
    for s in snapshots:
        with contextlib.suppress(*passed):
            found.update((m.manifest_path, m) for m in s.manifests(table.io))
    return found


def _files(
    table: Table, manifests: Iterable[ManifestFile], passed: tuple[type[OSError], ...] = (), *, live: bool
) -> set[str]:
    """The data files that manifests name; ``live``: without those that they name as removed."""
    found: set[str] = set()
    for m in manifests:
        with contextlib.suppress(*passed):
            found |= {e.data_file.file_path for e in m.fetch_manifest_entry(table.io, discard_deleted=live)}
    return found
