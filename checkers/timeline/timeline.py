"""What all checkers need of one table: who was told what when, the chain of commits, and which snapshots were ever current.

Two orders meet here. **Real time** is the order of the history's events: an operation acknowledged at event i precedes one that was
invoked at event j > i; other pairs are concurrent. **Commit order** is main's ancestry in the table log.
Positions on main are counted in commits: position k is the state after main's k-th commit, position 0 the empty table::

    position      0 ──► 1 ──► 2 ──► 3 ──► 4          main, by parent links
    snapshot     none   s1    s2    s3    s4
    operation           a     b     c     d          acknowledged before event 40: a, c
                                    ▲
                  settled(40) ──────┘                an operation invoked at event 40 sees at least c's commit

``settled`` is sound because commits become current in chain order: when c was acknowledged, its snapshot and everything below it
were there. Operations that ended ``info`` took effect after their invocation or never; nothing else is known of them.

Main's final ancestry is what survived. Readers may have seen more: every snapshot that was current in some metadata version
(:attr:`Timeline.versions`), including one that a rollback later removed from main.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from checkers.evidence.history import Operation
from checkers.evidence.makers import NONE, Labels
from checkers.evidence.replace import replace
from checkers.evidence.tableformat import format_of
from checkers.evidence.tablelog import Commit, Metadata, TableLog
from checkers.timeline.ancestry import Ancestry, Version
from checkers.timeline.version_order import Chain, VersionStep
from workloads.operations.kind import Kind, WriteSet
from workloads.operations.kinds import KINDS
from workloads.tables import Row, State, TableSpec

Resolution = Literal["applied", "dropped", "not-applied", "unknown"]
"""What became of an operation: ``applied`` (main has a snapshot of it), ``dropped`` (main had one and lost it), ``not-applied``
(main never had one, by the complete log), ``unknown`` (the log cannot tell)."""


@dataclass(frozen=True, slots=True)
class SetBack:
    """A rollback set main back to one of its ancestors.

    Attributes:
        before: the version that was current.
        after: the version that made the older snapshot current.
        operation: the operation that explains it. Where several can, and another of them set main back elsewhere, it may have been that one.
        invoked: the earliest event at which one that can explain it was invoked.
        certain: whether nothing else can explain it: the rollback was acknowledged and moved main, or was acknowledged or names its
            target while the operation that made that snapshot has no request under way that could make it current a second time.
        moved: whether the rollback cannot have found main at its target before, and so have done nothing: main was elsewhere all the while,
            or it answers so.
    """

    before: Metadata
    after: Metadata
    operation: Operation
    invoked: int
    certain: bool
    moved: bool


@dataclass(frozen=True)
class Timeline(Ancestry):
    """One table of the evidence.

    Attributes:
        everything: all operations of the history by id, on any table; those on two tables as this table saw them
            (``checkers.timeline.two_tables``).
        ops: this table's operations in invocation order.
        complete: whether the run reached its end.
        labels: whose the snapshots are that name no operation; ``log`` has those names already.
        full_log: the log with every snapshot, if an operation committed several at once: ``log`` has one commit for them
            (``checkers.timeline.several``).
        replaced: snapshots that replaced the table: ``log`` says that they follow others, the table's files that they have no parent.
    """

    everything: Mapping[str, Operation]
    ops: tuple[Operation, ...]
    complete: bool
    labels: Labels = NONE
    full_log: TableLog | None = None
    replaced: frozenset[int] = frozenset()

    @property
    def of_every_snapshot(self) -> Timeline:
        """The same table with a commit for every snapshot: time travel reaches those that were never current, too."""
        # A timeline that kept itself would never go by itself.
        return self if self.full_log is None else self._every_snapshot

    @cached_property
    def _every_snapshot(self) -> Timeline:
        return replace(self, log=self.full_log or self.log, full_log=None)

    @cached_property
    def commits(self) -> dict[str, list[Commit]]:
        """Operation id → its commits, on main or not; one that is several operations' in one is each of theirs."""
        found = self.log.by_op()
        for snapshot, ops in self.labels.shared.items():
            for op in ops if snapshot in self.snapshots else ():
                found.setdefault(op, []).append(self.snapshots[snapshot])
        return found

    def on_main(self, op: str) -> list[Commit]:
        """The commits of an operation that main has, in chain order."""
        found = [c for c in self.commits.get(op, ()) if c.snapshot_id in self.position]
        return sorted(found, key=lambda c: self.position[c.snapshot_id])

    def at_acknowledgement(self, o: Operation) -> list[Commit]:
        """The commits of the operation that main has, and had when it was acknowledged, in chain order.

        For a procedure all of them; for a statement only the first: a second one is a duplicate and may have come at any time later.
        """
        kind = kind_of(o)
        found = self.on_main(o.op)
        return found[:1] if kind is not None and kind.changes_rows else found

    # --- real time

    @cached_property
    def out_of_order(self) -> frozenset[str]:
        """Acknowledged operations whose commit follows, on main, one that was invoked only after their acknowledgement."""
        found: set[str] = set()
        invoked = -1
        for c in self.main:
            o = self.everything.get(c.op) if c.op is not None else None
            if o is None:
                continue
            if o.type == "ok" and o.completed is not None and o.completed.index < invoked:
                found.add(o.op)
            invoked = max(invoked, o.invoked.index)
        return frozenset(found)

    @cached_property
    def _settled(self) -> tuple[list[int], list[int]]:
        """Event indices of acknowledgements, ascending, and the highest position acknowledged up to each.

        An acknowledgement whose commit is out of order (the ``commits`` checker reports it) proves nothing here.
        """
        acks = sorted(
            (o.completed.index, position)
            for o in self.ops
            if o.type == "ok" and o.completed is not None and o.op not in self.out_of_order
            if (position := self._certain(o.op)) is not None
        )
        return [i for i, _ in acks], _prefix_max(p for _, p in acks)

    def _certain(self, op: str) -> int | None:
        """The position that main had certainly reached when the operation was acknowledged; None when there is none.

        One of the operation's commits was current by then, but the log does not tell which: any other may have landed later, such as a
        request that a slow network delivered twice. So only the first position on main is certain. If main has lost a commit of the
        operation, that may have been the acknowledged one, and all that main still has may have landed later.
        """
        commits = [c for c in self.commits.get(op, ()) if c.snapshot_id in self.ever_current]
        positions = [self.position.get(c.snapshot_id) for c in commits]
        return min((p for p in positions if p is not None), default=None) if None not in positions else None

    def settled(self, event: int) -> int:
        """Highest position on main certainly committed before the event with this index."""
        indices, positions = self._settled
        place = bisect_left(indices, event)
        return positions[place - 1] if place else 0

    # --- rollbacks

    @cached_property
    def set_backs(self) -> dict[int, SetBack]:
        """The number of a metadata version that set main back → the rollback that explains it. Unexplained ones are left out.

        Each rollback explains one: of those that can have been under way and went there, the first to be answered.
        """
        chain = self.chain
        rollbacks = [o for o in self.ops if o.type != "fail" and (k := kind_of(o)) is not None and k.sets_back]
        free, found = list(rollbacks), dict[int, SetBack]()
        versions = self.log.metadata
        until: dict[int | None, int] = {}
        """Snapshot → the time until which it can have been current, ns, by the versions so far."""
        unseen = -1
        """The time until which versions that the log lacks can have been current."""
        for step in chain.steps if rollbacks else ():
            m = step.after
            before = versions[m.n - 1] if m.n and versions[m.n - 1] is step.before else None
            unseen = step.latest if step.gap else unseen
            if before is not None and before.current != m.current:
                until[before.current] = max(self._made_by(step), until.get(before.current, -1))
            if before is None or step.passed or step.repeated or m.current is None or m.current == before.current:
                continue
            if all(c.snapshot_id != m.current for c in self.ancestors(before.current)):
                continue
            around = {o.op for o in chain.under_way(step)}
            able = [o for o in rollbacks if o.op in around and set_back_to(o) in (None, m.current)]
            candidates = [o for o in able if o in free]
            if not candidates:
                continue
            reached = max(unseen, until.get(m.current, -1))
            rollback = min(candidates, key=lambda o: (o.type != "ok", set_back_to(o) is None, o.end or 0))
            free.remove(rollback)
            maker = self.everything.get(self.snapshots[m.current].op or "")
            late = maker is not None and (maker.type != "ok" or maker.end is None or maker.end >= step.earliest)
            moved = rollback.start > reached or found_elsewhere(rollback)
            certain = (not late and (rollback.type == "ok" or set_back_to(rollback) is not None)) or (
                rollback.type == "ok" and moved
            )
            found[m.n] = SetBack(before, m, rollback, min(o.invoked.index for o in able), certain, moved)
        return found

    def _made_by(self, step: VersionStep) -> int:
        """The time by which a version was there, ns: of a new snapshot, when its operation was acknowledged."""
        c = self.snapshots.get(step.after.current) if step.after.current is not None else None
        o = self.everything.get(c.op or "") if c is not None and c.metadata == step.after.n else None
        return min(step.latest, o.end) if o is not None and o.type == "ok" and o.end is not None else step.latest

    @cached_property
    def unnamed(self) -> tuple[Commit, ...]:
        """The commits that name no operation."""
        return tuple(c for c in self.log.commits if c.op is None)

    @cached_property
    def chain(self) -> Chain:
        """The metadata versions, with the times when they can have been made."""
        return Chain(self.log, self.ops, self.everything)

    def gap_before(self, n: int) -> bool:
        """Whether the log may lack versions between version n - 1 and version n; for 0: whether the table had versions before the log."""
        if n:
            return self.chain.steps[n].gap
        first = self.log.metadata[0]
        made = first.current is None or (
            first.current in self.snapshots and self.snapshots[first.current].parent_id is None
        )
        return bool(first.problems) or first.predecessor is not None or len(first.snapshots) > 1 or not made

    @cached_property
    def unbroken(self) -> bool:
        """Whether the log has all metadata versions from the table's first to its last."""
        return not any(self.gap_before(n) for n in range(len(self.log.metadata)))

    @cached_property
    def drops(self) -> tuple[tuple[VersionStep, frozenset[int], tuple[Operation, ...]], ...]:
        """The versions that list snapshots no more: those snapshots, and the operations that can have dropped them then."""
        able = [o for o in self.ops if _drops(o)]
        out = []
        for s in self.chain.steps:
            if s.before is None or s.after.snapshots[: len(s.before.snapshots)] == s.before.snapshots:
                continue
            dropped = frozenset(s.before.snapshots) - frozenset(s.after.snapshots)
            if dropped:
                out.append((s, dropped, tuple(self.chain.under_way(s, able))))
        return tuple(out)

    def rolled_back(self, snapshot: int) -> SetBack | None:
        """The rollback that removed a snapshot from main for good; None when main has it, or lost it otherwise."""
        moved = self.dropped_at(snapshot) if self.set_backs else None
        return None if moved is None else self.set_backs.get(moved[1].n)

    def newest_until_set_back(self, version: Version, o: Operation) -> bool:
        """Whether o may have scanned this version, which a rollback removed from main for good, as the newest: whether the evidence shows
        neither the rollback nor a later version to have been there before o was invoked."""
        back = None if version.snapshot is None else self.rolled_back(version.snapshot)
        if back is None or (back.moved and _answered_before(back.operation, o)):
            return False
        settled = self.settled(o.invoked.index)
        if settled and not self.main[settled - 1].metadata <= version.metadata < back.after.n:
            return False
        later = [v.snapshot for v in self.versions if version.metadata < v.metadata < back.after.n]
        makers = (self.everything.get(self.snapshots[s].op or "") for s in later if s in self.snapshots)
        return not any(maker is not None and _answered_before(maker, o) for maker in makers)

    def perhaps_rolled_back(self, snapshot: int) -> bool:
        """Whether a rollback may have taken a snapshot out of main and the evidence need not show it.

        Either the log lacks the versions before the first that shows the snapshot, which need not have it on main any more; or the log
        was read for longer than the incomplete history goes, which need not have the rollback.
        """
        n, moved = self.snapshots[snapshot].metadata, self.dropped_at(snapshot)
        if moved is None:
            return n < len(self.log.metadata) and self._rollback_in_gap(n)
        if self.complete or (self.log.captured_until or 0) <= self._history_until:
            return False
        return self.chain.steps[moved[1].n].latest > self._history_until

    @cached_property
    def rollback_in_gap(self) -> bool:
        """Whether a rollback may have been in versions that the log lacks: what it took out of main need not be in the log."""
        return any(self._rollback_in_gap(n) for n in range(len(self.log.metadata)))

    def _rollback_in_gap(self, n: int) -> bool:
        if not self.gap_before(n):
            return False
        after, since = self.chain.steps[n], self.chain.steps[n - 1].earliest if n else 0
        back = [o for o in self.ops if o.type != "fail" and (k := kind_of(o)) is not None and k.sets_back]
        return any(o.start <= after.latest and (o.type != "ok" or o.end is None or o.end >= since) for o in back)

    @cached_property
    def _history_until(self) -> int:
        """The time of the history's last event, ns."""
        return max(
            (e.time for o in self.everything.values() for e in (o.invoked, o.completed) if e is not None), default=0
        )

    def without_effect(self, o: Operation) -> bool:
        """Whether a rollback was acknowledged but the log never shows main at its target, though it would have to."""
        target, rows = set_back_to(o), o.result.get("rows") if isinstance(o.result, dict) else None
        if o.type != "ok" or o.completed is None or target is None or o.completed.time >= self.seen_until:
            return False
        if not self.rooted or not self.unbroken or any(s.operation is o for s in self.set_backs.values()):
            return False
        if rows and list(rows[0]) == [target, target]:
            return False
        steps = self.chain.steps
        return not any(
            s.after.current == target
            and s.earliest <= o.completed.time
            and (n + 1 == len(steps) or steps[n + 1].latest >= o.start)
            for n, s in enumerate(steps)
        )

    # --- meanings

    def meaning(self, o: Operation, state: State) -> WriteSet | None:
        """:func:`meaning`; that of an operation that restores an earlier version depends on the rows of that version, too."""
        kind = kind_of(o)
        if kind is None or not kind.restores:
            return meaning(o, state, self.spec)
        rows = self._restored_by(o)
        return None if rows is None else kind.writeset(state, {**o.value, "rows": rows}, o.op, self.spec)

    def _restored_by(self, o: Operation) -> list[Row] | None:
        """The rows of the version that an operation restored, by its result, or else by its commit; None if they are not known."""
        if o.op not in self._restored:
            target, made = set_back_to(o), self.commits.get(o.op, ())
            if target is None and len(made) == 1 and made[0].metadata is not None:
                target = format_of(self.log).restored(self.log.metadata[made[0].metadata])
            goal = None if target is None else self.state(target)
            self._restored[o.op] = None if goal is None else [*goal]
        return self._restored[o.op]

    @cached_property
    def _restored(self) -> dict[str, list[Row] | None]:
        return {}

    # --- outcomes

    def resolve(self, o: Operation) -> Resolution:
        """What became of an operation in this table, by the log."""
        commits = self.commits.get(o.op, [])
        if any(c.snapshot_id in self.position for c in commits):
            return "applied"
        if any(c.snapshot_id in self.ever_current and self.is_off_main(c.snapshot_id) for c in commits):
            return "dropped"
        if not self.rooted or not self.read_to_pointer:
            return "unknown"
        if o.end is None:
            return "not-applied" if self.log.complete else "unknown"
        return "not-applied" if o.end < self.seen_until else "unknown"


