"""Linearizability of general histories: against an oracle on all small ones, on drawn ones from the literature, and within its limits."""

from __future__ import annotations

import tracemalloc
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checkers.clients.history_files import from_log
from checkers.clients.jepsen import from_edn
from checkers.evidence.history import History
from checkers.evidence.replace import replace
from checkers.linearizable import MODELS, Limits, UnfitHistory, check_model
from checkers.linearizable.models import Counter
from tests.support.amount import many
from tests.support.linear_orders import KINDS, Op, drawn, every, has_order, history, spans


def valid(model: str, ops: list[Op], **options: Any) -> Any:
    return check_model(history(ops), model, keyed=False, **options).valid


# --- against the oracle -----------------------------------------------------------------------------------------------

W, R = "write", "read"
ALL = [(W, 1, None, True), (W, 2, None, True), (W, 1, None, False), (W, 2, None, False)]
ALL += [(R, None, None, True), (R, None, 1, True), (R, None, 2, True)]


@pytest.mark.slow
@pytest.mark.parametrize("n", [1, 2, 3])
def test_every_register_history_of_up_to_three_operations(n: int) -> None:
    said = [(valid("register", ops), has_order("register", ops)) for ops in every(n, ALL)]
    assert all(a is b for a, b in said)
    assert {(True, True), (False, False)} <= set(said)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "choices"),
    [
        ("register", [(W, 1, None, True), (W, 2, None, False), (R, None, 1, True), (R, None, 2, True)]),
        ("counter", [("add", 1, None, True), ("add", 1, None, False), (R, None, 0, True), (R, None, 1, True)]),
        ("set", [("add", 1, None, True), ("add", 2, None, False), (R, None, [1], True), (R, None, [1, 2], True)]),
        ("append-list", [("append", 1, None, True), ("append", 2, None, True), (R, None, [1], True), (R, None, [2, 1], True)]),
    ],
)  # fmt: skip
def test_every_history_of_four_operations_of_four_kinds(model: str, choices: list[Any]) -> None:
    wrong = [ops for ops in every(4, choices) if valid(model, ops) is not has_order(model, ops)]
    assert len(list(spans(4))) == 105
    assert not wrong


@pytest.mark.slow
@pytest.mark.parametrize("model", KINDS)
def test_thousands_of_histories_of_up_to_six_operations(model: str) -> None:
    """The quick algorithms, and the search alone, say what the oracle says; and name the first answer that has no explanation."""
    count = {True: 0, False: 0}
    for seed in range(many(4_000)):
        ops = drawn(model, Random(f"{model}/{seed}"))
        h, expected = history(ops), has_order(model, ops)
        count[expected] += 1
        best = check_model(h, model, keyed=False)
        assert best.valid is expected, (seed, ops)
        assert check_model(h, model, keyed=False, algorithm="search").valid is expected, (seed, ops)
        if not expected:
            assert failing_is_first(model, ops, h, best), (seed, ops)
    assert min(count.values()) > 800


def failing_is_first(model: str, ops: list[Op], h: History, result: Any) -> bool:
    """What was answered before the failing operation's answer has an order, and with that answer none; by the oracle."""
    (worst, *_) = sorted(result.failures, key=lambda k: k.failing_index)
    at = worst.failing_index
    moment = {o.indices[-1]: int(o.op[1:]) for o in h.operations()}
    end = ops[moment[at]].end
    assert end is not None and worst.failing == f"o{moment[at]}"

    def upto(last: int) -> list[Op]:
        return [
            o if o.end is not None and o.end <= last else o._replace(end=None, result=None)
            for o in ops
            if o.start <= last and not (o.f == "read" and (o.end is None or o.end > last))
        ]

    if model == "multi-register":  # what a transaction will have read binds its writes before it is answered
        return not has_order(model, [o for o in ops if o.start <= end])
    if worst.algorithm == "bounds":  # which do not see everything
        return not has_order(model, upto(end))
    return not has_order(model, upto(end)) and has_order(model, upto(end - 1))


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(sorted(KINDS)), st.integers(0, 2**32), st.integers(1, 6))
def test_the_oracle_agrees_on_what_hypothesis_draws(model: str, seed: int, most: int) -> None:
    ops = drawn(model, Random(seed), most=most)
    assert valid(model, ops) is has_order(model, ops)


