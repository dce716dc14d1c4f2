"""Small histories by the ten thousand, and an oracle that tries every order of them.

The oracle shares nothing with the checkers: it has its own idea of the objects, and no idea of its own of how to be quick.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from random import Random
from typing import Any, NamedTuple

from checkers.evidence.history import Event, EventType, History


class Op(NamedTuple):
    """One operation: ``end`` is None when its outcome is not known."""

    f: str
    value: Any
    result: Any
    start: int
    end: int | None


def allowed(model: str, state: Any, op: Op) -> tuple[bool, Any]:
    """Whether an operation can have taken effect at a state, and the state after it."""
    known = op.end is not None
    if model == "multi-register":
        now = dict(state)
        for f, k, v in op.result if known else op.value:
            if f == "w":
                now[k] = v
            elif known and now.get(k) != v:
                return False, state
        return True, now
    if op.f == "read":
        seen = sorted(op.result or [], key=str) if known and model == "set" else op.result
        is_list = known and model == "append-list"
        return not known or (list(seen or []) if is_list else seen) == state, state
    if op.f == "write":
        return True, op.value
    if op.f == "cas":
        return op.value[0] == state, op.value[1]
    if op.f == "append":
        return True, [*state, op.value]
    if model == "set":
        return True, sorted({*state, op.value}, key=str)
    return True, state + op.value


FIRST: dict[str, Any] = {
    "register": None,
    "cas-register": None,
    "counter": 0,
    "set": [],
    "append-list": [],
    "multi-register": {},
}


def has_order(model: str, ops: Sequence[Op]) -> bool:
    """Whether some order of the operations, those of unknown outcome with or without, explains them all."""

    def go(state: Any, left: frozenset[int]) -> bool:
        bound = min((e for n in left if (e := ops[n].end) is not None), default=None)
        if bound is None:
            return True
        for n in left:
            if ops[n].start < bound:
                fine, after = allowed(model, state, ops[n])
                if fine and go(after, left - {n}):
                    return True
        return False

    return go(FIRST[model], frozenset(range(len(ops))))


def history(ops: Sequence[Op], failed: Sequence[Op] = ()) -> History:
    """The operations as a history, every one a process of its own. Starts and ends must all be different."""
    moments: list[tuple[int, EventType, int, Any]] = []
    everything = [*ops, *failed]
    for n, op in enumerate(everything):
        moments.append((op.start, "invoke", n, op.value))
        if op.end is not None:
            moments.append((op.end, "ok" if n < len(ops) else "fail", n, op.result if op.result is not None else None))
    moments.sort(key=lambda m: m[0])
    events = []
    for i, (_, kind, n, value) in enumerate(moments):
        f = everything[n].f
        said = everything[n].value if kind == "ok" and f not in ("read", "txn") else value
        events.append(Event(i, i * 1000, kind, n, f, None, said, f"o{n}"))
    return History({"format": 1}, tuple(events))


@dataclass(frozen=True)
class Kinds:
    """How operations of a model are drawn: a write's ``f`` and value, and a read's result when it is made up."""

    write: Callable[[Random, int], tuple[str, Any]]
    made_up: Callable[[Random], Any]


KINDS: dict[str, Kinds] = {
    "register": Kinds(lambda r, n: ("write", n + 1 if r.random() < 0.8 else r.randint(1, 2)), lambda r: r.choice([None, 1, 2, 3])),
    "cas-register": Kinds(
        lambda r, n: ("write", r.randint(1, 2)) if r.random() < 0.5 else ("cas", [r.choice([None, 1, 2]), r.randint(1, 2)]),
        lambda r: r.choice([None, 1, 2]),
    ),
    "counter": Kinds(
        lambda r, n: ("add", 1 if n or r.random() < 0.7 else r.choice([-1, 0, 2])), lambda r: r.randint(0, 3)
    ),
    "set": Kinds(lambda r, n: ("add", n if r.random() < 0.8 else 0), lambda r: [x for x in range(4) if r.random() < 0.5]),
    "append-list": Kinds(
        lambda r, n: ("append", n if r.random() < 0.9 else 0), lambda r: r.sample(range(4), r.randint(0, 3))
    ),
    "multi-register": Kinds(
        lambda r, n: ("txn", [[r.choice("rw"), k, n] for k in r.sample("xyz", r.randint(1, 2))]), lambda r: r.choice([None, 0, 1, 2])
    ),
}  # fmt: skip


def drawn(model: str, rng: Random, *, most: int = 6, processes: int = 3, unknown: float = 0.2) -> list[Op]:
    """A history of up to ``most`` operations: of a real object at first, and in two of three then with one answer changed."""
    kinds, state, clock = KINDS[model], FIRST[model], 0
    ops: list[Op] = []
    running: list[list[Any]] = []  # [f, value, result, start, has taken effect]
    todo = rng.randint(1, most)
    while todo or running:
        clock += 2  # odd moments are left to be used
        if todo and len(running) < processes and (not running or rng.random() < 0.5):
            todo -= 1
            f, value = kinds.write(rng, todo)
            if rng.random() < 0.5 and model != "multi-register":
                f, value = "read", None
            if f == "txn":
                value = [[m, k, v if m == "w" else None] for m, k, v in value]
            running.append([f, value, None, clock, False])
            continue
        one = rng.choice(running)
        if not one[4]:
            one[4] = True
            op = Op(one[0], one[1], None, 0, None)
            if one[0] == "txn":
                now, seen = dict(state), []
                for m, k, v in one[1]:
                    if m == "w":
                        now[k] = v
                    seen.append([m, k, now.get(k) if m == "r" else v])
                state, one[2] = now, seen
            elif one[0] == "read":
                one[2] = list(state) if isinstance(state, list) else state
            elif one[0] != "cas" or one[1][0] == state:
                state = allowed(model, state, op)[1]
            else:
                running.remove(one)  # it failed
            continue
        running.remove(one)
        ops.append(Op(*one[:4], None if one[0] != "read" and rng.random() < unknown else clock))
    # Some that never took effect are of unknown outcome, too.
    if unknown and rng.random() < unknown:
        f, value = kinds.write(rng, most)
        value = [[m, k, v if m == "w" else None] for m, k, v in value] if f == "txn" else value
        ops.append(Op(f, value, None, rng.randint(0, clock) * 2 + 1, None))
    if rng.random() < 0.67:
        reads = [n for n, o in enumerate(ops) if o.end is not None and o.f in ("read", "txn")]
        if reads:
            n = rng.choice(reads)
            if ops[n].f == "read":
                ops[n] = ops[n]._replace(result=kinds.made_up(rng))
            else:
                ops[n] = ops[n]._replace(
                    result=[[m, k, kinds.made_up(rng) if m == "r" else v] for m, k, v in ops[n].result]
                )
    return sorted(ops, key=lambda o: o.start)


def spans(n: int) -> Iterator[tuple[tuple[int, int], ...]]:
    """Every way in which ``n`` intervals can lie, numbered by their starts: 1, 3, 15, 105, …"""

    def go(moment: int, started: int, running: tuple[int, ...], at: tuple[tuple[int, int], ...]) -> Iterator[Any]:
        if moment == 2 * n:
            yield at
            return
        if started < n:
            yield from go(moment + 1, started + 1, (*running, started), (*at, (moment, -1)))
        for k in running:
            ended = tuple((s, moment) if j == k else (s, e) for j, (s, e) in enumerate(at))
            yield from go(moment + 1, started, tuple(j for j in running if j != k), ended)

    yield from go(0, 0, (), ())


def every(n: int, choices: Sequence[tuple[str, Any, Any, bool]]) -> Iterator[list[Op]]:
    """Every history of ``n`` operations out of (f, value, result, whether its outcome is known)."""
    for at in spans(n):
        for picked in product(choices, repeat=n):
            yield [Op(f, v, r, s, e if known else None) for (f, v, r, known), (s, e) in zip(picked, at, strict=True)]
