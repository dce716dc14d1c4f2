"""Bugs that the ``pointer`` checker must find: swaps that a catalog accepted and did not keep.

A recorded run has no proxy log. What proxies would have seen, one accepted swap from each metadata version to the next, follows from
the table logs (:func:`as_seen`): as early as the operations that made the versions so far allow.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise

from checkers.evidence.evidence import Evidence
from checkers.evidence.proxylog import TRANSACTIONS, AcceptedChange, PointerSwap
from checkers.evidence.replace import replace
from checkers.selftest.mutation import mutation
from checkers.selftest.world import Planted, World

GLUE = "https://iceberg.apache.org/docs/latest/aws/#optimistic-locking"
HADOOP = "https://iceberg.apache.org/spec/#file-system-tables"
REST = "https://github.com/apache/iceberg/pull/7569"
TABLE_COMMIT = "POST /v1/namespaces/db/tables/t"
SPEC = "https://iceberg.apache.org/spec/#metastore-tables"


def as_seen(e: Evidence) -> Evidence:
    """The evidence with what proxies in front of the catalog would have seen: swaps, and the snapshots in accepted requests."""
    operations = {o.op: o for o in e.history.operations()}
    swaps: dict[str, tuple[PointerSwap, ...]] = {}
    accepted: dict[str, tuple[AcceptedChange, ...]] = {}
    for table, log in e.logs.items():
        made = {c.metadata: c.op for c in log.commits if c.op is not None}
        found, changes = [], []
        time = 0
        for before, m in pairwise(log.metadata):
            o = operations.get(made.get(m.n, ""))
            time = time if o is None else max(time, o.start)
            op = made.get(m.n)
            found.append(PointerSwap(time, time, None, op, before.location, m.location, "200"))
            adds = tuple(s for s in m.snapshots if s not in before.snapshots)
            main = m.current if m.current != before.current else None
            if adds or main is not None:
                changes.append(AcceptedChange(time, time, None, op, before.current, adds, main, TABLE_COMMIT, "200"))
        swaps[table], accepted[table] = tuple(found), tuple(changes)
    return replace(e, swaps=swaps, accepted=accepted)


def _chosen(w: World) -> Iterator[tuple[str, int, PointerSwap]]:
    """Accepted swaps of an operation, in a random order: table, number, swap."""
    every = [(t, n, s) for t, swaps in w.evidence.swaps.items() for n, s in enumerate(swaps) if s.op is not None]
    w.rng.shuffle(every)
    yield from every


def _with(w: World, swaps: Mapping[str, tuple[PointerSwap, ...]]) -> Evidence:
    return replace(w.evidence, swaps={**w.evidence.swaps, **swaps})


def _beside(location: str) -> str:
    """A metadata file of the same number that no pointer names."""
    folder, _, name = location.rpartition("/")
    return f"{folder}/{name.split('-', 1)[0]}-00000000-lost.metadata.json"


def _rival(w: World, s: PointerSwap) -> str | None:
    """Another acknowledged write of the run, as the author of the swap that is lost."""
    others = [
        o.op for o in w.operations.values() if o.type == "ok" and o.op != s.op and o.f.startswith(("insert", "update"))
    ]
    return w.choose(others)


@mutation("swap-without-comparison", "pointer", "lost-update", seen=GLUE)
def swap_without_comparison(w: World) -> Planted | None:
    """A catalog accepts two swaps of the same version: it does not compare what it replaces."""
    for table, n, s in _chosen(w):
        rival = _rival(w, s)
        if rival is None:
            continue
        lost = replace(s, op=rival, new=_beside(s.new))
        swaps = w.evidence.swaps[table]
        return Planted(_with(w, {table: (*swaps[:n], lost, *swaps[n:])}), frozenset((rival,)), rival)
    return None


@mutation("two-writers-of-one-version-file", "pointer", "lost-update", seen=HADOOP)
def two_writers_of_one_version_file(w: World) -> Planted | None:
    """Two writers rename to the same version: both find it free, and the second overwrites the first."""
    for table, n, s in _chosen(w):
        rival = _rival(w, s)
        if rival is None:
            continue
        renames = [replace(x, base=None, names_place=True) for x in w.evidence.swaps[table]]
        lost = replace(renames[n], op=rival)
        return Planted(_with(w, {table: (*renames[:n], lost, *renames[n:])}), frozenset((rival,)), rival)
    return None


@mutation("swap-forgotten", "pointer", "lost-swap", seen=SPEC)
def swap_forgotten(w: World) -> Planted | None:
    """A catalog accepts a swap and loses it: the pointer never moves there."""
    for table, n, s in _chosen(w):
        log = w.evidence.logs[table]
        if log.captured_until is None or s.end >= log.captured_until:
            continue
        lost = replace(s, base=None, new=_beside(s.new))
        swaps = w.evidence.swaps[table]
        return Planted(_with(w, {table: (*swaps[:n], lost, *swaps[n + 1 :])}), frozenset((str(s.op),)), str(s.op))
    return None


@mutation("transaction-answered-and-not-made", "pointer", "lost-swap", seen=REST)
def transaction_not_made(w: World) -> Planted | None:
    """A REST catalog accepts two requests on the same snapshot and makes one of them."""
    for table, _, s in _chosen(w):
        log, rival = w.evidence.logs[table], _rival(w, s)
        changes = w.evidence.accepted[table]
        made = next((c for c in changes if (c.op, c.time) == (s.op, s.time) and c.main is not None), None)
        if rival is None or made is None or log.captured_until is None or s.end >= log.captured_until:
            continue
        snapshot = w.rng.randrange(1 << 40, 1 << 62)
        lost = replace(made, op=rival, adds=(snapshot,), main=snapshot, what=f"POST /v1{TRANSACTIONS}", answer="204")
        accepted = {**w.evidence.accepted, table: (*changes, lost)}
        return Planted(replace(w.evidence, accepted=accepted), frozenset((rival,)), rival)
    return None


MUTATIONS = (swap_without_comparison, two_writers_of_one_version_file, swap_forgotten, transaction_not_made)
