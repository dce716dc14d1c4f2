"""Writes the history while the run goes on; ``checkers.evidence.history`` says what is in it, and reads it."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from checkers.evidence.history import FORMAT, ErrorChain, Event, EventType, Process


class Recorder:
    """Stamps events and appends them to the history file, from any thread; use in ``with``.

    An event is handed to the operating system before :meth:`record` returns, so a ``kill -9`` of this process loses nothing;
    a separate thread fsyncs it within ``sync_interval`` seconds, so a power cut loses at most that much.

    Args:
        path: the file; must not exist.
        header: keys of the header line besides ``format``.
        clock: monotonic nanoseconds; time 0 of the run is the moment the recorder is made.
        sync_interval: seconds between fsyncs while there are new events.
        heard: gets every event, in order, when it is in the file; it must return at once.
    """

    def __init__(
        self,
        path: Path,
        header: dict[str, Any],
        *,
        clock: Callable[[], int] = time.monotonic_ns,
        sync_interval: float = 0.05,
        heard: Callable[[Event], None] | None = None,
    ) -> None:
        self._heard = heard
        self._clock = clock
        self._origin = clock()
        self._path = path
        self._file = path.open("xb", buffering=0)
        self._lock = threading.Lock()
        self._index = 0
        self._dirty = threading.Event()
        self._closed = threading.Event()
        self._interval = sync_interval
        self._error: OSError | None = None
        try:
            self._write({"format": FORMAT, **header})
        except BaseException:
            self._file.close()
            raise
        self._syncer = threading.Thread(target=self._sync_loop, name="history-sync", daemon=True)
        self._syncer.start()

    def now(self) -> int:
        """Nanoseconds since the start of the run."""
        return self._clock() - self._origin

    def record(
        self,
        type: EventType,
        process: Process,
        f: str,
        *,
        table: str | None = None,
        value: Any = None,
        op: str | None = None,
        error: ErrorChain | None = None,
        **extra: Any,
    ) -> Event:
        """Stamp and append one event.

        Raises:
            OSError: the file cannot be written (``ENOSPC`` for a full disk), now or at an earlier event.
        """
        with self._lock:
            if self._error is not None:
                raise self._error
            event = Event(self._index, self.now(), type, process, f, table, value, op, error, extra)
            try:
                self._write(event.to_json())
            except OSError as e:  # the line may be torn: nothing may follow it
                self._error = e
                raise
            self._index += 1
            if self._heard is not None:
                self._heard(event)
            return event

    def _write(self, record: dict[str, Any]) -> None:
        line = json.dumps(record, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"
        view = memoryview(line)
        try:
            while view:
                view = view[self._file.write(view) or 0 :]
        except OSError as e:
            raise self._named(e) from e
        self._dirty.set()

    def _named(self, e: OSError) -> OSError:
        return OSError(e.errno, e.strerror, str(self._path))

    def _sync_loop(self) -> None:
        while not self._closed.is_set():
            self._dirty.wait()
            self._dirty.clear()
            try:
                os.fsync(self._file.fileno())
            except OSError as e:
                self._error = self._named(e)
                return
            self._closed.wait(self._interval)

    def close(self) -> None:
        """Sync and close. Idempotent."""
        if self._file.closed:
            return
        self._closed.set()
        self._dirty.set()
        self._syncer.join()
        os.fsync(self._file.fileno())
        self._file.close()

    def __enter__(self) -> Recorder:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
