"""The PostgreSQL proxy before a real server: nothing changes for a client, except what a fault says."""

from __future__ import annotations

import contextlib
import io
import json
import select
import shutil
import socket
import struct
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg2
import psycopg2.extensions
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from compose.install.installation import Installation
from compose.processes.ports import Ports
from compose.servers.postgres import DATABASE, USER, Postgres
from nemesis.faults.fault import Fault
from nemesis.proxy.board import Board
from nemesis.proxy.listener import Proxies
from tests.support.peers import END, FIN, Rig, Want, pieces

UPDATE = (
    "UPDATE iceberg_tables SET metadata_location = $1 , previous_metadata_location = $2 WHERE catalog_name = $3 AND "
    "table_namespace = $4 AND table_name = $5 AND metadata_location = $6"
)
COLUMNS = (
    "catalog_name text, table_namespace text, table_name text, metadata_location text, previous_metadata_location text"
)


@pytest.fixture(scope="module")
def postgres(installation: Installation) -> Iterator[Postgres]:
    data = Path(tempfile.mkdtemp(prefix="icequake-test-"))
    data.chmod(0o755)
    server = Postgres(installation.postgres_bin, run_id=data.name, ports=Ports(), data=data / "pg", log=data / "log")
    server.start()
    try:
        server.ready(60)
        yield server
    finally:
        server.stop()
        shutil.rmtree(data, ignore_errors=True)


class Front:
    """A proxy before the server, with a log."""

    def __init__(self, board: Board, log: Path, port: int, direct: int) -> None:
        self.board, self._log, self.port, self.direct = board, log, port, direct
        self.open = contextlib.ExitStack()

    def raw(self, port: int | None = None) -> Raw:
        raw = Raw(port or self.port)
        self.open.enter_context(raw.socket)
        return raw

    def connect(self, *, direct: bool = False) -> psycopg2.extensions.connection:
        port = self.direct if direct else self.port
        c = psycopg2.connect(host="127.0.0.1", port=port, user=USER, dbname=DATABASE, connect_timeout=300)
        self.open.callback(c.close)
        return c

    def log(self) -> list[dict[str, Any]]:
        self.board.finish()
        return [json.loads(line) for line in self._log.read_text().splitlines()]

    def location(self) -> str:
        with self.connect(direct=True) as c, c.cursor() as cursor:
            cursor.execute("SELECT metadata_location FROM iceberg_tables")
            return str(cursor.fetchone()[0])  # type: ignore[index]


@pytest.fixture
def front(postgres: Postgres, tmp_path: Path) -> Iterator[Front]:
    board = Board()
    board.begin(lambda: 0, tmp_path / "log")
    postgres.execute("DROP TABLE IF EXISTS iceberg_tables")
    postgres.execute(f"CREATE TABLE iceberg_tables ({COLUMNS})")
    postgres.execute("INSERT INTO iceberg_tables VALUES ('c', 'db', 't', 'm0', NULL)")
    with Proxies(board) as proxies:
        listener = proxies.listen("database", None, "postgres", "127.0.0.1", postgres.port())
        front = Front(board, tmp_path / "log", listener.port, postgres.port())
        with front.open:
            yield front
    board.close()


def message(kind: bytes, *parts: bytes) -> bytes:
    body = b"".join(parts)
    return kind + struct.pack("!I", len(body) + 4) + body


def text(value: str) -> bytes:
    return value.encode() + b"\0"


def execution(sql: str, values: list[str], name: str = "", *, parse: bool = True) -> bytes:
    """Parse (if wanted), Bind, Describe, Execute of the extended protocol, without a Sync."""
    bound = b"".join(struct.pack("!i", len(v)) + v.encode() for v in values)
    return (
        (message(b"P", text(name), text(sql), b"\0\0") if parse else b"")
        + message(b"B", b"\0", text(name), b"\0\0", struct.pack("!H", len(values)), bound, b"\0\0")
        + message(b"D", b"P\0")
        + message(b"E", b"\0", b"\0\0\0\0")
    )


SYNC, FLUSH = message(b"S"), message(b"H")


