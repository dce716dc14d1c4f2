"""What the captures prove: what the catalog's pointer named at a known time.

The reader looks at the clock, and then asks the catalog (``harness.tablefiles.iceberg.reader.TableReader.capture``). So a capture must name a
version that has every commit acknowledged before its time, and no capture may name an older version than the one before it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate

from checkers.evidence.history import Operation
from checkers.evidence.problem import METADATA
from checkers.evidence.tablelog import Capture, Commit, Metadata
from checkers.timeline.timeline import Timeline
from checkers.timeline.version_order import place


@dataclass(frozen=True, slots=True)
class StaleCapture:
    """A capture that named too old a version.

    Attributes:
        shown: the version that it named.
        operation, commit: acknowledged before, and first shown by a later version; None if only an earlier capture shows that it is stale.
        seen: the version that the earlier capture named; None if an operation shows it.
        more: number of other operations that it lacks.
    """

    capture: Capture
    shown: Metadata
    operation: Operation | None
    commit: Commit | None
    seen: Metadata | None
    more: int = 0


def stale_captures(t: Timeline) -> Iterator[StaleCapture]:
    """The captures that lack a commit acknowledged before they were asked for, or go back behind an earlier one."""
    versions = t.log.metadata
    places: dict[str, list[int]] = {}
    for n, m in enumerate(versions):
        places.setdefault(place(m.location), []).append(n)
    acked: list[tuple[int, int, Operation, Commit]] = []
    for o in t.ops:
        commits = t.commits.get(o.op)
        if o.type == "ok" and o.completed is not None and commits:
            first = min(commits, key=lambda c: c.metadata)
            acked.append((o.completed.time, first.metadata, o, first))
    acked.sort(key=lambda a: a[:2])
    times = [a[0] for a in acked]
    latest = [0, *accumulate((a[1] for a in acked), max)]
    newest = 0
    for capture in t.log.captures:
        named = places.get(place(capture.metadata)) if capture.metadata is not None else None
        if not named or any(p.code in METADATA for p in versions[named[-1]].problems):
            continue  # what it shows is not known
        later = [n for n in named if n >= newest]
        shown = later[0] if later else named[-1]
        before = bisect_left(times, capture.time)
        # The pointer may have come back to a version: the newest place of it counts.
        missed = [a for a in acked[:before] if a[1] > named[-1]] if latest[before] > named[-1] else []
        if missed:
            _, _, o, c = min(missed, key=lambda a: a[1])
            yield StaleCapture(capture, versions[named[-1]], o, c, None, len(missed) - 1)
        elif not later:
            yield StaleCapture(capture, versions[shown], None, None, versions[newest])
        newest = max(newest, shown)


def of_no_version(t: Timeline) -> list[Capture]:
    """Captures that named a file which the log does not have as a version, though the log says that it has all."""
    versions = t.log.metadata
    problems = [*t.log.problems, *(p for m in versions for p in m.problems)]
    if not t.log.complete or any(p.code in METADATA for p in problems):
        return []
    places = {place(m.location) for m in versions}
    return [c for c in t.log.captures if c.metadata is not None and place(c.metadata) not in places]


def without_table(t: Timeline) -> Iterator[tuple[Capture, Capture | None, Operation | None]]:
    """Captures that found no table between others that did, or although there was one: the capture, and what proves it.

    That is the last capture before it that found the table, or an operation that had committed to it before. Captures in a row count once.
    """
    captures = t.log.captures
    acks = [(o.completed.time, o) for o in t.ops if o.type == "ok" and o.completed is not None and t.commits.get(o.op)]
    first = min(acks, key=lambda a: a[0], default=None)
    found: Capture | None = None
    seen_again = False
    present = [c.metadata is not None for c in captures]
    for n, c in enumerate(captures):
        if c.metadata is not None:
            found, seen_again = c, False
            continue
        if not any(present[n:]):
            return  # gone for good
        proof = first[1] if first is not None and first[0] < c.time else None
        if (found is not None or proof is not None) and not seen_again:
            seen_again = True
            yield c, found, proof
