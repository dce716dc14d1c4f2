"""A table of the lake whose commits do not copy its metadata again and again."""

from __future__ import annotations

from pyiceberg.table import Table, Transaction
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.update import TableUpdate


class LakeTransaction(Transaction):
    """A transaction that applies its changes to the table's metadata when there are new ones.

    PyIceberg's does it whenever something asks for the metadata, and then copies all of it, with every snapshot: 20 times for an append. In a
    table of 30 snapshots that is nearly half of the processor time of an append.
    """

    _applied: tuple[TableMetadata, tuple[TableUpdate, ...], TableMetadata] | None = None

    @property
    def table_metadata(self) -> TableMetadata:
        """The table's metadata with the changes; nobody may change it."""
        base, updates = self._table.metadata, self._updates
        if self._applied is None or self._applied[0] is not base or self._applied[1] is not updates:
            self._applied = base, updates, super().table_metadata
        return self._applied[2]


class LakeTable(Table):
    """A table whose appends, overwrites and deletes are such transactions."""

    @staticmethod
    def of(table: Table) -> LakeTable:
        """The same table."""
        return LakeTable(table.name(), table.metadata, table.metadata_location, table.io, table.catalog, table.config)

    def transaction(self) -> LakeTransaction:
        """A new transaction."""
        return LakeTransaction(self)
