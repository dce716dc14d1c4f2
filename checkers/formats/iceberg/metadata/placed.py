"""Where rows are: the rows that commits added and removed, against the files in which the log says that they are.

A row is at one position of one data file as long as that file lives. The reader tells the place with each row, so

* a position is below the file's number of records, and no two rows of a snapshot are at one place;
* a place has the same row whenever it is told, under one schema: rows that go are read with that of the parent;
* a snapshot that only adds data files has all their rows, no more and no less;
* rows that come are in a file that their snapshot adds, rows that go in one that it removes, or a delete file comes or goes. A change of the
  schema makes rows come and go in files that stay;
* what hides a row applies to its file: a position delete to files that are not younger, an equality delete to older ones.

A log that does not begin with its table, or of which a commit could not be read, lacks files: then only known ones are compared.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence

from checkers.evidence.tablelog import Row, RowChange
from checkers.formats.iceberg.metadata.chain import IcebergChain as Chain
from checkers.formats.iceberg.metadata.described import RuleBreak
from checkers.formats.iceberg.records import IcebergCommit as Commit
from checkers.formats.iceberg.records import IcebergFile as FileEntry
from checkers.timeline import explain

Place = tuple[str, int]
"""A data file and a position in it."""


class RowPlaces:
    """The places of one table's rows.

    Args:
        data: path → the commit and the entry that first added the data file.
        deletes: likewise of delete files, of which several can be in one file.
        wrong: files of which an entry was found wrong before; they are not compared.
    """

    def __init__(
        self,
        chain: Chain,
        data: Mapping[str, tuple[Commit, FileEntry]],
        deletes: Mapping[str, Sequence[tuple[Commit, FileEntry]]],
        wrong: Collection[tuple[str, int | None]],
    ) -> None:
        self._chain = chain
        self._data = data
        self._deletes = deletes
        self._wrong = wrong
        first = chain.log.metadata[:1]
        self._whole = (
            bool(data)
            and bool(first)
            and not first[0].snapshots
            and first[0].predecessor is None
            and all(c.readable and not c.problems for c in chain.log.commits)
        )
        self._rows: dict[Place, tuple[Row, int | None]] = {}

    def judge(self) -> Iterator[RuleBreak]:
        """All of them, at most one of each name and commit."""
        hides: dict[tuple[str, str], Commit] = {}
        for c in self._chain.log.commits:
            if not c.added and not c.removed:
                continue
            yield from self._positions(c)
            yield from self._all_rows(c)
            if self._whole:
                yield from self._comes_and_goes(c)
            for x in (*(c.removed or ()), *(c.added or ())):
                if x.by is not None:
                    hides.setdefault((x.by, x.file), c)
        yield from self._ages(hides)

    def _known(self, path: str) -> FileEntry | None:
        file = self._data.get(path)
        return None if file is None or (path, file[1].offset) in self._wrong else file[1]

    def _positions(self, c: Commit) -> Iterator[RuleBreak]:
        rows = self._rows
        parent = self._chain.snapshots.get(c.parent_id) if c.parent_id is not None else None
        before = None if parent is None else parent.schema_id
        for changes, schema in ((c.removed or (), before), (c.added or (), c.schema_id)):
            taken: set[Place] = set()
            for x in changes:
                place = x.file, x.pos
                if place in taken:
                    words = f"has two rows at position {x.pos} of {x.file}; one is {explain.row(x.row)}"
                    yield RuleBreak("misplaced-row", c, words, [x.file])
                    return
                taken.add(place)
                f = self._known(x.file)
                if f is None:
                    continue
                if not 0 <= x.pos < f.records:
                    words = f"has the row {explain.row(x.row)} at position {x.pos} of {x.file}, whose entry counts {f.records} records"
                    yield RuleBreak("record-count", c, words, [x.file])
                    return
                was = rows.get(place)
                if was is None or was[1] is None or was[1] != schema:
                    rows[place] = x.row, schema
                elif was[0] != x.row and repr(was[0]) != repr(x.row):
                    words = f"has the row {explain.row(x.row)} at position {x.pos} of {x.file}, where {explain.row(was[0])} was told before"
                    yield RuleBreak("misplaced-row", c, words, [x.file])
                    return

    def _all_rows(self, c: Commit) -> Iterator[RuleBreak]:
        """A snapshot that only adds data files, and some of whose rows are known, has all of them."""
        if c.removed or c.removed_files or not c.added or any(f.content != "data" for f in c.added_files):
            return
        counts = Counter(x.file for x in c.added)
        for f in c.added_files:
            if f.path in counts and f.records != counts[f.path] and self._known(f.path) is f:
                words = f"added {f.path}, whose entry counts {f.records} records, and {counts[f.path]} rows of it came with the snapshot"
                yield RuleBreak("record-count", c, words, [f.path])
                return

    def _comes_and_goes(self, c: Commit) -> Iterator[RuleBreak]:
        parent = self._chain.snapshots.get(c.parent_id) if c.parent_id is not None else None
        same_schema = c.parent_id is None or (parent is not None and parent.schema_id == c.schema_id is not None)
        for changes, files, goes in ((c.removed or (), c.removed_files, True), (c.added or (), c.added_files, False)):
            moved = {f.path for f in files if f.content == "data"}
            for x in changes:
                if why := self._elsewhere(x, moved, goes, same_schema):
                    verb = "removed" if goes else "added"
                    yield RuleBreak(
                        "misplaced-row", c, f"{verb} the row {explain.row(x.row)} of {x.file}, {why}", [x.file]
                    )
                    return

    def _elsewhere(self, x: RowChange, moved: Collection[str], goes: bool, same_schema: bool) -> str | None:
        if x.file not in self._data:
            return "a data file that no snapshot added"
        if x.by is None:
            if x.file in moved or not same_schema:
                return None
            return f"which it does not {'remove' if goes else 'add'}, and by no delete file"
        if x.by not in self._deletes:
            return f"by {x.by}, a delete file that no snapshot added"
        return None

    def _ages(self, hides: Mapping[tuple[str, str], Commit]) -> Iterator[RuleBreak]:
        """Delete files that are too old for a data file whose rows they hide, or which they reference."""
        pairs = {
            (f.path, f.referenced): c
            for entries in self._deletes.values()
            for c, f in entries
            if f.referenced is not None
        }
        reported: set[int] = set()
        for (path, target), c in {**pairs, **hides}.items():
            data = self._known(target)
            entries = [d for _, d in self._deletes.get(path, ()) if d.referenced in (None, target)]
            if data is None or not entries or any((d.path, d.offset) in self._wrong for d in entries):
                continue
            if any(_applies(d, data) for d in entries) or c.snapshot_id in reported:
                continue
            reported.add(c.snapshot_id)
            d = entries[-1]
            yield RuleBreak(
                "delete-sequence-number",
                c,
                f"deletes rows of {target} by {path}, {d.content.replace('-', ' ')} with data sequence number {d.data_sequence_number}; the "
                f"data file has {data.data_sequence_number}, so scans do not apply them to it",
                [d, target],
            )


def _applies(d: FileEntry, f: FileEntry) -> bool:
    """Whether a delete file applies to a data file, by age (spec, "Scan Planning"); a number that is not known may be any."""
    a, b = d.data_sequence_number, f.data_sequence_number
    if a is None or b is None:
        return True
    return b < a if d.content == "equality-deletes" else b <= a
