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

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import msgspec
import numpy as np

from checkers.isolation.explanation import quote
from checkers.isolation.graph import RW, THROUGH, WR, WW, GraphBuilder, Ints
from checkers.isolation.observed import KeyAccess, TransactionHistory
from checkers.isolation.transactions import Transaction


@dataclass(frozen=True, slots=True)
class ListKey:
    """What is known of one key.

    Attributes:
        writers: element → the transaction that appended it.
        intermediate: elements that their transaction followed by another one.
        lists, readers: every read, and who read it; the first ``external`` of them are each transaction's first read of the key, before
            its own operations on it.
        longest: the longest list.
        odd: which of ``lists`` are no prefixes of it.
        order: its elements up to the first that occurs a second time, or that nobody appended: element p makes version p + 1.
        makers: who appended each of these.
        failed: the places of those that failed transactions appended.
        first: the number of its version 0 among all keys' versions.
    """

    name: Hashable
    writers: Mapping[Any, int]
    intermediate: Set[Any]
    lists: Sequence[list[Any]]
    readers: Sequence[int]
    external: int
    longest: list[Any]
    odd: Sequence[int]
    order: list[Any]
    makers: Sequence[int]
    failed: Sequence[int]
    first: int

    @property
    def as_appended(self) -> bool:
        """Whether every read is a version in the order."""
        return not self.odd and len(self.order) == len(self.longest)

    def versions(self) -> Sequence[int]:
        """Which of ``lists`` are external reads of versions in the order."""
        if self.as_appended:
            return range(self.external)
        odd = frozenset(self.odd)
        return [n for n in range(self.external) if n not in odd and len(self.lists[n]) <= len(self.order)]

    def longer(self, length: int) -> Iterator[tuple[list[Any], int]]:
        """All reads of prefixes of the longest list that have more elements, with the reader."""
        odd = frozenset(self.odd)
        for n, (v, reader) in enumerate(zip(self.lists, self.readers, strict=True)):
            if len(v) > length and n not in odd:
                yield v, reader


class Reread(msgspec.Struct, frozen=True, gc=False):
    """A read after the transaction had read or written the key itself: what it had read (None: nothing), and appended since."""

    reader: int
    key: Hashable
    read: list[Any] | None
    appended: list[Any]
    now: list[Any]


class Update(msgspec.Struct, frozen=True, gc=False):
    """An append by a transaction that had read the key; ``first``: for the first time, and had appended nothing since."""

    writer: int
    key: Hashable
    read: list[Any]
    element: Any
    first: bool


