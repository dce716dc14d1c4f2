"""The table reader, on tables written by hand: what each rule of the spec means, and what a broken table looks like."""

from __future__ import annotations

import gzip
import json
import struct
import zlib
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any, NoReturn

import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from checkers.evidence import tableformat, tablelog_file
from checkers.evidence.paths import normalise
from checkers.evidence.problem import Problem
from checkers.evidence.replace import replace
from checkers.evidence.tablelog import Commit, Growth, ObjectSize, RowChange, TableLog
from checkers.formats.iceberg.records import IcebergCommit, attempt_of, iceberg_log
from checkers.formats.iceberg.records import IcebergMetadata as Metadata
from checkers.formats.iceberg.statistics import ColumnStatistics, PartitionSummary, columns, columns_text, fields
from compose.objectstore import ObjectStore, TableReadError
from harness.tablefiles.iceberg import manifests
from harness.tablefiles.iceberg import vectors as vectors_module
from harness.tablefiles.iceberg.decoded import TableFiles
from harness.tablefiles.iceberg.live_files import in_scope
from harness.tablefiles.iceberg.manifests import ADDED, DELETED, EXISTING, ManifestEntry, ManifestFile, Partition
from harness.tablefiles.iceberg.metadata_json import CorruptFile
from harness.tablefiles.iceberg.reader import TableReader
from harness.tablefiles.iceberg.snapshot_tree import net
from harness.tablefiles.log_file import LogFile
from harness.tablefiles.mark import FROM_THE_START
from tests.support.icebergtable import COLUMNS, File, HandMadeTable

Row = tuple[Any, ...]


def reader(
    path: Path | None = None, *, store: ObjectStore | None = None, columns: Sequence[str] = COLUMNS
) -> TableReader:
    return TableReader(store or ObjectStore(), table="t", identifier="c.ns.t", columns=columns, path=path)


def read(t: HandMadeTable, path: Path | None = None) -> TableLog:
    return reader(path).finish(t.pointer, 1)


def added(c: Commit) -> list[Row]:
    assert c.added is not None, c.problems
    return sorted(r.row for r in c.added)


def removed(c: Commit) -> list[Row]:
    assert c.removed is not None, c.problems
    return sorted(r.row for r in c.removed)


def states(log: TableLog) -> dict[int | None, Counter[Row]]:
    """Every snapshot's rows, accumulated along its parents."""
    out: dict[int | None, Counter[Row]] = {None: Counter()}
    for c in log.commits:
        assert c.added is not None and c.removed is not None, c.problems
        before, gone = out[c.parent_id], Counter(r.row for r in c.removed)
        assert gone <= before
        out[c.snapshot_id] = before - gone + Counter(r.row for r in c.added)
    return out


# --- deletion vectors -------------------------------------------------------------------------------------------------


def test_a_deletion_vector_is_decoded() -> None:
    # Written by Iceberg 1.12 for positions 1, 5 and 2**33 + 7: two 32-bit bitmaps under their high halves.
    body = bytes.fromhex(
        "0200000000000000"
        "00000000" "3a300000" "01000000" "0000" "0100" "10000000" "0100" "0500"
        "02000000" "3a300000" "01000000" "0000" "0000" "10000000" "0700"
    )  # fmt: skip
    framed = vectors_module.DV_MAGIC + body
    blob = struct.pack(">I", len(framed)) + framed + struct.pack(">I", zlib.crc32(framed))
    assert vectors_module.decode_deletion_vector(blob) == (1, 5, 2**33 + 7)
    assert vectors_module.encode_deletion_vector([5, 1, 2**33 + 7]) == blob


@given(st.sets(st.integers(0, 2**40)))
def test_a_deletion_vector_survives_the_round_trip(positions: set[int]) -> None:
    assert vectors_module.decode_deletion_vector(vectors_module.encode_deletion_vector(list(positions))) == tuple(
        sorted(positions)
    )


GOOD = vectors_module.encode_deletion_vector([1, 2, 3])


@pytest.mark.parametrize(
    ("blob", "says"),
    [
        (b"", "too short"),
        (GOOD[:-1], "says"),
        (GOOD + b"\0", "says"),
        (GOOD[:4] + b"\xd1\xd3\x39\x65" + GOOD[8:], "magic"),
        (GOOD[:-1] + bytes([GOOD[-1] ^ 1]), "CRC"),
        (GOOD[:12] + bytes([GOOD[12] ^ 1]) + GOOD[13:], "CRC"),
        (
            struct.pack(">I", 8) + vectors_module.DV_MAGIC + b"junk" + struct.pack(">I", zlib.crc32(vectors_module.DV_MAGIC + b"junk")),
            "without a bitmap",
        ),
    ],
)  # fmt: skip
def test_a_broken_deletion_vector_is_told(blob: bytes, says: str) -> None:
    with pytest.raises(CorruptFile, match=says):
        vectors_module.decode_deletion_vector(blob)


@pytest.mark.parametrize(("offset", "length"), [(None, 4), (0, None), (-1, 4), (0, 1000), (1000, 4)])
def test_a_deletion_vector_outside_its_file_is_told(offset: int | None, length: int | None) -> None:
    with pytest.raises(CorruptFile):
        vectors_module.read_deletion_vector(GOOD, offset, length)


# --- manifests --------------------------------------------------------------------------------------------------------


def manifest_entries(t: HandMadeTable, entries: Sequence[tuple[int, File]], of: dict[str, Any]) -> manifests.Manifest:
    made = t.manifest(entries, snapshot_id=77, seq=9, deletes=False)
    line = replace(ManifestFile("", False, 0, 9, 0, 77, None), **of)
    return manifests.read_manifest(Path(made.line["manifest_path"]).read_bytes(), line)


def test_added_entries_inherit_and_existing_ones_say_their_own(tmp_path: Path) -> None:
    t = HandMadeTable(tmp_path)
    new = t.data([(1, "a", 0)])
    old = File("old", 0, 2, 10, 0, seq=4, snapshot_id=44)
    entries = manifest_entries(t, [(ADDED, new), (EXISTING, old), (DELETED, old)], {}).entries
    said = [(e.status, e.data_sequence_number, e.file_sequence_number, e.snapshot_id, e.partition) for e in entries]
    assert said == [
        (ADDED, 9, 9, 77, (("part", 0),)),
        (EXISTING, 4, 4, 44, (("part", 0),)),
        (DELETED, 4, 4, 44, (("part", 0),)),
    ]


def test_an_existing_entry_without_a_sequence_number_breaks_the_spec(tmp_path: Path) -> None:
    t = HandMadeTable(tmp_path)
    orphan = File("old", 0, 2, 10, 0)
    found = manifest_entries(t, [(EXISTING, orphan)], {})
    assert [v.split(":")[0] for v in found.violations] == ["null-sequence-number"]
    # In a manifest of version 1 (sequence number 0) it is normal.
    found = manifest_entries(t, [(EXISTING, orphan)], {"sequence_number": 0})
    assert (found.entries[0].data_sequence_number, found.violations) == (0, ())


def test_row_ids_are_inherited_in_the_order_of_the_files_that_have_none(tmp_path: Path) -> None:
    t = HandMadeTable(tmp_path, version=3)
    files = [t.data([(i, "a", 0)] * n) for i, n in enumerate((2, 3, 4))]
    entries = [(ADDED, files[0]), (DELETED, files[1]), (ADDED, files[2])]
    found = manifest_entries(t, entries, {"first_row_id": 100})
    assert [e.first_row_id for e in found.entries] == [100, None, 102]
    assert [e.first_row_id for e in manifest_entries(t, entries, {}).entries] == [None, None, None]


