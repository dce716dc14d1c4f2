"""Transactions as clients saw them, judged: :func:`check_transactions`.

A data type reads a history (:mod:`checkers.isolation.listappend`, :mod:`checkers.isolation.register`), its finders and those of
:mod:`checkers.isolation.visibility` find cases in it, :mod:`checkers.isolation.cycles` finds cycles in its graph, and
:mod:`checkers.isolation.explanation` words them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from checkers.isolation import listappend, listcases, register
from checkers.isolation.cycles import explain_cycle, find_cycles
from checkers.isolation.explanation import Case, explained
from checkers.isolation.graph import is_acyclic
from checkers.isolation.levels import contained, forbids
from checkers.isolation.observed import TransactionHistory
from checkers.isolation.transactions import Findings, IsolationResult, Transaction
from checkers.isolation.visibility import atomicity_cases, session_cases, session_causality_cases

WORKLOADS: Mapping[
    str, tuple[Callable[[Sequence[Transaction]], TransactionHistory], tuple[Callable[[Any], Iterator[Case]], ...]]
] = {
    "list-append": (listappend.list_history, listcases.LIST_FINDERS),
    "rw-register": (register.register_history, register.REGISTER_FINDERS),
}
"""Data types by name (Elle's): what reads a history of them, and what finds anomalies in it that are no cycles."""


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
        (False, ('lost-update', 'G-single'), ('strong-session-causal',))

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
    read, finders = WORKLOADS[workload]
    history = read(transactions)
    found = Findings()
    cyclic = not is_acyclic(history.graph)
    cut: list[str] = []
    broken = tuple(session_cases(history)) if cyclic else ()
    causal = (
        partial(atomicity_cases, cut=cut),
        lambda _: broken,
        partial(session_causality_cases, cut=cut, broken=broken),
    )
    for finder in (*finders, *(causal if cyclic else ())):
        for case in finder(history):
            found.add(case.name, partial(explained, case, workload))
    for name, cycle in find_cycles(history.graph) if cyclic else ():
        found.add(name, partial(explain_cycle, cycle, history.id, history.show, history.why))
    return IsolationResult(
        level,
        found.sorted(),
        dict(found.counts),
        tuple(
            dict.fromkeys(
                [*history.undecided, *(f"not all of it was searched for {x}" for x in cut if forbids(level, x))]
            )
        ),
        len(transactions),
        history.graph.edges,
    )
