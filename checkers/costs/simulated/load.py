"""Who commits what, how often, and from where."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf
from typing import Literal

from workloads.backoff import Backoff

Isolation = Literal["snapshot", "serializable"]


@dataclass(frozen=True, slots=True)
class ConflictOdds:
    """The probability (0 … 1) that a commit that came in between makes an operation invalid (``ValidationException``), by isolation level.

    Both are 0 for appends, and for writers that have a partition each and filter by it: nothing is validated, or nothing is found.
    Both are 1 if all writers change one row by copy-on-write. They differ where only serializable isolation looks at added files.
    """

    snapshot: float = 0.0
    serializable: float = 0.0

    def __post_init__(self) -> None:
        if not (0 <= self.snapshot <= 1 and 0 <= self.serializable <= 1):
            raise ValueError("the probability of a conflict must be from 0 to 1")

    def refuses(self, isolation: Isolation, commits: int) -> float:
        """The probability that validation refuses, with so many commits of others since it last looked."""
        each = self.serializable if isolation == "serializable" else self.snapshot
        return 1.0 - (1.0 - each) ** commits


@dataclass(frozen=True, slots=True)
class ClosedLoop:
    """Writers in a closed loop: each works on one operation at a time and pauses after it.

    Attributes:
        writers: their number.
        tables: over which they are spread evenly: writer *i* writes to table *i* mod ``tables``. Each has a pointer; the catalog is one.
        interval_s: the pause after an operation.
        pace_s: mean time between the planned beginnings of a writer's operations, each drawn from 0 to twice that. An operation begins late
            if the one before it ends late. Of a workload's ``rate`` it is writers / rate.
        backoff: what a writer does after a refused swap.
        conflicts: what validation refuses.
        isolation: of the operations.
        swap_latency_s: what a proxy holds back each swap before it reaches the catalog.
        round_trips_s: from the writers to the catalog and back; writer *i* is in region *i* mod their number. Refresh and swap need one each.
        own_cores: each writer has a machine of its own. The catalog's swap is then all that is computed on shared cores.

    Raises:
        ValueError: a number is out of range.
    """

    writers: int
    tables: int = 1
    interval_s: float = 0.0
    pace_s: float = 0.0
    backoff: Backoff = field(default_factory=Backoff)
    conflicts: ConflictOdds = field(default_factory=ConflictOdds)
    isolation: Isolation = "serializable"
    swap_latency_s: float = 0.0
    round_trips_s: tuple[float, ...] = (0.0,)
    own_cores: bool = False

    def __post_init__(self) -> None:
        if self.writers < 1 or self.tables < 1:
            raise ValueError("writers and tables must be 1 or more")
        if not self.round_trips_s:
            raise ValueError("round_trips_s must have one number at least")
        if min(self.interval_s, self.pace_s, self.swap_latency_s, *self.round_trips_s) < 0:
            raise ValueError("interval_s, pace_s, swap_latency_s and round_trips_s must be 0 or more")


@dataclass(frozen=True, slots=True)
class RunLength:
    """How long a run lasts: until its writers did so many operations, in equal shares, or invoke none any more after so many seconds.

    Raises:
        ValueError: not exactly one of the two is given, or it is not positive.
    """

    operations: int | None = None
    seconds: float | None = None

    def __post_init__(self) -> None:
        if (self.operations is None) == (self.seconds is None) or (self.operations or self.seconds or 0) <= 0:
            raise ValueError("give exactly one of operations and seconds, above 0")

    def share(self, writers: int, writer: int) -> float:
        """The operations of one writer; infinite if time ends the run."""
        if self.operations is None:
            return inf
        return self.operations // writers + (writer < self.operations % writers)
