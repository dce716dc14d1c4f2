"""Counters with equal additions: a matching instead of a search.

The n-th addition to take effect, whichever it is, does so after every read of less than n began, and before any read of n or more
ended: its *window*. Windows move to the right as n grows, so each addition can be the n-th for one range of n::

    reads            0 ├───┤     2 ├──┤            2 ├────┤
    1st, 2nd        ├─────────────────┤                        after the read of 0 began, before the first of 2 ended
    3rd and later                                    ├──────►  after the last read of 2 began

An order exists if and only if every window up to the highest read has an addition of its own, and every addition that ended before the
last window begins has a window of its own. Both are matchings of intervals to points, found greedily (Glover 1967); where each exists, so
does one that is both (Mendelsohn and Dulmage 1958). Additions of unknown outcome may fill windows and need none. O(n log n).

If additions differ, the problem is hard (subset sum) and left to the search; bounds refute the simple cases.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from heapq import heappop, heappush
from itertools import accumulate

from checkers.linearizable.calls import NEVER, Call


def judge(calls: Sequence[Call], initial: int) -> bool | None:
    """Judges a counter; None when additions differ."""
    adds = [c for c in calls if not c.reads and c.value != 0]
    reads = [c for c in calls if c.reads]
    steps = {c.value for c in adds}
    if len(steps) > 1:
        return None
    step = steps.pop() if steps else 1
    counts: list[tuple[int, Call]] = []
    for r in reads:
        n, rest = divmod(r.result - initial, step)
        if rest or n < 0 or n > len(adds):
            return False
        counts.append((n, r))
    highest = max((n for n, _ in counts), default=0)
    opens, closes = [-2] * (highest + 2), [NEVER] * (highest + 2)
    for n, r in counts:
        opens[n + 1] = max(opens[n + 1], r.start)
        closes[n] = min(closes[n], r.end)
    opens = list(accumulate(opens, max))
    closes = list(accumulate(reversed(closes), min))[::-1]
    if any(opens[n] >= closes[n] for n in range(1, highest + 1)):
        return False
    first, last = closes[1 : highest + 1], opens[1 : highest + 1]
    ranges = [(bisect_right(first, c.start), bisect_left(last, c.end) - 1, c) for c in adds]
    bound = [(a, b) for a, b, c in ranges if c.end < opens[highest + 1]]
    return _matched([(a, b) for a, b, _ in ranges], highest) == highest and _matched(bound, highest) == len(bound)


def _matched(ranges: Sequence[tuple[int, int]], windows: int) -> int:
    """The maximum number of windows 0 … ``windows - 1`` that can each get a range of their own."""
    waiting = sorted(ranges, reverse=True)
    ready: list[int] = []
    found = 0
    for n in range(windows):
        while waiting and waiting[-1][0] <= n:
            heappush(ready, waiting.pop()[1])
        while ready and ready[0] < n:
            heappop(ready)
        if ready:
            heappop(ready)
            found += 1
    return found


def within_bounds(calls: Sequence[Call], initial: int) -> bool:
    """Whether every read lies between the smallest and the largest possible sum at that time: necessary, not sufficient."""
    adds = [c for c in calls if not c.reads]
    ends = sorted((c.end, c.value) for c in adds if c.ok)
    starts = sorted((c.start, c.value) for c in adds)
    ended, began = [e for e, _ in ends], [s for s, _ in starts]
    sure_more = [0, *accumulate(max(v, 0) for _, v in ends)]
    sure_less = [0, *accumulate(min(v, 0) for _, v in ends)]
    may_more = [0, *accumulate(max(v, 0) for _, v in starts)]
    may_less = [0, *accumulate(min(v, 0) for _, v in starts)]
    for r in calls:
        if r.reads:
            done, open_ = bisect_left(ended, r.start), bisect_left(began, r.end)
            low, high = sure_more[done] + may_less[open_], may_more[open_] + sure_less[done]
            if not low <= r.result - initial <= high:
                return False
    return True
