"""The reduction: take away from a candidate what it does not need to fail. Pure; what a candidate is, and how it is tried, others say.

A *pass* knows one kind of part, such as operations or rows. Delta debugging (:mod:`checkers.judge.ddmin`) finds which of them are not
needed. A pass that takes something away can make another one possible, so all passes are repeated until none takes anything away. The
result is 1-minimal: it fails, and no longer does without any one part.

A candidate may fail in some runs only. It is tried several times, and its first failing run decides: so what is kept has failed, and
what is not kept may have been lucky.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from checkers.judge.ddmin import ddmin

C = TypeVar("C")


class BudgetSpent(Exception):
    """The budget is spent: nothing more can be tried."""


@dataclass(frozen=True, slots=True)
class Tries:
    """How often a candidate failed, of how many runs."""

    failed: int = 0
    runs: int = 0

    @property
    def fails(self) -> bool:
        """Whether it failed at all."""
        return self.failed > 0

    def __str__(self) -> str:
        return f"{self.failed} of {self.runs}"


Oracle = Callable[[C], Tries]
"""Tries a candidate. Raises BudgetSpent."""


@dataclass(frozen=True)
class Pass(Generic[C]):
    """One kind of part of a candidate.

    Attributes:
        name: what one such part is called.
        parts: the parts of a candidate, in an order in which neighbours belong together.
        without: the candidate without some of its parts; None if that is no candidate.
        least: how many of the parts are left at least.
    """

    name: str
    parts: Callable[[C], Sequence[Hashable]]
    without: Callable[[C, Collection[Hashable]], C | None]
    least: int = 0


@dataclass(frozen=True, slots=True)
class Reduced(Generic[C]):
    """What is left of a candidate.

    Attributes:
        candidate: it failed.
        minimal: whether it no longer fails without any one part; False if the budget was spent before that was seen.
    """

    candidate: C
    minimal: bool


def reduced(
    start: C, passes: Sequence[Pass[C]], tried: Oracle[C], kept: Callable[[C], object] = lambda _: None
) -> Reduced[C]:
    """Reduce a candidate that fails.

    Args:
        tried: is asked for every smaller candidate.
        kept: gets every smaller candidate that fails, at once.
    """
    now = start

    def keep(candidate: C) -> None:
        nonlocal now
        now = candidate
        kept(candidate)

    quiet = turn = 0
    try:
        while quiet < len(passes):
            before = now
            _one_pass(now, passes[turn % len(passes)], tried, keep)
            quiet = quiet + 1 if now is before else 0
            turn += 1
    except BudgetSpent:
        return Reduced(now, minimal=False)
    return Reduced(now, minimal=True)


def _one_pass(start: C, pass_: Pass[C], tried: Oracle[C], keep: Callable[[C], object]) -> None:
    """Take away parts of one kind; ``keep`` gets each smaller candidate that fails."""
    parts = list(pass_.parts(start))

    def shows(rest: list[Hashable]) -> bool:
        kept = {*rest}
        candidate = pass_.without(start, [p for p in parts if p not in kept])
        if candidate is None or not tried(candidate).fails:
            return False
        keep(candidate)
        return True

    ddmin(parts, shows, least=pass_.least)


def patient(once: Callable[[C], bool], tries: int) -> Oracle[C]:
    """An oracle that runs a candidate until it fails, at most ``tries`` times."""

    def tried(candidate: C) -> Tries:
        for n in range(1, tries + 1):
            if once(candidate):
                return Tries(1, n)
        return Tries(0, tries)

    return tried


def first_failing(guesses: Iterable[C], tried: Oracle[C]) -> C | None:
    """The first of some candidates that fails; None if none does."""
    return next((g for g in guesses if tried(g).fails), None)
