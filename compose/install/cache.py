"""The folder that holds everything icequake downloads or builds, and the rules for adding to it.

A file or folder below ``home()`` gets its final name only when it is complete and verified: it is made under a
temporary name in the same folder, then renamed. So a killed set-up leaves scraps but no broken part, and readers need no lock.
"""

import fcntl
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from compose.install.bootstrap import cache_home


class SetupError(RuntimeError):
    """Set-up failed; the message is one line: what is missing or wrong, and what to type."""


def home() -> Path:
    """``$ICEQUAKE_HOME``, or the platform's cache folder for icequake. It need not exist."""
    return cache_home()


@contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Wait for the file lock ``path`` and hold it. The kernel releases it even if this process is killed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("icequake: another set-up is running, waiting for it", file=sys.stderr, flush=True)
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def sweep(folder: Path) -> None:
    """Remove the remains of killed set-ups from ``folder``. Call it only while holding their lock."""
    for scrap in folder.glob(".arriving-*"):
        if scrap.is_dir():
            shutil.rmtree(scrap, ignore_errors=True)
        else:
            scrap.unlink(missing_ok=True)


@contextmanager
def arriving(final: Path) -> Iterator[Path]:
    """Yield a new folder beside ``final`` that is renamed to ``final`` if the block succeeds and removed otherwise."""
    final.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=f".arriving-{final.name}-", dir=final.parent))
    try:
        yield scratch
        scratch.chmod(0o755)
        scratch.rename(final)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
