"""Tests of reading and judging without Python's search for cyclic garbage."""

from __future__ import annotations

import gc
import weakref

import pytest

from checkers.evidence.uncollected import uncollected


class Thing:
    """May be in a cycle."""

    def __init__(self) -> None:
        self.me = self


def test_garbage_that_was_made_meanwhile_is_still_found_afterwards() -> None:
    with uncollected():
        seen = weakref.ref(Thing())
    gc.collect()
    assert seen() is None
    assert gc.get_freeze_count() == 0


@pytest.mark.parametrize("enabled", [True, False])
def test_the_search_is_afterwards_as_it_was_before(enabled: bool) -> None:
    was = gc.isenabled()
    try:
        (gc.enable if enabled else gc.disable)()
        with uncollected():
            with uncollected():
                assert not gc.isenabled()
            assert not gc.isenabled()
        assert gc.isenabled() == enabled
    finally:
        (gc.enable if was else gc.disable)()
