"""The ``replay`` checker: every anomaly drawn, every legal oddity drawn, an exhaustive oracle, and simulated runs."""

from __future__ import annotations

import re
import uuid
from collections import Counter
from collections.abc import Callable, Mapping
from random import Random
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checkers.evidence.evidence import Evidence
from checkers.evidence.history import Operation
from checkers.evidence.problem import problem_of
from checkers.evidence.replace import replace
from checkers.evidence.tablelog import Capture, Commit, MissingFile, RowChange, TableLog
from checkers.formats.iceberg.metadata import MetadataRules
from checkers.judge.check import ALL, check
from checkers.replay.walk import Replay
from checkers.timeline.promise import BLIND_APPEND, ROW_DELTA
from checkers.timeline.timelines import timelines
from checkers.verdict import Anomaly, Checker
from tests.support.amount import many
from tests.support.drawing import Drawing, names, row, verdict
from tests.support.simulator import MIX, UPSERTING, Defects, Simulation, simulate
from workloads.operations.kinds import KINDS
from workloads.tables import Row, State, TableSpec

REPLAY = Replay()
Level = Literal["serializable", "snapshot"]


def seeded(isolation: Level = "snapshot", **spec: object) -> tuple[Drawing, Row, Row]:
    """A table with the rows of ids 1 and 2."""
    d = Drawing(isolation, **spec)  # type: ignore[arg-type]
    one, two = row(1, "seed"), row(2, "seed")
    d.did("seed", "insert", ids=[1, 2], add=[one, two])
    return d, one, two


# --- anomalies --------------------------------------------------------------------------------------------------------


def undelete(isolation: Level = "snapshot", **spec: object) -> Evidence:
    """The delete scanned id 1 before the update committed, and removed the place where it was."""
    d, one, _ = seeded(isolation, **spec)
    d.invoke("d", "delete", ids=[1])
    d.did("u", "update-register", ids=[1], remove=[one], add=[one._replace(val="u")])
    d.commit("d")
    d.ok("d")
    return d.evidence()


def undelete_of_one_of_several() -> Evidence:
    d = Drawing("snapshot")
    rows = [row(0, "seed"), row(4, "seed"), row(8, "seed")]
    d.did("seed", "insert", ids=[0, 4, 8], add=rows)
    d.invoke("d", "delete-partition", part=0)
    d.did("u", "update-append", ids=[4], remove=[rows[1]], add=[rows[1]._replace(log="seed,u")])
    d.commit("d", remove=[rows[0], rows[2]])
    d.ok("d")
    return d.evidence()


def undelete_by_compaction() -> Evidence:
    d, _, _ = seeded("serializable")
    d.invoke("d", "delete", ids=[1])
    d.invoke("c", "rewrite-data-files", strategy="binpack", all=True)
    d.commit("c", rewrites=["data/1.parquet"])
    d.ok("c")
    d.commit("d")
    d.ok("d")
    return d.evidence()


def delete_of_nothing() -> Evidence:
    d, _, _ = seeded()
    d.did("d", "delete", ids=[1])
    return d.evidence()


def lost_update() -> Evidence:
    """Both increments are acknowledged, and the counter says 1."""
    d, one, _ = seeded()
    d.invoke("a", "update-counter", ids=[1])
    b = one._replace(cnt=1)
    d.did("b", "update-register", ids=[1], remove=[one], add=[one._replace(val="b")])
    d.commit("a", remove=[one._replace(val="b")], add=[b])
    d.ok("a")
    return d.evidence()


def removed_with_another() -> Evidence:
    """An update's commit takes a row with it that a concurrent insert had made."""
    d, one, _ = seeded()
    d.invoke("a", "update-register", ids=[1])
    d.did("b", "insert", ids=[3], add=[row(3, "b")])
    d.commit("a", remove=[one, row(3, "b")], add=[one._replace(val="a")])
    d.ok("a")
    return d.evidence()


def resurrected_by_an_update() -> Evidence:
    d, one, _ = seeded()
    d.invoke("u", "update-register", ids=[1])
    d.did("d", "delete", ids=[1], remove=[one])
    d.commit("u", add=[one._replace(val="u")])
    d.ok("u")
    return d.evidence()


def resurrected_by_a_compaction() -> Evidence:
    d, one, _ = seeded()
    d.did("d", "delete", ids=[1], remove=[one])
    d.did("c", "rewrite-data-files", strategy="binpack", all=True, add=[one])
    return d.evidence()


def resurrected_by_another_write() -> Evidence:
    d, one, _ = seeded()
    d.did("d", "delete", ids=[1], remove=[one])
    d.did("i", "insert", ids=[5], add=[row(5, "i"), one])
    return d.evidence()


def duplicated_by_an_update() -> Evidence:
    d, one, _ = seeded()
    d.invoke("u", "update-register", ids=[1])
    d.did("v", "update-counter", ids=[1], remove=[one], add=[one._replace(cnt=1)])
    d.commit("u", add=[one._replace(val="u")])
    d.ok("u")
    return d.evidence()


