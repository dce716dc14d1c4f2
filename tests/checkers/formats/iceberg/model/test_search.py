"""A search in several processes, and what it tells meanwhile."""

from dataclasses import replace

import pytest

from checkers.formats.iceberg.model.logtree import Bound
from checkers.formats.iceberg.model.search import SearchProgress, search
from tests.checkers.formats.iceberg.model.test_model import EVERY
from tests.checkers.formats.iceberg.model.test_upkeep import PARTITIONED


@pytest.mark.parametrize("bound", [replace(EVERY, without=frozenset({"new deletes"})), PARTITIONED])
def test_two_processes_find_what_one_finds(bound: Bound) -> None:
    """Also the same log of each mix, in the same order."""
    one, two = search(bound), search(bound, processes=2)
    assert one.found
    assert (two.logs, two.fired, two.committed) == (one.logs, one.fired, one.committed)
    assert [*two.mixes.items()] == [*one.mixes.items()]


def test_a_search_tells_how_far_it_is() -> None:
    told: list[SearchProgress] = []
    found = search(EVERY, processes=2, tell=told.append)
    assert told[-1].parts == (len(told), len(told)) and told[-1].logs == found.logs
    assert [p.logs for p in told] == sorted(p.logs for p in told)


def test_progress_in_words() -> None:
    assert str(SearchProgress(12_000, 2.0, 5, (10, 40))) == (
        "12,000 logs, 6,000 a second, the longest has 5 entries, 10 of 40 parts, about 6 s left"
    )
    assert str(SearchProgress(10, 0.0, 3)) == "10 logs, the longest has 3 entries"
