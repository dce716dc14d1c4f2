"""Writes the details of an internal error beside the results of the command: without secrets, readable by the user only."""

from __future__ import annotations

import contextlib
import os
import tempfile
import traceback
from collections.abc import Iterable, Iterator
from pathlib import Path


class Crash(Exception):
    """An internal error that ends a command.

    Attributes:
        error: the exception that was raised.
        folder: of the run or the store, where the details go; None if the command has none.
        secrets: strings to remove from the details.
    """

    def __init__(self, error: Exception, folder: Path | None = None, secrets: Iterable[str] = ()) -> None:
        super().__init__(error)
        self.error = error
        self.folder = folder
        self.secrets = tuple(secrets)

    def redacted(self, text: str) -> str:
        """The text without secrets."""
        from compose.redaction import Redaction

        return Redaction(self.secrets).text(text)

    def write(self) -> Path:
        """Write the stack trace into a new file that only this user may read.

        The file is in ``folder`` if that is writable, else in the folder for temporary files.

        Returns:
            Its path.

        Raises:
            OSError: it cannot be written anywhere.
        """
        text = self.redacted("".join(traceback.format_exception(self.error)))
        if self.folder is not None and self.folder.is_dir():
            with contextlib.suppress(OSError):
                return _new_file(text, self.folder)
        return _new_file(text, None)


def _new_file(text: str, folder: Path | None) -> Path:
    handle, name = tempfile.mkstemp(prefix="icequake-error-", suffix=".log", dir=folder)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError:
        os.unlink(name)
        raise
    return Path(name)


@contextlib.contextmanager
def details_in(folder: Path, secrets: Iterable[str] = ()) -> Iterator[None]:
    """Turn any exception raised inside into a :class:`Crash`; nested, the innermost folder is used and the secrets of all are removed."""
    try:
        yield
    except Crash as crash:
        raise Crash(crash.error, crash.folder, (*crash.secrets, *secrets)) from crash.error
    except Exception as error:
        raise Crash(error, folder, secrets) from error
