"""The reads of one table: did every completed read return a state that the table had, and one that was still possible at that time?

A table is a register whose values are its states; commits write it, reads read it. States are numbered in the order in which they were
current (:attr:`Timeline.versions`, including those that a rollback removed from main). For a read invoked at event i, answered at e::

    state      0 ──── 1 ──── 2 ──── 3 ──── 4 ──── 5 ──── 6
                      │      └──── may be read ───┘      │
       a read or write that had ended before i           its operation was invoked after e
       proves state 2 by then: lower is *stale*          so higher is a *future read*

Reads are judged in the order of their ends, and each is assigned the **lowest** state that it can have seen: that state had certainly
been reached by then, which bounds every read invoked later. (A register whose order of writes is known can be checked for
linearizability greedily, read by read.) A read of one key is judged the same way, with that key's rows.

A time travel is a read of the history, which grows with every commit: the snapshot that it asked for must be the one that the
history answers at a metadata version within the same bounds (:mod:`checkers.timeline.past`), and the lowest such version was certainly reached.
A read of two tables names the snapshots that it found current: those, and not only its rows, must lie within the bounds, the rows
must be theirs, and it may not find its first table at an older snapshot the second time.

A read that equals no state is named after its content (:mod:`checkers.reads.nostate`). One that equals only states out of bounds is
named after the weakest promise that it breaks: ``read-your-writes``, ``non-monotonic-read``, ``stale-read``, ``future-read``.

States are compared by a hash: the sum of a 128-bit hash of each row. So hashing a commit costs only its own rows, a read its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from checkers.evidence.history import Operation
from checkers.reads.bounds import ReadBounds
from checkers.reads.named import Named
from checkers.reads.nostate import NoState
from checkers.timeline import two_tables
from checkers.timeline.states import _Span
from checkers.timeline.timeline import kind_of
from checkers.timeline.touched import reads_rows, touches
from checkers.verdict import Anomaly
from workloads.tables import COLUMNS, Row


@dataclass
class TableReads(ReadBounds):
    """All reads of one table."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.named = Named(self, self.read)
        self._no_state = NoState(self)

    def run(self) -> None:
        """Judge every completed read, in the order in which they ended."""
        done = [o for o in self.t.ops if o.type == "ok" and o.completed is not None]
        for o in sorted(done, key=lambda o: o.completed.index if o.completed is not None else 0):
            kind = kind_of(o)
            if reads_rows(o):
                rows, about = rows_of(o.result), touches(o, self.t.spec)
                named = two_tables.snapshots_read(o)
                if rows is None or about is None:
                    self.undecided["the result is not a list of rows"] += 1
                elif named:
                    self.named.current(o, rows, named)
                else:
                    self.read(o, rows, None if about.whole else about.ids[0])
            elif kind is not None and kind.travels:
                result = o.result if isinstance(o.result, dict) else {}
                rows, snapshot = rows_of(result.get("rows")), result.get("snapshot")
                if rows is None or not isinstance(snapshot, int):
                    self.undecided["the result is not a snapshot with a list of rows"] += 1
                else:
                    self.named.travel(o, snapshot, rows)

    # --- one read

    def read(self, o: Operation, rows: list[Row], key: int | None) -> None:
        assert o.completed is not None
        floor, ceiling = self.bounds(o)
        spans = self.states.spans(rows, key)
        seen = next((max(s.start, floor) for s in spans if s.stop > floor and s.start <= ceiling), None)
        if seen is not None and seen <= ceiling:
            self.judged += 1
            self.saw(o, seen)
            in_bounds = [_Span(max(x.start, floor), min(x.stop - 1, ceiling)) for x in spans]
            self.vanished_of(o, key, [x for x in in_bounds if x.start <= x.stop])
            return
        if self.t.rooted and self.states.any_unknown(floor, ceiling):
            self.undecided["the rows of a snapshot that it may have seen are not known"] += 1
        elif not self.doubtful(o):
            self.judged += 1
            found = self._misplaced(o, rows, key, spans, floor, ceiling) or self._no_state.found(
                o, rows, key, floor, ceiling
            )
            if found is not None:
                self.anomalies.append(found)

    def _misplaced(
        self, o: Operation, rows: list[Row], key: int | None, spans: list[_Span], floor: int, ceiling: int
    ) -> Anomaly | None:
        older = [s for s in spans if s.start < floor]
        if older:
            return self.old(o, rows, key, min(older[-1].stop, floor) - 1, floor)
        newer = [s for s in spans if s.start > ceiling]
        return self.early(o, rows, key, newer[0].start) if newer else None


def rows_of(result: Any) -> list[Row] | None:
    """A read's rows; None when the result has another form."""
    if not isinstance(result, list) or not all(isinstance(r, list | tuple) and len(r) == len(COLUMNS) for r in result):
        return None
    if any(isinstance(v, list | dict) for r in result for v in r):
        return None
    return [Row._make(r) for r in result]
