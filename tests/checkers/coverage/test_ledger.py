"""The file of a night: it has every run once, whatever happened to the night."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from checkers.coverage.coverage import Coverage, CoverageError, union
from checkers.coverage.ledger import FILE, Ledger, name_of, read
from checkers.coverage.pair import Pair
from checkers.coverage.possible import KindByEngine, of_table, rarity
from workloads.operations.kinds import KINDS
from workloads.tables import TableSpec

INSERTS, DELETES = (
    of_table(TableSpec(name="t"), [KindByEngine(KINDS[k], "spark", writers=2)]) for k in ("insert", "delete")
)


def coverage(pairs: frozenset[Pair], n: int) -> Coverage:
    return Coverage(Counter({min(pairs): n}), Counter({("insert", "delete"): n}), pairs, 1)


RUNS = {"w/1": coverage(INSERTS, 1), "w/2": coverage(DELETES, 2), "w/3": coverage(INSERTS, 3)}


def append(path: Path, name: str, c: Coverage) -> Ledger:
    with Ledger(path) as book:
        book.append(name, c)
        return book


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / FILE
    for name, c in RUNS.items():
        append(path, name, c)
    return path


def test_it_has_what_was_appended_and_possible_pairs_once(path: Path) -> None:
    assert read(path) == RUNS
    assert path.read_text().count('"pairs"') == 2
    with Ledger(path) as book:
        assert book.seen == union(RUNS.values()).seen


def test_a_run_is_appended_once(path: Path) -> None:
    before = path.read_bytes()
    book = append(path, "w/2", RUNS["w/1"])
    assert path.read_bytes() == before and book.seen == union(RUNS.values()).seen


def test_a_line_that_is_torn_at_any_byte_loses_that_run_only(path: Path) -> None:
    whole = path.read_bytes()
    last = whole[:-1].rindex(b"\n") + 1
    for end in range(last, len(whole)):
        path.write_bytes(whole[:end])
        append(path, "w/4", RUNS["w/2"])
        kept = {**RUNS, "w/4": RUNS["w/2"]}
        if end < len(whole) - 1:
            del kept["w/3"]
        assert read(path) == kept, end


def test_what_was_seen_in_the_night_makes_a_cell_less_rare(tmp_path: Path) -> None:
    with Ledger(tmp_path / FILE) as book:
        assert rarity(INSERTS, book.seen) == 1.0
        book.append("w/1", RUNS["w/1"])
    assert rarity(INSERTS, book.seen) < 1.0 == rarity(DELETES, book.seen)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", ":1: not the journal"),
        ('{"format":9}\n', ":1: .*format 9"),
        ('{"format":1}\n{"possible":0}\n', ":2: .*neither a set of pairs nor a run"),
        ('{"format":1}\n{"possible":0,"pairs":[["x"]]}\n', "8 values"),
    ],
)
def test_a_file_that_is_none_is_refused_by_its_line(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / FILE
    path.write_text(text)
    with pytest.raises(CoverageError, match=says):
        read(path)


def test_a_run_is_named_by_the_end_of_its_path() -> None:
    assert name_of(Path("/n/runs/mixed/20260101T000000.000Z")) == "mixed/20260101T000000.000Z"