@pytest.mark.slow
@pytest.mark.parametrize("model", KINDS)
def test_a_real_objects_history_is_valid_and_its_planted_bug_is_found(model: str) -> None:
    """A valid history stays valid; one read changed so that the oracle finds no order is found; both ways, 300 times each."""
    good = bad = 0
    for seed in range(10_000):
        rng = Random(f"planted/{model}/{seed}")
        ops = drawn(model, rng)
        if not has_order(model, ops):
            continue
        reads = [n for n, o in enumerate(ops) if o.f == "read" and o.end is not None]
        if not reads:
            continue
        n = rng.choice(reads)
        changed = [*ops[:n], ops[n]._replace(result=KINDS[model].made_up(rng)), *ops[n + 1 :]]
        assert valid(model, ops) is True
        good += 1
        if not has_order(model, changed):
            assert valid(model, changed) is False
            bad += 1
        if bad >= 300:
            break
    assert model == "multi-register" or (good >= 300 and bad >= 300)


def test_failed_operations_never_took_effect() -> None:
    write, read = Op(W, 1, None, 0, 1), Op(R, None, 1, 2, 3)
    assert check_model(history([write, read]), "register").valid is True
    assert check_model(history([read], failed=[write]), "register").valid is False
    assert check_model(history([read], failed=[write]), "register").keys[0].algorithm == "zones"


# --- drawn ------------------------------------------------------------------------------------------------------------


def w(v: int, start: int, end: int | None) -> Op:
    return Op(W, v, None, start, end)


def r(v: int | None, start: int, end: int) -> Op:
    return Op(R, None, v, start, end)


DRAWN: dict[str, tuple[bool, list[Op]]] = {
    # Herlihy and Wing 1990, figure 2 by idea: what overlaps may be in either order, and what does not may not.
    "overlapping writes, read in either order": (True, [w(0, 0, 10), w(1, 1, 9), r(1, 11, 12), r(1, 13, 14)]),
    "a read between two overlapping writes": (True, [w(0, 0, 10), w(1, 1, 20), r(0, 11, 12), r(1, 13, 14)]),
    "a value comes back": (False, [w(0, 0, 10), w(1, 1, 20), r(1, 11, 12), r(0, 13, 14)]),
    "a stale read": (False, [w(0, 0, 1), w(1, 2, 3), r(0, 4, 5)]),
    "a read from the future": (False, [r(1, 0, 1), w(1, 2, 3)]),
    "a value that nobody wrote": (False, [w(1, 0, 1), r(7, 2, 3)]),
    "the first value": (True, [r(None, 0, 3), w(1, 1, 2), r(1, 4, 5)]),
    "the first value after a write": (False, [w(1, 0, 1), r(None, 2, 3)]),
    "new then old, while the write is under way": (False, [w(1, 0, 20), r(1, 1, 2), r(None, 3, 4)]),
    # Knossos' readme by idea: a crashed write may take effect much later.
    "a crashed write is read late": (True, [w(1, 0, None), w(2, 1, 2), r(2, 3, 4), r(1, 5, 6)]),
    "a crashed write is read twice, with another between": (
        False,
        [w(1, 0, None), w(2, 1, 2), r(1, 3, 4), r(2, 5, 6), r(1, 7, 8)],
    ),
    "a crashed write is read before its start": (False, [r(1, 0, 1), w(1, 2, None)]),
    "a crashed write never happens": (True, [w(1, 0, None), r(None, 1, 2), w(2, 3, 4), r(2, 5, 6)]),
    # Gibbons and Korach 1997: two forward zones that overlap; a backward zone in a forward one, and one that sticks out.
    "forward zones overlap": (False, [w(1, 0, 3), w(2, 1, 5), r(2, 6, 9), r(1, 7, 8)]),
    "forward zones one after the other": (True, [w(1, 0, 1), r(1, 2, 5), w(2, 3, 4), r(2, 6, 7)]),
    "a backward zone within a forward one": (False, [w(1, 0, 1), w(2, 2, 5), r(2, 3, 4), r(1, 6, 7)]),
    "a backward zone that sticks out": (True, [w(2, 0, 8), w(1, 1, 2), r(2, 3, 9), r(1, 4, 5)]),
}


@pytest.mark.parametrize("algorithm", ["best", "search"])
@pytest.mark.parametrize("name", DRAWN)
def test_registers_of_the_literature(name: str, algorithm: str) -> None:
    expected, ops = DRAWN[name]
    assert has_order("register", ops) is expected
    assert valid("register", ops, algorithm=algorithm) is expected


def test_a_failure_says_which_operations_contradict_each_other() -> None:
    (key,) = check_model(history(DRAWN["a backward zone within a forward one"][1]), "register").keys
    assert key.failing == "o3" and key.answered == 3 and key.of == 4
    assert set(key.involved) == {"o0", "o1", "o2", "o3"}
    assert "the value was 1 since the write 1 (o0, process 0" in key.explanation
    assert "took effect with the value 2 within that time" in key.explanation
    assert "the state is then 2" in key.explanation
    assert {c.state for c in key.configurations} == {"2"} and key.configurations[0].order == ("o0", "o1", "o2")


