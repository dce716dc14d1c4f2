"""The memory that a run uses."""

from __future__ import annotations

import contextlib
import threading

import psutil

SAMPLE_S = 5.0
"""A sample asks every process of the run, so it is not taken more often; a shorter peak is missed."""


class PeakMemory:
    """Samples the memory of this process and its descendants every five seconds; use in ``with``.

    Attributes:
        peak: the largest sum of resident set sizes seen, in bytes.
    """

    def __init__(self) -> None:
        self.peak = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._sample, name="memory", daemon=True)

    def __enter__(self) -> PeakMemory:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _sample(self) -> None:
        me = psutil.Process()
        while True:
            total = 0
            for p in [me, *me.children(recursive=True)]:
                with contextlib.suppress(psutil.Error):
                    total += p.memory_info().rss
            self.peak = max(self.peak, total)
            if self._stop.wait(SAMPLE_S):
                return
