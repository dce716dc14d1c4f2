"""A part of a job that may end in no way: it has a thread of its own, so that it can be left alone and the next job begins."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")
STEP_S = 0.2
"""Seconds between two looks while something is waited for: a signal is noticed as late as that."""


class Task(Generic[T]):
    """A call in a thread.

    Args:
        name: of the thread.
        call: made once.
        stop: as the attribute; given if others set it, too.

    Attributes:
        stop: set to end it soon. Whoever stops the one that waits for it sets it.
    """

    def __init__(self, name: str, call: Callable[[], T], stop: threading.Event | None = None) -> None:
        self.stop = stop or threading.Event()
        self._call = call
        self._over = threading.Event()
        self._value: list[T] = []
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    @property
    def is_over(self) -> bool:
        """Whether it has ended."""
        return self._over.is_set()

    def ends(self, within: float) -> bool:
        """Begin it; whether it ends within so many seconds."""
        try:
            self._thread.start()  # inside: a signal can come while `start` still waits for the thread
            return self.wait(within)
        except BaseException:
            self.stop.set()
            raise

    def wait(self, seconds: float) -> bool:
        """Wait for its end, in short steps, so that a signal is noticed; whether it has ended."""
        deadline = time.monotonic() + seconds
        while not self.is_over and time.monotonic() < deadline:
            self._over.wait(min(STEP_S, max(0.0, deadline - time.monotonic())))
        return self.is_over

    def result(self) -> T:
        """What the call returned. It has ended. Raises what the call raised."""
        if self._error is not None:
            raise self._error
        (value,) = self._value
        return value

    def _run(self) -> None:
        try:
            self._value.append(self._call())
        except BaseException as e:  # raised where the result is asked for
            self._error = e
        self._over.set()
