"""Rows in the order of their first column, of more than memory holds: sorted runs in files, merged block by block."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from checkers.columns.frames import I64, NEVER

HELD = 1 << 21
"""Rows that are sorted at a time, and about as many as all blocks of the merge have together."""


class Sorting:
    """Takes rows in any order, then gives them sorted.

    Args:
        folder: for the files of the sorted runs; whoever makes it removes it.
        width: columns of a row.
        held: rows in memory.
    """

    def __init__(self, folder: Path, width: int, held: int = HELD) -> None:
        self._folder, self._width, self._most = folder, width, held
        self._rows: list[I64] = []
        self._held = 0
        self._files: list[Path] = []

    def add(self, rows: I64) -> None:
        """More rows.

        Args:
            rows: shape (columns, rows).
        """
        self._rows.append(rows)
        self._held += rows.shape[1]
        if self._held >= self._most:
            path = self._folder / f"sorted-{len(self._files):05}"
            np.ascontiguousarray(self._sorted().T).tofile(path)
            self._files.append(path)

    def _sorted(self) -> I64:
        rows = np.concatenate([np.zeros((self._width, 0), np.int64), *self._rows], axis=1)
        self._rows, self._held = [], 0
        return _in_order(rows)

    def merged(self) -> Iterator[I64]:
        """All rows, in blocks of the shape (columns, rows); the first column never falls, within a block or from one to the next."""
        last = self._sorted()
        size = max(1, self._most // (len(self._files) + 1))
        runs = [_Run(path, self._width, size) for path in self._files]
        try:
            blocks = [run.block() for run in runs]
            while any(b.shape[1] for b in blocks) or last.shape[1]:
                # Of a run that goes on, rows beyond its block may come before those of the others.
                reach = min(
                    (int(b[0, -1]) for b, run in zip(blocks, runs, strict=True) if not run.ended), default=NEVER
                )
                taken = []
                for n, (b, run) in enumerate(zip(blocks, runs, strict=True)):
                    upto = int(np.searchsorted(b[0], reach, "right"))
                    taken.append(b[:, :upto])
                    rest = b[:, upto:]
                    blocks[n] = rest if run.ended or rest.shape[1] else run.block()
                upto = int(np.searchsorted(last[0], reach, "right"))
                taken.append(last[:, :upto])
                last = last[:, upto:]
                yield _in_order(np.concatenate(taken, axis=1))
        finally:
            for run in runs:
                run.file.close()


class _Run:
    """A file with sorted rows, one after the other."""

    def __init__(self, path: Path, width: int, size: int) -> None:
        self.file = path.open("rb")
        self._width, self._size = width, size
        self._left = path.stat().st_size // (8 * width)

    @property
    def ended(self) -> bool:
        """Whether all of its rows were read."""
        return self._left == 0

    def block(self) -> I64:
        """The next rows, shape (columns, rows)."""
        rows = min(self._size, self._left)
        self._left -= rows
        found = np.fromfile(self.file, np.int64, rows * self._width).reshape(rows, self._width)
        return np.ascontiguousarray(found.T)


def _in_order(rows: I64) -> I64:
    return rows[:, np.argsort(rows[0], kind="stable")]
