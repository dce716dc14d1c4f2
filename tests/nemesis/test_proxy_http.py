"""What no fault strikes passes the HTTP proxies byte for byte; what one strikes ends as the table of verbs says."""

from __future__ import annotations

import contextlib
import gzip
import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

from nemesis.faults.fault import Fault
from nemesis.proxy import listener
from tests.support.peers import CUT, END, FIN, RESET, Rig, Step, Want, eventually, everything, pieces, play, playing

GET = b"GET /v1/config HTTP/1.1\r\nHost: x\r\n\r\n"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
REFUSED = b"HTTP/1.1 409 Conflict\r\nContent-Length: 2\r\n\r\nno"
TABLE = "/v1/namespaces/db/tables/t"


def commit(op: str, snapshot: int = 7, base: int | None = 6) -> bytes:
    """An updateTable that names its operation."""
    update = {"action": "add-snapshot", "snapshot": {"snapshot-id": snapshot, "summary": {"icequake-op": op}}}
    requirement = {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": base}
    return post(TABLE, json.dumps({"requirements": [requirement], "updates": [update]}).encode())


def post(path: str, body: bytes) -> bytes:
    return f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


def load(query: str = "", known: int | None = None) -> bytes:
    """Of a table; ``known``: the version whose ETag the client has."""
    asked = "" if known is None else f'If-None-Match: "v{known}"\r\n'
    return f"GET {TABLE}{query} HTTP/1.1\r\nHost: x\r\n{asked}\r\n".encode()


def loaded(version: int, date: str = "now") -> bytes:
    body = json.dumps({"metadata-location": f"s3://w/db/t/metadata/v{version}.metadata.json"}).encode()
    head = f'HTTP/1.1 200 OK\r\nDate: {date}\r\nETag: "v{version}"\r\nContent-Length: {len(body)}\r\n\r\n'
    return head.encode() + body


def unchanged(version: int) -> bytes:
    return f'HTTP/1.1 304 Not Modified\r\nETag: "v{version}"\r\n\r\n'.encode()


@pytest.fixture(scope="module")
def calm() -> Iterator[Rig]:
    """A proxy that no fault is armed in."""
    with Rig("http") as rig:
        yield rig


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    with Rig("http", tmp_path / "proxy.jsonl") as rig:
        yield rig


@pytest.mark.parametrize("coding", ["identity", "gzip"])
def test_a_commit_of_nessies_own_api_says_its_table_and_the_new_metadata_file(rig: Rig, coding: str) -> None:
    put = {"type": "PUT", "key": {"elements": ["db", "t"]}, "content": {"metadataLocation": "s3://new.metadata.json"}}
    body = json.dumps({"commitMeta": {"message": "x"}, "operations": [put]}).encode()
    body = gzip.compress(body) if coding == "gzip" else body
    head = f"POST /api/v2/trees/main@1/history/commit HTTP/1.1\r\nHost: x\r\nContent-Encoding: {coding}\r\n"
    request = head.encode() + f"Content-Length: {len(body)}\r\n\r\n".encode() + body
    torn = request[:-9] + b"\0" * 9
    for sent in (request, torn):
        rig.talk([sent, Want(OK)], [Want(sent), OK])
    first, second = rig.log()
    assert (first["kind"], first["table"], first["new"]) == ("commit", "t", "s3://new.metadata.json")
    assert second["kind"] == "commit" and "new" not in second


class TestPassedOn:
    """Each case: what the client does, what the service does. Bytes that are sent must come, as they are and in order."""

    CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    ODD_CHUNKS = b'5;a="b;c"\r\nhello\r\n00A ; x\r\n0123456789\r\n0;last\r\nX-Sum: 1\r\nX-Other:  2 \r\n\r\n'
    UPLOAD = b"PUT /x HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n"
    GO_ON = b"HTTP/1.1 100 Continue\r\n\r\n"
    HINTS = b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"

    @pytest.mark.parametrize(
        ("request_", "reply"),
        [
            (GET, OK),
            (b"get * HTTP/1.1\r\n\r\n", b"HTTP/1.1 400 \r\nContent-Length: 0\r\n\r\n"),
            (b"GET /a%1Fb?x=%20&y HTTP/1.1\r\nhOST:x\r\nX-Odd: \xe4\xff\r\nX-Odd: 2\r\nEmpty:\r\n\r\n", OK),
            (b"HEAD /x HTTP/1.1\r\nHost: x\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n"),
            (b"HEAD /x HTTP/1.1\r\nHost: x\r\n\r\n", CHUNKED),
            (GET, b"HTTP/1.1 204 No Content\r\nETag: y\r\n\r\n"),
            (GET, b"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n"),
            (GET, CHUNKED + ODD_CHUNKS),
            (b"POST /x HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip, Chunked\r\n\r\n" + ODD_CHUNKS, OK),
            (post(TABLE, b""), OK),
            (post(TABLE, b"\0\xff not json"), OK),
            (b"POST " + TABLE.encode() + b" HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n" + ODD_CHUNKS, OK),
            (commit("w0-1"), CHUNKED + b"2\r\n{}\r\n0\r\n\r\n"),
            (load(), loaded(3)),
            (GET, HINTS + HINTS + OK),
            (GET, b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nok"),
            (b"GET /x HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n", OK),
            (b"GET /x HTTP/1.1\r\nConnection: Upgrade, keep-alive\r\nUpgrade: TLS/1.2\r\n\r\n", OK),
        ],
    )
    def test_requests_and_replies_on_one_connection(self, calm: Rig, request_: bytes, reply: bytes) -> None:
        steps: list[Step] = [request_, Want(reply)]
        calm.talk([*steps, *steps, GET, Want(OK), FIN, END], [*[Want(request_), reply] * 2, Want(GET), OK, END, FIN])

    def test_a_gzip_body_stays_as_it_is(self, calm: Rig) -> None:
        body = gzip.compress(b'{"metadata-location": "s3://x"}' * 50)
        head = f"Content-Encoding: gzip\r\nContent-Length: {len(body)}\r\n\r\n".encode()
        request = b"POST /v1/namespaces/db/tables/t HTTP/1.1\r\nHost: x\r\n" + head + body
        reply = b"HTTP/1.1 200 OK\r\n" + head + body
        calm.talk([request, Want(reply)], [Want(request), reply])

    def test_large_bodies_both_ways(self, calm: Rig) -> None:
        body = bytes(range(256)) * 12_000
        request = post("/x", body)
        reply = f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body
        calm.talk([request, Want(reply)] * 2, [Want(request), reply] * 2)

    def test_the_body_is_sent_when_it_was_asked_for(self, calm: Rig) -> None:
        client: list[Step] = [self.UPLOAD, Want(self.GO_ON), b"hello", Want(OK)]
        calm.talk(client * 2, [Want(self.UPLOAD), self.GO_ON, Want(b"hello"), OK] * 2)

    def test_the_body_that_is_refused_is_not_waited_for(self, calm: Rig) -> None:
        calm.talk([self.UPLOAD, Want(REFUSED), FIN, END], [Want(self.UPLOAD), REFUSED, END, FIN])

    def test_the_body_may_come_all_the_same_after_a_refusal(self, calm: Rig) -> None:
        calm.talk(
            [self.UPLOAD, Want(REFUSED), b"hello", GET, Want(OK)],
            [Want(self.UPLOAD), REFUSED, Want(b"hello"), Want(GET), OK],
        )

    def test_a_client_need_not_wait_for_the_permission_nor_a_service_give_it(self, calm: Rig) -> None:
        calm.talk([self.UPLOAD, b"hello", Want(OK)], [Want(self.UPLOAD + b"hello"), OK])

    def test_pipelined_requests_are_answered_in_order(self, calm: Rig) -> None:
        requests = [GET, post("/x", b"12345"), load(), commit("w0-1"), GET]
        replies = [OK, self.CHUNKED + self.ODD_CHUNKS, loaded(1), REFUSED, OK]
        service: list[Step] = []
        for request, reply in zip(requests, replies, strict=True):
            service += [Want(request), reply]
        calm.talk([b"".join(requests), Want(b"".join(replies)), FIN, END], [*service, END, FIN])

    @pytest.mark.parametrize("request_", [GET, b"GET /x HTTP/1.0\r\n\r\n", load()])
    def test_a_reply_up_to_the_end(self, calm: Rig, request_: bytes) -> None:
        reply = b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 300_000
        calm.talk([request_, Want(reply), END], [Want(request_), reply, FIN])

    @pytest.mark.parametrize("last", [b"Connection: close\r\n", b""])
    def test_an_answer_before_the_body_was_read(self, calm: Rig, last: bytes) -> None:
        head = b"PUT /x HTTP/1.1\r\nHost: x\r\nContent-Length: 2000000\r\n\r\n"
        reply = b"HTTP/1.1 413 Too Large\r\n" + last + b"Content-Length: 3\r\n\r\nbig"
        calm.talk(
            [head, b"x" * 500_000, Want(reply), b"x" * 1_500_000, FIN, END],
            [Want(head), reply, Want(b"x" * 2_000_000), END, FIN],
        )

    def test_a_service_that_answers_and_goes_while_the_body_comes(self, calm: Rig) -> None:
        client, service = calm.connection()
        head = b"PUT /x HTTP/1.1\r\nHost: x\r\nContent-Length: 200000000\r\n\r\n"
        reply = b"HTTP/1.1 413 Too Large\r\nConnection: close\r\nContent-Length: 3\r\n\r\nbig"
        play(client, [head + b"x" * 1000])
        play(service, [Want(head), reply])
        play(client, [Want(reply)])
        service.close()
        with pytest.raises(ConnectionError):
            for _ in range(10_000):
                client.sendall(b"x" * 65536)

    def test_a_client_that_has_finished_still_gets_its_reply(self, calm: Rig) -> None:
        calm.talk([GET, FIN, Want(OK), END], [Want(GET), END, OK, FIN])

    def test_a_client_that_resets_is_noticed_by_the_service(self, calm: Rig) -> None:
        calm.talk([GET, CUT], [Want(GET), RESET])

    def test_an_idle_connection_that_the_service_closes_is_closed_for_the_client(self, calm: Rig) -> None:
        calm.talk([GET, Want(OK), END], [Want(GET), OK, FIN])

    def test_last_words_on_an_idle_connection_arrive(self, calm: Rig) -> None:
        words = b"HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
        calm.talk([GET, Want(OK), Want(words), END], [Want(GET), OK, words, FIN])

    def test_an_idle_connection_that_the_service_resets_is_reset(self, calm: Rig) -> None:
        calm.talk([GET, Want(OK), RESET], [Want(GET), OK, CUT])

    @pytest.mark.parametrize(
        "reply", [b"", b"HTTP/1.1 20", OK[:-1], b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc"]
    )
    def test_a_reply_that_breaks_off_arrives_as_far_as_it_goes(self, calm: Rig, reply: bytes) -> None:
        calm.talk([GET, Want(reply), END], [Want(GET), reply, FIN])
        calm.talk([load(), Want(reply), END], [Want(load()), reply, FIN])

    @pytest.mark.parametrize(
        "request_", [b"GET /x HTT", b"GET /x HTTP/1.1\r\nHost", post("/x", b"12345")[:-1], commit("w0-1")[:-3]]
    )
    def test_a_request_that_breaks_off_arrives_as_far_as_it_goes(self, calm: Rig, request_: bytes) -> None:
        calm.talk([request_, FIN, Want(REFUSED), END], [Want(request_), END, REFUSED, FIN])

    @pytest.mark.parametrize(
        "garbage",
        [
            b"\0",
            b"\x16\x03\x01\x02\0\x01",
            b"EHLO x\r\n",
            b"GET / HTTP/2.0\r\n",
            b"GET /x\r\n",
            b"GET / HTTP/1.1\r\nHost: x\n\n",
            b"GET / HTTP/1.1\r\n folded: x\r\n\r\n",
            b"POST / HTTP/1.1\r\nContent-Length: x\r\n\r\nabc",
            b"POST / HTTP/1.1\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\nabc",
            b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n-5\r\nabc",
            b"POST /v1/namespaces/d/tables/t HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\nxyz\r\n",
            b"CONNECT x:1 HTTP/1.1\r\n\r\n",
            b"A" * 100,
        ],
    )
    def test_what_is_not_http_passes_unread(self, calm: Rig, garbage: bytes) -> None:
        calm.talk(
            [garbage, Want(b"\0what?"), b"\r\n\r\nmore", Want(b"x")],
            [Want(garbage), b"\0what?", Want(b"\r\n\r\nmore"), b"x"],
        )

    @pytest.mark.parametrize("reply", [b"220 hello\r\n", b"HTTP/2", b"\0\0\0", b"HTTP/1.1 abc\r\n"])
    def test_a_reply_that_is_not_http_passes_unread(self, calm: Rig, reply: bytes) -> None:
        calm.talk([GET, Want(reply), b"?", Want(b"!")], [Want(GET), reply, Want(b"?"), b"!"])

    def test_a_service_that_speaks_first(self, calm: Rig) -> None:
        calm.talk([Want(b"220 ready\r\n"), b"EHLO\r\n", Want(b"250")], [b"220 ready\r\n", Want(b"EHLO\r\n"), b"250"])

    def test_after_switching_protocols_all_is_passed_on_unread(self, calm: Rig) -> None:
        request = b"GET / HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: odd\r\n\r\n"
        switch = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: odd\r\n\r\n"
        calm.talk(
            [request, Want(switch + b"a"), b"\0b", Want(b"c")], [Want(request), switch + b"a", Want(b"\0b"), b"c"]
        )

    def test_any_service_through_a_plain_listener(self, calm: Rig) -> None:
        listener = calm.listen("tcp")
        client, service = calm.connection(listener)
        with playing(service, [Want(b"\0\1"), b"GET", FIN, Want(b"2"), END]):
            play(client, [b"\0\1", Want(b"GET"), END, b"2", FIN])


token = st.text("abcdefgh-XYZ", min_size=1, max_size=8)
value = st.text(st.characters(min_codepoint=33, max_codepoint=255), max_size=12).map(lambda v: v.strip())
FRAMING = {"content-length", "transfer-encoding", "connection", "expect", "upgrade"}
fields = st.lists(st.tuples(token.filter(lambda t: t.lower() not in FRAMING), value), max_size=4)


@st.composite
def body(draw: st.DrawFn) -> tuple[bytes, bytes]:
    """Framing fields, and the body in that framing."""
    content = draw(st.binary(max_size=60)) * draw(st.sampled_from([1, 1, 1, 3000]))
    if draw(st.booleans()):
        return f"Content-Length: {len(content)}\r\n".encode(), content
    out = b""
    for part in pieces(content, draw(st.lists(st.integers(0, 200_000), max_size=3))):
        line = draw(st.sampled_from(["%x", "%X", "00%x", "%x;e", '%x;e="v"'])) % len(part)
        out += line.encode() + b"\r\n" + part + b"\r\n"
    trailers = "".join(f"{k}:{v}\r\n" for k, v in draw(fields))
    return b"Transfer-Encoding: chunked\r\n", out + b"0\r\n" + trailers.encode("latin-1") + b"\r\n"


def head(line: str, extra: list[tuple[str, str]]) -> bytes:
    return (line + "\r\n" + "".join(f"{k}: {v}\r\n" for k, v in extra)).encode("latin-1")


@st.composite
def exchange(draw: st.DrawFn) -> tuple[bytes, bytes]:
    """A request and a reply to it."""
    method = draw(st.sampled_from(["GET", "POST", "PUT", "HEAD", "DELETE", "ODD"]))
    target = draw(st.sampled_from([TABLE, "/v1/config?a=b", "/v1/namespaces/d/tables", "*", "/%20/x?y=\xe4"]))
    framing, content = draw(body()) if method not in ("GET", "HEAD") else (b"", b"")
    request = head(f"{method} {target} HTTP/1.1", draw(fields)) + framing + b"\r\n" + content
    status = draw(st.sampled_from([200, 200, 201, 204, 304, 404, 409, 500, 503]))
    framing, content = draw(body())
    if method == "HEAD" or status in (204, 304):
        content = b""
    reply = head(f"HTTP/1.1 {status} {draw(value)}", draw(fields)) + framing + b"\r\n" + content
    interim = draw(st.sampled_from([b"", b"", b"", b"HTTP/1.1 103 Hints\r\nA: b\r\n\r\n"]))
    return request, interim + reply


cuts = st.lists(st.integers(0, 400_000), max_size=8)
FUZZ = settings(
    max_examples=100,
    phases=[Phase.explicit, Phase.generate],
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)


@FUZZ
@given(st.lists(exchange(), min_size=1, max_size=4), cuts, cuts, st.booleans(), st.booleans())
def test_any_exchange_passes_byte_for_byte(
    calm: Rig, exchanges: list[tuple[bytes, bytes]], one: list[int], other: list[int], pipelined: bool, known: bool
) -> None:
    client: list[Step] = []
    service: list[Step] = []
    if pipelined:
        client += [*pieces(b"".join(q for q, _ in exchanges), one), Want(b"".join(r for _, r in exchanges))]
    for request, reply in exchanges:
        if not pipelined:
            client += [*pieces(request, one), Want(reply)]
        service += [Want(request), *pieces(reply, other)]
    calm.board.remembers = known
    calm.talk([*client, FIN, END], [*service, END, FIN])


@FUZZ
@given(
    st.one_of(st.binary(max_size=80), st.text("GETHTP/1.0 \r\n:x5", max_size=60).map(str.encode)),
    st.one_of(st.binary(max_size=80), st.text("HTTP/1.02 \r\n:x5", max_size=60).map(str.encode)),
    cuts,
)
def test_any_garbage_passes_byte_for_byte(calm: Rig, sent: bytes, answered: bytes, at: list[int]) -> None:
    calm.talk([*pieces(sent, at), FIN, Want(answered), END], [Want(sent), END, *pieces(answered, at), FIN])


@FUZZ
@example((b"GET / HTTP/1.1\r\n\r\n", b"HTTP/1.1 204 \r\n\r\n"), 18, 12, b"Y", [])  # no number, and not a status line
@given(exchange(), st.integers(0, 10_000), st.integers(0, 10_000), st.binary(max_size=3), cuts)
def test_any_exchange_with_damage_passes_byte_for_byte(
    calm: Rig, pair: tuple[bytes, bytes], at: int, back: int, noise: bytes, places: list[int]
) -> None:
    """Bytes put in or cut off somewhere; the service answers when nothing more comes."""
    request, reply = pair
    at, back = at % (len(request) + 1), back % (len(reply) + 1)
    request = request[:at] + noise + (request[at + 1 :] if noise else b"")
    reply = reply[:back] + noise + (reply[back + 1 :] if noise else b"")
    client, service = calm.connection()
    with client, service:
        answering = threading.Thread(target=_answer_at_the_end, args=(service, pieces(reply, places), got := []))
        answering.start()
        play(client, [*pieces(request, places), FIN])
        assert everything(client) == reply
        answering.join(20)
        assert got == [request]


def _answer_at_the_end(end: socket.socket, reply: list[bytes], got: list[bytes]) -> None:
    end.settimeout(0.03)
    first = b""
    try:
        while part := end.recv(1 << 20):
            first += part
    except TimeoutError:
        pass
    play(end, [*reply, FIN])  # not only after the client's end: what follows a request waits for its reply
    got.append(first + everything(end))


class TestVerbs:
    """What the service got, what the client saw, what was counted and logged."""

    def test_refuse_and_drop_request_reach_nobody(self, rig: Rig) -> None:
        verbs: tuple[Any, ...] = ("refuse", "drop-request")
        for verb in verbs:
            armed = rig.board.arm(Fault(verb=verb, times=1))
            rig.talk([commit("w0-1"), RESET], [RESET])
            assert armed.hits == {"commit": 1} and armed.missed == 0
            rig.board.end(armed)
        first, second = rig.log()
        assert (first["status"], first["faults"]) == ("refused (nemesis)", ["refuse of commit"])
        assert (second["status"], second["faults"]) == ("dropped (nemesis)", ["drop-request of commit"])
        assert (first["op"], first["base"], first["new"], first["table"]) == ("w0-1", "6", "7", "t")

    def test_reject_answers_and_the_connection_goes_on(self, rig: Rig) -> None:
        armed = rig.board.arm(Fault(verb="reject", status=429, retry_after=3, nth=2))
        client, service = rig.connection()
        with playing(service, [Want(commit("w0-1")), OK, Want(GET), OK]):
            play(client, [commit("w0-1"), Want(OK), commit("w0-2")])
            told = client.recv(1 << 16)
            assert told.startswith(b"HTTP/1.1 429 Too Many Requests\r\n") and b"\r\nRetry-After: 3\r\n" in told
            play(client, [GET, Want(OK)])
        assert armed.hits == {"commit": 1}
        assert [r["status"] for r in rig.log()] == ["200", "429 (nemesis)", "200"]

    @pytest.mark.parametrize("verb", ["drop-reply", "answer", "cut"])
    def test_the_service_carries_it_out_and_the_client_does_not_hear_of_it(self, rig: Rig, verb: Any) -> None:
        armed = rig.board.arm(Fault(verb=verb))
        client, service = rig.connection()
        with playing(service, [Want(commit("w0-1")), loaded(2)]):
            play(client, [commit("w0-1")])
            if verb == "answer":
                assert client.recv(1 << 16).startswith(b"HTTP/1.1 503 Service Unavailable\r\n")
            else:
                play(client, [*([Want(loaded(2)[: len(loaded(2)) // 2])] if verb == "cut" else []), RESET])
        assert (armed.hits, armed.missed) == ({"commit": 1}, 0)
        (record,) = rig.log()
        assert record["location"].endswith("v2.metadata.json") and record["faults"] == [f"{verb} of commit"]
        assert record["status"].startswith("200")

    @pytest.mark.parametrize("verb", ["drop-reply", "answer", "cut", "duplicate"])
    def test_what_the_service_refused_is_passed_on_and_counted_as_missed(self, rig: Rig, verb: Any) -> None:
        armed = rig.board.arm(Fault(verb=verb, times=1))
        rig.talk([commit("w0-1"), Want(REFUSED)], [Want(commit("w0-1")), REFUSED])
        assert (armed.hits, armed.missed) == ({}, 1)
        (record,) = rig.log()
        assert record["status"] == "409" and "faults" not in record

    def test_a_service_that_goes_without_an_answer_is_missed(self, rig: Rig) -> None:
        armed = rig.board.arm(Fault(verb="drop-reply"))
        rig.talk([commit("w0-1"), Want(OK[:-1]), END], [Want(commit("w0-1")), OK[:-1], FIN])
        assert (armed.hits, armed.missed) == ({}, 1)

    def test_duplicate_sends_it_twice_and_passes_the_second_reply_on(self, rig: Rig) -> None:
        armed = rig.board.arm(Fault(verb="duplicate"))
        rig.talk([commit("w0-1"), Want(REFUSED)], [Want(commit("w0-1")), OK, Want(commit("w0-1")), REFUSED])
        assert armed.hits == {"commit": 1}
        first, second = rig.log()
        assert (first["status"], first["faults"]) == ("200 (nemesis: not told)", ["duplicate of commit"])
        assert (second["status"], second["faults"]) == ("409", ["duplicate: sent again"])

    def test_a_duplicate_whose_second_request_nobody_answers_was_accepted_once(self, rig: Rig) -> None:
        rig.board.arm(Fault(verb="duplicate"))
        rig.talk([commit("w0-1"), END], [Want(commit("w0-1")), OK, Want(commit("w0-1")), FIN])
        assert [r["status"] for r in rig.log()] == ["200 (nemesis: not told)", "no reply"]

    def test_the_log_says_what_the_writer_was_doing_when_a_late_request_began(self, rig: Rig) -> None:
        put = {"type": "PUT", "key": {"elements": ["db", "t"]}, "content": {"metadataLocation": "s3://m.metadata.json"}}
        unnamed = post("/api/v2/trees/main@1/history/commit", json.dumps({"operations": [put]}).encode())
        hold = rig.board.hold("w0-1", Fault(verb="late", status=504))
        rig.board.invoked(0, "w0-1")
        client, service = rig.connection()
        client.sendall(unnamed)
        assert client.recv(1 << 16).startswith(b"HTTP/1.1 504 ")
        rig.board.invoked(0, "w0-2")
        hold.release()
        play(service, [Want(unnamed), OK])
        assert hold.passed.wait(300)
        assert [(r["op"], r["status"]) for r in rig.log()] == [("w0-1", "504 (nemesis)"), ("w0-1", "200")]

    def test_the_log_says_what_the_writer_was_doing_when_a_request_began_that_took_long(self, rig: Rig) -> None:
        rig.board.invoked(0, "w0-1")
        client, service = rig.connection()
        client.sendall(GET)
        play(service, [Want(GET)])
        rig.board.invoked(0, "w0-2")
        play(service, [OK])
        play(client, [Want(OK)])
        assert [r["op"] for r in rig.log()] == ["w0-1"]

    def test_late_answers_first_and_sends_later(self, rig: Rig) -> None:
        armed = rig.board.arm(Fault(verb="late", status=504, seconds=0.05, times=1))
        client, service = rig.connection()
        with playing(service, [Want(commit("w0-1")), OK]):
            play(client, [commit("w0-1")])
            assert client.recv(1 << 16).startswith(b"HTTP/1.1 504 Gateway Timeout\r\n")
        client.sendall(GET)
        play(rig.accept(), [Want(GET), OK])
        play(client, [Want(OK)])
        assert armed.hits == {"commit": 1}
        assert sorted(r["status"] for r in rig.log()) == ["200", "200", "504 (nemesis)"]

    @pytest.mark.parametrize("service_goes", [True, False])
    def test_a_late_request_that_the_service_never_answers_has_its_line_in_the_log(
        self, rig: Rig, monkeypatch: pytest.MonkeyPatch, service_goes: bool
    ) -> None:
        monkeypatch.setattr(listener, "LAST_ANSWERS", 0.0)
        armed = rig.board.arm(Fault(verb="late", status=504, seconds=0.001, times=1))
        client, service = rig.connection()
        client.sendall(commit("w0-1"))
        assert client.recv(1 << 16).startswith(b"HTTP/1.1 504 ")
        play(service, [Want(commit("w0-1"))])
        if service_goes:
            play(service, [CUT])
            assert eventually(lambda: armed.missed == 1)
        told, sent = rig.log()
        assert (told["status"], told["faults"]) == ("504 (nemesis)", ["late 504 of commit"])
        assert (sent["op"], sent["status"], sent["faults"]) == ("w0-1", "no reply", ["late: sent"])

    def test_a_late_request_that_cannot_be_sent_has_no_line_of_its_own(self, rig: Rig) -> None:
        hold = rig.board.hold("w0-1", Fault(verb="late", status=504))
        client, service = rig.connection()
        client.sendall(commit("w0-1"))
        assert client.recv(1 << 16).startswith(b"HTTP/1.1 504 ")
        service.close()
        rig.stop_listening()
        # Once it cannot reach the service for another one, the proxy has noticed the end of the first. Its reset may
        # come before this side knows that it is connected: then the connection itself is refused.
        with contextlib.suppress(ConnectionResetError):
            play(rig.client(), [RESET])
        hold.release()
        assert hold.passed.wait(300) and hold.problem is not None
        assert [r["faults"] for r in rig.log() if "faults" in r] == [["late 504 of commit"]]

    def test_stale_answers_as_before_the_last_change(self, rig: Rig) -> None:
        armed = rig.board.arm(Fault(verb="stale", request="load"))
        client, service = rig.connection()
        replies = [loaded(1, "a"), loaded(2, "b"), loaded(2, "c")]
        # Until two versions are known there is nothing older. A new date alone is no change.
        with playing(service, [s for r in replies[:2] for s in (Want(load()), r)]):
            play(client, [load(), Want(replies[0]), load(), Want(replies[1]), load(), Want(replies[0])])
        assert (armed.hits, armed.missed) == ({"load": 1}, 2)
        rig.board.end(armed)
        with playing(service, [Want(load()), replies[2]]):
            play(client, [load(), Want(replies[2])])
        rig.board.arm(Fault(verb="stale", request="load"))
        play(client, [load(), Want(replies[0])])

    def test_stale_tells_who_has_the_version_before_the_last_change_that_it_is_the_newest(self, rig: Rig) -> None:
        client, service = rig.connection()
        rig.board.remembers = True
        with playing(service, [s for v in (1, 2) for s in (Want(load()), loaded(v))]):
            play(client, [load(), Want(loaded(1)), load(), Want(loaded(2))])
        armed = rig.board.arm(Fault(verb="stale", request="load"))
        play(client, [load(known=1), Want(unchanged(1)), load(known=2), Want(loaded(1))])
        assert (armed.hits, armed.missed) == ({"load": 2}, 0)
        assert [r["status"] for r in rig.log()[2:]] == ["304 (nemesis)", "stale (nemesis)"]

    def test_stale_answers_304_to_who_knows_the_table_although_the_service_has_a_newer_version(self, rig: Rig) -> None:
        """The proxy itself saw no older answer; where nothing has changed, 304 is no answer from the past."""
        armed = rig.board.arm(Fault(verb="stale", request="load"))
        client, service = rig.connection()
        with playing(service, [Want(load(known=1)), unchanged(1), Want(load(known=1)), loaded(2)]):
            play(client, [load(known=1), Want(unchanged(1)), load(known=1), Want(unchanged(1))])
        assert (armed.hits, armed.missed) == ({"load": 1}, 1)
        assert [r["status"] for r in rig.log()] == ["304", "200, told 304 (nemesis)"]

    def test_a_fault_with_after_strikes_from_then_on(self, rig: Rig) -> None:
        armed = rig.board.arm(Fault(verb="reject", request="config", status=403, after=2))
        client, service = rig.connection()
        with playing(service, [Want(GET), OK, Want(GET), OK]):
            play(client, [GET, Want(OK), GET, Want(OK)])
        for _ in range(2):
            client.sendall(GET)
            assert client.recv(1 << 16).startswith(b"HTTP/1.1 403 Forbidden\r\n")
        assert armed.hits == {"config": 2}

    @pytest.mark.parametrize("direction", ["both", "requests", "replies"])
    def test_a_partition_holds_until_it_ends_and_resets(self, rig: Rig, direction: Any) -> None:
        armed = rig.board.arm(Fault(verb="partition", direction=direction))
        client, service = rig.connection()
        client.sendall(commit("w0-1"))
        if direction == "replies":
            play(service, [Want(commit("w0-1")), OK])
        assert eventually(lambda: armed.hits["commit"] == 1)
        client.settimeout(0.1)
        with pytest.raises(TimeoutError):
            client.recv(1)
        rig.board.end(armed)
        play(client, [RESET])
        assert rig.log()[0]["faults"] == [armed.fault.name]

    @pytest.mark.parametrize("protocol", ["http", "tcp"])
    def test_a_partition_of_everything_keeps_connections_out_and_bytes_back(self, rig: Rig, protocol: Any) -> None:
        listener = rig.listen(protocol)
        client, service = rig.connection(listener)
        play(client, [b"\0"])
        play(service, [Want(b"\0")])
        armed = rig.board.arm(Fault(verb="partition", request="any"))
        kept_out = rig.client(listener)
        client.sendall(b"1")
        kept_out.sendall(GET)
        assert eventually(lambda: armed.hits["connect"] == 1 and armed.hits["bytes"] == 1)
        assert rig.nobody_came()
        rig.board.end(armed)
        play(client, [RESET])
        play(kept_out, [RESET])
        play(service, [RESET])

    def test_a_delay_is_logged_and_nothing_else_changes(self, rig: Rig) -> None:
        armed = rig.board.arm(Fault(verb="delay", seconds=0.05, jitter=0.01))
        rig.talk([commit("w0-1"), Want(OK)], [Want(commit("w0-1")), OK])
        assert armed.hits == {"commit": 1}
        (record,) = rig.log()
        assert record["ms"] >= 40 and record["faults"] == ["delay of commit"]

    def test_a_throttle_paces_the_bytes_both_ways(self, rig: Rig) -> None:
        armed = rig.board.arm(Fault(verb="throttle", rate=20_000))
        request, reply = commit("w0-1" * 300), OK.replace(b"2", b"2000", 1).replace(b": 2\r", b": 2000\r")
        reply = b"HTTP/1.1 200 OK\r\nContent-Length: 2000\r\n\r\n" + b"x" * 2000
        rig.talk([request, Want(reply)], [Want(request), reply])
        assert armed.hits == {"commit": 1}
        assert rig.log()[0]["ms"] >= 1000 * (len(request) + len(reply)) / 20_000

    def test_only_the_writers_service_and_requests_that_it_names(self, rig: Rig) -> None:
        armed = rig.board.arm(Fault(verb="refuse", writers=(1,)))
        rig.talk([commit("w0-1"), Want(OK), load(), Want(OK)], [Want(commit("w0-1")), OK, Want(load()), OK])
        client, service = rig.connection(rig.listen("http", writer=1))
        with playing(service, [Want(load()), OK, RESET]):
            play(client, [load(), Want(OK), commit("w1-1"), RESET])
        assert armed.hits == {"commit": 1}


class TestHolds:
    def test_the_held_commit_waits_and_others_pass(self, rig: Rig) -> None:
        hold = rig.board.hold("w0-1")
        client, service = rig.connection()
        client.sendall(commit("w0-1"))
        assert hold.reached.wait(300) and not hold.passed.is_set()
        rig.talk([commit("w1-0"), Want(OK), load(), Want(OK)], [Want(commit("w1-0")), OK, Want(load()), OK])
        service.settimeout(0.05)
        with pytest.raises(TimeoutError):
            service.recv(1)
        hold.release()
        play(service, [Want(commit("w0-1")), OK])
        play(client, [Want(OK)])
        assert hold.passed.wait(300) and hold.problem is None
        assert [r.get("held") for r in rig.log()] == [None, None, True]

    def test_it_goes_on_although_the_service_ended_its_silent_connection(self, rig: Rig) -> None:
        hold = rig.board.hold("w0-1")
        client, service = rig.connection()
        client.sendall(commit("w0-1"))
        assert hold.reached.wait(300)
        service.close()
        rig.talk([load(), Want(OK)], [Want(load()), OK])  # so the proxy has noticed the end of the other connection
        hold.release()
        play(rig.accept(), [Want(commit("w0-1")), OK])
        play(client, [Want(OK)])
        assert hold.passed.wait(300) and hold.problem is None

    def test_it_is_sent_twice_although_the_service_ended_its_silent_connection(self, rig: Rig) -> None:
        hold = rig.board.hold("w0-1", Fault(verb="duplicate"))
        client, service = rig.connection()
        client.sendall(commit("w0-1"))
        play(service, [Want(commit("w0-1")), OK])
        assert hold.reached.wait(300)
        service.close()
        rig.talk([load(), Want(OK)], [Want(load()), OK])
        hold.release()
        play(rig.accept(), [Want(commit("w0-1")), OK])
        play(client, [Want(OK)])
        assert hold.passed.wait(300) and hold.problem is None

    def test_only_the_first_request_of_the_operation_waits(self, rig: Rig) -> None:
        rig.board.hold("w0-1").release()
        steps = [(commit("w0-1"), OK)] * 3
        rig.talk([s for q, r in steps for s in (q, Want(r))], [s for q, r in steps for s in (Want(q), r)])
        assert [r.get("held") for r in rig.log()] == [True, None, None]

    def test_what_names_no_operation_is_what_its_writer_is_doing(self, rig: Rig) -> None:
        hold = rig.board.hold("w0-5", kind="load")
        rig.board.invoked(0, "w0-5")
        client, service = rig.connection()
        client.sendall(load())
        assert hold.reached.wait(300)
        hold.release()
        play(service, [Want(load()), OK])
        play(client, [Want(OK)])
        assert rig.log()[0]["op"] == "w0-5"

    def test_a_hold_that_nobody_releases_gives_way_and_says_so(self, rig: Rig) -> None:
        hold = rig.board.hold("w0-1", longest=0.05)
        rig.talk([commit("w0-1"), Want(OK)], [Want(commit("w0-1")), OK])
        assert hold.problem is not None and "gave way" in hold.problem

    def test_healing_releases_what_is_held(self, rig: Rig) -> None:
        hold = rig.board.hold("w0-1")
        client, service = rig.connection()
        client.sendall(commit("w0-1"))
        assert hold.reached.wait(300)
        rig.board.heal()
        play(service, [Want(commit("w0-1")), OK])
        play(client, [Want(OK)])

    def test_an_answer_in_place_of_the_catalogs_comes_after_it_was_applied_and_once(self, rig: Rig) -> None:
        hold = rig.board.hold("w0-1", Fault(verb="answer", retry_after=1))
        client, service = rig.connection()
        client.sendall(commit("w0-1"))
        play(service, [Want(commit("w0-1")), OK])
        assert hold.reached.wait(300) and hold.passed.is_set()
        hold.release()
        told = client.recv(1 << 16)
        assert told.startswith(b"HTTP/1.1 503 ") and b"Retry-After: 1\r\n" in told
        with playing(service, [Want(commit("w0-1")), OK]):
            play(client, [commit("w0-1"), Want(OK)])
        assert hold.problem is None

    @pytest.mark.parametrize("reply", [OK, REFUSED])
    def test_a_late_commit_is_answered_first_and_sent_when_it_is_released(self, rig: Rig, reply: bytes) -> None:
        hold = rig.board.hold("w0-1", Fault(verb="late", status=504))
        client, service = rig.connection()
        client.sendall(commit("w0-1"))
        assert client.recv(1 << 16).startswith(b"HTTP/1.1 504 ")
        assert hold.reached.wait(300) and not hold.passed.is_set()
        hold.release()
        play(service, [Want(commit("w0-1")), reply])
        assert hold.passed.wait(300)
        assert (hold.problem is None) == (reply is OK)

    def test_a_commit_that_the_catalog_refused_is_no_lost_one(self, rig: Rig) -> None:
        hold = rig.board.hold("w0-1", Fault(verb="answer"))
        hold.release()
        rig.talk([commit("w0-1"), Want(REFUSED)], [Want(commit("w0-1")), REFUSED])
        assert hold.problem is not None and "refused" in hold.problem

    def test_a_commit_that_nobody_answers_is_no_lost_one(self, rig: Rig) -> None:
        hold = rig.board.hold("w0-1", Fault(verb="drop-reply"))
        hold.release()
        rig.talk([commit("w0-1"), END], [Want(commit("w0-1")), FIN])
        assert hold.reached.wait(300) and hold.problem is not None and "did not answer" in hold.problem
