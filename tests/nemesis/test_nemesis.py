"""Faults as values, their schedule, what the board takes, what the conductor writes, and what processes it strikes."""

from __future__ import annotations

import itertools
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from checkers.evidence import history
from checkers.evidence.history import Event
from checkers.evidence.recorder import Recorder
from checkers.timeline import fault_windows as windows
from compose.catalogs.hive import Metastore
from compose.catalogs.moto import Moto
from compose.catalogs.nessie import Nessie
from compose.catalogs.polaris import Polaris
from compose.catalogs.rest import RestCatalog
from compose.processes.process import LocalProcess
from compose.processes.service import ServiceError
from compose.servers.minio import Minio
from compose.servers.postgres import Postgres
from compose.servers.spark import SparkMaster, SparkWorker
from harness.run.conductor import Conductor, drivers_of
from nemesis.faults.fault import Fault
from nemesis.faults.packages import PACKAGES
from nemesis.faults.packets import Packets
from nemesis.faults.schedule import PlannedFault, schedule
from nemesis.faults.suspects import NoTarget
from nemesis.processes import Processes
from nemesis.proxy.board import Armed, Board
from nemesis.wires.wire import Message, Request
from reports.run import bands
from workloads.file.workload import Nemesis, WorkloadError
from workloads.file.workload_text import parse

WORKLOAD = """\
workload: x
tables: [{name: t}]
writers: 2
length: {ops: 1}
operations: {insert: 1}
nemesis:
  packages: [lost-acks]
  faults:
    - {verb: delay, seconds: 1s}
"""


def until(condition: Callable[[], bool]) -> None:
    """Wait for what another thread or process does."""
    for _ in range(2000):
        if condition():
            return
        threading.Event().wait(0.01)
    raise AssertionError("it never came")


def commit(op: str | None = None) -> Request:
    return Request("commit", "POST", Message(b""), ops=frozenset({op} if op else ()))


# --- values -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"verb": "delay"}, "delay needs seconds"),
        ({"verb": "throttle"}, "throttle needs rate"),
        ({"verb": "kill"}, "kill needs target"),
        ({"verb": "maintain"}, "maintain needs do"),
        ({"verb": "drop-reply", "status": 503}, "status is for answer, late, reject, not for drop-reply"),
        ({"verb": "delay", "seconds": "1s", "direction": "both"}, "direction is for drop-packets, partition"),
        ({"verb": "kill", "target": "moon"}, "target"),
        ({"verb": "answer", "status": 200}, "status"),
        ({"verb": "drop-reply", "probability": 0}, "probability"),
        ({"verb": "drop-reply", "sometimes": 1}, "sometimes"),
    ],
)
def test_a_fault_that_makes_no_sense_says_why(fields: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValidationError) as error:
        Fault(**fields)
    assert complaint in str(error.value)


def test_every_fault_of_every_package_is_a_plain_value_that_comes_back() -> None:
    every = PACKAGES["all"].faults
    assert len(every) == sum(len(p.faults) for n, p in PACKAGES.items() if n != "all")
    for fault in every:
        assert Fault(**fault.plain()) == fault
        assert fault.slug and fault.slug == fault.slug.lower() and " " not in fault.slug


