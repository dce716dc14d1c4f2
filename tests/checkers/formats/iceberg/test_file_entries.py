"""The ``metadata`` checker on what snapshots say of single files: the wrong is named with its culprit, the unusual but legal is silent."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from checkers.evidence import tablelog_file
from checkers.evidence.replace import replace
from checkers.evidence.tablelog import FileEntry, RowChange, TableLog
from checkers.formats.iceberg.metadata.partitions import NOT_COMPUTED, Partitions, murmur3, transformed
from checkers.judge.check import ALL as CHECKERS
from checkers.selftest import recorded, trial, wrongfiles
from checkers.selftest.plant import Plant
from checkers.selftest.world import World
from tests.checkers.formats.iceberg.test_metadata import A, B, C, Drawing, S, bend, bend_commit, data, positions, vector

LONG = {"id": 1, "name": "id", "type": "long", "required": False}


def drawn(format_version: int = 3, *specs: Any, fields: Any = (LONG,)) -> Drawing:
    """A table with these partition specs, as lists of fields."""
    d = Drawing(format_version=format_version)
    last = 999 + max(1, len(specs))
    raw = {
        "partition-specs": [
            {"spec-id": n, "fields": [{**x, "field-id": 1000 + n} for x in f]} for n, f in enumerate(specs)
        ],
        "last-partition-id": last,
        "schemas": [{"schema-id": 0, "type": "struct", "fields": list(fields)}],
    }
    bend(d, 0, raw={**d.versions[0].raw, **raw})
    return d


def by(transform: str, name: str = "part") -> list[dict[str, Any]]:
    return [{"name": name, "transform": transform, "source-id": 1, "field-id": 1000}]


def at(path: str, value: Any, **more: Any) -> FileEntry:
    return replace(data(path, 1, **more), partition={"part": value})


def row(id: Any, file: str, hidden_by: str | None = None) -> RowChange:
    return RowChange((id,), file, 0, hidden_by)


# --- what is legal ----------------------------------------------------------------------------------------------------


def every_transform() -> Drawing:
    d = drawn(3, by("identity"), by("bucket[16]"), by("truncate[10]"), by("void"), by("day"))
    values: list[Any] = [17, (murmur3((17).to_bytes(8, "little")) & 0x7FFFFFFF) % 16, 10, None, 17000]
    for n, value in enumerate(values):
        f = at(f"data/{n}", value, spec_id=n)
        d.commit(n + 1, add=[f], added=(row(17, f.path),))
    return d


def null_partition() -> Drawing:
    d = drawn(2, by("bucket[4]"))
    d.commit(1, add=[at("data/n", None)], added=(row(None, "data/n"),))
    return d


def moved_to_another_spec() -> Drawing:
    """A file of the first spec, its rows rewritten into one of the second; the log is one without spec ids."""
    d = drawn(2, by("identity"), by("truncate[100]"))
    old, new = at("data/old", 123), at("data/new", 100)
    d.commit(1, add=[old], added=(row(123, old.path),))
    d.commit(2, add=[new], remove=[old], operation="replace")
    d.commit(3, remove=[new], removed=(row(123, new.path),), operation="delete")
    return d


def column_renamed_and_replaced() -> Drawing:
    """Another column has the source column's name now: rows say nothing of the partition."""
    d = drawn(2, by("identity"))
    d.commit(1, add=[at("data/a", 5)], added=(row(5, "data/a"),))
    renamed, added = {**LONG, "name": "old"}, {**LONG, "id": 2}
    schemas = [*d.versions[-1].raw["schemas"], {"schema-id": 1, "type": "struct", "fields": [renamed]}]
    d.event("invoke", "rename-column", "x", value={"column": "id", "to": "old"})
    d.version(schemas=schemas, current_schema_id=1)
    d.event("ok", "rename-column", "x")
    d.event("invoke", "add-column", "y", value={"column": "id", "type": "bigint"})
    schemas = [*schemas, {"schema-id": 2, "type": "struct", "fields": [renamed, added]}]
    d.version(schemas=schemas, current_schema_id=2, last_column_id=2)
    d.event("ok", "add-column", "y")
    d.commit(2, add=[at("data/b", 6)], schema_id=2)
    d.commit(3, remove=[at("data/a", 5)], removed=(row(77, "data/a"),), operation="delete", schema_id=2)
    return d


def compaction_of_an_older_sequence_number() -> Drawing:
    d = Drawing()
    d.commit(1, add=[A])
    d.commit(2, add=[B])
    d.commit(3, add=[C], remove=[A, B], operation="replace")
    old = tuple(replace(f, data_sequence_number=1) for f in d.commits[2].added_files)
    bend_commit(d, 2, added_files=old, op=None)
    return d


