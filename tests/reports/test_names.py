"""Every name of an anomaly is explained, once, and docs/anomalies.md is what the table says."""

from pathlib import Path

import pytest

from checkers import names as table
from checkers.isolation import levels
from checkers.judge.check import ALL
from checkers.names import Harm, meaning, without_suffixes
from reports import glossary, names
from workloads.file import scenario

ROOT = Path(__file__).parents[2]


def test_every_name_of_a_checker_is_explained() -> None:
    assert {n for c in ALL for n in c.names if meaning(n) is None} == set()


def test_every_name_of_a_history_is_explained() -> None:
    assert {n for forbidden in levels.FORBIDS.values() for n in forbidden if meaning(n) is None} == set()


def test_no_name_is_explained_that_nobody_reports() -> None:
    reported = {*(n for c in ALL for n in c.names), *(n for forbidden in levels.FORBIDS.values() for n in forbidden)}
    reported |= {"wrong-total", "wrong-accounts"}  # of a bank
    assert {n for n in table._MEANINGS if not any(r == n or r.startswith(f"{n}-") for r in reported)} == set()


def test_every_anomaly_of_a_scenario_names_that_scenario() -> None:
    library = scenario.find([])
    for s in library:
        for entry in s.anomalies:
            found = names.explained(entry.name, library)
            assert found is not None and s.scenario in found.scenarios, entry.name


@pytest.mark.parametrize(
    ("name", "needs"),
    [
        ("G0", None),
        ("G2-item-realtime", "(the circle needs real time: one operation had ended before the other began)."),
        (
            "G-single-predicate-process",
            "(the circle needs a read by a condition, such as WHERE val > 3: another operation changed which rows fulfil it; "
            "the circle needs the order of",
        ),
    ],
)
def test_a_suffix_of_adya_s_names_says_what_the_circle_needs(name: str, needs: str | None) -> None:
    found = meaning(name)
    assert found is not None
    assert ("circle needs" in found.sentence) is (needs is not None)
    assert needs is None or needs in found.sentence


def test_no_advice_for_another_system_speaks_of_tables_and_catalogs() -> None:
    implied = {n for weaker in levels.WORSE.values() for n in weaker}
    reported = {*levels.WORSE, *implied, *table.OF_HISTORIES, *(n for f in levels.FORBIDS.values() for n in f)}
    told = {n: table.in_history(n) for n in reported}
    assert None not in told.values()
    ours = ("write.", "isolation-level`", "catalog", "Iceberg", "the table", "`fault`")
    assert {n: said for n, said in told.items() if said is not None and any(w in said[1] for w in ours)} == {}


@pytest.mark.parametrize("name", ["", "lost", "G9", "G0-often", "lost-commit-realtime"])
def test_a_name_that_nobody_has_is_not_explained(name: str) -> None:
    assert meaning(name) is None


def test_names_that_differ_by_a_suffix_are_one() -> None:
    assert without_suffixes(["G2-process", "own", "G2", "lost-commit", "G2-item-realtime"]) == [
        "lost-commit",
        "G2-item",
        "G2",
        "own",
    ]


def test_lost_rows_are_graver_than_wrong_metadata_and_that_is_graver_than_cost() -> None:
    assert [h.gravity for h in (Harm.ROWS, Harm.UNREADABLE, Harm.PROMISE, Harm.METADATA, Harm.COST)] == [0, 1, 2, 3, 4]


def test_the_page_of_anomalies_is_what_the_table_says() -> None:
    assert (ROOT / "docs/anomalies.md").read_text(encoding="utf-8") == names.page(), (
        "python -m reports.names > docs/anomalies.md"
    )


def test_the_glossary_is_what_the_table_says() -> None:
    assert (ROOT / "docs/glossary.md").read_text(encoding="utf-8") == glossary.page(), (
        "python -m reports.glossary > docs/glossary.md"
    )


@pytest.mark.parametrize(
    "word",
    [
        "known",
        "new",
        "documented",
        "expected",
        "allowed",
        "attempt",
        "process",
        "nemesis",
        "story",
        "merge-on-read",
        "copy-on-write",
    ],
)
def test_the_words_of_a_card_and_of_the_terminal_are_in_the_glossary(word: str) -> None:
    assert glossary.explained(word) is not None
    assert glossary.explained(f"{word}-ish") is None


def test_a_word_is_in_the_glossary_once() -> None:
    words = [word for section in glossary.WORDS.values() for word in section]
    assert len(words) == len(set(words))
