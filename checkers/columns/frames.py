"""One table's evidence as flat columns: operations, their arguments, main's commits and the rows they changed, all numbers.

Texts become 64-bit hashes of which only equality matters: an operation's id, and with it every value of a register; a list of appends is
the hash of its elements in their order, so that the hash after an append follows from the one before. What a read returned is the sum of
its rows' hashes modulo 2^64, whatever their order: the hash of the multiset. Two that differ are taken for equal with a probability of
2^-64 a comparison; nothing here is looked up by hash, so that the number of values does not matter.

A table is *ordinary* when its log is whole: read to its end after the last operation, main known down to the empty table and never set
back, all rows known, all operations of known kinds and forms. Only such a table has columns; of any other the exact checkers must judge.

In a file, and between Spark and Python, a frame is *records*: rows of the same integer columns, whatever they tell (:data:`RECORD`), so that
all tables of all runs are one dataset.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from checkers.evidence.history import Operation
from checkers.timeline.timeline import Timeline, kind_of
from workloads.operations.kind import Kind
from workloads.operations.kinds import KINDS
from workloads.tables import Row, TableSpec

I64 = npt.NDArray[np.int64]
U64 = npt.NDArray[np.uint64]

NEVER = np.iinfo(np.int64).max
"""Event index of what never came."""
CODES: Mapping[str, int] = {name: n for n, name in enumerate(KINDS)}
"""Kind of operation → its number."""
OUTCOMES = ("ok", "fail", "info")

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1, _MIX_2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


class Unordinary(Exception):
    """A table that columns cannot tell; the message says why."""


@dataclass(frozen=True)
class Frame:
    """One table. Positions on main count from 1; 0 is the empty table. Event indices are those of the whole history.

    Attributes:
        spec: what the table promises.
        kind, outcome, process, invoked, completed: per operation, by invocation; ``outcome`` is an index into ``OUTCOMES``, ``completed``
            is ``NEVER`` where no answer came.
        name: per operation, the hash of its id.
        seen: per operation, the hash of the rows that it read; 0 for others.
        at: per operation, the position that a read of an older snapshot asked for; -1 for others.
        part, parity: per operation, its predicate; -1 where it has none.
        arg_op, arg_id: the ids that operations name, by operation, in the order in which they name them.
        commit_op: position - 1 → number of the operation that made it; -1: of none of this table.
        position, sign, id, val, cnt, log, row_part: per row that a commit added (+1) or removed (-1), net, by position.
    """

    spec: TableSpec
    kind: I64
    outcome: I64
    process: I64
    invoked: I64
    completed: I64
    name: U64
    seen: U64
    at: I64
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
        """How many there are."""
        return len(self.kind)


# --- hashes -----------------------------------------------------------------------------------------------------------


def mix(x: U64) -> U64:
    """Scatters 64 bits (the finalizer of SplitMix64: Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014)."""
    x = x + _GOLDEN
    x = (x ^ (x >> np.uint64(30))) * _MIX_1
    x = (x ^ (x >> np.uint64(27))) * _MIX_2
    return x ^ (x >> np.uint64(31))


def appended(log: U64, name: U64) -> U64:
    """The hash of lists to each of which one element was appended."""
    return mix(log * _GOLDEN + name)


def hash_rows(id: I64, val: U64, cnt: I64, log: U64, part: I64) -> U64:
    """A hash of each row."""
    h = mix(id.view(np.uint64))
    h = mix(h + val)
    h = mix(h + cnt.view(np.uint64))
    h = mix(h + log)
    return mix(h + part.view(np.uint64))


def hash_name(text: str) -> int:
    """The hash of an operation's id."""
    return int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")


# --- from evidence ----------------------------------------------------------------------------------------------------


class _Rows:
    """Rows being collected."""

    def __init__(self) -> None:
        self.names: dict[str, int] = {}
        self.logs: dict[str, int] = {}
        self.id: list[int] = []
        self.val: list[int] = []
        self.cnt: list[int] = []
        self.log: list[int] = []
        self.part: list[int] = []

    def name(self, text: str) -> int:
        found = self.names.get(text)
        if found is None:
            found = self.names[text] = hash_name(text)
        return found

    def list(self, text: str) -> int:
        """The hash of a list: of the one before its last append, which was mostly seen before, and that append."""
        found = self.logs.get(text)
        if found is None:
            before, comma, last = text.rpartition(",")
            log = np.array([self.list(before) if comma else 0], np.uint64)
            found = self.logs[text] = int(appended(log, np.array([self.name(last)], np.uint64))[0])
        return found

    def add(self, row: Sequence[Any]) -> None:
        id, val, cnt, log, part = row
        numbers = (id, cnt, part)
        if not all(type(n) is int and -(1 << 63) <= n < 1 << 63 for n in numbers) or cnt < 0:
            raise Unordinary(f"a row with {numbers} for id, cnt and part")
        if not (isinstance(val, str) and isinstance(log, str)) or log.count(",") > 900:
            raise Unordinary("a row whose val or log is no text, or a long one")
        self.id.append(id)
        self.val.append(self.name(val))
        self.cnt.append(cnt)
        self.log.append(self.list(log))
        self.part.append(part)

    def hashes(self) -> U64:
        return hash_rows(_i64(self.id), _u64(self.val), _i64(self.cnt), _u64(self.log), _i64(self.part))


