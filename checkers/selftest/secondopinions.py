"""Bugs of other checkers that ``isolation`` and ``linearizable`` must find as well, by other means, and with the same culprit.

``isolation`` sees the rows that a statement overwrote without having read them (``lost-update``): that statement is the culprit.
``linearizable`` sees only what clients saw. A read that no order of the writes explains is the culprit.

Nothing else is planted for them, because they have no culprit to be right about. In a cycle (Adya's G0 to G2) each operation depends on the
next, and the one that breaks the promise is not to be told from the others. Where the rows are wrong and the reads are right, the
operation that wrote them is not among those that ``linearizable`` sees; ``replay`` names it.
"""

from __future__ import annotations

from checkers.evidence.replace import replace
from checkers.selftest import stalescans, wrongreads

OVERWRITES = ("update-beside-update", "update-of-a-deleted-row")
READ_ANOMALIES = (
    *("stale-read", "non-monotonic-read", "read-your-writes", "dirty-read"),
    *("intermediate-read", "fractured-read", "phantom-value", "torn-list"),
)

PLANTS = tuple(
    replace(p, name=f"{p.name}-{suffix}", checker=checker, names=finds)
    for names, plants, suffix, checker, finds in (
        (OVERWRITES, stalescans.PLANTS, "as-a-cycle", "isolation", "lost-update"),
        (READ_ANOMALIES, wrongreads.PLANTS, "without-an-order", "linearizable", "nonlinearizable"),
    )
    for p in plants
    if p.name in names
)
"""Second opinions, in the order of their checkers."""
