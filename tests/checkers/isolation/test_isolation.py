"""The isolation checker: drawn histories with their names and levels, against exhaustive search, on simulated and on real tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random

import pytest

from checkers.evidence.evidence import Evidence
from checkers.isolation import LEVELS, Isolation, Transaction, check_transactions, visibility
from checkers.isolation import levels as levels_module
from checkers.reads.checker import Reads
from checkers.replay.walk import Replay
from checkers.selftest import recorded
from tests.support.amount import many
from tests.support.drawing import Drawing, names, row, verdict
from tests.support.simulator import Defects, simulate
from tests.support.transactions import (
    draw,
    none,
    realtime,
    serializable,
    session,
    sloppy,
    snapshot_isolated,
    unread,
    visible,
)
from workloads.tables import Row, TableSpec

COLUMNS = (
    "read-uncommitted",
    "read-committed",
    "read-atomic",
    "causal",
    "snapshot-isolation",
    "serializable",
    "strong-session-serializable",
    "strict-serializable",
)
"""The levels of the table, in its order; 1 holds, 0 violated."""

# name: (lines, Elle's names, levels, what this checker says beside Elle's names)
DRAWN: dict[str, tuple[tuple[str, ...], set[str], str, set[str]]] = {
    "nothing wrong": (("0 0-1 ax1 ry", "0 2-3 rx1 ay1", "1 4-5 rx1 ry1"), set(), "11111111", set()),
    "write cycle": (("ax1 ay1", "ax2 ay2", "rx12 ry21"), {"G0"}, "00000000", set()),
    "aborted read": (("! ax1", "rx1"), {"G1a"}, "10000000", set()),
    "dirty update": (("! ax1", "ax2", "rx12"), {"G1a", "dirty-update"}, "10000000", set()),
    "intermediate read": (("ax1 ax2", "rx1", "rx12"), {"G1b"}, "10000000", set()),
    "circular information flow": (("ax1 ry1", "ay1 rx1"), {"G1c"}, "10000000", set()),
    "future read": (("rx1 ax1",), {"future-read"}, "10000000", set()),
    "incompatible order": (("ax1", "ax2", "rx12", "rx21"), {"incompatible-order"}, "10000000", set()),
    "vanished write": (("ax1", "ax2", "rx1", "rx2"), {"incompatible-order"}, "10000000", set()),
    "duplicate element": (("ax1", "rx11"), {"duplicate-elements"}, "00000000", set()),
    # Elle throws; a value out of thin air contradicts every level.
    "thin air": (("ax1", "rx19"), set(), "00000000", {"garbage-read"}),
    "own write missed": (("ax1", "ax2 rx1", "rx12"), {"internal"}, "11000000", set()),
    "non-repeatable read": (("ax1", "rx rx1"), {"internal"}, "11000000", set()),
    # Elle says 11110000 to these three: by [Bailis 2014] and [Biswas Enea 2019] read atomic and causal are violated.
    "read skew": (("ax1 ay1", "rx1 ry"), {"G-single"}, "11000000", {"fractured-read"}),
    "fractured read": (("ax1 ay1", "ax2 ay2", "rx12 ry1", "rx12 ry12"), {"G-single"}, "11000000", {"fractured-read"}),
    "causality": (("ax1", "rx1 ay1", "ry1 rx"), {"G-single"}, "11100000", {"causality"}),
    "lost update": (("rx ax1", "rx ax2", "rx12"), {"lost-update", "G-single"}, "11110000", set()),
    "long fork": (("ax1", "ay1", "rx1 ry", "rx ry1"), {"G-nonadjacent"}, "11110000", set()),
    "write skew": (("rx ay1", "ry ax1", "rx1 ry1"), {"G2-item"}, "11111000", set()),
    "three-way skew": (("rx ay1", "ry az1", "rz ax1"), {"G2-item"}, "11111000", set()),
    "read-only anomaly": (("0 0-1 ay1", "1 0-9 rx ry ax1", "2 2-3 rx ry1"), {"G2-item"}, "11111000", set()),
    "stale read": (("0 0-1 ax1", "1 2-3 rx"), {"G-single-realtime"}, "11111110", set()),
    "lost write": (
        ("0 0-1 ax1", "1 0-1 ax2", "1 2-3 rx1", "2 4-5 rx1"),
        {"G-single-realtime"},
        "11111100",
        {"G-single-process", "read-your-writes"},
    ),
    "lost write of another process": (
        ("0 0-1 ax1", "1 0-1 ax2", "2 2-3 rx1", "2 4-5 rx1"),
        {"G-single-realtime"},
        "11111110",
        set(),
    ),
    "write order against real time": (("0 0-1 ax1", "1 2-3 ax2", "2 0-9 rx21"), {"G0-realtime"}, "11111110", set()),
    "non-monotonic read": (
        ("0 0-9 ax1", "1 1-2 rx1", "1 3-4 rx"),
        {"G-single-realtime"},
        "11111100",
        {"G-single-process", "non-monotonic-read"},
    ),
    "read your writes": (
        ("0 0-1 ax1", "0 2-3 rx"),
        {"G-single-realtime"},
        "11111100",
        {"G-single-process", "read-your-writes"},
    ),
    "monotonic writes": (
        ("0 0-1 ax1", "0 2-3 ax2", "1 0-9 rx21"),
        {"G0-realtime"},
        "11111100",
        {"G0-process", "non-monotonic-write"},
    ),
}


def test_each_level_says_what_it_promises() -> None:
    assert set(levels_module.MEANS) == set(levels_module.LEVELS)


@pytest.mark.parametrize("level", sorted({*levels_module.EXAMPLES} & {*LEVELS}))
def test_an_example_of_a_level_is_what_it_allows_and_what_it_forbids(level: str) -> None:
    called = {"write skew": "G2-item", "lost update": "lost-update", "stale read": "G-single-predicate-realtime"}
    for example, forbidden in zip(levels_module.EXAMPLES[level], (False, True), strict=True):
        shown = [anomaly for words, anomaly in called.items() if words in example]
        assert [levels_module.forbids(level, x) for x in shown] == [forbidden] * len(shown), example
    assert any(words in example for words in called for example in levels_module.EXAMPLES[level])


@pytest.mark.parametrize("name", DRAWN)
def test_a_drawn_anomaly_is_named_and_violates_just_its_levels(name: str) -> None:
    lines, elle, holds, more = DRAWN[name]
    result = check_transactions(draw(*lines))
    assert "".join(str(int(result.holds(level))) for level in COLUMNS) == holds, result.names
    assert elle <= result.implied
    assert set(result.names) <= elle | more and more <= set(result.names)
    assert result.valid is (holds[-1] == "1")
    for f in result.findings:
        assert f.explanation and f.transactions


# As registers; what a register does not show is left out.
REGISTERS: dict[str, tuple[tuple[str, ...], set[str], str]] = {
    "nothing wrong": (("0 0-1 wx1", "0 2-3 rx1 wy1", "1 4-5 rx1 ry1"), set(), "11111111"),
    "aborted read": (("! wx1", "rx1"), {"G1a"}, "10000000"),
    "intermediate read": (("wx1 wx2", "rx1"), {"G1b"}, "10000000"),
    "circular information flow": (("wx1 ry1", "wy1 rx1"), {"G1c"}, "10000000"),
    "future read": (("rx1 wx1",), {"future-read"}, "10000000"),
    "thin air": (("wx1", "rx9"), {"garbage-read"}, "00000000"),
    "internal": (("wx1", "wx2 rx1"), {"internal"}, "11000000"),
    "read skew": (("wx1 wy1", "rx1 ry"), {"G-single", "fractured-read"}, "11000000"),
    "causality": (("wx1", "rx1 wy1", "ry1 rx"), {"G-single", "causality"}, "11100000"),
    "lost update": (("rx wx1", "rx wx2"), {"lost-update", "G2-item"}, "11110000"),
    "long fork": (("wx1", "wy1", "rx1 ry", "rx ry1"), {"G-nonadjacent"}, "11110000"),
    "write skew": (("rx wy1", "ry wx1"), {"G2-item"}, "11111000"),
    "stale read": (("0 0-1 wx1", "1 2-3 rx"), {"G-single-realtime"}, "11111110"),
    "stale read of an overwritten value": (("0 0-1 wx1", "1 2-3 wx2", "2 4-5 rx1"), {"G-single-realtime"}, "11111110"),
    "read your writes": (("0 0-1 wx1", "0 2-3 rx"), {"G-single-process", "read-your-writes"}, "11111100"),
    "crashed write that was seen": (("0 0-1? wx1", "1 2-3 rx1"), set(), "11111111"),
    "crashed write that was not": (("0 0-1? wx1", "1 2-3 rx"), set(), "11111111"),
}


@pytest.mark.parametrize("name", REGISTERS)
def test_a_drawn_anomaly_of_registers_is_named(name: str) -> None:
    lines, names, holds = REGISTERS[name]
    result = check_transactions(draw(*lines), workload="rw-register")
    assert set(result.names) == names
    assert "".join(str(int(result.holds(level))) for level in COLUMNS) == holds


# A client posts a picture and then a text about it, in two transactions; somebody else sees the text and not the picture.
POSTED: dict[str, tuple[tuple[str, ...], set[str]]] = {
    "one follows the text and misses the picture": (("0 0-1 wx1", "0 2-3 wy1", "1 4-5 ry1 rx"), {"session-causality"}),
    "the same in two transactions": (("0 0-1 wx1", "0 2-3 wy1", "1 4-5 ry1", "1 6-7 rx"), {"session-causality"}),
    "the text is by somebody who had seen the picture": (
        ("0 0-1 wx1", "1 2-3 rx1", "1 4-5 wy1", "2 6-7 ry1 rx"),
        {"session-causality"},
    ),
    "the picture is seen": (("0 0-1 wx1", "0 2-3 wy1", "1 4-5 ry1 rx1"), set()),
    "two clients": (("0 0-1 wx1", "1 2-3 wy1", "2 4-5 ry1 rx"), set()),
    "the client's first post failed": (("0 0-1! wx1", "0 2-3 wy1", "1 4-5 ry1 rx"), set()),
    "own post missed": (("0 0-1 wx1", "0 2-3 rx"), {"read-your-writes"}),
}


@pytest.mark.parametrize("name", POSTED)
def test_what_a_client_did_before_counts_for_causality_with_sessions_and_not_without(name: str) -> None:
    lines, names = POSTED[name]
    result = check_transactions(draw(*lines), workload="rw-register", level="strong-session-causal")
    assert names == {n for n in result.names if not n.startswith("G")}
    assert result.valid is (not names) and result.holds("strong-session-causal") is (not names)
    assert result.holds("causal") and result.holds("serializable")


@pytest.mark.parametrize(
    ("level", "valid"), [("strong-session-causal", "unknown"), ("strict-serializable", False), ("serializable", True)]
)
def test_a_level_is_undecided_if_what_it_forbids_was_not_searched_to_the_end(
    level: str, valid: bool | str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(visibility, "SESSION_ANCESTRY", -1)
    lines, _ = POSTED["one follows the text and misses the picture"]
    result = check_transactions(draw(*lines), workload="rw-register", level=level)
    assert result.valid == valid, (result.names, result.undecided)
    assert bool(result.undecided) is (level != "serializable")


def test_an_explanation_says_who_must_come_before_whom_and_ends_in_a_contradiction() -> None:
    result = check_transactions(draw("rx ay1", "ry ax1", "rx1 ry1"))
    assert [s.kind for s in result.findings[0].steps] == ["rw", "rw"]
    assert result.findings[0].explanation == (
        "Let:\n"
        "  T1 = T1 (process 1001): r 'x' []; append 'y' 1\n"
        "  T2 = T2 (process 1002): r 'y' []; append 'x' 1\n"
        "Then:\n"
        "  - T1 < T2, because T1 did not observe T2's append of 1 to key 'x'.\n"
        "  - However, T2 < T1, because T2 did not observe T1's append of 1 to key 'y': a contradiction!"
    )


def test_the_weakest_violated_and_the_strongest_standing_levels_are_said() -> None:
    skew = check_transactions(draw("rx ay1", "ry ax1"))
    assert skew.weakest_violated == ("repeatable-read",)
    assert skew.strongest_standing == ("strong-snapshot-isolation",)
    stale = check_transactions(draw("0 0-1 ax1", "1 2-3 rx"), level="strong-session-serializable")
    assert stale.valid is True and stale.allowed == stale.findings and not stale.violations


def test_levels_and_workloads_that_are_none_are_refused() -> None:
    with pytest.raises(ValueError, match="there are: read-uncommitted"):
        check_transactions([], level="serialisable")
    with pytest.raises(ValueError, match="list-append, rw-register"):
        check_transactions([], workload="bank")
    assert check_transactions([]).valid is True


def test_an_element_appended_twice_makes_its_key_undecided_and_nothing_else() -> None:
    result = check_transactions(draw("ax1 ay1", "ax1", "rx1 ry"))
    assert result.valid == "unknown" and "appended to key 'x' twice" in result.undecided[0]
    assert check_transactions(draw("ax1 ay1", "az1", "ax1", "rz1 ry", "ry1 rz")).valid is False


@pytest.mark.parametrize("level", LEVELS)
def test_what_a_level_implies_is_violated_no_later_than_it(level: str) -> None:
    for name in (*levels_module.WORSE, *(n for forbidden in levels_module.FORBIDS.values() for n in forbidden)):
        for weaker in levels_module.contained(level):
            assert not levels_module.forbids(weaker, name) or levels_module.forbids(level, name)


# --- against exhaustive search ------------------------------------------------------------------------------------------

TRUTH = {
    "serializable": (serializable, none),
    "strong-session-serializable": (serializable, session),
    "strict-serializable": (serializable, realtime),
    "snapshot-isolation": (snapshot_isolated, none),
    "strong-session-snapshot-isolation": (snapshot_isolated, session),
    "strong-snapshot-isolation": (snapshot_isolated, realtime),
}


def described(history: list[Transaction]) -> str:
    return "\n".join(str(t) for t in history)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(many(2)))
def test_small_histories_of_lists_are_judged_as_by_exhaustive_search(block: int) -> None:
    rng = Random(f"lists/{block}")
    violated = 0
    for _ in range(2_500):
        history = sloppy(rng)
        result = check_transactions(history)
        for level, (truth, order) in TRUTH.items():
            true = truth(history, order)
            violated += not true
            if unread(history) <= 1:
                assert result.holds(level) == true, f"{level}: {result.names}\n{described(history)}"
            else:  # the order of what nobody read is not known
                assert result.holds(level) or not true, f"{level}: {result.names}\n{described(history)}"
        for level, far, order in (
            ("read-atomic", False, none),
            ("causal", True, none),
            ("strong-session-causal", True, session),
        ):
            seen = visible(history, far=far, before_it=order) if all(t.status == "ok" for t in history) else None
            if seen is not None and result.holds("read-committed"):
                assert result.holds(level) == seen, f"{level}: {result.names}\n{described(history)}"
    assert violated > 100


@pytest.mark.slow
@pytest.mark.parametrize("block", range(many(2)))
def test_small_histories_of_registers_are_never_accused_wrongly(block: int) -> None:
    rng = Random(f"registers/{block}")
    violated = found = 0
    for _ in range(2_500):
        history = sloppy(rng, registers=True)
        result = check_transactions(history, workload="rw-register")
        for level, (truth, order) in TRUTH.items():
            if not result.holds(level):
                assert not truth(history, order), f"{level}: {result.names}\n{described(history)}"
                found += 1
                violated += 1
            elif level == "strict-serializable":
                violated += not truth(history, order)
    assert found > 0.8 * violated > 50


# --- tables, drawn ------------------------------------------------------------------------------------------------------

ISOLATION = Isolation()
SPECS = {
    level: [
        TableSpec(name="a", mode="merge-on-read", isolation=level, partitions=2, seed_rows=4),
        TableSpec(name="b", format_version=3, isolation=level, partitioned=False, partitions=2, seed_rows=4),
    ]
    for level in ("serializable", "snapshot")
}


def seeded(isolation: str, *ids: int) -> tuple[Drawing, list[Row]]:
    """A table with a row of each id."""
    d = Drawing(isolation)  # type: ignore[arg-type]
    rows = [row(i, "seed") for i in ids]
    d.did("seed", "insert", ids=list(ids), add=rows)
    return d, rows


def write_skew(level: str) -> Evidence:
    """Each copies the other's source: both had scanned before either committed."""
    d, (one, two) = seeded(level, 1, 2)
    d.invoke("a", "insert-select", **{"from": 1, "to": 2})
    d.invoke("b", "insert-select", **{"from": 2, "to": 1})
    d.commit("a", add=[Row(2, "a", one.cnt, "seed,a", two.part)])
    d.commit("b", add=[Row(1, "b", two.cnt, "seed,b", one.part)])
    d.ok("a")
    d.ok("b")
    return d.evidence()


