"""The result of a check: for each key whether there is an order, and if not, which answer has no explanation and why."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any, TypedDict

from checkers.verdict import Validity


@dataclass(frozen=True, slots=True)
class Configuration:
    """One possible situation before the answer that nothing explains.

    Attributes:
        state: in words.
        order: ids of the last operations, in the order in which they took effect; earlier ones are cut off.
        pending: ids of operations that were under way and had not yet taken effect.
    """

    state: str
    order: tuple[str, ...]
    pending: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class KeyResult:
    """One key.

    Attributes:
        key: None in a history without keys.
        valid: ``"unknown"`` when a limit ended the search.
        algorithm: the one that decided: ``zones``, ``levels``, ``matching``, ``bounds`` or ``search``.
        operations: their number, without those that failed and reads of unknown outcome.
        answered: the highest number of answers that an order explains; all of them if it is valid.
        of: the number of answers.
        failing: the operation whose answer no order explains, and the history index of that answer.
        explanation: why, in words; if unknown, how far the search got.
        configurations: possible situations before that answer.
        involved: ids of operations that the explanation names, the failing one first.
    """

    key: Any
    valid: Validity
    algorithm: str
    operations: int
    answered: int
    of: int
    failing: str | None = None
    failing_index: int | None = None
    explanation: str = ""
    configurations: tuple[Configuration, ...] = ()
    involved: tuple[str, ...] = ()


class KeyCounts(TypedDict):
    """Counts of a history's keys."""

    keys: int
    operations: int
    """Operations on all keys, without those that failed and reads of unknown outcome."""
    algorithms: dict[str, int]
    """Algorithm that decided (see :class:`KeyResult`) → keys."""


@dataclass(frozen=True)
class LinearizableResult:
    """All keys; the worst one decides.

    Attributes:
        keyed: whether values were read as pairs of a key and a value; None: only so is there an order, but they may as well be values.
    """

    model: str
    valid: Validity
    keys: tuple[KeyResult, ...]
    stats: KeyCounts
    keyed: bool | None = False

    @property
    def failures(self) -> tuple[KeyResult, ...]:
        """The keys that have no order."""
        return tuple(k for k in self.keys if k.valid is False)

    @property
    def undecided(self) -> tuple[KeyResult, ...]:
        """The keys that a limit left undecided."""
        return tuple(k for k in self.keys if k.valid == "unknown")


def stats(keys: tuple[KeyResult, ...]) -> KeyCounts:
    """Counts of keys, operations, and algorithms."""
    return {
        "keys": len(keys),
        "operations": sum(k.operations for k in keys),
        "algorithms": dict(sorted(Counter(k.algorithm for k in keys).items())),
    }
