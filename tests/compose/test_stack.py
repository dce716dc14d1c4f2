"""The stack: what a service promises, tried on a small server of our own, and the real services on real ports."""

from __future__ import annotations

import errno
import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from compose import setup
from compose.catalogs.registry import CATALOGS
from compose.endpoints import Endpoints
from compose.external.external import External
from compose.install.installation import Installation
from compose.processes.ports import FIRST, LAST, LOOPBACK, PortInUse, Ports, in_use
from compose.processes.process import LocalProcess, NotReady, http_get
from compose.processes.service import Service, ServiceError, last_meaningful_line
from compose.processes.watchdog import RUN_VARIABLE, Watchdog, marked_environment, of_run
from compose.servers import classdata
from compose.stack.pointers import table_pointer
from compose.stack.sparkconf import FAST, spark_conf, writer_environment
from compose.stack.stack import Stack, port_names
from workloads.file.mode import AS_USERS, QUICK, Mode

# A server with a child, that says what is in its file. The child's pid is its first line of output.
SERVER = r"""
import http.server, os, pathlib, subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(120)"], start_new_session=True)
print("child", child.pid, flush=True)
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = pathlib.Path("data").read_bytes() + os.environ.get("ICEQUAKE_RUN", "").encode()
        self.send_response(200); self.send_header("Content-Length", str(len(body))); self.end_headers()
        self.wfile.write(body)
    def log_message(self, *_): pass
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""


class Toy(LocalProcess):
    """The small server as a service."""

    def __init__(self, folder: Path, *, ports: Ports | None = None, code: str = SERVER):
        super().__init__(
            "toy", run_id="toy-run", ports=ports or Ports(), port_names=["toy"], folder=folder, log=folder / "toy.log"
        )
        self._code = code

    def argv(self) -> Sequence[str]:
        return [sys.executable, "-c", self._code, str(self.port())]

    def environment(self) -> Mapping[str, str]:
        return dict(os.environ)

    def prepare(self) -> None:
        if not (self.folder / "data").exists():
            (self.folder / "data").write_text("data of ")

    def probe(self, timeout: float) -> None:
        if self.ask(timeout) != "data of toy-run":
            raise NotReady("somebody else's data")

    def ask(self, timeout: float = 2.0) -> str:
        return http_get(f"http://{LOOPBACK}:{self.port()}/", timeout)[1].decode()

    @property
    def child(self) -> psutil.Process:
        pids = [line.split()[1] for line in self.logs().read_text().splitlines() if line.startswith("child")]
        return psutil.Process(int(pids[-1]))


@pytest.fixture
def toy(tmp_path: Path) -> Iterator[Toy]:
    service = Toy(tmp_path)
    yield service
    service.stop()


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    """Somebody else's server on a port of the range that ours are drawn from."""
    with socket.socket() as server:
        server.bind((LOOPBACK, Ports().claim("somebody else")))
        server.listen()
        yield server


def gone(process: psutil.Process) -> bool:
    try:
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


