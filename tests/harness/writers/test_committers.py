"""Committers on a real catalog: their JVM, Iceberg's JDBC catalog in a SQLite file, tables in a folder.

PyIceberg makes the tables and reads them.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from compose.install import engines, ensure
from compose.install.installation import Installation
from compose.processes.process import base_environment
from harness.writers.committers import CommitterPool
from harness.writers.slot import Writer, WriterDied
from workloads.backoff import Backoff, RetryLimits
from workloads.engines.committer import Committer
from workloads.tables import TableSpec

ANSWER_S = 60.0
NOW = Backoff("none", RetryLimits(num_retries=100))
"""Tries again at once: two committers of one table need few attempts."""
COLUMNS = pa.schema(
    [("id", pa.int64()), ("val", pa.string()), ("cnt", pa.int64()), ("log", pa.string()), ("part", pa.int32())]
)


class Place:
    """A catalog, and committers that reach it."""

    def __init__(self, folder: Path, pool: CommitterPool) -> None:
        self.pool = pool
        self.file = folder / "catalog.sqlite"
        self.warehouse = f"file://{folder}/warehouse"
        self.catalog = SqlCatalog("c", uri=f"sqlite:///{self.file}", warehouse=self.warehouse)
        self.catalog.create_namespace("ns")
        self._writers: list[Writer] = []
        self._counts: dict[Writer, int] = {}

    def table(self, spec: TableSpec, **properties: str) -> TableSpec:
        self.catalog.create_table(
            f"ns.{spec.name}",
            COLUMNS,
            properties={
                "format-version": "2",
                "commit.retry.num-retries": "1000",
                "commit.retry.min-wait-ms": "0",
                **properties,
            },
        )
        return spec

    def committer(self) -> Writer:
        session = {
            "type": "jdbc",
            "uri": f"jdbc:sqlite:{self.file}?busy_timeout=20000",
            "warehouse": self.warehouse,
            "jdbc.schema-version": "V1",
        }
        writer = Writer(f"w{len(self._writers)}", self.pool, self.pool.socket, session=session, shared=True)
        writer.connect(ANSWER_S)
        self._writers.append(writer)
        return writer

    def ask(
        self, writer: Writer, f: str, value: dict[str, Any], table: TableSpec, backoff: Backoff = NOW
    ) -> dict[str, Any]:
        n = self._counts[writer] = self._counts.get(writer, -1) + 1
        op = f"{writer.name}-{n}"
        request = Committer().request(op, f, value, table, ("ns", table.name), backoff, Random(op))
        return writer.call(request, ANSWER_S)

    def rows(self, table: TableSpec) -> list[tuple[Any, ...]]:
        found = self.catalog.load_table(f"ns.{table.name}").scan().to_arrow().to_pylist()
        return sorted(tuple(row[c] for c in COLUMNS.names) for row in found)

    def operations(self, table: TableSpec) -> list[str | None]:
        snapshots = self.catalog.load_table(f"ns.{table.name}").metadata.snapshots
        return [s.summary["icequake-op"] if s.summary else None for s in snapshots]

    def close(self) -> None:
        for writer in self._writers:
            writer.close()
        self.catalog.engine.dispose()


@pytest.fixture(scope="module")
def installation() -> Installation:
    return ensure.ensure(confs=("spark", "sqlite"))


@contextlib.contextmanager
def started(installation: Installation, folder: Path) -> Iterator[CommitterPool]:
    pool = CommitterPool(
        "committers",
        run_id="test",
        java=installation.java,
        jars=[*installation.jars["spark"], *ensure.paths(installation, "sqlite")],
        files=engines.installed("committer"),
        environment=base_environment(),
        folder=folder / "committers",
        log=folder / "committers.log",
    )
    pool.start()
    try:
        yield pool
    finally:
        pool.kill()


@pytest.fixture(scope="module")
def pool(installation: Installation, tmp_path_factory: pytest.TempPathFactory) -> Iterator[CommitterPool]:
    with started(installation, tmp_path_factory.mktemp("pool")) as found:
        yield found


@pytest.fixture
def place(pool: CommitterPool, tmp_path: Path) -> Iterator[Place]:
    found = Place(tmp_path, pool)
    try:
        yield found
    finally:
        found.close()


def together(*work: Callable[[], object]) -> None:
    """Call all at the same time, and wait."""
    threads = [threading.Thread(target=one) for one in work]
    for t in threads:
        t.start()
    for t in threads:
        t.join(ANSWER_S)
        assert not t.is_alive()


PHASES = ("wait_ms", "refresh_ms", "validate_ms", "manifests_ms", "metadata_ms", "swap_ms")


def outcomes(answer: dict[str, Any]) -> list[str]:
    return [attempt["outcome"] for attempt in answer["attempts"]]


@pytest.mark.parametrize("mode", ["merge-on-read", "copy-on-write"])
def test_operations_mean_what_they_mean_in_spark(place: Place, mode: Any) -> None:
    table = place.table(TableSpec(name="t", mode=mode, partitioned=False))
    writer = place.committer()

    def done(f: str, value: dict[str, Any]) -> dict[str, Any]:
        answer = place.ask(writer, f, value, table)
        assert answer["ok"], answer
        return answer

    first = done("insert", {"ids": [1, 2, 3]})
    assert outcomes(first) == ["committed"] and first["attempts"][0]["data_ms"] > 0
    assert all(first["attempts"][0][phase] >= 0 for phase in PHASES)
    assert first["attempts"][0]["writes"] == 3, "a manifest, the manifest list and the metadata file"
    assert first["attempts"][0]["written_bytes"] > 1000
    done("insert", {"ids": [4]})
    done("update-register", {"ids": [2]})
    done("update-counter", {"ids": [1]})
    done("update-append", {"ids": [1]})
    done("delete", {"ids": [3]})
    expected = [
        (1, "w0-0", 1, "w0-0,w0-4", 1),
        (2, "w0-2", 0, "w0-0", 2),
        (4, "w0-1", 0, "w0-1", 0),
    ]
    assert place.rows(table) == expected
    compacted = done("rewrite-data-files", {"strategy": "binpack", "all": True})
    assert compacted["result"][0][1] == 1, "one file is left"
    assert place.rows(table) == expected
    read = done("read", {})
    assert sorted(map(tuple, read["result"])) == expected and not read["attempts"]
    assert [row[0] for row in done("read-key", {"id": 4})["result"]] == [4]
    assert place.operations(table) == [f"w0-{n}" for n in range(7)]


def test_nothing_to_change_is_no_commit(place: Place) -> None:
    table = place.table(TableSpec(name="t", mode="merge-on-read", partitioned=False))
    answer = place.ask(place.committer(), "delete", {"ids": [9]}, table)
    assert answer["ok"] and not answer["attempts"] and not place.operations(table)


@pytest.mark.parametrize("own", [False, True])
def test_a_refused_commit_is_tried_again(place: Place, own: bool) -> None:
    """Two committers append to one table at the same time, until one of them was refused; every row is there once."""
    table = place.table(
        TableSpec(name="t", partitioned=False),
        **({"commit.retry.num-retries": "100", "commit.retry.min-wait-ms": "1"} if own else {}),
    )
    writers = [place.committer(), place.committer()]
    backoff = Backoff() if own else NOW
    answers: list[dict[str, Any]] = []

    def append(writer: Writer, ids: Sequence[int]) -> None:
        for i in ids:
            answers.append(place.ask(writer, "insert", {"ids": [i]}, table, backoff))

    done = 0
    while not any(len(a["attempts"]) > 1 for a in answers) and done < 200:
        together(*(partial(append, w, range(done + 5 * n, done + 5 * n + 5)) for n, w in enumerate(writers)))
        done += 10
    assert all(a["ok"] for a in answers)
    retried = [a for a in answers if len(a["attempts"]) > 1]
    assert retried, "200 appends of two committers never met"
    for answer in retried:
        assert outcomes(answer) == ["refused"] * (len(answer["attempts"]) - 1) + ["committed"]
        assert answer["attempts"][-1]["parent"] == "cold", "somebody else's version is new to it"
        assert answer["attempts"][0]["wait_ms"] == 0
    assert [row[0] for row in place.rows(table)] == [*range(done)]
    assert sorted(map(str, place.operations(table))) == sorted(f"w{w}-{n}" for w in (0, 1) for n in range(done // 2))


def test_an_update_of_a_row_that_another_changed_is_invalid(place: Place) -> None:
    """The second one scans before the first one commits: its commit is refused, and its validation finds the first one's delete file."""
    table = place.table(TableSpec(name="t", mode="merge-on-read", partitioned=False))
    writers = [place.committer(), place.committer()]
    assert place.ask(writers[0], "insert", {"ids": [1]}, table)["ok"]
    answers: list[dict[str, Any]] = []

    def increment(writer: Writer) -> None:
        answers.append(place.ask(writer, "update-counter", {"ids": [1]}, table))

    for _ in range(60):
        together(*(partial(increment, w) for w in writers))
        if any(not a["ok"] for a in answers):
            break
    failed = [a for a in answers if not a["ok"]]
    assert failed, "120 updates of one row by two committers never met"
    assert failed[0]["error"][0][0] == "org.apache.iceberg.exceptions.ValidationException"
    assert outcomes(failed[0])[-1] == "invalid"
    assert place.rows(table)[0][2] == sum(a["ok"] for a in answers), "each acknowledged increment counts once"


