"""A run on real Spark, recorded and replayed."""

from __future__ import annotations

from pathlib import Path

import pytest

from checkers.evidence import runfolder
from checkers.evidence.runfolder import RunFolder
from harness.experiments.replay import replay_once
from harness.run.bench import Bench
from harness.run.recorded import recording_of
from workloads import generator
from workloads.file.recording import FILE, read
from workloads.file.workload_text import parse

pytestmark = pytest.mark.spark

WORKLOAD = """\
workload: two
tables: [{name: t}]
writers: 2
length: {ops: 6}
operations: {insert: 2, update-register: 1}
nemesis: {faults: [{verb: drop-reply, request: commit, times: 1}], interval: 1ms, duration: 60s}
"""


def test_a_replay_makes_the_recorded_commits_in_the_recorded_order(bench: Bench, tmp_path: Path) -> None:
    folder = runfolder.create(tmp_path, "two")
    bench.run(parse(WORKLOAD), folder, generator.operations, command="test", seed=3)
    recording = recording_of(folder)
    assert len(recording.operations) == 6 and recording.order
    (fault,) = recording.faults
    replayed = replay_once(bench, recording, tmp_path, lambda *_: None, lambda file: f"icequake run two {file}")
    assert (replayed.forced, replayed.difference, replayed.unforced) == (replayed.expected, None, ())
    assert replayed.expected == len(recording.order)
    (again,) = recording_of(RunFolder(replayed.folder)).faults
    assert again.struck == fault.struck
    assert read(replayed.folder / FILE) == recording
    assert RunFolder(replayed.folder).read_plan().command == f"icequake run two {replayed.folder / FILE}"
