"""Delta debugging: a part of a list that still shows what the whole shows, and no longer does without any one of its items.

[Zeller Hildebrandt 2002] A. Zeller, R. Hildebrandt, Simplifying and Isolating Failure-Inducing Input, IEEE TSE 28(2): the algorithm
ddmin, with complements only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def ddmin(
    items: list[T], shows: Callable[[list[T]], bool], stop: Callable[[], bool] = lambda: False, *, least: int = 1
) -> list[T]:
    """A 1-minimal part of ``items``, in their order, or what is left when ``stop`` says so.

    Args:
        items: that show it together; that is not asked.
        shows: whether a part shows it. It need not be monotone.
        least: how many items are left at least; with 0 it is also asked whether it shows without any item.
    """
    parts = 2
    while len(items) > least:
        size = -(-len(items) // parts)
        for start in range(0, len(items), size):
            if stop():
                return items
            rest = items[:start] + items[start + size :]
            if len(rest) >= least and shows(rest):
                items, parts = rest, max(parts - 1, 2)
                break
        else:
            if size == 1:
                break
            parts = min(len(items), parts * 2)
    return items
