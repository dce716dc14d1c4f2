"""A writer answers, dies, or says nothing in time; each is noticed, and the dead are replaced."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from queue import Queue
from typing import Any
from unittest.mock import MagicMock

import psutil
import pytest

from harness.run import standing
from harness.writers import driver
from harness.writers import slot as slot_module
from harness.writers.session import Session, serve
from harness.writers.slot import Launch, Writer, WriterDied, WriterError, WriterSlot, WriterTimeout, request
from tests.support.runs import environment
from workloads.operations.kinds import KINDS
from workloads.tables import TableSpec

ENOUGH = 300.0
"""Seconds after which a test gives up on what never comes."""

DRIVER = """
import json, os, socket, sys, time
listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
listener.bind(sys.argv[1] + ".new")
listener.listen(1)
os.rename(sys.argv[1] + ".new", sys.argv[1])
while True:
    connection, _ = listener.accept()
    with connection, connection.makefile("rwb") as stream:
        for line in stream:
            asked = json.loads(line)
            if asked.get("die"):
                os._exit(1)
            time.sleep(asked.get("sleep", 0))
            stream.write(json.dumps({"ok": True, "result": asked, "pid": os.getpid()}).encode() + b"\\n")
            stream.flush()
"""


class Process:
    """A driver process without Spark: it speaks the writers' protocol and does as it is told."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.killed = False
        self._process = subprocess.Popen([sys.executable, "-c", DRIVER, str(path)])

    def alive(self) -> bool:
        return self._process.poll() is None

    def kill(self) -> None:
        self.killed = self.killed or self.alive()
        self._process.kill()
        self._process.wait()

    @property
    def pid(self) -> int:
        return self._process.pid

    def logs(self) -> Path:
        return self.path.with_suffix(".log")


@pytest.fixture
def slot(tmp_path: Path) -> Iterator[WriterSlot]:
    def launch(name: str, generation: int) -> Writer:
        path = tmp_path / f"{name}.{generation}"
        return Writer(name, Process(path), path)

    with ExitStack() as stack:
        slot = WriterSlot("w0", launch, ENOUGH)
        stack.callback(slot.kill)
        slot.connect()
        yield slot


def test_requests_are_answered_one_after_the_other(slot: WriterSlot) -> None:
    pids = {slot.call({"n": n, "text": "ä\n" * 100_000}, ENOUGH)["pid"] for n in range(3)}
    assert len(pids) == 1


def test_a_writer_that_dies_is_noticed_and_replaced(slot: WriterSlot) -> None:
    before = slot.call({}, ENOUGH)["pid"]
    with pytest.raises(WriterDied):
        slot.call({"die": True}, ENOUGH)
    slot.replace()
    assert slot.call({}, ENOUGH)["pid"] != before
    assert slot.replacements == 1


def test_a_driver_that_another_thread_kills_ends_the_call_and_is_replaced(slot: WriterSlot) -> None:
    before = slot.call({}, ENOUGH)["pid"]
    threading.Timer(0.2, slot.kill_driver).start()
    with pytest.raises(WriterDied):
        slot.call({"sleep": ENOUGH}, ENOUGH)
    slot.replace()
    assert slot.call({}, ENOUGH)["pid"] != before


def test_a_driver_that_a_fault_kills_while_it_starts_is_replaced_and_one_that_ends_by_itself_is_not(
    tmp_path: Path,
) -> None:
    made: list[Process] = []

    def launch(name: str, generation: int) -> Writer:
        path = tmp_path / f"{name}.{generation}"
        made.append(Process(path))
        if generation in (1, 2, 4):  # it listens where nobody looks, so it never becomes ready
            path = tmp_path / "never"
        if generation in (1, 2):
            made[-1].kill()
        elif generation == 4:
            os.kill(made[-1].pid, signal.SIGKILL)
        return Writer(name, made[-1], path)

    slot = WriterSlot("w0", launch, ENOUGH)
    try:
        slot.connect()
        slot.replace()
        assert (slot.replacements, [p.killed for p in made]) == (3, [True, True, True, False])
        assert slot.call({}, ENOUGH)["pid"] == made[3].pid
        with pytest.raises(WriterError, match="died while starting"):
            slot.replace()
    finally:
        for process in made:
            process.kill()


