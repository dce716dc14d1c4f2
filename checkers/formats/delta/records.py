"""What a Delta table's log says beyond what every table log does (:mod:`checkers.evidence.tablelog`).

A version is a snapshot: its number is the snapshot's id, and its file ``_delta_log/N.json`` the location of the metadata. It holds *actions*
(Delta's protocol, "Actions"), which the log keeps as they are, without the statistics of files.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, cast

import msgspec

from checkers.evidence.tableformat import MetadataRecord, Records
from checkers.evidence.tablelog import Commit, FileEntry, Metadata, TableLog

Action = dict[str, Any]
"""``{name: fields}``, such as ``{"add": {"path": …}}``."""
LogicalFile = tuple[str, str | None]
"""What names a file of a table: its path, and the id of its deletion vector, None without one (protocol, "Add File and Remove File")."""


def vector_id(vector: Mapping[str, Any] | None) -> str | None:
    """The id of a deletion vector, by its descriptor (protocol, "Deletion Vector Descriptor Schema", derived field ``uniqueId``)."""
    if vector is None:
        return None
    offset = vector.get("offset")
    return f"{vector.get('storageType')}{vector.get('pathOrInlineDv')}" + ("" if offset is None else f"@{offset}")


def logical_file(fields: Mapping[str, Any]) -> LogicalFile:
    """What an ``add`` or a ``remove`` is about."""
    return str(fields.get("path")), vector_id(fields.get("deletionVector"))


MAPPING = "delta.columnMapping.mode"
"""The property by which columns are renamed and dropped without new files: one of :data:`MODES`; else files have the names that readers see."""
MODES = ("name", "id")


class MappedColumn(NamedTuple):
    """A column of a schema.

    Attributes:
        name: that readers see.
        physical: that data files and partition values have; the same without column mapping.
        id: its field id; None without column mapping, or if it is no whole number.
        type: a name, or the fields of a nested type.
    """

    name: str
    physical: str
    id: int | None
    type: Any


def mapped_columns(metadata: Mapping[str, Any]) -> list[MappedColumn]:
    """The columns of an action ``metaData``, not those inside others; none if its schema cannot be read."""
    mapped = (metadata.get("configuration") or {}).get(MAPPING) in MODES
    found = []
    try:
        for f in json.loads(metadata["schemaString"])["fields"]:
            own = f.get("metadata") or {} if mapped else {}
            physical = str(own.get("delta.columnMapping.physicalName", f["name"]))
            id = own.get("delta.columnMapping.id")
            found.append(MappedColumn(f["name"], physical, id if type(id) is int else None, f["type"]))
    except (KeyError, TypeError, ValueError, AttributeError):
        return []
    return found


class DeltaFile(FileEntry, frozen=True, gc=False, kw_only=True):
    """A data file, or a deletion vector; ``offset`` (bytes) is where the vector begins in its file."""

    offset: int | None = None

    @property
    def key(self) -> tuple[str, int | None]:
        """Deletion vectors share a file."""
        return self.path, self.offset


class DeltaCommit(Commit, frozen=True, gc=False, kw_only=True):
    """A version, but for the one that created the table without files.

    Attributes:
        snapshot_id, sequence_number: its number.
        op: ``commitInfo.userMetadata``.
        attempt: how many versions it tried at most: a refused writer looks for the newest one, and tries the next.
    """

    added_files: tuple[DeltaFile, ...]
    removed_files: tuple[DeltaFile, ...]

    @property
    def label(self) -> str:
        return f"version {self.snapshot_id}"


class DerivedFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False, omit_defaults=True):
    """A file of the log that repeats what the versions up to one say: a checkpoint, a compacted log, a checksum.

    Attributes:
        kind: ``checkpoint``, ``compacted`` or ``checksum``.
        file: its path below ``_delta_log``.
        since: the first version of a compacted log.
        live: the files that it says are in the table; None: it does not say.
        files, bytes: their number and size.
        metadata: the ``metaData`` that it has; ``protocol``: the same.
        transactions: application → version, by its ``txn`` actions; None: it does not say.
        problem: why it cannot be read.
    """

    kind: str
    file: str
    since: int | None = None
    live: tuple[LogicalFile, ...] | None = None
    files: int | None = None
    bytes: int | None = None
    metadata: dict[str, Any] | None = None
    protocol: dict[str, Any] | None = None
    transactions: dict[str, int] | None = None
    problem: str | None = None


class DeltaMetadata(Metadata, frozen=True, gc=False, kw_only=True):
    """One version of the table.

    Attributes:
        version: its number.
        actions: as its file has them.
        configuration: the table's properties.
        derived: the files that repeat the log up to this version.
    """

    version: int
    actions: tuple[Action, ...] = ()
    configuration: dict[str, str] = msgspec.field(default_factory=dict)
    derived: tuple[DerivedFile, ...] = ()

    def of(self, name: str) -> Iterator[Mapping[str, Any]]:
        """The fields of its actions of that name."""
        return (a[name] for a in self.actions if isinstance(a.get(name), dict))

    @property
    def info(self) -> Mapping[str, Any]:
        """The fields of its ``commitInfo``; empty if it has none."""
        return next(self.of("commitInfo"), {})

    @property
    def properties(self) -> Mapping[str, Any]:
        """The table's properties."""
        return self.configuration

    @property
    def as_of(self) -> list[tuple[Any, Any]]:
        """Empty: the versions are the history."""
        return []

    def values(self, previous: Metadata | None) -> dict[str, Any]:
        return {**super().values(previous), "derived": msgspec.to_builtins(self.derived)}


class DeltaRecord(MetadataRecord, frozen=True, gc=False, kw_only=True):
    """A :class:`DeltaMetadata` as a line of the file."""

    version: int
    actions: tuple[Action, ...] = ()
    configuration: dict[str, str] = msgspec.field(default_factory=dict)
    derived: tuple[DerivedFile, ...] = ()

    def after(self, previous: Metadata | None) -> DeltaMetadata:
        own = {k: getattr(self, k) for k in ("version", "actions", "configuration", "derived")}
        return DeltaMetadata(**self.core(previous), **own)


DELTA_RECORDS = Records(DeltaCommit, DeltaRecord)

DeltaLog = TableLog[DeltaCommit, DeltaMetadata]


def delta_log(log: TableLog) -> DeltaLog:
    """A log of a table of this format, with the types of its records."""
    return cast(DeltaLog, log)
