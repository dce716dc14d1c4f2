"""Spark: the engine that does everything. Its drivers are ``harness.writers.session``; here are only its facts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from workloads.engines.engine import Engine, Level, Promise
from workloads.operations.kinds import KINDS
from workloads.tables import DELTA, TableSpec


class Spark(Engine):
    """Spark SQL with Iceberg's runtime. The table's own properties say at which isolation level."""

    name = "spark"
    title = "Spark"
    software: ClassVar[Mapping[str, str]] = {"Spark": "spark", "Iceberg": "iceberg"}
    marks = True

    def can(self, f: str, table: TableSpec) -> bool:
        return f in KINDS and KINDS[f].in_spark and table.format in KINDS[f].formats

    def promise(self, f: str, table: TableSpec) -> Promise:
        """``write.<command>.isolation-level`` in the table's own properties overrides its ``isolation``; Iceberg ignores its case
        (``IsolationLevel.fromName``). A DELETE of a whole partition is evaluated on the base that it commits on, at every level
        (``DeleteFiles.deleteFromRowFilter``), and so is an INSERT OVERWRITE.

        On a Delta table every statement is serializable and validated, also an INSERT … SELECT; no other level can be set. An
        OPTIMIZE, which changes no row, is at snapshot isolation.
        """
        kind = KINDS.get(f)
        if kind is None:
            return Promise()
        if table.format == DELTA:
            level: Level = "serializable" if kind.changes_rows or not kind.commits else "snapshot"
            return Promise(level, source="delta-io/delta v4.4.0, OptimisticTransaction.checkForConflicts")
        return Promise(at_commit=kind.at_commit(table), blind_append=kind.blind_append)
