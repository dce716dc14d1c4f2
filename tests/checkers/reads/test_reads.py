"""The ``reads`` checker: every anomaly drawn, every legal oddity drawn, an exhaustive oracle, and simulated runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import product
from random import Random
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checkers.evidence.evidence import Evidence
from checkers.evidence.history import Event
from checkers.evidence.problem import problem_of
from checkers.evidence.replace import replace
from checkers.reads.checker import Reads
from checkers.timeline import two_tables
from checkers.timeline.states import rows_hash
from tests.support.drawing import Drawing, names, row, verdict
from tests.support.simulator import Defects, simulate
from workloads.tables import Row, TableSpec

READS = Reads()
Level = Literal["serializable", "snapshot"]
A, B, C = row(1, "a"), row(2, "b"), row(3, "c")


def inserts(*ops: str, process: int | None = None) -> Drawing:
    """Acknowledged inserts, one after the other: ``a`` of id 1, ``b`` of id 2, ``c`` of id 3."""
    d = Drawing()
    for op in ops:
        r = {"a": A, "b": B, "c": C}[op]
        d.did(op, "insert", ids=[r.id], add=[r], process=process)
    return d


# --- anomalies --------------------------------------------------------------------------------------------------------


def stale() -> Evidence:
    d = inserts("a", "b")
    d.read("r", [A])
    return d.evidence()


def stale_behind_another_read() -> Evidence:
    """B's outcome is unknown; one process has read it, and another, later, has not."""
    d = inserts("a")
    d.invoke("b", "insert", ids=[2])
    d.info("b")
    d.commit("b", add=[B])
    d.read("r", [A, B], process=1)
    d.read("s", [A], process=2)
    return d.evidence()


def stale_key() -> Evidence:
    d = inserts("a", "b")
    d.read("r", [], key=2)
    return d.evidence()


def not_monotonic() -> Evidence:
    d = inserts("a")
    d.invoke("b", "insert", ids=[2])
    d.info("b")
    d.commit("b", add=[B])
    d.read("r", [A, B], process=1)
    d.read("s", [A], process=1)
    return d.evidence()


def misses_its_own_write() -> Evidence:
    d = inserts("a")
    d.did("b", "insert", ids=[2], add=[B], process=1)
    d.read("r", [A], process=1)
    return d.evidence()


def of_the_future() -> Evidence:
    d = inserts("a")
    d.read("r", [A, B])
    d.did("b", "insert", ids=[2], add=[B])
    return d.evidence()


def of_a_failed_write() -> Evidence:
    d = inserts("a")
    d.invoke("b", "insert", ids=[2])
    d.read("r", [A, B])
    d.fail("b")
    return d.evidence()


def of_a_failed_increment() -> Evidence:
    """A counter does not say who incremented it."""
    d = inserts("a")
    d.invoke("b", "update-counter", ids=[1])
    d.read("r", [A._replace(cnt=1)])
    d.fail("b")
    return d.evidence()


def of_a_staged_snapshot() -> Evidence:
    d = inserts("a", "b")
    d.invoke("x", "delete", ids=[2])
    d.commit("x", remove=[B], visible=False)
    d.did("c", "insert", ids=[3], add=[C])
    d.invoke("y", "insert", ids=[3])
    d.commit("y", add=[C], parent=3, visible=False)
    d.read("r", [A, C])
    return d.evidence()


def torn() -> Evidence:
    """B's commit changed two rows, and the read saw one of them changed."""
    d = inserts("a", "b")
    a, b = A._replace(val="u"), B._replace(val="u")
    d.did("u", "merge-update", ids=[1, 2], remove=[A, B], add=[a, b])
    d.read("r", [a, B])
    return d.evidence()


def missing_in_between() -> Evidence:
    d = inserts("a", "b", "c")
    d.read("r", [A, C])
    return d.evidence()


def twice_the_same_row() -> Evidence:
    d = inserts("a", "b")
    d.read("r", [A, B, B])
    return d.evidence()


