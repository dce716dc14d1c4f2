"""EDN and the histories of other tools: what is read, what is written, and how it is told that something is neither."""

from __future__ import annotations

import bz2
import gzip
import json
import math
import re
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from checkers.clients import edn, history_files, jepsen
from checkers.clients.edn import Char, EdnError, Keyword, List, Map, Set, Symbol, Tagged
from checkers.clients.history_files import from_log, load
from checkers.clients.jepsen import from_edn, to_edn
from checkers.clients.models import ModelError, judge
from checkers.clients.times import ns_of
from checkers.evidence import history
from checkers.evidence.history import Event, History, HistoryError
from harness.cli import clienthistory
from tests.support.simulator import simulate
from workloads.tables import TableSpec

K = Keyword


# --- EDN --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("nil", None),
        ("true", True),
        ("-12", -12),
        ("+3", 3),
        ("0x1F", 31),
        ("7N", 7),
        ("1.5", 1.5),
        ("1e3", 1000.0),
        ("-2.", -2.0),
        ("1.50M", Decimal("1.50")),
        ("2/4", Fraction(1, 2)),
        ("##-Inf", -math.inf),
        (r'"a\"\\\n\u00e9\101"', 'a"\\\né' + "A"),
        (r'"\ud83d\ude00"', "\U0001f600"),
        ('"two\nlines"', "two\nlines"),
        (r"\a", Char("a")),
        (r"\newline", Char("\n")),
        (r"\u0041", Char("A")),
        (r"[\( \a]", (Char("("), Char("a"))),
        (":a/b.c", K("a/b.c")),
        ("clojure.core/+", Symbol("clojure.core/+")),
        ("-", Symbol("-")),
        ("[]", ()),
        ("[1, 2,,3]", (1, 2, 3)),
        ("(1 (2))", List((1, List((2,))))),
        ("#{1 :a}", Set((1, K("a")))),
        ("{:a 1 [2] nil}", Map(((K("a"), 1), ((2,), None)))),
        ("#{1 1.0 true}", Set((1, 1.0, True))),
        ("#:x{:a 1 :_/b 2 :y/c 3}", Map(((K("x/a"), 1), (K("b"), 2), (K("y/c"), 3)))),
        ('#inst "2026-01-01"', Tagged("inst", "2026-01-01")),
        ("#jepsen.history.Op{:index 0}", Tagged("jepsen.history.Op", Map(((K("index"), 0),)))),
        ("#a #b 1", Tagged("a", Tagged("b", 1))),
        ("[1 #_ 2 #_ #_ 3 4 5]", (1, 5)),
        ("^{:doc 1} [1]", (1,)),
        ("[1 ; two ]\n 3]", (1, 3)),
        ("\ufeff1".lstrip("\ufeff"), 1),
    ],
)
def test_a_text_is_read(text: str, value: Any) -> None:
    found = edn.read(text)
    assert found == value and type(found) is type(value)
    assert edn.read(edn.write(found)) == found


def test_not_a_number_is_one() -> None:
    assert math.isnan(edn.read("##NaN")) and edn.write(math.nan) == "##NaN"


def test_what_python_has_is_written() -> None:
    assert edn.write({"a": [1, {K("b"): None}]}) == '{"a" [1 {:b nil}]}'


