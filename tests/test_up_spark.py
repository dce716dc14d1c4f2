"""A kept stack: up once, used by runs, down again, with nothing left."""

from __future__ import annotations

import json
from pathlib import Path

import psutil
import pytest

from compose.install import Installation
from tests.runs import environment, icequake

pytestmark = pytest.mark.spark


@pytest.fixture
def home(tmp_path: Path, installation: Installation) -> Path:
    """A cache of the test's own (so that a stack of the user's is left alone) with everything already in it."""
    place = tmp_path / "home"
    place.mkdir()
    for part in installation.home.iterdir():
        if part.name not in ("stack", "stack.in-use", "stack-logs"):
            (place / part.name).symlink_to(part)
    return place


def test_up_keeps_warm_writers_for_the_next_runs_and_down_ends_them(home: Path, tmp_path: Path) -> None:
    env = environment(ICEQUAKE_HOME=str(home))
    store = tmp_path / "store"
    try:
        up = icequake("up", "--writers", "2", env=env)
        assert up.returncode == 0, up.stderr
        keeper = psutil.Process(json.loads((home / "stack" / "stack.json").read_text())["pid"])
        members = [keeper, *keeper.children(recursive=True)]
        again = icequake("up", env=env)
        assert again.returncode == 255 and "icequake down" in again.stderr

        for seed in ("1", "2"):
            options = ("--seed", seed, "--ops", "8", "--writers", "2", "--store", store)
            run = icequake("run", "quick", *options, env=env)
            assert run.returncode == 0, run.stdout + run.stderr
            assert "using the stack that is up" in run.stderr
        assert not list((store / "latest" / "logs").glob("writer-*")), "the warm writers were used, none started"
        assert all(p.is_running() for p in members)
    finally:
        down = icequake("down", env=env)
    assert down.returncode == 0 and "down" in down.stdout
    assert not [p for p in members if p.is_running() and p.status() != psutil.STATUS_ZOMBIE]
    assert not (home / "stack" / "stack.json").exists()
