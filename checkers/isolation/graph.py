"""The direct serialization graph: who must come before whom, and why, as arrays of ints.

Nodes 0 … ``transactions`` - 1 are transactions, those above are *virtual*: each replaces a quadratic number of edges.
An edge has a kind (one bit) and ``at``, the version that proves it (its meaning is the graph builder's; -1 for none)::

    T1 ──ww──► T2      T2 installed the version after one of T1's                           (write depends)
    T1 ──wr──► T2      T2 read a version of T1's                                            (read depends)
    T1 ──rw──► T2      T1 read a version, T2 installed the next one                         (item anti-depends)
    T1 ──rwp─► T2      T2 changed the matches of a predicate that T1 read, and T1 missed it (predicate anti-depends)
    T1 ─proc─► T2      the same process executed T1, then T2
    T1 ──rt──► T2      T1 ended before T2 began

    R1 ──rw──►   ──through──► W1       every reader of the last known version comes before every writer of a later one:
    R2 ──rw──► V ──through──► W2       4 edges instead of 4, or 2 000 instead of a million

Real time is such a case: n transactions have up to n² pairs. A chain of virtual nodes, one for each moment when something ended before
something else began, carries the same order with 3n edges (Elle computes the transitive reduction, which is the same relation).

Most histories have no cycle, so the first step only decides that: Kahn's topological sort over the arrays, O(n + m). What it leaves
is searched for components (Tarjan's, iterative) and cycles.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Ints: TypeAlias = npt.NDArray[np.int64]
Bools: TypeAlias = npt.NDArray[np.bool_]

WW, WR, RW, RWP, PROCESS, REALTIME, THROUGH, RW_REALTIME = (1 << n for n in range(8))
"""Kinds of edges. ``RW_REALTIME``: the order of the two versions is known from real time only, so it is an rw edge if real time holds."""

KIND_NAMES = {
    WW: "ww",
    WR: "wr",
    RW: "rw",
    RWP: "rwp",
    PROCESS: "process",
    REALTIME: "realtime",
    RW_REALTIME: "rw",
}


@dataclass(frozen=True)
class Graph:
    """Edges ``src[i] → dst[i]`` of ``kind[i]``, proved by version ``at[i]``, between ``size`` nodes."""

    transactions: int
    size: int
    src: Ints
    dst: Ints
    kind: Ints
    version: Ints

    @property
    def edges(self) -> int:
        """The number of edges that are no part of another one."""
        return int(((self.kind & THROUGH) == 0).sum())

    def only(self, keep: npt.NDArray[np.bool_]) -> Graph:
        """The graph with only the selected edges."""
        return Graph(self.transactions, self.size, self.src[keep], self.dst[keep], self.kind[keep], self.version[keep])

    def promised(self, loose: Bools, unknown: Bools) -> Graph:
        """The graph with only the edges that promises imply.

        Args:
            loose: transactions that were promised snapshot isolation, without real time.
            unknown: transactions of which it is not known what they were promised: nothing follows from them.
        """
        free, bad = np.zeros(self.size, dtype=bool), np.zeros(self.size, dtype=bool)
        free[: self.transactions], bad[: self.transactions] = loose, unknown
        late = ((self.kind & REALTIME) != 0) & free[self.dst]
        return self.only(~(late | bad[self.src] | bad[self.dst]))

    def of_kinds(self, mask: int) -> Graph:
        """The graph with only the edges of these kinds."""
        return self.only((self.kind & mask) != 0)

    def inside(self, component: Ints) -> Graph:
        """The graph with only the edges within a component; ``component`` gives each node's component, -1 for none."""
        return self.only((component[self.src] >= 0) & (component[self.src] == component[self.dst]))

    def adjacency(self) -> Adjacency:
        """The same edges, by source."""
        order = np.argsort(self.src, kind="stable")
        starts = np.zeros(self.size + 1, dtype=np.int64)
        np.cumsum(np.bincount(self.src, minlength=self.size), out=starts[1:])
        return Adjacency(starts.tolist(), self.dst[order].tolist(), order.tolist())


