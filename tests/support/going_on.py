"""A stored run, told again as it went on: its events, and what the captures added to the table logs, in the order in which they came."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from checkers.evidence.evidence import Evidence
from checkers.evidence.history import Event
from checkers.evidence.tablelog import Growth, TableLog
from checkers.timeline.version_order import place

Told = Event | Growth


def growths(log: TableLog) -> Iterator[Growth]:
    """One for each capture that added something or named a known version, and one for versions that came after the last."""
    where = {place(m.location): m.n for m in log.metadata}
    known = -1
    for c in log.captures:
        n = -1 if c.metadata is None else where.get(place(c.metadata), -1)
        new = [m for m in log.metadata if known < m.n <= n]
        yield Growth(log.table, log.columns, tuple(new), tuple(x for x in log.commits if known < x.metadata <= n), (c,))
        known = max(known, n)
    rest = tuple(m for m in log.metadata if m.n > known)
    if rest:
        yield Growth(log.table, log.columns, rest, tuple(x for x in log.commits if x.metadata > known), ())


def torn(g: Growth, rng: Random) -> Iterator[Growth]:
    """A capture that the store cut short, again and again: whole versions, and the capture with the last of them."""
    left = list(g.metadata)
    while len(left) > 1 and rng.random() < 0.7:
        cut = rng.randrange(1, len(left))
        first, left = left[:cut], left[cut:]
        commits = tuple(c for c in g.commits if first[0].n <= c.metadata <= first[-1].n)
        yield Growth(g.table, g.columns, tuple(first), commits, ())
    low = left[0].n if left else 0
    yield Growth(g.table, g.columns, tuple(left), tuple(c for c in g.commits if c.metadata >= low), g.captures)


def again(log: TableLog, upto: int) -> Growth:
    """What a follower that began again tells: everything up to a version."""
    metadata = tuple(m for m in log.metadata if m.n <= upto)
    return Growth(log.table, log.columns, metadata, tuple(c for c in log.commits if c.metadata <= upto), ())


def told(evidence: Evidence, rng: Random, *, late: int = 0, tear: bool = False, restart: float = 0.0) -> list[Told]:
    """The run as it was told: a capture comes after the events that were recorded before it ended.

    Args:
        late: events, at most, that come before a capture although they happened after it.
        tear: whether captures are cut short.
        restart: share of captures before which the follower begins again.
    """
    events = evidence.history.events
    invoked = {e.op: n for n, e in enumerate(events) if e.type == "invoke"}
    at: dict[int, list[Growth]] = {}
    for log in evidence.logs.values():
        place_ = 0
        for g in growths(log):
            time = g.captures[0].time if g.captures else None
            due = len(events) if time is None else sum(e.time < time for e in events)
            due = max([due, place_, *(invoked.get(c.op or "", -1) + 1 for c in g.commits)])
            place_ = min(len(events), due + rng.randint(0, late))
            parts = at.setdefault(place_, [])
            if rng.random() < restart and g.metadata:
                parts.append(again(log, g.metadata[0].n - 1))
            parts += torn(g, rng) if tear else [g]
    out: list[Told] = []
    for n in range(len(events) + 1):
        out += at.get(n, [])
        out += events[n : n + 1]
    return out
