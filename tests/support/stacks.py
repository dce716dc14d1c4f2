"""Stacks without writers."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from compose.external.external import External
from compose.install.installation import Installation
from compose.processes.watchdog import Watchdog
from compose.stack.stack import Stack


@contextmanager
def alone(installation: Installation, logs: Path, external: External) -> Iterator[Stack]:
    """A running stack with a REST catalog, on what is there already; its run's mark is its folder's name."""
    data = Path(tempfile.mkdtemp(prefix="icequake-test-stack-"))
    data.chmod(0o755)  # if started by root, PostgreSQL runs under another uid
    with Watchdog(data.name, remove=[data]):
        with Stack(installation, run_id=data.name, data=data / "services", logs=logs, external=external) as running:
            yield running
    shutil.rmtree(data, ignore_errors=True)
