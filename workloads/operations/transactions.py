"""Operations that commit to one table by ``POST /v1/transactions/commit``: the statements of other kinds, sent to another endpoint.

Iceberg's own client uses this endpoint of REST catalogs for several tables only; other clients, such as DuckDB, also for one. What an
operation means does not depend on the endpoint, so a catalog must keep the same promises. A catalog without the endpoint makes them fail
(``harness.writers.by_transaction``).
"""

from __future__ import annotations

from workloads.operations.deletes import Delete
from workloads.operations.inserts import Insert
from workloads.operations.kind import Arguments, Kind, Statement
from workloads.operations.updates import UpdateAppend, UpdateCounter
from workloads.tables import ICEBERG, TableSpec


class _ByTransaction(Kind):
    """Runs the only statement of the class it stands before, and commits it as a transaction over one table."""

    by_transaction = True
    formats = frozenset((ICEBERG,))

    def statements(self, value: Arguments, op: str, table: TableSpec) -> list[Statement]:
        (statement,) = super().statements(value, op, table)  # type: ignore[safe-super]
        return [Statement("{table}", action={"name": "by-transaction", "statement": statement.sql})]


class InsertByTransaction(_ByTransaction, Insert):
    """``INSERT INTO … VALUES``, committed by the REST catalog's endpoint for transactions."""

    name = "insert-by-transaction"
    by_facts = True


class UpdateCounterByTransaction(_ByTransaction, UpdateCounter):
    """Increments the counter of one key, committed by the REST catalog's endpoint for transactions."""

    name = "update-counter-by-transaction"
    by_facts = True


class UpdateAppendByTransaction(_ByTransaction, UpdateAppend):
    """Appends the operation's id to the list of one key, committed by the REST catalog's endpoint for transactions."""

    name = "update-append-by-transaction"
    by_facts = True


class DeleteByTransaction(_ByTransaction, Delete):
    """``DELETE`` by key, committed by the REST catalog's endpoint for transactions."""

    name = "delete-by-transaction"
    by_facts = True
