"""One table while the run goes on: what each event and each captured version makes certain, of five anomalies.

**Pending.** What an operation can have seen, or what can explain it, is known when main has a commit whose operation was invoked after the
first one had ended: states from then on came too late for it. Until then it is pending. Versions are taken one at a time, so a capture
after many commits judges each operation at its own state::

    main         … k-2 ──► k-1 ──► k         k's operation was invoked after the read r had ended:
                    └── r ──┘                r can have seen k-1 at the latest, so r is judged before k is applied

**Held.** What rests on commits that the log lacks is held until a capture that names the newest version was asked for after the operation's
end: only then must the log have them.

**Closed.** A finding is about main as it was captured. If main is set back, or something else makes the next answer uncertain, the table is
closed: the acknowledged commits that main then lacks at the next capture are its last anomalies, and nothing else is told of it.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Sequence

from checkers.evidence.history import Operation
from checkers.evidence.replace import replace
from checkers.evidence.tablelog import Capture, Commit, Growth, Metadata, TableLog
from checkers.online.found import Counts, Name, OnlineFinding
from checkers.online.judged import anomalies_of, idle, read_at
from checkers.online.window import NotJudged, StateWindow, goes_on, off_main
from checkers.timeline.answers import claims_of
from checkers.timeline.explain import MOST_KEYS
from checkers.timeline.netrows import net_changes, order_of, row_of
from checkers.timeline.touched import ids_named, reads_rows
from checkers.timeline.version_order import place
from workloads.operations.kinds import KINDS
from workloads.tables import COLUMNS, TableSpec

TOO_MANY = "operations that waited too long for a capture"
NAMELESS = "snapshots that do not say which operation made them, as those of DuckDB"
AFTER = "operations that ended after the table log was read last"

Tell = Callable[[OnlineFinding], None]


class OnlineTable:
    """One table's pending operations, last versions and present state.

    Args:
        tell: gets every anomaly, when it is certain.
        counts: of all tables; this one adds its own.
        kept: commits whose changes are kept.
        remembered: ended operations that are remembered.

    Attributes:
        closed: why nothing of this table is judged any more; None while it is.
    """

    def __init__(self, spec: TableSpec, tell: Tell, counts: Counts, *, kept: int, remembered: int) -> None:
        self.closed: str | None = None
        self._spec = spec
        self._tell = tell
        self._counts = counts
        self._remembered = remembered
        self._window = StateWindow(kept)
        self._ops: dict[str, Operation] = {}
        self._ended: deque[str] = deque()
        self._first: dict[str, tuple[int, int]] = {}
        """Operation → the position and the snapshot of its first commit."""
        self._pending: OrderedDict[str, Operation] = OrderedDict()
        """Reads, and acknowledged writes that main lacks, by their ends."""
        self._held: dict[str, tuple[Operation, OnlineFinding]] = {}
        """Anomalies that wait for a capture, by their operations."""
        self._lost: set[str] = set()
        """Operations that were told as lost."""
        self._turn = 0
        """How often the past of main changed: it was set back, has again what it had lost, or is not known any more."""
        self._line: list[Commit] = []
        """From the moment when main was set back to the next capture: the last commits, on main or not."""
        self._off_main: frozenset[int] = frozenset()
        """Those of them that main did not have then."""
        self._newest = -1
        """The last invocation of an operation that main has."""
        self._metadata: Metadata | None = None
        self._captured = -1
        """When the last capture that named the newest version was asked for, ns."""

    def __len__(self) -> int:
        """Number of kept things, for bounds of memory."""
        kept = (self._ops, self._ended, self._first, self._pending, self._held, self._lost, self._line, self._off_main)
        return len(self._window) + sum(map(len, kept))

    def overtaken(self, found: OnlineFinding) -> bool:
        """Whether the past of main has changed since an anomaly of a commit was told: only the full check knows what is left of it."""
        return found.name != "stale-read" and found.turn < self._turn

    def close(self, why: str) -> None:
        """Judge nothing of this table any more; what is pending counts as not judged."""
        if self.closed is not None:
            return
        self.closed = self._counts.closed[self._spec.name] = why
        self._leave(why, len(self._pending) + len(self._held))
        for kept in (self._first, self._pending, self._held, *(() if self._line else (self._ops, self._ended))):
            kept.clear()
        self._window = StateWindow()

    def _leave(self, why: str, n: int = 1) -> None:
        """So many are left to the full check."""
        if n:
            self._counts.not_judged[why] += n

    def _found(self, name: Name, o: Operation, why: str, snapshots: tuple[int, ...] = ()) -> OnlineFinding:
        keys = ids_named(o, self._spec)[:MOST_KEYS]
        return OnlineFinding(name, self._spec.name, o.op, why, snapshots, keys, self._turn)

    # --- events

    def invoked(self, o: Operation) -> None:
        """An operation on this table was invoked."""
        if self.closed is None or self._line:
            self._ops[o.op] = o

    def completed(self, o: Operation) -> None:
        """It ended, or its outcome is unknown."""
        if self.closed is None or self._line:
            self._ops[o.op] = replace(o, result=None)  # a read's rows are kept until it is judged
            self._ended.append(o.op)
        if len(self._ended) > self._remembered:
            old = self._ended.popleft()
            self._ops.pop(old, None)
            self._first.pop(old, None)
        if self.closed is not None:
            return self._leave(self.closed)
        if o.op in self._first:
            self._answered(o)
        elif o.type == "ok":
            kind, claims = KINDS[o.f], claims_of(o)
            if kind.changes_rows or reads_rows(o) or (claims is not None and claims.needs_snapshot):
                self._pending[o.op] = o
            elif kind.travels:
                self._leave("time travel")
        if len(self._pending) > self._remembered:
            self._pending.popitem(last=False)
            self._leave(TOO_MANY)
        return None

    def _answered(self, o: Operation) -> None:
        """Main has a commit of an operation, and its outcome is known."""
        position, snapshot = self._first[o.op]
        if o.type == "fail":
            why = "it was reported as failed, and main has its snapshot"
            self._tell(self._found("false-failure", o, why, (snapshot,)))
        elif o.type == "ok" and o.indices[-1] < self._newest:
            self.close("a commit in another order than real time")
        elif o.type == "ok" and position > self._window.base:
            self._window.commit_at(position).acknowledged = o.indices[-1]

    # --- versions

    def grew(self, g: Growth) -> None:
        """The log gained versions and captures."""
        if not set(COLUMNS) <= set(g.columns):
            return self.close("the table log lacks columns")
        made: dict[int, list[Commit]] = {}
        for c in g.commits:
            made.setdefault(c.metadata, []).append(c)
        for m in g.metadata:
            if self._metadata is None or m.n > self._metadata.n:  # a reader that began again tells all of them again
                self._version(m, made.get(m.n, []), g.columns)
        for capture in g.captures:
            self._capture(capture)
        return None

    def _version(self, m: Metadata, commits: Sequence[Commit], columns: tuple[str, ...]) -> None:
        current, self._metadata = None if self._metadata is None else self._metadata.current, m
        self._counts.commits += len(commits)
        self._counts.retried += sum(c.attempt is not None and c.attempt > 1 for c in commits)
        for c in commits:
            self._held.pop(c.op or "", None)
        broken, late = any(p.code != "fork" for p in m.problems), any(c.op in self._lost for c in commits)
        returned = broken or not self._off_main.isdisjoint((m.current, *(c.parent_id for c in commits)))
        back = returned if self._off_main else not goes_on(current, m, commits)
        self._turn += back or late or broken
        if self.closed is not None:
            if 0 < len(self._line) < self._remembered:
                self._line += commits
        elif broken:
            self.close("the chain of metadata is broken")
        elif back:
            self._line = [*self._window.commits(self._window.base), *commits]
            self.close("main was set back")
        elif late:
            self.close("a commit that came after it was told as lost")
        elif len(commits) == 1 and m.current != current:
            self._step(commits[0], m, columns)
        elif commits:
            self.close("a version with snapshots other than the next one of main")
        if self.closed is not None:
            self._leave(self.closed, len(commits))

    def _step(self, c: Commit, m: Metadata, columns: tuple[str, ...]) -> None:
        """Main's next commit."""
        order, o, w = order_of(columns), self._ops.get(c.op or ""), self._window
        changes = net_changes(c, lambda r: row_of(r, order))
        if o is None or not KINDS[o.f].writes:
            return self.close(NAMELESS)
        if changes is None:
            if o.op not in self._first:
                self._first[o.op] = 0, c.snapshot_id
                self._answered(o)
            return self.close("rows that could not be read")
        while self._pending and next(iter(self._pending.values())).indices[-1] < o.invoked.index:
            self._judge(self._pending.popitem(last=False)[1])
        self._pending.pop(o.op, None)
        log = TableLog(self._spec.name, "", "", columns, (m,), (c,), (), False)
        try:
            why = "its commit did not change the rows as it means at any state that it can have scanned"
            for a in anomalies_of(w, self._spec, log, self._ops, changes):
                self._tell(replace(self._found("wrong-rows", o, why, a.snapshots), keys=a.keys))
            self._counts.judged += 1
        except NotJudged as e:
            self._leave(str(e))
        try:
            w.step(c, changes)
        except KeyError:
            return self.close("rows that are removed and were not there")
        if o.op not in self._first:
            self._first[o.op] = w.top, c.snapshot_id
            self._answered(o)
        elif KINDS[o.f].changes_rows:
            why, both = "it was invoked once, and main has two snapshots of it", (self._first[o.op][1], c.snapshot_id)
            self._tell(self._found("duplicate-commit", o, why, both))
            return self.close("a commit that landed twice")
        self._newest = max(self._newest, o.invoked.index)
        return None

    def _judge(self, o: Operation) -> None:
        """A read, or an acknowledged write that main lacks, that can have seen the present state at the latest."""
        w = self._window
        try:
            if not reads_rows(o):
                if not idle(w, self._spec, o):
                    why = "it was acknowledged, and the log that was captured since has no snapshot of it"
                    self._hold(o, self._found("lost-commit", o, why))
                return
            first = w.reached(o.invoked.index, reads=True)
            seen = read_at(w, self._spec, o, first)
        except NotJudged as e:
            return self._leave(str(e))
        self._counts.reads += 1
        if seen < first:
            why = f"it returned rows as they were {first - seen} commits before what was certain when it was invoked"
            self._hold(o, self._found("stale-read", o, why, (w.commit_at(seen + 1).commit.snapshot_id,)))
        elif seen > w.base:
            w.commit_at(seen).read = min(w.commit_at(seen).read, o.indices[-1])

    # --- captures

    def _capture(self, capture: Capture) -> None:
        m = self._metadata
        if capture.metadata is None and m is not None:
            self.close("the catalog has no table any more")
        elif capture.metadata is not None and m is not None and place(capture.metadata) == place(m.location):
            self._captured = capture.time
            self._release()
            if self._line:
                self._lose(m)

    def _hold(self, o: Operation, found: OnlineFinding) -> None:
        if len(self._held) < self._remembered:
            self._held[o.op] = o, found
        else:
            self._leave(TOO_MANY)

    def _release(self) -> None:
        """Tell what was held of the operations that ended before the last capture was asked for."""
        for o, found in [*self._held.values()]:
            if o.end is not None and o.end < self._captured:
                del self._held[o.op]
                self._tell(found)
                if found.name == "lost-commit" and len(self._lost) < self._remembered:
                    self._lost.add(o.op)

    def _lose(self, m: Metadata) -> None:
        """Main was set back, and a capture names this version: tell the acknowledged commits that it lacks."""
        self._off_main = off_main(self._line, m.current)
        present = {c.op for c in self._line if c.snapshot_id not in self._off_main}
        for c in self._line if self._off_main else ():
            o = self._ops.get(c.op or "")
            if o is not None and o.type == "ok" and o.op not in present:
                why = "it was acknowledged, and main was set back: its snapshot is not in main's ancestry any more"
                self._hold(o, self._found("lost-commit", o, why, (c.snapshot_id,)))
        self._release()
        for kept in (self._line, self._held, self._ops, self._ended):
            kept.clear()

    def finish(self) -> None:
        """The run is over, and the log has everything: judge what is pending."""
        while self._pending:
            self._judge(self._pending.popitem(last=False)[1])
        self._release()
        self._leave(self.closed or AFTER, len(self._held))
        self._held.clear()
