"""What verdicts say, they say in the words of histories and of SQL: no value is written as Python writes it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from checkers.clients.jepsen import from_edn
from checkers.clients.models import judge
from checkers.evidence.evidence import Evidence
from checkers.judge.check import ALL
from checkers.selftest import ALL as MUTATIONS
from checkers.selftest import recorded
from checkers.selftest.world import World
from checkers.timeline import explain
from checkers.verdict import Verdict
from harness.cli.clienthistory import lines
from tests.support.simulator import ALTERING, Defects, simulate
from workloads.tables import TableSpec

PYTHON = re.compile(r"\b(?:None(?! of )|True|False)\b")
SPECS = [
    TableSpec(name="a", mode="merge-on-read", isolation="snapshot", partitions=2, seed_rows=4),
    TableSpec(name="b", format_version=3, partitioned=False, partitions=2, seed_rows=4),
]


def python_in(v: Verdict) -> list[str]:
    """Each text of a verdict in which a value of Python stands."""
    return [t for t in (*(a.explanation for a in v.anomalies), *v.notes) if PYTHON.search(t)]


def planted() -> Iterator[Evidence]:
    """Recorded runs with bugs that concern nulls in rows and operations with arguments that are true or false."""
    worlds = [World(recorded.load(name), Random(0)) for name in recorded.names()]
    for m in MUTATIONS:
        if m.name in ("column-nulled", "delete-lost-to-compaction", "compaction-resurrects-a-row"):
            found = (m.plant(w.with_rng(Random(m.name))) for w in worlds)
            yield next(bug.evidence for bug in found if bug is not None)


def test_no_verdict_on_a_table_has_a_value_of_python() -> None:
    defects = Defects(drop_rows=0.5, false_failure=0.3, stale_read=0.3)
    judged = [*planted(), simulate(3, SPECS, ops=40, mix=ALTERING, defects=defects).evidence()]
    assert len(judged) == 4
    verdicts = [c.check(e) for e in judged for c in ALL]
    assert sum(len(v.anomalies) for v in verdicts) > 10
    assert [t for v in verdicts for t in python_in(v)] == []


REGISTER = [("read", "nil", "nil"), ("write", "1", "1"), ("read", "nil", "nil")]
CAS = [("write", "true", "true"), ("cas", "[nil 3]", "[nil 3]")]
LISTS = [
    ("txn", "[[:append :x 1] [:r :y nil]]", "[[:append :x 1] [:r :y nil]]"),
    ("txn", "[[:r :x nil]]", "[[:r :x [1 nil]]]"),
]


@pytest.mark.parametrize(
    ("model", "operations", "said"),
    [
        ("register", REGISTER, "the value was nil from the start"),
        ("cas-register", CAS, "the cas from nil to 3 "),
        ("list-append", LISTS, "read key 'x' as [1, nil], but nobody ever appended nil to it"),
    ],
)
def test_no_verdict_on_a_clients_history_has_a_value_of_python(
    model: str, operations: list[tuple[str, str, str]], said: str
) -> None:
    events = [
        f"{{:type :{type}, :process {n}, :f :{f}, :value {value}}}"
        for n, (f, asked, answered) in enumerate(operations)
        for type, value in (("invoke", asked), ("ok", answered))
    ]
    v = judge(from_edn("\n".join(events)), model)
    assert v.valid is False and python_in(v) == []
    assert said in v.anomalies[0].explanation


def test_a_value_is_written_in_jepsens_words_and_a_rows_null_in_sqls() -> None:
    assert explain.value({"k": [None, True, 0, "x", (False,)]}) == '{"k": [null, true, 0, "x", [false]]}'
    assert explain.row((1, None, 0, "a", None)) == "(id 1, val NULL, cnt 0, log 'a', part NULL)"
    assert (
        explain.arguments({"all": True, "strategy": "sort", "n": [1, None]})
        == "with all = true, n = [1, null], strategy = sort"
    )


SKEW = """
{:type :invoke, :process 0, :f :txn, :value [[:append :x 1] [:r :y nil]]}
{:type :invoke, :process 1, :f :txn, :value [[:append :y 1] [:r :x nil]]}
{:type :ok, :process 0, :f :txn, :value [[:append :x 1] [:r :y []]]}
{:type :ok, :process 1, :f :txn, :value [[:append :y 1] [:r :x []]]}
{:type :invoke, :process 1, :f :txn, :value [[:r :x nil] [:r :y nil]]}
{:type :ok, :process 1, :f :txn, :value [[:r :x [1]] [:r :y [1]]]}
"""


def test_a_valid_history_is_never_said_to_be_not_even_something() -> None:
    path, history = Path("skew.edn"), from_edn(SKEW)
    valid = lines(path, judge(history, "list-append", "snapshot-isolation"))
    assert valid[0].endswith("Valid") and not any("not even" in line for line in valid)
    assert "  it satisfies strong-snapshot-isolation" in valid
    assert "  it does not satisfy repeatable-read, which snapshot-isolation does not require" in valid
    invalid = lines(path, judge(history, "list-append", "serializable"))
    assert "  not even repeatable-read" in invalid and "  consistent with strong-snapshot-isolation" in invalid


def test_a_value_of_any_length_is_cut_and_only_what_is_shown_is_worded() -> None:
    long = "x" * 11_000_000
    assert (
        explain.row((1, long, 0, "a", 1))
        == f"(id 1, val '{long[: explain.LONGEST_VALUE - 1]}…, cnt 0, log 'a', part 1)"
    )
    assert explain.arguments({"a": long}) == f"with a = {long[: explain.LONGEST_VALUE]}…"
    worded: list[int] = []

    def word(n: int) -> str:
        worded.append(n)
        return str(n)

    assert explain.listing(range(100_000), word=word) == "0, 1, 2, 3 and 99996 more" and worded == [0, 1, 2, 3]
