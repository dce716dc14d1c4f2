"""What the results of a history of clients count."""

from __future__ import annotations

from typing import TypedDict


class ClientStats(TypedDict, total=False):
    """How a history was judged, and what its model counts; which keys are there depends on the model."""

    model: str
    level: str
    guessed: bool
    """Whether the history's operations determined the model."""
    keyed: bool
    """Linearizable: whether pairs are keys with values; only if the user said so, or their form."""
    operations: int
    """Of the history; for a linearizable model of its keys, without those that failed and reads of unknown outcome."""
    recorded: int
    """Linearizable: operations of the history, with those."""
    found: dict[str, int]
    """Name of an anomaly → how many, those that the level allows among them."""
    allowed: dict[str, int]
    """Transactions: name of an anomaly that the level allows → how many."""
    transactions: int
    dependencies: int
    """Transactions: edges between them."""
    weakest_violated: list[str]
    """Transactions: of the levels that the anomalies violate, those that imply no other of them."""
    strongest_standing: list[str]
    """Transactions: of the levels that no anomaly violates, those that no other of them implies."""
    reads: int
    """Bank: reads that were acknowledged."""
    totals: dict[str, int]
    """Bank: total of the balances, as a string → reads that showed it."""
    keys: int
    """Linearizable: keys of the history."""
    algorithms: dict[str, int]
    """Linearizable: algorithm that decided → keys."""
