"""One table while the run goes on: what each event and each captured version makes certain.

**Closed.** What an operation can have seen, or what can explain it, is known when main has a commit whose operation was invoked after the first
one had ended: states from then on came too late for it. Until then it is pending. Versions are taken one at a time, so a capture after
many commits judges each operation at its own state::

    main         … k-2 ──► k-1 ──► k         k's operation was invoked after the read r had ended:
                    └── r ──┘                r can have seen k-1 at the latest, so r is judged before k is applied

**What rests on what.** A finding is about main as it was captured. Two things can change the past: main is set back, and an operation's commit
lands a second time. Both are anomalies themselves and are told; from then on the table is not judged any more, but for what main loses when
it is set back again.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from checkers.evidence.history import Operation
from checkers.evidence.replace import replace
from checkers.evidence.tablelog import Capture, Commit, Growth, Metadata, RowChange, TableLog
from checkers.online.floor import Floor
from checkers.online.found import Found
from checkers.online.window import KEPT, Window
from checkers.reads.judge import rows_of
from checkers.replay.past import FAR, compare
from checkers.replay.walk import TableReplay
from checkers.timeline import explain
from checkers.timeline.answers import claims_of
from checkers.timeline.timeline import Changes, Timeline, kind_of, meaning, net_changes, order_of, row_of
from checkers.timeline.touched import ids_named, reads_rows, touches
from checkers.timeline.version_order import place
from workloads.operations.kinds import KINDS
from workloads.tables import COLUMNS, Row, TableSpec

OPERATIONS = 8 * KEPT
"""Operations of a table that are remembered after their end."""
HELD = 100
"""Reads that are held until it is known what became of the writes whose rows they returned."""
TOO_LONG = "operations under way longer than states are kept"
UNSEEN = "reads of rows whose write has no snapshot"
AFTER = "reads that ended after the table log was read last"
OLD = ("stale-read", "non-monotonic-read", "read-your-writes")
"""Names of reads of an old state."""
NOWHERE = ("fractured-read", "dirty-read", "phantom-value", "future-read")
"""Names of reads that equal no state so far."""
ROWS = (
    "wrong-rows",
    "stale-scan",
    "lost-update",
    "resurrected-row",
    "duplicate-row",
    "undelete",
    "write-skew",
    "vanished-read",
)
"""Names of commits that their operation's meaning does not explain."""
FINAL = frozenset({"undelete", "write-skew"})
"""Those that stay, whatever comes later."""
MAINTENANCE = ("compaction-changed-rows", "resurrected-row")

Tell = Callable[[Found], None]


def outside(f: str) -> str | None:
    """Why tables with operations of a kind are not judged while the run goes on; None if they are."""
    kind = KINDS.get(f)
    if kind is None:
        return f"operations of kind {f} are not known"
    if kind.two_tables:
        return f"operations on two tables ({f})"
    if kind.sets_back:
        return f"rollbacks ({f})"
    if kind.replaces:
        return f"replaced tables ({f})"
    return None


@dataclass(frozen=True)
class _Late(Timeline):
    """The last part of a table's main; positions count from its first commit."""

    floor: int = 0

    def settled(self, event: int) -> int:
        """What is certain of the one operation that is judged here."""
        return self.floor


@dataclass(eq=False)
class _Asked:
    """A capture, the acknowledged writes that it did not show, and whether it was told that it was stale. ``at``: its time, ns."""

    at: int
    ops: tuple[str, ...]
    told: bool = False


@dataclass(eq=False)
class _Unseen:
    """An acknowledged write that the log does not have.

    Attributes:
        due: whether it had something to change at every state that it can have seen; False while that is open.
        missed: the first capture that was asked for after its acknowledgement and did not show it.
    """

    o: Operation
    due: bool = False
    missed: _Asked | None = None
    told: bool = False


@dataclass(frozen=True, slots=True)
class _Read:
    o: Operation
    rows: list[Row]
    key: int | None


@dataclass(frozen=True, slots=True)
class _Held:
    """A read of rows of writes that may still turn out to be lost; then it is no anomaly of its own. ``at``: its end, ns."""

    found: Found
    at: int
    waits: set[str]


