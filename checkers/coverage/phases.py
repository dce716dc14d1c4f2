"""The phases of one write, from its requests to the catalog.

Loads and commit requests are in the proxies' log, and the operation of each. What is not there, such as which load was the scan's, follows
from how Iceberg's clients go about it: the load just before a commit request is that attempt's refresh (``SnapshotProducer.apply``), the one
before that refresh the last of the scan. An engine that loads once scans what it refreshed. A write that a conflict aborted before it asked for
anything failed at the check after a refresh, so its last load was that.

A load, a refusal and a commit count as of the moment of the answer; so a boundary is off by no more than that request took.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from checkers.coverage.pair import Phase

Moment = tuple[int, int]
"""Ns since the start of the run, and among commits of one moment the number of the metadata version."""
LAST = 1 << 62
"""Greater than every version's number."""


class MetadataLoad(NamedTuple):
    """A request for the table's metadata: when it came and when its answer did, ns since the start of the run."""

    time: int
    end: int


class DecidedRequest(NamedTuple):
    """A request for a commit: when it came, when the catalog had decided, and whether it accepted."""

    time: int
    decided: Moment
    accepted: bool


@dataclass(frozen=True, slots=True)
class Segment:
    """An operation was in a phase from ``start`` on, and before ``end``; ``phase`` is None if it is not known."""

    phase: Phase | None
    start: Moment
    end: Moment


def segments(
    start: int, end: int, loads: Sequence[MetadataLoad], attempts: Sequence[DecidedRequest], *, aborted: bool = False
) -> list[Segment]:
    """The phases of one write on one table, in order, without gaps, from its invocation to its completion.

    Args:
        start: its invocation; ``end``: its completion, or that of the run; ns.
        loads: of this operation on this table, in any order; ``attempts`` likewise.
        aborted: whether a conflict made it give up.
    """
    out: list[Segment] = []
    position, stop = (start, -1), (end, LAST)

    def until(moment: Moment, phase: Phase | None) -> None:
        nonlocal position
        moment = min(moment, stop)
        if moment > position:
            out.append(Segment(phase, position, moment))
            position = moment

    def scanning(found: Sequence[MetadataLoad], opening: Phase, refreshed: bool) -> None:
        scan = found[-2] if refreshed and len(found) > 1 else found[-1]
        until((scan.end, LAST), opening)
        if refreshed:
            until((found[-1].end, LAST), "scanned")

    open_loads = sorted(loads, key=lambda load: load.end)
    refused = False
    opening: Phase = "before scan"
    for attempt in sorted(attempts):
        before = [load for load in open_loads if load.time < attempt.time]
        open_loads = [load for load in open_loads if load.time >= attempt.time]
        if refused:
            until((before[-1].end, LAST) if before else position, "refused")
            until(attempt.decided, "retry")
        elif before:
            scanning(before, opening, True)
            until(attempt.decided, "commit")
        else:
            until(attempt.decided, None if opening == "before scan" else "commit")
        refused = not attempt.accepted
        opening = "after" if attempt.accepted else "before scan"
    if refused:
        until((open_loads[-1].end, LAST) if open_loads else stop, "refused")
        until(stop, "retry")
    elif opening == "after" or not open_loads:
        until(stop, "after" if opening == "after" else "before scan")
    else:
        scanning(open_loads, "before scan", aborted and len(open_loads) > 1)
        until(stop, "commit" if aborted and len(open_loads) > 1 else "scanned")
    return out


def phase_at(found: Sequence[Segment], moment: Moment) -> Segment | None:
    """The segment that a moment is in; None if it is before the first or after the last."""
    return next((s for s in found if s.start <= moment < s.end), None)
