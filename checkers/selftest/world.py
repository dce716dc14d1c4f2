"""A good run prepared for damage: every table's state after every commit, who can have seen what, and edits that keep the rest valid.

A planted bug tests a checker only if it is the only defect. So the edits here keep everything else as a correct Iceberg would have left
it. Inserting or removing a snapshot shifts the sequence numbers, parents, row ids and lists of snapshots after it. Changed rows change
what later operations do: their meanings are computed again, commit by commit (:meth:`World.with_rows`), and so are the results of reads
that saw them. Real time may be edited as well: a *longer* operation breaks no promise, as all that is known is that it took effect
between its two events.

It computes states, windows and reads itself, without the checkers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from random import Random
from typing import Any

from checkers.evidence.evidence import Evidence
from checkers.evidence.history import Event, Operation
from checkers.evidence.replace import replace
from checkers.evidence.tablelog import RowChange
from checkers.formats.iceberg.records import IcebergLog as TableLog
from checkers.formats.iceberg.records import iceberg_log
from checkers.selftest.edits import renumbered, returned
from checkers.selftest.goodtable import Edit, GoodTable, Rows, T, rows
from workloads.operations.kinds import KINDS
from workloads.tables import Row, State

NO_SNAPSHOT = "the version shows no new snapshot, so its file does not say who wrote it"
CATALOG_DID_IT = "the catalog did it, to all operations at once"
GONE = "evidence is gone, and missing evidence accuses nobody"
UNWRITTEN = "the file is in no version, so nothing says who wrote it"
"""Why a planted bug has no culprit."""


@dataclass(frozen=True)
class Planted:
    """A run with a bug.

    Attributes:
        ops: the operations of which a checker must name at least one; none: any will do.
        culprit: the operation whose commit, answer or rows are wrong, which a checker must name first; of a commit or swap that is lost,
            the one that made it. None if there is no such operation.
        nobody: why there is none; empty if there is one.
    """

    evidence: Evidence
    ops: frozenset[str] = field(default_factory=frozenset)
    culprit: str | None = None
    nobody: str = ""

    def __post_init__(self) -> None:
        if (self.culprit is None) != bool(self.nobody):
            raise ValueError("a planted bug has a culprit, or says why it has none")


@dataclass(frozen=True)
class World:
    """A good run; ``rng`` decides where the damage goes."""

    evidence: Evidence
    rng: Random

    @cached_property
    def operations(self) -> dict[str, Operation]:
        """All operations by id."""
        return {o.op: o for o in self.evidence.history.operations()}

    @cached_property
    def every(self) -> tuple[GoodTable, ...]:
        """The tables that have a commit."""
        e = self.evidence
        return tuple(
            GoodTable(e.tables[n], iceberg_log(log), self.operations) for n, log in sorted(e.logs.items()) if log.main()
        )

    @cached_property
    def tables(self) -> tuple[GoodTable, ...]:
        """The tables without staged snapshots: each snapshot became main's with the version that shows it first."""
        return tuple(t for t in self.every if not t.staged)

    def with_rng(self, rng: Random) -> World:
        """The same run for another placement; computed values are kept."""
        twin = World(self.evidence, rng)
        twin.__dict__["operations"] = self.operations
        twin.__dict__["tables"] = self.tables
        return twin

    @cached_property
    def events(self) -> tuple[Event, ...]:
        """The history's events."""
        return self.evidence.history.events

    def choose(self, among: Iterable[T]) -> T | None:
        """A random item; None when there is none."""
        found = list(among)
        return self.rng.choice(found) if found else None

    def shuffled(self, among: Iterable[T]) -> list[T]:
        """All items in random order."""
        found = list(among)
        self.rng.shuffle(found)
        return found

    def each(self, positions: Callable[[GoodTable], Iterable[int]]) -> list[tuple[GoodTable, int]]:
        """All (table, position) in random order."""
        found = [(t, k) for t in self.tables for k in positions(t)]
        self.rng.shuffle(found)
        return found

    # --- the result

    def planted(
        self,
        *ops: str,
        log: TableLog | None = None,
        events: Sequence[Event] | None = None,
        nobody: str = "",
    ) -> Planted:
        """The run with a table's log or the history replaced. The first operation is the culprit, unless ``nobody`` says why none is."""
        e = self.evidence
        if log is not None:
            e = replace(e, logs={**e.logs, log.table: log})
        if events is not None:
            e = replace(e, history=replace(e.history, events=renumbered(events)))
        return Planted(e, frozenset(ops), None if nobody or not ops else ops[0], nobody)

    def by_maker(self, t: GoodTable, n: int, log: TableLog) -> Planted:
        """The run with a table's log in which version ``n`` is wrong: the operation whose snapshot it shows first is the culprit."""
        op = t.maker(n)
        return self.planted(log=log, nobody=NO_SNAPSHOT) if op is None else self.planted(op, log=log)

    def read_as(self, o: Operation, result: Any, *others: str) -> Planted:
        """The run in which a read returned something else."""
        return self.planted(o.op, *others, events=returned(self.events, {o.op: result}))

    def with_rows(
        self,
        t: GoodTable,
        k: int,
        removed: Rows,
        added: Rows,
        events: Sequence[Event] | None = None,
        *,
        follow: bool = True,
    ) -> tuple[TableLog, Sequence[Event]]:
        """The run in which the commit at position k did this instead; later commits, and the reads that saw them, follow from it.

        Without ``follow`` everything else stays the same.
        """
        events = self.events if events is None else events
        if not follow:
            same = [(rows(c.removed), rows(c.added)) for c in t.main]
            return self._log(t, [*same[: k - 1], (removed, added), *same[k:]]), events
        edits: list[Edit] = [(rows(c.removed), rows(c.added)) for c in t.main[: k - 1]] + [(removed, added)]
        state = t.states[k - 1].copy()
        state.apply(removed, added)
        states = [*t.states[:k], state.copy()]
        for j in range(k + 1, len(t.main) + 1):
            o, kind = t.op(j), t.kind(j)
            if state == t.states[j - 1] or not kind.changes_rows:
                edit: Edit = rows(t.main[j - 1].removed), rows(t.main[j - 1].added)
            else:
                edit = kind.writeset(state, o.value, o.op, t.spec)
            edits.append(edit)
            state.apply(*edit)
            states.append(state.copy())
        return self._log(t, edits), self._reads(t, states, k, events)

    @staticmethod
    def _log(t: GoodTable, edits: Sequence[Edit]) -> TableLog:
        home: dict[Row, RowChange] = {}
        commits = {}
        for c, (removed, added) in zip(t.main, edits, strict=True):
            if Counter(rows(c.removed)) != Counter(removed) or Counter(rows(c.added)) != Counter(added):
                data = next((f.path for f in c.added_files if f.content == "data"), f"data/{c.snapshot_id}.parquet")
                delete_file = next((f.path for f in c.added_files if f.content != "data"), None)
                out = []
                for n, r in enumerate(removed):
                    was = home.get(r, RowChange(tuple(r), f"data/{c.snapshot_id}-before.parquet", n))
                    out.append(RowChange(tuple(r), was.file, was.pos, delete_file))
                c = replace(
                    c,
                    added=tuple(RowChange(tuple(r), data, n) for n, r in enumerate(added)),
                    removed=tuple(out),
                )
            home |= {Row._make(x.row): x for x in c.added or ()}
            commits[c.snapshot_id] = c
        return replace(t.log, commits=tuple(commits.get(c.snapshot_id, c) for c in t.log.commits))

    @staticmethod
    def _reads(t: GoodTable, states: Sequence[State], k: int, events: Sequence[Event]) -> Sequence[Event]:
        results: dict[str, Any] = {}
        for o in t.reads:
            p = t.seen_by(o)
            if p is not None and p >= k:
                results[o.op] = [list(r) for r in KINDS[o.f].expected(states[p], o.value) or ()]
        positions = {c.snapshot_id: j for j, c in enumerate(t.main, 1)}
        for o in t.operations.values():
            if o.f == "read-snapshot" and o.table == t.name and o.type == "ok":
                asked = o.result["snapshot"]
                if positions.get(asked, 0) >= k:
                    results[o.op] = {"snapshot": asked, "rows": [list(r) for r in states[positions[asked]].rows()]}
        return returned(events, results)
