"""Rollbacks: what an acknowledged one took out of main is not lost, what vanished without one is, and what cannot be told is unknown."""

from __future__ import annotations

from contextlib import nullcontext
from random import Random
from typing import Literal

import pytest

from checkers.commits import Commits
from checkers.evidence.evidence import Evidence
from checkers.evidence.proxylog import AcceptedChange, PointerSwap
from checkers.evidence.replace import replace
from checkers.evidence.tablelog import Capture
from checkers.isolation.checker import Isolation
from checkers.judge.check import check
from checkers.reads.checker import Reads
from tests.support.drawing import Drawing, names, row, verdict
from tests.support.simulator import CLEAN, MIX, ROW_BY_ROW, Defects, Refused, Run, simulate
from workloads.operations.kinds import KINDS
from workloads.tables import TableSpec

COMMITS, READS, ISOLATION = Commits(), Reads(), Isolation()


def rolled_back(
    outcome: Literal["ok", "info", "info with target", "fail", "none"] = "ok",
    *,
    to: Literal["a", "b", "nowhere"] = "a",
    late: bool = False,
    read: bool = False,
) -> Drawing:
    """A, B, C one after the other; main goes back to A; D follows. ``to``: where the rollback says it went; ``late``: A answers last."""
    d = Drawing()
    d.invoke("a", "insert", ids=[1])
    a = d.commit("a", add=[row(1, "a")])
    if not late:
        d.ok("a")
    b = d.did("b", "insert", ids=[2], add=[row(2, "b")])
    c = d.did("c", "insert", ids=[3], add=[row(3, "c")])
    if read:
        d.read("seen", [row(1, "a"), row(2, "b"), row(3, "c")])
    target = {"a": a, "b": b, "nowhere": 77}[to]
    if outcome != "none":
        d.invoke("r", "rollback", back=2)
    d.set_main(a)
    result = {"snapshot": target, "rows": [[c, target]]}
    if outcome == "ok":
        d.ok("r", result)
    elif outcome == "info with target":
        d._complete("info", "r", {"snapshot": target})
    elif outcome == "info":
        d.info("r")
    elif outcome == "fail":
        d.fail("r")
    if late:
        d.ok("a")
    d.did("d", "insert", ids=[4], add=[row(4, "d")])
    return d


@pytest.mark.parametrize("read", [False, True])
def test_what_a_rollback_took_out_is_not_lost(read: bool) -> None:
    e = rolled_back(read=read).evidence()
    assert check(e).valid is True
    said = verdict(COMMITS, e)
    assert said.stats["tables"]["t"]["rolled_back"] == 2 and said.stats["tables"]["t"]["lost"] == 0
    assert verdict(READS, e).stats["tables"]["t"]["of_rolled_back_commits"] == read


@pytest.mark.parametrize("outcome", ["none", "fail"])
def test_without_a_rollback_it_is_lost(outcome: Literal["none", "fail"]) -> None:
    assert names(COMMITS, rolled_back(outcome).evidence()) == ["lost-commit", "lost-commit"]


def test_a_rollback_to_somewhere_else_explains_nothing() -> None:
    said = verdict(COMMITS, rolled_back(to="b").evidence())
    assert sorted(a.name for a in said.anomalies) == ["lost-commit", "lost-commit", "lost-rollback"] or [
        a.name for a in said.anomalies
    ] == ["lost-commit", "lost-commit"]  # b was current while the rollback can have been under way
    assert said.valid is False


def test_a_rollback_that_says_another_snapshot_is_named_before_the_commits_that_it_took_out() -> None:
    said = verdict(COMMITS, rolled_back(to="nowhere").evidence())
    assert [(a.name, a.ops[0]) for a in said.anomalies] == [
        ("lost-rollback", "r"),
        ("lost-commit", "b"),
        ("lost-commit", "c"),
    ]


def test_one_rollback_explains_one_step_back() -> None:
    d = rolled_back()
    d.did("e", "insert", ids=[5], add=[row(5, "e")])
    d.set_main(1)
    assert names(COMMITS, d.evidence()) == ["lost-commit", "lost-commit"], "d and e"


