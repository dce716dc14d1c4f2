"""Operations on two tables, as each of the tables saw them.

A history has one event for a transfer or a read of two tables, under its first table; the arguments name the second. Checkers of single
tables see the operation once for each table: a transfer is a write on both, and its meaning says what it does to each; a read of both
is a ``read`` of each. The operation's id and its events stay the same, so that an anomaly can be traced to the history.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from checkers.evidence.evidence import Evidence
from checkers.evidence.history import Event, Operation
from checkers.evidence.replace import replace
from workloads.operations.kinds import KINDS

ALONE = "seen alone"
"""Key of an event's ``extra``: it marks an event as seen by one of its tables."""
BY_TABLE_KEY = "operations by table"
"""Key of the operations of each table in what is known of evidence."""
SHOWN = "snapshots read"
"""Key of such an event's ``extra``: the snapshots of that table that the result named."""


def second_of(f: str, value: Any) -> str | None:
    """The second table of an operation with these arguments; None if it has one table, or arguments of another form."""
    kind = KINDS.get(f)
    if kind is None or not kind.two_tables:
        return None
    try:
        return kind.second(value)
    except (TypeError, KeyError, AttributeError):
        return None


def tables_of(o: Operation) -> tuple[str, ...]:
    """The tables of an operation, its own first; for an event of :func:`alone` only that table."""
    kind = KINDS.get(o.f)
    if kind is None or not kind.two_tables or o.invoked.extra.get(ALONE):
        return () if o.table is None else (o.table,)
    return tuple(t for t in (o.table, second_of(o.f, o.value)) if t is not None)


def seen_from(o: Operation, table: str) -> Operation:
    """An operation as one of its tables saw it."""
    second = second_of(o.f, o.value)
    if second is None:
        return o
    f, value, result = KINDS[o.f].seen_from(o.value, o.result, table != o.table)
    return replace(o, table=table, f=f, value=value, result=result)


def snapshots_read(o: Operation) -> tuple[int, ...]:
    """The snapshots of its table that the result of an operation on two tables names as current ones, as ``Kind.snapshots_read``."""
    first, last = o.invoked, o.completed
    if last is None or last.type != "ok":
        return ()
    if SHOWN in last.extra:
        return tuple(last.extra[SHOWN])
    kind = KINDS.get(first.f)
    if kind is None or second_of(first.f, first.value) is None:
        return ()
    return kind.snapshots_read(first.value, last.value, o.table != first.table)


def any_snapshots_read(operations: Sequence[Operation]) -> bool:
    """Whether the result of any of them names snapshots (:func:`snapshots_read`)."""
    both = {f for f in {o.invoked.f for o in operations} if (kind := KINDS.get(f)) is not None and kind.two_tables}
    shown = (o for o in operations if o.completed is not None and SHOWN in o.completed.extra)
    asked = (o for o in operations if o.invoked.f in both) if both else ()
    return any(map(snapshots_read, shown)) or any(map(snapshots_read, asked))


def of_table(operations: Iterable[Operation], table: str) -> list[Operation]:
    """The operations on a table, in order, as it saw them."""
    return [seen_from(o, table) for o in operations if table in tables_of(o)]


def seen_by(operations: Iterable[Operation], table: str) -> list[Operation]:
    """All operations, in order; those on the table as it saw them."""
    return [seen_from(o, table) if table in tables_of(o) else o for o in operations]


def by_table(operations: Iterable[Operation]) -> dict[str, list[Operation]]:
    """Table → its operations, in order, as it saw them."""
    out: dict[str, list[Operation]] = {}
    every = [*operations]
    both = {f for f in {o.f for o in every} if (kind := KINDS.get(f)) is not None and kind.two_tables}
    for o in every:
        if o.f not in both:
            if o.table is not None:
                out.setdefault(o.table, []).append(o)
            continue
        for table in dict.fromkeys(tables_of(o)):
            out.setdefault(table, []).append(seen_from(o, table))
    return out


def tables_in(evidence: Evidence) -> Mapping[str, Sequence[Operation]]:
    """As :func:`by_table`, of all the history's operations."""
    if BY_TABLE_KEY not in evidence.known:
        evidence.known[BY_TABLE_KEY] = by_table(evidence.history.operations())
    found: Mapping[str, Sequence[Operation]] = evidence.known[BY_TABLE_KEY]
    return found


def alone(evidence: Evidence, table: str) -> Evidence:
    """The evidence with every event of an operation on the table as the table saw it, and as if it concerned no other table."""
    events = tuple(_events(evidence.history.events, table))
    return replace(evidence, history=replace(evidence.history, events=events))


def _events(events: Iterable[Event], table: str) -> Iterator[Event]:
    invoked: dict[str | None, Event] = {}
    for e in events:
        if e.op is None:
            yield e
            continue
        first = invoked.setdefault(e.op, e)
        second = second_of(first.f, first.value)
        if second is None or table not in (first.table, second):
            yield e
            continue
        f, value, result = KINDS[first.f].seen_from(first.value, None if e is first else e.value, table != first.table)
        shown = value if e is first else result
        extra = {**e.extra, ALONE: True}
        if e.type == "ok":
            extra[SHOWN] = KINDS[first.f].snapshots_read(first.value, e.value, table != first.table)
        yield replace(e, f=f, table=table, value=shown, extra=extra)
