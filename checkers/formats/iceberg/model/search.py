"""A search of either tree of logs, with or without changes of the metadata: in several processes, and told how far it is.

The logs form a tree, so it splits by prefix: each log of :data:`SPLIT` entries and what follows it is searched alone, and nothing is shared.
The parts are put together in the order in which one process finds them, so the result is the same.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context

from checkers.formats.iceberg.model import logtree, upkeep
from checkers.formats.iceberg.model.logtree import Bound, Explored, Log
from checkers.formats.iceberg.model.table import TableVersion
from workloads.engines.engine import Rule

SPLIT = 2
"""Entries of a prefix: rows-v2 has 75 of them, so that two processes end together."""
WORTH = 4
"""Fewest entries of the longest log with which processes are started; three take a second at most (docs/model.md)."""
TOLD_EVERY_S = 0.5
"""Seconds of one process between two tellings."""


@dataclass(frozen=True)
class SearchProgress:
    """How far a search is.

    Attributes:
        depth: entries of the longest log so far.
        parts: prefixes that were searched, of how many; none of a search in one process.
    """

    logs: int
    seconds: float
    depth: int
    parts: tuple[int, int] | None = None

    def __str__(self) -> str:
        words = [f"{self.logs:,} logs", f"{self.logs / self.seconds:,.0f} a second" if self.seconds else ""]
        words += [f"the longest has {self.depth} entries"]
        if self.parts is not None:
            done, of = self.parts
            words.append(f"{done} of {of} parts")
            words += [f"about {self.seconds * (of - done) / done:,.0f} s left"] if done else []
        return ", ".join(filter(None, words))


Tell = Callable[[SearchProgress], None]


def usable_cores() -> int:
    """How many processes can go on at once; 1 where none can be forked."""
    if not hasattr(os, "fork"):
        return 1
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def search(bound: Bound, processes: int = 1, tell: Tell = lambda progress: None) -> Explored:
    """Search all logs within the bound. ``tell`` gets how far it is."""
    out, began, cpu = Explored(), time.monotonic(), time.process_time()
    longest = bound.writes + bound.compactions + bound.upkeep
    if processes == 1 or longest < WORTH:
        told = began
        for log, name in logs(bound, out):
            out.count(log, name)
            if (now := time.monotonic()) - told > TOLD_EVERY_S:
                told = now
                tell(SearchProgress(out.logs, now - began, len(log)))
        out.seconds = time.process_time() - cpu
        return out
    top = list(logs(bound, out, deepest=SPLIT))
    prefixes = [log for log, name in top if len(log) == SPLIT and logtree.goes_on(name)]
    with ProcessPoolExecutor(processes, get_context("fork")) as pool:
        parts = pool.map(partial(_part, bound), prefixes)
        done = 0
        for log, name in top:
            out.count(log, name)
            if len(log) == SPLIT and logtree.goes_on(name):
                out.merge(next(parts))
                done += 1
                tell(SearchProgress(out.logs, time.monotonic() - began, longest, (done, len(prefixes))))
    out.seconds += time.process_time() - cpu
    return out


def _part(bound: Bound, prefix: Log) -> Explored:
    """What follows a prefix."""
    out, began = Explored(), time.process_time()
    for log, name in logs(bound, out, prefix):
        out.count(log, name)
    out.seconds = time.process_time() - began
    return out


def logs(bound: Bound, out: Explored, prefix: Log = (), deepest: int | None = None) -> Iterator[tuple[Log, str | None]]:
    """The logs within the bound that go on from a prefix, each with the promise that its last entry breaks."""
    tree = upkeep.upkeep_logs if bound.upkeep else logtree.logs
    return tree(bound, out, prefix, deepest)


def rules_of(bound: Bound) -> set[Rule]:
    """The validations that some operation within the bound meets."""
    return upkeep.rules_with_upkeep(bound) if bound.upkeep else logtree.rules_of(bound)


def table_after(bound: Bound, log: Log) -> TableVersion | None:
    """Main's table at the end of a log; None: there is no main any more."""
    return upkeep.table_after(bound, log) if bound.upkeep else logtree.version_after(bound, log)
