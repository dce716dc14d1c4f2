"""The file of a table log while it grows: a header, then records, in whole lines."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from checkers.evidence import tablelog_file
from checkers.evidence.runfolder import replace_file
from checkers.evidence.tablelog import TableLog
from compose.objectstore import TableReadError


class LogFile:
    """Writes a table log.

    Args:
        path: the file, created (replacing what is there) by ``begin``; None: nothing is written.

    Raises:
        TableReadError: by all methods, if the file cannot be written. Nothing can be appended after that: a line may be torn.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._unwritable: TableReadError | None = None

    def begin(self, header: Mapping[str, Any]) -> None:
        """Begin the file with its header, whole or not at all: a log without its header could not be read."""
        if self._path is not None:
            try:
                self._path.parent.mkdir(parents=True, exist_ok=True)
                replace_file(self._path, tablelog_file.dump(header))
            except OSError as e:
                raise self._cannot_write(e) from None

    def replace(self, log: TableLog) -> None:
        """Write a whole log in place of the file: what could not be appended before is in it, too."""
        if self._path is not None:
            try:
                self._path.parent.mkdir(parents=True, exist_ok=True)
                tablelog_file.write(log, self._path)
            except OSError as e:
                raise self._cannot_write(e) from None

    def append(self, records: Iterable[Mapping[str, Any]]) -> None:
        """Add records, in one write."""
        if self._path is None:
            return
        if self._unwritable is not None:
            raise self._unwritable
        lines = b"".join(map(tablelog_file.dump, records))
        try:
            with self._path.open("ab") as f:
                f.write(lines)
        except OSError as e:
            raise self._cannot_write(e) from None

    def _cannot_write(self, e: OSError) -> TableReadError:
        self._unwritable = TableReadError(
            f"{self._path}: cannot be written: {e.strerror}; free some space or give another --store"
        )
        return self._unwritable
