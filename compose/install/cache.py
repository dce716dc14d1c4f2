"""The folder that holds everything icequake downloads or builds, and the rules for putting something into it.

Nothing below ``home()`` appears under its final name before it is complete and verified: it is made under a temporary
name in the same folder and renamed. So a killed set-up leaves scraps, never a wrong part, and a reader needs no lock.
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
    """One line: what is missing or wrong, and what to type."""


def home() -> Path:
    """``$ICEQUAKE_HOME``, or the platform's cache folder for icequake. It need not exist yet."""
    return cache_home()


@contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Hold the file lock ``path``, waiting for whoever has it. The kernel lets go of it even if we are killed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("icequake: another set-up is at work, waiting for it", file=sys.stderr, flush=True)
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def sweep(folder: Path) -> None:
    """Remove what killed set-ups left in ``folder``. Only while holding the lock that they held."""
    for scrap in folder.glob(".arriving-*"):
        if scrap.is_dir():
            shutil.rmtree(scrap, ignore_errors=True)
        else:
            scrap.unlink(missing_ok=True)


@contextmanager
def arriving(final: Path) -> Iterator[Path]:
    """Yield a new folder beside ``final`` that takes its name when the block ends well, and vanishes otherwise."""
    final.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=f".arriving-{final.name}-", dir=final.parent))
    try:
        yield scratch
        scratch.chmod(0o755)
        scratch.rename(final)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
