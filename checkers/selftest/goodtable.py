"""One table of a good run: its states, who can have seen what, and edits of its log that keep the rest valid."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import msgspec

from checkers.evidence.history import Operation
from checkers.evidence.replace import replace
from checkers.evidence.tablelog import ICEBERG, RowChange
from checkers.formats.iceberg.records import IcebergCommit as Commit
from checkers.formats.iceberg.records import IcebergFile as FileEntry
from checkers.formats.iceberg.records import IcebergLog as TableLog
from checkers.formats.iceberg.records import IcebergMetadata as Metadata
from workloads.operations.kind import Kind, WriteSet
from workloads.operations.kinds import KINDS
from workloads.tables import Row, State, TableSpec

T = TypeVar("T")
R = TypeVar("R", bound=msgspec.Struct)
Rows = Sequence[Row]
Edit = tuple[Rows, Rows]
"""Rows removed and rows added by a commit."""
Change = Callable[[Metadata], Metadata]
"""A change of a metadata version."""


@dataclass(frozen=True, slots=True)
class GoodVersion:
    """One metadata version, as its change to the one before it.

    Attributes:
        metadata: the file's content; ids, numbers and lists are computed again.
        commit: the snapshot that it is the first to show.
        dropped: snapshots that it no longer lists.
        main: main's snapshot, unless it is the version's own commit or unchanged.
        parent: of the commit, unless it is main's snapshot.
    """

    metadata: Metadata
    commit: Commit | None = None
    dropped: tuple[int, ...] = ()
    main: int | None = None
    parent: int | None = None


@dataclass(frozen=True)
class GoodTable:
    """One table of a good run: a chain of commits from the empty table, all of them on main."""

    spec: TableSpec
    log: TableLog
    operations: Mapping[str, Operation]

    @property
    def name(self) -> str:
        """Its name in the workload file."""
        return self.spec.name

    @cached_property
    def main(self) -> tuple[Commit, ...]:
        """The chain; position k is after ``main[k - 1]``."""
        return tuple(self.log.main())

    @cached_property
    def staged(self) -> bool:
        """Whether a snapshot was listed before it became main's, or never became it."""
        return any(self.log.metadata[c.metadata].current != c.snapshot_id for c in self.log.commits)

    @cached_property
    def states(self) -> tuple[State, ...]:
        """The state at each position, from 0 (empty). Do not modify."""
        return tuple(_states([(rows(c.removed), rows(c.added)) for c in self.main]))

    @cached_property
    def position(self) -> dict[str, int]:
        """Operation → position of its first commit."""
        return {c.op: k for k, c in reversed(list(enumerate(self.main, 1))) if c.op is not None}

    def op(self, k: int) -> Operation:
        """The operation that made the commit at position k."""
        op = self.main[k - 1].op
        assert op is not None
        return self.operations[op]

    def kind(self, k: int) -> Kind:
        """The kind of that operation."""
        return KINDS[self.op(k).f]

    def meaning(self, o: Operation, j: int) -> WriteSet:
        """What an operation does to the state at position j."""
        return KINDS[o.f].writeset(self.states[j], o.value, o.op, self.spec)

    @cached_property
    def _acknowledged(self) -> tuple[list[int], list[int]]:
        events: list[int] = []
        best: list[int] = []
        for index, k in sorted((index, k) for k in range(1, len(self.main) + 1) if (index := acked(self.op(k)))):
            events.append(index)
            best.append(max(k, best[-1] if best else 0))
        return events, best

    def settled(self, event: int) -> int:
        """The highest position acknowledged before an event."""
        events, best = self._acknowledged
        place = bisect_left(events, event)
        return best[place - 1] if place else 0

    def reached(self, event: int) -> int:
        """The highest position that can have been reached before an event: all operations up to it were invoked."""
        for k in range(1, len(self.main) + 1):
            if self.op(k).invoked.index > event:
                return k - 1
        return len(self.main)

    @cached_property
    def positions(self) -> range:
        """All positions that have a commit."""
        return range(1, len(self.main) + 1)

    @cached_property
    def writes(self) -> tuple[int, ...]:
        """Positions of acknowledged statements that changed rows, after the seed."""
        return tuple(
            k
            for k in self.positions
            if k > 1
            and self.op(k).type == "ok"
            and self.kind(k).changes_rows
            and (self.main[k - 1].added or self.main[k - 1].removed)
        )

    @cached_property
    def maintenance(self) -> tuple[int, ...]:
        """Positions of procedures, which must not change a row."""
        return tuple(k for k in self.positions if not self.kind(k).changes_rows and self.op(k).type == "ok")

    @cached_property
    def reads(self) -> tuple[Operation, ...]:
        """Completed reads, of the whole table or of a key."""
        return tuple(
            o
            for o in self.operations.values()
            if o.table == self.name and o.f in ("read", "read-key") and o.type == "ok" and o.completed is not None
        )

    @cached_property
    def expiries(self) -> tuple[Operation, ...]:
        """Expiries of its snapshots, whatever came of them."""
        return tuple(o for o in self.operations.values() if o.f == "expire-snapshots" and o.table == self.name)

    def expiries_at(self, n: int) -> list[str]:
        """The expiries that can have made a version: under way between the commits before and after it."""
        before = max((self.op(k).start for k in self.positions if self.version_of(k) < n), default=0)
        after = [self.op(k).end for k in self.positions if self.version_of(k) > n]

        def can(o: Operation) -> bool:
            late = o.type == "ok" and o.end is not None and o.end < before
            return not late and all(end is None or o.start <= end for end in after)

        return [o.op for o in self.expiries if can(o)]

    def seen_by(self, o: Operation) -> int | None:
        """The lowest position that a read can have seen; None when there is none."""
        assert o.completed is not None
        got = sorted(Row._make(r) for r in o.result)
        for p in range(self.settled(o.invoked.index), self.reached(o.completed.index) + 1):
            if got == KINDS[o.f].expected(self.states[p], o.value):
                return p
        return None

    def maker(self, n: int) -> str | None:
        """The operation whose snapshot a version is the first to show; None if it shows no new one."""
        return next((c.op for c in self.log.commits if c.metadata == n and c.op in self.operations), None)

    # --- as versions

    @cached_property
    def versions(self) -> tuple[GoodVersion, ...]:
        """The metadata versions, as what each did."""
        commits = {c.metadata: c for c in self.log.commits}
        out, before = [], set[int]()
        for m in self.log.metadata:
            out.append(GoodVersion(m, commits.get(m.n), tuple(s for s in before if s not in m.snapshots)))
            before = set(m.snapshots)
        return tuple(out)

    def version_of(self, k: int) -> int:
        """Index in ``versions`` of the commit at position k."""
        return self.main[k - 1].metadata

    def with_commit(self, k: int, **changes: Any) -> TableLog:
        """The log with changed fields of the commit at position k."""
        c = replace(self.main[k - 1], **changes)
        return replace(self.log, commits=tuple(c if x.snapshot_id == c.snapshot_id else x for x in self.log.commits))

    def with_versions(self, first: int, last: int, change: Change) -> TableLog:
        """The log with versions ``first`` … ``last`` changed."""
        return replace(self.log, metadata=tuple(change(m) if first <= m.n <= last else m for m in self.log.metadata))

    def with_capture(self, n: int, metadata: str | None) -> TableLog:
        """The log in which the n-th capture of the catalog's pointer names another metadata file, or none."""
        captures = list(self.log.captures)
        captures[n] = replace(captures[n], metadata=metadata)
        return replace(self.log, captures=tuple(captures))

    def counted_from(self, log: TableLog, k: int, parent: int) -> TableLog:
        """The log in which summaries from position k on carry on the totals of another position than k-1; 0: of the empty table."""
        if not all(hasattr(c, "summary") for c in log.commits):
            return log  # its format carries on no totals
        ends = [totals(self.main[j - 1].summary) if j else {} for j in (parent, k - 1)]
        late = {c.snapshot_id for c in self.main[k - 1 :]}

        def recounted(c: Commit) -> Commit:
            sums = {x: str(n + ends[0].get(x, 0) - ends[1].get(x, 0)) for x, n in totals(c.summary).items()}
            return replace(c, summary={**c.summary, **sums}) if c.snapshot_id in late else c

        return replace(log, commits=tuple(map(recounted, log.commits)))

    def after(self, n: int, *more: GoodVersion) -> TableLog:
        """The log with versions inserted after the n-th."""
        return self.rebuilt([*self.versions[: n + 1], *more, *self.versions[n + 1 :]])

    def set_back(self, n: int, k: int) -> TableLog:
        """The log with the n-th version a second time after itself, but with main at position k."""
        m = self.versions[n].metadata
        return self.after(n, GoodVersion(replace(m, location=f"{m.location}.again"), main=self.main[k - 1].snapshot_id))

    def without(self, k: int) -> TableLog:
        """The log as if the commit at position k had never been made."""
        dropped = self.main[k - 1].snapshot_id
        others = (v for n, v in enumerate(self.versions) if n != self.version_of(k))
        return self.rebuilt([replace(v, dropped=tuple(s for s in v.dropped if s != dropped)) for v in others])

    def rebuilt(self, versions: Sequence[GoodVersion]) -> TableLog:
        """The log with these versions; numbers, parents, lists, sequence numbers and row ids are derived from each other."""
        metadata: list[Metadata] = []
        commits: list[Commit] = []
        current: int | None = None
        listed: list[int] = []
        sequence, row_id = 0, getattr(self.log.metadata[0], "next_row_id", None)
        sequences: dict[int, int] = {}
        first_rows: dict[str, int] = {}
        where = {}
        for n, v in enumerate(versions):
            listed = [s for s in listed if s not in v.dropped]
            if v.commit is not None:
                sequence += 1
                sequences.setdefault(v.commit.sequence_number, sequence)
                parent = current if v.parent is None else v.parent
                c = replace(v.commit, parent_id=parent, metadata=n, sequence_number=sequence)
                if self.log.table_format == ICEBERG:
                    c = _renumbered(c, v.commit, sequences, row_id, first_rows)
                    row_id = None if row_id is None else row_id + (c.added_rows or 0)
                commits.append(c)
                listed.append(c.snapshot_id)
                current = c.snapshot_id
            if v.main is not None:
                current = v.main
            where[v.metadata.location] = v.metadata.location
            refs = {} if current is None else {**v.metadata.refs, "main": current}
            m = replace(v.metadata, n=n, current=current, snapshots=tuple(listed), refs=refs)
            metadata.append(native(m, last_sequence_number=sequence, next_row_id=row_id))
        captures = tuple(
            c if c.metadata in where or c.metadata is None else replace(c, metadata=metadata[-1].location)
            for c in self.log.captures
        )
        return replace(self.log, metadata=tuple(metadata), commits=tuple(commits), captures=captures)


