"""What the log says twice of files and rows: a contradiction is named with its culprit, what only looks like one is silent."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from checkers.evidence.replace import replace
from checkers.evidence.tablelog import ObjectSize
from checkers.formats.iceberg.records import IcebergFile as FileEntry
from checkers.formats.iceberg.statistics import ManifestLine
from checkers.selftest.wronglogs import YEAR
from tests.checkers.formats.iceberg.test_file_entries import at, by, drawn, row
from tests.checkers.formats.iceberg.test_metadata import (
    A,
    B,
    C,
    Drawing,
    bend,
    bend_commit,
    data,
    positions,
    three,
    vector,
)

SMALL = replace(A, records=1)


def equality(path: str, part: int | None = 0) -> FileEntry:
    partition = {} if part is None else {"part": part}
    return FileEntry(path, "equality-deletes", 1, 100, partition, format="parquet", data_sequence_number=None)


def entries(d: Drawing, n: int, **fields: Any) -> None:
    """The files that a commit adds have other fields."""
    bend_commit(d, n, added_files=tuple(replace(f, **fields) for f in d.commits[n].added_files))


# --- what is legal ----------------------------------------------------------------------------------------------------


def several_vectors_in_a_file() -> Drawing:
    d = Drawing()
    d.commit(1, add=[A, B])
    d.commit(2, add=[vector("data/v.puffin", A.path), vector("data/v.puffin", B.path, offset=44)])
    return d


def gap_between_vectors_of_another_engine() -> Drawing:
    """Another engine's writer may have left out a vector that nobody needs."""
    d = Drawing()
    d.commit(1, add=[A, B])
    d.commit(2, add=[vector("data/v.puffin", A.path, offset=70)])
    d.events[-2] = replace(d.events[-2], extra={"engine": "duckdb"})
    return d


def rows_of_an_equality_delete() -> Drawing:
    """It hides the rows of older files in its partition; without a partition, those of any."""
    d = Drawing(format_version=2)
    d.commit(1, add=[SMALL])
    d.commit(2, add=[equality("data/e"), B], removed=(row(1, A.path, "data/e"),))
    d.commit(3, add=[equality("data/f", None)], removed=(replace(row(2, B.path, "data/f"), pos=1),))
    return d


def rows_that_a_change_of_the_schema_tells_again() -> Drawing:
    d = Drawing()
    d.commit(1, add=[SMALL], added=(row(1, A.path),))
    d.event("invoke", "add-column", "x", value={"column": "more"})
    fields = [*d.versions[-1].raw["schemas"][0]["fields"], {"id": 2, "name": "more", "required": False, "type": "int"}]
    d.version(
        schemas=[*d.versions[-1].raw["schemas"], {"schema-id": 1, "type": "struct", "fields": fields}],
        current_schema_id=1,
        last_column_id=2,
    )
    d.event("ok", "add-column", "x")
    d.commit(2, schema_id=1, removed=(row(1, A.path),), added=(row(9, A.path),))
    return d


def folders_that_name_no_partition() -> Drawing:
    """Whoever writes the value in another form says so in each of its files."""
    d = drawn(2, by("identity"))
    for n in range(3):
        d.commit(n + 1, add=[at(f"data/part=day-{n}/{n}.parquet", n)])
    return d


def compaction_of_the_age_at_which_it_began() -> Drawing:
    d = Drawing()
    d.commit(1, add=[A])
    d.commit(2, add=[B])
    d.commit(3, add=[data("data/d")])
    d.commit(4, add=[C], remove=d.commits[0].added_files, operation="replace")
    d.commits[3] = replace(d.commits[3], op=None)
    entries(d, 3, data_sequence_number=2)
    return d


def two_clocks_a_year_apart() -> Drawing:
    """Whoever stamps the versions has another clock than the writers, and keeps it."""
    d = stamped()
    for n, m in enumerate(d.versions):
        log = [{**x, "timestamp-ms": x["timestamp-ms"] + YEAR} for x in m.raw["metadata-log"]]
        bend(d, n, last_updated_ms=m.last_updated_ms + YEAR, raw={**m.raw, "metadata-log": log})
    return d


def stamped() -> Drawing:
    """Ten commits, and the versions have their times."""
    d = Drawing()
    bend(d, 0, last_updated_ms=500)
    for n in range(1, 11):
        d.commit(n, add=[data(f"data/{n}")], change={"last_updated_ms": 1000 * n})
    return d


