"""What an Iceberg table's log says beyond what every table log does (:mod:`checkers.evidence.tablelog`).

``raw`` of a ``metadata`` record has only what differs from the record before it: ``same`` names the keys that are unchanged, and a list
that only lost entries at its start and gained some at its end is ``{"skip": n, "keep": n, "add": [...]}`` under ``grown``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

import msgspec

from checkers.evidence import record
from checkers.evidence.record import RecordError
from checkers.evidence.tableformat import NO_RECORD_BEFORE, MetadataRecord, Records
from checkers.evidence.tablelog import Commit, FileEntry, Metadata, TableLog
from checkers.formats.iceberg.statistics import ManifestLine
from nemesis.operation_key import OPERATION_KEY

"""The key of a summary that names the snapshot's operation."""
_UUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_SNAP = re.compile(rf"snap-(-?\d+)-(?!{_UUID}\.)(\d+)-[^/]*\.avro$")
"""DuckDB's names have no attempt: ``snap-<id>-<uuid>.avro``, and a UUID can begin with eight digits."""


def attempt_of(manifest_list: str) -> int | None:
    """The producer's attempt number in a manifest list's name ``snap-<snapshot id>-<attempt>-<uuid>.avro``; None for other names.

    Source: Iceberg ``SnapshotProducer.manifestListPath``. PyIceberg writes 0.
    """
    m = _SNAP.search(manifest_list)
    return int(m[2]) if m else None


class IcebergFile(FileEntry, frozen=True, gc=False, kw_only=True):
    """A data or delete file (Iceberg spec, manifest entries).

    ``referenced`` is the data file a deletion vector (or a file-scoped position delete file) belongs to; ``offset``/``length`` (bytes)
    locate a deletion vector's blob. Sequence numbers and ``first_row_id`` include what the manifest entry inherits;
    ``snapshot_id`` is the snapshot that the manifest says added the file (of a removed file: as its parent's
    manifests said). A file from before version 3 gets its row ids at a later commit, which does not list it.
    ``spec_id`` is the partition spec of ``partition``; logs of earlier releases do not have it, nor what follows.

    Attributes:
        equality_ids: field ids of the columns that an equality delete compares.
        columns: what the entry says of the columns, as a text of :mod:`checkers.formats.iceberg.statistics`. ``column_sizes`` are left out:
            compressed sizes depend on the writer's codec, and planners only estimate costs by them.
        exact: the same of the rows in the file, of each column whose values have an order; None: the file was not read, or has no field ids.
        stored: bytes of the object in the store; None: it was not read.
        manifest: which of the commit's ``manifests`` has the entry, from 0; None: another, or not known.
        key_metadata: as hexadecimal digits.
    """

    format: str
    data_sequence_number: int | None
    offset: int | None = None
    length: int | None = None
    first_row_id: int | None = None
    file_sequence_number: int | None = None
    snapshot_id: int | None = None
    spec_id: int | None = None
    equality_ids: tuple[int, ...] | None = None
    columns: str | None = None
    exact: str | None = None
    split_offsets: tuple[int, ...] | None = None
    sort_order_id: int | None = None
    key_metadata: str | None = None
    stored: int | None = None
    manifest: int | None = None

    @property
    def key(self) -> tuple[str, int | None]:
        """Deletion vectors share a Puffin file."""
        return self.path, self.offset

    def to_json(self) -> dict[str, Any]:
        """As a commit's line has it."""
        out: dict[str, Any] = msgspec.to_builtins(self)
        for k in _SINCE:
            if out[k] is None:
                del out[k]
        return out


_SINCE = (
    "spec_id",
    "equality_ids",
    "columns",
    "exact",
    "split_offsets",
    "sort_order_id",
    "key_metadata",
    "stored",
    "manifest",
)
"""Facts of a file that earlier releases did not write, and that many files do not have."""


