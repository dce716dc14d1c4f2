"""The ``pointer`` checker: is every accepted swap of a table's pointer in the pointer's history, and did each one replace the current
version?

An Iceberg commit is a compare-and-swap of one pointer. The proxies in front of the catalog see each swap: the metadata file that it
replaces, the new metadata file, and the catalog's answer. The table log is the pointer's history according to the metadata files (or
the catalog's own log). Two anomalies follow, independent of the workload:

* **lost-update**: two swaps that replaced the same metadata file were both accepted. One of the two is lost, although its writer
  got an acknowledgement: the catalog does not compare, or not atomically with the swap. (Lost update, P4 in Berenson et al., "A
  Critique of ANSI SQL Isolation Levels", 1995: here of the pointer.) If writers compete for the new file's name (a rename to the next
  version, the Hadoop catalog): two writers that both wrote that file.
* **lost-swap**: an accepted swap, answered before the history was read last, is not in it.

A run without proxies has no swaps and so no verdict on them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypedDict

from checkers.evidence.evidence import Evidence
from checkers.evidence.history import Operation
from checkers.evidence.paths import normalise
from checkers.evidence.problem import METADATA
from checkers.evidence.proxylog import PointerSwap
from checkers.evidence.tablelog import TableLog
from checkers.timeline import explain
from checkers.verdict import Anomaly, Checker, Validity, Verdict

LOST = "lost"
"""Key of the evidence of a lost update: the operations whose swaps are lost."""
MOST = 50
"""Number of anomalies per name and table that are listed one by one."""


class PointerTable(TypedDict):
    """Numbers of swaps that the catalog accepted."""

    swaps: int
    compared: int
    """Those that say which metadata file they replace, or fight for the new file's name."""


class PointerStats(TypedDict):
    """What the checker counted; tables without a swap are not there."""

    tables: dict[str, PointerTable]


class Pointer(Checker):
    """Accepted swaps that are lost."""

    name = "pointer"
    stats_type = PointerStats
    names = frozenset({"lost-update", "lost-swap"})

    def check(self, evidence: Evidence) -> Verdict:
        """Anomalies ``lost-update``, ``lost-swap``. ``stats``: :class:`PointerStats`."""
        anomalies: list[Anomaly] = []
        notes: list[str] = []
        stats: PointerStats = {"tables": {}}
        operations = {o.op: o for o in evidence.history.operations()}
        for table, swaps in sorted(evidence.swaps.items()):
            log = evidence.logs[table]
            compared = sum(s.base is not None or s.names_place for s in swaps)
            stats["tables"][table] = {"swaps": len(swaps), "compared": compared}
            judge = _TableSwaps(self.name, log, swaps, operations)
            found = [*judge.lost_updates(), *judge.lost_swaps()]
            anomalies += found[:MOST]
            if len(found) > MOST:
                notes.append(f"{table}: {len(found) - MOST} more anomalies are not shown")
            if judge.gap:
                notes.append(f"{table}: its history has gaps, so a swap that is not in it proves nothing")
        valid: Validity = not anomalies
        return Verdict(self.name, valid, tuple(anomalies), stats, tuple(notes))


class _TableSwaps:
    def __init__(
        self, checker: str, log: TableLog, swaps: Sequence[PointerSwap], operations: dict[str, Operation]
    ) -> None:
        self._checker = checker
        self._log = log
        self._swaps = swaps
        self._operations = operations
        self._chain = {normalise(m.location): m.n for m in log.metadata}
        self._told: set[str] = set()
        said = [*log.problems, *(p for m in log.metadata for p in m.problems)]
        self.gap = not log.complete or any(p.code in METADATA for p in said)

    def lost_updates(self) -> Iterator[Anomaly]:
        """Accepted swaps that replaced the same file."""
        rivals: dict[str, list[PointerSwap]] = {}
        for s in self._swaps:
            place = s.new if s.names_place else s.base
            if place is not None:
                rivals.setdefault(normalise(place), []).append(s)
        for place, swaps in rivals.items():
            if len(swaps) < 2 or (swaps[0].names_place and len({s.op for s in swaps}) < 2):
                continue
            self._told |= {normalise(s.new) for s in swaps}
            yield self._lost_update(place, swaps)

    def _lost_update(self, place: str, swaps: list[PointerSwap]) -> Anomaly:
        n = self._chain.get(place)
        version = _file(place) if n is None else f"metadata version {n} ({_file(place)})"
        told = explain.listing(f"{self._who(s)}, answered {s.answer} at {explain.ms(s.end)}" for s in swaps)
        if swaps[0].names_place:
            swaps = sorted(swaps, key=lambda s: s.end)  # the file holds the last one answered
            lost = swaps[:-1]
            text = (
                f"a lost update of the table's pointer: {len(swaps)} commits wrote the same file, {version}, and each was accepted: {told}. "
                "The file holds the last one; what the others were told is committed is gone. Whether the next version is free was looked "
                "at, and then it was taken, in two steps."
            )
        else:
            kept = [s for s in swaps if normalise(s.new) in self._chain]
            lost = [s for s in swaps if s not in kept] or swaps[:-1]
            whose = explain.listing(s.op or "one" for s in lost)
            text = (
                f"a lost update of the table's pointer: {len(swaps)} commits replaced {version}, and the catalog accepted each of them: "
                f"{told}. A pointer can be moved on from a version once. Its history goes on with "
                f"{explain.listing(_file(s.new) for s in kept) or 'none of the new versions'}, so {whose} "
                f"{'is' if len(lost) == 1 else 'are'} lost: the catalog does not compare what it replaces, or not in one step."
            )
        ops = tuple(dict.fromkeys(s.op for s in [*lost, *swaps] if s.op is not None))
        return Anomaly(
            "lost-update",
            self._checker,
            self._log.table,
            text,
            ops=ops,
            events=self._events(ops),
            files=tuple(dict.fromkeys([place, *(s.new for s in swaps)])),
            evidence={
                LOST: [s.op for s in lost if s.op is not None],
                "swaps": [{"op": s.op, "new": s.new, "answer": s.answer} for s in swaps],
            },
        )

    def lost_swaps(self) -> Iterator[Anomaly]:
        """Accepted swaps that the pointer's history does not have."""
        until = self._log.captured_until
        if self.gap or until is None:
            return
        for s in self._swaps:
            if s.end >= until or normalise(s.new) in self._chain or normalise(s.new) in self._told:
                continue
            base = "" if s.base is None else f" in place of {_file(s.base)}"
            ops = () if s.op is None else (s.op,)
            yield Anomaly(
                "lost-swap",
                self._checker,
                self._log.table,
                f"the catalog accepted {self._who(s)}{base}: it answered {s.answer} at {explain.ms(s.end)}. Yet none of the "
                f"{len(self._log.metadata)} versions that the pointer had up to {explain.ms(until)} is that file.",
                ops=ops,
                events=self._events(ops),
                files=(s.new,) if s.base is None else (s.base, s.new),
            )

    def _who(self, s: PointerSwap) -> str:
        o = self._operations.get(s.op or "")
        maker = "a commit of nobody's" if o is None else f"the {explain.operation(o)}"
        return maker if s.names_place else f"{maker} by {_file(s.new)}"

    def _events(self, ops: Sequence[str]) -> tuple[int, ...]:
        return tuple(i for op in ops if (o := self._operations.get(op)) is not None for i in o.indices)


def _file(location: str) -> str:
    return location.rpartition("/")[2]
