"""Who goes next: real proxies before a small HTTP server, with clients that arrive in another order than the one that is wanted."""

from __future__ import annotations

import contextlib
import http.client
import http.server
import json
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nemesis.faults.fault import Fault
from nemesis.order.moment import Moment
from nemesis.order.policy import HeldRequest, Policy
from nemesis.order.priority import Expected, Priority
from nemesis.order.replay import Fence, Forced, ReplayOrder, first_difference
from nemesis.proxy.board import Board
from nemesis.proxy.listener import Listener, Proxies
from nemesis.wires.wire import Message, Request
from tests.support.peers import eventually

TABLE = "/v1/namespaces/db/tables/t"
FILE = "/bucket/t/metadata/snap-1.avro"
PATIENCE = 60.0
"""Seconds after which a test that got stuck fails."""


def moment(text: str) -> Moment:
    return Moment.parse(text)


def moments(*texts: str) -> tuple[Moment, ...]:
    return tuple(moment(t) for t in texts)


# -- through real proxies ------------------------------------------------------------------------------------------------


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    seen: list[str]

    def do_GET(self) -> None:
        self._answer()

    do_DELETE = do_GET

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self._answer()

    def _answer(self) -> None:
        self.seen.append(str(self.headers["X-Name"]))
        body = b"{}"
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """A connection that the nemesis cut is no error."""


class Catalog:
    """A small catalog, and an object store, each behind one proxy a writer.

    ``seen``: the names of the requests in the order in which they came there.
    """

    def __init__(self, log: Path, writers: int) -> None:
        self.seen: list[str] = []
        handler = type("Handler", (_Handler,), {"seen": self.seen})
        self.server = _Server(("127.0.0.1", 0), handler)
        self.board = Board()
        self._log = log
        self._inside = contextlib.ExitStack()
        self.listeners: list[Listener] = []
        self.stores: list[Listener] = []
        self._writers = writers

    def __enter__(self) -> Catalog:
        thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        thread.start()
        self._inside.callback(thread.join, PATIENCE)
        self._inside.callback(self.server.server_close)
        self._inside.callback(self.server.shutdown)
        self.board.begin(time.monotonic_ns, self._log)
        self._inside.callback(self.board.close)
        proxies = self._inside.enter_context(Proxies(self.board))
        port = self.server.server_address[1]
        self.listeners = [proxies.listen("catalog", n, "http", "127.0.0.1", port) for n in range(self._writers)]
        self.stores = [proxies.listen("store", n, "s3", "127.0.0.1", port) for n in range(self._writers)]
        return self

    def __exit__(self, *_: object) -> None:
        self._inside.close()

    def ask(self, writer: int, kind: str, name: str) -> int | None:
        """One request of a writer; its status, or None if the connection broke."""
        of_store = kind in ("read", "delete")
        listener = (self.stores if of_store else self.listeners)[writer]
        connection = http.client.HTTPConnection("127.0.0.1", listener.port, timeout=PATIENCE)
        try:
            if kind == "commit":
                connection.request("POST", TABLE, b"{}", {"X-Name": name})
            elif of_store:
                connection.request("GET" if kind == "read" else "DELETE", FILE, headers={"X-Name": name})
            else:
                path = TABLE if kind == "load" else "/v1/config"
                connection.request("GET", path, headers={"X-Name": name})
            return connection.getresponse().status
        except (OSError, http.client.HTTPException):
            return None
        finally:
            connection.close()

    def lines(self, expected: int = 0) -> list[dict[str, object]]:
        """The proxy log, by time, once it has as many lines: a client has its answer before the line is written."""

        def written() -> bool:
            if (file := self.board._file) is not None:
                file.flush()
            return self._log.read_text().count("\n") >= expected

        eventually(written)
        self.board.finish()
        return sorted((json.loads(x) for x in self._log.read_text().splitlines()), key=lambda r: r["time"])


@contextlib.contextmanager
def together(works: Sequence[threading.Thread]) -> Iterator[None]:
    """Run threads; wait for their end."""
    for w in works:
        w.start()
    yield
    for w in works:
        w.join(PATIENCE)
        assert not w.is_alive()


def held(catalog: Catalog, count: int, works: Sequence[threading.Thread]) -> bool:
    """Whether so many writers wait at the gate, once they do or too many have ended without."""
    eventually(lambda: len(catalog.board.waiting) >= count or sum(w.is_alive() for w in works) < count)
    return len(catalog.board.waiting) >= count


