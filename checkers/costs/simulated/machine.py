"""Events in simulated time: processes that wait, compute on shared cores, and queue at stations.

A process is a generator. What it yields says what it needs next; it goes on when it has got it:

``(DELAY, seconds)``     time that passes whatever the others do: a wait, a request on the wire
``(CPU, seconds)``       computing: with *n* processes on *c* cores each goes on at a rate of ``min(1, c / n)`` (processor sharing)
``(SEIZE, station)``     one of the station's servers, first come first served; the process gives it back by :meth:`Machine.free`

Cost: O(log n) for each event. Processor sharing needs no rescheduling: all who compute advance at the same rate, so a virtual clock that
runs at that rate orders their ends.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator
from dataclasses import dataclass, field
from heapq import heappop, heappush
from math import inf
from typing import Final

DELAY: Final = 0
CPU: Final = 1
SEIZE: Final = 2


@dataclass(slots=True)
class Station:
    """So many servers with one queue.

    Attributes:
        servers: of the station; ``inf``: nobody ever queues.
    """

    servers: float
    busy: int = 0
    waiting: deque[Process] = field(default_factory=deque)


Need = tuple[int, float | Station]
Process = Generator[Need, None, None]


class Machine:
    """The clock, the cores and the processes. ``now`` is in seconds."""

    def __init__(self, cores: float) -> None:
        self.now = 0.0
        self.events = 0
        self._cores = cores
        self._virtual = 0.0
        self._timed: list[tuple[float, int, Process]] = []
        self._computing: list[tuple[float, int, Process]] = []

    def start(self, process: Process, time: float) -> None:
        """The process begins at that time."""
        self.events += 1
        heappush(self._timed, (time, self.events, process))

    def free(self, station: Station) -> None:
        """Gives a server back; the next in the queue goes on at once."""
        if station.waiting:
            self.start(station.waiting.popleft(), self.now)
        else:
            station.busy -= 1

    def step(self) -> bool:
        """Until the next event; False if there is none."""
        timed, computing = self._timed, self._computing
        slow = max(1.0, len(computing) / self._cores)
        computed = self.now + (computing[0][0] - self._virtual) * slow if computing else inf
        if timed and timed[0][0] <= computed:
            time, _, process = heappop(timed)
            if computing:
                self._virtual += (time - self.now) / slow
            self.now = time
        elif computing:
            self._virtual, _, process = heappop(computing)
            self.now = computed
        else:
            return False
        for kind, what in process:
            self.events += 1
            if isinstance(what, Station):
                if what.busy < what.servers:
                    what.busy += 1
                    continue
                what.waiting.append(process)
            elif what <= 0:
                continue
            elif kind == CPU:
                heappush(computing, (self._virtual + what, self.events, process))
            else:
                heappush(timed, (self.now + what, self.events, process))
            break
        return True
