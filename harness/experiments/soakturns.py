"""Whose turn it is in a soak: every cell once in each round, and in a round all cells of one warm stack before the next stack is started.

A stack that is ended within its round, as after faults of processes, goes on when the others have had as large a part of theirs.

A round is not stored: the cells with the fewest runs are its cells. Which of several stacks or cells comes first is drawn from the night's
seed, the round and its name, so a night that is continued draws as if it had never been stopped. Each run's seed comes from the night's seed,
its cell and its number in the same way.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeVar

from workloads.file.suite import Cell

T = TypeVar("T")

MOST_TRIES = 3
"""How often in succession a stack may fail to come up before it is given up."""
_LEAST = 1e-9
"""Stands for a weight of 0, by which nothing can be divided: such a cell comes last."""

Stack = tuple[str, ...]
"""Catalog, release and mode."""


def _alike(_: Cell) -> float:
    return 1.0


@dataclass
class NightTurns:
    """The turns of a night.

    Args:
        seed: the night's.
        order: ``listed`` draws nothing: stacks and cells come in the order of ``cells``.
        weight: a cell's chance to come early in its round, in proportion; asked at each draw. It does not change how often a cell runs.
    """

    cells: Sequence[Cell]
    seed: int
    order: Literal["drawn", "listed", "rare"] = "drawn"
    weight: Callable[[Cell], float] = _alike
    _tries: dict[Stack, int] = field(default_factory=dict)
    _waits: dict[Stack, int] = field(default_factory=dict)
    """Stack that failed → the round that the others were in; it waits until they have ended that round."""

    def next(self, counts: Mapping[Cell, int], on: Stack | None = None) -> Cell | None:
        """The cell whose turn it is; None if every stack was given up.

        Args:
            counts: runs of each cell so far.
            on: the stack that is up.
        """
        live = self._live()
        if not live:
            return None
        ready = [c for c in live if c.stack not in self._waits]
        others = min((counts.get(c, 0) for c in ready), default=None)
        back = {s for s, round_ in self._waits.items() if others is None or others > round_}
        ready += [c for c in live if c.stack in back]
        lowest = min(counts.get(c, 0) for c in ready)
        due = [c for c in ready if counts.get(c, 0) == lowest]
        stacks = list(dict.fromkeys(c.stack for c in due))
        if on not in stacks:
            stacks = self._behind(stacks, counts)
            heavy = {s: sum(self.weight(c) for c in due if c.stack == s) for s in stacks}
            on = self._first([(s, "/".join(s), heavy[s]) for s in stacks], lowest)
        return self._first([(c, c.name, self.weight(c)) for c in due if c.stack == on], lowest)

    def _behind(self, stacks: Sequence[Stack], counts: Mapping[Cell, int]) -> list[Stack]:
        """Those of these stacks that have had the smallest part of their turns: a stack is also ended within its round, and a short night is to
        see every catalog."""
        cells = {s: [c for c in self.cells if c.stack == s] for s in stacks}
        means = {s: sum(counts.get(c, 0) for c in own) / len(own) for s, own in cells.items()}
        return [s for s in stacks if means[s] == min(means.values())]

    def _live(self) -> list[Cell]:
        """The cells whose stack is not given up."""
        return [c for c in self.cells if self._tries.get(c.stack, 0) < MOST_TRIES]

    def _first(self, among: Iterable[tuple[T, str, float]], round_: int) -> T:
        """The first of several: (what, its name, its weight)."""
        found = list(among)
        if self.order == "listed":
            return found[0][0]
        return max(found, key=lambda f: self._chance(f"{round_}/{f[1]}", f[2]))[0]

    def _chance(self, name: str, weight: float) -> float:
        """A number by which to sort, so that each comes first with a probability in proportion to its weight (Efraimidis and Spirakis 2006)."""
        return float(random.Random(f"{self.seed}/{name}").random() ** (1 / max(weight, _LEAST)))

    def seed_of(self, cell: Cell, number: int) -> int:
        """The seed of a cell's run; ``number`` counts from 0."""
        digest = hashlib.sha256(f"{self.seed}/{cell.name}/{number}".encode()).digest()
        return int.from_bytes(digest[:8], "big") % 2**31

    def failed(self, stack: Stack, counts: Mapping[Cell, int]) -> bool:
        """A stack did not come up: the others go on, and it comes back when they have ended this round. True if it is given up."""
        self._tries[stack] = self._tries.get(stack, 0) + 1
        others = (counts.get(c, 0) for c in self._live() if c.stack != stack and c.stack not in self._waits)
        self._waits[stack] = min(others, default=0)
        return self._tries[stack] >= MOST_TRIES

    def came_up(self, stack: Stack) -> None:
        """A stack came up."""
        self._tries.pop(stack, None)
        self._waits.pop(stack, None)

    @property
    def all_wait(self) -> bool:
        """Whether every stack that is not given up failed when it was last started."""
        return all(s in self._waits for s in {c.stack for c in self.cells})