class TestLocalProcess:
    def test_it_is_a_service(self, toy: Toy) -> None:
        assert isinstance(toy, Service)

    def test_ready_means_that_it_answered_and_stop_ends_it_with_its_children(self, toy: Toy) -> None:
        with toy:
            assert toy.ask() == "data of toy-run", "and it carries the run's mark"
            child = toy.child
        assert not toy.running
        assert gone(child)
        assert not in_use(toy.port())

    def test_start_and_stop_may_be_repeated(self, toy: Toy) -> None:
        toy.stop()
        toy.start()
        toy.ready()
        pid = toy.pid
        toy.start()
        assert toy.pid == pid
        toy.stop()
        toy.stop()

    def test_kill_takes_its_children_along_and_start_brings_back_port_and_data(self, toy: Toy) -> None:
        with toy:
            port, child = toy.port(), toy.child
            toy.kill()
            assert gone(child)
            with pytest.raises(OSError):
                toy.ask()
            toy.start()
            toy.ready()
            assert toy.port() == port

    def test_children_of_a_server_that_crashed_are_not_forgotten(self, tmp_path: Path) -> None:
        toy = Toy(tmp_path, code=SERVER.replace(", start_new_session=True", ""))
        with toy:
            child = toy.child
            assert toy.pid is not None
            os.kill(toy.pid, signal.SIGKILL)
        assert gone(child)

    def test_restart_keeps_port_and_data_and_waits_until_it_answers(self, toy: Toy) -> None:
        with toy:
            port, pid = toy.port(), toy.pid
            toy.restart()
            assert (toy.port(), toy.ask()) == (port, "data of toy-run")
            assert toy.pid != pid

    def test_paused_it_keeps_connections_and_answers_nothing_until_resumed(self, toy: Toy) -> None:
        with toy:
            toy.pause()
            assert toy.child.status() == psutil.STATUS_STOPPED
            with pytest.raises(TimeoutError):
                toy.ask(0.3)
            toy.resume()
            assert toy.ask() == "data of toy-run"
            assert toy.child.status() != psutil.STATUS_STOPPED

    @pytest.mark.parametrize("end", [Toy.stop, Toy.kill])
    def test_a_paused_one_can_be_ended(self, toy: Toy, end: Callable[[Toy], None]) -> None:
        with toy:
            toy.pause()
            end(toy)
            assert not toy.running

    def test_one_that_ignores_its_signal_is_killed(self, tmp_path: Path) -> None:
        toy = Toy(tmp_path, code="import signal; signal.signal(15, signal.SIG_IGN)\n" + SERVER)
        toy.stop_seconds = 0.2
        with toy:
            child = toy.child
        assert not toy.running
        assert gone(child)

    def test_early_death_is_noticed_at_once_and_said_with_the_log(self, tmp_path: Path) -> None:
        toy = Toy(tmp_path, code="import sys; print('FATAL: no licence'); print('bye'); sys.exit(3)")
        toy.start()
        with pytest.raises(ServiceError) as error:
            toy.ready(60)
        assert "toy: exited with code 3 before it was ready" in str(error.value)
        assert "FATAL: no licence" in str(error.value)
        assert str(toy.logs()) in str(error.value)

    def test_it_never_is_ready_if_it_never_answers(self, tmp_path: Path) -> None:
        toy = Toy(tmp_path, code="import time; time.sleep(60)")
        toy.start()
        with pytest.raises(ServiceError, match=f"toy: not ready after 0 s: .*{os.strerror(errno.ECONNREFUSED)}"):
            toy.ready(0.3)
        toy.stop()

    def test_a_program_that_is_not_there_is_said_at_start(self, tmp_path: Path) -> None:
        class Missing(Toy):
            def argv(self) -> Sequence[str]:
                return ["/nowhere/server"]

        with pytest.raises(ServiceError, match=r"toy: cannot be started: .*/nowhere/server"):
            Missing(tmp_path).start()


class TestPorts:
    def test_they_stay_out_of_the_range_of_outgoing_connections(self) -> None:
        ports = Ports(rng=random.Random(1))
        drawn = [ports.claim(f"service {n}") for n in range(50)]
        assert len(set(drawn)) == 50
        assert all(FIRST <= port <= LAST < 32768 for port in drawn)
        assert ports.claim("service 7") == drawn[7], "a service keeps its port"

    def test_one_that_the_user_chose_and_somebody_has_is_an_error_that_says_who(
        self, tmp_path: Path, listener: socket.socket
    ) -> None:
        port = listener.getsockname()[1]
        with pytest.raises(PortInUse) as error:
            Toy(tmp_path, ports=Ports({"toy": port})).start()
        assert str(error.value).startswith(
            f"toy: port {port} is in use by {psutil.Process().name()} (pid {os.getpid()})"
        )
        assert "choose another port" in str(error.value)

    def test_one_that_was_lost_in_a_race_is_replaced(self, tmp_path: Path, listener: socket.socket) -> None:
        class Late(Ports):
            """Draws a port that somebody else gets before the server does."""

            def _draw(self) -> int:
                return int(listener.getsockname()[1]) if not self._taken else super()._draw()

        with Toy(tmp_path, ports=Late()) as toy:
            assert toy.port() != listener.getsockname()[1]
            assert toy.ask() == "data of toy-run"

    def test_somebody_else_answering_on_its_port_does_not_make_it_ready(self, tmp_path: Path, toy: Toy) -> None:
        with toy:
            thief = Toy(tmp_path / "other", code="import time; time.sleep(60)", ports=Ports({"toy": toy.port()}))
            thief._ports.check = lambda _: None  # type: ignore[assignment, method-assign] # the race: it was free a moment ago
            thief.start()
            with pytest.raises(ServiceError, match="another process answers on port"):
                thief.ready(0.5)
            thief.stop()


