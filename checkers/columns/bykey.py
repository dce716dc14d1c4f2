"""The screen of some ids of a table: one task's part of a table that is too long for one process.

Of what the screen shows (see ``screen``), rows and states of ids need only the changes of these ids, the commits that name them or take
rows by a predicate, and the reads of them. So ids are divided into buckets. Sums over rows add up over buckets: a commit of several
ids is right if the differences that its buckets find are zero together. What a bucket finds goes to the pass in order of
events (``inorder``), as rows of :data:`inorder.SCHEMA`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from checkers.columns import inorder
from checkers.columns.facts import Bools, KindFacts
from checkers.columns.frames import COPY, I64, NEVER, PARTS, U64, Frame
from checkers.columns.screen import Differences, States, differences
from workloads.tables import TableSpec

NAMED, CHANGED, TAKEN, READ = range(4)
"""A row of a bucket: an id that a commit's operation names; a row that a commit changed; a commit that takes rows by a predicate; a read of
an id."""
COLUMNS = (
    *("what", "id", "number", "op", "position", "kind", "form", "in_part", "parity", "name"),
    *("invoked", "completed", "seen", "sign", "val", "cnt", "log", "row_part"),
)
"""A bucket's columns, all 64-bit integers; hashes are signed. ``position`` counts from 1. ``completed``: of a commit :data:`NEVER` unless
it was acknowledged. ``number`` orders the ids that an operation names; of a copy it is the target, ``id`` the source. ``id`` of a
commit that takes the rows of several partitions is one of these."""


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


def screen_bucket(t: pa.Table, spec: TableSpec, kinds: tuple[str, ...], *, whole: bool) -> pa.Table:
    """What the rows of a bucket show.

    Args:
        t: rows with :data:`COLUMNS`, in any order.
        whole: whether the changes of the table's state are asked for, because somebody read the whole table.

    Returns:
        Rows of ``inorder.SCHEMA``, without ``part``.
    """
    c = {name: t[name].to_numpy() for name in COLUMNS}
    b = _bucket(c, spec, kinds)
    states = States(b.frame)
    out = []
    if len(b.frame.commit_op):
        out.append(_differences(b, differences(b.frame, KindFacts.of(b.frame.kinds), states, b.parts)))
    if whole and len(b.frame.commit_op):
        delta = states.per_commit(states.signed)
        out.append(
            inorder.rows(inorder.DELTA, b.invoked, position=b.positions[1:], a=delta.view(np.int64)).filter(
                pa.array(states.per_commit(np.ones(len(b.frame.position), np.int64)) > 0)
            )
        )
    reads = np.flatnonzero(c["what"] == READ)
    if len(reads):
        told = {name: c[name][reads] for name in ("id", "op", "invoked", "completed", "seen")}
        out.append(_reads(b, states, told))
    return pa.concat_tables([inorder.rows(inorder.DELTA, np.zeros(0, np.int64)), *out])


def _bucket(c: dict[str, I64], spec: TableSpec, kinds: tuple[str, ...]) -> _Bucket:
    what = c["what"]
    there = np.unique(c["position"][what != READ])
    positions = np.concatenate([np.zeros(1, np.int64), there])
    commits = len(there)
    at = np.searchsorted(there, c["position"])

    tells = np.flatnonzero((what == NAMED) | (what == TAKEN))
    about = {name: np.full(commits, -1, np.int64) for name in ("form", "in_part", "parity", "name", "invoked")}
    about["completed"] = np.full(commits, NEVER)
    about["kind"] = np.full(commits, len(kinds))  # the last one is of no kind
    for name, values in about.items():
        values[at[tells]] = c[name][tells]

    named = np.flatnonzero(what == NAMED)
    named = named[np.lexsort((c["number"][named], at[named]))]
    copies = c["form"][named] == COPY
    arg_op = np.repeat(at[named], np.where(copies, 2, 1))
    arg_id = np.repeat(c["id"][named], np.where(copies, 2, 1))
    second = np.cumsum(np.where(copies, 2, 1))[copies] - 1
    arg_id[second] = c["number"][named][copies]

    changed = np.flatnonzero(what == CHANGED)
    changed = changed[np.argsort(at[changed], kind="stable")]
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
        position=at[changed] + 1,
        sign=c["sign"][changed],
        id=c["id"][changed],
        val=_hashes(c["val"][changed]),
        cnt=c["cnt"][changed],
        log=_hashes(c["log"][changed]),
        row_part=c["row_part"][changed],
    )
    several = np.flatnonzero((what == TAKEN) & (c["form"] == PARTS))
    return _Bucket(frame, positions, (at[several], c["id"][several]), about["invoked"], about["completed"])


def _hashes(signed: I64) -> U64:
    return np.ascontiguousarray(signed).view(np.uint64)


def _differences(b: _Bucket, found: Differences) -> pa.Table:
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


def _reads(b: _Bucket, states: States, told: dict[str, I64]) -> pa.Table:
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
    told: dict[str, I64],
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
