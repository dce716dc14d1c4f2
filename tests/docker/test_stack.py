"""A stack in containers: it answers, is struck, comes back with its data, and leaves nothing."""

from __future__ import annotations

import contextlib
import http.client
import json
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import psutil
import psycopg2
import pytest
from psycopg2.errors import DiskFull
from psycopg2.extensions import POLL_OK, POLL_READ
from pyarrow import fs

from compose.docker import packets
from compose.docker.services import PostgresContainer, RestContainer
from compose.processes.container import CONTAINER_LABEL, HARNESS, HOST, KeptContainer, identity, others, owned, sweep
from compose.processes.ports import LOOPBACK, PortInUse
from compose.processes.process import NotReady, http_get
from compose.processes.service import Service, ServiceError
from compose.processes.watchdog import RUN_VARIABLE
from compose.servers.postgres import DATABASE, USER, Postgres
from compose.stack.stack import Stack
from nemesis.faults.packets import Packets
from nemesis.faults.suspects import Contained
from tests.docker.conftest import Make, left
from tests.support.runs import environment, icequake

pytestmark = pytest.mark.docker


def eventually(condition: Callable[[], bool], seconds: float = 60) -> bool:
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.1)
    return condition()


def answers(service: Service, seconds: float = 2) -> bool:
    assert isinstance(service, KeptContainer)
    try:
        service.probe(seconds)
    except (NotReady, OSError):
        return False
    return True


def contained(stack: Stack, name: str) -> KeptContainer:
    service = stack.services[name]
    assert isinstance(service, KeptContainer)
    return service


def test_it_answers_on_loopback_only_and_leaves_nothing(client: Any, make: Make) -> None:
    made = make()
    with made as stack:
        run_id = contained(stack, "minio").container.removeprefix("icequake-").removesuffix("-minio")
        assert list(stack.services) == ["minio", "postgres", "rest"]
        assert all(isinstance(service, Service) and answers(service) for service in stack.services.values())
        for container in client.containers.list(filters={"label": f"{CONTAINER_LABEL}={run_id}"}):
            published = [one for ports in container.ports.values() for one in ports or ()]
            assert published and {one["HostIp"] for one in published} == {LOOPBACK}
            assert container.attrs["HostConfig"]["Memory"] > 0 and container.attrs["HostConfig"]["PidsLimit"] > 0
        assert len(left(client, run_id)) >= 4  # three containers and a network
    assert left(client, run_id) == []
    assert stack.services["postgres"].logs().read_text()


@pytest.mark.parametrize("strike", ["kill", "restart", "stop"])
def test_a_service_comes_back_on_its_port_with_its_data(client: Any, stack: Stack, strike: str) -> None:
    database, catalog = stack.services["postgres"], stack.services["rest"]
    assert isinstance(database, Postgres)
    port = database.port()
    database.execute(f"CREATE TABLE kept_{strike} (a int)")
    for service in (database, catalog):
        getattr(service, strike)()
        if strike != "restart":
            assert not answers(service)
        service.start()
        service.ready(120)
    assert database.port() == port
    assert database.execute(f"SELECT count(*) FROM kept_{strike}") == [(0,)]


def test_an_object_survives_the_store_s_death(stack: Stack) -> None:
    e, store = stack.endpoints, stack.services["minio"]
    files = fs.S3FileSystem(
        access_key=e.access_key, secret_key=e.secret_key, region=e.region, scheme="http", endpoint_override=e.s3[7:]
    )
    with files.open_output_stream("warehouse/kept") as out:
        out.write(b"here")
    store.kill()
    store.start()
    store.ready(120)
    with files.open_input_stream("warehouse/kept") as kept:
        assert kept.read() == b"here"


def test_a_paused_service_holds_its_connections_and_goes_on(client: Any, stack: Stack) -> None:
    store = contained(stack, "minio")
    store.pause()
    assert client.containers.get(store.container).status == "paused"
    with socket.create_connection((LOOPBACK, store.port()), 5):
        assert not answers(store)
    store.resume()
    assert eventually(lambda: answers(store))


