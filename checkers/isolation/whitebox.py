"""A table's dependency graph from its log: the log shows the order of every row's versions, so nothing is guessed.

Every operation is a transaction of one statement: it scanned a state of the table, and its commit changed rows. Both are described by
*objects* (:mod:`checkers.isolation.objects`), whose versions are ordered by main's chain of commits.

Items are rows, not ids: Iceberg knows no unique keys, so an insert of id 7 is no new version of an existing row with this id. Whoever
removes or changes a row comes after its writer, by a ww edge. The objects are predicates: a reader depends on every earlier commit
that changed one, and anti-depends on every later one ([Adya 1999] 3.2.2); virtual nodes stand for these edges::

    c3 ──wr──► P0 ──► P1 ──► R            R read the version after c3 and c5;
               c5 ─wr─┘      └─rw─► Q2 ──► Q3         c8 and c9 changed it later
                                    ├─► c8 └─► c9

An anti-dependency is a predicate's (rwp) if the commit only added rows, an item's if it changed or removed a row that was read.

**The scanned state** is not recorded. If a commit does what its operation means at its parent, it scanned the parent or an equal state.
An older scan is assumed only if nothing newer explains the commit; the commit then missed what was committed in between. If no scan
explains a commit exactly, but some of its rows had been changed meanwhile, it *overwrote* them: it counts as a write of their ids.
Where more than one scan fits (or a read equals several states), the operation depends on what the oldest had and anti-depends on
what the newest lacked: every possible choice implies these edges. So every reported cycle is real.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Generator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from checkers.evidence.history import Operation
from checkers.evidence.tablelog import Commit
from checkers.isolation.graph import PROCESS, REALTIME, RW, RWP, THROUGH, WR, WW, Graph, GraphBuilder
from checkers.isolation.objects import Thing, scanned, touched, words
from checkers.timeline import explain
from checkers.timeline.netrows import NetRows
from checkers.timeline.states import TableStates
from checkers.timeline.timeline import Timeline, kind_of
from checkers.timeline.touched import reads_rows, touches
from workloads.operations.kind import Kind
from workloads.tables import COLUMNS, Row, State

MOST_STATES_BEFORE = 256
"""How many states before a commit's parent to try as its scan."""


_Wanted = tuple[Thing, list[Row], int | None]
"""An object, the rows that a read saw of it, and its id if it is one id."""


@dataclass(frozen=True, slots=True)
class Node:
    """A transaction of the graph: an operation's commit, or a read.

    Attributes:
        operation: None if the commit names no known operation.
        commit: None for a read.
        position: the commit's position on main.
        scan: oldest and newest position that explain it; None when nothing does (then it reads nothing).
    """

    operation: Operation | None
    commit: Commit | None
    position: int
    scan: tuple[int, int] | None


@dataclass
class _Object:
    """The versions of an object: the positions at which it changed, and whether existing rows were changed or removed."""

    number: int
    positions: list[int] = field(default_factory=list)
    existing: list[bool] = field(default_factory=list)


