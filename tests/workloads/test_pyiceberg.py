"""PyIceberg as an engine, on a real catalog in SQLite with tables on this disk: what each operation does to the rows, and what it refuses."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table, Transaction
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

    def stage(self, op: str, f: str, **value: Any) -> Transaction:
        """An operation up to its commit."""
        loaded = self.table()
        change = loaded.transaction()
        engine._stage(loaded, change, op, f, value, self.spec)
        return change

    def _properties(self) -> dict[str, str]:
        return {"type": "sql", "uri": f"sqlite:///{self._folder}/c.db", "warehouse": f"file://{self._folder}/w"}

    def client(self, **catalog_properties: str) -> Client:
        assert isinstance(PYICEBERG, engine.PyIceberg)
        spark = {"spark.sql.catalog.c.type": "jdbc"}
        access = Access(
            "jdbc-sqlite", catalog_properties, self._properties(), "", "", "", "", "", spark, str(self._folder), {}
        )
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
        assert {s.summary["icequake-op"] for s in made if s.summary} <= {op}, f
        before += len(made)


def test_catalog_properties_that_begin_with_its_name_are_properties_of_its_catalog(site: Site) -> None:
    client = site.client(**{"pyiceberg.py-io-impl": "no.such.FileIO", "py-io-impl": "of.others"})
    with pytest.raises(ValueError, match=r"no\.such\.FileIO"):
        site.do(client, "w", "insert", ids=[1])


def test_time_travel_goes_back_in_the_history_that_the_table_tells(site: Site) -> None:
    client = site.client()
    for n in range(3):
        site.do(client, f"w0-{n}", "insert", ids=[n])
    found = [site.do(client, "r", "read-snapshot", back=back) for back in (0, 1, 9)]
    assert [[r[0] for r in sorted(x["rows"])] for x in found] == [[0, 1, 2], [0, 1], [0]]
    assert [x["snapshot"] for x in found] == [site.table().metadata.snapshots[n].snapshot_id for n in (2, 1, 0)]
    assert site.do(client, "r", "read-key", id=1) == [[1, "w0-1", 0, "w0-1", 1]]


Level = Literal["serializable", "snapshot"]
RACES: list[tuple[str, dict[str, Any], str, dict[str, Any], bool, bool]] = [
    # first, committed last      | second, committed before it        | refused: serializable, snapshot
    ("insert", {"ids": [1]}, "delete", {"ids": [2]}, False, False),
    ("delete", {"ids": [1]}, "insert", {"ids": [1]}, True, False),
    ("delete-partition", {"part": 1}, "insert", {"ids": [7]}, True, False),
    ("delete", {"ids": [1]}, "delete", {"ids": [3]}, True, True),
    ("delete", {"ids": [1]}, "delete", {"ids": [2]}, False, False),
    ("update-counter", {"ids": [1]}, "update-counter", {"ids": [1]}, True, True),
    ("update-counter", {"ids": [1]}, "update-counter", {"ids": [2]}, False, False),
    ("update-counter", {"ids": [1]}, "insert", {"ids": [1]}, True, False),
    ("overwrite-where", {"part": 1, "ids": [1]}, "insert", {"ids": [7]}, True, False),
    ("overwrite-partitions", {"ids": [1]}, "insert", {"ids": [7]}, True, False),
    ("upsert", {"ids": [1]}, "upsert", {"ids": [1]}, True, True),
    ("upsert", {"ids": [7]}, "upsert", {"ids": [7]}, False, False),  # both are there then: a blind append
]


@pytest.mark.slow
@pytest.mark.parametrize("level", ["serializable", "snapshot"])
def test_it_refuses_what_its_promise_forbids(level: Level, tmp_path: Path) -> None:
    levels = {f"write.{c}.isolation-level": level for c in ("delete", "update")}
    for n, (f, value, rival, other, serializable, snapshot) in enumerate(RACES):
        (tmp_path / str(n)).mkdir()
        spec = TableSpec(name="t", isolation=level, partitions=2)
        site = Site(tmp_path / str(n), spec, **levels, **{"commit.retry.min-wait-ms": "1"})
        assert PYICEBERG.promise(f, spec).level == ("serializable" if f == "insert" else level)
        client = site.client()
        site.do(client, "seed", "insert", ids=[1, 2, 3, 4])
        change = site.stage("a", f, **value)
        site.do(client, "b", rival, **other)
        refused: str | None = None
        try:
            change.commit_transaction()
        except Exception as e:
            refused = PYICEBERG.conflict(chain(e))
            assert PYICEBERG.outcome(f, chain(e)) == "fail", f
        expected = serializable if level == "serializable" else snapshot
        assert refused == ("ValidationException" if expected else None), (f, value, rival, other)
        state = State()
        state.apply(*KINDS["insert"].writeset(state, {"ids": [1, 2, 3, 4]}, "seed", spec))
        before = state.copy()
        state.apply(*KINDS[rival].writeset(state, other, "b", spec))
        if not expected:
            state.apply(*KINDS[f].writeset(before, value, "a", spec))
        assert site.rows() == state.rows(), (f, value, rival, other)
        site.close()


def test_an_upsert_of_a_key_that_two_files_have_writes_its_row_twice(tmp_path: Path) -> None:
    """The defect of ``pyiceberg-upsert-duplicates``; within one file PyIceberg refuses it."""
    site = Site(tmp_path, TableSpec(name="t", partitioned=False))
    client = site.client()
    site.do(client, "a", "insert", ids=[1, 1, 2])
    with pytest.raises(ValueError) as refused:
        site.do(client, "b", "upsert", ids=[1])
    assert PYICEBERG.outcome("upsert", chain(refused.value)) == "fail"
    site.do(client, "c", "insert", ids=[2])
    site.do(client, "d", "upsert", ids=[2])
    assert [(r.id, r.val) for r in site.rows()] == [(1, "a"), (1, "a"), (2, "d"), (2, "d")]
    site.close()


@pytest.mark.parametrize(
    ("f", "value", "retries", "error"),
    [
        ("insert", {"ids": [9]}, "4", None),
        ("insert", {"ids": [9]}, "0", "CommitFailedException"),
        ("overwrite-where", {"part": 1, "ids": [1]}, "4", None),
        ("delete", {"ids": [1]}, "4", "ValidationException"),
        ("update-counter", {"ids": [1]}, "4", "ValidationException"),
    ],
)
def test_a_commit_that_is_sent_twice(
    f: str, value: dict[str, Any], retries: str, error: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The defects of ``pyiceberg-last-attempt`` and ``pyiceberg-duplicate-delete``: it deletes manifests that the table needs."""
    properties = {"commit.retry.min-wait-ms": "1", "commit.retry.num-retries": retries}
    site = Site(tmp_path, TableSpec(name="t", partitions=2), **properties)
    client = site.client()
    site.do(client, "seed", "insert", ids=[1, 2, 3, 4])
    assert isinstance(client, engine._Client)
    commit, sent = client._catalog.commit_table, [0]

    def twice(*request: Any) -> Any:
        sent[0] += 1
        answer = commit(*request)
        return commit(*request) if sent[0] == 1 else answer

    monkeypatch.setattr(client._catalog, "commit_table", twice)
    if error is None:
        site.do(client, "a", f, **value)
        assert {s.summary["icequake-op"] for s in site.table().metadata.snapshots if s.summary} == {"seed", "a"}
        assert site.rows()
    else:
        with pytest.raises(Exception) as told:
            site.do(client, "a", f, **value)
        assert PYICEBERG.conflict(chain(told.value)) == error
        with pytest.raises(FileNotFoundError):
            site.rows()
    site.close()


