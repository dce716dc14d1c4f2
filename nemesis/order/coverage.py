"""By coverage: the request goes next that makes an interleaving which was exercised least.

What counts as one is told from outside (:class:`Worth`): an operation was in some phase of its write when the commit of another one landed on
the same table. The policy follows every write through its phases by its requests. Of the requests at the gate it lets that one go whose
release is worth most:

* a commit makes one interleaving with each other write of its table, now; after that it can make none;
* a load or a refused commit brings its write into another phase, and so nearer to what others could make of it there, and beyond what they
  could have made of the phase that it leaves. What may come counts half, a phase further away a quarter, and so on.

So a request waits while others can still do something rare about it. It does not wait for ever: see the times below. How often an interleaving
was exercised counts on during the run, as the policy expects it; the checkers judge afterwards what really happened.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Literal, Protocol

from nemesis.order.policy import HeldRequest, Policy

Phase = Literal["before scan", "scanned", "commit", "refused", "retry", "after"]
"""As ``checkers.coverage.pair.Phase``."""

GRACE = 0.25
"""Seconds for which a decision waits for a writer that is neither at the gate nor waits for a reply."""
COVERAGE_PATIENCE = 2.0
"""Seconds for which a request whose release would only lose something waits for writers whose statements compute."""
COVERAGE_WAIT = 10.0
"""Seconds after which a request goes whatever it is worth, and for which a decision waits for a reply."""
LOADS = 2
"""Loads before the first commit of a kind that has not committed yet in this run: one to scan, one to refresh."""
AHEAD = 0.5
"""What an interleaving that may come is worth, beside one that comes now; one that is a phase further away again so much less."""
COURSES: tuple[tuple[Phase, ...], ...] = (("before scan", "scanned", "commit"), ("refused", "retry"))
"""Phases that follow one another without a commit of somebody else."""


class Worth(Protocol):
    """What is known about operations, by their ids; asked about invoked operations only."""

    def kind(self, op: str) -> str | None:
        """The kind of an operation that may commit; None of one that does not."""

    def table(self, op: str) -> str:
        """The table that it is about."""

    def rarity(self, first: str, phase: Phase, second: str) -> float:
        """How rare it still is that the second commits while the first is in that phase: 1 never seen, near 0 often, 0 impossible."""

    def happened(self, first: str, phase: Phase, second: str) -> None:
        """This was exercised, as far as the policy can tell."""


@dataclass
class _Write:
    """A write under way.

    Attributes:
        loads: that were answered, since its invocation or its last refused commit.
        base: version of its table that its last load saw.
        ended: how its last commit ended, as far as the versions tell.
    """

    op: str
    kind: str
    table: str
    loads: int = 0
    base: int = 0
    ended: Literal["", "accepted", "refused"] = ""


class Rarest(Policy):
    """The rarest interleaving first.

    Args:
        writers: how many there are.
        seed: decides between requests that are worth the same.

    Attributes:
        steps: requests of writes that went.
        made: interleavings that the policy expects to have made.
        first: those of them that nothing had exercised before.
        gave_way: requests that went because they had waited for ``longest``.
        blind: decisions that left out a writer whose statement still computed.
    """

    def __init__(
        self,
        writers: int,
        worth: Worth,
        seed: int,
        *,
        grace: float = GRACE,
        patience: float = COVERAGE_PATIENCE,
        longest: float = COVERAGE_WAIT,
    ) -> None:
        self._writers = range(writers)
        self._worth = worth
        self._rng = Random(f"{seed}/order")
        self._grace, self._patience, self._longest = grace, patience, longest
        self._held: list[HeldRequest] = []
        self._lot: dict[int, float] = {}
        self._under_way: dict[int, tuple[HeldRequest, float]] = {}
        self._last: dict[int, float] = {}
        self._busy: dict[int, str] = {}
        self._writes: dict[str, _Write] = {}
        self._versions: dict[str, int] = {}
        self._loads: dict[str, int] = {}
        self._began = False
        self.steps = 0
        self.made = 0
        self.first = 0
        self.gave_way = 0
        self.blind = 0

    # -- events ----------------------------------------------------------------------------------------------------------

    def _event(self, writer: int, now: float) -> None:
        if not self._began:
            self._began = True
            self._last = dict.fromkeys(self._writers, now)  # all are expected to begin
        self._last[writer] = now

    def invoked(self, writer: int, op: str, now: float) -> None:
        self._event(writer, now)
        self._busy[writer] = op
        kind = self._worth.kind(op)
        if kind is not None:
            table = self._worth.table(op)
            self._writes[op] = _Write(op, kind, table, base=self._versions.get(table, 0))

    def completed(self, writer: int, op: str, now: float) -> None:
        self._event(writer, now)
        self._busy.pop(writer, None)
        self._writes.pop(op, None)

    def finished(self, writer: int, now: float) -> None:
        self._last.pop(writer, None)

    def arrives(self, held: HeldRequest) -> None:
        self._event(held.writer, held.since)
        self._lot[held.number] = self._rng.random()
        self._held.append(held)

    def passed(self, held: HeldRequest, now: float) -> None:
        went = self._under_way.pop(held.number, None) is not None
        if held.writer in self._last:  # the client has its answer before the proxy says so, and may have finished
            self._last[held.writer] = now
        if held in self._held:  # its connection ended while it waited
            self._held.remove(held)
        write = self._writes.get(held.moment.op)
        if not went or write is None:
            return
        if held.moment.kind == "load":
            write.loads += 1
            write.base = self._versions.get(write.table, 0)
        elif held.moment.kind == "commit":
            self._committed(write)

    def _committed(self, write: _Write) -> None:
        if not write.ended:
            self._loads[write.kind] = max(1, write.loads)
        if not self._accepts(write):
            write.ended, write.loads = "refused", 0
            return
        for other in self._others(write):
            phase = self._phase(other)
            self.first += self._worth.rarity(other.op, phase, write.op) == 1
            self._worth.happened(other.op, phase, write.op)
            self.made += 1
        self._versions[write.table] = self._versions.get(write.table, 0) + 1
        write.ended = "accepted"

    # -- decisions -------------------------------------------------------------------------------------------------------

    def decide(self, now: float) -> Sequence[HeldRequest]:
        at_once = [h for h in self._held if h.moment.op not in self._writes]
        if at_once:  # a read makes no interleaving of two writes, and a write that was given up neither
            self._held = [h for h in self._held if h not in at_once]
            return at_once
        if late := [h for h in self._held if now - h.since >= self._longest]:
            self.gave_way += len(late)
            return [self._go(h, now) for h in late]
        if not self._held or any(now - since < self._longest for _, since in self._under_way.values()):
            return ()
        waiting = {h.writer for h in self._held}
        absent = [w for w in self._last if w not in waiting and self._busy.get(w) not in self._read_only()]
        if any(now - self._last[w] < self._grace for w in absent):
            return ()
        best = max(self._held, key=lambda h: (self._value(h), self._lot[h.number]))
        computing = [w for w in absent if w in self._busy]
        if computing and self._value(best) < 0 and now - best.since < self._patience:
            return ()
        self.blind += bool(computing)
        return [self._go(best, now)]

    def _read_only(self) -> set[str]:
        """Operations under way that do not write."""
        return {op for op in self._busy.values() if op not in self._writes}

    def _go(self, held: HeldRequest, now: float) -> HeldRequest:
        self._held.remove(held)
        self._lot.pop(held.number, None)
        self._under_way[held.number] = (held, now)
        self.steps += 1
        return held

    def _value(self, held: HeldRequest) -> float:
        """What it is worth to let a request go now: what it makes, and by how much it changes what may still come."""
        write = self._writes[held.moment.op]
        rivals = self._others(write)
        before = sum(self._ahead(write, self._phase(write), o) for o in rivals)
        if held.moment.kind == "load":
            return sum(self._ahead(write, self._phase(write, loads=1), o) for o in rivals) - before
        if held.moment.kind != "commit":  # a lock
            return 0.0
        if not self._accepts(write):
            return sum(self._ahead(write, "refused", o) for o in rivals) - before
        makes = sum(self._worth.rarity(o.op, self._phase(o), write.op) for o in rivals)
        return makes - before - sum(self._ahead(o, self._phase(o), write) for o in rivals)

    def _ahead(self, write: _Write, phase: Phase, rival: _Write) -> float:
        """What a rival's commit can still make of a write that is in this phase, or of the phases that it comes to."""
        if rival.ended == "accepted":
            return 0.0
        steps = next((c[c.index(phase) :] for c in COURSES if phase in c), ())
        return max(
            (AHEAD ** (n + 1) * self._worth.rarity(write.op, p, rival.op) for n, p in enumerate(steps)), default=0.0
        )

    def _others(self, write: _Write) -> list[_Write]:
        return [o for o in self._writes.values() if o is not write and o.table == write.table]

    def _accepts(self, write: _Write) -> bool:
        """Whether the catalog will accept its commit: nothing else was committed since its last load."""
        return write.base == self._versions.get(write.table, 0)

    def _phase(self, write: _Write, loads: int = 0) -> Phase:
        """The phase of a write; ``loads``: after so many further loads."""
        loads += write.loads
        if write.ended == "accepted":
            return "after"
        if write.ended == "refused":
            return "retry" if loads else "refused"
        expected = self._loads.get(write.kind, LOADS)
        if loads >= expected:
            return "commit"
        return "scanned" if loads and loads == expected - 1 else "before scan"
