"""The keeper of a stack: there is one, also when two are asked for at the same time."""

from __future__ import annotations

import fcntl
import sys
from pathlib import Path

import pytest

from harness.run import standing


def test_a_stack_that_another_is_starting_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")  # a keeper that ends at once
    log = tmp_path / "stack-logs" / "keeper.log"
    log.parent.mkdir()
    log.write_text("the first one's")
    with (tmp_path / "stack.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(standing.StandingError, match="another `icequake up` is starting a stack"):
            standing.up(tmp_path, 2)
    assert log.read_text() == "the first one's"
    for _ in range(2):  # and one that failed is in nobody's way
        with pytest.raises(standing.StandingError, match="did not come up"):
            standing.up(tmp_path, 2)