def predicate_skew(level: str) -> Evidence:
    """Each makes a row that the other's predicate matches."""
    d = Drawing(level)  # type: ignore[arg-type]
    even, odd = row(0, "seed"), row(4, "seed", cnt=1)
    d.did("seed", "insert", ids=[0], add=[even])
    d.did("more", "update-counter", ids=[4], add=[odd])
    d.invoke("a", "update-counter-where", part=0, parity=0)
    d.invoke("b", "update-counter-where", part=0, parity=1)
    d.commit("a", remove=[even], add=[even._replace(cnt=1)])
    d.commit("b", remove=[odd], add=[odd._replace(cnt=2)])
    d.ok("a")
    d.ok("b")
    return d.evidence()


def older_scan(level: str) -> Evidence:
    """Explained by an older scan alone, but what it missed did not read what it wrote: the other order is a serial one."""
    d, (one, two) = seeded(level, 1, 2)
    d.invoke("a", "insert-select", **{"from": 1, "to": 2})
    d.did("b", "update-register", ids=[1], remove=[one], add=[one._replace(val="b")])
    d.did("c", "update-counter", ids=[1], remove=[one._replace(val="b")], add=[one._replace(val="b", cnt=1)])
    d.commit("a", add=[Row(2, "a", 0, "seed,a", two.part)])
    d.ok("a")
    return d.evidence()


