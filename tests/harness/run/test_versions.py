"""The versions in a run's plan: those of every run, and those of the engines that write."""

from __future__ import annotations

import re
from importlib import metadata
from pathlib import Path

import pytest

from checkers.judge.by_engine import version_of
from compose.install import delta
from compose.install import ensure as install
from compose.install.cache import home
from compose.install.engines import DUCKDB, EXTRAS
from compose.install.installation import Installation
from harness.run.versions import of_engines, versions
from workloads.engines.engines import ENGINES

OF_EVERY_RUN = {"spark": "4.1.4", "iceberg": "1.12.0"}


@pytest.mark.parametrize("engine", sorted(ENGINES))
def test_the_plan_has_the_version_of_each_engine_that_writes(engine: str) -> None:
    found = OF_EVERY_RUN | of_engines([engine], {})
    missing = [key for key in ENGINES[engine].software.values() if key not in found]
    installed = engine != "duckdb" or EXTRAS["duckdb"].in_place(home())
    assert missing == [] if installed else missing == ["duckdb-iceberg"], "its extension tells its own version"
    assert version_of(engine, found)


def test_the_plan_has_the_version_of_delta_if_a_table_is_one(tmp_path: Path) -> None:
    ready = Installation(tmp_path, tmp_path, {}, tmp_path, tmp_path, tmp_path, tmp_path, tmp_path)
    assert "delta" not in versions(ready, frozenset(), formats=["iceberg"])
    found = versions(ready, frozenset(), formats=["iceberg", "delta"])["delta"]
    pinned = (Path(install.__file__).with_name("jars.lock")).read_text(encoding="utf-8")
    assert re.search(rf":delta-spark_[\d._]+:{re.escape(found)} ", pinned)
    assert found == next(iter(delta.DELTA_RELEASES))
    earlier = delta.with_release(ready, "4.3.0")
    assert versions(earlier, frozenset(), formats=["iceberg"])["delta"] == "4.3.0", "it was chosen"


@pytest.mark.parametrize("release", delta.DELTA_RELEASES)
def test_the_jars_of_each_release_of_delta_are_locked(release: str, tmp_path: Path) -> None:
    ready = Installation(tmp_path, tmp_path, {}, tmp_path, tmp_path, tmp_path, tmp_path, tmp_path)
    names = {p.name for p in delta.paths(delta.with_release(ready, release))}
    assert {f"delta-spark_4.1_2.13-{release}.jar", f"delta-storage-{release}.jar"} <= names


def test_versions_are_those_that_are_pinned_and_of_no_engine_that_does_not_write() -> None:
    found = of_engines(["spark", "duckdb", "pyiceberg", "flink"], {})
    assert f"duckdb=={found['duckdb']}" in DUCKDB.read_text(encoding="utf-8")
    assert found["pyiceberg"] == metadata.version("pyiceberg")
    assert re.fullmatch(r"\d+\.\d+\.\d+", found["flink"]) and re.fullmatch(r"\d+\.\d+\.\d+", found["flink-iceberg"])
    assert of_engines(["spark", "stream"], {}) == {}
