"""The schedule: seed and ``nemesis:`` of a workload in, faults in time out. It depends on nothing that happens in the run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

from nemesis.faults.fault import Fault
from workloads.file.workload import Nemesis


@dataclass(frozen=True, slots=True)
class PlannedFault:
    """A fault of the schedule.

    Attributes:
        pause: seconds from the end of the one before.
        duration: seconds that it is on.
    """

    pause: float
    fault: Fault
    duration: float


def schedule(nemesis: Nemesis, writers: int, seed: int) -> Iterator[PlannedFault]:
    """Its faults, without end."""
    faults = nemesis.all()
    rng = Random(f"{seed}/nemesis")
    weights = [f.weight for f in faults]
    while True:
        pause = nemesis.interval * rng.uniform(0.5, 1.5)
        fault = rng.choices(faults, weights)[0]
        duration = (fault.duration or nemesis.duration) * rng.uniform(0.75, 1.25)
        one = rng.randrange(writers)  # drawn for every fault: the draws of others do not depend on it
        if fault.whose == "one" and fault.writers is None:
            fault = fault.model_copy(update={"writers": (one,)})
        yield PlannedFault(pause, fault, duration)
