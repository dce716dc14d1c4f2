"""From a history to calls: what was asked, what was answered, and between which two events it took effect.

Time is the index of an event in the history: one total order, without ties. A call takes effect at one moment between ``start`` and
``end``. One of unknown outcome (``info``) has no end: it takes effect at any moment after its start, or never. Operations that failed
and reads of unknown outcome are not calls: the former had no effect, the latter show nothing.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from checkers.evidence.history import History, Operation
from checkers.timeline import explain

NEVER = 1 << 62
"""The end of a call that was never answered."""
_READS = ("read", "r")


@dataclass(slots=True)
class Call:
    """One call on one object.

    Attributes:
        op: the operation's id.
        f: what it does, in the model's terms.
        value: its argument.
        result: what a read returned; None for a write.
        reads: whether it leaves every state unchanged.
        start, end: indices of the events; ``end`` is ``NEVER`` when the outcome is not known.
    """

    op: str
    process: Hashable
    f: str
    value: Any
    result: Any
    reads: bool
    start: int
    end: int

    @property
    def ok(self) -> bool:
        """Whether it certainly took effect."""
        return self.end != NEVER


class UnfitHistory(ValueError):
    """A history that does not fit the model; the message names the operation and what was expected."""


def freeze(v: Any) -> Hashable:
    """A JSON value that can be compared and hashed; 1, 1.0 and true stay three different values."""
    t = type(v)
    if t is int or t is str or v is None:
        return v  # type: ignore[no-any-return]
    if isinstance(v, Mapping):
        return ("map", *sorted((str(k), freeze(x)) for k, x in v.items()))
    if isinstance(v, list | tuple):
        return ("list", *map(freeze, v))
    if isinstance(v, int):
        return (t.__name__, bool(v)) if isinstance(v, bool) else int(v)
    return (t.__name__, v)


def thaw(v: Any) -> Any:
    """The original of a frozen value."""
    if not isinstance(v, tuple) or not v:
        return v
    if v[0] == "list":
        return [thaw(x) for x in v[1:]]
    return {k: thaw(x) for k, x in v[1:]} if v[0] == "map" else v[1]


def bounds(o: Operation) -> tuple[int, int]:
    """An operation's start and end."""
    return o.invoked.index, o.completed.index if o.type == "ok" and o.completed is not None else NEVER


def is_keyed(operations: Sequence[Operation]) -> bool:
    """Whether every value, also of a read, is a pair of an independent key and a value (``[k v]``; of a cas ``[k [old new]]``)."""
    for o in operations:
        if not isinstance(o.value, list) or len(o.value) != 2 or isinstance(o.value[0], list | Mapping):
            return False
        if o.f == "cas" and not isinstance(o.value[1], list):
            return False
    return any(o.f in _READS for o in operations)


def by_key(
    history: History | Iterable[Operation], keyed: bool | None
) -> dict[Hashable, list[tuple[Operation, Any, Any]]]:
    """Key → its operations that did not fail, with value and result; the key is None in a history without keys.

    Raises:
        UnfitHistory: the history is keyed, and an operation has no key.
        HistoryError: invocations and completions do not pair.
    """
    operations = history.operations() if isinstance(history, History) else list(history)
    if keyed is None:
        keyed = is_keyed(operations)
    if not keyed:
        return {None: [(o, o.value, o.result) for o in operations if o.type != "fail"]}
    out: dict[Hashable, list[tuple[Operation, Any, Any]]] = {}
    for o in operations:
        if o.type == "fail":
            continue
        value, result = o.value, o.result
        if not isinstance(value, list) or len(value) != 2:
            raise UnfitHistory(f"{o.op}: expected a value of the form [key, value], found {explain.value(value)}")
        if isinstance(result, list) and len(result) == 2 and result[0] == value[0]:
            result = result[1]
        elif o.type == "ok" and o.f in _READS:
            raise UnfitHistory(
                f"{o.op}: expected a result of the form [key, value] with the key {explain.value(value[0])}, found {explain.value(result)}"
            )
        out.setdefault(freeze(value[0]), []).append((o, value[1], result))
    return out


def cut(calls: Sequence[Call], time: int) -> list[Call]:
    """The calls as known after event ``time``: the outcome of those not answered by then is unknown, and such reads are dropped."""
    out: list[Call] = []
    for c in calls:
        if c.start > time or (c.reads and c.end > time):
            continue
        out.append(c if c.end <= time else Call(c.op, c.process, c.f, c.value, None, c.reads, c.start, NEVER))
    return out