@pytest.mark.parametrize(
    ("change", "line", "complaint"),
    [
        (
            ("[lost-acks]", "[lost-akcs]"),
            7,
            "unknown package 'lost-akcs' (did you mean lost-acks?); allowed: partition",
        ),
        (("verb: delay, seconds: 1s", "verb: dealy"), 9, "verb: 'dealy' is not allowed"),
        (("verb: delay, seconds: 1s", "verb: delay"), 9, "delay needs seconds"),
        (("seconds: 1s", "secons: 1s"), 9, "unknown key 'secons' (did you mean seconds?)"),
        (("seconds: 1s", "seconds: 1s, writers: [2]"), 9, "there is no writer 2; the workload has 2"),
        (
            ("verb: delay, seconds: 1s", "verb: maintain, do: expire-snapshot"),
            9,
            "unknown operation 'expire-snapshot' (did you mean",
        ),
        (("writers: 2", 'writers: 2\nclocks: {"2": -2h}'), 4, "there is no writer 2; the workload has 2"),
        (
            ("writers: 2", 'writers: 2\nclocks: {"1": two hours}'),
            4,
            "'two hours' must be a shift of the clock such as +1h or -30s",
        ),
        (
            ("  packages: [lost-acks]\n  faults:\n    - {verb: delay, seconds: 1s}", "  interval: 1s"),
            6,
            "names no fault",
        ),
    ],
)
def test_an_error_in_a_schedule_names_line_key_and_remedy(change: tuple[str, str], line: int, complaint: str) -> None:
    assert change[0] in WORKLOAD
    with pytest.raises(WorkloadError) as error:
        parse(WORKLOAD.replace(*change), "w.yaml")
    assert str(error.value).startswith(f"w.yaml:{line}: ")
    assert complaint in str(error.value)


# --- the schedule -----------------------------------------------------------------------------------------------------


def first(n: int, spec: Nemesis, seed: int, writers: int = 4) -> list[PlannedFault]:
    plan = schedule(spec.all(), spec.interval, spec.duration, ("spark",) * writers, seed)
    return list(itertools.islice(plan, n))


def test_seed_and_file_determine_the_schedule() -> None:
    spec = Nemesis(packages=("all",))
    assert first(200, spec, 7) == first(200, spec, 7)
    assert first(200, spec, 7) != first(200, spec, 8)


@given(st.integers(0, 2**31), st.integers(1, 8))
def test_pauses_lengths_and_the_one_writer_are_in_their_bounds(seed: int, writers: int) -> None:
    spec = Nemesis(packages=("all",), interval=4.0, duration=8.0)
    for planned in first(30, spec, seed, writers):
        assert 2 <= planned.pause <= 6 and 6 <= planned.duration <= 10
        if planned.fault.whose == "one":
            assert planned.fault.writers is not None and planned.fault.writers[0] in range(writers)


def test_weights_are_kept() -> None:
    often, rarely = Fault(verb="drop-reply", weight=9), Fault(verb="cut", weight=1)
    drawn = [p.fault.verb for p in first(4000, Nemesis(faults=(often, rarely)), 1)]
    assert 3400 < drawn.count("drop-reply") < 3800


# --- the board --------------------------------------------------------------------------------------------------------


def struck(board: Board, n: int, **where: Any) -> list[bool]:
    service, writer = where.get("service", "catalog"), where.get("writer", 0)
    return [board.plan(service, writer, commit()).strike is not None for _ in range(n)]


def test_nth_times_and_probability() -> None:
    board = Board(seed=3)
    armed = board.arm(Fault(verb="drop-reply", nth=3))
    assert struck(board, 5) == [False, False, True, False, False]
    board.end(armed)
    board.arm(Fault(verb="drop-reply", times=2))
    assert struck(board, 5) == [True, True, False, False, False]
    board.heal()
    board.arm(Fault(verb="drop-reply", probability=0.3))
    assert 200 < sum(struck(board, 1000)) < 400


def test_a_missed_strike_does_not_count() -> None:
    board = Board()
    armed = board.arm(Fault(verb="drop-reply", times=1))
    assert struck(board, 1) == [True]
    armed.missed_strike()
    assert struck(board, 2) == [True, False]
    assert armed.missed == 1


def waits(board: Board, n: int, fault: Fault) -> list[float]:
    """The seconds that the next ``n`` commits are delayed by ``fault``, armed anew."""
    armed = board.arm(fault)
    found = [seconds for _ in range(n) for _, seconds in board.plan("catalog", 0, commit()).delays]
    board.end(armed)
    return found


