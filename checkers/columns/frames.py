"""One table's evidence as flat columns: operations, their arguments, main's commits and the rows they changed, all numbers.

Texts become 64-bit hashes of which only equality matters: an operation's id, and with it every value of a register; a list of appends is
the hash of its elements in their order, so that the hash after an append follows from the one before. The hash of a read's
result, a multiset, is the sum of its rows' hashes modulo 2^64. Two different values compare equal with a probability of
2^-64 per comparison; nothing is looked up by hash, so the number of values does not matter.

A table is *ordinary* if its log is complete: read to its end after the last operation, main known down to the empty table and never set
back, all rows known, all operations of known kinds and forms; procedures answered what the log shows, and captures saw what was
acknowledged. Only such a table has columns; the exact checkers judge any other.

In a file, and between Spark and Python, a frame is *records* (:mod:`checkers.columns.records`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np

from checkers.columns.facts import keeps_rows
from checkers.columns.hashing import I64, NEVER_CAME, ROW_TYPES, U64, Rows, Unordinary, i64, u64
from checkers.evidence.history import Operation
from checkers.timeline import explain, two_tables
from checkers.timeline.answers import answering, claims_of, contradictions, understood
from checkers.timeline.captured import stale_captures, without_table
from checkers.timeline.past import TableHistory
from checkers.timeline.promise import isolation
from checkers.timeline.timeline import Timeline, kind_of
from checkers.timeline.touched import touches
from workloads.operations.keys import part_of
from workloads.operations.kind import NOTHING, Touches
from workloads.operations.kinds import KINDS
from workloads.tables import Row, TableSpec

_FAR = 1 << 62
"""Numbers in arguments are nearer to zero."""
OUTCOMES = ("ok", "fail", "info")


IDS, COPY, WHERE, PART, PARTS, WHOLE = range(6)
"""What an operation touches: the ids that it names; of two ids the second, as a copy of the first; the rows of ``part`` whose counter has
``parity``; the rows of ``part``; those of the partitions of its ids; all rows."""

_IDS_ONLY = NOTHING[1:5]
"""What an operation touches besides ids, if it is nothing."""


class Unplaced(Unordinary):
    """A time travel that columns cannot represent: a frame without time travels may be possible."""


@dataclass(frozen=True)
class TableFrame:
    """One table. Positions on main count from 1; 0 is the empty table. Event indices are those of the whole history.

    Attributes:
        spec: the table; its isolation level is the weakest that any operation was promised.
        kinds: names of kinds; ``kind`` is an index into them.
        kind, outcome, process, invoked, completed: per operation, by invocation; ``outcome`` is an index into ``OUTCOMES``, ``completed``
            is ``NEVER_CAME`` if no answer came.
        name: per operation, the hash of its id.
        seen: per operation, the hash of the rows that it read; 0 for others.
        past_position: per operation, the position that a read of an older snapshot asked for; of an operation that expired snapshots, beside
            such reads, the position at which main proved to be when it was acknowledged; -1 for others.
        since, until: per operation, the first and the last position at which the history answered a read of an older snapshot so; -1
            for others.
        form: per operation, what it touches (:data:`IDS` …).
        part, parity: per operation, the partition that it names and the parity of its predicate; -1 if it has none.
        arg_op, arg_id: the ids that operations name, by operation, in the order in which they name them.
        commit_op: position - 1 → number of the operation that made it; -1: no operation of this table.
        position, sign, id, val, cnt, log, row_part: per row that a commit added (+1) or removed (-1), net, by position.
    """

    spec: TableSpec
    kinds: tuple[str, ...]
    kind: I64
    outcome: I64
    process: I64
    invoked: I64
    completed: I64
    name: U64
    seen: U64
    past_position: I64
    since: I64
    until: I64
    form: I64
    part: I64
    parity: I64
    arg_op: I64
    arg_id: I64
    commit_op: I64
    position: I64
    sign: I64
    id: I64
    val: U64
    cnt: I64
    log: U64
    row_part: I64

    @property
    def operations(self) -> int:
        """Number of operations."""
        return len(self.kind)


def frame_of(t: Timeline) -> TableFrame:
    """A table's columns.

    Raises:
        Unplaced: it has a time travel that columns cannot represent.
        Unordinary: it is not ordinary, so the exact checkers must judge it.
    """
    demand_ordinary(t)
    return _frame(t, t.ops, _placed(t))


def frame_without_travels(t: Timeline) -> TableFrame:
    """The columns of a table without the reads of older snapshots, which only the checker ``reads`` misses. For a table that is ordinary
    (:func:`demand_ordinary`).

    Raises:
        Unordinary: columns cannot represent anything else.
    """
    return _frame(t, tuple(o for o in t.ops if not _travels(o)), {})


def _frame(t: Timeline, ops: Sequence[Operation], placed: Mapping[str, tuple[int, int, int]]) -> TableFrame:
    """The columns of these operations; ``placed``: as :func:`_placed`."""
    rows = Rows()
    names = tuple(KINDS)
    code = {name: n for n, name in enumerate(names)}
    s = _statements(t, ops, placed)
    sums = np.zeros(len(ops), np.uint64)
    sums[i64(s.readers)] = _sums([ops[n] for n in s.readers], s.results, rows)
    position, sign = _changes(t, rows)
    number = {o.op: n for n, o in enumerate(ops)}
    return TableFrame(
        spec=_weakest(t),
        kinds=names,
        kind=i64([code[o.f] for o in ops]),
        outcome=i64([OUTCOMES.index(o.type) for o in ops]),
        process=i64([o.process if isinstance(o.process, int) else -1 for o in ops]),
        invoked=i64([o.invoked.index for o in ops]),
        completed=i64([NEVER_CAME if o.completed is None else o.completed.index for o in ops]),
        name=u64([rows.name(o.op) for o in ops]),
        seen=sums,
        past_position=i64(s.past_position),
        since=i64(s.since),
        until=i64(s.until),
        form=i64(s.form),
        part=i64(s.part),
        parity=i64(s.parity),
        arg_op=i64(s.arg_op),
        arg_id=i64(s.arg_id),
        commit_op=i64([number.get(c.op or "", -1) for c in t.main]),
        position=position,
        sign=sign,
        id=i64(rows.id),
        val=u64(rows.val),
        cnt=i64(rows.cnt),
        log=u64(rows.log),
        row_part=i64(rows.part),
    )


class _Statements:
    """What operations name and what they read: columns by the number of the operation, -1 where they say nothing."""

    def __init__(self, count: int) -> None:
        self.part, self.parity, self.past_position, self.since, self.until = ([-1] * count for _ in range(5))
        self.form: list[int] = []
        self.readers: list[int] = []
        self.results: list[list[Any]] = []
        self.arg_op: list[int] = []
        self.arg_id: list[int] = []


def _statements(t: Timeline, ops: Sequence[Operation], placed: Mapping[str, tuple[int, int, int]]) -> _Statements:
    """Raises Unordinary if a read returned no rows, Unplaced if an expiry is not where its proof is."""
    s = _Statements(len(ops))
    proofs = _proofs(TableHistory(t), t) if placed else {}
    kinds = {f: KINDS.get(f) for f in {o.f for o in ops}}
    skipped = {f for f, kind in kinds.items() if kind is not None and keeps_rows(kind) and kind.verb != "read"}
    reading = {f for f, kind in kinds.items() if kind is not None and kind.verb == "read"}
    for n, o in enumerate(ops):
        if o.f in skipped and isinstance(o.value, dict):
            s.past_position[n] = proofs.pop(o.op, -1)
            s.form.append(IDS)
            continue
        about = _touched(o, t.spec)
        named = about.named
        if named:
            s.arg_op += [n] * len(named)
            s.arg_id += named
        what = IDS if about[1:5] == _IDS_ONLY and o.f not in reading else _form(o, about, t.spec)
        s.form.append(what)
        if what == WHERE and about.predicate is not None:
            s.part[n], s.parity[n] = about.predicate
        elif what == PART:
            (s.part[n],) = about.parts
        if o.f in reading and o.type == "ok":
            result = o.result
            if KINDS[o.f].travels:
                s.past_position[n], s.since[n], s.until[n] = placed[o.op]
                result = result.get("rows")
            if not isinstance(result, list):
                raise Unordinary(f"{o.op} returned no rows")
            s.readers.append(n)
            s.results.append(result)
    if proofs:
        raise Unplaced(f"{min(proofs)} expired snapshots, and may have changed rows")
    return s


def _changes(t: Timeline, rows: Rows) -> tuple[I64, I64]:
    """Adds the rows that each commit of main removed and added to ``rows``: for each its position on main, and -1 or 1."""
    changes = [t.changes(c) for c in t.main]
    assert None not in changes  # known for an ordinary table
    sides: list[tuple[Row, ...]] = [*chain.from_iterable(changes)]  # type: ignore[arg-type]
    rows.add_all([*chain.from_iterable(sides)])
    many = i64([*map(len, sides)])
    position = np.repeat(np.arange(1, len(t.main) + 1).repeat(2), many)
    sign = np.repeat(np.tile(np.array([-1, 1], np.int64), len(t.main)), many)
    return position, sign


def _sums(readers: Sequence[Operation], results: Sequence[list[Any]], names: Rows) -> U64:
    """The hash of the rows that each operation returned; ``names``: keeps the hashes of texts.

    Most rows are returned by many reads, so each is hashed once. Rows are looked up as tuples, and 1, 1.0 and True are one key of a
    dictionary: so that is only done where all values are plain whole numbers and texts, of which no two that differ are equal.

    Raises:
        Unordinary: something is no row, or one that columns cannot represent.
    """
    every = [*chain.from_iterable(results)]
    if not _are_rows(every):
        wrong = next(o.op for o, result in zip(readers, results, strict=True) if not _are_rows(result))
        raise Unordinary(f"{wrong} returned something that is no row")
    read = Rows()
    read.names, read.logs = names.names, names.logs
    if {*map(type, chain.from_iterable(every))} <= {int, str}:
        number: defaultdict[tuple[Any, ...], int] = defaultdict()
        number.default_factory = number.__len__
        which = np.fromiter(map(number.__getitem__, map(tuple, every)), np.int64, len(every))
        read.add_all([*number])
        hashes = read.hashes()[which]
    else:
        read.add_all(every)
        hashes = read.hashes()
    running = np.concatenate([np.zeros(1, np.uint64), np.cumsum(hashes, dtype=np.uint64)])
    bounds = np.concatenate([np.zeros(1, np.int64), np.cumsum(i64([*map(len, results)]))])
    sums: U64 = np.diff(running[bounds])
    return sums


def _are_rows(values: list[Any]) -> bool:
    return {*map(type, values)} <= ROW_TYPES and {*map(len, values)} <= {len(Row._fields)}


def _weakest(t: Timeline) -> TableSpec:
    """The table's definition; at snapshot isolation if that is all that any of its operations was promised."""
    if t.spec.isolation == "snapshot":
        return t.spec
    # A promise is by kind and engine.
    one_each = {(o.f, o.invoked.extra.get("engine")): o for o in t.ops}.values()
    if all(isolation(t.spec, o) != "snapshot" for o in one_each):
        return t.spec
    return t.spec.model_copy(update={"isolation": "snapshot"})