def thin_air() -> Evidence:
    d = inserts("a")
    d.read("r", [A, row(2, "nobody")])
    return d.evidence()


def a_count_that_no_commit_made() -> Evidence:
    d = inserts("a")
    d.read("r", [A._replace(cnt=7)])
    return d.evidence()


def another_tables_value() -> Evidence:
    d = inserts("a")
    d.invoke("x", "insert", ids=[2], table="u")
    d.ok("x")
    d.read("r", [A, row(2, "x")])
    return d.evidence()


def of_a_commit_taken_back() -> Evidence:
    d = inserts("a")
    base = d.main
    d.invoke("b", "insert", ids=[2])
    d.info("b")
    d.commit("b", add=[B])
    d.read("r", [A, B])
    d.set_main(base)
    return d.evidence()


def time_travel_to_another_snapshot() -> Evidence:
    d = inserts("a", "b")
    d.invoke("r", "read-snapshot", back=1)
    d.ok("r", {"snapshot": 1, "rows": [list(A), list(B)]})
    return d.evidence()


def time_travel_into_the_future() -> Evidence:
    d = inserts("a")
    d.invoke("r", "read-snapshot", back=1)
    d.ok("r", {"snapshot": 2, "rows": [list(A), list(B)]})
    d.did("b", "insert", ids=[2], add=[B])
    return d.evidence()


def time_travel_of_a_lost_snapshot() -> Evidence:
    d = inserts("a", "b")
    d.set_main(1)
    d.invoke("r", "read-snapshot", back=1)
    d.ok("r", {"snapshot": 2, "rows": [list(A)]})
    return d.evidence()


def wrong_key() -> Evidence:
    d = inserts("a", "b")
    d.read("r", [B], key=1)
    return d.evidence()


@pytest.mark.parametrize(
    ("draw", "found"),
    [
        (stale, "stale-read"),
        (stale_behind_another_read, "stale-read"),
        (stale_key, "stale-read"),
        (not_monotonic, "non-monotonic-read"),
        (misses_its_own_write, "read-your-writes"),
        (of_the_future, "future-read"),
        (of_a_failed_write, "dirty-read"),
        (of_a_failed_increment, "dirty-read"),
        (of_a_staged_snapshot, "dirty-read"),
        (torn, "fractured-read"),
        (missing_in_between, "fractured-read"),
        (twice_the_same_row, "fractured-read"),
        (thin_air, "phantom-value"),
        (a_count_that_no_commit_made, "phantom-value"),
        (another_tables_value, "phantom-value"),
        (of_a_commit_taken_back, "vanished-read"),
        (time_travel_to_another_snapshot, "wrong-time-travel"),
        (time_travel_into_the_future, "wrong-time-travel"),
        (time_travel_of_a_lost_snapshot, "wrong-time-travel"),
        (wrong_key, "fractured-read"),
    ],
)
def test_an_anomaly_is_named_once(draw: Callable[[], Evidence], found: str) -> None:
    e = replace(draw(), tables=draw().tables)
    assert names(READS, e) == [found]


def test_a_rollback_that_may_have_been_another_one_says_nothing_of_when_main_went_back() -> None:
    """Two rollbacks to one snapshot, the first of unknown outcome: which of the two versions is whose cannot be told."""
    d = inserts("a")
    base = d.main
    d.did("b", "insert", ids=[2], add=[B])
    d.invoke("first", "rollback", back=1)
    d.set_main(base)
    d.info("first")
    d.invoke("c", "update-register", ids=[1])
    d.commit("c", remove=[A], add=[A._replace(val="c")])
    d.info("c")
    d.read("r", [A._replace(val="c")])
    d.invoke("second", "rollback", back=1)
    d.set_main(base)
    d.ok("second", {"snapshot": base})
    assert names(READS, d.evidence()) == []


