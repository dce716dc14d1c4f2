"""Is every acknowledged write on main exactly once, no failed one, and is their order possible?"""

from checkers.commits.checker import Commits, CommitsStats, CommitsTable
from checkers.commits.fate import Emptiness

__all__ = ["Commits", "CommitsStats", "CommitsTable", "Emptiness"]
