"""Two parsers read the lines of a run: the faster one only what both read alike."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from checkers.evidence import proxylog, tablelog
from checkers.evidence.record import RecordError, decoded
from checkers.timeline.timeline import timelines
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
