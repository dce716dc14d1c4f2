"""The history survives being killed, is stamped densely, and refuses what cannot be a history."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkers.evidence.history import Event, HistoryError, UnpairedError, read
from checkers.evidence.recorder import Recorder


def line(index: int, type: str, process: int = 0, op: str = "a", **more: object) -> str:
    return json.dumps(
        {"index": index, "time": index, "type": type, "process": process, "f": "insert", "op": op, **more}
    )


def write(path: Path, *lines: str, end: str = "\n") -> Path:
    path.write_text("\n".join(['{"format": 1}', *lines]) + end)
    return path


def test_what_is_recorded_is_read_back(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    with Recorder(path, {"workload": "x"}) as recorder:
        recorder.record("invoke", 0, "insert", table="t", value={"ids": [1]}, op="w0-0", phase="main")
        recorder.record("info", 0, "insert", table="t", op="w0-0", error=[["a.B", "ä\n\u2028"]])
    history = read(path)
    (op,) = history.operations()
    assert history.header == {"format": 1, "workload": "x"} and history.problems == ()
    assert (op.type, op.end, op.error) == ("info", None, [["a.B", "ä\n\u2028"]])
    assert op.invoked.extra == {"phase": "main"}
    assert op.indices == (0, 1)


def test_events_from_many_threads_are_dense_and_in_time_order(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    with Recorder(path, {}) as recorder:

        def work(n: int) -> None:
            for i in range(100):
                recorder.record("invoke", n, "read", op=f"{n}-{i}")
                recorder.record("ok", n, "read", op=f"{n}-{i}")

        threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    events = read(path).events
    assert [e.index for e in events] == list(range(1600))
    assert [e.time for e in events] == sorted(e.time for e in events)
    assert len(read(path).operations()) == 800


def test_events_are_heard_in_the_order_of_the_file_from_many_threads(tmp_path: Path) -> None:
    heard: list[Event] = []
    with Recorder(tmp_path / "history.jsonl", {}, heard=heard.append) as recorder:

        def work(n: int) -> None:
            for i in range(50):
                recorder.record("invoke", n, "read", op=f"w{n}-{i}")
                recorder.record("ok", n, "read", op=f"w{n}-{i}")

        threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    assert tuple(heard) == read(tmp_path / "history.jsonl").events


def test_an_event_is_on_disk_before_record_returns(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    with Recorder(path, {}) as recorder:
        recorder.record("invoke", 0, "read", op="a")
        assert len(read(path).events) == 1


def test_a_torn_last_line_is_dropped_and_said(tmp_path: Path) -> None:
    path = write(tmp_path / "h.jsonl", line(0, "invoke"), line(1, "ok")[:20], end="")
    history = read(path)
    assert len(history.events) == 1
    assert "torn" in history.problems[0]


def test_an_operation_without_completion_is_unknown(tmp_path: Path) -> None:
    (op,) = read(write(tmp_path / "h.jsonl", line(0, "invoke"))).operations()
    assert (op.type, op.completed, op.end) == ("info", None, None)


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        ([line(1, "invoke")], "expected index 0, found 1"),
        (["{"], "h.jsonl:2"),
        (["[]"], "h.jsonl:2: must be a JSON object, not []"),
        (['{"index": 0}'], "h.jsonl:2: an event needs time and type and process and f$"),
        ([line(0, "maybe")], "type must be"),
        ([line(0, "invoke").replace('"f": "insert"', '"f": 3')], "f must be a string"),
        ([line(0, "invoke", error=[3])], "error must be"),
        ([line(0, "invoke", error=[["a class without a message"]])], "error must be"),
    ],
)
def test_a_broken_file_is_refused_with_its_line(tmp_path: Path, lines: list[str], says: str) -> None:
    with pytest.raises(HistoryError, match=says.replace("[", r"\[")):
        read(write(tmp_path / "h.jsonl", *lines))


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        ([line(0, "ok")], "never invoked"),
        ([line(0, "invoke"), line(1, "ok"), line(2, "ok")], "completed before"),
        ([line(0, "invoke"), line(1, "invoke", process=1)], "invoked before"),
        ([line(0, "invoke"), line(1, "invoke", op="b")], "has not ended"),
        ([line(0, "invoke"), line(1, "info"), line(2, "invoke", op="b")], "after info"),
        ([line(0, "invoke"), line(1, "ok", process=1)], "not by its own"),
    ],
)
def test_what_no_process_can_have_done_is_refused(tmp_path: Path, lines: list[str], says: str) -> None:
    with pytest.raises(HistoryError, match=says):
        read(write(tmp_path / "h.jsonl", *lines)).operations()


def test_what_does_not_pair_is_said_once_with_its_first_places(tmp_path: Path) -> None:
    lines = [
        line(0, "ok", op="a"),
        line(1, "invoke", op="b"),
        line(2, "invoke", op="c"),
        line(3, "ok", op="d"),
        line(4, "ok", op="e"),
    ]
    with pytest.raises(UnpairedError) as error:
        read(write(tmp_path / "h.jsonl", *lines)).operations()
    said = str(error.value)
    assert said.startswith(
        "4 events of the history do not pair: event 0: ok of op 'a', which was never invoked; event 2: process "
    )
    assert said.endswith("; and 1 more") and "event 3: " in said and "event 4: " not in said


@pytest.mark.parametrize("text", ["", '{"format": 99}\n', "nonsense\n", '{"index": 0}\n'])
def test_a_file_without_a_known_header_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "h.jsonl").write_text(text)
    with pytest.raises(HistoryError):
        read(tmp_path / "h.jsonl")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(HistoryError, match="no such history"):
        read(tmp_path / "absent.jsonl")


def test_what_would_never_end_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.jsonl")
    (tmp_path / "device.jsonl").symlink_to("/dev/zero")
    for name in ("pipe", "device"):
        with pytest.raises(HistoryError, match=f"{name}.jsonl: not a regular file"):
            read(tmp_path / f"{name}.jsonl")


json_values = st.recursive(st.none() | st.booleans() | st.integers() | st.text(), lambda v: st.lists(v, max_size=3))


@given(
    st.dictionaries(
        st.sampled_from(["index", "time", "type", "process", "f", "op", "error", "table", "x"]), json_values
    )
)
def test_any_record_is_an_event_or_a_history_error(record: dict[str, object]) -> None:
    try:
        event = Event.from_json(record)
    except HistoryError:
        return
    assert Event.from_json(event.to_json()) == event


def test_a_full_disk_is_an_os_error_and_not_a_lost_event() -> None:
    path = Path("/dev/full")
    if not path.exists():
        return
    from errno import ENOSPC

    with pytest.raises(OSError) as error:
        Recorder(_Existing(path), {})  # type: ignore[arg-type]
    assert error.value.errno == ENOSPC


def test_nothing_follows_a_torn_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that was full in the middle of an event and has room again: what was recorded until then is read."""
    path = tmp_path / "history.jsonl"
    with Recorder(path, {}) as recorder:
        recorder.record("invoke", 0, "read", op="a")
        whole, file = recorder._write, recorder._file

        def torn(record: dict[str, object]) -> None:
            file.write(b'{"index":1,"ti')
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(recorder, "_write", torn)
        with pytest.raises(OSError, match="No space"):
            recorder.record("ok", 0, "read", op="a")
        monkeypatch.setattr(recorder, "_write", whole)
        with pytest.raises(OSError, match="No space"):
            recorder.record("invoke", 1, "read", op="b")
    history = read(path)
    assert [e.op for e in history.events] == ["a"] and "torn" in history.problems[0]


class _Existing:
    """A path that may exist already: /dev/full answers every write with ENOSPC."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def open(self, mode: str, buffering: int) -> object:
        return self._path.open(mode.replace("x", "w"), buffering=buffering)
