"""The table log agrees with Spark: for every snapshot, the rows accumulated from the log are the rows that Spark reads.

Every kind of operation is run on a real table. After each, Spark reads the new snapshots by time travel; at the end
the log's ``added`` and ``removed`` are applied along each snapshot's parent chain, and must give those rows, as
multisets. The log is read while the table lives, before its files are expired, as in a run.
"""

from __future__ import annotations

import io
import itertools
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import fs

from checkers.evidence import tablelog_file
from checkers.evidence.tablelog import Commit, FileEntry, TableLog
from compose.endpoints import Endpoints
from compose.stack.pointers import table_pointer
from compose.stack.stack import Stack
from harness.tablefiles.iceberg.reader import ObjectStore, TableReader
from workloads.tables import COLUMNS, SQL_COLUMNS

pytestmark = [
    pytest.mark.spark,
    # PySpark leaves the sockets that it collects rows through to the garbage collector.
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

NAMESPACE = "tablelog"
Rows = Counter[tuple[Any, ...]]


class Subject:
    """A table under test, what Spark says about each of its snapshots, and the reader that must say the same."""

    def __init__(
        self, spark: Any, endpoints: Endpoints, name: str, folder: Path, *, columns: Sequence[str], ddl: str
    ) -> None:
        self.spark = spark
        self.name = name
        self.full = f"c.{NAMESPACE}.{name}"
        self._endpoints = endpoints
        self.columns = tuple(columns)
        self.path = folder / f"{name}.jsonl"
        store = ObjectStore(
            endpoint=endpoints.s3,
            access_key=endpoints.access_key,
            secret_key=endpoints.secret_key,
            region=endpoints.region,
        )
        self.reader = TableReader(store, table=name, identifier=self.full, columns=columns, path=self.path)
        self.seen: dict[int, Rows] = {}
        self.ops: dict[int, str] = {}
        self._number = itertools.count(1)
        spark.sql(f"CREATE NAMESPACE IF NOT EXISTS c.{NAMESPACE}")
        spark.sql(f"DROP TABLE IF EXISTS {self.full}")
        self.sql(f"CREATE TABLE {{t}} {ddl}")

    @property
    def java(self) -> Any:
        """Iceberg's ``Table``, loaded afresh."""
        return self.spark._jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(
            self.spark._jsparkSession, self.full
        )

    def as_op(self, act: Callable[[], Any]) -> list[int]:
        """Do something as one operation; returns the ids of the snapshots that came of it. Spark reads them at once."""
        op = f"{self.name}-{next(self._number)}"
        context = self.spark._jvm.org.apache.iceberg.EnvironmentContext
        context.put("icequake-op", op)
        try:
            act()
        finally:
            context.remove("icequake-op")
        listed = self.java.snapshots().iterator()
        new = []
        while listed.hasNext():
            if (id := listed.next().snapshotId()) not in self.seen:
                new.append(id)
        for id in new:
            self.ops[id] = op
            frame = self.spark.sql(f"SELECT * FROM {self.full} VERSION AS OF {id}")
            at = [frame.columns.index(c) if c in frame.columns else None for c in self.columns]
            self.seen[id] = Counter(tuple(None if i is None else r[i] for i in at) for r in frame.collect())
        return new

    def sql(self, text: str) -> list[int]:
        """Run a statement as one operation; ``{t}`` is the table, ``{n}`` its name for procedures."""
        return self.as_op(
            lambda: self.spark.sql(text.format(t=self.full, n=f"{NAMESPACE}.{self.name}", ns=NAMESPACE)).collect()
        )

    def current(self) -> int:
        """The current snapshot's id."""
        return int(self.java.currentSnapshot().snapshotId())

    def capture(self) -> None:
        self.reader.capture(table_pointer(self._endpoints, NAMESPACE, self.name), time.monotonic_ns())

    def write_parquet(self, name: str, columns: dict[str, tuple[int, pa.DataType, list[Any]]]) -> tuple[str, int, int]:
        """Put a Parquet file (column name → field id, type, values) into the table; returns location, size and rows."""
        schema = pa.schema(
            [pa.field(n, t, metadata={b"PARQUET:field_id": str(id).encode()}) for n, (id, t, _) in columns.items()]
        )
        table = pa.table({n: pa.array(v, t) for n, (_, t, v) in columns.items()}).cast(schema)
        sink = io.BytesIO()
        pq.write_table(table, sink)
        location = f"{self.java.location()}/data/{name}"
        host = self._endpoints.s3.split("://")[1]
        s3 = fs.S3FileSystem(
            access_key=self._endpoints.access_key,
            secret_key=self._endpoints.secret_key,
            endpoint_override=host,
            scheme="http",
            region=self._endpoints.region,
            background_writes=False,
        )
        with s3.open_output_stream(location.removeprefix("s3://")) as out:
            out.write(sink.getvalue())
        return location, len(sink.getvalue()), table.num_rows

    def delete_file(
        self, kind: str, location: str, size: int, rows: int, *, ids: Sequence[int] = (), partition: str = ""
    ) -> Any:
        """Iceberg's ``DeleteFile`` for a file written by :meth:`write_parquet`."""
        table = self.java
        builder = self.spark._jvm.org.apache.iceberg.FileMetadata.deleteFileBuilder(table.spec())
        if kind == "equality":
            array = self.spark._sc._gateway.new_array(self.spark._jvm.int, len(ids))
            for i, id in enumerate(ids):
                array[i] = id
            builder = builder.ofEqualityDeletes(array)
        else:
            builder = builder.ofPositionDeletes()
        builder = builder.withPath(location).withFormat("parquet").withFileSizeInBytes(size).withRecordCount(rows)
        return (builder.withPartitionPath(partition) if partition else builder).build()

    def check(self) -> TableLog:
        """Finish the log and compare all that it says with what Spark said."""
        log = self.reader.finish(table_pointer(self._endpoints, NAMESPACE, self.name), time.monotonic_ns())
        assert tablelog_file.read(self.path) == log, "the file says what the memory says"
        assert log.complete and not log.problems and not log.missing_files
        assert [m.problems for m in log.metadata if m.problems] == []
        known = log.by_snapshot()
        assert set(known) == set(self.seen), "every snapshot is in the log, and no other"
        states: dict[int | None, Rows] = {None: Counter()}
        files: dict[int | None, dict[tuple[str, int | None], FileEntry]] = {None: {}}
        for c in log.commits:
            about = f"{self.name}: snapshot {c.sequence_number} by {c.op} ({c.operation})"
            assert (c.problems, c.violations) == ((), ()), about
            assert c.added is not None and c.removed is not None, about
            assert c.op == self.ops[c.snapshot_id], about
            assert c.attempt is not None, about
            state = states[c.parent_id].copy()
            removed, added = Counter(r.row for r in c.removed), Counter(r.row for r in c.added)
            assert removed <= state and not removed & added, about
            state = state - removed + added
            states[c.snapshot_id] = state
            assert state == self.seen[c.snapshot_id], about
            live = dict(files[c.parent_id])
            for f in c.removed_files:
                del live[f.path, f.offset]
            live |= {(f.path, f.offset): f for f in c.added_files}
            files[c.snapshot_id] = live
            if c.operation == "replace":
                assert (c.added, c.removed) == ((), ()), about
        self._check_files(files[log.metadata[-1].current], known)
        return log

    def _check_files(self, live: dict[tuple[str, int | None], FileEntry], known: dict[int, Commit]) -> None:
        """The live files of the current snapshot, as Spark's ``entries`` table has them."""
        entries = self.spark.sql(f"SELECT * FROM {self.full}.entries WHERE status < 2").collect()
        assert len(entries) == len(live)
        root = self.java.location().rstrip("/") + "/"
        for e in entries:
            f = e.data_file.asDict()
            mine = live[f["file_path"].removeprefix(root), f.get("content_offset")]
            assert mine.data_sequence_number == e.sequence_number
            assert mine.file_sequence_number == e.file_sequence_number
            assert mine.snapshot_id == e.snapshot_id
            assert (mine.records, mine.size) == (f["record_count"], f["file_size_in_bytes"])
            assert ("data", "position-deletes", "equality-deletes")[f["content"]] == (
                "position-deletes" if mine.content == "deletion-vector" else mine.content
            )
            if f.get("partition") is not None:
                theirs = f["partition"].asDict()
                assert {k: v for k, v in theirs.items() if v is not None} == mine.partition
            if f.get("referenced_data_file") is not None:
                assert f["referenced_data_file"].removeprefix(root) == mine.referenced
            if "first_row_id" in f and known[e.snapshot_id].first_row_id is not None:  # not from before version 3
                assert mine.first_row_id == f["first_row_id"]


@pytest.fixture
def subject(spark: Any, stack: Stack, tmp_path: Path) -> Iterator[Callable[..., Subject]]:
    """Makes tables, and drops them at the end."""
    made: list[Subject] = []

    def make(name: str, *, ddl: str, columns: Sequence[str] = COLUMNS) -> Subject:
        made.append(Subject(spark, stack.endpoints, name, tmp_path, columns=columns, ddl=ddl))
        return made[-1]

    yield make
    for s in made:
        spark.sql(f"DROP TABLE IF EXISTS {s.full} PURGE")


def ddl(version: int, mode: str, partitioned: bool, **properties: str) -> str:
    modes = {f"write.{k}.mode": mode for k in ("delete", "update", "merge")}
    said = {"format-version": str(version), **modes, **{k.replace("_", "."): v for k, v in properties.items()}}
    return (
        f"({SQL_COLUMNS}) USING iceberg {'PARTITIONED BY (part)' if partitioned else ''} "
        f"TBLPROPERTIES ({', '.join(f'{k!r} = {v!r}' for k, v in said.items())})"
    )


def values(ids: Sequence[int], val: str = "v") -> str:
    return ", ".join(f"({i}, '{val}{i}', {i * 10}, '', {i % 3})" for i in ids)


@pytest.mark.parametrize(
    ("version", "mode", "partitioned"),
    [
        (2, "copy-on-write", True),  # has no delete files, which differ by version and partitions
        (3, "copy-on-write", False),
        (2, "merge-on-read", True),
        (2, "merge-on-read", False),
        (3, "merge-on-read", True),
        (3, "merge-on-read", False),
    ],
)
def test_every_operation(subject: Callable[..., Subject], version: int, mode: str, partitioned: bool) -> None:
    t = subject(
        f"all_v{version}_{mode.replace('-', '_')}_{'p' if partitioned else 'u'}", ddl=ddl(version, mode, partitioned)
    )
    t.capture()
    t.sql(f"INSERT INTO {{t}} VALUES {values(range(12))}")
    t.sql(f"INSERT INTO {{t}} VALUES {values([3, 3, 4])}")  # keys, and a whole row, several times
    t.sql("INSERT INTO {t} SELECT id + 100, val, cnt, log, part FROM {t} WHERE id < 4")
    t.sql("INSERT INTO {t} VALUES (50, NULL, NULL, NULL, 1)")
    t.sql("UPDATE {t} SET val = 'u' WHERE id = 3")
    t.capture()
    t.sql("UPDATE {t} SET cnt = cnt + 1, log = concat(log, ',u') WHERE cnt >= 60")
    t.sql("UPDATE {t} SET val = val WHERE id = 4")  # rewrites rows to themselves
    t.sql("UPDATE {t} SET val = 'nobody' WHERE id = 999")
    t.sql("DELETE FROM {t} WHERE id = 5")
    t.sql("DELETE FROM {t} WHERE cnt < 20 AND id > 90")
    t.sql("DELETE FROM {t} WHERE val IS NULL")
    t.sql(f"INSERT INTO {{t}} VALUES {values([5, 50])}")  # back again
    merge = "MERGE INTO {{t}} t USING (SELECT col1 id, col2 val FROM VALUES {rows}) s ON t.id = s.id {clauses}"
    insert = "WHEN NOT MATCHED THEN INSERT (id, val, cnt, log, part) VALUES (s.id, s.val, 0, '', s.id % 3)"
    t.sql(merge.format(rows="(6, 'm'), (60, 'm')", clauses=f"WHEN MATCHED THEN UPDATE SET val = s.val {insert}"))
    t.sql(merge.format(rows="(7, 'm'), (70, 'm')", clauses=insert))
    t.sql(merge.format(rows="(7, 'n'), (71, 'n')", clauses="WHEN MATCHED THEN UPDATE SET val = s.val"))
    t.sql(merge.format(rows="(8, 'd')", clauses="WHEN MATCHED THEN DELETE"))
    t.capture()
    t.sql("CALL c.system.rewrite_data_files(table => '{n}', options => map('rewrite-all', 'true'))")
    t.sql("UPDATE {t} SET val = 'after' WHERE id IN (0, 3, 60)")
    t.sql("DELETE FROM {t} WHERE id = 9")
    t.sql("CALL c.system.rewrite_position_delete_files(table => '{n}', options => map('rewrite-all', 'true'))")
    t.sql("CALL c.system.rewrite_manifests('{n}')")
    before = t.current()
    t.sql("DELETE FROM {t} WHERE part = 0")
    t.sql(f"CALL c.system.rollback_to_snapshot('{{n}}', {before})")
    t.sql(f"INSERT INTO {{t}} VALUES {values([80, 81])}")  # the second child of an older parent
    t.sql(
        "CALL c.system.rewrite_data_files(table => '{n}', strategy => 'sort', sort_order => 'id DESC', "
        "options => map('rewrite-all', 'true'))"
    )
    t.sql("DELETE FROM {t} WHERE part = 1")
    t.capture()
    t.sql("CALL c.system.expire_snapshots(table => '{n}', older_than => TIMESTAMP '2999-01-01', retain_last => 2)")
    t.sql(f"INSERT OVERWRITE {{t}} VALUES {values([2, 5, 8], 'o')}")
    t.sql("UPDATE {t} SET val = 'x' WHERE id = 2")
    t.sql("DELETE FROM {t}")
    t.sql(f"INSERT INTO {{t}} VALUES {values([1, 2])}")
    t.sql("DELETE FROM {t} WHERE id = 1")
    log = t.check()
    assert len(log.commits) > 25
    assert [c.sequence_number for c in log.commits] == sorted(c.sequence_number for c in log.commits)
    assert all(c.attempt == 1 for c in log.commits)


@pytest.mark.parametrize("granularity", ["file", "partition"])
def test_old_position_deletes_survive_the_upgrade_to_version_3(
    subject: Callable[..., Subject], granularity: str
) -> None:
    t = subject(f"upgrade_{granularity}", ddl=ddl(2, "merge-on-read", True, write_delete_granularity=granularity))
    for low in (0, 30, 60):  # several data files a partition
        t.sql(f"INSERT INTO {{t}} VALUES {values(range(low, low + 9))}")
    t.sql("DELETE FROM {t} WHERE id IN (0, 30, 60, 1, 31)")  # one position delete file for several data files
    t.sql("UPDATE {t} SET val = 'u' WHERE id IN (3, 33)")
    t.capture()
    t.sql("ALTER TABLE {t} SET TBLPROPERTIES ('format-version' = '3')")
    t.sql(f"INSERT INTO {{t}} VALUES {values([90, 91])}")
    t.sql("DELETE FROM {t} WHERE id IN (4, 34)")  # a vector takes over the old deletes of its data file
    t.sql("UPDATE {t} SET val = 'w' WHERE id IN (6, 90)")
    t.sql("DELETE FROM {t} WHERE id = 64")
    t.sql("CALL c.system.rewrite_position_delete_files(table => '{n}', options => map('rewrite-all', 'true'))")
    t.sql("CALL c.system.rewrite_manifests('{n}')")
    t.sql("DELETE FROM {t} WHERE id = 35")
    log = t.check()
    kinds = {f.content for c in log.commits for f in c.added_files}
    assert kinds == {"data", "position-deletes", "deletion-vector"}
    assert {m.format_version for m in log.metadata} == {2, 3}


@pytest.mark.parametrize("version", [2, 3])
def test_equality_deletes_and_foreign_position_deletes(subject: Callable[..., Subject], version: int) -> None:
    t = subject(f"equality_v{version}", ddl=ddl(version, "merge-on-read", True))
    t.sql(f"INSERT INTO {{t}} VALUES {values(range(9))}, (20, NULL, 1, '', 0), (21, NULL, 1, '', 1)")
    t.sql(f"INSERT INTO {{t}} VALUES {values([3, 30])}")

    def equality(name: str, partition: str, **columns: tuple[int, pa.DataType, list[Any]]) -> list[int]:
        file = t.write_parquet(f"{name}.parquet", columns)
        ids = [id for id, _, _ in columns.values()]
        delete = t.delete_file("equality", *file, ids=ids, partition=partition)
        return t.as_op(lambda: t.java.newRowDelta().addDeletes(delete).commit())

    equality("one", "part=0", id=(1, pa.int64(), [3, 4, 999]))  # 4 is in another partition: it stays
    equality("null", "part=1", val=(2, pa.string(), [None]))  # null equals null; 20 is in another partition
    t.sql(f"INSERT INTO {{t}} VALUES {values([3])}")  # younger than the delete: it stays
    equality("two", "part=2", id=(1, pa.int64(), [2, 5]), val=(2, pa.string(), ["v2", "other"]))
    t.sql("UPDATE {t} SET val = 'u' WHERE part = 0")
    t.sql("DELETE FROM {t} WHERE id = 8")
    if version == 2:
        # One position delete file that names two data files, and a position twice.
        paths = [r[0] for r in t.spark.sql(f"SELECT DISTINCT _file FROM {t.full} WHERE part = 1").collect()]
        assert paths
        named = sorted(paths * 2)
        columns = {
            "file_path": (2147483546, pa.string(), named),
            "pos": (2147483545, pa.int64(), [0] * len(named)),
        }
        delete = t.delete_file("position", *t.write_parquet("positions.parquet", columns), partition="part=1")
        t.as_op(lambda: t.java.newRowDelta().addDeletes(delete).commit())
    t.sql("CALL c.system.rewrite_data_files(table => '{n}', options => map('rewrite-all', 'true'))")
    t.sql("DELETE FROM {t} WHERE id = 7")
    log = t.check()
    assert any(f.content == "equality-deletes" for c in log.commits for f in c.added_files)
    nulls = [c for c in log.commits if c.removed and {r.row[0] for r in c.removed} == {21}]
    assert len(nulls) == 1


def test_an_unpartitioned_equality_delete_is_global(subject: Callable[..., Subject]) -> None:
    t = subject("equality_global", ddl=ddl(2, "merge-on-read", False))
    t.sql(f"INSERT INTO {{t}} VALUES {values(range(9))}")
    file = t.write_parquet("global.parquet", {"id": (1, pa.int64(), [3, 4, 10])})
    global_delete = t.delete_file("equality", *file, ids=[1])
    t.sql("ALTER TABLE {t} ADD PARTITION FIELD part")
    t.sql(f"INSERT INTO {{t}} VALUES {values([3, 10])}")
    t.as_op(lambda: t.java.newRowDelta().addDeletes(global_delete).commit())
    t.sql("DELETE FROM {t} WHERE id IN (5, 6)")
    t.sql("ALTER TABLE {t} REPLACE PARTITION FIELD part WITH bucket(2, id)")
    t.sql(f"INSERT INTO {{t}} VALUES {values([11, 12, 3])}")
    t.sql("DELETE FROM {t} WHERE id IN (11, 7)")
    t.sql("CALL c.system.rewrite_data_files(table => '{n}', options => map('rewrite-all', 'true'))")
    t.check()


@pytest.mark.parametrize("version", [2, 3])
def test_columns_are_field_ids(subject: Callable[..., Subject], version: int) -> None:
    t = subject(
        f"columns_v{version}",
        columns=["id", "val", "small", "extra", "renamed", "deflt"],
        ddl="(id BIGINT, val STRING, small INT, old STRING) USING iceberg "
        f"TBLPROPERTIES ('format-version' = '{version}', 'write.delete.mode' = 'merge-on-read')",
    )
    t.sql("INSERT INTO {t} VALUES (1, 'a', 1, 'o1'), (2, 'b', 2, 'o2')")
    t.sql("ALTER TABLE {t} ADD COLUMN extra STRING")
    t.sql("INSERT INTO {t} VALUES (3, 'c', 3, 'o3', 'e3')")
    t.sql("ALTER TABLE {t} ALTER COLUMN small TYPE BIGINT")
    t.sql("INSERT INTO {t} VALUES (4, 'd', 5000000000, 'o4', 'e4')")
    t.sql("ALTER TABLE {t} RENAME COLUMN old TO renamed")
    t.sql("DELETE FROM {t} WHERE id = 1")  # every row changes for a reader: 'renamed' appears
    t.sql("ALTER TABLE {t} DROP COLUMN extra")
    t.sql("ALTER TABLE {t} ADD COLUMN extra STRING")  # the same name, another field: the old values stay away
    t.sql("INSERT INTO {t} VALUES (5, 'f', 5, 'o5', 'e5')")
    if version == 3:
        jvm = t.spark._jvm
        literal = jvm.org.apache.iceberg.expressions.Literal.of("dft")
        string = jvm.org.apache.iceberg.types.Types.StringType.get()
        t.java.updateSchema().addColumn("deflt", string, literal).commit()
        t.sql("INSERT INTO {t} VALUES (6, 'g', 6, 'o6', 'e6', 'given')")
        t.sql("DELETE FROM {t} WHERE id = 2")
    t.sql("ALTER TABLE {t} ALTER COLUMN val FIRST")
    t.sql("CALL c.system.rewrite_data_files(table => '{n}', options => map('rewrite-all', 'true'))")
    t.sql("DELETE FROM {t} WHERE id = 3")
    t.check()


@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
def test_merged_manifests_branches_and_replaced_tables(subject: Callable[..., Subject], mode: str) -> None:
    t = subject(
        f"branches_{mode.replace('-', '_')}",
        ddl=ddl(
            3, mode, True, **{"commit_manifest_min-count-to-merge": "2", "write_metadata_previous-versions-max": "2"}
        ),
    )
    for low in range(0, 24, 6):  # manifests are merged: EXISTING entries, explicit sequence numbers, inherited row ids
        t.sql(f"INSERT INTO {{t}} VALUES {values(range(low, low + 6))}")
    t.sql("DELETE FROM {t} WHERE id IN (1, 8)")
    t.sql("ALTER TABLE {t} CREATE BRANCH b")
    t.sql("UPDATE {t} SET val = 'main' WHERE id = 2")
    t.as_op(lambda: t.spark.sql(f"INSERT INTO {t.full}.branch_b VALUES {values([40, 41])}"))
    t.as_op(lambda: t.spark.sql(f"UPDATE {t.full}.branch_b SET val = 'b' WHERE id IN (2, 40)"))
    t.sql("DELETE FROM {t} WHERE part = 2")
    t.capture()
    last_of_b = t.spark.sql(f"SELECT snapshot_id FROM {t.full}.refs WHERE name = 'b'").collect()[0][0]
    t.sql(f"CALL c.system.set_current_snapshot('{{n}}', {last_of_b})")
    t.sql("DELETE FROM {t} WHERE id = 41")
    t.sql("CALL c.system.rewrite_data_files(table => '{n}', options => map('rewrite-all', 'true'))")
    t.sql("CREATE OR REPLACE TABLE {t} USING iceberg PARTITIONED BY (part) AS SELECT * FROM {t} WHERE id > 10")
    t.sql(f"INSERT INTO {{t}} VALUES {values([1])}")
    log = t.check()
    assert len(log.metadata) > 10, "versions that were cut from the newest metadata-log are in the log"
    assert [c for c in log.commits if c.parent_id is None][1:], "the replaced table starts anew"


def test_version_1_and_its_upgrade(subject: Callable[..., Subject]) -> None:
    t = subject("version_1", ddl=ddl(1, "copy-on-write", True))
    t.sql(f"INSERT INTO {{t}} VALUES {values(range(6))}")
    t.sql("UPDATE {t} SET val = 'u' WHERE id = 3")
    t.sql("DELETE FROM {t} WHERE part = 1")
    t.capture()
    t.sql("ALTER TABLE {t} SET TBLPROPERTIES ('format-version' = '2', 'write.delete.mode' = 'merge-on-read')")
    t.sql("DELETE FROM {t} WHERE id = 5")  # a delete of a row of version 1
    t.sql(f"INSERT INTO {{t}} VALUES {values([5, 7])}")
    t.sql("CALL c.system.rewrite_manifests('{n}')")
    t.sql("DELETE FROM {t} WHERE id = 2")
    t.sql("CALL c.system.rewrite_data_files(table => '{n}', options => map('rewrite-all', 'true'))")
    log = t.check()
    assert [c.sequence_number for c in log.commits][:4] == [0, 0, 0, 1]


def test_staged_and_picked_snapshots(subject: Callable[..., Subject]) -> None:
    t = subject("staged", ddl=ddl(2, "merge-on-read", True, write_wap_enabled="true"))
    t.sql(f"INSERT INTO {{t}} VALUES {values(range(6))}")
    for wap in ("one", "two"):
        t.spark.conf.set("spark.wap.id", wap)
        try:
            t.sql(f"INSERT INTO {{t}} VALUES {values([10, 11], wap)}")
        finally:
            t.spark.conf.unset("spark.wap.id")
    t.sql("DELETE FROM {t} WHERE id = 1")
    t.sql("CALL c.system.publish_changes('{n}', 'one')")  # makes a new snapshot of the same files
    t.sql("ALTER TABLE {t} CREATE BRANCH b")
    t.as_op(lambda: t.spark.sql(f"INSERT INTO {t.full}.branch_b VALUES {values([20])}"))
    t.sql("CALL c.system.fast_forward('{n}', 'main', 'b')")
    t.sql("UPDATE {t} SET val = 'u' WHERE id = 10")
    staged = [c for c in t.check().commits if c.summary.get("wap.id") == "two"]
    assert len(staged) == 1, "a staged snapshot that was never published is a commit all the same"


def test_attempts_are_counted(subject: Callable[..., Subject]) -> None:
    t = subject("attempts", ddl=ddl(2, "copy-on-write", False))
    t.sql(f"INSERT INTO {{t}} VALUES {values([1])}")

    def second_try() -> None:
        update = t.java.newDelete().deleteFromRowFilter(
            t.spark._jvm.org.apache.iceberg.expressions.Expressions.alwaysTrue()
        )
        update.apply()
        update.commit()

    t.as_op(second_try)
    assert [c.attempt for c in t.check().commits] == [1, 2]
