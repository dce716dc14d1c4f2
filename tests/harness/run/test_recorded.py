"""A stored run as a recording, and what a replay makes of one."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest

from checkers.evidence.history import NEMESIS
from checkers.evidence.plan import Plan
from checkers.evidence.recorder import Recorder
from checkers.evidence.replace import replace
from checkers.evidence.runfolder import RunFolder, StoreError
from compose import setup
from compose.endpoints import Endpoints
from harness.cli import ordered
from harness.cli.ordered import not_recorded
from harness.run.errors import RunError
from harness.run.ordering import Prioritised, Replaying, expected, ordering_of
from harness.run.recorded import recording_at, recording_of
from harness.run.settings import Settings, StandingStack
from nemesis.faults.fault import Fault
from nemesis.order.policy import HeldRequest
from tests.support.runs import inside
from workloads.file.recording import Recording
from workloads.file.workload_text import parse
from workloads.file.yamlfile import HIDDEN, FileError

PLAN = {
    "workload": "w",
    "seed": 7,
    "catalog": {"name": "rest"},
    "tables": [{"name": "orders"}],
    "writers": 2,
    "op_timeout": 30.0,
    "nemesis": {"packages": ["crashes"]},
    "phases": [{"name": "main", "length": {"time": 9.0}, "operations": {"insert": {"weight": 2.0}}, "writers": 2}],
    "seed_own_keys": True,
}
MS = 1_000_000
LOCATION = "s3://w/orders/metadata/{}.metadata.json"


class Run:
    """A run's folder in the making. Times are milliseconds."""

    def __init__(self, path: Path) -> None:
        self.folder = RunFolder(path)
        self.folder.write_plan(Plan.model_validate(PLAN))
        self.clock = 0
        self._recorder = Recorder(self.folder.history, {"workload": "w", "seed": 7, "writers": 2})
        self._lines: list[dict[str, Any]] = []

    def at(self, ms: int) -> Recorder:
        self._recorder.now = lambda: ms * MS  # type: ignore[method-assign]
        return self._recorder

    def operation(self, op: str, began: int, ended: int | None, phase: str = "main") -> None:
        """To be called in the order of the beginnings; :meth:`ends` records the ends."""
        writer = int(op[1])
        self.at(began).record("invoke", writer, "insert", table="orders", value={"ids": [began]}, op=op, phase=phase)
        if ended is not None:
            self.at(ended).record("ok", writer, "insert", table="orders", op=op)

    def request(self, op: str, kind: str, came: int, ended: int, **more: Any) -> None:
        line = {
            "time": came * MS,
            "writer": int(op[1]),
            "service": "catalog",
            "kind": kind,
            "table": "orders",
            "op": op,
        }
        self._lines.append(line | {"status": "200", "ms": float(ended - came)} | more)

    def recording(self) -> Recording:
        self._recorder.close()
        self.folder.proxy.write_text("".join(json.dumps(x) + "\n" for x in self._lines) + '{"torn')
        return recording_of(self.folder)


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run(tmp_path)


def texts(recording: Recording) -> list[str]:
    return [str(m) for m in recording.order]


def test_a_plan_gives_the_whole_workload_back(run: Run) -> None:
    w = run.recording().workload
    assert (w.workload, w.catalog, w.writers, w.op_timeout, w.seed_own_keys) == ("w", "rest", 2, 30.0, True)
    assert w.length is not None and w.length.time == 9.0
    assert w.operations["insert"].weight == 2.0 and w.nemesis is not None and w.nemesis.packages == ("crashes",)


def test_the_order_is_that_of_the_answers_without_seed_rows_final_reads_and_what_came_after_the_end(run: Run) -> None:
    run.operation("w0-0", 0, 1, "setup")
    run.operation("w0-1", 2, 20)
    run.operation("w1-1", 21, 40)
    run.operation("w0-2", 41, 42, "final-reads")
    run.request("w0-0", "load", 0, 1)
    run.request("w0-1", "load", 3, 15)
    run.request("w0-1", "load", 4, 6)
    run.request("w0-1", "config", 4, 6)
    run.request("w0-1", "commit", 16, 18)
    run.request("w0-1", "load", 22, 23)  # the session's own, after the operation had ended
    run.request("w1-1", "load", 24, 25)
    run.request("w0-2", "load", 41, 42)
    r = run.recording()
    assert texts(r) == ["w0-1 load 2", "w0-1 load 1", "w0-1 commit 1", "w1-1 load 1"]
    assert [(o.op, o.writer, o.value, o.after) for o in r.operations] == [
        ("w0-1", 0, {"ids": [2]}, ()),
        ("w1-1", 1, {"ids": [21]}, ("w0-1",)),
    ]


