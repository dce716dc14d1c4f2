"""Statistics that planners prune by: what is narrower than the file is named, what is wider or absent is not; a real reader misses the row."""

from __future__ import annotations

import io
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkers.evidence.replace import replace
from checkers.formats.iceberg.records import IcebergLog, iceberg_log
from checkers.formats.iceberg.statistics import (
    ColumnStatistics,
    ManifestLine,
    bound_of,
    columns,
    columns_text,
    fields,
)
from checkers.judge.check import ALL as CHECKERS
from checkers.selftest import recorded, trial, wrongstatistics
from checkers.selftest.plant import Plant
from checkers.selftest.world import World
from checkers.verdict import Verdict
from compose.objectstore import ObjectStore
from harness.tablefiles.iceberg.reader import TableReader
from tests.checkers.formats.iceberg.test_metadata import Drawing, data

# --- the words of a log ---------------------------------------------------------------------------------------------------

BOUNDS = {
    "i": st.integers(-(2**63), 2**63 - 1),
    "f": st.floats(allow_nan=False),
    "t": st.text(st.characters(exclude_categories=["Cs"])),
    "b": st.binary(),
    "d": st.integers(-(2**100), 2**100),
    "o": st.sampled_from([0, 1]),
}


@given(st.data())
def test_what_is_said_of_columns_survives_its_text(drawn: st.DataObject) -> None:
    number = st.none() | st.integers(0, 9)
    said = {}
    for id in drawn.draw(st.sets(st.integers(1, 2**31 - 1), max_size=4)):
        kind = drawn.draw(st.sampled_from(sorted(BOUNDS)))
        bound = st.none() | BOUNDS[kind]
        said[id] = ColumnStatistics(kind, *(drawn.draw(number) for _ in range(3)), drawn.draw(bound), drawn.draw(bound))
    assert columns(columns_text(said.items())) == said


@pytest.mark.parametrize(
    ("kind", "serial", "value"),
    [
        ("i", "feffffff", -2),
        ("i", "0100000000000000", 1),
        ("i", "01", b"\x01"),
        ("f", struct.pack("<f", 0.5).hex(), 0.5),
        ("f", struct.pack("<d", -1.5).hex(), -1.5),
        ("t", "c3a4", "ä"),
        ("d", "ff38", -200),
        ("o", "01", 1),
        ("b", "00ff", b"\x00\xff"),
        ("", "61", b"a"),
    ],
)
def test_a_bound_is_read_as_the_specification_serializes_it(kind: str, serial: str, value: object) -> None:
    assert bound_of(bytes.fromhex(serial), kind) == value


# --- drawn tables ---------------------------------------------------------------------------------------------------------


def judged(said: str | None, exact: str | None, *, content: str = "data", kept: bool = False) -> Verdict:
    """The verdict on a table of one file whose entry says this, in the snapshot that adds it or in one that copies its entry."""
    d = Drawing()
    d.commit(1, add=[data("data/a")])
    d.commit(2, add=[data("data/b")])
    f = replace(d.commits[0].added_files[0], content=content, columns=said, exact=exact)
    n = 1 if kept else 0
    told = {"kept_files": (f,)} if kept else {"added_files": (f,)}
    d.commits[n] = replace(d.commits[n], **told)
    return d.check()


