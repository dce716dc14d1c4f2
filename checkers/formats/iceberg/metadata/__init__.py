"""Is every metadata version what the table specification demands?"""

from checkers.formats.iceberg.metadata.checker import Metadata

__all__ = ["Metadata"]