def duplicated_by_a_move() -> Evidence:
    d, one, _ = seeded()
    d.invoke("u", "update-register", ids=[1])
    d.invoke("c", "rewrite-data-files", strategy="binpack", all=True)
    d.commit("c", rewrites=["data/1.parquet"])
    d.ok("c")
    d.commit("u", add=[one._replace(val="u")])
    d.ok("u")
    return d.evidence()


def inserted_twice() -> Evidence:
    d = Drawing()
    d.did("i", "insert", ids=[1], add=[row(1, "i"), row(1, "i")])
    return d.evidence()


def compaction_that_loses_a_row() -> Evidence:
    d, one, _ = seeded()
    d.did("c", "rewrite-data-files", strategy="binpack", all=True, remove=[one])
    return d.evidence()


def compaction_that_changes_a_value() -> Evidence:
    d, one, _ = seeded()
    d.did("c", "rewrite-manifests", remove=[one], add=[one._replace(val="x")])
    return d.evidence()


def swapped_values() -> Evidence:
    d = Drawing()
    d.did("i", "insert", ids=[1, 2], add=[row(1, "i", part=2), row(2, "i", part=1)])
    return d.evidence()


def unread_phantom(isolation: Level) -> Evidence:
    """An update by predicate does not see a row that was inserted before it committed."""
    d, one, _ = seeded(isolation)
    d.invoke("u", "update-register-where", part=1, parity=0)
    d.did("i", "insert", ids=[5], add=[row(5, "i")])
    d.commit("u", remove=[one], add=[one._replace(val="u")])
    d.ok("u")
    return d.evidence()


def two_merges_insert_the_same_key(isolation: Level) -> Evidence:
    d, _, _ = seeded(isolation)
    d.invoke("a", "merge-insert", ids=[3])
    d.did("b", "merge-insert", ids=[3], add=[row(3, "b")])
    d.commit("a", add=[row(3, "a")])
    d.ok("a")
    return d.evidence()


def scanned_before_it_was_invoked() -> Evidence:
    """The copy is of a value that an acknowledged write had replaced before the copy began."""
    d, one, _ = seeded()
    d.did("u", "update-append", ids=[1], remove=[one], add=[one._replace(log="seed,u")])
    d.did("c", "insert-select", **{"from": 1, "to": 3}, add=[Row(3, "c", 0, "seed,c", 3)])  # type: ignore[arg-type]
    return d.evidence()


def read_of_a_lost_commit() -> Evidence:
    d, _, _ = seeded()
    base = d.main
    d.invoke("c", "insert-select", **{"from": 3, "to": 4})  # type: ignore[arg-type]
    d.invoke("i", "insert", ids=[3])
    d.commit("i", add=[row(3, "i")])
    d.info("i")
    d.set_main(base)
    d.commit("c", add=[Row(4, "c", 0, "i,c", 0)])
    d.ok("c")
    return d.evidence()


def read_of_a_commit_rolled_back(
    level: Level = "snapshot", *, answered: bool = False, followed: bool = False, certain: bool = True
) -> Evidence:
    """A copy scans an acknowledged snapshot that a rollback takes out of main.

    ``answered``: the rollback is acknowledged before the copy is invoked. ``followed``: another commit is, on that snapshot.
    ``certain``: there is a rollback.
    """
    d, _, _ = seeded(level)
    base = d.main
    above = d.did("i", "insert", ids=[3], add=[row(3, "i")])
    if followed:
        above = d.did("j", "update-append", ids=[3], remove=[row(3, "i")], add=[row(3, "i")._replace(log="i,j")])
    if not answered:
        d.invoke("c", "insert-select", **{"from": 3, "to": 4})  # type: ignore[arg-type]
    if certain:
        d.invoke("r", "rollback")
    d.set_main(base)
    if certain:
        d.ok("r", {"snapshot": base, "rows": [[above, base]]})
    if answered:
        d.invoke("c", "insert-select", **{"from": 3, "to": 4})  # type: ignore[arg-type]
    d.commit("c", add=[Row(4, "c", 0, "i,c", 0)])
    d.ok("c")
    return d.evidence()


@pytest.mark.parametrize(
    ("drawn", "words"),
    [
        (
            {"level": "serializable"},
            "took that snapshot out of main while this one was under way. The table is serializable",
        ),
        ({"answered": True}, "it scanned a state that was no longer there"),
        ({"followed": True}, "or another commit had followed it"),
        ({"certain": False}, "made of rows that were never written"),
    ],
)
def test_a_read_of_what_main_had_once_is_accused_with_its_reason(drawn: dict[str, Any], words: str) -> None:
    (found,) = verdict(REPLAY, read_of_a_commit_rolled_back(**drawn)).anomalies
    assert found.name == "vanished-read" and words in found.explanation


