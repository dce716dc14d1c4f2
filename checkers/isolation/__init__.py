"""Isolation: dependency graphs, the cycles in them, and the levels that these contradict."""

from checkers.isolation.blackbox import check_transactions
from checkers.isolation.levels import LEVELS
from checkers.isolation.transactions import Finding, IsolationResult, Transaction

__all__ = ["LEVELS", "Finding", "IsolationResult", "Transaction", "check_transactions"]