def replaced_vector() -> Drawing:
    d = Drawing()
    d.commit(1, add=[A])
    one, two = vector("data/v1", A.path), vector("data/v2", A.path, 2)
    d.commit(2, add=[one], removed=(row(1, A.path, one.path),))
    d.commit(3, add=[two], remove=[one], removed=(replace(row(2, A.path, two.path), pos=1),))
    d.commit(4, remove=[A, two], operation="delete")
    return d


def upgraded_after_position_deletes() -> Drawing:
    d = Drawing(format_version=2)
    old = positions("data/p", None)
    d.commit(1, add=[A])
    d.commit(2, add=[old], removed=(row(1, A.path, old.path),))
    d.format_version = 3
    d.event("invoke", "upgrade", "u", value={})
    d.version(format_version=3, next_row_id=0)
    d.event("ok", "upgrade", "u")
    d.commit(
        3, add=[vector("data/v", A.path)], remove=[old], operation="replace", added_rows=2, change={"next_row_id": 2}
    )
    return d


def partition_deletes_of_several_files() -> Drawing:
    d = Drawing(format_version=2)
    both = positions("data/p", None, 2)
    d.commit(1, add=[A, B])
    d.commit(2, add=[both], removed=(row(1, A.path, both.path), row(2, B.path, both.path)))
    return d


def version_one_without_operations() -> Drawing:
    d = Drawing(format_version=1)
    d.commit(1, add=[A], sequence_number=0, operation="")
    return d


def deletes_by_columns() -> Drawing:
    """By a nested column, and in a log of an earlier release, which does not say by which."""
    inner = {"id": 7, "name": "x", "type": "long", "required": False}
    nested = {"id": 2, "name": "s", "required": False, "type": {"type": "struct", "fields": [inner]}}
    d = Drawing(format_version=2)
    schemas = [{"schema-id": 0, "type": "struct", "fields": [LONG, nested]}]
    bend(d, 0, raw={**d.versions[0].raw, "schemas": schemas, "last-column-id": 7})
    d.commit(1, add=[A])
    for n, ids in ((2, (7,)), (3, None)):
        f = positions(f"data/d{n}.parquet", None)
        d.commit(n, add=[replace(f, content="equality-deletes", equality_ids=ids, spec_id=0)])
        bend_commit(d, n - 1, manifests=() if ids else None)
    return d


def split_in_two() -> Drawing:
    d = Drawing()
    d.commit(1, add=[replace(A, size=1000, split_offsets=(4, 600)), replace(B, split_offsets=())])
    return d


LEGAL = [
    deletes_by_columns,
    split_in_two,
    every_transform,
    null_partition,
    moved_to_another_spec,
    column_renamed_and_replaced,
    compaction_of_an_older_sequence_number,
    replaced_vector,
    upgraded_after_position_deletes,
    partition_deletes_of_several_files,
    version_one_without_operations,
]


@pytest.mark.parametrize("drawing", LEGAL, ids=lambda d: str(d.__name__))
def test_what_is_legal_is_silent(drawing: Callable[[], Drawing]) -> None:
    v = drawing().check()
    assert [a.explanation for a in v.anomalies] == [] and v.valid is True, v.notes


# --- what is wrong ----------------------------------------------------------------------------------------------------


def wrong_transform(n: int) -> Callable[[], Drawing]:
    def draw() -> Drawing:
        d = every_transform()
        f = d.commits[n].added_files[0]
        other = {"part": 3 if f.partition["part"] != 3 else 4}
        bend_commit(d, n, added_files=(replace(f, partition=other),))
        return d

    return draw


def deletes_at_another_partition() -> Drawing:
    d = upgraded_after_position_deletes()
    bend_commit(d, 1, added_files=tuple(replace(f, partition={"part": 9}) for f in d.commits[1].added_files))
    return d


def deletes_of_another_spec() -> Drawing:
    d = Drawing(format_version=2)
    d.commit(1, add=[replace(A, spec_id=0)])
    d.commit(2, add=[replace(positions("data/p", A.path), spec_id=1)])
    return d


def vector_of_another_file() -> Drawing:
    """The compaction that removes the data file and its vector is not to blame."""
    d = Drawing()
    v = vector("data/v", A.path)
    d.commit(1, add=[A, B])
    d.commit(2, add=[v], removed=(row(1, A.path, v.path),))
    d.commit(3, add=[C], remove=[A, B, v], operation="replace")
    bend_commit(d, 1, added_files=tuple(replace(f, referenced=B.path) for f in d.commits[1].added_files))
    return d


