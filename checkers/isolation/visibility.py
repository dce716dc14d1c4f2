"""Levels that are not defined by cycles of the dependency graph: who read what decides them ([Bailis 2014], [Biswas Enea 2019]).

The same holds for the session guarantees ([Terry 1994])::

    fractured-read   T2 ──wr──► T3      and T3 read a version of some key that is older than T2's
    causality        T2 ─wr─► … ─wr─► T3   the same, through others
    session-causality                      the same, where a process' own order counts as well as wr

All of them are cycles too, so only transactions on cycles are examined.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Container, Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from checkers.isolation.explanation import Case
from checkers.isolation.graph import PROCESS, REALTIME, WR, Graph, Ints, components
from checkers.isolation.observed import TransactionHistory

ANCESTRY = 5_000_000
"""The most edges to search for violations of causality."""
SESSION_ANCESTRY = 300_000
"""The same with the order of processes, where nearly everything is in the past of a late reader. A history of 20,000 transactions with stale
reads took 59 s with :data:`ANCESTRY`, and takes 7 s with this; a history with so many
contradictions may have more of this name than are told; if there are only some that the search does not reach, the level is undecided."""
Older = Callable[[int, int], bool]
"""Whether a version of a key comes before another one."""


def atomicity_cases(h: TransactionHistory, cut: list[str] | None = None) -> Iterator[Case]:
    """``fractured-read`` and ``causality``, at most one of each reader: with whom it read from, back to the writer that it missed.

    ``cut`` gets the name of what was not searched to the end.
    """
    data = h.graph.of_kinds(~(PROCESS | REALTIME))
    for line, key in _missed_writers(h, data.of_kinds(WR), components(data), h.older, (), ANCESTRY, cut, "causality"):
        yield _missed("fractured-read" if len(line) == 2 else "causality", h, line, key)


def session_causality_cases(
    h: TransactionHistory, cut: list[str] | None = None, broken: Iterable[Case] | None = None
) -> Iterator[Case]:
    """``session-causality``, at most one of each reader that breaks nothing simpler.

    Args:
        cut: as above.
        broken: what :func:`session_cases` found; None: it is asked.
    """
    simpler = {case.transactions[0].id for case in (session_cases(h) if broken is None else broken)}
    seen, wr = h.graph.of_kinds(WR | PROCESS), h.graph.of_kinds(WR)
    read_from = set(zip(wr.dst.tolist(), wr.src.tolist(), strict=True))
    within = components(h.graph)
    how = h.older_in_session, simpler, SESSION_ANCESTRY, cut, "session-causality"
    for line, key in _missed_writers(h, seen, within, *how):
        read, written = h.accesses(line[0]).reads[key], h.accesses(line[-1]).writes[key]
        if not (h.older(read, written) and all(step in read_from for step in pairwise(line))):  # else it is causality
            yield _missed("session-causality", h, line, key)


def _missed(name: str, h: TransactionHistory, line: Sequence[int], key: Hashable) -> Case:
    read = h.accesses(line[0]).reads[key]
    return Case(name, tuple(h.transactions[n] for n in line), key, h.value(key, read))


def _missed_writers(
    h: TransactionHistory,
    seen: Graph,
    component: Ints,
    older: Older,
    without: Container[Hashable],
    most: int,
    cut: list[str] | None,
    name: str,
) -> Iterator[tuple[list[int], Hashable]]:
    """Each reader on a cycle that missed a write: the way back to its writer, and the key.

    Args:
        seen: the edges from a transaction to one that has seen it.
        without: ids of readers that are not looked at.
        most: edges to search; ``cut`` gets ``name`` if they are used up before the last reader.
    """
    seen = seen.only(component[seen.src] >= 0)
    sources: dict[int, list[int]] = {}
    for a, b in zip(seen.src.tolist(), seen.dst.tolist(), strict=True):
        sources.setdefault(b, []).append(a)
    members = _transactions(h, component)
    accesses = {n: h.accesses(n) for n in {*members, *seen.src.tolist()}}
    spent = 0
    for reader in members:
        reads = accesses[reader].reads
        if not reads or h.transactions[reader].id in without:
            continue
        if spent > most:
            if cut is not None:
                cut.append(name)
            return

        def missed_key(n: int, reads: Mapping[Hashable, int] = reads) -> Any:
            return next((k for k, v in accesses[n].writes.items() if k in reads and older(reads[k], v)), None)

        line, searched = _back(reader, sources, lambda n: missed_key(n) is not None)
        spent += searched
        if line:
            yield line, missed_key(line[-1])


def _back(reader: int, sources: Mapping[int, list[int]], missed: Callable[[int], bool]) -> tuple[list[int], int]:
    """From a reader back to a transaction that it missed, best one that it read from itself; and the edges searched."""
    way = dict.fromkeys(sources.get(reader, ()), reader)
    todo, searched = deque(way), 0
    while todo:
        n = todo.popleft()
        if n != reader and missed(n):
            line = [n]
            while line[-1] != reader:
                line.append(way[line[-1]])
            return line[::-1], searched
        for m in sources.get(n, ()):
            searched += 1
            if m not in way:
                way[m] = n
                todo.append(m)
    return [], searched


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