@dataclass(frozen=True, slots=True)
class Adjacency:
    """Edges by source: those of node u are ``targets[starts[u]:starts[u + 1]]``; ``edges`` are their indices in the graph."""

    starts: list[int]
    targets: list[int]
    edges: list[int]


class GraphBuilder:
    """Collects edges in bulk, then makes a :class:`Graph`."""

    def __init__(self, transactions: int) -> None:
        self.transactions = transactions
        self.size = transactions
        self._parts: list[tuple[Ints, Ints, Ints, Ints]] = []
        self._single: list[tuple[int, int, int, int]] = []

    def node(self) -> int:
        """A new virtual node."""
        self.size += 1
        return self.size - 1

    def nodes(self, n: int) -> int:
        """``n`` new virtual nodes; the first of them."""
        self.size += n
        return self.size - n

    def edge(self, src: int, dst: int, kind: int, key: int = -1) -> None:
        """One edge; ignored when it leads from a node to itself."""
        if src != dst:
            self._single.append((src, dst, kind, key))

    def edges(self, src: Ints, dst: Ints, kind: int, keys: Ints | None = None) -> None:
        """Many edges of one kind; those from a node to itself are ignored."""
        where = np.full(len(src), -1, dtype=np.int64) if keys is None else keys
        keep = src != dst
        self._parts.append((src[keep], dst[keep], np.full(int(keep.sum()), kind, dtype=np.int64), where[keep]))

    def realtime(self, nodes: Ints, starts: Ints, ends: Ints) -> None:
        """Real time: ``ends`` < 0 when it is not certain that it ended. What ends at the moment another begins does not precede it."""
        ended = ends >= 0
        moments = np.unique(ends[ended])
        last = np.searchsorted(moments, starts, side="left") - 1  # the last moment strictly before each start
        used = np.unique(last[last >= 0])
        if not len(used):
            return
        first = self.nodes(len(used))
        into = np.searchsorted(used, np.searchsorted(moments, ends[ended], side="left"), side="left")
        exists = into < len(used)
        self.edges(nodes[ended][exists], first + into[exists], REALTIME)
        chain = first + np.arange(len(used), dtype=np.int64)
        self.edges(chain[:-1], chain[1:], REALTIME)
        after = last >= 0
        self.edges(first + np.searchsorted(used, last[after]), nodes[after], REALTIME)

    def in_time(
        self, nodes: Ints, processes: Iterable[Hashable], starts: Sequence[int], ends: Sequence[int | None]
    ) -> None:
        """Real time, and the order of each process' transactions; nothing follows from one that may not have ended (None)."""
        low = min(0, min(starts, default=0))  # times may be negative; -1 means never
        begun = np.array(starts, dtype=np.int64) - low
        ended = np.array([-1 if end is None else end - low for end in ends], dtype=np.int64)
        self.realtime(nodes, begun, ended)
        numbers: dict[Hashable, int] = {}
        process = np.array([numbers.setdefault(p, len(numbers)) for p in processes], dtype=np.int64)
        order = np.lexsort((begun, process))
        a, b = order[:-1], order[1:]
        follow = (process[a] == process[b]) & (ended[a] >= 0)
        self.edges(nodes[a[follow]], nodes[b[follow]], PROCESS)

    def graph(self) -> Graph:
        """The graph of all edges so far."""
        parts = list(self._parts)
        if self._single:
            s = np.array(self._single, dtype=np.int64)
            parts.append((s[:, 0], s[:, 1], s[:, 2], s[:, 3]))
        if not parts:
            none = np.zeros(0, dtype=np.int64)
            return Graph(self.transactions, self.size, none, none, none, none)
        src, dst, kind, keys = (np.concatenate([p[i] for p in parts]) for i in range(4))
        return Graph(self.transactions, self.size, src, dst, kind, keys)