def _i64(values: Sequence[int]) -> I64:
    return np.array(values, np.int64)


def _u64(values: Sequence[int]) -> U64:
    return np.array(values, np.uint64)


def frame_of(t: Timeline) -> Frame:
    """A table's columns.

    Raises:
        Unordinary: it is not ordinary, so the exact checkers must judge it.
    """
    _demand_ordinary(t)
    rows = _Rows()
    number = {o.op: n for n, o in enumerate(t.ops)}
    part, parity, at = ([-1] * len(t.ops) for _ in range(3))
    seen: list[tuple[int, int, int]] = []
    read = _Rows()
    read.names, read.logs = rows.names, rows.logs
    arg_op: list[int] = []
    arg_id: list[int] = []
    for n, o in enumerate(t.ops):
        ids = _arguments(o)
        arg_op += [n] * len(ids)
        arg_id += ids
        if "part" in o.value:
            part[n], parity[n] = o.value["part"], o.value.get("parity", -1)
        if o.type == "ok" and o.f in ("read", "read-key", "read-snapshot"):
            result = o.result
            if o.f == "read-snapshot":
                if not isinstance(result, dict) or result.get("snapshot") not in t.position:
                    raise Unordinary(f"{o.op} read a snapshot that main has not")
                at[n], result = t.position[result["snapshot"]], result.get("rows")
            if not isinstance(result, list):
                raise Unordinary(f"{o.op} returned no rows")
            first = len(read.id)
            for r in result:
                if not isinstance(r, list | tuple) or len(r) != len(Row._fields):
                    raise Unordinary(f"{o.op} returned something that is no row")
                read.add(r)
            seen.append((n, first, len(read.id)))
    position: list[int] = []
    sign: list[int] = []
    for k, c in enumerate(t.main, 1):
        changes = t.changes(c)
        assert changes is not None  # an ordinary table's are known
        for changed, way in ((changes.removed, -1), (changes.added, 1)):
            for r in changed:
                rows.add(r)
                position.append(k)
                sign.append(way)
    sums = np.zeros(len(t.ops), np.uint64)
    if seen:
        running = np.concatenate([np.zeros(1, np.uint64), np.cumsum(read.hashes(), dtype=np.uint64)])
        reader, first_row, last_row = np.array(seen, np.int64).T
        sums[reader] = running[last_row] - running[first_row]
    return Frame(
        spec=t.spec,
        kind=_i64([CODES[o.f] for o in t.ops]),
        outcome=_i64([OUTCOMES.index(o.type) for o in t.ops]),
        process=_i64([o.process if isinstance(o.process, int) else -1 for o in t.ops]),
        invoked=_i64([o.invoked.index for o in t.ops]),
        completed=_i64([NEVER if o.completed is None else o.completed.index for o in t.ops]),
        name=_u64([rows.name(o.op) for o in t.ops]),
        seen=sums,
        at=_i64(at),
        part=_i64(part),
        parity=_i64(parity),
        arg_op=_i64(arg_op),
        arg_id=_i64(arg_id),
        commit_op=_i64([number.get(c.op or "", -1) for c in t.main]),
        position=_i64(position),
        sign=_i64(sign),
        id=_i64(rows.id),
        val=_u64(rows.val),
        cnt=_i64(rows.cnt),
        log=_u64(rows.log),
        row_part=_i64(rows.part),
    )


def _demand_ordinary(t: Timeline) -> None:
    """Raises :class:`Unordinary` unless the table's log is whole and simple."""
    if not (t.complete and t.log.complete and t.rooted and t.read_to_pointer):
        raise Unordinary("the run or its log did not come to its end, or the log is not known down to its root")
    if any(o.type != "fail" and (k := kind_of(o)) is not None and k.sets_back for o in t.ops):
        raise Unordinary("the table was rolled back")
    if any(e.completed is not None and e.completed.time >= t.seen_until for e in t.ops):
        raise Unordinary("an operation ended after the log was read last")
    if t.log.missing_files or t.log.problems:
        raise Unordinary("the log lacks files or has problems")
    for c in t.log.commits:
        if c.snapshot_id not in t.position:
            raise Unordinary(f"snapshot {c.snapshot_id} is not on main")
        if not c.readable or t.changes(c) is None:
            raise Unordinary(f"the rows of snapshot {c.snapshot_id} are not known")
    current = [v.snapshot for v in t.versions]
    wanted = [c.snapshot_id for c in t.main]
    if [s for s in current if s is not None] != wanted or None in current[1:]:
        raise Unordinary("main was set back, or its versions are not known one by one")