class OnlineTable:
    """One table's pending operations, last versions and present state.

    Args:
        tell: gets every anomaly, when it is certain.
        kept: commits whose changes are kept.
        remembered: ended operations that are remembered.

    Attributes:
        commits, retried: snapshots on main so far, and those that took more than one attempt.
        judged, reads: commits and reads that were judged.
        not_judged: why something was not judged → how many commits and completed operations.
        closed: why nothing of this table is judged any more; None while it is.
    """

    def __init__(self, spec: TableSpec, tell: Tell, kept: int = KEPT, remembered: int = OPERATIONS) -> None:
        self.spec = spec
        self.commits = self.retried = self.judged = self.reads = 0
        self.not_judged: Counter[str] = Counter()
        self.closed: str | None = None
        self._tell = tell
        self._remembered = remembered
        self._kept = kept
        self._window = Window(kept)
        self._order: tuple[int, ...] | None = None
        self._ops: dict[str, Operation] = {}
        self._ended: deque[str] = deque()
        self._forgotten = self._forgot_unseen = False
        self._positions: dict[str, list[int]] = {}
        self._settled, self._writes, self._seen = Floor(), Floor(), Floor()
        self._reads: deque[_Read] = deque()
        self._unseen: dict[str, _Unseen] = {}
        self._waiting: deque[_Unseen] = deque()
        """Those that may still have seen a further state, by their acknowledgements; some have shown since."""
        self._unasked: deque[_Unseen] = deque()
        """Those without a capture since, likewise."""
        self._held: list[_Held] = []
        self._uncaptured: list[tuple[int, Found]] = []
        """Anomalies of reads, with the reads' ends in ns, that wait for a capture which was asked for after that."""
        self._own_reads: dict[object, int] = {}
        self._strangers: dict[str, int] = {}
        self._newest = -1
        self._newest_op = ""
        self._n = -1
        self._metadata: Metadata | None = None
        self._captured = -1
        self._places: dict[str, int] = {}
        """The last versions' locations → their numbers."""
        self._shown = -1
        self._there = False
        self._lost: dict[str, tuple[Commit, Operation, tuple[int, ...]]] = {}
        """Operations whose commits main lost: the commit, the operation, the keys."""
        self._line: list[Commit] | None = None
        """After main was set back: its last commits, as long as they are known."""
        self._dropped: dict[int, int | None] = {}
        """Snapshots that main lost, and those that came beside it since → their parents."""
        self._came_back: set[int] = set()
        """Those of them that main has again."""
        self._lost_more = False
        """Whether main may have lost more than ``_dropped``."""

    @property
    def name(self) -> str:
        """The table's name in the workload file."""
        return self.spec.name

    def overtaken(self, found: Found) -> bool:
        """Whether an anomaly of a commit was told, and main has lost that commit since, or may have: the full check judges what is left.

        Likewise, whether a commit was told as lost, and main has it again.
        """
        if found.checker == "reads" or found.name == "lost-table" or not found.snapshots:
            return False
        if found.name == "lost-commit":
            return not self._came_back.isdisjoint(found.snapshots)
        return self._lost_more or not self._dropped.keys().isdisjoint(found.snapshots)

    def __len__(self) -> int:
        """Number of kept things, for bounds of memory."""
        parts = (
            self._ops,
            self._ended,
            self._positions,
            self._reads,
            self._held,
            self._uncaptured,
            self._unseen,
            self._waiting,
            self._unasked,
        )
        more = (
            self._places,
            self._own_reads,
            self._strangers,
            self._settled,
            self._writes,
            self._seen,
            self._lost,
            self._window,
        )
        return sum(map(len, parts)) + sum(len(x) for x in more)

    def close(self, why: str) -> None:
        """Judge nothing of this table any more; what is pending counts as not judged."""
        if self.closed is not None:
            return
        self.closed = why
        self._leave(why, len(self._reads) + len(self._unseen) + len(self._held))
        for kept in (
            self._reads,
            self._held,
            self._unseen,
            self._waiting,
            self._unasked,
            self._positions,
            self._own_reads,
            *(() if self._line is not None else (self._ops, self._ended)),
        ):
            kept.clear()
        self._window = Window(self._kept)

    # --- events

    def invoked(self, o: Operation) -> None:
        """An operation on this table was invoked."""
        why = outside(o.f)
        if why is not None:
            self.close(why)
        if self.closed is None or self._line is not None:
            self._ops[o.op] = o

    def completed(self, o: Operation) -> None:
        """It ended, or its outcome is unknown."""
        if self.closed is not None:
            self.not_judged[self.closed] += 1
            if o.op in self._lost:
                c, _, keys = self._lost[o.op]
                self._lost[o.op] = c, o, keys
            if self._line is not None:
                self._remember(o)
            return
        assert o.completed is not None
        kind, positions = kind_of(o), self._positions.get(o.op, [])
        self._remember(o)
        if o.type == "fail" and positions:
            self._false_failure(o, self._window.at(positions[0]).commit if positions[0] > self._window.base else None)
        if o.type != "ok":
            self._resolved(o.op)
        if o.type == "ok" and kind is not None:
            said = claims_of(o)
            if said is not None:
                self.not_judged["answers of procedures"] += 1
            if kind.writes:
                if positions:
                    self._proven(o, positions)
                elif kind.changes_rows or (said is not None and said.needs_snapshot):
                    unseen = _Unseen(o, due=not kind.changes_rows)
                    self._unseen[o.op] = unseen
                    self._unasked.append(unseen)
                    if kind.changes_rows:
                        self._waiting.append(unseen)
            elif reads_rows(o):
                rows, about = rows_of(o.result), touches(o, self.spec)
                if rows is None or about is None:
                    self.not_judged["reads whose result is not a list of rows"] += 1
                else:
                    self._reads.append(_Read(o, rows, None if about.whole else about.ids[0]))
            elif kind.travels:
                self.not_judged["time travel"] += 1
        if len(self._reads) > self._remembered:  # there was no capture for long
            self._reads.popleft()
            self.not_judged["reads that waited too long for a capture"] += 1
        for pending in (self._waiting, self._unasked):
            if len(pending) > self._remembered:
                pending.popleft()

    def _remember(self, o: Operation) -> None:
        self._ops[o.op] = replace(o, result=None)  # a read's rows are kept until it is judged
        self._ended.append(o.op)
        while len(self._ended) > self._remembered:
            self._forget(self._ended.popleft())

    def _forget(self, op: str) -> None:
        self._forgotten = True
        self._ops.pop(op, None)
        self._positions.pop(op, None)
        gone = self._unseen.pop(op, None)
        if gone is not None:
            self._forgot_unseen = True
            if not gone.told:
                self.not_judged["acknowledged writes without a snapshot"] += 1

    def _proven(self, o: Operation, positions: Sequence[int]) -> None:
        """An acknowledgement says that these positions had been reached."""
        assert o.completed is not None
        event, kind = o.completed.index, kind_of(o)
        at = positions[:1] if kind is not None and kind.changes_rows else positions
        for p in at:
            self._writes.add(event, p)
        self._settled.add(event, positions[0])

    # --- versions

    def grew(self, g: Growth) -> None:
        """The log gained versions and captures."""
        if not set(COLUMNS) <= set(g.columns):
            self.close("the table log lacks columns")
            return
        self._order = order_of(g.columns)
        made: dict[int, list[Commit]] = {}
        for c in g.commits:
            made.setdefault(c.metadata, []).append(c)
        for m in g.metadata:
            if m.n > self._n:  # a reader that began again tells all of them again
                self._n = m.n
                self._version(m, made.get(m.n, []))
        for capture in g.captures:
            self._capture(capture)

    def _version(self, m: Metadata, commits: Sequence[Commit]) -> None:
        before, self._metadata = self._metadata, m
        self._places[place(m.location)] = m.n
        if len(self._places) > self._kept:
            del self._places[next(iter(self._places))]
        self.commits += len(commits)
        self.retried += sum(c.attempt is not None and c.attempt > 1 for c in commits)
        if self.closed is not None:
            self._count(commits)
            self._after_set_back(before, m, commits)
            return
        current = None if before is None else before.current
        if any(p.code != "fork" for p in m.problems):
            self.close("the chain of metadata is broken")
        elif m.current == current:
            if commits:
                self.close("snapshots beside main")
        elif len(commits) == 1 and commits[0].snapshot_id == m.current and commits[0].parent_id == current:
            self._step(commits[0])
        elif before is not None and len(commits) <= 1:
            self._set_back(m, commits)
        else:
            self.close("several snapshots in one version")
        if self._line is None:  # otherwise it was set back, and what main lost is known
            self._lost_more |= not _goes_on(current, m, commits)
        self._count(commits)

    def _count(self, commits: Sequence[Commit]) -> None:
        """Commits that are not judged, because the table is not any more."""
        if self.closed is not None:
            self._leave(self.closed, len(commits))

    def _leave(self, why: str, n: int) -> None:
        """So many are left to the full check."""
        if n:
            self.not_judged[why] += n

    def _row(self, change: RowChange) -> Row:
        return row_of(change, self._order)

    def _step(self, c: Commit) -> None:
        """Main's next commit."""
        changes = net_changes(c, self._row)
        if c.op is None:
            return self.close("snapshots that name no operation")
        o = self._ops.get(c.op)
        if changes is None:
            if o is not None:
                self._of_operation(c, o, Changes((), ()))
            return self.close("rows that could not be read")
        if o is not None:
            self._close_up_to(o.invoked.index)
            self._judge(c, o, changes)
        else:
            self._strangers.setdefault(c.op, c.snapshot_id)
            self.not_judged["snapshots of operations that are not known"] += 1
            if len(self._strangers) > self._remembered:
                self._forgotten = True
                self._strangers.clear()
        if o is not None:
            self._of_operation(c, o, changes)
        if self.closed is not None:
            return None
        if o is not None and o.invoked.index > self._newest:
            self._newest, self._newest_op = o.invoked.index, o.op
        try:
            self._window.step(c, changes, self._newest)
        except KeyError:
            return self.close("rows that are removed and were not there")
        for floor in (self._settled, self._writes, self._seen):
            floor.forget(self._window.base)

    def _of_operation(self, c: Commit, o: Operation, changes: Changes) -> None:
        """What main's next commit says of its operation as such: it is there, twice, too late, or should not be."""
        kind = kind_of(o)
        if kind is None or not kind.writes:
            why = "main has a snapshot that says that this operation made it, and it commits nothing"
            self._found("commits", "unknown-commit", o, why, c)
            return
        positions = self._positions.setdefault(o.op, [])
        positions.append(self._window.top + 1)
        again = len(positions) > 1 and kind.changes_rows
        keys = explain.keys((*changes.removed, *changes.added))
        if again:
            first = self._window.at(positions[0]).commit if positions[0] > self._window.base else None
            both = (c.snapshot_id,) if first is None else (first.snapshot_id, c.snapshot_id)
            why = "it was invoked once, and main has several snapshots of it"
            self._tell(Found("commits", ("duplicate-commit",), self.name, (o.op,), why, both, keys))
        if o.type == "fail" and o.completed is not None and len(positions) == 1:
            self._false_failure(o, c)
        self._resolved(o.op)
        unseen = self._unseen.pop(o.op, None)
        if unseen is not None and unseen.missed is not None and not unseen.missed.told:
            for other in (
                unseen,
                *self._unseen.values(),
            ):  # the full check names the one that came first for all captures since
                if other.missed is not None and other.missed.at >= unseen.missed.at:
                    other.missed.told = True
            why = "it was acknowledged, then the catalog was asked for the table and named a version without it"
            forgot = self._forgot_unseen  # then the one that came first may be forgotten
            self._tell(
                Found("commits", ("stale-pointer",), self.name, (o.op,), why, (c.snapshot_id,), keys, any_ops=forgot)
            )
        if o.type == "ok" and o.completed is not None:
            if o.completed.index < self._newest and not again:
                ops, both = (o.op, self._newest_op), (c.snapshot_id,)
                why = "it was acknowledged before another operation was invoked whose snapshot comes before its own on main"
                self._tell(Found("commits", ("commit-order",), self.name, ops, why, both, keys, any_ops=True))
                self._writes.add(o.completed.index, positions[0])
            elif not again:
                self._proven(o, positions)
        if again:
            self.close("a commit that landed twice")

    def _false_failure(self, o: Operation, c: Commit | None) -> None:
        self._found("commits", "false-failure", o, "it was reported as failed, and main has its snapshot", c)

    def _found(self, checker: str, name: str, o: Operation, why: str, c: Commit | None) -> None:
        snapshots = () if c is None else (c.snapshot_id,)
        changes = None if c is None else net_changes(c, self._row)
        keys = explain.keys(r for part in changes or () for r in part)
        self._tell(Found(checker, (name,), self.name, (o.op,), why, snapshots, keys))

    # --- what closes

    def _close_up_to(self, event: int) -> None:
        """Main's next commit is of an operation that was invoked at this event: what had ended before cannot have seen it."""
        while self._reads and _ended(self._reads[0].o) < event:
            self._judge_read(self._reads.popleft())
        while self._waiting and _ended(self._waiting[0].o) < event:
            self._close(self._waiting.popleft())

    def _close(self, unseen: _Unseen) -> None:
        """Whether an acknowledged write without a snapshot had something to change, at every state that it can have seen."""
        if self._unseen.get(unseen.o.op) is not unseen:
            return
        first = min(self._settled.before(unseen.o.invoked.index), self._window.top)
        if first < self._window.base:
            self.not_judged[TOO_LONG] += 1
            return
        states = self._window.back(first)
        unseen.due = not any(meaning(unseen.o, state, self.spec) == ([], []) for _, state in states)
        states.close()

    def _capture(self, capture: Capture) -> None:
        if capture.metadata is None:
            if self._there and self.closed is None:
                why = "the catalog has no table any more, and no operation dropped it"
                self._tell(Found("commits", ("lost-table",), self.name, (), why, any_ops=True))
            self._there = False
            return
        self._there = True
        shown = self._places.get(place(capture.metadata))
        if shown is None:
            return  # what it shows is not known
        if shown < self._shown and self.closed is None:
            why = "the catalog named a version of the table's metadata, and an older one when it was asked again"
            self._tell(Found("commits", ("stale-pointer",), self.name, (), why, any_ops=True))
        self._shown = max(self._shown, shown)
        if shown != self._n:
            return
        self._captured = capture.time
        waiting, self._uncaptured = self._uncaptured, []
        for at, found in waiting:
            self._tell_read(found, at)
        asked: list[_Unseen] = []
        while self._unasked and _ended_at(self._unasked[0].o) < capture.time:
            unseen = self._unasked.popleft()
            if self._unseen.get(unseen.o.op) is unseen:
                asked.append(unseen)
        if asked:
            token = _Asked(capture.time, tuple(u.o.op for u in self._unseen.values() if _ended_at(u.o) < capture.time))
            for unseen in asked:
                unseen.missed = token
        for unseen in [u for u in self._unseen.values() if u.due and u.missed is not None and not u.told]:
            self._never_seen(unseen, final=False)
        self._tell_lost(capture.time)

    def _tell_lost(self, until: int | None) -> None:
        """The commits that main lost and that were acknowledged before ``until``, ns; None: at any time."""
        for op, (c, o, keys) in [*self._lost.items()]:
            if o.type == "ok" and o.completed is not None and (until is None or o.completed.time < until):
                del self._lost[op]
                why = "it was acknowledged, and main was set back: its snapshot is not in main's ancestry any more"
                self._tell(Found("commits", ("lost-commit",), self.name, (op,), why, (c.snapshot_id,), keys))

    def _never_seen(self, unseen: _Unseen, *, final: bool) -> None:
        unseen.told = True
        o = unseen.o
        ops = (o.op,) if final or unseen.missed is None else tuple(dict.fromkeys((o.op, *unseen.missed.ops)))
        names = ("lost-commit",) if final else ("lost-commit", "stale-pointer")
        why = "it was acknowledged, then the catalog was asked for the table, and no snapshot of it is there"
        keys = ids_named(o, self.spec)[: explain.MOST_KEYS]
        self._tell(Found("commits", names, self.name, ops, why, (), keys, one_of=not final))

    # --- main is set back

    def _set_back(self, m: Metadata, commits: Sequence[Commit]) -> None:
        """Main went to a snapshot that is not the next one: acknowledged commits in between are lost."""
        beside = {c.snapshot_id: c.parent_id for c in commits if c.snapshot_id != m.current}
        commits = [c for c in commits if c.snapshot_id == m.current]
        target = commits[0].parent_id if commits else m.current
        w = self._window
        at = next((p for p in range(w.top, w.base, -1) if w.at(p).commit.snapshot_id == target), None)
        if at is None and target is None and not w.base:
            at = 0
        if at is None:
            self._lost_more = True
            return self.close("main went to a snapshot that is not kept")
        gone = [w.at(p) for p in range(at + 1, w.top + 1)]
        self._dropped = {x.commit.snapshot_id: x.commit.parent_id for x in gone} | beside
        again = {c.op for c in commits}
        for x in gone:
            o = self._ops.get(x.commit.op or "")
            kind = kind_of(o) if o is not None else None
            if o is None or kind is None or not kind.writes or o.op in again:
                continue
            if kind.changes_rows and self._positions.get(o.op, [0])[0] <= at:
                continue
            self._lost[o.op] = x.commit, o, explain.keys((*x.changes.removed, *x.changes.added))
        self._line = [*(w.at(p).commit for p in range(w.base + 1, at + 1)), *commits]
        self.close("main was set back")

    def _after_set_back(self, before: Metadata | None, m: Metadata, commits: Sequence[Commit]) -> None:
        """Main goes on, and may be set back again; what it comes back to, or commits again, is not told."""
        for c in commits:
            self._lost.pop(c.op or "", None)
        current = None if before is None else before.current
        if _goes_on(current, m, commits):
            if self._line is not None and m.current != current:
                self._line = [*self._line[-KEPT:], *commits]
            return
        self._come_back(m, commits)
        several = len(commits) > 1
        self._dropped |= {c.snapshot_id: c.parent_id for c in commits if c.snapshot_id != m.current}
        commits = [c for c in commits if c.snapshot_id == m.current]
        target = commits[0].parent_id if commits else m.current
        line = self._line or []
        at = -1 if target is None else next((n for n, c in enumerate(line) if c.snapshot_id == target), None)
        if self._line is None or at is None or several or m.current in self._dropped:
            self._lost_more = True
            self._leave("acknowledged commits while main is set back more than once", len(self._lost))
            self._lost.clear()
            self._line = None
            return
        kept, gone = line[: at + 1], line[at + 1 :]
        self._dropped |= {c.snapshot_id: c.parent_id for c in gone}
        there = {c.op for c in (*kept, *commits)}
        for c in gone:
            o = self._ops.get(c.op or "")
            kind = kind_of(o) if o is not None else None
            if o is not None and kind is not None and kind.writes and not (kind.changes_rows and o.op in there):
                changes = net_changes(c, self._row)
                self._lost[o.op] = c, o, explain.keys(r for part in changes or () for r in part)
        self._line = [*kept, *commits]

    def _come_back(self, m: Metadata, commits: Sequence[Commit]) -> None:
        """Main may have snapshots again that it had lost."""
        parents = self._dropped | {c.snapshot_id: c.parent_id for c in commits}
        at, seen = m.current, set[int]()
        while at is not None and at in parents and at not in seen:
            seen.add(at)
            at = parents[at]
        self._came_back |= seen & self._dropped.keys()

    # --- rows of a commit

    def _judge(self, c: Commit, o: Operation, changes: Changes) -> None:
        """Whether a commit changed the rows as its operation means."""
        kind = kind_of(o)
        if kind is None:
            return
        if kind.changes_rows:
            want = meaning(o, self._window.state, self.spec)
            if want is None:
                self.not_judged["operations without a meaning at their parent"] += 1
                return
            right = compare(0, want.removed, want.added, changes).exact
        else:
            right = not (changes.removed or changes.added)
        if right:
            self.judged += 1
        else:
            self._explain(c, o, changes, procedure=not kind.changes_rows)

    def _explain(self, c: Commit, o: Operation, changes: Changes, *, procedure: bool) -> None:
        """Have the full check's ``replay`` judge it on the last part of main."""
        w, last = self._window, self._metadata
        assert last is not None
        first = min(self._settled.before(o.invoked.index), w.top)
        low = max(w.base, min(first, w.top) - FAR)
        line = [w.at(p).commit for p in range(low + 1, w.top + 1)]
        known = {x.op: self._ops[x.op] for x in line if x.op in self._ops} | {o.op: o}
        commits = (*line, c)
        log = TableLog(self.name, "", "", _columns(self._order), (_at(last, c),), commits, (), False)
        t = _Late(self.spec, log, known, (), False, floor=max(0, first - low))
        walk = TableReplay(t, "replay")
        walk.state = w.state
        walk.judge(len(commits), c, changes)
        if walk.unchecked:
            self.not_judged["; ".join(walk.notes)] += 1
            return
        since = [w.at(p).commit.op in self._ops for p in range(max(first, w.base) + 1, w.top + 1)]
        if walk.anomalies and not procedure and (first < w.base or not all(since)):
            self.not_judged[TOO_LONG] += 1
            return
        named = len(known) > len(line) and low == max(0, first - FAR)
        self.judged += 1
        for a in walk.anomalies:
            others = MAINTENANCE if procedure else () if a.name in FINAL and named else ROWS
            names = (a.name, *(n for n in others if n != a.name))
            beside = f" (with {explain.listing(a.ops[1:])})" if a.ops[1:] else ""
            why = f"its commit did not change the rows as it means at any state that it can have scanned{beside}"
            self._tell(Found("replay", names, self.name, a.ops[:1], why, a.snapshots, a.keys))

    # --- reads

    def _judge_read(self, read: _Read) -> None:
        """A read that can have seen the present state at the latest."""
        o, w = read.o, self._window
        floor = max(self._writes.before(o.invoked.index), self._seen.before(o.invoked.index))
        if floor > w.top:  # it was acknowledged too early
            self.not_judged["reads after an acknowledgement that came too early"] += 1
            return
        high = _ceiling(w, _ended(o))
        seen = w.lowest(read.rows, read.key, max(floor, w.base), high)
        if seen is not None:
            self.reads += 1
            if floor >= w.base:
                self._seen.add(_ended(o), seen)
                self._own_reads[o.process] = seen
                if len(self._own_reads) > self._remembered:
                    self._own_reads.clear()
        elif floor < w.base:
            self.not_judged[TOO_LONG] += 1
        else:
            self._misread(read, floor)

    def _misread(self, read: _Read, floor: int) -> None:
        o, w = read.o, self._window
        old = w.newest_below(read.rows, read.key, floor)
        keys = explain.keys(read.rows) if read.key is None else (read.key,)
        if old is not None:
            self.reads += 1
            own = any(
                w.changed(read.key, p)
                and (x := self._ops.get(w.at(p).commit.op or "")) is not None
                and x.process == o.process
                and x.type == "ok"
                for p in range(old + 1, floor + 1)
            )
            name = OLD[2] if own else OLD[1] if self._own_reads.get(o.process, -1) > old else OLD[0]
            what = "the table" if read.key is None else f"id {read.key}"
            why = f"it returned {what} as it was {floor - old} commits before what was certain when it was invoked"
            names = (name, *(n for n in OLD if n != name))
            missed = (w.at(old + 1).commit.snapshot_id,)
            self._tell_read(Found("reads", names, self.name, (o.op,), why, missed, keys[: explain.MOST]), _ended_at(o))
            return
        mentioned = {x for r in read.rows for x in (str(r.val), *str(r.log).split(","))}
        known = [x for m in mentioned if (x := self._ops.get(m)) is not None and m not in self._positions]
        # What an acknowledged write that is lost has written is the full check's lost commit, and no anomaly of the read.
        waits = {x.op for x in known if x.op in self._unseen or x.completed is None}
        if self._forgot_unseen or len(self._held) >= HELD:
            self.not_judged[UNSEEN] += 1
            return
        name = "dirty-read" if known else "fractured-read"
        if not known and not self._forgotten and any(m not in self._ops for m in mentioned):
            name = "phantom-value"
        names = (name, *(n for n in (*NOWHERE, *OLD) if n != name))  # it may equal a state that comes later
        why = "its rows are those of no state that the table had until then"
        found = Found("reads", names, self.name, (o.op,), why, (), keys[: explain.MOST])
        if waits:
            self._held.append(_Held(found, _ended_at(o), waits))
        else:
            self.reads += 1
            self._tell_read(found, _ended_at(o))

    def _resolved(self, op: str) -> None:
        """A write has a snapshot, or was not acknowledged: what it wrote is no acknowledged write that is lost."""
        if not self._held:
            return
        for held in self._held:
            held.waits.discard(op)
        for held in [h for h in self._held if not h.waits]:
            self._held.remove(held)
            self.reads += 1
            self._tell_read(held.found, held.at)

    def _tell_read(self, found: Found, at: int) -> None:
        """The full check judges no read that ended, at a time in ns, after the table log was read last."""
        if at < self._captured:
            self._tell(found)
        else:
            self._uncaptured.append((at, found))

    # --- the end

    def finish(self, complete: bool = True) -> None:
        """The log has everything: judge what is pending.

        Args:
            complete: whether the run reached its end; if not, the history may lack operations.
        """
        if complete:
            self._tell_lost(None)
        if self.closed is None:
            self._judge_pending(complete)
        self._leave(AFTER, len(self._uncaptured))
        self._uncaptured.clear()

    def _judge_pending(self, complete: bool) -> None:
        while self._reads:
            read = self._reads.popleft()
            if _ended_at(read.o) < self._captured:
                self._judge_read(read)
            else:
                self.not_judged[AFTER] += 1
        while self._waiting:
            self._close(self._waiting.popleft())
        for unseen in [*self._unseen.values()]:
            if unseen.due and not unseen.told and _ended_at(unseen.o) < self._captured:
                self._never_seen(unseen, final=True)
        for op, snapshot in self._strangers.items() if complete and not self._forgotten else ():
            why = "main has a snapshot that says that this operation made it, and it was never invoked on this table"
            self._tell(Found("commits", ("unknown-commit",), self.name, (op,), why, (snapshot,)))
        self._strangers.clear()
        self._leave(UNSEEN, len(self._held))
        self._held.clear()


