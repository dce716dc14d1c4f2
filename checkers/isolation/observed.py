"""What all transaction histories share, whatever the data type: their dependencies, and their order in time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from checkers.isolation.explanation import show
from checkers.isolation.graph import PROCESS, REALTIME, Graph, GraphBuilder
from checkers.isolation.transactions import Transaction


class KeyAccess(NamedTuple):
    """Key → version: of its first external read, and of its last write. :meth:`TransactionHistory.older` compares versions."""

    reads: dict[Hashable, int]
    writes: dict[Hashable, int]


@dataclass(frozen=True)
class TransactionHistory(ABC):
    """A history of transactions, and what follows from it. Finders look at it; nothing changes it.

    Attributes:
        transactions: the history.
        undecided: why parts of it cannot be judged.
    """

    transactions: tuple[Transaction, ...]
    undecided: tuple[str, ...]

    @abstractmethod
    def dependencies(self) -> GraphBuilder:
        """The data dependencies."""

    @abstractmethod
    def why_data(self, before: int, after: int, kind: int, key: int) -> str:
        """Why one transaction depends on another, as a clause about ``{before}`` and ``{after}``."""

    @abstractmethod
    def accesses(self, n: int) -> KeyAccess:
        """What a transaction read and wrote, as far as the versions are known."""

    @abstractmethod
    def value(self, key: Hashable, version: int) -> Any:
        """The list or the value that a version of a key is."""

    def older(self, a: int, b: int) -> bool:
        """Whether version ``a`` of a key is known to come before version ``b`` of the same key."""
        return a < b

    def older_in_session(self, a: int, b: int) -> bool:
        """The same, where the writes of one process took effect in its order."""
        return self.older(a, b)

    @cached_property
    def failed(self) -> list[bool]:
        """Of each transaction, whether it failed."""
        return [t.status == "fail" for t in self.transactions]

    @cached_property
    def committed(self) -> list[bool]:
        """Of each transaction, whether it committed for certain."""
        return [t.status == "ok" for t in self.transactions]

    # --- the graph

    @cached_property
    def graph(self) -> Graph:
        """Dependencies, process order and real time: failed transactions have neither of these two, crashed ones never ended."""
        g = self.dependencies()
        nodes = np.flatnonzero(~np.array(self.failed, dtype=bool))
        present = [self.transactions[n] for n in nodes.tolist()]
        g.in_time(nodes, [t.process for t in present], [t.start for t in present], [ended(t) for t in present])
        return g.graph()

    def id(self, n: int) -> Hashable:
        """The id of a transaction."""
        return self.transactions[n].id

    def show(self, n: int) -> str:
        """A transaction, in words."""
        return show(self.transactions[n])

    def why(self, before: int, after: int, kind: int, key: int) -> tuple[int, str]:
        """See ``cycles.Explainer``."""
        if kind == PROCESS:
            return kind, f"process {self.transactions[before].process} executed {{before}} before {{after}}"
        if kind == REALTIME:
            a, b = self.transactions[before], self.transactions[after]
            return kind, f"{{before}} had ended (event {a.end}) when {{after}} began (event {b.start})"
        return kind, self.why_data(before, after, kind, key)


def ended(t: Transaction) -> int | None:
    """When a transaction certainly had ended; None if it may take effect at any later time."""
    return t.end if t.status == "ok" else None
