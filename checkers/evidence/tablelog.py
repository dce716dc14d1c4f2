"""The table log: the commits according to the table's own files, in commit order, with the exact rows of every commit.

It is read from the object store by the reader of its format (``harness.tablefiles``) (never through Spark) and saved next to the history
(``checkers.evidence.tablelog_file``), so that checkers work later, offline, on any machine.

A commit's rows are **net**: a copy-on-write rewrite carries unchanged rows into new files; those are neither added nor
removed. Rows are multisets (a key may occur twice), so equal rows are repeated.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, Literal

import msgspec
from typing_extensions import TypeVar

from checkers.evidence.problem import Problem

Row = tuple[Any, ...]
"""A row's values in the order of the header's ``columns``."""

ICEBERG = "iceberg"
"""The table format of logs that name none."""

FileContent = Literal["data", "position-deletes", "equality-deletes", "deletion-vector"]


class TableLogError(ValueError):
    """A table log file cannot be read; the message names the file, the line and the problem."""


class FileEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """One file that a commit added to or removed from the table; a format may add facts.

    ``path`` is relative to the table's location where it lies below it. ``records``: rows, or deleted rows; ``size`` in bytes.
    """

    path: str
    content: FileContent
    records: int
    size: int
    partition: dict[str, Any]
    referenced: str | None = None
    """The only data file whose rows it says are deleted; None: of any, or it is a data file."""

    @property
    def role(self) -> Literal["data", "deletes"]:
        """Whether it has rows, or says which rows of data files are deleted."""
        return "data" if self.content == "data" else "deletes"

    @property
    def key(self) -> tuple[str, int | None]:
        """What names it: its path, and the place in it where several share one."""
        return self.path, None

    def to_json(self) -> dict[str, Any]:
        """As a commit's line has it."""
        return msgspec.structs.asdict(self)


class RowChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False, array_like=True):
    """A row that a commit made appear or disappear, and where: data file and position (from 0) in it.

    ``by`` is the delete file that hides (or no longer hides) the row; None if the data file itself was added or removed.
    """

    row: Row
    file: str
    pos: int
    by: str | None = None


class Commit(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False, tag_field="type", tag="commit"):
    """One snapshot: what every format says of it; a format may add facts.

    Attributes:
        sequence_number: its place in the order of commits, as the format counts them.
        operation: the format's word for what it did.
        op: id of the operation that made it, None if the snapshot has none.
        attempt: number of tries its producer made, the winning one included.
        metadata: ``n`` of the metadata version that first shows the snapshot.
        added, removed: net rows relative to the parent snapshot; None if they are unknown (see ``problems``).
        problems: what could not be read, in words: a missing file, a parent that was never seen.
    """

    snapshot_id: int
    parent_id: int | None
    sequence_number: int
    timestamp_ms: int
    operation: str
    op: str | None
    attempt: int | None
    metadata: int
    added: tuple[RowChange, ...] | None
    removed: tuple[RowChange, ...] | None
    added_files: tuple[FileEntry, ...]
    removed_files: tuple[FileEntry, ...]
    problems: tuple[Problem, ...] = ()

    @property
    def readable(self) -> bool:
        """Whether its rows are known."""
        return self.added is not None and self.removed is not None

    @property
    def label(self) -> str:
        """What a person finds it by, beside its id: ``sequence number 7``."""
        return f"sequence number {self.sequence_number}"

    @property
    def own_files(self) -> tuple[str, ...]:
        """The files that it needs beside those that hold or delete rows."""
        return ()

    @property
    def contradiction(self) -> str | None:
        """What it says twice and differently, in words, so that its line cannot be as the reader wrote it; None: nothing."""
        return None

    @property
    def procedure_counts(self) -> Mapping[str, int]:
        """What else than files and rows a procedure's answer counts of it, in the words of the answer."""
        return {}

    def share(self, words: dict[str, str]) -> None:
        """Make equal words that many commits say one object, as in ``words``."""