@pytest.mark.parametrize(
    ("count", "value"),
    [("added_files_count", 2), ("existing_files_count", 1), ("deleted_files_count", 1), ("added_rows_count", 7)],
)
def test_wrong_counts_in_the_manifest_list_are_told(tmp_path: Path, count: str, value: int) -> None:
    t = HandMadeTable(tmp_path)
    f = t.data([(1, "a", 0)])
    m = t.manifest([(ADDED, f)], snapshot_id=3, seq=1, deletes=False, line={count: value, "added_snapshot_id": 3})
    t.commit(manifests=[m])
    (c,) = read(t).commits
    assert any(v.startswith(f"manifest-count: the manifest list says {count}={value}") for v in c.violations)
    assert added(c) == [(1, "a", 0)]


@pytest.mark.parametrize("name", ["a/snap-12-3-0b0c.avro", "snap--12-3-0b0c.avro"])
def test_the_attempt_is_in_the_name_of_the_manifest_list(name: str) -> None:
    assert attempt_of(name) == 3
    assert attempt_of("metadata/other.avro") is None
    assert attempt_of("metadata/snap-7-49183383-d407-4a1b-9c2d-0123456789ab.avro") is None  # DuckDB's: a UUID alone


# --- which deletes apply ----------------------------------------------------------------------------------------------


def entry(
    content: str, seq: int, *, spec_id: int = 0, part: int | None = 0, unpartitioned: bool = False
) -> ManifestEntry:
    partition: Partition = () if part is None else (("part", part),)
    return ManifestEntry("f", content, None, seq, spec_id, partition, unpartitioned, ADDED, 1, seq, "parquet", 1, 1)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("kind", "delete", "data", "applies"),
    [
        ("position-deletes", {"seq": 2}, {"seq": 2}, True),  # a commit may delete from the file it adds
        ("position-deletes", {"seq": 2}, {"seq": 1}, True),
        ("position-deletes", {"seq": 2}, {"seq": 3}, False),
        ("deletion-vector", {"seq": 2}, {"seq": 2}, True),
        ("deletion-vector", {"seq": 2}, {"seq": 3}, False),
        ("equality-deletes", {"seq": 2}, {"seq": 1}, True),
        ("equality-deletes", {"seq": 2}, {"seq": 2}, False),  # an upsert's own rows stay
        ("equality-deletes", {"seq": 2}, {"seq": 3}, False),
        ("position-deletes", {"seq": 2, "part": 1}, {"seq": 1}, False),
        ("equality-deletes", {"seq": 2, "part": 1}, {"seq": 1}, False),
        ("position-deletes", {"seq": 2, "spec_id": 1}, {"seq": 1}, False),
        ("equality-deletes", {"seq": 2, "spec_id": 1}, {"seq": 1}, False),
        ("equality-deletes", {"seq": 2, "spec_id": 1, "part": None, "unpartitioned": True}, {"seq": 1}, True),
        ("position-deletes", {"seq": 2, "spec_id": 1, "part": None, "unpartitioned": True}, {"seq": 1}, False),
        ("position-deletes", {"seq": 2, "part": None}, {"seq": 1, "part": None}, True),
    ],
)
def test_delete_files_apply_by_age_and_partition(
    kind: str, delete: dict[str, Any], data: dict[str, Any], applies: bool
) -> None:
    assert in_scope(entry(kind, **delete), entry("data", **data)) is applies


def test_a_vector_replaces_the_position_deletes_of_its_file(tmp_path: Path) -> None:
    t = HandMadeTable(tmp_path, version=3)
    a, b = t.data([(1, "a", 0), (2, "b", 0), (3, "c", 0)]), t.data([(4, "d", 0), (5, "e", 0)])
    t.commit(add=[a, b])
    t.commit(add=[t.positions({a: [0], b: [0]})])
    t.commit(add=t.vectors({a: [1]}))  # a broken writer: the vector forgets position 0
    log = read(t)
    assert removed(log.commits[1]) == [(1, "a", 0), (4, "d", 0)]
    assert (removed(log.commits[2]), added(log.commits[2])) == ([(2, "b", 0)], [(1, "a", 0)])
    assert log.commits[2].removed is not None and log.commits[2].removed[0].by == log.commits[2].added_files[0].path


def test_equality_deletes_know_nulls_and_several_columns(tmp_path: Path) -> None:
    t = HandMadeTable(tmp_path)
    t.commit(add=[t.data([(1, None, 0), (2, "b", 0), (None, None, 0), (2, "c", 0)])])
    t.commit(add=[t.equality([2], [(None,)], part=0)])
    t.commit(add=[t.equality([1, 2], [(2, "b"), (2, "x")], part=0)])
    log = read(t)
    assert Counter(r.row for r in log.commits[1].removed or ()) == Counter([(1, None, 0), (None, None, 0)])
    assert removed(log.commits[2]) == [(2, "b", 0)]


def test_a_delete_of_rows_that_are_hidden_already_changes_nothing(tmp_path: Path) -> None:
    t = HandMadeTable(tmp_path)
    a = t.data([(1, "a", 0), (2, "b", 0)])
    t.commit(add=[a])
    first = t.positions({a: [0]})
    t.commit(add=[first])
    second = t.positions({a: [0, 1]})
    t.commit(add=[second])
    t.commit(remove=[first])  # still hidden by the second
    t.commit(remove=[second])  # both rows are back: an undelete
    log = read(t)
    assert [(removed(c), added(c)) for c in log.commits[1:]] == [
        ([(1, "a", 0)], []),
        ([(2, "b", 0)], []),
        ([], []),
        ([], [(1, "a", 0), (2, "b", 0)]),
    ]
    assert {r.by for r in log.commits[4].added or ()} == {"data/" + Path(second.path).name}


# --- net rows ---------------------------------------------------------------------------------------------------------


def change(row: Row, pos: int = 0) -> RowChange:
    return RowChange(row, "f", pos)


@given(st.lists(st.integers(0, 3)), st.lists(st.integers(0, 3)))
def test_net_is_the_difference_of_multisets(old: list[int], new: list[int]) -> None:
    gone, came = net([change((x,)) for x in old], [change((x,)) for x in new])
    assert Counter(c.row[0] for c in gone) == Counter(old) - Counter(new)
    assert Counter(c.row[0] for c in came) == Counter(new) - Counter(old)


def test_a_copy_on_write_carries_rows_over(tmp_path: Path) -> None:
    t = HandMadeTable(tmp_path)
    old = t.data([(1, "a", 0), (2, "b", 0), (2, "b", 0), (3, "c", 0)])
    t.commit(add=[old])
    t.commit(remove=[old], add=[t.data([(1, "a", 0), (2, "b", 0), (3, "C", 0)])])
    c = read(t).commits[1]
    assert (removed(c), added(c)) == ([(2, "b", 0), (3, "c", 0)], [(3, "C", 0)])
    assert len(c.added_files) == len(c.removed_files) == 1


# --- snapshots and their parents --------------------------------------------------------------------------------------


def test_operation_attempt_and_summary_are_told(tmp_path: Path) -> None:
    t = HandMadeTable(tmp_path)
    t.commit(add=[t.data([(1, "a", 0)])], op="w1-7", attempt=4)
    (c,) = read(t).commits
    assert (c.op, c.attempt, c.operation, c.summary, c.metadata) == ("w1-7", 4, "append", {"icequake-op": "w1-7"}, 1)
    assert c.manifest_list.startswith("metadata/snap-")
    assert c.added is not None and c.added[0].file == c.added_files[0].path
    assert c.added_files[0].path.startswith("data/")


