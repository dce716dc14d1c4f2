"""Is every metadata version what the table specification demands?"""

from checkers.metadata.checker import Metadata

__all__ = ["Metadata"]