def test_an_acknowledged_rollback_may_have_found_main_where_it_wanted_it() -> None:
    """The first rollback changes nothing; the second one, of the same target, is under way when the read sees what it takes out."""
    d = inserts("a")
    base = d.main
    d.invoke("idle", "rollback", back=1)
    d.invoke("b", "insert", ids=[2])
    d.ok("idle", {"snapshot": base})
    d.commit("b", add=[B])
    d.ok("b")
    d.invoke("back", "rollback", back=1)
    d.read("r", [A, B])
    d.set_main(base)
    d.ok("back", {"snapshot": base})
    assert names(READS, d.evidence()) == []


def test_the_own_write_of_any_process_is_known_as_such() -> None:
    late = int("70000"), int("70000")  # two objects, as from two lines of a history
    d = Drawing()
    d.did("a", "insert", ids=[1], add=[A], process=late[0])
    d.read("r", [], process=late[1])
    assert names(READS, d.evidence()) == ["read-your-writes"]


def test_a_stale_read_says_what_it_missed_and_since_when_that_was_certain() -> None:
    (a,) = verdict(READS, stale()).anomalies
    assert a.ops == ("r", "b") and a.snapshots == (1, 2) and a.evidence["broken"] == ["stale-read"]
    for words in (
        "the read (r, process 102), invoked at 0.004 s",
        "as it was before snapshot 2 (sequence number 2) of the insert of id 2 (b, process 101)",
        "That write was acknowledged at 0.003 s, before the read was invoked.",
    ):
        assert words in a.explanation


def test_a_stale_read_of_an_unacknowledged_write_names_the_acknowledged_one_that_proves_it() -> None:
    d = inserts("a")
    d.invoke("b", "insert", ids=[2])
    d.info("b")
    d.commit("b", add=[B])
    d.did("c", "update-register", ids=[1], remove=[A], add=[A._replace(val="c")])
    d.read("r", [], key=2)
    (a,) = verdict(READS, d.evidence()).anomalies
    assert a.ops == ("r", "b", "c")
    assert "update-register of id 1 (c, process 102), whose snapshot is later still, was acknowledged" in a.explanation


def test_the_weakest_broken_promise_names_the_read_and_the_others_are_kept() -> None:
    d = inserts("a", process=1)
    d.read("r", [A], process=1)
    d.read("s", [], process=1)
    (a,) = verdict(READS, d.evidence()).anomalies
    assert a.name == "read-your-writes"
    assert a.evidence["broken"] == ["read-your-writes", "non-monotonic-read", "stale-read"]


def test_a_fractured_read_shows_the_nearest_state_and_the_lives_of_the_rows() -> None:
    (a,) = verdict(READS, torn()).anomalies
    assert a.keys == (2,)
    assert "was there until" not in a.explanation
    assert "(id 2, val 'b', cnt 0, log 'b', part 2) was there from snapshot 2" in a.explanation
    assert "until snapshot 3" in a.explanation


def test_an_anomalous_read_proves_nothing_to_later_ones() -> None:
    d = inserts("a")
    d.read("r", [A, B], process=1)
    d.did("b", "insert", ids=[2], add=[B])
    d.invoke("c", "insert", ids=[3])
    d.read("s", [A, B], process=1)
    assert names(READS, d.evidence()) == ["future-read"]


# --- what only looks like one -------------------------------------------------------------------------------------------


def concurrent_with_a_write() -> Evidence:
    d = inserts("a")
    d.invoke("b", "insert", ids=[2])
    d.invoke("r", "read")
    d.invoke("s", "read")
    d.ok("r", [list(A), list(B)])
    d.commit("b", add=[B])
    d.ok("b")
    d.ok("s", [list(A)])
    return d.evidence()


def unknown_write_read_much_later() -> Evidence:
    d = inserts("a")
    d.invoke("b", "insert", ids=[2])
    d.info("b")
    d.read("r", [A])
    d.commit("b", add=[B])
    d.read("s", [A, B])
    return d.evidence()


def falsely_failed_write_read() -> Evidence:
    """The commit is there, whatever the client was told; that is the commits checker's to report."""
    d = inserts("a")
    d.invoke("b", "insert", ids=[2])
    d.commit("b", add=[B])
    d.fail("b")
    d.read("r", [A, B])
    return d.evidence()