def test_no_answer_in_time_is_a_timeout_and_its_late_answer_is_never_taken_for_another(slot: WriterSlot) -> None:
    with pytest.raises(WriterTimeout, match="no answer within"):
        slot.call({"sleep": 30}, 0.2)
    slot.replace()
    assert slot.call({"n": 7}, ENOUGH)["result"] == {"n": 7}


def test_an_interrupt_from_another_thread_ends_a_call(slot: WriterSlot) -> None:
    threading.Timer(0.2, slot.interrupt).start()
    with pytest.raises(WriterDied):  # and not WriterTimeout
        slot.call({"sleep": 60}, 60)
    with pytest.raises(WriterError, match="was stopped"):
        slot.replace()


def test_a_driver_that_ends_while_starting_is_said_with_its_log(tmp_path: Path) -> None:
    class Stillborn(Process):
        def alive(self) -> bool:
            return False

    process = Stillborn(tmp_path / "elsewhere")
    try:
        with pytest.raises(WriterError, match=r"died while starting; see .*\.log"):
            Writer("w0", process, tmp_path / "never").connect(ENOUGH)
    finally:
        process.kill()


def test_a_session_that_never_comes_is_said(tmp_path: Path) -> None:
    with pytest.raises(WriterError, match="w0 is not ready after 0 s"):
        Writer("w0", None, tmp_path / "never").connect(0.2)


