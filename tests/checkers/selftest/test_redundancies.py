"""What a table log says twice: each pair is held by a rule that a planted bug shows, or its file is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from checkers.evidence import tablelog_file
from checkers.evidence.evidence import Evidence
from checkers.evidence.tablelog import TableLogError
from checkers.formats.iceberg.metadata.checker import MetadataRules
from checkers.formats.iceberg.metadata.rules import SPEC_RULES
from checkers.selftest import ALL, recorded, trial
from checkers.selftest.redundancies import REDUNDANCIES, Redundancy
from checkers.selftest.world import World

BUGS = {m.name: m for m in ALL}
HELD = [x for x in REDUNDANCIES if x.rules]


@pytest.fixture(scope="module")
def runs() -> dict[str, Evidence]:
    return {name: recorded.load(name) for name in recorded.names()}


def test_no_pair_is_listed_twice() -> None:
    assert len({(x.first, x.second) for x in REDUNDANCIES}) == len(REDUNDANCIES) >= 40


@pytest.mark.parametrize("x", HELD, ids=lambda x: f"{x.first} {x.second}")
def test_a_pair_is_held_by_rules_that_a_planted_bug_shows(x: Redundancy, runs: dict[str, Evidence]) -> None:
    rules, bugs = {*x.rules.split()}, x.bugs.split()
    assert rules <= SPEC_RULES.keys() and bugs and {*bugs} <= BUGS.keys()
    worlds = [World(e, Random(0)) for e in runs.values()]
    for name in bugs:
        score = trial.try_plant(BUGS[name], MetadataRules(), worlds, placements=2, seed=8)
        assert score.passed and rules & score.names.keys(), score.misses


Lines = list[dict[str, Any]]


def other(type: str, key: str, value: Callable[[Any], Any]) -> Callable[[Lines], None]:
    """The last record of a type says something else."""

    def damage(lines: Lines) -> None:
        record = next(r for r in reversed(lines) if r["type"] == type)
        record[key] = value(record[key])

    return damage


def kept_less(lines: Lines) -> None:
    growth = next(g for r in lines for g in (r.get("grown") or {}).values())
    growth["keep"] += 1


REFUSED: dict[str, Callable[[Lines], None]] = {
    "`n` of a version": other("metadata", "n", lambda n: n + 1),
    "`skip` and `keep` of a list that grew": kept_less,
    "`metadata` of a commit": other("commit", "metadata", lambda n: 10**9),
    "`attempt`": other("commit", "attempt", lambda n: n + 1),
    "`op`": other("commit", "op", lambda op: f"{op}0"),
    "the number of values in a row": other(
        "commit", "added", lambda rows: [[[*row, 1], *where] for row, *where in rows]
    ),
}


@pytest.mark.parametrize("x", [x for x in REDUNDANCIES if not x.rules], ids=lambda x: x.first)
def test_a_pair_is_refused_with_file_and_line(x: Redundancy, runs: dict[str, Evidence], tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    log = next(log for log in runs["quick-120"].logs.values() if log.commits[-1].added)
    tablelog_file.write(log, path)
    assert tablelog_file.read(path) == log
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    REFUSED[x.first](lines)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    with pytest.raises(TableLogError, match=r"t\.jsonl:[0-9]+: "):
        tablelog_file.read(path)
