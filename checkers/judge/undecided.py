"""Which undecided verdicts say nothing that an anomaly does not say already."""

from __future__ import annotations

from collections.abc import Iterable

from checkers.isolation import Isolation, IsolationStats
from checkers.verdict import Anomaly, Verdict


def left_open_by(v: Verdict, anomalies: Iterable[Anomaly]) -> bool:
    """Whether a verdict is ``isolation``'s, and undecided only because of operations that ``anomalies`` name.

    A commit that brings a row back is explained by no state, so its dependencies are unknown.
    """
    if v.checker != Isolation.name or v.valid != "unknown":
        return False
    unexplained = {t: s.get("unexplained_ops", []) for t, s in v.stats_as(IsolationStats).get("tables", {}).items()}
    named = {(a.table, op) for a in anomalies for op in a.ops}
    left = {t for t, ops in unexplained.items() if ops}
    return len(v.notes) == len(left) and all((t, op) in named for t in left for op in unexplained[t])