def test_a_search_that_fails_shows_how_things_can_have_stood() -> None:
    ops = [Op("add", 1, None, 0, 9), Op("add", 2, None, 1, 10), r(4, 2, 8)]  # type: ignore[arg-type]
    (key,) = check_model(history(ops), "counter", algorithm="search").keys
    assert key.failing == "o2" and key.answered == 0
    assert set(key.configurations[0].pending) == {"o0", "o1", "o2"}
    assert "None of the operations under way (add 1 (o0), add 2 (o1)) leads to that answer" in key.explanation


def test_keys_are_judged_one_by_one() -> None:
    ops = [
        Op(W, [k, 1], None, 10 * i, 10 * i + 1) for i, k in enumerate("ab")
    ] + [Op(R, ["a", None], ["a", 1], 50, 51), Op(R, ["b", None], ["b", None], 52, 53)]  # fmt: skip
    result = check_model(history(ops), "register")
    assert [(k.key, k.valid) for k in result.keys] == [("a", True), ("b", False)]
    assert result.valid is False and [k.failing for k in result.failures] == ["o3"]
    assert result.stats == {"keys": 2, "operations": 4, "algorithms": {"zones": 2}}


def test_only_reads_have_to_say_what_they_returned() -> None:
    write, read = Op(W, ["a", 1], None, 0, 1), Op(R, ["a", None], ["a", 1], 2, 3)
    ok = [replace(e, value=None) if e.type == "ok" and e.f == W else e for e in history([write, read]).events]
    assert check_model(History({"format": 1}, tuple(ok)), "register").valid is True
    with pytest.raises(
        UnfitHistory, match="o0: expected a result of the form \\[key, value\\] with the key 'a', found 7"
    ):
        check_model(history([read._replace(result=7)]), "register", keyed=True)
    with pytest.raises(UnfitHistory, match="o0: expected a value of the form \\[key, value\\], found 1"):
        check_model(history([write._replace(value=1)]), "register", keyed=True)


def test_transactions_that_share_no_key_are_independent() -> None:
    one = [["w", "x", 1], ["w", "y", 2]]
    ops = [Op("txn", one, one, 0, 1), Op("txn", [["w", "z", 1]], [["w", "z", 1]], 2, 3)]
    ops.append(Op("txn", [["r", "y", None]], [["r", "y", 1]], 4, 5))
    result = check_model(history(ops), "multi-register")
    assert sorted(k.operations for k in result.keys) == [1, 2] and result.valid is False


def test_a_jepsen_history_is_judged() -> None:
    text = """
        {:process 0 :type :invoke :f :write :value [:x 3]} {:process 0 :type :ok :f :write :value [:x 3]}
        {:process 1 :type :invoke :f :cas :value [:x [3 4]]} {:process 2 :type :invoke :f :read :value [:x nil]}
        {:process 1 :type :info :f :cas :value [:x [3 4]] :error :timeout}
        {:process :nemesis :type :info :f :start :value nil}
        {:process 2 :type :ok :f :read :value [:x %s]}"""
    assert check_model(from_edn(text % "4"), "cas-register").valid is True
    assert check_model(from_edn(text % "3"), "cas-register").valid is True
    result = check_model(from_edn(text % "5"), "cas-register")
    assert result.valid is False and result.keys[0].failing == "2-0"


def test_a_log_is_judged() -> None:
    log = """\
INFO  jepsen.util - 0\t:invoke\t:write\t2
INFO  jepsen.util - 0\t:ok\t:write\t2
INFO  jepsen.util - 3\t:invoke\t:cas\t[2 4]
INFO  jepsen.util - 3\t:info\t:cas\t:timed-out
INFO  jepsen.util - 1\t:invoke\t:read\tnil
INFO  jepsen.util - 1\t:ok\t:read\t%s
"""
    assert [check_model(from_log(log % v), "cas-register").valid for v in (2, 4, 3)] == [True, True, False]


# --- values and models ------------------------------------------------------------------------------------------------


def test_true_1_and_1_0_are_different_values() -> None:
    for written, read in ((1, True), (1, 1.0), (True, 1), ([1], [True]), ({"a": 1}, {"a": 2})):
        assert valid("register", [Op(W, written, None, 0, 1), Op(R, None, read, 2, 3)]) is False
        assert valid("register", [Op(W, written, None, 0, 1), Op(R, None, written, 2, 3)]) is True


def test_a_set_read_with_an_element_twice_is_none() -> None:
    assert valid("set", [Op("add", 1, None, 0, 1), Op(R, None, [1, 1], 2, 3)]) is False


def test_a_model_may_begin_elsewhere() -> None:
    assert check_model(history([Op(R, None, 5, 0, 1)]), Counter(5)).valid is True