def test_the_seed_determines_how_long_the_nth_request_is_delayed() -> None:
    fault = Fault(verb="delay", seconds=2.0, jitter=1.0)
    one, another, other_seed = Board(seed=3), Board(seed=3), Board(seed=4)
    first = waits(one, 20, fault)
    assert len(set(first)) == 20 and all(1.0 <= s <= 3.0 for s in first)
    assert waits(another, 20, fault) == first
    assert waits(one, 20, fault) == waits(another, 20, fault) != first, "a fault that is armed again draws anew"
    assert waits(other_seed, 20, fault) != first
    assert waits(Board(seed=3), 3, Fault(verb="delay", seconds=2.0)) == [2.0] * 3


def test_a_board_that_serves_several_runs_draws_by_the_seed_of_each() -> None:
    fault = Fault(verb="delay", seconds=2.0, jitter=1.0)
    board = Board()
    drawn = []
    for seed in (3, 4, 3):
        board.begin(lambda: 0, None, seed)
        waited = waits(board, 5, fault)
        armed = board.arm(Fault(verb="reject", probability=0.5))
        drawn.append((waited, struck(board, 30)))
        board.end(armed)
    assert drawn[0] == drawn[2] and all(a != b for a, b in zip(drawn[0], drawn[1], strict=True))


def test_only_its_service_its_writers_and_its_kind() -> None:
    board = Board()
    board.arm(Fault(verb="drop-reply", writers=(1,)))
    assert struck(board, 1, writer=0) + struck(board, 1, writer=1) == [False, True]
    assert struck(board, 1, writer=1, service="store") == [False]
    load = Request("load", "GET", Message(b""))
    assert board.plan("catalog", 1, load).strike is None


def test_heal_ends_all() -> None:
    board = Board()
    armed, hold = board.arm(Fault(verb="partition", request="any")), board.hold("w0-1")
    board.heal()
    assert not armed.on and struck(board, 1) == [False]
    board.invoked(0, "w0-1")
    assert board.plan("catalog", 0, commit()).hold is None and hold.problem is None


def test_a_held_operation_is_known_by_its_snapshot_or_by_what_its_writer_does() -> None:
    board = Board()
    board.hold("w0-1")
    board.invoked(0, "w0-1")
    assert board.plan("catalog", 0, commit("w0-0")).hold is None  # a commit that names another operation
    assert board.plan("catalog", 1, commit()).hold is None
    assert board.plan("catalog", 0, commit()).hold is not None
    assert board.plan("catalog", 0, commit()).hold is None  # the first only
    board.hold("w1-5", service="database")
    board.invoked(1, "w1-5")
    assert board.plan("database", None, commit()).hold is not None


def test_a_fault_of_a_process_cannot_be_armed() -> None:
    with pytest.raises(ValueError, match="not a fault of connections"):
        Board().arm(Fault(verb="kill", target="driver"))


# --- the conductor ----------------------------------------------------------------------------------------------------


class Server:
    """A service that counts what is done to it."""

    def __init__(self, name: str, role: str, *, comes_back: bool = True) -> None:
        self.name = name
        self.role = role
        self.done: list[str] = []
        self.waited = 0.0
        self._comes_back = comes_back

    def __getattr__(self, verb: str) -> Any:
        if verb not in ("kill", "pause", "resume", "restart", "start", "stop"):
            raise AttributeError(verb)
        return lambda: self.done.append(verb)

    def ready(self, timeout: float) -> None:
        self.done.append("ready")
        self.waited += timeout
        if not self._comes_back:
            raise ServiceError(self.name, "does not come back")


class Fillable(Server):
    """The same, in a container with a disk, and without a network of its own."""

    def fill(self) -> None:
        self.done.append("fill")

    def empty(self) -> None:
        self.done.append("empty")


class Contained(Fillable):
    """The same, in a container with a network."""

    def disconnect(self) -> None:
        self.done.append("disconnect")

    def reconnect(self) -> None:
        self.done.append("reconnect")

    def delays_packets(self) -> bool:
        return False

    def hamper(self, packets: Packets) -> None:
        self.done.append(str(packets))

    def let_pass(self) -> None:
        self.done.append("let pass")


