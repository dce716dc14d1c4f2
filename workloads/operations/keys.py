"""Which keys an operation uses: shared keys, or own keys of one writer."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from workloads.tables import TableSpec


@dataclass(frozen=True, slots=True)
class Keys:
    """How keys are drawn: ``space`` shared keys, Zipf exponent ``skew`` (0 = uniform), ``own_share`` of draws on own keys."""

    space: int
    skew: float = 0.0

    def draw(self, rng: Random, n: int = 1) -> list[int]:
        """``n`` distinct shared keys (fewer when the space is smaller), ascending."""
        n = min(n, self.space)
        if not self.skew:
            return sorted(rng.sample(range(self.space), n))
        weights = [1.0 / (k + 1) ** self.skew for k in range(self.space)]
        drawn: set[int] = set()
        while len(drawn) < n:  # bounded: a drawn key's weight becomes 0
            k = rng.choices(range(self.space), weights)[0]
            weights[k] = 0.0
            drawn.add(k)
        return sorted(drawn)


OWN_KEYS = 8
"""Number of own keys per writer."""


def own_key(writer: int, n: int) -> int:
    """The ``n``-th (0 … OWN_KEYS-1) own key of a writer: negative, so never a shared key."""
    return -(writer * OWN_KEYS + n + 1)


def owner(id: int) -> int | None:
    """The writer whose own key this is; None for a shared key."""
    return None if id >= 0 else (-id - 1) // OWN_KEYS


def part_of(id: int, table: TableSpec) -> int:
    """The partition value of a key: ``id mod partitions`` for shared keys, ``-1 - writer`` for own ones."""
    writer = owner(id)
    return table.part(id) if writer is None else -1 - writer
