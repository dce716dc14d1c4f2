"""Who did what in a run: a row for each engine and for each other one that is blamed, and the versions of engines."""

from __future__ import annotations

import pytest

from checkers.evidence.history import Event, Operation
from checkers.evidence.plan import Plan
from checkers.judge.by_engine import Did, by_engine, named, version_of
from checkers.judge.culprits import SERVER
from checkers.judge.stories import Story
from checkers.names import Harm
from workloads.engines.engines import ENGINES

VERSIONS = {
    "spark": "4.1.4",
    "iceberg": "1.12.0",
    "duckdb": "1.5.5",
    "duckdb-iceberg": "45163a28",
    "pyiceberg": "0.12.0",
}


@pytest.mark.parametrize(
    ("engine", "said"),
    [
        ("spark", "Spark 4.1.4, Iceberg 1.12.0"),
        ("stream", "Spark 4.1.4, Iceberg 1.12.0"),
        ("duckdb", "DuckDB 1.5.5, iceberg extension 45163a28"),
        ("pyiceberg", "PyIceberg 0.12.0"),
        ("committer", "Iceberg 1.12.0"),
        ("flink", ""),
        ("nobody's", ""),
    ],
)
def test_an_engine_has_the_versions_that_the_plan_has(engine: str, said: str) -> None:
    assert version_of(engine, VERSIONS) == said


def test_a_plan_of_an_older_icequake_has_no_versions_of_engines() -> None:
    plan = Plan.model_validate({"workload": "mixed", "versions": {"spark": "4.1.4", "iceberg": "1.12.0"}})
    assert version_of("duckdb", plan.versions) == "" and version_of("spark", plan.versions) != ""


def test_every_engine_says_what_it_consists_of() -> None:
    assert all(e.software for e in ENGINES.values())


def operation(op: str, engine: str, outcome: str, error: list[list[str]] | None = None) -> Operation:
    begun = Event(0, 0, "invoke", 0, "insert", "t", None, op, extra={"engine": engine})
    return Operation(op, 0, "insert", "t", outcome, None, None, error, begun, None)  # type: ignore[arg-type]


def story(who: str, engine: str, count: int) -> Story:
    return Story("t", "lost-commit", "lost", "It is gone.", Harm.ROWS, who, engine, (), (), (), count, (), ())


def test_each_engine_and_who_else_is_blamed_has_a_row() -> None:
    refused = [["org.apache.iceberg.exceptions.CommitFailedException", "Requirement failed"]]
    rows = by_engine(
        [
            operation("w1-0", "duckdb", "ok"),
            operation("w0-0", "spark", "ok"),
            operation("w0-1", "spark", "fail", refused),
            operation("w0-2", "spark", "info"),
        ],
        {},
        [story("DuckDB", "duckdb", 57), story(SERVER, "", 2)],
        VERSIONS,
    )
    assert rows == (
        Did("Spark", "Spark 4.1.4, Iceberg 1.12.0", 3, 2, 1, 0, 0),
        Did("DuckDB", "DuckDB 1.5.5, iceberg extension 45163a28", 1, 0, 0, 0, 57),
        Did(SERVER, "", 0, 0, 0, 0, 2),
    )


@pytest.mark.parametrize(
    ("who", "engine", "catalog", "says"),
    [
        ("DuckDB", "duckdb", "rest", "DuckDB 1.5.5, iceberg extension 45163a28"),
        ("Spark's JDBC catalog client", "spark", "jdbc", "Spark's JDBC catalog client (Spark 4.1.4, Iceberg 1.12.0)"),
        (SERVER, "", "rest", "the catalog server (Iceberg's REST test fixture 1.11.0)"),
        (SERVER, "", "mine", "the catalog server (mine)"),
        (SERVER, "", "", "the catalog server"),
        ("the log store", "", "rest", "the log store (Delta 4.0.0)"),
        ("unknown", "", "rest", "unknown"),
    ],
)
def test_who_did_it_is_named_with_the_version_that_the_plan_has(who: str, engine: str, catalog: str, says: str) -> None:
    assert named(who, engine, {**VERSIONS, "rest": "1.11.0", "delta": "4.0.0"}, catalog) == says
