"""Bugs that the ``pointer`` checker must find: swaps that a catalog accepted and did not keep, or that contradict the history.

A recorded run has no proxy log: the swaps are those of :func:`checkers.selftest.recorded.as_seen`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from checkers.evidence.history import Operation
from checkers.evidence.proxylog import TRANSACTIONS, AcceptedChange, PointerSwap
from checkers.evidence.replace import replace
from checkers.selftest.plant import Plant, Plants, table
from checkers.selftest.sites import pick
from checkers.selftest.world import Planted, World

COMMIT_SPEC = "https://iceberg.apache.org/spec/#metastore-tables"
SENT_LATE = "apache/iceberg#15050: a commit that is carried out after its writer was answered"
TWO_IN_ORDER = "the catalog took two commits in another order than it says; each of the two did what it was to do"

EACH_OTHERS = "each of two operations asked for the other's commit; each was acknowledged for what it did not ask"


@dataclass(frozen=True)
class SwapSite:
    """The n-th accepted swap of a table, which an operation asked for."""

    w: World
    table: str
    n: int
    s: PointerSwap
    o: Operation

    @property
    def every(self) -> tuple[PointerSwap, ...]:
        """All swaps of the table."""
        return self.w.evidence.swaps[self.table]

    def put(self, *ops: str, place: tuple[int, int], swaps: tuple[PointerSwap, ...], nobody: str = "") -> Planted:
        """The run with these swaps in place of those from ``place[0]`` to ``place[1]``; the first operation is the culprit."""
        changed = (*self.every[: place[0]], *swaps, *self.every[place[1] :])
        e = replace(self.w.evidence, swaps={**self.w.evidence.swaps, self.table: changed})
        return Planted(e, frozenset(ops), None if nobody else ops[0], nobody)

    def other(self, lost: PointerSwap, *, before: bool = False) -> Planted:
        """The run with another swap in its place, or ``before`` it, whose operation is the culprit."""
        return self.put(str(lost.op), place=(self.n, self.n + (not before)), swaps=(lost,))

    def asking(
        self, *requests: AcceptedChange, culprit: str | None, also: str | None = None, nobody: str = ""
    ) -> Planted:
        """The run with these accepted requests on the table; the first operation is the culprit."""
        accepted = {**self.w.evidence.accepted, self.table: requests}
        ops = frozenset(op for op in (culprit, also) if op is not None)
        return Planted(replace(self.w.evidence, accepted=accepted), ops, None if nobody else culprit, nobody)

    @property
    def requests(self) -> tuple[AcceptedChange, ...]:
        """All accepted requests on the table."""
        return self.w.evidence.accepted.get(self.table, ())

    @property
    def request(self) -> AcceptedChange | None:
        """The request that became the swap, if it puts main at a snapshot of its own."""
        same = (c for c in self.requests if (c.op, c.time) == (self.s.op, self.s.time))
        return next((c for c in same if c.main is not None and c.main in c.adds), None)

    def rivals(self) -> list[str]:
        """The other acknowledged writes of the run."""
        acked = (o for o in self.w.operations.values() if o.type == "ok" and o.op != self.s.op)
        return [o.op for o in acked if o.f.startswith(("insert", "update"))]

    @property
    def certain(self) -> bool:
        """Whether the pointer was read after the swap, so that it must have been seen."""
        until = self.w.evidence.logs[self.table].captured_until
        return until is not None and self.s.end < until

    def beside(self, name: str) -> str:
        """A metadata file in the folder of the swap's that no pointer names."""
        return f"{self.s.new.rpartition('/')[0]}/{name}.metadata.json"

    @property
    def lost(self) -> str:
        """One of the same number."""
        return self.beside(f"{self.s.new.rpartition('/')[2].split('-', 1)[0]}-00000000-lost")


def swaps(w: World) -> Iterator[SwapSite]:
    """Accepted swaps of operations, in random order."""
    every = [(t, n, s) for t, found in w.evidence.swaps.items() for n, s in enumerate(found) if s.op in w.operations]
    return (SwapSite(w, t, n, s, w.operations[s.op or ""]) for t, n, s in w.shuffled(every))


