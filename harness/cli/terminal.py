"""Progress output: a progress bar on a terminal, plain lines with times elsewhere (CI)."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING

import typer
from rich.console import Console, RenderableType
from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, Task, TextColumn
from rich.progress_bar import ProgressBar
from rich.text import Text

from compose.install.progress import clock, watched
from harness.cli.options import WITHOUT_END

if TYPE_CHECKING:
    from reports.drawing.page import Page


def console(*, highlight: bool = True, least: int = 0) -> Console:
    """Standard output for tables: as wide as the terminal, but at least ``least`` columns; where it is no terminal, as wide as the table."""
    out = Console(highlight=highlight)
    out.width = max(least, out.width) if out.file.isatty() else WITHOUT_END
    return out


def show(page: Page, ends: Mapping[str, object], *, tables: bool = True, least: int = 0) -> None:
    """Print what a page has for a terminal, then ``ends``: where its files are and what to type next, each behind its name.

    Args:
        tables: whether its tables are printed.
        least: columns of the tables at least, as of :func:`console`.
    """
    from reports.drawing.render import terminal

    for part in terminal(page, tables=tables):
        typer.echo(part) if isinstance(part, str) else console(highlight=False, least=least).print(part)
    wide = max(map(len, ends), default=0)
    typer.echo("\n" + "\n".join(f"  {name:<{wide}}  {value}" for name, value in ends.items()))


PLAIN_EVERY = 40
"""Units between two plain progress lines."""
LIVE_S, PLAIN_LIVE_S = 1.0, 10.0
"""Seconds between two live lines, on a terminal and in a log."""


def amount(done: int, total: int | None, elapsed: float, lasts: float | None) -> str:
    """How far it is: ``0:23 of 1:30`` of what is limited by time, else ``51 of 200``; nothing if it has no known end.

    Args:
        elapsed: seconds since ``lasts`` began.
    """
    if lasts is not None:
        return f"{clock(min(elapsed, lasts))} of {clock(lasts)}"
    return f"{done} of {total}" if total is not None else ""


class Voice:
    """Reports progress on standard error; use in ``with``. Thread-safe.

    Args:
        quiet: report problems only.
        unit: what is counted.
    """

    def __init__(self, *, quiet: bool = False, unit: str = "operations") -> None:
        self._quiet = quiet
        self._unit = unit
        self._console = Console(stderr=True, no_color="NO_COLOR" in os.environ, highlight=False)
        self._began = self._since = time.monotonic()
        self._lasts: float | None = None
        self._bar: _WithLine | None = None
        if not quiet and watched(sys.stderr):
            self._bar = _WithLine(
                SpinnerColumn(),
                TextColumn("{task.description}", markup=False),
                _Bar(self._far),
                _Amount(self._far),
                _Elapsed(self._far),
                console=self._console,
                transient=True,
            )
            self._task = self._bar.add_task("starting", total=None)

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
        """One line; on a terminal the next one replaces it."""
        if self._quiet:
            return
        if self._bar is not None:
            self._bar.update(self._task, description=text)
        else:
            print(f"[{time.monotonic() - self._began:6.1f} s] {text}", file=sys.stderr, flush=True)

    def keep(self, text: str) -> None:
        """One line that stays on the screen."""
        if self._bar is not None:
            self._console.print(text, markup=False, soft_wrap=True)
        else:
            self.say(text)

    @property
    def live_every(self) -> float:
        """Seconds between two live lines."""
        return LIVE_S if self._bar is not None else PLAIN_LIVE_S

    def live(self, text: str) -> None:
        """How it goes, in one line: on a terminal below the bar, in place of the one before."""
        if self._bar is not None:
            self._bar.line = text
        else:
            self.say(text)

    def progress(self, done: int, total: int | None) -> None:
        """``done`` operations completed, of ``total`` if that is known."""
        if self._bar is not None:
            self._bar.update(self._task, completed=done, total=total)
        elif done % PLAIN_EVERY == 0:
            self.say(self.plain(done, total, time.monotonic() - self._since))

    def plain(self, done: int, total: int | None, elapsed: float) -> str:
        """The progress as a line of a log."""
        if self._lasts is not None:
            return f"{amount(done, total, elapsed, self._lasts)}, {done} {self._unit}"
        return f"{amount(done, total, elapsed, None) or done} {self._unit}"

    def lasts(self, seconds: float | None) -> None:
        """What begins now takes so many seconds; None: it is not limited by time."""
        self._since, self._lasts = time.monotonic(), seconds
        if self._bar is not None:
            self._bar.update(self._task, completed=0)
            self._bar.tasks[0].total = None  # update() takes None as unchanged: what ended would begin again from 0

    def _far(self) -> tuple[float, float | None]:
        """Seconds since what now goes on began, and how many it takes."""
        return time.monotonic() - self._since, self._lasts


class _WithLine(Progress):
    """A bar, and a line below it; empty: none."""

    line = ""

    def get_renderables(self) -> Iterable[RenderableType]:
        yield from super().get_renderables()
        if self.line:
            yield Text(f"  {self.line}", no_wrap=True, overflow="ellipsis")


class _Amount(ProgressColumn):
    """How far it is, in words; drawn again while time passes and nothing completes."""

    def __init__(self, far: Callable[[], tuple[float, float | None]]) -> None:
        super().__init__()
        self._far = far

    def render(self, task: Task) -> Text:
        total = None if task.total is None else int(task.total)
        return Text(amount(int(task.completed), total, *self._far()), style="progress.download")


class _Elapsed(ProgressColumn):
    """The time since the command began, where no other time is shown."""

    def __init__(self, far: Callable[[], tuple[float, float | None]]) -> None:
        super().__init__()
        self._far = far

    def render(self, task: Task) -> Text:
        text = f"{clock(task.elapsed or 0)} in all" if self._far()[1] is None else ""
        return Text(text, style="progress.elapsed")


class _Bar(BarColumn):
    """How far it is, drawn."""

    def __init__(self, far: Callable[[], tuple[float, float | None]]) -> None:
        super().__init__()
        self._far = far

    def render(self, task: Task) -> ProgressBar:
        bar = super().render(task)
        elapsed, lasts = self._far()
        if lasts is not None:
            bar.total, bar.completed, bar.pulse = lasts, min(elapsed, lasts), False
        return bar
