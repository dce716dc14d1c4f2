"""The fixture for other people's tests, used as docs/docker.md shows it."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog

from compose.docker.fixtures import IcebergContainers
from compose.processes.service import ServiceError
from tests.support.runs import environment

pytestmark = pytest.mark.docker

DOCS = Path(__file__).parents[2] / "docs" / "docker.md"


@pytest.fixture(scope="module", autouse=True)
def no_reaper() -> Iterator[None]:
    """The image of testcontainers' reaper cannot be had everywhere; what these tests start they remove."""
    from testcontainers.core.config import testcontainers_config as config

    before, config.ryuk_disabled = config.ryuk_disabled, True
    yield
    config.ryuk_disabled = before


def test_the_example_of_the_documentation(client: Any, images: dict[str, str], tmp_path: Path) -> None:
    (example,) = re.findall(r"```python\n(from compose\.docker\.fixtures .*?)```", DOCS.read_text(), re.DOTALL)
    (tmp_path / "test_lake.py").write_text(example)
    before = {one.id for one in client.containers.list(all=True, ignore_removed=True)}
    given = environment(TESTCONTAINERS_RYUK_DISABLED="true", PYTHONPATH=str(DOCS.parents[1]))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_lake.py"]
    done = subprocess.run(command, cwd=tmp_path, env=given, capture_output=True, text=True, timeout=400)
    assert done.returncode == 0 and "1 passed" in done.stdout, done.stdout + done.stderr
    assert {one.id for one in client.containers.list(all=True, ignore_removed=True)} <= before


@pytest.mark.parametrize("catalog", ["jdbc", "hive"])
def test_another_catalog_takes_a_table_and_gives_it_back(images: dict[str, str], catalog: str) -> None:
    with IcebergContainers(catalog) as lake:
        loaded = load_catalog("lake", **lake.pyiceberg())
        loaded.create_namespace("db")
        rows = pa.table({"id": pa.array([1, 2, 3], pa.int64())})
        loaded.create_table("db.t", rows.schema).append(rows)
        assert loaded.load_table("db.t").scan().to_arrow().num_rows == 3
        assert lake.spark()["spark.sql.catalog.lake.type"] == catalog


def test_a_service_that_ends_is_said_and_everything_is_removed(client: Any, images: dict[str, str]) -> None:
    names = {one.name for one in client.networks.list()}
    with pytest.raises(ServiceError, match=r"rest: exited with code \d+"):
        IcebergContainers(variables={**_named(images), "ICEQUAKE_REST_IMAGE": images["minio"]}).start()
    assert {one.name for one in client.networks.list()} == names


def _named(images: dict[str, str]) -> dict[str, str]:
    return {f"ICEQUAKE_{name.upper()}_IMAGE": image for name, image in images.items()}


def test_a_catalog_without_containers_is_refused() -> None:
    with pytest.raises(ValueError, match="no containers for the catalog 'glue'; there are some for rest, jdbc, hive"):
        IcebergContainers("glue")
