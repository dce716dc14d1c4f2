"""The reader of Delta tables, on tables that Spark wrote: ``delta/*.zip``, with the rows that Spark read of each version (``VERSION AS OF``).

``vectors`` has deletion vectors, partitions, in-commit timestamps and classic checkpoints, and was compacted, restored and altered; ``plain``
has row tracking and v2 checkpoints, and was overwritten and emptied.
"""

from __future__ import annotations

import json
import shutil
import zipfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from checkers.evidence import tablelog_file
from checkers.evidence.evidence import Evidence
from checkers.evidence.history import Event, History
from checkers.evidence.replace import replace
from checkers.evidence.tablelog import TableLog
from checkers.formats.delta import Delta
from checkers.formats.delta.protocol import Protocol
from checkers.formats.delta.protocol.versions import provenance
from checkers.formats.delta.records import DeltaLog, delta_log
from checkers.timeline.timeline import Timeline
from compose.objectstore import ObjectStore, TableReadError
from harness.tablefiles.delta import vectors
from harness.tablefiles.delta.reader import DeltaReader
from harness.tablefiles.iceberg.metadata_json import CorruptFile
from harness.tablefiles.iceberg.vectors import DV_MAGIC, encode_deletion_vector
from workloads.tables import COLUMNS, State, TableSpec

TABLES = ("vectors", "plain")
Rows = Counter[tuple[Any, ...]]


@pytest.fixture(params=TABLES)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return unpacked(request.param, tmp_path)


@pytest.fixture
def with_vectors(tmp_path: Path) -> Path:
    return unpacked("vectors", tmp_path)


def unpacked(name: str, folder: Path) -> Path:
    with zipfile.ZipFile(Path(__file__).with_name("delta") / f"{name}.zip") as z:
        z.extractall(folder / name)
    return folder / name


def reader(place: Path, path: Path | None = None) -> DeltaReader:
    return DeltaReader(ObjectStore(), table="t", location=place.as_uri(), columns=COLUMNS, path=path)


def read(place: Path) -> DeltaLog:
    return delta_log(reader(place).finish(None, 0))


def expected(place: Path) -> dict[int, Rows]:
    return {int(v): Counter(map(tuple, rows)) for v, rows in json.loads((place / "rows.json").read_text()).items()}


def states(log: TableLog) -> Iterator[tuple[int, Rows]]:
    """Each version with the rows that its commits leave."""
    rows: Rows = Counter()
    made = {c.metadata: c for c in log.commits}
    for m in delta_log(log).metadata:
        if (c := made.get(m.n)) is not None:
            assert c.added is not None and c.removed is not None, c.problems
            rows = rows - Counter(r.row for r in c.removed) + Counter(r.row for r in c.added)
        yield m.version, rows


def broken(log: TableLog) -> list[tuple[str, str]]:
    e = Evidence(History({}, ()), {"t": log}, {"t": TableSpec(name="t", format="delta")})
    return [(a.name, a.explanation) for a in Protocol().check(e).anomalies]


def version(place: Path, n: int) -> Path:
    return place / "_delta_log" / f"{n:020}.json"


def test_each_version_has_the_rows_that_spark_reads_of_it(place: Path) -> None:
    assert dict(states(read(place))) == expected(place)


def test_a_log_that_spark_wrote_breaks_no_rule(place: Path) -> None:
    log = read(place)
    assert broken(log) == []
    assert [d.problem for m in log.metadata for d in m.derived if d.problem] == []


def test_checkpoints_are_read_in_both_forms(tmp_path: Path) -> None:
    logs = [read(unpacked(name, tmp_path)) for name in TABLES]
    found = {d.file.partition(".")[2].rpartition(".")[2] for log in logs for m in log.metadata for d in m.derived}
    assert {"parquet", "json", "crc"} <= found
    assert all(d.live is not None for log in logs for m in log.metadata for d in m.derived if d.kind == "checkpoint")


def test_a_row_that_a_vector_hides_says_which_file_hides_it(with_vectors: Path) -> None:
    log = read(with_vectors)
    first = next(c for c in log.commits if c.operation == "DELETE")
    assert first.removed is not None
    (gone,) = first.removed
    (vector,) = first.added_files
    assert gone.by == vector.path and vector.role == "deletes" and vector.referenced == gone.file


