"""The rules about what a snapshot says of one file: when it adds it, and when it removes it.

When it **adds** a file, its entry is compared with the snapshot, with the rows that the log has of the file, and with the other files:

* a data file of a snapshot that is no rewrite has the snapshot's own data sequence number. Entries of new files inherit it; only
  ``RewriteFiles.dataSequenceNumber`` sets an older one, and rewrites are snapshots with the operation ``replace``;
* in version 3 it has a first row id, and ranges of row ids of a snapshot's files are disjoint;
* the fields of a data file's partition are those of a spec of the table, its rows belong to its partition, and a delete file is in the
  partition of the data file that it deletes from;
* a deletion vector deletes from the data file that it references, and a version 2 table has none.

When it **removes** a file, the file was live in its parent, and the entry says what it said when the file was added.

The rows of a file are those that some commit added to it or removed from it, net: often not all, so a file that only compactions touched
is not compared with rows here (the reader does it for those that it reads). An entry that is found wrong when it was added is not
reported again when the file is removed: who removes it says what is true.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from operator import attrgetter
from typing import Any

from checkers.evidence.tablelog import RowChange
from checkers.formats.iceberg.metadata.chain import IcebergChain as Chain
from checkers.formats.iceberg.metadata.described import described
from checkers.formats.iceberg.metadata.partitions import Partitions
from checkers.formats.iceberg.metadata.placed import RowPlaces
from checkers.formats.iceberg.metadata.rules import BrokenRule
from checkers.formats.iceberg.records import IcebergCommit as Commit
from checkers.formats.iceberg.records import IcebergFile as FileEntry
from checkers.timeline import explain
from checkers.timeline.timeline import kind_of

MOST_FILES_LISTED = 50
"""Of one anomaly: a rewrite may concern every file of a table."""

File = tuple[str, int | None]
"""A file, or one deletion vector of it: path and offset."""


def of(f: FileEntry) -> File:
    """What makes an entry another file's than another entry."""
    return f.path, f.offset


@dataclass
class AddedFiles:
    """Files by the entry that first added them."""

    data: dict[str, tuple[Commit, FileEntry]] = field(default_factory=dict)
    deletes: dict[str, list[tuple[Commit, FileEntry]]] = field(default_factory=dict)
    """Several deletion vectors can be in one file."""


def own(c: Commit) -> Iterator[FileEntry]:
    """The files that a commit says it added itself."""
    return (f for f in c.added_files if f.snapshot_id in (None, c.snapshot_id))


_NUMBERS = attrgetter("snapshot_id", "data_sequence_number", "file_sequence_number")


def renumbered(commits: Iterable[Commit]) -> list[Commit]:
    """The commits that add a file with another snapshot's id or another sequence number than their own, such as rewrites.

    Only these can break a rule about the numbers of new files.
    """
    return [
        c
        for c in commits
        if c.added_files and {*map(_NUMBERS, c.added_files)} != {(c.snapshot_id, c.sequence_number, c.sequence_number)}
    ]


