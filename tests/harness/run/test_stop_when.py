"""``stop_when: unreadable`` ends the load when a table cannot be read any more; the final reads still happen."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from checkers.evidence import history
from checkers.evidence.history import Operation
from checkers.evidence.outcome import STOPPED
from checkers.evidence.recorder import Recorder
from checkers.evidence.replace import replace
from checkers.evidence.runfolder import RunFolder
from checkers.timeline.unreadable import NO_SUCH_KEY
from compose.install.installation import Installation
from compose.processes.watchdog import Watchdog
from harness.run.context import RunContext, context_of
from harness.run.phases import PhaseProgress, Phases
from harness.run.settings import Settings
from harness.tablefiles.follower import Follower
from harness.writers.slot import Writer, WriterSlot
from workloads.file import workload, workload_text
from workloads.generator import PlannedOperation

PATIENCE = 300.0

DRIVER = """
import json, os, socket, sys, time
listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
listener.bind(sys.argv[1] + ".new")
listener.listen(1)
os.rename(sys.argv[1] + ".new", sys.argv[1])
good = int(sys.argv[2])
connection, _ = listener.accept()
with connection, connection.makefile("rwb") as stream:
    for n, line in enumerate(stream):
        if n < good:
            answer = {"ok": True, "result": [], "bound": None}
        elif sys.argv[3] == "hangs":
            time.sleep(3600)
        else:
            answer = {"ok": False, "error": json.loads(sys.argv[3]), "bound": None}
        stream.write(json.dumps(answer).encode() + b"\\n")
        stream.flush()
"""
"""A driver without Spark: it speaks the writers' protocol; after so many answers each is an error, or none comes."""
MISSING = json.dumps([[NO_SUCH_KEY, "(Service: S3, Status Code: 404)"]])


class Process:
    """That driver."""

    def __init__(self, path: Path, good: int, then: str = MISSING) -> None:
        self._path = path
        self._process = subprocess.Popen([sys.executable, "-c", DRIVER, str(path), str(good), then])

    def alive(self) -> bool:
        return self._process.poll() is None

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def logs(self) -> Path:
        return self._path.with_suffix(".log")