@dataclass(frozen=True)
class ListHistory(TransactionHistory):
    """A history of append lists.

    Attributes:
        keys: those of which every element names its transaction.
        rereads, updates: of transactions that touch a key several times.
    """

    keys: Mapping[Hashable, ListKey]
    rereads: Sequence[Reread]
    updates: Sequence[Update]

    @cached_property
    def seen(self) -> set[int]:
        """Transactions that failed or crashed, and of which an append was read."""
        return {w for key in self.keys.values() for w in key.makers if not self.committed[w]}

    @cached_property
    def unread(self) -> dict[Hashable, list[int]]:
        """Key → who certainly appended to it what nobody read: acknowledged, or another of their appends was read."""
        found = {}
        for key in self.keys.values():
            if len(key.writers) > len(key.order) and key.as_appended:
                read = set(key.order)
                rest = dict.fromkeys(w for v, w in key.writers.items() if v not in read)
                found[key.name] = [w for w in rest if self.committed[w] or w in self.seen]
        return found

    # --- the graph

    def dependencies(self) -> GraphBuilder:
        """Of each version on its maker, of each reader on the version that it read, and of the next version on the reader."""
        g = GraphBuilder(len(self.transactions))
        list_edges(g, (self._dependencies(key) for key in self.keys.values()))
        return g

    def _dependencies(self, key: ListKey) -> KeyDependencies:
        makers, unread = _with_node(key.makers, key.failed), self.unread.get(key.name, ())
        if key.as_appended:
            readers, lists = key.readers[: key.external], key.lists[: key.external]
        else:
            readers = [key.readers[n] for n in key.versions()]
            lists = [key.lists[n] for n in key.versions()]
        return KeyDependencies(makers, readers, [len(v) for v in lists], unread)

    def why_data(self, before: int, after: int, kind: int, version: int) -> str:
        """Why one transaction depends on another."""
        key, p = self._version(version)
        k, makers = quote(key.name), key.makers
        if kind == WR:
            return f"{{after}} observed {{before}}'s append of {quote(key.order[p - 1])} to key {k}"
        if p and p <= len(makers) and makers[p - 1] == after:
            element = key.order[p - 1]
            previous = next((q for q in range(p - 1, 0, -1) if makers[q - 1] == before), 0)
        else:  # one that nobody read
            read = set(key.order)
            element = next(v for v, w in key.writers.items() if w == after and v not in read)
            previous = next((q for q in range(len(key.order), 0, -1) if makers[q - 1] == before), 0)
        if kind == RW:
            return f"{{before}} did not observe {{after}}'s append of {quote(element)} to key {k}"
        return f"{{before}} appended {quote(key.order[previous - 1])} to key {k} before {{after}} appended {quote(element)}"

    def _version(self, version: int) -> tuple[ListKey, int]:
        keys = list(self.keys.values())
        key = keys[int(np.searchsorted([k.first for k in keys], version, side="right")) - 1]
        return key, version - key.first

    # --- what is decided per transaction

    def accesses(self, n: int) -> KeyAccess:
        """The external versions that a transaction read and wrote: key → version, of the first read and the last write."""
        t = self.transactions[n]
        reads: dict[Hashable, int] = {}
        writes: dict[Hashable, int] = {}
        touched: set[Hashable] = set()
        for f, k, v in t.ops:
            key = self.keys.get(k)
            if key is None:
                continue
            if f == "r":
                if k not in touched and t.status == "ok":
                    now = list(v or ())
                    if now == key.order[: len(now)]:
                        reads[k] = len(now)
            elif place := self._place(key, v):
                writes[k] = max(place, writes.get(k, 0))
            touched.add(k)
        return KeyAccess(reads, writes)

    def _place(self, key: ListKey, element: Any) -> int:
        """The version that an append made; one more than the last when nobody read it, 0 when unknown."""
        found = self._places.get((key.name, element))
        if found is not None:
            return found
        return len(key.order) + 1 if key.writers[element] in self.unread.get(key.name, ()) else 0

    @cached_property
    def _places(self) -> dict[tuple[Hashable, Any], int]:
        return {(key.name, v): p for key in self.keys.values() for p, v in enumerate(key.order, 1)}

    def value(self, key: Hashable, version: int) -> list[Any]:
        """The list that a version of a key is."""
        return self.keys[key].order[:version]


# --- reading a history


def list_history(transactions: Sequence[Transaction]) -> ListHistory:
    """What the transactions say of each key; no anomaly is looked for."""
    seen = _Reading()
    for n, t in enumerate(transactions):
        if t.status != "ok":
            _wrote(seen, n, t)
        elif len(t.ops) == 1 or len({op[1] for op in t.ops}) == len(t.ops):  # each key once: nothing to agree with
            _touched_once(seen, n, t)
        else:
            _touched_again(seen, n, t)
    failed = [t.status == "fail" for t in transactions]
    keys: dict[Hashable, ListKey] = {}
    first = 0
    for key in seen.keys.values():
        if not key.ambiguous:
            found = keys[key.name] = _ordered(key, first, failed)
            first += len(found.order) + 1
    return ListHistory(tuple(transactions), tuple(seen.undecided), keys, seen.rereads, seen.updates)