def totals(summary: Mapping[str, str]) -> dict[str, int]:
    """The numbers that a summary carries on from that of its parent."""
    return {x: int(n) for x, n in summary.items() if x.startswith("total-")}


def native(record: R, **facts: Any) -> R:
    """A record with these facts, as far as its table format has them."""
    return replace(record, **{k: v for k, v in facts.items() if k in record.__struct_fields__})


def _renumbered(
    c: Commit, old: Commit, sequences: Mapping[int, int], row_id: int | None, first_rows: dict[str, int]
) -> Commit:
    """A commit's files with the sequence numbers and row ids of its new place."""

    def number(n: int | None) -> int | None:
        return None if n is None else sequences.get(n, n)

    shift = 0 if row_id is None or old.first_row_id is None else row_id - old.first_row_id
    if not shift and all(a == b for a, b in sequences.items()):
        return c

    def moved(f: FileEntry, added: bool) -> FileEntry:
        first = f.first_row_id
        if added and first is not None and old.first_row_id is not None and first >= old.first_row_id:
            first += shift
            first_rows[f.path] = first
        elif not added:
            first = first_rows.get(f.path, first)
        return replace(
            f,
            data_sequence_number=number(f.data_sequence_number),
            file_sequence_number=number(f.file_sequence_number),
            first_row_id=first,
        )

    return replace(
        c,
        first_row_id=row_id if old.first_row_id is not None else None,
        added_files=tuple(moved(f, True) for f in c.added_files),
        removed_files=tuple(moved(f, False) for f in c.removed_files),
    )


def acked(o: Operation) -> int | None:
    """The index of its acknowledgement."""
    return o.completed.index if o.type == "ok" and o.completed is not None else None


def rows(changes: Iterable[RowChange] | None) -> list[Row]:
    """The rows of a commit's changes."""
    return [Row._make(c.row) for c in changes or ()]


def _states(edits: Iterable[Edit]) -> Iterator[State]:
    state = State()
    yield state
    for removed, added in edits:
        state = state.copy()
        state.apply(removed, added)
        yield state
