"""Progress output: a progress bar on a terminal, plain lines with times elsewhere (CI)."""

from __future__ import annotations

import os
import sys
import time
from types import TracebackType

from rich.console import Console
from rich.progress import Progress

from compose.install.progress import bars_on, watched

WITHOUT_END = 10_000
"""Width in columns where output is not a terminal, such as a log; no table is cut there."""


def console(*, highlight: bool = True, least: int = 0) -> Console:
    """Standard output for tables: as wide as the terminal, but at least ``least`` columns; where it is no terminal, as wide as the table."""
    out = Console(highlight=highlight)
    out.width = max(least, out.width) if out.file.isatty() else WITHOUT_END
    return out


PLAIN_EVERY = 40
"""Operations between two plain progress lines."""


class Voice:
    """Reports progress on standard error; use in ``with``. Thread-safe.

    Args:
        quiet: report problems only.
    """

    def __init__(self, *, quiet: bool = False) -> None:
        self._quiet = quiet
        self._console = Console(stderr=True, no_color="NO_COLOR" in os.environ, highlight=False)
        self._began = time.monotonic()
        self._bar: Progress | None = None
        if not quiet and watched(sys.stderr):
            self._bar = bars_on(self._console, transient=True)
            self._task = self._bar.add_task("starting", total=None, note="")

    def __enter__(self) -> Voice:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def say(self, text: str) -> None:
        """One line."""
        if self._quiet:
            return
        if self._bar is not None:
            self._bar.update(self._task, description=text)
        else:
            print(f"[{time.monotonic() - self._began:6.1f} s] {text}", file=sys.stderr, flush=True)

    def progress(self, done: int, total: int | None) -> None:
        """``done`` operations completed, of ``total`` if that is known."""
        if self._bar is not None:
            self._bar.update(self._task, completed=done, total=total)
        elif done % PLAIN_EVERY == 0:
            self.say(f"{done} operations" + (f" of {total}" if total is not None else ""))
