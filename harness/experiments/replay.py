"""Replay a recording once on a bench: the same operations, the same order of requests, the same faults; the checkers judge the run."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from checkers.evidence import runfolder
from checkers.evidence.runfolder import replace_file
from checkers.judge.runfolder import Results
from harness.run.bench import Bench
from harness.run.judged import Publish, judge_run
from harness.run.ordering import Replaying
from workloads.file.recording import FILE, Recording


@dataclass(frozen=True, slots=True)
class Replayed:
    """A replay that was judged.

    Attributes:
        folder: of the run; its ``recording.json`` is what was replayed.
        forced: requests that went in their recorded place, of ``expected``.
        difference: where the order of its commits differs from the recorded one, in a sentence; None: it is the same.
        unforced: what could not be forced and why, one sentence each.
    """

    folder: Path
    results: Results
    forced: int
    expected: int
    difference: str | None
    unforced: tuple[str, ...]


def replay_once(
    bench: Bench,
    recording: Recording,
    runs: Path,
    publish: Publish[object],
    command: Callable[[Path], str],
    *,
    group: int = 0,
    stop: threading.Event | None = None,
) -> Replayed:
    """Replay a recording in the store ``runs``, judge it, write its results and publish them.

    Args:
        bench: with as many writers as the recording's workload, and one more if its nemesis has operations of its own.
        command: the recording's file, in the folder of the run → how a person repeats it.
        stop: when another thread sets it, the run ends soon.

    Raises:
        RunError, WriterError, ServiceError, TableReadError, HistoryError, TableLogError: it could not run or be judged.
        OSError: the store cannot be written.
    """
    stop = stop or threading.Event()
    order = Replaying(recording, stop)
    workload = order.workload()
    folder = runfolder.create(runs, workload.workload)
    replace_file(folder.path / FILE, recording.to_json())
    bench.run(
        workload,
        folder,
        order.operations,
        command=command(folder.path / FILE),
        seed=recording.seed,
        group=group,
        progress=len(bench.groups) == 1,
        stop=stop,
        order=order,
    )
    judged = judge_run(folder, publish)
    outcome = folder.state()["order"]
    same = outcome["commits"] == "same"
    return Replayed(
        folder.path,
        judged.results,
        outcome["forced"],
        outcome["expected"],
        None if same else outcome["commits"],
        tuple(outcome["unforced"]),
    )