def _travels(o: Operation) -> bool:
    kind = kind_of(o)
    return kind is not None and kind.travels


def _placed(t: Timeline) -> dict[str, tuple[int, int, int]]:
    """Time travel → the position that it asked for, and the first and the last at which the history answered so.

    Raises:
        Unplaced: there is one of which that is not known.
    """
    out: dict[str, tuple[int, int, int]] = {}
    past = TableHistory(t)
    for o in t.ops:
        if o.type != "ok" or not _travels(o):
            continue
        snapshot = o.result.get("snapshot") if isinstance(o.result, dict) else None
        if not isinstance(snapshot, int) or snapshot not in t.position:
            raise Unplaced(f"{o.op} read a snapshot that main has not")
        position = t.position[snapshot]
        out[o.op] = position, *_answered(past, o, position, t)
    return out


def _proofs(past: TableHistory, t: Timeline) -> dict[str, int]:
    """Operation that expired snapshots → the position of main that its acknowledgement proves.

    Main had got as far as the expiry found it, also if the commits up to there are acknowledged later, or never. The checker ``reads`` looks
    at that where there are time travels.
    """
    first = 0 if t.versions[0].snapshot is None else 1
    out: dict[str, int] = {}
    for n, _, expiry in past.expiries:
        out[expiry.op] = max(out.get(expiry.op, 0), past.position(n) + first)
    return out


