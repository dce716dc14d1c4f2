"""The isolation level that a table promises to an operation."""

from __future__ import annotations

from checkers.evidence.history import Operation
from checkers.timeline.timeline import kind_of
from workloads.tables import TableSpec

ROW_DELTA = "https://github.com/apache/iceberg/blob/main/api/src/main/java/org/apache/iceberg/RowDelta.java"
"""``validateNoConflictingDeleteFiles``: Iceberg does not require it for DELETE."""


BLIND_APPEND = "https://github.com/apache/iceberg/issues/12653"
"""MERGE with only an insert clause commits as an append that validates nothing."""


REPLACED = "https://github.com/apache/iceberg/issues/16232"
"""CREATE OR REPLACE TABLE replaces the table, whatever was committed since it read it."""


def isolation(table: TableSpec, o: Operation) -> str:
    """The isolation level that a table promises an operation: ``serializable`` or ``snapshot``.

    ``write.<command>.isolation-level`` in the table's own properties overrides its ``isolation``; Iceberg ignores its case
    (``IsolationLevel.fromName``). A DELETE of a whole partition is evaluated on the base that it commits on, at every level
    (``DeleteFiles.deleteFromRowFilter``), and so is an INSERT OVERWRITE: serializable.
    """
    kind = kind_of(o)
    if kind is not None and kind.at_commit(table):
        return "serializable"
    return table.properties.get(f"write.{command_of(o)}.isolation-level", table.isolation).lower()


def command_of(o: Operation) -> str:
    """The SQL command that it is to Iceberg; of an unknown kind the first word of its name."""
    kind = kind_of(o)
    return o.f.partition("-")[0] if kind is None else kind.verb