@dataclass(slots=True, eq=False)
class _KeySoFar:
    name: Hashable
    writers: dict[Any, int] = field(default_factory=dict)
    intermediate: set[Any] = field(default_factory=set)
    lists: list[list[Any]] = field(default_factory=list)
    readers: list[int] = field(default_factory=list)
    rereads: list[Reread] = field(default_factory=list)
    ambiguous: bool = False


class _Reading:
    """What was found in the transactions so far."""

    def __init__(self) -> None:
        self.keys: dict[Hashable, _KeySoFar] = {}
        self.rereads: list[Reread] = []
        self.updates: list[Update] = []
        self.undecided: list[str] = []

    def key(self, name: Hashable) -> _KeySoFar:
        key = self.keys.get(name)
        if key is None:
            key = self.keys[name] = _KeySoFar(name)
        return key

    def twice(self, key: _KeySoFar, element: Any) -> None:
        key.ambiguous = True
        self.undecided.append(
            f"{quote(element)} was appended to key {quote(key.name)} twice, so the versions of that key do not identify a writer"
        )


def _wrote(seen: _Reading, n: int, t: Transaction) -> None:
    """A transaction that failed or crashed: only what it appended, or would have."""
    last: dict[Hashable, Any] = {}
    for f, k, v in t.ops:
        if f != "r":
            key = seen.key(k)
            if v in key.writers:
                seen.twice(key, v)
            key.writers[v] = n
            if k in last:
                key.intermediate.add(last[k])
            last[k] = v


def _touched_once(seen: _Reading, n: int, t: Transaction) -> None:
    """A transaction that touches no key twice."""
    keys = seen.keys
    for f, k, v in t.ops:
        key = keys.get(k)
        if key is None:
            key = seen.key(k)
        if f == "r":
            key.lists.append(v if type(v) is list else list(v or ()))
            key.readers.append(n)
        elif v in key.writers:
            seen.twice(key, v)
        else:
            key.writers[v] = n


def _touched_again(seen: _Reading, n: int, t: Transaction) -> None:
    """A transaction that touches a key several times: its reads must agree with its own earlier reads and writes."""
    state: dict[
        Hashable, tuple[list[Any] | None, list[Any], bool]
    ] = {}  # read; appended since; whether for the first time
    keys = seen.keys
    for f, k, v in t.ops:
        key = keys.get(k)
        if key is None:
            key = seen.key(k)
        before = state.get(k)
        if f == "r":
            now = v if type(v) is list else list(v or ())
            if before is None:
                key.lists.append(now)
                key.readers.append(n)
            else:
                reread = Reread(n, k, before[0], before[1], now)
                key.rereads.append(reread)
                seen.rereads.append(reread)
            state[k] = now, [], before is None or before[0] is None
            continue
        if v in key.writers:
            seen.twice(key, v)
        key.writers[v] = n
        if before is None:
            state[k] = None, [v], False
            continue
        read, appended, first = before
        if appended:
            key.intermediate.add(appended[-1])
        elif read and key.writers.get(read[-1]) == n:
            key.intermediate.add(read[-1])  # it read its own append and went on
        if read is not None:
            seen.updates.append(Update(n, k, read, v, first and not appended))
        state[k] = read, [*appended, v], first


def _ordered(key: _KeySoFar, first: int, outcome: Sequence[bool]) -> ListKey:
    """The order of a key's versions: the longest list that was read, as far as it can be one. ``outcome``: which transactions failed."""
    lists = [*key.lists, *(r.now for r in key.rereads)] if key.rereads else key.lists
    longest: list[Any] = max(lists, key=len, default=[])
    odd = [n for n, v in enumerate(lists) if v is not longest and longest[: len(v)] != v]
    order = longest[: first_repeated(longest)]
    makers = [key.writers.get(v, -1) for v in order]
    if -1 in makers:
        known = makers.index(-1)
        makers, order = makers[:known], order[:known]
    failed = [p for p, w in enumerate(makers) if outcome[w]]
    return ListKey(
        key.name,
        key.writers,
        key.intermediate,
        lists,
        [*key.readers, *(r.reader for r in key.rereads)],
        len(key.lists),
        longest,
        odd,
        order,
        makers,
        failed,
        first,
    )


