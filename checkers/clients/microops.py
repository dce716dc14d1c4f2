"""Transactions of a client-only history: what the micro-operations of their values say, as :mod:`checkers.isolation` takes them."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import Any

from checkers.evidence.history import EventError, Operation
from checkers.isolation.transactions import Op, Transaction
from checkers.timeline import explain

_ONLY_INT = frozenset({int})


FUNCTIONS = {"r": "r", "read": "r", "w": "w", "write": "w", "append": "append"}


def transactions(operations: Iterable[Operation], workload: str) -> list[Transaction]:
    """Operations ``txn`` as transactions; of those that are not ``ok``, the invoked writes.

    Raises:
        HistoryError: an operation that is not a transaction of this workload.
    """
    out = []
    lists = workload == "list-append"
    for o in operations:
        ok = o.type == "ok"
        event = o.completed if ok and o.completed is not None else o.invoked
        value = o.result if ok else o.value
        if not isinstance(value, list):
            raise EventError(event.index, f"expected a transaction such as [[r 1 [2]]], found {shortened(value)}")
        steps = tuple((lists and _plain_step(m)) or _step(m, event.index, workload, ok) for m in value)
        end = o.completed.index if ok and o.completed is not None else None
        out.append(Transaction(o.op, o.process, o.invoked.index, end, o.type, steps))
    return out


def _plain_step(m: Any) -> Op | None:
    """What :func:`_step` says of a micro-operation on whole numbers, the usual one; None for any other."""
    if type(m) is not list or len(m) != 3:
        return None
    f, key, value = m
    if type(key) is not int or (f != "append" if type(value) is int else f != "r" or type(value) is not list):
        return None
    return (f, key, value) if type(value) is int or set(map(type, value)) <= _ONLY_INT else None


def _step(m: Any, event: int, workload: str, ok: bool) -> Op:
    write = "append" if workload == "list-append" else "w"
    if not isinstance(m, list) or len(m) != 3 or not isinstance(m[0], str) or m[0] not in FUNCTIONS:
        raise EventError(event, f"expected [r KEY VALUE] or [{write} KEY VALUE], found {shortened(m)}")
    f, key, value = FUNCTIONS[m[0]], hashable(m[1]), m[2]
    if f == "r":
        if workload == "rw-register":
            return ("r", key, hashable(value))
        if value is not None and not isinstance(value, list):
            raise EventError(event, f"expected a list read of key {shortened(m[1])}, found {shortened(value)}")
        if value is None:
            return ("r", key, [] if ok else None)
        return ("r", key, [x if type(x) is int else hashable(x) for x in value])
    if f != write:
        raise EventError(event, f"{m[0]} is no operation of {workload}: it has r and {write}")
    if value is None:
        raise EventError(event, f"{m[0]} of key {shortened(m[1])} writes no value")
    return (write, key, hashable(value))


def hashable(v: Any) -> Hashable:
    """A JSON value as one that can be a key; keys are equal if and only if the values are."""
    if type(v) is int or type(v) is str:
        return v
    if isinstance(v, list | tuple):
        return tuple(hashable(x) for x in v)
    if isinstance(v, Mapping):
        return frozenset((k, hashable(x)) for k, x in v.items())
    if isinstance(v, bool | float):  # True is 1, and 1.0 too, to a dict
        return (type(v).__name__, v)
    return v  # type: ignore[no-any-return]


def shortened(v: Any) -> str:
    """A value in at most 60 characters."""
    text = explain.value(v)
    return text if len(text) <= 60 else text[:57] + "..."