def test_snapshot_isolation_allows_a_read_of_what_a_rollback_removes_meanwhile() -> None:
    e = read_of_a_commit_rolled_back()
    said = verdict(REPLAY, e)
    assert said.valid is True and said.stats["tables"]["t"]["write_skew_ops"] == ["c"]
    assert check(e, [c for c in ALL if c.name != "load"]).valid is True


@pytest.mark.parametrize(
    ("draw", "found"),
    [
        (undelete, ["undelete"]),
        (lambda: undelete("serializable"), ["undelete"]),
        (undelete_of_one_of_several, ["undelete"]),
        (undelete_by_compaction, ["undelete"]),
        (delete_of_nothing, ["wrong-rows"]),
        (lost_update, ["lost-update"]),
        (removed_with_another, ["lost-update"]),
        (resurrected_by_an_update, ["resurrected-row"]),
        (resurrected_by_a_compaction, ["resurrected-row"]),
        (resurrected_by_another_write, ["resurrected-row"]),
        (duplicated_by_an_update, ["duplicate-row"]),
        (duplicated_by_a_move, ["duplicate-row"]),
        (inserted_twice, ["duplicate-row"]),
        (compaction_that_loses_a_row, ["compaction-changed-rows"]),
        (compaction_that_changes_a_value, ["compaction-changed-rows"]),
        (swapped_values, ["wrong-rows"]),
        (lambda: unread_phantom("serializable"), ["write-skew"]),
        (lambda: two_merges_insert_the_same_key("serializable"), ["write-skew"]),
        (scanned_before_it_was_invoked, ["stale-scan"]),
        (read_of_a_lost_commit, ["vanished-read"]),
    ],
)
def test_an_anomaly_is_named_once(draw: Callable[[], Evidence], found: list[str]) -> None:
    assert names(REPLAY, draw()) == found


def test_an_undelete_says_who_changed_the_row_and_where_it_lives() -> None:
    (a,) = verdict(REPLAY, undelete()).anomalies
    assert a.ops == ("d", "u") and a.snapshots == (2, 3) and a.keys == (1,) and a.documented == ROW_DELTA
    assert (a.evidence["file"], a.evidence["position"]) == ("data/2.parquet", 0) and a.files[0] == "data/2.parquet"
    for words in (
        "the delete of id 1 (d, process 101) was invoked at 0.002 s and acknowledged at 0.005 s",
        "snapshot 3 (sequence number 3), which it made, still contains (id 1, val 'u', cnt 0, log 'seed', part 1)",
        "in data/2.parquet position 0",
        "the update-register of id 1 (u, process 102)",
    ):
        assert words in a.explanation


def test_an_undelete_of_a_key_with_several_rows_names_what_became_of_the_row_that_was_scanned() -> None:
    d = Drawing("snapshot")
    first, second = row(1, "a", log="a"), row(1, "b", log="b")
    d.did("a", "insert", ids=[1], add=[first])
    d.did("b", "insert", ids=[1], add=[second])
    d.invoke("d", "delete", ids=[1])
    d.did("u", "update-register", ids=[1], remove=[first, second], add=[r._replace(val="u") for r in (first, second)])
    d.commit("d")
    d.ok("d")
    (a,) = verdict(REPLAY, d.evidence()).anomalies
    for scanned in ("a", "b"):
        if f"It scanned (id 1, val '{scanned}'" in a.explanation:
            assert f"made (id 1, val 'u', cnt 0, log '{scanned}', part 1) of it" in a.explanation
            return
    raise AssertionError(a.explanation)


def test_every_row_of_a_key_is_paired_by_meaning() -> None:
    naming_rows = [row(1, v, log=v) for v in "wxyz"]
    d = Drawing("snapshot")
    for r in naming_rows:
        d.did(r.val, "insert", ids=[1], add=[r])
    d.invoke("d", "delete", ids=[1])
    d.did("u", "update-append", ids=[1], remove=naming_rows, add=[r._replace(log=r.log + ",u") for r in naming_rows])
    d.commit("d")
    d.ok("d")
    (a,) = verdict(REPLAY, d.evidence()).anomalies
    scanned, made = re.findall(r"log '([^']*)'", a.explanation.partition("It scanned")[2])[:2]
    assert made == f"{scanned},u"


@pytest.mark.parametrize(
    ("isolation", "spec", "documented"),
    [
        ("snapshot", {}, True),
        ("snapshot", {"mode": "copy-on-write"}, False),
        ("snapshot", {"format_version": 3}, False),
        ("serializable", {}, False),
        ("serializable", {"properties": {"write.delete.isolation-level": "snapshot"}}, True),
        ("snapshot", {"properties": {"write.delete.mode": "copy-on-write"}}, False),
    ],
)
def test_iceberg_documents_the_undelete_of_v2_merge_on_read_under_snapshot_isolation(
    isolation: Level, spec: dict[str, object], documented: bool
) -> None:
    (a,) = verdict(REPLAY, undelete(isolation, **spec)).anomalies
    assert (a.documented == ROW_DELTA) == documented