NARROW = {
    "a lower bound above a value": ("1i,3,0,,2,3", "1i,3,0,,1,3"),
    "an upper bound below a value": ("1i,3,0,,1,2", "1i,3,0,,1,3"),
    "a text whose upper bound is its own prefix": ("1t,1,0,,'abcd,'abcd", "1t,1,0,,'abcd,'abcde"),
    "a lower bound that is above in bytes only": ("1t,1,0,,'\U00010000,'\U00010000", "1t,1,0,,'\uffff,'\U00010000"),
    "bytes": ("1b,1,0,,xff,xff", "1b,1,0,,x7f,xff"),
    "a decimal": ("1d,1,0,,120,120", "1d,1,0,,-120,120"),
    "a boolean": ("1o,2,0,,1,1", "1o,2,0,,0,1"),
    "a float": ("1f,2,0,0,0.5,0.75", "1f,2,0,0,0.5,1.0"),
    "no null": ("1i,3,0,,1,3", "1i,3,1,,1,3"),
    "only nulls": ("1i,3,3,,,", "1i,3,1,,1,3"),
    "no NaN": ("1f,3,0,0,1.0,3.0", "1f,3,0,1,1.0,3.0"),
    "only NaN": ("1f,3,0,3,,", "1f,3,0,1,1.0,3.0"),
    "only NaN, in a column that has no such numbers": ("1i,3,0,3,1,3", "1i,3,0,,1,3"),
}


@pytest.mark.parametrize(("said", "exact"), NARROW.values(), ids=NARROW)
@pytest.mark.parametrize("kept", [False, True])
def test_rows_that_a_planner_would_skip_are_told_with_their_file_and_column(said: str, exact: str, kept: bool) -> None:
    (a,) = judged(said, exact, kept=kept).anomalies
    assert a.name == "pruned-rows" and a.files == ("data/a",) and a.ops == (f"op-{1 + kept}",)
    assert "column id: it" in a.explanation and "skips the file" in a.explanation


def test_deletes_that_a_planner_would_skip_bring_rows_back() -> None:
    found = judged("2147483546t,,,,'s3://b,'s3://b", "2147483546t,1,0,,'s3://a,'s3://a", content="position-deletes")
    (a,) = (a for a in found.anomalies if a.name == "pruned-rows")
    assert "column file_path" in a.explanation and "what it deletes is there again" in a.explanation


def test_numbers_that_mislead_no_planner_are_told_as_such() -> None:
    for said in ("1i,4,1,,1,3", "1i,3,2,,1,3"):
        (a,) = judged(said, "1i,3,1,,1,3").anomalies
        assert a.name == "column-count" and a.files == ("data/a",)


LEGAL = {
    "equal": ("1i,3,1,,1,3", "1i,3,1,,1,3", 0),
    "nothing is said": (None, "1i,3,1,,1,3", 0),
    "the file was not read": ("1,3,1,,x00,x01", None, 0),
    "counts only": ("1i,3,1,,,", "1i,3,1,,1,3", 0),
    "another column": ("2i,3,1,,1,3", "1i,3,1,,1,3", 0),
    "wider": ("1i,3,0,,0,4", "1i,3,0,,1,3", 2),
    "truncated": ("1t,1,0,,'abc,'abd", "1t,1,0,,'abcde,'abcde", 0),
    "truncated bytes": ("1b,1,0,,x00,x01", "1b,1,0,,x00ff,x00ff", 0),
    "a wider text": ("1t,1,0,,'a,'z", "1t,1,0,,'b,'bcd", 2),
    "only nulls": ("1i,3,3,,,", "1i,3,3,,,", 0),
    "no NaN where none can be": ("1i,3,1,0,1,3", "1i,3,1,,1,3", 0),
    "no NaN in no value": ("1i,0,0,0,,", "1i,0,0,,,", 0),
    "bounds of nothing": ("1i,3,3,,5,5", "1i,3,3,,,", 0),
    "signs of zero": ("1f,1,0,0,0.0,-0.0", "1f,1,0,0,-0.0,0.0", 0),
    "NaN as bounds, which readers ignore": ("1f,2,0,1,nan,nan", "1f,2,0,1,1.0,1.0", None),
    "bytes that do not fit": ("1i,1,0,,x01,x01", "1i,1,0,,5,5", None),
}


@pytest.mark.parametrize(("said", "exact", "loose"), LEGAL.values(), ids=LEGAL)
def test_what_is_wider_absent_or_without_an_order_is_legal(
    said: str | None, exact: str | None, loose: int | None
) -> None:
    v = judged(said, exact)
    assert v.valid is True and v.anomalies == ()
    if loose is not None:
        assert v.stats["tables"]["t"].get("loose_statistics", 0) == loose


