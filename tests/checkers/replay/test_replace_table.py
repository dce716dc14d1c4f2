"""Tables that are replaced by themselves: main goes on below, and what the statement had not read is a finding."""

from __future__ import annotations

from checkers.columns import check_columns
from checkers.commits import Commits
from checkers.evidence.replace import replace
from checkers.judge.check import check
from checkers.reads.checker import Reads
from checkers.replay.walk import Replay
from checkers.timeline.timelines import timelines
from tests.support.drawing import Drawing, names, row, verdict

A, B, C = row(1, "a"), row(2, "b"), row(3, "c")


def replaced() -> Drawing:
    """A, B, and the table replaced by itself."""
    d = Drawing()
    d.did("a", "insert", ids=[1], add=[A])
    d.did("b", "insert", ids=[2], add=[B])
    d.invoke("r", "replace-table")
    d.commit("r", add=[A, B], parent=None)
    d.ok("r")
    return d


def test_a_replaced_table_with_the_same_rows_is_well() -> None:
    d = replaced()
    d.did("c", "update-register", ids=[1], add=[A._replace(val="c")], remove=[A])
    d.read("all", [A._replace(val="c"), B])
    e = d.evidence()
    assert check(e).valid is True
    (t,), _ = timelines(e)
    assert [c.op for c in t.main] == ["a", "b", "r", "c"] and t.rooted
    assert t.changes(t.main[2]) == ((), ())


def test_what_was_committed_since_it_was_read_is_overwritten() -> None:
    d = Drawing()
    d.did("a", "insert", ids=[1], add=[A])
    d.invoke("r", "replace-table")
    d.did("b", "insert", ids=[2], add=[B])
    d.commit("r", add=[A], parent=None)
    d.ok("r")
    d.did("c", "insert", ids=[3], add=[C])
    e = d.evidence()
    assert names(Commits(), e) == []
    (a,) = verdict(Replay(), e).anomalies
    assert a.name == "lost-update" and a.ops == ("r", "b") and a.documented and a.keys == (2,)


def test_rows_that_no_state_had_are_not_the_table_s() -> None:
    d = Drawing()
    d.did("a", "insert", ids=[1], add=[A])
    d.invoke("r", "replace-table")
    d.commit("r", add=[C], parent=None)
    d.ok("r")
    assert names(Replay(), d.evidence()) == ["compaction-changed-rows"]


def test_a_replacement_that_never_was_is_lost() -> None:
    d = Drawing()
    d.did("a", "insert", ids=[1], add=[A])
    d.invoke("r", "replace-table")
    d.ok("r")
    assert names(Commits(), d.evidence()) == ["lost-commit"]


def test_a_replacement_made_from_an_older_version_loses_a_commit() -> None:
    """As a catalog does that takes a client's metadata as a whole."""
    d = Drawing()
    d.did("a", "insert", ids=[1], add=[A])
    old = d.metadata[-1]
    d.invoke("r", "replace-table")
    d.did("b", "insert", ids=[2], add=[B])
    d.commit("r", add=[A], parent=None)
    log = [{"timestamp-ms": 0, "metadata-file": old.location}]
    d.metadata[-1] = replace(d.metadata[-1], snapshots=(1, 3), raw={"metadata-log": log})
    d.ok("r")
    assert names(Commits(), d.evidence()) == ["lost-commit"]


def test_the_history_of_a_replaced_table_begins_where_it_was_replaced() -> None:
    """``is_current_ancestor`` follows the parents in the table's files, and a snapshot that replaces it has none."""
    for back, to, found in ((2, 3, []), (2, 1, ["stale-read"]), (0, 3, [])):
        d = replaced()
        rows = [A, B] if to == 3 else [A]
        d.invoke("t", "read-snapshot", back=back)
        d.ok("t", {"snapshot": to, "rows": [list(r) for r in rows]})
        assert names(Reads(), d.evidence()) == found, (back, to)


def test_columns_say_the_same() -> None:
    never = Drawing()
    never.did("a", "insert", ids=[1], add=[A])
    never.invoke("r", "replace-table")
    never.ok("r")
    for d, valid in ((replaced(), True), (never, False)):
        assert check_columns(d.evidence())[0].valid is valid