class Raw:
    """A client that speaks the protocol itself."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=300)
        body = struct.pack("!I", 196608) + text("user") + text(USER) + text("database") + text(DATABASE) + b"\0"
        self.socket.sendall(struct.pack("!I", len(body) + 4) + body)
        self.greeting = self.until("Z")

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def one(self) -> tuple[str, bytes]:
        head = self._exactly(5)
        return chr(head[0]), self._exactly(struct.unpack("!I", head[1:])[0] - 4)

    def until(self, kind: str) -> list[tuple[str, bytes]]:
        """What comes, up to a message of that kind."""
        got = [self.one()]
        while got[-1][0] != kind:
            got.append(self.one())
        return got

    def _exactly(self, count: int) -> bytes:
        got = b""
        while len(got) < count:
            part = self.socket.recv(count - len(got))
            if not part:
                raise ConnectionError
            got += part
        return got


def kinds(messages: list[tuple[str, bytes]]) -> str:
    return "".join(kind for kind, _ in messages)


def move(to: str, base: str, *, table: str = "t") -> bytes:
    """The JDBC catalog's commit."""
    return execution(UPDATE, [to, base, "c", "db", table, base]) + SYNC


def test_transactions_errors_and_large_results(front: Front) -> None:
    c = front.connect()
    with c.cursor() as cursor:
        cursor.execute("SELECT repeat('x', 100) FROM generate_series(1, 20000)")
        assert sum(len(r[0]) for r in cursor.fetchall()) == 2_000_000
        with pytest.raises(psycopg2.errors.DivisionByZero):
            cursor.execute("SELECT 1/0")
        with pytest.raises(psycopg2.errors.InFailedSqlTransaction):
            cursor.execute("SELECT 1")
        c.rollback()
        cursor.execute("UPDATE iceberg_tables SET catalog_name = 'd'; SELECT 5")
        assert cursor.fetchone() == (5,)
        c.rollback()
        cursor.execute("SELECT catalog_name FROM iceberg_tables")
        assert cursor.fetchone() == ("c",)


def test_the_commit_of_nessie_is_its_transaction_that_moves_a_reference(front: Front) -> None:
    """What Nessie 0.99.0 sends."""
    cursor = front.connect().cursor()
    cursor.execute("CREATE TEMP TABLE refs2 AS SELECT 'a' AS pointer, 'main' AS ref_name")
    cursor.connection.commit()
    cursor.execute("UPDATE refs2 SET pointer='b' WHERE ref_name='main' AND pointer='a'")
    cursor.connection.commit()
    cursor.execute("UPDATE refs2 SET pointer='c' WHERE ref_name='main' AND pointer='a'")  # another was faster
    cursor.connection.commit()
    (swap,) = (line for line in front.log() if line["kind"] == "commit")
    assert swap["what"].startswith("COMMIT")


def test_copy_in_and_out(front: Front) -> None:
    c = front.connect()
    with c.cursor() as cursor:
        lines = "".join(f"{n}\t{'y' * 50}\n" for n in range(20_000))
        cursor.execute("CREATE TEMP TABLE x (a int, b text)")
        cursor.copy_expert("COPY x FROM STDIN", io.StringIO(lines))
        out = io.StringIO()
        cursor.copy_expert("COPY x TO STDOUT", out)
        assert out.getvalue() == lines
        with pytest.raises(psycopg2.errors.InvalidTextRepresentation):
            cursor.copy_expert("COPY x FROM STDIN", io.StringIO("no number\tx\n"))


def test_a_copy_in_the_extended_protocol_whose_sync_comes_later(front: Front) -> None:
    raw = front.raw()
    raw.send(message(b"Q", text("CREATE TEMP TABLE x (a int)")))
    raw.until("Z")
    raw.send(execution("COPY x FROM STDIN", []) + SYNC)
    assert kinds(raw.until("G")) == "12nG"
    raw.send(message(b"d", b"1\n2\n"))
    raw.send(message(b"c"))
    select.select([raw.socket], [], [], 0.05)
    raw.send(SYNC)
    assert raw.until("Z")[0] == ("C", b"COPY 2\0")


