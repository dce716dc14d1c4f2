"""Every field of the records has an entry that says what a wrong value does, and the checkers do it."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import get_type_hints

import pytest

from checkers.evidence.evidence import Evidence
from checkers.evidence.replace import replace
from checkers.judge.check import ALL
from checkers.pointer import Pointer
from checkers.selftest import fieldtrial, recorded
from checkers.selftest.fields import DEFAULTS, EXCEPTIONS, FIELD_PARTS, WrongValues, document, fate, first_word, type_of
from checkers.selftest.fieldtrial import FieldPlaces
from checkers.selftest.mutator import PER_KEY, RECORDS, MutationSite, sites, variants
from checkers.verdict import Checker, Verdict
from tests.support.amount import many
from tests.support.runs import icequake

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def runs() -> dict[str, Evidence]:
    return {name: recorded.load(name) for name in recorded.names()}


@pytest.fixture(scope="module")
def places(runs: dict[str, Evidence]) -> FieldPlaces:
    """Where the recorded runs have fields."""
    return FieldPlaces.of(runs)


@pytest.fixture(scope="module")
def occurring(runs: dict[str, Evidence]) -> frozenset[str]:
    """The fields that occur."""
    every = [*runs.values(), *fieldtrial.damaged(runs["quick-120"]).values()]
    return frozenset(s.field for e in every for s in sites(e))


def test_the_document_is_the_table() -> None:
    """``icequake`` has no command for it: ``python -m checkers.selftest.fields > docs/evidence.md`` writes it."""
    assert (ROOT / "docs" / "evidence.md").read_text(encoding="utf-8") == document()


def test_every_field_of_every_record_occurs_and_is_tried(occurring: frozenset[str]) -> None:
    tried = {f.split(" of ")[0] for f in occurring}
    for word, record in RECORDS.items():
        names = {f"{word}.{name}" for name in get_type_hints(record)} - set(PER_KEY)
        assert names - tried == set(), f"no recorded run has a value in these fields of {record.__name__}"


def test_every_exception_occurs_and_is_one(occurring: frozenset[str]) -> None:
    assert set(EXCEPTIONS) - occurring == set()
    same = [f for f, told in EXCEPTIONS.items() if DEFAULTS[type_of(f)][1] == told]
    assert same == [], "what the type says need not be said again"


def test_every_type_has_a_field_that_is_no_exception(occurring: frozenset[str]) -> None:
    assert {type_of(f) for f in occurring - set(EXCEPTIONS)} == set(DEFAULTS)


def test_what_is_said_of_a_field_is_something() -> None:
    told = [*EXCEPTIONS.values(), *(default for _, default in DEFAULTS.values())]
    assert all(f.outcomes for f in told)
    assert all(text == text.strip() and "|" not in text for f in told for text in f.texts.values())


def test_a_field_of_a_new_record_must_be_found() -> None:
    assert fate("commit.of_next_year").outcomes == {"found"}


def test_the_first_version_of_a_table_is_changed_too(runs: dict[str, Evidence], places: FieldPlaces) -> None:
    for e in runs.values():
        first = [s for s in sites(e) if s.first]
        assert {first_word(s.field) for s in first} == {"metadata", "raw"}
        assert {s.table for s in first if s.field == "metadata.n" and s.value == 0} == set(e.logs)
    once = fieldtrial.run([Blind()], places, placements=0, only=["metadata.current", "raw.location", "commit.op"])
    assert {s.field: s.tried > 0 for s in once} == {"commit.op": False, "metadata.current": True, "raw.location": True}
    assert all("first version" in miss for s in once for miss in s.misses)


WORDS = tuple(FIELD_PARTS)
"""The first words of the fields' names: each test tries the fields of one, so that they run beside each other."""


@pytest.mark.parametrize("word", WORDS)
def test_a_wrong_value_does_what_the_entry_says(places: FieldPlaces, occurring: frozenset[str], word: str) -> None:
    scores = fieldtrial.run(ALL, places, placements=1, seed=1, only=[word])
    assert {s.field: s.misses for s in scores if s.misses} == {}
    assert [s.field for s in scores if not s.tried] == []
    assert {s.field for s in scores} == {f for f in occurring if fieldtrial.named(f, word)}


@pytest.mark.slow
@pytest.mark.parametrize("word", WORDS)
def test_a_wrong_value_does_what_the_entry_says_at_another_place(places: FieldPlaces, word: str) -> None:
    scores = fieldtrial.run(ALL, places, placements=many(1), seed=2, only=[word])
    assert {s.field: s.misses for s in scores if s.misses} == {}


