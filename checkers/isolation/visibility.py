"""Levels that are not defined by cycles of the dependency graph: who read what decides them ([Bailis 2014], [Biswas Enea 2019]).

The same holds for the session guarantees ([Terry 1994])::

    fractured-read   T2 ──wr──► T3      and T3 read a version of some key that is older than T2's
    causality        T2 ─wr─► … ─wr─► T3   the same, through others

All of them are cycles too, so only transactions on cycles are examined.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from checkers.isolation.explanation import Case
from checkers.isolation.graph import PROCESS, REALTIME, WR, Ints, components
from checkers.isolation.observed import KeyAccess, TransactionHistory

ANCESTRY = 5_000_000
"""The most edges to search for violations of causality."""


def atomicity_cases(h: TransactionHistory) -> Iterator[Case]:
    """``fractured-read`` and ``causality``, at most one of each reader: with whom it read from, back to the writer that it missed."""
    data = h.graph.of_kinds(~(PROCESS | REALTIME))
    component = components(data)
    wr = data.of_kinds(WR)
    wr = wr.only(component[wr.src] >= 0)
    sources: dict[int, list[int]] = {}
    for a, b in zip(wr.src.tolist(), wr.dst.tolist(), strict=True):
        sources.setdefault(b, []).append(a)
    members = _transactions(h, component)
    accesses = {n: h.accesses(n) for n in {*members, *wr.src.tolist()}}
    spent = 0
    for reader in members:
        if not accesses[reader].reads or spent > ANCESTRY:
            continue
        line, searched = _missed_writer(h, reader, sources, accesses)
        spent += searched
        if line:
            reads = accesses[reader].reads
            key = _missed_key(h, reads, accesses[line[-1]].writes)
            name = "fractured-read" if len(line) == 2 else "causality"
            yield Case(name, tuple(h.transactions[n] for n in line), key, h.value(key, reads[key]))


def _missed_writer(
    h: TransactionHistory, reader: int, sources: Mapping[int, list[int]], accesses: Mapping[int, KeyAccess]
) -> tuple[list[int], int]:
    """From a reader back to a transaction of whose writes it missed one, best one that it read from itself; and the edges searched."""
    reads = accesses[reader].reads
    direct = set(sources.get(reader, ()))
    way: dict[int, int] = dict.fromkeys(direct, reader)
    todo = list(direct)
    missed: int | None = None
    searched = 0
    while todo:
        n = todo.pop(0) if len(todo) < 64 else todo.pop()
        if n != reader and (missed is None or n in direct) and _missed_key(h, reads, accesses[n].writes) is not None:
            missed = n
            if n in direct:
                break
        for m in sources.get(n, ()):
            searched += 1
            if m not in way:
                way[m] = n
                todo.append(m)
    if missed is None:
        return [], searched
    line = [missed]
    while line[-1] != reader:
        line.append(way[line[-1]])
    return line[::-1], searched


def _missed_key(h: TransactionHistory, reads: Mapping[Hashable, int], writes: Mapping[Hashable, int]) -> Any:
    return next((k for k, v in writes.items() if k in reads and h.older(reads[k], v)), None)


def session_cases(h: TransactionHistory) -> Iterator[Case]:
    """Broken session guarantees, key by key, in the processes of transactions on any cycle: the later transaction, then the earlier."""
    processes = {h.transactions[n].process for n in _transactions(h, components(h.graph))}
    lines: dict[Hashable, list[int]] = {}
    for n, t in enumerate(h.transactions if processes else ()):
        if t.process in processes and t.status == "ok":
            lines.setdefault(t.process, []).append(n)
    for line in lines.values():
        yield from _session(h, sorted(line, key=lambda n: h.transactions[n].start))


def _session(h: TransactionHistory, line: Iterable[int]) -> Iterator[Case]:
    read: dict[Hashable, tuple[int, int]] = {}  # key → newest version so far, and whose
    written: dict[Hashable, tuple[int, int]] = {}
    for n in line:
        reads, writes = h.accesses(n)
        for now, before, name in (
            (reads, read, "non-monotonic-read"),
            (reads, written, "read-your-writes"),
            (writes, written, "non-monotonic-write"),
            (writes, read, "writes-follow-reads"),
        ):
            for k, v in now.items():
                if k in before and h.older(v, before[k][0]):
                    yield Case(name, (h.transactions[n], h.transactions[before[k][1]]), k)
        for now, before in ((reads, read), (writes, written)):
            for k, v in now.items():
                if k not in before or not h.older(v, before[k][0]):
                    before[k] = (v, n)


def _transactions(h: TransactionHistory, component: Ints) -> list[int]:
    """The transactions on cycles; other nodes are virtual."""
    return [n for n in np.flatnonzero(component >= 0).tolist() if n < len(h.transactions)]
