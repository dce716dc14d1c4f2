"""The screen of some ids of a table: one task's part of a table that is too long for one process.

Of what the screen shows (see ``screen``), rows and states of ids need only the changes of these ids, the commits that name them or take
rows by a predicate, and the reads of them. So ids are divided into buckets. Sums over rows add up over buckets: a commit of several
ids is right if the differences that its buckets find are zero together. What a bucket finds goes to the pass in order of
events (``inorder``), as rows of :data:`inorder.COLUMNS`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from checkers.columns import inorder
from checkers.columns.facts import Bools, KindFacts
from checkers.columns.frames import COPY, I64, NEVER, PARTS, U64, Frame
from checkers.columns.screen import Differences, States, differences
from workloads.tables import TableSpec

NAMED, CHANGED, TAKEN, READ = range(4)
"""A row of a bucket: an id that a commit's operation names; a row that a commit changed; a commit that takes rows by a predicate; a read of
an id."""
_COMMIT = ("id", "position", "kind", "form", "in_part", "parity", "name", "invoked", "completed")
COLUMNS: Mapping[int, tuple[str, ...]] = {
    NAMED: (*_COMMIT, "number"),
    CHANGED: ("position", "sign", "id", "val", "cnt", "log", "row_part"),
    TAKEN: _COMMIT,
    READ: ("id", "op", "invoked", "completed", "seen"),
}
"""What a row is → its columns, all 64-bit integers; hashes are signed. ``position`` counts from 1. ``completed``: of a commit :data:`NEVER`
unless it was acknowledged. ``number`` orders the ids that an operation names; of a copy it is the target, ``id`` the source. ``id`` of a
commit that takes the rows of several partitions is one of these."""
Told = Mapping[str, I64]
"""Columns by name."""


@dataclass
class _Bucket:
    """A bucket's rows as the frame of a small table.

    Attributes:
        positions: the table's position of each of the bucket's, from 0 on (of which 0 is the empty table's).
        parts: commits (position - 1) that take the rows of a partition among several, and the partition.
        invoked, answered: per commit; -1 and :data:`NEVER` if no row of the bucket tells whose it is.
    """

    frame: Frame
    positions: I64
    parts: tuple[I64, I64]
    invoked: I64
    answered: I64


def screen_bucket(rows: Mapping[int, I64], spec: TableSpec, kinds: tuple[str, ...], *, whole: bool) -> list[I64]:
    """What the rows of a bucket show.

    Args:
        rows: what they are → their :data:`COLUMNS`, shape (columns, rows), in any order.
        whole: whether the changes of the table's state are asked for, because somebody read the whole table.

    Returns:
        Rows of ``inorder.COLUMNS``, by content.
    """
    c = {what: _by_name(rows, what) for what in COLUMNS}
    b = _bucket(c, spec, kinds)
    states = States(b.frame)
    out = []
    if len(b.frame.commit_op):
        out.append(_differences(b, differences(b.frame, KindFacts.of(b.frame.kinds), states, b.parts)))
    if whole and len(b.frame.commit_op):
        delta = states.per_commit(states.signed)
        some = states.per_commit(np.ones(len(b.frame.position), np.int64)) > 0
        out.append(
            inorder.rows(inorder.DELTA, b.invoked[some], position=b.positions[1:][some], a=delta.view(np.int64)[some])
        )
    if len(c[READ]["op"]):
        out.append(_reads(b, states, c[READ]))
    return out


def _by_name(rows: Mapping[int, I64], what: int) -> Told:
    names = COLUMNS[what]
    return dict(zip(names, rows.get(what, np.zeros((len(names), 0), np.int64)), strict=True))


def _bucket(c: Mapping[int, Told], spec: TableSpec, kinds: tuple[str, ...]) -> _Bucket:
    named, changed, taken = c[NAMED], c[CHANGED], c[TAKEN]
    there = np.unique(np.concatenate([x["position"] for x in (named, changed, taken)]))
    positions = np.concatenate([np.zeros(1, np.int64), there])
    commits = len(there)

    about = {name: np.full(commits, -1, np.int64) for name in ("form", "in_part", "parity", "name", "invoked")}
    about["completed"] = np.full(commits, NEVER)
    about["kind"] = np.full(commits, len(kinds))  # the last one is of no kind
    at_named, at_taken = np.searchsorted(there, named["position"]), np.searchsorted(there, taken["position"])
    for name, values in about.items():
        values[at_named] = named[name]
        values[at_taken] = taken[name]

    order = np.lexsort((named["number"], at_named))
    at_named, ids, number = at_named[order], named["id"][order], named["number"][order]
    copies = named["form"][order] == COPY
    times = np.where(copies, 2, 1)
    arg_op, arg_id = np.repeat(at_named, times), np.repeat(ids, times)
    arg_id[np.cumsum(times)[copies] - 1] = number[copies]

    position = np.searchsorted(there, changed["position"])
    order = np.argsort(position, kind="stable")
    row = {name: changed[name][order] for name in ("sign", "id", "val", "cnt", "log", "row_part")}
    none = np.full(commits, -1, np.int64)
    frame = Frame(
        spec=spec,
        kinds=(*kinds, ""),
        kind=about["kind"],
        outcome=np.zeros(commits, np.int64),
        process=none,
        invoked=about["invoked"],
        completed=about["completed"],
        name=_hashes(about["name"]),
        seen=np.zeros(commits, np.uint64),
        at=none,
        since=none,
        until=none,
        form=about["form"],
        part=about["in_part"],
        parity=about["parity"],
        arg_op=arg_op,
        arg_id=arg_id,
        commit_op=np.arange(commits),
        position=position[order] + 1,
        sign=row["sign"],
        id=row["id"],
        val=_hashes(row["val"]),
        cnt=row["cnt"],
        log=_hashes(row["log"]),
        row_part=row["row_part"],
    )
    several = np.flatnonzero(taken["form"] == PARTS)
    return _Bucket(frame, positions, (at_taken[several], taken["id"][several]), about["invoked"], about["completed"])


def _hashes(signed: I64) -> U64:
    return np.ascontiguousarray(signed).view(np.uint64)


def _differences(b: _Bucket, found: Differences) -> I64:
    """A row for each commit that is not right in this bucket alone."""
    changed = (found.removed > 0) | (found.added > 0)
    # A commit that no row of the bucket names is told even if nothing differs: perhaps it must not change any row.
    nobody = b.frame.kind == len(b.frame.kinds) - 1
    facts = KindFacts.of(b.frame.kinds)
    told = np.flatnonzero(~found.right | found.doubtful | (changed & (nobody | ~facts.dml[b.frame.kind])))
    flags = found.doubtful[told] * inorder.DOUBTFUL + changed[told] * inorder.CHANGES_ROWS
    return inorder.rows(
        inorder.DIFFERENCE,
        np.full(len(told), -1),  # before all events
        position=b.positions[1:][told],
        op=flags.astype(np.int64),
        a=found.counts[0][told],
        b=found.hashes[0][told].view(np.int64),
        c=found.counts[1][told],
        d=found.hashes[1][told].view(np.int64),
    )


def _reads(b: _Bucket, states: States, told: Told) -> I64:
    """For each read the positions at which its id had the rows that it returned: a row for each range of them, or one that says none.

    Only positions not below any commit of the id that was acknowledged before the read began, and below the first commit of the id that was
    invoked after it had ended; the pass in order of events knows narrower bounds.
    """
    sets = states.by_id
    reads = len(told["op"])
    code, known = sets.of(told["id"])
    low, high = _window(b, states, code, known, told)
    wanted = told["seen"].view(np.uint64)
    which, since, until = [], [], []
    left, at = np.arange(reads), low
    while len(left):
        keyed = known[left]
        n = sets.upto(code[left], at, including=True)
        first, end = _bounds(states, code[left], keyed)
        state = np.where(keyed, sets.sum[n] - sets.sum[np.where(keyed, first, n)], np.uint64(0))
        more = keyed & (n < end)
        following = np.full(len(left), NEVER)
        following[more] = sets.position[n[more]]
        hit = state == wanted[left]
        which.append(left[hit])
        since.append(b.positions[at[hit]])
        ends = np.full(int(hit.sum()), NEVER)
        ended = following[hit] != NEVER
        ends[ended] = b.positions[following[hit][ended]]
        until.append(ends)
        going = following < high[left]
        left, at = left[going], following[going]
    r, s, u = np.concatenate(which), np.concatenate(since), np.concatenate(until)
    nowhere = np.setdiff1d(np.arange(reads), r)
    r = np.concatenate([r, nowhere])
    s = np.concatenate([s, np.full(len(nowhere), -1)])
    u = np.concatenate([u, np.full(len(nowhere), -1)])
    return inorder.rows(inorder.RANGE, told["invoked"][r], op=told["op"][r], a=told["completed"][r], b=s, c=u)


def _bounds(states: States, code: I64, known: Bools) -> tuple[I64, I64]:
    """Where the changes of each id begin and end."""
    if not len(states.by_id.names):
        return np.zeros(len(code), np.int64), np.zeros(len(code), np.int64)
    at = np.where(known, code, 0)
    return states.by_id.start[at], states.by_id.start[at + 1]


def _window(
    b: _Bucket,
    states: States,
    code: I64,
    known: Bools,
    told: Told,
) -> tuple[I64, I64]:
    """The bucket's positions between which the state that each read returned is looked for: from, and to (excluded)."""
    sets = states.by_id
    low = np.zeros(len(code), np.int64)
    high = np.full(len(code), NEVER)
    if not len(sets.names):
        return low, high
    owner = sets.key // sets.stride
    position = sets.key % sets.stride
    distinct = np.concatenate([np.ones(1, np.bool_), sets.key[1:] != sets.key[:-1]])
    owner, position = owner[distinct], position[distinct]
    invoked, answered = b.invoked[position - 1], b.answered[position - 1]

    events = np.unique(np.concatenate([invoked, answered, told["invoked"], told["completed"]]))
    span = len(events) + 1

    def when(ids: I64, event: I64) -> I64:
        return ids * span + np.searchsorted(events, event)

    place = owner * sets.stride + position
    order = np.argsort(when(owner, answered))
    newest = np.maximum.accumulate(place[order])
    found = np.searchsorted(when(owner, answered)[order], when(code, told["invoked"]), "left") - 1
    best = newest[np.maximum(found, 0)]
    mine = known & (found >= 0) & (best // sets.stride == code)
    low[mine] = best[mine] % sets.stride

    order = np.argsort(when(owner, invoked))
    earliest = np.minimum.accumulate(place[order][::-1])[::-1]
    found = np.searchsorted(when(owner, invoked)[order], when(code, told["completed"]), "left")
    best = earliest[np.minimum(found, len(earliest) - 1)]
    mine = known & (found < len(earliest)) & (best // sets.stride == code)
    high[mine] = best[mine] % sets.stride
    return low, high
