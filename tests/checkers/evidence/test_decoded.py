"""Two parsers read the lines of a run: the faster one only what both read alike."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from checkers.evidence import history, proxylog, proxyplaces, tablelog, tablelog_file
from checkers.evidence.record import RecordError, decoded
from checkers.evidence.replace import replace
from checkers.timeline.timelines import timelines
from tests.support.runs import ROOT, environment
from tests.support.simulator import simulate
from workloads.tables import TableSpec

NUMBERS = st.one_of(
    st.integers().map(str),
    st.integers(-(10**22), 10**22).map(str),
    st.floats().map(json.dumps),
    st.sampled_from(["-0", "-0.0", "1e400", "1E5", "0.1234567890123456789", "9" * 19, "-" + "9" * 19, "1" + "0" * 19]),
)
TEXTS = st.text().map(json.dumps) | st.sampled_from(['"\\ud800"', '"snap-9223372036854775807-1.avro"', '"\\u0000"'])
VALUES = st.recursive(
    NUMBERS | TEXTS | st.sampled_from(["null", "true", "false"]),
    lambda inner: (
        st.lists(inner, max_size=3).map(lambda xs: f"[{', '.join(xs)}]")
        | st.lists(st.tuples(st.sampled_from("ab"), inner), max_size=3).map(
            lambda xs: "{" + ",".join(f'"{k}":{v}' for k, v in xs) + "}"
        )
    ),
    max_leaves=6,
)


@given(VALUES.map(lambda v: f'{{"a":{v}}}'))
@example('{"a":-9223372036854775809}')
@example('{"a":[1,-9999999999999999999]}')
@example('{"a":18446744073709551616}')
def test_a_line_is_what_json_says(line: str) -> None:
    assert repr(decoded(line.encode("utf-8", "surrogatepass"))) == repr(json.loads(line))


@given(VALUES, st.integers(0, 60), st.binary(max_size=3))
def test_a_damaged_line_is_what_json_says_or_an_error(value: str, at: int, put: bytes) -> None:
    line = f'{{"a":{value}}}'.encode("utf-8", "surrogatepass")
    line = line[:at] + put + line[at:]
    try:
        meant = json.loads(line.decode("utf-8-sig"))
    except ValueError:
        meant = None
    if isinstance(meant, dict):
        assert repr(decoded(line)) == repr(meant)
    else:
        with pytest.raises(RecordError):
            decoded(line)


def test_of_tables_in_one_another_a_commit_is_the_first_ones(tmp_path: Path) -> None:
    logs = simulate(1, [TableSpec(name="t"), TableSpec(name="u")]).logs
    inside = {
        "t": replace(logs["t"], location="s3://w/x"),
        "u": replace(logs["u"], location="s3a://w/x/u"),
    }
    line = {"time": 1, "ms": 1.0, "kind": "commit", "what": "POST", "status": "200", "writer": 0, "op": "w0-1"}
    path = tmp_path / "proxy.jsonl"
    told = [json.dumps({**line, "location": f"s3://w/x/u/metadata/{n}.metadata.json"}) for n in range(2)]
    path.write_text(told[0] + "\u2028" + told[1] + "\n" + told[0][:-9] + "\n", encoding="utf-8")
    assert [s.new[-15:-14] for s in proxylog.read(path, inside)["t"]] == ["0", "1"]
    assert list(proxylog.read(path, {"u": inside["u"], "t": inside["t"]})) == ["u"]


def test_operations_under_way_are_those_of_the_definition() -> None:
    for seed in range(3):
        for t in timelines(simulate(seed, [TableSpec(name="t"), TableSpec(name="u")], ops=30).evidence())[0]:
            for step in t.chain.steps:
                assert t.chain.under_way(step) == t.chain.under_way(step, t.chain.of_table)


SWAP = (
    b'{"time":5,"writer":0,"service":"catalog","kind":"commit","what":"POST /t","table":"t","op":"w0-1","base":"1","new":"2",'
    b'"location":"s3://w/t/metadata/1.metadata.json","status":"200","ms":1.5,"changes":[{"table":"t","adds":["2"],"refs":{"main":"2"}}]%s}%s'
)


@pytest.mark.parametrize(
    ("more", "end", "found"),
    [
        (b"", b"\n", 1),
        (b"", b"", 1),
        (b"", b"\r\n", 1),
        (b"\r", b"\n", 0),  # ends the line
        (b',"x":"\xc3\xa9"', b"\n", 1),
        (b',"x":"\xff"', b"\n", 1),
        (b',"x":"\x0b"', b"\n", 0),
        (b',"x":123456789012345678901234567890', b"\n", 1),
        (b',"x":', b"\n", 0),
    ],
)
def test_a_line_of_the_proxy_log_is_read_whatever_its_characters(
    tmp_path: Path, more: bytes, end: bytes, found: int
) -> None:
    log = tablelog.TableLog("t", "c.t", "s3://w/t", (), (), (), (), True)
    path = tmp_path / "proxy.jsonl"
    path.write_bytes(SWAP % (more, end))
    told = proxylog.read_all(path, {"t": log})
    assert [len(x.get("t", ())) for x in (told.swaps, told.accepted, told.carried)] == [found] * 3


# --- lines of one table only


PLACES = st.sampled_from(["t", "u", "t/u", "v"])
REQUESTS = st.fixed_dictionaries(
    {"time": st.integers(0, 9), "kind": st.sampled_from(["commit"] * 4 + ["load"]), "status": st.just("200")},
    optional={
        "ms": st.just(1.5),
        "writer": st.sampled_from([0, 1, None]),
        "what": st.sampled_from(["POST /x", "PUT /w/t/metadata/9.metadata.json", "x/trees/b/history/merge", "x/trees/b@1/history/commit"]),
        "table": st.sampled_from(["t", "t", "u", "t\\", "é"]),
        "op": st.sampled_from(["w0-1", "w1-1", "é"]),
        "new": st.just("7"),
        "base": PLACES.map("s3://w/{}/metadata/0.metadata.json".format),
        "location": st.tuples(PLACES, st.integers(1, 3)).map(lambda x: f"s3://w/{x[0]}/metadata/{x[1]}.metadata.json"),
        "changes": st.lists(st.fixed_dictionaries({"table": st.sampled_from(["t", "u"]), "adds": st.just(["2"])}), max_size=2),
    },
)  # fmt: skip
ENDS = st.sampled_from([b"\n"] * 6 + [b"\r\n", b"}\n", b"\xff\n", b"\\u0041\n"])


@given(st.lists(st.tuples(REQUESTS, ENDS, st.booleans()), max_size=8), st.booleans())
@settings(max_examples=400)
def test_the_requests_of_one_table_are_those_among_all(
    told: list[tuple[dict[str, Any], bytes, bool]], whole: bool
) -> None:
    logs = {n: tablelog.TableLog(n, f"c.{n}", f"s3://w/{n}", (), (), (), (), True) for n in "tu"}
    lines = [msgspec.json.encode(r) if plain else json.dumps(r).encode() for r, _, plain in told]
    text = b"".join(line + end for line, (_, end, _) in zip(lines, told, strict=True))
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "proxy.jsonl"
        path.write_bytes(text if whole else text[:-1])
        every = proxylog.read_all(path, logs)
        places = proxyplaces.TableLines(path, logs)
        for table, log in logs.items():
            try:
                one = places.read(table, log)
            except proxylog.Strayed:
                where = [str(r.get("location", r.get("what"))) for r, _, _ in told if r.get("table") == table]
                assert any(f"w/{table}/metadata" not in w for w in where)
                continue
            try:
                for other in logs:
                    places.read(other, logs[other])
            except proxylog.Strayed:
                continue  # what the other one has may be this one's
            assert [x.get(table, ()) for x in (one.swaps, one.accepted, one.carried)] == [
                x.get(table, ()) for x in (every.swaps, every.accepted, every.carried)
            ]


def test_the_requests_of_a_table_are_found_without_reading_the_others(tmp_path: Path) -> None:
    path = tmp_path / "proxy.jsonl"
    one, other = (SWAP % (b"", b"\n"), SWAP.replace(b'"t"', b'"u"').replace(b"w/t", b"w/u") % (b"", b"\n"))
    path.write_bytes(one + other + b'{"kind":"load","table":"t"}\n' + one + b'{"kind":"commit"}\n')
    places = proxyplaces.TableLines(path, ["t", "u"])
    assert places.others == 1
    assert {
        k: [path.read_bytes()[a:b] for a, b in proxyplaces._pairs(found)] for k, found in places._places.items()
    } == {
        b'"table":"t"': [one, one],
        b'"table":"u"': [other],
    }
    path.write_bytes(one.replace(b"w/t", b"w/u"))
    log = tablelog.TableLog("t", "c.t", "s3://w/t", (), (), (), (), True)
    with pytest.raises(proxylog.Strayed, match="names another table than s3://w/u/metadata/1"):
        proxyplaces.TableLines(path, ["t"]).read("t", log)


# --- lines that the parser reads into their types


VALUE = VALUES.map(json.loads) | st.sampled_from(
    [[], {}, "data", "ok", 0, 1, -1, True, 1.0, 1e300, 2**64, "s3://w/x", None]
)


def damaged(draw: st.DrawFn, value: Any) -> Any:
    """A JSON value with something else in it: another value, one more, one less, or keys in another order."""
    if isinstance(value, dict):
        value = dict(value)
        key = draw(st.sampled_from(sorted(value))) if value else ""
        match draw(st.integers(0, 7)):
            case 0:
                value.pop(key, None)
            case 1:
                value[draw(st.sampled_from(["more", "type", "error", "phase", "spec_id", "by", "\ud800", key]))] = draw(
                    VALUE
                )
            case 2:
                return dict(draw(st.permutations([*value.items()])))
            case _ if value:
                value[key] = damaged(draw, value[key])
        return value
    if isinstance(value, list) and value:
        n, change = draw(st.integers(0, len(value) - 1)), draw(st.integers(0, 5))
        if change == 0:
            return [*value[:n], *value[n + 1 :]]
        if change == 1:
            return [*value, draw(VALUE)]
        return [*value[:n], damaged(draw, value[n]), *value[n + 1 :]]
    return draw(VALUE)


@cache
def made() -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Events, and the records of a table log."""
    found = simulate(2, [TableSpec(name="t", format_version=3, mode="merge-on-read")], ops=25, unknown=0.1)
    events = [e.to_json() for e in found.history.events]
    for n, e in enumerate(events):
        more = [{}, {}, {"phase": "fill"}, {"engine": "duckdb"}, {"attempts": []}, {"error": [["A", "b"]]}][n % 6]
        e.update(more)
    return events, [*tablelog_file.records(found.logs["t"])]


