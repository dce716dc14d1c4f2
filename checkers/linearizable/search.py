"""The search for an order: just-in-time linearization, for any model.

The algorithm is Wing and Gong's (1993) with Lowe's memory ("Testing for linearizability", 2017). Events are taken in order. A
*configuration* is the set of calls under way that already took effect, and the state; a call takes effect only when it must (its
answer came), after any calls under way that it may need before it::

    event     ├ a invoked   ├ b invoked        ├ a answered        ├ b answered
    configs   {}, s0        {}, s0             {a}, a(s0)          {b}, b(a(s0))
                                               {a,b}, a(b(s0))     {a,b} …

It is depth first: the first order that explains everything ends it. It is exhaustive: if no configuration is left, there is no order.
These shortcuts do not change the answer:

* a read that can return now does so at once. It changes nothing, so everything remains possible;
* of calls of unknown outcome with the same effect, the one invoked first takes effect first: it can stand for the others;
* a call of unknown outcome that would change nothing does not take effect;
* a configuration that was visited at an event is not visited again.

Counted steps and stored configurations bound time and memory, not a clock: the same history gives the same answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Any

from checkers.evidence.replace import replace
from checkers.linearizable.calls import NEVER, Call
from checkers.linearizable.models import Model
from checkers.verdict import Validity

_TOGETHER = 40
"""References to calls under way that use as much memory as a configuration."""
MOST_CONFIGURATIONS = 10
"""Final configurations that are kept, at most."""

Path = tuple[Any, int] | None
"""The calls in the order in which they took effect, last first: ``(path before, position of the call)``."""


@dataclass(frozen=True)
class Limits:
    """The limits of a search for one key. Both count a large state (``Model.size``) as several.

    Attributes:
        steps: tries of a call at a state; a million take some seconds.
        configurations: stored at once; a million take some hundred megabytes.
        total: steps for all keys together.
    """

    steps: int = 3_000_000
    configurations: int = 500_000
    total: int = 12_000_000

    def after(self, steps: int) -> Limits:
        """The remaining limits for a key after others used that many steps; always enough to decide an easy key."""
        return replace(self, steps=max(FEWEST_STEPS, min(self.steps, self.total - steps)))


FEWEST_STEPS = 1000
"""Steps that every key gets, at least."""


DEFAULT_LIMITS = Limits()
"""At worst about a minute and some hundred megabytes."""


@dataclass(frozen=True, slots=True)
class Final:
    """A configuration at the last event that any order reaches.

    Attributes:
        state: the state there.
        order: positions of the calls in the order in which they took effect.
        pending: positions of the calls under way that had not taken effect.
    """

    state: Any
    order: tuple[int, ...]
    pending: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The result of a search.

    Attributes:
        valid: True, False, or ``"unknown"`` when a limit ended the search.
        answered: how many answers the order that got furthest explains.
        stuck: the position of the call whose answer no order explains; None when all are explained.
        finals: configurations at that point; if valid, the one at the end.
        steps: how often a call was tried at a state.
    """

    valid: Validity
    answered: int
    stuck: int | None
    finals: tuple[Final, ...]
    steps: int


class _Exhausted(Exception):
    """A limit was reached."""


@dataclass(slots=True)
class _Event:
    """A start or an answer, and the calls under way then. ``crashed``: how many calls of unknown outcome have begun."""

    call: int
    answer: bool
    reads: tuple[int, ...] = ()
    writes: tuple[int, ...] = ()
    crashed: int = 0


