"""Transactions as clients saw them, judged: :func:`check_transactions`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from checkers.isolation.cycles import explain_cycle, find_cycles
from checkers.isolation.graph import PROCESS, REALTIME, components, is_acyclic
from checkers.isolation.levels import contained
from checkers.isolation.listappend import ListAppend
from checkers.isolation.observed import Observed
from checkers.isolation.register import Register
from checkers.isolation.transactions import Findings, IsolationResult, Transaction

WORKLOADS: Mapping[str, Callable[[Sequence[Transaction]], Observed]] = {
    "list-append": ListAppend,
    "rw-register": Register,
}
"""Data types by name (Elle's)."""


def check_transactions(
    transactions: Sequence[Transaction], *, workload: str = "list-append", level: str = "strict-serializable"
) -> IsolationResult:
    """Judge a history of transactions by what its clients saw.

    It searches for every anomaly, whatever ``level`` is: the result says which levels hold.

    Example:
        >>> lost = [
        ...     Transaction("a", 0, 0, 2, "ok", (("r", "x", []), ("append", "x", 1))),
        ...     Transaction("b", 1, 1, 3, "ok", (("r", "x", []), ("append", "x", 2))),
        ...     Transaction("c", 0, 4, 5, "ok", (("r", "x", [1, 2]),)),
        ... ]
        >>> result = check_transactions(lost, level="snapshot-isolation")
        >>> result.valid, result.names, result.strongest_standing
        (False, ('lost-update', 'G-single'), ('writes-follow-reads', 'read-your-writes', 'monotonic-writes', 'monotonic-reads', 'causal'))

    Args:
        transactions: in any order.
        workload: ``list-append`` or ``rw-register``.
        level: see ``levels.LEVELS``.

    Raises:
        ValueError: there is no such workload or level.
    """
    contained(level)
    if workload not in WORKLOADS:
        raise ValueError(f"workload {workload!r} is not known; there are: {', '.join(WORKLOADS)}")
    seen = WORKLOADS[workload](transactions)
    builder = seen.infer()
    seen.order_in_time(builder)
    graph = builder.graph()
    cycles = Findings(seen.found.counts, seen.found.kept)
    if not is_acyclic(graph):
        data = graph.of_kinds(~(PROCESS | REALTIME))
        seen.atomicity(data, components(data))
        seen.sessions(components(graph))
        for _, cycle in find_cycles(graph):
            finding = explain_cycle(cycle, seen.id, seen.show, seen.why)
            cycles.add(finding.name, lambda finding=finding: finding)  # type: ignore[misc]
    return IsolationResult(
        level,
        cycles.sorted(),
        dict(cycles.counts),
        tuple(dict.fromkeys(seen.undecided)),
        len(transactions),
        graph.edges,
    )
