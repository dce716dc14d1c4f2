"""What goes in and what comes out: transactions, findings, and the result.

Transactions are those of Elle: reads, and writes whose values are unique for their key, so that a version read names its writer::

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
"""``("r", key, value)``: a list, or a register's value; None for the initial one, in a transaction that is not ok for an unknown one.
``("append", key, element)``, ``("w", key, value)``: hashable, written to its key only once in a history."""


@dataclass(frozen=True, slots=True)
class Transaction:
    """One transaction as its client saw it.

    Attributes:
        id: what explanations call it.
        process: whose it is; a process has one at a time.
        start: when it was invoked: a time, or an event's index.
        end: when it was answered; None when it never was. Ignored unless it is ok: a crashed one may take effect at any later time.
        status: ``ok`` committed, ``fail`` certainly not, ``info`` unknown. Reads of what is not ok are not looked at.
        ops: what it did, in order.
    """

    id: Hashable
    process: Hashable
    start: int
    end: int | None
    status: Status
    ops: tuple[Op, ...]


@dataclass(frozen=True, slots=True)
class Step:
    """One edge of a cycle: ``before`` must come before ``after``, because …

    ``kind``: ``ww``, ``wr``, ``rw``, ``rwp``, ``process`` or ``realtime``. ``because``: a clause with the names that the explanation
    gives to the two.
    """

    before: Hashable
    after: Hashable
    kind: str
    because: str


@dataclass(frozen=True, slots=True)
class Finding:
    """One anomaly.

    Attributes:
        name: see ``levels``.
        transactions: ids of those involved, the offender (for a cycle: where the explanation begins) first.
        explanation: why it is a contradiction, in the manner of Elle.
        steps: a cycle's edges; empty for an anomaly of another sort.
        key: the key concerned, if it is one.
    """

    name: str
    transactions: tuple[Hashable, ...]
    explanation: str
    steps: tuple[Step, ...] = ()
    key: Hashable = None


@dataclass(frozen=True)
class IsolationResult:
    """What a history says about isolation.

    Attributes:
        level: what was asked for.
        findings: every anomaly that was found, the worst first, legal at ``level`` or not; of one name at most :data:`MOST`.
        counts: anomaly → how many were found.
        undecided: why parts of the history could not be judged; then the result is at best ``unknown``.
        transactions: how many there were.
        edges: how many the graph has.
    """

    level: str
    findings: tuple[Finding, ...]
    counts: dict[str, int]
    undecided: tuple[str, ...] = ()
    transactions: int = 0
    edges: int = 0

    @property
    def violations(self) -> tuple[Finding, ...]:
        """The findings that ``level`` forbids."""
        return tuple(f for f in self.findings if forbids(self.level, f.name))

    @property
    def allowed(self) -> tuple[Finding, ...]:
        """The findings that are legal at ``level``."""
        return tuple(f for f in self.findings if not forbids(self.level, f.name))

    @property
    def valid(self) -> Literal[True, False, "unknown"]:
        """Whether ``level`` holds."""
        return False if self.violations else "unknown" if self.undecided else True

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the findings, without repetitions, in their order."""
        return tuple(dict.fromkeys(f.name for f in self.findings))

    @property
    def implied(self) -> frozenset[str]:
        """The names, and what is there by definition when they are."""
        return closure(self.names)

    @property
    def violated(self) -> frozenset[str]:
        """Every level that does not hold."""
        return violated(self.names)

    @property
    def weakest_violated(self) -> tuple[str, ...]:
        """The levels that do not hold though all that they imply do."""
        return weakest(self.violated)

    @property
    def strongest_standing(self) -> tuple[str, ...]:
        """The levels that hold, without those that others of them imply."""
        return strongest(level for level in LEVELS if level not in self.violated)

    def holds(self, level: str) -> bool:
        """Whether no anomaly was found that ``level`` forbids.

        Raises:
            KeyError: there is no such level.
        """
        if level not in LEVELS:
            raise KeyError(level)
        return level not in self.violated


MOST = 10
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
    "lost-update",
)


@dataclass
class Findings:
    """Collects findings: of each name the first :data:`MOST` are explained, all are counted."""

    counts: Counter[str] = field(default_factory=Counter)
    kept: list[Finding] = field(default_factory=list)

    def add(self, name: str, explain: Callable[[], Finding]) -> None:
        """Count one, and explain it if it is among the first of its name."""
        self.counts[name] += 1
        if self.counts[name] <= MOST:
            self.kept.append(explain())

    def sorted(self) -> tuple[Finding, ...]:
        """Kept findings, the worst names first."""
        rank = {name: n for n, name in enumerate(_ORDER)}
        names = list(dict.fromkeys(f.name for f in self.kept))
        names.sort(key=lambda name: rank.get(name, len(rank)))  # a stable sort: cycles come the worst first
        return tuple(f for name in names for f in self.kept if f.name == name)