def undelete(level: str) -> Evidence:
    """A delete that is acknowledged, and the row that it scanned is there as an update left it."""
    d, (one, _) = seeded(level, 1, 2)
    d.invoke("d", "delete", ids=[1])
    d.did("u", "update-register", ids=[1], remove=[one], add=[one._replace(val="u")])
    d.commit("d")
    d.ok("d")
    return d.evidence()


def overlapping_deletes(level: str) -> Evidence:
    """Two deletes have a row in common, and one of them an own one."""
    d, rows = seeded(level, 0, 4, 8)
    d.invoke("p", "delete-partition", part=0)
    d.did("d", "delete", ids=[4], remove=[rows[1]])
    d.did("i", "insert", ids=[12], add=[row(12, "i")])
    d.commit("p", remove=[rows[0], rows[2]])
    d.ok("p")
    return d.evidence()


def stale_read(level: str) -> Evidence:
    """A read of what was, after another process' update was acknowledged."""
    d, (one, two) = seeded(level, 1, 2)
    d.did("u", "update-register", ids=[1], remove=[one], add=[one._replace(val="u")])
    d.read("r", [one, two])
    return d.evidence()


def own_write_missed(level: str) -> Evidence:
    """The same by the process that wrote it."""
    d, (one, _) = seeded(level, 1, 2)
    d.did("u", "update-register", ids=[1], remove=[one], add=[one._replace(val="u")], process=7)
    d.read("r", [one], process=7, key=1)
    return d.evidence()