@pytest.mark.parametrize(
    ("outcome", "late", "valid"),
    [
        ("info", False, "unknown"),
        ("info with target", False, True),
        ("info with target", True, "unknown"),
        ("ok", True, True),
    ],
)
def test_what_cannot_be_told_apart_is_unknown(
    outcome: Literal["ok", "info", "info with target"], late: bool, valid: bool | str
) -> None:
    said = verdict(COMMITS, rolled_back(outcome, late=late).evidence())
    assert said.valid == valid and not said.anomalies
    assert any("cannot be told apart" in n for n in said.notes) == (valid == "unknown")


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("by", ["swap", "request"])
def test_a_request_that_proxies_saw_tells_who_set_main_back(by: str, late: bool) -> None:
    """Only the rollback's own request, to where main went, tells it."""
    d = rolled_back("info", late=late)
    e = d.evidence()
    file = next(m.location for m in e.logs["t"].metadata[2:] if m.current == 1)
    for op, to, where, valid in (
        ("r", 1, file, True),
        ("r", 2, "s3://w/t/other.json", "unknown"),
        ("a", 1, file, "unknown"),
    ):
        swap = PointerSwap(0, 0, 1, op, None, where, "200")
        change = AcceptedChange(0, 0, 1, op, None, (), to, "POST /v1/namespaces/n/tables/t", "200")
        seen = replace(e, swaps={"t": (swap,)}) if by == "swap" else replace(e, accepted={"t": (change,)})
        assert verdict(COMMITS, seen).valid == valid, (op, to)


def test_an_acknowledged_rollback_that_never_was_is_found() -> None:
    d = Drawing()
    a = d.did("a", "insert", ids=[1], add=[row(1, "a")])
    for n in range(2, 5):
        d.did(f"b{n}", "insert", ids=[n], add=[row(n, f"b{n}")])
        d.capture()
    d.invoke("r", "rollback", back=1)
    d.ok("r", {"snapshot": a, "rows": [[4, a]]})
    d.did("c", "insert", ids=[9], add=[row(9, "c")])
    assert names(COMMITS, d.evidence()) == ["lost-rollback"]


def test_a_rollback_to_where_main_is_leaves_no_trace() -> None:
    d = Drawing()
    a = d.did("a", "insert", ids=[1], add=[row(1, "a")])
    d.invoke("r", "rollback", back=1)
    d.ok("r", {"snapshot": a, "rows": [[a, a]]})
    d.did("b", "insert", ids=[2], add=[row(2, "b")])
    assert verdict(COMMITS, d.evidence()).valid is True


def test_a_read_after_a_rollback_must_not_see_what_it_took_out() -> None:
    d = rolled_back()
    d.read("late", [row(1, "a"), row(2, "b"), row(3, "c")])
    assert names(READS, d.evidence()) == ["stale-read"]


@pytest.mark.parametrize("rollback", [True, False])
def test_a_read_of_rows_that_main_has_again_later_may_have_seen_what_a_rollback_took_out(rollback: bool) -> None:
    """The table is empty twice: by a delete that was rolled back, and by one that began before and commits last. Without the first one, the
    read that finds it empty has seen the second one, and a later read has not."""
    d = Drawing()
    a = d.did("a", "insert", ids=[1], add=[row(1, "a")])
    d.invoke("slow", "delete", ids=[1])
    if rollback:
        x = d.did("x", "delete", ids=[1], remove=[row(1, "a")])
    d.read("empty", [])
    if rollback:
        d.invoke("r", "rollback", back=1)
        d.set_main(a)
        d.ok("r", {"snapshot": a, "rows": [[x, a]]})
    d.read("full", [row(1, "a")])
    d.commit("slow", remove=[row(1, "a")])
    d.info("slow")
    assert names(ISOLATION, d.evidence()) == ([] if rollback else ["G-single-realtime"])


def test_a_staged_snapshot_that_was_picked_is_not_lost_when_the_picked_one_is_rolled_back() -> None:
    d = Drawing()
    d.did("a", "insert", ids=[1], add=[row(1, "a")])
    d.invoke("w", "insert", ids=[3])
    d.commit("w", add=[row(3, "w")], visible=False, summary={"icequake-op": "w", "wap.id": "w"})
    b = d.did("b", "insert", ids=[2], add=[row(2, "b")])
    c = d.commit("w", add=[row(3, "w")])
    d.ok("w")
    d.invoke("r", "rollback", back=1)
    d.set_main(b)
    d.ok("r", {"snapshot": b, "rows": [[c, b]]})
    assert names(COMMITS, d.evidence()) == []


# --- a rollback that the evidence need not have -------------------------------------------------------------------------


