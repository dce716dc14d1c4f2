"""How rare each interleaving of a run's operations still is, for an order by coverage (``nemesis.order.coverage``)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from checkers.coverage.pair import Pair, Phase, Placement, TableSetup
from checkers.coverage.possible import KindByEngine, placements
from workloads.generator import PlannedOperation
from workloads.operations.keys import part_of
from workloads.operations.kinds import KINDS
from workloads.tables import TableSpec


class _Op(NamedTuple):
    """An operation as its arguments say: ids that it names, and partitions (None: any)."""

    actor: KindByEngine
    table: TableSpec
    ids: frozenset[int]
    parts: frozenset[int] | None


class Rarities:
    """As :class:`nemesis.order.coverage.Worth`. Where two operations work beside each other follows from their arguments; where these do not
    decide it, the rarest place that is possible counts.

    Args:
        seen: interleaving → how often it was exercised before this run.
    """

    def __init__(self, seen: Mapping[Pair, int]) -> None:
        self._seen = Counter(seen)
        self._ops: dict[str, _Op] = {}

    def invokes(self, op: str, planned: PlannedOperation, engine: str) -> None:
        """An operation that will be invoked now."""
        kind, table = KINDS[planned.f], planned.table
        if not kind.commits:
            return
        touched = kind.touches(planned.value, table)
        among = touched.among
        named = frozenset(part_of(i, table) for i in touched.named)
        self._ops[op] = _Op(
            KindByEngine(kind, engine), table, frozenset(touched.named), None if among is None else named | among
        )

    def kind(self, op: str) -> str | None:
        """As :meth:`nemesis.order.coverage.Worth.kind`."""
        return self._ops[op].actor.label if op in self._ops else None

    def table(self, op: str) -> str:
        """As :meth:`nemesis.order.coverage.Worth.table`."""
        return self._ops[op].table.name

    def rarity(self, first: str, phase: Phase, second: str) -> float:
        """As :meth:`nemesis.order.coverage.Worth.rarity`."""
        return max((1 / (1 + self._seen[p]) for p in self._pairs(first, phase, second)), default=0.0)

    def happened(self, first: str, phase: Phase, second: str) -> None:
        """As :meth:`nemesis.order.coverage.Worth.happened`."""
        self._seen.update(self._pairs(first, phase, second))

    def _pairs(self, first: str, phase: Phase, second: str) -> list[Pair]:
        a, b = self._ops.get(first), self._ops.get(second)
        if a is None or b is None:
            return []
        setup = TableSetup.of(a.table)
        return [Pair(a.actor.label, phase, b.actor.label, where, setup) for where in _places(a, b)]


def _places(a: _Op, b: _Op) -> tuple[Placement, ...]:
    """Where the second may work, seen from the first."""
    possible = placements(a.actor, b.actor, a.table)
    if possible == ("whole table",):
        return possible
    near: tuple[Placement, ...]
    if a.ids & b.ids:
        near = ("same row",)
    elif a.parts is None or b.parts is None or not a.table.partitioned or a.parts & b.parts:
        near = ("same file", "same partition")
    else:
        near = ("other partition",)
    return tuple(p for p in near if p in possible) or possible