@pytest.mark.parametrize(
    ("text", "place", "says"),
    [
        ("", "1:1", "expected one form, found none"),
        ("1\n 2", "2:2", "expected one form, found another"),
        ("[1 2", "1:1", "[ is never finished"),
        ("{:a 1\n :b [}", "2:6", "expected ] to close [, found }"),
        (")", "1:1", ") closes nothing"),
        ("{:a}", "1:2", "a key without a value"),
        ("{:a 1 :b 2 :a 3}", "1:12", "key ':a' is there twice"),
        ("#{[1] [1]}", "1:7", "element '[1]' is there twice"),
        ('["abc]', "1:2", "a string is never finished"),
        (r'"\q"', "1:2", "no escape"),
        (r'"\ud800"', "1:1", "surrogate"),
        (r"\spaceship", "1:1", "expected a character"),
        ("[#_]", "1:4", "expected a form after #_, found ]"),
        ("#inst", "1:1", "#inst is never finished"),
        ("#(inc %)", "1:1", "expected a tag"),
        ("::a", "1:1", "expected a keyword"),
        (":", "1:1", "expected a keyword"),
        ("007", "1:1", "expected a number"),
        ("1a", "1:1", "expected a number"),
        ("1/0", "1:1", "divides by zero"),
        ("##Infinity", "1:1", "expected ##Inf"),
        ("@x", "1:1", "expected a form, found '@'"),
        ("[" * 100_000, "1:129", "nested more than 128 deep"),
        ("#_ " * 100_000, "1:385", "nested more than 128 deep"),
        ("#a " * 100_000, "1:385", "nested more than 128 deep"),
        ("9" * 5000, "1:1", "a number of 5000 characters"),
        ("1e99999999", "1:1", "expected a number"),
        ('"' + "a" * 100_000, "1:1", "never finished"),
        (";" * 100_000, "1:100001", "found none"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(text: str, place: str, says: str) -> None:
    with pytest.raises(EdnError) as e:
        edn.read(text, "h.edn")
    assert str(e.value).startswith(f"h.edn:{place}: "), e.value
    assert says in str(e.value)
    assert len(str(e.value)) < 200


@pytest.mark.parametrize(
    "value",
    [object(), Keyword("a b"), Symbol("nil"), Symbol("1"), Tagged("1", 2), 10**5000, Char("ab"), Decimal("NaN")],
    ids=lambda v: type(v).__name__,
)
def test_what_edn_cannot_say_is_refused(value: Any) -> None:
    with pytest.raises(EdnError, match="EDN cannot say"):
        edn.write(value)


def test_what_is_too_deep_to_be_read_is_not_written() -> None:
    deep: Any = ()
    for _ in range(500):
        deep = (deep,)
    with pytest.raises(EdnError, match="nested more"):
        edn.write(deep)


NAMES = st.from_regex(r"[a-z*!?][a-z0-9./*+!?-]{0,6}", fullmatch=True)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
ATOMS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False),
    st.decimals(allow_nan=False, allow_infinity=False),
    st.fractions(),
    TEXT,
    NAMES.map(Keyword),
    NAMES.filter(lambda n: n not in ("nil", "true", "false")).map(Symbol),
    st.characters(max_codepoint=0xFFFF, exclude_categories=["Cs"]).map(Char),
)


def distinct(items: Sequence[Any]) -> list[Any]:
    return list({edn.write(x): x for x in items}.values())


VALUES = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4).map(tuple),
        st.lists(inner, max_size=4).map(lambda x: List(tuple(x))),
        st.lists(inner, max_size=4).map(lambda x: Set(tuple(distinct(x)))),
        st.lists(inner, max_size=3).map(lambda x: Map(tuple((k, None) for k in distinct(x)))),
        st.builds(Tagged, st.from_regex(r"[a-z][a-z.]{0,5}", fullmatch=True), inner),
    ),
    max_leaves=12,
)


@given(VALUES)
@settings(max_examples=150, deadline=None)
def test_what_is_written_is_read_as_it_was(value: Any) -> None:
    text = edn.write(value)
    assert "\n" not in text
    back = edn.read(text)
    assert back == value and edn.write(back) == text


@given(st.text(st.sampled_from("[](){}#_^:\"\\;,/ \n0123456789.eENMabnrtux-+~@`'") | st.characters(), max_size=60))
@settings(max_examples=300, deadline=None)
def test_no_text_is_more_than_an_error(text: str) -> None:
    try:
        value = edn.read(text)
    except EdnError as e:
        assert str(e).startswith("<edn>:")
    else:
        assert edn.write(edn.read(edn.write(value))) == edn.write(value)


@given(VALUES, st.integers(0, 200), st.sampled_from(["", "]", "}", '"', "#", "\\"]))
@settings(max_examples=120, deadline=None)
def test_no_torn_text_is_more_than_an_error(value: Any, cut: int, put: str) -> None:
    text = edn.write(value)
    try:
        edn.read(text[:cut] + put)
    except EdnError as e:
        assert str(e).startswith("<edn>:1:")


# --- Jepsen histories -------------------------------------------------------------------------------------------------

LIST_APPEND = """\
{:index 0, :time 10, :type :invoke, :process 0, :f :txn, :value [[:append 1 2] [:r 1 nil]]}
{:index 1, :time 12, :type :invoke, :process :nemesis, :f :start-partition, :value :majority}
{:index 2, :time 20, :type :ok, :process 0, :f :txn, :value [[:append 1 2] [:r 1 [2]]]}
"""

