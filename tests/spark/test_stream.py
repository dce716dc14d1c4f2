"""Spark Structured Streaming as an engine: what it writes once, what it writes twice, and by which epochs."""

from __future__ import annotations

import contextlib
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from checkers.evidence import history, tablelog_file
from checkers.evidence.replace import replace
from checkers.evidence.runfolder import RunFolder
from compose.install.installation import Installation
from compose.stack.sparkconf import spark_conf
from harness.cli.publish import publish
from harness.experiments.prove import prove
from harness.run.bench import Bench
from harness.writers.driver import launcher, session_properties
from harness.writers.slot import Writer, guest_request, request
from tests.support.runs import Silent
from workloads.engines.engines import ENGINES
from workloads.file import scenario
from workloads.generator import PlannedOperation
from workloads.operations.kind import Statement
from workloads.tables import SQL_COLUMNS, TableSpec

pytestmark = pytest.mark.spark

ENOUGH = 300
"""Seconds after which a test gives up on what never comes."""


def test_its_defects_and_controls_are_shown_and_a_killed_writer_goes_on_with_its_epochs(
    tmp_path: Path, installation: Installation, bench: Bench
) -> None:
    mine = [s for s in scenario.find([]) if "stream" in s.engines.values()]
    assert {bool(s.anomalies) for s in mine} == {True, False}
    proofs, _ = prove(mine, installation, tmp_path / "store", Silent(), publish, on=bench)
    assert {p.scenario: (p.state, p.why) for p in proofs} == {s.scenario: ("reproduced", ()) for s in mine}

    (killed,) = (p for p in proofs if p.scenario == "stream-killed")
    assert killed.folder is not None
    folder = RunFolder(Path(killed.folder))
    ops = [o.op for o in history.read(folder.history).operations() if o.engine == "stream"]
    commits = [c for c in tablelog_file.read_all(folder.tablelog)["t"].main() if c.op in ops]
    of_query = {c.summary["spark.sql.streaming.queryId"] for c in commits}
    assert len(of_query) == 1, "the same query in the first driver and in those that replaced it"
    epochs = [(c.op, c.summary["spark.sql.streaming.epochId"]) for c in commits]
    assert epochs == [(op, str(n)) for n, op in enumerate(ops)]


def test_a_driver_that_lives_on_after_it_was_replaced_commits_its_epoch_again(
    tmp_path: Path, installation: Installation, bench: Bench
) -> None:
    """Iceberg looks for the epoch once, before it commits, and not when a conflict makes it commit again."""
    group, table = bench.groups[0], TableSpec(name="t", seed_rows=0)
    beside = Writer("beside", None, bench.sockets()[-1])  # of the other group
    conf = spark_conf(installation, bench.endpoints, scratch=tmp_path)
    assert beside.take(session_properties(conf))

    def sql(text: str) -> list[list[Any]] | None:
        statements = [Statement(text, result=text.startswith("SELECT"))]
        answer = beside.call(request("r", statements, catalog="c", namespace="lives_on", table="t"), ENOUGH)
        assert answer["ok"], answer
        rows: list[list[Any]] | None = answer["result"]
        return rows

    sql("CREATE NAMESPACE c.lives_on")
    sql(f"CREATE TABLE c.lives_on.t ({SQL_COLUMNS}) USING iceberg TBLPROPERTIES ('commit.retry.min-wait-ms' = '10')")

    def insert(n: int) -> dict[str, Any]:
        group.board.invoked(1, f"w1-{n}")
        return guest_request(f"w1-{n}", PlannedOperation("insert", table, {"ids": [n]}), "lives_on")

    with contextlib.ExitStack() as stack:
        stack.callback(beside.close)
        data = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="icequake-")))
        launch = launcher(
            installation,
            replace(group.endpoints, catalog_properties={"rest.client.socket-timeout-ms": str(1000 * ENOUGH)}),
            run_id=bench.run_id,
            data=data,
            logs=tmp_path,
            front=group.proxies,
            engines=("spark", "stream"),
        )
        pool = stack.enter_context(ThreadPoolExecutor(1))
        stack.callback(group.board.heal)
        first = launch("w1", 0)
        stack.callback(first.kill)
        first.connect(ENOUGH)
        assert first.call(insert(0), ENOUGH)["ok"]
        hold = group.board.hold("w1-1", longest=ENOUGH)
        answer = pool.submit(first.call, insert(1), ENOUGH)
        assert hold.reached.wait(ENOUGH)

        second = launch("w1", 1)  # with the same checkpoint: it commits the epoch that is held
        stack.callback(second.kill)
        second.connect(ENOUGH)
        assert sql("SELECT id FROM c.lives_on.t ORDER BY id") == [[0], [1]]
        hold.release()
        told = answer.result(ENOUGH)
        ids = sql("SELECT id FROM c.lives_on.t ORDER BY id")

    assert not told["ok"] and ENGINES["stream"].outcome("insert", told["error"]) == "info", told
    assert ids == [[0], [1], [1]]