EXCEPTIONS = "pyiceberg.exceptions."
ERRORS: list[tuple[ErrorChain, str]] = [
    ([[EXCEPTIONS + "CommitFailedException", "409"]], "fail"),
    ([[EXCEPTIONS + "BadRequestError", "400"], ["requests.exceptions.HTTPError", ""]], "fail"),
    ([[EXCEPTIONS + "CommitStateUnknownException", "502"], ["requests.exceptions.HTTPError", ""]], "info"),
    ([[EXCEPTIONS + "CommitStateUnknownException", "502"], [EXCEPTIONS + "CommitFailedException", "409"]], "info"),
    ([[EXCEPTIONS + "ValidationException", ""], [EXCEPTIONS + "CommitFailedException", "409"]], "fail"),
    # The table could not be loaded again after a 409, which the catalog may have answered to a commit that it had received twice.
    (
        [
            ["requests.exceptions.ConnectionError", "Failed to establish a new connection: refused"],
            [EXCEPTIONS + "CommitFailedException", "409"],
        ],
        "info",
    ),
    ([[EXCEPTIONS + "UnauthorizedError", "401"], [EXCEPTIONS + "CommitFailedException", "409"]], "info"),
    ([[EXCEPTIONS + "ServiceUnavailableError", "503"]], "info"),
    ([[EXCEPTIONS + "TooManyRequestsError", "429"]], "info"),
    ([["requests.exceptions.ConnectionError", "('Connection aborted.', RemoteDisconnected())"]], "info"),
    ([["requests.exceptions.ConnectionError", "Failed to establish a new connection: refused"]], "fail"),
    ([["sqlalchemy.exc.OperationalError", "server closed the connection unexpectedly"]], "info"),
    ([["sqlalchemy.exc.OperationalError", 'connection to server at "127.0.0.1", port 1 failed: refused']], "fail"),
    ([["thrift.transport.TTransport.TTransportException", "read 0 bytes"]], "info"),
    ([["builtins.OSError", "no such bucket"], ["workloads.engines.pyiceberg.Unstaged", ""]], "fail"),
    ([["builtins.OSError", "no such bucket"]], "info"),
]