EXAMPLES = {
    "register": (
        "[{:type :invoke, :process 0, :f :write, :value 3} {:type :ok, :process 0, :f :write, :value 3}]",
        [("invoke", 0, "write", 3), ("ok", 0, "write", 3)],
    ),
    "cas-register": (
        "{:type :invoke :process 1 :f :cas :value [1 2]}\n{:type :fail :process 1 :f :cas :value [1 2] :error :mismatch}",
        [("invoke", 1, "cas", [1, 2]), ("fail", 1, "cas", [1, 2])],
    ),
    "list-append": (
        LIST_APPEND,
        [
            ("invoke", 0, "txn", [["append", 1, 2], ["r", 1, None]]),
            ("invoke", "nemesis", "start-partition", "majority"),
            ("ok", 0, "txn", [["append", 1, 2], ["r", 1, [2]]]),
        ],
    ),
    "rw-register": (
        "{:type :invoke, :process 0, :f :txn, :value [[:w :x 1] [:r :y nil]]}",
        [("invoke", 0, "txn", [["w", "x", 1], ["r", "y", None]])],
    ),
    "bank": (
        "{:type :invoke :process 0 :f :transfer :value {:from 1 :to 2 :amount 5}}{:type :ok :process 0 :f :transfer :value {0 10 1 -2}}",
        [("invoke", 0, "transfer", {"from": 1, "to": 2, "amount": 5}), ("ok", 0, "transfer", {"0": 10, "1": -2})],
    ),
    "set": (
        "{:type :invoke :process 0 :f :read :value nil} {:type :ok :process 0 :f :read :value #{1 2 3}}",
        [("invoke", 0, "read", None), ("ok", 0, "read", [1, 2, 3])],
    ),
    "counter": (
        "{:type :invoke :process 0 :f :add :value 1} {:type :info :process 0 :f :add :value 1 :error [:timeout \"5 s\"]}",
        [("invoke", 0, "add", 1), ("info", 0, "add", 1)],
    ),
    "records": (
        "[#jepsen.history.Op{:index 0, :type :invoke, :process 0, :f :read, :value nil}]",
        [("invoke", 0, "read", None)],
    ),
    "odd numbers": (
        "{:type :invoke :process 0 :f :write :value [1/3 1.5M ##NaN \\a sym #uuid \"u\"]}",
        [("invoke", 0, "write", ["1/3", "1.5", "NaN", "a", "sym", "u"])],
    ),
    "elle's paper": (
        "{:index 0 :type :invoke :value [[:append 1 1]]}\n{:index 1 :type :ok :value [[:append 1 1]]}",
        [("invoke", 0, "txn", [["append", 1, 1]]), ("ok", 0, "txn", [["append", 1, 1]])],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", EXAMPLES)
def test_jepsen_histories_are_read(name: str) -> None:
    text, found = EXAMPLES[name]
    h = from_edn(text)
    assert [(e.type, e.process, e.f, e.value) for e in h.events] == found
    assert [e.index for e in h.events] == list(range(len(found)))
    assert all(e.op is not None for e in h.events if e.process != "nemesis")
    h.operations()
    assert [e.to_json() for e in from_edn(to_edn(h)).events] == [e.to_json() for e in h.events]


def test_errors_are_pairs_of_a_name_and_a_text() -> None:
    assert from_edn(EXAMPLES["cas-register"][0]).events[1].error == [["mismatch", ""]]
    assert from_edn(EXAMPLES["counter"][0]).events[1].error == [["timeout", "5 s"]]
    one = "{:type :invoke :process 0 :f :a} {:type :fail :process 0 :f :a :error %s}"
    assert from_edn(one % '"no"').events[1].error == [["error", "no"]]
    assert from_edn(one % "{:a 1}").events[1].error == [["error", "{:a 1}"]]


def test_times_and_indices_are_kept() -> None:
    h = from_edn("{:type :invoke :process 0 :f :a :time 17 :index 40}\n{:type :ok :process 0 :f :a :time 19 :index 44}")
    assert [(e.time, e.index, e.extra) for e in h.events] == [
        (17, 0, {"jepsen-index": 40}),
        (19, 1, {"jepsen-index": 44}),
    ]
    assert [e.time for e in from_edn("{:type :invoke :process 0 :f :a}{:type :ok :process 0 :f :a}").events] == [0, 1]


def test_completions_alone_are_concurrent_operations_of_processes_of_their_own() -> None:
    h = from_edn(
        "{:type :ok :value [[:r :x [1]]]}\n{:type :info :process 0 :value [[:append :x 1]]}\n{:type :ok :process 3 :value []}"
    )
    assert h.header[jepsen.CONCURRENT]
    assert [e.index for e in h.events] == [e.time for e in h.events] == list(range(6))
    assert [e.type for e in h.events] == ["invoke"] * 3 + ["ok", "info", "ok"]
    assert [(o.type, o.process, o.result) for o in h.operations()] == [
        ("ok", 0, [["r", "x", [1]]]),
        ("info", 1, [["append", "x", 1]]),
        ("ok", 2, []),
    ]
    again = from_edn(to_edn(h))
    assert again == h


def test_what_is_written_is_what_jepsen_reads() -> None:
    lines = to_edn(from_edn(LIST_APPEND)).splitlines()
    assert lines[0].startswith("; icequake {")
    assert (
        lines[1]
        == '{:index 0, :time 10, :type :invoke, :process 0, :f :txn, :value [[:append 1 2] [:r 1 nil]], :op "0-0"}'
    )
    assert ":process :nemesis, :f :start-partition" in lines[2]


@pytest.mark.parametrize(
    ("text", "place", "says"),
    [
        ("[1]", "1:1", "expected a map"),
        ("{:type :invoke :process 0 :f :a}\n  {:process 0 :f :a}", "2:3", "expected an event with :type"),
        ("[{:type :invoke :process 0 :f :a}\n {:type :done :process 0 :f :a}]", "2:2", "expected :type :invoke, :ok, :fail or :info, found"),
        ("{:type :invoke :process 1.5 :f :a}", "1:1", "expected :process"),
        ("{:type :invoke :process 0 :f 7}", "1:1", "expected :f"),
        ("{:type :invoke :process 0 :f :a :time 1.5}", "1:1", "expected :time"),
        ("{:type :invoke :process 0 :f :a :index -1N :op 7}", "1:1", "expected :op"),
        ("{:type :invoke :process 0 :f :a :value {1 2, \"1\" 3}}", "1:1", "the key '1' is there twice"),
        ("{:type :fail :process 0 :f :a}", "1:1", "expected an invoke of process 0 before its fail"),
        ("{:type :invoke :process 1 :f :a}\n{:type :ok :process 0 :f :a}", "2:1", "expected an invoke of process 0 before its ok"),
        ("{:type :invoke :process 0 :f :a}\n{:type :invoke :process 0 :f :a}", "2:1", "has not ended"),
        ("{:type :invoke :process 0 :f :a}{:type :info :process 0 :f :a}\n{:type :invoke :process 0 :f :a}", "2:1", "ended in info"),
        ("{1 2}", "1:1", "expected keywords as keys"),
        ("; icequake {\n", "1:12", "the header: the line is torn"),
        ('; icequake {"format": 9}\n', "1:12", "expected a header of format 1"),
        ('; icequake {"format": 1}\n{:index 1 :type :invoke :process 0 :f :a}', "2:1", "expected :index 0, found 1"),
        ("{:type :invoke, :process 0", "1:1", "never finished"),
        ("{:type :invoke :process 0 :f :a :value " + "[" * 1000, "1:167", "nested more than"),
    ],
)  # fmt: skip
def test_what_is_no_history_is_told_with_its_place(text: str, place: str, says: str) -> None:
    with pytest.raises(HistoryError) as e:
        from_edn(text, "h.edn")
    assert str(e.value).startswith(f"h.edn:{place}: "), e.value
    assert says in str(e.value)


LOG = """\
INFO  jepsen.core - Worker 0 starting
INFO  jepsen.util - 0\t:invoke\t:read\tnil
INFO  jepsen.util - 1\t:invoke\t:cas\t[1 4]
2026-01-01 10:00:00,123{GMT}\tINFO\t[jepsen worker 0] jepsen.util: 0\t:ok\t:read\t3
INFO  jepsen.util - 1 :info :cas :timed-out
INFO  jepsen.util - 6\t:invoke\t:write\t2
INFO  jepsen.util - 6\t:fail\t:write\t2\t[:refused "later"]
INFO  jepsen.util - :nemesis\t:info\t:start\t"cut off [n1]"
"""


def test_logs_are_read() -> None:
    h = from_log(LOG)
    assert [(e.process, e.type, e.f, e.value, e.error) for e in h.events] == [
        (0, "invoke", "read", None, None),
        (1, "invoke", "cas", [1, 4], None),
        (0, "ok", "read", 3, None),
        (1, "info", "cas", None, [["timed-out", ""]]),
        (6, "invoke", "write", 2, None),
        (6, "fail", "write", 2, [["refused", "later"]]),
        ("nemesis", "info", "start", "cut off [n1]", None),
    ]
    assert len(h.operations()) == 3


@pytest.mark.parametrize(
    ("text", "place", "says"),
    [
        ("nothing\nhere", "1:1", "expected lines such as"),
        ("INFO  jepsen.util - 0\t:invoke\t:read\t[1", "1:37", "[ is never finished"),
        ("INFO  x - hi\nINFO  jepsen.util - 0\t:ok\t:read\t1", "2:1", "expected an invoke"),
        ('INFO  jepsen.util - 0\t:invoke\t:read\t{1 2, "1" 3}', "1:31", "is there twice"),
    ],
)
def test_what_is_wrong_with_a_log_is_told_with_its_place(text: str, place: str, says: str) -> None:
    with pytest.raises(HistoryError) as e:
        from_log(text, "j.log")
    assert str(e.value).startswith(f"j.log:{place}: "), e.value
    assert says in str(e.value)


# --- our own ----------------------------------------------------------------------------------------------------------

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(TEXT | st.sampled_from(["0", "-7", "a", "a b", ":k"]), inner, max_size=3)
    ),
    max_leaves=8,
)
FIXED = {"index", "time", "type", "process", "f", "table", "value", "op", "error"}


