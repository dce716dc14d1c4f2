"""Equality deletes on real tables: the kinds mean what they say, and the table log has the rows that Spark reads of every snapshot."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, Literal

import pytest

from checkers.evidence import history
from checkers.evidence.runfolder import RunFolder
from compose.install.installation import Installation
from compose.stack.pointers import table_pointer
from compose.stack.stack import Stack
from harness.cli.publish import publish
from harness.experiments.prove import prove
from harness.run.bench import Bench
from harness.run.tables import CREATE_NAMESPACE, create_table
from harness.tablefiles.iceberg.reader import ObjectStore, TableReader
from harness.writers.session import Session
from harness.writers.slot import request
from tests.support.runs import Silent
from tests.support.timetravel import assert_spark_reads_the_log
from workloads.engines.engines import ENGINES
from workloads.file import scenario
from workloads.operations.kind import Arguments
from workloads.operations.kinds import KINDS
from workloads.tables import COLUMNS, State, TableSpec

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

NAMESPACE = "equality"
STEPS: list[tuple[str, Arguments]] = [
    ("insert", {"ids": [0, 1, 2, 3, 4, 5, 6, 7]}),
    ("delete", {"ids": [0]}),  # a position delete, or a deletion vector
    ("equality-delete", {"ids": [2, 3]}),  # and equality deletes on the same data files
    ("update-counter", {"ids": [4]}),
    ("equality-upsert", {"ids": [4, 9]}),  # the updated row, and an absent key
    ("insert", {"ids": [2, 2]}),  # younger than the delete
    ("equality-delete", {"ids": [2, 5, 99], "validated": True}),
    ("insert", {"ids": [2]}),
    ("delete", {"ids": [6]}),
    ("rewrite-position-delete-files", {}),
    ("equality-upsert", {"ids": [2], "validated": True}),
    ("delete", {"ids": [2]}),  # of a row of an upsert
    ("rewrite-data-files", {"strategy": "binpack", "all": True}),
    ("merge-upsert", {"ids": [1, 2]}),
    ("equality-delete", {"ids": [1]}),
    ("rewrite-manifests", {}),
    ("equality-upsert", {"ids": [1, 7]}),
]


@pytest.mark.parametrize("partitioned", [True, False], ids=["partitioned", "unpartitioned"])
@pytest.mark.parametrize("version", [2, 3])
def test_equality_deletes_with_position_deletes_and_vectors(
    spark: Any, stack: Stack, tmp_path: Path, version: Literal[2, 3], partitioned: bool
) -> None:
    table = TableSpec(
        name=f"v{version}_{'p' if partitioned else 'u'}",
        format_version=version,
        mode="merge-on-read",
        partitions=2,
        partitioned=partitioned,
    )
    session = Session(spark)
    at = {"catalog": "c", "namespace": NAMESPACE, "table": table.name}
    for statements in (CREATE_NAMESPACE, create_table(table)):
        assert session.execute(request("s", statements, **at))["ok"]
    store = ObjectStore(
        endpoint=stack.endpoints.s3,
        access_key=stack.endpoints.access_key,
        secret_key=stack.endpoints.secret_key,
        region=stack.endpoints.region,
    )
    name = f"c.{NAMESPACE}.{table.name}"
    reader = TableReader(store, table=table.name, identifier=name, columns=COLUMNS, path=tmp_path / "log.jsonl")
    try:
        state = State()
        for n, (f, value) in enumerate(STEPS):
            answer = session.execute(request(f"w0-{n}", KINDS[f].statements(value, f"w0-{n}", table), **at))
            assert answer["ok"], (f, answer)
            state.apply(*KINDS[f].writeset(state, value, f"w0-{n}", table))
            rows = session.execute(request("r", KINDS["read"].statements({}, "r", table), **at))["result"]
            assert sorted(map(tuple, rows)) == state.rows(), (n, f)
        pointer = table_pointer(stack.endpoints, NAMESPACE, table.name)
        reader.capture(pointer, time.monotonic_ns())
        log = reader.finish(pointer, time.monotonic_ns())
        assert assert_spark_reads_the_log(spark, log) == len(log.commits)
    finally:
        spark.sql(f"DROP TABLE IF EXISTS {name} PURGE")
    by_op = {c.op: c for c in log.commits}
    idle = {"rewrite-position-delete-files"} if version == 3 else set()  # each data file has one vector already
    assert list(by_op) == [f"w0-{n}" for n, (f, _) in enumerate(STEPS) if f not in idle]
    contents = {f.content for c in log.commits for f in c.added_files}
    assert contents == {"data", "equality-deletes", "position-deletes" if version == 2 else "deletion-vector"}
    for n, (f, _) in enumerate(STEPS):
        if f.startswith("equality"):
            c = by_op[f"w0-{n}"]
            assert c.removed_files == () and c.operation == ("delete" if f == "equality-delete" else "overwrite")
            assert {x.content for x in c.added_files} - {"data"} == {"equality-deletes"}
            assert all(r.by in {x.path for x in c.added_files} for r in c.removed or ())


READ_BY = """\
scenario: read-by-{engine}
description: Equality deletes by Spark in a table with partitions and in one without.
link: https://iceberg.apache.org/spec/#equality-delete-files
affected: none
engines: {{"0": {engine}}}
tables:
  - {{name: parts, mode: merge-on-read, seed_rows: 2}}
  - {{name: plain, mode: merge-on-read, partitioned: false, seed_rows: 2}}
operations:
  - {{name: insert, writer: 0, do: insert, table: parts, value: {{ids: [10, 11, 12, 13]}}}}
  - {{name: insert-too, writer: 0, do: insert, table: plain, value: {{ids: [10, 11, 12, 13]}}}}
  - {{name: deletes, writer: 1, do: equality-delete, table: parts, value: {{ids: [1, 12]}}, after: {{insert: completed}}}}
  - {{name: deletes-too, writer: 1, do: equality-delete, table: plain, value: {{ids: [1, 12]}}, after: {{insert-too: completed}}}}
final: {{parts: [0, 10, 11, 13], plain: [0, 10, 11, 13]}}
"""


def test_every_engine_that_is_said_to_read_equality_deletes_does_and_the_others_are_not_asked(
    tmp_path: Path, installation: Installation, bench: Bench
) -> None:
    scenarios = [scenario.parse(READ_BY.format(engine=name)) for name in ("committer", "duckdb", "pyiceberg")]
    proofs, _ = prove(scenarios, installation, tmp_path / "store", Silent(), publish, on=bench)
    assert {p.scenario: (p.state, p.why) for p in proofs} == {s.scenario: ("reproduced", ()) for s in scenarios}
    for s, proof in zip(scenarios, proofs, strict=True):
        assert proof.folder is not None
        done = history.read(RunFolder(Path(proof.folder)).history).operations()
        last = [o for o in done if o.invoked.extra.get("phase") == "final-reads"]
        engine = ENGINES[s.engines[0]]
        theirs = {t.name for t in s.tables if engine.reads_equality_deletes(t)}
        assert {o.table for o in last if o.engine == engine.name} == theirs
        assert {o.table for o in last if o.engine != engine.name} == {"parts", "plain"}