def test_a_value_that_does_something_else_than_is_said_fails(places: FieldPlaces) -> None:
    [score] = fieldtrial.run([Pointer()], places, placements=2, only=["swap.base"], fates=lambda name: WrongValues())
    assert not score.passed and score.tried > 0
    assert len(score.misses) == min(score.tried, fieldtrial.MISSES_KEPT)


class Blind(Checker):
    """Finds nothing."""

    name = "blind"

    def check(self, evidence: Evidence) -> Verdict:
        return Verdict(self.name, True)


class Broken(Checker):
    """Judges nothing."""

    name = "broken"

    def check(self, evidence: Evidence) -> Verdict:
        raise KeyError(1)


def test_a_blind_checker_does_not_pass(places: FieldPlaces) -> None:
    [score] = fieldtrial.run([Blind()], places, placements=2, only=["metadata.current"])
    assert not score.passed and score.outcomes == {"not noticed": score.tried}


def test_a_checker_that_raises_does_not_pass(places: FieldPlaces) -> None:
    [score] = fieldtrial.run([Broken()], places, placements=1, only=["metadata.current"])
    assert not score.passed and score.outcomes == {"failed": score.tried}
    assert "broken: KeyError" in score.misses[0]


def test_the_same_seed_tries_the_same_values(places: FieldPlaces) -> None:
    once = fieldtrial.run([Pointer()], places, placements=2, seed=3, only=["swap"])
    assert fieldtrial.run([Pointer()], places, placements=2, seed=3, only=["swap"]) == once


def test_a_site_changes_its_field_and_nothing_else(runs: dict[str, Evidence]) -> None:
    e = runs["quick-120"]
    every: dict[str, list[MutationSite]] = {}
    for s in sites(e):
        every.setdefault(s.field, []).append(s)
    rng = Random(0)
    for name, same in every.items():
        site = rng.choice(same)
        place = same.index(site)
        for v in variants(site, same, rng):
            after = [s for s in sites(site.put(v.value)) if s.field == name]
            assert v.value != site.value
            if len(after) == len(same):  # the type of an event is in the name of its value
                assert [n for n, (a, b) in enumerate(zip(same, after, strict=True)) if a.value != b.value] in (
                    [place],
                    [],
                )
        assert site.put(site.value) == e


def test_what_is_not_changed_is_not_written_again(runs: dict[str, Evidence], tmp_path: Path) -> None:
    e = runs["atomicity-75"]
    assert fieldtrial.reread(e, e, tmp_path) == e and not list(tmp_path.iterdir())
    same = replace(e, history=replace(e.history), logs={t: replace(log) for t, log in e.logs.items()})
    assert fieldtrial.reread(same, e, tmp_path) == e and list(tmp_path.iterdir())


def test_a_value_that_nobody_finds_is_not_noticed_unless_its_entry_says_why(places: FieldPlaces) -> None:
    def tried(fate: WrongValues) -> dict[str, int]:
        [score] = fieldtrial.run([Blind()], places, placements=1, only=["commit.timestamp_ms"], fates=lambda name: fate)
        return {**score.outcomes, "missed": len(score.misses)}

    assert tried(WrongValues(found="any")).keys() == {"not noticed", "missed"}
    assert tried(WrongValues(found="any", harmless="nobody reads it")) == {"harmless": 2, "missed": 0}


def test_no_field_may_be_not_noticed() -> None:
    every = [*EXCEPTIONS.values(), *(default for _, default in DEFAULTS.values())]
    assert {o for f in every for o in f.outcomes} == {"found", "unknown", "refused", "harmless"}


def test_a_fate_is_read_from_its_texts() -> None:
    fate = WrongValues(found="a", harmless="b")
    assert fate.outcomes == {"found", "harmless"} and fate.texts == {"found": "a", "harmless": "b"}


def test_the_command_prints_the_figures() -> None:
    done = icequake("selftest", "--fields", "--placements", "2", "--only", "capture", "--only", "swap.new")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 fields, " in done.stdout and " values: " in done.stdout and "ok    swap.new" in done.stdout


def test_the_command_knows_its_fields() -> None:
    done = icequake("selftest", "--fields", "--only", "commit.nothing")
    assert done.returncode == 254 and "commit.nothing: no field has that name" in done.stderr