def conducted(
    tmp_path: Path, plan: list[Fault], processes: Processes, board: Board | None = None
) -> tuple[list[Event], Conductor]:
    """The events of a conductor that goes through ``plan`` once."""
    path = tmp_path / "history.jsonl"
    over = threading.Event()  # also set by an error

    def planned() -> Iterator[PlannedFault]:
        yield from (PlannedFault(0.0, f, 0.01) for f in plan)
        over.set()

    with Recorder(path, {}) as recorder:
        conductor = Conductor(planned(), board or Board(), processes, recorder, lambda _: None, lambda f: "ok", over)
        conductor.start()
        assert over.wait(300)
        conductor.heal()
    return list(history.read(path).events), conductor


def test_network_and_disk_of_a_container_are_struck_and_those_of_a_process_are_not(tmp_path: Path) -> None:
    process, container = Server("postgres", "database"), Contained("minio", "store")
    worker = Fillable("spark-worker-1", "spark-worker")
    plan = [
        Fault(verb="disconnect", target="store"),
        Fault(verb="fill", target="store"),
        Fault(verb="disconnect", target="database"),
        Fault(verb="fill", target="database"),
        Fault(verb="fill", target="spark-worker"),
    ]
    services = {"postgres": process, "minio": container, "spark-worker-1": worker}
    events, _ = conducted(tmp_path, plan, Processes(services, [], 0))
    assert container.done == ["disconnect", "reconnect", "ready", "fill", "empty"] and process.done == []
    assert worker.done == ["fill", "empty"]
    tally = {t.name: t for t in bands.faults(events)}
    counts = [(tally[f.name].hits.total(), tally[f.name].missed) for f in plan]
    assert counts == [(1, 0), (1, 0), (0, 1), (0, 1), (1, 0)]


ON_PACKETS = [
    Fault(verb="drop-packets", target="store"),
    Fault(verb="drop-packets", target="database", direction="replies"),
    Fault(verb="reset-connections", target="database"),
    Fault.model_validate({"verb": "lose-packets", "target": "store", "share": 0.25}),
    Fault(verb="delay-packets", target="store", seconds=0.3, jitter=0.1),
]
DELAY = ON_PACKETS[-1]


def test_faults_of_packets_strike_those_of_containers(tmp_path: Path) -> None:
    store, database = Contained("minio", "store"), Contained("postgres", "database")
    delays = Contained("minio", "store")
    delays.delays_packets = lambda: True  # type: ignore[method-assign]
    processes = Processes({"minio": store, "postgres": database}, [], 0)
    events, _ = conducted(tmp_path, ON_PACKETS[:-1], processes)
    passes = ["let pass", "ready"]
    assert store.done == [str(Packets(dropped=1.0)), *passes, str(Packets(dropped=0.25)), *passes]
    assert database.done == [str(Packets("replies", 1.0)), *passes, str(Packets(reset=True)), *passes]
    tally = {t.name: t for t in bands.faults(events)}
    assert [(tally[f.name].hits.total(), tally[f.name].missed) for f in ON_PACKETS[:-1]] == [(1, 0)] * 4
    assert all(w.healed for w in windows.windows(events))
    (tmp_path / "delay").mkdir()
    conducted(tmp_path / "delay", [DELAY], Processes({"minio": delays}, [], 0))
    assert delays.done == [str(Packets(seconds=0.3, jitter=0.1)), *passes]


