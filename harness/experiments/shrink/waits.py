"""From a recorded order of requests to the waits of a scenario: which operation is invoked after what, and which one is held until when.

A scenario can stop an operation at one request: its *gate*. What the operation asks before the gate is one block, the rest another; an
operation without a gate is one block. Requests *conflict* if they are of two operations, concern the same table, and one of them is a
commit (Bernstein, Hadzilacos, Goodman, Concurrency Control and Recovery in Database Systems, 1987, section 2.3). A block comes before
another one if a request of it comes before a request of the other one that conflicts with it. Where no block comes, by others, before
itself, the blocks can run one after the other with the same result; one wait for each pair of blocks that follow each other enforces that.

As few gates as possible are looked for. Where one gate for each operation is not enough, only the order of the commits is kept, and
what is lost is said.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise, product
from typing import Literal

When = dict[str, Literal["held", "completed"]]
MOST_TRIED = 5_000
"""Sets of gates that are tried."""


@dataclass(frozen=True, slots=True)
class OrderedRequest:
    """One request of an operation, as its place in the order matters.

    Attributes:
        op: the operation.
        tables: the tables that it concerns.
        commits: whether it may change them.
    """

    op: str
    tables: frozenset[str]
    commits: bool

    def conflicts(self, other: OrderedRequest) -> bool:
        """Whether it matters which of the two comes first."""
        return self.op != other.op and (self.commits or other.commits) and not self.tables.isdisjoint(other.tables)


@dataclass(frozen=True, slots=True)
class HoldPoint:
    """Where an operation is held.

    Attributes:
        nth: which of its requests, from 0.
        carried_out: whether the service has carried that request out while the operation is held: its answer waits.
        late: whether the operation goes on at once and only that request is held: the request stands twice in the order, and
            ``nth`` is its second place.
    """

    nth: int
    carried_out: bool = False
    late: bool = False


@dataclass(frozen=True)
class Waits:
    """The waits of a scenario.

    Attributes:
        gates: operation → where it is held.
        after: operation → what it waits for before it is invoked.
        hold: operation → until when it is held.
        lost: pairs of conflicting requests, by their places in the order, whose order these waits do not enforce.
    """

    gates: Mapping[str, HoldPoint]
    after: Mapping[str, When]
    hold: Mapping[str, When]
    lost: tuple[tuple[int, int], ...] = ()


_Block = tuple[str, int]
"""An operation, and 0 or 1: before its gate (or all of it), from its gate on."""
_Edges = Mapping[_Block, set[_Block]]


def waits(
    writers: Mapping[str, int], order: Sequence[OrderedRequest], faults: Mapping[str, HoldPoint] | None = None
) -> Waits:
    """The waits that enforce an order.

    Args:
        writers: operation → its writer; a writer's operations in the order in which it invokes them.
        order: the requests in the order in which they passed.
        faults: operation → the request that a fault strikes: its gate is there.
    """
    forced = dict(faults or {})
    pairs = [(i, k) for i, a in enumerate(order) for k in range(i + 1, len(order)) if a.conflicts(order[k])]
    commits = [(i, k) for i, k in pairs if order[i].commits and order[k].commits]
    last = {a.op: i for i, a in enumerate(order)}
    for kept in (pairs, commits, [p for p in pairs if {*p} <= {*last.values()}]):
        found = next(_acyclic(writers, order, kept, forced), None)
        if found is not None:
            gates, edges = found
            return _written(writers, gates, edges, tuple(_lost(order, pairs, gates, edges)))
    gates = forced
    edges = _edges(writers, order, (), gates)
    return _written(writers, gates, edges, tuple(_lost(order, pairs, gates, edges)))


def _acyclic(
    writers: Mapping[str, int],
    order: Sequence[OrderedRequest],
    pairs: Sequence[tuple[int, int]],
    forced: Mapping[str, HoldPoint],
) -> Iterator[tuple[Mapping[str, HoldPoint], _Edges]]:
    """Sets of gates, the smallest first, with which no block comes before itself."""
    entangled = _entangled(_edges(writers, order, pairs, forced))
    free = {op: places for op in entangled if op not in forced and (places := _places(op, order, pairs))}
    tried = 0
    for n in range(len(free) + 1):
        for ops in combinations(free, n):
            for chosen in product(*(free[op] for op in ops)):
                tried += 1
                if tried > MOST_TRIED:
                    return
                gates = {**forced, **{op: HoldPoint(nth) for op, nth in zip(ops, chosen, strict=True)}}
                edges = _edges(writers, order, pairs, gates)
                if not _entangled(edges):
                    yield gates, edges


def _places(op: str, order: Sequence[OrderedRequest], pairs: Iterable[tuple[int, int]]) -> list[int]:
    """The requests of an operation, from 0, before which something came that the one before them did not see; commits first."""
    own = [i for i, a in enumerate(order) if a.op == op]
    others = sorted({i for pair in pairs for i in pair if op in (order[pair[0]].op, order[pair[1]].op)} - {*own})
    found = [n for n, (a, b) in enumerate(pairwise(own), 1) if any(a < i < b for i in others)]
    return sorted(found, key=lambda n: (not order[own[n]].commits, n))


def _block_of(order: Sequence[OrderedRequest], gates: Mapping[str, HoldPoint]) -> list[_Block]:
    """The block of each request."""
    seen: dict[str, int] = {}
    out: list[_Block] = []
    for a in order:
        nth = seen.get(a.op, -1) + 1
        seen[a.op] = nth
        gate = gates.get(a.op)
        later = gate is not None and ((nth == gate.nth and not gate.carried_out) or (nth > gate.nth and not gate.late))
        out.append((a.op, int(later)))
    return out


def _edges(
    writers: Mapping[str, int],
    order: Sequence[OrderedRequest],
    pairs: Iterable[tuple[int, int]],
    gates: Mapping[str, HoldPoint],
) -> _Edges:
    """Block → the blocks that come after it."""
    edges: dict[_Block, set[_Block]] = {(op, n): set() for op in writers for n in range(1 + (op in gates))}
    for a, b in _free(writers, gates):
        edges[a].add(b)
    block = _block_of(order, gates)
    for i, k in pairs:
        edges[block[i]].add(block[k])
    return edges


def _free(writers: Mapping[str, int], gates: Mapping[str, HoldPoint]) -> Iterator[tuple[_Block, _Block]]:
    """Blocks that follow each other without any wait: those of an operation, and a writer's operations."""
    for op in gates:
        yield (op, 0), (op, 1)
    before: dict[int, str] = {}
    for op, writer in writers.items():
        if writer in before:
            last = before[writer]
            yield (last, int(last in gates and not gates[last].late)), (op, 0)
        before[writer] = op


