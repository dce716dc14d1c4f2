"""How often was a commit retried or aborted, by which operation, and what did that cost?"""

from checkers.retries.checker import Retries, RetriesStats

__all__ = ["Retries", "RetriesStats"]