def test_of_processes_the_proxies_carry_them_out_and_the_history_names_the_same_faults(tmp_path: Path) -> None:
    board = Board()
    armed: list[Fault] = []
    arm = board.arm

    def note(fault: Fault) -> Armed:
        armed.append(fault)
        return arm(fault)

    board.arm = note  # type: ignore[method-assign]
    services = {"minio": Server("minio", "store"), "postgres": Server("postgres", "database")}
    events, _ = conducted(tmp_path, ON_PACKETS, Processes(services, [], 0), board)
    assert [(f.name, f.request) for f in armed] == [
        ("partition (store)", "any"),
        ("partition (replies)", "any"),  # writers without a catalog's server ask the database: it is their catalog
        ("refuse", "any"),
        ("delay (store)", "any"),
        ("delay (store)", "any"),
    ]
    assert (armed[3].probability, armed[3].seconds, armed[4].seconds, armed[4].jitter) == (0.25, 0.2, 0.3, 0.1)
    assert [w.name for w in windows.windows(events)] == [f.slug for f in ON_PACKETS]
    assert [e.value["fault"] for e in events if e.f.startswith("start-")] == [f.plain() for f in ON_PACKETS]


def test_with_a_catalog_s_server_its_database_is_struck_on_the_connections_of_that_server(tmp_path: Path) -> None:
    processes = Processes({"rest": Server("rest", "catalog"), "postgres": Server("postgres", "database")}, [], 0)
    stands_in = processes.by_proxies(Fault(verb="drop-packets", target="database"))
    assert stands_in is not None and (stands_in.service, stands_in.verb) == ("database", "partition")


def test_a_kernel_without_netem_leaves_delays_to_the_proxies_and_says_where_there_is_none(tmp_path: Path) -> None:
    store, database, catalog = (
        Contained("minio", "store"),
        Contained("postgres", "database"),
        Contained("rest", "catalog"),
    )
    processes = Processes({"minio": store, "postgres": database, "rest": catalog}, [], 0)
    stands_in = processes.by_proxies(DELAY)
    assert stands_in is not None and stands_in.name == "delay (store)"
    of_database = DELAY.model_copy(update={"target": "database"})
    with pytest.raises(NoTarget, match="no netem to delay the packets of postgres, and no proxy stands before"):
        processes.by_proxies(of_database)
    events, _ = conducted(tmp_path, [of_database], processes)
    (tally,) = bands.faults(events)
    assert (tally.hits.total(), tally.missed) == (0, 1)