def test_what_requests_saw_decides_their_order_while_they_overlap(run: Run) -> None:
    one, two = LOCATION.format(1), LOCATION.format(2)
    run.operation("w0-1", 0, 90)
    run.operation("w1-1", 91, 190)
    run.request("w0-1", "commit", 10, 12, base="0", new="1", location=one)
    # This commit was answered after a load that saw it, and after one that it refused; a load that did not see it, after it.
    run.request("w0-1", "commit", 20, 40, base="1", new="2", location=two)
    run.request("w0-1", "load", 22, 30, location=two)
    run.request("w0-1", "load", 21, 45, location=one)
    run.request("w0-1", "commit", 23, 33, base="1", new="3", status="409")
    order = ["w0-1 commit 1", "w0-1 load 1", "w0-1 commit 2", "w0-1 load 2", "w0-1 commit 3"]
    assert texts(run.recording()) == order


def test_a_request_that_waited_for_its_turn_began_when_it_went(run: Run) -> None:
    one, two = LOCATION.format(1), LOCATION.format(2)
    run.operation("w0-1", 0, 90)
    run.request("w0-1", "commit", 10, 12, base="0", new="1", location=one)
    run.request("w0-1", "commit", 20, 40, base="1", new="2", location=two)
    run.request("w0-1", "load", 15, 50, location=one, waited_ms=30.0)  # stale, but it did not overlap
    assert texts(run.recording())[-1] == "w0-1 load 1"


@pytest.mark.parametrize("marked", [True, False])
def test_a_late_request_has_two_places_and_a_duplicate_one(run: Run, marked: bool) -> None:
    again = {"again": True} if marked else {}
    run.operation("w0-1", 0, 90)
    run.request("w0-1", "commit", 10, 12, status="504 (nemesis)", faults=["late of commit"])
    run.request("w0-1", "commit", 20, 22, faults=["duplicate of commit"], status="200 (nemesis: not told)")
    run.request("w0-1", "commit", 22, 24, faults=["duplicate: sent again"], **({"nth": 2} if marked else {}), **again)
    run.request("w0-1", "commit", 30, 32, faults=["late: sent"], **({"nth": 1} if marked else {}), **again)
    if marked:
        assert texts(run.recording()) == ["w0-1 commit 1", "w0-1 commit 2", "w0-1 commit 1"]
    else:
        assert texts(run.recording())[:2] == ["w0-1 commit 1", "w0-1 commit 2"]  # an older log does not say of which


LIST = "GET /b/orders/metadata/snap-1.avro"


def test_who_met_the_deletion_of_a_metadata_file_is_part_of_the_order(run: Run, tmp_path: Path) -> None:
    store = {"service": "store", "table": ""}
    gone = {**store, "status": "204"}
    run.operation("w0-1", 0, 90)
    run.operation("w1-1", 5, 60)
    run.operation("w1-2", 61, 95)
    run.request("w0-1", "load", 1, 2)
    run.request("w1-1", "load", 8, 9)
    run.request(
        "w1-1", "read", 10, 44, what=LIST, **store
    )  # it was answered last, and found the file: the deletion came later
    run.request("w0-1", "delete", 20, 40, what=LIST.replace("GET", "DELETE"), **gone)
    run.request("w1-1", "read", 30, 35, what=LIST.replace("GET", "HEAD"), status="404", **store)  # it came later
    run.request("w1-2", "load", 62, 63)
    run.request("w1-2", "read", 64, 65, what=LIST, status="404", **store)  # its load says that already
    for method, kind in (("DELETE", "delete"), ("GET", "read")):  # nobody else's file; data; no file that was deleted
        run.request("w0-1", kind, 50, 51, what=f"{method} /b/orders/metadata/own.avro", **gone)
        run.request("w0-1", kind, 52, 53, what=f"{method} /b/orders/data/one.parquet", **gone)
    run.request("w1-1", "read", 54, 55, what="GET /b/orders/data/one.parquet", **gone)
    run.request("w1-1", "read", 56, 57, what="GET /b/orders/metadata/kept.avro", **gone)
    run.request("w0-1", "delete", 58, 59, what="DELETE /b/orders/metadata/kept.avro", **store, status="503")
    recording = run.recording()
    assert texts(recording) == [
        "w0-1 load 1",
        "w1-1 load 1",
        "w1-1 store read 1",
        "w0-1 store delete 1",
        "w1-1 store read 2",
        "w1-2 load 1",
    ]
    (file := tmp_path / "recording.json").write_text(recording.to_json())
    assert recording_at(file) == recording


