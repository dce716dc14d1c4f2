"""What ``order:`` in a workload file may say: who decides in which order the writers' requests reach the catalog."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import BeforeValidator

DEPTH = 3
"""Of ``priority`` without a number: two changes of priority, as most known bugs need at most three orderings."""
DEEPEST = 100
FREE = "free"
"""The order of a run that nobody decides, but which is recorded."""
ALLOWED = f"free, priority(D) with D from 1 to {DEEPEST}, coverage, or replay RUN, with the folder of a run or its recording.json"
_PRIORITY = re.compile(r"priority(?:\s*\(\s*(\d+)\s*\))?")


@dataclass(frozen=True, slots=True)
class Order:
    """Who decides.

    Attributes:
        kind: ``free``: nobody, and the order is recorded. ``priority``: a seeded scheduler.
            ``coverage``: a scheduler that seeks interleavings which were exercised least. ``replay``: a recorded run.
        depth: of ``priority``: one more than its changes of priority.
        run: of ``replay``: the path of the run's folder, or of a recording.
    """

    kind: Literal["free", "priority", "coverage", "replay"]
    depth: int = 1
    run: str = ""

    def __str__(self) -> str:
        words = {"priority": f"priority({self.depth})", "replay": f"replay {self.run}"}
        return words.get(self.kind, self.kind)


def parse(text: str) -> Order:
    """The order that a text means. Raises ValueError, with what is allowed."""
    words = text.strip()
    if words == "free":
        return Order("free")
    if words == "coverage":
        return Order("coverage")
    if (found := _PRIORITY.fullmatch(words)) is not None:
        depth = DEPTH if found[1] is None else int(found[1])
        if not 1 <= depth <= DEEPEST:
            raise ValueError(f"{words}: the depth must be from 1 to {DEEPEST}")
        return Order("priority", depth=depth)
    first, _, run = words.partition(" ")
    if first == "replay" and run.strip():
        return Order("replay", run=run.strip())
    if first == "replay":
        raise ValueError("replay needs a run: replay RUN, with the folder of a run or its recording.json")
    raise ValueError(f"must be {ALLOWED}, not {text!r}")


def _order(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"must be {ALLOWED}, not {value!r}")
    return str(parse(value))


OrderText = Annotated[str, BeforeValidator(_order)]
"""An order as a file has it."""