@pytest.mark.parametrize(("partitioned", "found"), [(True, ["write-skew"]), (False, [])])
def test_a_delete_of_a_partition_takes_effect_when_it_commits_at_any_level(partitioned: bool, found: list[str]) -> None:
    d = Drawing("snapshot", partitioned=partitioned)
    d.did("i", "insert", ids=[1], add=[row(1, "i")])
    d.invoke("x", "delete-partition", part=1)
    d.did("j", "insert", ids=[5], add=[row(5, "j")])
    d.commit("x", remove=[row(1, "i")])
    d.ok("x")
    assert names(REPLAY, d.evidence()) == found


def test_a_blind_append_is_documented_and_another_write_skew_is_not() -> None:
    (a,) = verdict(REPLAY, two_merges_insert_the_same_key("serializable")).anomalies
    (b,) = verdict(REPLAY, unread_phantom("serializable")).anomalies
    assert (a.documented, b.documented) == (BLIND_APPEND, None)
    assert a.ops == ("a", "b") and b.ops == ("u", "i")


def test_after_an_anomaly_the_walk_goes_on_from_the_real_rows() -> None:
    d, one, two = seeded()
    d.did("c", "rewrite-data-files", strategy="binpack", all=True, remove=[one])
    d.did("u", "update-register", ids=[1])
    d.did("v", "update-register", ids=[2], remove=[two], add=[two._replace(val="v")])
    assert names(REPLAY, d.evidence()) == ["compaction-changed-rows"]


# --- what only looks like one -----------------------------------------------------------------------------------------


def deleted_by_both() -> Evidence:
    d, one, _ = seeded()
    d.invoke("a", "delete", ids=[1])
    d.did("b", "delete", ids=[1], remove=[one])
    d.commit("a")
    d.ok("a")
    return d.evidence()


def deleted_by_both_and_a_phantom() -> Evidence:
    """The delete of the partition scanned ids 1 and 5; then an insert made id 9, which it did not see, and a delete had id 1."""
    d = Drawing("snapshot", partitioned=False)
    rows = [row(1, "seed"), row(5, "seed")]
    d.did("seed", "insert", ids=[1, 5], add=rows)
    d.invoke("a", "delete-partition", part=1)
    d.did("c", "insert", ids=[9], add=[row(9, "c")])
    d.did("b", "delete", ids=[1], remove=[rows[0]])
    d.commit("a", remove=[rows[1]])
    d.ok("a")
    return d.evidence()


def deleted_and_inserted_again() -> Evidence:
    """The row that the delete scanned was deleted, and another row of its key inserted: the delete did not see that one."""
    d, one, _ = seeded()
    d.invoke("a", "delete", ids=[1])
    d.did("b", "delete", ids=[1], remove=[one])
    d.did("c", "insert", ids=[1], add=[row(1, "c")])
    d.commit("a")
    d.ok("a")
    return d.evidence()


def unknown_operation_that_took_effect() -> Evidence:
    d, one, _ = seeded("serializable")
    d.invoke("u", "update-register", ids=[1])
    d.info("u")
    d.did("v", "update-counter", ids=[2], remove=[row(2, "seed")], add=[row(2, "seed", cnt=1)])
    d.commit("u", remove=[one], add=[one._replace(val="u")])
    return d.evidence()


def empty_statements_and_procedures() -> Evidence:
    d, _, _ = seeded("serializable")
    d.did("u", "update-register", ids=[9])
    d.did("d", "delete", ids=[9])
    d.did("m", "merge-insert", ids=[1])
    d.did("c", "rewrite-data-files", strategy="binpack", all=True)
    return d.evidence()


def equal_rows_are_a_multiset() -> Evidence:
    d = Drawing()
    d.did("i", "insert", ids=[1], add=[row(1, "i")])
    d.did("j", "insert", ids=[1], add=[row(1, "j")])
    d.did("k", "update-register", ids=[1], remove=[row(1, "i"), row(1, "j")],
          add=[row(1, "k", log="i"), row(1, "k", log="j")])  # fmt: skip
    d.did("m", "insert-select", **{"from": 1, "to": 2},  # type: ignore[arg-type]
          add=[Row(2, "m", 0, "i,m", 2), Row(2, "m", 0, "j,m", 2)])  # fmt: skip
    return d.evidence()


def carried_over_rows_that_the_log_did_not_cancel() -> Evidence:
    d, one, two = seeded("serializable")
    d.did("u", "update-register", ids=[1], remove=[one, two], add=[one._replace(val="u"), two])
    return d.evidence()


