"""Proves that ``commits``, ``replay``, ``reads`` and ``isolation`` find no anomaly in a table, or lists what it cannot prove.

It shows four things of an ordinary table (see ``frames``), all by sorting and summing whole columns:

1. *Commits.* Every acknowledged statement is on main once, one of unknown outcome at most once, and no failed operation or read is;
   an operation that was acknowledged before another was invoked comes first.
2. *Rows.* Every commit's net rows are what its operation means at its parent's state. What it removes must be all rows of the ids or the
   predicate that it names, so counts and hashes of the sets are compared: those of a set before a commit are sums over the earlier changes.
   What it adds must be what its meaning makes of those rows, which is computed row by row from what it removed.
3. *Reads.* Every read equals the state at a position not below any write or read that had ended before it began, nor below what an expiry
   that had ended proves, and not above the newest commit whose makers had all been invoked when it ended. Positions are the least that
   satisfy this (as those of the checker ``reads``).
   A time travel returned the rows of its snapshot, and has a position within these bounds at which the history answered so.
4. *Isolation* then follows. Put every read after the commit of its position, reads of the same position by their invocation. That is one
   order of all operations; by 2 and 3 every operation sees exactly what the earlier ones left; by 1 and 3 it agrees with real time, so with the
   order of each process. So the table was strictly serializable, and its dependency graph has no cycle that any level forbids
   ([Adya 1999], [Herlihy Wing 1990]); operations of unknown outcome that are not on main took no effect.

What cannot be proven is a *suspect*: an operation, by the reason. It may be legal (under snapshot isolation a commit may have scanned an
older state); the exact checkers decide that. ``definite`` are the reasons that they would call an anomaly in any case.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from checkers.columns.facts import Bools, KindFacts
from checkers.columns.frames import IDS, TableFrame
from checkers.columns.hashing import I64, NEVER_CAME
from checkers.columns.rowdifferences import RowHashes, differences

LOOKED_AT = 64
"""Number of states that a read's rows are compared with, from its lowest position on."""
MOST_RAISES = 32
"""How often positions of reads are raised above those of earlier reads."""

_OK, _FAIL, _INFO = 0, 1, 2


@dataclass
class Screen:
    """The result: what could not be proven.

    Attributes:
        suspects: reason → numbers of operations (for commits without an operation: their negative positions).
        reads: number of compared reads.
        commits: number of replayed commits.
        rows: number of changed rows.
    """

    suspects: dict[str, I64] = field(default_factory=dict)
    reads: int = 0
    commits: int = 0
    rows: int = 0

    @property
    def proven(self) -> bool:
        """Whether there is no suspect."""
        return not self.suspects

    def suspect(self, reason: str, operations: I64) -> None:
        """Note operations, if there are any."""
        if len(operations):
            before = self.suspects.get(reason)
            both = operations if before is None else np.concatenate([before, operations])
            self.suspects[reason] = np.unique(both)


ANOMALY_AT_EVERY_LEVEL = {
    "duplicate-commit": "commits",
    "false-failure": "commits",
    "unknown-commit": "commits",
    "commit-order": "commits",
    "maintenance-changed-rows": "replay",
    "no-state-read": "reads",
    "wrong-time-travel": "reads",
}
"""Reason → the checker that calls it an anomaly at every level. ``wrong-rows`` is one on a serializable table (``replay``)."""


def screen(f: TableFrame) -> Screen:
    """Prove what can be proven of a table.

    Time and memory: sorts of the changed rows; O(n log n), in practice close to linear.
    """
    out = Screen(commits=len(f.commit_op), rows=len(f.position))
    facts = KindFacts.of(f.kinds)
    known = (f.kind >= 0) & (f.kind < len(f.kinds))
    strange = ~known | ~facts.known[np.where(known, f.kind, 0)]
    if strange.any():
        out.suspect("unknown-kind", np.flatnonzero(strange))
        return out
    out.suspect("unknown-kind", np.flatnonzero(~facts.by_facts[f.kind]))
    if _commits(f, facts, out):
        states = RowHashes(f)
        _rows(f, facts, states, out)
        _reads(f, facts, states, out)
    return out


def _commits(f: TableFrame, facts: KindFacts, out: Screen) -> bool:
    """Check the commits; True if every commit has an operation, so that its rows can be checked."""
    nobody = np.flatnonzero(f.commit_op < 0)
    out.suspect("unknown-commit", -(nobody + 1))
    if len(nobody):
        return False
    times = np.bincount(f.commit_op, minlength=f.operations)
    dml = facts.dml[f.kind]
    out.suspect("lost-commit", np.flatnonzero(dml & (f.outcome == _OK) & (times == 0)))
    out.suspect("duplicate-commit", np.flatnonzero(dml & (times > 1)))
    out.suspect("false-failure", np.flatnonzero((f.outcome == _FAIL) & (times > 0)))
    out.suspect("unknown-commit", np.flatnonzero(~facts.writes[f.kind] & (times > 0)))
    invoked = f.invoked[f.commit_op]
    answered = np.where(f.outcome[f.commit_op] == _OK, f.completed[f.commit_op], NEVER_CAME)
    if len(answered) > 1:
        later = np.minimum.accumulate(answered[:0:-1])[::-1]  # the earliest answer to any commit behind
        out.suspect("commit-order", f.commit_op[:-1][later < invoked[:-1]])
    return True


# --- rows -------------------------------------------------------------------------------------------------------------