def fractured_read(level: str) -> Evidence:
    """Half of an update."""
    d, (one, two) = seeded(level, 1, 2)
    new = [one._replace(val="u"), two._replace(val="u")]
    d.did("u", "update-register", ids=[1, 2], remove=[one, two], add=new)
    d.read("r", [new[0], two])
    return d.evidence()


def order_against_real_time(level: str) -> Evidence:
    """The second update of a row is below the first in the chain."""
    d, (one, _) = seeded(level, 1, 2)
    b, a = one._replace(val="b"), one._replace(val="a")
    d.invoke("a", "update-register", ids=[1])
    d.ok("a")
    d.did("b", "update-register", ids=[1], remove=[one], add=[b])
    d.commit("a", remove=[b], add=[a])
    return d.evidence()


def absent_key(level: str) -> Evidence:
    """A key is read as absent before it is there and after it is gone: nothing is wrong with either."""
    d, _ = seeded(level, 1)
    d.invoke("i", "insert", ids=[9])
    d.read("before", [], key=9)
    new = row(9, "i")
    d.commit("i", add=[new])
    d.ok("i")
    d.did("x", "delete", ids=[9], remove=[new])
    d.read("after", [], key=9)
    d.did("m", "merge-insert", ids=[9], add=[row(9, "m")])
    return d.evidence()