def before_a_lost_commit_was_lost() -> Evidence:
    """B was acknowledged and then lost: its reader is the victim, and the commits checker reports it."""
    d = inserts("a", "b")
    d.read("r", [A, B])
    d.set_main(1)
    d.read("s", [A])
    return d.evidence()


def of_an_acknowledged_write_that_no_log_ever_saw() -> Evidence:
    d = inserts("a")
    d.invoke("b", "insert", ids=[2])
    d.ok("b")
    d.read("r", [A, B])
    return d.evidence()


def before_a_duplicate_of_an_acknowledged_write() -> Evidence:
    """A's second copy was made long after its acknowledgement, which proves the first copy only."""
    d = inserts("a")
    d.read("r", [A])
    d.did("b", "insert", ids=[2], add=[B])
    d.read("s", [A, B])
    d.commit("a", add=[A])
    return d.evidence()


def the_same_state_again() -> Evidence:
    """The table is empty at first, and again after the delete: the read is of the second time."""
    d = inserts("a")
    d.did("x", "delete", ids=[1], remove=[A])
    d.read("r", [], process=1)
    d.read("s", [], process=1, key=1)
    d.read("t", [], process=1, key=77)
    return d.evidence()


def behind_maintenance() -> Evidence:
    d = inserts("a")
    d.did("m", "rewrite-manifests")
    d.read("r", [A])
    return d.evidence()


def time_travel() -> Evidence:
    d = inserts("a", "b")
    d.set_main(2, snapshots=(2,))
    d.invoke("r", "read-snapshot", back=1)
    d.ok("r", {"snapshot": 1, "rows": [list(A)]})
    return d.evidence()


def own_keys_of_two_processes_do_not_collide() -> Evidence:
    d = Drawing()
    d.did("a", "insert", ids=[-1], add=[row(-1, "a", part=-1)])
    d.read("r", [row(-1, "a", part=-1)])
    return d.evidence()


@pytest.mark.parametrize(
    "draw",
    [
        concurrent_with_a_write,
        unknown_write_read_much_later,
        falsely_failed_write_read,
        before_a_lost_commit_was_lost,
        of_an_acknowledged_write_that_no_log_ever_saw,
        before_a_duplicate_of_an_acknowledged_write,
        the_same_state_again,
        behind_maintenance,
        time_travel,
        own_keys_of_two_processes_do_not_collide,
    ],
)
def test_what_only_looks_like_an_anomaly_is_valid(draw: Callable[[], Evidence]) -> None:
    said = verdict(READS, draw())
    assert said.valid is True, said


def test_reads_of_what_main_lost_are_counted() -> None:
    assert verdict(READS, before_a_lost_commit_was_lost()).stats["tables"]["t"]["of_lost_commits"] == 1


def test_rows_that_differ_in_a_sign_or_a_type_do_not_hash_alike() -> None:
    rows = [row(-1, "a"), row(-2, "a"), row(1, "a"), row(1, "a", cnt=-1), row(1, "a", cnt=-2), row(1, "a", log="b")]
    assert len({rows_hash([r]) for r in rows}) == len(rows)
    assert rows_hash(rows) == rows_hash(rows[::-1]) != rows_hash(rows[1:])


# --- when the log cannot tell -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seen", [[A, B], [A, row(2, "nobody")], []])
def test_what_was_read_after_the_last_capture_is_no_verdict(seen: list[Row]) -> None:
    d = inserts("a")
    d.capture()
    d.read("r", seen)
    said = verdict(READS, d.evidence(complete=False, capture=False))
    assert said.valid == "unknown" and said.stats["tables"]["t"]["undecided"] == 1


def test_what_the_log_has_is_judged_also_after_the_last_capture() -> None:
    d = inserts("a")
    d.capture()
    d.read("r", [A])
    assert verdict(READS, d.evidence(complete=False, capture=False)).valid is True


def unread(e: Evidence, snapshot: int) -> Evidence:
    """The rows of one snapshot are not known."""
    log = e.logs["t"]
    commits = tuple(replace(c, added=None, removed=None) if c.snapshot_id == snapshot else c for c in log.commits)
    return replace(e, logs={"t": replace(log, commits=commits)})


