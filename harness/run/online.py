"""The check that goes on while a run does: a thread that feeds events and captures to ``checkers.online`` and tells what is certain.

It reads nothing: the recorder passes on its events, the follower what its captures found. Each is put into a queue, and the queue is worked off
a few times a second, for a quarter of the time at most, so that writers' threads are not kept waiting. What it finds is for people who
watch; the verdict is the full check's.
"""

from __future__ import annotations

import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any

from checkers.evidence.history import Event
from checkers.evidence.tablelog import Growth
from checkers.online import Counts, Online, OnlineFinding
from checkers.online.certain import NAMELESS
from checkers.timeline.explain import count, listing
from harness.run.settings import OnlineSettings
from workloads.file.workload import Workload
from workloads.tables import TableSpec

WAKE_S = 0.25
"""Seconds between two looks at the queue, at least."""
SHARE = 3
"""After working for so long, the thread waits so many times as long, at least."""
RATE_S = 10.0
"""Seconds over which operations per second are counted."""


def live_line(rate: float, c: Counts) -> str:
    """How a run goes: ``14.2 op/s  310 commits  12 % retried  2 faults on  0 anomalies (310 commits checked)``."""
    retried = f"  {100 * c.retried / c.commits:.0f} % retried" if c.commits else ""
    faults = f"  {count(c.faults, 'fault')} on" if c.faults else ""
    unjudged = sum(c.not_judged.values())
    left = [count(unjudged, "commit or operation", "commits and operations")] if unjudged else []
    left += [count(len(c.closed), "whole table")] if c.closed else []
    judged = count(c.judged, "commit") + " checked"
    judged += f"; checked after the run only: {', '.join(left)}" if left else ""
    anomalies = count(c.anomalies, "anomaly", "anomalies")
    return f"{rate:.1f} op/s  {count(c.commits, 'commit')}{retried}{faults}  {anomalies} ({judged})"


def kinds_of(workload: Workload) -> frozenset[str]:
    """The kinds of operations that a run of the workload can invoke, the nemesis's included."""
    found = {f for phase in workload.resolved_phases() for f in phase.operations or ()}
    faults = workload.nemesis.all() if workload.nemesis is not None else ()
    return frozenset(found | {f.do for f in faults if f.do is not None})


class OnlineCheck:
    """Works in its own thread, in ``with``; :meth:`heard` and :meth:`grew` may be called from any thread and return at once.

    Args:
        kinds: of operations that the run can invoke.
        hide: removes secrets from a text.

    Attributes:
        error: why the check ended early, if it failed; the run goes on without it.
    """

    def __init__(
        self,
        tables: Iterable[TableSpec],
        kinds: Iterable[str],
        settings: OnlineSettings,
        hide: Callable[[str], str] = str,
    ) -> None:
        self._online = Online(tables, kinds)
        self._settings = settings
        self._hide = hide
        self._queue: queue.SimpleQueue[Event | Growth] = queue.SimpleQueue()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="online-check", daemon=True)
        self._shown = 0
        self._closed: frozenset[str] = frozenset()
        self._nameless = False
        self._rates: deque[tuple[float, int]] = deque()
        self._end_load: Callable[[str], None] | None = None
        self._began = time.monotonic()
        self.error: str | None = None

    def __enter__(self) -> OnlineCheck:
        self._began = time.monotonic()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def ends(self, load: Callable[[str], None]) -> None:
        """With ``stop``: what ends the load at the first anomaly, with the reason."""
        self._end_load = load

    def heard(self, event: Event) -> None:
        """The next event of the history."""
        self._queue.put(event)

    def grew(self, growth: Growth) -> None:
        """What a capture added to a log; the events that were recorded before have been heard."""
        self._queue.put(growth)

    def stop(self) -> None:
        """Work off what is left and end the thread; what comes then is not judged. Idempotent."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join()

    def finish(self) -> dict[str, Any]:
        """The run is over, and the logs were read to their ends: judge the rest.

        Returns:
            ``commits``, ``judged``, ``reads``, ``anomalies``: numbers; ``not_judged``: reason → number; ``closed``: table → reason;
            ``found``: the anomalies, each with ``name``, ``table``, ``ops``, ``snapshots``, ``keys`` and ``overtaken`` (whether the past of
            main has changed since); ``error``, if the check failed. JSON values.
        """
        self.stop()
        self._guarded(self._online.finish)
        self._tell()
        c = self._online.counts
        found = [
            {
                "name": f.name,
                "table": f.table,
                "ops": [f.op],
                "snapshots": [*f.snapshots],
                "keys": [*f.keys],
                "overtaken": self._online.overtaken(f),
            }
            for f in self._online.found
        ]
        numbers = {"commits": c.commits, "judged": c.judged, "reads": c.reads, "anomalies": c.anomalies}
        failed = {} if self.error is None else {"error": self.error}
        return {**numbers, "not_judged": dict(c.not_judged), "closed": dict(c.closed), "found": found, **failed}

    # --- the thread

    def _loop(self) -> None:
        due, pause = self._began + self._settings.every, WAKE_S
        while not self._ended.wait(pause):
            began = time.monotonic()
            self._guarded(self._work)
            self._tell()
            now = time.monotonic()
            if now >= due:
                due = now + self._settings.every
                self._settings.line(self._line(now))
            pause = max(WAKE_S, SHARE * (time.monotonic() - began))
        self._guarded(self._work)
        self._tell()

    def _guarded(self, work: Callable[[], None]) -> None:
        """A defect of the check must not end the run."""
        if self.error is None:
            try:
                work()
            except Exception as e:
                self.error = self._hide(f"{type(e).__name__}: {e}")
                self._settings.news(f"the check during the run failed ({self.error}); the run goes on without it")

    def _work(self) -> None:
        while True:
            try:
                new = self._queue.get_nowait()
            except queue.Empty:
                return
            if isinstance(new, Event):
                self._online.event(new)
            else:
                self._online.grew(new)

    def _tell(self) -> None:
        """Tell the anomalies that are new, and the tables that are closed since."""
        found: list[OnlineFinding] = self._online.found
        new, self._shown = found[self._shown :], len(found)
        for f in new:
            self._settings.news(self._hide(f"anomaly: {f}"))
        closed = {t: why for t, why in self._online.counts.closed.items() if t not in self._closed}
        self._closed |= closed.keys()
        for why in dict.fromkeys(closed.values()):
            if why == NAMELESS and self._nameless:
                continue  # with such an engine it comes to most tables, and the live line counts them
            self._nameless |= why == NAMELESS
            named = [t for t, reason in closed.items() if reason == why]
            which = f"table {named[0]} is" if len(named) == 1 else f"tables {listing(named)} are"
            them = "it" if len(named) == 1 else "them"
            further = "; further such tables are only counted" if why == NAMELESS else ""
            self._settings.news(
                f"{which} no longer checked while the run goes on: {why}; the check after the run judges all of {them}{further}"
            )
        if new and self._settings.stop and self._end_load is not None:
            self._end_load(f"stop-on-anomaly: {new[0].name} on table {new[0].table}")
            self._end_load = None

    def _line(self, now: float) -> str:
        counts = self._online.counts
        self._rates.append((now, counts.completed))
        while len(self._rates) > 2 and self._rates[1][0] <= now - RATE_S:
            self._rates.popleft()
        (then, before), (_, done) = self._rates[0], self._rates[-1]
        if then == now:
            then, before = self._began, 0
        return live_line((done - before) / max(1e-9, now - then), counts)
