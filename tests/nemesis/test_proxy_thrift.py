"""Proxies before a real Thrift server that speaks the Hive Metastore's procedures: what passes, what is struck, what is no Thrift."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hive_metastore import ThriftHiveMetastore
from hive_metastore.ttypes import (
    EnvironmentContext,
    FieldSchema,
    InvalidOperationException,
    LockComponent,
    LockRequest,
    LockResponse,
    NoSuchObjectException,
    SerDeInfo,
    StorageDescriptor,
    Table,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from thrift.protocol import TBinaryProtocol
from thrift.server import TServer
from thrift.Thrift import TApplicationException
from thrift.transport import TSocket, TTransport

from nemesis.faults.fault import Fault
from nemesis.proxy.board import Board
from nemesis.proxy.listener import Listener, Proxies
from nemesis.wires.thrift import classify


def table(name: str, **parameters: str) -> Table:
    columns = [FieldSchema(name=f"c{n}", type="bigint", comment="") for n in range(3)]
    storage = StorageDescriptor(
        cols=columns, location="s3://w/t", serdeInfo=SerDeInfo(parameters={"a": "b"}), bucketCols=["x"], numBuckets=7
    )
    return Table(tableName=name, dbName="db", sd=storage, parameters=parameters, partitionKeys=[])


class Metastore:
    """Keeps tables; counts what was asked."""

    def __init__(self) -> None:
        self.tables: dict[str, Table] = {"t": table("t")}
        self.asked: list[str] = []

    def get_table(self, dbname: str, tbl_name: str) -> Table:
        self.asked.append("get_table")
        if tbl_name not in self.tables:
            raise NoSuchObjectException(message=tbl_name)
        return self.tables[tbl_name]

    def alter_table_with_environment_context(self, dbname: str, tbl_name: str, new_tbl: Table, context: Any) -> None:
        self.asked.append("alter_table")
        if tbl_name not in self.tables:
            raise InvalidOperationException(message=tbl_name)
        self.tables[tbl_name] = new_tbl

    def lock(self, rqst: LockRequest) -> LockResponse:
        self.asked.append("lock")
        return LockResponse(lockid=2**40, state=1)

    def get_all_databases(self) -> list[str]:
        return [f"db{n}" for n in range(2000)]


class Server(TServer.TThreadedServer):
    """Listens on a free port and can be stopped."""

    def __init__(self, handler: Metastore) -> None:
        transport = TSocket.TServerSocket("127.0.0.1", 0)
        transport.listen()
        self.port = transport.handle.getsockname()[1]
        transport.listen = lambda: None  # serve() would bind another port
        super().__init__(
            ThriftHiveMetastore.Processor(handler),
            transport,
            TTransport.TBufferedTransportFactory(),
            TBinaryProtocol.TBinaryProtocolFactory(),
            daemon=True,
        )
        self._over = threading.Event()
        self._thread = threading.Thread(target=self.serve, daemon=True)
        self._thread.start()

    def serve(self) -> None:
        """Serve until :meth:`stop`; Thrift's own loop goes on for ever, and logs that its listener is closed."""
        while True:
            client = self.serverTransport.accept()
            if self._over.is_set():
                client.close()
                return
            threading.Thread(target=self.handle, args=(client,), daemon=True).start()

    def stop(self) -> None:
        """Take no more connections; returns when nobody listens."""
        self._over.set()
        socket.create_connection(("127.0.0.1", self.port)).close()  # wakes it
        self._thread.join()
        self.serverTransport.close()


class Rig:
    """A metastore, a listener before it, and the log of what passed."""

    def __init__(self, folder: Path) -> None:
        self.handler = Metastore()
        self.server = Server(self.handler)
        self.board = Board()
        self.log_file = folder / "proxy.jsonl"
        self.board.begin(lambda: 0, self.log_file)
        self.proxies = Proxies(self.board)
        self.listener: Listener | None = None
        self._clients: list[Any] = []
        self._over = False

    def __enter__(self) -> Rig:
        self.proxies.__enter__()
        self.listener = self.proxies.listen("catalog", 0, "thrift", "127.0.0.1", self.server.port)
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self.board.close()
        self.server.stop()

    def client(self) -> Any:
        assert self.listener is not None
        transport = TTransport.TBufferedTransport(TSocket.TSocket("127.0.0.1", self.listener.port))
        transport.open()
        self._clients.append(transport)
        return ThriftHiveMetastore.Client(TBinaryProtocol.TBinaryProtocol(transport))

    def stop(self) -> None:
        """End the proxies: then every request that was answered is in the log."""
        if not self._over:
            self._over = True
            for transport in self._clients:
                transport.close()
            self.proxies.__exit__()

    def log(self) -> list[dict[str, Any]]:
        self.stop()
        self.board.finish()
        return [json.loads(line) for line in self.log_file.read_text().splitlines()]


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    with Rig(tmp_path) as r:
        yield r


def alter(client: Any, name: str = "t", **parameters: str) -> None:
    client.alter_table_with_environment_context("db", name, table(name, **parameters), EnvironmentContext({"k": "v"}))


def until(condition: Callable[[], bool]) -> None:
    for _ in range(1000):
        if condition():
            return
        threading.Event().wait(0.01)
    raise AssertionError("it never came")