def test_a_read_that_may_have_seen_unknown_rows_is_no_verdict() -> None:
    d = inserts("a", "b")
    d.read("r", [A, row(2, "nobody")])
    assert verdict(READS, unread(d.evidence(), 2)).valid == "unknown"


def test_a_read_that_ended_before_the_unknown_rows_were_made_is_judged() -> None:
    d = inserts("a")
    d.read("r", [A, row(2, "nobody")])
    d.did("b", "insert", ids=[2], add=[B])
    assert names(READS, unread(d.evidence(), 2)) == ["phantom-value"]


def test_results_of_another_form_are_no_verdict() -> None:
    d = inserts("a")
    for op, f, result in (
        ("r", "read", None),
        ("s", "read", [[1, 2]]),
        ("t", "read-snapshot", {"snapshot": 1}),
        ("u", "read-snapshot", {"snapshot": 1, "rows": [list(A)]}),  # its arguments do not say how far back
    ):
        d.invoke(op, f)
        d.ok(op, result)
    said = verdict(READS, d.evidence())
    assert said.valid == "unknown" and said.stats["tables"]["t"]["undecided"] == 4


def test_reads_of_a_log_without_root_are_no_verdict() -> None:
    d = Drawing()
    d.invoke("a", "insert", ids=[1])
    d.commit("a", add=[A], parent_id=77)
    d.ok("a")
    d.read("r", [A])
    assert verdict(READS, d.evidence()).valid == "unknown"


def test_states_between_two_versions_are_known_where_a_version_is_missing() -> None:
    d = inserts("a")
    d.invoke("b", "insert", ids=[2])
    d.commit("b", add=[B], visible=False)
    d.ok("b")
    d.metadata.pop()
    d.read("r", [A, B])
    d.invoke("c", "insert", ids=[3])
    d.commit("c", add=[C], parent=2)
    d.ok("c")
    d.metadata[-1] = replace(d.metadata[-1], problems=(problem_of("metadata file 2 is missing"),))
    assert verdict(READS, d.evidence()).valid is True


# --- an oracle ----------------------------------------------------------------------------------------------------------


def linearizable(e: Evidence) -> bool:
    """Whether each read can be given a state so that all orders hold: every choice is tried."""
    log = e.logs["a"]
    ops = {o.op: o for o in e.history.operations()}
    chain = log.main()
    states: list[Counter[tuple[Any, ...]]] = [Counter()]
    for c in chain:
        states.append(states[-1] - Counter(x.row for x in c.removed or ()) + Counter(x.row for x in c.added or ()))
    reads = [o for o in ops.values() if o.f in ("read", "read-key") and o.type == "ok"]
    choices: list[list[int]] = []
    for o in reads:
        assert o.completed is not None
        key = o.value.get("id")
        result = Counter(tuple(r) for r in o.result)
        possible = []
        for p, state in enumerate(states):
            seen = Counter({r: n for r, n in state.items() if key is None or r[0] == key})
            if seen != result:
                continue
            if any(ops[c.op or ""].invoked.index > o.completed.index for c in chain[:p]):
                continue
            later = [ops[c.op or ""] for c in chain[p:]]
            if any(w.type == "ok" and w.indices[-1] < o.invoked.index for w in later):
                continue
            possible.append(p)
        choices.append(possible)
    before = [
        (i, j)
        for i, x in enumerate(reads)
        for j, y in enumerate(reads)
        if x.completed is not None and x.completed.index < y.invoked.index
    ]
    return any(all(chosen[i] <= chosen[j] for i, j in before) for chosen in product(*choices))


TINY = [TableSpec(name="a", mode="merge-on-read", isolation="serializable", partitions=2, seed_rows=2)]
MIX = {"insert": 1, "update-register": 2, "delete": 2, "rewrite-manifests": 1, "read": 3, "read-key": 2}