class Entries:
    """The entries of a table's log, each judged where a snapshot adds its file.

    Args:
        found: called with each finding.
        told: what the reader said already: names of rules and snapshots.
        renumbered: the log's commits as :func:`renumbered`.

    Attributes:
        wrong: files of which an entry was found wrong.
    """

    def __init__(
        self,
        chain: Chain,
        found: Callable[[BrokenRule], None],
        reported: Container[tuple[str, int]],
        renumbered: Iterable[Commit],
    ) -> None:
        self._chain = chain
        self._found = found
        self._reported = reported
        self._renumbered = {*map(id, renumbered)}
        self._partitions = Partitions(chain.log)
        self.wrong: set[File] = set()
        self.added = AddedFiles()
        for c in chain.log.commits:
            for f in c.added_files:
                if f.content == "data":
                    self.added.data.setdefault(f.path, (c, f))
                else:
                    self.added.deletes.setdefault(f.path, []).append((c, f))

    def judge(self) -> None:
        """All rules about added files, in the order of the log."""
        adding = [c for c in self._chain.log.commits if c.added_files]
        lineage = any(f.first_row_id is not None for c in adding for f in c.added_files)
        for c in adding:
            if id(c) in self._renumbered:
                self._sequence_numbers(c)
            if lineage:
                self._row_ids(c)
            if self.added.deletes:
                self._vectors_in_version_2(c)
        self._misfits()
        self._rows()
        self._delete_files()
        for finding in RowPlaces(self._chain, self.added.data, self.added.deletes, self.wrong).judge():
            self._report(*finding)
        for finding in described(self._chain, self._renumbered, self.wrong):
            self._report(*finding)

    def _report(self, name: str, c: Commit, words: str, files: Iterable[FileEntry | str]) -> None:
        paths = list(files)
        self.wrong |= {of(f) for f in paths if isinstance(f, FileEntry)}
        if (name, c.snapshot_id) in self._reported:
            return
        self._found(
            BrokenRule(
                name,
                f"{explain.snapshot(c)} of {explain.maker(c, self._chain.by_op)} {words}.",
                ops=() if c.op is None else (c.op,),
                snapshots=(c.snapshot_id,),
                files=tuple(dict.fromkeys(f if isinstance(f, str) else f.path for f in paths))[:MOST_FILES_LISTED],
            )
        )

    def _format(self, c: Commit) -> int | None:
        versions = self._chain.log.metadata
        return versions[c.metadata].format_version if 0 <= c.metadata < len(versions) else None

    def _sequence_numbers(self, c: Commit) -> None:
        o = self._chain.by_op.get(c.op or "")
        kind = None if o is None else kind_of(o)
        rewrite = c.operation == "replace" and not (kind is not None and kind.changes_rows)
        old = [
            f
            for f in own(c)
            if f.data_sequence_number is not None
            and f.data_sequence_number != c.sequence_number
            and (f.data_sequence_number > c.sequence_number or not rewrite)
        ]
        if old:
            what = explain.listing(f"{f.path} (data sequence number {f.data_sequence_number})" for f in old)
            self._report(
                "data-sequence-number",
                c,
                f"added {what}: {'older' if (old[0].data_sequence_number or 0) < c.sequence_number else 'newer'} than the snapshot itself, "
                "so that scans apply other delete files to it than were made for it",
                old,
            )
        self.wrong |= {of(f) for f in own(c) if f.file_sequence_number not in (None, c.sequence_number)}
        self.wrong |= {of(f) for f in c.added_files if f.snapshot_id not in (None, c.snapshot_id)}

    def _row_ids(self, c: Commit) -> None:
        if (self._format(c) or 0) < 3 or c.first_row_id is None:
            return
        data = [f for f in own(c) if f.content == "data"]
        without = [f for f in data if f.first_row_id is None]
        if without:
            self._report(
                "file-row-id",
                c,
                f"added {explain.listing(f.path for f in without)} without a first row id, though the snapshot assigns row ids from "
                f"{c.first_row_id} on",
                without,
            )
        end = c.first_row_id + (c.added_rows or 0)
        numbered = sorted(
            ((f.first_row_id, f.records, f.path, f) for f in data if f.first_row_id is not None and f.records),
            key=lambda x: x[:3],
        )
        self.wrong |= {of(f) for first, n, _, f in numbered if not c.first_row_id <= first <= first + n <= end}
        for (first, n, _, f), (then, _, _, g) in pairwise(numbered):
            if then < first + n:
                self._report(
                    "row-id-overlap",
                    c,
                    f"gives {f.path} the row ids {first} to {first + n - 1}, and {g.path} those from {then} on: rows of both have the "
                    "same _row_id",
                    (f, g),
                )

    def _vectors_in_version_2(self, c: Commit) -> None:
        version = self._format(c)
        if version is not None and version >= 3:  # position deletes there are judged with the versions
            self.wrong |= {of(f) for f in own(c) if f.content == "position-deletes"}
        vectors = [f for f in own(c) if f.content == "deletion-vector"]
        if vectors and version is not None and version < 3:
            self._report(
                "dv-in-v2",
                c,
                f"added {explain.listing(dict.fromkeys(f.path for f in vectors))}, deletion vectors, to a table of format version {version}: "
                "a reader of that version ignores them or fails",
                vectors,
            )

    # --- files and rows

    def _misfits(self) -> None:
        """Data files at a partition that no spec of the table has."""
        for c, f in self.added.data.values():
            if (why := self._partitions.misfit(f)) is not None:
                self._report(
                    "file-partition",
                    c,
                    f"added {f.path} at the partition {_partition(f)}, but {why}. Scans and delete files find a file by its spec and partition",
                    (f,),
                )

    def _rows(self) -> None:
        """Rows that are in a data file of another partition."""
        wrong: dict[str, tuple[RowChange, list[str]]] = {}
        data = self.added.data
        copied: dict[str, tuple[Sequence[int], Sequence[Any]] | None] = {}
        for c in self._chain.log.commits:
            for change in (*c.added, *c.removed) if c.added and c.removed else c.added or c.removed or ():
                path, row = change.file, change.row
                if path not in copied:
                    copied[path] = self._partitions.copied(data[path][1]) if path in data else ([], [])
                values = copied[path]
                if values is not None and [row[place] for place in values[0] if place < len(row)] == values[1]:
                    continue
                if path in wrong or of(f := data[path][1]) in self.wrong:
                    continue
                if why := self._partitions.contradictions(f, row):
                    wrong[path] = change, why
        for path, (change, why) in wrong.items():
            c, f = self.added.data[path]
            self._report(
                "file-partition",
                c,
                f"added {path} at the partition {_partition(f)}, but its row {explain.row(change.row)} at position {change.pos} is of "
                f"another one: {' and '.join(why)}. A scan of that row's partition does not read the file",
                (f,),
            )

    def _delete_files(self) -> None:
        """Delete files of another data file than they say, or of another partition than their data file."""
        if not self.added.deletes:
            return
        hidden: dict[str, dict[str, RowChange]] = {}  # delete file → data file → a row that it hides
        for c in self._chain.log.commits:
            for change in (*(c.removed or ()), *(c.added or ())):
                if change.by is not None:
                    hidden.setdefault(change.by, {}).setdefault(change.file, change)
        for path, entries in self.added.deletes.items():
            targets = hidden.get(path, {})
            aimed = {f.referenced for _, f in entries}
            if None not in aimed:
                self._referenced(path, entries, {t: x for t, x in targets.items() if t not in aimed}, targets)
            for c, f in entries:
                everywhere = f.content == "equality-deletes" and not any(v is not None for v in f.partition.values())
                if everywhere or of(f) in self.wrong:
                    continue
                for target in [f.referenced] if f.referenced is not None else targets:
                    file = self.added.data.get(target)
                    if file is None or of(file[1]) in self.wrong or _same_partition(f, file[1]):
                        continue
                    self._report(
                        "delete-partition",
                        c,
                        f"added {path} at the partition {_partition(f)}, deletes of {target}, which is at {_partition(file[1])}: scans do "
                        "not apply them, and the deleted rows are back",
                        (f, target),
                    )
                    break

    def _referenced(
        self,
        path: str,
        entries: list[tuple[Commit, FileEntry]],
        astray: dict[str, RowChange],
        targets: dict[str, RowChange],
    ) -> None:
        for target, change in astray.items():
            lost = [(c, f) for c, f in entries if f.referenced not in targets] or entries
            c, f = lost[0]
            if of(f) in self.wrong:
                continue
            self._report(
                "referenced-file",
                c,
                f"added {path} as the deletes of {f.referenced}, but what it deletes is {explain.row(change.row)} at position "
                f"{change.pos} of {target}",
                (f, target),
            )


