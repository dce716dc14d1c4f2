"""Snapshots that name no operation: found by their rows, or unknown, and never evidence against anybody."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from random import Random

import pytest

from checkers.columns.engine import check_columns
from checkers.commits import Commits
from checkers.evidence.evidence import Evidence
from checkers.evidence.replace import replace
from checkers.judge.check import ALL as CHECKERS
from checkers.selftest import lostcommits, recorded
from checkers.selftest.world import World
from checkers.timeline.timelines import timelines
from tests.support.drawing import Drawing, row
from tests.support.simulator import ROW_BY_ROW, simulate
from workloads.operations.kinds import KINDS
from workloads.tables import TableSpec

SPECS = (
    TableSpec(name="a", mode="copy-on-write", partitioned=False, seed_rows=8),
    TableSpec(name="b", mode="merge-on-read", seed_rows=8, isolation="snapshot"),
)


def without_label(e: Evidence, snapshots: Iterable[int]) -> Evidence:
    """The evidence with these snapshots' summaries without the operation's id."""
    gone = set(snapshots)
    logs = {}
    for name, log in e.logs.items():
        commits = tuple(
            replace(c, op=None, summary={k: v for k, v in c.summary.items() if k != "icequake-op"})
            if c.snapshot_id in gone
            else c
            for c in log.commits
        )
        logs[name] = replace(log, commits=commits)
    return replace(e, logs=logs)


@pytest.fixture(scope="module")
def run() -> Evidence:
    return recorded.load("quick-120")


def test_one_lost_label_of_a_statement_is_found_by_its_rows_or_unknown(run: Evidence) -> None:
    said: Counter[object] = Counter()
    kinds = {o.op: KINDS[o.f] for o in run.history.operations()}
    for log in run.logs.values():
        for c in log.commits:
            seen = without_label(run, [c.snapshot_id])
            assert timelines(seen)[0][[t.name for t in timelines(seen)[0]].index(log.table)].labels.how == {
                c.snapshot_id: "proxy"
            }, "the swap of the metadata file that is the first to show it"
            e = replace(seen, swaps={})
            v = Commits().check(e)
            assert v.anomalies == (), (c.op, v.anomalies)
            made = {s: op for t in timelines(e)[0] for s, op in t.labels.made.items()}
            assert made in ({}, {c.snapshot_id: c.op}), "another operation was taken for its maker"
            assert v.valid is (True if made else "unknown")
            assert sum(str(c.snapshot_id) in n for n in v.notes) == 1, "said once"
            said[kinds[c.op or ""].changes_rows, v.valid] += 1
    assert said[True, True] >= 70 and said[True, "unknown"] <= 2 and said[False, True] == 0


@pytest.mark.parametrize("share", [0.1, 0.5, 1.0])
def test_many_lost_labels_accuse_nobody(share: float) -> None:
    for seed in range(8):
        e = simulate(seed, SPECS, writers=4, ops=25, keys=5, unknown=0.1, mix=ROW_BY_ROW).evidence()
        rng = Random(seed)
        every = [c.snapshot_id for log in e.logs.values() for c in log.commits]
        bare = without_label(e, rng.sample(every, k=round(share * len(every))))
        for checker in CHECKERS:
            v = checker.check(bare)
            assert v.anomalies == (), (checker.name, seed, v.anomalies)
        for v in check_columns(bare):
            assert v.anomalies == ()
        true = {c.snapshot_id: c.op for log in e.logs.values() for c in log.commits}
        for t in timelines(bare)[0]:
            assert all(true[s] == op for s, op in t.labels.made.items())


def test_who_cannot_have_made_the_snapshot_is_still_lost(run: Evidence) -> None:
    """A refused statement is acknowledged, and beside that somebody else's label is lost."""
    found = tried = 0
    for n in range(20):
        rng = Random(n)
        bug = lostcommits.never_applied(World(run, rng))
        assert bug is not None
        log = rng.choice([log for log in run.logs.values() if log.commits])
        v = Commits().check(without_label(bug.evidence, [rng.choice(log.commits).snapshot_id]))
        assert {a.ops[0] for a in v.anomalies} <= bug.ops
        tried, found = tried + 1, found + (v.valid is False)
    assert found >= 0.9 * tried


