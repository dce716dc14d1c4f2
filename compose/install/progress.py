"""Progress of the set-up's long steps: bars on a terminal, lines in a log."""

import os
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress as RichProgress

Unit = Literal["bytes", "items"]


class Step(Protocol):
    """One running step."""

    def move_to(self, done: float, note: str = "") -> None:
        """``done`` of the step's total is finished; ``note`` describes the current work."""


class Progress(Protocol):
    """Shows steps."""

    def step(self, name: str, total: float | None, unit: Unit = "items") -> AbstractContextManager[Step]:
        """Show ``name`` until the block ends; ``total`` is None if the amount of work is unknown."""


def sizes(folder: str | os.PathLike[str], *ends: str) -> Iterator[int]:
    """Bytes of each file below a folder whose name ends so. Another program may write, rename and remove files and folders meanwhile."""
    for place, _, names in os.walk(folder):  # passes over a folder that is gone, which rglob does not
        for name in names:
            if name.endswith(ends):
                try:
                    yield os.stat(os.path.join(place, name)).st_size
                except FileNotFoundError:
                    continue


def watched(stream: IO[str]) -> bool:
    """True if the stream is a terminal, and not that of a CI job."""
    return stream.isatty() and "CI" not in os.environ


def clock(seconds: float) -> str:
    """A length of time as a clock shows it: ``1:30``, ``2:05:00``."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def for_stream(stream: IO[str] | None = None) -> Progress:
    """Bars if ``stream`` is a terminal (default: stderr), plain lines otherwise."""
    stream = stream or sys.stderr
    return Bars(stream) if watched(stream) else ProgressLines(stream)


@dataclass
class ProgressLines:
    """One line when a step begins, one when it ends, and one every ``every`` seconds between."""

    stream: IO[str]
    every: float = 15.0

    @contextmanager
    def step(self, name: str, total: float | None, unit: Unit = "items") -> Iterator[Step]:
        line = _Line(self, name, total, unit)
        size = f" ({amount(total, unit)})" if total and unit == "bytes" else ""
        self.say(f"{name}{size} ...")
        yield line
        self.say(f"{name}: done in {time.monotonic() - line.began:.0f} s")

    def say(self, text: str) -> None:
        print(f"icequake: {text}", file=self.stream, flush=True)


@dataclass
class _Line:
    lines: ProgressLines
    name: str
    total: float | None
    unit: Unit
    began: float = field(default_factory=time.monotonic)
    shown: float = field(default_factory=time.monotonic)

    def move_to(self, done: float, note: str = "") -> None:
        now = time.monotonic()
        if now - self.shown < self.lines.every:
            return
        self.shown = now
        share = f"{amount(done, self.unit)} of {amount(self.total, self.unit)}, " if self.total else ""
        self.lines.say(f"{self.name}: {share}{now - self.began:.0f} s" + (f", {note}" if note else ""))


@dataclass(frozen=True)
class Bars:
    """A bar for each step."""

    stream: IO[str]

    @contextmanager
    def step(self, name: str, total: float | None, unit: Unit = "items") -> Iterator[Step]:
        from rich.console import Console

        with bars_on(Console(file=self.stream), unit) as bars:
            task = bars.add_task(name, total=total, note="")

            class Bar:
                def move_to(self, done: float, note: str = "") -> None:
                    bars.update(task, completed=done, note=note)

            yield Bar()
            if total:
                bars.update(task, completed=total, note="")


def bars_on(console: "Console", unit: Unit = "items") -> "RichProgress":
    """Bars with a spinner, the amount done if the total is known, the elapsed time, and a note: the field ``note`` of each task."""
    # Imported here: a warm start shows nothing and should not pay for it, and MinIO is built before rich is installed.
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        MofNCompleteColumn,
        ProgressColumn,
        SpinnerColumn,
        Task,
        TextColumn,
        TimeElapsedColumn,
    )
    from rich.progress import Progress as RichProgress
    from rich.text import Text

    class Counted(MofNCompleteColumn):
        def render(self, task: Task) -> Text:
            return Text() if task.total is None else super().render(task)

    counted: ProgressColumn = DownloadColumn() if unit == "bytes" else Counted()
    columns: list[ProgressColumn] = [SpinnerColumn(), TextColumn("{task.description}"), BarColumn()]
    columns += [counted, TimeElapsedColumn(), TextColumn("[dim]{task.fields[note]}")]
    return RichProgress(*columns, console=console)


def amount(value: float, unit: Unit) -> str:
    return f"{value / 1e6:.0f} MB" if unit == "bytes" else f"{value:.0f}"