def of_line(partitions: str | None, found: str | None) -> Verdict:
    d = Drawing()
    d.commit(1, add=[data("data/a")])
    line = ManifestLine("metadata/m.avro", False, 0, 1, 1, partitions=partitions, found=found)
    d.commits[0] = replace(
        d.commits[0], manifests=(line,), added_files=(replace(d.commits[0].added_files[0], manifest=0),)
    )
    return d.check()


@pytest.mark.parametrize("said", ["i,0,0,77,78", "i,0,0,1,1", "i,0,0,,", "i,0,0,0,0", "i,0,0,0,"])
def test_a_partition_summary_that_hides_a_file_is_told_with_manifest_and_file(said: str) -> None:
    (a,) = of_line(said, "i,0,0,0,1").anomalies
    assert a.name == "pruned-rows" and a.files == ("metadata/m.avro",) and a.ops == ("op-1",)
    assert "data/a" in a.explanation
    (a,) = of_line("i,0,0,0,1", "i,1,0,0,1").anomalies
    assert a.name == "pruned-rows" and "no null" in a.explanation


@pytest.mark.parametrize(
    ("said", "found"),
    [
        ("i,0,0,0,1", "i,0,0,0,1"),
        ("i,1,1,0,9", "i,0,0,0,1"),
        (",1,0,,", ",1,0,,"),
        (None, "i,0,0,0,1"),
        ("i,0,0,0,1", None),
        (",0,0,x07,x07", ""),
        ("i,0,,0,1", "i,0,0,0,1"),
    ],
)
def test_a_partition_summary_that_is_wide_or_not_known_is_legal(said: str | None, found: str | None) -> None:
    assert of_line(said, found).valid is True


@pytest.mark.parametrize("content", ["data", "position-deletes", "equality-deletes"])
@pytest.mark.parametrize("deletes", [False, True])
def test_a_manifest_is_listed_by_what_it_has(content: Any, deletes: bool) -> None:
    d = Drawing()
    d.commit(1, add=[data("data/a")])
    d.commit(2, add=[data("data/b")])
    line = ManifestLine("metadata/m.avro", deletes, 0, 2, 2)
    f = replace(d.commits[1].added_files[0], content=content, manifest=0)
    d.commits[1] = replace(d.commits[1], manifests=(line,), added_files=(f,))
    found = [a for a in d.check().anomalies if a.name == "pruned-rows"]
    assert len(found) == (deletes != (content != "data"))
    for a in found:
        assert (a.ops, a.files) == (
            ("op-2",),
            ("metadata/m.avro", "data/b"),
        ) and "only in manifests of" in a.explanation


def test_words_that_are_none_are_unknown() -> None:
    for v in (judged("1i,3,0", "1i,3,0,,1,3"), of_line("i,0", "i,0,0,0,1")):
        assert v.valid == "unknown" and "could not be read" in v.notes[0]


# --- a real reader --------------------------------------------------------------------------------------------------------


