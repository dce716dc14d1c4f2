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
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from checkers.isolation.explanation import Case, quote
from checkers.isolation.graph import RW, RW_REALTIME, THROUGH, WR, GraphBuilder
from checkers.isolation.observed import KeyAccess, TransactionHistory, ended
from checkers.isolation.transactions import Transaction

MOST_CONFLICTING = 32
"""Of transactions that read and overwrote the same version, how many get edges to all the others: there should be only one."""


@dataclass(frozen=True, slots=True)
class RegisterVersion:
    """A value of a key; edges refer to it by its number.

    Attributes:
        writer: who wrote it; -1 for nobody.
        intermediate: whether its writer wrote the key again.
    """

    key: Hashable
    value: Any
    writer: int = -1
    intermediate: bool = False


class RegisterRead(NamedTuple):
    """A read; ``expected``: of a key that the reader had read or written itself, what it was then."""

    reader: int
    key: Hashable
    value: Any
    expected: Any = None


@dataclass(frozen=True)
class RegisterHistory(TransactionHistory):
    """A history of registers.

    Attributes:
        versions: all values that were written or read; their numbers are their places.
        numbers: (key, value) → number.
        last: key → the version that each transaction left of it, of those that wrote it.
        first_reads: each transaction's first read of a key, before its own operations on it.
        rereads: all other reads.
        ambiguous: keys of which a value does not name its writer; they have no edges.
    """

    versions: Sequence[RegisterVersion]
    numbers: Mapping[tuple[Hashable, Any], int]
    last: Mapping[Hashable, Mapping[int, int]]
    first_reads: Sequence[RegisterRead]
    rereads: Sequence[RegisterRead]
    ambiguous: frozenset[Hashable]

    def defect(self, read: RegisterRead) -> str | None:
        """Why a first read says nothing of the order of versions: the name of its anomaly."""
        writer = self.writer(read)
        if writer < 0:
            return None if read.value is None else "garbage-read"
        if writer == read.reader:
            return "future-read"
        return "G1a" if self.failed[writer] else None

    def writer(self, read: RegisterRead) -> int:
        """Who wrote what was read; -1 for nobody."""
        return self.versions[self.numbers[read.key, read.value]].writer

    @cached_property
    def readers(self) -> list[list[int]]:
        """Version → who read it first of all."""
        found: list[list[int]] = [[] for _ in self.versions]
        for read in self.first_reads:
            if self.defect(read) is None:
                found[self.numbers[read.key, read.value]].append(read.reader)
        return found

    @cached_property
    def next(self) -> list[list[int]]:
        """Version → the versions that its readers wrote."""
        return [
            [last[n] for n in readers if n in last]
            for v, readers in zip(self.versions, self.readers, strict=True)
            for last in (self.last.get(v.key, {}),)
        ]

    # --- the graph

    def dependencies(self) -> GraphBuilder:
        """Of each reader on the writer of what it read, and of the writers of later versions on the reader."""
        g = GraphBuilder(len(self.transactions))
        seen = {v.writer for v, readers in zip(self.versions, self.readers, strict=True) if readers}
        for number, v in enumerate(self.versions):
            if v.key in self.ambiguous:
                continue
            if v.writer >= 0 and not self.failed[v.writer]:
                for n in self.readers[number]:
                    g.edge(v.writer, n, WR, number)
            if v.value is None:
                written = self.last.get(v.key, {}).items()
                self._overwritten(g, number, [w for n, w in written if self.committed[n] or n in seen])
            else:
                self._overwritten(g, number, self.next[number])
        for key, last in self.last.items():
            if key not in self.ambiguous:
                self._overwritten_in_time(g, list(last.values()))
        return g

    def _overwritten(self, g: GraphBuilder, number: int, after: Sequence[int]) -> None:
        """Each reader of a version precedes the writers of the versions after it."""
        readers, versions = self.readers[number], self.versions
        writers = {versions[w].writer for w in after}
        own = [n for n in readers if n in writers]
        others = [n for n in readers if n not in writers]
        pairs = [(n, w) for n in own[:MOST_CONFLICTING] for w in after]
        few = len(others) * len(after) <= len(others) + len(after)
        for n, w in [*pairs, *((n, w) for n in others for w in after)] if few else pairs:
            g.edge(n, versions[w].writer, RW, w)
        if not few:
            node = g.node()
            for n in others:
                g.edge(n, node, RW)
            for w in after:
                g.edge(node, versions[w].writer, THROUGH, w)

    def _overwritten_in_time(self, g: GraphBuilder, numbers: Sequence[int]) -> None:
        """A reader of a version precedes the first write to its key that began after the version's own writer had ended."""
        done = []  # start, end and version of each write
        for number in numbers:
            t = self.transactions[self.versions[number].writer]
            end = ended(t)
            if end is not None and end >= t.start:
                done.append((t.start, end, number))
        done.sort(key=lambda w: w[0])
        starts = [start for start, _, _ in done]
        first = list(done)  # of those that start no earlier, the one that ended first
        for i in range(len(done) - 2, -1, -1):
            if first[i + 1][1] < first[i][1]:
                first[i] = first[i + 1]
        for _, end, number in done:
            i = bisect_right(starts, end)
            if i < len(done):
                for n in self.readers[number]:
                    g.edge(n, self.versions[first[i][2]].writer, RW_REALTIME, first[i][2])

    def why_data(self, before: int, after: int, kind: int, key: int) -> str:
        """Why one transaction depends on another."""
        written = f"write of {quote(self.versions[key].value)} to key {quote(self.versions[key].key)}"
        if kind == WR:
            return f"{{after}} observed {{before}}'s {written}"
        missed = f"{{before}} did not observe {{after}}'s {written}"
        return f"{missed}, which began after the write that it observed had ended" if kind == RW_REALTIME else missed

    # --- what is decided per transaction

    def accesses(self, n: int) -> KeyAccess:
        """The versions that a transaction read and wrote, by number."""
        t = self.transactions[n]
        reads: dict[Hashable, int] = {}
        writes: dict[Hashable, int] = {}
        touched: set[Hashable] = set()
        for f, k, value in t.ops:
            number = self.numbers.get((k, value))
            if number is not None and k not in self.ambiguous:
                if f != "r":
                    writes[k] = number
                elif k not in touched and t.status == "ok":
                    reads[k] = number
            touched.add(k)
        return KeyAccess(reads, writes)

    @cached_property
    def _chain(self) -> dict[int, tuple[int, int]]:
        """Version → the first of its chain, and its distance from it. Where chains branch (a lost update), nothing is known."""
        chain: dict[int, tuple[int, int]] = {}
        later = {w for after in self.next for w in after}
        for start in range(len(self.versions)):
            version, depth = start, 0
            while start not in later and version not in chain:
                chain[version] = (start, depth)
                if len(self.next[version]) == 1:
                    version, depth = self.next[version][0], depth + 1
        return chain

    def older(self, a: int, b: int) -> bool:
        """The initial version precedes every other; of two others, ``b`` was written after reading ``a``, directly or through others."""
        if self.versions[a].value is None or self.versions[b].value is None:
            return self.versions[a].value is None and self.versions[b].value is not None
        if a not in self._chain or b not in self._chain:
            return False
        (first, depth), (second, further) = self._chain[a], self._chain[b]
        return first == second and depth < further

    def older_in_session(self, a: int, b: int) -> bool:
        """The same; also of two that one process wrote, the first one."""
        first, second = self.versions[a].writer, self.versions[b].writer
        if self.older(a, b) or first < 0 or second < 0:
            return self.older(a, b)
        t, u = self.transactions[first], self.transactions[second]
        return t.process == u.process and t.start < u.start and not (self.failed[first] or self.failed[second])

    def value(self, key: Hashable, version: int) -> Any:
        """The value that a version is."""
        return self.versions[version].value


