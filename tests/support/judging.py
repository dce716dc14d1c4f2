"""All checkers, for tests that ask for the verdicts and not for what explains them."""

from __future__ import annotations

from copy import copy

from checkers.judge.check import ALL
from checkers.verdict import Checker


def _unreduced(checker: Checker) -> Checker:
    one = copy(checker)
    object.__setattr__(one, "reducible", False)  # also of a frozen one
    return one


UNREDUCED = tuple(map(_unreduced, ALL))
"""The same verdicts and anomalies, without the search for minimal histories, which judges each broken history hundreds of times."""