def _with_node(makers: Sequence[int], failed: Sequence[int]) -> Sequence[int]:
    """The makers of versions, with -1 for those that failed."""
    if not failed:
        return makers
    present = frozenset(failed)
    return [-1 if p in present else w for p, w in enumerate(makers)]


def first_repeated(elements: Sequence[Any]) -> int | None:
    """Where the first element is that occurs a second time; None if there is none."""
    if len(set(elements)) == len(elements):
        return None
    seen: set[Any] = set()
    for p, v in enumerate(elements):
        if v in seen:
            return p
        seen.add(v)
    return None


# --- edges


class KeyDependencies(NamedTuple):
    """What the edges of one key follow from.

    Attributes:
        makers: who appended each element of its longest list; -1 for one that has no node.
        readers, lengths: who read how many of them.
        unread: who appended to it what nobody read.
    """

    makers: Sequence[int]
    readers: Sequence[int]
    lengths: Sequence[int]
    unread: Sequence[int]


def list_edges(g: GraphBuilder, keys: Iterable[KeyDependencies]) -> None:
    """The edges of append lists; versions are numbered key by key, from the empty list to the longest one."""
    makers: list[int] = []
    followers: list[int] = []  # version → the next one by another transaction; -1 for none
    readers: list[int] = []
    versions: list[int] = []
    for key in keys:
        first = len(makers)
        after = _following(key.makers)
        makers.append(-1)
        makers += key.makers
        followers += [first + p if p else -1 for p in after]
        readers += key.readers
        versions += [first + n for n in key.lengths]
        if key.unread:
            made = [w for w in key.makers if w >= 0]
            last = (r for r, n in zip(key.readers, key.lengths, strict=True) if not after[n])
            _tail(g, last, made[-1] if made else None, key.unread, first + len(key.makers))
    writer, next_, reader, item = (np.array(x, np.int64) for x in (makers, followers, readers, versions))
    _edges(g, writer[item], reader, WR, item)
    _edges(g, reader, np.where(next_[item] >= 0, writer[next_[item]], -1), RW, next_[item])
    _edges(g, writer, np.where(next_ >= 0, writer[next_], -1), WW, next_)


def _following(makers: Sequence[int]) -> list[int]:
    """Version → the next one by another transaction; 0 for none."""
    found = [0] * (len(makers) + 1)
    after = 0
    for p in range(len(makers) - 1, -1, -1):
        maker = makers[p]
        if maker >= 0 and (not p or makers[p - 1] != maker):
            after = p + 1
        found[p] = after
    return found


def _edges(g: GraphBuilder, before: Ints, after: Ints, kind: int, keys: Ints) -> None:
    """Those with a transaction on both sides."""
    known = (before >= 0) & (after >= 0)
    g.edges(before[known], after[known], kind, keys[known])


def _tail(g: GraphBuilder, readers: Iterable[int], writer: int | None, unread: Sequence[int], version: int) -> None:
    """The edges to appends of one key that nobody read.

    Args:
        g: gets them.
        readers: who read the last version that is known.
        writer: who made it; None for the initial one.
        unread: who made those appends.
        version: that version.
    """
    before = {(n, RW) for n in readers}
    if writer is not None:
        before.add((writer, WW))
    if not before:
        return
    missing = set(unread)
    own = [(n, kind) for n, kind in before if n in missing]
    others = sorted(before.difference(own))
    for n, kind in sorted(own)[:32]:  # more than one is a lost update, which another rule reports
        for w in unread:
            g.edge(n, w, kind, version)
    if len(others) * len(unread) <= len(others) + len(unread):
        for n, kind in others:
            for w in unread:
                g.edge(n, w, kind, version)
        return
    v = g.node()
    for n, kind in others:
        g.edge(n, v, kind, version)
    for w in unread:
        g.edge(v, w, THROUGH)
