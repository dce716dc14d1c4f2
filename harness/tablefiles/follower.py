"""Keeps the table logs up to date during a run, so that a run that dies leaves what was committed until then.

A table's log begins with its first acknowledged commit (:meth:`Follower.committed`); then each table is captured every ``interval`` seconds.

It also makes expiry safe: ``expire_snapshots`` deletes files that the log may not have read yet, so before such an operation
:meth:`Follower.secure` reads the log up to the present and returns how old a snapshot must be to be expired.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from types import TracebackType
from typing import Protocol

from checkers.evidence.tablelog import Capture, Growth, TableLog
from harness.tablefiles.mark import FROM_THE_START, RecordMark

Pointer = Callable[[str], tuple[str | None, Sequence[str] | None]]
"""Table name → location of its current metadata.json, asked from the catalog, None if there is no such table; and all its
locations so far, oldest first, None if the catalog keeps no log of them."""


class LogReader(Protocol):
    """What reads the log of one table, of any format."""

    @property
    def newest_timestamp_ms(self) -> int | None:
        """The newest time of a snapshot that was captured (ms since the epoch, writers' clocks); None: no snapshot yet."""

    def capture(self, pointer: str | None, time: int, history: Sequence[str] | None = None) -> Capture:
        """Record what is not recorded yet: see :meth:`harness.tablefiles.iceberg.reader.TableReader.capture`."""

    def finish(self, pointer: str | None, time: int, history: Sequence[str] | None = None) -> TableLog:
        """Capture a last time, and end the log."""

    def grown(self, since: RecordMark = FROM_THE_START) -> tuple[Growth, RecordMark]:
        """What the log gained since a mark, and the next mark."""


class Follower:
    """Captures every table at its first acknowledged commit and each ``interval`` seconds, in its own thread; use in ``with``.

    Args:
        readers: table name → its reader.
        pointer: asks the catalog.
        now: the run's clock, ns since its start.
        interval: seconds from the beginning of one capture of all tables to the next; each costs some ms for each new commit. Slow
            captures are further apart: they take half of the time at most. None: nothing is read before the end, but for :meth:`secure`.
        grown: gets what each capture added to a log, in the order of the log, in the thread that captured; it must return at once.
    """

    def __init__(
        self,
        readers: Mapping[str, LogReader],
        pointer: Pointer,
        now: Callable[[], int],
        interval: float | None = 10.0,
        grown: Callable[[Growth], None] | None = None,
    ) -> None:
        self._readers = readers
        self._grown = grown
        self._marks = dict.fromkeys(readers, FROM_THE_START)
        self._pointer = pointer
        self._now = now
        self._interval = interval
        self._locks = {name: threading.Lock() for name in readers}
        self._begun: set[str] = set()
        self._asked: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        """Tables to capture now; None: the end."""
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="table-log", daemon=True)
        self.errors: list[str] = []
        """Captures that failed, with the reason; the next one catches up."""

    def __enter__(self) -> Follower:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        if kind is KeyboardInterrupt:  # the user stops the run: its log holds what was committed until then
            self._stop.clear()
            self._attempt(*self._readers)
            self._stop.set()

    def stop(self) -> None:
        """End the thread; idempotent."""
        self._stop.set()
        self._asked.put(None)
        if self._thread.is_alive():
            self._thread.join()

    def capture(self, table: str) -> None:
        """Read one table's log up to the present.

        Raises:
            OSError, RuntimeError: catalog or store did not answer.
        """
        with self._locks[table]:
            now = self._now()  # before asking for the pointer: everything acknowledged earlier must be in the log
            pointer, history = self._pointer(table)
            try:
                self._readers[table].capture(pointer, now, history)
            finally:
                self._tell(table)

    def committed(self, table: str) -> None:
        """A commit of ``table`` was acknowledged: if none of it was captured yet, the thread captures it now. Returns at once."""
        if self._interval is not None and table not in self._begun:
            self._begun.add(table)
            self._asked.put(table)

    def secure(self, table: str) -> str | None:
        """Capture, then return the latest safe ``older_than``: every snapshot before it is in the log with its rows.

        Returns:
            A timestamp in UTC, ``YYYY-mm-dd HH:MM:SS.mmm``; None when the table has no snapshot yet.
        """
        self.capture(table)
        newest = self._readers[table].newest_timestamp_ms
        if newest is None:
            return None
        return datetime.fromtimestamp(newest / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]

    def finish(self) -> dict[str, TableLog]:
        """Stop, read every table to its end, and close the logs."""
        self.stop()
        logs = {}
        for name, reader in self._readers.items():
            with self._locks[name]:
                now = self._now()
                pointer, history = self._pointer(name)
                try:
                    logs[name] = reader.finish(pointer, now, history)
                finally:
                    self._tell(name)
        return logs

    def _tell(self, table: str) -> None:
        """Pass on what the log gained; a capture that failed may have added whole versions."""
        if self._grown is not None:
            new, self._marks[table] = self._readers[table].grown(self._marks[table])
            if new.metadata or new.captures:
                self._grown(new)

    def _loop(self) -> None:
        due = time.monotonic() + (self._interval or 0.0)
        while not self._stop.is_set():
            try:
                table = self._asked.get(timeout=None if self._interval is None else max(0.0, due - time.monotonic()))
            except queue.Empty:
                began = time.monotonic()
                self._attempt(*self._readers)
                ended = time.monotonic()
                due = max(began + (self._interval or 0.0), ended + (ended - began))
            else:
                if table is not None and not self._attempt(table):
                    self._begun.discard(table)  # the next acknowledged commit asks again

    def _attempt(self, *tables: str) -> bool:
        """Capture these tables, unless the follower is stopped; whether all captures succeeded."""
        good = True
        for name in tables:
            if self._stop.is_set():
                break
            try:
                self.capture(name)
            except Exception as e:  # a capture may fail during a fault; the final one may not
                self.errors.append(f"{name}: {type(e).__name__}: {e}")
                good = False
        return good