def test_an_answer_that_comes_in_pieces_is_one_answer(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s"))
        listener.listen(1)

        def dribble() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(1000)
                for byte in json.dumps({"ok": True, "result": "ä"}).encode() + b"\n":
                    connection.send(bytes([byte]))

        thread = threading.Thread(target=dribble)
        thread.start()
        writer = Writer("w0", None, tmp_path / "s")
        writer.connect(ENOUGH)
        assert writer.call({}, ENOUGH) == {"ok": True, "result": "ä"}
        writer.close()
        thread.join()


def test_a_request_names_catalog_table_and_identifier() -> None:
    statements = KINDS["rewrite-manifests"].statements({}, "w0-1", TableSpec(name="t"))
    asked = request("w0-1", statements, catalog="c", namespace="n", table="t")
    sql = asked["statements"][0]["sql"].format_map(asked["names"])
    assert sql == "CALL c.system.rewrite_manifests(table => 'n.t')"


@pytest.mark.parametrize(
    ("stopped", "dead"),
    [
        ({"return_value": False}, False),  # a statement failed, the session goes on
        ({"return_value": True}, True),
        ({"side_effect": ConnectionRefusedError()}, True),  # the JVM is gone, Python is not
    ],
)
def test_a_session_without_its_jvm_ends_its_process_and_answers_nothing(
    tmp_path: Path, stopped: dict[str, Any], dead: bool
) -> None:
    spark = MagicMock()
    spark.sql.side_effect = RuntimeError("no")
    spark.sparkContext._jsc.sc().isStopped = MagicMock(**stopped)
    ended = threading.Event()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s"))
        listener.listen(1)

        def driver() -> None:
            try:
                serve(Session(spark), listener)
            except (SystemExit, OSError):  # the session's end, or the test's
                ended.set()

        thread = threading.Thread(target=driver)
        thread.start()
        writer = Writer("w0", None, tmp_path / "s")
        writer.connect(ENOUGH)
        asked = {"op": "w0-1", "statements": [{"sql": "SELECT 1"}], "names": {}}
        if dead:
            with pytest.raises(WriterDied):
                writer.call(asked, ENOUGH)
            assert ended.wait(ENOUGH)
        else:
            assert [writer.call(asked, ENOUGH)["ok"] for _ in range(2)] == [False, False]
            assert not ended.is_set()
        writer.close()
        listener.shutdown(socket.SHUT_RDWR)
    thread.join()


SERVED = """
import os, socket, subprocess, sys, time
from harness.writers.session import serve

class Slow:
    def execute(self, request):
        if "sleep" in request:
            child = subprocess.Popen(["sleep", "600"])  # as the JVM is a child of a driver
            with open(sys.argv[1] + ".began", "w") as file:
                file.write(str(child.pid) + "\\n")
            time.sleep(request["sleep"])
        return {"ok": True, "result": None, "bound": {}}

    def alive(self):
        return True

listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
listener.bind(sys.argv[1] + ".new")
listener.listen(1)
os.rename(sys.argv[1] + ".new", sys.argv[1])
serve(Slow(), listener)
"""


class Warm:
    """A driver process that serves as a real one does; its operations take as long as they say."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.process = subprocess.Popen(
            [sys.executable, "-c", SERVED, str(path)], start_new_session=True, env=environment(), cwd="/"
        )
        first = Writer("warm", None, path)
        first.connect(ENOUGH)  # it is there
        first.close()

    def operation(self) -> psutil.Process:
        """Wait until an operation is under way; the driver's child."""
        began = Path(f"{self.path}.began")
        while not began.exists() or not began.read_text().endswith("\n"):
            assert self.process.poll() is None
            time.sleep(0.01)
        return psutil.Process(int(began.read_text()))

    def gone(self, child: psutil.Process) -> bool:
        """Whether it was killed, with its child: a signal to a group reaches its processes one after the other."""
        if self.process.wait(ENOUGH) != -9:
            return False
        for _ in range(int(ENOUGH * 100)):
            try:
                if child.status() == psutil.STATUS_ZOMBIE:
                    return True
            except psutil.NoSuchProcess:
                return True
            time.sleep(0.01)
        return False

    def end(self) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


@pytest.fixture
def warm(tmp_path: Path) -> Iterator[Warm]:
    one = Warm(tmp_path / "warm")
    try:
        yield one
    finally:
        one.end()


class Fresh:
    """What a launcher starts when there is no warm writer; nobody uses it here."""

    def __init__(self, name: str, *, folder: Path, **_: object) -> None:
        self.socket = folder.with_name(f"fresh-{name}")

    def start(self) -> None:
        pass


@pytest.fixture
def launcher(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Launch]:
    """A launcher that has warm writers."""
    monkeypatch.setattr(driver, "Driver", Fresh)
    for name in ("spark_conf", "writer_environment"):
        monkeypatch.setattr(driver, name, lambda *_, **__: {})

    def make(*sockets: Path) -> Launch:
        return driver.launcher(MagicMock(), MagicMock(), run_id="r", data=tmp_path, logs=tmp_path, warm=sockets)

    return make


def test_a_warm_writer_is_handed_on_from_run_to_run_and_one_that_is_gone_is_not_waited_for(
    tmp_path: Path, warm: Warm, launcher: Callable[..., Launch]
) -> None:
    gone = tmp_path / "gone"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(gone))  # nobody listens there
    launch = launcher(warm.path, gone, tmp_path / "never")
    for _ in range(2):
        writers = [launch(f"w{n}", 0) for n in range(4)]
        assert [w._path for w in writers] == [warm.path, *(tmp_path / f"fresh-w{n}" for n in (1, 2, 3))]
        writers[0].connect(ENOUGH)
        assert writers[0].call({"op": "w0-0"}, ENOUGH)["ok"]
        writers[0].kill()
    assert warm.process.poll() is None


def test_a_streaming_writer_imports_the_pyspark_of_the_release_before_icequakes_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("spark_conf", "writer_environment"):
        monkeypatch.setattr(driver, name, lambda *_, **__: {})
    monkeypatch.setattr(driver, "access", MagicMock())
    monkeypatch.setattr(driver.GuestDriver, "start", lambda self: None)
    release = MagicMock(spark_home=tmp_path / "old" / "pyspark")
    launch = driver.launcher(
        release, MagicMock(), run_id="r", data=tmp_path, logs=tmp_path, engines=("spark", "stream")
    )
    process = launch("w1", 0).process
    assert isinstance(process, driver.GuestDriver)
    assert process.environment()["PYTHONPATH"].split(os.pathsep)[1:] == [str(tmp_path / "old")]


