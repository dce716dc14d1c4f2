"""PyIceberg as an engine, on a real catalog in SQLite with tables on this disk: what each operation does to the rows, and what it refuses."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import CommitFailedException, ValidationException
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import IntegerType, LongType, NestedField, StringType

from harness.writers.engine_session import chain
from workloads.engines import pyiceberg as engine
from workloads.engines.engine import Access, Client, ErrorChain
from workloads.engines.engines import ENGINES
from workloads.operations.kinds import KINDS
from workloads.tables import Row, State, TableSpec

pytestmark = pytest.mark.filterwarnings(
    "ignore:Delete operation did not match any records",
    "ignore:Merge on read is not yet supported",
)

PYICEBERG = ENGINES["pyiceberg"]
NAME = ("n", "t")
SCHEMA = Schema(
    NestedField(1, "id", LongType()),
    NestedField(2, "val", StringType()),
    NestedField(3, "cnt", LongType()),
    NestedField(4, "log", StringType()),
    NestedField(5, "part", IntegerType()),
)


class Site:
    """A catalog with one table, and clients of it."""

    def __init__(self, folder: Path, spec: TableSpec, **properties: str) -> None:
        self.spec = spec
        self._folder = folder
        self.catalog: Catalog = load_catalog("c", **self._properties())
        self.catalog.create_namespace(NAME[0])
        fields = [PartitionField(5, 1000, IdentityTransform(), "part")] if spec.partitioned else []
        self.catalog.create_table(NAME, SCHEMA, partition_spec=PartitionSpec(*fields), properties=properties)
        self._clients: list[Client] = []

    def _properties(self) -> dict[str, str]:
        return {"type": "sql", "uri": f"sqlite:///{self._folder}/c.db", "warehouse": f"file://{self._folder}/w"}

    def client(self) -> Client:
        assert isinstance(PYICEBERG, engine.PyIceberg)
        spark = {"spark.sql.catalog.c.type": "jdbc"}
        access = Access("jdbc-sqlite", {}, self._properties(), "", "", "", "", "", spark, str(self._folder), {})
        self._clients.append(PYICEBERG.open(access))
        return self._clients[-1]

    def do(self, client: Client, op: str, f: str, **value: Any) -> Any:
        return client.execute(op, f, value, self.spec, NAME)

    def table(self) -> Table:
        return self.catalog.load_table(NAME)

    def rows(self) -> list[Row]:
        return sorted(Row(*r) for r in self.do(self.client(), "r", "read"))

    def close(self) -> None:
        self.catalog.close()
        for c in self._clients:
            c.close()


@pytest.fixture(params=[True, False], ids=["partitioned", "unpartitioned"])
def site(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Site]:
    found = Site(tmp_path, TableSpec(name="t", partitioned=request.param, partitions=2))
    yield found
    found.close()


OPERATIONS: list[tuple[str, dict[str, Any]]] = [
    ("insert", {"ids": [1, 2, 3, 4]}),
    ("insert", {"ids": [5, 6]}),
    ("update-counter", {"ids": [1]}),
    ("update-register", {"ids": [2]}),
    ("update-append", {"ids": [3]}),
    ("update-append", {"ids": [99]}),
    ("update-counter-where", {"part": 0, "parity": 0}),
    ("delete-where", {"part": 1, "parity": 1}),
    ("upsert", {"ids": [2, 7]}),
    ("delete", {"ids": [3]}),
    ("delete", {"ids": [99]}),
    ("overwrite-where", {"part": 0, "ids": [2, 8]}),
    ("overwrite-partitions", {"ids": [5]}),
    ("delete-partition", {"part": 1}),
    ("overwrite-where", {"part": 0, "ids": []}),
]


def test_every_operation_does_what_it_means_and_all_its_snapshots_name_it(site: Site) -> None:
    client, state, before = site.client(), State(), 0
    for n, (f, value) in enumerate(OPERATIONS):
        if not PYICEBERG.can(f, site.spec):
            continue
        op = f"w0-{n}"
        site.do(client, op, f, **value)
        state.apply(*KINDS[f].writeset(state, value, op, site.spec))
        assert site.rows() == state.rows(), (f, value)
        made = site.table().metadata.snapshots[before:]
        print(f, [s.summary.operation for s in made])
        assert {s.summary["icequake-op"] for s in made if s.summary} <= {op}, f
        before += len(made)
