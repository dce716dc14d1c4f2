"""All tables while the run goes on, from the events and from what the captures add to the table logs."""

from __future__ import annotations

from collections.abc import Iterable

from checkers.evidence.history import NEMESIS, Event, Operation
from checkers.evidence.replace import replace
from checkers.evidence.tablelog import Growth
from checkers.online.certain import OnlineTable
from checkers.online.found import Counts, OnlineFinding
from checkers.online.window import KEPT
from workloads.operations.kinds import KINDS
from workloads.tables import TableSpec

MOST_KEPT = 1000
"""Anomalies that are kept; all are counted."""
MOST_REMEMBERED = 8 * KEPT
"""Operations of a table that are remembered after their end: eight for each commit, as most of a read-mostly run commit nothing."""


def outside(f: str) -> str | None:
    """Why tables with operations of a kind are not judged while the run goes on; None if they are."""
    kind = KINDS.get(f)
    if kind is None:
        return f"operations of kind {f} are not known"
    if kind.two_tables:
        return f"operations on two tables ({f})"
    if kind.goes_back:
        return f"rollbacks ({f})"
    return f"replaced tables ({f})" if kind.replaces else None


class Online:
    """Five anomalies of the checkers ``commits``, ``replay`` and ``reads``, step by step. Not thread-safe.

    Events come in the order of the history. What a capture adds comes after the events that were recorded before it ended: so the
    operation of each commit is known.

    Args:
        tables: the tables of the run.
        kinds: the kinds of operations that the run can invoke; tables are not judged if one of them is outside of what is understood here.
        kept, remembered: commits and ended operations of each table that are kept.

    Attributes:
        found: the anomalies that are certain, at most ``MOST_KEPT``.
        counts: how far it is.
    """

    def __init__(
        self,
        tables: Iterable[TableSpec],
        kinds: Iterable[str] = (),
        *,
        kept: int = KEPT,
        remembered: int = MOST_REMEMBERED,
    ) -> None:
        self.found: list[OnlineFinding] = []
        self.counts = Counts()
        bounds = {"kept": kept, "remembered": remembered}
        self._tables = {s.name: OnlineTable(s, self._tell, self.counts, **bounds) for s in tables}
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
            if (why := outside(e.f)) is not None:
                for t in self._tables.values():
                    t.close(why)
            table = self._tables.get(e.table or "")
            if table is not None:
                table.invoked(o)
        elif (begun := self._open.pop(e.op, None)) is not None:
            self.counts.completed += 1
            table = self._tables.get(begun.table or "")
            if table is not None:
                table.completed(replace(begun, type=e.type, result=e.value, error=e.error, completed=e))

    def grew(self, g: Growth) -> None:
        """A table's log gained something."""
        table = self._tables.get(g.table)
        if table is not None:
            table.grew(g)

    def overtaken(self, found: OnlineFinding) -> bool:
        """Whether the past of main has changed since an anomaly was told: only the full check knows what is left of it."""
        return self._tables[found.table].overtaken(found)

    def finish(self) -> None:
        """The run is over, and the logs were read to their ends."""
        for table in self._tables.values():
            table.finish()

    def _tell(self, found: OnlineFinding) -> None:
        self.counts.anomalies += 1
        if len(self.found) < MOST_KEPT:
            self.found.append(found)

    def _of_nemesis(self, e: Event) -> None:
        name = e.value.get("name") if isinstance(e.value, dict) else None
        if e.f == "heal":
            self._faults.clear()
        elif isinstance(name, str) and e.f.startswith("start-"):
            self._faults.add(name)
        elif isinstance(name, str) and e.f.startswith("stop-"):
            self._faults.discard(name)
        self.counts.faults = len(self._faults)
