"""Minimal histories: they show the anomaly, and without any one of their operations they do not; and the trail from operation to row."""

from __future__ import annotations

from dataclasses import fields
from itertools import pairwise

import pytest

from checkers.evidence.evidence import Evidence
from checkers.evidence.replace import replace
from checkers.judge.check import ALL, check
from checkers.judge.minimal import QUESTIONS, WorkBudget, _Search, _shown, minimal, reduced, with_minimal
from checkers.judge.trail import trail
from checkers.verdict import Anomaly, Checker, MinimalHistory
from tests.support.drawing import Drawing, row
from tests.support.judging import UNREDUCED
from tests.support.simulator import OF_DELTA_ALONE, Defects, simulate
from workloads.tables import TableSpec

CHECKERS = [c for c in ALL if c.reducible]
SPECS = {
    level: [
        TableSpec(name="a", mode="merge-on-read", isolation=level, partitions=2, seed_rows=4),
        TableSpec(name="b", format_version=3, isolation=level, partitioned=False, partitions=2, seed_rows=4),
    ]
    for level in ("serializable", "snapshot")
}


def is_minimal(e: Evidence, checker: Checker, a: Anomaly) -> int:
    """Asserts it, afresh; how many operations it has."""
    found = minimal(e, checker, a)
    assert found is not None and found.complete and a.ops[0] in found.ops
    search = _Search(
        reduced(e, a.table or "", frozenset(o.op for o in e.history.operations()), found.ids), checker, a, WorkBudget()
    )
    assert search.shows(found.ops)
    again = [o for o in e.history.operations() if o.op in found.ops]
    assert [o.op for o in again] == list(found.ops)
    search.shown = {o.op: _shown(o, found.ids) & set(found.ops) for o in again}
    for op in found.ops:
        if len(found.ops) > 1:
            assert not search.shows([x for x in found.ops if x != op]), (a.name, found.ops, op)
    return len(found.ops)


@pytest.mark.slow
@pytest.mark.parametrize(
    "defect", [f.name for f in fields(Defects) if f.type == "float" and f.name not in OF_DELTA_ALONE]
)
def test_every_anomaly_has_a_minimal_history(defect: str) -> None:
    sizes = []
    for specs in SPECS.values():
        for seed in range(3):
            e = simulate(seed, specs, ops=25, defects=Defects(**{defect: 0.5})).evidence()
            sizes += [is_minimal(e, c, a) for c in CHECKERS for a in c.check(e).anomalies[:2]]
    assert all(n <= 60 for n in sizes)
    seldom = ("skew", "blind", "undelete", "resurrect", "dirty_read", "stale_overwrite", "lose_equality", "younger")
    assert sizes or defect in ("lose_change", *seldom)


def undelete() -> Evidence:
    """Among other rows and writers: the delete scanned id 1 before the update committed."""
    d = Drawing("snapshot")
    rows = [row(i, "seed") for i in range(4)]
    d.did("seed", "insert", ids=[0, 1, 2, 3], add=rows)
    d.did("x", "update-counter", ids=[2], remove=[rows[2]], add=[rows[2]._replace(cnt=1)])
    d.invoke("d", "delete", ids=[1])
    d.did("u", "update-register", ids=[1], remove=[rows[1]], add=[rows[1]._replace(val="u")])
    d.did("y", "delete", ids=[3], remove=[rows[3]])
    d.commit("d")
    d.ok("d")
    return d.evidence()


def test_an_undelete_takes_an_insert_an_update_and_a_delete_of_its_id() -> None:
    results = check(undelete())
    (a,) = [a for v in results.verdicts for a in v.anomalies if a.name == "undelete"]
    assert a.minimal == MinimalHistory(("seed", "d", "u"), (1,), complete=True)
    told = {entry["op"]: entry for entry in a.trail}
    assert list(told) == list(a.ops)
    (made,) = told["u"]["snapshots"]
    assert made["on_main"] and made["attempt"] == 1 and made["manifest_list"].startswith("metadata/snap-")
    assert [(r["sign"], r["row"][:2]) for r in made["rows"]] == [("-", [1, "seed"]), ("+", [1, "u"])]
    assert all(r["file"].startswith("data/") and isinstance(r["position"], int) for r in made["rows"])


def test_an_operation_without_a_snapshot_ends_its_trail() -> None:
    d = Drawing()
    d.did("seed", "insert", ids=[1], add=[row(1, "seed")])
    d.invoke("w", "insert", ids=[2])
    d.ok("w")
    (a,) = check(d.evidence(), CHECKERS).verdicts[0].anomalies
    assert a.name == "lost-commit" and a.minimal is not None and a.minimal.ops == ("w",)
    assert [(entry["op"], entry["snapshots"]) for entry in trail(d.evidence(), a)] == [("w", [])]


