"""What is wrong already, while a run goes on? Five anomalies of ``commits``, ``replay`` and ``reads``, event by event and commit by commit."""

from checkers.online.found import Counts, OnlineFinding
from checkers.online.online import Online

__all__ = ["Counts", "Online", "OnlineFinding"]