def crashed(level: str) -> Evidence:
    """An update of unknown outcome takes effect late, and a failed one does although it said not."""
    d, (one, two) = seeded(level, 1, 2)
    d.invoke("u", "update-register", ids=[1])
    d.info("u")
    d.invoke("f", "update-register", ids=[2])
    d.fail("f")
    d.read("r", [one, two])
    d.commit("u", remove=[one], add=[one._replace(val="u")])
    d.commit("f", remove=[two], add=[two._replace(val="f")])
    d.read("s", [one._replace(val="u"), two._replace(val="f")])
    return d.evidence()


def lost_commit_seen(level: str) -> Evidence:
    """A read of a state that main has lost since: which checker that concerns is not this one."""
    d, (one, two) = seeded(level, 1, 2)
    at = d.main
    d.did("u", "update-register", ids=[1], remove=[one], add=[one._replace(val="u")])
    d.read("r", [one._replace(val="u"), two])
    d.set_main(at)
    return d.evidence()


# drawing: (names on a serializable table, on a snapshot table, what is allowed there)
TABLES: dict[Callable[[str], Evidence], tuple[list[str], list[str], list[str]]] = {
    write_skew: (["G2"], [], ["G2"]),
    predicate_skew: (["G2"], [], ["G2"]),
    older_scan: ([], [], []),
    undelete: (["lost-update"], ["lost-update"], []),
    overlapping_deletes: ([], [], []),
    stale_read: (["G-single-realtime"], [], ["G-single-realtime"]),
    own_write_missed: (["G-single-process"], ["G-single-process"], []),
    fractured_read: (["G-single"], ["G-single"], []),
    order_against_real_time: (
        ["G0-realtime", "G-single-realtime"],
        [],
        ["G0-realtime", "G-single-realtime"],
    ),
    absent_key: ([], [], []),
    crashed: ([], [], []),
    lost_commit_seen: ([], [], []),
}


