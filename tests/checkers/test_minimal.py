"""Minimal histories: they show the anomaly, and without any one of their operations they do not; and the trail from operation to row."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest

from checkers.evidence.evidence import Evidence
from checkers.judge.check import ALL, check
from checkers.judge.minimal import _Search, _shown, minimal
from checkers.judge.trail import trail
from checkers.verdict import Anomaly, Checker, MinimalHistory
from tests.support.drawing import Drawing, row
from tests.support.judging import UNREDUCED
from tests.support.simulator import Defects, simulate
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
    search = _Search(e, checker, a, 1)
    assert search.shows(found.ops, found.ids)
    again = [o for o in e.history.operations() if o.op in found.ops]
    assert [o.op for o in again] == list(found.ops)
    search.shown = {o.op: _shown(o, found.ids) & set(found.ops) for o in again}
    for op in found.ops:
        if len(found.ops) > 1:
            assert not search.shows([x for x in found.ops if x != op], found.ids), (a.name, found.ops, op)
    return len(found.ops)


@pytest.mark.slow
@pytest.mark.parametrize("defect", [f.name for f in fields(Defects)])
def test_every_anomaly_has_a_minimal_history(defect: str) -> None:
    sizes = []
    for specs in SPECS.values():
        for seed in range(3):
            e = simulate(seed, specs, ops=25, defects=Defects(**{defect: 0.5})).evidence()
            sizes += [is_minimal(e, c, a) for c in CHECKERS for a in c.check(e).anomalies[:2]]
    assert all(n <= 60 for n in sizes)
    assert sizes or defect in ("lose_change", "skew", "blind", "undelete", "resurrect", "dirty_read", "stale_overwrite")


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
    found = minimal(e, replay, a, budget=3)
    assert found is not None and not found.complete and set(found.ops) >= {"seed", "d", "u"}


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