@pytest.mark.parametrize(
    "draw",
    [
        lambda: unread_phantom("snapshot"),
        lambda: two_merges_insert_the_same_key("snapshot"),
        deleted_by_both,
        deleted_by_both_and_a_phantom,
        deleted_and_inserted_again,
        unknown_operation_that_took_effect,
        empty_statements_and_procedures,
        equal_rows_are_a_multiset,
        carried_over_rows_that_the_log_did_not_cancel,
    ],
)
def test_what_only_looks_like_an_anomaly_is_valid(draw: Callable[[], Evidence]) -> None:
    said = verdict(REPLAY, draw())
    assert said.valid is True, said


def test_legal_write_skew_is_counted_and_named() -> None:
    stats = verdict(REPLAY, unread_phantom("snapshot")).stats["tables"]["t"]
    assert (stats["write_skew"], stats["write_skew_ops"]) == (1, ["u"])
    stats = verdict(REPLAY, deleted_by_both_and_a_phantom()).stats["tables"]["t"]
    assert (stats["overlapping_deletes"], stats["overlapping_deletes_ops"]) == (1, ["a"])


@pytest.mark.parametrize("level", ["snapshot", "SNAPSHOT"])
def test_a_serializable_table_may_weaken_one_command(level: str) -> None:
    e = unread_phantom("serializable")
    weak = e.tables["t"].model_copy(update={"properties": {"write.update.isolation-level": level}})
    assert verdict(REPLAY, replace(e, tables={"t": weak})).valid is True


def after_a_commit_that_landed_twice(lands: Callable[[Drawing], object], lost: bool = False) -> Evidence:
    """An update that scanned before an insert which came meanwhile, in a table where another operation's commit landed a second time.

    Args:
        lands: draws one landing of that operation, ``twice``.
        lost: whether main loses the first landing.
    """
    d, one, _ = seeded("snapshot")
    d.invoke("i", "insert", ids=[5])
    if lands is a_procedure:
        d.invoke("twice", "rewrite-data-files", strategy="binpack", all=True)
    else:
        d.invoke("twice", "insert", ids=[3])
    lands(d)
    d.ok("twice")
    if lost:
        d.set_main(1)
    d.invoke("u", "update-register-where", part=1, parity=0)
    d.commit("i", add=[row(5, "i")])
    d.ok("i")
    lands(d)
    d.commit("u", remove=[one], add=[one._replace(val="u")])
    d.ok("u")
    return d.evidence()


def a_statement(d: Drawing) -> None:
    d.commit("twice", add=[row(3, "twice")])


def a_procedure(d: Drawing) -> None:
    d.commit("twice", rewrites=["data/1.parquet"])


@pytest.mark.parametrize("lands", [a_statement, a_procedure])
@pytest.mark.parametrize("lost", [False, True])
def test_a_second_landing_of_a_commit_proves_nothing_of_the_time_of_the_acknowledgement(
    lands: Callable[[Drawing], object], lost: bool
) -> None:
    e = after_a_commit_that_landed_twice(lands, lost)
    (t,) = timelines(e)[0]
    u = t.everything["u"]
    assert t.main[-1].op == "u" and t.main[-2].op == "twice" and t.out_of_order == frozenset()
    assert verdict(REPLAY, e).valid is True
    assert t.settled(u.invoked.index) == (1 if lost else 2)


# --- when the log cannot tell -------------------------------------------------------------------------------------------


def test_behind_unknown_rows_only_what_needs_no_state_is_checked() -> None:
    d, one, two = seeded()
    d.did("u", "update-register", ids=[1], remove=[one], add=[one._replace(val="u")])
    d.did("v", "update-register", ids=[2], remove=[two], add=[two._replace(val="v")])
    d.did("c", "rewrite-manifests", add=[row(3, "x")])
    d.did("i", "insert", ids=[7], add=[row(7, "other")])
    e = d.evidence()
    commits = list(e.logs["t"].commits)
    commits[1] = replace(
        commits[1], added=None, removed=None, problems=(problem_of("data file x is corrupt: torn; needed by 2"),)
    )
    said = verdict(REPLAY, replace(e, logs={"t": replace(e.logs["t"], commits=tuple(commits))}))
    assert [(a.name, a.ops[0]) for a in said.anomalies] == [("compaction-changed-rows", "c"), ("wrong-rows", "i")]
    assert "x is corrupt" in said.notes[0] and said.stats["tables"]["t"]["not_replayed"] == 2


def test_rows_that_cannot_be_known_are_no_verdict() -> None:
    d, one, _ = seeded()
    d.did("u", "update-register", ids=[1], remove=[one], add=[one._replace(val="u")])
    e = d.evidence()
    unread = replace(e.logs["t"].commits[1], added=None, removed=None)
    log = replace(e.logs["t"], commits=(e.logs["t"].commits[0], unread))
    assert verdict(REPLAY, replace(e, logs={"t": log})).valid == "unknown"


def test_a_log_without_root_is_no_verdict() -> None:
    d = Drawing()
    d.invoke("a", "update-register", ids=[1])
    d.commit("a", remove=[row(1, "x")], add=[row(1, "a", log="x")], parent_id=77)
    d.ok("a")
    assert verdict(REPLAY, d.evidence()).valid == "unknown"