@st.composite
def histories(draw: st.DrawFn) -> History:
    events: list[Event] = []
    for n in range(draw(st.integers(0, 4))):
        f = draw(st.sampled_from(["insert", "txn", "odd name", "read-key"]))
        extra = draw(st.dictionaries(TEXT.filter(lambda k: k not in FIXED), JSON, max_size=2))
        table = draw(st.none() | TEXT)
        events.append(
            Event(len(events), draw(st.integers(0, 2**62)), "invoke", n, f, table, draw(JSON), f"w{n}-é", None, extra)
        )
        if draw(st.booleans()):
            type = draw(st.sampled_from(["ok", "fail", "info"]))
            error = draw(st.none() | st.lists(st.tuples(TEXT, TEXT).map(list), min_size=1, max_size=2))
            events.append(
                Event(len(events), draw(st.integers(0, 2**62)), type, n, f, table, draw(JSON), f"w{n}-é", error)
            )
    events.append(Event(len(events), 0, "info", "nemesis", "heal", None, draw(JSON), None))
    return History(
        {"format": 1, **draw(st.dictionaries(TEXT.filter(lambda k: k != "format"), JSON, max_size=2))}, tuple(events)
    )


@given(histories())
@example(History({"format": 1}, (Event(0, 0, "info", "nemesis", "heal", None, {"0\n": 1, "a\n": 2, "\u0661": 3}),)))
@settings(max_examples=80, deadline=None)
def test_an_own_history_comes_back_from_edn_as_it_was(h: History) -> None:
    back = from_edn(to_edn(h))
    assert back.header == h.header
    assert [e.to_json() for e in back.events] == [e.to_json() for e in h.events]