def _prefix_max(values: Iterable[int]) -> list[int]:
    out: list[int] = []
    for v in values:
        out.append(max(v, out[-1]) if out else v)
    return out


def _drops(o: Operation) -> bool:
    kind = kind_of(o)
    return kind is not None and "snapshot" in kind.takes_away


def _answered_before(earlier: Operation, o: Operation) -> bool:
    return earlier.type == "ok" and earlier.completed is not None and earlier.completed.index < o.invoked.index


def set_back_to(o: Operation) -> int | None:
    """The target snapshot of a rollback; None when unknown."""
    target = o.result.get("snapshot") if isinstance(o.result, dict) else None
    return target if isinstance(target, int) else None


def found_elsewhere(o: Operation) -> bool:
    """Whether a rollback answers that main was at another snapshot than its target when it began."""
    rows = o.result.get("rows") if isinstance(o.result, dict) else None
    row = rows[0] if isinstance(rows, list) and rows else None
    return isinstance(row, list) and len(row) == 2 and row[0] is not None and row[0] != row[1]


def kind_of(o: Operation) -> Kind | None:
    """The operation's kind; None if this version does not know it."""
    return KINDS.get(o.f)


def meaning(o: Operation, state: State, table: TableSpec) -> WriteSet | None:
    """What an operation removes from and adds to a state; None when it has no meaning there.

    That is so for an unknown kind, for arguments of another form (an imported history), and at a state with values that no
    operation writes (a corrupted table).
    """
    kind = kind_of(o)
    if kind is None:
        return None
    try:
        return kind.writeset(state, o.value, o.op, table)
    except (TypeError, AttributeError, KeyError, IndexError, ValueError):
        return None
