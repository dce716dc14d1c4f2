"""What a command stands in that takes long: its voice, the details of an error in its folder, and how to go on when the user stops it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from harness.cli import stopping
from harness.cli.crash import details_in

if TYPE_CHECKING:
    from harness.cli.terminal import Voice


@dataclass
class RunningCommand:
    """A command that goes on.

    Attributes:
        way_on: how to go on, in words; asked when the user stops it, at the second signal, too.
        so_far: writes what people read of what is done, and says it in words; asked at the first signal only. None: nothing is done.
    """

    voice: Voice
    way_on: Callable[[], str]
    so_far: Callable[[], str] | None = None


@contextlib.contextmanager
def framed(
    into: Path, way_on: str, *, quiet: bool, unit: str = "operations", secrets: Iterable[str] = ()
) -> Iterator[RunningCommand]:
    """A frame for a command.

    Args:
        into: gets the details of an error, without ``secrets``.
        way_on: how to go on, until the frame's is set.
        unit: what is counted.

    Raises:
        Crash: any error inside.
        Stopped: the user stopped it; the line says what is done and how to go on.
    """
    from harness.cli.terminal import Voice

    with Voice(quiet=quiet, unit=unit) as voice, details_in(into, secrets):
        frame = RunningCommand(voice, lambda: way_on)
        stopping.current().way_on = lambda: frame.way_on()
        try:
            yield frame
        except KeyboardInterrupt as e:
            so_far = [] if frame.so_far is None else [frame.so_far()]
            raise stopping.Stopped("; ".join([*so_far, frame.way_on()])) from e