@pytest.mark.parametrize(
    "drawing",
    [
        several_vectors_in_a_file,
        gap_between_vectors_of_another_engine,
        rows_of_an_equality_delete,
        rows_that_a_change_of_the_schema_tells_again,
        folders_that_name_no_partition,
        compaction_of_the_age_at_which_it_began,
        two_clocks_a_year_apart,
        stamped,
    ],
)
def test_what_is_legal_is_silent(drawing: Callable[[], Drawing]) -> None:
    v = drawing().check()
    assert [a.explanation for a in v.anomalies] == [] and v.valid is True, v.notes


# --- what is wrong ----------------------------------------------------------------------------------------------------


def list_of_another_snapshot() -> Drawing:
    d = Drawing()
    d.commit(1, add=[A])
    d.commit(2, add=[B], manifest_list="metadata/snap-1-1-x.avro")
    return d


def format_of_another_name() -> Drawing:
    d = Drawing()
    d.commit(1, add=[A])
    d.commit(2, add=[replace(B, path="data/b.parquet", format="orc")])
    return d


def no_format() -> Drawing:
    d = Drawing()
    d.commit(1, add=[A])
    d.commit(2, add=[replace(B, format="csv")])
    return d


def data_in_a_puffin_file() -> Drawing:
    d = Drawing()
    d.commit(1, add=[A])
    d.commit(2, add=[replace(B, path="data/b.puffin", format="puffin")])
    return d


def vectors(*of: FileEntry) -> Callable[[], Drawing]:
    def draw() -> Drawing:
        d = Drawing()
        d.commit(1, add=[A, B])
        d.commit(2, add=of)
        return d

    return draw


V, W = vector("data/v.puffin", A.path), vector("data/v.puffin", B.path, offset=44)


def added_by_another() -> Drawing:
    d = Drawing()
    d.commit(1, add=[A])
    d.commit(2, add=[B])
    entries(d, 1, snapshot_id=1)
    return d


def folder_of_another_partition() -> Drawing:
    d = drawn(2, by("identity"))
    for n in (1, 2, 3):
        d.commit(n, add=[at(f"data/part={n}/{n}.parquet", 7 if n == 2 else n)])
    return d


def compaction_older_than_what_it_replaces() -> Drawing:
    d = Drawing()
    d.commit(1, add=[A])
    d.commit(2, add=[B])
    d.commit(3, add=[C], remove=d.commits[1].added_files, operation="replace")
    d.events = [replace(e, f="rewrite-data-files", value=None) if e.op == "op-3" else e for e in d.events]
    entries(d, 2, data_sequence_number=1)
    return d


def rewritten_deletes_of_no_age() -> Drawing:
    d = Drawing(format_version=2)
    d.commit(1, add=[A])
    for n in (2, 3):
        d.commit(n, add=[positions(f"data/p{n}", None)])
    d.commit(4, add=[data("data/d")])
    old = [f for c in d.commits[1:3] for f in c.added_files]
    d.commit(5, add=[positions("data/q", None, 2)], remove=old, operation="replace")
    d.events = [replace(e, f="rewrite-position-delete-files", value=None) if e.op == "op-5" else e for e in d.events]
    entries(d, 4, data_sequence_number=4)
    return d


def row_ids_that_begin_late() -> Drawing:
    d = Drawing()
    d.commit(1, add=[A])
    d.commit(2, add=[B], added_rows=5, change={"next_row_id": 7})
    entries(d, 1, first_row_id=4)
    return d


def equality_delete_of_a_newer_file() -> Drawing:
    d = Drawing(format_version=2)
    d.commit(1, add=[SMALL])
    d.commit(2, add=[B, equality("data/e")], removed=(row(2, B.path, "data/e"),))
    return d


def equality_delete_of_another_partition() -> Drawing:
    d = Drawing(format_version=2)
    d.commit(1, add=[SMALL])
    d.commit(2, add=[equality("data/e", 4)], removed=(row(2, A.path, "data/e"),))
    return d


def deletes_older_than_the_file_that_they_reference() -> Drawing:
    d = Drawing(format_version=2)
    d.commit(1, add=[positions("data/p", A.path)])
    d.commit(2, add=[A])
    return d


