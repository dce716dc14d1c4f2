"""Operations whose one commit adds several snapshots, as PyIceberg's do: drawn histories that are right, and that are wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from checkers.commits import Commits
from checkers.evidence.evidence import Evidence
from checkers.isolation import Isolation
from checkers.reads import Reads
from checkers.replay import Replay
from checkers.timeline.timelines import timelines
from checkers.verdict import Checker
from tests.support.drawing import Drawing, names, row
from workloads.tables import Row

CHECKERS: tuple[Checker, ...] = (Commits(), Replay(), Reads(), Isolation())


def seeded(isolation: Any = "serializable") -> tuple[Drawing, Row, Row]:
    d = Drawing(isolation, "copy-on-write")
    one, two = row(1, "seed"), row(2, "seed")
    d.did("seed", "insert", ids=[1, 2], add=[one, two])
    return d, one, two


def found(evidence: Evidence) -> list[str]:
    return [name for checker in CHECKERS for name in names(checker, evidence)]


def overwritten(engine: str | None = "pyiceberg", *, shown: bool = False) -> Evidence:
    """An update: what it selects is removed in one snapshot, and added again in the next."""
    d, one, two = seeded()
    d.invoke("u", "update-register", ids=[1], engine=engine)
    half = d.commit("u", remove=[one], shown=shown)
    d.commit("u", add=[one._replace(val="u")], parent=half)
    d.ok("u")
    d.read("r", [one._replace(val="u"), two])
    return d.evidence()


def in_three() -> Evidence:
    """An upsert: a file rewritten, the changed row and the new one added, each in a snapshot."""
    d, one, two = seeded()
    d.invoke("u", "upsert", ids=[1, 3], engine="pyiceberg")
    first = d.commit("u", remove=[one, two], add=[two], shown=False)
    second = d.commit("u", add=[row(1, "u")], parent=first, shown=False)
    d.commit("u", add=[row(3, "u")], parent=second)
    d.ok("u")
    d.read("r", [row(1, "u"), two, row(3, "u")])
    return d.evidence()


def time_travel_to_the_half() -> Evidence:
    """A reader asked for the snapshot between the two, which a catalog may list in its history."""
    d, one, two = seeded()
    d.invoke("u", "update-register", ids=[1], engine="pyiceberg")
    half = d.commit("u", remove=[one], shown=False)
    d.commit("u", add=[one._replace(val="u")], parent=half)
    d.ok("u")
    d.invoke("r", "read-snapshot", back=1)
    d.ok("r", {"snapshot": half, "rows": [list(two)]})
    return d.evidence()


def after_one_rival() -> Evidence:
    """Two such updates of other rows, one after the other."""
    d, one, two = seeded()
    d.invoke("u", "update-counter", ids=[1], engine="pyiceberg")
    d.invoke("v", "update-counter", ids=[2], engine="pyiceberg")
    for op, old in (("u", one), ("v", two)):
        half = d.commit(op, remove=[old], shown=False)
        d.commit(op, add=[old._replace(cnt=1)], parent=half)
        d.ok(op)
    d.read("r", [one._replace(cnt=1), two._replace(cnt=1)])
    return d.evidence()


@pytest.mark.parametrize("drawn", [overwritten, in_three, time_travel_to_the_half, after_one_rival])
def test_one_commit_of_several_snapshots_is_one_commit(drawn: Callable[[], Evidence]) -> None:
    assert found(drawn()) == []


def test_its_rows_are_the_net_of_all_its_snapshots() -> None:
    (t,), _ = timelines(in_three())
    assert [c.op for c in t.main] == ["seed", "u"]
    changes = t.changes(t.main[-1])
    assert changes is not None and sorted(changes.removed) == [row(1, "seed")]
    assert sorted(changes.added) == [row(1, "u"), row(3, "u")]
    assert t.main[-1].parent_id == t.main[0].snapshot_id
    assert len(t.of_every_snapshot.log.commits) == 4


def test_each_in_a_version_of_its_own_they_are_two_commits() -> None:
    """Readers can have seen the first without the second."""
    assert "duplicate-commit" in found(overwritten(shown=True))


def test_an_engine_that_adds_one_snapshot_at_a_time_has_committed_twice() -> None:
    assert "duplicate-commit" in found(overwritten(engine=None))


def test_nobody_knows_whether_an_unknown_engine_adds_one_snapshot_at_a_time() -> None:
    e = overwritten("trino")
    assert found(e) == [] and Commits().check(e).valid is not False
    assert "duplicate-commit" in found(overwritten("trino", shown=True)), "main was at both"


def test_done_again_in_a_later_version_it_is_a_duplicate() -> None:
    d, one, _ = seeded()
    d.invoke("u", "update-counter", ids=[1], engine="pyiceberg")
    for cnt in (0, 1):
        half = d.commit("u", remove=[one._replace(cnt=cnt)], shown=False)
        d.commit("u", add=[one._replace(cnt=cnt + 1)], parent=half)
    d.ok("u")
    assert names(Commits(), d.evidence()) == ["duplicate-commit"]


def test_the_net_is_judged_by_the_meaning() -> None:
    """The second snapshot puts back less than the first removed."""
    d, one, two = seeded()
    d.invoke("u", "update-register", ids=[1], engine="pyiceberg")
    half = d.commit("u", remove=[one, two], shown=False)
    d.commit("u", add=[one._replace(val="u")], parent=half)
    d.ok("u")
    assert names(Commits(), d.evidence()) == [] and names(Replay(), d.evidence()) == ["wrong-rows"]


def test_a_lost_update_of_two_such_commits_is_found() -> None:
    """The second overwrote the row that it had read before the first."""
    d, one, _ = seeded("snapshot")
    d.invoke("u", "update-register", ids=[1], engine="pyiceberg")
    d.invoke("v", "update-counter", ids=[1], engine="pyiceberg")
    half = d.commit("u", remove=[one], shown=False)
    d.commit("u", add=[one._replace(val="u")], parent=half)
    d.ok("u")
    half = d.commit("v", remove=[one._replace(val="u")], shown=False)
    d.commit("v", add=[one._replace(cnt=1)], parent=half)
    d.ok("v")
    assert names(Replay(), d.evidence()) == ["lost-update"]


def test_a_lost_one_is_lost_once() -> None:
    """Main went back below both of its snapshots."""
    d, one, _ = seeded()
    d.invoke("u", "update-register", ids=[1], engine="pyiceberg")
    half = d.commit("u", remove=[one], shown=False)
    d.commit("u", add=[one._replace(val="u")], parent=half)
    d.ok("u")
    d.set_main(1)
    assert names(Commits(), d.evidence()) == ["lost-commit"]


def test_a_read_of_half_of_it_is_found() -> None:
    d, one, two = seeded()
    d.invoke("u", "update-register", ids=[1], engine="pyiceberg")
    half = d.commit("u", remove=[one], shown=False)
    d.commit("u", add=[one._replace(val="u")], parent=half)
    d.ok("u")
    d.read("r", [two])
    assert names(Reads(), d.evidence()) != []
