"""What is wrong already, while a run goes on? The checkers ``commits``, ``replay`` and ``reads``, event by event and commit by commit."""

from checkers.online.found import NEVER, Found
from checkers.online.online import Counts, Online

__all__ = ["NEVER", "Counts", "Found", "Online"]