def writer(
    catalog: Catalog, n: int, ops: Sequence[tuple[str, Sequence[str]]], replay: ReplayOrder | None = None
) -> threading.Thread:
    """A thread that performs operations: (id, the kinds of its requests)."""

    def work() -> None:
        for op, kinds in ops:
            if replay is not None:
                replay.expects(n, op)
            catalog.board.invoked(n, op)
            numbers: dict[str, int] = {}
            for kind in kinds:
                numbers[kind] = numbers.get(kind, 0) + 1
                catalog.ask(n, kind, f"{op} {kind} {numbers[kind]}")
            catalog.board.completed(n, op)
        catalog.board.finished(n)

    return threading.Thread(target=work, daemon=True)


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    with Catalog(tmp_path / "proxy.jsonl", 3) as c:
        yield c


OPERATIONS = {n: [(f"w{n}-{i}", ("load", "commit")) for i in (1, 2)] for n in range(3)}


def interleavings(seed: int) -> list[str]:
    """A random order of the requests of ``OPERATIONS``, each writer's in its own."""
    rng = Random(seed)
    left = {n: [f"{op} {kind} 1" for op, kinds in ops for kind in kinds] for n, ops in OPERATIONS.items()}
    order = []
    while left:
        n = rng.choice(sorted(left))
        order.append(left[n].pop(0))
        if not left[n]:
            del left[n]
    return order


@pytest.mark.parametrize("seed", range(5))
def test_a_replay_forces_the_recorded_order_on_clients_that_arrive_in_another(catalog: Catalog, seed: int) -> None:
    order = interleavings(seed)
    replay = ReplayOrder(moments(*order))
    catalog.board.follow(replay)
    with together([writer(catalog, n, OPERATIONS[n], replay) for n in range(3)]):
        pass
    assert catalog.seen == order
    assert (replay.forced, replay.unforced()) == (len(order), ())


def test_the_log_numbers_each_operations_requests_and_says_how_long_they_waited(catalog: Catalog) -> None:
    replay = ReplayOrder(moments("w1-1 load 1", "w0-1 load 1", "w0-1 load 2", "w0-1 commit 1"))
    catalog.board.follow(replay)
    first = writer(catalog, 0, [("w0-1", ("load", "load", "commit"))], replay)
    with together([first]):
        assert held(catalog, 1, [first])
        with together([writer(catalog, 1, [("w1-1", ("load",))], replay)]):
            pass
    found = [(r["op"], r["kind"], r["nth"]) for r in catalog.lines(4) if r["op"] == "w0-1"]
    assert found == [("w0-1", "load", 1), ("w0-1", "load", 2), ("w0-1", "commit", 1)]
    assert all(isinstance(r["waited_ms"], float) for r in catalog.lines())


def test_a_request_that_waits_blocks_no_other_connection(catalog: Catalog) -> None:
    replay = ReplayOrder(moments("w1-1 commit 1", "w0-1 commit 1"))
    catalog.board.follow(replay)
    first = writer(catalog, 0, [("w0-1", ("commit",))], replay)
    with together([first]):
        assert held(catalog, 1, [first])
        assert catalog.ask(0, "config", "config") == 200
        assert catalog.ask(2, "load", "of nobody") == 200
        assert catalog.seen == ["config", "of nobody"]
        with together([writer(catalog, 1, [("w1-1", ("commit",))], replay)]):
            pass
    assert catalog.seen[2:] == ["w1-1 commit 1", "w0-1 commit 1"]


@pytest.mark.parametrize("order", [("read", "delete"), ("delete", "read")])
def test_a_replay_also_orders_the_requests_to_the_store_that_the_recording_has(
    catalog: Catalog, order: tuple[str, str]
) -> None:
    ops = {"delete": ("w0-1", ("load", "read", "delete")), "read": ("w1-1", ("load", "read", "read"))}
    places = {"delete": "w0-1 store delete 1", "read": "w1-1 store read 2"}
    replay = ReplayOrder(moments("w0-1 load 1", "w1-1 load 1", *(places[o] for o in order)))
    catalog.board.follow(replay)
    last = writer(catalog, ("delete", "read").index(order[1]), [ops[order[1]]], replay)
    with together([last]):
        assert held(catalog, 1, [last])
        with together([writer(catalog, ("delete", "read").index(order[0]), [ops[order[0]]], replay)]):
            pass
    went = [n for n in catalog.seen if n in ("w0-1 delete 1", "w1-1 read 2")]
    assert went == [places[o].replace("store ", "") for o in order]
    assert (replay.forced, replay.unforced()) == (4, ())