def rows(*changes: Any, add: tuple[FileEntry, ...] = (B,), **more: Any) -> Callable[[], Drawing]:
    """A second commit that adds these rows."""

    def draw() -> Drawing:
        d = Drawing()
        d.commit(1, add=[SMALL], added=(row(1, A.path),))
        d.commit(2, add=add, added=changes, **more)
        return d

    return draw


def another_row_than_before() -> Drawing:
    d = Drawing()
    d.commit(1, add=[SMALL], added=(row(1, A.path),))
    d.commit(2, remove=d.commits[0].added_files, removed=(row(2, A.path),), operation="delete")
    return d


def hidden_by_nothing() -> Drawing:
    d = Drawing()
    d.commit(1, add=[SMALL], added=(row(1, A.path),))
    d.commit(2, removed=(row(1, A.path, "data/v"),))
    return d


def total_that_is_a_word(key: str) -> Callable[[], Drawing]:
    def draw() -> Drawing:
        d = Drawing()
        d.commit(1, add=[A])
        d.commit(2, add=[B], summary={key: "many"})
        return d

    return draw


def version_of_another_year() -> Drawing:
    d = stamped()
    bend(d, 10, last_updated_ms=10_000 + YEAR)
    return d


# --- sizes of objects, and refs -----------------------------------------------------------------------------------------


def measured(*, stored: int | None, at_the_end: int | None = None, path: str = B.path) -> Callable[[], Drawing]:
    """The object of a file had that size when it was read, and has another at the end of the run."""

    def draw() -> Drawing:
        d = Drawing()
        d.commit(1, add=[A])
        d.commit(2, add=[replace(B, stored=stored)])
        d.sizes = () if at_the_end is None else (ObjectSize(path, at_the_end),)
        return d

    return draw


def manifest_of(length: int, stored: int | None) -> Callable[[], Drawing]:
    def draw() -> Drawing:
        d = Drawing()
        d.commit(1, add=[A])
        d.commit(
            2, add=[B], manifests=(ManifestLine("metadata/m.avro", False, 0, 2, 2, 2, length=length, stored=stored),)
        )
        return d

    return draw


def statistics_of(size: int) -> Callable[[], Drawing]:
    def draw() -> Drawing:
        d = Drawing()
        d.commit(1, add=[A])
        one = {"snapshot-id": 1, "statistics-path": "s3://w/t/metadata/s.puffin", "file-size-in-bytes": 30}
        d.event("invoke", "compute-table-stats", "s")
        d.version(statistics=[one])
        d.sizes = (ObjectSize("metadata/s.puffin", size),)
        return d

    return draw


BRANCH = {"type": "branch"}


def retained(*says: Any) -> Callable[[], Drawing]:
    """What each version from the first commit on says of main."""

    def draw() -> Drawing:
        d = Drawing()
        for n, ref in enumerate(says, 1):
            d.commit(n, add=[data(f"data/{n}")], change={"refs": {"main": n}})
            m = d.versions[-1]
            bend(d, n, raw={**m.raw, "refs": {"main": ref}})
        return d

    return draw


@pytest.mark.parametrize(
    "drawing",
    [
        measured(stored=200),
        measured(stored=None),
        measured(stored=None, at_the_end=200),
        measured(stored=200, at_the_end=7, path="data/of-nobody"),
        manifest_of(90, 90),
        manifest_of(90, None),
        retained(BRANCH, BRANCH, BRANCH),
        retained(BRANCH, {**BRANCH, "max-ref-age-ms": None}, BRANCH),
        three,
    ],
)
def test_sizes_and_refs_that_agree_or_are_not_known_are_silent(drawing: Callable[[], Drawing]) -> None:
    v = drawing().check()
    assert [a.explanation for a in v.anomalies] == [] and v.valid is True, v.notes


def test_a_file_that_was_written_over_accuses_nobody() -> None:
    (a,) = measured(stored=200, at_the_end=7)().check().anomalies
    assert a.name == "corrupt-file" and a.ops == () and a.files == (B.path,)


def test_statistics_of_another_size_are_told() -> None:
    assert "file-size" not in statistics_of(30)().names()
    (a,) = [a for a in statistics_of(31)().check().anomalies if a.name == "file-size"]
    assert a.files == ("metadata/s.puffin",)


def test_a_retention_that_is_lost_is_told_once_and_may_come_back() -> None:
    kept = {**BRANCH, "min-snapshots-to-keep": 5}
    (a,) = retained(kept, kept, BRANCH, BRANCH)().check().anomalies
    assert (a.name, a.ops) == ("ref-changed", ("op-3",)) and "min-snapshots-to-keep from 5 to nothing" in a.explanation
    (b,) = retained(kept, kept, BRANCH, kept)().check().anomalies
    assert b == a