@pytest.mark.parametrize(("error", "outcome"), ERRORS)
def test_an_error_is_definite_only_if_the_commit_cannot_have_happened(error: ErrorChain, outcome: str) -> None:
    assert PYICEBERG.outcome("insert", error) == outcome
    assert PYICEBERG.outcome("read", error) == "fail"


def test_what_fails_before_the_commit_is_a_failure(site: Site) -> None:
    client = site.client()
    site.catalog.drop_table(NAME)
    with pytest.raises(Exception) as told:
        site.do(client, "a", "insert", ids=[1])
    found = chain(told.value)
    assert found[0][0] == "pyiceberg.exceptions.NoSuchTableError" and found[-1][0].endswith(".Unstaged")


def test_it_writes_no_version_3_and_overwrites_no_partitions_where_there_are_none() -> None:
    flat, new = TableSpec(name="t", partitioned=False), TableSpec(name="t", format_version=3)
    assert {k for k in KINDS if PYICEBERG.can(k, new)} == {"read", "read-key", "read-snapshot"}
    assert {k for k in KINDS if PYICEBERG.can(k, TableSpec(name="t")) and not PYICEBERG.can(k, flat)} == {
        "overwrite-partitions"
    }


def test_spark_is_never_asked_for_an_upsert() -> None:
    assert not ENGINES["spark"].can("upsert", TableSpec(name="t"))


@pytest.mark.parametrize(
    ("of_catalog", "of_table", "refused"), [("0", None, False), (None, "0", True), ("5", "0", True)]
)
def test_retries_are_configured_by_the_table_and_not_by_the_catalog(
    of_catalog: str | None, of_table: str | None, refused: bool, tmp_path: Path
) -> None:
    key = "commit.retry.num-retries"
    more = {} if of_catalog is None else {key: of_catalog}
    where = {"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": f"file://{tmp_path}"}
    catalog = load_catalog("retries", **where, **more)
    catalog.create_namespace("n")
    schema = Schema(NestedField(1, "id", IntegerType(), required=False))
    catalog.create_table("n.t", schema, properties={} if of_table is None else {key: of_table})
    first, second = catalog.load_table("n.t"), catalog.load_table("n.t")
    row = pa.table({"id": pa.array([1], pa.int32())})
    first.append(row)
    if refused:
        with pytest.raises(CommitFailedException):
            second.append(row)
    else:
        second.append(row)
    assert len(catalog.load_table("n.t").scan().to_arrow()) == 2 - refused
    catalog.close()