def fault(run: Run, began: int, ended: int | None, fault: Fault, **more: Any) -> None:
    run.at(began).record("info", NEMESIS, f"start-{fault.slug}", value={"name": fault.name, "fault": fault.plain()})
    if ended is not None:
        run.at(ended).record("info", NEMESIS, f"stop-{fault.slug}", value={"name": fault.name, **more})


def test_the_faults_with_what_they_struck(run: Run) -> None:
    run.operation("w0-1", 0, 90)
    fault(run, 100, 2100, Fault(verb="drop-reply", probability=0.5))
    fault(run, 2200, 3200, Fault(verb="kill", target="driver"), struck="w1.2")
    fault(run, 3300, 4300, Fault(verb="drop-reply"))  # it struck nothing
    fault(run, 4400, 5400, Fault(verb="partition", request="any"))
    run.request("w0-1", "commit", 10, 12)
    run.request("w0-1", "commit", 13, 120, faults=["drop-reply of commit"], status="200 (nemesis: not told)")
    run.request("w0-1", "write", 14, 130, service="store", faults=["cut of write (store)"])
    found = run.recording().faults
    assert [(f.fault.verb, f.fault.duration, [str(m) for m in f.struck]) for f in found] == [
        ("drop-reply", 2.0, ["w0-1 commit 2"]),
        ("kill", 1.0, []),
        ("partition", 1.0, []),
    ]
    assert [str(f.after) for f in found] == ["None", "w0-1 commit 2", "w0-1 commit 2"]
    assert found[1].target == "w1.2"


def test_a_run_without_a_proxy_log_says_how_to_record_one(run: Run) -> None:
    run.recording()
    run.folder.proxy.unlink()
    with pytest.raises(RunError, match="no proxy log, so its order is not known; record it with --order free"):
        recording_of(run.folder)


def test_a_recording_is_read_from_a_folder_or_a_file(run: Run, tmp_path: Path) -> None:
    run.operation("w0-1", 0, 90)
    run.request("w0-1", "load", 10, 12)
    recording = run.recording()
    file = tmp_path / "recording.json"
    file.write_text(recording.to_json())
    assert recording_at(file) == recording_at(run.folder.path) == recording_at(run.folder.history) == recording
    with pytest.raises(StoreError, match="no such run"):
        recording_at(tmp_path / "nothing")


SECRET, ADDRESS = "eyJhbGciOi", "jdbc:postgresql://app:hunter22+=@db/lake"
PROPERTIES = {"token": SECRET, "cache-enabled": "true", "uri": ADDRESS}
GIVEN = {"ICEQUAKE_CATALOG_TOKEN": SECRET, "ICEQUAKE_CATALOG_URI": ADDRESS}


def hiding(folder: RunFolder) -> RunFolder:
    """The run's folder as a run with these properties would have left it."""
    hidden = {**PROPERTIES, "token": HIDDEN, "uri": f"jdbc:postgresql://app:{HIDDEN}@db/lake"}
    folder.write_plan(Plan.model_validate(PLAN | {"catalog_properties": hidden}))
    return folder


