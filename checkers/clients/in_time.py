"""Events whose lines are not in the order of their times: :func:`in_time`.

Several clients may each have written their own part of a file, or a program may write an operation where it ends. If every event has a
time, the times say what came before what, and the lines do not. If only some have one, the lines do, as far as the times agree with them.

**Equal times.** What was at the same time counts as concurrent, so that nobody is accused by the place of a line: operations begin before
others end. One process may end an operation and begin its next one at that time; where two do, no order of events says that neither
came first, and the history is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby, pairwise
from typing import Any

from checkers.evidence.history import NEMESIS, HistoryError

Placed = tuple[int, dict[str, Any]]
"""Where an event is in its file, and its fields."""

BY_TIME = "the lines are not in the order of their times, so the events were sorted by time"


def in_order(before: int | None, time: int | None) -> bool:
    """Whether an event may follow the one before it: no event has a time, or it is not the earlier one."""
    return time is None if before is None else time is not None and time >= before


def in_time(
    events: Sequence[Placed], fail: Callable[[int, str], HistoryError]
) -> tuple[list[Placed], tuple[str, ...]] | None:
    """The events in the order of their times, and what a note must say of it. None: the order of the lines is the order in time.

    Args:
        fail: makes the error for a place and a message.

    Raises:
        HistoryError: the times contradict the order of the lines, and events without a time have no other order; or times are equal where they
            must not be (above).
    """
    timed = [(fields["time"], at) for at, fields in events if fields["time"] is not None]
    early = next((pair for pair in pairwise(timed) if pair[1][0] < pair[0][0]), None)
    untimed = len(events) - len(timed)
    if not timed or (early is None and not untimed):
        return None
    if not untimed:
        return [*_sorted(events, fail)], (BY_TIME,)
    if early is not None:
        (before, _), (time, at) = early
        raise fail(
            at,
            f"its time {time} is before {before}, that of an event above it, and {untimed} of {len(events)} events have no time, "
            "so the order of the events is not known; give every event a time",
        )
    note = f"{untimed} of {len(events)} events have no time, so the order of the lines is the order in time"
    return [*_filled(events, timed[0][0])], (note,)


def _filled(events: Sequence[Placed], time: int) -> Iterator[Placed]:
    """The events, with the time of the one before where there is none; ``time``: the first that there is."""
    for at, fields in events:
        time = time if fields["time"] is None else fields["time"]
        yield at, {**fields, "time": time}


def _sorted(events: Sequence[Placed], fail: Callable[[int, str], HistoryError]) -> Iterator[Placed]:
    def time_of(event: Placed) -> int:
        return int(event[1]["time"])

    for time, same in groupby(sorted(events, key=time_of), time_of):
        begun: list[Placed] = []
        going_on: list[list[Placed]] = []
        ended: list[Placed] = []
        of_process: dict[int | str, list[Placed]] = {}
        for event in same:
            of_process.setdefault(event[1]["process"], []).append(event)
        for process, own in of_process.items():
            first = next((n for n, (_, e) in enumerate(own) if e["type"] != "invoke"), len(own))
            begun += own[:first]
            if process != NEMESIS and any(e["type"] == "invoke" for _, e in own[first:]):
                going_on.append(own[first:])
            else:
                ended += own[first:]
        if len(going_on) > 1:
            at, e = going_on[1][0]
            raise fail(
                at,
                f"{len(going_on)} processes, process {e['process']} among them, end an operation and begin another at the time {time}, and "
                "the lines are not in the order of their times, so what came first is not known; give finer times",
            )
        yield from (*begun, *(e for own in going_on for e in own), *ended)