def test_a_late_child_of_an_old_parent_is_compared_with_that_parent(tmp_path: Path) -> None:
    t = HandMadeTable(tmp_path)
    a = t.data([(1, "a", 0), (2, "b", 0)])
    first = t.commit(add=[a])
    t.commit(remove=[a], add=[t.data([(1, "x", 0)])])
    t.commit(add=[t.positions({a: [0]})])
    for n in range(5):
        t.commit(add=[t.data([(10 + n, "n", 0)])])
    live = reader()
    live.capture(t.pointer, 1)
    zombie = t.commit(add=[t.positions({a: [1]})], parent=first)
    c = live.finish(t.pointer, 2).by_snapshot()[zombie]
    assert (removed(c), added(c), c.parent_id) == ([(2, "b", 0)], [], first)
    assert states(read(t))[zombie] == Counter([(1, "a", 0)])


def test_snapshots_that_no_later_version_lists_are_in_the_log(tmp_path: Path) -> None:
    t = HandMadeTable(tmp_path)
    s1 = t.commit(add=[t.data([(1, "a", 0)])])
    s2 = t.commit(add=[t.data([(2, "b", 0)])])
    t.commit(add=[t.data([(3, "c", 0)])], drop=[s1, s2])
    log = read(t)
    assert [added(c) for c in log.commits] == [[(1, "a", 0)], [(2, "b", 0)], [(3, "c", 0)]]
    assert len(log.metadata[-1].snapshots) == 1
    assert [c.parent_id for c in log.main()] == [None, s1, s2]


def test_a_parent_that_was_never_seen_makes_the_rows_unknown_and_its_children_not(tmp_path: Path) -> None:
    t = HandMadeTable(tmp_path)
    s1 = t.commit(add=[t.data([(1, "a", 0)])])
    new, gone = t.data([(2, "b", 0)]), t.data([(9, "z", 0)])
    t.commit(add=[new], drop=[s1])
    t.commit(add=[t.data([(3, "c", 0)])])
    m = t.metadata
    m["metadata-log"] = []
    for v in t.versions:
        Path(v.location).unlink()
    t.versions.clear()
    t.write_metadata(m)
    log = read(t)
    first, second = log.commits
    assert (first.added, first.removed, first.readable) == (None, None, False)
    assert "was never seen" in first.problems[0].why and str(s1) in first.problems[0].why
    assert [f.path for f in first.added_files] == ["data/" + Path(new.path).name]
    assert added(second) == [(3, "c", 0)]
    assert gone.path not in str(log)


def test_parents_that_only_files_outside_the_chain_list_are_found(tmp_path: Path) -> None:
    t = HandMadeTable(tmp_path)
    for n in range(3):  # a catalog that lists the current snapshot only, and keeps no metadata-log
        before = [s["snapshot-id"] for s in t.metadata["snapshots"]]
        t.commit(add=[t.data([(n, "a", 0)])], drop=before)
    for v in t.versions:
        v.content["metadata-log"] = []
        Path(v.location).write_text(json.dumps(v.content))
    log = read(t)
    assert [added(c) for c in log.commits] == [[(0, "a", 0)], [(1, "a", 0)], [(2, "a", 0)]]
    assert ["in no version of the metadata chain" in " ".join(p.why for p in c.problems) for c in log.commits] == [
        True,
        True,
        False,
    ]
    assert len(log.metadata) == 1


def test_a_schema_change_of_a_column_shows_as_a_change_of_every_row(tmp_path: Path) -> None:
    t = HandMadeTable(tmp_path)
    t.commit(add=[t.data([(1, "a", 0), (2, None, 0)])])
    m = t.metadata
    renamed = json.loads(json.dumps(m["schemas"][0]))
    renamed["schema-id"] = 1
    renamed["fields"][1]["name"] = "note"
    renamed["fields"].append({"id": 4, "name": "val", "required": False, "type": "string", "initial-default": "d"})
    m["schemas"].append(renamed)
    m["current-schema-id"] = 1
    t.write_metadata(m)
    t.schemas = m["schemas"]
    t.commit(add=[t.data([(3, "n", 0, "given")])])
    first, second = read(t).commits
    assert Counter(r.row for r in first.added or ()) == Counter([(1, "a", 0), (2, None, 0)])
    assert Counter(r.row for r in second.removed or ()) == Counter([(1, "a", 0), (2, None, 0)])
    assert added(second) == [(1, "d", 0), (2, "d", 0), (3, "given", 0)]


# --- broken tables ----------------------------------------------------------------------------------------------------


Break = Callable[[Path], None]


def missing(path: Path) -> None:
    path.unlink()