@pytest.mark.parametrize("kind", ["folder", "file"])
@pytest.mark.parametrize(
    ("given", "says"),
    [
        (
            {},
            "token is a secret that was not stored; set the environment variable ICEQUAKE_CATALOG_TOKEN to its value; uri is a secret",
        ),
        (GIVEN | {"ICEQUAKE_CATALOG_TOKEN": ""}, "set the environment variable ICEQUAKE_CATALOG_TOKEN to its value"),
        (GIVEN | {"ICEQUAKE_CATALOG_TOKEN": HIDDEN}, "ICEQUAKE_CATALOG_TOKEN is something else"),
        (GIVEN | {"ICEQUAKE_CATALOG_URI": "jdbc:sqlite:x"}, "ICEQUAKE_CATALOG_URI is something else"),
    ],
)
def test_a_run_with_hidden_properties_is_not_replayed_without_them(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: dict[str, str], says: str, kind: str
) -> None:
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    recorded(run)
    place = hiding(run.folder).path
    if kind == "file":
        (place := tmp_path / "recording.json").write_text(recording_of(run.folder).to_json())
    with pytest.raises(RunError) as e:
        recording_at(place)
    where = run.folder.plan if kind == "folder" else place
    assert str(e.value).startswith(f"{where}: catalog_properties: ") and says in str(e.value)
    assert SECRET not in str(e.value) and "sqlite" not in str(e.value)