def vector_in_version_2() -> Drawing:
    d = Drawing(format_version=2)
    d.commit(1, add=[A])
    d.commit(2, add=[vector("data/v", A.path)])
    return d


def two_files_with_the_same_row_ids() -> Drawing:
    d = Drawing()
    d.commit(1, add=[A])
    d.commit(2, add=[B, C])
    bend_commit(d, 1, added_files=tuple(replace(f, first_row_id=2) for f in d.commits[1].added_files))
    return d


def file_without_row_id() -> Drawing:
    d = Drawing()
    d.commit(1, add=[A])
    d.commit(2, add=[B])
    bend_commit(d, 1, added_files=(replace(d.commits[1].added_files[0], first_row_id=None),))
    return d


def old_sequence_number() -> Drawing:
    d = Drawing()
    d.commit(1, add=[A])
    d.commit(2, add=[B])
    bend_commit(d, 1, added_files=(replace(d.commits[1].added_files[0], data_sequence_number=1),))
    return d


def removed_twice() -> Drawing:
    d = Drawing()
    d.commit(1, add=[A, B])
    d.commit(2, remove=[A], operation="delete")
    d.commit(3, remove=[A], operation="delete")
    bend_commit(d, 1, op="op-9")
    bend_commit(d, 2, op="op-2")
    return d


def removed_differently() -> Drawing:
    d = Drawing()
    d.commit(1, add=[A])
    d.commit(2, remove=[replace(A, data_sequence_number=2)], operation="delete")
    return d


def statement_called(operation: str) -> Callable[[], Drawing]:
    def draw() -> Drawing:
        d = Drawing()
        d.commit(1, add=[A])
        d.commit(2, add=[replace(B, records=1)], added=(row(3, B.path),), operation=operation)
        return d

    return draw


def circle() -> Drawing:
    d = Drawing()
    for id in (1, 2, 3):
        d.commit(id, add=[data(f"data/{id}")])
    bend_commit(d, 1, parent_id=3)
    return d


def test_a_snapshot_whose_id_its_grandparent_has_is_walked_once() -> None:
    d = Drawing()
    for id in (1, 2, 3):
        d.commit(id, add=[data(f"data/{id}")])
    bend_commit(d, 2, snapshot_id=1)
    assert d.check().valid is False


WRONG: list[tuple[str, str, Callable[[], Drawing]]] = [
    *(("file-partition", f"op-{n + 1}", wrong_transform(n)) for n in range(4)),
    ("delete-partition", "op-2", deletes_at_another_partition),
    ("delete-partition", "op-2", deletes_of_another_spec),
    ("referenced-file", "op-2", vector_of_another_file),
    ("dv-in-v2", "op-2", vector_in_version_2),
    ("row-id-overlap", "op-2", two_files_with_the_same_row_ids),
    ("file-row-id", "op-2", file_without_row_id),
    ("data-sequence-number", "op-2", old_sequence_number),
    ("removed-not-live", "op-2", removed_twice),
    ("entry-changed", "op-2", removed_differently),
    ("wrong-operation", "op-2", statement_called("replace")),
    ("wrong-operation", "op-2", statement_called("")),
    ("wrong-operation", "op-2", statement_called("update")),
    ("wrong-operation", "op-2", statement_called("delete")),
    ("unknown-parent", "op-2", circle),
]


@pytest.mark.parametrize(("name", "culprit", "drawing"), WRONG, ids=[f"{n}-{d.__name__}" for n, _, d in WRONG])
def test_what_is_wrong_is_named_with_its_culprit_and_nothing_else(
    name: str, culprit: str, drawing: Callable[[], Drawing]
) -> None:
    v = drawing().check()
    assert {a.name for a in v.anomalies} - {"file-row-id" if name == "row-id-overlap" else ""} == {name}
    assert {a.ops[0] for a in v.anomalies} == {culprit}


def test_a_file_that_a_writer_passed_over_is_not_the_next_ones_fault() -> None:
    d = Drawing()
    d.commit(1, add=[A])
    d.commit(2, add=[B])
    d.commit(3, add=[C], parent_id=1)
    d.commit(4, remove=[replace(B, snapshot_id=2)], operation="delete")
    (a,) = [a for a in d.check().anomalies if a.name == "removed-not-live"]
    assert a.ops == ("op-3", "op-4")


