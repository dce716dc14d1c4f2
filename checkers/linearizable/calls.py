"""From a history to calls: what was asked, what was answered, and between which two events it took effect.

Time is the index of an event in the history: one total order, without ties. A call takes effect at one moment between ``start`` and
``end``. One of unknown outcome (``info``) has no end: it takes effect at any moment after its start, or never. Operations that failed
and reads of unknown outcome are not calls: the former had no effect, the latter show nothing.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from checkers.evidence.history import Operation
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
    """A history that does not fit the model; the message names the operation and what was expected.

    Attributes:
        op: the operation; None: it is about none.
        why: the message without it.
        asked: whether it is about what the operation was asked for, in its invocation, and not about what came.
    """

    def __init__(self, op: str | None, why: str, *, asked: bool = False) -> None:
        super().__init__(why if op is None else f"{op}: {why}")
        self.op, self.why, self.asked = op, why, asked


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


def keyed_by(operations: Sequence[Operation]) -> bool | None:
    """Whether values are pairs of an independent key and a value: ``[k v]``, of a cas ``[k [old new]]``.

    Each value must be such a pair; of a read that was invoked without one, its result. None: they may as well be values of a single object.
    That is so without a read, and where reads do not ask for a key. No ``cas`` fits both: nobody writes the ``k`` that it would replace.
    """
    asks: set[bool] = set()
    for o in operations:
        reads = o.f in _READS
        if reads and o.value is None and o.type != "ok":
            continue
        value = o.result if reads and o.value is None else o.value
        if not _is_pair(value) or value[0] is None or isinstance(value[0], list | Mapping):
            return False
        if o.f == "cas" and not _is_pair(value[1]):
            return False
        if reads:
            asks.add(o.value is not None)
    return True if asks == {True} or any(o.f == "cas" for o in operations) else None


def _is_pair(v: Any) -> bool:
    return isinstance(v, list) and len(v) == 2


def by_key(operations: Iterable[Operation], keyed: bool) -> dict[Hashable, list[tuple[Operation, Any, Any]]]:
    """Key → its operations that did not fail, with value and result; the key is None in a history without keys.

    Raises:
        UnfitHistory: the history is keyed, and an operation has no key.
    """
    if not keyed:
        return {None: [(o, o.value, o.result) for o in operations if o.type != "fail"]}
    out: dict[Hashable, list[tuple[Operation, Any, Any]]] = {}
    for o in operations:
        reads = o.f in _READS
        if o.type == "fail" or (reads and o.value is None and o.type != "ok"):
            continue
        value = [o.result[0], None] if reads and o.value is None and _is_pair(o.result) else o.value
        result = o.result
        if not _is_pair(value):
            why = f"expected a value of the form [key, value], found {explain.value(value)}"
            raise UnfitHistory(o.op, why, asked=o.value is not None)
        if _is_pair(result) and result[0] == value[0]:
            result = result[1]
        elif o.type == "ok" and reads:
            raise UnfitHistory(
                o.op,
                f"expected a result of the form [key, value] with the key {explain.value(value[0])}, found {explain.value(result)}",
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
