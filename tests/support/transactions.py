"""Histories of transactions drawn in a line each, and what is true of them by exhaustive search.

A line is ``process start-end ops``; ``!`` after the times: it failed, ``?``: it crashed. Ops: ``ax1`` appends 1 to list x, ``rx12`` reads x as
[1, 2], ``rx`` as []; for registers ``wx1`` writes, ``rx1`` reads 1, ``rx`` the initial value. Without process and times a transaction is
a process of its own and concurrent with all others::

    draw("0 0-1 ax1", "1 2-3 rx", "ax2 ry")

The truth, for a handful of transactions, is by definition: some order of commits (and for snapshot isolation some snapshot for each) in
which everybody reads what they read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import combinations, pairwise, permutations
from random import Random
from typing import Any

from checkers.isolation import Transaction
from checkers.isolation.transactions import Op, Status

State = dict[str, tuple[int, ...]]


def draw(*lines: str) -> list[Transaction]:
    """Transactions T1, T2, …"""
    out: list[Transaction] = []
    for n, line in enumerate(lines, 1):
        words = line.split()
        status: Status = "ok"
        process, start, end = 1000 + n, 0, 1000
        if words[0].rstrip("?!").isdigit():
            process = int(words.pop(0))
            times = words.pop(0)
            start, end = map(int, times.rstrip("?!").split("-"))
            status = "fail" if times.endswith("!") else "info" if times.endswith("?") else "ok"
        elif words[0] in ("!", "?"):
            status = "fail" if words.pop(0) == "!" else "info"
        out.append(Transaction(f"T{n}", process, start, end, status, tuple(_op(w, lines) for w in words)))
    return out


def _op(word: str, lines: Sequence[str]) -> Op:
    f, key, rest = word[0], word[1], word[2:]
    if f == "a":
        return ("append", key, int(rest))
    if f == "w":
        return ("w", key, int(rest))
    if any(w.startswith("w") for line in lines for w in line.split()):
        return ("r", key, int(rest) if rest else None)
    return ("r", key, [int(c) for c in rest])


# --- the truth ----------------------------------------------------------------------------------------------------------


def execute(t: Transaction, snapshot: State, base: State) -> State | None:
    """The state after ``t`` read ``snapshot`` and committed on ``base``; None when it did not read what it says it read."""
    local, after = dict(snapshot), dict(base)
    for f, k, v in t.ops:
        if f == "r":
            if t.status == "ok" and local.get(k, ()) != _value(v):
                return None
        else:
            add = (v,)
            local[k] = local.get(k, ()) + add if f == "append" else add
            after[k] = after.get(k, ()) + add if f == "append" else add
    return after


def _value(v: Any) -> tuple[int, ...]:
    return tuple(v) if isinstance(v, list) else () if v is None else (v,)


def writes(t: Transaction) -> set[str]:
    """Keys that it writes."""
    return {str(k) for f, k, _ in t.ops if f != "r"}


def session(a: Transaction, b: Transaction) -> bool:
    """Whether ``a`` comes before ``b`` in a process."""
    return a.process == b.process and realtime(a, b)


def realtime(a: Transaction, b: Transaction) -> bool:
    """Whether ``a`` had ended when ``b`` began."""
    return a.status == "ok" and a.end is not None and a.end < b.start


def none(a: Transaction, b: Transaction) -> bool:
    """No order."""
    return False


Order = Callable[[Transaction, Transaction], bool]


def outcomes(history: Sequence[Transaction]) -> Iterator[list[Transaction]]:
    """The transactions that committed, in every way in which the crashed ones can have ended."""
    sure = [t for t in history if t.status == "ok"]
    crashed = [t for t in history if t.status == "info"]
    for n in range(len(crashed) + 1):
        for some in combinations(crashed, n):
            yield [*sure, *some]


def serializable(history: Sequence[Transaction], order: Order) -> bool:
    """Whether one after the other, in some order that agrees with ``order``, explains what was read."""

    def go(state: State, left: list[Transaction]) -> bool:
        if not left:
            return True
        for t in left:
            if not any(order(u, t) for u in left if u is not t):
                after = execute(t, state, state)
                if after is not None and go(after, [u for u in left if u is not t]):
                    return True
        return False

    return any(go({}, committed) for committed in outcomes(history))


def snapshot_isolated(history: Sequence[Transaction], order: Order) -> bool:
    """Whether some order of commits, and a snapshot for each, explains what was read, and the first committer won."""

    def go(states: list[State], done: list[Transaction], left: list[Transaction]) -> bool:
        if not left:
            return True
        for t in left:
            if any(order(u, t) for u in left if u is not t):
                continue
            mine = writes(t)
            for s in range(len(done), -1, -1):
                if s < len(done) and (writes(done[s]) & mine or order(done[s], t)):
                    break  # nor any older one
                after = execute(t, states[s], states[-1])
                if after is not None and go([*states, after], [*done, t], [u for u in left if u is not t]):
                    return True
        return False

    return any(go([{}], [], committed) for committed in outcomes(history))


def visible(history: Sequence[Transaction], *, far: bool, before_it: Order = none) -> bool | None:
    """Read atomic (``far``: causal) of a history of lists, by the axioms of Biswas and Enea; their session order is ``before_it``.

    Some total order of commits agrees with what was read and with the lists' orders, and if t2 wrote x and t3 read from t2 (``far``: at any
    distance) and read x from t1, then t2 is before t1. None when a read is of no committed, final version.
    """
    committed = [t for t in history if t.status == "ok"]
    orders: dict[str, list[int]] = {}
    writer: dict[tuple[str, int], Transaction] = {}
    final: dict[tuple[str, str], int] = {}
    for t in committed:
        for f, k, v in t.ops:
            if f == "r":
                orders[str(k)] = max(orders.get(str(k), []), v, key=len)
            else:
                writer[(str(k), v)] = t
                final[(str(t.id), str(k))] = v
    for t in committed:
        for k in writes(t):
            for f, k2, v in t.ops:
                if f != "r" and k2 == k and v not in orders.setdefault(k, []):
                    if any(
                        w is not t and (k, e) in writer and e not in orders[k]
                        for (kk, e), w in writer.items()
                        if kk == k
                    ):
                        return None
                    orders[k] = [*orders[k], v]
    before: set[tuple[str, str]] = set()
    for k, elements in orders.items():
        makers = [writer.get((k, e)) for e in elements]
        if None in makers or len(set(elements)) != len(elements):
            return None
        ids = [m.id for m in makers if m is not None]
        before |= {(str(a), str(b)) for a, b in pairwise(ids) if a != b}
    reads: list[tuple[Transaction, str, Transaction | None]] = []
    wr: set[tuple[str, str]] = set()
    for t in committed:
        touched: set[str] = set()
        for f, k, v in t.ops:
            if f == "r" and k not in touched:
                if v != orders[str(k)][: len(v)]:
                    return None
                source = writer[(str(k), v[-1])] if v else None
                if source is not None and (source is t or final[(str(source.id), str(k))] != v[-1]):
                    return None
                reads.append((t, str(k), source))
                if source is not None:
                    wr.add((str(source.id), str(t.id)))
            elif f == "r":
                return None
            touched.add(str(k))
    so = {(str(a.id), str(b.id)) for a in committed for b in committed if a is not b and before_it(a, b)}
    reach = wr | so
    if far:
        while more := {(a, d) for a, b in reach for c, d in reach if b == c} - reach:
            reach |= more
    need = before | wr | so
    for t3, k, t1 in reads:
        for t2 in committed:
            if k in writes(t2) and t2 is not t1 and (str(t2.id), str(t3.id)) in reach and t2 is not t3:
                if t1 is None:
                    return False
                need.add((str(t2.id), str(t1.id)))
    ids2 = [str(t.id) for t in committed]
    return any(all(p.index(a) < p.index(b) for a, b in need) for p in permutations(ids2))


# --- many of them -------------------------------------------------------------------------------------------------------


def sloppy(rng: Random, *, registers: bool = False, most: int = 4) -> list[Transaction]:
    """A few transactions on a database that keeps few promises: everybody reads some snapshot, sometimes one for each read."""
    n = rng.randint(2, most)
    versions: dict[str, list[tuple[int, ...]]] = {k: [()] for k in "xyz"[: rng.randint(1, 3)]}
    skew = rng.random()
    out: list[Transaction] = []
    value = 0
    free = dict.fromkeys(range(rng.randint(1, 3)), 0)
    for i in range(n):
        process = rng.choice(list(free))
        start = free[process] + rng.randint(1, 4)
        end = start + rng.randint(1, 6)
        free[process] = end
        status: Status = rng.choices(["ok", "info", "fail"], [12, 1, 1])[0]
        back = rng.randint(0, 2) if rng.random() < skew else 0
        ops: list[Op] = []
        mine: dict[str, tuple[int, ...]] = {}
        for _ in range(rng.randint(1, 3)):
            k = rng.choice(list(versions))
            if rng.random() < 0.55:
                if rng.random() < 0.2:
                    back = rng.randint(0, 2)
                seen = versions[k][max(0, len(versions[k]) - 1 - back)]
                if k in mine:
                    seen = mine[k] if registers else seen + mine[k]
                v: Any = list(seen) if not registers else (seen[-1] if seen else None)
                ops.append(("r", k, v if status == "ok" else None))
            else:
                value += 1
                ops.append(("w" if registers else "append", k, value))
                mine[k] = (value,) if registers else (*mine.get(k, ()), value)
        if status != "fail" and not (status == "info" and rng.random() < 0.5):
            for k, added in mine.items():
                at = versions[k][-1]
                versions[k].append(added if registers else at + added)
        out.append(Transaction(f"T{i + 1}", process, start, end, status, tuple(ops)))
    return out


def unread(history: Iterable[Transaction]) -> int:
    """The most appends to one key that nobody read: their order is not known."""
    appended: dict[str, set[int]] = {}
    read: dict[str, set[int]] = {}
    for t in history:
        for f, k, v in t.ops:
            if f == "r":
                read.setdefault(str(k), set()).update(v or ())
            elif t.status != "fail":
                appended.setdefault(str(k), set()).add(v)
    return max((len(a - read.get(k, set())) for k, a in appended.items()), default=0)
