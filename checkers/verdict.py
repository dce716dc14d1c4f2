"""What a checker returns: a verdict with anomalies that explain themselves.

``valid`` is True, False or ``"unknown"``; verdicts combine to the worst of them, false > unknown > true (Jepsen's
``valid-priorities``). A checker that raises becomes ``unknown`` with the reason, never a crash and never a ``false``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, Protocol

from checkers.evidence.evidence import Evidence

Validity = Literal[True, False, "unknown"]

SAME_AS = "same_as"
"""Key of the evidence of a second opinion: the name of the anomaly that it confirms."""


@dataclass(frozen=True, slots=True)
class Anomaly:
    """One broken promise.

    Attributes:
        name: in the field's terms, e.g. ``lost-update``, ``undelete``, ``stale-read``.
        checker: who found it.
        table: table name in the workload file, None when it concerns none or all.
        explanation: one paragraph that says why what was seen is a contradiction, naming ops, snapshots, files and rows.
        ops: ids of the operations involved, the offender first.
        events: history indices of those operations.
        snapshots: snapshot ids, in commit order.
        files: data, delete or metadata files involved.
        keys: ids (column ``id``) of the rows involved.
        documented: a link when Iceberg documents the behaviour as possible, else None. An anomaly all the same.
        evidence: anything else worth keeping, JSON values only.
    """

    name: str
    checker: str
    table: str | None
    explanation: str
    ops: tuple[str, ...] = ()
    events: tuple[int, ...] = ()
    snapshots: tuple[int, ...] = ()
    files: tuple[str, ...] = ()
    keys: tuple[int, ...] = ()
    documented: str | None = None
    evidence: dict[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """The anomaly as JSON values."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one checker says of one run. ``notes``: what it could not check, or checked against a weaker promise, and why."""

    checker: str
    valid: Validity
    anomalies: tuple[Anomaly, ...] = ()
    stats: dict[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The verdict as JSON values."""
        return {
            "checker": self.checker,
            "valid": self.valid,
            "anomalies": [a.to_json() for a in self.anomalies],
            "stats": self.stats,
            "notes": list(self.notes),
        }


class Checker(Protocol):
    """A checker is a pure function of the evidence, with a name of its own and the names of what it can find."""

    @property
    def name(self) -> str:
        """Name in verdicts and on the command line."""

    @property
    def names(self) -> frozenset[str]:
        """The names of all anomalies that it can report."""

    def check(self, evidence: Evidence) -> Verdict:
        """Judge the evidence. Deterministic; no clock, no randomness, no input or output."""


def worst(validities: Iterable[Validity]) -> Validity:
    """The worst of several: false > unknown > true; True for none."""
    found = list(validities)
    if any(v is False for v in found):
        return False
    return "unknown" if "unknown" in found else True


def exit_code(v: Validity) -> int:
    """Exit code of a run's validity: 0 valid, 1 anomaly found, 2 unknown."""
    return {True: 0, False: 1, "unknown": 2}[v]


def own_findings(anomalies: Sequence[Anomaly]) -> list[Anomaly]:
    """Those that are more than another checker's word for one that is here too (:data:`SAME_AS`)."""
    names = {a.name for a in anomalies if SAME_AS not in a.evidence}
    return [a for a in anomalies if str(a.evidence.get(SAME_AS)) not in names]