def test_two_statements_that_fit_one_snapshot_leave_it_unknown() -> None:
    """A second delete of the same row, acknowledged without a snapshot, may be the one that made it."""
    for seed in range(40):
        e = simulate(seed, SPECS[:1], writers=2, ops=20, keys=5, mix={"insert": 3, "delete": 3}).evidence()
        (log,) = e.logs.values()
        by_op = {o.op: o for o in e.history.operations()}
        c = next((c for c in log.commits if c.removed and c.op in by_op and by_op[c.op].f == "delete"), None)
        if c is None or c.op is None:
            continue
        o = by_op[c.op]
        process = 1 + max(x.process for x in e.history.events if isinstance(x.process, int))
        twins = [replace(x, op="twin", process=process) for x in e.history.events if x.op == o.op]
        events = []
        for x in e.history.events:
            events.append(x)
            events += [twin for twin in twins if x.op == o.op and twin.type == x.type]
        history = replace(e.history, events=tuple(replace(x, index=n) for n, x in enumerate(events)))
        v = Commits().check(without_label(replace(e, history=history), [c.snapshot_id]))
        assert v.valid == "unknown" and v.anomalies == ()
        assert any("twin" in n and o.op in n for n in v.notes)
        return
    raise AssertionError("no run has such a delete")


def test_a_snapshot_without_a_label_that_a_rollback_took_out_accuses_nobody() -> None:
    """A compaction is acknowledged, its snapshot has no label, and a rollback takes it out of main."""
    d = Drawing()
    a = d.did("a", "insert", ids=[1], add=[row(1, "a")])
    d.did("b", "insert", ids=[2], add=[row(2, "b")])
    d.invoke("c", "rewrite-data-files")
    gone = d.commit("c", rewrites=["data/1.parquet", "data/2.parquet"], operation="replace")
    d.ok("c", [[2, 1, 1000, 0, 0]])
    d.invoke("r", "rollback", back=2)
    d.set_main(a)
    d.ok("r", {"snapshot": a, "rows": [[gone, a]]})
    d.did("d", "insert", ids=[4], add=[row(4, "d")])
    e = d.evidence()
    assert Commits().check(e).valid is True
    said = Commits().check(without_label(e, [gone]))
    assert said.anomalies == () and said.valid == "unknown"
    assert any(str(gone) in n and "c, acknowledged without a snapshot" in n for n in said.notes)


@pytest.mark.parametrize("lost", [0, 1, 2])
def test_a_procedure_that_may_have_made_a_snapshot_without_a_label_is_not_said_to_answer_wrongly(lost: int) -> None:
    """With partial progress a compaction makes a snapshot for each group of files; one of them, or another one's, lost its label."""
    d = Drawing()
    d.did("a", "insert", ids=[1], add=[row(1, "a")])
    d.did("b", "insert", ids=[2], add=[row(2, "b")])
    d.capture()
    d.invoke("c", "rewrite-data-files", partial_progress=True)
    first = d.commit("c", rewrites=["data/1.parquet"], operation="replace", added_files=())
    second = d.commit("c", rewrites=["data/2.parquet"], operation="replace", added_files=())
    d.ok("c", [[2, 0, 1000, 0, 0]])
    d.did("d", "insert", ids=[4], add=[row(4, "d")])
    e = d.evidence()
    assert Commits().check(e).valid is True
    said = Commits().check(without_label(e, [first, second][:lost]))
    assert said.anomalies == () and said.valid is (True if not lost else "unknown")


def test_a_procedure_that_answers_wrongly_does_so_whoever_made_a_snapshot_that_changes_rows() -> None:
    d = Drawing()
    nobodys = d.did("a", "insert", ids=[1], add=[row(1, "a")])
    d.invoke("c", "rewrite-data-files")
    d.commit("c", rewrites=["data/1.parquet"], operation="replace", added_files=())
    d.ok("c", [[2, 0, 1000, 0, 0]])
    d.did("d", "insert", ids=[4], add=[row(4, "d")])
    assert [a.name for a in Commits().check(d.evidence()).anomalies] == ["wrong-result"]
    assert "wrong-result" in [a.name for a in Commits().check(without_label(d.evidence(), [nobodys])).anomalies]
