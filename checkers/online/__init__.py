"""What is wrong already, while a run goes on? The checkers ``commits``, ``replay`` and ``reads``, event by event and commit by commit."""

from checkers.online.found import Found
from checkers.online.online import Counts, Online

__all__ = ["Counts", "Found", "Online"]
