"""Commits whose writer tried again by itself, with the number of its attempts.

The number in the name of a manifest list counts Iceberg's own attempts (``SnapshotProducer``). A committer that follows a policy of its own
makes a new update for each attempt, so that number is always 1; the completion of its operation has them all (``attempts``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from checkers.evidence.history import Event
from checkers.evidence.replace import replace
from checkers.evidence.tablelog import TableLog


def attempts_by_op(events: Iterable[Event]) -> dict[str, int]:
    """Operation → how many attempts its completion records; without those that record none."""
    found = ((e.op, e.extra.get("attempts")) for e in events)
    return {op: len(made) for op, made in found if op is not None and isinstance(made, list) and made}


def counted(log: TableLog, attempts: Mapping[str, int]) -> TableLog:
    """The log whose commits have the number of attempts that their operations record, if that is more."""
    if not any(n > 1 for n in attempts.values()):
        return log
    commits = tuple(
        replace(c, attempt=n) if c.op is not None and (n := attempts.get(c.op, 0)) > (c.attempt or 0) else c
        for c in log.commits
    )
    return replace(log, commits=commits)