def torn(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def emptied(path: Path) -> None:
    path.write_bytes(b"")


@pytest.mark.parametrize("broken", [missing, torn, emptied])
def test_a_broken_data_file_hides_the_rows_of_the_commits_that_need_it(tmp_path: Path, broken: Break) -> None:
    t = HandMadeTable(tmp_path)
    a, b = t.data([(1, "a", 0)]), t.data([(2, "b", 0), (3, "c", 0)])
    t.commit(add=[a])
    t.commit(add=[b], op="o2")
    t.commit(add=[t.data([(4, "d", 0)])])  # does not touch it
    t.commit(add=[t.positions({b: [0], a: [0]})])
    t.commit(remove=[b])
    t.commit(add=[t.data([(5, "e", 0)])])
    broken(Path(b.path))
    log = read(t)
    assert [c.readable for c in log.commits] == [True, False, True, False, False, True]
    named = "data/" + Path(b.path).name
    for c in log.commits:
        assert [named in p.why and str(c.snapshot_id) in p.why for p in c.problems] == ([] if c.readable else [True])
    assert "(op o2)" in log.commits[1].problems[0].why
    assert log.commits[1].added_files[0].path == named
    assert added(log.commits[5]) == [(5, "e", 0)]


@pytest.mark.parametrize("broken", [missing, torn])
def test_a_broken_manifest_list_hides_one_commit_and_what_its_children_changed(tmp_path: Path, broken: Break) -> None:
    t = HandMadeTable(tmp_path)
    t.commit(add=[t.data([(1, "a", 0)])])
    t.commit(add=[t.data([(2, "b", 0)])])
    t.commit(add=[t.data([(3, "c", 0)])])
    t.commit(add=[t.data([(4, "d", 0)])])
    broken(Path(t.metadata["snapshots"][1]["manifest-list"]))
    log = read(t)
    assert [c.readable for c in log.commits] == [True, False, False, True]
    assert "manifest list metadata/snap-" in log.commits[1].problems[0].why
    assert f"parent {log.commits[1].snapshot_id} could not be read" in log.commits[2].problems[0].why
    assert len(log.commits[2].added_files) == 1


@pytest.mark.parametrize("broken", [missing, torn])
def test_an_unreadable_manifest_that_parent_and_child_share_cancels(tmp_path: Path, broken: Break) -> None:
    t = HandMadeTable(tmp_path)
    a, b = t.data([(1, "a", 0)]), t.data([(2, "b", 0), (3, "c", 0)])
    s1 = t.commit(add=[a])
    t.commit(add=[b])
    t.commit(add=[t.positions({b: [1]})])
    t.commit(add=[t.positions({a: [0]})])  # may be a file of the unreadable manifest
    t.commit(remove=[b])
    broken(Path(t.manifests[s1][0].line["manifest_path"]))
    log = read(t)
    assert [c.readable for c in log.commits] == [False, True, True, False, True]
    assert removed(log.commits[2]) == [(3, "c", 0)]
    assert removed(log.commits[4]) == [(2, "b", 0)]
    assert "unreadable manifest metadata/manifest-" in log.commits[3].problems[0].why


def test_an_unreadable_manifest_of_deletes_hides_what_it_may_delete(tmp_path: Path) -> None:
    t = HandMadeTable(tmp_path)
    a = t.data([(1, "a", 0), (2, "b", 0)])
    t.commit(add=[a])
    s2 = t.commit(add=[t.positions({a: [0]})])
    t.commit(add=[t.data([(3, "c", 0)])])  # younger: the lost deletes cannot be for it
    t.commit(remove=[a])
    deletes = next(m for m in t.manifests[s2] if m.line["content"] == 1)
    Path(deletes.line["manifest_path"]).unlink()
    log = read(t)
    assert [c.readable for c in log.commits] == [True, False, True, False]
    assert "may apply to data/" in log.commits[3].problems[0].why


@pytest.mark.parametrize("broken", [missing, torn])
@pytest.mark.parametrize("kind", ["positions", "vector", "equality"])
def test_a_broken_delete_file_hides_what_it_may_delete(tmp_path: Path, broken: Break, kind: str) -> None:
    t = HandMadeTable(tmp_path, version=3 if kind == "vector" else 2)
    a, b = t.data([(1, "a", 0), (2, "b", 0)]), t.data([(3, "c", 1), (4, "d", 1)])
    t.commit(add=[a, b])
    delete = {
        "positions": lambda: t.positions({a: [0]}),
        "vector": lambda: t.vectors({a: [0]})[0],
        "equality": lambda: t.equality([1], [(1,)], part=0),
    }[kind]()
    t.commit(add=[delete])
    t.commit(remove=[b])  # another partition
    t.commit(add=[t.data([(5, "e", 0)])])  # younger
    t.commit(remove=[a])
    broken(Path(delete.path))
    log = read(t)
    assert [c.readable for c in log.commits] == [True, False, True, True, False]
    assert "data/" + Path(delete.path).name in log.commits[1].problems[0].why


def test_the_rest_of_a_commit_is_told_when_its_rows_cannot_be(tmp_path: Path) -> None:
    t = HandMadeTable(tmp_path)
    a, b = t.data([(1, "a", 0)]), t.data([(2, "b", 0)])
    t.commit(add=[a, b], op="o")
    Path(a.path).unlink()
    Path(b.path).unlink()
    (c,) = read(t).commits
    assert (c.op, len(c.added_files), len(c.problems)) == ("o", 2, 2)


def test_files_that_vanish_after_they_were_read_are_missed_at_the_end(tmp_path: Path) -> None:
    t = HandMadeTable(tmp_path / "t")
    a, b = t.data([(1, "a", 0)]), t.data([(2, "b", 0)])
    s1 = t.commit(add=[a])
    s2 = t.commit(add=[b])
    s3 = t.commit(remove=[a])
    live = reader(tmp_path / "log.jsonl")
    live.capture(t.pointer, 1)
    Path(a.path).unlink()
    Path(b.path).unlink()
    m = next(m for m in t.manifests[s1] if m.live)
    Path(m.line["manifest_path"]).unlink()
    log = live.finish(t.pointer, 2)
    assert all(c.readable for c in log.commits)
    manifest = "metadata/" + Path(m.line["manifest_path"]).name
    assert {f.path: set(f.snapshots) for f in log.missing_files} == {
        "data/" + Path(a.path).name: {s1, s2},
        "data/" + Path(b.path).name: {s2, s3},
        manifest: {s1, s2},
    }
    assert tablelog_file.read(tmp_path / "log.jsonl") == log


def test_expired_files_are_not_missed(tmp_path: Path) -> None:
    t = HandMadeTable(tmp_path)
    a = t.data([(1, "a", 0)])
    s1 = t.commit(add=[a])
    s2 = t.commit(remove=[a], add=[t.data([(2, "b", 0)])])
    live = reader()
    live.capture(t.pointer, 1)
    t.commit(add=[t.data([(3, "c", 0)])], drop=[s1, s2])
    Path(a.path).unlink()
    for s in t.versions[2].content["snapshots"]:
        Path(s["manifest-list"]).unlink()
    log = live.finish(t.pointer, 2)
    assert (log.missing_files, [c.problems for c in log.commits]) == ((), [(), (), ()])


@pytest.mark.parametrize(
    "code", ["duplicate-path", "several-dvs", "dangling-dv", "foreign-file", "record-count", "delete-position"]
)
def test_what_breaks_the_spec_is_told(tmp_path: Path, code: str) -> None:
    t = HandMadeTable(tmp_path, version=3)
    a, b = t.data([(1, "a", 0), (2, "b", 0)]), t.data([(3, "c", 0)])
    s1 = t.commit(add=[a])
    expect: list[Row] | None = []
    if code == "duplicate-path":
        t.commit(add=[a])
        expect = [(1, "a", 0), (2, "b", 0)]  # readers do read the file twice
    elif code == "several-dvs":
        t.commit(add=[*t.vectors({a: [0]}), *t.vectors({a: [0]})])
    elif code == "dangling-dv":
        t.commit(add=t.vectors({b: [0]}))
    elif code == "foreign-file":
        t.commit(add=[b], parent=s1, current=False)
        foreign = t.manifests[t.metadata["snapshots"][-1]["snapshot-id"]]
        t.commit(manifests=foreign)
        expect = [(3, "c", 0)]
    elif code == "record-count":
        wrong = File(b.path, 0, 5, b.size, 0)
        t.commit(add=[wrong])
        expect = [(3, "c", 0)]
    else:
        t.commit(add=t.vectors({a: [1, 2]}))
    c = read(t).commits[-1]
    assert code in {v.split(":")[0] for v in c.violations}
    assert added(c) == expect


def test_a_deletion_vector_of_another_cardinality_than_its_entry_says_is_told(tmp_path: Path) -> None:
    t = HandMadeTable(tmp_path, version=3)
    a = t.data([(1, "a", 0), (2, "b", 0)])
    t.commit(add=[a])
    (vector,) = t.vectors({a: [0]})
    t.commit(add=[replace(vector, records=2)])
    right, wrong = read(t).commits
    (told,) = wrong.violations
    assert (
        told.startswith("record-count: the deletion vector of ")
        and "deletes 1 rows" in told
        and told.endswith("says 2")
    )
    assert not right.violations and wrong.removed is not None and len(wrong.removed) == 1


def test_a_data_file_that_is_said_to_be_split_from_behind_its_first_row_group_is_told(tmp_path: Path) -> None:
    t = HandMadeTable(tmp_path)

    def split(of: Callable[[list[int]], tuple[int, ...] | None]) -> File:
        f = t.data([(n, "a", 0) for n in range(30)], group=10)
        footer = pq.read_metadata(f.path)
        groups = [footer.row_group(n).column(0) for n in range(footer.num_row_groups)]
        return replace(f, split_offsets=of([c.dictionary_page_offset or c.data_page_offset for c in groups]))

    for of in (tuple, lambda x: None, lambda x: (x[0],), lambda x: (x[0], x[2]), lambda x: (x[1], x[2])):
        t.commit(add=[split(of)])
    *right, wrong = read(t).commits
    assert [c.violations for c in right] == [()] * 4
    (told,) = wrong.violations
    assert told.startswith("split-offsets: the first row group of data/") and "begins at byte 4, but" in told
    assert len(added(wrong) or ()) == 30, "the reader reads whole files"


def test_a_data_file_at_another_partition_than_its_rows_is_told(tmp_path: Path) -> None:
    t = HandMadeTable(tmp_path)
    t.commit(add=[t.data([(1, "a", 0), (2, "b", 0)])])
    wrong = t.data([(3, "c", 0), (4, "d", 1)])
    t.commit(add=[wrong])
    t.commit(add=[t.data([(5, "e", None)], part=None)])
    told = [c.violations for c in read(t).commits]
    name = f"data/{Path(wrong.path).name}"
    assert told == [
        (),
        (f"file-partition: {name} is at the partition part=0, but its row at position 1 is of part=1",),
        (),
    ]


def test_position_deletes_at_another_partition_than_their_data_file_are_told(tmp_path: Path) -> None:
    t = HandMadeTable(tmp_path)
    a, b = t.data([(1, "a", 0)]), t.data([(2, "b", 1)])
    t.commit(add=[a, b])
    t.commit(add=[t.positions({a: [0]})])
    t.commit(add=[t.positions({b: [0]}, part=0)])
    right, wrong = read(t).commits[1:]
    assert right.violations == () and [v.split(":")[0] for v in wrong.violations] == ["delete-partition"]
    assert removed(wrong) == [], "such deletes do not apply"


@pytest.mark.parametrize(
    ("change", "code"),
    [({"seq": 9}, "entry-changed"), ({"path": "gone"}, "removed-not-live"), ({}, None)],
    ids=["another-sequence-number", "another-file", "as-it-was"],
)
def test_a_removed_file_that_was_not_live_as_told_is_told(
    tmp_path: Path, change: dict[str, Any], code: str | None
) -> None:
    t = HandMadeTable(tmp_path)
    a, b = t.data([(1, "a", 0)]), t.data([(2, "b", 0)])
    t.commit(add=[a])
    t.commit(add=[b])
    kept = t.manifests[t.metadata["snapshots"][-1]["snapshot-id"]][:1]
    id = t.metadata["snapshots"][-1]["snapshot-id"] + 2
    gone = replace(t.files[f"{a.path}@{a.offset}"], snapshot_id=id, **change)
    line = {"added_snapshot_id": id}
    t._next = id - 2
    deleted = t.manifest([(DELETED, gone)], snapshot_id=id, seq=3, deletes=False, line=line)
    t._next = id - 1
    assert t.commit(manifests=[*kept, deleted]) == id
    assert [v.split(":")[0] for v in read(t).commits[-1].violations] == ([] if code is None else [code])


@pytest.mark.parametrize(("given", "now"), [(8, 8), (8, 21), (8, None), (None, 21)])
def test_rows_keep_their_ids_when_manifests_are_merged(tmp_path: Path, given: int | None, now: int | None) -> None:
    """A file that had none, of format version 2, may get some."""
    t = HandMadeTable(tmp_path, version=3)
    a = t.data([(1, "a", 0), (2, "b", 0)])

    def snapshot(status: int, seq: int, first_row_id: int | None) -> None:
        ids = t.metadata["snapshots"][-1]["snapshot-id"] + 1 if seq > 1 else 1
        manifest = t.manifest([(status, a)], snapshot_id=ids, seq=seq, deletes=False, first_row_id=first_row_id)
        t.commit(manifests=[manifest])

    snapshot(ADDED, 1, given)
    a = replace(a, seq=1, snapshot_id=t.metadata["snapshots"][-1]["snapshot-id"])
    snapshot(EXISTING, 2, now)
    told = [v for v in read(t).commits[-1].violations if v.startswith("kept-row-id")]
    if given is None or given == now:
        assert told == []
    else:
        have = "none" if now is None else f"those from {now} on"
        assert told == [
            f"kept-row-id: the rows of data/{Path(a.path).name} had the ids from 8 on, and have {have} here"
        ]


def test_no_damage_of_any_file_is_an_exception(tmp_path: Path) -> None:
    t = HandMadeTable(tmp_path / "t", version=3)
    a, b = t.data([(1, "a", 0), (2, "b", 0), (7, "g", 0)]), t.data([(3, "c", 1), (4, "d", 1)])
    t.commit(add=[a, b])
    pos = t.positions({a: [0]})
    t.commit(add=[pos])
    t.commit(add=[t.equality([1], [(3,)], part=1)])
    t.commit(add=t.vectors({a: [0, 1]}), remove=[pos])
    t.commit(add=[t.data([(5, "e", 0)])], merge=True)
    whole = read(t)
    random = Random(1)
    for path in sorted(p for p in t.root.rglob("*") if p.is_file()):
        content = path.read_bytes()
        damaged = [content[: random.randrange(len(content))] for _ in range(3)]
        for _ in range(6):
            flipped = bytearray(content)
            flipped[random.randrange(len(flipped))] = random.randrange(256)
            damaged.append(bytes(flipped))
        for d in damaged:
            path.write_bytes(d)
            assert read(t).complete
        path.write_bytes(content)
    assert read(t) == whole


# --- the chain of metadata --------------------------------------------------------------------------------------------


def test_captures_are_incremental_and_the_file_says_what_the_memory_says(tmp_path: Path) -> None:
    t = HandMadeTable(tmp_path / "t")
    path = tmp_path / "tablelog" / "t.jsonl"
    live = reader(path)
    assert live.capture(None, 0).metadata is None  # no table yet
    newest = [live.newest_timestamp_ms]
    assert not path.exists()
    for n in range(6):
        t.commit(add=[t.data([(n, "a", 0)])])
        live.capture(t.pointer, n + 1)
        live.capture(t.pointer, n + 1)
        log = tablelog_file.read(path)
        assert log == live.log() and not log.complete and log.captured_until == n + 1
    newest.append(live.newest_timestamp_ms)
    assert newest == [None, 6000]
    log = live.finish(t.pointer, 9)
    assert tablelog_file.read(path) == log and log.complete
    assert log.commits == read(t).commits and log.metadata == read(t).metadata
    tablelog_file.write(log, tmp_path / "copy.jsonl")
    assert tablelog_file.read(tmp_path / "copy.jsonl") == log


def test_nothing_follows_what_the_disk_of_the_log_did_not_take(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    t = HandMadeTable(tmp_path / "t")
    path = tmp_path / "tablelog" / "t.jsonl"
    live = reader(path)
    t.commit(add=[t.data([(1, "a", 0)])])
    live.capture(t.pointer, 1)
    before = path.read_bytes()
    t.commit(add=[t.data([(2, "b", 0)])])
    with monkeypatch.context() as full:
        full.setattr(Path, "open", _no_space)
        with pytest.raises(TableReadError, match="No space left on device; free some space"):
            live.capture(t.pointer, 2)
    with pytest.raises(TableReadError, match="No space left on device"):  # there is room again, but records are missing
        live.finish(t.pointer, 3)
    assert path.read_bytes() == before and not tablelog_file.read(path).complete


def _no_space(*_: object, **__: object) -> NoReturn:
    raise OSError(28, "No space left on device")


def test_a_capture_reads_only_what_is_new(tmp_path: Path) -> None:
    reads: list[str] = []

    class Counting(ObjectStore):
        def read(self, path: str) -> bytes:
            reads.append(path)
            return super().read(path)

    t = HandMadeTable(tmp_path)
    for n in range(50):
        t.commit(add=[t.data([(n, "a", 0)])])
    live = reader(store=Counting())
    live.capture(t.pointer, 1)
    assert len(reads) == len(set(reads))
    reads.clear()
    t.commit(add=[t.data([(100, "a", 0)])])
    live.capture(t.pointer, 2)
    assert len(reads) == 4  # metadata.json, manifest list, manifest, data file


def test_the_tail_of_a_truncated_metadata_log_is_reached_through_older_files(tmp_path: Path) -> None:
    t = HandMadeTable(tmp_path)
    for n in range(7):
        t.commit(add=[t.data([(n, "a", 0)])])
    for v in t.versions:
        v.content["metadata-log"] = v.content["metadata-log"][-2:]
        Path(v.location).write_text(json.dumps(v.content))
    log = read(t)
    assert [m.location for m in log.metadata] == [v.location for v in t.versions]
    assert [m.problems for m in log.metadata if m.problems] == []


def test_a_missing_or_torn_version_of_the_chain_is_told_by_its_successor(tmp_path: Path) -> None:
    t = HandMadeTable(tmp_path)
    for n in range(5):
        t.commit(add=[t.data([(n, "a", 0)])])
    Path(t.versions[2].location).unlink()
    torn(Path(t.versions[4].location))
    log = read(t)
    assert [m.location for m in log.metadata] == [t.versions[i].location for i in (0, 1, 3, 5)]
    assert [bool(m.problems) for m in log.metadata] == [False, False, True, True]
    assert len(log.commits) == 5 and all(c.readable for c in log.commits)


def test_a_pointer_to_nothing_is_a_problem_of_the_log(tmp_path: Path) -> None:
    t = HandMadeTable(tmp_path / "t")
    t.commit(add=[t.data([(1, "a", 0)])])
    path = tmp_path / "log.jsonl"
    live = reader(path)
    live.capture(t.pointer, 1)
    log = live.finish(str(tmp_path / "t" / "metadata" / "no.metadata.json"), 2)
    assert len(log.commits) == 1 and "is missing" in log.problems[0].why
    assert tablelog_file.read(path) == log


def test_gzipped_metadata_is_read(tmp_path: Path) -> None:
    t = HandMadeTable(tmp_path)
    t.commit(add=[t.data([(1, "a", 0)])])
    for v in t.versions:
        Path(v.location).write_bytes(gzip.compress(Path(v.location).read_bytes()))
    assert len(read(t).commits) == 1


def test_a_chain_that_leaves_the_captured_version_behind_is_told_and_nothing_is_lost(tmp_path: Path) -> None:
    t = HandMadeTable(tmp_path)
    t.commit(add=[t.data([(1, "a", 0)])])
    base = t.versions[-1]
    s2 = t.commit(add=[t.data([(2, "b", 0)])])
    live = reader()
    live.capture(t.pointer, 1)
    lost = t.versions.pop()  # another writer swings the pointer from the same base
    s3 = t.commit(add=[t.data([(3, "c", 0)])])
    assert t.versions[-2] is base
    log = live.finish(t.pointer, 2)
    assert [m.location for m in log.metadata][-2:] == [lost.location, t.pointer]
    assert (
        "does not descend from it" in log.metadata[-1].problems[0].why
        and lost.location in log.metadata[-1].problems[0].why
    )
    assert {c.snapshot_id for c in log.commits} >= {s2, s3} and all(c.readable for c in log.commits)
    assert [c.snapshot_id for c in log.main()] == [log.commits[0].snapshot_id, s3]


def test_a_pointer_that_is_set_back_is_told(tmp_path: Path) -> None:
    t = HandMadeTable(tmp_path)
    s1 = t.commit(add=[t.data([(1, "a", 0)])])
    t.commit(add=[t.data([(2, "b", 0)])])
    live = reader()
    live.capture(t.pointer, 1)
    live.capture(t.versions[1].location, 2)
    log = live.log()
    assert [m.location for m in log.metadata] == [t.versions[i].location for i in (0, 1, 2, 1)]
    assert log.metadata[-1].problems and log.metadata[-1].current == s1
    assert len(log.commits) == 2
    t.versions.pop()
    t.commit(add=[t.data([(3, "c", 0)])])
    log = live.finish(t.pointer, 3)
    assert not log.metadata[-1].problems and len(log.commits) == 3


def test_a_version_that_lost_its_race_is_not_in_the_log_but_listed(tmp_path: Path) -> None:
    t = HandMadeTable(tmp_path)
    t.commit(add=[t.data([(1, "a", 0)])])
    t.commit(add=[t.data([(2, "b", 0)])])
    loser = t.versions.pop()
    t.commit(add=[t.data([(3, "c", 0)])])
    live = reader()
    log = live.finish(t.pointer, 1)
    assert [added(c) for c in log.commits] == [[(1, "a", 0)], [(3, "c", 0)]]
    assert live.unreferenced_metadata() == [loser.location]


def test_a_snapshot_told_differently_later_is_told(tmp_path: Path) -> None:
    t = HandMadeTable(tmp_path)
    s1 = t.commit(add=[t.data([(1, "a", 0)])])
    m = t.metadata
    m["snapshots"][0]["timestamp-ms"] += 1
    t.write_metadata(m)
    log = read(t)
    assert str(s1) in log.metadata[-1].problems[0].why


# --- the store --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "plain"),
    [
        ("s3://b/k", "s3://b/k"),
        ("s3a://b/k", "s3://b/k"),
        ("S3N://b/k", "s3://b/k"),
        ("file:///x/y", "/x/y"),
        ("file:/x/y", "/x/y"),
        ("file://localhost/x", "/x"),
        ("/x/y", "/x/y"),
    ],
)
def test_a_place_has_one_spelling(path: str, plain: str) -> None:
    assert normalise(path) == plain


def test_the_store_tells_absence_from_failure(tmp_path: Path) -> None:
    store = ObjectStore()
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "x").write_bytes(b"1")
    assert store.read(f"file://{tmp_path}/d/x") == b"1"
    assert store.exists(f"{tmp_path}/d/x") and not store.exists(f"{tmp_path}/d") and not store.exists(f"{tmp_path}/y")
    with pytest.raises(FileNotFoundError):
        store.read(f"{tmp_path}/y")
    with pytest.raises(FileNotFoundError):
        store.read(f"{tmp_path}/d/x/y")
    assert store.list(f"file://{tmp_path}") == [f"file://{tmp_path}/d/x"]
    assert store.list(f"{tmp_path}/nowhere") == []
    with pytest.raises(TableReadError, match="only s3"):
        store.read("gs://b/k")


