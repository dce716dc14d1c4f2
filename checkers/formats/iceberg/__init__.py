"""What do Iceberg's files say beyond what every table format says?"""

from checkers.formats.iceberg.tableformat import Iceberg

__all__ = ["Iceberg"]