def test_a_recording_of_a_run_with_hidden_properties_holds_none_of_them(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in GIVEN.items():
        monkeypatch.setenv(name, value)
    recorded(run)
    recording = recording_at(hiding(run.folder).path)
    (file := tmp_path / "recording.json").write_text(recording.to_json())
    assert SECRET not in file.read_text() and "hunter22" not in file.read_text()
    assert recording_at(file) == recording
    assert recording.workload.catalog_properties.keys() == PROPERTIES.keys()


FOREIGN = "is a run of w, not of quick; replay it with that workload"
MISUSE: dict[str, tuple[dict[str, Any], list[str], str]] = {
    "another workload": ({}, ["quick"], FOREIGN),
    "a seed": ({}, ["--seed", "3"], "--seed does not go with a replay: the recording says it"),
    "the seed 0": ({}, ["--seed", "0"], "--seed does not go with a replay: the recording says it"),
    "writers": ({}, ["--writers", "3"], "--writers does not go with a replay: the recording says it"),
    "faults": ({}, ["--faults", "crashes"], "--faults does not go with a replay: the recording says it"),
    "a length": ({}, ["--time", "3s"], "--time does not go with a replay: the recording says it"),
    "no plan": ({"plan.yaml": None}, [], "plan.yaml: cannot be read: No such file or directory; is "),
    "a broken plan": ({"plan.yaml": "a: [1,\n"}, [], "plan.yaml:2: not YAML from here on"),
    "a plan of nothing": ({"plan.yaml": "workload: w\n"}, [], "the plan does not say the whole workload"),
    "no history": ({"history.jsonl": None}, [], "history.jsonl: no such history; is this the folder of a run?"),
    "a broken history": ({"history.jsonl": "broken\n"}, [], "history.jsonl:1: not JSON"),
    "no operation": (
        {"history.jsonl": '{"format": 1}\n'},
        [],
        "no operation was recorded, so there is nothing to replay",
    ),
    "no proxy log": ({"proxy.jsonl": None}, [], "no proxy log, so its order is not known; record it with --order free"),
    "an empty proxy log": ({"proxy.jsonl": ""}, [], "no request of the run's operations is in it"),
    "a proxy log that is none": ({"proxy.jsonl": "\0\1x\ny\n"}, [], "record one with --order free"),
    "another run's table": (
        {"history.jsonl": ("orders", "others")},
        [],
        "w0-1 has the table others, which plan.yaml does",
    ),
    "another kind": ({"history.jsonl": ("insert", "inzert")}, [], "the kind inzert, which this icequake does not know"),
    "too many writers": ({"history.jsonl": ("w0-1", "w7-1")}, [], "w7-1 has the writer w7, and plan.yaml has 2"),
}
"""What is wrong → what a file of the run's folder has instead, options, what the message says."""


@pytest.mark.parametrize("what", MISUSE)
def test_what_cannot_be_replayed_is_said_in_one_line_before_anything_starts(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def started(*_: object, **__: object) -> None:
        raise AssertionError("it was replayed")

    monkeypatch.setattr(setup, "ensure_release", started)
    (folder := tmp_path / "w" / "20260101T000000.000Z").mkdir(parents=True)
    recorded(Run(folder))
    content, words, says = MISUSE[what]
    for name, text in content.items():
        path = folder / name
        if text is None:
            path.unlink()
        else:
            path.write_text(text if isinstance(text, str) else path.read_text().replace(*text))
    file = tmp_path / "w.yaml"
    file.write_text("workload: w\ntables: [{name: orders}]\nwriters: 2\nlength: {ops: 5}\noperations: {insert: 1}\n")
    workload, options = (words[0], words[1:]) if words[:1] == ["quick"] else (file, words)
    done = inside("run", workload, "--order", f"replay {folder}", *options, cwd=tmp_path)
    (line,) = done.stderr.splitlines()
    assert done.returncode == 254 and not done.stdout and says in line and "internal error" not in line
    assert not (tmp_path / "store").exists()


# -- what decides --------------------------------------------------------------------------------------------------------


def recorded(run: Run) -> Recording:
    """w1-1 begins when w0-1 has ended; w0-2 begins in between."""
    run.at(0).record("invoke", 0, "insert", table="orders", value={"ids": [1]}, op="w0-1", phase="main")
    run.at(1).record("ok", 0, "insert", table="orders", op="w0-1")
    run.at(2).record("invoke", 1, "insert", table="orders", value={"ids": [2]}, op="w1-1", phase="main")
    run.at(3).record("invoke", 0, "insert", table="orders", value={"ids": [3]}, op="w0-2", phase="main")
    run.at(4).record("ok", 1, "insert", table="orders", op="w1-1")
    run.request("w0-1", "load", 0, 1)
    run.request("w1-1", "load", 2, 3)
    return run.recording()


def test_a_replay_invokes_an_operation_when_those_before_it_have_ended(run: Run) -> None:
    replaying = Replaying(recorded(run), threading.Event())
    workload = replaying.workload()
    (phase,) = workload.resolved_phases()
    assert phase.length.ops == 3 and workload.op_timeout >= 180
    first, second = (replaying.operations(workload, phase, n, 7) for n in (0, 1))
    drawn: list[object] = []
    waiting = threading.Thread(target=lambda: drawn.append(next(second).value), daemon=True)
    assert next(first).value == {"ids": [1]}
    replaying.policy.invoked(0, "w0-9", 0.0)
    waiting.start()
    waiting.join(0.05)
    assert drawn == []
    replaying.policy.completed(0, "w0-9", 0.0)
    waiting.join(60)
    assert drawn == [{"ids": [2]}]
    assert replaying.policy.labels == {"w0-9": "w0-1"}
    assert next(first).value == {"ids": [3]}
    assert list(first) == []


def test_nobody_waits_any_more_when_the_run_is_stopped(run: Run) -> None:
    stop = threading.Event()
    replaying = Replaying(recorded(run), stop)
    (phase,) = replaying.workload().resolved_phases()
    stop.set()
    assert next(replaying.operations(replaying.workload(), phase, 1, 7)).value == {"ids": [2]}


def test_the_schedule_of_a_replay_begins_a_fault_when_its_moment_has_passed(run: Run) -> None:
    run.operation("w0-1", 0, 90)
    run.request("w0-1", "load", 10, 12)
    fault(run, 100, 1100, Fault(verb="kill", target="driver"), struck="w1.2")
    stop = threading.Event()
    replaying = Replaying(run.recording(), stop)
    found: list[Any] = []
    conductor = threading.Thread(target=lambda: found.extend(replaying.schedule()), daemon=True)
    conductor.start()
    conductor.join(0.05)
    assert found == []
    replaying.policy.over("w0-1")  # it ended without the load
    replaying.policy.decide(0.0)
    conductor.join(60)
    (planned,) = found
    assert (planned.pause, planned.duration, planned.fault.verb, planned.fault.writers) == (0.0, 1.0, "kill", (1,))


MAINTAIN = Fault(verb="maintain", do="rewrite-data-files")


def maintained(run: Run, *windows: tuple[int, int]) -> Recording:
    """The nemesis invokes w2-0, w2-1, … in these windows; w0-1 began when all of them had ended. No window: w2-0 has no fault."""
    for n, (began, ended) in enumerate(windows):
        fault(run, began, None, MAINTAIN)
        run.operation(f"w2-{n}", began + 1, ended - 1, "nemesis")
        run.request(f"w2-{n}", "load", began + 2, began + 3)
        run.at(ended).record("info", NEMESIS, f"stop-{MAINTAIN.slug}", value={"name": MAINTAIN.name})
    if not windows:
        run.operation("w2-0", 1, 9, "nemesis")
    run.operation("w0-1", 50, 60)
    run.request("w0-1", "load", 51, 52)
    return run.recording()


def follows(replaying: Replaying) -> threading.Thread:
    """A thread that draws the operation of w0."""
    (phase,) = replaying.workload().resolved_phases()
    stream = replaying.operations(replaying.workload(), phase, 0, 7)
    thread = threading.Thread(target=lambda: next(stream), daemon=True)
    thread.start()
    return thread


def goes(thread: threading.Thread) -> bool:
    """Whether it ends well before the longest wait for an operation."""
    thread.join(60)
    return not thread.is_alive()


def test_nobody_waits_for_an_operation_of_the_nemesis_that_no_fault_invokes(run: Run) -> None:
    recording = maintained(run)
    assert recording.operations[1].after == ("w2-0",)
    assert goes(follows(Replaying(recording, threading.Event())))


@pytest.mark.parametrize("asked", [False, True])
def test_nobody_waits_for_an_operation_of_the_nemesis_whose_fault_is_over(run: Run, asked: bool) -> None:
    """The nemesis has no writer that could perform it, or its expiry is passed over."""
    replaying = Replaying(maintained(run, (0, 10)), threading.Event())
    waiting = follows(replaying)
    for planned in replaying.schedule():
        assert waiting.is_alive() and not replaying.policy.ended("w2-0")
        if asked:
            assert replaying.maintenance(planned.fault) is not None
    assert goes(waiting) and replaying.policy.done is False
    replaying.policy.invoked(2, "w2-7", 0.0)
    assert replaying.policy.labels == {}, "another operation of the same writer"


def test_a_fault_begins_though_the_operation_of_the_one_before_it_was_not_invoked(run: Run) -> None:
    replaying = Replaying(maintained(run, (0, 10), (20, 30)), threading.Event())
    planned: list[Any] = []
    conductor = threading.Thread(target=lambda: planned.extend(replaying.schedule()), daemon=True)
    conductor.start()
    assert goes(conductor) and len(planned) == 2
    assert goes(follows(replaying))


def test_an_operation_of_the_nemesis_that_was_invoked_is_its_own(run: Run) -> None:
    replaying = Replaying(maintained(run, (0, 10)), threading.Event())
    for planned in replaying.schedule():
        assert replaying.maintenance(planned.fault) is not None
        replaying.policy.invoked(2, "w2-7", 0.0)
        replaying.policy.completed(2, "w2-7", 0.0)
    assert replaying.policy.labels == {"w2-7": "w2-0"} and goes(follows(replaying))
    replaying.policy.decide(0.0)
    assert replaying.policy.unforced()[0] == "w2-0 load 1: w2-0 ended without it"


def test_a_recording_whose_workload_has_no_nemesis_begins_no_fault_and_waits_for_none(run: Run) -> None:
    recording = maintained(run, (0, 10))
    without = replace(recording, workload=recording.workload.model_copy(update={"nemesis": None}))
    replaying = Replaying(without, threading.Event())
    assert list(replaying.schedule()) == [] and goes(follows(replaying))
    assert replaying.outcome(run.folder)["unforced"][-1].endswith(f"none of these began: {MAINTAIN.name}")
    held = HeldRequest(1, 0, replace(without.order[-1], op="w0-7"), 0.0)
    replaying.policy.invoked(0, "w0-7", 0.0)
    replaying.policy.arrives(held)
    assert replaying.policy.decide(0.0) == [held], "no fence is before it"


def test_no_fault_is_waited_for_when_the_load_is_over(run: Run) -> None:
    replaying = Replaying(maintained(run, (100, 110)), threading.Event())
    conductor = threading.Thread(target=lambda: [*replaying.schedule()], daemon=True)
    conductor.start()
    replaying.ends()
    assert goes(conductor)


def test_what_a_stream_still_had_when_it_was_closed_is_not_waited_for(run: Run) -> None:
    replaying = Replaying(recorded(run), threading.Event())
    (phase,) = replaying.workload().resolved_phases()
    stream = replaying.operations(replaying.workload(), phase, 0, 7)
    assert next(stream).value == {"ids": [1]}
    stream.close()  # type: ignore[attr-defined]
    assert replaying.policy.ended("w0-1") and replaying.policy.ended("w0-2")


def test_an_operation_that_comes_after_one_that_is_not_there_is_refused(run: Run, tmp_path: Path) -> None:
    recording = recorded(run)
    late = replace(recording.operations[1], after=("w5-1",))
    (file := tmp_path / "recording.json").write_text(
        replace(recording, operations=(recording.operations[0], late, *recording.operations[2:])).to_json()
    )
    with pytest.raises(FileError, match="after: there is no operation w5-1"):
        recording_at(file)


def test_requests_that_contradict_each_other_have_some_order(run: Run) -> None:
    """Three commits, each built on what the next one made, as no catalog has them."""
    run.operation("w0-1", 0, 90)
    for n in range(3):
        run.request("w0-1", "commit", 10 + n, 40 + n, base=str(n), new=str((n + 1) % 3))
    found: list[str] = []
    reading = threading.Thread(target=lambda: found.extend(texts(run.recording())), daemon=True)
    reading.start()
    assert goes(reading) and sorted(found) == [f"w0-1 commit {n}" for n in (1, 2, 3)]


WORKLOAD = "workload: w\ntables: [{name: t}]\nwriters: 2\noperations: {insert: 1}\n"


def test_the_expected_length_is_in_requests_or_in_seconds() -> None:
    assert expected(parse(WORKLOAD + "length: {ops: 50}")).steps == 200
    assert expected(parse(WORKLOAD + "length: {time: 50s}")).seconds == 50
    mixed = "phases: [{name: a, length: {ops: 20}}, {name: b, length: {time: 5s}}]"
    assert expected(parse(WORKLOAD + mixed)).seconds == 15


def test_a_workload_says_who_decides() -> None:
    w = parse(WORKLOAD + "length: {ops: 50}\norder: priority(4)")
    assert isinstance(ordering_of(w, 2, 1), Prioritised)
    assert ordering_of(parse(WORKLOAD + "length: {ops: 50}\norder: free"), 2, 1) is None
    with pytest.raises(RunError, match="only `icequake run` replays a run"):
        ordering_of(parse(WORKLOAD + "length: {ops: 50}\norder: replay x"), 2, 1)


# --- which runs record their order

QUICK = "workload: w\ntables: [{name: t}]\nlength: {ops: 4}\noperations: {insert: 1}\n"


def test_a_run_records_its_order_unless_that_would_cost_it_its_warm_writers() -> None:
    spec, settings = parse(QUICK), Settings(seed=1, command="icequake run w")
    warm = StandingStack(Endpoints("", "", "", "", "", "rest", "", "", ""))
    assert ordered.recorded(spec, settings, None).order == "free"
    assert ordered.recorded(spec, settings, warm).order is None
    assert ordered.recorded(spec, replace(settings, docker=True), None).order is None
    decided = spec.model_copy(update={"order": "priority(3)"})
    assert (
        ordered.recorded(decided, settings, warm).order
        == ordered.recorded(decided, settings, None).order
        == "priority(3)"
    )
    no_proxy = spec.model_copy(update={"catalog": "jdbc-sqlite"})
    assert ordered.recorded(no_proxy, settings, None).order is None, "a proxy can stand nowhere"


def test_a_failed_run_without_a_recorded_order_names_the_way_to_one(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    says = "not recorded; a run with --order free can be replayed and shrunk, and each request costs 0.1 to 0.2 ms more"
    assert not_recorded(folder) == [says]
    folder.proxy.write_text("")
    assert not_recorded(folder) == []
