"""Runs as a folder of columns: what is written is read again, what is too long for the memory is not, and what is no dataset is told."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bench import columns as made
from checkers.columns import CHECKERS, TableFrame, frame_of
from checkers.columns import cluster as columns
from checkers.columns.cluster import (
    DOUBLE_EVENT,
    DOUBLE_OPERATION,
    OVERLAP,
    WholeRunColumns,
    check_frames,
    judge_run,
    problems,
)
from checkers.columns.dataset import RECORDS, DatasetWriter, each, is_dataset, parts_of, rows_of, write
from checkers.columns.hashing import NEVER_CAME
from checkers.evidence.replace import replace
from checkers.evidence.runfolder import StoreError
from checkers.timeline.timelines import timelines
from tests.support.simulator import Defects, simulate
from workloads.tables import TableSpec

SPECS = [
    TableSpec(name="a", mode="merge-on-read", partitions=2, seed_rows=4),
    TableSpec(name="b", format_version=3, isolation="snapshot", partitioned=False, partitions=2, seed_rows=4),
]


def tables() -> list[tuple[str, TableFrame]]:
    """Tables of several runs: clean ones, long ones, broken ones, and a run whose history is none."""
    out: list[tuple[str, TableFrame]] = []
    for seed in range(4):
        for defects in (Defects(), Defects(stale_read=0.6), Defects(forget=0.3)):
            e = simulate(seed, SPECS, defects=defects).evidence()
            run = f"run-{seed}-{'clean' if defects == Defects() else 'broken'}-{len(out)}"
            out += [(run, frame_of(t)) for t in timelines(e)[0]]
    out += [("long", made.frame(20_000, "t"))]
    wrong = made.frame(5_000, "t", seed=3)
    val = wrong.val.copy()
    val[1000] += np.uint64(1)
    out += [("wrong", replace(wrong, val=val)), ("twice", made.frame(300, "a")), ("twice", made.frame(300, "b"))]
    return out


def test_a_dataset_gives_its_tables_back(tmp_path: Path) -> None:
    written = tables()
    write(written, tmp_path / "d")
    again = list(each(tmp_path / "d"))
    assert [(r, f.spec) for r, f in again] == [(r, f.spec) for r, f in written]
    assert {r: [v.to_json() for v in vs] for r, vs in check_frames(again).items()} == {
        r: [v.to_json() for v in vs] for r, vs in check_frames(written).items()
    }


def test_what_is_no_history_of_one_run_is_told() -> None:
    f = made.frame(300)

    def problems_of(*frames: TableFrame) -> list[str]:
        return problems([*map(WholeRunColumns.of, frames)])

    assert problems_of(f) == problems_of() == []
    assert problems_of(f, f) == [DOUBLE_OPERATION, DOUBLE_EVENT, OVERLAP]
    then = np.where(f.completed == NEVER_CAME, NEVER_CAME, f.completed + 10_000_000)
    later = replace(f, invoked=f.invoked + 10_000_000, completed=then)
    assert problems_of(f, later) == [DOUBLE_OPERATION, OVERLAP], "a process goes on after info"
    others = replace(f, name=f.name + np.uint64(1), process=f.process + (1 << 40))
    assert problems_of(f, others) == [DOUBLE_EVENT]


@pytest.mark.parametrize("operations", [1, 7, 5_000])
def test_what_the_generator_makes_is_a_clean_history(operations: int) -> None:
    assert {v.valid for v in check_frames([("run", made.frame(operations))])["run"]} == {True}


def test_a_folder_is_a_dataset_when_all_of_its_tables_are_there(tmp_path: Path) -> None:
    writer = DatasetWriter(tmp_path)
    writer.add("run", made.frame(300))
    assert not is_dataset(tmp_path), "not yet"
    writer.close()
    assert is_dataset(tmp_path) and len(list(each(tmp_path))) == 1


@pytest.fixture
def small_machine(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """A container with 2 GB, of which a table with more than 1,000 records takes 1 MB a record."""
    limits = tmp_path_factory.mktemp("cgroup")
    (limits / "memory.max").write_text("3000000000\n")
    (limits / "memory.current").write_text("1000000000\n")
    for name, value in (("CONTAINER", limits), ("LONG", 1_000), ("BASE", 0), ("A_RECORD", 1_000_000)):
        monkeypatch.setattr(columns, name, value)


def test_a_table_for_which_the_memory_is_not_enough_is_not_read_and_the_run_is_unknown(
    tmp_path: Path, small_machine: None
) -> None:
    write([("r", made.frame(300, "fits", seed=1)), ("r", made.frame(600, "long", seed=2))], tmp_path)
    (tmp_path / RECORDS / "part=1" / "records-00001.parquet").write_bytes(b"")
    with pytest.raises(StoreError, match="no Parquet file"):
        judge_run(tmp_path, list(enumerate(parts_of(tmp_path))))
    (tmp_path / RECORDS / "part=1" / "records-00001.parquet").unlink()
    needed = rows_of(tmp_path, 1) / 1000
    verdicts = judge_run(tmp_path, list(enumerate(parts_of(tmp_path))))
    assert {v.valid for v in verdicts} == {"unknown"} and [v.checker for v in verdicts] == [*CHECKERS]
    assert {v.notes for v in verdicts} == {(f"long: not judged: needs {needed:.1f} GB, and 2.0 GB are free",)}
    assert {(*v.stats["tables"],) for v in verdicts} == {("fits",)}


def test_a_long_table_is_judged_where_there_is_memory(tmp_path: Path, small_machine: None) -> None:
    write([("r", made.frame(400, "long"))], tmp_path)
    assert 1_000 < rows_of(tmp_path, 0) < 2_000
    assert {v.valid for v in judge_run(tmp_path, list(enumerate(parts_of(tmp_path))))} == {True}


def test_what_is_no_dataset_is_told_with_the_file(tmp_path: Path) -> None:
    write([("run", made.frame(300))], tmp_path)
    records = tmp_path / RECORDS / "part=0" / "records-00000.parquet"
    records.write_bytes(records.read_bytes()[:-100])
    with pytest.raises(StoreError, match=r"records-00000\.parquet: no Parquet file"):
        rows_of(tmp_path, 0)
    with pytest.raises(StoreError, match=r"records-00000\.parquet: no records"):
        list(each(tmp_path))
    records.unlink()
    with pytest.raises(StoreError, match="the dataset lost a table"):
        rows_of(tmp_path, 0)
    for text in ("", "{", "[1]", '{"a": 1}', '[{"run": "r", "kinds": [], "width": 13}]'):
        (tmp_path / "parts.json").write_text(text)
        with pytest.raises(StoreError, match=r"parts\.json: "):
            parts_of(tmp_path)
    with pytest.raises(StoreError, match="cannot be read"):
        parts_of(tmp_path / "nowhere")