def _answered(past: TableHistory, o: Operation, position: int, t: Timeline) -> tuple[int, int]:
    """The first and the last of the positions at which the history had the snapshot of position ``position`` where a time travel asked for it.

    Only positions at all of whose metadata versions it had it: an expiry may have shortened the history without moving main.

    Raises:
        Unplaced: there is none.
    """
    back = o.value.get("back") if isinstance(o.value, dict) else None
    if not isinstance(back, int) or back < 0:
        raise Unplaced(f"{o.op} does not say how far back it went")
    empty = t.versions[0].snapshot is None
    snapshot = t.main[position - 1].snapshot_id
    runs: list[list[int]] = [[]]
    for p in range(position, min(position + back, len(t.main)) + 1):  # later, more than that many entries are newer
        index = p if empty else p - 1
        versions = range(t.versions[index].metadata, past.last_at(index) + 1)
        if all(snapshot in (past.answers(n, back) or ()) for n in versions):
            runs[-1].append(p)
        elif runs[-1]:
            runs.append([])
    best = max(runs, key=len)
    if not best:
        raise Unplaced(f"at no position the history always had what {o.op} asked for")
    return best[0], best[-1]


def demand_ordinary(t: Timeline) -> None:
    """Raises :class:`Unordinary` unless the table's log is complete and simple."""
    if not (t.complete and t.log.complete and t.rooted and t.read_to_pointer):
        raise Unordinary("the run or its log did not come to its end, or the log is not known down to its root")
    back = {f for f in {o.f for o in t.ops} if (k := KINDS.get(f)) is not None and k.goes_back}
    if back and any(o.type != "fail" and o.f in back for o in t.ops):
        raise Unordinary("the table was rolled back")
    ends = [o.completed.time for o in t.ops if o.completed is not None]
    if ends and max(ends) >= t.seen_until:
        raise Unordinary("an operation ended after the log was read last")
    if not t.unbroken:
        raise Unordinary("the log may lack metadata versions")
    if two_tables.any_snapshots_read(t.ops):
        raise Unordinary("a read of two tables names its snapshots")
    if any(
        contradictions(t, o)
        or not understood(o)
        or ((claims := claims_of(o)) and claims.needs_snapshot and not t.commits.get(o.op))
        for o in answering(t.ops)
    ):
        raise Unordinary("a procedure answered what the log does not show")
    if any(stale_captures(t)) or any(without_table(t)):
        raise Unordinary("the log was read at a pointer that it should not have had")
    if t.log.missing_files or t.log.problems:
        raise Unordinary("the log lacks files or has problems")
    if t.labels.made:
        raise Unordinary("a snapshot names no operation, and its maker is known by its rows")
    wanted = [c.snapshot_id for c in t.main]
    if off := {c.snapshot_id for c in t.log.commits}.difference(wanted):
        raise Unordinary(f"snapshot {min(off)} is not on main")
    for c in t.log.commits:
        if c.added is None or c.removed is None or t.changes(c) is None:
            raise Unordinary(f"the rows of snapshot {c.snapshot_id} are not known")
    current = [v.snapshot for v in t.versions]
    if [s for s in current if s is not None] != wanted or None in current[1:]:
        raise Unordinary("main was set back, or its versions are not known one by one")