def test_a_request_that_never_comes_is_given_up_and_said(catalog: Catalog) -> None:
    order = moments("w1-1 load 1", "w1-1 commit 1", "w0-1 load 1", "w2-1 load 1")
    replay = ReplayOrder(order, patience=0.2, soon=0.1)
    catalog.board.follow(replay)
    works = [writer(catalog, 0, [("w0-1", ("load",))], replay), writer(catalog, 1, [("w1-1", ("load",))], replay)]
    with together(works):
        pass
    assert catalog.seen == ["w1-1 load 1", "w0-1 load 1"]
    assert replay.forced == 2
    assert replay.unforced() == (
        "w1-1 commit 1: w1-1 ended without it",
        "1 requests of the recorded order never came",
    )


@pytest.mark.parametrize("by", ["replay", "priority"])
def test_heal_lets_everything_go(catalog: Catalog, by: str) -> None:
    policy: Policy = (
        ReplayOrder(moments("w2-1 load 1", "w0-1 load 1", "w1-1 load 1"))
        if by == "replay"
        else Priority(3, 1, Expected(steps=10), 0, grace=PATIENCE, longest=PATIENCE)
    )
    replay = policy if isinstance(policy, ReplayOrder) else None
    catalog.board.follow(policy)
    works = [writer(catalog, n, [(f"w{n}-1", ("load",))], replay) for n in (0, 1)]
    with together(works):
        assert held(catalog, 2, works)
        assert catalog.seen == []
        catalog.board.heal()
    assert sorted(catalog.seen) == ["w0-1 load 1", "w1-1 load 1"]
    assert catalog.ask(2, "load", "later") == 200


def test_a_fault_strikes_the_recorded_request_and_no_other(catalog: Catalog) -> None:
    struck: list[tuple[int, str]] = []
    forced = Forced(4, Fault(verb="drop-reply"), moments("w0-1 commit 2"))
    order = moments("w0-1 commit 1", "w1-1 commit 1", "w0-1 commit 2", "w1-1 commit 2")
    replay = ReplayOrder(order, [forced], struck=lambda n, m: struck.append((n, str(m))))
    catalog.board.follow(replay)
    with together([writer(catalog, n, [(f"w{n}-1", ("commit", "commit"))], replay) for n in (1, 0)]):
        pass
    assert catalog.seen == [str(m) for m in order]
    assert struck == [(4, "w0-1 commit 2")]
    assert [(r["op"], r["status"]) for r in catalog.lines() if "faults" in r] == [("w0-1", "200 (nemesis: not told)")]


def test_what_a_fault_sent_late_reaches_the_service_in_its_recorded_place(catalog: Catalog) -> None:
    late = Forced(0, Fault(verb="late", status=504, seconds=1.0), moments("w0-1 commit 1"))
    order = moments("w0-1 commit 1", "w1-1 load 1", "w1-1 commit 1", "w0-1 commit 1", "w1-1 load 2")
    replay = ReplayOrder(order, [late])
    catalog.board.follow(replay)
    works = [
        writer(catalog, 0, [("w0-1", ("commit",))], replay),
        writer(catalog, 1, [("w1-1", ("load", "commit", "load"))], replay),
    ]
    with together(works):
        pass
    assert catalog.seen == ["w1-1 load 1", "w1-1 commit 1", "w0-1 commit 1", "w1-1 load 2"]
    assert (replay.forced, replay.unforced()) == (5, ())