def _partition(f: FileEntry) -> str:
    words = ", ".join(f"{k}={'null' if v is None else v}" for k, v in f.partition.items())
    return words or "of an unpartitioned spec"


def _same_partition(a: FileEntry, b: FileEntry) -> bool:
    return a.partition == b.partition and (a.spec_id is None or b.spec_id is None or a.spec_id == b.spec_id)


# --- removed files ----------------------------------------------------------------------------------------------------

_Undo = tuple[File, FileEntry | None]
"""What one step did to a file: removed this entry, or (None) added one."""


class LiveEntries:
    """The live entries of the snapshot at a walk's cursor; ``live``: by file."""

    def __init__(self) -> None:
        self.live: dict[File, list[FileEntry]] = {}
        self._steps: list[list[_Undo]] = []

    def do(self, c: Commit) -> list[tuple[FileEntry, FileEntry | None]]:
        """Go to a child; return each file that it removes with what was live (None: nothing was)."""
        undo: list[_Undo] = []
        removed: list[tuple[FileEntry, FileEntry | None]] = []
        absent: list[FileEntry] = []
        for f in c.removed_files:
            was = self._take(of(f), undo)
            if was is None:
                absent.append(f)
            else:
                removed.append((f, was))
        for f in absent:  # the same delete file may be told with another offset
            other = None if f.content == "data" else next((k for k in self.live if k[0] == f.path), None)
            removed.append((f, None if other is None else self._take(other, undo)))
        for f in c.added_files:
            self.live.setdefault(of(f), []).append(f)
            undo.append((of(f), None))
        self._steps.append(undo)
        return removed

    def do_plain(self, c: Commit) -> None:
        """Go to a child whose removed files are live, once each, and whose added files are not."""
        live = self.live
        undo: list[_Undo] = []
        for f in c.removed_files:
            file = f.path, f.offset
            undo.append((file, live.pop(file)[0]))
        for f in c.added_files:
            file = f.path, f.offset
            live[file] = [f]
            undo.append((file, None))
        self._steps.append(undo)

    def _take(self, file: File, undo: list[_Undo]) -> FileEntry | None:
        entries = self.live.get(file)
        if not entries:
            return None
        was = entries.pop()
        if not entries:
            del self.live[file]
        undo.append((file, was))
        return was

    def undo(self) -> None:
        """Go back to the parent."""
        for file, was in reversed(self._steps.pop()):
            if was is not None:
                self.live.setdefault(file, []).append(was)
            else:
                entries = self.live[file]
                entries.pop()
                if not entries:
                    del self.live[file]


_KEPT = (
    "content",
    "offset",
    "format",
    "records",
    "size",
    "partition",
    "spec_id",
    "data_sequence_number",
    "file_sequence_number",
    "snapshot_id",
    "referenced",
    "length",
    "first_row_id",
)
"""What an entry says of a file as long as it is live."""


def changed(was: FileEntry, now: FileEntry) -> list[str]:
    """What two entries of a file say differently, in words; what one of them leaves out is not compared."""
    if was == now:
        return []

    def differs(name: str) -> tuple[Any, Any] | None:
        a, b = getattr(was, name), getattr(now, name)
        return None if a is None or b is None or a == b else (a, b)

    return [
        f"{name.replace('_', ' ')} {pair[1]} instead of {pair[0]}"
        for name in _KEPT
        if (pair := differs(name)) is not None
    ]