def test_a_log_read_in_parts_is_the_log_read_at_once(place: Path, tmp_path: Path) -> None:
    growing, path = tmp_path / "growing", tmp_path / "log" / "t.jsonl"
    shutil.copytree(place, growing, ignore=shutil.ignore_patterns("*.json", "*.crc", "*.checkpoint.*"))
    r = reader(growing, path)
    for n in expected(place):
        shutil.copy(version(place, n), version(growing, n))
        r.capture(None, n)
        assert [m.version for m in delta_log(tablelog_file.read(path)).metadata] == [*range(n + 1)]
    shutil.copytree(place, growing, dirs_exist_ok=True)
    whole = r.finish(None, 99)
    assert tablelog_file.read(path) == whole and whole.complete
    assert (whole.commits, whole.table_format) == (read(place).commits, Delta.name)
    assert dict(states(whole)) == expected(place)


def test_a_log_that_could_not_be_written_is_written_whole_at_the_end(with_vectors: Path, tmp_path: Path) -> None:
    path = tmp_path / "log" / "t.jsonl"
    path.parent.write_text("a file where the folder should be")
    r = reader(with_vectors, path)
    with pytest.raises(TableReadError, match="cannot be written"):
        r.capture(None, 0)
    path.parent.unlink()
    whole = r.finish(None, 1)
    assert tablelog_file.read(path) == whole and dict(states(whole)) == expected(with_vectors)


def test_a_version_that_was_written_again_counts_as_it_is_at_the_end(with_vectors: Path) -> None:
    r, lost = reader(with_vectors), version(with_vectors, 5)
    r.capture(None, 0)
    actions = [json.loads(line) for line in lost.read_text().splitlines()]
    lost.write_text("".join(json.dumps(a) + "\n" for a in actions if "add" not in a))
    log = r.finish(None, 1)
    assert [(p.code, p.snapshot) for p in log.problems] == [("written-over", 5)]
    assert dict(states(log))[5] == expected(with_vectors)[4]
    names = {name for name, _ in broken(log)}
    assert {"version-replaced", "checksum-unlike"} <= names


def test_a_compacted_log_is_held_against_its_versions(with_vectors: Path) -> None:
    log = with_vectors / "_delta_log"
    lines = "".join(version(with_vectors, n).read_text() for n in (5, 6))
    compacted = log / f"{5:020}.{6:020}.compacted.json"
    compacted.write_text(lines)
    assert broken(read(with_vectors)) == []
    compacted.write_text("".join(line + "\n" for line in lines.splitlines() if '"add"' not in line))
    assert [name for name, _ in broken(read(with_vectors))] == ["compacted-unlike"]


def test_a_checkpoint_that_the_last_one_names_must_be_there(with_vectors: Path) -> None:
    assert '"version":12' in (with_vectors / "_delta_log" / "_last_checkpoint").read_text().replace(" ", "")
    (with_vectors / "_delta_log" / f"{12:020}.checkpoint.parquet").unlink()
    said = [d.problem for m in read(with_vectors).metadata for d in m.derived if d.problem]
    assert said == ["it names version 12, of which there is no checkpoint"]


def test_an_add_of_a_file_that_is_there_changes_no_row_and_is_found(with_vectors: Path) -> None:
    """As a writer leaves it that commits again because the reply of its first commit was lost."""
    shutil.copy(version(with_vectors, 5), version(with_vectors, 13))
    log = read(with_vectors)
    assert dict(states(log))[13] != expected(with_vectors)[12], "the file had been rewritten since: its rows are back"
    again = {name for name, _ in broken(log)}
    assert "transaction-twice" in again


def test_a_data_file_that_is_not_there_leaves_the_rows_of_its_version_unknown(with_vectors: Path) -> None:
    log = read(with_vectors)
    last = next(f.path for c in reversed(log.commits) for f in c.added_files if f.role == "data")
    (with_vectors / last).unlink()
    found = read(with_vectors)
    assert [m.path for m in found.missing_files] == [last]
    assert any(not c.readable and c.problems[0].code == "missing-file" for c in found.commits)


def test_a_version_that_is_torn_is_found(with_vectors: Path) -> None:
    version(with_vectors, 12).write_text('{"commitInfo":')
    log = read(with_vectors)
    assert not log.commits[-1].readable and "version-unreadable" in {name for name, _ in broken(log)}


