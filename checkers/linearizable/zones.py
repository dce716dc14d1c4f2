"""Registers whose writes are all different: sorted zones instead of a search (Gibbons and Korach, "Testing Shared Memories", 1997).

A read shows which write it saw, so a write and its reads are a *cluster*: they take effect one after the other, with nothing between.
Only two moments of a cluster matter: the first end of any of its calls, and the last start::

    w(1) ├──────┤                      first end (of w) < last start (of r): in between the value *is* 1: a
                    r=1 ├─────┤        forward zone
           └────────┘
    w(2) ├─────────────┤               last start < first end: all of its calls have a moment in common:
             r=2 ├────────┤            a backward zone, of which one moment is enough
                 └─────┘

There is an order if and only if no read ends before its write begins, no two forward zones overlap, and no backward zone lies within a
forward one. Unknown outcomes fit in: a write that nobody read need not have happened; one that was read took effect before the first
end of its reads, which is the first end of its cluster anyway. The initial value counts as a write before everything.

All keys are judged at once, in O(n log n): their zones lie one after the other on one line.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from checkers.linearizable.calls import NEVER, Call

Ints = np.ndarray[tuple[int], np.dtype[np.int64]]


@dataclass(frozen=True, slots=True)
class Zoned:
    """Keys with an order, keys with none, and keys that zones cannot decide (a value is written twice, or equals the initial one)."""

    good: tuple[Hashable, ...]
    bad: tuple[Hashable, ...]
    unfit: tuple[Hashable, ...]


def judge(keys: Mapping[Hashable, Sequence[Call]], initial: Hashable) -> Zoned:
    """Judges registers of reads and writes."""
    unfit: list[Hashable] = []
    bad: list[Hashable] = []
    fit: list[Hashable] = []
    first_end: list[int] = []
    last_start: list[int] = []
    owner: list[int] = []
    for key, calls in keys.items():
        written: dict[Hashable, list[int]] = {initial: [-2, -1, -2]}
        unique = True
        for c in calls:
            if not c.reads:
                if c.value in written:
                    unique = False
                    break
                written[c.value] = [c.start, c.end, c.start]
        if not unique:
            unfit.append(key)
            continue
        sound = True
        for c in calls:
            if c.reads:
                cluster = written.get(c.result)
                if cluster is None or c.end < cluster[0]:
                    sound = False
                    break
                if c.end < cluster[1]:
                    cluster[1] = c.end
                if c.start > cluster[2]:
                    cluster[2] = c.start
        if not sound:
            bad.append(key)
            continue
        n = len(fit)
        fit.append(key)
        for _, end, start in written.values():
            if end != NEVER:
                first_end.append(end)
                last_start.append(start)
                owner.append(n)
    found = _overlap(
        np.array(first_end, dtype=np.int64), np.array(last_start, dtype=np.int64), np.array(owner, dtype=np.int64)
    )
    broken = set(found.tolist())
    bad += [key for n, key in enumerate(fit) if n in broken]
    return Zoned(tuple(key for n, key in enumerate(fit) if n not in broken), tuple(bad), tuple(unfit))


def _overlap(first_end: Ints, last_start: Ints, owner: Ints) -> Ints:
    """The keys whose zones contradict each other."""
    if not len(owner):
        return owner
    line = owner * (int(max(first_end.max(), last_start.max())) + 4)
    low, high = np.minimum(first_end, last_start) + line, np.maximum(first_end, last_start) + line
    forward = first_end < last_start
    order = np.argsort(low[forward])
    f_low, f_high, f_owner = low[forward][order], high[forward][order], owner[forward][order]
    bad = [f_owner[1:][f_high[:-1] > f_low[1:]]]
    if len(f_low):
        b_low, b_high, b_owner = low[~forward], high[~forward], owner[~forward]
        under = np.searchsorted(f_low, b_low) - 1
        bad.append(b_owner[(under >= 0) & (f_high[np.maximum(under, 0)] > b_high)])
    return np.unique(np.concatenate(bad))


@dataclass(frozen=True, slots=True)
class ZoneCluster:
    """A write (None for the initial value) and its reads. ``first``: its call that ends first; ``last``: the one that starts last."""

    value: Hashable
    write: Call | None
    reads: tuple[Call, ...]

    @property
    def first(self) -> Call | None:
        """The call that ends first; None for the initial value."""
        return None if self.write is None else min((self.write, *self.reads), key=lambda c: c.end)

    @property
    def last(self) -> Call | None:
        """The call that starts last."""
        return max((c for c in (self.write, *self.reads) if c is not None), key=lambda c: c.start, default=None)

    @property
    def low(self) -> int:
        """Where the zone begins."""
        return min(self._ends())

    @property
    def high(self) -> int:
        """Where it ends."""
        return max(self._ends())

    @property
    def forward(self) -> bool:
        """Whether the register had this value from ``low`` to ``high``."""
        end, start = self._ends()
        return end < start

    def _ends(self) -> tuple[int, int]:
        first, last = self.first, self.last
        return -1 if first is None else first.end, -2 if last is None else last.start


def clusters(calls: Sequence[Call], initial: Hashable) -> list[ZoneCluster]:
    """The clusters of one key whose reads all have a write, without writes of unknown outcome that nobody read."""
    reads: dict[Hashable, list[Call]] = {initial: []}
    for c in calls:
        if c.reads:
            reads.setdefault(c.result, []).append(c)
    out = [ZoneCluster(initial, None, tuple(reads[initial]))]
    out += [
        ZoneCluster(c.value, c, tuple(reads.get(c.value, ())))
        for c in calls
        if not c.reads and (c.ok or c.value in reads)
    ]
    return out


def contradiction(calls: Sequence[Call], initial: Hashable) -> tuple[ZoneCluster, ZoneCluster] | None:
    """Two clusters whose zones contradict each other, the forward one first; None when a single read is wrong, or nothing is."""
    found = clusters(calls, initial)
    held = sorted((c for c in found if c.forward), key=lambda c: c.low)
    for a, b in pairwise(held):
        if a.high > b.low:
            return a, b
    lows = [c.low for c in held]
    for b in found:
        if not b.forward:
            index = int(np.searchsorted(lows, b.low)) - 1
            if index >= 0 and held[index].high > b.high:
                return held[index], b
    return None
