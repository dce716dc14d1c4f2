"""The folded results of a matrix in words, with the code that predicts them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from checkers.conflicts import folded, plan
from checkers.conflicts import predicted as conflicts
from checkers.conflicts.folded import Difference, Result, Rule
from checkers.conflicts.measured import Measured
from reports.drawing import words as drawn

_SAID: dict[str, Mapping[str, str]] = {
    "version": {"2": "v2", "3": "v3"},
    "held": {"commit": "held at its commit", "refresh": "held at its refresh"},
    "predicate": {"id": "condition on id", "id and part": "condition on id and part"},
    "ranges": {"apart": "ranges apart", "overlapping": "ranges overlapping"},
    "granularity": {"file": "delete files by file", "partition": "delete files by partition"},
}
SHOWN_PAIRS = 12
"""Most pairs of kinds whose rules are printed on the terminal."""
CORE = (
    "https://github.com/apache/iceberg/blob/apache-iceberg-{version}/core/src/main/java/org/apache/iceberg/{name}.java"
)


def words(rule: Rule) -> str:
    """When a rule holds."""
    if rule.where is None:
        return "otherwise"
    said = []
    for d, values in rule.where.items():
        others = [v for v in rule.every[d] if v not in values]
        named, lead, link = (others, "not ", " nor ") if len(others) < len(values) else (values, "", " or ")
        said.append(lead + link.join(_SAID.get(d, {}).get(v, v) for v in named))
    return ", ".join(said) or "always"


def ends(result: Result) -> str:
    """How the first operation ends, and what is wrong then."""
    more = [*result.anomalies, *(f"{name} (allowed)" for name in result.allowed)]
    more += [f"the second {result.second}"] if result.second else []
    return ", ".join((result.ends, *more))


def colour(result: Result) -> str:
    """The state of ``reports.matrix.page.STATES`` whose colour shows a result."""
    if result.anomalies:
        return "anomaly"
    if result.allowed:
        return "allowed"
    return {"commits": "retried", "aborts": "aborted"}.get(result.ends, "unknown")


def address(source: str, iceberg: str) -> str:
    """Where a class of Iceberg's core is, such as that of ``SnapshotProducer.commit``; ``iceberg``: the release."""
    return CORE.format(version=iceberg, name=source.partition(".")[0])


def sources(cells: Sequence[Measured]) -> list[str]:
    """The methods that the prediction names for these cells, the most frequent first."""
    found: dict[str, int] = {}
    for m in cells:
        for source in conflicts.predict(m.cell).source.split("; "):
            found[source] = found.get(source, 0) + 1
    return sorted(found, key=lambda s: -found[s])


def dimension(d: Difference) -> str:
    """A dimension and its values."""
    return f"{d.dimension} ({', '.join(plan.DIMENSIONS[d.dimension])})"


def lines(measured: Sequence[Measured]) -> list[str]:
    """What makes a difference; and the rules of each pair if the pairs are few."""
    out = [
        f"  {d.dimension}: {drawn.grouped(d.differing)} of {drawn.plural(d.compared, 'comparison')}"
        + (f", in {drawn.plural(len(d.pairs), 'pair')}" if d.pairs else "")
        for d in folded.differences(measured)
    ]
    out = ["different results of cells that differ in one dimension alone:", *out] if out else []
    pairs = folded.by_pair(measured)
    if len(pairs) > SHOWN_PAIRS:
        return [*out, f"{len(pairs)} pairs: their rules are on the page; --only prints those of at most {SHOWN_PAIRS}"]
    for (first, second), cells in pairs.items():
        out.append(f"{first} after {second}, {drawn.plural(len(cells), 'cell')}:")
        out += [f"  {words(r)}: {ends(r.result)} ({len(r.cells)})" for r in folded.fold(cells)]
    return out
