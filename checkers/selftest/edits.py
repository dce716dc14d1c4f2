"""Edits of a history that keep it a history: dense indices, ascending times, one operation a process at a time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from checkers.evidence.history import Event
from checkers.evidence.replace import replace
from workloads.tables import Row, State

CONFLICT_ERROR = ("org.apache.iceberg.exceptions.CommitFailedException", "Commit failed: branch main has changed")
REFUSED_ERROR = ("org.apache.iceberg.exceptions.ValidationException", "Missing required files to delete")
NO_ANSWER = ("org.apache.iceberg.exceptions.CommitStateUnknownException", "Service failed: 504")
"""Errors of operations: class and message."""


def renumbered(events: Sequence[Event]) -> tuple[Event, ...]:
    """Dense indices, and ascending times."""
    out: list[Event] = []
    now = 0
    for n, e in enumerate(events):
        now = max(now, e.time)
        out.append(e if e.index == n and e.time == now else replace(e, index=n, time=now))
    return tuple(out)


def returned(events: Sequence[Event], results: Mapping[str, Any]) -> Sequence[Event]:
    """The events with these results of operations."""
    return [
        replace(e, value=results[e.op]) if e.op is not None and e.type == "ok" and e.op in results else e
        for e in events
    ]


def completed(events: Sequence[Event], op: str, type: Any, error: Sequence[tuple[str, str]] = ()) -> list[Event]:
    """The events with another completion of an operation. After ``info`` its writer continues as a new process."""
    out: list[Event] = []
    new = fresh(events)
    moved: Any = None
    for e in events:
        if e.op == op and e.type != "invoke":
            e = replace(e, type=type, value=None, error=[list(x) for x in error] or None)
            moved = e.process if type == "info" else None
        elif moved is not None and e.process == moved:
            e = replace(e, process=new)
        out.append(e)
    return out


def fresh(events: Iterable[Event]) -> int:
    """An unused process number."""
    return 1 + max((e.process for e in events if isinstance(e.process, int)), default=0)


def alone(events: Sequence[Event], op: str) -> list[Event]:
    """The events with an operation as a process of its own, so that it can be moved."""
    new = fresh(events)
    return [replace(e, process=new) if e.op == op else e for e in events]


def moved(
    events: Sequence[Event], op: str, *, invoked_before: int | None = None, ended_after: int | None = None
) -> list[Event]:
    """The events with an invocation moved before the event with this index, or a completion moved after one."""
    out = alone(events, op)
    for index, is_invoke in ((invoked_before, True), (ended_after, False)):
        if index is None:
            continue
        found = next(n for n, e in enumerate(out) if e.op == op and (e.type == "invoke") == is_invoke)
        if (is_invoke and found <= index) or (not is_invoke and found >= index):
            continue
        e = out.pop(found)
        near = out[index].time if is_invoke else out[index - 1].time
        out.insert(index, replace(e, time=near))
    return out


def inserted(events: Sequence[Event], index: int, more: Iterable[Event]) -> list[Event]:
    """The events with more of them before this index."""
    time = events[index].time if index < len(events) else events[-1].time
    return [*events[:index], *(replace(e, time=time) for e in more), *events[index:]]


def answered(process: int, f: str, table: str, value: Any, op: str, result: Any) -> list[Event]:
    """An operation, from invocation to answer."""
    return [
        Event(0, 0, "invoke", process, f, table, value, op),
        Event(0, 0, "ok", process, f, table, result, op),
    ]


def read(table: str, process: int, op: str, state: State) -> list[Event]:
    """A read of a whole table that returns this state."""
    return answered(process, "read", table, {}, op, values(state.rows()))


def values(found: Iterable[Row]) -> list[list[Any]]:
    """Rows as in a read's result."""
    return [list(r) for r in found]
