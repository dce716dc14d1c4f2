"""Bugs that the ``pointer`` checker must find: swaps that contradict the pointer's history, or the history of operations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from checkers.evidence.history import Operation
from checkers.evidence.proxylog import PointerSwap
from checkers.evidence.replace import replace
from checkers.selftest.lostswaps import SPEC
from checkers.selftest.mutation import Mutation, mutation
from checkers.selftest.world import Planted, World

SENT_LATE = "https://github.com/apache/iceberg/issues/15050: a commit that is carried out after its writer was answered"


def _with(w: World, table: str, at: int, *new: PointerSwap) -> Sequence[PointerSwap]:
    """A table's swaps, with some of them replaced from a place on."""
    swaps = w.evidence.swaps[table]
    return (*swaps[:at], *new, *swaps[at + len(new) :])


def _planted(w: World, table: str, swaps: Sequence[PointerSwap], *ops: str, nobody: str = "") -> Planted:
    e = replace(w.evidence, swaps={**w.evidence.swaps, table: tuple(swaps)})
    return Planted(e, frozenset(ops), None if nobody else ops[0], nobody)


def _of_operations(w: World) -> Iterator[tuple[str, int, PointerSwap, Operation]]:
    """Swaps of operations, in random order: table, number, swap, operation."""
    every = [(t, n, s) for t, swaps in w.evidence.swaps.items() for n, s in enumerate(swaps)]
    for t, n, s in w.shuffled(every):
        o = w.operations.get(s.op or "")
        if o is not None:
            yield t, n, s, o


@mutation("base-that-never-was", "pointer", "unknown-base", seen=SPEC)
def base_that_never_was(w: World) -> Planted | None:
    """A swap replaces a metadata file that the pointer never named."""
    for t, n, s, o in _of_operations(w):
        if s.base is not None:
            base = s.base.rpartition("/")[0] + "/00007-00000000-never.metadata.json"
            return _planted(w, t, _with(w, t, n, replace(s, base=base)), o.op)
    return None


@mutation("base-that-was-replaced-before", "pointer", "unknown-base", seen=SPEC)
def base_of_before(w: World) -> Planted | None:
    """A swap replaces a version that another one had replaced before, which came from somewhere else."""
    for t, n, s, o in _of_operations(w):
        if n:
            swaps = list(w.evidence.swaps[t])
            swaps[n] = replace(s, base=swaps[n - 1].base)
            del swaps[n - 1]
            return _planted(w, t, swaps, o.op)
    return None


@mutation("swap-after-its-acknowledgement", "pointer", "swap-time", seen=SENT_LATE)
def swap_after(w: World) -> Planted | None:
    """A commit is asked for and accepted only after its operation was acknowledged."""
    for t, n, s, o in _of_operations(w):
        if o.type == "ok" and o.end is not None:
            late = o.end + w.rng.randrange(1_000_000, 3_000_000_000)
            return _planted(w, t, _with(w, t, n, replace(s, time=late, end=late + 5_000_000)), o.op)
    return None


@mutation("swap-before-its-invocation", "pointer", "swap-time", seen=SENT_LATE)
def swap_before(w: World) -> Planted | None:
    """A commit is asked for and accepted before its operation was invoked."""
    for t, n, s, o in _of_operations(w):
        early = o.start - w.rng.randrange(1_000_000, 3_000_000_000)
        if early > 0:
            return _planted(w, t, _with(w, t, n, replace(s, time=early, end=early + 500_000)), o.op)
    return None


@mutation("swaps-in-another-order", "pointer", "swap-order", seen=SPEC)
def swaps_in_another_order(w: World) -> Planted | None:
    """The catalog accepts two commits in another order than its history has them."""
    for t, n, s, o in _of_operations(w):
        swaps = w.evidence.swaps[t]
        if n + 1 < len(swaps) and swaps[n + 1].op in w.operations:
            time = max(s.time, swaps[n + 1].time)
            second = replace(swaps[n + 1], time=time, end=time + 1)
            first = replace(s, time=time + 2, end=time + 3)
            return _planted(
                w,
                t,
                _with(w, t, n, first, second),
                o.op,
                str(second.op),
                nobody="the catalog took two commits in another order than it says; each of the two did what it was to do",
            )
    return None


@mutation(
    "swap-by-another-operation", "pointer", "foreign-swap", seen="two writers with one name, or one connection for both"
)
def swap_by_another(w: World) -> Planted | None:
    """The commit that adds an operation's snapshot was asked for by another operation."""
    for t, n, s, o in _of_operations(w):
        other = w.choose(
            x.op
            for x in w.operations.values()
            if x.op != o.op and x.type == "ok" and x.f.startswith(("insert", "update"))
        )
        if other is not None:
            return _planted(w, t, _with(w, t, n, replace(s, op=other)), other, o.op)
    return None


MUTATIONS: tuple[Mutation, ...] = (
    base_that_never_was,
    base_of_before,
    swap_after,
    swap_before,
    swaps_in_another_order,
    swap_by_another,
)