def said(read: Callable[[], object]) -> tuple[bool, str]:
    """What it returns, or the words of its error."""
    try:
        return True, repr(read())
    except ValueError as e:
        return False, f"{type(e).__name__}: {e}"


@st.composite
def an_event(draw: st.DrawFn) -> bytes:
    e = draw(st.sampled_from(made()[0]))
    return json.dumps(damaged(draw, e) if draw(st.integers(0, 3)) else e).encode()


@given(an_event())
@settings(max_examples=400)
def test_an_event_is_what_its_record_says(line: bytes) -> None:
    def sorted_keys(e: history.Event) -> history.Event:
        return replace(e, extra=dict(sorted(e.extra.items())))

    assert said(lambda: sorted_keys(history.event_of(line))) == said(lambda: sorted_keys(history._event(decoded(line))))


@st.composite
def a_log(draw: st.DrawFn) -> tuple[int, bytes]:
    """A table log with one damaged line, and which."""
    told = [*made()[1]]
    n = draw(st.integers(0, len(told) - 1))
    told[n] = damaged(draw, told[n])
    return n, b"".join(json.dumps(r).encode() + b"\n" for r in told)


@given(a_log())
@settings(max_examples=300)
def test_a_table_log_is_what_its_records_say(log: tuple[int, bytes]) -> None:
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "t.jsonl"
        path.write_bytes(log[1])
        found = said(lambda: tablelog_file.read(path))
        with pytest.MonkeyPatch.context() as m:
            m.setattr(tablelog_file.LogLines, "record", lambda self, line: self.explained(decoded(line)))
            assert found == said(lambda: tablelog_file.read(path)), log[0]


