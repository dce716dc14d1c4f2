"""Input and output: transactions, findings, and the result.

Transactions are Elle's: reads, and writes whose values are unique for their key, so that a read names the writer of its version::

    Transaction("a", 0, 10, 15, "ok", (("append", "x", 1), ("r", "y", [3, 4])))     lists: a read shows the order of all versions
    Transaction("b", 1, 11, 14, "ok", (("r", "x", None), ("w", "x", 7)))            registers: a read shows one version
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, Literal

from checkers.isolation.levels import LEVELS, closure, forbids, strongest, violated, weakest

Status = Literal["ok", "fail", "info"]
Op = tuple[str, Hashable, Any]
"""``("r", key, value)``: a list, or a register's value; None is the initial value, and unknown if the transaction is not ok.
``("append", key, element)``, ``("w", key, value)``: hashable, written to its key only once in a history."""


@dataclass(frozen=True, slots=True)
class Transaction:
    """One transaction as its client saw it.

    Attributes:
        id: its name in explanations.
        process: the process that executed it; a process executes one at a time.
        start: when it was invoked: a time, or an event's index.
        end: when it completed; None if never. Ignored unless it is ok: a crashed one may take effect at any later time.
        status: ``ok`` committed, ``fail`` certainly did not, ``info`` unknown. Reads of one that is not ok are ignored.
        ops: what it did, in order.
    """

    id: Hashable
    process: Hashable
    start: int
    end: int | None
    status: Status
    ops: tuple[Op, ...]


@dataclass(frozen=True, slots=True)
class CycleEdge:
    """One edge of a cycle: ``before`` must come before ``after``, because …

    ``kind``: ``ww``, ``wr``, ``rw``, ``rwp``, ``process`` or ``realtime``. ``because``: a clause with the names of the two transactions
    in the explanation.
    """

    before: Hashable
    after: Hashable
    kind: str
    because: str


@dataclass(frozen=True, slots=True)
class IsolationFinding:
    """One anomaly.

    Attributes:
        name: see ``levels``.
        transactions: ids of those involved; first the offender (in a cycle: where the explanation begins).
        explanation: why it is a contradiction, in Elle's style.
        steps: a cycle's edges; empty for other anomalies.
        key: the key concerned, if any.
    """

    name: str
    transactions: tuple[Hashable, ...]
    explanation: str
    steps: tuple[CycleEdge, ...] = ()
    key: Hashable = None


@dataclass(frozen=True)
class IsolationResult:
    """What a history says about isolation.

    Attributes:
        level: the level asked for.
        findings: every anomaly found, the worst first, legal at ``level`` or not; at most :data:`MOST_FINDINGS` of each name.
        counts: anomaly → how many were found.
        undecided: why parts of the history could not be judged; if not empty, the result is at best ``unknown``.
        transactions: their number.
        edges: the number of edges in the graph.
    """

    level: str
    findings: tuple[IsolationFinding, ...]
    counts: dict[str, int]
    undecided: tuple[str, ...] = ()
    transactions: int = 0
    edges: int = 0

    @property
    def violations(self) -> tuple[IsolationFinding, ...]:
        """The findings that ``level`` forbids."""
        return tuple(f for f in self.findings if forbids(self.level, f.name))

    @property
    def allowed(self) -> tuple[IsolationFinding, ...]:
        """The findings that are legal at ``level``."""
        return tuple(f for f in self.findings if not forbids(self.level, f.name))

    @property
    def valid(self) -> Literal[True, False, "unknown"]:
        """Whether ``level`` holds."""
        return False if self.violations else "unknown" if self.undecided else True

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the findings, without repetitions, in order."""
        return tuple(dict.fromkeys(f.name for f in self.findings))

    @property
    def implied(self) -> frozenset[str]:
        """The names, and the anomalies that they imply by definition."""
        return closure(self.names)

    @property
    def violated(self) -> frozenset[str]:
        """Every level that does not hold."""
        return violated(self.names)

    @property
    def weakest_violated(self) -> tuple[str, ...]:
        """The violated levels that imply no other violated level."""
        return weakest(self.violated)

    @property
    def strongest_standing(self) -> tuple[str, ...]:
        """The levels that hold and that no other holding level implies."""
        return strongest(level for level in LEVELS if level not in self.violated)

    def holds(self, level: str) -> bool:
        """Whether no anomaly was found that ``level`` forbids.

        Raises:
            KeyError: there is no such level.
        """
        if level not in LEVELS:
            raise KeyError(level)
        return level not in self.violated


MOST_FINDINGS = 10
"""How many findings of one name are explained; the others are counted."""

_ORDER = (
    "garbage-read",
    "duplicate-elements",
    "G0",
    "incompatible-order",
    "dirty-update",
    "G1a",
    "G1b",
    "future-read",
    "G1c",
    "internal",
    "fractured-read",
    "causality",
    "session-causality",
    "lost-update",
)


@dataclass
class Findings:
    """Collects findings: counts all, explains the first :data:`MOST_FINDINGS` of each name."""

    counts: Counter[str] = field(default_factory=Counter)
    kept: list[IsolationFinding] = field(default_factory=list)

    def add(self, name: str, explain: Callable[[], IsolationFinding]) -> None:
        """Count one, and explain it if it is among the first of its name."""
        self.counts[name] += 1
        if self.counts[name] <= MOST_FINDINGS:
            self.kept.append(explain())

    def sorted(self) -> tuple[IsolationFinding, ...]:
        """The explained findings, the worst names first."""
        rank = {name: n for n, name in enumerate(_ORDER)}
        names = list(dict.fromkeys(f.name for f in self.kept))
        names.sort(key=lambda name: rank.get(name, len(rank)))  # a stable sort: cycles come the worst first
        return tuple(f for name in names for f in self.kept if f.name == name)
