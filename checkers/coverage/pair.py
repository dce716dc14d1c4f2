"""A pair: an operation in a phase of its write, and the operation whose commit landed meanwhile on the same table.

The phases of a write, in the words of Iceberg's clients: it loads the table and scans it; it writes files; it loads the table again (a
refresh) and asks the catalog for the commit; if the catalog refuses, it refreshes and asks again::

    invoked      scan      refresh    refused    refresh    accepted    acknowledged
       │ before  │          │           │          │           │           │
       │  scan   │ scanned  │  commit   │ refused  │   retry   │   after   │
       └─────────┴──────────┴───────────┴──────────┴───────────┴───────────┘

A commit that lands in ``before scan`` is scanned; in ``scanned`` the first check finds it; in ``commit`` the catalog refuses; in
``refused`` the next check finds it; in ``retry`` the catalog refuses again; in ``after`` it builds on the write.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple, get_args

from workloads.engines.engines import SPARK
from workloads.tables import TableSpec

Phase = Literal["before scan", "scanned", "commit", "refused", "retry", "after"]
"""Where the first operation is: see the module's drawing."""
PHASES: tuple[Phase, ...] = get_args(Phase)
MEANT: dict[Phase, str] = {
    "before scan": "before it loads what it scans",
    "scanned": "after its scan, before the refresh of its first attempt",
    "commit": "after that refresh, before the catalog answers",
    "refused": "after a refusal, before the next refresh",
    "retry": "after that refresh, before the catalog answers",
    "after": "after its commit, before it is acknowledged",
}
Placement = Literal["same row", "same file", "same partition", "other partition", "whole table"]
"""Where the second operation worked, seen from the first: the nearest that is true. ``whole table``: one of them is about no rows or
data files, such as a schema change or a rewrite of manifests."""
PLACEMENTS: tuple[Placement, ...] = get_args(Placement)


class TableSetup(NamedTuple):
    """The properties of a table on which conflicts depend."""

    mode: str
    isolation: str
    format_version: int
    partitioned: bool

    @staticmethod
    def of(table: TableSpec) -> TableSetup:
        """That of a table of a workload file."""
        return TableSetup(table.mode, table.isolation, table.format_version, table.partitioned)

    def __str__(self) -> str:
        return f"{self.mode}, v{self.format_version}, {self.isolation}, {'' if self.partitioned else 'not '}partitioned"


class Pair(NamedTuple):
    """``first`` was in ``phase`` when a commit of ``second`` landed. Operations are kinds, with the engine before them if it is not Spark."""

    first: str
    phase: Phase
    second: str
    placement: Placement
    setup: TableSetup

    def __str__(self) -> str:
        return f"{self.second} while {self.first} is in {self.phase}; {self.placement}; {self.setup}"

    def to_json(self) -> list[object]:
        """As a list of plain values."""
        return [self.first, self.phase, self.second, self.placement, *self.setup]

    @staticmethod
    def from_json(record: Sequence[object]) -> Pair:
        """The inverse.

        Raises:
            ValueError: it is no pair, or names a phase or a placement that does not exist.
        """
        if not isinstance(record, list) or len(record) != 8:
            raise ValueError("a pair must be a list of 8 values")
        first, phase, second, placement, mode, isolation, version, partitioned = record
        words = (first, phase, second, placement, mode, isolation)
        if not all(isinstance(w, str) for w in words) or type(version) is not int or type(partitioned) is not bool:
            raise ValueError("a pair must be six words, a format version and whether the table is partitioned")
        if phase not in PHASES:
            raise ValueError(f"there is no phase {phase!r}; allowed: {', '.join(PHASES)}")
        if placement not in PLACEMENTS:
            raise ValueError(f"there is no placement {placement!r}; allowed: {', '.join(PLACEMENTS)}")
        return Pair(
            str(first), phase, str(second), placement, TableSetup(str(mode), str(isolation), version, partitioned)
        )


def label(kind: str, engine: str) -> str:
    """How a pair names an operation: ``insert``, ``duckdb insert``."""
    return kind if engine == SPARK else f"{engine} {kind}"
