"""The statistics of every verdict have the keys and the types that the checker declares, and no others."""

from __future__ import annotations

from random import Random
from types import UnionType
from typing import Any, Literal, TypedDict, Union, get_args, get_origin, get_type_hints, is_typeddict

import pytest

from checkers.clients.jepsen import from_edn
from checkers.clients.models import judge as judge_clients
from checkers.clients.stats import ClientStats
from checkers.columns import check_columns
from checkers.columns.engine import CHECKERS as SCREENED
from checkers.columns.engine import ColumnsStats, ColumnsTable
from checkers.commits import CommitsStats, CommitsTable
from checkers.evidence.evidence import Evidence
from checkers.judge.assertions import Assertions
from checkers.judge.check import ALL
from checkers.selftest import ALL as MUTATIONS
from checkers.selftest import OF_DELTA, recorded
from checkers.selftest.world import World
from checkers.verdict import Checker
from tests.support.simulator import ALTERING, simulate
from workloads.file.assertions import METRICS
from workloads.tables import TableSpec

SPECS = [
    TableSpec(name="a", mode="merge-on-read", isolation="snapshot", partitions=2, seed_rows=4),
    TableSpec(name="b", format_version=3, partitioned=False, partitions=2, seed_rows=4),
]
EVERY: tuple[Checker, ...] = (*ALL, Assertions({"operations": ">0"}))
BY_NAME = {c.name: c for c in EVERY}


def undeclared(value: Any, declared: Any, at: str = "stats") -> list[str]:
    """Every place of a JSON value that its type does not declare."""
    origin = get_origin(declared)
    if is_typeddict(declared):
        keys = get_type_hints(declared)
        if not isinstance(value, dict):
            return [f"{at}: {value!r} is no mapping"]
        unknown = [f"{at}.{k}: not a key of {declared.__name__}" for k in value if k not in keys]
        return unknown + [p for k in keys if k in value for p in undeclared(value[k], keys[k], f"{at}.{k}")]
    if origin in (Union, UnionType):
        each = [undeclared(value, form, at) for form in get_args(declared)]
        return [] if [] in each else each[0]
    if origin is Literal:
        return [] if value in get_args(declared) else [f"{at}: {value!r} is none of {get_args(declared)}"]
    if origin is dict and isinstance(value, dict):
        of_key, of_value = get_args(declared)
        keyed = [p for k in value for p in undeclared(k, of_key, f"{at}: key {k}")]
        return keyed + [p for k, v in value.items() for p in undeclared(v, of_value, f"{at}.{k}")]
    if origin is list and isinstance(value, list):
        return [p for v in value for p in undeclared(v, get_args(declared)[0], f"{at}[]")]
    form = origin or declared
    right = type(value) in (int, float) if form is float else type(value) is form
    return [] if right else [f"{at}: {value!r} is no {form.__name__}"]


def with_columns(name: str) -> Any:
    """What the verdict of a checker that columns stand in for counts: its own, or what is told of a table that the screen decided."""
    own = get_type_hints(BY_NAME[name].stats_type)
    of_table = get_args(own.pop("tables"))[1]
    engine = get_type_hints(ColumnsStats)["engine"]
    form = {**own, "tables": dict[str, of_table | ColumnsTable], "engine": engine}  # type: ignore[valid-type]
    return TypedDict(f"Columns_{name}", form)  # type: ignore[operator]


@pytest.fixture(scope="module")
def worlds() -> list[World]:
    return [World(recorded.load(name), Random(0)) for name in (*recorded.names(), *recorded.names(recorded.DELTA_RUNS))]


@pytest.fixture(scope="module")
def simulated() -> list[Evidence]:
    return [simulate(n, SPECS, ops=40, mix=ALTERING).evidence() for n in range(3)]


@pytest.mark.parametrize("checker", EVERY, ids=lambda c: c.name)
def test_a_checker_declares_all_that_it_counts_in_a_run(
    checker: Checker, simulated: list[Evidence], worlds: list[World]
) -> None:
    assert is_typeddict(checker.stats_type)
    for e in (*simulated, *(w.evidence for w in worlds)):
        stats = checker.check(e).stats
        assert stats and undeclared(stats, checker.stats_type) == []


def test_a_checker_declares_all_that_it_counts_in_a_run_with_a_planted_bug(worlds: list[World]) -> None:
    judged = set()
    for m in (*MUTATIONS, *(p for p in OF_DELTA if not p.neutral)):
        rng = Random(f"stats/{m.name}")
        bug = next((b for w in worlds if (b := m.plant(w.with_rng(rng))) is not None), None)
        if bug is None or m.checker not in BY_NAME:
            continue
        opinions = [c for c in ALL if c.second_opinion and m.checker == "replay"]
        for checker in (BY_NAME[m.checker], *opinions):
            assert undeclared(checker.check(bug.evidence).stats, checker.stats_type) == [], m.name
            judged.add(checker.name)
    assert judged == {c.name for c in ALL if c.names}


def test_what_columns_count_in_place_of_a_checker_is_declared(simulated: list[Evidence], worlds: list[World]) -> None:
    for e in (*simulated, *(w.evidence for w in worlds)):
        verdicts = check_columns(e)
        assert [v.checker for v in verdicts] == list(SCREENED)
        for v in verdicts:
            assert undeclared(v.stats, with_columns(v.checker)) == []


@pytest.mark.parametrize(
    ("f", "invoked", "result", "of_its_own"),
    [
        ("txn", "[[:append :x 1] [:r :y nil]]", "[[:append :x 1] [:r :y []]]", "dependencies"),
        ("read", "nil", "{0 10, 1 12}", "totals"),
        ("read", "nil", "1", "algorithms"),
    ],
)
def test_what_a_model_of_client_histories_counts_is_declared(
    f: str, invoked: str, result: str, of_its_own: str
) -> None:
    lines = [f"{{:type :{t}, :process 0, :f :{f}, :value {v}}}" for t, v in (("invoke", invoked), ("ok", result))]
    model = {"dependencies": "list-append", "totals": "bank", "algorithms": "register"}[of_its_own]
    stats = judge_clients(from_edn("\n".join(lines)), model).stats
    assert of_its_own in stats and undeclared(stats, ClientStats) == []


def test_the_metrics_that_may_be_asserted_are_those_that_are_declared() -> None:
    assert set(get_type_hints(BY_NAME["assert"].stats_type)) == set(METRICS)


def test_a_key_that_is_not_declared_and_a_value_of_another_type_are_noticed(simulated: list[Evidence]) -> None:
    stats = BY_NAME["commits"].check(simulated[0]).stats_as(CommitsStats)
    a = stats["tables"]["a"]
    more: dict[str, Any] = {"tables": {"a": {**a, "appended": 1}}, "resolutions": {}}
    assert undeclared(more, CommitsStats) == [f"stats.tables.a.appended: not a key of {CommitsTable.__name__}"]
    words: dict[str, Any] = {"tables": {"a": {**a, "lost": "none"}}, "resolutions": {"x": "gone"}}
    lost, gone = undeclared(words, CommitsStats)
    assert lost == "stats.tables.a.lost: 'none' is no int" and gone.startswith("stats.resolutions.x: 'gone' is none of")
