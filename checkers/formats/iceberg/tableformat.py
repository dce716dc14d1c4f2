"""What the core asks of Iceberg: its backoff, the names of its files, and what of a metadata.json is only time."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from checkers.evidence.paths import commit_uuid
from checkers.evidence.replace import replace
from checkers.evidence.tableformat import TableFormat
from checkers.formats.iceberg.records import ICEBERG_RECORDS, IcebergCommit, IcebergMetadata
from workloads.backoff import RetryLimits

IN_EVERY_VERSION = frozenset({"metadata-log", "snapshot-log", "last-updated-ms", "last-sequence-number", "next-row-id"})
"""What differs from version to version although nothing but a snapshot was added; the log of predecessors is mended."""


_TOTALS = (
    ("total-data-files", "added-data-files", "deleted-data-files"),
    ("total-delete-files", "added-delete-files", "removed-delete-files"),
    ("total-records", "added-records", "deleted-records"),
    ("total-files-size", "added-files-size", "removed-files-size"),
)
"""Metrics that a summary carries over from that of its parent, with what it says that the snapshot changed."""


class Iceberg(TableFormat[IcebergCommit, IcebergMetadata]):
    """Apache Iceberg, versions 2 and 3."""

    name = "iceberg"
    title = "Iceberg"
    version = "metadata version"
    records = ICEBERG_RECORDS

    def joined(self, line: Sequence[IcebergCommit]) -> IcebergCommit:
        return replace(line[-1], violations=tuple(v for c in line for v in c.violations))

    def backoff(self, properties: Mapping[str, Any]) -> RetryLimits:
        """By ``commit.retry.*``; what is no whole number counts as unsaid."""
        own = RetryLimits().properties()
        given = {k: n for k in own if isinstance(n := properties.get(k), str) and re.fullmatch(r"\d{1,12}", n)}
        return RetryLimits(*(int(given.get(k, n)) for k, n in own.items()))

    def same_but_time(self, first: IcebergMetadata, other: IcebergMetadata) -> bool:
        if first.format_version != other.format_version:
            return False
        a, b = first.raw, other.raw
        keys = (a.keys() | b.keys()) - IN_EVERY_VERSION
        return all(a.get(k) is b.get(k) or a.get(k) == b.get(k) for k in keys)

    def follows(self, m: IcebergMetadata, location: str) -> IcebergMetadata:
        entries = m.raw["metadata-log"]
        return replace(m, raw={**m.raw, "metadata-log": [*entries[:-1], {**entries[-1], "metadata-file": location}]})

    def maker_of(self, path: str) -> str | None:
        """The UUID in the name of a manifest or a manifest list."""
        return commit_uuid(path)

    def made_on(self, c: IcebergCommit, parent: IcebergCommit | None) -> bool | None:
        """By the totals of both summaries."""
        answers: list[bool] = []
        for total, gained, lost in _TOTALS:
            after = _count(c, total)
            before = 0 if parent is None else _count(parent, total)
            plus, minus = (_count(c, key, 0) for key in (gained, lost))
            if after is not None and before is not None and plus is not None and minus is not None:
                answers.append(after == before + plus - minus)
        return all(answers) if answers else None

    def described(self, spec: Mapping[str, Any]) -> str:
        return f"format version {spec.get('format_version', 2)}"

    set_back_note = (
        "Point the writers and readers of {tables} to what you registered. Both names have the same files: run no expiry or orphan removal "
        "until the old one is dropped, without PURGE; then rename the new one if the catalog can."
    )

    def set_back(self, c: IcebergCommit, m: IcebergMetadata, table: str) -> str:
        """The catalog is told another metadata file: no list of the lost state is opened."""
        catalog, _, name = table.partition(".")
        return f"`CALL {catalog}.system.register_table('{name}_saved', '{m.location}')`"

    def brought_back(self, c: IcebergCommit, table: str) -> str | None:
        """Only an append is applied again as it is; other snapshots must stand on the current one (``CherryPickOperation``)."""
        if c.operation != "append":
            return None
        catalog, _, name = table.partition(".")
        return f"`CALL {catalog}.system.cherrypick_snapshot('{name}', {c.snapshot_id})` brings its rows back"

    def misses_moved_rows(self, m: IcebergMetadata) -> bool:
        """Position deletes of version 2 are written for the file that the scan saw; a deletion vector of version 3 is refused then."""
        return m.format_version == 2


def _count(c: IcebergCommit, key: str, absent: int | None = None) -> int | None:
    """A number of a summary; None: it is none."""
    text = c.summary.get(key)
    if text is None:
        return absent
    return int(text) if re.fullmatch(r"\d{1,18}", text) else None