def is_acyclic(g: Graph) -> bool:
    """Whether the graph has no cycle: Kahn's topological sort."""
    return not len(_core(g))


def _core(g: Graph) -> Ints:
    """Nodes that a topological sort does not reach: those on cycles, and those behind them."""
    by_source = g.adjacency()
    starts, targets = by_source.starts, by_source.targets
    degree = np.bincount(g.dst, minlength=g.size).tolist()
    todo = [u for u, d in enumerate(degree) if not d]
    while todo:
        u = todo.pop()
        for v in targets[starts[u] : starts[u + 1]]:
            d = degree[v] - 1
            degree[v] = d
            if not d:
                todo.append(v)
    return np.flatnonzero(np.array(degree, dtype=np.int64))


def components(g: Graph) -> Ints:
    """For each node its strongly connected component, numbered from 0; -1 when it is on no cycle (Tarjan, iterative)."""
    out = np.full(g.size, -1, dtype=np.int64)
    core = _core(g)
    if not len(core):
        return out
    inside = np.zeros(g.size, dtype=bool)
    inside[core] = True
    by_source = g.only(inside[g.src] & inside[g.dst]).adjacency()
    starts, targets = by_source.starts, by_source.targets
    index = dict.fromkeys(core.tolist(), 0)
    low: dict[int, int] = {}
    place: dict[int, int] = {}
    open_: list[int] = []
    counter, found = 0, 0
    for root in core.tolist():
        if index[root]:
            continue
        work = [root]
        while work:
            u = work[-1]
            if not index[u]:
                counter += 1
                index[u] = low[u] = counter
                place[u] = starts[u]
                open_.append(u)
            edge, end = place[u], starts[u + 1]
            while edge < end:
                v = targets[edge]
                edge += 1
                if not index[v]:
                    work.append(v)
                    break
                if v in low and low[v] < low[u]:
                    low[u] = low[v]
            place[u] = edge
            if work[-1] != u:
                continue
            work.pop()
            if work and low[u] < low[work[-1]]:
                low[work[-1]] = low[u]
            if low[u] == index[u]:
                members = _closed(u, open_, low)
                if len(members) > 1:
                    out[members] = found
                    found += 1
    return out


def _closed(root: int, open_: list[int], low: dict[int, int]) -> list[int]:
    """The component whose first node is ``root``; its nodes are no longer open."""
    members: list[int] = []
    while not members or members[-1] != root:
        members.append(open_.pop())
        del low[members[-1]]
    return members


def shortest_path(
    by_source: Adjacency, start: int, goal: int, transactions: int, width: int = 1, budget: int = 1 << 60
) -> tuple[list[int] | None, int]:
    """Edge indices of a path from ``start`` to ``goal`` through the fewest transactions, and how many edges were searched.

    A path has at least one edge: ``start`` may be ``goal``. ``width``: nodes are ``transaction * width + layer``. None when there is no
    path, or none was found within ``budget`` edges.
    """
    starts, targets, edges = by_source.starts, by_source.targets, by_source.edges
    cost: dict[int, int] = {}
    before: dict[int, tuple[int, int]] = {}
    seen = 0
    queue: deque[tuple[int, int]] = deque([(start, 0)])
    while queue:
        u, c = queue.popleft()
        if c > cost.get(u, c):
            continue
        if u == goal and u in before:
            break
        if seen > budget:
            return None, seen
        for n in range(starts[u], starts[u + 1]):
            seen += 1
            v = targets[n]
            real = v // width < transactions
            nc = c + 1 if real else c
            if v not in cost or nc < cost[v]:
                cost[v] = nc
                before[v] = (u, edges[n])
                if real:
                    queue.append((v, nc))
                else:
                    queue.appendleft((v, nc))
    if goal not in before:
        return None, seen
    path: list[int] = []
    node = goal
    while True:
        node, e = before[node]
        path.append(e)
        if node == start:
            break
    return path[::-1], seen