def test_a_store_that_does_not_answer_is_one_clear_line(unused_tcp_port: int) -> None:
    store = ObjectStore(endpoint=f"http://127.0.0.1:{unused_tcp_port}", access_key="a", secret_key="b", timeout=1.0)
    for ask in (store.read, store.exists, store.list):
        with pytest.raises(TableReadError) as e:
            ask("s3://bucket/key")
        assert "\n" not in str(e.value) and str(unused_tcp_port) in str(e.value)


@pytest.fixture
def unused_tcp_port() -> int:
    import socket

    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


def test_a_capture_that_the_store_cuts_short_is_made_up_for_by_the_next(tmp_path: Path) -> None:
    class Failing(ObjectStore):
        """Answers ``left`` reads, then fails."""

        left = 0

        def read(self, path: str) -> bytes:
            self.left -= 1
            if self.left < 0:
                raise TableReadError("no answer")
            return super().read(path)

    t = HandMadeTable(tmp_path / "t", version=3)
    a, b = t.data([(1, "a", 0), (2, "b", 0), (7, "g", 0)]), t.data([(3, "c", 1), (4, "d", 1)])
    t.commit(add=[a, b])
    pos = t.positions({a: [0]})
    t.commit(add=[pos])
    t.commit(add=[t.equality([1], [(3,)], part=1)])
    t.commit(add=t.vectors({a: [0, 1]}), remove=[pos])
    t.commit(add=[t.data([(5, "e", 0)])], merge=True)
    whole = read(t)
    total = 0
    for answers in range(1, 40, 3):
        store = Failing()
        live = reader(tmp_path / f"{answers}.jsonl", store=store)
        failures = 0
        told: list[Growth] = []
        mark = FROM_THE_START
        for attempt in range(60):  # the bound grows, so this ends
            store.left = answers + attempt
            try:
                live.capture(t.pointer, 1)
                break
            except TableReadError:
                failures += 1
            finally:
                new, mark = live.grown(mark)
                told.append(new)
        else:
            raise AssertionError("never got through")
        store.left = 10**9
        log = live.finish(t.pointer, 1)
        told.append(live.grown(mark)[0])
        assert [m for g in told for m in g.metadata] == [*log.metadata], "what grew, grew once"
        assert [c for g in told for c in g.commits] == [*log.commits]
        assert [c for g in told for c in g.captures] == [*log.captures]
        assert all({c.metadata for c in g.commits} <= {m.n for m in g.metadata} for g in told), "whole versions"
        assert (log.commits, log.metadata) == (whole.commits, whole.metadata), answers
        assert tablelog_file.read(tmp_path / f"{answers}.jsonl") == log
        total += failures
    assert total > 5