def test_values_that_no_operation_writes_have_no_meaning_but_do_not_stop_the_walk() -> None:
    d = Drawing("snapshot")
    broken = Row(1, "i", None, None, 1)  # type: ignore[arg-type]
    d.did("i", "insert", ids=[1], add=[broken])
    d.did("u", "update-counter", ids=[1], remove=[broken], add=[broken._replace(cnt=1)])
    d.did("c", "rewrite-manifests", add=[row(3, "x")])
    assert names(REPLAY, d.evidence()) == ["wrong-rows", "compaction-changed-rows"]


def test_a_log_that_contradicts_itself_is_no_verdict() -> None:
    d, _, _ = seeded()
    d.did("d", "delete", ids=[9], remove=[row(9, "x")])
    said = verdict(REPLAY, d.evidence())
    assert said.valid is False and any("not in its parent" in n for n in said.notes)


# --- files that are gone ------------------------------------------------------------------------------------------------


def test_a_file_of_main_that_is_gone_is_named_with_the_commit_that_added_it() -> None:
    d, one, _ = seeded()
    d.invoke("u", "update-register", ids=[1])
    d.commit("u", remove=[one], add=[one._replace(val="u")])
    d.fail("u")
    gone = (MissingFile("data/2.parquet", (2,)), MissingFile("metadata/snap-2-1-x.avro", (2,)))
    (a,) = verdict(REPLAY, d.evidence(missing_files=gone)).anomalies
    assert (a.name, a.ops, a.snapshots) == ("missing-file", ("u",), (2,))
    assert a.files == ("data/2.parquet", "metadata/snap-2-1-x.avro") and "reported as failed" in a.explanation


def test_a_file_that_only_a_lost_snapshot_needs_is_not_mains() -> None:
    d, _, _ = seeded()
    base = d.main
    d.did("i", "insert", ids=[3], add=[row(3, "i")])
    d.set_main(base)
    assert names(REPLAY, d.evidence(missing_files=(MissingFile("data/2.parquet", (2,)),))) == []


def test_a_listed_commit_whose_files_are_missing_is_an_anomaly_and_an_expired_one_is_not() -> None:
    d, _, _ = seeded()
    d.did("i", "insert", ids=[3], add=[row(3, "i")])
    d.did("j", "insert", ids=[4], add=[row(4, "j")])
    e = d.evidence()
    commits = list(e.logs["t"].commits)
    why = (problem_of("manifest m.avro is missing; needed by snapshot 2 (op i)"),)
    commits[1] = replace(commits[1], added=None, removed=None, problems=why)
    log = replace(e.logs["t"], commits=tuple(commits))
    assert names(REPLAY, replace(e, logs={"t": log})) == ["missing-file"]
    expired = replace(log, metadata=(*log.metadata[:-1], replace(log.metadata[-1], snapshots=(3,))))
    assert verdict(REPLAY, replace(e, logs={"t": expired})).valid == "unknown"


def test_metadata_that_the_catalog_points_at_and_nobody_can_read_is_a_missing_file() -> None:
    d, _, _ = seeded()
    d.captures.append(Capture(99_000_000, "s3://w/t/metadata/gone.metadata.json"))
    (a,) = verdict(REPLAY, d.evidence(capture=False)).anomalies
    assert (a.name, a.files) == ("missing-file", ("s3://w/t/metadata/gone.metadata.json",))


@pytest.mark.parametrize("checker", [REPLAY, MetadataRules()])
def test_a_missing_manifest_is_of_the_commit_whose_uuid_its_name_has(checker: Checker) -> None:
    d, _, _ = seeded()
    d.did("a", "insert", ids=[7], add=[row(7, "a")])
    d.did("b", "insert", ids=[8], add=[row(8, "b")])
    e = d.evidence()
    log = e.logs["t"]
    names = {c.snapshot_id: str(uuid.UUID(int=c.snapshot_id)) for c in log.commits}
    commits = tuple(
        replace(c, manifest_list=f"metadata/snap-{c.snapshot_id}-1-{names[c.snapshot_id]}.avro") for c in log.commits
    )
    early, late = (next(c for c in commits if c.op == op) for op in ("a", "b"))

    def found(file: str) -> Anomaly:
        """What is said of a file that only the later snapshot still needs."""
        missing = (MissingFile(file, (late.snapshot_id,)),)
        said = checker.check(replace(e, logs={"t": replace(log, commits=commits, missing_files=missing)})).anomalies
        (a,) = (a for a in said if a.name == "missing-file")
        return a

    written = found(f"metadata/{names[early.snapshot_id]}-m1.avro")
    assert written.ops == ("a",) and f"{early.snapshot_id}" in written.explanation
    for file in ("metadata/optimized-m-1.avro", f"metadata/{uuid.UUID(int=99)}-m0.avro"):
        nobodys = found(file)
        assert nobodys.ops == () and "No commit of the log wrote it, so no operation is named." in nobodys.explanation


