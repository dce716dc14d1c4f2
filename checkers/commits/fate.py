"""What became of an acknowledged write: a table of *(dropped? on main? a DML? rolled back?)* → fate.

What is on main is decided by ancestry, not by presence in the list of snapshots: after a lost acknowledgement Iceberg can re-apply its
*own old* snapshot (``SnapshotProducer.apply`` takes a snapshot id that the base already has for a rollback), and main moves back below a
commit that stays listed and was acknowledged. Every acknowledged INSERT, UPDATE, DELETE and MERGE leaves exactly one snapshot, also when
it matched no row; a procedure leaves none, one or several.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from functools import cached_property

from checkers.evidence.history import Operation
from checkers.evidence.tablelog import Commit
from checkers.timeline.answers import claims_of
from checkers.timeline.timeline import Timeline, kind_of
from workloads.tables import State


class Fate(Enum):
    """What became of an acknowledged write."""

    KEPT = "its snapshot is on main, or it owes none"
    ROLLED_BACK = "a rollback took its snapshots out of main"
    PERHAPS_ROLLED_BACK = "a rollback that the log lacks may have taken them out"
    UNDECIDED = "the log need not show its snapshot"
    LEFT_NONE = "it left no snapshot, and had nothing to change"
    PERHAPS_UNNAMED = "it left no snapshot, unless one that names no operation is its"
    DROPPED = "its snapshot was seen and is not on main: lost"
    NEVER_SEEN = "no snapshot of it was ever seen: lost"


@dataclass(frozen=True)
class AcknowledgedWrite:
    """An acknowledged write, and what the table log shows of it."""

    t: Timeline
    o: Operation

    @cached_property
    def on_main(self) -> list[Commit]:
        """Its snapshots on main."""
        return self.t.on_main(self.o.op)

    @cached_property
    def dropped(self) -> list[Commit]:
        """Its snapshots that are not on main. Snapshots that were never current, such as staged ones, count only if it has no other."""
        off = [c for c in self.t.commits.get(self.o.op, ()) if c.snapshot_id not in self.t.position]
        shown = [c for c in off if c.snapshot_id in self.t.ever_current]
        return shown if shown or self.on_main else off

    def rolled_back(self) -> bool:
        """Whether rollbacks explain all that was dropped."""
        return all(self.t.rolled_back(c.snapshot_id) for c in self.dropped)

    def perhaps_rolled_back(self) -> bool:
        """Whether rollbacks in versions that the log lacks may explain it."""
        return all(self.t.perhaps_rolled_back(c.snapshot_id) for c in self.dropped)

    def surely_dropped(self) -> bool:
        """Whether what was dropped had been on main, or must have been, and certainly is not."""
        shown = any(c.snapshot_id in self.t.ever_current for c in self.dropped)
        return all(self.t.is_off_main(c.snapshot_id) for c in self.dropped) and (shown or self.must_be_seen())

    def perhaps_unnamed(self) -> bool:
        """Whether a snapshot that names no operation may be its."""
        return self.o.op in self.t.labels.perhaps

    def owes_none(self) -> bool:
        """Whether its answer is true without a snapshot."""
        claims = claims_of(self.o)
        return claims is None or not claims.needs_snapshot

    def must_be_seen(self) -> bool:
        """Whether the log must have its snapshot if it ever was on main."""
        t, done = self.t, self.o.completed
        assert done is not None
        if done.time >= t.seen_until or t.rollback_in_gap:
            return False
        return t.rooted or t.settled(self.o.invoked.index) > 0

    def may_be_unseen(self) -> bool:
        """The opposite."""
        return not self.must_be_seen()

    def had_nothing_to_change(self) -> bool:
        """Whether it need not have committed."""
        return not _replaces(self.o) and Emptiness(self.t).at_some_state(self.o)


_Row = tuple[bool, bool | None, bool | None, Callable[[AcknowledgedWrite], bool] | None, Fate]
FATES: tuple[_Row, ...] = (
    # dropped, on main, DML, and besides
    (True, None, None, AcknowledgedWrite.rolled_back, Fate.ROLLED_BACK),
    (True, True, True, None, Fate.KEPT),
    (True, None, None, AcknowledgedWrite.perhaps_rolled_back, Fate.PERHAPS_ROLLED_BACK),
    (True, None, None, AcknowledgedWrite.surely_dropped, Fate.DROPPED),
    (True, None, None, None, Fate.UNDECIDED),
    (False, True, None, None, Fate.KEPT),
    (False, False, None, AcknowledgedWrite.perhaps_unnamed, Fate.PERHAPS_UNNAMED),
    (False, False, False, AcknowledgedWrite.owes_none, Fate.KEPT),
    (False, False, None, AcknowledgedWrite.may_be_unseen, Fate.UNDECIDED),
    (False, False, True, AcknowledgedWrite.had_nothing_to_change, Fate.LEFT_NONE),
    (False, False, None, None, Fate.NEVER_SEEN),
)
"""The first row that fits a write tells its fate; None: whatever it is."""


def fate(w: AcknowledgedWrite) -> Fate:
    """What became of an acknowledged write."""
    facts = bool(w.dropped), bool(w.on_main), is_dml(w.o)
    for *wanted, besides, found in FATES:
        if all(x is None or x == fact for x, fact in zip(wanted, facts, strict=True)) and (not besides or besides(w)):
            return found
    raise AssertionError(f"no row of FATES fits {facts}")


def is_dml(o: Operation) -> bool:
    """Whether it leaves exactly one snapshot; procedures leave any number."""
    kind = kind_of(o)
    return kind is not None and kind.writes and (kind.changes_rows or kind.replaces)


def _replaces(o: Operation) -> bool:
    kind = kind_of(o)
    return kind is not None and kind.replaces


class Emptiness:
    """Whether an operation had nothing to change in some state that it may have seen. Iceberg then need not commit."""

    def __init__(self, t: Timeline) -> None:
        self._t = t

    def at_some_state(self, o: Operation) -> bool:
        """Also False if the states are unknown. An operation of unknown outcome may have seen any state after its invocation."""
        t = self._t
        if not t.rooted:
            return False
        first = t.settled(o.invoked.index)
        last = self._reached(o.completed.index) if o.completed is not None and o.type != "info" else len(t.main)
        state = State()
        for k in range(last + 1):
            if k:
                changes = t.changes(t.main[k - 1])
                if changes is None:
                    return False
                try:
                    state.apply(*changes)
                except KeyError:
                    return False
            if k >= first and t.meaning(o, state) == ([], []):
                return True
        return False

    def _reached(self, event: int) -> int:
        """The greatest position that may have been reached before an event: the operations of all commits so far were invoked."""
        t = self._t
        for k, c in enumerate(t.main):
            if c.op is not None and c.op in t.everything and t.everything[c.op].invoked.index > event:
                return k
        return len(t.main)


def writes(o: Operation) -> bool:
    """Whether its kind makes commits."""
    kind = kind_of(o)
    return kind is not None and kind.writes
