"""All tables while the run goes on, from the events and from what the captures add to the table logs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from checkers.evidence.history import NEMESIS, Event, Operation
from checkers.evidence.replace import replace
from checkers.evidence.tablelog import Growth
from checkers.online.found import Found
from checkers.online.table import OPERATIONS, OnlineTable, outside
from checkers.online.window import KEPT
from workloads.tables import TableSpec

MOST = 1000
"""Anomalies that are kept; all are counted."""


@dataclass(frozen=True, slots=True)
class Counts:
    """How far the run is, and what is certain so far.

    Attributes:
        completed: operations that ended, in all phases.
        commits, retried: snapshots on main that were captured, and those that took more than one attempt.
        judged, reads: commits and reads that were judged.
        anomalies: that are certain.
        not_judged: why → how many commits and operations are left to the full check.
    """

    completed: int
    commits: int
    retried: int
    judged: int
    reads: int
    faults: int
    anomalies: int
    not_judged: Mapping[str, int] = field(default_factory=dict)


class Online:
    """The checkers ``commits``, ``replay`` and ``reads``, step by step. Not thread-safe.

    Events come in the order of the history. What a capture adds comes after the events that were recorded before it ended: so the
    operation of each commit is known.

    Args:
        tables: the tables of the run.
        kinds: the kinds of operations that the run can invoke; tables are not judged if one of them is outside of what is understood here.
        kept, remembered: commits and ended operations of each table that are kept.

    Attributes:
        found: the anomalies that are certain, at most ``MOST``.
    """

    def __init__(
        self,
        tables: Iterable[TableSpec],
        kinds: Iterable[str] = (),
        *,
        kept: int = KEPT,
        remembered: int = OPERATIONS,
    ) -> None:
        self.found: list[Found] = []
        self._anomalies = self._completed = 0
        self._tables = {spec.name: OnlineTable(spec, self._tell, kept, remembered) for spec in tables}
        self._open: dict[str, Operation] = {}
        self._faults: set[str] = set()
        for why in sorted({why for f in kinds if (why := outside(f)) is not None}):
            for table in self._tables.values():
                table.close(why)

    def __len__(self) -> int:
        """Number of kept things, for bounds of memory; without ``found``."""
        return len(self._open) + len(self._faults) + sum(map(len, self._tables.values()))

    def event(self, e: Event) -> None:
        """The next event of the history."""
        if e.process == NEMESIS:
            self._of_nemesis(e)
        elif e.op is None:
            return
        elif e.type == "invoke":
            o = Operation(e.op, e.process, e.f, e.table, "info", e.value, None, None, e, None)
            self._open[e.op] = o
            table = self._tables.get(e.table or "")
            if (why := outside(e.f)) is not None:
                for t in self._tables.values():
                    t.close(why)
            if table is not None:
                table.invoked(o)
        elif (begun := self._open.pop(e.op, None)) is not None:
            self._completed += 1
            table = self._tables.get(begun.table or "")
            if table is not None:
                table.completed(replace(begun, type=e.type, result=e.value, error=e.error, completed=e))

    def grew(self, g: Growth) -> None:
        """A table's log gained something."""
        table = self._tables.get(g.table)
        if table is not None:
            table.grew(g)

    def overtaken(self, found: Found) -> bool:
        """Whether an anomaly that was told is about a commit that main has lost since (:mod:`checkers.online.table`)."""
        return self._tables[found.table].overtaken(found)

    def finish(self, complete: bool = True) -> None:
        """The run is over, and the logs were read to their ends.

        Args:
            complete: whether it reached its end; if not, the history may lack operations.
        """
        for table in self._tables.values():
            table.finish(complete)

    @property
    def counts(self) -> Counts:
        """How far it is."""
        tables = self._tables.values()
        not_judged: Counter[str] = Counter()
        for t in tables:
            not_judged.update(t.not_judged)
        return Counts(
            self._completed,
            sum(t.commits for t in tables),
            sum(t.retried for t in tables),
            sum(t.judged for t in tables),
            sum(t.reads for t in tables),
            len(self._faults),
            self._anomalies,
            not_judged,
        )

    def _tell(self, found: Found) -> None:
        self._anomalies += 1
        if len(self.found) < MOST:
            self.found.append(found)

    def _of_nemesis(self, e: Event) -> None:
        name = e.value.get("name") if isinstance(e.value, dict) else None
        if e.f == "heal":
            self._faults.clear()
        elif isinstance(name, str) and e.f.startswith("start-"):
            self._faults.add(name)
        elif isinstance(name, str) and e.f.startswith("stop-"):
            self._faults.discard(name)