class IcebergCommit(Commit, frozen=True, gc=False, kw_only=True):
    """A snapshot.

    Attributes:
        op: summary key ``icequake-op``.
        attempt: from ``snap-<id>-<attempt>-<uuid>.avro``.
        violations: what was read and breaks the spec, as ``code: words``, seen where the snapshot's manifests were
            first read: ``duplicate-path``, ``several-dvs``, ``dangling-dv``, ``foreign-file`` (live, not in the
            parent, and not added by this snapshot), ``manifest-count``, ``min-sequence-number``, ``sequence-number``,
            ``null-sequence-number``, ``record-count``, ``delete-position`` (beyond the end of the data file),
            ``file-partition`` (not that of its rows), ``delete-partition`` (not that of the data file),
            ``removed-not-live``, ``entry-changed`` (a removed file is told differently than it was live).
        manifests: the lines of its manifest list that no list said before, word by word; None in logs of earlier releases.
        kept_files: files that it has from its parent and whose entries, copied into a new manifest, say something else than before, as they
            are now; None in logs of earlier releases.
    """

    summary: dict[str, str]
    manifest_list: str
    schema_id: int | None
    added_files: tuple[IcebergFile, ...]
    removed_files: tuple[IcebergFile, ...]
    first_row_id: int | None = None
    added_rows: int | None = None
    violations: tuple[str, ...] = ()
    manifests: tuple[ManifestLine, ...] | None = None
    kept_files: tuple[IcebergFile, ...] | None = None

    @property
    def own_files(self) -> tuple[str, ...]:
        """The manifest list. Manifests serve later snapshots, too."""
        return (self.manifest_list,)

    @property
    def contradiction(self) -> str | None:
        """Another operation than the summary's, or another attempt than the manifest list's name has: the reader copies both."""
        named = self.summary.get(OPERATION_KEY)
        if named is not None and named != self.op:
            return f"op is {record.shown(self.op)}, but {OPERATION_KEY} of its summary is {record.shown(named)}"
        if named is None or self.manifest_list.startswith(f"metadata/snap-{self.snapshot_id}-{self.attempt}-"):
            return None  # as mostly
        tried = attempt_of(self.manifest_list)
        if tried and tried != self.attempt:  # PyIceberg's names say 0, and the history counts
            return (
                f"attempt is {record.shown(self.attempt)}, but its manifest list is {record.shown(self.manifest_list)}"
            )
        return None

    @property
    def procedure_counts(self) -> Mapping[str, int]:
        """Manifests, by the summary, and the bytes of delete files, unless some share a Puffin file, whose size counts once for all."""
        names = {"replaced manifests": "manifests-replaced", "added manifests": "manifests-created"}
        counts = {what: int(n) for what, key in names.items() if (n := self.summary.get(key, "")).isdecimal()}
        deletes = [f for f in self.added_files if f.role == "deletes"]
        if all(f.content == "position-deletes" for f in deletes):
            counts["bytes of added delete files"] = sum(f.size for f in deletes)
        return counts

    def share(self, words: dict[str, str]) -> None:
        """Summaries say the same numbers again and again."""
        for key, word in self.summary.items():
            self.summary[key] = words.setdefault(word, word)


class Grown(msgspec.Struct, frozen=True, gc=False):
    """How a list of ``raw`` grew; ``keep``: the number of entries that both have, which a log need not say."""

    skip: int
    add: list[Any]
    keep: int | None = None

    def after(self, key: str, old: list[Any]) -> list[Any]:
        """The list that ``old`` became.

        Raises:
            RecordError: ``old`` has no such entries.
        """
        length = len(old) - self.skip
        if 0 <= self.skip <= len(old) and self.keep in (None, length):
            return old[self.skip :] + self.add
        name, entries = record.shown(key), f"the number of entries in the record before, which is {len(old)}"
        record.must(0 <= self.skip <= len(old), f"{name}, which grew: skip", f"from 0 to {entries}", self.skip)
        raise RecordError(
            f"{name}, which grew: keep must be {length}, skip less than {entries}, not {record.shown(self.keep)}"
        )

    @staticmethod
    def between(old: Any, new: Any) -> dict[str, Any] | None:
        """``new`` as ``old`` without its first ``skip`` entries and with ``add`` at the end; None if ``new`` is not of that form."""
        if not isinstance(old, list) or not isinstance(new, list) or not old or not new:
            return None
        try:
            skip = old.index(new[0])
        except ValueError:
            return None
        keep = len(old) - skip
        if keep > len(new) or old[skip:] != new[:keep]:
            return None
        return {"skip": skip, "keep": keep, "add": new[keep:]}


def _carried(was: Any, value: Any, now: Any) -> bool:
    """Whether a change from ``was`` to ``value`` is in ``now``, which may have more changes: of keys, of entries, of a number."""
    if value in (was, now):
        return True
    if isinstance(was, dict) and isinstance(value, dict) and isinstance(now, dict):
        return all(value.get(k) == now.get(k) for k in {*was, *value} if was.get(k) != value.get(k))
    if isinstance(was, list) and isinstance(value, list) and isinstance(now, list):
        return all((x in value) == (x in now) for x in (*was, *value) if x not in was or x not in value)
    return type(value) is int and now != was