@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.integers(0, 10**6))
def test_reads_are_valid_exactly_when_some_choice_of_states_is(seed: int) -> None:
    defects = Defects(stale_read=0.2 if seed % 3 else 0.0, fractured_read=0.1 if seed % 5 == 0 else 0.0)
    run = simulate(seed, TINY, writers=3, ops=4, keys=2, mix=MIX, unknown=0.2, defects=defects)
    e = run.evidence()
    said = READS.check(e)
    assert said.valid is linearizable(e), (seed, said)


# --- simulated runs -----------------------------------------------------------------------------------------------------

SPECS: dict[Level, list[TableSpec]] = {
    level: [
        TableSpec(name="a", mode="merge-on-read", isolation=level, partitions=2, seed_rows=4),
        TableSpec(name="b", format_version=3, isolation=level, partitioned=False, partitions=2, seed_rows=4),
    ]
    for level in ("serializable", "snapshot")
}


@pytest.mark.parametrize("level", ["serializable", "snapshot"])
def test_clean_runs_are_valid(level: Level) -> None:
    judged = 0
    for seed in range(200):
        said = READS.check(simulate(seed, SPECS[level]).evidence())
        assert said.valid is True, (seed, said)
        judged += sum(t["judged"] for t in said.stats["tables"].values())
    assert judged > 2000


@pytest.mark.parametrize(
    ("defects", "names", "at_least"),
    [
        (Defects(stale_read=0.5), {"stale-read", "read-your-writes", "non-monotonic-read"}, 100),
        (Defects(dirty_read=1.0), {"dirty-read", "fractured-read"}, 10),
        (Defects(fractured_read=0.5), {"fractured-read", "future-read"}, 100),
        (Defects(wrong_travel=1.0), {"wrong-time-travel"}, 30),
        (Defects(stale_travel=1.0), {"stale-read", "read-your-writes", "non-monotonic-read", "wrong-time-travel"}, 30),
        (Defects(lose=0.3), {"vanished-read"}, 0),
        (Defects(false_failure=0.3, forget=0.1, double=0.3), set(), 0),
        (Defects(undelete=1.0, overwrite=1.0, resurrect=1.0, drop_rows=0.5), set(), 0),
    ],
)
def test_a_defect_is_named_and_nothing_else(defects: Defects, names: set[str], at_least: int) -> None:
    found: Counter[str] = Counter()
    for seed in range(80):
        run = simulate(seed, SPECS["snapshot"], spurious=0.2 if defects.dirty_read else 0.05, defects=defects)
        said = READS.check(run.evidence())
        assert {a.name for a in said.anomalies} <= names, (seed, said.anomalies)
        shown = {op for d, op in run.injected if d in ("dirty_read", "fractured_read", "wrong_travel")}
        assert not shown or {a.ops[0] for a in said.anomalies} == shown, seed
        found.update(a.name for a in said.anomalies)
    assert found.total() >= at_least


@pytest.mark.parametrize("change", ["take a row out", "put a row in", "change a value", "return an old result"])
def test_a_result_that_is_tampered_with_is_found(change: str) -> None:
    rng = Random(change)
    found = 0
    for seed in range(60):
        e = simulate(seed, SPECS["serializable"]).evidence()
        whole = [x for x in e.history.events if x.f == "read" and x.type == "ok" and x.value]
        victim = whole[-1] if change == "return an old result" else rng.choice(whole)
        rows = [list(r) for r in victim.value]
        if change == "take a row out":
            rows.pop(rng.randrange(len(rows)))
        elif change == "put a row in":
            rows.append([99, "seed-a", 0, "seed-a", 1])
        elif change == "change a value":
            rng.choice(rows)[2] += 17
        else:
            rows = next(list(x.value) for x in whole if x.table == victim.table)
            if sorted(rows) == sorted(victim.value):
                found += 1
                continue

        def edit(x: Event, victim: Event = victim, rows: list[list[Any]] = rows) -> Event:
            return replace(x, value=rows) if x is victim else x

        history = replace(e.history, events=tuple(map(edit, e.history.events)))
        said = READS.check(replace(e, history=history))
        found += victim.op in {a.ops[0] for a in said.anomalies}
    assert found >= (60 if change in ("put a row in", "change a value") else 57)  # a row less may be an older state


