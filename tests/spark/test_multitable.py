"""Transfers and reads of two tables through the writer's session, on a catalog that has transactions and on one that has not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from checkers.evidence.outcome import classify
from compose.stack.stack import Stack
from harness.run.tables import CREATE_NAMESPACE, create_table
from harness.writers import two_tables
from harness.writers.session import Session
from harness.writers.slot import request
from workloads.operations.kind import STAGES, Arguments
from workloads.operations.kinds import KINDS
from workloads.tables import TableSpec

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

Run = Callable[..., dict[str, Any]]
TABLES = {
    name: TableSpec(name=name, mode=mode, partitioned=False, properties={STAGES: "true"})
    for name, mode in (("a", "copy-on-write"), ("b", "merge-on-read"))
}


def runner(spark: Any, catalog: str, namespace: str) -> Run:
    """Two tables with the rows 0 and 1, and a function that runs an operation on one of them."""
    session = Session(spark)

    def run(op: str, f: str, value: Arguments, table: str = "a") -> dict[str, Any]:
        statements = KINDS[f].statements(value, op, TABLES.get(table, TABLES["a"]))
        return session.execute(request(op, statements, catalog=catalog, namespace=namespace, table=table))

    for table in TABLES.values():
        for statements in (CREATE_NAMESPACE, create_table(table)):
            made = session.execute(request("s", statements, catalog=catalog, namespace=namespace, table=table.name))
            assert made["ok"], made
        assert run(f"seed-{table.name}", "insert", {"ids": [0, 1]}, table.name)["ok"]
    return run


def counters(run: Run) -> list[tuple[int, int, int, str]]:
    """(side, id, counter, list) of both tables."""
    answer = run("r", "read-both", {"and": "b"})
    assert answer["ok"], answer
    return sorted((r[0], r[1], r[3], r[4]) for r in answer["result"])


def test_a_transfer_is_one_transaction_on_the_rest_catalog(spark: Any, stack: Stack) -> None:
    run = runner(spark, "c", "multitable")
    done = run("w0-1", "transfer", {"ids": [0], "into": "b", "amount": 4})
    assert done["ok"] and done["result"] == [[two_tables.TRANSACTION]], done
    assert spark.conf.get(two_tables.WAP_ID, None) is None
    assert counters(run) == [
        (0, 0, -4, "seed-a,w0-1"), (0, 1, 0, "seed-a"), (1, 0, 4, "seed-b,w0-1"), (1, 1, 0, "seed-b"),
    ]  # fmt: skip
    for t in TABLES:
        marks = spark.sql(
            f"SELECT summary['icequake-op'] FROM c.multitable.{t}.snapshots ORDER BY committed_at"
        ).collect()
        assert [m[0] for m in marks] == [f"seed-{t}", "w0-1"]
    read = run("w0-2", "read-both", {"and": "b"})
    assert read["bound"]["first"] == read["bound"]["again"] != read["bound"]["second"]


def test_what_was_staged_on_an_older_state_is_refused_and_leaves_nothing(
    spark: Any, stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = runner(spark, "c", "refused")
    published = two_tables._published

    def late(spark: Any, table: str, op: str) -> Any:
        change = published(spark, table, op)
        if table.endswith(".b"):  # somebody commits between the look at b and the request
            spark.sql("INSERT INTO c.refused.b VALUES (2, 'x', 0, 'x', 2)").collect()
        return change

    monkeypatch.setattr(two_tables, "_published", late)
    failed = run("w0-1", "transfer", {"ids": [0], "into": "b", "amount": 4})
    assert not failed["ok"] and classify(failed["error"], writes=True) == "fail", failed
    assert any(c.endswith("CommitFailedException") for c, _ in failed["error"])
    monkeypatch.undo()
    assert {(side, id, cnt) for side, id, cnt, _ in counters(run)} == {
        (0, 0, 0),
        (0, 1, 0),
        (1, 0, 0),
        (1, 1, 0),
        (1, 2, 0),
    }
    moved = two_tables._load

    def older(spark: Any, table: str) -> Any:
        if table.endswith(".a") and spark.conf.get(two_tables.WAP_ID, None) is None and staged:
            spark.sql("INSERT INTO c.refused.a VALUES (2, 'x', 0, 'x', 2)").collect()
            staged.clear()
        return moved(spark, table)

    staged: list[bool] = []
    monkeypatch.setattr(two_tables, "_load", older)
    original = spark.conf.unset
    monkeypatch.setattr(type(spark.conf), "unset", lambda _, key: (original(key), staged.append(True)))
    failed = run("w0-2", "transfer", {"ids": [0], "into": "b", "amount": 4})
    monkeypatch.undo()
    assert not failed["ok"] and classify(failed["error"], writes=True) == "fail", failed
    assert "main of c.refused.a has moved on" in failed["error"][0][1]


def test_a_table_that_cannot_stage_is_said(spark: Any, stack: Stack) -> None:
    run = runner(spark, "c", "unstaged")
    spark.sql(f"ALTER TABLE c.unstaged.b UNSET TBLPROPERTIES ('{STAGES}')")
    before = counters(run)
    failed = run("w0-1", "transfer", {"ids": [0], "into": "b", "amount": 4})
    assert not failed["ok"] and f"c.unstaged.b needs the property {STAGES}" in failed["error"][0][1]
    assert counters(run) == before


def test_without_transactions_there_are_two_commits_and_half_of_them_is_unknown(
    spark: Any, stack: Stack, tmp_path: Path
) -> None:
    spark.conf.set("spark.sql.catalog.h", "org.apache.iceberg.spark.SparkCatalog")
    spark.conf.set("spark.sql.catalog.h.type", "hadoop")
    spark.conf.set("spark.sql.catalog.h.warehouse", tmp_path.as_uri())
    spark.conf.set("spark.sql.catalog.h.cache-enabled", "false")
    run = runner(spark, "h", "turn")
    done = run("w0-1", "transfer", {"ids": [1], "into": "b", "amount": 3})
    assert done["ok"] and done["result"] == [[two_tables.IN_TURN]], done
    assert {(side, id, cnt) for side, id, cnt, _ in counters(run)} == {(0, 0, 0), (0, 1, -3), (1, 0, 0), (1, 1, 3)}
    half = run("w0-2", "transfer", {"ids": [1], "into": "nosuchtable", "amount": 3})
    assert not half["ok"] and half["error"][0][0] == "harness.writers.two_tables.PartlyCommitted", half
    assert classify(half["error"], writes=True) == "info"
    none = run("w0-3", "transfer", {"ids": [1], "into": "b", "amount": 3}, "nosuchtable")
    assert not none["ok"] and classify(none["error"], writes=True) == "fail", none
