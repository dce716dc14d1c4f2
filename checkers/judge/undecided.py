"""Which undecided verdicts say nothing that an anomaly does not say already."""

from __future__ import annotations

from collections.abc import Iterable

from checkers.isolation import Isolation, IsolationStats
from checkers.verdict import Anomaly, Verdict

TWO_HISTORIES = "checkpoint-unlike"
"""Whoever reads such a table from its checkpoint sees other rows than its log has."""


def left_open_by(v: Verdict, found: Iterable[Anomaly]) -> bool:
    """Whether a verdict is ``isolation``'s, and undecided only because of operations that the anomalies ``found`` name.

    A commit that brings a row back is explained by no state, so its dependencies are unknown; nor is a read of a table whose checkpoint and log
    tell two histories (:data:`TWO_HISTORIES`).
    """
    if v.checker != Isolation.name or v.valid != "unknown":
        return False
    anomalies = [*found]
    unexplained = {t: s.get("unexplained_ops", []) for t, s in v.stats_as(IsolationStats).get("tables", {}).items()}
    named = {(a.table, op) for a in anomalies for op in a.ops}
    twofold = {a.table for a in anomalies if a.name == TWO_HISTORIES}
    open_tables = {t for t, ops in unexplained.items() if ops}
    return len(v.notes) == len(open_tables) and all(
        (t, op) in named for t in open_tables - twofold for op in unexplained[t]
    )