@pytest.mark.parametrize("then", ["kill", "stop"])
def test_a_paused_service_can_be_ended(client: Any, stack: Stack, then: str) -> None:
    store = contained(stack, "minio")
    store.pause()
    getattr(store, then)()
    assert client.containers.get(store.container).status == "exited"
    store.start()
    store.ready(120)


def test_a_disconnected_service_answers_nobody_and_comes_back(client: Any, stack: Stack) -> None:
    database, catalog = stack.services["postgres"], stack.services["rest"]
    assert isinstance(database, PostgresContainer) and isinstance(catalog, RestContainer)
    database.execute("CREATE TABLE kept (a int)")
    began = client.containers.get(database.container).attrs["State"]["StartedAt"]
    database.disconnect()
    assert not answers(database)
    tables = f"{catalog.uri}/v1/namespaces"
    assert not listed(tables), "the catalog server must not reach its database"
    database.reconnect()
    database.reconnect()
    database.ready(60)
    assert database.execute("SELECT count(*) FROM kept") == [(0,)]
    assert eventually(lambda: listed(tables)), "the catalog server finds its database by name"
    assert client.containers.get(database.container).attrs["State"]["StartedAt"] == began, "it was never ended"


def listed(url: str) -> bool:
    """Whether the catalog server lists its namespaces."""
    try:
        status, _ = http_get(url, 5)
    except (OSError, http.client.HTTPException):
        return False
    return status == 200


def test_a_full_disk_takes_no_object_and_gives_those_that_it_has(client: Any, make: Make) -> None:
    with make(small_disks={"store"}) as stack:
        store = stack.services["minio"]
        assert isinstance(store, Contained)
        e = stack.endpoints
        files = fs.S3FileSystem(
            access_key=e.access_key, secret_key=e.secret_key, region=e.region, scheme="http", endpoint_override=e.s3[7:]
        )

        def put(name: str) -> None:
            with files.open_output_stream(f"warehouse/{name}") as out:
                out.write(b"here")

        put("before")
        store.fill()
        with pytest.raises(OSError):
            put("meanwhile")
        with files.open_input_stream("warehouse/before") as kept:
            assert kept.read() == b"here"
        store.empty()
        put("afterwards")
        assert files.get_file_info("warehouse/meanwhile").type == fs.FileType.NotFound


def test_a_full_disk_of_the_database_takes_no_rows_and_gives_those_that_it_has(client: Any, make: Make) -> None:
    with make(catalog="jdbc", small_disks={"database"}) as stack:
        database = stack.services["postgres"]
        assert isinstance(database, PostgresContainer)
        many = "INSERT INTO kept SELECT repeat('x', 100) FROM generate_series(1, 5000)"
        database.execute("CREATE TABLE kept (a text)")
        database.execute(many)
        database.execute("CREATE TABLE pointer (a int)")
        database.execute("INSERT INTO pointer VALUES (1)")
        database.fill()
        with pytest.raises(NotReady) as refused:
            database.execute(many)
        assert isinstance(refused.value.__cause__, DiskFull)
        database.execute("UPDATE pointer SET a = 2")  # there is room in its page, and in the log's segment
        assert database.execute("SELECT a FROM pointer") == [(2,)]
        assert database.execute("SELECT count(*) FROM kept") == [(5000,)]
        database.empty()
        database.execute(many)
        assert database.execute("SELECT count(*) FROM kept") == [(10000,)]


@pytest.mark.parametrize(
    "struck_by",
    [Packets(dropped=1.0), Packets("requests", dropped=1.0), Packets("replies", dropped=1.0), Packets(reset=True)],
    ids=lambda p: f"{p.direction}{'-reset' if p.reset else ''}",
)
def test_packets_are_dropped_or_reset_and_pass_again(stack: Stack, struck_by: Packets) -> None:
    """A client of dropped packets waits in vain; one whose connection is reset has its error long before."""
    for name in ("minio", "postgres", "rest"):
        struck = contained(stack, name)
        assert isinstance(struck, Contained)
        struck.hamper(struck_by)
        with pytest.raises((NotReady, OSError, http.client.HTTPException)) as broken:
            struck.probe(60 if struck_by.reset else 1)
        assert isinstance(broken.value, TimeoutError) == (not struck_by.reset), repr(broken.value)
        struck.let_pass()
        struck.ready(60)


