"""Runs as a folder of columns: what is written is read again, in blocks or whole, and what is no dataset is told."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

from bench import columns as made
from checkers.columns import Frame, frame_of
from checkers.columns.dataset import RECORDS, Writer, each, is_dataset, parts_of, rows_of, write
from checkers.columns.frames import NEVER
from checkers.columns.spark import (
    DOUBLE_EVENT,
    DOUBLE_OPERATION,
    OVERLAP,
    check_frames,
    problems,
)
from checkers.evidence.replace import replace
from checkers.evidence.runfolder import StoreError
from checkers.timeline.timeline import timelines
from tests.support.simulator import Defects, simulate
from workloads.tables import TableSpec

SPECS = [
    TableSpec(name="a", mode="merge-on-read", partitions=2, seed_rows=4),
    TableSpec(name="b", format_version=3, isolation="snapshot", partitioned=False, partitions=2, seed_rows=4),
]


def tables() -> list[tuple[str, Frame]]:
    """Tables of several runs: clean ones, long ones, broken ones, and a run whose history is none."""
    out: list[tuple[str, Frame]] = []
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
    assert problems([f]) == []
    assert problems([f, f]) == [DOUBLE_OPERATION, DOUBLE_EVENT, OVERLAP]
    then = np.where(f.completed == NEVER, NEVER, f.completed + 10_000_000)
    later = replace(f, invoked=f.invoked + 10_000_000, completed=then)
    assert problems([f, later]) == [DOUBLE_OPERATION, OVERLAP], "a process goes on after info"
    others = replace(f, name=f.name + np.uint64(1), process=f.process + (1 << 40))
    assert problems([f, others]) == [DOUBLE_EVENT]


def test_a_table_is_written_in_blocks(tmp_path: Path) -> None:
    writer = Writer(tmp_path)
    writer.stream("run", made.blocks(5_000, block=700))
    assert not is_dataset(tmp_path), "not yet"
    writer.close()
    ((run, f),) = each(tmp_path)
    parts = [block for block, _ in made.blocks(5_000, block=700)]
    for column in fields(Frame):
        if column.name not in ("spec", "kinds"):
            whole = np.concatenate([getattr(p, column.name) for p in parts])
            assert (getattr(f, column.name) == whole).all(), column.name
    assert run == "run" and len(parts) == 8
    assert {v.valid for v in check_frames([("run", f)])["run"]} == {True}


@pytest.mark.parametrize("operations", [1, 7, 5_000])
def test_what_the_generator_makes_is_a_clean_history_however_it_is_cut(operations: int, tmp_path: Path) -> None:
    for block in (8, 1 << 20) if operations < 100 else (1_000, 1 << 20):
        writer = Writer(tmp_path / str(block))
        writer.stream("run", made.blocks(operations, block=block))
        writer.close()
        assert {v.valid for v in check_frames(list(each(tmp_path / str(block))))["run"]} == {True}


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
