"""What the check during a run costs: for each event and commit, at 10^3 to 10^5 operations, and beside the full check of the same run.

A run of one table and 64 keys by four writers (``tests.support.long_run``), captured every 50 operations: its events and what the captures
added are fed to ``checkers.online``; then the exact checkers ``commits``, ``replay`` and ``reads`` judge the same run as a whole. Seconds are
the least of three; what is kept at the end is counted in operations, commits, changes and rows.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence

from checkers.commits import Commits
from checkers.evidence.history import Event
from checkers.evidence.tablelog import Growth
from checkers.online import Online
from checkers.reads import Reads
from checkers.replay import Replay
from tests.support.long_run import SPEC, evidence, long_run

SIZES = (1_000, 10_000, 100_000)
TRIES = 3


def online(told: Sequence[Event | Growth]) -> tuple[float, int]:
    """Seconds to feed a run, and how much is kept at its end."""
    check = Online([SPEC])
    began = time.perf_counter()
    for x in told:
        if isinstance(x, Event):
            check.event(x)
        else:
            check.grew(x)
    check.finish()
    seconds = time.perf_counter() - began
    counts = check.counts
    assert counts.anomalies == 0 and counts.judged == counts.commits and not counts.not_judged
    return seconds, len(check)


def full(told: Sequence[Event | Growth]) -> float:
    """Seconds of the full check."""
    e = evidence(told)
    began = time.perf_counter()
    assert all(c.check(e).valid is True for c in (Commits(), Replay(), Reads()))
    return time.perf_counter() - began


def main() -> None:
    """Measure, and print one line for each size."""
    for operations in SIZES:
        told = list(long_run(operations))
        best, size, whole = math.inf, 0, math.inf
        for _ in range(TRIES):
            seconds, size = online(told)
            best, whole = min(best, seconds), min(whole, full(told))
        print(
            f"{operations:>7} operations: {1e6 * best / len(told):.0f} µs for each event, {best:.2f} s together, {best / whole:.2f} times "
            f"the {whole:.2f} s of the full check; {size} things kept at the end"
        )


if __name__ == "__main__":
    main()
