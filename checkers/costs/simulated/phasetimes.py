"""What an attempt to commit needs: of the cores, of the catalog, and of time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import inf, log

BETWEEN, ONCE = "between", "prepare"
OPERATION_PHASES = (BETWEEN, ONCE, "refresh", "validate", "manifests", "metadata", "swap")
"""The phases of an operation, in order. Two happen once: ``between`` is the time from the end of a writer's operation to its next one that
nobody asked for (recording, scheduling), ``prepare`` the data files and all that is in no attempt. The others happen in each attempt."""
HOT, COLD, RETRY = "hot", "cold", "retry"
SORTS = (HOT, COLD, RETRY)
"""Sorts of attempts: the first of an operation, on a version that the writer knows (its own last commit) or on one that it must
read; and the later ones, all on versions of others."""
SORTED = ("refresh", "validate", "manifests", "metadata")
"""Phases whose length depends on the sort of the attempt."""


@dataclass(frozen=True, slots=True)
class PhaseDemand:
    """What one visit to a phase needs on average, in seconds, if nobody else is there.

    Attributes:
        cpu_s: computing, by writer, catalog and store together, on cores that all of them share.
        wait_s: passes whatever the others do: disks, wires, timers.
        catalog_s: in one of the catalog's servers, one visit after the other: a lock on the pointer's row, a single-threaded server.
    """

    cpu_s: float = 0.0
    wait_s: float = 0.0
    catalog_s: float = 0.0

    @property
    def total_s(self) -> float:
        """With nobody in the way."""
        return self.cpu_s + self.wait_s + self.catalog_s


CONSTANT = (1.0,)
"""A shape: every visit takes the same time."""


def exponential_shape(steps: int = 200) -> tuple[float, ...]:
    """Exponentially distributed times, as so many equally likely ones with mean 1."""
    return shape([-log(1 - (i + 0.5) / steps) for i in range(steps)])


def shape(samples: Sequence[float]) -> tuple[float, ...]:
    """Samples as multiples of their mean, in ascending order; :data:`CONSTANT` if there are none or all are 0."""
    mean = sum(samples) / len(samples) if samples else 0.0
    return tuple(sorted(s / mean for s in samples)) if mean else CONSTANT


@dataclass(frozen=True, slots=True)
class ServiceTimes:
    """How writers, catalog and store serve a commit.

    Attributes:
        phases: name of :data:`OPERATION_PHASES` → its demand (of a hot attempt); one that is absent needs nothing.
        factors: name of a phase of :data:`SORTED` → sort of attempt → the multiple of the demand that it needs; 1 where nothing is said. A
            cold attempt reads metadata and manifest lists that a hot one knows; a retry of Iceberg's own does not write its manifests again.
        shapes: name of a phase → equally likely multiples of its demand, with mean 1; an absent one is :data:`CONSTANT`.
        cores: that writers, catalog and store share.
        catalog_servers: how many visits the catalog serves at the same time.
        connections: to the catalog that all writers share: requests hold one from end to end, on the wire too (``clients`` of Iceberg's JDBC
            catalog: 2 unless set otherwise; its REST client has 100).
        first_check: the share of a swap's work after which the catalog compares versions for the first time; it compares again at the
            end. A request that has lost by then ends there (Iceberg's JDBC catalog reads the row first; ``CatalogHandlers`` load the
            table and check the requirements). 1: it compares at the end only.
        late_refusal_s: what a request that lost between the two comparisons takes longer. A REST server made of ``CatalogHandlers`` over a
            metastore catalog then waits for a retry of its own (100–110 ms) before it notices that the requirements fail.
    """

    phases: Mapping[str, PhaseDemand]
    shapes: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    factors: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    cores: int = 2
    catalog_servers: int = 1
    connections: float = inf
    first_check: float = 1.0
    late_refusal_s: float = 0.0

    def __post_init__(self) -> None:
        unknown = sorted(({*self.phases} | {*self.shapes} | {*self.factors}) - {*OPERATION_PHASES})
        if unknown:
            raise ValueError(f"there is no phase {unknown[0]!r}; there are {', '.join(OPERATION_PHASES)}")
        if self.cores < 1 or self.catalog_servers < 1 or self.connections < 1:
            raise ValueError("cores, catalog_servers and connections must be 1 or more")
        if not 0 <= self.first_check <= 1:
            raise ValueError("first_check must be from 0 to 1")

    def demand(self, phase: str) -> PhaseDemand:
        """Of one phase."""
        return self.phases.get(phase, PhaseDemand())

    def factor(self, phase: str, sort: str) -> float:
        """The multiple of a phase's demand in an attempt of that sort."""
        return self.factors.get(phase, {}).get(sort, 1.0)

    @property
    def attempt_s(self) -> float:
        """One attempt of a writer alone, whose attempts are hot."""
        return sum(self.demand(p).total_s for p in OPERATION_PHASES if p not in (BETWEEN, ONCE))

    @property
    def operation_s(self) -> float:
        """An operation that commits at its first attempt, of a writer alone, with the time to the next one."""
        return self.demand(BETWEEN).total_s + self.demand(ONCE).total_s + self.attempt_s