@given(st.text(max_size=80) | st.binary(max_size=80).map(lambda b: b.decode("latin-1")))
@settings(max_examples=120, deadline=None)
def test_no_text_is_more_than_a_history_error(text: str) -> None:
    for read in (from_edn, from_log):
        try:
            read(text)
        except HistoryError:
            pass


@given(
    st.sampled_from([t for t, _ in EXAMPLES.values()]),
    st.integers(0, 250),
    st.sampled_from(["", "}", "]", ":", "1e999"]),
)
@settings(max_examples=120, deadline=None)
def test_no_torn_history_is_more_than_a_history_error(text: str, cut: int, put: str) -> None:
    try:
        from_edn(text[:cut] + put + text[cut + 3 :], "h")
    except HistoryError as e:
        assert str(e).startswith("h:")


def comes_back(h: History, path: Path) -> None:
    path.write_text(to_edn(h), encoding="utf-8")
    back = load(path)
    assert [e.to_json() for e in back.events] == [e.to_json() for e in h.events]
    assert [o.op for o in back.operations()] == [o.op for o in h.operations()]


def test_simulated_histories_come_back(tmp_path: Path) -> None:
    for seed in range(5):
        comes_back(simulate(seed, [TableSpec(name="t")]).history, tmp_path / "h.edn")


def test_recorded_histories_come_back(recorded_run: Path, tmp_path: Path) -> None:
    comes_back(history.read(recorded_run / "history.jsonl"), tmp_path / "h.edn")


def test_a_file_is_known_by_how_it_begins(tmp_path: Path) -> None:
    path = tmp_path / "history"
    own = '{"format":1}\n' + json.dumps(Event(0, 1, "invoke", 0, "read", "t", {}, "a").to_json()) + "\n"
    for text in (own, LIST_APPEND, f"[{LIST_APPEND}]", "; a comment\n" + LIST_APPEND, "\ufeff" + LIST_APPEND, LOG):
        path.write_text(text, encoding="utf-8")
        assert load(path).events
    for content, says in ((b"", "empty"), (b"\xff\xfe{", "not UTF-8"), (b"\x00", "not EDN, JSON or a log")):
        path.write_bytes(content)
        with pytest.raises(HistoryError, match=says):
            load(path)
    with pytest.raises(HistoryError, match="cannot be read"):
        load(tmp_path / "nothing")


PLAIN = """\
{"time": 10, "process": 0, "type": "invoke", "f": "txn", "value": [["append", "x", 1], ["r", "y", null]]}
{"time": 11, "process": 1, "type": "invoke", "f": "txn", "value": [["append", "y", 1], ["r", "x", null]]}
{"time": 12, "process": 0, "type": "ok", "f": "txn", "value": [["append", "x", 1], ["r", "y", []]]}
{"time": 13, "process": 1, "type": "ok", "f": "txn", "value": [["append", "y", 1], ["r", "x", []]]}
"""


def test_plain_json_lines_are_judged_as_the_same_history_in_edn(tmp_path: Path) -> None:
    (tmp_path / "plain.jsonl").write_text(PLAIN)
    told = load(tmp_path / "plain.jsonl")
    as_edn = from_edn(to_edn(told, header=False))
    assert told.events == as_edn.events and jepsen.GUESSED not in told.header
    assert judge(told, level="serializable") == judge(as_edn, level="serializable")
    assert [a.name for a in judge(told, level="serializable").anomalies] == ["G2-item"]


def test_what_json_lines_do_not_say_is_guessed_and_said() -> None:
    events = [json.loads(line) for line in PLAIN.splitlines()[::2]]
    bare = "\n".join(json.dumps({"type": e["type"], "value": e["value"]}) for e in events)
    told = history_files.from_json_lines(bare)
    assert [(e.process, e.f, e.time) for e in told.events] == [(0, "txn", 0), (0, "txn", 1)]
    assert judge(told).notes[:3] == tuple(history_files.GUESSES.values())
    alone = history_files.from_json_lines(bare.splitlines()[1])
    assert alone.header[jepsen.CONCURRENT] and judge(alone).valid is True


def test_a_key_that_is_called_otherwise_is_said_with_what_was_guessed() -> None:
    called = [json.loads(line) for line in PLAIN.splitlines()]
    for key, other in (
        ("process", "Process"),
        ("process", "client"),
        ("time", "timestamp"),
        ("time", "ts"),
        ("f", "F"),
        ("f", "op"),
    ):
        text = "\n".join(json.dumps({other if k == key else k: v for k, v in e.items()}) for e in called[::2][:1])
        notes = history_files.from_json_lines(text).header[jepsen.GUESSED]
        assert f'{history_files.GUESSES[key]}; "{other}" is not read: did you mean "{key}"?' in notes


