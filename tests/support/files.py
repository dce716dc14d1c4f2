"""A disk that is too small, for tests of what a failed write leaves."""

from __future__ import annotations

import contextlib
import resource
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest


@contextlib.contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """Let the kernel refuse every write of this process beyond ``size`` bytes of a file, with OSError (EFBIG)."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@contextlib.contextmanager
def disk_of(size: str, place: Path) -> Iterator[Path]:
    """A disk of its own (``4m``) at a new folder. Only root can have one: for others the test is skipped."""
    place.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(place)], capture_output=True, timeout=60
    )
    if done.returncode:
        pytest.skip(f"no disk of its own can be mounted: {done.stderr.decode().strip()}")
    try:
        yield place
    finally:
        subprocess.run(["umount", str(place)], check=True, timeout=60)


def fill(disk: Path, left: int = 0) -> Path:
    """Fill a disk but for so many bytes; the file that does it."""
    filling = disk / "filling"
    with filling.open("wb", buffering=0) as f:
        with contextlib.suppress(OSError):
            while True:
                f.write(bytes(1 << 12))
        f.truncate(max(0, f.tell() - left))
    return filling
