"""Cycles: which exist, the shortest of each sort, their names, and why each is a contradiction.

Adya's anomalies are cycles of the dependency graph made of certain edges only. So each is searched in the graph that has only these
edges, component by component, the worst first. With D = ww and wr edges: first for data alone, then with process edges, then with
real time:

==================== ========================================== =============================================================
G0                   ww only                                    write cycle
G1c                  D only                                     circular information flow
G-single             D and exactly one rw                       read skew; lost update if on a single key
G-nonadjacent        rw edges, no two in succession             long fork
G2-item, G2          any; G2: at least one rw of a predicate    write skew; phantoms
==================== ========================================== =============================================================

*No two in succession* (what snapshot isolation forbids: [Cerone Gotsman 2016]) is reachability in a graph of two layers: an rw edge
leads from layer 0 to layer 1; layer 1 has no rw edges, and the others lead back to layer 0. Components decide exactly whether such
cycles exist; the search for the shortest has a budget.

An anomaly hides those that it implies in its component: a G-single is not reported as a G2 too.

**Mixed levels.** Where some transactions are promised serializability and others snapshot isolation (these are *loose*), a loose one reads
at one moment and commits at a later one; any other does both at once. An anti-dependency u → v says that u reads before v commits, every
other edge u → v that u commits before v reads. So a walk goes on through every transaction but one: a loose one that it reached by an
anti-dependency and leaves by another. A cycle contradicts the promises just if it has no two anti-dependencies in succession that meet
in a loose transaction: every cycle if none is loose, those of snapshot isolation if all are. (Adya's mixing theorem has the same idea:
only the conflicts that matter at a transaction's own level are edges; A. Adya, Weak Consistency, 5.5.)
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from itertools import pairwise
from operator import or_

import numpy as np

from checkers.isolation.graph import (
    KIND_NAMES,
    PROCESS,
    REALTIME,
    RW,
    RW_REALTIME,
    RWP,
    THROUGH,
    WR,
    WW,
    Bools,
    Graph,
    Ints,
    components,
    shortest_path,
)
from checkers.isolation.levels import closure
from checkers.isolation.transactions import CycleEdge, IsolationFinding

BUDGET = 2_000_000
"""The most edges to search for a cycle shorter than the first one found."""
STARTS = 48
"""The most transactions of a component from which to search a cycle."""
PER_SORT = 50
"""The most components in which to search cycles of one sort; there may be thousands, all alike."""

Explainer = Callable[[int, int, int, int], tuple[int, str]]
"""(before, after, kind, version) → (the exact kind, the reason: a clause with ``{before}`` and ``{after}`` for their names)."""


@dataclass(frozen=True, slots=True)
class Cycle:
    """Transactions, and the edge from each to the next (kind, version); the last leads to the first."""

    nodes: tuple[int, ...]
    edges: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class _Sort:
    name: str
    depends: int
    anti: int
    mode: str  # plain, single, apart


_VARIANTS = (("", 0, 0), ("-process", PROCESS, 0), ("-realtime", PROCESS | REALTIME, RW_REALTIME))
_D = WW | WR
_SORTS = {
    f"{name}{suffix}": _Sort(f"{name}{suffix}", depends | more, anti | (also if anti else 0), mode)
    for suffix, more, also in _VARIANTS
    for name, depends, anti, mode in (
        ("G0", WW, 0, "plain"),
        ("G1c", _D, 0, "plain"),
        ("G-single", _D, RW, "single"),
        ("G-single-predicate", _D, RW | RWP, "single"),
        ("G-nonadjacent", _D, RW, "apart"),
        ("G-nonadjacent-predicate", _D, RW | RWP, "apart"),
        ("G2-item", _D, RW, "plain"),
        ("G2", _D, RW | RWP, "plain"),
    )
}


def find_cycles(g: Graph, loose: Bools | None = None) -> Iterator[tuple[str, Cycle]]:
    """Every anomaly that is a cycle, the worst first: at most one of each sort in a component. Nothing when the graph is acyclic.

    Args:
        loose: of each transaction, whether it was promised snapshot isolation only. Then only cycles that contradict the promises are
            searched: without two successive anti-dependencies that meet in a loose one.
    """
    whole = components(g)
    if not (whole >= 0).any():
        return
    g = g.inside(whole)
    found: list[tuple[frozenset[str], frozenset[int]]] = []

    def implied(name: str, component: frozenset[int]) -> bool:
        return any(name in names and nodes <= component for names, nodes in found)

    for sort in _SORTS.values():
        for component, cycle in _of_sort(g, sort, loose, partial(implied, sort.name)):
            name = name_of([k for k, _ in cycle.edges])
            if not implied(name, component):
                found.append((closure([name]), frozenset(cycle.nodes)))
                yield name, cycle


def cycle_cases(g: Graph, name: str) -> list[Cycle]:
    """Of each component that has cycles of a sort, the shortest, whether or not it also has worse ones.

    Args:
        name: one of ``levels.CYCLES`` with one of ``levels.VARIANTS``: which edges a cycle may have.
    """
    return [cycle for _, cycle in _of_sort(g, _SORTS[name], None, lambda _: False)]


def _of_sort(
    g: Graph, sort: _Sort, loose: Bools | None, skip: Callable[[frozenset[int]], bool]
) -> Iterator[tuple[frozenset[int], Cycle]]:
    """The nodes of each component with a cycle of a sort, and the shortest one."""
    if sort.anti and not (g.kind & sort.anti).any():
        return
    sub = g.of_kinds(sort.depends | sort.anti | THROUGH)
    if sort.mode == "plain" and (loose is None or not sort.anti):
        search, width = sub, 1
    else:
        search, width = _layered(sub, sort.anti, loose if sort.mode == "plain" else None), 2
    searched = 0
    for group in _groups(components(search)):
        nodes = frozenset((group // width).tolist())
        if skip(nodes):
            continue
        searched += 1
        if searched > PER_SORT:
            return
        inside = np.full(search.size, -1, dtype=np.int64)
        inside[group] = 0
        cycle = _search(search.inside(inside), group, width, sort)
        if cycle is not None:
            yield nodes, cycle


def _groups(members: Ints) -> list[Ints]:
    """The nodes of each component."""
    order = np.argsort(members, kind="stable")
    order = order[np.searchsorted(members[order], 0) :]
    return np.split(order, np.cumsum(np.bincount(members[order]))[:-1]) if len(order) else []


def _layered(g: Graph, anti: int, loose: Bools | None = None) -> Graph:
    """Node u becomes 2u (reached by a dependency) and 2u + 1 (reached by an anti-dependency, must not leave by another).

    ``loose``: the transactions that must not be left so; None: all.
    """
    stays = np.ones(g.size, dtype=bool)
    if loose is not None:
        stays[: g.transactions] = loose
    is_anti = (g.kind & anti) != 0
    through = (g.kind & THROUGH) != 0
    s, d = g.src * 2, g.dst * 2
    parts = (
        (s, d + (is_anti & stays[g.dst]), np.ones(len(s), dtype=bool)),  # from layer 0 by any edge
        (s + 1, d + (through & stays[g.dst]), ~is_anti),  # from layer 1 by a dependency
    )
    src = np.concatenate([a[keep] for a, _, keep in parts])
    dst = np.concatenate([b[keep] for _, b, keep in parts])
    kind = np.concatenate([g.kind[keep] for _, _, keep in parts])
    keys = np.concatenate([g.version[keep] for _, _, keep in parts])
    return Graph(g.transactions, g.size * 2, src, dst, kind, keys)


def _search(g: Graph, group: Ints, width: int, sort: _Sort) -> Cycle | None:
    if sort.mode == "single":
        return _single(g, width, sort)
    by_source = g.adjacency()
    best: list[int] | None = None
    best_length, spent = 0, 0
    starts = [int(u) for u in group.tolist() if u // width < g.transactions]
    for u in starts[:STARTS]:
        path, seen = shortest_path(by_source, u, u, g.transactions, width)
        spent += seen
        if path is None:
            continue
        length = sum(1 for e in path if g.dst[e] // width < g.transactions)
        if best is None or length < best_length:
            best, best_length = path, length
        if best_length <= 2 or spent > BUDGET:
            break
    return None if best is None else _collapse(g, best, width)


def _single(g: Graph, width: int, sort: _Sort) -> Cycle | None:
    """A cycle with exactly one anti-dependency: a path from its end back to its start by dependencies alone."""
    is_anti = (g.kind & sort.anti) != 0
    flat = Graph(g.transactions, g.size, g.src // width * width, g.dst // width * width, g.kind, g.version)
    by_source = flat.only(~is_anti).adjacency()
    numbers = np.flatnonzero(~is_anti)
    best: tuple[int, list[int], int] | None = None
    spent, remaining = 0, BUDGET
    tried: set[tuple[int, int]] = set()
    for e in np.flatnonzero(is_anti).tolist():
        a, b = int(flat.src[e]), int(flat.dst[e])
        if (a, b) in tried:
            continue
        tried.add((a, b))
        path, seen = shortest_path(by_source, b, a, g.transactions, width, remaining)
        spent += seen
        remaining = BUDGET - spent
        if path is not None:
            ids = numbers[path].tolist()
            length = sum(1 for n in ids if flat.dst[n] // width < g.transactions)
            if best is None or length < best[0]:
                best = (length, [e, *ids], e)
        if remaining <= 0 or (best is not None and best[0] <= 1):
            break
    return None if best is None else _collapse(flat, best[1], width)


def _collapse(g: Graph, path: Sequence[int], width: int) -> Cycle:
    """The walk without its virtual nodes and inner cycles: one edge between two transactions."""
    first = next(n for n, e in enumerate(path) if g.src[e] // width < g.transactions)
    turned = [*path[first:], *path[:first]]
    nodes: list[int] = []
    edges: list[tuple[int, int]] = []
    kind, key = 0, -1
    start = int(g.src[turned[0]]) // width
    for e in turned:
        k = int(g.kind[e])
        if k != THROUGH:
            kind, key = k, int(g.version[e]) if int(g.version[e]) >= 0 else key
        v = int(g.dst[e]) // width
        if v < g.transactions:
            nodes.append(start)
            edges.append((kind, key))
            start, kind, key = v, 0, -1
    return Cycle(tuple(nodes), tuple(edges))


def name_of(kinds: Sequence[int]) -> str:
    """The name of a cycle of these edges, in this order.

    Example:
        >>> name_of([RW, RW]), name_of([RW, WW]), name_of([WW, REALTIME])
        ('G2-item', 'G-single', 'G0-realtime')
    """
    used = reduce(or_, kinds)
    anti = [bool(k & (RW | RWP | RW_REALTIME)) for k in kinds]
    if not any(anti):
        name = "G1c" if used & WR else "G0"
    elif sum(anti) == 1:
        name = "G-single"
    elif any(a and b for a, b in pairwise([*anti, anti[0]])):
        name = "G2-item"
    else:
        name = "G-nonadjacent"
    if used & RWP:
        name = _OF_PREDICATES[name]
    if used & (REALTIME | RW_REALTIME):
        return f"{name}-realtime"
    return f"{name}-process" if used & PROCESS else name


_OF_PREDICATES = {"G-single": "G-single-predicate", "G2-item": "G2", "G-nonadjacent": "G-nonadjacent-predicate"}


def explain_cycle(
    cycle: Cycle, ids: Callable[[int], Hashable], show: Callable[[int], str], why: Explainer
) -> IsolationFinding:
    """The finding of a cycle, named after the exact kinds of its edges.

    Args:
        ids: transaction number → id.
        show: transaction number → what it did, in words.
        why: see :data:`Explainer`.
    """
    label = {u: f"T{n}" for n, u in enumerate(dict.fromkeys(cycle.nodes), 1)}
    kinds: list[int] = []
    steps: list[CycleEdge] = []
    lines: list[str] = []
    for n, (u, (kind, key)) in enumerate(zip(cycle.nodes, cycle.edges, strict=True)):
        v = cycle.nodes[(n + 1) % len(cycle.nodes)]
        exact, reason = why(u, v, kind, key)
        because = reason.replace("{before}", label[u]).replace("{after}", label[v])
        kinds.append(exact)
        steps.append(CycleEdge(ids(u), ids(v), KIND_NAMES[exact], because))
        if n + 1 < len(cycle.nodes):
            lines.append(f"  - {label[u]} < {label[v]}, because {because}.")
        else:
            lines.append(f"  - However, {label[u]} < {label[v]}, because {because}: a contradiction!")
    let = [f"  {name} = {show(u)}" for u, name in label.items()]
    text = "\n".join(["Let:", *let, "Then:", *lines])
    return IsolationFinding(name_of(kinds), tuple(dict.fromkeys(ids(u) for u in cycle.nodes)), text, tuple(steps))


__all__ = ["BUDGET", "Cycle", "cycle_cases", "explain_cycle", "find_cycles", "name_of"]
