"""What Spark Structured Streaming promises as an engine, and what its errors mean."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.writers.engine_session import chain
from workloads.engines.engine import ErrorChain
from workloads.engines.engines import ENGINES
from workloads.engines.stream import NotFed, _catalog_of
from workloads.file import workload, workload_text
from workloads.file.workload import WorkloadError
from workloads.operations.kinds import KINDS
from workloads.tables import TableSpec

STREAM = ENGINES["stream"]
ICEBERG = "org.apache.iceberg.exceptions"
QUERY = ["org.apache.spark.sql.streaming.StreamingQueryException", "Job aborted"]


def test_it_appends_to_every_table_and_does_nothing_else() -> None:
    tables = [TableSpec(name="t", format_version=v, partitioned=p) for v in (2, 3) for p in (True, False)]
    for table in tables:
        assert [f for f in KINDS if STREAM.can(f, table)] == ["insert"]
        assert STREAM.promise("insert", table).level == "serializable"
    assert STREAM.marks


@pytest.mark.parametrize(
    ("error", "meaning", "conflict"),
    [
        ([QUERY, [f"{ICEBERG}.CommitFailedException", "branch main has changed"]], "info", "CommitFailedException"),
        ([QUERY, [f"{ICEBERG}.CommitStateUnknownException", "reset"]], "info", None),
        ([["icequake.WriterDied", "w1"]], "info", None),
        ([["workloads.engines.stream.NotFed", "its query"], QUERY], "fail", None),
    ],
)
def test_rows_that_its_query_got_may_be_committed_later_whatever_the_error(
    error: ErrorChain, meaning: str, conflict: str | None
) -> None:
    assert (STREAM.outcome("insert", error), STREAM.conflict(error)) == (meaning, conflict)


def test_the_error_of_an_operation_that_was_never_given_to_its_query_says_so_and_why() -> None:
    try:
        raise NotFed("its query") from OSError("no catalog")
    except NotFed as e:
        assert chain(e) == [["workloads.engines.stream.NotFed", "its query"], ["builtins.OSError", "no catalog"]]
        assert STREAM.outcome("insert", chain(e)) == "fail"


def test_it_finds_the_catalog_of_a_session() -> None:
    assert _catalog_of({"spark.master": "x", "spark.sql.catalog.c.uri": "u", "spark.sql.catalog.c": "C"}) == "c"


def test_the_workload_of_kills_strikes_its_writer_only() -> None:
    kills = workload_text.load(workload.find("stream-kills"))
    assert kills.engines == ("spark", "stream") and kills.nemesis is not None
    assert [(f.verb, f.target, f.whose) for f in kills.nemesis.all()] == [("kill", "driver", "stream")]


def test_a_workload_without_inserts_has_nothing_for_it(tmp_path: Path) -> None:
    file = tmp_path / "w.yaml"
    file.write_text(
        "workload: w\ntables: [{name: t}]\nwriters: {spark: 1, stream: 1}\nlength: {ops: 4}\noperations: {delete: 1}\n"
    )
    with pytest.raises(WorkloadError, match="stream can do none of the operations of phase main: delete"):
        workload_text.load(file)