def rewritten(path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """The Avro file with changed records; its length stays in the records that name it."""
    with path.open("rb") as f:
        avro = fastavro.reader(f)
        records = [dict(r) for r in avro]
        schema, header = avro.writer_schema, {k: v for k, v in avro.metadata.items() if not k.startswith("avro.")}
    for r in records:
        change(r)
    out = io.BytesIO()
    fastavro.writer(out, schema, records, metadata=header)  # type: ignore[arg-type]
    path.write_bytes(out.getvalue())


@pytest.fixture
def written(tmp_path: Path) -> Iterator[Any]:
    """A table that PyIceberg wrote: ids 1 to 3, partitioned by ``part``, which is 0."""
    sql = pytest.importorskip("pyiceberg.catalog.sql")
    import pyarrow as pa
    from pyiceberg.transforms import IdentityTransform

    catalog = sql.SqlCatalog("c", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}/w")
    try:
        catalog.create_namespace("ns")
        schema = pa.schema([("id", pa.int64()), ("part", pa.int32())])
        table = catalog.create_table("ns.t", schema)
        table.update_spec().add_field("part", IdentityTransform(), "part").commit()
        table.append(pa.Table.from_pylist([{"id": n, "part": 0} for n in (1, 2, 3)], schema))
        yield table
    finally:
        catalog.close()


def log_of(table: Any) -> IcebergLog:
    reader = TableReader(ObjectStore(), table="t", identifier="c.ns.t", columns=["id", "part"], path=None)
    return iceberg_log(reader.finish(table.metadata_location, 1))


def verdict_on(log: IcebergLog) -> list[Any]:
    """The anomalies of the drawn run whose table has the log's files."""
    d = Drawing()
    d.commit(1, add=[data("data/a")])
    [c] = log.commits
    d.commits[0] = replace(d.commits[0], added_files=c.added_files, manifests=c.manifests, added=c.added)
    return [a for a in d.check().anomalies if a.name in ("pruned-rows", "column-count")]


def raise_bounds(r: dict[str, Any]) -> None:
    for name, value in (("lower_bounds", 1000), ("upper_bounds", 2000)):
        for pair in r["data_file"][name]:
            if pair["key"] == 1:
                pair["value"] = struct.pack("<q", value)


def move_partitions(r: dict[str, Any]) -> None:
    r["partitions"][0] |= {"lower_bound": struct.pack("<i", 77), "upper_bound": struct.pack("<i", 78)}


@pytest.mark.parametrize(
    ("of_manifest", "change", "rows", "says"),
    [
        (True, raise_bounds, "id = 1", "column id: its lower bound is 1000, but it has 1"),
        (False, move_partitions, "part = 0", "its lower bound is 77, but it has 0"),
    ],
)
def test_a_reader_misses_the_rows_that_are_told(
    written: Any, of_manifest: bool, change: Callable[[dict[str, Any]], None], rows: str, says: str
) -> None:
    from pyiceberg.manifest import clear_manifest_cache
    from pyiceberg.table import StaticTable

    found = written.scan(row_filter=rows).to_arrow().num_rows
    assert found and verdict_on(log_of(written)) == []
    snapshot = written.current_snapshot()
    paths = [snapshot.manifest_list, *(m.manifest_path for m in snapshot.manifests(written.io))]
    rewritten(Path(paths[of_manifest].removeprefix("file://")), change)
    clear_manifest_cache()
    table = StaticTable.from_metadata(written.metadata_location)
    assert table.scan().to_arrow().num_rows == 3 and table.scan(row_filter=rows).to_arrow().num_rows == 0
    (a,) = verdict_on(log_of(written))
    assert a.name == "pruned-rows" and says in a.explanation


# --- planted bugs ---------------------------------------------------------------------------------------------------------


def test_a_recorded_run_has_statistics_and_they_are_true() -> None:
    logs = [iceberg_log(log) for log in recorded.load("quick-100").logs.values()]
    files = [f for log in logs for c in log.commits for f in c.added_files]
    assert {f.content for f in files if f.exact and f.columns} == {"data", "position-deletes"}
    lines = [m for log in logs for c in log.commits for m in c.manifests or ()]
    assert any(fields(m.partitions or "") for m in lines) and all(m.stored == m.length for m in lines)


@pytest.mark.parametrize("plant", wrongstatistics.PLANTS, ids=lambda p: p.name)
def test_planted_bugs_are_found_with_their_culprit(plant: Plant[Any]) -> None:
    checker = next(c for c in CHECKERS if c.name == plant.checker)
    score = trial.try_plant(plant, checker, [World(recorded.load("quick-100"), Random(0))], placements=3, seed=3)
    assert score.passed and score.accused == score.guilty == 3, score.misses
