"""Isolation: dependency graphs, the cycles in them, and the levels that these contradict.

:class:`Isolation` judges a run's tables by their logs; :func:`check_transactions` judges any history of list or register transactions
by what its clients saw. Both build a graph (``graph``), search its cycles (``cycles``) and say which levels hold (``levels``).
"""

from checkers.isolation.blackbox import WORKLOADS, check_transactions
from checkers.isolation.checker import Isolation, IsolationStats
from checkers.isolation.levels import LEVELS
from checkers.isolation.transactions import CycleEdge, IsolationFinding, IsolationResult, Transaction

__all__ = [
    "LEVELS",
    "WORKLOADS",
    "CycleEdge",
    "Isolation",
    "IsolationFinding",
    "IsolationResult",
    "IsolationStats",
    "Transaction",
    "check_transactions",
]
