"""How long random workloads took to find a known defect: one search, and several of them together.

A search makes runs of one defect's workload with fresh seeds until the checkers report one of its anomalies, or the budget is used up. What it
took counts up to the moment at which the operations of that anomaly had all ended: an anomaly of the first operations of a run was
found early, however long the run went on.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any, NamedTuple

from checkers.evidence.evidence import Evidence
from checkers.evidence.history import NS_PER_S, Operation
from checkers.timeline.operation_columns import AROUND
from checkers.verdict import Anomaly
from workloads.file.anomalies import Entries


class SearchCost(NamedTuple):
    """What a run took: operations of the workload, and seconds since the first of them was invoked."""

    operations: int
    seconds: float


@dataclass(frozen=True)
class DefectSearch:
    """One search.

    Attributes:
        order: who decided the order of requests.
        found: whether it found the defect; False also if it could not be run.
        runs: how many it made, the one that found it included.
        operations: in these runs, up to the moment at which it was found.
        seconds: of load, up to that moment; ``wall``: of all its runs, with tables and judging, without the start of a stack.
        pairs: different interleavings that its runs exercised (``checkers.coverage``).
        anomalies: name → how many its runs showed, of whatever defect.
        folder: of the run that found it, relative to the search's folder.
        command: repeats the search.
        reason: why it could not be run; None if it could.
        of: hash of the definition of the defect.
    """

    defect: str
    order: str
    seed: int
    found: bool
    runs: int
    operations: int
    seconds: float
    wall: float
    pairs: int = 0
    anomalies: Mapping[str, int] = field(default_factory=dict)
    folder: str | None = None
    command: str | None = None
    reason: str | None = None
    of: str = ""


def _ended(o: Operation) -> int:
    return o.invoked.time if o.completed is None else o.completed.time


def _of_workload(evidence: Evidence) -> list[Operation]:
    return [o for o in evidence.history.operations() if o.invoked.extra.get("phase") not in AROUND]


def spent(evidence: Evidence) -> SearchCost:
    """What a whole run took."""
    ops = _of_workload(evidence)
    start = min((o.start for o in ops), default=0)
    return SearchCost(len(ops), (max(map(_ended, ops), default=start) - start) / NS_PER_S)


def found_in(
    evidence: Evidence, anomalies: Iterable[Anomaly], found: Entries, tables: Collection[str]
) -> SearchCost | None:
    """What the run took until the first of these anomalies was complete; None if it shows none of them.

    Args:
        found: the anomalies that count; ``tables``: those on which they count, all if empty.
    """
    ops, whole = _of_workload(evidence), spent(evidence)
    start = min((o.start for o in ops), default=0)
    moments = []
    for a in anomalies:
        if any(e.finds(a) for e in found) and (not tables or a.table in tables):
            ends = [_ended(o) for o in ops if o.op in a.ops]
            moments.append(max(ends) if ends else start + round(whole.seconds * NS_PER_S))
    if not moments:
        return None
    moment = min(moments)
    return SearchCost(sum(o.start <= moment for o in ops), (moment - start) / NS_PER_S)


@dataclass(frozen=True)
class DefectSearches:
    """The searches for one defect with one order.

    Attributes:
        found: how many found it, of ``searches`` that could be run.
        operations: their median, in which a search that found nothing counts as endless; None if it is endless. So are ``runs``, ``seconds``
            and ``wall``.
        pairs: the median of different interleavings for each thousand operations; None without operations.
        reason: why a search could not be run; None if all could.
    """

    defect: str
    order: str
    searches: int
    found: int
    runs: float | None
    operations: float | None
    seconds: float | None
    wall: float | None
    pairs: float | None
    reason: str | None = None

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        return asdict(self)


def together(searches: Iterable[DefectSearch]) -> list[DefectSearches]:
    """The searches of each defect and order, in the order in which these come first."""
    groups: dict[tuple[str, str], list[DefectSearch]] = {}
    for s in searches:
        groups.setdefault((s.defect, s.order), []).append(s)
    return [_found(defect, order, group) for (defect, order), group in groups.items()]


def _found(defect: str, order: str, group: Sequence[DefectSearch]) -> DefectSearches:
    ran = [s for s in group if s.reason is None]
    reason = next((s.reason for s in group if s.reason is not None), None)

    def middle(key: str) -> float | None:
        values = [float(getattr(s, key)) if s.found else math.inf for s in ran]
        found = median(values) if values else math.inf
        return None if math.isinf(found) else round(found, 3)

    rates = [1000 * s.pairs / s.operations for s in ran if s.operations]
    return DefectSearches(
        defect,
        order,
        len(ran),
        sum(s.found for s in ran),
        middle("runs"),
        middle("operations"),
        middle("seconds"),
        middle("wall"),
        round(median(rates), 1) if rates else None,
        reason,
    )
