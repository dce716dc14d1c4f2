"""A writer answers, dies, or says nothing in time; each is noticed, and the dead are replaced."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest

from harness import driver
from harness.writer import Session, serve
from harness.writers import Writer, WriterDied, WriterError, WriterSlot, WriterTimeout, request
from workloads.operations import KINDS
from workloads.tables import TableSpec

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
        self._process = subprocess.Popen([sys.executable, "-c", DRIVER, str(path)])

    def alive(self) -> bool:
        return self._process.poll() is None

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def logs(self) -> Path:
        return self.path.with_suffix(".log")


@pytest.fixture
def slot(tmp_path: Path) -> Iterator[WriterSlot]:
    def launch(name: str, generation: int) -> Writer:
        path = tmp_path / f"{name}.{generation}"
        return Writer(name, Process(path), path)

    with ExitStack() as stack:
        slot = WriterSlot("w0", launch, 30)
        stack.callback(slot.kill)
        slot.connect()
        yield slot


def test_requests_are_answered_one_after_the_other(slot: WriterSlot) -> None:
    pids = {slot.call({"n": n, "text": "ä\n" * 100_000}, 10)["pid"] for n in range(3)}
    assert len(pids) == 1


def test_a_writer_that_dies_is_noticed_and_replaced(slot: WriterSlot) -> None:
    before = slot.call({}, 10)["pid"]
    with pytest.raises(WriterDied):
        slot.call({"die": True}, 10)
    slot.replace()
    assert slot.call({}, 10)["pid"] != before
    assert slot.replacements == 1


def test_no_answer_in_time_is_a_timeout_and_its_late_answer_is_never_taken_for_another(slot: WriterSlot) -> None:
    with pytest.raises(WriterTimeout, match="no answer within"):
        slot.call({"sleep": 30}, 0.2)
    slot.replace()
    assert slot.call({"n": 7}, 10)["result"] == {"n": 7}


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
            Writer("w0", process, tmp_path / "never").connect(10)
    finally:
        process.kill()


def test_a_session_that_never_comes_is_said(tmp_path: Path) -> None:
    with pytest.raises(WriterError, match="no Spark session after 0 s"):
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
        writer.connect(10)
        assert writer.call({}, 10) == {"ok": True, "result": "ä"}
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
        writer.connect(10)
        asked = {"op": "w0-1", "statements": [{"sql": "SELECT 1"}], "names": {}}
        if dead:
            with pytest.raises(WriterDied):
                writer.call(asked, 10)
            assert ended.wait(10)
        else:
            assert [writer.call(asked, 10)["ok"] for _ in range(2)] == [False, False]
            assert not ended.is_set()
        writer.close()
        listener.shutdown(socket.SHUT_RDWR)
    thread.join(10)


def test_a_warm_writer_that_is_gone_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Fresh:
        def __init__(self, name: str, **_: object) -> None:
            self.socket = tmp_path / f"fresh-{name}"

        def start(self) -> None:
            pass

    monkeypatch.setattr(driver, "Driver", Fresh)
    for name in ("spark_conf", "writer_environment"):
        monkeypatch.setattr(driver, name, lambda *_, **__: {})
    alive, gone = tmp_path / "alive", tmp_path / "gone"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(gone))  # nobody listens there
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(alive))
        listener.listen(1)
        launch = driver.launcher(
            MagicMock(), MagicMock(), run_id="r", data=tmp_path, logs=tmp_path, warm=(alive, gone, tmp_path / "never")
        )
        used = [launch(f"w{n}", 0)._path for n in range(4)]
    assert used == [alive, *(tmp_path / f"fresh-w{n}" for n in (1, 2, 3))]
