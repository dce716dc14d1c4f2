"""What all transaction histories share, whatever the data type: their order in time, and what is decided per transaction.

Two levels are not defined by cycles of the dependency graph; who read what decides them ([Bailis 2014], [Biswas Enea 2019]). The same
holds for the session guarantees ([Terry 1994])::

    fractured-read   T2 ──wr──► T3      and T3 read a version of some key that is older than T2's
    causality        T2 ─wr─► … ─wr─► T3   the same, through others

All of them are cycles too, so only transactions on cycles are examined.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from checkers.isolation.graph import PROCESS, REALTIME, WR, Graph, GraphBuilder, Ints
from checkers.isolation.transactions import Finding, Findings, Transaction
from checkers.timeline import explain

ANCESTRY = 5_000_000
"""The most edges to search for violations of causality."""


class Access(NamedTuple):
    """Key → version: of its first external read, and of its last write. :meth:`Observed.older` compares versions."""

    reads: dict[Hashable, int]
    writes: dict[Hashable, int]


def quote(v: object) -> str:
    """A key or a value in an explanation."""
    return explain.value(v)


def brief(v: Sequence[Any]) -> str:
    """A list in an explanation, shortened to its last elements: they matter most."""
    most = 12
    if len(v) <= most:
        return "[" + ", ".join(map(quote, v)) + "]"
    return f"[… {len(v) - most} more …, " + ", ".join(map(quote, v[-most:])) + "]"


class Observed(ABC):
    """Transactions, and what can be inferred from them."""

    def __init__(self, transactions: Sequence[Transaction]) -> None:
        self.transactions = transactions
        self.found = Findings()
        self.undecided: list[str] = []
        self.failed = [t.status == "fail" for t in transactions]
        self.committed = [t.status == "ok" for t in transactions]
        self._places: dict[Hashable, dict[Any, int]] = {}

    @abstractmethod
    def infer(self) -> GraphBuilder:
        """The data dependencies; anomalies that are not cycles go to ``found``."""

    @abstractmethod
    def why_data(self, before: int, after: int, kind: int, at: int) -> str:
        """Why one transaction depends on another, as a clause about ``{before}`` and ``{after}``."""

    @abstractmethod
    def accesses(self, n: int) -> Access:
        """What a committed transaction read and wrote, as far as the versions are known."""

    def older(self, a: int, b: int) -> bool:
        """Whether version ``a`` of a key is known to come before version ``b`` of the same key."""
        return a < b

    @abstractmethod
    def what(self, key: Hashable, version: int) -> str:
        """A version of a key, in words."""

    # --- time

    def order_in_time(self, g: GraphBuilder) -> None:
        """Adds process and real-time edges: failed transactions have none, crashed ones never ended."""
        n = np.flatnonzero(~np.array(self.failed, dtype=bool))
        at = n.tolist()
        starts = np.array([self.transactions[i].start for i in at], dtype=np.int64)
        ends = np.array([self._end(i) for i in at], dtype=np.int64)
        numbers: dict[Hashable, int] = {}
        processes = np.array(
            [numbers.setdefault(self.transactions[i].process, len(numbers)) for i in at], dtype=np.int64
        )
        low = min(0, int(starts.min(initial=0)))  # times may be negative; -1 means never
        g.realtime(n, starts - low, np.where(ends == _NEVER, -1, ends - low))
        g.sessions(n, processes, starts, np.where(ends == _NEVER, -1, ends - low))

    def _end(self, n: int) -> int:
        t = self.transactions[n]
        return t.end if t.status == "ok" and t.end is not None else _NEVER

    # --- words

    def id(self, n: int) -> Hashable:
        """The id of a transaction."""
        return self.transactions[n].id

    def show(self, n: int) -> str:
        """A transaction, in words."""
        t = self.transactions[n]
        most = 8
        ops = [f"{f} {quote(k)} {brief(v) if isinstance(v, list | tuple) else quote(v)}" for f, k, v in t.ops[:most]]
        if len(t.ops) > most:
            ops.append(f"and {len(t.ops) - most} more")
        status = "" if t.status == "ok" else f", {t.status}"
        return f"{t.id} (process {t.process}{status}): {'; '.join(ops)}"

    def why(self, before: int, after: int, kind: int, at: int) -> tuple[int, str]:
        """See ``cycles.Explainer``."""
        if kind == PROCESS:
            return kind, f"process {self.transactions[before].process} executed {{before}} before {{after}}"
        if kind == REALTIME:
            a, b = self.transactions[before], self.transactions[after]
            return kind, f"{{before}} had ended at {a.end} when {{after}} began at {b.start}"
        return kind, self.why_data(before, after, kind, at)

    # --- what is decided per transaction

    def atomicity(self, g: Graph, component: Ints) -> None:
        """Finds fractured reads and violations of causality among transactions on cycles of data dependencies."""
        wr = g.of_kinds(WR)
        wr = wr.only(component[wr.src] >= 0)
        parents: dict[int, list[int]] = {}
        for a, b in zip(wr.src.tolist(), wr.dst.tolist(), strict=True):
            parents.setdefault(b, []).append(a)
        members = [n for n in np.flatnonzero(component >= 0).tolist() if n < len(self.transactions)]
        accesses = {n: self.accesses(n) for n in {*members, *wr.src.tolist()}}
        spent = 0
        for reader in members:
            reads = accesses[reader].reads
            if not reads or spent > ANCESTRY:
                continue
            direct = set(parents.get(reader, ()))
            way: dict[int, int] = dict.fromkeys(direct, reader)
            todo = list(direct)
            bad: int | None = None
            while todo:
                n = todo.pop(0) if len(todo) < 64 else todo.pop()
                missed = self._missed(reads, accesses[n].writes) if n != reader else None
                if missed is not None and (bad is None or n in direct):
                    bad = n
                    name = "fractured-read" if n in direct else "causality"
                    if name == "fractured-read":
                        break
                for m in parents.get(n, ()):
                    spent += 1
                    if m not in way:
                        way[m] = n
                        todo.append(m)
            if bad is not None:
                self._atomicity(reader, bad, way, accesses)

    def _missed(self, reads: dict[Hashable, int], writes: dict[Hashable, int]) -> Hashable | None:
        return next((k for k, v in writes.items() if k in reads and self.older(reads[k], v)), None)

    def _atomicity(self, reader: int, writer: int, way: dict[int, int], accesses: dict[int, Access]) -> None:
        name = "fractured-read" if way[writer] == reader else "causality"
        key = self._missed(accesses[reader].reads, accesses[writer].writes)

        def explain() -> Finding:
            line = [writer]
            while line[-1] != reader:
                line.append(way[line[-1]])
            through = (
                "read from it"
                if len(line) == 2
                else f"read from it through {', '.join(str(self.id(n)) for n in line[1:-1])}"
            )
            return Finding(
                name,
                tuple(self.id(n) for n in reversed(line)),
                f"{self.show(reader)} {through}: {self.show(writer)}. But it read {self.what(key, accesses[reader].reads[key])}, "
                "which is older than what that transaction wrote.",
                key=key,
            )

        self.found.add(name, explain)

    def sessions(self, component: Ints) -> None:
        """Finds broken session guarantees, key by key, in the processes of transactions on any cycle."""
        whose = {
            self.transactions[n].process for n in np.flatnonzero(component >= 0).tolist() if n < len(self.transactions)
        }
        if not whose:
            return
        lines: dict[Hashable, list[int]] = {}
        for n, t in enumerate(self.transactions):
            if t.process in whose and t.status == "ok":
                lines.setdefault(t.process, []).append(n)
        for line in lines.values():
            self._session(sorted(line, key=lambda n: self.transactions[n].start))

    def _session(self, line: Iterable[int]) -> None:
        read: dict[Hashable, tuple[int, int]] = {}
        written: dict[Hashable, tuple[int, int]] = {}
        for n in line:
            reads, writes = self.accesses(n)
            for now, before, name, verb in (
                (reads, read, "non-monotonic-read", "had read"),
                (reads, written, "read-your-writes", "had written"),
                (writes, written, "non-monotonic-write", "had written"),
                (writes, read, "writes-follow-reads", "had read"),
            ):
                for k, v in now.items():
                    if k in before and self.older(v, before[k][0]):
                        self._broken(name, n, before[k][1], k, verb)
            for now, before in ((reads, read), (writes, written)):
                for k, v in now.items():
                    if k not in before or not self.older(v, before[k][0]):
                        before[k] = (v, n)

    def _broken(self, name: str, n: int, earlier: int, key: Hashable, verb: str) -> None:
        did = "read" if name in ("non-monotonic-read", "read-your-writes") else "wrote"
        text = (
            f"process {self.transactions[n].process} executed {self.show(earlier)}, then {self.show(n)}. The first {verb} a version of key "
            f"{quote(key)}, the second {did} an older one."
        )
        self.found.add(name, lambda: Finding(name, (self.id(n), self.id(earlier)), text, key=key))


_NEVER = -(1 << 62)
