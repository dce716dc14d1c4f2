"""What the check during a run tells: the anomalies that are certain, and how far it is."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Literal

from checkers.timeline import explain

Name = Literal["lost-commit", "duplicate-commit", "false-failure", "wrong-rows", "stale-read"]
"""What can be told: the first three as the checker ``commits`` names them, ``wrong-rows`` for every anomaly of ``replay`` that is about the
rows of one commit, ``stale-read`` for every anomaly of ``reads`` that is about an old state."""

NAMED_LATER: frozenset[Name] = frozenset({"wrong-rows", "stale-read"})
"""Those for which the full check may have a more exact name, such as ``undelete``."""


@dataclass(frozen=True, slots=True)
class OnlineFinding:
    """A broken promise of which the full check has an anomaly, too, unless the past of main changes.

    Attributes:
        table: the table's name in the workload file.
        op: the operation; the anomaly of the full check names it first.
        why: what makes it certain, in one clause.
        snapshots, keys: as far as they are known: snapshot ids, and ids of rows.
        turn: how often the past of the table's main had changed by then.
    """

    name: Name
    table: str
    op: str
    why: str
    snapshots: tuple[int, ...] = ()
    keys: tuple[int, ...] = ()
    turn: int = 0

    def __str__(self) -> str:
        """One line: ``lost-commit: table t, w1-4, snapshot 42, id 7: …``."""
        parts = [f"table {self.table}", self.op]
        parts += [f"snapshot {explain.listing(self.snapshots)}"] if self.snapshots else []
        parts += [f"id {explain.listing(self.keys)}"] if self.keys else []
        later = " (the check after the run gives it its final name)" if self.name in NAMED_LATER else ""
        return f"{self.name}: {', '.join(parts)}: {self.why}{later}"


@dataclass
class Counts:
    """How far the run is, and what is certain so far, of all tables.

    Attributes:
        completed: operations that ended, in all phases.
        commits, retried: snapshots that were captured, and those that took more than one attempt.
        judged, reads: commits and reads that were judged.
        faults: that are on now.
        anomalies: that are certain.
        not_judged: why → how many commits and completed operations are left to the full check.
        closed: table → why nothing is told of it any more.
    """

    completed: int = 0
    commits: int = 0
    retried: int = 0
    judged: int = 0
    reads: int = 0
    faults: int = 0
    anomalies: int = 0
    not_judged: Counter[str] = field(default_factory=Counter)
    closed: dict[str, str] = field(default_factory=dict)
