"""Requests that a REST catalog accepted and did not apply.

A client of a REST catalog sends snapshots, and the catalog makes the metadata file. So an accepted request says which snapshots some later
version must list, and where main must have been. ``POST /v1/transactions/commit`` is answered by an empty 204: the client cannot see from the
answer whether the commit was made.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from checkers.evidence.proxylog import AcceptedChange
from checkers.evidence.tablelog import TableLog


@dataclass(frozen=True, slots=True)
class Unapplied:
    """An accepted change that no metadata version shows.

    Attributes:
        snapshot: the snapshot that is missing.
        listed: whether a version lists it, so that only main never had it.
        rival: another accepted change on the same base that was made.
    """

    change: AcceptedChange
    snapshot: int
    listed: bool
    rival: AcceptedChange | None


def unapplied(log: TableLog, accepted: Sequence[AcceptedChange]) -> Iterator[Unapplied]:
    """The accepted changes that the log must show and does not, by time. The log must have every version up to its last capture."""
    until = log.captured_until
    if until is None:
        return
    on_main = {m.current for m in log.metadata}
    if all(c.main is not None and c.main in on_main for c in accepted):
        return  # as usual
    listed = {s for m in log.metadata for s in m.snapshots}

    def missing(c: AcceptedChange) -> int | None:
        if c.main is not None and c.main in on_main:
            return None  # the others that it adds are below it, also where the catalog lists only the current snapshot
        lost = [s for s in c.adds if s not in listed]
        return lost[0] if lost else c.main

    for c in accepted:
        if c.end >= until or (snapshot := missing(c)) is None:
            continue
        rivals = [r for r in accepted if r.base == c.base is not None and r.main is not None and missing(r) is None]
        yield Unapplied(c, snapshot, snapshot in listed, rivals[0] if rivals else None)