def test_what_a_driver_that_ended_itself_leaves_in_its_group_is_ended_with_it() -> None:
    leader = subprocess.Popen(
        [sys.executable, "-c", "import subprocess; print(subprocess.Popen(['sleep', '600']).pid, flush=True)"],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert leader.stdout is not None
    ended = psutil.Process(leader.pid)
    with leader.stdout as said:
        left = psutil.Process(int(said.readline()))
    leader.wait()
    assert left.is_running() and left.status() != psutil.STATUS_ZOMBIE
    slot_module._end(ended)
    assert not left.is_running() or left.status() == psutil.STATUS_ZOMBIE


@pytest.mark.parametrize("how", ["timeout", "interrupt"])
def test_a_warm_writer_that_owes_an_answer_is_ended_and_never_handed_on(
    how: str, warm: Warm, launcher: Callable[..., Launch]
) -> None:
    launch = launcher(warm.path)
    first = launch("w0", 0)
    first.connect(ENOUGH)
    if how == "timeout":
        with pytest.raises(WriterTimeout):
            first.call({"sleep": 600}, 0.5)
        child = warm.operation()
    else:
        thread = threading.Thread(target=lambda: (warm.operation(), first.interrupt()))
        thread.start()
        with pytest.raises(WriterDied):
            first.call({"sleep": 600}, 600)
        thread.join()
        child = warm.operation()
    first.kill()
    assert warm.gone(child), "what it was doing can have no effect any more"
    assert launch("w0", 0)._path != warm.path


def test_a_warm_writer_can_be_killed_too(tmp_path: Path, warm: Warm, launcher: Callable[..., Launch]) -> None:
    slot = WriterSlot("w0", launcher(warm.path), ENOUGH)
    slot.kill_driver()
    assert warm.process.wait(ENOUGH) == -signal.SIGKILL
    with pytest.raises(WriterDied):
        slot.call({"op": "w0-0"}, ENOUGH)
    slot.close()


def test_a_warm_writer_whose_run_was_killed_ends_itself_with_what_it_was_doing(warm: Warm) -> None:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(warm.path))
        connection.sendall(json.dumps({"sleep": 600}).encode() + b"\n")
        child = warm.operation()
    assert warm.process.wait(ENOUGH) == -9
    child.wait(ENOUGH)


def test_a_hang_up_between_operations_ends_nothing_and_what_was_not_begun_is_not_done(
    tmp_path: Path, warm: Warm
) -> None:
    for _ in range(20):
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(warm.path))
            connection.sendall(b'{"hello": true}\n')
            assert json.loads(connection.recv(1000))["pid"] == warm.process.pid
    other = Writer("w0", None, warm.path)
    assert other.take()  # the next connection waits until this one is closed
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(warm.path))
        connection.sendall(json.dumps({"sleep": 600}).encode() + b"\n")
    other.close()
    again = Writer("w0", None, warm.path)
    assert again.take()
    assert again.call({"op": "w0-0"}, ENOUGH)["ok"] and not Path(f"{warm.path}.began").exists()
    again.close()


def test_drivers_that_ended_are_replaced_and_where_the_new_ones_are_is_published(tmp_path: Path) -> None:
    def launch(name: str, generation: int) -> Writer:
        path = tmp_path / f"{name}.{generation}"
        return Writer(name, Process(path), path)

    with ExitStack() as stack:
        slots = [WriterSlot(f"w{n}", launch, ENOUGH) for n in range(2)]
        for slot in slots:
            stack.callback(slot.kill)
            slot.connect()
            slot.close()
        published: Queue[list[Path]] = Queue()
        stop = threading.Event()
        keeper = threading.Thread(
            target=standing.tend, args=(slots, lambda: published.put([s.socket_path for s in slots]), stop)
        )
        keeper.start()
        try:
            assert published.get(timeout=ENOUGH) == [tmp_path / "w0.0", tmp_path / "w1.0"]
            lost = slots[1].driver()
            assert lost is not None
            lost._process.kill()  # type: ignore[attr-defined]  # behind the slot's back
            assert published.get(timeout=ENOUGH) == [tmp_path / "w0.0", tmp_path / "w1.1"]
            new = Writer("w1", None, tmp_path / "w1.1")
            assert new.take(), "it was left to others"
            new.close()
        finally:
            stop.set()
            keeper.join()
