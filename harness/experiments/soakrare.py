"""Turns of a night that seeks rare interleavings (``turns: rare``): half of the runs are even, the other half goes where more is left to see.

In a round, a stack with k cells makes 2 k runs one after the other: first one of each of its cells, so that no cell starves, then k that are
drawn, each cell with a chance in proportion to its weight, asked anew at each draw. Stacks have their rounds in turn. A draw depends on the
night's seed, the cells of the runs so far and the weights; so a night that is continued draws as one that was never stopped, as its ledger
is on disk, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from checkers.coverage.pair import Pair
from checkers.coverage.possible import of_workload, rarity
from harness.experiments.soakturns import NightTurns, Stack
from workloads.file.suite import Cell
from workloads.file.workload import Workload

EVEN = 2
"""One of so many runs of a stack goes to its cells in turn."""


def rarity_of(workloads: Mapping[Cell, Workload], seen: Callable[[], Mapping[Pair, int]]) -> Callable[[Cell], float]:
    """Cell → how rare its interleavings still are, 0 … 1: a weight for :class:`RareTurns`.

    Args:
        seen: interleaving → how often, in the runs of the night so far.
    """
    possible: dict[Cell, frozenset[Pair]] = {}

    def weight(cell: Cell) -> float:
        if cell not in possible:
            possible[cell] = of_workload(workloads[cell])
        return rarity(possible[cell], seen())

    return weight


@dataclass
class RareTurns(NightTurns):
    """The turns of such a night.

    Args:
        made: the cells of the runs so far that count, in their order.
    """

    made: Callable[[], Sequence[Cell]] = field(default=lambda: ())

    def next(self, counts: Mapping[Cell, int], on: Stack | None = None) -> Cell | None:
        """As :meth:`NightTurns.next`."""
        live = self._live()
        if not live:
            return None
        rounds = {s: self._round(s, counts)[0] for s in dict.fromkeys(c.stack for c in live)}
        ready = [s for s in rounds if s not in self._waits]
        others = min((rounds[s] for s in ready), default=None)
        ready += [s for s in rounds if s in self._waits and (others is None or others > self._waits[s])]
        lowest = min(rounds[s] for s in ready)
        due = [s for s in ready if rounds[s] == lowest]
        if on not in due:
            heavy = {s: sum(self.weight(c) for c in live if c.stack == s) for s in due}
            on = self._first([(s, "/".join(s), heavy[s]) for s in due], lowest)
        own = [c for c in live if c.stack == on]
        _, place = self._round(on, counts)
        earlier = [c for c in self.made() if c.stack == on]
        now = earlier[len(earlier) - place :]
        remaining = [c for c in own if c not in now]
        among = remaining if place < len(own) and remaining else own
        return self._first([(c, f"{place}/{c.name}", self.weight(c)) for c in among], lowest)

    def _round(self, stack: Stack, counts: Mapping[Cell, int]) -> tuple[int, int]:
        """The round in which a stack is, and its runs in it so far."""
        own = [c for c in self.cells if c.stack == stack]
        return divmod(sum(counts.get(c, 0) for c in own), EVEN * len(own))

    def failed(self, stack: Stack, counts: Mapping[Cell, int]) -> bool:
        """As :meth:`NightTurns.failed`."""
        given_up = super().failed(stack, counts)
        others = {c.stack for c in self._live() if c.stack != stack and c.stack not in self._waits}
        self._waits[stack] = min((self._round(s, counts)[0] for s in others), default=0)
        return given_up