@dataclass
class _Search:
    """One search: ``calls`` in any order."""

    calls: Sequence[Call]
    model: Model
    limits: Limits
    steps: int = 0
    best: int = -1
    finals: list[tuple[int, Any, Path]] = field(default_factory=list)
    seen: set[tuple[int, int, Any]] = field(default_factory=set)
    held: int = 0
    """The size of ``seen``, in configurations."""

    def __post_init__(self) -> None:
        self.crashed: list[int] = []
        self.before: list[int] = [0] * len(self.calls)
        """Bit of the previous call of unknown outcome with the same effect; 0 for none."""
        self.bit: list[int] = [0] * len(self.calls)
        self.crowded = False
        self.events = self._events()

    def _events(self) -> list[_Event]:
        """Starts and answers in order, and a bit for every call; the bit of an answered call is reused."""
        order = sorted(
            [(c.start, 0, n) for n, c in enumerate(self.calls)]
            + [(c.end, 1, n) for n, c in enumerate(self.calls) if c.end != NEVER]
        )
        free: list[int] = []
        used = 0
        reads: dict[int, None] = {}
        writes: dict[int, None] = {}
        alike: dict[Any, int] = {}
        together = 0
        out: list[_Event] = []
        for _, answer, n in order:
            c = self.calls[n]
            if answer:
                together += max(0, len(reads) + len(writes) - 20)
                if together > _TOGETHER * self.limits.configurations:
                    self.crowded = True
                    break
                out.append(_Event(n, True, tuple(reads), tuple(w for w in writes if w != n), len(self.crashed)))
                del (reads if c.reads else writes)[n]
                free.append(self.bit[n])
                continue
            if free:
                self.bit[n] = free.pop()
            else:
                self.bit[n] = 1 << used
                used += 1
            if c.end == NEVER:
                kind = self.model.kind(c)
                if kind is not None:
                    self.before[n] = alike.get(kind, 0)
                    alike[kind] = self.bit[n]
                self.crashed.append(n)
            else:
                (reads if c.reads else writes)[n] = None
            out.append(_Event(n, False))
        return out

    # --- the search

    def run(self) -> SearchResult:
        try:
            done = self._run()
            valid: Validity = done is not None
        except _Exhausted:
            done, valid = None, "unknown"
        if done is not None:
            return SearchResult(True, self._answers(len(self.events)), None, (self._final(*done),), self.steps)
        stuck = self.events[self.best].call if 0 <= self.best < len(self.events) else None
        finals = tuple(self._final(*f) for f in self.finals)
        return SearchResult(valid, self._answers(max(self.best, 0)), stuck, finals, self.steps)

    def _answers(self, place: int) -> int:
        return sum(e.answer for e in self.events[:place])

    def _final(self, mask: int, state: Any, path: Path) -> Final:
        order: list[int] = []
        while path is not None:
            path, n = path
            order.append(n)
        order.reverse()
        taken = set(order)
        last = self.best if 0 <= self.best < len(self.events) else len(self.events)
        begun = {e.call for e in self.events[: last + 1]}
        return Final(state, tuple(order), tuple(n for n in sorted(begun) if n not in taken))

    def _run(self) -> tuple[int, Any, Path] | None:
        """The configuration at the end, or None when no order reaches it."""
        if self.crowded:
            raise _Exhausted
        node = self._advance(0, 0, self.model.initial, None)
        stack: list[Iterator[tuple[int, Any, Path]]] = []
        places: list[int] = []
        while True:
            pos, mask, state, path = node
            if pos == len(self.events):
                return mask, state, path
            if pos > self.best:
                self.best, self.finals = pos, []
            if pos == self.best and len(self.finals) < MOST_CONFIGURATIONS:
                self.finals.append((mask, state, path))
            if not stack:
                self.seen.clear()  # nothing that is left can come here again
                self.held = 0
            only = self._only(pos, mask, state, path)
            if only is not None:
                node = self._advance(pos + 1, *only)
                continue
            stack.append(self._answered(pos, mask, state, path))
            places.append(pos)
            while stack:
                following = next(stack[-1], None)
                if following is not None:
                    break
                stack.pop()
                places.pop()
            else:
                return None
            if self.held + len(stack) > self.limits.configurations:
                raise _Exhausted
            node = self._advance(places[-1] + 1, *following)

    def _only(self, pos: int, mask: int, state: Any, path: Path) -> tuple[int, Any, Path] | None:
        """The only possible configuration after an answer; None when there may be several, or none."""
        e = self.events[pos]
        c = self.calls[e.call]
        if not c.reads and (e.crashed or any(not mask & self.bit[n] for n in e.writes)):
            return None
        self.steps += self.model.size(state)
        if self.steps > self.limits.steps:
            raise _Exhausted
        done = self.model.step(state, c)
        if len(done) != 1:
            return None
        m, p = self._read([r for r in e.reads if r != e.call], mask, done[0], (path, e.call))
        return m, done[0], p

    def _advance(self, pos: int, mask: int, state: Any, path: Path) -> tuple[int, int, Any, Path]:
        """Advance to the next answer of a call that has not taken effect."""
        events, calls, bit, step = self.events, self.calls, self.bit, self.model.step
        while pos < len(events):
            e = events[pos]
            n = e.call
            if e.answer:
                if not mask & bit[n]:
                    break
                mask &= ~bit[n]
            else:
                c = calls[n]
                state = self.model.invoked(state, c)
                if c.reads and c.end != NEVER:
                    self.steps += 1
                    if step(state, c):
                        mask |= bit[n]
                        path = (path, n)
            pos += 1
        return pos, mask, state, path

    def _answered(self, pos: int, mask: int, state: Any, path: Path) -> Iterator[tuple[int, Any, Path]]:
        """The configurations after an answer: its call took effect last, alone or after others; the shortest paths first."""
        e = self.events[pos]
        x = e.call
        c, step, calls = self.calls[x], self.model.step, self.calls
        others = [*e.writes, *self.crashed[: e.crashed]]
        reads = [r for r in e.reads if r != x and not mask & self.bit[r]]
        queue = [(0, 0, 0, mask, state, path)]  # (taken and still to take, a tie-breaker, taken, …)
        pushed = 0
        while queue:
            _, _, taken, mask, state, path = heappop(queue)
            if self.steps > self.limits.steps:
                raise _Exhausted
            self.steps += self.model.size(state)
            done = step(state, c)
            for s in done:
                m, p = self._read(reads, mask, s, (path, x))
                if self._fresh(pos + 1, m, s):
                    yield m, s, p
            if c.reads and done:
                continue
            for n in others:
                b = self.bit[n]
                if mask & b or (self.before[n] and not mask & self.before[n]):
                    continue
                self.steps += self.model.size(state)
                for s in step(state, calls[n]):
                    if s == state and calls[n].end == NEVER:
                        continue
                    m, p = self._read(reads, mask | b, s, (path, n))
                    if self._fresh(pos, m, s):
                        pushed += 1
                        heappush(queue, (taken + 1 + self.model.far(s, c), pushed, taken + 1, m, s, p))
            if self.held + len(queue) > self.limits.configurations:
                raise _Exhausted

    def _read(self, reads: Sequence[int], mask: int, state: Any, path: Path) -> tuple[int, Path]:
        """Let every read under way return that can."""
        for r in reads:
            if not mask & self.bit[r]:
                self.steps += 1
                if self.model.step(state, self.calls[r]):
                    mask |= self.bit[r]
                    path = (path, r)
        return mask, path

    def _fresh(self, pos: int, mask: int, state: Any) -> bool:
        key = (pos, mask, state)
        if key in self.seen:
            return False
        self.seen.add(key)
        self.held += self.model.size(state)
        return True


def search(calls: Sequence[Call], model: Model, limits: Limits = DEFAULT_LIMITS) -> SearchResult:
    """Search for an order of the calls that the model explains and that respects their times."""
    return _Search(calls, model, limits).run()
