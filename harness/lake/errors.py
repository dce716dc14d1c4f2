"""Why a lake, or a question to it, cannot be used."""

from __future__ import annotations

import errno
import os
import re
from pathlib import Path

_FULL = re.compile(r"No space left|disk is full|quota exceeded|File too large", re.IGNORECASE)


class LakeError(ValueError):
    """A lake cannot be used; the message is one line with a remedy."""


class NotWritten(LakeError):
    """Its files, or its catalog, cannot be written, though it can be used."""


class Collision(LakeError):
    """Another run of the same name is in the lake."""


def full(error: BaseException) -> bool:
    """Whether an error of PyIceberg, SQLite or Spark says that a disk is full."""
    return _FULL.search(str(error)) is not None


def full_at(folder: Path) -> OSError:
    """The error of a disk that is full, for a folder on it."""
    return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(folder))


class QueryError(ValueError):
    """A statement that may not be asked, or that Spark does not understand; the message says why."""
