"""Two engines, one verdict: tables judged in this process and by tasks of a real Spark."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from bench import columns as made
from checkers.columns import Frame, frame_of
from checkers.columns.dataset import each, write
from checkers.columns.frames import NEVER
from checkers.columns.spark import (
    DOUBLE_EVENT,
    DOUBLE_OPERATION,
    OVERLAP,
    check_frames,
    problems,
)
from checkers.timeline.timeline import timelines
from compose.install.installation import Installation
from tests.support.runs import environment
from tests.support.simulator import Defects, simulate
from workloads.tables import TableSpec

SPECS = [
    TableSpec(name="a", mode="merge-on-read", partitions=2, seed_rows=4),
    TableSpec(name="b", format_version=3, isolation="snapshot", partitioned=False, partitions=2, seed_rows=4),
]


def tables() -> list[tuple[str, Frame]]:
    """Tables of several runs: clean ones, long ones, broken ones, and a run whose history is none."""
    out = []
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


@pytest.mark.spark
def test_both_engines_say_the_same(installation: Installation, tmp_path: Path) -> None:
    written = tables()
    write(written, tmp_path / "d")
    here = {r: [v.to_json() for v in vs] for r, vs in check_frames(written).items()}
    done = subprocess.run(
        [sys.executable, "-m", "checkers.columns.spark", tmp_path / "d", tmp_path / "verdicts.json"],
        capture_output=True,
        text=True,
        timeout=300,
        env=environment(JAVA_HOME=str(installation.java.parent.parent)),
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert json.loads((tmp_path / "verdicts.json").read_text()) == json.loads(json.dumps(here))
    assert {v["valid"] for v in here["long"]} == {True}
    assert [v["valid"] for v in here["wrong"]].count(False) >= 1
    assert {v["valid"] for v in here["twice"]} == {"unknown"} and here["twice"][0]["notes"][0] == DOUBLE_OPERATION