def test_retries_end(place: Place) -> None:
    """With no retries a refused append fails, and its row is not there."""
    table = place.table(TableSpec(name="t", partitioned=False), **{"commit.retry.num-retries": "0"})
    writers = [place.committer() for _ in range(4)]
    never = Backoff("none", RetryLimits(num_retries=0))
    answers: list[dict[str, Any]] = []

    def append(writer: Writer, i: int) -> None:
        answers.append(place.ask(writer, "insert", {"ids": [i]}, table, never))

    for n in range(40):
        together(*(partial(append, w, 4 * n + i) for i, w in enumerate(writers)))
        if any(not a["ok"] for a in answers):
            break
    failed = [a for a in answers if not a["ok"]]
    assert failed, "160 appends of four committers never met"
    assert outcomes(failed[0]) == ["refused"]
    assert failed[0]["error"][0][0] == "org.apache.iceberg.exceptions.CommitFailedException"
    assert Committer().outcome("insert", failed[0]["error"]) == "fail"
    assert len(place.rows(table)) == sum(a["ok"] for a in answers)


def test_a_session_that_cannot_be_opened_is_said(place: Place) -> None:
    writer = Writer("w9", place.pool, place.pool.socket, session={"type": "nothing"}, shared=True)
    with pytest.raises(RuntimeError, match="writer w9 got no session"):
        writer.connect(ANSWER_S)
    writer.close()
    assert place.pool.alive()


def test_a_client_that_hangs_up_in_an_operation_ends_the_process(installation: Installation, tmp_path: Path) -> None:
    with started(installation, tmp_path) as pool, contextlib.closing(Place(tmp_path, pool)) as place:
        hang_up(place)


def hang_up(place: Place) -> None:
    table = place.table(TableSpec(name="t", partitioned=False))
    writers = [place.committer(), place.committer()]
    assert place.ask(writers[1], "insert", {"ids": [1]}, table)["ok"]
    died = threading.Event()

    def ask() -> None:
        try:
            waits = Backoff("linear", RetryLimits(num_retries=1000, min_wait_ms=1000))
            while True:
                place.ask(writers[0], "insert", {"ids": [2]}, table, waits)
        except WriterDied:
            died.set()

    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    while not place.operations(table)[1:] and asking.is_alive():
        os.sched_yield()
    writers[0].kill()
    assert died.wait(ANSWER_S)
    with pytest.raises(WriterDied):
        place.ask(writers[1], "insert", {"ids": [3]}, table)
    assert not place.pool.alive()