# --- accepted, and not kept -------------------------------------------------------------------------------------------


def renamed_twice(p: SwapSite, rival: str) -> Planted:
    """All swaps are renames to a new version, and another writer has renamed to the same."""
    renames = tuple(replace(x, base=None, names_place=True) for x in p.every)
    lost = replace(renames[p.n], op=rival)
    return p.put(rival, place=(0, len(renames)), swaps=(*renames[: p.n], lost, *renames[p.n :]))


def swap_forgotten(p: SwapSite) -> Planted | None:
    """A catalog accepts a swap and loses it: the pointer never moves there."""
    return p.other(replace(p.s, base=None, new=p.lost)) if p.certain else None


def transaction_not_made(p: SwapSite) -> Planted | None:
    """A REST catalog accepts two requests on the same snapshot and makes one of them."""
    rival, made = p.w.choose(p.rivals()), p.request
    if rival is None or made is None or not p.certain:
        return None
    snapshot = p.w.rng.randrange(1 << 40, 1 << 62)
    lost = replace(made, op=rival, adds=(snapshot,), main=snapshot, what=f"POST /v1{TRANSACTIONS}", answer="204")
    return p.asking(*p.requests, lost, culprit=rival)


def rollback_not_made(p: SwapSite) -> Planted | None:
    """A REST catalog accepts a request that puts main back at an older snapshot, and leaves main where it is."""
    rival, made = p.w.choose(p.rivals()), p.request
    older = [c.main for c in p.requests if made is not None and c.time < made.time and c.main not in (None, made.base)]
    back = p.w.choose(older)
    if rival is None or made is None or back is None or made.base is None or not p.certain:
        return None
    return p.asking(*p.requests, replace(made, op=rival, adds=(), main=back), culprit=rival)


def ref_not_set(p: SwapSite) -> Planted | None:
    """A REST catalog accepts a request that sets a branch or tag, and no version has it there."""
    rival, made = p.w.choose(p.rivals()), p.request
    if rival is None or made is None or made.main is None or not p.certain:
        return None
    name, base = p.w.rng.choice(["audit", "keep"]), p.w.rng.choice([None, made.base])
    return p.asking(
        *p.requests, replace(made, op=rival, adds=(), main=None, base=base, refs=((name, made.main),)), culprit=rival
    )


LOST_SWAP_PLANTS: Plants = {
    "swap-without-comparison: A catalog accepts two swaps of the same version: it does not compare what it replaces.": Plant(
        pick(SwapSite.rivals, lambda p, rival: p.other(replace(p.s, op=rival, new=p.lost), before=True)),
        "lost-update",
        seen="https://iceberg.apache.org/docs/latest/aws/#optimistic-locking",
        neutral=True,
    ),
    "two-writers-of-one-version-file: Two writers rename to the same version: both find it free, and the second overwrites the first.": Plant(
        pick(SwapSite.rivals, renamed_twice),
        "lost-update",
        seen="https://iceberg.apache.org/spec/#file-system-tables",
        neutral=True,
    ),
    "swap-forgotten": Plant(swap_forgotten, "lost-swap", seen=COMMIT_SPEC, neutral=True),
    "transaction-answered-and-not-made": Plant(transaction_not_made, "lost-swap", seen="apache/iceberg#7569"),
    "rollback-answered-and-not-made": Plant(rollback_not_made, "lost-swap", seen="apache/iceberg#7569"),
    "ref-answered-and-not-set": Plant(ref_not_set, "lost-swap", seen="apache/iceberg#7569", neutral=False),
}


# --- at another time, from another version, of another operation -------------------------------------------------------


def never_was(p: SwapSite) -> Planted | None:
    """A swap replaces a metadata file that the pointer never named."""
    return None if p.s.base is None else p.other(replace(p.s, base=p.beside("00007-00000000-never")))


