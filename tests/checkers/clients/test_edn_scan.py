"""The scanner of Jepsen's own shape: what it reads is what the reader reads, whatever the text, its errors and their places among it."""

from __future__ import annotations

import string
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from checkers.clients.jepsen import from_edn, to_edn
from checkers.clients.models import judge
from checkers.clients.scan import Scanner
from checkers.evidence.history import HistoryError
from tests.support.simulator import simulate
from workloads.tables import TableSpec


def said(text: str, scan: bool) -> Any:
    """A history with the types of its numbers, or the error."""
    try:
        h = from_edn(text, "h.edn", scan=scan)
    except HistoryError as e:
        return str(e)
    return h.header, [repr(e) for e in h.events]


def assert_read_alike(text: str) -> None:
    assert said(text, True) == said(text, False)


NUMBERS = st.one_of(
    st.integers(-3, 120).map(str),
    st.integers(-(10**19), 10**19).map(str),
    st.sampled_from(
        ["-0", "01", "+1", "1N", "1.0", "1e5", "0x1F", "1/3", "9" * 18, "9" * 19, "9" * 25, "٣", "-", "--1"]
    ),
)
LISTS = st.lists(NUMBERS | st.sampled_from(["nil", "true", ":a", '"x"', "[1]", "#{}"]), max_size=5).map(
    lambda xs: f"[{' '.join(xs)}]"
)
PREFIXES = st.integers(0, 12).map(lambda n: f"[{' '.join(map(str, range(1, n + 1)))}]")
PLACES = st.sampled_from(["nil", "[]", "true", ":r", "{}", '"a]"', "\\]"]) | NUMBERS | LISTS | PREFIXES
MICROS = st.one_of(
    st.tuples(st.sampled_from(["append", "r", "w", "cas", "read", "r-1"]), st.integers(0, 2), PREFIXES | PLACES).map(
        lambda m: f"[:{m[0]} {m[1]} {m[2]}]"
    ),
    st.lists(PLACES | st.sampled_from([":r", ":append"]), max_size=4).map(lambda xs: f"[{' '.join(xs)}]"),
    PLACES,
)
VALUES = st.lists(MICROS, max_size=4).map(lambda ms: f"[{' '.join(ms)}]") | PLACES
FIELDS = st.fixed_dictionaries(
    {
        "type": st.sampled_from([":invoke", ":ok", ":invoke", ":ok", ":fail", ":info", ":done", '"ok"', "nil"]),
        "f": st.sampled_from([":txn", ":txn", ":read", ":start-partition", ":a/b", "txn"]),
        "value": VALUES,
        "process": st.sampled_from(["0", "1", "2", ":nemesis", "-1", '"w"', "007"]),
    },
    optional={
        "time": NUMBERS,
        "index": st.integers(0, 4).map(str) | NUMBERS,
        "error": st.sampled_from([":timeout", '["a" "b"]', "nil"]),
        "op": st.sampled_from(['"w0-1"', "1"]),
    },
)


@st.composite
def events(draw: st.DrawFn) -> str:
    """A map on one line or several, mostly as Jepsen writes it."""
    fields = list(draw(FIELDS).items())
    if draw(st.booleans()):
        fields = draw(st.permutations(fields))
    comma = draw(st.sampled_from([", ", ", ", ", ", ",", " ", ",\n "]))
    before, after = draw(st.sampled_from([("{", "}"), ("{", "}"), ("{", "}"), ("#op{", "}"), ("[{", "}]"), ("{", "")]))
    return before + comma.join(f":{k} {v}" for k, v in fields) + after


BETWEEN = st.sampled_from(["\n", "\n", "\n", "\n\n", " ", "", "\n; {:type :ok}\n", ",\n", "\r\n", "\n#_ 1 ", "\n#_ 1"])


@st.composite
def texts(draw: st.DrawFn) -> str:
    """A history."""
    out = draw(st.sampled_from(["", "", "", '; icequake {"format": 1}\n', "; hello\n", " "]))
    for event in draw(st.lists(events(), max_size=6)):
        out += event + draw(BETWEEN)
    return out


PAIR = "{:type :invoke, :f :txn, :value [[:r 1 nil]], :process 0}\n{:type :ok, :f :txn, :value %s, :process 0}\n"


@given(texts())
@example("{:type :invoke, :f :txn, :value [], :process 0}\n#_ 1")
@example("{:type :invoke, :f :txn, :value [], :process 0}{:type :ok, :f :txn, :value [], :process 0}")
def test_any_history_is_read_as_without_the_scanner(text: str) -> None:
    assert_read_alike(text)


@given(texts(), st.integers(0, 400), st.text(string.printable, max_size=3), st.integers(0, 4))
def test_any_damaged_history_is_read_as_without_the_scanner(text: str, at: int, put: str, cut: int) -> None:
    assert_read_alike(text[:at] + put + text[at + cut :])


@given(VALUES)
@example("[3 [:r 1 nil]]")
@example("[[:r 1 [1 2]] [:r 1 [1 2 3]] [:r 1 [1]] [:r 1 [1 20]] [:r 1 [1 2 30]] [:r 1 [1 2 -0]]]")
@example("[[:r 1 [1 2]]  [:r 1 [1]]]")
@example("[[:r 1 nil][:r 1 nil]]")
@example("[[:r 1 [12 3]] [:r 1 [1]] [:r 1 [12 ]]]")
@example("[[:append 1 1] ]")
@example("[ [:append 1 1]]")
@example("[[:r 1 [1 2 [3]]]]")
def test_any_value_is_read_as_without_the_scanner(value: str) -> None:
    assert_read_alike(PAIR % value)


def test_lists_of_one_history_are_lists_of_their_own() -> None:
    h = from_edn(PAIR % "[[:r 1 [1 2]] [:r 1 [1 2]] [:r 1 [1 2 3]] [:r 1 [1]]]")
    read = [m[2] for m in h.events[1].value]
    assert read == [[1, 2], [1, 2], [1, 2, 3], [1]] and len(set(map(id, read))) == 4


def test_what_jepsen_writes_needs_no_other_reader() -> None:
    text = (
        PAIR % "[[:r 1 [1 2]] [:append 2 -7]]"
        + "{:type :info, :f :kill, :value nil, :process :nemesis, :time 7, :index 2}\n"
    )
    found = list(Scanner(text).events(0))
    assert len(found) == 3 and found[-1].end == len(text) - 1 and found[-1].time == 7


@pytest.mark.parametrize("header", [True, False])
def test_a_history_of_icequake_is_read_as_without_the_scanner(header: bool) -> None:
    assert_read_alike(to_edn(simulate(3, [TableSpec(name="t")]).history, header=header))


@pytest.mark.parametrize("read, valid", [("[1 2]", True), ("[2 1]", False), ("[1 3]", False)])
def test_a_scanned_history_is_judged(read: str, valid: bool) -> None:
    text = ""
    for micro in ("[:append 1 1]", "[:append 1 2]", f"[:r 1 {read}]"):
        asked = micro if "append" in micro else "[:r 1 nil]"
        text += PAIR.replace("[:r 1 nil]", asked) % f"[{micro}]"
    assert judge(from_edn(text), "list-append").valid is valid
