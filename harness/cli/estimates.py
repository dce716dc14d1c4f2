"""How long a command takes, by what the documents measured on two busy cores. It is said before something long begins, and decides nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from workloads.file.workload import Workload

STACK_S = 30.0
"""Seconds until a stack is up (docs/soak.md)."""
CELL_S = 1.4
"""Of a cell of a matrix: 1,952 in 45 minutes (docs/matrix.md)."""
ENGINES_CELL_S = 2.0
"""Of a cell with other engines: 467 in 15 minutes (docs/engine-matrix.md)."""
SCENARIO_S = 2.9
"""Of a scenario: 200 in 9 minutes 34 seconds (docs/scenarios.md)."""
DELTA_SCENARIO_S = 10.7
"""Of one with Delta tables, on a machine with much other work: 140 in 25 minutes (docs/scenarios.md)."""
MODEL_S = 7.0
"""Of a model of the library: 20 in two or three minutes (docs/model.md)."""
WARM_RUN_S = 13.2
"""Of a run on a warm stack, without its load: 50 runs of 12 seconds on two stacks in 22 minutes (docs/sweep.md)."""
COLD_RUN_S = STACK_S + WARM_RUN_S
"""Of a run that starts a stack of its own, without its load."""
REQUIREMENT_S = 2.2
"""Of a requirement of a catalog: 46 in half a minute to three minutes (docs/certify.md)."""
SEARCH = 2.4
"""Seconds of a search for a known defect, for each of its load: 1,290 of 530 in the results of docs/time-to-find.md."""
OPERATION_S = 0.5
"""Of an operation of a load that is counted: 240 of ``quick`` in two minutes (README.md)."""


def load_s(workload: Workload) -> float:
    """Seconds of a workload's load."""
    lengths = (phase.length for phase in workload.resolved_phases())
    return sum(length.time if length.time is not None else (length.ops or 0) * OPERATION_S for length in lengths)


def swept_s(runs: int, load: float, stacks: int) -> float:
    """Seconds of ``runs`` runs on warm stacks, each with a load of ``load`` seconds."""
    return STACK_S * stacks + runs * (WARM_RUN_S + load)


def words(seconds: float | None) -> str:
    """``about 22 minutes``; nothing is promised by a number that is more exact. None: nobody knows."""
    if seconds is None:
        return "an unknown time"
    if seconds < 90:
        return "about a minute" if seconds > 30 else "less than a minute"
    return f"about {seconds / 60:.0f} minutes" if seconds < 5400 else f"about {seconds / 3600:.1f} hours"