def test_data_that_was_forgotten_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    t = HandMadeTable(tmp_path)
    old = [t.data([(n, "x" * 100, 0)]) for n in range(20)]
    for f in old:
        t.commit(add=[f])
    live = reader()
    live._files = TableFiles(ObjectStore(), live._relative, data_bytes=200)
    snapshots = live._snapshots
    snapshots._files = snapshots.tree._files = snapshots.tree._state._files = live._files
    live._files._rows._bound = 3
    live.capture(t.pointer, 1)
    t.commit(remove=old[:10])
    Path(old[3].path).unlink()
    t.commit(remove=old[10:])
    c, d = live.finish(t.pointer, 2).commits[-2:]
    assert not c.readable and "data/" + Path(old[3].path).name in c.problems[0].why
    assert removed(d) == [(n, "x" * 100, 0) for n in range(10, 20)]


# --- everything at once -----------------------------------------------------------------------------------------------


class Oracle:
    """What a snapshot's rows are, scanned from scratch, straight from the words of the spec."""

    def __init__(self) -> None:
        self.rows: dict[str, list[Row]] = {}
        self.positions: dict[str, dict[str, list[int]]] = {}
        self.keys: dict[str, list[Row]] = {}

    def scan(self, t: HandMadeTable, snapshot: int) -> Counter[Row]:
        live = [t.files[f"{f.path}@{f.offset}"] for m in t.manifests[snapshot] for f in m.live]
        out: Counter[Row] = Counter()
        for f in live:
            if f.content != 0:
                continue
            same = [d for d in live if (d.spec_id, d.part) == (f.spec_id, f.part)]
            vectors = [d for d in same if d.referenced == f.path and f.seq <= d.seq]  # type: ignore[operator]
            files = [d for d in same if d.content == 1 and d.referenced is None and f.seq <= d.seq]  # type: ignore[operator]
            hidden = {p for d in vectors or files for p in self.positions[f"{d.path}@{d.offset}"].get(f.path, [])}
            equality = [
                d
                for d in live
                if d.content == 2 and f.seq < d.seq and (d in same or not t.specs[d.spec_id]["fields"])  # type: ignore[operator]
            ]
            for pos, row in enumerate(self.rows[f.path]):
                gone = pos in hidden or any(
                    tuple(row[i - 1] for i in d.equality_ids) in self.keys[d.path] for d in equality
                )
                out[row] += not gone
        return +out


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_any_history_accumulates_to_what_a_scan_from_scratch_gives(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    root = tmp_path_factory.mktemp("any")
    t, oracle = HandMadeTable(root / "t", version=3), Oracle()
    t.specs.append({"spec-id": 1, "fields": []})
    live = reader(root / "log.jsonl")
    snapshots: list[int] = []
    row = st.tuples(st.integers(0, 3), st.sampled_from(["a", "b", None]))
    for _ in range(data.draw(st.integers(1, 9), "commits")):
        parent = data.draw(st.sampled_from([*snapshots, snapshots[-1]]) if snapshots else st.none(), "parent")
        there = [f for m in t.manifests.get(parent or 0, []) for f in m.live]
        datas = [f for f in there if f.content == 0]
        add: list[File] = []
        remove = data.draw(st.lists(st.sampled_from(there), max_size=2, unique=True), "remove") if there else []
        for _ in range(data.draw(st.integers(0, 2), "new files")):
            spec_id, part = data.draw(st.sampled_from([(0, 0), (0, 1), (1, None)]), "spec, partition")
            rows = [(*r, part) for r in data.draw(st.lists(row, max_size=4), "rows")]
            f = t.data(rows, part=part, spec_id=spec_id)
            oracle.rows[f.path] = rows
            add.append(f)
        kind = data.draw(st.sampled_from(["none", "positions", "vector", "equality"]), "deletes")
        if kind == "equality":
            spec_id, part = data.draw(st.sampled_from([(0, 0), (0, 1), (1, None)]), "spec, partition")
            ids = data.draw(st.sampled_from([(1,), (2,), (1, 2)]), "ids")
            keys = [tuple(r[i - 1] for i in ids) for r in data.draw(st.lists(row, max_size=2), "keys")]
            d = t.equality(ids, keys, part=part, spec_id=spec_id)
            oracle.keys[d.path] = keys
            add.append(d)
        elif kind != "none" and datas + add:
            targets = data.draw(st.lists(st.sampled_from(datas + add), min_size=1, max_size=2, unique=True), "targets")
            at = {f: data.draw(st.lists(st.integers(0, 3), max_size=3, unique=True), "positions") for f in targets}
            made = [t.positions(at)] if kind == "positions" else t.vectors(at)
            for d in made:
                said = {f.path: list(p) for f, p in at.items() if d.referenced in (None, f.path)}
                oracle.positions[f"{d.path}@{d.offset}"] = said
            add += made
        merge = data.draw(st.booleans(), "merge")
        snapshots.append(t.commit(add=add, remove=remove, parent=parent, merge=merge))
        if data.draw(st.booleans(), "capture"):
            live.capture(t.pointer, 0)
    log = live.finish(t.pointer, 1)
    assert [c.problems for c in log.commits if c.problems] == []
    found = states(log)
    for s in snapshots:
        assert found[s] == oracle.scan(t, s)
    assert tablelog_file.read(root / "log.jsonl") == log
    assert read(t).commits == log.commits


@given(
    st.lists(
        st.tuples(st.lists(st.integers(0, 9), unique=True), st.lists(st.integers(0, 5)), st.booleans()), max_size=8
    )
)
def test_metadata_records_that_say_only_differences_say_everything(
    versions: list[tuple[list[int], list[int], bool]],
) -> None:
    chain = [
        Metadata(
            n,
            f"m{n}",
            n,
            None,
            tuple(ids),
            {},
            (Problem("other", "p"),) if flag else (),
            format_version=2,
            last_sequence_number=n,
            next_row_id=None,
            raw={"snapshot-log": [{"snapshot-id": x} for x in log], "properties": {"a": "b"}}
            | ({"x": n} if flag else {}),
        )
        for n, (ids, log, flag) in enumerate(versions)
    ]
    previous: Metadata | None = None
    back: Metadata | None = None
    for m in chain:
        record = json.loads(tablelog_file.dump(tablelog_file.metadata_to_json(m, previous)))
        version = tablelog_file.LogLines().explained(record)
        assert isinstance(version, tableformat.MetadataRecord)
        back = version.after(back)
        assert back == m
        previous = m


def test_a_table_that_pyiceberg_wrote(tmp_path: Path) -> None:
    pyiceberg = pytest.importorskip("pyiceberg.catalog.sql")
    import pyarrow as pa

    catalog = pyiceberg.SqlCatalog("c", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}/w")
    try:
        catalog.create_namespace("ns")
        schema = pa.schema([("id", pa.int64()), ("val", pa.string()), ("part", pa.int32())])

        def rows(*found: Row) -> pa.Table:
            return pa.Table.from_pylist([dict(zip(COLUMNS, r, strict=True)) for r in found], schema)

        table = catalog.create_table("ns.t", schema)
        table.append(rows((1, "a", 0), (2, "b", 0), (2, "b", 0)))
        table.append(rows((3, None, 1)))
        table.overwrite(rows((2, "B", 0)), "id = 2")
        table.delete("id = 1")
        table.append(rows((4, "d", 1)))
        live = reader(tmp_path / "log.jsonl")
        log = live.finish(table.metadata_location, 1)
        found = states(log)
        assert len(log.commits) == len(table.metadata.snapshots) >= 5
        for s in table.metadata.snapshots:
            said = table.scan(snapshot_id=s.snapshot_id).to_arrow().to_pylist()
            assert found[s.snapshot_id] == Counter(tuple(r[c] for c in COLUMNS) for r in said)
        assert [c.violations for c in log.commits if c.violations] == []
        assert all(c.attempt == 0 for c in log.commits)
    finally:
        catalog.close()


def test_the_log_has_what_manifests_say_of_columns_and_partitions_and_what_the_files_have(tmp_path: Path) -> None:
    pyiceberg = pytest.importorskip("pyiceberg.catalog.sql")
    import pyarrow as pa
    from pyiceberg.transforms import IdentityTransform

    catalog = pyiceberg.SqlCatalog("c", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}/w")
    try:
        catalog.create_namespace("ns")
        schema = pa.schema([("id", pa.int64()), ("val", pa.string()), ("part", pa.int32()), ("x", pa.float64())])
        table = catalog.create_table("ns.t", schema)
        table.update_spec().add_field("part", IdentityTransform(), "part").commit()
        long = "a value of twenty four b"
        rows = [(1, "a", 7, 0.5), (3, long, 7, float("nan")), (2, None, 7, None)]
        names = schema.names
        table.append(pa.Table.from_pylist([dict(zip(names, r, strict=True)) for r in rows], schema))
        path = tmp_path / "log.jsonl"
        log = reader(path).finish(table.metadata_location, 1)
        [c] = log.commits
        assert isinstance(c, IcebergCommit) and c.manifests is not None and c.kept_files == ()
        [line], [f] = c.manifests, c.added_files
        assert line.partitions is not None and fields(line.partitions) == [PartitionSummary("i", False, False, 7, 7)]
        assert line.found == line.partitions == "i,0,0,7,7"
        assert line.length == line.stored == Path(normalise(f"{table.metadata.location}/{line.path}")).stat().st_size
        assert line.counts == (1, 0, 0, 3, 0, 0) and f.manifest == 0
        assert f.columns is not None and f.exact is not None
        said, found = columns(f.columns), columns(f.exact)
        assert said[1] == ColumnStatistics("i", 3, 0, None, 1, 3)
        assert said[2] == ColumnStatistics("t", 3, 1, None, "a", "a value of twenu")
        assert found[1] == ColumnStatistics("i", 3, 0, None, 1, 3)
        assert found[2] == ColumnStatistics("t", 3, 1, None, "a", long)
        assert found[4] == ColumnStatistics("f", 3, 1, 1, 0.5, 0.5)
        assert columns_text(found.items()) == f.exact
        assert f.stored == f.size and f.split_offsets and log.sizes == ()
        assert log.metadata[-1].raw["refs"] == {"main": {"type": "branch"}}
        assert tablelog_file.read(path) == log
    finally:
        catalog.close()


def test_an_entry_that_a_new_manifest_tells_otherwise_and_an_object_of_another_size_are_in_the_log(
    tmp_path: Path,
) -> None:
    t = HandMadeTable(tmp_path)
    a, b = t.data([(1, "a", 0)]), t.data([(2, "b", 0)])
    t.commit(add=[a, b])
    entries = [(EXISTING, replace(known, size=known.size + (known.path == a.path))) for known in t.files.values()]
    line = t.manifest(entries, snapshot_id=9, seq=2, deletes=False)
    t.commit(manifests=[line])
    t.commit(merge=True)
    t.commit(merge=True)
    live = reader(tmp_path / "log.jsonl")
    live.capture(t.pointer, 1)
    with Path(b.path).open("ab") as out:
        out.write(b"more")
    log = live.finish(t.pointer, 2)
    first, second = (Path(x.path).relative_to(tmp_path).as_posix() for x in (a, b))
    kept = [[(f.path, f.size) for f in c.kept_files or ()] for c in iceberg_log(log).commits]
    assert kept == [[], [(first, a.size + 1)], [(first, a.size)], []]
    assert log.sizes == (ObjectSize(second, b.size + 4),)
    assert tablelog_file.read(tmp_path / "log.jsonl") == log


def test_logs_without_statistics_are_read(tmp_path: Path) -> None:
    t = HandMadeTable(tmp_path)
    t.commit(add=[t.data([(1, "a", 0)])])
    lines = [json.loads(x) for x in map(tablelog_file.dump, tablelog_file.records(read(t)))]
    lines[0]["format"] = 2
    for x in lines:
        x.pop("sizes", None)
        for key in ("manifests", "kept_files"):
            x.pop(key, None)
        for f in x.get("added_files", ()):
            for key in ("exact", "stored", "manifest"):
                del f[key]
    path = tmp_path / "old.jsonl"
    path.write_text("".join(json.dumps(x) + "\n" for x in lines))
    [c] = iceberg_log(tablelog_file.read(path)).commits
    assert c.manifests is None and c.added_files[0].exact is None and c.readable


def test_the_hand_made_table_is_one_that_pyiceberg_reads(tmp_path: Path) -> None:
    """The tests' own tables are what they claim to be."""
    pytest.importorskip("pyiceberg")
    from pyiceberg.table import StaticTable

    t = HandMadeTable(tmp_path)
    a = t.data([(1, "a", 0), (2, "b", 0)])
    t.commit(add=[a, t.data([(3, "c", 1)])])
    t.commit(add=[t.positions({a: [0]})], merge=True)
    m = t.metadata
    m |= {"last-column-id": 3, "last-partition-id": 1000, "sort-orders": [{"order-id": 0, "fields": []}]}
    m |= {"default-sort-order-id": 0}
    v = t.write_metadata(m)
    said = StaticTable.from_metadata(v.location).scan().to_arrow().to_pylist()
    assert Counter(tuple(r.values()) for r in said) == states(read(t))[m["current-snapshot-id"]]


def test_a_log_can_be_read_from_the_moment_when_it_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def killed_at_the_first_line(file: LogFile, records: object) -> NoReturn:
        raise KeyboardInterrupt

    monkeypatch.setattr(LogFile, "append", killed_at_the_first_line)
    t = HandMadeTable(tmp_path / "t", version=2)
    t.commit(add=[t.data([(1, "a", 0)])])
    path = tmp_path / "t.jsonl"
    killed = TableReader(ObjectStore(), table="t", identifier="c.n.t", columns=COLUMNS, path=path)
    with pytest.raises(KeyboardInterrupt):
        killed.capture(t.pointer, 1)
    log = tablelog_file.read(path)
    assert (log.table, log.commits, log.captured_until, log.complete) == ("t", (), None, False)
    assert list(tmp_path.glob(".*")) == [], "no temporary file is left"
