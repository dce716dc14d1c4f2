"""Running icequake from tests: as its users do, by the command line; or in this process, on the test session's stack."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from compose.endpoints import Endpoints
from compose.install import Installation
from harness import store
from harness.run import Kept, Run, Settings
from harness.store import RunFolder
from workloads import generator
from workloads.generator import Planned
from workloads.schema import Phase, Workload

ROOT = Path(__file__).parent.parent


class Silent:
    """Nobody watches."""

    def say(self, text: str) -> None:
        """Say nothing."""

    def progress(self, done: int, total: int | None) -> None:
        """Show nothing."""


def command(*arguments: str | Path) -> list[str]:
    """The command line of ``icequake``."""
    return [sys.executable, "-m", "harness.cli", *map(str, arguments)]


def environment(**more: str) -> dict[str, str]:
    """This process's environment, with this checkout importable."""
    return {**os.environ, "PYTHONPATH": str(ROOT), "CI": "1", **more}


def icequake(
    *arguments: str | Path, timeout: float = 400, env: Mapping[str, str] | None = None, cwd: Path = ROOT
) -> subprocess.CompletedProcess[str]:
    """Run the command line to its end."""
    return subprocess.run(
        command(*arguments), capture_output=True, text=True, timeout=timeout, env=env or environment(), cwd=cwd
    )


def execute(
    workload: Workload,
    into: Path,
    installation: Installation,
    endpoints: Endpoints,
    *,
    warm: tuple[Path, ...] = (),
    seed: int = 1,
    operations: Callable[[Workload, Phase, int, int], Iterable[Planned]] = generator.operations,
) -> RunFolder:
    """A run on a stack that is there, with ``warm`` writers or its own; its folder in the store ``into``."""
    folder = store.create(into, workload.workload)
    settings = Settings(seed=seed, command="icequake run", operations=operations, warm=warm)
    Run(workload, folder, installation, settings, kept=Kept(endpoints), watcher=Silent()).execute()
    return folder