# --- an oracle ----------------------------------------------------------------------------------------------------------


def explained(e: Evidence, table: str, k: int) -> bool:
    """Whether some scan that the level allows explains main's k-th commit: all scans tried, everything worked out anew."""
    spec, chain = e.tables[table], e.logs[table].main()
    ops = {o.op: o for o in e.history.operations()}
    c = chain[k - 1]
    assert c.op is not None and c.added is not None and c.removed is not None
    o = ops[c.op]
    kind = KINDS[o.f]

    def rows(changes: tuple[RowChange, ...] | None) -> Counter[Row]:
        return Counter(Row(*x.row) for x in changes or ())

    def state(j: int) -> Counter[Row]:
        total: Counter[Row] = Counter()
        for x in chain[:j]:
            total = total - rows(x.removed) + rows(x.added)
        return total

    removed, added = rows(c.removed), rows(c.added)
    if not kind.changes_rows:
        return not removed and not added
    invoked = o.invoked.index
    settled = max(
        (
            n
            for n, x in enumerate(chain, 1)
            if n < k and (w := ops[x.op or ""]).type == "ok" and w.completed is not None and w.completed.index < invoked
        ),
        default=0,
    )
    if spec.isolation == "serializable" or (o.f == "delete-partition" and spec.partitioned) or kind.overwrites:
        settled = k - 1
    for j in range(settled, k):
        meaning = kind.writeset(State(state(j).elements()), o.value, o.op, spec)
        want_removed, want_added = Counter(meaning.removed), Counter(meaning.added)
        if (want_removed - want_added, want_added - want_removed) == (removed, added):
            return True
        only_deletes = not want_added and not added and not removed - want_removed
        others_had_the_rest = all(deleted(r, chain[j : k - 1], ops) for r in want_removed - removed)
        if spec.isolation == "snapshot" and only_deletes and others_had_the_rest:
            return True
    return False


def deleted(r: Row, commits: list[Commit], ops: Mapping[str, Operation]) -> bool:
    """Whether these commits deleted the row, or what they had made of it; an overwrite makes nothing of it, but puts another there."""
    for c in commits:
        if any(x.row == tuple(r) for x in c.removed or ()):
            same = [x for x in c.added or () if x.row[0] == r.id]
            if not same or KINDS[ops[c.op or ""].f].overwrites:
                return True
            r = Row(*same[0].row)
    return False


TINY: dict[Level, list[TableSpec]] = {
    level: [TableSpec(name="a", mode="merge-on-read", isolation=level, partitions=2, seed_rows=3)]
    for level in ("serializable", "snapshot")
}
BROKEN = Defects(undelete=0.5, overwrite=0.5, skew=0.5, blind=0.5, resurrect=0.5, drop_rows=0.3)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(many(2)))
@pytest.mark.parametrize("level", ["serializable", "snapshot"])
def test_small_histories_are_judged_as_by_trying_every_scan(level: Level, block: int) -> None:
    """Six operations of three processes, some of unknown outcome, 5,000 histories in all."""
    found = 0
    for seed in range(block * 1_250, (block + 1) * 1_250):
        e = simulate(seed, TINY[level], writers=3, ops=2, keys=2, unknown=0.15, defects=BROKEN).evidence()
        chain = e.logs["a"].main()
        guilty = [c.op for k, c in enumerate(chain, 1) if not explained(e, "a", k)]
        assert [a.ops[0] for a in REPLAY.check(e).anomalies] == guilty, seed
        found += bool(guilty)
    assert 10 < found < 1_000


@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.integers(0, 10**6), st.sampled_from(["serializable", "snapshot"]))
def test_the_walk_agrees_with_an_oracle_that_tries_every_scan(seed: int, level: Level) -> None:
    e = simulate(seed, TINY[level], writers=3, ops=5, keys=3, defects=BROKEN).evidence()
    chain = e.logs["a"].main()
    guilty = [c.op for k, c in enumerate(chain, 1) if not explained(e, "a", k)]
    assert [a.ops[0] for a in REPLAY.check(e).anomalies] == guilty


# --- simulated runs -----------------------------------------------------------------------------------------------------

SPECS: dict[Level, list[TableSpec]] = {
    level: [
        TableSpec(name="a", mode="merge-on-read", isolation=level, partitions=2, seed_rows=4),
        TableSpec(name="b", format_version=3, isolation=level, partitioned=False, partitions=2, seed_rows=4),
    ]
    for level in ("serializable", "snapshot")
}


LEFT_OVER = {"write-skew", "undelete", "duplicate-row", "resurrected-row"}
"""What a statement is called that should take the rows that are there when it commits, and leaves some."""


