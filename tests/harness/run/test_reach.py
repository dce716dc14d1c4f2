"""Which engines can write to which catalog."""

from __future__ import annotations

from pathlib import Path

import pytest

from compose.catalogs.registry import CATALOGS
from harness.run.reach import client_type, unreachable
from workloads.engines.engines import ENGINES, SPARK


def test_every_catalog_says_what_its_client_is() -> None:
    assert {client_type(name) for name in CATALOGS} >= {"rest", "jdbc", "hive", "glue", "nessie", "hadoop"}


@pytest.mark.parametrize("catalog", CATALOGS)
def test_spark_reaches_every_catalog(catalog: str) -> None:
    assert unreachable((SPARK,), catalog) is None


def test_the_reason_names_the_catalogs_that_the_engine_can_reach() -> None:
    assert unreachable(("spark", "duckdb"), "rest") is None
    reason = unreachable(("spark", "duckdb"), "jdbc")
    assert reason is not None
    assert reason.startswith("DuckDB cannot reach the catalog jdbc (type jdbc); it can reach rest, ")
    assert "leave duckdb out of writers" in reason


@pytest.mark.parametrize("name", [n for n in ENGINES if n != SPARK])
def test_a_catalog_that_a_reason_names_is_reached(name: str) -> None:
    reasons = [reason for c in CATALOGS if (reason := unreachable((name,), c)) is not None]
    named = {
        c
        for reason in reasons
        if "it can reach " in reason
        for c in reason.split("reach ")[-1].split(":")[0].split(", ")
    }
    assert all(unreachable((name,), c) is None for c in named)
    assert named or not any("it can reach" in reason for reason in reasons)


def test_a_users_own_file_counts_too(tmp_path: Path) -> None:
    file = tmp_path / "my.yaml"
    file.write_text("name: lake\nspark: {type: hive, uri: 'thrift://127.0.0.1:1', warehouse: 's3://b/w'}\n")
    assert client_type(str(file)) == "hive"
    assert unreachable(("duckdb",), str(file)) is not None


def test_the_types_that_an_engine_names_exist() -> None:
    known = {client_type(name) for name in CATALOGS}
    for engine in ENGINES.values():
        assert (getattr(engine, "catalogs", None) or known) <= known
