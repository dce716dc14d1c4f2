"""A mutation: a known bug of a table format, a catalog or an engine, as a change of what a good run left behind."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass

from checkers.selftest.world import Planted, World

Plant = Callable[[World], Planted | None]
"""Puts the bug at a place drawn from ``world.rng``; None when this run has no place for it."""


@dataclass(frozen=True)
class Mutation:
    """A bug to plant.

    Attributes:
        name: the bug, in words joined by hyphens.
        checker: the checker whose task it is to find it.
        finds: names of anomalies that count as found; each is a right name for some placement.
        seen: where such a bug was seen, or who describes it.
        plant: puts it somewhere.
    """

    name: str
    checker: str
    finds: frozenset[str]
    seen: str
    plant: Plant

    @property
    def description(self) -> str:
        """What happens, in one sentence."""
        return inspect.cleandoc(self.plant.__doc__ or "").split("\n\n")[0].replace("\n", " ")


def mutation(name: str, checker: str, *finds: str, seen: str) -> Callable[[Plant], Mutation]:
    """Make a function that plants a bug the :class:`Mutation`."""

    def make(plant: Plant) -> Mutation:
        return Mutation(name, checker, frozenset(finds), seen, plant)

    return make