@pytest.mark.parametrize("level", ["serializable", "snapshot"])
def test_clean_runs_are_valid(level: Level) -> None:
    skew = 0
    for seed in range(200):
        said = REPLAY.check(simulate(seed, SPECS[level]).evidence())
        assert said.valid is True, (seed, said)
        skew += sum(t["write_skew"] + t["overlapping_deletes"] for t in said.stats["tables"].values())
    assert (skew > 50) == (level == "snapshot")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("defect", "level", "defects", "names", "at_least"),
    [
        ("lose_equality", "serializable", Defects(lose_equality=1.0), {"resurrected-row"}, 30),
        ("lose_equality", "snapshot", Defects(lose_equality=1.0), {"resurrected-row"}, 30),
        ("younger", "serializable", Defects(younger=1.0), {"wrong-rows"}, 150),
        ("younger", "snapshot", Defects(younger=1.0), {"wrong-rows"}, 150),
        ("undelete", "snapshot", Defects(undelete=1.0), {"undelete"}, 10),
        ("overwrite", "snapshot", Defects(overwrite=1.0), {"duplicate-row", "resurrected-row"}, 60),
        ("overwrite", "serializable", Defects(overwrite=1.0), {"duplicate-row"}, 20),
        ("skew", "serializable", Defects(skew=1.0), {"write-skew"}, 15),
        ("blind", "serializable", Defects(blind=1.0), {"write-skew"}, 5),
        ("stale_overwrite", "serializable", Defects(stale_overwrite=1.0), LEFT_OVER, 5),
        ("stale_overwrite", "snapshot", Defects(stale_overwrite=1.0), LEFT_OVER, 5),
        ("resurrect", "serializable", Defects(resurrect=1.0), {"resurrected-row"}, 3),
        ("drop_rows", "serializable", Defects(drop_rows=0.5), {"compaction-changed-rows"}, 20),
        ("lose", "snapshot", Defects(lose=0.3), set(), 0),
        ("false_failure", "snapshot", Defects(false_failure=0.3), set(), 0),
        ("forget", "snapshot", Defects(forget=0.1), set(), 0),
        ("early", "snapshot", Defects(early=0.7), {"stale-scan", "wrong-rows"}, 0),
        ("early", "serializable", Defects(early=0.7), set(), 0),
    ],
)
def test_a_defect_is_named_and_nothing_else(
    defect: str, level: Level, defects: Defects, names: set[str], at_least: int
) -> None:
    found = 0
    for seed in range(100):
        equality = defect in ("lose_equality", "younger", "resurrect")  # with many compactions
        run = simulate(seed, SPECS[level], defects=defects, mix=UPSERTING if equality else MIX)
        guilty = {op for d, op in run.injected if d == defect}
        said = REPLAY.check(run.evidence())
        assert {a.name for a in said.anomalies} <= names, (seed, said.anomalies)
        assert {a.ops[0] for a in said.anomalies} <= guilty or defect == "early", (
            seed
        )  # the one that scanned, not the late one
        assert all(len(a.explanation) < 2000 for a in said.anomalies)
        found += len(said.anomalies)
    assert found >= at_least


def with_commit(run: Simulation, changed: Commit) -> Evidence:
    """The run with one commit told differently."""
    e = run.evidence()

    def change(log: TableLog) -> TableLog:
        return replace(log, commits=tuple(changed if c.snapshot_id == changed.snapshot_id else c for c in log.commits))

    return replace(e, logs={name: change(log) for name, log in e.logs.items()})


@pytest.mark.parametrize("level", ["serializable", "snapshot"])
def test_any_row_that_is_told_differently_is_found(level: Level) -> None:
    rng = Random(f"told {level}")
    for seed in range(100):
        run = simulate(seed, SPECS[level])
        log = run.logs[rng.choice(sorted(run.logs))]
        c = rng.choice([c for c in log.main() if c.added])
        assert c.added is not None
        victim = rng.choice(c.added)
        values = list(victim.row)
        at = rng.randrange(5)
        values[at] = values[at] + 1 if isinstance(values[at], int) else f"{values[at]}x"
        added = tuple(replace(x, row=tuple(values)) if x is victim else x for x in c.added)
        said = REPLAY.check(with_commit(run, replace(c, added=added)))
        assert said.anomalies and said.anomalies[0].ops[0] == c.op, seed


@pytest.mark.parametrize("level", ["serializable", "snapshot"])
def test_any_row_that_a_commit_did_not_touch_and_should_have_is_found(level: Level) -> None:
    rng = Random(f"untouched {level}")
    for seed in range(100):
        run = simulate(seed, SPECS[level])
        log = run.logs[rng.choice(sorted(run.logs))]
        c = rng.choice([c for c in log.main() if c.added or c.removed])
        part = "added" if c.added else "removed"
        less = getattr(c, part)[1:]
        e = with_commit(run, replace(c, **{part: less}))
        said = REPLAY.check(e)
        chain = e.logs[log.table].main()
        k = 1 + [x.snapshot_id for x in chain].index(c.snapshot_id)
        assert (c.op in {a.ops[0] for a in said.anomalies}) == (not explained(e, log.table, k)), seed