class TestErrors:
    @pytest.mark.parametrize(
        ("log", "line"),
        [
            ("started\nERROR: disk full\nbye\n", "ERROR: disk full"),
            ("java.net.BindException: Address already in use\n\tat Foo.bar(Foo.java:1)\n\t... 7 more\n", "java.net."),
            ("started\n\nlistening\n\n", "listening"),
            ("\x1b[31mFATAL: no\x1b[0m\n", "FATAL: no"),
            ("", None),
        ],
    )
    def test_the_last_meaningful_line_of_a_log(self, tmp_path: Path, log: str, line: str | None) -> None:
        file = tmp_path / "log"
        file.write_text(log)
        found = last_meaningful_line(file)
        assert (found or "").startswith(line) if line else found is None

    def test_an_error_is_one_line_with_all_that_helps(self, tmp_path: Path) -> None:
        error = ServiceError(
            "minio", "exited\nwith code 1", log=tmp_path / "log", last_line="ERROR no", remedy="free disk"
        )
        assert (
            str(error) == f"minio: exited with code 1; its log ends with “ERROR no”; see {tmp_path / 'log'}; free disk"
        )


def plain_installation() -> Installation:
    somewhere = Path("/somewhere")
    return Installation(
        home=somewhere,
        java=somewhere / "jdk/bin/java",
        jars={"spark": (somewhere / "a.jar", somewhere / "b.jar"), "rest": (somewhere / "c.jar",)},
        rest_classes=somewhere / "classes",
        minio=somewhere / "minio",
        postgres_bin=somewhere / "pg",
        spark_home=somewhere / "spark",
        python=somewhere / "python",
    )


ENDPOINTS = Endpoints(
    s3="http://127.0.0.1:1",
    access_key="k",
    secret_key="s",
    region="r",
    bucket="warehouse",
    catalog="rest",
    catalog_uri="http://127.0.0.1:2",
    warehouse="s3://warehouse/rest",
    spark_master="spark://127.0.0.1:3",
)


