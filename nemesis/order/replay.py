"""The recorded order, forced again: a request waits until all that stand before it in the order were answered.

A wait is bounded. A request that does not come is given up: at once when its operation has ended, soon when its operation already waits with
a later request, else after ``patience``. What could not be forced is counted and said.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from nemesis.faults.fault import Fault
from nemesis.faults.verb import RequestVerb
from nemesis.order.moment import Moment
from nemesis.order.policy import HeldRequest, Policy, Strike

REPLAY_PATIENCE = 30.0
"""Seconds for which the requests at the gate wait for one that should come first and whose operation is under way or still to come."""
SOON = 2.0
"""The same, when the operation of that one already waits at the gate with another request."""
REPLAY_WAIT = 120.0
"""Seconds after which a request goes, whatever should come first; shorter than the writers' patience with a service."""
MOST_SAID = 20
"""Sentences on what could not be forced; the rest is counted."""


@dataclass(frozen=True, slots=True)
class Forced:
    """A fault that a replay forces on requests, by its number in the recording, and those requests."""

    number: int
    fault: Fault
    struck: tuple[Moment, ...]


@dataclass(slots=True)
class _Place:
    """A place in the order. ``resent``: the service gets here what a fault sent later."""

    moment: Moment
    resent: bool = False
    state: str = "expected"  # then "held", "under way", "passed" or "given up"
    held: HeldRequest | None = None


@dataclass(frozen=True, slots=True)
class Fence:
    """Nothing behind ``places`` places of the order goes before ``name`` was reported with :meth:`ReplayOrder.happened`."""

    name: str
    places: int


@dataclass(slots=True)
class _Said:
    sentences: list[str] = field(default_factory=list)
    more: int = 0

    def add(self, sentence: str) -> None:
        if len(self.sentences) < MOST_SAID:
            self.sentences.append(sentence)
        else:
            self.more += 1