@pytest.mark.parametrize(("f", "off", "says"), [("restore", 0, 0), ("restore", 1, 1), ("reorg-purge", 0, 1)])
def test_a_restore_says_the_version_that_was_asked_for(with_vectors: Path, f: str, off: int, says: int) -> None:
    log = read(with_vectors)
    n = next(m.n for m in log.metadata if m.info.get("operation") == "RESTORE")
    named = replace(log, commits=tuple(replace(c, op="r") if c.metadata == n else c for c in log.commits))
    asked = int(log.metadata[n].info["operationParameters"]["version"]) + off
    events = [
        Event(0, 0, "invoke", 0, f, "t", {}, "r", None),
        Event(1, 1, "ok", 0, f, "t", {"snapshot": asked, "rows": []}, "r", None),
    ]
    found = [b.name for b in provenance(named, {"r": History({}, tuple(events)).operations()[0]})]
    assert found == ["operation-unlike"] * says


@pytest.mark.parametrize(("says", "found"), [("UNKNOWN", 0), ("DELETE", 1)])
def test_a_version_that_does_not_say_its_operation_says_nothing_wrong(
    with_vectors: Path, says: str, found: int
) -> None:
    log = read(with_vectors)
    n = next(m.n for m in log.metadata if m.info.get("operation") == "WRITE")
    actions = tuple(
        {"commitInfo": {**a["commitInfo"], "operation": says, "operationMetrics": {}}} if "commitInfo" in a else a
        for a in log.metadata[n].actions
    )
    log = replace(log, metadata=tuple(replace(m, actions=actions) if m.n == n else m for m in log.metadata))
    named = replace(log, commits=tuple(replace(c, op="i") if c.metadata == n else c for c in log.commits))
    events = [
        Event(0, 0, "invoke", 0, "insert", "t", {"ids": [1]}, "i", None),
        Event(1, 1, "ok", 0, "insert", "t", None, "i", None),
    ]
    broken = [b.name for b in provenance(named, {"i": History({}, tuple(events)).operations()[0]})]
    assert broken == ["operation-unlike"] * found


def test_a_restore_without_an_answer_means_what_its_version_says(with_vectors: Path) -> None:
    log = read(with_vectors)
    c = next(c for c in log.commits if log.metadata[c.metadata].info.get("operation") == "RESTORE")
    named = replace(log, commits=tuple(replace(x, op="r") if x is c else x for x in log.commits))
    events = (
        Event(0, 0, "invoke", 0, "restore", "t", {"back": 1}, "r", None),
        Event(1, 1, "info", 0, "restore", "t", None, "r", None),
    )
    o, before = History({}, events).operations()[0], State()
    t = Timeline(TableSpec(name="t", format="delta"), named, {"r": o}, (o,), True)
    for earlier in log.commits[: log.commits.index(c)]:
        before.apply(*t.changes(earlier))  # type: ignore[misc]
    removed, added = t.meaning(o, before)  # type: ignore[misc]
    assert (removed or added) and (removed, added) == tuple(map(list, map(sorted, t.changes(c))))  # type: ignore[arg-type]


def mapped(place: Path, mode: str, ids: bool = True) -> Path:
    """A table with column mapping and one file of two rows. Then its column ``val`` is dropped, and a new one has the same name.

    ``ids``: the file has the field ids of the columns, as all files have that were written after the mapping was turned on.
    """
    physical = {c: f"col-{n}" for n, c in enumerate(COLUMNS, 1)}
    types = {"id": "long", "val": "string", "cnt": "long", "log": "string", "part": "integer"}

    def metadata(columns: dict[str, int]) -> dict[str, Any]:
        named = {
            c: {"delta.columnMapping.id": n, "delta.columnMapping.physicalName": f"col-{n}"} for c, n in columns.items()
        }
        fields = [{"name": c, "type": types[c], "nullable": True, "metadata": m} for c, m in named.items()]
        on = {"delta.columnMapping.mode": mode, "delta.columnMapping.maxColumnId": str(max(columns.values()))}
        schema = {"schemaString": json.dumps({"type": "struct", "fields": fields}), "configuration": on}
        return {"metaData": {"id": "0", "partitionColumns": ["part"], "format": {"provider": "parquet"}, **schema}}

    columns = {c: n for n, c in enumerate(COLUMNS, 1)}
    (place / "_delta_log").mkdir(parents=True)
    values = {"id": pa.array([1, 2]), "val": pa.array(["a", "b"]), "cnt": pa.array([0, 0]), "log": pa.array(["a", "b"])}
    fields = [
        pa.field(physical[c], v.type, metadata={"PARQUET:field_id": str(columns[c])} if ids else {})
        for c, v in values.items()
    ]
    pq.write_table(pa.table([*values.values()], schema=pa.schema(fields)), place / "f.parquet")
    add = {"path": "f.parquet", "partitionValues": {physical["part"]: "3"}, "size": 1, "dataChange": True}
    features = {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": ["columnMapping"],
        "writerFeatures": ["columnMapping"],
    }
    versions: list[list[dict[str, Any]]] = [
        [{"protocol": features}, metadata(columns)],
        [{"add": add}],
        [metadata({**columns, "val": 6})],
        [{"remove": {"path": "f.parquet", "dataChange": True}}],
    ]
    for n, actions in enumerate(versions):
        version(place, n).write_text("\n".join(map(json.dumps, actions)))
    return place