def test_calls_answers_and_exceptions_pass_and_are_named(rig: Rig) -> None:
    client = rig.client()
    assert client.get_table("db", "t") == rig.handler.tables["t"]
    alter(client, location="v2")
    assert client.get_table("db", "t").parameters == {"location": "v2"}
    with pytest.raises(NoSuchObjectException):
        client.get_table("db", "u")
    components = [LockComponent(type=3, level=2, dbname="db", tablename=f"t{n}") for n in range(3)]
    assert client.lock(LockRequest(component=components, user="me", hostname="here")).lockid == 2**40
    assert len(client.get_all_databases()) == 2000
    seen = [(r["kind"], r["what"], r.get("table"), r["status"]) for r in rig.log()]
    assert seen == [
        ("load", "get_table", "t", "ok"),
        ("commit", "alter_table_with_environment_context", "t", "ok"),
        ("load", "get_table", "t", "ok"),
        ("load", "get_table", "u", "exception"),
        ("lock", "lock", None, "ok"),
        ("other", "get_all_databases", None, "ok"),
    ]


def test_a_commit_says_the_metadata_file_that_it_replaces_and_the_new_one(rig: Rig) -> None:
    client = rig.client()
    alter(client, metadata_location="s3://new", previous_metadata_location="s3://old", owner="me")
    client.get_table("db", "t")
    alter(client, metadata_location="s3://newer")
    commit, load, first = rig.log()
    assert (commit["base"], commit["new"]) == ("s3://old", "s3://new")
    assert load["location"] == "s3://new"
    assert first["new"] == "s3://newer" and "base" not in first


@pytest.mark.parametrize(
    ("procedure", "kind"),
    [
        ("alter_table_with_environment_context", "commit"),
        ("create_table", "create"),
        ("drop_table", "drop"),
        ("get_table_req", "load"),
        ("check_lock", "lock"),
        ("heartbeat", "lock"),
        ("unlock", "unlock"),
        ("get_config_value", "other"),
    ],
)
def test_procedures_are_what_they_are(procedure: str, kind: str) -> None:
    assert classify(procedure) == kind


@pytest.mark.parametrize(
    ("fault", "asked", "raises"),
    [
        (Fault(verb="drop-reply", times=1), 1, TTransport.TTransportException),
        (Fault(verb="cut", times=1), 1, TTransport.TTransportException),
        (Fault(verb="answer", times=1), 1, TApplicationException),
        (Fault(verb="reject", times=1), 0, TApplicationException),
        (Fault(verb="drop-request", times=1), 0, TTransport.TTransportException),
        (Fault(verb="refuse", times=1), 0, TTransport.TTransportException),
        (Fault(verb="duplicate", times=1), 2, None),
        (Fault(verb="delay", seconds=0.05, times=1), 1, None),
    ],
    ids=lambda x: x.verb if isinstance(x, Fault) else "",
)
def test_each_verb_does_to_a_commit_what_it_says(
    rig: Rig, fault: Fault, asked: int, raises: type[Exception] | None
) -> None:
    armed = rig.board.arm(fault)
    client = rig.client()
    if raises is None:
        alter(client)
    else:
        with pytest.raises((raises, OSError)):
            alter(client)
    assert rig.handler.asked.count("alter_table") == asked
    assert armed.hits == {"commit": 1}
    alter(rig.client())  # once only
    assert rig.handler.asked.count("alter_table") == asked + 1
    assert rig.log()[0]["faults"] == [fault.name]


def test_a_late_commit_comes_after_the_connection_has_gone(rig: Rig) -> None:
    rig.board.arm(Fault(verb="late", seconds=0.1, times=1))
    with pytest.raises((TTransport.TTransportException, OSError)):
        alter(rig.client())
    until(lambda: rig.handler.asked == ["alter_table"])


def test_what_the_service_refused_was_not_applied(rig: Rig) -> None:
    armed = rig.board.arm(Fault(verb="drop-reply"))
    with pytest.raises(InvalidOperationException):
        alter(rig.client(), "u")
    assert (armed.hits, armed.missed) == ({}, 1)


def test_a_held_commit_waits(rig: Rig) -> None:
    hold = rig.board.hold("w0-1")
    rig.board.invoked(0, "w0-1")
    thread = threading.Thread(target=lambda: alter(rig.client()))
    thread.start()
    assert hold.reached.wait(300) and rig.handler.asked == []
    rig.client().get_table("db", "t")  # others pass
    hold.release()
    thread.join(10)
    assert rig.handler.asked == ["get_table", "alter_table"]


# --- what is no Thrift ------------------------------------------------------------------------------------------------


class Echo:
    """Sends back what it gets until the other side ends."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                end, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._echo, args=(end,), daemon=True).start()

    def _echo(self, end: socket.socket) -> None:
        with end:
            while data := end.recv(65536):
                end.sendall(data)

    def close(self) -> None:
        self._listener.close()


@pytest.fixture(scope="module")
def echo() -> Iterator[int]:
    server = Echo()
    with Proxies(Board()) as proxies:
        yield proxies.listen("catalog", 0, "thrift", "127.0.0.1", server.port).port
    server.close()


HEAD = b"\x80\x01\x00\x01\x00\x00\x00\x04ping\x00\x00\x00\x01"


@settings(max_examples=60, deadline=None)
@given(st.one_of(st.binary(min_size=1, max_size=200), st.binary(max_size=100).map(lambda b: HEAD + b)))
def test_garbage_and_broken_messages_pass_byte_for_byte(echo: int, data: bytes) -> None:
    with socket.create_connection(("127.0.0.1", echo), timeout=300) as end:
        end.sendall(data)
        end.shutdown(socket.SHUT_WR)
        got = b""
        while part := end.recv(65536):
            got += part
    assert got == data
