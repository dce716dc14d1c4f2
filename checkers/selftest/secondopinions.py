"""Bugs of other checkers that ``isolation`` and ``linearizable`` must find as well, by other means, and with the same culprit.

``isolation`` sees the rows that a statement overwrote without having read them (``lost-update``): that statement is the culprit.
``linearizable`` sees only what clients saw. A read that no order of the writes explains is the culprit.

Nothing else is planted for them, because they have no culprit to be right about. In a cycle (Adya's G0 to G2) each operation depends on the
next, and the one that breaks the promise is not to be told from the others. Where the rows are wrong and the reads are right, the
operation that wrote them is not among those that ``linearizable`` sees; ``replay`` names it.
"""

from __future__ import annotations

from checkers.evidence.replace import replace
from checkers.selftest import wrongreads, wrongrows
from checkers.selftest.mutation import Mutation

OVERWRITES = ("update-beside-update", "update-of-a-deleted-row")
READS = (
    "stale-read",
    "non-monotonic-read",
    "read-your-writes",
    "dirty-read",
    "intermediate-read",
    "fractured-read",
    "phantom-value",
    "torn-list",
)


def _again(
    among: tuple[Mutation, ...], names: tuple[str, ...], suffix: str, checker: str, finds: str
) -> list[Mutation]:
    by_name = {m.name: m for m in among}
    return [replace(by_name[n], name=f"{n}-{suffix}", checker=checker, finds=frozenset({finds})) for n in names]


MUTATIONS: tuple[Mutation, ...] = (
    *_again(wrongrows.MUTATIONS, OVERWRITES, "as-a-cycle", "isolation", "lost-update"),
    *_again(wrongreads.MUTATIONS, READS, "without-an-order", "linearizable", "nonlinearizable"),
)
"""Second opinions, in the order of their checkers."""
