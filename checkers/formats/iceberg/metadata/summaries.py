"""The rules about a snapshot's summary: what it counts, and the operation that it names.

A summary's metrics are optional; those that are there are numbers, and are compared with the files that the log has.
``changed-partition-count`` and counts of manifests are not compared. Totals need the live files: ``metadata.walk`` compares them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

from checkers.formats.iceberg.metadata.chain import IcebergChain as Chain
from checkers.formats.iceberg.metadata.entries import MOST_FILES_LISTED, Entries, of, own
from checkers.formats.iceberg.metadata.rules import BrokenRule
from checkers.formats.iceberg.metadata.seen import VersionSeen
from checkers.formats.iceberg.records import IcebergCommit as Commit
from checkers.formats.iceberg.records import IcebergFile as FileEntry
from checkers.timeline import explain
from checkers.timeline.timeline import kind_of

SNAPSHOT_OPERATIONS = frozenset({"append", "replace", "overwrite", "delete"})
"""The operations that a snapshot's summary can name (spec, "Snapshots")."""


def _size(f: FileEntry) -> int:
    """The size that the summary counts (``ScanTaskUtil.contentSizeInBytes``): for a deletion vector only its blob."""
    return f.length if f.content == "deletion-vector" and f.length is not None else f.size


def measures(files: tuple[FileEntry, ...]) -> dict[str, int]:
    """Numbers of files, records and bytes, named as in the summary's metrics; do not change it."""
    if not files:
        return _OF_NONE
    out = {**_OF_NONE}
    for f in files:
        content = f.content
        if content == "data":
            out["files-size"] += f.size
            out["data-files"] += 1
            out["records"] += f.records
            continue
        out["files-size"] += _size(f)
        out["delete-files"] += 1
        out["equality-deletes" if content == "equality-deletes" else "position-deletes"] += f.records
        if content in _FILES_OF:
            out[_FILES_OF[content]] += 1
    return out


class FileMeasures:
    """As :func:`measures`, of the files that the commits of a log added or removed; each is measured once."""

    def __init__(self) -> None:
        self._known: dict[int, dict[str, int]] = {}

    def __call__(self, files: tuple[FileEntry, ...]) -> dict[str, int]:
        """What files come to that a commit keeps, so that they stay the same object."""
        if not files:
            return _OF_NONE
        found = self._known.get(id(files))
        if found is None:
            found = self._known[id(files)] = measures(files)
        return found


FILE_METRICS = (
    "data-files",
    "delete-files",
    "records",
    "files-size",
    "dvs",
    "position-delete-files",
    "equality-delete-files",
    "position-deletes",
    "equality-deletes",
)
"""What is measured of files."""
_OF_NONE = dict.fromkeys(FILE_METRICS, 0)
_FILES_OF = {
    "deletion-vector": "dvs",
    "position-deletes": "position-delete-files",
    "equality-deletes": "equality-delete-files",
}

_REMOVED = {"data-files": "deleted-data-files", "records": "deleted-records"}
"""Metrics whose removals are called ``deleted-…``; all others ``removed-…``."""

_CHANGES = {
    key: (metric, removed)
    for metric in FILE_METRICS
    for removed, key in enumerate((f"added-{metric}", _REMOVED.get(metric, f"removed-{metric}")))
}
"""What a summary calls the additions and the removals of each metric → the metric, and 0 or 1."""

TOTALS = ("data-files", "delete-files", "records", "files-size", "position-deletes", "equality-deletes")
"""Metrics that have a ``total-…``."""


_WHOLE = re.compile(r"-?\d{1,18}")


def number(summary: Mapping[str, str], key: str) -> int | None:
    text = summary.get(key)
    return _whole(text) if isinstance(text, str) else None


@lru_cache(1 << 12)
def _whole(text: str) -> int | None:
    return int(text) if _WHOLE.fullmatch(text) else None


def check_summaries(chain: Chain, seen: VersionSeen, entries: Entries, measured: FileMeasures) -> set[int]:
    """What summaries say that a snapshot added and removed; returns the snapshots that say it wrong.

    Who removes a file whose entry was wrong from the beginning may count what is right.
    """
    compared = 0
    keys_of: dict[
        tuple[str, ...], list[str]
    ] = {}  # a summary's keys → those that count changes, in the order of METRICS
    miscounted: set[int] = set()
    for c in chain.log.commits:
        if not c.readable or c.problems:
            continue
        files = measured(c.added_files), measured(c.removed_files)
        wrong: list[str] = []
        bad = entries.wrong
        doubtful = bool(bad) and any(of(f) in bad or (f.path, None) in bad for f in c.removed_files)
        summary = c.summary
        keys = keys_of.get(said_keys := (*summary,))
        if keys is None:
            keys = keys_of[said_keys] = [key for key in _CHANGES if key in summary]
        for key in keys:
            metric, removed = _CHANGES[key]
            if doubtful and removed:
                continue
            summed, real = number(summary, key), files[removed][metric]
            compared += summed is not None
            if summed != real:
                wrong.append(f"{key} is {summary[key]}, its manifests have {real}")
        if wrong:
            miscounted.add(c.snapshot_id)
            seen.findings.append(wrong_summary(chain, c, wrong))
        operation = None if c.operation == "overwrite" else _contradiction(chain, c, *files)
        if operation:
            seen.findings.append(
                BrokenRule(
                    "wrong-operation",
                    f"{explain.snapshot(c)} of {explain.maker(c, chain.by_op)} calls itself {c.operation or 'nothing'}, {operation}.",
                    ops=() if c.op is None else (c.op,),
                    snapshots=(c.snapshot_id,),
                    files=tuple(f.path for f in (*c.added_files, *c.removed_files))[:MOST_FILES_LISTED],
                )
            )
    seen.count("summary_metrics_compared", compared)
    return miscounted


def wrong_summary(chain: Chain, c: Commit, wrong: list[str]) -> BrokenRule:
    return BrokenRule(
        "summary-count",
        f"the summary of {explain.snapshot(c)} of {explain.maker(c, chain.by_op)} does not match what the snapshot did: {'; '.join(wrong)}.",
        ops=() if c.op is None else (c.op,),
        snapshots=(c.snapshot_id,),
    )


def _contradiction(chain: Chain, c: Commit, added: Mapping[str, int], removed: Mapping[str, int]) -> str | None:
    """What a snapshot did that its operation excludes.

    Rows that maintenance changed are left to the ``replay`` checker: they are what is wrong then, not the operation.
    """
    if c.operation == "append" and (removed["data-files"] or added["delete-files"]):
        return f"yet it removed {removed['data-files']} data files and added {added['delete-files']} delete files"
    if c.operation == "delete" and (data := sum(f.content == "data" for f in own(c))):
        return f"yet it added {data} data files"
    if c.operation == "replace" and (c.added or c.removed):
        o = chain.by_op.get(c.op or "")
        kind = kind_of(o) if o is not None else None
        if o is None or kind is None or kind.changes_rows:
            return f"yet it removed {len(c.removed or ())} rows and added {len(c.added or ())}"
    if c.operation in SNAPSHOT_OPERATIONS:
        return None
    versions = chain.log.metadata
    dated = 0 <= c.metadata < len(versions) and versions[c.metadata].format_version >= 2
    return f"and an operation is one of {', '.join(sorted(SNAPSHOT_OPERATIONS))}" if c.operation or dated else None
