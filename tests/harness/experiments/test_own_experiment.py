"""The experiment of ``docs/extending.md``: two files and a line, and its runs fail, stop and go on as those of every other."""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from checkers.evidence.runfolder import RunFolder
from compose import setup
from harness import cli, experiments
from tests.support.campaigns import JDBC, SPEC, marked_process, recorded_in, run_of
from tests.support.examples import PLACES, example, write_in_place
from tests.support.soaks import Heard, judged_once, page_alone, spoil
from workloads.file.workload import Workload

PACKAGES = (experiments, cli)


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The experiment, where it is told to be saved."""
    for name, package in zip(PLACES, PACKAGES, strict=True):
        folder = write_in_place(name, tmp_path / "checkout").parent
        monkeypatch.setattr(package, "__path__", [*package.__path__, str(folder)])
    yield importlib.import_module("harness.experiments.my_experiment")
    for name, package in zip(PLACES, PACKAGES, strict=True):
        sys.modules.pop(f"{package.__name__}.{Path(name).stem}", None)


class Recorded:
    """A bench of one marked process, whose runs leave a recorded one; that of seed 1 shows an anomaly. ``act`` may raise."""

    def __init__(self, source: Path, act: Callable[[int], None] = lambda seed: None) -> None:
        self._source = source
        self.act = act
        self.starts = 0

    @contextlib.contextmanager
    def start(self, *_: object) -> Iterator[Any]:
        self.starts += 1
        with marked_process():
            yield self

    def run(self, workload: Workload, folder: RunFolder, operations: object, *, command: str, seed: int) -> None:
        self.act(seed)
        run_of(self._source, folder, JDBC.catalog, seed)
        if seed == 1:
            spoil(folder)


def test_an_experiment_is_two_short_files_and_a_line() -> None:
    assert [len(example(name).splitlines()) <= most for name, most in zip(PLACES, (75, 45), strict=True)] == [
        True,
        True,
    ]


def test_a_run_that_fails_is_a_line_and_the_same_experiment_goes_on(own: ModuleType, tmp_path: Path) -> None:
    source = recorded_in(tmp_path / "recorded")

    def act(seed: int) -> None:
        if seed == 2:
            raise ZeroDivisionError("a bug")
        if seed == 4:
            raise KeyboardInterrupt

    def whole(bench: Recorded) -> Any:
        return own.HowOften(SPEC, range(5), tmp_path / "often", Heard(), page_alone, bench.start, judged_once)

    first = Recorded(source, act)
    with pytest.raises(KeyboardInterrupt):
        whole(first).measure()
    assert first.starts == 2, "the stack of a run that failed is not used again"
    again = Recorded(source)
    seen = {x.seed: x for x in whole(again).measure()}
    assert sorted(seen) == [0, 1, 2, 3, 4] and all(x.reason is None for x in seen.values())
    assert [seed for seed in seen if seen[seed].anomalies] == [1] and again.starts == 1
    assert len((tmp_path / "often/seen.jsonl").read_text().splitlines()) == 1 + 6


def test_its_command_says_what_its_runs_showed(
    own: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Recorded(recorded_in(tmp_path / "recorded"))
    command = importlib.import_module("harness.cli.my_command")
    monkeypatch.setattr(setup, "ensure_release", lambda release: None)
    monkeypatch.setattr(command, "Bench", lambda *_, **__: bench.start())
    monkeypatch.setattr(command, "HowOften", partial(own.HowOften, judge=judged_once))
    app = typer.Typer()
    app.command("how-often")(command.HowOftenOptions.callback())
    done = CliRunner().invoke(app, ["quick", "--runs", "3", "--into", str(tmp_path / "often")], standalone_mode=False)
    assert (done.return_value, done.stdout) == (1, "1 of 3 runs showed an anomaly\n"), done.output