class IcebergMetadata(Metadata, frozen=True, gc=False, kw_only=True):
    """One metadata.json of the chain, without the facts that the commits have.

    ``raw`` is the rest of the file (schemas, specs, properties, snapshot log), for the ``metadata`` checker; versions share equal parts, so
    do not change it. Its ``refs`` have what the file says of each but the snapshot (type and retention); logs of earlier releases have none.
    """

    format_version: int
    last_sequence_number: int
    next_row_id: int | None
    raw: dict[str, Any]

    @property
    def predecessor(self) -> str | None:
        """The last entry of ``metadata-log``."""
        entries = self.raw.get("metadata-log")
        if not isinstance(entries, list) or not entries or not isinstance(entries[-1], dict):
            return None
        location = entries[-1].get("metadata-file")
        return location if isinstance(location, str) else None

    def carries(self, other: IcebergMetadata, base: IcebergMetadata) -> bool:
        """Also of a version without a change: nothing of it can be lost."""
        counts = ("format_version", "last_sequence_number", "next_row_id")
        if any((getattr(self, k) or 0) < (getattr(other, k) or 0) for k in counts):
            return False
        keys = {*base.raw, *other.raw} - {"metadata-log", "snapshot-log"}
        return (
            _carried([*base.snapshots], [*other.snapshots], [*self.snapshots])
            and _carried(*({k: v for k, v in m.refs.items() if k != "main"} for m in (base, other, self)))
            and all(_carried(base.raw.get(k), other.raw.get(k), self.raw.get(k)) for k in keys)
        )

    @property
    def properties(self) -> Mapping[str, Any]:
        """The table's properties; empty where they cannot be read."""
        given = self.raw.get("properties")
        return given if isinstance(given, dict) else {}

    @property
    def as_of(self) -> list[tuple[Any, Any]] | None:
        """The ``snapshot-log``."""
        try:
            return [(e["timestamp-ms"], e["snapshot-id"]) for e in self.raw.get("snapshot-log") or ()]
        except (TypeError, KeyError):
            return None

    def values(self, previous: Metadata | None) -> dict[str, Any]:
        out = super().values(previous)
        if not isinstance(previous, IcebergMetadata):
            return out
        same, grown, raw = [], {}, {}
        for k, v in self.raw.items():
            old = previous.raw.get(k)
            if k in previous.raw and (old is v or old == v):
                same.append(k)
            elif (g := Grown.between(old, v)) is not None:
                grown[k] = g
            else:
                raw[k] = v
        return out | {"raw": raw, "same": same, "grown": grown}


class IcebergRecord(MetadataRecord, frozen=True, gc=False, kw_only=True):
    """An :class:`IcebergMetadata` as a line of the file: all of it, or what differs from the line before."""

    format_version: int
    last_sequence_number: int
    next_row_id: int | None
    raw: dict[str, Any]
    same: list[str] | msgspec.UnsetType = msgspec.UNSET
    grown: dict[str, Grown] = msgspec.field(default_factory=dict)

    def after(self, previous: Metadata | None) -> IcebergMetadata:
        raw = self.raw
        if isinstance(previous, IcebergMetadata):
            raw = _raw_after(previous.raw, raw, self.same or (), self.grown)
        elif self.same is not msgspec.UNSET:
            raise RecordError(NO_RECORD_BEFORE)
        return IcebergMetadata(
            *(
                self.n,
                self.location,
                self.last_updated_ms,
                self.current,
                self.listed(previous),
                self.refs,
                self.problems,
            ),
            format_version=self.format_version,
            last_sequence_number=self.last_sequence_number,
            next_row_id=self.next_row_id,
            raw=raw,
        )


def _raw_after(
    old: Mapping[str, Any], raw: dict[str, Any], same: Sequence[str], grown: Mapping[str, Grown]
) -> dict[str, Any]:
    """The unparsed part of a version; ``old``: that of the version before it.

    Raises:
        RecordError: the version before it lacks what did not change, or grew.
    """
    try:
        out = {**raw, **{k: old[k] for k in same}}
        for k, growth in grown.items():
            before = old[k]
            if type(before) is not list:
                record.must(False, f"{record.shown(k)}, which grew,", "a list in the record before", before)
            out[k] = growth.after(k, before)
    except KeyError as e:
        key = record.shown(e.args[0])
        raise RecordError(f"{key} is said to be that of the metadata record before it, which has none") from None
    return out


ICEBERG_RECORDS = Records(IcebergCommit, IcebergRecord)


IcebergLog = TableLog[IcebergCommit, IcebergMetadata]


def iceberg_log(log: TableLog) -> IcebergLog:
    """A log of a table of this format, with the types of its records."""
    return cast(IcebergLog, log)
