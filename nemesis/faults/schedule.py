"""The schedule: it turns faults and a seed into faults in time. It depends on nothing that happens in the run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random

from nemesis.faults.fault import Fault


@dataclass(frozen=True, slots=True)
class PlannedFault:
    """A fault of the schedule.

    Attributes:
        pause: seconds from the end of the previous fault.
        duration: seconds that it lasts.
    """

    pause: float
    fault: Fault
    duration: float


def schedule(
    faults: Sequence[Fault], interval: float, duration: float, engines: Sequence[str], seed: int
) -> Iterator[PlannedFault]:
    """Faults without end, each drawn from ``faults`` by its weight.

    Args:
        interval: seconds from the end of a fault to the start of the next; each pause is half of it to one and a half times it.
        duration: seconds that a fault lasts that has no duration of its own; each lasts up to a quarter less or more.
        engines: the engine of each writer. Of a fault that strikes ``chosen`` writer, that one is drawn; one that names an engine strikes
            its writers.
    """
    rng = Random(f"{seed}/nemesis")
    weights = [f.weight for f in faults]
    while True:
        pause = interval * rng.uniform(0.5, 1.5)
        fault = rng.choices(faults, weights)[0]
        lasts = (fault.duration or duration) * rng.uniform(0.75, 1.25)
        chosen = rng.randrange(len(engines))  # drawn for every fault, so that the other draws do not depend on `whose`
        if fault.whose == "one" and fault.writers is None:
            fault = fault.model_copy(update={"writers": (chosen,)})
        elif fault.whose != "all" and fault.writers is None:
            writers_of = tuple(n for n, name in enumerate(engines) if name == fault.whose)
            fault = fault.model_copy(update={"writers": writers_of})
        yield PlannedFault(pause, fault, lasts)
