"""DuckDB beside Spark on the REST catalog: each reads what the other wrote, and DuckDB gives up when Spark was faster."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from compose.install.engines import installed
from compose.install.installation import Installation
from compose.stack.sparkconf import spark_conf
from compose.stack.stack import Stack
from harness.run.tables import CREATE_NAMESPACE, create_table
from harness.writers.driver import access
from harness.writers.engine_session import chain
from harness.writers.session import Session
from harness.writers.slot import request
from workloads.engines import duckdb
from workloads.engines.engine import Client
from workloads.engines.engines import ENGINES
from workloads.operations.keys import Keys
from workloads.operations.kind import Arguments, Draw
from workloads.operations.kinds import KINDS
from workloads.tables import Row, State, TableSpec

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

NAMESPACE = "beside"
V2 = TableSpec(name="v2", mode="merge-on-read")
V3 = TableSpec(name="v3", mode="merge-on-read", format_version=3, partitioned=False)
COW = TableSpec(name="cow", partitioned=False)
BySpark = Callable[[TableSpec, str, str, Arguments], Any]


@pytest.fixture(scope="module")
def client(installation: Installation, stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """A client of DuckDB in this process."""
    files, scratch = installed("duckdb"), tmp_path_factory.mktemp("duckdb")
    conf = spark_conf(installation, stack.endpoints, scratch=scratch)
    engine = ENGINES["duckdb"]
    assert isinstance(engine, duckdb.DuckDB)
    with pytest.MonkeyPatch.context() as patch:
        for folder in files.python_path:
            patch.syspath_prepend(folder)
        opened = engine.open(access(stack.endpoints, conf, scratch=Path(scratch), files=files))
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def by_spark(spark: Any) -> BySpark:
    """A function that has Spark execute an operation; the tables are there, with the rows 0 to 7."""
    session = Session(spark)

    def run(table: TableSpec, op: str, f: str, value: Arguments) -> Any:
        statements = KINDS[f].statements(value, op, table)
        answer = session.execute(request(op, statements, catalog="c", namespace=NAMESPACE, table=table.name))
        assert answer["ok"], answer
        return answer["result"]

    for table in (V2, V3, COW):
        for statements in (CREATE_NAMESPACE, create_table(table)):
            made = session.execute(request("s", statements, catalog="c", namespace=NAMESPACE, table=table.name))
            assert made["ok"], made
        run(table, "w0-0", "insert", {"ids": [*range(8)]})
    return run


@pytest.mark.parametrize("table", [V2, V3, COW], ids=lambda t: t.name)
def test_every_kind_does_in_duckdb_what_it_means_and_spark_reads_it(
    client: Client, by_spark: BySpark, table: TableSpec
) -> None:
    state = State(Row(*r) for r in by_spark(table, "r", "read", {}))
    draw = Draw(Random(3), Keys(8), 1, table, False, {}, (table.name,))
    able = [
        f for f in duckdb.CAN if ENGINES["duckdb"].can(f, table) and not KINDS[f].two_tables and f != "widen-column"
    ]
    for n, f in enumerate(able):
        kind, op, value = KINDS[f], f"w1-{n}", KINDS[f].arguments(draw)
        result = client.execute(op, f, value, table, (NAMESPACE, table.name))
        expected = kind.expected(state, value)
        if expected is not None and not kind.travels:
            assert sorted(map(tuple, result)) == expected, f
        if kind.changes_rows:
            state.apply(*kind.writeset(state, value, op, table))
            assert sorted(Row(*r) for r in by_spark(table, "r", "read", {})) == state.rows(), f


def test_a_transfer_of_duckdb_is_one_transaction(client: Client, by_spark: BySpark) -> None:
    for table in (V2, V3):
        by_spark(table, "w0-1", "insert", {"ids": [100]})
    value = {"ids": [100], "into": V3.name, "amount": 4}
    assert client.execute("w1-90", "transfer", value, V2, (NAMESPACE, V2.name)) == [["one transaction"]]
    both = client.execute("w1-91", "read-both", {"and": V3.name}, V2, (NAMESPACE, V2.name))
    assert both["first"] == both["again"]
    assert sorted(r[:4:3] for r in both["rows"] if r[1] == 100) == [[0, -4], [1, 4]]


def test_duckdb_gives_up_when_spark_committed_during_its_transaction(client: Client, by_spark: BySpark) -> None:
    assert isinstance(client, duckdb.Connected)
    name = f"{duckdb.CATALOG}.{NAMESPACE}.{V2.name}"
    by_spark(V2, "w0-2", "insert", {"ids": [150]})
    before = sorted(by_spark(V2, "r", "read", {}))
    client.sql("BEGIN")
    client.sql(f"UPDATE {name} SET cnt = cnt + 1 WHERE id = 150")
    by_spark(V2, "w0-3", "insert", {"ids": [200]})
    with pytest.raises(importlib.import_module("duckdb").TransactionException) as raised:
        client.sql("COMMIT")
    error = chain(raised.value)
    assert ENGINES["duckdb"].outcome("update-counter", error) == "fail"
    assert ENGINES["duckdb"].conflict(error) == "TransactionException"
    after = [r for r in by_spark(V2, "r", "read", {}) if r[0] != 200]
    assert sorted(after) == before, "nothing of its transaction is there"
    assert client.alive() and client.execute("w1-92", "read-key", {"id": 200}, V2, (NAMESPACE, V2.name))