def lost_rewrite(*, summed: bool) -> Drawing:
    """A rewrite of A and B into C is acknowledged and in no version; the next writer counts C's records, or removes C."""
    d = Drawing()
    total = {"total-data-files": "2", "total-records": "4"}
    d.commit(1, add=[A, B], summary=total)
    d.event("invoke", "rewrite-data-files", "r", process=1)
    d.time += S
    d.event("ok", "rewrite-data-files", "r", value=[[2, 1, 400, 0, 0]], process=1)
    if summed:
        d.commit(2, add=[data("data/d")], summary={"total-data-files": "2", "total-records": "5"})
    else:
        d.commit(2, remove=[replace(C, snapshot_id=77)], operation="delete")
    return d


@pytest.mark.parametrize(("summed", "name"), [(True, "summary-count"), (False, "removed-not-live")])
def test_a_rewrite_without_a_trace_is_named_before_the_writer_who_came_after_it(summed: bool, name: str) -> None:
    (a,) = lost_rewrite(summed=summed).check().anomalies
    assert (a.name, a.ops) == (name, ("r", "op-2"))


def test_wrong_totals_are_not_a_rewrites_that_says_other_numbers() -> None:
    d = lost_rewrite(summed=True)
    bend_commit(d, 1, summary={"total-data-files": "7"})
    (a,) = d.check().anomalies
    assert (a.name, a.ops) == ("summary-count", ("op-2",))


def test_who_had_failed_before_is_not_listed_as_under_way() -> None:
    d = Drawing()
    d.commit(1, add=[A])
    d.op("delete", "early", value={"ids": [1]}, type="fail")
    for id in (2, 3, 4):
        d.commit(id, add=[data(f"data/{id}")])
    d.version(snapshots=(1, 3, 4))
    (a,) = d.check().anomalies
    assert a.name == "vanished-snapshot" and "early" not in a.ops and "early" not in a.explanation


# --- partitions -------------------------------------------------------------------------------------------------------


def test_hashes_are_those_of_the_specification() -> None:
    assert murmur3((34).to_bytes(8, "little")) == 2017239379
    assert murmur3(b"iceberg") == 1210000089
    assert murmur3(bytes(range(4))) == (-188683207) % 2**32


@pytest.mark.parametrize(
    ("transform", "type", "value", "due"),
    [
        ("identity", "string", "ab", "ab"),
        ("identity", "long", None, None),
        ("truncate[10]", "int", -1, -10),
        ("truncate[10]", "long", 11, 10),
        ("truncate[3]", "string", "iceberg", "ice"),
        ("bucket[100]", "string", "iceberg", 89),
        ("void", "double", 1.5, None),
        ("identity", "double", 1.5, NOT_COMPUTED),
        ("day", "timestamp", "2020-01-01", NOT_COMPUTED),
        ("bucket[4]", "boolean", True, NOT_COMPUTED),
    ],
)
def test_a_transform_gives_the_value_of_the_specification(transform: str, type: str, value: Any, due: Any) -> None:
    assert transformed(transform, type, value) == due


def test_a_file_of_an_unknown_spec_is_not_judged() -> None:
    d = drawn(2, by("identity"))
    p = Partitions(d.log())
    assert p.contradictions(at("data/a", 5), (6,)) == ["part is 6, not 5"]
    assert p.contradictions(at("data/a", 5, spec_id=7), (6,)) == []
    assert p.contradictions(replace(at("data/a", 5), partition={"other": 5}), (6,)) == []


def test_logs_of_earlier_releases_are_read_and_new_ones_say_the_spec(tmp_path: Any) -> None:
    def written(log: TableLog) -> tuple[FileEntry, ...]:
        tablelog_file.write(log, tmp_path / "t.jsonl")
        return tablelog_file.read(tmp_path / "t.jsonl").commits[0].added_files

    d = Drawing()
    d.commit(1, add=[A, replace(B, spec_id=2)])
    assert [f.spec_id for f in written(d.log())] == [None, 2]
    assert '"spec_id"' in (tmp_path / "t.jsonl").read_text() and "null" in (tmp_path / "t.jsonl").read_text()


# --- planted bugs -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def worlds() -> list[World]:
    return [World(recorded.load(n), Random(0)) for n in recorded.names()]


@pytest.mark.parametrize("plant", wrongfiles.PLANTS, ids=lambda m: m.name)
def test_a_planted_bug_is_found_and_its_culprit_named(plant: Plant[Any], worlds: list[World]) -> None:
    checker = next(c for c in CHECKERS if c.name == plant.checker)
    score = trial.try_plant(plant, checker, worlds, placements=10, seed=3)
    assert score.passed and score.accused == score.guilty == 10, score.misses