# --- reads that name a snapshot -----------------------------------------------------------------------------------------


def travel(d: Drawing, op: str, back: int, snapshot: int, rows: list[Row], process: int | None = None) -> None:
    d.invoke(op, "read-snapshot", process, back=back)
    d.ok(op, {"snapshot": snapshot, "rows": [list(r) for r in rows]})


@pytest.mark.parametrize(
    ("back", "snapshot", "found"),
    [
        (0, 3, []),
        (0, 2, ["stale-read"]),
        (1, 2, []),
        (1, 1, ["stale-read"]),
        (1, 3, ["wrong-time-travel"]),
        (2, 1, []),
        (9, 1, []),
        (9, 2, ["wrong-time-travel"]),
        (0, 77, ["wrong-time-travel"]),
    ],
)
def test_a_time_travel_gets_what_the_history_answers(back: int, snapshot: int, found: list[str]) -> None:
    d = inserts("a", "b", "c")
    travel(d, "r", back, snapshot, [A, B, C][:snapshot])
    d.capture()
    said = verdict(READS, d.evidence())
    assert [a.name for a in said.anomalies] == found
    assert all(a.ops[0] == "r" for a in said.anomalies)
    assert said.valid is (not found)


def test_a_time_travel_during_a_write_may_or_may_not_have_it() -> None:
    for snapshot in (1, 2):
        d = inserts("a")
        d.invoke("b", "insert", ids=[2])
        travel(d, "r", 0, snapshot, [A, B][:snapshot])
        d.commit("b", add=[B])
        d.ok("b")
        assert verdict(READS, d.evidence()).valid is True


@pytest.mark.parametrize("first", ["travel", "read"])
@pytest.mark.parametrize("second", ["travel", "read"])
def test_what_a_reader_was_shown_a_later_one_must_not_miss(first: str, second: str) -> None:
    d = inserts("a")
    d.invoke("b", "insert", ids=[2])
    d.commit("b", add=[B])
    for op, how, p in (("r", first, 2), ("s", second, 1)):
        if how == "travel":
            travel(d, op, 0, p, [A, B][:p])
        else:
            d.read(op, [A, B][:p])
    d.ok("b")
    (found,) = verdict(READS, d.evidence()).anomalies
    assert (found.name, found.ops[0]) == ("stale-read", "s")
    assert "r" in found.ops


def test_a_time_travel_to_an_expired_snapshot_is_stale_after_the_expiry_only() -> None:
    def run(*, after: bool) -> list[str]:
        d = inserts("a", "b", "c")
        d.invoke("e", "expire-snapshots", retain_last=1)
        if not after:
            travel(d, "r", 2, 1, [A])
        kept = d.metadata[-1]
        d.metadata.append(replace(kept, n=kept.n + 1, location=kept.location + "x", snapshots=kept.snapshots[-1:]))
        d.ok("e", [[0, 0, 0, 2, 2, 0]])
        if after:
            travel(d, "r", 2, 1, [A])
        return names(READS, d.evidence())

    assert run(after=False) == []
    assert run(after=True) == ["stale-read"]


@pytest.mark.parametrize("stranger", [True, False])
def test_an_expiry_that_may_have_been_a_strangers_proves_nothing(stranger: bool) -> None:
    d = inserts("a", "b", "c")
    if stranger:
        d.commit(None, add=[row(9, "theirs")])
    else:
        d.did("d", "insert", ids=[9], add=[row(9, "d")])
    d.invoke("e", "expire-snapshots", retain_last=1)
    d.ok("e", [[0, 0, 0, 0, 0, 0]])
    travel(d, "r", 2, 2, [A, B])
    kept = d.metadata[-1]
    d.metadata.append(replace(kept, n=kept.n + 1, location=kept.location + "x", snapshots=kept.snapshots[-1:]))
    assert names(READS, d.evidence()) == ([] if stranger else ["stale-read"])


