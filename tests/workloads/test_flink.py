"""Flink as an engine: what it can do, when its worker dies on purpose, and what its errors mean."""

from __future__ import annotations

import pytest

from workloads.engines.engines import ENGINES
from workloads.engines.flink import NOT_HANDED_OVER, POINTS, kill_point
from workloads.tables import TableSpec

FLINKS = ["flink", "flink-v2", "flink-kills", "flink-v2-kills"]
FAILED = ["org.apache.iceberg.exceptions.CommitFailedException", "Requirement failed: branch main has changed"]


def test_a_dying_worker_dies_in_every_fourth_operation_at_each_point_in_turn() -> None:
    points = [kill_point(f"w3-{n}") for n in range(32)]
    assert points[3::4] == [*POINTS, *POINTS]
    assert all(point is None for n, point in enumerate(points) if n % 4 != 3)


@pytest.mark.parametrize("name", FLINKS)
def test_an_error_is_unknown_unless_the_job_got_no_row(name: str) -> None:
    engine = ENGINES[name]
    assert engine.outcome("insert", [FAILED]) == "info"  # the checkpoint is complete, so a restored job commits it
    assert engine.outcome("insert", [[NOT_HANDED_OVER, "the job does not run"], FAILED]) == "fail"
    assert engine.conflict([FAILED]) == "CommitFailedException"


@pytest.mark.parametrize("name", FLINKS)
def test_its_upserts_are_evaluated_where_they_commit(name: str) -> None:
    engine, table = ENGINES[name], TableSpec(name="t")
    assert engine.can("upsert", table) and engine.can("insert", table)
    assert not engine.can("read", table) and not engine.can("update-register", table)
    assert engine.promise("upsert", table).at_commit


def test_spark_cannot_do_an_upsert_and_has_no_statement_for_it() -> None:
    assert not ENGINES["spark"].can("upsert", TableSpec(name="t"))
