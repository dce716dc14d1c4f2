"""Requests that a REST catalog accepted and did not apply.

A client of a REST catalog sends snapshots, and the catalog makes the metadata file. So an accepted request says which snapshots some later
version must list, and where main must have been. A request that adds nothing and puts main at an older snapshot says from where to where
main must have gone. A branch or tag that it sets must be in some later version, as main must. ``POST /v1/transactions/commit`` is answered by
an empty 204: the client cannot see from the answer whether the commit was made.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from checkers.evidence.proxylog import AcceptedChange
from checkers.evidence.tablelog import TableLog


@dataclass(frozen=True, slots=True)
class Unapplied:
    """An accepted change that no metadata version shows.

    Attributes:
        snapshot: the snapshot that is missing.
        listed: whether a version lists it, so that only main never had it.
        been: whether main was at it, but did not go there from the change's base (for each request that asked for it).
        rival: another accepted change on the same base that was made.
    """

    change: AcceptedChange
    snapshot: int
    listed: bool
    been: bool
    rival: AcceptedChange | None


def unapplied(log: TableLog, accepted: Sequence[AcceptedChange]) -> Iterator[Unapplied]:
    """The accepted changes that the log must show and does not, by time. The log must have every version up to its last capture."""
    until = log.captured_until
    if until is None:
        return
    on_main = {m.current for m in log.metadata}
    repeated = moved_again(accepted)
    if not repeated and all(c.main is not None and c.main in on_main for c in accepted):
        return  # as usual
    listed = {s for m in log.metadata for s in m.snapshots}
    without = _without_move(log, repeated)

    def missing(c: AcceptedChange) -> int | None:
        if c.main is not None and c.main in on_main:
            # The others that it adds are below it, also where the catalog lists only the current snapshot.
            return c.main if (c.op, c.base, c.main) in without else None
        lost = [s for s in c.adds if s not in listed]
        return lost[0] if lost else c.main

    for c in accepted:
        if c.end >= until or (snapshot := missing(c)) is None:
            continue
        rivals = [r for r in accepted if r.base == c.base is not None and r.main is not None and missing(r) is None]
        yield Unapplied(c, snapshot, snapshot in listed, snapshot in on_main, rivals[0] if rivals else None)


def moved_again(accepted: Sequence[AcceptedChange]) -> list[AcceptedChange]:
    """The changes that must move main to a snapshot which they do not add, from another one."""
    if all(c.main is None or c.main in c.adds or c.base is None or c.base == c.main for c in accepted):
        return []
    staged = {s for c in accepted if c.main is None for s in c.adds}
    old = [c for c in accepted if c.main is not None and c.main not in c.adds and c.main not in staged]
    return [c for c in old if c.base is not None and c.base != c.main]


def _without_move(log: TableLog, repeated: Sequence[AcceptedChange]) -> set[tuple[str | None, int | None, int | None]]:
    """Operation, base and target of changes to a snapshot that was there before, for which main did not go from the base to the target.

    If main went that way less often than it was told to, the first changes were made: a later one found main there already. An
    operation's request that was sent and accepted twice is one.
    """
    moves = Counter((a.current, b.current) for a, b in pairwise(log.metadata) if a.current != b.current)
    asked = dict.fromkeys((c.op, c.base, c.main) for c in repeated)
    out = set()
    for change in asked:
        way = change[1:]
        if moves[way] > 0:
            moves[way] -= 1
        else:
            out.add(change)
    return out


@dataclass(frozen=True, slots=True)
class LostRef:
    """A branch or tag other than main that an accepted change set, and no metadata version shows so.

    Attributes:
        before: whether a version has it at that snapshot, but none moves it there from the change's base for this change.
    """

    change: AcceptedChange
    name: str
    snapshot: int
    before: bool


def lost_refs(log: TableLog, accepted: Sequence[AcceptedChange]) -> Iterator[LostRef]:
    """The branches and tags that the log must show and does not, by time. The log must have every version up to its last capture."""
    until = log.captured_until
    setting = [c for c in accepted if c.refs]
    heads = [m.refs for m in log.metadata]
    if until is None or not setting:
        return
    if all(len(m.snapshots) <= 1 for m in log.metadata) and not any(r.keys() - {"main"} for r in heads):
        return  # such a catalog serves only what main has
    present = {head for refs in heads for head in refs.items()}
    moves = Counter((name, a.get(name), b[name]) for a, b in pairwise(heads) for name in b if a.get(name) != b[name])
    asked: set[tuple[str | None, str, int | None, int]] = set()
    for c in setting:
        for name, snapshot in c.refs if c.end < until else ():
            if (name, snapshot) not in present:
                yield LostRef(c, name, snapshot, False)
                continue
            # Only one ref is set: the base is what it must have, if it ever had that.
            own = c.main is None and len(c.refs) == 1 and c.base != snapshot and (name, c.base) in present
            if not own or (c.op, name, c.base, snapshot) in asked:
                continue
            asked.add((c.op, name, c.base, snapshot))
            moves[name, c.base, snapshot] -= 1
            if moves[name, c.base, snapshot] < 0:
                yield LostRef(c, name, snapshot, True)
