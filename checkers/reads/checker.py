"""The ``reads`` checker: each table is judged (:mod:`checkers.reads.judge`), and what only the whole run knows is added."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypedDict

from checkers.evidence.replace import replace
from checkers.reads.bounds import ReadsTable
from checkers.reads.judge import TableReads
from checkers.reads.named import NEVER_HAD
from checkers.unit import Part, TableChecker, Unit, unjudged
from checkers.verdict import Verdict


class ReadsStats(TypedDict):
    """What the checker counted."""

    tables: dict[str, ReadsTable]


class Reads(TableChecker):
    """Reads that equal no state the table had, or one that it no longer or not yet had."""

    name = "reads"
    stats_type = ReadsStats
    reducible = True
    names = frozenset(
        {
            "dirty-read",
            "fractured-read",
            "future-read",
            "non-monotonic-read",
            "phantom-value",
            "read-your-writes",
            "stale-read",
            "vanished-read",
            "wrong-time-travel",
            "no-state-read",
        }
    )

    def part(self, unit: Unit) -> Part:
        """Anomalies ``dirty-read``, ``fractured-read``, ``phantom-value``, ``stale-read``, ``non-monotonic-read``,
        ``read-your-writes``, ``future-read``, ``vanished-read``, ``wrong-time-travel``.

        ``stats``: :class:`ReadsStats`.
        """
        t = unit.timeline
        if t is None:
            return unjudged(unit)
        judge = TableReads(t, self.name)
        judge.run()
        notes = tuple(f"{t.name}: {n}" for n in judge.notes())
        more = _Snapshots(judge.nowhere, tuple(t.snapshots))
        return Part(t.name, tuple(judge.anomalies), notes, bool(judge.undecided), judge.stats(), more=more)

    def fold(self, parts: Sequence[Part]) -> Verdict:
        """As for any checker of tables; of a snapshot that a table never had, it says which other table has it."""
        asked = {s for p in parts if p.more is not None for s in p.more.nowhere.values()}
        home = {s: p.table for p in parts if asked and p.more is not None for s in p.more.own if s in asked}
        return super().fold([_with_home(p, home) for p in parts] if home else parts)


@dataclass(frozen=True)
class _Snapshots:
    """What the whole run decides of a table's reads.

    Attributes:
        nowhere: number of an anomaly → the snapshot that was read, and that the table never had.
        own: the snapshots of the table.
    """

    nowhere: Mapping[int, int]
    own: tuple[int, ...]


def _with_home(p: Part, home: Mapping[int, str]) -> Part:
    """The part whose anomalies say of which table a snapshot is (``home``) that their own table never had."""
    found = list(p.anomalies)
    for n, snapshot in p.more.nowhere.items() if p.more is not None else ():
        if snapshot in home:
            text = found[n].explanation.replace(NEVER_HAD, f"which is a snapshot of the table {home[snapshot]}", 1)
            found[n] = replace(found[n], explanation=text)
    return replace(p, anomalies=tuple(found))