@pytest.mark.parametrize(
    ("model", "ops", "message"),
    [
        ("queue", [], "model 'queue' is not known; there are: register, cas-register"),
        ("register", [Op("cas", [1, 2], None, 0, 1)], "o0: the model register has no operation 'cas'; it has: read, write"),
        ("cas-register", [Op("cas", 1, None, 0, 1)], "o0: expected a cas of \\[old, new\\], found 1"),
        ("counter", [Op("add", "x", None, 0, 1)], "o0: expected a whole number to add, found 'x'"),
        ("counter", [Op(R, None, None, 0, 1)], "o0: expected a whole number to read, found nil"),
        ("set", [Op(R, None, 3, 0, 1)], "o0: expected a read of a list, found 3"),
        ("multi-register", [Op("txn", [["inc", 1, 2]], [["inc", 1, 2]], 0, 1)], "o0: expected a micro-operation"),
    ],
)  # fmt: skip
def test_a_history_of_another_model_is_an_error(model: str, ops: list[Op], message: str) -> None:
    with pytest.raises(UnfitHistory, match=message):
        check_model(history(ops), model, keyed=False)


# --- limits -----------------------------------------------------------------------------------------------------------


def crowd(n: int) -> list[Op]:
    """``n`` additions of unknown outcome, all different and even, and a read of an odd sum: the search has to try every subset."""
    ops = [Op("add", 2 * 3**k, None, 2 * k, None) for k in range(n)]
    return [*ops, r(0, 998, 999), Op(R, None, 3**n // 2 * 2 - 1, 2000, 2001)]


@pytest.mark.parametrize("limits", [Limits(steps=2000), Limits(configurations=500)])
def test_beyond_its_limits_a_search_is_unknown_and_says_how_far_it_got(limits: Limits) -> None:
    result = check_model(history(crowd(40)), "counter", limits=limits)
    (key,) = result.keys
    assert result.valid == "unknown" and result.undecided == (key,)
    assert (key.answered, key.of) == (1, 2)
    assert "the order that got furthest explains 1 of 2 answers" in key.explanation
    assert check_model(history(crowd(40)), "counter", limits=limits) == result


def test_all_keys_together_are_bounded_too() -> None:
    """Ten keys that could take 5,000 steps each, and 12,000 for all: the last ones get the least that every key gets."""
    ops = []
    for k in range(10):
        ops += [
            o._replace(
                value=[k, o.value],
                result=None if o.f == "add" else [k, o.result],
                start=10_000 * k + o.start,
                end=None if o.end is None else 10_000 * k + o.end,
            )
            for o in crowd(20)
        ]
    result = check_model(history(ops), "counter", limits=Limits(steps=5000, total=12_000))
    steps = [int(k.explanation.split(" after ")[1].split(" ")[0]) for k in result.keys]
    assert result.valid == "unknown" and len(steps) == 10
    assert sum(steps) < 12_000 + 10 * 1100 and max(steps) < 5100 and steps[-1] < 1100


def test_memory_is_bounded() -> None:
    """A search that would need millions of configurations, given 5,000 of them, takes a few MB."""
    h = history(crowd(40))
    tracemalloc.start()
    try:
        assert check_model(h, "counter", limits=Limits(configurations=5000)).valid == "unknown"
        assert tracemalloc.get_traced_memory()[1] < 10e6
    finally:
        tracemalloc.stop()


def test_a_crowd_of_clients_is_unknown_not_endless() -> None:
    """Two thousand clients at once: what is under way at every answer is more than the limit allows to be noted."""
    n = 2000
    ops = [Op("cas", [k % 3, (k + 1) % 3], None, k, n + k) for k in range(n)]
    assert check_model(history(ops), "cas-register", limits=Limits(configurations=1000)).valid == "unknown"


def test_a_long_history_needs_little_memory() -> None:
    """What cannot come up again is forgotten: 20,000 operations on one key with room for 200 configurations."""
    rng, state = Random(1), 0
    ops: list[Op] = []
    for n in range(20_000):
        new = rng.randrange(5)
        kind = rng.randrange(3)
        a, b = 4 * n, 4 * n + (3 if kind else 5)  # some reach into the next
        if kind == 0:
            ops.append(Op(R, None, state if n else None, a, b))
        elif kind == 1 and n:
            ops.append(Op("cas", [state, new], None, a, b))
            state = new
        else:
            ops.append(w(new, a, b))
            state = new
    result = check_model(history(ops), "cas-register", limits=Limits(configurations=200))
    assert result.valid is True and result.keys[0].answered == len(ops)


def test_all_models_have_a_name() -> None:
    assert set(MODELS) == set(KINDS) and all(m.name == name for name, m in MODELS.items())
