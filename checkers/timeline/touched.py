"""Which rows an operation of a history is about, by its kind; histories may also have arguments that mean nothing."""

from __future__ import annotations

from checkers.evidence.history import Operation
from workloads.operations.kind import Touches
from workloads.operations.kinds import KINDS
from workloads.tables import TableSpec

_NUMBERS = frozenset({int})
"""The types of ids, partitions and parities."""


def touches(o: Operation, table: TableSpec) -> Touches | None:
    """What an operation reads or changes; None for an unknown kind, and for arguments of another form than its kind's.

    A read of rows (:func:`reads_rows`) is of the whole table or of one id.
    """
    kind = KINDS.get(o.f)
    if kind is None:
        return None
    try:
        found = kind.touches(o.value, table)
        types = {*map(type, found.named)}
        if found.predicate or found.parts:
            types.update(map(type, (*(found.predicate or ()), *found.parts)))
    except (TypeError, KeyError, IndexError, AttributeError, ValueError):
        return None
    if kind.verb == "read" and not found.whole and len(found.ids) != 1 and reads_rows(o):
        return None
    return found if types <= _NUMBERS else None


def reads_rows(o: Operation) -> bool:
    """Whether it reads the rows that it touches as they are now, and returns them."""
    kind = KINDS.get(o.f)
    return kind is not None and kind.verb == "read" and kind.by_facts and not kind.travels


def ids_named(o: Operation, table: TableSpec) -> tuple[int, ...]:
    """The ids that an operation names, ascending, each once."""
    found = touches(o, table)
    return () if found is None else tuple(sorted({*found.named}))