def test_named_statements_flushes_and_pipelines(front: Front) -> None:
    raw = front.raw()
    raw.send(execution("SELECT 1 + $1::int", ["2"], "s1") + FLUSH)
    assert kinds(raw.until("C")) == "12TDC"
    raw.send(SYNC)
    raw.until("Z")
    raw.send((execution("", ["4"], "s1", parse=False) + SYNC) * 3)
    assert [kinds(raw.until("Z")) for _ in range(3)] == ["2TDCZ"] * 3
    raw.send(execution("SELECT 1/0", []) + FLUSH)
    assert raw.until("E")
    raw.send(execution("SELECT 1", []) + FLUSH)  # ignored up to the Sync
    raw.send(SYNC)
    assert kinds(raw.until("Z")) == "Z"
    raw.send(message(b"y", b"what"))
    assert raw.one()[0] == "E"


def test_a_cancel_reaches_the_server(front: Front) -> None:
    raw = front.raw()
    (key,) = [body for kind, body in raw.greeting if kind == "K"]
    raw.send(message(b"Q", text("SELECT pg_sleep(20)")))
    for _ in range(40):  # one that comes before the query runs is for nothing
        with socket.create_connection(("127.0.0.1", front.port), timeout=300) as cancel:
            cancel.sendall(struct.pack("!II", len(key) + 8, 80877102) + key)
            assert cancel.recv(1) == b""  # closed when the server has done it
        if select.select([raw.socket], [], [], 0.1)[0]:
            break
    (error, _) = raw.until("Z")[-2:]
    assert error[0] == "E" and b"C57014\0" in error[1]


def test_encryption_is_refused_as_the_server_does(front: Front) -> None:
    with psycopg2.connect(host="127.0.0.1", port=front.port, user=USER, dbname=DATABASE, sslmode="prefer") as c:
        assert not c.info.ssl_in_use


class TestCommits:
    def test_one_is_seen_with_what_it_replaces(self, front: Front) -> None:
        raw = front.raw()
        for request in (move("m1", "m0"), SYNC):  # a line is there before the next request is read
            raw.send(request)
            raw.until("Z")
        (record,) = [r for r in front.log() if r["kind"] == "commit"]
        assert (record["base"], record["new"], record["table"], record["status"]) == ("m0", "m1", "t", "UPDATE 1")

    def test_a_dropped_reply_is_a_commit_and_a_broken_connection(self, front: Front) -> None:
        armed = front.board.arm(Fault(verb="drop-reply", service="database"))
        raw = front.raw()
        raw.send(move("m1", "m0"))
        with pytest.raises(ConnectionError):
            raw.one()
        assert front.location() == "m1" and armed.hits == {"commit": 1}

    def test_an_update_of_nothing_is_not_applied(self, front: Front) -> None:
        armed = front.board.arm(Fault(verb="drop-reply", service="database"))
        raw = front.raw()
        raw.send(move("m1", "other"))
        assert ("C", b"UPDATE 0\0") in raw.until("Z")
        assert (armed.hits, armed.missed) == ({}, 1)

    @pytest.mark.parametrize(("verb", "after"), [("answer", "m1"), ("reject", "m0")])
    def test_an_error_in_place_of_the_reply(self, front: Front, verb: Any, after: str) -> None:
        front.board.arm(Fault(verb=verb, service="database", status=503, sqlstate="40001", times=1))
        raw = front.raw()
        raw.send(move("m1", "m0"))
        (error, ready) = raw.until("Z")
        assert error[0] == "E" and b"C40001\0" in error[1] and ready == ("Z", b"I")
        assert front.location() == after
        told = {"answer": "UPDATE 1, told 40001 (nemesis)", "reject": "40001 (nemesis)"}[verb]
        assert [r["status"] for r in front.log() if r["kind"] == "commit"] == [told], (
            "HTTP's status is not PostgreSQL's"
        )
        raw.send(move("m2", after))
        assert ("C", b"UPDATE 1\0") in raw.until("Z")

    def test_a_duplicate_updates_nothing_the_second_time(self, front: Front) -> None:
        front.board.arm(Fault(verb="duplicate", service="database"))
        raw = front.raw()
        raw.send(move("m1", "m0"))
        assert ("C", b"UPDATE 0\0") in raw.until("Z")
        raw.send(SYNC)  # a line is there before the next request is read
        raw.until("Z")
        assert front.location() == "m1"
        assert [r["status"] for r in front.log() if r["kind"] == "commit"] == [
            "UPDATE 1 (nemesis: not told)",
            "UPDATE 0",
        ]

    def test_a_late_one_arrives_when_it_is_released(self, front: Front) -> None:
        front.board.invoked(0, "w0-1")
        hold = front.board.hold("w0-1", Fault(verb="late", service="database"), service="database")
        raw = front.raw()
        raw.send(move("m1", "m0"))
        with pytest.raises(ConnectionError):
            raw.one()
        assert front.location() == "m0"
        hold.release()
        assert hold.passed.wait(300) and hold.problem is None
        assert front.location() == "m1"

    @pytest.mark.parametrize("ends", ["COMMIT", "ROLLBACK"])
    def test_within_a_transaction_the_commit_is_its_end(self, front: Front, ends: str) -> None:
        armed = front.board.arm(Fault(verb="drop-reply", service="database"))
        raw = front.raw()
        raw.send(message(b"Q", text("BEGIN")))
        raw.until("Z")
        raw.send(move("m1", "m0"))
        assert raw.until("Z")[-1] == ("Z", b"T")
        raw.send(message(b"Q", text(ends)))
        if ends == "COMMIT":
            with pytest.raises(ConnectionError):
                raw.one()
        else:
            raw.until("Z")
        assert front.location() == ("m1" if ends == "COMMIT" else "m0")
        assert armed.hits == ({"commit": 1} if ends == "COMMIT" else {})