def test_nobody_waits_for_what_would_be_sent_late_if_its_writer_left_in_the_middle_of_it(catalog: Catalog) -> None:
    late = Forced(0, Fault(verb="late", status=504, seconds=1.0), moments("w0-1 commit 1"))
    struck: list[int] = []
    order = moments("w0-1 commit 1", "w0-1 commit 1", "w1-1 load 1")
    replay = ReplayOrder(order, [late], struck=lambda n, m: struck.append(n))
    catalog.board.follow(replay)
    last = writer(catalog, 1, [("w1-1", ("load",))], replay)
    with together([last]):
        assert held(catalog, 1, [last])
        replay.expects(0, "w0-1")
        catalog.board.invoked(0, "w0-1")
        with socket.create_connection(("127.0.0.1", catalog.listeners[0].port), PATIENCE) as leaving:
            leaving.sendall(
                f"POST {TABLE} HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 9\r\n\r\n".encode()
            )
            eventually(lambda: bool(struck))
        catalog.board.completed(0, "w0-1")
    assert catalog.seen == ["w1-1 load 1"]


def test_a_fault_that_cannot_strike_is_said(catalog: Catalog) -> None:
    stale = Forced(0, Fault(verb="stale", request="load"), moments("w0-1 load 1", "w0-1 load 2"))
    replay = ReplayOrder(moments("w0-1 load 1"), [stale])
    catalog.board.follow(replay)
    with together([writer(catalog, 0, [("w0-1", ("load",))], replay)]):
        pass
    assert replay.unforced() == (
        "w0-1 load 1: its fault could not strike it: no older reply is known",
        "1 faults had nothing to strike: w0-1 load 2 did not come",
    )


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_same_seed_gives_clients_that_arrive_together_the_same_order(tmp_path: Path, seed: int) -> None:
    orders = []
    for again in range(2):
        with Catalog(tmp_path / f"{again}.jsonl", 3) as catalog:
            policy = Priority(3, 3, Expected(steps=12), seed, grace=PATIENCE, longest=PATIENCE)
            catalog.board.follow(policy)
            with together([writer(catalog, n, OPERATIONS[n]) for n in range(3)]):
                pass
            assert (policy.gave_way, policy.blind) == (0, 0)
            orders.append(catalog.seen)
    assert orders[0] == orders[1]
    assert sorted(orders[0]) == sorted(interleavings(0))


# -- the pure policies ---------------------------------------------------------------------------------------------------


class Simulation:
    """Writers that make requests one after the other, under a policy; time goes by in steps of a tenth of a second.

    Args:
        computes: draws how long a writer computes before a request, in seconds.
        leaves_out: requests that are not made.
    """

    def __init__(
        self,
        policy: Policy,
        ops: dict[int, list[tuple[str, list[Moment]]]],
        rng: Random,
        computes: float,
        leaves_out: frozenset[Moment] = frozenset(),
    ) -> None:
        self.went: list[Moment] = []
        self.longest = 0.0
        now, number = 0.0, 0
        todo: dict[int, list[tuple[str, Moment | None]]] = {
            n: [x for op, ms in of for x in [(op, None), *((op, m) for m in ms if m not in leaves_out), (op, None)]]
            for n, of in ops.items()
        }
        ready = dict.fromkeys(todo, 0.0)
        waits: dict[int, HeldRequest] = {}
        answered: list[tuple[float, int, HeldRequest]] = []
        begun: set[str] = set()
        while any(todo.values()) or waits or answered:
            for at, n, held in [*answered]:
                if at <= now:
                    answered.remove((at, n, held))
                    policy.passed(held, now)
                    ready[n] = now + rng.uniform(0, computes)
            for n in sorted(todo, key=lambda n: rng.random()):
                while todo[n] and n not in waits and ready[n] <= now and all(n != a[1] for a in answered):
                    op, m = todo[n].pop(0)
                    if m is not None:
                        number += 1
                        waits[n] = HeldRequest(number, n, m, now)
                        policy.arrives(waits[n])
                    elif op in begun:
                        policy.completed(n, op, now)
                    else:
                        begun.add(op)
                        if isinstance(policy, ReplayOrder):
                            policy.expects(n, op)
                        policy.invoked(n, op, now)
                if not todo[n] and n not in waits and all(n != a[1] for a in answered):
                    policy.finished(n, now)
            for held in policy.decide(now):
                assert waits.pop(held.writer) is held
                self.went.append(held.moment)
                self.longest = max(self.longest, now - held.since)
                answered.append((now + rng.uniform(0, 0.3), held.writer, held))
            now += 0.1
            assert now < 10_000, "it does not end"