@dataclass
class TableGraph:
    """One table's transactions and their dependencies.

    Attributes:
        nodes: commits by position, then reads; numbered as in ``graph``.
        older: operations that only an older scan than their commit's parent explains.
        unexplained: commits that no scan explains, and reads that equal no state: they read nothing here.
        undecided: why parts could not be judged.
    """

    t: Timeline
    nodes: list[Node] = field(default_factory=list)
    older: list[str] = field(default_factory=list)
    unexplained: list[str] = field(default_factory=list)
    skipped_reads: int = 0
    undecided: list[str] = field(default_factory=list)
    graph: Graph = field(init=False)

    def __post_init__(self) -> None:
        self._objects: dict[Thing, _Object] = {}
        self._names: list[Thing] = []
        self._changes: list[NetRows] = []
        self._reading: list[tuple[int, list[Thing], int, int]] = []  # node, what it read, oldest and newest scan
        self._makers: dict[
            Row, list[int]
        ] = {}  # a row in the table → positions of the commits that made it, one for each copy
        self._overwrites: list[tuple[int, int, int]] = []  # positions of a row's writer and of its next writer, id
        if self._walk():
            self._reads()
        self.graph = self._edges()

    # --- commits

    def _walk(self) -> bool:
        """Every commit, its scan, and the objects that it changed. False when the states are unknown."""
        t = self.t
        if not t.rooted:
            self.undecided.append("main's ancestry is not known down to its root, so the states are unknown")
            return False
        for c in t.main:
            changes = t.changes(c)
            if changes is None:
                self.undecided.append(f"the rows of {explain.snapshot(c)} are not known")
                return False
            self._changes.append(changes)
        state = State()
        for k, c in enumerate(t.main, 1):
            changes = self._changes[k - 1]
            try:
                self._commit(k, c, changes, state)
                state.apply(*changes)
            except (KeyError, TypeError):
                self.undecided.append(
                    f"the log contradicts itself: {explain.snapshot(c)} does not fit its parent's rows"
                )
                return False
        return True

    def _commit(self, k: int, c: Commit, changes: NetRows, state: State) -> None:
        o = self.t.everything.get(c.op) if c.op is not None else None
        if o is not None and o.table != self.t.name:
            o = None
        kind = kind_of(o) if o is not None else None
        scan: tuple[int, int] | None = None
        if o is not None and kind is not None and (kind.changes_rows or kind.replaces):
            scan = self._replaced(k, o, changes, state) if kind.replaces else self._scan(k, o, kind, changes, state)
            if scan is None:
                absent = not kind.replaces and self._of_what_is_gone(o, kind, changes)
                (self.older if absent else self.unexplained).append(o.op)
            else:
                self._reading.append((len(self.nodes), scanned(o, self.t.spec), *scan))
                if scan[1] < k - 1:
                    self.older.append(o.op)
        elif (changes.removed or changes.added) and c.snapshot_id not in self.t.labels.shared:
            self.unexplained.append(c.op or str(c.snapshot_id))
        self.nodes.append(Node(o, c, k, scan))
        self._wrote(k, changes, state)

    def _wrote(self, k: int, changes: NetRows, state: State) -> None:
        """Whose rows a commit changed, and the new versions of objects."""
        for r in changes.removed:
            makers = self._makers.get(r, [])
            if len(set(makers)) == 1:  # of equal rows by several commits, it is unknown which one it is
                self._overwrites.append((makers[-1], k, r.id))
            if makers:
                makers.pop()
        for r in changes.added:
            self._makers.setdefault(r, []).append(k)
        for thing, existing in touched(changes, state).items():
            found = self._object(thing)
            found.positions.append(k)
            found.existing.append(existing)

    def _object(self, thing: Thing) -> _Object:
        found = self._objects.get(thing)
        if found is None:
            found = self._objects[thing] = _Object(len(self._names))
            self._names.append(thing)
        return found

    def _back(self, k: int, o: Operation, state: State) -> Generator[int, None, None]:
        """The positions that an operation may have scanned, the newest first; at each, ``state`` is the state there, and in the end again
        the one before commit ``k``."""
        first = max(0, min(self.t.settled(o.invoked.index), k - 1), k - 1 - MOST_STATES_BEFORE)
        j = k - 1
        try:
            yield j
            while j > first:
                j -= 1
                state.apply(self._changes[j].added, self._changes[j].removed)
                yield j
        finally:
            for change in self._changes[j : k - 1]:
                state.apply(*change)

    def _scan(self, k: int, o: Operation, kind: Kind, real: NetRows, state: State) -> tuple[int, int] | None:
        """The oldest and newest scan that explains a commit; if it overwrote rows, these are noted."""
        removed, added = Counter(real.removed), Counter(real.added)
        exact: list[int] = []
        partly: tuple[int, list[tuple[int, int, int]]] | None = None
        with closing(self._back(k, o, state)) as back:
            for j in back:
                want = self._meaning(o, state)
                if want is None:
                    break
                if want == (removed, added):
                    exact.append(j)
                    if j == k - 1 and not scanned(o, self.t.spec):
                        break  # it reads nothing: every other state is as good
                elif not exact and (partly is None or partly[1]) and want[1] == added and removed <= want[0]:
                    overwritten = self._overwritten(want[0] - removed, {r.id for r in added}, j, k)
                    # The newest scan, unless an older one explains it without overwriting anything.
                    if overwritten is not None and (partly is None or not overwritten):
                        partly = (j, overwritten)
        if exact:
            return exact[-1], exact[0]
        if partly is None:
            return None
        self._overwrites += partly[1]
        return partly[0], partly[0]

    def _of_what_is_gone(self, o: Operation, kind: Kind, real: NetRows) -> bool:
        """Whether a snapshot explains a commit that a rollback took out of main meanwhile: it depends on nothing that main has."""
        made = Counter(real.removed), Counter(real.added)
        for version in self.t.versions:
            if version.snapshot is None or version.snapshot in self.t.position:
                continue
            state = self.t.state(version.snapshot)
            if state is not None and self._meaning(o, state) == made and self.t.newest_until_set_back(version, o):
                return True
        return False

    def _overwritten(self, kept: Counter[Row], ids: set[int], j: int, k: int) -> list[tuple[int, int, int]] | None:
        """What a commit overwrote that scanned position ``j``, if others had changed all rows that it left; as in ``_overwrites``."""
        changed = [(r, self._remover(r, j, k)) for r in kept]
        if not all(position for _, position in changed):
            return None
        return [(position, k, r.id) for r, position in changed if r.id in ids or self._adds(position, r.id)]

    def _replaced(self, k: int, o: Operation, real: NetRows, state: State) -> tuple[int, int] | None:
        """The oldest and newest position whose rows replaced the table; the operation read all of them."""
        after = state.copy()
        after.apply(*real)
        same = [j for j in self._back(k, o, state) if state == after]
        return (same[-1], same[0]) if same else None

    def _remover(self, row: Row, j: int, k: int) -> int:
        """The first position from j+1 to k-1 whose commit removed a row; 0 for none."""
        return next((p for p in range(j + 1, k) if row in self._changes[p - 1].removed), 0)

    def _adds(self, position: int, id: int) -> bool:
        """Whether a commit changed a row of an id, rather than only deleting it."""
        o = self.t.everything.get(self.t.main[position - 1].op or "")
        kind = kind_of(o) if o is not None else None
        if kind is not None and kind.overwrites:
            return False
        return any(r.id == id for r in self._changes[position - 1].added)

    def _meaning(self, o: Operation, state: State) -> tuple[Counter[Row], Counter[Row]] | None:
        if (want := self.t.meaning(o, state)) is None:
            return None
        removed, added = Counter(want.removed), Counter(want.added)
        return (removed, added) if removed.keys().isdisjoint(added) else (removed - added, added - removed)

    # --- reads

    def _reads(self) -> None:
        t = self.t
        states = TableStates(t)
        kept = [0 if v.snapshot is None else t.position.get(v.snapshot, -1) for v in t.versions]
        invoked: list[int] = [-1]
        for c in t.main:
            maker = t.everything.get(c.op or "")
            invoked.append(max(invoked[-1], maker.invoked.index if maker is not None else -1))
        late = lost = 0
        for o in t.ops:
            if not reads_rows(o) or o.type != "ok" or o.completed is None:
                continue
            if o.completed.time >= t.seen_until:  # it may have seen commits that the log lacks
                late += 1
            elif t.rollback_in_gap:  # it may have seen commits that main no longer has, or that the log lacks
                lost += 1
            else:
                self._read(o, states, kept, bisect_left(invoked, o.completed.index) - 1)
        self.skipped_reads += lost + late
        if lost:
            self.undecided.append(
                f"a rollback may have been in versions that the log lacks, so what {lost} reads saw is unknown"
            )
        if late:
            self.undecided.append(f"{late} reads ended after the table log was last read, so what they saw is unknown")

    def _read(self, o: Operation, states: TableStates, kept: list[int], high: int) -> None:
        """A read's node, and what it saw; ``high``: the newest position that it may have seen."""
        rows, about = _rows(o.result), touches(o, self.t.spec)
        if rows is None or about is None:
            self.skipped_reads += 1
            return
        low = self.t.settled(o.invoked.index)
        key = None if about.whole else about.ids[0]
        wanted: list[_Wanted] = [(("all",), rows, None) if key is None else (("id", key), rows, key)]
        found, lost = self._matches(o, states, kept, wanted, low, high)
        if not found and not lost and key is None:  # no single state: perhaps each id is of another one
            by_id: dict[int, list[Row]] = {x[1]: [] for x in self._objects if x[0] == "id" and isinstance(x[1], int)}
            for r in rows:
                by_id.setdefault(r.id, []).append(r)
            each: list[_Wanted] = [(("id", i), some, i) for i, some in by_id.items()]
            found, lost = self._matches(o, states, kept, each, low, high)
        if found:
            scan = min(x[1] for x in found), max(x[2] for x in found)
            self._reading += [(len(self.nodes), [thing], oldest, newest) for thing, oldest, newest in found]
            self.nodes.append(Node(o, None, -1, scan))
            return
        self.skipped_reads += 1
        if not lost:
            self.unexplained.append(o.op)

    def _matches(
        self, o: Operation, states: TableStates, kept: list[int], wanted: list[_Wanted], low: int, high: int
    ) -> tuple[list[tuple[Thing, int, int]], bool]:
        """For each object the oldest and the newest position on main with these rows; nothing when one never had them.

        The flag says that one may have been seen in a state that main has lost since: then nothing is known about the read.
        """
        out: list[tuple[Thing, int, int]] = []
        for thing, rows, key in wanted:
            spans = states.spans(rows, key)
            positions = [kept[s.start : s.stop] for s in spans]
            on_main = [(min(p), max(p)) for span in positions if (p := [x for x in span if x >= 0])]
            possible = [s for s in on_main if s[1] >= low and s[0] <= high]
            lost = [n for s in spans for n in range(s.start, s.stop) if kept[n] < 0]
            if lost and (not possible or any(self.t.newest_until_set_back(self.t.versions[n], o) for n in lost)):
                return [], True
            if not on_main:
                return [], False
            older = [s for s in on_main if s[1] < low]
            possible = possible or older[-1:] or on_main[:1]
            out.append((thing, possible[0][0], possible[-1][1]))
        return out, False

    # --- edges

    def _edges(self) -> Graph:
        g = GraphBuilder(len(self.nodes))
        for p, q, id in self._overwrites:
            g.edge(p - 1, q - 1, WW, self._objects[("id", id)].number)
        chains: dict[Thing, tuple[int, int]] = {}
        for n, things, oldest, newest in self._reading:
            for thing in things:
                if thing not in self._objects:
                    continue
                x = self._objects[thing]
                present, lacked = bisect_right(x.positions, oldest), bisect_right(x.positions, newest)
                if thing not in chains:
                    chains[thing] = self._chain(g, x)
                self._predicate(g, n, x, chains[thing], present, lacked)
        timed = [(n, node.operation) for n, node in enumerate(self.nodes) if node.operation is not None]
        nodes, ops = np.array([n for n, _ in timed], dtype=np.int64), [o for _, o in timed]
        g.in_time(nodes, [o.process for o in ops], [o.invoked.index for o in ops], [_end(o) for o in ops])
        return g.graph()

    @staticmethod
    def _chain(g: GraphBuilder, x: _Object) -> tuple[int, int]:
        """The virtual nodes of a predicate's versions: the first P, the first Q."""
        m = len(x.positions)
        p, q = g.nodes(m), g.nodes(m)
        for i, position in enumerate(x.positions):
            g.edge(position - 1, p + i, WR, x.number)
            g.edge(q + i, position - 1, THROUGH, x.number)
            if i + 1 < m:
                g.edge(p + i, p + i + 1, THROUGH)
                g.edge(q + i, q + i + 1, THROUGH)
        return p, q

    def _predicate(
        self, g: GraphBuilder, n: int, x: _Object, chain: tuple[int, int], present: int, lacked: int
    ) -> None:
        p, q = chain
        if present:
            g.edge(p + present - 1, n, THROUGH, x.number)
        own = bisect_left(x.positions, self.nodes[n].position)
        if self.nodes[n].commit is not None and own < len(x.positions) and x.positions[own] == self.nodes[n].position:
            for i in range(lacked, own):  # what it missed before its own commit
                g.edge(n, x.positions[i] - 1, RW if x.existing[i] else RWP, x.number)
            lacked = max(lacked, own + 1)
        if lacked < len(x.positions):
            g.edge(n, q + lacked, RWP, x.number)

    # --- words

    def id(self, n: int) -> str:
        """A transaction's name: its operation, or its snapshot."""
        node = self.nodes[n]
        if node.operation is not None:
            return node.operation.op
        assert node.commit is not None
        return f"snapshot {node.commit.snapshot_id}"

    def show(self, n: int) -> str:
        """A transaction, in words."""
        node = self.nodes[n]
        o, c = node.operation, node.commit
        who = f"the {explain.operation(o)}, {explain.outcome(o)}" if o is not None else "an unnamed operation"
        if c is None:
            return f"{who}, returned {explain.listing([explain.row(r) for r in _rows(o.result) or []], 2) if o is not None else ''}"
        changes = self._changes[node.position - 1]
        did = f"removes {explain.rows(changes.removed)} and adds {explain.rows(changes.added)}"
        return f"{who}: {explain.snapshot(c)}, commit {node.position} of main, {did}"

    def why(self, before: int, after: int, kind: int, key: int) -> tuple[int, str]:
        """See ``cycles.Explainer``."""
        a, b = self.nodes[before], self.nodes[after]
        if kind == PROCESS:
            process = a.operation.process if a.operation is not None else None
            return kind, f"process {process} executed {{before}} before {{after}}"
        if kind == REALTIME:
            assert a.operation is not None and b.operation is not None
            done = a.operation.completed
            return kind, (
                f"{{before}} was acknowledged at {explain.s(done.time if done is not None else 0)} and {{after}} invoked at "
                f"{explain.s(b.operation.start)}"
            )
        thing = self._names[key]
        x = self._objects[thing]
        what = words(thing)
        if kind == WW:
            return (
                kind,
                f"{{before}} wrote a row of {what} in commit {a.position} that {{after}} wrote next, in commit {b.position}",
            )
        if kind == WR:
            return kind, f"{{after}} observed {what} as {{before}} had left it in commit {a.position}"
        i = bisect_left(x.positions, b.position)
        exact = RW if i < len(x.positions) and x.positions[i] == b.position and x.existing[i] else RWP
        seen = (
            f"read the table as it was {explain.after(a.scan[1])}, or earlier,"
            if a.scan is not None
            else "read the table before"
        )
        return exact, f"{{before}} {seen} and did not observe {{after}}'s change of {what} in commit {b.position}"

    def ids(self, nodes: Sequence[int]) -> tuple[int, ...]:
        """Ids of the rows that one of these commits changed and another touches, at most 100."""
        found: set[int] = set()
        for n in nodes:
            if self.nodes[n].commit is not None:
                change = self._changes[self.nodes[n].position - 1]
                found |= {r.id for r in (*change.removed, *change.added)}
        return tuple(sorted(found))[:100]


def _end(o: Operation) -> int | None:
    return o.completed.index if o.type == "ok" and o.completed is not None else None


def _rows(result: Any) -> list[Row] | None:
    if not isinstance(result, list) or not all(isinstance(r, list | tuple) and len(r) == len(COLUMNS) for r in result):
        return None
    rows = [Row._make(r) for r in result]
    return rows if all(isinstance(r.id, int) for r in rows) else None
