"""Transactions over registers: a read shows one version, so the order of versions is known only in part.

Written values are unique, so a version names its writer ([Elle 2020], *recoverable* but not *traceable*). Known of the order::

    None < v            the initial version comes before every other
    v < w               a transaction read v and wrote w (*writes follow reads*: otherwise it is a G1c)
    v < w               v's writer had ended before w's writer began: holds only under real time, so it can only refute real time

Every reported anomaly is real. Anomalies that need more of the order are missed (finding them is NP-complete: [Biswas Enea 2019]).
Elle's ``:wfr-keys?`` is the second rule. Its ``:linearizable-keys?`` corresponds to the third, which here applies to writes alone.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

from checkers.isolation.graph import RW, RW_REALTIME, THROUGH, WR, GraphBuilder
from checkers.isolation.observed import Access, Observed, quote
from checkers.isolation.transactions import Finding, Transaction

MANY = 32
"""Of transactions that read and overwrote the same version, how many get edges to all the others: there should be only one."""


@dataclass
class _Version:
    """A value of a key; edges refer to it by ``number``."""

    key: Hashable
    value: Any
    number: int
    writer: int = -1
    intermediate: bool = False
    readers: list[int] = field(default_factory=list)
    next: list[_Version] = field(default_factory=list)
    """Versions written by transactions that read this one."""
    before: bool = False
    """Whether its writer read the version before it."""


class Register(Observed):
    """The dependencies of a history of registers."""

    def __init__(self, transactions: Sequence[Transaction]) -> None:
        super().__init__(transactions)
        self._versions: dict[tuple[Hashable, Any], _Version] = {}
        self._numbered: list[_Version] = []
        self._writers: dict[Hashable, list[_Version]] = {}
        self._ambiguous: set[Hashable] = set()
        self._chain: dict[int, tuple[int, int]] = {}  # version → the first of its chain, and its distance from it
        self._places_known = False
        self._seen: set[int] = set()  # transactions with at least one write that was read

    def infer(self) -> GraphBuilder:
        """The graph's edges; anomalies that are not cycles go to ``found``."""
        self._writes()
        for n, t in enumerate(self.transactions):
            if t.status == "ok":
                self._reads(n, t)
        g = GraphBuilder(len(self.transactions))
        self._seen = {v.writer for v in self._numbered if v.readers}
        for v in self._numbered:
            if v.key not in self._ambiguous:
                self._edges(g, v)
        for key, versions in self._writers.items():
            if key not in self._ambiguous:
                self._overwritten_in_time(g, versions)
        return g

    def _version(self, key: Hashable, value: Any) -> _Version:
        found = self._versions.get((key, value))
        if found is None:
            found = self._versions[(key, value)] = _Version(key, value, len(self._numbered))
            self._numbered.append(found)
        return found

    def _writes(self) -> None:
        for n, t in enumerate(self.transactions):
            last: dict[Hashable, _Version] = {}
            for f, k, value in t.ops:
                if f == "r":
                    continue
                v = self._version(k, value)
                if v.writer >= 0 or value is None:
                    self._ambiguous.add(k)
                    self.undecided.append(
                        f"{quote(value)} was written to key {quote(k)} twice or is its initial value, so the versions of "
                        "that key do not identify a writer"
                    )
                v.writer = n
                if k in last:
                    last[k].intermediate = True
                last[k] = v
            for k, v in last.items():
                self._writers.setdefault(k, []).append(v)

    def _reads(self, n: int, t: Transaction) -> None:
        state: dict[Hashable, Any] = {}
        external: dict[Hashable, _Version] = {}
        final = {k: value for f, k, value in t.ops if f != "r"}
        for f, k, value in t.ops:
            if f != "r":
                state[k] = value
                continue
            if k in state:
                if state[k] != value:
                    expected = state[k]
                    self.found.add(
                        "internal",
                        lambda k=k, value=value, expected=expected: Finding(  # type: ignore[misc]
                            "internal",
                            (t.id,),
                            f"{self.show(n)} read key {quote(k)} as {quote(value)}, though it had itself read or written "
                            f"{quote(expected)} before: an internal inconsistency.",
                            key=k,
                        ),
                    )
                state[k] = value
                continue
            state[k] = value
            if k in self._ambiguous:
                continue
            v = self._version(k, value)
            if value is not None and v.writer < 0:
                self._garbage(n, v)
                continue
            if v.writer == n:
                self._future(n, v)
                continue
            if v.writer >= 0 and self.failed[v.writer]:
                self._bad(n, v, "G1a", "which failed: an aborted read")
                continue
            if v.intermediate:
                self._bad(n, v, "G1b", "which went on to write it again: an intermediate read")
            v.readers.append(n)
            external[k] = v
        for k, v in external.items():
            if k in final:
                after = self._version(k, final[k])
                v.next.append(after)
                after.before = True

    def _edges(self, g: GraphBuilder, v: _Version) -> None:
        if v.writer >= 0 and not self.failed[v.writer]:
            for n in v.readers:
                g.edge(v.writer, n, WR, v.number)
        if len(v.next) > 1:
            self._lost_update(v)
        if v.value is None:
            after = [w for w in self._writers.get(v.key, ()) if self.committed[w.writer] or w.writer in self._seen]
        else:
            after = v.next
        writers = {w.writer for w in after}
        own = [n for n in v.readers if n in writers]
        others = [n for n in v.readers if n not in writers]
        for n in own[:MANY]:
            for w in after:
                g.edge(n, w.writer, RW, w.number)
        if len(others) * len(after) <= len(others) + len(after):
            for n in others:
                for w in after:
                    g.edge(n, w.writer, RW, w.number)
        elif others and after:
            node = g.node()
            for n in others:
                g.edge(n, node, RW)
            for w in after:
                g.edge(node, w.writer, THROUGH, w.number)

    def _overwritten_in_time(self, g: GraphBuilder, versions: list[_Version]) -> None:
        """A reader of a version precedes the first write to its key that began after the version's own writer had ended."""
        done = sorted(
            (
                v
                for v in versions
                if self.committed[v.writer] and self._end(v.writer) >= self.transactions[v.writer].start
            ),
            key=lambda v: self.transactions[v.writer].start,
        )
        starts = [self.transactions[v.writer].start for v in done]
        first = list(done)  # of those that start no earlier, the one that ended first
        for i in range(len(done) - 2, -1, -1):
            if self._end(first[i + 1].writer) < self._end(first[i].writer):
                first[i] = first[i + 1]
        for v in done:
            i = bisect_right(starts, self._end(v.writer))
            if i < len(done):
                for n in v.readers:
                    g.edge(n, first[i].writer, RW_REALTIME, first[i].number)

    # --- anomalies that are not cycles

    def _garbage(self, n: int, v: _Version) -> None:
        self.found.add(
            "garbage-read",
            lambda: Finding(
                "garbage-read",
                (self.id(n),),
                f"{self.show(n)} read key {quote(v.key)} as {quote(v.value)}, but nobody ever wrote that to it.",
                key=v.key,
            ),
        )

    def _future(self, n: int, v: _Version) -> None:
        self.found.add(
            "future-read",
            lambda: Finding(
                "future-read",
                (self.id(n),),
                f"{self.show(n)} read key {quote(v.key)} as {quote(v.value)} before it wrote that itself.",
                key=v.key,
            ),
        )

    def _bad(self, n: int, v: _Version, name: str, what: str) -> None:
        self.found.add(
            name,
            lambda: Finding(
                name,
                (self.id(n), self.id(v.writer)),
                f"{self.show(n)} read key {quote(v.key)} as {quote(v.value)}, a value of {self.show(v.writer)}, {what}.",
                key=v.key,
            ),
        )

    def _lost_update(self, v: _Version) -> None:
        txns = [w.writer for w in v.next]
        self.found.add(
            "lost-update",
            lambda: Finding(
                "lost-update",
                tuple(self.id(n) for n in txns),
                f"{', '.join(self.show(n) for n in txns[:4])} all read key {quote(v.key)} as {quote(v.value)} and wrote it: one must have "
                "missed the other's update.",
                key=v.key,
            ),
        )

    # --- for explanations and for what is decided per transaction

    def why_data(self, before: int, after: int, kind: int, at: int) -> str:
        """Why one transaction depends on another."""
        v = self._numbered[at]
        if kind == WR:
            return f"{{after}} observed {{before}}'s write of {quote(v.value)} to key {quote(v.key)}"
        if kind == RW_REALTIME:
            return (
                f"{{before}} did not observe {{after}}'s write of {quote(v.value)} to key {quote(v.key)}, which began after the write "
                "that it observed had ended"
            )
        return f"{{before}} did not observe {{after}}'s write of {quote(v.value)} to key {quote(v.key)}"

    def accesses(self, n: int) -> Access:
        """The versions that a transaction read and wrote, by number."""
        t = self.transactions[n]
        reads: dict[Hashable, int] = {}
        writes: dict[Hashable, int] = {}
        touched: set[Hashable] = set()
        for f, k, value in t.ops:
            v = self._versions.get((k, value))
            if v is not None and k not in self._ambiguous:
                if f != "r":
                    writes[k] = v.number
                elif k not in touched and t.status == "ok":
                    reads[k] = v.number
            touched.add(k)
        return Access(reads, writes)

    def older(self, a: int, b: int) -> bool:
        """The initial version precedes every other; of two others, ``b`` was written after reading ``a``, directly or through others.

        Where such chains branch (a lost update), nothing is known.
        """
        if not self._places_known:
            self._places_known = True
            for start in (v for v in self._numbered if not v.before):
                at: _Version | None = start
                depth = 0
                while at is not None and at.number not in self._chain:
                    self._chain[at.number] = (start.number, depth)
                    depth += 1
                    at = at.next[0] if len(at.next) == 1 else None
        old, new = self._numbered[a], self._numbered[b]
        if old.value is None or new.value is None:
            return old.value is None and new.value is not None
        if a not in self._chain or b not in self._chain:
            return False
        (first, depth), (second, further) = self._chain[a], self._chain[b]
        return first == second and depth < further

    def what(self, key: Hashable, version: int) -> str:
        """A version of a key, in words."""
        return f"key {quote(key)} as {quote(self._numbered[version].value)}"
