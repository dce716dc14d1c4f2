"""When faults were active: the intervals of a history between the nemesis event that starts a fault and the one that ends it.

The conventions for nemesis events (process ``nemesis``; their type does not matter, Jepsen's are all ``info``):

* ``f`` names the fault: ``start-partition`` or just ``partition`` begins it; ``stop-partition``, ``heal-partition``, ``end-…``,
  ``resume-…``, ``restart-…``, ``recover-…`` end it. The verb may be in ``value`` instead: ``"start"``, ``{"start": …}``; ``"stop"``,
  ``"heal"``, ``{"heal": …}``.
* a bare ``heal`` (``stop``, ``recover`` …) ends all faults.
* an ``invoke`` with a bare fault name starts the fault, and its own ``ok`` or ``fail`` ends it: a fault that is over when it is done,
  such as a kill. An ``info`` completion does not end it: it lasts until a heal.
* ``phase`` (and ``phase-…``) is not a fault.

A fault that nothing ends lasts to the end of the history. So an unknown fault name makes a window too long, never too short, and a
checker that judges only what happened *outside* windows stays right.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from checkers.evidence.history import NEMESIS, Event

_VERBS = "stop|end|heal|resume|restart|recover"
_STOP = re.compile(rf"^(?:{_VERBS})(?:[-_ :](.+))?$")
_START = re.compile(r"^(?:start|begin)[-_ :](.+)$")


@dataclass(frozen=True, slots=True)
class FaultWindow:
    """A fault that was active from ``start`` to ``end`` (ns since the start of the run); ``healed`` is False when nothing ended it."""

    name: str
    start: int
    end: int
    healed: bool

    def overlaps(self, start: int, end: int) -> bool:
        """Whether it contains a moment of ``[start, end]``."""
        return self.start <= end and start <= self.end


def _verb(e: Event) -> tuple[str, str | None]:
    """What an event does (``start``, ``stop``, ``toggle``) and to which fault; None: all."""
    stop = _STOP.match(e.f)
    if stop is not None:
        return "stop", stop[1]
    start = _START.match(e.f)
    name = start[1] if start is not None else e.f
    words = [e.value] if isinstance(e.value, str) else list(e.value) if isinstance(e.value, Mapping) else []
    if any(isinstance(w, str) and _STOP.match(w) for w in words):
        return "stop", name
    if start is not None or any(w in ("start", "begin") for w in words):
        return "start", name
    return "toggle", name


def windows(events: Iterable[Event]) -> tuple[FaultWindow, ...]:
    """The faults of a history, by start."""
    on: dict[str, tuple[int, bool]] = {}
    found: list[FaultWindow] = []
    last = 0
    for e in events:
        last = max(last, e.time)
        if e.process != NEMESIS or e.f == "phase" or e.f.startswith("phase-"):
            continue
        verb, name = _verb(e)
        if verb == "stop":
            for ended in [name] if name is not None else list(on):
                if ended in on:
                    found.append(FaultWindow(ended, on.pop(ended)[0], e.time, True))
        elif name is not None and name not in on:
            on[name] = (e.time, verb == "toggle" and e.type == "invoke")
        elif name is not None and verb == "toggle" and on[name][1] and e.type in ("ok", "fail"):
            found.append(FaultWindow(name, on.pop(name)[0], e.time, True))
    found += [FaultWindow(name, start, last, False) for name, (start, _) in on.items()]
    return tuple(sorted(found, key=lambda w: (w.start, w.end, w.name)))


def merged(found: Sequence[FaultWindow]) -> list[tuple[int, int]]:
    """The union of the windows as disjoint intervals, ascending."""
    out: list[tuple[int, int]] = []
    for w in sorted(found, key=lambda w: w.start):
        if out and w.start <= out[-1][1]:
            out[-1] = (out[-1][0], max(out[-1][1], w.end))
        else:
            out.append((w.start, w.end))
    return out


def outside(start: int, end: int, faulty: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """``[start, end]`` without the intervals ``faulty`` (disjoint, ascending)."""
    out: list[tuple[int, int]] = []
    begin = start
    for a, b in faulty:
        if b <= begin:
            continue
        if a >= end:
            break
        if a > begin:
            out.append((begin, a))
        begin = max(begin, b)
    if begin < end:
        out.append((begin, end))
    return out
