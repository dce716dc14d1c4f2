"""A writer in a container sees the packages that are mounted there, and no others."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

from harness.writers.driver import SESSION_PACKAGES

IMPORT = "import sys; sys.path.insert(0, sys.argv[1]); import harness.writers.session"


def imported(folder: Path, *packages: Path) -> str:
    """What Python says of a session that has only these packages; empty if it imports them all."""
    folder.mkdir()
    for package in packages:
        (folder / package.name).symlink_to(package)
    python = [sys.executable, "-I", "-S", "-c", IMPORT, str(folder)]
    return subprocess.run(python, capture_output=True, text=True, check=False).stderr


def test_a_session_imports_nothing_but_what_its_container_has(tmp_path: Path) -> None:
    spark = [
        Path(next(iter(found.submodule_search_locations or ())))
        for name in ("py4j", "pyspark")
        if (found := find_spec(name))
    ]
    assert imported(tmp_path / "all", *SESSION_PACKAGES, *spark) == ""
    for package in SESSION_PACKAGES:
        others = [p for p in SESSION_PACKAGES if p is not package]
        assert package.name in imported(tmp_path / f"without-{package.name}", *others, *spark), "each of them is needed"
