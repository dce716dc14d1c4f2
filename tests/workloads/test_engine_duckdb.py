"""DuckDB as an engine: what it can do, its SQL, and what its errors mean.

The errors are those of DuckDB 1.5.5 before a server that refused, answered 5xx or closed the connection; the URL is shortened.
"""

from __future__ import annotations

import pytest

from workloads.engines import duckdb
from workloads.engines.engine import Promise
from workloads.engines.engines import ENGINES
from workloads.operations.kinds import BUILT_IN, KINDS
from workloads.tables import TableSpec

ENGINE = ENGINES["duckdb"]
MOR = TableSpec(name="t", mode="merge-on-read")
COW = TableSpec(name="t", mode="copy-on-write")

COMMIT = "TransactionContext Error: Failed to commit: Failed to commit Iceberg transaction: "
DELTA_COMMIT = "TransactionContext Error: Failed to commit: DeltaKernel GenericError (5): Generic delta kernel error: "
JOINT = "Request to 'http://h:1/v1/transactions/commit' returned a non-200 status code "
SINGLE = "Request to 'http://h:1/v1/namespaces/n/tables/t' returned a non-200 status code "
RESENT = "Request returned HTTP {} for HTTP POST to 'http://h:1/v1/transactions/commit'"
DROPPED = "Server returned nothing (no headers, no data) error for HTTP POST to 'http://h:1/v1/transactions/commit'"
TRANSACTION = "_duckdb.TransactionException"


@pytest.mark.parametrize(
    ("cls", "text", "outcome", "conflict"),
    [
        (TRANSACTION, f"{COMMIT}{JOINT}(Conflict_409). \n message: Requirement failed", "fail", "TransactionException"),
        (TRANSACTION, f"{COMMIT}{SINGLE}(Conflict_409), with reason: Conflict", "fail", "TransactionException"),
        (TRANSACTION, f"{COMMIT}{JOINT}(BadRequest_400). \n message: no", "fail", None),
        (TRANSACTION, f"{COMMIT}{JOINT}(BadGateway_502). \n message: no", "info", None),
        (TRANSACTION, f"{COMMIT}<html>bad gateway</html>", "info", None),
        (TRANSACTION, f"{COMMIT}{RESENT.format(429)}", "info", None),
        (TRANSACTION, f"{COMMIT}{RESENT.format(500)}", "info", None),
        (TRANSACTION, f"{COMMIT}{RESENT.format(503)}", "info", None),
        (TRANSACTION, f"{COMMIT}{RESENT.format(504)}", "info", None),
        (TRANSACTION, f"{COMMIT}{DROPPED}", "info", None),
        (TRANSACTION, "Table n.t is already outdated. Please restart your transaction", "fail", "TransactionException"),
        (TRANSACTION, f"{DELTA_COMMIT}commit conflict at version 2", "fail", "TransactionException"),
        (TRANSACTION, f"{DELTA_COMMIT}Error interacting with object store: timed out", "info", None),
        ("_duckdb.ParserException", "Parser Error: syntax error at or near", "fail", None),
        ("_duckdb.CatalogException", "Catalog Error: Table with name nope does not exist!", "fail", None),
        ("_duckdb.NotImplementedException", "Not implemented Error: DuckDB-Iceberg only supports", "fail", None),
        ("_duckdb.IOException", "IO Error: Cannot open file", "fail", None),
        ("_duckdb.FatalException", "FATAL Error: database has been invalidated", "info", None),
        ("_duckdb.InterruptException", "Interrupted!", "info", None),
        ("builtins.MemoryError", "", "info", None),
    ],
)
def test_an_error_says_what_became_of_an_update(cls: str, text: str, outcome: str, conflict: str | None) -> None:
    error = [[cls, text]]
    assert ENGINE.outcome("update-counter", error) == outcome
    assert ENGINE.conflict(error) == conflict
    assert ENGINE.outcome("read", error) == "fail", "a read has no effect"


def test_a_refused_transfer_had_no_effect_only_if_it_was_one_request() -> None:
    assert ENGINE.outcome("transfer", [[TRANSACTION, f"{COMMIT}{JOINT}(Conflict_409)."]]) == "fail"
    assert ENGINE.outcome("transfer", [[TRANSACTION, f"{COMMIT}{SINGLE}(Conflict_409), with reason"]]) == "info"


def test_it_can_do_all_built_in_kinds_but_overwrites_and_procedures_on_merge_on_read_tables() -> None:
    able = {f for f in BUILT_IN if ENGINE.can(f, MOR)}
    verbs = {KINDS[f].verb for f in able}
    assert verbs == {"insert", "update", "delete", "merge", "read", "alter"}
    assert not {f for f in able if KINDS[f].verb in ("overwrite", "maintenance")}


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("partitioned", [True, False])
def test_on_a_copy_on_write_table_it_deletes_nothing_but_updates(version: int, partitioned: bool) -> None:
    table = COW.model_copy(update={"format_version": version, "partitioned": partitioned})
    unable = {f for f in duckdb.CAN if not ENGINE.can(f, table)}
    assert unable == {"delete", "delete-where", "delete-partition", "merge-delete"}
    allowed = table.model_copy(update={"properties": {"write.delete.mode": "merge-on-read"}})
    assert all(ENGINE.can(f, allowed) for f in duckdb.CAN)


def test_on_a_delta_table_it_appends_and_reads() -> None:
    table = TableSpec(name="t", format="delta")
    assert {f for f in KINDS if ENGINE.can(f, table)} == {
        "insert",
        "insert-select",
        "read",
        "read-key",
        "read-snapshot",
    }
    assert ENGINE.promise("insert", table).level == ENGINE.promise("read", table).level == "serializable"
    copied = ENGINE.promise("insert-select", table)
    assert (copied.level, copied.blind_append) == ("snapshot", True)
    assert not ENGINE.promise("insert-select", MOR).blind_append


def test_it_promises_serializability_of_each_kind_and_says_where_that_is_written() -> None:
    for f in duckdb.CAN:
        promise = ENGINE.promise(f, MOR)
        assert promise.level == "serializable" and not promise.blind_append and not promise.at_commit
        assert "45163a28" in promise.source
    assert ENGINE.promise("overwrite-where", MOR) == Promise()


@pytest.mark.parametrize(
    ("spark", "own"),
    [
        ("INSERT INTO {table} (id, part) VALUES (10L, 2)", "INSERT INTO {table} (id, part) VALUES (10, 2)"),
        ("WHERE part = 1 AND pmod(cnt, 2) = 0", "WHERE part = 1 AND ((cnt % 2) + 2) % 2 = 0"),
        (
            "SELECT * FROM VALUES (1L, 1), (2L, 2) AS v(id, part)",
            "SELECT * FROM (VALUES (1, 1), (2, 2)) AS v(id, part)",
        ),
        ("ALTER TABLE {table} ADD COLUMN a INT COMMENT 'w0-1'", "ALTER TABLE {table} ADD COLUMN a INT"),
        ("ALTER TABLE {table} SET TBLPROPERTIES ('a' = 'b')", "ALTER TABLE {table} SET ('a' = 'b')"),
    ],
)
def test_spark_sql_is_translated(spark: str, own: str) -> None:
    assert duckdb.translated(spark) == own