class Heard:
    """A watcher that remembers what is said."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def say(self, text: str) -> None:
        self.said.append(text)

    def progress(self, done: int, total: int | None) -> None:
        """Nothing."""

    def lasts(self, seconds: float | None) -> None:
        """Nothing."""


def context(folder: Path, stop_when: str, heard: Heard, ops: int = 40) -> RunContext:
    """A run on one table by two writers."""
    text = f"workload: w\ntables: [{{name: t}}]\nwriters: 2\nlength: {{ops: {ops}}}\n{stop_when}operations: {{insert: 1, read: 1}}\n"
    nowhere = folder / "nowhere"
    parts = Installation(nowhere, nowhere, {}, nowhere, nowhere, nowhere, nowhere, nowhere)
    return context_of(workload_text.parse(text), RunFolder(folder), parts, Settings(seed=1, command="w"), heard)


@contextmanager
def slots(folder: Path, good: int, then: str = MISSING, writers: int = 2) -> Iterator[list[WriterSlot]]:
    """Connected writers whose drivers answer well so often; ``then``: the error of later answers, or ``hangs``."""

    def launch(name: str, generation: int) -> Writer:
        path = folder / f"{name}.{generation}"
        return Writer(name, Process(path, good, then), path)

    with ExitStack() as stack:
        out = []
        for n in range(writers):
            out.append(slot := WriterSlot(f"w{n}", launch, PATIENCE))
            stack.callback(slot.kill)
        for slot in out:
            slot.connect()
        yield out


def executed(
    folder: Path, stop_when: str, good: int = 3, then: str = MISSING, ops: int = 40
) -> tuple[list[Operation], Heard, str | None]:
    """The operations of a run whose table loses a file, what was said, and why the load ended; ``then`` as for :func:`slots`."""
    heard = Heard()
    run = context(folder, stop_when, heard, ops)
    watchdog = Watchdog(run.run_id, remove=[])
    with slots(folder, good, then) as writers, Recorder(run.folder.history, {}) as recorder:
        follower = Follower({}, lambda table: None, recorder.now, None)
        phases = Phases(run, recorder, follower, writers, None, watchdog, PhaseProgress(heard, run.workload))
        try:
            for phase in run.workload.resolved_phases():
                phases.phase(phase)
            phases.final_reads()
        finally:
            watchdog.close()
    return history.read(run.folder.history).operations(), heard, phases.ended_by


def test_a_writer_that_invokes_nothing_more_closes_its_stream_at_once(tmp_path: Path) -> None:
    """Another writer may wait for what its stream still has, as in a replay."""
    heard, closed, waited = Heard(), threading.Event(), []

    def operations(w: workload.Workload, phase: workload.Phase, writer: int, seed: int) -> Iterator[PlannedOperation]:
        read = PlannedOperation("read", w.tables[0], {})
        if writer == 1:
            waited.append(closed.wait(60))
            return
        try:
            yield read
            phases.end_load("enough")
            yield read
        finally:
            closed.set()

    made = context(tmp_path, "", heard)
    run = replace(made, settings=replace(made.settings, operations=operations))
    watchdog = Watchdog(run.run_id, remove=[])
    with slots(tmp_path, 3) as writers, Recorder(run.folder.history, {}) as recorder:
        follower = Follower({}, lambda table: None, recorder.now, None)
        phases = Phases(run, recorder, follower, writers, None, watchdog, PhaseProgress(heard, run.workload))
        try:
            phases.phase(run.workload.resolved_phases()[0])
        finally:
            watchdog.close()
    assert waited == [True]


def of_phase(operations: list[Operation], phase: str) -> int:
    return sum(o.invoked.extra.get("phase") == phase for o in operations)


def test_the_load_ends_when_two_writers_cannot_read_a_table_and_the_final_reads_follow(tmp_path: Path) -> None:
    # So many that one writer cannot make all of them before the other one begins.
    operations, heard, ended = executed(tmp_path, "stop_when: unreadable\n", ops=20_000)
    assert 8 <= of_phase(operations, "main") < 20_000
    assert of_phase(operations, "final-reads") == 2
    assert ended is not None and ended.startswith("t: unreadable since ") and "a file that no error names" in ended
    assert [x for x in heard.said if x.startswith("t: unreadable")] == [ended], "it is said once"
    assert heard.said[-2:] == ["stop_when: unreadable: the load ends here", "reading every table"]


@pytest.mark.parametrize(("stop_when", "good"), [("", 3), ("stop_when: unreadable\n", 99)])
def test_without_the_key_or_without_a_missing_file_the_load_goes_on(tmp_path: Path, stop_when: str, good: int) -> None:
    operations, heard, ended = executed(tmp_path, stop_when, good)
    assert of_phase(operations, "main") == 40 and of_phase(operations, "final-reads") == 2 and ended is None
    assert any("unreadable since" in x for x in heard.said) is (good == 3)


def test_a_load_that_is_ended_invokes_no_further_operation_and_the_final_reads_follow(tmp_path: Path) -> None:
    heard = Heard()
    run = context(tmp_path, "", heard)
    watchdog = Watchdog(run.run_id, remove=[])
    with slots(tmp_path, 99) as writers, Recorder(run.folder.history, {}) as recorder:
        follower = Follower({}, lambda table: (None, None), recorder.now, None)
        phases = Phases(run, recorder, follower, writers, None, watchdog, PhaseProgress(heard, run.workload))
        recorder._heard = lambda e: phases.end_load(f"enough: {e.op}") if e.index == 9 else None
        try:
            for phase in run.workload.resolved_phases():
                phases.phase(phase)
            phases.final_reads()
        finally:
            watchdog.close()
    operations = history.read(run.folder.history).operations()
    assert 5 <= of_phase(operations, "main") < 40 and of_phase(operations, "final-reads") == 2
    assert phases.ended_by is not None and phases.ended_by.startswith("enough: w")


def test_an_operation_that_is_never_answered_is_unknown_and_its_writer_is_replaced(tmp_path: Path) -> None:
    """A driver that hangs, as one that was stopped with SIGSTOP does: the run goes on to its end, and says what happened."""
    operations, heard, ended = executed(tmp_path, "op_timeout: 1s\n", good=9, then="hangs")
    assert of_phase(operations, "main") == 40 and of_phase(operations, "final-reads") == 2 and ended is None
    hung = [o for o in operations if o.type == "info"]
    assert len(hung) >= 4 and all(o.error is not None and o.error[0][0] == "icequake.WriterTimeout" for o in hung)
    assert all(o.error is not None and "no answer within 1 s" in o.error[0][1] for o in hung)
    assert heard.said.count("writer w0: WriterTimeout; replaced") + heard.said.count(
        "writer w1: WriterTimeout; replaced"
    ) == len(hung)
    processes = {o.process for o in operations}
    assert len(processes) > 2, "what follows is of another process"


def test_what_went_on_when_the_run_was_stopped_is_no_death_of_its_writer(tmp_path: Path) -> None:
    """Ctrl-C closes the connections of the writers; nothing is wrong with them."""
    heard = Heard()
    run = context(tmp_path, "", heard)
    watchdog = Watchdog(run.run_id, remove=[])
    with slots(tmp_path, 3, "hangs") as writers, Recorder(run.folder.history, {}) as recorder:
        follower = Follower({}, lambda table: None, recorder.now, None)
        phases = Phases(run, recorder, follower, writers, None, watchdog, PhaseProgress(heard, run.workload))
        recorder._heard = lambda e: run.settings.stop.set() if e.index == 13 else None  # both wait by then
        try:
            phases.phase(run.workload.resolved_phases()[0])
        finally:
            watchdog.close()
    going_on = [o for o in history.read(run.folder.history).operations() if o.type != "ok"]
    assert len(going_on) == 2
    for o in going_on:
        assert o.error == [[STOPPED, "the run was stopped while the operation waited for its answer"]]
    assert not any("replaced" in text for text in heard.said)