def register_history(transactions: Sequence[Transaction]) -> RegisterHistory:
    """What the transactions say of each key; no anomaly is looked for."""
    versions: list[RegisterVersion] = []
    numbers: dict[tuple[Hashable, Any], int] = {}
    last: dict[Hashable, dict[int, int]] = {}
    ambiguous: set[Hashable] = set()
    undecided: list[str] = []

    def number(v: RegisterVersion) -> int:
        found = numbers.setdefault((v.key, v.value), len(versions))
        if found == len(versions):
            versions.append(v)
        return found

    for n, t in enumerate(transactions):
        for f, k, value in t.ops:
            if f == "r":
                continue
            if (k, value) in numbers or value is None:
                ambiguous.add(k)
                undecided.append(
                    f"{quote(value)} was written to key {quote(k)} twice or is its initial value, so the versions of "
                    "that key do not identify a writer"
                )
            before = last.setdefault(k, {}).get(n)
            if before is not None:
                old = versions[before]
                versions[before] = RegisterVersion(k, old.value, old.writer, intermediate=True)
            last[k][n] = number(RegisterVersion(k, value, n))
    first_reads: list[RegisterRead] = []
    rereads: list[RegisterRead] = []
    for n, t in enumerate(transactions):
        state: dict[Hashable, Any] = {}
        for f, k, value in t.ops if t.status == "ok" else ():
            if f == "r" and k in state:
                rereads.append(RegisterRead(n, k, value, state[k]))
            elif f == "r" and k not in ambiguous:
                number(RegisterVersion(k, value))
                first_reads.append(RegisterRead(n, k, value))
            state[k] = value
    return RegisterHistory(
        tuple(transactions),
        tuple(undecided),
        versions,
        numbers,
        last,
        first_reads,
        rereads,
        frozenset(ambiguous),
    )