def random_operations(rng: Random) -> tuple[dict[int, list[tuple[str, list[Moment]]]], list[Moment]]:
    """Operations of two to four writers, and one order that keeps each writer's own."""
    ops: dict[int, list[tuple[str, list[Moment]]]] = {}
    for n in range(rng.randint(2, 4)):
        ops[n] = []
        for i in range(rng.randint(1, 4)):
            op = f"w{n}-{i}"
            ops[n].append((op, [moment(f"{op} load {k}") for k in range(1, rng.randint(1, 4))]))
            ops[n][-1][1].extend(moment(f"{op} commit {k}") for k in range(1, rng.randint(1, 3)))
    left = {n: [m for _, ms in of for m in ms] for n, of in ops.items()}
    order: list[Moment] = []
    while any(left.values()):
        n = rng.choice([n for n, ms in left.items() if ms])
        order.append(left[n].pop(0))
    return ops, order


@given(st.integers(0, 10**9))
def test_a_replay_forces_any_order_that_keeps_each_writers_own(seed: int) -> None:
    rng = Random(seed)
    ops, order = random_operations(rng)
    replay = ReplayOrder(order)
    assert Simulation(replay, ops, rng, computes=3.0).went == order
    assert (replay.forced, replay.expected, replay.unforced()) == (len(order), len(order), ())


@given(st.integers(0, 10**9))
def test_a_replay_of_which_requests_are_missing_ends_and_counts_them(seed: int) -> None:
    rng = Random(seed)
    ops, order = random_operations(rng)
    gone = frozenset(m for m in order if rng.random() < 0.2)
    replay = ReplayOrder(order, patience=100.0, soon=1.0, longest=1000.0)
    went = Simulation(replay, ops, rng, computes=0.5, leaves_out=gone).went
    assert went == [m for m in order if m not in gone]
    assert replay.forced == len(went)
    assert bool(gone) == bool(replay.unforced())


@given(st.integers(0, 10**9), st.integers(1, 5))
def test_by_priority_every_request_goes_and_none_waits_longer_than_the_longest_wait(seed: int, depth: int) -> None:
    ops, order = random_operations(Random(seed))
    policy = Priority(len(ops), depth, Expected(steps=len(order)), seed, grace=1.0, longest=5.0)
    simulation = Simulation(policy, ops, Random(seed + 1), computes=2.0)
    assert sorted(map(str, simulation.went)) == sorted(map(str, order))
    assert simulation.longest <= 5.3
    assert policy.steps == len(order)


@given(st.integers(0, 10**9), st.integers(1, 5))
def test_by_priority_the_time_that_statements_take_changes_nothing_while_the_grace_is_longer(
    seed: int, depth: int
) -> None:
    ops, order = random_operations(Random(seed))
    went = []
    for computes in (0.0, 5.0):
        policy = Priority(len(ops), depth, Expected(steps=len(order)), seed, grace=10.0, longest=10_000.0)
        went.append(Simulation(policy, ops, Random(seed + int(computes)), computes).went)
        assert policy.changes == depth - 1 or len(order) < depth
    assert went[0] == went[1]


def test_questions_after_a_lock_of_the_metastore_are_no_moments() -> None:
    board = Board()
    board.invoked(0, "w0-1")
    asked = [Request("lock", what, Message()) for what in ("lock", "check_lock", "heartbeat", "check_lock", "lock")]
    assert [str(board.moment("catalog", 0, r)) for r in asked] == [
        "w0-1 lock 1",
        "None",
        "None",
        "None",
        "w0-1 lock 2",
    ]


def test_a_moment_is_of_the_operation_that_the_request_names_else_of_its_writers() -> None:
    board = Board()
    commit, named = Request("commit", "", Message()), Request("commit", "", Message(), ops=frozenset({"w1-4"}))
    assert board.moment("catalog", 0, commit) is None
    board.invoked(0, "w0-1")
    found = [board.moment("catalog", 0, r) for r in (commit, named, commit)]
    assert [str(m) for m in found] == ["w0-1 commit 1", "w1-4 commit 1", "w0-1 commit 2"]
    board.invoked(0, "w0-2")
    assert str(board.moment("catalog", 0, commit)) == "w0-2 commit 1"
    assert board.moment("database", None, commit) is None