def test_replies_that_are_dropped_are_those_of_requests_that_were_carried_out(stack: Stack) -> None:
    """One way: on an open connection the database does what it is asked, and the client hears nothing of it."""
    database = stack.services["postgres"]
    assert isinstance(database, PostgresContainer)
    database.execute("CREATE TABLE one_way (a int)")
    connection = psycopg2.connect(
        host=LOOPBACK, port=database.port(), user=USER, dbname=DATABASE, sslmode="disable", async_=True
    )
    try:
        assert answered(connection, None, 30) and answered(connection, "SELECT 1", 30)
        database.hamper(Packets("replies", dropped=1.0))
        assert not answered(connection, "INSERT INTO one_way VALUES (1)", 1)
    finally:
        database.let_pass()
        connection.close()
    database.ready(60)
    assert database.execute("SELECT count(*) FROM one_way") == [(1,)]


def answered(connection: Any, sql: str | None, seconds: float) -> bool:
    """Whether a connection has carried out a statement in time, or, without one, was opened."""
    cursor = None if sql is None else connection.cursor()  # the connection itself does not keep it
    if cursor is not None:
        cursor.execute(sql)
    deadline = time.monotonic() + seconds
    while (state := connection.poll()) != POLL_OK:
        left, reads = deadline - time.monotonic(), state == POLL_READ
        ready = select.select([connection] if reads else [], [] if reads else [connection], [], max(0.0, left))
        if not any(ready):
            return False
    return True


LOST = "iptables -w 5 -nvxL | grep -Eq '^ *[1-9][0-9]* +[0-9]+ +DROP'"
"""Ends with code 0 if a rule of the container's network has dropped a packet."""


def test_lost_packets_are_sent_again(client: Any, stack: Stack) -> None:
    """A fifth of them, each way: requests are answered all the same. The kernel counts the packets that it dropped."""
    store = contained(stack, "minio")
    name = store.container
    assert isinstance(store, Contained)

    def lost() -> bool:
        return packets.run(client, name, f"{LOST} || exit {packets.NO_NETEM}", {CONTAINER_LABEL: name}) == 0

    assert not lost()
    store.hamper(Packets(dropped=0.2))
    try:
        assert eventually(lambda: answers(store, seconds=15) and lost(), 240)
    finally:
        store.let_pass()
    store.ready(60)
    assert not lost()


def test_packets_are_delayed_where_the_kernel_can_and_otherwise_it_is_said(stack: Stack) -> None:
    store = contained(stack, "minio")
    assert isinstance(store, Contained)
    delayed = Packets(seconds=3.0)
    if not store.delays_packets():
        with pytest.raises(ServiceError, match="minio: this kernel has no netem to delay its packets"):
            store.hamper(delayed)
        return
    store.hamper(delayed)
    assert not answers(store), "it takes longer than the two seconds of a probe"
    store.let_pass()
    assert eventually(lambda: answers(store))


def test_a_disk_that_is_the_machine_s_is_not_filled(stack: Stack) -> None:
    for name in ("minio", "postgres"):
        service = stack.services[name]
        assert isinstance(service, Contained)
        with pytest.raises(ServiceError, match=f"{name}: its disk is that of the machine, which is not filled"):
            service.fill()


def test_a_taken_port_is_said_before_anything_starts(client: Any, make: Make) -> None:
    with socket.create_server((LOOPBACK, 0)) as taken:
        made = make(ports={"minio": taken.getsockname()[1]})
        with pytest.raises(PortInUse, match=rf"minio: port {taken.getsockname()[1]} is in use"):
            made.start()
    assert left(client, contained(made, "minio")._run_id) == []


