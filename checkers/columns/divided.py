"""The screen of tables that are too long for one task, on Spark. Workers compute on blocks of numbers; Spark moves the blocks.

Four stages, with a shuffle before each but the first:

1. *Read.* A task reads a row group and sends operations, arguments and commits by the operation's number, changed rows by the id's bucket.
2. *Place.* A task has a range of operations with their commits and ids. Lost, duplicate, falsely failed and unknown commits show here. Ids that
   commits name and reads of ids go to the ids' buckets, commits that take rows by a predicate to every bucket.
3. *Screen a bucket* (:mod:`bykey`).
4. *Go through the events* of a table in their order (:mod:`inorder`), in one task, which sorts them on the disk (:mod:`external`).

No task has more than a row group, a range, a bucket or the sorter's blocks in memory.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from checkers.columns import bykey, inorder
from checkers.columns.dataset import Shard, Slice, read
from checkers.columns.engine import MOST, Judged, Suspects, certain, proven
from checkers.columns.external import Sorting
from checkers.columns.facts import KindFacts
from checkers.columns.frames import (
    ARGUMENT,
    CHANGE,
    COMMIT,
    COPY,
    I64,
    IDS,
    NEVER,
    OPERATION,
    PART,
    PARTS,
    RECORD,
    WHERE,
    WHOLE,
    mix,
)
from checkers.columns.screen import Screen, part_of, proving

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_OK, _FAIL = 0, 1
PIECE = 1 << 16
"""Rows of a block that is sent, at most: some MB."""
_IN_BUCKET = 10
"""Added to the contents of ``bykey`` in blocks."""
EVENTS, SUSPECT = 100, 101
"""Blocks for the last stage beside the contents of ``frames.RECORD`` and ``bykey``: rows of :mod:`inorder`; a :class:`Suspect`."""

Block = tuple[int, Any]
"""What it is, and its rows, shape (columns, rows)."""
Sent = tuple[int, Block]
"""The partition that a block is for, and the block."""


@dataclass(frozen=True)
class Suspect:
    """Operations of a task that could not be proven.

    Attributes:
        first: the :data:`MOST` least of them.
    """

    reason: str
    count: int
    first: I64


@dataclass
class Seen:
    """What kinds and outcomes alone tell of some records of a table.

    Attributes:
        records: content → number.
        reads: acknowledged reads.
        whole: whether one was of more than an id.
        suspects: commits of nobody, and operations of kinds that are not told; ``strange`` are those that this version does not know.
    """

    records: I64
    reads: int = 0
    whole: bool = False
    strange: tuple[Suspect, ...] = ()
    suspects: tuple[Suspect, ...] = ()


@dataclass(frozen=True)
class Table:
    """How a table is divided. Ranges and buckets of all tables are numbered through.

    Attributes:
        number: of the table among those that are divided.
        width: operations of a range.
    """

    number: int
    shard: Shard
    whole: bool
    width: int
    first_range: int
    ranges: int
    first_bucket: int
    buckets: int


def divided(
    spark: SparkSession, parts: Mapping[int, Shard], slices: Sequence[Slice], size: Mapping[int, int], bucket: int
) -> dict[int, Judged]:
    """Part → its result, for tables that are too long for a task.

    Args:
        slices: of these tables.
        size: part → its number of records.
        bucket: records of a bucket, on average.
    """
    slices = [s for s in slices if s.part in parts]
    seen = _scanned(spark, parts, slices)
    found: dict[int, list[Suspect]] = {n: list(s.strange or s.suspects) for n, s in seen.items()}
    tables = planned(parts, seen, size, bucket)
    for n, more in _passed(spark, tables, slices).items():
        found[n] += more
    events = _events(spark, found, slices)
    out = {}
    for n, shard in parts.items():
        operations = int(seen[n].records[OPERATION])
        of = Screen(reads=seen[n].reads, commits=int(seen[n].records[COMMIT]))
        of.rows = size[n] - int(seen[n].records[:CHANGE].sum())
        suspects = _merged(found[n], {op: e for (part, op), e in events.items() if part == n})
        out[n] = certain(shard.spec, operations, suspects) if suspects else proven(shard.spec, operations, of)
    return out


def planned(
    parts: Mapping[int, Shard], seen: Mapping[int, Seen], size: Mapping[int, int], bucket: int
) -> dict[int, Table]:
    """How the tables are divided that are looked at further."""
    out: dict[int, Table] = {}
    first_range = first_bucket = 0
    for n in sorted(parts):
        if seen[n].strange or any(x.reason == "unknown-commit" for x in seen[n].suspects):
            continue  # as the screen: rows mean nothing without the operations of all commits
        width = max(1, bucket // 4)
        ranges, buckets = max(1, -(-int(seen[n].records[OPERATION]) // width)), max(1, -(-size[n] // bucket))
        out[n] = Table(len(out), parts[n], seen[n].whole, width, first_range, ranges, first_bucket, buckets)
        first_range, first_bucket = first_range + ranges, first_bucket + buckets
    return out


def _suspect(reason: str, ops: I64) -> list[Suspect]:
    """Nothing if there are none."""
    ops = np.unique(ops)
    return [Suspect(reason, len(ops), ops[:MOST])] if len(ops) else []


def _merged(found: Iterable[Suspect], events: Mapping[int, tuple[int, ...]]) -> dict[str, Suspects]:
    """By reason; no operation is in two of one reason."""
    by_reason: dict[str, list[Suspect]] = {}
    for s in found:
        by_reason.setdefault(s.reason, []).append(s)
    return {
        reason: Suspects(
            sum(s.count for s in each),
            tuple((n, events.get(n, ())) for n in sorted(n for s in each for n in s.first.tolist())[:MOST]),
        )
        for reason, each in by_reason.items()
    }


# --- before: what stops the rest --------------------------------------------------------------------------------------


def _scanned(spark: SparkSession, parts: Mapping[int, Shard], slices: Sequence[Slice]) -> dict[int, Seen]:
    mine = [s for s in slices if s.contents != (CHANGE,)]
    kinds = {n: shard.kinds for n, shard in parts.items()}
    return gathered_seen(parts, _over(spark, mine, partial(scan, kinds=kinds)).collect())


def gathered_seen(parts: Iterable[int], found: Iterable[tuple[int, Seen]]) -> dict[int, Seen]:
    """Part → what was seen of all of its records."""
    out = {n: Seen(np.zeros(len(RECORD), np.int64)) for n in parts}
    for part, seen in found:
        whole = out[part]
        whole.records += seen.records
        whole.reads += seen.reads
        whole.whole |= seen.whole
        whole.strange += seen.strange
        whole.suspects += seen.suspects
    return out


def _over(spark: SparkSession, slices: Sequence[Slice], task: Callable[[Slice], Iterable[Any]]) -> Any:
    """What tasks make of slices."""
    return spark.sparkContext.parallelize(list(slices), max(1, len(slices))).flatMap(task)


def scan(of: Slice, kinds: Mapping[int, tuple[str, ...]]) -> Iterator[tuple[int, Seen]]:
    """What kinds and outcomes tell of a slice, by batches."""
    facts = KindFacts.of(kinds[of.part])
    kind_at, outcome_at, form_at = (RECORD[OPERATION].index(x) for x in ("kind", "outcome", "form"))
    for record, columns in read(of, ["n", f"c{kind_at}", f"c{outcome_at}", f"c{form_at}"]):
        out = Seen(np.bincount(record, minlength=len(RECORD)).astype(np.int64))
        n, kind, outcome, form = (c[record == OPERATION] for c in columns)
        known = (kind >= 0) & (kind < len(facts.known))
        known &= facts.known[np.where(known, kind, 0)]
        out.strange = tuple(_suspect("unknown-kind", n[~known]))
        kind = kind[known]
        reads = (outcome[known] == _OK) & (facts.reads | facts.travels)[kind]
        out.reads = int(reads.sum())
        out.whole = bool((reads & (facts.travels[kind] | (form[known] != IDS))).any())
        made_by, at = columns[1][record == COMMIT], columns[0][record == COMMIT]  # ``commit_op`` is c0, as ``kind``
        nobody = _suspect("unknown-commit", -(at[made_by < 0] + 1))
        out.suspects = (*_suspect("unknown-kind", n[known][~facts.told[kind]]), *nobody)
        yield of.part, out


def _events(
    spark: SparkSession, found: Mapping[int, Sequence[Suspect]], slices: Sequence[Slice]
) -> dict[tuple[int, int], tuple[int, ...]]:
    """(Part, operation) → the events of the operations that will be named."""
    named = {n: np.unique(np.concatenate([s.first for s in each])) for n, each in found.items() if each}
    mine = [s for s in slices if s.part in named and OPERATION in s.contents]
    return dict(_over(spark, mine, partial(_look_up, wanted=named)).collect()) if mine else {}


def _look_up(of: Slice, wanted: Mapping[int, I64]) -> Iterator[tuple[tuple[int, int], tuple[int, ...]]]:
    names = [f"c{RECORD[OPERATION].index(x)}" for x in ("invoked", "completed")]
    for record, (n, *events) in read(of, ["n", *names]):
        for row in np.flatnonzero((record == OPERATION) & np.isin(n, wanted[of.part])):
            yield (of.part, int(n[row])), tuple(int(e[row]) for e in events if e[row] != NEVER)


# --- blocks -----------------------------------------------------------------------------------------------------------


def sent(to: I64, what: int, rows: I64) -> Iterator[Sent]:
    """Rows in blocks, each for one partition.

    Args:
        to: partition of each row.
        rows: shape (columns, rows).
    """
    order = np.argsort(to, kind="stable")
    there, first = np.unique(to[order], return_index=True)
    for partition, start, end in zip(there.tolist(), first, np.append(first, len(order))[1:], strict=True):
        for at in range(start, end, PIECE):
            yield partition, (what, rows[:, order[at : min(end, at + PIECE)]])


def _pieces(partition: int, what: int, rows: I64) -> Iterator[Sent]:
    """The same for rows that all go to one partition."""
    for at in range(0, rows.shape[1], PIECE):
        yield partition, (what, np.ascontiguousarray(rows[:, at : at + PIECE]))


def _gathered(blocks: Iterator[Sent], widths: Mapping[int, int]) -> Iterator[Sent | dict[int, I64]]:
    """Blocks that only pass through, as they come, and last all rows of the contents in ``widths``."""
    held: dict[int, list[I64]] = {what: [np.zeros((width, 0), np.int64)] for what, width in widths.items()}
    for partition, (what, rows) in blocks:
        if what in held:
            held[what].append(rows)
        else:
            yield partition, (what, rows)
    yield {what: np.concatenate(held.pop(what), axis=1) for what in widths}


def itself(partition: int) -> int:
    """The partition of a block that names it."""
    return partition


# --- the stages -------------------------------------------------------------------------------------------------------


def _passed(spark: SparkSession, tables: Mapping[int, Table], slices: Sequence[Slice]) -> dict[int, list[Suspect]]:
    """What stages 1 to 4 find of each table."""
    if not tables:
        return {}
    slices = [s for s in slices if s.part in tables]
    ranges, buckets = sum(t.ranges for t in tables.values()), sum(t.buckets for t in tables.values())
    in_order = list(tables.values())
    of_operations = _over(
        spark, [s for s in slices if s.contents != (CHANGE,)], partial(read_operations, tables=tables)
    )
    placed = of_operations.partitionBy(ranges, itself).mapPartitionsWithIndex(partial(place, tables=in_order))
    changes = _over(spark, [s for s in slices if CHANGE in s.contents], partial(read_changes, tables=tables))
    rows = spark.sparkContext.union([placed, changes]).partitionBy(buckets, itself)
    screened = rows.mapPartitionsWithIndex(partial(screen_ids, tables=in_order))
    found = screened.partitionBy(len(in_order), itself).mapPartitionsWithIndex(go_through)
    out: dict[int, list[Suspect]] = {n: [] for n in tables}
    part = {t.number: n for n, t in tables.items()}
    for number, suspect in found.collect():
        out[part[number]].append(suspect)
    return out


def read_operations(of: Slice, tables: Mapping[int, Table]) -> Iterator[Sent]:
    """Stage 1: operations, arguments (number, operation, id) and commits (number, operation), by ranges."""
    t = tables[of.part]
    for record, columns in read(of, ["n", *(f"c{i}" for i in range(len(RECORD[OPERATION])))]):
        for what, by, many in ((OPERATION, 0, len(RECORD[OPERATION])), (ARGUMENT, 1, 2), (COMMIT, 1, 1)):
            mine = np.flatnonzero(record == what)
            if len(mine):
                rows = np.stack([c[mine] for c in columns[: 1 + many]])
                # Numbers of operations that are not there, in a damaged dataset, must not leave the table.
                yield from sent(t.first_range + np.clip(rows[by] // t.width, 0, t.ranges - 1), what, rows)


def read_changes(of: Slice, tables: Mapping[int, Table]) -> Iterator[Sent]:
    """Stage 1, too: changed rows, by buckets."""
    t = tables[of.part]
    for record, columns in read(of, [f"c{i}" for i in range(len(RECORD[CHANGE]))]):
        mine = record == CHANGE
        if mine.any():
            by_name = dict(zip(RECORD[CHANGE], columns, strict=True))
            rows = np.stack([by_name[name][mine] for name in bykey.COLUMNS[bykey.CHANGED]])
            yield from sent(bucket_of(by_name["id"][mine], t), _IN_BUCKET + bykey.CHANGED, rows)


def bucket_of(ids: I64, t: Table) -> I64:
    """The bucket of each id."""
    return t.first_bucket + (mix(ids.view(np.uint64)) % np.uint64(t.buckets)).astype(np.int64)


def place(number: int, blocks: Iterator[Sent], tables: Sequence[Table]) -> Iterator[Sent]:
    """Stage 2: a range of operations."""
    t = next(t for t in reversed(tables) if t.first_range <= number)
    home = t.first_bucket + (number - t.first_range) % t.buckets  # for what passes through a bucket
    widths = {OPERATION: 1 + len(RECORD[OPERATION]), ARGUMENT: 3, COMMIT: 2}
    (held,) = _gathered(blocks, widths)
    assert isinstance(held, dict)
    facts = KindFacts.of(t.shard.kinds)
    operations = held.pop(OPERATION)
    operations = operations[:, np.argsort(operations[0])]
    o = dict(zip(("op", *RECORD[OPERATION]), operations, strict=True))
    o["in_part"] = o.pop("part")
    ok = o["outcome"] == _OK

    def numbered(ops: I64) -> tuple[I64, I64]:
        """Which of them there are, and where."""
        at = np.searchsorted(o["op"], ops)
        there = at < len(o["op"])
        there[there] = o["op"][at[there]] == ops[there]
        return np.flatnonzero(there), at[there]

    position, op = held.pop(COMMIT)
    position += 1
    order = np.lexsort((position, op))
    chosen, made_by = numbered(op[order])
    position = position[order][chosen]
    times = np.bincount(made_by, minlength=len(o["op"]))
    begin = np.cumsum(times) - times

    dml, writes, removes = (each[o["kind"]] for each in (facts.dml, facts.writes, facts.removes))
    for reason, mine in (
        ("lost-commit", dml & ok & (times == 0)),
        ("duplicate-commit", dml & (times > 1)),
        ("false-failure", (o["outcome"] == _FAIL) & (times > 0)),
        ("unknown-commit", ~writes & (times > 0)),
    ):
        for s in _suspect(reason, o["op"][mine]):
            yield home, (SUSPECT, s)
    for rows in _events_of(o, facts, made_by, position):
        yield from _pieces(home, EVENTS, rows)

    o["completed of commit"] = np.where(ok, o["completed"], NEVER)

    def commits(what: int, at: I64, ids: I64, position: I64, *number: I64) -> tuple[int, I64]:
        told = (o[x][at] for x in ("kind", "form", "in_part", "parity", "name", "invoked", "completed of commit"))
        return _IN_BUCKET + what, np.stack([ids, position, *told, *number])

    def everywhere(what: int, rows: I64) -> Iterator[Sent]:
        for k in range(t.first_bucket, t.first_bucket + t.buckets):
            yield from _pieces(k, what, rows)

    taking = np.flatnonzero(removes[made_by] & np.isin(o["form"][made_by], (WHERE, PART, WHOLE)))
    if len(taking):
        mine = made_by[taking]
        yield from everywhere(*commits(bykey.TAKEN, mine, np.zeros(len(mine), np.int64), position[taking]))

    number_of, op, ids = held.pop(ARGUMENT)
    chosen, at = numbered(op)
    number_of, ids = number_of[chosen], ids[chosen]
    read = np.flatnonzero((ok & (facts.reads & ~facts.travels)[o["kind"]] & (o["form"] == IDS))[at])
    rows = np.stack([ids[read], *(o[x][at[read]] for x in ("op", "invoked", "completed", "seen"))])
    yield from sent(bucket_of(ids[read], t), _IN_BUCKET + bykey.READ, rows)

    def of_each(arguments: I64) -> tuple[I64, I64]:
        """The arguments of each commit of their operations, and its position."""
        many = times[at[arguments]]
        within = np.arange(many.sum()) - np.repeat(np.cumsum(many) - many, many)
        again = np.repeat(arguments, many)
        return again, position[begin[at[again]] + within]

    some, where = of_each(np.flatnonzero(o["form"][at] != COPY))
    told = commits(bykey.NAMED, at[some], ids[some], where, number_of[some])
    yield from sent(bucket_of(ids[some], t), *told)
    copies = np.flatnonzero(o["form"][at] == COPY)
    copies = copies[np.lexsort((number_of[copies], at[copies]))]
    second = np.flatnonzero(at[copies][1:] == at[copies][:-1]) + 1
    source, target = copies[second - 1], copies[second]
    _, first = np.unique(at[source], return_index=True)  # an operation copies the first of its ids to the second
    again, where = of_each(source[first])
    target_of = np.zeros(len(ids), np.int64)
    target_of[source[first]] = ids[target[first]]
    told = commits(bykey.NAMED, at[again], ids[again], where, target_of[again])
    yield from sent(bucket_of(ids[again], t), *told)
    several, where = of_each(np.flatnonzero(removes[at] & (o["form"][at] == PARTS)))
    if len(several):
        of_id = part_of(ids[several], t.shard.spec.partitions)
        mine, where, of_id = np.unique(np.stack([at[several], where, of_id]), axis=1)
        yield from everywhere(*commits(bykey.TAKEN, mine, of_id, where))


def _events_of(o: Mapping[str, I64], facts: KindFacts, made_by: I64, position: I64) -> Iterator[I64]:
    """What the last stage needs of commits, reads of the whole table and time travels."""
    kind = o["kind"]
    ok = o["outcome"] == _OK
    answered = np.where(ok, o["completed"], NEVER)[made_by]
    flags = (facts.dml * inorder.DML + facts.told * inorder.TOLD)[kind[made_by]]
    of_commit = {"position": position, "op": o["op"][made_by], "a": answered, "b": flags}
    yield inorder.rows(inorder.COMMIT, o["invoked"][made_by], **of_commit)
    travels = ok & facts.travels[kind]
    proofs = proving(o["at"], ok, facts.travels[kind])
    yield inorder.rows(inorder.PROOF, o["invoked"][proofs], position=o["at"][proofs], a=o["completed"][proofs])
    known = o["since"] >= 0
    whole = ok & facts.reads[kind] & ~facts.travels[kind] & (o["form"] != IDS)

    def of(reads: I64) -> dict[str, I64]:
        return {"op": o["op"][reads], "a": o["completed"][reads]}

    mine = np.flatnonzero(travels & known)
    yield inorder.rows(inorder.RANGE, o["invoked"][mine], b=o["since"][mine], c=o["until"][mine] + 1, **of(mine))
    mine = np.flatnonzero(travels)
    before = np.full(len(mine), -1, np.int64)
    yield inorder.rows(inorder.TRAVEL, before, position=o["at"][mine], b=o["seen"][mine], **of(mine))
    mine = np.flatnonzero(whole | (travels & ~known))
    yield inorder.rows(inorder.WHOLE, o["invoked"][mine], b=o["seen"][mine], **of(mine))


def screen_ids(number: int, blocks: Iterator[Sent], tables: Sequence[Table]) -> Iterator[Sent]:
    """Stage 3: a bucket of ids."""
    t = next(t for t in reversed(tables) if t.first_bucket <= number)
    widths = {_IN_BUCKET + what: len(names) for what, names in bykey.COLUMNS.items()}
    for item in _gathered(blocks, widths):
        if not isinstance(item, dict):
            yield t.number, item[1]
            continue
        rows = {what: item.pop(_IN_BUCKET + what) for what in bykey.COLUMNS}
        if any(r.shape[1] for r in rows.values()):
            for found in bykey.screen_bucket(rows, t.shard.spec, t.shard.kinds, whole=t.whole):
                yield from _pieces(t.number, EVENTS, found)


def go_through(number: int, blocks: Iterator[Sent]) -> Iterator[tuple[int, Suspect]]:
    """Stage 4: a table."""
    # Spark's own folders for such files; it removes them, too, if this process is killed.
    places = os.environ.get("SPARK_LOCAL_DIRS", tempfile.gettempdir()).split(",")
    with tempfile.TemporaryDirectory(prefix="events-", dir=places[number % len(places)]) as folder:
        events = Sorting(Path(folder), len(inorder.COLUMNS))
        for _, (what, rows) in blocks:
            if what == EVENTS:
                events.add(rows)
            else:
                yield number, rows
        passing = inorder.InOrder()
        for rows in events.merged():
            passing.feed(rows)
        found: dict[str, list[I64]] = {}
        for reason, ops in passing.end():
            found.setdefault(reason, []).append(ops)
        for reason, each in found.items():
            for suspect in _suspect(reason, np.concatenate(each)):
                yield number, suspect
