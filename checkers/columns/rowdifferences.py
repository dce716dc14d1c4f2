"""How the rows that commits changed differ from what their operations mean."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from checkers.columns.facts import Bools, KindFacts
from checkers.columns.frames import COPY, IDS, PART, PARTS, WHERE, WHOLE, TableFrame
from checkers.columns.hashing import I64, U64, appended, hash_rows
from workloads.operations.keys import OWN_KEYS

GONE_THROUGH = 16
"""For copies of ids with several rows: changed rows that are gone through, for each changed row of the table."""


class Sets:
    """For sets of rows (those of an id, of a partition, …): count and hash before and after every position that changed them."""

    def __init__(self, member: I64, f: TableFrame, hashes: U64) -> None:
        self.stride = len(f.commit_op) + 2
        self.dense: I64 | None = None
        """Name less the least → number of the set of that name or another; None when names are too far apart."""
        code = self._numbered(member)
        key = code * self.stride + f.position
        order = np.argsort(key)
        self.key = key[order]
        self.order = order
        code = code[order]
        start = np.searchsorted(code, np.arange(len(self.names)))
        self.start = np.concatenate([start, [len(code)]])
        self.position = f.position[order]
        self.sum = _running(hashes[order])
        self.count = _running(f.sign[order])

    def _numbered(self, member: I64) -> I64:
        """Number the sets by name; return the number of each row's set."""
        low, high = (int(member.min()), int(member.max())) if len(member) else (0, -1)
        if not 0 <= high - low < 8 * len(member) + 1024:
            self.names, code = np.unique(member, return_inverse=True)
            return code
        present = np.zeros(high - low + 1, np.bool_)
        present[member - low] = True
        self.names = np.flatnonzero(present) + low
        self.dense = np.cumsum(present) - 1
        self.dense[self.dense < 0] = 0
        return self.dense[member - low]

    def of(self, name: I64) -> tuple[I64, Bools]:
        """The numbers of sets, and whether they exist."""
        if not len(self.names):
            return np.zeros(len(name), np.int64), np.zeros(len(name), np.bool_)
        if self.dense is not None:
            least = self.names[0]
            within = (name >= least) & (name <= self.names[-1])
            index = self.dense[np.where(within, name - least, 0)]
        else:
            index = np.minimum(np.searchsorted(self.names, name), len(self.names) - 1)
        return index, self.names[index] == name

    def upto(self, code: I64, position: I64, *, including: bool) -> I64:
        """How many changes there are of these sets and of those before them, up to a position."""
        wanted = code * self.stride + position
        order = np.argsort(wanted)  # searching in sorted order is many times faster
        found = np.empty(len(wanted), np.int64)
        found[order] = np.searchsorted(self.key, wanted[order], "right" if including else "left")
        return found

    def before(self, name: I64, position: I64) -> tuple[I64, U64]:
        """Count and hash of each set before each position."""
        code, known = self.of(name)
        places = self.upto(code, position, including=False)
        first = self.start[code] if len(self.names) else code
        return np.where(known, self.count[places] - self.count[first], 0), np.where(
            known, self.sum[places] - self.sum[first], np.uint64(0)
        )


