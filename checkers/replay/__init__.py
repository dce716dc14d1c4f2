"""Did every commit change exactly the rows that its operation means?"""

from checkers.replay.walk import Replay

__all__ = ["Replay"]