@pytest.mark.parametrize(("key", "other"), [("value", "val"), ("value", "result"), ("type", "status"), ("type", "typ")])
def test_a_history_whose_events_lack_what_they_say_is_refused_and_not_valid(
    key: str, other: str, tmp_path: Path
) -> None:
    events = [json.loads(line) for line in PLAIN.splitlines()]
    file = tmp_path / "h.jsonl"
    file.write_text("\n".join(json.dumps({other if k == key else k: v for k, v in e.items()}) for e in events))
    with pytest.raises(HistoryError) as e:
        load(file)
    assert str(e.value).startswith(f"{file}:1: ") and f'"{other}" is not read: did you mean "{key}"?' in str(e.value)


@pytest.mark.parametrize(
    ("third", "says"),
    [
        ('{"type": "invoke", "f": "read"}', 'h:3: expected "process" here too, since others have it; name the client'),
        ('{"type": "invoke", "process": 1}', 'h:3: expected "f" here too, since others have it; name the function'),
        ('{"type": "ok", "process": 0}', None),
    ],
)
def test_what_some_events_say_is_not_guessed_of_others(third: str, says: str | None, tmp_path: Path) -> None:
    write = [f'{{"type": "{t}", "process": 0, "f": "write", "value": 1}}' for t in ("invoke", "ok")]
    file = tmp_path / "h"
    lines = "\n".join([*write[: 2 if says else 1], third])
    as_edn = re.sub(r'"(\w+)":', r":\1", re.sub(r': "(\w+)"', r": :\1", lines))
    for text in (lines, as_edn):
        file.write_text(text)
        if says is None:
            assert [o.f for o in load(file).operations()] == ["write"]
            continue
        with pytest.raises(HistoryError) as e:
            load(file)
        words = says if text is lines else re.sub(r'"(\w+)"', r":\1", says)
        assert re.sub(r"h:3:\d+", "h:3", str(e.value)).endswith(words)


def test_the_processes_of_completions_alone_are_said_to_be_none_of_the_file() -> None:
    lines = "\n".join(json.dumps({"type": "ok", "process": 7, "value": [["append", "x", n]]}) for n in (1, 2))
    notes = judge(history_files.from_json_lines(lines)).notes
    assert any("here the processes are numbered as the operations are, not as in the file" in n for n in notes)
    assert not any(
        "names its process" in n
        for n in judge(history_files.from_json_lines(lines.replace('"process": 7, ', ""))).notes
    )


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("nonsense", "h.jsonl:2: "),
        ('{"process": 0}', 'h.jsonl:2: expected an event with "type", found an object'),
        ('{"type": "done", "process": 0}', 'h.jsonl:2: expected "type" "invoke", "ok", "fail" or "info", found "done"'),
        ('{"type": "ok", "process": [7]}', 'h.jsonl:2: expected "process" to be a number or "nemesis", found a list'),
        ('{"type": "ok", "process": 7, "f": 1}', 'h.jsonl:2: expected "f" to be a name, found 1'),
        ('{"type": "ok", "process": 7}', "h.jsonl:2: expected an invoke of process 7"),
        (
            '{"type": "ok", "process": 0, "time": "2026-01-01T00:00:01"}',
            'h.jsonl:2: expected "time" to be a whole number of nanoseconds, found "2026-01-01T00:00:01"; '
            "a time in ISO form needs date, time and zone, such as 2026-11-28T09:30:00.123Z",
        ),
        (
            '{"type": "ok", "process": 0, "time": "2026-13-01T00:00:01Z"}',
            'found "2026-13-01T00:00:01Z"; it has the form of a time in ISO 8601, but there is no such date or time of day',
        ),
        (
            '{"type": "ok", "process": 0, "time": 1.5}',
            "found 1.5; if it counts seconds, write round(seconds * 1_000_000_000)",
        ),
        ('{"type": "ok", "process": 0, "time": "15"}', 'found "15"; write it without quotes'),
        ('{"type": "ok", "process": 0, "time": 9999999999999999999}', "; it must be below 9223372036854775808"),
        ('{"type": "ok", "process": 0},', "remove the comma at the end of each line"),
        ("nonsense", "; write each event as one object on a line of its own"),
        ('{"type": "ok", "process": 0, "process": 1}', 'h.jsonl:2: "process" is there twice in one object'),
        (
            '{"type": "ok", "process": 0, "value": {"a": 1, "b" : 2, "a" :3}}',
            'h.jsonl:2: "a" is there twice in one object',
        ),
        (
            '{"type": "ok", "process": 0, "value": {"a": 1, "\\u0061": 3}}',
            'h.jsonl:2: "a" is there twice in one object',
        ),
        ('{"type": "ok", "process": 7}', "a line is left out above, or this one is there twice"),
        ('{"type": "OK", "process": 0}', 'found "OK" (did you mean ok?)'),
        ('{"type": "ok", "process": 0', "in the middle of a value; finish that line or remove it"),
        (
            '{"type": "invoke", "process": 0}',
            "process 0 invokes, but its operation 0-0 has not ended: a process does one operation at a time; give each thread or "
            "connection a process number of its own, or, if the answer never came (a timeout), a new process number from here on",
        ),
    ],
)
def test_a_wrong_json_line_is_told_by_its_number(line: str, says: str) -> None:
    with pytest.raises(HistoryError, match=re.escape(says)):
        history_files.from_json_lines(PLAIN.splitlines()[0] + "\n" + line, "h.jsonl")