@pytest.mark.parametrize("level", SPECS)
@pytest.mark.parametrize("drawn", TABLES, ids=lambda f: f.__name__)
def test_a_tables_anomaly_is_named_and_held_against_its_level(drawn: Callable[[str], Evidence], level: str) -> None:
    serializable_, snapshot, allowed = TABLES[drawn]
    e = drawn(level)
    said = verdict(ISOLATION, e)
    assert names(ISOLATION, e) == (serializable_ if level == "serializable" else snapshot)
    assert list(said.stats["tables"]["t"]["allowed"]) == ([] if level == "serializable" else allowed)
    if not said.anomalies:
        assert said.valid is (True if drawn not in (predicate_skew,) else "unknown")


def test_what_a_blind_append_causes_is_documented() -> None:
    assert verdict(ISOLATION, write_skew("serializable")).anomalies[0].documented is not None
    assert verdict(ISOLATION, predicate_skew("serializable")).anomalies[0].documented is None


def test_a_tables_anomaly_says_why() -> None:
    a = verdict(ISOLATION, undelete("snapshot")).anomalies[0]
    assert a.ops == ("d", "u") and a.keys == (1,) and len(a.snapshots) == 2
    assert "did not observe T2's change of id 1 in commit 2" in a.explanation
    assert (
        "a contradiction!\nThe table promises strong-session-snapshot-isolation, which forbids lost-update."
        in a.explanation
    )
    assert a.evidence["level"] == "strong-session-snapshot-isolation"


