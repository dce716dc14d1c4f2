"""The checkers on tables of Delta Lake: the format-neutral planted bugs run unchanged, and Delta's own are found by ``protocol``."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest

from checkers.evidence import tablelog_file
from checkers.evidence.evidence import Evidence
from checkers.evidence.outcome import classify, conflict
from checkers.evidence.tableformat import format_of
from checkers.formats.delta.records import DeltaCommit, DeltaMetadata
from checkers.formats.delta.tableformat import MOST_ATTEMPTS
from checkers.judge.check import ALL as CHECKERS
from checkers.judge.check import check
from checkers.selftest import OF_DELTA, deltalogs, recorded, trial
from checkers.selftest.plant import Plant
from checkers.selftest.world import World

PLACEMENTS = 12
BY_NAME = {c.name: c for c in CHECKERS}
NEUTRAL = [p for p in OF_DELTA if p.neutral and p.checker in BY_NAME]


@pytest.fixture(scope="module")
def runs() -> dict[str, Evidence]:
    return {name: recorded.load(name) for name in recorded.names(recorded.DELTA_RUNS)}


@pytest.fixture(scope="module")
def worlds(runs: dict[str, Evidence]) -> list[World]:
    return [World(e, Random(0)) for e in runs.values()]


def test_a_recorded_run_on_delta_tables_is_valid_by_all_checkers(runs: dict[str, Evidence]) -> None:
    for e in runs.values():
        results = check(e)
        assert results.valid is True, [
            (v.checker, v.anomalies, v.notes) for v in results.verdicts if v.valid is not True
        ]
        (protocol,) = [v for v in results.verdicts if v.checker == "protocol"]
        assert all(t["versions"] > 10 for t in protocol.stats["tables"].values()) and len(protocol.stats["tables"]) == 3
        assert {type(c) for log in e.logs.values() for c in log.commits} == {DeltaCommit}
        assert {type(m) for log in e.logs.values() for m in log.metadata} == {DeltaMetadata}


def test_a_run_without_a_delta_table_has_no_verdict_on_its_protocol() -> None:
    (name, *_) = recorded.names()
    assert "protocol" not in {v.checker for v in check(recorded.load(name)).verdicts}


def test_a_log_that_is_written_and_read_again_is_the_same(runs: dict[str, Evidence], tmp_path: Path) -> None:
    for e in runs.values():
        for log in e.logs.values():
            tablelog_file.write(log, tmp_path / "t.jsonl")
            assert tablelog_file.read(tmp_path / "t.jsonl") == log
            assert format_of(log).backoff({}).num_retries == MOST_ATTEMPTS


@pytest.mark.parametrize("plant", deltalogs.PLANTS, ids=lambda p: p.name)
def test_a_bug_of_a_delta_log_is_found_and_laid_to_whoever_made_it(plant: Plant[Any], worlds: list[World]) -> None:
    score = trial.try_plant(plant, BY_NAME[plant.checker], worlds, placements=PLACEMENTS, seed=1)
    assert score.passed, score.misses
    assert score.accused == score.guilty, score.innocents


def test_every_rule_of_the_protocol_is_broken_by_a_planted_bug() -> None:
    assert {name for p in deltalogs.PLANTS for name in p.finds} == BY_NAME["protocol"].names


def test_the_format_neutral_bugs_are_found_unchanged(worlds: list[World]) -> None:
    scores = [trial.try_plant(p, BY_NAME[p.checker], worlds, placements=3, seed=1) for p in NEUTRAL]
    assert [(s.plant.name, s.misses) for s in scores if s.detected < s.planted] == []
    assert sum(s.planted > 0 for s in scores) >= 100, [s.plant.name for s in scores if not s.planted]


CHAIN = "io.delta.exceptions.ConcurrentAppendException"


@pytest.mark.parametrize(
    ("error", "outcome", "because"),
    [
        ([[CHAIN, "[DELTA_CONCURRENT_APPEND.WITHOUT_HINT] …"]], "fail", "ConcurrentAppendException"),
        ([["org.apache.hadoop.fs.s3a.HttpChannelEOFException", "…"]], "info", None),
        ([["java.nio.file.FileAlreadyExistsException", "s3a://b/t/_delta_log/3.json"]], "info", None),
    ],
)
def test_only_what_delta_refuses_after_it_looked_at_the_winner_had_certainly_no_effect(
    error: list[list[str]], outcome: str, because: str | None
) -> None:
    assert (classify(error, writes=True), conflict(error)) == (outcome, because)