def begins_at(e: Evidence, first: int, *, expired: frozenset[int] = frozenset()) -> Evidence:
    """The evidence with a log that lacks the versions before this one: they were deleted before it was read.

    ``expired``: snapshots that its first version no longer lists.
    """
    log = e.logs["t"]
    before = {"metadata-log": [{"metadata-file": log.metadata[first - 1].location}]}
    left = [
        replace(m, n=m.n - first, snapshots=tuple(s for s in m.snapshots if s not in expired))
        for m in log.metadata[first:]
    ]
    listed = {s for m in left for s in m.snapshots}
    commits = [replace(c, metadata=max(0, c.metadata - first)) for c in log.commits if c.snapshot_id in listed]
    short = replace(log, metadata=(replace(left[0], raw=before), *left[1:]), commits=tuple(commits))
    return replace(e, logs={"t": short})


def test_what_a_rollback_took_out_before_the_log_begins_is_not_lost() -> None:
    e = rolled_back().evidence()
    versions = e.logs["t"].metadata
    after = next(n for n, m in enumerate(versions[1:], 1) if m.current == 1 and versions[n - 1].current == 3)
    said = verdict(COMMITS, begins_at(e, after))
    assert not said.anomalies and said.valid == "unknown" and "of b, c are not on main" in " ".join(said.notes)
    kept = verdict(COMMITS, begins_at(e, after - 1))
    assert not kept.anomalies, "b is below c, which the first version has on main"


def test_what_was_off_main_before_the_log_begins_is_lost_if_nothing_was_rolled_back() -> None:
    e = rolled_back("none").evidence()
    assert names(COMMITS, begins_at(e, 4)) == ["lost-commit", "lost-commit"]


def test_an_acknowledged_rollback_before_the_log_begins_may_have_had_its_effect() -> None:
    d = Drawing()
    a = d.did("a", "insert", ids=[1], add=[row(1, "a")])
    b = d.did("b", "insert", ids=[2], add=[row(2, "b")])
    d.invoke("r", "rollback", back=1)
    d.set_main(a)
    d.ok("r", {"snapshot": a, "rows": [[b, a]]})
    d.did("c", "insert", ids=[3], add=[row(3, "c")])
    e = d.evidence()
    assert verdict(COMMITS, e).valid is True
    assert verdict(COMMITS, begins_at(e, 4)).anomalies == ()


@pytest.mark.parametrize("captured", [False, True])
def test_what_a_rollback_took_out_and_an_expiry_removed_before_the_log_begins_is_not_lost(captured: bool) -> None:
    """Captures of versions that the log lacks say nothing of when its first version was made."""
    e = rolled_back().evidence()
    if captured:
        log = e.logs["t"]
        early = [Capture(n, log.metadata[n].location) for n in (1, 2)]
        e = replace(e, logs={"t": replace(log, captures=(*early, *log.captures))})
    assert verdict(COMMITS, begins_at(e, 4)).anomalies == ()
    said = verdict(COMMITS, begins_at(e, 4, expired=frozenset({2, 3})))
    assert not said.anomalies and said.valid == "unknown"
    bare = begins_at(rolled_back("none").evidence(), 4, expired=frozenset({2, 3}))
    assert names(COMMITS, bare) == ["lost-commit", "lost-commit"]


def test_a_read_before_the_log_begins_may_have_seen_what_a_rollback_took_out() -> None:
    said = verdict(READS, begins_at(rolled_back(read=True).evidence(), 4))
    assert not said.anomalies and said.valid == "unknown"
    assert names(READS, begins_at(rolled_back("none", read=True).evidence(), 4)) == ["dirty-read"]


def test_a_read_of_what_was_rolled_back_before_the_log_begins_depends_on_nothing_that_is_known() -> None:
    """It equals no state of main, but each of its keys equals one."""
    d = Drawing()
    d.did("a", "insert", ids=[1, 2, 3], add=[row(1, "a"), row(2, "a"), row(3, "a")])
    d.did("b", "delete", ids=[1], remove=[row(1, "a")])
    d.read("seen", [row(2, "a"), row(3, "a")])
    d.invoke("r", "rollback", back=1)
    d.set_main(1)
    d.ok("r", {"snapshot": 1, "rows": [[2, 1]]})
    d.did("e", "delete", ids=[3], remove=[row(3, "a")])
    d.did("f", "delete", ids=[1], remove=[row(1, "a")])
    e = d.evidence()
    assert verdict(ISOLATION, e).valid is True
    said = verdict(ISOLATION, begins_at(e, 3, expired=frozenset({2})))
    assert not said.anomalies and said.valid == "unknown"