def test_a_command_at_snapshot_lowers_what_its_table_promises() -> None:
    d = Drawing("serializable", properties={"write.update.isolation-level": "snapshot"})
    d.did("seed", "insert", ids=[1], add=[row(1, "seed")])
    assert verdict(ISOLATION, d.evidence()).stats["tables"]["t"]["level"] == "strict-serializable"
    d.did("u", "update-register", ids=[1], remove=[row(1, "seed")], add=[row(1, "seed")._replace(val="u")])
    assert verdict(ISOLATION, d.evidence()).stats["tables"]["t"]["level"] == "strong-session-snapshot-isolation"


# --- tables, simulated and real -----------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("level", SPECS)
def test_clean_runs_are_valid(level: str) -> None:
    older = 0
    for seed in range(120):
        said = ISOLATION.check(simulate(seed, SPECS[level], ops=8 + seed % 12).evidence())
        assert said.valid is True, (seed, said.notes, [a.explanation for a in said.anomalies])
        for stats in said.stats["tables"].values():
            older += stats["older_scans"]
            assert level == "snapshot" or stats["strongest_standing"] == ["strict-serializable"]
    assert bool(older) == (level == "snapshot")


def test_a_delete_whose_rows_another_delete_took_overwrites_nothing_that_came_later() -> None:
    """It may have scanned before the row came that was updated since: what each scan explains counts, not the newest alone."""
    d = Drawing("snapshot")
    old, new = row(1, "a"), row(1, "b")
    d.did("a", "insert", ids=[1], add=[old])
    d.invoke("late", "delete", ids=[1])
    d.invoke("first", "delete", ids=[1])
    d.did("b", "insert", ids=[1], add=[new])
    d.commit("first", remove=[old])
    d.ok("first")
    d.did("u", "update-counter", ids=[1], remove=[new], add=[new._replace(cnt=1)])
    d.commit("late")
    d.ok("late")
    assert names(ISOLATION, d.evidence()) == []


@pytest.mark.parametrize("run", recorded.names())
def test_recorded_runs_are_valid(run: str) -> None:
    said = ISOLATION.check(recorded.load(run))
    assert said.valid is True, said
    assert all(s["transactions"] > 10 and not s["reads_left_out"] for s in said.stats["tables"].values())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("defects", "level", "found"),
    [
        (Defects(undelete=0.5), "snapshot", {"lost-update"}),
        (Defects(overwrite=0.5), "snapshot", {"lost-update"}),
        (Defects(stale_read=0.5), "serializable", {"G-single-realtime", "G-single-process"}),
        (Defects(fractured_read=0.5), "serializable", {"G-single"}),
    ],
    ids=["undelete", "overwrite", "stale read", "fractured read"],
)
def test_defects_are_found_and_nothing_where_none_showed(defects: Defects, level: str, found: set[str]) -> None:
    seen: Counter[str] = Counter()
    for seed in range(40):
        run = simulate(seed, SPECS[level], ops=20, defects=defects)
        e = run.evidence()
        said = ISOLATION.check(e)
        seen.update(a.name for a in said.anomalies)
        if said.anomalies:
            others = (*Replay().check(e).anomalies, *Reads().check(e).anomalies)
            assert others, (seed, said.anomalies[0].explanation)
    assert found <= set(seen)


@pytest.mark.parametrize("level", levels_module.LEVELS)
def test_a_level_forbids_what_is_forbidden_by_it_or_by_what_it_implies(level: str) -> None:
    """The two directions in which one looks a name up say the same."""
    of_level = levels_module.forbidden(level)
    every = {*levels_module.WORSE, *(x for names in levels_module.FORBIDS.values() for x in names)}
    of_names = {
        x for x in every if levels_module.contained(level) & {*levels_module.weakest(levels_module.violated([x]))}
    }
    assert {*of_level} == of_names and len(of_level) == len({*of_level})
