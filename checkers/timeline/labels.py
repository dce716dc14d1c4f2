"""Whose is a snapshot that names no operation?

Every writer puts the operation's id into the summary (``icequake-op``). If the id is lost, the snapshot's rows are evidence all the same:
whoever made it was under way then, and its meaning is what the rows did. If that leaves one operation, and that operation
fits no other snapshot, the snapshot is its. If it leaves several, nobody can tell, so none of them may be called lost: missing evidence
accuses nobody.

An operation *can have made* a snapshot on main at position k if

* it left no snapshot and did not fail;
* every operation acknowledged before its invocation is below k, and every operation below k was invoked before its completion;
* its meaning at the parent's state is what the snapshot did; or, as it may have scanned an older state (snapshot isolation, blind
  appends), the rows are of ids that it names or selects, and have its own id in ``val`` or ``log`` if its kind signs all its rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from checkers.evidence.history import Operation
from checkers.evidence.tablelog import Commit, TableLog
from checkers.timeline.touched import touches
from workloads.operations.kind import WriteSet
from workloads.operations.kinds import KINDS
from workloads.tables import Row, State, TableSpec

if TYPE_CHECKING:
    from checkers.timeline.timeline import Changes, Timeline

Meaning = Callable[[Operation, State, TableSpec], WriteSet | None]

MOST = 20_000
"""Pairs of a snapshot and an operation that are compared; with more, nothing is matched."""


@dataclass(frozen=True)
class Labels:
    """What is known of snapshots that name no operation.

    Attributes:
        made: snapshot id, on main → the operation that alone can have made it.
        perhaps: operations that can have made one of the others, on main or not: a rollback takes snapshots out of main, too.
    """

    made: Mapping[int, str] = field(default_factory=dict)
    perhaps: frozenset[str] = frozenset()


NONE = Labels()


def labels(t: Timeline, meaning: Meaning) -> Labels:
    """The makers of main's snapshots that name none, as far as their rows tell. One that main no longer has is nobody's for certain.

    Args:
        meaning: what an operation removes and adds at a state; None where it has no meaning.
    """
    unnamed = {k: c for k, c in enumerate(t.main, 1) if c.op is None}
    off_main = off_main_without_name(t)
    missing = [
        o
        for o in t.ops
        if o.type != "fail" and o.op not in t.commits and (kind := KINDS.get(o.f)) is not None and kind.writes
    ]
    if not (unnamed or off_main) or not missing:
        return NONE
    if (len(unnamed) + len(off_main)) * len(missing) > MOST:
        return Labels(perhaps=frozenset(o.op for o in missing))
    newest = [-1]  # position → the latest invocation of the operations up to it
    for c in t.main:
        o = t.everything.get(c.op) if c.op is not None else None
        newest.append(newest[-1] if o is None else max(newest[-1], o.invoked.index))
    able = {k: [o for o in missing if _in_time(t, k, o, newest[k - 1])] for k in unnamed}
    fits = _fitting(t, able, meaning) | _off_main(t, off_main, missing, meaning)
    made: dict[int, str] = {}
    while True:
        users: dict[str, list[int]] = {}
        for k, ops in fits.items():
            for op in ops:
                users.setdefault(op, []).append(k)
        new = {k: next(iter(ops)) for k, ops in fits.items() if len(ops) == 1 and ops[next(iter(ops))]}
        new = {k: op for k, op in new.items() if users[op] == [k]}
        if not new:
            break
        made |= {unnamed[k].snapshot_id: op for k, op in new.items()}
        taken = {*new.values()}
        fits = {k: {op: x for op, x in ops.items() if op not in taken} for k, ops in fits.items() if k not in new}
    return Labels(made, frozenset(op for ops in fits.values() for op in ops))


def off_main_without_name(t: Timeline) -> list[Commit]:
    """Snapshots that name no operation and that main does not have at the end."""
    return [c for c in t.log.commits if c.op is None and c.snapshot_id not in t.position]


def labelled(log: TableLog, made: Mapping[int, str]) -> TableLog:
    """The log whose snapshots name the operations that made them."""
    if not made:
        return log
    commits = (replace(c, op=made[c.snapshot_id]) if c.snapshot_id in made else c for c in log.commits)
    return replace(log, commits=tuple(commits))


def _in_time(t: Timeline, k: int, o: Operation, newest: int) -> bool:
    """Whether main's order and real time let an operation's commit be at position k; ``newest``: the latest invocation below."""
    if t.settled(o.invoked.index) >= k:
        return False
    return o.type != "ok" or o.completed is None or newest < o.completed.index


def _fitting(t: Timeline, able: Mapping[int, list[Operation]], meaning: Meaning) -> dict[int, dict[str, bool]]:
    """Position → the operations that can have made its snapshot, and whether each certainly fits: by its meaning, or by its own id."""
    out: dict[int, dict[str, bool]] = {}
    state: State | None = State() if t.rooted else None
    for k, c in enumerate(t.main, 1):
        changes = t.changes(c)
        if k in able:
            out[k] = {}
            for o in able[k]:
                fit = _fits(t, c, o, changes, state, meaning)
                if fit is not None:
                    out[k][o.op] = fit
        if state is not None:
            try:
                state = None if changes is None else _after(state, changes)
            except KeyError:  # the log contradicts itself
                state = None
    return out


def _off_main(
    t: Timeline, commits: list[Commit], missing: list[Operation], meaning: Meaning
) -> dict[int, dict[str, bool]]:
    """A number below 0 for each snapshot off main → the operations that may have made it; none of them certainly."""
    out: dict[int, dict[str, bool]] = {}
    for n, c in enumerate(commits, 1):
        able = t.chain.under_way(t.chain.steps[c.metadata], missing) if c.metadata < len(t.chain.steps) else missing
        out[-n] = {o.op: False for o in able if _fits(t, c, o, t.changes(c), None, meaning) is not None}
    return out


def _after(state: State, changes: Changes) -> State:
    state.apply(*changes)
    return state


def _fits(
    t: Timeline, c: Commit, o: Operation, changes: Changes | None, state: State | None, meaning: Meaning
) -> bool | None:
    """Whether a snapshot is certainly what an operation does there (True) or may be (False); None if it cannot be."""
    if changes is None:
        return False
    kind = KINDS[o.f]
    rows = [*changes.removed, *changes.added]
    if not kind.changes_rows:
        return None if rows else False
    if kind.replaces:
        return False
    if state is not None:
        due = meaning(o, state, t.spec)
        if due is not None and (sorted(due.removed), sorted(due.added)) == (
            sorted(changes.removed),
            sorted(changes.added),
        ):
            return True
    if not rows:
        return False
    signed = {x for r in changes.added for x in (r.val, str(r.log).rpartition(",")[2])}
    if kind.signs and o.op not in signed:
        return None
    if not _touched(t, o, rows):
        return None
    return kind.signs


def _touched(t: Timeline, o: Operation, rows: list[Row]) -> bool:
    """Whether an operation names or selects all these rows."""
    found = touches(o, t.spec)
    if found is None or found.among is None:
        return True
    return all(r.id in found.ids or r.part in found.among for r in rows)
