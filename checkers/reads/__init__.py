"""Did every read return a committed state that was recent enough?"""

from checkers.reads.checker import Reads

__all__ = ["Reads"]
