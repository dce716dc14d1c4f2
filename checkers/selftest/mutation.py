"""A mutation: a known bug of a table format, a catalog or an engine, as a change of a good run's record."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass

from checkers.selftest.world import Planted, World

Plant = Callable[[World], Planted | None]
"""Plants the bug at a place drawn from ``world.rng``; None if this run has no place for it."""


@dataclass(frozen=True)
class Mutation:
    """A bug to plant.

    Attributes:
        name: the bug, in hyphenated words.
        checker: the checker that must find it.
        finds: names of anomalies that count as found; each is right for some placement. None: evidence is gone, and a verdict other than
            valid counts.
        seen: where such a bug occurred, or who describes it.
        plant: plants it at a random place.
    """

    name: str
    checker: str
    finds: frozenset[str]
    seen: str
    plant: Plant

    @property
    def description(self) -> str:
        """What the bug does, in one sentence."""
        return inspect.cleandoc(self.plant.__doc__ or "").split("\n\n")[0].replace("\n", " ")


def mutation(name: str, checker: str, *finds: str, seen: str) -> Callable[[Plant], Mutation]:
    """Make a function that plants a bug the :class:`Mutation`."""

    def make(plant: Plant) -> Mutation:
        return Mutation(name, checker, frozenset(finds), seen, plant)

    return make