def _touched(o: Operation, spec: TableSpec) -> Touches:
    """What an operation touches; nothing for one that does not touch rows.

    Raises:
        Unordinary: its kind or the form of its arguments is unknown.
    """
    kind = kind_of(o)
    if kind is None or not isinstance(o.value, dict):
        raise Unordinary(f"{o.op} is of no known kind or form")
    if keeps_rows(kind):
        return NOTHING
    if not kind.by_facts:
        raise Unordinary(f"{o.op} is of the kind {o.f}, and columns do not know what it means")
    about = touches(o, spec)
    if about is None:
        raise Unordinary(f"{o.op} has arguments of no known form")
    numbers = about.named if about[1:5] == _IDS_ONLY else (*about.named, *(about.predicate or ()), *about.parts)
    if numbers and not -_FAR < min(numbers) <= max(numbers) < _FAR:
        raise Unordinary(f"{o.op} has arguments of no known form")
    return about


def _form(o: Operation, about: Touches, spec: TableSpec) -> int:
    """The form in which an operation names what it touches.

    Raises:
        Unordinary: columns cannot represent it.
    """
    if about.copied_from is not None:
        form, known = COPY, len(about.ids) == 1 and about.among == frozenset()
    elif about.whole:
        form, known = WHOLE, True
    elif about.predicate is not None:
        form, known = WHERE, not about.parts and not about.ids
    elif len(about.parts) == 1:
        form, known = PART, True
    elif about.parts:
        form, known = PARTS, about.parts == {part_of(i, spec) for i in about.ids}
    else:
        form, known = IDS, True
    if KINDS[o.f].verb == "read" and form != WHOLE and (form != IDS or len(about.ids) != 1):
        known = False
    if not known:
        raise Unordinary(f"{o.op} touches {explain.arguments(o.value)}, which columns cannot tell")
    return form
