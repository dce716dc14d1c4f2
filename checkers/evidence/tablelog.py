"""The table log: the commits according to the table's own files, in commit order, with the exact rows of every commit.

It is read from the object store by ``harness.tablefiles.reader`` (never through Spark) and saved next to the history
(``checkers.evidence.tablelog_file``), so that checkers work later, offline, on any machine.

A commit's rows are **net**: a copy-on-write rewrite carries unchanged rows into new files; those are neither added nor
removed. Rows are multisets (a key may occur twice), so equal rows are repeated.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from checkers.evidence.problem import Problem

Row = tuple[Any, ...]
"""A row's values in the order of the header's ``columns``."""

FileContent = Literal["data", "position-deletes", "equality-deletes", "deletion-vector"]


class TableLogError(ValueError):
    """A table log file cannot be read; the message names the file, the line and the problem."""


class FileEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """One file that a commit added to or removed from the table (Iceberg spec, manifest entries).

    ``path`` is relative to the table's location where it lies below it. ``referenced`` is the data file a deletion
    vector (or a file-scoped position delete file) belongs to; ``offset``/``length`` (bytes) locate a deletion
    vector's blob. Sequence numbers and ``first_row_id`` include what the manifest entry inherits;
    ``snapshot_id`` is the snapshot that the manifest says added the file (of a removed file: as its parent's
    manifests said). A file from before version 3 gets its row ids at a later commit, which does not list it.
    ``spec_id`` is the partition spec of ``partition``; logs of earlier releases do not have it.
    """

    path: str
    content: FileContent
    format: str
    records: int
    size: int
    partition: dict[str, Any]
    data_sequence_number: int | None
    referenced: str | None = None
    offset: int | None = None
    length: int | None = None
    first_row_id: int | None = None
    file_sequence_number: int | None = None
    snapshot_id: int | None = None
    spec_id: int | None = None


class RowChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False, array_like=True):
    """A row that a commit made appear or disappear, and where: data file and position (from 0) in it.

    ``by`` is the delete file that hides (or no longer hides) the row; None if the data file itself was added or removed.
    """

    row: Row
    file: str
    pos: int
    by: str | None = None


class Commit(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False, tag_field="type", tag="commit"):
    """One snapshot.

    Attributes:
        op: id of the operation that made it (summary key ``icequake-op``), None if the snapshot has none.
        attempt: number of tries its producer made, the winning one included (from ``snap-<id>-<attempt>-<uuid>.avro``).
        metadata: ``n`` of the metadata version that first shows the snapshot.
        added, removed: net rows relative to the parent snapshot; None if they are unknown (see ``problems``).
        problems: what could not be read, in words: a missing file, a parent that was never seen.
        violations: what was read and breaks the spec, as ``code: words``, seen where the snapshot's manifests were
            first read: ``duplicate-path``, ``several-dvs``, ``dangling-dv``, ``foreign-file`` (live, not in the
            parent, and not added by this snapshot), ``manifest-count``, ``min-sequence-number``, ``sequence-number``,
            ``null-sequence-number``, ``record-count``, ``delete-position`` (beyond the end of the data file),
            ``file-partition`` (not that of its rows), ``delete-partition`` (not that of the data file),
            ``removed-not-live``, ``entry-changed`` (a removed file is told differently than it was live).
    """

    snapshot_id: int
    parent_id: int | None
    sequence_number: int
    timestamp_ms: int
    operation: str
    summary: dict[str, str]
    op: str | None
    attempt: int | None
    manifest_list: str
    schema_id: int | None
    metadata: int
    added: tuple[RowChange, ...] | None
    removed: tuple[RowChange, ...] | None
    added_files: tuple[FileEntry, ...]
    removed_files: tuple[FileEntry, ...]
    first_row_id: int | None = None
    added_rows: int | None = None
    problems: tuple[Problem, ...] = ()
    violations: tuple[str, ...] = ()

    @property
    def readable(self) -> bool:
        """Whether its rows are known."""
        return self.added is not None and self.removed is not None


class Metadata(msgspec.Struct, frozen=True, gc=False):
    """One metadata.json of the chain, without the facts that the commits have.

    ``current`` is main's snapshot (None: empty table), ``snapshots`` the ids listed, ``refs`` name → snapshot id,
    ``raw`` the rest of the file (schemas, specs, properties, snapshot log), for the ``metadata`` checker; versions
    share equal parts, so do not change it. ``problems``: where the chain is broken at this version, in words (it does
    not descend from the version before it, its predecessor is missing, it describes a snapshot differently than
    an earlier version).
    """

    n: int
    location: str
    last_updated_ms: int
    format_version: int
    current: int | None
    snapshots: tuple[int, ...]
    refs: dict[str, int]
    last_sequence_number: int
    next_row_id: int | None
    raw: dict[str, Any]
    problems: tuple[Problem, ...] = ()


class Capture(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False, tag_field="type", tag="capture"):
    """The reader saw everything up to ``time`` (ns since the start of the run); ``metadata``: where the pointer was."""

    time: int
    metadata: str | None


@dataclass(frozen=True, slots=True)
class Growth:
    """What a table log gained: whole versions with the commits that they are the first to show, and captures.

    A capture that the store cut short leaves versions without a capture; those after the last one need not be all that there are.
    """

    table: str
    columns: tuple[str, ...]
    metadata: tuple[Metadata, ...]
    commits: tuple[Commit, ...]
    captures: tuple[Capture, ...]


class MissingFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False, array_like=True):
    """A file that is not in the store although ``snapshots`` (ids, all listed by the last metadata) need it."""

    path: str
    snapshots: tuple[int, ...]


@dataclass(frozen=True)
class TableLog:
    """A table's whole log. ``complete`` is False for a run that ended before the final reading.

    ``missing_files`` is determined once, at the end: it has files that were read earlier and are gone now.
    """

    table: str
    identifier: str
    location: str
    columns: tuple[str, ...]
    metadata: tuple[Metadata, ...]
    commits: tuple[Commit, ...]
    captures: tuple[Capture, ...]
    complete: bool
    problems: tuple[Problem, ...] = ()
    missing_files: tuple[MissingFile, ...] = ()

    @property
    def captured_until(self) -> int | None:
        """What was acknowledged before this (ns since the start of the run) must be in the log; None: nothing yet."""
        return self.captures[-1].time if self.captures else None

    @property
    def committed_again(self) -> frozenset[int]:
        """Ids that were committed again as different snapshots, where the catalog lists only the current snapshot (Nessie over REST).

        A client whose acknowledgement was lost then commits its snapshot again, on another parent; with other catalogs it, or the
        server, sees that the id is taken. The log has the first one, so main's ancestry since then is unknown.
        """
        if len(self.commits) < 2 or any(len(m.snapshots) > 1 for m in self.metadata):
            return frozenset()
        said = (p for m in self.metadata for p in m.problems if p.code == "snapshot-changed")
        return frozenset(p.snapshot for p in said if p.snapshot is not None)

    def by_snapshot(self) -> dict[int, Commit]:
        """Snapshot id → commit."""
        return {c.snapshot_id: c for c in self.commits}

    def by_op(self) -> dict[str, list[Commit]]:
        """Operation id → its commits, in the order of the chain."""
        out: dict[str, list[Commit]] = {}
        for c in self.commits:
            if c.op is not None:
                out.setdefault(c.op, []).append(c)
        return out

    def main(self) -> list[Commit]:
        """Main's final ancestry, oldest first, as far back as the log has parents.

        Ancestry, not presence in ``commits``, decides whether a snapshot took effect: after a lost acknowledgement
        main can be moved back below a snapshot that stays listed.
        """
        current = self.metadata[-1].current if self.metadata else None
        known = self.by_snapshot()
        chain: list[Commit] = []
        seen: set[int] = set()
        while current is not None and current in known and current not in seen:
            seen.add(current)
            chain.append(known[current])
            current = known[current].parent_id
        chain.reverse()
        return chain