class ReplayOrder(Policy):
    """Forces ``order``.

    Args:
        order: operations by their labels: their ids in the recording. A moment that stands there twice was sent later by a fault.
        faults: those to force on requests.
        fences: what else must have happened where, such as the beginning of a fault of a process.
        struck: called with a fault's number and the moment when it strikes a request.

    Attributes:
        forced: requests that went in their place: all before them had been answered, and none behind them had gone.
    """

    def __init__(
        self,
        order: Sequence[Moment],
        faults: Sequence[Forced] = (),
        fences: Sequence[Fence] = (),
        *,
        patience: float = REPLAY_PATIENCE,
        soon: float = SOON,
        longest: float = REPLAY_WAIT,
        struck: Callable[[int, Moment], object] = lambda number, moment: None,
    ) -> None:
        seen: set[Moment] = set()
        self._places: list[_Place] = []
        for m in order:
            self._places.append(_Place(m, m in seen))
            seen.add(m)
        self._first = {p.moment: n for n, p in reversed([*enumerate(self._places)]) if not p.resent}
        self._strikes: dict[Moment, Strike] = {}
        for f in faults:
            verb = f.fault.action
            if isinstance(verb, RequestVerb):
                later = verb.answers_first
                self._strikes |= {m: Strike(f.number, f.fault, later) for m in f.struck}
        self._fences: dict[str, int] = {f.name: f.places for f in fences}
        self._patience, self._soon, self._longest = patience, soon, longest
        self._struck = struck
        self._labels: dict[str, str] = {}
        self._next: dict[int, str] = {}
        self._ended: set[str] = set()
        self._never: set[str] = set()
        self._cursor = 0
        self._since: float | None = None
        self._held: list[HeldRequest] = []
        self._free: list[HeldRequest] = []
        self._fenced: set[int] = set()
        self._at_fence = 0.0
        self._dropped: list[HeldRequest] = []
        self._furthest = -1
        self._to_send: list[Moment] = []
        self._sent_later: dict[Moment, Moment] = {}
        self._unforced = _Said()
        self._to_strike = dict(self._strikes)
        self._extra: Counter[str] = Counter()
        self.forced = 0

    # -- the run ---------------------------------------------------------------------------------------------------------

    def expects(self, writer: int, label: str) -> None:
        """The next operation that ``writer`` invokes is this one."""
        self._next[writer] = label

    def invoked(self, writer: int, op: str, now: float) -> None:
        label = self._next.pop(writer, None)
        if label is not None and label not in self._never:
            self._labels[op] = label

    def completed(self, writer: int, op: str, now: float) -> None:
        label = self._labels.get(op)
        if label is not None:
            self._ended.add(label)

    def over(self, label: str) -> None:
        """An operation of the recording has ended, or was passed over."""
        self._ended.add(label)

    def ended(self, label: str) -> bool:
        """Whether an operation of the recording has ended, or will not be invoked."""
        return label in self._ended

    @property
    def labels(self) -> dict[str, str]:
        """An operation's id in this run → its id in the recording."""
        return {**self._labels}

    def not_invoked(self, label: str) -> None:
        """An operation of the recording will not be invoked; nothing changes if it has ended."""
        if label not in self._ended:
            self._never.add(label)
            self._ended.add(label)

    def happened(self, name: str) -> None:
        """What a fence waits for has happened."""
        self._fences = {n: places for n, places in self._fences.items() if n != name}

    def has_passed(self, places: int) -> bool:
        """Whether the first so many places of the order are done with, or nothing comes for them any more."""
        return all(
            p.state in ("passed", "given up")
            or (p.state == "expected" and p.moment.op in self._ended and p.moment not in self._sent_later)
            for p in self._places[self._cursor : places]
        )

    @property
    def done(self) -> bool:
        """Whether every place of the order is done with."""
        return self._cursor >= len(self._places)

    def label(self, moment: Moment) -> Moment | None:
        """A request of this run as one of the recording; None: its operation is not of the recording."""
        label = self._labels.get(moment.op)
        return None if label is None else replace(moment, op=label)

    # -- the gate --------------------------------------------------------------------------------------------------------

    def concerns(self, moment: Moment) -> bool:
        return moment.ordered or self.label(moment) in self._first

    def arrives(self, held: HeldRequest) -> None:
        known = self.label(held.moment)
        place = None if known is None else self._first.get(known)
        if place is None or self._places[place].state != "expected":
            self._free.append(held)
            if known is not None:
                self._extra[known.op] += 1
            return
        self._places[place].state, self._places[place].held = "held", held
        self._held.append(held)

    def decide(self, now: float) -> Sequence[HeldRequest]:
        going = self._unordered(now)
        while not self.done:
            place = self._places[self._cursor]
            if place.state in ("passed", "given up"):
                self._advance(now)
            elif place.state == "under way" or any(fence <= self._cursor for fence in self._fences.values()):
                break
            elif place.state == "held":
                assert place.held is not None
                going.append(self._go(place, self._cursor))
                break
            elif place.resent:
                self._send(place)
            elif (why := self._hopeless(place, now)) is not None:
                self._give_up(place, why)
            else:
                break
        for held in [h for h in self._held if now - h.since >= self._longest]:
            fence = self._place_of(held)
            self._unforced.add(f"{self._places[fence].moment} waited for {self._longest:g} s, and went before its turn")
            going.append(self._go(self._places[fence], fence))
        return going

    def _unordered(self, now: float) -> list[HeldRequest]:
        """The requests without a place that go. At a fence those of recorded operations wait: what it waits for, such as the death of their
        writer, may be why they were not recorded. Those of operations that it ended are dropped."""
        if fenced := any(fence <= self._reached for fence in self._fences.values()):
            self._at_fence = now
        going, staying = [], []
        for held in self._free:
            label = self._labels.get(held.moment.op)
            waits = fenced or (held.number in self._fenced and now - self._at_fence < self._soon)
            if held.number in self._fenced and label in self._ended:
                self._dropped.append(held)
            elif waits and label is not None and label not in self._ended and now - held.since < self._longest:
                staying.append(held)
                self._fenced.add(held.number)
            else:
                going.append(held)
        self._free = staying
        return going

    @property
    def _reached(self) -> int:
        """Places that a writer can have behind it. It has its reply, and may make its next request, before that place counts as passed."""
        under_way = not self.done and self._places[self._cursor].state in ("under way", "passed")
        return self._cursor + under_way

    def drops(self) -> Sequence[HeldRequest]:
        dropped, self._dropped = self._dropped, []
        return dropped

    def passed(self, held: HeldRequest, now: float) -> None:
        for waiting in (self._held, self._free):
            if held in waiting:  # its connection ended while it waited
                waiting.remove(held)
        known = self.label(held.moment)
        index = None if known is None else self._first.get(known)
        if index is not None and self._places[index].held is held:
            self._places[index].state = "passed"

    def _advance(self, now: float) -> None:
        self._cursor += 1
        self._since = now

    def _place_of(self, held: HeldRequest) -> int:
        known = self.label(held.moment)
        assert known is not None
        return self._first[known]

    def _go(self, place: _Place, index: int) -> HeldRequest:
        assert place.held is not None
        if index == self._cursor and self._furthest < index:
            self.forced += 1
        self._furthest = max(self._furthest, index)
        place.state = "under way"
        self._held.remove(place.held)
        return place.held

    def _hopeless(self, place: _Place, now: float) -> str | None:
        """Why the next request of the order is given up; None: it may still come."""
        op = place.moment.op
        if op in self._never:
            return f"{op} was not invoked"
        if op in self._ended:
            return f"{op} ended without it"
        if not self._held:
            return None  # nobody waits for it
        since = max(self._since or 0.0, min(h.since for h in self._held))
        own = [h for h in self._held if self._labels.get(h.moment.op) == op]
        if own and now - max(since, own[0].since) >= self._soon:
            return f"{self._places[self._place_of(own[0])].moment} came instead"
        if now - since >= self._patience:
            return f"it did not come within {self._patience:g} s"
        return None

    def _give_up(self, place: _Place, why: str) -> None:
        place.state = "given up"
        self._unforced.add(f"{place.moment}: {why}")

    # -- faults ----------------------------------------------------------------------------------------------------------

    def strike(self, moment: Moment) -> Strike | None:
        known = self.label(moment)
        strike = None if known is None else self._to_strike.pop(known, None)
        if known is None or strike is None:
            return None
        if strike.later:
            self._sent_later[known] = moment
        self._struck(strike.number, known)
        return strike

    def missed(self, moment: Moment, why: str) -> None:
        self._unforced.add(f"{self.label(moment) or moment}: its fault could not strike it: {why}")

    def _send(self, place: _Place) -> None:
        moment = self._sent_later.pop(place.moment, None)
        if moment is None:
            self._give_up(place, "it was not sent later, as no fault struck it")
            return
        if self._furthest < self._cursor:
            self.forced += 1
        self._furthest = max(self._furthest, self._cursor)
        place.state = "under way"
        self._to_send.append(moment)

    def sends(self) -> Sequence[Moment]:
        sends, self._to_send = self._to_send, []
        return sends

    def sent(self, moment: Moment, now: float) -> None:
        known = self.label(moment)
        for place in self._places[self._cursor :]:
            if place.resent and place.moment == known and place.state == "under way":
                place.state = "passed"
                return

    # -- afterwards ------------------------------------------------------------------------------------------------------

    @property
    def expected(self) -> int:
        """How many requests the order has."""
        return len(self._places)

    def unforced(self) -> tuple[str, ...]:
        """What could not be forced, one sentence each. To be asked when the load is over."""
        sentences = [*self._unforced.sentences]
        unplaced = sum(p.state in ("expected", "held") for p in self._places)
        more = self._unforced.more
        if more:
            sentences.append(f"{more} more requests did not come, or not in their turn")
        if unplaced:
            sentences.append(f"{unplaced} requests of the recorded order never came")
        if self._extra:
            n, ops = self._extra.total(), [*self._extra]
            sentences.append(
                f"{n} request{'s' * (n > 1)} went unordered: too late, or more than the recording has; of {', '.join(ops[:5])}"
                f"{', …' * (len(ops) > 5)}"
            )
        if self._to_strike:
            struck = [str(m) for m in self._to_strike]
            sentences.append(
                f"{len(struck)} faults had nothing to strike: {', '.join(struck[:5])}{', …' * (len(struck) > 5)} did not come"
            )
        return tuple(sentences)


def first_difference(
    recorded: Sequence[Moment], replayed: Sequence[Moment], labels: Mapping[str, str] | None = None
) -> str | None:
    """The first place where two orders of commits differ, in a sentence; None: they are the same.

    Args:
        recorded, replayed: moments of any kinds; only commits count.
        labels: an operation's id in the replayed run → its id in the recorded one; equal if it is not there.
    """
    commits = [m for m in recorded if m.kind == "commit"]
    known = labels or {}
    other = [replace(m, op=known.get(m.op, m.op)) for m in replayed if m.kind == "commit"]
    for n, (a, b) in enumerate(zip(commits, other, strict=False), 1):
        if a != b:
            return f"commit {n} of {len(commits)} was {a}, and is {b}"
    if len(commits) != len(other):
        return f"there were {len(commits)} commits, and there are {len(other)}"
    return None