def test_where_the_budget_ends_the_history_is_not_called_minimal() -> None:
    e = undelete()
    (replay,) = [c for c in CHECKERS if c.name == "replay"]
    (a,) = replay.check(e).anomalies
    found = minimal(e, replay, a, WorkBudget(questions=3))
    assert found is not None and not found.complete and set(found.ops) >= {"seed", "d", "u"}


def test_without_a_question_left_there_is_no_minimal_history() -> None:
    e = undelete()
    replay = next(c for c in CHECKERS if c.name == "replay")
    (a,) = replay.check(e).anomalies
    for spent in (WorkBudget(questions=0), WorkBudget(operations=0)):
        assert minimal(e, replay, a, spent) is None
        assert spent.short


def several_undeletes(n: int) -> Evidence:
    """The delete of each of ``n`` ids scanned its row before the update of it committed."""
    d = Drawing("snapshot")
    rows = [row(i, "seed") for i in range(n)]
    d.did("seed", "insert", ids=list(range(n)), add=rows)
    for i in range(n):
        d.invoke(f"d{i}", "delete", ids=[i])
        d.did(f"u{i}", "update-register", ids=[i], remove=[rows[i]], add=[rows[i]._replace(val=f"u{i}")])
        d.commit(f"d{i}")
        d.ok(f"d{i}")
    return d.evidence()


def test_what_was_not_reduced_is_said() -> None:
    (replay,) = [v for v in check(several_undeletes(5)).verdicts if v.checker == "replay"]
    assert [a.minimal is not None for a in replay.anomalies] == [True, True, True, False, False]
    (note,) = replay.notes
    assert "not searched to the end for 2 of 5 undelete" in note
    (replay,) = [v for v in check(several_undeletes(3)).verdicts if v.checker == "replay"]
    assert not replay.notes


def test_one_budget_serves_all_anomalies_of_a_name() -> None:
    replay = next(c for c in CHECKERS if c.name == "replay")
    e = several_undeletes(3)
    found = replay.check(e)
    first = WorkBudget()
    minimal(e, replay, found.anomalies[0], first)
    verdict = with_minimal(found, replay, e, lambda: WorkBudget(questions=1 + QUESTIONS - first.questions))
    assert [a.minimal is not None and a.minimal.complete for a in verdict.anomalies] == [True, False, False]
    (note,) = verdict.notes
    assert "2 of 3 undelete" in note


def test_a_question_has_only_the_versions_that_it_asks_about() -> None:
    """A version that differs from the one before in its time alone goes; its successor descends from the one before, and captures show that."""
    e = simulate(3, SPECS["snapshot"], ops=30).evidence()
    log = e.logs["a"]
    op = next(c.op for c in log.main()[4:] if c.op is not None)
    left = reduced(e, "a", frozenset({op}), ()).logs["a"]
    assert len(left.metadata) < len(log.metadata) / 2
    assert [m.n for m in left.metadata] == list(range(len(left.metadata)))
    assert all(left.metadata[c.metadata].current == c.snapshot_id for c in left.main())
    locations = [m.location for m in left.metadata]
    for before, m in pairwise(left.metadata):
        assert m.predecessor == before.location
    assert all(c.metadata in locations for c in left.captures)


def test_an_overwrite_touches_ids_that_it_does_not_name() -> None:
    """The overwrite of partition 1 names id 9 alone, and leaves id 1, which it should have taken: only rows of id 1 need be looked at."""
    d = Drawing()
    rows = [row(i, "seed") for i in (1, 2, 5)]
    d.did("seed", "insert", ids=[1, 2, 5], add=rows)
    d.did("x", "update-counter", ids=[2], remove=[rows[1]], add=[rows[1]._replace(cnt=1)])
    d.did("o", "overwrite-where", part=1, ids=[9], remove=[rows[2]], add=[row(9, "o")])
    e = d.evidence()
    replay = next(c for c in ALL if c.name == "replay")
    (a,) = replay.check(e).anomalies
    assert (a.name, a.keys) == ("wrong-rows", (1,))
    found = minimal(e, replay, a)
    assert found is not None and (found.ids, found.ops) == ((1,), ("seed", "o"))


def test_without_minimal_histories_the_verdicts_are_the_same() -> None:
    run = simulate(1, SPECS["serializable"], defects=Defects(lose=0.5)).evidence()
    whole, plain = check(run), check(run, UNREDUCED)
    assert whole.valid is plain.valid is False
    for one, other in zip(whole.verdicts, plain.verdicts, strict=True):
        assert all(a.minimal is None for a in other.anomalies)
        assert [replace(a, minimal=None) for a in one.anomalies] == list(other.anomalies)
    assert any(a.minimal is not None for v in whole.verdicts for a in v.anomalies)