class Metadata(msgspec.Struct, frozen=True, gc=False):
    """One version of the table: what every format says of it; a format may add facts.

    ``current`` is main's snapshot (None: empty table), ``snapshots`` the ids listed, ``refs`` name → snapshot id.
    ``problems``: where the chain is broken at this version, in words (it does not descend from the version before it, its predecessor is
    missing, it describes a snapshot differently than an earlier version).
    """

    n: int
    location: str
    last_updated_ms: int
    current: int | None
    snapshots: tuple[int, ...]
    refs: dict[str, int]
    problems: tuple[Problem, ...] = ()

    @property
    def predecessor(self) -> str | None:
        """The location that it names as its predecessor; None when it names none: then the order of the log counts."""
        return None

    @property
    def properties(self) -> Mapping[str, Any]:
        """The table's properties; empty where they cannot be read."""
        return {}

    @property
    def as_of(self) -> list[tuple[Any, Any]] | None:
        """Time (ms) and snapshot of each change of main, oldest first; empty: it has none, so main's ancestors are its history; None: a
        reader cannot ask for it, or it is not readable."""
        return None

    def carries(self, other: Any, base: Any) -> bool:
        """Whether it has all that another version changed of ``base``, where main is left aside. A format that cannot tell says no."""
        return False

    def values(self, previous: Metadata | None) -> dict[str, Any]:
        """What its line says of it: all, or what differs from ``previous``; ``snapshots`` and ``problems`` are written for it."""
        return {k: getattr(self, k) for k in self.__struct_fields__}


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


class ObjectSize(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False, array_like=True):
    """How many bytes an object of the store has."""

    path: str
    size: int


C_co = TypeVar("C_co", bound=Commit, default=Commit, covariant=True)
M_co = TypeVar("M_co", bound=Metadata, default=Metadata, covariant=True)


@dataclass(frozen=True)
class TableLog(Generic[C_co, M_co]):
    """A table's whole log, with a format's commits and versions. ``complete`` is False for a run that ended before the final reading.

    ``missing_files`` and ``sizes`` are determined once, at the end, from a listing of the table's folder: files that were read earlier and
    are gone now; and the objects that have another size than when they were read, or that were not read and the last version names.
    """

    table: str
    identifier: str
    location: str
    columns: tuple[str, ...]
    metadata: tuple[M_co, ...]
    commits: tuple[C_co, ...]
    captures: tuple[Capture, ...]
    complete: bool
    problems: tuple[Problem, ...] = ()
    missing_files: tuple[MissingFile, ...] = ()
    table_format: str = ICEBERG
    sizes: tuple[ObjectSize, ...] = ()

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
        problems = (p for m in self.metadata for p in m.problems if p.code == "snapshot-changed")
        return frozenset(p.snapshot for p in problems if p.snapshot is not None)

    def by_snapshot(self) -> dict[int, C_co]:
        """Snapshot id → commit."""
        return {c.snapshot_id: c for c in self.commits}

    def by_op(self) -> dict[str, list[C_co]]:
        """Operation id → its commits, in the order of the chain."""
        out: dict[str, list[C_co]] = {}
        for c in self.commits:
            if c.op is not None:
                out.setdefault(c.op, []).append(c)
        return out

    def main(self) -> list[C_co]:
        """Main's final ancestry, oldest first, as far back as the log has parents.

        Ancestry, not presence in ``commits``, decides whether a snapshot took effect: after a lost acknowledgement
        main can be moved back below a snapshot that stays listed.
        """
        current = self.metadata[-1].current if self.metadata else None
        known = self.by_snapshot()
        chain: list[C_co] = []
        seen: set[int] = set()
        while current is not None and current in known and current not in seen:
            seen.add(current)
            chain.append(known[current])
            current = known[current].parent_id
        chain.reverse()
        return chain
