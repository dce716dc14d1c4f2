"""The folded results of a matrix in words, with the code that predicts them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from checkers.conflicts import plan
from checkers.conflicts import predicted as conflicts
from checkers.conflicts.folded import CellResult, CellRule, DimensionEffect
from checkers.conflicts.measured import MeasuredResult

_SAID: dict[str, Mapping[str, str]] = {
    "version": {"2": "v2", "3": "v3"},
    "held": {"commit": "held at its commit", "refresh": "held at its refresh"},
    "predicate": {"id": "condition on id", "id and part": "condition on id and part"},
    "ranges": {"apart": "ranges apart", "overlapping": "ranges overlapping"},
    "granularity": {"file": "delete files by file", "partition": "delete files by partition"},
}
CORE_CODE = (
    "https://github.com/apache/iceberg/blob/apache-iceberg-{version}/core/src/main/java/org/apache/iceberg/{name}.java"
)


def words(rule: CellRule) -> str:
    """When a rule holds."""
    if rule.where is None:
        return "otherwise"
    sentences = []
    for d, values in rule.where.items():
        others = [v for v in rule.every[d] if v not in values]
        named, lead, link = (others, "not ", " nor ") if len(others) < len(values) else (values, "", " or ")
        sentences.append(lead + link.join(_SAID.get(d, {}).get(v, v) for v in named))
    return ", ".join(sentences) or "always"


def ends(result: CellResult) -> str:
    """How the first operation ends, and what is wrong then."""
    more = [*result.anomalies, *(f"{name} (allowed)" for name in result.allowed)]
    more += [f"the second {result.second}"] if result.second else []
    return ", ".join((result.ends, *more))


def colour(result: CellResult) -> str:
    """The state of ``reports.matrix.states.STATES`` whose colour shows a result."""
    if result.anomalies:
        return "anomaly"
    if result.allowed:
        return "allowed"
    return {"commits": "retried", "aborts": "aborted"}.get(result.ends, "unknown")


def address(source: str, iceberg: str) -> str:
    """Where a class of Iceberg's core is, such as that of ``SnapshotProducer.commit``; ``iceberg``: the release."""
    return CORE_CODE.format(version=iceberg, name=source.partition(".")[0])


def sources(cells: Sequence[MeasuredResult]) -> list[str]:
    """The methods that the prediction names for these cells, the most frequent first."""
    found: dict[str, int] = {}
    for m in cells:
        for source in conflicts.predict(m.cell).source.split("; "):
            found[source] = found.get(source, 0) + 1
    return sorted(found, key=lambda s: -found[s])


def dimension(d: DimensionEffect) -> str:
    """A dimension and its values."""
    return f"{d.dimension} ({', '.join(plan.DIMENSIONS[d.dimension])})"
