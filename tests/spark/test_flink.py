"""Flink writes what its operations mean, exactly once wherever its worker dies, and the table log has the rows that Spark reads of it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, Literal

import pytest

from compose.install import flink
from compose.install.cache import home
from compose.install.engines import installed
from compose.install.installation import Installation
from compose.stack.pointers import table_pointer
from compose.stack.sparkconf import spark_conf
from compose.stack.stack import Stack
from harness.run.tables import CREATE_NAMESPACE, create_table
from harness.tablefiles.iceberg.reader import ObjectStore, TableReader
from harness.writers.driver import access
from harness.writers.session import Session
from harness.writers.slot import request
from tests.support.timetravel import assert_spark_reads_the_log
from workloads.engines.engine import Client, Guest, GuestError
from workloads.engines.engines import ENGINES
from workloads.engines.flink import kill_point
from workloads.operations.kind import Arguments
from workloads.operations.kinds import KINDS
from workloads.tables import COLUMNS, State, TableSpec

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(not flink.in_place(home()), reason="Flink is not installed; icequake setup --engine flink"),
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

NAMESPACE = "flink"
STEPS: list[tuple[str, str, str, Arguments]] = [
    ("spark", "w1-0", "insert", {"ids": [0, 1, 2, 3, 4, 5, 6, 7]}),
    ("spark", "w1-1", "delete", {"ids": [0]}),  # a position delete, or a deletion vector
    ("flink", "w0-0", "insert", {"ids": [0, 8]}),
    ("flink", "w0-1", "upsert", {"ids": [0, 1, 9]}),  # and equality deletes on the same data files
    ("flink", "w0-3", "upsert", {"ids": [2, 10]}),  # dies during-write
    ("flink", "w0-4", "insert", {"ids": [2]}),
    ("flink", "w0-7", "insert", {"ids": [3, 11]}),  # dies before-checkpoint
    ("spark", "w1-2", "delete", {"ids": [1]}),  # of a row of an upsert
    ("flink", "w0-11", "insert", {"ids": [4, 12]}),  # dies before-commit
    ("flink", "w0-12", "upsert", {"ids": [4, 2]}),
    ("flink", "w0-15", "insert", {"ids": [5, 13]}),  # dies after-commit
    ("spark", "w1-3", "update-append", {"ids": [4]}),
    ("flink", "w0-16", "upsert", {"ids": [5, 13]}),
]
COMMITTED = {"during-write": False, "before-checkpoint": False, "before-commit": True, "after-commit": True}
"""Where the worker dies → whether its operation is in the table as soon as its replacement is ready."""


@pytest.mark.parametrize(
    ("name", "version", "partitioned"),
    [
        pytest.param("flink-kills", 2, True, id="v1"),
        pytest.param("flink-v2-kills", 3, False, id="v2", marks=pytest.mark.nightly),
    ],
)
def test_an_operation_of_flink_is_in_the_table_once_or_not_at_all_wherever_its_worker_dies(
    spark: Any,
    stack: Stack,
    installation: Installation,
    tmp_path: Path,
    name: str,
    version: Literal[2, 3],
    partitioned: bool,
) -> None:
    engine = ENGINES[name]
    assert isinstance(engine, Guest)
    table = TableSpec(
        name=f"v{version}", format_version=version, mode="merge-on-read", partitions=2, partitioned=partitioned
    )
    session, at = Session(spark), {"catalog": "c", "namespace": NAMESPACE, "table": table.name}
    for statements in (CREATE_NAMESPACE, create_table(table)):
        assert session.execute(request("s", statements, **at))["ok"]
    endpoints, identifier = stack.endpoints, f"c.{NAMESPACE}.{table.name}"
    store = ObjectStore(
        endpoint=endpoints.s3, access_key=endpoints.access_key, secret_key=endpoints.secret_key, region=endpoints.region
    )
    reader = TableReader(store, table=table.name, identifier=identifier, columns=COLUMNS, path=tmp_path / "log.jsonl")
    conf = spark_conf(installation, endpoints, scratch=tmp_path)
    reached = access(endpoints, conf, scratch=tmp_path, files=installed(engine.needs))

    def read() -> list[Any]:
        rows = session.execute(request("r", KINDS["read"].statements({}, "r", table), **at))["result"]
        return sorted(map(tuple, rows))

    client: Client = engine.open(reached)
    state, done = State(), []
    try:
        for writer, op, f, value in STEPS:
            there = True
            if writer == "spark":
                answer = session.execute(request(op, KINDS[f].statements(value, op, table), **at))
                assert answer["ok"], (op, answer)
            elif (point := kill_point(op)) is None:
                result = client.execute(op, f, value, table, (NAMESPACE, table.name))
                assert result["restarts"] == 0 and result["checkpoint"] > 0
            else:
                with pytest.raises(GuestError) as error:
                    client.execute(op, f, value, table, (NAMESPACE, table.name))
                assert engine.outcome(f, error.value.chain) == "info" and not client.alive()
                client.close()
                client = engine.open(reached)
                there = COMMITTED[point]
            if there:
                state.apply(*KINDS[f].writeset(state, value, op, table))
                done.append(op)
            assert read() == state.rows(), op
        pointer = table_pointer(endpoints, NAMESPACE, table.name)
        reader.capture(pointer, time.monotonic_ns())
        log = reader.finish(pointer, time.monotonic_ns())
        assert assert_spark_reads_the_log(spark, log) == len(log.commits)
    finally:
        client.close()
        spark.sql(f"DROP TABLE IF EXISTS {identifier} PURGE")
    assert [c.op for c in log.commits] == done
    contents = {f.content for c in log.commits for f in c.added_files}
    assert contents == {"data", "equality-deletes", "position-deletes" if version == 2 else "deletion-vector"}