def test_a_json_array_is_the_same_history_as_its_lines(tmp_path: Path) -> None:
    file = tmp_path / "h.json"
    events = [json.loads(line) for line in PLAIN.splitlines()]
    for indent in (None, 2):
        file.write_text(json.dumps(events, indent=indent))
        assert history_files.load(file).events == history_files.from_json_lines(PLAIN).events
    for text, says in (
        (json.dumps([*events, {"type": "done"}]), f'event {len(events)} of the array: expected "type" "invoke", "ok"'),
        (json.dumps([*events, 7]), 'of the array: expected an object such as {"type": "invoke", '),
        (
            json.dumps(events)[:-1],
            f"h.json:1:{len(json.dumps(events))}: the array is cut off: no ] ends it; give an array",
        ),
        (json.dumps(events, indent=1)[:-40], "the array is cut off"),
        (json.dumps(events)[:-2] + ",}]", "h.json:1:"),
        (
            json.dumps([*events, events[0], events[0]], indent=1),
            f"h.json:{len(json.dumps([*events, 0], indent=1).splitlines()) - 1}: event ",
        ),
        (
            json.dumps([*events, events[0]], indent=1)[:-3] + ',\n "f": 1}]',
            f'event {len(events)} of the array: "f" is there twice',
        ),
        ('[{"type": "ok", "value": ' + "9" * 5000 + "}]", "h.json:1: no JSON that can be read"),
    ):
        file.write_text(text)
        with pytest.raises(HistoryError, match=re.escape(says)):
            history_files.load(file)


def test_what_edn_cannot_carry_is_told_by_its_event() -> None:
    deep: Any = []
    for _ in range(300):
        deep = [deep]
    with pytest.raises(HistoryError, match="event 0: nested more"):
        to_edn(History({"format": 1}, (Event(0, 0, "invoke", 0, "a", None, deep, "x"),)))


def test_a_packed_history_is_read_as_the_file_in_it(tmp_path: Path, recorded_run: Path) -> None:
    lines = b'{"type": "invoke", "process": 0, "f": "read", "value": null}\n{"type": "ok", "process": 0, "f": "read", "value": 3}\n'
    own = (recorded_run / "history.jsonl").read_bytes()
    for n, content in enumerate((lines, own)):
        plain, packed = tmp_path / f"{n}.jsonl", tmp_path / f"{n}.jsonl.gz"
        plain.write_bytes(content)
        packed.write_bytes(gzip.compress(content, mtime=0))
        assert history_files.load(packed) == history_files.load(plain)


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        ("2026-01-01T00:00:01Z", 1767225601_000000000),
        ("2026-01-01 01:00:01+01:00", 1767225601_000000000),
        ("2026-01-01T00:00:01.5Z", 1767225601_500000000),
        ("2026-01-01T00:00:01.123456789Z", 1767225601_123456789),
        ("1969-12-31T23:59:59.25Z", -750000000),
        ("2026-01-01T00:00:01", None),
        ("2026-01-01", None),
        ("2026-13-01T00:00:01Z", None),
    ],
)
def test_a_time_in_iso_form_is_a_moment_if_it_has_its_zone(text: str, ns: int | None) -> None:
    assert ns_of(text) == ns


