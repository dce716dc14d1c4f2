"""What do Delta's files say beyond what every table format says?"""

from checkers.formats.delta.tableformat import Delta

__all__ = ["Delta"]
