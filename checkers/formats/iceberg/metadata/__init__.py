"""Is every metadata version what the table specification demands?"""

from checkers.formats.iceberg.metadata.checker import MetadataRules

__all__ = ["MetadataRules"]