def keeps_rows(kind: Kind) -> bool:
    """Whether an operation of the kind neither changes rows nor returns any, so that its arguments do not matter here."""
    return kind.commits and not kind.changes_rows and not kind.replaces


def _arguments(o: Operation) -> list[int]:
    """The ids that an operation names, in its order; for INSERT … SELECT the source, then the target.

    Raises:
        Unordinary: its kind or its arguments are of no known form.
    """
    kind, value = kind_of(o), o.value
    if kind is None or not isinstance(value, dict):
        raise Unordinary(f"{o.op} is of no known kind or form")
    numbers = [value[k] for k in _NUMBERS if k in value]
    ids = value.get("ids", [])
    if not isinstance(ids, list) or not all(type(x) is int and abs(x) < 1 << 62 for x in (*numbers, *ids)):
        raise Unordinary(f"{o.op} has arguments of no known form")
    shape = SHAPES.get(o.f)
    if shape is None and not keeps_rows(kind):
        raise Unordinary(f"{o.op} is of the kind {o.f}, and columns do not know what it means")
    strange = set(value) & _ARGUMENTS if shape is None else set(value) ^ shape
    if strange:
        raise Unordinary(f"{o.op} has arguments of no known form: {', '.join(sorted(map(str, strange)))}")
    if "from" in value:
        return [value["from"], value["to"]]
    return [value["id"]] if "id" in value else list(ids)


_NUMBERS = ("part", "parity", "id", "from", "to")
_ARGUMENTS = {"ids", *_NUMBERS}
_BY_IDS = (
    "insert", "update-register", "update-counter", "update-append", "delete",
    "merge-upsert", "merge-insert", "merge-update", "merge-delete",
)  # fmt: skip
_BY_PREDICATE = ("update-register-where", "update-counter-where", "update-append-where", "delete-where")
SHAPES: Mapping[str, set[str]] = {
    **{f: {"ids"} for f in _BY_IDS},
    **{f: {"part", "parity"} for f in _BY_PREDICATE},
    "delete-partition": {"part"},
    "overwrite-partitions": {"ids"},
    "overwrite-where": {"ids", "part"},
    "insert-select": {"from", "to"},
    "replace-table": set(),
    "read": set(),
    "read-key": {"id"},
    "read-snapshot": {"back"},
}
"""Kind whose meaning the screen knows → the names of its arguments. Nothing is proven of, or held against, one that is not here, unless
it keeps all rows as they are (:func:`keeps_rows`)."""

# --- records ----------------------------------------------------------------------------------------------------------

OPERATION, ARGUMENT, COMMIT, CHANGE = range(4)
WIDTH = 10
RECORD: Mapping[int, tuple[str, ...]] = {
    OPERATION: ("kind", "outcome", "process", "invoked", "completed", "name", "seen", "at", "part", "parity"),
    ARGUMENT: ("arg_op", "arg_id"),
    COMMIT: ("commit_op",),
    CHANGE: ("position", "sign", "id", "val", "cnt", "log", "row_part"),
}
"""What a record tells → which of the frame's columns are its ``c0``, ``c1``, …; ``n`` is the row's number in them."""
HASHES = frozenset({"name", "seen", "val", "log"})
SCHEMA = pa.schema([("record", pa.int8()), ("n", pa.int64()), *((f"c{i}", pa.int64()) for i in range(WIDTH))])


def to_records(f: Frame) -> pa.Table:
    """A frame as rows of :data:`SCHEMA`; hashes are signed there."""
    parts = []
    for record, columns in RECORD.items():
        arrays = [getattr(f, c) for c in columns]
        n = len(arrays[0])
        numbers = [a.view(np.int64) for a in arrays] + [np.zeros(n, np.int64)] * (WIDTH - len(arrays))
        which = pa.array(np.full(n, record, np.int8))
        parts.append(pa.table([which, np.arange(n, dtype=np.int64), *numbers], schema=SCHEMA))
    return pa.concat_tables(parts)


def from_records(record: npt.NDArray[np.int8], n: I64, columns: Sequence[I64], spec: TableSpec) -> Frame:
    """The frame of a table from its records, in any order.

    Args:
        record, n: those columns.
        columns: ``c0``, ``c1``, …
        spec: what the table promises; records do not tell.
    """
    found: dict[str, Any] = {}
    for kind, names in RECORD.items():
        mine = np.flatnonzero(record == kind)
        if len(mine) and not (n[mine] == np.arange(len(mine))).all():
            mine = mine[np.argsort(n[mine])]
        for name, column in zip(names, columns, strict=False):
            values = np.ascontiguousarray(column[mine])
            found[name] = values.view(np.uint64) if name in HASHES else values
    return Frame(spec=spec, **found)
