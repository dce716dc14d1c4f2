"""Models: how an object behaves, call by call. Each defines the form of its operations and their effect on a state.

=================== ================================================ =================================== ======================
name                operations (``f``, value)                        a read returns                      first state
=================== ================================================ =================================== ======================
``register``        ``write`` v, ``read``                            v                                   None
``cas-register``    the same, and ``cas`` [old, new]                 v                                   None
``counter``         ``add`` n, ``read``                              the sum                             0
``set``             ``add`` v, ``read``                              all elements, in any order          none
``append-list``     ``append`` v, ``read``                           all elements, in order              none
``multi-register``  ``txn`` [["w", k, v], ["r", k, null], …]         the same with the values read       None for every key
=================== ================================================ =================================== ======================

Functions of micro-operations may be spelled out (``write``, ``read``). A read of None means, for a register, that nothing was
written; for a set or a list, that it is empty.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, ClassVar

from checkers.evidence.history import Operation
from checkers.linearizable.calls import NEVER, Call, UnfitHistory, bounds, freeze, thaw
from checkers.timeline import explain

State = Any
"""Hashable."""


class Model(ABC):
    """A sequential object."""

    name: ClassVar[str]
    keyed: ClassVar[bool] = True
    """Whether a history may consist of independent keys."""

    def __init__(self, initial: State) -> None:
        self.initial = initial

    @abstractmethod
    def call(self, o: Operation, value: Any, result: Any) -> Call:
        """An operation that did not fail, as a call.

        Raises:
            UnfitHistory: it does not belong to this model.
        """

    @abstractmethod
    def step(self, state: State, call: Call) -> Sequence[State]:
        """The possible states after the call takes effect at ``state``; none when it cannot take effect there."""

    def kind(self, call: Call) -> Hashable | None:
        """What a call of unknown outcome does: two of equal kind have the same effect. None when no other is like it."""
        return (call.f, call.value)

    def invoked(self, state: State, call: Call) -> State:
        """The state when a call begins; it differs only in a model that remembers what calls may have seen."""
        return state

    def far(self, state: State, call: Call) -> int:
        """Estimated distance of a state from one that explains a call; the search tries near states first."""
        return 0

    def size(self, state: State) -> int:
        """How many small states this one counts as."""
        return 1

    def describe(self, state: State) -> str:
        """A state, in words."""
        return explain.value(thaw(state))

    def words(self, call: Call) -> str:
        """A call, in words."""
        if call.reads:
            return f"{call.f} of {self.describe(call.result)}"
        return f"{call.f} {self.describe(call.value)}"


class Register(Model):
    """A read returns the last written value."""

    name = "register"

    def __init__(self, initial: Any = None) -> None:
        super().__init__(freeze(initial))

    def call(self, o: Operation, value: Any, result: Any) -> Call:
        start, end = bounds(o)
        if o.f == "read":
            return Call(o.op, o.process, "read", None, freeze(result), True, start, end)
        if o.f == "write":
            return Call(o.op, o.process, "write", freeze(value), None, False, start, end)
        raise _not_known(o, self.name, "read, write")

    def step(self, state: State, call: Call) -> Sequence[State]:
        if call.reads:
            return (state,) if call.result == state else ()
        return (call.value,)


class CasRegister(Register):
    """A register with compare-and-set: a ``cas [old, new]`` that is ok found ``old``; one of unknown outcome may have found another value."""

    name = "cas-register"

    def call(self, o: Operation, value: Any, result: Any) -> Call:
        if o.f != "cas":
            if o.f not in ("read", "write"):
                raise _not_known(o, self.name, "read, write, cas")
            return super().call(o, value, result)
        if not isinstance(value, list) or len(value) != 2:
            raise UnfitHistory(o.op, f"expected a cas of [old, new], found {explain.value(value)}", asked=True)
        start, end = bounds(o)
        return Call(o.op, o.process, "cas", (freeze(value[0]), freeze(value[1])), None, False, start, end)

    def step(self, state: State, call: Call) -> Sequence[State]:
        if call.f == "cas":
            old, new = call.value
            return (new,) if old == state else ()
        return super().step(state, call)

    def words(self, call: Call) -> str:
        if call.f == "cas":
            return f"cas from {explain.value(thaw(call.value[0]))} to {explain.value(thaw(call.value[1]))}"
        return super().words(call)


class Counter(Model):
    """A read returns the sum of all additions."""

    name = "counter"

    def __init__(self, initial: int = 0) -> None:
        super().__init__(initial)

    def call(self, o: Operation, value: Any, result: Any) -> Call:
        start, end = bounds(o)
        if o.f not in ("add", "read"):
            raise _not_known(o, self.name, "add, read")
        number = value if o.f == "add" else result
        if (o.f == "add" or end != NEVER) and (isinstance(number, bool) or not isinstance(number, int)):
            why = f"expected a whole number to {o.f}, found {explain.value(number)}"
            raise UnfitHistory(o.op, why, asked=o.f == "add")
        if o.f == "read":
            return Call(o.op, o.process, "read", None, number, True, start, end)
        return Call(o.op, o.process, "add", number, None, False, start, end)

    def step(self, state: State, call: Call) -> Sequence[State]:
        if call.reads:
            return (state,) if call.result == state else ()
        return (state + call.value,)


class GrowSet(Model):
    """Elements are added, and a read returns all of them. A read that returns an element twice is rejected."""

    name = "set"

    def __init__(self, initial: Sequence[Any] = ()) -> None:
        super().__init__(frozenset(map(freeze, initial)))

    def call(self, o: Operation, value: Any, result: Any) -> Call:
        start, end = bounds(o)
        if o.f == "add":
            return Call(o.op, o.process, "add", freeze(value), None, False, start, end)
        if o.f != "read":
            raise _not_known(o, self.name, "add, read")
        elements = [freeze(x) for x in _list(o, result, end)]
        found: Any = frozenset(elements)
        if len(found) != len(elements):
            found = ("list", *elements)
        return Call(o.op, o.process, "read", None, found, True, start, end)

    def step(self, state: State, call: Call) -> Sequence[State]:
        if call.reads:
            return (state,) if call.result == state else ()
        return (state | {call.value},)

    def size(self, state: State) -> int:
        return 1 + len(state) // 16

    def describe(self, state: State) -> str:
        if not isinstance(state, frozenset):
            return explain.value(thaw(state))
        return _brief(
            sorted((thaw(x) for x in state), key=lambda x: (str(type(x)), x if isinstance(x, int) else str(x))), "{}"
        )


class AppendList(Model):
    """Elements are appended, and a read returns all of them, in order."""

    name = "append-list"

    def __init__(self, initial: Sequence[Any] = ()) -> None:
        super().__init__(tuple(map(freeze, initial)))

    def call(self, o: Operation, value: Any, result: Any) -> Call:
        start, end = bounds(o)
        if o.f == "append":
            return Call(o.op, o.process, "append", freeze(value), None, False, start, end)
        if o.f != "read":
            raise _not_known(o, self.name, "append, read")
        return Call(o.op, o.process, "read", None, tuple(map(freeze, _list(o, result, end))), True, start, end)

    def step(self, state: State, call: Call) -> Sequence[State]:
        if call.reads:
            return (state,) if call.result == state else ()
        return ((*state, call.value),)

    def size(self, state: State) -> int:
        return 1 + len(state) // 32

    def words(self, call: Call) -> str:
        return super().words(call) if call.reads else f"append {explain.value(thaw(call.value))}"

    def describe(self, state: State) -> str:
        return _brief([thaw(x) for x in state], "[]")


_MICRO: Mapping[str, str] = {"r": "r", "read": "r", "w": "w", "write": "w"}


class MultiRegister(Model):
    """Registers, several of which are read and written at once. The state is the frozen set of written (key, value) pairs."""

    name = "multi-register"
    keyed = False

    def __init__(self, initial: Mapping[Any, Any] | None = None) -> None:
        super().__init__(frozenset((freeze(k), freeze(v)) for k, v in (initial or {}).items() if v is not None))

    def call(self, o: Operation, value: Any, result: Any) -> Call:
        start, end = bounds(o)
        asked = end == NEVER
        answer = value if asked else result
        if not isinstance(answer, list):
            raise UnfitHistory(
                o.op,
                f'expected a transaction such as [["w", 1, 2], ["r", 3, null]], found {explain.value(answer)}',
                asked=asked,
            )
        steps = []
        for m in answer:
            if not isinstance(m, list) or len(m) != 3 or m[0] not in _MICRO:
                raise UnfitHistory(
                    o.op,
                    f'expected a micro-operation such as ["w", 1, 2] or ["r", 3, null], found {explain.value(m)}',
                    asked=asked,
                )
            steps.append((_MICRO[m[0]], freeze(m[1]), freeze(m[2])))
        reads = all(f == "r" for f, _, _ in steps)
        return Call(o.op, o.process, "txn", tuple(steps), None, reads, start, end)

    def step(self, state: State, call: Call) -> Sequence[State]:
        now = dict(state)
        for f, k, v in call.value:
            if f == "w":
                now[k] = v
            elif call.end != NEVER and now.get(k) != v:
                return ()
        return (frozenset((k, v) for k, v in now.items() if v is not None),)

    def size(self, state: State) -> int:
        return 1 + len(state) // 4

    def kind(self, call: Call) -> Hashable | None:
        return tuple(m for m in call.value if m[0] == "w")

    def words(self, call: Call) -> str:
        return "txn " + ", ".join(
            f"{'write' if f == 'w' else 'read'} {explain.value(thaw(k))} {explain.value(thaw(v))}"
            for f, k, v in call.value
        )

    def describe(self, state: State) -> str:
        return _brief(sorted(f"{explain.value(thaw(k))}: {explain.value(thaw(v))}" for k, v in state), "{}", str)


MODELS: Mapping[str, type[Model]] = {
    m.name: m for m in (Register, CasRegister, Counter, GrowSet, AppendList, MultiRegister)
}
"""Models by name."""


def _not_known(o: Operation, model: str, known: str) -> UnfitHistory:
    return UnfitHistory(o.op, f"the model {model} has no operation {o.f!r}; it has: {known}", asked=True)


def _list(o: Operation, result: Any, end: int) -> Sequence[Any]:
    if end == NEVER or result is None:
        return ()
    if not isinstance(result, list | tuple):
        raise UnfitHistory(o.op, f"expected a read of a list, found {explain.value(result)}")
    return result


def _brief(items: Sequence[Any], brackets: str, show: Callable[[Any], str] = explain.value) -> str:
    most = 12
    text = ", ".join(map(show, items[-most:]))
    return brackets[0] + (f"… {len(items) - most} more …, " if len(items) > most else "") + text + brackets[1]