def test_iso_times_order_events_whose_lines_are_not_in_order() -> None:
    at = {"invoke": "2026-01-01T01:00:01.000000001+01:00", "ok": "2026-01-01T00:00:01.000000002Z"}
    events = [json.dumps({"type": t, "process": 0, "f": "read", "value": 3, "time": at[t]}) for t in ("ok", "invoke")]
    assert [(e.type, e.time) for e in history_files.from_json_lines("\n".join(events)).events] == [
        ("invoke", 1767225601_000000001),
        ("ok", 1767225601_000000002),
    ]
    tagged = '{:type :invoke, :process 0, :f :read, :value nil, :time #inst "2026-01-01T00:00:01.5Z"}'
    assert jepsen.from_edn(tagged).events[0].time == 1767225601_500000000


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (bz2.compress(b"{}"), "h.log:1: the file is compressed; unpack it first, `bunzip2 -k "),
        (
            gzip.compress(b"{}" * 99, mtime=0)[:-9],
            "h.log: cannot be read: gzip cannot unpack it: Compressed file ended before the end-of-stream marker was reached; "
            "copy or pack it again, or judge what can be unpacked: gzip -dc < ",
        ),
        (b'{"all events": [{"type": "ok"}]}', "jq -c '.[\"all events\"][]' FILE"),
        (b'{"it\'s": [{"type": "ok"}]}', "jq -c '.[\"it'\"'\"'s\"][]' FILE"),
        (b'{"type": "invoke", "time": 5}\n{"type": "ok", "time": "2026-01-01T00:00:01Z"}', "h.log:2: its time is a number and others"),
        (b'{:type :invoke, :time 5}\n{:type :ok, :time #inst "2026-01-01T00:00:01Z"}', "h.log:2:1: its time is a number and others"),
        (b'{:type :invoke, :time 5, :f :read, :value nil}\n{:type :ok, :time "2026-01-01T00:00:01Z"}', "h.log:2:1: its time is a number"),
        (b'{:type :invoke, :time #inst "2026-01-01T00:00:01Z"}\n{:type :info, :process 0, :f :read, :value nil, :time 5}', "h.log:2:1: its"),
        ("{}".encode("utf-16"), "h.log:1: not UTF-8 text but UTF-16; convert it first: iconv -f UTF-16 -t UTF-8 "),
        (b'{"type": "ok"}\n\xff', "h.log:2: not UTF-8 text: byte 16 is no part of a character"),
        (b'{"type": "invoke", "process": 0\n{"type": "ok"}', "column 31, in the middle of a value; finish that line"),
        (b'{"n": 1, "history": [{"type": "ok"}]}', "h.log:1: the events are inside an object, under \"history\"; give them alone"),
        (b'{\n "type": "ok"}', "h.log:1: a JSON object goes over several lines; write each event on one line: jq -c ."),
        (b"{'type': 'ok'}", "h.log:1: names in single quotes, as Python prints a dict, are no JSON; write each event with json.dumps"),
        (b"[{'type': 'ok'}]", "h.log:1: names in single quotes"),
        (b"time,type\n1,ok", 'found "time,type"; expected events such as {"type": "invoke", '),
    ],
)  # fmt: skip
def test_a_file_of_another_kind_is_told_with_a_remedy(content: bytes, says: str, tmp_path: Path) -> None:
    file = tmp_path / "h.log"
    file.write_bytes(content)
    with pytest.raises(HistoryError, match=re.escape(says)):
        history_files.load(file)


def _json(*events: tuple[str, str, Any]) -> list[str]:
    return [json.dumps({"type": t, "process": 0, "f": f, "value": v}) for t, f, v in events]


ODD = _json(*((t, "txn", [[f, "x", 1]]) for f in ("append", "inc") for t in ("invoke", "ok")))


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("\n".join(ODD), 4),
        ("\n\n" + "\n\n".join(ODD), 9),
        ("\n".join(reversed([line[:-1] + f', "time": {n}}}' for n, line in enumerate(ODD)])), 1),
        ("[" + ",\n".join(ODD) + "]", 4),
        ("\n".join(ODD[1::2]), 2),
        ('{"format": 1}\n' + "".join(f'{line[:-1]}, "index": {n}, "time": {n}, "op": "{n // 2}"}}\n' for n, line in enumerate(ODD)), 5),
        ("{:type :invoke :f :txn :value [[:append 1 1]]}\n{:type :ok :f :txn :value [[:append 1 1]]}\n\n"
         "{:type :invoke :f :txn\n :value [[:inc 1 1]]}", 4),
        ("x\n0 :invoke :txn [[:append 1 1]]\n0 :ok :txn [[:append 1 1]]\n\n1 :invoke :txn [[:inc 1 1]]", 5),
    ],
    ids=["lines", "blank lines", "sorted", "array", "completions alone", "own", "edn", "log"],
)  # fmt: skip
def test_an_operation_that_its_model_does_not_know_is_told_by_its_line(text: str, line: int, tmp_path: Path) -> None:
    file = tmp_path / "h"
    file.write_text(text)
    with pytest.raises(HistoryError) as e:
        clienthistory.judged(file, None, None)
    assert str(e.value).startswith(f"{file}:{line}: expected [r KEY VALUE] or [append KEY VALUE], found ['inc', "), (
        e.value
    )


@pytest.mark.parametrize(
    ("events", "says"),
    [
        ([("invoke", "cas", 5)], ":1: expected a cas of [old, new], found 5"),
        ([("invoke", "cas", [1]), ("info", "cas", [1, 2])], ":1: expected a cas of [old, new], found [1]"),
        ([("invoke", "read", None), ("ok", "put", 5), ("invoke", "put", 5)], ":3: cannot determine the kind of history (put, read)"),
        ([("invoke", "transfer", None), ("ok", "transfer", None), ("invoke", "write", 1)], ":3: cannot determine the kind of history (tr"),
        ([("invoke", "txn", None)], ":1: cannot determine the kind of history (txn)"),
        ([("invoke", "txn", 5)], ":1: expected a transaction such as [[r 1 [2]]], found 5"),
        ([("invoke", "txn", [["x", 1, 2]])], ":1: expected a micro-operation [append KEY VALUE], [w KEY VALUE] or [r KEY VALUE], found"),
    ],
)  # fmt: skip
def test_what_fits_no_model_is_told_by_its_line(events: list[tuple[str, str, Any]], says: str, tmp_path: Path) -> None:
    file = tmp_path / "h"
    file.write_text("\n".join(_json(*events)))
    with pytest.raises((HistoryError, ModelError)) as e:
        clienthistory.judged(file, None, None)
    assert str(e.value).startswith(f"{file}{says}"), e.value
