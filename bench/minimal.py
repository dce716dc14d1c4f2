"""What minimal histories add to the check of a long run with anomalies: seconds with them, beside seconds without them, in one process.

A simulated run of one table and 10^4 operations in which reads are stale, updates overwrite what they have not seen, and acknowledged
commits are missing.
"""

from __future__ import annotations

import time

from checkers.judge.check import ALL, check
from checkers.judge.runfolder import Results
from checkers.verdict import Checker
from tests.support.judging import UNREDUCED
from tests.support.simulator import Defects, simulate
from workloads.tables import TableSpec

WRITERS, OPERATIONS, KEYS, CHANCE = 8, 10_000, 100, 0.01


def timed(checkers: tuple[Checker, ...]) -> tuple[float, Results]:
    """Seconds of one check of the run, and its results."""
    table = TableSpec(name="a", seed_rows=16, isolation="snapshot", mode="merge-on-read")
    defects = Defects(stale_read=CHANCE, overwrite=CHANCE, forget=CHANCE)
    evidence = simulate(1, [table], writers=WRITERS, ops=OPERATIONS // WRITERS, keys=KEYS, defects=defects).evidence()
    began = time.perf_counter()
    results = check(evidence, checkers)
    return time.perf_counter() - began, results


def main() -> None:
    """Measure, and print one line."""
    plain, _ = timed(UNREDUCED)
    whole, results = timed(ALL)
    anomalies = [a for v in results.verdicts for a in v.anomalies]
    reduced = [a for a in anomalies if a.minimal is not None]
    print(
        f"a run of {OPERATIONS} operations with {len(anomalies)} anomalies, {len(reduced)} of them reduced: {whole:.1f} s, "
        f"{whole / plain:.2f} times the {plain:.1f} s of the check without minimal histories"
    )


if __name__ == "__main__":
    main()
