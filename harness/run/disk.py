"""A full disk: which errors mean one, which disk it is, and what makes room. It is no fault of Iceberg, so it is never judged as one."""

from __future__ import annotations

import contextlib
import errno
import re
import shutil
import tempfile
from pathlib import Path

from checkers.evidence.history import ErrorChain
from compose.install.cache import home

LEAST_BYTES = 1 << 20
"""Bytes; a disk with less is full."""
_SAYS = re.compile(
    r"No space left on device|Disk quota exceeded|database or disk is full|reached its minimum free drive threshold"
)
"""What the kernel, SQLite and MinIO say of a full disk; MinIO stops when a hundredth of it is free. Faults that answer
507 say that they are one."""
_WORDS = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the quota of this user is used up",
    errno.EFBIG: "the file may not become larger (`ulimit -f`)",
}


def words(error: OSError) -> str:
    """One line for an error of :data:`checkers.evidence.runfolder.FULL`: path, what happened, remedy."""
    where = f"{error.filename}: " if error.filename else ""
    return f"{where}{_WORDS[error.errno or errno.ENOSPC]}; {remedy(error.filename)}"


def remedy(path: str | Path | None) -> str:
    """What makes room on the disk of a path; None: it is not known which."""
    if path is None:
        return "free some space, or use other disks: --store for runs, TMPDIR for the services' data"
    temp = temporary()
    if temp is not None and (Path(path) == temp or _is_own(Path(path), temp)):
        return "free some space there, or set TMPDIR to a folder on another disk"
    if Path(path).is_relative_to(home()):
        return "free some space there, or set ICEQUAKE_HOME to a folder on another disk"
    return "free some space there, or give a path on another disk (of runs: --store)"


def _is_own(path: Path, temp: Path) -> bool:
    """Whether it is in a temporary folder that icequake made; a store can be among the temporary folders, too."""
    return path.is_relative_to(temp) and path.relative_to(temp).parts[0].startswith("icequake-")


def temporary() -> Path | None:
    """The folder of what is temporary; None if there is none that can be written."""
    with contextlib.suppress(FileNotFoundError):
        return Path(tempfile.gettempdir())
    return None


def full(folder: Path) -> str | None:
    """That the disk of a folder is full, with the remedy; None if it is not."""
    with contextlib.suppress(OSError):
        if shutil.disk_usage(folder).free < LEAST_BYTES:
            return f"{folder}: {_WORDS[errno.ENOSPC]}; {remedy(folder)}"
    return None


def says_full(text: str) -> bool:
    """Whether a text, such as the last lines of a server's log, says that a disk is full."""
    return _SAYS.search(text) is not None


def full_message(chain: ErrorChain | None) -> str | None:
    """The text of an operation's error that says that a disk is full; None if none does."""
    return next((" ".join(text.split()) for _, text in chain or () if says_full(text)), None)