def test_an_image_that_cannot_be_had_is_said(client: Any, make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ICEQUAKE_REST_IMAGE", "localhost:1/no/such:image")
    made = make()
    with pytest.raises(
        ServiceError, match=r"^rest: the image localhost:1/no/such:image cannot be pulled: [^\n]*docs/docker.md"
    ):
        made.start()
    assert left(client, contained(made, "minio")._run_id) == []


def test_a_server_that_ends_at_once_is_said_with_its_last_line(
    client: Any, images: dict[str, str], make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ICEQUAKE_REST_IMAGE", images["minio"])  # it has no Java
    made = make()
    with pytest.raises(ServiceError, match=r"rest: exited with code \d+ before it was ready; its log ends with"):
        made.start()
    assert left(client, contained(made, "minio")._run_id) == []


PROGRAM = """
import os, sys
from pathlib import Path
from compose.external.external import External
from compose.install.ensure import ensure
from compose.processes.watchdog import Watchdog
from compose.stack.stack import Stack
run_id, folder = sys.argv[1], Path(sys.argv[2])
Watchdog(run_id).start()
stack = Stack(ensure(), run_id=run_id, data=folder / "data", logs=folder, external=External(master="local[1]"), docker=True)
stack.start()
stack.services["minio"].kill()
print("up", flush=True)
sys.stdin.read()
"""


@contextlib.contextmanager
def beside(run_id: str, folder: Path) -> Iterator[subprocess.Popen[str]]:
    """Another harness with a stack in containers, of which MinIO was killed."""
    folder.mkdir(exist_ok=True)
    harness = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, run_id, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment(),
        text=True,
    )
    try:
        assert harness.stdout is not None and harness.stdout.readline() == "up\n"
        yield harness
    finally:
        harness.send_signal(signal.SIGKILL)
        harness.communicate()


def test_a_killed_harness_leaves_nothing(client: Any, images: dict[str, str], tmp_path: Path) -> None:
    """Not even a container that was struck and waits to be started again."""
    run_id, before = "test-killed-harness", volumes(client)
    with beside(run_id, tmp_path):
        assert len(left(client, run_id)) >= 4
    assert eventually(lambda: left(client, run_id) == []), left(client, run_id)
    assert eventually(lambda: volumes(client) <= before)


def test_a_harness_that_is_killed_while_its_containers_are_stopped_leaves_nothing(
    client: Any, images: dict[str, str], tmp_path: Path
) -> None:
    """The container takes no notice of SIGTERM, so the keeper waits for it when the harness is killed."""
    run_id, spec = "test-killed-stopping", tmp_path / "spec.json"
    harness = subprocess.Popen(["sleep", "600"])
    labels = {**owned(run_id), HARNESS: identity(psutil.Process(harness.pid))}
    how = {"image": images["minio"], "entrypoint": ["sleep", "600"]}
    spec.write_text(json.dumps({"name": f"icequake-{run_id}", "labels": labels, "keeps": True, "how": how}))
    keeper = subprocess.Popen([sys.executable, "-m", "compose.processes.container", str(spec)], env=environment())
    try:
        running = {"label": f"{CONTAINER_LABEL}={run_id}", "status": "running"}
        assert eventually(lambda: bool(client.containers.list(filters=running)))
        began = time.time()
        keeper.terminate()
        wanted = {"label": f"{CONTAINER_LABEL}={run_id}", "event": "kill"}
        with contextlib.closing(client.events(since=int(began), filters=wanted, decode=True)) as events:
            next(events)  # the engine has been asked to stop it
        harness.kill()
        harness.wait(30)
        keeper.wait(60)
        assert eventually(lambda: left(client, run_id) == []), left(client, run_id)
    finally:
        for process in (keeper, harness):
            process.kill()
            process.wait(30)
        sweep(client, run_id)


def test_down_removes_what_is_left_of_a_run_of_which_every_process_was_killed_and_nothing_of_another(
    client: Any, images: dict[str, str], tmp_path: Path
) -> None:
    dead, alive, before = "test-down-dead-run", "test-down-living-run", volumes(client)
    with beside(alive, tmp_path / "alive"):
        theirs = left(client, alive)
        with beside(dead, tmp_path / "dead") as harness:
            everybody = [psutil.Process(harness.pid), *of_run(dead)]
            assert len(everybody) >= 4, "the harness, its watchdog and the keepers"
            for number in (signal.SIGSTOP, signal.SIGKILL):
                for process in everybody:
                    process.send_signal(number)
            psutil.wait_procs([one for one in everybody if one.pid != harness.pid], 30)
            harness.wait(30)
        assert len(left(client, dead)) == 4, "nobody could remove them"
        done = icequake("down")
        assert done.returncode == 0 and f"icequake-{dead}-minio" in done.stdout
        assert left(client, dead) == []
        assert left(client, alive) == theirs and alive not in done.stdout
        running = client.containers.list(filters={"label": f"{CONTAINER_LABEL}={alive}"})
        assert {one.labels["icequake.service"] for one in running} == {"postgres", "rest"}
    assert eventually(lambda: left(client, alive) == []) and eventually(lambda: volumes(client) <= before)


def volumes(client: Any) -> set[str]:
    """The names of the engine's volumes, also of those without a label that an image asked for."""
    return {one.name for one in client.volumes.list()}


def of_run(run_id: str) -> list[psutil.Process]:
    """The processes that have the mark of a run, and its watchdog."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.environ().get(RUN_VARIABLE) == run_id or (
                "watchdog" in " ".join(process.cmdline()) and run_id in process.cmdline()
            ):
                found.append(process)
    return found


@contextlib.contextmanager
def left_behind(client: Any, image: str, runs: Mapping[str, Mapping[str, str]]) -> Iterator[None]:
    """A container, a network and a volume of each run, with these labels besides that of the run; gone after the block."""
    try:
        for run_id, more in runs.items():
            labels = {CONTAINER_LABEL: run_id, **more}
            client.networks.create(f"icequake-{run_id}", labels=labels)
            client.volumes.create(f"icequake-{run_id}", labels=labels)
            client.containers.create(image, name=f"icequake-{run_id}", labels=labels)
        yield
    finally:
        for run_id in runs:
            sweep(client, run_id)


GONE = "1/1.0"
"""A process that does not live here."""


def test_what_nobody_ended_goes_at_icequake_down_and_what_lives_stays(client: Any, images: dict[str, str]) -> None:
    dead, alive = {**owned("x"), HARNESS: GONE}, owned("x")
    runs = {
        f"test-down-{name}": {k: v for k, v in of.items() if k != CONTAINER_LABEL}
        for name, of in (("dead", dead), ("alive", alive))
    }
    with left_behind(client, images["minio"], runs):
        done = icequake("down")
        assert done.returncode == 0 and done.stdout.count("icequake-test-down-dead") == 3
        assert left(client, "test-down-dead") == [] and len(left(client, "test-down-alive")) == 3
        assert "test-down-alive" not in done.stdout


def test_what_another_host_or_an_older_release_made_stays_until_its_run_is_named(
    client: Any, images: dict[str, str], tmp_path: Path
) -> None:
    """Its process ids mean nothing here, so it may belong to a run that goes on."""
    runs = {
        "test-other-machine": {HARNESS: GONE, HOST: "another-boot/pid:[4026531836]"},
        "test-older-release": {HARNESS: GONE},
    }
    with left_behind(client, images["minio"], runs):
        done = icequake("down")
        assert done.returncode == 0, done.stderr
        said = done.stdout.rpartition("left in the Docker engine")[2]
        for run_id in runs:
            assert len(left(client, run_id)) == 3 and f"3 of run {run_id}" in said and "down --run RUN" in said
        ended = icequake("down", "--run", "test-older-release", "--run", "test-no-such-run")
        assert ended.stdout.count("icequake-test-older-release") == 3 and left(client, "test-older-release") == []
        assert "--run test-no-such-run: the Docker engine has nothing of this run" in ended.stderr
        assert [len(left(client, run_id)) for run_id in runs] == [3, 0]


IN_A_CONTAINER = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")
"""Gives a command process ids of its own, as a container does."""
OF_A_JOB = """
import sys
from compose.processes.container import engine, owned
engine("docker").networks.create("icequake-" + sys.argv[1], labels=owned(sys.argv[1]))
print("up", flush=True)
sys.stdin.read()
"""


def test_jobs_in_containers_that_share_an_engine_leave_each_other_s_runs_alone(client: Any) -> None:
    run_id = "test-other-container"
    words = [*IN_A_CONTAINER, sys.executable, "-c", OF_A_JOB, run_id]
    job = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment(), text=True)
    try:
        assert job.stdout is not None and job.stdout.readline() == "up\n"
        assert f"icequake-{run_id}" not in sweep(client)
        assert left(client, run_id) == [f"icequake-{run_id}"] and others(client)[run_id] == 1
    finally:
        job.communicate()
        sweep(client, run_id)
