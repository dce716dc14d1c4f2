"""What an Iceberg table's log says beyond what every table log does (:mod:`checkers.evidence.tablelog`).

``raw`` of a ``metadata`` record has only what differs from the record before it: ``same`` names the keys that are unchanged, and a list
that only lost entries at its start and gained some at its end is ``{"skip": n, "keep": n, "add": [...]}`` under ``grown``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import msgspec

from checkers.evidence import record
from checkers.evidence.record import RecordError
from checkers.evidence.tableformat import NO_RECORD_BEFORE, MetadataRecord, Records
from checkers.evidence.tablelog import Commit, FileEntry, Metadata, TableLog


class IcebergFile(FileEntry, frozen=True, gc=False, kw_only=True):
    """A data or delete file (Iceberg spec, manifest entries).

    ``referenced`` is the data file a deletion vector (or a file-scoped position delete file) belongs to; ``offset``/``length`` (bytes)
    locate a deletion vector's blob. Sequence numbers and ``first_row_id`` include what the manifest entry inherits;
    ``snapshot_id`` is the snapshot that the manifest says added the file (of a removed file: as its parent's
    manifests said). A file from before version 3 gets its row ids at a later commit, which does not list it.
    ``spec_id`` is the partition spec of ``partition``; logs of earlier releases do not have it.
    """

    format: str
    data_sequence_number: int | None
    offset: int | None = None
    length: int | None = None
    first_row_id: int | None = None
    file_sequence_number: int | None = None
    snapshot_id: int | None = None
    spec_id: int | None = None

    @property
    def key(self) -> tuple[str, int | None]:
        """Deletion vectors share a Puffin file."""
        return self.path, self.offset

    def to_json(self) -> dict[str, Any]:
        """As a commit's line has it."""
        out = msgspec.structs.asdict(self)
        if self.spec_id is None:
            del out["spec_id"]
        return out


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
    """

    summary: dict[str, str]
    manifest_list: str
    schema_id: int | None
    added_files: tuple[IcebergFile, ...]
    removed_files: tuple[IcebergFile, ...]
    first_row_id: int | None = None
    added_rows: int | None = None
    violations: tuple[str, ...] = ()

    @property
    def own_files(self) -> tuple[str, ...]:
        """The manifest list. Manifests are in no record of the log."""
        return (self.manifest_list,)

    @property
    def procedure_counts(self) -> Mapping[str, int]:
        """Manifests, by the summary, and the bytes of delete files, unless some share a Puffin file, whose size counts once for all."""
        said = {"replaced manifests": "manifests-replaced", "added manifests": "manifests-created"}
        counts = {what: int(n) for what, key in said.items() if (n := self.summary.get(key, "")).isdecimal()}
        deletes = [f for f in self.added_files if f.role == "deletes"]
        if all(f.content == "position-deletes" for f in deletes):
            counts["bytes of added delete files"] = sum(f.size for f in deletes)
        return counts

    def share(self, words: dict[str, str]) -> None:
        """Summaries say the same numbers again and again."""
        said = self.summary
        said.update(zip(said, map(words.setdefault, said.values(), said.values()), strict=True))


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
        name, entries = record.shown(key), f"the number of entries in the record before, which is {len(old)}"
        record.must(0 <= self.skip <= len(old), f"{name}, which grew: skip", f"from 0 to {entries}", self.skip)
        left = len(old) - self.skip
        record.must(
            self.keep in (None, left), f"{name}, which grew: keep", f"{left}, skip less than {entries}", self.keep
        )
        return old[self.skip :] + self.add

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


class IcebergMetadata(Metadata, frozen=True, gc=False, kw_only=True):
    """One metadata.json of the chain, without the facts that the commits have.

    ``raw`` is the rest of the file (schemas, specs, properties, snapshot log), for the ``metadata`` checker; versions share equal parts, so
    do not change it.
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
        said = entries[-1].get("metadata-file")
        return said if isinstance(said, str) else None

    @property
    def properties(self) -> Mapping[str, Any]:
        """The table's properties; empty where they cannot be read."""
        said = self.raw.get("properties")
        return said if isinstance(said, dict) else {}

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
            **self.core(previous),
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
            if not isinstance(before, list):
                record.must(False, f"{record.shown(k)}, which grew,", "a list in the record before", before)
            out[k] = growth.after(k, before)
    except KeyError as e:
        key = record.shown(e.args[0])
        raise RecordError(f"{key} is said to be that of the metadata record before it, which has none") from None
    return out


ICEBERG = Records(IcebergCommit, IcebergRecord)


IcebergLog = TableLog[IcebergCommit, IcebergMetadata]


def iceberg_log(log: TableLog) -> IcebergLog:
    """A log of a table of this format, with the types of its records."""
    return cast(IcebergLog, log)
