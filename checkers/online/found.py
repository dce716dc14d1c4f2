"""An anomaly that is certain while the run goes on."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from checkers.timeline import explain
from checkers.verdict import Anomaly

NEVER = frozenset({"missing-file", "wrong-result", "lost-rollback", "wrong-time-travel", "no-state-read"})
"""What the checkers ``commits``, ``replay`` and ``reads`` find in the full check only, and ``vanished-read`` of a read."""


@dataclass(frozen=True, slots=True)
class Found:
    """A broken promise, of which it is certain that the full check finds it, too.

    Attributes:
        checker: the checker that finds it in the full check.
        names: what it is by the evidence so far, then the other names that the full check may give it when it knows what came later.
        table: the table's name in the workload file.
        ops: ids of operations; the anomaly of the full check names the first of them first (``one_of``: one of them).
        snapshots, keys: as far as they are known: snapshot ids, and ids of rows.
        why: what makes it certain, in one clause.
        any_ops: whether the full check may name other operations in their place.
    """

    checker: str
    names: tuple[str, ...]
    table: str
    ops: tuple[str, ...]
    why: str
    snapshots: tuple[int, ...] = ()
    keys: tuple[int, ...] = ()
    one_of: bool = False
    any_ops: bool = False

    @property
    def name(self) -> str:
        """What it is by the evidence so far."""
        return self.names[0]

    def among(self, anomalies: Iterable[Anomaly]) -> bool:
        """Whether one of a full check's anomalies is this one."""
        return any(
            a.checker == self.checker
            and a.table == self.table
            and a.name in self.names
            and (self.any_ops or a.ops[:1] == self.ops[:1] or (self.one_of and bool({*a.ops[:1]} & {*self.ops})))
            for a in anomalies
        )

    def __str__(self) -> str:
        """One line: ``lost-commit: table t, w1-4, snapshot 42, id 7: …``."""
        parts = [f"table {self.table}"]
        parts += [explain.listing(self.ops)] if self.ops else []
        parts += [f"snapshot {explain.listing(self.snapshots)}"] if self.snapshots else []
        parts += [f"id {explain.listing(self.keys)}"] if self.keys else []
        return f"{self.name}: {', '.join(parts)}: {self.why}"