@pytest.mark.parametrize(
    ("verb", "target", "says"),
    [
        ("fill", "catalog", "fill strikes store or database or spark-worker, not catalog"),
        ("drop-packets", "executor", "drop-packets strikes catalog or database or store, not executor"),
        ("disconnect", "driver", "disconnect strikes catalog or database or store, not driver"),
    ],
)
def test_a_target_without_a_container_is_refused(verb: str, target: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        Fault.model_validate({"verb": verb, "target": target})


def test_faults_are_windows_in_the_history_and_say_what_they_struck(tmp_path: Path) -> None:
    store = Server("minio", "store")
    plan = [
        Fault(verb="drop-reply"),
        Fault(verb="kill", target="store"),
        Fault(verb="pause", target="store"),
        Fault(verb="restart", target="store"),
        Fault(verb="stop", target="store"),
        Fault(verb="kill", target="catalog"),
        Fault(verb="maintain", do="rewrite-manifests"),
    ]
    events, _ = conducted(tmp_path, plan, Processes({"minio": store}, [], 0))
    assert store.done == ["kill", "start", "ready", "pause", "resume", "restart", "stop", "start", "ready"]
    assert {e.type for e in events} == {"info"} and events[-1].f == "heal"
    found = windows.windows(events)
    assert [w.name for w in found] == [f.slug for f in plan]
    assert all(w.healed for w in found)
    tally = {t.name: t for t in bands.faults(events)}
    assert [tally[f.name].hits.total() for f in plan] == [0, 1, 1, 1, 1, 0, 1]
    assert tally["kill catalog"].missed == 1  # this stack has none


def test_what_does_not_come_back_is_an_error(tmp_path: Path) -> None:
    store = Server("minio", "store", comes_back=False)
    with pytest.raises(ServiceError, match="does not come back"):
        conducted(tmp_path, [Fault(verb="kill", target="store")], Processes({"minio": store}, [], 0))


def test_heal_waits_as_long_as_the_end_of_the_last_fault_may_take(tmp_path: Path) -> None:
    store = Server("minio", "store", comes_back=False)
    plan, processes = [PlannedFault(0.0, Fault(verb="kill", target="store"), 0.0)], Processes({"minio": store}, [], 0)
    over = threading.Event()
    with Recorder(tmp_path / "history.jsonl", {}) as recorder:
        conductor = Conductor(plan, Board(), processes, recorder, lambda _: None, None, over)
        conductor.start()
        assert over.wait(300)
        with pytest.raises(ServiceError, match="does not come back"):
            conductor.heal()
        maintains = Conductor([], Board(), processes, recorder, lambda _: None, None, over, 1e4)
    assert store.done.count("ready") > 1
    assert conductor.longest_end > store.waited
    assert maintains.longest_end >= 1e4


def test_heal_ends_the_fault_that_is_on(tmp_path: Path) -> None:
    board = Board()
    seen: list[Armed] = []
    arm = board.arm
    board.arm = lambda fault: seen.append(arm(fault)) or seen[-1]  # type: ignore[method-assign,func-returns-value]
    with Recorder(tmp_path / "history.jsonl", {}) as recorder:
        plan = [PlannedFault(0.0, Fault(verb="partition", request="any"), 600.0)]
        conductor = Conductor(plan, board, Processes({}, [], 0), recorder, lambda _: None, None, threading.Event())
        conductor.start()
        until(lambda: bool(seen))
        conductor.heal()
    assert not seen[0].on
    assert [w.healed for w in windows.windows(history.read(tmp_path / "history.jsonl").events)] == [True]


# --- processes --------------------------------------------------------------------------------------------------------


def test_a_real_executor_is_stopped_and_killed() -> None:
    code = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import time; time.sleep(60)', '%s'])"
    worker = subprocess.Popen([sys.executable, "-c", code % "CoarseGrainedExecutorBackend"])
    try:
        service = Server("spark-worker-1", "spark-worker")
        service.host_pid = lambda: worker.pid  # type: ignore[attr-defined]
        until(lambda: any("time.sleep" in " ".join(c.cmdline()) for c in psutil.Process(worker.pid).children()))
        (child,) = psutil.Process(worker.pid).children()
        processes = Processes({"spark-worker-1": service}, [], 0)
        whom, undo = processes.strike(Fault(verb="pause", target="executor"))
        assert whom == f"executor {child.pid}"
        until(lambda: child.status() == psutil.STATUS_STOPPED)
        undo()
        until(lambda: child.status() != psutil.STATUS_STOPPED)
        processes.strike(Fault(verb="kill", target="executor"))
        worker.wait(300)
        with pytest.raises(NoTarget, match="no executor"):
            processes.strike(Fault(verb="kill", target="executor"))
    finally:
        worker.kill()
        worker.wait()


def test_a_driver_that_is_not_ours_is_no_target() -> None:
    with pytest.raises(NoTarget, match="writer w1 has no driver"):
        Processes({}, [lambda: None, lambda: None], 0).strike(Fault(verb="kill", target="driver", writers=(1,)))


@pytest.mark.parametrize(
    ("target", "struck"),
    [("catalog", "rest"), ("database", "postgres"), ("store", "minio"), ("spark-master", "master")],
)
def test_a_target_is_the_service_of_that_role(target: Any, struck: str) -> None:
    roles = {"postgres": "database", "minio": "store", "rest": "catalog", "master": "spark-master"}
    services = {name: Server(name, role) for name, role in roles.items()}
    whom, _ = Processes(services, [], 0).strike(Fault(verb="pause", target=target))
    assert whom == struck and [s.name for s in services.values() if s.done] == [struck]


def test_a_catalog_without_a_server_of_its_own_is_its_database() -> None:
    services = {"minio": Server("minio", "store"), "postgres": Server("postgres", "database")}
    whom, _ = Processes(services, [], 0).strike(Fault(verb="kill", target="catalog"))
    assert whom == "postgres" and services["postgres"].done == ["kill"]


def test_every_service_of_a_stack_has_the_role_that_faults_target() -> None:
    roles: dict[type[LocalProcess], str] = {
        Minio: "store",
        Postgres: "database",
        SparkMaster: "spark-master",
        SparkWorker: "spark-worker",
        RestCatalog: "catalog",
        Metastore: "catalog",
        Nessie: "catalog",
        Moto: "catalog",
        Polaris: "catalog",
    }
    assert {service: service.role for service in roles} == roles


@pytest.mark.parametrize("verb", ["restart", "stop"])
def test_a_driver_is_killed_because_its_writer_starts_another(verb: str) -> None:
    driver = Server("w0", "driver")
    whom, undo = Processes({}, [lambda: driver], 0).strike(Fault(verb=verb, target="driver"))
    undo()
    assert (whom, driver.done) == ("w0", ["kill"])


def test_only_a_verb_that_decides_what_becomes_of_a_request_can_strike_a_held_one() -> None:
    with pytest.raises(ValueError, match="delay does not decide what becomes of one request"):
        Board().hold("w0-1", Fault(verb="delay", seconds=1.0))


def test_the_nth_request_of_an_operation_is_held_and_no_other() -> None:
    board = Board()
    hold = board.hold("w0-1", nth=3)
    board.invoked(0, "w0-1")
    assert [board.plan("catalog", 0, commit()).hold for _ in range(4)] == [None, None, hold, None]


def test_a_fault_with_times_strikes_as_many_requests_of_an_operation() -> None:
    board = Board()
    hold = board.hold("w0-1", Fault(verb="stale", times=2), kind="load", nth=2)
    load = Request("load", "GET", Message(b""))
    board.invoked(0, "w0-1")
    assert board.plan("catalog", 0, load).hold is None
    assert board.plan("catalog", 1, load).hold is None  # another writer's
    assert [board.plan("catalog", 0, load).hold for _ in range(3)] == [hold, hold, None]


def test_the_board_keeps_old_loads_for_a_held_request_that_is_answered_by_one() -> None:
    board = Board()
    assert not board.remembers
    board.hold("w0-1", Fault(verb="reject"))
    assert not board.remembers
    board.hold("w0-1", Fault(verb="stale", request="load"), kind="load")
    assert board.remembers


def test_a_request_is_held_only_after_the_one_that_must_come_before() -> None:
    board = Board()
    hold = board.hold("w0-1", kind="load", since=("store", "write"))
    load, write = Request("load", "GET", Message(b"")), Request("write", "PUT", Message(b""))
    board.invoked(0, "w0-1")
    assert board.plan("catalog", 0, load).hold is None  # the table is loaded before it is scanned
    assert board.plan("store", 1, write).hold is None  # another writer's
    assert board.plan("catalog", 0, load).hold is None
    assert board.plan("store", 0, write).hold is None
    assert board.plan("catalog", 0, commit()).hold is None  # another kind
    assert board.plan("catalog", 0, load).hold is hold
    assert board.plan("catalog", 0, load).hold is None


def test_faults_strike_the_warm_driver_that_a_writer_began_with_and_then_its_own() -> None:
    """A run on a warm stack gives faults the driver processes behind the sockets; those of other engines are not among them."""
    warm = [cast(Any, object()) for _ in range(2)]
    own = cast(Any, object())

    def slot(process: Any, replacements: int) -> Any:
        return SimpleNamespace(driver=lambda: process, replacements=replacements)

    slots = [slot(None, 0), slot(None, 0), slot(own, 0), slot(own, 1), slot(None, 0)]
    engines = ("duckdb", "spark", "spark", "spark", "spark")
    found = [f() for f in drivers_of(slots, engines, [lambda: warm[0], lambda: warm[1]])]
    assert found == [None, warm[0], own, own, None]
    assert [f() for f in drivers_of([slot(None, 1)], ("spark",), [lambda: warm[0]])] == [None]
    assert [f() for f in drivers_of(slots[:2], engines, ())] == [None, None]