def _ended(o: Operation) -> int:
    assert o.completed is not None
    return o.completed.index


def _ended_at(o: Operation) -> int:
    assert o.completed is not None
    return o.completed.time


def _goes_on(current: int | None, m: Metadata, commits: Sequence[Commit]) -> bool:
    """Whether main of a version is that of the version before, or goes on from it with the version's commits."""
    parents = {c.snapshot_id: c.parent_id for c in commits}
    at, steps = m.current, 0
    while at != current and at in parents and steps < len(parents):
        at, steps = parents[at], steps + 1
    return at == current


def _ceiling(w: Window, event: int) -> int:
    """The highest kept position that may have been reached before an event; ``reached`` only grows."""
    p = w.top
    while p > w.base and w.at(p).reached >= event:
        p -= 1
    return p


def _columns(order: tuple[int, ...] | None) -> tuple[str, ...]:
    """The columns of a log whose rows have them in this order."""
    if order is None:
        return COLUMNS
    width = max(order) + 1
    names = [f"column {n}" for n in range(width)]
    for name, n in zip(COLUMNS, order, strict=True):
        names[n] = name
    return tuple(names)


def _at(m: Metadata, c: Commit) -> Metadata:
    """A version at which a commit is main's last."""
    return replace(m, n=0, current=c.snapshot_id, problems=())