def test_a_snapshot_that_the_log_may_lack_is_undecided() -> None:
    d = inserts("a")
    travel(d, "r", 0, 77, [A])
    assert verdict(READS, d.evidence(complete=False)).valid == "unknown"


@pytest.mark.parametrize("side", [0, 1, 2, 7, None, "0"])
def test_a_read_with_a_row_of_neither_of_its_two_tables_is_not_judged(side: Any) -> None:
    d = inserts("a", "b")
    both: dict[str, Any] = {"and": "u"}
    d.invoke("r", "read-both", **both)
    d.ok("r", {"first": 2, "second": 5, "again": 2, "rows": [[0, *A], [1, *C], [side, *B]]})
    said = READS.check(d.evidence())
    doubts = [n for n in said.notes if n.startswith("t: ")]
    if side in (0, 1):
        assert doubts == [] and bool(said.anomalies) == (side == 1)  # then t lacks the row
    else:
        assert (said.valid, doubts) == ("unknown", ["t: 1 reads could not be judged: the result is not a list of rows"])


def of_both(first: int, again: int, rows: list[Row], *later: str) -> Evidence:
    """A read of the table t and one without a log, after inserts; then more inserts."""
    d = inserts("a", "b")
    both: dict[str, Any] = {"and": "u"}
    d.invoke("r", "read-both", **both)
    for op in later:
        d.did(op, "insert", ids=[3], add=[C])
    d.ok("r", {"first": first, "second": 5, "again": again, "rows": [[0, *r] for r in rows]})
    return d.evidence()


@pytest.mark.parametrize(
    ("first", "again", "rows", "later", "found"),
    [
        (2, 2, [A, B], [], []),
        (2, 3, [A, B], ["c"], []),
        (3, 3, [A, B, C], ["c"], []),
        (1, 1, [A, B], [], ["wrong-time-travel"]),
        (1, 1, [A], [], ["stale-read"]),
        (2, 1, [A, B], [], ["stale-read"]),
        (3, 2, [A, B, C], ["c"], ["non-monotonic-read"]),
        (77, 77, [A, B], [], ["wrong-time-travel"]),
    ],
)
def test_a_read_of_two_tables_is_judged_by_the_snapshots_that_it_names(
    first: int, again: int, rows: list[Row], later: list[str], found: list[str]
) -> None:
    e = of_both(first, again, rows, *later)
    alone = two_tables.alone(e, "t")  # as the columns' exact checkers see it
    for seen in (e, alone):
        anomalies = [a for a in verdict(READS, seen).anomalies if a.table == "t"]
        assert [a.name for a in anomalies] == found
        assert all(a.ops[0] == "r" for a in anomalies)


# --- whom an explanation accuses ----------------------------------------------------------------------------------------


def test_an_increment_that_had_failed_before_the_rows_writer_began_is_not_accused() -> None:
    d = Drawing()
    d.did("a", "insert", ids=[1], add=[A])
    d.invoke("early", "update-counter", ids=[1])
    d.fail("early")
    written = A._replace(val="u")
    d.did("u", "update-register", ids=[1], remove=[A], add=[written])
    d.invoke("late", "update-counter", ids=[1])
    d.read("r", [written._replace(cnt=1)])
    d.fail("late")
    (found,) = verdict(READS, d.evidence()).anomalies
    assert found.name == "dirty-read" and found.ops == ("r", "late")


def test_an_old_state_is_named_by_the_first_commit_that_it_lacks() -> None:
    d = Drawing()
    d.did("a", "insert", ids=[1], add=[A])
    d.did("b", "insert", ids=[2], add=[B], process=1)
    d.read("r", [], process=1)
    (found,) = verdict(READS, d.evidence()).anomalies
    assert found.name == "read-your-writes"
    assert "as it was before snapshot 1 (sequence number 1) of the insert of id 1 (a" in found.explanation
    assert "It lacks snapshot 2 (sequence number 2) of the insert of id 2 (b, process 1), too." in found.explanation
