"""The greatest position that is certain at an event, where what proves it comes in any order."""

from __future__ import annotations

from bisect import bisect_left


class Floor:
    """Proofs that a position had been reached before an event. Of two proofs only those are kept that say more than an earlier event's."""

    def __init__(self) -> None:
        self._events: list[int] = []
        self._positions: list[int] = []

    def __len__(self) -> int:
        return len(self._events)

    def add(self, event: int, position: int) -> None:
        """``position`` had been reached before ``event``; amortised O(log n) where events mostly ascend."""
        at = bisect_left(self._events, event)
        if at and self._positions[at - 1] >= position:
            return
        end = at
        while end < len(self._events) and self._positions[end] <= position:
            end += 1
        self._events[at:end] = [event]
        self._positions[at:end] = [position]

    def before(self, event: int) -> int:
        """The greatest position that is certain before an event; 0 if none is, or if that was forgotten."""
        at = bisect_left(self._events, event)
        return self._positions[at - 1] if at else 0

    def forget(self, position: int) -> None:
        """Forget the proofs of lower positions, but for the last of them."""
        at = bisect_left(self._positions, position) - 1
        if at > 0:
            del self._events[:at]
            del self._positions[:at]
