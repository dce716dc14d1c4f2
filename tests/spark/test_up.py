"""A kept stack: up once, used by runs, down again, with nothing left."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import psutil
import pytest

from compose.install.installation import Installation
from harness.writers.slot import Writer, WriterTimeout, request
from tests.support.runs import command, environment, icequake
from workloads.operations.kind import Statement

pytestmark = pytest.mark.spark


@pytest.fixture
def home(tmp_path: Path, installation: Installation) -> Path:
    """A cache of the test's own (so that a stack of the user's is left alone) with everything already in it."""
    place = tmp_path / "home"
    place.mkdir()
    for part in installation.home.iterdir():
        if part.name not in ("stack", "stack.in-use", "stack.lock", "stack-logs"):
            (place / part.name).symlink_to(part)
    return place


def test_up_keeps_warm_writers_for_the_next_runs_and_down_ends_them(home: Path, tmp_path: Path) -> None:
    env = environment(ICEQUAKE_HOME=str(home))
    store = tmp_path / "store"
    mode = ("--session", "fast", "--cluster", "local")
    try:
        ups = [
            subprocess.Popen(
                command("up", "--writers", "2", "--catalog", "jdbc", *mode), stderr=subprocess.PIPE, text=True, env=env
            )
            for _ in range(2)
        ]
        said = {one.returncode: one.communicate(timeout=400)[1] for one in ups if one.wait(400) is not None}
        assert set(said) == {0, 255}, said
        assert "another `icequake up` is starting a stack" in said[255]
        keeper = psutil.Process(json.loads((home / "stack" / "stack.json").read_text())["pid"])
        members = [keeper, *keeper.children(recursive=True)]
        again = icequake("up", env=env)
        assert again.returncode == 0 and again.stdout.startswith("up already: catalog jdbc"), again.stderr
        other = icequake("up", "--catalog", "rest", env=env)
        assert other.returncode == 254 and "icequake down" in other.stderr

        options = (*mode, "--catalog", "jdbc", "--ops", "8", "--writers", "2", "--store", store)
        run = icequake("run", "quick", "--seed", "1", *options, env=env)
        assert run.returncode == 0, run.stdout + run.stderr
        assert "using the stack that is up" in run.stderr
        assert not list((store / "latest" / "logs").glob("writer-*")), "the warm writers were used, none started"
        assert all(p.is_running() for p in members)

        first, second = map(Path, json.loads((home / "stack" / "stack.json").read_text())["sockets"])
        busy = Writer("w0", None, first)
        assert busy.take()
        slow = [Statement("SELECT reflect('java.lang.Thread', 'sleep', 600000L)")]
        with pytest.raises(WriterTimeout):
            busy.call(request("w0-0", slow, catalog="c", namespace="n", table="t"), 1)
        busy.kill()
        run = icequake("run", "quick", "--seed", "2", *options, env=env)
        assert run.returncode == 0, run.stdout + run.stderr
        assert "using the stack that is up" in run.stderr
        told = (store / "latest" / "logs").glob("writer-*")
        assert {p.name for p in told} <= {"writer-w0.log"}, "the one that owed an answer was not used"
        while (sockets := json.loads((home / "stack" / "stack.json").read_text())["sockets"]) == [
            str(first),
            str(second),
        ]:
            assert keeper.is_running()
        fresh = Writer("w0", None, Path(sockets[0]))
        assert fresh.take(), "another one took its place"
        fresh.close()
        members = [keeper, *keeper.children(recursive=True)]
    finally:
        down = icequake("down", env=env)
    assert down.returncode == 0 and "down" in down.stdout
    assert not [p for p in members if p.is_running() and p.status() != psutil.STATUS_ZOMBIE]
    assert not (home / "stack" / "stack.json").exists()