def test_most_lines_of_a_run_are_of_the_usual_form() -> None:
    events, records = made()
    lines = tablelog_file.LogLines()
    for r in records[1:]:
        assert lines.decoder.decode(tablelog_file.dump(r)) == lines.explained(r)
    for e in events:
        assert history._LINE.decode(json.dumps(e).encode()).event() == history.Event.from_json(e)


@st.composite
def a_request(draw: st.DrawFn) -> bytes:
    whole = json.loads(SWAP % (b"", b""))
    return json.dumps(damaged(draw, whole) if draw(st.booleans()) else whole).encode()


@given(a_request())
@settings(max_examples=400)
def test_a_request_is_what_its_record_says(line: bytes) -> None:
    logs = {"t": tablelog.TableLog("t", "c.t", "s3://w/t", (), (), (), (), True)}

    def by(read: Callable[[proxylog.ProxyLogFacts], None]) -> proxylog.Proxied:
        found = proxylog.ProxyLogFacts(logs)
        read(found)
        return found.done()

    usual = by(lambda f: f.look(line, plain=True))
    assert usual == by(lambda f: proxylog._unusual(line, f._swaps, f._changes, f._requests))


MEET = """
import sys, threading, types
from checkers.evidence.record import converted

sys.setswitchinterval(1e-6)
TEXT = '''
from msgspec import Struct
class Inner(Struct):
    a: str
    b: list[int]
class Outer(Struct):
    x: int
    inner: Inner
    more: dict[str, list[Inner]]
'''
inner = {"a": "a", "b": [1]}
for n in range(200):
    module = sys.modules[f"made{n}"] = types.ModuleType(f"made{n}")
    exec(TEXT, module.__dict__)
    barrier = threading.Barrier(4)
    def meet():
        barrier.wait()
        converted({"x": 1, "inner": inner, "more": {"k": [inner]}}, module.Outer, "a record")
    threads = [threading.Thread(target=meet) for _ in range(4)]
    for t in threads: t.start()
    for t in threads: t.join()
"""


def test_threads_may_meet_a_type_at_one_moment() -> None:
    """By ``msgspec.convert`` alone this ends the process by SIGSEGV, within a few rounds."""
    done = subprocess.run([sys.executable, "-c", MEET], cwd=ROOT, env=environment(), capture_output=True, timeout=120)
    assert done.returncode == 0, done.stderr