@pytest.mark.parametrize(("mode", "ids"), [("name", True), ("name", False), ("id", True)])
def test_columns_are_found_by_their_mapping(mode: str, ids: bool, tmp_path: Path) -> None:
    place = mapped(tmp_path / "t", mode, ids)
    log = read(place)
    rows = [(1, "a", 0, "a", 3), (2, "b", 0, "b", 3)]
    assert [r.row for r in log.commits[0].added or ()] == rows
    assert log.commits[0].added_files[0].partition == {"part": 3}
    assert broken(log) == []
    version(place, 1).rename(version(place, 9))  # the file comes when its column val has been dropped
    (place / "_delta_log").joinpath(version(place, 2).name).rename(version(place, 1))
    version(place, 9).rename(version(place, 2))
    again = read(place)
    assert [r.row for c in again.commits for r in c.added or ()] == [(i, None, c, log_, p) for i, _, c, log_, p in rows]


@pytest.mark.parametrize(("operation", "found"), [("RESTORE", []), ("ADD COLUMNS", ["column-mapping"])])
def test_a_dropped_column_comes_back_with_its_id_only_by_a_restore(
    operation: str, found: list[str], tmp_path: Path
) -> None:
    place = mapped(tmp_path / "t", "name")
    first = json.loads(version(place, 0).read_text().splitlines()[1])
    first["metaData"]["configuration"]["delta.columnMapping.maxColumnId"] = "6"
    info = {"commitInfo": {"operation": operation}}
    version(place, 4).write_text("\n".join(map(json.dumps, [info, first])))
    assert [name for name, _ in broken(read(place))] == found


class TestVectors:
    """Where a descriptor says that the bytes are."""

    def test_a_vector_in_the_log_itself_is_read(self) -> None:
        bytes_ = encode_deletion_vector([1, 5])[4:-4]
        padded = bytes_ + b"\0" * (-len(bytes_) % 4)
        inline = {"storageType": "i", "pathOrInlineDv": z85(padded), "sizeInBytes": len(bytes_), "cardinality": 2}
        assert vectors.file_of(inline) is None
        assert vectors.positions(inline, None) == {1, 5} and bytes_.startswith(DV_MAGIC)

    def test_a_path_may_be_absolute(self) -> None:
        assert vectors.file_of({"storageType": "p", "pathOrInlineDv": "s3a://b/t/a%20b.bin"}) == "s3a://b/t/a b.bin"

    @pytest.mark.parametrize(
        "descriptor",
        [
            {"storageType": "x", "pathOrInlineDv": "a"},
            {"storageType": "u", "pathOrInlineDv": "short"},
            {"storageType": "u", "pathOrInlineDv": "~" * 20},
        ],
    )
    def test_a_descriptor_of_another_form_is_refused(self, descriptor: dict[str, Any]) -> None:
        with pytest.raises(CorruptFile):
            vectors.file_of(descriptor)

    def test_a_vector_of_another_length_than_its_descriptor_says_is_refused(self) -> None:
        blob = encode_deletion_vector([1, 5])
        said = {"storageType": "u", "offset": 1, "sizeInBytes": len(blob) - 8, "cardinality": 3}
        with pytest.raises(CorruptFile, match="2 positions whose descriptor says 3"):
            vectors.positions(said, b"\1" + blob)


def z85(content: bytes) -> str:
    """The inverse of :func:`harness.tablefiles.delta.vectors.z85`."""
    alphabet = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
    words = [int.from_bytes(content[i : i + 4], "big") for i in range(0, len(content), 4)]
    return "".join(alphabet[w // 85**k % 85] for w in words for k in (4, 3, 2, 1, 0))