def _running(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Sums of the first 0, 1, 2, … values, modulo 2^64."""
    out = np.zeros(len(values) + 1, values.dtype)
    np.cumsum(values, out=out[1:], dtype=values.dtype)
    return out


class RowHashes:
    """Hashes of rows, and of the table and its ids over positions."""

    def __init__(self, f: TableFrame) -> None:
        self.hash = hash_rows(f.id, f.val, f.cnt, f.log, f.row_part)
        self.signed = np.where(f.sign > 0, self.hash, np.uint64(0) - self.hash)
        self.bounds = np.searchsorted(f.position, np.arange(len(f.commit_op) + 1), "right")
        self.whole = _running(self.signed)[self.bounds]
        self.by_id = Sets(f.id, f, self.signed)

    def per_commit(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """The sum of a column of the changed rows for each commit."""
        return np.diff(_running(values)[self.bounds])


@dataclass
class Differences:
    """Per commit: how the net rows differ from what its operation means. All are sums over rows.

    Attributes:
        removed, added: rows that it removed and added.
        counts: (rows removed - rows to remove, rows added - rows to add).
        hashes: the same of the rows' hashes, modulo 2^64.
        doubtful: the sums do not tell whether they are right.
    """

    removed: I64
    added: I64
    counts: tuple[I64, I64]
    hashes: tuple[U64, U64]
    doubtful: Bools

    @property
    def right(self) -> Bools:
        """Whether there is no difference."""
        counts, hashes = self.counts, self.hashes
        found: Bools = (counts[0] == 0) & (hashes[0] == 0) & (counts[1] == 0) & (hashes[1] == 0)
        return found


def differences(f: TableFrame, facts: KindFacts, states: RowHashes) -> Differences:
    """Compare the rows that commits changed with what their operations mean."""
    commits = len(f.commit_op)
    kind, form = f.kind[f.commit_op], f.form[f.commit_op]
    name = f.name[f.commit_op]
    zero = np.uint64(0)
    removed = f.sign < 0
    removed_count = states.per_commit(removed.astype(np.int64))
    removed_hash = states.per_commit(np.where(removed, states.hash, zero))
    added_count = states.per_commit((~removed).astype(np.int64))
    added_hash = states.per_commit(np.where(removed, zero, states.hash))

    # What it must remove: the rows of the ids that it names, or of its predicate.
    gone_count = np.zeros(commits, np.int64)
    gone_hash = np.zeros(commits, np.uint64)
    made_count = np.zeros(commits, np.int64)
    made_hash = np.zeros(commits, np.uint64)
    doubtful = np.zeros(commits, np.bool_)
    numbers, ids = _named(f)
    there_count, there_hash = states.by_id.before(ids, numbers + 1)
    takes = facts.removes[kind[numbers]] & (form[numbers] == IDS)
    np.add.at(gone_count, numbers[takes], there_count[takes])
    np.add.at(gone_hash, numbers[takes], there_hash[takes])
    for chosen, member, wanted in _predicates(f, facts.removes[kind], numbers, ids):
        count, hashed = Sets(member, f, states.signed).before(wanted, chosen + 1)
        np.add.at(gone_count, chosen, count)
        np.add.at(gone_hash, chosen, hashed)

    # What it must add: what it makes of the rows that it removed, and new rows.
    changes = np.flatnonzero(removed & facts.updates[kind[f.position - 1]])
    maker = f.position[changes] - 1
    how, names = kind[maker], name[maker]
    made = hash_rows(
        f.id[changes],
        np.where(facts.sets_val[how], names, f.val[changes]),
        f.cnt[changes] + facts.counts[how],
        np.where(facts.appends[how], appended(f.log[changes], names), f.log[changes]),
        f.row_part[changes],
    )
    np.add.at(made_count, maker, 1)
    np.add.at(made_hash, maker, made)
    inserts = facts.inserts[kind[numbers]] & ~(facts.if_absent[kind[numbers]] & (there_count > 0))
    new_at, new_id = numbers[inserts], ids[inserts]
    new_name = name[new_at]
    none = np.zeros(len(new_at), np.int64)
    new = hash_rows(
        new_id, new_name, none, appended(none.view(np.uint64), new_name), part_of(new_id, f.spec.partitions)
    )
    np.add.at(made_count, new_at, 1)
    np.add.at(made_hash, new_at, new)
    _copies(f, states, name, (made_count, made_hash), doubtful)
    doubtful[_twice(numbers, ids)] = True
    counts = removed_count - gone_count, added_count - made_count
    hashes = removed_hash - gone_hash, added_hash - made_hash
    return Differences(removed_count, added_count, counts, hashes, doubtful)


def _named(f: TableFrame) -> tuple[I64, I64]:
    """Commits by ids: for each id that its operation names, the commit's number (position - 1) and the id; without copies."""
    first = np.searchsorted(f.arg_op, f.commit_op)
    count = np.where(f.form[f.commit_op] == COPY, 0, np.searchsorted(f.arg_op, f.commit_op, "right") - first)
    commits = np.repeat(np.arange(len(f.commit_op)), count)
    within = np.arange(len(commits)) - np.repeat(np.cumsum(count) - count, count)
    return commits, f.arg_id[np.repeat(first, count) + within]


def _twice(commits: I64, ids: I64) -> I64:
    """Commits whose operation names an id more than once."""
    several = np.zeros(len(commits), np.bool_)
    same = commits[1:] == commits[:-1]  # they are sorted by commit
    several[1:] |= same
    several[:-1] |= same
    commits, ids = commits[several], ids[several]
    order = np.lexsort((ids, commits))
    a, i = commits[order], ids[order]
    repeated: Bools = (a[1:] == a[:-1]) & (i[1:] == i[:-1])
    return a[1:][repeated]


def _predicates(f: TableFrame, removes: Bools, commits: I64, ids: I64) -> list[tuple[I64, I64, I64]]:
    """For commits that remove rows by a predicate: their numbers, which set each changed row belongs to, and which set each commit selects.

    A commit occurs once for each set that it selects. ``removes``: one per commit. ``commits`` and ``ids``: as :func:`_named` returns.
    """
    out = []
    form = np.where(removes, f.form[f.commit_op], IDS)
    where = np.flatnonzero(form == WHERE)
    if len(where):
        ops = f.commit_op[where]
        out.append((where, f.row_part * 2 + f.cnt % 2, f.part[ops] * 2 + f.parity[ops]))
    everything = np.flatnonzero(form == WHOLE)
    if len(everything):
        nothing = np.zeros(len(f.row_part), np.int64)
        out.append((everything, nothing, np.zeros(len(everything), np.int64)))
    whole = np.flatnonzero(form == PART)
    if len(whole):
        out.append((whole, f.row_part, f.part[f.commit_op[whole]]))
    several = np.flatnonzero(form[commits] == PARTS)
    if len(several):
        taken = np.unique(np.stack([commits[several], part_of(ids[several], f.spec.partitions)]), axis=1)
        out.append((taken[0], f.row_part, taken[1]))
    return out


def part_of(id: I64, partitions: int) -> I64:
    """As ``workloads.operations.keys.part_of``."""
    return np.where(id >= 0, id % partitions, -1 - (-id - 1) // OWN_KEYS)


def _copies(f: TableFrame, states: RowHashes, name: U64, made: tuple[I64, U64], doubtful: Bools) -> None:
    """INSERT … SELECT of an id.

    If the id has one row, sums of the columns identify it. If it has several, the sum of what the copy makes of every row that ever came to
    the id, less that of every row that went, is what it makes of those that are there; doubtful if there are too many to go through.
    """
    copies = np.flatnonzero(f.form[f.commit_op] == COPY)
    if not len(copies):
        return
    first = np.searchsorted(f.arg_op, f.commit_op[copies])
    source, target = f.arg_id[first], f.arg_id[first + 1]
    sets = states.by_id
    code, known = sets.of(source)
    places, start = sets.upto(code, copies + 1, including=False), sets.start[code] if len(sets.names) else code
    count = np.where(known, sets.count[places] - sets.count[start], 0)
    single = count == 1
    several = np.flatnonzero(count > 1)
    changes = np.where(count > 1, places - start, 0)
    if int(changes.sum()) > GONE_THROUGH * (len(f.position) + 1):
        doubtful[copies[several]] = True
        several = several[:0]
    if len(several):
        size = changes[several]
        copy = np.repeat(several, size)
        row = sets.order[
            np.arange(len(copy)) - np.repeat(np.cumsum(size) - size, size) + np.repeat(start[several], size)
        ]
        names, to = name[copies[copy]], target[copy]
        made_of = hash_rows(to, names, f.cnt[row], appended(f.log[row], names), part_of(to, f.spec.partitions))
        np.add.at(made[1], copies[copy], np.where(f.sign[row] > 0, made_of, np.uint64(0) - made_of))
        made[0][copies[several]] += count[several]
    way = f.sign[sets.order]

    def only(column: npt.NDArray[Any]) -> npt.NDArray[Any]:
        values = column[sets.order]
        running = _running(np.where(way > 0, values, np.zeros(1, values.dtype) - values))
        out: npt.NDArray[Any] = running[places[single]] - running[start[single]]
        return out

    copied = copies[single]
    names, to = name[copied], target[single]
    made[0][copied] += 1
    made[1][copied] += hash_rows(to, names, only(f.cnt), appended(only(f.log), names), part_of(to, f.spec.partitions))
