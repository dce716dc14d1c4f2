"""Is every version of a Delta table what Delta's protocol demands?"""

from checkers.formats.delta.protocol.checker import Protocol

__all__ = ["Protocol"]