def of_before(p: SwapSite) -> Planted | None:
    """A swap replaces a version that another one had replaced before, which came from somewhere else."""
    if not p.n:
        return None
    return p.put(p.o.op, place=(p.n - 1, p.n + 1), swaps=(replace(p.s, base=p.every[p.n - 1].base),))


def too_late(p: SwapSite) -> Planted | None:
    """A commit is asked for and accepted only after its operation was acknowledged."""
    if p.o.type != "ok" or p.o.end is None:
        return None
    late = p.o.end + p.w.rng.randrange(1_000_000, 3_000_000_000)
    return p.other(replace(p.s, time=late, end=late + 5_000_000))


def too_early(p: SwapSite) -> Planted | None:
    """A commit is asked for and accepted before its operation was invoked."""
    early = p.o.start - p.w.rng.randrange(1_000_000, 3_000_000_000)
    return p.other(replace(p.s, time=early, end=early + 500_000)) if early > 0 else None


def in_another_order(p: SwapSite) -> Planted | None:
    """The catalog accepts two commits in another order than its history has them."""
    if p.n + 1 == len(p.every) or p.every[p.n + 1].op not in p.w.operations:
        return None
    following = p.every[p.n + 1]
    time = max(p.s.time, following.time)
    second = replace(following, time=time, end=time + 1)
    first = replace(p.s, time=time + 2, end=time + 3)
    return p.put(p.o.op, str(second.op), place=(p.n, p.n + 2), swaps=(first, second), nobody=TWO_IN_ORDER)


def exchanged(p: SwapSite) -> Planted | None:
    """Two requests to a REST catalog carry each other's snapshot, and both are accepted."""
    own = p.request
    others = [c for c in p.requests if c.main is not None and c.main in c.adds and c.op in p.w.operations]
    other = p.w.choose(c for c in others if own is not None and c.op != own.op)
    if own is None or other is None or None in (own.base, other.base):
        return None
    carry = {
        own: replace(own, adds=other.adds, main=other.main),
        other: replace(other, adds=own.adds, main=own.main),
    }
    return p.asking(*(carry.get(c, c) for c in p.requests), culprit=own.op, also=other.op, nobody=EACH_OTHERS)


def on_older_snapshot(p: SwapSite) -> Planted | None:
    """A REST catalog accepts a request on a snapshot that main has left: it compares nothing."""
    made = p.request
    older = [c.main for c in p.requests if made is not None and c.time < made.time and c.main not in (None, made.base)]
    back = p.w.choose(older)
    if made is None or made.base is None or back is None:
        return None
    return p.asking(*(replace(made, base=back) if c is made else c for c in p.requests), culprit=made.op)


WRONG: Plants = {
    "base-that-never-was": Plant(never_was, "unknown-base", seen=COMMIT_SPEC),
    "base-that-was-replaced-before": Plant(of_before, "unknown-base", seen=COMMIT_SPEC),
    "swap-after-its-acknowledgement": Plant(too_late, "swap-time", seen=SENT_LATE),
    "swap-before-its-invocation": Plant(too_early, "swap-time", seen=SENT_LATE),
    "swaps-in-another-order": Plant(in_another_order, "swap-order", seen=COMMIT_SPEC),
    "swap-by-another-operation: The commit that adds an operation's snapshot was asked for by another operation.": Plant(
        pick(SwapSite.rivals, lambda p, x: p.put(x, p.o.op, place=(p.n, p.n + 1), swaps=(replace(p.s, op=x),))),
        "foreign-swap",
        seen="two writers with one name, or one connection for both",
    ),
    "requests-with-each-others-snapshot": Plant(
        exchanged, "foreign-swap", seen="two writers with one name, or one connection for both", neutral=False
    ),
    "request-on-an-older-snapshot": Plant(on_older_snapshot, "unknown-base", seen="apache/iceberg#7569", neutral=False),
}


PLANTS = (*table(LOST_SWAP_PLANTS, "pointer", where=swaps), *table(WRONG, "pointer", where=swaps, neutral=True))