@pytest.mark.parametrize("read_on", [True, False])
def test_a_rollback_after_the_end_of_an_incomplete_history_is_not_a_loss(read_on: bool) -> None:
    """The log was read for longer than the history goes; if it ends with the history, whoever set main back is in it."""
    e = rolled_back("none").evidence(complete=False)
    invoked = next(x for x in e.history.events if x.op == "d")
    cut = replace(e, history=replace(e.history, events=e.history.events[: invoked.index]))
    if not read_on:
        last = cut.history.events[-1].time
        log = e.logs["t"]
        at = next(m.location for m in reversed(log.metadata) if m.current == 1)
        shorter = replace(log, metadata=log.metadata[:-1], commits=log.commits[:-1], captures=(Capture(last, at),))
        cut = replace(cut, logs={"t": shorter})
    said = verdict(COMMITS, cut)
    assert [a.name for a in said.anomalies] == ([] if read_on else ["lost-commit", "lost-commit"])
    assert said.valid is (False if not read_on else "unknown")


# --- a simulated Iceberg ------------------------------------------------------------------------------------------------

ROLLING = {**ROW_BY_ROW, "rollback": 3}


def run(seed: int, level: Literal["serializable", "snapshot"], unknown: float, **defects: float) -> Evidence:
    specs = [
        TableSpec(name="a", mode="merge-on-read", isolation=level, partitions=2, seed_rows=4),
        TableSpec(name="b", format_version=3, isolation=level, partitioned=False, partitions=2, seed_rows=4),
    ]
    return simulate(seed, specs, unknown=unknown, mix=ROLLING, defects=Defects(**defects)).evidence()


def test_a_rollback_that_a_later_version_needs_does_not_explain_an_earlier_one() -> None:
    """Two rollbacks to one snapshot overlap: if the second explained the first version, nothing would explain the second one."""
    specs = [TableSpec(name=t, isolation="serializable", partitions=2, seed_rows=3) for t in "ab"]
    e = simulate(39, specs, ops=12, mix={**MIX, "rollback": 2}).evidence()
    assert verdict(COMMITS, e).valid is True


@pytest.mark.parametrize(
    ("level", "back", "rows"),
    [("serializable", False, [-3, -2, -1]), ("serializable", True, [-1]), ("snapshot", True, [-3, -1])],
)
def test_a_simulated_serializable_blind_append_is_refused_if_a_rollback_took_out_what_it_has_read(
    level: Literal["serializable", "snapshot"], back: bool, rows: list[int]
) -> None:
    ideal = Run(Random(0), [TableSpec(name="a", isolation=level)], 4, MIX, 0.0, 0.0, CLEAN)
    table, kind = ideal.tables["a"], KINDS["merge-insert"]
    for n, own in enumerate((-1, -2)):
        for _ in ideal.write(f"w0-{n}", kind, table, {"ids": [own]}):
            pass
    under_way = ideal.write("w0-2", kind, table, {"ids": [-2, -3]})
    next(under_way)
    if back:
        table.set_main(table.ancestry()[1], ideal.wall_ms("w1-0"))
    with pytest.raises(Refused) if back and level == "serializable" else nullcontext():
        for _ in under_way:
            pass
    assert sorted(r.id for r in table.contents[table.current].values()) == rows


@pytest.mark.slow
@pytest.mark.parametrize("level", ["serializable", "snapshot"])
def test_a_clean_run_with_rollbacks_is_valid(level: Literal["serializable", "snapshot"]) -> None:
    taken = 0
    for seed in range(40):
        e = run(seed, level, 0.0)
        found = check(e)
        assert found.valid is True, (seed, [(a.name, a.explanation) for v in found.verdicts for a in v.anomalies])
        taken += sum(t["rolled_back"] for t in found.verdicts[0].stats["tables"].values())
        assert check(run(seed, level, 0.2)).valid is not False, seed
    assert taken > 40


def test_lost_commits_are_found_among_rollbacks() -> None:
    found = sum(COMMITS.check(run(seed, "serializable", 0.0, lose=0.5)).valid is False for seed in range(40))
    assert found > 15
