"""Whose is a snapshot that names no operation?

A writer puts the operation's id into the summary (``icequake-op``) if its engine can; then proxies and signed rows say whose it is
(:mod:`checkers.timeline.makers`). If they do not, what the snapshot did to rows is evidence all the same:
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

from checkers.evidence.history import Operation
from checkers.evidence.makers import How, Labels
from checkers.evidence.replace import replace
from checkers.evidence.tablelog import Commit
from checkers.timeline.makers import SnapshotMakers
from checkers.timeline.netrows import NetRows
from checkers.timeline.timeline import Timeline
from checkers.timeline.touched import touches
from workloads.operations.kind import WriteSet
from workloads.operations.kinds import KINDS
from workloads.tables import Row, State, TableSpec

Meaning = Callable[[Operation, State, TableSpec], WriteSet | None]

MOST_PAIRS = 200_000
"""Pairs of a snapshot and an operation, under way at the same time, that are compared; with more, nothing is matched."""


def labels(t: Timeline, makers: SnapshotMakers, meaning: Meaning, tries: Mapping[str, int]) -> Labels:
    """The makers of the snapshots that name none. One that main no longer has is by its effect alone nobody's for certain.

    Args:
        t: with the names that are told already.
        makers: who made some of them, by requests and rows.
        meaning: what an operation removes and adds at a state; None where it has no meaning.
        tries: operation → its commit requests.
    """
    unnamed = {k: c for k, c in enumerate(t.main, 1) if c.op is None and not _settled(c, makers)}
    off_main = [c for c in off_main_without_name(t) if not _settled(c, makers)]
    out = Labels(makers.made, makers.how, makers.shared, frozenset(makers.suspects), tuple(makers.doubts), tries)
    in_one = {op for ops in makers.shared.values() for op in ops}
    missing = [
        o
        for o in t.ops
        if o.type != "fail"
        and o.op not in t.commits
        and o.op not in in_one
        and (kind := KINDS.get(o.f)) is not None
        and kind.writes
    ]
    if not (unnamed or off_main) or not missing:
        return out
    able = _able(t, unnamed, missing)
    if able is None or len(off_main) * len(missing) > MOST_PAIRS:
        return replace(out, perhaps=out.perhaps | {o.op for o in missing})
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
    perhaps = out.perhaps | {op for ops in fits.values() for op in ops}
    how: dict[int, How] = dict.fromkeys(made, "rows")
    return replace(out, made={**out.made, **made}, how={**out.how, **how}, perhaps=perhaps)


def _settled(c: Commit, makers: SnapshotMakers) -> bool:
    return c.snapshot_id in makers.shared or c.snapshot_id in makers.doubtful


def _able(t: Timeline, unnamed: Mapping[int, Commit], missing: list[Operation]) -> dict[int, list[Operation]] | None:
    """Position → the operations that main's order and real time let have made its snapshot; None if they are too many."""
    newest = [-1]  # position → the latest invocation of the operations up to it
    for c in t.main:
        o = t.everything.get(c.op) if c.op is not None else None
        newest.append(newest[-1] if o is None else max(newest[-1], o.invoked.index))
    steps, out, pairs, next_ = t.chain.steps, dict[int, list[Operation]](), 0, 0
    begun: list[Operation] = []
    for k, c in sorted(unnamed.items()):
        # ``settled`` grows with the event, and ``newest`` with the position, so both ends of the window only move on.
        while next_ < len(missing) and t.settled(missing[next_].invoked.index) < k:
            begun.append(missing[next_])
            next_ += 1
        begun = [o for o in begun if not (o.type == "ok" and o.completed and o.completed.index <= newest[k - 1])]
        here = t.chain.under_way(steps[c.metadata], begun) if c.metadata < len(steps) else begun
        out[k] = list(here)
        pairs += len(out[k])
        if pairs > MOST_PAIRS:
            return None
    return out


def off_main_without_name(t: Timeline) -> list[Commit]:
    """Snapshots that name no operation and that main does not have at the end."""
    return [c for c in t.log.commits if c.op is None and c.snapshot_id not in t.position]


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


def _after(state: State, changes: NetRows) -> State:
    state.apply(*changes)
    return state


def _fits(
    t: Timeline, c: Commit, o: Operation, changes: NetRows | None, state: State | None, meaning: Meaning
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
    if rows and not _touched(t, o, rows):
        return None
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
    return kind.signs


def _touched(t: Timeline, o: Operation, rows: list[Row]) -> bool:
    """Whether an operation names or selects all these rows."""
    found = touches(o, t.spec)
    if found is None or found.among is None:
        return True
    return all(r.id in found.ids or r.part in found.among for r in rows)
