"""Is the order of main's commits one that real time allows?

The order of main is read from the system under test, so it is checked before other checkers build on it: an operation that was
acknowledged before another was invoked must come first in the chain. (Jepsen's ``set-full`` checks the same for a set: lost, duplicated,
stale.)
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from checkers.commits.anomalies import anomaly
from checkers.evidence.history import Operation
from checkers.evidence.tablelog import Commit
from checkers.timeline import explain
from checkers.timeline.timeline import Timeline
from checkers.verdict import Anomaly


def out_of_order(t: Timeline) -> Iterator[Anomaly]:
    """Pairs of operations whose order on main contradicts real time; one anomaly per late commit, with its first victim.

    One of the two is named first. The snapshots' timestamps ascend along main, unless a commit was put before others that were there
    already: then it is that commit, else the acknowledgement that came too early. If they are equal, it is the one that contradicts more of
    the others.
    """
    for early, second, late, first, count in sorted(_pairs(t), key=lambda p: t.position[p[0].snapshot_id]):
        behind = sum(1 for _ in _acknowledged_behind(t, early, second, count + 1))
        inserted = (early.timestamp_ms, behind) > (late.timestamp_ms, count)
        both = (second, first) if inserted else (first, second)
        sentences = (
            f"main has {explain.snapshot(early)} of the {explain.operation(second)} before {explain.snapshot(late)} of the "
            f"{explain.operation(first)}; yet the latter was {explain.outcome(first)}, before the former was invoked at "
            f"{explain.s(second.start)}, so its snapshot must come first."
            if inserted
            else f"the {explain.operation(first)} was {explain.outcome(first)}, before the {explain.operation(second)} was invoked at "
            f"{explain.s(second.start)}, so its snapshot must come first; yet main has {explain.snapshot(early)} of the second "
            f"before {explain.snapshot(late)} of the first."
        )
        more = f" The same holds of {count - 1} more operations between the two." if count > 1 else ""
        yield anomaly("commit-order", t, f"{sentences}{more}", both, [early, late], evidence={"pairs": count})


def _pairs(t: Timeline) -> Collection[tuple[Commit, Operation, Commit, Operation, int]]:
    """Early commit and its operation, late commit and its operation, and how many early ones contradict that late one.

    Walks the chain from its end with the earliest acknowledgement so far: the operation at position k must not have been invoked after
    an operation at a later position was acknowledged.
    """
    earliest: tuple[int, Commit, Operation] | None = None
    pairs: dict[str, tuple[Commit, Operation, Commit, Operation, int]] = {}
    for c in reversed(t.main):
        o = t.everything.get(c.op) if c.op is not None else None
        if o is None or o.table != t.name:
            continue
        if earliest is not None and earliest[0] < o.invoked.index:
            _, late, first = earliest
            pairs[first.op] = (c, o, late, first, pairs[first.op][4] + 1 if first.op in pairs else 1)
        if c not in t.at_acknowledgement(o):
            continue
        if o.type == "ok" and o.completed is not None and (earliest is None or o.completed.index < earliest[0]):
            earliest = o.completed.index, c, o
    return pairs.values()


def _acknowledged_behind(t: Timeline, c: Commit, o: Operation, most: int) -> Iterator[Operation]:
    """Operations, at most so many, whose commits come after ``c`` of ``o`` though they were acknowledged before ``o`` was invoked."""
    found: set[str] = set()
    for later in t.main[t.position[c.snapshot_id] :]:
        x = t.everything.get(later.op) if later.op is not None else None
        if x is None or x.table != t.name or x.op in found or x.type != "ok" or x.completed is None:
            continue
        if x.completed.index < o.invoked.index and later in t.at_acknowledgement(x):
            found.add(x.op)
            yield x
            if len(found) == most:
                return
