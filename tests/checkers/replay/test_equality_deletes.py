"""An equality delete takes every row that is there when it commits, and none that comes later."""

from __future__ import annotations

from typing import Literal

import pytest

from checkers.evidence.evidence import Evidence
from checkers.isolation import Isolation
from checkers.judge.known import RunFacts, known_defects
from checkers.linearizable import Linearizable
from checkers.reads.checker import Reads
from checkers.replay.walk import Replay
from tests.support.drawing import Drawing, names, row, verdict

Level = Literal["serializable", "snapshot"]
LEVELS: tuple[Level, ...] = ("serializable", "snapshot")
SEED = [row(i, "seed") for i in range(4)]
ALL = (Replay(), Reads(), Isolation(), Linearizable())


def seeded(level: Level) -> Drawing:
    d = Drawing(level)
    d.did("seed", "insert", ids=[0, 1, 2, 3], add=SEED)
    return d


def valid(e: Evidence) -> None:
    for checker in ALL:
        assert verdict(checker, e).valid is True, checker.name


@pytest.mark.parametrize("level", LEVELS)
def test_it_takes_rows_of_commits_that_it_did_not_see(level: Level) -> None:
    d = seeded(level)
    d.invoke("e", "equality-delete", ids=[1])
    d.did("u", "update-counter", ids=[1], remove=[SEED[1]], add=[SEED[1]._replace(cnt=1)])
    d.did("i", "insert", ids=[1], add=[row(1, "i")])
    d.commit("e", remove=[row(1, "i"), SEED[1]._replace(cnt=1)])
    d.ok("e")
    d.read("r", [SEED[0], *SEED[2:]])
    valid(d.evidence())


@pytest.mark.parametrize("level", LEVELS)
def test_an_upsert_replaces_all_rows_and_a_later_insert_stays(level: Level) -> None:
    d = seeded(level)
    d.invoke("e", "equality-upsert", ids=[1, 7])
    d.did("i", "insert", ids=[1], add=[row(1, "i")])
    d.commit("e", remove=[row(1, "i"), SEED[1]], add=[row(1, "e"), row(7, "e")])
    d.ok("e")
    d.did("j", "insert", ids=[1], add=[row(1, "j")])
    d.read("r", [SEED[0], *SEED[2:], row(1, "e"), row(1, "j"), row(7, "e")])
    valid(d.evidence())


@pytest.mark.parametrize("level", LEVELS)
def test_a_delete_that_finds_an_upserted_row_deletes_the_old_one_only(level: Level) -> None:
    """Iceberg commits such a DELETE under snapshot isolation, on version 3 too: an equality delete is no deletion vector."""
    d = seeded(level)
    d.invoke("d", "delete", ids=[1])
    d.did("e", "equality-upsert", ids=[1], remove=[SEED[1]], add=[row(1, "e")])
    d.commit("d")
    d.ok("d")
    d.read("r", [SEED[0], *SEED[2:], row(1, "e")])
    found = verdict(Replay(), d.evidence())
    assert found.stats["tables"]["t"]["overlapping_deletes_ops"] == (["d"] if level == "snapshot" else [])
    assert bool(found.anomalies) == (level == "serializable")


@pytest.mark.parametrize("level", LEVELS)
def test_one_that_removed_nothing_is_found(level: Level) -> None:
    d = seeded(level)
    d.did("e", "equality-delete", ids=[1])
    d.read("r", SEED)
    e = d.evidence()
    assert names(Replay(), e) == ["wrong-rows"]
    assert verdict(Linearizable(), e).valid is False


@pytest.mark.parametrize("level", LEVELS)
def test_one_that_missed_a_concurrent_row_is_found(level: Level) -> None:
    d = seeded(level)
    d.invoke("e", "equality-delete", ids=[1])
    d.did("i", "insert", ids=[1], add=[row(1, "i")])
    d.commit("e", remove=[SEED[1]])
    d.ok("e")
    (anomaly,) = verdict(Replay(), d.evidence()).anomalies
    assert anomaly.name == "write-skew" and anomaly.ops == ("e", "i") and anomaly.documented is None
    assert "takes the rows that are there when it commits" in anomaly.explanation


@pytest.mark.parametrize("level", LEVELS)
def test_one_that_missed_a_concurrent_update_is_an_undelete_that_iceberg_does_not_document(level: Level) -> None:
    d = seeded(level)
    d.invoke("e", "equality-delete", ids=[1])
    d.did("u", "update-counter", ids=[1], remove=[SEED[1]], add=[SEED[1]._replace(cnt=1)])
    d.commit("e")
    d.ok("e")
    (anomaly,) = verdict(Replay(), d.evidence()).anomalies
    assert anomaly.name == "undelete" and anomaly.documented is None


@pytest.mark.parametrize("level", LEVELS)
def test_one_that_takes_a_row_of_a_later_commit_is_found(level: Level) -> None:
    d = seeded(level)
    d.did("e", "equality-delete", ids=[1], remove=[SEED[1]])
    d.did("i", "insert", ids=[1])
    d.read("r", [SEED[0], *SEED[2:]])
    (anomaly,) = verdict(Replay(), d.evidence()).anomalies
    assert anomaly.name == "wrong-rows" and anomaly.ops == ("i",)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("f", ["rewrite-data-files", "update-counter"])
def test_a_rewrite_that_brings_its_row_back_is_found(level: Level, f: str) -> None:
    d = seeded(level)
    after = SEED[2]._replace(cnt=1)
    update = {"ids": [2]} if f == "update-counter" else {}
    d.invoke("w", f, **update)
    d.did("e", "equality-delete", ids=[1], remove=[SEED[1]])
    d.commit("w", remove=[SEED[2]] if update else [], add=[after, SEED[1]] if update else [SEED[1]])
    d.ok("w")
    (anomaly,) = verdict(Replay(), d.evidence()).anomalies
    assert anomaly.name == "resurrected-row" and set(anomaly.ops) == {"w", "e"} and anomaly.keys == (1,)


@pytest.mark.parametrize("f", ["equality-delete", "delete"])
def test_what_is_known_of_rows_that_come_back_is_named_only_beside_an_equality_delete(f: str) -> None:
    d = seeded("serializable")
    d.invoke("w", "rewrite-data-files")
    d.did("e", f, ids=[1], remove=[SEED[1]])
    d.commit("w", add=[SEED[1]])
    d.ok("w")
    e = d.evidence()
    found = known_defects(RunFacts("mine", "rest", "1.12.0"), verdict(Replay(), e).anomalies, e)
    assert bool(found) == (f == "equality-delete") and {k.scenario for k in found} <= {
        "equality-delete-compaction",
        "equality-delete-copy-on-write",
    }
