"""The cost of judging registers: zones (sorted, O(n log n)) and the search, on the same histories in one run.

20 clients use real registers with unique writes, two reads for each write; one write in a hundred has an unknown outcome (half of
these took effect). There are histories on 100 keys, as in a usual test, and on one, where all clients conflict and the search sooner
or later gives up (``unknown``, at its default limits). Measured is ``check_model`` from the history's events to the verdict, in this
process; peak memory is what it allocates beyond the history itself, measured in a separate run (tracing is slow). The growth exponent
is the slope between two sizes: 1 is linear.
"""

from __future__ import annotations

import gc
import math
import time
import tracemalloc
from random import Random

from checkers.evidence.history import Event, History
from checkers.linearizable import check_model
from checkers.verdict import Validity

SIZES = (10_000, 100_000, 1_000_000)
SEARCHED = 100_000
"""The largest history for the search, in operations."""
CLIENTS, UNKNOWN = 20, 0.01
KEYS = (100, 1)


def registers(operations: int, keys: int, seed: int = 0) -> History:
    """A linearizable history of that many operations."""
    rng = Random(seed)
    state: list[int | None] = [None] * keys
    events: list[Event] = []
    idle = list(range(CLIENTS))
    busy: list[tuple[int, int, str, int | None, int]] = []
    fresh, done = CLIENTS, 0
    while done < operations or busy:
        if done < operations and idle and (not busy or rng.random() < 0.5):
            process, key = idle.pop(rng.randrange(len(idle))), rng.randrange(keys)
            done += 1
            write = rng.random() < 1 / 3
            f, value = "write" if write else "read", done if write else None
            events.append(_event(len(events), "invoke", process, f, [key, value], done))
            busy.append((process, key, f, value, done))
            continue
        process, key, f, value, op = busy.pop(rng.randrange(len(busy)))
        unknown = f == "write" and rng.random() < UNKNOWN
        if f == "write" and not (unknown and rng.random() < 0.5):
            state[key] = value
        result = value if f == "write" else state[key]
        events.append(_event(len(events), "info" if unknown else "ok", process, f, [key, result], op))
        if unknown:
            process, fresh = fresh, fresh + 1
        idle.append(process)
    return History({"format": 1}, tuple(events))


def _event(index: int, kind: str, process: int, f: str, value: object, op: int) -> Event:
    return Event(index, index * 1000, kind, process, f, None, value, str(op))  # type: ignore[arg-type]


def timed(history: History, algorithm: str) -> tuple[float, Validity]:
    """Seconds, the minimum of three (of one when it takes long), and the verdict."""
    best, valid = math.inf, None
    for _ in range(3):
        gc.collect()
        began = time.perf_counter()
        valid = check_model(history, "register", keyed=True, algorithm=algorithm).valid
        took = time.perf_counter() - began
        best = min(best, took)
        if took > 20:
            break
    assert valid is not None and valid is not False
    return best, valid


def memory(history: History) -> float:
    """Peak MB beyond the history."""
    gc.collect()
    tracemalloc.start()
    check_model(history, "register", keyed=True)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak / 1e6


def main() -> None:
    """Measure, and print one line for each size."""
    print(f"linearizable registers: {CLIENTS} clients, {UNKNOWN:.0%} of writes of unknown outcome")
    print("  keys   operations   zones s   growth   peak MB   search s            search/zones")
    for keys in KEYS:
        last: tuple[int, float] | None = None
        for n in SIZES:
            history = registers(n, keys)
            zones, valid = timed(history, "best")
            assert valid is True
            growth = "" if last is None else f"{math.log(zones / last[1]) / math.log(n / last[0]):.2f}"
            line = f"  {keys:4d}   {n:10,d}  {zones:8.3f}   {growth:>6}  {memory(history):8.1f}"
            if n <= SEARCHED:
                searched, valid = timed(history, "search")
                line += f"   {searched:8.3f} {'decided' if valid is True else valid:>8}  {searched / zones:12.1f}"
            print(line, flush=True)
            last = n, zones
