"""Samples of memory and disk of a night (``samples.jsonl``), and what they are taken for: a run ends before its disk is full."""

from __future__ import annotations

import contextlib
import os
import shutil
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import psutil

from checkers.evidence.journal import Journal
from checkers.nights.record import Sample
from harness.campaign.task import Task
from harness.experiments.soakfolder import Room


@dataclass
class Sampler:
    """Takes samples in a thread of its own. Use in ``with``.

    Args:
        used: seconds that the night has taken.
        going: what runs on the stack.
        every: seconds between two samples.
    """

    journal: Journal[Sample]
    room: Room
    used: Callable[[], float]
    going: Callable[[], Task[Any] | None]
    every: float
    _over: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> Sampler:
        self._thread = threading.Thread(target=self._run, name="samples", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._over.wait(self.every):
            with contextlib.suppress(OSError):
                memory = own = rss()
                for child in psutil.Process().children(recursive=True):
                    with contextlib.suppress(psutil.Error):
                        memory += child.memory_info().rss
                free = shutil.disk_usage(self.room.into).free
                self.journal.append(Sample(round(self.used(), 1), own, memory, self.room.size, free))
            task = self.going()
            if task is not None and self.room.little() is not None:
                task.stop.set()


def rss() -> int:
    """Bytes of this process."""
    return int(psutil.Process(os.getpid()).memory_info().rss)