STATEMENTS = [
    "SELECT 1",
    "SELECT 1; SELECT 'a' WHERE false; SELECT 2",
    "SELECT 1/0",
    "BEGIN",
    "COMMIT",
    "ROLLBACK",
    "CREATE TEMP TABLE f (a int)",
    "INSERT INTO f SELECT generate_series(1, 300)",
    "UPDATE f SET a = a + 1",
    "SELECT sum(a), count(*), repeat('z', 50000) FROM f",
    "syntax error",
    "",
]
FUZZ = settings(max_examples=40, deadline=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck))


@FUZZ
@given(
    st.lists(st.tuples(st.sampled_from(STATEMENTS), st.sampled_from("QESF")), max_size=8),
    st.lists(st.integers(0, 2000), max_size=5),
)
def test_any_batch_is_answered_as_directly(front: Front, batch: list[tuple[str, str]], cuts: list[int]) -> None:
    """Simple queries, executions with and without a Sync, Flushes; all sent at once, cut anywhere."""
    data = b""
    for sql, how in batch:
        data += message(b"Q", text(sql)) if how == "Q" else execution(sql, [])
        data += {"S": SYNC, "F": FLUSH}.get(how, b"")
    data += SYNC + message(b"X")
    replies = []
    for port in (front.direct, front.port):
        raw = front.raw(port)
        for part in pieces(data, cuts):
            raw.send(part)
        got = b""
        while part := raw.socket.recv(1 << 16):
            got += part
        raw.socket.close()
        replies.append(got)
    assert replies[0] == replies[1]


@pytest.fixture(scope="module")
def calm() -> Iterator[Rig]:
    with Rig("postgres") as rig:
        yield rig


@FUZZ
@given(st.binary(max_size=60), st.binary(max_size=60), st.booleans(), st.lists(st.integers(0, 100), max_size=4))
def test_any_garbage_passes_byte_for_byte(calm: Rig, sent: bytes, reply: bytes, started: bool, at: list[int]) -> None:
    start = b"\0\0\0\x09\0\3\0\0\0" if started else b""
    greeting = message(b"R", b"\0\0\0\0") + message(b"Z", b"I") if started else b""
    calm.talk(
        [start, Want(greeting), *pieces(sent, at), FIN, Want(reply), END],
        [Want(start), greeting, Want(sent), END, *pieces(reply, at), FIN],
    )