WRONG: list[tuple[str, str, Callable[[], Drawing]]] = [
    ("shared-manifest-list", "op-2", list_of_another_snapshot),
    ("file-format", "op-2", format_of_another_name),
    ("file-format", "op-2", no_format),
    ("file-format", "op-2", data_in_a_puffin_file),
    ("vector-place", "op-2", vectors(replace(V, offset=None))),
    ("vector-place", "op-2", vectors(replace(V, length=None))),
    ("vector-place", "op-2", vectors(replace(V, offset=2))),
    ("vector-place", "op-2", vectors(replace(V, offset=5))),
    ("vector-place", "op-2", vectors(replace(V, length=900))),
    ("vector-place", "op-2", vectors(V, replace(W, offset=43))),
    ("vector-place", "op-2", vectors(V, replace(W, offset=45))),
    ("vector-place", "op-2", vectors(V, replace(W, size=501))),
    ("foreign-file", "op-2", added_by_another),
    ("file-partition", "op-2", folder_of_another_partition),
    ("data-sequence-number", "op-3", compaction_older_than_what_it_replaces),
    ("data-sequence-number", "op-5", rewritten_deletes_of_no_age),
    ("file-row-id", "op-2", row_ids_that_begin_late),
    ("delete-sequence-number", "op-2", equality_delete_of_a_newer_file),
    ("delete-partition", "op-2", equality_delete_of_another_partition),
    ("delete-sequence-number", "op-1", deletes_older_than_the_file_that_they_reference),
    ("record-count", "op-2", rows(row(2, B.path))),
    ("record-count", "op-2", rows(row(2, B.path), replace(row(3, B.path), pos=2))),
    ("misplaced-row", "op-2", rows(row(2, B.path), row(3, B.path))),
    ("misplaced-row", "op-2", rows(row(2, "data/nowhere"))),
    ("misplaced-row", "op-2", rows(row(1, A.path))),
    ("misplaced-row", "op-2", another_row_than_before),
    ("misplaced-row", "op-2", hidden_by_nothing),
    ("summary-count", "op-2", total_that_is_a_word("total-records")),
    ("summary-count", "op-2", total_that_is_a_word("added-data-files")),
    ("timestamp-order", "op-10", version_of_another_year),
    ("file-size", "op-2", measured(stored=201)),
    ("file-size", "op-2", measured(stored=None, at_the_end=201)),
    ("file-size", "op-2", manifest_of(90, 91)),
    ("ref-changed", "op-2", retained(BRANCH, {"type": "tag"})),
    ("ref-changed", "op-2", retained(BRANCH, {"type": "limb"})),
    ("ref-changed", "op-2", retained(BRANCH, {**BRANCH, "max-ref-age-ms": 5})),
]


@pytest.mark.parametrize(("name", "culprit", "drawing"), WRONG, ids=[f"{n}-{k}" for k, (n, _, _) in enumerate(WRONG)])
def test_a_contradiction_is_named_with_its_culprit_and_nothing_else(
    name: str, culprit: str, drawing: Callable[[], Drawing]
) -> None:
    v = drawing().check()
    assert {a.name for a in v.anomalies} == {name}, [a.explanation for a in v.anomalies]
    assert {a.ops[0] for a in v.anomalies} == {culprit}


def test_a_log_that_does_not_begin_with_its_table_names_files_that_it_does_not_know() -> None:
    d = rows(row(2, "data/nowhere"))()
    bend(
        d,
        0,
        raw={
            **d.versions[0].raw,
            "metadata-log": [{"metadata-file": "s3://w/t/metadata/older.json", "timestamp-ms": 1}],
        },
    )
    assert "misplaced-row" not in d.names()


def test_clocks_that_jump_are_not_told_from_wrong_times() -> None:
    d = stamped()
    for n in (9, 10):
        bend(d, n, last_updated_ms=d.versions[n].last_updated_ms + YEAR)
    entries = d.versions[10].raw["metadata-log"]
    log = [*entries[:-1], {**entries[-1], "timestamp-ms": d.versions[9].last_updated_ms}]
    bend(d, 10, raw={**d.versions[10].raw, "metadata-log": log})
    assert d.names() == []
