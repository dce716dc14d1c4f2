"""How a command ends when the user stops it: Ctrl-C or SIGTERM ends it in order, a second one ends it at once.

The exit code is 130 after Ctrl-C and 143 after SIGTERM, as of a program that ends by the signal. The last line says which command goes
on from here: ``icequake check <folder>`` for a run.
"""

from __future__ import annotations

import errno
import os
import select
import signal
import sys
from collections.abc import Callable
from types import FrameType
from typing import NoReturn

NAMES = {signal.SIGINT: "Ctrl-C", signal.SIGTERM: "SIGTERM"}
SHOW_CURSOR = "\x1b[?25h"
"""A progress bar hides the cursor of a terminal; who ends at once must show it again."""


class Stopped(BaseException):
    """The command ended because the user stopped it. Nothing catches it as an error.

    Attributes:
        line: what was done, and the command that goes on.
    """

    def __init__(self, line: str) -> None:
        super().__init__(line)
        self.line = line


class Stopping:
    """The handler of both signals. The first signal raises KeyboardInterrupt in the main thread, the second ends the process.

    Watchdogs end the processes that the ended process leaves.

    Attributes:
        number: the first signal that came; None: none came.
        way_on: says how to go on; asked when the command ends.
    """

    def __init__(self) -> None:
        self.number: int | None = None
        self.way_on: Callable[[], str] = lambda: "run the same command again"

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if self.number is None:
            self.number = number
            line = "\n" if os.isatty(2) else ""  # not into the progress bar
            _write(f"{line}icequake: {NAMES[signal.Signals(number)]}: stopping; a second one ends at once\n")
            raise KeyboardInterrupt
        self.end(number)

    def end(self, number: int) -> NoReturn:
        """End the process now."""
        cursor = SHOW_CURSOR if os.isatty(2) else ""
        _write(f"{cursor}icequake: {ended(number)} at once; {self.way_on()}\n")
        os._exit(128 + number)

    def install(self) -> None:
        """Handle both signals from now on; one that the caller ignores, as ``nohup`` and ``&`` in a script do, stays ignored."""
        for number in NAMES:
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self)

    def report(self, line: str | None = None) -> int:
        """Print the last line of a command that was stopped; return the exit code."""
        number = signal.SIGINT if self.number is None else self.number
        sys.stdout.flush()
        print(f"icequake: {ended(number)}; {self.way_on() if line is None else line}", file=sys.stderr, flush=True)
        return 128 + number


CLOSED_PIPE = 128 + signal.SIGPIPE
"""The exit code of a program whose output nobody reads any more, as in ``icequake list runs | head``."""


def output_closed() -> bool:
    """Whether nobody reads standard output or standard error any more."""
    poll = select.poll()
    for number in (1, 2):
        poll.register(number, 0)
    return any(event & select.POLLERR for _, event in poll.poll(0))


def of_closed_pipe(end: SystemExit) -> bool:
    """Whether so Click or Rich ends a command whose output nobody reads any more; Rich has put another file in its place by then."""
    before = end.__context__
    return output_closed() or (isinstance(before, OSError) and before.errno == errno.EPIPE)


def end_closed_pipe() -> int:
    """Let nothing more be written to a pipe that nobody reads, also not when the process ends; return the exit code."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for number in (1, 2):
        os.dup2(nowhere, number)
    os.close(nowhere)
    return CLOSED_PIPE


def ended(number: int) -> str:
    """How a signal ended the command."""
    return f"stopped by {NAMES[signal.Signals(number)]}"


def current() -> Stopping:
    """The handler of this process; one that handles nothing if none is installed."""
    found = signal.getsignal(signal.SIGTERM)
    return found if isinstance(found, Stopping) else Stopping()


def _write(text: str) -> None:
    """Write past Python's buffers, which may be in use where a signal arrives."""
    try:
        os.write(2, text.encode(errors="replace"))
    except OSError:
        pass
