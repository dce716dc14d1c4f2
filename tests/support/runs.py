"""Running icequake from tests: as its users do, by the command line; or in this process, on the test session's stack."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping
from contextlib import redirect_stderr, redirect_stdout
from functools import lru_cache
from pathlib import Path

import pytest

from checkers.evidence import runfolder
from checkers.evidence.runfolder import RunFolder
from compose.endpoints import Endpoints
from compose.install.installation import Installation
from harness.cli import app
from harness.run.run import Run
from harness.run.settings import Settings, StandingStack
from workloads import generator
from workloads.file.workload import Phase, Workload
from workloads.generator import PlannedOperation

ROOT = Path(__file__).parents[2]


class Silent:
    """Nobody watches."""

    def say(self, text: str) -> None:
        """Say nothing."""

    def progress(self, done: int, total: int | None) -> None:
        """Show nothing."""

    def lasts(self, seconds: float | None) -> None:
        """Show nothing."""


def command(*arguments: str | Path) -> list[str]:
    """The command line of ``icequake``."""
    return [sys.executable, "-m", "harness.cli.app", *map(str, arguments)]


def environment(**more: str) -> dict[str, str]:
    """This process's environment, with this checkout importable."""
    return {**os.environ, "PYTHONPATH": str(ROOT), "CI": "1", **more}


@lru_cache(maxsize=1)
def _no_store() -> tempfile.TemporaryDirectory[str]:
    """An empty folder, gone when this process ends."""
    return tempfile.TemporaryDirectory(prefix="icequake-tests-")


def icequake(
    *arguments: str | Path, timeout: float = 400, env: Mapping[str, str] | None = None, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run the command line to its end, in a folder without a store unless ``cwd`` says another."""
    return subprocess.run(
        command(*arguments),
        capture_output=True,
        text=True,
        timeout=timeout,
        env=env or environment(),
        cwd=cwd or _no_store().name,
    )


def inside(*arguments: str | Path, cwd: Path, **env: str) -> subprocess.CompletedProcess[str]:
    """Run the command line in this process, which has all that it imports: for what ends before anything is started."""
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.setattr(sys, "argv", ["icequake", *map(str, arguments)])
        patch.chdir(cwd)
        patch.delenv("ICEQUAKE_COMMAND", raising=False)  # bootstrap.py, which may have started the tests, sets it
        for name, value in env.items():
            patch.setenv(name, value)
        code = app._main()
    return subprocess.CompletedProcess(arguments, code, out.getvalue(), err.getvalue())


def execute(
    workload: Workload,
    into: Path,
    installation: Installation,
    endpoints: Endpoints,
    *,
    warm: tuple[Path, ...] = (),
    seed: int = 1,
    operations: Callable[[Workload, Phase, int, int], Iterable[PlannedOperation]] = generator.operations,
) -> RunFolder:
    """A run on a stack that is there, with ``warm`` writers or its own; its folder in the store ``into``."""
    folder = runfolder.create(into, workload.workload)
    settings = Settings(seed=seed, command="icequake run", operations=operations, warm=warm)
    Run(workload, folder, installation, settings, standing=StandingStack(endpoints), watcher=Silent()).execute()
    return folder
