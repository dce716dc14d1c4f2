"""Transactions over append lists: a read of a list shows the order of all its versions, so dependencies follow without guessing.

A list's versions are its lengths: version p of key x is the list of its first p elements, and the p-th element names the transaction
that wrote it ([Elle 2020], *recoverable* and *traceable*). Reads of one key must be prefixes of one another; the longest is the order::

    x:  version   0 ──► 1 ──► 2 ──► 3 ┄┄┄► ?          T1 appended 1, T2 appended 2, T3 appended 3; T4 appended 4, which nobody read
        element       1     2     3     4
    a read of [1, 2]:   T2 ─wr─► reader ─rw─► T3       and, as nobody read 4, T4 comes after every reader and T3

Failed transactions have no node; a read from one is a G1a. A crashed one is a node that never ended: its append counts if it was
read. Successive elements of one transaction are one version in Adya's sense: the others are intermediate (G1b).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from checkers.isolation.graph import RW, THROUGH, WR, WW, GraphBuilder
from checkers.isolation.observed import Access, Observed, brief, quote
from checkers.isolation.transactions import Finding, Findings, Transaction


@dataclass(slots=True, eq=False)
class _Key:
    """What is known of one key."""

    name: Hashable
    writers: dict[Any, int] = field(default_factory=dict)
    intermediate: set[Any] = field(default_factory=set)
    lists: list[list[Any]] = field(default_factory=list)
    """Each transaction's first read of the key, before its own operations on it."""
    readers: list[int] = field(default_factory=list)
    again: list[tuple[list[Any], int]] = field(default_factory=list)
    """Reads after the transaction had read or written the key itself, with the reader; in ``lists`` too, once they are ordered."""
    external: int = 0
    """How many of ``lists`` are external reads."""
    usable: list[bool] | None = None
    """Which of ``lists`` are versions in the order; None: all."""
    order: list[Any] = field(default_factory=list)
    makers: list[int] = field(default_factory=list)
    following: list[int] = field(default_factory=list)
    """Version → the next one by another transaction that did not fail; 0 for none."""
    tail: list[int] = field(default_factory=list)
    """Transactions whose append was never read."""
    first: int = 0
    """The number of its version 0 among all keys' versions."""
    ambiguous: bool = False


def tail(g: GraphBuilder, readers: Iterable[int], writer: int | None, unread: Sequence[int], at: int) -> None:
    """The edges to appends of one key that nobody read.

    Args:
        g: gets them.
        readers: who read the last version that is known.
        writer: who made it; None for the initial one.
        unread: who made those appends.
        at: that version.
    """
    before = {(n, RW) for n in readers}
    if writer is not None:
        before.add((writer, WW))
    if not before:
        return
    there = set(unread)
    own = [(n, kind) for n, kind in before if n in there]
    others = sorted(before.difference(own))
    for n, kind in sorted(own)[:32]:  # more than one is a lost update, which another rule reports
        for w in unread:
            g.edge(n, w, kind, at)
    if len(others) * len(unread) <= len(others) + len(unread):
        for n, kind in others:
            for w in unread:
                g.edge(n, w, kind, at)
        return
    v = g.node()
    for n, kind in others:
        g.edge(n, v, kind, at)
    for w in unread:
        g.edge(v, w, THROUGH)