def test_nothing_behind_a_fence_goes_before_it_is_opened() -> None:
    replay = ReplayOrder(moments("w0-1 load 1", "w1-1 load 1"), fences=[Fence("a kill", 1)])
    held = [HeldRequest(n, n, moment(f"w{n}-1 load 1"), 0.0) for n in range(2)]
    for h in held:
        replay.expects(h.writer, h.moment.op)
        replay.invoked(h.writer, h.moment.op, 0.0)
        replay.arrives(h)
    assert replay.decide(0.0) == [held[0]]
    replay.passed(held[0], 0.1)
    assert replay.decide(0.1) == [] and replay.has_passed(1) and not replay.has_passed(2)
    replay.happened("a kill")
    assert replay.decide(0.2) == [held[1]]


def test_nobody_waits_for_a_request_of_an_operation_that_will_not_be_invoked() -> None:
    replay = ReplayOrder(moments("w2-0 load 1", "w2-0 commit 1", "w0-1 load 1"))
    load = HeldRequest(1, 0, moment("w0-1 load 1"), 0.0)
    replay.expects(0, "w0-1")
    replay.invoked(0, "w0-1", 0.0)
    replay.arrives(load)
    assert replay.decide(0.0) == []
    replay.not_invoked("w2-0")
    assert replay.decide(0.0) == [load] and replay.ended("w2-0")
    assert replay.unforced() == ("w2-0 load 1: w2-0 was not invoked", "w2-0 commit 1: w2-0 was not invoked")


def test_places_of_operations_that_are_over_are_done_with_though_no_request_comes() -> None:
    replay = ReplayOrder(moments("w2-0 load 1", "w2-0 commit 1", "w0-1 load 1"))
    assert not replay.has_passed(1)
    replay.not_invoked("w2-0")
    assert replay.has_passed(2) and not replay.has_passed(3)
    replay.over("w0-1")
    assert replay.has_passed(3)


def test_what_was_expected_and_is_not_invoked_is_no_other_operation() -> None:
    replay = ReplayOrder(moments("w2-0 load 1"))
    replay.expects(2, "w2-0")
    replay.not_invoked("w2-0")
    replay.invoked(2, "w2-5", 0.0)
    assert replay.labels == {}


@pytest.mark.parametrize("counted", [False, True])
def test_a_request_behind_a_fence_is_dropped_though_the_reply_before_it_is_not_counted_yet(counted: bool) -> None:
    replay = ReplayOrder(moments("w0-1 load 1", "w1-1 load 1"), fences=[Fence("a kill", 1)])
    replay.expects(0, "w0-1")
    replay.invoked(0, "w0-1", 0.0)
    load, commit = (HeldRequest(n, 0, moment(f"w0-1 {kind} 1"), 0.0) for n, kind in enumerate(("load", "commit")))
    replay.arrives(load)
    assert replay.decide(0.0) == [load]
    if counted:
        replay.passed(load, 0.1)
    replay.arrives(commit)
    assert replay.decide(0.1) == []
    if not counted:
        replay.passed(load, 0.2)
    assert replay.decide(0.2) == []
    replay.happened("a kill")
    replay.completed(0, "w0-1", 0.3)
    assert replay.decide(0.3) == [] and replay.drops() == [commit]


def test_a_request_that_a_killed_writer_had_not_made_in_the_recording_is_dropped(catalog: Catalog) -> None:
    replay = ReplayOrder(moments("w0-1 load 1", "w1-1 load 1"), fences=[Fence("a kill", 1)])
    catalog.board.follow(replay)
    works = [
        writer(catalog, 0, [("w0-1", ("load", "commit"))], replay),
        writer(catalog, 1, [("w1-1", ("load",))], replay),
    ]
    with together(works):
        assert held(catalog, 2, works)
        replay.happened("a kill")
        catalog.board.completed(0, "w0-1")
    assert catalog.seen == ["w0-1 load 1", "w1-1 load 1"]


@pytest.mark.parametrize(
    ("other", "difference"),
    [
        (("w0-5 load 1", "w0-5 commit 1", "w1-1 commit 1"), None),
        (("w1-1 commit 1", "w0-5 commit 1"), "commit 1 of 2 was w0-1 commit 1, and is w1-1 commit 1"),
        (("w0-5 commit 1",), "there were 2 commits, and there are 1"),
    ],
)
def test_the_first_difference_between_two_orders_of_commits(other: tuple[str, ...], difference: str | None) -> None:
    recorded = moments("w0-1 commit 1", "w0-1 load 1", "w1-1 commit 1")
    assert first_difference(recorded, moments(*other), {"w0-5": "w0-1"}) == difference
