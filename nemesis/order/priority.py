"""Probabilistic concurrency testing (PCT): the writer with the highest priority goes, and a few random changes of priority.

Burckhardt, Kothari, Musuvathi, Nagarakatte: "A Randomized Scheduler with Probabilistic Guarantees of Finding Bugs", ASPLOS 2010. Their
threads are our writers, and their steps are the requests that come to the gate. A bug of depth d (d orderings must hold for it to show) is
found with a probability of at least 1/(n · k^(d-1)) by one run of n threads and k steps. That bound needs every step to be under the
scheduler's control. Here what happens between two requests is not, so it is a guide and no promise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from nemesis.order.policy import HeldRequest, Policy

GRACE = 0.5
"""Seconds for which a decision waits for a writer that is neither at the gate nor waits for a reply: its statement computes, or its next
operation begins."""
PRIORITY_WAIT = 10.0
"""Seconds after which a request goes whatever its priority, and for which a decision waits for a reply."""


@dataclass(frozen=True, slots=True)
class Expected:
    """How long a run will be: ``steps`` requests, or ``seconds``; exactly one is given.

    By time, a change of priority comes after a share of the time: the expected number of steps is then the steps so far, divided by the
    share of the time that went by.
    """

    steps: int | None = None
    seconds: float | None = None


class Priority(Policy):
    """PCT of depth ``depth``.

    Args:
        writers: how many there are.
        seed: decides priorities and change points.

    Attributes:
        steps: requests that went.
        changes: changes of priority so far.
        gave_way: requests that went because they had waited for ``longest``, whatever their priority.
        blind: decisions that left out a writer because its ``grace`` was over.
    """

    def __init__(
        self,
        writers: int,
        depth: int,
        expected: Expected,
        seed: int,
        *,
        grace: float = GRACE,
        longest: float = PRIORITY_WAIT,
    ) -> None:
        rng = Random(f"{seed}/order")
        first = list(range(depth, depth + writers))
        rng.shuffle(first)
        self._priority = dict(enumerate(first))
        shares = [rng.random() for _ in range(1, depth)]
        self._expected = expected
        self._changes = sorted((share, n) for n, share in enumerate(shares, 1))
        self._grace = grace
        self._longest = longest
        self._held: list[HeldRequest] = []
        self._under_way: dict[int, tuple[HeldRequest, float]] = {}
        self._last: dict[int, float] = {}
        self._busy: set[int] = set()
        self._began: float | None = None
        self.steps = 0
        self.changes = 0
        self.gave_way = 0
        self.blind = 0

    def _event(self, writer: int, now: float) -> None:
        if self._began is None:
            self._began = now
            self._last = dict.fromkeys(self._priority, now)  # all are expected to begin
        self._last[writer] = now

    def invoked(self, writer: int, op: str, now: float) -> None:
        self._event(writer, now)
        self._busy.add(writer)

    def completed(self, writer: int, op: str, now: float) -> None:
        self._event(writer, now)
        self._busy.discard(writer)

    def finished(self, writer: int, now: float) -> None:
        self._last.pop(writer, None)

    def arrives(self, held: HeldRequest) -> None:
        self._event(held.writer, held.since)
        self._held.append(held)

    def passed(self, held: HeldRequest, now: float) -> None:
        self._under_way.pop(held.number, None)
        if held.writer in self._last:  # the client has its answer before the proxy says so, and may have finished
            self._last[held.writer] = now
        if held in self._held:  # its connection ended while it waited
            self._held.remove(held)

    def decide(self, now: float) -> Sequence[HeldRequest]:
        if late := [h for h in self._held if now - h.since >= self._longest]:
            self.gave_way += len(late)
            return [self._go(h, now) for h in late]
        if not self._held or any(now - since < self._longest for _, since in self._under_way.values()):
            return ()
        waiting = {h.writer for h in self._held}
        absent = [w for w in self._last if w not in waiting]
        if any(now - self._last[w] < self._grace for w in absent):
            return ()
        self.blind += any(w in self._busy for w in absent)
        self._preempt(now)
        return [self._go(self._highest(), now)]

    def _highest(self) -> HeldRequest:
        return max(self._held, key=lambda h: (self._priority.get(h.writer, 0), -h.number))

    def _preempt(self, now: float) -> None:
        """Lower the priority of whom the next step belongs to, for each change point that has come."""
        while self._changes and self._changes[0][0] <= self._share(now):
            _, priority = self._changes.pop(0)
            self._priority[self._highest().writer] = priority
            self.changes += 1

    def _share(self, now: float) -> float:
        """The share of the run that the next step ends."""
        if self._expected.steps is not None:
            return (self.steps + 1) / max(1, self._expected.steps)
        assert self._began is not None and self._expected.seconds is not None
        return (now - self._began) / self._expected.seconds

    def _go(self, held: HeldRequest, now: float) -> HeldRequest:
        self._held.remove(held)
        self._under_way[held.number] = (held, now)
        self.steps += 1
        return held