def _reached(edges: _Edges, start: _Block) -> set[_Block]:
    """The blocks that come after one; itself, too, if it comes after itself."""
    found: set[_Block] = set()
    queue = [*edges[start]]
    while queue:
        block = queue.pop()
        if block not in found:
            found.add(block)
            queue += edges[block]
    return found


def _entangled(edges: _Edges) -> list[str]:
    """The operations with a block that comes before itself."""
    return list(dict.fromkeys(block[0] for block in edges if block in _reached(edges, block)))


def _written(
    writers: Mapping[str, int], gates: Mapping[str, HoldPoint], edges: _Edges, lost: tuple[tuple[int, int], ...]
) -> Waits:
    """The edges that no others imply, as waits."""
    free = {*_free(writers, gates)}
    after: dict[str, When] = {}
    hold: dict[str, When] = {}
    for a, following in edges.items():
        for b in sorted(following):
            implied = any(b in _reached(edges, c) for c in following if c != b)
            if implied or (a, b) in free:
                continue
            gate = gates.get(a[0])
            if gate is not None and gate.late and a[1]:
                continue  # a scenario has no moment for it
            moment: Literal["held", "completed"] = "held" if gate is not None and a[1] == 0 else "completed"
            (hold if b[1] else after).setdefault(b[0], {})[a[0]] = moment
    for op, gate in gates.items():
        if gate.late and op not in hold:
            hold[op] = {op: "completed"}
    return Waits(dict(gates), after, hold, lost)


def _lost(
    order: Sequence[OrderedRequest], pairs: Iterable[tuple[int, int]], gates: Mapping[str, HoldPoint], edges: _Edges
) -> Iterator[tuple[int, int]]:
    """The conflicting pairs whose order the edges do not enforce."""
    block = _block_of(order, gates)
    late = {(op, 1) for op, gate in gates.items() if gate.late}
    kept = {a: {*following} if a not in late else set() for a, following in edges.items()}
    after = {b: _reached(kept, b) for b in kept}
    for i, k in pairs:
        if block[k] not in after[block[i]]:
            yield i, k
