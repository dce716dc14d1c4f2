"""The cost of checking list transactions for strict serializability: ``check_transactions``, and ``models.judge`` on the same history.

Ten clients run transactions of four micro-operations, half of them appends, on ten keys at a time; every 500 transactions the keys
change, so that lists stay short. Transactions take effect in order. Seconds are the minimum of three; peak memory is what is allocated
beyond the transactions, measured in a separate run; the growth exponent is the slope between two sizes: 1 is linear.
"""

from __future__ import annotations

import gc
import math
import time
import tracemalloc
from collections.abc import Callable
from random import Random
from typing import Any

from checkers.clients.models import judge
from checkers.evidence.history import Event, History
from checkers.isolation import Transaction, check_transactions

SIZES = (10_000, 100_000)
CLIENTS, STEPS, KEYS, AN_EPOCH = 10, 4, 10, 500


def history(transactions: int, seed: int = 0) -> tuple[list[Transaction], History]:
    """Strictly serializable transactions, and the history of their clients."""
    rng = Random(seed)
    lists: dict[int, list[int]] = {}
    out: list[Transaction] = []
    events: list[Event] = []
    for first in range(0, transactions, CLIENTS):
        batch = range(first, min(first + CLIENTS, transactions))
        start = len(events)
        for n in batch:
            events.append(Event(len(events), len(events), "invoke", n - first, "txn", None, [], str(n)))
        for n in batch:
            steps: list[tuple[str, int, Any]] = []
            for k in range(STEPS):
                key = rng.randrange(KEYS) + KEYS * (n // AN_EPOCH)
                if rng.random() < 0.5:
                    lists.setdefault(key, []).append(n * STEPS + k)
                    steps.append(("append", key, n * STEPS + k))
                else:
                    steps.append(("r", key, list(lists.get(key, ()))))
            value = [list(s) for s in steps]
            out.append(Transaction(str(n), n - first, start + n - first, len(events), "ok", tuple(steps)))
            events.append(Event(len(events), len(events), "ok", n - first, "txn", None, value, str(n)))
    return out, History({"format": 1}, tuple(events))


def least(work: Callable[[], Any]) -> float:
    """Seconds, the minimum of three."""
    best = math.inf
    for _ in range(3):
        gc.collect()
        began = time.perf_counter()
        assert work().valid is True
        best = min(best, time.perf_counter() - began)
    return best


def main() -> None:
    """Measure, and print one line for each size."""
    print(f"list-append, strict serializability: {CLIENTS} clients, {STEPS} micro-operations a transaction")
    print("  transactions    check s   growth   peak MB   from history s   history/check")
    last: tuple[int, float] | None = None
    for n in SIZES:
        made, told = history(n)
        seconds = least(lambda made=made: check_transactions(made))  # type: ignore[misc]
        whole = least(lambda told=told: judge(told, "list-append"))  # type: ignore[misc]
        tracemalloc.start()
        check_transactions(made)
        peak = tracemalloc.get_traced_memory()[1] / 1e6
        tracemalloc.stop()
        growth = "" if last is None else f"{math.log(seconds / last[1]) / math.log(n / last[0]):.2f}"
        print(f"  {n:>12,} {seconds:>10.2f} {growth:>8} {peak:>9.0f} {whole:>16.2f} {whole / seconds:>15.1f}")
        last = n, seconds


if __name__ == "__main__":
    main()