# --- anomalies that are no cycles


def internal_cases(h: RegisterHistory) -> Iterator[Case]:
    """Reads that disagree with what their transaction had read or written before."""
    for r in h.rereads:
        if r.value != r.expected:
            yield Case("internal", (h.transactions[r.reader],), r.key, r.value, against=r.expected)


def garbage_read_cases(h: RegisterHistory) -> Iterator[Case]:
    """Reads of what nobody wrote."""
    for r in h.first_reads:
        if h.defect(r) == "garbage-read":
            yield Case("garbage-read", (h.transactions[r.reader],), r.key, r.value)


def future_read_cases(h: RegisterHistory) -> Iterator[Case]:
    """Reads of what the reader itself wrote only later."""
    for r in h.first_reads:
        if h.defect(r) == "future-read":
            yield Case("future-read", (h.transactions[r.reader],), r.key, r.value)


def g1a_cases(h: RegisterHistory) -> Iterator[Case]:
    """Reads of what a failed transaction wrote, and which."""
    for r in h.first_reads:
        if h.defect(r) == "G1a":
            yield Case("G1a", (h.transactions[r.reader], h.transactions[h.writer(r)]), r.key, r.value)


def g1b_cases(h: RegisterHistory) -> Iterator[Case]:
    """Reads of a value that its transaction overwrote itself."""
    for r in h.first_reads:
        v = h.versions[h.numbers[r.key, r.value]]
        if v.intermediate and h.defect(r) is None:
            yield Case("G1b", (h.transactions[r.reader], h.transactions[v.writer]), r.key, r.value)


def lost_update_cases(h: RegisterHistory) -> Iterator[Case]:
    """Transactions that read the same version of a key and wrote it ([Berenson 1995] P4)."""
    for v, after in zip(h.versions, h.next, strict=True):
        if len(after) > 1 and v.key not in h.ambiguous:
            yield Case("lost-update", tuple(h.transactions[h.versions[w].writer] for w in after), v.key, v.value)


REGISTER_FINDERS = (internal_cases, garbage_read_cases, future_read_cases, g1a_cases, g1b_cases, lost_update_cases)
"""All of them."""
