"""Sets and lists whose reads show the whole order: levels instead of a search.

Elements are never removed, so of two reads one saw everything that the other saw. That puts calls on *levels*: an element's call is
below every read that contains it and above every read that does not; in a list, reads also order the elements::

    level   list                       set
      5     appends nobody read        adds nobody read
      4     reads of [a, b]            reads of {a, b, c}
      3     append b                   add b, add c
      2     reads of [a]               reads of {a}
      1     append a                   add a
      0     reads of []                reads of {}

Calls of one level may take effect in any order; those of a lower level take effect before those of a higher one. That is possible if
and only if no call ends before one of a lower level starts: go through the levels from below, each call as early as possible.
O(n log n), plus the elements that were read.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from checkers.linearizable.calls import NEVER, Call

Leveled = list[tuple[int, int, int]]
"""(level, start, end)."""


def judge_set(calls: Sequence[Call], initial: frozenset[Hashable]) -> bool:
    """Judges a set; complete for any history. Of several adds of one element, only the first to take effect changes anything."""
    starts: dict[Hashable, int] = dict.fromkeys(initial, -2)
    ends: dict[Hashable, int] = dict.fromkeys(initial, -1)
    reads: dict[Hashable, list[Call]] = {}
    for c in calls:
        if c.reads:
            reads.setdefault(c.result, []).append(c)
        else:
            starts[c.value] = min(c.start, starts.get(c.value, c.start))
            ends[c.value] = min(c.end, ends.get(c.value, c.end))
    if not all(isinstance(r, frozenset) for r in reads):
        return False
    points: Leveled = []
    level = 0
    before: frozenset[Hashable] = frozenset()
    for seen in sorted(reads, key=len):  # type: ignore[arg-type]
        assert isinstance(seen, frozenset)
        if not before <= seen:
            return False
        for x in seen - before:
            if x not in starts:
                return False
            points.append((level + 1, starts[x], ends[x]))
        points += [(level + 2, r.start, r.end) for r in reads[seen]]
        before, level = seen, level + 2
    points += [(level + 1, starts[x], ends[x]) for x in starts if x not in before and ends[x] != NEVER]
    return feasible(points)


def judge_list(calls: Sequence[Call], initial: tuple[Hashable, ...]) -> bool | None:
    """Judges a list; None when an element is appended twice, so that a read does not tell whose it is."""
    appends: dict[Hashable, Call] = {}
    longest = initial
    for c in calls:
        if c.reads:
            if len(c.result) > len(longest):
                longest = c.result
        elif c.value in appends or c.value in initial:
            return None
        else:
            appends[c.value] = c
    if longest[: len(initial)] != initial or len(set(longest)) != len(longest):
        return False
    points: Leveled = []
    for n, x in enumerate(longest[len(initial) :], len(initial) + 1):
        if x not in appends:
            return False
        points.append((2 * n - 1, appends[x].start, appends[x].end))
    known = set(longest)
    for c in calls:
        if c.reads:
            if len(c.result) < len(initial) or c.result != longest[: len(c.result)]:
                return False
            points.append((2 * len(c.result), c.start, c.end))
        elif c.ok and c.value not in known:
            points.append((2 * len(longest) + 1, c.start, c.end))
    return feasible(points)


def feasible(points: Leveled) -> bool:
    """Whether every call can take effect after all calls of lower levels."""
    points.sort()
    reached = start = -3
    level = -1
    for at_level, begun, end in points:
        if at_level != level:
            reached, level = max(reached, start), at_level
        if end < reached:
            return False
        start = max(start, begun)
    return True