class TestWriterSettings:
    @pytest.mark.parametrize(
        ("catalog", "uri", "expected"),
        [
            ("rest", "http://127.0.0.1:2/base", "http://p:1/base"),
            ("jdbc", "jdbc:postgresql://127.0.0.1:2/iceberg", "jdbc:postgresql://p:1/iceberg"),
        ],
    )
    def test_a_writer_can_be_sent_through_proxies_of_its_own(
        self, tmp_path: Path, catalog: str, uri: str, expected: str
    ) -> None:
        assert CATALOGS[catalog].address(replace(ENDPOINTS, catalog=catalog, catalog_uri=uri)) == ("127.0.0.1", 2)
        seen = CATALOGS[catalog].through(replace(ENDPOINTS, catalog=catalog, catalog_uri=uri), "p", 1)
        conf = spark_conf(plain_installation(), replace(seen, s3="http://p:2"), scratch=tmp_path)
        assert conf["spark.sql.catalog.c.uri"] == expected
        assert conf["spark.sql.catalog.c.s3.endpoint"] == "http://p:2"

    def test_only_a_fast_session_has_other_settings_than_users_have(self, tmp_path: Path) -> None:
        users = spark_conf(plain_installation(), ENDPOINTS, scratch=tmp_path)
        fast = spark_conf(plain_installation(), replace(ENDPOINTS, session="fast"), scratch=tmp_path)
        more = FAST | {"spark.sql.catalog.c.rest-metrics-reporting-enabled": "false"}
        assert fast == users | more and not users.items() & more.items()

    def test_everything_it_writes_stays_in_its_own_folder(self, tmp_path: Path) -> None:
        conf = spark_conf(plain_installation(), ENDPOINTS, scratch=tmp_path)
        for key in ("spark.local.dir", "spark.sql.warehouse.dir"):
            assert Path(conf[key]).is_relative_to(tmp_path)
        assert f"-Dderby.system.home={tmp_path}" in conf["spark.driver.extraJavaOptions"]

    def test_nothing_of_the_users_shell_reaches_it(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in ("AWS_PROFILE", "SPARK_CONF_DIR", "JAVA_TOOL_OPTIONS", "HTTP_PROXY", "PYTHONPATH", RUN_VARIABLE):
            monkeypatch.setenv(name, "/of/the/user")
        environment = writer_environment(plain_installation(), ENDPOINTS)
        assert "/of/the/user" not in environment.values()
        assert environment["JAVA_HOME"] == "/somewhere/jdk"

    def test_endpoints_survive_a_file(self) -> None:
        assert Endpoints.from_json(ENDPOINTS.to_json()) == ENDPOINTS
        with pytest.raises(ValueError, match="no endpoints"):
            Endpoints.from_json('{"host": "x"}')


class TestStackArguments:
    def test_a_port_for_a_service_that_is_not_there_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(ValueError, match=r"'polars'.*minio, postgres, rest"):
            Stack(plain_installation(), run_id="x", data=tmp_path, logs=tmp_path, ports={"polars": 1})

    def test_where_the_tasks_run_in_the_drivers_there_is_no_cluster(self, tmp_path: Path) -> None:
        def stack(mode: Mode, master: str | None = None) -> Stack:
            theirs = External(master=master)
            return Stack(
                plain_installation(),
                run_id="x",
                data=tmp_path,
                logs=tmp_path,
                catalog="jdbc",
                mode=mode,
                external=theirs,
            )

        assert [*stack(QUICK).services] == ["minio", "postgres"]
        assert [*stack(AS_USERS).services][-3:] == ["spark-master", "spark-worker-1", "spark-worker-2"]
        assert stack(QUICK).endpoints.mode == QUICK and stack(QUICK).endpoints.driver_host == "127.0.0.1"
        theirs = stack(QUICK, "spark://127.0.0.1:7077").endpoints
        assert (theirs.spark_master, theirs.mode) == ("spark://127.0.0.1:7077", Mode("fast"))

    def test_every_service_has_named_ports(self) -> None:
        assert "spark-worker-3-ui" in port_names(3)
        assert "spark-worker-3-ui" not in port_names(2)

    def test_without_its_parts_it_says_which_one_is_missing_and_leaves_nothing(self, tmp_path: Path) -> None:
        stack = Stack(plain_installation(), run_id="x", data=tmp_path / "data", logs=tmp_path / "logs")
        with pytest.raises(ServiceError, match=r"^(minio|postgres|spark-master): "):
            stack.start()
        assert not any(service.running for service in stack.services.values() if isinstance(service, LocalProcess))


class TestClassDataArchive:
    def test_lists_of_several_jvms_are_merged_without_what_holds_in_one_list_only(self, tmp_path: Path) -> None:
        (tmp_path / "a.classes").write_text("# made by java\njava/lang/Object id: 0\n@lambda-proxy a/B run\n")
        (tmp_path / "b.classes").write_text("a/B id: 7\nx/Y id: 9 super: 7 source: x.jar\njava/lang/Object id: 0\n")
        assert setup.merge(tmp_path.iterdir()) == ["java/lang/Object", "@lambda-proxy a/B run", "a/B"]

    def test_without_one_the_jvms_are_told_nothing(self, tmp_path: Path) -> None:
        assert classdata.use(replace(plain_installation(), home=tmp_path)) == ()

    def test_another_jar_means_another_archive(self, tmp_path: Path) -> None:
        jar = tmp_path / "a.jar"
        jar.write_text("1.11")
        installation = replace(plain_installation(), home=tmp_path, jars={"spark": (jar,)})
        before = classdata.archive(installation)
        before.touch()
        assert any(str(before) in option for option in classdata.use(installation))
        jar.write_text("1.12.0")
        assert classdata.archive(installation) != before
        assert classdata.use(installation) == ()

    @pytest.mark.parametrize(
        ("endpoints", "jar"),
        [
            (replace(ENDPOINTS, catalog="jdbc-sqlite"), "sqlite-jdbc"),
            (replace(ENDPOINTS, guard="s3-conditional"), "delta-spark"),
        ],
        ids=["a catalog's", "a table format's"],
    )
    def test_more_jars_stand_behind_the_class_path_that_it_was_made_for(
        self, tmp_path: Path, endpoints: Endpoints, jar: str
    ) -> None:
        """With another one before them no class of it would be used."""
        conf = spark_conf(plain_installation(), endpoints, scratch=tmp_path)
        assert conf["spark.driver.extraClassPath"] == conf["spark.executor.extraClassPath"]
        before, _, more = conf["spark.driver.extraClassPath"].partition(
            os.pathsep + str(plain_installation().home / "jars")
        )
        assert before == classdata.spark_class_path(plain_installation()) and jar in more


# ---------------------------------------------------------------------------------------------------------------------
# The real services.


@pytest.fixture(scope="module")
def running(installation: Installation, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """A stack with one worker that tests may hurt; all of them leave it ready."""
    setup.build(installation)
    yield from _stack(installation, "hurt", tmp_path_factory)


def _stack(installation: Installation, name: str, folders: pytest.TempPathFactory) -> Iterator[Stack]:
    data = Path(tempfile.mkdtemp(prefix=f"icequake-test-{name}-"))
    logs = folders.mktemp(f"logs-{name}")
    with Watchdog(data.name, remove=[data]):
        with Stack(installation, run_id=data.name, data=data, logs=logs, workers=1) as stack:
            yield stack


WRITER = r"""
import json, sys
from pyspark.sql import SparkSession
builder = SparkSession.builder.appName("writer")
for key, value in json.loads(sys.argv[1]).items():
    builder = builder.config(key, value)
spark = builder.getOrCreate()
for line in sys.stdin:
    rows = [list(row) for row in spark.sql(line).collect()]
    print(json.dumps(rows), flush=True)
spark.stop()
"""


class Writer:
    """A real PySpark driver that runs one statement a line."""

    def __init__(self, installation: Installation, stack: Stack, scratch: Path, run_id: str):
        scratch.mkdir(parents=True)
        conf = spark_conf(installation, stack.endpoints, scratch=scratch)
        with (scratch / "stderr").open("wb") as log:
            self._process = subprocess.Popen(
                [str(installation.python), "-c", WRITER, json.dumps(conf)],
                env=marked_environment(writer_environment(installation, stack.endpoints), run_id),
                cwd=scratch,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )

    def sql(self, statement: str) -> Any:
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write(statement + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def close(self) -> None:
        self._process.communicate(timeout=60)


@pytest.fixture(scope="module")
def writer(installation: Installation, running: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Writer]:
    driver = Writer(installation, running, tmp_path_factory.mktemp("writer") / "scratch", _run_id(running))
    yield driver
    driver.close()


def _run_id(stack: Stack) -> str:
    pid = _process(stack, "minio").pid
    return str(psutil.Process(pid).environ()[RUN_VARIABLE])


def _process(stack: Stack, name: str) -> LocalProcess:
    service = stack.services[name]
    assert isinstance(service, LocalProcess)
    return service


@pytest.mark.spark
class TestRealStack:
    def test_spark_writes_and_reads_through_the_catalog(self, running: Stack, writer: Writer) -> None:
        assert table_pointer(running.endpoints, "stack", "t") is None
        writer.sql("CREATE NAMESPACE c.stack")
        writer.sql("CREATE TABLE c.stack.t (id int, val string) USING iceberg")
        before = table_pointer(running.endpoints, "stack", "t")
        writer.sql("INSERT INTO c.stack.t VALUES (1, 'a')")
        assert writer.sql("SELECT * FROM c.stack.t") == [[1, "a"]]
        after = table_pointer(running.endpoints, "stack", "t")
        assert before and after and before != after
        assert after.startswith("s3://warehouse/rest/stack/t/metadata/")

    @pytest.mark.parametrize("name", ["minio", "postgres", "rest", "spark-master", "spark-worker-1"])
    @pytest.mark.parametrize("how", ["restart", "kill", "pause"])
    def test_a_writer_goes_on_after(self, running: Stack, writer: Writer, how: str, name: str) -> None:
        """Each service keeps its port and its data, and Spark finds it again."""
        table = f"c.stack.{how}_{name.replace('-', '_')}"
        writer.sql(f"CREATE TABLE {table} (id int) USING iceberg")
        writer.sql(f"INSERT INTO {table} VALUES (1)")
        service = running.services[name]
        if how == "restart":
            service.restart()
        elif how == "kill":
            service.kill()
            service.start()
            service.ready(60)
        else:
            service.pause()
            with pytest.raises(ServiceError, match=f"{name}: not ready after"):
                service.ready(0.5)
            service.resume()
            service.ready(60)
        writer.sql(f"INSERT INTO {table} VALUES (2)")
        assert writer.sql(f"SELECT * FROM {table} ORDER BY id") == [[1], [2]]

    @pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
    def test_every_jvm_of_spark_maps_the_class_data_archive(
        self, installation: Installation, running: Stack, writer: Writer
    ) -> None:
        writer.sql("SELECT 1")
        spark = [
            process
            for process in of_run(_run_id(running))
            if process.name == "java" and "org.apache.spark" in Path(f"/proc/{process.pid}/cmdline").read_text()
        ]
        assert len(spark) == 4, "master, worker, executor, driver"
        for process in spark:
            assert classdata.archive(installation).name in Path(f"/proc/{process.pid}/maps").read_text()

    def test_a_second_stack_beside_it_is_another_world(
        self, installation: Installation, running: Stack, tmp_path_factory: pytest.TempPathFactory
    ) -> None:
        for second in _stack(installation, "second", tmp_path_factory):
            mine, its = running.endpoints, second.endpoints
            assert not {mine.s3, mine.catalog_uri, mine.spark_master} & {its.s3, its.catalog_uri, its.spark_master}
            assert table_pointer(its, "stack", "t") is None
        for service in running.services.values():
            service.ready(5)  # it did not take the first one along

    def test_everything_listens_on_loopback_only(self, running: Stack) -> None:
        for name in running.services:
            process = psutil.Process(_process(running, name).pid)
            for one in (process, *process.children(recursive=True)):
                for connection in one.net_connections(kind="inet"):
                    if connection.status == psutil.CONN_LISTEN:
                        assert connection.laddr.ip in ("127.0.0.1", "::1", "::ffff:127.0.0.1"), name

    def test_a_chosen_port_that_is_taken_ends_the_start_with_its_name_and_nothing_left(
        self, installation: Installation, tmp_path: Path, listener: socket.socket
    ) -> None:
        port = listener.getsockname()[1]
        stack = Stack(installation, run_id="taken", data=tmp_path / "d", logs=tmp_path / "l", ports={"minio": port})
        with pytest.raises(PortInUse, match=f"minio: port {port} is in use by"):
            stack.start()
        assert not any(_process(stack, name).running for name in stack.services)

    def test_a_server_that_dies_early_is_reported_with_its_last_words(self, running: Stack, tmp_path: Path) -> None:
        rest = _process(running, "rest")
        rest.stop()
        postgres = running.services["postgres"]
        postgres.stop()
        rest.start()
        with pytest.raises(ServiceError, match=r"rest: exited with code \d+ before it was ready; .*see .*rest\.log"):
            rest.ready(60)
        postgres.start()
        postgres.ready(60)
        rest.start()
        rest.ready(60)