class ListAppend(Observed):
    """The dependencies of a history of append lists."""

    def __init__(self, transactions: Sequence[Transaction]) -> None:
        super().__init__(transactions)
        self.found = Findings()
        self._keys: dict[Hashable, _Key] = {}
        self._updates: list[tuple[_Key, int, int]] = []  # key, length read, transaction that appends to it later
        self._firsts: list[int] = []
        self._list: list[_Key] = []
        self._seen: set[int] = set()

    def infer(self) -> GraphBuilder:
        """The graph's edges; anomalies that are not cycles go to ``found``."""
        self._collect()
        g = GraphBuilder(len(self.transactions))
        self._list = [key for key in self._keys.values() if not key.ambiguous]
        first = 0
        for key in self._list:
            self._order(key)
            key.first = first
            self._firsts.append(first)
            first += len(key.order) + 1
            self._seen.update(w for w in key.makers if not self.committed[w])
        for key in self._list:
            self._unread(key)
        self._edges(g)
        self._lost_updates()
        return g

    # --- reading the history

    def _collect(self) -> None:
        keys, updates = self._keys, self._updates
        for n, t in enumerate(self.transactions):
            if t.status == "ok":
                ops = t.ops
                if len(ops) == 1 or len({op[1] for op in ops}) == len(ops):  # each key once: nothing to agree with
                    for f, k, v in ops:
                        key = keys.get(k)
                        if key is None:
                            key = keys[k] = _Key(k)
                        if f == "r":
                            key.lists.append(v if type(v) is list else list(v or ()))
                            key.readers.append(n)
                        elif v in key.writers:
                            self._twice(key, v)
                        else:
                            key.writers[v] = n
                else:
                    self._repeated(n, t, keys, updates)
            else:
                last: dict[Hashable, Any] = {}
                for f, k, v in t.ops:
                    if f != "r":
                        key = keys.setdefault(k, _Key(k))
                        if v in key.writers:
                            self._twice(key, v)
                        key.writers[v] = n
                        if k in last:
                            key.intermediate.add(last[k])
                        last[k] = v

    def _twice(self, key: _Key, v: Any) -> None:
        key.ambiguous = True
        self.undecided.append(
            f"{quote(v)} was appended to key {quote(key.name)} twice, so the versions of that key do not identify a writer"
        )

    def _repeated(
        self, n: int, t: Transaction, keys: dict[Hashable, _Key], updates: list[tuple[_Key, int, int]]
    ) -> None:
        """A transaction that touches a key several times: its reads must agree with its own earlier reads and writes."""
        state: dict[Hashable, tuple[list[Any] | None, list[Any]]] = {}  # what it read; what it appended since
        disagrees: tuple[Hashable, Any, Any] | None = None
        seen: dict[Hashable, list[Any]] = {}
        for f, k, v in t.ops:
            key = keys.get(k)
            if key is None:
                key = keys[k] = _Key(k)
            was = state.get(k)
            if f == "r":
                now = v if type(v) is list else list(v or ())
                if was is None:
                    key.lists.append(now)
                    key.readers.append(n)
                else:
                    key.again.append((now, n))
                if was is not None:
                    base, mine = was
                    good = now == base + mine if base is not None else now[len(now) - len(mine) :] == mine
                    if not good and disagrees is None:
                        disagrees = (k, "[" + ", ".join(map(quote, base if base is not None else ["…"])) + "]", now)
                        if mine:
                            disagrees = (k, f"{disagrees[1]} and its own {brief(mine)}", now)
                state[k] = (now, [])
                seen.setdefault(k, now)
            else:
                if v in key.writers:
                    self._twice(key, v)
                else:
                    key.writers[v] = n
                if was is None:
                    state[k] = (None, [v])
                else:
                    base, mine = was
                    if base is not None and v in base:
                        self._future(key, base, v, n)
                    if mine:
                        key.intermediate.add(mine[-1])
                    elif base and key.writers.get(base[-1]) == n:
                        key.intermediate.add(base[-1])  # it read its own append and went on
                    if not mine and base is not None and base is seen.get(k):
                        updates.append((key, len(base), n))
                    state[k] = (base, [*mine, v])
        if disagrees is not None:
            k, expected, now = disagrees
            text = (
                f"{self.show(n)} read key {quote(k)} as {brief(now)}, though by its own earlier reads and writes it was "
                f"{expected}: an internal inconsistency."
            )
            self.found.add("internal", lambda: Finding("internal", (t.id,), text, key=k))

    # --- the order of versions

    def _order(self, key: _Key) -> None:
        key.external = len(key.lists)
        for now, n in key.again:
            key.lists.append(now)
            key.readers.append(n)
        lists, readers, writers = key.lists, key.readers, key.writers
        longest: list[Any] = max(lists, key=len, default=[])
        odd: set[int] = set()
        for n, v in enumerate(lists):
            if v is not longest and longest[: len(v)] != v:
                odd.add(n)
        order = longest
        if len(set(order)) != len(order):
            order = self._duplicates(key, order)
        for n in sorted(odd):
            self._incompatible(key, lists[n], longest, readers[n])
            if len(set(lists[n])) != len(lists[n]):
                self._duplicates(key, lists[n], only=n)
            for v in lists[n]:
                if v not in writers:
                    self._garbage(key, v, n)
                elif self.failed[writers[v]] and writers[v] != readers[n]:
                    self._aborted(key, v, n)
        makers = [writers.get(v, -1) for v in order]
        failed = [p for p, w in enumerate(makers) if w >= 0 and self.failed[w]]
        if -1 in makers:
            at = makers.index(-1)
            for n, v in enumerate(lists):
                if len(v) > at and n not in odd:
                    self._garbage(key, order[at], n)
            makers, order = makers[:at], order[:at]
            failed = [p for p in failed if p < at]
        for p in failed:
            for n, v in enumerate(lists):
                if len(v) > p and n not in odd and readers[n] != makers[p]:
                    self._aborted(key, order[p], n)
        for p in failed:  # of successive ones the last
            if p + 1 not in failed and any(self.committed[w] for w in makers[p + 1 :]):
                self._dirty_update(key, order, makers, p)
        key.order, key.makers = order, makers
        following = [0] * (len(order) + 1)
        for p in range(len(order) - 1, -1, -1):
            w = makers[p]
            if p and not self.failed[w] and makers[p - 1] == w:
                following[p] = following[p + 1]
            else:
                following[p] = following[p + 1] if self.failed[w] else p + 1
        key.following = following
        if odd or len(order) != len(longest):
            key.usable = [n not in odd and len(v) <= len(order) for n, v in enumerate(lists)]

    def _unread(self, key: _Key) -> None:
        """Unread appends of transactions that certainly committed: acknowledged, or another of their appends was read."""
        if key.usable is None and len(key.writers) > len(key.order):
            there = set(key.order)
            key.tail = list(
                dict.fromkeys(
                    w for v, w in key.writers.items() if v not in there and (self.committed[w] or w in self._seen)
                )
            )

    # --- edges

    def _edges(self, g: GraphBuilder) -> None:
        maker: list[int] = []
        version: list[int] = []
        follower: list[int] = []
        read_txn: list[int] = []
        read_at: list[int] = []
        for key in self._list:
            first, following, makers = key.first, key.following, key.makers
            maker.append(-1)
            maker += makers
            version += range(first, first + len(makers) + 1)
            follower += [first + f if f else -1 for f in following]
            if key.usable is None and not key.intermediate:
                read_txn += key.readers[: key.external]
                read_at += [first + len(v) for v in key.lists[: key.external]]
            else:
                for v, reader in self._reads(key):
                    read_txn.append(reader)
                    read_at.append(first + len(v))
                    if v and v[-1] in key.intermediate and makers[len(v) - 1] != reader:
                        self._intermediate(key, v, reader)
            if key.tail:
                self._tail(g, key)
        if not maker:
            return
        makers_ = np.array(maker, dtype=np.int64)
        next_ = np.array(follower, dtype=np.int64)
        failed = np.array([*self.failed, False])[makers_]  # -1, the initial version, is nobody's
        txn, at = np.array(read_txn, dtype=np.int64), np.array(read_at, dtype=np.int64)
        by = makers_[at]
        known = (by >= 0) & ~failed[at]
        g.edges(by[known], txn[known], WR, at[known])
        missed = next_[at]
        some = missed >= 0
        g.edges(txn[some], makers_[missed[some]], RW, missed[some])
        chain = (makers_ >= 0) & ~failed & (next_ >= 0)
        g.edges(makers_[chain], makers_[next_[chain]], WW, next_[chain])

    @staticmethod
    def _reads(key: _Key) -> list[tuple[list[Any], int]]:
        """External reads of versions in the order, with the reader."""
        reads = zip(key.lists[: key.external], key.readers, strict=False)
        return [r for n, r in enumerate(reads) if key.usable is None or key.usable[n]]

    def _tail(self, g: GraphBuilder, key: _Key) -> None:
        """Appends that nobody read come after every version that was read."""
        last = len(key.order)
        while last and self.failed[key.makers[last - 1]]:
            last -= 1
        readers = (n for v, n in self._reads(key) if not key.following[len(v)])
        tail(g, readers, key.makers[last - 1] if last else None, key.tail, key.first + len(key.order))

    # --- anomalies that are not cycles

    def _garbage(self, key: _Key, element: Any, n: int) -> None:
        reader, v = key.readers[n], key.lists[n]
        self.found.add(
            "garbage-read",
            lambda: Finding(
                "garbage-read",
                (self.id(reader),),
                f"{self.show(reader)} read key {quote(key.name)} as {brief(v)}, but nobody ever appended {quote(element)} to it.",
                key=key.name,
            ),
        )

    def _future(self, key: _Key, v: list[Any], element: Any, n: int) -> None:
        self.found.add(
            "future-read",
            lambda: Finding(
                "future-read",
                (self.id(n),),
                f"{self.show(n)} read key {quote(key.name)} as {brief(v)} before it appended {quote(element)} itself.",
                key=key.name,
            ),
        )

    def _aborted(self, key: _Key, element: Any, n: int) -> None:
        reader, v, writer = key.readers[n], key.lists[n], key.writers[element]
        self.found.add(
            "G1a",
            lambda: Finding(
                "G1a",
                (self.id(reader), self.id(writer)),
                f"{self.show(reader)} read key {quote(key.name)} as {brief(v)}, with {quote(element)} of {self.show(writer)}, "
                "which failed: an aborted read.",
                key=key.name,
            ),
        )

    def _intermediate(self, key: _Key, v: list[Any], reader: int) -> None:
        writer = key.writers[v[-1]]
        self.found.add(
            "G1b",
            lambda: Finding(
                "G1b",
                (self.id(reader), self.id(writer)),
                f"{self.show(reader)} read key {quote(key.name)} as {brief(v)}, which ends with {quote(v[-1])} of {self.show(writer)}; "
                "that transaction went on to append more to it: an intermediate read.",
                key=key.name,
            ),
        )

    def _incompatible(self, key: _Key, v: list[Any], longest: list[Any], reader: int) -> None:
        self.found.add(
            "incompatible-order",
            lambda: Finding(
                "incompatible-order",
                (self.id(reader), self.id(key.readers[next(n for n, x in enumerate(key.lists) if x is longest)])),
                f"{self.show(reader)} read key {quote(key.name)} as {brief(v)}, while another transaction read {brief(longest)}: "
                "neither is a prefix of the other, so they are not versions of one list.",
                key=key.name,
            ),
        )

    def _duplicates(self, key: _Key, order: list[Any], only: int | None = None) -> list[Any]:
        """The order up to the first element that occurs a second time."""
        there: set[Any] = set()
        at = next(p for p, v in enumerate(order) if v in there or there.add(v))  # type: ignore[func-returns-value]
        for n, v in enumerate(key.lists):
            if n != only and (only is not None or len(v) <= at or order[: len(v)] != v):
                continue
            reader, element = key.readers[n], order[at]
            text = (
                f"{self.show(reader)} read key {quote(key.name)} as {brief(v)}: it contains {quote(element)} {v.count(element)} "
                "times, but it was appended once."
            )
            self.found.add(
                "duplicate-elements",
                lambda reader=reader, text=text: Finding(  # type: ignore[misc]
                    "duplicate-elements", (self.id(reader),), text, key=key.name
                ),
            )
        return order[:at]

    def _dirty_update(self, key: _Key, order: list[Any], makers: list[int], p: int) -> None:
        q = next(q for q in range(p + 1, len(makers)) if self.committed[makers[q]])
        self.found.add(
            "dirty-update",
            lambda: Finding(
                "dirty-update",
                (self.id(makers[q]), self.id(makers[p])),
                f"{self.show(makers[q])} appended {quote(order[q])} to key {quote(key.name)} after {quote(order[p])} of "
                f"{self.show(makers[p])}, which failed: a committed version contains an aborted one.",
                key=key.name,
            ),
        )

    def _lost_updates(self) -> None:
        """Two committed transactions that read the same version of a key and append to it ([Berenson 1995] P4)."""
        by: dict[int, list[int]] = {}
        for key, length, n in self._updates:
            if not key.ambiguous and length <= len(key.order):
                by.setdefault(key.first + length, []).append(n)
        for at, txns in by.items():
            if len(txns) > 1:
                key, p = self._version(at)
                self.found.add(
                    "lost-update",
                    lambda key=key, p=p, txns=txns: Finding(  # type: ignore[misc]
                        "lost-update",
                        tuple(self.id(n) for n in txns),
                        f"{', '.join(self.show(n) for n in txns[:4])} all read key {quote(key.name)} as {brief(key.order[:p])} and "
                        "appended to it: each must have missed the other's update.",
                        key=key.name,
                    ),
                )

    # --- for explanations and for what is decided per transaction

    def _version(self, at: int) -> tuple[_Key, int]:
        n = int(np.searchsorted(np.array(self._firsts), at, side="right")) - 1
        return self._list[n], at - self._list[n].first

    def why_data(self, before: int, after: int, kind: int, at: int) -> str:
        """Why one transaction depends on another."""
        key, p = self._version(at)
        k = quote(key.name)
        if kind == WR:
            return f"{{after}} observed {{before}}'s append of {quote(key.order[p - 1])} to key {k}"
        if p and p <= len(key.makers) and key.makers[p - 1] == after:
            element = key.order[p - 1]
            previous = next((q for q in range(p - 1, 0, -1) if key.makers[q - 1] == before), 0)
        else:  # one that nobody read
            there = set(key.order)
            element = next(v for v, w in key.writers.items() if w == after and v not in there)
            previous = next((q for q in range(len(key.order), 0, -1) if key.makers[q - 1] == before), 0)
        if kind == RW:
            return f"{{before}} did not observe {{after}}'s append of {quote(element)} to key {k}"
        return f"{{before}} appended {quote(key.order[previous - 1])} to key {k} before {{after}} appended {quote(element)}"

    def accesses(self, n: int) -> Access:
        """The external versions that a committed transaction read and wrote: key → version, of the first read and the last write."""
        t = self.transactions[n]
        reads: dict[Hashable, int] = {}
        writes: dict[Hashable, int] = {}
        touched: set[Hashable] = set()
        for f, k, v in t.ops:
            key = self._keys[k]
            if key.ambiguous:
                continue
            if f == "r":
                if k not in touched and t.status == "ok":
                    now = list(v or ())
                    if now == key.order[: len(now)]:
                        reads[k] = len(now)
            else:
                place = self._place(key, v)
                if place:
                    writes[k] = max(place, writes.get(k, 0))
            touched.add(k)
        return Access(reads, writes)

    def _place(self, key: _Key, element: Any) -> int:
        """The version that an append made; one more than the last when nobody read it, 0 when unknown."""
        places = self._places.get(key.name)
        if places is None:
            places = self._places[key.name] = {v: p for p, v in enumerate(key.order, 1)}
        found = places.get(element)
        if found is not None:
            return found
        return len(key.order) + 1 if key.tail and key.writers[element] in key.tail else 0

    def what(self, key: Hashable, version: int) -> str:
        """A version of a key, in words."""
        order = self._keys[key].order
        return f"key {quote(key)} as {brief(order[:version])}" if version <= len(order) else f"key {quote(key)}"