def _rows(f: TableFrame, facts: KindFacts, states: RowHashes, out: Screen) -> None:
    if not len(f.commit_op):
        return
    kind = f.kind[f.commit_op]
    found = differences(f, facts, states)
    doubtful = found.doubtful | ~facts.by_facts[kind]
    maintenance = ~facts.dml[kind]
    changed = maintenance & ((found.removed > 0) | (found.added > 0))
    out.suspect("maintenance-changed-rows", f.commit_op[changed])
    out.suspect("not-replayed", f.commit_op[doubtful & ~maintenance])
    out.suspect("wrong-rows", f.commit_op[~found.right & ~maintenance & ~doubtful])


# --- reads ------------------------------------------------------------------------------------------------------------


def _reads(f: TableFrame, facts: KindFacts, states: RowHashes, out: Screen) -> None:
    ok = f.outcome == _OK
    travels = np.flatnonzero(ok & facts.travels[f.kind])
    if len(travels):
        versions = f.past_position[travels]
        makers = f.commit_op[np.maximum(versions, 1) - 1]
        wrong = (
            (versions < 1) | (states.whole[versions] != f.seen[travels]) | (f.invoked[makers] > f.completed[travels])
        )
        out.suspect("wrong-time-travel", travels[wrong])
    reads = np.flatnonzero(ok & (facts.reads | facts.travels)[f.kind])
    out.reads = len(reads)
    if not len(reads):
        return
    reads = reads[np.argsort(f.completed[reads])]
    invoked, completed = f.invoked[reads], f.completed[reads]
    answered = np.where(f.outcome[f.commit_op] == _OK, f.completed[f.commit_op], NEVER_CAME)
    floor = _newest_before(answered, np.arange(1, len(f.commit_op) + 1), invoked)
    proofs = proving(f.past_position, ok, facts.travels[f.kind])
    floor = np.maximum(floor, _newest_before(f.completed[proofs], f.past_position[proofs], invoked))
    reached = np.concatenate([np.full(1, -1, np.int64), np.maximum.accumulate(f.invoked[f.commit_op])])
    ceiling = np.searchsorted(reached, completed, "left") - 1
    find = _Finder(f, states, reads)
    found = find.least(np.arange(len(reads)), floor, ceiling)
    for _ in range(MOST_RAISES):
        # Positions only grow, and each is the least above those of the reads before: the checker's own, or too low still.
        least = np.maximum(floor, _newest_before(completed, np.where(found <= ceiling, found, 0), invoked))
        low = np.flatnonzero((found < least) & (found <= ceiling))
        if not len(low):
            break
        found[low] = find.least(low, least[low], ceiling[low])
    else:
        out.suspect("undecided-read", reads[low])
    out.suspect("undecided-read", reads[find.given_up])
    nowhere = found > ceiling
    nowhere[find.given_up] = False
    # The position of a time travel need not be the least possible (``frames``), so nothing is certain beside one.
    out.suspect("undecided-read" if len(travels) else "no-state-read", reads[nowhere])


def proving(versions: I64, ok: Bools, travels: Bools) -> I64:
    """The operations whose acknowledgement proves a position of main: expiries beside time travels (``TableFrame.past_position``)."""
    return np.flatnonzero(ok & ~travels & (versions > 0))


def _newest_before(when: I64, position: I64, events: I64) -> I64:
    """The greatest position reached before each event; 0 if none was."""
    order = np.argsort(when)
    best = np.concatenate([np.zeros(1, np.int64), np.maximum.accumulate(position[order])])
    return best[np.searchsorted(when[order], events, "left")]


class _Finder:
    """Looks for the state that a read returned."""

    def __init__(self, f: TableFrame, states: RowHashes, reads: I64) -> None:
        self.states = states
        self.wanted = f.seen[reads]
        self.since, self.until = f.since[reads], f.until[reads]
        self.by_key = f.form[reads] == IDS
        sets = states.by_id
        first = np.minimum(np.searchsorted(f.arg_op, reads), max(len(f.arg_op) - 1, 0))
        key = f.arg_id[first] if len(f.arg_id) else np.zeros(len(reads), np.int64)
        self.code, self.known = sets.of(key)
        self.given_up = np.zeros(0, np.int64)

    def least(self, which: I64, low: I64, high: I64) -> I64:
        """For some reads the least position from ``low`` to ``high`` at which the table, or the id, had the rows; above ``high``: none."""
        out = high + 1
        sets = self.states.by_id
        first = np.maximum(low, self.since[which])
        answered = (self.since[which] >= 0) & (first <= np.minimum(high, self.until[which]))
        out[answered] = first[answered]
        unsolved = np.flatnonzero((self.since[which] < 0) & (low <= high))
        position = low[unsolved]
        for _ in range(LOOKED_AT):
            wanted = which[unsolved]
            state = self.states.whole[position]
            following = position + 1
            keyed = np.flatnonzero(self.by_key[wanted])
            if len(keyed):
                code, known = self.code[wanted[keyed]], self.known[wanted[keyed]]
                n = sets.upto(code, position[keyed], including=True)
                first, end = (sets.start[code], sets.start[code + 1]) if len(sets.names) else (code, code)
                state[keyed] = np.where(known, sets.sum[n] - sets.sum[first], np.uint64(0))
                present = known & (n < end)
                following[keyed] = NEVER_CAME
                following[keyed[present]] = sets.position[n[present]]
            hit = state == self.wanted[wanted]
            out[unsolved[hit]] = position[hit]
            going = ~hit & (following <= high[unsolved])
            unsolved, position = unsolved[going], following[going]
            if not len(unsolved):
                return out
        self.given_up = np.union1d(self.given_up, which[unsolved])
        return out
